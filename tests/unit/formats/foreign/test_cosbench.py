from __future__ import annotations

import pytest

from leadline.formats.foreign.cosbench import IMPORTER, parse_cosbench
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
)

RECORDED = IMPORTS / "cosbench"
WORKLOAD = (RECORDED / "w55-1cont_4kb.csv").read_bytes()
STAGE = (RECORDED / "s2-w(4)KB_c1_o1000_r80w15d5_1.csv").read_bytes()
GAP = b"09:46:35,0,0,N/A,N/A,0,0,N/A,10,10,10\n"


def notes(result: Result, kind: NoteKind) -> list[str]:
    return [f"{note.where}: {note.fact}" for note in output_of(result).notes if note.kind is kind]


def test_a_stage_of_a_workload() -> None:
    mixed, one, many = parse_cosbench(WORKLOAD)
    assert [result.workload[:3] for result in (mixed, one, many)] == ["s2-", "s4-", "s19"]
    operation = only(one)
    assert (operation.op, operation.iops, operation.bandwidth_bps) == (Op.WRITE, 34.34, 137365.95)
    assert (operation.total_ios, operation.io_bytes) == (20604, 82416000)
    latency = latency_of(operation)
    assert (latency.mean_s, latency.max_s) == (pytest.approx(29.02e-3), pytest.approx(0.4))
    assert latency.percentiles == pytest.approx(
        {0.6: 0.03, 0.8: 0.04, 0.9: 0.04, 0.95: 0.04, 0.99: 0.08}
    )
    # One worker: 34.34/s x 29.02 ms are one in flight. 512 workers: 578.61/s x 884.78 ms.
    assert only(one).iops * 29.02e-3 == pytest.approx(1, abs=0.01)
    assert only(many).iops * 884.78e-3 == pytest.approx(512, rel=0.001)
    options = job_of(one).options
    assert (options.size("bs"), options.numjobs, options.iodepth) == (4000, None, None)


def test_operations_of_one_stage_ran_at_the_same_time() -> None:
    mixed, *_ = parse_cosbench(WORKLOAD)
    read, write = job_of(mixed).operations
    assert (read.op, read.iops, write.op, write.iops) == (Op.READ, 74.45, Op.WRITE, 18.58)
    assert latency_of(read).mean_s == pytest.approx(2.75e-3)
    assert notes(mixed, NoteKind.LEFT_OUT)[:2] == [
        "line 2: prepare of the stage s1-prepare",
        "line 5: delete of the stage s2-w(4)KB_c1_o1000_r80w15d5_1",
    ]


def test_failed_operations_are_reported() -> None:
    mixed, one, _ = parse_cosbench(WORKLOAD)
    (fact,) = notes(mixed, NoteKind.FAILED_OPERATIONS)
    assert fact.startswith("line 3: 25.1% of the reads of the stage s2-w")
    assert not notes(one, NoteKind.FAILED_OPERATIONS)


def test_two_operations_of_one_kind_are_two_results() -> None:
    row = WORKLOAD.splitlines()[5].replace(b",write,write,", b",other,write,")
    names = [result.workload for result in parse_cosbench(WORKLOAD + row + b"\n")]
    assert names[1:3] == [
        "s4-w(4)KB_c1_o1000_r0w100d0_1 write",
        "s4-w(4)KB_c1_o1000_r0w100d0_1 other",
    ]


def test_a_stage_over_time() -> None:
    """The rates over 60 s are those of the whole stage (720 s): 74.45 and 18.58 per second."""
    (result,) = parse_cosbench(STAGE)
    read, write = job_of(result).operations
    assert (read.total_ios, write.total_ios) == (4411, 977)
    assert (read.iops, write.iops) == pytest.approx((4411 / 60, 977 / 60))
    assert read.bandwidth_bps == pytest.approx(4411 / 60 * 4000)
    assert latency_of(read).mean_s == pytest.approx(2.75e-3, rel=0.02)
    assert latency_of(write).mean_s == pytest.approx(32.25e-3, rel=0.07)
    assert job_of(result).options.size("bs") == 4000
    assert notes(result, NoteKind.LEFT_OUT)[0] == "line 13: an interval without figures"
    (fact,) = notes(result, NoteKind.FAILED_OPERATIONS)
    assert "12.6% of the reads failed" in fact
    assert not result.windows, "what was done in the gap is unknown"


def test_rates_over_time_of_a_stage_without_a_gap() -> None:
    (result,) = parse_cosbench(STAGE[: STAGE.index(GAP)])
    windows = result.windows[Op.READ]
    assert windows[:2] == ((5.0, 435 / 5), (10.0, 383 / 5))
    assert len(windows) == 9


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"\n", "empty-result", "empty"),
        (b"a,b\n", "unreadable-result", "no CSV"),
        (WORKLOAD.splitlines()[0], "empty-result", "no stage"),
        (WORKLOAD.replace(b"Succ-Ratio", b"Ratio"), "unreadable-result", "lacks Succ-Ratio"),
        (WORKLOAD.replace(b",74.45,", b",fast,"), "unreadable-result", "Throughput"),
        (WORKLOAD[: WORKLOAD.rindex(b",1000,0")], "truncated-result", "cells"),
        (STAGE[: STAGE.index(b"09:45:50")], "empty-result", "no interval"),
        (STAGE.splitlines()[0], "truncated-result", "two lines of heads"),
        (STAGE.replace(b"09:46:00", b"09:45:00"), "unreadable-result", "back in time"),
        (STAGE.replace(b"09:46:00,", b"noon,"), "unreadable-result", "no row"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as error:
        parse_cosbench(content)
    assert error.value.condition == condition
    assert fact in error.value.fact


def test_a_stage_in_which_nothing_succeeded() -> None:
    failed = WORKLOAD.replace(
        b",20604,82416000,29.02,29.02,30,40,40,40,80,400,34.34,137365.95,100%",
        b",0,0,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,0,0,0%",
    )
    assert refused(parse_cosbench(failed)[1]).condition == "empty-result"


def test_its_files_are_recognised() -> None:
    assert IMPORTER.recognises("any", WORKLOAD)
    assert IMPORTER.recognises("any", STAGE)
    assert not IMPORTER.recognises("any", b"Timestamp,Op-Count,x\n")
