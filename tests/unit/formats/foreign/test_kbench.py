from __future__ import annotations

import pytest

from leadline.formats.foreign.kbench import IMPORTER, parse_kbench
from leadline.formats.importer import Result
from leadline.formats.result import FormatError, NoteKind
from leadline.metrics import Metric, Op
from leadline.plan.loader import load_profile
from tests.unit.formats.foreign.samples import (
    IMPORTS,
    job_of,
    latency_of,
    only,
    output_of,
    refused,
)

RECORDED = IMPORTS / "kbench"
OLDEST = (RECORDED / "kbench-850pro-raw-block.result").read_bytes()
README = (RECORDED / "kbench-README.md").read_bytes()
NEWEST = (RECORDED / "longhorn-v2-interrupt-mode.md").read_bytes()


def by_name(content: bytes, target: str = "") -> dict[str, Result]:
    return {one.workload: one for one in parse_kbench(content) if one.target == target}


def test_units_in_the_cells_are_the_layout_of_july_2021() -> None:
    found = by_name(OLDEST)
    assert only(found["rand-read-iops"]).iops == 97004
    assert only(found["rand-write-iops"]).iops == 87348
    assert only(found["seq-write-bandwidth"]).bandwidth_bps == 514091 * 1024
    assert latency_of(only(found["rand-read-latency"])).mean_s == pytest.approx(119337e-9)
    assert latency_of(only(found["seq-write-latency"])).mean_s == pytest.approx(46259e-9)
    assert job_of(found["seq-read-latency"]).options.iodepth == 4
    assert len(found) == 12


def test_each_test_has_the_one_figure_that_it_is_for() -> None:
    for result in parse_kbench(OLDEST):
        values = only(result).metrics()
        kind = result.workload.rpartition("-")[2]
        metric = {"iops": Metric.IOPS, "bandwidth": Metric.BANDWIDTH}.get(kind, Metric.LATENCY_MEAN)
        assert [name for name, value in values.items() if value is not None] == [metric]


def test_names_and_options_are_those_of_the_built_in_profile() -> None:
    profile = {one.name: one for one in load_profile("kbench").workloads}
    found = by_name(OLDEST)
    assert found.keys() == profile.keys()
    for name, workload in profile.items():
        options = job_of(found[name]).options
        assert workload.pattern is not None
        assert options.pattern == workload.pattern.value
        assert options.size("bs") == (128 << 10 if name.endswith("bandwidth") else 4096)
        assert options.direct
        assert options.numjobs == 1
        assert options.seconds("runtime") == 20
        assert not options.whole


def test_a_comparison_has_two_targets() -> None:
    raw, ext4 = by_name(README, "850-pro-raw"), by_name(README, "850-pro-ext4")
    assert len(raw) == len(ext4) == 12
    assert only(raw["rand-read-iops"]).iops == 96735
    assert only(ext4["rand-read-iops"]).iops == 98135
    assert only(raw["seq-read-bandwidth"]).bandwidth_bps == 551825 * 1024
    assert only(ext4["seq-write-bandwidth"]).bandwidth_bps == 520364 * 1024
    assert latency_of(only(raw["rand-write-latency"])).mean_s == pytest.approx(44437e-9)
    assert latency_of(only(ext4["rand-read-latency"])).mean_s == pytest.approx(114331e-9)


def test_figures_without_separators_and_a_depth_that_is_not_certain() -> None:
    found = by_name(README)
    assert only(found["rand-read-iops"]).iops == 98368
    assert only(found["seq-read-bandwidth"]).bandwidth_bps == 552052 * 1024
    assert latency_of(only(found["seq-read-latency"])).mean_s == pytest.approx(40483e-9)
    job = job_of(found["seq-read-latency"])
    assert (job.options.iodepth, job.options.text("size")) == (None, "50G")
    (note,) = output_of(found["seq-read-latency"]).notes
    assert (note.kind, note.where) == (NoteKind.LEFT_OUT, "line 27")
    assert job_of(found["rand-read-iops"]).options.iodepth == 64


def test_several_tables_of_one_document_are_distinguished_by_their_captions() -> None:
    results = parse_kbench(NEWEST)
    assert list(dict.fromkeys(one.target for one in results)) == [
        "Interrupt Mode (nvme_ioq_poll_period_us = 1000)",
        "Interrupt Mode (nvme_ioq_poll_period_us = 100)",
        "Polling Mode",
        "V1 Engine",
    ]
    polling = by_name(NEWEST, "Polling Mode")
    assert set(polling) == {
        *("rand-read-iops", "rand-write-iops", "seq-read-bandwidth", "seq-write-bandwidth"),
        *("rand-read-latency", "rand-write-latency"),
    }
    assert only(polling["seq-read-bandwidth"]).bandwidth_bps == 370937 * 1024
    assert latency_of(only(polling["rand-write-latency"])).mean_s == pytest.approx(2065952e-9)
    assert job_of(polling["rand-write-latency"]).options.iodepth == 1


FOUR_ROWS = b"""
FIO Benchmark Comparsion Summary
For: Local-Path vs Longhorn
SIZE: 30G
QUICK MODE ENABLED
================================
                    Local-Path   vs      Longhorn    :   Change
IOPS
       Random Rread:        159,606 (sys/usr cpu: 87% / 10%)   vs    12,882 (sys/usr cpu: 6% / 1%)    :       -91.93% (sys/usr cpu: -81% / -9%)
       Random Write:        155,267 (sys/usr cpu: 86% / 11%)   vs    10,234 (sys/usr cpu: 5% / 2%)    :       -93.41% (sys/usr cpu: -81% / -9%)
"""  # noqa: E501


