"""The second delivery of published results (`../shared/corpus/public2`): each line of its index
that concerns a rule, and what the rules learned from it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.audit.evidence import CellEvidence, Place, RunEvidence, TrialEvidence
from leadline.audit.registry import RULES
from leadline.findings import Finding, Severity
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.fio.logs import Window, read_log, windows
from leadline.formats.result import JobResult, Latency
from leadline.metrics import Op
from tests.unit.audit.audit_archives import Judge, Stored, cell
from tests.unit.audit.published import ask, audit_output, done, job, of, output


@pytest.fixture
def public2(shared: Path) -> Path:
    return shared / "corpus" / "public2"


def serious(path: Path) -> dict[str, Finding]:
    """The errors and warnings on a file by code."""
    found = audit_output(parse_fio_json(path.read_bytes()))
    return {one.code: one for one in found if one.severity is not Severity.INFO}


# --- merged sections -----------------------------------------------------------------------------


def test_merged_sections_fires_on_published_sections(public2: Path) -> None:
    found = serious(public2 / "stonet" / "merged-sections-001105f476f6.json")
    assert set(found) == {"merged-sections"}
    message = found["merged-sections"].message
    assert "name of the section '1' and the options of '2'" in message
    assert "rw=randwrite, and it has reads" in message
    assert "which section read or wrote" in message


def test_merged_sections_fires_on_three_disks_and_accuses_no_latency(public2: Path) -> None:
    found = serious(public2 / "reading-only" / "merged-three-disks.json")
    assert set(found) == {"merged-sections"}
    numbers = found["merged-sections"].evidence
    assert numbers["jobs_run"] == pytest.approx(3, rel=0.01)
    assert numbers["in_flight"] == pytest.approx(96, rel=0.01)


def merged(jobs: float, **options: str) -> JobResult:
    """A group that ran for `jobs` times its longest operation, and kept as many queues full."""
    read = done(iops=1000.0, mean_s=jobs * 16 / 1000)
    given = {"rw": "randread", "ioengine": "libaio", "iodepth": "16", "group_reporting": "1"}
    result = job(read, **(given | options))
    return replace(result, job_runtime_s=jobs * (read.runtime_s or 0))


@pytest.mark.parametrize(("jobs", "options"), [(2.0, {}), (3.0, {"numjobs": "2"}), (1.4, {})])
def test_merged_sections_fires_on_more_run_time_than_jobs(
    jobs: float, options: dict[str, str]
) -> None:
    found = audit_output(output(merged(jobs, **options)))
    assert len(of("merged-sections", found)) == 1
    assert not of("latency-inconsistent", found)


def test_merged_sections_is_silent_on_equal_jobs_and_on_verification() -> None:
    equal = merged(4.0, numjobs="4")
    verified = merged(2.0, verify="crc32c")
    assert not of("merged-sections", audit_output(output(equal)))
    assert not of("merged-sections", audit_output(output(verified)))


def test_merged_sections_fires_on_whole_queues_where_fio_counts_no_jobs() -> None:
    old = replace(merged(3.0, numjobs="1"), job_runtime_s=0.0)
    found = audit_output(output(old))
    assert "3 equal sections" in of("merged-sections", found)[0].message
    assert not of("latency-inconsistent", found)
    # fio counted one job: three full queues are impossible.
    counted = replace(old, job_runtime_s=60.0)
    found = audit_output(output(counted))
    assert of("latency-inconsistent", found)
    assert not of("merged-sections", found)


# --- false alarms --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zonemode-zbd-complete-4243dc3d54b8", "ramp-size-bound-complete"])
def test_complete_runs_on_zoned_devices_are_not_short(public2: Path, name: str) -> None:
    (path,) = (public2 / "zns").glob(f"{name}*.json")
    assert "short-runtime" not in serious(path)


def short(**options: str) -> JobResult:
    """1 GiB written in 5 of the requested 30 s."""
    wrote = replace(done(Op.WRITE), runtime_s=5.0, io_bytes=1 << 30, total_ios=1 << 18)
    return job(wrote, **({"rw": "write", "bs": "4k", "runtime": "30"} | options))


@pytest.mark.parametrize(
    ("options", "is_short"),
    [
        ({"size": "1G"}, False),
        ({"size": "2G"}, True),
        # 16 zones with a capacity of half of their size.
        ({"size": "2G", "zonemode": "zbd", "zonesize": "128M", "zonecapacity": "64M"}, False),
        ({"size": "4G", "zonemode": "zbd", "zonesize": "128M", "zonecapacity": "64M"}, True),
        # The capacity is the device's own: unknown.
        ({"size": "2G", "zonemode": "zbd"}, False),
        ({"size": "2G", "ramp_time": "5"}, False),
        ({"size": "9G", "ramp_time": "5"}, True),
        ({"size": "2G", "ramp_time": "5", "time_based": "1"}, True),
    ],
)
def test_short_runtime_counts_usable_zones_and_the_ramp(
    options: dict[str, str], is_short: bool
) -> None:
    assert bool(of("short-runtime", audit_output(output(short(**options))))) is is_short


def test_polling_engines_are_not_saturated(public2: Path) -> None:
    for name in ("engines-3e17f94c311b.txt", "engines-cad770e01e87.txt"):
        assert not serious(public2 / "stonet" / name)
    # io_uring without polling at 38 % user and 62 % system is.
    assert set(serious(public2 / "stonet" / "engines-a9f41e942cbb.txt")) == {"client-saturated"}


@pytest.mark.parametrize(
    ("options", "polls"),
    [
        ({"ioengine": "external:/opt/spdk/build/fio/spdk_nvme"}, True),
        ({"ioengine": "io_uring", "sqthread_poll": "1"}, True),
        ({"ioengine": "io_uring", "hipri": "1"}, True),
        ({"ioengine": "io_uring", "hipri": "0"}, False),
        ({"ioengine": "io_uring"}, False),
    ],
)
def test_a_polling_job_uses_its_core_by_design(options: dict[str, str], polls: bool) -> None:
    made = job(done(mean_s=4e-3), rw="randread", iodepth="4", **options)
    busy = replace(made, user_cpu=0.4, system_cpu=0.6)
    assert bool(of("client-saturated", audit_output(output(busy)))) is not polls


def test_a_queue_that_was_never_full_is_reported_with_few_ios(public2: Path) -> None:
    found = serious(public2 / "fio-plot" / "depth-4096-few-ios-0a1e1176e3f3.json")
    queue = found["queue-depth-not-reached"]
    assert queue.evidence["in_flight"] == pytest.approx(2930, rel=1e-3)
    assert "7,024 I/Os, 1.7 for each place" in queue.message


@pytest.mark.parametrize(("mean_us", "found"), [(85.0, 0), (60.0, 0), (30.0, 1)])
def test_time_between_ios_is_no_missing_queue(mean_us: float, found: int) -> None:
    """10,000 IOPS of one job at depth 1: 100 us for each I/O and the time to the next."""
    made = job(
        replace(done(iops=10_000.0, mean_s=mean_us * 1e-6), total_ios=600_000),
        rw="randread",
        iodepth="1",
    )
    queue = of("queue-depth-not-reached", audit_output(output(made)))
    assert len(queue) == found
    assert not queue or "spent 70 us between two I/Os" in queue[0].message


@pytest.mark.parametrize(("latency_s", "drifts"), [(1.6, False), (0.001, True)])
def test_filling_and_draining_a_queue_is_no_drift(
    judge: Judge, latency_s: float, drifts: bool
) -> None:
    rates = (40.0, 120.0, *[200.0] * 26, 350.0, 500.0)

    def edit(document: dict[str, Any]) -> None:
        read = document["jobs"][0]["read"]
        for key in ("lat_ns", "clat_ns"):
            read[key]["mean"] = latency_s * 1e9
        read["runtime"] = 30_000

    found = judge(Stored(edit=edit, iops=rates), of=cell(runtime_s=30))
    assert bool(of("not-steady", found)) is drifts


def test_few_ios_of_a_deep_queue_are_named() -> None:
    """256 in flight were asked of a disk of 50 I/Os a second (a real run of 8 s)."""
    read = replace(done(iops=50.1, mean_s=3.9), runtime_s=8.1, total_ios=406)
    options = {"rw": "randread", "ioengine": "libaio", "iodepth": "32", "numjobs": "8"}
    made = replace(job(read, group_reporting="1", **options), job_runtime_s=49.8)
    (queue,) = of("queue-depth-not-reached", audit_output(output(made)))
    assert "406 I/Os, 1.6 for each place" in queue.message
    # With many I/Os, jobs that ended early held their part of the queue for a part of the time.
    many = replace(read, iops=50_100.0, total_ios=406_000, total=Latency(mean_s=3.9e-3))
    made = replace(made, operations=(many,))
    assert not of("queue-depth-not-reached", audit_output(output(made)))


# --- a study with logs ---------------------------------------------------------------------------

STUDY = "wikimedia/2021-06-04_10-21-12/vm_disk"


def published(public2: Path, depth: int, rw: str, repeat: int) -> TrialEvidence:
    """One repeat of the study: its result, and its log as the windows of that result."""
    folder = public2 / STUDY / f"ioengine_libaio.bs_4k.iodepth_{depth}.rw_{rw}" / f"run_{repeat}"
    result = gzip.decompress((folder / "run_stats.log.gz").read_bytes())
    log = gzip.decompress((folder / "data_iops.log.gz").read_bytes())
    return TrialEvidence(
        place=Place(target="vm_disk", workload=f"q{depth}-{rw}"),
        output=parse_fio_json(result),
        windows=windows([read_log("data_iops.log", log)]),
    )


def test_logs_that_contradict_their_results_are_found(public2: Path) -> None:
    """By hand: the sum of the lines x 50 ms is 0.47, 0.38, 0.99 and 0.17 of the I/Os; the third has
    gaps. The other eight logs are 0.992 to 0.998."""
    found = {
        (depth, rw, repeat)
        for depth in (1, 128)
        for rw in ("randread", "randwrite")
        for repeat in (1, 2, 3)
        if ask(published(public2, depth, rw, repeat), "log-contradicts-result")
    }
    assert found == {(1, "randwrite", 2), (128, "randwrite", 1), (128, "randwrite", 3)}


def test_a_published_cap_is_flat_over_depth(public2: Path) -> None:
    """499 writes per second at depth 1 and 496 at depth 128; reads go from 1,105 to 5,000."""
    cells = []
    for depth in (1, 128):
        for rw in ("randread", "randwrite"):
            trials = tuple(published(public2, depth, rw, repeat) for repeat in (1, 2, 3))
            cells.append(CellEvidence(place=trials[0].place, cell=cell(), trials=trials))
    rule = next(rule for rule in RULES if rule.code == "flat-ceiling")
    (found,) = rule.findings(RunEvidence(place=Place(), cells=tuple(cells)))
    assert found.evidence["iops"] == pytest.approx(497, abs=2)
    assert (found.evidence["fewest_in_flight"], found.evidence["most_in_flight"]) == (1, 128)
    assert "randwrite" in found.message


# --- windows of other lengths --------------------------------------------------------------------


@pytest.mark.parametrize("length_s", [0.05, 0.5, 0.8, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("later", [1000.0, 600.0])
def test_a_rate_is_that_of_its_windows_whatever_their_length(length_s: float, later: float) -> None:
    """A hundred windows, which tools write every 50 ms to every 5 s."""
    count = max(100, round(30 / length_s))
    made = job(replace(done(iops=1000.0), runtime_s=count * length_s), rw="randread", numjobs="2")
    series = tuple(
        Window((number + 1) * length_s, 1000.0 if number < count // 2 else later)
        for number in range(count)
    )
    evidence = TrialEvidence(place=Place(), output=output(made), windows={Op.READ: series})
    found = ask(evidence, "not-steady")
    assert len(found) == (later < 1000)
    for finding in found:
        numbers = finding.evidence
        assert numbers["round_1_iops"] == pytest.approx(1000, rel=0.05)
        assert numbers["round_5_iops"] == pytest.approx(600, rel=0.05)
        assert numbers["jump_at_s"] == pytest.approx(count // 2 * length_s, abs=2 * length_s + 1)
