"""Labels as a user gives them, to imports and to runs, and comparisons of their values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.reader import Run
from tests.cli.conftest import Leadline, refused
from tests.conftest import Said

TABLE = Path(__file__).parents[1] / "recorded" / "imports" / "table" / "openebs-and-rook-fio.csv"
ONE_CORE, TWO_CORES = "mayastor-1replica-1core", "mayastor-1replica-2core"
LABELS = (f"{ONE_CORE}=cores=1", f"{ONE_CORE}=replicas=1", f"{TWO_CORES}=cores=2")
LABELS += (f"{TWO_CORES}=replicas=1", "mayastor-3replica=replicas=3")


@pytest.fixture
def as_run(leadline: Leadline, tmp_path: Path) -> str:
    """The published table with the depth of 1 that it really had."""
    head, *rows = TABLE.read_text("utf-8").splitlines()
    column = head.split(",").index("iodepth")
    cells = [row.split(",") for row in rows]
    for row in cells:
        row[column] = "1"
    file = tmp_path / "as-run.csv"
    file.write_text("\n".join([head, *map(",".join, cells)]) + "\n")
    given = [word for label in LABELS for word in ("--label", label)]
    said = leadline("import", "table", file, "--run", "as-run", *given)
    assert said.status == 0, said.err
    return "as-run"


def compared(said: Said, status: int = 0) -> Any:
    assert said.status == status, said.err
    return json.loads(said.out)


def test_two_cores_against_one_by_their_label(leadline: Leadline, as_run: str) -> None:
    told = compared(leadline("compare", as_run, "--by", "cores", "--format", "json"))
    assert (told["by"], told["baseline"], told["candidate"]) == ("label", "cores=1", "cores=2")
    rates = {one["workload"]: one for one in told["cells"] if one["metric"] == "iops"}
    assert {one["target"] for one in told["cells"]} == {"replicas=1"}
    assert rates["rand-read"]["ratio"] == pytest.approx(102000 / 13100)
    assert all("single-trial" in one["reasons"] for one in rates.values())
    said = leadline("compare", as_run, "--by", "cores", "--format", "markdown").out
    assert "Cores alone do not explain this" in said
    assert "No configuration data confirms it as the cause" in said


def test_what_a_target_does_not_tell_is_not_guessed(leadline: Leadline, as_run: str) -> None:
    alone = leadline("compare", as_run, "--by", "replicas")
    said = refused(alone, 6, "not-comparable")
    assert "mayastor-3replica: replicas=3" in said
    call = ("compare", "replicas=1,cores=2", "replicas=3", "--by", "label", "--run", as_run)
    told = compared(leadline(*call, "--format", "json"))
    differing = {one["path"].rpartition(".")[2]: one for one in told["differences"]}
    assert (differing["cores"]["baseline"], differing["cores"]["candidate"]) == ("2", "not set")
    reads = [one for one in told["cells"] if one["workload"] == "rand-read"]
    assert {one["verdict"] for one in reads} == {"not comparable"}, "2.6 us over a network"


def test_a_page_of_two_labels_is_recomputed(
    leadline: Leadline, as_run: str, tmp_path: Path
) -> None:
    page = tmp_path / "cores.html"
    assert leadline("report", as_run, "--by", "cores", "-o", page).status == 0
    assert leadline("verify", page).status == 0


def test_words_after_by_that_say_nothing(leadline: Leadline, as_run: str) -> None:
    assert "did you mean 'cores'" in refused(
        leadline("compare", as_run, "--by", "core"), 2, "usage"
    )
    assert "needs two labels" in refused(leadline("compare", as_run, "--by", "label"), 2, "usage")
    same = ("compare", "cores=1", "cores=1", "--by", "label", "--run", as_run)
    assert "both sides are the label 'cores=1'" in refused(leadline(*same), 2, "usage")
    given = ("compare", "cores=1", "cores=3", "--by", "label", "--run", as_run)
    assert "labels: cores=" in refused(leadline(*given), 2, "usage")


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("mayastor-2replica=cores=1", "which no file has"),
        ("cores", "is not a label"),
        ("cores=1,2", "is not a label"),
        ("mayastor-3replica=3", "is no KEY=VALUE"),
    ],
)
def test_an_import_with_a_wrong_label_leaves_nothing(
    leadline: Leadline, label: str, said: str
) -> None:
    call = ("import", "table", TABLE, "--run", "wrong", "--label", label)
    assert said in refused(leadline(*call), 2, "usage")
    assert "wrong" not in leadline("list").out


def test_two_runs_are_told_apart_by_a_label_of_all_their_targets(
    leadline: Leadline, quick: Callable[..., Said], tmp_path: Path
) -> None:
    made = {}
    for cores in ("2", "10"):
        said = quick("--label", f"cores={cores}", "--format", "json")
        answer = json.loads(said.out)
        made[cores] = answer["run"]
        assert Run(Path(answer["path"])).plan.targets[0].labels == {"cores": cores}
    told = compared(leadline("compare", made["2"], made["10"], "--by", "cores", "--format", "json"))
    assert (told["baseline"], told["candidate"]) == ("cores=2", "cores=10")
    assert {one["target"] for one in told["cells"]} == {
        one["target"]
        for one in compared(leadline("show", made["2"], "--format", "json"))["measurements"]
    }
    assert [one["path"].rpartition(".")[2] for one in told["differences"]].count("cores") == 1
    page = tmp_path / "two.html"
    call = ("report", made["2"], made["10"], "--by", "cores", "-o", page)
    assert leadline(*call).status == 0
    assert leadline("verify", page).status == 0
    again = leadline("compare", made["2"], made["2"], "--by", "cores")
    assert "has 1 values" in refused(again, 2, "usage")


def test_labels_of_a_plan_and_of_the_command_line(
    leadline: Leadline, tmp_path: Path, target: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "labels: {cores: 1, system: m}\n"
        f"targets: [{{target: 'dir:{target}', name: a, labels: {{replicas: 3}}}}]\nprofile: quick\n"
    )
    assert leadline("check", plan, "--label", "cores=2").status == 0
    assert "is not a label" in refused(leadline("check", plan, "--label", "cores"), 2, "usage")
    said = leadline("check", plan, "--label", "replicas=1")
    assert said.status == 2
    assert "'a' has the labels replicas=3" in said.err
