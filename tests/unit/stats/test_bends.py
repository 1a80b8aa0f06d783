"""Bends of curves of which it is known where they bend."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.stats.usl import (
    Usl,
    first_without_growth,
    furthest_above_chord,
    growth_per_doubling,
    usl_doubling_loads,
)

LOADS = np.array([1.0, 2, 4, 8, 16, 32, 64, 128])


def logs(*rates: float) -> np.ndarray:
    return np.log(np.array(rates))


def test_growth_is_for_each_doubling() -> None:
    growth = growth_per_doubling(np.array([1.0, 4, 8]), logs(1, 4, 6))
    assert growth == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize("bend", [2, 8, 64])
def test_a_limit_reached_at_once(bend: int) -> None:
    rates = np.log(np.minimum(LOADS, bend))
    place = int(np.log2(bend))
    assert first_without_growth(LOADS, rates, 0.1) == place
    assert furthest_above_chord(LOADS, rates) == place


def test_rows_are_taken_one_by_one() -> None:
    rows = np.log(np.array([np.minimum(LOADS, 4), np.minimum(LOADS, 32)]))
    assert first_without_growth(LOADS, rows, 0.1).tolist() == [2, 5]
    assert furthest_above_chord(LOADS, rows).tolist() == [2, 5]


def test_growth_to_the_end_and_none_at_all() -> None:
    assert first_without_growth(LOADS, np.log(LOADS), 0.1) == len(LOADS) - 1
    assert first_without_growth(LOADS, np.zeros(8), 0.1) == 0
    assert first_without_growth(LOADS, -np.log(LOADS), 0.1) == 0
    assert furthest_above_chord(LOADS, -np.log(LOADS)) == 0


def test_one_low_level_does_not_move_the_bend() -> None:
    rates = logs(1, 2, 4, 8, 8, 7, 8, 8)
    assert first_without_growth(LOADS, rates, 0.1) == 3


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
