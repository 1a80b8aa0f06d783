"""A speed-up larger than what was added: when it is a finding, and what may explain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from leadline.analysis.explain.conditions import Conditions
from leadline.analysis.scaling.speedup import Resource
from leadline.analysis.scaling.superlinear import (
    Cause,
    CauseCase,
    Stance,
    Superlinear,
    superlinear,
)
from leadline.analysis.verdicts import Evidence
from leadline.findings import Finding, Severity
from leadline.inventory.ceph.model import CephInventory, Spread
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.diff import Difference, Topic
from leadline.plan.lab import LabDescription, Topology
from tests.unit.analysis.scaling.levels import Level, Simulated, closed, refusal, simulate
from tests.unit.analysis.scaling.systems import HOSTS, against, knowledge, known
from tests.unit.inventory.conftest import dumps_of

STEADY = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0]
NOTHING = Conditions(differences=(), identical=(), explanations=())


def found(
    small: Simulated,
    large: Simulated,
    *added: Resource,
    differing: Conditions = NOTHING,
) -> Superlinear | None:
    known(small, name="small")
    known(large, name="large")
    return superlinear(
        against(small, large, *(added or (HOSTS,))), knowledge(small), knowledge(large), differing
    )


def times(factor: float, values: Sequence[float] = STEADY) -> Level:
    return closed(8, *[factor * one for one in values])


def test_single_numbers_must_exceed_what_two_runs_differ_by() -> None:
    """60 % more hardware gave up to 95 % more IOPS: one number a side is no evidence."""
    hardware = replace(HOSTS, baseline=5, candidate=8)

    def published(iops: float) -> Simulated:
        level = replace(closed(8, iops), recorded={"iodepth": "8", "rw": "randread"})
        return simulate(level)

    assert found(published(1000.0), published(1950.0), hardware) is None
    one = found(published(1000.0), published(4000.0), hardware)
    assert one is not None
    assert one.at.judgement.evidence is Evidence.ONE_NUMBER
    assert one.evidence["speedup"] == pytest.approx(4)
    assert one.evidence["resource_ratio"] == pytest.approx(1.6)
    assert one.evidence["efficiency"] == pytest.approx(2.5)
    assert "speedup_low" not in one.evidence


def test_an_interval_beyond_the_resources_is_a_finding() -> None:
    one = found(simulate(times(1)), simulate(times(2.3)))
    assert one is not None
    assert one.evidence["speedup_low"] > 1.75
    assert one.at.judgement.evidence is Evidence.TRIALS


def test_a_figure_beyond_them_whose_interval_is_not_is_no_finding() -> None:
    """The lab's own study, two trials a side (facts: 113 and 214 IOPS, 3 and 5 hosts)."""
    assert found(simulate(closed(32, 115.0, 112.0)), simulate(closed(32, 230.0, 198.0))) is None


def test_an_own_single_trial_without_seconds_is_no_finding() -> None:
    assert found(simulate(closed(8, 100.0)), simulate(closed(8, 195.0))) is None


@pytest.mark.parametrize("factor", [1.0, 1.6, 5 / 3, 1.70])
def test_what_grows_no_more_than_was_added_is_no_finding(factor: float) -> None:
    assert found(simulate(times(1)), simulate(times(factor))) is None


def test_nothing_is_shown_without_resources_or_with_no_more_of_them() -> None:
    small, large = simulate(times(1)), simulate(times(3))
    same = replace(HOSTS, candidate=3)
    assert found(small, large, same) is None
    assert superlinear(against(small, large), knowledge(small), knowledge(large), NOTHING) is None


def test_refused_figures_are_no_evidence() -> None:
    small = simulate(times(1), findings=[refusal("qd8x1")])
    assert found(small, simulate(times(3))) is None


def test_the_level_that_exceeds_most_clearly_is_named() -> None:
    small = simulate(closed(1, *STEADY), times(1), closed(64, *STEADY))
    large = simulate(closed(1, *STEADY), times(2), closed(64, *[3 * one for one in STEADY]))
    one = found(small, large)
    assert one is not None
    assert one.at.candidate.level == "qd64x1"
    assert one.evidence["levels_beyond"] == 2
    assert one.evidence["levels"] == 3


# --- what may explain it ------------------------------------------------------------------------


def stance(one: Superlinear | None, code: str) -> Stance:
    return cause(one, code).stance


def cause(one: Superlinear | None, code: str) -> Cause:
    assert one is not None
    return next(cause for cause in one.causes if cause.code == code)


def test_causes_are_there_even_where_nothing_is_known() -> None:
    one = found(simulate(times(1)), simulate(times(2.3)))
    assert one is not None
    assert {cause.code for cause in one.causes} == {
        *("caches", "placement", "fixed-overhead", "co-located-services", "fill-and-age"),
        *("load", "other-differences"),
    }
    for code in ("caches", "placement", "fill-and-age", "other-differences"):
        assert stance(one, code) is Stance.OPEN
    order = list(Stance)
    assert [order.index(cause.stance) for cause in one.causes] == sorted(
        order.index(cause.stance) for cause in one.causes
    )


def ceph(**changed: object) -> CephInventory:
    return cluster_inventory(dumps_of("ceph-single-az")).model_copy(update=changed)


def spread(highest: int, mean: float) -> Spread:
    return Spread(lowest=1, highest=highest, mean=mean, deviation=1.0)


