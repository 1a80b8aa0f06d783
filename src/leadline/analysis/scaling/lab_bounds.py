"""What two labs beside each other can show, and what the one machine that plays them cannot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leadline.analysis.scaling.curves import LoadPoint
from leadline.analysis.scaling.resources import Known
from leadline.analysis.scaling.speedup import Speedup
from leadline.metrics import Metric
from leadline.plan.lab_description import LabDescription

THROTTLED = "throttled-system"
SATURATED = "client-saturated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabBounds:
    """Two labs on a machine of `cores` processors, None where nobody tells. Of `levels` of equal
    load on both sides together, `throttled` had latencies that a processor budget made, and at
    `saturated` the machine's own processors were used up."""

    baseline: LabDescription
    candidate: LabDescription
    cores: int | None
    levels: int
    throttled: int
    saturated: int


def lab_bounds(ours: Known, theirs: Known, speedups: Iterable[Speedup]) -> LabBounds | None:
    """None where one side at least is no lab, or nobody describes it, or neither has more than the
    other: labs of one size are set beside each other for something else, such as their zones."""
    speedups = tuple(speedups)
    if ours.lab is None or theirs.lab is None or not any(one.divisor for one in speedups):
        return None
    points = [
        point
        for one in speedups
        if not one.baseline.part_of_mix
        for level in one.levels
        for point in (level.baseline, level.candidate)
    ]
    return LabBounds(
        baseline=ours.lab,
        candidate=theirs.lab,
        cores=ours.host.cores if ours.host else None,
        levels=len(points),
        throttled=sum(THROTTLED in _codes(point) for point in points),
        saturated=sum(SATURATED in _codes(point) for point in points),
    )


def _codes(point: LoadPoint) -> frozenset[str]:
    return frozenset(
        code
        for metric in (Metric.IOPS, Metric.LATENCY_MEAN)
        for code in point.figure.metric(metric).findings
    )
