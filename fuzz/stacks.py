"""What ZFS and nvme-cli print: every parser, its samples, and what holds of what it returns."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Final

from leadline.formats.nvme import parse_nvme_list
from leadline.formats.result import FormatError
from leadline.formats.zfs.iostat import IostatReport, parse_request_sizes, parse_zpool_iostat
from leadline.formats.zfs.status import parse_kstat, parse_pool_status, parse_properties, parse_txgs

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
    "pool-status": parse_pool_status,
    "properties": parse_properties,
    "kstat": parse_kstat,
    "txgs": parse_txgs,
    "nvme-list": parse_nvme_list,
}
# The samples of each parser, as patterns below tests/recorded.
SAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
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
    "nvme-list": ("nvme/nvme-list-uml.*",),
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
