"""The engine with a stand-in for `zfs`, which sends a file as it is; on real ZFS it is tested in
tests/real/test_zfs_stream.py."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.connect import programs
from leadline.engines import zfs_stream
from leadline.engines.zfs_stream import BUFFER_BYTES, ZfsStreamEngine
from leadline.errors import LeadlineError
from leadline.formats.result import FormatError
from leadline.formats.zfs.stream import parse_zfs_stream, read_stream_output, read_zfs_stream
from leadline.plan.models import EngineChoice, Pattern, Workload
from leadline.plan.target_url import TargetKind
from leadline.runner.events import StopRequest
from leadline.runner.ports import Dataset, Execution, Folder, Job
from tests.unit.engines.bench_doubles import Install, installer, workload

STREAM = EngineChoice.ZFS_STREAM
SIZE = 1 << 20
# Snapshots and datasets are files in a folder; `odd` is what a test wants to go wrong.
ZFS = """
import os, pathlib, shutil, sys, time
here, odd = pathlib.Path({here!r}), {odd!r}
verb, rest = sys.argv[1], sys.argv[2:]
name = rest[-1]
made = here / "made" / name.replace("/", ":")
content, copy = here / "source" / "leadline.0.dat", here / "copy"
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
    sys.stdout.buffer.write(content.read_bytes())
elif verb == "receive":
    if made.exists():
        fail("destination exists")
    if odd == "full":
        sys.stdin.buffer.read(4096)
        fail("out of space")
    made.write_text("")
    copy.mkdir()
    received = sys.stdin.buffer.read()
    if odd == "differs":
        received = received[:-1] + b"?"
    (copy / "leadline.0.dat").write_bytes(received)
    time.sleep(0.2)
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
    if "@" not in name:
        shutil.rmtree(copy)
elif verb == "get":
    guid = "2" if odd == "other-guid" and "/received@" in name else "1"
    print({{"recordsize": "{record}", "guid": guid, "mountpoint": str(copy)}}[rest[-2]])
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
        bound_s: float = 30.0,
        stop: StopRequest | None = None,
    ) -> Execution:
        engine = ZfsStreamEngine()
        work = stream(runtime_s=runtime_s, ramp_s=ramp_s, size=size)
        text = engine.job_text(work, self.dataset, 1)
        job = Job(text=text, location=self.dataset, bound_s=bound_s)
        return engine.execute(job, self.folder, stop or StopRequest(), lambda progress: None)

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in (self.root / "made").iterdir())

    @property
    def log(self) -> list[str]:
        return (self.root / "log").read_text().splitlines()


def stream(*, runtime_s: float = 0.1, ramp_s: float = 0.0, size: int = SIZE) -> Workload:
    made = workload(Pattern.WRITE, engine=STREAM, size=size, runtime_s=runtime_s, ramp_s=ramp_s)
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
    assert all(one.bytes == SIZE for one in report.streams)
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


def test_large_records_are_sent_as_they_are(machine: Machine) -> None:
    machine.with_zfs(record=1 << 20).execute()
    assert any(line.startswith("send -L tank/mine@") for line in machine.log)


def test_a_dataset_that_is_busy_for_a_while_is_destroyed_then(machine: Machine) -> None:
    execution = machine.with_zfs("busy").execute()
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    assert machine.left == []


def test_what_an_earlier_trial_left_is_no_obstacle(machine: Machine) -> None:
    (machine.root / "made" / "tank:mine:received").write_text("")
    (machine.root / "copy").mkdir()
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


def test_asked_to_stop_it_ends_the_stream_and_removes_it(machine: Machine) -> None:
    stop = StopRequest()
    threading.Timer(1.0, stop.ask).start()
    began = time.monotonic()
    execution = machine.with_zfs("endless").execute(stop=stop)
    assert execution.status is TrialStatus.INTERRUPTED
    assert time.monotonic() - began < 20
    assert machine.left == []


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
