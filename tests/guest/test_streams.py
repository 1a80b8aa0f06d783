"""Streams between two pools of real OpenZFS. A stand-in for ssh is the way to the other host, which
is the guest itself: the real ssh client carries streams in tests/real/test_zfs_stream.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guest.conftest import IMAGE_DISK, device
from tests.guest.measuring import answer, measured
from tests.guest.zfs_guest import ZfsGuest

MIB = 1 << 20
# `ssh OPTIONS... -- HOST COMMAND` runs the command here, as sshd of 127.0.0.1 would.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
SSH_CONNECTION="127.0.0.1 40000 127.0.0.1 22" exec sh -c "$3"
"""
BETWEEN_POOLS = """
leadline: 1
name: between
targets:
  - {name: here, target: "zfs:tank?recordsize=1M"}
  - {name: ssh, target: "zfs:tank?recordsize=1M&receive_on=backup:vault&buffer=1M"}
  - {name: tcp, target: "zfs:tank?recordsize=1M&receive_on=backup:vault&via=tcp&port=9090"}
repeats: 1
grace: 2m
defaults: {size: 16M, runtime: 3s, ramp: 0s}
workloads:
  - {name: streams, engine: zfs-stream, pattern: write, numjobs: 2}
"""


@pytest.fixture
def vault(guest: ZfsGuest) -> Iterator[str]:
    """A pool on the image of the lab, for what is received."""
    guest.write("/usr/local/bin/ssh", SSH)
    guest.sh("chmod 755 /usr/local/bin/ssh")
    guest.sh(f"zpool create -o ashift=12 vault {device(IMAGE_DISK)}")
    yield "vault"
    left = guest.sh("zfs list -H -o name -r vault").split()
    guest.sh("zpool destroy vault; rm /usr/local/bin/ssh")
    assert left == ["vault"], "nothing of Leadline's is left in the receiving pool"


def test_streams_at_the_same_time_go_to_another_pool_by_ssh_and_by_tcp(
    guest: ZfsGuest, tank: str, vault: str, tmp_path: Path
) -> None:
    done = measured(guest, BETWEEN_POOLS, tmp_path)
    for trial in done.trials:
        told = json.loads((trial.folder / "zfs-stream.json").read_text())
        assert told["request"]["numjobs"] == 2
        assert told["record_bytes"] == MIB
        files = {stream["files"][0]["path"] for stream in told["streams"]}
        assert files == {"leadline.0.dat", "leadline.1.dat"}, "each stream has data of its own"
        for stream in told["streams"]:
            assert stream["bytes"] > 16 * MIB
            assert stream["guid"] == stream["received_guid"]
            assert all(file["sent"] == file["received"] for file in stream["files"])
            assert "-L" in stream["send"]
        if trial.record.target == "here":
            assert "route" not in told
            continue
        assert told["route"]["version"].startswith("zfs-2.3.")
        assert told["route"]["dataset"].startswith("vault/leadline-")
        assert all(stream["far"]["bytes"] == stream["bytes"] for stream in told["streams"])
        ports = {stream.get("address", ["", 0])[1] for stream in told["streams"]}
        assert ports == ({9090, 9091} if trial.record.target == "tcp" else {0})
    cells = {cell["target"]: cell["stalls"] for cell in answer(done, "layers")["cells"]}
    assert cells["here"]["for_link_share"] is None
    assert {cells[name]["host"] for name in ("ssh", "tcp")} == {"backup"}


def test_a_receiving_pool_without_the_feature_is_refused(
    guest: ZfsGuest, tank: str, vault: str
) -> None:
    guest.sh("zpool destroy vault")
    guest.sh(f"zpool create -d -o ashift=12 vault {device(IMAGE_DISK)}")
    guest.write(
        "/plan.yaml",
        "leadline: 1\ntargets: ['zfs:tank?recordsize=1M&receive_on=backup:vault']\n"
        "defaults: {size: 16M, runtime: 1s}\n"
        "workloads: [{name: s, engine: zfs-stream, pattern: write}]\n",
    )
    ended = guest.leadline("run", "/plan.yaml")
    assert ended.status == 3, ended.err
    assert "[target-unsuitable]" in ended.err
    assert "'vault' on the host backup" in ended.err
