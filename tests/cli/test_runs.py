"""Runs: how they are named and found, what is said while they go on, how they are gone on with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.records import RunStatus
from leadline.archive.runs import list_runs
from leadline.connect.kubernetes.objects import label_value
from tests.cli.conftest import Leadline, refused
from tests.conftest import Said

Quick = Callable[..., Said]
ID = r"perf-\d{8}-\d{6}-[2-9b-z]{4}[b-z]"

# --- names --------------------------------------------------------------------------------------


def ids(folder: Path) -> list[str]:
    return [run.path.name for run in list_runs(folder)]


def test_an_id_is_a_time_a_random_part_and_a_name(quick: Quick, tmp_path: Path) -> None:
    quick()
    quick("--name", "two.zones_a-b")
    assert any(re.fullmatch(ID, one) for one in ids(tmp_path / "runs"))
    assert any(re.fullmatch(ID + r"-two\.zones_a-b", one) for one in ids(tmp_path / "runs"))


class OneMoment:
    """A clock that stands still."""

    @staticmethod
    def now(zone: tzinfo) -> datetime:
        return datetime(2026, 11, 21, 12, 0, 0, tzinfo=zone)


def test_runs_of_one_second_have_different_ids_and_labels_in_any_folder(
    quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two users or CronJobs do not see each other's folders, but each other's objects."""
    monkeypatch.setattr("leadline.cli.run.datetime", OneMoment)
    for folder in ("runs", "runs", "of-another-user"):
        quick("--name", "nightly", "--runs", tmp_path / folder)
    made = [*ids(tmp_path / "runs"), *ids(tmp_path / "of-another-user")]
    assert all(re.fullmatch(r"perf-20261121-120000-[2-9b-z]{4}[b-z]-nightly", one) for one in made)
    assert len(set(made)) == len({label_value(one) for one in made}) == 3


