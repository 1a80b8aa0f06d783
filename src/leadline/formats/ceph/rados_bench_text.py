"""Text output of `rados bench`, of every release: one line per second, and a summary.

    Maintaining 16 concurrent writes of 4194304 bytes to objects of size 4194304 for up to 60 ...
      sec Cur ops   started  finished  avg MB/s  cur MB/s last lat(s)  avg lat(s)
        1      16        40        24   95.9936        96    0.470633    0.504092
    Total time run:         60.383984
    Total writes made:      1693

Releases differ (src/common/obj_bencher.cc): "Average IOPS" has had no colon, latencies no "(s)",
before Infernalis there are no IOPS and no object size. "MB" is MiB. The output of reads shows
neither their depth nor whether they are sequential or random: only a command line before it does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.formats.ceph.rados_bench import TOOL
from leadline.formats.result import FormatError, Latency, Note, NoteKind

# No line of the tool is longer; a pattern is not tried on more.
_LONGEST_LINE = 300
_STAMP = r"(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{1,9}(?:[+-]\d{4})? )"
_NUMBER = r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?(?:e[-+]?\d{1,4})?|nan|inf)"
_WHOLE = r"\d{1,15}"
_MAINTAINING = re.compile(
    rf"{_STAMP}?Maintaining (?P<depth>\d{{1,9}}) concurrent writes of (?P<size>{_WHOLE}) bytes"
    rf"(?: to objects of size {_WHOLE})? for (?:up to|at least) (?P<seconds>\d{{1,9}}) seconds"
    rf"(?: or (?P<objects>{_WHOLE}) objects)?\.?"
)
_COLUMNS = re.compile(
    rf"{_STAMP}?sec +Cur ops +started +finished +avg MB/s +cur MB/s +last lat(?:\(s\))?"
    r" +avg lat(?:\(s\))?"
)
_TICK = re.compile(
    rf"{_STAMP}?(?P<second>{_WHOLE})\s+\d{{1,15}}\s+\d{{1,15}}\s+(?P<finished>{_WHOLE})"
    rf"\s+{_NUMBER}\s+{_NUMBER}\s+(?:{_NUMBER}|-)\s+{_NUMBER}"
)
_EXTREMES = re.compile(rf"{_STAMP}{{1,2}}min lat: {_NUMBER} max lat: {_NUMBER} avg lat: {_NUMBER}")
_FIGURE = re.compile(rf"{_STAMP}?(?P<label>[A-Z][A-Za-z/() ]{{3,30}}):?\s+(?P<value>{_NUMBER})")
_LABEL = re.compile(r"\s*(?:\(s\))?\s*:?\s*$")
_KNOWN_BY = re.compile(
    rf"{_STAMP}?(?:hints = 1|Object prefix: .*|Cleaning up \(deleting benchmark objects\)|"
    r"Removed \d+ objects|Clean up completed and total clean up time ?:.*)"
)
_WRONG_DATA = re.compile(r"\S+ is not correct!")
_COMMAND = re.compile(r"\brados\s(?P<words>[^|;&>]*)")
_VALUED = {"-p": "pool", "--pool": "pool", "-t": "depth", "--concurrent-ios": "depth"}
_VALUED |= dict.fromkeys(("-b", "--block-size", "-o", "-O", "--object-size", "--max-objects"), "")
_VALUED |= dict.fromkeys(("-N", "--namespace", "--run-name", "-n", "--name", "--id", "-i"), "")
_VALUED |= dict.fromkeys(("-c", "--conf", "-m", "-k", "--keyring", "--cluster", "--format"), "")
# `rados bench` without -t keeps 16 in flight (man page rados(8), all releases).
_DEFAULT_DEPTH = 16

_TIME, _WRITES, _READS = "total time run", "total writes made", "total reads made"
_SIZES = {_WRITES: "write size", _READS: "read size"}
_BANDWIDTH, _IOPS, _LAST = "bandwidth (mb/sec)", "average iops", "min latency"
_LABELS = frozenset(
    {_TIME, _WRITES, _READS, *_SIZES.values(), _BANDWIDTH, _IOPS, _LAST, "object size"}
    | {"stddev bandwidth", "max bandwidth (mb/sec)", "min bandwidth (mb/sec)"}
    | {"stddev iops", "max iops", "min iops"}
    | {"average latency", "stddev latency", "max latency"}
)


class Mode(StrEnum):
    """The mode of `rados bench`."""

    WRITE = "write"
    SEQ = "seq"
    RAND = "rand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command line before the output."""

    mode: Mode
    seconds: int
    depth: int
    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSummary:
    """One invocation. Bandwidth in MiB/s; None where not reported or impossible.

    `seconds` pairs the second with the I/Os finished by then, as printed. `wrong_objects` had other
    content than was written. `depth`, `asked_s` and `max_objects` are printed for writes only."""

    line: int
    op_is_write: bool
    op_size: int
    ios: int
    ran_s: float | None
    bandwidth_mib_s: float | None
    reported_iops: float | None
    latency: Latency | None
    seconds: tuple[tuple[int, int], ...]
    depth: int | None
    asked_s: int | None
    max_objects: int
    wrong_objects: int
    command: Command | None
    noise: str
    notes: tuple[Note, ...]


