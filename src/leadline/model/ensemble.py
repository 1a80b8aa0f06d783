"""Rates measured at several loads, explained by many closed networks at once.

One network with three free numbers fits most load curves about as well as several others, which
disagree beyond the data. So every network of a grid is kept, weighted by how well it explains the
rates, and what none of them explains is a smooth function of the load (a Gaussian process over
log2 N), as Kennedy and O'Hagan 2001 calibrate computer models. An interval then contains what is
not known of the system: it is narrow between measured loads, and wide beyond them.

    log X(N) = log C + log f(N; network) + d(N) + noise

log C has a flat prior and is integrated out, and so is the common scale of d and noise (inverse
chi-squared prior): a curve that no network explains widens its own intervals. All of it is linear
algebra of the size of the number of loads; f is computed once per load for all curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri, ndtri

from leadline.model.networks import Network, Values, throughput
from leadline.model.smooth import alike

DRAWS = 400
_SEED = 20_261_126
# --- the grid -------------------------------------------------------------------------------------
# I/Os in flight at which the asymptotes cross, and the share of the delay in an I/O alone.
_KNEES = 2.0 ** np.arange(0.0, 15.01, 0.5)
_DELAY_SHARES = (0.0, 0.4, 0.75, 0.95)
# Prior weight of servers with one queue: their knee is sharp.
_SHARED = 0.3
# A rate that grows in proportion to the last measured load will stop to: for each octave beyond it,
# half as likely as in the octave before. With equal weights the highest levels of curves that were
# cut short were a third too high (docs/adr/0032-forecasts.md).
_OCTAVE_BEYOND = 0.5
# Exponent, onset and end of the efficiency, with the prior weight. A disk sorts 32 requests (NCQ).
_EFFICIENCIES = (
    (0.0, 0.0, np.inf, 0.4),
    *((gain, 0.0, until, 0.4 / 6) for gain in (0.12, 0.25, 0.45) for until in (32.0, np.inf)),
    *((-loss, onset, np.inf, 0.2 / 9) for loss in (0.1, 0.25, 0.5) for onset in (8.0, 64.0, 512.0)),
)
# Deviation of a known delay, as a share of the latency of an I/O alone.
_DELAY_KNOWN = 0.1
# --- what the networks do not explain ------------------------------------------------------------
# Deviation in natural logarithms, and the distance in octaves of load over which it changes.
DISCREPANCY = 0.06
OCTAVES = 2.5


@lru_cache(maxsize=1)
def _grid() -> tuple[Network, Values]:
    """Networks with capacity 1, and the logarithms of their prior weights."""
    rows = []
    for knee in _KNEES:
        for share in _DELAY_SHARES:
            servers = max(1.0, knee * (1 - share))
            for shared in (False, True):
                queues = _SHARED if shared else 1 - _SHARED
                for exponent, onset, until, weight in _EFFICIENCIES:
                    rows.append(
                        (
                            knee - servers,
                            servers,
                            shared,
                            exponent,
                            onset,
                            until,
                            np.log(weight * queues),
                        )
                    )
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    network = Network(
        delay_s=columns[0],
        capacity=np.ones(len(rows)),
        servers=columns[1],
        shared=columns[2].astype(bool),
        exponent=columns[3],
        onset=columns[4],
        until=columns[5],
    )
    return network, columns[6]


@lru_cache(maxsize=512)
def _log_shape(in_flight: int) -> Values:
    """log f for every network of the grid."""
    return np.log(throughput(_grid()[0], in_flight))


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """One guess of the scatter: variances of the logarithms of the measured rates, and of one
    measurement more, with the weight of the guess."""

    variances: Values
    another: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """Draws of systems that explain the measured rates, equally probable.

    `network` has DRAWS elements; each is the element of the grid in `picked` with a capacity.
    `known` are the measured loads; `pull` (draws, loads) and `precision` (guesses, loads, loads)
    continue the discrepancy to other loads, `scale` (draws) is its deviation relative to the
    prior's. `guess` (draws) is the guess of the scatter, `another` (guesses) the variance of one
    more measurement.
    """

    network: Network
    picked: npt.NDArray[np.intp]
    known: Values
    pull: Values
    precision: Values
    guess: npt.NDArray[np.intp]
    scale: Values
    another: Values

    def log_off(self, in_flight: float) -> Values:
        """Draw the discrepancy and the noise of a measurement at a load."""
        near = DISCREPANCY**2 * alike(np.array([in_flight]), self.known, OCTAVES)[0]
        explained = np.einsum("i,kij,j->k", near, self.precision, near)
        variance = np.maximum(DISCREPANCY**2 - explained, 0.0) + self.another
        deviation = np.sqrt(variance)[self.guess]
        off: Values = self.pull @ near + deviation * self.scale * normal_draws(1)
        return off

    def rates(self, in_flight: int) -> Values:
        """Draw the rate that a measurement at a load would give."""
        shape = _log_shape(in_flight)[self.picked]
        drawn: Values = self.network.capacity * np.exp(shape + self.log_off(in_flight))
        return drawn


def explain(
    in_flight: Values,
    log_rates: Values,
    noises: Sequence[Noise],
    *,
    freedom: float,
    least_delay_s: float = 0.0,
) -> Ensemble:
    """Weight the networks, and the guesses of the scatter, by the rates measured at the loads.

    The common scale of scatter and discrepancy is known as well as from `freedom` degrees of
    freedom. `least_delay_s` is known to be delay; networks with less count less, the farther they
    are. Raises ValueError with less than one load.
    """
    if not len(in_flight):
        raise ValueError("no measured load")
    grid, log_prior = _grid()
    octaves = np.maximum(np.log2((grid.delay_s + grid.servers) / in_flight.max()), 0.0)
    log_prior = log_prior + octaves * np.log(_OCTAVE_BEYOND)
    shapes = np.stack([_log_shape(round(float(load))) for load in in_flight], axis=1)
    known = freedom + len(in_flight) - 1
    smooth = DISCREPANCY**2 * alike(in_flight, in_flight, OCTAVES)
    precision = np.stack([np.linalg.inv(smooth + np.diag(noise.variances)) for noise in noises])
    whole = precision.sum(axis=(1, 2))
    left = log_rates - shapes
    level = left @ precision.sum(axis=2).T / whole
    left = left[:, None, :] - level[:, :, None]
    misfit = np.einsum("gki,kij,gkj->gk", left, precision, left)
    sizes = 0.5 * (np.linalg.slogdet(precision)[1] - np.log(whole))
    sizes += np.log([noise.weight for noise in noises])
    if least_delay_s:
        # Times of the grid are in units of 1 / capacity.
        lacks = least_delay_s * np.exp(level) - grid.delay_s[:, None]
        alone = (grid.delay_s + grid.servers)[:, None]
        sizes = sizes - 0.5 * (np.maximum(lacks, 0.0) / alone / _DELAY_KNOWN) ** 2
    logs = log_prior[:, None] + sizes - known / 2 * np.log(freedom + misfit)
    weights = np.exp(logs - logs.max()).ravel()
    places = (np.arange(DRAWS) + 0.5) / DRAWS
    found = np.searchsorted(np.cumsum(weights) / weights.sum(), places)
    picked, guess = np.divmod(np.minimum(found, len(weights) - 1), len(noises))
    scale = np.sqrt((freedom + misfit[picked, guess]) / chdtri(known, 1.0 - _shuffled(2)))
    moved = scale * normal_draws(3) / np.sqrt(whole[guess])
    capacity = np.exp(level[picked, guess] + moved)
    # The discrepancy follows the level that was drawn.
    pull = np.einsum("di,dij->dj", left[picked, guess] - moved[:, None], precision[guess])
    chosen = replace(
        grid,
        delay_s=grid.delay_s[picked] / capacity,
        capacity=capacity,
        servers=grid.servers[picked],
        shared=grid.shared[picked],
        exponent=grid.exponent[picked],
        onset=grid.onset[picked],
        until=grid.until[picked],
    )
    return Ensemble(
        network=chosen,
        picked=picked,
        known=in_flight,
        pull=pull,
        precision=precision,
        guess=guess,
        scale=scale,
        another=np.array([noise.another for noise in noises]),
    )


@lru_cache(maxsize=8)
def _shuffled(number: int) -> Values:
    """The middles of DRAWS equal shares in an order of their own."""
    return np.random.default_rng(_SEED + number).permutation((np.arange(DRAWS) + 0.5) / DRAWS)


@lru_cache(maxsize=8)
def normal_draws(number: int) -> Values:
    """Return DRAWS deviates of the normal distribution, as even as a sample can be; each number has
    an order of its own."""
    drawn: Values = ndtri(_shuffled(number))
    return drawn
