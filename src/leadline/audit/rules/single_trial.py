"""single-trial: one trial has no run-to-run uncertainty."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import CellEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity


@rule("single-trial", "One trial only: no run-to-run uncertainty.", CellEvidence)
def check(evidence: CellEvidence) -> Iterator[RuleFinding]:
    if len(evidence.sound) == 1:
        planned = len(evidence.trials)
        yield RuleFinding(
            severity=Severity.INFO,
            evidence={"trials": 1, "planned": planned},
            message="The cell has one trial"
            + (f" of {planned} planned" if planned > 1 else "")
            + ". Its run-to-run uncertainty is unknown.",
            remedy="Repeat the cell. A 95 % interval of a median needs six trials.",
        )
