"""Real runs made bad on purpose, each in the way that its name and first line say."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.audit.bench import Bench, until
from benchmarks.audit.conditions import (
    disk_of,
    ext4_on_loop,
    limits,
    loop_device,
    neighbours,
    small_filesystem,
    zfs_on_loop,
)

FILE = ("--name=job", "--filename=data", "--size=256M", "--randrepeat=0")
RANDOM_READS = (*FILE, "--rw=randread", "--bs=4k", "--time_based", "--runtime=5")


def psync_depth_32(bench: Bench) -> None:
    """A synchronous engine is asked for depth 32 and keeps one I/O in flight."""
    bench.lay_out()
    bench.fio(*RANDOM_READS, "--ioengine=psync", "--iodepth=32", "--direct=1", form="json+")


def no_engine_named(bench: Bench) -> None:
    """Four jobs at depth 16 without `ioengine`, which is psync then."""
    bench.lay_out()
    bench.fio(
        *RANDOM_READS, "--iodepth=16", "--numjobs=4", "--group_reporting", "--direct=1"
    )  # fmt: skip


def libaio_buffered_depth_32(bench: Bench) -> None:
    """libaio without direct I/O: io_submit waits for the disk, so one I/O is under way there."""
    bench.lay_out(size="1G")
    bench.fio(
        "--name=job", "--filename=data", "--size=1G", "--randrepeat=0", "--rw=randread", "--bs=4k",
        "--time_based", "--runtime=5", "--ioengine=libaio", "--iodepth=32", "--direct=0",
    )  # fmt: skip


def buffered_reads_just_written(bench: Bench) -> None:
    """Reads through the page cache of a file that was just written through it."""
    bench.fio(*FILE, "--rw=write", "--bs=1M", "--direct=0", output="write.json")
    bench.audited.clear()
    bench.fio(*RANDOM_READS, "--ioengine=psync", "--direct=0", "--invalidate=0")


def buffered_reread(bench: Bench) -> None:
    """A small file is read again and again through the page cache, cold at first, and fio is set
    not to empty the cache between its passes."""
    bench.lay_out(size="64M")
    bench.fio(
        "--name=job",
        "--filename=data",
        "--size=64M",
        "--rw=randread",
        "--bs=4k",
        "--time_based",
        "--runtime=5",
        "--ioengine=psync",
        "--direct=0",
        "--invalidate=0",
    )


def half_cached(bench: Bench) -> None:
    """Half of the file is in the page cache when buffered reads begin."""
    bench.lay_out()
    with (bench.data / "data").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.tell() < 128 << 20:
            file.read(1 << 20)
    # Without a random map a block read once would be found in the cache the second time.
    bench.fio(
        *FILE, "--rw=randread", "--bs=4k", "--io_size=64M", "--ioengine=psync", "--direct=0",
        "--invalidate=0", form="json+",
    )  # fmt: skip


def cached_reads_run(bench: Bench) -> None:
    """A Leadline run of a job file that writes through the page cache, then reads from it."""
    (bench.data.parent / "out" / "job.fio").write_text(
        "[global]\nioengine=psync\nsize=64M\nfilename_format=own.dat\n"
        "[lay-out]\nrw=write\nbs=1M\nruntime=30\n"
        "[reads]\nstonewall\nrw=randread\nbs=4k\ntime_based=1\nruntime=4\ninvalidate=0\n"
    )
    bench.leadline("repeats: 1\nworkloads: [{name: cached, job_file: job.fio}]\n")


def filesystem_reread_run(bench: Bench) -> None:
    """A Leadline run of a job file that reads a file on ext4 on a loop device over and over through
    the page cache, not emptied between the passes."""
    (bench.out / "job.fio").write_text(
        "[reads]\nioengine=psync\nsize=64M\nfilename_format=own.dat\nrw=randread\nbs=4k\n"
        "time_based=1\nruntime=4\ninvalidate=0\n"
    )
    with ext4_on_loop(bench.data, "256M") as folder:
        bench.leadline(
            "repeats: 1\nworkloads: [{name: reread, job_file: job.fio}]\n", target=f"dir:{folder}"
        )


def zfs_cache_run(bench: Bench) -> None:
    """A Leadline run of direct reads on ZFS, which does not heed the flag: the ARC holds it all."""
    with zfs_on_loop(bench.data, "256M") as folder:
        bench.leadline(
            "repeats: 1\nworkloads:\n"
            "  - {name: reads, pattern: randread, block_size: 4k, iodepth: 1, numjobs: 1,"
            " size: 64M, runtime: 4s, ramp: 0s, engine: psync}\n",
            target=f"dir:{folder}",
        )


def zfs_zeros_run(bench: Bench) -> None:
    """A Leadline run of a job file that writes zeros to a dataset with compression."""
    (bench.out / "job.fio").write_text(
        "[writes]\nioengine=psync\nsize=64M\nfilename_format=own.dat\nrw=write\nbs=128k\n"
        "zero_buffers=1\ntime_based=1\nruntime=4\nend_fsync=1\n"
    )
    with zfs_on_loop(bench.data, "256M", compression="on") as folder:
        bench.leadline(
            "repeats: 1\nworkloads: [{name: zeros, job_file: job.fio}]\n", target=f"dir:{folder}"
        )


def unwritten_sparse(bench: Bench) -> None:
    """Direct reads of a sparse file that was never written: the file system answers with zeros."""
    with (bench.data / "data").open("wb") as file:
        file.truncate(256 << 20)
    bench.fio(*RANDOM_READS, "--ioengine=libaio", "--iodepth=4", "--direct=1")


def unwritten_run(bench: Bench) -> None:
    """A Leadline run without prefill on a device (a loop over a sparse file) of which nothing was
    ever written."""
    backing = bench.data / "backing"
    with backing.open("wb") as file:
        file.truncate(64 << 20)
    with loop_device(backing) as device:
        bench.leadline(
            "repeats: 1\nprefill: false\nworkloads:\n"
            "  - {name: holes, pattern: randread, block_size: 4k, iodepth: 4, numjobs: 1,"
            " size: 64M, runtime: 4s, ramp: 0s}\n",
            target=f"device:{device}",
        )


def gtod_reduce(bench: Bench) -> None:
    """No latencies were taken, for speed."""
    bench.lay_out()
    bench.fio(*RANDOM_READS, "--ioengine=libaio", "--iodepth=16", "--direct=1", "--gtod_reduce=1")


def latencies_disabled(bench: Bench) -> None:
    """All three kinds of latency were switched off."""
    bench.lay_out()
    bench.fio(
        *RANDOM_READS, "--ioengine=libaio", "--iodepth=16", "--direct=1", "--disable_lat=1",
        "--disable_clat=1", "--disable_slat=1",
    )  # fmt: skip


def four_jobs_at_once(bench: Bench) -> None:
    """Four sections without stonewall, reported apart as if each had been alone."""
    bench.lay_out()
    common = ("--filename=data", "--size=256M", "--direct=1", "--ioengine=libaio", "--iodepth=8",
              "--time_based", "--runtime=6")  # fmt: skip
    bench.fio(
        *common, "--name=read_iops", "--rw=randread", "--bs=4k",
        "--name=write_iops", "--rw=randwrite", "--bs=4k",
        "--name=read_bw", "--rw=randread", "--bs=128k",
        "--name=write_bw", "--rw=randwrite", "--bs=128k",
    )  # fmt: skip


def _cut(bench: Bench, stop: signal.Signals) -> None:
    bench.lay_out()
    bench.fio(
        *FILE, "--rw=randread", "--bs=4k", "--time_based", "--runtime=20", "--ioengine=libaio",
        "--iodepth=8", "--direct=1", "--thread", stop=stop, after_s=4.0,
    )  # fmt: skip


def cut_by_sigint(bench: Bench) -> None:
    """SIGINT after 4 of 20 s: valid JSON with error 0."""
    _cut(bench, signal.SIGINT)


def cut_by_sigterm(bench: Bench) -> None:
    """SIGTERM after 4 of 20 s: valid JSON with error 0."""
    _cut(bench, signal.SIGTERM)


def cut_by_sigkill(bench: Bench) -> None:
    """SIGKILL after 4 of 20 s: an empty file."""
    _cut(bench, signal.SIGKILL)


def ended_in_its_ramp(bench: Bench) -> None:
    """10 s after a ramp of 5 s were asked, and a small size was used up within the ramp."""
    bench.fio(
        "--name=job", "--filename=data", "--size=8M", "--rw=write", "--bs=4k", "--ioengine=libaio",
        "--iodepth=64", "--direct=1", "--ramp_time=5", "--runtime=10",
    )  # fmt: skip


def full_disk(bench: Bench) -> None:
    """Writes of 64 MiB to a filesystem of 16 MiB: no space left on device."""
    with small_filesystem("16m") as folder:
        bench.fio(
            "--name=job", "--filename=data", "--size=64M", "--rw=write", "--bs=64k",
            "--ioengine=psync", "--direct=0", "--fallocate=none", cwd=folder,
        )  # fmt: skip


def client_out_of_cpu(bench: Bench) -> None:
    """Depth 32 on memory: the job's thread is the bottleneck. The target is memory, too."""
    folder = Path("/dev/shm") / f"leadline-audit-{os.getpid()}"
    folder.mkdir()
    try:
        bench.fio(
            "--name=job", "--filename=data", "--size=64M", "--rw=randread", "--bs=4k",
            "--ioengine=libaio", "--iodepth=32", "--direct=1", "--time_based", "--runtime=5",
            cwd=folder,
        )  # fmt: skip
    finally:
        (folder / "data").unlink()
        folder.rmdir()


