"""fio behind a shell, where that shell, fio or the clock does not do as it should."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.raw import read_output
from leadline.archive.records import TrialStatus
from leadline.connect.shell import CommandResult
from leadline.engines.fio import job_check, remote
from leadline.engines.fio.remote import RemoteFioEngine
from leadline.errors import LeadlineError
from leadline.plan.job_file import parse_job_file
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Progress, RemoteVolume, RemoteVolumes, Shape
from tests.conftest import RECORDED
from tests.local_shell import LOST, SCRATCH, Flaky, LocalShell, folders, real, stub

RESULT = RECORDED / "randread-4k-qd1" / "fio.json"
# Answers as fio does, counts its starts in the folder of the programs, then does as it is told.
FIO = """\
case "$1" in
--version) echo {version}; exit ;;
--enghelp) printf 'Available IO engines:\\n{engines}'; exit ;;
--name=try) {attempt}; exit ;;
esac
echo start >>{folder}/starts
output=${{1#--output=}}
{body}
"""
DONE = f'cp {RESULT} "$output"'
# The words of the scripts that a connection can be lost in.
BEGIN, FOLLOW, COLLECT = "cat >job.fio", "until [ -e ended ]", "digests.txt"


@pytest.fixture
def programs(tmp_path: Path) -> Callable[..., Path]:
    """A folder of programs with a fio that only pretends."""

    def make(
        body: str = DONE,
        *,
        attempt: str = ":",
        version: str = "fio-3.33",
        engines: tuple[str, ...] = ("io_uring", "libaio", "psync"),
    ) -> Path:
        folder = tmp_path / "programs"
        listed = "".join(f"\\t{engine}\\n" for engine in engines)
        text = FIO.format(
            version=version, engines=listed, attempt=attempt, folder=folder, body=body
        )
        return stub(folder, "fio", text)

    return make


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Volumes of this machine have their order to start at once."""
    monkeypatch.setattr(remote, "_LEAD_S", 0.3)


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    folder = tmp_path / "trial"
    folder.mkdir()
    return folder


def starts(programs: Path) -> int:
    return (programs / "starts").read_text().count("start") if (programs / "starts").exists() else 0


def ignore(progress: Progress) -> None:
    """Nobody looks."""


def execute(
    location: RemoteVolumes,
    trial: Path,
    *,
    text: str = "[job]\n",
    bound_s: float = 60.0,
    stop: StopRequest | None = None,
    progress: Callable[[Progress], None] = ignore,
) -> Execution:
    job = Job(text=text, location=location, bound_s=bound_s)
    return RemoteFioEngine().execute(job, trial, stop or StopRequest(), progress)


def behind(location: RemoteVolumes, shell: object) -> RemoteVolumes:
    """The first volume, behind another shell."""
    first = RemoteVolume(shell=shell, path=location.volumes[0].path)  # type: ignore[arg-type]
    return replace(location, volumes=(first,))


def flaky(location: RemoteVolumes, losses: dict[str, int], *, behind: bool) -> Flaky:
    shell = location.volumes[0].shell
    assert isinstance(shell, LocalShell)
    return Flaky(shell, losses, behind=behind)


def problem(execution: Execution, status: TrialStatus, code: str) -> str:
    assert execution.status is status, execution
    assert execution.problem is not None
    assert execution.problem.code == code, execution.problem
    return "\n".join(
        [execution.problem.fact, *execution.problem.context, execution.problem.hint or ""]
    )


@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("word", [BEGIN, FOLLOW, COLLECT], ids=["begin", "follow", "collect"])
def test_a_connection_lost_before_or_behind_a_step_does_not_harm(
    tmp_path: Path, trial: Path, programs: Callable[..., Path], word: str, after: bool
) -> None:
    own = programs("sleep 0.3; " + DONE)
    location = folders(tmp_path / "pods", programs=own)
    shell = flaky(location, {word: 2}, behind=after)
    execution = execute(behind(location, shell), trial)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    assert starts(own) == 1, "fio was started once"
    assert shell.asked.count(word) == 3
    assert (trial / "fio.json").read_bytes() == RESULT.read_bytes()


def test_damaged_results_are_asked_for_again(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    location = folders(tmp_path / "pods", programs=programs())
    shell = Damaging(location.volumes[0].shell, times=2)
    execution = execute(behind(location, shell), trial)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    assert (trial / "fio.json").read_bytes() == RESULT.read_bytes()


def test_results_that_never_arrive_whole_are_none(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    location = folders(tmp_path / "pods", programs=programs())
    execution = execute(behind(location, Damaging(location.volumes[0].shell, times=99)), trial)
    told = problem(execution, TrialStatus.FAILED, "shell-lost")
    assert "arrive damaged" in told
    assert not (trial / "fio.json").exists()


class Damaging:
    """A shell that changes a byte in the middle of what is collected."""

    def __init__(self, shell: object, *, times: int) -> None:
        assert isinstance(shell, LocalShell)
        self.name, self._shell, self._times = shell.name, shell, times

    def run(self, script: str, *arguments: str, **settings: object) -> CommandResult:
        said = self._shell.run(script, *arguments, **settings)  # type: ignore[arg-type]
        if COLLECT not in script or not self._times:
            return said
        self._times -= 1
        middle = len(said.stdout) // 2
        changed = bytes([said.stdout[middle] ^ 0x55])
        return replace(said, stdout=said.stdout[:middle] + changed + said.stdout[middle + 1 :])


def test_a_job_that_does_not_arrive_whole_is_not_begun(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    own = programs()
    location = folders(tmp_path / "pods", programs=own)
    shell = location.volumes[0].shell

    class Cutting:
        name = shell.name

        def run(
            self, script: str, *arguments: str, given: bytes = b"", **settings: object
        ) -> CommandResult:
            return shell.run(script, *arguments, given=given[:-3], **settings)  # type: ignore[arg-type]

    execution = execute(behind(location, Cutting()), trial)
    told = problem(execution, TrialStatus.FAILED, "runner-failed")
    assert "fio could not be started in the pod 1" in told
    assert starts(own) == 0


@pytest.mark.parametrize("step_s", [-5 * 3600.0, 5 * 3600.0])
def test_volumes_begin_together_by_clocks_that_are_apart(
    tmp_path: Path,
    trial: Path,
    programs: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    step_s: float,
) -> None:
    """Also while this machine's wall clock is set at every look at it."""
    monkeypatch.setattr(remote, "_LEAD_S", 1.0)
    own = programs()
    ahead = stub(tmp_path / "ahead", "date", f'exec {real("date")} -d "+60 seconds" "$@"')
    shutil.copy(own / "fio", ahead)
    location = folders(tmp_path / "pods", 3, programs=own)
    second = LocalShell(tmp_path / "pods" / "fast", "pod ahead", programs=ahead)
    volumes = list(location.volumes)
    volumes[1] = RemoteVolume(shell=second, path=volumes[1].path)
    asked_at = time.time()
    steps, wall = itertools.count(), time.time
    monkeypatch.setattr(time, "time", lambda: wall() + step_s * next(steps))
    execution = execute(replace(location, volumes=tuple(volumes)), trial)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    began = []
    for number, ahead_s in ((1, 0), (2, 60), (3, 0)):
        text = (trial / f"volume-{number}.before.txt").read_text()
        began.append(int(text.split()[1]) / 1e3 - ahead_s)
    assert max(began) - min(began) < 30, "apart by half of what the clocks are, at the least"
    assert min(began) > asked_at + 1.0, "they wait until all know"


def test_a_machine_whose_date_tells_no_milliseconds_is_told_of(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    own = programs()
    stub(own, "date", "echo 17000000003N")
    execution = execute(folders(tmp_path / "pods", 2, programs=own), trial)
    assert "no milliseconds" in problem(execution, TrialStatus.FAILED, "runner-failed")
    assert starts(own) == 0


WAITS = """\
trap '{on_int}' INT
echo $$ >{pid}
while :; do sleep 0.2; done
"""


def test_asked_to_stop_in_the_middle_fio_gets_a_sigint_and_its_output_is_kept(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    pid = tmp_path / "pid"
    own = programs(WAITS.format(pid=pid, on_int=f"{DONE}; exit 128"))
    stop = StopRequest()
    thread = when_it_runs(pid, stop.ask)
    execution = execute(folders(tmp_path / "pods", programs=own), trial, stop=stop)
    thread.join()
    assert execution.signals == ("SIGINT",)
    problem(execution, TrialStatus.INTERRUPTED, "interrupted")
    assert execution.wall_s < 60
    assert (trial / "fio.json").exists()


def test_asked_to_stop_before_volumes_begin_they_end_as_soon_as_they_have(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    own = programs(WAITS.format(pid=tmp_path / "pid", on_int="exit 128"))
    stop = StopRequest()
    stop.ask()
    execution = execute(folders(tmp_path / "pods", 2, programs=own), trial, stop=stop, bound_s=120)
    problem(execution, TrialStatus.INTERRUPTED, "interrupted")
    assert execution.signals == ("SIGINT",)
    assert execution.wall_s < 60


def test_asked_twice_fio_is_killed_and_does_not_go_on_alone(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    pid = tmp_path / "pid"
    own = programs(WAITS.format(pid=pid, on_int=":"))
    stop = StopRequest()

    def twice() -> None:
        stop.ask()
        time.sleep(0.5)
        stop.ask()

    thread = when_it_runs(pid, twice)
    execution = execute(folders(tmp_path / "pods", programs=own), trial, stop=stop, bound_s=120)
    thread.join()
    problem(execution, TrialStatus.INTERRUPTED, "interrupted")
    assert execution.signals[-1] == "SIGKILL"
    assert not alive(int(pid.read_text()))


def when_it_runs(pid: Path, then: Callable[[], None]) -> threading.Thread:
    def waiting() -> None:
        while not pid.exists() or not pid.read_text().strip():
            time.sleep(0.05)
        then()

    thread = threading.Thread(target=waiting)
    thread.start()
    return thread


def alive(pid: int) -> bool:
    """Whether a process is there and not only waits to be reaped."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.1)
    return True


def test_a_fio_that_does_not_end_is_hung_and_killed(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    pid = tmp_path / "pid"
    own = programs(WAITS.format(pid=pid, on_int=":"))
    # As in the script, but one second of patience in place of ten.
    stub(own, "timeout", f'shift 4; exec {real("timeout")} -s INT -k 1 "$@"')
    execution = execute(folders(tmp_path / "pods", programs=own), trial, bound_s=2)
    told = problem(execution, TrialStatus.HUNG, "trial-hung")
    assert "within 2 s and was stopped" in told
    assert not alive(int(pid.read_text()))


def test_a_runner_that_never_tells_is_given_up(
    tmp_path: Path,
    trial: Path,
    programs: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "_KILLED_S", 1.0)
    location = folders(tmp_path / "pods", programs=programs())
    shell = flaky(location, {FOLLOW: 10_000}, behind=False)
    execution = execute(behind(location, shell), trial, bound_s=1)
    told = problem(execution, TrialStatus.HUNG, "trial-hung")
    assert "could not be stopped" in told


def test_a_runner_that_is_gone_is_told_of_at_once(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    location = folders(tmp_path / "pods", programs=programs())
    gone = LeadlineError(errors.RUNNER_FAILED, "the pod ended: OOMKilled", hint="more memory")
    shell = location.volumes[0].shell

    class Gone:
        name = shell.name

        def run(self, script: str, *arguments: str, **settings: object) -> CommandResult:
            if FOLLOW in script:
                raise gone
            return shell.run(script, *arguments, **settings)  # type: ignore[arg-type]

    execution = execute(behind(location, Gone()), trial)
    told = problem(execution, TrialStatus.FAILED, "runner-failed")
    assert "OOMKilled" in told
    assert "more memory" in told


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("kill -9 $$", "engine-failed", "give the runner more memory"),
        ('echo "fio: No space left on device" >&2; exit 1', "target-full", "free space"),
        ("exit 3", "engine-failed", "exit status 3"),
    ],
)
def test_a_fio_that_fails_is_told_in_its_own_words(
    tmp_path: Path, trial: Path, programs: Callable[..., Path], body: str, code: str, said: str
) -> None:
    execution = execute(folders(tmp_path / "pods", programs=programs(body)), trial)
    assert said in problem(execution, TrialStatus.FAILED, code)


def test_the_volume_that_failed_is_named(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    own = programs(f"case $PWD in */pod-2/*) exit 3 ;; esac; {DONE}")
    execution = execute(folders(tmp_path / "pods", 3, programs=own), trial)
    told = problem(execution, TrialStatus.FAILED, "engine-failed")
    assert "volume 2 of 3, in the pod 2" in told
    assert execution.exit_status == 3


def test_rates_of_volumes_are_told_as_one(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    line = "Jobs: 1 (f=1): [r(1)][50.0%][r=391MiB/s][r=100 IOPS][eta 00m:01s]"
    own = programs(f"echo '{line}'; sleep 1; {DONE}")
    said: list[Progress] = []
    execute(folders(tmp_path / "pods", 3, programs=own), trial, progress=said.append)
    assert max(one.iops for one in said) == 300


def workload(**settings: object) -> Workload:
    plan = load_plan(None, Overrides(targets=["dir:/x"], profiles=["quick"]))
    return plan.cells[0].workload.model_copy(update=settings)


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"version": "fio-3.1"}, "fio-too-old", "fio-3.1 is too old"),
        ({"engines": ("psync",)}, "engine-unknown", "neither io_uring nor libaio"),
        ({"attempt": "echo 'fio: Invalid argument'; exit 1"}, "target-unsuitable", "direct I/O"),
        ({"attempt": "echo 'fio: no such engine'; exit 1"}, "engine-unknown", "no such engine"),
    ],
)
def test_what_cannot_work_is_refused_before_any_trial(
    tmp_path: Path, programs: Callable[..., Path], settings: dict[str, object], code: str, said: str
) -> None:
    location = folders(tmp_path / "pods", programs=programs(**settings))
    with pytest.raises(LeadlineError) as caught:
        RemoteFioEngine().resolve(workload(), location)
    assert caught.value.kind.code == code
    assert said in "\n".join([caught.value.fact, *caught.value.context])


def test_an_image_without_fio_is_told_of(tmp_path: Path) -> None:
    own = stub(tmp_path / "programs", "fio", "echo 'fio: not found' >&2; exit 127")
    with pytest.raises(LeadlineError) as caught:
        RemoteFioEngine().resolve(workload(), folders(tmp_path / "pods", programs=own))
    assert caught.value.kind is errors.RUNNER_FAILED
    assert "there is no fio in the pod 1" in caught.value.fact


def test_the_second_engine_is_taken_where_the_first_does_not_work(
    tmp_path: Path, programs: Callable[..., Path]
) -> None:
    own = programs(attempt='case "$*" in *io_uring*) exit 1 ;; esac')
    found = RemoteFioEngine().resolve(workload(), folders(tmp_path / "pods", programs=own))
    assert found.engine is EngineChoice.LIBAIO


@pytest.mark.parametrize(("user", "spared"), [("0", False), ("1000", True)])
def test_only_root_is_let_drop_the_pages_of_a_device(
    tmp_path: Path, programs: Callable[..., Path], user: str, spared: bool
) -> None:
    own = stub(programs(), "id", f"echo {user}")
    location = replace(folders(tmp_path / "pods", programs=own), shape=Shape.SPAN)
    engine = RemoteFioEngine()
    engine.resolve(workload(), location)
    command = engine.command(Job(text="", location=location, bound_s=1), tmp_path)
    assert ("--invalidate=0" in command) is spared


@pytest.mark.parametrize("name", ["dash", "bash", "busybox"])
def test_the_scripts_are_understood_by_the_shells_that_images_have(
    tmp_path: Path, trial: Path, programs: Callable[..., Path], name: str
) -> None:
    own = programs("sleep 0.4; echo 'a line'; " + DONE)
    sh = (real(name), "sh") if name == "busybox" else (real(name),)
    stub(own, "sh", f'exec {" ".join(sh)} "$@"')
    location = folders(tmp_path / "pods", 2, programs=own, sh=sh)
    execution = execute(location, trial)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    assert execution.processor is not None
    assert (trial / "volume-2.fio.json").read_bytes() == RESULT.read_bytes()


@pytest.mark.real
def test_percentiles_of_volumes_are_those_of_their_merged_histograms(
    tmp_path: Path, trial: Path
) -> None:
    location = folders(tmp_path / "pods", 3)
    engine = RemoteFioEngine()
    settled = engine.resolve(workload(runtime_s=1.0, ramp_s=0.0), location)
    phases = tuple(one.model_copy(update={"size": 8 << 20}) for one in settled.phases)
    settled = settled.model_copy(update={"phases": phases})
    text = engine.job_text(settled, location, 1)
    execution = execute(location, trial, text=text)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    merged_as_told(trial, 3)


def merged_as_told(trial: Path, count: int) -> None:
    from leadline.archive.raw import derive
    from leadline.formats.fio.json_output import parse_fio_json
    from leadline.metrics import Metric
    from leadline.stats.histogram import LatencyHistogram

    derived = derive(read_output("fio", trial))
    alone = [
        parse_fio_json((trial / f"volume-{number + 1}.fio.json").read_bytes()).jobs
        for number in range(count)
    ]
    assert derived.operations
    for operation in derived.operations:
        parts = [
            one
            for jobs in alone
            for job in jobs
            for one in job.operations
            if job.name == operation.job and one.op is operation.op
        ]
        assert len(parts) == count
        histograms = [one.histogram for one in parts if one.histogram is not None]
        merged = LatencyHistogram.merged(histograms)
        assert operation.metrics[Metric.LATENCY_P99] == merged.quantile_s(0.99)
        assert sum(operation.histogram_counts) == sum(one.count for one in histograms)
        rates = [one.metrics()[Metric.IOPS] or 0.0 for one in parts]
        assert operation.metrics[Metric.IOPS] == pytest.approx(sum(rates))


@pytest.mark.real
@pytest.mark.root
@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_real_fio_on_loop_devices(tmp_path: Path, trial: Path, count: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("loop devices need root: this test does NOT run here")
    import subprocess

    devices: list[str] = []
    try:
        for number in range(count):
            image = tmp_path / f"image-{number}"
            with image.open("wb") as file:
                file.truncate(16 << 20)
            made = subprocess.run(
                ["losetup", "--find", "--show", str(image)],
                check=True,
                capture_output=True,
                text=True,
            )
            devices.append(made.stdout.strip())
        volumes = tuple(
            RemoteVolume(shell=LocalShell(tmp_path / f"pod-{path.rpartition('/')[2]}"), path=path)
            for path in devices
        )
        location = RemoteVolumes(shape=Shape.SPAN, volumes=volumes, folder=SCRATCH)
        engine = RemoteFioEngine()
        settled = engine.resolve(workload(runtime_s=1.0, ramp_s=0.0), location)
        phases = tuple(
            one.model_copy(update={"size": (8 << 20) // one.numjobs}) for one in settled.phases
        )
        settled = settled.model_copy(update={"phases": phases})
        execution = execute(location, trial, text=engine.job_text(settled, location, 1))
        assert execution.status is TrialStatus.COMPLETED, execution.problem
        jobs = read_output("fio", trial).jobs
        assert all(one.operations for one in jobs)
        if count > 1:
            assert {one.host for one in jobs} == {"volume 1", "volume 2", "volume 3"}
            merged_as_told(trial, count)
    finally:
        for device in devices:
            subprocess.run(["losetup", "--detach", device], check=True)


def test_a_command_is_printed_without_asking_anybody(tmp_path: Path) -> None:
    class Nobody:
        name = "RUNNER-1"

        def run(self, script: str, *arguments: str, **settings: object) -> CommandResult:
            raise LOST

    volume = RemoteVolume(shell=Nobody(), path="/dev/leadline")
    location = RemoteVolumes(shape=Shape.SPAN, volumes=(volume,), folder="SCRATCH")
    engine = RemoteFioEngine()
    likely = engine.likely(workload(), location)
    assert likely.engine is EngineChoice.IO_URING
    command = engine.command(Job(text="", location=location, bound_s=1), tmp_path)
    assert command[0] == "fio"
    assert "--filename=/dev/leadline" in command
    assert json.dumps(command)


def test_a_folder_that_is_gone_is_no_fio_that_hangs(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    location = folders(tmp_path / "pods", programs=programs("sleep 60"))
    shell = location.volumes[0].shell

    class Rebooted:
        name = shell.name

        def run(self, script: str, *arguments: str, **settings: object) -> CommandResult:
            if FOLLOW in script:
                # What runs there may write into the folder while it is removed.
                gone = 'until rm -rf "$1" 2>/dev/null; do sleep 0.01; done'
                shell.run(gone, arguments[0], bound_s=10)
            return shell.run(script, *arguments, **settings)  # type: ignore[arg-type]

    told = problem(
        execute(behind(location, Rebooted()), trial), TrialStatus.FAILED, "runner-failed"
    )
    assert "is gone" in told


def test_a_script_that_is_killed_while_it_follows_is_begun_again(
    tmp_path: Path, trial: Path, programs: Callable[..., Path]
) -> None:
    location = folders(tmp_path / "pods", programs=programs("sleep 0.3; " + DONE))
    shell = location.volumes[0].shell
    killed: list[str] = []

    class Killed:
        name = shell.name

        def run(self, script: str, *arguments: str, **settings: object) -> CommandResult:
            if FOLLOW in script and not killed:
                killed.append(script)
                return CommandResult(stdout=b"", stderr=b"", status=137)
            return shell.run(script, *arguments, **settings)  # type: ignore[arg-type]

    execution = execute(behind(location, Killed()), trial)
    assert execution.status is TrialStatus.COMPLETED, execution.problem


OWN = parse_job_file("mine.fio", "[a/b]\nruntime=1\nrw=randwrite\nsize=1m\n")


@pytest.mark.parametrize("shape", list(Shape))
def test_fio_at_the_volume_reads_a_job_file_before_its_first_trial(
    tmp_path: Path, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = replace(folders(tmp_path / "pods", count=1), shape=shape)
    own = Workload(name="mine", job_file=OWN, runtime_s=1)
    engine = RemoteFioEngine()
    assert engine.resolve(own, location) == own
    assert "[a_b]" in engine.job_text(own, location, 1)
    monkeypatch.setattr(job_check, "write_job_file", lambda *given: "[a]\nfilename=/x\n")
    with pytest.raises(LeadlineError, match="would leave the target") as caught:
        engine.resolve(own, location)
    assert caught.value.kind is errors.JOB_FILE_INVALID
    monkeypatch.setattr(job_check, "write_job_file", lambda *given: "[a]\nrw=nothing\n")
    with pytest.raises(LeadlineError, match="fio refuses") as caught:
        engine.resolve(own, location)
    assert "rw=nothing" in str(caught.value)


def test_a_job_file_of_an_archive_is_parsed_before_there_is_a_pod() -> None:
    edited = OWN.model_copy(update={"text": "[a]\nruntime=1\nexec_prerun=id\n"})
    own = Workload(name="mine", job_file=edited, runtime_s=1)
    with pytest.raises(LeadlineError, match="exec_prerun"):
        RemoteFioEngine().check(own, TargetKind.STORAGE_CLASS)
