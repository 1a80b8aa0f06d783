from __future__ import annotations

import pytest

from leadline.formats.foreign.warp import IMPORTER, parse_warp
from leadline.formats.result import FormatError, NoteKind
from leadline.metrics import Op
from tests.unit.formats.foreign.samples import (
    IMPORTS,
    job_of,
    latency_of,
    only,
    output_of,
    refused,
)

RECORDED = IMPORTS / "warp"
GET = (RECORDED / "get.txt").read_bytes()
MIXED = (RECORDED / "mixed.txt").read_bytes()
OLD = (RECORDED / "analyze-old.txt").read_bytes()
SERIES = (RECORDED / "mixed-analyze.csv").read_bytes()


def test_a_benchmark_of_one_operation() -> None:
    (result,) = parse_warp(GET)
    operation = only(result)
    assert (result.workload, operation.op, operation.iops) == ("GET", Op.READ, 112)
    assert operation.bandwidth_bps == 112 << 20
    assert operation.runtime_s == 4 * 60 + 57
    latency = latency_of(operation)
    assert (latency.min_s, latency.mean_s, latency.max_s, latency.stddev_s) == pytest.approx(
        (0.1018, 0.571, 2.1265, 0.2297)
    )
    assert latency.percentiles == pytest.approx({0.5: 0.5256, 0.9: 0.8804, 0.99: 1.3153})
    options = job_of(result).options
    assert (options.numjobs, options.iodepth, options.size("bs")) == (64, 1, None)
    # 112 x 571 ms are the 64 that were asked for.
    assert operation.iops * 0.571 == pytest.approx(64, abs=0.1)
    assert not output_of(result).notes


def test_operations_of_a_mixed_benchmark_share_its_concurrency() -> None:
    (result,) = parse_warp(MIXED)
    read, write = job_of(result).operations
    assert result.workload == "mixed"
    assert (read.op, read.iops, write.op, write.iops) == (Op.READ, 45, Op.WRITE, 15)
    assert read.bandwidth_bps == 45 << 20
    assert latency_of(write).percentiles[0.99] == pytest.approx(1.5533)
    assert job_of(result).options.numjobs is None
    assert [(note.where, note.fact) for note in output_of(result).notes] == [
        ("line 3", "DELETE of the benchmark"),
        ("line 37", "STAT of the benchmark"),
        ("line 43", "TOTAL of the benchmark"),
    ]


def test_the_text_of_older_versions() -> None:
    put, get = parse_warp(OLD)
    assert (put.workload, only(put).op, only(put).iops) == ("PUT", Op.WRITE, 702)
    assert only(put).bandwidth_bps == pytest.approx(2.68 * 2**20)
    assert job_of(put).options.size("bs") == 4000
    assert (job_of(put).options.numjobs, only(put).runtime_s) == (60, 27)
    assert latency_of(only(get)).max_s == pytest.approx(1.422)
    assert latency_of(only(get)).percentiles == pytest.approx({0.5: 2e-3, 0.9: 5e-3, 0.99: 8e-3})


def test_a_mixed_benchmark_before_there_was_a_total() -> None:
    text = b"""Mixed operations.
Operation: GET - total: 6000, 45.0%, Concurrency: 20, Duration: 4m2s, starting 2021-06-04
 * 630.00 MiB/s, 350.00 obj/s (59.993s, starting 07:44:05 PST) (45.0% of operations)
Requests considered: 6368:
 * Avg: 1.024s, 50%: 30ms, 90%: 1m1.5s, 99%: 1.46s, Fastest: 15ms, Slowest: 2.5s
Operation: PUT - total: 2000, 15.0%, Concurrency: 20, Duration: 4m2s, starting 2021-06-04
 * 200.00 MiB/s, 110.00 obj/s (59.994s, starting 07:44:05 PST) (15.0% of operations)
"""
    (result,) = parse_warp(text)
    read, write = job_of(result).operations
    assert (read.iops, read.runtime_s, write.iops) == (350, 242, 110)
    assert latency_of(read).mean_s == pytest.approx(1.024)
    assert latency_of(read).percentiles[0.9] == pytest.approx(61.5)
    assert write.total is None
    assert job_of(result).options.numjobs is None


