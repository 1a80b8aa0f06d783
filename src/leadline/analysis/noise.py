"""The noise floor: one target measured twice in a run under two names (A/A test)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from leadline.analysis.comparison import Side
from leadline.analysis.figures import CellFigure
from leadline.analysis.objectives import Objective
from leadline.analysis.ranking import NoiseFloor
from leadline.analysis.samples import Samples
from leadline.analysis.verdicts import Evidence, Pair, judge
from leadline.archive.reader import Run
from leadline.findings import Finding
from leadline.metrics import Metric, Op
from leadline.plan.models import Target
from leadline.stats.outlook import noise_floor

Where = tuple[str, str, Op | None, Metric]
NoiseFloors = Mapping[Where, float]


def noise_floors(side: Side) -> NoiseFloors:
    """Compute the largest share by which a target differs from itself, by workload, level,
    operation and metric. An A/A pair counts for the whole run; empty without one."""
    doubles = _doubles(side.run.plan.targets)
    if not doubles:
        return {}
    cells: dict[tuple[str, str, str, Op | None], CellFigure] = {
        (one.target, one.workload, one.level, one.op): one for one in side.figures
    }
    samples = Samples(side.run)
    where: list[Where] = []
    pairs: list[Pair] = []
    for first, second in doubles:
        for (target, workload, level, op), figure in cells.items():
            twin = cells.get((second, workload, level, op)) if target == first else None
            if twin is None:
                continue
            for metric in Metric:
                where.append((workload, level, op, metric))
                pairs.append(
                    Pair(
                        metric=metric,
                        baseline=samples.sample(figure.metric(metric), op),
                        candidate=samples.sample(twin.metric(metric), op),
                    )
                )
    found: dict[Where, float] = {}
    for place, judged in zip(where, judge(pairs), strict=True):
        if judged.estimate is not None and judged.evidence is Evidence.TRIALS:
            floor = noise_floor(judged.estimate)
        elif judged.ratio is not None:
            floor = math.expm1(abs(math.log(judged.ratio)))
        else:
            continue
        found[place] = max(found.get(place, 0.0), floor)
    return found


def floor_of_objectives(
    run: Run, figures: tuple[CellFigure, ...], findings: tuple[Finding, ...]
) -> NoiseFloor:
    """Return the noise floor of each objective of a ranking; 0 if not measured."""
    names = {target.name: target.name for target in run.plan.targets}
    floors = noise_floors(
        Side(name=run.id, run=run, targets=names, figures=figures, findings=findings)
    )

    def floor(objective: Objective) -> float:
        return floors.get((*objective.key, objective.metric), 0.0)

    return floor


def _doubles(targets: tuple[Target, ...]) -> list[tuple[str, str]]:
    """Return pairs of names of the same target."""
    by_place: dict[tuple[str, str, str], list[str]] = {}
    for target in targets:
        # Targets with different labels are different.
        labels = ",".join(f"{key}={value}" for key, value in sorted(target.labels.items()))
        if target.url:
            key = (target.url, target.place or target.cluster, labels)
            by_place.setdefault(key, []).append(target.name)
    return [(names[0], other) for names in by_place.values() for other in names[1:]]
