"""The command line without I/O: runs on recorded output, and a `fio` that only pretends."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.engines.replay import ReplayEngine
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Progress
from leadline.units import round_significant
from tests.conftest import RECORDED, Said

Leadline = Callable[..., Said]

# `error[code]: fact`, indented context, `hint: next step`, and nothing else.
ERROR = re.compile(
    r"error\[(?P<code>[a-z-]+)\]: \S[^\n]*[^\n.]\n(?:  \S[^\n]*\n)*(?:hint: \S[^\n]*\n)?"
)
RECORDING = ("--runtime", "2s", "--ramp", "0", "--size", "64M", "--no-prefill")
QUICK = ("--profile", "quick", *RECORDING)
CELLS_OF_QUICK = 4
# The columns of `rows`.
HEAD = "cluster,target,workload,op,pattern,block_size,numjobs,iodepth,runtime_s,iops,lat_mean_ms"
# What is written needs no prefill, so this workload alone gives a run that the audit trusts.
TRUSTED = """
targets: [{targets}]
repeats: 1
prefill: false
workloads:
  - {{name: randwrite-4k, pattern: randwrite, block_size: 4k, size: 64M, runtime: 2s}}
"""


def refused(said: Said, status: int, code: str) -> str:
    """A call that ended with one error and gave no answer; returns the error's text."""
    assert said.status == status, said.err
    assert said.out == ""
    told = ERROR.fullmatch(said.err)
    assert told, f"not in the form of an error:\n{said.err}"
    assert told["code"] == code
    return said.err


def answer(said: Said) -> Any:
    """The JSON of a call without complaint."""
    assert said.status == 0, said.err
    assert said.err == ""
    return json.loads(said.out)


def as_written(value: Any) -> Any:
    """A value of the Python interface, which keeps every digit, as an answer in JSON has it."""
    if isinstance(value, float):
        return round_significant(value)
    if isinstance(value, dict):
        return {key: as_written(member) for key, member in value.items()}
    return [as_written(member) for member in value] if isinstance(value, list) else value


def rows(
    cluster: str,
    levels: Sequence[tuple[int, float]],
    *,
    times: float = 1.0,
    target: str = "pool",
    workload: str = "rand",
) -> list[str]:
    """A load curve as rows of a table: depths and rates, three trials of each level, 1 % apart;
    latency follows from the closed loop."""
    return [
        f"{cluster},{target},{workload},read,randread,4k,1,{depth},60,{rate:.0f},"
        f"{depth / rate * 1000:.4f}"
        for depth, iops in levels
        for rate in (times * iops * share for share in (0.99, 1.0, 1.01))
    ]


@pytest.fixture
def imported(leadline: Leadline, tmp_path: Path) -> Callable[..., None]:
    """Import rows of a table as runs `study` or, of several clusters, `study-CLUSTER`."""

    def call(*lines: str, run: str = "study") -> None:
        table = tmp_path / "table.csv"
        table.write_text("\n".join((HEAD, *lines)) + "\n")
        said = leadline("import", "table", table, "--run", run)
        assert said.status == 0, said.err

    return call


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


@pytest.fixture
def quick(leadline: Leadline, target: Path, recorded: Path) -> Callable[..., Said]:
    """Run the quick profile on recorded output, one trial a cell, with further options."""

    def call(*further: object) -> Said:
        where = ("--target", f"dir:{target}", "--repeats", "1")
        return leadline("run", *where, *QUICK, "--replay", recorded, "--quiet", *further)

    return call


@pytest.fixture
def failing(recorded: Path, tmp_path: Path) -> Path:
    """The recorded output, with jobs that ended with an error, which no audit lets pass."""
    folder = tmp_path / "failing"
    shutil.copytree(recorded, folder)
    for path in folder.glob("*/fio.json"):
        path.write_text(re.sub(r'"error" : 0', '"error" : 5', path.read_text()))
    return folder


@pytest.fixture
def trusted_plan(tmp_path: Path, target: Path) -> Path:
    """A plan of one cell with whose recorded result nothing is wrong."""
    plan = tmp_path / "trusted.yaml"
    plan.write_text(TRUSTED.format(targets=f"dir:{target}"))
    return plan


@pytest.fixture
def stopped(quick: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Said]:
    """Run the quick profile and stop it, as Ctrl-C does, in its third trial."""
    execute = ReplayEngine.execute

    def call() -> Said:
        count = 0

        def stop_in_the_third(
            self: ReplayEngine,
            job: Job,
            folder: Path,
            stop: StopRequest,
            progress: Callable[[Progress], None],
        ) -> Execution:
            nonlocal count
            count += 1
            if count == 3:
                stop.ask()
            return execute(self, job, folder, stop, progress)

        with monkeypatch.context() as patch:
            patch.setattr(ReplayEngine, "execute", stop_in_the_third)
            return quick()

    return call


STUB = """#!/bin/sh
for argument; do
    case $argument in
        --version) echo {version}; exit 0 ;;
        --enghelp) printf 'Available IO engines:\\n{engines}'; exit 0 ;;
        --name=try) exit 0 ;;
        --parse-only) exit 0 ;;
        --output=*) output=${{argument#--output=}} ;;
    esac
done
{body}
"""


@pytest.fixture
def stub_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a program called `fio` first in PATH; `body` is what it does as a trial ($output)."""

    def make(
        body: str = "exit 1",
        *,
        version: str = "fio-3.33",
        engines: tuple[str, ...] = ("io_uring", "libaio", "psync"),
    ) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        listed = "".join(f"\\t{engine}\\n" for engine in engines)
        program = folder / "fio"
        program.write_text(STUB.format(version=version, engines=listed, body=body))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return make


@pytest.fixture
def without_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH on which there is nothing at all."""
    folder = tmp_path / "no-programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))


def recorded_output(workload: str) -> Path:
    return RECORDED / workload / "fio.json"
