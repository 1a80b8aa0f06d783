"""Studies of simulated runs: load curves whose every number is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.analysis.scaling.study import ScalingStudy, study
from leadline.archive.raw import derive
from leadline.findings import Finding
from leadline.plan.models import Density, parse_latency_limit
from leadline.stats.usl import Usl
from tests.unit.analysis.scaling.levels import Did, Level, Simulated, simulate
from tests.unit.analysis.scaling.systems import known

LAW = Usl(rate=1000.0, contention=0.05, coherence=0.02)
LOADS = (1, 2, 3, 4, 6, 8, 12)


def saturating(
    *, scale: float = 1.0, loads: Sequence[int] = LOADS, scatter: float = 0.01, **more: Any
) -> list[Level]:
    """Closed-loop levels of clients at depth 32 on the law, three trials each; p99 is three times
    the latency of almost all I/Os."""
    levels = []
    for load in loads:
        rate = scale * LAW.at(load)
        trials = [
            [
                Did(one / load, load * 32 / one, load * 96 / one, client=f"c{number}")
                for number in range(load)
            ]
            for one in (rate * (1 - scatter), rate, rate * (1 + scatter))
        ]
        levels.append(Level(trials=trials, iodepth=32, clients=load, **more))
    return levels


def offered(rate: float, latency_s: float, **more: Any) -> Level:
    """An open-loop level of four clients that reached its rate."""
    trial = [Did(rate / 4, latency_s, 3 * latency_s, client=f"c{one}") for one in range(4)]
    asked: dict[str, Any] = {"iodepth": 64, "clients": 4, "rate_iops": rate / 4}
    return Level(**({"trials": [trial] * 3} | asked | more))


def neighbours(count: int, rate: float) -> Level:
    trial = [Did(rate, 32 / rate, 96 / rate, client="c0")]
    return Level(trials=[trial] * 3, iodepth=32, clients=1, neighbours=count)


def volumes(clients: int, p99_s: float) -> Level:
    """A step of a search for density: 500 IOPS each, the last client a tenth slower."""
    trial = [
        Did(500.0 if one < clients - 1 else 450.0, 0.001, p99_s, client=f"v{one}")
        for one in range(clients)
    ]
    return Level(
        trials=[trial] * 3, iodepth=8, clients=clients, rate_iops=500.0, workload="volumes"
    )


def search(limit: str = "p99<5ms") -> Density:
    workload = volumes(1, 0.001).cell.workload
    return Density(target="pool", workload=workload, limit=parse_latency_limit(limit), most=64)


def run_of(
    *levels: Level, name: str = "run", hosts: int = 3, findings: Sequence[Finding] = (),
    follow_ups: Sequence[Any] = (),
) -> Simulated:  # fmt: skip
    made = simulate(*levels, findings=findings, follow_ups=follow_ups)
    targets = {one.target: {"hosts": str(hosts)} for one in levels}
    run = known(made, name=name, labels=targets)
    for trial in run.trials:
        trial.derived = None if trial.output is None else derive(trial.output)
        trial.resources = trial.prometheus = trial.kubelets = trial.ceph_counters = ()
        trial.kubelet, trial.runners = (), ()
        trial.record.label = f"{trial.record.trial}-1"
        trial.record.processor = None
    return made


def study_of(
    *made: Simulated, limit: str | None = None, findings: Sequence[Finding] = ()
) -> ScalingStudy:
    return study(
        [one.run for one in made],
        lambda run: next((one.figures, tuple(findings)) for one in made if one.run is run),
        limit=parse_latency_limit(limit) if limit else None,
    )
