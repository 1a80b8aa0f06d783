"""What an execution took of the processors of the machine it ran on, from readings before and
after it: /proc/stat, and the container's control group, version 1 or 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.archive.records import Processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`total`, `idle`, `steal`: ticks of the machine. `used_s`: processor time of the container,
    `throttled_s`: time in which it was held back; None where there is no control group of its own.
    `allowed`: processors that it may use."""

    at_s: float
    total: int
    idle: int
    steal: int
    allowed: float
    processors: int
    used_s: float | None
    throttled_s: float | None


def read(text: str) -> Reading:
    """Lines of `key value...` as remote_begin.sh writes them. Raises ValueError, KeyError."""
    told: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split()
        if not parts:
            continue
        if parts[0] in ("cpu.stat", "cpu/cpu.stat") and len(parts) == 3:
            told[f"{parts[0]}:{parts[1]}"] = parts[2]
        else:
            told[parts[0]] = " ".join(parts[1:])
    ticks = [int(field) for field in told["cpu"].split()[:8]]
    processors = int(told["processors"])
    return Reading(
        at_s=int(told["ms"]) / 1e3,
        total=sum(ticks),
        idle=ticks[3] + ticks[4],
        steal=ticks[7],
        allowed=_allowed(told) or processors,
        processors=processors,
        used_s=_seconds(told, (("cpu.stat:usage_usec", 1e6), ("cpuacct/cpuacct.usage", 1e9))),
        throttled_s=_seconds(
            told, (("cpu.stat:throttled_usec", 1e6), ("cpu/cpu.stat:throttled_time", 1e9))
        ),
    )


def _allowed(told: Mapping[str, str]) -> float | None:
    """Processors by the control group's quota; None without one."""
    quota, period = (
        told["cpu.max"].split()
        if "cpu.max" in told
        else (told.get("cpu/cpu.cfs_quota_us", "-1"), told.get("cpu/cpu.cfs_period_us", "100000"))
    )
    return None if quota in ("max", "-1") else int(quota) / int(period)


def _seconds(told: Mapping[str, str], keys: tuple[tuple[str, float], ...]) -> float | None:
    for key, factor in keys:
        if key in told:
            return int(told[key]) / factor
    return None


def processor_of(before: str, after: str) -> Processor | None:
    """The load between two readings; None where they are not understood. `cores` is what the
    runner may use, and its busy share the share of that."""
    try:
        first, last = read(before), read(after)
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
        # A control group adds up the processors on which it was held back.
        throttled = round(min(1.0, (last.throttled_s - first.throttled_s) / wall_s), 4)
    # A quota of less than one processor is still one that can be busy.
    return Processor(
        cores=max(1, round(last.allowed)),
        busy_share=round(min(1.0, used_s / (wall_s * last.allowed)), 4),
        steal_share=round((last.steal - first.steal) / span, 4),
        engine_cpu_s=round(used_s, 3),
        throttled_share=throttled,
    )


def busiest(found: list[Processor | None]) -> Processor | None:
    """Of several runners the one that had least to spare, with the processor time of all."""
    known = [one for one in found if one is not None]
    if not known:
        return None
    first = max(known, key=lambda one: (one.busy_share, one.throttled_share or 0.0))
    together = round(sum(one.engine_cpu_s for one in known), 3)
    return first.model_copy(update={"engine_cpu_s": together})
