"""elbencho's results in each of its four formats.

They are its CSV (`--csvfile`), its JSON (`--jsonfile`, one object a line), its text (`--resfile`,
or what it prints) and its live statistics (`--livecsv`). All but the last hold one record per
phase. Of the two columns of every figure the one of the last finisher is taken: until then the
phase ran, while that of the first finisher (`[first]`, a stonewall) is of the time when all workers
were still busy. Figures of the CSV are cut to whole I/Os and MiB per second, those of the JSON to
whole bytes; the CSV's sum of MiB, cut as well, says no more than its rate and is not taken for a
count of bytes. In a mixed phase the figures without `rwmix read` are the writes
(source/Statistics.cpp). Phases that move no data (MKDIRS, SYNC, STAT, RMFILES, ...) are left out.

The text has no parameters but those of its `COMMAND LINE`, and of mixed phases the CSV and the JSON
are read only. Live statistics next to the CSV of the same name are its rates over time.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from leadline.formats.foreign.elbencho_live import LIVE_HEADER, LivePhase, parse_live
from leadline.formats.importer import Importer, Result
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    NoteKind,
    Operation,
)
from leadline.formats.text import Figures, distinct_names, split_lines
from leadline.metrics import Op
from leadline.units import parse_fio_size

TOOL: Final = "elbencho"
_MIB: Final = float(1 << 20)
_US: Final = 1e-6
_CSV: Final = "ISO date,"
_TEXT = re.compile(r"OPERATION +RESULT TYPE +FIRST DONE +LAST DONE")
_COMMAND: Final = "COMMAND LINE:"
# `WRITE     Elapsed ms       :      84135     110109`; the operation is in the first row only.
_ROW = re.compile(
    r"(?P<operation>[A-Z][A-Z0-9+_-]{0,30})? {1,30}"
    r"(?P<what>[A-Za-z][A-Za-z0-9/% ]{0,30}?) {1,30}: +(?P<values>.+)",
    re.ASCII,
)
# `110109`, `2m5.755s`, `1h2m3s`, `26ms`.
_ELAPSED = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_LATENCY = re.compile(r"(min|avg|max)=(\d+(?:\.\d+)?)(us|ms|s)?", re.ASCII)
_IN_US: Final = {"": 1.0, "us": 1.0, "ms": 1e3, "s": 1e6}
# Parameters of the command line, by their long and short names.
_ARGUMENTS: Final[Mapping[str, str]] = {
    "--threads": "threads",
    "-t": "threads",
    "--size": "file size",
    "-s": "file size",
    "--block": "block size",
    "-b": "block size",
    "--iodepth": "IO depth",
}
_FLAGS: Final[Mapping[str, str]] = {"--direct": "direct IO", "--rand": "random"}
_LIVE_NAME: Final = ".live.csv"
_MIXED = re.compile(r"(?:RWMIX|MIX-T)(?P<share>\d*)")
# What the CSV calls the parameters, and what the JSON does.
_PARAMETERS: Final[Mapping[str, str]] = {
    "path type": "path_type",
    "hosts": "hosts",
    "threads": "threads",
    "file size": "file_size",
    "block size": "block_size",
    "direct IO": "direct_io",
    "random": "random_offsets",
    "IO depth": "io_depth",
}
# What both hold of a phase, except that the CSV has no `bytes`.
_FIGURES: Final = ("IOPS", "bandwidth", "bytes", "min", "avg", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """One record as text: `writes` is the only direction of a phase that is not mixed."""

    operation: str
    label: str
    version: str
    parameters: Mapping[str, str]
    time_ms: str
    main: Mapping[str, str]
    mixed_reads: Mapping[str, str]
    bandwidth_unit: float
    where: str
    cut: bool = False

    @property
    def moves_data(self) -> bool:
        parts = (self.main, self.mixed_reads)
        return self.cut or any(part["IOPS"] or part["bandwidth"] for part in parts)

    @property
    def name(self) -> str:
        return f"{self.label} {self.operation}".strip()


def parse_elbencho(content: bytes) -> tuple[Result, ...]:
    """Every phase that moves data. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    lines = split_lines(content)
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise FormatError.empty("the file is empty")
    if lines[first].startswith(LIVE_HEADER):
        return _live_results(lines)
    if lines[first].startswith(_CSV):
        phases = _csv_phases(lines)
    elif lines[first].lstrip().startswith("{"):
        phases = _json_phases(lines)
    elif any(_TEXT.match(line) for line in lines):
        phases = _text_phases(lines)
    else:
        raise FormatError.unreadable(
            "this is neither CSV nor JSON nor text of elbencho's",
            f"line {first + 1}: {lines[first][:80]!r}",
        )
    return _results(phases)


