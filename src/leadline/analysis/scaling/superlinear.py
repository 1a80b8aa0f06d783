"""`superlinear-scaling`: a speed-up larger than what was added, as a finding to be explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.conditions import Conditions
from leadline.analysis.evidence import REPEATS_FACTOR
from leadline.analysis.scaling.codes import SUPERLINEAR
from leadline.analysis.scaling.resources import Known, Resource
from leadline.analysis.scaling.speedup import LevelSpeedup, Speedup
from leadline.analysis.scaling.superlinear_causes import Cause, causes
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.findings import Finding, Severity
from leadline.metrics import Metric
from leadline.visible import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Superlinear:
    """`at` is the pair of levels that exceeds the added resources most clearly. `certain`: its
    interval does, else its figure alone. `causes` are candidates, those that the evidence supports
    first."""

    finding: Finding
    at: LevelSpeedup
    certain: bool
    causes: tuple[Cause, ...]


def superlinear(
    speedup: Speedup, ours: Known, theirs: Known, differing: Conditions
) -> Superlinear | None:
    """The finding on one curve of both systems; None where nothing was added that is known, or the
    throughput grew no more than it.

    `warning` where the low end of an interval exceeds the ratio of the resource that grew most by
    more than the band, at any level or at the peaks; `info` where the peaks' figure alone does: of
    several levels' figures some would, whatever the truth. Of one own trial a side the interval
    counts as far as repeats are known to scatter (REPEATS_FACTOR); figures that somebody else
    summarised are judged by the band alone, as in a comparison, and the message says so.
    """
    over = speedup.divisor
    found = exceeding(speedup.levels, speedup.peak, over) if over else None
    if over is None or found is None:
        return None
    return Superlinear(
        finding=_finding(speedup, found, over),
        at=found.at,
        certain=found.certain,
        causes=causes(speedup, found.at, ours, theirs, differing),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Where a speed-up exceeds what was added most clearly; `levels` counts the levels whose
    figures do."""

    at: LevelSpeedup
    certain: bool
    levels: int


def exceeding(
    levels: Sequence[LevelSpeedup], peak: LevelSpeedup | None, over: Resource
) -> Excess | None:
    """The rule of `superlinear`, on numbers alone."""
    if over.ratio <= 1:
        return None
    asked = [*levels, *([peak] if peak else [])]
    sure = [one for one in asked if _low(one.judgement) > _edge(one.judgement, over)]
    at = max(sure, key=lambda one: _low(one.judgement), default=None)
    if at is None and peak is not None and _by_figure(peak.judgement, over):
        at = peak
    if at is None:
        return None
    beyond = sum(_by_figure(one.judgement, over) for one in levels)
    return Excess(at=at, certain=bool(sure), levels=beyond)


def _edge(judgement: Judgement, over: Resource) -> float:
    return over.ratio * (1 + judgement.band)


def _by_figure(judgement: Judgement, over: Resource) -> bool:
    if judgement.verdict is Verdict.NOT_COMPARABLE or judgement.ratio is None:
        return False
    return judgement.ratio > _edge(judgement, over)


def _low(judgement: Judgement) -> float:
    """The least that the speed-up is, as far as anything tells; 0 where nothing does."""
    if judgement.verdict is Verdict.NOT_COMPARABLE:
        return 0.0
    if judgement.evidence is Evidence.ONE_NUMBER:
        return judgement.ratio or 0.0
    if judgement.interval is None:
        return 0.0
    doubt = REPEATS_FACTOR if judgement.evidence is Evidence.WITHIN_RUN else 1.0
    return judgement.interval[0] / doubt


def _finding(speedup: Speedup, found: Excess, over: Resource) -> Finding:
    at, certain = found.at, found.certain
    judgement = at.judgement
    assert judgement.ratio is not None
    point = at.candidate
    peak = at is speedup.peak
    where = "at the highest level of each" if peak else f"at {point.level or 'the one level'}"
    low, high = judgement.interval or (None, None)
    said = "" if low is None else f" (95 % interval {low:.2f} to {high:.2f})"
    levels = len(speedup.levels)
    more = f" The figures are beyond it at {found.levels} of {levels} levels." if levels > 1 else ""
    verdict = (
        "more than in proportion, which more of the same hardware does not give"
        if certain
        else "which could be superlinear; more trials would tell"
    )
    message = (
        f"Throughput grew by x{judgement.ratio:.2f}{said} {where}, {visible(over.name)} by "
        f"x{over.ratio:.2f} ({over.baseline:g} to {over.candidate:g}): {verdict}.{more}"
        f"{_doubt(judgement)}"
    )
    numbers = {
        "speedup": judgement.ratio,
        "speedup_low": low,
        "speedup_high": high,
        "resource_ratio": over.ratio,
        "resource_baseline": over.baseline,
        "resource_candidate": over.candidate,
        "efficiency": judgement.ratio / over.ratio,
        "band_share": judgement.band,
        "baseline_iops": at.baseline.usable(Metric.IOPS),
        "candidate_iops": point.usable(Metric.IOPS),
        "baseline_trials": len(at.baseline.throughput.trials),
        "candidate_trials": len(point.throughput.trials),
        "levels_beyond": found.levels,
        "levels": levels,
    }
    return Finding(
        code=SUPERLINEAR,
        severity=Severity.WARNING if certain else Severity.INFO,
        target=speedup.candidate.target,
        workload=speedup.candidate.workload,
        level=point.level,
        op=speedup.candidate.op,
        evidence={name: float(value) for name, value in numbers.items() if value is not None},
        message=message,
        remedy=_remedy(judgement),
    )


def _doubt(judgement: Judgement) -> str:
    alone = (
        f" (single-trial: two single runs of one thing lie up to x{REPEATS_FACTOR:.2f} apart, and "
        "nothing here tells how far these do)"
    )
    if judgement.evidence is Evidence.ONE_NUMBER:
        return f" Judged by the figures alone{alone}."
    if judgement.evidence in (Evidence.WITHIN_RUN, Evidence.NONE):
        return f" One side has no second trial{alone}."
    return ""


def _remedy(judgement: Judgement) -> str:
    if judgement.evidence is Evidence.TRIALS:
        return (
            "Look for what else changed beside the resources, and change one thing at a time; do "
            "not extend the line to more of them."
        )
    return (
        "Repeat both systems, six trials a side, before anything is made of it; then look for what "
        "else changed beside the resources."
    )
