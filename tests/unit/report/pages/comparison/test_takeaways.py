"""Sentences of a comparison: their numbers are those of its cells, and no more is said."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.comparison import Comparison
from leadline.analysis.explain.accounts import Account
from leadline.analysis.explain.facts import CellGroup, RoundTripEvidence
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.inventory.diff import Difference, Topic
from leadline.metrics import Metric, Op
from leadline.report.pages.comparison.headline import key_finding
from leadline.report.pages.comparison.takeaways import (
    MOST_BULLETS,
    MOST_WORDS,
    brief_summary,
    missing,
)
from leadline.report.words import change_text, interval_text, span_text
from tests.unit.report.pages.comparison.builder import cell, comparison, study

JUDGED = {Verdict.BETTER, Verdict.SAME, Verdict.WORSE}
PERCENT = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?= %)|(\d[\d,]*(?:\.\d+)?)(?= to \d[\d,.]* %)")


def changes(one: Comparison) -> set[str]:
    """Every percentage that a cell with a verdict gives, recomputed from both figures."""
    found = set()
    for each in one.cells:
        if each.verdict in JUDGED and each.baseline and each.candidate:
            ours, theirs = each.baseline.value, each.candidate.value
            assert ours is not None
            assert theirs is not None
            share = abs(theirs - ours) / ours * 100
            found.add(f"{share:,.0f}" if share >= 99.95 else f"{share:.1f}")
    return found


def percentages(text: str) -> set[str]:
    return {first or second for first, second in PERCENT.findall(text)}


def test_every_percentage_of_the_study_is_a_cells(tmp_path: Path) -> None:
    found = study(tmp_path)
    said = brief_summary(found)
    told = percentages(" ".join(said))
    assert "21.3" in told
    # The band and the share that it calls by chance are no cell's, the overall effect is of many.
    effects = percentages(
        " ".join(
            f"{change_text(effect.ratio)} {interval_text(effect.interval)}"
            for effect in found.overall
        )
    )
    assert told - {"5", "27"} - effects <= changes(found), "a number that no cell has"


def test_the_study_has_the_published_range_and_not_the_published_headline(tmp_path: Path) -> None:
    found = study(tmp_path)
    assert key_finding(found) == (
        "multi-zone vs single-zone: writes 21.3 % fewer IOPS in small blocks overall "
        "(-33.0 % to -7.6 %; worse in 6 of 7 cells); single trials."
    )
    said = brief_summary(found)
    assert "rep3-virt · random-rw-4k" in said[-1]
    assert 3 <= len(said) <= 1 + MOST_BULLETS
    assert all(len(text.split()) <= MOST_WORDS for text in said)


def test_nothing_is_said_twice(tmp_path: Path) -> None:
    said = brief_summary(study(tmp_path))
    ranges = [told for text in said for told in re.findall(r"\d[\d.]* to \d[\d.]* %", text)]
    assert len(ranges) == len(set(ranges)), "a range that was told before"


def test_reads_and_writes_are_never_put_together() -> None:
    one = comparison(
        cell([100], [50], Verdict.WORSE, op=Op.WRITE),
        cell([100], [150], Verdict.BETTER, op=Op.READ),
        cell([0.010], [0.020], Verdict.WORSE, metric=Metric.LATENCY_P99, op=Op.WRITE),
        cell([0.010], [0.005], Verdict.BETTER, metric=Metric.LATENCY_P99, op=Op.READ),
    )
    assert key_finding(one) == (
        "new vs old: writes 50.0 % fewer IOPS (worse in 1 of 1 cell) but reads 50.0 % more "
        "IOPS (better in 1 of 1 cell)."
    )


def test_inconclusive_cells_give_no_number_but_what_would_decide() -> None:
    one = comparison(
        cell([100, 110, 90], [80, 120, 70], Verdict.INCONCLUSIVE, needed=14),
        cell([100, 110, 90], [70, 120, 60], Verdict.INCONCLUSIVE, needed=9, target="rep2"),
    )
    headline = key_finding(one)
    assert not percentages(" ".join(brief_summary(one)))
    assert headline == (
        "No significant difference between old and new in 2 cells; 2 need more repeats."
    )
    assert brief_summary(one)[-1] == (
        "2 of 2 rates inconclusive; about 9 to 14 trials per system (3 now) would probably resolve "
        "them."
    )


def test_numbers_of_trials_that_nobody_runs_are_not_named() -> None:
    far = cell([100, 110, 90], [80, 120, 70], Verdict.INCONCLUSIVE, needed=406)
    assert brief_summary(comparison(far))[-1] == (
        "1 of 1 rate inconclusive; more than 100 trials per system (3 now) would be needed."
    )
    near = cell([100, 110, 90], [70, 120, 60], Verdict.INCONCLUSIVE, needed=9, target="rep2")
    assert "about 9 to more than 100 trials per system" in brief_summary(comparison(far, near))[-1]


def test_an_inconclusive_cell_is_left_out_of_the_range_and_counted() -> None:
    one = comparison(
        cell([100, 100], [80, 80], Verdict.WORSE),
        cell([100, 100], [30, 30], Verdict.INCONCLUSIVE, needed=7, target="rep2"),
    )
    assert "writes 20.0 % fewer IOPS (worse in 1 of 2 cells)" in brief_summary(one)[0]
    assert "70.0" not in percentages(" ".join(brief_summary(one)))
    assert (
        "1 of 2 rates inconclusive; about 7 trials per system (2 now) would probably resolve it"
        in brief_summary(one)[-1]
    )


def test_ties_are_ties() -> None:
    one = comparison(
        cell([100], [101], Verdict.SAME, evidence=Evidence.TRIALS),
        cell([100], [99], Verdict.SAME, target="rep2", evidence=Evidence.TRIALS),
    )
    assert key_finding(one) == "new and old are the same within 5 % in 2 of 2 cells."


def test_refused_by_the_audit() -> None:
    one = comparison(
        cell([100], [50], Verdict.NOT_COMPARABLE, reasons=("cache-served-reads",), op=Op.READ),
        cell([100], [60], Verdict.NOT_COMPARABLE, reasons=("cache-served-reads",), op=Op.WRITE),
    )
    assert key_finding(one) == (
        "No verdict on new vs old: none of 2 cells is comparable (refused by the audit for "
        "cache-served-reads)."
    )
    assert not percentages(" ".join(brief_summary(one)))


def test_nothing_in_common() -> None:
    one = comparison(alone=(("rep3",), ("disk",)))
    assert key_finding(one) == (
        "Nothing can be compared: old and new have no target in common "
        "(old has rep3; new has disk)."
    )
    other = comparison(
        cell([100], None, Verdict.NOT_COMPARABLE, reasons=("missing-candidate",)),
        cell(None, [100], Verdict.NOT_COMPARABLE, reasons=("missing-baseline",), workload="other"),
    )
    assert key_finding(other) == (
        "Nothing can be compared: old and new share rep3, but no workload on it."
    )


def test_missing_cells_are_named_with_their_side() -> None:
    one = comparison(
        cell([100], [50], Verdict.WORSE),
        cell([100], [], Verdict.NOT_COMPARABLE, target="rep2", reasons=("missing-candidate",)),
        cell([], [100], Verdict.NOT_COMPARABLE, target="ec", reasons=("missing-baseline",)),
        alone=(("gone",), ()),
    )
    assert missing(one) == [
        "missing on old: ec · randwrite-4k",
        "missing on new: rep2 · randwrite-4k",
    ]
    assert brief_summary(one)[-1] == "Only on old: gone."


def test_cells_against_the_best_explanation_are_counted() -> None:
    group = CellGroup(
        ops=(Op.WRITE,), targets=("rep3",), depths=(1,), verdicts=((Verdict.WORSE, 1),)
    )
    accounts = ((Account.ACCOUNTS_FOR, 3),)
    evidence = RoundTripEvidence(cells=(), group=group, accounts=accounts, unchanged=2)
    worse = cell([100], [50], Verdict.WORSE)
    assert (
        "Network distance accounts for the change in 3 of 3 tested cells; 2 unchanged cells count "
        "against it."
    ) in brief_summary(comparison(worse, explanations=(evidence,)))
    none = replace(evidence, unchanged=0)
    said = brief_summary(comparison(worse, explanations=(none,)))
    assert not any("against it" in text for text in said)


def test_less_protection_is_always_said() -> None:
    difference = Difference(
        path="pools.fast.size", topic=Topic.REDUNDANCY, baseline="3", candidate="2", target="fast"
    )
    one = comparison(cell([100], [150], Verdict.BETTER), differences=(difference,))
    assert "Data protection differs: fast size 2 instead of 3." in brief_summary(one)


def test_a_chosen_metric_that_is_no_rate() -> None:
    one = comparison(cell([0.010], [0.015], Verdict.WORSE, metric=Metric.LATENCY_P999))
    assert key_finding(one) == (
        "new vs old: p99.9 latency of writes is 50.0 % higher (worse in 1 of 1 cell)."
    )


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ((0.731, 0.863), "13.7 to 26.9 % slower"),
        ((1.02, 1.5), "2.0 to 50.0 % faster"),
        ((0.97, 1.08), "from 3.0 % slower to 8.0 % faster"),
        ((0.9,), "10.0 % slower"),
        ((1.0,), "0.0 % faster"),
        ((2.5, 3.0), "150 to 200 % faster"),
        ((2.13, 16.0), "1.1 to 15 times faster"),
        ((1.05, 16.0), "5.0 % to 15 times faster"),
        ((12.0, 30.0), "11 to 29 times faster"),
    ],
)
def test_spans(ratios: tuple[float, ...], said: str) -> None:
    assert span_text(ratios, "slower", "faster") == said


def test_a_shared_word_is_said_once() -> None:
    assert span_text((0.9, 1.1), "less bandwidth", "more bandwidth") == (
        "from 10.0 % less to 10.0 % more bandwidth"
    )


@given(st.floats(1e-4, 1e4))
def test_a_change_reads_as_its_ratio(ratio: float) -> None:
    text = change_text(ratio)
    if text.startswith("x "):
        assert float(text[2:].replace(",", "")) == pytest.approx(ratio, rel=0.006)
    else:
        percent = float(text.removesuffix(" %").replace(",", ""))
        assert percent == pytest.approx((ratio - 1) * 100, abs=0.051 if percent < 99.9 else 0.51)
