"""A block device: written only with a consent that names it, and never while anyone uses it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop, Layer
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.mounts import block_devices, mounted_at, signatures
from leadline.probes.stacks import layers_of_device
from leadline.probes.zfs import dumps_of
from leadline.runner.ports import Device, Journal
from leadline.targets.local import OnThisMachine
from leadline.targets.page_cache import drop_page_cache
from leadline.units import format_size


class DeviceTarget(OnThisMachine):
    """`device:/dev/x`. `destroy` and `overwrite` are what the user consented to, word for word."""

    def __init__(self, target: Target, destroy: Sequence[str], overwrite: Sequence[str]) -> None:
        self.name = target.name
        self.path = Path(target.parsed.location)
        self._may_write = str(self.path) in destroy
        self._may_overwrite = str(self.path) in overwrite
        self._writes = True
        self._handle = -1
        self._below: tuple[Layer, ...] | None = None

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
                f"{str(self.path)!r} is no block device",
                context=where,
                hint=f"for a directory write dir:{self.path}",
            )
        self._writes = footprint.writes or prefill
        if self._writes and not self._may_write:
            raise LeadlineError(
                errors.DEVICE_NOT_CONSENTED,
                f"the plan would destroy what is on {str(self.path)!r}",
                context=where,
                hint=f"if that is meant, say so: --destroy-data {self.path}; "
                "to read only, use workloads that only read, with --no-prefill (the audit then "
                "says that nobody knows whether what is read was ever written)",
            )
        self._refuse_in_use(where)
        if self._writes and _read_only(self.path.stat().st_rdev):
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the device {str(self.path)!r} takes no writes",
                context=[*where, "the kernel holds it read-only"],
                hint="attach it for writing (an RBD image: `rbd device map` without `-o ro`); "
                "to read only, use workloads that only read, with --no-prefill",
            )
        found = signatures(self.path)
        if self._writes and found and not self._may_overwrite:
            raise LeadlineError(
                errors.DEVICE_SIGNED,
                f"{str(self.path)!r} carries {', '.join(found)}",
                context=[*where, "it may hold somebody's data"],
                hint=f"if it may go all the same: --overwrite-signatures {self.path}",
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
        said = [f"mounted at {point}" for point in mounted] + [f"part of {one}" for one in holders]
        if not said:
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
                said = [f"cannot be opened exclusively: {error.strerror}"]
        if said:
            raise LeadlineError(
                errors.DEVICE_IN_USE,
                f"{str(self.path)!r} is in use",
                context=[*where, *said],
                hint="no option overrides this; free the device first",
            )

    def _refuse_small(self, footprint: Footprint, where: list[str]) -> None:
        handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.lseek(handle, 0, os.SEEK_END)
        finally:
            os.close(handle)
        if size < footprint.span:
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"{str(self.path)!r} has {format_size(size)}; "
                f"the plan spans {format_size(footprint.span)}",
                context=where,
                hint="make the plan smaller with --size",
            )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        """Hold the device exclusively, so that nobody can mount it meanwhile."""
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
        # Asked at every trial, and looked at once: ZFS may have to be asked.
        if self._below is None:
            self._below = layers_of_device(self.path.resolve().name)
        return self._below

    def dumps(self) -> Mapping[str, bytes]:
        return dumps_of(self.layers())

    def drop_caches(self) -> CacheDrop | None:
        return drop_page_cache((self.path,))

    def allocated_bytes(self) -> int | None:
        return None  # a device cannot tell what of it was written

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
    """Whether the kernel writes to no such device. Opening it for writing succeeds all the same."""
    told = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/ro")
    try:
        return told.read_text().strip() == "1"
    except OSError:
        return False
