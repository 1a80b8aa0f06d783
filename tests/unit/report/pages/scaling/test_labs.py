from __future__ import annotations

from leadline.analysis.scaling.growth import LabBounds
from leadline.plan.lab import LabDescription, Store, Topology
from leadline.report.pages.scaling.sentences import lab_sentences


def lab(
    hosts: int, budget: float | None, store: Store = Store.BLUESTORE_IN_MEMORY
) -> LabDescription:
    return LabDescription(
        topology=Topology.HOSTS,
        domains=hosts,
        cpu_per_host=budget,
        store=store,
        inter_zone_rtt_s=0.0,
    )


def said(ours: LabDescription, theirs: LabDescription, *, throttled: int = 0) -> str:
    bounds = LabBounds(
        baseline=ours, candidate=theirs, cores=2, levels=8, throttled=throttled, saturated=3
    )
    return " ".join(lab_sentences(bounds))


def test_a_budget_makes_hosts_that_can_be_counted_and_latency_that_cannot_be_shown() -> None:
    text = said(lab(3, 0.15), lab(5, 0.15), throttled=8)
    assert "one machine of 2 cores runs all their hosts" in text
    assert "0.15 of a core: 0.45 for 3 hosts and 0.75 for 5 hosts" in text
    assert "because budgets stop a host as no real host stops" in text
    assert "refused at 8 of 8 levels" in text
    assert "all data is in memory" in text
    assert "its cores were used up at 3 of 8 levels" in text


def test_budgets_that_differ_are_both_shown() -> None:
    assert "0.15 of a core, in the second 0.3" in said(lab(3, 0.15), lab(3, 0.3))


def test_without_a_budget_more_hosts_bring_nothing_of_their_own() -> None:
    text = said(lab(3, None), lab(5, None, Store.BLUESTORE))
    assert "more hosts share the same cores" in text
    assert "all data is in memory" not in text
