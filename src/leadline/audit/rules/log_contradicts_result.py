"""log-contradicts-result: a log whose mean rate is not the result's."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from leadline.audit.evidence import JobEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.fio.logs import Window
from leadline.formats.result import FormatError

# A log may lack its first and last window: 0.89 of the I/Os are in logs of 10 windows (measured).
TOLERANCE = 0.10
LOST_WINDOWS = 2
FEWEST_WINDOWS = 20


@rule("log-contradicts-result", "The mean of a log is not the rate of its result.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    windows = evidence.trial.windows
    if isinstance(windows, FormatError) or evidence.merged_sections:
        return
    owners = [operation.op for job in evidence.trial.jobs for operation in job.job.operations]
    for operation in evidence.parts:
        mine, ran = windows.get(operation.op, ()), operation.runtime_s
        step_s = _step_s(evidence, mine)
        if not operation.iops or not ran or not step_s or owners.count(operation.op) > 1:
            continue
        if len(mine) < FEWEST_WINDOWS:
            continue
        shares = [ios / (ran * operation.iops) for ios in _logged_ios(mine, step_s)]
        lost = LOST_WINDOWS * step_s / ran
        if any(1 - TOLERANCE - lost <= share <= 1 + TOLERANCE for share in shares):
            continue
        yield RuleFinding(
            severity=Severity.WARNING,
            op=operation.op,
            evidence={
                "log_iops": shares[0] * operation.iops,
                "iops": operation.iops,
                "windows": len(mine),
                "window_s": step_s,
            },
            message=f"The log has {len(mine):,} windows of {step_s:.3g} s and "
            f"{shares[0] * operation.iops:,.1f} IOPS over the run; the result has "
            f"{operation.iops:,.1f}. One of the two is wrong, or the log is of another run.",
            remedy="Use no rate over time. Use the rate of the result if its counts agree. fio "
            "3.12 writes such logs of slow disks; use a newer fio.",
        )


def _step_s(evidence: JobEvidence, windows: Sequence[Window]) -> float | None:
    """Return the seconds of a window; None if unknown. Imported logs have one-second windows."""
    if evidence.processes == 1 and len(windows) > 1:
        return statistics.median(
            later.end_s - earlier.end_s for earlier, later in pairwise(windows)
        )
    step_s = evidence.job.options.integer("log_avg_msec", 0) / 1000
    return step_s if step_s >= 1 else None


def _logged_ios(windows: Sequence[Window], step_s: float) -> tuple[float, float]:
    """Return the I/Os of a log: no I/O in missing windows, and the rate of a window up to the one
    before (fio divides by the time since the last window)."""
    before, gaps = 0.0, 0.0
    for window in windows:
        gaps += window.value * (window.end_s - before)
        before = window.end_s
    return sum(window.value for window in windows) * step_s, gaps
