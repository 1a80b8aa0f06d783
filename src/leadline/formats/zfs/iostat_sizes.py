"""`zpool iostat -r`: histograms of the request sizes of leaf vdevs.

    tank          sync_read    sync_write    async_read    async_write  ...
    req_size      ind    agg    ind    agg    ind    agg    ind    agg  ...
    ----------  -----  -----  -----  -----  -----  -----  -----  -----  ...
    512             0      0      0      0      0      0      0      0  ...

Each pool, and with -v each vdev, has one block, which only its head names. With -H a block is the
name on a line and rows with tabs, without heads.

A bucket holds the sizes from its label up to the next: `4K` counts requests of 4096 to 8191 bytes,
the last one, 16M, also all larger ones. Requests below 512 bytes are not printed (OpenZFS,
include/sys/fs/zfs.h: RQ_HISTO; cmd/zpool/zpool_main.c, print_iostat_histo). The size is that of the
zio at a leaf vdev (module/zfs/vdev.c, vdev_stat_update): a mirror of two counts a write twice.
Vdevs above leaves are sums of their leaves.

`individual` requests reached the device unchanged. `aggregated` requests were merged by the queue
from adjacent ones: they are counted once, with the size of the merged request.

Without an interval the numbers are counts since the import of the pool or the opening of the
device. With an interval, every block but the first is a mean rate per second, rounded down: ask
twice without an interval and use `grown`. Without -p a count of 1024 or more has three digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from leadline.formats.result import FormatError
from leadline.formats.text import ends_early, is_cut, line_refused
from leadline.formats.zfs.lines import (
    is_date,
    is_prompt,
    nice_count,
    tool_lines,
)

# The histograms of `zpool iostat -r` and `-w`: blocks of a head and a row for each bucket.
#      tank          sync_read    sync_write    async_read    async_write  ...     req_size
# ind    agg    ind    agg    ind    agg    ind    agg  ...     ----------  -----  -----  -----
# -----  -----  -----  -----  -----  ...     512             0      0      0      0      0      0
# 0      0  ...
#  Each pool, and with -v each vdev, has a block of its own, named in the head alone: the tree is
# not shown. With -H a block is the name on a line and rows with tabs, without heads.

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}", re.ASCII)
_STAMP: Final = re.compile(r"\d{9,11}", re.ASCII)
_LONGEST_LINE: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a mode prints: `label` heads the column of buckets, `first` is the first group of
    columns, `halves` are the heads below a group of two; `scripted` are the columns, named
    GROUP_HALF, that -H prints, by their number; `least_rows` is how many buckets there are."""

    tool: str
    label: str
    first: str
    halves: tuple[str, str]
    scripted: Mapping[int, tuple[str, ...]]
    least_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`rows` are a bucket's label and a count for each column; `line` is that of the first row."""

    name: str
    columns: tuple[str, ...]
    line: int
    rows: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(slots=True, kw_only=True)
class _Open:
    name: str
    groups: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    line: int = 0
    rows: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)


def histogram_blocks(text: str, layout: Layout) -> tuple[Block, ...]:
    """All blocks in order, at least one. Raises FormatError (`empty-result`, `truncated-result`,
    `unreadable-result`) with the line."""
    lines = tool_lines(text, layout.tool)
    blocks: list[_Open] = []
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if len(line) > _LONGEST_LINE:
            raise line_refused(number, line, layout.tool, cut=cut)
        if not line.strip("- \t") or _STAMP.fullmatch(line) or is_date(line) or is_prompt(line):
            continue
        head = _head(line, layout)
        tabbed = "\t" in line
        followed = next((entry for entry in lines[number : number + 2] if entry), "")
        if head is not None:
            blocks.append(head)
        elif not tabbed and "\t" in followed:
            blocks.append(_Open(name=line.strip()))
        elif not blocks:
            raise line_refused(number, line, layout.tool, cut=cut)
        elif not tabbed and blocks[-1].groups and not blocks[-1].columns:
            blocks[-1].columns = _histogram_blocks_columns(
                number, line, blocks[-1].groups, layout, cut=cut
            )
        else:
            _histogram_blocks_row(blocks[-1], number, line, layout, cut=cut)
    if not blocks:
        raise ends_early(layout.tool, "its first block")
    return tuple(_closed(block, layout, last=block is blocks[-1]) for block in blocks)


def _head(line: str, layout: Layout) -> _Open | None:
    """The name and the groups of columns behind it."""
    begin = line.rfind(f" {layout.first} ")
    groups = line[begin:].split() if begin > 0 else []
    if len(groups) < 2 or not all(_NAME.fullmatch(group) for group in groups):
        return None
    return _Open(name=line[:begin].strip(), groups=tuple(groups))


