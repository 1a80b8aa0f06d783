"""`zpool status`: the state of pools and the tree of their vdevs with errors.

Figures of errors are counts since the import or the last `zpool clear`, in powers of 1024 and
three digits from 1024 on (zfs-fuse prints `915K` within seconds of a full disk) unless -p was
given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from leadline.formats.result import FormatError

# Figures as ZFS prints them without -p (libzutil, zfs_nicenum_format): three digits and a suffix,
# which is a power of 1024, of counts, too, and of 1000 for times.

_FACTORS: Final = {
    suffix: 1 << 10 * power for power, suffix in enumerate(("", "K", "M", "G", "T", "P", "E"))
}
# OpenZFS puts a B where there is no suffix (96B), zfs-fuse, where it tells of a stream, behind it
# (36.7MB).
# The decimal point is a comma with some locales.
_NUMBER: Final = re.compile(r"(\d{1,20}(?:\.\d{1,9}|,\d{1,2})?)([KMGTPE]?)B?", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,20}(?:\.\d{1,9})?)(ns|us|ms|s|)", re.ASCII)
_NANOSECONDS: Final = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
# No counter of a kernel is larger.
_BEYOND: Final = 1 << 64


def nice_number(text: str) -> float | None:
    """`1.42K` as 1454.08, `911M` as bytes, `955486208` as it is; None where it is no such figure.
    With a suffix it is good to three digits."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    value = float(found[1].replace(",", ".")) * _FACTORS[found[2]]
    return value if value < _BEYOND else None


def nice_count(text: str) -> int | None:
    """The nearest whole number; exact where the text has no suffix. None as for nice_number."""
    if text.isascii() and text.isdigit() and len(text) <= 20:
        count = int(text)
        return count if count < _BEYOND else None
    value = nice_number(text)
    return None if value is None or round(value) >= _BEYOND else round(value)


def nice_time_ns(text: str) -> float | None:
    """Nanoseconds in `65us`, `17s` or, without a unit, `65535`. None where it is no time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    value = float(found[1]) * _NANOSECONDS[found[2]]
    return value if value < _BEYOND else None


# Lines of a tool's output, and how one that is not understood is refused.

_SHOWN = 160
# What OpenZFS 2.2 colours figures with, where it prints to a terminal (ZFS_COLOR).
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]{0,20}[mK]")
# -T d prints a date by the locale: `Sat Nov 21 09:13:40 UTC 2026`, `Wed 14 Apr 2021 02:27:26 PM
# UTC`, `March 18, 2022 02:27:26 PM UTC`.
_CLOCK: Final = re.compile(r"(?<![\d:])(\d{1,2}):(\d\d):(\d\d)(?![\d:])(?: ([AaPp])[Mm]\b)?")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_LONGEST_DATE: Final = 60
# `root@pbs:~#`, `[root@host ~]# zpool ...`, `$ zpool ...`, `bash-4.2#`, behind a `^C` perhaps.
_PROMPT: Final = re.compile(
    r"(?:\^C)?(?:\S*[@~]\S*(?: \S+)?|\[[^\]]+\]|[A-Za-z][\w.-]*)? ?[#$%>](?: .*)?|\^C"
)
_LONGEST_PROMPT: Final = 200


def uncoloured(text: str) -> str:
    """Without the codes that colour a terminal."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def is_date(line: str) -> bool:
    """Whether the line is a date with its time, as -T d prints it."""
    return len(line) <= _LONGEST_DATE and bool(_CLOCK.search(line) and _YEAR.search(line))


def clock_s(line: str) -> int:
    """Seconds since midnight of a date (`is_date`)."""
    found = _CLOCK.search(line)
    if found is None:
        raise ValueError(f"{line!r} tells no time")
    hours = int(found[1])
    if found[4]:
        hours = hours % 12 + (12 if found[4] in "Pp" else 0)
    return hours * 3600 + int(found[2]) * 60 + int(found[3])


def is_prompt(line: str) -> bool:
    """Whether the line is a shell's prompt, with or without a command behind it."""
    told = line.strip()
    return bool(told) and bool(_PROMPT.fullmatch(told[:_LONGEST_PROMPT]))


def lines_of(text: str, tool: str) -> list[str]:
    """Lines without blanks at their ends; the first has number 1. Raises
    FormatError(`empty-result`)."""
    given = uncoloured(text.removeprefix("\ufeff"))
    if not given.strip():
        raise FormatError("empty-result", f"the output of {tool} is empty")
    # Only what ends a line in a file: a name may hold the other characters that splitlines knows.
    # Tabs stay: between them a cell may be empty.
    return [line.rstrip(" \r") for line in given.split("\n")]


