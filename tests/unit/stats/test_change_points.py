"""Steps and drifts: found where they are, and seldom where there are none."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from leadline.stats.change_points import SHORTEST, Change, ChangePoints, find_changes, partition

Values = npt.NDArray[np.float64]
# From run to run, of log values.
SCATTER = 0.02


def unchanged(seed: int, runs: int) -> Values:
    return np.random.default_rng(seed).normal(0, SCATTER, runs)


def planted(seed: int) -> Values:
    """40 runs: -8 % from run 8 on, +20 % from run 18 on, then a drift of -16 % from run 24 on."""
    level = np.zeros(40)
    level[8:] += np.log(0.92)
    level[18:] += np.log(1.20)
    level[24:] += np.linspace(0, np.log(0.84), 17)[1:]
    return level + unchanged(seed, 40)


def steps(found: ChangePoints) -> list[int]:
    return [change.end for change in found.changes if not change.is_drift]


def drifts(found: ChangePoints) -> list[Change]:
    return [change for change in found.changes if change.is_drift]


def test_planted_changes_are_found_at_their_run() -> None:
    found = find_changes(planted(0))
    assert steps(found) == [8, 18]
    (drift,) = drifts(found)
    assert 20 <= drift.begin <= 28
    assert drift.end >= 36
    assert all(change.p <= 0.01 for change in found.changes)


def test_intervals_hold_the_sizes() -> None:
    """In about 93 % of series: the levels around a change are found with it."""
    held = {0.92: 0, 1.20: 0, 0.84: 0}
    for seed in range(60):
        changes = find_changes(planted(seed), 499).changes
        if len(changes) == 3:
            for size, change in zip(held, changes, strict=True):
                low, high = change.estimate.interval()
                held[size] += low < size < high
    assert min(held.values()) >= 50


def test_most_series_show_their_changes_and_no_other() -> None:
    """95 % of series with a step of four standard deviations, another and a drift."""
    right = 0
    for seed in range(60):
        found = find_changes(planted(seed), 499)
        at = steps(found)
        near = len(at) == 2 and abs(at[0] - 8) <= 1 and abs(at[1] - 18) <= 1
        right += near and len(drifts(found)) == 1
    assert right >= 54


def test_an_unchanged_series_has_less_than_one_change_in_a_hundred_runs() -> None:
    seeds, runs = 60, 200
    false = sum(len(find_changes(unchanged(seed, runs), 499).changes) for seed in range(seeds))
    assert false <= seeds * runs / 100 / 20


@pytest.mark.thorough
def test_rates_over_many_series() -> None:
    """The figures of docs/adr/0030-history.md."""
    false = sum(len(find_changes(unchanged(seed, 200)).changes) for seed in range(1000))
    assert false <= 200  # of 200,000 runs
    right = sum(steps(find_changes(planted(seed))) == [8, 18] for seed in range(400))
    assert right >= 360


def test_a_change_that_recovers_is_two_steps() -> None:
    values = unchanged(3, 50)
    values[20:30] -= 0.1
    assert steps(find_changes(values)) == [20, 30]


@pytest.mark.parametrize("after", [2, 3])
def test_a_large_step_is_found_two_runs_after_it(after: int) -> None:
    values = unchanged(4, 30 + after)
    values[30:] -= 0.2
    assert steps(find_changes(values)) == [30]


def test_one_outlier_is_no_change() -> None:
    values = unchanged(5, 40)
    values[20] -= 0.5
    assert find_changes(values).changes == ()


def test_a_drift_is_not_a_staircase() -> None:
    found = find_changes(unchanged(2, 40) + np.linspace(0, -0.2, 40))
    assert steps(found) == []
    assert len(found.changes) == 1


def test_the_place_of_a_small_step_is_a_range_that_holds_it() -> None:
    inside = 0
    for seed in range(40):
        values = unchanged(seed, 40)
        values[20:] -= 0.05
        for change in find_changes(values, 499).changes:
            inside += not change.is_drift and change.earliest <= 20 <= change.latest
    assert inside >= 30


@pytest.mark.parametrize("runs", range(5))
def test_too_few_runs_have_no_change(runs: int) -> None:
    values = np.linspace(0, 1, runs) if runs else np.array([0.0])
    found = find_changes(values)
    assert found.changes == ()
    assert len(found.fitted) == len(values)


def test_equal_values_have_no_change() -> None:
    assert find_changes(np.zeros(30)).changes == ()


def test_the_answer_is_the_same_each_time() -> None:
    assert find_changes(planted(2)) == find_changes(planted(2))


@pytest.mark.parametrize("seed", range(30))
def test_the_partition_is_the_best_of_all(seed: int) -> None:
    """Against every partition of a short series."""
    random = np.random.default_rng(seed)
    values = random.normal(0, 1, 11) + np.repeat(random.normal(0, 2, 3), (4, 4, 3))

    def cost(edges: tuple[int, ...]) -> float:
        parts = pairwise(edges)
        return sum(float(((values[a:b] - values[a:b].mean()) ** 2).sum()) + 3.0 for a, b in parts)

    def partitions(begin: int) -> list[tuple[int, ...]]:
        if begin == len(values):
            return [(begin,)]
        ends = range(begin + SHORTEST, len(values) + 1)
        return [(begin, *rest) for end in ends for rest in partitions(end)]

    best = min(partitions(0), key=cost)
    assert cost(tuple(partition(values, 3.0))) == pytest.approx(cost(best))
