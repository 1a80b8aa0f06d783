"""Throughput within one latency, between the levels measured and nowhere else."""

from __future__ import annotations

import pytest

from leadline.analysis.scaling.limits import NoThroughput, NoThroughputReason, Within, within
from leadline.analysis.scaling.speedup import Bound, LimitOrigin, NoEqualLatency, SystemRole
from leadline.findings import Finding
from leadline.metrics import Metric
from leadline.plan.models import LatencyLimit, parse_latency_limit
from tests.unit.analysis.scaling.levels import Did, Level, closed, refusal, simulate
from tests.unit.analysis.scaling.systems import HOSTS, against

REFUSED = NoThroughput(reason=NoThroughputReason.LATENCY_REFUSED, findings=("throttled",))


def at(load: int, *done: tuple[float, float]) -> Level:
    """A level whose trials gave so many IOPS, almost all within a latency in seconds."""
    return Level(trials=[[Did(iops, latency)] for iops, latency in done], iodepth=load)


def of(limit: str, *levels: Level, findings: list[Finding] | None = None) -> Within:
    made = simulate(*levels, findings=findings or ())
    return within(made.curve, parse_latency_limit(limit), made.samples)


def test_between_two_levels_a_power_law_holds() -> None:
    """X = 1000 (L / 1 ms)^(1/2) goes through both levels: at 4 ms it is 2000."""
    found = of("mean<4ms", at(1, (1000.0, 0.001)), at(64, (4000.0, 0.016)))
    assert found.iops == pytest.approx(2000.0, rel=1e-3)
    assert not found.at_least


def test_a_limit_that_no_level_passes_gives_a_bound() -> None:
    found = of("mean<20ms", at(1, (1000.0, 0.001)), at(64, (4000.0, 0.016)))
    assert found.iops == 4000.0
    assert found.at_least


def test_nothing_is_shown_below_the_lowest_level() -> None:
    found = of("mean<500us", at(1, (1000.0, 0.001)), at(64, (4000.0, 0.016)))
    assert found.iops is None
    assert found.absence is not None
    assert found.absence.reason is NoThroughputReason.LOWEST_LEVEL_ABOVE


def test_past_the_peak_the_highest_throughput_counts_not_the_last() -> None:
    path = at(1, (1000.0, 0.001)), at(8, (2000.0, 0.002)), at(64, (1500.0, 0.008))
    assert of("mean<4ms", *path).iops == 2000.0


def test_a_level_beyond_the_first_that_breaks_the_limit_does_not_count() -> None:
    path = at(1, (1000.0, 0.001)), at(8, (1500.0, 0.006)), at(64, (9000.0, 0.003))
    found = of("mean<4ms", *path).iops
    assert found is not None
    assert 1000.0 < found < 1500.0


def test_the_tail_is_asked_where_the_limit_is_of_the_tail() -> None:
    slow = Level(trials=[[Did(2000.0, 0.001, tail_s=0.016)]], iodepth=8)
    path = at(1, (1000.0, 0.001)), slow
    assert of("p50<4ms", *path).at_least
    assert of("p99<4ms", *path).iops == pytest.approx(2000**0.5 * 1000**0.5, rel=1e-2)


def test_refused_latency_refuses_the_answer_and_says_which_finding_did() -> None:
    levels = at(1, (1000.0, 0.001)), at(8, (2000.0, 0.004))
    refusals = [refusal("", latency_only=True, code="throttled")]
    found = of("mean<2ms", *levels, findings=refusals)
    assert found.iops is None
    assert found.absence == REFUSED
    assert found.left_out == ("qd1x1", "qd8x1")


def test_a_refused_level_is_left_out_and_named() -> None:
    levels = at(1, (1000.0, 0.001)), at(4, (9999.0, 0.002)), at(8, (4000.0, 0.016))
    found = of("mean<4ms", *levels, findings=[refusal("qd4x1")])
    assert found.iops == pytest.approx(2000.0, rel=1e-3)
    assert found.left_out == ("qd4x1",)


def test_each_repeat_has_an_answer_of_its_own() -> None:
    found = of(
        "mean<4ms",
        at(1, (1000.0, 0.001), (1100.0, 0.001)),
        at(64, (4000.0, 0.016), (4400.0, 0.016)),
    )
    assert found.sample.trials == pytest.approx((2000.0, 2200.0), rel=1e-3)
    assert len(set(found.sample.blocks)) == 2
    lacking = of("mean<4ms", at(1, (1000.0, 0.001), (1100.0, 0.001)), at(64, (4000.0, 0.016)))
    assert lacking.iops is not None
    assert lacking.sample.trials == (), "a part of the repeats would be those that suit"


def test_without_a_limit_the_baselines_latency_at_its_knee_is_taken() -> None:
    loads = {1: 1000.0, 2: 1900.0, 4: 3500.0, 8: 4000.0, 16: 4050.0, 32: 4080.0}
    small = simulate(*(closed(load, iops, iops * 1.01) for load, iops in loads.items()))
    large = simulate(*(closed(load, iops * 1.5, iops * 1.515) for load, iops in loads.items()))
    found = against(small, large, HOSTS).equal_latency
    assert found.limit is not None
    assert found.limit.metric is Metric.LATENCY_P99
    # 8 / 4020: a step further the throughput hardly grows.
    assert found.limit.below_s == pytest.approx(8 / 4020, rel=0.01)
    assert found.chosen == LimitOrigin(metric=Metric.LATENCY_P99, at_knee=True, level="qd8x1")
    assert found.judgement.ratio is not None
    assert found.judgement.ratio > 1.45
    assert found.efficiency is not None
    assert found.efficiency.value == pytest.approx(found.judgement.ratio * 3 / 5)


def test_two_bounds_are_no_ratio() -> None:
    limit = LatencyLimit(metric=Metric.LATENCY_MEAN, below_s=1.0)
    levels = closed(1, 1000.0, 1010.0), closed(8, 3000.0, 3030.0)
    found = against(simulate(*levels), simulate(*levels), HOSTS, limit=limit).equal_latency
    assert found.judgement.ratio is None
    assert found.absence == NoEqualLatency()
    assert found.bound is Bound.EXACT


@pytest.mark.parametrize(
    ("small_s", "large_s", "bound"), [(0.1, 0.001, "at least"), (0.001, 0.1, "at most")]
)
def test_one_bound_makes_the_ratio_one(small_s: float, large_s: float, bound: str) -> None:
    limit = LatencyLimit(metric=Metric.LATENCY_MEAN, below_s=0.01)
    sides = [
        simulate(at(1, (1000.0, 0.0005), (1010.0, 0.0005)), at(8, (3000.0, end), (3030.0, end)))
        for end in (small_s, large_s)
    ]
    found = against(*sides, HOSTS, limit=limit).equal_latency
    assert found.bound == bound
    assert found.judgement.ratio is not None


def test_refused_latency_of_the_baseline_is_the_reason() -> None:
    levels = at(1, (1000.0, 0.001)), at(8, (2000.0, 0.004))
    small = simulate(*levels, findings=[refusal("", latency_only=True, code="throttled")])
    found = against(small, simulate(*levels), HOSTS).equal_latency
    assert found.limit is None
    assert found.judgement.ratio is None
    assert found.absence == NoEqualLatency(side=SystemRole.BASELINE, cause=REFUSED)
