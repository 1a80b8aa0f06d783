from __future__ import annotations

import pytest

from leadline.formats.output import FormatError
from leadline.formats.zfs.send import (
    PlannedStream,
    StreamKind,
    parse_receive_report,
    parse_send_report,
)
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "zfs"
M = 1 << 20


def read(name: str) -> str:
    return (RECORDED / name).read_text()


def test_an_estimate() -> None:
    report = parse_send_report(read("zfs-send-nv.txt"))
    assert report.streams == (
        PlannedStream(
            kind=StreamKind.FULL, source="", snapshot="tank/r4M@a", estimated_bytes=256.0 * M
        ),
    )
    assert (report.estimated_bytes, report.progress, report.messages) == (256.0 * M, (), ())


def test_an_exact_estimate() -> None:
    report = parse_send_report(read("zfs-send-nvP.txt"))
    assert report.estimated_bytes == report.streams[0].estimated_bytes == 335671408
    assert report.streams[0].snapshot == "tank/r1M@a"


def test_progress() -> None:
    report = parse_send_report(read("zfs-send-v.txt"))
    assert report.estimated_bytes == 320.0 * M
    clocks = [one.clock_s for one in report.progress]
    assert clocks == [21 * 3600 + 28 * 60 + second for second in range(9, 14)]
    assert [one.sent_bytes / M for one in report.progress] == [48, 105, 143, 205, 280]
    assert {one.snapshot for one in report.progress} == {"tank/r1M@a"}


def test_incremental_streams() -> None:
    text = (
        "send from @a to tank/r@b estimated size is 10.5M\n"
        "send from tank/r@b to tank/r@c\n"
        "total estimated size is 10.5M\n"
        "warning: cannot send 'tank/r@c': signal received\n"
    )
    report = parse_send_report(text)
    assert [
        (one.kind, one.source, one.snapshot, one.estimated_bytes) for one in report.streams
    ] == [
        (StreamKind.INCREMENTAL, "@a", "tank/r@b", 10.5 * M),
        (StreamKind.INCREMENTAL, "tank/r@b", "tank/r@c", None),
    ]
    assert report.messages == ("warning: cannot send 'tank/r@c': signal received",)
    exact = parse_send_report("incremental\ta\ttank/r@b\t624\nsize\t624\n")
    assert (exact.streams[0].source, exact.estimated_bytes) == ("a", 624)
    steps = parse_send_report("21:28:09\t50331648\ttank/r1M@a\n").progress
    assert steps[0].sent_bytes == 48 * M


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("full send of tank/r@a estimated size is big\n", "unreadable-result"),
        ("full\ttank/r@a\n", "unreadable-result"),
        ("full\ta\ttank/r@a\t5\n", "unreadable-result"),
        ("size\t5\nsize\t5\n", "unreadable-result"),
        ("21:28   48.0M   tank/r1M@a\n", "unreadable-result"),
        (read("zfs-send-v.txt")[:-4], "truncated-result"),
        (read("zfs-receive-v.txt"), "unreadable-result"),
        ("", "empty-result"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_send_report(text)
    assert refused.value.condition == condition


def test_what_was_received() -> None:
    (one,) = parse_receive_report(read("zfs-receive-v.txt")).streams
    assert (one.kind, one.snapshot, one.target) == (StreamKind.FULL, "tank/r1M@a", "tank2/r1M@a")
    assert (one.received_bytes, one.elapsed_s) == (320.0 * M, 6.10)
    assert one.rate_bps == pytest.approx(320.0 * M / 6.10, rel=0.005)


def test_zfs_fuse_tells_whole_seconds() -> None:
    (one,) = parse_receive_report(read("fuse-receive-v.txt")).streams
    assert (one.received_bytes, one.elapsed_s) == (36.7 * M, 1.0)
    # The stream's length by zstreamdump.
    assert one.received_bytes == pytest.approx(38466136, rel=0.005)


def test_a_stream_that_broke_off() -> None:
    report = parse_receive_report(read("fuse-receive-cut.txt"))
    (one,) = report.streams
    assert (one.target, one.received_bytes, one.elapsed_s) == ("leadline-c/half@a", None, None)
    assert report.messages == ("cannot receive new filesystem stream: invalid backup stream",)
    refused = parse_receive_report(read("fuse-receive-exists.txt"))
    assert refused.streams == ()
    assert len(refused.messages) == 2


def test_several_streams() -> None:
    text = (
        "receiving incremental stream of a@1 into b@1\nreceived 312B stream in 1 seconds"
        " (312B/sec)\nwould receive full stream of a@2 into b@2\n"
        "receiving full stream of a@3 into b@3\n"
    )
    told = parse_receive_report(text).streams
    assert [(one.snapshot, one.received_bytes) for one in told] == [
        ("a@1", 312.0),
        ("a@2", None),
        ("a@3", None),
    ]
    assert told[0].kind is StreamKind.INCREMENTAL


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("received 320M stream in 6.10 seconds (52.5M/sec)\n", "unreadable-result"),
        (read("zfs-receive-v.txt").replace("320M", "320m"), "unreadable-result"),
        (read("zfs-receive-v.txt").replace("52.5M", "fast"), "unreadable-result"),
        (read("zfs-receive-v.txt")[:-9], "truncated-result"),
        (read("zfs-send-v.txt"), "unreadable-result"),
    ],
)
def test_words_of_the_receiver_that_are_not_understood(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_receive_report(text)
    assert refused.value.condition == condition
