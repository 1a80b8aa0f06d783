"""Caches, ceilings, sums and means: what physics and arithmetic say of anybody's figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.audit.evidence import Drives, PoolMedia, TrialEvidence
from leadline.findings import Finding, Severity
from leadline.formats.result import DiskUse, JobResult, Latency
from leadline.formats.watch_records import HostSample, InterfaceCounters, Role
from leadline.metrics import Op
from tests.unit.audit.published import (
    ask,
    audit_output,
    audited,
    done,
    job,
    of,
    output,
    output_evidence,
    row,
)

# --- caches and ceilings -------------------------------------------------------------------------

FAST = {0.5: 2e-6, 0.99: 1e-4}


@pytest.mark.parametrize("target", ["ceph-rbd", "rook-cephfs", "mayastor-3", "longhorn", "nfs4"])
def test_cache_served_reads_fires_on_networked_storage(tmp_path: Path, target: str) -> None:
    (found,) = of("cache-served-reads", audited(tmp_path, row(target, iops=1000, lat_p50_ms=0.012)))
    assert found.severity is Severity.ERROR
    assert "the target's name contains" in found.message


@pytest.mark.parametrize(
    "target", ["zfs-localpv", "hostpath", "ceph-vs-local", "nvme0n1", "configurations", "rep3"]
)
def test_cache_served_reads_is_silent_on_names_of_local_storage(
    tmp_path: Path, target: str
) -> None:
    assert not of("cache-served-reads", audited(tmp_path, row(target, iops=1000, lat_p50_ms=0.012)))


def test_cache_served_reads_is_silent_on_a_median_rounded_to_few_digits(tmp_path: Path) -> None:
    """0.01 ms may be 0.019."""
    assert not of("cache-served-reads", audited(tmp_path, row("ceph", iops=1000, lat_p50_ms=0.01)))


def test_cache_served_reads_warns_where_it_may_be_read_ahead(tmp_path: Path) -> None:
    sequential = row("ceph-rbd", pattern="read", iops=1000, lat_p50_ms=0.012)
    (found,) = of("cache-served-reads", audited(tmp_path, sequential))
    assert found.severity is Severity.WARNING


def test_cache_served_reads_fires_on_any_medium_and_is_silent_on_memory_meant() -> None:
    options = {"rw": "randread", "bs": "4k", "ioengine": "psync", "direct": "1"}
    one = done(percentiles=FAST)
    for file, fires in (("/dev/nvme0n1", True), ("/dev/pmem0", False), ("/dev/ram0", False)):
        made = job(one, filename=file, **options)
        assert bool(of("cache-served-reads", audit_output(output(made)))) is fires


def test_cache_served_reads_is_silent_where_the_submission_took_the_time() -> None:
    """libaio on a filesystem that blocks in io_submit: 1 us of completion, 200 of submission."""
    one = replace(
        done(),
        submission=Latency(mean_s=200e-6),
        completion=Latency(mean_s=1e-6, percentiles={0.5: 1e-6}),
    )
    options = {"rw": "randread", "bs": "4k", "direct": "1", "directory": "/mnt/nfs"}
    made = job(one, ioengine="libaio", **options)
    assert not of("cache-served-reads", audit_output(output(made)))


def disk(reads: int, merges: int = 0, writes: int = 0) -> DiskUse:
    return DiskUse(name="vda", read_ios=reads, read_merges=merges, write_ios=writes)


RANDOM = {"rw": "randread", "bs": "4k", "ioengine": "libaio", "direct": "1"}


def test_cache_served_reads_fires_where_the_disk_did_few_reads() -> None:
    made = job(done(), **{**RANDOM, "direct": "0"})
    (found,) = of("cache-served-reads", audit_output(output(made, disks=(disk(9000, 100),))))
    assert found.severity is Severity.ERROR
    assert found.evidence["disk_share"] == pytest.approx(9100 / 60_000)


@pytest.mark.parametrize(
    ("options", "disks"),
    [
        (RANDOM, ()),
        (RANDOM, (disk(0),)),  # a disk that does not count
        (RANDOM, (disk(20_000, 20_000),)),
        ({**RANDOM, "ioengine": "rbd"}, (disk(300),)),  # the disk is another one
        ({"rw": "read", "ioengine": "psync"}, (disk(1800),)),  # the kernel reads ahead
    ],
)
def test_cache_served_reads_is_silent_on_disks_that_need_not_agree(
    options: dict[str, str], disks: tuple[DiskUse, ...]
) -> None:
    made = job(done(), **options)
    assert not of("cache-served-reads", audit_output(output(made, disks=disks)))


def test_cache_served_reads_fires_on_a_file_that_memory_held_whole(tmp_path: Path) -> None:
    """Random reads of 10 GiB took 9 us on average, so all of it was in memory; 200 GiB of
    sequential reads of it were, too. Of another target nothing is shown."""
    held = {"file_size": "10G", "numjobs": 4, "iodepth": 1, "runtime_s": 30}
    cached = {**held, "iops": 400000, "lat_mean_ms": 0.0095, "lat_p50_ms": 0.0019}
    again = {**held, "iops": 6906, "bw_mib_s": 6906, "lat_mean_ms": 0.58, "lat_p50_ms": 0.18}
    sequential = {"pattern": "read", "block_size": "1M", "workload": "seq"}
    findings = audited(
        tmp_path,
        row("ceph-rbd", **cached),
        row("ceph-rbd", **again, **sequential),
        row("cephfs", **again, **sequential),
    )
    found = of("cache-served-reads", findings)
    assert [(one.target, one.workload) for one in found] == [("ceph-rbd", "w"), ("ceph-rbd", "seq")]
    assert found[1].evidence["reread_share"] == pytest.approx(0.80, abs=0.01)


def on_pool(made: JobResult, pool: PoolMedia) -> TrialEvidence:
    return replace(output_evidence(output(made)), pool=pool)


FLASH = PoolMedia(pool="rep3", hard_disks=0, flash=3, copies=3)


def test_exceeds_ceiling_fires_on_more_than_the_osds_can_do() -> None:
    (read,) = ask(on_pool(job(done(iops=500_000), **RANDOM), FLASH), "exceeds-ceiling")
    assert (read.severity, read.evidence["ceiling_iops"]) == (Severity.ERROR, 480_000)
    writes = job(done(Op.WRITE, iops=81_000), **{**RANDOM, "rw": "randwrite"})
    (write,) = ask(on_pool(writes, FLASH), "exceeds-ceiling")
    assert write.evidence["ceiling_iops"] == 80_000


def test_exceeds_ceiling_fires_as_a_warning_on_hard_disks() -> None:
    disks = PoolMedia(pool="slow", hard_disks=12, flash=0, copies=3)
    (found,) = ask(on_pool(job(done(iops=6001), **RANDOM), disks), "exceeds-ceiling")
    assert found.severity is Severity.WARNING
    assert "device class hdd is wrong" in found.message


def test_exceeds_ceiling_is_silent_on_what_was_published() -> None:
    """2.81 million random reads of 30 NVMe OSDs, 458,000 writes with three copies (Reef)."""
    pool = PoolMedia(pool="rep3", hard_disks=0, flash=30, copies=3)
    made = job(done(iops=2_810_000), done(Op.WRITE, iops=458_000), **{**RANDOM, "rw": "randrw"})
    assert not ask(on_pool(made, pool), "exceeds-ceiling")


def test_exceeds_ceiling_is_silent_where_nothing_is_known() -> None:
    made = job(done(iops=9e6), **RANDOM)
    assert not ask(output_evidence(output(made)), "exceeds-ceiling")
    assert not ask(replace(on_pool(made, FLASH), on_lab=True), "exceeds-ceiling")
    joined = job(done(iops=9e6), **{**RANDOM, "rw": "read"})
    assert not ask(on_pool(joined, FLASH), "exceeds-ceiling")


def sampled(
    cores: int, *, roles: tuple[Role, ...] = (Role.CLIENT,), link_bps: float = 0.0, lo: int = 0
) -> tuple[HostSample, HostSample]:
    """A machine's first and last sample, ten seconds apart; `lo` bytes crossed its loopback."""

    def at(elapsed_s: float, looped: int) -> HostSample:
        loopback = InterfaceCounters(
            received_bytes=looped, received_packets=1, sent_bytes=looped, sent_packets=1
        )
        return HostSample(
            at="2026-11-26T00:00:00.000+00:00",
            elapsed_s=elapsed_s,
            machine="client",
            roles=frozenset(roles),
            clock_s=elapsed_s,
            cores=cores,
            hz=100,
            interfaces={"lo": loopback},
            links_bps={"eth0": link_bps} if link_bps else {},
        )

    return at(0.0, 0), at(10.0, lo)


