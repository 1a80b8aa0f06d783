"""Numbers and names as people read them, the same in every rendering."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.metrics import Metric, Op
from leadline.plan.models import Phase, Recorded, Workload
from leadline.units import (
    format_bandwidth,
    format_block_size,
    format_duration,
    format_iops,
    format_latency,
    format_size,
)
from leadline.visible import visible as visible

MISSING = "missing"
NOT_SHOWN = "–"
_TITLES = {
    Metric.IOPS: "IOPS",
    Metric.BANDWIDTH: "bandwidth",
    Metric.LATENCY_MEAN: "mean latency",
    Metric.LATENCY_P50: "p50 latency",
    Metric.LATENCY_P95: "p95 latency",
    Metric.LATENCY_P99: "p99 latency",
    Metric.LATENCY_P999: "p99.9 latency",
    Metric.LATENCY_P9999: "p99.99 latency",
}


def title(metric: Metric) -> str:
    return _TITLES[metric]


def value_text(metric: Metric, value: float) -> str:
    """A value without its unit where the column names it, with it for latencies."""
    if metric is Metric.IOPS:
        return format_iops(value)
    if metric is Metric.BANDWIDTH:
        return format_bandwidth(value)
    return format_latency(value)


def value_with_unit(metric: Metric, value: float) -> str:
    unit = {Metric.IOPS: " IOPS", Metric.BANDWIDTH: " MiB/s"}.get(metric, "")
    return value_text(metric, value) + unit


def share_text(share: float) -> str:
    """A share as per cent with as many decimals as tell something: `0.4 %`, `12 %`."""
    percent = share * 100
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %"


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """`1 trial`, `3 trials`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(items: Iterable[str], limit: int = 5) -> str:
    """`a, b and c`; past `limit` the rest is counted."""
    given = list(items)
    if len(given) > limit:
        return f"{', '.join(given[:limit])} and {len(given) - limit:,} more"
    if len(given) < 2:
        return "".join(given)
    return f"{', '.join(given[:-1])} and {given[-1]}"


def op_text(op: Op | None) -> str:
    return "–" if op is None else op.value


def place(*parts: str) -> str:
    """Where something was found: the parts that are known."""
    return " · ".join(visible(part) for part in parts if part) or "whole run"


def evidence_text(name: str, value: float) -> str:
    """A number of evidence, read by the unit in which its name ends."""
    if name.endswith("_s"):
        return format_latency(value) if abs(value) < 1 else format_duration(value)
    if name.endswith("_bps"):
        return f"{format_bandwidth(value)} MiB/s"
    if name.endswith("_bytes"):
        return format_size(value)
    if name.endswith("_share"):
        return share_text(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def evidence_name(name: str) -> str:
    for suffix in ("_s", "_bps", "_bytes"):
        if name.endswith(suffix):
            name = name[: -len(suffix)]
            break
    return visible(name.replace("_", " "))


def phase_text(phase: Phase) -> str:
    """`randread 4k, depth 32, 4 jobs, 1 GiB each`."""
    mixed = f" {phase.read_share}/{100 - phase.read_share}" if phase.read_share else ""
    jobs = count_text(phase.numjobs, "job")
    each = " each" if phase.numjobs > 1 else ""
    fsync = f", fsync every {phase.fsync}" if phase.fsync else ""
    return (
        f"{phase.pattern.value}{mixed} {format_block_size(phase.block_size)}, "
        f"depth {phase.iodepth}, {jobs}, {format_size(phase.size)}{each}{fsync}"
    )


# What tells a load, in the order in which people say it.
_SAID_FIRST = ("rw", "bs", "rwmixread", "iodepth", "numjobs", "ioengine", "direct", "size")


def recorded_text(recorded: Recorded) -> str:
    """What an imported result tells of its load, in fio's words."""
    told = [
        f"{key}={visible(recorded.options[key])}"
        for key in (*_SAID_FIRST, "runtime")
        if key in recorded.options
    ]
    what = " ".join(told) or "its settings are not told"
    return f"imported from {visible(recorded.tool)}: {what}"


def workload_text(workload: Workload) -> str:
    """What a workload does, in one sentence without a full stop."""
    if workload.recorded:
        return recorded_text(workload.recorded)
    if workload.job_file:
        what = f"the job file {visible(workload.job_file.path)}"
        return f"{what}, {format_duration(workload.duration_s)} in all"
    phases = "; then ".join(phase_text(phase) for phase in workload.phases)
    ramp = f" after {format_duration(workload.ramp_s)} ramp" if workload.ramp_s else ""
    if workload.streams:
        size = format_size(sum(phase.size for phase in workload.phases))
        lasts = format_duration(workload.runtime_s)
        return f"zfs send | zfs receive of {size}, whole streams for {lasts}{ramp}"
    each = " each" if len(workload.phases) > 1 else ""
    cache = "direct" if workload.direct else "through the page cache"
    return f"{phases}; {cache}, {format_duration(workload.runtime_s)}{ramp}{each}"
