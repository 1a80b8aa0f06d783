"""What a watch writes, and the tree; the rest of the format is in test_zpool_iostat.py."""

from __future__ import annotations

import pytest

from leadline.formats.result import FormatError
from leadline.formats.zfs.iostat import parse_zpool_iostat
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded"
OPENZFS = RECORDED / "imports" / "zpool-iostat"
FUSE = (RECORDED / "zfs" / "fuse-iostat-v-1.txt").read_bytes()
BLOCK = (OPENZFS / "zpool-iostat-vlq.txt").read_bytes()
M = 1 << 20


def test_leaves_of_the_tree() -> None:
    report = parse_zpool_iostat(BLOCK)
    assert report.leaves("tank") == ("vdd", "vde", "vdf", "vdg")
    assert report.leaves("other") == ()
    assert [row.depth for row in report.rows] == [0, 1, 2, 2, 1, 2, 2]


def test_leaves_of_several_pools() -> None:
    report = parse_zpool_iostat((OPENZFS / "jc-zpool-iostat-v.txt").read_bytes())
    assert report.leaves("zint500") == ("ST3500418AS-5VMSTSSX:5",)
    two = parse_zpool_iostat((RECORDED / "zfs" / "fuse-iostat-two-pools.txt").read_bytes())
    assert two.leaves("leadline-b") == ("/tmp/w/B/z/disk", "/tmp/w/B/z/log")
    assert two.leaves("leadline-s") == ("/tmp/w/B/z/small/d",)


def test_blocks_that_follow_each_other() -> None:
    """`zpool iostat -v -l -q -p -y POOL 1` prints one such block a second."""
    report = parse_zpool_iostat(BLOCK + b"\n" + BLOCK.replace(b"  434  ", b"  500  ") + b"\n")
    assert report.intervals == 2
    pools = [row for row in report.rows if not row.depth]
    assert [row.values["operations_write"] for row in pools] == [434.0, 500.0]
    assert len(report.rows) == 2 * 7
    assert pools[1].values["asyncq_wait_write"] == pytest.approx(515e-6)
    assert report.leaves("tank") == ("vdd", "vde", "vdf", "vdg")


def test_zfs_fuse_begins_with_the_average_and_has_no_head_for_logs() -> None:
    report = parse_zpool_iostat(FUSE)
    assert report.intervals == 4
    disks = [row for row in report.rows if row.name == "/tmp/w/B/z/disk"]
    assert [row.values["operations_write"] for row in disks] == [12.0, 502.0, 0.0, 736.0]
    logs = [row for row in report.rows if row.name == "/tmp/w/B/z/log"]
    assert [row.values["bandwidth_write"] for row in logs] == [58.9 * 1024, 0.0, 0.0, 3.12 * M]
    assert {row.depth for row in logs} == {1}


@pytest.mark.parametrize("lost", [1, 30, 60, 75, 140, 190])
def test_a_tool_that_was_stopped_leaves_whole_intervals(lost: int) -> None:
    content = FUSE.rstrip(b"\n")[:-lost]
    report = parse_zpool_iostat(content, stopped=True)
    # The line below the last block reports nothing.
    assert report.intervals == (4 if lost < 63 else 3)
    assert [row.name for row in report.rows] == [
        *("leadline-b", "/tmp/w/B/z/disk", "/tmp/w/B/z/log"),
    ] * report.intervals


def test_without_that_word_it_is_an_error() -> None:
    with pytest.raises(FormatError) as refused:
        parse_zpool_iostat(FUSE.rstrip(b"\n")[:-75])
    assert refused.value.condition == "truncated-result"
    with pytest.raises(FormatError) as refused:
        parse_zpool_iostat(FUSE[:100], stopped=True)
    assert refused.value.condition == "truncated-result"