RBD = {**RANDOM, "ioengine": "rbd"}


def here(made: JobResult, **known: object) -> TrialEvidence:
    """A trial whose load a physical machine made."""
    return replace(
        output_evidence(output(made)),
        load_here=True,
        physical=True,
        **known,  # type: ignore[arg-type]
    )


def test_exceeds_ceiling_fires_on_more_than_cores_can_do() -> None:
    machines = sampled(2)
    (found,) = ask(here(job(done(iops=2e6), **RBD), machines=machines), "exceeds-ceiling")
    assert (found.severity, found.evidence["cores"]) == (Severity.ERROR, 2)
    assert found.evidence["ceiling_iops"] == pytest.approx(2 / 2.08e-6)
    # On a lab the OSDs have the same cores: 15 us of a read are theirs.
    lab = here(job(done(iops=200_000), **RBD), machines=machines, on_lab=True)
    (found,) = ask(lab, "exceeds-ceiling")
    assert found.evidence["ceiling_iops"] == pytest.approx(2 / (15.08e-6 + 2.08e-6))
    limited = replace(FLASH, cores=1.5)
    (found,) = ask(here(job(done(iops=200_000), **RBD), pool=limited), "exceeds-ceiling")
    assert "1.5 cores of the OSDs" in found.message
    # 1.5 cores / (60 + 2 x 40 us) with three copies; shards of erasure code may cost less.
    writes = job(done(Op.WRITE, iops=15_000), **{**RBD, "rw": "randwrite"})
    assert ask(here(writes, pool=limited), "exceeds-ceiling")
    assert not ask(here(writes, pool=replace(limited, coded=True)), "exceeds-ceiling")