def test_an_id_that_is_taken_is_left_alone(
    quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose folder is empty, which a rename would replace."""
    taken = tmp_path / "runs" / "perf-20261121-120000-bbbbb"
    taken.mkdir(parents=True)
    choices = iter("bbbbb" + "ccccc")
    monkeypatch.setattr("leadline.cli.run.datetime", OneMoment)
    monkeypatch.setattr("leadline.archive.runs.secrets.choice", lambda _: next(choices))
    quick()
    assert list(taken.iterdir()) == []
    assert ids(tmp_path / "runs") == ["perf-20261121-120000-ccccc"]
    assert [place.name for place in (tmp_path / "runs").glob(".*")] == []


def test_runs_of_one_second_keep_their_order(
    quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leadline: Leadline
) -> None:
    made = []
    monkeypatch.setattr("leadline.cli.run.datetime", OneMoment)
    for number in range(4):
        quick("--name", f"run-{number}")
        made += [one for one in ids(tmp_path / "runs") if one.endswith(f"-{number}")]
    listed = json.loads(leadline("list", "--format", "json").out)["runs"]
    assert [run["run"] for run in listed] == made
    assert json.loads(leadline("show", "@latest", "--format", "json").out)["run"] == made[-1]
    assert json.loads(leadline("show", "@previous", "--format", "json").out)["run"] == made[-2]
    assert json.loads(leadline("show", "run-2", "--format", "json").out)["run"] == made[2]


def test_where_runs_lie(
    quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leadline: Leadline
) -> None:
    """--runs, else LEADLINE_RUNS, else ./leadline-runs."""
    monkeypatch.chdir(tmp_path)
    asked, variable, default = (tmp_path / name for name in ("asked", "runs", "leadline-runs"))
    quick("--runs", asked)
    assert (len(ids(asked)), len(ids(variable)), len(ids(default))) == (1, 0, 0)
    quick()
    assert (len(ids(asked)), len(ids(variable)), len(ids(default))) == (1, 1, 0)
    for nothing in (None, ""):
        if nothing is None:
            monkeypatch.delenv("LEADLINE_RUNS")
        else:
            monkeypatch.setenv("LEADLINE_RUNS", nothing)
        quick()
    assert (len(ids(asked)), len(ids(variable)), len(ids(default))) == (1, 1, 2)
    assert leadline("list", "--runs", asked).out.count("perf-") == 1
    assert leadline("list").out.count("perf-") == 2


def test_a_run_is_found_by_id_prefix_path_and_age(
    quick: Quick, leadline: Leadline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        quick("--name", name)
    # Within one second the ids alone do not tell which was the first.
    by_name = {run.path.name.rsplit("-", 1)[1]: run.path for run in list_runs(tmp_path / "runs")}
    first, second = by_name["first"], by_name["second"]
    (first / "manifest.json").write_text(
        re.sub(
            r'"created_at": "20\d\d', '"created_at": "2001', (first / "manifest.json").read_text()
        )
    )

    def found(*arguments: object) -> str:
        said = leadline("show", *arguments)
        assert said.status == 0, said.err
        return said.out.splitlines()[0].removeprefix("Run ")

    assert found() == found("@latest") == second.name
    assert found("@previous") == first.name
    assert found(first.name) == first.name
    assert found(first) == first.name
    monkeypatch.chdir(first.parent)
    assert found(f"./{first.name}") == first.name
    several = refused(leadline("show", "perf-2"), 2, "run-not-found")
    assert "the beginning of 2 runs" in several
    assert first.name in several
    assert second.name in several


# --- what is said -------------------------------------------------------------------------------


def test_quiet_says_nothing_and_still_answers(
    leadline: Leadline, trusted_plan: Path, recorded: Path
) -> None:
    said = leadline("run", trusted_plan, "--replay", recorded, "--quiet")
    assert said.status == 0
    assert said.err == ""
    assert "20,148" in said.out


def test_progress_on_a_pipe_is_plain_lines(
    leadline: Leadline, target: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    where = ("--target", f"dir:{target}", "--profile", "quick", "--no-prefill", "--repeats", "2")
    said = leadline("run", *where, "--replay", recorded, "--format", "json")
    lines = said.err.splitlines()
    assert re.fullmatch(rf"run {ID}(-\d+)?: 8 trials of 4 cells, .* of I/O, seed \d+", lines[0])
    numbers = [
        re.match(r"\[(\d)/8\] dir:\S+ · \S+ · qd\d+ · repeat [12] · ", line) for line in lines
    ]
    assert [match[1] for match in numbers if match] == [str(n) for n in range(1, 9)]
    assert sum("IOPS" in line and "MiB/s" in line for line in lines) == 8
    assert lines[-1].startswith("archive: ")
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", said.err)


def test_the_answer_is_on_stdout_and_talk_on_stderr(quick: Quick, leadline: Leadline) -> None:
    said = quick("--format", "json")
    assert said.out.startswith("{")
    assert said.out.endswith("}\n")
    shown = leadline("show")
    assert shown.err == ""


# --- resume and missing -------------------------------------------------------------------------


def test_a_complete_run_is_not_resumed(
    quick: Quick, leadline: Leadline, recorded: Path, tmp_path: Path
) -> None:
    quick()
    (run,) = list_runs(tmp_path / "runs")
    before = (run.path / "manifest.json").read_bytes()
    for further in ([], ["--retry-failed"], ["--dry-run"]):
        said = leadline("run", "--resume", "@latest", "--replay", recorded, *further)
        assert "lacks no trial" in refused(said, 2, "run-not-resumable")
    assert (run.path / "manifest.json").read_bytes() == before


def test_a_run_that_lacks_nothing_but_its_seal_is_sealed(
    quick: Quick, leadline: Leadline, tmp_path: Path
) -> None:
    quick()
    (run,) = list_runs(tmp_path / "runs")
    # What kill -9 after the last trial leaves.
    killed = {"status": RunStatus.RUNNING, "files": {}, "journaled": True}
    content = layout.encode(run.manifest.model_copy(update=killed))
    (run.path / layout.MANIFEST).write_bytes(content)
    assert leadline("verify", run.path).status == 1
    dry = leadline("run", "--resume", "@latest", "--dry-run")
    assert "lacks no trial" in refused(dry, 2, "run-not-resumable")
    sealed = leadline("run", "--resume", "@latest")
    assert f"note: the run {run.id} lacked no trial; it is sealed now" in sealed.err
    assert "4 of 4 trials completed" in sealed.out
    assert leadline("verify", run.path).status == 0
    assert "lacks no trial" in leadline("run", "--resume", "@latest").err


def test_what_a_run_lacks_is_shown_as_missing(
    stopped: Callable[[], Said], leadline: Leadline, tmp_path: Path
) -> None:
    """Two trials of four were done: their cells have numbers, the others stand there without."""
    stopped()
    (run,) = list_runs(tmp_path / "runs")
    done = {trial.record.workload for trial in run.trials if trial.record.status == "completed"}
    assert len(done) == 2
    shown = leadline("show")
    assert shown.status == 0
    assert "2 of 4 trials completed" in shown.out
    table = shown.out[shown.out.index("All workloads") :].split("\n\n")[0]
    for cell in run.plan.cells:
        rows = [line for line in table.splitlines() if line.startswith(cell.workload.name)]
        assert len(rows) == {"mixed-70-30-4k": 3, "sequential-1m": 2}.get(cell.workload.name, 1)
        for row in rows:
            assert ("missing" in row) is (cell.workload.name not in done)
            assert not re.search(r"\b0 (IOPS|us|ms)\b", row), "missing is never zero"
    page = tmp_path / "page.md"
    assert leadline("report", "-o", page).status == 0
    assert "missing" in page.read_text()
