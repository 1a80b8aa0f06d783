from __future__ import annotations

import pytest

from leadline.formats.foreign.dbench import IMPORTER, parse_dbench
from leadline.formats.importer import Result
from leadline.formats.result import FormatError, NoteKind
from leadline.metrics import Op
from tests.unit.formats.foreign.samples import (
    IMPORTS,
    job_of,
    latency_of,
    only,
    output_of,
)

RECORDED = IMPORTS / "dbench"
README = (RECORDED / "dbench-README.md").read_bytes()
OPENEBS = (RECORDED / "openebs-dbench-README.md").read_bytes()
CLASSES = (RECORDED / "three-classes.md").read_bytes()
_MIB = 1 << 20


def by_name(content: bytes, target: str = "") -> dict[str, Result]:
    return {one.workload: one for one in parse_dbench(content) if one.target == target}


def test_a_summary_gives_nine_tests() -> None:
    found = by_name(README)
    assert only(found["read_iops"]).iops == 75700
    assert only(found["write_iops"]).iops == 59700
    assert only(found["read_bw"]).bandwidth_bps == 523 * _MIB
    assert only(found["write_bw"]).bandwidth_bps == 500 * _MIB
    assert latency_of(only(found["read_latency"])).mean_s == pytest.approx(183.07e-6)
    assert latency_of(only(found["write_latency"])).mean_s == pytest.approx(76.91e-6)
    assert only(found["read_seq"]).bandwidth_bps == 536 * _MIB
    assert only(found["write_seq"]).bandwidth_bps == 512 * _MIB
    read, write = job_of(found["rw_mix"]).operations
    assert (read.op, read.iops, write.op, write.iops) == (Op.READ, 43100, Op.WRITE, 14400)
    assert len(found) == 9


def test_options_are_those_of_its_script() -> None:
    found = by_name(README)
    latency, seq = job_of(found["read_latency"]).options, job_of(found["write_seq"]).options
    assert (latency.pattern, latency.size("bs"), latency.iodepth) == ("randread", 4096, 4)
    assert not latency.flag("gtod_reduce")
    assert (seq.pattern, seq.size("bs"), seq.iodepth, seq.numjobs) == ("write", _MIB, 16, 4)
    assert seq.flag("gtod_reduce")
    assert (seq.direct, seq.size("size")) == (None, None)


def test_figures_without_a_suffix() -> None:
    found = by_name(OPENEBS)
    assert only(found["read_iops"]).iops == 147
    assert only(found["read_bw"]).bandwidth_bps == pytest.approx(16.4 * _MIB)
    assert latency_of(only(found["read_latency"])).mean_s == pytest.approx(26.39757e-3)


def test_several_summaries_are_distinguished_by_their_captions() -> None:
    assert list(dict.fromkeys(one.target for one in parse_dbench(CLASSES))) == [
        *("Local", "Filer", "Replicated")
    ]
    local = by_name(CLASSES, "Local")
    assert only(local["write_bw"]).bandwidth_bps == 1.5 * (1 << 30)
    filer = by_name(CLASSES, "Filer")
    assert only(filer["write_bw"]).bandwidth_bps == 900 * 1024


def test_an_empty_latency_is_left_out_and_reported() -> None:
    read = by_name(CLASSES, "Filer")["read_latency"]
    assert only(read).total is None
    (note,) = output_of(read).notes
    assert (note.kind, note.where) == (NoteKind.LEFT_OUT, "line 19")


def test_units_behind_the_figures() -> None:
    found = by_name(CLASSES, "Replicated")
    assert latency_of(only(found["read_latency"])).mean_s == pytest.approx(3.5e-3)
    assert latency_of(only(found["write_latency"])).mean_s == pytest.approx(812.25e-6)
    assert only(found["write_iops"]).iops == 9876


def test_a_unit_that_has_two_meanings_is_not_guessed() -> None:
    found = by_name(CLASSES, "Replicated")["read_bw"]
    assert only(found).bandwidth_bps is None
    assert [note.kind for note in output_of(found).notes] == [NoteKind.LEFT_OUT]


def test_quick_mode_prints_the_first_line_only() -> None:
    quick = b"= Dbench Summary =\n====\nRandom Read/Write IOPS: 1k/2k. BW: 3MiB/s / 4MiB/s\n"
    assert len(parse_dbench(quick)) == 4


LINE = b"= Dbench Summary =\n%s\n"


@pytest.mark.parametrize(
    ("content", "condition", "position"),
    [
        (b"", "empty-result", None),
        (b"a text", "unreadable-result", None),
        (b"Working dir: /data\n\nTesting Read IOPS...\n", "truncated-result", None),
        (LINE % b"", "truncated-result", "line 1"),
        (LINE % b"Random Read/Write IOPS: 1x/2k. BW: 3MiB/s / 4MiB/s", "unreadable-result", None),
        (LINE % b"Random Read/Write BW: 3MiB/s/4MiB/s", "unreadable-result", "line 2"),
        (LINE % b"Average Latency Read/Write: 3.5/4.5", "unreadable-result", "line 2"),
        (
            LINE % b"Sequential Read/Write: 1KiB/s / 2KiB/s\nSequential Read/Write: 1KiB/s / /s",
            "unreadable-result",
            "line 3",
        ),
    ],
)
def test_what_is_not_understood_is_refused(
    content: bytes, condition: str, position: str | None
) -> None:
    with pytest.raises(FormatError) as refused:
        parse_dbench(content)
    assert refused.value.condition == condition
    if position:
        assert refused.value.context == (position,)


def test_its_files_are_recognised() -> None:
    assert all(IMPORTER.recognises("any", content) for content in (README, OPENEBS, CLASSES))
    assert not IMPORTER.recognises("any", b"dbench")
    assert IMPORTER.read({"a": README})[0].tool == "dbench"
