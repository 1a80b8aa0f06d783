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
from leadline.stats.sequential import Looks

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
            run="one" if together or in_a_row else name,
            imported=in_a_row,
        )

    # Imported trials of one run; a single one is a number without scatter.
    in_a_row = not together and min(counts) > 1 and draw(st.booleans())
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
    assert one.trials_range == other.trials_range
    for name in ("ratio", "interval", "confidence", "p", "p_adjusted", "detectable"):
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


@given(pairs())
def test_which_side_is_first(pair: Pair) -> None:
    """All is mirrored, but for the band itself: -5 % one way is +5.3 % the other."""
    (one,) = judge([pair], BAND)
    assume(clear_of_edges(one))
    (other,) = judge([replace(pair, baseline=pair.candidate, candidate=pair.baseline)], BAND)
    assert other.verdict is MIRRORED.get(one.verdict, one.verdict)
    assert one.reasons == other.reasons
    assert one.ratio is not None
    assert other.ratio == pytest.approx(1 / one.ratio)
    if one.interval is not None:
        low, high = one.interval
        assert other.interval == pytest.approx((1 / high, 1 / low), rel=1e-6)


@given(families)
def test_estimates_of_many_are_mirrored(family: list[Pair]) -> None:
    swapped = [replace(pair, baseline=pair.candidate, candidate=pair.baseline) for pair in family]
    for one, other in zip(judge(family), judge(swapped), strict=True):
        if one.estimate is None or other.estimate is None:
            assert one.estimate is other.estimate
            continue
        assert other.estimate.value == pytest.approx(-one.estimate.value, abs=1e-9)
        assert other.estimate.error == pytest.approx(one.estimate.error, rel=1e-6)
        assert other.estimate.freedom == pytest.approx(one.estimate.freedom, rel=1e-6)


def looked_at(pair: Pair) -> Pair:
    """The pair as one of a run that was tested after each round."""
    looks = Looks(first=3, most=12)
    return replace(
        pair,
        baseline=replace(pair.baseline, looks=looks),
        candidate=replace(pair.candidate, looks=looks),
    )


@given(families)
def test_looks_make_no_verdict_that_planned_trials_do_not_make(family: list[Pair]) -> None:
    planned, looked = judge(family, BAND), judge([looked_at(pair) for pair in family], BAND)
    for one, other in zip(planned, looked, strict=True):
        assert other.verdict in (one.verdict, Verdict.INCONCLUSIVE)
        if one.p is None or other.p is None:
            close(other.interval, one.interval)
            assert "group-sequential" not in other.reasons
            continue
        assert other.p >= one.p * (1 - 1e-9)
        assert "group-sequential" in other.reasons
        alone, wider = one.interval_alone or one.interval, other.interval_alone or other.interval
        assert alone is not None
        assert wider is not None
        assert wider[0] <= alone[0] <= alone[1] <= wider[1]


@given(st.lists(pairs(), min_size=1, max_size=14), st.sampled_from([0.02, 0.05, 0.3]))
def test_no_interval_contradicts_its_verdict(family: list[Pair], band: float) -> None:
    if len(family) % 2:
        family = [looked_at(pair) for pair in family]
    """Of any matrix, whichever side is first."""
    swapped = [replace(pair, baseline=pair.candidate, candidate=pair.baseline) for pair in family]
    for pairs_ in (family, swapped):
        for pair, found in zip(pairs_, judge(pairs_, band), strict=True):
            holds(pair, found, band)


def holds(pair: Pair, found: Judgement, band: float) -> None:
    assert found.ratio is not None
    if found.interval is None:
        assert found.verdict is Verdict.INCONCLUSIVE
        return
    low, high = found.interval
    slack = 1 + 1e-9
    assert low <= found.ratio * slack
    assert found.ratio <= high * slack
    assert found.confidence is not None
    assert found.confidence >= 0.95
    if found.interval_alone is not None:
        assert low <= found.interval_alone[0] * slack
        assert found.interval_alone[1] <= high * slack
    above, below = low >= (1 + band) / slack, high <= (1 - band) * slack
    inside = low >= (1 - band) / slack and high <= (1 + band) * slack
    if found.verdict in MIRRORED:
        assert above or below
        assert above is ((found.verdict is Verdict.BETTER) is not pair.metric.lower_is_better)
        assert found.p_adjusted is None or found.p_adjusted <= 0.05
    elif found.verdict is Verdict.SAME:
        assert inside
    else:
        assert found.verdict is Verdict.INCONCLUSIVE
        edges = (1 - band, 1 + band)
        assert low <= edges[1] * slack
        assert high >= edges[0] / slack
        assert low <= edges[0] * slack or high >= edges[1] / slack
        assert found.reasons
        assert found.p_adjusted is None or found.p_adjusted > 0.05
    if found.trials_needed is not None:
        assert found.verdict is Verdict.INCONCLUSIVE
