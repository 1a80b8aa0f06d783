"""Explanations of comparisons whose cause is known because the test made it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from compared_cells import (
    DOMAIN,
    RTT,
    Row,
    cells,
    difference,
    erasure,
    networks,
    placed,
    replicated,
    zones_apart,
)
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.explain.accounts import Account
from leadline.analysis.explain.explain import explain
from leadline.analysis.explain.facts import (
    Explanation,
    ImpliedRoundTrip,
    Isolation,
    NearestCopyRead,
    NoCause,
    PossibleCauses,
    RateLimited,
    RoundTripCost,
    RoundTripEvidence,
    UnchangedDespiteCause,
    UnchangedDespiteRoundTrips,
    Unknown,
)
from leadline.analysis.explain.round_trips import count_round_trips, network_time_s
from leadline.analysis.explain.systems import (
    ImageObjects,
    Network,
    ReadFrom,
    SystemFacts,
    find_pool_facts,
    image_objects,
)
from leadline.analysis.verdicts import Verdict
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.ceph.topology import PlacementGroup
from leadline.inventory.diff import Difference, ceph_differences
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op
from leadline.model.io_paths import IoPath
from leadline.model.placement import count_objects
from leadline.plan.models import Target
from leadline.report.pages.comparison.explanations import explanation_text

RECORDED = Path(__file__).resolve().parents[3] / "recorded"
PG = difference("pools.*.pg_num", "128", "512")
NOTHING = SystemFacts()
BOTH_KNOWN = SystemFacts(base_known=True, candidate_known=True)

Kind = TypeVar("Kind", bound=Explanation)


def explanations(
    rows: Row | list[Row], differences: list[Difference], facts: SystemFacts
) -> tuple[Explanation, ...]:
    return explain(cells(*(rows if isinstance(rows, list) else [rows])), differences, facts)[1]


def only(found: tuple[Explanation, ...], kind: type[Kind]) -> Kind:
    assert len(found) == 1, found
    assert isinstance(found[0], kind)
    return found[0]


def only_cost(
    rows: Row | list[Row], differences: list[Difference], facts: SystemFacts
) -> RoundTripCost:
    return only(explanations(rows, differences, facts), RoundTripCost)


def codes(causes: PossibleCauses | RoundTripCost) -> list[str]:
    given_causes = causes.causes if isinstance(causes, PossibleCauses) else causes.others
    return [cause.code for cause in given_causes]


# --- the cost of round trips ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("added_ms", "scatter", "account", "closes"),
    [
        (3.33, 0.02, Account.ACCOUNTS_FOR, True),
        (2.0, 0.02, Account.EXCEEDS, False),
        (4.6, 0.02, Account.PARTLY, False),
        (2.0, 0.5, Account.INCONCLUSIVE, None),
        (3.33, 0.5, Account.INCONCLUSIVE, None),
        (3.33, None, Account.INCONCLUSIVE, None),
        (-0.5, 0.02, Account.EXCEEDS, False),
    ],
)
def test_a_replicated_write_costs_five_thirds_of_a_round_trip(
    added_ms: float, scatter: float | None, account: Account, closes: bool | None
) -> None:
    """The placement is known: the expected cost is 3.33 ms, not 2 to 4 ms."""
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=5e-3 + added_ms * 1e-3, scatter=scatter)
    found = only_cost(row, [RTT, DOMAIN], zones_apart())
    assert (found.account, found.closes) == (account, closes)
    assert (found.cost.candidate.least, found.cost.candidate.most) == (1, 2)
    assert found.cost.candidate.path is IoPath.COPIES
    expected = found.cost.added
    assert (expected.low, expected.value, expected.high) == pytest.approx((10e-3 / 3,) * 3)
    assert found.isolation is Isolation.ISOLATED
    assert found.paths == ("network.inter_zone_rtt", "pools.*.failure_domain")
    assert found.cells == (0, 1)


def test_a_difference_of_twenty_on_the_same_path_does_not_close_twice() -> None:
    """The fault of the first implementation: +52 us and +1.2 ms both closed."""
    rows = [
        Row(op=Op.READ, base_s=0.5e-3, candidate_s=0.552e-3),
        Row(op=Op.READ, base_s=0.5e-3, candidate_s=1.7e-3, workload="v"),
    ]
    small, large = explanations(rows, [RTT], zones_apart(0.0, 1e-3))[:2]
    assert isinstance(small, RoundTripCost)
    assert isinstance(large, RoundTripCost)
    assert {small.account, large.account} == {Account.EXCEEDS, Account.PARTLY}


def test_an_unknown_placement_widens_the_cost() -> None:
    """Of 32 placement groups and 16 objects nobody knows which are in the client's zone."""
    known = zones_apart(0.0, 1e-3)
    single, multi = known.pools["rep3"]
    row = Row(op=Op.READ, base_s=0.5e-3, candidate_s=1.1e-3)
    spans = []
    for changes in ({}, {"placement": (), "pgs": 32}, {"placement": ()}):
        facts = replace(known, pools={"rep3": (single, replace(multi, **changes))})
        (cost,) = (one for one in explanations(row, [RTT], facts) if isinstance(one, RoundTripCost))
        assert cost.cost.candidate_placed is not bool(changes)
        spans.append((cost.cost.added.low, cost.cost.added.high))
    assert spans[0] == pytest.approx((2e-3 / 3, 2e-3 / 3))
    # 1.96 sqrt(2/9 / 32)
    assert spans[1] == pytest.approx((0.5034e-3, 0.83e-3), rel=1e-3)
    # Nothing is known: any placement.
    assert spans[2] == (0.0, 1e-3)


