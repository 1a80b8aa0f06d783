"""stage-unsupported: stages that a StorageClass or its driver does not support."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.volume_lifecycle import LifecycleReport


@rule(
    "stage-unsupported",
    "The StorageClass or its driver does not support a stage, which has no figure.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    report = trial.lifecycle
    if not isinstance(report, LifecycleReport):
        return
    reasons: dict[str, list[str]] = {}
    for stage, reason in report.record.unsupported.items():
        reasons.setdefault(reason, []).append(stage.value)
    for reason, stages in reasons.items():
        yield RuleFinding(
            severity=Severity.INFO,
            evidence={"stages": len(stages)},
            message=f"No figure for {', '.join(stages)}: {reason}.",
            remedy="Nothing is wrong. Another class may support it.",
        )
