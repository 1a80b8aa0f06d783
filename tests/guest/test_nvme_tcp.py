"""A namespace of NVMe over TCP as a target: the kernel's target and initiator, on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guest.measuring import answer, flow, measured
from tests.guest.zfs_guest import ZfsGuest

SUBSYSTEM = "nqn.2026-11.org.leadline:test"
SIZE = 256 << 20
SECTOR = 512
# What Linux counts: with native multipath /dev/nvme0n1 hands requests on to its paths, which are
# hidden devices of their own, and counts nothing itself (seen with 6.1).
PATH = "nvme0c0n1"
PLAN = """
leadline: 1
name: nvme
targets: [{name: namespace, target: "device:/dev/nvme0n1"}]
repeats: 1
grace: 2m
defaults: {size: 32M, runtime: 4s, ramp: 0s}
workloads:
  - {name: sequential, pattern: write, block_size: 64k, iodepth: 4}
  - {name: random, pattern: randread, block_size: 4k, iodepth: 4}
"""


@pytest.fixture
def namespace(guest: ZfsGuest) -> Iterator[str]:
    """The device of a connected namespace."""
    guest.sh(f"/leadline/nvme-tcp.sh {SUBSYSTEM} {SIZE}")
    guest.sh("for i in $(seq 300); do [ -b /dev/nvme0n1 ] && exit; sleep 0.1; done; exit 1")
    yield "/dev/nvme0n1"
    guest.sh(f"/leadline/nvme-tcp-end.sh {SUBSYSTEM}")


def test_a_namespace_is_measured_and_its_transport_told(
    guest: ZfsGuest, namespace: str, tmp_path: Path
) -> None:
    (listed,) = json.loads(guest.sh("nvme list -o json"))["Devices"]
    assert (listed["DevicePath"], listed["PhysicalSize"]) == (namespace, SIZE)
    before = counted(guest)
    done = measured(guest, PLAN, tmp_path, "--destroy-data", namespace)
    assert {trial.record.workload for trial in done.trials} == {"sequential", "random"}

    reads, writes = (after - old for after, old in zip(counted(guest), before, strict=True))
    assert reads > 0, "the path's own counters saw the I/O"
    assert writes >= (32 << 20) // SECTOR, "the prefill at least went over the wire"

    host = done.inventory("start")
    assert host is not None
    assert host.nvme
    (controller,) = host.nvme
    assert (controller.transport, controller.state) == ("tcp", "live")
    assert controller.subsystem_nqn == SUBSYSTEM
    assert [one.size_bytes for one in controller.namespaces] == [SIZE]


def test_the_layers_of_a_namespace_are_those_of_its_path(
    guest: ZfsGuest, namespace: str, tmp_path: Path
) -> None:
    done = measured(guest, PLAN, tmp_path, "--destroy-data", namespace)
    (layer,) = done.stacks["namespace"]
    assert layer.facts["transport"] == "tcp"
    assert PATH in layer.devices, "the device whose counters move"
    cells = {one["workload"]: one for one in answer(done, "layers")["cells"]}
    engine = flow(cells["sequential"], "engine", "write")
    block = flow(cells["sequential"], "block", "write")
    assert 0.9 < block["bandwidth"]["value"] / engine["bandwidth"]["value"] < 1.1
    assert round(block["mean_size"]) == 64 << 10, "a request of 64 KiB is passed on as one"


def counted(guest: ZfsGuest) -> tuple[int, int]:
    """Sectors of 512 bytes that the path read and wrote."""
    words = guest.sh(f"cat /sys/block/{PATH}/stat").split()
    return int(words[2]), int(words[6])