def test_few_objects_are_a_sample_of_the_placement_groups() -> None:
    facts = replace(zones_apart(0.0, 1e-3), extents={("rep3", "w", "qd1"): 64 << 20})
    row = Row(op=Op.READ, base_s=0.5e-3, candidate_s=1.1e-3)
    cost = only_cost(row, [RTT], facts).cost.added
    half = 1.959964 * math.sqrt(2 / 9 / 16) * 1e-3
    assert (cost.low, cost.high) == pytest.approx((2e-3 / 3 - half, 2e-3 / 3 + half))


def test_a_rate_at_a_limit_is_not_explained_by_round_trips() -> None:
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3, caps=("capped-by-limit",))
    found = only(explanations(row, [RTT, DOMAIN], zones_apart()), RateLimited)
    assert (found.codes, found.closes, found.cells) == (("capped-by-limit",), None, (0, 1))


def test_unchanged_cells_count_against_the_cause() -> None:
    rows = [
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.33e-3),
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=1.01e-3, verdict=Verdict.SAME, workload="v"),
        Row(op=Op.WRITE, base_s=9e-3, candidate_s=9.1e-3, verdict=Verdict.SAME, depth=32),
    ]
    found = explanations(rows, [RTT], zones_apart())
    (evidence,) = (one for one in found if isinstance(one, RoundTripEvidence))
    assert dict(evidence.accounts) == {
        Account.ACCOUNTS_FOR: 1, Account.EXCEEDS: 1, Account.INCONCLUSIVE: 1,
    }  # fmt: skip
    assert evidence.unchanged == 1, "at depth 32 a queue may hide the round trips"


def test_inconclusive_cells_that_exclude_the_cost_are_counted() -> None:
    """+0.1 ms, -0.2 to +0.4 ms: no verdict at a margin of 5 %, and no 3.3 ms either."""
    given = Row(op=Op.WRITE, base_s=1e-3, candidate_s=1.1e-3, scatter=0.25)
    excluded, wide, refused = (
        replace(given, verdict=verdict, scatter=scatter, workload=f"w{number}")
        for number, (verdict, scatter) in enumerate(
            (
                (Verdict.INCONCLUSIVE, 0.25),
                (Verdict.INCONCLUSIVE, 9.0),
                (Verdict.NOT_COMPARABLE, 0.25),
            )
        )
    )
    changed = Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.33e-3)
    found = explanations([changed, excluded, wide, refused], [RTT], zones_apart())
    (evidence,) = (one for one in found if isinstance(one, RoundTripEvidence))
    assert dict(evidence.accounts) == {Account.ACCOUNTS_FOR: 1, Account.EXCEEDS: 1}
    assert evidence.unchanged == 0, "the excluded cell is not shown to be unchanged"


def test_queues_cannot_hide_more_than_their_wait() -> None:
    """32 in flight in 1 ms on three zones of 2 ms: each I/O would need 3.3 ms."""
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=1.01e-3, verdict=Verdict.SAME, depth=32)
    (found,) = explanations(row, [RTT], zones_apart())
    assert isinstance(found, UnchangedDespiteRoundTrips)


