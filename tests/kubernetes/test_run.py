"""StorageClasses measured by one command each, from the claim to the report, and nothing left."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from leadline.targets.base import SETTLE_S
from tests.kubernetes import classes, images
from tests.kubernetes.cluster import NODE, Cluster
from tests.kubernetes.driving import (
    MIB,
    Ended,
    Leadline,
    changes,
    everything,
    nothing_left,
    retained,
    settled,
    space,
    volumes,
)

BOTH = ("raw=storageclass:block?size=96Mi", "files=storageclass:fast?size=96Mi")
TWICE: dict[str, Any] = {"repeats": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run of two classes, and what it changed in the cluster."""

    leadline: Leadline
    ended: Ended
    changes: list[str]

    @property
    def path(self) -> Path:
        return self.leadline.run


@pytest.fixture(scope="module")
def measured(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Two classes in one run, whose pods are a namespace's own."""
    leadline = Leadline(cluster=cluster, folder=tmp_path_factory.mktemp("both"))
    before = settled(cluster)
    as_users_do = replace(leadline, rests=True)
    ended = as_users_do("run", leadline.plan(*BOTH, **TWICE), "--format", "json")
    return Measured(leadline=leadline, ended=ended, changes=changes(before, everything(cluster)))


@pytest.fixture(scope="module")
def again(measured: Measured, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """The same in a namespace of the user's own."""
    folder = tmp_path_factory.mktemp("again")
    leadline = Leadline(cluster=measured.leadline.cluster, folder=folder)
    with space(leadline.cluster, "mine"):
        before = settled(leadline.cluster)
        plan = leadline.plan(*BOTH, cluster={"namespace": "mine"}, **TWICE)
        ended = leadline("run", plan, "--format", "json")
        after = everything(leadline.cluster)
    return Measured(leadline=leadline, ended=ended, changes=changes(before, after))


@pytest.fixture
def leadline(cluster: Cluster, tmp_path: Path) -> Leadline:
    return Leadline(cluster=cluster, folder=tmp_path)


class TestOneCommand:
    def test_every_object_of_every_kind_is_as_it_was(self, measured: Measured) -> None:
        measured.ended.answered()
        assert measured.changes == []

    def test_a_namespace_of_the_user_is_as_it_was(self, again: Measured) -> None:
        again.ended.answered()
        assert again.changes == []

    def test_all_trials_have_their_numbers(self, measured: Measured) -> None:
        said = measured.ended.json
        assert said["schema"] == "leadline/run/1"
        assert said["trials"] == 4
        trials = measured.leadline.trials()
        assert Counter(trial["target"] for trial in trials) == {"raw": 2, "files": 2}
        assert {trial["status"] for trial in trials} == {"completed"}
        shown = measured.leadline("show", "--format", "json", measured.path).json["measurements"]
        rates = {item["target"]: item["value"] for item in shown if item["metric"] == "iops"}
        assert rates.keys() == {"raw", "files"}
        assert all(rate > 0 for rate in rates.values())

    def test_the_archive_verifies(self, measured: Measured) -> None:
        checked = measured.leadline("verify", "--format", "json", measured.path).went_well().json
        assert checked["ok"]
        assert checked["problems"] == []

    def test_it_is_audited_like_any_other(self, measured: Measured) -> None:
        audited = measured.leadline("audit", "--format", "json", measured.path).json
        assert audited["trusted"] == (measured.ended.status == 0)
        assert audited["findings"] == measured.ended.json["findings"]

    def test_its_report_verifies(self, measured: Measured, tmp_path: Path) -> None:
        page = tmp_path / "x.html"
        measured.leadline("report", measured.path, "-o", page).went_well()
        assert "storageclass:block" in page.read_text()
        measured.leadline("verify", page).went_well()

    def test_each_trial_reports_its_pod_and_its_volume(self, measured: Measured) -> None:
        for path in (measured.path / "trials").iterdir():
            target = json.loads((path / "trial.json").read_text())["target"]
            (runner,) = json.loads((path / "runners.json").read_text())["runners"]
            assert runner["node"] == NODE
            assert runner["user"] == 1000
            volume = runner["volume"]
            assert volume["storage_class"] == {"raw": "block", "files": "fast"}[target]
            assert volume["mode"] == {"raw": "block", "files": "filesystem"}[target]

    def test_a_raw_block_device_is_written_before_it_is_read(self, measured: Measured) -> None:
        for trial in measured.leadline.trials():
            assert trial["extent"]["written_bytes"] == 64 * MIB
            if trial["target"] == "raw":
                assert "--filename=/dev/leadline" in trial["command"]
                assert trial["extent"]["filesystem"] == ""
            else:
                assert trial["extent"]["filesystem"] != ""
                assert trial["extent"]["allocated_bytes"] >= 64 * MIB

    def test_the_first_trial_begins_five_seconds_after_the_last_write(
        self, measured: Measured
    ) -> None:
        prefills = (measured.path / "prefill").glob("*/fio.json")
        written_s = max(json.loads(path.read_text())["timestamp_ms"] for path in prefills) / 1e3
        starts = [trial["started_at"] for trial in measured.leadline.trials()]
        began_s = min(datetime.fromisoformat(start).timestamp() for start in starts)
        assert began_s - written_s > SETTLE_S - 1e-3

    def test_the_cluster_is_in_the_archive(self, measured: Measured, tmp_path: Path) -> None:
        page = tmp_path / "x.md"
        measured.leadline("report", measured.path, "-o", page).went_well()
        for words in ("zone-a", "lab.large", "v1.34", "| fast (default) |", "| block |"):
            assert words in page.read_text(), words
        (dumps,) = (measured.path / "inventory").glob("001-start-*/")
        kept = (dumps / "storageclasses.json").read_text()
        assert {classes.LOCAL_PATH, classes.BLOCK} <= {
            item["provisioner"] for item in json.loads(kept)["items"]
        }


class TestTwoClasses:
    def test_are_ranked(self, measured: Measured) -> None:
        ranked = measured.leadline("rank", "--format", "json", measured.path)
        assert ranked.status in (0, 5), ranked.err
        assert {tier["target"] for tier in ranked.json["tiers"]} == {"raw", "files"}
        assert all(tier["complete"] for tier in ranked.json["tiers"])

    def test_are_compared_over_two_runs(self, measured: Measured, again: Measured) -> None:
        compared = measured.leadline("compare", "--format", "json", measured.path, again.path)
        assert compared.status in (0, 5), compared.err
        cells = compared.json["cells"]
        assert {cell["target"] for cell in cells} == {"raw", "files"}
        assert all(cell["baseline"] > 0 for cell in cells if cell["metric"] == "iops")
        # Two runs on one cluster: what differs is no part of it.
        paths = [difference["path"] for difference in compared.json["differences"]]
        assert [path for path in paths if "storage_classes" in path] == []


@pytest.fixture(scope="module")
def three(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Leadline:
    leadline = Leadline(cluster=cluster, folder=tmp_path_factory.mktemp("three"))
    plan = leadline.plan(
        f"three=storageclass:block?size=96Mi&count=3&node={NODE}",
        cluster={"cpu": "150m", "memory": "96Mi"},
        defaults={"size": "64M", "runtime": "6s", "ramp": "0s"},
    )
    with nothing_left(cluster):
        leadline("run", plan).answered()
    return leadline


class TestThreeVolumesAtOnce:
    def _outputs(self, leadline: Leadline) -> list[dict[str, Any]]:
        (trial,) = (leadline.run / "trials").iterdir()
        names = [f"volume-{number}.fio.json" for number in (1, 2, 3)]
        assert sorted(path.name for path in trial.glob("*.fio.json")) == names
        return [json.loads((trial / name).read_text()) for name in names]

    def test_each_has_its_own_result(self, three: Leadline) -> None:
        (trial,) = (three.run / "trials").iterdir()
        runners = json.loads((trial / "runners.json").read_text())["runners"]
        assert len({runner["name"] for runner in runners}) == 3
        assert len({runner["volume"]["volume"] for runner in runners}) == 3
        assert {runner["node"] for runner in runners} == {NODE}
        for output in self._outputs(three):
            assert output["jobs"][0]["read"]["total_ios"] > 0
            assert (trial / "volume-1.randread_iops.log").read_text().count("\n") >= 1

    def test_they_started_together(self, three: Leadline) -> None:
        (trial,) = (three.run / "trials").iterdir()
        starts = [
            int((trial / f"volume-{number}.before.txt").read_text().split()[1])
            for number in (1, 2, 3)
        ]
        outputs = self._outputs(three)
        starts += [output["timestamp_ms"] - output["jobs"][0]["job_runtime"] for output in outputs]
        # They ran side by side, as far as a busy machine lets three begin at one moment.
        assert min(output["timestamp_ms"] for output in outputs) - max(starts) > 1000

    def test_percentiles_are_of_the_merged_histograms(self, three: Leadline) -> None:
        merged: Counter[int] = Counter()
        for output in self._outputs(three):
            bins = output["jobs"][0]["read"]["lat_ns"]["bins"]
            merged.update({int(value): count for value, count in bins.items()})
        shown = three("show", "--format", "json", three.run).json["measurements"]
        values = {item["metric"]: item["value"] for item in shown}
        for metric, share in (("latency_p50", 0.5), ("latency_p95", 0.95), ("latency_p99", 0.99)):
            assert values[metric] == pytest.approx(_nearest_rank(merged, share) / 1e9), metric
        ios = sum(output["jobs"][0]["read"]["total_ios"] for output in self._outputs(three))
        assert sum(merged.values()) == ios
        rates = [output["jobs"][0]["read"]["iops"] for output in self._outputs(three)]
        assert values["iops"] == pytest.approx(sum(rates), rel=0.02)


def _nearest_rank(bins: Counter[int], share: float) -> int:
    """The value at or below which that share of the counts lies."""
    left = math.ceil(share * sum(bins.values()))
    for value in sorted(bins):
        left -= bins[value]
        if left <= 0:
            return value
    raise AssertionError("no counts")


def test_each_trial_gets_a_fresh_volume_when_the_last_one_is_gone(leadline: Leadline) -> None:
    cluster = leadline.cluster
    seen: list[frozenset[str]] = []

    def look() -> bool:
        there = frozenset(str(volume["metadata"]["name"]) for volume in volumes(cluster))
        if not seen or seen[-1] != there:
            seen.append(there)
        return running.child.poll() is not None

    # The provisioner takes its time to remove a volume whose claim is gone.
    argv, settings = cluster._commands["block-provisioner"]
    cluster.kill("block-provisioner")
    cluster.run_part("block-provisioner", argv, settings | {"DELETE_DELAY_S": "3"})
    try:
        with nothing_left(cluster):
            before = frozenset(str(volume["metadata"]["name"]) for volume in volumes(cluster))
            target = "fresh=storageclass:block?size=96Mi&volume=fresh&zone=zone-a"
            running = leadline.start("run", leadline.plan(target, **TWICE))
            cluster.until("the end of the run", look, 240)
            running.ended().answered()
    finally:
        cluster.kill("block-provisioner")
        cluster.run_part("block-provisioner", argv, settings)
    new = [there - before for there in seen]
    assert max(len(there) for there in new) == 1, "two at once"
    told = [
        json.loads(path.read_text())["runners"][0]["volume"]["volume"]
        for path in sorted((leadline.run / "trials").glob("*/runners.json"))
    ]
    assert len(set(told)) == 2, "one for each trial"
    assert set(told) == frozenset.union(*new)
    # Each was filled before its trial.
    assert len(list((leadline.run / "prefill").iterdir())) == 2


def test_a_class_that_keeps_volumes_keeps_none_of_a_run(leadline: Leadline) -> None:
    cluster = leadline.cluster
    with retained(cluster) as name, nothing_left(cluster):
        running = leadline.start("run", leadline.plan(f"kept=storageclass:{name}?size=96Mi"))
        running.says("[1/")
        policies = [volume["spec"]["persistentVolumeReclaimPolicy"] for volume in volumes(cluster)]
        running.ended().answered()
    assert policies == ["Delete"]


def test_a_command_without_a_plan_and_a_pod_that_is_throttled(leadline: Leadline) -> None:
    with nothing_left(leadline.cluster):
        ended = leadline(
            *("run", "--target", "storageclass:block?size=96Mi", "--profile", "quick"),
            *("--repeats", "1", "--runtime", "2s", "--size", "32M", "--quiet"),
            *("--runner-image", images.RUNNER, "--runner-cpu", "100m"),
            *("--runner-memory", "128Mi", "--kubeconfig", leadline.cluster.kubeconfig()),
            *("--format", "json"),
        )
    assert ended.answered().err == ""
    assert max(trial["processor"]["throttled_share"] for trial in leadline.trials()) > 0.1
    # Of a trial that the limit did not hold back, a busy machine may be reported instead.
    told = [finding for finding in ended.json["findings"] if finding["code"] == "client-saturated"]
    assert any("limit" in item["message"] for item in told)