def _csv_phases(lines: Sequence[str]) -> list[_Phase]:
    """Rows by the header above them. No cell holds a comma: elbencho replaces them."""
    phases: list[_Phase] = []
    header: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith(_CSV):
            header = line.split(",")
        elif line.strip():
            cells = line.split(",")
            if len(cells) > len(header):
                raise FormatError.unreadable(
                    f"a row has {len(cells)} cells, its header {len(header)}", f"line {number}"
                )
            row = dict(zip(header, cells, strict=False))
            cut = len(cells) < len(header)
            if cut and number < len(lines):
                raise FormatError.unreadable(
                    f"a row has {len(cells)} cells, its header {len(header)}", f"line {number}"
                )
            phases.append(_csv_phase(row, f"line {number}", cut=cut))
    return phases


def _csv_phase(row: Mapping[str, str], where: str, *, cut: bool) -> _Phase:
    def part(prefix: str) -> dict[str, str]:
        columns = {
            "IOPS": "IOPS [last]",
            "bandwidth": "MiB/s [last]",
            "min": "IO lat us [min]",
            "avg": "IO lat us [avg]",
            "max": "IO lat us [max]",
        }
        return {figure: row.get(prefix + name, "").strip() for figure, name in columns.items()}

    return _Phase(
        operation=row.get("operation", "").strip(),
        label=row.get("label", "").strip(),
        version=row.get("version", "").strip(),
        parameters={name: row[name].strip() for name in _PARAMETERS if row.get(name, "").strip()},
        time_ms=row.get("time ms [last]", ""),
        main=part(""),
        mixed_reads=part("rwmix read "),
        bandwidth_unit=_MIB,
        where=where,
        cut=cut,
    )


def _json_phases(lines: Sequence[str]) -> list[_Phase]:
    phases: list[_Phase] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            cut = error.pos >= len(line.rstrip()) - 1
            raise FormatError.unreadable(
                "a record of elbencho's is " + ("cut off" if cut else "not JSON"),
                f"line {number}, column {error.colno}: {error.msg}",
                cut=cut,
            ) from error
        phases.append(_json_phase(_object(record, f"line {number}: $"), f"line {number}"))
    return phases


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError.unreadable("expected a JSON object", where)
    return value


