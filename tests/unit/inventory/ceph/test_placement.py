"""The autoscaler's arithmetic on captured clusters, and what is said about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leadline.inventory.ceph.autoscaler import Rule
from leadline.inventory.ceph.placement import compute_placement, explain_uneven, format_advice
from leadline.inventory.ceph.reading import cluster_inventory

Dumps = dict[str, bytes]


@pytest.mark.parametrize("name", ["multi_az", "single_az", "scaled"])
def test_it_is_what_the_manager_of_the_cluster_says(
    name: str, request: pytest.FixtureRequest
) -> None:
    dumps: Dumps = request.getfixturevalue(name)
    placement = compute_placement(cluster_inventory(dumps))
    assert placement.rule is Rule.WHAT_IS_LEFT
    assert placement.disagreements == ()
    told = {one["pool_name"]: one for one in json.loads(dumps["osd_pool_autoscale_status.json"])}
    assert placement.compared == len(told) >= 6
    for root in placement.roots:
        for one in root.advice:
            theirs = told[one.pool.name]
            assert int(one.raw) == theirs["pg_num_ideal"]
            assert one.final == theirs["pg_num_final"]
            assert one.acts == theirs["would_adjust"]
            assert one.effective_target_ratio == pytest.approx(theirs["effective_target_ratio"])


@pytest.mark.parametrize("name", ["multi_az", "single_az", "scaled"])
def test_without_the_manager_it_is_the_same_from_df(
    name: str, request: pytest.FixtureRequest
) -> None:
    dumps: Dumps = request.getfixturevalue(name)
    with_word = compute_placement(cluster_inventory(dumps))
    del dumps["osd_pool_autoscale_status.json"]
    without = compute_placement(cluster_inventory(dumps))
    assert without.compared == 0
    for pools, others in zip(with_word.roots, without.roots, strict=True):
        assert [one.final for one in pools.advice] == [one.final for one in others.advice]


def test_why_equal_ratios_have_unequal_pgs(scaled: Dumps) -> None:
    (root,) = compute_placement(cluster_inventory(scaled)).roots
    said = explain_uneven(root)
    assert said is not None
    assert "a and b have the same target ratio (0.49), but computed PGs of 64 and 32" in said
    assert "a (id 1) from a budget of 600 PG replicas" in said


def test_an_explanation_holds_its_numbers(scaled: Dumps) -> None:
    placement = compute_placement(cluster_inventory(scaled))
    (root,) = placement.roots
    by_name = {one.pool.name: format_advice(one, root.settings) for one in root.advice}
    assert by_name["a"].startswith("target ratio 0.49 (effective 0.305) of 3 OSDs x 200 = 600")
    assert by_name["a"].endswith("-> 64; it has 64")
    assert "left" in by_name["b"]
    assert "maximum 16" in by_name["huge"]
    assert "it keeps 16, within a factor of 3" in by_name["bulky"]


def edited(dumps: Dumps, name: str, **values: Any) -> Dumps:
    return dumps | {name: json.dumps(json.loads(dumps[name]) | values).encode()}


def test_an_unknown_release_gets_no_arithmetic(scaled: Dumps) -> None:
    osd = {"ceph version 21.0.0 (abc) umbrella (dev)": 3}
    placement = compute_placement(cluster_inventory(edited(scaled, "versions.json", osd=osd)))
    (root,) = placement.roots
    assert placement.rule is Rule.UNKNOWN
    assert (root.advice, root.unknown) == ((), "the rule of Ceph 21.0.0 is unknown")


def test_an_early_pacific_is_doubted(scaled: Dumps) -> None:
    osd = {"ceph version 16.2.4 (abc) pacific (stable)": 3}
    placement = compute_placement(cluster_inventory(edited(scaled, "versions.json", osd=osd)))
    assert any("16.2.15" in doubt and "16.2.4" in doubt for doubt in placement.caveats)


def test_a_disagreement_is_told(scaled: Dumps) -> None:
    words = json.loads(scaled["osd_pool_autoscale_status.json"])
    words[0]["pg_num_final"] = 256
    dumps = scaled | {"osd_pool_autoscale_status.json": json.dumps(words).encode()}
    (one,) = compute_placement(cluster_inventory(dumps)).disagreements
    assert (one.ours, one.theirs) == (64, 256)


def test_what_is_missing_is_named(scaled: Dumps) -> None:
    for name, said in (
        ("osd_df_tree.json", "the sizes of OSDs were not captured"),
        ("df_detail.json", "the stored bytes of pools were not captured"),
    ):
        dumps = {key: value for key, value in scaled.items() if key != name}
        del dumps["osd_pool_autoscale_status.json"]
        (root,) = compute_placement(cluster_inventory(dumps)).roots
        assert root.advice == ()
        assert said in (root.unknown or "")
    del scaled["osd_crush_dump.json"]
    placement = compute_placement(cluster_inventory(scaled))
    assert placement.roots == ()
    assert any("CRUSH rules of a, b" in doubt for doubt in placement.caveats)


def test_roots_that_share_osds_are_left_alone(scaled: Dumps) -> None:
    crush = json.loads(scaled["osd_crush_dump.json"])
    used = json.loads(scaled["osd_dump.json"])["pools"][0]["crush_rule"]
    extra = json.loads(json.dumps(next(r for r in crush["rules"] if r["rule_id"] == used)))
    extra["rule_id"], extra["steps"][0]["item_name"] = 77, "lab~hdd"
    crush["rules"].append(extra)
    osd_dump = json.loads(scaled["osd_dump.json"])
    osd_dump["pools"][0]["crush_rule"] = 77
    dumps = scaled | {
        "osd_crush_dump.json": json.dumps(crush).encode(),
        "osd_dump.json": json.dumps(osd_dump).encode(),
    }
    roots = compute_placement(cluster_inventory(dumps)).roots
    assert {root.name for root in roots} == {"lab", "lab~hdd"}
    assert all("another root" in (root.unknown or "") for root in roots)


def test_a_root_that_is_overcommitted_has_less_than_nothing_left(scaled: Dumps) -> None:
    words = json.loads(scaled["osd_pool_autoscale_status.json"])
    for word in words:
        word["actual_raw_used"] = 4.0 * word["subtree_capacity"]
        word["pg_num_ideal"] = -7
    dumps = scaled | {"osd_pool_autoscale_status.json": json.dumps(words).encode()}
    (root,) = compute_placement(cluster_inventory(dumps)).roots
    assert min(int(one.raw) for one in root.advice) < 0
    assert not any(one.acts for one in root.advice if one.ratio > 1)
    assert all(format_advice(one, root.settings) for one in root.advice)
