"""Runs on two nodes: each with its own volume, and with one volume that pods on both share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import second_node
from tests.kubernetes.cluster import NODE, Cluster
from tests.kubernetes.driving import MIB, Leadline, nothing_left
from tests.kubernetes.parts import SECOND_NODE, ZONES

SMALL = {"cpu": "100m", "memory": "64Mi"}
DEFAULTS = {"size": "8M", "runtime": "1s", "ramp": "0s"}
BOTH = {NODE, SECOND_NODE}


@pytest.fixture(scope="module")
def nodes(cluster: Cluster) -> Iterator[Cluster]:
    with second_node.joined(cluster):
        yield cluster


def run(leadline: Leadline, target: str, **more: Any) -> list[dict[str, Any]]:
    """Run one trial on a target that leaves nothing; its runners."""
    with nothing_left(leadline.cluster):
        plan = leadline.plan(f"one={target}", cluster=SMALL, defaults=DEFAULTS, **more)
        leadline("run", plan).answered()
    (path,) = leadline.run.glob("trials/*/runners.json")
    found: list[dict[str, Any]] = json.loads(path.read_text())["runners"]
    return found


@pytest.mark.parametrize("by", ["node", pytest.param("zone", marks=pytest.mark.deep)])
def test_every_node_or_zone_has_a_volume(nodes: Cluster, tmp_path: Path, by: str) -> None:
    leadline = Leadline(cluster=nodes, folder=tmp_path)
    runners = run(leadline, f"storageclass:fast?size=64Mi&count=all&spread={by}")
    assert {runner["node"] for runner in runners} == BOTH
    assert len({runner["volume"]["volume"] for runner in runners}) == 2


@pytest.mark.deep
@pytest.mark.parametrize("zone", ZONES.values())
def test_a_runner_is_in_the_zone_that_is_asked_for(
    nodes: Cluster, tmp_path: Path, zone: str
) -> None:
    leadline = Leadline(cluster=nodes, folder=tmp_path)
    (runner,) = run(leadline, f"storageclass:fast?size=64Mi&zone={zone}")
    assert ZONES[runner["node"]] == zone


@pytest.mark.parametrize(
    "sharing", ["own-files", pytest.param("same-files", marks=pytest.mark.deep)]
)
def test_pods_on_two_nodes_share_a_volume(nodes: Cluster, tmp_path: Path, sharing: str) -> None:
    leadline = Leadline(cluster=nodes, folder=tmp_path)
    options = f"size=64Mi&access=rwx&sharing={sharing}&count=2&spread=node"
    runners = run(leadline, f"storageclass:shared?{options}", workload={"pattern": "randrw"})
    assert {runner["node"] for runner in runners} == BOTH
    assert len({runner["volume"]["volume"] for runner in runners}) == 1
    (trial,) = leadline.trials()
    files = 2 if sharing == "own-files" else 1
    assert trial["extent"]["written_bytes"] == files * 8 * MIB
