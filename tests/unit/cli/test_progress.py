"""Progress of a run: one line for each trial on a pipe, a table that fits on a terminal."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from leadline.cli import progress
from leadline.cli.progress import LiveTable
from leadline.runner.events import Noted, RunStarted, TrialEnded, TrialProgress, TrialStarted
from leadline.text import visible
from tests.unit.cli.test_sweep import COMPLETED, cell, plan, result

LEVELS = [cell(1), cell(4), cell(16)]
PLAN = plan(*LEVELS)
RUN = RunStarted(run="r", plan=PLAN, to_do=2, asked_s=6.0)
ENDED = TrialEnded(record=COMPLETED, derived=result(20_481.0))


def started(number: int) -> TrialStarted:
    return TrialStarted(
        trial=PLAN.trials[number - 1],
        cell=LEVELS[number - 1],
        number=number,
        count=2,
        asked_s=3.0,
        left_s=3.0 * (2 - number),
    )


def test_a_trial_is_one_line_that_begins_when_the_trial_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress.progress(quiet=False) as observe:
        observe(RUN)
        capsys.readouterr()
        observe(started(1))
        assert capsys.readouterr().err == "[1/2] disk · randread-4k · qd1 · repeat 1 · 3 s: "
        observe(ENDED)
        assert capsys.readouterr().err == "read 20,481 IOPS, mean 1 ms\n"


def test_a_note_does_not_tear_the_line_of_a_trial(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(quiet=False) as observe:
        for event in (started(1), Noted(message="one host is slow"), ENDED, started(2)):
            observe(event)
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] disk · randread-4k · qd1 · repeat 1 · 3 s: ",
        "note: one host is slow",
        "[1/2] disk · randread-4k · qd1 · repeat 1 · 3 s: read 20,481 IOPS, mean 1 ms",
        "[2/2] disk · randread-4k · qd4 · repeat 1 · 3 s: ",
    ], "a run that is stopped ends its line"


def test_a_long_result_goes_on_indented() -> None:
    line = "[14/36] ec-2-1@multi-zone · random-rw-4k · qd16: read 2,394 IOPS · write 489 IOPS"
    lines = progress.wrapped(line, 60)
    assert lines == [line[:59], "    " + line[60:]]
    assert progress.wrapped("    level qd1, 1 of 2", 60) == ["    level qd1, 1 of 2"]


@pytest.mark.parametrize("width", [12, 34, 200])
def test_the_table_fits_the_terminal(width: int) -> None:
    table = LiveTable()
    for event in (RUN, started(1), ENDED, started(2), TrialProgress(iops=123_456.0)):
        table.see(event)
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(table)
    lines = visible(out.getvalue()).replace("\\n", "\n").splitlines()
    assert max(map(len, lines)) <= width
    assert 6 <= len(lines) <= 9, "no line is wrapped"
    assert lines[0].startswith("cell")
    assert lines[3].startswith("left")


def test_the_time_left_counts_what_trials_take_beyond_their_io(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    table = LiveTable()
    table.see(started(1))
    now += 1.0
    assert table.left_s(started(1)) == (2.0, 5.0)
    now += 7.0  # five seconds more than its I/O
    table.see(started(2))
    again = started(2)
    assert table.left_s(again) == (3.0, 3.0)
    three = TrialStarted(
        trial=again.trial, cell=again.cell, number=2, count=4, asked_s=3.0, left_s=6.0
    )
    assert table.left_s(three) == (3.0, 9.0 + 2 * 5.0)