def zero_buffers(bench: Bench) -> None:
    """Only zeros were written."""
    bench.fio(
        *FILE, "--rw=write", "--bs=128k", "--time_based", "--runtime=5", "--ioengine=libaio",
        "--iodepth=4", "--direct=1", "--zero_buffers=1",
    )  # fmt: skip


def throttled_disk_midway(bench: Bench) -> None:
    """The cgroup's disk limit falls to 300 I/Os a second after half of the time."""
    bench.lay_out()
    with limits() as group:
        inside = replace(bench, wrap=group.command)
        inside.fio(
            *FILE, "--rw=randread", "--bs=4k", "--time_based", "--runtime=16",
            "--ioengine=libaio", "--iodepth=4", "--direct=1", "--log_avg_msec=1000",
            "--write_iops_log=../out/fio", "--per_job_logs=0",
            after_s=8.0, meanwhile=lambda: group.disk(disk_of(bench.data), 300),
        )  # fmt: skip
    bench.logs("fio_iops.log")


def throttled_cpu_run(bench: Bench) -> None:
    """A Leadline run whose cgroup gets a tenth of a core after half of the trial."""
    with limits() as group:

        def later(runs: Path) -> None:
            until(lambda: any(runs.glob("*/prefill/*")))
            time.sleep(8.0)
            group.cpu(0.1)

        replace(bench, wrap=group.command).leadline(
            "repeats: 1\nworkloads:\n"
            "  - {name: reads, pattern: randread, block_size: 4k, iodepth: 4, numjobs: 1,"
            " size: 64M, runtime: 16s, ramp: 0s}\n",
            meanwhile=later,
        )


