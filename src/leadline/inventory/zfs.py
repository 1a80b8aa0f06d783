"""ZFS below a target: the parsed dumps, and the tables of parameters that affect its I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from types import MappingProxyType
from typing import Annotated, Final, TypeVar

from pydantic import BeforeValidator

from leadline.data import load_table
from leadline.errors import LeadlineError
from leadline.formats.zfs.lines import nice_count
from leadline.formats.zfs.status import (
    PoolStatus,
    Property,
    VdevGroup,
    VdevStatus,
    parse_pool_status,
    parse_properties,
)
from leadline.units import parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsPool:
    """A pool. Unknown values are None or empty.

    `version` is its number, empty for a pool with feature flags. `ashift` is the exponent of the
    smallest block of new vdevs, None if it is left to them; `vdev_ashifts` are those that its vdevs
    have, without caches and spares, each once. Shares are of 1. `vdevs` hold the pool itself at
    depth 0.
    """

    name: str
    version: str = ""
    health: str = ""
    ashift: int | None = None
    vdev_ashifts: tuple[int, ...] = ()
    size_bytes: int | None = None
    capacity_share: float | None = None
    fragmentation_share: float | None = None
    autotrim: str = ""
    read_only: str = ""
    scan: str = ""
    errors: str = ""
    vdevs: tuple[VdevStatus, ...] = ()

    @property
    def data_leaves(self) -> tuple[str, ...]:
        """Names of the devices and files that hold data, without logs, caches and spares."""
        ends = [*self.vdevs[1:], None]
        return tuple(
            vdev.name
            for vdev, after in zip(self.vdevs, ends, strict=False)
            if vdev.depth
            and vdev.group in (VdevGroup.DATA, VdevGroup.SPECIAL, VdevGroup.DEDUP)
            and (after is None or after.depth <= vdev.depth)
        )

    @property
    def ashifts(self) -> tuple[int, ...]:
        """The exponents of the smallest blocks: those of the vdevs, else the pool's."""
        return self.vdev_ashifts or ((self.ashift,) if self.ashift is not None else ())

    @property
    def layout(self) -> str:
        """Number and kind of the vdevs: `1 x disk`, `2 x mirror of 2, log: 1 x disk`."""
        return ", ".join(
            f"{'' if group is VdevGroup.DATA else f'{group.value}: '}{text}"
            for group, text in self.layouts.items()
        )

    @property
    def layouts(self) -> Mapping[VdevGroup, str]:
        """Number and kind of the vdevs of each group that the pool has: `2 x mirror of 2`."""
        counts: Counter[tuple[VdevGroup, str]] = Counter()
        for at, vdev in enumerate(self.vdevs):
            if vdev.depth != 1:
                continue
            below = takewhile(lambda other: other.depth > 1, self.vdevs[at + 1 :])
            members = sum(other.depth == 2 for other in below)
            kind = f"{vdev.name.partition('-')[0]} of {members}" if members else "disk"
            counts[vdev.group, kind] += 1
        found: dict[VdevGroup, list[str]] = {}
        for (group, kind), count in counts.items():
            found.setdefault(group, []).append(f"{count} x {kind}")
        return {group: ", ".join(texts) for group, texts in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsDataset:
    """A file system or a volume (`kind`) with its properties."""

    name: str
    kind: str
    properties: Mapping[str, Property]

    def value(self, key: str) -> str:
        """Return a property's value as ZFS prints it, sizes in bytes; empty if it is missing."""
        found = self.properties.get(key)
        return found.value if found else ""

    @property
    def record_bytes(self) -> int | None:
        """The record size of a file system, the block size of a volume."""
        text = self.value("recordsize") or self.value("volblocksize")
        return int(text) if text.isascii() and text.isdecimal() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsInventory:
    """The dumps of a target, parsed.

    `version` is that of the kernel module or, without one, of the programs; empty if unknown
    (zfs-fuse). `implementation` is `kernel` or `fuse`. `parameters` map the module's parameters to
    their values. `unread` names each dump that could not be read, with the reason.
    """

    version: str
    implementation: str
    pool: ZfsPool | None
    dataset: ZfsDataset | None
    parameters: Mapping[str, str]
    unread: tuple[str, ...] = ()


VERSION: Final = "zpool-version.txt"
POOL: Final = "zpool-get.txt"
STATUS: Final = "zpool-status.txt"
VDEVS: Final = "zpool-vdevs.txt"
LIST: Final = "zpool-list.txt"
DATASET: Final = "zfs-get.txt"
PARAMETERS: Final = "zfs-parameters.txt"
FILES: Final = (VERSION, POOL, STATUS, VDEVS, LIST, DATASET, PARAMETERS)
ERROR: Final = ".error"

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?\S*", re.ASCII)
_KNOWN = re.compile(r"\d+(?:\.\d+){0,3}", re.ASCII)
_LONGEST_VERSION = 60
# OpenZFS has 16 at most.
_ASHIFTS = 64
_Read = TypeVar("_Read")


def zfs_inventory(dumps: Mapping[str, bytes]) -> ZfsInventory | None:
    """Parse the dumps; return None if none of them is of ZFS.

    Never raises: `unread` names each dump that cannot be parsed.
    """
    names = {name.removesuffix(ERROR) for name in dumps}
    if not names & set(FILES):
        return None
    unread = [
        f"{name}: {_text(dumps, name + ERROR).strip() or 'unknown reason'}"
        for name in FILES
        if name + ERROR in dumps
    ]

    def read(name: str, parse: Callable[[str], _Read]) -> _Read | None:
        if name not in dumps:
            return None
        try:
            return parse(_text(dumps, name))
        except LeadlineError as error:
            unread.append(f"{name}: {error.fact}")
            return None

    pool = read(POOL, parse_properties) or {}
    status = read(STATUS, parse_pool_status) or ()
    vdevs = read(VDEVS, parse_properties) or {}
    dataset = read(DATASET, parse_properties) or {}
    parameters = _parse_parameters(_text(dumps, PARAMETERS))
    version, kernel = _parse_version(_text(dumps, VERSION))
    return ZfsInventory(
        version=version,
        implementation="kernel" if kernel or parameters else "fuse",
        pool=_pool(pool, status, vdevs),
        dataset=_dataset(dataset),
        parameters=MappingProxyType(parameters),
        unread=tuple(unread),
    )


def _parse_version(text: str) -> tuple[str, bool]:
    """Return the version and whether it is a kernel module's.

    The text is `zfs-2.3.2-1` and `zfs-kmod-2.3.2-1`, or the content of /sys/module/zfs/version.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = next((line for line in lines if "kmod" in line), lines[0] if lines else "")
    found = _VERSION.search(chosen)
    return (found[0][:_LONGEST_VERSION] if found else ""), bool(found)


def version_key(version: str) -> tuple[int, ...]:
    """Return `(2, 3, 2)` for `2.3.2-2~bpo12+2`; empty for text that is not a version."""
    found = _KNOWN.match(version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _parse_parameters(text: str) -> dict[str, str]:
    """Parse lines of `NAME VALUE`; a value may be empty or hold blanks."""
    lines = (line.split(None, 1) for line in text.splitlines() if line.strip())
    return {words[0]: words[1].strip() if len(words) > 1 else "" for words in lines}


def _pool(
    properties: Mapping[str, Mapping[str, Property]],
    status: tuple[PoolStatus, ...],
    of_vdevs: Mapping[str, Mapping[str, Property]],
) -> ZfsPool | None:
    if not properties and not status:
        return None
    name = next(iter(properties), "") or status[0].name
    tree = next((pool for pool in status if pool.name == name), None)
    values = {key: found.value for key, found in properties.get(name, {}).items()}

    def text(key: str) -> str:
        return "" if values.get(key) in (None, "-") else values[key]

    return ZfsPool(
        name=name,
        version=text("version"),
        health=text("health") or (tree.state if tree else ""),
        ashift=_ashift(text("ashift")),
        vdev_ashifts=_vdev_ashifts(tree.vdevs if tree else (), of_vdevs),
        size_bytes=nice_count(text("size")),
        capacity_share=_share(text("capacity")),
        fragmentation_share=_share(text("fragmentation")),
        autotrim=text("autotrim"),
        read_only=text("readonly"),
        scan=tree.scan if tree else "",
        errors=tree.errors if tree else "",
        vdevs=tree.vdevs if tree else (),
    )


def _vdev_ashifts(
    vdevs: Sequence[VdevStatus], properties: Mapping[str, Mapping[str, Property]]
) -> tuple[int, ...]:
    """Return the ashifts of the top-level vdevs that hold data or a log, each once."""
    found = set()
    for vdev in vdevs:
        if vdev.depth != 1 or vdev.group in (VdevGroup.CACHE, VdevGroup.SPARE):
            continue
        # The status has the path of a disk's partition, its properties the name of the disk.
        short = vdev.name.rpartition("/")[2]
        names = [name for name in properties if name == vdev.name or short.startswith(name)]
        rows = properties[max(names, key=len)] if names else {}
        if "ashift" in rows and (ashift := _ashift(rows["ashift"].value)):
            found.add(ashift)
    return tuple(sorted(found))


def _ashift(text: str) -> int | None:
    """Return the exponent of a block size; None for 0 (the default) and what is none."""
    value = nice_count(text)
    return value if value and value < _ASHIFTS else None


def _dataset(datasets: Mapping[str, Mapping[str, Property]]) -> ZfsDataset | None:
    for name, rows in datasets.items():
        kind = rows["type"].value if "type" in rows else ""
        return ZfsDataset(name=name, kind=kind, properties=rows)
    return None


def _share(text: str) -> float | None:
    """Return 0.47 for `47` and `47%`."""
    digits = text.removesuffix("%")
    return int(digits) / 100 if digits.isascii() and digits.isdecimal() else None


def _text(dumps: Mapping[str, bytes], name: str) -> str:
    return dumps.get(name, b"").decode("utf-8", "replace")


# Tables of module parameters and dataset properties: `data/zfs_parameters.yaml`.


class Unit(StrEnum):
    """What a parameter's value counts."""

    COUNT = "count"
    BYTES = "bytes"
    PERCENT = "percent"
    SECONDS = "seconds"
    NANOSECONDS = "nanoseconds"
    SWITCH = "switch"


class Concern(StrEnum):
    """What a parameter limits."""

    QUEUE = "I/Os in flight on a vdev"
    SIZE = "size of I/Os"
    DIRTY = "data that waits to be written"
    SYNC = "synchronous writes"
    STREAM = "sending and receiving"
    CACHE = "cache and read-ahead"
    PROCESSOR = "processor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the kernel module that affects I/O.

    `defaults` maps the version that introduced a default to its value, oldest first. It is empty
    for a default that depends on the machine, which `computed` describes. `does` is a clause
    without full stop; `evidence` names what shows in a measurement whether the value is the limit.
    """

    name: str
    unit: Unit
    concern: Concern
    does: str
    evidence: str
    defaults: dict[str, Annotated[int, BeforeValidator(parse_size)]] = field(default_factory=dict)
    computed: str = ""

    def default(self, version: str) -> int | None:
        """Return the default in a version (`2.3.2-1`), or in the newest known one if it is empty.

        None: the default depends on the machine, or the version lacks the parameter.
        """
        key = version_key(version)
        known = [
            value for first, value in self.defaults.items() if not key or version_key(first) <= key
        ]
        return known[-1] if known else None

    def changed(self, value: str, version: str) -> bool:
        """Return whether a value is known to differ from the default."""
        default = self.default(version)
        return default is not None and value != str(default)


class Bearing(StrEnum):
    """The operations that a property affects."""

    EVERY = "every"
    READS = "reads"
    WRITES = "writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetProperty:
    """A property of a dataset that affects I/O.

    `does` is a clause without full stop. `size`: the value is a number of bytes. `weak`: it seldom
    has much effect.
    """

    name: str
    label: str
    does: str
    bearing: Bearing = Bearing.EVERY
    size: bool = False
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsTables:
    """The content of `data/zfs_parameters.yaml`."""

    sources: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    properties: tuple[DatasetProperty, ...]


def zfs_parameters() -> tuple[Parameter, ...]:
    """Return the module parameters that affect I/O."""
    return load_table("zfs_parameters", ZfsTables).parameters


def dataset_properties() -> tuple[DatasetProperty, ...]:
    """Return the dataset properties that affect I/O."""
    return load_table("zfs_parameters", ZfsTables).properties
