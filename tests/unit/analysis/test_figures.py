"""Figures of a run: medians, merged percentiles, missing cells, finding_marks."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from archive_builder import RECORDED, make_run, small_plan, some_findings
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.figures import Absence, CellFigure, TrialValue, figures, summarise
from leadline.archive.reader import Run
from leadline.findings import Finding, Severity
from leadline.metrics import Metric, Op
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan
from leadline.report.answers.run import show_output
from leadline.report.pages.run.page import run_document
from leadline.report.render import markdown
from leadline.stats.histogram import LatencyHistogram

numbers = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=20)
bins = st.dictionaries(st.integers(1, 10**9), st.integers(1, 10**6), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(
        tmp_path_factory.mktemp("run"),
        fails=lambda target, workload, block: (
            (target, workload) == ("memory", "mixed-70-30-4k")
            or (target, workload, block) == ("disk", "randread-4k-qd1", 1)
        ),
    )


def one(rows: tuple[CellFigure, ...], target: str, workload: str, op: Op) -> CellFigure:
    return next(row for row in rows if (row.target, row.workload, row.op) == (target, workload, op))


def test_one_row_per_cell_and_operation(run: Run) -> None:
    rows = figures(run, ())
    per_target = [
        ("randread-4k-qd1", "read"), ("randwrite-4k-qd1", "write"), ("mixed-70-30-4k", "read"),
        ("mixed-70-30-4k", "write"), ("mixed-70-30-4k", "total"), ("sequential-1m", "write"),
        ("sequential-1m", "read"),
    ]  # fmt: skip
    assert [(row.workload, row.op) for row in rows] == per_target * 2


def test_iops_is_the_median_and_percentiles_come_from_all_ios(run: Run) -> None:
    row = one(figures(run, ()), "disk", "randwrite-4k-qd1", Op.WRITE)
    stored = [
        measurement
        for measurement in run.measurements()
        if (measurement.target, measurement.workload) == ("disk", "randwrite-4k-qd1")
    ]
    iops = [one.value for one in stored if one.metric is Metric.IOPS]
    assert row.metric(Metric.IOPS).value == median(v for v in iops if v is not None)
    merged = LatencyHistogram.merged([one.histogram for one in stored if one.histogram])
    assert row.metric(Metric.LATENCY_P99).value == merged.quantile_s(0.99)
    assert row.ios == merged.count
    assert row.metric(Metric.IOPS).interval is None


def test_a_cell_without_a_completed_trial_is_missing(run: Run) -> None:
    row = one(figures(run, ()), "memory", "mixed-70-30-4k", Op.TOTAL)
    assert row.missing
    assert (row.completed, row.planned) == (0, 3)
    assert all(metric.value is None for metric in row.metrics)
    assert row.metric(Metric.IOPS).absence is Absence.NO_COMPLETED_TRIAL


def test_a_failed_trial_is_not_counted(run: Run) -> None:
    row = one(figures(run, ()), "disk", "randread-4k-qd1", Op.READ)
    assert (row.completed, row.planned) == (2, 3)
    assert len(row.metric(Metric.IOPS).trials) == 2


def test_doubts_reach_the_numbers_they_concern(run: Run) -> None:
    rows = figures(run, some_findings())
    bad = one(rows, "memory", "randread-4k-qd1", Op.READ)
    assert bad.metric(Metric.IOPS).findings == ("cache-served-reads", "client-saturated")
    assert bad.metric(Metric.IOPS).severity is Severity.ERROR
    write = one(rows, "disk", "randwrite-4k-qd1", Op.WRITE)
    assert write.metric(Metric.IOPS).findings == ("client-saturated",)
    assert "latency-tail" in write.metric(Metric.LATENCY_P99).findings
    read = one(rows, "disk", "sequential-1m", Op.READ)
    assert "not-steady" not in read.metric(Metric.IOPS).findings


def test_a_trials_finding_reaches_its_cell_and_a_part_reaches_the_total(run: Run) -> None:
    cell = next(
        index
        for index, cell in enumerate(run.plan.cells)
        if (cell.target, cell.workload.name) == ("disk", "mixed-70-30-4k")
    )
    trial = next(trial.id for trial in run.plan.trials if trial.cell == cell)
    finding = Finding(
        code="short-runtime", severity=Severity.WARNING, trial=trial, op=Op.READ,
        message="Short.", remedy="Longer.",
    )  # fmt: skip
    touched = [
        (row.target, row.workload, row.op)
        for row in figures(run, [finding])
        if "short-runtime" in row.metric(Metric.IOPS).findings
    ]
    assert touched == [("disk", "mixed-70-30-4k", op) for op in (Op.READ, Op.TOTAL)]


def test_six_trials_have_an_interval(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_plan(["disk"], repeats=6), inventory=False)
    metric = figures(run, ())[0].metric(Metric.IOPS)
    assert metric.interval == (metric.low, metric.high)


def own_job_file(folder: Path) -> Plan:
    """A plan with a job file of two sections, write and read."""
    job_file = RECORDED / "disk" / "sequential-1m" / "1" / "job.fio"
    path = folder / "plan.yaml"
    workload = f"{{name: mine, job_file: {job_file}}}"
    path.write_text(f"targets: [dir:/x]\nseed: 1\nrepeats: 2\nworkloads: [{workload}]\n")
    return load_plan(path, Overrides())


def test_sections_of_a_job_file_are_rows_of_their_own(tmp_path: Path) -> None:
    run = make_run(tmp_path, own_job_file(tmp_path), recorded_as=lambda _: "sequential-1m")
    whole = Finding(
        code="not-steady", severity=Severity.WARNING, workload="mine", message="m", remedy="r"
    )
    part = replace(whole, code="short-runtime", workload="mine/read")
    rows = figures(run, [whole, part])
    assert [(row.workload, row.planned_workload, row.op, row.completed) for row in rows] == [
        ("mine/read", "mine", Op.READ, 2),
        ("mine/write", "mine", Op.WRITE, 2),
    ]
    assert [row.metric(Metric.IOPS).findings for row in rows] == [
        ("not-steady", "short-runtime"),
        ("not-steady",),
    ]
    page = markdown.render(run_document(run, rows, (whole, part)))
    assert "mine/read" in page
    assert "write\\_iops\\_log" not in page, "a job file is shown as it is"
    assert "write_iops_log" in page


def test_a_job_file_that_never_ran_is_one_missing_row(tmp_path: Path) -> None:
    run = make_run(tmp_path, own_job_file(tmp_path), fails=lambda *_: True)
    (row,) = figures(run, ())
    assert (row.workload, row.op, row.missing) == ("mine", None, True)
    shown = show_output(run, (row,)).measurements
    assert {(one.op, one.value, one.trials) for one in shown} == {(None, None, 0)}


def as_trials(values: list[float]) -> list[TrialValue]:
    return [TrialValue(trial=f"t{index}", value=value) for index, value in enumerate(values)]


@given(numbers, st.randoms(use_true_random=False))
def test_order_of_trials_does_not_matter(values: list[float], generator: random.Random) -> None:
    trials = as_trials(values)
    shuffled = list(trials)
    generator.shuffle(shuffled)
    ours, theirs = (summarise(Metric.IOPS, part, None) for part in (trials, shuffled))
    assert (ours.value, ours.interval, ours.low, ours.high) == (
        theirs.value, theirs.interval, theirs.low, theirs.high,
    )  # fmt: skip
    assert set(ours.trials) == set(theirs.trials)


@given(numbers, st.integers(-10, 10))
def test_scale(values: list[float], power: int) -> None:
    factor = 2.0**power
    ours = summarise(Metric.IOPS, as_trials(values), None)
    theirs = summarise(Metric.IOPS, as_trials([value * factor for value in values]), None)
    assert ours.value is not None
    assert theirs.value == ours.value * factor
    assert theirs.spread == ours.spread


@given(st.lists(bins, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_percentiles_are_of_all_ios_together(
    parts: list[dict[int, int]], generator: random.Random
) -> None:
    histograms = [LatencyHistogram.from_bins(part) for part in parts]
    every = np.sort(np.concatenate([np.array(list(part)) for part in parts]))
    merged = LatencyHistogram.merged(histograms)
    generator.shuffle(histograms)
    again = LatencyHistogram.merged(histograms)
    trials = as_trials([1.0] * len(parts))
    figure = summarise(Metric.LATENCY_P50, trials, merged)
    assert figure.value == summarise(Metric.LATENCY_P50, trials, again).value
    if figure.value is not None:
        assert every[0] / 1e9 <= figure.value <= every[-1] / 1e9


def test_too_few_ios_leave_a_percentile_out() -> None:
    few = LatencyHistogram.from_bins({1000: 999})
    figure = summarise(Metric.LATENCY_P99, as_trials([1.0]), few)
    assert figure.value is None
    assert (figure.absence, figure.ios) == (Absence.TOO_FEW_IOS, 999)
    assert summarise(
        Metric.LATENCY_P99, as_trials([1.0]), LatencyHistogram.from_bins({1: 1000})
    ).value
