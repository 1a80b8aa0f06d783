"""Verification in another process says what verification in this one says."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from archive_builder import make_run

from leadline.archive import beside, layout
from leadline.archive.beside import verifying
from leadline.archive.reader import Run
from leadline.archive.verify import verify
from leadline.errors import ARCHIVE_DAMAGED, LeadlineError


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """An intact archive, and one with a changed byte and a number that raw does not give."""
    intact, damaged = make_run(tmp_path / "a"), make_run(tmp_path / "b", run_id="perf-damaged")
    first, second = damaged.trial_folders[:2]
    (first / layout.JOB_FILE).write_text("[global]\n")
    text = (second / layout.DERIVED).read_text().replace('"iops":', '"iops":9', 1)
    (second / layout.DERIVED).write_text(text)
    return [intact, damaged]


@pytest.fixture
def another_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})


@pytest.mark.usefixtures("another_core")
def test_each_archive_gets_its_own_verification(runs: list[Run]) -> None:
    with verifying(runs) as verified:
        assert multiprocessing.active_children()
        found = verified()
    assert found == tuple(map(verify, runs))
    assert [one.ok for one in found] == [True, False]
    assert any("but raw gives" in problem.message for problem in found[1].problems)
    assert not multiprocessing.active_children()


def test_small_archives_are_verified_here(runs: list[Run]) -> None:
    with verifying(runs) as verified:
        assert not multiprocessing.active_children()
        assert verified() == tuple(map(verify, runs))


def test_one_core_is_not_shared(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    with verifying(runs) as verified:
        assert not multiprocessing.active_children()
        assert verified() == tuple(map(verify, runs))


@pytest.mark.usefixtures("another_core")
def test_what_another_process_does_not_end_is_done_here(runs: list[Run]) -> None:
    with verifying([runs[1]] * 50) as verified:
        for child in multiprocessing.active_children():
            child.kill()
        assert verified() == (verify(runs[1]),) * 50


@pytest.mark.usefixtures("another_core")
def test_nothing_is_left_where_judging_fails(runs: list[Run]) -> None:
    with pytest.raises(ZeroDivisionError), verifying(runs):
        _ = 1 / 0
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("another_core")
def test_an_archive_that_leads_elsewhere_is_refused(runs: list[Run], tmp_path: Path) -> None:
    trials = runs[0].path / layout.TRIALS
    trials.rename(tmp_path / "elsewhere")
    trials.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LeadlineError) as caught, verifying(runs):
        pass
    assert caught.value.kind is ARCHIVE_DAMAGED