def test_the_layout_with_one_operation_a_row() -> None:
    local, longhorn = by_name(FOUR_ROWS, "Local-Path"), by_name(FOUR_ROWS, "Longhorn")
    assert only(local["rand-read-iops"]).iops == 159606
    assert only(longhorn["rand-write-iops"]).iops == 10234
    assert job_of(local["rand-read-iops"]).options.seconds("runtime") == 5


P99 = b"""FIO Benchmark P99 Latency Summary
For: vol
CPU Idleness Profiling: not provided
Size: 10g
Quick Mode: disabled
==================================
Latency in ns (Read/Write)
        Random:      1,000,000 / 0
    Sequential:      2,000 (70) / 3,000 (71)
"""


def test_a_p99_summary_and_tests_that_did_not_run() -> None:
    found = by_name(P99, "vol")
    operation = only(found["rand-read-latency"])
    assert operation.percentile_s(0.99) == pytest.approx(0.001)
    assert operation.metrics()[Metric.LATENCY_MEAN] is None
    assert only(found["rand-write-latency"]).metrics()[Metric.LATENCY_P99] is None
    (note,) = output_of(found["rand-write-latency"]).notes
    assert note.kind is NoteKind.LEFT_OUT
    assert only(found["seq-write-latency"]).percentile_s(0.99) == pytest.approx(3e-6)


TABLE = b"""FIO Benchmark Summary
For: vol
IOPS (Read/Write)
        Random:      %s
"""


@pytest.mark.parametrize(
    ("content", "condition", "position"),
    [
        (b"", "empty-result", None),
        (b"nothing of it\n", "unreadable-result", None),
        (TABLE % b"9,077", "truncated-result", "line 4"),
        (TABLE % b"9,077 MiB/s / 4", "unreadable-result", "line 4"),
        (TABLE % b"9,07 / 4", "unreadable-result", "line 4"),
        (TABLE.replace(b"IOPS (", b"IOPS in MHz (") % b"1 / 2", "unreadable-result", "line 3"),
        (FOUR_ROWS.replace(b" vs Longhorn", b""), "unreadable-result", "line 2"),
    ],
)
def test_what_is_not_understood_is_refused(
    content: bytes, condition: str, position: str | None
) -> None:
    with pytest.raises(FormatError) as refused:
        parse_kbench(content)
    assert refused.value.condition == condition
    assert refused.value.context == ((position,) if position else ())


def test_a_cut_table_reports_what_it_lacks() -> None:
    (empty,) = parse_kbench(b"FIO Benchmark Summary\nFor: vol\n")
    assert refused(empty).condition == "truncated-result"
    cut = parse_kbench((TABLE % b"9,077 / 4") + b"\nLatency in ns (Read/Write)\n")
    assert [one.workload for one in cut] == ["rand-read-iops", "rand-write-iops", "latency"]
    assert refused(cut[2]).context == ("line 6",)
    half = by_name(TABLE % b"9,077 /", "vol")
    assert only(half["rand-write-iops"]).iops is None
    (note,) = output_of(half["rand-write-iops"]).notes
    assert note.kind is NoteKind.LEFT_OUT


def test_lines_that_are_not_kbenchs_and_repeated_ones_are_reported() -> None:
    table = (TABLE % b"9,077 / 4") + b"        Sequentail:  5 / 6\n        Random:   7 / 8\n"
    results = parse_kbench(table)
    assert [only(one).iops for one in results] == [9077, 4]
    kinds = [note.kind for note in output_of(results[0]).notes]
    assert kinds == [NoteKind.UNKNOWN_FIELD, NoteKind.REPEATED_FIELD, NoteKind.REPEATED_FIELD]


def test_the_unit_that_comparisons_print_behind_all_metrics() -> None:
    """fio/cmp_parse.sh of 2025: `Latency in KiB/sec`."""
    content = FOUR_ROWS.replace(b"IOPS\n", b"IOPS in KiB/sec (Read/Write)\n")
    first, *_ = parse_kbench(content)
    assert only(first).iops == 159606
    assert [note.kind for note in output_of(first).notes] == [NoteKind.UNKNOWN_FIELD]
    single = TABLE.replace(b"IOPS (", b"IOPS in KiB/sec (") % b"1 / 2"
    with pytest.raises(FormatError):
        parse_kbench(single)


def test_text_behind_a_table_is_not_taken_for_it() -> None:
    results = parse_kbench((TABLE % b"9,077 / 4") + b"\nThat is fast. Latency: 5 / 6\n")
    assert len(results) == 2
    assert not output_of(results[0]).notes


def test_quoted_copies_are_read() -> None:
    quoted = b"".join(b"> " + line + b"\r\n" for line in OLDEST.splitlines())
    assert by_name(quoted).keys() == by_name(OLDEST).keys()
    assert only(by_name(quoted)["rand-read-iops"]).iops == 97004


def test_its_files_are_recognised() -> None:
    for content in (OLDEST, README, NEWEST, P99):
        assert IMPORTER.recognises("any", content)
    assert not IMPORTER.recognises("any", b"The FIO Benchmark Summary is below\n")
    assert IMPORTER.read({"a": OLDEST})[0].tool == "kbench"


def test_operations_are_named_right() -> None:
    for result in parse_kbench(README):
        assert only(result).op is (Op.READ if "-read-" in result.workload else Op.WRITE)
