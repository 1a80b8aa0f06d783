"""capped-by-budget: the rate of a cell is the budget of the plan's own guard."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import CellEvidence, TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.metrics import Op
from leadline.plan.guard_rules import budget_of
from leadline.plan.models import REACHED_SHARE
from leadline.plan.workload import Phase
from leadline.units import format_bandwidth, format_iops


@rule(
    "capped-by-budget",
    "The rate is the budget of the plan's guard: the target may do more.",
    CellEvidence,
)
def check(cell: CellEvidence) -> Iterator[RuleFinding]:
    for phase in cell.cell.workload.phases:
        budget_bps = budget_of(cell.guard, cell.cell.workload, phase)
        if budget_bps is None:
            continue
        shares = [_share(trial, phase, budget_bps) for trial in cell.sound]
        capped = [share for share in shares if share >= REACHED_SHARE]
        if not capped:
            continue
        iops = budget_bps / phase.block_size
        yield RuleFinding(
            severity=Severity.WARNING,
            evidence={"budget_iops": iops, "share": max(capped), "trials": len(capped)},
            message=f"The guard's budget of {format_iops(iops)} IOPS "
            f"({format_bandwidth(budget_bps)} MiB/s) was reached in {len(capped)} of "
            f"{len(shares)} trials. The target may do more; the latency is that of this load.",
            remedy="Compare the latency with that of the same load. Measure without a budget for "
            "the target's own rate.",
        )
        return


def _share(trial: TrialEvidence, phase: Phase, budget_bps: float) -> float:
    """The rate as a share of the budget, of the operation that is the closest to its part."""
    done = dict.fromkeys(phase.pattern.ops, 0.0)
    for job in trial.jobs:
        for part in job.parts:  # no operation is in two phases
            if part.op in done and part.iops is not None:
                done[part.op] += part.iops * phase.block_size
    parts = zip((Op.READ, Op.WRITE), phase.shares, strict=True)
    return max(done.get(op, 0.0) / (share * budget_bps) for op, share in parts if share)
