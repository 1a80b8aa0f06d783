"""The answer of `leadline scale`: load curves of runs, and systems of different size compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from leadline import errors
from leadline.analysis.bottleneck.evidence import LevelEvidence, levels_evidence
from leadline.analysis.bottleneck.suspects import Suspect, leading, suspects
from leadline.analysis.comparison import Judged
from leadline.analysis.figures import CellFigure
from leadline.analysis.samples import Samples
from leadline.analysis.scaling.clients import (
    DensityAnswer,
    Disturbance,
    Fairness,
    densities,
    disturbances,
    fairness_of,
)
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint, load_curves
from leadline.analysis.scaling.growth import Growth, growths
from leadline.analysis.scaling.knee import Shape, shape_of
from leadline.analysis.scaling.limits import LimitAnswer, check_limit
from leadline.analysis.scaling.superlinear import Superlinear
from leadline.analysis.verdicts import BETWEEN_RUNS
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.metrics import MARGIN
from leadline.plan.models import LatencyLimit, parse_latency_limit
from leadline.text import shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelBottleneck:
    """The bottleneck of one level: `suspects` with their evidence, the most certain first."""

    point: LoadPoint
    evidence: LevelEvidence
    suspects: tuple[Suspect, ...]

    @property
    def leading(self) -> tuple[Suspect, ...]:
        """The named suspects; where none is named, the suspected ones."""
        return leading(self.suspects)

    @property
    def level(self) -> str:
        return self.point.level

    @property
    def trial(self) -> str:
        return self.evidence.trial


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveStudy:
    """One curve. `limit` tests its closed-loop levels against the requested limit, `offered_limit`
    its open-loop ones; None without a limit or without such levels. `bottlenecks` has an entry for
    each level, closed loop first. `fairness` has an entry for each level with several clients."""

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
        """The bottleneck of the level with the highest throughput."""
        peak = self.shape.peak
        return next(
            (
                bottleneck
                for bottleneck in self.bottlenecks
                if peak and bottleneck.point is peak.point
            ),
            None,
        )


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
    """`limit` and `band` are as requested; `between_runs` is the standard deviation of a system
    between runs, 0 for systems of one run; `growths` compare systems with the first."""

    limit: LatencyLimit | None
    band: float
    between_runs: float
    runs: tuple[RunStudy, ...]
    growths: tuple[Growth, ...]

    @property
    def curves(self) -> tuple[CurveStudy, ...]:
        return tuple(curve for run in self.runs for curve in run.curves)

    @property
    def superlinear(self) -> tuple[Superlinear, ...]:
        """Speed-ups that exceed the added resources."""
        found = (row.superlinear for growth in self.growths for row in growth.rows)
        return tuple(one for one in found if one is not None)

    @property
    def several_levels(self) -> bool:
        """Whether any curve has at least two levels."""
        return any(curve.levels > 1 or curve.disturbances for curve in self.curves)


def study(
    runs: Sequence[Run],
    judged: Judged,
    *,
    limit: LatencyLimit | None = None,
    by: str | None = None,
    added: float | None = None,
    band: float = MARGIN,
    between_runs: float = BETWEEN_RUNS,
) -> ScalingStudy:
    """Analyse load curves and growth of the runs. `by` is a label of one run's targets whose values
    are systems; `added` is the user's ratio of hardware of two systems. Raises LeadlineError
    (`usage`) for a label that the run does not have, and for a label with several runs."""
    studied = tuple(_study_run(run, judged, limit) for run in runs)
    shapes: dict[tuple[Path, str], list[Shape]] = {}
    for one in studied:
        for curve in one.curves:
            shapes.setdefault((one.run.path, curve.curve.target), []).append(curve.shape)
    return ScalingStudy(
        limit=limit,
        band=band,
        between_runs=between_runs if len(runs) > 1 else 0.0,
        runs=studied,
        growths=growths(
            runs,
            judged,
            shapes,
            limit=limit,
            by=by,
            added=added,
            band=band,
            between_runs=between_runs,
        ),
    )


def _study_run(run: Run, judged: Judged, limit: LatencyLimit | None) -> RunStudy:
    figures, findings = judged(run)
    curves = load_curves(run, figures)
    samples = Samples(run)

    @cache
    def evidence(target: str, workload: str) -> Mapping[str, LevelEvidence]:
        return levels_evidence(run, target, workload)

    def bottleneck(point: LoadPoint) -> LevelBottleneck:
        of_level = evidence(point.figure.target, point.figure.planned_workload)[point.level]
        return LevelBottleneck(point=point, evidence=of_level, suspects=suspects(of_level))

    def studied(curve: LoadCurve) -> CurveStudy:
        points = (*curve.closed, *curve.offered)
        fairness = (fairness_of(run, point.cell, curve.op) for point in points)
        return CurveStudy(
            run=run,
            shape=shape_of(curve, samples),
            limit=check_limit(curve, limit) if limit and curve.closed else None,
            offered_limit=check_limit(curve, limit, open_loop=True)
            if limit and curve.offered
            else None,
            bottlenecks=tuple(map(bottleneck, points)),
            fairness=tuple(found for found in fairness if found is not None),
            disturbances=disturbances(curve, samples),
        )

    return RunStudy(
        run=run,
        figures=figures,
        findings=findings,
        curves=tuple(map(studied, curves)),
        densities=densities(run, curves, limit),
    )


# --- requests of the command line and of notebooks ----------------------------------------------

_LEVELS = "add levels to the workload: `levels: [{iodepth: 1}, {iodepth: 8}, {iodepth: 64}]`"
_SHOWN = 5


def parse_limit(text: str | None) -> LatencyLimit | None:
    """Parse `p99<20ms`. Raises LeadlineError (`usage`)."""
    if text is None:
        return None
    try:
        return parse_latency_limit(text)
    except ValueError as error:
        raise LeadlineError(
            errors.USAGE,
            f"invalid latency limit: {error}",
            hint="write a percentile or the mean, and a time: 'p99<20ms', 'mean<800us'",
        ) from error


def require_answer(found: ScalingStudy) -> ScalingStudy:
    """Return the study. Raises LeadlineError (`not-comparable` for several runs with nothing in
    common; `no-load-curve` where no workload has two levels and no system has a partner)."""
    grown = [row for growth in found.growths for row in growth.rows]
    measured = [_measured(run.run) for run in found.runs]
    if len(found.runs) > 1 and not grown:
        without = [run.run.id for run in found.runs if not run.curves]
        fact = "the runs have no target and workload in common"
        hint = "`leadline scale RUN` shows the load curves of one"
        if without:
            fact = f"no level of {' and '.join(without)} states its load (depth and jobs)"
            hint = "`leadline compare` compares results without a known load"
        raise LeadlineError(errors.NOT_COMPARABLE, fact, context=measured, hint=hint)
    if not (found.several_levels or grown or any(run.densities for run in found.runs)):
        points = [f"{curve.run.id}: {curve.curve.label}: 1 level" for curve in found.curves]
        more = [f"and {len(points) - _SHOWN} more"] if len(points) > _SHOWN else []
        raise LeadlineError(
            errors.NO_LOAD_CURVE,
            "a load curve needs at least two levels, and "
            + ("every workload has one level" if points else "no level states its load"),
            context=[*points[:_SHOWN], *more] or measured,
            hint=_LEVELS,
        )
    return found


def _measured(run: Run) -> str:
    named = dict.fromkeys(f"{cell.target} · {cell.workload.name}" for cell in run.plan.cells)
    return f"{run.id}: {shortened(named, _SHOWN)}"
