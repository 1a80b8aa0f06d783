from __future__ import annotations

from collections.abc import Mapping

import pytest

from leadline.formats.fio.logs_import import IMPORTER
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, Operation
from leadline.metrics import Op
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "imports" / "fio-log"


def recorded(*starts: str) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for start in starts
        for path in sorted(RECORDED.glob(f"{start}*.log"))
    }


def reported(result: Result) -> tuple[Mapping[Op, Operation], str]:
    """Operations by direction, and the notes as one text."""
    assert isinstance(result.output, EngineOutput)
    (job,) = result.output.jobs
    notes = "\n".join(f"{note.where}: {note.fact}" for note in result.output.notes)
    return {operation.op: operation for operation in job.operations}, notes


def test_logs_of_one_stem_are_one_bundle() -> None:
    names = ["a/x_iops.1.log", "a/x_iops.2.log", "b/x_bw.log", "a/x_clat_hist.1.log", "readme"]
    assert IMPORTER.bundles(names) == (
        ("a/x_iops.1.log", "a/x_iops.2.log", "a/x_clat_hist.1.log"),
        ("b/x_bw.log",),
        ("readme",),
    )


def test_fio_plots_logs() -> None:
    """40, 40, 24 ... IOPS of 4 KiB in 240 lines of 250 ms. That 22766065 in the latency log are
    nanoseconds nothing in these files proves."""
    (result,) = IMPORTER.read(recorded("fioplot-raid5"))
    operations, notes = reported(result)
    read = operations[Op.READ]
    assert set(operations) == {Op.READ}
    assert result.workload == "fioplot-raid5-randread-iodepth-1-numjobs-16"
    assert read.iops == pytest.approx(52.2, abs=0.1)
    assert read.bandwidth_bps == pytest.approx(52.2 * 4096, rel=0.005)
    assert (read.runtime_s, read.total_ios) == (60.0, None)
    assert (read.submission, read.completion, read.total) == (None, None, None)
    assert "in us (fio 2) or ns (fio 3)" in notes
    assert len(result.windows[Op.READ]) == 60
    # 40 for 249 ms, 40 for 251, 24 for 250, and what is in the fourth line.
    assert result.windows[Op.READ][0].value == pytest.approx(39.0, abs=0.1)


def test_a_late_first_line() -> None:
    (result,) = IMPORTER.read(recorded("fioplot-ceph-hdd"))
    operations, notes = reported(result)
    # The lines add up to 3069, each of half a second in 60.
    assert operations[Op.WRITE].iops == pytest.approx(3069 / 2 / 60, rel=0.01)
    assert "intervals have no line" in notes
    assert [window.value for window in result.windows[Op.WRITE][:2]] == [0, 0]


def test_both_directions_in_five_columns() -> None:
    (result,) = IMPORTER.read(recorded("stonet"))
    operations, notes = reported(result)
    assert set(operations) == {Op.READ, Op.WRITE}
    assert notes == ""
    assert result.workload == "stonet-kyber"
    first = result.windows[Op.READ][0], result.windows[Op.WRITE][0]
    assert [round(window.value) for window in first] == [137495, 136671]
    assert len(result.windows[Op.READ]) == 480


def test_intervals_with_histograms() -> None:
    """fio's JSON of this run: 199.93 reads and 99.97 writes per second of 4 KiB."""
    (result,) = IMPORTER.read(recorded("own-3.33-s"))
    operations, notes = reported(result)
    read, write = operations[Op.READ], operations[Op.WRITE]
    assert read.iops == pytest.approx(199.93, rel=0.01)
    assert write.iops == pytest.approx(99.97, rel=0.01)
    assert read.bandwidth_bps == pytest.approx(199.93 * 4096, rel=0.01)
    assert read.total is not None
    # (201 x 273764 + 200 x 250662 + 198 x 330954 + 202 x 228542 + 200 x 292681) / 1001 ns
    assert read.total.mean_s == pytest.approx(275.1e-6, abs=0.1e-6)
    assert (read.total.count, read.total.max_s) == (None, None)
    assert read.completion is not None
    assert read.completion.histogram is not None
    # log_hist_coarseness=2: the buckets are too wide for a mean.
    assert read.completion.mean_s is None
    assert "log_max_value" in notes


