"""A dataset of our own in a pool of ZFS that the user has."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from leadline import errors, zfs_programs
from leadline.archive.records import CacheDrop, Created, Layer
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.stacks import layers_of_path
from leadline.probes.zfs import zfs_dumps
from leadline.runner.ports import Dataset, Journal
from leadline.targets.dataset import (
    OwnDataset,
    mount_folder,
    name_in,
    remove_dataset,
    require_known,
)
from leadline.targets.local import OnThisMachine
from leadline.units import format_size

KEEP_FREE_SHARE = 0.10
# A mirror or RAID with a lost disk still works, if not as it otherwise would.
_FIT = ("ONLINE", "DEGRADED")


class InDataset:
    """What all targets in a dataset of our own have in common."""

    _dataset: OwnDataset | None = None

    @property
    def location(self) -> Dataset:
        assert self._dataset is not None, "acquire comes first"
        return self._dataset.location

    def present(self) -> bool:
        """Raises LeadlineError(`zpool-unfit`) for a suspended pool: a look at its files would
        wait for ever."""
        if self._dataset is None:
            return False
        pool = zfs_programs.pool_of(self._dataset.name)
        if zfs_programs.is_suspended(pool):
            raise zfs_programs.suspended(pool)
        return self._dataset.present()

    def drop_caches(self) -> CacheDrop | None:
        """ZFS keeps what was read or written in a cache of its own (ARC), of which nobody outside
        can tell what of it is ours; `primarycache=metadata` keeps data out of it."""
        return None

    def allocated_bytes(self) -> int | None:
        files = (path for path in self.location.path.iterdir() if path.is_file())
        return sum(path.stat().st_blocks * 512 for path in files)

    def dumps(self) -> Mapping[str, bytes]:
        return zfs_dumps(self.location.name)

    def filesystem(self) -> str:
        return "zfs"

    def note_files(self) -> None:
        return  # all that lies in the dataset goes with it


class ZfsTarget(InDataset, OnThisMachine):
    """`zfs:POOL[/DATASET]?recordsize=...`."""

    def __init__(self, target: Target, note: Callable[[str], None] = lambda sentence: None) -> None:
        self.name = target.name
        self._parent = target.parsed.location
        self._pool = target.parsed.pool
        self._wanted = target.parsed.dataset_properties
        self._note = note
        self._noted = ""
        self._created: Created | None = None
        self._journal: Journal | None = None
        self._layers: tuple[Layer, ...] = ()

    def volume(self) -> object:
        return ("zfs", self._pool)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        self._refuse_unfit(where)
        require_known(self._wanted, self._pool, where)
        found = self._parent_properties(where)
        if found.get("type") != "filesystem":
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"{self._parent!r} is a {found.get('type', 'thing')} of ZFS and no file system",
                context=where,
                hint="for a volume write device:/dev/zvol/...",
            )
        if found.get("keystatus") == "unavailable":
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the dataset {self._parent!r} is encrypted and its key is not loaded",
                context=where,
                hint=f"`zfs load-key {self._parent}`",
            )
        if found.get("readonly") == "on":
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the dataset {self._parent!r} is read-only",
                context=where,
                hint="Leadline makes a dataset of its own in it, which would be read-only too",
            )
        if os.geteuid() != 0:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                "only root can make a dataset and mount it",
                context=where,
                hint=f"run Leadline as root, or measure a folder of the dataset: "
                f"dir:{found.get('mountpoint', '/path')}",
            )
        self._require_room(footprint, claimed_bytes, int(found.get("copies", "1")), where)

    def _refuse_unfit(self, where: list[str]) -> None:
        """A pool that is not there, or takes no writes; one that lacks a disk is told of."""
        if zfs_programs.is_suspended(self._pool):
            raise zfs_programs.suspended(self._pool, where)
        there = zfs_programs.pools()
        if self._pool not in there:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"there is no pool {self._pool!r} of ZFS",
                context=[*where, f"pools that are imported: {', '.join(there) or 'none'}"],
                hint="`zpool import` lists pools that could be imported",
            )
        found = zfs_programs.pool_properties(self._pool)
        health = found.get("health", "")
        if health not in _FIT:
            raise LeadlineError(
                errors.ZPOOL_UNFIT,
                f"the pool {self._pool!r} is {health or 'in an unknown state'}",
                context=where,
                hint=f"`zpool status {self._pool}` says why; behind a repair "
                f"`zpool clear {self._pool}` lets it go on",
            )
        if found.get("readonly") == "on":
            raise LeadlineError(
                errors.ZPOOL_UNFIT,
                f"the pool {self._pool!r} is imported read-only",
                context=where,
                hint="export it and import it without readonly=on",
            )
        if health != "ONLINE" and health != self._noted:
            self._noted = health
            self._note(
                f"{self.name}: the pool {self._pool} is {health}: it lacks a disk, and is slower, "
                "or faster, than it is whole"
            )

    def _parent_properties(self, where: list[str]) -> dict[str, str]:
        if not zfs_programs.exists(self._parent):
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"there is no dataset {self._parent!r}",
                context=where,
                hint=f"`zfs list -r {self._pool}` lists those of the pool",
            )
        return dict(zfs_programs.properties(self._parent))

    def _require_room(
        self, footprint: Footprint, claimed_bytes: int, copies: int, where: list[str]
    ) -> None:
        """What the dataset's quotas leave, and a tenth of the pool on top."""
        whole = zfs_programs.properties(self._pool)
        keep = int((int(whole["used"]) + int(whole["available"])) * KEEP_FREE_SHARE)
        free = int(zfs_programs.properties(self._parent)["available"])
        needed = footprint.room_bytes * copies
        if free - needed - claimed_bytes < keep:
            beside = ", with room to receive a copy" if footprint.streams else ""
            others = f"; other targets there need {format_size(claimed_bytes)}"
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"{self._parent!r} has {format_size(free)} free; the plan needs "
                f"{format_size(needed)}{beside} and leaves {format_size(keep)} (10 %)"
                + (others if claimed_bytes else ""),
                context=where,
                hint="make the plan smaller with --size, or make room",
            )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        token = secrets.token_hex(8)
        name = name_in(self._parent, run, token)
        self._created = Created(target=self.name, path=f"zfs:{name}", token=token)
        self._journal = journal
        journal.note_created(self._created)
        self._dataset = OwnDataset(
            name=name, path=mount_folder(token), owner=f"{run} {token}", wanted=self._wanted
        )
        self._dataset.make()
        self._layers = layers_of_path(self._dataset.location.path)

    def layers(self) -> tuple[Layer, ...]:
        return self._layers

    def settle(self, written_at_s: float) -> None:
        assert self._dataset is not None, "acquire comes first"
        self._dataset.settle()

    def release(self) -> tuple[str, ...]:
        if self._created is None:
            return ()
        problems = remove_dataset(self._created)
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = None
        return problems


def likely_dataset(parent: str) -> Dataset:
    """Where a target will do its I/O, with words for what only the run will know."""
    return Dataset(name=f"{parent}/leadline-RUN-TOKEN", path=Path("/run/leadline-TOKEN"))
