"""stage-failed: volumes that did not get through a stage of their life."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.volume_lifecycle import LifecycleReport

_LONGEST = 300


@rule(
    "stage-failed",
    "Volumes did not get through a stage: the figures are of the others.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    report = trial.lifecycle
    if not isinstance(report, LifecycleReport):
        return
    for stage, failures in report.failures.items():
        passed, failed = len(report.stages.get(stage, ())), len(failures)
        yield RuleFinding(
            severity=Severity.ERROR,
            op=stage,
            evidence={"failed": failed, "passed": passed},
            message=f"{failed} of {failed + passed} volumes failed in the stage {stage.value}; "
            f"the first: {failures[0].reason[:_LONGEST]}.",
            remedy="Look at the controller that the message names. A figure without the volumes "
            "that failed is better than the storage.",
        )
