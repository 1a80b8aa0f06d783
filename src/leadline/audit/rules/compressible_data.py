"""compressible-data: buffers that a compressing storage hardly has to store."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.rule import Doubt, Rule
from leadline.findings import Severity
from leadline.metrics import Op

# Ceph's own tools write one pattern and have no option for another.
_CEPH_TOOLS = ("rados-bench", "rbd-bench")


def check(evidence: JobEvidence) -> Iterator[Doubt]:
    written = next((one for one in evidence.job.operations if one.op is Op.WRITE), None)
    what = _what(evidence)
    if written is None or what is None:
        return
    yield Doubt(
        severity=Severity.WARNING,
        op=Op.WRITE,
        evidence={} if written.io_bytes is None else {"io_bytes": written.io_bytes},
        message=f"The buffers written were {what}: storage that compresses, deduplicates or "
        "detects zeros stores less than the figures say.",
        remedy="Use fio, whose buffers do not compress."
        if evidence.job.options.engine in _CEPH_TOOLS
        else "Write incompressible buffers (`refill_buffers=1`, no `zero_buffers`), as generated "
        "workloads do.",
    )


def _what(evidence: JobEvidence) -> str | None:
    options = evidence.job.options
    compressed = options.integer("buffer_compress_percentage", 0)
    alike = options.integer("dedupe_percentage", 0)
    if options.flag("zero_buffers"):
        return "all zeros (zero_buffers)"
    if options.text("buffer_pattern"):
        return "one repeated pattern (buffer_pattern)"
    if compressed > 0:
        return f"compressible by {compressed} % (buffer_compress_percentage)"
    if alike > 0:
        return f"to {alike} % duplicates (dedupe_percentage)"
    return None


RULE = Rule(
    code="compressible-data",
    summary="Zero, repeated or compressible buffers were written.",
    looks_at=JobEvidence,
    check=check,
)
