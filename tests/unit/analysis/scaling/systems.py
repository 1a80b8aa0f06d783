"""Simulated runs as systems of different size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.analysis.comparison import Side
from leadline.analysis.scaling.growth import Shapes
from leadline.analysis.scaling.knee import shape_of
from leadline.analysis.scaling.speedup import (
    Kind,
    OneSystem,
    Resource,
    Speedup,
    SystemFacts,
    speedup,
)
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.host import HostInventory
from leadline.plan.models import Cluster, LatencyLimit, Target
from tests.unit.analysis.scaling.levels import Simulated

HOSTS = Resource(
    name="hosts", kind=Kind.CAPACITY, baseline=3, candidate=5, told_by="Ceph's inventory"
)


def known(
    made: Simulated,
    *,
    name: str = "run",
    ceph: CephInventory | None = None,
    host: HostInventory | None = None,
    lab: Any = None,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    url: str = "rbd:rep3",
) -> Any:
    """The simulated run with what is known of its system; all its targets lie on one cluster."""
    run = made.run
    run.id = name
    run.path = Path(f"/runs/{name}")
    run.manifest = type("Manifest", (), {"cluster_label": "", "sessions": (), "files": {}})
    targets = tuple(
        Target(
            name=one.name, url=url, cluster="ceph", labels=dict((labels or {}).get(one.name, {}))
        )
        for one in run.plan.targets
    )
    cluster = Cluster(name="ceph", lab=lab)
    run.plan = run.plan.model_copy(update={"targets": targets, "clusters": (cluster,)})
    run.inventory = lambda moment: host
    run.cluster = lambda moment, cluster: ceph
    run.kubernetes = lambda moment, cluster: None
    run.system_dumps = lambda moment, cluster: {}
    for one in run.trials:
        one.record.round_trips = ()
        one.record.engine, one.record.engine_version = "fio", "fio-3.40"
    return run


def judged(*made: Simulated) -> Any:
    """What judges the runs of these."""
    return lambda run: next((one.figures, ()) for one in made if one.run is run)


def shapes(*made: Simulated) -> Shapes:
    found: dict[tuple[Path, str], list[Any]] = {}
    for one in made:
        for curve in one.curves:
            key = (one.run.path, curve.target)
            found.setdefault(key, []).append(shape_of(curve, one.samples))
    return found


def side(made: Simulated, subject: str = "pool") -> Side:
    targets = {subject: made.run.plan.targets[0].name}
    return Side(name=made.run.id, run=made.run, targets=targets, figures=made.figures, findings=())


def knowledge(made: Simulated) -> SystemFacts:
    return SystemFacts.read(side(made))


def one_system(made: Simulated) -> OneSystem:
    shape = shape_of(made.curve, made.samples)
    return OneSystem(run=made.run, shape=shape, samples=made.samples, floors={})


def against(
    baseline: Simulated,
    candidate: Simulated,
    *resources: Resource,
    limit: LatencyLimit | None = None,
) -> Speedup:
    """The candidate's one curve against the baseline's, with a band of 5 %. Two runs: no
    trials of the two ran at the same time."""
    baseline.run.id, candidate.run.id = "small", "large"
    systems = one_system(baseline), one_system(candidate)
    return speedup("pool", *systems, tuple(resources), limit=limit, band=0.05)
