"""Which clusters are not measured, and what is only noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leadline import errors
from leadline.inventory.ceph.model import CephInventory, Unfit, notes, unfit, unfit_without
from leadline.inventory.ceph.reading import cluster_inventory
from tests.conftest import SHARED

Dumps = dict[str, bytes]


def with_health(dumps: Dumps, status: str, code: str, severity: str) -> CephInventory:
    check = {"severity": severity, "summary": {"message": "said so", "count": 1}, "muted": False}
    health = {"status": status, "checks": {code: check}, "mutes": []}
    return cluster_inventory(dumps | {"health_detail.json": json.dumps(health).encode()})


def with_map(dumps: Dumps, pool: dict[str, Any] | None = None, **values: Any) -> CephInventory:
    osd_map = json.loads(dumps["osd_dump.json"]) | values
    osd_map["pools"][0] |= pool or {}
    return cluster_inventory(dumps | {"osd_dump.json": json.dumps(osd_map).encode()})


def test_a_healthy_cluster_and_one_with_a_warning_are_fit(
    multi_az: Dumps, single_az: Dumps
) -> None:
    assert unfit(cluster_inventory(multi_az)) is None
    assert notes(cluster_inventory(multi_az)) == ()
    warned = cluster_inventory(single_az)
    assert unfit(warned) is None
    assert notes(warned) == ("POOL_APP_NOT_ENABLED: 1 pool(s) do not have an application enabled",)


@pytest.mark.parametrize(
    ("status", "code", "severity", "fact"),
    [
        ("HEALTH_ERR", "PG_DAMAGED", "HEALTH_ERR", "the cluster is in HEALTH_ERR"),
        ("HEALTH_ERR", "OSD_FULL", "HEALTH_ERR", "the cluster is full"),
        ("HEALTH_WARN", "POOL_FULL", "HEALTH_WARN", "the cluster is full"),
    ],
)
def test_errors_and_fullness_are_no_ground_to_measure_on(
    multi_az: Dumps, status: str, code: str, severity: str, fact: str
) -> None:
    found = unfit(with_health(multi_az, status, code, severity))
    assert found is not None
    assert found.fact == fact
    assert found.context == (f"{code}: said so",)
    error = found.error()
    assert error.kind is errors.CLUSTER_UNFIT
    assert error.hint


def test_nearly_full_is_a_note(multi_az: Dumps) -> None:
    near = with_health(multi_az, "HEALTH_WARN", "OSD_NEARFULL", "HEALTH_WARN")
    assert unfit(near) is None
    assert notes(near) == ("OSD_NEARFULL: said so",)
    pool = with_map(multi_az, {"flags_names": "hashpspool,nearfull"})
    assert notes(pool) == ("pool rbd_r3 is nearly full",)
    assert unfit(pool) is None


def test_a_full_pool_and_a_paused_cluster_are_unfit(multi_az: Dumps) -> None:
    full = unfit(with_map(multi_az, {"flags_names": "hashpspool,full_quota"}))
    assert full is not None
    assert full.context == ("pool rbd_r3 is full",)
    paused = unfit(with_map(multi_az, flags="sortbitwise,pauserd,pausewr"))
    assert paused is not None
    assert "paused" in paused.fact


def test_flags_that_hold_the_cluster_back_are_noted(multi_az: Dumps) -> None:
    (note,) = notes(with_map(multi_az, flags="noout,noscrub,sortbitwise"))
    assert note.endswith("noout, noscrub")


def test_osds_down_and_what_it_does_to_placement_groups(multi_az: Dumps) -> None:
    drills = SHARED / "corpus" / "ceph-lab" / "drills"
    if not drills.is_dir():
        pytest.skip("../shared is absent: real dumps of a failing cluster are NOT read here")
    cluster = cluster_inventory(
        multi_az
        | {
            "status.json": (drills / "two_down_status.json").read_bytes(),
            "health_detail.json": (drills / "two_down_health.json").read_bytes(),
        }
    )
    assert unfit(cluster) is None, "Ceph calls it a warning"
    assert [check.code for check in cluster.checks] == [
        "OSD_DOWN", "OSD_HOST_DOWN", "PG_AVAILABILITY", "PG_DEGRADED",
    ]  # fmt: skip
    assert cluster.activity.degraded_objects == 2294
    assert sum(one.count for one in cluster.pg_states) == 144


def test_recovery_and_scrubs_are_counted(multi_az: Dumps) -> None:
    status = json.loads(multi_az["status.json"])
    status["pgmap"]["pgs_by_state"] = [
        {"state_name": "active+clean", "count": 10},
        {"state_name": "active+clean+scrubbing", "count": 2},
        {"state_name": "active+clean+scrubbing+deep", "count": 3},
        {"state_name": "active+remapped+backfill_wait", "count": 4},
        {"state_name": "active+recovering+degraded", "count": 5},
    ]
    cluster = cluster_inventory(multi_az | {"status.json": json.dumps(status).encode()})
    doing = cluster.activity
    assert (doing.scrubbing_pgs, doing.deep_scrubbing_pgs) == (2, 3)
    assert (doing.backfilling_pgs, doing.recovering_pgs) == (4, 5)
    assert len(notes(cluster)) == 4


def without(cluster: CephInventory, host: str, **values: int | None) -> Unfit | None:
    """Why the others cannot hold a host's data; `values` are others of its OSDs."""
    osds = tuple(
        osd.model_copy(update=values if osd.at("host") == host else {}) for osd in cluster.osds
    )
    return unfit_without(cluster.model_copy(update={"osds": osds}), host)


def test_the_data_of_a_host_fits_on_the_others_of_its_zone(multi_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    assert without(cluster, "z1-h1", used_bytes=1 << 30) is None
    full = without(cluster, "z1-h1")
    assert full is not None
    assert full.fact == "the other OSDs cannot hold the data of the host 'z1-h1'"
    # 2.13 GiB and 1.52 GiB, all on osd.3 of 4 GiB: each of three zones has a copy.
    assert full.context == ("osd.3 would be 91% full; 85% is nearly full",)


def test_with_more_domains_than_copies_all_of_them_take_the_data(multi_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    pools = tuple(pool.model_copy(update={"size": 2}) for pool in cluster.pools)
    assert without(cluster.model_copy(update={"pools": pools}), "z1-h1") is None


def test_a_host_that_is_needed_for_all_copies_cannot_be_drained(single_az: Dumps) -> None:
    cluster = cluster_inventory(single_az)
    found = without(cluster, "r1-h1")
    assert found is not None
    assert "'rbd_r3' needs 3 failure domains (rack)" in found.fact
    assert found.error().kind is errors.CLUSTER_UNFIT


def test_what_is_unknown_of_a_host_forbids_draining_it(multi_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    unmeasured = without(cluster, "z1-h1", used_bytes=None)
    assert unmeasured is not None
    assert "used space of the OSDs is unknown" in unmeasured.fact
    missing = without(cluster, "z1-h9")
    assert missing is not None
    assert "no host 'z1-h9'" in missing.fact
    pools = (cluster.pools[0].model_copy(update={"rule": None}), *cluster.pools[1:])
    ruleless = without(cluster.model_copy(update={"pools": pools}), "z1-h1")
    assert ruleless is not None
    assert "failure domain of the pool 'rbd_r3' is unknown" in ruleless.fact
    held = without(with_map(multi_az, flags="sortbitwise,nobackfill"), "z1-h1", used_bytes=0)
    assert held is not None
    assert held.hint == "`ceph osd unset nobackfill`"
