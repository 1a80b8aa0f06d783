"""Scripts that run where nobody watches them: in pods, in guests, and on a bare machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

SHIPPED = sorted(
    path for folder in ("src", "deploy") for path in (ROOT / folder).rglob("*.sh") if path.is_file()
)


def test_there_are_scripts_to_check() -> None:
    names = {path.name for path in SHIPPED}
    assert {f"remote_{one}.sh" for one in ("begin", "follow", "signal", "collect")} <= names


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(path: Path) -> None:
    program = shutil.which("shellcheck")
    assert program, "there is no shellcheck: apt-get install shellcheck"
    first = path.read_text().partition("\n")[0]
    # What is handed to `sh -c` has no first line that says so.
    dialect = [] if first.startswith("#!") else ["--shell=sh"]
    said = subprocess.run(
        [program, "--severity=warning", *dialect, str(path)], capture_output=True, text=True
    )
    assert said.returncode == 0, said.stdout
