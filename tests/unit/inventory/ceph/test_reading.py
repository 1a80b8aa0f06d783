"""The model of a cluster: what real dumps say, and what is said where they do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph import dumps as names
from leadline.inventory.ceph.dumps import Node
from leadline.inventory.ceph.model import CephfsRole, CephInventory, Crypt, Health, PoolType, Wire
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.ceph.topology import read_placement_groups

Dumps = dict[str, bytes]


def changed(dumps: Dumps, name: str, change: Callable[[Any], object]) -> Dumps:
    """The dumps with one of them changed."""
    value = json.loads(dumps[name])
    change(value)
    return dumps | {name: json.dumps(value).encode()}


def test_what_the_cluster_is(multi_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    assert (cluster.version, cluster.release) == ("16.2.15", "pacific")
    assert cluster.version_number == (16, 2, 15)
    assert not cluster.mixed_versions
    assert cluster.health is Health.OK
    assert cluster.monitors.names == cluster.monitors.in_quorum == ("a",)
    assert (cluster.monitors.leader, cluster.monitors.v1) == ("a", False)
    assert (cluster.managers.active, cluster.managers.standbys) == ("x", ())
    assert cluster.capacity.total_bytes == 6 * 4 << 30
    assert cluster.capacity.full_ratio == pytest.approx(0.95)
    assert cluster.balancer == "upmap"
    assert [(one.state, one.count) for one in cluster.pg_states] == [("active+clean", 144)]


def test_where_osds_stand(multi_az: Dumps, single_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    (root,) = cluster.crush
    levels = [(level.level, level.count) for level in root.levels]
    assert levels == [("root", 1), ("region", 1), ("zone", 3), ("host", 6), ("osd", 6)]
    fourth = cluster.osds[4]
    assert [place.name for place in fourth.location] == ["lab", "eu1", "az2", "z2-h2"]
    assert (fourth.host, fourth.at("zone"), fourth.device_class) == ("z2-h2", "az2", "hdd")
    assert (fourth.up, fourth.is_in, fourth.store, fourth.rotational) == (
        True,
        True,
        "bluestore",
        True,
    )
    assert fourth.size_bytes == 4 << 30
    assert cluster.buckets("zone") == ("az1", "az2", "az3")
    (other,) = cluster_inventory(single_az).crush
    assert [level.level for level in other.levels] == [
        "root", "region", "zone", "rack", "host", "osd",
    ]  # fmt: skip


def test_placement_groups_per_osd(multi_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    pgs = cluster.pgs_per_osd
    assert pgs is not None
    assert (pgs.lowest, pgs.highest, pgs.mean) == (57, 71, 64)
    assert pgs.deviation == pytest.approx(4.76, abs=0.01)
    replicas = sum(pool.pg_num * pool.size for pool in cluster.pools)
    assert sum(osd.pgs or 0 for osd in cluster.osds) == replicas


def test_pools(multi_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    assert [pool.name for pool in cluster.pools] == [
        "rbd_r3", "rbd_r2", "ec21_data", "cephfs_meta", "cephfs_r3", "cephfs_r2",
    ]  # fmt: skip
    coded = cluster.pool("ec21_data")
    assert coded is not None
    assert coded.type is PoolType.ERASURE
    assert coded.erasure is not None
    assert (coded.erasure.k, coded.erasure.m, coded.erasure.plugin) == (2, 1, "jerasure")
    assert coded.overwrites
    assert coded.raw_rate == 1.5
    assert coded.rule is not None
    assert (coded.rule.root, coded.rule.failure_domain) == ("lab", "zone")
    assert (coded.stored_bytes, coded.used_bytes) == (536879104, 805318656)
    meta = cluster.pool("cephfs_meta")
    assert meta is not None
    assert (meta.cephfs_role, meta.filesystem) == (CephfsRole.METADATA, "labfs")
    assert (meta.bias, meta.pg_num_min) == (4.0, 16)


def test_filesystems(multi_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    assert cluster.filesystems is not None
    (one,) = cluster.filesystems
    assert (one.metadata_pool, one.data_pools) == ("cephfs_meta", ("cephfs_r3", "cephfs_r2"))
    assert [(rank.rank, rank.name, rank.state) for rank in one.ranks] == [(0, "a", "up:active")]
    assert cluster.mds_standbys == ()


def test_health_checks_with_detail(single_az: Dumps) -> None:
    (check,) = cluster_inventory(single_az).checks
    assert (check.code, check.severity, check.muted) == (
        "POOL_APP_NOT_ENABLED",
        Health.WARN,
        False,
    )
    assert check.detail[0] == "application not enabled on pool 'h3'"


def test_flags_bounds_and_bytes_of_pools(scaled: Dumps) -> None:
    cluster = cluster_inventory(scaled)
    huge, by_bytes, coded = (cluster.pool(name) for name in ("huge", "bytes", "ec"))
    assert huge is not None
    assert by_bytes is not None
    assert coded is not None
    assert (huge.bulk, huge.pg_num_max) == (True, 16)
    assert by_bytes.target_bytes == 800 << 20
    assert not coded.overwrites


def test_encryption_is_told_by_a_daemon_or_unknown(scaled: Dumps, multi_az: Dumps) -> None:
    told = cluster_inventory(scaled).encryption
    assert (told.between_daemons.wire, told.between_daemons.told_by) == (Wire.SECURE, "osd.0")
    assert told.to_daemons.wire is Wire.CRC_PREFERRED
    assert told.of_clients.wire is Wire.UNKNOWN, "clients read files of their own"
    assert (told.osds_with_dm_crypt, told.osds_unknown) == (1, 2)
    assert cluster_inventory(scaled).osds[1].dm_crypt is Crypt.YES
    silent = {name: dump for name, dump in scaled.items() if "config_show" not in name}
    database = cluster_inventory(silent).encryption.between_daemons
    assert (database.wire, database.configured) == (Wire.UNKNOWN, "secure")


def test_a_device_named_by_dm_crypt_is_encrypted(multi_az: Dumps) -> None:
    def name(metadata: Any) -> None:
        metadata[2]["bluestore_bdev_partition_path"] = "/dev/mapper/ceph-0-vdb-block-dmcrypt"

    cluster = cluster_inventory(changed(multi_az, "osd_metadata.json", name))
    assert [osd.dm_crypt for osd in cluster.osds].count(Crypt.YES) == 1


def test_settings_come_from_the_database_and_from_files(scaled: Dumps) -> None:
    cluster = cluster_inventory(scaled)
    settings = {one.name: one.value for one in cluster.configuration or ()}
    assert settings["mon_target_pg_per_osd"] == "200"
    assert settings["rgw_keystone_admin_password"] == "[redacted]"
    assert cluster.autoscaler.target_pg_per_osd == 200
    assert cluster.autoscaler.target_told_by is not None
    files = {(one.daemon, one.name): one.value for one in cluster.file_settings or ()}
    assert files["osd.0", "osd_objectstore"] == "memstore"
    assert ("osd.0", "ms_cluster_mode") not in files, "it is from the database"


@pytest.mark.parametrize("dump", [dump for dump in names.DUMPS if dump.required])
def test_a_required_dump_that_is_missing_is_asked_for(multi_az: Dumps, dump: names.Dump) -> None:
    del multi_az[dump.name]
    with pytest.raises(LeadlineError) as caught:
        cluster_inventory(multi_az)
    assert caught.value.kind is errors.DUMPS_INVALID
    assert caught.value.fact == f"{dump.name} is missing"
    assert dump.purpose in caught.value.context[0]
    assert f"ceph {dump.command} --format json > {dump.name}" in (caught.value.hint or "")


def test_without_optional_dumps_nothing_is_invented(multi_az: Dumps) -> None:
    required = {dump.name for dump in names.DUMPS if dump.required}
    cluster = cluster_inventory({name: multi_az[name] for name in required})
    missing = {one.dump for one in cluster.not_captured}
    expected = {dump.name for dump in names.DUMPS} - required | {"config_show_osd.0.json"}
    assert missing == expected
    assert cluster.version is cluster.release is cluster.versions is None
    assert cluster.pgs_per_osd is cluster.filesystems is cluster.mds_standbys is None
    assert cluster.configuration is cluster.file_settings is cluster.balancer is None
    assert cluster.autoscale_words is None
    assert cluster.autoscaler.target_told_by is None
    assert cluster.managers.active is cluster.monitors.leader is cluster.monitors.v1 is None
    for osd in cluster.osds:
        assert osd.pgs is osd.size_bytes is osd.rotational is osd.store is None
        assert osd.dm_crypt is Crypt.UNKNOWN
    for pool in cluster.pools:
        assert pool.rule is pool.stored_bytes is pool.objects is None


def test_a_sum_below_zero_is_unknown(multi_az: Dumps) -> None:
    def change(df: Any) -> None:
        df["pools"][0]["stats"].update(stored=-38)

    whole = cluster_inventory(multi_az).pools
    pools = cluster_inventory(changed(multi_az, "df_detail.json", change)).pools
    assert [pool.stored_bytes for pool in pools].count(None) == 1
    assert [pool.objects for pool in pools] == [pool.objects for pool in whole]


def test_rules_are_found_in_either_dump(multi_az: Dumps) -> None:
    rules = json.dumps(json.loads(multi_az["osd_crush_dump.json"])["rules"]).encode()
    del multi_az["osd_crush_dump.json"]
    cluster = cluster_inventory(multi_az | {"osd_crush_rule_dump.json": rules})
    assert cluster.pools[0].rule is not None
    assert "osd_crush_dump.json" not in {one.dump for one in cluster.not_captured}


@pytest.mark.parametrize(
    ("steps", "domain"),
    [
        ([("chooseleaf_firstn", 0, "host")], "host"),
        ([("choose_firstn", 0, "osd")], "osd"),
        ([("choose_firstn", 3, "zone"), ("chooseleaf_firstn", 1, "host")], "zone"),
        ([("choose_firstn", 2, "datacenter"), ("chooseleaf_firstn", 2, "host")], "host"),
        ([("choose_indep", 3, "zone"), ("choose_indep", 2, "osd")], "osd"),
        ([("choose_firstn", 1, "rack"), ("chooseleaf_firstn", 0, "host")], "host"),
    ],
)
def test_the_failure_domain_of_a_rule(
    multi_az: Dumps, steps: list[tuple[str, int, str]], domain: str
) -> None:
    def write(crush: Any) -> None:
        crush["rules"][1]["steps"] = [
            {"op": "take", "item": -2, "item_name": "lab~ssd"},
            *({"op": op, "num": number, "type": level} for op, number, level in steps),
            {"op": "emit"},
        ]

    rule = cluster_inventory(changed(multi_az, "osd_crush_dump.json", write)).pools[0].rule
    assert rule is not None
    assert (rule.root, rule.device_class, rule.failure_domain) == ("lab", "ssd", domain)


def test_mixed_versions_are_seen(multi_az: Dumps) -> None:
    def upgrade(versions: Any) -> None:
        versions["mon"] = {"ceph version 17.2.7 (abcdef) quincy (stable)": 1}
        versions["osd"]["ceph version 17.2.7-rc1 (abcdef) quincy (dev)"] = 2

    cluster = cluster_inventory(changed(multi_az, "versions.json", upgrade))
    assert cluster.mixed_versions
    assert cluster.version == "16.2.15", "that of most OSDs"
    assert ("osd", "17.2.7", 2) in [
        (one.kind, one.version, one.daemons) for one in cluster.versions or ()
    ]


def test_an_osd_outside_the_tree_and_one_that_is_down_and_out(multi_az: Dumps) -> None:
    def move(tree: Any) -> None:
        host = next(node for node in tree["nodes"] if node["name"] == "z1-h1")
        tree["stray"] = [node for node in tree["nodes"] if node["id"] == 0]
        tree["nodes"] = [node for node in tree["nodes"] if node["id"] != 0]
        host["children"] = []

    def fall(dump: Any) -> None:
        dump["osds"][0] |= {"up": 0, "in": 0, "weight": 0, "primary_affinity": 0.5}

    dumps = changed(changed(multi_az, "osd_tree.json", move), "osd_dump.json", fall)
    cluster = cluster_inventory(dumps)
    first = cluster.osds[0]
    assert first.location == ()
    assert (first.up, first.is_in, first.primary_affinity) == (False, False, 0.5)
    assert {level.level: level.count for level in cluster.crush[0].levels}["osd"] == 5


@pytest.mark.parametrize(
    ("name", "change", "where"),
    [
        ("osd_dump.json", lambda d: d.pop("pools"), "has no 'pools'"),
        ("osd_dump.json", lambda d: d["pools"][2].update(size="three"), "pools[2].size"),
        ("osd_dump.json", lambda d: d["pools"][2].update(type=7), "pools[2].type"),
        ("osd_dump.json", lambda d: d["pools"][1].update(size=0), "pools[1].size"),
        ("osd_dump.json", lambda d: d["osds"][1].update(up=2), "osds[1].up"),
        ("osd_tree.json", lambda d: d.update(nodes={}), "nodes is not a list"),
        ("osd_tree.json", lambda d: d["nodes"][0].update(children=[99]), "no node 99"),
        (
            "osd_tree.json",
            lambda d: d["nodes"][1].update(children=[d["nodes"][1]["id"]]),
            "circle",
        ),
        ("status.json", lambda d: d["pgmap"].update(bytes_total=-1), "pgmap.bytes_total"),
        ("health_detail.json", lambda d: d.update(status="HEALTH_FINE"), "status"),
        ("versions.json", lambda d: d["osd"].update({"ceph 12": 1}), "version"),
        ("df_detail.json", lambda d: d["pools"][0]["stats"].pop("stored"), "pools[0].stats"),
    ],
)
def test_a_damaged_dump_is_named_with_the_position(
    multi_az: Dumps, name: str, change: Callable[[Any], object], where: str
) -> None:
    dumps = changed(multi_az, name, change)
    with pytest.raises(LeadlineError) as caught:
        cluster_inventory(dumps)
    assert caught.value.kind is errors.DUMPS_INVALID
    assert caught.value.fact.startswith(name)
    assert where in caught.value.fact


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "it is empty"), (b'{"a": ', "not JSON"), (b"Error EACCES\n{}", "not JSON")],
)
def test_what_is_no_json_is_named(multi_az: Dumps, content: bytes, said: str) -> None:
    with pytest.raises(LeadlineError) as caught:
        cluster_inventory(multi_az | {"osd_dump.json": content})
    assert caught.value.fact.startswith("osd_dump.json is not JSON")
    assert said in caught.value.fact
    assert "ceph osd dump --format json" in (caught.value.hint or "")


def test_ceph_s_own_line_before_the_json_is_no_damage(multi_az: Dumps) -> None:
    said = {
        "fs_dump.json": b"dumped fsmap epoch 6\n",
        "quorum_status.json": b"dumped monmap epoch 1\n",
    }
    plain = cluster_inventory(multi_az)
    prefixed = {name: line + multi_az[name] for name, line in said.items()}
    assert cluster_inventory(multi_az | prefixed) == plain
    with pytest.raises(LeadlineError, match="not JSON"):
        cluster_inventory(multi_az | {"fs_dump.json": b"hello\n" + multi_az["fs_dump.json"]})


def test_it_can_be_stored_and_read_back(multi_az: Dumps) -> None:
    cluster = cluster_inventory(multi_az)
    assert CephInventory.model_validate_json(cluster.model_dump_json()) == cluster


def test_names_of_dumps_are_the_commands() -> None:
    assert names.AUTOSCALE.name == "osd_pool_autoscale_status.json"
    assert names.is_dump("config_show_osd0.json")
    assert names.is_dump("config_show_mgr.host-a.xyz.json")
    assert not names.is_dump("auth_ls.json")
    assert not any(dump.command.startswith("auth") for dump in names.DUMPS)


# --- placement groups ----------------------------------------------------------------------------

# Two lines of a lab's answer (Ceph 16.2.15), one of erasure code with a missing shard, one without
# a primary.
PGS = [
    {"pgid": "3.19", "state": "active+clean", "acting": [0, 1, 2], "acting_primary": 0},
    {"pgid": "1.1b", "state": "active+clean", "acting": [1, 0, 2], "acting_primary": 1},
    {"pgid": "3.1a", "acting": [2147483647, 1, 2], "acting_primary": 1},
    {"pgid": "3.1b", "acting": [2147483647, 2147483647, 2147483647], "acting_primary": -1},
]


@pytest.mark.parametrize("document", [{"pg_ready": True, "pg_stats": PGS}, PGS])
def test_placement_groups_by_pool(document: object) -> None:
    dumps = {names.PGS.name: b"dumped pgs_brief\n" + json.dumps(document).encode()}
    found = read_placement_groups(dumps)
    assert set(found) == {1, 3}
    assert [(one.acting, one.primary) for one in found[3]] == [((0, 1, 2), 0), ((None, 1, 2), 1)]
    assert read_placement_groups({}) == {}


@pytest.mark.parametrize(
    "document", [{}, [{"pgid": "x", "acting": [1], "acting_primary": 1}], [{"pgid": "1.0"}]]
)
def test_damaged_placement_groups_are_refused(document: object) -> None:
    with pytest.raises(LeadlineError) as caught:
        read_placement_groups({names.PGS.name: json.dumps(document).encode()})
    assert caught.value.kind is errors.DUMPS_INVALID


def test_optimised_erasure_code_is_a_flag_of_the_pool(multi_az: Dumps) -> None:
    def optimise(dump: Any) -> None:
        for pool in dump["pools"]:
            pool["flags_names"] += ",ec_optimizations"

    assert not any(pool.fast_erasure for pool in cluster_inventory(multi_az).pools)
    changed_dumps = changed(multi_az, "osd_dump.json", optimise)
    assert all(pool.fast_erasure for pool in cluster_inventory(changed_dumps).pools)


def test_the_place_of_a_labs_clients() -> None:
    lab = {"client_location": "region=r,zone=az1", "description": {}}
    found = names.read_client_place({"lab.json": json.dumps(lab).encode()})
    assert found == {"region": "r", "zone": "az1"}
    assert names.read_client_place({"lab.json": b"{}"}) == names.read_client_place({}) == {}


@pytest.mark.parametrize(
    ("value", "number"),
    [("7", 7), ("7.0", 7), (7.0, 7), (7, 7), ("-3", -3), ("9007199254740993", 9007199254740993)],
)
def test_whole_numbers_as_text_and_with_a_fraction_of_zero(value: object, number: int) -> None:
    assert Node("x.json", "", value).integer == number
