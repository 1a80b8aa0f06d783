from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from leadline.formats.result import FormatError
from leadline.formats.zfs.status import PoolStatus, VdevGroup, parse_pool_status
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "zfs"
ALL = sorted(RECORDED.glob("*zpool?status*.txt"))
DEGRADED = (RECORDED / "jc-zpool-status-v2.txt").read_text()
SUSPENDED = """\
errors: List of errors unavailable: pool I/O is currently suspended
  pool: vmdata
 state: SUSPENDED
status: One or more devices are faulted in response to IO failures.
action: Make sure the affected devices are connected, then run 'zpool clear'.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-HC
  scan: resilver in progress since Mon Mar 20 14:04:56 2017
\t773M scanned out of 1.00G at 875K/s, 0h4m to go
    75.44% done
config:

\tNAME        STATE     READ WRITE CKSUM
\tvmdata      UNAVAIL      0     0     0  insufficient replicas
\t  sdb       ONLINE       0     0     0
\t  sdc       FAULTED      8   126     0  too many errors
\tspecial\t
\t  ONLINE    ONLINE       0     0     0
\tcache
\t  sdd       ONLINE       0     0     0
\tspares
\t  my disk   INUSE     currently in use

errors: 67 data errors, use '-v' for a list
"""


def only(text: str) -> PoolStatus:
    (pool,) = parse_pool_status(text)
    return pool


def test_every_sample_is_read() -> None:
    assert len(ALL) == 11
    for path in ALL:
        for pool in parse_pool_status(path.read_text()):
            assert pool.vdevs[0].name == pool.name
            assert pool.vdevs[0].depth == 0
            assert pool.scan or path.name == "zpool-status.txt"
            assert pool.errors


def test_mirrors_of_two_pools() -> None:
    tank, other = parse_pool_status((RECORDED / "zpool-status.txt").read_text())
    assert (tank.name, tank.state, tank.errors) == ("tank", "ONLINE", "No known data errors")
    assert (tank.status, tank.action, tank.scan, dict(tank.other)) == ("", "", "", {})
    assert [(one.name, one.depth) for one in tank.vdevs[:4]] == [
        ("tank", 0),
        ("mirror-0", 1),
        ("vdd", 2),
        ("vde", 2),
    ]
    assert [one.name for one in tank.leaves] == ["vdd", "vde", "vdf", "vdg"]
    assert [one.name for one in other.leaves] == ["vdh"]
    assert not tank.suspended


def test_scan() -> None:
    pool = only((RECORDED / "zpool-status-after-scrub.txt").read_text())
    assert pool.scan.startswith("scrub repaired 0B in 00:00:04 with 0 errors on Fri Nov 20")
    assert only((RECORDED / "on-rbd-zpool_status.txt").read_text()).scan == "none requested"


def test_columns_that_are_not_aligned() -> None:
    pool = only((RECORDED / "on-rbd-zpool_status.txt").read_text())
    assert [(one.name, one.depth) for one in pool.vdevs] == [("labr", 0), ("/lab/rbdf/zfs0", 1)]


def test_lines_without_blank_ones_between_pools() -> None:
    pools = parse_pool_status((RECORDED / "jc-zpool-status-v.txt").read_text())
    assert [pool.name for pool in pools] == ["zhgstera6", "zint500", "zsam53"]
    assert pools[2].leaves[0].name == "Portable_SSD_T5-S49WNP0N120517B:8"


def test_status_and_action_that_go_on() -> None:
    pool = only((RECORDED / "jc-zpool-status-v4.txt").read_text())
    assert pool.status.endswith("enabled on the pool. The pool can still be used, but some "
                                "features are unavailable.")  # fmt: skip
    assert pool.action.endswith("See zpool-features(7) for details.")
    assert len(pool.leaves) == 4


def test_a_disk_that_is_missing() -> None:
    pool = only(DEGRADED)
    assert pool.state == "DEGRADED"
    assert pool.other["see"] == "http://www.sun.com/msg/ZFS-8000-2Q"
    missing = pool.leaves[-1]
    assert (missing.name, missing.state, missing.note) == ("c1t1d0", "UNAVAIL", "cannot open")


def test_groups() -> None:
    spares = only((RECORDED / "jc-zpool-status-spares.txt").read_text())
    assert [one.name for one in spares.vdevs if one.group is VdevGroup.SPARE] == ["sdf"]
    fuse = only((RECORDED / "fuse-zpool-status.txt").read_text())
    assert {one.name: one.group for one in fuse.leaves} == {
        "/tmp/w/B/z/disk": VdevGroup.DATA,
        "/tmp/w/B/z/log": VdevGroup.LOG,
        "/tmp/w/B/z/spare": VdevGroup.SPARE,
    }


