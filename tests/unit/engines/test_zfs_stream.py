"""The engine with a stand-in for `zfs`, which sends a file as it is; on real ZFS it is tested in
tests/real/test_zfs_stream.py."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.connect import programs
from leadline.engines import zfs_stream
from leadline.engines.zfs_stream import ZfsStreamEngine, try_route
from leadline.errors import LeadlineError
from leadline.formats.result import FormatError
from leadline.formats.zfs.stream import parse_zfs_stream, read_stream_output, read_zfs_stream
from leadline.plan.target_url import BUFFER_BYTES, ReceiveOn, TargetKind, Transport
from leadline.plan.workload import EngineChoice, Pattern, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Dataset, Execution, Folder, Job, Receiver
from tests.local_shell import LocalShell
from tests.unit.engines.bench_doubles import Install, installer, workload

STREAM = EngineChoice.ZFS_STREAM
SIZE = 1 << 20
# A stream begins with the name of its file.
HEADER = 32
# Snapshots and datasets are files in a folder; `odd` is what a test wants to go wrong.
ZFS = """
import os, pathlib, shutil, sys, time
here, odd = pathlib.Path({here!r}), {odd!r}
verb, rest = sys.argv[1], sys.argv[2:]
name = rest[-1]
made = here / "made" / name.replace("/", ":")
below = name.partition("@")[0].split("/")[2:]
(content, *_) = [*here.joinpath("source", *below).glob("leadline.*.dat"), None]
copy = here.joinpath("copies", name.partition("@")[0].replace("/", ":"))
def fail(words):
    print(f"cannot {{verb}} '{{name}}': {{words}}", file=sys.stderr)
    sys.exit(1)
with (here / "log").open("a") as log:
    print(" ".join(sys.argv[1:]), file=log)
if verb == "snapshot":
    made.write_text("")
elif verb == "send":
    if not made.exists():
        fail("dataset does not exist")
    if odd == "endless":
        while True:
            sys.stdout.buffer.write(bytes(65536))
    sys.stdout.buffer.write(content.name.encode().ljust(32) + content.read_bytes())
elif verb == "receive":
    if made.exists():
        fail("destination exists")
    if odd == "old":
        fail("stream has unsupported feature, feature flags = 24 (unsupported)")
    if odd == "full":
        sys.stdin.buffer.read(4096)
        fail("out of space")
    made.write_text("")
    copy.mkdir(parents=True)
    received = sys.stdin.buffer.read()
    file = received[:32].decode().strip()
    received = received[32:]
    if odd == "differs":
        received = received[:-1] + b"?"
    (copy / file).write_bytes(received)
    time.sleep(0.2)
elif verb == "create":
    made.write_text("")
    here.joinpath("source", *below).mkdir()
elif verb == "list" and not made.exists():
    fail("dataset does not exist")
elif verb == "set" and below:
    made.write_text(rest[0].partition("=")[2])
elif verb == "mount" and odd == "silent":
    (here / "silent").write_text("")
    fail("no answer")
elif (here / "silent").exists():
    time.sleep(300)
elif verb == "destroy":
    if not made.exists():
        fail("dataset does not exist")
    if odd == "busy" and "@" not in name and not (here / "was-busy").exists():
        (here / "was-busy").write_text("")
        fail("dataset is busy")
    made.unlink()
    if "@" not in name and "received" in name:
        shutil.rmtree(copy)
elif verb == "get":
    guid = "2" if odd == "other-guid" and "/received@" in name else "1"
    local = f"{{made.read_text()}}\\tlocal" if made.exists() else "-"
    known = {{"recordsize": "{record}", "guid": guid, "mountpoint": str(copy)}}
    print({{**known, "leadline:holds": local}}[rest[-2]])
