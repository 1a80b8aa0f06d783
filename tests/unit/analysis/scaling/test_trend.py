"""The tested shape of a curve's end, and the headline that states it."""

from __future__ import annotations

import pytest

from leadline.analysis.scaling.knee import Shape, shape_of
from leadline.analysis.scaling.trend import Scatter, Trend
from leadline.findings import Finding
from leadline.report.pages.scaling.sentences import curve_sentence
from leadline.stats.usl import NoFit, Unfitted
from tests.unit.analysis.scaling.levels import OVERLOADED, Level, closed, refusal, simulate

LOADS = (1, 2, 4, 8, 16, 32)
# Trials of a level about its rate.
AROUND = (0.99, 1.0, 1.01)


def level(load: int, rate: float, spread: tuple[float, ...] = AROUND) -> Level:
    return closed(load, *[rate * share for share in spread])


def shape(*levels: Level, findings: tuple[Finding, ...] = ()) -> Shape:
    made = simulate(*levels, findings=findings)
    return shape_of(made.curve, made.samples)


def trend(found: Shape) -> Trend:
    assert found.ending is not None
    return found.ending.trend


def test_a_curve_that_is_flat_from_the_first_level_on() -> None:
    found = shape(*(level(load, 1000.0) for load in LOADS))
    assert trend(found) is Trend.FLAT
    assert found.limit is not None
    assert found.limit.iops == pytest.approx(1000, rel=0.01)
    assert found.law == Unfitted(reason=NoFit.HARD_LIMIT, levels=6)
    assert curve_sentence(found) == (
        "randread on pool: throughput is flat from 1 I/O in flight on: a hard limit of 1,000 IOPS, "
        "not a queue."
    )


def test_two_flat_levels_are_no_hard_limit() -> None:
    found = shape(*(level(load, min(load, 16) * 100.0) for load in LOADS))
    assert trend(found) is Trend.FLAT
    assert found.limit is None
    assert "throughput grows to 16 I/Os in flight (1,600 IOPS), then is flat, " in curve_sentence(
        found
    )


def test_a_last_level_that_collapses_falls() -> None:
    """A median of the plateau would still tie: only the last level is lower."""
    rates = {1: 500.0, 2: 1000.0, 4: 1000.0, 8: 1000.0, 16: 1000.0, 32: 600.0}
    found = shape(*(level(load, rates[load]) for load in LOADS))
    assert trend(found) is Trend.FALLS
    assert found.ending is not None
    assert found.ending.fall is not None
    assert found.ending.fall.share == pytest.approx(-0.4, abs=0.01)
    sentence = curve_sentence(found)
    assert "then falls to 600 IOPS at 32 I/Os in flight, -40 % vs the highest (-" in sentence


@pytest.mark.parametrize("spread", [AROUND, (1.0, 1.0, 1.0)])
def test_a_level_that_collapses_and_a_later_one_that_recovers(spread: tuple[float, ...]) -> None:
    """No line describes that: neither growth, nor a plateau, nor a hard limit."""
    rates = {1: 400.0, 2: 1000.0, 4: 1000.0, 8: 500.0, 16: 1000.0, 32: 1000.0}
    found = shape(*(level(load, rates[load], spread) for load in LOADS))
    assert (trend(found), found.limit, found.saturated) == (Trend.UNDECIDED, None, None)
    assert found.ending is not None
    assert found.ending.dip is not None
    assert found.ending.dip.below.share == pytest.approx(-0.5)
    said = curve_sentence(found)
    assert "; throughput falls to 500 IOPS at 8 I/Os in flight, -50 % vs the highest" in said
    assert said.endswith(", and recovers: no single shape.")


def test_a_fall_within_the_scatter_of_trials_is_undecided() -> None:
    loose = (0.8, 1.0, 1.2)
    rates = {1: 500.0, 2: 1000.0, 4: 1000.0, 8: 1000.0, 16: 1000.0, 32: 800.0}
    found = shape(*(level(load, rates[load], loose) for load in LOADS))
    assert trend(found) is Trend.UNDECIDED
    assert "undecided whether it grows, is flat or falls" in curve_sentence(found)


def test_a_refused_last_level_does_not_hide_a_collapse() -> None:
    levels = [level(load, min(load, 8) * 100.0) for load in LOADS]
    levels[-1] = level(32, 200.0)
    found = shape(*levels, findings=(refusal("qd32x1"),))
    (unusable,) = found.unusable_end
    assert (unusable.iops, unusable.findings) == (200.0, ("cache-served-reads",))
    assert unusable.share == pytest.approx(-0.75)
    assert curve_sentence(found).endswith(
        "; qd32x1 is refused (cache-served-reads): 200 IOPS, -75 % vs the highest."
    )


def test_a_last_level_without_a_trial_is_reported() -> None:
    failed = Level(trials=[OVERLOADED, OVERLOADED], iodepth=32)
    found = shape(*(level(load, load * 100.0) for load in LOADS[:-1]), failed)
    assert trend(found) is Trend.GROWS
    assert curve_sentence(found).endswith("; qd32x1 has no figure.")


def test_single_trials_need_more_than_repeats_differ_by() -> None:
    """Two single numbers 20 % apart decide nothing; a plateau of many levels has a scatter."""
    near = shape(closed(1, 1000.0), closed(2, 1200.0))
    assert near.ending is not None
    assert (trend(near), near.ending.scatter) == (Trend.UNDECIDED, Scatter.PUBLISHED)
    assert "single trials, which may differ by the published scatter" in curve_sentence(near)
    assert trend(shape(closed(1, 1000.0), closed(2, 2000.0))) is Trend.GROWS
    assert trend(shape(closed(1, 1000.0), closed(2, 300.0))) is Trend.FALLS
    many = shape(*(closed(load, 1000.0 + load % 3) for load in LOADS))
    assert many.ending is not None
    assert (trend(many), many.ending.scatter) == (Trend.FLAT, Scatter.LEVELS)


def test_identical_trials_have_an_interval_of_no_width() -> None:
    """Rounded imports: no scatter at all."""
    found = shape(*(closed(load, 1000.0, 1000.0) for load in LOADS))
    assert trend(found) is Trend.FLAT
