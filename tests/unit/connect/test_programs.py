"""Programs that end, that do not, and that are waited too long."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.connect import programs


def test_status_and_both_outputs_in_a_folder(tmp_path: Path) -> None:
    reported = programs.run("sh", "-c", "pwd; echo why >&2; exit 3", bound_s=60, cwd=str(tmp_path))
    assert reported == (3, f"{tmp_path}\n", "why\n")


def test_what_cannot_be_begun() -> None:
    status, out, err = programs.run("/nowhere/zpool", bound_s=60)
    assert (status, out) == (127, "")
    assert "/nowhere/zpool" in err


def test_output_from_before_a_look_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_CHECK_S", 0.05)
    said, looks = tmp_path / "said", []

    def looked() -> bool:
        if said.exists():
            looks.append("after the first word")
        if len(looks) == 2:
            (tmp_path / "go-on").touch()
        return False

    command = "echo first; : >said; until [ -e go-on ]; do sleep 0.02; done; echo last"
    asked = programs.run("sh", "-c", command, bound_s=60, cwd=str(tmp_path), should_abort=looked)
    assert asked == (0, "first\nlast\n", "")
    assert len(looks) > 1


@pytest.mark.parametrize(("bound_s", "vain"), [(0.1, False), (3600.0, True)])
def test_no_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, bound_s: float, vain: bool
) -> None:
    monkeypatch.setattr(programs, "_CHECK_S", 0.1)
    reported = programs.run("sleep", "7200", bound_s=bound_s, should_abort=lambda: vain)
    assert reported == (None, "", "")


def test_names_are_utf_8_whatever_the_locale() -> None:
    code = (
        "from leadline.connect import programs\n"
        "print(ascii(programs.run('printf', r'm\\303\\274', bound_s=10)))"
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    reported = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | plain
    )
    assert reported.stdout.strip() == r"(0, 'm\xfc', '')", reported.stderr