def test_the_same_towards_a_single_zone() -> None:
    facts = zones_apart()
    back = SystemFacts(
        pools={name: (after, before) for name, (before, after) in facts.pools.items()},
        networks=networks(2e-3, 0.0, *facts.pools),
        base_known=True,
        candidate_known=True,
    )
    found = only_cost(Row(op=Op.WRITE, base_s=8e-3, candidate_s=4.7e-3), [RTT], back)
    assert found.closes is True
    assert dict(found.group.added_s)["rep3"] == pytest.approx(-3.3e-3)
    assert found.cost.added.value == pytest.approx(-10e-3 / 3)


def test_erasure_code_needs_another_round_trip() -> None:
    facts = zones_apart(rep3=replicated(), ec=erasure())
    rows = [
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3),
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=6.3e-3, target="ec"),
    ]
    found = explanations(rows, [RTT], facts)[:2]
    assert [explanation.closes for explanation in found] == [True, True]
    assert isinstance(found[1], RoundTripCost)
    assert found[1].cost.candidate.expected == pytest.approx(8 / 3)
    # The same 5.3 ms on a replicated pool would be too much.
    alone = only_cost(Row(op=Op.WRITE, base_s=1e-3, candidate_s=6.3e-3), [RTT], facts)
    assert alone.closes is False


def test_targets_with_the_same_path_share_an_explanation() -> None:
    facts = zones_apart(rep3=replicated(), rep2=replicated(size=2))
    rows = [
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3),
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.4e-3, target="rep2"),
    ]
    found, evidence = explanations(rows, [RTT], facts)
    assert isinstance(found, RoundTripCost)
    assert isinstance(evidence, RoundTripEvidence)
    assert dict(found.group.added_s) == pytest.approx({"rep3": 3.3e-3, "rep2": 3.4e-3})
    assert found.cells == (0, 1, 2, 3)


def test_without_means_the_closed_loop_gives_the_added_latency() -> None:
    """N (1/X2 - 1/X1): 16 in flight, 8 ms and 11 ms each."""
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=11e-3, depth=16, means=False)
    found = only_cost(row, [RTT], zones_apart())
    assert dict(found.group.added_s)["rep3"] == pytest.approx(3e-3)
    assert found.group.closed_loop == pytest.approx((16, 2000, 16 / 11e-3))
    # Up to 15/16 of 8 ms are waiting, which may hide all round trips.
    assert (found.account, found.tests[0].expected.low) == (Account.INCONCLUSIVE, 0)
    assert found.isolation is Isolation.NEVER_ISOLATED


def test_round_trips_are_isolated_at_depth_one() -> None:
    rows = [
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3),
        Row(op=Op.WRITE, base_s=8e-3, candidate_s=20e-3, depth=16),
    ]
    shallow, deep, _ = explanations(rows, [RTT], zones_apart())
    assert isinstance(shallow, RoundTripCost)
    assert isinstance(deep, RoundTripCost)
    assert (shallow.closes, shallow.isolation) == (True, Isolation.ISOLATED)
    assert shallow.group.depths == (1,)
    assert shallow.cells == (0, 1)
    assert (deep.account, deep.isolation) == (Account.PARTLY, Isolation.ALSO_ISOLATED)


def test_reads_and_writes_of_a_mixed_load_are_not_added() -> None:
    rows = [
        Row(op=op, base_s=8e-3, candidate_s=latency_s, depth=16)
        for op, latency_s in ((Op.READ, 9.5e-3), (Op.WRITE, 11e-3), (Op.TOTAL, 10e-3))
    ]
    found = explanations(rows, [RTT], zones_apart())
    assert [explanation.cells for explanation in found] == [(0, 1, 2, 3), ()]


def test_a_mixed_load_without_latencies_is_compared_by_its_total() -> None:
    rows = [
        Row(op=op, base_s=8e-3, candidate_s=10e-3, depth=16, means=False)
        for op in (Op.READ, Op.WRITE, Op.TOTAL)
    ]
    found = explanations(rows, [RTT], zones_apart())
    (costed,) = [explanation for explanation in found if isinstance(explanation, RoundTripCost)]
    assert costed.cells == (4, 5)


def test_another_cause_is_named_next_to_the_cost() -> None:
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=11e-3, depth=16)
    found = only_cost(row, [RTT, DOMAIN, PG], zones_apart())
    assert codes(found) == ["pgs"]
    assert [(one.baseline, one.candidate) for one in found.others[0].values] == [("128", "512")]
    assert "pools.*.pg_num" in found.paths
    # A single I/O in flight gains nothing from placement groups.
    alone = only_cost(Row(op=Op.WRITE, base_s=1e-3, candidate_s=4e-3), [RTT, PG], zones_apart())
    assert alone.others == ()
    assert alone.paths == ("network.inter_zone_rtt",)


