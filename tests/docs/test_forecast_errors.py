"""The errors of forecasts that the program cites are those of the docs, and can be made again."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

import pytest

from leadline.analysis.bottleneck.evidence import levels_evidence
from leadline.analysis.comparison import By, within_run
from leadline.analysis.predict.changes import parse_changes
from leadline.analysis.predict.facts import METRICS, LeftOut
from leadline.analysis.predict.predict import predict_against, predict_run
from leadline.analysis.predict.prediction import count_within, validated_errors
from leadline.analysis.predict.validate import MeasuredCurve, leave_levels
from leadline.analysis.scaling.curves import load_curves
from leadline.archive.reader import Run
from leadline.judge import Judge
from leadline.metrics import Metric, Op
from scripts import forecast_errors


def test_the_page_has_the_errors_that_the_program_cites() -> None:
    cited = [error for left_out in LeftOut for error in validated_errors(left_out)]
    assert {(one.left_out, one.metric) for one in cited} == {
        (left_out, metric) for left_out in LeftOut for metric in METRICS
    }
    by_source = sorted(cited, key=lambda one: one.source)
    assert forecast_errors.page(by_source) == forecast_errors.PAGE.read_text("utf-8")


@pytest.fixture(scope="module")
def lab() -> Iterator[Run]:
    """Four real labs with 0, 0.5, 1 and 2 ms between zones."""
    with forecast_errors.recorded() as runs:
        yield next(run for run in runs if run.plan.name == "fresh")


@pytest.fixture(scope="module")
def judge() -> Judge:
    """Judges the run once for all tests."""
    return Judge()


@pytest.mark.slow
def test_the_errors_are_made_again_from_the_recorded_runs(lab: Run, judge: Judge) -> None:
    cited = {
        (one.left_out, one.metric): one
        for left_out in LeftOut
        for one in validated_errors(left_out)
        if one.source == lab.id
    }
    found = forecast_errors.validated(lab, judge)
    assert len(found) == len(cited)
    for one in found:
        kept = cited[one.left_out, one.metric]
        assert (one.cells, one.refused) == (kept.cells, kept.refused)
        for share, known in ((one.median, kept.median), (one.coverage, kept.coverage)):
            assert share == pytest.approx(known, abs=0.01)


@pytest.mark.slow
def test_curves_without_three_of_their_levels(lab: Run, judge: Judge) -> None:
    """Every choice of three of six levels forecasts the others: rates are within their interval in
    85 % of cells or more, and p99 within a factor of 1.5 in 80 %."""
    held, near = [], []
    for curve in load_curves(lab, judge(lab)[0]):
        loads = [point.load.in_flight for point in curve.closed]
        measured = MeasuredCurve(
            curve=curve,
            evidence=levels_evidence(lab, curve.target, curve.closed[0].figure.planned_workload),
        )
        sets = map(frozenset, itertools.combinations(loads, 3))
        for attempt in leave_levels(measured, sets):
            expected = attempt.projection.expected
            rate, p99 = (attempt.point.usable(one) for one in (Metric.IOPS, Metric.LATENCY_P99))
            if rate is not None and Metric.IOPS in expected:
                held.append(expected[Metric.IOPS].low <= rate <= expected[Metric.IOPS].high)
            if p99 is not None and Metric.LATENCY_P99 in expected:
                near.append(1 / 1.5 <= expected[Metric.LATENCY_P99].value / p99 <= 1.5)
    assert len(held) > 1200
    assert len(near) > 1200
    assert statistics.mean(held) >= 0.85
    assert statistics.mean(near) >= 0.80


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["half-ms", "one-ms", "two-ms"])
def test_the_zone_change_is_within_its_forecast(lab: Run, judge: Judge, cluster: str) -> None:
    sides = within_run(lab, By.CLUSTER, "single-zone", cluster, judge)
    found = predict_against(*sides, parse_changes([]))
    held, compared = count_within(found.forecasts, Metric.IOPS)
    assert compared >= 30
    assert held >= 0.85 * compared
    assert {one.target for one in found.curves} == {"rep3", "rep2", "ec-2-1"}


@pytest.mark.slow
def test_a_change_adds_the_round_trips_of_the_path(lab: Run, judge: Judge) -> None:
    """Writes of three copies wait for the primary in most cases, and for a copy in another zone."""
    (single, _) = within_run(lab, By.CLUSTER, "single-zone", "single-zone", judge)
    changes = parse_changes(["failure_domain=zone", "inter_zone_rtt=2ms"])
    added = {}
    for one in predict_run(single, changes).calibrated:
        if (one.target, one.level) == ("rep3", "qd1"):
            after, before = one.expected[Metric.LATENCY_MEAN], one.modelled[Metric.LATENCY_MEAN]
            added[one.op] = after.value - before.value
    assert 0.5e-3 < added[Op.READ] < 2.2e-3
    assert 2e-3 < added[Op.WRITE] < 4.5e-3
