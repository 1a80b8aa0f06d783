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
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from leadline.formats.result import FormatError
from leadline.formats.text import TextLine, ends_early, line_refused
from leadline.formats.zfs.lines import is_date, is_prompt, nice_count, tool_lines

_TOOL: Final = "zpool iostat -r"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}", re.ASCII)
_STAMP: Final = re.compile(r"\d{9,11}", re.ASCII)
_LONGEST_LINE: Final = 2000
# Heads the column of buckets.
_LABEL: Final = "req_size"
# 0.7 and 0.8 had no rebuild, 0.7 no trim.
_KINDS: Final = (
    *("sync_read", "sync_write", "async_read", "async_write"),
    *("scrub", "trim", "rebuild"),
)
_HALVES: Final = ("ind", "agg")
# The columns that -H prints without heads, by their number.
_SCRIPTED: Final = {
    2 * count: tuple(f"{kind}_{half}" for kind in _KINDS[:count] for half in _HALVES)
    for count in (5, 6, 7)
}
_LEAST_ROWS: Final = 16


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


@dataclass(slots=True, kw_only=True)
class _Block:
    """`rows` are a bucket's label and a count for each column; `line` is that of the first row."""

    name: str
    groups: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    line: int = 0
    rows: list[tuple[str, list[int]]] = field(default_factory=list)


def parse_request_sizes(text: str) -> tuple[RequestSizes, ...]:
    """A block for each pool or vdev and interval, in order. Raises FormatError (`empty-result`,
    `truncated-result`, `unreadable-result`) with the line."""
    lines = tool_lines(text, _TOOL)
    blocks: list[_Block] = []
    for line in lines:
        if len(line.text) > _LONGEST_LINE:
            raise line.refused()
        if _is_between(line.text):
            continue
        head = _head(line.text)
        tabbed = "\t" in line.text
        following = lines[line.number : line.number + 2]
        followed = next((entry.text for entry in following if entry.text), "")
        if head is not None:
            blocks.append(head)
        elif not tabbed and "\t" in followed:
            blocks.append(_Block(name=line.text.strip()))
        elif not blocks:
            raise line.refused()
        elif not tabbed and blocks[-1].groups and not blocks[-1].columns:
            blocks[-1].columns = _columns(line, blocks[-1].groups)
        else:
            _take_row(blocks[-1], line)
    if not blocks:
        raise ends_early(_TOOL, "its first block")
    for block in blocks:
        _check_length(block, last=block is blocks[-1])
    return tuple(_sizes(block) for block in blocks)


def _is_between(line: str) -> bool:
    """Test whether a line is between rows: blank, dashes, a timestamp or a prompt."""
    return (
        not line.strip("- \t") or bool(_STAMP.fullmatch(line)) or is_date(line) or is_prompt(line)
    )


def _head(line: str) -> _Block | None:
    """The name and the groups of columns behind it."""
    begin = line.rfind(f" {_KINDS[0]} ")
    groups = line[begin:].split() if begin > 0 else []
    if len(groups) < 2 or not all(_NAME.fullmatch(group) for group in groups):
        return None
    return _Block(name=line[:begin].strip(), groups=tuple(groups))


def _columns(line: TextLine, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Named by both heads: a pair of halves for each group; what is left is a head of its own."""
    label, *heads = line.text.split()
    pairs = [f"{group}_{half}" for group in groups for half in _HALVES]
    alone = heads[len(pairs) :]
    if (
        label != _LABEL
        or heads[: len(pairs)] != [*_HALVES] * len(groups)
        or not all(_NAME.fullmatch(name) and name not in _HALVES for name in alone)
        or len(set(pairs + alone)) < len(pairs) + len(alone)
    ):
        raise line.refused()
    return (*pairs, *alone)


def _take_row(block: _Block, line: TextLine) -> None:
    label, *cells = line.text.split("\t" if "\t" in line.text else None)
    if not block.columns:
        block.columns = _SCRIPTED.get(len(cells), ())
    counts = [count for cell in cells if (count := nice_count(cell)) is not None]
    if not block.columns or len(counts) < len(cells) or len(cells) != len(block.columns):
        raise line.refused()
    block.line = block.line or line.number
    block.rows.append((label, counts))


def _check_length(block: _Block, *, last: bool) -> None:
    if len(block.rows) >= _LEAST_ROWS:
        return
    fact = f"{len(block.rows)} of at least {_LEAST_ROWS} buckets of {block.name!r}"
    if last:
        raise ends_early(_TOOL, f"its last bucket: there are {fact}")
    raise FormatError.unreadable(f"{_TOOL}: there are {fact}")


def _sizes(block: _Block) -> RequestSizes:
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
                    individual=_grown(kind, before.individual, last.kinds[kind].individual),
                    aggregated=_grown(kind, before.aggregated, last.kinds[kind].aggregated),
                )
                for kind, before in first.kinds.items()
            }
        ),
    )


def _grown(kind: str, first: Mapping[int, int], last: Mapping[int, int]) -> Mapping[int, int]:
    """How much each bucket grew. Raises ValueError where one shrank or there are others."""
    if first.keys() != last.keys():
        raise ValueError(f"{kind}: the buckets of the two histograms are not the same")
    for bucket, count in first.items():
        if last[bucket] < count:
            raise ValueError(f"{kind}: the bucket {bucket} shrank from {count} to {last[bucket]}")
    return MappingProxyType({bucket: last[bucket] - count for bucket, count in first.items()})
