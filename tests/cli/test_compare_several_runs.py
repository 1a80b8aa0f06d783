"""`leadline compare A,B C,D`: two systems of several runs each, imported from tables."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import leadline as package
from leadline.errors import LeadlineError
from leadline.report.answers.schemas import SCHEMAS
from tests.cli.conftest import Leadline, refused

POOLS = {f"pool{number}": 1000.0 * 2**number for number in range(4)}
OURS, THEIRS = "a1,a2,a3", "b1,b2,b3"


@pytest.fixture
def runs(leadline: Leadline, tmp_path: Path) -> None:
    """Three runs of each system with three trials, a loss of 30 %, 2 % from run to run."""
    generator = random.Random(3)
    for system, factor in (("a", 1.0), ("b", 0.7)):
        for run in (1, 2, 3):
            day = generator.gauss(0, 0.02)
            rows = [
                (pool, "4k", rate * factor * (1 + day + generator.gauss(0, 0.02)))
                for pool, rate in POOLS.items()
                for _ in range(3)
            ]
            write(leadline, tmp_path, f"{system}{run}", rows)


def write(leadline: Leadline, folder: Path, run: str, rows: list[tuple[str, str, float]]) -> None:
    path = folder / f"{run}.csv"
    lines = [f"{pool},w,write,{size},{rate:.1f},{at}" for at, (pool, size, rate) in enumerate(rows)]
    path.write_text("\n".join(["target,workload,op,block_size,iops,trial", *lines]) + "\n")
    said = leadline("import", "table", path, "--run", run)
    assert said.status in (0, 1), said.err


def answer(leadline: Leadline, *words: object) -> Any:
    said = leadline("compare", *words, "--format", "json")
    assert said.status in (0, 6), said.err
    told = json.loads(said.out)
    jsonschema.validate(told, SCHEMAS["compare"].model_json_schema(by_alias=True))
    return told


@pytest.mark.usefixtures("runs")
def test_runs_count_as_one_value_each(leadline: Leadline) -> None:
    told = answer(leadline, OURS, THEIRS)
    assert told["sides"]["baseline"]["runs"] == ["a1", "a2", "a3"]
    assert told["sides"]["candidate"]["runs"] == ["b1", "b2", "b3"]
    assert [cell["verdict"] for cell in told["cells"]] == ["worse"] * 4
    for cell in told["cells"]:
        assert cell["baseline_trials"] == cell["candidate_trials"] == 9
        assert cell["reasons"] == ["several-runs"]
        low, high = cell["interval"]
        # The assumed 5 % between runs would make it more than 27 % wide.
        assert low > 0.65
        assert high < 0.78
    assert {effect["verdict"] for effect in told["overall"]} == {"worse"}


@pytest.mark.usefixtures("runs")
def test_one_run_and_three(leadline: Leadline) -> None:
    told = answer(leadline, "a1", THEIRS)
    assert "runs" not in told["sides"]["baseline"]
    assert all(cell["reasons"][0] == "several-runs" for cell in told["cells"])


@pytest.mark.usefixtures("runs")
def test_every_output_names_the_runs(leadline: Leadline, tmp_path: Path) -> None:
    listed = "a1, a2 and a3 vs b1, b2 and b3"
    text = leadline("compare", OURS, THEIRS).out
    assert listed in " ".join(text.split())
    assert listed in leadline("compare", OURS, THEIRS, "--format", "markdown").out
    page = tmp_path / "page.html"
    assert leadline("report", OURS, THEIRS, "-o", page).status == 0
    html = page.read_text()
    assert listed in html
    assert "leadline compare a1,a2,a3 b1,b2,b3 --band 5%" in html
    said = leadline("verify", page)
    assert said.status == 0, said.out
    assert said.out.count("files") == 6
    changed = tmp_path / "changed.html"
    changed.write_text(html.replace("-28.", "-18."))
    assert leadline("verify", changed).status == 1


@pytest.mark.usefixtures("runs")
def test_a_cell_that_a_run_lacks(leadline: Leadline, tmp_path: Path) -> None:
    rows = [(pool, "4k", rate) for pool, rate in POOLS.items() if pool != "pool3"] * 3
    write(leadline, tmp_path, "a4", rows)
    told = answer(leadline, f"{OURS},a4", THEIRS)
    reasons = {cell["target"]: cell["reasons"] for cell in told["cells"]}
    assert reasons["pool3"] == ["several-runs", "incomplete-runs"]
    assert reasons["pool0"] == ["several-runs"]


@pytest.mark.usefixtures("runs")
def test_runs_of_unlike_work_are_not_compared(leadline: Leadline, tmp_path: Path) -> None:
    write(leadline, tmp_path, "a4", [(pool, "8k", rate) for pool, rate in POOLS.items()] * 3)
    told = answer(leadline, "a1,a4", THEIRS)
    assert {cell["verdict"] for cell in told["cells"]} == {"not comparable"}
    assert all("runs-differ" in cell["reasons"] for cell in told["cells"])


@pytest.mark.usefixtures("runs")
def test_what_is_no_repeat_is_refused(leadline: Leadline, tmp_path: Path) -> None:
    said = refused(leadline("compare", "a1,a1", THEIRS), 2, "usage")
    assert "run a1 is named twice" in said
    write(leadline, tmp_path, "c1", [("other", "4k", 1000.0)] * 3)
    said = refused(leadline("compare", "a1,c1", THEIRS), 6, "not-comparable")
    assert "run c1 is no repeat of a1" in said
    refused(leadline("compare", "a1,nothing", THEIRS), 2, "run-not-found")


@pytest.mark.usefixtures("runs")
def test_notebooks_take_lists() -> None:
    found = package.compare(OURS.split(","), THEIRS.split(","))
    assert found.counts()["worse"] == 4
    with pytest.raises(LeadlineError, match="two systems"):
        package.compare(OURS.split(","))
