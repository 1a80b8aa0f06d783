"""The target `dir:`: a folder of its own in a directory of this machine."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leadline import errors, files
from leadline.archive.records import CacheDrop, Created
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.mounts import mount_of
from leadline.probes.stacks import layers_of_path
from leadline.probes.zfs import dumps_of, refuse_suspended, suspended_below
from leadline.runner.ports import Folder, Journal
from leadline.targets import page_cache_drop
from leadline.targets.base import KEEP_FREE_SHARE, LocalTarget, require_free
from leadline.targets.file_system import Contents, FileSystem, Volume
from leadline.targets.naming import new_token, own_name, owner_mark

# posix_fadvise drops the pages of the given files alone and needs no privilege, unlike
# /proc/sys/vm/drop_caches; mincore(2) counts what is still resident. Neither reaches caches of the
# storage itself (ZFS's ARC, a RAID controller).
METHOD = "posix_fadvise(DONTNEED), read back by mincore"
# Dirty pages are written back first; the bound assumes the slowest target a prefill accepts.
_LEAST_BOUND_S = 120.0
_SLOWEST_BPS = 2 << 20


def drop_page_cache(
    paths: Sequence[Path], size_bytes: int = 0, *, bound_s: float = _LEAST_BOUND_S
) -> CacheDrop | None:
    """Write back and drop the pages of `paths` within `bound_s` and the time for `size_bytes`.

    None where the files cannot be mapped, so that the drop cannot be verified. Raises OSError if
    they cannot be read, TimeoutError if the storage accepts no writes.
    """
    command = (sys.executable, "-I", "-S", page_cache_drop.__file__, *map(str, paths))
    status, out, err = programs.run(*command, bound_s=bound_s + size_bytes / _SLOWEST_BPS)
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


class DirectoryTarget(LocalTarget):
    """`dir:/path`: I/O goes to a new subdirectory, which is always removed."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self.parent = Path(target.parsed.location)
        self.folder: Path | None = None
        # The folder, held open; its descriptor where another user could exchange the path.
        self._handle = -1
        self._descriptor: Path | None = None
        self._run = ""
        self._created: Created | None = None
        self._journal: Journal | None = None
        self._files: set[str] = set()
        self._layers: tuple[Layer, ...] | None = None
        # The mount of a cluster or server that fails must not keep the run from its end.
        self._file_system = FileSystem()

    @property
    def location(self) -> Folder:
        assert self.folder is not None, "acquire comes first"
        return Folder(path=self.folder, descriptor=self._descriptor)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        refuse_suspended(self.parent, where)
        volume = self._inspected(where)
        if not volume.is_directory:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"{str(self.parent)!r} is not a directory",
                context=where,
                hint=f"for a block device write device:{self.parent}",
            )
        if volume.read_only or not volume.writable:
            reason = (
                "is mounted read-only" if volume.read_only else "cannot be written by this user"
            )
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the directory {str(self.parent)!r} {reason}",
                context=where,
                hint="Leadline makes a folder there, so this user must be able to write",
            )
        require_free(
            repr(str(self.parent)),
            free_bytes=volume.free_bytes,
            needed_bytes=footprint.total_bytes,
            keep_bytes=int(volume.size_bytes * KEEP_FREE_SHARE),
            claimed_bytes=claimed_bytes,
            context=where,
        )

    def _inspected(self, where: list[str]) -> Volume:
        """Raises LeadlineError: `target-invalid`, `target-gone` without an answer."""
        try:
            return self._file_system.inspect(self.parent)
        except OSError as error:
            silent = isinstance(error, TimeoutError)
            raise LeadlineError(
                errors.TARGET_GONE if silent else errors.TARGET_INVALID,
                f"the directory {str(self.parent)!r} cannot be used: {error.strerror}",
                context=where,
                hint="check the server or cluster of this mount"
                if silent
                else "name a directory that exists; Leadline makes its own folder inside it",
            ) from error

    def volume(self) -> object:
        if suspended_below(self.parent):
            return None
        try:
            return self._file_system.inspect(self.parent).device
        except OSError:
            return None

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        token = new_token()
        folder = self.parent / own_name(run, token)
        self._run = run
        self._created = Created(target=self.name, path=str(folder), token=token)
        self._layers = None
        self._journal = journal
        self._files = set(footprint.files)
        journal.note_created(self._created)
        try:
            made = self._file_system.make(folder, owner_mark(run, token))
            if files.others_control(self.parent):
                self._handle = _open_made(folder, made)
                self._descriptor = Path(f"/proc/{os.getpid()}/fd/{self._handle}")
        except OSError as error:
            self._close()
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"no folder can be made in {str(self.parent)!r}: {error.strerror}",
                context=[f"target {self.name!r}"],
            ) from error
        self.folder = folder

    def present(self) -> bool:
        refuse_suspended(self.parent, [])
        return self.folder is not None and self._contents() is not None

    def _contents(self) -> Contents | None:
        """Raises OSError."""
        assert self.folder is not None, "acquire comes first"
        return self._file_system.look(self.folder)

    def _data(self) -> Mapping[str, int]:
        """The allocated bytes of the workloads' files, by name. Raises OSError."""
        found = self._contents()
        files = found.files if found else {}
        return {name: size for name, size in sorted(files.items()) if name in self._files}

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
        data, folder = self._data(), self.location.path
        return drop_page_cache([folder / name for name in data], sum(data.values()))

    def allocated_bytes(self) -> int | None:
        return sum(self._data().values())

    def filesystem(self) -> str:
        mount = mount_of(self.parent)
        return mount.filesystem if mount else ""

    def note_files(self) -> None:
        with suppress(OSError):
            found = self._contents()
            self._files |= set(found.files if found else ())

    def release(self) -> tuple[str, ...]:
        self._close()
        if self._created is None:
            return ()
        problems = remove_folder(self._created, self._run, self._file_system, self._files)
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = None
        return problems

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle, self._descriptor = -1, None


def _open_made(folder: Path, made: tuple[int, int]) -> int:
    """Open a folder that was just made with this device and inode. Raises OSError, also if another
    user has exchanged it meanwhile."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(handle)
    if (found.st_dev, found.st_ino) != made:
        os.close(handle)
        raise OSError(errno.ESTALE, "another user has exchanged the folder", str(folder))
    return handle


def remove_folder(
    created: Created,
    run: str,
    file_system: FileSystem | None = None,
    names: Collection[str] = (),
) -> tuple[str, ...]:
    """Remove a run's folder with the files of generated workloads and those in `names`.

    A folder without the run's mark stays, as does a file that Leadline did not make. Returns
    sentences about what failed, also without an answer of the file system.
    """
    folder = Path(created.path)
    pool = suspended_below(folder)
    if pool:
        error = programs.suspended_error(pool)
        return (f"{folder} could not be removed: {error.fact}; {error.hint}",)
    mark = owner_mark(run, created.token)
    return (file_system or FileSystem()).remove(folder, mark, names)
