"""`kill -9` at random moments of a run, its resume and its cleaning: no reported trial is lost, the
archive can be completed and verified, and nothing stays on the target or among the processes.

`LEADLINE_KILLS` is the number of runs (8 in `make test-thorough`, 1,000 in `make test-deep`);
`LEADLINE_KILLS_FROM` is the number of the first, to continue a series.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.archive.runs import list_runs
from leadline.archive.verify import verify
from tests.real.conftest import command, environment, fio_processes

pytestmark = [pytest.mark.real, pytest.mark.thorough]
KILLS = int(os.environ.get("LEADLINE_KILLS", "8"))
FIRST = int(os.environ.get("LEADLINE_KILLS_FROM", "0"))
AT_ONCE = 4
TRIALS = 4
PLAN = ("--profile", "quick", "--runtime", "200ms", "--ramp", "0", "--size", "1M", "--repeats", "1")
# A trial's figures are printed when it is in the archive.
REPORTED = re.compile(r"^\[\d+/\d+\] .*?: (read|write) [\d,.]+ IOPS", re.MULTILINE)
# A bound against hanging, far above what any step takes.
PATIENCE_S = 120.0


@dataclass
class Try:
    """One run that is killed, perhaps several times, and then finished."""

    folder: Path
    chance: random.Random
    span_s: float
    reported: int = 0
    sealed: int = 0
    stuck: int = 0
    kills: Counter[str] = field(default_factory=Counter)

    @property
    def target(self) -> Path:
        return self.folder / "target"

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        with (self.folder / "err").open("wb") as err:
            return subprocess.Popen(
                command(*arguments),
                stdout=subprocess.DEVNULL,
                stderr=err,
                env=environment(self.folder / "runs"),
                start_new_session=True,
            )

    def said(self) -> str:
        return (self.folder / "err").read_text()

    def finish(self, *arguments: object) -> tuple[int, str]:
        child = self.start(*arguments)
        return child.wait(PATIENCE_S), self.said()

    def kill(self, what: str, *arguments: object) -> None:
        """Start Leadline and kill it, or a worker of it, at a random moment."""
        child = self.start(*arguments)
        if what == "seal":
            while child.poll() is None and len(REPORTED.findall(self.said())) < TRIALS:
                time.sleep(0.002)
            time.sleep(self.chance.uniform(0, self.span_s / 20))
        else:
            span_s = self.span_s / 10 if what == "clean" else self.span_s
            time.sleep(self.chance.uniform(0, span_s))
        if what == "worker":
            for pid in fio_processes(self.target):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            child.wait(PATIENCE_S)
        elif child.poll() is None:
            self.kills[what] += 1
            if what == "group":
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
        child.wait(PATIENCE_S)
        self.reported += len(REPORTED.findall(self.said()))
        until = time.monotonic() + PATIENCE_S
        while fio_processes(self.target):
            if time.monotonic() > until:
                # fio's handler of SIGTERM may wait for itself: the next command has to end it.
                self.stuck += 1
                break
            time.sleep(0.01)

    def have(self) -> int:
        """The completed trials in the archive."""
        return sum(
            trial.record.status is TrialStatus.COMPLETED
            for run in list_runs(self.folder / "runs")
            for trial in run.attempts
        )


def attempt(number: int, folder: Path, span_s: float) -> Try:
    """Kill one run somewhere, and check all that must hold. Raises AssertionError."""
    chance = random.Random(number)
    killed = Try(folder, chance, span_s)
    killed.target.mkdir(parents=True)
    run = ("run", "--target", f"dir:{killed.target}", *PLAN)
    killed.kill(chance.choice(["main", "group", "worker", "seal"]), *run)
    runs = folder / "runs"
    assert killed.have() >= killed.reported, "a reported trial is lost"
    while list_runs(runs) and chance.random() < 0.3:
        if chance.random() < 0.5:
            killed.kill("clean", "clean")
        else:
            what = chance.choice(["main", "group", "seal"])
            killed.kill(what, "run", "--resume", "@latest")
        assert killed.have() >= killed.reported, "a reported trial is lost"
    if list_runs(runs):
        status, said = killed.finish("run", "--resume", "@latest", "--retry-failed")
        assert status in (0, 1) or "lacks no trial" in said, f"{status}: {said}"
        killed.sealed += "it is sealed now" in said
    status, said = killed.finish("clean")
    assert status == 0, said
    assert not fio_processes(killed.target), "fio outlives the cleaning"
    assert sorted(killed.target.iterdir()) == [], "something stays on the target"
    left = [path.name for path in runs.rglob(".*")] if runs.exists() else []
    assert left == [], "something hidden stays among the runs"
    for stored in list_runs(runs):
        assert stored.complete
        assert len(stored.trials) == TRIALS
        assert verify(stored).ok
    shutil.rmtree(folder)
    return killed


def total_kills(tries: list[Try]) -> Counter[str]:
    return sum((each.kills for each in tries), Counter[str]())


def test_a_kill_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    whole = Try(tmp_path, random.Random(0), 0.0)
    began = time.monotonic()
    status, said = whole.finish("run", "--target", f"dir:{whole.target}", *PLAN)
    assert status in (0, 1), said
    assert len(REPORTED.findall(said)) == TRIALS, said
    # Several at once make each slower.
    span_s = (time.monotonic() - began) * 1.5
    done: list[Try] = []
    problems = []

    def check(number: int) -> None:
        try:
            done.append(attempt(number, tmp_path / f"try-{number}", span_s))
        except (AssertionError, subprocess.TimeoutExpired) as error:
            said = (tmp_path / f"try-{number}" / "err").read_text()
            problems.append(f"try {number}: {error}: {said[-2000:]}")
            sys.stderr.write(f"{problems[-1]}\n")
        if number % 50 == 49:
            sys.stderr.write(f"{len(done)} of {KILLS} done: {dict(total_kills(done))}\n")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(check, range(FIRST, FIRST + KILLS)))
    kills = total_kills(done)
    sys.stderr.write(
        f"{KILLS} runs of {span_s:.1f} s; kills that met a living process: {dict(kills)}; "
        f"{sum(each.sealed for each in done)} lacked nothing but the seal, in "
        f"{sum(each.stuck for each in done)} fio did not end by itself\n"
    )
    assert problems == []
    assert kills.total() >= KILLS // 3, "too few kills met a living process"
