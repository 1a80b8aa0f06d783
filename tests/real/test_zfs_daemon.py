"""Where no ZFS runs, a pool on an RBD image brings zfs-fuse along and takes it away again, also
when what the pool stands on dies."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.connect.programs import find
from leadline.targets import daemons
from tests.awaiting import wait_for
from tests.real.conftest import Ended, fio_processes
from tests.real.zfs_here import answers, left_here, tokens

pytestmark = [
    pytest.mark.real,
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.usefixtures("only_zfs"),
]


@pytest.fixture(autouse=True)
def _alone(lab: str, tmp_path: Path) -> Iterator[None]:
    if find("zfs-fuse") is None or find("rbd-fuse") is None or Path("/sys/bus/rbd").exists():
        pytest.skip("needs zfs-fuse, and rbd-fuse without krbd: our own daemon is NOT tested here")
    end = time.monotonic() + 20
    while answers("zpool", "list"):
        if time.monotonic() > end:
            pytest.skip("a ZFS runs here: the start and end of one of our own is NOT tested here")
        time.sleep(0.2)
    yield
    assert left_here(tmp_path) == []
    assert not answers("zpool", "list")


def plan(tmp_path: Path, lab: str, grace: str = "10s") -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(
        f"clusters: {{here: {{lab: {lab}}}}}\n"
        "targets: [{target: 'zfs+rbd:rep2?recordsize=8K', name: z}]\n"
        "workloads: [{name: w, pattern: randwrite, fsync: 1}]\n"
        "defaults: {size: 16M, runtime: 3s, block_size: 8k}\nrepeats: 1\n"
        f"grace: {grace}\n"
    )
    return path


def archive(tmp_path: Path) -> Run:
    return find_run("@latest", tmp_path / "runs")


def in_trial(child: subprocess.Popen[str], tmp_path: Path) -> Path:
    """The folder of the stand, when the trial is going on."""

    def going_on() -> bool:
        assert child.poll() is None, child.communicate()
        return bool(list((tmp_path / "runs").glob("*/*/*/resources.jsonl")))

    wait_for(going_on, 90)
    (token,) = tokens(tmp_path)
    return Path(f"/run/leadline-{token}")


def test_our_own_daemon_runs_as_long_as_it_is_needed(
    lab: str, started: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    # A busy machine may take long to write back at the end.
    child = started("run", plan(tmp_path, lab, grace="60s"), "--quiet")
    folder = in_trial(child, tmp_path)
    assert len(daemons.find_processes("zfs-fuse", folder)) == 1
    _, err = child.communicate(timeout=240)
    assert child.returncode in (0, 1), err
    (trial,) = archive(tmp_path).trials
    assert trial.record.status is TrialStatus.COMPLETED
    assert archive(tmp_path).left_behind == ()


def test_the_death_of_what_the_pool_stands_on_ends_the_trial_and_leaves_nothing(
    lab: str,
    started: Callable[..., subprocess.Popen[str]],
    process: Callable[..., Ended],
    tmp_path: Path,
) -> None:
    child = started("run", plan(tmp_path, lab), "--quiet", "--runtime", "10s")
    folder = in_trial(child, tmp_path)
    (pid,) = daemons.find_processes("rbd-fuse", folder)
    os.kill(pid, signal.SIGKILL)
    child.communicate(timeout=300)
    assert child.returncode == 4
    (trial,) = archive(tmp_path).trials
    assert trial.record.status is not TrialStatus.COMPLETED
    said = process("clean", "@latest").err if archive(tmp_path).left_behind else ""
    assert archive(tmp_path).left_behind == (), said


def test_a_killed_runs_daemon_is_ended_by_clean(
    lab: str,
    started: Callable[..., subprocess.Popen[str]],
    process: Callable[..., Ended],
    tmp_path: Path,
) -> None:
    child = started("run", plan(tmp_path, lab), "--quiet", "--runtime", "60s")
    folder = in_trial(child, tmp_path)
    child.kill()
    child.wait()
    wait_for(lambda: not fio_processes(folder), 50)
    assert daemons.find_processes("zfs-fuse", folder)
    cleaned = process("clean", "@latest")
    assert "removed what a killed session left" in cleaned.out, cleaned.out
    assert archive(tmp_path).left_behind == ()
