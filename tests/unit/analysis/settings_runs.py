"""Runs of plans with settings, whose every trial is given by a function."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from leadline.analysis.figures import METRICS, CellFigure, FindingMark, MetricFigure, TrialValue
from leadline.analysis.settings.facts import SettingsStudy
from leadline.analysis.settings.study import study_settings
from leadline.archive.records import Problem, TrialStatus
from leadline.findings import Severity
from leadline.metrics import Metric, Op
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan, Target, Trial

SETTINGS: dict[str, Any] = {
    "mclock": {
        "ceph_config": {
            "who": "osd",
            "name": "osd_mclock_profile",
            "values": ["balanced", "high_client_ops"],
        }
    },
    "memory": {"ceph_config": {"who": "osd", "name": "osd_memory_target", "values": ["2G", "8G"]}},
}
# The factor of a metric of a target in a cell.
Effect = Callable[[Target, str, Metric], float]
_LEVELS = {
    Metric.IOPS: 10_000.0,
    Metric.LATENCY_P99: 0.004,
    Metric.STORAGE_CPU: 120e-6,
    Metric.STORAGE_MEMORY: 12e9,
}


def no_effect(target: Target, workload: str, metric: Metric) -> float:
    return 1.0


def plan_of(
    folder: Path,
    *,
    settings: dict[str, Any] | None = None,
    design: str = "one-at-a-time",
    pools: Iterable[str] = ("rep3",),
    workloads: int = 4,
    repeats: int = 5,
) -> Plan:
    """A plan of random reads of 4 KiB and more on pools."""
    path = folder / "plan.yaml"
    phase = {"pattern": "randread", "iodepth": 16, "size": "1G"}
    document = {
        "seed": 1,
        "repeats": repeats,
        "clusters": {"c": {"ceph_conf": "/etc/ceph/ceph.conf"}},
        "targets": [{"name": pool, "target": f"rbd:{pool}"} for pool in pools],
        "settings": SETTINGS if settings is None else settings,
        "design": design,
        "workloads": [
            {"name": f"read-{4 << number}k", "block_size": f"{4 << number}k", "runtime": "10s",
             "phases": [phase]}
            for number in range(workloads)
        ],
    }  # fmt: skip
    path.write_text(json.dumps(document))
    return load_plan(path, Overrides())


def study_of(
    plan: Plan,
    effect: Effect = no_effect,
    *,
    seed: int = 1,
    noise: float = 0.03,
    drift: float = 0.2,
    shared: float = 0.0,
    costs: bool = True,
    refused: Iterable[str] = (),
    failed: Iterable[str] = (),
    problem: Problem | None = None,
) -> SettingsStudy:
    """The study of a made-up run: each trial has its own `noise`, what its block shares (`drift`),
    and what the cells of its state share in the block (`shared`), as shares. Targets that are
    `refused` have an error finding, those that `failed` no completed trial."""
    generator = np.random.default_rng(seed)
    blocks = {metric: generator.normal(size=plan.repeats) * drift for metric in _LEVELS}
    together = {
        (target.name, block): shared * generator.normal()
        for target in plan.targets
        for block in range(plan.repeats)
    }
    failed, refused = set(failed), set(refused)
    mark = FindingMark(code="cache-served-reads", severity=Severity.ERROR)
    figures = []
    for number, cell in enumerate(plan.cells):
        trials = [trial for trial in plan.trials if trial.cell == number]
        done = [] if cell.target in failed else trials
        marks = (mark,) if cell.target in refused else ()
        values = {
            metric: [
                level
                * effect(plan.target(cell.target), cell.workload.name, metric)
                * math.exp(
                    blocks[metric][trial.block]
                    + together[cell.target, trial.block]
                    + noise * generator.normal()
                )
                for trial in done
            ]
            for metric, level in _LEVELS.items()
            if costs or not metric.is_cost
        }
        figures.append(
            CellFigure(
                target=cell.target,
                workload=cell.workload.name,
                planned_workload=cell.workload.name,
                level=cell.level,
                op=Op.READ,
                completed=len(done),
                planned=len(trials),
                metrics=tuple(
                    _figure(metric, done, values.get(metric, []), marks) for metric in METRICS
                ),
                costs=tuple(
                    _figure(metric, done, found, marks)
                    for metric, found in values.items()
                    if metric.is_cost and found
                ),
            )
        )
    run: Any = SimpleNamespace(
        id="perf-20261126-230000",
        plan=plan,
        trials=[_failure(plan, trial.cell, problem) for trial in plan.trials
                if plan.cells[trial.cell].target in failed],
        redactions=SimpleNamespace(redactions=(), scrubs=()),
    )  # fmt: skip
    return study_settings(run, tuple(figures), ())


def some_study(folder: Path) -> SettingsStudy:
    """A study with a gain for its price, one that costs too much, a loss and a refusal, of two
    pools."""
    settings = {
        **SETTINGS,
        "compression": {"pool": {"name": "compression_mode", "values": ["aggressive"]}},
    }
    effects = {
        "high_client_ops": {Metric.IOPS: 1.25, Metric.STORAGE_CPU: 1.04, Metric.LATENCY_P99: 0.9},
        "8G": {Metric.IOPS: 1.12, Metric.STORAGE_MEMORY: 1.9},
        "2G": {Metric.IOPS: 0.85, Metric.STORAGE_MEMORY: 0.5},
    }

    def effect(target: Target, workload: str, metric: Metric) -> float:
        factors = [effects.get(value, {}) for value in target.settings.values()]
        return math.prod(one.get(metric, 1.0) for one in factors)

    return study_of(
        plan_of(folder, settings=settings, pools=("rep3", "rep2")),
        effect,
        failed=["rep2 compression=aggressive"],
        problem=Problem(
            code="setting-not-applied",
            fact="compression_mode of pool rep2 is still none",
            context=("set: aggressive",),
        ),
    )


def _figure(
    metric: Metric, trials: list[Trial], values: list[float], marks: tuple[FindingMark, ...]
) -> MetricFigure:
    return MetricFigure(
        metric=metric,
        value=float(np.median(values)) if values else None,
        trials=tuple(
            TrialValue(trial=trial.id, value=value)
            for trial, value in zip(trials, values, strict=bool(values))
        ),
        finding_marks=marks,
    )


def _failure(plan: Plan, number: int, problem: Problem | None) -> Any:
    cell = plan.cells[number]
    record = SimpleNamespace(
        target=cell.target,
        workload=cell.workload.name,
        level=cell.level,
        status=TrialStatus.FAILED,
        problem=problem,
    )
    return SimpleNamespace(record=record)