@pytest.mark.parametrize(
    "made",
    [
        job(done(iops=100_000), **RBD),  # seven times what such a lab has done
        job(done(iops=2e6), **RANDOM),  # not on Ceph
        job(done(iops=2e6), **{**RBD, "rw": "read"}),
        replace(job(done(iops=2e6), **RBD), host="another"),
    ],
)
def test_exceeds_ceiling_is_silent_on_cores_that_may_do_it(made: JobResult) -> None:
    assert not ask(here(made, machines=sampled(2), on_lab=True), "exceeds-ceiling")


def test_exceeds_ceiling_is_silent_on_cores_of_other_machines() -> None:
    made = here(job(done(iops=2e6), **RBD), machines=sampled(2))
    assert not ask(replace(made, load_here=False), "exceeds-ceiling")


LARGE = {"rw": "read", "bs": "1M", "ioengine": "rbd"}
GBE_10 = 1.25e9


def read_at(bandwidth_bps: float, **options: str) -> JobResult:
    return job(
        done(iops=bandwidth_bps / (1 << 20), bandwidth_bps=bandwidth_bps), **{**LARGE, **options}
    )


def test_exceeds_ceiling_fires_on_more_than_a_link_carries() -> None:
    machines = sampled(64, link_bps=GBE_10)
    (found,) = ask(here(read_at(2e9), machines=machines), "exceeds-ceiling")
    assert found.severity is Severity.ERROR
    assert found.evidence["ceiling_bps"] == GBE_10


