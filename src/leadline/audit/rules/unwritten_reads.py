"""unwritten-reads: reads of blocks that were never written."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import CellEvidence, TrialEvidence
from leadline.audit.execution import SPARED, UNSEEN_S
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.metrics import Op
from leadline.units import format_size

# File systems allocate whole blocks and round up: 5 % less than was written means holes or
# compression.
ALLOCATED = 0.95


@rule("unwritten-reads", "Reads of unwritten storage need no I/O.", CellEvidence)
def check(evidence: CellEvidence) -> Iterator[RuleFinding]:
    unknown = 0
    for trial in evidence.sound:
        yield from _without_disk(trial)
        if trial.record is None or trial.imported:
            continue  # earlier writes of an imported run are unknown
        if trial.cell is not None and trial.cell.workload.own_data:
            continue  # the program wrote all that it reads
        reading = (job for job in trial.jobs if job.job.options.file_op is None)
        if not any(job.operation(Op.READ) for job in reading):
            continue
        extent = trial.extent
        if extent is None:
            unknown += 1
        elif extent.written_bytes < extent.span_bytes:
            if trial.generated and extent.filesystem:
                continue  # fio writes its files before it reads them
            yield RuleFinding(
                severity=Severity.ERROR,
                op=Op.READ,
                trial=trial.place.trial,
                evidence={"written_bytes": extent.written_bytes, "span_bytes": extent.span_bytes},
                message=f"Reads cover {format_size(extent.span_bytes)}, of which only "
                f"{format_size(extent.written_bytes)} were certainly written. Reads of unwritten "
                "blocks need no I/O.",
                remedy="Keep `prefill: true` in the plan, which writes the whole span first.",
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
                message=f"{format_size(extent.span_bytes)} were written and the file system holds "
                f"{format_size(extent.allocated_bytes)}. It compresses, deduplicates or has holes, "
                "so reads move fewer bytes.",
                remedy="State it next to the figures, or use a file system without compression.",
            )
    if unknown:
        yield RuleFinding(
            severity=Severity.INFO,
            op=Op.READ,
            evidence={"trials": unknown},
            message="It is unknown whether the whole span was written before: a user's job file "
            "lays out its own files.",
            remedy="Use a generated workload, or write the span in the job file first.",
        )


def _without_disk(trial: TrialEvidence) -> Iterator[RuleFinding]:
    """Test whether direct reads, which pass the page cache, reached no disk."""
    counted = trial.whole.disk_reads if trial.whole else None
    reading = [job for job in trial.jobs if job.operation(Op.READ)]
    if counted is None or not reading or not all(job.job.options.direct for job in reading):
        return
    requested, done = counted
    ran = max(job.longest_s or 0.0 for job in reading)
    seen = max(0.0, 1 - UNSEEN_S / ran) if ran else 1.0
    if done >= SPARED * requested * seen:
        return
    yield RuleFinding(
        severity=Severity.ERROR,
        op=Op.READ,
        trial=trial.place.trial,
        evidence={"reads": requested, "disk_reads": done, "disk_share": done / requested},
        message=f"The jobs did {requested:,} direct reads, the disks below {done:,} "
        f"({done / requested:.0%}). The file has holes: reads of unwritten blocks need no I/O. "
        "Or its file system does not support direct I/O.",
        remedy="Write the whole span before it is read.",
    )
