"""The calibrated layer (L1): networks of queues that explain a load curve, and what they expect.

A curve calibrates by its trusted closed-loop levels. Rates come from an ensemble of closed
networks (model/ensemble.py); latency from the rate by Little's law, with the share of the requested
I/Os that was in flight; the 99th percentile from its ratio to the mean. A change of the system
moves the networks: a delay more, another capacity, more servers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.predict.facts import COVERAGE, Refusal, Sensitivity, Shift, Station
from leadline.analysis.predict.limits import limiting_station, most_iops_by_use
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.verdicts import BETWEEN_RUNS
from leadline.metrics import Metric
from leadline.model.ensemble import DRAWS, Ensemble, Noise, explain, normal_draws
from leadline.model.networks import Network, Values, throughput
from leadline.model.smooth import continue_to
from leadline.model.tails import with_branches

# Deviation of one rate from another of the same load, in natural logarithms: what is assumed before
# repeats are seen, with the weight of so many; and what repeats in a row do not show.
_NOISE, _NOISE_FREEDOM, _LEAST_NOISE = 0.035, 4.0, 0.02
# Guesses without repeats, with their weights. Published repeats scatter by 2 % in the median, a
# tenth of them by 16 % or more (analysis/power.py).
_GUESSES = {0.02: 0.5, 0.06: 0.3, 0.16: 0.2}
_LEAST_FREEDOM = 3
# Variance of the median of three normal values or more over that of their mean, about.
_OF_MEDIANS = 1.4
# Degrees of freedom of the scale of all deviations: of single trials, and what repeats add at most.
_FREEDOM, _MOST_FREEDOM = 3.0, 8.0
# Of the I/Os in flight over those requested, and of the 99th percentile over the mean: deviation
# over loads, deviation of one value, and octaves (model/smooth.py).
_FILLED = {"deviation": 0.10, "noise": 0.02, "octaves": 3.0}
_TAIL = {"deviation": 0.5, "noise": 0.20, "octaves": 3.0}
# Loads beyond the measured ones by this factor are refused.
REACH = 4.0
# An interval from one end to the other by more than this factor is no forecast.
WIDEST = 4.0
# From this share of the capacity on the storage limits the rate.
_SATURATED = 0.75
# A percentile of the 90 % interval as a multiple of the standard deviation.
_ENDS = 1.6449
_NO_SHIFT = Shift()


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What was measured with `in_flight` requested I/Os: medians, None where not usable."""

    in_flight: int
    iops: float
    latency_mean_s: float | None
    latency_p99_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A load curve explained. `share` is the operation's share of the I/Os in flight: 1 except in
    one direction of a mix, None where it is unknown. `limit` is the station that limits the rate of
    a saturated level; `most_iops` the rate at which the most used part of the storage would be
    used up, None where its use was not measured."""

    levels: tuple[Level, ...]
    ensemble: Ensemble
    share: float | None
    limit: Station
    most_iops: float | None

    @property
    def least(self) -> int:
        return self.levels[0].in_flight

    @property
    def most(self) -> int:
        return self.levels[-1].in_flight


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What a calibration says of one load: `modelled` of the system as it is, `expected` of the
    changed one. `expected` is empty where refused, `modelled` too where the load itself is beyond
    the model. A latency is missing where it is unknown."""

    modelled: Mapping[Metric, Estimate] = field(default_factory=dict)
    expected: Mapping[Metric, Estimate] = field(default_factory=dict)
    limit_before: Station | None = None
    limit_after: Station | None = None
    sensitivity: Sensitivity | None = None
    refusals: tuple[Refusal, ...] = ()


def calibrate(
    curve: LoadCurve,
    evidence: Mapping[str, LevelEvidence] | None = None,
    network_s: float = 0.0,
) -> Calibration | Refusal:
    """Explain a curve by its trusted closed-loop levels; `evidence` is by the levels' names.
    `network_s` is the part of an I/O's latency that is known to be messages'.

    Returns why not, where fewer than two loads are trusted or the load is an open loop.
    """
    points: dict[int, list[LoadPoint]] = {}
    for point in curve.closed:
        if (point.usable(Metric.IOPS) or 0.0) > 0.0:
            points.setdefault(point.load.in_flight, []).append(point)
    if not points and curve.offered:
        fell_behind = all(point.beyond_capacity for point in curve.offered)
        return Refusal.UNSTABLE if fell_behind else Refusal.OPEN_LOOP
    if len(points) < 2:
        return Refusal.ONE_LOAD_LEVEL if points else Refusal.NO_TRUSTED_CELL
    loads = sorted(points)
    levels = tuple(_level(load, points[load]) for load in loads)
    noises, freedom = _noises([points[load] for load in loads])
    ensemble = explain(
        np.array(loads, dtype=np.float64),
        np.array([_log_mean(points[load]) for load in loads]),
        noises,
        freedom=_FREEDOM + min(freedom / 1.5, _MOST_FREEDOM),
        least_delay_s=network_s,
    )
    last = (evidence or {}).get(points[loads[-1]][0].level, LevelEvidence())
    return Calibration(
        levels=levels,
        ensemble=ensemble,
        share=_share(curve, points[loads[0]][0], levels),
        limit=limiting_station(last),
        most_iops=most_iops_by_use(last, levels[-1].iops),
    )


