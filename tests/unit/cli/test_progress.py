"""Progress of a run: one line for each trial on a pipe, a table that fits on a terminal."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from leadline.archive.records import Look, LookedPair, LookedRate, LookEnd, LookState
from leadline.cli import progress
from leadline.cli.progress import LiveTable
from leadline.metrics import Metric, Op
from leadline.plan.stop import Stop
from leadline.runner.events import (
    Looked,
    Noted,
    RunStarted,
    TrialEnded,
    TrialProgress,
    TrialStarted,
)
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
def test_the_table_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # rich takes a dumb terminal for one of 80 columns.
    monkeypatch.setenv("TERM", "xterm")
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


def looked(*states: LookState, end: LookEnd | None = None) -> Looked:
    """A look after two rounds; the rates have one level each."""
    rates = tuple(
        LookedRate(
            target="rep3",
            workload="randread",
            level=f"qd{number}",
            op=Op.READ,
            metric=Metric.IOPS,
            trials=(2, 2),
            ratio=1.0,
            interval=(0.9, 1.1),
            verdict="inconclusive",
            reasons=(),
            state=state,
        )
        for number, state in enumerate(states, start=1)
    )
    look = Look(
        at="2026-11-25T00:00:00Z",
        round=2,
        trials=("t0001-1",),
        used_s=6.0,
        confidence=0.99,
        pairs=(LookedPair(baseline="near", candidate="far", rates=rates),),
        end=end,
    )
    return Looked(look=look, left_s=0.0 if end else 90.0)


def test_a_look_names_what_is_open_and_the_most_time_that_is_left() -> None:
    states = (LookState.DECIDED, LookState.OPEN, LookState.FUTILE, LookState.CLOSED)
    assert progress.describe(looked(*states)) == (
        "look after round 2: 1 of 4 rates decided; 1 that later rounds will hardly decide; 1 that "
        "no trial can decide; open: rep3 · randread · qd2; at most 1 min 30 s more of I/O"
    )
    assert progress.describe(looked(LookState.DECIDED, end=LookEnd.DECIDED)) == (
        "look after round 2: 1 of 1 rate decided; nothing is open: the run ends"
    )
    line = progress.describe(looked(*[LookState.OPEN] * 6, end=LookEnd.MAX_TIME))
    assert line.endswith("qd4 and 2 more; the next round would exceed max_time")


def test_the_table_shows_what_is_open() -> None:
    stop = Stop(compare="target", baseline="a", within=0.05, first=2, max_repeats=6, futility=0.2)
    table = LiveTable()
    of_rounds = RUN.plan.model_copy(update={"stop": stop})
    table.see(RunStarted(run="r", plan=of_rounds, to_do=2, asked_s=6.0))
    table.see(started(1))
    assert "open" not in dict(table.rows(80))
    (line,) = table.see(looked(LookState.DECIDED, LookState.OPEN))
    assert line.startswith("look after round 2: 1 of 2 rates decided")
    rows = dict(table.rows(80))
    assert rows["open"] == "1 rate after round 2, then at most 1 min 30 s of I/O"
    assert rows["left"].endswith("of the round")


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
