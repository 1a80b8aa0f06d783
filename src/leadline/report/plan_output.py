"""What `leadline plan --format json` prints: a contract with other programs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leadline.plan.volume_request import RunnerKind, VolumeMode
from leadline.planning.cost import PREFILL_BPS, Cost, cost_of, total
from leadline.planning.models import Draft, DraftTarget, Load
from leadline.report.output_model import Output


class PlannedTarget(Output):
    """`size_bytes` is of each of `count` volumes; `why` says why it is in the plan, `doubt`
    what nothing shows. Times are estimates; `prefill_s` rests on the assumed rate."""

    name: str
    target: str
    storage_class: str
    runner: RunnerKind
    vm: str | None
    mode: VolumeMode
    size_bytes: int
    count: int
    doubt: str | None
    why: str
    trials: int
    io_s: float
    prefill_bytes: int
    prefill_s: float
    set_up_s: float
    total_s: float
    claimed_bytes: int


class LeftOutOutput(Output):
    """A StorageClass, or a target of one, that is not in the plan."""

    name: str
    reason: str


class PlanOutput(Output):
    """`path` is null where no file was written; `plan` is its text either way. `claimed_bytes` are
    claimed at once. `notes` are sentences about what could not be seen."""

    schema_: Literal["leadline/plan/1"] = Field(default="leadline/plan/1", alias="schema")
    context: str
    path: str | None
    targets: list[PlannedTarget]
    left_out: list[LeftOutOutput]
    notes: list[str]
    trials: int
    io_s: float
    prefill_s: float
    set_up_s: float
    total_s: float
    prefill_bps_assumed: float
    claimed_bytes: int
    claimed_volumes: int
    plan: str


def plan_output(
    draft: Draft, load: Load, *, context: str, path: str | None, text: str
) -> PlanOutput:
    costs = [cost_of(one, load) for one in draft.targets]
    whole = total(costs)
    return PlanOutput(
        context=context,
        path=path,
        targets=[_target(*pair) for pair in zip(draft.targets, costs, strict=True)],
        left_out=[LeftOutOutput(name=one.name, reason=one.reason) for one in draft.left_out],
        notes=list(draft.notes),
        trials=whole.trials,
        io_s=whole.io_s,
        prefill_s=whole.prefill_s,
        set_up_s=whole.set_up_s,
        total_s=whole.total_s,
        prefill_bps_assumed=PREFILL_BPS,
        claimed_bytes=whole.claimed_bytes,
        claimed_volumes=whole.volumes,
        plan=text,
    )


def _target(target: DraftTarget, cost: Cost) -> PlannedTarget:
    return PlannedTarget(
        name=target.name,
        target=target.url,
        storage_class=target.storage_class,
        runner=RunnerKind.VM if target.vm else RunnerKind.POD,
        vm=target.vm,
        mode=target.mode,
        size_bytes=target.size_bytes,
        count=target.count,
        doubt=target.doubt or None,
        why=target.why,
        trials=cost.trials,
        io_s=cost.io_s,
        prefill_bytes=cost.prefill_bytes,
        prefill_s=cost.prefill_s,
        set_up_s=cost.set_up_s,
        total_s=cost.total_s,
        claimed_bytes=cost.claimed_bytes,
    )
