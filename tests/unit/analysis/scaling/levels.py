"""Runs in memory over load levels: what each trial of each level did, without an archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from leadline.analysis.figures import CellFigure, figures
from leadline.analysis.samples import Samples
from leadline.analysis.scaling.curves import LoadCurve, load_curves
from leadline.archive.raw import derived_operations
from leadline.archive.records import Problem, Redactions, TrialStatus
from leadline.findings import Finding, Severity
from leadline.formats.result import EngineOutput, JobOptions, JobResult, Latency, Operation
from leadline.metrics import Measurement, Op
from leadline.plan.models import Cell, Plan, Target, Trial
from leadline.plan.workload import Pattern, Phase, Recorded, Workload
from leadline.stats.histogram import LatencyHistogram

OVERLOADED = Problem(code="rate-not-reached", fact="the queue grew without bound")
IOS = 10_000


@dataclass(frozen=True)
class Did:
    """What one client did in one operation: IOPS, and the latency in seconds of almost all of its
    I/Os and of the two slowest of a hundred."""

    iops: float
    latency_s: float = 0.001
    tail_s: float | None = None
    op: Op = Op.READ
    client: str = ""
    runtime_s: float = 10.0
    job: str = "p"


def operation(did: Did) -> Operation:
    tail_s = did.latency_s if did.tail_s is None else did.tail_s
    bins = {round(did.latency_s * 1e9): IOS * 98 // 100}
    bins[round(tail_s * 1e9)] = bins.get(round(tail_s * 1e9), 0) + IOS * 2 // 100
    histogram = LatencyHistogram.from_bins(bins)
    return Operation(
        op=did.op,
        iops=did.iops,
        bandwidth_bps=did.iops * 4096,
        total_ios=IOS,
        runtime_s=did.runtime_s,
        total=Latency(mean_s=histogram.mean_s(), count=IOS, histogram=histogram),
    )


def output(*done: Did) -> EngineOutput:
    """One entry of a job for each client, which holds all its operations."""
    clients = dict.fromkeys((one.client, one.job) for one in done)
    return EngineOutput(
        version="fio-3.40",
        jobs=tuple(
            JobResult(
                name=job,
                host=client,
                options=JobOptions(raw={}),
                operations=tuple(
                    operation(one) for one in done if (one.client, one.job) == (client, job)
                ),
            )
            for client, job in clients
        ),
    )


@dataclass(frozen=True)
class Level:
    """A cell; a trial is what its clients did, or the problem that it ended with."""

    trials: Sequence[Sequence[Did] | Problem]
    iodepth: int = 1
    numjobs: int = 1
    clients: int = 0
    neighbours: int = 0
    rate_iops: float | None = None
    pattern: Pattern = Pattern.RANDREAD
    read_share: int | None = None
    workload: str = "randread"
    target: str = "pool"
    label: str = ""
    recorded: Mapping[str, str] | None = None
    tool: str = "fio"

    @property
    def level(self) -> str:
        parts = [f"c{self.clients}" if self.clients else "", f"qd{self.iodepth}x{self.numjobs}"]
        parts += [f"rate{self.rate_iops:g}" if self.rate_iops else ""]
        parts += [f"n{self.neighbours}" if self.neighbours else ""]
        return self.label or "-".join(one for one in parts if one)

    @property
    def cell(self) -> Cell:
        if self.recorded is not None:
            workload = Workload(
                name=self.workload,
                recorded=Recorded(tool=self.tool, options=dict(self.recorded)),
                runtime_s=10.0,
            )
            return Cell(target=self.target, workload=workload, level=self.level)
        phase = Phase(
            name="p",
            pattern=self.pattern,
            block_size=4096,
            iodepth=self.iodepth,
            numjobs=self.numjobs,
            size=1 << 30,
            read_share=self.read_share,
            rate_iops=self.rate_iops,
        )
        workload = Workload(
            name=self.workload,
            phases=(phase,),
            clients=self.clients,
            neighbours=self.neighbours,
            neighbour=phase if self.neighbours else None,
            runtime_s=10.0,
        )
        return Cell(target=self.target, workload=workload, level=self.level)


def closed(load: int, *iops: float, latency_s: float | None = None, **more: Any) -> Level:
    """A closed-loop level whose latency follows from its rate, one value a trial."""
    return Level(
        trials=[[Did(one, load / one if latency_s is None else latency_s)] for one in iops],
        **({"iodepth": load} | more),
    )


@dataclass(frozen=True)
class Simulated:
    run: Any
    figures: tuple[CellFigure, ...]
    curves: tuple[LoadCurve, ...] = field(default=())

    @property
    def samples(self) -> Samples:
        return Samples(self.run)

    @property
    def curve(self) -> LoadCurve:
        (found,) = self.curves
        return found


def refusal(level: str, *, latency_only: bool = False, code: str = "cache-served-reads") -> Finding:
    return Finding(
        code=code,
        severity=Severity.ERROR,
        target="pool",
        workload="randread",
        level=level,
        message="m",
        remedy="r",
        latency_only=latency_only,
    )


def simulate(
    *levels: Level, findings: Sequence[Finding] = (), follow_ups: Sequence[Any] = ()
) -> Simulated:
    cells = [level.cell for level in levels]
    planned: list[Trial] = []
    stored: list[Any] = []
    repeats = max(len(level.trials) for level in levels)
    for block in range(repeats):
        for number, level in enumerate(levels):
            if block >= len(level.trials):
                continue
            name = f"t{len(planned) + 1:04d}"
            planned.append(Trial(id=name, position=len(planned), block=block, cell=number, seed=1))
            stored.append(_stored(name, level.cell, level.trials[block]))
    plan = Plan(
        targets=tuple(
            Target(name=name, url="") for name in dict.fromkeys(one.target for one in cells)
        ),
        cells=tuple(cells),
        trials=tuple(planned),
        follow_ups=tuple(follow_ups),
        repeats=repeats,
        seed=1,
    )
    run = SimpleNamespace(
        stacks={},
        redactions=Redactions(),
        id="run",
        plan=plan,
        trials=tuple(stored),
        measurements=lambda: _measurements(plan, stored),
    )
    made = figures(run, findings)  # type: ignore[arg-type]
    return Simulated(run, made, load_curves(run, made))  # type: ignore[arg-type]


def _stored(name: str, cell: Cell, done: Sequence[Did] | Problem) -> Any:
    failed = isinstance(done, Problem)
    return SimpleNamespace(
        record=SimpleNamespace(
            trial=name,
            target=cell.target,
            workload=cell.workload.name,
            level=cell.level,
            status=TrialStatus.FAILED if failed else TrialStatus.COMPLETED,
            problem=done if failed else None,
        ),
        output=None if failed else output(*done),
        iops_windows={},
        imported=True,  # no watch
    )


def _measurements(plan: Plan, stored: Sequence[Any]) -> Iterator[Measurement]:
    blocks = {trial.id: trial.block for trial in plan.trials}
    for one in stored:
        if one.record.status is not TrialStatus.COMPLETED:
            continue
        for _, done in derived_operations(one.output):
            for metric, value in done.metrics().items():
                yield Measurement(
                    trial=one.record.trial,
                    target=one.record.target,
                    workload=one.record.workload,
                    level=one.record.level,
                    block=blocks[one.record.trial],
                    op=done.op,
                    metric=metric,
                    value=value,
                    histogram=done.histogram if metric.value == "latency_mean" else None,
                )


def noisy(value: float, generator: np.random.Generator, share: float, trials: int) -> list[float]:
    return [float(one) for one in value * np.exp(share * generator.normal(size=trials))]