@pytest.mark.parametrize(
    "changes",
    [
        {"machines": sampled(64, link_bps=2 * GBE_10)},
        {"machines": sampled(64)},
        {"machines": sampled(64, link_bps=GBE_10, lo=10 * 10**9)},  # OSDs on the same machine
        {"machines": sampled(64, roles=tuple(Role), link_bps=GBE_10)},
        {"physical": False},  # a virtual link reports any speed
        {"on_lab": True},
        {"load_here": False},
    ],
)
def test_exceeds_ceiling_is_silent_where_links_need_not_agree(changes: dict[str, object]) -> None:
    made = here(read_at(2e9), machines=sampled(64, link_bps=GBE_10))
    assert ask(made, "exceeds-ceiling")
    assert not ask(replace(made, **changes), "exceeds-ceiling")  # type: ignore[arg-type]


def test_exceeds_ceiling_is_silent_on_the_page_cache_of_a_network_file_system() -> None:
    cached = read_at(2e9, ioengine="libaio", directory="/mnt/nfs", direct="0")
    machines = sampled(64, link_bps=GBE_10)
    assert not ask(here(cached, machines=machines), "exceeds-ceiling")


def test_exceeds_ceiling_fires_on_local_drives() -> None:
    spindle = Drives(controllers=0, spindles=1)
    reads = job(done(iops=9000), **RANDOM, size="100G")
    (found,) = ask(here(reads, drives=spindle), "exceeds-ceiling")
    assert (found.severity, found.evidence["ceiling_iops"]) == (Severity.WARNING, 1500)
    stream = read_at(120e9, ioengine="libaio", direct="1", size="100G")
    (found,) = ask(here(stream, drives=Drives(controllers=1, spindles=0)), "exceeds-ceiling")
    assert found.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("made", "drives"),
    [
        # Eight SSDs in one job gave 13.7 GB/s (published), one of PCIe 5.0 gives 14.
        (read_at(14e9, ioengine="libaio", direct="1"), Drives(controllers=1, spindles=0)),
        (job(done(iops=200), **RANDOM, size="100G"), Drives(controllers=0, spindles=1)),
        (job(done(iops=9000), **RANDOM, size="100M"), Drives(controllers=0, spindles=1)),
        (job(done(iops=9000), **{**RANDOM, "direct": "0"}), Drives(controllers=0, spindles=1)),
        (
            job(done(Op.WRITE, iops=9000), **{**RANDOM, "rw": "randwrite"}, size="100G"),
            Drives(controllers=0, spindles=1),
        ),
        (job(done(iops=9000), **RANDOM, size="100G"), None),
    ],
)
def test_exceeds_ceiling_is_silent_on_drives_that_may_do_it(
    made: JobResult, drives: Drives | None
) -> None:
    assert not ask(here(made, drives=drives), "exceeds-ceiling")


# --- sums and means of others --------------------------------------------------------------------


def mix(
    read: float, write: float, total: float, *, target: str = "pool", **figures: object
) -> list[str]:
    shared = {"pattern": "randrw", "block_size": "4k", "runtime_s": 60, **figures}
    return [
        row(target, op, **{**shared, "iops": iops})
        for op, iops in (("read", read), ("write", write), ("total", total))
    ]


def test_phases_summed_fires_on_an_unusual_share(tmp_path: Path) -> None:
    (found,) = of("phases-summed", audited(tmp_path, *mix(55841, 7515, 63356)))
    assert (found.severity, found.op) == (Severity.ERROR, Op.TOTAL)
    assert found.evidence["read_share"] == pytest.approx(0.8814, abs=1e-4)


def test_phases_summed_fires_on_separate_sections_with_a_total() -> None:
    reads = job(done(iops=7000), name="read", whole=False, rw="randread")
    writes = job(done(Op.WRITE, iops=3000), name="write", whole=False, rw="randwrite")
    total = job(done(Op.TOTAL, iops=10000), name="total", whole=False)
    (found,) = of("phases-summed", audit_output(output(reads, writes, total)))
    assert "randread and randwrite" in found.message


