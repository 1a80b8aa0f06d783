"""`leadline drill` and the page of a run, on an archive whose drill is synthetic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.audit.registry import audit
from leadline.formats.drill import Mark
from leadline.plan.drill import Drill, DrillEvent
from leadline.plan.models import Plan
from tests.conftest import Said
from tests.golden.archive_builder import make_run, small_plan
from tests.unit.analysis.drilled import BEGIN_S, iso, marks, rows

# Columns of a row of fio's log with buckets of two: 928.
COLUMNS = 928
DRILL = Drill(after=10.0, lasts=20.0, event=DrillEvent(stop_zone="az2"))


def drilled_plan() -> Plan:
    plan = small_plan(["disk"], repeats=2)
    cell = plan.cells[0]
    workload = cell.workload.model_copy(update={"drill": DRILL})
    mine = (trial for trial in plan.trials if trial.cell == 0)
    trials = tuple(
        trial.model_copy(update={"position": position}) for position, trial in enumerate(mine)
    )
    cells = (cell.model_copy(update={"workload": workload}),)
    return plan.model_copy(update={"cells": cells, "trials": trials})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two trials: no I/O for 12 s, then half the rate until 28 s."""
    made = make_run(tmp_path / "runs", drilled_plan())
    found = {**marks(BEGUN=0.5, END=20.0, ENDED=20.5, WHOLE=27.0)}
    for trial in made.trials:
        lines = [
            json.dumps({"at": iso(found[mark] - BEGIN_S), "elapsed_s": 1.0, "mark": mark.value})
            for mark in Mark
        ]
        (trial.folder / layout.DRILL).write_text("\n".join(lines) + "\n")
        with (trial.folder / "w_clat_hist.log").open("w") as log:
            for row in rows(
                lambda at_s: 4000 if at_s < 0 or at_s >= 28 else 0 if at_s < 12 else 2000, -10, 60
            ):
                counts = [0] * COLUMNS
                counts[600] = row.histogram.count
                text = ", ".join(map(str, counts))
                log.write(f"{round(row.at_s * 1000)}, 0, 4096, {text}\n")
    return Run(made.path)


def test_the_answer_has_phases_gap_and_return(run: Run, leadline: Callable[..., Said]) -> None:
    said = leadline("drill", run.path)
    assert said.status == 0, said.err
    for words in (
        "the longest time without an I/O was at most 12.2 s",
        "the rate was back after 28 s",
        "the cluster was whole after 27 s",
        "event begins",
        "Stop zone az2. It begins after 10 s and lasts 20 s.",
    ):
        assert words in said.out
    answer = json.loads(leadline("drill", run.path, "--format", "json").out)
    (cell,) = answer["cells"]
    assert cell["back_s"] == {"value": 28.0, "interval": [28.0, 28.0], "trials": 2}
    assert [phase["name"] for phase in cell["phases"]] == ["before", "during", "recovery", "after"]
    assert cell["lost_s"]["value"] == pytest.approx(12 + 16 / 2)


def test_the_page_has_the_pictures(run: Run, leadline: Callable[..., Said], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert leadline("report", run.path, "-o", page).status == 0
    html = page.read_text("utf-8")
    for words in ('id="drill-1-rate"', 'id="drill-1-p99"', "event begins", "undone", "whole"):
        assert words in html


def test_the_audit_expects_the_change(run: Run) -> None:
    codes = {finding.code for finding in audit(run)}
    assert not codes & {"not-steady", "bimodal-latency"}


def test_a_broken_record_is_a_trial_without_a_result(
    run: Run, leadline: Callable[..., Said]
) -> None:
    first, second = run.trials
    (first.folder / "w_clat_hist.log").write_text("nonsense\n")
    (second.folder / layout.DRILL).write_text('{"at": 1}\n')
    answer = json.loads(leadline("drill", run.path, "--format", "json").out)
    (cell,) = answer["cells"]
    assert cell["trials"] == []
    assert all(trial["fact"] for trial in cell["missing"])
    assert "no trial of the drill has a result" in leadline("drill", run.path).out
