"""Real runs that are what they seem, of every kind that an audit could be wrong about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.audit.bench import Bench, until
from benchmarks.audit.conditions import (
    disk_of,
    ext4_on_loop,
    fio_servers,
    limits,
    small_filesystem,
)

DISK = ("--filename=data", "--size=256M", "--direct=1", "--randrepeat=0")
SHORT = ("--time_based", "--runtime=5")
READS = ("--name=job", *DISK, *SHORT, "--rw=randread", "--bs=4k")


def _depth(bench: Bench, engine: str, depth: int, form: str = "json+") -> None:
    bench.lay_out()
    bench.fio(*READS, f"--ioengine={engine}", f"--iodepth={depth}", form=form)


def libaio_depth_1(bench: Bench) -> None:
    """libaio at depth 1."""
    _depth(bench, "libaio", 1)


def libaio_depth_16(bench: Bench) -> None:
    """libaio at depth 16."""
    _depth(bench, "libaio", 16)


def libaio_depth_32(bench: Bench) -> None:
    """libaio at depth 32."""
    _depth(bench, "libaio", 32)


def io_uring_depth_1(bench: Bench) -> None:
    """io_uring at depth 1."""
    _depth(bench, "io_uring", 1)


def io_uring_depth_16(bench: Bench) -> None:
    """io_uring at depth 16."""
    _depth(bench, "io_uring", 16)


def io_uring_depth_32(bench: Bench) -> None:
    """io_uring at depth 32."""
    _depth(bench, "io_uring", 32)


def psync_depth_1(bench: Bench) -> None:
    """A synchronous engine at the one depth that it can do."""
    _depth(bench, "psync", 1)


def psync_16_jobs(bench: Bench) -> None:
    """Sixteen synchronous jobs, grouped: concurrency without a queue."""
    bench.lay_out()
    bench.fio(*READS, "--ioengine=psync", "--numjobs=16", "--group_reporting")


def format_json(bench: Bench) -> None:
    """The same job as the other formats: JSON without bins."""
    _depth(bench, "libaio", 8, "json")


def format_terse(bench: Bench) -> None:
    """The same job as the other formats: terse."""
    bench.lay_out()
    bench.fio(*READS, "--ioengine=libaio", "--iodepth=8", form="terse", output="fio.terse")


def format_text(bench: Bench) -> None:
    """The same job as the other formats: plain text."""
    bench.lay_out()
    bench.fio(*READS, "--ioengine=libaio", "--iodepth=8", form="normal", output="fio.txt")


def format_all_in_one(bench: Bench) -> None:
    """The same job as the other formats: text around JSON in one file."""
    _depth(bench, "libaio", 8, "normal,json")


def with_logs(bench: Bench) -> None:
    """Twelve seconds with logs of IOPS, bandwidth and latency."""
    bench.lay_out()
    bench.fio(
        "--name=job", *DISK, "--time_based", "--runtime=12", "--rw=randread", "--bs=4k",
        "--ioengine=libaio", "--iodepth=16", "--log_avg_msec=1000", "--write_iops_log=../out/fio",
        "--write_bw_log=../out/fio", "--write_lat_log=../out/fio",
    )  # fmt: skip
    bench.logs(*(f"fio_{kind}.1.log" for kind in ("iops", "bw", "lat", "clat", "slat")))


def mixed_depth_32(bench: Bench) -> None:
    """70/30 at depth 32: reads and writes share the queue."""
    bench.lay_out()
    bench.fio(
        "--name=job", *DISK, *SHORT, "--rw=randrw", "--rwmixread=70", "--bs=4k",
        "--ioengine=libaio", "--iodepth=32", form="json+",
    )  # fmt: skip


def mixed_unified(bench: Bench) -> None:
    """The mix reported as one direction (`unified_rw_reporting`)."""
    bench.lay_out()
    bench.fio(
        "--name=job", *DISK, *SHORT, "--rw=randrw", "--rwmixread=70", "--bs=4k",
        "--ioengine=libaio", "--iodepth=16", "--unified_rw_reporting=1",
    )  # fmt: skip


def rate_limited(bench: Bench) -> None:
    """Open loop: 400 I/Os a second on purpose, at depth 16."""
    bench.lay_out()
    bench.fio(
        *READS, "--ioengine=libaio", "--iodepth=16", "--rate_iops=400", "--rate_process=poisson"
    )


def think_time(bench: Bench) -> None:
    """1 ms of thinking after every I/O."""
    bench.lay_out()
    bench.fio(*READS, "--ioengine=libaio", "--iodepth=4", "--thinktime=1000")


def four_jobs_grouped(bench: Bench) -> None:
    """Four equal jobs as one entry."""
    bench.lay_out()
    bench.fio(*READS, "--ioengine=libaio", "--iodepth=4", "--numjobs=4", "--group_reporting")


def four_jobs_apart(bench: Bench) -> None:
    """Four equal jobs as four entries."""
    bench.lay_out()
    bench.fio(*READS, "--ioengine=libaio", "--iodepth=4", "--numjobs=4")


def with_ramp(bench: Bench) -> None:
    """A ramp of 2 s: what is in flight at its end counts for latencies and not for IOPS."""
    bench.lay_out()
    bench.fio(*READS, "--ioengine=libaio", "--iodepth=16", "--ramp_time=2")


def stonewalled_sections(bench: Bench) -> None:
    """Four sections one after the other."""
    bench.lay_out()
    bench.fio(
        *DISK, "--ioengine=libaio", "--iodepth=8", "--time_based", "--runtime=3", "--stonewall",
        "--name=read-4k", "--rw=randread", "--bs=4k",
        "--name=write-4k", "--stonewall", "--rw=randwrite", "--bs=4k",
        "--name=read-128k", "--stonewall", "--rw=read", "--bs=128k",
        "--name=write-128k", "--stonewall", "--rw=write", "--bs=128k",
    )  # fmt: skip


def sections_merged(bench: Bench) -> None:
    """Two sections at once that group_reporting folds into one entry; its depth is theirs added."""
    bench.lay_out()
    bench.fio(
        *DISK, *SHORT, "--ioengine=libaio", "--iodepth=8", "--group_reporting",
        "--name=readers", "--rw=randread", "--bs=4k",
        "--name=writers", "--rw=randwrite", "--bs=4k",
    )  # fmt: skip


def latency_target(bench: Bench) -> None:
    """fio's own search for the depth that keeps 90 % below 2 ms: the depth varies on purpose."""
    bench.lay_out()
    bench.fio(
        *READS, "--ioengine=libaio", "--iodepth=64", "--latency_target=2ms",
        "--latency_window=500ms", "--latency_percentile=90",
    )  # fmt: skip


