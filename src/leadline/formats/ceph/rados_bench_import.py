"""Importer of `rados bench`: its text of all releases, and its JSON.

Latency is total latency: from handing an I/O to librados until its completion was seen, the wait
for the tool's one thread included. Reads tell neither their depth nor whether they were sequential
or random, unless the command line stands before them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from leadline.formats.ceph.rados_bench import (
    TOOL,
    Pass,
    Progress,
    exact_iops,
    json_document,
    rados_bench_windows,
    read_pass,
)
from leadline.formats.fio.logs import Window
from leadline.formats.importer import Importer, Result
from leadline.formats.result import (
    BUFFERS,
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Note,
    NoteKind,
    Operation,
)
from leadline.metrics import Op

# Text output of `rados bench`, of every release: a line a second, and a summary.
#      Maintaining 16 concurrent writes of 4194304 bytes to objects of size 4194304 for up to 60
# ...       sec Cur ops   started  finished  avg MB/s  cur MB/s last lat(s)  avg lat(s)         1
# 16        40        24   95.9936        96    0.470633    0.504092     Total time run:
# 60.383984     Total writes made:      1693
#  Releases differ (src/common/obj_bencher.cc): "Average IOPS" has had no colon, latencies no
# "(s)", before Infernalis there are no IOPS and no object size. "MB" is MiB. What reads print
# tells neither their depth nor whether they were sequential or random: only a command line before
# it does.

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
_RADOS_BENCH_TEXT_WRONG_DATA = re.compile(r"\S+ is not correct!")
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
    """What `rados bench` was told to do."""

    WRITE = "write"
    SEQ = "seq"
    RAND = "rand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line that stands before the output."""

    mode: Mode
    seconds: int
    depth: int
    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSummary:
    """One invocation. Latencies in seconds, bandwidth in MiB/s; None where not told or impossible.

    `seconds` pairs the second with the I/Os finished by then, as printed. `wrong_objects` had not
    the content that was written. `depth`, `asked_s` and `max_objects` are told of writes only.
    """

    line: int
    op_is_write: bool
    op_size: int
    ios: int
    ran_s: float | None
    bandwidth_mib_s: float | None
    told_iops: float | None
    mean_s: float | None
    min_s: float | None
    max_s: float | None
    stddev_s: float | None
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
    """Whether a line of it is one that only `rados bench` prints."""
    return any(_MAINTAINING.fullmatch(line) or _COLUMNS.fullmatch(line) for line in _lines(text))