def test_both_systems_over_zones_with_another_length() -> None:
    facts = SystemFacts(
        pools={"rep3": (placed(replicated()), placed(replicated()))},
        networks=networks(1e-3, 3e-3, "rep3"),
        base_known=True,
        candidate_known=True,
    )
    row = Row(op=Op.WRITE, base_s=3e-3, candidate_s=6.3e-3)
    found = only_cost(row, [RTT], facts)
    assert found.closes is True
    assert found.cost.added.value == pytest.approx(10e-3 / 3)
    # With only one of two lengths known there is no cost.
    half = SystemFacts(
        pools=facts.pools,
        networks=networks(None, 3e-3, "rep3"),
        base_known=True,
        candidate_known=True,
    )
    assert only(explanations(row, [RTT], half), PossibleCauses).closes is None


def test_copies_and_erasure_code_on_one_cluster() -> None:
    facts = SystemFacts(
        pools={"x": (placed(replicated()), placed(erasure()))},
        networks=networks(1e-3, 1e-3, "x"),
        base_known=True,
        candidate_known=True,
    )
    code = difference("pools.x.redundancy", "3 copies", "EC 2+1", "x")
    found = only_cost(Row(op=Op.WRITE, base_s=2e-3, candidate_s=5e-3, target="x"), [code], facts)
    assert found.closes is False
    assert (found.cost.base.least, found.cost.base.most) == (1, 2)
    assert found.redundancy is not None
    assert found.redundancy.values[0].candidate == "EC 2+1"
    assert found.paths == ("pools.x.redundancy",)


def test_the_wait_in_the_queue_is_no_latency_of_an_io() -> None:
    """16 asked for and one at a time: 16 x 3.3 ms more is 3.3 ms more, which round trips cost."""
    facts = zones_apart(rep3=replicated(cephfs=True))
    row = Row(op=Op.WRITE, base_s=16e-3, candidate_s=16 * 4.3e-3, depth=16, in_turn=True)
    found = only_cost(row, [RTT], facts)
    assert dict(found.group.added_s)["rep3"] == pytest.approx(3.3e-3)
    assert (found.group.depths, found.group.sequential) == ((1,), 1)
    assert found.closes is True
    # The same latencies of 16 in flight at once are far more than round trips.
    together = Row(op=Op.WRITE, base_s=16e-3, candidate_s=16 * 4.3e-3, depth=16)
    assert only_cost(together, [RTT], facts).closes is False


def test_sequential_reads_and_writes_are_compared_by_their_total() -> None:
    rows = [
        Row(op=op, base_s=16e-3, candidate_s=48e-3, depth=16, in_turn=True)
        for op in (Op.READ, Op.WRITE, Op.TOTAL)
    ]
    found = only_cost(rows, [RTT], zones_apart())
    assert found.cells == (4, 5)
    assert found.group.ops == (Op.TOTAL,)
    assert dict(found.group.added_s)["rep3"] == pytest.approx(2e-3)


def test_large_sequential_ios_may_pay_several_round_trips() -> None:
    row = Row(op=Op.READ, base_s=8e-3, candidate_s=72e-3, depth=4, streaming=True, in_turn=True)
    found = only_cost(row, [RTT], zones_apart())
    assert found.multiples == (12, 12)
    assert found.closes is False


def test_reads_that_the_nearest_copy_should_answer_and_did_not() -> None:
    near = zones_apart(rep3=replicated(reads=ReadFrom.NEAREST))
    row = Row(op=Op.READ, base_s=0.5e-3, candidate_s=1.2e-3)
    found = only(explanations(row, [RTT], near), NearestCopyRead)
    assert dict(found.group.added_s)["rep3"] == pytest.approx(0.7e-3)
    assert found.closes is False
    assert found.cells == (0, 1)


def test_a_percentile_alone_is_no_change_of_speed() -> None:
    row = Row(
        op=Op.WRITE,
        base_s=1e-3,
        candidate_s=3e-3,
        verdict=Verdict.INCONCLUSIVE,
        percentile=Verdict.WORSE,
    )
    found = only(explanations(row, [RTT], zones_apart()), PossibleCauses)
    assert found.group.percentiles_only
    assert found.group.verdicts == ((Verdict.WORSE, 1),)
    assert found.closes is None
    assert found.cells == (2,)


