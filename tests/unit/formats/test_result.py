"""Figures of entries that belong together, and those that no user reported."""

from __future__ import annotations

import pytest

from leadline.formats.result import JobOptions, JobResult, Latency, Operation, by_name, summed
from leadline.metrics import Metric, Op

NO_OPTIONS = JobOptions(raw={})


def job(name: str, *operations: Operation) -> JobResult:
    return JobResult(name=name, options=NO_OPTIONS, operations=operations)


def test_entries_of_one_name_are_added_up() -> None:
    latency = Latency(min_s=1.0, max_s=3.0, mean_s=2.0, stddev_s=0.0, count=10)
    slower = Latency(min_s=2.0, max_s=6.0, mean_s=4.0, stddev_s=0.0, count=30)
    read = Operation(op=Op.READ, iops=10.0, total_ios=10, runtime_s=1.0, total=latency)
    other = Operation(op=Op.READ, iops=30.0, total_ios=30, runtime_s=1.1, total=slower)
    (added,) = by_name([job("a", read), job("a", other)])["a"]
    assert (added.iops, added.total_ios, added.runtime_s) == (40.0, 40, 1.1)
    assert added.total is not None
    assert (added.total.mean_s, added.total.min_s, added.total.max_s) == (3.5, 1.0, 6.0)
    assert added.total.stddev_s == pytest.approx((10 * 1.5**2 + 30 * 0.5**2) ** 0.5 / 40**0.5)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    one = Operation(op=Op.READ, iops=10.0, bandwidth_bps=1.0)
    other = Operation(op=Op.READ, iops=None, bandwidth_bps=2.0)
    added = summed(Op.READ, [one, other])
    assert (added.iops, added.bandwidth_bps) == (None, 3.0)


def test_reads_and_writes_have_a_total_only_where_one_job_did_both() -> None:
    read, write = Operation(op=Op.READ, iops=1.0), Operation(op=Op.WRITE, iops=2.0)
    apart = by_name([job("a", read), job("a", write)])["a"]
    assert [one.op for one in apart] == [Op.READ, Op.WRITE]
    mixed = by_name([job("a", read, write), job("a", read, write)])["a"]
    assert [(one.op, one.iops) for one in mixed] == [
        (Op.READ, 2.0),
        (Op.WRITE, 4.0),
        (Op.TOTAL, 6.0),
    ]


def test_a_total_that_the_file_gives_is_not_made_again() -> None:
    reported = Operation(op=Op.TOTAL, iops=5.0)
    (name,) = by_name([job("a", Operation(op=Op.READ, iops=1.0), reported)]).values()
    assert [(one.op, one.iops) for one in name] == [(Op.READ, 1.0), (Op.TOTAL, 5.0)]


def test_percentiles_are_those_printed_where_there_is_no_histogram() -> None:
    completion = Latency(mean_s=0.9, percentiles={0.5: 0.8, 0.99: 2.0, 0.999: 5.0})
    reported = Operation(op=Op.READ, iops=1.0, total_ios=5_000, completion=completion)
    metrics = reported.metrics()
    assert metrics[Metric.LATENCY_P50] == 0.8
    assert metrics[Metric.LATENCY_P99] == 2.0
    assert metrics[Metric.LATENCY_P999] is None, "of 5,000 I/Os, five lie beyond it"
    assert metrics[Metric.LATENCY_P95] is None, "it was not printed"
    total = Latency(mean_s=1.0, percentiles={0.5: 0.85})
    both = Operation(op=Op.READ, total=total, completion=completion)
    assert both.metrics()[Metric.LATENCY_P50] == 0.85
    assert both.metrics()[Metric.LATENCY_MEAN] == 1.0
    assert both.metrics()[Metric.LATENCY_P999] == 5.0, "the number of I/Os is unknown"


def test_options_that_no_user_reported_are_unknown() -> None:
    silent = JobOptions(raw={"rw": "randread"}, whole=False)
    assert (silent.engine, silent.iodepth, silent.numjobs, silent.direct) == (None,) * 4
    whole = JobOptions(raw={"rw": "randread"})
    assert (whole.engine, whole.iodepth, whole.numjobs, whole.direct) == ("psync", 1, 1, False)
    assert JobOptions(raw={"buffered": "0"}, whole=False).direct is True


@pytest.mark.parametrize(
    ("engine", "asked", "taken"),
    [("io_uring", 10, 16), ("io_uring", 16, 16), ("io_uring", 1, 1), ("libaio", 10, 10)],
)
def test_io_uring_rounds_the_depth_up(engine: str, asked: int, taken: int) -> None:
    options = JobOptions(raw={"ioengine": engine, "iodepth": str(asked)})
    assert options.iodepth == asked
    assert options.queue_depth == taken
