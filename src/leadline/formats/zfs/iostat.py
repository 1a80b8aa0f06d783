"""`zpool iostat`: rates of pools and vdevs, plain or with -v, -l, -q, -p, -H, -T, -y.

                  capacity     operations     bandwidth
    pool        alloc   free   read  write   read  write
    ----------  -----  -----  -----  -----  -----  -----
    tank         911M  1009M      9    438  6.39M   131M

The first block is the average since the pool was imported, unless -y left it out, which the output
does not show. All suffixes are powers of 1024, of operations, too (zfs_nicenum, so that 1009 is
before 1.10K); without -p a figure has three digits, a time one to three. The mean waits of -l are
made of the middles of a histogram's buckets, of which each begins at twice the one before
(zpool_main.c, single_histo_average): they may be a third off. -r and -w print those histograms and
are refused here: `iostat_sizes` reads those of -r.

With an interval the blocks follow each other, with -v each under heads of its own; what several
runs of the tool printed one after the other reads the same, but where a prompt or the command
is between them: then each run begins with an average of its own. zfs-fuse prints log devices
as any other, without the line `logs` above them. Old ZFS prints `used` and `avail` for `alloc` and
`free`; with some locales the decimal point is a comma, and a copy from a terminal has blanks where
-H printed tabs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from leadline.formats.result import FormatError, Note, NoteKind
from leadline.formats.text import TextLine, shown
from leadline.formats.zfs.lines import (
    clock_s,
    is_date,
    is_prompt,
    uncoloured,
)

TOOL: Final = "zpool iostat"
DEFAULT_COLUMNS = (
    *("capacity_alloc", "capacity_free"),
    *("operations_read", "operations_write", "bandwidth_read", "bandwidth_write"),
)
_WAITS = frozenset({"total_wait", "disk_wait", "syncq_wait", "asyncq_wait"})
_SINGLE_WAITS = frozenset({"scrub", "trim", "rebuild"})
_QUEUES = frozenset(
    {"syncq_read", "syncq_write", "asyncq_read", "asyncq_write"}
    | {"scrubq_read", "trimq_write", "rebuildq_write"}
)
_GROUPS = frozenset({"capacity", "operations", "bandwidth"}) | _WAITS | _SINGLE_WAITS | _QUEUES
# -v puts these heads among the vdevs, with no figures of their own.
_HEADS = frozenset({"logs", "cache", "special", "dedup", "spares"})
# 0.7 lacks the end of such a line: the first device follows its dashes (PR 5852).
_JOINED = re.compile(
    r"(?:logs|cache|special|dedup|spares)(?:\s+-){6,40}(?P<gap>\s+)(?P<name>[^\s-].*)"
)
_OLD_LABELS = {"used": "alloc", "avail": "free"}
LONGEST_LINE = 2000
_FACTORS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_FACTORS |= {"E": 1 << 60}
_TIMES = {"": 1e-9, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
CELL = re.compile(r"(?P<number>\d{1,20}(?:\.\d{1,9}|,\d{1,2})?)(?P<unit>[BKMGTPE]|ns|us|ms|s)?")
FIRST_GROUPS = ["capacity", "operations", "bandwidth"]
_HISTOGRAM_GROUPS = ({"sync_read", "sync_write"}, {"total_wait", "disk_wait"})
HISTOGRAM_HEADS = ("req_size", "latency")
_COMMAND = re.compile(r"\bzpool\s+iostat\b(?P<rest>[^|;&>]*)")
_SHOWN_OF_COMMAND = 300
_DAY_S = 86_400
_UNIX_TIME = re.compile(r"\d{9,11}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IostatRow:
    """A pool or vdev in one interval. `depth` is 0 for a pool, None where -H hides it. `group` is
    the head above it (`logs`, `cache`, `special`, ...), empty for what holds data.

    `values` by column, named by its two heads: `capacity_alloc`, `capacity_free` and
    `bandwidth_read`, `bandwidth_write` in bytes and bytes/s; `operations_read`, ... in 1/s;
    `total_wait_read`, `scrub_wait`, ... in seconds; `syncq_read_pend`, `syncq_read_activ`, ... are
    counts at the end of the interval. None for a dash.
    """

    interval: int
    line: int
    pool: str
    name: str
    depth: int | None
    values: Mapping[str, float | None]
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IostatReport:
    """All rows in order, intervals counted from 0. `since_boot`: the first interval is the average
    since the import of the pool; None where unknown. `averages` are the intervals
    that are such an average or, as -y is unknown, may be one: the first of each run of the tool.
    `interval_s` is None where neither the command line nor timestamps of -T show it."""

    rows: tuple[IostatRow, ...]
    intervals: int
    since_boot: bool | None
    averages: frozenset[int]
    interval_s: float | None
    noise: str
    notes: tuple[Note, ...]

    def leaves(self, pool: str) -> tuple[str, ...]:
        """The pool's devices and files, each once, in the order of the tree: rows that have none
        below them. Empty without -v, and with -H, which hides the tree."""
        found: dict[str, None] = {}
        for row, below in zip(self.rows, (*self.rows[1:], None), strict=True):
            if row.pool == pool and row.depth:
                same = below is not None and below.interval == row.interval
                if not (same and below is not None and (below.depth or 0) > row.depth):
                    found[row.name] = None
        return tuple(found)


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What has been read so far."""

    columns: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    indent: int = 0
    width: int = 0
    rows: list[IostatRow] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    pool: str = ""
    group: str = ""
    interval: int = 0
    blanks: bool = False
    heads: int = 0
    stamp: int | None = None
    steps: set[int] = field(default_factory=set)
    noise: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    # Of the run of the tool that is being read.
    begins: bool = True
    without_average: bool | None = None
    averages: set[int] = field(default_factory=set)
    since_boot: bool | None = None
    asked_s: float | None = None


