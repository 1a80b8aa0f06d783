"""A pool that OpenZFS suspends since its only disk fails, before a run and in the middle of it. The
guest is one of its own, since what waits for such a pool cannot be ended."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.verify import verify
from tests.guest.measuring import begin, run, wait_for_trial
from tests.guest.zfs_guest import Ended, ZfsGuest

PLAN = """
leadline: 1
name: suspended
targets: [{name: gone, target: "zfs:gone/mine?recordsize=128K"}]
repeats: 3
grace: 30s
defaults: {size: 16M, runtime: 12s}
workloads: [{name: sequential, pattern: write, block_size: 1M, direct: false}]
"""
STREAM = PLAN.replace("direct: false", "engine: zfs-stream").replace("repeats: 3", "repeats: 1")
# A disk whose table can be swapped for one that fails each request.
MAKE = """
modprobe dm_mod
truncate -s 768M /var/backing
loop=$(losetup --find --show /var/backing)
echo "0 $((768 * 2048)) linear $loop 0" >/var/works
echo "0 $((768 * 2048)) error" >/var/fails
dmsetup create wobbly </var/works
udevadm settle
zpool create -o ashift=12 -o failmode=wait gone /dev/mapper/wobbly
zfs create gone/mine
echo precious >/gone/mine/file
zfs snapshot gone/mine@a
zpool sync gone
"""
SWAP = """
dmsetup suspend --noflush --nolockfs wobbly
dmsetup load wobbly </var/{table}
dmsetup resume wobbly
"""
STATE = "cat /proc/spl/kstat/zfs/gone/state"


@pytest.fixture(scope="module")
def alone(parts: None) -> Iterator[ZfsGuest]:
    with (
        tempfile.TemporaryDirectory(prefix="ll-guest-") as folder,
        ZfsGuest(Path(folder), {}) as guest,
    ):
        guest.sh(MAKE)
        yield guest


@pytest.fixture
def pool(alone: ZfsGuest) -> Iterator[str]:
    """The user's pool, which works before and behind a test, and holds what is the user's."""
    yield "gone"
    mend(alone)
    assert state(alone) == "ONLINE"
    told = alone.sh("cat /gone/mine/file /gone/mine/.zfs/snapshot/a/file")
    assert told.split() == ["precious", "precious"]
    left = alone.sh("zfs list -H -o name -t all -r gone").split()
    assert left == ["gone", "gone/mine", "gone/mine@a"]


def lose(guest: ZfsGuest) -> None:
    """The disk fails, and a write tells the pool."""
    guest.sh(SWAP.format(table="fails"))
    guest.sh(
        "(dd if=/dev/urandom of=/gone/mine/more bs=128k count=8; sync) </dev/null >/dev/null 2>&1 &"
    )
    guest.sh(f"until [ $({STATE}) = SUSPENDED ]; do sleep 0.2; done", bound_s=120)


def mend(guest: ZfsGuest) -> None:
    guest.sh(SWAP.format(table="works"))
    guest.sh("zpool clear gone")
    guest.sh(f"until [ $({STATE}) = ONLINE ]; do sleep 0.2; done", bound_s=120)
    guest.sh("rm -f /gone/mine/more; zpool sync gone")


def state(guest: ZfsGuest) -> str:
    return guest.sh(STATE).strip()


def told_to_be_suspended(ended: Ended) -> None:
    """An error that says what is wrong and what to do."""
    assert "error[" in ended.err, ended.err
    assert "'gone' is SUSPENDED" in ended.err, ended.err
    assert "zpool clear gone" in ended.err, ended.err


def test_a_pool_that_is_suspended_before_the_run(alone: ZfsGuest, pool: str) -> None:
    lose(alone)
    ended = run(alone, PLAN)
    assert ended.status == 4, ended.err
    assert "error[zpool-unfit]" in ended.err
    told_to_be_suspended(ended)
    assert alone.sh("ls /var/runs 2>/dev/null || true") == "", "no archive of what cannot be"
    assert state(alone) == "SUSPENDED"

    # What does not need the pool goes on beside it.
    doctor = alone.leadline("doctor")
    assert "SUSPENDED: gone" in doctor.out, doctor.out
    assert "zpool clear gone" in doctor.out
    checked = alone.leadline("check", "/plan.yaml")
    assert checked.status == 0, checked.err
    elsewhere = PLAN.replace('"zfs:gone/mine?recordsize=128K"', '"dir:/var/tmp"')
    ended = run(alone, elsewhere)
    assert ended.status in (0, 1), ended.err
    assert json.loads(ended.out)["status"] == "complete"
    alone.sh("rm -r /var/runs")


def test_a_pool_that_is_suspended_in_the_middle_of_a_run(
    alone: ZfsGuest, pool: str, tmp_path: Path
) -> None:
    begin(alone, PLAN)
    wait_for_trial(alone, "t0002")
    lose(alone)
    ended = alone.end(600)
    assert ended.status == 4, ended.err
    told_to_be_suspended(ended)
    said = json.loads(ended.out)

    # What was measured is kept.
    broken = Run(alone.fetch(said["path"], tmp_path / "broken"))
    assert verify(broken).problems == ()
    statuses = [trial.record.status for trial in broken.attempts]
    assert statuses == [TrialStatus.COMPLETED, TrialStatus.HUNG, TrialStatus.FAILED]
    (left,) = broken.left_behind
    assert f"{left.path} could not be removed" in ended.err
    assert state(alone) == "SUSPENDED"

    # Nothing that is asked now hangs, or does what it cannot.
    told_to_be_suspended(alone.leadline("run", "--resume", said["run"], "--retry-failed"))
    cleaned = alone.leadline("clean", said["run"])
    assert f"{left.path} could not be removed" in cleaned.err
    assert "zpool clear gone" in cleaned.err

    mend(alone)
    resumed = alone.leadline(
        *("run", "--resume", said["run"], "--retry-failed", "--format", "json")
    )
    assert resumed.status in (0, 1), resumed.err
    assert json.loads(resumed.out)["status"] == "complete"
    whole = Run(alone.fetch(said["path"], tmp_path / "whole"))
    assert verify(whole).problems == ()
    assert {trial.record.status for trial in whole.trials} == {TrialStatus.COMPLETED}
    assert whole.left_behind == ()
    assert len(whole.trials) == 3


def test_a_pool_that_is_suspended_in_the_middle_of_a_stream(
    alone: ZfsGuest, pool: str, tmp_path: Path
) -> None:
    begin(alone, STREAM)
    wait_for_trial(alone, "t0001")
    lose(alone)
    ended = alone.end(600)
    assert ended.status == 4, ended.err
    told_to_be_suspended(ended)
    said = json.loads(ended.out)
    mend(alone)
    cleaned = alone.leadline("clean", said["run"])
    assert cleaned.status == 0, cleaned.err
    assert "removed what" in cleaned.out, cleaned.out
