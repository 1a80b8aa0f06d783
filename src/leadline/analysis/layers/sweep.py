"""Cells of one workload on datasets that differ in their record size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from leadline.analysis.layers.little import Little


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One cell. `throughputs_bps` are those of all its completed trials in the order of the plan;
    `little` is of the median trial; `block_bytes` is the mean size that reaches the first block
    device, None where nobody counted; `refused` are the rules by which the audit refuses the
    cell's throughput."""

    target: str
    record_bytes: int
    throughputs_bps: tuple[float, ...]
    block_bytes: float | None
    little: Little | None
    little_at: str
    refused: tuple[str, ...]

    @property
    def throughput_bps(self) -> float:
        """Median over the trials."""
        return median(self.throughputs_bps)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSweep:
    """Rows by record size, the smallest first, of one workload and load level."""

    workload: str
    level: str
    rows: tuple[SweepRow, ...]

    @property
    def record_sizes(self) -> int:
        return len({one.record_bytes for one in self.rows})

    @property
    def usable(self) -> tuple[SweepRow, ...]:
        """The rows whose throughput the audit does not refuse."""
        return tuple(one for one in self.rows if not one.refused)


def apart(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether no trial of one lies among those of the other."""
    return max(first) < min(second) or max(second) < min(first)
