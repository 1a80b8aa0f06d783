"""The tutorial, command by command, with the real fio."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.console import hold_against

PAGE = ROOT / "docs" / "tutorial" / "first-run.md"


# Stands for timeout(1), whose five seconds a busy machine may take to begin: the run is killed as
# soon as its first trial is done.
TIMEOUT = """#!/bin/sh
shift 3
"$@" &
until ls leadline-runs/*-killed/trials/*/trial.json >/dev/null 2>&1; do
    kill -0 $! || exit 1
    sleep 0.05
done
exec 2>/dev/null  # this shell would say that it was killed
kill -s KILL $!
wait $!
kill -s KILL $$
"""


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.skipif(not shutil.which("fio"), reason="no fio: the tutorial does NOT get tested")
def test_every_command_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "$ timeout -s KILL 5 leadline run " in PAGE.read_text("utf-8")
    monkeypatch.setenv("PATH", str(stub_timeout(tmp_path / "programs")), prepend=":")
    folder = tmp_path / "reader"
    folder.mkdir()
    hold_against(PAGE, folder, least=20)
    assert not list((folder / "bench").iterdir())


def stub_timeout(folder: Path) -> Path:
    folder.mkdir()
    program = folder / "timeout"
    program.write_text(TIMEOUT)
    program.chmod(0o755)
    return folder