def parse_zpool_iostat(content: bytes, *, stopped: bool = False) -> IostatReport:
    """`stopped`: the tool was stopped while it ran, as a watch does; then a last line without an
    end is left out, and the last interval where it lacks rows that the one before it has. Raises
    FormatError(`empty-result`), (`truncated-result`) or (`unreadable-result`) with the line."""
    if stopped:
        content = content[: content.rfind(b"\n") + 1]
    text = uncoloured(content.decode("utf-8-sig", "replace"))
    if not text.strip():
        raise FormatError.empty(f"the file is empty ({len(content)} bytes)")
    lines = text.splitlines()
    cut = not text.endswith(("\n", "\r"))
    whole = lines[:-1] if cut and len(lines) > 1 else lines
    reading = _Reading(blanks=is_scripted_with_blanks(whole) or _asks_for_blanks(whole))
    for number, line in enumerate(lines, start=1):
        _take(reading, TextLine(TOOL, number, line.rstrip(), cut and number == len(lines)))
    if not reading.rows:
        raise FormatError.unreadable(
            f"there is no row of {TOOL} in it",
            shown("line 1 says", lines[0]),
            cut=bool(reading.groups),
        )
    if stopped:
        _drop_unfinished(reading)
    _doubt_single_blocks(reading)
    return IostatReport(
        rows=tuple(reading.rows),
        intervals=reading.interval + 1,
        since_boot=reading.since_boot,
        averages=frozenset(reading.averages),
        interval_s=reading.asked_s or _step(reading.steps),
        noise="\n".join(reading.noise),
        notes=tuple(reading.notes),
    )


def _doubt_single_blocks(reading: _Reading) -> None:
    """Only -v prints heads above each block of one run; without it so many heads are as many
    runs, and if none had -y or an interval, every block is an average since the import."""
    flat = not any(row.depth for row in reading.rows)
    if (
        flat
        and reading.since_boot is None
        and reading.interval
        and reading.heads > reading.interval
    ):
        fact = (
            "each block has its own heads, as runs without an interval print it: those "
            "would be averages since the pool was imported, and no measurement"
        )
        reading.notes.append(Note(NoteKind.UNKNOWN_FIELD, f"line {reading.rows[0].line}", fact))


def _drop_unfinished(reading: _Reading) -> None:
    last = [row.name for row in reading.rows if row.interval == reading.interval]
    before = [row.name for row in reading.rows if row.interval == reading.interval - 1]
    if len(last) < len(before) and before[: len(last)] == last:
        del reading.rows[-len(last) :]
        reading.averages.discard(reading.interval)
        reading.interval -= 1


def _step(steps: set[int]) -> float | None:
    """The interval by its whole-second timestamps, if all steps are equal."""
    (step,) = steps if len(steps) == 1 else (0,)
    return float(step) if step > 0 else None


