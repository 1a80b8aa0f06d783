"""Explanations of comparisons whose cause is known because the test made it."""

from __future__ import annotations

from pathlib import Path

import pytest
from compared_cells import DOMAIN, RTT, Row, cells, difference, erasure, replicated, zones_apart
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.comparison import Explanation
from leadline.analysis.explain.effects import EFFECTS, effects_of
from leadline.analysis.explain.explain import Facts, ReadFrom, explain, facts_of
from leadline.analysis.explain.facts import cost, legs
from leadline.analysis.explain.round_trips import Fit, fit
from leadline.analysis.verdicts import Verdict
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.diff import ceph_differences
from leadline.metrics import Op

RECORDED = Path(__file__).resolve().parents[3] / "recorded"
PG = difference("pools.*.pg_num", "128", "512")
NOTHING = Facts()
BOTH_KNOWN = Facts(base_known=True, candidate_known=True)


def only(found: tuple[Explanation, ...]) -> Explanation:
    assert len(found) == 1, [one.text for one in found]
    return found[0]


# --- the arithmetic of round trips ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra_ms", "closes", "said"),
    [
        (2.0, True, "closes."),
        (3.33, True, "closes."),
        (4.0, True, "closes."),
        (4.6, True, "closes, to within 20 %"),
        (0.9, False, "1.1 ms less than the least they can cost"),
        (7.0, False, "3 ms more than they can cost"),
        (-0.5, False, "the other way round"),
    ],
)
def test_a_replicated_write_costs_one_to_two_round_trips(
    extra_ms: float, closes: bool, said: str
) -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=5e-3 + extra_ms * 1e-3)
    _, found = explain(cells(row), [RTT, DOMAIN], zones_apart())
    one = only(found)
    assert one.closes is closes
    assert said in one.text
    assert "1 to 2 round trips, 1.67 on average" in one.text
    assert "2 ms to 4 ms more, 3.33 ms on average" in one.text
    assert one.paths == ("network.inter_zone_rtt", "pools.*.failure_domain")
    assert one.cells == (0, 1)


def test_the_same_towards_a_single_zone() -> None:
    facts = zones_apart()
    back = Facts(
        pools={name: (theirs, ours) for name, (ours, theirs) in facts.pools.items()},
        base_rtt_s=2e-3,
        candidate_rtt_s=0.0,
        base_known=True,
        candidate_known=True,
    )
    _, found = explain(cells(Row(op=Op.WRITE, base_s=8e-3, candidate_s=5e-3)), [RTT], back)
    one = only(found)
    assert one.closes is True
    assert "take 3 ms (rep3) less each" in one.text
    assert "2 ms to 4 ms less" in one.text


def test_erasure_code_and_copies_are_told_apart() -> None:
    facts = zones_apart(rep3=replicated(), ec=erasure())
    rows = (
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3),
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=6.3e-3, target="ec"),
    )
    _, found = explain(cells(*rows), [RTT], facts)
    assert [one.closes for one in found] == [True, True]
    assert "2 to 3 round trips, 2.67 on average" in found[1].text
    # The same 5.3 ms on a replicated pool would be too much.
    _, alone = explain(cells(Row(op=Op.WRITE, base_s=1e-3, candidate_s=6.3e-3)), [RTT], facts)
    assert only(alone).closes is False


def test_targets_with_the_same_way_share_a_sentence() -> None:
    facts = zones_apart(rep3=replicated(), rep2=replicated(size=2))
    rows = [
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.1e-3),
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.4e-3, target="rep2"),
    ]
    one = only(explain(cells(*rows), [RTT], facts)[1])
    assert "3.1 ms (rep3) and 3.4 ms (rep2) longer" in one.text
    assert one.cells == (0, 1, 2, 3)


def test_without_means_the_closed_loop_gives_the_extra_latency() -> None:
    """N (1/X2 - 1/X1): 16 in flight, 8 ms and 11 ms each."""
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=11e-3, depth=16, means=False)
    one = only(explain(cells(row), [RTT], zones_apart())[1])
    assert "take 3 ms (rep3) longer each" in one.text
    assert "16 x (1/1,455 - 1/2,000)" in one.text
    assert one.closes is True
    assert "No cell has one small I/O at a time" in one.text


