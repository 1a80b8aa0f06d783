"""A comparison as data: two sides, what each cell of both says, and how the systems differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.cells import CellFigure, MetricFigure
from leadline.analysis.verdicts import Judgement, Verdict
from leadline.archive.reader import Run
from leadline.findings import Finding
from leadline.inventory.differences import Difference
from leadline.metrics import Metric, Op


class By(StrEnum):
    """What the two sides of a comparison are."""

    RUN = "run"
    CLUSTER = "cluster"
    TARGET = "target"
    LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side. `name` is what people call it (a run, a cluster, a target, a label);
    `targets` maps each subject, under which its cells are matched with the other side's, to the
    target's name in the run. `figures` and `findings` are those of the whole run."""

    name: str
    run: Run
    targets: Mapping[str, str]
    figures: tuple[CellFigure, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCell:
    """One metric of one subject, workload, level and operation on both sides. A side without the
    cell has None, one whose cell has no number a figure with its absence. `depth` counts the I/Os
    that were to be in flight in all `jobs` together, None where nobody told. `streaming`: large
    blocks, of which people say the bandwidth rather than IOPS; `rate_metric` is what they say here,
    where it is not that."""

    target: str
    workload: str
    level: str
    op: Op | None
    metric: Metric
    baseline_cell: CellFigure | None
    candidate_cell: CellFigure | None
    judgement: Judgement
    depth: int | None
    streaming: bool
    jobs: int | None = None
    rate_metric: Metric | None = None

    @property
    def baseline(self) -> MetricFigure | None:
        return self.baseline_cell.metric(self.metric) if self.baseline_cell else None

    @property
    def candidate(self) -> MetricFigure | None:
        return self.candidate_cell.metric(self.metric) if self.candidate_cell else None

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def rate(self) -> bool:
        """Whether this is the metric by which people name the cell's speed."""
        usual = Metric.BANDWIDTH if self.streaming else Metric.IOPS
        return self.metric is (self.rate_metric or usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a difference of configuration can account for. `paths` are those of the differences;
    `cells` the compared cells that it concerns (indices into `Comparison.cells`); `text` is one or
    two sentences with their numbers. `closes`: whether the arithmetic does; None where there is
    none to do."""

    paths: tuple[str, ...]
    cells: tuple[int, ...]
    text: str
    closes: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`band` is what was asked for. `noise` says for how many pairs a noise floor was measured.
    `baseline_alone` and `candidate_alone` name subjects without a partner. `unknown` names what one
    side at least does not tell, so that nobody can say whether it differs."""

    by: By
    baseline: Side
    candidate: Side
    band: float
    cells: tuple[ComparedCell, ...]
    differences: tuple[Difference, ...]
    identical: tuple[str, ...]
    explanations: tuple[Explanation, ...]
    baseline_alone: tuple[str, ...] = ()
    candidate_alone: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def counts(self) -> Mapping[Verdict, int]:
        """How many cells have each verdict, all verdicts named."""
        found = dict.fromkeys(Verdict, 0)
        for cell in self.cells:
            found[cell.verdict] += 1
        return found
