from __future__ import annotations

from pathlib import Path

import pytest

from leadline.formats.fio.text_lines import parse_scaled, parse_size
from leadline.formats.fio.text_output import IMPORTER
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, JobResult, NoteKind
from leadline.metrics import Op
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "imports" / "fio-text"
FIO_2 = (RECORDED / "vps-vultr-20gbssd-ubuntu-fio_randwrite.log").read_bytes()
REFUSED = (RECORDED / "own-3.33-stonewall-refused.txt").read_bytes()
MERGED = (RECORDED / "own-3.33-merged-sections.txt").read_bytes()
MIXED = (RECORDED / "own-3.33-unified-mixed.txt").read_bytes()
BOTH = (RECORDED / "own-3.33-unified-both.txt").read_bytes()
REPEATED = (RECORDED / "own-3.33-status-interval.txt").read_bytes()
# In the layout of fio 3.7 with two jobs behind each other, of which the second failed.
TWO = b"""\
first: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, \
iodepth=16
...
second: (g=1): rw=rw, bs=(R) 16.0KiB-64.0KiB, (W) 16.0KiB-64.0KiB, (T) 16.0KiB-64.0KiB, \
ioengine=psync, iodepth=1
fio-3.7
Starting 4 processes and 1 thread

first: (groupid=0, jobs=4): err= 0: pid=11: Tue Aug 18 10:29:42 2020
   read: IOPS=12.3k, BW=48.2MiB/s (50.5MB/s)(2890MiB/60001msec)
    slat (nsec): min=1102, max=317574, avg=46608.08, stdev=63158.22
    clat (usec): min=464, max=3038.4k, avg=5180.25, stdev=139.10
     lat (usec): min=483, max=3038.4k, avg=5230.12, stdev=139.12
    clat percentiles (msec):
     |  1.00th=[    3], 50.00th=[   22], 99.00th=[  498], 99.90th=[17113],
     | 99.99th=[17113]
   bw (  KiB/s): min=    5, max= 2341, per=70.39%, avg=963.61, stdev=680.11, samples=59
   iops        : min=    1, max=  585, avg=240.51, stdev=170.03, samples=59
  lat (usec)   : 500=0.01%, 750=0.11%, 1000=0.39%
  cpu          : usr=0.24%, sys=1.09%, ctx=9925, majf=0, minf=25
  IO depths    : 1=0.1%, 2=0.1%, 4=0.1%, 8=0.1%, 16=99.9%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued rwts: total=739840,0,0,0 short=2,0,0,0 dropped=1,0,0,0
     latency   : target=0, window=0, percentile=100.00%, depth=16
second: (groupid=1, jobs=1): err= 5 (file:io_u.c:1803, func=io_u error, error=Input/output \
error): pid=12: Tue Aug 18 10:29:42 2020
  write: IOPS=100, BW=3200KiB/s (3277kB/s)(31.3MiB/10000msec)
    clat (msec): min=2, max=30, avg= 9.98, stdev= 1.50
  cpu          : usr=0.24%, sys=1.09%, ctx=9925, majf=0, minf=25
  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     issued rwts: total=0,1003,0,0 short=0,0,0,0 dropped=0,0,0,0

Run status group 0 (all jobs):
   READ: bw=48.2MiB/s (50.5MB/s), 48.2MiB/s-48.2MiB/s (50.5MB/s-50.5MB/s), io=2890MiB, run=1-1msec

Disk stats (read/write):
    dm-0: ios=739000/3, merge=0/1, ticks=1/2, in_queue=3, util=99.50%, aggrios=1/2, aggrutil=90.00%
  sda: ios=739000/4, sectors=5912000/32, merge=0/0, ticks=1/2, in_queue=3, util=90.00%
"""


def read(content: bytes) -> tuple[Result, ...]:
    return IMPORTER.read({"x.txt": content})


def output_of(result: Result) -> EngineOutput:
    assert isinstance(result.output, EngineOutput)
    return result.output


def job_of(result: Result) -> JobResult:
    return output_of(result).jobs[0]


def test_three_runs_of_fio_2_in_one_file() -> None:
    results = read(FIO_2)
    assert [result.workload for result in results] == ["randwrite"] * 3
    output = output_of(results[0])
    job = job_of(results[0])
    (write,) = job.operations
    assert output.version == "fio-2.2.10"
    assert dict(job.options.raw) == {
        "rw": "randwrite",
        "bs": "4096",
        "ioengine": "libaio",
        "iodepth": "16",
        "numjobs": "8",
        "group_reporting": "1",
    }
    assert not job.options.whole
    assert write.op is Op.WRITE
    assert (write.total_ios, write.runtime_s) == (1048576, 26.063)
    assert write.iops == pytest.approx(1048576 / 26.063)
    assert write.bandwidth_bps == pytest.approx((4096 << 20) / 26.063)
    assert write.io_bytes == 4096 << 20
    assert write.submission is not None
    assert write.submission.mean_s == pytest.approx(99.12e-6)
    assert write.completion is not None
    assert (write.completion.min_s, write.completion.max_s) == (19e-6, 0.130576)
    assert write.completion.percentiles[0.99] == 0.007392
    assert write.completion.percentiles[0.9999] == 0.030848
    assert write.total is not None
    assert (write.total.mean_s, write.total.stddev_s) == (
        pytest.approx(3143.62e-6),
        pytest.approx(1662.57e-6),
    )
    assert (job.user_cpu, job.system_cpu) == (pytest.approx(0.0131), pytest.approx(0.0678))
    assert job.depth_levels["16"] == 1.0
    (disk,) = output.disks
    assert (disk.name, disk.write_ios, disk.write_merges) == ("vda", 1041912, 11913)
    assert disk.busy_share == pytest.approx(0.9614)
    assert (output.noise, output.notes, results[0].together) == ("", (), None)
    assert output_of(results[2]).jobs[0].operations[0].iops == pytest.approx(1048576 / 20.065)


