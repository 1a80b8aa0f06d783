"""Parsers of Ceph's map tools, on their real output (tests/recorded/pg-maps)."""

from __future__ import annotations

from collections import Counter

import pytest

from leadline.formats.ceph.pg_maps import (
    MappedPgs,
    parse_crush_mappings,
    parse_mapped_pgs,
)
from leadline.formats.result import FormatError
from leadline.model.placement import PlacedPg
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "pg-maps"
POOL = b"pool 3 pg_num 1\n"
TABLE = b"#osd\tcount\tfirst\tprimary\tc wt\twt\n"


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


@pytest.fixture(scope="module")
def dump() -> MappedPgs:
    return parse_mapped_pgs(recorded("dump-exceptions.txt"))


def test_a_dump_has_every_pg_of_every_pool(dump: MappedPgs) -> None:
    pg_nums = {pool.pool: pool.pg_num for pool in dump.pools}
    assert pg_nums == {1: 64, 2: 64, 3: 64, 4: 24, 5: 16, 6: 8}
    assert all(len(pool.pgs) == pool.pg_num for pool in dump.pools)
    assert dump.pools[0].pgs[0x39] == PlacedPg(osds=(3, 1, 5), primary=3)


def test_the_table_counts_what_the_lines_hold(dump: MappedPgs) -> None:
    pgs = [pg for pool in dump.pools for pg in pool.pgs]
    held = Counter(osd for pg in pgs for osd in pg.osds)
    primaries = Counter(pg.primary for pg in pgs)
    first = Counter(pg.osds[0] for pg in pgs)
    assert [(osd.pgs, osd.primaries, osd.first) for osd in dump.osds] == [
        (held[osd.osd], primaries[osd.osd], first[osd.osd]) for osd in dump.osds
    ]
    assert dump.sizes == Counter(len(pg.osds) for pg in pgs)
    assert dump.osds[7].weight == pytest.approx(0.6, abs=1e-4)


def test_primary_affinity_moves_the_primary_and_not_the_first_shard(dump: MappedPgs) -> None:
    erasure = dump.pools[2]
    assert any(pg.primary != pg.osds[0] for pg in erasure.pgs)


def test_a_summary_has_no_pgs() -> None:
    summary = parse_mapped_pgs(recorded("summary-ec-2-1.txt"))
    assert [(pool.pool, pool.pg_num, pool.pgs) for pool in summary.pools] == [(3, 64, ())]
    assert sum(osd.pgs for osd in summary.osds) == 64 * 3
    assert summary.sizes == {3: 64}


def test_a_shard_without_an_osd_is_none() -> None:
    mappings = parse_crush_mappings(recorded("mappings-ec-hole.txt"))
    assert mappings[0] == (4, None, 6, 2)
    pgs = parse_mapped_pgs(POOL + b"3.0\t[4,2147483647,6]\t4\n" + TABLE).pools[0].pgs
    assert pgs == (PlacedPg(osds=(4, None, 6), primary=4),)
    assert parse_mapped_pgs(POOL + b"3.0\t[]\t-1\n" + TABLE).pools[0].pgs[0].primary is None


def test_crush_chooses_fewer_osds_where_there_are_fewer_zones() -> None:
    mappings = parse_crush_mappings(recorded("mappings-four-copies.txt"))
    assert list(mappings) == list(range(8))
    assert {len(osds) for osds in mappings.values()} == {3}


@pytest.mark.parametrize(
    ("content", "condition", "said"),
    [
        (b"", "empty-result", "no pool"),
        (POOL + b"3.0\t[1]\t1\n", "truncated-result", "no table"),
        (b"pool 3 pg_num 2\n3.0\t[1]\t1\n" + TABLE, "truncated-result", "1 of 2"),
        (POOL + b"3.1\t[1]\t1\n" + TABLE, "unreadable-result", "line 2"),
        (POOL + b"4.0\t[1]\t1\n" + TABLE, "unreadable-result", "another pool"),
        (POOL + TABLE + b"osd.x\n", "unreadable-result", "line 3"),
        (b"There is no pool 99\n", "unreadable-result", "line 1"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, said: str) -> None:
    with pytest.raises(FormatError, match=said) as refused:
        parse_mapped_pgs(content)
    assert refused.value.condition == condition


def test_mappings_of_two_rules_are_refused() -> None:
    line = b"CRUSH rule 0 x 0 [1,2]\n"
    for second in (line, b"CRUSH rule 1 x 1 [1,2]\n"):
        with pytest.raises(FormatError, match="line 2"):
            parse_crush_mappings(line + second)
    with pytest.raises(FormatError, match="no mapping"):
        parse_crush_mappings(b"")
