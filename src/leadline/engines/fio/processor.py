"""Processor load of a remote execution, from readings before and after it.

Readings hold /proc/stat and the container's control group, version 1 or 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.archive.records import Processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`total`, `idle`, `steal` are ticks of the machine; `used_s` and `throttled_s` seconds of the
    container, None without a control group; `allowed` the processors that it may use."""

    at_s: float
    total: int
    idle: int
    steal: int
    allowed: float
    processors: int
    used_s: float | None
    throttled_s: float | None


def parse_reading(text: str) -> Reading:
    """Parse the lines `key value...` of remote_begin.sh. Raises ValueError, KeyError."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split()
        if not parts:
            continue
        if parts[0] in ("cpu.stat", "cpu/cpu.stat") and len(parts) == 3:
            fields[f"{parts[0]}:{parts[1]}"] = parts[2]
        else:
            fields[parts[0]] = " ".join(parts[1:])
    ticks = [int(field) for field in fields["cpu"].split()[:8]]
    processors = int(fields["processors"])
    return Reading(
        at_s=int(fields["ms"]) / 1e3,
        total=sum(ticks),
        idle=ticks[3] + ticks[4],
        steal=ticks[7],
        allowed=_allowed(fields) or processors,
        processors=processors,
        used_s=_seconds(fields, (("cpu.stat:usage_usec", 1e6), ("cpuacct/cpuacct.usage", 1e9))),
        throttled_s=_seconds(
            fields, (("cpu.stat:throttled_usec", 1e6), ("cpu/cpu.stat:throttled_time", 1e9))
        ),
    )


def _allowed(fields: Mapping[str, str]) -> float | None:
    """Processors by the control group's quota; None without one."""
    if "cpu.max" in fields:
        quota, period = fields["cpu.max"].split()
    else:
        quota = fields.get("cpu/cpu.cfs_quota_us", "-1")
        period = fields.get("cpu/cpu.cfs_period_us", "100000")
    return None if quota in ("max", "-1") else int(quota) / int(period)


def _seconds(fields: Mapping[str, str], keys: tuple[tuple[str, float], ...]) -> float | None:
    for key, factor in keys:
        if key in fields:
            return int(fields[key]) / factor
    return None


def processor_between(before: str, after: str) -> Processor | None:
    """The load between two readings, None where they cannot be parsed. `cores` are those that the
    runner may use, and its busy share is a share of these."""
    try:
        first, last = parse_reading(before), parse_reading(after)
    except (KeyError, ValueError):
        return None
    wall_s = max(1e-3, last.at_s - first.at_s)
    span = max(1, last.total - first.total)
    machine_busy = 1 - (last.idle - first.idle) / span
    used_s = machine_busy * wall_s * last.processors
    if first.used_s is not None and last.used_s is not None:
        used_s = last.used_s - first.used_s
    throttled = None
    if first.throttled_s is not None and last.throttled_s is not None:
        # A control group adds up the time of all processors on which it was throttled.
        throttled = round(min(1.0, (last.throttled_s - first.throttled_s) / wall_s), 4)
    # A quota of less than one processor counts as one.
    return Processor(
        cores=max(1, round(last.allowed)),
        busy_share=round(min(1.0, used_s / (wall_s * last.allowed)), 4),
        steal_share=round((last.steal - first.steal) / span, 4),
        engine_cpu_s=round(used_s, 3),
        throttled_share=throttled,
    )


def busiest(processors: Sequence[Processor | None]) -> Processor | None:
    """The load of the busiest of several runners, with the processor time of all."""
    known = [processor for processor in processors if processor is not None]
    if not known:
        return None
    first = max(known, key=lambda load: (load.busy_share, load.throttled_share or 0.0))
    total_s = round(sum(load.engine_cpu_s for load in known), 3)
    return first.model_copy(update={"engine_cpu_s": total_s})
