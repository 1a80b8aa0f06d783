from __future__ import annotations

import pytest

from leadline.formats.foreign.sibench import IMPORTER, parse_sibench
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

TEXT = (IMPORTS / "sibench" / "rados.txt").read_bytes()
TOTALS = TEXT[TEXT.index(b"Total Write") :]


def test_totals_are_of_the_seconds_between_the_ramps() -> None:
    write, read = parse_sibench(TEXT)
    assert (write.workload, read.workload) == ("write", "read")
    operation = only(write)
    assert (operation.op, operation.total_ios, operation.runtime_s) == (Op.WRITE, 1485, 15)
    assert operation.iops == 1485 / 15
    # 792.0 Mb/s are powers of 1024, of bits: 1 MiB for each operation.
    assert operation.bandwidth_bps == pytest.approx(792 * 2**20 / 8)
    assert operation.bandwidth_bps / operation.iops == pytest.approx(1 << 20)
    latency = latency_of(operation)
    assert (latency.min_s, latency.mean_s, latency.max_s) == pytest.approx((0.01, 0.02, 0.282))
    assert latency.percentiles == pytest.approx({0.95: 0.029})
    assert only(read).iops == 7470 / 15
    assert job_of(write).options.raw == {}


def test_rates_over_time_are_those_behind_the_ramp_up() -> None:
    write, _ = parse_sibench(TEXT)
    windows = write.windows[Op.WRITE]
    assert len(windows) == 15
    assert (windows[0].end_s, windows[-1].end_s) == (1, 15)
    assert sum(window.value for window in windows) == 1485


def test_totals_alone_have_no_rate() -> None:
    write, _ = parse_sibench(TOTALS)
    assert only(write).iops is None
    assert only(write).bandwidth_bps == pytest.approx(792 * 2**20 / 8)
    assert not write.windows


def test_failed_operations_are_reported() -> None:
    failed = TEXT.replace(b"ok:   1485,  fail:      0", b"ok:   1485,  fail:     15")
    write, read = parse_sibench(failed)
    (note,) = output_of(write).notes
    assert (note.kind, note.fact) == (NoteKind.FAILED_OPERATIONS, "1.0% of the writes failed")
    assert not output_of(read).notes


def test_reads_and_writes_at_the_same_time_are_one_result() -> None:
    seconds = b"".join(
        b"%d: [Write] ops: 10,  bw: 80.0 Mb/s,  ofail: 0,  vfail: 0 "
        b"[Read] ops: 30,  bw: 240.0 Mb/s,  ofail: 0,  vfail: 0\n" % second
        for second in range(5)
    )
    (mixed,) = parse_sibench(seconds + TOTALS)
    assert mixed.workload == "mixed"
    write, read = job_of(mixed).operations
    assert (write.iops, read.iops) == (1485 / 5, 7470 / 5)


def test_several_runs_in_a_text() -> None:
    assert [result.workload for result in parse_sibench(TEXT + TEXT)] == ["write", "read"] * 2


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"\n", "empty-result", "empty"),
        (b"nothing\n", "unreadable-result", "no run"),
        (TEXT.replace(b"res-min:", b"min:"), "unreadable-result", "a total"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as error:
        parse_sibench(content)
    assert error.value.condition == condition
    assert fact in error.value.fact


def test_a_run_that_is_cut_off() -> None:
    (result,) = parse_sibench(TEXT[: TEXT.index(b"Target[")])
    assert refused(result).condition == "truncated-result"


def test_a_run_in_which_nothing_succeeded() -> None:
    write, _ = parse_sibench(
        TEXT.replace(b"ok:   1485,  fail:      0", b"ok:      0,  fail:   1485")
    )
    assert refused(write).condition == "empty-result"


def test_its_files_are_recognised() -> None:
    assert IMPORTER.recognises("any", TEXT)
    assert IMPORTER.recognises("any", TOTALS)
    assert not IMPORTER.recognises("any", b"0: [Write] ops\n")
