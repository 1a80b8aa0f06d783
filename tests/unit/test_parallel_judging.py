"""What other processes judge and verify is what this one would."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_builder import make_run

from leadline import judge as module
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.verify import verify
from leadline.errors import ARCHIVE_DAMAGED, LeadlineError
from leadline.judge import Judge, judging


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
def another_core(monkeypatch: pytest.MonkeyPatch, use_cores: Callable[[int], None]) -> None:
    monkeypatch.setattr(module, "_WORTH_A_PROCESS", 1)
    use_cores(2)


@pytest.mark.usefixtures("another_core")
def test_each_archive_gets_its_own_verification(runs: list[Run]) -> None:
    with judging(runs) as (_, verified):
        assert multiprocessing.active_children()
        found = verified()
    assert found == tuple(map(verify, runs))
    assert [one.ok for one in found] == [True, False]
    assert any("but raw gives" in problem.message for problem in found[1].problems)
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("another_core")
def test_each_run_gets_its_own_figures_and_findings(runs: list[Run]) -> None:
    with judging(runs, verifying=False) as (judge, _):
        found = [judge(run) for run in runs]
        assert judge(Run(runs[1].path)) is found[1], "worked out once"
    here = Judge()
    for run, (figures, findings) in zip(runs, found, strict=True):
        assert findings == here(run)[1]
        # Histograms have no equality of their own.
        assert [repr(one) for one in figures] == [repr(one) for one in here(run)[0]]
    assert found[0][1] != found[1][1] or found[0][0] != found[1][0]


@pytest.mark.usefixtures("another_core")
def test_what_fails_in_another_process_fails_here(runs: list[Run], tmp_path: Path) -> None:
    (runs[1].path / layout.PLAN).write_text("{}")
    with judging(runs, verifying=False) as (judge, _):
        judge(runs[0])
        with pytest.raises(LeadlineError) as caught:
            judge(runs[1])
    assert caught.value.kind is ARCHIVE_DAMAGED
    assert "plan.json" in str(caught.value)


def test_small_archives_are_verified_here(runs: list[Run]) -> None:
    with judging(runs) as (_, verified):
        assert not multiprocessing.active_children()
        assert verified() == tuple(map(verify, runs))


def test_one_core_is_not_shared(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch, use_cores: Callable[[int], None]
) -> None:
    monkeypatch.setattr(module, "_WORTH_A_PROCESS", 1)
    use_cores(1)
    with judging(runs) as (_, verified):
        assert not multiprocessing.active_children()
        assert verified() == tuple(map(verify, runs))


@pytest.mark.usefixtures("another_core")
@pytest.mark.parametrize("number", [1, 2])
def test_what_another_process_does_not_end_is_done_here(runs: list[Run], number: int) -> None:
    given = runs[-number:]
    with judging(given) as (judge, verified):
        for child in multiprocessing.active_children():
            child.kill()
        assert verified() == tuple(map(verify, given))
        assert [judge(run)[1] for run in given] == [Judge()(run)[1] for run in given]


def test_what_was_read_to_be_judged_is_what_is_verified(runs: list[Run]) -> None:
    """An archive that changes in between shows it: its bytes are looked at again."""
    with judging(runs[:1]) as (judge, verified):
        judge(runs[0])
        (runs[0].trial_folders[0] / layout.FIO_OUTPUT).write_text("{}")
        (found,) = verified()
    assert [one.path for one in found.problems] == [
        f"{layout.TRIALS}/{runs[0].trial_folders[0].name}/{layout.FIO_OUTPUT}"
    ]


@pytest.mark.usefixtures("another_core")
def test_nothing_is_left_where_judging_fails(runs: list[Run]) -> None:
    with pytest.raises(ZeroDivisionError), judging(runs):
        _ = 1 / 0
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("another_core")
def test_an_archive_that_leads_elsewhere_is_refused(runs: list[Run], tmp_path: Path) -> None:
    trials = runs[0].path / layout.TRIALS
    trials.rename(tmp_path / "elsewhere")
    trials.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LeadlineError) as caught, judging(runs):
        pass
    assert caught.value.kind is ARCHIVE_DAMAGED
