"""What an imported run still says whose queue depths were ignored: what one I/O a job gives."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.archive.reader import Run
from leadline.findings import Finding, Severity
from leadline.formats.output import JobOptions
from leadline.plan.models import Recorded
from leadline.report.comparison.remaining import CODE, one_of_each_job
from leadline.report.wording import count_text


def remaining_sentence(run: Run, findings: Sequence[Finding]) -> list[str]:
    """On the trials that an error refuses for their queue depth alone, and that had one I/O of each
    job in flight by their own figures; nothing on runs of one's own, which are better repeated."""
    if not run.plan.imported:
        return []
    errors: dict[str, list[Finding]] = {}
    for one in findings:
        if one.severity is Severity.ERROR and one.trial:
            errors.setdefault(one.trial, []).append(one)
    jobs = {
        trial.id: _jobs(run.plan.cells[trial.cell].workload.recorded) for trial in run.plan.trials
    }
    alone = [
        trial
        for trial, found in errors.items()
        if {one.code for one in found} == {CODE}
        and all(one_of_each_job(one.evidence.get("in_flight"), jobs.get(trial)) for one in found)
    ]
    if not alone:
        return []
    text = (
        f"What remains: {len(alone):,} of {count_text(len(errors), 'trial')} with errors are "
        "refused for their queue depth alone and had one I/O of each job in flight by their own "
        "figures. Imported with an iodepth of 1, which is what ran, they stand for that."
    )
    return [text]


def _jobs(recorded: Recorded | None) -> int | None:
    return JobOptions(raw=recorded.options, whole=False).numjobs if recorded else None