def test_depth_one_is_where_the_arithmetic_is_closed() -> None:
    rows = (
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3),
        Row(op=Op.WRITE, base_s=8e-3, candidate_s=20e-3, depth=16),
    )
    shallow, deep = explain(cells(*rows), [RTT], zones_apart())[1]
    assert shallow.closes is True
    assert "at depth 1" in shallow.text
    assert shallow.cells == (0, 1)
    assert deep.closes is False
    assert "wait for each other" in deep.text
    assert "No cell has one small I/O" not in deep.text


def test_reads_and_writes_of_a_mixed_load_are_not_added() -> None:
    rows = [
        Row(op=op, base_s=8e-3, candidate_s=latency_s, depth=16)
        for op, latency_s in ((Op.READ, 9.5e-3), (Op.WRITE, 11e-3), (Op.TOTAL, 10e-3))
    ]
    found = explain(cells(*rows), [RTT], zones_apart())[1]
    assert [one.cells for one in found] == [(0, 1), (2, 3)]


def test_a_mixed_load_without_latencies_is_judged_by_its_total() -> None:
    rows = [
        Row(op=op, base_s=8e-3, candidate_s=10e-3, depth=16, means=False)
        for op in (Op.READ, Op.WRITE, Op.TOTAL)
    ]
    found = explain(cells(*rows), [RTT], zones_apart())[1]
    reckoned = [one for one in found if one.closes is not None]
    assert only(tuple(reckoned)).cells == (4, 5)


def test_a_confounder_is_named_and_its_share_left_open() -> None:
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=11e-3, depth=16)
    one = only(explain(cells(row), [RTT, DOMAIN, PG], zones_apart())[1])
    assert "PG count (128 -> 512)" in one.text
    assert "cannot be told apart" in one.text
    assert "pools.*.pg_num" in one.paths
    # One I/O at a time gains nothing from placement groups.
    alone = only(
        explain(cells(Row(op=Op.WRITE, base_s=1e-3, candidate_s=4e-3)), [RTT, PG], zones_apart())[1]
    )
    assert "PG count" not in alone.text
    assert alone.paths == ("network.inter_zone_rtt",)


def test_both_sides_over_zones_with_another_length() -> None:
    facts = Facts(
        pools={"rep3": (replicated(), replicated())},
        base_rtt_s=1e-3,
        candidate_rtt_s=3e-3,
        base_known=True,
        candidate_known=True,
    )
    row = Row(op=Op.WRITE, base_s=3e-3, candidate_s=6.3e-3)
    one = only(explain(cells(row), [RTT], facts)[1])
    assert one.closes is True
    assert "2 ms to 4 ms more" in one.text
    # A length that only one of two sides over zones knows is no length to reckon with.
    half = Facts(pools=facts.pools, candidate_rtt_s=3e-3, base_known=True, candidate_known=True)
    assert only(explain(cells(row), [RTT], half)[1]).closes is None


def test_copies_against_erasure_code_on_one_cluster() -> None:
    facts = Facts(
        pools={"x": (replicated(), erasure())},
        base_rtt_s=1e-3,
        candidate_rtt_s=1e-3,
        base_known=True,
        candidate_known=True,
    )
    code = difference("pools.x.redundancy", "3 copies", "EC 2+1", "x")
    row = Row(op=Op.WRITE, base_s=2e-3, candidate_s=5e-3, target="x")
    one = only(explain(cells(row), [code], facts)[1])
    assert one.closes is False
    assert "instead of 1 to 2 round trips" in one.text
    assert "redundancy (3 copies -> EC 2+1)" in one.text
    assert one.paths == ("pools.x.redundancy",)


