"""From raw dumps to the inventory of ZFS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from leadline.errors import LeadlineError
from leadline.formats.zfs.nicenum import nice_count
from leadline.formats.zfs.pool_status import PoolStatus, parse_pool_status
from leadline.formats.zfs.properties import Property, parse_properties
from leadline.inventory.zfs.models import ZfsDataset, ZfsInventory, ZfsPool

VERSION: Final = "zpool-version.txt"
POOL: Final = "zpool-get.txt"
STATUS: Final = "zpool-status.txt"
LIST: Final = "zpool-list.txt"
DATASET: Final = "zfs-get.txt"
PARAMETERS: Final = "zfs-parameters.txt"
FILES: Final = (VERSION, POOL, STATUS, LIST, DATASET, PARAMETERS)
ERROR: Final = ".error"

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?\S*", re.ASCII)
_KNOWN = re.compile(r"\d+(?:\.\d+){0,3}", re.ASCII)
_LONGEST_VERSION = 60
_Read = TypeVar("_Read")


def zfs_inventory(dumps: Mapping[str, bytes]) -> ZfsInventory | None:
    """What the dumps tell; None where there is none of ZFS among them. Never raises: a dump that
    cannot be understood is named in `unread`."""
    names = {name.removesuffix(ERROR) for name in dumps}
    if not names & set(FILES):
        return None
    unread = [
        f"{name}: {_text(dumps, name + ERROR).strip() or 'no reason told'}"
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
    dataset = read(DATASET, parse_properties) or {}
    parameters = _parameters(_text(dumps, PARAMETERS))
    version, kernel = _version(_text(dumps, VERSION))
    return ZfsInventory(
        version=version,
        implementation="kernel" if kernel or parameters else "fuse",
        pool=_pool(pool, status),
        dataset=_dataset(dataset),
        parameters=MappingProxyType(parameters),
        unread=tuple(unread),
    )


def _version(text: str) -> tuple[str, bool]:
    """The version and whether it is that of a kernel's module: `zfs-2.3.2-1` and
    `zfs-kmod-2.3.2-1`, or what /sys/module/zfs/version holds."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = next((line for line in lines if "kmod" in line), lines[0] if lines else "")
    found = _VERSION.search(chosen)
    return (found[0][:_LONGEST_VERSION] if found else ""), bool(found)


def version_key(version: str) -> tuple[int, ...]:
    """`(2, 3, 2)` of `2.3.2-2~bpo12+2`; empty where it is no version."""
    found = _KNOWN.match(version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _parameters(text: str) -> dict[str, str]:
    """`NAME VALUE` a line; a value may be empty or hold blanks."""
    found = {}
    for line in text.splitlines():
        words = line.split(None, 1)
        if words:
            found[words[0]] = words[1].strip() if len(words) > 1 else ""
    return found


def _pool(
    told: Mapping[str, Mapping[str, Property]], status: tuple[PoolStatus, ...]
) -> ZfsPool | None:
    if not told and not status:
        return None
    name = next(iter(told), "") or status[0].name
    tree = next((one for one in status if one.name == name), None)
    values = {key: one.value for key, one in told.get(name, {}).items()}

    def text(key: str) -> str:
        return "" if values.get(key) in (None, "-") else values[key]

    ashift = nice_count(text("ashift"))
    return ZfsPool(
        name=name,
        version=text("version"),
        health=text("health") or (tree.state if tree else ""),
        ashift=ashift or None,
        size_bytes=nice_count(text("size")),
        capacity_share=_share(text("capacity")),
        fragmentation_share=_share(text("fragmentation")),
        autotrim=text("autotrim"),
        dedup_ratio=_ratio(text("dedupratio")),
        read_only=text("readonly"),
        features=MappingProxyType(
            {
                key.removeprefix("feature@"): value
                for key, value in values.items()
                if key.startswith("feature@")
            }
        ),
        scan=tree.scan if tree else "",
        errors=tree.errors if tree else "",
        vdevs=tree.vdevs if tree else (),
    )


def _dataset(told: Mapping[str, Mapping[str, Property]]) -> ZfsDataset | None:
    name = next(iter(told), "")
    if not name:
        return None
    rows = told[name]
    return ZfsDataset(
        name=name,
        kind=rows["type"].value if "type" in rows else "",
        properties=rows,
    )


def _share(text: str) -> float | None:
    """`47` and `47%` are 0.47."""
    digits = text.removesuffix("%")
    return int(digits) / 100 if digits.isascii() and digits.isdecimal() else None


def _ratio(text: str) -> float | None:
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        return None


def _text(dumps: Mapping[str, bytes], name: str) -> str:
    return dumps.get(name, b"").decode("utf-8", "replace")
