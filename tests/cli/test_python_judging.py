"""`leadline.compare` and `leadline.rank`: the verdicts of the command line, for notebooks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

import leadline as package
from leadline.errors import LeadlineError
from tests.cli.conftest import Leadline, as_written
from tests.conftest import ROOT, Said

STUDY = ROOT / "tests" / "recorded" / "imports" / "table" / "multizone-vs-singlezone.csv"
ONE, OTHER = "study-single-zone", "study-multi-zone"


@pytest.fixture
def study(leadline: Leadline) -> None:
    assert leadline("import", "table", STUDY, "--run", "study").status == 0


@pytest.mark.usefixtures("study")
def test_compare_says_what_the_command_line_says(leadline: Leadline) -> None:
    said = json.loads(leadline("compare", ONE, OTHER, "--format", "json").out)
    comparison = package.compare(ONE, OTHER)
    assert comparison.headline == said["summary"]["headline"]
    assert comparison.headline in repr(comparison)
    counts = {key.replace(" ", "_"): count for key, count in comparison.counts().items()}
    assert counts == {key: said["summary"][key] for key in counts}
    assert len(counts) == 5
    rows = as_written(comparison.cells().to_pylist())
    assert len(rows) == len(said["cells"]) > 30
    for row, cell in zip(rows, said["cells"], strict=True):
        low, high = row.pop("low"), row.pop("high")
        assert cell["interval"] == (None if low is None else [low, high])
        assert row == {key: cell[key] for key in row}
    assert comparison.differences().num_rows == len(said["differences"])


@pytest.mark.usefixtures("study")
def test_a_missing_number_is_null_and_not_comparable() -> None:
    rows = package.compare(ONE, OTHER).cells().to_pylist()
    missing = [row for row in rows if row["target"] == "rep3-virt" and row["baseline"] is None]
    assert {row["workload"] for row in missing} == {"random-rw-4k"}
    assert {row["verdict"] for row in missing} == {"not comparable"}
    assert {row["ratio"] for row in missing} == {None}


@pytest.mark.usefixtures("study")
def test_runs_may_be_open_and_the_band_and_the_metrics_are_chosen() -> None:
    ours, theirs = package.open_run(ONE), package.open_run(OTHER)
    wide = package.compare(ours, theirs, band=0.5, metrics=["p99"]).cells().to_pylist()
    assert {row["metric"] for row in wide if row["ratio"]} == {"latency_p99"}
    narrow = package.compare(ours, theirs, metrics=["p99"]).cells().to_pylist()
    assert [row["ratio"] for row in wide] == [row["ratio"] for row in narrow]
    assert {row["band"] for row in wide} == {0.5}
    assert sum(row["verdict"] == "worse" for row in wide) < sum(
        row["verdict"] == "worse" for row in narrow
    )


@pytest.mark.usefixtures("study")
def test_targets_of_one_run_stand_against_each_other() -> None:
    found = package.compare("rep3", "rep2", by="target", run=OTHER)
    (iops,) = [
        row
        for row in found.cells().to_pylist()
        if (row["workload"], row["op"], row["metric"]) == ("random-rw-4k", "write", "iops")
    ]
    assert iops["target"] == "rep2 vs rep3"
    assert (iops["baseline"], iops["candidate"]) == (7515, 8955)
    assert iops["ratio"] == pytest.approx(8955 / 7515)
    assert iops["verdict"] == "better"


@pytest.mark.usefixtures("study")
def test_rank_says_what_the_command_line_says(leadline: Leadline) -> None:
    said = json.loads(leadline("rank", OTHER, "--format", "json").out)
    ranking = package.rank(OTHER)
    rows = as_written(ranking.targets().to_pylist())
    assert [row["target"] for row in rows] == [tier["target"] for tier in said["tiers"]]
    for row, tier in zip(rows, said["tiers"], strict=True):
        assert (row["rank"], row["score"], row["missing"]) == (
            tier["rank"],
            tier["score"],
            tier["missing"],
        )
        between = None if row["rank_low"] is None else [row["rank_low"], row["rank_high"]]
        assert between == tier["rank_interval"]
    assert rows[-1]["target"] == "rep3-virt"
    assert rows[-1]["rank"] is None
    assert rows[-1]["missing"]
    assert "rep2, rep3 first" in repr(ranking)


@pytest.mark.usefixtures("study")
def test_rank_by_figures_of_ones_own_or_for_a_use() -> None:
    ranking = package.rank(package.open_run(OTHER), "random-rw-4k write p99", baseline="rep3")
    figures = {row["target"]: row for row in ranking.figures().to_pylist()}
    assert figures["rep2"]["unit"] == "s"
    assert figures["rep2"]["value"] == pytest.approx(0.3083)
    assert figures["rep3-virt"]["value"] is None
    scores = {row["target"]: row["score"] for row in ranking.targets().to_pylist()}
    assert scores["rep3"] == 1
    assert scores["rep2"] == pytest.approx(figures["rep3"]["value"] / figures["rep2"]["value"])
    weights = [
        row["weight"]
        for row in package.rank(OTHER, use="database").figures().to_pylist()
        if row["target"] == "rep2"
    ]
    assert sum(weights) == pytest.approx(1)
    assert len(set(weights)) > 1


def _alone() -> Any:
    return package.compare(ONE)


def _strange() -> Any:
    return package.compare(ONE, OTHER, by="moon")


def _run_for_a_name() -> Any:
    return package.compare(package.open_run(ONE), OTHER, by="target")


def _no_band() -> Any:
    return package.compare(ONE, OTHER, band=5)


def _two_questions() -> Any:
    return package.rank(OTHER, ["write p99"], use="database")


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    ("ask", "fact"),
    [
        (_alone, "alone is no comparison"),
        (_strange, "no target of run study-[a-z-]+ has the label 'moon'"),
        (_run_for_a_name, "by='target' takes names"),
        (_no_band, "a band of 5 is not between 0 and 1"),
        (_two_questions, "two answers to one question"),
    ],
)
def test_what_makes_no_sense_is_refused(ask: Callable[[], Any], fact: str) -> None:
    with pytest.raises(LeadlineError, match=fact) as caught:
        ask()
    assert caught.value.kind.code == "usage"
    assert caught.value.hint


def test_a_run_that_changed_is_read_again(quick: Callable[..., Said], tmp_path: Path) -> None:
    """A notebook lives long; what one answer worked out must not stay for the next."""
    quick()
    before = package.rank(baseline="dir:" + str(tmp_path / "target")).targets().to_pylist()
    (path,) = (tmp_path / "runs").glob("perf-*")
    for derived in path.glob("trials/*/trial.json"):
        record = json.loads(derived.read_text())
        record["status"] = "failed"
        derived.write_text(json.dumps(record))
    after = package.rank().targets().to_pylist()
    assert before[0]["rank"] == 1
    assert after[0]["rank"] is None


def test_importing_leadline_imports_nothing_heavy() -> None:
    code = "import sys, leadline; print(sorted(set(sys.modules) & {'numpy', 'pyarrow', 'scipy'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_notebook_shows_the_beginning_of_each_page(leadline: Leadline, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(
        "cluster,target,workload,op,pattern,block_size,numjobs,iodepth,runtime_s,iops\n"
        "one,<b>a,w,read,randread,4k,1,1,60,1000\none,b,w,read,randread,4k,1,1,60,2000\n"
        "two,<b>a,w,read,randread,4k,1,1,60,3000\ntwo,b,w,read,randread,4k,1,1,60,1000\n"
    )
    assert leadline("import", "table", table, "--run", "nb").status == 0
    run = package.open_run("nb-one")
    compared = package.compare("nb-one", "nb-two")
    for shown, text in (
        (run, "Run nb-one"),
        (compared, "two vs one"),
        (package.rank(run), "Ranking of nb-one"),
    ):
        fragment = shown._repr_html_()
        assert fragment.startswith('<div class="leadline"')
        assert escape(text) in fragment
        assert "&lt;b&gt;a" in fragment
        assert "<b>a" not in fragment
        assert "<script" not in fragment
