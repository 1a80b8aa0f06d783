"""Settings on the command line: consents, dry run, refused states, and what stays changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.archive.runs import list_runs
from leadline.archive.verify import verify
from leadline.engines.replay import ReplayEngine
from tests.cli.conftest import ERROR, Leadline


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Locks and marks of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def value(tmp_path: Path) -> Path:
    path = tmp_path / "value"
    path.write_text("5\n")
    return path


def plan_file(trusted_plan: Path, **settings: Any) -> Path:
    document = yaml.safe_load(trusted_plan.read_text())
    path = trusted_plan.with_name("settings.yaml")
    path.write_text(yaml.safe_dump({**document, "settings": settings}))
    return path


def file_setting(path: Path, *values: str) -> dict[str, Any]:
    return {"host_file": {"path": str(path), "values": list(values)}}


def test_a_run_measures_every_state_and_restores(
    leadline: Leadline, trusted_plan: Path, recorded: Path, value: Path, tmp_path: Path
) -> None:
    plan = plan_file(trusted_plan, level=file_setting(value, "1", "2"))
    said = leadline("run", plan, "--replay", recorded, "--quiet", "--format", "json")
    assert said.status == 0, said.err
    assert value.read_text() == "5\n"
    (run,) = list_runs(tmp_path / "runs")
    assert verify(run).problems == ()
    targets = [target.name for target in run.plan.targets]
    assert [name.partition(" level=")[2] for name in targets] == ["", "1", "2"]
    assert {trial.record.target for trial in run.trials} == set(targets)
    assert "settings.jsonl" in run.manifest.files
    assert set(run.stacks) in (set(), set(targets))
    # The data was written once.
    assert len(run.left_behind) == 0
    assert len((run.path / "created.jsonl").read_text().splitlines()) == 2
    compared = leadline("compare", run.path, "--by", "level", "--format", "json")
    assert json.loads(compared.out)["cells"], compared.err


def test_a_state_that_cannot_be_reached_fails_its_trials_alone(
    leadline: Leadline, trusted_plan: Path, recorded: Path, value: Path, tmp_path: Path
) -> None:
    capped = tmp_path / "set.sh"
    capped.write_text(f'#!/bin/sh\n[ "$1" -gt 7 ] && set 7\necho "$1" > {value}\n')
    capped.chmod(0o755)
    command = {
        "apply": "./set.sh {value}",
        "read": f"cat {value}",
        "restore": "./set.sh {before}",
        "values": ["6", "9"],
    }
    plan = plan_file(trusted_plan, own={"command": command})
    said = leadline("run", plan, "--replay", recorded, "--quiet")
    assert said.status == 4
    assert "error[setting-not-applied]" in said.err
    assert "--retry-failed" in said.err
    assert ERROR.search(said.err)
    (run,) = list_runs(tmp_path / "runs")
    codes = {
        trial.record.target.partition(" ")[2]: trial.record.problem and trial.record.problem.code
        for trial in run.trials
    }
    assert codes == {"": None, "own=6": None, "own=9": "setting-not-applied"}
    assert value.read_text() == "5\n"


def test_what_another_user_changed_is_reported_and_stays(
    leadline: Leadline,
    trusted_plan: Path,
    recorded: Path,
    value: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    execute = ReplayEngine.execute

    def and_change(*given: Any) -> Any:
        value.write_text("99\n")
        return execute(*given)

    monkeypatch.setattr(ReplayEngine, "execute", and_change)
    plan = plan_file(trusted_plan, level=file_setting(value, "1"))
    said = leadline("run", plan, "--replay", recorded, "--quiet")
    assert said.status == 4
    assert "error[left-behind]" in said.err
    assert "'99', which this run did not set" in said.err
    assert value.read_text() == "99\n"
    (run,) = list_runs(tmp_path / "runs")
    assert run.unrestored == ()
    assert "left-behind" in {problem.code for problem in run.manifest.problems}


def test_a_restart_of_daemons_needs_consent_by_name(
    leadline: Leadline, trusted_plan: Path, recorded: Path, value: Path, tmp_path: Path
) -> None:
    command = {
        "apply": f"cp {{value}} {value}",
        "read": f"cat {value}",
        "restore": "true {before}",
        "restarts": True,
        "values": ["/dev/null"],
    }
    plan = plan_file(trusted_plan, own={"command": command})
    refused = leadline("run", plan, "--replay", recorded)
    assert refused.status == 2
    assert "error[setting-not-consented]" in refused.err
    assert "--restart-daemons own" in refused.err
    wrong = leadline("run", plan, "--replay", recorded, "--restart-daemons", "other")
    assert wrong.status == 2
    assert "settings that may restart daemons: own" in wrong.err
    assert not list_runs(tmp_path / "runs")


def test_a_dry_run_prints_every_change_with_its_undo(
    leadline: Leadline, trusted_plan: Path, recorded: Path, value: Path
) -> None:
    plan = plan_file(trusted_plan, level=file_setting(value, "1", "2"))
    said = leadline("run", plan, "--replay", recorded, "--dry-run")
    assert said.status == 0
    lines = said.out.splitlines()
    start = lines.index("# setting level")
    assert lines[start + 1 : start + 5] == [
        f"echo 1 > {value}",
        f"echo 2 > {value}",
        "# undo, with the value before the run",
        f"echo BEFORE > {value}",
    ]
    assert value.read_text() == "5\n"


def test_check_counts_states_and_names_restarts(
    leadline: Leadline, trusted_plan: Path, value: Path
) -> None:
    plan = plan_file(trusted_plan, level=file_setting(value, "1", "2"))
    said = leadline("check", plan)
    assert "settings: 3 states, the present one included (one-at-a-time)" in said.out
    assert "setting level (host_file): 1, 2" in said.out
