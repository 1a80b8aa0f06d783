"""empty-result: a planned trial without figures."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import FormatError

_AGAIN = "Complete the run with `leadline run --resume` before comparing this cell."

_SOURCE = "Get the result from its source again, or measure the cell again."


@rule(
    "empty-result",
    "A trial that the plan lists is missing, or its result holds no I/O.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    if trial.output is None:
        yield RuleFinding(
            severity=Severity.ERROR,
            message="The plan has this trial, the archive has no record of it.",
            remedy=_AGAIN,
        )
        return
    if not trial.engine_ended:
        return  # engine-error and truncated-result report the cause
    if isinstance(trial.output, FormatError):
        if trial.output.condition == "empty-result":
            yield RuleFinding(
                severity=Severity.ERROR,
                message=f"The trial left no result: {trial.output.fact}.",
                remedy=_SOURCE
                if trial.imported
                else "Read the trial's stderr.txt, then run the trial again.",
            )
        return
    done = {operation.op for job in trial.output.jobs for operation in job.operations}
    if not done and not any(job.error for job in trial.output.jobs) and not trial.cut_by_signal:
        yield RuleFinding(
            severity=Severity.ERROR,
            evidence={"total_ios": 0},
            message="The engine ended without an error and without I/O.",
            remedy=_SOURCE
            if trial.imported
            else "Check size, runtime and target of the job (job.fio in the trial's folder).",
        )
    elif trial.sound and trial.cell is not None:
        for op in trial.cell.workload.ops:
            if op not in done:
                yield RuleFinding(
                    severity=Severity.ERROR,
                    op=op,
                    evidence={"total_ios": 0},
                    message=f"The workload has {op.value}s, the result has none.",
                    remedy="Run longer, so that every phase and direction gets I/Os.",
                )
