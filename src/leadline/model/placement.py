"""Placement groups on OSDs: what an OSD map adds to CRUSH, loads of OSDs, and what a change moves.

Pure functions of numbers: a PG is its number from 0, an OSD its id. CRUSH itself is Ceph's own
(`crushtool`). What an OSD map adds is computed as in src/osd/OSDMap.cc (_pg_to_up_acting_osds), so
that a changed CRUSH map can be placed that no OSD map fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_32_BITS = 0xFFFFFFFF
# CEPH_OSD_MAX_PRIMARY_AFFINITY (src/include/rados.h).
_WHOLE_AFFINITY = 0x10000

Osds = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPg:
    """The OSDs of a placement group in the map's order (None: a shard without an OSD), and its
    primary (None: no OSD at all)."""

    osds: Osds
    primary: int | None

    @property
    def copies(self) -> int:
        return sum(osd is not None for osd in self.osds)


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdState:
    """An OSD of the map: `weight` is the override (0: out), `affinity` that of primaries; both
    from 0 to 1."""

    up: bool = True
    weight: float = 1.0
    affinity: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceptions:
    """Exceptions of a pool by PG: `sets` replace all OSDs (pg_upmap), `swaps` are pairs of an OSD
    and its replacement (pg_upmap_items)."""

    sets: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    swaps: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShape:
    """How a pool is cut into PGs. `pgp_num` PGs are placed, the others where their parents are.
    `ordered`: erasure code, where every shard has its position. `hashed`: the flag hashpspool."""

    pool_id: int
    pg_num: int
    pgp_num: int
    ordered: bool
    hashed: bool = True

    def seed(self, pg: int) -> int:
        """Return the number that CRUSH gets for a PG (pg_pool_t::raw_pg_to_pps)."""
        placed = stable_mod(pg, self.pgp_num)
        return hash_pair(placed, self.pool_id) if self.hashed else placed + self.pool_id


def stable_mod(number: int, count: int) -> int:
    """Return the part of `count` that a number falls into: ceph_stable_mod (src/include/rados.h).
    More parts split parts, and move nothing between the others."""
    mask = (1 << (count - 1).bit_length()) - 1
    return number & mask if number & mask < count else number & (mask >> 1)


def hash_pair(a: int, b: int) -> int:
    """Return the hash of two numbers in 32 bits: crush_hash32_2 with Jenkins' mix of 1997
    (src/crush/hash.c)."""
    mixed = 1315423911 ^ a ^ b
    x, y = 231232, 1232
    a, b, mixed = _mix(a, b, mixed)
    x, a, mixed = _mix(x, a, mixed)
    b, y, mixed = _mix(b, y, mixed)
    return mixed


def hash_name(name: str) -> int:
    """Return the hash of an object's name in 32 bits: ceph_str_hash_rjenkins
    (src/common/ceph_hash.cc)."""
    key = name.encode()
    a = b = 0x9E3779B9
    c = 0
    whole = len(key) // 12 * 12
    for at in range(0, whole, 12):
        x, y, z = (int.from_bytes(key[at + part : at + part + 4], "little") for part in (0, 4, 8))
        a, b, c = _mix(a + x & _32_BITS, b + y & _32_BITS, c + z & _32_BITS)
    rest = key[whole:]
    x, y, z = (int.from_bytes(rest[part : part + 4], "little") for part in (0, 4, 8))
    # The lowest byte of the last word is that of the length.
    a, b, c = a + x & _32_BITS, b + y & _32_BITS, c + (z << 8) + len(key) & _32_BITS
    return _mix(a, b, c)[2]


def count_objects(names: Iterable[str], pg_num: int) -> Mapping[int, int]:
    """Count the objects of each placement group of a pool, by their names."""
    return Counter(stable_mod(hash_name(name), pg_num) for name in names)


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for first, second, third in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = (a - b - c & _32_BITS) ^ (c >> first)
        b = (b - c - a & _32_BITS) ^ (a << second & _32_BITS)
        c = (c - a - b & _32_BITS) ^ (b >> third)
    return a, b, c


def place(
    chosen: Mapping[int, Osds],
    pool: PoolShape,
    osds: Mapping[int, OsdState],
    exceptions: Exceptions,
) -> tuple[PlacedPg, ...]:
    """Return the PGs of a pool where they are once no recovery is left: their up sets.

    Args:
        chosen: what CRUSH chooses, by the number of the PG that is placed (below `pgp_num`).
        osds: every OSD of the map; others do not exist.
    Raises:
        KeyError: `chosen` lacks a PG.
    """
    return tuple(
        _place_pg(pg, chosen[stable_mod(pg, pool.pgp_num)], pool, osds, exceptions)
        for pg in range(pool.pg_num)
    )


def _place_pg(
    pg: int, chosen: Osds, pool: PoolShape, osds: Mapping[int, OsdState], exceptions: Exceptions
) -> PlacedPg:
    def is_out(osd: int) -> bool:
        return osd in osds and osds[osd].weight == 0

    members = list(chosen)
    instead = exceptions.sets.get(pg)
    refused = instead is not None and any(map(is_out, instead))
    if instead is not None and not refused:
        members = list(instead)
    # An exception for the whole set that is refused ends the search (OSDMap::_apply_upmap).
    for old, new in () if refused else exceptions.swaps.get(pg, ()):
        if old in members and new not in members and not is_out(new):
            members[members.index(old)] = new
    up = [osd if osd is not None and osd in osds and osds[osd].up else None for osd in members]
    if not pool.ordered:
        up = [osd for osd in up if osd is not None]
    first = _choose_primary(pool.seed(pg), up, osds)
    if first is None:
        return PlacedPg(osds=tuple(up), primary=None)
    primary = up[first]
    if not pool.ordered:
        up.insert(0, up.pop(first))
    return PlacedPg(osds=tuple(up), primary=primary)


def _choose_primary(
    seed: int, up: Sequence[int | None], osds: Mapping[int, OsdState]
) -> int | None:
    """Return the index of the primary by primary affinity (OSDMap::_apply_primary_affinity)."""
    first = None
    for index, osd in enumerate(up):
        if osd is None:
            continue
        affinity = int(osds[osd].affinity * _WHOLE_AFFINITY)
        if affinity >= _WHOLE_AFFINITY or hash_pair(seed, osd) >> 16 < affinity:
            return index
        first = index if first is None else first
    return first


# Loads.


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdLoad:
    """What an OSD has of a pool. `weight` is its share of the weight of all OSDs of the pool,
    `data` its share of all copies or shards, `primary_data` its share of the objects that it is
    the primary of: PGs differ in size where their number is no power of two."""

    osd: int
    weight: float
    pgs: int
    primaries: int
    data: float
    primary_data: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Imbalance:
    """A load over OSDs. `most_over_mean` bounds the rate of a pool whose OSDs are alike: the
    busiest OSD is full at 1 / `most_over_mean` of the rate of all. `most_over_fair` relates each
    load to the OSD's weight. Both are 1 where the load is even."""

    least: float
    mean: float
    most: float
    most_over_mean: float
    most_over_fair: float


