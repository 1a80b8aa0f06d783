"""Limits on comparisons of which nothing but the judgement matters."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.comparison import By, ComparedCell, Comparison, Side
from leadline.analysis.limits import Outcome, check_limits, parse_limit
from leadline.analysis.verdicts import Evidence, Judgement, Pair, Sample, Verdict, judge
from leadline.errors import LeadlineError
from leadline.metrics import Metric, Op
from leadline.stats.effects import Estimate


def comparison(folder: Path, judgement: Judgement) -> Comparison:
    run = make_run(folder, small_plan(["a"], repeats=1))
    side = Side(name="a", run=run, targets={"a": "a"}, figures=(), findings=())
    cell = ComparedCell(
        target="a",
        workload="rand",
        level="",
        op=Op.WRITE,
        metric=Metric.LATENCY_P99,
        baseline_cell=None,
        candidate_cell=None,
        judgement=judgement,
        depth=1,
        streaming=False,
    )
    return Comparison(
        by=By.RUN,
        baseline=side,
        candidate=side,
        band=0.05,
        cells=(cell,),
        differences=(),
        identical=(),
        explanations=(),
    )


def judged(
    ratio: float | None,
    interval: tuple[float, float] | None,
    evidence: Evidence = Evidence.TRIALS,
    verdict: Verdict = Verdict.INCONCLUSIVE,
) -> Judgement:
    estimate = None
    if ratio is not None and interval is not None:
        # A normal estimate with this interval of 90 %: the bound of a test at 5 %.
        error = math.log(interval[1] / interval[0]) / 2 / 1.644854
        estimate = Estimate(value=math.log(ratio), error=error, freedom=math.inf)
    return Judgement(
        verdict=verdict,
        evidence=evidence,
        band=0.05,
        ratio=ratio,
        interval=interval,
        estimate=estimate,
    )


@pytest.mark.parametrize(
    ("limit", "judgement", "outcome"),
    [
        ("write p99 > +20%", judged(1.32, (1.25, 1.4)), Outcome.EXCEEDED),
        ("write p99 > +20%", judged(1.3, (1.1, 1.4)), Outcome.UNDECIDED),
        ("write p99 > +20%", judged(1.1, (1.05, 1.4)), Outcome.KEPT),
        ("write p99 > +20%", judged(1.1, (1.05, 1.15)), Outcome.KEPT),
        ("write p99 > +20%", judged(1.3, None, Evidence.ONE_NUMBER), Outcome.EXCEEDED),
        ("write p99 > +20%", judged(1.1, None, Evidence.ONE_NUMBER), Outcome.KEPT),
        ("write p99 > +20%", judged(1.3, None, Evidence.NONE), Outcome.UNDECIDED),
        ("write p99 > +20%", judged(None, None, Evidence.NONE), Outcome.UNDECIDED),
        (
            "write p99 > +20%",
            judged(1.1, (1.0, 1.1), verdict=Verdict.NOT_COMPARABLE),
            Outcome.UNDECIDED,
        ),
        ("write p99 < -20%", judged(0.7, (0.65, 0.75)), Outcome.EXCEEDED),
        ("write p99 < -20%", judged(0.7, (0.6, 0.85)), Outcome.UNDECIDED),
        ("write p99 < -20%", judged(0.9, (0.6, 0.95)), Outcome.KEPT),
    ],
)
def test_certain_within_the_interval_or_undecided(
    tmp_path: Path, limit: str, judgement: Judgement, outcome: Outcome
) -> None:
    (result,) = check_limits(comparison(tmp_path, judgement).cells, [parse_limit(limit)])
    assert result.outcome is outcome


def test_a_limit_about_nothing_is_a_wrong_request(tmp_path: Path) -> None:
    made = comparison(tmp_path, judged(1.0, (1.0, 1.0)))
    with pytest.raises(LeadlineError, match="no cell") as caught:
        check_limits(made.cells, [parse_limit("read p99 > 5%")])
    assert "rand write latency_p99" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "above", "ratio"),
    [("p99 > +20%", True, 1.2), ("iops < -10 %", False, 0.9), ("write iops<-5.5%", False, 0.945)],
)
def test_how_limits_are_written(text: str, above: bool, ratio: float) -> None:
    limit = parse_limit(text)
    assert (limit.above, limit.ratio) == (above, pytest.approx(ratio))


@pytest.mark.parametrize("text", ["p99 > 20", "p99 20%", "> 20%", "p99 >> 20%", ""])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(LeadlineError):
        parse_limit(text)


def test_limits_on_many_cells_are_adjusted_together(tmp_path: Path) -> None:
    """A change that exceeds a limit alone need not do so among forty."""
    alone = comparison(tmp_path, judged(1.3, (1.21, 1.4)))
    limit = parse_limit("write p99 > +20%")
    assert check_limits(alone.cells, [limit])[0].outcome is Outcome.EXCEEDED
    many = replace(alone, cells=alone.cells * 40)
    assert {result.outcome for result in check_limits(many.cells, [limit])} == {Outcome.UNDECIDED}


@pytest.mark.thorough
def test_forty_unchanged_cells_rarely_exceed_a_limit(tmp_path: Path) -> None:
    """Of 200 comparisons in which nothing changed, at most one in twenty exceeds `any change`."""
    generator = np.random.default_rng(20261123)
    frame = comparison(tmp_path, judged(1.0, (0.9, 1.1)))
    (cell,) = frame.cells
    limits = [parse_limit("write p99 > +0%"), parse_limit("write p99 < -20%")]
    failed = 0
    for _ in range(200):
        noisy = 100 * np.exp(0.05 * generator.normal(size=(40, 2, 3)))
        pairs = [
            Pair(
                metric=Metric.LATENCY_P99,
                baseline=Sample(value=100.0, trials=tuple(a)),
                candidate=Sample(value=100.0, trials=tuple(b)),
                primary=True,
            )
            for a, b in noisy.tolist()
        ]
        cells = tuple(replace(cell, judgement=judgement) for judgement in judge(pairs))
        results = check_limits(cells, limits)
        failed += any(result.outcome is Outcome.EXCEEDED for result in results)
    assert failed <= 200 * 0.05 + 3 * math.sqrt(200 * 0.05 * 0.95)
