"""Drills of plans on a real lab: lost OSDs, hosts, zones and links, a host that is added, and a
killed Leadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.connect.ceph import Connection
from leadline.lab.cluster import Condition, Lab, bring_up, probe_lab
from leadline.plan.lab import LabDescription, LabPool, Store
from tests.awaiting import wait_for
from tests.real.conftest import Ended, command, environment, fio_processes, is_whole

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]

PLAN = """
clusters: {{zones: {{lab: zones}}}}
targets: ["rbd:{pool}"]
workloads: [{{name: w, pattern: randwrite, iodepth: 1, size: 64M, runtime: {runtime}}}]
drill: {{after: 5s, {lasts}event: {event}}}
repeats: 1
"""


@dataclass(frozen=True)
class Zones:
    """The lab of all tests of this file, and the runs of one."""

    lab: Lab
    process: Callable[..., Ended]
    runs: Path

    @property
    def labs(self) -> Path:
        return self.lab.folder.parent

    def call(self, *arguments: object) -> Ended:
        return self.process(*arguments, LEADLINE_LABS=str(self.labs))

    def plan(
        self, event: str, *, pool: str = "rep3", lasts: str = "5s", runtime: str = "16s"
    ) -> Path:
        path = self.labs / "plan.yaml"
        lasts = "" if "add_host" in event else f"lasts: {lasts}, "
        path.write_text(PLAN.format(event=event, pool=pool, lasts=lasts, runtime=runtime))
        return path

    def condition(self) -> Condition:
        return probe_lab(self.lab.folder).condition

    @property
    def run(self) -> Run:
        return find_run("@latest", self.runs)

    def drill(self, event: str, **keys: str) -> dict[str, Any]:
        """Run a drill, and return the answer about its only cell."""
        ended = self.call("run", self.plan(event, **keys), "--allow-drill", "zones", "--quiet")
        assert ended.status == 0, ended.err
        assert self.condition() is Condition.UP
        assert self.run.left_behind == ()
        assert self.call("verify", "@latest").status == 0
        answer = json.loads(self.call("drill", "@latest", "--format", "json").out)
        (cell,) = answer["cells"]
        assert cell["missing"] == []
        found: dict[str, Any] = cell
        return found


@pytest.fixture
def zones(lab_of_zones: Lab, process: Callable[..., Ended], tmp_path: Path) -> Zones:
    return Zones(lab_of_zones, process, tmp_path / "runs")


@pytest.fixture(scope="module")
def lab_of_zones() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("needs root: NO drill of a real cluster is tested here")
    description = LabDescription(
        hosts_per_domain=2,
        store=Store.BLUESTORE_IN_MEMORY,
        osd_size_bytes=512 << 20,
        pools=(LabPool.REP3, LabPool.REP2),
    )
    with tempfile.TemporaryDirectory(prefix="ll-drills-") as labs:
        lab = bring_up("zones", description, Path(labs), lambda what: None)
        try:
            yield lab
        finally:
            lab.down()


def test_an_osd_is_lost_and_comes_back(zones: Zones) -> None:
    cell = zones.drill("{stop_osd: 1}")
    (trial,) = cell["trials"]
    assert [phase["name"] for phase in trial["phases"]][:3] == ["before", "during", "recovery"]
    assert 5 <= trial["ended_s"] < 10
    assert trial["whole_s"] >= trial["ended_s"]
    assert trial["phases"][0]["iops"] > 0
    codes = {finding.code for finding in _errors_and_warnings(zones)}
    assert not codes & {"not-steady", "cluster-not-healthy", "bimodal-latency"}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("event", "lasts", "runtime"),
    [
        ("{stop_host: az2-h1}", "8s", "40s"),
        # Peers that cannot be reached are reported down after the grace of a heartbeat, 20 s.
        ("{lose_link: [az2, az3]}", "30s", "90s"),
        ("{lose_link: [az1, az2]}", "30s", "90s"),
    ],
)
def test_a_host_and_a_link_are_lost_and_come_back(
    zones: Zones, event: str, lasts: str, runtime: str, tmp_path: Path
) -> None:
    cell = zones.drill(event, lasts=lasts, runtime=runtime)
    (trial,) = cell["trials"]
    assert [phase["name"] for phase in trial["phases"]][:3] == ["before", "during", "recovery"]
    assert trial["phases"][0]["iops"] > 0
    assert trial["whole_s"] >= trial["ended_s"] >= float(lasts.rstrip("s"))
    page = tmp_path / "run.html"
    assert zones.call("report", "@latest", "-o", page).status == 0
    assert zones.call("verify", page).status == 0
    assert "the longest time without an I/O" in zones.call("drill", "@latest").out


def test_a_host_that_is_added_is_drained_first(zones: Zones, tmp_path: Path) -> None:
    with Connection(zones.lab.access) as cluster:
        cluster.mgr("balancer off")
        cluster.mon("osd reweight", id=4, weight=0.9)
        cluster.mon("osd set-require-min-compat-client", version="luminous")
        placed = _swap_one_pg(cluster, away_from=4)
        before = _placement(cluster)
        wait_for(lambda: is_whole(cluster), 60)
        cell = zones.drill("{add_host: az2-h2}", runtime="30s")
        assert _placement(cluster) == before
        cluster.mon("osd rm-pg-upmap-items", pgid=placed)
        cluster.mon("osd reweight", id=4, weight=1.0)
        cluster.mgr("balancer on")
    (trial,) = cell["trials"]
    assert cell["event"] == "add host az2-h2"
    assert [phase["name"] for phase in trial["phases"]][:2] == ["before", "recovery"]
    assert trial["ended_s"] is None
    assert trial["whole_s"] > 0
    assert trial["recovered_bytes"] > 0
    page = tmp_path / "run.html"
    assert zones.call("report", "@latest", "-o", page).status == 0
    assert zones.call("verify", page).status == 0
    shown = zones.call("drill", "@latest").out
    assert "before that the host holds no data" in shown
    assert "during" not in shown.partition("Phases")[2].partition("trial")[0]


def test_a_host_whose_data_has_no_other_place_is_refused(zones: Zones) -> None:
    """The only host of a zone is not drained, and no target is touched."""
    with Connection(zones.lab.access) as cluster:
        cluster.mon("osd out", ids=["1"])
        try:
            # The balancer may change exceptions of PGs meanwhile.
            before = _placement(cluster)[0], _balancer(cluster)
            ended = zones.call("run", zones.plan("{add_host: az2-h2}"), "--allow-drill", "zones")
            assert (_placement(cluster)[0], _balancer(cluster)) == before
        finally:
            cluster.mon("osd in", ids=["1"])
        wait_for(lambda: is_whole(cluster), 120)
    assert ended.status == 4, ended.err
    assert "error[cluster-unfit]: the pool 'rep3' needs 3 failure domains (zone)" in ended.err
    assert not list(zones.runs.glob("*"))


def test_a_pool_that_needs_the_lost_zone_stops_until_it_is_back(zones: Zones) -> None:
    """With two copies and min_size 2, clients wait as long as the zone is lost."""
    with Connection(zones.lab.access) as cluster:
        cluster.mon("osd pool set", pool="rep2", var="min_size", val="2")
    cell = zones.drill("{stop_zone: az2}", pool="rep2")
    (trial,) = cell["trials"]
    assert trial["longest_gap_s"] > 4
    assert trial["lost_s"] > 4
    page = zones.labs / "run.html"
    assert zones.call("report", "@latest", "-o", page).status == 0
    assert "event begins" in page.read_text()
    assert zones.call("verify", page).status == 0
    assert "the longest time without an I/O" in zones.call("drill", "@latest").out


def test_consent_and_places_come_first(zones: Zones) -> None:
    without = zones.call("run", zones.plan("{stop_osd: 1}"))
    assert without.status == 2
    assert "error[drill-not-consented]" in without.err
    unknown = zones.call("run", zones.plan("{stop_zone: az5}"), "--allow-drill", "zones")
    assert unknown.status == 2
    assert "error[lab-invalid]" in unknown.err


HOST = pytest.param("{add_host: az2-h2}", marks=pytest.mark.deep)


@pytest.mark.parametrize("event", ["{stop_zone: az3}", "{lose_link: [az1, az2]}", HOST])
def test_what_a_killed_leadline_leaves_is_undone_by_clean(zones: Zones, event: str) -> None:
    with Connection(zones.lab.access) as cluster:
        before = _placement(cluster)[0], _balancer(cluster)
    _kill_in_force(zones, zones.plan(event, lasts="300s", runtime="600s"))
    if "zone" in event:
        assert zones.condition() is Condition.BROKEN
    assert any(item.path == "drill:zones" for item in zones.run.left_behind)
    wait_for(lambda: not fio_processes(zones.runs), 90)

    def cleaned() -> bool:
        zones.call("clean", "@latest")
        return not zones.run.left_behind

    wait_for(cleaned, 120)
    assert zones.condition() is Condition.UP
    with Connection(zones.lab.access) as cluster:
        assert (_placement(cluster)[0], _balancer(cluster)) == before
        wait_for(lambda: is_whole(cluster), 120)


@pytest.mark.deep
@pytest.mark.parametrize("event", ["{stop_zone: az3}", "{add_host: az2-h2}"])
def test_a_killed_drill_is_resumed_with_consent(zones: Zones, event: str) -> None:
    _kill_in_force(zones, zones.plan(event, runtime="30s"))
    wait_for(lambda: not fio_processes(zones.runs), 90)
    refused = zones.call("run", "--resume", "@latest")
    assert refused.status == 2
    assert "error[drill-not-consented]" in refused.err
    assert zones.run.left_behind
    resumed = zones.call("run", "--resume", "@latest", "--allow-drill", "zones")
    assert resumed.status == 0, resumed.err
    assert "undid the drill of a killed session: zones" in resumed.err
    assert zones.run.left_behind == ()
    assert zones.condition() is Condition.UP
    answer = json.loads(zones.call("drill", "@latest", "--format", "json").out)
    (cell,) = answer["cells"]
    assert (len(cell["trials"]), cell["missing"]) == (1, [])
    assert zones.call("verify", "@latest").status == 0


def _kill_in_force(zones: Zones, plan: Path) -> None:
    """Kill a run while its event is in force, or its host is drained."""
    child = subprocess.Popen(
        command("run", plan, "--allow-drill", "zones"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(zones.runs) | {"LEADLINE_LABS": str(zones.labs)},
    )
    try:
        if "add_host" in plan.read_text():
            with Connection(zones.lab.access) as cluster:
                wait_for(lambda: 0 in _placement(cluster)[0].values(), 120)
        else:
            wait_for(lambda: b'"begun"' in _record(zones), 120)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


def _balancer(cluster: Connection) -> bool:
    return bool(json.loads(cluster.mgr("balancer status", format="json"))["active"])


def _placement(cluster: Connection) -> Any:
    """The weights of OSDs and the exceptions of PGs."""
    dump = cluster.mon_json("osd dump")
    weights = {osd["osd"]: osd["weight"] for osd in dump["osds"]}
    return weights, dump["pg_upmap_items"]


def _swap_one_pg(cluster: Connection, away_from: int) -> str:
    """Move a PG from an OSD to the other one of its zone; return the PG."""
    pgs = json.loads(cluster.mgr("pg dump", dumpcontents=["pgs_brief"], format="json"))["pg_stats"]
    pg = next(one["pgid"] for one in pgs if away_from in one["up"])
    cluster.mon("osd pg-upmap-items", pgid=pg, id=[away_from, 5 - away_from])
    return str(pg)


def _record(zones: Zones) -> bytes:
    return b"".join(path.read_bytes() for path in zones.runs.glob("*/.staging/*/drill.jsonl"))


def _errors_and_warnings(zones: Zones) -> list[Any]:
    from leadline.audit.registry import audit
    from leadline.findings import Severity

    assert [trial.record.status for trial in zones.run.trials] == [TrialStatus.COMPLETED]
    return [finding for finding in audit(zones.run) if finding.severity is not Severity.INFO]
