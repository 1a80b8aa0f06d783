"""Files below /proc/spl/kstat/zfs: tables of named values, and the transaction groups of a pool.

    18 1 0x01 147 39984 8805559810 115388725390
    name                            type data
    hits                            4    89795

A table has names, types and values (`arcstats`, `zil`, `dmu_tx`, `zfetchstats`, a pool's `iostats`
and `objset-*`). A pool's `txgs` has one row for each transaction group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from leadline.formats.text import TextLine, ends_early, line_refused
from leadline.formats.zfs.lines import BEYOND, tool_lines

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
_NAMED_ROW: Final = re.compile(
    r"(?P<name>\S{1,255})\s+(?P<type>\d)(?:\s+(?P<data>\S.*))?", re.ASCII
)
_KSTAT_NUMBER: Final = re.compile(r"-?\d{1,20}", re.ASCII)
# KSTAT_DATA_CHAR and _STRING; 1 to 6 are numbers (include/os/linux/spl/sys/kstat.h).
_TEXTS: Final = frozenset("07")
_NUMBERS: Final = frozenset("123456")
_LONGEST_LINE: Final = 2000
_TXG_HEADS: Final = (
    *("txg", "birth", "state", "ndirty", "nread", "nwritten", "reads", "writes"),
    *("otime", "qtime", "wtime", "stime"),
)
_NS: Final = 1e-9


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


def parse_kstat(text: str) -> Mapping[str, int | str]:
    """Parse a table of names and values: whole numbers or texts, most of them counters since the
    module was loaded. Raises FormatError (`empty-result`, `truncated-result` where there are fewer
    entries than the header states, `unreadable-result`) with the line."""
    lines = tool_lines(text, _KSTAT_TOOL)
    header = _HEADER.fullmatch(lines[0].text)
    if header is None or header["type"] != _NAMED:
        raise lines[0].refused()
    values: dict[str, int | str] = {}
    for line in _rows(lines[1:], _KSTAT_HEADS):
        found = _NAMED_ROW.fullmatch(line.text) if len(line.text) <= _LONGEST_LINE else None
        value = _value(found["type"], found["data"] or "") if found else None
        # A number of which the end is missing is a wrong number.
        if found is None or value is None or line.is_cut:
            raise line.refused()
        if found["name"] in values:
            raise line_refused(line.number, line.text, _KSTAT_TOOL)
        values[found["name"]] = value
    entries = int(header["entries"])
    if len(values) < entries:
        raise ends_early(_KSTAT_TOOL, f"all of its {entries} entries", lines[-1].text)
    if len(values) > entries:
        raise line_refused(len(lines), lines[-1].text, _KSTAT_TOOL)
    return MappingProxyType(values)


def _rows(lines: Sequence[TextLine], heads: Sequence[str]) -> Iterator[TextLine]:
    """Yield the lines below the heads, without blank ones. Raises FormatError for other heads."""
    begun = False
    for line in lines:
        words = line.text.split()
        if words and begun:
            yield line
        elif words:
            if words != list(heads):
                raise line.refused()
            begun = True


def _value(kind: str, given: str) -> int | str | None:
    if kind in _TEXTS:
        return given
    if kind not in _NUMBERS or not _KSTAT_NUMBER.fullmatch(given):
        return None
    value = int(given)
    return value if abs(value) < BEYOND else None


def parse_txgs(text: str) -> tuple[Txg, ...]:
    """The last groups of a pool, oldest first; none where the table is empty
    (zfs_txg_history is 0). Up to 0.8 a kstat header is above it. Raises FormatError as
    parse_kstat does."""
    lines = tool_lines(text, _TXGS)
    below = lines[1:] if _HEADER.fullmatch(lines[0].text) else lines
    if not any(line.text.strip() for line in below):
        raise ends_early(_TXGS, "its heads", lines[0].text)
    groups: list[Txg] = []
    for line in _rows(below, _TXG_HEADS):
        group = _txg(line.text.split())
        if group is None or line.is_cut:
            raise line.refused()
        groups.append(group)
    return tuple(groups)


def _txg(words: list[str]) -> Txg | None:
    cells = dict(zip(_TXG_HEADS, words, strict=False))
    state = cells.pop("state", "")
    numbers = {
        head: int(word)
        for head, word in cells.items()
        if _KSTAT_NUMBER.fullmatch(word) and 0 <= int(word) < BEYOND
    }
    if len(words) != len(_TXG_HEADS) or len(numbers) < len(cells) or state not in set(TxgState):
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
