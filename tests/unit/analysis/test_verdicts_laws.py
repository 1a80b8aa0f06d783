"""What must not change a verdict: the order of trials and pairs, the unit, which side is first."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from leadline.analysis.verdicts import Judgement, Pair, Sample, Verdict, judge
from leadline.metrics import Metric

BAND = 0.05
MIRRORED = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Samples that scatter by up to a tenth, round levels up to a half apart."""
    level = draw(st.floats(0.5, 2))
    counts = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    together = draw(st.booleans())
    scatter = draw(st.sampled_from([0.002, 0.02, 0.1]))

    def side(count: int, centre: float, name: str) -> Sample:
        values = draw(
            st.lists(
                st.floats(-1, 1).map(lambda one: centre * (1 + scatter * one)),
                min_size=count,
                max_size=count,
            )
        )
        return Sample(
            value=median(values),
            trials=tuple(values),
            blocks=tuple((("run" if together else name), index) for index in range(count)),
            within=tuple(draw(st.sampled_from([0.001, 0.01])) for _ in values),
        )

    return Pair(
        metric=draw(st.sampled_from(list(Metric))),
        baseline=side(counts[0], 100.0, "a"),
        candidate=side(counts[1], 100.0 * level, "b"),
        primary=draw(st.booleans()),
    )


families = st.lists(pairs(), min_size=1, max_size=6)


def mixed(sample: Sample, generator: random.Random) -> Sample:
    order = list(range(len(sample.trials)))
    generator.shuffle(order)
    return replace(
        sample,
        trials=tuple(sample.trials[index] for index in order),
        blocks=tuple(sample.blocks[index] for index in order),
        within=tuple(sample.within[index] for index in order),
    )


def scaled(sample: Sample, factor: float) -> Sample:
    assert sample.value is not None
    return replace(
        sample,
        value=sample.value * factor,
        trials=tuple(one * factor for one in sample.trials),
    )


def close(one: object, other: object) -> None:
    if one is None or other is None:
        assert one is other
    else:
        assert one == pytest.approx(other, rel=1e-6, abs=1e-12)


def same(one: Judgement, other: Judgement) -> None:
    """Equal but for the last digits: sums depend on their order."""
    assert one.verdict is other.verdict
    assert one.evidence is other.evidence
    assert one.reasons == other.reasons
    assert one.trials_needed == other.trials_needed
    for name in ("ratio", "interval", "p", "p_adjusted", "detectable"):
        close(getattr(one, name), getattr(other, name))


def clear_of_edges(judgement: Judgement) -> bool:
    """Not so near to an edge or to 5 % that the last digit decides."""
    ends = [*(judgement.interval or ()), judgement.ratio or 1.0]
    edges = (1 - BAND, 1 / (1 + BAND), 1 / (1 - BAND), 1 + BAND)
    slivers = ((edges[0], edges[1]), (edges[3], edges[2]))
    return not any(low - 1e-9 <= end <= high + 1e-9 for end in ends for low, high in slivers)


@given(families, st.randoms(use_true_random=False))
def test_the_order_of_trials(family: list[Pair], generator: random.Random) -> None:
    shuffled = [
        replace(
            pair,
            baseline=mixed(pair.baseline, generator),
            candidate=mixed(pair.candidate, generator),
        )
        for pair in family
    ]
    before = judge(family)
    assume(all(clear_of_edges(one) for one in before))
    for one, other in zip(before, judge(shuffled), strict=True):
        same(one, other)


@given(families, st.randoms(use_true_random=False))
def test_the_order_of_pairs(family: list[Pair], generator: random.Random) -> None:
    order = list(range(len(family)))
    generator.shuffle(order)
    before = judge(family)
    after = judge([family[index] for index in order])
    for place, index in enumerate(order):
        same(after[place], before[index])


@given(families, st.sampled_from([2.0**-30, 2.0**10, 2.0**30]))
def test_the_unit(family: list[Pair], factor: float) -> None:
    in_other_units = [
        replace(
            pair,
            baseline=scaled(pair.baseline, factor),
            candidate=scaled(pair.candidate, factor),
        )
        for pair in family
    ]
    before = judge(family)
    assume(all(clear_of_edges(one) for one in before))
    for one, other in zip(before, judge(in_other_units), strict=True):
        same(one, other)


@given(families)
def test_which_side_is_first(family: list[Pair]) -> None:
    """All is mirrored, but for the band itself: -5 % one way is +5.3 % the other."""
    before = judge(family, BAND)
    assume(all(clear_of_edges(one) for one in before))
    swapped = [replace(pair, baseline=pair.candidate, candidate=pair.baseline) for pair in family]
    for one, other in zip(before, judge(swapped, BAND), strict=True):
        assert other.verdict is MIRRORED.get(one.verdict, one.verdict)
        assert one.reasons == other.reasons
        assert one.ratio is not None
        assert other.ratio == pytest.approx(1 / one.ratio)
        close(other.p, one.p)
        if one.interval is not None:
            low, high = one.interval
            assert other.interval == pytest.approx((1 / high, 1 / low), rel=1e-6)


@given(pairs())
def test_what_a_judgement_promises(pair: Pair) -> None:
    found = judge([pair], BAND)[0]
    if found.interval is not None:
        assert found.ratio is not None
        assert found.interval[0] <= found.ratio <= found.interval[1]
    if found.verdict in (Verdict.BETTER, Verdict.WORSE):
        assert found.interval is not None
        assert found.interval[0] > 1 + BAND or found.interval[1] < 1 - BAND
        assert found.p_adjusted is None or found.p_adjusted <= 0.05
    if found.verdict is Verdict.INCONCLUSIVE:
        assert found.reasons
    if found.verdict is Verdict.SAME:
        assert found.interval is not None
        assert found.interval[0] >= 1 - BAND
        assert found.interval[1] <= 1 + BAND
    if found.trials_needed is not None:
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.trials_needed > min(len(pair.baseline.trials), len(pair.candidate.trials))
