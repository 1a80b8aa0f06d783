"""Compare two systems: match their cells, test each metric, explain the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from leadline.analysis.comparison import By, ComparedCell, Comparison, RunDifferences, Side
from leadline.analysis.explain.conditions import conditions
from leadline.analysis.figures import CellFigure, merge_runs
from leadline.analysis.noise import Where, noise_floors
from leadline.analysis.overall import overall_effects
from leadline.analysis.samples import Samples, merge_samples
from leadline.analysis.selectors import Selector
from leadline.analysis.verdicts import BETWEEN_RUNS, Pair, Reason, Sample, judge
from leadline.analysis.workloads import depth, jobs, reported_rate, usual_rate, workload_differences
from leadline.metrics import IO_METRICS, MARGIN, Metric, Op
from leadline.plan.workload import Workload

_Key = tuple[str, str, Op | None]
# A compared cell that lacks its judgement, and the samples of both systems.
PairedCell = tuple[Callable[..., ComparedCell], Pair]


def compare(
    baseline: Side,
    candidate: Side,
    *,
    by: By,
    band: float = MARGIN,
    metrics: Sequence[Metric] = tuple(Metric),
    primary: Sequence[Selector] = (),
    between_runs: float = BETWEEN_RUNS,
) -> Comparison:
    """Compare every subject of both systems, cell by cell and metric by metric.

    `band` is the equivalence margin; `between_runs` the standard deviation of a system from one
    run to another, as a share, where the systems are of two runs. `primary` metrics were declared
    before the test and are adjusted by Holm, the others by Benjamini-Hochberg; costs of an I/O are
    families of their own, so that they change no verdict on a rate. With several runs of
    a system their variation is estimated instead. Raises ValueError
    for a `band` that is not between 0 and 1.
    """
    rows = paired_samples(baseline, candidate, metrics=metrics, primary=primary)
    compared, costs = judge_cells(rows, band, between_runs)
    if baseline.run.id == candidate.run.id and not any(
        Reason.ACROSS_GROUPS in cell.judgement.reasons for cell in compared
    ):
        between_runs = 0.0
    unlike_runs = tuple(
        RunDifferences(first=side.run.id, run=repeat.run.id, differences=differing)
        for side in (baseline, candidate)
        for repeat in side.repeats
        if (differing := conditions(side, repeat, list(repeat.targets), ()).differences)
    )
    found = conditions(baseline, candidate, _common(baseline, candidate), compared)
    return Comparison(
        by=by,
        baseline=baseline,
        candidate=candidate,
        band=band,
        between_runs=between_runs,
        overall=overall_effects(compared, band, between_runs),
        cells=compared,
        costs=costs,
        differences=found.differences,
        identical=found.identical,
        explanations=found.explanations,
        unknown=found.unknown,
        unlike_runs=unlike_runs,
        baseline_alone=tuple(
            target for target in baseline.targets if target not in candidate.targets
        ),
        candidate_alone=tuple(
            target for target in candidate.targets if target not in baseline.targets
        ),
    )


def judge_cells(
    rows: Sequence[PairedCell], band: float, between_runs: float
) -> tuple[tuple[ComparedCell, ...], tuple[ComparedCell, ...]]:
    """Judge the cells of both systems: rates and latencies, and the costs of an I/O, which are
    families of their own."""

    def test(rows: Sequence[PairedCell]) -> tuple[ComparedCell, ...]:
        judgements = judge([pair for _, pair in rows], band, between_runs=between_runs)
        return tuple(
            cell(judgement=judgement) for (cell, _), judgement in zip(rows, judgements, strict=True)
        )

    return (
        test([row for row in rows if not row[1].metric.is_cost]),
        test([row for row in rows if row[1].metric.is_cost]),
    )


def paired_samples(
    baseline: Side,
    candidate: Side,
    *,
    metrics: Sequence[Metric] = IO_METRICS,
    primary: Sequence[Selector] = (),
) -> list[PairedCell]:
    """Return each cell of both systems without its judgement, and the samples to judge; costs are
    the last."""
    subjects = _common(baseline, candidate)
    systems = _System(baseline), _System(candidate)
    keys = {
        subject: dict.fromkeys(key for system in systems for key in system.figures[subject])
        for subject in subjects
    }
    # A workload of one subject is missing on every other, on both systems.
    matrix = [key for found in keys.values() for key in found if key[2] is not None]
    rows = [
        row
        for subject in subjects
        for key in dict.fromkeys((*keys[subject], *matrix))
        for row in _rows(subject, key, systems, metrics, primary)
    ]
    return sorted(rows, key=lambda row: row[1].metric.is_cost)


def _common(baseline: Side, candidate: Side) -> list[str]:
    return [subject for subject in baseline.targets if subject in candidate.targets]


class _System:
    """The figures of one system by subject, its workloads, samples and noise floors, of one run or
    of several together."""

    def __init__(self, side: Side) -> None:
        self._parts = [_Part(part) for part in side.parts]
        keys = {
            subject: dict.fromkeys(key for part in self._parts for key in part.rows(subject))
            for subject in side.targets
        }
        self.figures: dict[str, dict[_Key, CellFigure]] = {
            subject: {key: self._figure(subject, key) for key in found}
            for subject, found in keys.items()
        }
        self.floors: dict[Where, float] = {}
        for part in side.parts:
            for where, floor in noise_floors(part).items():
                self.floors[where] = max(floor, self.floors.get(where, 0.0))

    def _figure(self, subject: str, key: _Key) -> CellFigure:
        found = [(part, part.rows(subject).get(key)) for part in self._parts]
        rows = [(part.side.run.id, row) for part, row in found if row is not None]
        return rows[0][1] if len(self._parts) == 1 else merge_runs(rows)

    def workload(self, subject: str, key: _Key) -> Workload | None:
        """Return what the first run with the cell did."""
        return next(iter(self._done(subject, key)), None)

    def differs(self, subject: str, key: _Key) -> bool:
        """Return whether the runs of the system did different work under one name."""
        done = self._done(subject, key)
        return any(workload_differences(done[0], other) for other in done[1:])

    def _done(self, subject: str, key: _Key) -> list[Workload]:
        found = (part.workload(subject, key) for part in self._parts)
        return [workload for workload in found if workload is not None]

    def planned(self, key: _Key) -> Workload | None:
        """Return a workload with this name and level of any target."""
        return next(filter(None, (part.planned(key) for part in self._parts)), None)

    def sample(self, subject: str, key: _Key, metric: Metric) -> Sample:
        figure = self.figures[subject].get(key)
        if figure is None:
            return Sample(value=None)
        samples = [part.sample(subject, key, metric) for part in self._parts]
        if len(samples) == 1:
            return samples[0]
        return merge_samples(figure.metric(metric).value, samples)


class _Part:
    """One run of a system."""

    def __init__(self, side: Side) -> None:
        self.side = side
        names = {name: subject for subject, name in side.targets.items()}
        self._rows: dict[str, dict[_Key, CellFigure]] = {subject: {} for subject in side.targets}
        for figure in side.figures:
            subject = names.get(figure.target)
            if subject is not None:
                self._rows[subject][figure.workload, figure.level, figure.op] = figure
        self._workloads = {
            (cell.target, cell.workload.name, cell.level): cell.workload
            for cell in side.run.plan.cells
        }
        self._samples = Samples(side.run)

    def rows(self, subject: str) -> Mapping[_Key, CellFigure]:
        return self._rows.get(subject, {})

    def workload(self, subject: str, key: _Key) -> Workload | None:
        figure = self.rows(subject).get(key)
        if figure is None:
            return None
        return self._workloads.get((figure.target, figure.planned_workload, figure.level))

    def planned(self, key: _Key) -> Workload | None:
        planned = self._workloads.items()
        return next((workload for where, workload in planned if where[1:] == key[:2]), None)

    def sample(self, subject: str, key: _Key, metric: Metric) -> Sample:
        figure = self.rows(subject).get(key)
        if figure is None:
            return Sample(value=None, run=self.side.run.id)
        return self._samples.sample(figure.metric(metric), figure.op)


def _rows(
    subject: str,
    key: _Key,
    systems: tuple[_System, _System],
    metrics: Sequence[Metric],
    primary: Sequence[Selector],
) -> Iterator[PairedCell]:
    """Yield a cell without its judgement, and the samples to judge: for each metric that either
    system reports, else once for the usual rate."""
    workload, level, op = key
    baseline, candidate = (system.figures[subject].get(key) for system in systems)
    first, second = (system.workload(subject, key) for system in systems)
    known = first or second or systems[0].planned(key) or systems[1].planned(key)
    rate = usual_rate(known)
    there = [figure for figure in (baseline, candidate) if figure is not None]
    differs = []
    if first is not None and second is not None and workload_differences(first, second):
        differs.append("workload-differs")
    if any(system.differs(subject, key) for system in systems):
        differs.append(Reason.RUNS_DIFFER.value)

    def is_reported(metric: Metric) -> bool:
        return any(figure.metric(metric).value is not None for figure in there)

    reported = [metric for metric in metrics if is_reported(metric)]
    measured = [metric for metric in metrics if not metric.is_cost]
    if not any(metric in reported for metric in measured):
        reported.insert(0, rate if rate in measured else next(iter(measured), rate))
    for metric in reported:
        where = (*key, metric)
        cell = partial(
            ComparedCell,
            target=subject,
            workload=workload,
            level=level,
            op=op,
            metric=metric,
            baseline_cell=baseline,
            candidate_cell=candidate,
            depth=depth(known, op),
            jobs=jobs(known, op),
            streaming=rate is Metric.BANDWIDTH,
            rate_metric=reported_rate(rate, is_reported),
        )
        yield (
            cell,
            Pair(
                metric=metric,
                baseline=systems[0].sample(subject, key, metric),
                candidate=systems[1].sample(subject, key, metric),
                noise=max(system.floors.get(where, 0.0) for system in systems),
                differs=tuple(differs),
                primary=any(selector.matches(*where) for selector in primary),
            ),
        )