def test_two_groups_of_fio_3() -> None:
    first, second = read(TWO)
    job, failed = job_of(first), job_of(second)
    assert (job.name, job.group, job.error) == ("first", 0, 0)
    assert (failed.name, failed.group, failed.error) == ("second", 1, 5)
    assert first.together is not None
    assert [one.name for one in first.together.jobs] == ["first", "second"]
    assert job.options.raw["numjobs"] == "4"
    assert dict(failed.options.raw) == {
        "rw": "rw",
        "bsrange": "16384-65536",
        "ioengine": "psync",
        "iodepth": "1",
        "numjobs": "1",
    }
    (read_,) = job.operations
    assert read_.iops == pytest.approx(739840 / 60.001)
    assert (read_.short_ios, read_.dropped_ios) == (2, 1)
    assert read_.io_bytes == 739840 * 4096
    assert read_.bandwidth_bps == pytest.approx(739840 * 4096 / 60.001)
    assert read_.submission is not None
    assert read_.submission.max_s == pytest.approx(317.574e-6)
    assert read_.completion is not None
    assert read_.completion.max_s == pytest.approx(3.0384)
    assert dict(read_.completion.percentiles) == {0.01: 0.003, 0.5: 0.022, 0.99: 0.498}
    (bound,) = output_of(first).notes
    assert "99.90% on" in bound.fact
    (write,) = failed.operations
    assert write.iops == 100.3
    # 31.3MiB of blocks of several sizes: too few digits for a number of bytes.
    assert (write.io_bytes, write.bandwidth_bps) == (None, 3200 * 1024)
    assert write.completion is not None
    assert write.completion.mean_s == pytest.approx(0.00998)
    assert write.total is None
    disks = output_of(first).disks
    assert [(disk.name, disk.read_ios, disk.read_bytes) for disk in disks] == [
        ("dm-0", 739000, None),
        ("sda", 739000, 5912000 * 512),
    ]


def test_a_job_that_did_nothing_is_not_forgotten() -> None:
    """The second section was refused: fio names it before the run and never again."""
    done, silent = read(REFUSED)
    output = output_of(done)
    assert len(output.jobs) == 2
    assert [job.options.raw["numjobs"] for job in output.jobs] == ["2", "2"]
    assert output.jobs[0].options.raw["bs"] == "4096,65536,65536"
    assert "group_reporting" not in output.jobs[0].options.raw
    assert "y: you need to specify size=" in output.noise
    assert {note.fact for note in output.notes} == {"latencies of fsync and the like"}
    assert silent.workload == "y"
    assert isinstance(silent.output, FormatError)
    assert silent.output.condition == "empty-result"


def test_sections_reported_as_one_keep_what_they_share() -> None:
    (result,) = read(MERGED)
    job = job_of(result)
    assert job.name == "a"
    assert [one.op for one in job.operations] == [Op.READ, Op.WRITE]
    assert dict(job.options.raw) == {"ioengine": "psync", "iodepth": "1", "group_reporting": "1"}
    assert "2 sections are reported as one" in output_of(result).notes[0].fact


def test_reads_and_writes_reported_as_one() -> None:
    (mixed,) = job_of(read(MIXED)[0]).operations
    assert (mixed.op, mixed.total_ios) == (Op.TOTAL, 2048)
    assert mixed.iops == pytest.approx(2048 / 0.117)
    output = output_of(read(BOTH)[0])
    one, two = output.jobs[0].operations
    assert (one.op, two.op) == (Op.READ, Op.WRITE)
    assert (one.total_ios, two.total_ios) == (994, 1054)
    assert "sum of reads and writes" in output.notes[0].fact
    assert one.total is not None
    assert one.total.percentiles


def test_figures_reported_again_and_again() -> None:
    (result,) = read(REPEATED)
    output = output_of(result)
    (job,) = output.jobs
    assert job.operations[0].total_ios == 70078
    assert job.operations[0].runtime_s == 3.001
    assert len(output.disks) == 1
    assert [note.kind for note in output.notes] == [NoteKind.LEFT_OUT]


def test_a_signal_is_kept_for_the_audit() -> None:
    text = TWO.replace(
        b"\nfirst: (groupid", b"^Cbs: 4\r\nfio: terminating on signal 2\n\nfirst: (groupid"
    )
    assert "fio: terminating on signal 2" in output_of(read(text)[0]).noise


