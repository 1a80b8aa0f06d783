"""The Universal Scalability Law fitted to curves whose truth is known."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.optimize import least_squares

from leadline.stats import usl
from leadline.stats.usl import (
    MISFIT_P,
    NoFit,
    Resampling,
    Unfitted,
    Usl,
    UslFit,
    first_without_growth,
    fit_usl,
    furthest_above_chord,
    growth_per_doubling,
    usl_doubling_loads,
)

SEED = 20261121
LOADS = (1, 2, 4, 8, 16, 32, 64, 128)
PEAKED = Usl(rate=1000.0, contention=0.02, coherence=0.0008)
FLAT = Usl(rate=1000.0, contention=0.05, coherence=0.0)

Levels = list[tuple[float, list[float]]]


def levels(
    curve: Usl,
    *,
    noise: float,
    trials: int = 3,
    seed: int = SEED,
    loads: tuple[int, ...] = LOADS,
) -> Levels:
    generator = np.random.default_rng(seed)
    return [
        (float(load), (curve.at(load) * np.exp(noise * generator.normal(size=trials))).tolist())
        for load in loads
    ]


def fitted(given: Levels) -> UslFit:
    found = fit_usl(given)
    assert isinstance(found, UslFit)
    return found


@pytest.mark.parametrize("curve", [PEAKED, FLAT, Usl(rate=3.5, contention=0.0, coherence=1e-5)])
def test_without_noise_the_parameters_come_back(curve: Usl) -> None:
    found = fitted(levels(curve, noise=0.0))
    assert found.curve.rate == pytest.approx(curve.rate, rel=1e-6)
    assert found.curve.contention == pytest.approx(curve.contention, abs=1e-6)
    assert found.curve.coherence == pytest.approx(curve.coherence, abs=1e-8)
    assert found.r_squared == pytest.approx(1)
    assert found.worst_residual < 1e-6


def test_the_peak_is_where_the_curve_is_highest() -> None:
    assert PEAKED.peak_load == pytest.approx(35)
    assert PEAKED.at(35) > max(PEAKED.at(34), PEAKED.at(36))
    assert FLAT.peak_load == float("inf")
    assert Usl(rate=1.0, contention=1.0, coherence=0.0).peak_load == 0


@pytest.mark.parametrize("seed", range(12))
def test_no_other_way_finds_less_squares(seed: int) -> None:
    """scipy's bounded least squares, from several starts."""
    generator = np.random.default_rng(seed)
    curve = Usl(
        rate=float(10 ** generator.uniform(0, 5)),
        contention=float(generator.choice([0, 10 ** generator.uniform(-4, -0.3)])),
        coherence=float(generator.choice([0, 10 ** generator.uniform(-7, -2)])),
    )
    given = levels(curve, noise=0.05, seed=seed, loads=LOADS[seed % 3 :])
    found = fitted(given)
    loads = np.array([load for load, _ in given])
    measured = np.array([np.log(rates).mean() for _, rates in given])

    def off(at: list[float]) -> object:
        below = 1 + at[1] * (loads - 1) + at[2] * loads * (loads - 1)
        return measured - at[0] - np.log(loads / below)

    best = min(
        least_squares(
            off,
            [np.log(found.curve.rate), contention, coherence],
            bounds=([-np.inf, 0, 0], np.inf),
            x_scale=[1, 1e-2, 1e-4],
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
        ).cost
        for contention in (1e-3, 1e-1)
        for coherence in (1e-6, 1e-3)
    )
    assert sum(one**2 for one in found.residuals) / 2 <= best * (1 + 1e-6)


@pytest.mark.parametrize(
    ("trials", "resampling"),
    [
        pytest.param(1, Resampling.SCATTER, marks=pytest.mark.thorough),
        (3, Resampling.SCATTER),
        (6, Resampling.TRIALS),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    trials: int, resampling: Resampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """95 % of 120 curves, give or take three standard deviations of that: 6 %. Fewer resamples
    than usual, which costs the intervals little and the test much less time."""
    monkeypatch.setattr("leadline.stats.usl.RESAMPLES", 300)
    rounds = 120
    held = {"contention": 0, "coherence": 0, "peak": 0}
    drawn = 0
    for seed in range(rounds):
        found = fitted(levels(PEAKED, noise=0.03, trials=trials, seed=seed))
        drawn += found.resampling is resampling
        for name, interval, truth in (
            ("contention", found.contention_interval, PEAKED.contention),
            ("coherence", found.coherence_interval, PEAKED.coherence),
            ("peak", found.peak_load_interval, PEAKED.peak_load),
        ):
            held[name] += interval.low <= truth <= interval.high
    assert drawn >= 0.85 * rounds
    assert all(count >= 0.89 * rounds for count in held.values()), held


def test_a_flat_curve_has_no_peak_within_the_levels() -> None:
    beyond = 0
    for seed in range(20):
        found = fitted(levels(FLAT, noise=0.02, seed=seed))
        beyond += not found.peak_measured
        if found.coherence_interval.low == 0:
            assert found.peak_load_interval.high == float("inf")
    assert beyond >= 18


def test_order_does_not_matter() -> None:
    given = levels(PEAKED, noise=0.05)
    shuffled = [(load, rates[::-1]) for load, rates in given]
    random.Random(SEED).shuffle(shuffled)
    assert fitted(given).peak_load_interval == fitted(shuffled).peak_load_interval


def test_levels_of_one_load_count_as_one() -> None:
    given = levels(PEAKED, noise=0.05, loads=LOADS[:3])
    assert isinstance(fit_usl([*given, (4.0, [3000.0])]), Unfitted)
    assert fitted([*given, (8.0, [5000.0]), (8.0, [5100.0])]).loads == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("given", "reason", "count"),
    [
        ([], NoFit.TOO_FEW_LEVELS, 0),
        ([(1.0, [5.0])], NoFit.TOO_FEW_LEVELS, 1),
        ([(float(load), [5.0]) for load in (1, 2, 4)], NoFit.TOO_FEW_LEVELS, 3),
        ([(1.0, [5.0]), (2.0, [5.0]), (4.0, []), (8.0, [5.0])], NoFit.TOO_FEW_LEVELS, 3),
        ([(1.0, [5.0]), (2.0, [5.0]), (4.0, [0.0]), (8.0, [5.0])], NoFit.UNUSABLE_VALUES, 4),
        ([(float(load), [5.0]) for load in (0.5, 1, 2, 4)], NoFit.UNUSABLE_VALUES, 4),
    ],
)
def test_no_fit_has_a_reason(given: Levels, reason: NoFit, count: int) -> None:
    assert fit_usl(given) == Unfitted(reason=reason, levels=count)


def test_a_curve_that_the_law_does_not_describe_is_reported() -> None:
    """A limit reached at once: rising in proportion, then flat from one level to the next."""
    generator = np.random.default_rng(SEED)
    given = [
        (float(load), (min(load, 16) * 100 * np.exp(0.01 * generator.normal(size=4))).tolist())
        for load in LOADS
    ]
    found = fitted(given)
    assert found.misfit_p is not None
    assert found.misfit_p < MISFIT_P
    assert found.resampling is Resampling.SCATTER
    assert found.worst_residual > 0.05
    assert fitted(levels(PEAKED, noise=0.01)).misfit_p != found.misfit_p


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e9])
def test_the_unit_of_the_rate_does_not_matter(scale: float) -> None:
    given = levels(PEAKED, noise=0.05)
    found = fitted([(load, [scale * one for one in rates]) for load, rates in given])
    assert found.peak_load == pytest.approx(fitted(given).peak_load, rel=1e-6)


