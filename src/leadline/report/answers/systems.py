"""JSON answers about systems: `inventory`, `plan`, `lab` and `pools`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leadline.inventory.ceph.distribution import Distribution, compute_distribution
from leadline.inventory.ceph.model import CephInventory, notes, unfit
from leadline.inventory.ceph.placement import (
    Disagreement,
    compute_placement,
    format_advice,
)
from leadline.inventory.diff import Differing
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.plan.volume_request import RunnerKind, VolumeMode
from leadline.planning.draft import PREFILL_BPS, Draft, LeftOut, Load, estimate_cost, sum_costs
from leadline.report.answers.base import Output
from leadline.report.answers.comparison import DifferenceOutput
from leadline.report.pages.comparison.explanations import effect_texts


class PoolPlacementOutput(Output):
    """The autoscaler's computation for one pool. `ratio` of `budget` (PG replicas) is its share;
    divided by size and times bias it is `raw`; `final` is the power of two that follows."""

    pool: str
    pool_id: int
    pg_num: int
    effective_target_ratio: float
    ratio: float
    budget: float
    raw: float
    final: int
    acts: bool
    reason: str
    explanation: str


class RootPlacementOutput(Output):
    """`unknown` is the reason why there is no computation, if any. `budget` is `osds` times
    `target_pg_per_osd`; `pg_replicas` is what pools have of it: PGs times size."""

    root: str
    device_class: str | None
    osds: int
    target_pg_per_osd: int
    budget: int
    pg_replicas: int
    capacity_bytes: int
    threshold: float
    pools: list[PoolPlacementOutput]
    unknown: str | None


class PlacementOutput(Output):
    """`compared` pools have an answer of the manager; in `disagreements` it has another `final`."""

    rule: str
    roots: list[RootPlacementOutput]
    compared: int
    disagreements: list[Disagreement]
    doubts: list[str]


class SpanOutput(Output):
    low: float
    mean: float
    high: float


class DistributionOutput(Output):
    """A bucket of the CRUSH tree with its OSDs; `place` are its names from the root down. `pgs` and
    `fill` (used shares) are over its OSDs; `variance` is Ceph's VAR. Null: unknown."""

    level: str
    place: list[str]
    osds: int
    weight: float | None
    pgs: SpanOutput | None
    fill: SpanOutput | None
    variance: float | None


class AgainstOutput(Output):
    """How the cluster differs from another, the `baseline`. `unknown` is what at least one of the
    two lacks."""

    baseline: str
    differences: list[DifferenceOutput]
    identical: list[str]
    unknown: list[str]


class InventoryOutput(Output):
    """`source`: the lab, configuration or folder. `unfit` is null where the cluster may be
    measured; `notes` may bend a measurement. `cluster` and `placement` are of Ceph, and null where
    there is none, `distribution` is empty; `kubernetes` is null where there is none; `against`
    where nothing was named."""

    schema_: Literal["leadline/inventory/1"] = Field(default="leadline/inventory/1", alias="schema")
    source: str
    unfit: str | None = None
    notes: list[str] = Field(default_factory=list)
    cluster: CephInventory | None = None
    placement: PlacementOutput | None = None
    distribution: list[DistributionOutput] = Field(default_factory=list)
    kubernetes: KubernetesInventory | None = None
    against: AgainstOutput | None = None


def inventory_output(inventory: CephInventory, source: str) -> InventoryOutput:
    reason = unfit(inventory)
    return InventoryOutput(
        source=source,
        unfit=reason.fact if reason else None,
        notes=notes(inventory),
        cluster=inventory,
        placement=_placement(inventory),
        distribution=[_distribution(bucket) for bucket in compute_distribution(inventory)],
    )


def kubernetes_output(inventory: KubernetesInventory, source: str) -> InventoryOutput:
    """Build the answer for a Kubernetes cluster; a Ceph inside it is in `cluster` alone."""
    alone = inventory.model_copy(update={"ceph": None})
    if inventory.ceph is None:
        return InventoryOutput(source=source, kubernetes=alone)
    return inventory_output(inventory.ceph, source).model_copy(update={"kubernetes": alone})


def _distribution(bucket: Distribution) -> DistributionOutput:
    spans = {
        name: SpanOutput.from_records(span) if span else None
        for name, span in (("pgs", bucket.pgs), ("fill", bucket.fill))
    }
    place = [place.name for place in bucket.location]
    return DistributionOutput.from_records(bucket, place=place, **spans)


def _placement(inventory: CephInventory) -> PlacementOutput:
    placement = compute_placement(inventory)
    roots = []
    for root in placement.roots:
        pools = [
            PoolPlacementOutput.from_records(
                advice,
                advice.pool,
                pool=advice.pool.name,
                explanation=format_advice(advice, root.settings),
            )
            for advice in root.advice
        ]
        roots.append(RootPlacementOutput.from_records(root, root.settings, pools=pools))
    return PlacementOutput.from_records(placement, roots=roots, doubts=placement.caveats)


