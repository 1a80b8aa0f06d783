"""Everything that `leadline scale` says, as one object: runs with their load curves, and systems
beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline import errors
from leadline.analysis.bottleneck.evidence import LevelEvidence, Suspect, levels_evidence
from leadline.analysis.bottleneck.suspects import leading, suspects
from leadline.analysis.compare import DEFAULT_BAND
from leadline.analysis.comparison import Judged
from leadline.analysis.figures import CellFigure
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint, load_curves
from leadline.analysis.scaling.growth import Growth, growths
from leadline.analysis.scaling.knee import Shape, shape_of
from leadline.analysis.scaling.limits import (
    DensityAnswer,
    Disturbance,
    Fairness,
    LimitAnswer,
    densities,
    disturbances,
    fairness_of,
    keeping,
)
from leadline.analysis.verdicts import Samples
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.plan.models import LatencyLimit, parse_latency_limit
from leadline.text import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelBottleneck:
    """What held one level back: `suspects` with their evidence, the surest first."""

    point: LoadPoint
    evidence: LevelEvidence
    suspects: tuple[Suspect, ...]

    @property
    def leading(self) -> tuple[Suspect, ...]:
        """Those named; where none is, those suspected."""
        return leading(self.suspects)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveStudy:
    """One curve. `limit` is how its closed-loop levels stand to the limit asked for, and
    `offered_limit` its open-loop ones; None without a limit or without such levels. `bottlenecks`
    has an entry for each level, closed loop first, then open loop. `fairness` is of levels with
    several clients, by level."""

    run: Run
    shape: Shape
    limit: LimitAnswer | None
    offered_limit: LimitAnswer | None
    bottlenecks: tuple[LevelBottleneck, ...]
    fairness: tuple[Fairness, ...]
    disturbances: tuple[Disturbance, ...]

    @property
    def curve(self) -> LoadCurve:
        return self.shape.curve

    @property
    def levels(self) -> int:
        """Levels without neighbours, closed and open."""
        return len(self.curve.closed) + len(self.curve.offered)

    @property
    def at_peak(self) -> LevelBottleneck | None:
        """What held the level with the highest throughput back."""
        peak = self.shape.peak
        found = (one for one in self.bottlenecks if peak and one.point is peak.point)
        return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStudy:
    """`findings` are the audit's of the whole run."""

    run: Run
    figures: tuple[CellFigure, ...]
    findings: tuple[Finding, ...] = ()
    curves: tuple[CurveStudy, ...]
    densities: tuple[DensityAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingStudy:
    """`limit` and `band` are what was asked for; `growths` are systems beside the first."""

    limit: LatencyLimit | None
    band: float
    runs: tuple[RunStudy, ...]
    growths: tuple[Growth, ...]

    @property
    def curves(self) -> tuple[CurveStudy, ...]:
        return tuple(curve for run in self.runs for curve in run.curves)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What comparing the systems found, the gravest first."""
        found = [
            one.superlinear.finding
            for growth in self.growths
            for one in growth.rows
            if one.superlinear
        ]
        return tuple(sorted(found, key=lambda one: -one.severity.order))

    @property
    def several_levels(self) -> bool:
        """Whether any curve has two levels at least, so that it is one."""
        return any(one.levels > 1 or one.disturbances for one in self.curves)


def study(
    runs: Sequence[Run],
    judged: Judged,
    *,
    limit: LatencyLimit | None = None,
    by: str | None = None,
    added: float | None = None,
    band: float = DEFAULT_BAND,
) -> ScalingStudy:
    """What the runs say of load and of growth. `by` is a label of one run's targets whose values
    are systems. Raises LeadlineError (`usage`) for a label that the run does not have, and where
    several runs are given with a label; `added` is the ratio of hardware that the user tells of
    two systems."""
    studied = tuple(_run(run, judged, limit) for run in runs)
    shapes = {
        (one.run.path, curve.curve.target): [
            other.shape for other in one.curves if other.curve.target == curve.curve.target
        ]
        for one in studied
        for curve in one.curves
    }
    return ScalingStudy(
        limit=limit,
        band=band,
        runs=studied,
        growths=growths(runs, judged, shapes, limit=limit, by=by, added=added, band=band),
    )


def _run(run: Run, judged: Judged, limit: LatencyLimit | None) -> RunStudy:
    figures, findings = judged(run)
    curves = load_curves(run, figures)
    samples = Samples(run)
    evidence = {
        pair: levels_evidence(run, *pair)
        for pair in dict.fromkeys(
            (point.figure.target, point.figure.planned_workload)
            for curve in curves
            for point in (*curve.closed, *curve.offered)
        )
    }
    named: dict[int, tuple[LevelEvidence, tuple[Suspect, ...]]] = {}

    def bottleneck(point: LoadPoint) -> LevelBottleneck:
        if point.cell not in named:
            found = evidence[point.figure.target, point.figure.planned_workload][point.level]
            named[point.cell] = found, suspects(found)
        of_level, suspected = named[point.cell]
        return LevelBottleneck(point=point, evidence=of_level, suspects=suspected)

    def studied(curve: LoadCurve) -> CurveStudy:
        asked = limit is not None
        return CurveStudy(
            run=run,
            shape=shape_of(curve, samples),
            limit=keeping(curve, limit) if limit and curve.closed else None,
            offered_limit=keeping(curve, limit, open_loop=True)
            if limit and asked and curve.offered
            else None,
            bottlenecks=tuple(map(bottleneck, (*curve.closed, *curve.offered))),
            fairness=tuple(
                found
                for point in (*curve.closed, *curve.offered)
                if (found := fairness_of(run, point.cell, curve.op)) is not None
            ),
            disturbances=disturbances(curve, samples),
        )

    return RunStudy(
        run=run,
        figures=figures,
        findings=findings,
        curves=tuple(map(studied, curves)),
        densities=densities(run, curves, limit),
    )


# What command line and notebooks ask of scaling: a study, or why there is none.

_LEVELS = "give the plan's workload several: `levels: [{iodepth: 1}, {iodepth: 8}, {iodepth: 64}]`"
_SHOWN = 5


def limit_named(text: str | None) -> LatencyLimit | None:
    """`p99<20ms`. Raises LeadlineError (`usage`)."""
    if text is None:
        return None
    try:
        return parse_latency_limit(text)
    except ValueError as error:
        raise LeadlineError(
            errors.USAGE,
            f"the latency limit is not understood: {error}",
            hint="write a percentile or the mean, and a time: 'p99<20ms', 'mean<800us'",
        ) from error


def scaled(
    runs: Sequence[Run],
    judged: Judged,
    *,
    limit: LatencyLimit | None,
    by: str | None,
    added: float | None,
    band: float,
) -> ScalingStudy:
    """The study of these runs. Raises LeadlineError (`usage`; `not-comparable` for several runs
    with nothing in common; `no-load-curve` where no workload has two levels, nor a system a
    partner)."""
    found = study(runs, judged, limit=limit, by=by, added=added, band=band)
    grown = [row for one in found.growths for row in one.rows]
    if len(runs) > 1 and not grown:
        raise _nothing_shared(found)
    if not (found.several_levels or grown or any(one.densities for one in found.runs)):
        raise _no_curve(found)
    return found


def _nothing_shared(found: ScalingStudy) -> LeadlineError:
    silent = [visible(one.run.id) for one in found.runs if not one.curves]
    if silent:
        return LeadlineError(
            errors.NOT_COMPARABLE,
            f"no level of {' and '.join(silent)} tells its load, that is its depth and jobs",
            context=[_measured(one.run) for one in found.runs],
            hint="`leadline compare` sets figures beside each other whatever their load",
        )
    return LeadlineError(
        errors.NOT_COMPARABLE,
        "the runs have no target and workload in common",
        context=[_measured(one.run) for one in found.runs],
        hint="`leadline scale RUN` shows the load curves of one",
    )


def _no_curve(found: ScalingStudy) -> LeadlineError:
    points = [f"{visible(one.run.id)}: {visible(one.curve.label)}: 1 level" for one in found.curves]
    more = len(points) - _SHOWN
    return LeadlineError(
        errors.NO_LOAD_CURVE,
        "a curve needs two levels at least, and "
        + ("no workload here has more than one" if points else "no level here tells its load"),
        context=[*points[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        or [_measured(one.run) for one in found.runs],
        hint=_LEVELS,
    )


def _measured(run: Run) -> str:
    named = [
        visible(one)
        for one in dict.fromkeys(f"{cell.target} · {cell.workload.name}" for cell in run.plan.cells)
    ]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return f"{visible(run.id)}: {', '.join(named[:_SHOWN])}{more}"
