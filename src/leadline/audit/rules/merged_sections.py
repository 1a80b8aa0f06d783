"""merged-sections: one entry with the I/O of several job sections."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.audit.rules.latency_inconsistent import exceeds_queue, is_whole
from leadline.findings import Severity
from leadline.metrics import Op


@rule("merged-sections", "One entry has the I/O of several job sections.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    reasons = _reasons(evidence)
    if not reasons:
        return
    ran, done = evidence.jobs_run, evidence.parts
    yield RuleFinding(
        severity=Severity.WARNING,
        evidence={
            "jobs_run": ran,
            "requested_jobs": evidence.processes,
            "in_flight": evidence.in_flight,
            "asked": evidence.requested_depth,
            "iops": sum(operation.iops or 0.0 for operation in done),
        },
        message=f"fio merged several job sections into this entry (group_reporting): "
        f"{'; '.join(reasons)}. The rates are sums of all sections, and the latencies mix them. "
        f"{_lost(evidence)}",
        remedy="Run the sections without group_reporting or with new_group, one result for each. "
        "Use the sums only if all sections did the same work.",
    )


def _reasons(evidence: JobEvidence) -> list[str]:
    if evidence.verifies and not evidence.renamed:
        return []  # fio reads back what it wrote
    reasons = []
    if evidence.renamed:
        last = evidence.job.options.text("name")
        reasons.append(
            f"the entry has the name of the section {evidence.job.name!r} and the options of "
            f"{last!r}"
        )
    # Reads under rw=write in the run time of one job are an edited file or another defect.
    if evidence.other_operations and evidence.more_jobs_run is not False:
        ops = " and ".join(sorted(f"{op.value}s" for op in evidence.other_operations))
        reasons.append(f"its options are rw={evidence.pattern}, and it has {ops}")
    if evidence.more_jobs_run and evidence.jobs_run is not None:
        reasons.append(
            f"its jobs ran for {evidence.job.job_runtime_s:.4g} s within {evidence.longest_s:.4g} "
            f"s, as {_count(evidence.jobs_run)} jobs do, not {evidence.processes}"
        )
    if not reasons and _fills_several_queues(evidence):
        times = round((evidence.in_flight or 0.0) / (evidence.requested_depth or 1))
        reasons.append(
            f"{evidence.in_flight:.4g} I/Os were in flight, {times} times the queue depth of "
            f"{evidence.requested_depth}, which {times} equal sections have"
        )
    return reasons


def _fills_several_queues(evidence: JobEvidence) -> bool:
    """Whether a whole number of queues was full, and nothing else counts the jobs (fio 2)."""
    if evidence.jobs_run is not None or not evidence.job.options.flag("group_reporting"):
        return False
    return not evidence.jobs_hidden and exceeds_queue(evidence) and is_whole(evidence)


def _count(jobs: float) -> str:
    return f"{jobs:.2g}" if abs(jobs - round(jobs)) > 0.05 else str(round(jobs))


def _lost(evidence: JobEvidence) -> str:
    reads_and_writes = {operation.op for operation in evidence.parts} >= {Op.READ, Op.WRITE}
    lost = "Block size, queue depth and rate of each section are lost"
    return f"{lost}, and which section read or wrote." if reads_and_writes else f"{lost}."
