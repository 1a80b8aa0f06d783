"""Rules on results of others: what arithmetic shows, and where they know too little to speak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.audit.evidence import CellEvidence, Place
from leadline.audit.registry import RULES, audit
from leadline.findings import Finding, Severity
from leadline.formats.clients import read_results
from leadline.formats.result import EngineOutput, JobResult, Latency, Note, NoteKind, Operation
from leadline.metrics import Op
from leadline.plan.models import Cell
from leadline.plan.workload import Workload
from tests.conftest import RECORDED
from tests.unit.audit.published import (
    audit_output,
    audited,
    done,
    imported,
    job,
    of,
    output,
    output_evidence,
    row,
)

# --- the published tables ------------------------------------------------------------------------


def test_the_reference_tables_audit_as_their_readme_says(tmp_path: Path, shared: Path) -> None:
    reference = shared / "reference"
    found = []
    for name in ("openebs-and-rook-fio", "kbench", "multizone-vs-singlezone"):
        rows = (reference / f"{name}.csv").read_text().splitlines()[1:]
        clusters = dict.fromkeys(row.split(",")[0] for row in rows)
        for cluster in clusters:
            mine = [row for row in rows if row.startswith(f"{cluster},")]
            findings = audited(tmp_path / f"{name}-{cluster}", *mine)
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


ONE_PER_JOB = {"numjobs": 16, "iodepth": 32, "iops": 32000, "lat_mean_ms": 0.5, "runtime_s": 30}


def test_queue_depth_not_reached_fires_without_a_known_engine(tmp_path: Path) -> None:
    (found,) = of("queue-depth-not-reached", audited(tmp_path, row(**ONE_PER_JOB)))
    assert found.severity is Severity.ERROR
    assert found.evidence["in_flight"] == pytest.approx(16.0)
    assert found.evidence["asked"] == 512
    assert "as with a synchronous engine" in found.message


def test_queue_depth_not_reached_fires_as_a_warning_at_another_depth(tmp_path: Path) -> None:
    figures = {**ONE_PER_JOB, "lat_mean_ms": 4.0}
    (found,) = of("queue-depth-not-reached", audited(tmp_path, row(**figures)))
    assert found.severity is Severity.WARNING
    assert found.evidence["in_flight"] == pytest.approx(128.0)


def test_queue_depth_not_reached_fires_on_fewer_ios_than_the_queue_holds() -> None:
    one = replace(done(iops=100, mean_s=6.0), total_ios=6000)
    made = job(one, rw="randread", ioengine="libaio", iodepth="128", numjobs="128")
    (found,) = of("queue-depth-not-reached", audit_output(output(made)))
    assert "only 6,000 I/Os" in found.message


def test_queue_depth_not_reached_fires_on_the_depths_that_fio_saw() -> None:
    """No latency (gtod_reduce), the jobs hidden: the depths at submission are used."""
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
    assert not of("queue-depth-not-reached", audited(tmp_path, row(**{**ONE_PER_JOB, **figures})))


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
    assert not of("queue-depth-not-reached", audited(tmp_path, half))


def test_latency_inconsistent_fires_on_a_table(tmp_path: Path) -> None:
    figures = {**ONE_PER_JOB, "iodepth": 1, "lat_mean_ms": 0.83}
    (found,) = of("latency-inconsistent", audited(tmp_path, row(**figures)))
    assert found.evidence["ratio"] == pytest.approx(1.66)


def test_latency_inconsistent_is_silent_within_the_printed_digits(tmp_path: Path) -> None:
    """0.009 ms may be 0.0085: 16 jobs, and 17.1 by the figures as they stand."""
    figures = {"numjobs": 16, "iodepth": 1, "iops": 1_900_000, "lat_mean_ms": 0.009}
    assert not of("latency-inconsistent", audited(tmp_path, row(**figures)))


def test_latency_not_measured_is_silent_without_a_latency(tmp_path: Path) -> None:
    made = job(done(), whole=False, rw="randread")
    assert not of("latency-not-measured", audit_output(output(made)))
    assert not of("latency-not-measured", audited(tmp_path, row(iops=1086.6)))


def test_short_runtime_fires_on_an_interrupted_job() -> None:
    made = job(done(), rw="randread", runtime="600", time_based="1")
    (found,) = of("short-runtime", audit_output(output(made)))
    assert found.evidence["share"] == pytest.approx(0.1)


def test_short_runtime_is_silent_where_fio_found_a_steady_state() -> None:
    made = replace(job(done(), rw="randread", runtime="600", time_based="1"), steady=True)
    assert not of("short-runtime", audit_output(output(made)))


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
        (Latency(mean_s=1e-4, percentiles={0.5: 1e-3, 0.9: 2e-3}), "below the least mean"),
    ],
)
def test_inconsistent_figures_fires_on_percentiles(latency: Latency, fault: str) -> None:
    one = replace(done(), total=latency)
    (found,) = of("inconsistent-figures", audit_output(output(job(one))))
    assert fault in found.message


def test_inconsistent_figures_fires_on_rates_in_other_units(tmp_path: Path) -> None:
    """2,262 MB/s typed in for MiB/s."""
    wrong = row(pattern="read", block_size="1M", iops=2157, bw_mib_s=2262)
    (found,) = of("inconsistent-figures", audited(tmp_path, wrong))
    assert "2157 IOPS of 1048576 bytes are 2157 MiB/s, not 2262" in found.message


@pytest.mark.parametrize(
    ("block_size", "iops", "bandwidth"),
    [("1M", 2157, 2158), ("4k", 862, 3.37), ("1M", 131, 132), ("4k", 102000, 397), ("", 19712, 86)],
)
def test_inconsistent_figures_is_silent_on_rounding(
    tmp_path: Path, block_size: str, iops: float, bandwidth: float
) -> None:
    repeated = row(block_size=block_size, iops=iops, bw_mib_s=bandwidth, runtime_s=30)
    assert not of("inconsistent-figures", audited(tmp_path, repeated))


def test_bimodal_latency_fires_on_printed_percentiles(tmp_path: Path) -> None:
    far = row(iops=1369, lat_mean_ms=2.92, lat_p50_ms=0.16, lat_p99_ms=129.5, runtime_s=30)
    (found,) = of("bimodal-latency", audited(tmp_path, far))
    assert found.evidence["slow_share"] == pytest.approx(0.01)


def cell_of(*jobs: JobResult) -> CellEvidence:
    workload = Workload(name="w", runtime_s=0.0)
    cell = Cell(target="t", workload=workload, level="")
    trials = tuple(replace(output_evidence(output(one)), cell=cell) for one in jobs)
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


def test_too_few_samples_is_silent_on_missing_percentiles() -> None:
    (rule,) = (rule for rule in RULES if rule.code == "too-few-samples")
    assert not rule.findings(cell_of(few({}), few({0.5: 1e-3})))


def test_unstable_repeats_fires_on_bandwidths_alone(tmp_path: Path) -> None:
    rows = [row(workload="seq", bw_mib_s=rate) for rate in (1000, 1020, 1300)]
    (found,) = of("unstable-repeats", audited(tmp_path, *rows))
    assert found.evidence["median_bandwidth_bps"] == 1020 * 2**20
    assert "MiB/s" in found.message


# --- concurrent jobs ------------------------------------------------------------------------------


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
        [section("a", elapsed_s=0.0), section("b", elapsed_s=0.0)],  # the time is unknown
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
    found = of("capped-by-limit", audited(tmp_path, *rows))
    assert len(found) == limits


def test_unwritten_reads_is_silent_on_imports(tmp_path: Path) -> None:
    assert not of("unwritten-reads", audited(tmp_path, row(iops=1000)))


def test_empty_result_fires_on_an_empty_import_and_names_its_source(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_bytes(b"")
    run = imported(tmp_path, "fio-json", file)
    (found,) = audit(run)
    assert (found.code, found.severity) == ("empty-result", Severity.ERROR)
    assert "source" in found.remedy


def test_truncated_result_fires_on_a_cutimported(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_bytes(b'{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "read": {"iops": 1')
    assert [one.code for one in audit(imported(tmp_path, "fio-json", file))] == ["truncated-result"]


# --- concurrent clients --------------------------------------------------------------------------


def merged(*absent: str) -> dict[str, Finding]:
    content = (RECORDED / "randread-4k-qd1" / "fio.json").read_bytes()
    (result,) = read_results("fio-json", {"vm-1.json": content}, ["vm-1"], absent)
    assert isinstance(result.output, EngineOutput)
    return {finding.code: finding for finding in audit_output(result.output)}


def test_client_missing_fires_on_a_sum_of_some_clients() -> None:
    found = merged("vm-2", "unknown")["client-missing"]
    assert found.severity is Severity.ERROR
    assert found.evidence == {"clients": 1, "missing": 2}
    assert "2 of 3 clients have no result (vm-2)" in found.message


def test_client_missing_is_silent_where_all_are_there() -> None:
    assert "client-missing" not in merged()
