"""The table of effects: its schema, and that every known difference has its line."""

from __future__ import annotations

import pytest
from compared_cells import difference

from leadline.analysis.explain.effects import (
    LABELS,
    REDUNDANCY,
    ZONES,
    Effect,
    find_effects,
    load_effects,
)
from leadline.data import load_table
from leadline.inventory.diff.ceph import CPU_BUDGET


def test_the_table_has_its_schema() -> None:
    """`load_table` validates the fields."""
    found = load_table("effects", tuple[Effect, ...])
    assert len(found) > 100
    for row in found:
        assert all((row.pattern, row.cause, row.label, row.mechanism, row.source))
        assert not row.mechanism.endswith(".")
        assert row.rank == 0, "the order is the rank"
    assert {ZONES, REDUNDANCY, LABELS} <= {row.cause for row in found}
    assert found[-1].cause == LABELS, "labels are the weakest evidence"


def test_the_rank_is_the_order() -> None:
    assert [effect.rank for effect in load_effects()] == list(range(len(load_effects())))
    assert all(effect.ops for effect in load_effects())


@pytest.mark.parametrize(
    "path",
    [
        CPU_BUDGET,
        "topology.crush_levels",
        "topology.hosts",
        "topology.osds",
        "network.inter_zone_rtt",
        "pools.some pool.failure_domain",
        "pools.some pool.redundancy",
        "pools.some pool.pg_num",
        "pools.some pool.device_class",
        "pools.some pool.compression",
        "pools.some pool.pg_state",
        "media.device_class",
        "media.medium",
        "media.store",
        "media.osd_size",
        "placement.pgs_per_osd",
        "placement.balancer",
        "placement.primary_affinity",
        "encryption.wire",
        "encryption.wire.to_daemons",
        "encryption.at_rest",
        "services.mds",
        "software.ceph",
        "health.osds",
        "health.activity",
        "health.flags",
        "client.cpu",
        "targets.t.device",
        "settings.osd.osd_op_queue",
    ],
)
def test_every_difference_that_acts_on_speed_has_an_effect(path: str) -> None:
    assert find_effects(difference(path, "a", "b"))


@pytest.mark.parametrize("key", ["min_size", "autoscale_mode", "target_ratio"])
def test_differences_without_an_effect_on_speed_have_none(key: str) -> None:
    assert find_effects(difference(f"pools.some pool.{key}", "a", "b")) == ()
