"""concurrent-jobs: separately reported jobs that ran at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity

# fio reports elapsed time in whole seconds, rounded up or down by version.
ELAPSED_STEP_S = 1.0
SHOWN = 6


@rule("concurrent-jobs", "Separately reported jobs ran at the same time.", TrialEvidence)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    whole, mine = trial.whole, {evidence.job.name for evidence in trial.jobs}
    if whole is None or not mine or not whole.elapsed_s:
        return
    elapsed = whole.elapsed_s
    if whole.runtimes_sum_s <= elapsed + ELAPSED_STEP_S:
        return
    for names, one_by_one in whole.concurrent:
        if len(names) < 2 or mine.isdisjoint(names):
            continue
        yield RuleFinding(
            severity=Severity.ERROR,
            evidence={"jobs": len(names), "runtimes_sum_s": one_by_one, "elapsed_s": elapsed},
            message=f"{len(names)} separately reported jobs ({_listed(names)}) ran for "
            f"{one_by_one:.0f} s in total within {elapsed:.0f} s, so they ran at the same time. No "
            "figure describes one job alone.",
            remedy="Add `stonewall` to every section of the job file, or use a workload for each "
            "job. For a mixed load use one section with rw=randrw.",
        )


def _listed(names: Sequence[str]) -> str:
    if len(names) <= SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[: SHOWN - 1])} and {len(names) - SHOWN + 1} more"
