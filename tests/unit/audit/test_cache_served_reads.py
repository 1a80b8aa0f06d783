"""cache-served-reads on our own runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leadline.archive.records import CacheDrop, Extent
from leadline.findings import Severity
from tests.unit.audit.audit_archives import Judge, Stored
from tests.unit.audit.test_rules import of


def buffered(resident: int, span: int = 64 << 20, filesystem: str = "ext4") -> Stored:
    return Stored(
        "buffered-reread",
        record={
            "cache_drop": CacheDrop(
                method="fadvise", resident_before_bytes=0, resident_after_bytes=resident
            ),
            "extent": Extent(
                span_bytes=span, written_bytes=span, allocated_bytes=span, filesystem=filesystem
            ),
        },
    )


def test_cache_served_reads_fires_on_resident_pages(judge: Judge) -> None:
    (found,) = of("cache-served-reads", judge(buffered(32 << 20)))
    assert found.severity is Severity.ERROR


def without_disks(document: dict[str, Any]) -> None:
    """As on a network filesystem: fio lists no disk. No percentiles, as in a plain result."""
    document.pop("disk_util", None)
    for key in ("lat_ns", "clat_ns"):
        document["jobs"][0]["read"][key].pop("percentile", None)
        document["jobs"][0]["read"][key].pop("bins", None)


@pytest.mark.parametrize(("name", "limit"), [("half-cached", "behind the page cache")])
def test_cache_served_reads_fires_on_a_median_of_memory(
    judge: Judge, name: str, limit: str
) -> None:
    (found,) = of("cache-served-reads", judge(Stored(name, record={"cache_drop": None})))
    assert found.severity is Severity.ERROR
    assert limit in found.message


@pytest.mark.parametrize("filesystem", ["nfs4", "ceph"])
def test_cache_served_reads_fires_below_the_round_trip_of_a_mounted_network(
    judge: Judge, filesystem: str
) -> None:
    stored = Stored("half-cached", record=buffered(0, filesystem=filesystem).record)
    (found,) = of("cache-served-reads", judge(stored))
    assert f"a network round trip takes (the file system is {filesystem})" in found.message


def test_cache_served_reads_fires_without_a_drop(judge: Judge) -> None:
    """fio's own drop at the start may have worked: it was not checked."""
    stored = Stored("buffered-reread", edit=without_disks, record={"cache_drop": None})
    (found,) = of("cache-served-reads", judge(stored))
    assert found.severity is Severity.WARNING


def test_cache_served_reads_fires_on_reading_again(judge: Judge) -> None:
    def kept(output: Any) -> None:
        without_disks(output)
        output["jobs"][0]["job options"]["invalidate"] = "0"

    (found,) = of("cache-served-reads", judge(replace(buffered(0), edit=kept)))
    assert found.severity is Severity.WARNING
    assert found.evidence["reread_share"] == pytest.approx(0.71, abs=0.01)


def test_cache_served_reads_is_silent_on_passes_before_which_fio_empties_the_cache(
    judge: Judge,
) -> None:
    assert not of("cache-served-reads", judge(replace(buffered(0), edit=without_disks)))


def test_cache_served_reads_is_silent_where_the_disk_did_the_reads(judge: Judge) -> None:
    """fio drops its file's pages each time it begins it again: 54,410 of 56,583 reads reached
    the disk, by the disk's own count, and the median of 48 us agrees."""
    assert not of("cache-served-reads", judge(buffered(0)))


def test_cache_served_reads_fires_on_tmpfs(judge: Judge) -> None:
    (found,) = of("cache-served-reads", judge(buffered(64 << 20, filesystem="tmpfs")))
    assert "memory" in found.message


def test_cache_served_reads_is_silent_on_direct_and_on_cold_reads(judge: Judge) -> None:
    cold = buffered(0, span=1 << 30)
    assert not of("cache-served-reads", judge(Stored(), cold, Stored("good-randread-qd1")))
