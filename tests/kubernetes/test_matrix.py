"""The study's plan in pods of a real cluster: in groups within its budget, and nothing left."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, changes, everything, settled

BOUND_S = 900.0


class Claims(threading.Thread):
    """The most claims of runs that were in the cluster at the same time."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._over = threading.Event()
        self.most = 0

    def run(self) -> None:
        path = "/api/v1/persistentvolumeclaims?labelSelector=leadline%2Ftoken"
        while not self._over.wait(0.5):
            self.most = max(self.most, len(self._cluster.request(path)["items"]))

    def stop(self) -> int:
        self._over.set()
        self.join()
        return self.most


def study(folder: Path, **more: Any) -> Path:
    """The shipped plan with the runner image of the tests."""
    document = yaml.safe_load((ROOT / "plans/vm-pool-study.yaml").read_text())
    document["clusters"]["kubernetes"]["kubernetes"] |= {"image": images.RUNNER, "ready": "120s"}
    path = folder / "study.yaml"
    path.write_text(json.dumps(document | more))
    return path


@pytest.fixture
def leadline(cluster: Cluster, tmp_path: Path) -> Leadline:
    return Leadline(cluster=cluster, folder=tmp_path)


SHORT: dict[str, Any] = {
    "matrix": {"machine": {"small": {"cores": "150m"}}, "size": ["32Mi"], "count": [1, 2]},
    "budget": {"volumes": 4},
    "defaults": {"size": "4M", "runtime": "1s"},
    "repeats": 2,
}


def test_a_study_in_groups_stays_within_its_budget_and_compares_classes(
    leadline: Leadline, cluster: Cluster, tmp_path: Path
) -> None:
    before = settled(cluster)
    claims = Claims(cluster)
    claims.start()
    ended = leadline("run", study(tmp_path, **SHORT), "--format", "json", bound_s=BOUND_S)
    most = claims.stop()
    ended.answered()
    assert changes(before, everything(cluster)) == []
    assert 2 <= most <= 4
    assert "group 2 of" in ended.err
    trials = leadline.trials()
    assert {trial["status"] for trial in trials} == {"completed"}
    assert len(trials) == 4 * 2 * 2
    leadline("verify", leadline.run).went_well()
    sides = ("class=fast", "class=block", "--by", "label", "--run", leadline.run)
    compared = leadline("compare", *sides, "--format", "json").json
    reasons = {reason for cell in compared["cells"] for reason in cell["reasons"]}
    assert "across-groups" not in reasons
    assert {cell["target"] for cell in compared["cells"]} == {
        f"count={count}, machine=small, size=32Mi" for count in (1, 2)
    }
    page = tmp_path / "pools.html"
    leadline("report", *sides, "-o", page).went_well()
    leadline("verify", page).went_well()


def test_a_killed_study_goes_on_in_its_group(
    leadline: Leadline, cluster: Cluster, tmp_path: Path
) -> None:
    before = settled(cluster)
    # Two groups of two targets.
    sizes = {**SHORT["matrix"], "size": ["32Mi", "48Mi"], "count": [1]}
    few = {"matrix": sizes, "budget": {"volumes": 2}}
    started = leadline.start("run", study(tmp_path, **{**SHORT, **few}))
    started.until("group 2", lambda: "group 2 of 2" in started.err, BOUND_S)
    started.until("a trial of it", lambda: len(leadline.trials()) > 8, BOUND_S)
    started.signal(signal.SIGKILL)
    started.ended(BOUND_S)
    resumed = leadline("run", "--resume", leadline.run, "--format", "json", bound_s=BOUND_S)
    resumed.answered()
    assert len(leadline.trials()) >= 4 * 2 * 2
    assert resumed.json["trials"] == 4 * 2 * 2
    assert changes(before, everything(cluster)) == []


def test_a_group_without_a_quota_for_it_fails_and_the_others_go_on(
    leadline: Leadline, tmp_path: Path
) -> None:
    """A class whose provisioner is absent keeps its claims pending."""
    targets = [
        {"name": "fast", "target": "storageclass:fast?mode=filesystem&size=32Mi"},
        {"name": "stuck", "target": "storageclass:stuck?mode=filesystem&size=32Mi"},
    ]
    more = {**SHORT, "matrix": {}, "targets": targets, "budget": {"volumes": 1}, "repeats": 1}
    plan = study(tmp_path, **more)
    document = json.loads(plan.read_text())
    document["clusters"]["kubernetes"]["kubernetes"]["ready"] = "15s"
    plan.write_text(json.dumps(document))
    ended = leadline("run", plan, bound_s=BOUND_S)
    ended.failed("volume-pending", 4)
    assert "group " in ended.err
    assert {trial["target"] for trial in leadline.trials()} == {"fast"}


def test_one_runner_on_each_node(leadline: Leadline) -> None:
    plan = leadline.plan("all=storageclass:fast?size=96Mi&spread=node&count=all")
    leadline("run", plan, "--format", "json").answered()
    (trial,) = leadline.trials()
    folder = next((leadline.run / "trials").iterdir())
    runners = json.loads((folder / "runners.json").read_text())["runners"]
    assert len(runners) == 1, trial  # the cluster has one node