def test_wild_rates_are_fitted_all_the_same() -> None:
    generator = np.random.default_rng(SEED)
    for _ in range(20):
        rates = 10 ** generator.uniform(-3, 9, size=(5, 2))
        found = fitted([(float(4**k), rates[k].tolist()) for k in range(5)])
        assert np.isfinite([found.curve.rate, found.curve.contention, found.curve.coherence]).all()
        assert np.isfinite(found.residuals).all()


def test_four_levels_with_one_trial_each_leave_one_degree_of_freedom() -> None:
    found = fitted(levels(PEAKED, noise=0.02, trials=1, loads=(1, 8, 32, 128)))
    assert found.misfit_p is None
    wide = found.peak_load_interval
    narrow = fitted(levels(PEAKED, noise=0.02, trials=4, loads=(1, 8, 32, 128))).peak_load_interval
    assert wide.low <= narrow.low
    assert wide.high >= narrow.high
    assert usl.LEAST_LEVELS == 4


# --- knees ----------------------------------------------------------------------------------------


KNEE_LOADS = np.array([1.0, 2, 4, 8, 16, 32, 64, 128])


def logs(*rates: float) -> np.ndarray:
    return np.log(np.array(rates))


def test_growth_is_for_each_doubling() -> None:
    growth = growth_per_doubling(np.array([1.0, 4, 8]), logs(1, 4, 6))
    assert growth == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize("bend", [2, 8, 64])
def test_a_limit_reached_at_once(bend: int) -> None:
    rates = np.log(np.minimum(KNEE_LOADS, bend))
    place = int(np.log2(bend))
    assert first_without_growth(KNEE_LOADS, rates, 0.1) == place
    assert furthest_above_chord(KNEE_LOADS, rates) == place


def test_rows_are_taken_one_by_one() -> None:
    rows = np.log(np.array([np.minimum(KNEE_LOADS, 4), np.minimum(KNEE_LOADS, 32)]))
    assert first_without_growth(KNEE_LOADS, rows, 0.1).tolist() == [2, 5]
    assert furthest_above_chord(KNEE_LOADS, rows).tolist() == [2, 5]


def test_growth_to_the_end_and_none_at_all() -> None:
    assert first_without_growth(KNEE_LOADS, np.log(KNEE_LOADS), 0.1) == len(KNEE_LOADS) - 1
    assert first_without_growth(KNEE_LOADS, np.zeros(8), 0.1) == 0
    assert first_without_growth(KNEE_LOADS, -np.log(KNEE_LOADS), 0.1) == 0
    assert furthest_above_chord(KNEE_LOADS, -np.log(KNEE_LOADS)) == 0


def test_one_low_level_does_not_move_the_bend() -> None:
    rates = logs(1, 2, 4, 8, 8, 7, 8, 8)
    assert first_without_growth(KNEE_LOADS, rates, 0.1) == 3


@pytest.mark.parametrize(
    ("contention", "coherence"), [(0.05, 0.0), (0.0, 1e-4), (0.3, 1e-3), (1e-6, 1e-9), (0.9, 0.5)]
)
def test_the_law_s_root_is_one(contention: float, coherence: float) -> None:
    law = Usl(rate=1.0, contention=contention, coherence=coherence)
    load = float(usl_doubling_loads(np.array([contention]), np.array([coherence]), 0.1)[0])
    assert law.at(2 * load) / law.at(load) == pytest.approx(1.1, rel=1e-9)


def test_a_law_without_a_bend_and_one_that_never_grows() -> None:
    ends = usl_doubling_loads(np.array([0.0, 1.0, 1.5]), np.array([0.0, 0.1, 0.0]), 0.1)
    assert ends.tolist() == [np.inf, 0, 0]