def steady_state(bench: Bench) -> None:
    """fio's own steady state ends the job before its runtime."""
    bench.lay_out()
    bench.fio(
        "--name=job", *DISK, "--rw=randread", "--bs=4k", "--time_based", "--runtime=30",
        "--ioengine=libaio", "--iodepth=8", "--ss=iops_slope:10%", "--ss_dur=4", "--ss_ramp=1",
    )  # fmt: skip


def client_and_two_servers(bench: Bench) -> None:
    """Two fio servers and one client: `client_stats` and their sum."""
    job = bench.data / "job.fio"
    options = "".join(
        f"{option.removeprefix('--')}\n" for option in (*SHORT, "--rw=randread", "--bs=4k")
    )
    job.write_text(
        "[job]\nioengine=libaio\niodepth=8\ndirect=1\nsize=64M\nfilename_format=$clientuid.data\n"
        + options
    )
    ports = (8765, 8766)
    with fio_servers(ports, bench.data):
        bench.fio(*(word for port in ports for word in (f"--client=127.0.0.1,{port}", "job.fio")))


def fsync_every_write(bench: Bench) -> None:
    """A write-ahead log: fsync after every write, whose time is no write latency."""
    bench.fio("--name=job", *DISK, *SHORT, "--rw=write", "--bs=4k", "--ioengine=psync", "--fsync=1")


def buffered_writes_flushed(bench: Bench) -> None:
    """Writes through the page cache with a flush at the end, whose time is in the rate."""
    bench.fio(
        "--name=job", "--filename=data", "--size=256M", "--rw=write", "--bs=1M",
        "--ioengine=psync", "--end_fsync=1",
    )  # fmt: skip


def verified_writes(bench: Bench) -> None:
    """Writes that are read back and checked."""
    bench.fio(
        "--name=job", "--filename=data", "--size=64M", "--direct=1", "--rw=randwrite", "--bs=16k",
        "--ioengine=libaio", "--iodepth=8", "--verify=crc32c",
    )  # fmt: skip


def size_bound(bench: Bench) -> None:
    """Without time_based the size ends the job long before its runtime."""
    bench.lay_out()
    bench.fio(
        "--name=job", *DISK, "--rw=read", "--bs=256k", "--ioengine=libaio", "--iodepth=4",
        "--runtime=60",
    )  # fmt: skip


def fills_the_device(bench: Bench) -> None:
    """`fill_device` writes until there is no room, on purpose and without an error."""
    with small_filesystem("48m") as folder:
        bench.fio(
            "--name=job", "--filename=data", "--size=1G", "--fill_device=1", "--rw=write",
            "--bs=64k", "--ioengine=psync", "--fallocate=none", "--runtime=30", cwd=folder,
        )  # fmt: skip


def several_block_sizes(bench: Bench) -> None:
    """`bssplit`: no one block size to check bytes with."""
    bench.lay_out()
    bench.fio(
        "--name=job", *DISK, *SHORT, "--rw=randread", "--bssplit=4k/60:16k/30:64k/10",
        "--ioengine=libaio", "--iodepth=8",
    )  # fmt: skip


def mapped_memory(bench: Bench) -> None:
    """mmap of a file larger than what is touched: faults count in its latency in their own way."""
    bench.lay_out(size="1G")
    bench.fio(
        "--name=job", "--filename=data", "--size=1G", "--rw=randread", "--bs=4k",
        "--ioengine=mmap", "--io_size=64M", "--randrepeat=0",
    )  # fmt: skip


