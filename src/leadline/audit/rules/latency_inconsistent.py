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
    if not exceeds_queue(evidence):
        return
    reached, asked = evidence.in_flight or 0.0, evidence.requested_depth or 1
    # A whole number of full queues: jobs that the options do not show, or merged sections where
    # fio does not count the jobs.
    uncounted = evidence.jobs_run is None and evidence.job.options.flag("group_reporting")
    if (evidence.jobs_hidden or uncounted) and is_whole(evidence):
        return
    yield RuleFinding(
        severity=Severity.ERROR,
        evidence={
            "in_flight": reached,
            "asked": asked,
            "ratio": reached / asked,
            "iops": sum(operation.iops or 0.0 for operation in evidence.parts),
        },
        message=f"IOPS x mean latency gives {reached:.1f} I/Os in flight; only {asked} are "
        "possible. The IOPS or the latency are wrong.",
        remedy="Use neither. Check for other latency units, figures added over jobs or hosts, or "
        "an edited result.",
    )


def exceeds_queue(evidence: JobEvidence) -> bool:
    """Return whether more I/Os were in flight than the queue of a single load holds."""
    reached, asked = evidence.in_flight, evidence.requested_depth
    # mmap counts the time of page faults differently: 1.24 was measured.
    if reached is None or asked is None or evidence.job.options.engine == "mmap":
        return False
    if evidence.merged_sections or evidence.edges_matter:
        return False
    limit = (HIGHEST + evidence.carried_over) * (1 + evidence.in_flight_rounding)
    return reached / asked > limit


def is_whole(evidence: JobEvidence) -> bool:
    """Return whether a whole number of queues, two or more, was full."""
    ratio = (evidence.in_flight or 0.0) / (evidence.requested_depth or 1)
    whole = round(ratio)
    return 2 <= whole <= MOST_HIDDEN_JOBS and abs(ratio / whole - 1) <= WHOLE
