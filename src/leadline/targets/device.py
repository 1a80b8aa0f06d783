"""The target `device:`: a block device, held by its identity from the inspection on.

The name of a device can come to mean another device while a run goes on: hot-plug, udev, a rename.
So every program gets the descriptor that is held here (`/proc/PID/fd/N`), never the name again.
And a device can come into use, or get a file system: holding it exclusively stops no plain write.
So every look is repeated under that descriptor right before the first byte is written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.block_use import BlockIdentity, find_users, identify, kernel_name
from leadline.probes.mounts import signatures
from leadline.probes.stacks import layers_of_device
from leadline.probes.zfs import dumps_of
from leadline.runner.ports import Device, Journal
from leadline.targets.base import LocalTarget, require_span
from leadline.targets.local import drop_page_cache


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
        self._identity: BlockIdentity | None = None
        self._handle = -1
        self._layers: tuple[Layer, ...] | None = None

    @property
    def location(self) -> Device:
        return Device(path=self.path, descriptor=self._descriptor, read_only=not self._writes)

    @property
    def _descriptor(self) -> Path:
        """The held device, for programs of this user."""
        assert self._handle >= 0, "acquire comes first"
        return Path(f"/proc/{os.getpid()}/fd/{self._handle}")

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
        handle = self._open(os.O_RDONLY)
        try:
            identity = self._look(handle)
        finally:
            os.close(handle)
        require_span(repr(str(self.path)), identity.size_bytes, footprint.span, where)
        self._identity = identity

    def _look(self, handle: int) -> BlockIdentity:
        """The identity of the open device. Raises LeadlineError where it is another one than
        before, in use, not writable, or carries what may be a user's data."""
        where = [f"target {self.name!r}"]
        identity = identify(handle)
        if self._identity is not None and self._identity != identity:
            raise self._exchanged(identity)
        self._refuse_in_use(identity)
        if not self._writes:
            return identity
        if _read_only(identity.number):
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the device {str(self.path)!r} is read-only",
                context=[*where, "the kernel holds it read-only"],
                hint="attach it for writing (an RBD image: `rbd device map` without `-o ro`); "
                "to read only, use workloads that only read, with --no-prefill",
            )
        if self._may_overwrite:
            return identity
        present = self._signatures(handle)
        if present:
            raise LeadlineError(
                errors.DEVICE_SIGNED,
                f"{str(self.path)!r} carries {', '.join(present)}",
                context=[*where, "it may hold a user's data"],
                hint=f"to overwrite it: --overwrite-signatures {self.path}",
            )
        return identity

    def _signatures(self, handle: int) -> tuple[str, ...]:
        # Pages of an earlier look would hide what another machine wrote to a shared device.
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        return signatures(self.path, Path(f"/proc/{os.getpid()}/fd/{handle}"))

    def volume(self) -> object:
        return None

    def _open(self, flags: int) -> int:
        """Open the device by its name, exclusively: nothing can mount it then."""
        try:
            return os.open(self.path, flags | os.O_EXCL | os.O_CLOEXEC)
        except PermissionError as error:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"this user may not open {str(self.path)!r}",
                context=[f"target {self.name!r}"],
                hint="run as root, or as a member of the group that owns the device",
            ) from error
        except OSError as error:
            if error.errno != errno.EBUSY:
                read_only = error.errno == errno.EROFS
                kind = errors.TARGET_READ_ONLY if read_only else errors.TARGET_INVALID
                raise LeadlineError(
                    kind,
                    f"{str(self.path)!r} cannot be opened: {error.strerror}",
                    context=[f"target {self.name!r}"],
                ) from error
            users = find_users(self.path.stat().st_rdev, self.path)
            raise self._in_use(
                users or (f"cannot be opened exclusively: {error.strerror}",)
            ) from error

    def _in_use(self, users: Sequence[str]) -> LeadlineError:
        return LeadlineError(
            errors.DEVICE_IN_USE,
            f"{str(self.path)!r} is in use",
            context=[f"target {self.name!r}", *users],
            hint="no option overrides this; free the device first",
        )

    def _refuse_in_use(self, identity: BlockIdentity) -> None:
        users = find_users(identity.number, self.path)
        if users:
            raise self._in_use(users)

    def _exchanged(self, now: BlockIdentity) -> LeadlineError:
        return LeadlineError(
            errors.DEVICE_EXCHANGED,
            f"{str(self.path)!r} is not the device that was inspected",
            context=[f"target {self.name!r}", f"it was {self._identity}, it is {now} now"],
            hint="name it in a way that lasts, as in /dev/disk/by-id, and start again",
        )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        """Open the device exclusively, so that no user can mount it during the run, and look at it
        as the inspection did. Nothing was written yet if it is refused."""
        assert self._identity is not None, "inspect comes first"
        handle = self._open(os.O_RDWR if self._writes else os.O_RDONLY)
        try:
            self._look(handle)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def look_again(self) -> None:
        self._look(self._handle)

    def present(self) -> bool:
        """Whether the name still means the held device. Raises LeadlineError(`device-in-use`)."""
        try:
            named = self.path.stat()
            held = identify(self._handle)
        except OSError:
            return False
        if held != self._identity or not stat.S_ISBLK(named.st_mode):
            return False
        if named.st_rdev != held.number:
            return False
        self._refuse_in_use(held)
        return True

    def layers(self) -> tuple[Layer, ...]:
        # Every trial needs them; reading them once saves a query of ZFS.
        if self._layers is None:
            assert self._identity is not None, "acquire comes first"
            self._layers = layers_of_device(kernel_name(self._identity.number))
        return self._layers

    def dumps(self) -> Mapping[str, bytes]:
        return dumps_of(self.layers())

    def drop_caches(self) -> CacheDrop | None:
        return drop_page_cache((self._descriptor,))

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
