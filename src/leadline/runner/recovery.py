"""Runners that are lost in mid-run: they are made anew, and what they did is done again.

A pod that is evicted or drained takes its volume along. Targets bound how often they make new
runners; each lost attempt stays in the archive.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from leadline import errors
from leadline.archive.records import TrialRecord, TrialStatus
from leadline.errors import LeadlineError
from leadline.runner.events import Noted
from leadline.runner.prefill import prefill
from leadline.runner.prepared import PreparedTarget, RunRequest


def prefill_anew(request: RunRequest, target: PreparedTarget, *, before: str = "") -> None:
    """Prefill a target; on new runners where they were lost meanwhile. Raises LeadlineError as
    `prefill`."""
    for number in range(1, 100):  # `recover` bounds it earlier
        try:
            prefill(request, target, before=before if number == 1 else f"{before}again-{number}")
            return
        except LeadlineError as error:
            if not _recover(request, target, error.fact):
                raise


def run_again(
    request: RunRequest,
    target: PreparedTarget,
    first: TrialRecord,
    run_attempt: Callable[[int], TrialRecord],
) -> TrialRecord:
    """Repeat a trial that failed because its runners were lost, on new ones with new data.

    `run_attempt` runs the attempt of that number. Returns the last record.
    """
    record = first
    while record.status in (TrialStatus.FAILED, TrialStatus.HUNG):
        reason = record.problem.fact if record.problem else record.status.value
        try:
            if not _recover(request, target, reason):
                break
            attempt = record.attempt + 1
            prefill_anew(request, target, before=f"{record.trial}-{attempt}-")
            if request.plan.prefill and not request.stop.requested:
                target.adapter.settle(time.monotonic())
        except LeadlineError as error:
            if error.kind is errors.INTERRUPTED:
                raise
            request.observe(Noted(message=f"{target.name} stays lost: {error.fact}"))
            break
        if not request.admit(first.asked_s):
            break
        record = run_attempt(attempt)
    return record


def _recover(request: RunRequest, target: PreparedTarget, reason: str) -> bool:
    """Have lost runners made anew; return whether there are new ones."""
    if request.stop.requested:
        return False
    made = target.adapter.recover()
    if made:
        request.observe(Noted(message=f"{target.name}: {reason}; made anew: {made}"))
    return bool(made)