def _text(value: object, where: str) -> str:
    """Scalars as text: boost writes every value as a string, which a later version may not."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise FormatError.unreadable("expected a text or a number", where)


def _json_phase(record: Mapping[str, Any], line: str) -> _Phase:
    def below(mapping: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
        for key in path:
            mapping = _object(mapping.get(key, {}), f"{line}: {key}")
        return mapping

    def text(mapping: Mapping[str, Any], key: str) -> str:
        return _text(mapping.get(key, ""), f"{line}: {key}")

    config, done = below(record, "config"), below(record, "last_done")
    latency = below(done, "latency", "IO")

    def part(rates: Mapping[str, Any], times: Mapping[str, Any]) -> dict[str, str]:
        keys = (
            *((rates, key) for key in ("iops", "bytes/s", "bytes")),
            *((times, key) for key in ("min_us", "avg_us", "max_us")),
        )
        return {
            figure: text(mapping, key)
            for figure, (mapping, key) in zip(_FIGURES, keys, strict=True)
        }

    return _Phase(
        operation=text(record, "phase_type"),
        label=text(record, "label"),
        version=text(config, "version"),
        parameters={
            name: text(config, key) for name, key in _PARAMETERS.items() if text(config, key)
        },
        time_ms=text(done, "elapsed_time_ms"),
        main=part(done, latency),
        mixed_reads=part(below(done, "rwmix_read"), below(latency, "rwmix_read")),
        bandwidth_unit=1.0,
        where=line,
    )


# The text.


def _text_phases(lines: Sequence[str]) -> list[_Phase]:
    """Read the column of the last finisher. Other lines may be around the phases."""
    phases: list[_Phase] = []
    parameters: Mapping[str, str] = {}
    inside = False
    operation, start = "", 0
    rows: dict[str, str] = {}

    def finish() -> None:
        if operation:
            phases.append(_text_phase(operation, rows, parameters, f"line {start}"))

    for number, line in enumerate(lines, start=1):
        if line.startswith(_COMMAND):
            parameters = _arguments(line.removeprefix(_COMMAND), f"line {number}")
        elif _TEXT.match(line):
            inside = True
        elif inside and (row := _ROW.fullmatch(line.rstrip())):
            if row["operation"]:
                finish()
                operation, start, rows = row["operation"], number, {}
            rows[row["what"]] = row["values"]
        elif line.strip() and not line.startswith(("===", "---")):
            finish()
            inside, operation = False, ""
    finish()
    return phases


def _text_phase(
    operation: str, rows: Mapping[str, str], parameters: Mapping[str, str], where: str
) -> _Phase:
    def last(what: str) -> str:
        """Return the second of two values; a cut row has one."""
        values = rows.get(what, "").split()
        if len(values) == 1:
            raise FormatError.truncated(f"{what} of {operation} has one value of two", where)
        return values[1] if values else ""

    # Before version 3 latencies are whole microseconds, and their row says so.
    given = rows.get("IO latency us", rows.get("IO latency", ""))
    latency = {
        figure: f"{float(value) * _IN_US[unit]:.12g}"
        for figure, value, unit in _LATENCY.findall(given)
    }
    elapsed = last("Elapsed time") if "Elapsed time" in rows else last("Elapsed ms") + "ms"
    mixed = _MIXED.fullmatch(operation.partition("+")[0]) is not None
    return _Phase(
        operation=operation,
        label="",
        version="",
        parameters=parameters,
        time_ms=_elapsed_ms(elapsed, where),
        main=dict.fromkeys(_FIGURES, "")
        if mixed
        else {
            **dict.fromkeys(_FIGURES, ""),
            **latency,
            "IOPS": last("IOPS"),
            "bandwidth": last("Throughput MiB/s"),
        },
        mixed_reads=dict.fromkeys(_FIGURES, ""),
        bandwidth_unit=_MIB,
        where=where,
    )


def _elapsed_ms(text: str, where: str) -> str:
    match = _ELAPSED.fullmatch(text)
    if match is None or not any(match.groups()):
        raise FormatError.unreadable(f"the elapsed time is {text[:40]!r}", where)
    hours, minutes, seconds, milliseconds = (float(group or 0) for group in match.groups())
    return f"{((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds:.12g}"


def _arguments(command: str, where: str) -> dict[str, str]:
    """Read the parameters as the CSV has them: numbers in bytes, flags as 0 or 1."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise FormatError.truncated("the command line of elbencho is cut off", where) from error
    found = {name: str(int(flag in words)) for flag, name in _FLAGS.items()}
    for word, value in itertools.pairwise(words):
        if word == "--hosts":
            found["hosts"] = str(len([host for host in value.split(",") if host]))
        elif name := _ARGUMENTS.get(word):
            try:
                found[name] = str(parse_fio_size(value))
            except ValueError:
                continue
    return found


# Live statistics.


