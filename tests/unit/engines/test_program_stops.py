"""A benchmark program that is stopped at any moment leaves no process and no data.

The program is a script that ignores signals and writes until it is killed, as a database does while
the disk is slow. Nothing is timed: it names each step in a file, and the test stops it there.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.engines.process import LADDER, supervise
from leadline.engines.program.engine import ProgramEngine
from leadline.formats.program.request import Program
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Folder, Job, Location
from tests.awaiting import BOUND_S, wait_for
from tests.local_shell import folders, stub

# Steps of a trial: before the program starts, while it makes its data, while it warms up and runs.
STEPS = ("begun", "prepare", "ramp", "run")
# Writes on in a session of its own, as the processes of PostgreSQL do; `cwd` is in the data.
_PROGRAM = """\
if [ "$1" = --version ]; then echo 'sysbench 1.0'; exit; fi
trap '' INT TERM HUP
if [ "$1" = session ]; then
    while :; do : >session.$(($$ % 7)); done
fi
for word; do :; done
[ "$word" = run ] && { [ -e {steps}/ramp ] && word=run || word=ramp; }
setsid sysbench session &
: >test_file.0
: >{steps}/$word
if [ "$word" = {until} ]; then
    while :; do mkdir -p many && : >many/$(($$ % 5)); done
fi
kill -KILL $!
"""


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    made = tmp_path / "steps"
    made.mkdir()
    return made


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for a program that ignores all signals but the last."""
    *asking, (last, _) = LADDER
    ladder = (*((number, 0.2) for number, _ in asking), (last, BOUND_S))
    monkeypatch.setitem(supervise.__kwdefaults__, "ladder", ladder)


def job_of(engine: ProgramEngine, location: Location) -> Job:
    phase = Phase(
        name="randrw", pattern=Pattern.RANDRW, block_size=16384, iodepth=1, numjobs=1,
        size=1 << 20, read_share=50,
    )  # fmt: skip
    workload = Workload(
        name="w", phases=(phase,), engine=EngineChoice.SYSBENCH, direct=False, runtime_s=60.0,
        ramp_s=1.0,
    )  # fmt: skip
    return Job(text=engine.job_text(workload, location, 1), location=location, bound_s=600)


def living_in(folder: Path) -> list[int]:
    """Return the ids of processes whose working folder is in a folder, also in a removed one."""
    living = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str((entry / "cwd").readlink()).startswith(str(folder)):
                living.append(int(entry.name))
    return living


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "volume"
    made.mkdir()
    yield made
    for number in living_in(made):  # of a test that failed
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


@pytest.mark.parametrize(
    ("remote", "asked"),
    # A pod's timeout(1) waits 10 s before it kills: asked once, the end is the same.
    [(False, 1), (False, 2), (True, 2)],
    ids=["here", "here at once", "pod at once"],
)
@pytest.mark.parametrize("step", STEPS)
def test_a_program_that_is_stopped_leaves_nothing(
    tmp_path: Path,
    steps: Path,
    volume: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    *,
    remote: bool,
    asked: int,
) -> None:
    until = "prepare" if step == "begun" else step
    body = _PROGRAM.replace("{steps}", str(steps)).replace("{until}", until)
    programs = stub(tmp_path / "programs", "sysbench", body)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    trial = tmp_path / "trial"
    trial.mkdir()
    location: Location = folders(volume, 1) if remote else Folder(path=volume)
    engine, stop = ProgramEngine(Program.SYSBENCH), StopRequest()
    job = job_of(engine, location)
    ended: list[Execution] = []
    thread = threading.Thread(
        target=lambda: ended.append(engine.execute(job, trial, stop, lambda rate: None))
    )
    if step != "begun":
        thread.start()
        wait_for((steps / step).exists)
    while stop.count < asked:
        stop.ask()
    if step == "begun":
        thread.start()
    thread.join()
    assert ended[0].status is TrialStatus.INTERRUPTED
    assert living_in(volume) == []
    assert list(volume.rglob("leadline.*")) == []
