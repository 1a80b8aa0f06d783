from __future__ import annotations

import pytest

from leadline.formats.foreign.vdbench import IMPORTER, parse_vdbench
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

RECORDED = IMPORTS / "vdbench"
RAW = (RECORDED / "raw" / "flatfile.html").read_bytes()
FILES = (RECORDED / "files" / "flatfile.html").read_bytes()
OLD = (RECORDED / "old" / "flatfile.html").read_bytes()
SUMMARY = (RECORDED / "raw" / "summary.html").read_bytes()
_MIB = 1 << 20


def by_name(content: bytes) -> dict[str, Result]:
    return {one.workload: one for one in parse_vdbench(content)}


def test_the_average_of_a_mixed_run_is_split_by_the_share_of_reads() -> None:
    mixed = by_name(RAW)["mixed"]
    read, write = job_of(mixed).operations
    assert (read.op, read.iops, write.op, write.iops) == (Op.READ, 512, Op.WRITE, 512)
    assert read.bandwidth_bps == write.bandwidth_bps == 0.5 * _MIB
    assert latency_of(read).mean_s == pytest.approx(15.2e-6)
    assert latency_of(read).max_s == pytest.approx(63e-6)
    assert latency_of(write).mean_s == pytest.approx(37.2e-6)
    assert latency_of(write).stddev_s == pytest.approx(25.5e-6)
    # Intervals 2 and 3 of a second each, on both sides of midnight.
    assert job_of(mixed).job_runtime_s == 2


def test_options_are_those_asked_for() -> None:
    found = by_name(RAW)
    mixed, full = (
        job_of(found["mixed"]).options,
        job_of(found["full xfersize=4096 seekpct=0"]).options,
    )
    assert (mixed.pattern, mixed.size("bs"), mixed.numjobs, mixed.iodepth) == ("randrw", 1024, 8, 1)
    assert (mixed.text("rwmixread"), mixed.text("rate_iops")) == ("75", "1024")
    assert (full.pattern, full.size("bs"), full.numjobs) == ("read", 4096, 16)
    assert "rate_iops" not in full.raw
    assert full.direct is None


def test_each_interval_that_counts_is_a_window() -> None:
    windows = by_name(RAW)["mixed"].windows
    assert [(one.end_s, one.value) for one in windows[Op.READ]] == [(1, 750), (2, 262)]
    assert [one.value for one in windows[Op.WRITE]] == [250, 786]


def test_runs_of_one_name_are_named_by_what_differs() -> None:
    assert list(by_name(RAW)) == [
        *("mixed", "full xfersize=4096 seekpct=0", "full xfersize=8192 seekpct=30")
    ]


def test_a_run_without_an_average_did_not_end() -> None:
    last = by_name(RAW)["full xfersize=8192 seekpct=30"]
    assert refused(last).condition == "truncated-result"
    assert refused(last).context == ("line 17",)


def test_laying_files_out_is_no_measurement_and_is_reported() -> None:
    for content, name in ((RAW, "SD_format"), (FILES, "format_for_rd1")):
        first, *_ = parse_vdbench(content)
        (note,) = output_of(first).notes
        assert note.kind is NoteKind.LEFT_OUT
        assert name in note.fact


def test_file_system_workloads_report_reads_and_writes() -> None:
    read, write = job_of(by_name(FILES)["rd1"]).operations
    assert (read.iops, write.iops) == (11500, 100)
    assert (read.bandwidth_bps, write.bandwidth_bps) == (45 * _MIB, 0.25 * _MIB)
    assert latency_of(read).mean_s == pytest.approx(80e-6)
    assert latency_of(write).mean_s == pytest.approx(250e-6)
    options = job_of(by_name(FILES)["rd1"]).options
    # `Xfersize` is the average of what was done here, and nothing reports the order.
    assert not {"bs", "rw"} & options.raw.keys()
    assert job_of(by_name(FILES)["rd1"]).job_runtime_s == 2


def test_columns_of_old_versions() -> None:
    found = by_name(OLD)["random_write_max_4k"]
    write = only(found)
    assert (write.op, write.iops, write.bandwidth_bps) == (Op.WRITE, 384, 1.5 * _MIB)
    assert latency_of(write).mean_s == pytest.approx(17.189e-3)
    assert latency_of(write).max_s == pytest.approx(1.464434)
    assert job_of(found).options.pattern == "randwrite"