def test_a_difference_counts_cells_by_their_speed() -> None:
    tail = Row(
        op=Op.READ,
        base_s=1e-3,
        candidate_s=3e-3,
        verdict=Verdict.INCONCLUSIVE,
        percentile=Verdict.WORSE,
    )
    slower = Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3)
    for rows in ((tail, slower), (tail,)):
        (found,), _ = explain(cells(*rows), [RTT], zones_apart())
        assert found.explains[0].verdicts == (("worse", 1),)


def test_an_unmeasured_value_is_no_cause() -> None:
    unmeasured = difference("network.inter_zone_rtt", "not measured", "2 ms")
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=3e-3)
    found = only(explanations(row, [unmeasured], BOTH_KNOWN), NoCause)
    assert (found.unknown, found.paths) == (Unknown.NONE, ())


def test_a_file_system_and_a_block_device_differ() -> None:
    kind = difference("targets.rep3.kind", "rbd", "cephfs", "rep3")
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=16e-3, depth=16)
    found = only(explanations(row, [PG, kind], BOTH_KNOWN), PossibleCauses)
    assert set(codes(found)) == {"pgs", "kind"}
    assert set(found.paths) == {"pools.*.pg_num", "targets.rep3.kind"}


def test_copies_act_on_reads_and_on_writes() -> None:
    copies = difference("pools.rep3.redundancy", "3 copies", "EC 2+1", "rep3")
    rows = [Row(op=op, base_s=1e-3, candidate_s=3e-3) for op in (Op.READ, Op.WRITE)]
    (cause,) = only(explanations(rows, [copies], BOTH_KNOWN), PossibleCauses).causes
    writes, reads = cause.mechanisms
    assert writes.startswith("a write is acknowledged when all copies")
    assert reads.startswith("the primary assembles a read of erasure code")


# --- what is the same ----------------------------------------------------------------------------


def test_reads_that_are_the_same_although_their_path_is_longer() -> None:
    rows = [
        Row(op=Op.READ, base_s=0.5e-3, candidate_s=0.51e-3, verdict=Verdict.SAME),
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3),
    ]
    writes, reads, _ = explanations(rows, [RTT], zones_apart())
    assert writes.closes is True
    assert isinstance(reads, UnchangedDespiteRoundTrips)
    assert [cost.value for cost in reads.expected] == pytest.approx([4e-3 / 3])
    assert (reads.cells, reads.closes) == ((0, 1), False)


def test_reads_with_affinity_are_expected_to_be_the_same() -> None:
    near = zones_apart(rep3=replicated(reads=ReadFrom.NEAREST))
    row = Row(op=Op.READ, base_s=0.5e-3, candidate_s=0.51e-3, verdict=Verdict.SAME)
    assert only(explanations(row, [RTT], near), NearestCopyRead).closes is True


def test_a_cost_within_the_equivalence_margin_needs_no_explanation() -> None:
    """1.33 ms are within the margin of a read of 50 ms."""
    row = Row(op=Op.READ, base_s=50e-3, candidate_s=51e-3, verdict=Verdict.SAME)
    assert explanations(row, [RTT], zones_apart()) == ()


def test_writes_that_are_the_same_with_encryption() -> None:
    wire = difference("encryption.wire", "not encrypted", "encrypted")
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=1.01e-3, verdict=Verdict.SAME)
    found = only(explanations(row, [wire], BOTH_KNOWN), UnchangedDespiteCause)
    assert (found.cause.code, found.margin) == ("wire", 0.05)


# --- without a formula ---------------------------------------------------------------------------


def test_one_difference_is_the_only_possible_cause() -> None:
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=5e-3, depth=16)
    found = only(explanations(row, [PG], BOTH_KNOWN), PossibleCauses)
    assert codes(found) == ["pgs"]
    assert (found.closes, found.paths) == (None, ("pools.*.pg_num",))


