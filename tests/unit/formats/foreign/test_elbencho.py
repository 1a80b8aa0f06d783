from __future__ import annotations

import pytest

from leadline.formats.foreign.elbencho import IMPORTER, parse_elbencho
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

RECORDED = IMPORTS / "elbencho"
CSV = (RECORDED / "mixed-phases.csv").read_bytes()
JSON = (RECORDED / "phases.json").read_bytes()
LIVE = (RECORDED / "live.csv").read_bytes()
TEXT = (RECORDED / "resfile.txt").read_bytes()
PRINTED = (RECORDED / "printed-3.0.txt").read_bytes()
_MIB = 1 << 20


def by_name(content: bytes) -> dict[str, Result]:
    return {one.workload: one for one in parse_elbencho(content)}


def test_the_last_finisher_is_taken() -> None:
    write = by_name(CSV)["WRITE"]
    operation = only(write)
    assert (operation.op, operation.iops) == (Op.WRITE, 1024)
    assert operation.bandwidth_bps == 1024 * _MIB
    # Its sum of MiB is cut, and no count of bytes.
    assert operation.io_bytes is None
    assert operation.runtime_s == 8
    latency = latency_of(operation)
    assert (latency.min_s, latency.mean_s, latency.max_s) == (
        pytest.approx(402e-6),
        pytest.approx(62e-3),
        pytest.approx(90e-3),
    )
    assert output_of(write).version == "elbencho 3.0-1"


def test_options_are_those_of_the_row() -> None:
    options = job_of(by_name(CSV)["WRITE"]).options
    assert (options.pattern, options.size("bs"), options.direct) == ("write", _MIB, True)
    # Four hosts with two threads each.
    assert (options.iodepth, options.numjobs, options.size("size")) == (8, 8, 1 << 30)
    assert options.flag("group_reporting")
    assert options.engine is None


def test_rows_of_one_phase_are_named_by_what_differs() -> None:
    assert list(by_name(CSV)) == ["WRITE", "READ threads=2", "READ threads=4", "RWMIX70"]
    assert only(by_name(CSV)["READ threads=4"]).iops == 60000


def test_a_mixed_phase_has_both_directions() -> None:
    mixed = job_of(by_name(CSV)["RWMIX70"])
    read, write = mixed.operations
    assert (read.op, read.iops, read.bandwidth_bps) == (Op.READ, 7000, 27 * _MIB)
    assert (write.op, write.iops, write.bandwidth_bps) == (Op.WRITE, 3000, 11 * _MIB)
    assert latency_of(read).mean_s == pytest.approx(500e-6)
    assert latency_of(write).mean_s == pytest.approx(700e-6)
    assert (mixed.options.pattern, mixed.options.text("rwmixread")) == ("randrw", "70")


def test_phases_that_move_no_data_are_left_out_and_reported() -> None:
    first, *_ = parse_elbencho(CSV)
    (note,) = output_of(first).notes
    assert (note.kind, note.where) == (NoteKind.LEFT_OUT, "line 2")
    assert "MKDIRS" in note.fact


def test_json_reports_exact_bytes() -> None:
    (mixed,) = parse_elbencho(JSON)
    assert mixed.workload == "night RWMIX70"
    read, write = job_of(mixed).operations
    assert (read.iops, read.bandwidth_bps, read.io_bytes) == (7000, 28672000, 143360000)
    assert (write.iops, write.bandwidth_bps, write.runtime_s) == (3000, 12288000, 5)
    assert latency_of(read).max_s == pytest.approx(8e-3)
    assert latency_of(write).min_s == pytest.approx(1e-4)
    options = job_of(mixed).options
    assert (options.direct, options.numjobs, options.iodepth) == (True, 2, 8)


