from __future__ import annotations

import pytest

from leadline.formats.output import FormatError
from leadline.formats.zfs.iostat_latencies import grown, parse_wait_times
from leadline.formats.zfs.iostat_sizes import parse_request_sizes
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "imports" / "zpool-iostat"
EXACT = (RECORDED / "zpool-iostat-wp.txt").read_text()
PLAIN = (RECORDED / "zpool-iostat-w.txt").read_text()
COLUMNS = [
    *("total_wait_read", "total_wait_write", "disk_wait_read", "disk_wait_write"),
    *("syncq_wait_read", "syncq_wait_write", "asyncq_wait_read", "asyncq_wait_write"),
    *("scrub_wait", "trim_wait", "rebuild_wait"),
]


def test_counts_by_the_longest_wait_of_a_bucket() -> None:
    (waits,) = parse_wait_times(EXACT)
    assert waits.pool == "tank"
    assert list(waits.columns) == COLUMNS
    total = waits.columns["total_wait_write"]
    assert list(total) == [(2 << power) - 1 for power in range(37)]
    # `131us`, `1ms` and `134ms`.
    assert (total[131_071], total[1_048_575], total[134_217_727]) == (6, 1547, 2)
    assert waits.columns["scrub_wait"][33_554_431] == 3
    assert sum(total.values()) == sum(waits.columns["disk_wait_write"].values())


def test_without_p_and_with_an_interval() -> None:
    first, then = parse_wait_times(PLAIN)
    assert first.columns["asyncq_wait_write"][8191] == round(1.42 * 1024)
    assert first.columns["asyncq_wait_write"][16_383] == 1009
    assert then.columns["total_wait_read"].keys() == first.columns["total_wait_read"].keys()


def test_reads_that_waited_are_the_requests_that_were_sized() -> None:
    """-r and -w of one pool were taken one after the other, while nothing was read."""
    (sizes,) = parse_request_sizes((RECORDED / "zpool-iostat-rp.txt").read_text())
    (waits,) = parse_wait_times(EXACT)
    read = ("sync_read", "async_read", "scrub")
    counted = sum(
        sum(sizes.kinds[kind].individual.values()) + sum(sizes.kinds[kind].aggregated.values())
        for kind in read
    )
    assert counted == sum(waits.columns["total_wait_read"].values())


def test_with_tabs() -> None:
    rows = [line.split() for line in EXACT.splitlines()[4:-1]]
    scripted = ["\t".join([str((2 << n) - 1), *row[1:]]) for n, row in enumerate(rows)]
    (waits,) = parse_wait_times("\n".join(["tank", *scripted, ""]))
    assert waits == parse_wait_times(EXACT)[0]


def test_what_came_in_between() -> None:
    (first,) = parse_wait_times(EXACT)
    (last,) = parse_wait_times(EXACT.replace(" 1547 ", " 1550 "))
    between = grown(first, last).columns["total_wait_write"]
    assert {bound: count for bound, count in between.items() if count} == {1_048_575: 3}
    with pytest.raises(ValueError, match="total_wait_write: the bucket 1048575 shrank"):
        grown(last, first)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("65us ", "66us "),
        ("65us ", "33us "),
        ("131us", "131ns"),
        ("17s  ", "16M  "),
        ("1ns  ", "0ns  "),
        (" 1547 ", " 1547x"),
    ],
)
def test_what_is_not_understood_is_refused(old: str, new: str) -> None:
    assert old in EXACT
    with pytest.raises(FormatError, match="line"):
        parse_wait_times(EXACT.replace(old, new, 1))


def test_sizes_are_no_waits() -> None:
    with pytest.raises(FormatError, match="zpool iostat -w"):
        parse_wait_times((RECORDED / "zpool-iostat-r.txt").read_text())
    with pytest.raises(FormatError) as refused:
        parse_wait_times("".join(EXACT.splitlines(keepends=True)[:30]))
    assert refused.value.condition == "truncated-result"


def test_07_named_its_queues_otherwise() -> None:
    """https://github.com/openzfs/zfs/issues/7694: `sync_queue`, and scrub alone."""
    old = []
    for line in (RECORDED / "zpool-iostat-w.txt").read_text().splitlines():
        renamed = line.replace("syncq_wait ", "sync_queue ").replace("asyncq_wait", "async_queue")
        words = renamed.split()
        old.append(renamed if len(words) < 10 else "  ".join(words[:10]))
    (waits, *_) = parse_wait_times("# zpool iostat -w tank\n" + "\n".join(old) + "\n")
    (now, *_) = parse_wait_times((RECORDED / "zpool-iostat-w.txt").read_text())
    assert waits.columns == {
        name: counts
        for name, counts in now.columns.items()
        if name not in ("trim_wait", "rebuild_wait")
    }
