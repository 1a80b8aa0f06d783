"""Series, changes and notes of a history, of runs in memory; their words against a golden file."""

from __future__ import annotations

import io
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from leadline.analysis.history import (
    ClockProblem,
    History,
    Series,
    Unread,
    build_history,
    parse_selection,
)
from leadline.analysis.history_rows import HistoryRow, HistoryRun
from leadline.analysis.verdicts import Verdict
from leadline.errors import LeadlineError
from leadline.metrics import Metric
from leadline.report.answers.history import history_output
from leadline.report.document import Document
from leadline.report.pages.history import history_document
from leadline.report.render import markdown, terminal
from leadline.report.render.history_exports import render_export
from tests.conftest import ROOT
from tests.kept_text import check_kept

GOLDEN = ROOT / "tests" / "golden" / "words" / "history.txt"
DAY_S = 86400.0
FIRST_S = 1_772_330_400.0  # 2026-03-01 02:00 UTC
HOSTILE = "rep3\x1b[31m"


def row(
    target: str, value: float, metric: str = "iops", *, codes: Sequence[str] = (), block: str = "4k"
) -> HistoryRow:
    settings = {"target.url": f"rbd:{target}", "workload.block_size": block}
    return HistoryRow(
        target=target,
        workload="randwrite-4k",
        level="qd1",
        op="write",
        metric=metric,
        value=value,
        trials=3,
        rate=metric == "iops",
        codes=tuple(codes),
        settings=json.dumps(settings, sort_keys=True),
    )


def run(night: int, *rows: HistoryRow, name: str = "", at_s: float | None = None) -> HistoryRun:
    return HistoryRun(
        path=Path(f"/nights/night-{night:04}"),
        run=name or f"night-{night:04}",
        seal=f"{night}",
        at_s=FIRST_S + night * DAY_S if at_s is None else at_s,
        dated=True,
        clock_back=False,
        rows=rows,
    )


def nights(*factors: float, seed: int = 1, scatter: float = 0.015) -> list[HistoryRun]:
    """A run per factor of the rate of rep3; rep2 stays as it is."""
    generator = random.Random(seed)
    found = []
    for night, factor in enumerate(factors):
        rep3, rep2 = (math.exp(generator.gauss(0, scatter)) for _ in range(2))
        rate = 4000 * factor * rep3
        rows = row("rep3", rate), row("rep3", 2 / rate, "latency_p99"), row("rep2", 5000 * rep2)
        found.append(run(night, *rows))
    return found


def history(runs: Sequence[HistoryRun], **given: object) -> History:
    now_s = FIRST_S + 1000 * DAY_S
    return build_history([Path("/nights")], runs, (), now_s=now_s, **given)  # type: ignore[arg-type]


def of(found: History, target: str, metric: Metric = Metric.IOPS) -> Series:
    return next(one for one in found.series if (one.target, one.metric) == (target, metric))


def test_a_loss_is_worse_in_rates_and_in_latencies() -> None:
    found = history(nights(*[1.0] * 12, *[0.8] * 8))
    for metric in (Metric.IOPS, Metric.LATENCY_P99):
        (change,) = of(found, "rep3", metric).changes
        assert change.verdict is Verdict.WORSE
        assert not change.recovered
        assert (change.begin.run.run, change.end.run.run) == ("night-0011", "night-0012")
        assert (change.ratio > 1) is metric.is_latency
        low, high = change.interval
        assert low < change.ratio < high
    assert of(found, "rep2").changes == ()
    assert len(found.regressions) == 2
    assert change.differences is None, "the archives are not there"


def test_a_gain_is_no_regression() -> None:
    found = history(nights(*[1.0] * 12, *[1.25] * 8))
    assert of(found, "rep3").changes[0].verdict is Verdict.BETTER
    assert found.regressions == found.undecided == []


def test_a_loss_within_the_margin_is_neither_worse_nor_recovered() -> None:
    found = history(nights(*[1.0] * 20, *[0.97] * 20, scatter=0.004))
    (change,) = of(found, "rep3").changes
    assert change.verdict is Verdict.SAME
    assert not change.recovered
    narrow = history(nights(*[1.0] * 20, *[0.97] * 20, scatter=0.004), band=0.02)
    assert of(narrow, "rep3").changes[0].verdict is Verdict.WORSE


def test_a_regression_counts_until_it_is_accepted_or_gone() -> None:
    lost = nights(*[1.0] * 12, *[0.8] * 8)
    assert history(lost, since_s=FIRST_S + 13 * DAY_S).regressions == []
    gone = history(nights(*[1.0] * 12, *[0.8] * 8, *[1.0] * 8))
    assert gone.regressions == []
    assert [change.recovered for change in of(gone, "rep3").changes] == [True, False]