def _level(load: int, points: list[LoadPoint]) -> Level:
    """Points of one load differ in how many jobs it is spread over."""

    def middle(metric: Metric) -> float | None:
        known = [value for point in points if (value := point.usable(metric))]
        return median(known) if known else None

    return Level(
        in_flight=load,
        iops=middle(Metric.IOPS) or 0.0,
        latency_mean_s=middle(Metric.LATENCY_MEAN),
        latency_p99_s=middle(Metric.LATENCY_P99),
    )


def _log_mean(points: list[LoadPoint]) -> float:
    rates = [rate for point in points for rate in point.trials(Metric.IOPS)]
    if not rates:
        rates = [rate for point in points if (rate := point.usable(Metric.IOPS))]
    return float(np.mean(np.log(rates)))


def _noises(points: list[list[LoadPoint]]) -> tuple[list[Noise], int]:
    """Return guesses of the scatter of log rates, and the degrees of freedom behind them: one guess
    from the repeats of all levels together, or several that repeats elsewhere suggest."""
    freedom, squares, counts = 0, 0.0, []
    for same in points:
        logs = np.log([value for point in same for value in point.trials(Metric.IOPS)])
        counts.append(max(1, len(logs)))
        for point in same:
            figure = point.throughput
            if figure.variation is not None and figure.repeats > 1:
                freedom += figure.repeats - 1
                squares += (figure.repeats - 1) * figure.variation**2
                counts[-1] = figure.repeats
        if len(logs) > 1:
            freedom += len(logs) - 1
            squares += float(((logs - logs.mean()) ** 2).sum())
    if freedom < _LEAST_FREEDOM:
        guesses = _GUESSES
    else:
        whole = _NOISE_FREEDOM + freedom
        guesses = {math.sqrt((squares + _NOISE_FREEDOM * _NOISE**2) / whole): 1.0}
    # A result is the median of its trials, which scatters more than their mean.
    usual = float(np.median(counts))
    more = _OF_MEDIANS if usual > 2 else 1.0
    least = _LEAST_NOISE**2 if usual > 1 else 0.0
    noises = [
        Noise(
            variances=deviation**2 / np.array(counts) + least,
            another=more * deviation**2 / usual + least,
            weight=weight,
        )
        for deviation, weight in guesses.items()
    ]
    return noises, freedom


def _share(curve: LoadCurve, point: LoadPoint, levels: tuple[Level, ...]) -> float | None:
    """The operation's share of the I/Os: of a mix that was imported, it is not known."""
    if not curve.part_of_mix:
        return 1.0
    return point.load.op_share if point.load.op_share < 1.0 else None


# --- what is expected ----------------------------------------------------------------------------


