from __future__ import annotations

import pytest

from leadline.formats.output import FormatError
from leadline.formats.zfs.stream_dump import RecordCount, parse_stream_dump
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "zfs"
# As `zstream dump` of OpenZFS 2 prints it (cmd/zstream/zstream_dump.c).
OPENZFS = """\
BEGIN record
\thdrtype = 1
\tfeatures = 20480004
\tmagic = 2f5bacbac
\tcreation_time = 6b02521e
\ttype = 2
\tflags = 0xc
\ttoguid = 9b1d
\tfromguid = 0
\ttoname = tank/r@a
\tpayloadlen = 0
END checksum = 1/2/3/4
SUMMARY:
\tTotal DRR_BEGIN records = 1 (0 bytes)
\tTotal DRR_END records = 1 (0 bytes)
\tTotal DRR_OBJECT records = 7 (960 bytes)
\tTotal DRR_FREEOBJECTS records = 2 (0 bytes)
\tTotal DRR_WRITE records = 80 (335544320 bytes)
\tTotal DRR_WRITE_BYREF records = 0 (0 bytes)
\tTotal DRR_WRITE_EMBEDDED records = 0 (0 bytes)
\tTotal DRR_FREE records = 9 (0 bytes)
\tTotal DRR_SPILL records = 0 (0 bytes)
\tTotal records = 100
\tTotal payload size = 335545280 (0x140003c0)
\tTotal header overhead = 31200 (0x79e0)
\tTotal stream length = 335576480 (0x1400bda0)
"""


def read(name: str) -> str:
    return (RECORDED / name).read_text()


def test_a_full_stream_of_zfs_fuse() -> None:
    dump = parse_stream_dump(read("fuse-zstreamdump.txt"))
    (begin,) = dump.begins
    assert (begin.package, begin.snapshot, begin.from_guid) == (False, "leadline-b/src@a", 0)
    assert begin.to_guid == 0xB3BD606427C51218
    assert begin.features == frozenset()
    assert {kind: one.records for kind, one in dump.records.items()} == {
        "BEGIN": 1,
        "END": 1,
        "OBJECT": 6,
        "FREEOBJECTS": 3,
        "WRITE": 588,
        "FREE": 10,
    }
    assert (dump.payload_bytes, dump.stream_bytes) == (38275072, 38466136)
    assert dump.header_bytes is None
    assert sum(one.records for one in dump.records.values()) == dump.total_records == 609
    # 312 bytes each, and what objects hold besides.
    assert 0 <= dump.stream_bytes - dump.payload_bytes - 609 * 312 <= 6 * 512
    assert dump.whole


def test_an_incremental_one_and_a_package() -> None:
    part = parse_stream_dump(read("fuse-zstreamdump-i.txt"))
    full = parse_stream_dump(read("fuse-zstreamdump.txt"))
    assert part.begins[0].from_guid == full.begins[0].to_guid
    assert part.whole
    package = parse_stream_dump(read("fuse-zstreamdump-R.txt"))
    assert [one.package for one in package.begins] == [True, False, False]
    assert package.begins[1:] == (*full.begins, *part.begins)
    assert package.records["END"].records == 4
    assert package.whole


def test_openzfs_tells_bytes_by_kind() -> None:
    dump = parse_stream_dump(OPENZFS)
    assert dump.records["WRITE"] == RecordCount(records=80, payload_bytes=335544320)
    assert dump.payload_bytes + (dump.header_bytes or 0) == dump.stream_bytes
    assert dump.begins[0].features == {"spill-blocks", "large-blocks", "compressed", "bit-29"}
    assert dump.whole


def test_every_record_told() -> None:
    dump = parse_stream_dump(read("fuse-zstreamdump-v.txt"))
    text = read("fuse-zstreamdump-v.txt")
    for kind in ("WRITE", "OBJECT", "FREE", "FREEOBJECTS"):
        assert dump.records[kind].records == text.count(f"\n{kind} ")
    assert dump.records["WRITE"].records == 132
    assert dump.whole


def test_a_stream_that_is_cut_is_not_whole() -> None:
    dump = parse_stream_dump(read("fuse-zstreamdump-cut.txt"))
    assert not dump.whole
    assert dump.payload_bytes > dump.stream_bytes
    assert not parse_stream_dump(read("fuse-zstreamdump-none.txt")).whole
    odd = OPENZFS.replace("END ch", "Expected checksum differs from checksum in stream.\nEND ch")
    assert parse_stream_dump(odd).problems == (
        "Expected checksum differs from checksum in stream.",
    )
    assert not parse_stream_dump(odd).whole


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (OPENZFS.replace("= 80 ", "= many "), "unreadable-result"),
        (OPENZFS.replace("hdrtype = 1", "hdrtype = 3"), "unreadable-result"),
        (OPENZFS.replace("fromguid = 0", "fromguid = z"), "unreadable-result"),
        (OPENZFS.replace("\tTotal records = 100\n", ""), "truncated-result"),
        (OPENZFS[: OPENZFS.index("SUMMARY")], "truncated-result"),
        (OPENZFS[:-3], "truncated-result"),
        (OPENZFS + "\tTotal records = 100\n", "unreadable-result"),
        ("hello\n" + OPENZFS, "unreadable-result"),
        ("", "empty-result"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_stream_dump(text)
    assert refused.value.condition == condition
