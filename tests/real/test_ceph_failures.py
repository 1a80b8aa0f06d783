"""What happens to a run when the cluster under it fails. Each drill has a lab of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.connect.ceph import CephAccess, Connection
from tests.awaiting import wait_for
from tests.real.conftest import Ended, command, environment, fio_processes, sh

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]


@dataclass(frozen=True)
class Daemon:
    """A process of the lab, with all that is needed to start it again as it was."""

    pid: int
    command: list[bytes]
    environment: dict[bytes, bytes]

    @classmethod
    def of(cls, pid: int) -> Daemon:
        proc = Path(f"/proc/{pid}")
        pairs = (proc / "environ").read_bytes().rstrip(b"\0").split(b"\0")
        return cls(
            pid=pid,
            command=(proc / "cmdline").read_bytes().rstrip(b"\0").split(b"\0"),
            environment=dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair),
        )

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    @property
    def variables(self) -> dict[str, str]:
        """Its environment, by which a lab finds its processes."""
        return {key.decode(): value.decode() for key, value in self.environment.items()}

    def start_again(self, network: str) -> None:
        subprocess.run(
            ["setsid", "--fork", "nsenter", f"--net={network}", "--", *self.command],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )


@dataclass(frozen=True)
class Drill:
    """A lab to break, and a way to call Leadline."""

    call: Callable[..., Ended]
    runs: Path
    labs: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def status(self) -> dict[str, object]:
        ended = self.call("lab", "status", "drill", "--format", "json")
        found: dict[str, object] = json.loads(ended.out)["labs"][0]
        return found

    def daemon(self, name: str) -> Daemon:
        processes = self.status()["processes"]
        assert isinstance(processes, list)
        return Daemon.of(next(process["pid"] for process in processes if process["name"] == name))

    def network(self, number: int) -> str:
        zones = self.status()["zones"]
        assert isinstance(zones, list)
        return str(zones[number]["namespace"])

    def findings(self) -> list[dict[str, Any]]:
        """What the audit says of the cluster's health."""
        answer = json.loads(self.call("audit", "@latest", "--format", "json").out)
        found: list[dict[str, Any]] = answer["findings"]
        return [finding for finding in found if finding["code"] == "cluster-not-healthy"]

    def severity_of(self, text: str) -> str:
        """The severity of the finding that says it."""
        found = self.findings()
        severities = {item["severity"] for item in found if text in item["message"]}
        assert len(severities) == 1, [text, *(item["message"] for item in found)]
        return str(severities.pop())

    def start(self, *command: str, zone: int = 0) -> subprocess.Popen[bytes]:
        """Start a further daemon in the network of a zone. It ends with the lab."""
        conf = Path(self.labs, "drill", "ceph.conf")
        log = Path(self.labs, "drill", "log", f"{command[0]}-{command[2]}.out")
        with log.open("wb") as output:
            started = subprocess.Popen(
                ("nsenter", f"--net={self.network(zone)}", "--", *command, "--conf", conf, "-f"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | self.daemon("mon.a").variables,
                start_new_session=True,
            )
        self.started.append(started)
        return started

    def connect(self) -> Connection:
        """A connection for commands that must not come late: the `ceph` program needs seconds."""
        conf = Path(self.labs, "drill", "ceph.conf")
        return Connection(CephAccess(conf=conf, namespace=Path(self.network(0))))

    @property
    def run(self) -> Run:
        return find_run("@latest", self.runs)

    def trial_is_going_on(self) -> bool:
        """fio runs and the prefill is over."""
        staged = list(self.runs.glob("*/.staging/trials-*/job.fio"))
        return bool(staged) and bool(fio_processes(self.runs))


@pytest.fixture
def drill(tmp_path: Path, process: Callable[..., Ended]) -> Iterator[Drill]:
    with lab_to_break(tmp_path, process, "rep3, rep2") as found:
        yield found


@pytest.fixture
def cephfs_drill(tmp_path: Path, process: Callable[..., Ended]) -> Iterator[Drill]:
    with lab_to_break(tmp_path, process, "rep3, cephfs-rep3") as found:
        yield found


@contextmanager
def lab_to_break(folder: Path, process: Callable[..., Ended], pools: str) -> Iterator[Drill]:
    if os.geteuid() != 0:
        pytest.skip("needs root: no failure of a real cluster is tested here")
    with tempfile.TemporaryDirectory(prefix="ll-drill-") as labs:

        def call(*arguments: object) -> Ended:
            return process(*arguments, LEADLINE_LABS=labs)

        description = folder / "lab.yaml"
        description.write_text(f"store: bluestore-in-memory\nosd_size: 1G\npools: [{pools}]\n")
        up = call("lab", "up", "drill", description)
        assert up.status == 0, up.err
        found = Drill(call=call, runs=folder / "runs", labs=labs)
        yield found
        if list(Path(labs).iterdir()):
            down = call("lab", "down", "drill")
            assert down.status == 0, down.err
        assert not list(Path(labs).iterdir())
        assert not fio_processes(folder)
        for started in found.started:
            started.wait(30)


# Of a trial that is to hang, and of one that is to end: a busy machine is slow.
IMPATIENT = "grace: 3s\n"
PATIENT = "grace: 60s\n"


def plan(folder: Path, pool: str, runtime: str, more: str = "") -> Path:
    path = folder / "plan.yaml"
    settings = more if "repeats" in more else f"repeats: 1\n{more}"
    # Thirty-two objects: of four, none lies on just the two OSDs that fail one time in five.
    path.write_text(
        f"clusters: {{drill: {{lab: drill}}}}\ntargets: [{pool}]\n{settings}"
        f"workloads: [{{name: w, pattern: randwrite, iodepth: 4, size: 128M, "
        f"runtime: {runtime}}}]\n"
    )
    return path


def while_running(
    drill: Drill,
    folder: Path,
    pool: str,
    runtime: str,
    break_it: Callable[[], None],
    more: str = "",
) -> Ended:
    """A run of one trial during which something breaks."""
    ended: list[Ended] = []
    thread = threading.Thread(
        target=lambda: ended.append(drill.call("run", plan(folder, pool, runtime, more)))
    )
    thread.start()
    try:
        wait_for(drill.trial_is_going_on, 180)
        time.sleep(1.5)
        break_it()
    finally:
        thread.join(300)
    assert ended, "the run came to an end"
    return ended[0]


def test_an_osd_killed_during_a_trial_is_reported_with_the_numbers(
    drill: Drill, tmp_path: Path
) -> None:
    victim = drill.daemon("osd.1")
    ended = while_running(drill, tmp_path, "rbd:rep3", "8s", victim.kill, PATIENT)
    (trial,) = drill.run.trials
    assert trial.record.status is TrialStatus.COMPLETED, ended.err
    findings = json.loads(drill.call("audit", "@latest", "--format", "json").out)["findings"]
    # Beside it may stand that a busy cluster did not always answer.
    told = [finding for finding in findings if finding["code"] == "cluster-not-healthy"]
    (down,) = [item for item in told if "OSD_DOWN" in item["message"]]
    assert down["severity"] in ("warning", "error")
    assert drill.run.left_behind == ()
    assert drill.call("verify", "@latest").status == 0


def test_data_that_is_out_of_reach_ends_the_trial_as_hung_and_is_cleaned_up_later(
    drill: Drill, tmp_path: Path
) -> None:
    victims = [drill.daemon("osd.1"), drill.daemon("osd.2")]

    def both_down() -> None:
        for victim in victims:
            victim.kill()

    networks = [drill.network(1), drill.network(2)]
    ended = while_running(drill, tmp_path, "rbd:rep2", "10s", both_down, IMPATIENT)
    assert ended.status == 4, ended.err
    (trial,) = drill.run.trials
    assert trial.record.status is TrialStatus.HUNG
    assert trial.record.signals
    assert "error[trial-hung]" in ended.err
    assert not fio_processes(drill.runs)
    (left,) = drill.run.left_behind
    assert left.path in ended.err, "what could not be removed is told"
    findings = json.loads(drill.call("audit", "@latest", "--format", "json").out)["findings"]
    assert any(
        finding["code"] == "cluster-not-healthy" and finding["severity"] == "error"
        for finding in findings
    )
    for victim, network in zip(victims, networks, strict=True):
        victim.start_again(network)

    def cleaned() -> bool:
        drill.call("clean", "@latest")
        return not drill.run.left_behind

    wait_for(cleaned, 240)
    assert drill.call("verify", "@latest").status == 0


def test_a_monitor_that_restarts_does_not_end_a_trial(drill: Drill, tmp_path: Path) -> None:
    monitor, network = drill.daemon("mon.a"), drill.network(0)

    def restart() -> None:
        monitor.kill()
        time.sleep(1.0)
        monitor.start_again(network)

    ended = while_running(drill, tmp_path, "rbd:rep3", "8s", restart, PATIENT)
    (trial,) = drill.run.trials
    assert trial.record.status is TrialStatus.COMPLETED, ended.err
    assert drill.run.left_behind == ()
    assert drill.run.complete


def test_a_lab_that_is_killed_whole_leaves_an_archive_and_nothing_else(
    drill: Drill, tmp_path: Path
) -> None:
    processes = drill.status()["processes"]
    assert isinstance(processes, list)

    def kill_all() -> None:
        for process in processes:
            os.kill(process["pid"], signal.SIGKILL)

    ended = while_running(drill, tmp_path, "rbd:rep3", "10s", kill_all, IMPATIENT)
    assert ended.status == 4, ended.err
    (trial,) = drill.run.trials
    assert trial.record.status in (TrialStatus.HUNG, TrialStatus.FAILED)
    assert not fio_processes(drill.runs)
    assert drill.run.left_behind, "the image was not reached any more, and is told of"
    # With the lab gone there is nothing of it to clean up.
    assert drill.call("lab", "down", "drill").status == 0
    assert drill.call("clean", "@latest").status == 0
    assert drill.run.left_behind == ()


def test_a_delay_left_by_a_killed_run_is_put_back_by_clean(drill: Drill, tmp_path: Path) -> None:
    child = subprocess.Popen(
        command("run", plan(tmp_path, "'rbd:rep3?inter_zone_rtt=20ms'", "300s")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(drill.runs) | {"LEADLINE_LABS": drill.labs},
    )
    try:
        wait_for(drill.trial_is_going_on, 180)
    finally:
        child.kill()
        child.wait()
    assert drill.status()["inter_zone_rtt_s"] == pytest.approx(0.02)
    assert {item.path.partition(":")[0] for item in drill.run.left_behind} == {"rbd", "delay"}
    wait_for(lambda: not fio_processes(drill.runs), 90)
    cleaned = drill.call("clean", "@latest")
    assert cleaned.status == 0, cleaned.err
    assert drill.run.left_behind == ()
    assert drill.status()["inter_zone_rtt_s"] == pytest.approx(0.001)


def test_a_manager_killed_during_a_trial_is_in_the_findings(drill: Drill, tmp_path: Path) -> None:
    victim = drill.daemon("mgr.x")
    ended = while_running(drill, tmp_path, "rbd:rep3", "12s", victim.kill, PATIENT)
    assert [trial.record.status for trial in drill.run.trials] == [TrialStatus.COMPLETED], ended.err
    assert drill.severity_of("mgr.x gave no answer") == "info"
    assert drill.severity_of("found no manager") == "info"
    assert drill.run.left_behind == ()


def test_a_standby_of_the_manager_that_takes_over_is_in_the_findings(
    drill: Drill, tmp_path: Path
) -> None:
    drill.start("ceph-mgr", "-i", "y")
    with drill.connect() as cluster:
        wait_for(lambda: cluster.mon_json("status")["mgrmap"]["num_standbys"] == 1, 60)

        def fail() -> None:
            cluster.mon("mgr fail", who="x")

        ended = while_running(drill, tmp_path, "rbd:rep3", "12s", fail, PATIENT)
    assert [trial.record.status for trial in drill.run.trials] == [TrialStatus.COMPLETED], ended.err
    # It starts again by itself, between two samples or later.
    messages = [item["message"] for item in drill.findings()]
    assert any("mgr.x left" in text or "mgr.x restarted" in text for text in messages), messages
    assert drill.severity_of("mgr.x") == "info"


def test_the_only_monitor_killed_during_a_trial_is_in_the_findings(
    drill: Drill, tmp_path: Path
) -> None:
    victim = drill.daemon("mon.a")
    while_running(drill, tmp_path, "rbd:rep3", "12s", victim.kill, PATIENT)
    assert drill.run.trials[0].record.status is TrialStatus.COMPLETED
    assert drill.severity_of("got no answer of a monitor") == "info"


def test_a_monitor_that_leaves_the_quorum_is_in_the_findings_of_this_and_the_next_trial(
    drill: Drill, tmp_path: Path
) -> None:
    started = []
    with drill.connect() as cluster:
        (tmp_path / "monmap").write_bytes(cluster.mon("mon getmap"))
        for number, name in ((1, "b"), (2, "c")):
            folder = Path(drill.labs, "drill", "daemons", f"mon.{name}")
            zone = ("nsenter", f"--net={drill.network(number)}", "ceph-mon")
            conf = Path(drill.labs, "drill", "ceph.conf")
            own = ("-i", name, "--mon-data", str(folder))
            sh(*zone, "--conf", conf, *own, "--mkfs", "--monmap", tmp_path / "monmap")
            address = f"v2:10.77.{number + 1}.1:3300"
            joining = drill.start("ceph-mon", *own, "--public-addr", address, zone=number)
            started.append(joining)
            wait_for(
                lambda count=number + 1: len(cluster.mon_json("quorum_status")["quorum"]) == count,
                60,
            )
    ended = while_running(
        drill,
        tmp_path,
        "rbd:rep3",
        "12s",
        lambda: started[-1].kill(),
        f"repeats: 2\n{PATIENT}",
    )
    first, second = drill.run.trials
    assert first.record.status is second.record.status is TrialStatus.COMPLETED, ended.err
    told = {
        (item["trial"], item["severity"]): item["message"]
        for item in drill.findings()
        if "mon.c gave no answer" in item["message"]
    }
    assert {trial for trial, _ in told} == {first.record.trial, second.record.trial}
    assert any("monitors in quorum 3 -> 2" in item["message"] for item in drill.findings())


def test_an_mds_killed_during_a_trial_is_in_the_findings_and_the_run_ends(
    cephfs_drill: Drill, tmp_path: Path
) -> None:
    drill = cephfs_drill
    victim, network = drill.daemon("mds.a"), drill.network(0)
    ended = while_running(drill, tmp_path, "cephfs:cephfs-rep3", "10s", victim.kill, IMPATIENT)
    assert ended.status == 4, ended.err
    assert drill.severity_of("mds.a gave no answer") == "warning"
    (left,) = drill.run.left_behind
    assert left.path in ended.err
    assert "leadline clean" in ended.err
    victim.start_again(network)

    def cleaned() -> bool:
        drill.call("clean", "@latest")
        return not drill.run.left_behind

    wait_for(cleaned, 240)
    assert not Path(left.path).exists()
    assert drill.call("verify", "@latest").status == 0


def test_a_standby_mds_that_takes_over_is_in_the_findings(
    cephfs_drill: Drill, tmp_path: Path
) -> None:
    drill = cephfs_drill
    drill.start("ceph-mds", "-i", "b")
    with drill.connect() as cluster:
        wait_for(lambda: cluster.mon_json("status")["fsmap"]["up:standby"] == 1, 60)

        def fail() -> None:
            cluster.mon("mds fail", role_or_gid="a")

        ended = while_running(drill, tmp_path, "cephfs:cephfs-rep3", "12s", fail, PATIENT)
    assert [trial.record.status for trial in drill.run.trials] == [TrialStatus.COMPLETED], ended.err
    assert drill.severity_of("MDS rank 0 mds.a up:active") == "warning"
    assert drill.run.left_behind == ()
