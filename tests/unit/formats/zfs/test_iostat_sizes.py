from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from leadline.formats.result import FormatError
from leadline.formats.zfs.iostat_sizes import KindSizes, grown, parse_request_sizes
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "imports" / "zpool-iostat"
ON_RBD = (RECORDED / "zpool-iostat-r-on-rbd.txt").read_text()
EXACT = (RECORDED / "zpool-iostat-rp.txt").read_text()
KINDS = ["sync_read", "sync_write", "async_read", "async_write", "scrub", "trim", "rebuild"]
M = 1 << 20


def reported(sizes: Mapping[int, int]) -> dict[int, int]:
    return {size: count for size, count in sizes.items() if count}


def test_counts_by_the_least_size_of_a_bucket() -> None:
    (sizes,) = parse_request_sizes(ON_RBD)
    assert sizes.pool == "tank3"
    assert list(sizes.kinds) == KINDS
    written = sizes.kinds["async_write"]
    assert reported(written.individual) == {
        512: 2,
        1024: 8,
        2048: 7,
        4096: 144,
        8192: 1,
        4 * M: 16,
    }
    assert reported(written.aggregated) == {8192: 71, 16384: 30, 32768: 14}
    assert list(written.individual) == [512 << power for power in range(16)]
    assert not any(sizes.kinds["rebuild"].individual.values())


def test_exact_counts() -> None:
    (sizes,) = parse_request_sizes(EXACT)
    assert sizes.kinds["async_write"].individual[4096] == 4968
    assert sizes.kinds["scrub"].aggregated[32768] == 5


def test_counts_and_then_rates() -> None:
    """Without -p, with an interval: the first block counts since the import."""
    first, then = parse_request_sizes((RECORDED / "zpool-iostat-r.txt").read_text())
    assert (first.pool, then.pool) == ("tank", "tank")
    assert first.kinds["async_write"].individual[4096] == 574
    assert then.kinds["async_write"].individual[4096] == 257


def test_a_count_with_a_suffix_has_three_digits() -> None:
    (sizes,) = parse_request_sizes(EXACT.replace(" 4968 ", "4.85K "))
    assert sizes.kinds["async_write"].individual[4096] == 4966


def test_older_versions_have_fewer_kinds() -> None:
    old = "\n".join(
        line[:80] if "async_read" not in line else line[:80].rstrip()
        for line in ON_RBD.splitlines()
    )
    (sizes,) = parse_request_sizes(old + "\n")
    assert list(sizes.kinds) == KINDS[:5]
    assert sizes.kinds["async_write"].individual[4 * M] == 16


def test_with_tabs_and_vdevs() -> None:
    rows = [line.split() for line in ON_RBD.splitlines()[4:-1]]
    scripted = ["\t".join([str(512 << n), *row[1:]]) for n, row in enumerate(rows)]
    text = "\n".join(["tank3", *scripted, "", "vdh", *scripted, ""])
    pool, vdev = parse_request_sizes(text)
    assert (pool.pool, vdev.pool) == ("tank3", "vdh")
    assert vdev.kinds == parse_request_sizes(ON_RBD)[0].kinds


def test_what_came_in_between() -> None:
    (first,) = parse_request_sizes(EXACT)
    (last,) = parse_request_sizes(EXACT.replace(" 4968 ", " 5000 ").replace(" 2590 ", " 2600 "))
    between = grown(first, last)
    assert reported(between.kinds["async_write"].individual) == {4096: 32, M: 10}
    assert not reported(between.kinds["sync_read"].individual)


def test_counts_do_not_shrink() -> None:
    (first,) = parse_request_sizes(EXACT)
    (last,) = parse_request_sizes(EXACT.replace(" 4968 ", " 4967 "))
    with pytest.raises(ValueError, match="async_write: the bucket 4096 shrank from 4968 to 4967"):
        grown(first, last)
    with pytest.raises(ValueError, match="not the same"):
        grown(first, dataclasses.replace(last, pool="tank2"))
    trims = [
        dataclasses.replace(first, kinds={"trim": KindSizes(individual={size: 1}, aggregated={})})
        for size in (512, 1024)
    ]
    with pytest.raises(ValueError, match="the buckets of the two histograms are not the same"):
        grown(*trims)


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        ("4K      ", "5K      ", "unreadable-result"),
        ("8K      ", "4K      ", "unreadable-result"),
        ("    144", "  1,440", "unreadable-result"),
        ("    144", "   -144", "unreadable-result"),
        ("    144", "    1 4", "unreadable-result"),
        ("req_size", "latency ", "unreadable-result"),
        ("ind    agg    ind", "ind    ind    ind", "unreadable-result"),
        ("tank3  ", "Device ", None),
    ],
)
def test_what_is_not_understood_is_refused(old: str, new: str, condition: str | None) -> None:
    text = ON_RBD.replace(old, new, 1)
    assert text != ON_RBD
    if condition is None:
        assert parse_request_sizes(text)[0].pool == "Device"
        return
    with pytest.raises(FormatError, match="line") as refused:
        parse_request_sizes(text)
    assert refused.value.condition == condition


def test_a_block_of_which_rows_are_missing() -> None:
    lines = ON_RBD.splitlines(keepends=True)
    with pytest.raises(FormatError, match="ends before its last bucket") as refused:
        parse_request_sizes("".join(lines[:-3]))
    assert refused.value.condition == "truncated-result"
    with pytest.raises(FormatError, match="of at least 16 buckets") as refused:
        parse_request_sizes("".join(lines[:-3] + lines))
    assert refused.value.condition == "unreadable-result"
    with pytest.raises(FormatError, match="is empty"):
        parse_request_sizes("\n")
    with pytest.raises(FormatError, match="before its first block"):
        parse_request_sizes("1700000000\n------\n")


def test_the_rates_of_plain_iostat_are_refused() -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_request_sizes((RECORDED / "zpool-iostat-v.txt").read_text())
