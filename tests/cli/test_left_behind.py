"""What a run made and could not remove: told as an error, behind whole results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.archive.runs import list_runs
from leadline.archive.verify import verify
from leadline.targets.local import DirectoryTarget
from tests.cli.conftest import ERROR, Leadline


def test_what_could_not_be_removed_is_an_error_that_says_how(
    leadline: Leadline,
    trusted_plan: Path,
    recorded: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as refusing:
        why = "its folder could not be removed: Device or resource busy"
        refusing.setattr(DirectoryTarget, "release", lambda target: (why,))
        said = leadline("run", trusted_plan, "--replay", recorded, "--quiet", "--format", "json")
    assert said.status == 4
    assert "error[left-behind]" in said.err
    assert ERROR.search(said.err)
    assert said.err.count(why) == 1
    assert json.loads(said.out)["status"] == "complete", "the results are whole"
    (run,) = list_runs(tmp_path / "runs")
    assert verify(run).problems == ()
    assert f"`leadline clean {run.path}`" in said.err
    assert [problem.code for problem in run.manifest.problems] == ["left-behind"]

    (folder,) = (Path(one.path) for one in run.left_behind)
    (folder / "thesis.txt").write_text("not Leadline's")
    kept = leadline("clean", str(run.path))
    assert kept.status == 4
    assert "error[left-behind]" in kept.err
    assert ERROR.search(kept.err)
    assert "thesis.txt" in kept.err
    assert kept.out == ""
    assert (folder / "thesis.txt").read_text() == "not Leadline's"
    (folder / "thesis.txt").unlink()

    cleaned = leadline("clean", str(run.path))
    assert cleaned.status == 0
    assert "removed what a killed session left" in cleaned.out
    assert list_runs(tmp_path / "runs")[0].left_behind == ()
