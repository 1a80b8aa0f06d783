"""single-trial: one trial has no run-to-run uncertainty."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import CellEvidence, TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity


@rule("single-trial", "One trial only: no run-to-run uncertainty.", CellEvidence)
def check(evidence: CellEvidence) -> Iterator[RuleFinding]:
    # An imported mean over trials with its scatter is no single trial.
    if len(evidence.sound) == 1 and not _is_summary(evidence.sound[0]):
        planned = len(evidence.trials)
        yield RuleFinding(
            severity=Severity.INFO,
            evidence={"trials": 1, "planned": planned},
            message="The cell has one trial"
            + (f" of {planned} planned" if planned > 1 else "")
            + ". Its run-to-run uncertainty is unknown.",
            remedy="Repeat the cell. A 95 % interval of a median needs six trials.",
        )


def _is_summary(trial: TrialEvidence) -> bool:
    return any(operation.spreads for job in trial.jobs for operation in job.job.operations)
