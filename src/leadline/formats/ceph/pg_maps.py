"""Placement groups as Ceph's map tools print them: `osdmaptool --test-map-pgs[-dump]`, `crushtool`.

osdmaptool prints the acting set and the primary of every PG, pool after pool, and one table of OSDs
for all of them (src/tools/osdmaptool.cc):

    pool 3 pg_num 64
    3.0	[4,2,6]	4
    #osd	count	first	primary	c wt	wt
    osd.0	12	5	4	0.000488281	1
     in 12
     avg 16 stddev 2.23607 (0.139754x) (expected 3.82971 0.239357x))
     min osd.7 11
     max osd.1 18
    size 3	64

`--test-map-pgs` leaves the lines of PGs out. `crushtool --test --show-mappings` prints what CRUSH
alone chooses, without the exceptions of an OSD map (src/crush/CrushTester.cc):

    CRUSH rule 1 x 0 [4,2147483647,6]

Each parser returns everything or raises FormatError with the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from leadline.formats.result import FormatError
from leadline.model.placement import Osds, PlacedPg

# CRUSH_ITEM_NONE (src/crush/crush.h): a shard without an OSD.
_NO_OSD = 0x7FFFFFFF
# A line has at most 32 OSDs, and a few numbers.
_LONGEST_LINE = 600
_WHOLE = r"\d{1,10}"
_WEIGHT = r"\d{1,10}(?:\.\d{0,12})?(?:e-\d{1,2})?"
_SET = rf"\[(?P<osds>(?:{_WHOLE}(?:,{_WHOLE}){{0,49}})?)\]"
_POOL = re.compile(rf"pool (?P<pool>{_WHOLE}) pg_num (?P<pg_num>{_WHOLE})")
_PG = re.compile(
    rf"(?P<pool>{_WHOLE})\.(?P<number>[0-9a-f]{{1,8}})\t{_SET}\t(?P<primary>-1|{_WHOLE})"
)
_COLUMNS = "#osd\tcount\tfirst\tprimary\tc wt\twt"
_OSD = re.compile(
    rf"osd\.(?P<osd>{_WHOLE})\t(?P<pgs>{_WHOLE})\t(?P<first>{_WHOLE})\t(?P<primaries>{_WHOLE})"
    rf"\t{_WEIGHT}\t(?P<weight>{_WEIGHT})"
)
_SIZE = re.compile(rf"size (?P<size>{_WHOLE})\t(?P<pgs>{_WHOLE})")
# Statistics that follow from the table, and messages of what the tool does before.
_REST = re.compile(
    r" in \d.*| avg .*| (?:min|max) osd\.-?\d.*|osdmaptool: osdmap file .*"
    r"|clearing pg/primary temp|marking .*"
)
_MAPPING = re.compile(rf"CRUSH rule (?P<rule>{_WHOLE}) x (?P<x>{_WHOLE}) {_SET}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedPool:
    """A pool; `pgs` by their number from 0, empty in a summary without them."""

    pool: int
    pg_num: int
    pgs: tuple[PlacedPg, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdCount:
    """Placement groups of an OSD over all pools of the output: all of them, those whose set it is
    the first of, those that it is the primary of. `weight` is the override from 0 to 1."""

    osd: int
    pgs: int
    first: int
    primaries: int
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedPgs:
    """All pools of the output, the OSDs that are in, and the number of PGs by number of OSDs."""

    pools: tuple[MappedPool, ...]
    osds: tuple[OsdCount, ...]
    sizes: Mapping[int, int]


def parse_mapped_pgs(content: bytes) -> MappedPgs:
    """Parse the output of `osdmaptool MAP --test-map-pgs` or `--test-map-pgs-dump`. Raises
    FormatError."""
    tool = "osdmaptool"
    pools: list[tuple[int, int, list[PlacedPg]]] = []
    osds: list[OsdCount] = []
    sizes: dict[int, int] = {}
    table = False
    for number, line in _lines(content, tool):
        if (found := _PG.fullmatch(line)) and not table:
            if not pools or int(found["pool"]) != pools[-1][0]:
                raise _wrong(tool, number, line, "a PG of another pool")
            pgs = pools[-1][2]
            if int(found["number"], 16) != len(pgs):
                raise _wrong(tool, number, line, f"PGs are not in order: {len(pgs):x} is missing")
            primary = int(found["primary"])
            pgs.append(
                PlacedPg(
                    osds=_osds(found["osds"]),
                    primary=None if found["primary"] == "-1" or primary == _NO_OSD else primary,
                )
            )
        elif (found := _POOL.fullmatch(line)) and not table:
            pools.append((int(found["pool"]), int(found["pg_num"]), []))
        elif line == _COLUMNS:
            table = True
        elif (found := _OSD.fullmatch(line)) and table:
            osds.append(
                OsdCount(
                    osd=int(found["osd"]),
                    pgs=int(found["pgs"]),
                    first=int(found["first"]),
                    primaries=int(found["primaries"]),
                    weight=float(found["weight"]),
                )
            )
        elif (found := _SIZE.fullmatch(line)) and table:
            sizes[int(found["size"])] = int(found["pgs"])
        elif not _REST.fullmatch(line):
            raise _wrong(tool, number, line, "it is no line of its output")
    if not pools and not table:
        raise FormatError.empty(f"the output of {tool} has no pool")
    if not table:
        raise FormatError.truncated(f"the output of {tool} has no table of OSDs")
    for pool, pg_num, pgs in pools:
        if pgs and len(pgs) != pg_num:
            raise FormatError.truncated(f"pool {pool} has {len(pgs)} of {pg_num} PGs")
    return MappedPgs(
        pools=tuple(
            MappedPool(pool=pool, pg_num=pg_num, pgs=tuple(pgs)) for pool, pg_num, pgs in pools
        ),
        osds=tuple(osds),
        sizes=sizes,
    )


def parse_crush_mappings(content: bytes) -> Mapping[int, Osds]:
    """Parse the output of `crushtool --test --show-mappings` for one rule: the chosen OSDs by x.
    Raises FormatError."""
    tool = "crushtool"
    chosen: dict[int, Osds] = {}
    rule = None
    for number, line in _lines(content, tool):
        found = _MAPPING.fullmatch(line)
        if not found:
            raise _wrong(tool, number, line, "it is no mapping")
        rule = found["rule"] if rule is None else rule
        x = int(found["x"])
        if found["rule"] != rule or x in chosen:
            raise _wrong(tool, number, line, "one rule with one size is expected")
        chosen[x] = _osds(found["osds"])
    if not chosen:
        raise FormatError.empty(f"the output of {tool} has no mapping")
    return chosen


def _lines(content: bytes, tool: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        text = line.removesuffix(b"\r").decode("utf-8", "replace")
        if len(text) > _LONGEST_LINE:
            raise _wrong(tool, number, text, "it is too long")
        if text.strip("\ufeff "):
            yield number, text


def _osds(text: str) -> Osds:
    numbers = (int(osd) for osd in text.split(",") if osd)
    return tuple(None if osd == _NO_OSD else osd for osd in numbers)


def _wrong(tool: str, number: int, line: str, fact: str) -> FormatError:
    return FormatError.unreadable(f"line {number} of {tool}'s output: {fact}", line[:80])