def test_a_cut_row_keeps_the_rows_before() -> None:
    cut = parse_elbencho(CSV[: CSV.index(b"7200")])
    assert [one.workload for one in cut[:3]] == ["WRITE", "READ threads=2", "READ threads=4"]
    assert refused(cut[3]).condition == "truncated-result"
    assert refused(cut[3]).context == ("line 6",)


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"\n", "empty-result", "empty"),
        (LIVE[: LIVE.index(b",MKDIRS")], "empty-result", "no phase"),
        (LIVE.replace(b",4000,Total", b",1000,Total"), "unreadable-result", "back in time"),
        (LIVE.replace(b",1024,1024,", b",1024,"), "unreadable-result", "cells"),
        (LIVE.replace(b"DoneBytes", b"Bytes"), "unreadable-result", "lack DoneBytes"),
        (TEXT[: TEXT.index(b"MKDIRS ")], "empty-result", "no phase"),
        (TEXT[: TEXT.index(b" 1024\n")], "truncated-result", "one value of two"),
        (TEXT.replace(b" 8000\n", b" 8x\n"), "unreadable-result", "elapsed time"),
        (TEXT.replace(b'"/mnt/x"', b'"/mnt'), "truncated-result", "command line"),
        (b"what", "unreadable-result", "neither"),
        (b"\n".join(CSV.splitlines()[:1]), "empty-result", "no phase"),
        (b"\n".join(CSV.splitlines()[:2]), "empty-result", "MKDIRS"),
        (CSV.replace(b"3.0-1,", b"3.0-1,more,"), "unreadable-result", "cells"),
        (CSV.replace(b",1024,1300", b",1024.x,1300"), "unreadable-result", "IOPS"),
        (JSON[:-100], "truncated-result", "cut off"),
        (JSON.replace(b'{"phase_type":"RWMIX', b'"phase_type":"RWMIX'), "unreadable-result", ""),
        (JSON.replace(b'"last_done":{', b'"last_done":3,"x":{'), "unreadable-result", "object"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_elbencho(content)
    assert refused.value.condition == condition
    assert fact in refused.value.fact


def test_an_impossible_figure_is_left_out_and_reported() -> None:
    (mixed,) = parse_elbencho(JSON.replace(b'"iops":"7000"', b'"iops":"-7000"'))
    assert job_of(mixed).operations[0].iops is None
    assert NoteKind.IMPOSSIBLE_VALUE in [note.kind for note in output_of(mixed).notes]


def test_the_text_has_the_last_finisher_too() -> None:
    write, read = parse_elbencho(TEXT)
    assert (write.workload, read.workload) == ("WRITE", "READ")
    operation = only(write)
    assert (operation.op, operation.iops, operation.runtime_s) == (Op.WRITE, 1024, 8)
    assert operation.bandwidth_bps == 1024 * _MIB
    latency = latency_of(operation)
    assert (latency.min_s, latency.mean_s, latency.max_s) == pytest.approx((402e-6, 7.78e-3, 90e-3))
    assert only(read).iops == 1638
    (note,) = output_of(write).notes
    assert (note.where, "MKDIRS" in note.fact) == ("line 6", True)


def test_the_text_has_the_parameters_of_its_command_line() -> None:
    options = job_of(parse_elbencho(TEXT)[0]).options
    assert (options.size("bs"), options.size("size"), options.direct) == (_MIB, 1 << 30, True)
    assert (options.numjobs, options.iodepth, options.text("rw")) == (8, None, "write")


def test_the_text_of_version_3() -> None:
    (write,) = parse_elbencho(PRINTED)
    assert (only(write).iops, only(write).runtime_s) == (33352, pytest.approx(125.755))
    assert job_of(write).options.raw == {}


def test_latencies_of_the_text_with_units() -> None:
    row = b"            IO latency       : [ min=123us avg=2.876ms max=1.2s ]\n"
    latency = latency_of(only(parse_elbencho(PRINTED + row)[0]))
    assert (latency.min_s, latency.mean_s, latency.max_s) == pytest.approx((123e-6, 2.876e-3, 1.2))


def test_mixed_phases_of_the_text_are_left_out() -> None:
    write, *_ = parse_elbencho(TEXT + TEXT.replace(b"WRITE    ", b"RWMIX70  "))
    assert [one.workload for one in parse_elbencho(TEXT.replace(b"WRITE    ", b"RWMIX70  "))] == [
        "READ"
    ]
    assert write.workload == "WRITE"


def test_live_statistics_are_rates_until_their_last_row() -> None:
    write, read = parse_elbencho(LIVE)
    operation = only(write)
    assert (operation.op, operation.io_bytes, operation.runtime_s) == (Op.WRITE, 8321499136, 7)
    assert operation.bandwidth_bps == pytest.approx(8321499136 / 7)
    assert operation.iops == pytest.approx((1024 * 2 + 2048 * 2 + 597 * 3) / 7)
    assert write.windows == {Op.WRITE: ((2.0, 1024.0), (4.0, 2048.0), (7.0, 597.0))}
    assert [note.where for note in output_of(write).notes] == ["line 2", "line 3"]
    assert "after 7 s" in output_of(write).notes[1].fact
    assert only(read).iops == 2048


def test_live_statistics_next_to_their_csv_are_its_rates_over_time() -> None:
    assert IMPORTER.bundles(("a.csv", "a.live.csv", "b.live.csv", "c.csv")) == (
        *(("a.csv", "a.live.csv"), ("b.live.csv",), ("c.csv",)),
    )
    results = IMPORTER.read({"a.csv": CSV, "a.live.csv": LIVE})
    write = results[0]
    assert only(write).iops == 1024
    assert [window.value for window in write.windows[Op.WRITE]] == [1024, 2048, 597]
    assert len(results) == len(parse_elbencho(CSV))


def test_its_files_are_recognised() -> None:
    assert all(IMPORTER.recognises("any", content) for content in (CSV, JSON, LIVE, TEXT, PRINTED))
    assert not IMPORTER.recognises("any", b"a,b\n1,2\n")


def test_the_corpus() -> None:
    """The CSV, the text and the live statistics of one run."""
    (write,) = parse_elbencho(shared("elbencho/cgpu-bw.01threads.csv").read_bytes())
    operation = only(write)
    assert (operation.iops, operation.bandwidth_bps) == (2788, 2788 * _MIB)
    assert operation.runtime_s == pytest.approx(110.109)
    assert len(output_of(write).notes) == 3
    (text,) = parse_elbencho(shared("elbencho/cgpu-bw.01threads.out").read_bytes())
    assert (only(text).iops, only(text).bandwidth_bps) == (2788, 2788 * _MIB)
    assert only(text).runtime_s == operation.runtime_s
    known = {key: job_of(write).options.raw[key] for key in job_of(text).options.raw}
    assert job_of(text).options.raw == known
    (live,) = parse_elbencho(shared("elbencho/cgpu-bw.01threads.live.csv").read_bytes())
    assert only(live).io_bytes == 321492353024
    assert only(live).iops == pytest.approx(2788, rel=0.001)
