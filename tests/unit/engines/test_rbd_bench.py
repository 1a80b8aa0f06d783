from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.engines.ceph_bench import RbdBenchEngine
from leadline.errors import LeadlineError
from leadline.formats.ceph.rbd_bench import read_rbd_bench
from leadline.metrics import Op
from leadline.plan.footprint import Footprint
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Pattern
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Folder, Job, Location, Progress, RbdImage
from tests.unit.engines.bench_doubles import ACCESS, NEAR, Install, installer, workload

RBD = EngineChoice.RBD_BENCH
IMAGE = RbdImage(pool="rep3", image="it", access=NEAR)
# What rbd bench does of what the engine relies on: the clock starts at the first line, one SIGINT
# ends it with a summary.
TOOL = """
import signal, sys, time
words = sys.argv
size = int(words[words.index("--io-size") + 1][:-1])
kind = words[words.index("--io-type") + 1]
signal.signal(signal.SIGINT, lambda *_: sys.exit(end()))
def end():
    ran = time.monotonic() - began
    print(f"elapsed: {int(ran)}   ops: {int(ran * 100)}   ops/sec: {int(ran * 100) / ran:.6g}"
          f"   bytes/sec: {int(ran * 100) / ran * size:.2f}")
began = time.monotonic()
pattern = {"rand": "random", "full-seq": "full sequential"}[words[words.index("--io-pattern") + 1]]
print(f"bench  type {kind} io_size {size} io_threads 8 bytes 1 pattern {pattern}", flush=True)
print("  SEC       OPS   OPS/SEC   BYTES/SEC")
print("    1        10       10      1.0 KiB/s", flush=True)
time.sleep(60)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path / "bin", monkeypatch)


def execute(
    folder: Path,
    *patterns: Pattern,
    runtime_s: float = 1.0,
    ramp_s: float = 0.0,
    bound_s: float = 50.0,
    stop: StopRequest | None = None,
    said: list[Progress] | None = None,
) -> Execution:
    engine = RbdBenchEngine()
    work = workload(*patterns, engine=RBD, runtime_s=runtime_s, ramp_s=ramp_s)
    job = Job(text=engine.job_text(work, IMAGE, 1), location=IMAGE, bound_s=bound_s)
    heard = said if said is not None else []
    return engine.execute(job, folder, stop or StopRequest(), heard.append)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "trial"
    made.mkdir()
    return made


def test_the_tool_is_ended_when_the_runtime_is_over(folder: Path, install: Install) -> None:
    install("rbd", TOOL)
    said: list[Progress] = []
    execution = execute(folder, Pattern.RANDWRITE, Pattern.RANDREAD, ramp_s=0.5, said=said)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    assert (execution.exit_status, execution.signals) == (0, ())
    assert execution.command.count("&&") == 1
    # The tool itself would go on for 60 s. What a busy machine adds is in the time of the whole.
    assert execution.wall_s >= 3
    write, read = read_rbd_bench(folder).jobs
    assert write.job_runtime_s >= 1
    assert read.job_runtime_s >= 1
    assert write.job_runtime_s + read.job_runtime_s + 2 * 0.5 <= execution.wall_s < 50
    assert (write.operations[0].op, read.operations[0].op) == (Op.WRITE, Op.READ)
    assert {progress.iops for progress in said} == {10.0}
    names = {path.name for path in folder.iterdir()}
    assert {"bench.json", "rbd-bench-1-ramp.txt", "rbd-bench-2.txt", "stderr.txt"} <= names


def test_what_does_not_come_back_is_hung(folder: Path, install: Install) -> None:
    install("rbd", TOOL.replace("sys.exit(end())", "None").replace("time.sleep(60)", STUBBORN))
    execution = execute(folder, Pattern.RANDREAD, runtime_s=0.5, bound_s=5)
    assert execution.status is TrialStatus.HUNG
    assert execution.signals[:2] == ("SIGINT", "SIGTERM")
    assert execution.problem is not None
    assert execution.problem.code == "trial-hung"


STUBBORN = "[time.sleep(0.1) for _ in range(600)]"


def test_asked_to_stop_it_says_interrupted(folder: Path, install: Install) -> None:
    install("rbd", TOOL)
    stop = StopRequest()
    threading.Timer(0.5, stop.ask).start()
    began = time.monotonic()
    execution = execute(folder, Pattern.RANDREAD, Pattern.RANDWRITE, runtime_s=30, stop=stop)
    assert execution.status is TrialStatus.INTERRUPTED
    assert time.monotonic() - began < 30
    assert not (folder / "rbd-bench-2.txt").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("rbd: error opening image it: (2) No such file or directory", "target-gone"),
        ("write error: (28) No space left on device", "target-full"),
        ("rbd: (1) Operation not permitted", "ceph-denied"),
        ("rbd: the moon is full", "engine-failed"),
    ],
)
def test_errors_are_told(folder: Path, install: Install, words: str, code: str) -> None:
    install("rbd", f"import sys; print({words!r}, file=sys.stderr); sys.exit(2)")
    execution = execute(folder, Pattern.RANDREAD)
    assert execution.status is TrialStatus.FAILED
    assert execution.problem is not None
    assert execution.problem.code == code
    assert words in execution.problem.context
    assert execution.exit_status == 2


def test_a_job_that_is_nonsense_is_failed_and_never_raises(folder: Path) -> None:
    job = Job(text="[nonsense]", location=IMAGE, bound_s=5)
    execution = RbdBenchEngine().execute(job, folder, StopRequest(), lambda progress: None)
    assert execution.status is TrialStatus.FAILED
    assert execution.exit_status != 0


def test_the_command_line() -> None:
    engine = RbdBenchEngine()
    image = RbdImage(pool="rep3", image="it", access=ACCESS)
    work = workload(Pattern.RANDRW, engine=RBD, read_share=70)
    job = Job(text=engine.job_text(work, image, 1), location=image, bound_s=5)
    command = engine.command(job, Path("/trial"))
    assert command[:4] == ("nsenter", "--net=/run/netns/z1", "--", "rbd")
    assert " ".join(command).endswith(
        "--rbd_cache=false bench --io-type rw --io-size 4096B --io-threads 8 "
        "--io-total 1152921504606846976B --io-pattern rand --rw-mix-read 70 rep3/it"
    )
    buffered = work.model_copy(update={"direct": False})
    job = Job(text=engine.job_text(buffered, image, 1), location=image, bound_s=5)
    assert "--rbd_cache=false" not in engine.command(job, Path("/trial"))


def test_prefill_writes_the_span_once() -> None:
    engine = RbdBenchEngine()
    span = (10 << 20) + 4096
    footprint = Footprint(files={"leadline.0.dat": span}, span=span, job_file_bytes=0, writes=False)
    job = Job(text=engine.prefill_text(footprint, IMAGE, True), location=IMAGE, bound_s=5)
    command = engine.command(job, Path("/trial"))
    assert command[command.index("--io-total") + 1] == f"{span}B"
    assert command[command.index("--io-size") + 1] == "4096B"
    assert json.loads(job.text)["fill_bytes"] == span


def test_without_the_program_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LeadlineError) as told:
        RbdBenchEngine().check(workload(Pattern.READ, engine=RBD), TargetKind.RBD)
    assert told.value.kind.code == "ceph-missing"


def test_other_locations_are_refused(folder: Path) -> None:
    elsewhere: Location = Folder(path=folder)
    engine = RbdBenchEngine()
    text = engine.job_text(workload(Pattern.READ, engine=RBD), elsewhere, 1)
    job = Job(text=text, location=elsewhere, bound_s=5)
    execution = engine.execute(job, folder, StopRequest(), lambda progress: None)
    assert execution.status is TrialStatus.FAILED
