"""cache-served-reads: reads that memory answered in place of the storage."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import FILE_ENGINES, JobEvidence
from leadline.audit.rule import Doubt, Rule
from leadline.findings import Severity
from leadline.formats.output import Operation
from leadline.metrics import Op
from leadline.units import format_size

# Resident pages after the drop that may be ignored, as a share of what the trial reads.
RESIDENT = 0.01
# Buffered reads of more than the file: what exceeds it was read before, and may be in memory.
REREAD = 1.1
MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_DIRECT = "Use direct I/O (`direct: true`), or a span several times larger than memory."


def check(evidence: JobEvidence) -> Iterator[Doubt]:
    read = next((one for one in evidence.job.operations if one.op is Op.READ), None)
    record = evidence.trial.record
    if read is None or evidence.job.options.engine not in FILE_ENGINES:
        return
    extent = record.extent if record else None
    if extent is not None and extent.filesystem in MEMORY_FILESYSTEMS:
        yield Doubt(
            severity=Severity.WARNING,
            op=Op.READ,
            evidence={"span_bytes": extent.span_bytes},
            message=f"The target lies on {extent.filesystem}: what was measured is memory.",
            remedy="Point the target at the storage that you mean, if it is not memory.",
        )
    elif not evidence.job.options.direct:
        span = extent.span_bytes if extent and extent.span_bytes else _span(evidence)
        doubt = _warm_start(evidence, span) if record is not None else None
        if doubt is None and span:
            doubt = _reread(read, span)
        if doubt is not None:
            yield doubt


def _warm_start(evidence: JobEvidence, span: int | None) -> Doubt | None:
    """The data was in the page cache before the first read."""
    record, memory = evidence.trial.record, evidence.trial.memory_bytes
    drop = record.cache_drop if record else None
    resident = drop.resident_after_bytes if drop else None
    if resident is not None and span is not None and resident <= RESIDENT * span:
        return None
    held = span is None or memory is None or span <= memory
    # Without a drop that was read back, fio's own (`invalidate`, on by default) may have worked.
    maybe_cold = resident is None and evidence.job.options.text("invalidate", "1") != "0"
    numbers = {"span_bytes": span, "memory_bytes": memory, "resident_after_bytes": resident}
    known = f"{format_size(resident)} of it" if resident is not None else "nobody knows how much"
    return Doubt(
        severity=Severity.ERROR if held and not maybe_cold else Severity.WARNING,
        op=Op.READ,
        evidence={key: value for key, value in numbers.items() if value is not None},
        message="The reads went through the page cache"
        + (f", {format_size(span)} of data" if span else "")
        + f", and {known} was in memory when they began.",
        remedy=_DIRECT,
    )


def _reread(read: Operation, span: int) -> Doubt | None:
    """More was read than there is: the excess was in memory if memory can hold it."""
    if read.io_bytes <= REREAD * span:
        return None
    again = 1 - span / read.io_bytes
    latency = read.total
    numbers = {"read_bytes": read.io_bytes, "span_bytes": span, "reread_share": again}
    if latency and latency.histogram:
        numbers |= {
            "latency_p50_s": latency.histogram.quantile_s(0.5),
            "latency_mean_s": latency.mean_s,
        }
    return Doubt(
        severity=Severity.WARNING,
        op=Op.READ,
        evidence=numbers,
        message=f"{format_size(read.io_bytes)} were read through the page cache from "
        f"{format_size(span)}: at least {again:.0%} of it had been read before, so memory may "
        "have answered.",
        remedy=_DIRECT,
    )


def _span(evidence: JobEvidence) -> int | None:
    """Bytes that the entry's jobs lie on, by the options; jobs may share them."""
    size = evidence.job.options.size("size")
    return size * evidence.processes if size else None


RULE = Rule(
    code="cache-served-reads",
    summary="Reads were answered by memory instead of the storage.",
    looks_at=JobEvidence,
    check=check,
)