def pg_shares(pg_num: int) -> tuple[float, ...]:
    """Return the share of the objects that is in each PG; all equal for a power of two."""
    slots = 1 << (pg_num - 1).bit_length() if pg_num else 0
    counts = [0] * pg_num
    for slot in range(slots):
        counts[stable_mod(slot, pg_num)] += 1
    return tuple(count / slots for count in counts)


def compute_loads(pgs: Sequence[PlacedPg], weights: Mapping[int, float]) -> tuple[OsdLoad, ...]:
    """Return the load of every OSD with a weight and of every other one with a PG, by id.

    `weights` are relative: CRUSH's weight times the override.
    """
    loads = {osd: [0, 0, 0.0, 0.0] for osd, weight in weights.items() if weight > 0}
    copies = 0.0
    for pg, share in zip(pgs, pg_shares(len(pgs)), strict=True):
        copies += share * pg.copies
        for osd in pg.osds:
            if osd is not None:
                load = loads.setdefault(osd, [0, 0, 0.0, 0.0])
                load[0] += 1
                load[2] += share
        if pg.primary is not None:
            loads[pg.primary][1] += 1
            loads[pg.primary][3] += share
    total = sum(weights.values())
    return tuple(
        OsdLoad(
            osd=osd,
            weight=weights.get(osd, 0.0) / total if total else 0.0,
            pgs=int(held),
            primaries=int(led),
            data=data / copies if copies else 0.0,
            primary_data=primary_data,
        )
        for osd, (held, led, data, primary_data) in sorted(loads.items())
    )


def compute_imbalance(
    loads: Mapping[int, float], weights: Mapping[int, float] | None = None
) -> Imbalance | None:
    """Return the imbalance of a load (PGs, primaries, shares) by OSD; None where there is none.

    OSDs without load count: they must be in `loads` with 0. `weights` are relative; without them
    all OSDs are alike. An OSD with load and no weight has no fair part, and is left out of
    `most_over_fair`.
    """
    total = sum(loads.values())
    if not total:
        return None
    mean, most = total / len(loads), max(loads.values())
    fair = dict.fromkeys(loads, 1.0) if weights is None else weights
    whole = sum(fair.get(osd, 0.0) for osd in loads)
    ratios = [
        load / total / (fair[osd] / whole) for osd, load in loads.items() if fair.get(osd, 0.0) > 0
    ]
    return Imbalance(
        least=min(loads.values()),
        mean=mean,
        most=most,
        most_over_mean=most / mean,
        most_over_fair=max(ratios, default=most / mean),
    )


# Changes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Shares from 0 to 1 that a change moves: `data` of all copies or shards get another OSD,
    `to_new` of them a new one; the rest moves between OSDs that were there. `primaries`: of the
    objects whose primary becomes another OSD."""

    data: float
    to_new: float
    primaries: float


def compute_movement(
    before: Sequence[PlacedPg],
    after: Sequence[PlacedPg],
    *,
    ordered: bool,
    new: Collection[int] = (),
) -> Movement:
    """Return what moves between two placements, which may differ in the number of PGs.

    A copy is moved to each OSD of a PG that did not hold one of it; a shard of erasure code
    (`ordered`) also to an OSD that held another shard.
    """
    moved = to_new = copies = led = slots = 0
    for old, now in _slots(before, after):
        slots += 1
        led += old.primary != now.primary
        for index, osd in enumerate(now.osds):
            if osd is None:
                continue
            copies += 1
            kept = osd in old.osds
            if ordered:
                kept = index < len(old.osds) and old.osds[index] == osd
            moved += not kept
            to_new += not kept and osd in new
    return Movement(
        data=moved / copies if copies else 0.0,
        to_new=to_new / copies if copies else 0.0,
        primaries=led / slots if slots else 0.0,
    )


def _slots(
    before: Sequence[PlacedPg], after: Sequence[PlacedPg]
) -> Iterator[tuple[PlacedPg, PlacedPg]]:
    """Yield equal parts of the objects by the PG that they are in, before and after."""
    most = max(len(before), len(after))
    for slot in range(1 << (most - 1).bit_length() if most else 0):
        yield before[stable_mod(slot, len(before))], after[stable_mod(slot, len(after))]
