"""What a lab's cluster is reported: places, ceph.conf, commands, keys. All pure."""

from __future__ import annotations

import base64
import configparser
import struct
from pathlib import Path

import pytest

from leadline.lab import conf, pools
from leadline.lab.conf import Addresses, Paths, client_location, places, render, sites
from leadline.plan.lab import LabDescription, LabPool, Store, Topology

PATHS = Paths(folder=Path("/labs/study"), memory=Path("/dev/shm/leadline-lab-1"))


def rendered(description: LabDescription) -> configparser.ConfigParser:
    names = sites(description)
    text = render(
        fsid="fsid",
        description=description,
        paths=PATHS,
        addresses=Addresses(
            mon="10.77.1.1",
            mon_port=3300,
            sites={name: f"10.77.{number}.1" for number, name in enumerate(names, 1)},
        ),
        places=places(description),
    )
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return parser


def test_osds_go_round_the_zones_then_the_hosts() -> None:
    found = places(LabDescription(hosts_per_domain=2, osds_per_host=2))
    assert [place.domain for place in found[:4]] == ["az1", "az2", "az3", "az1"]
    assert [place.host for place in found if place.domain == "az2"] == [
        *("az2-h1", "az2-h2", "az2-h1", "az2-h2")
    ]
    assert found[1].crush_location == "root=lab region=eu1 zone=az2 host=az2-h1"


def test_a_single_zone_has_three_racks_in_it() -> None:
    found = places(LabDescription(topology=Topology.SINGLE_ZONE))
    assert found[2].crush_location == "root=lab region=eu1 zone=az1 rack=r3 host=r3-h1"
    assert (
        client_location(LabDescription(topology=Topology.SINGLE_ZONE))
        == "region=eu1,zone=az1,rack=r1"
    )
    assert client_location(LabDescription()) == "region=eu1,zone=az1"


def test_hosts_of_one_zone_are_failure_domains_and_share_a_network() -> None:
    description = LabDescription(topology=Topology.HOSTS, domains=5, osds_per_host=2)
    found = places(description)
    assert [place.host for place in found] == [f"h{number}" for number in (1, 2, 3, 4, 5)] * 2
    assert found[6].crush_location == "root=lab region=eu1 zone=az1 host=h2"
    assert sites(description) == ("az1",)
    assert client_location(description) == "region=eu1,zone=az1"
    parser = rendered(description)
    assert {parser[f"osd.{place.osd}"]["public_addr"] for place in found} == {"10.77.1.1"}
    commands = list(pools.pool_commands(description))
    assert commands[0].arguments == {"name": "rep_host", "root": "lab", "type": "host"}
    profile = next(
        command for command in commands if command.prefix == "osd erasure-code-profile set"
    )
    assert "crush-failure-domain=host" in str(profile.arguments["profile"])


def test_nothing_is_written_outside_the_folder() -> None:
    for description in (LabDescription(), LabDescription(store=Store.BLUESTORE_IN_MEMORY)):
        parser = rendered(description)
        for section in parser.sections():
            for key, value in parser[section].items():
                if "/" in value:
                    inside = value.startswith(("/labs/study/", "/dev/shm/leadline-lab-1/"))
                    assert inside, (section, key)
        for key in ("log_file", "admin_socket", "run_dir", "crash_dir"):
            assert parser["global"][key].startswith("/labs/study/")
        assert parser["mon"]["mon_cluster_log_file"].startswith("/labs/study/")
        assert parser["client"]["log_file"] == parser["client"]["admin_socket"] == ""


def test_daemons_are_in_their_zone_and_the_client_needs_only_the_file() -> None:
    parser = rendered(LabDescription())
    assert parser["global"]["mon_host"] == "[v2:10.77.1.1:3300]"
    assert parser["osd.1"]["public_addr"] == parser["osd.1"]["cluster_addr"] == "10.77.2.1"
    assert parser["mds"]["public_addr"] == "10.77.1.1"


