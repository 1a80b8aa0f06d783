"""Targets of ZFS and its streams on real OpenZFS 2.3, on a disk of this machine and on librbd."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from leadline.connect.ceph import CephAccess
from tests.guest.conftest import DISK_IMAGE, IMAGE_DISK, device
from tests.guest.measuring import answer, flow, kinds, measured, run
from tests.guest.zfs_guest import ZfsGuest

MIB = 1 << 20
RECORD_SIZES = """
leadline: 1
name: records
targets:
  - {name: small, target: "zfs:tank?recordsize=16K&compression=off"}
  - {name: large, target: "zfs:tank?recordsize=1M&compression=off"}
repeats: 1
grace: 2m
defaults: {size: 32M, runtime: 6s, ramp: 0s}
workloads:
  - {name: sequential, pattern: write, block_size: 1M, iodepth: 2}
  - {name: stream, engine: zfs-stream, pattern: write, size: 32M}
"""


def test_the_module_is_the_real_one(guest: ZfsGuest) -> None:
    version = guest.sh("cat /sys/module/zfs/version").strip()
    assert version.startswith("2.3."), version
    assert guest.sh("cat /sys/module/zfs/parameters/zfs_max_recordsize").strip() == str(16 * MIB)


def test_record_sizes_and_streams_are_measured_on_a_pool_of_the_user(
    guest: ZfsGuest, tank: str, tmp_path: Path
) -> None:
    done = measured(guest, RECORD_SIZES, tmp_path)
    assert len(done.trials) == 4
    for target, size in (("small", "16384"), ("large", str(MIB))):
        top = done.stacks[target][0]
        assert (top.kind.value, top.facts["recordsize_bytes"]) == ("zfs", size)
        assert top.facts["implementation"] == "kernel"
        assert "block" in kinds(done, target), "the disk below the pool is known"

    cells = {(one["target"], one["workload"]): one for one in answer(done, "layers")["cells"]}
    assert len(cells) == 4
    above = flow(cells["small", "sequential"], "engine", "write")["mean_size"]
    small = flow(cells["small", "sequential"], "zfs", "write")["mean_size"]
    large = flow(cells["large", "sequential"], "zfs", "write")["mean_size"]
    assert above == pytest.approx(MIB, rel=1e-4), "fio tells bytes a second as whole ones"
    # Records of 16 KiB are put together up to zfs_vdev_aggregation_limit at most, and those of
    # 1 MiB are never cut on a vdev of one disk; metadata makes both means smaller.
    assert small < large <= 1.02 * MIB

    for trial in done.trials:
        folder = trial.folder
        raw = (folder / "zpool-iostat.txt").read_text()
        assert raw.count("syncq_read") >= 2, "every second its own table"
        kept = [json.loads(line) for line in (folder / "zfs.jsonl").read_text().splitlines()]
        assert len(kept) >= 2, "at the start and at the end"
        if trial.record.workload != "stream":
            continue
        told = json.loads((folder / "zfs-stream.json").read_text())
        assert told["record_bytes"] == (16384 if trial.record.target == "small" else MIB)
        for stream in told["streams"]:
            assert stream["bytes"] > 32 * MIB, "all that was laid out went through the pipe"
            assert stream["guid"] == stream["received_guid"]
            assert stream["files"], "what was received was compared"
            assert all(file["sent"] == file["received"] for file in stream["files"])
            assert stream["most_buffered_bytes"] <= told["request"]["buffer_bytes"]


def test_zfs_on_a_disk_that_librbd_serves_writes_to_the_image(
    guest: ZfsGuest, lab: CephAccess, tmp_path: Path
) -> None:
    plan = """
leadline: 1
name: librbd
targets: [{name: disk, target: "zfs:onrbd?recordsize=1M&compression=off"}]
repeats: 1
grace: 2m
workloads: [{name: sequential, pattern: write, block_size: 1M, size: 32M, runtime: 6s, ramp: 0s}]
"""
    guest.sh(f"zpool create -o ashift=12 onrbd {device(IMAGE_DISK)}")
    try:
        done = measured(guest, plan, tmp_path)
        guest.sh("zpool sync onrbd")
        left = guest.sh("zfs list -H -o name -r onrbd").split()
    finally:
        guest.sh("zpool destroy onrbd")
    assert left == ["onrbd"]
    (cell,) = answer(done, "layers")["cells"]
    assert flow(cell, "zfs", "write")["rate"]["value"] > 0
    used = subprocess.run(
        lab.command("rbd", "du", DISK_IMAGE, "--format", "json"),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (told,) = json.loads(used)["images"]
    assert told["used_size"] >= 32 * MIB, "what the pool wrote is in the cluster"


def test_a_pool_that_is_not_there_and_a_record_size_too_large_are_refused(
    guest: ZfsGuest, tank: str
) -> None:
    plan = RECORD_SIZES.replace("zfs:tank?recordsize=16K", "zfs:absent?recordsize=16K")
    ended = run(guest, plan)
    assert ended.status in (2, 3), ended.err
    assert re.search(r"^error\[[a-z-]+\]: .*absent", ended.err, re.MULTILINE), ended.err
    ended = run(guest, RECORD_SIZES.replace("recordsize=16K", "recordsize=32M"))
    assert ended.status in (2, 3), ended.err
    assert "error[" in ended.err
    assert "hint:" in ended.err
