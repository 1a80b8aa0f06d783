"""compressible-data: buffers that compressing storage does not store completely."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.physics import compressing_layer
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.metrics import Op

# Identical buffers, which compress to nothing.
_ALIKE = ("all zeros", "one repeated")
# Ceph's own tools write a fixed pattern.
_CEPH_TOOLS = ("rados-bench", "rbd-bench")


@rule("compressible-data", "Zero, repeated or compressible buffers were written.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    written, what = evidence.operation(Op.WRITE), _what(evidence)
    if written is None or what is None:
        return
    dataset = compressing_layer(evidence.trial.stack)
    same = what.startswith(_ALIKE)
    means = (
        "Storage that compresses, deduplicates or detects zeros stores less than was written."
        if dataset is None
        else f"The dataset {dataset.name} compresses ({dataset.facts['compression']}) and stored "
        f"{'almost nothing' if same else 'less than was written'}."
    )
    yield RuleFinding(
        severity=Severity.WARNING if dataset is None or not same else Severity.ERROR,
        op=Op.WRITE,
        evidence={"io_bytes": written.io_bytes},
        message=f"The written buffers were {what}. {means}",
        remedy="Use fio, which writes incompressible buffers."
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
