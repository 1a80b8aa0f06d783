"""The target `dir:`: a folder of its own in a directory of this machine."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop, Created
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.files import sync_folder
from leadline.inventory.layer import Layer
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import Target
from leadline.probes.mounts import mount_of
from leadline.probes.stacks import layers_of_path
from leadline.probes.zfs import dumps_of, refuse_suspended, suspended_below
from leadline.runner.ports import Folder, Journal
from leadline.targets import page_cache_drop
from leadline.targets.base import KEEP_FREE_SHARE, LocalTarget, require_free

# posix_fadvise drops the pages of the given files alone and needs no privilege, unlike
# /proc/sys/vm/drop_caches; mincore(2) counts what is still resident. Neither reaches caches of the
# storage itself (ZFS's ARC, a RAID controller).
METHOD = "posix_fadvise(DONTNEED), read back by mincore"
# Dirty pages are written back first; the bound assumes the slowest target a prefill accepts.
_LEAST_BOUND_S = 120.0
_SLOWEST_BPS = 2 << 20


def drop_page_cache(paths: Sequence[Path], *, bound_s: float = _LEAST_BOUND_S) -> CacheDrop | None:
    """Write back and drop the pages of `paths` within `bound_s` and the time for their size.

    None where the files cannot be mapped, so that the drop cannot be verified. Raises OSError if
    they cannot be read, TimeoutError if the storage accepts no writes.
    """
    size = sum(path.stat().st_size for path in paths)
    command = (sys.executable, "-I", "-S", page_cache_drop.__file__, *map(str, paths))
    status, out, err = programs.run(*command, bound_s=bound_s + size / _SLOWEST_BPS)
    if status is None:
        raise TimeoutError(errno.ETIMEDOUT, "dirty pages do not reach their storage")
    if status != 0:
        lines = err.strip().splitlines()[-1:] or [f"exit status {status}"]
        raise OSError(errno.EIO, f"dropping the page cache failed: {lines[0]}")
    answer = json.loads(out)
    if isinstance(answer, dict):
        raise OSError(answer["errno"], os.strerror(answer["errno"]), answer["path"])
    if answer is None:
        return None
    before, after = answer
    return CacheDrop(method=METHOD, resident_before_bytes=before, resident_after_bytes=after)


OWNER_FILE = ".leadline-owner"


class DirectoryTarget(LocalTarget):
    """`dir:/path`: I/O goes to a new subdirectory, which is always removed."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self.parent = Path(target.parsed.location)
        self.folder: Path | None = None
        self._created: Created | None = None
        self._journal: Journal | None = None
        self._files: set[str] = set()
        self._layers: tuple[Layer, ...] | None = None

    @property
    def location(self) -> Folder:
        assert self.folder is not None, "acquire comes first"
        return Folder(path=self.folder)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        refuse_suspended(self.parent, where)
        try:
            mode = self.parent.stat().st_mode
        except OSError as error:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"the directory {str(self.parent)!r} cannot be used: {error.strerror}",
                context=where,
                hint="name a directory that exists; Leadline makes its own folder inside it",
            ) from error
        if not stat.S_ISDIR(mode):
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"{str(self.parent)!r} is not a directory",
                context=where,
                hint=f"for a block device write device:{self.parent}",
            )
        self._refuse_read_only(where)
        volume = os.statvfs(self.parent)
        require_free(
            repr(str(self.parent)),
            free_bytes=volume.f_bavail * volume.f_frsize,
            needed_bytes=footprint.total_bytes,
            keep_bytes=int(volume.f_blocks * volume.f_frsize * KEEP_FREE_SHARE),
            claimed_bytes=claimed_bytes,
            context=where,
        )

    def volume(self) -> object:
        if suspended_below(self.parent):
            return None
        try:
            return self.parent.stat().st_dev
        except OSError:
            return None

    def _refuse_read_only(self, where: list[str]) -> None:
        read_only = os.statvfs(self.parent).f_flag & os.ST_RDONLY
        if read_only or not os.access(self.parent, os.W_OK | os.X_OK):
            reason = "is mounted read-only" if read_only else "cannot be written by this user"
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the directory {str(self.parent)!r} {reason}",
                context=where,
                hint="Leadline makes a folder there, so this user must be able to write",
            )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        token = secrets.token_hex(8)
        folder = self.parent / f"leadline-{run}-{token}"
        self._created = Created(target=self.name, path=str(folder), token=token)
        self._layers = None
        self._journal = journal
        self._files = set(footprint.files)
        journal.note_created(self._created)
        try:
            folder.mkdir()
            (folder / OWNER_FILE).write_text(f"{run} {token}\n", encoding="utf-8")
        except OSError as error:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"no folder can be made in {str(self.parent)!r}: {error.strerror}",
                context=[f"target {self.name!r}"],
            ) from error
        self.folder = folder

    def present(self) -> bool:
        refuse_suspended(self.parent, [])
        return self.folder is not None and (self.folder / OWNER_FILE).is_file()

    def layers(self) -> tuple[Layer, ...]:
        # Every trial needs them; reading them once saves a query of ZFS.
        if self._layers is None:
            self._layers = self._read_layers()
        return self._layers

    def _read_layers(self) -> tuple[Layer, ...]:
        return layers_of_path(self.folder or self.parent)

    def dumps(self) -> Mapping[str, bytes]:
        return dumps_of(self.layers())

    def drop_caches(self) -> CacheDrop | None:
        return drop_page_cache(self._data())

    def _data(self) -> tuple[Path, ...]:
        """The files of the workloads' data."""
        assert self.folder is not None
        return tuple(
            path
            for path in sorted(self.folder.iterdir())
            if path.name in self._files and path.is_file()
        )

    def allocated_bytes(self) -> int | None:
        return sum(path.stat().st_blocks * 512 for path in self._data())

    def filesystem(self) -> str:
        mount = mount_of(self.parent)
        return mount.filesystem if mount else ""

    def note_files(self) -> None:
        assert self.folder is not None
        try:
            found = {path.name for path in self.folder.iterdir() if path.is_file()}
        except OSError:
            return
        self._files |= found - {OWNER_FILE}

    def release(self) -> tuple[str, ...]:
        if self._created is None:
            return ()
        problems = remove_folder(self._created, self._files)
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = None
        return problems


