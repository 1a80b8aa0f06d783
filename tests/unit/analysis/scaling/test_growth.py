"""Which systems are compared, and their added resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from archive_builder import host, small_plan

from leadline.analysis.comparison import By
from leadline.analysis.scaling.growth import Growth, growths
from leadline.analysis.scaling.speedup import Kind, resources
from leadline.errors import LeadlineError
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.plan.lab import LabDescription, Topology
from tests.unit.analysis.scaling.levels import Simulated, closed, simulate
from tests.unit.analysis.scaling.systems import judged, knowledge, known, shapes
from tests.unit.inventory.conftest import dumps_of


def amounts(small: Simulated, large: Simulated) -> dict[str, tuple[float, float]]:
    found = resources(knowledge(small), knowledge(large), "pool")
    return {one.name: (one.baseline, one.candidate) for one in found}


def pair(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[Simulated, Simulated]:
    small, large = simulate(closed(8, 100.0)), simulate(closed(8, 200.0))
    known(small, name="small", **ours)
    known(large, name="large", **theirs)
    return small, large


# --- what was added -----------------------------------------------------------------------------


def test_hosts_osds_and_copies_are_those_of_the_inventories() -> None:
    three, six = (cluster_inventory(dumps_of(f"ceph-{one}-az")) for one in ("single", "multi"))
    url = "rbd:rbd_r2"
    small, large = pair({"ceph": three, "url": url}, {"ceph": six, "url": "rbd:rbd_r3"})
    assert amounts(small, large) == {"hosts": (3, 6), "OSDs": (3, 6), "copies": (2, 3)}
    kinds = {one.name: one.kind for one in resources(knowledge(small), knowledge(large), "pool")}
    assert kinds == {
        "hosts": Kind.CAPACITY,
        "OSDs": Kind.CAPACITY,
        "copies": Kind.COPIES,
    }


def test_an_osd_that_is_down_is_none() -> None:
    six = cluster_inventory(dumps_of("ceph-multi-az"))
    down = six.osds[0].model_copy(update={"up": False})
    fewer = six.model_copy(update={"osds": (down, *six.osds[1:])})
    assert amounts(*pair({"ceph": fewer}, {"ceph": six}))["OSDs"] == (5, 6)


def test_what_one_side_alone_shows_is_not_compared() -> None:
    six = cluster_inventory(dumps_of("ceph-multi-az"))
    assert amounts(*pair({}, {"ceph": six})) == {}


def test_cores_of_a_lab_are_its_budgets_and_never_more_than_the_machine_has() -> None:
    machine = host(small_plan())  # two cores

    def lab(hosts: int, cpu: float | None) -> dict[str, object]:
        described = LabDescription(topology=Topology.HOSTS, domains=hosts, cpu_per_host=cpu)
        return {"lab": described, "host": machine}

    budget = amounts(*pair(lab(3, 0.15), lab(5, 0.15)))["cores for OSDs"]
    assert budget == pytest.approx((0.45, 0.75))
    assert amounts(*pair(lab(3, 0.5), lab(5, 0.5)))["cores for OSDs"] == (1.5, 2)
    # Without a budget all hosts share what there is: nothing was added.
    assert amounts(*pair(lab(3, None), lab(5, None)))["cores for OSDs"] == (2, 2)


def test_labels_show_hardware_where_they_name_it() -> None:
    def labelled(**labels: str) -> dict[str, object]:
        return {"labels": {"pool": labels}}

    small, large = pair(
        labelled(cores="1", replicas="1", rtt="1", nodes="some"),
        labelled(cores="2", replicas="3", rtt="2", nodes="more"),
    )
    assert amounts(small, large) == {"cores": (1, 2), "replicas": (1, 3)}
    assert [one.kind for one in resources(knowledge(small), knowledge(large), "pool")] == [
        Kind.CAPACITY,
        Kind.COPIES,
    ]


# --- which systems ------------------------------------------------------------------------------


def grown(*made: Simulated, by: str | None = None) -> tuple[Growth, ...]:
    runs = [one.run for one in made]
    return growths(runs, judged(*made), shapes(*made), limit=None, by=by, added=None, band=0.05)


def ratios(growth: Growth) -> list[float | None]:
    return [one.judgement.ratio for row in growth.rows for one in row.speedup.levels]


def test_every_run_stands_next_to_the_first() -> None:
    made = [simulate(closed(8, 100.0 * factor)) for factor in (1, 2, 3)]
    for number, one in enumerate(made):
        known(one, name=f"run-{number}")
    found = grown(*made)
    assert [one.candidate.name for one in found] == ["run-1", "run-2"]
    assert [ratios(one) for one in found] == [[2.0], [3.0]]
    assert {one.by for one in found} == {By.RUN}


def test_targets_of_one_run_by_a_label_from_the_smallest_number_on() -> None:
    levels = [closed(8, 100.0 * cores, 101.0 * cores, target=f"t{cores}") for cores in (10, 2, 4)]
    made = simulate(*levels)
    known(made, labels={f"t{cores}": {"cores": str(cores)} for cores in (10, 2, 4)})
    found = grown(made, by="cores")
    assert [one.baseline.name for one in found] == ["cores=2", "cores=2"]
    assert [one.candidate.name for one in found] == ["cores=4", "cores=10"]
    assert [ratios(one) for one in found] == [[pytest.approx(2.0)], [pytest.approx(5.0)]]
    row = found[0].rows[0]
    assert row.speedup.divisor is not None
    assert (row.speedup.divisor.name, row.speedup.divisor.ratio) == ("cores", 2.0)
    assert [one.by for one in grown(made)] == [By.LABEL, By.LABEL], "the one label with numbers"


def test_a_run_of_one_system_grows_by_nothing() -> None:
    made = simulate(closed(8, 100.0, target="a"), closed(8, 100.0, target="b"))
    known(made, labels={"a": {"media": "disk"}, "b": {"media": "flash"}})
    assert grown(made) == ()
    assert [one.candidate.name for one in grown(made, by="media")] == ["media=flash"]


def test_clusters_of_one_run() -> None:
    made = simulate(closed(8, 100.0, target="p@three"), closed(8, 150.0, target="p@five"))
    run = known(made)
    places = {"p@three": "three", "p@five": "five"}
    targets = tuple(
        one.model_copy(update={"subject": "p", "place": places[one.name]})
        for one in run.plan.targets
    )
    run.plan = run.plan.model_copy(update={"targets": targets})
    (found,) = grown(made)
    assert (found.by, found.baseline.name, found.candidate.name) == (By.CLUSTER, "three", "five")
    assert ratios(found) == [1.5]


def test_a_label_that_shows_no_systems_apart_is_an_error() -> None:
    made = simulate(closed(8, 100.0, target="a"), closed(8, 100.0, target="b"))
    known(made, labels={"a": {"cores": "1"}, "b": {"cores": "1"}})
    with pytest.raises(LeadlineError, match="differ in the label cores"):
        grown(made, by="cores")
    with pytest.raises(LeadlineError, match="differ in the label nodes"):
        grown(made, by="nodes")
    other = simulate(closed(8, 100.0))
    known(other, name="other")
    with pytest.raises(LeadlineError, match="several runs are given"):
        grown(made, other, by="cores")


def test_labels_that_leave_partners_open_are_reported_only_where_they_were_asked_for() -> None:
    names = ("a", "b", "c")
    made = simulate(*(closed(8, 100.0, target=one) for one in names))
    known(made, labels={"a": {"cores": "1"}, "b": {"cores": "1"}, "c": {"cores": "2"}})
    assert grown(made) == ()
    with pytest.raises(LeadlineError, match="partner of target"):
        grown(made, by="cores")
