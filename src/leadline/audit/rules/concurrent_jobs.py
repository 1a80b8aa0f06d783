"""concurrent-jobs: jobs that are reported apart though they ran at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import Doubt, Rule
from leadline.findings import Severity

# fio gives the time elapsed in whole seconds, rounded up or down by version.
ELAPSED_STEP_S = 1.0


def check(trial: TrialEvidence) -> Iterator[Doubt]:
    # Entries of one name are processes of one job and meant to run together.
    runtimes: dict[str, float] = {}
    for evidence in trial.jobs:
        ran = max((one.runtime_s for one in evidence.job.operations), default=0.0)
        runtimes[evidence.job.name] = max(runtimes.get(evidence.job.name, 0.0), ran)
    elapsed = max((evidence.job.elapsed_s for evidence in trial.jobs), default=0.0)
    one_by_one = sum(runtimes.values())
    if len(runtimes) < 2 or not elapsed or one_by_one <= elapsed + ELAPSED_STEP_S:
        return
    names = ", ".join(runtimes)
    yield Doubt(
        severity=Severity.ERROR,
        evidence={
            "jobs": len(runtimes),
            "runtimes_sum_s": one_by_one,
            "elapsed_s": elapsed,
        },
        message=f"{len(runtimes)} jobs reported apart ({names}) ran for {one_by_one:.0f} s "
        f"together within {elapsed:.0f} s, so they ran at the same time: none of the figures is "
        "what the storage gives to one of them alone.",
        remedy="Put `stonewall` into every section of the job file, or give each job its own "
        "workload; for one mixed load use a single section with rw=randrw.",
    )


RULE = Rule(
    code="concurrent-jobs",
    summary="Jobs reported apart ran at the same time.",
    looks_at=TrialEvidence,
    check=check,
)
