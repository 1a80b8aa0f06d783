"""PGs of the pools of an OSD map on its OSDs, as they are and after a change: the facts.

`osdmaptool MAP --dump json` prints an OSD map in the form of `ceph osd dump`, `crushtool --dump` a
CRUSH map in that of `ceph osd crush dump`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.autoscaler import PoolAdvice, advise
from leadline.inventory.ceph.crush_tree import Addition, CrushTree, NewOsd, read_crush_tree
from leadline.inventory.ceph.dumps import Node
from leadline.inventory.ceph.model import CephInventory, Pool, PoolType
from leadline.inventory.ceph.placement import RootPlacement, compute_placement
from leadline.inventory.ceph.topology import read_pools, read_rules
from leadline.model.placement import (
    Exceptions,
    Imbalance,
    Movement,
    OsdLoad,
    OsdState,
    PlacedPg,
    PoolShape,
    compute_imbalance,
    compute_loads,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdMap:
    """An OSD map. `exceptions` and `unhashed` (pools without the flag hashpspool) by pool id;
    `temporary` PGs are served by other OSDs than their up sets, while their data moves."""

    fsid: str
    epoch: int
    pools: tuple[Pool, ...]
    osds: Mapping[int, OsdState]
    tree: CrushTree
    exceptions: Mapping[int, Exceptions]
    unhashed: frozenset[int]
    temporary: int
    first_free_osd: int

    def choose(self, names: Sequence[str]) -> tuple[Pool, ...]:
        """Return the named pools, or all. Raises LeadlineError(`pool-missing`)."""
        known = {pool.name: pool for pool in self.pools}
        for name in names:
            if name not in known:
                raise LeadlineError(
                    errors.POOL_MISSING,
                    f"the map has no pool {name!r}",
                    context=[f"pools: {', '.join(known) or 'none'}"],
                    hint="name one of these with --pool, or leave it out for all",
                )
        return tuple(known[name] for name in dict.fromkeys(names)) if names else self.pools

    def shape(self, pool: Pool) -> PoolShape:
        return PoolShape(
            pool_id=pool.id,
            pg_num=pool.pg_num,
            pgp_num=pool.pgp_num,
            ordered=pool.type is PoolType.ERASURE,
            hashed=pool.id not in self.unhashed,
        )


def read_osd_map(osd_dump: Node, crush: Node) -> OsdMap:
    """Read an OSD map and its CRUSH map. Raises LeadlineError(`dumps-invalid`)."""
    osds = {
        node["osd"].count: OsdState(
            up=node["up"].flag,
            weight=node["weight"].number,
            affinity=node["primary_affinity"].number,
        )
        for node in osd_dump["osds"]
    }
    tree = read_crush_tree(crush)
    # CRUSH may name OSDs that are no longer in the map.
    osds = {osd: OsdState(up=False, weight=0.0) for osd in tree.hosts()} | osds
    sets: dict[int, dict[int, tuple[int, ...]]] = {}
    swaps: dict[int, dict[int, tuple[tuple[int, int], ...]]] = {}
    for node in osd_dump.get("pg_upmap") or ():
        pool, pg = _pg(node["pgid"])
        sets.setdefault(pool, {})[pg] = tuple(osd.integer for osd in node["osds"])
    for node in osd_dump.get("pg_upmap_items") or ():
        pool, pg = _pg(node["pgid"])
        swaps.setdefault(pool, {})[pg] = tuple(
            (pair["from"].integer, pair["to"].integer) for pair in node["mappings"]
        )
    return OsdMap(
        fsid=osd_dump["fsid"].text,
        epoch=osd_dump["epoch"].count,
        pools=read_pools(osd_dump, read_rules(crush, None), None),
        osds=osds,
        tree=tree,
        exceptions={
            pool: Exceptions(sets=sets.get(pool, {}), swaps=swaps.get(pool, {}))
            for pool in sorted(sets.keys() | swaps.keys())
        },
        unhashed=frozenset(
            node["pool"].count
            for node in osd_dump["pools"]
            if "hashpspool" not in node["flags_names"].text.split(",")
        ),
        temporary=len(list(osd_dump.get("pg_temp") or ())),
        first_free_osd=1 + max((osd_dump["max_osd"].count - 1, *osds, *tree.hosts(), -1)),
    )


def _pg(node: Node) -> tuple[int, int]:
    pool, _, number = node.text.partition(".")
    try:
        return int(pool), int(number, 16)
    except ValueError as error:
        raise node.wrong("the id of a placement group, such as 1.0") from error


class Unforecast(StrEnum):
    """Why the PGs of a pool after a change are unknown: what CRUSH and the exceptions of the map
    give for the map as it is differs from osdmaptool's answer."""

    NOT_REPRODUCED = "not-reproduced"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementState:
    """The PGs of a pool on its OSDs. `pgs` and `primaries` are imbalances of their numbers (None:
    no OSD has any); `incomplete` are the ids of PGs with fewer OSDs than the pool has copies or
    shards; `domains` the buckets of the failure domain with OSDs of the pool (None: unknown)."""

    pg_num: int
    osds: tuple[OsdLoad, ...]
    pgs: Imbalance | None
    primaries: Imbalance | None
    incomplete: tuple[str, ...]
    domains: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerChoice:
    """The number of PGs that the autoscaler computes for a pool: `manager`, its own answer; `rule`,
    the rule of the release recomputed; `after`, the rule after the addition. None: unknown.
    `acts`: it changes the pool now, `acts_after` after the addition."""

    manager: int | None
    rule: int | None
    after: int | None
    acts: bool
    acts_after: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlacement:
    """A pool as it is (`now`), and after the requested change (None: none is requested, or
    `unforecast` is the reason). `autoscaler` is None where it is unknown."""

    pool: Pool
    now: PlacementState
    after: PlacementState | None = None
    movement: Movement | None = None
    unforecast: Unforecast | None = None
    autoscaler: AutoscalerChoice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlacements:
    """The placement of pools, and the change: `addition` with its `new_osds`, `pg_num` of the one
    pool. `temporary` as in `OsdMap`; `hosts` by OSD, those of new OSDs too."""

    fsid: str
    epoch: int
    pools: tuple[PoolPlacement, ...]
    addition: Addition | None
    new_osds: tuple[NewOsd, ...]
    pg_num: int | None
    temporary: int
    hosts: Mapping[int, str]