def test_several_benchmarks_in_a_text() -> None:
    assert [result.workload for result in parse_warp(GET + b"\n" + GET + MIXED)] == [
        *("GET", "GET", "mixed")
    ]


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"\n", "empty-result", "empty"),
        (b"nothing\n", "unreadable-result", "no report"),
        (MIXED[MIXED.index(b"Report: STAT") :], "empty-result", "STAT"),
        (GET.replace(b"112.00 MiB/s", b"112.00 QiB/s"), "unreadable-result", "'QiB'"),
        (GET.replace(b"571.0ms", b"571..0ms"), "unreadable-result", "571..0"),
        (GET.replace(b" obj/s\n * Reqs", b" obj\n * Reqs"), "unreadable-result", "an average"),
        (GET[: GET.index(b" obj/s")], "truncated-result", "an average"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as error:
        parse_warp(content)
    assert error.value.condition == condition
    assert fact in error.value.fact


def test_a_report_that_is_cut_off() -> None:
    (result,) = parse_warp(GET[: GET.index(b" * Average")])
    assert refused(result).condition == "truncated-result"


def test_an_impossible_figure_is_left_out_and_reported() -> None:
    (result,) = parse_warp(GET.replace(b", 112.00 obj/s", b", " + b"9" * 40 + b" obj/s"))
    assert only(result).iops is None
    assert [note.kind for note in output_of(result).notes] == [NoteKind.IMPOSSIBLE_VALUE]


def test_its_files_are_recognised() -> None:
    assert all(IMPORTER.recognises("any", content) for content in (GET, MIXED, OLD))
    assert not IMPORTER.recognises("any", b"Report: GET\n")
    assert not IMPORTER.recognises("any", b"5 obj/s\n")


# --- the time series of --analyze.out ------------------------------------------------------------


def test_a_time_series_of_a_mixed_benchmark() -> None:
    """Three segments of a second: 90, 100 and 110 GETs, 30, 32 and 28 PUTs of 1 MiB."""
    assert IMPORTER.recognises("x.csv", SERIES)
    (result,) = parse_warp(SERIES)
    read, write = job_of(result).operations
    assert result.workload == "mixed"
    assert (read.op, read.iops, write.op, write.iops) == (Op.READ, 100, Op.WRITE, 30)
    assert (read.total_ios, read.bandwidth_bps, read.runtime_s) == (300, 100 << 20, 3)
    assert [(window.end_s, window.value) for window in result.windows[Op.WRITE]] == [
        (1, 30),
        (2, 32),
        (3, 28),
    ]
    facts = [note.fact for note in output_of(result).notes]
    assert facts == ["the segments of a single host"] * 2 + ["STAT of the benchmark"]


def test_operations_one_after_the_other_are_results_of_their_own() -> None:
    later = SERIES.split(b"index\t")
    put = later[4].replace(b" 10:00:", b" 10:07:")
    get, put_result = parse_warp(b"index\t" + later[1] + b"index\t" + put)
    assert (get.workload, only(get).iops) == ("GET", 100)
    assert (put_result.workload, only(put_result).iops) == ("PUT", 30)


def test_a_time_series_with_one_host_and_with_errors() -> None:
    one = SERIES.split(b"index\t")[2]
    failed = b"index\t" + one.replace(b"\t45\t0\t", b"\t45\t5\t")
    (result,) = parse_warp(failed)
    assert only(result).iops == 50
    (note,) = output_of(result).notes
    assert (note.kind, note.fact) == (NoteKind.FAILED_OPERATIONS, "5 of 150 GETs failed")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\t90\t0\t", b"\tmany\t0\t"),
        (b"UTC\n1\tPUT", b"UTC\n1"),
        (b"UTC\nindex\top\thost", b"UTC\nindex\tkind\thost"),
        (b"GET\t\t", b"GET\thttp://10.0.0.3:9000\t"),
    ],
)
def test_time_series_that_are_refused(old: bytes, new: bytes) -> None:
    assert old in SERIES
    with pytest.raises(FormatError) as found:
        parse_warp(SERIES.replace(old, new))
    assert found.value.condition == "unreadable-result"
    assert found.value.context[0].startswith("line ")


def test_other_operations_of_a_time_series_are_left_out() -> None:
    (result,) = parse_warp(SERIES.replace(b"GET", b"LIST"))
    assert result.workload == "PUT"