def parse_rados_bench_text(text: str) -> tuple[TextSummary | FormatError, ...]:
    """Every invocation in a text, in order; an error for one that did not come to its end. Raises
    FormatError(`unreadable-result`) with the line, also where there is none at all."""
    sections = _sections(text)
    if not sections:
        first = text.strip().splitlines()[0][:160] if text.strip() else ""
        raise FormatError(
            "unreadable-result",
            f"there is no output of {TOOL} in it",
            context=(f"line 1 says: {first!r}",),
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
        told = _command(line)
        if section is None or told:
            # What stands behind a command line is not of the invocation before it.
            section, command = None, told or command
            noise.append(whole)
        else:
            section.odd.append((number, whole[:160]))
    return sections


def _begins(line: str, section: _Section | None) -> bool:
    """Whether an invocation begins here; the column heads are repeated every 20 seconds."""
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
        _take(section, number, *figure)
    elif _RADOS_BENCH_TEXT_WRONG_DATA.fullmatch(line):
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


def _take(section: _Section, number: int, label: str, value: str) -> None:
    if label in section.figures:
        section.notes.append(
            Note(
                kind=NoteKind.REPEATED_FIELD,
                where=f"line {number}",
                fact=f"{label!r} is given again; the first one is used",
            )
        )
        return
    section.figures[label] = (number, value)


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
        raise FormatError(
            "unreadable-result",
            f"line {figures[made[1]][0]}: one summary tells of writes and of reads",
        )
    command = section.command
    if command and (command.mode is Mode.WRITE) != (made[0] == _WRITES):
        command = None
    notes = list(section.notes)
    values = {label: _value(label, given, notes) for label, given in figures.items()}
    asked = section.asked if made[0] == _WRITES else None
    notes += _left_out(section.odd)
    return TextSummary(
        line=section.line,
        op_is_write=made[0] == _WRITES,
        op_size=_whole(_SIZES[made[0]], figures),
        ios=_whole(made[0], figures),
        ran_s=values[_TIME],
        bandwidth_mib_s=values[_BANDWIDTH],
        told_iops=values.get(_IOPS),
        mean_s=values.get("average latency"),
        min_s=values.get("min latency"),
        max_s=values.get("max latency"),
        stddev_s=values.get("stddev latency"),
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
        raise FormatError(
            "unreadable-result",
            f"the summary of {TOOL} lacks its {' and '.join(missing)}",
            context=(context,),
        )
    return FormatError(
        "truncated-result",
        f"{TOOL} printed no {' and no '.join(missing)}: it did not come to its end",
        context=(f"it begins on line {section.line}", context),
    )


def _value(label: str, given: tuple[int, str], notes: list[Note]) -> float | None:
    """A figure, or None and a note: the extremes of IOPS are INT_MIN in runs under a second."""
    value = float(given[1])
    if math.isfinite(value) and value >= 0:
        return value
    notes.append(
        Note(
            kind=NoteKind.IMPOSSIBLE_VALUE,
            where=f"line {given[0]}",
            fact=f"{label!r} is {given[1]}, which cannot be",
        )
    )
    return None


def _whole(label: str, figures: Mapping[str, tuple[int, str]]) -> int:
    number, text = figures[label]
    if not re.fullmatch(_WHOLE, text):
        raise FormatError(
            "unreadable-result", f"line {number}: {label!r} is {text}; expected a whole number"
        )
    return int(text)


def _left_out(odd: Sequence[tuple[int, str]]) -> list[Note]:
    if not odd:
        return []
    return [
        Note(
            kind=NoteKind.LEFT_OUT,
            where=f"line {odd[0][0]}",
            fact=f"{len(odd)} line{'s are' if len(odd) > 1 else ' is'} not {TOOL}'s; "
            f"the first: {odd[0][1]!r}",
        )
    ]


_MIB = 1 << 20
_LARGEST = 2**63 - 1
# fio's number for data that is not what was written (EILSEQ).
_WRONG_DATA = 84
# Ticks come a little late; a longer silence before the end is no series of every second.
_SILENCE_S = 5
_EARLY = 0.95
_HINTS = "hints = 1"
_WRITE_KEYS = ("concurrent_ios", "object_size", "op_size", "seconds_to_run", "max_objects")
_KEYS = frozenset(
    {*_WRITE_KEYS, "object_prefix", "datas", "total_time_run", "bandwidth", "stddev_bandwidth"}
    | {"total_writes_made", "write_size", "total_reads_made", "read_size"}
    | {"max_bandwidth", "min_bandwidth", "average_iops", "stddev_iops", "max_iops", "min_iops"}
    | {"average_latency", "stddev_latency", "max_latency", "max_latency:", "min_latency"}
)


def _recognises(_name: str, head: bytes) -> bool:
    if b'"total_writes_made"' in head or b'"total_reads_made"' in head:
        return True
    if b"finished" not in head:
        return False
    if b"concurrent_ios" in head or (b'"cur_ops"' in head and b'"avg_lat"' in head):
        return True
    return looks_like_rados_bench(head.decode("utf-8", "replace"))


def _read(files: Mapping[str, bytes]) -> tuple[Result, ...]:
    return tuple(result for content in files.values() for result in read_results(content))


def read_results(content: bytes) -> tuple[Result, ...]:
    """What a file holds, one result for each invocation of the tool. Raises FormatError."""
    text = content.decode("utf-8-sig", "replace")
    if not text.strip():
        return (_of("", FormatError("empty-result", f"the file is empty ({len(content)} bytes)")),)
    if text.lstrip().removeprefix(_HINTS).lstrip().startswith("{"):
        return (_json_result(content),)
    summaries = parse_rados_bench_text(text)
    names = _names(summaries)
    return tuple(
        _of(name, one) if isinstance(one, FormatError) else _text_result(name, one)
        for name, one in zip(names, summaries, strict=True)
    )


def _names(summaries: tuple[TextSummary | FormatError, ...]) -> list[str]:
    """One invocation is named by its file; several by what they did, as far as they tell."""
    if len(summaries) == 1:
        return [""]
    names = []
    for number, one in enumerate(summaries, start=1):
        if isinstance(one, FormatError):
            names.append(f"cut {number}")
        else:
            mode = _mode(one)
            names.append(mode.value if mode else f"read {number}")
    return names


def _mode(one: TextSummary) -> Mode | None:
    if one.op_is_write:
        return Mode.WRITE
    return one.command.mode if one.command else None


def _of(
    workload: str,
    output: EngineOutput | FormatError,
    target: str = "",
    windows: Mapping[Op, tuple[Window, ...]] | None = None,
) -> Result:
    return Result(workload=workload, output=output, target=target, tool=TOOL, windows=windows or {})


def _text_result(name: str, one: TextSummary) -> Result:
    op = Op.WRITE if one.op_is_write else Op.READ
    notes = list(one.notes)
    moved = one.ios * one.op_size
    if moved > _LARGEST:
        raise FormatError(
            "unreadable-result",
            f"{one.ios} I/Os of {one.op_size} bytes cannot be",
            context=(f"its output begins on line {one.line}",),
        )
    operation = Operation(
        op=op,
        iops=exact_iops(one.ios, one.ran_s or 0.0, one.told_iops),
        bandwidth_bps=_bytes(one, notes),
        total_ios=one.ios,
        io_bytes=moved,
        runtime_s=one.ran_s,
        total=Latency(
            min_s=one.min_s,
            max_s=one.max_s,
            mean_s=one.mean_s,
            stddev_s=one.stddev_s,
            count=one.ios,
        )
        if one.mean_s is not None
        else None,
    )
    options, ended_early = _text_options(one)
    notes += ended_early
    progress = Progress(seconds=one.seconds, ios=one.ios, ran_s=one.ran_s or 0.0)
    windows = _windows(op, progress, f"line {one.line}", notes)
    job = _job(operation, options, error=_WRONG_DATA if one.wrong_objects else 0)
    output = EngineOutput(version=TOOL, noise=one.noise, jobs=(job,), notes=tuple(notes))
    target = f"rados:{one.command.pool}" if one.command and one.command.pool else ""
    return _of(name, output, target, windows)


def _bytes(one: TextSummary, notes: list[Note]) -> float | None:
    if one.bandwidth_mib_s is None or one.bandwidth_mib_s * _MIB <= _LARGEST:
        return None if one.bandwidth_mib_s is None else one.bandwidth_mib_s * _MIB
    fact = f"a bandwidth of {one.bandwidth_mib_s:g} MiB/s cannot be"
    notes.append(_note(NoteKind.IMPOSSIBLE_VALUE, f"line {one.line}", fact))
    return None


def _text_options(one: TextSummary) -> tuple[JobOptions, list[Note]]:
    command, mode = one.command, _mode(one)
    depth = one.depth or (command.depth if command else None)
    asked_s = one.asked_s if one.asked_s is not None else command.seconds if command else None
    notes = []
    early = mode is Mode.SEQ and asked_s and (one.ran_s or 0.0) < _EARLY * asked_s
    if early:
        fact = (
            f"{one.ran_s} s of the {asked_s} s asked: seq ends when it has read every object "
            "once, so the time asked is not taken for the runtime"
        )
        notes.append(_note(NoteKind.LEFT_OUT, f"line {one.line}", fact))
        asked_s = None
    if mode is None:
        notes.append(_pattern_unknown(f"line {one.line}"))
    return _options(mode, one.op_size, depth, asked_s, bounded=one.max_objects > 0), notes


def _options(
    mode: Mode | None, op_size: int, depth: int | None, asked_s: int | None, *, bounded: bool
) -> JobOptions:
    """In fio's words. `bounded`: a number of objects could end it before its time."""
    # One thread of the client keeps `depth` I/Os in flight (obj_bencher.cc).
    raw = {"bs": str(op_size), "numjobs": "1", "ioengine": TOOL.replace(" ", "-")}
    if mode is not None:
        raw["rw"] = {Mode.WRITE: "write", Mode.SEQ: "read", Mode.RAND: "randread"}[mode]
    if depth:
        raw["iodepth"] = str(depth)
    if asked_s:
        raw["runtime"] = f"{asked_s}s"
        if not bounded and mode in (Mode.WRITE, Mode.RAND):
            raw["time_based"] = "1"
    if mode is Mode.WRITE:
        raw["buffer_pattern"] = BUFFERS[TOOL]
    return JobOptions(raw=raw, whole=False)


def _json_result(content: bytes) -> Result:
    try:
        document = json_document(content)
        one = read_pass(document)
    except FormatError as error:
        if error.condition == "truncated-result":
            return _of("", error)
        raise
    notes = [
        _note(NoteKind.UNKNOWN_FIELD, f"$[{key!r}]", f"{TOOL} is not known to write {key!r}")
        for key in sorted(document.keys() - _KEYS)
    ]
    notes += [
        _note(NoteKind.REPEATED_FIELD, f"$[{key!r}]", f"{key!r} is given again; the last is used")
        for key in sorted(_KEYS - {"object_size"})
        # The tool gives the object size twice itself; the names below `datas` are other ones.
        if content.count(b'"%s"' % key.encode()) > 1
    ]
    mode = Mode.WRITE if one.op is Op.WRITE else None
    if mode is None:
        notes.append(_pattern_unknown("$"))
    asked = {key: _told(document, key) for key in ("seconds_to_run", "max_objects")}
    options = _options(
        mode,
        one.op_size,
        one.depth,
        asked["seconds_to_run"] if mode else None,
        bounded=bool(asked["max_objects"]),
    )
    windows = _windows(one.op, one.progress, "$.datas", notes)
    job = _job(_json_operation(one), options, error=0)
    return _of("", EngineOutput(version=TOOL, jobs=(job,), notes=tuple(notes)), windows=windows)


def _told(document: Mapping[str, Any], key: str) -> int | None:
    text = str(document.get(key, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _json_operation(one: Pass) -> Operation:
    return Operation(
        op=one.op,
        iops=exact_iops(one.ios, one.ran_s, one.told_iops),
        bandwidth_bps=one.bandwidth_bps,
        total_ios=one.ios,
        io_bytes=one.ios * one.op_size,
        runtime_s=one.ran_s,
        total=Latency(
            min_s=one.min_s,
            max_s=one.max_s,
            mean_s=one.mean_s,
            stddev_s=one.stddev_s,
            count=one.ios,
        ),
    )


def _job(operation: Operation, options: JobOptions, *, error: int) -> JobResult:
    ran_s = operation.runtime_s or 0.0
    return JobResult(
        name=TOOL,
        error=error,
        options=options,
        job_runtime_s=ran_s,
        elapsed_s=ran_s,
        # An invocation that did nothing has extremes of nothing: 9999 s and 0 s.
        operations=(operation,) if operation.total_ios else (),
    )


def _windows(
    op: Op, progress: Progress, where: str, notes: list[Note]
) -> Mapping[Op, tuple[Window, ...]]:
    """IOPS of each second, if the file tells every second; else a note of why not."""
    points = progress.seconds
    if not points or not progress.ran_s:
        return {}
    fault = ""
    # Second 0 is printed before anything is done.
    for (before, done), (second, finished) in zip(((-1, 0), *points), points, strict=False):
        if second != before + 1 and not (before == -1 and second == 1):
            fault = f"second {second} follows second {max(before, 0)}"
        elif finished < done or finished > progress.ios:
            fault = f"second {second}, with {finished} I/Os finished, cannot follow {done}"
        if fault:
            break
    if not fault and progress.ran_s > points[-1][0] + _SILENCE_S:
        fault = f"nothing is told from second {points[-1][0]} to {progress.ran_s:g}"
    if fault:
        fact = f"the seconds are not used: {fault}"
        notes.append(_note(NoteKind.LEFT_OUT, where, fact))
        return {}
    told = tuple(point for point in points if 0 < point[0] <= progress.ran_s)
    return {op: rados_bench_windows([replace(progress, seconds=told)])}


def _pattern_unknown(where: str) -> Note:
    fact = f"{TOOL} does not tell whether its reads were sequential (seq) or random (rand)"
    return _note(NoteKind.LEFT_OUT, where, fact)


def _note(kind: NoteKind, where: str, fact: str) -> Note:
    return Note(kind=kind, where=where, fact=fact)


IMPORTER = Importer(
    kind="rados-bench",
    summary="output of `rados bench`, text or JSON",
    recognises=_recognises,
    read=_read,
)
