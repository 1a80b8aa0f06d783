"""not-steady: the rate drifted or jumped while it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from leadline.audit.evidence import JobEvidence
from leadline.audit.latencies import mean_s
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.fio.logs import Window
from leadline.formats.result import FormatError
from leadline.metrics import Op
from leadline.stats.series import ChangePoint, Steadiness, change_point, steadiness

# SNIA PTS, steady state: range within 20 % of the mean, drift of the fitted line within 10 %.
RANGE = 0.20
DRIFT = 0.10
# A round needs at least two seconds: one second of a shared machine is noise.
FEWEST_WINDOWS = 10
# A jump within the range of PTS is not reported.
JUMP = 0.20
# A latency above this share of a second changes the seconds in which the queue fills and drains.
LONG_LATENCY_S = 0.1
LONGEST_EDGE_S = 3600.0
# Windows within this factor of a second are seconds.
_A_SECOND = 1.05


@rule("not-steady", "The rate drifted or jumped while it was measured.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    windows = evidence.trial.windows
    if isinstance(windows, FormatError) or evidence.throttled or evidence.trial.drilled:
        return
    mine = [operation.op for operation in evidence.job.operations if operation.op in windows]
    owners = [operation.op for job in evidence.trial.jobs for operation in job.job.operations]
    # The archive's logs are by operation: two jobs with the same one cannot be separated.
    if not mine or any(owners.count(op) > 1 for op in mine):
        return
    # An unknown time is that of the log.
    ran = evidence.longest_s or 0.0
    length_s = window_length_s(windows, mine)
    several = evidence.job.options.numjobs != 1
    rates = rates_over_time(windows, mine, ran, length_s, several=several)
    edge = math.ceil(_edge_s(evidence) / max(1.0, length_s))
    rates = rates[edge : len(rates) - edge]
    if len(rates) < FEWEST_WINDOWS:
        return
    steady, jump = steadiness(rates), change_point(rates)
    jumped = jump is not None and abs(jump.after - jump.before) > JUMP * max(jump.before, 1e-9)
    if steady is None:
        return
    if jumped or steady.range_share > RANGE or steady.drift_share > DRIFT:
        op = mine[0] if len(mine) == 1 else Op.TOTAL
        yield _finding(steady, jump if jumped else None, op, max(1.0, length_s))


def _edge_s(evidence: JobEvidence) -> int:
    """Return the seconds at each end of a run in which its queue fills or drains, which take one
    latency each: no I/O completes in the first, and none is submitted in the last."""
    means = [mean_s(operation, evidence.job.options) or 0.0 for operation in evidence.parts]
    slowest = min(max(means, default=0.0), LONGEST_EDGE_S)
    return math.ceil(slowest) if slowest >= LONG_LATENCY_S else 0


def window_length_s(windows: Mapping[Op, tuple[Window, ...]], ops: list[Op]) -> float:
    """Return the usual time between two windows in seconds; 1 where there are fewer than two."""
    ends = sorted({window.end_s for op in ops for window in windows[op]})
    return float(np.median(np.diff(ends))) if len(ends) > 1 else 1.0


def rates_over_time(
    windows: Mapping[Op, tuple[Window, ...]],
    ops: list[Op],
    ran_s: float,
    length_s: float,
    *,
    several: bool,
) -> npt.NDArray[np.float64]:
    """Return the IOPS of each second, the operations added: they share the queue. Windows of
    `length_s` above a second are not divided.

    fio writes no line for a window without I/O: two or more missing ones in a row are a stall and
    count as zero. A single one is fio's rounding of window ends and is left out. The last window is
    often incomplete with `several` jobs and is left out then.
    """
    step_s, share = (length_s, 1.0) if length_s > _A_SECOND else (1.0, 1.0)
    if length_s < 1 / _A_SECOND:
        share = length_s
    sums: dict[int, float] = {}
    for op in ops:
        for window in windows[op]:
            # A window shorter than a second belongs to the second in which it ends.
            place = window.end_s / step_s
            number = round(place) if share == 1 else math.ceil(place - length_s / 2)
            sums[number] = sums.get(number, 0.0) + share * window.value
    last = max(int(ran_s / step_s) - 1, max(sums, default=0) - several)
    rates: list[float] = []
    silent = 0
    for number in range(1, last + 1):
        if number in sums:
            rates += [0.0] * (silent if silent > 1 else 0)
            rates.append(sums[number])
            silent = 0
        else:
            silent += 1
    rates += [0.0] * (silent if silent > 1 else 0)
    return np.asarray(rates, dtype=np.float64)


def _finding(steady: Steadiness, jump: ChangePoint | None, op: Op, length_s: float) -> RuleFinding:
    numbers = {"range_share": steady.range_share, "drift_share": steady.drift_share}
    numbers |= {f"round_{index}_iops": rate for index, rate in enumerate(steady.rounds, start=1)}
    if jump is not None:
        at_s = jump.index * length_s
        numbers |= {"jump_at_s": at_s, "before_iops": jump.before, "after_iops": jump.after}
        what = f"The rate jumped from {jump.before:,.0f} to {jump.after:,.0f} IOPS after "
        what += f"{at_s:g} s: used-up burst credits, a full cache, or throttling"
    else:
        what = f"Over five equal rounds the rate had a range of {steady.range_share:.0%} of its "
        what += f"mean (limit 20 %) and a drift of {steady.drift_share:.0%} (limit 10 %)"
    return RuleFinding(
        severity=Severity.WARNING,
        op=op,
        evidence=numbers,
        message=f"{what}. One mean does not describe this trial.",
        remedy="Run longer, with a ramp that covers the change. Check the rate over time.",
    )
