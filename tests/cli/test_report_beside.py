"""A report is the same whether its archives are verified by another process or by this one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from leadline import judge
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.runs import find_run, runs_folder
from leadline.archive.trial import StoredTrial
from leadline.archive.verify import Verification, verify
from tests.cli.conftest import Leadline
from tests.conftest import Said


@pytest.fixture
def ids(quick: Callable[..., Said]) -> list[str]:
    """An archive that is intact, and one with a file that is not what was sealed."""
    quick()
    first = find_run("@latest", runs_folder(None))
    quick()
    second = find_run("@latest", runs_folder(None))
    (second.trial_folders[0] / layout.JOB_FILE).write_text("[global]\n")
    return [first.id, second.id]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("ending", ["html", "md"])
def test_another_process_changes_no_byte(
    leadline: Leadline,
    ids: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    use_cores: Callable[[int], None],
    number: int,
    ending: str,
) -> None:
    here: list[Path] = []

    def noted(run: Run, attempts: Iterable[StoredTrial] = ()) -> Verification:
        here.append(run.path)
        return verify(run, attempts)

    monkeypatch.setattr(judge, "verify", noted)
    use_cores(2)
    pages = []
    for worth in (10_000, 1):
        monkeypatch.setattr(judge, "_WORTH_A_PROCESS", worth)
        path = tmp_path / str(worth) / f"page.{ending}"
        path.parent.mkdir()
        said = leadline("report", *ids[-number:], "-o", path)
        assert said.status == 0, said.err
        pages.append(path.read_text("utf-8"))
    # What a child notes does not come back here. Of two runs the first stays here.
    assert len(here) == number + (number - 1)
    assert pages[0] == pages[1]
    assert "NOT intact" in pages[0]


def test_the_collector_works_again_afterwards(
    leadline: Leadline, ids: list[str], tmp_path: Path
) -> None:
    assert leadline("report", ids[0], "-o", tmp_path / "a.html").status == 0
    assert gc.isenabled()
    assert leadline("report", ids[0], "-o", tmp_path / "a.html").status == 2
    assert gc.isenabled()
