"""The trials that find a change: `check --detect` shows them, `run --detect` takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import QUICK, Leadline, refused

TWO = """
targets: [{{name: a, target: "dir:{0}"}}, {{name: b, target: "dir:{0}"}}]
repeats: 4
prefill: false
{1}
workloads:
  - {{name: randread-4k, pattern: randread, block_size: 4k, size: 64M, runtime: 2s}}
  - {{name: randwrite-4k, pattern: randwrite, block_size: 4k, size: 64M, runtime: 2s}}
"""


def plan(folder: Path, target: Path, detect: str = "") -> Path:
    path = folder / "plan.yaml"
    path.write_text(TWO.format(target, detect))
    return path


@pytest.fixture
def earlier(leadline: Leadline, tmp_path: Path, target: Path, recorded: Path) -> None:
    ran = leadline("run", plan(tmp_path, target), "--replay", recorded, "--quiet")
    assert "error[" not in ran.err


@pytest.mark.usefixtures("earlier")
def test_check_takes_the_scatter_of_a_run(leadline: Leadline, tmp_path: Path, target: Path) -> None:
    written = plan(tmp_path, target)
    answer = leadline("check", written, "--detect", "20%", "--like", "@latest", "--format", "json")
    power = json.loads(answer.out)["power"]
    assert power["change"] == 0.2
    assert not power["across_runs"]
    assert power["run"].startswith("perf-")
    assert {cell["op"] for cell in power["cells"]} == {"read", "write"}
    assert all(cell["measured"] and cell["scatter"] > 0 for cell in power["cells"])
    shown = leadline("check", written, "--detect", "20%", "--like", "@latest").out
    assert "to find a change of 20% beyond a margin of 5% in 4 of 5 cases" in shown
    for cell in power["cells"]:
        assert f"{cell['trials']['number']} ({cell['trials']['low']} to" in shown


def test_check_without_a_run_takes_published_scatter(leadline: Leadline, target: Path) -> None:
    said = leadline("check", "--target", f"dir:{target}", *QUICK, "--detect", "20%")
    assert "2.0% *" in said.out
    assert "more than 1,000" in said.out
    assert "one target is compared with another run" in said.out
    without = leadline("check", "--target", f"dir:{target}", *QUICK, "--format", "json")
    assert "power" not in json.loads(without.out)


@pytest.mark.usefixtures("earlier")
def test_run_takes_as_many_trials_as_each_cell_needs(
    leadline: Leadline, tmp_path: Path, target: Path, recorded: Path
) -> None:
    written = plan(tmp_path, target, "detect: {change: 50%, like: '@latest', most: 5}")
    checked = leadline("check", written, "--format", "json")
    needed = {
        cell["workload"]: min(cell["trials"]["number"] if cell["trials"] else 5, 5)
        for cell in json.loads(checked.out)["power"]["cells"]
    }
    ran = leadline("run", written, "--replay", recorded, "--quiet")
    assert "error[" not in ran.err
    shown = json.loads(leadline("show", "--format", "json").out)["measurements"]
    trials = {
        (one["target"], one["workload"]): one["trials"] for one in shown if one["metric"] == "iops"
    }
    assert trials == {
        (name, workload): number for workload, number in needed.items() for name in "ab"
    }


def test_run_names_cells_that_need_more(
    leadline: Leadline, tmp_path: Path, target: Path, recorded: Path
) -> None:
    written = plan(tmp_path, target, "detect: {change: 10%, most: 2}")
    ran = leadline("run", written, "--replay", recorded, "--quiet")
    assert "4 cells of 4 need more than 2 trials to find a change of 10%" in ran.err
    assert "error[" not in ran.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--detect", "3%"], "plan-invalid", "within which a change counts as none"),
        (["--detect", "much"], "plan-invalid", "'much' is not a share"),
        (["--detect", "10%", "--repeats", "3"], "usage", "--detect sets the repeats"),
        (["--detect", "10%", "--like", "nothing"], "run-not-found", "no run 'nothing'"),
    ],
)
def test_what_cannot_be_detected_is_refused(
    leadline: Leadline, target: Path, words: list[str], code: str, said: str
) -> None:
    where = ("--target", f"dir:{target}", "--profile", "quick")
    answer = leadline("check", *where, *words)
    assert said in refused(answer, answer.status, code)


def test_a_plan_in_groups_has_the_same_repeats_everywhere(
    leadline: Leadline, tmp_path: Path, target: Path, recorded: Path
) -> None:
    written = plan(tmp_path, target, "budget: {volumes: 1}\ndetect: 10%")
    answer = leadline("run", written, "--replay", recorded)
    assert "a plan with a budget" in refused(answer, 2, "usage")
    assert leadline("check", written).status == 0
