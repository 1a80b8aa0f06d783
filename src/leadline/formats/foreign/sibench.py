"""sibench's text: operations per second of each phase, and the totals.

`Gb/s` are powers of 1024, of bits (`ToUnits`). The dashed lines within a phase are the ends of ramp
up and run: the totals are of the seconds between them. Response times are whole milliseconds. The
JSON report is not read: the unit of its response times depends on the version, which it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.formats.fio.logs import Window
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
from leadline.formats.text import Figures, split_lines
from leadline.metrics import Op

TOOL: Final = "sibench"
_MS: Final = 1e-3
_OPS: Final = {"Write": Op.WRITE, "Read": Op.READ}
_SECOND = re.compile(r"(?P<second>\d{1,9}): (?P<phases>\[(?:Read|Write)\] ops: .*)", re.ASCII)
_RATE = re.compile(r"\[(Read|Write)\] ops: (\d{1,18}),", re.ASCII)
_TOTAL = re.compile(
    r"Total (?P<op>Read|Write) +bandwidth: +(?P<size>[\d.]{1,30}) ?(?P<unit>[KMGTPE]?)b/s, +"
    r"ok: +(?P<ok>\d{1,18}), +fail: +(?P<fail>\d{1,18}), +res-min: +(?P<min>\d{1,18}) ms, +"
    r"res-max: +(?P<max>\d{1,18}) ms, +res-95: +(?P<p95>\d{1,18}) ms,(?: +res-avg: +"
    r"(?P<avg>\d{1,18}) ms)?",
    re.ASCII,
)
_UNITS: Final = {unit: 1024.0**power for power, unit in enumerate(["", *"KMGTPE"])}
# Fewer failures than that are not worth a finding of their own.
_ALMOST_ALL: Final = 0.999


@dataclass(slots=True, kw_only=True)
class _Run:
    """The seconds of a run by operation, those of the ramps with the part that they are of, and its
    totals. `mixed`: reads and writes are in one second."""

    seconds: dict[Op, list[tuple[int, int]]] = field(default_factory=dict)
    part: int = 0
    mixed: bool = False
    totals: list[tuple[int, re.Match[str]]] = field(default_factory=list)


def parse_sibench(content: bytes) -> tuple[Result, ...]:
    """Parse every run in a text. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    if not content.strip():
        raise FormatError.empty("the file is empty")
    runs = [_Run()]
    for number, line in enumerate(split_lines(content), start=1):
        bare = line.strip()
        if second := _SECOND.fullmatch(bare):
            if runs[-1].totals:
                runs.append(_Run())
            _add(runs[-1], second)
        elif bare and set(bare) == {"-"}:
            runs[-1].part += 1
        elif total := _TOTAL.fullmatch(bare):
            runs[-1].totals.append((number, total))
        elif bare.startswith("Total ") and "bandwidth:" in bare:
            raise FormatError.unreadable("a total of sibench is not understood", f"line {number}")
    if not runs[0].totals and not runs[0].seconds:
        raise FormatError.unreadable("there is no run of sibench in the file")
    return tuple(result for run in runs for result in _results(run))


def _add(run: _Run, second: re.Match[str]) -> None:
    if second["second"] == "0":
        run.part = 0
    rates = _RATE.findall(second["phases"])
    run.mixed = run.mixed or len(rates) > 1
    for name, ops in rates:
        run.seconds.setdefault(_OPS[name], []).append((run.part, int(ops)))


def _results(run: _Run) -> Iterator[Result]:
    if not run.totals:
        names = " and ".join(f"{op.value}s" for op in run.seconds)
        error = FormatError.truncated(f"sibench's text ends before the totals of {names}")
        yield Result(workload="", output=error, tool=TOOL)
        return
    parts: list[list[tuple[int, re.Match[str]]]] = (
        [run.totals] if run.mixed else [[total] for total in run.totals]
    )
    for part in parts:
        yield _result(run, part)


def _result(run: _Run, totals: Sequence[tuple[int, re.Match[str]]]) -> Result:
    figures = Figures()
    operations: list[Operation] = []
    windows: dict[Op, tuple[Window, ...]] = {}
    for number, total in totals:
        op = _OPS[total["op"]]
        rates = _measured(run.seconds.get(op, []))
        operation = _operation(op, total, f"line {number}", len(rates), figures)
        if operation is not None:
            operations.append(operation)
            windows[op] = tuple(Window(float(end), rate) for end, rate in enumerate(rates, start=1))
    name = "mixed" if len(totals) > 1 else totals[0][1]["op"].lower()
    output: EngineOutput | FormatError
    if operations:
        job = JobResult(
            name=name,
            options=JobOptions(raw={}, whole=False),
            job_runtime_s=max(operation.runtime_s or 0.0 for operation in operations),
            operations=tuple(operations),
        )
        output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(figures.notes))
    else:
        output = FormatError.empty(f"no {name} succeeded", f"line {totals[0][0]}")
    series = {op: rates for op, rates in windows.items() if rates}
    return Result(workload=name, output=output, tool=TOOL, windows=series)


def _measured(seconds: Sequence[tuple[int, int]]) -> list[float]:
    """Return the rates of the run: behind the ramp up, which is the first part, and before the ramp
    down. Without a dashed line there was no ramp."""
    parts = {part for part, _ in seconds}
    run = 1 if 1 in parts else 0
    return [float(rate) for part, rate in seconds if part == run]


def _operation(
    op: Op, total: re.Match[str], where: str, seconds: int, figures: Figures
) -> Operation | None:
    """Return None where no operation succeeded. The rate is of the seconds that were measured."""

    def number(key: str, unit: float = 1.0) -> float | None:
        return figures.number(total[key] or "", where, key, unit)

    ok, failed = int(total["ok"]), int(total["fail"])
    if failed and ok < _ALMOST_ALL * (ok + failed):
        fact = f"{failed / (ok + failed):.1%} of the {op.value}s failed"
        figures.note(NoteKind.FAILED_OPERATIONS, where, fact)
    if not ok:
        return None
    bits = number("size", _UNITS[total["unit"]])
    p95_s = number("p95", _MS)
    return Operation(
        op=op,
        iops=ok / seconds if seconds else None,
        bandwidth_bps=None if bits is None else bits / 8,
        total_ios=ok,
        runtime_s=float(seconds) if seconds else None,
        total=Latency(
            min_s=number("min", _MS),
            mean_s=number("avg", _MS),
            max_s=number("max", _MS),
            count=ok,
            percentiles={} if p95_s is None else {0.95: p95_s},
        ),
    )


def _recognises(name: str, head: bytes) -> bool:
    text = head.decode("utf-8", "replace")
    return any(
        _SECOND.fullmatch(bare) is not None or _TOTAL.fullmatch(bare) is not None
        for bare in (line.strip() for line in text.splitlines())
    )


IMPORTER = Importer(
    kind=TOOL,
    summary="sibench: its text, with the operations per second",
    recognises=_recognises,
    read=each_file(parse_sibench),
)
