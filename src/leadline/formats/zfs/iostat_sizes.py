"""`zpool iostat -r`: how many requests of which size the leaf vdevs were given.

A bucket holds the sizes from its own up to the next: `4K` counts requests of 4096 to 8191 bytes,
the last one, 16M, all larger ones, too. Those below 512 bytes are counted by the module and not
printed. (OpenZFS, include/sys/fs/zfs.h: RQ_HISTO is highbit64(size) - 1, of 25 buckets;
cmd/zpool/zpool_main.c, print_iostat_histo: `Request size (starting range of bucket)`, from bucket
9 on.) What counts is the size of the zio (module/zfs/vdev.c, vdev_stat_update), at leaf vdevs, so
that a mirror of two counts a write twice; trees above them are sums of their leaves.

`individual` are requests that reached the device as they were. An aggregated request is one that
the queue put together of several that lie close to each other: `aggregated` counts the ones that
went to the device, not those that went into them, and its size is that of the whole.

Without an interval the figures are counts since the pool was imported (or the device was opened).
With one, every block but the first is a mean rate per second (`scale` there), rounded down, so
that it cannot be added up: ask twice without an interval and take `grown`. Without -p a count of
1024 and more has three digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from leadline.formats.zfs.histogram_blocks import Block, Layout, grown_counts, histogram_blocks
from leadline.formats.zfs.lines import refused
from leadline.formats.zfs.nicenum import nice_count

_TOOL: Final = "zpool iostat -r"
# 0.7 and 0.8 had no rebuild, 0.7 no trim.
_KINDS: Final = (
    *("sync_read", "sync_write", "async_read", "async_write"),
    *("scrub", "trim", "rebuild"),
)
_HALVES: Final = ("ind", "agg")
_LAYOUT: Final = Layout(
    tool=_TOOL,
    label="req_size",
    first="sync_read",
    halves=_HALVES,
    scripted={
        2 * count: tuple(f"{kind}_{half}" for kind in _KINDS[:count] for half in _HALVES)
        for count in (5, 6, 7)
    },
    least_rows=16,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSizes:
    """Requests by the least size in bytes of their bucket, smallest first."""

    individual: Mapping[int, int]
    aggregated: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSizes:
    """One block: of a pool, or with -v of a vdev, whose name is in `pool` then. `kinds` are
    `sync_read`, `sync_write`, `async_read`, `async_write`, `scrub`, and where the version has them
    `trim` and `rebuild`."""

    pool: str
    kinds: Mapping[str, KindSizes]


def parse_request_sizes(text: str) -> tuple[RequestSizes, ...]:
    """A block for each pool or vdev and interval, in order. Raises FormatError (`empty-result`,
    `truncated-result`, `unreadable-result`) with the line."""
    return tuple(_sizes(block) for block in histogram_blocks(text, _LAYOUT))


def grown(first: RequestSizes, last: RequestSizes) -> RequestSizes:
    """What came between two readings of counts. Raises ValueError where they are not of one pool,
    or a count shrank: the pool was exported, or a device opened again, in between."""
    if first.pool != last.pool or first.kinds.keys() != last.kinds.keys():
        raise ValueError(f"{first.pool!r} and {last.pool!r} have not the same requests")
    return RequestSizes(
        pool=last.pool,
        kinds=MappingProxyType(
            {
                kind: KindSizes(
                    individual=MappingProxyType(
                        grown_counts(kind, before.individual, last.kinds[kind].individual)
                    ),
                    aggregated=MappingProxyType(
                        grown_counts(kind, before.aggregated, last.kinds[kind].aggregated)
                    ),
                )
                for kind, before in first.kinds.items()
            }
        ),
    )


def _sizes(block: Block) -> RequestSizes:
    sizes: list[int] = []
    for number, (label, _) in enumerate(block.rows):
        size = nice_count(label)
        if size is None or size & (size - 1) or size != (sizes[-1] * 2 if sizes else 512):
            raise refused(block.line + number, label, _TOOL)
        sizes.append(size)
    counts = {
        column: MappingProxyType(
            {size: row[index] for size, (_, row) in zip(sizes, block.rows, strict=True)}
        )
        for index, column in enumerate(block.columns)
    }
    kinds = [column.removesuffix("_ind") for column in block.columns if column.endswith("_ind")]
    if len(block.columns) != 2 * len(kinds):
        raise refused(block.line, " ".join(block.columns), _TOOL)
    return RequestSizes(
        pool=block.name,
        kinds=MappingProxyType(
            {
                kind: KindSizes(individual=counts[f"{kind}_ind"], aggregated=counts[f"{kind}_agg"])
                for kind in kinds
            }
        ),
    )