def forecast(calibration: Calibration, shift: Shift, in_flight: int) -> Projection:
    """Return what is expected with `in_flight` I/Os, as the system is and after a change.

    Of a mix the shift is that of an average I/O. Refused are loads far beyond the measured ones,
    changes that the shift itself refuses, and whatever has an interval too wide to be of use.
    """
    after_load = in_flight if shift.in_flight is None else shift.in_flight
    refusals = [*shift.refusals]
    lowest, highest = calibration.least / REACH, calibration.most * REACH
    if not all(lowest <= load <= highest for load in (in_flight, after_load)):
        refusals.append(Refusal.BEYOND_RANGE)
    changed = replace(shift, in_flight=None) != _NO_SHIFT
    outside = not calibration.least <= after_load <= calibration.most
    if len(calibration.levels) < 3 and (changed or outside):
        refusals.append(Refusal.TWO_LOAD_LEVELS)
    if changed and calibration.share is None:
        refusals.append(Refusal.LIMIT_UNKNOWN)
    if Refusal.BEYOND_RANGE in refusals:
        return Projection(refusals=tuple(dict.fromkeys(refusals)))
    rates = _capped(calibration, calibration.ensemble.rates(in_flight))
    modelled = _figures(calibration, _NO_SHIFT, in_flight, rates, float(in_flight))
    before = _limit(calibration, calibration.ensemble.network, rates)
    if _too_wide(modelled):
        refusals.append(Refusal.MISFIT)
    if refusals:
        return Projection(
            modelled={} if _too_wide(modelled) else modelled,
            limit_before=before,
            refusals=tuple(dict.fromkeys(refusals)),
        )
    moved = _moved(calibration, shift, after_load) if changed else None
    if moved is None:
        network, equal = calibration.ensemble.network, float(after_load)
        rates = _capped(calibration, calibration.ensemble.rates(after_load))
    else:
        network, rates, equal = moved
        if not calibration.least / REACH <= equal <= calibration.most * REACH:
            refusals.append(Refusal.BEYOND_RANGE)
    expected = _figures(calibration, shift, after_load, rates, equal)
    after = _limit(calibration, network, rates)
    limits = {place: most for place, most in shift.most_iops.items() if most <= np.median(rates)}
    if limits:
        after = min(limits, key=lambda place: limits[place])
        if after is not before:
            refusals.append(Refusal.LIMIT_CHANGES)
    if _too_wide(expected):
        refusals.append(Refusal.MISFIT)
    return Projection(
        modelled=modelled,
        expected={} if refusals else expected,
        limit_before=before,
        limit_after=after,
        sensitivity=None
        if refusals
        else _sensitivity(calibration, shift if changed else _NO_SHIFT, after_load),
        refusals=tuple(dict.fromkeys(refusals)),
    )


def _capped(calibration: Calibration, rates: Values, capacity: Values | float = 1.0) -> Values:
    """No rate is above that of storage that is used up, where its use was measured."""
    if calibration.most_iops is None:
        return rates
    return np.minimum(rates, calibration.most_iops * capacity)


def _drawn(estimate: Estimate, number: int) -> Values:
    """Draw from an estimate whose interval covers 90 %: normal, with a side of its own for each."""
    deviates = normal_draws(number)
    up, down = estimate.high - estimate.value, estimate.value - estimate.low
    drawn: Values = estimate.value + np.where(deviates > 0, up, down) * deviates / _ENDS
    return drawn


def _moved(calibration: Calibration, shift: Shift, in_flight: int) -> tuple[Network, Values, float]:
    """Return the changed networks, their rates, and the load at which the system as it is was as
    busy: I/Os that wait in the added delay are not in the rest of the system, which with the others
    does what it did before."""
    ensemble, share = calibration.ensemble, calibration.share or 1.0
    # One direction of a mix has its share of the rate: an added delay is 1 / share per own I/O.
    added = _drawn(shift.added_s, 4) / share
    capacity = np.maximum(_drawn(shift.capacity, 5), 0.05 * shift.capacity.value)
    network = changed_network(ensemble.network, added, capacity, shift.parallel)
    rates = throughput(network, in_flight)
    equal = float(np.median((in_flight - rates * added) / shift.parallel))
    known = np.clip(equal, calibration.least, calibration.most)
    # A changed system is another run.
    off = ensemble.log_off(float(known)) + BETWEEN_RUNS * normal_draws(8)
    rates = _capped(calibration, rates * np.exp(off), capacity)
    for most in shift.most_iops.values():
        rates = np.minimum(rates, most)
    return network, rates, max(equal, 1.0)


def changed_network(
    network: Network, added_s: Values, capacity: Values, parallel: float
) -> Network:
    """Return networks with a longer delay, a capacity times `capacity` and servers times
    `parallel`. What is saved beyond the delay is saved at the station, which then has fewer
    servers of the same capacity."""
    delay_s = network.delay_s + added_s
    saved = np.minimum(delay_s, 0.0) * network.capacity
    return replace(
        network,
        delay_s=np.maximum(delay_s, 0.0),
        capacity=network.capacity * capacity,
        servers=np.maximum((network.servers + saved) * parallel, 1.0),
    )


def _estimate(drawn: Values) -> Estimate:
    tail = (1 - COVERAGE) / 2
    low, middle, high = np.quantile(drawn, [tail, 0.5, 1 - tail])
    return Estimate(value=float(middle), low=float(low), high=float(high))


def _too_wide(figures: Mapping[Metric, Estimate]) -> bool:
    rate = figures[Metric.IOPS]
    return rate.high > WIDEST * rate.low


