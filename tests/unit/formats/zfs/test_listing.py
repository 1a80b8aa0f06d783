from __future__ import annotations

import pytest

from leadline.formats.output import FormatError
from leadline.formats.zfs.listing import (
    ZFS_FUSE_ZPOOL_LIST,
    ZFS_LIST,
    ZPOOL_LIST,
    parse_listing,
)
from leadline.formats.zfs.nicenum import nice_count
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "zfs"


def read(name: str) -> str:
    return (RECORDED / name).read_text()


def test_datasets_with_heads_and_with_tabs() -> None:
    table = parse_listing(read("zfs-list.txt"))
    tabs = parse_listing(read("zfs-list-Hp.txt"), columns=ZFS_LIST)
    assert [one.name for one in table] == [one.name for one in tabs]
    assert len(table) == 11
    assert dict(table[2].values) == {
        "name": "tank/r128K@a",
        "used": "0B",
        "available": "-",
        "referenced": "256M",
        "mountpoint": "-",
    }
    for one, exact in zip(table, tabs, strict=True):
        assert one.values.keys() == exact.values.keys()
        told, bytes_ = nice_count(one.values["used"]), nice_count(exact.values["used"])
        assert told is not None
        assert bytes_ is not None
        assert told == pytest.approx(bytes_, rel=0.005)


def test_space() -> None:
    first = parse_listing(read("zfs-list-space.txt"))[0]
    assert list(first.values) == [
        *("name", "available", "used", "usedbysnapshots", "usedbydataset"),
        *("usedbyrefreservation", "usedbychildren"),
    ]
    assert first.values["usedbychildren"] == "834M"
    fuse = parse_listing(read("fuse-zfs-list-space.txt"))
    assert (fuse[2].name, fuse[2].values["usedbysnapshots"]) == ("leadline-b/src", "744K")


def test_pools_and_their_vdevs() -> None:
    rows = parse_listing(read("zpool-list-v.txt"))
    assert [(one.name, one.depth) for one in rows] == [
        *(("tank", 0), ("mirror-0", 1), ("vdd", 2), ("vde", 2)),
        *(("mirror-1", 1), ("vdf", 2), ("vdg", 2), ("tank2", 0), ("vdh", 1)),
    ]
    assert rows[1].values["fragmentation"] == "31%"
    assert rows[1].values["health"] == "ONLINE"
    assert "altroot" not in rows[1].values
    assert rows[0].values["altroot"] == "-"


def test_tabs_of_each_version() -> None:
    tank, _ = parse_listing(read("zpool-list-Hp.txt"), columns=ZPOOL_LIST)
    assert (tank.values["size"], tank.values["capacity"]) == ("2013265920", "47")
    (fuse,) = parse_listing(read("fuse-zpool-list-H.txt"), columns=ZFS_FUSE_ZPOOL_LIST)
    (table,) = parse_listing(read("fuse-zpool-list.txt"))
    assert fuse == table
    asked = ("name", "size", "allocated", "free", "capacity", "health")
    lab, labr = parse_listing(read("on-rbd-zpool_list_H.txt"), columns=asked)
    assert (lab.values["health"], labr.values["allocated"]) == ("ONLINE", "776M")


def test_names_with_blanks_and_heads_of_groups() -> None:
    text = (
        "NAME       SIZE  ALLOC   FREE    CAP  HEALTH  ALTROOT\n"
        "my tank   1.88G   911M  1009M    47%  ONLINE  /mnt/a b\n"
        "  sda     1.88G   911M  1009M    47%  ONLINE\n"
        "logs          -      -      -      -       -  -\n"
        "  sdb     1014M   124K   960M     2%  ONLINE\n"
    )
    rows = parse_listing(text)
    assert [(one.name, one.depth) for one in rows] == [("my tank", 0), ("sda", 1), ("sdb", 1)]
    assert rows[0].values["altroot"] == "/mnt/a b"


def test_there_are_none() -> None:
    assert parse_listing("no pools available\n") == ()
    assert parse_listing("no datasets available\n") == ()


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (read("zpool-list-v.txt").replace("  911M", ""), "unreadable-result"),
        (read("zfs-list.txt").replace("NAME ", "SAME "), "unreadable-result"),
        (read("zfs-list-Hp.txt"), "unreadable-result"),
        (read("zfs-list.txt")[:-3], "truncated-result"),
        ("NAME  USED\n", "truncated-result"),
        ("\n", "empty-result"),
        ("cannot open 'x': no such pool\n", "unreadable-result"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_listing(text)
    assert refused.value.condition == condition


def test_columns_that_do_not_fit() -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_listing(read("zpool-list-Hp.txt"), columns=ZFS_FUSE_ZPOOL_LIST)
    with pytest.raises(ValueError, match="first column"):
        parse_listing("tank\t1\n", columns=("size", "name"))


def test_vdevs_of_07_have_neither_ratio_nor_health() -> None:
    """https://github.com/openzfs/zfs/issues/7308"""
    text = """\
NAME   SIZE  ALLOC   FREE  EXPANDSZ   FRAG    CAP  DEDUP  HEALTH  ALTROOT
timemachinepool  10,9T  2,58T  8,29T         -     4%    23%  1.00x  ONLINE  -
  raidz2  10,9T  2,58T  8,29T         -     4%    23%
    ata-WDC_WD2003FYYS-02W0B0_WD-WMAY00390617      -      -      -         -      -      -
"""
    pool, vdev, disk = parse_listing(text)
    assert (pool.values["health"], vdev.values["capacity"]) == ("ONLINE", "23%")
    assert "health" not in vdev.values
    assert (disk.depth, disk.values["size"]) == (2, "-")
    with pytest.raises(FormatError, match="line 3 "):
        parse_listing(text.replace("     4%    23%\n", "     4%\n"))


def test_heads_among_the_vdevs_lack_the_altroot() -> None:
    text = """\
NAME           SIZE  ALLOC   FREE  CKPOINT  EXPANDSZ   FRAG    CAP  DEDUP    HEALTH  ALTROOT
rpool         9.08T  2.77T  6.31T        -         -     9%    30%  1.00x  DEGRADED  -
  mirror-0    9.08T  2.77T  6.31T        -         -     9%  30.5%      -    ONLINE
logs              -      -      -        -         -      -      -      -         -
  mirror-1    16.5G   384K  16.5G        -         -     0%  0.00%      -  DEGRADED
cache             -      -      -        -         -      -      -      -         -
  sdb2        92.2G  92.0G   229M        -         -     0%  99.8%      -    ONLINE
"""
    assert [row.name for row in parse_listing(text)] == ["rpool", "mirror-0", "mirror-1", "sdb2"]
