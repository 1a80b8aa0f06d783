"""A run that adds to its plan what its results ask for: shares of a peak, steps of a search."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.archive.runs import find_run
from leadline.archive.verify import verify
from leadline.archive.writer import RunWriter
from leadline.cli.options import this_session
from leadline.engines.replay import ReplayEngine
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Progress
from leadline.runner.session import Outcome
from tests.conftest import ROOT
from tests.unit.runner.planned import planned_run, run_to_do

RECORDED = ROOT / "tests/unit/audit/recorded/good-randread-qd16"
KEPT = 5


class Crowded(ReplayEngine):
    """A recorded result whose latencies are a thousand times as long from the sixth client on;
    asked to stop when it has run `most` times."""

    def __init__(self, most: int = 10**6) -> None:
        super().__init__({("randread",): RECORDED})
        self.left = most

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        execution = super().execute(job, folder, stop, progress)
        document = json.loads((folder / "fio.json").read_text())
        stretch(document["jobs"][0]["read"], 1000 if job.clients > KEPT else 1)
        (folder / "fio.json").write_text(json.dumps(document))
        self.left -= 1
        if self.left == 0:
            stop.ask()
        return execution


def stretch(part: dict[str, Any], factor: int) -> None:
    for latency in (part["lat_ns"], part["clat_ns"]):
        latency["bins"] = {str(int(key) * factor): n for key, n in latency["bins"].items()}


def written(folder: Path, workload: str) -> RunWriter:
    (folder / "disk").mkdir()
    return planned_run(
        folder,
        f"targets: ['dir:{folder}/disk']\nrepeats: 2\nprefill: false\n"
        "defaults: {runtime: 4s, size: 1M}\n"
        f"workloads: [{{name: w, pattern: randread, {workload}}}]\n",
    )


def run_plan(writer: RunWriter, engine: Crowded) -> tuple[Outcome, list[str]]:
    notes: list[str] = []
    outcome = run_to_do(
        writer, engine, observe=lambda event: notes.append(str(getattr(event, "message", "")))
    )
    return outcome, [note for note in notes if note]


def steps(run: Run) -> list[int]:
    return [cell.workload.clients for cell in run.plan.cells]


def test_a_search_goes_on_until_the_limit_is_known(tmp_path: Path) -> None:
    writer = written(tmp_path, "density: {rate: 500, limit: p99<20ms, most: 16}")
    outcome, notes = run_plan(writer, Crowded())
    assert outcome.status is RunStatus.COMPLETE
    run = Run(tmp_path / "run")
    assert steps(run) == [1, 2, 4, 8, 6, 5]
    assert len(run.plan.trials) == len(run.trials) == run.manifest.trials_planned == 12
    assert run.missing == ()
    assert len(notes) == 6
    assert "added by what was measured" in notes[0]
    assert verify(run).ok


def test_a_search_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    writer = written(tmp_path, "density: {rate: 500, limit: p99<20ms, most: 16}")
    outcome, _ = run_plan(writer, Crowded(most=5))
    assert outcome.status is RunStatus.INTERRUPTED
    assert steps(find_run(str(tmp_path / "run"), tmp_path)) == [1, 2, 4]
    again = RunWriter.reopen(tmp_path / "run", session=this_session())
    outcome, _ = run_plan(again, Crowded())
    assert outcome.status is RunStatus.COMPLETE
    run = Run(tmp_path / "run")
    assert steps(run) == [1, 2, 4, 8, 6, 5]
    assert len(run.attempts) == 12


def test_an_open_loop_follows_its_sweep(tmp_path: Path) -> None:
    writer = written(tmp_path, "levels: [{iodepth: 1}, {iodepth: 4}], open_loop: [50%, 90%]")
    outcome, _ = run_plan(writer, Crowded())
    assert outcome.status is RunStatus.COMPLETE
    run = Run(tmp_path / "run")
    assert [cell.level for cell in run.plan.cells] == ["qd1", "qd4", "peak50", "peak90"]
    half, most = (cell.load.offered_iops for cell in run.plan.cells[2:])
    assert half is not None
    assert most is not None
    assert abs(most / half - 1.8) < 0.001
    assert len(run.trials) == 8


def test_a_finished_search_asks_for_nothing_more(tmp_path: Path) -> None:
    writer = written(tmp_path, "density: {rate: 500, limit: p99<20ms, most: 1}")
    run_plan(writer, Crowded())
    again = RunWriter.reopen(tmp_path / "run", session=this_session())
    outcome, _ = run_plan(again, Crowded())
    assert outcome.records == ()
    assert outcome.status is RunStatus.COMPLETE
