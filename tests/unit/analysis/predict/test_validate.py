"""What is left out, what it is forecast from, and the errors, on recorded curves the promised."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.predict.facts import ForecastError, LeftOut, Refusal, Shift
from leadline.analysis.predict.validate import (
    Attempt,
    MeasuredCurve,
    error_by_repeats,
    forecast_errors,
    leave_levels,
    validate,
)
from leadline.metrics import Metric, Op
from leadline.plan.workload import Pattern
from tests.unit.analysis.predict.test_calibrate import DELAY_S, rate
from tests.unit.analysis.scaling.levels import Did, Level, closed, simulate

RECORDED = Path(__file__).resolve().parents[3] / "recorded" / "load_curves"
LOADS = (1, 2, 4, 8, 16, 32)


def nothing(_source: MeasuredCurve, _other: MeasuredCurve) -> Shift:
    return Shift()


def curve(target: str, delay_s: float = DELAY_S, loads: tuple[int, ...] = LOADS) -> MeasuredCurve:
    system, _, cluster = target.partition("@")
    levels = [closed(load, rate(load, delay_s=delay_s), target=target) for load in loads]
    return MeasuredCurve(curve=simulate(*levels).curve, cluster=cluster, system=system)


def test_each_level_is_left_out_once() -> None:
    attempts = validate([curve("a"), curve("b")], LeftOut.DEPTH, nothing)
    assert [(one.curve.target, one.point.load.in_flight) for one in attempts] == [
        (target, load) for target in "ab" for load in LOADS
    ]
    rates, latencies, _ = forecast_errors(attempts, "runs", LeftOut.DEPTH)
    assert rates.metric is Metric.IOPS
    assert rates.cells + rates.refused == 12
    assert rates.worst >= rates.p90 >= rates.median
    assert latencies.cells == rates.cells


def test_three_levels_are_too_few_to_leave_one_out() -> None:
    assert not validate([curve("a", loads=(1, 8, 64))], LeftOut.DEPTH, nothing)


def test_the_left_out_levels_are_not_seen() -> None:
    """A level with another rate than its neighbours changes its own error and no forecast of it."""
    plain = curve("a")
    rates = {load: rate(load) * (1.5 if load == 8 else 1.0) for load in LOADS}
    odd = MeasuredCurve(curve=simulate(*[closed(load, one) for load, one in rates.items()]).curve)
    both = [list(leave_levels(one, [frozenset([8])])) for one in (plain, odd)]
    (before,), (after,) = both
    assert before.projection.expected == after.projection.expected
    errors = [forecast_errors([one], "", LeftOut.DEPTH)[0] for one in (before, after)]
    assert errors[0].mean < 0.05
    assert errors[1].mean == pytest.approx(1 / 3, abs=0.05)
    assert (errors[0].coverage, errors[1].coverage) == (1.0, 0.0)


def test_clusters_and_targets_are_forecast_from_the_first() -> None:
    names = ("rep3@near", "rep3@far", "rep2@near", "rep2@far")
    curves = [curve(name, DELAY_S + ("far" in name) * 0.003) for name in names]
    asked: list[tuple[str, str]] = []

    def shift_of(source: MeasuredCurve, other: MeasuredCurve) -> Shift:
        asked.append((source.curve.target, other.curve.target))
        return Shift(added_s=Estimate(value=0.003, low=0.003, high=0.003))

    attempts = validate(curves, LeftOut.CLUSTER, shift_of)
    assert asked == [("rep3@near", "rep3@far"), ("rep2@near", "rep2@far")]
    errors, *_ = forecast_errors(attempts, "", LeftOut.CLUSTER)
    assert errors.cells == 12
    assert errors.mean < 0.05
    assert errors.coverage == 1.0
    asked.clear()
    validate(curves, LeftOut.TARGET, shift_of)
    assert asked == [("rep3@near", "rep2@near"), ("rep3@far", "rep2@far")]


def test_refusals_are_counted() -> None:
    source, other = curve("rep3@near", loads=(1,)), curve("rep3@far")
    attempts = validate([source, other], LeftOut.CLUSTER, nothing)
    assert {one.projection.refusals for one in attempts} == {(Refusal.ONE_LOAD_LEVEL,)}
    errors, *_ = forecast_errors(attempts, "", LeftOut.CLUSTER)
    assert (errors.cells, errors.refused) == (0, 6)


# --- recorded curves -----------------------------------------------------------------------------


def recorded(name: str) -> Iterator[MeasuredCurve]:
    """The curves of a file, in its order."""
    rows: dict[str, dict[int, list[Did]]] = {}
    with (RECORDED / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            in_flight = int(row["in_flight"])
            latency_s = float(row["latency_mean_s"] or in_flight / float(row["iops"]))
            done = Did(float(row["iops"]), latency_s, op=Op(row["op"]))
            rows.setdefault(row["curve"], {}).setdefault(in_flight, []).append(done)
    for curve, loads in rows.items():
        levels = [
            Level(
                trials=[[one] for one in done],
                iodepth=load,
                target=curve,
                pattern=Pattern.RANDREAD if done[0].op is Op.READ else Pattern.RANDWRITE,
            )
            for load, done in sorted(loads.items())
        ]
        yield MeasuredCurve(curve=simulate(*levels).curve)


def of_rate(attempts: list[Attempt]) -> ForecastError:
    return forecast_errors(attempts, "", LeftOut.DEPTH)[0]


def test_three_of_six_levels_of_a_lab() -> None:
    """Half of the curves of a busy machine; its intervals were made with the other half in view.

    Repeats scatter by about a tenth there, so the error has a floor.
    """
    generator = np.random.default_rng(2)
    attempts: list[Attempt] = []
    for measured in list(recorded("predict-lab"))[1::2]:
        for _ in range(3):
            out = frozenset(int(load) for load in generator.choice(LOADS, 3, replace=False))
            attempts += leave_levels(measured, [out])
    error = of_rate(attempts)
    assert error.coverage >= 0.85
    assert error.median < 0.12
    assert error.refused < 0.15 * (error.cells + error.refused)


def test_a_lab_whose_repeats_scatter_by_a_quarter() -> None:
    """Each level left out: intervals widen with the scatter, and only forecasts below the lowest
    measured load are refused for it."""
    attempts = [one for measured in recorded("predict-hosts") for one in leave_levels(measured)]
    error = of_rate(attempts)
    assert error.coverage >= 0.80
    refused = {one.point.load.in_flight for one in attempts if not one.projection.expected}
    assert refused <= {1}


def test_levels_between_those_of_a_lab() -> None:
    attempts = [
        attempt
        for measured in list(recorded("predict-lab"))[1::2]
        for attempt in leave_levels(measured)
        if attempt.point.load.in_flight not in (LOADS[0], LOADS[-1])
    ]
    error = of_rate(attempts)
    assert error.coverage >= 0.85
    assert error.median < 0.10


def test_zones_that_were_moved_apart() -> None:
    """Three copies in three zones: two thirds of the I/Os go to another zone's primary, and each
    waits for copies in two others. Forecast from the lab without a delay, which had more of its two
    cores: what delays the messages needs some, and takes longer than it was set to."""
    curves = {
        measured.curve.target.rpartition(" ")[2]: measured for measured in recorded("lab-delay")
    }
    # The lab delays each direction.
    round_trips = {"250us": 0.5e-3, "500us": 1e-3, "1ms": 2e-3}

    def shift_of(_source: MeasuredCurve, other: MeasuredCurve) -> Shift:
        waits_s = (2 / 3 + 1) * round_trips[other.cluster]
        return Shift(added_s=Estimate(value=waits_s, low=0.95 * waits_s, high=1.05 * waits_s))

    near, *others = (
        MeasuredCurve(curve=curves[name].curve, cluster=name, system="rep3")
        for name in ("0s", *round_trips)
    )
    attempts = validate([near, *others], LeftOut.CLUSTER, shift_of)
    rates, latencies, _ = forecast_errors(attempts, "", LeftOut.CLUSTER)
    assert rates.cells == latencies.cells == 9
    assert rates.mean < 0.12
    assert rates.coverage >= 0.75


@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
def test_repeats_leave_an_error_to_a_perfect_forecast(repeats: int) -> None:
    generator = np.random.default_rng(repeats)
    cells = [tuple(generator.normal(1000, 80, repeats)) for _ in range(4000)]
    off = [abs(float(np.median(cell)) / 1000 - 1) for cell in cells]
    assert error_by_repeats(cells) == pytest.approx(np.mean(off), rel=0.06)


def test_single_trials_do_not_show_their_scatter() -> None:
    assert error_by_repeats([(1000.0,), ()]) is None