def test_a_response_time_of_both_operations_is_given_to_neither() -> None:
    content = OLD.replace(b"4096     0.0000    17.1890", b"4096    50.0000    17.1890")
    found = by_name(content)["random_write_max_4k"]
    assert [one.total for one in job_of(found).operations] == [None, None]
    assert [note.kind for note in output_of(found).notes] == [NoteKind.LEFT_OUT] * 2


def test_bandwidth_of_several_sizes_is_not_split() -> None:
    content = RAW.replace(b"0.0255 1024 8 75", b"0.0255 n/a 8 75")
    found = by_name(content)["mixed"]
    assert [one.bandwidth_bps for one in job_of(found).operations] == [None, None]
    assert NoteKind.LEFT_OUT in [note.kind for note in output_of(found).notes]


def test_the_summary_is_read_where_it_is_alone() -> None:
    (run,) = parse_vdbench(SUMMARY)
    read = only(run)
    assert (read.iops, read.bandwidth_bps) == (102, 0.4 * _MIB)
    assert latency_of(read).mean_s == pytest.approx(18e-6)
    assert latency_of(read).stddev_s == pytest.approx(25e-6)
    options = job_of(run).options
    assert (options.numjobs, options.text("rate_iops")) == (2, "100")


def test_reports_of_one_folder_are_one_bundle() -> None:
    names = ("out/flatfile.html", "out/summary.html", "out/sd1.html", "b/flatfile.html")
    assert set(IMPORTER.bundles(names)) == {names[:2], names[2:3], names[3:]}
    results = IMPORTER.read({"out/summary.html": SUMMARY, "out/flatfile.html": RAW})
    assert results[0].workload == "mixed"


def test_an_empty_average() -> None:
    content = RAW.replace(b"mixed  avg_2-3", b"mixed  avg_2-1")
    assert refused(by_name(content)["mixed"]).condition == "empty-result"
    idle = RAW.replace(b"avg_2-3 1024 1024", b"avg_2-3 1024 0")
    assert refused(by_name(idle)["mixed"]).condition == "empty-result"


def test_a_file_that_ends_within_a_row_keeps_the_runs_before() -> None:
    cut = by_name(RAW[: RAW.index(b" 75 0 0 100 0.0391 n/a 1 n/a 0.0027")])
    assert refused(cut["mixed"]).condition == "truncated-result"
    later = by_name(RAW.rstrip()[:-60])
    assert output_of(later["mixed"]).jobs


@pytest.mark.parametrize(
    ("content", "condition", "position"),
    [
        (b"", "empty-result", None),
        (b"Starting RD=rd1; I/O rate: 1\n", "truncated-result", None),
        (RAW[: RAW.index(b"23:59:58.020")], "truncated-result", "line 8"),
        (RAW.replace(b"mixed 2 1024 1000 ", b"mixed 2 1024 "), "unreadable-result", "line 11"),
        (RAW.replace(b"avg_2-3 1024 1024", b"avg_2-3 1024 1O2"), "unreadable-result", "line 13"),
        (RAW.replace(b"Run Interval", b"Run  Intervals"), "unreadable-result", None),
        (SUMMARY.replace(b"1024**2", b"1000**2"), "unreadable-result", "line 8"),
    ],
)
def test_what_is_not_understood_is_refused(
    content: bytes, condition: str, position: str | None
) -> None:
    with pytest.raises(FormatError) as refused:
        parse_vdbench(content)
    assert refused.value.condition == condition
    if position:
        assert position in refused.value.context


def test_an_impossible_figure_is_left_out_and_reported() -> None:
    found = by_name(RAW.replace(b"0.0152 0.0372 0.123", b"-0.0152 0.0372 0.123"))["mixed"]
    assert job_of(found).operations[0].total is None
    assert NoteKind.IMPOSSIBLE_VALUE in [note.kind for note in output_of(found).notes]


def test_its_files_are_recognised() -> None:
    assert all(IMPORTER.recognises("any", content) for content in (RAW, FILES, OLD, SUMMARY))
    device = SUMMARY.replace(b"output/summary.html", b"output/sd1.html")
    assert not IMPORTER.recognises("sd1.html", device)


def test_the_corpus() -> None:
    """It was stopped while it laid files out."""
    with pytest.raises(FormatError, match="format_for_rd1") as refused:
        parse_vdbench(shared("vdbench/summerking-summary.html").read_bytes())
    assert refused.value.condition == "truncated-result"
