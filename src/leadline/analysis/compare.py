"""Compare two systems: match their cells, test each metric, explain the changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import By, ComparedCell, Comparison, Side
from leadline.analysis.explain.conditions import conditions
from leadline.analysis.figures import CellFigure, Selector
from leadline.analysis.noise import NoiseFloors, noise_floors
from leadline.analysis.verdicts import Pair, Sample, Samples, judge
from leadline.analysis.workloads import depth, jobs, reported_rate, unlike, usual_rate
from leadline.metrics import Metric, Op
from leadline.plan.models import Workload

DEFAULT_BAND = 0.05
_Key = tuple[str, str, Op | None]


def compare(
    baseline: Side,
    candidate: Side,
    *,
    by: By,
    band: float = DEFAULT_BAND,
    metrics: Sequence[Metric] = tuple(Metric),
    primary: Sequence[Selector] = (),
) -> Comparison:
    """Compare every subject of both systems, cell by cell and metric by metric.

    `band` is the equivalence margin. `primary` metrics were declared before the test and are
    adjusted by Holm, the others by Benjamini-Hochberg. Raises ValueError for a `band` that is not
    between 0 and 1.
    """
    subjects = [one for one in baseline.targets if one in candidate.targets]
    floors = noise_floors(baseline), noise_floors(candidate)
    ours, theirs = _Cells(baseline), _Cells(candidate)
    # A workload of one subject is missing on every other, on both systems.
    matrix = dict.fromkeys(
        key for one in subjects for key in (*ours.of(one), *theirs.of(one)) if key[2] is not None
    )
    rows: list[_Row] = []
    for subject in subjects:
        cells, others = ours.of(subject), theirs.of(subject)
        for key in dict.fromkeys((*cells, *others, *matrix)):
            rows += _rows(
                subject, key, cells.get(key), others.get(key), (ours, theirs), metrics=metrics
            )
    pairs = [_pair(row, (ours, theirs), floors, primary) for row in rows]
    judgements = judge(pairs, band)
    compared = tuple(
        ComparedCell(
            target=row.subject,
            workload=row.workload,
            level=row.level,
            op=row.op,
            metric=row.metric,
            baseline_cell=row.baseline,
            candidate_cell=row.candidate,
            judgement=judgement,
            depth=row.depth,
            jobs=row.jobs,
            streaming=row.streaming,
            rate_metric=row.rate_metric,
        )
        for row, judgement in zip(rows, judgements, strict=True)
    )
    found = conditions(baseline, candidate, subjects, compared)
    return Comparison(
        by=by,
        baseline=baseline,
        candidate=candidate,
        band=band,
        cells=compared,
        differences=found.differences,
        identical=found.identical,
        explanations=found.explanations,
        unknown=found.unknown,
        baseline_alone=tuple(one for one in baseline.targets if one not in candidate.targets),
        candidate_alone=tuple(one for one in candidate.targets if one not in baseline.targets),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A pair of figures before its test."""

    subject: str
    workload: str
    level: str
    op: Op | None
    metric: Metric
    baseline: CellFigure | None
    candidate: CellFigure | None
    depth: int | None
    jobs: int | None
    streaming: bool
    rate_metric: Metric
    unlike: tuple[str, ...]


class _Cells:
    """The figures of one system by subject, its workloads, and the samples of its figures."""

    def __init__(self, side: Side) -> None:
        names = {name: subject for subject, name in side.targets.items()}
        self._figures: dict[str, dict[_Key, CellFigure]] = {one: {} for one in side.targets}
        for figure in side.figures:
            subject = names.get(figure.target)
            if subject is not None:
                key = (figure.workload, figure.level, figure.op)
                self._figures[subject][key] = figure
        self._workloads = {
            (cell.target, cell.workload.name, cell.level): cell.workload
            for cell in side.run.plan.cells
        }
        self.samples = Samples(side.run)

    def of(self, subject: str) -> Mapping[_Key, CellFigure]:
        return self._figures[subject]

    def workload(self, figure: CellFigure) -> Workload | None:
        return self._workloads.get((figure.target, figure.planned_workload, figure.level))

    def planned(self, key: _Key) -> Workload | None:
        """Return a workload with this name and level of any target."""
        return next(
            (
                workload
                for (_, name, level), workload in self._workloads.items()
                if (name, level) == key[:2]
            ),
            None,
        )


def _rows(
    subject: str,
    key: _Key,
    baseline: CellFigure | None,
    candidate: CellFigure | None,
    sides: tuple[_Cells, _Cells],
    *,
    metrics: Sequence[Metric],
) -> Iterable[_Row]:
    """Yield a row for each metric that either system reports, else one empty row."""
    ours = sides[0].workload(baseline) if baseline else None
    theirs = sides[1].workload(candidate) if candidate else None
    known = ours or theirs or sides[0].planned(key) or sides[1].planned(key)
    rate = usual_rate(known)
    there = [one for one in (baseline, candidate) if one is not None]

    def is_reported(metric: Metric) -> bool:
        return any(one.metric(metric).value is not None for one in there)

    reported = [metric for metric in metrics if is_reported(metric)]
    nothing = [rate if rate in metrics else next(iter(metrics), rate)]
    for metric in reported or nothing:
        yield _Row(
            subject=subject,
            workload=key[0],
            level=key[1],
            op=key[2],
            metric=metric,
            baseline=baseline,
            candidate=candidate,
            depth=depth(known, key[2]),
            jobs=jobs(known, key[2]),
            streaming=rate is Metric.BANDWIDTH,
            rate_metric=reported_rate(rate, is_reported),
            unlike=unlike(ours, theirs) if ours and theirs else (),
        )


def _pair(
    row: _Row,
    sides: tuple[_Cells, _Cells],
    floors: tuple[NoiseFloors, NoiseFloors],
    primary: Sequence[Selector],
) -> Pair:
    samples = [
        cells.samples.of(figure.metric(row.metric), row.op) if figure else Sample(value=None)
        for cells, figure in zip(sides, (row.baseline, row.candidate), strict=True)
    ]
    where = (row.workload, row.level, row.op, row.metric)
    return Pair(
        metric=row.metric,
        baseline=samples[0],
        candidate=samples[1],
        noise=max(floor.get(where, 0.0) for floor in floors),
        differs=("workload-differs",) if row.unlike else (),
        primary=any(one.matches(*where) for one in primary),
    )
