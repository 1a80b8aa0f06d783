"""One execution of an engine with all its jobs, and what engines do to the page cache."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from leadline.formats.result import EngineOutput, JobOptions, JobResult
from leadline.metrics import Op

# Engines that use the kernel's files, and its page cache unless they use direct I/O.
KERNEL_SYNCHRONOUS = frozenset({"psync", "sync", "pvsync", "pvsync2", "vsync", "mmap", "splice"})
FILE_ENGINES = KERNEL_SYNCHRONOUS | {"libaio", "io_uring", "posixaio"}
# Engines that wait for each I/O: one in flight per job, for any iodepth.
SYNCHRONOUS_ENGINES = KERNEL_SYNCHRONOUS | {"libpmem", "dev-dax", "gfapi", "http", "libhdfs"}
# The kernel splits larger I/Os (BLK_DEF_MAX_SECTORS_CAP is 4 MiB in Linux 6.10, 1.25 MiB before).
LARGEST_DISK_IO = 4 << 20
# With less than this share of the reads at the disks, something else answered.
SPARED = 0.5
# fio reads the disks' counters four times a second; 30 to 160 ms before the end were measured.
UNSEEN_S = 0.25
_SEQUENTIAL = frozenset({"read", "rw", "readwrite"})


# Not slotted: every section of the execution uses the cached properties.
@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution of an engine: its sections ran together on the same disks."""

    output: EngineOutput

    @cached_property
    def entries(self) -> Counter[tuple[str, str, int]]:
        """Number of entries by name, client and group."""
        return Counter((job.name, job.host, job.group) for job in self.output.jobs)

    @cached_property
    def runtimes(self) -> dict[str, float]:
        """Seconds by name. Entries of one name are processes or clients of one job, which run
        together."""
        runtimes: dict[str, float] = {}
        for job in self.output.jobs:
            ran = max((operation.runtime_s or 0.0 for operation in job.operations), default=0.0)
            runtimes[job.name] = max(runtimes.get(job.name, 0.0), ran)
        return runtimes

    @cached_property
    def runtimes_sum_s(self) -> float:
        """Seconds that all would take one by one."""
        return sum(self.runtimes.values())

    @cached_property
    def elapsed_s(self) -> float:
        """Seconds from the first job's start to the last job's end; 0 if unknown."""
        return max((job.elapsed_s for job in self.output.jobs), default=0.0)

    @cached_property
    def concurrent(self) -> tuple[tuple[tuple[str, ...], float], ...]:
        """Names that may have run together, and the seconds that they would take one by one.

        They are those of one group, since `stonewall` begins a new group; all names if no group has
        two (`new_group` separates reports, not jobs)."""
        groups: dict[int, dict[str, None]] = {}
        for job in self.output.jobs:
            groups.setdefault(job.group, {})[job.name] = None
        several = [tuple(names) for names in groups.values() if len(names) > 1]
        return tuple(
            (names, sum(self.runtimes[name] for name in names))
            for names in several or [tuple(self.runtimes)]
        )

    @cached_property
    def disk_reads(self) -> tuple[int, int] | None:
        """Reads of the jobs, and reads of the disks below including merged ones, with ramps. None
        if the two need not agree, or a disk has no counters."""
        output = self.output
        # The head of an NVMe device with several paths counts nothing in older kernels.
        if not any(disk.read_ios or disk.write_ios for disk in output.disks):
            return None
        requested = 0
        for job in output.jobs:
            reads = [operation for operation in job.operations if operation.op is Op.READ]
            if not reads:
                continue
            if not _one_to_one(job) or any(operation.total_ios is None for operation in reads):
                return None
            requested += sum(operation.total_ios or 0 for operation in reads)
        # Members of an array or a mapping are listed as well: adding both is conservative.
        done = sum(disk.read_ios + disk.read_merges for disk in output.disks)
        return (requested, done) if requested else None

    @cached_property
    def disk_read_bytes(self) -> tuple[int, int] | None:
        """Bytes read by jobs in the page cache, and at most by the disks below, read-ahead
        included. None if the two need not agree, or a disk has no counters."""
        disks = self.output.disks
        if not any(disk.read_ios or disk.write_ios for disk in disks):
            return None
        requested = 0
        for job in self.output.jobs:
            reads = [operation for operation in job.operations if operation.op is Op.READ]
            if reads and (job.host or job.options.engine not in FILE_ENGINES):
                return None
            if any(operation.io_bytes is None for operation in reads):
                return None
            requested += sum(operation.io_bytes or 0 for operation in reads)
        done = sum(
            disk.read_ios * LARGEST_DISK_IO if disk.read_bytes is None else disk.read_bytes
            for disk in disks
        )
        return (requested, done) if requested else None


def _one_to_one(job: JobResult) -> bool:
    """Whether each uncached read of a job is a read of a disk of this machine: no read-ahead, no
    other engine or machine."""
    options = job.options
    if job.host or options.engine not in FILE_ENGINES:
        return False
    ahead = not options.direct and options.pattern in _SEQUENTIAL
    return knows_pattern(options) and not ahead


def knows_pattern(options: JobOptions) -> bool:
    """Whether the output says if the job reads, writes, in order or at random."""
    return options.whole or bool({"rw", "readwrite"} & options.raw.keys())