def test_every_io_gives_what_fio_itself_gives() -> None:
    (result,) = IMPORTER.read(recorded("own-3.33-p"))
    operations, notes = reported(result)
    read = operations[Op.READ]
    assert notes == ""
    assert (read.total_ios, read.io_bytes, read.iops) == (64, 64 * 4096, 64 / 0.004)
    assert read.total is not None
    assert read.total.count == 64
    assert (read.total.min_s, read.total.max_s) == (
        pytest.approx(60200e-9),
        pytest.approx(564653e-9),
    )
    assert read.total.mean_s == pytest.approx(231610.296875e-9)
    assert read.total.stddev_s == pytest.approx(57161.423589e-9)


def test_jobs_that_do_not_do_the_same_are_not_added() -> None:
    """perfkit's four logs are four different jobs, reported by nothing but their directions."""
    first, third = IMPORTER.read(recorded("pkb"))
    assert (first.workload, third.workload) == ("pkb-2.17.1", "pkb-2.17.3")
    read, write = reported(first)[0][Op.READ], reported(third)[0][Op.WRITE]
    assert read.completion is not None
    assert write.completion is not None
    assert read.completion.quantile_s(0.5) == pytest.approx(94e-6)
    assert write.completion.quantile_s(0.5) == pytest.approx(540e-6, rel=0.02)
    assert (read.iops, read.total_ios) == (None, None)


def test_processes_of_a_job_are_added_with_a_note() -> None:
    line = b"1000, 10, 0, 0\n2000, 10, 0, 0\n"
    (result,) = IMPORTER.read({"x_iops.1.log": line, "x_iops.2.log": line})
    operations, notes = reported(result)
    assert operations[Op.READ].iops == 20
    assert [window.value for window in result.windows[Op.READ]] == [20, 20]
    assert "2 jobs are summed" in notes


def test_an_empty_log_next_to_others_leaves_no_sum() -> None:
    line = b"1000, 10, 0, 0\n2000, 10, 0, 0\n"
    (result,) = IMPORTER.read({"x_iops.1.log": line, "x_iops.2.log": b"", "x_bw.1.log": line})
    operations, notes = reported(result)
    assert operations[Op.READ].iops is None
    assert operations[Op.READ].bandwidth_bps is None
    assert "x_iops.2.log: empty" in notes
    assert "job 2 has none" in notes
    assert result.windows == {}


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(FormatError) as empty:
        IMPORTER.read({"x_iops.1.log": b"", "x_bw.1.log": b"\n"})
    assert empty.value.condition == "empty-result"
    with pytest.raises(FormatError, match="does not say"):
        IMPORTER.read({"x.log": b"1000, 1, 0, 0\n"})
    with pytest.raises(FormatError) as broken:
        IMPORTER.read({"x_iops.1.log": b"1000, 1, 0, 0\n", "x_bw.1.log": b"1000, 1, 0, 0\nx\n"})
    assert "x_bw.1.log" in broken.value.fact
    assert "line 2" in broken.value.context[0]


def test_files_are_recognised_by_name_and_first_line() -> None:
    assert IMPORTER.recognises("a/x_iops.1.log", b"1000, 1, 0, 0\n")
    assert IMPORTER.recognises(
        "a/x_clat_hist.1.log", RECORDED.joinpath("pkb-2.17_clat_hist.1.log").read_bytes()[:65536]
    )
    assert IMPORTER.recognises("x_bw.log", b"")
    assert not IMPORTER.recognises("x.log", b"1000, 1, 0, 0\n")
    assert not IMPORTER.recognises("x_iops.1.log", b"hello\n")