@dataclass(slots=True, kw_only=True)
class _Section:
    """The lines of one invocation, while they are gathered."""

    line: int
    noise: str
    command: Command | None
    asked: re.Match[str] | None = None
    seconds: list[tuple[int, int]] = field(default_factory=list)
    figures: dict[str, tuple[int, str]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    wrong_objects: int = 0
    odd: list[tuple[int, str]] = field(default_factory=list)
    last_line: int = 0

    @property
    def complete(self) -> bool:
        return _LAST in self.figures


def looks_like_rados_bench(text: str) -> bool:
    """Test whether a line of it is one that only `rados bench` prints."""
    return any(_MAINTAINING.fullmatch(line) or _COLUMNS.fullmatch(line) for line in _lines(text))


def parse_rados_bench_text(text: str) -> tuple[TextSummary | FormatError, ...]:
    """Every invocation in a text, in order; an error for one that did not come to its end. Raises
    FormatError(`unreadable-result`) with the line, also where there is none at all."""
    sections = _sections(text)
    if not sections:
        first = text.strip().splitlines()[0][:160] if text.strip() else ""
        raise FormatError.unreadable(
            f"there is no output of {TOOL} in it", f"line 1 says: {first!r}"
        )
    return tuple(_summary(section) for section in sections)


def _lines(text: str) -> list[str]:
    return [line.strip() if len(line) <= _LONGEST_LINE else "" for line in text.splitlines()]


def _sections(text: str) -> list[_Section]:
    sections: list[_Section] = []
    noise: list[str] = []
    command: Command | None = None
    section: _Section | None = None
    for number, (whole, line) in enumerate(zip(text.splitlines(), _lines(text), strict=True), 1):
        if not whole.strip():
            continue
        if _begins(line, section):
            section = _Section(line=number, noise="\n".join(noise), command=command)
            sections.append(section)
            noise, command = [], None
        if section is not None and _add(section, number, line):
            continue
        found = _command(line)
        if section is None or found:
            # Lines behind a command line are not of the invocation before it.
            section, command = None, found or command
            noise.append(whole)
        else:
            section.odd.append((number, whole[:160]))
    return sections


def _begins(line: str, section: _Section | None) -> bool:
    """Test whether an invocation begins here; the column heads are repeated every 20 seconds."""
    first = line == "hints = 1" or _MAINTAINING.fullmatch(line) is not None
    running = _COLUMNS.fullmatch(line) is not None or _TICK.fullmatch(line) is not None
    figure = _figure(line)
    summary = figure is not None and figure[0] == _TIME
    if section is None:
        return first or running or summary
    if not section.figures:
        return first and bool(section.seconds)
    return first or running or (summary and _TIME in section.figures)


def _add(section: _Section, number: int, line: str) -> bool:
    """Take a line of the tool's own; False for another's."""
    asked, tick, figure = _MAINTAINING.fullmatch(line), _TICK.fullmatch(line), _figure(line)
    if asked:
        section.asked = asked
    elif tick:
        section.seconds.append((int(tick["second"]), int(tick["finished"])))
    elif figure:
        label, value = figure
        if label in section.figures:
            fact = f"{label!r} is given again; the first one is used"
            section.notes.append(Note(NoteKind.REPEATED_FIELD, f"line {number}", fact))
        section.figures.setdefault(label, (number, value))
    elif _WRONG_DATA.fullmatch(line):
        section.wrong_objects += 1
    elif not any(known.fullmatch(line) for known in (_COLUMNS, _EXTREMES, _KNOWN_BY)):
        return False
    section.last_line = number
    return True


def _figure(line: str) -> tuple[str, str] | None:
    found = _FIGURE.fullmatch(line)
    if not found:
        return None
    label = _LABEL.sub("", found["label"]).lower()
    return (label, found["value"]) if label in _LABELS else None


def _command(line: str) -> Command | None:
    """`rados [OPTIONS] bench SECONDS write|seq|rand`, options anywhere between the words."""
    found = _COMMAND.search(line)
    plain: list[str] = []
    given: dict[str, str] = {}
    words = iter(found["words"].split() if found else ())
    for word in words:
        option, _, value = word.partition("=")
        if option in _VALUED:
            given[_VALUED[option]] = value or next(words, "")
        elif not word.startswith("-"):
            plain.append(word)
    modes = list(Mode)
    if plain[:1] != ["bench"] or len(plain) < 3 or plain[2] not in modes:
        return None
    depth = given.get("depth", str(_DEFAULT_DEPTH))
    if not all(re.fullmatch(r"\d{1,9}", text) for text in (plain[1], depth)):
        return None
    return Command(
        mode=Mode(plain[2]),
        seconds=int(plain[1]),
        depth=int(depth),
        pool=given.get("pool", "").strip("'\""),
    )


def _summary(section: _Section) -> TextSummary | FormatError:
    figures = section.figures
    made = [label for label in (_WRITES, _READS) if label in figures]
    needed = [_TIME, *(made or (f"{_WRITES} or {_READS}",))]
    # All releases print the least latency last.
    needed += [*(_SIZES[label] for label in made[:1]), _BANDWIDTH, _LAST]
    missing = [label for label in needed if label not in figures]
    if missing:
        return _incomplete(section, missing)
    if len(made) > 1:
        raise FormatError.unreadable(
            f"line {figures[made[1]][0]}: one summary has writes and reads"
        )
    command = section.command
    if command and (command.mode is Mode.WRITE) != (made[0] == _WRITES):
        command = None
    notes = list(section.notes)
    values = {label: _value(label, given, notes) for label, given in figures.items()}
    asked = section.asked if made[0] == _WRITES else None
    op_size, ios = _whole(_SIZES[made[0]], figures), _whole(made[0], figures)
    if section.odd:
        number, first = section.odd[0]
        lines = f"{len(section.odd)} line{'s are' if len(section.odd) > 1 else ' is'}"
        fact = f"{lines} not {TOOL}'s; the first: {first!r}"
        notes.append(Note(NoteKind.LEFT_OUT, f"line {number}", fact))
    return TextSummary(
        line=section.line,
        op_is_write=made[0] == _WRITES,
        op_size=op_size,
        ios=ios,
        ran_s=values[_TIME],
        bandwidth_mib_s=values[_BANDWIDTH],
        reported_iops=values.get(_IOPS),
        latency=None
        if values.get("average latency") is None
        else Latency(
            mean_s=values["average latency"],
            min_s=values.get("min latency"),
            max_s=values.get("max latency"),
            stddev_s=values.get("stddev latency"),
            count=ios,
        ),
        seconds=tuple(section.seconds),
        depth=int(asked["depth"]) if asked else None,
        asked_s=int(asked["seconds"]) if asked else None,
        max_objects=int(asked["objects"] or 0) if asked else 0,
        wrong_objects=section.wrong_objects,
        command=command,
        noise=section.noise,
        notes=tuple(notes),
    )


def _incomplete(section: _Section, missing: Sequence[str]) -> FormatError:
    where = section.odd[-1] if section.odd else (section.last_line, "")
    context = f"line {where[0]}" + (f" says: {where[1]!r}" if where[1] else " is its last")
    if section.complete:
        raise FormatError.unreadable(
            f"the summary of {TOOL} lacks its {' and '.join(missing)}", context
        )
    return FormatError.truncated(
        f"{TOOL} printed no {' and no '.join(missing)}: it did not come to its end",
        f"it begins on line {section.line}",
        context,
    )


def _value(label: str, given: tuple[int, str], notes: list[Note]) -> float | None:
    """A figure, or None and a note: the extremes of IOPS are INT_MIN in runs under a second."""
    value = float(given[1])
    if math.isfinite(value) and value >= 0:
        return value
    notes.append(
        Note(
            NoteKind.IMPOSSIBLE_VALUE,
            f"line {given[0]}",
            f"{label!r} is {given[1]}, which cannot be",
        )
    )
    return None


def _whole(label: str, figures: Mapping[str, tuple[int, str]]) -> int:
    number, text = figures[label]
    if not re.fullmatch(_WHOLE, text):
        raise FormatError.unreadable(f"line {number}: {label!r} is {text}; expected a whole number")
    return int(text)