def test_phases_summed_fires_where_the_times_add_up() -> None:
    total = replace(done(Op.TOTAL, iops=10000), runtime_s=120.0, total_ios=None)
    made = job(done(iops=7000), done(Op.WRITE, iops=3000), total, whole=False, rw="randrw")
    (found,) = of("phases-summed", audit_output(output(made)))
    assert "took 120 s" in found.message


def test_phases_summed_fires_where_other_targets_show_it(tmp_path: Path) -> None:
    """80 % looks like a mix by itself; elsewhere the same workload has 88 and 93 %."""
    rows = [
        *mix(55841, 7515, 63356, target="a"),
        *mix(54434, 3892, 58326, target="b"),
        *mix(40000, 10000, 50000, target="c"),
    ]
    found = of("phases-summed", audited(tmp_path, *rows))
    assert {one.target for one in found} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("read", "write", "total"),
    [
        (32926, 14121, 47047),  # 70 %
        (1000, 1004, 2004),  # 49.9 %
        (55841, 7515, 40000),  # no sum
    ],
)
def test_phases_summed_is_silent_on_mixes_and_on_what_is_no_sum(
    tmp_path: Path, read: float, write: float, total: float
) -> None:
    assert not of("phases-summed", audited(tmp_path, *mix(read, write, total)))


def test_phases_summed_is_silent_on_a_share_that_was_asked_for() -> None:
    total = done(Op.TOTAL, iops=10000)
    made = job(
        done(iops=6702), done(Op.WRITE, iops=3298), total, rw="randrw", rwmixread="67", bs="4k"
    )
    assert not of("phases-summed", audit_output(output(made)))


@pytest.mark.parametrize(
    ("read", "write", "total", "fires"),
    [
        (4.4, 379.6, 192.0, True),
        (4.4, 379.6, 48.9, True),  # weighted by 55,841 and 7,515 IOPS
        (4.4, 379.6, 350.0, False),
        (6.0, 6.1, 6.05, False),  # too near each other
        (4.4, 379.6, "", False),
    ],
)
def test_averaged_percentiles_fires_on_a_mean_and_is_silent_on_others(
    tmp_path: Path, read: float, write: float, total: float | str, fires: bool
) -> None:
    rows = [
        row(op=op, pattern="randrw", iops=iops, lat_p99_ms=p99)
        for op, iops, p99 in (
            ("read", 55841, read),
            ("write", 7515, write),
            ("total", 63356, total),
        )
    ]
    found = of("averaged-percentiles", audited(tmp_path, *rows))
    assert bool(found) is fires
    assert all(one.latency_only and one.op is Op.TOTAL for one in found)


def created(files_per_s: float, ranks: int | None, engine: str = "filecreate") -> list[Finding]:
    """What is found of files created by two jobs on a CephFS with so many ranks."""
    made = [job(done(Op.WRITE, iops=files_per_s / 2), ioengine=engine, rw="read") for _ in "12"]
    evidence = replace(output_evidence(output(*made)), mds_ranks=ranks)
    return ask(evidence, "exceeds-ceiling")


def test_exceeds_ceiling_fires_on_more_files_than_an_mds_creates() -> None:
    (found,) = created(110_000, 1)
    assert (found.severity, found.evidence["ceiling_iops"]) == (
        Severity.ERROR,
        pytest.approx(100_000),
    )
    assert "1 MDS rank can create" in found.message
    assert created(210_000, 2)


@pytest.mark.parametrize(
    ("files_per_s", "ranks", "engine"),
    [
        (90_000, 1, "filecreate"),
        (110_000, 2, "filecreate"),
        (110_000, None, "filecreate"),  # no CephFS
        (110_000, 1, "filestat"),  # answered by the client
        (110_000, 1, "filedelete"),  # handed over later
        (110_000, 1, "libaio"),
    ],
)
def test_exceeds_ceiling_is_silent_on_files_that_ranks_may_create(
    files_per_s: float, ranks: int | None, engine: str
) -> None:
    assert not created(files_per_s, ranks, engine)