def two_documents(bench: Bench) -> None:
    """The outputs of two executions in one file."""
    bench.lay_out()
    for number, depth in enumerate((1, 8)):
        bench.fio(*READS, "--ioengine=libaio", f"--iodepth={depth}", output=f"{number}.json")
    parts = [bench.out / name for name in bench.audited]
    (bench.out / "fio.json").write_bytes(b"".join(one.read_bytes() for one in parts))
    for one in parts:
        one.unlink()
    bench.audited[:] = ["fio.json"]


def three_cells_run(bench: Bench) -> None:
    """A Leadline run of three cells, two trials each."""
    bench.leadline(
        "repeats: 2\nworkloads:\n"
        "  - {name: latency, pattern: randread, block_size: 4k, iodepth: 1, numjobs: 1,"
        " size: 128M, runtime: 11s, ramp: 1s}\n"
        "  - {name: mix, pattern: randrw, read_share: 70, block_size: 4k, iodepth: 16, numjobs: 1,"
        " size: 128M, runtime: 11s, ramp: 1s}\n"
        "  - {name: stream, pattern: read, block_size: 1M, iodepth: 4, numjobs: 1,"
        " size: 256M, runtime: 5s, ramp: 1s}\n"
    )


def buffered_passes(bench: Bench) -> None:
    """64 MiB are read through the page cache many times over; fio empties it before every pass, so
    that the disk delivers every byte (its sectors were counted: 13.3 of 13.1 million)."""
    bench.lay_out(size="64M")
    bench.fio(
        "--name=job", "--filename=data", "--size=64M", "--rw=read", "--bs=64k", *SHORT,
        "--ioengine=psync", "--direct=0",
    )  # fmt: skip


def buffered_cold_run(bench: Bench) -> None:
    """Reads through the page cache, which fio empties of the file before every pass over it: the
    disk answers them all, though the file is read several times."""
    bench.leadline(
        "repeats: 1\nworkloads:\n"
        "  - {name: buffered, pattern: randread, block_size: 4k, iodepth: 1, numjobs: 1,"
        " size: 64M, runtime: 4s, ramp: 0s, direct: false, engine: psync}\n",
        "--keep-caches",
    )


def laid_out_by_fio_run(bench: Bench) -> None:
    """A Leadline run without prefill on files, which fio itself writes before it reads them."""
    bench.leadline(
        "repeats: 1\nprefill: false\nworkloads:\n"
        "  - {name: reads, pattern: randread, block_size: 4k, iodepth: 4, numjobs: 1,"
        " size: 64M, runtime: 4s, ramp: 0s}\n"
    )


def filesystem_reads_run(bench: Bench) -> None:
    """A Leadline run of direct, buffered random and buffered sequential reads on ext4 on a loop
    device, the page cache emptied by fio before every pass."""
    with ext4_on_loop(bench.data, "256M") as folder:
        cells = "".join(
            f"  - {{name: {name}, pattern: {pattern}, block_size: {block}, iodepth: 1, numjobs: 1,"
            f" size: 64M, runtime: 4s, ramp: 0s, direct: {direct}, engine: psync}}\n"
            for name, pattern, block, direct in (
                ("direct", "randread", "4k", "true"),
                ("buffered", "randread", "4k", "false"),
                ("streamed", "read", "64k", "false"),
            )
        )
        bench.leadline(f"repeats: 1\nworkloads:\n{cells}", target=f"dir:{folder}")


def slow_deep_queue_run(bench: Bench) -> None:
    """A Leadline run of 64 I/Os of 1 MiB in flight under 24 MiB/s: the queue takes 2.7 s to fill
    and to drain."""
    with limits() as group:

        def later(runs: Path) -> None:
            until(lambda: any(runs.glob("*/prefill/*")))
            for direction in ("read_bps", "write_bps"):
                group.throttle(disk_of(bench.data), direction, 24 << 20)

        replace(bench, wrap=group.command).leadline(
            "repeats: 1\nworkloads:\n"
            "  - {name: deep, pattern: randread, block_size: 1M, iodepth: 64, numjobs: 1,"
            " size: 64M, runtime: 24s, ramp: 0s}\n",
            meanwhile=later,
        )


RUNS = (
    libaio_depth_1,
    libaio_depth_16,
    libaio_depth_32,
    io_uring_depth_1,
    io_uring_depth_16,
    io_uring_depth_32,
    psync_depth_1,
    psync_16_jobs,
    format_json,
    format_terse,
    format_text,
    format_all_in_one,
    with_logs,
    mixed_depth_32,
    mixed_unified,
    rate_limited,
    think_time,
    four_jobs_grouped,
    four_jobs_apart,
    with_ramp,
    stonewalled_sections,
    sections_merged,
    latency_target,
    steady_state,
    client_and_two_servers,
    fsync_every_write,
    buffered_writes_flushed,
    verified_writes,
    size_bound,
    fills_the_device,
    several_block_sizes,
    mapped_memory,
    two_documents,
    three_cells_run,
    buffered_passes,
    buffered_cold_run,
    laid_out_by_fio_run,
    filesystem_reads_run,
    slow_deep_queue_run,
)
