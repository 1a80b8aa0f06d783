"""Parsers that no importer reads with: their samples, and the properties of what they return.

They read the output of ZFS, nvme-cli, rados bench, rbd bench and Ceph's map tools, and the records
of a trial.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from fuzz.bundles import pack, unpack
from fuzz.properties import Broken, check_refusal
from leadline.archive.raw import derive
from leadline.formats.ceph.counters import osd_rates, parse_ceph_counters, parse_image_counters
from leadline.formats.ceph.pg_maps import parse_crush_mappings, parse_mapped_pgs
from leadline.formats.ceph.rados_bench import parse_pass
from leadline.formats.ceph.rbd_bench import parse_bench
from leadline.formats.ceph.status import parse_cluster_log
from leadline.formats.host_rates import machine_rates, rate_series
from leadline.formats.nvme import parse_nvme_list
from leadline.formats.program.output import read_program_output, read_program_windows
from leadline.formats.program.pgbench import LOG_FILE
from leadline.formats.result import FormatError
from leadline.formats.volume_lifecycle import EVENTS_FILE as VOLUME_EVENTS_FILE
from leadline.formats.volume_lifecycle import RECORD_FILE as VOLUMES_FILE
from leadline.formats.volume_lifecycle import lifecycle_output, parse_volume_lifecycle
from leadline.formats.watch_records import (
    parse_block_requests,
    parse_mount_counters,
    parse_resource_log,
    parse_zfs_record,
    request_sizes,
)
from leadline.formats.zfs.iostat import parse_zpool_iostat
from leadline.formats.zfs.iostat_sizes import parse_request_sizes
from leadline.formats.zfs.kstat import parse_kstat, parse_txgs
from leadline.formats.zfs.status import parse_pool_status, parse_properties
from leadline.formats.zfs.stream import (
    RECORD_FILE,
    SAMPLES_FILE,
    parse_stream_request,
    parse_zfs_stream,
    stream_output,
)
from tests.unit import lifecycles

_RECORDED: Final = Path(__file__).resolve().parent.parent / "tests" / "recorded"
# SMART counters have 128 bits, all others 64.
_MOST_BITS: Final = 128

Parser = Callable[[bytes], object]


def _text_parser(parse: Callable[[str], object]) -> Parser:
    return lambda content: parse(content.decode("utf-8", "replace"))


def _iostat(content: bytes) -> object:
    """As a file, and as the output that a stopped watch leaves."""
    reports = []
    for stopped in (True, False):
        with contextlib.suppress(FormatError):
            reports.append(parse_zpool_iostat(content, stopped=stopped))
    if not reports:
        parse_zpool_iostat(content)
    for report in reports:
        for row in report.rows:
            if any(value is not None and value < 0 for value in row.values.values()):
                raise Broken(f"line {row.line} has a negative value")
    return reports


def _resources(content: bytes) -> object:
    samples = parse_resource_log(content)
    return samples, machine_rates(samples), rate_series(samples)


def _osds(content: bytes) -> object:
    samples = parse_ceph_counters(content)
    return samples, osd_rates(samples)


def _mapped_pgs(content: bytes) -> object:
    mapped = parse_mapped_pgs(content)
    if any(len(pool.pgs) not in (0, pool.pg_num) for pool in mapped.pools):
        raise Broken("a pool has some of its PGs")
    return mapped


def _streams(content: bytes) -> object:
    """The record of streams with its samples, packed as one input."""
    files = unpack(content)
    report = parse_zfs_stream(files.get(RECORD_FILE, b""), files.get(SAMPLES_FILE, b""))
    if any(window.value < 0 for window in report.bandwidth_windows()):
        raise Broken("a window of streams is negative")
    return report, report.bandwidth_windows(), derive(stream_output(report))


def _lifecycles(content: bytes) -> object:
    """The record of volumes with its lines, packed as one input."""
    files = unpack(content)
    report = parse_volume_lifecycle(
        files.get(VOLUMES_FILE, b""), files.get(VOLUME_EVENTS_FILE, b"")
    )
    if any(sample.seconds < 0 for samples in report.stages.values() for sample in samples):
        raise Broken("a stage takes less than nothing")
    return report, derive(lifecycle_output(report))


def _programs(content: bytes) -> object:
    """The output of a benchmark program with its request, packed as one input; the log of
    transactions is compressed here."""
    with tempfile.TemporaryDirectory() as folder:
        for name, file in unpack(content).items():
            if name == _LOG:
                Path(folder, LOG_FILE).write_bytes(gzip.compress(file, 1))
            elif name in _PROGRAM_FILES:
                Path(folder, name).write_bytes(file)
        output = read_program_output(Path(folder))
        windows = read_program_windows(Path(folder))
    if any(window.value < 0 for series in windows.values() for window in series):
        raise Broken("a window of a program is negative")
    return windows, derive(output)


# Parsers of text that refuse a file without any as `empty-result`.
TEXT_PARSERS: Final[Mapping[str, Parser]] = {
    "iostat": _iostat,
    "iostat-sizes": _text_parser(parse_request_sizes),
    "pool-status": _text_parser(parse_pool_status),
    "properties": _text_parser(parse_properties),
    "kstat": _text_parser(parse_kstat),
    "txgs": _text_parser(parse_txgs),
    "nvme-list": _text_parser(parse_nvme_list),
}
PARSERS: Final[Mapping[str, Parser]] = {
    **TEXT_PARSERS,
    "rados-bench": parse_pass,
    "rbd-bench": parse_bench,
    "resources": _resources,
    "ceph-counters": _osds,
    "mapped-pgs": _mapped_pgs,
    "crush-mappings": parse_crush_mappings,
    "cluster": parse_cluster_log,
    "block-requests": lambda content: request_sizes(parse_block_requests(content)),
    "image-counters": parse_image_counters,
    "mount-counters": parse_mount_counters,
    "zfs-record": parse_zfs_record,
    "zfs-stream": _streams,
    "zfs-stream-request": parse_stream_request,
    "volume-lifecycle": _lifecycles,
    "programs": _programs,
}
_PROGRAM_FILES: Final = (*("program.json", "pgbench.txt", "settings.txt", "sysbench.txt"),)
_LOG: Final = LOG_FILE.removesuffix(".gz")
# Files with samples of each parser, as patterns below tests/recorded.
_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "iostat": (
        *("imports/zpool-iostat/zpool-iostat-[Hlqv]*.txt", "imports/zpool-iostat/jc-*.txt"),
        *("imports/zpool-iostat/zpool_iostat_v_on_rbd.txt", "zfs/fuse-iostat-*.txt"),
        "imports/zpool-iostat/openzfs-*.txt",
    ),
    "iostat-sizes": ("imports/zpool-iostat/zpool-iostat-r*.txt",),
    "pool-status": ("zfs/*zpool?status*.txt",),
    "properties": ("zfs/*-get-*.txt",),
    "kstat": ("zfs/arcstats.txt", "zfs/telegraf-kstat-*.txt"),
    "txgs": ("zfs/txgs.txt",),
    "nvme-list": ("nvme/nvme-list-uml.json",),
    "rados-bench": ("ceph-bench/rados_bench_*.json",),
    "rbd-bench": ("ceph-bench/rbd_bench_write_*.txt", "ceph-bench/rbd_bench_rw*.txt"),
    "resources": ("bottleneck/*/resources.jsonl", "throttled/*/resources.jsonl"),
    "ceph-counters": ("bottleneck/*/ceph-counters.jsonl",),
    "mapped-pgs": ("pg-maps/dump-*.txt", "pg-maps/summary-*.txt"),
    "crush-mappings": ("pg-maps/mappings-*.txt",),
    "cluster": ("ceph-status/*/cluster.jsonl",),
    "mount-counters": ("layers/*/mount-counters.jsonl",),
}


def _lines(*entries: Mapping[str, Any]) -> bytes:
    stamp = {"at": "2026-11-22T02:00:00.000+00:00", "elapsed_s": 0.5}
    return b"".join(json.dumps({**stamp, **entry}).encode() + b"\n" for entry in entries)


_IMAGE: Final = {"image": "rep3/a", "client": "4123"}
_WRITTEN: Final[Mapping[str, bytes]] = {
    "block-requests": _lines(
        {"device": "sda", "seconds": 0.2, "lost": 0, "reads": {"512": 9}, "writes": {"4096": 3}},
        {"device": "sda", "seconds": 0.2, "lost": 4, "reads": {}, "writes": {}, "flushes": 1},
        {"device": "dm-0", "error": "no tracepoint"},
    ),
    "image-counters": _lines(
        {**_IMAGE, "counters": {"wr": 1, "wr_latency": [1, 0.002]}},
        {**_IMAGE, "counters": {"wr": 9, "wr_latency": [9, 0.031]}},
    ),
    "mount-counters": _lines(
        {"mount": "/mnt/f", "kind": "fuse", "waiting": 3},
        {
            "mount": "/mnt/n",
            "kind": "nfs",
            "bytes": [1, 2, 3, 4, 5, 6, 7, 8],
            "operations": {"READ": [1, 1, 0, 180, 4200, 0, 2, 2]},
        },
        {"mount": "/mnt/n", "error": "no such mount"},
    ),
    "zfs-record": _lines(
        {"pool": "tank", "asked": "iostat -r -p", "text": "tank"},
        {"pool": "tank", "asked": "kstat txgs", "error": "no answer within 3 s"},
    ),
}


def _streams_samples() -> Iterator[bytes]:
    """A real record of streams with its samples: all streams, and the first two."""
    folder = _RECORDED / "zfs-stream"
    record = json.loads((folder / RECORD_FILE).read_bytes())
    lines = (folder / SAMPLES_FILE).read_bytes().splitlines(keepends=True)
    for kept in (len(record["streams"]), 2):
        part = {**record, "streams": record["streams"][:kept]}
        samples_ = b"".join(line for line in lines if json.loads(line)["stream"] <= kept)
        yield pack({RECORD_FILE: json.dumps(part).encode() + b"\n", SAMPLES_FILE: samples_})


def _program_files(program: str) -> dict[str, bytes]:
    folder = _RECORDED / "program" / program
    files = {
        name: (folder / name).read_bytes() for name in _PROGRAM_FILES if (folder / name).exists()
    }
    if (folder / LOG_FILE).exists():
        files[_LOG] = gzip.decompress((folder / LOG_FILE).read_bytes())
    return files


def samples(name: str) -> list[bytes]:
    """Return the samples of a parser, each of which it reads."""
    if name == "zfs-stream":
        return list(_streams_samples())
    if name == "zfs-stream-request":
        record = json.loads((_RECORDED / "zfs-stream" / RECORD_FILE).read_bytes())
        return [json.dumps(record["request"]).encode()]
    if name == "volume-lifecycle":
        events = b"".join(json.dumps(line).encode() + b"\n" for line in lifecycles.lines(4))
        record = json.dumps(lifecycles.record(4)).encode() + b"\n"
        return [pack({VOLUMES_FILE: record, VOLUME_EVENTS_FILE: events})]
    if name == "programs":
        return [pack(_program_files(program)) for program in ("pgbench", "sysbench")]
    paths = sorted(path for pattern in _FILES.get(name, ()) for path in _RECORDED.glob(pattern))
    written = [_WRITTEN[name]] if name in _WRITTEN else []
    return [path.read_bytes() for path in paths] + written


def check(parsed: object) -> None:
    """Raises Broken for a number that is not finite or longer than a counter."""
    for number in _numbers(parsed):
        if isinstance(number, int):
            if number.bit_length() > _MOST_BITS:
                raise Broken(f"a number has {number.bit_length()} bits")
        elif not math.isfinite(number):
            raise Broken(f"a number is {number}")


def _numbers(thing: object) -> Iterator[float]:
    if is_dataclass(thing):
        for field in fields(thing):
            yield from _numbers(getattr(thing, field.name))
    elif isinstance(thing, Mapping):
        for key, inner in thing.items():
            yield from _numbers(key)
            yield from _numbers(inner)
    elif isinstance(thing, list | tuple):
        for inner in thing:
            yield from _numbers(inner)
    elif isinstance(thing, int | float):
        yield thing


def parse_checked(name: str, content: bytes) -> None:
    """Parse with one parser. Raises Broken where it breaks a property; a refusal is allowed."""
    try:
        check(PARSERS[name](content))
    except FormatError as error:
        check_refusal(error)


def fuzz_parsers(data: bytes) -> None:
    """Run all parsers on one input; most refuse it at once."""
    for name in PARSERS:
        parse_checked(name, data)


def parser_seeds() -> Iterator[bytes]:
    for name in PARSERS:
        yield from samples(name)