def _take(reading: _Reading, line: TextLine) -> None:
    text = line.text
    if len(text) > LONGEST_LINE:
        _other(reading, line)
        return
    words = text.split()
    # The backticks are those around code in Markdown.
    if not text.strip("- \t`"):
        return
    if is_histogram(words):
        mode = "-r" if _HISTOGRAM_GROUPS[0] <= set(words) else "-w"
        raise FormatError.unreadable(
            f"{line.where}: histograms of {TOOL} {mode} give no rates, and their buckets, each "
            "twice as wide as the one before, no percentiles; take it with -l and an interval "
            f"({TOOL} -y -l 1)",
            shown("it says", text),
        )
    if words[:3] == FIRST_GROUPS:
        reading.groups, reading.columns = tuple(words), ()
        reading.heads += 1
    elif reading.groups and not reading.columns:
        reading.indent, reading.width = len(text) - len(text.lstrip()), len(text)
        reading.columns = _columns(reading, line)
    elif _UNIX_TIME.fullmatch(text):
        _take_stamp(reading, int(text))
    elif is_date(text):
        _take_stamp(reading, clock_s(text))
    elif is_prompt(text) or _command_words(text):
        _other(reading, line)
    else:
        _row(reading, line)


def _take_stamp(reading: _Reading, seconds: int) -> None:
    """Seconds, of which those of a date begin anew at midnight."""
    if reading.stamp is not None:
        reading.steps.add((seconds - reading.stamp) % _DAY_S)
    reading.stamp = seconds


def is_histogram(words: Sequence[str]) -> bool:
    return words[:3] != FIRST_GROUPS and any(need <= set(words) for need in _HISTOGRAM_GROUPS)


def is_scripted_with_blanks(lines: Sequence[str]) -> bool:
    """Test whether all lines but commands and dates are rows of -H, with blanks in place of the
    tabs."""
    widths: set[int] = set()
    for line in lines:
        words = line.split() if len(line) <= LONGEST_LINE else []
        if not line.strip("- \t`") or is_prompt(line) or _command_words(line) or is_date(line):
            continue
        cells = [word for word in words[1:] if word == "-" or CELL.fullmatch(word)]
        if "\t" in line or len(words) <= len(DEFAULT_COLUMNS) or len(cells) < len(words) - 1:
            return False
        widths.add(len(words))
    return len(widths) == 1


def _asks_for_blanks(lines: Sequence[str]) -> bool:
    """Test whether the command has -H, and there are neither heads nor tabs."""
    words = [command_word for line in lines for command_word in _command_words(line)]
    flags = "".join(word for word in words if word.startswith("-"))
    return "H" in flags and not any(
        "\t" in line or line.split(None, 3)[:3] == FIRST_GROUPS for line in lines
    )


def _columns(reading: _Reading, line: TextLine) -> tuple[str, ...]:
    """The columns' names, of the line of groups and the line of labels below it."""
    labels = [_OLD_LABELS.get(word, word) for word in line.text.split()[1:]]
    columns: list[str] = []
    for group in reading.groups:
        # A wait of a single kind of I/O has one column, all others have two.
        width = 1 if labels[:1] == ["wait"] else 2
        columns += [f"{group}_{label}" for label in labels[:width]]
        labels = labels[width:]
    known = tuple(columns[: len(DEFAULT_COLUMNS)]) == DEFAULT_COLUMNS
    if labels or len(set(columns)) < len(columns) or not known:
        raise FormatError.unreadable(
            f"{line.where}: the heads of {TOOL} do not fit to each other",
            shown("it says", " ".join(line.text.split())),
            shown("above it", " ".join(reading.groups)),
        )
    if not reading.rows:
        where = f"line {line.number - 1}"
        for group in reading.groups:
            if group not in _GROUPS:
                fact = f"the column {group!r} is not known, nor its unit; it is left out"
                reading.notes.append(Note(NoteKind.UNKNOWN_FIELD, where, fact))
    return tuple(columns)


