"""What ZFS and nvme-cli print: every parser, its samples, and what holds of what it returns."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Final

from leadline.formats.nvme.discovery import parse_discovery
from leadline.formats.nvme.identify import parse_id_ctrl, parse_id_ns
from leadline.formats.nvme.listing import parse_nvme_list
from leadline.formats.nvme.smart_log import parse_smart_log
from leadline.formats.nvme.subsystems import parse_subsystems
from leadline.formats.output import FormatError
from leadline.formats.zfs.arc_summary import parse_arc_summary
from leadline.formats.zfs.iostat import IostatReport, parse_zpool_iostat
from leadline.formats.zfs.iostat_latencies import parse_wait_times
from leadline.formats.zfs.iostat_sizes import parse_request_sizes
from leadline.formats.zfs.kstat import parse_kstat, parse_txgs
from leadline.formats.zfs.listing import ZFS_LIST, parse_listing
from leadline.formats.zfs.pool_status import parse_pool_status
from leadline.formats.zfs.properties import parse_properties
from leadline.formats.zfs.send import parse_receive_report, parse_send_report
from leadline.formats.zfs.stream_dump import parse_stream_dump

_RECORDED: Final = Path(__file__).resolve().parent.parent / "tests" / "recorded"
_CONDITIONS: Final = frozenset({"empty-result", "truncated-result", "unreadable-result"})
# SMART counters have 128 bits, all others 64.
_MOST_BITS: Final = 128


def _iostat(text: str) -> tuple[IostatReport, ...]:
    """As a file, and as a watch that was stopped leaves it."""
    content = text.encode("utf-8", "replace")
    told: list[IostatReport] = []
    for stopped in (True, False):
        with contextlib.suppress(FormatError):
            told.append(parse_zpool_iostat(content, stopped=stopped))
    if not told:
        parse_zpool_iostat(content)
    return tuple(told)


PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "iostat": _iostat,
    "iostat-sizes": parse_request_sizes,
    "iostat-latencies": parse_wait_times,
    "pool-status": parse_pool_status,
    "properties": parse_properties,
    "listing": partial(parse_listing, columns=ZFS_LIST),
    "kstat": parse_kstat,
    "txgs": parse_txgs,
    "arc-summary": parse_arc_summary,
    "send": parse_send_report,
    "receive": parse_receive_report,
    "stream-dump": parse_stream_dump,
    "nvme-list": parse_nvme_list,
    "nvme-subsystems": parse_subsystems,
    "nvme-id-ctrl": parse_id_ctrl,
    "nvme-id-ns": parse_id_ns,
    "nvme-smart-log": parse_smart_log,
    "nvme-discovery": parse_discovery,
}
# The samples of each parser, as patterns below tests/recorded.
SAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "iostat": (
        *("imports/zpool-iostat/zpool-iostat-[Hlqv]*.txt", "imports/zpool-iostat/jc-*.txt"),
        *("imports/zpool-iostat/zpool_iostat_v_on_rbd.txt", "zfs/fuse-iostat-*.txt"),
        "imports/zpool-iostat/openzfs-*.txt",
    ),
    "iostat-sizes": ("imports/zpool-iostat/zpool-iostat-r*.txt",),
    "iostat-latencies": ("imports/zpool-iostat/zpool-iostat-w*.txt",),
    "pool-status": ("zfs/*zpool?status*.txt",),
    "properties": ("zfs/*-get-*.txt",),
    "listing": ("zfs/*zfs-list*.txt", "zfs/zpool-list-v.txt", "zfs/fuse-zpool-list.txt"),
    "kstat": ("zfs/arcstats.txt", "zfs/telegraf-kstat-*.txt"),
    "txgs": ("zfs/txgs.txt",),
    "arc-summary": ("zfs/arc_summary.txt",),
    "send": ("zfs/zfs-send-*.txt",),
    "receive": ("zfs/*receive-*.txt",),
    "stream-dump": ("zfs/fuse-zstreamdump*.txt",),
    "nvme-list": ("nvme/nvme-list-uml.*",),
    "nvme-subsystems": ("nvme/nvme-list-subsys-uml.txt",),
    "nvme-id-ctrl": ("nvme/nvme-id-ctrl-uml.txt",),
    "nvme-id-ns": ("nvme/nvme-id-ns-uml.txt",),
    "nvme-smart-log": ("nvme/nvme-smart-log-uml.txt",),
    "nvme-discovery": ("nvme/nvme-discover-tcp-uml.txt",),
}


def samples(name: str) -> list[Path]:
    return sorted(path for pattern in SAMPLES[name] for path in _RECORDED.glob(pattern))


def check(told: object) -> None:
    """Raises AssertionError for a number that none may be."""
    for number in _numbers(told):
        if isinstance(number, int):
            assert number.bit_length() <= _MOST_BITS, "a number is longer than a counter"
        else:
            assert math.isfinite(number), "a number is not finite"


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


def fuzz_stacks(data: bytes) -> None:
    """All of them on one input: most refuse it at once, which they must do as they may."""
    text = data.decode("utf-8", "replace")
    for name, parse in PARSERS.items():
        try:
            check(parse(text))
        except FormatError as error:
            if error.condition not in _CONDITIONS:
                raise AssertionError(f"{name}: the condition {error.condition!r} is none") from None
            if len(str(error)) > 5000:
                raise AssertionError(f"{name}: an error of {len(str(error))} characters") from None


def stack_seeds() -> Iterator[bytes]:
    for path in sorted({path for name in SAMPLES for path in samples(name)}):
        yield path.read_bytes()
