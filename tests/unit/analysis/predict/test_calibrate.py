"""Load curves of known systems: what is expected of them, of changed ones, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.predict.calibrate import Calibration, calibrate, forecast
from leadline.analysis.predict.facts import Refusal, Shift, Station
from leadline.findings import Finding
from leadline.metrics import Metric, Op
from leadline.model.networks import Network, throughput
from leadline.plan.workload import Pattern
from tests.unit.analysis.scaling.levels import OVERLOADED, Did, Level, closed, refusal, simulate

DELAY_S, CAPACITY, SERVERS = 0.002, 8000.0, 6.0
LOADS = (1, 2, 4, 8, 16, 32, 64)
AROUND = (0.98, 1.0, 1.02)


def system(
    delay_s: float = DELAY_S, capacity: float = CAPACITY, servers: float = SERVERS
) -> Network:
    return Network(
        delay_s=np.array([delay_s]),
        capacity=np.array([capacity]),
        servers=np.array([servers]),
        shared=np.array([False]),
        exponent=np.array([0.0]),
        onset=np.array([0.0]),
        until=np.array([np.inf]),
    )


def rate(load: int, **changed: float) -> float:
    return float(throughput(system(**changed), load)[0])


def calibrated(loads: tuple[int, ...] = LOADS, **more: Any) -> Calibration:
    levels = [closed(load, *[rate(load) * share for share in AROUND]) for load in loads]
    found = calibrate(simulate(*levels, **more).curve)
    assert isinstance(found, Calibration)
    return found


def within(estimate: Estimate, value: float) -> bool:
    return estimate.low <= value <= estimate.high


def test_a_load_between_measured_ones() -> None:
    found = forecast(calibrated((1, 4, 16, 64)), Shift(), 8)
    assert not found.refusals
    expected = found.expected[Metric.IOPS]
    assert expected.value == pytest.approx(rate(8), rel=0.04)
    assert within(expected, rate(8))
    latency = found.expected[Metric.LATENCY_MEAN]
    assert latency.value == pytest.approx(8 / rate(8), rel=0.04)
    assert found.limit_after is None
    assert found.modelled == found.expected


def test_three_levels_are_enough_and_two_say_more_is_needed() -> None:
    three = forecast(calibrated((1, 8, 64)), Shift(), 16).expected[Metric.IOPS]
    two = calibrated((1, 64))
    between = forecast(two, Shift(), 16).expected[Metric.IOPS]
    assert within(three, rate(16))
    assert within(between, rate(16))
    assert between.high / between.low > three.high / three.low
    assert forecast(two, Shift(), 128).refusals == (Refusal.TWO_LOAD_LEVELS,)
    longer = Shift(added_s=Estimate(value=1e-3, low=1e-3, high=1e-3))
    assert forecast(two, longer, 64).refusals == (Refusal.TWO_LOAD_LEVELS,)


@pytest.mark.parametrize("load", [1, 8, 64])
@pytest.mark.parametrize("added_s", [0.003, -0.001])
def test_a_longer_and_a_shorter_round_trip(load: int, added_s: float) -> None:
    added = Estimate(value=added_s, low=added_s, high=added_s)
    found = forecast(calibrated(), Shift(added_s=added), load)
    truth = rate(load, delay_s=DELAY_S + added_s)
    expected = found.expected[Metric.IOPS]
    assert expected.value == pytest.approx(truth, rel=0.05)
    assert within(expected, truth)
    assert within(found.modelled[Metric.IOPS], rate(load))


@pytest.mark.parametrize("load", [1, 8, 64])
def test_half_and_twice_the_capacity(load: int) -> None:
    """With as many servers, each slower or faster."""
    for factor in (0.5, 2.0):
        capacity = Estimate(value=factor, low=0.9 * factor, high=1.1 * factor)
        found = forecast(calibrated(), Shift(capacity=capacity), load)
        truth = rate(load, capacity=factor * CAPACITY)
        assert found.expected[Metric.IOPS].value == pytest.approx(truth, rel=0.12)
        assert within(found.expected[Metric.IOPS], truth)


def test_the_assumption_that_matters() -> None:
    """At saturation the capacity, at one in flight what is waited for in no queue."""
    known = calibrated()
    added = Estimate(value=0.005, low=0.005, high=0.005)
    many, one = (forecast(known, Shift(added_s=added), load).sensitivity for load in (200, 1))
    assert many is not None
    assert one is not None
    assert many.assumption == "capacity"
    assert many.elasticity == pytest.approx(1.0, abs=0.25)
    assert one.assumption == "added-delay"
    assert one.station is Station.NETWORK
    # 5 ms of an I/O's 2 + 5 ms and the station's 0.75 ms.
    assert one.elasticity == pytest.approx(-5 / 7.75, abs=0.05)


def test_the_limit() -> None:
    known = calibrated()
    assert forecast(known, Shift(), 1).limit_before is None
    assert forecast(known, Shift(), 64).limit_before is Station.STORAGE


def test_another_station_that_limits_is_not_modelled() -> None:
    found = forecast(calibrated(), Shift(most_iops={Station.CLIENT_LINK: 3000.0}), 64)
    assert found.refusals == (Refusal.LIMIT_CHANGES,)
    assert found.limit_after is Station.CLIENT_LINK
    assert not found.expected
    assert found.modelled


def test_the_refusals_of_a_change_are_kept() -> None:
    found = forecast(calibrated(), Shift(refusals=(Refusal.MEDIA,)), 8)
    assert found.refusals == (Refusal.MEDIA,)
    assert not found.expected


@pytest.mark.parametrize("load", [300, 1000])
def test_loads_far_beyond_the_measured_ones(load: int) -> None:
    assert forecast(calibrated(), Shift(), load).refusals == (Refusal.BEYOND_RANGE,)
    assert forecast(calibrated(), Shift(in_flight=load), 8).refusals == (Refusal.BEYOND_RANGE,)


def test_another_depth_after_the_change() -> None:
    found = forecast(calibrated(), Shift(in_flight=32), 4)
    assert within(found.modelled[Metric.IOPS], rate(4))
    assert within(found.expected[Metric.IOPS], rate(32))


def test_one_level_identifies_nothing() -> None:
    assert calibrate(simulate(closed(8, 1000.0)).curve) is Refusal.ONE_LOAD_LEVEL


def test_refused_figures_are_not_used() -> None:
    levels = [closed(load, rate(load)) for load in (1, 2, 4)]
    findings: list[Finding] = [refusal(level.level) for level in levels]
    curve = simulate(*levels, findings=findings).curve
    assert calibrate(curve) is Refusal.NO_TRUSTED_CELL
    curve = simulate(*levels, findings=findings[1:]).curve
    assert calibrate(curve) is Refusal.ONE_LOAD_LEVEL


def test_open_loops() -> None:
    kept = Level(trials=[[Did(500.0)]], rate_iops=500.0)
    lost = Level(trials=[OVERLOADED], rate_iops=900.0)
    assert calibrate(simulate(kept, lost).curve) is Refusal.OPEN_LOOP
    assert calibrate(simulate(lost).curve) is Refusal.UNSTABLE


def test_a_curve_without_a_shape_is_refused() -> None:
    rates = {1: 100.0, 2: 9000.0, 4: 80.0, 8: 7000.0, 16: 60.0}
    found = calibrate(simulate(*[closed(load, one) for load, one in rates.items()]).curve)
    assert isinstance(found, Calibration)
    assert forecast(found, Shift(), 6).refusals == (Refusal.MISFIT,)


def test_latency_without_one_is_littles() -> None:
    """Published rates: all that was requested is in flight."""
    levels = [
        Level(
            trials=[[Did(rate(load), 0.0)]],
            recorded={"iodepth": str(load), "rw": "randread", "bs": "4k"},
            label=f"qd{load}",
        )
        for load in (1, 4, 16, 64)
    ]
    curve = simulate(*levels, findings=[refusal(one.level, latency_only=True) for one in levels])
    found = calibrate(curve.curve)
    assert isinstance(found, Calibration)
    expected = forecast(found, Shift(), 8).expected
    assert within(expected[Metric.LATENCY_MEAN], 8 / rate(8))
    assert Metric.LATENCY_P99 not in expected


def test_a_direction_of_a_mix() -> None:
    """Reads are 70 % of the I/Os: their rate is a share of the whole, and so is an added delay."""
    levels = [
        Level(
            trials=[
                [
                    Did(0.7 * rate(load), load / rate(load)),
                    Did(0.3 * rate(load), load / rate(load), op=Op.WRITE),
                ]
            ],
            iodepth=load,
            pattern=Pattern.RANDRW,
            read_share=70,
        )
        for load in LOADS
    ]
    curves = {curve.op: curve for curve in simulate(*levels).curves}
    assert set(curves) == {Op.READ, Op.WRITE, Op.TOTAL}
    added = Shift(added_s=Estimate(value=0.004, low=0.004, high=0.004))
    for op, share in ((Op.READ, 0.7), (Op.TOTAL, 1.0)):
        known = calibrate(curves[op])
        assert isinstance(known, Calibration)
        expected = forecast(known, added, 8).expected
        truth = rate(8, delay_s=DELAY_S + 0.004)
        assert expected[Metric.IOPS].value == pytest.approx(share * truth, rel=0.06)
        assert within(expected[Metric.LATENCY_MEAN], 8 / truth)


def test_the_tail_follows_its_ratio_to_the_mean() -> None:
    levels = [
        Level(trials=[[Did(rate(load), load / rate(load), tail_s=5 * load / rate(load))]] * 3)
        for load in (1,)
    ] + [
        Level(
            trials=[[Did(rate(load), load / rate(load), tail_s=5 * load / rate(load))]] * 3,
            iodepth=load,
        )
        for load in (4, 16, 64)
    ]
    known = calibrate(simulate(*levels).curve)
    assert isinstance(known, Calibration)
    found = forecast(known, Shift(), 8).expected
    assert found[Metric.LATENCY_P99].value == pytest.approx(5 * 8 / rate(8), rel=0.15)
    fewer = forecast(known, Shift(branches=(3, 1)), 8).expected[Metric.LATENCY_P99]
    assert fewer.high > found[Metric.LATENCY_P99].high
