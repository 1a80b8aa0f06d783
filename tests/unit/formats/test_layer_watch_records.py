"""Records of a target's layers: what is read back, and that whatever is there is read or
refused with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.ceph.counters import (
    CounterDump,
    ImageSample,
    Spent,
    operation_sizes,
    parse_ceph_counters,
    parse_image_counters,
)
from leadline.formats.result import FormatError
from leadline.formats.watch_records import (
    BlockSample,
    MissedBlock,
    MissedZfs,
    ZfsAnswer,
    parse_block_requests,
    parse_mount_counters,
    parse_zfs_record,
    request_sizes,
)

AT = "2026-11-22T02:00:00.000+00:00"
STAMP = {"at": AT, "elapsed_s": 0.5}
PARSERS: list[Callable[[bytes], object]] = [
    parse_block_requests,
    parse_image_counters,
    parse_mount_counters,
    parse_zfs_record,
]


def written(*entries: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({**STAMP, **one}).encode() + b"\n" for one in entries)


def window(**reported: Any) -> dict[str, Any]:
    return {"device": "sda", "seconds": 0.2, "lost": 0, "reads": {}, "writes": {}, **reported}


def test_windows_of_a_device_together() -> None:
    samples = parse_block_requests(
        written(
            window(writes={"4096": 3}, flushes=1),
            {"device": "dm-0", "error": "none of its own"},
            window(writes={"4096": 1, "1310720": 2}, reads={"512": 9}, lost=4),
            window(device="sdb", discards={"1048576": 1}),
            {"error": "Permission denied"},
        )
    )
    assert isinstance(samples[0], BlockSample)
    assert samples[1] == MissedBlock(
        at=AT,
        elapsed_s=0.5,
        device="dm-0",
        reason="none of its own",
    )
    assert isinstance(samples[4], MissedBlock)
    sizes = request_sizes(samples)
    assert set(sizes) == {"sda", "sdb"}
    assert sizes["sda"].writes == {4096: 4, 1310720: 2}
    assert (sizes["sda"].lost, sizes["sda"].flushes) == (4, 1)
    assert sizes["sda"].seconds == pytest.approx(0.4)
    assert sizes["sdb"].discards == {1048576: 1}


@pytest.mark.parametrize(
    "entry",
    [
        window(writes={"4096": -1}),
        window(writes={"4k": 1}),
        window(writes=[1]),
        window(lost=None),
        window(seconds="1"),
        {key: one for key, one in window().items() if key != "device"},
    ],
)
def test_a_window_that_is_none_is_refused_with_its_line(entry: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="line 2"):
        parse_block_requests(written(window(), entry))


def image(**counters: Any) -> dict[str, Any]:
    return {"image": "rbd/a", "client": "librbd", "counters": counters}


def test_counters_and_latencies_of_an_image() -> None:
    empty, sample = parse_image_counters(written(image(), image(wr=9, wr_latency=[9, 0.75])))
    assert isinstance(empty, ImageSample)
    assert (empty.counts, empty.latencies) == ({}, {})
    assert isinstance(sample, ImageSample)
    assert (sample.image, sample.client) == ("rbd/a", "librbd")
    assert sample.counts == {"wr": 9}
    assert sample.latencies == {"wr_latency": Spent(operations=9, seconds=0.75)}


@pytest.mark.parametrize("counters", [{"wr": 1.5}, {"wr": -1}, {"wr_latency": [1]}, {"wr": "1"}])
def test_counters_that_are_none_are_refused(counters: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_image_counters(written(image(**counters)))


@pytest.mark.parametrize(
    "entry",
    [
        {"mount": "/m", "kind": "fuse"},
        {"mount": "/m", "kind": "fuse", "waiting": -1},
        {"mount": "/m", "kind": "smb"},
        {"mount": "/m", "kind": "nfs", "bytes": [1] * 7, "operations": {}},
        {"mount": "/m", "kind": "nfs", "bytes": [1] * 8, "operations": {"READ": [1] * 7}},
        {"mount": 1, "error": "x"},
    ],
)
def test_a_mount_that_is_none_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_mount_counters(written(entry))


def test_answers_of_zfs() -> None:
    answer, missed, nothing = parse_zfs_record(
        written(
            {"pool": "tank", "asked": "kstat zil", "text": "x\n"},
            {"pool": "tank", "asked": "iostat -r -p", "error": "status 2"},
            {"error": "gone"},
        )
    )
    assert isinstance(answer, ZfsAnswer)
    assert answer.text == "x\n"
    assert isinstance(missed, MissedZfs)
    assert (missed.pool, missed.asked) == ("tank", "iostat -r -p")
    assert isinstance(nothing, MissedZfs)
    assert (nothing.pool, nothing.asked) == ("", "")


def dump(**sizes: Any) -> dict[str, Any]:
    return {"osds": {osd: {} for osd in sizes}, "sizes": sizes}


def test_count_sizes_between_two_dumps() -> None:
    samples = parse_ceph_counters(
        written(
            dump(**{"0": {"op_w": {"4096": 5}}, "1": {"op_w": {"0": 9}}, "2": {}}),
            dump(**{"0": {"op_w": {"4096": 8, "8192": 1}}, "1": {"op_w": {"0": 2}}, "3": {}}),
        )
    )
    # One was started anew, two are not in both.
    assert operation_sizes(samples) == {"op_w": {4096: 3, 8192: 1}}
    assert operation_sizes(samples[:1]) == {}


def test_archives_of_earlier_versions_have_no_sizes() -> None:
    samples = parse_ceph_counters(written({"osds": {"0": {}}}, {"osds": {"0": {}}}))
    assert isinstance(samples[0], CounterDump)
    assert samples[0].sizes == {}
    assert operation_sizes(samples) == {}


@pytest.mark.parametrize(
    "sizes",
    [{"x": {}}, {"0": []}, {"0": {"op_w": {"-1": 1}}}, {"0": {"op_w": {"1": "1"}}}],
)
def test_sizes_that_are_none_are_refused(sizes: Any) -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_ceph_counters(written({"osds": {}, "sizes": sizes}))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
NAMES = st.sampled_from(
    [
        *("at", "elapsed_s", "error", "device", "seconds", "lost", "reads", "writes", "image"),
        *("client", "counters", "mount", "kind", "waiting", "bytes", "operations", "pool"),
        *("asked", "text", "4096"),
    ]
)
VALUES = st.recursive(
    LEAVES,
    lambda deeper: st.lists(deeper, max_size=9) | st.dictionaries(NAMES, deeper),
    max_leaves=9,
)


@pytest.mark.parametrize("parse", PARSERS)
@given(entry=st.dictionaries(NAMES, VALUES) | VALUES, tail=st.binary(max_size=20))
def test_any_input_is_read_or_refused(
    parse: Callable[[bytes], object], entry: Any, tail: bytes
) -> None:
    reported = {**STAMP, **entry} if isinstance(entry, dict) else entry
    refused = ""
    try:
        parse(json.dumps(reported).encode() + b"\n" + tail)
    except FormatError as error:
        refused = error.fact
    assert not refused or "line " in refused
