"""`leadline settings`: what each setting of a run buys and costs."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import leadline as package
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from tests.cli.conftest import Leadline, answer, as_written, refused
from tests.golden.archive_builder import make_run, plan_with_settings, small_plan


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run whose states all have the same figures; one has no completed trial of a workload."""
    return make_run(
        tmp_path / "runs",
        plan_with_settings(),
        fails=lambda target, workload, block: (
            (target, workload) == ("disk mode=other", "randread-4k-qd1")
        ),
    )


def test_text_json_and_page_have_the_same_answer(
    run: Run, leadline: Leadline, tmp_path: Path
) -> None:
    found = answer(leadline("settings", run.id, "--format", "json"))
    assert found["schema"] == "leadline/settings/1"
    assert (found["run"], found["design"], found["asked"]) == (run.id, "one-at-a-time", None)
    assert [state["state"] for state in found["states"]] == ["mode=same", "mode=other"]
    same, other = found["states"]
    assert same["targets"] == {"disk": "disk mode=same"}
    assert same["rate"]["verdict"] == "same"
    assert not same["gains"]
    assert other["objections"] == ["incomplete"]
    assert {cell["code"] for cell in other["refused"]} == {"target-gone"}
    assert found["recommended"] is None
    for form in ("text", "markdown"):
        said = leadline("settings", run.id, "--format", form)
        assert said.status == 0
        assert found["headline"] in " ".join(said.out.split())
    assert "Method" in leadline("settings", "--details").out
    rows = list(csv.DictReader(leadline("settings", "--format", "csv-raw").out.splitlines()))
    cells = [cell for state in found["states"] for cell in state["cells"]]
    assert len(rows) == len(cells)
    assert rows[0]["state"] == "mode=same"
    assert float(rows[0]["ratio"]) == cells[0]["ratio"]
    assert [row["verdict"] for row in rows] == [cell["verdict"] for cell in cells]
    page = tmp_path / "settings.html"
    assert leadline("settings", "-o", page).status == 0
    assert f'data-name="{run.id}-settings.csv"' in page.read_text("utf-8")
    assert found["headline"] in page.read_text("utf-8")


def test_the_page_is_verified_against_its_archive(
    run: Run, leadline: Leadline, tmp_path: Path
) -> None:
    page = tmp_path / "settings.html"
    assert leadline("settings", run.id, "--band", "7%", "-o", page).status == 0
    said = leadline("verify", page)
    assert said.status == 0, said.out
    assert re.search(r"settings\.html: [1-9]\d+ numbers checked", said.out)
    text = page.read_text("utf-8")
    page.write_text(text.replace(f"run {run.id}", "run of yesterday", 1), "utf-8")
    assert leadline("verify", page).status == 1


def test_python_has_the_answer_as_tables(
    run: Run, leadline: Leadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_RUNS", str(run.path.parent))
    study = package.study_settings(run.id)
    printed = answer(leadline("settings", run.id, "--format", "json"))
    assert repr(study) == f"<{printed['headline']}>"
    assert printed["headline"] in study._repr_html_()
    states = as_written(study.states().to_pylist())
    assert [row["state"] for row in states] == ["mode=same", "mode=other"]
    for row, state in zip(states, printed["states"], strict=True):
        assert row["rate_ratio"] == state["rate"]["ratio"]
        assert [row["rate_low"], row["rate_high"]] == (state["rate"]["interval"] or [None, None])
        assert row["rate_verdict"] == state["rate"]["verdict"]
        assert row["objections"] == state["objections"]
        assert row["storage_memory_ratio"] is None
    cells = [cell for state in printed["states"] for cell in state["cells"]]
    assert as_written([row["value"] for row in study.cells().to_pylist()]) == [
        cell["value"] for cell in cells
    ]
    with pytest.raises(LeadlineError, match="between 0 and 1"):
        package.study_settings(run.id, band=2)


def test_a_run_that_tried_no_settings(leadline: Leadline, tmp_path: Path) -> None:
    make_run(tmp_path / "runs", small_plan(("disk",)), run_id="plain")
    shown = refused(leadline("settings", "plain"), 6, "not-comparable")
    assert "run plain tried no settings" in shown


def test_a_page_is_not_overwritten(run: Run, leadline: Leadline, tmp_path: Path) -> None:
    page = tmp_path / "settings.html"
    page.write_text("mine")
    refused(leadline("settings", "-o", page), 2, "output-unwritable")
    assert page.read_text() == "mine"