def _row(reading: _Reading, line: TextLine) -> None:
    text = line.text
    scripted = ("\t" in text or reading.blanks) and not reading.columns
    columns = reading.columns or DEFAULT_COLUMNS
    cells = text.split(None if reading.blanks else "\t")
    if not scripted:
        cells = text.rsplit(None, len(columns))
    fits = len(cells) >= len(columns) + 1 if scripted else len(cells) == len(columns) + 1
    if not fits or not (reading.columns or scripted):
        _other(reading, line)
        return
    name, values = cells[0].strip(), [cell.strip() for cell in cells[1:]]
    are_figures = all(value == "-" or CELL.fullmatch(value) for value in values)
    if not are_figures and (line.is_cut or reading.rows or scripted):
        raise line.refused()
    if not are_figures or (scripted and not name[:1].isalpha()):
        _other(reading, line)
        return
    if line.is_cut and not scripted and len(text) < reading.width:
        # The last figure may lack digits and its unit.
        raise line.refused()
    reading.width = min(reading.width, len(text))
    # Every level of vdevs is two blanks further in.
    depth = None if scripted else max(0, len(text) - len(text.lstrip()) - reading.indent) // 2
    if name in _HEADS and set(values) == {"-"}:
        reading.group = name
        return
    joined = _JOINED.fullmatch(name)
    if joined:
        reading.group = name.split()[0]
        name, depth = joined["name"], len(joined["gap"]) // 2
    if scripted and len(values) > len(columns) and not reading.rows:
        fact = (
            f"{len(values) - len(columns)} columns behind bandwidth have no names with -H; they "
            "are left out"
        )
        reading.notes.append(Note(NoteKind.LEFT_OUT, line.where, fact))
    if not depth:
        _begin_interval(reading, name)
        reading.seen.add(name)
        reading.pool, reading.group = name, ""
    if depth and not reading.pool:
        raise FormatError.unreadable(
            f"{line.where} of the output of {TOOL} is a vdev with no pool above it",
            shown("it says", text),
        )
    row_values = {
        column: _value(column, value, line.where)
        for column, value in zip(columns, values, strict=False)
        if any(column.startswith(f"{group}_") for group in _GROUPS)
    }
    reading.rows.append(
        IostatRow(
            interval=reading.interval,
            line=line.number,
            pool=reading.pool,
            name=name,
            depth=depth,
            values=MappingProxyType(row_values),
            group=reading.group,
        )
    )


def _begin_interval(reading: _Reading, pool: str) -> None:
    """A new one with a pool that has a row in this one, and with each run of the tool."""
    if pool in reading.seen or (reading.begins and reading.rows):
        reading.interval += 1
        reading.seen.clear()
    if reading.begins and not reading.without_average:
        reading.averages.add(reading.interval)
    reading.begins = False


def _other(reading: _Reading, line: TextLine) -> None:
    """A line that is none of the tool's: the command, and before the figures anything."""
    words = _command_words(line.text)
    if (reading.rows or reading.columns) and not (words or is_prompt(line.text)):
        raise line.refused()
    reading.noise.append(line.text)
    if reading.rows:
        reading.columns = reading.groups = ()
        reading.begins, reading.without_average = True, None
        # The time between two runs is no interval.
        reading.stamp = None
    if words:
        _take_command(reading, line.where, words)


def _take_command(reading: _Reading, where: str, words: Sequence[str]) -> None:
    """Raises FormatError for a second run with another interval."""
    flags = "".join(word for word in words if re.fullmatch(r"-[a-zA-Z]+", word))
    reading.without_average = "y" in flags
    if not reading.rows:
        reading.since_boot = "y" not in flags
    numbers = [word for word in words[-2:] if re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", word)]
    asked_s = float(numbers[0]) or None if numbers else None
    if reading.rows and asked_s and reading.asked_s and asked_s != reading.asked_s:
        raise FormatError.unreadable(
            f"{where}: a run of {TOOL} every {asked_s:g} s begins behind one every "
            f"{reading.asked_s:g} s; give each a file of its own"
        )
    reading.asked_s = asked_s or (reading.asked_s if reading.rows else None)


def _command_words(line: str) -> Sequence[str]:
    """Return the words of a `zpool iostat` command in a line; empty where there is none."""
    found = _COMMAND.search(line[:_SHOWN_OF_COMMAND])
    return (TOOL, *found["rest"].split()) if found else ()


def _value(column: str, text: str, where: str) -> float | None:
    """In base units. Times without a unit (-p) are nanoseconds. Raises FormatError."""
    found = CELL.fullmatch(text)
    if found is None:
        return None
    timed = any(column.startswith(f"{group}_") for group in _WAITS | _SINGLE_WAITS)
    factors: Mapping[str, float] = _TIMES if timed else _FACTORS
    unit = found["unit"] or ""
    if unit not in factors:
        raise FormatError.unreadable(f"{where}: {text!r} cannot be in the column {column}")
    return float(found["number"].replace(",", ".")) * factors[unit]
