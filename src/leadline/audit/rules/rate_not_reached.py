"""rate-not-reached: an open loop with fewer completed than offered I/Os."""

from __future__ import annotations

from collections.abc import Iterator

from leadline import errors
from leadline.archive.records import TrialRecord
from leadline.audit.evidence import JobEvidence, TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import JobOptions
from leadline.metrics import Op
from leadline.plan.models import REACHED_SHARE, chance_iops
from leadline.plan.workload import Phase
from leadline.units import format_iops, parse_fio_size


def behind(record: TrialRecord) -> bool:
    """Return whether the runner ended the trial because it did not reach the offered load."""
    return record.problem is not None and record.problem.code == errors.RATE_NOT_REACHED.code


@rule("rate-not-reached", "An open loop with fewer completed than offered I/Os.", TrialEvidence)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    if trial.record is not None and behind(trial.record):
        yield _stopped(trial.record)
    elif trial.generated and trial.cell is not None:
        for phase in trial.cell.workload.phases:
            if phase.rate_iops is not None:
                yield from _of_phase(trial, phase, phase.rate_iops)
    else:
        for evidence in trial.jobs:
            yield from _of_entry(evidence)


def _stopped(record: TrialRecord) -> RuleFinding:
    """A level beyond the target's capacity is an answer without figures."""
    assert record.problem is not None
    return RuleFinding(
        severity=Severity.WARNING,
        evidence={"wall_s": record.wall_s},
        message=f"The trial was ended: {record.problem.fact}. The level is beyond the target's "
        "capacity.",
        remedy="Offer less. `leadline scale` shows the load that the target carries.",
    )


def _of_phase(trial: TrialEvidence, phase: Phase, rate_iops: float) -> Iterator[RuleFinding]:
    """Test a generated phase: the offered and the completed load of all clients."""
    mine = [entry for entry in trial.jobs if entry.job.name == phase.name]
    parts = [part for entry in mine for part in entry.parts]
    rates = [part.iops for part in parts if part.iops is not None]
    ran = [entry.longest_s for entry in mine if entry.longest_s]
    if not rates or len(rates) < len(parts) or not ran:
        return
    asked = trial.cell.workload.clients if trial.cell is not None else 0
    clients = max(1, asked or len({entry.job.host for entry in mine}))
    offered, done = clients * rate_iops, sum(rates)
    if not _short(offered, done, max(ran)):
        return
    yield RuleFinding(
        severity=Severity.ERROR,
        latency_only=True,
        evidence={
            "offered_iops": offered,
            "iops": done,
            "share": done / offered,
            "clients": clients,
        },
        message=f"{format_iops(offered)} IOPS were offered, {format_iops(done)} "
        f"({done / offered:.0%}) completed. The queue grew during the trial, so the latency "
        "depends on its length.",
        remedy="Offer less. The completed load is near the target's maximum at this depth.",
    )


def _of_entry(evidence: JobEvidence) -> Iterator[RuleFinding]:
    """Test an entry of a user's job: each process and direction has its own rate."""
    processes, ran = evidence.processes, evidence.longest_s
    if processes is None or not ran or evidence.merged_sections:
        return
    for part in evidence.parts:
        asked = _rate(evidence.job.options, part.op)
        if asked is None or part.iops is None or not _short(processes * asked, part.iops, ran):
            continue
        offered = processes * asked
        yield RuleFinding(
            severity=Severity.WARNING,
            latency_only=True,
            op=part.op,
            evidence={
                "offered_iops": offered,
                "iops": part.iops,
                "share": part.iops / offered,
                "processes": processes,
            },
            message=f"rate_iops requests {format_iops(offered)} IOPS of {part.op.value}s, "
            f"{format_iops(part.iops)} ({part.iops / offered:.0%}) completed. The queue was full: "
            "the latency is that of a closed loop.",
            remedy="Use the rate as the target's maximum at this depth. Request less for a latency "
            "at a rate.",
        )


def _short(offered: float, done: float, ran_s: float) -> bool:
    return done < REACHED_SHARE * offered and done < offered - chance_iops(offered, ran_s)


def _rate(options: JobOptions, op: Op) -> float | None:
    """Return fio's `rate_iops` of a direction: one number for both, or `reads,writes`."""
    parts = options.text("rate_iops").split(",")
    if op not in (Op.READ, Op.WRITE) or options.flag("rate") or not parts[0] + parts[-1]:
        return None
    try:
        rate = parse_fio_size(parts[0] if op is Op.READ else parts[min(1, len(parts) - 1)])
    except ValueError:
        return None
    return float(rate) if rate > 0 else None
