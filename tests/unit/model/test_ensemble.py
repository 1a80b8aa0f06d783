"""Ensembles of networks: they contain the system that made the rates."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.model.ensemble import DRAWS, Noise, explain
from leadline.model.networks import Network, Values, throughput

LOADS = (1, 2, 4, 8, 16, 32, 64)


def system(generator: np.random.Generator) -> Network:
    """A system that the grid does not contain."""
    return Network(
        delay_s=generator.uniform(0, 3, 1),
        capacity=generator.uniform(0.5, 2, 1),
        servers=generator.uniform(1, 20, 1),
        shared=generator.uniform(size=1) < 0.5,
        exponent=generator.choice([0.0, 0.0, 0.18, -0.15], 1),
        onset=np.array([20.0]),
        until=np.array([np.inf]),
    )


def noise(loads: int, variance: float) -> list[Noise]:
    return [Noise(variances=np.full(loads, variance), another=variance)]


def rates_of(network: Network, loads: tuple[int, ...]) -> Values:
    return np.array([throughput(network, load)[0] for load in loads])


@pytest.mark.parametrize("deviation", [0.02, 0.05])
def test_nine_of_ten_rates_are_within_the_interval(deviation: float) -> None:
    """Levels left out of drawn systems: between the measured loads, and the double of the highest.
    The intervals are made for curves that no network explains, so they cover more of these."""
    generator = np.random.default_rng(7)
    inside, errors, count = 0, 0.0, 0
    for _ in range(40):
        drawn = system(generator)
        logs = np.log(rates_of(drawn, LOADS)) + deviation * generator.normal(size=len(LOADS))
        for out in (2, 4, 6):
            known = [index for index in range(len(LOADS)) if index != out]
            loads = np.array([float(LOADS[index]) for index in known])
            guesses = noise(len(known), deviation**2)
            found = explain(loads, logs[known], guesses, freedom=2.0).rates(LOADS[out])
            low, middle, high = np.log(np.quantile(found, [0.05, 0.5, 0.95]))
            inside += low <= logs[out] <= high
            errors += abs(middle - logs[out])
            count += 1
    assert inside / count >= 0.85
    assert errors / count < 2 * deviation + 0.02


def test_intervals_grow_with_the_distance_from_what_was_measured() -> None:
    loads = np.array([1.0, 4.0, 16.0])
    found = explain(loads, np.log([100.0, 350.0, 900.0]), noise(3, 4e-4), freedom=2.0)

    def width(load: int) -> float:
        low, high = np.quantile(found.rates(load), [0.05, 0.95])
        return float(np.log(high / low))

    assert width(4) < width(8) < width(32) < width(64)


def test_a_rough_curve_has_wide_intervals() -> None:
    """What no network explains widens the intervals of the whole curve."""
    loads = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])

    def width(rates: list[float]) -> float:
        drawn = explain(loads, np.log(rates), noise(6, 1e-3), freedom=2.0).rates(6)
        low, high = np.quantile(drawn, [0.05, 0.95])
        return float(np.log(high / low))

    assert width([100, 60, 300, 90, 800, 200]) > 3 * width([100, 190, 340, 560, 740, 800])


def test_the_scatter_is_guessed_by_the_curve() -> None:
    """With two guesses a smooth curve has the narrow intervals of the small one, a rough one the
    wide ones of the large one."""
    loads = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    smooth = np.log([100.0, 190.0, 340.0, 560.0, 740.0, 800.0])
    guesses = [*noise(6, 0.01**2), *noise(6, 0.2**2)]
    rough = smooth + 0.2 * np.array([1, -1, 1, -1, 1, -1])
    shares = [
        float((explain(loads, logs, guesses, freedom=3.0).guess == 1).mean())
        for logs in (smooth, rough)
    ]
    assert shares[0] < 0.2
    assert shares[1] > 0.8


def test_a_delay_that_is_known_is_in_no_queue() -> None:
    """Three levels do not separate a delay from servers; a measured delay does."""
    drawn = Network(
        delay_s=np.array([2.0]),
        capacity=np.array([1.0]),
        servers=np.array([1.5]),
        shared=np.array([False]),
        exponent=np.array([0.0]),
        onset=np.array([20.0]),
        until=np.array([np.inf]),
    )
    loads = (1, 4, 16)
    logs = np.log(rates_of(drawn, loads))
    share = {}
    for least_s in (0.0, 1.0, 2.0):
        found = explain(
            np.array(loads, dtype=float), logs, noise(3, 1e-2), freedom=2.0, least_delay_s=least_s
        ).network
        alone_s = found.delay_s + found.servers / found.capacity
        share[least_s] = found.delay_s / alone_s
        assert np.quantile(found.delay_s / (least_s or 1), 0.1) >= (0.75 if least_s else 0.0)
    # A delay much shorter than the latency excludes little.
    assert share[0.0].mean() < share[1.0].mean() < share[2.0].mean()
    with_little = explain(
        np.array(loads, dtype=float), logs, noise(3, 1e-2), freedom=2.0, least_delay_s=0.05
    )
    assert (with_little.network.delay_s == 0).mean() == pytest.approx(
        (share[0.0] == 0).mean(), abs=0.1
    )


def test_the_unit_of_the_rate_does_not_matter() -> None:
    loads, logs = np.array([1.0, 8.0, 64.0]), np.log([10.0, 60.0, 110.0])
    once = explain(loads, logs, noise(3, 1e-3), freedom=2.0).rates(20)
    again = explain(loads, logs + np.log(1000.0), noise(3, 1e-3), freedom=2.0).rates(20)
    assert len(once) == DRAWS
    assert again == pytest.approx(1000 * once)


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="no measured load"):
        explain(np.array([]), np.array([]), noise(0, 1e-3), freedom=2.0)
