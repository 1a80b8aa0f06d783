"""Recompute the placement groups of the pools of a captured Ceph cluster, by CRUSH root."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.inventory.ceph.autoscaler import (
    Mode,
    PoolAdvice,
    PoolDemand,
    Reason,
    Rule,
    Settings,
    advise,
    compute_used,
    find_rule,
)
from leadline.inventory.ceph.model import AutoscaleWord, CephInventory, Osd, Pool

# The oldest release of Pacific whose source was compared.
_PACIFIC_CHECKED = (16, 2, 15)

Root = tuple[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RootPlacement:
    """Pools of one root and device class. `unknown` is the reason for an empty `advice`."""

    root: str
    device_class: str | None
    settings: Settings
    pools: tuple[Pool, ...]
    advice: tuple[PoolAdvice, ...]
    unknown: str | None

    @property
    def name(self) -> str:
        return f"{self.root}~{self.device_class}" if self.device_class else self.root

    @property
    def pg_replicas(self) -> int:
        """PGs times size of all pools."""
        return sum(pool.pg_num * pool.size for pool in self.pools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A pool whose number of the manager (`theirs`) differs from the computed one (`ours`)."""

    pool: str
    ours: int
    theirs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """All roots with pools, the assumptions, and the comparison with the manager's numbers."""

    rule: Rule
    roots: tuple[RootPlacement, ...]
    compared: int
    disagreements: tuple[Disagreement, ...]
    caveats: tuple[str, ...]


def compute_placement(inventory: CephInventory) -> Placement:
    """Recompute the autoscaler for a captured cluster."""
    rule = find_rule(inventory.version_number)
    gathered: dict[Root, list[Pool]] = {}
    homeless = []
    for pool in inventory.pools:
        if pool.rule is None or pool.rule.root is None:
            homeless.append(pool.name)
        else:
            gathered.setdefault((pool.rule.root, pool.rule.device_class), []).append(pool)
    osds = {root: _below(inventory.osds, root) for root in gathered}
    overlapping = _overlapping(osds)
    words = {word.pool_id: word for word in inventory.autoscale_words or ()}
    roots = tuple(
        _root(inventory, rule, root, pools, osds[root], root in overlapping, words)
        for root, pools in gathered.items()
    )
    caveats = _caveats(inventory, rule, homeless)
    compared, disagreements = _compared(roots, words)
    return Placement(
        rule=rule, roots=roots, compared=compared, disagreements=disagreements, caveats=caveats
    )


def _below(osds: Iterable[Osd], root: Root) -> tuple[Osd, ...]:
    """Return the OSDs below a root, of its class; also OSDs that are out or down."""
    name, device_class = root
    return tuple(
        osd
        for osd in osds
        if any(place.name == name for place in osd.location)
        and device_class in (None, osd.device_class)
    )


def _overlapping(osds: Mapping[Root, Sequence[Osd]]) -> frozenset[Root]:
    """Return roots that share OSDs with another: the autoscaler skips their pools."""
    ids = {root: {osd.id for osd in below} for root, below in osds.items()}
    return frozenset(
        root for root in ids if any(ids[root] & ids[other] for other in ids if other != root)
    )


def _root(
    inventory: CephInventory,
    rule: Rule,
    root: Root,
    pools: Sequence[Pool],
    osds: Sequence[Osd],
    overlaps: bool,
    words: Mapping[int, AutoscaleWord],
) -> RootPlacement:
    capacity = _capacity(pools, osds, words)
    settings = Settings(
        rule=rule,
        osds=len(osds),
        capacity_bytes=capacity or 0,
        target_pg_per_osd=inventory.autoscaler.target_pg_per_osd,
        threshold=inventory.autoscaler.threshold,
        no_autoscale=inventory.autoscaler.no_autoscale,
    )
    demands = [_demand(pool, inventory, words.get(pool.id)) for pool in pools]
    known = [demand for demand in demands if demand is not None]
    unknown = None
    if rule is Rule.UNKNOWN:
        unknown = f"the rule of Ceph {inventory.version or 'of unknown release'} is unknown"
    elif overlaps:
        unknown = "its OSDs also belong to another root with pools: the autoscaler skips both"
    elif capacity is None:
        unknown = "the sizes of OSDs were not captured (osd_df_tree.json)"
    elif capacity == 0 or not osds:
        unknown = "there are no OSDs below it, so these pools cannot store anything"
    elif len(known) < len(demands):
        unknown = "the stored bytes of pools were not captured (df_detail.json)"
    name, device_class = root
    return RootPlacement(
        root=name,
        device_class=device_class,
        settings=settings,
        pools=tuple(pools),
        advice=() if unknown else advise(known, settings),
        unknown=unknown,
    )


def _capacity(
    pools: Sequence[Pool], osds: Sequence[Osd], words: Mapping[int, AutoscaleWord]
) -> int | None:
    """Return the bytes of the OSDs; preferably the manager's number, as it is of one instant."""
    for pool in pools:
        if pool.id in words:
            return words[pool.id].capacity_bytes
    sizes = [osd.size_bytes for osd in osds]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _demand(pool: Pool, inventory: CephInventory, word: AutoscaleWord | None) -> PoolDemand | None:
    """Return None if the stored bytes of the pool are unknown."""
    if word is not None:
        used = word.raw_used_bytes
    elif pool.stored_bytes is not None and pool.used_bytes is not None:
        version = inventory.version_number
        used = compute_used(version, pool.stored_bytes, pool.used_bytes, pool.raw_rate)
    else:
        return None
    return PoolDemand(
        pool_id=pool.id,
        name=pool.name,
        size=pool.size,
        raw_rate=pool.raw_rate,
        pg_num=pool.pg_num_target,
        raw_used_bytes=used,
        target_ratio=pool.target_ratio,
        target_bytes=pool.target_bytes,
        bias=pool.bias,
        bulk=pool.bulk,
        pg_num_min=pool.pg_num_min,
        pg_num_max=pool.pg_num_max,
        mode=pool.autoscale_mode or Mode.OFF,
    )


