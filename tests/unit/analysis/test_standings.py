"""From verdicts and resamples to ranks, beside slow and obvious versions."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.standings import (
    better_than,
    ranks_of,
    resampled_ranks,
    resampled_scores,
    verdict_intervals,
)
from leadline.analysis.verdicts import Evidence, Judgement, Verdict

VERDICTS = {
    ">": Verdict.BETTER,
    "=": Verdict.SAME,
    "?": Verdict.INCONCLUSIVE,
}


def judged(signs: str, evidence: Evidence = Evidence.TRIALS) -> list[Judgement]:
    return [Judgement(verdict=VERDICTS[sign], evidence=evidence, band=0.05) for sign in signs]


def three(signs: str, evidence: Evidence = Evidence.TRIALS):  # type: ignore[no-untyped-def]
    """Ranks and intervals of a, b, c by the verdicts of ab, ac, bc."""
    pairs = [(0, 1), (0, 2), (1, 2)]
    better = better_than(3, pairs, judged(signs, evidence))
    return ranks_of(better), verdict_intervals(better, pairs, judged(signs, evidence))


@pytest.mark.parametrize(
    ("signs", "ranks", "intervals"),
    [
        (">>>", [1, 2, 3], [(1, 1), (2, 2), (3, 3)]),
        ("???", [1, 1, 1], [(1, 3), (1, 3), (1, 3)]),
        ("===", [1, 1, 1], [(1, 1), (1, 1), (1, 1)]),
        # a is told from c alone: b goes with a, and c begins a rank.
        ("?>?", [1, 1, 3], [(1, 2), (1, 3), (2, 3)]),
        # a > b and b > c are known, a > c follows from them.
        (">?>", [1, 2, 3], [(1, 1), (2, 2), (3, 3)]),
        (">??", [1, 2, 2], [(1, 2), (2, 3), (1, 3)]),
    ],
)
def test_verdicts_that_do_not_follow_from_each_other(
    signs: str, ranks: list[int], intervals: list[tuple[int, int]]
) -> None:
    assert three(signs) == (ranks, intervals)


def test_one_number_a_side_cannot_show_two_to_be_the_same() -> None:
    assert three("===", Evidence.ONE_NUMBER)[1] == [(1, 3)] * 3


@given(st.integers(2, 7), st.data())
def test_ranks_begin_where_something_can_be_told(count: int, data: st.DataObject) -> None:
    pairs = list(combinations(range(count), 2))
    signs = data.draw(st.text("=?>", min_size=len(pairs), max_size=len(pairs)))
    better = better_than(count, pairs, judged(signs))
    ranks = ranks_of(better)
    assert ranks[0] == 1
    assert ranks == sorted(ranks)
    for (one, other), sign in zip(pairs, signs, strict=True):
        if sign == ">":
            assert ranks[one] < ranks[other]
    for place, rank in enumerate(ranks):
        assert rank <= place + 1
        if rank == place + 1 and place:
            before = [one for one in range(place) if ranks[one] == ranks[place - 1]]
            assert any(better[one, place] for one in before), "a rank begins for a reason"


@given(
    st.lists(st.lists(st.floats(-1, 1), min_size=5, max_size=5), min_size=1, max_size=6),
    st.sampled_from([0.05, 0.3]),
)
def test_ranks_over_resamples_are_those_counted_one_by_one(
    scores: list[list[float]], band: float
) -> None:
    given_ = np.array(scores)
    counted = np.array(
        [
            [
                1
                + sum(
                    given_[other, n] > given_[one, n] + math.log1p(band)
                    for other in range(len(given_))
                )
                for n in range(5)
            ]
            for one in range(len(given_))
        ]
    )
    low, high = np.percentile(counted, [2.5, 97.5], axis=1)
    expected = list(zip(np.floor(low), np.ceil(high), strict=True))
    assert resampled_ranks(given_, band) == expected


def test_drawing_blocks_together_keeps_what_they_share() -> None:
    weather = [0.0, -0.7, -0.1, -0.9, 0.2, -0.4]
    a = [[one + 0.1 for one in weather]]
    b = [weather]
    together = resampled_scores([a, b], [1.0], together=True)
    assert np.allclose(together[0], together[1])
    alone = resampled_scores([a, b], [1.0], together=False)
    assert np.std(alone[0] - alone[1]) > 0.1


def test_resamples_are_the_same_each_time_and_centred_on_what_was_measured() -> None:
    logs = [[[0.1, 0.2, 0.15, 0.12, 0.18, 0.16]]]
    first, second = (resampled_scores(logs, [1.0], together=True) for _ in range(2))
    assert np.array_equal(first, second)
    assert abs(float(np.median(first))) < 0.02


def test_correlated_trials_scatter_the_mean_more_than_independent_draws() -> None:
    """As wide as the verdicts': three trials that correlate by 0.6 count as less than one."""
    logs = [[[0.1, 0.2, 0.15]]]
    independent, correlated = (
        resampled_scores(logs, [1.0], together=False, correlation=value) for value in (0.0, 0.6)
    )
    assert np.allclose(correlated, math.sqrt(4.25) * independent)
