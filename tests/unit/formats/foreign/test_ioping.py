"""ioping: text, raw statistics and JSON of ioping 1.3, recorded on a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.formats.foreign.ioping import IMPORTER, parse_ioping
from leadline.formats.importer import Result
from leadline.formats.result import FormatError, NoteKind
from leadline.metrics import Op
from tests.unit.formats.foreign.samples import (
    IMPORTS,
    job_of,
    latency_of,
    only,
    output_of,
    refused,
    shared,
)

RECORDED = IMPORTS / "ioping"
FILES = sorted(path for path in RECORDED.iterdir() if path.suffix in (".txt", ".json"))
DIRECTORY = (RECORDED / "read-directory.txt").read_bytes()
JSON = (RECORDED / "requests.json").read_bytes()
BATCH = (RECORDED / "batch.txt").read_bytes()


def read(name: str) -> Result:
    (result,) = parse_ioping((RECORDED / name).read_bytes())
    return result


def latencies(result: Result) -> list[float | None]:
    latency = latency_of(only(result))
    return [latency.min_s, latency.mean_s, latency.max_s, latency.stddev_s]


def facts(result: Result) -> str:
    return "; ".join(note.fact for note in output_of(result).notes)


def test_the_text_without_pauses_has_a_rate_and_latencies() -> None:
    """7.19 k of 16 KiB in 2.00 s, and 7.19 k x 138.2 us = 0.99 in flight."""
    result = read("rapid-16k.txt")
    operation = only(result)
    assert (operation.op, operation.iops, operation.runtime_s) == (Op.READ, 7190, 2)
    assert operation.bandwidth_bps == pytest.approx(112.3 * 2**20)
    assert latencies(result) == pytest.approx([44.4e-6, 138.2e-6, 33.3e-3, 634.1e-6])
    assert operation.iops * 138.2e-6 == pytest.approx(1, abs=0.02)
    # 7.19 k requests of 112.4 MiB: both are rounded.
    assert job_of(result).options.size("bs") is None
    assert latency_of(operation).count is None
    assert not output_of(result).notes


def test_writes_and_sizes() -> None:
    write = read("rapid-sync-write.txt")
    assert (write.workload, only(write).op, only(write).iops) == ("write 4 KiB", Op.WRITE, 115)
    assert only(write).bandwidth_bps == pytest.approx(463.7 * 1024)
    assert latencies(write) == pytest.approx([392.9e-6, 8.68e-3, 20.3e-3, 4.85e-3])
    linear = read("rapid-linear.txt")
    assert job_of(linear).options.size("bs") == 256 << 10
    assert latency_of(only(linear)).count == 660
    assert job_of(read("write-direct-128k.txt")).options.size("bs") == 128 << 10


def test_one_request_is_in_flight() -> None:
    options = job_of(read("rapid-16k.txt")).options
    assert (options.iodepth, options.numjobs, options.direct, options.engine) == (1, 1, None, None)


@pytest.mark.parametrize(
    "name", ["read-directory.txt", "batch.txt", "requests.json", "interrupted.txt", "slow.txt"]
)
def test_a_run_with_pauses_has_no_rate(name: str) -> None:
    """ioping prints 1,176 iops for ten requests in 0.9 s: one over the latency."""
    result = read(name)
    assert only(result).iops is None
    assert only(result).bandwidth_bps is None
    assert "ioping paused" in facts(result)


def test_latencies_of_a_run_with_pauses() -> None:
    result = read("read-directory.txt")
    assert (result.workload, only(result).op) == ("read 4 KiB", Op.READ)
    assert latencies(result) == pytest.approx([99.1e-6, 1.02e-3, 2.91e-3, 1.14e-3])
    assert latency_of(only(result)).count == 9


def test_raw_statistics_are_nanoseconds() -> None:
    result = read("batch.txt")
    assert latencies(result) == pytest.approx([139196e-9, 850281e-9, 3077749e-9, 1163303e-9])
    assert latency_of(only(result)).count == 9
    assert only(result).runtime_s == pytest.approx(0.900336239)
    assert job_of(result).options.size("bs") == 4096
    assert only(result).op is Op.TOTAL
    assert "whether these requests read or wrote" in facts(result)


def test_the_line_of_the_whole_run_replaces_those_of_its_periods() -> None:
    assert latencies(read("periods-batch.txt"))[1] == pytest.approx(1545454e-9)
    assert latencies(read("periods.txt")) == pytest.approx([266.3e-6, 1.28e-3, 4.87e-3, 1.46e-3])
    # Two lines that are no sum are two runs.
    first, second = parse_ioping(
        BATCH + b"3 6022202 498 2040450 1729438 2007401 2553722 386327 4 151854196\n"
    )
    assert (latencies(first)[1], latencies(second)[1]) == pytest.approx((850281e-9, 2007401e-9))


def test_json() -> None:
    result = read("requests.json")
    assert (result.workload, only(result).op) == ("read 4 KiB", Op.READ)
    assert latencies(result) == pytest.approx([3656e-9, 143238e-9, 372673e-9, 152570e-9])
    assert latency_of(only(result)).count == 4
    rapid = read("rapid.json")
    assert only(rapid).iops == pytest.approx(27871.731762, abs=1e-5)
    assert only(rapid).bandwidth_bps == pytest.approx(114162613)
    assert latencies(rapid) == pytest.approx([550e-9, 34911e-9, 9660963e-9, 302852e-9])


def test_requests_of_both_directions_are_a_total() -> None:
    result = read("ping-pong.txt")
    assert (result.workload, only(result).op) == ("ping 4 KiB", Op.TOTAL)


def test_a_request_longer_than_the_maximum_is_reported() -> None:
    pasted = DIRECTORY.replace(b"request=3 time=", b"request=3 time=28.2 ms (slow)\n", 1)
    (result,) = parse_ioping(pasted)
    (note,) = [n for n in output_of(result).notes if n.kind is NoteKind.IMPOSSIBLE_VALUE]
    assert (note.where, "28.2 ms" in note.fact) == ("line 3", True)
    # Those that ioping ignored may be longer.
    (slow,) = parse_ioping((RECORDED / "slow.txt").read_bytes())
    assert not [n for n in output_of(slow).notes if n.kind is NoteKind.IMPOSSIBLE_VALUE]


def test_several_runs_in_a_text() -> None:
    both = DIRECTORY + b"\n" + (RECORDED / "rapid-sync-write.txt").read_bytes()
    assert [result.workload for result in parse_ioping(both)] == ["read 4 KiB", "write 4 KiB"]
    other = DIRECTORY.replace(b"--- . (", b"--- /dev/sdb (")
    assert [result.workload for result in parse_ioping(DIRECTORY + other)] == [
        *("read 4 KiB path=.", "read 4 KiB path=/dev/sdb")
    ]


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"\n", "empty-result", "empty"),
        (b"\xef\xbb\xbf", "empty-result", "no line"),
        (DIRECTORY[: DIRECTORY.index(b"---")], "truncated-result", "before its statistics"),
        (DIRECTORY[: DIRECTORY.index(b"generated")], "truncated-result", "cut off"),
        (DIRECTORY[: DIRECTORY.index(b" / ")], "truncated-result", "no line"),
        (DIRECTORY.replace(b"generated", b"made"), "unreadable-result", "'made 10 requests"),
        (JSON[: JSON.index(b'"mdev"')], "truncated-result", "cut off"),
        (b"[{}]", "truncated-result", "before its statistics"),
        (b"[]", "unreadable-result", "no line"),
        (JSON.replace(b'"mdev":', b'"sigma":'), "unreadable-result", "mdev"),
        (BATCH + b"hello\n", "unreadable-result", "hello"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as error:
        parse_ioping(content)
    assert error.value.condition == condition
    assert fact in error.value.fact


def test_no_request_is_an_empty_result() -> None:
    (result,) = parse_ioping(b"0 0 0 0 0 0 0 0 1 1000\n")
    assert refused(result).condition == "empty-result"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_its_files_are_recognised(path: Path) -> None:
    assert IMPORTER.recognises("any", path.read_bytes())


def test_the_beginning_of_its_json_is_recognised() -> None:
    assert IMPORTER.recognises("any", JSON[:200])


def test_numbers_of_other_tools_are_not() -> None:
    assert not IMPORTER.recognises("any", b"1 2 3 4 5 6 7 8 9 10\n")
    assert not IMPORTER.recognises("any", b"tank 1 2 3 4 5 6\n")


def test_the_corpus() -> None:
    first, other = parse_ioping(shared("ioping/epyc-87ms-tail.txt").read_bytes())
    assert (only(first).iops, latency_of(only(first)).max_s) == (23600, pytest.approx(87.9e-3))
    assert (only(other).iops, latency_of(only(other)).max_s) == (26800, pytest.approx(89.2e-6))
