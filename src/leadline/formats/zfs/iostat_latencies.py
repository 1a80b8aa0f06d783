"""`zpool iostat -w`: how long requests waited, as histograms.

A bucket is named by its upper bound, which belongs to it: `65us` holds waits of 32,768 to 65,535
ns, the last one all longer ones, too. (OpenZFS, cmd/zpool/zpool_main.c, print_iostat_histo:
`Ending range of this bucket`, 2^(j+1) - 1 ns; include/sys/fs/zfs.h: L_HISTO is highbit64(wait) - 1,
of 37 buckets; the label is that number in whole units of 1000.) Buckets so wide tell no
percentile: a wait at the lower end of a bucket is half of one at its upper end.

`total_wait` is from when a request was queued until it was done, `disk_wait` how long the device
had it, `syncq_wait`, `asyncq_wait`, `scrub_wait`, `trim_wait`, `rebuild_wait` how long it was in
the queue of its kind (module/zfs/vdev.c, vdev_stat_update). Counted at leaf vdevs, as the sizes
are, and counts or rates by the same rule (`leadline.formats.zfs.iostat_sizes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from leadline.formats.zfs.histogram_blocks import Block, Layout, grown_counts, histogram_blocks
from leadline.formats.zfs.lines import refused
from leadline.formats.zfs.nicenum import nice_time_ns

_TOOL: Final = "zpool iostat -w"
_HALVES: Final = ("read", "write")
_PAIRS: Final = tuple(
    f"{group}_{half}"
    for group in ("total_wait", "disk_wait", "syncq_wait", "asyncq_wait")
    for half in _HALVES
)
# 0.7 named two of its groups otherwise.
_OLD_NAMES: Final = {"sync_queue": "syncq_wait", "async_queue": "asyncq_wait"}
# Of the single columns 0.7 had one, 0.8 two.
_SINGLE: Final = ("scrub", "trim", "rebuild")
_LAYOUT: Final = Layout(
    tool=_TOOL,
    label="latency",
    first="total_wait",
    halves=_HALVES,
    scripted={len(_PAIRS) + count: (*_PAIRS, *_SINGLE[:count]) for count in (1, 2, 3)},
    least_rows=37,
)
# Labels are cut to whole units: 1.07 s says `1s`.
_FURTHEST_BELOW = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTimes:
    """One block: of a pool, or with -v of a vdev, whose name is in `pool` then. `columns` are
    named as those of `zpool iostat -l`: `total_wait_read`, `total_wait_write`, ...,
    `asyncq_wait_write`, `scrub_wait`, `trim_wait`, `rebuild_wait`. Each is requests by the longest
    wait in nanoseconds of their bucket, 1 first, then 3, 7, 15, ..."""

    pool: str
    columns: Mapping[str, Mapping[int, int]]


def parse_wait_times(text: str) -> tuple[WaitTimes, ...]:
    """A block for each pool or vdev and interval, in order. Raises FormatError (`empty-result`,
    `truncated-result`, `unreadable-result`) with the line."""
    return tuple(_waits(block) for block in histogram_blocks(text, _LAYOUT))


def grown(first: WaitTimes, last: WaitTimes) -> WaitTimes:
    """What came between two readings of counts. Raises ValueError where they are not of one pool,
    or a count shrank."""
    if first.pool != last.pool or first.columns.keys() != last.columns.keys():
        raise ValueError(f"{first.pool!r} and {last.pool!r} have not the same waits")
    return WaitTimes(
        pool=last.pool,
        columns=MappingProxyType(
            {
                column: MappingProxyType(grown_counts(column, before, last.columns[column]))
                for column, before in first.columns.items()
            }
        ),
    )


def _waits(block: Block) -> WaitTimes:
    bounds: list[int] = []
    for number, (label, _) in enumerate(block.rows):
        bound = (2 << number) - 1
        told = nice_time_ns(label)
        if told is None or not bound * (1 - _FURTHEST_BELOW) <= told <= bound:
            raise refused(block.line + number, label, _TOOL)
        bounds.append(bound)
    return WaitTimes(
        pool=block.name,
        columns=MappingProxyType(
            {
                _named(name): MappingProxyType(
                    {bound: row[index] for bound, (_, row) in zip(bounds, block.rows, strict=True)}
                )
                for index, name in enumerate(block.columns)
            }
        ),
    )


def _named(column: str) -> str:
    group, _, half = column.rpartition("_")
    if group in _OLD_NAMES:
        return f"{_OLD_NAMES[group]}_{half}"
    return f"{column}_wait" if column in _SINGLE else column
