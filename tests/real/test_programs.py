"""pgbench and sysbench on real file systems, on this machine and as in pods."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.archive.layout import PROGRAM_SCRIPT
from leadline.archive.raw import read_output
from leadline.archive.records import TrialStatus
from leadline.engines.program.engine import ProgramEngine
from leadline.files import remove_abandoned
from leadline.formats.program.request import Program
from leadline.metrics import Op
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Folder, Job, Location, Progress
from tests.awaiting import wait_for
from tests.conftest import Said
from tests.local_shell import folders

pytestmark = [pytest.mark.real]
CHOICES = {Program.PGBENCH: EngineChoice.PGBENCH, Program.SYSBENCH: EngineChoice.SYSBENCH}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user postgres can reach, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="leadline-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=list(Program))
def engine(request: pytest.FixtureRequest) -> ProgramEngine:
    found = ProgramEngine(request.param)
    # Without the package this fails, and says so.
    found.check(workload_of(found), TargetKind.DIR)
    return found


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    made = tmp_path / "trial"
    made.mkdir()
    return made


def workload_of(engine: ProgramEngine, runtime_s: float = 1.0) -> Workload:
    phase = Phase(
        name="randrw",
        pattern=Pattern.RANDRW,
        block_size=16384,
        iodepth=1,
        numjobs=2,
        size=16 << 20,
        read_share=50,
    )
    return Workload(
        name="w",
        phases=(phase,),
        engine=CHOICES[engine.program],
        direct=False,
        runtime_s=runtime_s,
    )


def job_of(engine: ProgramEngine, location: Location, runtime_s: float = 1.0) -> Job:
    workload = engine.resolve(workload_of(engine, runtime_s), location)
    return Job(text=engine.job_text(workload, location, 1), location=location, bound_s=120)


def require_nothing_left(folder: Path) -> None:
    assert [path.name for path in folder.rglob("leadline.*")] == []
    # Those of living processes are of other tests on this machine.
    sockets = Path("/tmp").glob("leadline-postgres-*")
    assert [path for path in sockets if not Path("/proc", path.name.split("-")[2]).exists()] == []
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert not [line for line in listed.stdout.splitlines() if str(folder) in line]


def test_a_trial_here_leaves_its_figures_and_no_data(
    engine: ProgramEngine, folder: Path, trial: Path
) -> None:
    rates: list[Progress] = []
    job = job_of(engine, Folder(path=folder), 2.0)
    ended = engine.execute(job, trial, StopRequest(), rates.append)
    assert (ended.status, ended.problem) == (TrialStatus.COMPLETED, None)
    output = read_output(engine.name, trial)
    ops = {operation.op for operation in output.jobs[0].operations}
    database = engine.program is Program.PGBENCH
    assert ops == ({Op.TRANSACTION} if database else {Op.READ, Op.WRITE, Op.TOTAL})
    assert rates
    require_nothing_left(folder)


def test_volumes_of_pods_run_at_the_same_time(
    engine: ProgramEngine, folder: Path, trial: Path
) -> None:
    location = folders(folder, 2)
    ended = engine.execute(job_of(engine, location), trial, StopRequest(), lambda rate: None)
    assert (ended.status, ended.problem) == (TrialStatus.COMPLETED, None)
    assert str(folder) in " ".join(ended.command)
    output = read_output(engine.name, trial)
    assert [job.host for job in output.jobs] == ["volume 1", "volume 2"]
    assert engine.version
    require_nothing_left(folder)


@pytest.mark.slow
@pytest.mark.parametrize("remote", [False, True])
def test_a_stopped_trial_leaves_no_process_and_no_data(
    engine: ProgramEngine, folder: Path, trial: Path, *, remote: bool
) -> None:
    location: Location = folders(folder, 1) if remote else Folder(path=folder)
    stop = StopRequest()

    def ask_once(rate: Progress) -> None:
        if not stop.requested:  # a second time, the program would be killed
            stop.ask()

    ended = engine.execute(job_of(engine, location, 60.0), trial, stop, ask_once)
    assert ended.status is TrialStatus.INTERRUPTED
    require_nothing_left(folder)


def test_what_a_killed_database_leaves_goes_with_clean(folder: Path, trial: Path) -> None:
    engine = ProgramEngine(Program.PGBENCH)
    job = job_of(engine, Folder(path=folder), 60.0)
    (trial / PROGRAM_SCRIPT).write_text(engine._script)
    script = subprocess.Popen(engine.command(job, trial), cwd=trial, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: list(Path("/tmp").glob("leadline-postgres-*/of/.s.PGSQL.*")))
    finally:
        script.kill()
        script.wait()
    assert any(folder.rglob("leadline.*"))
    assert any("leadline-postgres-" in path.name for path in remove_abandoned())
    # The server ends with the script.
    wait_for(lambda: str(folder) not in subprocess.check_output(["ps", "-eo", "args"], text=True))
    shutil.rmtree(folder / "leadline.pgbench.dat")
    require_nothing_left(folder)


# Files that the script begins: with initdb, the server, the data, the warm-up and the trial.
@pytest.mark.parametrize("patient", [True, False], ids=["asked once", "asked twice"])
@pytest.mark.parametrize(
    "file", ["initdb.txt", "postgres.txt", "initialize.txt", "settings.txt", "pgbench.txt"]
)
def test_a_database_that_is_stopped_at_any_step_leaves_nothing(
    folder: Path, trial: Path, file: str, *, patient: bool
) -> None:
    engine, stop = ProgramEngine(Program.PGBENCH), StopRequest()

    def stop_at_step() -> None:
        wait_for((trial / file).exists)
        stop.ask()
        if not patient:
            stop.ask()

    watcher = threading.Thread(target=stop_at_step)
    watcher.start()
    job = job_of(engine, Folder(path=folder), 60.0)
    ended = engine.execute(job, trial, stop, lambda rate: None)
    watcher.join()
    assert ended.status is TrialStatus.INTERRUPTED
    require_nothing_left(folder)


def test_a_server_ends_with_its_shell(folder: Path, trial: Path) -> None:
    """kill -9 of the shell leaves no PostgreSQL behind."""
    engine = ProgramEngine(Program.PGBENCH)
    job = job_of(engine, Folder(path=folder), 60.0)
    ended: list[Execution] = []

    def run() -> None:
        ended.append(engine.execute(job, trial, StopRequest(), lambda rate: None))

    def find(*words: str) -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                text = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if all(word in text for word in words):
                found.append(int(entry.parent.name))
        return found

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: find("postgres", "-D", str(folder)))
    shells = find("sh", "job.sh", "run", str(folder))
    assert shells
    os.kill(min(shells), 9)
    thread.join()
    assert ended[0].status is TrialStatus.FAILED
    require_nothing_left(folder)


def test_a_missing_program_is_named_with_its_package(
    tmp_path: Path, leadline: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "fio", "setpriv", "tail"):
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    said = leadline("run", "--target", f"dir:{tmp_path}", "--profile", "sysbench-fileio")
    assert said.status == 3
    assert "error[program-missing]: sysbench fileio cannot run on this machine" in said.err
    assert "install the Debian package sysbench" in said.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is another user than postgres")
def test_a_folder_that_postgres_cannot_reach_is_refused_with_the_reason(
    tmp_path: Path, trial: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    engine = ProgramEngine(Program.PGBENCH)
    job = replace(job_of(engine, Folder(path=closed)), bound_s=60)
    ended = engine.execute(job, trial, StopRequest(), lambda rate: None)
    assert ended.status is TrialStatus.FAILED
    assert ended.problem is not None
    assert ended.problem.code == "target-unsuitable"
    assert "mode o+x" in ended.problem.context[-1]
    assert list(closed.iterdir()) == []


@pytest.mark.slow
def test_a_run_is_verified_from_its_raw_output_and_has_no_false_finding(
    folder: Path, tmp_path: Path, leadline: Callable[..., Said]
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"leadline: 1\ntargets: [{{target: 'dir:{folder}', name: t}}]\nrepeats: 2\n"
        "defaults: {size: 16M, runtime: 1s, numjobs: 2}\nworkloads:\n"
        "  - {name: bank, pattern: randrw, engine: pgbench}\n"
        "  - {name: lookup, pattern: randread, engine: pgbench}\n"
        "  - {name: pages, pattern: randrw, engine: sysbench, fsync: 100, direct: false}\n"
    )
    said = leadline("run", plan)
    assert said.status == 0, said.out + said.err
    assert leadline("verify", "@latest").status == 0
    audited = leadline("audit", "@latest", "--format", "csv").out
    codes = {line.split(",")[0] for line in audited.splitlines()[1:]}
    # A busy machine, and two seconds, are what they say.
    chance = {"client-saturated", "too-few-samples", "short-runtime", "not-steady"}
    assert codes <= {*chance, "unstable-repeats"}, audited
    assert list(folder.iterdir()) == []
