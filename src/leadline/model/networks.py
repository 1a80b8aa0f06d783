"""Closed networks of one delay and one station whose rate depends on the I/Os that are there.

N I/Os are always in flight. Each waits for `delay_s`, in no queue, then at the station, again and
again. The station stands for all of a subsystem that is not delay (a flow-equivalent server:
Chandy, Herzog and Woo 1975), so it covers what storage does:

    spread servers     I/Os go to one of m servers at random, each with a queue of its own:
                       rate(n) = C n / (n + m - 1). Exact for m equal single servers, and the same
                       as a group commit that takes F + n s for n I/Os, with m - 1 = F / s
    shared servers     c servers with one queue (M/M/c): rate(n) = C min(n, c) / c
    efficiency         both times ((n + onset) / (1 + onset)) ^ exponent, n at most `until`: work
                       per I/O that falls (batches, sorted seeks) or rises (contention) with the
                       number of I/Os

The network has a product form, so the number of I/Os at the station has the distribution
p(j) ~ delay^(N-j) / (N-j)! / (rate(1) ... rate(j)), and the throughput is the mean of rate(j).
The products are quotients of gamma functions, so `servers` may be any real number from 1 on.

Sources: Lazowska et al., Quantitative System Performance (1984), chapters 6, 8 and 20; Reiser and
Lavenberg 1980 for the recursion that the tests repeat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

Values = npt.NDArray[np.float64]

# Up to this number of I/Os in flight all terms are summed; of more, as many of the likely ones.
_TERMS = 256
# Terms that are smaller than the largest by this factor (natural logarithm) are left out of many.
_UNLIKELY = 30.0
# A delay of nothing would have no logarithm; this share of the service time changes no digit shown.
_LEAST_DELAY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Systems, one per element of the arrays, which have one shape (systems,).

    `capacity` is C in I/Os per second, `servers` m or c, `shared` whether the servers have one
    queue. `exponent` 0: the efficiency is always 1. `until` may be infinite.
    """

    delay_s: Values
    capacity: Values
    servers: Values
    shared: npt.NDArray[np.bool_]
    exponent: Values
    onset: Values
    until: Values

    @property
    def service_s(self) -> Values:
        """Time at the station of an I/O that is alone there."""
        return self.servers / self.capacity

    def rates(self, at_station: Values) -> Values:
        """Return the station's rate for numbers of I/Os there, shape (systems, numbers)."""
        servers = self.servers[:, None]
        busy = np.where(
            self.shared[:, None],
            np.minimum(at_station, servers) / servers,
            np.maximum(at_station, 0.0) / np.maximum(at_station + servers - 1.0, _LEAST_DELAY),
        )
        onset = self.onset[:, None]
        beyond = np.clip(at_station, 1.0, self.until[:, None]) + onset
        efficiency = (beyond / (1.0 + onset)) ** self.exponent[:, None]
        rates: Values = self.capacity[:, None] * busy * np.where(at_station > 0, efficiency, 0.0)
        return rates

    def log_products(self, numbers: Values) -> Values:
        """Return log(rate(1) ... rate(n)), shape (systems, numbers)."""
        servers, onset = self.servers[:, None], self.onset[:, None]
        few = np.minimum(numbers, np.floor(servers))
        busy = np.where(
            self.shared[:, None],
            gammaln(few + 1.0) - few * np.log(servers),
            gammaln(numbers + 1.0) + gammaln(servers) - gammaln(numbers + servers),
        )
        efficiency = 0.0
        if np.any(self.exponent):
            until = self.until[:, None]
            rising = np.minimum(numbers, until)
            grown = gammaln(rising + onset + 1.0) - gammaln(onset + 1.0)
            grown = grown + (numbers - rising) * np.log(np.minimum(until, numbers + 1.0) + onset)
            efficiency = self.exponent[:, None] * (grown - numbers * np.log1p(onset))
        products: Values = numbers * np.log(self.capacity)[:, None] + busy + efficiency
        return products


def throughput(network: Network, in_flight: int) -> Values:
    """Return the I/Os per second with `in_flight` I/Os, shape (systems,).

    Exact up to 256 in flight. Of more, as many terms are taken at equal distances; what is lost is
    below 0.1 % (tests/unit/model/test_networks.py).

    Raises ValueError for less than one I/O.
    """
    if in_flight < 1:
        raise ValueError(f"{in_flight} I/Os in flight")
    numbers = np.arange(min(in_flight, _TERMS) + 1, dtype=np.float64)[None, :]
    if in_flight > _TERMS:
        numbers = _likely_numbers(network, in_flight, numbers * (in_flight / _TERMS))
    logs = _log_weights(network, in_flight, numbers)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    mean: Values = (weights * network.rates(numbers)).sum(axis=1) / weights.sum(axis=1)
    return mean


def _log_weights(network: Network, in_flight: int, numbers: Values) -> Values:
    """log p(j) and a constant, shape (systems, numbers); -inf for numbers below none."""
    delay_s = np.maximum(network.delay_s, _LEAST_DELAY * network.service_s)[:, None]
    away = in_flight - numbers
    possible = np.maximum(numbers, 0.0)
    logs = away * np.log(delay_s) - gammaln(away + 1.0) - network.log_products(possible)
    weights: Values = np.where(numbers < 0, -np.inf, logs)
    return weights


def _likely_numbers(network: Network, in_flight: int, coarse: Values) -> Values:
    """Numbers of I/Os at the station of each system, without the unlikely ones at both ends."""
    logs = _log_weights(network, in_flight, coarse)
    likely = logs > logs.max(axis=1, keepdims=True) - _UNLIKELY
    last = coarse.shape[1] - 1
    low = coarse[0, np.maximum(np.argmax(likely, axis=1) - 1, 0)][:, None]
    high = coarse[0, np.minimum(last - np.argmax(likely[:, ::-1], axis=1) + 1, last)][:, None]
    step = np.ceil((high - low) / _TERMS)
    # Counted from the upper end: with a short delay almost all I/Os are at the station.
    numbers: Values = np.ceil(high) - np.arange(_TERMS + 1) * step
    return numbers
