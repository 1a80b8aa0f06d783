"""What cannot be destroyed at the end of a run: the dataset in use, its snapshot held or cloned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.verify import verify
from tests.guest.measuring import answer, begin, wait_for_trial
from tests.guest.zfs_guest import Ended, ZfsGuest

FIO = """
leadline: 1
name: busy
targets: [{name: own, target: "zfs:tank/mine?recordsize=128K"}]
repeats: 1
grace: 30s
workloads: [{name: sequential, pattern: write, block_size: 1M, size: 16M, runtime: 15s, ramp: 0s}]
"""
STREAM = FIO.replace("ramp: 0s", "engine: zfs-stream")


@pytest.fixture
def mine(guest: ZfsGuest, tank: str) -> Iterator[str]:
    """A dataset of the user's with a file and a snapshot, as it was at the end."""
    guest.sh(
        f"zfs create {tank}/mine; echo precious >/{tank}/mine/file; zfs snapshot {tank}/mine@a"
    )
    yield f"{tank}/mine"
    assert guest.sh(f"cat /{tank}/mine/.zfs/snapshot/a/file /{tank}/mine/file").split() == [
        *("precious", "precious")
    ]
    guest.sh(f"zfs destroy -r {tank}/mine")


def own_dataset(guest: ZfsGuest, parent: str) -> str:
    """The one dataset that the run made."""
    listed = guest.sh(f"zfs list -H -o name -r -d 1 {parent}").split()
    (own,) = [name for name in listed if "/leadline-" in name]
    return own


def whole_and_left(guest: ZfsGuest, ended: Ended, own: str, into: Path) -> Run:
    """The archive of a run that measured everything and could not remove one dataset, as told."""
    assert ended.status == 4, ended.err
    assert "error[left-behind]" in ended.err, ended.err
    assert f"zfs:{own}" in ended.err, ended.err
    assert "leadline clean" in ended.err
    said = json.loads(ended.out)
    assert said["status"] == "complete"
    run = Run(guest.fetch(said["path"], into / said["run"]))
    assert verify(run).problems == ()
    assert {trial.record.status for trial in run.trials} == {TrialStatus.COMPLETED}
    assert answer(run, "show")["measurements"]
    assert [one.path for one in run.left_behind] == [f"zfs:{own}"]
    assert own_dataset(guest, "tank/mine") == own
    return run


def cleaned(guest: ZfsGuest, run: Run) -> None:
    """`leadline clean` removes what was left, once."""
    ended = guest.leadline("clean", run.id)
    assert ended.status == 0, ended.err
    assert "removed what" in ended.out, ended.out
    assert guest.sh("zfs list -H -o name -t all -r tank").split() == [
        *("tank", "tank/mine", "tank/mine@a")
    ]
    assert guest.sh("ls /run | grep leadline || true") == ""


def test_a_file_that_is_open_in_the_dataset(guest: ZfsGuest, mine: str, tmp_path: Path) -> None:
    begin(guest, FIO)
    wait_for_trial(guest, "t0001")
    own = own_dataset(guest, mine)
    mounted = guest.sh(f"zfs get -H -o value mountpoint {own}").strip()
    guest.sh(f"sleep 3000 <{mounted}/.leadline-owner >/dev/null 2>&1 & echo $! >/holder")
    ended = guest.end(600)
    run = whole_and_left(guest, ended, own, tmp_path)
    assert "busy" in ended.err, ended.err

    # Still in use: clean says so, and changes nothing.
    again = guest.leadline("clean", run.id)
    assert again.status == 4, again.out
    assert f"zfs:{own}" in again.err, again.err
    assert "busy" in again.err
    assert own_dataset(guest, mine) == own
    guest.sh("kill $(cat /holder)")
    cleaned(guest, run)


def test_a_process_that_stands_in_it_for_a_while_is_waited_for(guest: ZfsGuest, mine: str) -> None:
    begin(guest, FIO)
    wait_for_trial(guest, "t0001")
    own = own_dataset(guest, mine)
    mounted = guest.sh(f"zfs get -H -o value mountpoint {own}").strip()
    # Gone a while behind the first refusal to destroy.
    guest.sh(
        f"(cd {mounted}; trap '' HUP; while ! [ -e /begun/refused ]; do sleep 0.2; done; sleep 2) "
        "</dev/null >/dev/null 2>&1 &"
    )
    guest.sh(
        "(until pgrep -f 'zfs destroy' >/dev/null; do sleep 0.1; done; touch /begun/refused) "
        "</dev/null >/dev/null 2>&1 &"
    )
    ended = guest.end(600)
    assert ended.status in (0, 1), ended.err
    assert guest.sh("ls /begun").split() == ["ended", "err", "out", "refused"]
    said = json.loads(ended.out)
    assert said["status"] == "complete"
    assert guest.sh("zfs list -H -o name -r tank").split() == ["tank", mine]


@pytest.mark.parametrize(
    ("hold", "free", "told"),
    [
        ("zfs hold keep {snapshot}", "zfs release keep {snapshot}", "busy"),
        ("zfs clone {snapshot} tank/copy", "zfs destroy tank/copy", "tank/copy"),
    ],
)
def test_a_snapshot_of_a_stream_that_somebody_keeps(
    guest: ZfsGuest, mine: str, tmp_path: Path, hold: str, free: str, told: str
) -> None:
    begin(guest, STREAM)
    wait_for_trial(guest, "t0001")
    own = own_dataset(guest, mine)
    snapshot = guest.sh(f"zfs list -H -o name -t snapshot -d 1 {own}").strip()
    guest.sh(hold.format(snapshot=snapshot))
    run = whole_and_left(guest, ended := guest.end(600), own, tmp_path)
    assert told in ended.err, ended.err
    assert "-R" not in ended.err, "nobody is led to destroy what is not ours"
    assert guest.sh(f"zfs list -H -o name -t snapshot {snapshot}").strip() == snapshot
    guest.sh(free.format(snapshot=snapshot))
    cleaned(guest, run)
