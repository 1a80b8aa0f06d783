"""The commands that change a setting by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.plan.setting_commands import setting_commands
from tests.unit.plan.test_matrix import load

CLUSTERS = {
    "c": {"ceph_conf": "/etc/ceph/ceph.conf"},
    "k": {"kubernetes": {"cpu": 1}},
}
TARGETS = [
    {"name": "rep3", "target": "rbd:rep3"},
    {"name": "ec", "target": "rbd:rep3?data_pool=ec-2-1"},
    {"name": "tank", "target": "zfs:tank"},
    {"name": "made", "target": "zfs+rbd:rep3"},
    {"name": "class", "target": "storageclass:fast"},
]
CONFIG = {"ceph_config": {"who": "osd", "name": "osd_memory_target"}}
POOL = {"pool": {"name": "compression_mode"}}
FIELD = {
    "kubernetes": {
        "kind": "DiskPool",
        "api": "openebs.io/v1beta2",
        "namespace": "openebs",
        "name": "p",
        "path": "spec.cores",
    }
}
COMMAND = {"command": {"apply": "/set {value}", "read": "/get", "restore": "/set {before} back"}}


@pytest.mark.parametrize(
    ("setting", "value", "undo", "lines"),
    [
        (CONFIG, "4G", False, ["ceph config set osd osd_memory_target 4G"]),
        (CONFIG, None, True, ["ceph config rm osd osd_memory_target"]),
        (
            POOL,
            "aggressive",
            False,
            [
                "ceph osd pool set rep3 compression_mode aggressive",
                "ceph osd pool set ec-2-1 compression_mode aggressive",
            ],
        ),
        (
            {"pool": {**POOL["pool"], "pools": ["rep3"]}},
            None,
            True,
            ["ceph osd pool set rep3 compression_mode unset"],
        ),
        (
            {"zfs_parameter": {"name": "zfs_txg_timeout"}},
            "5",
            False,
            ["echo 5 > /sys/module/zfs/parameters/zfs_txg_timeout"],
        ),
        (
            {"zfs_parameter": {"name": "zfs_dirty_data_max"}},
            "1GiB",
            False,
            ["echo 1073741824 > /sys/module/zfs/parameters/zfs_dirty_data_max"],
        ),
        (
            {"host_file": {"path": "/proc/sys/net/ipv4/tcp_rmem", "hosts": ["a", "b"]}},
            "1 2 3",
            False,
            [
                f"""ssh {host} 'echo '"'"'1 2 3'"'"' > /proc/sys/net/ipv4/tcp_rmem'"""
                for host in "ab"
            ],
        ),
        (
            FIELD,
            "2",
            False,
            ["""kubectl -n openebs patch diskpool p --type merge -p '{"spec":{"cores":2}}'"""],
        ),
        (
            FIELD,
            None,
            True,
            ["""kubectl -n openebs patch diskpool p --type merge -p '{"spec":{"cores":null}}'"""],
        ),
        (COMMAND, "a b", False, ["/set 'a b'"]),
        (COMMAND, "a b", True, ["/set 'a b' back"]),
        ({"image": {"object_size": ["1M"]}}, "1M", False, ["rbd create ... --object-size 1M"]),
        ({"dataset": {"recordsize": ["16K"]}}, "16K", False, ["zfs set recordsize=16K DATASET"]),
        ({"zpool": {"ashift": ["9"]}}, "9", False, ["zpool create -o ashift=9 ..."]),
        ({"zpool": {"log": ["1G"]}}, "1G", False, ["zpool add POOL log DEVICE  # of 1G"]),
    ],
)
def test_commands(
    tmp_path: Path, setting: dict[str, Any], value: str | None, undo: bool, lines: list[str]
) -> None:
    (kind, change) = next(iter(setting.items()))
    written = change if kind in ("image", "dataset", "zpool") else {**change, "values": ["1"]}
    plan = load(tmp_path, clusters=CLUSTERS, targets=TARGETS, settings={"s": {kind: written}})
    cluster = "k" if kind == "kubernetes" else "c"
    found = setting_commands(plan, plan.settings[0], value, cluster, undo=undo)
    assert list(found) == lines


def test_datasets_of_each_value_are_targets_of_their_own(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        clusters=CLUSTERS,
        targets=TARGETS,
        settings={
            "record": {"dataset": {"recordsize": ["16K", "1M"]}},
            "slog": {"zpool": {"log": ["rep2/1G"]}},
        },
    )
    assert [(one.url, one.base) for one in plan.targets if one.settings] == [
        ("zfs:tank?recordsize=16K", ""),
        ("zfs:tank?recordsize=1M", ""),
        ("zfs+rbd:rep3?recordsize=16K", ""),
        ("zfs+rbd:rep3?recordsize=1M", ""),
        ("zfs+rbd:rep3?log=rep2/1G", ""),
    ]
