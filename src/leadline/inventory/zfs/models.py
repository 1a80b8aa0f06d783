"""ZFS as its own programs describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from types import MappingProxyType

from leadline.formats.zfs.pool_status import VdevGroup, VdevStatus
from leadline.formats.zfs.properties import Property


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsPool:
    """A pool. `version` is its number, empty where it has features instead. `ashift` is the
    exponent of the least block, None where nobody tells or it was left to the vdevs. Shares are
    of 1. What is not told is None or empty. `vdevs` hold the pool itself at depth 0."""

    name: str
    version: str = ""
    health: str = ""
    ashift: int | None = None
    size_bytes: int | None = None
    capacity_share: float | None = None
    fragmentation_share: float | None = None
    autotrim: str = ""
    dedup_ratio: float | None = None
    read_only: str = ""
    features: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    scan: str = ""
    errors: str = ""
    vdevs: tuple[VdevStatus, ...] = ()

    @property
    def top_level(self) -> tuple[VdevStatus, ...]:
        """The vdevs that data is spread over."""
        return tuple(one for one in self.vdevs if one.depth == 1 and one.group is VdevGroup.DATA)

    @property
    def data_leaves(self) -> tuple[str, ...]:
        """Names of the devices and files that data lies on: logs, caches and spares are none."""
        ends = [*self.vdevs[1:], None]
        return tuple(
            one.name
            for one, after in zip(self.vdevs, ends, strict=False)
            if one.depth
            and one.group in (VdevGroup.DATA, VdevGroup.SPECIAL, VdevGroup.DEDUP)
            and (after is None or after.depth <= one.depth)
        )

    @property
    def layout(self) -> str:
        """How many vdevs of which kind: `1 x disk`, `2 x mirror of 2, log: 1 x disk`."""
        counts: dict[tuple[VdevGroup, str], int] = {}
        for at, one in enumerate(self.vdevs):
            if one.depth != 1:
                continue
            behind = takewhile(lambda other: other.depth > 1, self.vdevs[at + 1 :])
            members = sum(other.depth == 2 for other in behind)
            kind = f"{one.name.partition('-')[0]} of {members}" if members else "disk"
            counts[one.group, kind] = counts.get((one.group, kind), 0) + 1
        return ", ".join(
            f"{'' if group is VdevGroup.DATA else f'{group.value}: '}{count} x {kind}"
            for (group, kind), count in counts.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsDataset:
    """A file system or a volume (`kind`) with all properties that it tells."""

    name: str
    kind: str
    properties: Mapping[str, Property]

    def value(self, key: str) -> str:
        """A property's value as it is printed, sizes in bytes; empty where this ZFS has no such
        property."""
        found = self.properties.get(key)
        return found.value if found else ""

    @property
    def record_bytes(self) -> int | None:
        """The record size of a file system, the block size of a volume."""
        text = self.value("recordsize") or self.value("volblocksize")
        return int(text) if text.isascii() and text.isdecimal() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsInventory:
    """What lies in the dumps of a target. `version` is that of the kernel's module or, without
    one, of the programs; empty where nobody tells (zfs-fuse). `implementation` is `kernel` or
    `fuse`. `parameters` are the module's by name, as texts. `unread` says of which dump nothing
    could be learned, and why."""

    version: str
    implementation: str
    pool: ZfsPool | None
    dataset: ZfsDataset | None
    parameters: Mapping[str, str]
    unread: tuple[str, ...] = ()
