"""A directory: work is done in a subdirectory of our own, which is removed on every way out."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from leadline import errors, zfs_programs
from leadline.archive.records import CacheDrop, Created, Layer
from leadline.errors import LeadlineError
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import Target
from leadline.probes.mounts import mount_of
from leadline.probes.stacks import layers_of_path
from leadline.probes.suspended import refuse_suspended, suspended_below
from leadline.probes.zfs import dumps_of
from leadline.runner.ports import Folder, Journal
from leadline.targets.local import OnThisMachine
from leadline.targets.page_cache import drop_page_cache
from leadline.units import format_size

OWNER_FILE = ".leadline-owner"
KEEP_FREE_SHARE = 0.10


class DirectoryTarget(OnThisMachine):
    """`dir:/path`."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self.parent = Path(target.parsed.location)
        self.folder: Path | None = None
        self._created: Created | None = None
        self._journal: Journal | None = None
        self._files: set[str] = set()
        self._below: tuple[Layer, ...] | None = None

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
                f"{str(self.parent)!r} is no directory",
                context=where,
                hint=f"for a block device write device:{self.parent}",
            )
        self._refuse_read_only(where)
        needed_bytes = footprint.total_bytes
        volume = os.statvfs(self.parent)
        free = volume.f_bavail * volume.f_frsize
        keep = int(volume.f_blocks * volume.f_frsize * KEEP_FREE_SHARE)
        if free - needed_bytes - claimed_bytes < keep:
            others = f"; other targets there need {format_size(claimed_bytes)}"
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"{str(self.parent)!r} has {format_size(free)} free; the plan needs "
                f"{format_size(needed_bytes)} and leaves {format_size(keep)} (10 %)"
                + (others if claimed_bytes else ""),
                context=where,
                hint="make the plan smaller with --size, or make room",
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
            why = "is mounted read-only" if read_only else "cannot be written by this user"
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the directory {str(self.parent)!r} {why}",
                context=where,
                hint="Leadline makes a folder of its own there, so it must be able to write",
            )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        token = secrets.token_hex(8)
        folder = self.parent / f"leadline-{run}-{token}"
        self._created = Created(target=self.name, path=str(folder), token=token)
        self._below = None
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
        # Asked at every trial, and looked at once: ZFS may have to be asked.
        if self._below is None:
            self._below = self._look_below()
        return self._below

    def _look_below(self) -> tuple[Layer, ...]:
        return layers_of_path(self.folder or self.parent)

    def dumps(self) -> Mapping[str, bytes]:
        return dumps_of(self.layers())

    def drop_caches(self) -> CacheDrop | None:
        return drop_page_cache(self._data())

    def _data(self) -> tuple[Path, ...]:
        """The files that hold our data."""
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
    """Remove a folder of ours: the files named (None: those of generated workloads), then itself.

    A folder without our token is not ours and stays, as does a file that we did not make.
    """
    folder = Path(created.path)
    pool = suspended_below(folder)
    if pool:
        why = zfs_programs.suspended(pool)
        return (f"{folder} could not be removed: {why.fact}; {why.hint}",)
    try:
        if not folder.is_dir() or folder.is_symlink():
            return ()
        owner = folder / OWNER_FILE
        if owner.is_file() and not owner.read_text("utf-8").rstrip().endswith(created.token):
            return (f"{folder} carries another owner's mark and was left alone",)
        prefix, suffix = DATA_FILE.split("{job}")
        for path in folder.iterdir():
            generated = path.name.startswith(prefix) and path.name.endswith(suffix)
            if path.name == OWNER_FILE or generated or (names is not None and path.name in names):
                path.unlink()
        strangers = sorted(path.name for path in folder.iterdir())
        if strangers:
            listed = ", ".join(strangers[:5])
            return (f"{folder} holds files that Leadline did not make and was kept: {listed}",)
        folder.rmdir()
    except OSError as error:
        return (f"{folder} could not be removed: {error.strerror or error}",)
    return ()