def _compared(
    roots: Iterable[RootPlacement], words: Mapping[int, AutoscaleWord]
) -> tuple[int, tuple[Disagreement, ...]]:
    """Return the number of pools with a number of the manager, and those that differ."""
    pairs = [
        (advice, words[advice.pool.pool_id])
        for root in roots
        for advice in root.advice
        if advice.pool.pool_id in words
    ]
    return len(pairs), tuple(
        Disagreement(pool=advice.pool.name, ours=advice.final, theirs=word.final)
        for advice, word in pairs
        if advice.final != word.final
    )


def _caveats(inventory: CephInventory, rule: Rule, homeless: Sequence[str]) -> tuple[str, ...]:
    found = []
    version, settings = inventory.version_number, inventory.autoscaler
    if settings.target_told_by is None:
        found.append(
            "mon_target_pg_per_osd was not captured; Ceph's default is assumed: "
            f"{settings.target_pg_per_osd}"
        )
    if rule is Rule.WHAT_IS_LEFT and (16,) <= version < _PACIFIC_CHECKED:
        found.append(
            f"the rule was compared with 16.2.15; that of {inventory.version} may be older"
        )
    if homeless:
        found.append(f"the CRUSH rules of {', '.join(homeless)} are unknown")
    several = [pool.name for pool in inventory.pools if pool.rule and pool.rule.takes > 1]
    if several:
        found.append(
            f"{', '.join(several)}: the rule takes from several roots; the autoscaler uses only "
            "the first"
        )
    return tuple(found)


def format_advice(advice: PoolAdvice, settings: Settings) -> str:
    """Return the computation for one pool as a sentence with its numbers."""
    pool = advice.pool
    whole = settings.rule is Rule.WHOLE_BUDGET
    budget = f"{settings.osds} OSDs x {settings.target_pg_per_osd} = {settings.budget:,}"
    is_whole = whole or advice.budget == settings.budget
    available = budget if is_whole else f"{advice.budget:,.0f} left"
    bias = f" x bias {pool.bias:g}" if pool.bias != 1 else ""
    rounded = f"{advice.final}"
    if advice.final != advice.nearest:
        bound = "maximum" if advice.final < advice.nearest else "minimum"
        rounded = f"nearest power {advice.nearest}, {bound} {advice.final}"
    raw = f"{advice.raw:.4g}" if advice.raw < 1000 else f"{advice.raw:,.0f}"
    computed = f"/ size {pool.size}{bias} = {raw} -> {rounded}"
    return f"{_format_ratio(advice)} of {available}: {computed}; {_format_action(advice)}"


def _format_ratio(advice: PoolAdvice) -> str:
    pool = advice.pool
    share = f"{advice.ratio:.3g}"
    if advice.effective_target_ratio and advice.ratio == advice.effective_target_ratio:
        return f"target ratio {pool.target_ratio:g} (effective {share})"
    if pool.bulk:
        return f"bulk, {share}"
    return f"used or reserved {share}"


def _format_action(advice: PoolAdvice) -> str:
    has = advice.pool.pg_num
    match advice.reason:
        case Reason.AS_WANTED:
            return f"it has {has}"
        case Reason.WITHIN_THRESHOLD:
            return f"it keeps {has}, within a factor of {advice.threshold:g}"
        case Reason.MODE:
            return f"it keeps {has}: its mode is {advice.pool.mode.value}"
        case Reason.NO_AUTOSCALE:
            return f"it keeps {has}: noautoscale is set"
        case Reason.OVERCOMMITTED:
            return f"it keeps {has}: its ratio is above 1"
        case Reason.WOULD_CHANGE:
            return f"{has} would become {advice.final}"


def explain_uneven(root: RootPlacement) -> str | None:
    """Return why pools of equal target ratio and size have, or would get, different PGs.

    None: there are no such pools.
    """
    for first in root.advice:
        if not first.pool.target_ratio:
            continue
        for other in root.advice:
            alike = (first.pool.target_ratio, first.pool.size, first.pool.bias) == (
                other.pool.target_ratio,
                other.pool.size,
                other.pool.bias,
            )
            if other.pool.pool_id > first.pool.pool_id and alike and _differ(first, other):
                return _explain_pair(first, other, root.settings)
    return None


def _differ(first: PoolAdvice, other: PoolAdvice) -> bool:
    return (first.pool.pg_num, first.final) != (other.pool.pg_num, other.final)


def _explain_pair(first: PoolAdvice, other: PoolAdvice, settings: Settings) -> str:
    ratio = f"{first.pool.target_ratio:g}"
    one, two = first.pool.name, other.pool.name
    if settings.rule is Rule.WHOLE_BUDGET or first.final == other.final:
        return (
            f"{one} and {two} have the same target ratio ({ratio}) and computed PGs of "
            f"{first.final} and {other.final}; they keep {first.pool.pg_num} and "
            f"{other.pool.pg_num}: a pool is changed only above a factor of "
            f"{settings.threshold:g}"
        )
    return (
        f"{one} and {two} have the same target ratio ({ratio}), but computed PGs of "
        f"{first.final} and {other.final}: pools are served in the order of their ids, {one} "
        f"(id {first.pool.pool_id}) from a budget of {first.budget:,.0f} PG replicas and {two} "
        f"(id {other.pool.pool_id}) from the {other.budget:,.0f} that are left"
    )