def _histogram_blocks_columns(
    number: int, line: str, groups: Sequence[str], layout: Layout, *, cut: bool
) -> tuple[str, ...]:
    """Named by both heads: a pair of halves for each group; what is left is a head of its own."""
    label, *heads = line.split()
    one, other = layout.halves
    pairs = [f"{group}_{half}" for group in groups for half in (one, other)]
    alone = heads[len(pairs) :]
    if (
        label != layout.label
        or heads[: len(pairs)] != [one, other] * len(groups)
        or not all(_NAME.fullmatch(name) and name not in layout.halves for name in alone)
        or len(set(pairs + alone)) < len(pairs) + len(alone)
    ):
        raise line_refused(number, line, layout.tool, cut=cut)
    return (*pairs, *alone)


def _histogram_blocks_row(
    block: _Open, number: int, line: str, layout: Layout, *, cut: bool
) -> None:
    label, *cells = line.split("\t") if "\t" in line else line.split()
    if not block.columns:
        block.columns = layout.scripted.get(len(cells), ())
    counts = [nice_count(cell) for cell in cells]
    known = tuple(count for count in counts if count is not None)
    if not block.columns or len(known) < len(cells) or len(cells) != len(block.columns):
        raise line_refused(number, line, layout.tool, cut=cut)
    block.line = block.line or number
    block.rows.append((label, known))


def _closed(block: _Open, layout: Layout, *, last: bool) -> Block:
    if len(block.rows) < layout.least_rows:
        fact = f"{len(block.rows)} of at least {layout.least_rows} buckets of {block.name!r}"
        if last:
            raise ends_early(layout.tool, f"its last bucket: there are {fact}")
        raise FormatError.unreadable(f"{layout.tool}: there are {fact}")
    return Block(name=block.name, columns=block.columns, line=block.line, rows=tuple(block.rows))


def grown_counts(name: str, first: Mapping[int, int], last: Mapping[int, int]) -> dict[int, int]:
    """How much each bucket grew. Raises ValueError where one shrank or there are others."""
    if first.keys() != last.keys():
        raise ValueError(f"{name}: the buckets of the two histograms are not the same")
    shrunk = [bucket for bucket, count in first.items() if last[bucket] < count]
    if shrunk:
        raise ValueError(
            f"{name}: the bucket {shrunk[0]} shrank from {first[shrunk[0]]} to {last[shrunk[0]]}"
        )
    return {bucket: last[bucket] - count for bucket, count in first.items()}


# `zpool iostat -r`: how many requests of which size the leaf vdevs were given.
#  A bucket holds the sizes from its own up to the next: `4K` counts requests of 4096 to 8191
# bytes, the last one, 16M, all larger ones, too. Those below 512 bytes are counted by the module
# and not printed. (OpenZFS, include/sys/fs/zfs.h: RQ_HISTO is highbit64(size) - 1, of 25 buckets;
# cmd/zpool/zpool_main.c, print_iostat_histo: `Request size (starting range of bucket)`, from
# bucket 9 on.) What counts is the size of the zio (module/zfs/vdev.c, vdev_stat_update), at leaf
# vdevs, so that a mirror of two counts a write twice; trees above them are sums of their leaves.
#  `individual` are requests that reached the device as they were. An aggregated request is one
# that the queue put together of several that lie close to each other: `aggregated` counts the
# ones that went to the device, not those that went into them, and its size is that of the whole.
#  Without an interval the figures are counts since the pool was imported (or the device was
# opened). With one, every block but the first is a mean rate per second (`scale` there), rounded
# down, so that it cannot be added up: ask twice without an interval and take `grown`. Without -p
# a count of 1024 and more has three digits.

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
            raise line_refused(block.line + number, label, _TOOL)
        sizes.append(size)
    counts = {
        column: MappingProxyType(
            {size: row[index] for size, (_, row) in zip(sizes, block.rows, strict=True)}
        )
        for index, column in enumerate(block.columns)
    }
    kinds = [column.removesuffix("_ind") for column in block.columns if column.endswith("_ind")]
    if len(block.columns) != 2 * len(kinds):
        raise line_refused(block.line, " ".join(block.columns), _TOOL)
    return RequestSizes(
        pool=block.name,
        kinds=MappingProxyType(
            {
                kind: KindSizes(individual=counts[f"{kind}_ind"], aggregated=counts[f"{kind}_agg"])
                for kind in kinds
            }
        ),
    )
