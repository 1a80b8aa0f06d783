"""What `leadline inventory --format json` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from leadline.inventory.ceph import CephInventory
from leadline.inventory.differences import Differing
from leadline.inventory.fitness import notes, unfit
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.placement import RootPlacement, explained, placement_of


class _Output(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class PoolPlacementOutput(_Output):
    """The autoscaler's arithmetic for one pool. `ratio` of `budget` (PG replicas) is its share;
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


class RootPlacementOutput(_Output):
    """`unknown` says why there is no arithmetic, where there is none. `budget` is `osds` times
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


class DisagreementOutput(_Output):
    pool: str
    ours: int
    theirs: int


class PlacementOutput(_Output):
    """`compared` pools were also told by the manager; `disagreements` are those where it told
    another `final`."""

    rule: str
    roots: list[RootPlacementOutput]
    compared: int
    disagreements: list[DisagreementOutput]
    doubts: list[str]


class InventoryDifferenceOutput(_Output):
    """`path` is dotted; `target` is the pool or StorageClass that it concerns, or empty;
    `explains` are sentences on what the difference can account for."""

    path: str
    topic: str
    target: str
    baseline: str
    candidate: str
    explains: list[str]


class AgainstOutput(_Output):
    """How the cluster differs from another, the `baseline`. `unknown` is what at least one of the
    two does not tell."""

    baseline: str
    differences: list[InventoryDifferenceOutput]
    identical: list[str]
    unknown: list[str]


class InventoryOutput(_Output):
    """`source`: the lab, configuration or folder. `unfit` is null where the cluster may be
    measured; `notes` may bend a measurement. `cluster` and `placement` are of Ceph, and null where
    there is none; `kubernetes` is null where there is none; `against` where nothing was named."""

    schema_: Literal["leadline/inventory/1"] = Field(default="leadline/inventory/1", alias="schema")
    source: str
    unfit: str | None
    notes: list[str]
    cluster: CephInventory | None
    placement: PlacementOutput | None
    kubernetes: KubernetesInventory | None = None
    against: AgainstOutput | None = None


def inventory_output(inventory: CephInventory, source: str) -> InventoryOutput:
    reason = unfit(inventory)
    return InventoryOutput(
        source=source,
        unfit=reason.fact if reason else None,
        notes=list(notes(inventory)),
        cluster=inventory,
        placement=_placement(inventory),
    )


def kubernetes_output(inventory: KubernetesInventory, source: str) -> InventoryOutput:
    """Of a Ceph inside `cluster` holds what `inventory_output` would; it is not told twice."""
    ceph = inventory.ceph
    reason = unfit(ceph) if ceph else None
    return InventoryOutput(
        source=source,
        unfit=reason.fact if reason else None,
        notes=list(notes(ceph)) if ceph else [],
        cluster=ceph,
        placement=_placement(ceph) if ceph else None,
        kubernetes=inventory.model_copy(update={"ceph": None}),
    )


def _placement(inventory: CephInventory) -> PlacementOutput:
    placement = placement_of(inventory)
    return PlacementOutput(
        rule=placement.rule.value,
        roots=[_root(root) for root in placement.roots],
        compared=placement.compared,
        disagreements=[
            DisagreementOutput(pool=one.pool, ours=one.ours, theirs=one.theirs)
            for one in placement.disagreements
        ],
        doubts=list(placement.doubts),
    )


def against_output(baseline: str, differing: Differing) -> AgainstOutput:
    return AgainstOutput(
        baseline=baseline,
        differences=[
            InventoryDifferenceOutput(
                path=one.path,
                topic=one.topic.value,
                target=one.target,
                baseline=one.baseline,
                candidate=one.candidate,
                explains=[*([one.meaning] if one.meaning else []), *one.explains],
            )
            for one in differing.differences
        ],
        identical=list(differing.identical),
        unknown=list(differing.unknown),
    )


def _root(root: RootPlacement) -> RootPlacementOutput:
    settings = root.settings
    return RootPlacementOutput(
        root=root.root,
        device_class=root.device_class,
        osds=settings.osds,
        target_pg_per_osd=settings.target_pg_per_osd,
        budget=settings.budget,
        pg_replicas=root.pg_replicas,
        capacity_bytes=settings.capacity_bytes,
        threshold=settings.threshold,
        pools=[
            PoolPlacementOutput(
                pool=one.pool.name,
                pool_id=one.pool.pool_id,
                pg_num=one.pool.pg_num,
                effective_target_ratio=one.effective_target_ratio,
                ratio=one.ratio,
                budget=one.budget,
                raw=one.raw,
                final=one.final,
                acts=one.acts,
                reason=one.reason.value,
                explanation=explained(one, settings),
            )
            for one in root.advice
        ],
        unknown=root.unknown,
    )
