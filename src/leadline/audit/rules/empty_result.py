"""empty-result: a trial that was asked for and left no figures."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import Rule, RuleFinding
from leadline.findings import Severity
from leadline.formats.result import FormatError

_AGAIN = "Complete the run with `leadline run --resume`, and compare nothing with this cell before."

_SOURCE = "Get the result from its source again, or have the cell measured anew."


def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    if trial.output is None:
        yield RuleFinding(
            severity=Severity.ERROR,
            message="The plan lists this trial and the archive has nothing of it.",
            remedy=_AGAIN,
        )
        return
    if not trial.engine_ended:
        return  # engine-error and truncated-result tell why there is nothing
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
    done = {one.op for job in trial.output.jobs for one in job.operations}
    if not done and not any(job.error for job in trial.output.jobs) and not trial.cut_by_signal:
        yield RuleFinding(
            severity=Severity.ERROR,
            evidence={"total_ios": 0},
            message="The engine ended without an error and did no I/O at all.",
            remedy=_SOURCE
            if trial.imported
            else "Read the job as it was run (job.fio in the trial's folder): size, runtime and "
            "target must allow at least one I/O.",
        )
    elif trial.sound and trial.cell is not None:
        for op in trial.cell.workload.ops:
            if op not in done:
                yield RuleFinding(
                    severity=Severity.ERROR,
                    op=op,
                    evidence={"total_ios": 0},
                    message=f"The workload asks for {op.value}s and the result has none.",
                    remedy="Run longer, so that every phase and direction gets I/Os.",
                )


RULE = Rule(
    code="empty-result",
    summary="A trial that the plan lists is missing, or its result holds no I/O.",
    looks_at=TrialEvidence,
    check=check,
)