def remove_folder(created: Created, names: set[str] | None = None) -> tuple[str, ...]:
    """Remove a folder with the files in `names` (None: those of generated workloads alone).

    A folder without the run's token stays, as does a file that Leadline did not make.
    """
    folder = Path(created.path)
    pool = suspended_below(folder)
    if pool:
        error = programs.suspended_error(pool)
        return (f"{folder} could not be removed: {error.fact}; {error.hint}",)
    try:
        if not folder.is_dir() or folder.is_symlink():
            _keep_removed(folder)
            return ()
        if _is_of_another(folder, created):
            return (f"{folder} carries the mark of another owner and was kept",)
        prefix, suffix = DATA_FILE.split("{job}")
        for path in folder.iterdir():
            generated = path.name.startswith(prefix) and path.name.endswith(suffix)
            if path.name == OWNER_FILE or generated or (names is not None and path.name in names):
                path.unlink()
        foreign = sorted(path.name for path in folder.iterdir())
        if foreign:
            listed = ", ".join(foreign[:5])
            return (f"{folder} holds files that Leadline did not make and was kept: {listed}",)
        folder.rmdir()
        _keep_removed(folder)
    except OSError as error:
        return (f"{folder} could not be removed: {error.strerror or error}",)
    return ()


def _is_of_another(folder: Path, created: Created) -> bool:
    """Whether a folder carries another mark than the run's; a power cut may have torn the mark."""
    owner = folder / OWNER_FILE
    if not owner.is_file():
        return False
    mark = owner.read_text("utf-8", "replace").rstrip("\n\0")
    run = folder.name.removeprefix("leadline-").removesuffix(f"-{created.token}")
    return not (mark.endswith(created.token) or f"{run} {created.token}".startswith(mark))


def _keep_removed(folder: Path) -> None:
    """Make it durable that a folder is gone, before the journal says so."""
    with suppress(FileNotFoundError):
        sync_folder(folder.parent)