def _figures(
    calibration: Calibration, shift: Shift, in_flight: int, rates: Values, equal: float
) -> dict[Metric, Estimate]:
    """Rate, and the latencies that follow from it. `equal` is the load at which the system as it is
    was as busy."""
    found = {Metric.IOPS: _estimate(rates)}
    filled = _continued(calibration, _filled, equal, _FILLED)
    if filled is None:
        return found
    mean_s = in_flight / rates * np.exp(filled[0] + filled[1] * normal_draws(6))
    found[Metric.LATENCY_MEAN] = _estimate(mean_s)
    tail = _continued(calibration, _tail, equal, _TAIL)
    if tail is not None:
        ratios = np.exp(tail[0] + tail[1] * normal_draws(7))
        if shift.branches is not None:
            # Branches are independent, or not at all, or anything between.
            slowest = with_branches(ratios, *shift.branches)
            ratios = ratios * (slowest / ratios) ** np.linspace(0.0, 1.0, DRAWS)
        added_s = np.clip(_drawn(shift.added_s, 4), None, mean_s)
        p99_s = added_s + (mean_s - added_s) * np.maximum(ratios, 1.0)
        found[Metric.LATENCY_P99] = _estimate(p99_s)
    return found


def _filled(level: Level) -> float | None:
    """I/Os in flight over those requested."""
    if level.latency_mean_s is None:
        return None
    return level.latency_mean_s * level.iops / level.in_flight


def _tail(level: Level) -> float | None:
    if level.latency_mean_s is None or level.latency_p99_s is None:
        return None
    return level.latency_p99_s / level.latency_mean_s


def _continued(
    calibration: Calibration,
    ratio: Callable[[Level], float | None],
    load: float,
    how: Mapping[str, float],
) -> tuple[float, float] | None:
    """Continue a ratio to a load: mean and deviation of its logarithm. None where it was measured
    at no level; without a latency all requested I/Os are in flight, except in a mix."""
    known = [(level.in_flight, one) for level in calibration.levels if (one := ratio(level))]
    if not known:
        return (0.0, how["noise"]) if ratio is _filled and calibration.share == 1.0 else None
    loads, values = np.array(known, dtype=np.float64).T
    within = float(np.clip(load, loads[0] / REACH, loads[-1] * REACH))
    return continue_to(loads, np.log(values), within, **how)


def _limit(calibration: Calibration, network: Network, rates: Values) -> Station | None:
    """The station that limits the rate; None where the load does: more of it would give more."""
    used = float(np.median(rates / network.capacity))
    measured = calibration.most_iops
    if measured is not None:
        used = max(used, float(np.median(rates)) / measured)
    return calibration.limit if used >= _SATURATED else None


# One in so many draws is enough for a sensitivity.
_THINNED = 8
_STEP = 0.05


def _sensitivity(calibration: Calibration, shift: Shift, in_flight: int) -> Sensitivity:
    """The assumption whose relative change moves the expected rate most."""
    network = calibration.ensemble.network
    some = Network(
        delay_s=network.delay_s[::_THINNED],
        capacity=network.capacity[::_THINNED],
        servers=network.servers[::_THINNED],
        shared=network.shared[::_THINNED],
        exponent=network.exponent[::_THINNED],
        onset=network.onset[::_THINNED],
        until=network.until[::_THINNED],
    )
    added = np.full(len(some.capacity), shift.added_s.value / (calibration.share or 1.0))
    capacity = np.full(len(added), shift.capacity.value)

    def rate(added: Values, capacity: Values, base: Network) -> Values:
        return throughput(changed_network(base, added, capacity, shift.parallel), in_flight)

    usual = rate(added, capacity, some)

    def elasticity(values: Values) -> float:
        return float(np.median(np.log(values / usual))) / float(np.log1p(_STEP))

    more_delay = replace(some, delay_s=some.delay_s * (1 + _STEP))
    found = [
        Sensitivity(
            assumption="capacity",
            station=calibration.limit,
            elasticity=elasticity(rate(added, capacity * (1 + _STEP), some)),
        ),
        Sensitivity(
            assumption="delay",
            station=Station.STORAGE,
            elasticity=elasticity(rate(added, capacity, more_delay)),
        ),
    ]
    if shift.added_s.value:
        longer = elasticity(rate(added * (1 + _STEP), capacity, some))
        found.append(
            Sensitivity(assumption="added-delay", station=Station.NETWORK, elasticity=longer)
        )
    return max(found, key=lambda one: abs(one.elasticity))
