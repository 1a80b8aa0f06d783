"""Comparisons made by hand, and the published study imported and compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, ComparedCell, Comparison, Side, two_runs
from leadline.analysis.explain.facts import Explanation
from leadline.analysis.figures import (
    METRICS,
    Absence,
    CellFigure,
    MetricFigure,
    TrialValue,
    figures,
)
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.archive.reader import Run
from leadline.archive.records import Session
from leadline.audit.registry import audit
from leadline.findings import Finding
from leadline.importing.archives import Labels, import_results
from leadline.importing.gather import gather
from leadline.inventory.diff import Difference
from leadline.metrics import Metric, Op

STUDY = Path(__file__).parents[4] / "recorded/imports/table/multizone-vs-singlezone.csv"
SESSION = Session(
    started_at="2026-11-21T02:55:00+00:00",
    hostname="bench-1",
    leadline_version="0.1.0",
    python_version="3.11.2",
    command=("leadline", "import", "table", "multizone-vs-singlezone.csv"),
)


def judged(run: Run) -> tuple[tuple[CellFigure, ...], tuple[Finding, ...]]:
    findings = tuple(audit(run))
    return figures(run, findings), findings


def imported(folder: Path, table: Path = STUDY) -> tuple[Run, ...]:
    return import_results(gather("table", [table]), folder, Labels(run="study"), SESSION).runs


def study(folder: Path) -> Comparison:
    """Multi-zone against single-zone, as published."""
    runs = {run.manifest.cluster_label: run for run in imported(folder)}
    sides = two_runs(runs["single-zone"], runs["multi-zone"], judged)
    return compare(*sides, by=By.RUN)


def figure(
    target: str,
    workload: str,
    op: Op | None,
    metric: Metric,
    trials: Sequence[float],
    *,
    level: str = "",
) -> CellFigure:
    """A cell of which one metric is known; without trials it has no number."""
    values = sorted(trials)
    value = values[len(values) // 2] if values else None
    told = MetricFigure(
        metric=metric,
        value=value,
        trials=tuple(TrialValue(trial=f"t{n}", value=one) for n, one in enumerate(trials)),
        low=min(values, default=None),
        high=max(values, default=None),
        absence=None if values else Absence.NO_COMPLETED_TRIAL,
    )
    return CellFigure(
        target=target,
        workload=workload,
        planned_workload=workload,
        level=level,
        op=op,
        completed=len(trials),
        planned=max(1, len(trials)),
        metrics=tuple(
            told
            if one is metric
            else MetricFigure(metric=one, value=None, absence=Absence.NOT_MEASURED)
            for one in METRICS
        ),
    )


def cell(
    baseline: Sequence[float] | None,
    candidate: Sequence[float] | None,
    verdict: Verdict,
    *,
    target: str = "rep3",
    workload: str = "randwrite-4k",
    op: Op | None = Op.WRITE,
    metric: Metric = Metric.IOPS,
    level: str = "",
    evidence: Evidence = Evidence.TRIALS,
    reasons: tuple[str, ...] = (),
    needed: int | None = None,
    interval: tuple[float, float] | None = None,
    streaming: bool = False,
) -> ComparedCell:
    """None: this side has no such cell; empty: it has, without a number."""
    sides = [
        None if one is None else figure(target, workload, op, metric, one, level=level)
        for one in (baseline, candidate)
    ]
    values = [one.metric(metric).value if one else None for one in sides]
    ratio = values[1] / values[0] if values[0] and values[1] else None
    return ComparedCell(
        target=target,
        workload=workload,
        level=level,
        op=op,
        metric=metric,
        baseline_cell=sides[0],
        candidate_cell=sides[1],
        judgement=Judgement(
            verdict=verdict,
            evidence=evidence,
            band=0.05,
            ratio=ratio,
            interval=interval,
            reasons=reasons,
            trials_needed=needed,
        ),
        depth=None,
        streaming=streaming,
    )


def comparison(
    *cells: ComparedCell,
    run: Run | None = None,
    names: tuple[str, str] = ("old", "new"),
    differences: tuple[Difference, ...] = (),
    explanations: tuple[Explanation, ...] = (),
    alone: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
) -> Comparison:
    """`run` is what both sides are of; sentences alone need none."""
    sides = []
    for which, name in enumerate(names):
        subjects = [*dict.fromkeys(one.target for one in cells), *alone[which]]
        given = [one.candidate_cell if which else one.baseline_cell for one in cells]
        sides.append(
            Side(
                name=name,
                run=run or Run(Path("/nowhere")),
                targets={one: one for one in subjects},
                figures=tuple(one for one in given if one),
                findings=(),
            )
        )
    return Comparison(
        by=By.TARGET,
        baseline=sides[0],
        candidate=sides[1],
        band=0.05,
        cells=cells,
        differences=differences,
        identical=(),
        explanations=explanations,
        baseline_alone=alone[0],
        candidate_alone=alone[1],
    )