def against_output(baseline: str, differing: Differing) -> AgainstOutput:
    differences = [
        DifferenceOutput.from_records(
            difference,
            explains=(
                *([difference.meaning] if difference.meaning else []),
                *effect_texts(difference),
            ),
        )
        for difference in differing.differences
    ]
    return AgainstOutput.from_records(differing, baseline=baseline, differences=differences)


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


class PlanOutput(Output):
    """`path` is null where no file was written; `plan` is its text either way. `claimed_bytes` are
    claimed at once. `notes` are sentences about what could not be seen."""

    schema_: Literal["leadline/plan/1"] = Field(default="leadline/plan/1", alias="schema")
    context: str
    path: str | None
    targets: list[PlannedTarget]
    left_out: list[LeftOut]
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
    costs = [estimate_cost(target, load) for target in draft.targets]
    whole = sum_costs(costs)
    targets = [
        PlannedTarget.from_records(
            target,
            cost,
            target=target.url,
            runner=RunnerKind.VM if target.vm else RunnerKind.POD,
            doubt=target.unproven or None,
        )
        for target, cost in zip(draft.targets, costs, strict=True)
    ]
    return PlanOutput.from_records(
        whole,
        draft,
        context=context,
        path=path,
        targets=targets,
        prefill_bps_assumed=PREFILL_BPS,
        claimed_volumes=whole.volumes,
        plan=text,
    )


class LabZoneOutput(Output):
    """A place with a network of its own: a zone, a rack of a single-zone lab, or the one zone of
    a lab of hosts."""

    name: str
    address: str
    namespace: str


class LabRoundTripOutput(Output):
    """What `received` pings took, in seconds."""

    source: str
    destination: str
    sent: int
    received: int
    min_s: float
    median_s: float
    max_s: float


class LabPoolOutput(Output):
    """`metadata_pool` is where images or files in this pool have their metadata, if elsewhere."""

    name: str
    metadata_pool: str | None


class LabProcessOutput(Output):
    """`pid` is null and `alive` false for one that has died; memory is resident."""

    name: str
    pid: int | None
    alive: bool
    memory_bytes: int


class LabStepOutput(Output):
    """A step of coming up, and when it was done, in seconds from the beginning."""

    name: str
    done_s: float


class LabCpuGroupOutput(Output):
    """The control group that bounds a host's OSDs. `throttled_share` is the share of its periods
    since the lab came up in which its quota was used up; null where unknown."""

    host: str
    folder: str
    throttled_share: float | None


class OneLabOutput(Output):
    """`condition` is `up`, `coming up`, `half up`, `half down`, `broken`, `damaged` or `orphan`.
    What is not known of a lab that is not whole is null or empty. `inter_zone_rtt_s` was asked
    for; it is in force where `zones` is not empty, and `round_trips` is what was measured.
    `cpu_per_host` are the cores that the OSDs of one host may use, null for all there are."""

    name: str
    folder: str
    condition: str
    created_at: str | None
    topology: str | None
    domains: int | None
    osds: int | None
    store: str | None
    osd_size_bytes: int | None
    authentication: bool | None
    encryption: bool | None
    inter_zone_rtt_s: float | None
    cpu_per_host: float | None
    cpu_groups: list[LabCpuGroupOutput]
    zones: list[LabZoneOutput]
    network_note: str
    round_trips: list[LabRoundTripOutput]
    pools: list[LabPoolOutput]
    cephfs: str | None
    cephfs_note: str
    conf: str | None
    keyring: str | None
    client_location: str | None
    health: str | None
    processes: list[LabProcessOutput]
    steps: list[LabStepOutput]


class LabOutput(Output):
    """`up` and `status` have one lab, `list` all; only `status` asks for `health`."""

    schema_: Literal["leadline/lab/1"] = Field(default="leadline/lab/1", alias="schema")
    labs: list[OneLabOutput]


class OnePoolOutput(Output):
    """`outcome` is `made`, `exists`, `exists, not made by Leadline`, `same as another`, `skipped`;
    of `remove` `removed`, `left`, `none`; with `--dry-run` `would make`, `would remove`. The rest
    is null where there is no such pool afterwards (with `--dry-run`: now). `type` is `replicated`
    or `erasure`; `size` is k + m of the latter. `storage_class` is the class by which Kubernetes
    makes volumes in it, `phase` what Rook says of it; both only with `--kube`."""

    name: str
    outcome: str
    reason: str
    type: str | None = None
    size: int | None = None
    min_size: int | None = None
    pg_num: int | None = None
    rule: str | None = None
    failure_domain: str | None = None
    device_class: str | None = None
    applications: list[str] | None = None
    filesystem: str | None = None
    made_by_leadline: bool | None = None
    storage_class: str | None = None
    phase: str | None = None


class PoolsOutput(Output):
    """`cluster` is how it was named; `notes` are sentences about it."""

    schema_: Literal["leadline/pools/1"] = Field(default="leadline/pools/1", alias="schema")
    action: Literal["create", "remove", "list"]
    cluster: str
    dry_run: bool
    pools: list[OnePoolOutput]
    notes: list[str]
