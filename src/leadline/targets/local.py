"""Targets of this machine: a block device, and a folder in a directory."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop, Created
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import Target
from leadline.probes.mounts import block_devices, mount_of, mounted_at, signatures
from leadline.probes.stacks import layers_of_device, layers_of_path
from leadline.probes.zfs import dumps_of, refuse_suspended, suspended_below
from leadline.runner.ports import Device, Folder, Journal
from leadline.targets import page_cache_drop
from leadline.targets.base import KEEP_FREE_SHARE, LocalTarget, require_free, require_span

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


class DeviceTarget(LocalTarget):
    """`device:/dev/x`: written only with a consent that names it, and never while it is in use.

    `destroy` and `overwrite` are the devices that the user consented to.
    """

    def __init__(self, target: Target, destroy: Sequence[str], overwrite: Sequence[str]) -> None:
        self.name = target.name
        self.path = Path(target.parsed.location)
        self._may_write = str(self.path) in destroy
        self._may_overwrite = str(self.path) in overwrite
        self._writes = True
        self._handle = -1
        self._layers: tuple[Layer, ...] | None = None

    @property
    def location(self) -> Device:
        return Device(path=self.path, read_only=not self._writes)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        try:
            mode = self.path.stat().st_mode
        except OSError as error:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"the device {str(self.path)!r} cannot be used: {error.strerror}",
                context=where,
                hint="`lsblk` lists the block devices",
            ) from error
        if not stat.S_ISBLK(mode):
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"{str(self.path)!r} is not a block device",
                context=where,
                hint=f"for a directory write dir:{self.path}",
            )
        self._writes = footprint.writes or prefill
        if self._writes and not self._may_write:
            raise LeadlineError(
                errors.DEVICE_NOT_CONSENTED,
                f"the plan would destroy what is on {str(self.path)!r}",
                context=where,
                hint=f"to allow that: --destroy-data {self.path}; to read only, use workloads that "
                "only read, with --no-prefill (the audit then reports that the data read may never "
                "have been written)",
            )
        self._refuse_in_use(where)
        if self._writes and _read_only(self.path.stat().st_rdev):
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the device {str(self.path)!r} is read-only",
                context=[*where, "the kernel holds it read-only"],
                hint="attach it for writing (an RBD image: `rbd device map` without `-o ro`); "
                "to read only, use workloads that only read, with --no-prefill",
            )
        found = signatures(self.path)
        if self._writes and found and not self._may_overwrite:
            raise LeadlineError(
                errors.DEVICE_SIGNED,
                f"{str(self.path)!r} carries {', '.join(found)}",
                context=[*where, "it may hold a user's data"],
                hint=f"to overwrite it: --overwrite-signatures {self.path}",
            )
        self._refuse_small(footprint, where)

    def volume(self) -> object:
        return None

    def _refuse_in_use(self, where: list[str]) -> None:
        mounted = mounted_at(self.path)
        holders = [
            f"{device.name} ({device.kind})"
            for device in block_devices(self.path)
            if device.kind in ("lvm", "crypt", "mpath", "dm") or device.kind.startswith("raid")
        ]
        users = [f"mounted at {point}" for point in mounted]
        users += [f"part of {holder}" for holder in holders]
        if not users:
            try:
                os.close(os.open(self.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
            except PermissionError as error:
                raise LeadlineError(
                    errors.TARGET_READ_ONLY,
                    f"this user may not open {str(self.path)!r}",
                    context=where,
                    hint="run as root, or as a member of the group that owns the device",
                ) from error
            except OSError as error:
                users = [f"cannot be opened exclusively: {error.strerror}"]
        if users:
            raise LeadlineError(
                errors.DEVICE_IN_USE,
                f"{str(self.path)!r} is in use",
                context=[*where, *users],
                hint="no option overrides this; free the device first",
            )

    def _refuse_small(self, footprint: Footprint, where: list[str]) -> None:
        handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.lseek(handle, 0, os.SEEK_END)
        finally:
            os.close(handle)
        require_span(repr(str(self.path)), size, footprint.span, where)

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        """Open the device exclusively, so that no user can mount it during the run."""
        mode = os.O_RDWR if self._writes else os.O_RDONLY
        try:
            self._handle = os.open(self.path, mode | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            kind = errors.TARGET_READ_ONLY if error.errno in (1, 13, 30) else errors.DEVICE_IN_USE
            raise LeadlineError(
                kind,
                f"{str(self.path)!r} cannot be opened exclusively: {error.strerror}",
                context=[f"target {self.name!r}"],
            ) from error

    def present(self) -> bool:
        try:
            named, held = self.path.stat(), os.fstat(self._handle)
            return stat.S_ISBLK(named.st_mode) and named.st_rdev == held.st_rdev
        except OSError:
            return False

    def layers(self) -> tuple[Layer, ...]:
        # Every trial needs them; reading them once saves a query of ZFS.
        if self._layers is None:
            self._layers = layers_of_device(self.path.resolve().name)
        return self._layers

    def dumps(self) -> Mapping[str, bytes]:
        return dumps_of(self.layers())

    def drop_caches(self) -> CacheDrop | None:
        return drop_page_cache((self.path,))

    def allocated_bytes(self) -> int | None:
        return None  # a device does not report which parts were written

    def filesystem(self) -> str:
        return ""

    def note_files(self) -> None:
        return

    def release(self) -> tuple[str, ...]:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        return ()


def _read_only(number: int) -> bool:
    """Whether the kernel holds the device read-only; opening it for writing succeeds anyway."""
    flag = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/ro")
    try:
        return flag.read_text().strip() == "1"
    except OSError:
        return False


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
            return ()
        owner = folder / OWNER_FILE
        if owner.is_file() and not owner.read_text("utf-8").rstrip().endswith(created.token):
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
    except OSError as error:
        return (f"{folder} could not be removed: {error.strerror or error}",)
    return ()
