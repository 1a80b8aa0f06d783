"""The inventory of a real cluster (a lab), held against Ceph's own programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from leadline.connect.ceph import CephAccess, Connection
from leadline.inventory.ceph.model import CephInventory, unfit
from leadline.inventory.ceph.placement import compute_placement
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.lab.state import lab_access
from leadline.probes.ceph import Answer, capture
from tests.real.conftest import Ended

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]


@pytest.fixture(scope="module")
def access(lab: str) -> CephAccess:
    return lab_access(lab)


@pytest.fixture(scope="module")
def answers(access: CephAccess) -> tuple[dict[str, bytes], list[Answer]]:
    told: list[Answer] = []
    with Connection(access) as connection:
        return capture(connection, told.append), told


@pytest.fixture(scope="module")
def cluster(answers: tuple[dict[str, bytes], list[Answer]]) -> CephInventory:
    return cluster_inventory(answers[0])


@pytest.fixture(scope="module")
def ceph(access: CephAccess) -> Callable[..., Any]:
    """What the `ceph` program says, as JSON."""

    def ask(*words: str) -> Any:
        command = access.command("ceph", *words, "--format", "json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)

    return ask


def test_nothing_is_missing_and_it_takes_no_time(
    answers: tuple[dict[str, bytes], list[Answer]], cluster: CephInventory
) -> None:
    captured, told = answers
    assert [item.dump.command for item in told if item.refused] == []
    assert len(captured) == len(told)
    assert cluster.not_captured == ()
    # The median: a machine that stands still for a while makes one of them slow.
    assert median(item.seconds for item in told) < 0.5, "this is milliseconds"
    assert unfit(cluster) is None


def test_osds_and_pools_are_those_that_ceph_shows(
    cluster: CephInventory, ceph: Callable[..., Any]
) -> None:
    tree = ceph("osd", "tree")
    shown = {node["id"]: node for node in tree["nodes"] if node["type"] == "osd"}
    assert [osd.id for osd in cluster.osds] == sorted(shown)
    for osd in cluster.osds:
        assert osd.up == (shown[osd.id]["status"] == "up")
        assert osd.location
        assert osd.host
    pools = {pool["pool_name"]: pool for pool in ceph("osd", "pool", "ls", "detail")}
    assert {pool.name for pool in cluster.pools} == set(pools)
    for pool in cluster.pools:
        assert (pool.size, pool.pg_num) == (pools[pool.name]["size"], pools[pool.name]["pg_num"])
    assert {pool.name for pool in cluster.pools} >= {"rep3", "rep2", "ec-2-1", "cephfs-rep3"}


def test_versions_and_health(cluster: CephInventory, ceph: Callable[..., Any]) -> None:
    overall = ceph("versions")["overall"]
    assert cluster.version is not None
    assert all(f"ceph version {cluster.version} " in told for told in overall)
    assert cluster.fsid == ceph("status")["fsid"]


def test_placement_groups_are_what_the_manager_says(cluster: CephInventory) -> None:
    placement = compute_placement(cluster)
    assert placement.compared == len(cluster.pools)
    assert placement.disagreements == ()


def test_the_command_line_and_saved_dumps(
    lab: str, process: Callable[..., Ended], tmp_path: Path
) -> None:
    saved = tmp_path / "dumps"
    live = process("inventory", "--lab", lab, "--save", saved, "--format", "json")
    assert live.status == 0, live.err
    read = process("inventory", "--from-dir", saved, "--format", "json")
    assert json.loads(read.out) | {"source": ""} == json.loads(live.out) | {"source": ""}
    screen = process("inventory", "--lab", lab)
    assert screen.status == 0
    assert screen.out.startswith("Ceph ")
    for path in saved.iterdir():
        assert b"AQ" not in path.read_bytes() or b"==" not in path.read_bytes(), path.name
