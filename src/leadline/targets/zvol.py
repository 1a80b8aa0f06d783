"""The target `zvol:`: a new volume in an existing pool of ZFS, as a block device."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.zfs import zfs_dumps
from leadline.runner.ports import Device, Journal
from leadline.targets.device import DeviceTarget
from leadline.targets.naming import owner_mark
from leadline.targets.zfs import InPool
from leadline.targets.zfs_dataset import (
    create,
    dataset_name,
    refuse_suspended_pool,
    require_set,
    settle,
)

# Links to the devices of volumes, which udev makes by the rules of ZFS.
VOLUMES = Path("/dev/zvol")
_LINKED_WITHIN_S = 30.0
# A volume has whole blocks.
_STEP_BYTES = 1 << 20


class ZvolTarget(InPool):
    """`zvol:POOL[/DATASET]?volblocksize=...`: a volume as large as the workloads need."""

    _device: DeviceTarget | None = None
    _volume = ""

    @property
    def _held(self) -> DeviceTarget:
        assert self._device is not None, "acquire comes first"
        return self._device

    @property
    def location(self) -> Device:
        return self._held.location

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        if programs.is_zfs_fuse():
            raise LeadlineError(
                errors.TARGET_UNSUITABLE,
                "zfs-fuse has no volumes",
                context=[f"target {self.name!r}", "its `zfs create -V` is not implemented"],
                hint=f"use a machine whose kernel has ZFS, or measure a dataset: "
                f"zfs:{self._parent}",
            )
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)

    def _needed_bytes(self, footprint: Footprint) -> int:
        step = max(_STEP_BYTES, int(self._wanted.get("volblocksize", "0")))
        return max(1, -(-footprint.span // step)) * step

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        created = self._note_created(run, journal)
        self._volume = dataset_name(created)
        size = self._needed_bytes(footprint)
        # Sparse, as a dataset is: it takes no space from others in the pool. `volmode=dev` shows
        # the device whatever the parent sets, and searches the random data for no partitions.
        properties = {**self._wanted, "volmode": "dev"}
        options = ("-s", "-V", str(size))
        create(self._volume, owner_mark(run, created.token), properties, *options)
        require_set(self._volume, self._wanted)
        path = _await_link(self._volume)
        device = DeviceTarget(Target(name=self.name, url=f"device:{path}"), (str(path),), ())
        device.inspect(footprint, prefill=True)
        device.acquire(footprint, run, journal)
        self._device = device

    def present(self) -> bool:
        refuse_suspended_pool(self._pool)
        return self._held.present()

    def layers(self) -> tuple[Layer, ...]:
        return self._held.layers()

    def dumps(self) -> Mapping[str, bytes]:
        return zfs_dumps(self._volume)

    def settle(self, written_at_s: float) -> None:
        settle(self._volume)

    def drop_caches(self) -> CacheDrop | None:
        # The page cache of the device, which buffered I/O uses; ZFS's own (ARC) is below it.
        return self._held.drop_caches()

    def allocated_bytes(self) -> int:
        return int(programs.properties(self._volume)["referenced"])

    def filesystem(self) -> str:
        return ""

    def note_files(self) -> None:
        return

    def release(self) -> tuple[str, ...]:
        if self._device is not None:
            self._device.release()
        return super().release()


def _await_link(volume: str) -> Path:
    """Return the link to a new volume's device. Raises LeadlineError(`zfs-failed`) where none
    appears."""
    path = VOLUMES / volume
    end = time.monotonic() + _LINKED_WITHIN_S
    while not path.exists():
        if time.monotonic() > end:
            raise LeadlineError(
                errors.ZFS_FAILED,
                f"the volume {volume} has no device: {path} does not appear",
                context=[f"waited {_LINKED_WITHIN_S:g} s"],
                hint="udev makes this link by the rules of ZFS's packages; a container needs the "
                "host's /dev",
            )
        time.sleep(0.05)
    return path
