"""`run --until-decided`: what it shows, where it ends, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import QUICK, Leadline, refused


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, ...]:
    """Two directories on recorded output, which is the same for both."""
    for name in "ab":
        (tmp_path / name).mkdir()
    named = [f"{name}=dir:{tmp_path / name}" for name in "ab"]
    return ("--target", named[0], "--target", named[1], *QUICK, "--repeats", "2")


def test_a_run_ends_when_every_rate_is_decided(
    leadline: Leadline, two: tuple[str, ...], recorded: Path, tmp_path: Path
) -> None:
    ran = leadline("run", *two, "--until-decided", "--replay", recorded)
    assert "error[" not in ran.err
    assert "16 trials of 8 cells" in ran.err
    assert "; then rounds of what is not decided" in ran.err
    looks = [line for line in ran.err.splitlines() if line.startswith("look after")]
    assert len(looks) == 1
    assert looks[0].startswith("look after round 2: 7 of 7 rates decided; ")
    assert looks[0].endswith("nothing is open: the run ends")
    assert leadline("verify").out.endswith("ok\n")
    page = tmp_path / "run.md"
    leadline("report", "-o", page)
    assert "| ends when decided | rates of each target compared with a, margin 5 %" in (
        shown := page.read_text()
    )
    assert "1 look: 7 decided; ended because no rate was open" in shown
    compared = leadline("compare", "a", "b", "--by", "target", "--details").out
    words = " ".join(compared.split())
    assert "the run ended by its results: tested from 2 to at most 12 trials per cell" in words
    assert (
        "intervals of 99.2 % at each look hold the truth at all looks together with 95 %" in words
    )
    assert "reason: group sequential" in words


def test_verify_reports_a_look_that_was_changed(
    leadline: Leadline, two: tuple[str, ...], recorded: Path, tmp_path: Path
) -> None:
    leadline("run", *two, "--until-decided", "--replay", recorded, "--quiet")
    (path,) = tmp_path.glob("**/looks/001.json")
    look = json.loads(path.read_bytes())
    look["pairs"][0]["rates"][0]["verdict"] = "better"
    path.write_text(json.dumps(look))
    said = leadline("verify")
    assert said.status == 1
    assert "problem: looks/001.json: its SHA-256" in said.out or "has" in said.out
    assert "is better with" in said.out
    path.write_text("{}")
    assert "problem: looks: 001.json is not what this version" in leadline("verify").out


def test_check_shows_what_ends_the_run(leadline: Leadline, two: tuple[str, ...]) -> None:
    said = leadline("check", *two, "--until-decided").out
    assert "16 trials: 8 cells x 2 repeats" in said
    assert (
        "then rounds of the cells whose rates are open: 1 comparison of a target with a, margin "
        "5%; at most 12 trials of a cell, 3 min 20 s more of I/O" in said
    )


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (("--repeats", "1"), "`repeats` is 2 or more"),
        (("--repeats", "13"), "12 is less than the 13 repeats before the first look"),
    ],
)
def test_repeats_that_leave_no_look_are_refused(
    leadline: Leadline, two: tuple[str, ...], options: tuple[str, ...], fact: str
) -> None:
    said = leadline("run", *two, "--until-decided", *options)
    assert fact in refused(said, 2, "plan-invalid")


def test_one_target_has_nothing_to_decide(leadline: Leadline, target: Path) -> None:
    said = leadline("run", "--target", f"dir:{target}", *QUICK, "--until-decided")
    text = refused(said, 2, "plan-invalid")
    assert "nothing to compare: the plan has one target; name a second one to measure" in text


def test_a_plan_with_a_change_to_detect_has_fixed_repeats(
    leadline: Leadline, two: tuple[str, ...]
) -> None:
    given = [one for one in two if one not in ("--repeats", "2")]
    said = leadline("run", *given, "--until-decided", "--detect", "20%")
    assert "a plan with detect has fixed repeats" in refused(said, 2, "plan-invalid")


def test_a_target_that_cannot_be_used_may_leave_nothing_to_decide(
    leadline: Leadline, tmp_path: Path, target: Path, recorded: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"targets: [{{name: a, target: 'dir:{target}'}}, "
        f"{{name: b, target: 'dir:{tmp_path}/absent', optional: true}}]\n"
        "stop: {}\nprofile: quick\n"
    )
    said = leadline("run", plan, "--replay", recorded, "--quiet")
    text = refused(said, 2, "usage")
    assert "the run cannot stop when decided: nothing to compare: the plan has one target" in text
