"""Pool state and properties: `zpool status`, `zpool get` and `zfs get`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from leadline.formats.text import TextLine, ends_early, line_refused
from leadline.formats.zfs.lines import is_prompt, nice_count, tool_lines

_TOOL: Final = "zpool status"
# Keys are right-aligned before a colon; their further lines are indented by eight.
_KEY: Final = re.compile(r" {0,7}(?P<key>[a-z]{2,12}):(?: (?P<rest>.*))?", re.ASCII)
_STATES: Final = frozenset(
    {"ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "SUSPENDED", "SPLIT"}
    | {"AVAIL", "INUSE"}
)
_NONE: Final = frozenset({"no pools available"})
_SUSPENDED: Final = "are faulted in response to IO failures"
_LONGEST_LINE: Final = 10_000


class VdevGroup(StrEnum):
    """The head above a vdev in the tree; `data` without a head."""

    DATA = "data"
    LOG = "log"
    CACHE = "cache"
    SPECIAL = "special"
    DEDUP = "dedup"
    SPARE = "spare"


_HEADS: Final = {
    "logs": VdevGroup.LOG,
    "cache": VdevGroup.CACHE,
    "special": VdevGroup.SPECIAL,
    "dedup": VdevGroup.DEDUP,
    "spares": VdevGroup.SPARE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VdevStatus:
    """A row of the tree. `depth` is 0 for the pool itself; `note` is the text after the error
    counts, such as `cannot open`."""

    name: str
    state: str
    depth: int
    group: VdevGroup
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """Missing texts are empty: a healthy pool has no `status` and no `action`. `scan` is the
    line of the same name, `scrub` before 2011. `other` holds the rest by its key (`see`, `remove`,
    `checkpoint`, ...). Lines that go on are joined by a blank, those of `errors` by a line end."""

    name: str
    state: str
    status: str
    action: str
    scan: str
    errors: str
    vdevs: tuple[VdevStatus, ...]
    other: Mapping[str, str]

    @property
    def suspended(self) -> bool:
        """Whether all I/O to it waits or fails. Before OpenZFS 0.8.2 only the status
        line shows it; `state` is ONLINE or DEGRADED."""
        return self.state == "SUSPENDED" or _SUSPENDED in self.status

    @property
    def leaves(self) -> tuple[VdevStatus, ...]:
        """The devices and files: rows that have none below them."""
        ends = [*self.vdevs[1:], None]
        return tuple(
            vdev
            for vdev, below in zip(self.vdevs, ends, strict=False)
            if below is None or below.depth <= vdev.depth
        )


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One pool so far: texts by key, and the key whose lines go on."""

    line: int
    texts: dict[str, list[str]] = field(default_factory=dict)
    key: str = ""
    margin: int = -1
    group: VdevGroup = VdevGroup.DATA
    vdevs: list[VdevStatus] = field(default_factory=list)


def parse_pool_status(text: str) -> tuple[PoolStatus, ...]:
    """All pools in order; none where the text says that there are none. Raises FormatError
    (`empty-result`, `truncated-result`, `unreadable-result`) with the line."""
    lines = tool_lines(text, _TOOL)
    if text.strip() in _NONE:
        return ()
    pools: list[_Reading] = []
    # On standard error, so before all other lines, the tool reports that it cannot list errors.
    early = _Reading(line=0)
    for line in lines:
        if len(line.text) > _LONGEST_LINE:
            raise line.refused()
        if not line.text.strip() or (not pools and is_prompt(line.text)):
            continue
        found = _KEY.fullmatch(line.text)
        key = found["key"] if found else ""
        if key == "pool":
            pools.append(_Reading(line=line.number))
        reading = pools[-1] if pools else early
        if found and (pools or key == "errors"):
            reading.key = key
            reading.texts.setdefault(key, []).append((found["rest"] or "").strip())
        elif reading.key == "config":
            _take_row(reading, line)
        elif reading.key:
            reading.texts[reading.key].append(line.text.strip())
        else:
            raise line.refused()
    if not pools:
        raise ends_early(_TOOL, "the first pool", lines[0].text)
    if early.texts:
        pools[0].texts.setdefault("errors", []).extend(early.texts["errors"])
    return tuple(_status(pool) for pool in pools)