def capped_disk(bench: Bench) -> None:
    """Four stonewalled sections, 4k and 64k, reads and writes, under 250 I/Os a second."""
    bench.lay_out()
    with limits() as group:
        group.disk(disk_of(bench.data), 250)
        section = ("--filename=data", "--size=256M", "--stonewall")
        replace(bench, wrap=group.command).fio(
            "--direct=1", "--ioengine=libaio", "--iodepth=8", "--time_based", "--runtime=4",
            *section, "--name=read-4k", "--rw=randread", "--bs=4k",
            *section, "--name=write-4k", "--rw=randwrite", "--bs=4k",
            *section, "--name=read-64k", "--rw=randread", "--bs=64k",
            *section, "--name=write-64k", "--rw=randwrite", "--bs=64k",
        )  # fmt: skip


def capped_disk_run(bench: Bench) -> None:
    """A Leadline run of 4k and 64k, reads and writes, under 250 I/Os a second."""
    with limits() as group:

        def later(runs: Path) -> None:
            until(lambda: any(runs.glob("*/prefill/*")))
            group.disk(disk_of(bench.data), 250)

        cells = "".join(
            f"  - {{name: {pattern}-{block}, pattern: {pattern}, block_size: {block}, iodepth: 8,"
            " numjobs: 1, size: 64M, runtime: 3s, ramp: 1s}\n"
            for block in ("4k", "64k")
            for pattern in ("randread", "randwrite")
        )
        replace(bench, wrap=group.command).leadline(
            f"repeats: 1\nworkloads:\n{cells}", meanwhile=later
        )


def unstable_repeats_run(bench: Bench) -> None:
    """Three trials of one cell, the second under a tenth of what the disk gives."""
    with limits() as group:
        disk = disk_of(bench.data)

        def later(runs: Path) -> None:
            until(lambda: len(list(runs.glob("*/trials/*"))) == 1)
            group.disk(disk, 2000)
            until(lambda: len(list(runs.glob("*/trials/*"))) == 2)
            group.disk(disk, 0)

        replace(bench, wrap=group.command).leadline(
            "repeats: 3\nworkloads:\n"
            "  - {name: reads, pattern: randread, block_size: 4k, iodepth: 4, numjobs: 1,"
            " size: 64M, runtime: 4s, ramp: 0s}\n",
            meanwhile=later,
        )


def neighbour_steals_cpu_run(bench: Bench) -> None:
    """Two busy loops for each core run next to a Leadline run of a latency cell and a deep one."""
    with neighbours(2 * (os.cpu_count() or 1)):
        bench.leadline(
            "repeats: 1\nworkloads:\n"
            "  - {name: latency, pattern: randread, block_size: 4k, iodepth: 1, numjobs: 1,"
            " size: 64M, runtime: 5s, ramp: 0s}\n"
            "  - {name: deep, pattern: randread, block_size: 4k, iodepth: 16, numjobs: 1,"
            " size: 64M, runtime: 5s, ramp: 0s}\n"
        )


RUNS = (
    psync_depth_32,
    no_engine_named,
    libaio_buffered_depth_32,
    buffered_reads_just_written,
    buffered_reread,
    half_cached,
    cached_reads_run,
    filesystem_reread_run,
    zfs_cache_run,
    zfs_zeros_run,
    unwritten_sparse,
    unwritten_run,
    gtod_reduce,
    latencies_disabled,
    four_jobs_at_once,
    cut_by_sigint,
    cut_by_sigterm,
    cut_by_sigkill,
    ended_in_its_ramp,
    full_disk,
    client_out_of_cpu,
    zero_buffers,
    throttled_disk_midway,
    throttled_cpu_run,
    capped_disk,
    capped_disk_run,
    unstable_repeats_run,
    neighbour_steals_cpu_run,
)
