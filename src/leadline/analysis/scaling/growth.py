"""Systems of different size compared with the first one: added resources and speed-ups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from leadline import errors
from leadline.analysis.comparison import By, Judged, Side, places, two_runs, within_run
from leadline.analysis.explain.conditions import Conditions, conditions
from leadline.analysis.noise import noise_floors
from leadline.analysis.samples import Samples
from leadline.analysis.scaling.curves import LoadPoint
from leadline.analysis.scaling.knee import Shape
from leadline.analysis.scaling.speedup import (
    OneSystem,
    Speedup,
    SystemFacts,
    partners,
    resources,
    speedup,
    stated_resource,
)
from leadline.analysis.scaling.superlinear import Superlinear, superlinear
from leadline.analysis.verdicts import BETWEEN_RUNS
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.metrics import Metric
from leadline.plan.lab import LabDescription
from leadline.plan.labels import is_number
from leadline.plan.models import LatencyLimit

THROTTLED = "throttled-system"
SATURATED = "client-saturated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabBounds:
    """The limits of a comparison of two labs on one machine of `cores` cores (None: unknown). Of
    `levels` of equal load on both labs, `throttled` have latencies caused by a processor budget,
    and at `saturated` the machine's own processors were used up."""

    baseline: LabDescription
    candidate: LabDescription
    cores: int | None
    levels: int
    throttled: int
    saturated: int


def lab_bounds(
    baseline: SystemFacts, candidate: SystemFacts, speedups: Sequence[Speedup]
) -> LabBounds | None:
    """Return the limits of a comparison of two labs of different size; None where a system is no
    lab, or its lab is not described."""
    if baseline.lab is None or candidate.lab is None or not any(one.divisor for one in speedups):
        return None
    points = [
        point
        for one in speedups
        if not one.baseline.part_of_mix
        for level in one.levels
        for point in (level.baseline, level.candidate)
    ]
    return LabBounds(
        baseline=baseline.lab,
        candidate=candidate.lab,
        cores=baseline.host.cores if baseline.host else None,
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


# Shapes of curves by archive and target.
Shapes = Mapping[tuple[Path, str], Sequence[Shape]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRow:
    """One curve on both systems; `superlinear` where it grew by more than the resources."""

    speedup: Speedup
    superlinear: Superlinear | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A system compared with the baseline; `conditions` are their configuration differences, `labs`
    is set where one machine runs both."""

    by: By
    baseline: Side
    candidate: Side
    rows: tuple[GrowthRow, ...]
    conditions: Conditions
    labs: LabBounds | None


def growths(
    runs: Sequence[Run],
    judged: Judged,
    shapes: Shapes,
    *,
    limit: LatencyLimit | None,
    by: str | None,
    added: float | None,
    band: float,
    between_runs: float = BETWEEN_RUNS,
) -> tuple[Growth, ...]:
    """Compare every system with the first. Systems are the runs where several are given, else the
    values of the label `by`, else the clusters of the run, else the values of the only label that
    differs in numbers. `added` is the user's ratio of hardware of two systems."""
    found = []
    systems = list(_systems(runs, judged, by))
    if added is not None and len(systems) != 1:
        raise LeadlineError(
            errors.USAGE,
            f"--added needs two systems, and there are {len(systems) + 1}",
            hint="give two runs, or omit --added",
        )
    stated = () if added is None else (stated_resource(added),)
    for kind, baseline, candidate in systems:
        subjects = [target for target in baseline.targets if target in candidate.targets]
        differing = conditions(baseline, candidate, subjects, ())
        sides = SystemFacts.read(baseline), SystemFacts.read(candidate)
        speedups: list[Speedup] = []
        for subject in subjects:
            known = (*stated, *resources(*sides, subject))
            curves = (_curves(side, subject, shapes) for side in (baseline, candidate))
            speedups += [
                speedup(
                    subject,
                    first,
                    second,
                    known,
                    limit=limit,
                    band=band,
                    between_runs=between_runs,
                )
                for first, second in product(*curves)
                if partners(first.curve, second.curve)
            ]
        found.append(
            Growth(
                by=kind,
                baseline=baseline,
                candidate=candidate,
                rows=tuple(
                    GrowthRow(speedup=one, superlinear=superlinear(one, *sides, differing))
                    for one in speedups
                ),
                conditions=differing,
                labs=lab_bounds(*sides, speedups),
            )
        )
    return tuple(found)


def _curves(side: Side, subject: str, shapes: Shapes) -> list[OneSystem]:
    samples, floors = Samples(side.run), noise_floors(side)
    return [
        OneSystem(run=side.run, shape=shape, samples=samples, floors=floors)
        for shape in shapes.get((side.run.path, side.targets[subject]), ())
    ]


def _systems(
    runs: Sequence[Run], judged: Judged, by: str | None
) -> Iterator[tuple[By, Side, Side]]:
    first, *others = runs
    if others and by is not None:
        raise LeadlineError(
            errors.USAGE,
            "--by selects targets of one run by a label, and several runs are given",
            hint="omit --by, or give one run",
        )
    for run in others:
        yield By.RUN, *two_runs(first, run, judged)
    if others:
        return
    if by is not None:
        yield from _by_label(first, by, judged)
    elif len(places(first)) > 1:
        start, *rest = places(first)
        for place in rest:
            yield By.CLUSTER, *within_run(first, By.CLUSTER, start, place, judged)
    elif label := _numbered_label(first):
        # The label was not requested: targets without a partner are no error.
        with suppress(LeadlineError):
            yield from list(_by_label(first, label, judged))


def _by_label(run: Run, label: str, judged: Judged) -> Iterator[tuple[By, Side, Side]]:
    values = _values(run, label)
    if len(values) < 2:
        raise LeadlineError(
            errors.USAGE,
            f"run {run.id} has no two targets that differ in the label {label}",
            context=[f"labels: {', '.join(_labels(run)) or 'none'}"],
            hint="give each target of the plan a label: `labels: {cores: 1}`",
        )
    for value in values[1:]:
        names = f"{label}={values[0]}", f"{label}={value}"
        # Other differences between the systems are shown next to the added resources.
        yield By.LABEL, *within_run(run, By.LABEL, *names, judged, others_fixed=False)


def _labels(run: Run) -> list[str]:
    return list(dict.fromkeys(key for target in run.plan.targets for key in target.labels))


def _values(run: Run, label: str) -> list[str]:
    """Return the values of a label: sorted where all are numbers, else in the plan's order."""
    targets = [target for target in run.plan.targets if label in target.labels]
    found = list(dict.fromkeys(target.labels[label] for target in targets))
    return sorted(found, key=float) if all(map(is_number, found)) else found


def _numbered_label(run: Run) -> str | None:
    """Return the only label with different values if all are numbers; else None."""
    values = {label: _values(run, label) for label in _labels(run)}
    differing = [label for label, found in values.items() if len(found) > 1]
    if len(differing) == 1 and all(map(is_number, values[differing[0]])):
        return differing[0]
    return None
