"""engine-error: the engine failed, hung, or left output that is not a result."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from leadline.archive.records import TrialRecord, TrialStatus
from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.audit.rules.rate_not_reached import behind
from leadline.audit.rules.unfamiliar_output import format_notes
from leadline.audit.rules.verify_failed import FAILED
from leadline.findings import Severity
from leadline.formats.result import FormatError, NoteKind


@rule(
    "engine-error", "The engine failed, hung, or left output that is not a result.", TrialEvidence
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    record, output = trial.record, trial.output
    if record is not None and not trial.engine_ended:
        # truncated-result and rate-not-reached report these.
        if record.status is not TrialStatus.INTERRUPTED and not behind(record):
            yield _ended_badly(record)
    elif isinstance(output, FormatError):
        if output.condition not in ("empty-result", "truncated-result"):
            yield RuleFinding(
                severity=Severity.ERROR,
                message=f"The engine's output is not a result: {output.fact}.",
                remedy="Get the file from its source again."
                if trial.imported
                else "Check the raw output in the trial's folder and the engine's version.",
            )
    elif output is not None:
        for job in output.jobs:
            if job.error and job.error != FAILED:  # verify-failed reports that
                yield RuleFinding(
                    severity=Severity.ERROR,
                    evidence={"error": job.error},
                    message=f"The job {job.name!r} ended with error {job.error} "
                    f"({_meaning(job.error)}). Its figures cover the I/Os before the error.",
                    remedy="Find the cause in the target's logs, and run the trial again.",
                )
        failed = [note for note in output.notes if note.kind is NoteKind.FAILED_OPERATIONS]
        if failed:
            yield RuleFinding(
                severity=Severity.ERROR,
                evidence={"notes": len(failed)},
                message=f"Operations failed: {format_notes(failed)}. The figures cover the others.",
                remedy="Find the cause in the target's logs, and run the trial again.",
            )


def _ended_badly(record: TrialRecord) -> RuleFinding:
    why = f": {record.problem.fact}" if record.problem else ""
    if record.status is TrialStatus.HUNG:
        signals = " and ".join(record.signals) or "no effective signal"
        message = (
            f"The trial hung. It was stopped after {record.wall_s:.1f} s with {signals}; its "
            f"limit was {record.bound_s:.1f} s{why}."
        )
    else:
        message = f"The trial failed after {record.wall_s:.1f} s{why}."
    hint = record.problem.hint if record.problem else None
    remedy = hint or "read the trial's stderr.txt, then `leadline run --resume --retry-failed`"
    return RuleFinding(
        severity=Severity.ERROR,
        evidence={
            "wall_s": record.wall_s,
            "bound_s": record.bound_s,
            "exit_status": record.exit_status,
        },
        message=message,
        remedy=f"{remedy[0].upper()}{remedy[1:]}.",
    )


def _meaning(number: int) -> str:
    return os.strerror(number) if number in errno.errorcode else "not an errno"
