"""The index of a site as data: what `leadline site` found in a folder of archives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from leadline.analysis.comparison import Comparison
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.verdicts import Verdict
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.verify import Verification
from leadline.findings import Severity
from leadline.metrics import Metric, Op
from leadline.report.answers.base import Output
from leadline.report.pages.comparison.headline import key_finding
from leadline.report.pages.run.heat_maps import usable
from leadline.report.pages.run.overview import rates_of


class SiteRange(Output):
    """The cells' figures of one operation that the audit does not refuse, lowest to highest, in the
    metric's base unit (bytes/s, s)."""

    op: str
    metric: str
    lowest: float
    highest: float


class SiteRun(Output):
    """An archive. `page` is the file of its page, null where the archive cannot be read: `error`
    then says why. `intact`: every checksum and number agrees with raw. `results` are its rates, of
    which the audit `refused` some and has warnings for others (`warned`)."""

    run: str
    folder: str
    page: str | None
    error: str = ""
    created_at: str = ""
    status: str = ""
    intact: bool = False
    targets: list[str] = Field(default_factory=list)
    workloads: list[str] = Field(default_factory=list)
    trials: int = 0
    trials_planned: int = 0
    results: int = 0
    refused: int = 0
    warned: int = 0
    ranges: list[SiteRange] = Field(default_factory=list)


class SiteEffect(Output):
    """The overall effect on the rates of one operation: the candidate's as a ratio of the
    baseline's, with its 95 % interval."""

    op: str
    ratio: float
    interval: tuple[float, float]
    verdict: str


class SiteComparison(Output):
    """A comparison of two runs, or of the two clusters of one (`by`). `verdicts` counts the rates;
    `overall` has an operation with three cells or more."""

    page: str | None
    error: str = ""
    by: Literal["run", "cluster"]
    runs: list[str]
    baseline: str
    candidate: str
    created_at: str
    verdicts: dict[str, int] = Field(default_factory=dict)
    overall: list[SiteEffect] = Field(default_factory=list)
    headline: str = ""


class SiteOutput(Output):
    """The runs of a folder, oldest first, and the comparisons of each with the one before it that
    has cells in common."""

    schema_: Literal["leadline/site/1"] = Field(default="leadline/site/1", alias="schema")
    band: float
    between_runs: float
    runs: list[SiteRun]
    comparisons: list[SiteComparison]


def site_run(
    run: Run, page: str, figures: Sequence[CellFigure], verification: Verification
) -> SiteRun:
    """Summarise a run for the index."""
    rates = rates_of(run, figures)
    known = [metric for _, metric in rates if metric.value is not None]
    tails = [(figure, figure.metric(Metric.LATENCY_P99)) for figure, _ in rates]
    return SiteRun(
        run=run.id,
        folder=run.path.name,
        page=page,
        created_at=run.manifest.created_at,
        status=run.manifest.status.value,
        intact=verification.ok,
        targets=[target.name for target in run.plan.targets],
        workloads=list(dict.fromkeys(cell.workload.name for cell in run.plan.cells)),
        trials=sum(trial.record.status is TrialStatus.COMPLETED for trial in run.trials),
        trials_planned=run.manifest.trials_planned,
        results=len(known),
        refused=sum(metric.severity is Severity.ERROR for metric in known),
        warned=sum(metric.severity is Severity.WARNING for metric in known),
        ranges=[*_ranges(rates), *_ranges(tails)],
    )


def _ranges(shown: Sequence[tuple[CellFigure, MetricFigure]]) -> list[SiteRange]:
    found: dict[tuple[Op, Metric], list[float]] = {}
    for figure, metric in shown:
        if figure.op and metric.value is not None and usable(metric):
            found.setdefault((figure.op, metric.metric), []).append(metric.value)
    return [
        SiteRange(op=op.value, metric=metric.value, lowest=min(values), highest=max(values))
        for (op, metric), values in found.items()
    ]


def site_comparison(comparison: Comparison, page: str) -> SiteComparison:
    """Summarise a comparison for the index."""
    rates = [cell for cell in comparison.cells if cell.rate]
    counts = Counter(cell.verdict for cell in rates)
    return SiteComparison(
        page=page,
        by="cluster" if len(comparison.runs) == 1 else "run",
        runs=[run.id for run in comparison.runs],
        baseline=comparison.baseline.name,
        candidate=comparison.candidate.name,
        created_at=comparison.runs[-1].manifest.created_at,
        verdicts={verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]},
        overall=[
            SiteEffect.from_records(effect, op=effect.op.value, verdict=effect.verdict.value)
            for effect in comparison.overall
            if effect.op is not None and effect.blocks is None
        ],
        headline=key_finding(comparison),
    )