def test_authentication_and_encryption() -> None:
    open_to_all = rendered(LabDescription())["global"]
    assert open_to_all["auth_client_required"] == "none"
    assert not [key for key in open_to_all if key.endswith("_mode") and key.startswith("ms_")]
    secure = rendered(LabDescription(authentication=True, encryption=True))["global"]
    assert secure["auth_cluster_required"] == "cephx"
    modes = {secure[key] for key in secure if key.startswith("ms_") and key.endswith("_mode")}
    assert modes == {"secure"}


@pytest.mark.parametrize(
    ("store", "settings"),
    [
        (Store.BLUESTORE, {"osd_objectstore": "bluestore", "bluestore_block_size": "4294967296"}),
        (Store.MEMSTORE, {"osd_objectstore": "memstore", "memstore_device_bytes": "4294967296"}),
    ],
)
def test_stores(store: Store, settings: dict[str, str]) -> None:
    parser = rendered(LabDescription(store=store))
    assert settings.items() <= dict(parser["osd"]).items()
    assert "bluestore_block_path" not in parser["osd.0"]


def test_a_store_in_memory_has_its_block_file_there() -> None:
    parser = rendered(LabDescription(store=Store.BLUESTORE_IN_MEMORY))
    assert parser["osd.2"]["bluestore_block_path"] == "/dev/shm/leadline-lab-1/osd.2"


def test_the_pools_of_the_contract() -> None:
    commands = list(pools.pool_commands(LabDescription()))
    created = [command.arguments for command in commands if command.prefix == "osd pool create"]
    assert [item["pool"] for item in created] == [
        *("rep3", "rep2", "ec-2-1", "cephfs-metadata", "cephfs-rep3", "cephfs-rep2")
    ]
    sizes = {item["pool"]: item.get("size") for item in created}
    assert sizes == {
        "rep3": 3,
        "rep2": 2,
        "ec-2-1": None,
        "cephfs-metadata": 3,
        "cephfs-rep3": 3,
        "cephfs-rep2": 2,
    }
    assert commands[0].arguments == {"name": "rep_zone", "root": "lab", "type": "zone"}
    profile = next(
        command for command in commands if command.prefix == "osd erasure-code-profile set"
    )
    assert {"k=2", "m=1", "crush-failure-domain=zone"} <= set(profile.arguments["profile"])  # type: ignore[call-overload]
    filesystem = next(command for command in commands if command.prefix == "fs new")
    assert filesystem.arguments["data"] == "cephfs-rep3"
    assert {
        command.arguments["pool"] for command in commands if "application" in command.prefix
    } == {*("rep3", "rep2", "ec-2-1")}


def test_a_single_zone_spreads_over_racks() -> None:
    description = LabDescription(topology=Topology.SINGLE_ZONE)
    commands = list(pools.pool_commands(description))
    assert commands[0].arguments == {"name": "rep_rack", "root": "lab", "type": "rack"}


def test_a_subset_of_pools_has_only_those() -> None:
    description = LabDescription(pools=(LabPool.REP2,))
    prefixes = [pool_command.prefix for pool_command in pools.pool_commands(description)]
    assert prefixes.count("osd pool create") == 1
    assert "fs new" not in prefixes
    assert pools.metadata_pool(LabPool.EC_2_1) == "rep3"
    assert pools.metadata_pool(LabPool.REP2) is None


def test_placement_groups_are_counted_as_created() -> None:
    for description in (
        LabDescription(),
        LabDescription(hosts_per_domain=4),
        LabDescription(topology=Topology.HOSTS, domains=5),
    ):
        created = [
            int(str(pool_command.arguments["pg_num"]))
            for pool_command in pools.pool_commands(description)
            if pool_command.prefix == "osd pool create"
        ]
        assert sum(created) == pools.placement_groups_of_all(description)


def test_keys_are_of_the_form_that_ceph_reads_and_differ() -> None:
    one, other = conf.new_key(), conf.new_key()
    assert one != other
    kind, _, _, length = struct.unpack("<HIIH", base64.b64decode(one)[:12])
    assert (kind, length, len(base64.b64decode(one))) == (1, 16, 28)
    text = conf.render_keyring({"mon.a": one, "osd.0": other}, conf.capabilities(1))
    assert "[mon.]\n" in text
    assert "[osd.0]\n" in text