def test_several_differences_are_all_possible_causes() -> None:
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=5e-3, depth=16)
    given_differences = [PG, difference("media.device_class", "hdd", "ssd")]
    found = only(explanations(row, given_differences, BOTH_KNOWN), PossibleCauses)
    assert codes(found) == ["pgs", "media"]
    assert set(found.paths) == {"pools.*.pg_num", "media.device_class"}
    assert found.inseparable == (("pgs", "media"),)
    # At depth 1 only the media can be visible: this cell separates them.
    alone = Row(op=Op.WRITE, base_s=1e-3, candidate_s=1e-3, verdict=Verdict.SAME)
    _, shared = explanations([row, alone], given_differences, BOTH_KNOWN)
    assert isinstance(shared, PossibleCauses)
    assert shared.inseparable == ()
    assert [(cause.applies, cause.unchanged) for cause in shared.causes] == [(1, 0), (2, 1)]


def test_a_difference_of_one_pool_explains_that_pool_only() -> None:
    copies = difference("pools.rep3.redundancy", "3 copies", "2 copies", "rep3")
    rows = [
        Row(op=Op.WRITE, base_s=2e-3, candidate_s=1e-3, target=target) for target in ("rep3", "ec")
    ]
    first, second = explanations(rows, [copies], BOTH_KNOWN)
    assert isinstance(first, PossibleCauses)
    assert (first.cells, codes(first)) == ((0, 1), ["redundancy"])
    assert isinstance(second, NoCause)
    assert second.cells == (2, 3)


def test_copies_act_on_writes_and_the_mds_on_writes_in_a_file_system() -> None:
    copies = difference("pools.*.redundancy", "3 copies", "2 copies")
    mds = difference("services.mds", "1 active, 0 standing by", "2 active, 0 standing by")
    rows = [Row(op=op, base_s=2e-3, candidate_s=1e-3) for op in (Op.READ, Op.WRITE)]
    found, _ = explain(cells(*rows), [copies, mds], BOTH_KNOWN)
    assert found[0].explains[0].verdicts == (("better", 1),)
    assert found[1].explains == ()
    facts = SystemFacts(
        pools={"rep3": (replicated(cephfs=True), replicated(cephfs=True))},
        base_known=True,
        candidate_known=True,
    )
    assert explain(cells(*rows), [copies, mds], facts)[0][1].explains != ()


def test_cells_against_a_cause_are_counted() -> None:
    """Zones without measured round trips: one slower, one the same, one faster."""
    facts = SystemFacts(pools=zones_apart().pools, base_known=True, candidate_known=True)
    rows = [
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=2e-3, depth=8, means=False, told_depth=False),
        Row(op=Op.READ, base_s=1e-3, candidate_s=1e-3, verdict=Verdict.SAME, workload="v"),
        Row(op=Op.READ, base_s=2e-3, candidate_s=1e-3, workload="x"),
    ]
    more = difference("topology.osds", "3", "6")
    found = explanations(rows, [DOMAIN, more], facts)
    causes = {
        cause.code: cause
        for one in found
        if isinstance(one, PossibleCauses)
        for cause in one.causes
    }
    zones = causes["zones"]
    assert (zones.applies, zones.unchanged, zones.opposed) == (3, 1, 1)
    assert causes["osds"].opposed == 0


def test_no_difference_makes_one_explanation() -> None:
    rows = [Row(op=op, base_s=1e-3, candidate_s=2e-3) for op in (Op.READ, Op.WRITE)]
    found = only(explanations(rows, [], BOTH_KNOWN), NoCause)
    assert (found.unknown, found.paths) == (Unknown.NONE, ())


def test_an_unknown_configuration_is_reported() -> None:
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=2e-3, depth=4, means=False)
    found = only(explanations(row, [], NOTHING), NoCause)
    assert dict(found.group.added_s)["rep3"] == pytest.approx(1e-3)
    assert (found.unknown, found.closes) == (Unknown.BOTH, None)
    half = only(explanations(row, [], SystemFacts(base_known=True)), NoCause)
    assert half.unknown is Unknown.CANDIDATE


def test_published_tables_without_depth_or_latency() -> None:
    """As in reference/multizone-vs-singlezone.csv: no added latency can be computed."""
    rows = [
        Row(op=op, base_s=1e-3, candidate_s=2e-3, means=False, told_depth=False)
        for op in (Op.READ, Op.WRITE)
    ]
    found = only(explanations(rows, [], NOTHING), NoCause)
    assert (found.unmeasurable, found.depth_unknown, found.group.count) == (2, True, 2)


