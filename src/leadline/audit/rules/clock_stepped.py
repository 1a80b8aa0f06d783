"""clock-stepped: the wall clock was set during the trial, or the machine was suspended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity

# NTP slews at most 0.5 ms/s and steps for more than 0.128 s; two readings are milliseconds apart.
LEAST_S = 1.0


@rule(
    "clock-stepped",
    "The wall clock was set during the trial, or the machine was suspended.",
    TrialEvidence,
)
def check(evidence: TrialEvidence) -> Iterator[RuleFinding]:
    record = evidence.record
    if record is None or evidence.imported:
        return
    try:
        began = datetime.fromisoformat(record.started_at)
        span_s = (datetime.fromisoformat(record.ended_at) - began).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return
    step_s = span_s - record.wall_s
    if abs(step_s) < LEAST_S:
        return
    way = "ahead" if step_s > 0 else "back"
    yield RuleFinding(
        severity=Severity.INFO,
        evidence={"wall_clock_s": span_s, "monotonic_s": record.wall_s, "step_s": step_s},
        message=f"The wall clock went {way} by {abs(step_s):.3g} s against the monotonic clock "
        "during the trial. Times of day are off; durations and figures are not.",
        remedy="Synchronise the clock before a run, and do not suspend the machine in one.",
    )