def test_the_wait_for_ones_turn_is_no_time_that_an_io_took() -> None:
    """16 asked for and one at a time: 16 x 2 ms more is 2 ms more, which round trips can cost."""
    fs = zones_apart(rep3=replicated(cephfs=True))
    row = Row(op=Op.WRITE, base_s=16e-3, candidate_s=16 * 3.4e-3, depth=16, in_turn=True)
    one = only(explain(cells(row), [RTT], fs)[1])
    assert one.text.startswith("Writes at depth 1 take 2.4 ms (rep3) longer each (the cells had")
    assert one.closes is True
    # The same latencies of 16 in flight at once are far more than round trips.
    together = Row(op=Op.WRITE, base_s=16e-3, candidate_s=16 * 3.4e-3, depth=16)
    assert only(explain(cells(together), [RTT], fs)[1]).closes is False


def test_reads_and_writes_in_turn_are_told_by_their_total() -> None:
    rows = [
        Row(op=op, base_s=16e-3, candidate_s=48e-3, depth=16, in_turn=True)
        for op in (Op.READ, Op.WRITE, Op.TOTAL)
    ]
    one = only(explain(cells(*rows), [RTT], zones_apart())[1])
    assert one.cells == (4, 5)
    assert "I/Os at depth 1 take 2 ms" in one.text


def test_large_ios_in_turn_are_told_how_many_round_trips_they_took() -> None:
    row = Row(op=Op.READ, base_s=8e-3, candidate_s=72e-3, depth=4, streaming=True, in_turn=True)
    one = only(explain(cells(row), [RTT], zones_apart())[1])
    assert "about 8 times as much" in one.text
    assert "I/Os in flight together" not in one.text
    assert one.closes is False


def test_reads_that_the_nearest_copy_should_answer_and_did_not() -> None:
    near = zones_apart(rep3=replicated(reads=ReadFrom.NEAREST))
    row = Row(op=Op.READ, base_s=0.5e-3, candidate_s=1.2e-3)
    one = only(explain(cells(row), [RTT], near)[1])
    assert one.text.startswith("Reads at depth 1 take 700 us (rep3) longer each although")
    assert "only difference" not in one.text
    assert one.closes is False
    assert one.cells == (0, 1)


def test_a_percentile_alone_is_not_told_as_a_change_of_speed() -> None:
    row = Row(
        op=Op.WRITE,
        base_s=1e-3,
        candidate_s=3e-3,
        verdict=Verdict.INCONCLUSIVE,
        percentile=Verdict.WORSE,
    )
    one = only(explain(cells(row), [RTT], zones_apart())[1])
    assert one.text.startswith("Latency percentiles of writes on rep3 at depth 1 (1 row, worse)")
    assert "longer each" not in one.text, "the means cannot be told apart"
    assert one.closes is None
    assert one.cells == (2,)


def test_a_difference_counts_rows_by_their_speed() -> None:
    tail = Row(
        op=Op.READ,
        base_s=1e-3,
        candidate_s=3e-3,
        verdict=Verdict.INCONCLUSIVE,
        percentile=Verdict.WORSE,
    )
    slower = Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3)
    (told,), _ = explain(cells(tail, slower), [RTT], zones_apart())
    assert told.explains[0].endswith("Where it can show: 1 row, worse.")
    (alone,), _ = explain(cells(tail), [RTT], zones_apart())
    assert alone.explains[0].endswith("Where it can show: 1 row, worse.")


def test_what_one_side_did_not_measure_is_no_cause() -> None:
    unmeasured = difference("network.inter_zone_rtt", "not measured", "2 ms")
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=3e-3)
    one = only(explain(cells(row), [unmeasured], BOTH_KNOWN)[1])
    assert one.text.startswith("No difference of configuration was found")
    assert one.paths == ()


def test_a_file_system_beside_a_block_device_is_a_cause() -> None:
    kind = difference("targets.rep3.kind", "rbd", "cephfs", "rep3")
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=16e-3, depth=16)
    one = only(explain(cells(row), [PG, kind], BOTH_KNOWN)[1])
    assert "kind of storage (rbd -> cephfs) changed together" in one.text
    assert set(one.paths) == {"pools.*.pg_num", "targets.rep3.kind"}


