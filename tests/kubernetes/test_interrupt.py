"""Runs that are stopped, gently or not, and what `clean` and `--resume` make of them."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import (
    Leadline,
    Running,
    changes,
    everything,
    nothing_left,
    ours,
    pods,
    settled,
    slow_removal,
)

RAW = "raw=storageclass:block?size=96Mi"
LONG = {"defaults": {"size": "64M", "runtime": "30s", "ramp": "0s"}}
# Written for longer than it takes to stop.
LARGE = {"defaults": {"size": "4000M", "runtime": "2s", "ramp": "0s"}}


@pytest.fixture
def leadline(cluster: Cluster, tmp_path: Path) -> Leadline:
    return Leadline(cluster=cluster, folder=tmp_path)


def coming_up(leadline: Leadline) -> Running:
    """A run whose volume never comes."""
    running = leadline.start("run", leadline.plan("raw=storageclass:stuck?size=96Mi"))
    running.until("its pod", lambda: pods(leadline.cluster))
    return running


def prefilling(leadline: Leadline) -> Running:
    running = leadline.start("run", leadline.plan("raw=storageclass:block?size=4100Mi", **LARGE))
    running.says("prefill raw: 3.91 GiB")
    time.sleep(2)  # Into the middle of it.
    return running


def measuring(leadline: Leadline) -> Running:
    running = leadline.start("run", leadline.plan(RAW, **LONG, repeats=2))
    running.says("[1/2]")
    return running


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        (coming_up, signal.SIGTERM),
        pytest.param(coming_up, signal.SIGINT, marks=pytest.mark.deep),
        (prefilling, signal.SIGINT),
        (measuring, signal.SIGINT),
        pytest.param(measuring, signal.SIGTERM, marks=pytest.mark.deep),
    ],
)
def test_a_signal_stops_and_cleans(
    leadline: Leadline, stage: Callable[[Leadline], Running], number: int
) -> None:
    with nothing_left(leadline.cluster):
        running = stage(leadline)
        assert ours(leadline.cluster)
        running.signal(number)
        ended = running.ended(90).failed("interrupted", 130)
    assert "--resume" in ended.err
    statuses = [trial["status"] for trial in leadline.trials()]
    assert statuses == (["interrupted"] if stage is measuring else [])
    assert "nothing was left behind" in leadline("clean").went_well().out


def test_two_signals_do_not_wait_for_removals(leadline: Leadline) -> None:
    """What is on its way out is reported, and `clean` sees it to its end."""
    cluster = leadline.cluster

    def removing() -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in pods(cluster))

    with nothing_left(cluster), slow_removal(cluster, 5):
        running = measuring(leadline)
        running.signal(signal.SIGINT)
        # Two that come at once are one.
        running.until("the removal", removing)
        running.signal(signal.SIGINT)
        ended = running.ended(60).failed("interrupted", 130)
        assert "could not be removed: stopped" in ended.err
        leadline("clean").went_well()
        assert "nothing was left behind" in leadline("clean").went_well().out


def killed(leadline: Leadline) -> str:
    """The id of a run that was killed in the middle of its first trial."""
    running = measuring(leadline)
    running.signal(signal.SIGKILL)
    assert running.ended(30).status == -signal.SIGKILL
    assert len(pods(leadline.cluster)) == 1
    return leadline.run.name


def test_a_killed_run_is_cleaned_by_its_archive(leadline: Leadline) -> None:
    with nothing_left(leadline.cluster):
        run = killed(leadline)
        there = ours(leadline.cluster)
        dry = leadline("clean", "--dry-run").went_well()
        assert f"{run}: would remove kubernetes:" in dry.out
        assert ours(leadline.cluster) == there
        done = leadline("clean", run).went_well()
        assert f"{run}: removed" in done.out
    for _ in range(2):
        assert "nothing was left behind" in leadline("clean").went_well().out


def test_a_killed_run_whose_archive_is_elsewhere_is_found_by_its_labels(
    leadline: Leadline, tmp_path: Path
) -> None:
    elsewhere = Leadline(cluster=leadline.cluster, folder=tmp_path / "elsewhere")
    elsewhere.folder.mkdir()
    with nothing_left(leadline.cluster):
        run = killed(leadline)
        there = ours(leadline.cluster)
        unnamed = elsewhere("clean", "--kubernetes")
        assert unnamed.failed("usage", 2)
        other = elsewhere("clean", "--kubernetes", "--run", "perf-19990101-000000").went_well()
        assert "nothing of Leadline's" in other.out
        dry = elsewhere("clean", "--kubernetes", "--all", "--dry-run").went_well()
        assert f"{run}: would remove the namespace leadline-{run}" in dry.out
        assert f"{run}: would remove the job leadline-{run}" in dry.out
        assert ours(leadline.cluster) == there
        done = elsewhere("clean", "--kubernetes", "--run", run).went_well()
        assert f"removed the namespace leadline-{run}" in done.out
    again = elsewhere("clean", "--kubernetes", "--run", run).went_well()
    assert "nothing of Leadline's" in again.out
    # And its own archive learns of it.
    assert "removed" in leadline("clean").went_well().out
    assert "nothing was left behind" in leadline("clean").went_well().out


def test_a_killed_run_goes_on_with_new_volumes(leadline: Leadline) -> None:
    with nothing_left(leadline.cluster):
        running = leadline.start("run", leadline.plan(RAW, repeats=4))
        running.says("[2/4]")
        running.signal(signal.SIGKILL)
        running.ended(30)
        (lost,) = pods(leadline.cluster)
        done = leadline("run", "--resume", "@latest").answered()
    assert "removed" in done.err
    trials = leadline.trials()
    assert [trial["trial"] for trial in trials] == ["t0001", "t0002", "t0003", "t0004"]
    assert {trial["status"] for trial in trials} == {"completed"}
    folders = sorted((leadline.run / "trials").iterdir())
    runners = [
        json.loads((folder / "runners.json").read_text())["runners"][0] for folder in folders
    ]
    assert runners[0]["name"] == lost["metadata"]["name"]
    assert len({runner["name"] for runner in runners[1:]} - {lost["metadata"]["name"]}) == 1
    assert len({runner["volume"]["volume"] for runner in runners}) == 2
    leadline("verify", leadline.run).went_well()


# How often the coordinator is killed, and where the random moments begin.
KILLS = int(os.environ.get("LEADLINE_KILLS", "50"))
SEED = int(os.environ.get("LEADLINE_KILLS_SEED", "23"))


@pytest.mark.deep
def test_clean_leaves_nothing_of_runs_that_are_killed_at_random_moments(
    cluster: Cluster, tmp_path: Path
) -> None:
    """From the first second of a run to its last. Every object of the cluster is compared."""

    def start(name: str) -> tuple[Leadline, Running]:
        leadline = Leadline(cluster=cluster, folder=tmp_path / name)
        leadline.folder.mkdir()
        plan = leadline.plan(RAW, "files=storageclass:fast?size=96Mi")
        return leadline, leadline.start("run", plan)

    before = settled(cluster)
    _, whole = start("whole")
    longest_s = whole.ended().answered().wall_s
    moments = random.Random(SEED)
    killed = with_objects = 0
    for number in range(KILLS):
        leadline, running = start(f"kill-{number}")
        after_s = moments.uniform(0.0, longest_s)
        time.sleep(after_s)
        running.signal(signal.SIGKILL)
        killed += running.ended(30).status == -signal.SIGKILL
        there = ours(cluster)
        with_objects += bool(there)
        cleaned = leadline("clean")
        said = f"kill {number} after {after_s:.2f} s, {len(there)} objects"
        print(f"{said}; clean took {cleaned.wall_s:.1f} s")  # noqa: T201 (for -s)
        assert cleaned.status == 0, f"{said}: {cleaned.err}"
        left = changes(before, everything(cluster))
        assert not left, "\n".join([said, cleaned.out, *left])
    print(f"a whole run took {longest_s:.1f} s; {killed} killed, {with_objects} left objects")  # noqa: T201 (for -s)
    assert with_objects > KILLS / 2