def is_cut(text: str, number: int, lines: list[str]) -> bool:
    """Whether line `number` is the last one and lacks its end."""
    return number >= len(lines) and not text.endswith("\n")


def refused(number: int, line: str, tool: str, *, cut: bool = False) -> FormatError:
    """`truncated-result` where the line is the last one and has no end, else
    `unreadable-result`."""
    return FormatError(
        "truncated-result" if cut else "unreadable-result",
        f"line {number} of the output of {tool} is " + ("cut off" if cut else "not understood"),
        context=(f"it says: {line.strip()[:_SHOWN]!r}",),
    )


def ends_early(tool: str, what: str, line: str = "") -> FormatError:
    return FormatError(
        "truncated-result",
        f"the output of {tool} ends before {what}",
        context=(f"the last line says: {line.strip()[:_SHOWN]!r}",) if line.strip() else (),
    )


_TOOL: Final = "zpool status"
# Keys stand right-aligned before a colon; what goes on below them is indented by eight.
_KEY: Final = re.compile(r" {0,7}(?P<key>[a-z]{2,12}):(?: (?P<rest>.*))?", re.ASCII)
_STATES: Final = frozenset(
    {"ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "SUSPENDED", "SPLIT"}
    | {"AVAIL", "INUSE"}
)
_NONE: Final = frozenset({"no pools available"})
_SUSPENDED: Final = "are faulted in response to IO failures"
_LONGEST_LINE: Final = 10_000


class VdevGroup(StrEnum):
    """Where a vdev stands in the tree. Without a head it is `data`."""

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
    """A row of the tree. `depth` is 0 for the pool itself; errors are None for a spare, which has
    none told. `note` is what stands behind the figures, such as `cannot open`."""

    name: str
    state: str
    depth: int
    group: VdevGroup
    read_errors: int | None
    write_errors: int | None
    checksum_errors: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """What is not told is empty: a healthy pool has no `status` and no `action`. `scan` is the
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
        """Whether all I/O to it waits or fails. Before OpenZFS 0.8.2 `state` did not say so, and
        the pool was told ONLINE or DEGRADED; the status line did."""
        return self.state == "SUSPENDED" or _SUSPENDED in self.status

    @property
    def leaves(self) -> tuple[VdevStatus, ...]:
        """The devices and files: rows that have none below them."""
        ends = [*self.vdevs[1:], None]
        return tuple(
            one
            for one, below in zip(self.vdevs, ends, strict=False)
            if below is None or below.depth <= one.depth
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
    lines = lines_of(text, _TOOL)
    if text.strip() in _NONE:
        return ()
    pools: list[_Reading] = []
    # The tool tells on standard error, so before all others, that it cannot list the errors.
    early = _Reading(line=0)
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if len(line) > _LONGEST_LINE:
            raise refused(number, line, _TOOL, cut=cut)
        if not line.strip() or (not pools and is_prompt(line)):
            continue
        found = _KEY.fullmatch(line)
        key = found["key"] if found else ""
        if key == "pool":
            pools.append(_Reading(line=number))
        reading = pools[-1] if pools else early
        if found and (pools or key == "errors"):
            reading.key = key
            reading.texts.setdefault(key, []).append((found["rest"] or "").strip())
        elif reading.key == "config":
            _take_row(reading, number, line, cut=cut)
        elif reading.key:
            reading.texts[reading.key].append(line.strip())
        else:
            raise refused(number, line, _TOOL, cut=cut)
    if not pools:
        raise ends_early(_TOOL, "the first pool", lines[0])
    if early.texts:
        pools[0].texts.setdefault("errors", []).extend(early.texts["errors"])
    return tuple(_status(one) for one in pools)


def _take_row(reading: _Reading, number: int, line: str, *, cut: bool) -> None:
    wide = line.expandtabs(8)
    indent = len(wide) - len(wide.lstrip())
    words = line.split()
    if reading.margin < 0:
        if words[:2] != ["NAME", "STATE"]:
            # A pool that could not be opened may have words in place of the tree.
            reading.texts["config"].append(line.strip())
            return
        reading.margin = indent
        return
    if indent == reading.margin and len(words) == 1 and words[0] in _HEADS:
        reading.group = _HEADS[words[0]]
        return
    # A name may hold blanks, and be one of the states.
    at = next((index for index, word in enumerate(words) if index and word in _STATES), 0)
    if not at or indent < reading.margin or (indent - reading.margin) % 2:
        raise refused(number, line, _TOOL, cut=cut)
    behind = words[at + 1 :]
    counts = [nice_count(word) for word in behind[:3]]
    told = len(counts) == 3 and None not in counts
    if cut and not told:
        raise refused(number, line, _TOOL, cut=cut)
    read, write, checksum = counts if told else (None, None, None)
    reading.vdevs.append(
        VdevStatus(
            name=" ".join(words[:at]),
            state=words[at],
            depth=(indent - reading.margin) // 2,
            group=reading.group,
            read_errors=read,
            write_errors=write,
            checksum_errors=checksum,
            note=" ".join(behind[3:] if told else behind),
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
    lines = lines_of(text, _PROPERTIES_TOOL)
    found: dict[str, dict[str, Property]] = {}
    begin = -1
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if len(line) > _PROPERTIES_LONGEST_LINE:
            raise refused(number, line, _PROPERTIES_TOOL, cut=cut)
        if not line.strip():
            continue
        if tuple(line.lower().split()) == _ALL:
            begin = line.index("PROPERTY") if "PROPERTY" in line else -1
            continue
        cells = _row(line, begin) if begin > 0 else _tabbed(line, columns)
        if cells is None or cut:
            raise refused(number, line, _PROPERTIES_TOOL, cut=cut)
        name, key, value, source = cells
        if key in found.setdefault(name, {}):
            raise refused(number, line, _PROPERTIES_TOOL)
        found[name][key] = Property(value=value, source=source)
    if not found:
        raise ends_early(_PROPERTIES_TOOL, "the first property", lines[0])
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


# Files below /proc/spl/kstat/zfs: tables of a name, a type and a value (`arcstats`, `zil`,
# `dmu_tx`, `zfetchstats`, a pool's `iostats` and `objset-*`), a pool's `io` (up to 2.0), which
# has a line of names and one of values, and a pool's `txgs`.
#      18 1 0x01 147 39984 8805559810 115388725390     name                            type data
# hits                            4    89795

_KSTAT_TOOL: Final = "a kstat"
_TXGS: Final = "the kstat txgs"
# kid, type, flags, number of entries, bytes, creation and snapshot in ns (module/os/linux/spl/
# spl-kstat.c, kstat_seq_show_headers).
_HEADER: Final = re.compile(
    r"\d{1,10} (?P<type>\d) 0x[0-9a-f]{1,8} (?P<entries>\d{1,9}) \d{1,12} (?P<created>\d{1,20}) "
    r"(?P<taken>\d{1,20})",
    re.ASCII,
)
_KSTAT_HEADS: Final = ["name", "type", "data"]
_NAMED: Final = "1"
_IO: Final = "3"
_IO_HEADS: Final = (
    *("nread", "nwritten", "reads", "writes", "wtime", "wlentime", "wupdate"),
    *("rtime", "rlentime", "rupdate", "wcnt", "rcnt"),
)
_NAMED_ROW: Final = re.compile(
    r"(?P<name>\S{1,255})\s+(?P<type>\d)(?:\s+(?P<data>\S.*))?", re.ASCII
)
_KSTAT_NUMBER: Final = re.compile(r"-?\d{1,20}", re.ASCII)
# KSTAT_DATA_CHAR and _STRING; 1 to 6 are numbers (include/os/linux/spl/sys/kstat.h).
_TEXTS: Final = frozenset("07")
_NUMBERS: Final = frozenset("123456")
_KSTAT_LONGEST_LINE: Final = 2000
_TXG_HEADS: Final = (
    *("txg", "birth", "state", "ndirty", "nread", "nwritten", "reads", "writes"),
    *("otime", "qtime", "wtime", "stime"),
)
_NS: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Kstat:
    """`values` by name, whole numbers or texts, most of them counters since the module was loaded.
    `created_s` and `taken_s` are seconds of the machine's clock since it booted."""

    created_s: float
    taken_s: float
    values: Mapping[str, int | str]


class TxgState(StrEnum):
    """How far a transaction group is: all but the last ones are committed."""

    BIRTH = "B"
    OPEN = "O"
    QUIESCED = "Q"
    WAIT_FOR_SYNC = "W"
    SYNCED = "S"
    COMMITTED = "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class Txg:
    """One transaction group. `birth_s` is seconds since the machine booted. It was open, that is
    took writes, for `open_s`, then waited for those under way (`quiesce_s`), then for the group
    before (`wait_s`), and was written to the disks in `sync_s`: zeros for what is still to come.
    `dirty_bytes` had been changed in memory; `read_bytes` and `written_bytes`, `reads` and `writes`
    are what the pool's devices did for it, copies and metadata included."""

    txg: int
    birth_s: float
    state: TxgState
    dirty_bytes: int
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int
    open_s: float
    quiesce_s: float
    wait_s: float
    sync_s: float


def parse_kstat(text: str) -> Kstat:
    """A table of names and values, or a pool's `io`. Raises FormatError (`empty-result`,
    `truncated-result` where there are fewer entries than the first line says,
    `unreadable-result`) with the line."""
    lines = lines_of(text, _KSTAT_TOOL)
    header = _HEADER.fullmatch(lines[0])
    if header is None or header["type"] not in (_NAMED, _IO):
        raise refused(1, lines[0], _KSTAT_TOOL, cut=is_cut(text, 1, lines))
    if header["type"] == _IO:
        values = _io_values(text, lines)
    else:
        values = _named_values(text, lines, int(header["entries"]))
    return Kstat(
        created_s=int(header["created"]) * _NS,
        taken_s=int(header["taken"]) * _NS,
        values=MappingProxyType(values),
    )


def _io_values(text: str, lines: list[str]) -> dict[str, int | str]:
    """Of a pool's `io`: bytes and counts, and times in ns."""
    told = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if len(told) < 3:
        raise ends_early(_KSTAT_TOOL, "its values", lines[-1])
    (heads_at, heads), (number, line) = told[1:3]
    if tuple(heads.split()) != _IO_HEADS:
        raise refused(heads_at, heads, _KSTAT_TOOL)
    words = line.split()
    if (
        len(words) != len(_IO_HEADS)
        or not all(_KSTAT_NUMBER.fullmatch(word) and 0 <= int(word) < _BEYOND for word in words)
        or is_cut(text, number, lines)
    ):
        raise refused(number, line, _KSTAT_TOOL, cut=is_cut(text, number, lines))
    if len(told) > 3:
        raise refused(*told[3], _KSTAT_TOOL)
    return {head: int(word) for head, word in zip(_IO_HEADS, words, strict=True)}


def _named_values(text: str, lines: list[str], entries: int) -> dict[str, int | str]:
    values: dict[str, int | str] = {}
    heads = False
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        if not heads:
            if line.split() != _KSTAT_HEADS:
                raise refused(number, line, _KSTAT_TOOL, cut=is_cut(text, number, lines))
            heads = True
            continue
        found = _NAMED_ROW.fullmatch(line) if len(line) <= _KSTAT_LONGEST_LINE else None
        value = _value(found["type"], found["data"] or "") if found else None
        # A number of which the end is missing is a wrong number.
        if found is None or value is None or is_cut(text, number, lines):
            raise refused(number, line, _KSTAT_TOOL, cut=is_cut(text, number, lines))
        if found["name"] in values:
            raise refused(number, line, _KSTAT_TOOL)
        values[found["name"]] = value
    if len(values) < entries:
        raise ends_early(_KSTAT_TOOL, f"all of its {entries} entries", lines[-1])
    if len(values) > entries:
        raise refused(len(lines), lines[-1], _KSTAT_TOOL)
    return values


def _value(kind: str, given: str) -> int | str | None:
    if kind in _TEXTS:
        return given
    if kind not in _NUMBERS or not _KSTAT_NUMBER.fullmatch(given):
        return None
    value = int(given)
    return value if abs(value) < _BEYOND else None


def parse_txgs(text: str) -> tuple[Txg, ...]:
    """The last groups of a pool, oldest first; none where the table is empty
    (zfs_txg_history is 0). Up to 0.8 a kstat's first line stands above it. Raises FormatError as
    parse_kstat does."""
    lines = lines_of(text, _TXGS)
    groups: list[Txg] = []
    heads = False
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or (number == 1 and _HEADER.fullmatch(line)):
            continue
        if not heads:
            if tuple(words) != _TXG_HEADS:
                raise refused(number, line, _TXGS, cut=is_cut(text, number, lines))
            heads = True
            continue
        group = _txg(words)
        if group is None or is_cut(text, number, lines):
            raise refused(number, line, _TXGS, cut=is_cut(text, number, lines))
        groups.append(group)
    if not heads:
        raise ends_early(_TXGS, "its heads", lines[0])
    return tuple(groups)


def _txg(words: list[str]) -> Txg | None:
    told = dict(zip(_TXG_HEADS, words, strict=False))
    state = told.pop("state", "")
    numbers = {
        head: int(word)
        for head, word in told.items()
        if _KSTAT_NUMBER.fullmatch(word) and 0 <= int(word) < _BEYOND
    }
    if len(words) != len(_TXG_HEADS) or len(numbers) < len(told) or state not in set(TxgState):
        return None
    return Txg(
        txg=numbers["txg"],
        birth_s=numbers["birth"] * _NS,
        state=TxgState(state),
        dirty_bytes=numbers["ndirty"],
        read_bytes=numbers["nread"],
        written_bytes=numbers["nwritten"],
        reads=numbers["reads"],
        writes=numbers["writes"],
        open_s=numbers["otime"] * _NS,
        quiesce_s=numbers["qtime"] * _NS,
        wait_s=numbers["wtime"] * _NS,
        sync_s=numbers["stime"] * _NS,
    )