def test_what_copies_cost_is_told_of_reads_and_of_writes() -> None:
    copies = difference("pools.rep3.redundancy", "3 copies", "EC 2+1", "rep3")
    rows = [Row(op=op, base_s=1e-3, candidate_s=3e-3) for op in (Op.READ, Op.WRITE)]
    one = only(explain(cells(*rows), [copies], BOTH_KNOWN)[1])
    assert "A write is answered when all copies" in one.text
    assert "a read of erasure code is put together" in one.text


# --- what is the same ----------------------------------------------------------------------------


def test_reads_that_are_the_same_although_their_way_is_longer() -> None:
    rows = (
        Row(op=Op.READ, base_s=0.5e-3, candidate_s=0.51e-3, verdict=Verdict.SAME),
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3),
    )
    writes, reads = explain(cells(*rows), [RTT], zones_apart())[1]
    assert writes.closes is True
    assert "are the same although their round trips should cost 1.33 ms more" in reads.text
    assert reads.cells == (0, 1)


def test_reads_with_affinity_are_expected_to_be_the_same() -> None:
    near = zones_apart(rep3=replicated(reads=ReadFrom.NEAREST))
    row = Row(op=Op.READ, base_s=0.5e-3, candidate_s=0.51e-3, verdict=Verdict.SAME)
    one = only(explain(cells(row), [RTT], near)[1])
    assert one.closes is True
    assert "nearest copy" in one.text


def test_a_way_that_would_not_show_is_not_wondered_at() -> None:
    """1.33 ms are within the band of a read of 50 ms."""
    row = Row(op=Op.READ, base_s=50e-3, candidate_s=51e-3, verdict=Verdict.SAME)
    assert explain(cells(row), [RTT], zones_apart())[1] == ()


def test_writes_that_are_the_same_with_encryption() -> None:
    wire = difference("encryption.wire", "not encrypted", "encrypted")
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=1.01e-3, verdict=Verdict.SAME)
    one = only(explain(cells(row), [wire], BOTH_KNOWN)[1])
    assert "although encryption on the wire (not encrypted -> encrypted) changed" in one.text
    assert "within 5 %" in one.text


# --- without arithmetic --------------------------------------------------------------------------


def test_one_difference_is_the_only_one_found() -> None:
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=5e-3, depth=16)
    one = only(explain(cells(row), [PG], BOTH_KNOWN)[1])
    assert "the only difference found that bears on this is PG count (128 -> 512)" in one.text
    assert one.closes is None
    assert one.paths == ("pools.*.pg_num",)


def test_several_differences_cannot_be_told_apart() -> None:
    row = Row(op=Op.WRITE, base_s=8e-3, candidate_s=5e-3, depth=16)
    one = only(
        explain(cells(row), [PG, difference("media.device_class", "hdd", "ssd")], BOTH_KNOWN)[1]
    )
    assert "cannot tell their shares apart" in one.text
    assert "PG count (128 -> 512)" in one.text
    assert "medium (hdd -> ssd)" in one.text
    assert set(one.paths) == {"pools.*.pg_num", "media.device_class"}


def test_a_difference_of_one_pool_explains_that_pool_only() -> None:
    copies = difference("pools.rep3.redundancy", "3 copies", "2 copies", "rep3")
    rows = [
        Row(op=Op.WRITE, base_s=2e-3, candidate_s=1e-3, target=target) for target in ("rep3", "ec")
    ]
    first, second = explain(cells(*rows), [copies], BOTH_KNOWN)[1]
    assert first.cells == (0, 1)
    assert "redundancy" in first.text
    assert second.cells == (2, 3)
    assert second.text.startswith("No difference of configuration was found that could explain")


