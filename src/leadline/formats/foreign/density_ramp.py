"""The density ramp of storage-perf-tests: `ramp.csv`, with `ramp-summary.json` next to it.

Each row is a step: so many VMs, each of which offers `rate_iops` reads and as many writes. IOPS and
bandwidth are sums over the VMs; `total_bw_mbs` is KiB/s divided by 1024 (05-collect-results.sh), so
MiB/s. The latencies are of writes: means of percentiles over the VMs, and the largest p99. None of
them is a percentile of the step, so they are notes and not figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from leadline.formats.importer import Importer, Result
from leadline.formats.json_lines import load_json
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    NoteKind,
    Operation,
)
from leadline.formats.text import Figures, split_lines
from leadline.metrics import Op

TOOL: Final = "density-ramp"
_WORKLOAD: Final = "density ramp"
_MIB: Final = float(1 << 20)
_COLUMNS: Final = (
    *("vm_count", "rate_iops", "total_read_iops", "total_write_iops", "total_bw_mbs"),
    *("avg_p50_ms", "avg_p95_ms", "max_p99_ms", "sla_pass"),
)
_HEADER: Final = ",".join(_COLUMNS)
_SUMMARY: Final = "-summary.json"


def parse_ramp(content: bytes, pool: str = "") -> tuple[Result, ...]:
    """Parse the steps, which are the levels of one workload on `pool`. Raises FormatError with
    condition `empty-result`, `truncated-result` or `unreadable-result`."""
    lines = split_lines(content)
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise FormatError.empty("the file is empty")
    if lines[first].strip() != _HEADER:
        raise FormatError.unreadable(
            f"this is no density ramp: its columns are {_HEADER}", f"line {first + 1}"
        )
    results = []
    for number, line in enumerate(lines[first + 1 :], start=first + 2):
        if not line.strip():
            continue
        cells = line.split(",")
        if len(cells) != len(_COLUMNS):
            raise FormatError.unreadable(
                f"a row has {len(cells)} cells, its header {len(_COLUMNS)}",
                f"line {number}",
                cut=number == len(lines),
            )
        results.append(_step(dict(zip(_COLUMNS, cells, strict=True)), f"line {number}", pool))
    if not results:
        raise FormatError.empty("the ramp has a header and no step")
    return tuple(results)


def _step(row: Mapping[str, str], where: str, pool: str) -> Result:
    figures = Figures()
    vms = figures.whole(row["vm_count"], where, "vm_count")
    rate = figures.whole(row["rate_iops"], where, "rate_iops")
    reads = figures.number(row["total_read_iops"], where, "total_read_iops")
    writes = figures.number(row["total_write_iops"], where, "total_write_iops")
    bandwidth = figures.number(row["total_bw_mbs"], where, "total_bw_mbs", _MIB)
    raw = {"group_reporting": "1"}
    raw |= {"numjobs": str(vms)} if vms else {}
    raw |= {"rate_iops": str(rate)} if rate else {}
    output: EngineOutput | FormatError
    if not reads and not writes:
        output = FormatError.empty(f"a step of {vms} VMs without results", where)
    else:
        figures.note(
            NoteKind.LEFT_OUT,
            where,
            f"write latencies of single VMs: p50 {row['avg_p50_ms'][:20]} ms and p95 "
            f"{row['avg_p95_ms'][:20]} ms are means over {vms} VMs, p99 "
            f"{row['max_p99_ms'][:20]} ms is the largest (service level "
            f"{_verdict(row['sla_pass'])})",
        )
        known = [rate for rate in (reads, writes) if rate is not None]
        both = sum(known) if len(known) == 2 else None
        operations = (
            Operation(op=Op.READ, iops=reads),
            Operation(op=Op.WRITE, iops=writes),
            Operation(op=Op.TOTAL, iops=both, bandwidth_bps=bandwidth),
        )
        job = JobResult(
            name=_WORKLOAD, options=JobOptions(raw=raw, whole=False), operations=operations
        )
        output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(figures.notes))
    return Result(workload=_WORKLOAD, output=output, target=pool, tool=TOOL)


def _verdict(text: str) -> str:
    return {"true": "met", "false": "not met"}.get(text.strip().lower(), "unknown")


def _pool(content: bytes) -> str:
    document = load_json(content, 0, len(content), "the summary of the ramp")
    pool = document.get("pool") if isinstance(document, dict) else None
    return pool if isinstance(pool, str) else ""


def _read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    (_, content), *others = contents.items()
    pool = ""
    for name, summary in others:
        if name.endswith(_SUMMARY):
            pool = _pool(summary)
    return parse_ramp(content, pool)


def _bundles(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Put X-summary.json with X.csv."""
    present = set(names)
    summaries = {name: name.removesuffix(".csv") + _SUMMARY for name in names}
    owned = {
        summary
        for name, summary in summaries.items()
        if name.endswith(".csv") and summary in present
    }
    return tuple(
        (name, summaries[name]) if name.endswith(".csv") and summaries[name] in present else (name,)
        for name in names
        if name not in owned
    )


def _recognises(name: str, head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(_HEADER.encode())


IMPORTER = Importer(
    kind=TOOL,
    summary="the density ramp of storage-perf-tests: IOPS over the number of VMs",
    recognises=_recognises,
    read=_read,
    bundles=_bundles,
)