def _take_row(reading: _Reading, line: TextLine) -> None:
    wide = line.text.expandtabs(8)
    indent = len(wide) - len(wide.lstrip())
    words = line.text.split()
    if reading.margin < 0:
        if words[:2] == ["NAME", "STATE"]:
            reading.margin = indent
        else:
            # A pool that could not be opened may have words in place of the tree.
            reading.texts["config"].append(line.text.strip())
        return
    if indent == reading.margin and len(words) == 1 and words[0] in _HEADS:
        reading.group = _HEADS[words[0]]
        return
    # A name may hold blanks, and be one of the states.
    at = next((index for index, word in enumerate(words) if index and word in _STATES), 0)
    behind = words[at + 1 :]
    counts = [nice_count(word) for word in behind[:3]]
    has_counts = len(counts) == 3 and None not in counts
    is_row = at and indent >= reading.margin and (indent - reading.margin) % 2 == 0
    if not is_row or (line.is_cut and not has_counts):
        raise line.refused()
    reading.vdevs.append(
        VdevStatus(
            name=" ".join(words[:at]),
            state=words[at],
            depth=(indent - reading.margin) // 2,
            group=reading.group,
            note=" ".join(behind[3:] if has_counts else behind),
        )
    )


def _status(reading: _Reading) -> PoolStatus:
    texts = {
        key: ("\n" if key == "errors" else " ").join(filter(None, parts))
        for key, parts in reading.texts.items()
    }
    name, state = texts.pop("pool"), texts.pop("state", "")
    if not name or not state:
        raise ends_early(_TOOL, f"the state of the pool of line {reading.line}", name)
    if "config" in texts and not reading.vdevs and not texts["config"]:
        raise ends_early(_TOOL, f"the vdevs of the pool {name!r}")
    if not texts.get("config", "-"):
        del texts["config"]
    return PoolStatus(
        name=name,
        state=state,
        status=texts.pop("status", ""),
        action=texts.pop("action", ""),
        scan=texts.pop("scan", "") or texts.pop("scrub", ""),
        errors=texts.pop("errors", ""),
        vdevs=tuple(reading.vdevs),
        other=MappingProxyType(texts),
    )


# `zpool get` and `zfs get`: properties by name, as a table or, with -H, with tabs.
#  Values are kept as they are printed: with -p sizes are bytes and ratios bare (OpenZFS prints
# `1.00`, zfs-fuse `1.00x`), without it they have three digits and a suffix
# (`leadline.formats.zfs.status`).

_PROPERTIES_TOOL: Final = "zfs get"
_ALL: Final = ("name", "property", "value", "source")
_SOURCES: Final = frozenset({"-", "default", "local", "received", "temporary", "none"})
_INHERITED: Final = "  inherited from "
# A user's property may hold 8 KiB.
_PROPERTIES_LONGEST_LINE: Final = 20_000


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
    lines = tool_lines(text, _PROPERTIES_TOOL)
    found: dict[str, dict[str, Property]] = {}
    begin = -1
    for line in lines:
        if len(line.text) > _PROPERTIES_LONGEST_LINE:
            raise line.refused()
        if not line.text.strip():
            continue
        if tuple(line.text.lower().split()) == _ALL:
            begin = line.text.find("PROPERTY")
            continue
        cells = _row(line.text, begin) if begin > 0 else _tabbed(line.text, columns)
        if cells is None or line.is_cut:
            raise line.refused()
        name, key, value, source = cells
        if key in found.setdefault(name, {}):
            raise line_refused(line.number, line.text, _PROPERTIES_TOOL)
        found[name][key] = Property(value=value, source=source)
    if not found:
        raise ends_early(_PROPERTIES_TOOL, "the first property", lines[0].text)
    return MappingProxyType({name: MappingProxyType(entry) for name, entry in found.items()})


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
    named = dict(zip(columns, cells, strict=False))
    if len(cells) != len(columns) or not named["name"] or not named["property"]:
        return None
    return named["name"], named["property"], named["value"], named.get("source", "")
