"""What the engines and watches of a trial leave beside the figures: streams of ZFS with the samples
of their pipe, and what was asked of ZFS, block devices, images and mounts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fuzz.bundles import ONLY, pack, unpack
from fuzz.properties import Broken
from fuzz.stacks import check
from leadline.archive.raw import derive
from leadline.formats.ceph.counters import parse_image_counters
from leadline.formats.result import FormatError
from leadline.formats.watch_records import (
    parse_block_requests,
    parse_mount_counters,
    parse_zfs_record,
    request_sizes,
)
from leadline.formats.zfs.stream import (
    RECORD_FILE,
    SAMPLES_FILE,
    parse_stream_request,
    parse_zfs_stream,
    stream_output,
)

_STREAMS: Final = Path(__file__).resolve().parent.parent / "tests" / "recorded" / "zfs-stream"
_CONDITIONS: Final = frozenset({"empty-result", "truncated-result", "unreadable-result"})


def _blocks(content: bytes) -> None:
    check(request_sizes(parse_block_requests(content)))


def _image(content: bytes) -> None:
    check(parse_image_counters(content))


def _mounts(content: bytes) -> None:
    check(parse_mount_counters(content))


def _zfs(content: bytes) -> None:
    check(parse_zfs_record(content))


def _request(content: bytes) -> None:
    check(parse_stream_request(content))


_EACH: Final[tuple[Callable[[bytes], None], ...]] = (_blocks, _image, _mounts, _zfs, _request)


def fuzz_records(data: bytes) -> None:
    """The record of streams with its samples, or one file as each of the others."""
    files = unpack(data)
    if ONLY in files:
        for each in _EACH:
            _refused_well(each, files[ONLY])
        return
    record, samples = files.get(RECORD_FILE, b""), files.get(SAMPLES_FILE, b"")
    _refused_well(lambda content: _streams(content, samples), record)


def _refused_well(read: Callable[[bytes], None], content: bytes) -> None:
    try:
        read(content)
    except FormatError as error:
        if error.condition not in _CONDITIONS:
            raise Broken(f"the condition {error.condition!r} is none") from error
        if len(str(error)) > 5000:
            raise Broken(f"an error of {len(str(error))} characters") from error


def _streams(record: bytes, samples: bytes) -> None:
    report = parse_zfs_stream(record, samples)
    windows = report.bandwidth_windows()
    if any(not (math.isfinite(one.value) and one.value >= 0) for one in windows):
        raise Broken("a window of streams is negative or not finite")
    for one in derive(stream_output(report)).operations:
        for metric, value in one.metrics.items():
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise Broken(f"{metric} of streams is derived as {value}")


def record_seeds() -> Iterator[bytes]:
    """A real record of streams, whole and of its first streams alone, and a line or two of each of
    the others as its watch writes it."""
    record, samples = (_STREAMS / name for name in (RECORD_FILE, SAMPLES_FILE))
    whole = json.loads(record.read_bytes())
    lines = samples.read_bytes().splitlines(keepends=True)
    for kept in (len(whole["streams"]), 2):
        told = {**whole, "streams": whole["streams"][:kept]}
        few = [line for line in lines if json.loads(line)["stream"] <= kept]
        yield pack({RECORD_FILE: json.dumps(told).encode() + b"\n", SAMPLES_FILE: b"".join(few)})
    yield json.dumps(whole["request"]).encode()
    yield _lines(
        {"device": "sda", "seconds": 0.2, "lost": 0, "reads": {"512": 9}, "writes": {"4096": 3}},
        {"device": "sda", "seconds": 0.2, "lost": 4, "reads": {}, "writes": {}, "flushes": 1},
        {"device": "dm-0", "error": "none of its own"},
    )
    image = {"image": "rep3/a", "client": "4123"}
    yield _lines(
        {**image, "counters": {"wr": 1, "wr_latency": [1, 0.002]}},
        {**image, "counters": {"wr": 9, "wr_latency": [9, 0.031]}},
    )
    yield _lines(
        {"mount": "/mnt/f", "kind": "fuse", "waiting": 3},
        {
            "mount": "/mnt/n",
            "kind": "nfs",
            "bytes": [1, 2, 3, 4, 5, 6, 7, 8],
            "operations": {"READ": [1, 1, 0, 180, 4200, 0, 2, 2]},
        },
        {"mount": "/mnt/n", "error": "gone"},
    )
    yield _lines(
        {"pool": "tank", "asked": "iostat -r -p", "text": "tank"},
        {"pool": "tank", "asked": "kstat txgs", "error": "no answer within 3 s"},
    )


def _lines(*entries: Mapping[str, Any]) -> bytes:
    stamp = {"at": "2026-11-22T02:00:00.000+00:00", "elapsed_s": 0.5}
    return b"".join(json.dumps({**stamp, **one}).encode() + b"\n" for one in entries)