def test_values_with_an_error_finding_are_not_used() -> None:
    runs = nights(*[1.0] * 10)
    bad = replace(runs[4], rows=(row("rep3", 40000.0, codes=["cache-served-reads"]),))
    found = of(history([*runs[:4], bad, *runs[5:]]), "rep3")
    assert len(found.points) == 9
    (unused,) = found.unused
    assert unused.codes == ("cache-served-reads",)
    assert found.changes == ()


def test_a_cell_with_other_settings_is_another_series() -> None:
    runs = [
        run(night, row("rep3", 4000.0, block="4k" if night < 3 else "8k")) for night in range(6)
    ]
    found = history(runs)
    assert [len(one.points) for one in found.series] == [3, 3]
    (split,) = found.splits
    assert split.settings == (("workload.block_size", "4k", "8k"),)
    assert split.before.points[0].run.run == "night-0000"


def test_the_order_is_that_of_times_and_contradictions_are_named() -> None:
    runs = [
        run(1, row("rep3", 1.0)),
        run(2, row("rep3", 1.0), at_s=FIRST_S),
        run(3, row("rep3", 1.0), at_s=FIRST_S + 2000 * DAY_S),
        replace(run(4, row("rep3", 1.0)), dated=False, clock_back=True),
    ]
    found = history(runs)
    assert [one.run for one in found.runs] == [
        "night-0002", "night-0001", "night-0004", "night-0003",
    ]  # fmt: skip
    assert {(note.run.run, note.problem) for note in found.clock} == {
        ("night-0002", ClockProblem.OUT_OF_SEQUENCE),
        ("night-0003", ClockProblem.FUTURE),
        ("night-0004", ClockProblem.UNDATED),
        ("night-0004", ClockProblem.SET_BACK),
    }


def test_names_with_a_date_are_no_sequence() -> None:
    names = ("import-20260301-221417", "import-20260301-101010")
    runs = [run(at, row("rep3", 1.0), name=name) for at, name in enumerate(names)]
    assert history(runs).clock == ()


def test_a_selection_has_patterns_and_alternatives() -> None:
    runs = nights(*[1.0] * 3)
    chosen = parse_selection(["target=rep3,metric=iops", "target=rep2"])
    assert len(history(runs, selection=chosen).series) == 2
    assert len(history(runs, metrics=[Metric.LATENCY_P99]).series) == 1
    with pytest.raises(LeadlineError, match="no cell"):
        history(runs, selection=parse_selection(["target=ec*"]))
    for wrong in ("target", "target=", "pool=rep3", ""):
        with pytest.raises(LeadlineError):
            parse_selection([wrong])


@pytest.mark.thorough
def test_many_unchanged_cells_have_few_changes_together() -> None:
    """Forty cells in 60 runs, twenty times: changes are false in less than 5 % of histories."""
    false = 0
    for seed in range(20):
        generator = random.Random(seed)
        runs = [
            run(night, *(row(f"pool-{cell}", generator.gauss(1000, 20)) for cell in range(40)))
            for night in range(60)
        ]
        false += any(one.changes for one in history(runs).series)
    assert false <= 3


def _history() -> History:
    runs = nights(*[1.0] * 12, *[0.8] * 8, *[1.0 - night / 50 for night in range(1, 13)])
    runs += [run(32 + at, row("rep3", 3000.0, block="8k"), row(HOSTILE, 10.0)) for at in range(2)]
    runs.append(run(40, row("rep2", 5000.0, codes=["exceeds-ceiling"]), at_s=FIRST_S + 5e8))
    unread = [Unread(path=Path("/nights/bad"), code="archive-damaged", fact="plan.json is cut")]
    return build_history([Path("/nights")], runs, unread, now_s=FIRST_S + 100 * DAY_S)


@pytest.mark.parametrize("output", ["csv", "csv-raw", "otava-csv", "benchstat", "openmetrics"])
def test_exports_hold_no_control_character(output: str) -> None:
    text = render_export(_history(), output)
    assert "rep3" in text
    assert not set(text) & set("\x1b\x00\r\t")
    assert "\x1b" not in history_output(_history(), "").to_json()


def _document() -> Document:
    return history_document(_history())


def test_the_words() -> None:
    console = Console(file=io.StringIO(), width=110, no_color=True, force_terminal=False)
    terminal.render(console, _document(), full=True)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue() + "\n\n" + markdown.render(_document())
    assert "\x1b[31m" not in text
    check_kept(GOLDEN, text)
