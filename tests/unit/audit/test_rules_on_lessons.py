"""What the labelled bench (benchmarks/audit) showed the rules, on the smallest evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.archive.records import Extent
from leadline.findings import Severity
from leadline.formats.result import DiskUse, JobResult, Latency
from leadline.metrics import Op
from tests.unit.audit.audit_archives import Judge, Stored
from tests.unit.audit.published import audit_output, done, job, of, output

DISK = DiskUse(name="sda", read_ios=10_000, write_ios=0, busy_share=0.9)


def submitting(share: float, **more: object) -> JobResult:
    """8 I/Os in flight by Little's law, of a thread that stands in submission for that share."""
    read = replace(
        done(iops=400.0, mean_s=8 / 400), submission=Latency(mean_s=share / 400, count=24_000)
    )
    options = {"rw": "randread", "iodepth": "8", "ioengine": "libaio", "direct": "1"}
    given = {key: str(value) for key, value in more.items() if key in ("direct", "ioengine")}
    result = job(read, **(options | given))
    return replace(result, user_cpu=float(more.get("cpu", 0.02)), system_cpu=0.0)  # type: ignore[arg-type]


def test_a_submission_that_waits_is_a_queue_of_one() -> None:
    (found,) = of("queue-depth-not-reached", audit_output(output(submitting(0.99))))
    assert found.severity is Severity.WARNING
    assert found.evidence["submitting_share"] == pytest.approx(0.99)
    (buffered,) = of(
        "queue-depth-not-reached", audit_output(output(submitting(0.99, direct=0), disks=(DISK,)))
    )
    assert buffered.evidence["core_share"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("engine", "iodepth", "fires"),
    [("filestat", 1, False), ("psync", 1, True), ("filestat", 16, True)],
)
def test_the_time_between_operations_on_files_is_the_engines(
    engine: str, iodepth: int, fires: bool
) -> None:
    """4 jobs of filestat as measured: 2.4 us each, 323,000 a second, 10 us between two."""
    read = done(iops=322_580.0, mean_s=2.375e-6)
    options = {"ioengine": engine, "iodepth": str(iodepth), "numjobs": "4", "group_reporting": "1"}
    assert bool(of("queue-depth-not-reached", audit_output(output(job(read, **options))))) is fires


def test_a_submission_that_works_or_waits_for_a_place_in_the_disks_queue_is_none() -> None:
    for one, disks in (
        (submitting(0.99, cpu=0.95), ()),  # the processor's time, not a wait
        (submitting(0.5), ()),
        (submitting(0.99), (DISK,)),  # direct: the device's own queue is full
        (submitting(0.99, ioengine="psync"), ()),
    ):
        assert not [
            found
            for found in of("queue-depth-not-reached", audit_output(output(one, disks=disks)))
            if "submitting_share" in found.evidence
        ]


def test_a_job_that_ended_in_its_ramp_measured_nothing() -> None:
    short = replace(done(iops=1000.0), runtime_s=0.035, total_ios=35)
    asked = {"rw": "randread", "runtime": "30", "ramp_time": "10"}
    (found,) = of("short-runtime", audit_output(output(job(short, **asked))))
    assert found.severity is Severity.ERROR
    assert (found.evidence["runtime_s"], found.evidence["ramp_s"]) == (0.035, 10.0)
    timed = replace(short, total=Latency(mean_s=1e-3, count=35))
    assert not of("short-runtime", audit_output(output(job(timed, **asked))))
    no_ramp = {key: value for key, value in asked.items() if key != "ramp_time"}
    assert not of("short-runtime", audit_output(output(job(short, **no_ramp))))


def test_of_a_search_for_a_latency_fio_reports_its_last_window() -> None:
    window = replace(done(mean_s=1e-3), runtime_s=0.5, total_ios=500)
    asked = {"rw": "randread", "runtime": "5", "time_based": "1", "latency_target": "2000"}
    assert not of("short-runtime", audit_output(output(job(window, **asked))))
    del asked["latency_target"]
    assert of("short-runtime", audit_output(output(job(window, **asked))))


def test_what_the_disk_counts_miss_before_the_end_is_no_cache() -> None:
    options = {"rw": "randread", "ioengine": "libaio", "direct": "0", "iodepth": "1"}
    short = replace(done(mean_s=3e-4), runtime_s=0.3, total_ios=1024)
    seen = replace(DISK, read_ios=495)
    early = audit_output(output(job(short, **options), disks=(seen,)))
    assert not of("cache-served-reads", early)
    long = replace(short, runtime_s=10.0, total_ios=34_000)
    late = audit_output(output(job(long, **options), disks=(seen,)))
    (found,) = of("cache-served-reads", late)
    assert found.evidence["disk_reads"] == 495


def test_files_that_fio_lays_out_are_written(judge: Judge) -> None:
    def extent(filesystem: str) -> Stored:
        unwritten = Extent(
            span_bytes=64 << 20, written_bytes=0, allocated_bytes=None, filesystem=filesystem
        )
        return Stored(record={"extent": unwritten})

    assert not of("unwritten-reads", judge(extent("ext4")))


def test_a_device_without_writes_is_unwritten(judge: Judge) -> None:
    unwritten = Extent(span_bytes=64 << 20, written_bytes=0, allocated_bytes=None)
    (found,) = of("unwritten-reads", judge(Stored(record={"extent": unwritten})))
    assert found.severity is Severity.ERROR


def test_a_summary_without_latencies_is_reported_only_if_they_were_disabled() -> None:
    silent = job(done(), whole=False, rw="randread")
    assert not of("latency-not-measured", audit_output(output(silent)))
    switched = job(done(), whole=False, rw="randread", gtod_reduce="1")
    (found,) = of("latency-not-measured", audit_output(output(switched)))
    assert found.severity is Severity.INFO


def test_no_total_is_made_of_reads_and_writes_that_a_summary_tells() -> None:
    from leadline.formats.result import by_name

    both = (done(Op.READ), done(Op.WRITE))
    assert [one.op for one in by_name([job(*both, whole=False)])["j"]] == [Op.READ, Op.WRITE]
    assert Op.TOTAL in [one.op for one in by_name([job(*both)])["j"]]
