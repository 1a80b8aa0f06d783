"""Plans that are delivered, and the labs that they ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.plan.lab import LabDescription, Topology
from leadline.plan.loader import Overrides, load_plan

PLANS = Path(__file__).parents[3] / "plans"


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_delivered_plan_has_no_fault(path: Path) -> None:
    # Some take their targets from the command line.
    targets = ("dir:/target",) if path.stem in ("demo-directory", "metadata") else ()
    image = "registry.example/runner" if path.stem == "vm-pool-study" else None
    assert load_plan(path, Overrides(targets=targets, runner_image=image)).trials


def test_the_scale_out_study_differs_in_the_number_of_hosts_and_in_nothing_else() -> None:
    plan = load_plan(PLANS / "scale-out-study.yaml", Overrides())
    labs = {cluster.name: cluster.lab for cluster in plan.clusters}
    three, five = labs["three-hosts"], labs["five-hosts"]
    assert isinstance(three, LabDescription)
    assert isinstance(five, LabDescription)
    assert (three.topology, three.osds, three.cpu_per_host) == (Topology.HOSTS, 3, 0.15)
    assert five == three.model_copy(update={"domains": 5})
    levels = {cell.level for cell in plan.cells}
    assert levels == {"c1-qd32", "c1-qd64", "c2-qd32", "c4-qd32"}
    # All clients' data, on every host of three, with room for what BlueStore keeps besides.
    most = max(
        cell.workload.clients * phase.size for cell in plan.cells for phase in cell.workload.phases
    )
    assert most < 0.7 * three.osd_size_bytes
