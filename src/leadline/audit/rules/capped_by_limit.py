"""capped-by-limit: the same rate for any block size and direction."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from leadline.audit.cell_rates import Kind, Rate, cell_rates, equal_rates
from leadline.audit.evidence import RunEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.metrics import Op

# Published caps repeat within 0.2 % (kubestr on NFS) and 1 % (CephFS); real storage does not.
SAME = 1.02
FEWEST_CELLS = 3
# Neighbouring block sizes may give the same rate; a factor of four is a different load.
BLOCK_RATIO = 4
# Within one direction the factor must be larger, for reads and for writes; or in mixes of both.
DIRECTION_BLOCK_RATIO = 16


@rule(
    "capped-by-limit",
    "The same rate for any block size and direction: a limit was measured.",
    RunEvidence,
)
def check(run: RunEvidence) -> Iterator[RuleFinding]:
    for target, cells in run.by_target().items():
        for kind in Kind:
            rates = sorted(cell_rates(cells, kind), key=lambda rate: rate.value)
            group = _flat(rates, kind)
            if group:
                yield _finding(target, kind, group, "for reads and writes")
            elif kind is Kind.IOPS:
                for group in _flat_by_direction(rates):
                    yield _finding(target, kind, group, f"for all {group[0].direction}s")


def _finding(target: str, kind: Kind, group: Sequence[Rate], what: str) -> RuleFinding:
    value = statistics.median(rate.value for rate in group)
    blocks = [rate.block_bytes for rate in group]
    cells = len({rate.cell for rate in group})
    return RuleFinding(
        severity=Severity.WARNING,
        target=target,
        evidence={
            kind.value: value,
            "cells": cells,
            "smallest_block_bytes": min(blocks),
            "largest_block_bytes": max(blocks),
        },
        message=f"{cells} cells have {kind.shown(value)} within {SAME - 1:.0%} {what} of any block "
        f"size. A limit (QoS, cloud tier, network link) was measured, not the storage.",
        remedy="Remove the limit or state it. Capped cells cannot show a difference between "
        "targets.",
    )


def _flat(rates: Sequence[Rate], kind: Kind) -> Sequence[Rate]:
    """Return the largest group of equal rates of different block sizes and directions that no
    comparable cell contradicts; else empty. `rates` are sorted by value."""

    def wanted(group: Sequence[Rate]) -> bool:
        several = len({rate.cell for rate in group}) >= FEWEST_CELLS
        directions = {rate.direction for rate in group}
        # Mixes have both directions, in one figure.
        ratio = DIRECTION_BLOCK_RATIO if directions == {Op.TOTAL.value} else BLOCK_RATIO
        both = len(directions) > 1 or Op.TOTAL.value in directions
        return several and both and _apart(group, ratio)

    return _largest(rates, rates, kind, wanted)


def _flat_by_direction(rates: Sequence[Rate]) -> list[Sequence[Rate]]:
    """Return a group of equal rates of reads and one of writes, each over very different block
    sizes; empty without both, since a disk can have one rate in one direction."""
    found: list[Sequence[Rate]] = []
    for direction in (Op.READ.value, Op.WRITE.value):
        mine = [rate for rate in rates if rate.direction == direction]
        group = _largest(mine, rates, Kind.IOPS, lambda group: _apart(group, DIRECTION_BLOCK_RATIO))
        if not group:
            return []
        found.append(group)
    return found


def _largest(
    rates: Sequence[Rate],
    others: Sequence[Rate],
    kind: Kind,
    wanted: Callable[[Sequence[Rate]], bool],
) -> Sequence[Rate]:
    best: Sequence[Rate] = ()
    for group in equal_rates(rates, SAME):
        if len(group) > len(best) and wanted(group) and _is_ceiling(group, others, kind):
            best = group
    return best


def _is_ceiling(group: Sequence[Rate], rates: Sequence[Rate], kind: Kind) -> bool:
    """Whether every comparable cell meets the limit, so that the equal rates are no chance of a
    large matrix: none is above it, and none with as many I/Os in flight is below. One I/O in
    flight each is one latency, not a limit."""
    depths = [rate.in_flight for rate in group]
    if all(depth == 1 for depth in depths):
        return False
    shallowest = min((depth for depth in depths if depth is not None), default=0)
    blocks = [rate.block_bytes for rate in group]
    directions = {rate.direction for rate in group}
    for rate in rates:
        if rate in group or rate.direction not in directions:
            continue
        # A limit of I/Os holds for all smaller blocks as well, a limit of bytes for all larger
        # ones; beyond, another limit may be met before.
        if kind is Kind.IOPS and rate.block_bytes > max(blocks):
            continue
        if kind is Kind.BANDWIDTH and rate.block_bytes < min(blocks):
            continue
        above = rate.value > group[0].value
        if above or rate.in_flight is None or rate.in_flight >= shallowest:
            return False
    return True


def _apart(group: Sequence[Rate], ratio: float) -> bool:
    blocks = [rate.block_bytes for rate in group]
    return max(blocks) >= ratio * min(blocks)
