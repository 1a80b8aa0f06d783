"""warp's text (MinIO's S3 benchmark): what a benchmark and `warp analyze` print.

Bandwidth is MiB/s; `obj/s` are operations. Concurrency is that of all clients together. Latency is
of whole requests; times to the first byte are left out. In a mixed benchmark all operations run
at the same time and share the concurrency, so that none of them has one of its own.
Only GET and PUT move data. warp prints no percentile but the 50th, 90th and 99th.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.formats.foreign.warp_csv import is_time_series, parse_time_series
from leadline.formats.importer import Importer, Result, each_file
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Note,
    NoteKind,
    Operation,
)
from leadline.formats.text import Figures, split_lines
from leadline.metrics import Op

TOOL: Final = "warp"
_OPS: Final = {"GET": Op.READ, "PUT": Op.WRITE}
_TOTAL: Final = "TOTAL"
# The heading of a mixed benchmark before there was a total.
_MIXED: Final = "Mixed operations."
_HEADING = re.compile(r"(?:Report|Operation): (?P<operation>[A-Za-z]{2,20})\b(?P<rest>.*)")
_CONCURRENCY = re.compile(r"Concurrency: (\d{1,9})", re.ASCII)
_SIZE = re.compile(r"Size: (\d{1,15}) bytes", re.ASCII)
_RAN = re.compile(r"(?:Ran:?|Duration:) ([0-9hms.]{1,20}?)(?:[.,] |\.?$)", re.ASCII)
_AVERAGE = re.compile(
    r" ?\* (?:Average: )?(?:(?P<size>[\d.]+) ?(?P<unit>[A-Za-z]{1,5})/s, )?"
    r"(?P<rate>[\d.]+) obj/s.*",
    re.ASCII,
)
_REQUESTS = re.compile(r" ?\* (?:Reqs: )?(?P<fields>Avg: .*)")
_FIELD = re.compile(
    r"\b([A-Za-z]{1,12}|\d{1,3}%): ([0-9.]{1,30}[a-zµ]{1,3}(?:[0-9.]{1,30}[a-z]{1,2}){0,3})",
    re.ASCII,
)
_DURATION_PART = re.compile(r"([0-9.]+)(h|ms|m|s|us|µs|ns)")
_SECONDS: Final = {
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "µs": 1e-6,
}
_BYTES: Final = {
    "B": 1.0,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
    "TiB": 1024.0**4,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
}
_PERCENTILES: Final = {"50%": 0.5, "90%": 0.9, "99%": 0.99}


@dataclass(slots=True, kw_only=True)
class _Section:
    """One operation: its heading, and the figures below it."""

    operation: str
    line: int
    concurrency: int | None
    block_bytes: int | None
    mixed: bool
    ran_s: float | None
    rate: float | None = None
    bandwidth_bps: float | None = None
    latency: Latency | None = None
    notes: list[Note] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"line {self.line}"


def parse_warp(content: bytes) -> tuple[Result, ...]:
    """Parse every benchmark in a text or a time series. Raises FormatError with condition
    `empty-result`, `truncated-result` or `unreadable-result`."""
    if not content.strip():
        raise FormatError.empty("the file is empty")
    if is_time_series(content):
        return parse_time_series(content)
    benchmarks: list[list[_Section]] = [[]]
    for section in _sections(split_lines(content)):
        # A total ends a mixed benchmark; an operation comes once in a benchmark.
        known = [entry.operation for entry in benchmarks[-1]]
        if section.operation in known or _TOTAL in known:
            benchmarks.append([])
        benchmarks[-1].append(section)
    if not benchmarks[0]:
        raise FormatError.unreadable("there is no report of warp in the file")
    results = [result for sections in benchmarks for result in _results(sections)]
    if not results:
        kinds = ", ".join(dict.fromkeys(s.operation for part in benchmarks for s in part))
        raise FormatError.empty(f"no operation moves data: {kinds[:200]}")
    return tuple(results)


def _sections(lines: Sequence[str]) -> list[_Section]:
    found: list[_Section] = []
    figures = Figures()
    mixed = False
    for number, line in enumerate(lines, start=1):
        where = f"line {number}"
        mixed = mixed or line.strip() == _MIXED
        if heading := _HEADING.match(line):
            rest = heading["rest"]
            figures = Figures()
            found.append(
                _Section(
                    operation=heading["operation"].upper(),
                    line=number,
                    concurrency=_count(_CONCURRENCY, rest),
                    block_bytes=_count(_SIZE, rest),
                    mixed=mixed,
                    ran_s=_seconds(ran[1], where, figures) if (ran := _RAN.search(rest)) else None,
                    notes=figures.notes,
                )
            )
        elif not found:
            continue
        elif (average := _AVERAGE.fullmatch(line)) and found[-1].rate is None:
            found[-1].rate = figures.number(average["rate"], where, "obj/s")
            if average["size"]:
                unit = _BYTES.get(average["unit"])
                if unit is None:
                    raise FormatError.unreadable(f"unknown unit {average['unit']!r}", where)
                found[-1].bandwidth_bps = figures.number(average["size"], where, "bandwidth", unit)
        elif line.lstrip(" *").startswith("Average:") and found[-1].rate is None:
            cut = number == len(lines)
            raise FormatError.unreadable("an average of warp is not understood", where, cut=cut)
        elif (requests := _REQUESTS.fullmatch(line)) and found[-1].latency is None:
            found[-1].latency = _latency(requests["fields"], where, figures)
    return found


def _count(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match and int(match[1]) else None


def _seconds(text: str, where: str, figures: Figures) -> float | None:
    """Parse a duration as Go prints it: `4m57s`, `1.575s`, `107.7ms`."""
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise FormatError.unreadable(f"{text[:40]!r} is no duration", where)
    values = [figures.number(number, where, "time", _SECONDS[unit]) for number, unit in parts]
    return sum(value for value in values if value is not None) if None not in values else None


def _latency(fields: str, where: str, figures: Figures) -> Latency:
    times = {name: _seconds(text, where, figures) for name, text in _FIELD.findall(fields)}
    percentiles = {
        quantile: value
        for name, quantile in _PERCENTILES.items()
        if (value := times.get(name)) is not None
    }
    return Latency(
        min_s=times.get("Fastest"),
        mean_s=times.get("Avg"),
        max_s=times.get("Slowest"),
        stddev_s=times.get("StdDev"),
        percentiles=percentiles,
    )


def _results(sections: Sequence[_Section]) -> list[Result]:
    """Make one result of a mixed benchmark, else one of each operation that moves data."""
    mixed = any(section.operation == _TOTAL or section.mixed for section in sections)
    moving = [section for section in sections if section.operation in _OPS]
    notes = [
        Note(NoteKind.LEFT_OUT, section.where, f"{section.operation} of the benchmark")
        for section in sections
        if section.operation not in _OPS
    ]
    if not moving:
        return []
    parts = [moving] if mixed else [[section] for section in moving]
    results = []
    for number, part in enumerate(parts):
        own = [note for section in part for note in section.notes]
        own += notes if not number else []
        results.append(_result("mixed" if mixed else part[0].operation, part, own))
    return results


def _result(name: str, sections: Sequence[_Section], notes: Sequence[Note]) -> Result:
    done = [section for section in sections if section.rate or section.latency]
    if not done:
        return Result(
            workload=name,
            output=FormatError.truncated(f"{name} has no figures", sections[0].where),
            tool=TOOL,
        )
    raw = {}
    if len(sections) == 1 and sections[0].concurrency and name != "mixed":
        raw = {"numjobs": str(sections[0].concurrency), "iodepth": "1", "group_reporting": "1"}
    sizes = {section.block_bytes for section in sections}
    if len(sizes) == 1 and (size := sizes.pop()):
        raw["bs"] = str(size)
    job = JobResult(
        name=name,
        options=JobOptions(raw=raw, whole=False),
        job_runtime_s=max((section.ran_s or 0.0 for section in done), default=0.0),
        operations=tuple(
            Operation(
                op=_OPS[section.operation],
                iops=section.rate,
                bandwidth_bps=section.bandwidth_bps,
                runtime_s=section.ran_s,
                total=section.latency,
            )
            for section in done
        ),
    )
    output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(notes))
    return Result(workload=name, output=output, tool=TOOL)


def _recognises(name: str, head: bytes) -> bool:
    if is_time_series(head):
        return True
    text = head.decode("utf-8", "replace")
    if " obj/s" not in text and " * Reqs: " not in text:
        return False
    return any(_HEADING.match(line) for line in text.splitlines())


IMPORTER = Importer(
    kind=TOOL,
    summary="warp: the text of a benchmark and of warp analyze, and the CSV of --analyze.out",
    recognises=_recognises,
    read=each_file(parse_warp),
)
