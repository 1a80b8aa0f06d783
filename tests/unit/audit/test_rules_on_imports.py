"""Rules on results of others: what arithmetic shows, and where they know too little to speak."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import Session
from leadline.audit.evidence import CellEvidence, Place, TrialEvidence
from leadline.audit.gathering import of_output
from leadline.audit.media import PoolMedia
from leadline.audit.registry import RULES, audit, audit_output
from leadline.findings import Finding, Severity
from leadline.formats.output import (
    DiskUse,
    EngineOutput,
    JobOptions,
    JobResult,
    Latency,
    Note,
    NoteKind,
    Operation,
)
from leadline.importing.archives import Labels, import_results
from leadline.importing.gather import gather
from leadline.metrics import Op
from leadline.plan.models import Cell, Workload

HEAD = (
    "cluster,target,workload,op,pattern,block_size,numjobs,iodepth,runtime_s,engine,file_size,"
    "iops,bw_mib_s,lat_mean_ms,lat_p50_ms,lat_p99_ms"
)


def of(code: str, findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


def table(folder: Path, *rows: str) -> Run:
    """A run imported from a table of published figures."""
    folder.mkdir(exist_ok=True)
    file = folder / "published.csv"
    file.write_text("\n".join([HEAD, *rows, ""]))
    session = Session(
        started_at="2026-11-21T00:00:00Z",
        hostname="h",
        leadline_version="0",
        python_version="3.11",
    )
    (run,) = import_results(gather("table", [file]), folder, Labels(run="t"), session).runs
    return run


def told(folder: Path, *rows: str) -> tuple[Finding, ...]:
    return audit(table(folder, *rows))


def job(*operations: Operation, whole: bool = True, name: str = "j", **options: str) -> JobResult:
    """A job whose options are given; without `whole`, nobody knows the others."""
    return JobResult(name=name, options=JobOptions(raw=options, whole=whole), operations=operations)


def done(
    op: Op = Op.READ, iops: float = 1000.0, mean_s: float | None = None, **more: Any
) -> Operation:
    """60 s of I/O, consistent in itself, with a mean latency and percentiles."""
    latency = Latency(mean_s=mean_s, count=int(60 * iops), percentiles=more.pop("percentiles", {}))
    return Operation(
        op=op,
        iops=iops,
        total_ios=int(60 * iops),
        runtime_s=60.0,
        total=latency if mean_s is not None or latency.percentiles else None,
        **more,
    )


def output(*jobs: JobResult, **more: Any) -> EngineOutput:
    return EngineOutput(version="fio-3.40", jobs=jobs, **more)


def ask(trial: TrialEvidence, code: str) -> list[Finding]:
    """What one rule says of a trial and of its jobs."""
    rule = next(rule for rule in RULES if rule.code == code)
    return [found for one in (trial, *trial.jobs) for found in rule.findings(one)]


# --- the published tables ------------------------------------------------------------------------


def test_the_reference_tables_audit_as_their_readme_says(tmp_path: Path, shared: Path) -> None:
    reference = shared / "reference"
    found = []
    for name in ("openebs-and-rook-fio", "kbench", "multizone-vs-singlezone"):
        rows = (reference / f"{name}.csv").read_text().splitlines()[1:]
        clusters = dict.fromkeys(row.split(",")[0] for row in rows)
        for cluster in clusters:
            mine = [row for row in rows if row.startswith(f"{cluster},")]
            findings = told(tmp_path / f"{name}-{cluster}", *mine)
            found += [(name, one) for one in findings if one.severity is not Severity.INFO]
    assert {name for name, _ in found} == {"openebs-and-rook-fio"}
    queue = of("queue-depth-not-reached", [one for _, one in found])
    assert len({(one.target, one.workload) for one in queue}) == 24
    assert {one.severity for one in queue} == {Severity.ERROR}
    cached = of("cache-served-reads", [one for _, one in found])
    assert {(one.target, one.workload) for one in cached} == {
        ("ceph-rbd", "rand-read"),
        ("ceph-rbd", "seq-read"),
        ("mayastor-3replica", "rand-read"),
    }
    assert len(found) == 24 + 3


# --- queue depth and latency ---------------------------------------------------------------------


def row(target: str = "pool", op: str = "read", **figures: object) -> str:
    given = {
        "cluster": "c",
        "target": target,
        "workload": "w",
        "op": op,
        "pattern": "randread" if op == "read" else "randwrite",
        **figures,
    }
    return ",".join(str(given.get(key, "")) for key in HEAD.split(","))


ONE_PER_JOB = {"numjobs": 16, "iodepth": 32, "iops": 32000, "lat_mean_ms": 0.5, "runtime_s": 30}


def test_queue_depth_not_reached_fires_without_an_engine_told(tmp_path: Path) -> None:
    (found,) = of("queue-depth-not-reached", told(tmp_path, row(**ONE_PER_JOB)))
    assert found.severity is Severity.ERROR
    assert found.evidence["in_flight"] == pytest.approx(16.0)
    assert found.evidence["asked"] == 512
    assert "as a synchronous engine does" in found.message


def test_queue_depth_not_reached_fires_as_a_warning_at_another_depth(tmp_path: Path) -> None:
    figures = {**ONE_PER_JOB, "lat_mean_ms": 4.0}
    (found,) = of("queue-depth-not-reached", told(tmp_path, row(**figures)))
    assert found.severity is Severity.WARNING
    assert found.evidence["in_flight"] == pytest.approx(128.0)


def test_queue_depth_not_reached_fires_on_fewer_ios_than_the_queue_holds() -> None:
    one = replace(done(iops=100, mean_s=6.0), total_ios=6000)
    made = job(one, rw="randread", ioengine="libaio", iodepth="128", numjobs="128")
    (found,) = of("queue-depth-not-reached", audit_output(output(made)))
    assert "only 6,000 I/Os were done" in found.message


def test_queue_depth_not_reached_fires_on_the_depths_that_fio_saw() -> None:
    """No latency (gtod_reduce), the jobs hidden: the depths at submission tell."""
    made = job(done(), rw="randread", ioengine="psync", iodepth="64", gtod_reduce="1")
    made = replace(made, depth_levels={"1": 1.0, "2": 0.0})
    (found,) = of("queue-depth-not-reached", audit_output(output(made)))
    assert found.severity is Severity.ERROR
    assert found.evidence == {"asked": 64, "depth_1_share": 1.0}


@pytest.mark.parametrize(
    "figures",
    [
        {"numjobs": "", "iodepth": ""},  # separate tests for rate and latency, as kbench has
        {"numjobs": 16, "iodepth": 1},
        {"numjobs": 16, "iodepth": 32, "lat_mean_ms": 16},
        {"numjobs": 4, "iodepth": 16, "lat_mean_ms": 2},
        # 0.9 ms is anything from 0.8 to 1: the digits do not suffice to accuse.
        {"numjobs": 1, "iodepth": 32, "iops": 30000, "lat_mean_ms": 0.9},
    ],
)
def test_queue_depth_not_reached_is_silent_on_tables(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    assert not of("queue-depth-not-reached", told(tmp_path, row(**{**ONE_PER_JOB, **figures})))


@pytest.mark.parametrize(
    "options",
    [
        {"rate_iops": "100"},
        {"thinktime": "1000"},
        {"latency_target": "10ms"},
        {"iodepth_low": "1"},
        {"fsync": "1"},
    ],
)
def test_queue_depth_not_reached_is_silent_on_what_is_held_back(options: dict[str, str]) -> None:
    made = job(done(mean_s=1e-3), rw="randread", ioengine="libaio", iodepth="32", **options)
    assert not of("queue-depth-not-reached", audit_output(output(made)))


def test_queue_depth_not_reached_is_silent_on_processes_reported_apart() -> None:
    """16 entries of numjobs=16: each has its own queue of 8, and fills it."""
    one = job(done(mean_s=8e-3), rw="randread", ioengine="libaio", iodepth="8", numjobs="16")
    assert not of("queue-depth-not-reached", audit_output(output(*[one] * 16)))


def test_queue_depth_not_reached_is_silent_on_clients() -> None:
    """One entry a client, each a group of 4 jobs though group_reporting is not recorded."""
    one = job(done(mean_s=32e-3), rw="randread", ioengine="libaio", iodepth="8", numjobs="4")
    hosts = [replace(one, host=name) for name in ("a", "b", "c")]
    assert not of("queue-depth-not-reached", audit_output(output(*hosts)))


def test_queue_depth_not_reached_fires_once_for_all_processes() -> None:
    one = job(done(mean_s=1e-3), rw="randread", ioengine="psync", iodepth="8", numjobs="16")
    (found,) = of("queue-depth-not-reached", audit_output(output(*[one] * 16)))
    assert found.evidence["entries"] == 16
    assert "15 more entries" in found.message


def test_queue_depth_not_reached_is_silent_on_jobs_that_ended_apart() -> None:
    """Size-bound jobs of a group: three ended after a third of the time."""
    made = job(
        done(iops=500, mean_s=32e-3),
        rw="randread",
        ioengine="libaio",
        iodepth="8",
        numjobs="4",
        group_reporting="1",
    )
    made = replace(made, job_runtime_s=120.0)
    assert not of("queue-depth-not-reached", audit_output(output(made)))


def test_queue_depth_not_reached_is_silent_on_half_of_a_mix(tmp_path: Path) -> None:
    """Only the reads of a mix are published: the writes had their share of the queue."""
    half = row(pattern="randrw", numjobs=1, iodepth=32, iops=7000, lat_mean_ms=2)
    assert not of("queue-depth-not-reached", told(tmp_path, half))


def test_latency_inconsistent_fires_on_a_table(tmp_path: Path) -> None:
    figures = {**ONE_PER_JOB, "iodepth": 1, "lat_mean_ms": 0.83}
    (found,) = of("latency-inconsistent", told(tmp_path, row(**figures)))
    assert found.evidence["ratio"] == pytest.approx(1.66)


def test_latency_inconsistent_is_silent_within_the_digits_told(tmp_path: Path) -> None:
    """0.009 ms may be 0.0085: 16 jobs, and 17.1 by the figures as they stand."""
    figures = {"numjobs": 16, "iodepth": 1, "iops": 1_900_000, "lat_mean_ms": 0.009}
    assert not of("latency-inconsistent", told(tmp_path, row(**figures)))


def test_latency_not_measured_is_silent_where_none_is_told(tmp_path: Path) -> None:
    made = job(done(), whole=False, rw="randread")
    assert not of("latency-not-measured", audit_output(output(made)))
    assert not of("latency-not-measured", told(tmp_path, row(iops=1086.6)))


def test_short_runtime_fires_on_an_interrupted_job() -> None:
    made = job(done(), rw="randread", runtime="600", time_based="1")
    (found,) = of("short-runtime", audit_output(output(made)))
    assert found.evidence["share"] == pytest.approx(0.1)


def test_short_runtime_is_silent_where_fio_found_a_steady_state() -> None:
    made = replace(job(done(), rw="randread", runtime="600", time_based="1"), steady=True)
    assert not of("short-runtime", audit_output(output(made)))


# --- caches and ceilings -------------------------------------------------------------------------

FAST = {0.5: 2e-6, 0.99: 1e-4}


@pytest.mark.parametrize("target", ["ceph-rbd", "rook-cephfs", "mayastor-3", "longhorn", "nfs4"])
def test_cache_served_reads_fires_on_networked_storage(tmp_path: Path, target: str) -> None:
    (found,) = of("cache-served-reads", told(tmp_path, row(target, iops=1000, lat_p50_ms=0.012)))
    assert found.severity is Severity.ERROR
    assert "the target's name says" in found.message


@pytest.mark.parametrize(
    "target", ["zfs-localpv", "hostpath", "ceph-vs-local", "nvme0n1", "configurations", "rep3"]
)
def test_cache_served_reads_is_silent_on_names_of_local_storage(
    tmp_path: Path, target: str
) -> None:
    assert not of("cache-served-reads", told(tmp_path, row(target, iops=1000, lat_p50_ms=0.012)))


def test_cache_served_reads_is_silent_on_a_median_rounded_to_few_digits(tmp_path: Path) -> None:
    """0.01 ms may be 0.019."""
    assert not of("cache-served-reads", told(tmp_path, row("ceph", iops=1000, lat_p50_ms=0.01)))


def test_cache_served_reads_warns_where_it_may_be_read_ahead(tmp_path: Path) -> None:
    sequential = row("ceph-rbd", pattern="read", iops=1000, lat_p50_ms=0.012)
    (found,) = of("cache-served-reads", told(tmp_path, sequential))
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
    made = job(done(), **RANDOM)
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
    findings = told(
        tmp_path,
        row("ceph-rbd", **cached),
        row("ceph-rbd", **again, **sequential),
        row("cephfs", **again, **sequential),
    )
    found = of("cache-served-reads", findings)
    assert [(one.target, one.workload) for one in found] == [("ceph-rbd", "w"), ("ceph-rbd", "seq")]
    assert found[1].evidence["reread_share"] == pytest.approx(0.80, abs=0.01)


def on_pool(made: JobResult, pool: PoolMedia) -> TrialEvidence:
    return replace(of_output(output(made)), pool=pool)


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
    assert not ask(of_output(output(made)), "exceeds-ceiling")
    assert not ask(replace(on_pool(made, FLASH), on_lab=True), "exceeds-ceiling")
    joined = job(done(iops=9e6), **{**RANDOM, "rw": "read"})
    assert not ask(on_pool(joined, FLASH), "exceeds-ceiling")


# --- sums and means of others --------------------------------------------------------------------


def mix(
    read: float, write: float, total: float, *, target: str = "pool", **figures: object
) -> list[str]:
    shared = {"pattern": "randrw", "block_size": "4k", "runtime_s": 60, **figures}
    return [
        row(target, op, **{**shared, "iops": iops})
        for op, iops in (("read", read), ("write", write), ("total", total))
    ]


def test_phases_summed_fires_on_a_share_that_nobody_asks_for(tmp_path: Path) -> None:
    (found,) = of("phases-summed", told(tmp_path, *mix(55841, 7515, 63356)))
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
    found = of("phases-summed", told(tmp_path, *rows))
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
    assert not of("phases-summed", told(tmp_path, *mix(read, write, total)))


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
        (6.0, 6.1, 6.05, False),  # too near each other to tell
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
    found = of("averaged-percentiles", told(tmp_path, *rows))
    assert bool(found) is fires
    assert all(one.latency_only and one.op is Op.TOTAL for one in found)


# --- what a parser and the figures themselves say ------------------------------------------------


def note(kind: NoteKind, number: int = 0) -> Note:
    return Note(kind=kind, where=f"$.jobs[0].x{number}", fact="is not known")


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        (NoteKind.UNKNOWN_FIELD, Severity.WARNING),
        (NoteKind.REPEATED_FIELD, Severity.WARNING),
        (NoteKind.UNKNOWN_VERSION, Severity.INFO),
        (NoteKind.LEFT_OUT, Severity.INFO),
    ],
)
def test_unfamiliar_output_fires_once_a_kind(kind: NoteKind, severity: Severity) -> None:
    notes = tuple(note(kind, number) for number in range(7))
    (found,) = of("unfamiliar-output", audit_output(output(job(done()), notes=notes)))
    assert (found.severity, found.evidence) == (severity, {"notes": 7})
    assert found.message.count("$.jobs") == 5
    assert found.message.endswith("and 2 more.")


def test_unfamiliar_output_is_silent_on_what_is_known_and_on_the_impossible() -> None:
    notes = (note(NoteKind.IMPOSSIBLE_VALUE),)
    findings = audit_output(output(job(done()), notes=notes))
    assert not of("unfamiliar-output", findings)
    assert not of("unfamiliar-output", audit_output(output(job(done()))))
    (found,) = of("inconsistent-figures", findings)
    assert found.evidence == {"values": 1}


@pytest.mark.parametrize(
    ("latency", "fault"),
    [
        (Latency(percentiles={0.5: 2e-3, 0.99: 1e-3}), "more than p99"),
        (Latency(max_s=1e-2, percentiles={0.99: 2e-2}), "above its maximum"),
        (Latency(min_s=1e-3, percentiles={0.01: 1e-4}), "below its minimum"),
        (Latency(mean_s=1e-4, percentiles={0.5: 1e-3, 0.9: 2e-3}), "allow no less than"),
    ],
)
def test_inconsistent_figures_fires_on_percentiles(latency: Latency, fault: str) -> None:
    one = replace(done(), total=latency)
    (found,) = of("inconsistent-figures", audit_output(output(job(one))))
    assert fault in found.message


def test_inconsistent_figures_fires_on_rates_in_other_units(tmp_path: Path) -> None:
    """2,262 MB/s typed in for MiB/s."""
    wrong = row(pattern="read", block_size="1M", iops=2157, bw_mib_s=2262)
    (found,) = of("inconsistent-figures", told(tmp_path, wrong))
    assert "2157 IOPS of 1048576 bytes are 2157 MiB/s, not 2262" in found.message


@pytest.mark.parametrize(
    ("block_size", "iops", "bandwidth"),
    [("1M", 2157, 2158), ("4k", 862, 3.37), ("1M", 131, 132), ("4k", 102000, 397), ("", 19712, 86)],
)
def test_inconsistent_figures_is_silent_on_rounding(
    tmp_path: Path, block_size: str, iops: float, bandwidth: float
) -> None:
    told_so = row(block_size=block_size, iops=iops, bw_mib_s=bandwidth, runtime_s=30)
    assert not of("inconsistent-figures", told(tmp_path, told_so))


def test_bimodal_latency_fires_on_printed_percentiles(tmp_path: Path) -> None:
    far = row(iops=1369, lat_mean_ms=2.92, lat_p50_ms=0.16, lat_p99_ms=129.5, runtime_s=30)
    (found,) = of("bimodal-latency", told(tmp_path, far))
    assert found.evidence["slow_share"] == pytest.approx(0.01)


def cell_of(*jobs: JobResult) -> CellEvidence:
    workload = Workload(name="w", runtime_s=0.0)
    cell = Cell(target="t", workload=workload, level="")
    trials = tuple(replace(of_output(output(one)), cell=cell) for one in jobs)
    return CellEvidence(place=Place(target="t", workload="w"), cell=cell, trials=trials)


def few(percentiles: dict[float, float], ios: int = 500) -> JobResult:
    latency = Latency(mean_s=1e-3, count=ios, percentiles=percentiles)
    return job(Operation(op=Op.READ, iops=50.0, total_ios=ios, total=latency), rw="randread")


def test_too_few_samples_fires_on_printed_percentiles_of_counted_ios() -> None:
    (rule,) = (rule for rule in RULES if rule.code == "too-few-samples")
    printed = {0.5: 1e-3, 0.99: 2e-3}
    (found,) = rule.findings(cell_of(few(printed), few(printed)))
    assert found.evidence["latencies"] == 500  # printed percentiles cannot be merged
    assert "p99, which is not shown" in found.message


def test_too_few_samples_is_silent_on_percentiles_that_nobody_told() -> None:
    (rule,) = (rule for rule in RULES if rule.code == "too-few-samples")
    assert not rule.findings(cell_of(few({}), few({0.5: 1e-3})))


def test_unstable_repeats_fires_on_bandwidths_alone(tmp_path: Path) -> None:
    rows = [row(workload="seq", bw_mib_s=rate) for rate in (1000, 1020, 1300)]
    (found,) = of("unstable-repeats", told(tmp_path, *rows))
    assert found.evidence["median_bandwidth_bps"] == 1020 * 2**20
    assert "MiB/s" in found.message


# --- what ran beside what ------------------------------------------------------------------------


def section(name: str, group: int = 0, elapsed_s: float = 62.0) -> JobResult:
    return replace(job(done(), name=name, rw="randread"), group=group, elapsed_s=elapsed_s)


def test_concurrent_jobs_fires_only_for_the_group_that_ran_together() -> None:
    jobs = (section("a", 0, 122.0), section("b", 0, 122.0), section("c", 1, 122.0))
    (found,) = of("concurrent-jobs", audit_output(output(*jobs)))
    assert found.evidence["jobs"] == 2
    assert "(a, b)" in found.message


@pytest.mark.parametrize(
    "jobs",
    [
        [section("a", 0, 122.0), section("b", 1, 122.0)],
        [section("a"), section("a")],  # processes of one job
        [replace(section("a"), host=host) for host in ("x", "y", "z")],
        [section("a", elapsed_s=0.0), section("b", elapsed_s=0.0)],  # nobody tells the time
    ],
)
def test_concurrent_jobs_is_silent(jobs: list[JobResult]) -> None:
    assert not of("concurrent-jobs", audit_output(output(*jobs)))


CAPPED = ((4096, 1086.6, "read"), (4096, 1085.6, "write"), (131072, 1086.6, "read"))


@pytest.mark.parametrize(
    ("rates", "limits"),
    [
        ([*CAPPED, (131072, 1087.2, "write")], 1),
        # Each direction has its own limit.
        ([(4096, 1583, "read"), (131072, 1566, "read"), (4096, 224, "write"),
          (131072, 226, "write")], 2),
        ([(4096, 1583, "read"), (131072, 1566, "read"), (4096, 900, "write"),
          (131072, 226, "write")], 0),
    ],
)  # fmt: skip
def test_capped_by_limit_fires_on_an_imported_run(
    tmp_path: Path, rates: list[tuple[int, float, str]], limits: int
) -> None:
    rows = [
        row("nfs", op, workload=f"w{number}", block_size=block, iops=iops)
        for number, (block, iops, op) in enumerate(rates)
    ]
    found = of("capped-by-limit", told(tmp_path, *rows))
    assert len(found) == limits


def test_unwritten_reads_is_silent_on_imports(tmp_path: Path) -> None:
    assert not of("unwritten-reads", told(tmp_path, row(iops=1000)))


def test_empty_result_fires_on_an_empty_import_and_names_its_source(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_bytes(b"")
    run = _import(tmp_path, "fio-json", file)
    (found,) = audit(run)
    assert (found.code, found.severity) == ("empty-result", Severity.ERROR)
    assert "source" in found.remedy


def test_truncated_result_fires_on_a_cut_import(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_bytes(b'{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "read": {"iops": 1')
    assert [one.code for one in audit(_import(tmp_path, "fio-json", file))] == ["truncated-result"]


def _import(folder: Path, kind: str, file: Path) -> Run:
    session = Session(
        started_at="2026-11-21T00:00:00Z",
        hostname="h",
        leadline_version="0",
        python_version="3.11",
    )
    (run,) = import_results(gather(kind, [file]), folder, Labels(run="t"), session).runs
    return run
