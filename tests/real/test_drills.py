"""Drills of plans on a real lab: a lost OSD, a lost zone, a lost link, and a killed Leadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.connect.ceph import Connection
from leadline.lab.state import lab_access
from tests.awaiting import wait_for
from tests.real.conftest import Ended, command, environment, fio_processes

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]

PLAN = """
clusters: {{zones: {{lab: zones}}}}
targets: ["rbd:{pool}"]
workloads: [{{name: w, pattern: randwrite, iodepth: 4, size: 64M, runtime: {runtime}}}]
drill: {{after: 5s, lasts: {lasts}, event: {event}}}
repeats: 1
"""


class Lab:
    """A lab of three zones, for all tests of this file; each has a folder of runs."""

    def __init__(self, labs: str) -> None:
        self.labs = labs
        self.runs = Path(labs, "runs")

    @property
    def variables(self) -> dict[str, str]:
        return environment(self.runs) | {"LEADLINE_LABS": self.labs}

    def call(self, *arguments: object) -> Ended:
        done = subprocess.run(
            command(*arguments), capture_output=True, text=True, timeout=300, env=self.variables
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def plan(
        self, event: str, *, pool: str = "rep3", lasts: str = "5s", runtime: str = "16s"
    ) -> Path:
        path = Path(self.labs, "plan.yaml")
        path.write_text(PLAN.format(event=event, pool=pool, lasts=lasts, runtime=runtime))
        return path

    def condition(self) -> str:
        ended = self.call("lab", "status", "zones", "--format", "json")
        return str(json.loads(ended.out)["labs"][0]["condition"])

    @property
    def run(self) -> Run:
        return find_run("@latest", self.runs)

    def drill(self, event: str, **keys: str) -> dict[str, Any]:
        """Run a drill, and return the answer about its only cell."""
        ended = self.call("run", self.plan(event, **keys), "--allow-drill", "zones", "--quiet")
        assert ended.status == 0, ended.err
        assert self.condition() == "up"
        assert self.run.left_behind == ()
        assert self.call("verify", "@latest").status == 0
        answer = json.loads(self.call("drill", "@latest", "--format", "json").out)
        (cell,) = answer["cells"]
        assert cell["missing"] == []
        found: dict[str, Any] = cell
        return found


@pytest.fixture
def zones(lab_of_zones: Lab, tmp_path: Path) -> Lab:
    lab_of_zones.runs = tmp_path / "runs"
    return lab_of_zones


@pytest.fixture(scope="module")
def lab_of_zones() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("needs root: NO drill of a real cluster is tested here")
    with tempfile.TemporaryDirectory(prefix="ll-drills-") as labs:
        lab = Lab(labs)
        description = Path(labs, "lab.yaml")
        description.write_text(
            "topology: multi-zone\nstore: bluestore-in-memory\nosd_size: 1G\npools: [rep3, rep2]\n"
        )
        up = lab.call("lab", "up", "zones", description)
        assert up.status == 0, up.err
        try:
            yield lab
        finally:
            down = lab.call("lab", "down", "zones")
        assert down.status == 0, down.err


def test_an_osd_is_lost_and_comes_back(zones: Lab) -> None:
    cell = zones.drill("{stop_osd: 1}")
    (trial,) = cell["trials"]
    assert [phase["name"] for phase in trial["phases"]][:3] == ["before", "during", "recovery"]
    assert 5 <= trial["ended_s"] < 10
    assert trial["whole_s"] >= trial["ended_s"]
    assert trial["phases"][0]["iops"] > 0
    codes = {finding.code for finding in _errors_and_warnings(zones)}
    assert not codes & {"not-steady", "cluster-not-healthy", "bimodal-latency"}


def test_a_pool_that_needs_the_lost_zone_stops_until_it_is_back(zones: Lab) -> None:
    """With two copies and min_size 2, clients wait as long as the zone is lost."""
    access = lab_access("zones", Path(zones.labs))
    with Connection(access) as cluster:
        cluster.mon("osd pool set", pool="rep2", var="min_size", val="2")
    cell = zones.drill("{stop_zone: az2}", pool="rep2")
    (trial,) = cell["trials"]
    assert trial["longest_gap_s"] > 4
    assert trial["lost_s"] > 4
    page = Path(zones.labs, "run.html")
    assert zones.call("report", "@latest", "-o", page).status == 0
    assert "event begins" in page.read_text()
    assert zones.call("verify", page).status == 0
    assert "the longest time without an I/O" in zones.call("drill", "@latest").out


def test_consent_and_places_come_first(zones: Lab) -> None:
    without = zones.call("run", zones.plan("{stop_osd: 1}"))
    assert without.status == 2
    assert "error[drill-not-consented]" in without.err
    unknown = zones.call("run", zones.plan("{stop_zone: az5}"), "--allow-drill", "zones")
    assert unknown.status == 2
    assert "error[lab-invalid]" in unknown.err


@pytest.mark.parametrize("event", ["{stop_zone: az3}", "{lose_link: [az1, az2]}"])
def test_what_a_killed_leadline_leaves_is_undone_by_clean(zones: Lab, event: str) -> None:
    plan = zones.plan(event, lasts="300s", runtime="600s")
    child = subprocess.Popen(
        command("run", plan, "--allow-drill", "zones"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=zones.variables,
    )
    try:
        wait_for(lambda: bool(list(zones.runs.glob("*/.staging/*/drill.jsonl"))), 120)
        wait_for(lambda: b'"begun"' in _record(zones), 60)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    if "zone" in event:
        assert zones.condition() == "broken"
    assert any(item.path == "drill:zones" for item in zones.run.left_behind)
    wait_for(lambda: not fio_processes(zones.runs), 90)

    def cleaned() -> bool:
        zones.call("clean", "@latest")
        return not zones.run.left_behind

    wait_for(cleaned, 120)
    assert zones.condition() == "up"
    wait_for(lambda: _whole(zones), 120)


def _record(zones: Lab) -> bytes:
    return b"".join(path.read_bytes() for path in zones.runs.glob("*/.staging/*/drill.jsonl"))


def _whole(zones: Lab) -> bool:
    ended = zones.call("inventory", "--lab", "zones", "--format", "json")
    return ended.status == 0 and "HEALTH_OK" in ended.out


def _errors_and_warnings(zones: Lab) -> list[Any]:
    from leadline.audit.registry import audit
    from leadline.findings import Severity

    assert [trial.record.status for trial in zones.run.trials] == [TrialStatus.COMPLETED]
    return [finding for finding in audit(zones.run) if finding.severity is not Severity.INFO]
