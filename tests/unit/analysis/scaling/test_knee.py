"""Peak, saturation and knee of curves whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from leadline.analysis.scaling.knee import KneeMethod, NoKnee, NoKneeReason, Shape, shape_of
from leadline.stats.usl import NoFit, Unfitted, Usl
from tests.unit.analysis.scaling.levels import closed, noisy, refusal, simulate

LOADS = (1, 2, 4, 8, 16, 32, 64, 128)
SATURATING = Usl(rate=1000.0, contention=0.05, coherence=0.0002)
RETROGRADE = Usl(rate=1000.0, contention=0.02, coherence=0.0008)
LINEAR = Usl(rate=1000.0, contention=0.0, coherence=0.0)


def shape(
    rate: Callable[[float], float],
    *,
    noise: float = 0.02,
    trials: int = 3,
    loads: tuple[int, ...] = LOADS,
    seed: int = 1,
    **more: object,
) -> Shape:
    generator = np.random.default_rng(seed)
    levels = [closed(load, *noisy(rate(load), generator, noise, trials)) for load in loads]
    made = simulate(*levels, **more)  # type: ignore[arg-type]
    return shape_of(made.curve, made.samples)


def test_a_curve_that_falls_behind_its_peak() -> None:
    found = shape(RETROGRADE.at)
    assert found.saturated is True
    assert found.peak is not None
    assert found.peak.point.level == "qd32x1"
    assert not found.peak.last
    assert found.peak.interval is not None
    assert found.peak.interval[0] < RETROGRADE.at(32) < found.peak.interval[1]
    assert found.law_peak is not None
    assert found.law_peak.load == pytest.approx(35, rel=0.1)
    assert found.law_peak.iops == pytest.approx(RETROGRADE.at(35), rel=0.03)
    assert found.law_peak.range.interval[0] < 35 < found.law_peak.range.interval[1]
    assert not found.law_peak.range.beyond


def test_levels_that_no_verdict_sets_apart_from_the_top_are_reported() -> None:
    found = shape(lambda load: min(load * 100.0, 1600.0), noise=0.01, trials=6)
    assert found.peak is not None
    assert {*found.peak.ties, found.peak.point.level} == {
        "qd16x1", "qd32x1", "qd64x1", "qd128x1"
    }  # fmt: skip


def test_single_trials_have_no_interval_and_tie_widely() -> None:
    found = shape(RETROGRADE.at, trials=1)
    assert found.peak is not None
    assert found.peak.interval is None
    assert "qd16x1" in found.peak.ties
    assert found.knee(KneeMethod.GAIN).interval is None


def test_the_knee_of_a_limit_reached_at_once() -> None:
    """Proportional up to 16, flat behind it."""
    found = shape(lambda load: min(load, 16) * 100.0, noise=0.01)
    for method in (KneeMethod.GAIN, KneeMethod.CURVATURE):
        knee = found.knee(method)
        assert knee.level == "qd16x1"
        assert (knee.interval, knee.beyond) == ((16, 16), False)


def test_the_law_s_knee_is_where_a_doubling_brings_a_tenth() -> None:
    found = shape(SATURATING.at, noise=0.002)
    knee = found.knee(KneeMethod.LAW)
    assert knee.load is not None
    assert SATURATING.at(2 * knee.load) / SATURATING.at(knee.load) == pytest.approx(1.1, abs=0.005)
    assert knee.interval is not None
    assert knee.interval[0] <= knee.load <= knee.interval[1]


@pytest.mark.parametrize(
    ("contention", "coherence"), [(0.05, 0.0), (0.0, 1e-4), (0.3, 1e-3), (0.01, 1e-6)]
)
def test_the_law_s_knee_on_exact_curves(contention: float, coherence: float) -> None:
    curve = Usl(rate=10.0, contention=contention, coherence=coherence)
    found = shape(curve.at, noise=0.0, loads=(1, 4, 16, 64, 256, 1024))
    knee = found.knee(KneeMethod.LAW)
    assert knee.load is not None
    assert curve.at(2 * knee.load) / curve.at(knee.load) == pytest.approx(1.1, rel=1e-4)


def test_a_curve_that_still_grows_has_no_knee_in_range() -> None:
    found = shape(LINEAR.at)
    assert found.saturated is False
    assert found.peak is not None
    assert found.peak.last
    assert all(knee.load is None for knee in found.knees)
    assert found.knee(KneeMethod.GAIN).absence == NoKnee(
        reason=NoKneeReason.STILL_GROWS, loads=len(LOADS)
    )
    assert found.law_peak is not None
    assert found.law_peak.load is None
    assert found.law_peak.iops is None
    assert found.law_peak.range.beyond
    assert found.law_peak.range.interval[1] == 128


def test_what_the_trials_leave_open_is_left_open() -> None:
    """Growth of 10 % at the last doubling, and noise of 8 %: inconclusive."""
    rates = {1: 100.0, 2: 200.0, 4: 400.0, 8: 800.0, 16: 880.0}
    found = shape(lambda load: rates[int(load)], noise=0.08, loads=tuple(rates))
    assert found.saturated is None
    assert found.knee(KneeMethod.GAIN).absence == NoKnee(reason=NoKneeReason.INCONCLUSIVE, loads=5)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_levels(count: int) -> None:
    """A sweep with one level, or none that may be used, is answered with reasons."""
    levels = [closed(load, 100.0 * load) for load in (1, 2, 4)]
    keep = [f"qd{load}x1" for load in (1, 2, 4)][:count]
    dropped = [refusal(f"qd{load}x1") for load in (1, 2, 4) if f"qd{load}x1" not in keep]
    made = simulate(*levels, findings=dropped)
    found = shape_of(made.curve, made.samples)
    assert isinstance(found.law, Unfitted)
    assert len(found.left_out) == 3 - count
    assert (found.peak is None) == (count == 0)
    assert (found.saturated is None) == (count < 2)
    assert all(knee.load is None and knee.absence for knee in found.knees)


def test_of_several_levels_of_one_load_the_highest_counts() -> None:
    """32 in flight as one job of 32 and as four of 8, of which one does half."""
    levels = [closed(load, min(load, 16) * 100.0, min(load, 16) * 101.0) for load in LOADS]
    slow = closed(32, 800.0, 801.0, iodepth=8, numjobs=4)
    made = simulate(*levels, slow)
    found = shape_of(made.curve, made.samples)
    assert found.saturated is True
    assert found.knee(KneeMethod.GAIN).level == "qd16x1"
    assert found.law == Unfitted(reason=NoFit.HARD_LIMIT, levels=len(LOADS))
    assert found.limit is not None
    assert found.limit.iops == pytest.approx(1608, rel=0.001)


def test_refused_levels_are_left_out_and_listed() -> None:
    found = shape(RETROGRADE.at, findings=[refusal("qd32x1")])
    assert found.left_out == ("qd32x1",)
    assert found.peak is not None
    assert found.peak.point.level != "qd32x1"
    assert not isinstance(found.law, Unfitted)
    assert 32 not in found.law.loads


def test_a_refused_latency_leaves_the_throughput() -> None:
    found = shape(RETROGRADE.at, findings=[refusal("qd32x1", latency_only=True)])
    assert not found.left_out


@pytest.mark.thorough
def test_saturation_and_knee_are_right_as_often_as_they_say() -> None:
    """Sixty noisy sweeps of a limit at 16: the interval of the knee holds it."""
    held = saturated = 0
    rounds = 60
    for seed in range(rounds):
        found = shape(lambda load: min(load, 16) * 100.0, noise=0.03, seed=seed)
        saturated += found.saturated is True
        interval = found.knee(KneeMethod.GAIN).interval
        held += interval is not None and interval[0] <= 16 <= interval[1]
    assert saturated >= 0.9 * rounds
    assert held >= 0.9 * rounds
