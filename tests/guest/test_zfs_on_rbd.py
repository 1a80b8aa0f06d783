"""One image of the lab's cluster three ways, mapped by the kernel's own client (krbd)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from leadline.connect.ceph import CephAccess
from tests.guest.conftest import DISK_IMAGE
from tests.guest.measuring import answer, flow, kinds, measured
from tests.guest.zfs_guest import ZfsGuest

THREE_WAYS = """
leadline: 1
name: three-ways
targets:
  - {name: zfs, target: "zfs+rbd:rep3?recordsize=1M"}
  - {name: ext4, target: "ext4+rbd:rep3"}
  - {name: librbd, target: "rbd:rep3?shared=yes"}
repeats: 1
grace: 2m
defaults: {size: 16M, runtime: 5s, ramp: 0s}
workloads: [{name: sequential, pattern: write, block_size: 1M, iodepth: 2}]
"""
MAKES = """
leadline: 1
name: makes
targets: [{name: zfs, target: "zfs+rbd:rep3?recordsize=16K"}]
settings:
  sector: {zpool: {ashift: [9]}}
  slog: {zpool: {log: [rep2/64M]}}
  l2arc: {zpool: {cache: [64M]}}
  special: {zpool: {special: [64M]}}
repeats: 1
grace: 2m
defaults: {size: 16M, runtime: 5s, ramp: 0s}
workloads: [{name: commits, pattern: randwrite, block_size: 16k, fsync: 1}]
"""
STREAM = """
leadline: 1
name: stream
targets: [{name: zfs, target: "zfs+rbd:rep3?recordsize=1M"}]
repeats: 1
grace: 2m
workloads: [{name: stream, engine: zfs-stream, pattern: write, size: 16M, runtime: 5s}]
"""


def test_the_same_image_is_measured_three_ways(
    guest: ZfsGuest, lab: CephAccess, tmp_path: Path
) -> None:
    done = measured(guest, THREE_WAYS, tmp_path)
    assert len(done.trials) == 3
    assert kinds(done, "zfs")[0] == "zfs"
    assert kinds(done, "ext4")[0] == "filesystem"
    cells = {one["target"]: one for one in answer(done, "layers")["cells"]}
    for target, cell in cells.items():
        size = flow(cell, "engine", "write")["mean_size"]
        # fio tells bytes a second as whole ones, of one request a second.
        assert size == pytest.approx(1 << 20, rel=1e-4), target
    image = flow(cells["librbd"], "image", "write")
    engine = flow(cells["librbd"], "engine", "write")
    assert 0.95 < image["bandwidth"]["value"] / engine["bandwidth"]["value"] < 1.05
    assert images(lab) == [DISK_IMAGE.partition("/")[2]], "the image that was made is gone"
    assert nothing_left(guest)


def test_what_krbd_maps_is_known_down_to_the_pool(guest: ZfsGuest, tmp_path: Path) -> None:
    done = measured(guest, STREAM, tmp_path)
    stack = done.stacks["zfs"]
    assert [layer.kind.value for layer in stack if layer.kind.value != "block"] == [
        *("zfs", "image", "pool")
    ]
    assert any("rbd0" in layer.devices for layer in stack)
    (picture,) = [layer for layer in stack if layer.kind.value == "image"]
    assert picture.name.startswith("rep3/leadline-")
    assert int(picture.facts["object_size_bytes"]) == 4 << 20
    (trial,) = done.trials
    told = json.loads((trial.folder / "zfs-stream.json").read_text())
    assert told["streams"]
    assert all(one["guid"] == one["received_guid"] for one in told["streams"])
    assert nothing_left(guest)


def test_pools_of_other_makes_are_states(guest: ZfsGuest, lab: CephAccess, tmp_path: Path) -> None:
    done = measured(guest, MAKES, tmp_path)
    assert len(done.trials) == 5
    found = {
        name: (top.facts["ashift"], top.facts["layout"]) for name, (top, *_) in done.stacks.items()
    }
    assert found == {
        "zfs": ("12", "1 x disk"),
        "zfs sector=9": ("9", "1 x disk"),
        "zfs slog=rep2/64M": ("12", "1 x disk, log: 1 x disk"),
        "zfs l2arc=64M": ("12", "1 x disk, cache: 1 x disk"),
        "zfs special=64M": ("12", "1 x disk, special: 1 x disk"),
    }
    # The vdevs with data, and the image of each of them.
    assert kinds(done, "zfs special=64M") == ["zfs", "block", "image", "pool", "image"]
    assert len(answer(done, "layers")["cells"]) == 5
    assert {one["state"] for one in answer(done, "settings")["states"]} == {
        *("sector=9", "slog=rep2/64M", "l2arc=64M", "special=64M")
    }
    assert images(lab) == [DISK_IMAGE.partition("/")[2]]
    assert nothing_left(guest)


def test_an_image_that_is_mapped_read_only_is_refused(guest: ZfsGuest, lab: CephAccess) -> None:
    rbd(lab, "create", "rep3/frozen", "--size", "64M")
    try:
        mapped = guest.sh("rbd device map -o ro,ms_mode=prefer-crc rep3/frozen").strip()
        ended = guest.leadline(
            *("run", "--target", f"device:{mapped}", "--profile", "quick", "--size", "16M"),
            *("--runtime", "1s", "--repeats", "1", "--destroy-data", mapped),
        )
        guest.sh(f"rbd device unmap {mapped}")
    finally:
        rbd(lab, "rm", "--no-progress", "rep3/frozen")
    assert ended.status == 3, ended.err
    assert "error[target-read-only]" in ended.err, ended.err
    assert mapped in ended.err


def nothing_left(guest: ZfsGuest) -> bool:
    """Whether the guest has no image mapped, no loop device, no pool and no mount of Leadline's."""
    told = guest.sh(
        "ls /sys/bus/rbd/devices; losetup --list --noheadings; zpool list -H; "
        "grep leadline- /proc/mounts || true"
    )
    assert told.strip() == "", told
    return True


def images(lab: CephAccess) -> list[str]:
    return sorted(rbd(lab, "ls", "rep3").split())


def rbd(lab: CephAccess, *arguments: str) -> str:
    return subprocess.run(
        lab.command("rbd", *arguments), check=True, capture_output=True, text=True
    ).stdout
