"""Differences of clusters: two real ones, and single facts changed in copies of one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from leadline.inventory.ceph.autoscaler import Mode
from leadline.inventory.ceph.model import CephInventory, Health, Setting, Wire
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.diff import Difference, Differing, Topic, ceph_differences

NAMES = ("rbd_r3", "rbd_r2", "ec21_data", "cephfs_r3")
SAME = {name: (name, name) for name in NAMES}


@pytest.fixture
def multi(multi_az: dict[str, bytes]) -> CephInventory:
    return cluster_inventory(multi_az)


@pytest.fixture
def single(single_az: dict[str, bytes]) -> CephInventory:
    return cluster_inventory(single_az)


def by_path(found: Differing) -> Mapping[str, Difference]:
    paths = [one.path for one in found.differences]
    assert len(paths) == len(set(paths)), "a path names one difference"
    return {one.path: one for one in found.differences}


def texts(found: Differing) -> dict[str, tuple[str, str]]:
    return {path: (one.baseline, one.candidate) for path, one in by_path(found).items()}


def with_pool(inventory: CephInventory, name: str, **changes: object) -> CephInventory:
    pools = [
        pool.model_copy(update=changes) if pool.name == name else pool for pool in inventory.pools
    ]
    return inventory.model_copy(update={"pools": tuple(pools)})


# --- the recorded pair ---------------------------------------------------------------------------


def test_the_recorded_pair_differs_in_what_people_would_name(
    single: CephInventory, multi: CephInventory
) -> None:
    found = ceph_differences(single, multi, SAME)
    assert texts(found) == {
        "topology.crush_levels": ("1 region > 1 zone > 3 racks", "1 region > 3 zones"),
        "topology.hosts": ("3 hosts", "6 hosts"),
        "topology.osds": ("3 OSDs", "6 OSDs"),
        "pools.*.failure_domain": ("rack", "zone"),
        "pools.others": ("h3", "none"),
        "placement.pgs_per_osd": ("192", "64"),
        "media.osd_size": ("3 GiB", "4 GiB"),
        "capacity.used": ("18 %", "49 %"),
        "health.status": ("HEALTH_WARN: POOL_APP_NOT_ENABLED", "HEALTH_OK"),
    }
    assert {
        "release 16.2.15 pacific",
        "device class hdd",
        "store bluestore",
        "balancer upmap",
        "PGs of all 4 pools",
        "MDS 1 active, 0 standing by",
    } <= set(found.identical)
    assert found.unknown == ("encryption at rest",)


def test_topics_come_in_the_order_in_which_people_ask(
    single: CephInventory, multi: CephInventory
) -> None:
    order = list(Topic)
    ranks = [order.index(one.topic) for one in ceph_differences(single, multi, SAME).differences]
    assert ranks == sorted(ranks)


def test_the_other_way_round_swaps_the_sides_and_nothing_else(
    single: CephInventory, multi: CephInventory
) -> None:
    there = texts(ceph_differences(single, multi, SAME))
    back = texts(ceph_differences(multi, single, SAME))
    assert back == {path: (right, left) for path, (left, right) in there.items()}


@pytest.mark.parametrize("which", ["multi", "single"])
def test_a_cluster_does_not_differ_from_itself(which: str, request: pytest.FixtureRequest) -> None:
    inventory: CephInventory = request.getfixturevalue(which)
    found = ceph_differences(inventory, inventory, SAME)
    assert found.differences == ()
    assert "the same cluster" in found.identical


def test_names_ids_and_places_are_no_difference(multi: CephInventory) -> None:
    """Everything that only names something is changed; nothing is told."""
    osds = tuple(
        osd.model_copy(
            update={
                "id": osd.id + 100,
                "uuid": f"other-{osd.id}",
                "host": f"renamed-{osd.host}",
                "location": tuple(
                    place.model_copy(
                        update={"name": place.name if place.level == "root" else f"x{place.name}"}
                    )
                    for place in osd.location
                ),
            }
        )
        for osd in multi.osds
    )
    pools = tuple(
        pool.model_copy(
            update={"id": pool.id + 40, "rule_id": pool.rule_id + 7, "name": f"new-{pool.name}"}
        )
        for pool in multi.pools
    )
    other = multi.model_copy(
        update={
            "fsid": "00000000-0000-0000-0000-000000000000",
            "osds": osds,
            "pools": pools,
            "monitors": multi.monitors.model_copy(update={"names": ("zz",), "leader": "zz"}),
        }
    )
    pairs = {pool.name: (pool.name, f"new-{pool.name}") for pool in multi.pools}
    assert ceph_differences(multi, other, pairs).differences == ()


# --- pools ---------------------------------------------------------------------------------------


def test_what_only_some_pools_have_is_told_of_each(multi: CephInventory) -> None:
    other = with_pool(multi, "rbd_r3", size=2, min_size=1)
    found = by_path(ceph_differences(multi, other, SAME))
    assert set(found) == {"pools.rbd_r3.redundancy", "pools.rbd_r3.min_size"}
    assert found["pools.rbd_r3.redundancy"].baseline == "3 copies"
    assert found["pools.rbd_r3.redundancy"].candidate == "2 copies"
    assert found["pools.rbd_r3.redundancy"].target == "rbd_r3"


def test_pools_that_all_differ_but_not_alike_are_told_one_by_one(multi: CephInventory) -> None:
    other = with_pool(with_pool(multi, "rbd_r3", size=2), "rbd_r2", size=3)
    pairs = {name: (name, name) for name in ("rbd_r3", "rbd_r2")}
    assert texts(ceph_differences(multi, other, pairs)) == {
        "pools.rbd_r3.redundancy": ("3 copies", "2 copies"),
        "pools.rbd_r2.redundancy": ("2 copies", "3 copies"),
    }


def test_two_pools_of_one_cluster(multi: CephInventory) -> None:
    found = ceph_differences(multi, multi, {"rbd": ("ec21_data", "rbd_r2")})
    assert texts(found) == {
        "pools.rbd.redundancy": ("EC 2+1", "2 copies"),
        "pools.rbd.min_size": ("2", "1"),
    }


def test_pg_num_set_by_hand_is_said_to_be(multi: CephInventory) -> None:
    other = with_pool(multi, "rbd_r3", pg_num=128, pgp_num=128, pg_num_target=128)
    found = by_path(ceph_differences(multi, other, SAME))["pools.rbd_r3.pg_num"]
    assert (found.baseline, found.candidate) == ("32", "128")
    assert found.meaning.startswith("On both set by hand")


def test_pg_num_by_the_autoscaler_comes_with_its_arithmetic(scaled: dict[str, bytes]) -> None:
    """The second of two equal pools takes its part of what the first left."""
    inventory = cluster_inventory(scaled)
    found = by_path(ceph_differences(inventory, inventory, {"p": ("a", "b")}))["pools.p.pg_num"]
    first, second = (inventory.pool(name) for name in "ab")
    assert first is not None
    assert second is not None
    assert first.target_ratio == second.target_ratio
    assert (found.baseline, found.candidate) == (str(first.pg_num), str(second.pg_num))
    ours, theirs = found.meaning.split("; candidate ")
    assert "3 OSDs x 200 = 600" in ours
    assert "left" in theirs
    assert "smaller ids" in theirs
    assert "smaller ids" not in ours


def test_a_pool_under_the_autoscaler_differs_in_mode_from_one_by_hand(
    multi: CephInventory,
) -> None:
    other = with_pool(multi, "rbd_r3", autoscale_mode=Mode.ON, pg_num=64)
    found = by_path(ceph_differences(multi, other, {"p": ("rbd_r3", "rbd_r3")}))
    assert found["pools.p.autoscale_mode"].candidate == "on"
    meaning = found["pools.p.pg_num"].meaning
    assert "Baseline set by hand" in meaning
    assert "candidate by the autoscaler" in meaning


def test_a_pool_that_is_not_there_is_unknown(multi: CephInventory) -> None:
    found = ceph_differences(multi, multi, {"gone": ("rbd_r3", "no-such-pool")})
    assert any("gone" in one for one in found.unknown)
    assert not [one for one in found.differences if one.path.startswith("pools.gone")]


def test_a_failure_domain_that_was_not_captured_is_unknown(multi: CephInventory) -> None:
    found = ceph_differences(multi, with_pool(multi, "rbd_r3", rule=None), SAME)
    assert "failure_domain of rbd_r3" in found.unknown
    assert not [path for path in by_path(found) if "failure_domain" in path]


# --- state ---------------------------------------------------------------------------------------


def test_encryption(multi: CephInventory, scaled: dict[str, bytes]) -> None:
    mode = multi.encryption.between_daemons
    secure = multi.encryption.model_copy(
        update={
            key: mode.model_copy(update={"wire": Wire.SECURE})
            for key in ("between_daemons", "to_daemons", "of_clients")
        }
        | {"osds_with_dm_crypt": 6, "osds_unknown": 0}
    )
    crc = multi.encryption.model_copy(
        update={
            key: mode.model_copy(update={"wire": Wire.CRC})
            for key in ("between_daemons", "to_daemons", "of_clients")
        }
    )
    ours = multi.model_copy(update={"encryption": crc})
    theirs = multi.model_copy(update={"encryption": secure})
    assert texts(ceph_differences(ours, theirs, SAME)) == {
        "encryption.wire": ("not encrypted", "encrypted"),
        "encryption.at_rest": ("on no OSD that the cluster knows of", "dm-crypt on all OSDs"),
    }
    # Where kinds of connection differ they are told one by one.
    half = secure.model_copy(update={"to_daemons": crc.to_daemons})
    found = texts(ceph_differences(ours, multi.model_copy(update={"encryption": half}), SAME))
    assert {path for path in found if "wire" in path} == {
        "encryption.wire.between_daemons",
        "encryption.wire.of_clients",
    }


def test_health_flags_and_activity(multi: CephInventory) -> None:
    other = multi.model_copy(
        update={
            "health": Health.WARN,
            "flags": (*multi.flags, "noscrub"),
            "activity": multi.activity.model_copy(update={"recovering_pgs": 3}),
        }
    )
    found = texts(ceph_differences(multi, other, SAME))
    assert found["health.flags"] == ("none", "noscrub")
    assert found["health.activity"] == ("none", "recovering")
    assert found["health.status"][1].startswith("HEALTH_WARN")


def test_settings_that_bear_on_io_are_told_and_noise_is_not(multi: CephInventory) -> None:
    noise = [
        ("global", "fsid", "x"),
        ("global", "public_network", "10.0.0.0/8"),
        ("mgr", "mgr/dashboard/ssl", "false"),
        ("mgr", "mgr/cephadm/container_image_base", "quay.io/x"),
        ("mon", "mon_warn_on_pool_no_redundancy", "false"),
        ("osd", "debug_osd", "0/0"),
        ("global", "osd_pool_default_size", "2"),
        ("global", "ms_cluster_mode", "secure"),
    ]
    real = [("osd", "osd_mclock_profile", "high_client_ops"), ("client", "rbd_cache", "false")]
    settings = tuple(
        Setting(section=section, name=name, value=value) for section, name, value in [*noise, *real]
    )
    other = multi.model_copy(update={"configuration": (*(multi.configuration or ()), *settings)})
    assert texts(ceph_differences(multi, other, SAME)) == {
        "settings.osd.osd_mclock_profile": ("default", "high_client_ops"),
        "settings.client.rbd_cache": ("default", "false"),
    }


def test_what_osds_measured_of_themselves_differs_only_when_it_is_far_off(
    multi: CephInventory,
) -> None:
    def measured(values: list[float]) -> CephInventory:
        name = "osd_mclock_max_capacity_iops_ssd"
        return multi.model_copy(
            update={
                "configuration": tuple(
                    Setting(section=f"osd.{number}", name=name, value=f"{value:.6f}")
                    for number, value in enumerate(values)
                )
            }
        )

    near = ceph_differences(measured([20000, 21000, 22000]), measured([20500, 21500, 22600]), SAME)
    assert near.differences == ()
    far = ceph_differences(measured([20000, 21000, 22000]), measured([40000, 41000, 42000]), SAME)
    assert list(texts(far)) == ["settings.osd.osd_mclock_max_capacity_iops_ssd"]


def test_only_osds_that_serve_the_compared_pools_count(multi: CephInventory) -> None:
    """An OSD in a root of its own, on another medium, is none of the pools' business."""
    stray = multi.osds[0].model_copy(
        update={
            "id": 99,
            "location": (multi.osds[0].location[0].model_copy(update={"name": "archive"}),),
            "device_class": "hdd-slow",
            "size_bytes": 1 << 44,
        }
    )
    other = multi.model_copy(update={"osds": (*multi.osds, stray)})
    assert ceph_differences(multi, other, SAME).differences == ()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("2026-11-01", None),
        ("2024-02-29", ("2026-11-20", "2024-02-29")),
    ],
)
def test_age_counts_from_a_month_on(
    single: CephInventory, other: str, told: tuple[str, str] | None
) -> None:
    assert single.created == "2026-11-20"
    found = ceph_differences(single, single.model_copy(update={"created": other}), SAME)
    assert texts(found).get("capacity.created") == told
    assert ("age to within a month" in found.identical) is (told is None)


def test_an_age_that_one_side_does_not_tell_is_unknown(single: CephInventory) -> None:
    found = ceph_differences(single, single.model_copy(update={"created": None}), SAME)
    assert "age" in found.unknown


@pytest.mark.parametrize(
    ("written", "day"),
    [
        (b'"created":"2019-05-06 07:08:09.123456"', "2019-05-06"),
        (b'"created":"0.000000"', None),
        (b'"created":"2026-13-99T00:00:00.0+0000"', None),
        (b'"other":"x"', None),
    ],
)
def test_the_day_of_creation_in_every_form_that_ceph_writes(
    single_az: dict[str, bytes], written: bytes, day: str | None
) -> None:
    real = b'"created":"2026-11-20T21:07:54.663458+0000"'
    dump = single_az["osd_dump.json"]
    assert dump.count(real) >= 1
    changed = single_az | {"osd_dump.json": dump.replace(real, written, 1)}
    assert cluster_inventory(changed).created == day
