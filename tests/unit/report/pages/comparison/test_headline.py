"""The headline of any comparison: its counts and ranges are those of the cells' verdicts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.metrics import Metric, Op
from leadline.report.pages.comparison.headline import key_finding
from leadline.report.pages.comparison.takeaways import brief_summary
from tests.unit.report.pages.comparison.builder import cell, comparison

VERBS = {"writes": Op.WRITE, "reads": Op.READ, "does mixed reads and writes": Op.TOTAL}
CLAUSE = re.compile(
    r"(?P<verb>does mixed reads and writes|writes|reads) (?P<span>[^()]*?) "
    r"\((?P<counts>[^()]*) of (?P<all>[\d,]+) cells?\)"
)
COUNT = re.compile(r"(worse|same|better) in (\d+)")
RATIOS = {
    Verdict.WORSE: st.integers(300, 900),
    Verdict.SAME: st.integers(970, 1030),
    Verdict.BETTER: st.integers(1100, 3000),
    Verdict.INCONCLUSIVE: st.integers(500, 2000),
}


# Verdict, operation, whether the blocks are large, what the candidate does of a baseline of 1,000.
Drawn = tuple[Verdict, Op, bool, int, Evidence]


@st.composite
def one_drawn(draw: st.DrawFn) -> Drawn:
    verdict = draw(st.sampled_from(Verdict))
    return (
        verdict,
        draw(st.sampled_from([Op.WRITE, Op.READ, Op.TOTAL])),
        draw(st.booleans()),
        draw(RATIOS[verdict]) if verdict in RATIOS else 0,
        draw(st.sampled_from([Evidence.TRIALS, Evidence.ONE_NUMBER])),
    )


DRAWN = st.lists(one_drawn(), min_size=1, max_size=14)


def cells(drawn: list[Drawn]) -> list[ComparedCell]:
    """Made in the test: hypothesis would print whole cells."""
    return [
        cell(
            [1000.0],
            [float(value)] if value else [],
            verdict,
            target=f"t{number}",
            workload="sequential" if large else "random",
            op=op,
            streaming=large,
            metric=Metric.BANDWIDTH if large else Metric.IOPS,
            evidence=evidence,
        )
        for number, (verdict, op, large, value, evidence) in enumerate(drawn)
    ]


def size_of(ratio: float) -> str:
    share = abs(ratio - 1) * 100
    return f"{share:.0f}" if share >= 99.95 else f"{share:.1f}"


@given(DRAWN)
def test_counts_and_ranges_of_the_headline_are_those_of_the_verdicts(
    drawn: list[Drawn],
) -> None:
    given = cells(drawn)
    headline = key_finding(comparison(*given))
    clauses = list(CLAUSE.finditer(headline))
    told = {one.verdict for one in given}
    if told & {Verdict.WORSE, Verdict.BETTER}:
        assert clauses, headline
    for clause in clauses:
        group = [one for one in given if one.op is VERBS[clause["verb"]]]
        for blocks, large in (("in small blocks", False), ("in large blocks", True)):
            if blocks in clause["span"]:
                group = [one for one in group if one.streaming is large]
        assert int(clause["all"]) == len(group)
        counts = {word: int(count) for word, count in COUNT.findall(clause["counts"])}
        for verdict in (Verdict.WORSE, Verdict.SAME, Verdict.BETTER):
            assert counts.get(verdict.value, 0) == sum(one.verdict is verdict for one in group)
        changed = [one for one in group if one.verdict in (Verdict.WORSE, Verdict.BETTER)]
        ratios = [one.judgement.ratio for one in changed if one.judgement.ratio]
        ends = {size_of(min(ratios)), size_of(max(ratios))}
        assert set(re.findall(r"\d+(?:\.\d+)?", clause["span"])) == ends


@given(DRAWN)
def test_a_headline_never_hides_the_other_direction(drawn: list[Drawn]) -> None:
    """Where one operation is better throughout and another worse, both are told."""
    given = cells(drawn)
    headline = key_finding(comparison(*given))
    found = set()
    for op in VERBS.values():
        verdicts = {
            one.verdict
            for one in given
            if one.op is op and one.verdict in (Verdict.WORSE, Verdict.BETTER)
        }
        if len(verdicts) == 1:
            found |= verdicts
    for verdict in found:
        assert f"{verdict.value} in" in headline


@given(DRAWN)
def test_what_is_not_decided_is_never_called_the_same(drawn: list[Drawn]) -> None:
    given = cells(drawn)
    headline = key_finding(comparison(*given))
    same = sum(one.verdict is Verdict.SAME for one in given)
    if not same:
        assert "same" not in headline
    if "are the same within" in headline:
        assert f"in {same} of {len(given)} cell" in headline
    undecided = sum(one.verdict is Verdict.INCONCLUSIVE for one in given)
    if needing := re.search(r"(\d+) needs? more repeats", headline):
        assert int(needing[1]) == undecided


@given(DRAWN)
def test_a_headline_is_short(drawn: list[Drawn]) -> None:
    given = cells(drawn)
    headline = key_finding(comparison(*given))
    # Two clauses that point in opposite directions are the most that is told past the limit.
    assert len(headline) <= (155 if " but " not in headline else 250)
    assert headline.count(". ") == 0, "one sentence"


def test_more_is_told_where_it_fits() -> None:
    one = comparison(
        cell([100], [50], Verdict.WORSE, op=Op.WRITE),
        cell([100], [60], Verdict.WORSE, op=Op.READ),
    )
    assert key_finding(one) == (
        "new vs old: writes 50.0 % fewer IOPS (worse in 1 of 1 cell) and reads 40.0 % fewer "
        "IOPS (worse in 1 of 1 cell)."
    )


def test_what_went_both_ways_is_told_where_nothing_else_changed() -> None:
    one = comparison(
        cell([100], [50], Verdict.WORSE),
        cell([100], [150], Verdict.BETTER, target="rep2"),
    )
    assert key_finding(one) == (
        "new vs old: writes from 50.0 % fewer to 50.0 % more IOPS "
        "(worse in 1 and better in 1 of 2 cells)."
    )


def test_the_same_and_open() -> None:
    one = comparison(
        cell([100], [101], Verdict.SAME),
        cell([100], [120], Verdict.INCONCLUSIVE, target="rep2"),
        cell([100], [90], Verdict.INCONCLUSIVE, target="ec"),
    )
    assert key_finding(one) == (
        "new and old are the same within 5 % in 1 of 3 cells; 2 need more repeats."
    )


@pytest.mark.parametrize("evidence", [Evidence.ONE_NUMBER, Evidence.WITHIN_RUN])
def test_single_trials_are_said_beside_the_finding(evidence: Evidence) -> None:
    one = comparison(cell([100], [50], Verdict.WORSE, evidence=evidence))
    assert key_finding(one).endswith("; single trials.")


def test_what_single_numbers_are_worth_is_said() -> None:
    given = [
        cell([100], [90 + n], Verdict.WORSE if n < 5 else Verdict.SAME, target=f"t{n}",
             evidence=Evidence.ONE_NUMBER)
        for n in range(10)
    ]  # fmt: skip
    said = " ".join(brief_summary(comparison(*given)))
    assert "5 % margin flags about 3 of 10 rates without any change; here 5." in said
    trials = comparison(cell([100], [50], Verdict.WORSE, evidence=Evidence.TRIALS))
    assert "Single numbers" not in " ".join(brief_summary(trials))
