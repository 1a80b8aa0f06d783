"""Rates of a target's cells, to be compared with each other."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from leadline.audit.evidence import CellEvidence, JobEvidence
from leadline.audit.execution import SYNCHRONOUS_ENGINES
from leadline.formats.result import Operation
from leadline.metrics import Op
from leadline.units import format_bandwidth, format_iops

# A queue with this share of the requested I/Os in flight was full.
ENOUGH = 0.9
CORE_USED_UP = 0.95
SUBMITTING = 0.95


class Kind(Enum):
    """What a limit counts: I/Os or bytes."""

    IOPS = "iops"
    BANDWIDTH = "bandwidth_bps"

    def pick(self, operation: Operation) -> float | None:
        return operation.iops if self is Kind.IOPS else operation.bandwidth_bps

    def shown(self, value: float) -> str:
        if self is Kind.IOPS:
            return f"{format_iops(value)} IOPS"
        return f"{format_bandwidth(value)} MiB/s"


@dataclass(frozen=True, slots=True)
class Rate:
    """The rate of one cell and phase. `in_flight` are the requested I/Os in flight, None if
    unknown; `cell` is the number of the cell; `pattern` is fio's `rw` and `direct` its option, None
    if unknown. `of_target`: the target set the rate, as far as is
    known: as many I/Os as requested were in flight, and no job used up its core."""

    value: float
    block_bytes: float
    direction: str
    cell: int
    in_flight: int | None = None
    pattern: str | None = None
    direct: bool | None = None
    of_target: bool = True


def cell_rates(cells: Sequence[CellEvidence], kind: Kind) -> Iterator[Rate]:
    """Yield one rate per cell and phase: the median of its trials; of a mix, reads plus writes.
    Cells with a rate of their own are left out."""
    for number, cell in enumerate(cells):
        phases: dict[str, list[Rate]] = {}
        throttled = False
        for trial in cell.sound:
            for job in trial.jobs:
                throttled = throttled or job.throttled
                values = [kind.pick(operation) for operation in job.parts]
                known = [value for value in values if value]
                block = _block(job)
                if known and len(known) == len(values) and block:
                    direction = job.parts[0].op if len(known) == 1 else Op.TOTAL
                    phases.setdefault(job.job.name, []).append(
                        Rate(
                            sum(known),
                            block,
                            direction.value,
                            number,
                            job.requested_depth,
                            job.pattern,
                            job.job.options.direct,
                            _of_target(job),
                        )
                    )
        for found in phases.values() if not throttled else ():
            value = statistics.median(rate.value for rate in found)
            yield replace(found[0], value=value)


def equal_rates(rates: Sequence[Rate], ratio: float) -> Iterator[Sequence[Rate]]:
    """Yield for each rate the equal or slightly higher ones, up to `ratio` times as high, without
    groups within groups. `rates` are sorted by value."""
    end = 0
    for begin, lowest in enumerate(rates):
        before = end
        while end < len(rates) and rates[end].value <= ratio * lowest.value:
            end += 1
        if end > before:
            yield rates[begin:end]


def _block(job: JobEvidence) -> float | None:
    """Mean bytes of an I/O, counted or configured; None if unknown."""
    counts = [
        operation.total_ios for operation in job.parts if operation.total_ios and operation.io_bytes
    ]
    if counts and len(counts) == len(job.parts):
        return sum(operation.io_bytes or 0 for operation in job.parts) / sum(counts)
    return job.block_size


def _of_target(job: JobEvidence) -> bool:
    used_up = (job.job.core_share or 0.0) >= CORE_USED_UP
    # An engine that waits in submission does one I/O after the other (buffered files, FUSE).
    if used_up or (job.submitting_share or 0.0) >= SUBMITTING:
        return False
    if job.in_flight is None or job.requested_depth is None:
        return job.job.options.engine not in SYNCHRONOUS_ENGINES
    return job.in_flight >= ENOUGH * job.requested_depth
