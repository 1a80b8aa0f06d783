"""The JSON answer of `pools placement`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leadline.inventory.ceph.crush_tree import Addition, NewOsd
from leadline.inventory.ceph.pg_placement import (
    AutoscalerChoice,
    PlacementState,
    PoolPlacement,
    PoolPlacements,
    Unforecast,
)
from leadline.model.placement import Imbalance, Movement
from leadline.report.answers.base import Output
from leadline.report.pages.placement import placement_notes


class PlacedOsdOutput(Output):
    """What an OSD has of a pool, as shares from 0 to 1: `weight` of the weight of all OSDs of the
    pool, `data` of all copies or shards, `primary_data` of the objects. `host` is the bucket that
    the OSD is in."""

    osd: int
    host: str | None
    weight: float
    pgs: int
    primaries: int
    data: float
    primary_data: float


class PlacementStateOutput(Output):
    """`pgs` and `primaries` are imbalances of their numbers, null where no OSD has any.
    `incomplete` are ids of PGs with fewer OSDs than the pool has copies or shards; `domains` the
    buckets of the failure domain with OSDs of the pool, null where unknown."""

    pg_num: int
    pgs: Imbalance | None
    primaries: Imbalance | None
    incomplete: list[str]
    domains: int | None
    osds: list[PlacedOsdOutput]


class PlacedPoolOutput(Output):
    """`after` and `movement` are null where no change was requested, or `unforecast` is the
    reason; `autoscaler` where it is unknown."""

    pool: str
    pool_id: int
    type: str
    size: int
    rule: str | None
    root: str | None
    device_class: str | None
    failure_domain: str | None
    now: PlacementStateOutput
    after: PlacementStateOutput | None
    movement: Movement | None
    unforecast: Unforecast | None
    autoscaler: AutoscalerChoice | None


class PoolsPlacementOutput(Output):
    """`source` is how the map was named. `temporary` PGs are served by other OSDs than those shown
    while their data moves. `notes` are sentences."""

    schema_: Literal["leadline/pools-placement/1"] = Field(
        default="leadline/pools-placement/1", alias="schema"
    )
    source: str
    fsid: str
    epoch: int
    addition: Addition | None
    new_osds: list[NewOsd]
    pg_num: int | None
    temporary: int
    pools: list[PlacedPoolOutput]
    notes: list[str]


def pools_placement_output(placements: PoolPlacements, source: str) -> PoolsPlacementOutput:
    return PoolsPlacementOutput.from_records(
        placements,
        source=source,
        pools=[_pool(pool, placements) for pool in placements.pools],
        notes=placement_notes(placements),
    )


def _pool(placed: PoolPlacement, placements: PoolPlacements) -> PlacedPoolOutput:
    rule = placed.pool.rule
    return PlacedPoolOutput.from_records(
        placed,
        placed.pool,
        *([rule] if rule else []),
        pool=placed.pool.name,
        pool_id=placed.pool.id,
        type=placed.pool.type.value,
        rule=rule.name if rule else None,
        root=rule.root if rule else None,
        device_class=rule.device_class if rule else None,
        failure_domain=rule.failure_domain if rule else None,
        now=_state(placed.now, placements),
        after=_state(placed.after, placements) if placed.after else None,
    )


def _state(state: PlacementState, placements: PoolPlacements) -> PlacementStateOutput:
    osds = [
        PlacedOsdOutput.from_records(load, host=placements.hosts.get(load.osd))
        for load in state.osds
    ]
    return PlacementStateOutput.from_records(state, osds=osds)
