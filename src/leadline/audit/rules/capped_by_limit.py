"""capped-by-limit: the same rate whatever the block size and direction."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from leadline.audit.evidence import CellEvidence, RunEvidence
from leadline.audit.rule import Doubt, Rule
from leadline.findings import Severity
from leadline.formats.output import Operation
from leadline.units import format_bandwidth, format_iops

# Published caps repeat to 0.2 % (kubestr on NFS) and 1 % (CephFS); real storage does not.
SAME = 1.02
FEWEST_CELLS = 3
# Neighbouring block sizes may rightly give the same rate; a factor of four is a different load.
BLOCK_RATIO = 4


@dataclass(frozen=True, slots=True)
class _Rate:
    value: float
    block_bytes: float
    direction: str
    cell: int


def check(run: RunEvidence) -> Iterator[Doubt]:
    kinds: tuple[tuple[str, Callable[[Operation], float], Callable[[float], str]], ...] = (
        ("iops", lambda one: one.iops, lambda value: f"{format_iops(value)} IOPS"),
        (
            "bandwidth_bps",
            lambda one: one.bandwidth_bps,
            lambda value: f"{format_bandwidth(value)} MiB/s",
        ),
    )
    for target in dict.fromkeys(cell.place.target for cell in run.cells):
        cells = [cell for cell in run.cells if cell.place.target == target]
        for name, pick, shown in kinds:
            group = _flat(_rates(cells, pick))
            if group:
                value = statistics.median(rate.value for rate in group)
                blocks = [rate.block_bytes for rate in group]
                yield Doubt(
                    severity=Severity.WARNING,
                    target=target,
                    evidence={
                        name: value,
                        "cells": len({rate.cell for rate in group}),
                        "smallest_block_bytes": min(blocks),
                        "largest_block_bytes": max(blocks),
                    },
                    message=f"{len({rate.cell for rate in group})} cells give {shown(value)} "
                    f"within {SAME - 1:.0%}, reads and writes, whatever their block size: a limit "
                    "(QoS, cloud tier, network link) was measured, not the storage.",
                    remedy="Find the limit and lift it, or state it; capped cells cannot show a "
                    "difference between targets.",
                )


def _rates(cells: list[CellEvidence], pick: Callable[[Operation], float]) -> list[_Rate]:
    """One rate per cell and phase: the median of its trials, reads and writes of a mix added."""
    rates = []
    for number, cell in enumerate(cells):
        phases: dict[str, list[Operation]] = {}
        throttled = False
        for trial in cell.sound:
            for job in trial.jobs:
                throttled = throttled or job.throttled
                pooled = job.pooled
                if pooled is not None:
                    phases.setdefault(job.job.name, []).append(pooled)
        for operations in phases.values() if not throttled else ():
            value = statistics.median(pick(one) for one in operations)
            first = operations[0]
            rates.append(_Rate(value, first.io_bytes / first.total_ios, first.op.value, number))
    return rates


def _flat(rates: list[_Rate]) -> list[_Rate]:
    """The largest group of equal rates that differ in block size and direction; else empty."""
    best: list[_Rate] = []
    for lowest in rates:
        group = [rate for rate in rates if lowest.value <= rate.value <= SAME * lowest.value]
        blocks = [rate.block_bytes for rate in group]
        enough = len({rate.cell for rate in group}) >= FEWEST_CELLS
        directions = {rate.direction for rate in group}
        apart = max(blocks) >= BLOCK_RATIO * min(blocks) and len(directions) > 1
        if enough and apart and lowest.value > 0 and len(group) > len(best):
            best = group
    return best


RULE = Rule(
    code="capped-by-limit",
    summary="The same rate whatever the block size and direction: a limit was measured.",
    looks_at=RunEvidence,
    check=check,
)
