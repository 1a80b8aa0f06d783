"""Two runs in one cluster: each records the other, and neither removes what is not its own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, nothing_left

RAW = "raw=storageclass:block?size=96Mi"
LONG = {"size": "64M", "runtime": "20s", "ramp": "0s"}


def test_two_runs_see_each_other(cluster: Cluster, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = (Leadline(cluster=cluster, folder=folder) for folder in folders)
    small = {"cpu": "200m"}
    with nothing_left(cluster):
        running = first.start("run", first.plan(RAW, defaults=LONG, cluster=small, repeats=2))
        running.says("[1/2]")
        ended = second("run", second.plan(RAW, cluster=small)).answered()
        running.ended().answered()
    assert f"another run is at work in the cluster lab: {first.run.name}" in ended.err
    (path,) = (second.run / "trials").glob("*/runners.json")
    assert json.loads(path.read_text())["other_runs"] == [first.run.name]
    page = tmp_path / "x.md"
    second("report", second.run, "-o", page).went_well()
    assert f"Other runs at work in the cluster during 1 trial: {first.run.name}" in page.read_text()
    assert [trial["status"] for trial in first.trials()] == ["completed"] * 2
