"""The script of a scheduled run, under sh, with stand-ins for `leadline` and `rclone`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.awaiting import wait_for
from tests.conftest import ROOT

SCRIPT = ROOT / "deploy" / "helm" / "leadline" / "files" / "run.sh"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the stand-ins, each of which writes down its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    _program(folder / "leadline", 'echo "leadline $*" >>calls; exit "${LEADLINE_ENDS:-0}"')
    _program(folder / "rclone", 'echo "rclone $*" >>calls; exit "${RCLONE_ENDS:-0}"')
    return folder


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _environment(programs: Path, **more: str) -> dict[str, str]:
    return {"PATH": f"{programs}:{os.environ['PATH']}", "LEADLINE_RUNS": "/results", **more}


def _run(programs: Path, *arguments: str, **more: str) -> tuple[int, list[str], str]:
    where = programs.parent
    done = subprocess.run(
        ["sh", str(SCRIPT), *arguments],
        cwd=where,
        env=_environment(programs, **more),
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.returncode, (where / "calls").read_text().splitlines(), done.stderr


RUN = "leadline run /etc/leadline/plan.yaml --quiet"


def test_the_plan_is_run_with_further_arguments_as_they_are(programs: Path) -> None:
    assert _run(programs, "--name", "two words") == (0, [f"{RUN} --name two words"], "")


@pytest.mark.parametrize("status", [0, 1, 4, 7])
def test_archives_are_copied_whatever_came_of_the_run(programs: Path, status: int) -> None:
    told = _run(programs, LEADLINE_ENDS=str(status), S3_DESTINATION="bucket/folder")
    ended, (_, copied), said = told
    assert ended == status
    assert copied.startswith("rclone ")
    assert copied.endswith("/results s3:bucket/folder")
    assert "copied /results" in said


@pytest.mark.parametrize(("status", "told"), [(0, 3), (4, 4), (7, 7)])
def test_a_copy_that_fails_is_told_and_does_not_hide_the_run(
    programs: Path, status: int, told: int
) -> None:
    ended, _, said = _run(
        programs, LEADLINE_ENDS=str(status), RCLONE_ENDS="5", S3_DESTINATION="bucket"
    )
    assert ended == told
    assert "could not be copied to s3:bucket" in said


@pytest.mark.parametrize(
    ("run", "copy", "judgement", "status", "judged"),
    [
        (0, 0, 0, 0, True),
        (0, 0, 5, 5, True),
        (0, 1, 0, 3, True),
        (0, 1, 1, 1, True),
        (1, 0, 5, 1, True),
        (4, 0, 0, 4, False),
    ],
)
def test_a_complete_run_is_judged_behind_its_copy(
    programs: Path, run: int, copy: int, judgement: int, status: int, judged: bool
) -> None:
    """`run`, `copy` and `judgement` are exit statuses."""
    beside = programs.parent / "etc"
    beside.mkdir()
    script = beside / "run.sh"
    script.write_bytes(SCRIPT.read_bytes())
    (beside / "judge.sh").write_text(f"echo judge >>calls; exit {judgement}\n")
    ended = subprocess.run(
        ["sh", str(script)],
        cwd=programs.parent,
        env=_environment(
            programs, LEADLINE_ENDS=str(run), RCLONE_ENDS=str(copy), S3_DESTINATION="bucket"
        ),
    )
    calls = (programs.parent / "calls").read_text().splitlines()
    assert ended.returncode == status
    assert [call.partition(" ")[0] for call in calls] == ["leadline", "rclone"] + ["judge"] * judged


def test_sigterm_goes_to_the_run_which_is_waited_for_and_copied(programs: Path) -> None:
    where = programs.parent
    _program(
        programs / "leadline",
        "trap 'sleep 0.5; echo cleaned >>calls; exit 130' TERM; echo up >>calls\n"
        "while :; do sleep 0.05; done",
    )
    script = subprocess.Popen(
        ["sh", str(SCRIPT)], cwd=where, env=_environment(programs, S3_DESTINATION="bucket")
    )
    try:
        wait_for((where / "calls").exists)
        # Twice, as an impatient person does it.
        script.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        script.send_signal(signal.SIGTERM)
        assert script.wait(30) == 130
    finally:
        script.kill()
    up, *cleaned, copied = (where / "calls").read_text().splitlines()
    assert up == "up"
    assert set(cleaned) == {"cleaned"}
    assert copied.startswith("rclone ")


def test_one_more_sigterm_does_not_end_the_copy(programs: Path) -> None:
    where = programs.parent
    _program(programs / "rclone", "echo copying >>calls; sleep 1; echo copied >>calls")
    script = subprocess.Popen(
        ["sh", str(SCRIPT)], cwd=where, env=_environment(programs, S3_DESTINATION="bucket")
    )
    try:
        calls = where / "calls"
        wait_for(lambda: calls.exists() and "copying" in calls.read_text())
        script.send_signal(signal.SIGTERM)
        assert script.wait(60) == 0
    finally:
        script.kill()
    assert calls.read_text().splitlines()[-1] == "copied"
