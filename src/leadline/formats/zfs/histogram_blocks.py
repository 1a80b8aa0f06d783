"""The histograms of `zpool iostat -r` and `-w`: blocks of a head and a row for each bucket.

    tank          sync_read    sync_write    async_read    async_write  ...
    req_size      ind    agg    ind    agg    ind    agg    ind    agg  ...
    ----------  -----  -----  -----  -----  -----  -----  -----  -----  ...
    512             0      0      0      0      0      0      0      0  ...

Each pool, and with -v each vdev, has a block of its own, named in the head alone: the tree is not
shown. With -H a block is the name on a line and rows with tabs, without heads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.formats.output import FormatError
from leadline.formats.zfs.lines import ends_early, is_cut, is_date, is_prompt, lines_of, refused
from leadline.formats.zfs.nicenum import nice_count

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
    lines = lines_of(text, layout.tool)
    blocks: list[_Open] = []
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if len(line) > _LONGEST_LINE:
            raise refused(number, line, layout.tool, cut=cut)
        if not line.strip("- \t") or _STAMP.fullmatch(line) or is_date(line) or is_prompt(line):
            continue
        head = _head(line, layout)
        tabbed = "\t" in line
        followed = next((one for one in lines[number : number + 2] if one), "")
        if head is not None:
            blocks.append(head)
        elif not tabbed and "\t" in followed:
            blocks.append(_Open(name=line.strip()))
        elif not blocks:
            raise refused(number, line, layout.tool, cut=cut)
        elif not tabbed and blocks[-1].groups and not blocks[-1].columns:
            blocks[-1].columns = _columns(number, line, blocks[-1].groups, layout, cut=cut)
        else:
            _row(blocks[-1], number, line, layout, cut=cut)
    if not blocks:
        raise ends_early(layout.tool, "its first block")
    return tuple(_closed(one, layout, last=one is blocks[-1]) for one in blocks)


def _head(line: str, layout: Layout) -> _Open | None:
    """The name and the groups of columns behind it."""
    begin = line.rfind(f" {layout.first} ")
    groups = line[begin:].split() if begin > 0 else []
    if len(groups) < 2 or not all(_NAME.fullmatch(one) for one in groups):
        return None
    return _Open(name=line[:begin].strip(), groups=tuple(groups))


def _columns(
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
        raise refused(number, line, layout.tool, cut=cut)
    return (*pairs, *alone)


def _row(block: _Open, number: int, line: str, layout: Layout, *, cut: bool) -> None:
    label, *cells = line.split("\t") if "\t" in line else line.split()
    if not block.columns:
        block.columns = layout.scripted.get(len(cells), ())
    counts = [nice_count(cell) for cell in cells]
    told = tuple(count for count in counts if count is not None)
    if not block.columns or len(told) < len(cells) or len(cells) != len(block.columns):
        raise refused(number, line, layout.tool, cut=cut)
    block.line = block.line or number
    block.rows.append((label, told))


def _closed(block: _Open, layout: Layout, *, last: bool) -> Block:
    if len(block.rows) < layout.least_rows:
        fact = f"{len(block.rows)} of at least {layout.least_rows} buckets of {block.name!r}"
        if last:
            raise ends_early(layout.tool, f"all buckets are told: there are {fact}")
        raise FormatError("unreadable-result", f"{layout.tool}: there are {fact}")
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