def test_errors_of_a_pool_that_lost_data() -> None:
    pool = only((RECORDED / "fuse-zpool-status-errors.txt").read_text())
    assert len(pool.leaves) == 1
    assert pool.errors.splitlines()[1:] == ["leadline-s:<0x0>", "/tmp/w/B/z/mnt2/f"]
    # It has lost data, and says that it is ONLINE.
    assert (pool.state, pool.suspended) == ("ONLINE", False)


def test_a_suspended_pool() -> None:
    pool = only(SUSPENDED)
    assert pool.suspended
    assert pool.state == "SUSPENDED"
    assert pool.scan.endswith("0h4m to go 75.44% done")
    assert pool.errors.splitlines() == [
        "67 data errors, use '-v' for a list",
        "List of errors unavailable: pool I/O is currently suspended",
    ]
    assert [(one.name, one.state, one.note) for one in pool.vdevs] == [
        ("vmdata", "UNAVAIL", "insufficient replicas"),
        ("sdb", "ONLINE", ""),
        ("sdc", "FAULTED", "too many errors"),
        ("ONLINE", "ONLINE", ""),
        ("sdd", "ONLINE", ""),
        ("my disk", "INUSE", "currently in use"),
    ]
    assert [one.group.value for one in pool.vdevs[3:]] == ["special", "cache", "spare"]


def test_an_old_version_says_it_in_the_status_alone() -> None:
    assert only(SUSPENDED.replace("SUSPENDED", "ONLINE")).suspended


def test_no_pools() -> None:
    assert parse_pool_status("no pools available\n") == ()


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        (" state: DEGRADED\n", "", "truncated-result"),
        ("  pool: tank\n", "", "unreadable-result"),
        ("c1t0d0  ONLINE ", "c1t0d0  SINKING", "unreadable-result"),
        ("            c1t0d0", "   c1t0d0", "unreadable-result"),
    ],
)
def test_what_is_not_understood_is_refused(old: str, new: str, condition: str) -> None:
    assert old in DEGRADED
    with pytest.raises(FormatError) as refused:
        parse_pool_status(DEGRADED.replace(old, new, 1))
    assert refused.value.condition == condition


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_it_may_be_cut_anywhere(path: Path) -> None:
    text = path.read_text()
    whole = parse_pool_status(text)
    for end in range(0, len(text), 7):
        with contextlib.suppress(FormatError):
            reported = parse_pool_status(text[:end])
            assert [one.name for one in reported[:-1]] == [
                one.name for one in whole[: len(reported) - 1]
            ]


def test_a_distributed_spare_in_use_behind_a_prompt() -> None:
    """Rows as in https://github.com/rouben/zfswatcher/issues/24 and openzfs/zfs issue 18319."""
    (pool,) = parse_pool_status(
        "root@box:~# zpool status aggr0\n"
        "  pool: aggr0\n state: DEGRADED\n"
        "  scan: scrub repaired 0B in 2 days 10:05:20 with 0 errors on Tue Jul 11 10:29:22 2023\n"
        "  scan: resilver (draid3:19d:24c:2s-0) in progress since Mon Jul 24 19:40:55 2023\n"
        "\t13.9T resilvered, 92.97% done, 03:22:35 to go\n"
        "expand: expanded raidz2-0 copied 103T in 4 days 00:32:32\n"
        "config:\n\n"
        "\tNAME                   STATE     READ WRITE CKSUM\n"
        "\taggr0                  DEGRADED     0     0     0\n"
        "\t  draid3:19d:24c:2s-0  DEGRADED     0     0     0\n"
        "\t    0a-0               ONLINE       0     0     0  (resilvering)\n"
        "\t    spare-2            DEGRADED     0     0     1\n"
        "\t      /var/tmp/vdev2   FAULTED      0     0 1.88K  external device fault\n"
        "\t      draid3-0-0       ONLINE       0     0     0\n"
        "\tspares\n"
        "\t  draid3-0-0           INUSE     currently in use\n"
        "\n"
        "errors: No known data errors\n"
    )
    assert [(one.name, one.depth) for one in pool.vdevs][3:6] == [
        *(("spare-2", 2), ("/var/tmp/vdev2", 3), ("draid3-0-0", 3)),
    ]
    assert (pool.vdevs[-1].group, pool.vdevs[-1].state) == (VdevGroup.SPARE, "INUSE")
    assert "2 days 10:05:20" in pool.scan
    assert "92.97% done" in pool.scan
    assert pool.other["expand"].startswith("expanded raidz2-0")
