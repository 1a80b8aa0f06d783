"""capped-by-limit: the same rate for any block size and direction."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from leadline.audit.evidence import CellEvidence, JobEvidence, RunEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import Operation
from leadline.metrics import Op
from leadline.units import format_bandwidth, format_iops

# Published caps repeat within 0.2 % (kubestr on NFS) and 1 % (CephFS); real storage does not.
SAME = 1.02
FEWEST_CELLS = 3
# Neighbouring block sizes may give the same rate; a factor of four is a different load.
BLOCK_RATIO = 4
# Within one direction the factor must be larger, for reads and for writes.
DIRECTION_BLOCK_RATIO = 16


@dataclass(frozen=True, slots=True)
class _Rate:
    value: float
    block_bytes: float
    direction: str
    cell: int


@rule(
    "capped-by-limit",
    "The same rate for any block size and direction: a limit was measured.",
    RunEvidence,
)
def check(run: RunEvidence) -> Iterator[RuleFinding]:
    targets: dict[str, list[CellEvidence]] = {}
    for cell in run.cells:
        targets.setdefault(cell.place.target, []).append(cell)
    for target, cells in targets.items():
        for name, pick, shown in _KINDS:
            rates = sorted(_rates(cells, pick), key=lambda rate: rate.value)
            group = _flat(rates)
            if group:
                yield _finding(target, name, shown, group, "for reads and writes")
            elif name == "iops":
                for group in _flat_by_direction(rates):
                    yield _finding(target, name, shown, group, f"for all {group[0].direction}s")


_KINDS: tuple[tuple[str, Callable[[Operation], float | None], Callable[[float], str]], ...] = (
    ("iops", lambda operation: operation.iops, lambda value: f"{format_iops(value)} IOPS"),
    (
        "bandwidth_bps",
        lambda operation: operation.bandwidth_bps,
        lambda value: f"{format_bandwidth(value)} MiB/s",
    ),
)


def _finding(
    target: str, name: str, shown: Callable[[float], str], group: Sequence[_Rate], what: str
) -> RuleFinding:
    value = statistics.median(rate.value for rate in group)
    blocks = [rate.block_bytes for rate in group]
    cells = len({rate.cell for rate in group})
    return RuleFinding(
        severity=Severity.WARNING,
        target=target,
        evidence={
            name: value,
            "cells": cells,
            "smallest_block_bytes": min(blocks),
            "largest_block_bytes": max(blocks),
        },
        message=f"{cells} cells have {shown(value)} within {SAME - 1:.0%} {what} of any block "
        f"size. A limit (QoS, cloud tier, network link) was measured, not the storage.",
        remedy="Remove the limit or state it. Capped cells cannot show a difference between "
        "targets.",
    )


def _rates(cells: list[CellEvidence], pick: Callable[[Operation], float | None]) -> Iterator[_Rate]:
    """One rate per cell and phase: the median of its trials; of a mix, reads plus writes."""
    for number, cell in enumerate(cells):
        phases: dict[str, list[tuple[float, float, Op]]] = {}
        throttled = False
        for trial in cell.sound:
            for job in trial.jobs:
                throttled = throttled or job.throttled
                values = [pick(operation) for operation in job.parts]
                known = [value for value in values if value]
                block = _block(job)
                if known and len(known) == len(values) and block:
                    direction = job.parts[0].op if len(known) == 1 else Op.TOTAL
                    phases.setdefault(job.job.name, []).append((sum(known), block, direction))
        for found in phases.values() if not throttled else ():
            value = statistics.median(value for value, _, _ in found)
            yield _Rate(value, found[0][1], found[0][2].value, number)


def _block(job: JobEvidence) -> float | None:
    """Mean bytes of an I/O, counted or configured; None if unknown."""
    counts = [
        operation.total_ios for operation in job.parts if operation.total_ios and operation.io_bytes
    ]
    if counts and len(counts) == len(job.parts):
        return sum(operation.io_bytes or 0 for operation in job.parts) / sum(counts)
    return job.block_size


def _flat(rates: Sequence[_Rate]) -> Sequence[_Rate]:
    """Return the largest group of equal rates of different block sizes and directions; else empty.
    `rates` are sorted by value."""
    best: Sequence[_Rate] = ()
    for group in _equal(rates):
        if len(group) <= len(best) or len({rate.direction for rate in group}) < 2:
            continue
        if len({rate.cell for rate in group}) >= FEWEST_CELLS and _apart(group, BLOCK_RATIO):
            best = group
    return best


def _flat_by_direction(rates: Sequence[_Rate]) -> list[Sequence[_Rate]]:
    """Return a group of equal rates of reads and one of writes, each over very different block
    sizes; empty without both, since a disk can have one rate in one direction."""
    found: list[Sequence[_Rate]] = []
    for direction in (Op.READ.value, Op.WRITE.value):
        mine = [rate for rate in rates if rate.direction == direction]
        groups = [group for group in _equal(mine) if _apart(group, DIRECTION_BLOCK_RATIO)]
        if not groups:
            return []
        found.append(max(groups, key=len))
    return found


def _equal(rates: Sequence[_Rate]) -> Iterator[Sequence[_Rate]]:
    """Yield for each rate the equal or slightly higher ones, without groups within groups."""
    end = 0
    for begin, lowest in enumerate(rates):
        before = end
        while end < len(rates) and rates[end].value <= SAME * lowest.value:
            end += 1
        if end > before:
            yield rates[begin:end]


def _apart(group: Sequence[_Rate], ratio: float) -> bool:
    blocks = [rate.block_bytes for rate in group]
    return max(blocks) >= ratio * min(blocks)
