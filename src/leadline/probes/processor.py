"""CPU time of the load generator's machine over a stretch, from /proc/stat."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from leadline.archive.records import Processor

_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Ticks of all cores since boot: `idle` holds iowait too, `steal` went to other guests."""

    total: int
    idle: int
    steal: int

    @classmethod
    def now(cls) -> CpuTimes:
        fields = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
        return cls(total=sum(fields), idle=fields[3] + fields[4], steal=fields[7])


def processor_between(before: CpuTimes, after: CpuTimes, engine_cpu_s: float) -> Processor:
    """Shares of all cores between two readings."""
    span = max(1, after.total - before.total)
    return Processor(
        cores=os.cpu_count() or 1,
        busy_share=round(1 - (after.idle - before.idle) / span, 4),
        steal_share=round((after.steal - before.steal) / span, 4),
        engine_cpu_s=round(engine_cpu_s, 3),
    )