def test_an_unmeasured_round_trip_is_implied() -> None:
    facts = SystemFacts(pools=zones_apart().pools, base_known=True, candidate_known=True)
    rows = [
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=1e-3 + 5 / 3 * 1.2e-3, scatter=None),
        Row(op=Op.READ, base_s=1e-3, candidate_s=1e-3 + 2 / 3 * 1.2e-3, scatter=None),
    ]
    found = only(explanations(rows, [DOMAIN], facts), ImpliedRoundTrip)
    assert (found.least_s, found.most_s) == pytest.approx((1e-3, 1.2e-3))
    assert (found.common, found.isolated, found.closes) == (True, True, None)


def test_nothing_is_explained_where_nothing_changed() -> None:
    for verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE):
        row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=2e-3, verdict=verdict)
        assert explanations(row, [PG], BOTH_KNOWN) == ()
    assert explain([], [PG], NOTHING) == ((PG,), ())


# --- laws ----------------------------------------------------------------------------------------


@given(
    st.floats(1e-4, 1e-2),
    st.floats(1e-4, 2e-2),
    st.floats(1e-3, 1.0),
    st.floats(1e-5, 1e-2),
    st.sampled_from([Op.READ, Op.WRITE]),
    st.sampled_from([1, 4, 64]),
    st.sampled_from([None, 32]),
)
def test_an_explanation_that_excludes_the_change_never_accounts_for_it(
    base_s: float,
    candidate_s: float,
    scatter: float,
    rtt_s: float,
    op: Op,
    depth: int,
    pgs: int | None,
) -> None:
    facts = zones_apart(0.0, rtt_s)
    if pgs is not None:
        single, multi = facts.pools["rep3"]
        facts = replace(facts, pools={"rep3": (single, replace(multi, placement=(), pgs=pgs))})
    row = Row(op=op, base_s=base_s, candidate_s=candidate_s, scatter=scatter, depth=depth)
    for found in explanations(row, [RTT], facts):
        if not isinstance(found, RoundTripCost):
            continue
        (test,) = found.tests
        assert test.measured is not None
        assert test.measured.low <= test.measured.value <= test.measured.high
        if test.expected.low > test.measured.high or test.expected.high < test.measured.low:
            assert found.account in (Account.PARTLY, Account.EXCEEDS)
            assert found.closes is False
            assert "accounts for" not in explanation_text(found)
        if found.closes:
            assert test.share.low is not None
            assert test.share.high is not None
            assert 0.5 <= test.share.low <= test.share.high <= 2


def test_every_explanation_cites_differences_that_are_there_and_cells_that_changed() -> None:
    rows = [
        Row(op=op, base_s=2e-3, candidate_s=2e-3 * factor, depth=depth, workload=workload)
        for op, factor in ((Op.READ, 1.5), (Op.WRITE, 3.0))
        for depth in (1, 16)
        for workload in ("a", "b")
    ]
    given_differences = [RTT, DOMAIN, PG, difference("software.ceph", "16", "19")]
    compared = cells(*rows)
    differences, found = explain(compared, given_differences, zones_apart())
    assert [one.path for one in differences] == [one.path for one in given_differences]
    known = {one.path for one in given_differences}
    explained = set()
    for explanation in found:
        assert explanation.paths
        assert set(explanation.paths) <= known
        explained |= set(explanation.cells)
    assert explained == set(range(len(compared)))


# --- the recorded clusters -----------------------------------------------------------------------


def recorded(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (RECORDED / name).glob("*.json")}


def pool_target(pool: str) -> Target:
    """An imported target is the pool of its name."""
    return Target(name=pool, url="")


def test_the_recorded_clusters_give_the_facts_that_the_cost_needs() -> None:
    single, multi = (
        cluster_inventory(recorded(name)) for name in ("ceph-single-az", "ceph-multi-az")
    )
    names = {
        "r3": ("rbd_r3", "rbd_r3"),
        "ec": ("ec21_data", "ec21_data"),
        "fs": ("cephfs_r3", "cephfs_r3"),
        "gone": ("h3", "h3"),
    }
    pairs = {
        subject: tuple(
            find_pool_facts(one, pool_target(name))
            for one, name in zip((single, multi), pair, strict=True)
        )
        for subject, pair in names.items()
    }
    pools = {subject: (one, two) for subject, (one, two) in pairs.items() if one and two}
    facts = SystemFacts(
        pools=pools,
        networks=networks(30e-6, 1e-3, *pools),
        base_known=True,
        candidate_known=True,
    )
    assert set(facts.pools) == {"r3", "ec", "fs"}
    assert [
        (pool.zones, pool.places, pool.failure_domain, pool.apart, pool.cephfs)
        for pool in facts.pools["r3"]
    ] == [(1, 3, "rack", True, False), (3, 3, "zone", True, False)]
    assert (facts.pools["ec"][1].k, facts.pools["ec"][1].m) == (2, 1)
    assert facts.pools["fs"][1].cephfs
    differences = ceph_differences(single, multi, names).differences
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=2.7e-3, target="r3")
    explained, found = explain(cells(row), differences, facts)
    assert only(found, RoundTripCost).closes is True
    effects = {one.path: one.explains for one in explained}
    assert effects["pools.*.failure_domain"]
    assert effects["topology.crush_levels"][0].verdicts == (("worse", 1),)
    assert effects["topology.osds"] == (), "a single write gains nothing from more OSDs"
    assert find_pool_facts(None, pool_target("rbd_r3")) is None


