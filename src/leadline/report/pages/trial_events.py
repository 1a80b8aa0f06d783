"""Events of a trial on the axis of its strip: disturbances of the cluster, straggling clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from leadline.archive.reader import Run
from leadline.archive.trial import StoredTrial
from leadline.audit.rules.cluster_not_healthy import find_disturbances
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.formats.result import FormatError
from leadline.inventory.layer import Layer
from leadline.metrics import Op
from leadline.report.document import Strip, StripEvent

STRAGGLES = "client-straggles"


def stacks_of(run: Run) -> Mapping[str, Sequence[Layer]]:
    """Return the layers of each target; empty where they are unknown or unreadable."""
    try:
        return run.stacks
    except LeadlineError:
        return {}  # the section of the layers reports it


def straggling(findings: Iterable[Finding]) -> Mapping[str, str]:
    """Return the message about a straggling client by trial."""
    return {
        finding.trial: finding.message
        for finding in findings
        if finding.code == STRAGGLES and finding.trial
    }


def with_events(
    strip: Strip,
    trial: StoredTrial | None,
    op: Op | None,
    stack: Sequence[Layer],
    straggler: str = "",
) -> Strip:
    """Add the events of a trial to its strip.

    The watch of the cluster begins with the engine and samples every two seconds, so an event is
    about two seconds exact. Of an operation with several phases the seconds are unknown: it has no
    event of the cluster.
    """
    if trial is None:
        return strip
    begin_s = _phase_begin_s(trial, op)
    events = [] if begin_s is None else _cluster(strip, trial, begin_s, stack)
    if straggler:
        whole = StripEvent(begin_s=0.0, end_s=strip.end_s, kind="client", text=straggler)
        events.append(whole)
    return replace(strip, events=tuple(events))


def _cluster(
    strip: Strip, trial: StoredTrial, begin_s: float, stack: Sequence[Layer]
) -> list[StripEvent]:
    try:
        found = find_disturbances(trial.cluster, stack)
    except FormatError:
        return []  # the audit reports the unreadable record
    joined: list[tuple[float, float, dict[str, None]]] = []
    for one in found:
        first = max(one.begin_s - begin_s, 0.0)
        last = min(one.end_s - begin_s, strip.end_s)
        if last <= first:
            continue
        what = " ".join(filter(None, (one.name, one.detail)))
        if joined and first <= joined[-1][1]:
            before, until, names = joined.pop()
            joined.append((before, max(until, last), names | {what: None}))
        else:
            joined.append((first, last, {what: None}))
    return [
        StripEvent(
            begin_s=first,
            end_s=last,
            kind="cluster",
            text=f"trial {trial.record.trial}, about {first:.0f} to {last:.0f} s: "
            + "; ".join(names),
        )
        for first, last, names in joined
    ]


def _phase_begin_s(trial: StoredTrial, op: Op | None) -> float | None:
    """Return when the operation begins, in seconds since the engine did; None if unknown."""
    workload = trial.cell.workload if trial.cell else None
    if workload is None or not workload.phases:
        return 0.0
    doing = [at for at, phase in enumerate(workload.phases) if op in phase.pattern.ops]
    if len(doing) != 1:
        return None
    return doing[0] * (workload.ramp_s + workload.runtime_s) + workload.ramp_s
