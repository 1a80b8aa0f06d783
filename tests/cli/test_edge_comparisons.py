"""`compare` and `rank` where the numbers are unusual: the words and the verdicts agree."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leadline.errors import Exit
from tests.cli.conftest import Leadline

Value = Callable[[int, int, float], float | None]
Table = Callable[..., None]


@pytest.fixture
def table(leadline: Leadline, tmp_path: Path) -> Table:
    """Import a table of trials: `value` changes the normal one of a cell and trial."""

    def make(
        run: str,
        *,
        cells: int = 6,
        trials: int = 3,
        scale: float = 1.0,
        deviation: float = 0.03,
        value: Value = lambda cell, trial, value: value,
        more: tuple[str, str] = ("", ""),
        seed: str | None = None,
    ) -> None:
        normal = random.Random(seed or run)
        lines = ["target,workload,op,trial,iops" + more[0]]
        for cell in range(cells):
            for trial in range(1, trials + 1):
                found = value(cell, trial, 1000 * (cell + 1) * scale * normal.gauss(1, deviation))
                if found is not None:
                    lines.append(f"pool,w{cell},read,{trial},{found:.1f}{more[1]}")
        path = tmp_path / f"{run}.csv"
        path.write_text("\n".join(lines) + "\n")
        said = leadline("import", "table", path, "--run", run)
        assert said.status == 0, said.err

    return make


def compared(leadline: Leadline, base: str, other: str) -> tuple[Any, str]:
    """The answer and the text, neither of which contradicts itself."""
    told = leadline("compare", base, other, "--format", "json")
    answer = json.loads(told.out)
    none = {cell["verdict"] for cell in answer["cells"]} == {"not comparable"}
    assert told.status == (Exit.NOT_COMPARABLE if none else Exit.ANSWERED), told.err
    for cell in answer["cells"]:
        if cell["interval"] is None:
            assert cell["verdict"] in ("inconclusive", "not comparable")
            continue
        low, high = cell["interval"]
        margin = cell["band"]
        assert low <= cell["ratio"] <= high
        if cell["verdict"] != "not comparable":
            assert (cell["verdict"] == "worse") == (high < 1 - margin)
            assert (cell["verdict"] == "better") == (low > 1 + margin)
            assert (cell["verdict"] == "same") == (1 - margin <= low <= high <= 1 + margin)
    text = leadline("compare", base, other, "--details")
    assert text.status == told.status
    return answer, " ".join(text.out.split())


def verdicts(answer: Any) -> list[str]:
    return [cell["verdict"] for cell in answer["cells"]]


def test_rounded_numbers_without_scatter_need_runs_and_not_trials(
    leadline: Leadline, table: Table
) -> None:
    """-10 % everywhere: only the assumed variation between two runs leaves it open."""
    table("a", deviation=0)
    table("b", deviation=0, scale=0.9)
    answer, text = compared(leadline, "a", "b")
    assert verdicts(answer) == ["inconclusive"] * 6
    assert "in 6 cells; 6 need several runs of each system." in text


def test_one_cell_is_tested_by_its_own_scatter(leadline: Leadline, table: Table) -> None:
    table("a", cells=1)
    table("b", cells=1, scale=0.6)
    answer, text = compared(leadline, "a", "b")
    assert verdicts(answer) == ["worse"]
    assert "(worse in 1 of 1 cell)" in text


def test_trials_and_cells_of_zero(leadline: Leadline, table: Table) -> None:
    def dead(cell: int, trial: int, value: float) -> float:
        return 0 if (cell, trial) == (2, 2) or cell == 4 else value

    table("a")
    table("b", value=dead)
    answer, _ = compared(leadline, "a", "b")
    reasons = [cell["reasons"] for cell in answer["cells"]]
    assert reasons[2] == ["trial-not-positive"]
    assert (verdicts(answer)[4], reasons[4]) == ("not comparable", ["zero"])
    table("alone", cells=1)
    table("stopped", cells=1, value=lambda _cell, trial, value: 0 if trial == 2 else value)
    _, text = compared(leadline, "alone", "stopped")
    assert "in 1 cell a trial's value is zero" in " ".join(text.split())
    assert "needs more repeats" not in text


def test_unequal_trials_are_counted_on_both_sides(leadline: Leadline, table: Table) -> None:
    table("a", trials=2, deviation=0.01)
    table("b", trials=6, deviation=0.01, scale=0.6)
    answer, text = compared(leadline, "a", "b")
    assert verdicts(answer) == ["worse"] * 6
    assert "2 to 6 per system and cell" in text


def test_trials_that_one_side_lacks(leadline: Leadline, table: Table) -> None:
    table("a", trials=4)
    table("b", trials=4, value=lambda cell, trial, value: value if (cell + trial) % 3 else None)
    answer, _ = compared(leadline, "a", "b")
    assert {cell["baseline_trials"] for cell in answer["cells"]} == {4}
    assert {cell["candidate_trials"] for cell in answer["cells"]} == {2, 3}


def test_no_cell_can_be_compared(leadline: Leadline, table: Table) -> None:
    """The median latency is above p99: edited numbers."""
    wrong = (",iodepth,numjobs,p50_us,p99_us", ",1,1,900,100")
    table("a", more=wrong)
    table("b", more=wrong, scale=0.5)
    answer, text = compared(leadline, "a", "b")
    assert verdicts(answer) == ["not comparable"] * 6
    assert "No verdict on b vs a: none of 6 cells is comparable (refused by the audit" in text


def test_the_same_files_on_both_sides_are_named(leadline: Leadline, table: Table) -> None:
    table("a", seed="same")
    table("b", seed="same")
    answer, text = compared(leadline, "a", "b")
    assert verdicts(answer) == ["inconclusive"] * 6
    assert "b and a have the same 18 values: these are probably the same results." in text
    _, text = compared(leadline, "a", "a")
    assert "a and a have the same 18 values" in text


def test_means_count_their_trials(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "means.csv"
    path.write_text(
        "target,workload,op,iops,iops_sd,n\n"
        "a,w0,read,1000,20,5\nb,w0,read,800,20,5\na,w1,read,2000,40,5\nb,w1,read,1900,50,6\n"
    )
    assert leadline("import", "table", path, "--run", "means").status == 0
    shown = leadline("show", "means").out
    assert shown.count("mean of 5") == 3
    assert shown.count("mean of 6") == 1
    assert "Means of 5 to 6 trials; coefficient of variation 2.2 % in the median row." in shown
    ranked = " ".join(leadline("rank", "means").out.split())
    assert "ranks rest on its published scatter and number of repeats" in ranked
    tiers = json.loads(leadline("rank", "means", "--format", "json").out)["tiers"]
    assert [tier["rank"] for tier in tiers] == [1, 2]
    # 0.8 and 0.95 of a, whose deviations of 2.5, 2, 2.6 and 2 % are of the means of five trials.
    low, high = tiers[1]["score_interval"]
    assert 0.8 < low < tiers[1]["score"] < high < 0.95


LIMITED = {"a": 500.0, "b": 502.0}


def limited(path: Path, targets: tuple[str, ...]) -> None:
    normal = random.Random(3)
    lines = ["target,workload,op,bs,iodepth,numjobs,trial,iops"]
    for target in targets:
        for block, share in (("4k", 1.0), ("16k", 0.9), ("128k", 0.5)):
            for trial in (1, 2, 3):
                rate = LIMITED.get(target)
                value = (rate or 4000 * share) * normal.gauss(1, 0.001 if rate else 0.02)
                lines += [f"{target},{block},{op},{block},8,1,{trial},{value:.1f}"
                          for op in ("read", "write")]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        (("a", "b"), "share rank 1 without a tie: a limit was measured"),
        (("a", "b", "c"), "share ranks without a tie: a limit was measured"),
    ],
)
def test_targets_at_a_limit_share_a_rank_without_a_tie(
    leadline: Leadline, tmp_path: Path, targets: tuple[str, ...], sentence: str
) -> None:
    path = tmp_path / "limited.csv"
    limited(path, targets)
    told = leadline("import", "table", path, "--run", "limited", "--format", "json")
    findings = json.loads(told.out)["runs"][0]["findings"]
    assert {one["target"] for one in findings if one["code"] == "capped-by-limit"} == {"a", "b"}
    said = leadline("rank", "limited")
    assert sentence in " ".join(said.out.split())
    ranks = [tier["rank"] for tier in json.loads(
        leadline("rank", "limited", "--format", "json").out)["tiers"]]  # fmt: skip
    assert [one == other for one, other in pairwise(ranks)][-1]
