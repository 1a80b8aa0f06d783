"""The tutorial, command by command, with the real fio."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.console import hold_against

PAGE = ROOT / "docs" / "tutorial" / "first-run.md"


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.skipif(not shutil.which("fio"), reason="no fio: the tutorial does NOT get tested")
def test_every_command_of_the_tutorial(tmp_path: Path) -> None:
    hold_against(PAGE, tmp_path, least=20)
    assert not list((tmp_path / "bench").iterdir())
