"""elbencho's results: its CSV (`--csvfile`) and its JSON (`--jsonfile`, one object a line).

Both hold one record per phase. Of the two columns of every figure the one of the last finisher is
taken: until then the phase ran, while that of the first finisher (`[first]`, a stonewall) is of the
time when all workers were still busy. Figures of the CSV are cut to whole I/Os and MiB per second,
those of the JSON to whole bytes; the CSV's sum of MiB, cut as well, says no more than its rate and
is not taken for a count of bytes. In a mixed phase the figures without `rwmix read` are the writes
(source/Statistics.cpp). Phases that move no data (MKDIRS, SYNC, STAT, RMFILES, ...) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from leadline.formats.importer import Importer, Result, each_file
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

TOOL: Final = "elbencho"
_MIB: Final = float(1 << 20)
_US: Final = 1e-6
_CSV: Final = "ISO date,"
_LIVE: Final = "Label,Phase,RuntimeMS,"
_TEXT: Final = "OPERATION RESULT TYPE"
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
    if lines[first].startswith(_LIVE):
        raise FormatError.unreadable(
            "these are elbencho's live statistics, of a run that was still going on",
            f"line {first + 1}",
            "the result is in the file given by --csvfile",
        )
    if lines[first].startswith(_CSV):
        phases = _csv_phases(lines)
    elif lines[first].lstrip().startswith("{"):
        phases = _json_phases(lines)
    elif any(line.startswith(_TEXT) for line in lines):
        raise FormatError.unreadable(
            "elbencho's text for people has neither block size nor threads; "
            "its --csvfile or --jsonfile does",
            f"line {first + 1}",
        )
    else:
        raise FormatError.unreadable(
            "this is neither CSV nor JSON of elbencho's", f"line {first + 1}: {lines[first][:80]!r}"
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
    if start.startswith((_CSV.encode() + b"label,path type", _LIVE.encode())):
        return True
    if start.startswith(b"{"):
        return b'"phase_type"' in head and b'"last_done"' in head
    return _TEXT.encode() in head


IMPORTER = Importer(
    kind=TOOL,
    summary="elbencho: its CSV and its JSON",
    recognises=_recognises,
    read=each_file(parse_elbencho),
)