def _live_results(lines: Sequence[str]) -> tuple[Result, ...]:
    """What a run had done when its live statistics end, where no CSV is next to them."""
    figures = Figures()
    results = []
    for live in parse_live(lines, figures):
        operations = _live_ops(live)
        if not operations:
            figures.note(
                NoteKind.LEFT_OUT, live.where, f"the phase {live.operation[:40]} moves no data"
            )
            continue
        fact = f"the time after {live.elapsed_s:g} s: the live statistics end before the phase"
        figures.note(NoteKind.LEFT_OUT, live.where, fact)
        (op,) = operations
        job = JobResult(
            name=live.operation,
            options=JobOptions(raw={}, whole=False),
            job_runtime_s=live.elapsed_s,
            operations=(
                Operation(
                    op=op,
                    iops=live.ios / live.elapsed_s,
                    bandwidth_bps=live.done_bytes / live.elapsed_s,
                    io_bytes=live.done_bytes,
                    runtime_s=live.elapsed_s,
                ),
            ),
        )
        output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(figures.notes))
        name = f"{live.label} {live.operation} {live.mix}".strip()
        results.append(Result(workload=name, output=output, tool=TOOL, windows={op: live.windows}))
        figures = Figures()
    if not results:
        raise FormatError.empty("the live statistics have no phase of reading or writing")
    return tuple(results)


def _live_ops(live: LivePhase) -> tuple[Op, ...]:
    kind = live.operation.partition("+")[0]
    if live.mix or kind not in ("READ", "WRITE"):
        return ()
    return (Op(kind.lower()),)


def _results(phases: Sequence[_Phase]) -> tuple[Result, ...]:
    kept: list[_Phase] = []
    figures = Figures()
    for phase in phases:
        if phase.moves_data and _ops(phase):
            kept.append(phase)
        else:
            figures.note(
                NoteKind.LEFT_OUT,
                phase.where,
                f"the phase {phase.operation[:40]} is neither reading nor writing of data",
            )
    if not kept:
        held = ", ".join(dict.fromkeys(phase.operation[:40] for phase in phases))[:200]
        raise FormatError.empty(
            f"no phase of reading or writing: {held}" if held else "a header, and no phase"
        )
    names = distinct_names([(phase.name, phase.parameters) for phase in kept])
    results = []
    for name, phase in zip(names, kept, strict=True):
        results.append(_result(name, phase, figures))
        figures = Figures()
    return tuple(results)


def _ops(phase: _Phase) -> tuple[Op, ...]:
    """The directions of the main figures and of the `rwmix read` ones; empty for a phase that
    does no I/O on storage, such as NETBENCH. Options follow a `+` (`WRITE+r`)."""
    kind = phase.operation.partition("+")[0]
    if kind == "READ":
        return (Op.READ,)
    reads = phase.mixed_reads["IOPS"] or phase.mixed_reads["bandwidth"]
    if kind == "WRITE" or _MIXED.fullmatch(kind):
        return (Op.WRITE, Op.READ) if reads else (Op.WRITE,)
    return (Op.WRITE,) if phase.cut else ()


def _result(name: str, phase: _Phase, figures: Figures) -> Result:
    if phase.cut:
        error = FormatError.truncated("the last row of the file is cut off", phase.where)
        return Result(workload=name, output=error, tool=TOOL)
    ops = _ops(phase)
    elapsed_ms = figures.number(phase.time_ms, phase.where, "time ms [last]")
    runtime_s = None if elapsed_ms is None else elapsed_ms / 1000
    operations = tuple(
        _operation(op, part, phase, figures, runtime_s)
        for op, part in zip(ops, (phase.main, phase.mixed_reads), strict=False)
    )
    job = JobResult(
        name=phase.operation,
        options=_options(phase, ops, figures),
        job_runtime_s=runtime_s or 0.0,
        # Reads first, as everywhere.
        operations=tuple(sorted(operations, key=lambda entry: entry.op is not Op.READ)),
    )
    output = EngineOutput(
        version=f"{TOOL} {phase.version}".strip(), jobs=(job,), notes=tuple(figures.notes)
    )
    return Result(workload=name, output=output, tool=TOOL)