"""


class Machine:
    """A machine with a dataset of one file."""

    def __init__(self, root: Path, install: Install) -> None:
        self.root = root
        self.dataset = Dataset(name="tank/mine", path=root / "source")
        self.folder = root / "trial"
        self._install = install
        for name in ("source", "made", "trial"):
            (root / name).mkdir()
        (root / "source" / "leadline.0.dat").write_bytes(bytes(range(256)) * (SIZE >> 8))

    def with_zfs(self, odd: str = "", record: int = 131072) -> Machine:
        self._install("zfs", ZFS.format(here=str(self.root), odd=odd, record=record))
        return self

    def execute(
        self,
        *,
        runtime_s: float = 0.1,
        ramp_s: float = 0.0,
        size: int = SIZE,
        numjobs: int = 1,
        bound_s: float = 30.0,
        stop: StopRequest | None = None,
    ) -> Execution:
        engine = ZfsStreamEngine()
        work = stream(runtime_s=runtime_s, ramp_s=ramp_s, size=size, numjobs=numjobs)
        text = engine.job_text(work, self.dataset, 1)
        job = Job(text=text, location=self.dataset, bound_s=bound_s)
        return engine.execute(job, self.folder, stop or StopRequest(), lambda progress: None)

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in (self.root / "made").iterdir())

    @property
    def log(self) -> list[str]:
        return (self.root / "log").read_text().splitlines()


def stream(
    *, runtime_s: float = 0.1, ramp_s: float = 0.0, size: int = SIZE, numjobs: int = 1
) -> Workload:
    made = workload(
        *(Pattern.WRITE,),
        engine=STREAM,
        size=size,
        numjobs=numjobs,
        runtime_s=runtime_s,
        ramp_s=ramp_s,
    )
    (phase,) = made.phases
    return made.model_copy(update={"phases": (phase.model_copy(update={"iodepth": 1}),)})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    install = installer(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(programs, "_SEARCHED", str(tmp_path / "bin"))
    return Machine(tmp_path, install)


def test_streams_are_whole_verified_and_removed(machine: Machine) -> None:
    execution = machine.with_zfs().execute(runtime_s=0.5, ramp_s=0.1)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    report = read_zfs_stream(machine.folder)
    assert report is not None
    assert [one.counted for one in report.streams][:2] == [False, True]
    assert all(one.bytes == HEADER + SIZE for one in report.streams)
    # The receiver sleeps when it has all.
    assert all((one.finishing_s or 0.0) >= 0.2 for one in report.streams)
    assert all(one.relaying_s is not None for one in report.streams)
    assert report.relaying_share is not None
    assert report.seconds >= 0.5
    assert report.seconds - report.streams[-1].seconds < 0.5
    (file,) = report.streams[-1].files
    assert (file.path, file.bytes, file.sent) == ("leadline.0.dat", SIZE, file.received)
    assert report.record.request.buffer_bytes == BUFFER_BYTES
    (job,) = read_stream_output(machine.folder).jobs
    assert job.operations[0].io_bytes == report.bytes
    assert execution.command.count("|") == 1
    assert machine.left == []

    destroyed = {line.split()[-1] for line in machine.log if line.startswith("destroy")}
    assert destroyed
    assert all(name.startswith(("tank/mine/received", "tank/mine@leadline-")) for name in destroyed)
    # Records of every release need no flag.
    assert any(line.startswith("send tank/mine@") for line in machine.log)


class FarShell(LocalShell):
    """Another host, which is this machine."""

    def command(self, script: str, *arguments: str) -> tuple[str, ...]:
        return ("env", "SSH_CONNECTION=::1 1 127.0.0.1 22", "sh", "-c", script, "sh", *arguments)

    own_command = command


@pytest.mark.thorough
def test_streams_at_the_same_time_have_datasets_of_their_own(machine: Machine) -> None:
    data = bytes(reversed(range(256))) * (SIZE >> 8)
    (machine.root / "source" / "leadline.1.dat").write_bytes(data)
    execution = machine.with_zfs().execute(runtime_s=0.3, numjobs=2)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    report = read_zfs_stream(machine.folder)
    assert report is not None
    assert [file.path for one in report.streams[:2] for file in one.files] == [
        "leadline.0.dat",
        "leadline.1.dat",
    ]
    digests = {one.files[0].received for one in report.streams}
    assert len(digests) == 2
    (first, *_) = report.rounds
    assert first.bytes == 2 * (HEADER + SIZE)
    assert report.bandwidth_bps == pytest.approx(report.bytes / report.seconds)
    assert report.seconds < report.stream_seconds
    assert "source-1" in report.streams[1].send[-1]
    # The datasets that are sent stay for the next trial, which makes none.
    assert machine.left == ["tank:mine:source-0", "tank:mine:source-1"]
    assert machine.execute(numjobs=2).status is TrialStatus.COMPLETED
    assert sum(line.startswith("create") for line in machine.log) == 2


def test_of_several_streams_each_needs_its_data(machine: Machine) -> None:
    execution = machine.with_zfs().execute(numjobs=2)
    assert execution.problem is not None
    assert execution.problem.code == "prefill-failed"


@pytest.mark.thorough
@pytest.mark.parametrize("via", Transport)
def test_another_host_receives_and_is_compared_there(machine: Machine, via: Transport) -> None:
    wanted = ReceiveOn(host="far", dataset="pool", via=via, port=0, buffer_bytes=1 << 20)
    shell = FarShell(machine.root, "host far")
    receiver = Receiver(wanted=wanted, dataset="pool/mine", shell=shell, version="zfs-2.3")
    machine.dataset = replace(machine.dataset, receiver=receiver)
    machine.with_zfs()
    try_route(receiver)
    execution = machine.execute()
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    assert "far" in execution.command
    report = read_zfs_stream(machine.folder)
    assert report is not None
    route = report.record.route
    assert route is not None
    assert (route.host, route.dataset, route.via) == ("far", "pool/mine", via.value)
    assert report.record.request.buffer_bytes == 1 << 20
    (one, *_) = report.streams
    assert one.far is not None
    # The receiver there sleeps when it has all.
    assert one.far.bytes == one.bytes
    assert (one.far.finishing_s or 0.0) >= 0.2
    assert one.for_receiver_s >= 0.2
    assert (one.address is None) == (via is Transport.SSH)
    assert one.receive == ("zfs", "receive", "-u", "pool/mine/received")
    assert machine.left == []


def test_a_far_host_that_refuses_the_stream_says_why(machine: Machine) -> None:
    wanted = ReceiveOn(host="far", dataset="pool", via=Transport.SSH, port=0, buffer_bytes=1 << 20)
    shell = FarShell(machine.root, "host far")
    receiver = Receiver(wanted=wanted, dataset="pool/mine", shell=shell)
    machine.dataset = replace(machine.dataset, receiver=receiver)
    execution = machine.with_zfs("old").execute()
    assert execution.problem is not None
    assert execution.problem.code == "target-unsuitable"
    assert "zpool upgrade" in str(execution.problem.hint)
    assert machine.left == []


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("echo 'exec: python3: not found' >&2; exit 127", "program-missing", "python3"),
        ("echo 'Connection refused' >&2; exit 255", "host-unreachable", "by ssh"),
        ("exit 1", "host-unreachable", "no stream comes"),
    ],
)
def test_a_route_that_carries_nothing_is_refused(
    machine: Machine, command: str, code: str, words: str
) -> None:
    class Refusing(FarShell):
        def own_command(self, script: str, *arguments: str) -> tuple[str, ...]:
            return ("sh", "-c", command, "sh")

    wanted = ReceiveOn(host="far", dataset="pool", via=Transport.SSH, port=0, buffer_bytes=1 << 20)
    shell = Refusing(machine.root, "host far")
    with pytest.raises(LeadlineError) as told:
        try_route(Receiver(wanted=wanted, dataset="pool", shell=shell))
    assert told.value.kind.code == code
    assert words in told.value.fact


def test_large_records_are_sent_as_they_are(machine: Machine) -> None:
    machine.with_zfs(record=1 << 20).execute()
    assert any(line.startswith("send -L tank/mine@") for line in machine.log)


def test_a_dataset_that_is_busy_for_a_while_is_destroyed_then(machine: Machine) -> None:
    execution = machine.with_zfs("busy").execute()
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    assert machine.left == []


def test_what_an_earlier_trial_left_is_no_obstacle(machine: Machine) -> None:
    (machine.root / "made" / "tank:mine:received").write_text("")
    (machine.root / "copies" / "tank:mine:received").mkdir(parents=True)
    assert machine.with_zfs().execute().status is TrialStatus.COMPLETED


@pytest.mark.parametrize(
    ("odd", "code"),
    [("differs", "stream-differs"), ("other-guid", "stream-differs"), ("full", "target-full")],
)
def test_a_stream_that_fails_fails_the_trial_and_leaves_nothing(
    machine: Machine, odd: str, code: str
) -> None:
    execution = machine.with_zfs(odd).execute()
    assert execution.status is TrialStatus.FAILED
    assert execution.problem is not None
    assert execution.problem.code == code
    assert execution.problem.hint
    assert machine.left == []
    with pytest.raises(FormatError):
        read_stream_output(machine.folder)
    if odd == "differs":  # The evidence of a difference is kept.
        with pytest.raises(FormatError, match=r"leadline\.0\.dat"):
            parse_zfs_stream((machine.folder / "zfs-stream.json").read_bytes())


def test_what_was_not_laid_out_is_not_measured(machine: Machine) -> None:
    execution = machine.with_zfs().execute(size=2 * SIZE)
    assert execution.problem is not None
    assert execution.problem.code == "prefill-failed"
    assert machine.left == []


@pytest.mark.thorough
def test_asked_to_stop_it_ends_the_stream_and_removes_it(machine: Machine) -> None:
    stop = StopRequest()
    threading.Timer(1.0, stop.ask).start()
    began = time.monotonic()
    execution = machine.with_zfs("endless").execute(stop=stop)
    assert execution.status is TrialStatus.INTERRUPTED
    assert time.monotonic() - began < 20
    assert machine.left == []


@pytest.mark.thorough
def test_what_does_not_end_is_hung(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zfs_stream, "_HUNG_S", 60.0)  # this machine may be busy, and is not hung
    execution = machine.with_zfs("endless").execute(bound_s=1.0)
    assert execution.status is TrialStatus.HUNG
    assert execution.problem is not None
    assert execution.problem.code == "trial-hung"
    assert machine.left == []


def test_a_zfs_that_fell_silent_is_not_waited_for_at_length(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zfs_stream, "_HUNG_S", 0.5)
    began = time.monotonic()
    execution = machine.with_zfs("silent").execute()
    assert execution.status is TrialStatus.FAILED
    assert time.monotonic() - began < 60
    assert "could not be removed" in (machine.folder / "stderr.txt").read_text()


def test_without_zfs_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_SEARCHED", "/nowhere")
    with pytest.raises(LeadlineError) as told:
        ZfsStreamEngine().check(stream(), TargetKind.ZFS)
    assert told.value.kind.code == "zfs-missing"


def test_other_locations_are_refused(tmp_path: Path) -> None:
    elsewhere = Folder(path=tmp_path)
    engine = ZfsStreamEngine()
    job = Job(text=engine.job_text(stream(), elsewhere, 1), location=elsewhere, bound_s=5)
    execution = engine.execute(job, tmp_path, StopRequest(), lambda progress: None)
    assert execution.status is TrialStatus.FAILED
