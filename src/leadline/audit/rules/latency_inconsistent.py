"""latency-inconsistent: more I/Os in flight, by Little's law, than the queue depth."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity

# Real results end at 1.004 (99th percentile, methodology): an entry cannot exceed its queue.
HIGHEST = 1.05
# A ratio this near to a whole number means grouped jobs that the options do not show.
WHOLE = 0.02
MOST_HIDDEN_JOBS = 64


@rule(
    "latency-inconsistent",
    "IOPS x latency exceeds the queue depth, which is impossible.",
    JobEvidence,
)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    reached, asked = evidence.in_flight, evidence.requested_depth
    # mmap counts the time of page faults differently: 1.24 was measured.
    if reached is None or asked is None or evidence.job.options.engine == "mmap":
        return
    if evidence.merged_sections or evidence.edges_matter:
        return
    ratio = reached / asked
    if ratio <= (HIGHEST + evidence.carried_over) * (1 + evidence.in_flight_rounding):
        return
    if evidence.jobs_hidden and _whole(ratio):
        return
    yield RuleFinding(
        severity=Severity.ERROR,
        evidence={
            "in_flight": reached,
            "asked": asked,
            "ratio": ratio,
            "iops": sum(operation.iops or 0.0 for operation in evidence.parts),
        },
        message=f"IOPS x mean latency gives {reached:.1f} I/Os in flight; only {asked} are "
        "possible. The IOPS or the latency are wrong.",
        remedy="Use neither. Check for other latency units, figures added over jobs or hosts, or "
        "an edited result.",
    )


def _whole(ratio: float) -> bool:
    whole = round(ratio)
    return 2 <= whole <= MOST_HIDDEN_JOBS and abs(ratio / whole - 1) <= WHOLE
