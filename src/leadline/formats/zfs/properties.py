"""`zpool get` and `zfs get`: properties by name, as a table or, with -H, with tabs.

Values are kept as they are printed: with -p sizes are bytes and ratios bare (OpenZFS prints `1.00`,
zfs-fuse `1.00x`), without it they have three digits and a suffix (`leadline.formats.zfs.nicenum`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from leadline.formats.zfs.lines import ends_early, is_cut, lines_of, refused

_TOOL: Final = "zfs get"
_ALL: Final = ("name", "property", "value", "source")
_SOURCES: Final = frozenset({"-", "default", "local", "received", "temporary", "none"})
_INHERITED: Final = "  inherited from "
# A user's property may hold 8 KiB.
_LONGEST_LINE: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """`source` is `-` (it has none), `default`, `local`, `inherited from NAME`, `received`,
    `temporary`; empty where that column was not asked for."""

    value: str
    source: str


def parse_properties(
    text: str, *, columns: Sequence[str] = _ALL
) -> Mapping[str, Mapping[str, Property]]:
    """Properties by their name, by that of the pool, the dataset or the vdev. `columns` are those
    that -o asked for; they matter where -H leaves the heads out. Raises FormatError
    (`empty-result`, `truncated-result`, `unreadable-result`) with the line."""
    if not {"name", "property", "value"} <= set(columns) <= set(_ALL):
        raise ValueError(f"columns are {', '.join(_ALL)}, and all but the last are needed")
    lines = lines_of(text, _TOOL)
    found: dict[str, dict[str, Property]] = {}
    begin = -1
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if len(line) > _LONGEST_LINE:
            raise refused(number, line, _TOOL, cut=cut)
        if not line.strip():
            continue
        if tuple(line.lower().split()) == _ALL:
            begin = line.index("PROPERTY") if "PROPERTY" in line else -1
            continue
        cells = _row(line, begin) if begin > 0 else _tabbed(line, columns)
        if cells is None or cut:
            raise refused(number, line, _TOOL, cut=cut)
        name, key, value, source = cells
        if key in found.setdefault(name, {}):
            raise refused(number, line, _TOOL)
        found[name][key] = Property(value=value, source=source)
    if not found:
        raise ends_early(_TOOL, "the first property", lines[0])
    return MappingProxyType({name: MappingProxyType(one) for name, one in found.items()})


def _row(line: str, begin: int) -> tuple[str, str, str, str] | None:
    """The table is as wide as its names and properties ask for, but zfs-fuse lets values run over
    into the next column, and a date holds two blanks: the source is found from the end."""
    name, rest = line[:begin].strip(), line[begin:]
    if not name or line[begin - 2 : begin] != "  " or rest[:1].isspace():
        return None
    key, _, behind = rest.partition(" ")
    at = behind.rfind(_INHERITED)
    source = behind[at:].strip() if at >= 0 else behind.rsplit(None, 1)[-1] if behind else ""
    value = behind[: len(behind) - len(source)]
    if not (at >= 0 or source in _SOURCES) or not (value.endswith("  ") or not value.strip()):
        return None
    return name, key, value.strip(), source


def _tabbed(line: str, columns: Sequence[str]) -> tuple[str, str, str, str] | None:
    cells = line.split("\t")
    told = dict(zip(columns, cells, strict=False))
    if len(cells) != len(columns) or not told["name"] or not told["property"]:
        return None
    return told["name"], told["property"], told["value"], told.get("source", "")