def describe_state(
    pool: Pool, pgs: Sequence[PlacedPg], osds: Mapping[int, OsdState], tree: CrushTree
) -> PlacementState:
    """Return the facts about the PGs of a pool in a map with these OSDs and buckets."""
    rule = pool.rule
    top = tree.root(rule.root) if rule is not None and rule.root is not None else None
    crush = {} if top is None or rule is None else tree.osds(top, rule.device_class)
    weights = {
        osd: weight * osds[osd].weight
        for osd, weight in crush.items()
        if osd in osds and osds[osd].up
    }
    loads = compute_loads(pgs, weights)
    fair = {load.osd: load.weight for load in loads} if any(weights.values()) else None
    return PlacementState(
        pg_num=len(pgs),
        osds=loads,
        pgs=compute_imbalance({load.osd: load.pgs for load in loads}, fair),
        primaries=compute_imbalance({load.osd: load.primaries for load in loads}, fair),
        incomplete=tuple(
            f"{pool.id}.{number:x}" for number, pg in enumerate(pgs) if pg.copies < pool.size
        ),
        domains=_count_domains(pool, tree, {osd for osd, weight in weights.items() if weight > 0}),
    )


def _count_domains(pool: Pool, tree: CrushTree, osds: set[int]) -> int | None:
    rule = pool.rule
    top = tree.root(rule.root) if rule is not None and rule.root is not None else None
    if rule is None or rule.failure_domain is None or top is None:
        return None
    if rule.failure_domain == "osd":
        return len(osds)
    return sum(
        bucket.place.level == rule.failure_domain and not osds.isdisjoint(tree.osds(bucket))
        for bucket in tree.below(top)
    )


def choose_pg_nums(
    inventory: CephInventory, new_osds: Sequence[NewOsd] = ()
) -> dict[int, AutoscalerChoice]:
    """Return the autoscaler's choices of a live cluster by the id of the pool.

    After an addition, the capacity grows as the number of OSDs of each root and class.
    """
    words = {word.pool_id: word for word in inventory.autoscale_words or ()}
    found: dict[int, AutoscalerChoice] = {}
    for root in compute_placement(inventory).roots:
        after = _advise_after(inventory, root, new_osds)
        for pool in root.pools:
            word = words.get(pool.id)
            advice = next((item for item in root.advice if item.pool.pool_id == pool.id), None)
            if word is None and advice is None:
                continue
            later = after.get(pool.id)
            found[pool.id] = AutoscalerChoice(
                manager=word.final if word else None,
                rule=advice.final if advice else None,
                after=later.final if later else None,
                # The manager's `would_adjust` says that it wants to, also where its mode is off.
                acts=advice.acts if advice else False,
                acts_after=later.acts if later else None,
            )
    return found


def _advise_after(
    inventory: CephInventory, root: RootPlacement, new_osds: Sequence[NewOsd]
) -> dict[int, PoolAdvice]:
    inside = {
        place.name
        for osd in inventory.osds
        if any(place.name == root.root for place in osd.location)
        for place in osd.location
    }
    more = sum(
        osd.location[-1].name in inside and root.device_class in (None, osd.device_class)
        for osd in new_osds
    )
    settings = root.settings
    if not new_osds or not settings.osds:
        return {}
    osds = settings.osds + more
    grown = replace(
        settings, osds=osds, capacity_bytes=settings.capacity_bytes * osds // settings.osds
    )
    advice = advise((item.pool for item in root.advice), grown)
    return {item.pool.pool_id: item for item in advice}
