"""What happens to a run when the cluster under it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.audit.registry import audit
from leadline.connect.ceph import Connection
from leadline.errors import LeadlineError
from leadline.findings import Finding, Severity
from leadline.lab import processes
from leadline.lab.cluster import Lab, bring_up
from leadline.lab.state import LabState, ProcessRecord, require_state, write_state
from leadline.plan.lab import LabDescription, LabPool, Store
from tests.awaiting import wait_for
from tests.real.conftest import (
    Ended,
    command,
    environment,
    fio_processes,
    is_whole,
    sh,
)

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]


@dataclass(frozen=True)
class Daemon:
    """A process of the lab, with all that is needed to start it again as it was."""

    pid: int
    network: Path
    command: list[bytes]
    environment: dict[bytes, bytes]

    @classmethod
    def of(cls, pid: int, network: Path) -> Daemon:
        proc = Path(f"/proc/{pid}")
        pairs = (proc / "environ").read_bytes().rstrip(b"\0").split(b"\0")
        return cls(
            pid=pid,
            network=network,
            command=(proc / "cmdline").read_bytes().rstrip(b"\0").split(b"\0"),
            environment=dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair),
        )

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    @property
    def variables(self) -> dict[str, str]:
        """Its environment, by which a lab finds its processes."""
        return {key.decode(): value.decode() for key, value in self.environment.items()}

    def start_again(self) -> None:
        subprocess.run(
            ["setsid", "--fork", "nsenter", f"--net={self.network}", "--", *self.command],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )


class Cluster:
    """A lab to break, and to repair."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.started: list[subprocess.Popen[bytes]] = []

    @property
    def state(self) -> LabState:
        return require_state(self.lab.name, self.lab.folder.parent)

    def network(self, zone: int) -> Path:
        assert self.lab.network is not None
        return self.lab.network.zones[zone].namespace

    def daemon(self, name: str) -> Daemon:
        pid = next(record.pid for record in self.state.processes if record.name == name)
        kind, _, number = name.partition(".")
        return Daemon.of(pid, self.network(int(number) if kind == "osd" else 0))

    def start(self, *command: object, zone: int = 0) -> None:
        """Start a further daemon in the network of a zone. It ends with the lab."""
        log = self.lab.folder / "log" / f"{command[0]}-{command[2]}.out"
        entered = ("nsenter", f"--net={self.network(zone)}", "--")
        with log.open("wb") as output:
            started = subprocess.Popen(
                (*entered, *map(str, command), "--conf", self.lab.access.conf, "-f"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | self.daemon("mon.a").variables,
                start_new_session=True,
            )
        self.started.append(started)

    def connect(self) -> Connection:
        """A connection for commands that must not come late: the `ceph` program needs seconds."""
        return Connection(self.lab.access)

    def running(self) -> dict[str, ProcessRecord]:
        return {
            process.name: ProcessRecord(
                name=process.name, pid=process.pid, start_ticks=process.start_ticks
            )
            for process in processes.find(self.lab.folder, self.lab.state.token)
        }

    def repair(self, daemons: Mapping[str, Daemon]) -> None:
        """Start those of the daemons that do not run, note them in the state of the lab, and wait
        until the cluster is whole."""
        for name in daemons.keys() - self.running().keys():
            daemons[name].start_again()
        wait_for(lambda: daemons.keys() <= self.running().keys())
        state, running = self.state, self.running()
        records = tuple(running.get(record.name, record) for record in state.processes)
        write_state(self.lab.folder, state.model_copy(update={"processes": records}))
        with self.connect() as cluster:
            wait_for(lambda: is_whole(cluster), 240)


@dataclass(frozen=True)
class Drill:
    """A cluster to break, and a way to call Leadline."""

    cluster: Cluster
    call: Callable[..., Ended]
    runs: Path

    def findings(self) -> list[Finding]:
        """What the audit says of the cluster's health."""
        return [finding for finding in audit(self.run) if finding.code == "cluster-not-healthy"]

    def severity_of(self, text: str) -> Severity:
        """The severity of the finding that says it."""
        found = self.findings()
        severities = {item.severity for item in found if text in item.message}
        assert len(severities) == 1, [text, *(item.message for item in found)]
        return severities.pop()

    @property
    def run(self) -> Run:
        return find_run("@latest", self.runs)

    def trial_is_going_on(self) -> bool:
        """fio runs and the prefill is over."""
        staged = list(self.runs.glob("*/.staging/trials-*/job.fio"))
        return bool(staged) and bool(fio_processes(self.runs))


@pytest.fixture(scope="class")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A lab for all tests of a class, and for each that is in none."""
    if os.geteuid() != 0:
        pytest.skip("needs root: no failure of a real cluster is tested here")
    pools = getattr(request.cls, "pools", (LabPool.REP3, LabPool.REP2))
    description = LabDescription(
        store=Store.BLUESTORE_IN_MEMORY, osd_size_bytes=1 << 30, pools=pools
    )
    with tempfile.TemporaryDirectory(prefix="ll-drill-") as labs:
        found = Cluster(bring_up("drill", description, Path(labs), lambda what: None))
        try:
            yield found
        finally:
            found.lab.down()
        assert not list(Path(labs).iterdir())
        for started in found.started:
            started.wait(30)


@pytest.fixture(scope="class")
def daemons(cluster: Cluster) -> Mapping[str, Daemon]:
    """The daemons that `lab up` started."""
    names = [record.name for record in cluster.state.processes]
    return {name: cluster.daemon(name) for name in names}


@pytest.fixture
def drill(
    cluster: Cluster,
    daemons: Mapping[str, Daemon],
    tmp_path: Path,
    process: Callable[..., Ended],
) -> Iterator[Drill]:
    labs = str(cluster.lab.folder.parent)
    cluster.repair(daemons)

    def call(*arguments: object) -> Ended:
        return process(*arguments, LEADLINE_LABS=labs)

    yield Drill(cluster=cluster, call=call, runs=tmp_path / "runs")
    assert not fio_processes(tmp_path)


# Of a trial that is to hang, and of one that is to end: a busy machine is slow.
IMPATIENT = "grace: 3s\n"
PATIENT = "grace: 60s\n"


def plan(folder: Path, pool: str, runtime: str, more: str = "") -> Path:
    path = folder / "plan.yaml"
    settings = more if "repeats" in more else f"repeats: 1\n{more}"
    # Thirty-two objects: of four, none lies on just the two OSDs that fail one time in five.
    size = "128M" if "rep2" in pool else "16M"
    path.write_text(
        f"clusters: {{drill: {{lab: drill}}}}\ntargets: [{pool}]\n{settings}"
        f"workloads: [{{name: w, pattern: randwrite, iodepth: 1, size: {size}, "
        f"runtime: {runtime}}}]\n"
    )
    return path


def while_running(
    drill: Drill,
    folder: Path,
    pool: str,
    runtime: str,
    break_it: Callable[[], object],
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


def taken_over(
    drill: Drill,
    folder: Path,
    target: str,
    program: str,
    standby: str,
    standbys: tuple[str, str],
    fail: tuple[str, dict[str, str]],
) -> None:
    """Start a standby and let the active daemon fail by a command during a trial, which completes.
    `standbys`: where the cluster's status counts them."""
    drill.cluster.start(program, "-i", standby)
    part, count = standbys
    command, arguments = fail
    with drill.cluster.connect() as cluster:
        wait_for(lambda: cluster.mon_json("status")[part][count] == 1, 60)
        ended = while_running(
            drill, folder, target, "12s", lambda: cluster.mon(command, **arguments), PATIENT
        )
    assert [trial.record.status for trial in drill.run.trials] == [TrialStatus.COMPLETED], ended.err


class TestDaemons:
    """On one lab, which is repaired before each test. What stays comes last: a standby that took
    over, and a monitor that is gone."""

    def test_an_osd_killed_during_a_trial_is_reported_with_the_numbers(
        self, drill: Drill, tmp_path: Path
    ) -> None:
        victim = drill.cluster.daemon("osd.1")
        ended = while_running(drill, tmp_path, "rbd:rep3", "8s", victim.kill, PATIENT)
        (trial,) = drill.run.trials
        assert trial.record.status is TrialStatus.COMPLETED, ended.err
        # Beside it may stand that a busy cluster did not always answer.
        (down,) = [finding for finding in drill.findings() if "OSD_DOWN" in finding.message]
        assert down.severity in (Severity.WARNING, Severity.ERROR)
        assert drill.run.left_behind == ()
        assert drill.call("verify", "@latest").status == 0

    def test_data_that_is_out_of_reach_ends_the_trial_as_hung_and_is_cleaned_up_later(
        self, drill: Drill, daemons: Mapping[str, Daemon], tmp_path: Path
    ) -> None:
        victims = [drill.cluster.daemon("osd.1"), drill.cluster.daemon("osd.2")]

        def both_down() -> None:
            for victim in victims:
                victim.kill()

        ended = while_running(drill, tmp_path, "rbd:rep2", "10s", both_down, IMPATIENT)
        assert ended.status == 4, ended.err
        (trial,) = drill.run.trials
        assert trial.record.status is TrialStatus.HUNG
        assert trial.record.signals
        assert "error[trial-hung]" in ended.err
        assert not fio_processes(drill.runs)
        (left,) = drill.run.left_behind
        assert left.path in ended.err, "what could not be removed is told"
        assert any(finding.severity is Severity.ERROR for finding in drill.findings())
        # Once the OSDs are back: a call of `clean` before that is in vain.
        drill.cluster.repair(daemons)

        def cleaned() -> bool:
            drill.call("clean", "@latest")
            return not drill.run.left_behind

        wait_for(cleaned, 240)
        assert drill.call("verify", "@latest").status == 0

    def test_a_delay_left_by_a_killed_run_is_put_back_by_clean(
        self, drill: Drill, tmp_path: Path
    ) -> None:
        child = subprocess.Popen(
            command("run", plan(tmp_path, "'rbd:rep3?inter_zone_rtt=20ms'", "300s")),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(drill.runs) | {"LEADLINE_LABS": str(drill.cluster.lab.folder.parent)},
        )
        try:
            wait_for(drill.trial_is_going_on, 180)
        finally:
            child.kill()
            child.wait()
        assert drill.cluster.state.description.inter_zone_rtt_s == pytest.approx(0.02)
        assert {item.path.partition(":")[0] for item in drill.run.left_behind} == {"rbd", "delay"}
        wait_for(lambda: not fio_processes(drill.runs), 90)
        cleaned = drill.call("clean", "@latest")
        assert cleaned.status == 0, cleaned.err
        assert drill.run.left_behind == ()
        assert drill.cluster.state.description.inter_zone_rtt_s == pytest.approx(0.001)

    def test_a_monitor_that_restarts_does_not_end_a_trial(
        self, drill: Drill, tmp_path: Path
    ) -> None:
        monitor = drill.cluster.daemon("mon.a")

        def restart() -> None:
            monitor.kill()
            time.sleep(1.0)
            monitor.start_again()

        ended = while_running(drill, tmp_path, "rbd:rep3", "8s", restart, PATIENT)
        (trial,) = drill.run.trials
        assert trial.record.status is TrialStatus.COMPLETED, ended.err
        assert drill.run.left_behind == ()
        assert drill.run.complete

    def test_a_manager_killed_during_a_trial_is_in_the_findings(
        self, drill: Drill, tmp_path: Path
    ) -> None:
        victim = drill.cluster.daemon("mgr.x")
        ended = while_running(drill, tmp_path, "rbd:rep3", "12s", victim.kill, PATIENT)
        assert [trial.record.status for trial in drill.run.trials] == [TrialStatus.COMPLETED], (
            ended.err
        )
        assert drill.severity_of("mgr.x gave no answer") is Severity.INFO
        assert drill.severity_of("found no manager") is Severity.INFO
        assert drill.run.left_behind == ()
        # A silent manager is asked once, and its answers are missing in the inventory.
        inventory = drill.run.cluster("end", "drill")
        assert inventory is not None
        assert inventory.pool("rep3") is not None
        access = drill.cluster.lab.access
        with Connection(access, timeout_s=1) as impatient, pytest.raises(LeadlineError) as silent:
            impatient.mgr("balancer status", format="json")
        assert silent.value.kind is errors.CEPH_UNREACHABLE

    def test_a_standby_of_the_manager_that_takes_over_is_in_the_findings(
        self, drill: Drill, tmp_path: Path
    ) -> None:
        standbys = ("mgrmap", "num_standbys")
        taken_over(
            drill, tmp_path, "rbd:rep3", "ceph-mgr", "y", standbys, ("mgr fail", {"who": "x"})
        )
        # It starts again by itself, between two samples or later.
        messages = [item.message for item in drill.findings()]
        assert any("mgr.x left" in text or "mgr.x restarted" in text for text in messages), messages
        assert drill.severity_of("mgr.x") is Severity.INFO

    def test_the_only_monitor_killed_during_a_trial_is_in_the_findings(
        self, drill: Drill, tmp_path: Path
    ) -> None:
        victim = drill.cluster.daemon("mon.a")
        while_running(drill, tmp_path, "rbd:rep3", "12s", victim.kill, PATIENT)
        assert drill.run.trials[0].record.status is TrialStatus.COMPLETED
        assert drill.severity_of("got no answer of a monitor") is Severity.INFO


class TestFileSystem:
    pools = (LabPool.REP3, LabPool.CEPHFS_REP3)

    def test_an_mds_killed_during_a_trial_is_in_the_findings_and_the_run_ends(
        self, drill: Drill, tmp_path: Path
    ) -> None:
        victim = drill.cluster.daemon("mds.a")
        ended = while_running(drill, tmp_path, "cephfs:cephfs-rep3", "10s", victim.kill, IMPATIENT)
        assert ended.status == 4, ended.err
        assert drill.severity_of("mds.a gave no answer") is Severity.WARNING
        (left,) = drill.run.left_behind
        assert left.path in ended.err
        assert "leadline clean" in ended.err
        victim.start_again()

        def cleaned() -> bool:
            drill.call("clean", "@latest")
            return not drill.run.left_behind

        wait_for(cleaned, 240)
        assert not Path(left.path).exists()
        assert drill.call("verify", "@latest").status == 0

    def test_a_standby_mds_that_takes_over_is_in_the_findings(
        self, drill: Drill, tmp_path: Path
    ) -> None:
        standbys, fail = ("fsmap", "up:standby"), ("mds fail", {"role_or_gid": "a"})
        taken_over(drill, tmp_path, "cephfs:cephfs-rep3", "ceph-mds", "b", standbys, fail)
        assert drill.severity_of("MDS rank 0 mds.a up:active") is Severity.WARNING
        assert drill.run.left_behind == ()


def test_a_lab_that_is_killed_whole_leaves_an_archive_and_nothing_else(
    drill: Drill, tmp_path: Path
) -> None:
    def kill_all() -> None:
        for record in drill.cluster.state.processes:
            os.kill(record.pid, signal.SIGKILL)

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


def test_a_monitor_that_leaves_the_quorum_is_in_the_findings_of_this_and_the_next_trial(
    drill: Drill, tmp_path: Path
) -> None:
    lab = drill.cluster.lab
    with drill.cluster.connect() as cluster:
        (tmp_path / "monmap").write_bytes(cluster.mon("mon getmap"))
        for number, name in ((1, "b"), (2, "c")):
            zone = ("nsenter", f"--net={drill.cluster.network(number)}", "ceph-mon")
            own = ("-i", name, "--mon-data", lab.folder / "daemons" / f"mon.{name}")
            sh(*zone, "--conf", lab.access.conf, *own, "--mkfs", "--monmap", tmp_path / "monmap")
            address = f"v2:10.77.{number + 1}.1:3300"
            drill.cluster.start("ceph-mon", *own, "--public-addr", address, zone=number)
            wait_for(
                lambda count=number + 1: len(cluster.mon_json("quorum_status")["quorum"]) == count,
                60,
            )
    ended = while_running(
        drill,
        tmp_path,
        "rbd:rep3",
        "12s",
        drill.cluster.started[-1].kill,
        f"repeats: 2\n{PATIENT}",
    )
    first, second = drill.run.trials
    assert first.record.status is second.record.status is TrialStatus.COMPLETED, ended.err
    told = {
        (item.trial, item.severity): item.message
        for item in drill.findings()
        if "mon.c gave no answer" in item.message
    }
    assert {trial for trial, _ in told} == {first.record.trial, second.record.trial}
    assert any("monitors in quorum 3 -> 2" in item.message for item in drill.findings())