def _operation(
    op: Op, part: Mapping[str, str], phase: _Phase, figures: Figures, runtime_s: float | None
) -> Operation:
    def number(figure: str, unit: float = 1.0) -> float | None:
        return figures.number(part.get(figure, ""), phase.where, f"{figure} of {op.value}s", unit)

    latency = Latency(min_s=number("min", _US), mean_s=number("avg", _US), max_s=number("max", _US))
    moved = number("bytes")
    return Operation(
        op=op,
        iops=number("IOPS"),
        bandwidth_bps=number("bandwidth", phase.bandwidth_unit),
        io_bytes=None if moved is None else int(moved),
        runtime_s=runtime_s,
        total=latency if latency.mean_s is not None else None,
    )


def _options(phase: _Phase, ops: Sequence[Op], figures: Figures) -> JobOptions:
    """What the record echoes. Threads are per host, I/O depth is per thread; the figures are of
    all threads. elbencho's I/O engine depends on depth and path, and is not printed."""
    given = phase.parameters

    def count(name: str) -> int | None:
        return figures.whole(given.get(name, ""), phase.where, name)

    direction = "rw" if len(ops) > 1 else ops[0].value
    raw: dict[str, str] = {}
    random = _flag(given.get("random"))
    if random is not None:
        raw["rw"] = ("rand" if random else "") + direction
    direct = _flag(given.get("direct IO"))
    if direct is not None:
        raw["direct"] = str(int(direct))
    threads, hosts = count("threads"), count("hosts")
    if threads:
        raw |= {"numjobs": str(threads * max(1, hosts or 1)), "group_reporting": "1"}
    for name, option in (("block size", "bs"), ("file size", "size"), ("IO depth", "iodepth")):
        value = count(name)
        if value:
            raw[option] = str(value)
    mixed = _MIXED.fullmatch(phase.operation.partition("+")[0])
    if len(ops) > 1 and mixed and mixed["share"] and phase.operation.startswith("RWMIX"):
        raw["rwmixread"] = mixed["share"]
    return JobOptions(raw=raw, whole=False)


def _flag(text: str | None) -> bool | None:
    return {"0": False, "1": True, "false": False, "true": True}.get(text or "")


def _recognises(name: str, head: bytes) -> bool:
    start = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    if start.startswith((_CSV.encode() + b"label,path type", LIVE_HEADER.encode())):
        return True
    if start.startswith(b"{"):
        return b'"phase_type"' in head and b'"last_done"' in head
    return b"FIRST DONE" in head and _TEXT.search(head.decode("utf-8", "replace")) is not None


def _bundles(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Put X.live.csv with X.csv."""
    owned = {
        name: name.removesuffix(_LIVE_NAME) + ".csv" for name in names if name.endswith(_LIVE_NAME)
    }
    present = set(names)
    live = {owner: name for name, owner in owned.items() if owner in present}
    return tuple(
        (name, live[name]) if name in live else (name,)
        for name in names
        if owned.get(name) not in present
    )


def _read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    (owner, content), *logs = contents.items()
    results = parse_elbencho(content)
    for name, log in logs:
        if owner != name.removesuffix(_LIVE_NAME) + ".csv":
            results += parse_elbencho(log)
            continue
        figures = Figures()
        for live in parse_live(split_lines(log), figures):
            results = tuple(_with_live(result, live) for result in results)
    return results


def _with_live(result: Result, live: LivePhase) -> Result:
    """Add the rates over time to the phase that they are of."""
    if isinstance(result.output, FormatError) or result.windows:
        return result
    (job,) = result.output.jobs
    ops = _live_ops(live)
    if job.name != live.operation or [entry.op for entry in job.operations] != list(ops):
        return result
    return replace(result, windows={ops[0]: live.windows})


IMPORTER = Importer(
    kind=TOOL,
    summary="elbencho: its CSV with its live statistics, its JSON and its text",
    recognises=_recognises,
    read=_read,
    bundles=_bundles,
)
