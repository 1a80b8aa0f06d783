"""One execution of an engine as a whole: what ran beside what, and what the disks below did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from leadline.formats.output import EngineOutput, JobResult
from leadline.metrics import Op

# Engines that do their I/O through the kernel's files, hence through its page cache if not direct.
KERNEL_SYNCHRONOUS = frozenset({"psync", "sync", "pvsync", "pvsync2", "vsync", "mmap", "splice"})
FILE_ENGINES = KERNEL_SYNCHRONOUS | {"libaio", "io_uring", "posixaio"}
_SEQUENTIAL = frozenset({"read", "rw", "readwrite"})


# Not slotted, since every section of the execution asks for the same.
@dataclass(frozen=True, kw_only=True)
class Execution:
    output: EngineOutput

    @cached_property
    def entries(self) -> Counter[tuple[str, str, int]]:
        """How many entries there are of a name, client and group."""
        return Counter((job.name, job.host, job.group) for job in self.output.jobs)

    @cached_property
    def runtimes(self) -> dict[str, float]:
        """Seconds that each name ran. Entries of one name are processes or clients of one job,
        meant to run together."""
        runtimes: dict[str, float] = {}
        for job in self.output.jobs:
            ran = max((one.runtime_s or 0.0 for one in job.operations), default=0.0)
            runtimes[job.name] = max(runtimes.get(job.name, 0.0), ran)
        return runtimes

    @cached_property
    def elapsed_s(self) -> float:
        """Seconds from the first job's start to the last one's end; 0 where not told."""
        return max((job.elapsed_s for job in self.output.jobs), default=0.0)

    @cached_property
    def suspects(self) -> tuple[tuple[str, ...], ...]:
        """Names that can have run together: those of one group, since `stonewall` begins a new
        one; all of them where no group has two (`new_group` separates reports, not jobs)."""
        groups: dict[int, dict[str, None]] = {}
        for job in self.output.jobs:
            groups.setdefault(job.group, {})[job.name] = None
        several = tuple(tuple(names) for names in groups.values() if len(names) > 1)
        return several or (tuple(self.runtimes),)

    @cached_property
    def disk_reads(self) -> tuple[int, int] | None:
        """Reads that jobs did, and reads that the disks below did for them (merged ones counted),
        ramps included. None where the two need not agree, or a disk does not count."""
        output = self.output
        # The head of an NVMe device with several paths counts nothing in older kernels.
        if not any(disk.read_ios or disk.write_ios for disk in output.disks):
            return None
        asked = 0
        for job in output.jobs:
            reads = [one for one in job.operations if one.op is Op.READ]
            if not reads:
                continue
            if not _one_to_one(job) or any(one.total_ios is None for one in reads):
                return None
            asked += sum(one.total_ios or 0 for one in reads)
        # Members of an array or a mapping are listed beside it: adding both errs to the safe side.
        done = sum(disk.read_ios + disk.read_merges for disk in output.disks)
        return (asked, done) if asked else None


def _one_to_one(job: JobResult) -> bool:
    """Whether each read of a job, unless a cache answers it, is a read of a disk of this machine:
    not those that the kernel reads ahead for, nor those of other engines or machines."""
    options = job.options
    if job.host or options.engine not in FILE_ENGINES:
        return False
    told = options.whole or bool({"rw", "readwrite"} & options.raw.keys())
    ahead = not options.direct and options.pattern in _SEQUENTIAL
    return told and not ahead