def test_copies_on_different_hosts_may_share_a_zone() -> None:
    multi = cluster_inventory(recorded("ceph-multi-az"))
    pools = tuple(
        pool.model_copy(update={"rule": pool.rule.model_copy(update={"failure_domain": "host"})})
        for pool in multi.pools
        if pool.rule
    )
    by_host = multi.model_copy(update={"pools": pools})
    before, after = (find_pool_facts(one, pool_target("rbd_r3")) for one in (by_host, multi))
    assert before is not None
    assert after is not None
    assert (before.apart, before.places, after.apart) == (False, 3, True)
    assert count_round_trips(Op.WRITE, before).least == 0


def test_the_objects_of_an_image_weigh_its_placement_groups() -> None:
    multi = cluster_inventory(recorded("ceph-multi-az"))
    pool = next(pool for pool in multi.pools if pool.name == "rbd_r3")
    # One OSD of each zone, each first in a third of the placement groups.
    osds = {osd.at("zone"): osd.id for osd in multi.osds}
    zones = sorted(zone for zone in osds if zone is not None)
    turned = [zones[turn:] + zones[:turn] for turn in range(3)]
    groups = {
        pool.id: [
            PlacementGroup(
                number=f"{pg:x}",
                acting=tuple(osds[zone] for zone in turned[pg % 3]),
                primary=osds[turned[pg % 3][0]],
            )
            for pg in range(pool.pg_num)
        ]
    }
    image = ImageObjects(prefix="rbd_data.10ab", count=16)
    general, own = (
        find_pool_facts(
            multi, pool_target("rbd_r3"), groups=groups, client={"zone": zones[0]}, image=one
        )
        for one in (None, image)
    )
    assert general is not None
    assert own is not None
    assert (general.objects, own.objects) == (None, 16)
    pgs = count_objects(image.names(), pool.pg_num)
    local = sum(count for pg, count in pgs.items() if pg % 3 == 0) / 16
    assert local not in (0, 1 / 3)
    trip = Network.uniform(1e-3)
    exact = network_time_s(Op.READ, own, trip, objects=16)
    assert (exact.low, exact.value, exact.high) == pytest.approx((1e-3 * (1 - local),) * 3)
    # Half of the objects are a sample of them; any others one of the pool's placement groups.
    half = network_time_s(Op.READ, own, trip, objects=8)
    average = network_time_s(Op.READ, general, trip, objects=16)
    assert half.low < exact.value < half.high
    assert average.value == pytest.approx(1e-3 * 2 / 3, rel=0.02)
    assert average.low < exact.value < average.high


@pytest.mark.parametrize(
    ("facts", "count"),
    [
        ({}, 16),
        ({"size_bytes": str(63 << 20)}, 16),
        ({"size_bytes": str(64 << 30)}, None),
        ({"block_name_prefix": ""}, None),
        ({"namespace": "own"}, None),
        ({"object_size_bytes": "0"}, None),
        ({"size_bytes": "much"}, None),
    ],
)
def test_the_objects_of_an_image(facts: dict[str, str], count: int | None) -> None:
    known = {"size_bytes": str(64 << 20), "object_size_bytes": str(4 << 20)}
    image = Layer(
        kind=LayerKind.IMAGE,
        name="rep3/image",
        facts={"block_name_prefix": "rbd_data.10ab", **known, **facts},
    )
    found = image_objects([image, Layer(kind=LayerKind.POOL, name="rep3")])
    assert (found.count if found else None) == count
    if found:
        assert [*found.names()][1] == "rbd_data.10ab.0000000000000001"


def test_no_image_has_no_objects() -> None:
    assert image_objects([]) is None