def test_copies_bear_on_writes_and_the_mds_on_writes_in_a_file_system() -> None:
    copies = difference("pools.*.redundancy", "3 copies", "2 copies")
    mds = difference("services.mds", "1 active, 0 standing by", "2 active, 0 standing by")
    rows = [Row(op=op, base_s=2e-3, candidate_s=1e-3) for op in (Op.READ, Op.WRITE)]
    found = explain(cells(*rows), [copies, mds], BOTH_KNOWN)
    assert found[0][0].explains[0].endswith("Where it can show: 1 row, better.")
    assert found[0][1].explains == ()
    facts = Facts(
        pools={"rep3": (replicated(cephfs=True), replicated(cephfs=True))},
        base_known=True,
        candidate_known=True,
    )
    assert explain(cells(*rows), [copies, mds], facts)[0][1].explains != ()


def test_no_difference_is_said_once() -> None:
    rows = [Row(op=op, base_s=1e-3, candidate_s=2e-3) for op in (Op.READ, Op.WRITE)]
    one = only(explain(cells(*rows), [], BOTH_KNOWN)[1])
    assert one.text.startswith("No difference of configuration was found")
    assert one.paths == ()


def test_what_is_not_known_is_said_to_be() -> None:
    row = Row(op=Op.WRITE, base_s=1e-3, candidate_s=2e-3, depth=4, means=False)
    one = only(explain(cells(row), [], NOTHING)[1])
    assert "take 1 ms (rep3) longer each" in one.text
    assert "the configuration is not known" in one.text
    assert one.closes is None


def test_published_tables_without_depth_or_latency() -> None:
    """As in reference/multizone-vs-singlezone.csv: nothing can be reckoned, and that is said."""
    rows = [
        Row(op=op, base_s=1e-3, candidate_s=2e-3, means=False, told_depth=False)
        for op in (Op.READ, Op.WRITE)
    ]
    one = only(explain(cells(*rows), [], NOTHING)[1])
    assert "Why 2 rows changed cannot be said: the configuration is not known" in one.text
    assert "neither mean latency nor depth is told" in one.text


def test_a_length_that_nobody_measured_is_implied() -> None:
    facts = Facts(pools=zones_apart().pools, base_known=True, candidate_known=True)
    rows = (
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=1e-3 + 5 / 3 * 1.2e-3),
        Row(op=Op.READ, base_s=1e-3, candidate_s=1e-3 + 2 / 3 * 1.2e-3),
    )
    one = only(explain(cells(*rows), [DOMAIN], facts)[1])
    assert "A round trip between zones of 1 ms to 1.2 ms would account for it" in one.text
    assert "None was measured" in one.text
    assert one.closes is None


def test_nothing_is_explained_where_nothing_changed() -> None:
    rows = [
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=2e-3, verdict=verdict)
        for verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE)
    ]
    assert explain(cells(rows[0]), [PG], BOTH_KNOWN)[1] == ()
    assert explain(cells(rows[1]), [PG], BOTH_KNOWN)[1] == ()
    assert explain([], [PG], NOTHING) == ((PG,), ())


# --- laws ----------------------------------------------------------------------------------------


@given(st.floats(-0.05, 0.05), st.floats(1e-4, 1e-2))
def test_the_fit_is_the_same_seen_from_either_side(extra_s: float, rtt_s: float) -> None:
    here, there = legs(Op.WRITE, replicated(zones=1)), legs(Op.WRITE, replicated())
    way = cost(here, there, 0.0, rtt_s)
    back = cost(there, here, rtt_s, 0.0)
    assert fit(extra_s, way) is fit(-extra_s, back)


@given(st.floats(0, 0.1), st.floats(1e-4, 1e-2))
def test_a_fit_closes_only_near_what_the_way_costs(extra_s: float, rtt_s: float) -> None:
    way = cost(legs(Op.WRITE, replicated(zones=1)), legs(Op.WRITE, replicated()), 0.0, rtt_s)
    slack = max(0.2 * 2 * rtt_s, 50e-6)
    inside = rtt_s - slack <= extra_s <= 2 * rtt_s + slack
    assert fit(extra_s, way).closes is inside
    if not inside:
        assert fit(extra_s, way) is (Fit.MORE if extra_s > rtt_s else Fit.LESS)


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
    for one in found:
        assert one.paths
        assert set(one.paths) <= known
        explained |= set(one.cells)
    assert explained == set(range(len(compared)))