def test_a_text_cut_in_the_middle() -> None:
    at = TWO.index(b"  IO depths    : 1=100.0%")
    first, second = read(TWO[:at])
    assert job_of(first).operations
    assert isinstance(second.output, FormatError)
    assert second.output.condition == "truncated-result"
    assert "line 23" in second.output.context[0]
    cut = read(TWO[: TWO.index(b"first: (groupid")])
    assert [result.workload for result in cut] == ["first", "second"]
    for result in cut:
        assert isinstance(result.output, FormatError)
        assert result.output.condition == "truncated-result"


def test_carriage_returns_byte_order_marks_and_unknown_lines() -> None:
    text = b"\xef\xbb\xbf" + TWO.replace(b"\n", b"\r\n")
    assert job_of(read(text)[0]).operations[0].total_ios == 739840
    progress = b"Jobs: 4 (f=4): [r(4)][50.0%][eta 00m:30s]\rJobs: 4 (f=4)\rfirst: (groupid"
    assert len(read(TWO.replace(b"first: (groupid", progress))) == 2
    strange = TWO.replace(b"  cpu    ", b"  wonder   : 1\n  cpu    ", 1)
    notes = output_of(read(strange)[0]).notes
    assert (notes[0].kind, "wonder" in notes[0].fact) == (NoteKind.UNKNOWN_FIELD, True)


def test_iops_that_contradict_the_ios_issued() -> None:
    output = output_of(read(TWO.replace(b"total=739840,", b"total=73984,"))[0])
    assert output.jobs[0].operations[0].iops == 12300
    assert NoteKind.IMPOSSIBLE_VALUE in {note.kind for note in output.notes}


@pytest.mark.parametrize(
    ("text", "old", "expected"),
    [
        ("4096.0MB", True, 4 << 30),
        ("160929KB/s", True, 160929 * 1024),
        ("1,024KiB/s", True, 1 << 20),
        ("48.2MiB/s", False, 48.2 * (1 << 20)),
        ("50.5MB/s", False, 50.5e6),
        ("444Mibit/s", False, 444 * (1 << 20) / 8),
        ("0B", False, 0),
        ("-1B", False, None),
        ("many", False, None),
    ],
)
def test_sizes(text: str, old: bool, expected: float | None) -> None:
    assert parse_size(text, old=old) == (pytest.approx(expected) if expected is not None else None)


def test_scaled_counts() -> None:
    assert [parse_scaled(text) for text in ("1277", "12.3k", "3038.4k", "1.2M", "x")] == [
        1277,
        12300,
        pytest.approx(3038400),
        1200000,
        None,
    ]


@pytest.mark.parametrize(
    ("content", "condition"), [(b"", "empty-result"), (b"hello\n", "unreadable-result")]
)
def test_what_is_no_fio_output_is_refused(content: bytes, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(content)
    assert refused.value.condition == condition
    assert refused.value.context == ("line 1",)


def test_files_are_recognised_by_their_lines() -> None:
    for content in (FIO_2, TWO, REFUSED):
        assert IMPORTER.recognises("x", content)
    assert not IMPORTER.recognises("x", b"Run status group 0 (all jobs):\n")
    assert not IMPORTER.recognises("x", TWO + b'{"fio version" : "fio-3.33"}')


def test_four_jobs_on_cephfs(shared: Path) -> None:
    text = shared / "corpus/public/reading-only/fio-text/kangeek-2hdd-cephfs.2.log"
    if not text.exists():
        pytest.skip("needs ../shared: this corpus file is absent")
    results = read(text.read_bytes())
    assert [result.workload for result in results] == [
        "4k_randwrite",
        "4k_randread",
        "64k_write",
        "64k_read",
    ]
    assert [job_of(result).options.raw["bs"] for result in results] == ["4096"] * 2 + ["65536"] * 2
    (write,) = job_of(results[0]).operations
    assert write.iops == pytest.approx(38331 / 30.004)
    (slow,) = job_of(results[1]).operations
    assert slow.completion is not None
    assert slow.completion.percentiles[0.999] == 2.165
    assert slow.completion.max_s == pytest.approx(3.0384)


def test_a_sweeps_log_holds_no_figures_of_fio(shared: Path) -> None:
    """It reports that fio ran in 32 machines, and of Ceph; nothing that fio printed."""
    sweep = (shared / "corpus/public/ceph-dump/odf-tuning-sweep-a.log").read_bytes()
    assert not IMPORTER.recognises("odf-tuning-sweep-a.log", sweep)
    with pytest.raises(FormatError):
        read(sweep)


@pytest.mark.thorough
def test_many_jobs_take_time_that_grows_with_them() -> None:
    """Quadratic time would be minutes here."""
    job = b"%d: (groupid=0, jobs=1): err= 0: pid=%d: now\n     issued rwts: total=1,0,0,0\n"
    header = b"%d: (g=0): rw=read, bs=4096B-4096B, ioengine=psync, iodepth=1\n"
    count = 20_000
    text = b"".join(header % at for at in range(count)) + b"".join(
        job % (at, at) for at in range(count)
    )
    assert len(read(text)) == count
