"""The wall clock is set forward and back by hours in a run: only times of day differ.

The clock is that of Leadline's process alone (`stepping_clock.c`); fio has that of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import cycle
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.archive.runs import list_runs
from leadline.audit.registry import audit
from tests.forked import forking_program
from tests.real.conftest import command, environment
from tests.real.test_kill_anywhere import PLAN, REPORTED, TRIALS

pytestmark = pytest.mark.real
HOUR_S = 3600.0
STEPS_S = (5 * HOUR_S, -3 * HOUR_S, 24 * HOUR_S, -720 * HOUR_S, 0.0, 1.5)
PATIENCE_S = 120.0


class Clock:
    """The wall clock of processes that are started with `environment`. `program` is a `leadline`
    that has it."""

    program: Path

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler: a stepping clock does NOT get tested here")
        self._library, self._file = folder / "clock.so", folder / "clock"
        source = Path(__file__).with_name("stepping_clock.c")
        options = ("-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC")
        subprocess.run([compiler, *options, "-o", self._library, source], check=True)
        self.set(0.0)

    def set(self, offset_s: float) -> None:
        mode = "r+b" if self._file.exists() else "wb"
        with self._file.open(mode) as stream:
            stream.write(struct.pack("d", offset_s))

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "LEADLINE_CLOCK": str(self._file)}

    @contextmanager
    def stepping(self, period_s: float) -> Iterator[None]:
        """Set the clock again and again."""
        over = threading.Event()

        def step() -> None:
            for offset_s in cycle(STEPS_S):
                if over.wait(period_s):
                    return
                self.set(offset_s)

        thread = threading.Thread(target=step)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.fixture(scope="module")
def stepping_clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clock]:
    made = Clock(tmp_path_factory.mktemp("clock"))
    with forking_program(os.environ | made.environment) as made.program:
        yield made


@pytest.fixture
def clock(stepping_clock: Clock) -> Clock:
    stepping_clock.set(0.0)
    return stepping_clock


def completed(folder: Path, clock: Clock, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a verb with the clock to its end."""
    done = subprocess.run(
        [clock.program, *map(str, arguments)], env=environment(folder / "runs"),
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    return done


def check_durations(run: Run, elapsed_s: float) -> None:
    """Every duration is of the monotonic clock: in order, inside the run and its trial."""
    total = 0.0
    for attempt in run.attempts:
        record = attempt.record
        assert record.asked_s <= record.wall_s <= elapsed_s
        total += record.wall_s
        since = [sample.elapsed_s for sample in attempt.resources]
        assert since == sorted(since)
        assert all(0 <= one <= record.wall_s for one in since)
    assert total <= elapsed_s


def test_a_run_completes_with_a_clock_that_steps(tmp_path: Path, clock: Clock) -> None:
    target = tmp_path / "target"
    target.mkdir()
    began = time.monotonic()
    with clock.stepping(0.11):
        said = completed(tmp_path, clock, "run", "--target", f"dir:{target}", *PLAN).stderr
    elapsed_s = time.monotonic() - began
    assert len(REPORTED.findall(said)) == TRIALS
    (run,) = list_runs(tmp_path / "runs")
    assert run.complete
    check_durations(run, elapsed_s)
    starts = [datetime.fromisoformat(one.record.started_at) for one in run.attempts]
    ends = [datetime.fromisoformat(one.record.ended_at) for one in run.attempts]
    spans = [
        (end - start).total_seconds() - one.record.wall_s
        for start, end, one in zip(starts, ends, run.attempts, strict=True)
    ]
    assert any(abs(span) > HOUR_S for span in spans), "the clock did not step during a trial"
    stepped = [finding for finding in audit(run) if finding.code == "clock-stepped"]
    expected = {
        one.record.trial for one, span in zip(run.attempts, spans, strict=True) if abs(span) >= 1
    }
    assert {finding.trial for finding in stepped} == expected, spans
    completed(tmp_path, clock, "verify", run.path)
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_a_killed_run_is_resumed_a_month_before_it_began(tmp_path: Path, clock: Clock) -> None:
    target, said = tmp_path / "target", tmp_path / "said"
    target.mkdir()
    with said.open("wb") as err:
        child = subprocess.Popen(
            command("run", "--target", f"dir:{target}", *PLAN),
            env=environment(tmp_path / "runs") | clock.environment,
            stdout=subprocess.DEVNULL, stderr=err, start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + PATIENCE_S
        while not REPORTED.search(said.read_text()):
            assert child.poll() is None, said.read_text()
            assert time.monotonic() < until
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(PATIENCE_S)
    clock.set(-720 * HOUR_S)
    completed(tmp_path, clock, "run", "--resume", "@latest")
    (run,) = list_runs(tmp_path / "runs")
    assert run.complete
    assert len(run.trials) == TRIALS
    first, second = (session.started_at for session in run.manifest.sessions)
    assert datetime.fromisoformat(second) < datetime.fromisoformat(first)
    for verb in ("verify", "show", "audit", "report"):
        page = ("-o", tmp_path / "page.html") if verb == "report" else ()
        completed(tmp_path, clock, verb, run.path, *page)
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_import_and_list_need_no_order_of_times(tmp_path: Path, clock: Clock) -> None:
    """An older archive may have the later time."""
    file = tmp_path / "fio.json"
    shutil.copy(next(Path(__file__).parents[1].glob("recorded/quick/randread*/fio.json")), file)
    for number, offset_s in enumerate((0.0, -5 * HOUR_S, -5 * HOUR_S)):
        clock.set(offset_s)
        completed(tmp_path, clock, "import", "fio", file, "--run", f"at{number}")
    out = completed(tmp_path, clock, "list", "--format", "json").stdout
    # By the times that they have, as ids of one second have no order.
    assert [run["run"] for run in json.loads(out)["runs"]] == ["at1", "at2", "at0"]
