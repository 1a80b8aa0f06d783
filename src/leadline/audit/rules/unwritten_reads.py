"""unwritten-reads: reading what was never written."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import CellEvidence
from leadline.audit.rule import Rule, RuleFinding
from leadline.findings import Severity
from leadline.metrics import Op
from leadline.units import format_size

# Filesystems allocate whole blocks and round up; 5 % less than was written means holes or
# compression.
ALLOCATED = 0.95


def check(evidence: CellEvidence) -> Iterator[RuleFinding]:
    unknown = 0
    for trial in evidence.sound:
        operations = [one for job in trial.jobs for one in job.job.operations]
        if trial.record is None or trial.imported:
            continue  # nobody knows what somebody else wrote before
        if not any(one.op is Op.READ for one in operations):
            continue
        extent = trial.record.extent
        if extent is None:
            unknown += 1
        elif extent.written_bytes < extent.span_bytes:
            if trial.generated and extent.filesystem:
                continue  # fio writes its files itself before it reads them
            yield RuleFinding(
                severity=Severity.ERROR,
                op=Op.READ,
                trial=trial.place.trial,
                evidence={
                    "written_bytes": extent.written_bytes,
                    "span_bytes": extent.span_bytes,
                },
                message=f"Reads were spread over {format_size(extent.span_bytes)} of which only "
                f"{format_size(extent.written_bytes)} are known to have been written; what was "
                "never written is answered without I/O.",
                remedy="Leave `prefill: true` in the plan, so that all is written first.",
            )
        elif (
            extent.allocated_bytes is not None
            and extent.allocated_bytes < ALLOCATED * extent.span_bytes
        ):
            yield RuleFinding(
                severity=Severity.WARNING,
                op=Op.READ,
                trial=trial.place.trial,
                evidence={
                    "allocated_bytes": extent.allocated_bytes,
                    "span_bytes": extent.span_bytes,
                },
                message=f"All of {format_size(extent.span_bytes)} was written and the filesystem "
                f"holds {format_size(extent.allocated_bytes)} of it: it compresses, deduplicates "
                "or left holes, so that reads move less than they seem to.",
                remedy="Say so beside the figures, or measure on a filesystem without compression.",
            )
    if unknown:
        yield RuleFinding(
            severity=Severity.INFO,
            op=Op.READ,
            evidence={"trials": unknown},
            message="Whether all that was read had been written before is not known: a user's own "
            "job file lays out its own files.",
            remedy="Use a generated workload, or make sure that the job file writes before it "
            "reads.",
        )


RULE = Rule(
    code="unwritten-reads",
    summary="Reads of storage that was never written are answered without I/O.",
    looks_at=CellEvidence,
    check=check,
)
