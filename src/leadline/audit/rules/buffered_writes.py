"""buffered-writes: writes that ended in the page cache."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.execution import FILE_ENGINES, KERNEL_SYNCHRONOUS
from leadline.audit.latencies import median_s
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import JobOptions, Operation
from leadline.metrics import Op
from leadline.units import format_latency

# A write into the page cache takes 2 to 5 us and copies 1.6 to 6 GB/s for each job (measured on a
# busy machine); the fastest devices need 8 us behind it.
HIT_S, COPY_BPS = 8e-6, 1e9
# A device below the jobs that wrote less than this share: the rest stayed in memory.
REACHED = 0.5
_FLUSHES = ("fsync", "fdatasync", "sync_file_range", "fsync_on_close", "end_fsync")
_SYNCHRONOUS = ("sync", "rwf", "verify", "do_verify")


@rule("buffered-writes", "The page cache took the writes.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    write, options = evidence.operation(Op.WRITE), evidence.job.options
    if write is None or evidence.merged_sections or options.engine not in FILE_ENGINES:
        return
    if options.direct is not False or _waits_for_storage(options):
        return
    each_s, block = _seconds_each(evidence, write), evidence.block_size or 0
    limit_s = HIT_S + block / COPY_BPS
    copied = each_s is not None and each_s < limit_s
    share = _share_on_disk(evidence, write)
    kept = share is not None and share < REACHED
    fact = "The writes went into the page cache, and nothing waited for the storage"
    if copied and each_s is not None:
        fact += (
            f": half of them took at most {format_latency(each_s)}, the time of a copy in memory"
        )
    elif kept:
        fact += f": the disks below wrote {share:.0%} of the bytes"
    yield RuleFinding(
        severity=Severity.WARNING if copied or kept else Severity.INFO,
        op=Op.WRITE,
        evidence={"write_s": each_s, "copy_limit_s": limit_s, "disk_share": share},
        message=f"{fact}."
        + ("" if copied or kept else " The share of the storage in these figures is unknown."),
        remedy="Use direct I/O (`direct: true`), or fsync or sync where the application does.",
    )


def _waits_for_storage(options: JobOptions) -> bool:
    return any(options.flag(key) for key in _FLUSHES) or any(
        options.flag(key) and options.text(key) != "none" for key in _SYNCHRONOUS
    )


def _seconds_each(evidence: JobEvidence, write: Operation) -> float | None:
    """Return the median seconds of a write, or the mean of a job. A queue hides them in a latency:
    buffered writes of an asynchronous engine are done one after the other in the submission."""
    if evidence.job.options.engine in KERNEL_SYNCHRONOUS:
        half = median_s(write, evidence.job.options)
        if half is not None:
            return half
    alone = {operation.op for operation in evidence.parts} == {Op.WRITE}
    if not alone or not write.iops or not evidence.processes:
        return None
    return evidence.processes / write.iops


def _share_on_disk(evidence: JobEvidence, write: Operation) -> float | None:
    """Return the bytes that the disks below wrote, as a share of the job's; None if not counted,
    or if others wrote at the same time."""
    whole = evidence.trial.whole
    disks = whole.output.disks if whole is not None and len(whole.runtimes) == 1 else ()
    counted = [disk.write_bytes for disk in disks if disk.write_bytes is not None]
    if not counted or len(counted) < len(disks) or not write.io_bytes:
        return None
    return sum(counted) / write.io_bytes