def compared(ours: CephInventory, theirs: CephInventory, **what: Any) -> Superlinear | None:
    small, large = simulate(times(1)), simulate(times(2.3))
    known(small, name="small", ceph=ours, **what)
    known(large, name="large", ceph=theirs, **what)
    return superlinear(against(small, large, HOSTS), knowledge(small), knowledge(large), NOTHING)


def test_uneven_placement_of_the_smaller_is_worth_its_ratio() -> None:
    uneven, even = ceph(pgs_per_osd=spread(150, 100.0)), ceph(pgs_per_osd=spread(105, 100.0))
    assert stance(compared(uneven, even), "placement") is Stance.SUPPORTED
    assert cause(compared(uneven, even), "placement").numbers == {"fullest_osd": (1.5, 1.05)}
    assert stance(compared(even, even), "placement") is Stance.CONTRADICTED
    assert stance(compared(even, uneven), "placement") is Stance.CONTRADICTED


def test_a_fuller_smaller_system_is_reported() -> None:
    def used(share: float) -> CephInventory:
        whole = ceph().capacity
        taken = {"used_bytes": int(share * whole.total_bytes)}
        return ceph(capacity=whole.model_copy(update=taken))

    assert stance(compared(used(0.8), used(0.3)), "fill-and-age") is Stance.SUPPORTED
    numbers = cause(compared(used(0.8), used(0.3)), "fill-and-age").numbers
    assert numbers["used_share"] == pytest.approx((0.8, 0.3))
    assert stance(compared(used(0.3), used(0.3)), "fill-and-age") is Stance.CONTRADICTED


def test_data_that_fits_the_larger_systems_memory_only() -> None:
    """1 GiB of three copies on three OSDs is 1 GiB each, on six 512 MiB."""
    small, large = ceph(), cluster_inventory(dumps_of("ceph-multi-az"))
    assert (len(small.osds), len(large.osds)) == (3, 6)

    def with_memory(inventory: CephInventory, size: int) -> CephInventory:
        setting = {"section": "osd", "name": "osd_memory_target", "value": str(size)}
        return type(inventory).model_validate(
            inventory.model_dump(by_alias=True) | {"configuration": [setting]}
        )

    def memory(size: int) -> Stance:
        sides = [with_memory(one, size) for one in (small, large)]
        return stance(compared(*sides, url="rbd:rbd_r3"), "caches")

    assert memory(700 << 20) is Stance.SUPPORTED
    assert memory(4 << 30) is Stance.CONTRADICTED
    assert memory(100 << 20) is Stance.OPEN, "it fits neither, but more of it does on the larger"


def test_a_labs_budget_and_what_runs_outside_it() -> None:
    lab = LabDescription(topology=Topology.HOSTS, domains=3, cpu_per_host=0.15)
    many, few = ceph(pgs_per_osd=spread(130, 128.0)), ceph(pgs_per_osd=spread(80, 77.0))
    one = compared(many, few, lab=lab)
    assert stance(one, "fixed-overhead") is Stance.SUPPORTED
    assert cause(one, "fixed-overhead").numbers == {
        "pgs_per_osd": (128, 77),
        "cores_per_host": (0.15, 0.15),
    }
    assert stance(one, "co-located-services") is Stance.CONTRADICTED
    free = compared(many, few, lab=lab.model_copy(update={"cpu_per_host": None}))
    assert stance(free, "co-located-services") is Stance.SUPPORTED
    assert cause(free, "co-located-services").case is CauseCase.SERVICES_SHARE_MACHINE


def test_a_smaller_system_that_was_not_driven_as_far() -> None:
    shallow = Finding(
        code="queue-depth-not-reached",
        severity=Severity.WARNING,
        target="pool",
        workload="randread",
        level="qd8x1",
        message="m",
        remedy="r",
    )
    one = found(simulate(times(1), findings=[shallow]), simulate(times(2.3)))
    assert stance(one, "load") is Stance.SUPPORTED
    assert stance(found(simulate(times(1)), simulate(times(2.3))), "load") is Stance.CONTRADICTED


def test_a_smaller_system_beyond_its_peak() -> None:
    half = [one / 2 for one in STEADY]
    small = simulate(times(1), closed(64, *half))
    large = simulate(times(1.2), closed(64, *[1.4 * one for one in STEADY]))
    one = found(small, large)
    assert one is not None
    assert one.at.candidate.level == "qd64x1"
    assert stance(one, "load") is Stance.SUPPORTED
    assert cause(one, "load").case is CauseCase.LOAD_PAST_PEAK


def test_other_differences_are_named_and_those_of_size_are_not() -> None:
    def differing(*topics: Topic) -> Conditions:
        differences = tuple(
            Difference(path=f"some.{one.name.lower()}", topic=one, baseline="a", candidate="b")
            for one in topics
        )
        return replace(NOTHING, differences=differences, identical=("release 16",))

    small, large = simulate(times(1)), simulate(times(2.3))
    one = found(small, large, differing=differing(Topic.TOPOLOGY, Topic.MEDIA))
    assert cause(one, "other-differences").paths == ("some.media",)
    assert stance(one, "other-differences") is Stance.OPEN
    label = Difference(
        path="targets.pool.labels.hosts", topic=Topic.WORKLOAD, baseline="3", candidate="5"
    )
    by_label = replace(differing(), differences=(label,))
    assert stance(found(small, large, differing=by_label), "other-differences") is (
        Stance.CONTRADICTED
    ), "the label of the added resource is no other difference"
    none = found(small, large, differing=differing(Topic.TOPOLOGY))
    assert stance(none, "other-differences") is Stance.CONTRADICTED