# --- the table, and the recorded clusters --------------------------------------------------------


def test_every_path_that_the_differences_know_has_an_effect_or_none_on_purpose() -> None:
    without = {"min_size", "autoscale_mode", "target_ratio"}
    for path in (
        "topology.crush_levels",
        "topology.hosts",
        "topology.osds",
        "network.inter_zone_rtt",
        *(
            f"pools.some pool.{key}"
            for key in (
                "failure_domain",
                "redundancy",
                "pg_num",
                "device_class",
                "compression",
                "pg_state",
                *without,
            )
        ),
        *(f"media.{key}" for key in ("device_class", "medium", "store", "osd_size")),
        *(f"placement.{key}" for key in ("pgs_per_osd", "balancer", "primary_affinity")),
        "encryption.wire",
        "encryption.wire.to_daemons",
        "encryption.at_rest",
        "services.mds",
        "software.ceph",
        *(f"health.{key}" for key in ("osds", "activity", "flags")),
        "client.cpu",
        "targets.t.device",
        "settings.osd.osd_op_queue",
    ):
        found = effects_of(difference(path, "a", "b"))
        assert bool(found) is (path.rpartition(".")[2] not in without), path


def test_every_effect_has_a_source_and_a_sentence() -> None:
    for effect in EFFECTS:
        assert effect.source
        assert not effect.mechanism.endswith(".")
        assert effect.ops


def test_the_recorded_clusters_give_the_facts_that_the_arithmetic_needs() -> None:
    single, multi = (
        cluster_inventory(
            {path.name: path.read_bytes() for path in (RECORDED / name).glob("*.json")}
        )
        for name in ("ceph-single-az", "ceph-multi-az")
    )
    names = {
        "r3": ("rbd_r3", "rbd_r3"),
        "ec": ("ec21_data", "ec21_data"),
        "fs": ("cephfs_r3", "cephfs_r3"),
        "gone": ("h3", "h3"),
    }
    facts = facts_of(single, multi, names, 30e-6, 1e-3)
    assert set(facts.pools) == {"r3", "ec", "fs"}
    ours, theirs = facts.pools["r3"]
    assert (ours.zones, ours.places, ours.failure_domain, ours.apart) == (1, 3, "rack", True)
    assert (theirs.zones, theirs.places, theirs.failure_domain, theirs.apart) == (
        3,
        3,
        "zone",
        True,
    )
    assert (facts.pools["ec"][1].k, facts.pools["ec"][1].m) == (2, 1)
    assert facts.pools["fs"][1].cephfs
    assert not theirs.cephfs
    differences = ceph_differences(single, multi, names).differences
    rows = [Row(op=Op.WRITE, base_s=1e-3, candidate_s=2.7e-3, target="r3")]
    explained, found = explain(cells(*rows), differences, facts)
    assert only(found).closes is True
    told = {one.path: one.explains for one in explained}
    assert told["pools.*.failure_domain"]
    assert "Where it can show: 1 row, worse." in told["topology.crush_levels"][0]
    assert told["topology.osds"] == (), "one write at a time gains nothing from more OSDs"
    assert facts_of(None, multi, names, None, None).pools == {}


def test_copies_on_different_hosts_may_share_a_zone() -> None:
    multi = cluster_inventory(
        {path.name: path.read_bytes() for path in (RECORDED / "ceph-multi-az").glob("*.json")}
    )
    pools = tuple(
        pool.model_copy(update={"rule": pool.rule.model_copy(update={"failure_domain": "host"})})
        for pool in multi.pools
        if pool.rule
    )
    by_host = multi.model_copy(update={"pools": pools})
    facts = facts_of(by_host, multi, {"r3": ("rbd_r3", "rbd_r3")}, 1e-3, 1e-3)
    ours, theirs = facts.pools["r3"]
    assert (ours.apart, ours.places) == (False, 3)
    assert theirs.apart
    assert legs(Op.WRITE, ours).least == 0
