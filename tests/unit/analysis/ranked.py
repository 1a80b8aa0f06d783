"""Runs in memory for rankings: targets with the values of their trials, without an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from leadline.analysis.figures import (
    METRICS,
    Absence,
    CellFigure,
    FindingMark,
    MetricFigure,
    TrialValue,
    summarise,
)
from leadline.analysis.objectives import Objective, Question
from leadline.findings import Severity
from leadline.metrics import Metric, Op
from leadline.plan.models import Cell, Plan, Target, Trial
from leadline.plan.workload import Phase, Recorded, Workload

READ, WRITE = Op.READ, Op.WRITE
Trials = Sequence[float | None]
# By target, then by (workload, op, metric), the values of the trials.
Values = Mapping[str, Mapping[tuple[str, Op, Metric], Trials]]


@dataclass(frozen=True)
class Ranked:
    run: Any
    figures: tuple[CellFigure, ...]


def workload(
    name: str, op: Op, *, imported: bool, block: int = 4096, random: bool = True
) -> Workload:
    if imported:
        pattern = ("rand" if random else "") + op.value
        return Workload(
            name=name,
            recorded=Recorded(tool="table", options={"rw": pattern, "bs": str(block)}),
            runtime_s=0.0,
        )
    phase = Phase.model_validate(
        {
            "name": name,
            "pattern": ("rand" if random else "") + op.value,
            "block_size": block,
            "iodepth": 1,
            "numjobs": 1,
            "size": 1 << 20,
        }
    )
    return Workload(name=name, phases=(phase,), runtime_s=10.0)


def make(
    values: Values,
    *,
    imported: bool = False,
    refused: Sequence[tuple[str, str]] = (),
    capped: Sequence[tuple[str, str]] = (),
    blocks: Mapping[str, tuple[int, bool]] | None = None,
) -> Ranked:
    """`refused` are (target, workload) under an `error` finding, `capped` at a limit; `blocks` are
    block size and randomness of a workload, else 4 KiB at random."""
    cells: list[Cell] = []
    trials: list[Trial] = []
    figures: list[CellFigure] = []
    for target, rows in values.items():
        by_row: dict[tuple[str, Op], dict[Metric, Trials]] = {}
        for (name, op, metric), given in rows.items():
            by_row.setdefault((name, op), {})[metric] = given
        for (name, op), metrics in by_row.items():
            block, random = (blocks or {}).get(name, (4096, True))
            cells.append(
                Cell(
                    target=target,
                    workload=workload(name, op, imported=imported, block=block, random=random),
                    level="",
                )
            )
            count = max(len(one) for one in metrics.values())
            ids = [f"{target}-{name}-{op.value}-{number}" for number in range(count)]
            trials += [
                Trial(
                    id=trial, position=len(trials) + number, block=number + 1,
                    cell=len(cells) - 1, seed=0,
                )
                for number, trial in enumerate(ids)
            ]  # fmt: skip
            mark = FindingMark(code="empty-result", severity=Severity.ERROR)
            finding_marks = (mark,) if (target, name) in refused else ()
            if (target, name) in capped:
                finding_marks = (FindingMark(code="capped-by-limit", severity=Severity.WARNING),)
            figures.append(
                CellFigure(
                    target=target,
                    workload=name,
                    planned_workload=name,
                    level="",
                    op=op,
                    completed=count,
                    planned=count,
                    metrics=tuple(
                        _metric(metric, metrics.get(metric, ()), ids, finding_marks)
                        for metric in METRICS
                    ),
                )
            )
    plan = Plan(
        targets=tuple(Target(name=name, url="") for name in values),
        cells=tuple(cells),
        trials=tuple(trials),
        repeats=1,
        seed=0,
    )
    return Ranked(SimpleNamespace(id="run", plan=plan, trials=()), tuple(figures))


def _metric(
    metric: Metric, given: Trials, ids: Sequence[str], finding_marks: tuple[FindingMark, ...]
) -> MetricFigure:
    shown = [TrialValue(trial=trial, value=value) for trial, value in zip(ids, given, strict=False)]
    if metric.quantile is None:
        return summarise(metric, shown, None, finding_marks=finding_marks)
    known = sorted(one for one in given if one is not None)
    return MetricFigure(
        metric=metric,
        value=known[len(known) // 2] if known else None,
        trials=tuple(shown),
        finding_marks=finding_marks,
        absence=None if known else Absence.NOT_MEASURED,
    )


def question(*objectives: tuple[str, Op, Metric, float]) -> Question:
    return Question(
        name="test",
        objectives=tuple(
            Objective(workload=name, level="", op=op, metric=metric, weight=weight)
            for name, op, metric, weight in objectives
        ),
    )


def iops(**targets: Trials) -> Values:
    """One workload, read IOPS."""
    return {name: {("w", READ, Metric.IOPS): given} for name, given in targets.items()}


READS = question(("w", READ, Metric.IOPS, 1.0))
