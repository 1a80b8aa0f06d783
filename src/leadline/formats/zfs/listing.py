"""`zfs list` and `zpool list`: a row for each dataset, pool or, with -v, vdev.

With heads the columns are taken from them: they differ by version (zfs-fuse and old ZFS have no
CKPOINT, EXPANDSZ and FRAG). With -H there are none, and what was asked for must be told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from leadline.formats.zfs.lines import ends_early, is_cut, lines_of, refused

_TOOL: Final = "zfs list or zpool list"
ZFS_LIST: Final = ("name", "used", "available", "referenced", "mountpoint")
# OpenZFS 2; zfs-fuse has neither checkpoint nor expandsize nor fragmentation.
ZPOOL_LIST: Final = (
    *("name", "size", "allocated", "free", "checkpoint", "expandsize", "fragmentation"),
    *("capacity", "dedupratio", "health", "altroot"),
)
ZFS_FUSE_ZPOOL_LIST: Final = (
    *("name", "size", "allocated", "free", "capacity", "dedupratio", "health", "altroot"),
)
_PROPERTIES: Final = {
    "avail": "available", "refer": "referenced", "usedsnap": "usedbysnapshots",
    "usedds": "usedbydataset", "usedrefreserv": "usedbyrefreservation",
    "usedchild": "usedbychildren", "alloc": "allocated", "ckpoint": "checkpoint",
    "expandsz": "expandsize", "frag": "fragmentation", "cap": "capacity", "dedup": "dedupratio",
    "reserv": "reservation", "refreserv": "refreservation", "ratio": "compressratio",
    "compress": "compression", "recsize": "recordsize", "lused": "logicalused",
    "lrefer": "logicalreferenced",
}  # fmt: skip
_HEAD: Final = re.compile(r"NAME(?:\s+[A-Z][A-Z0-9_:]*)+", re.ASCII)
_GAP: Final = re.compile(r"\s{2,}")
_NONE: Final = frozenset({"no pools available", "no datasets available"})
# -v puts these heads among the vdevs, with dashes for figures.
_GROUPS: Final = frozenset({"logs", "log", "cache", "special", "dedup", "spare", "spares"})
# Of the pool alone up to 0.7; later vdevs have a health, and a dash in place of the ratio.
_POOL_ALONE: Final = ("dedupratio", "health", "altroot")
_LONGEST_LINE: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRow:
    """`depth` is 0 but for the vdevs of `zpool list -v`. `values` by the property's name, with
    `name`, as printed; a column that a vdev has not is left out."""

    name: str
    depth: int
    values: Mapping[str, str]


def parse_listing(text: str, *, columns: Sequence[str] = ()) -> tuple[ListedRow, ...]:
    """All rows in order; none where the text says so. `columns` are those that were asked for, of
    which `name` is the first; needed where -H leaves the heads out. Raises FormatError
    (`empty-result`, `truncated-result`, `unreadable-result`) with the line."""
    if columns and columns[0] != "name":
        raise ValueError("the first column must be the name")
    lines = lines_of(text, _TOOL)
    if text.strip() in _NONE:
        return ()
    rows: list[ListedRow] = []
    heads: tuple[str, ...] = ()
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if len(line) > _LONGEST_LINE:
            raise refused(number, line, _TOOL, cut=cut)
        if not line.strip():
            continue
        if "\t" not in line and _HEAD.fullmatch(line):
            heads = tuple(_PROPERTIES.get(word, word) for word in line.lower().split())
            continue
        row = _tabbed(line, columns) if "\t" in line else _row(line, heads)
        if row is None or cut:
            raise refused(number, line, _TOOL, cut=cut)
        if row.name not in _GROUPS or set(row.values.values()) > {row.name, "-"}:
            rows.append(row)
    if not rows:
        raise ends_early(_TOOL, "the first row", lines[0])
    return tuple(rows)


def _tabbed(line: str, columns: Sequence[str]) -> ListedRow | None:
    cells = line.split("\t")
    if len(cells) != len(columns) or not cells[0]:
        return None
    values = dict(zip(columns, cells, strict=True))
    return ListedRow(name=cells[0], depth=0, values=MappingProxyType(values))


def _row(line: str, heads: Sequence[str]) -> ListedRow | None:
    """Columns stand two blanks apart; a name, a mount point may hold single ones."""
    told = line.lstrip()
    indent = len(line) - len(told)
    cells = _GAP.split(told)
    lacks = {0}
    if (indent or cells[0] in _GROUPS) and heads[-1:] == _POOL_ALONE[-1:]:
        lacks |= {1} | ({len(_POOL_ALONE)} if heads[-len(_POOL_ALONE) :] == _POOL_ALONE else set())
    if not heads or indent % 2 or len(heads) - len(cells) not in lacks:
        return None
    values = dict(zip(heads, cells, strict=False))
    return ListedRow(name=cells[0], depth=indent // 2, values=MappingProxyType(values))
