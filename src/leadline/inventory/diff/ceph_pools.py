"""Differences of the compared Ceph pools, their placement groups and their media."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from statistics import median

from leadline.inventory.ceph.autoscaler import Mode
from leadline.inventory.ceph.model import CephInventory, Osd, Pool
from leadline.inventory.ceph.placement import Placement, compute_placement, format_advice
from leadline.inventory.diff.model import Collector, Fact, Topic, within
from leadline.text import counted, listed, percent
from leadline.units import format_size

# Ceph's default, which is not named.
_USUAL_PLUGIN = "jerasure"
# Partitions of one model of disk differ by a few blocks.
_SIZE_SHARE = 0.02


def compare_pools(
    found: Collector,
    base: CephInventory,
    candidate: CephInventory,
    pools: Mapping[str, tuple[str, str]],
) -> None:
    """Compare pools at `pools.SUBJECT.FACT`, or `pools.*.FACT` if all have the same difference."""
    pairs: dict[str, tuple[Pool, Pool]] = {}
    for subject, (first, second) in pools.items():
        left, right = base.pool(first), candidate.pool(second)
        if left is None or right is None:
            found.unknown.append(f"pool of {subject}, which an inventory lacks")
        else:
            pairs[subject] = left, right
    if not pairs:
        return
    placements = compute_placement(base), compute_placement(candidate)
    reasons = {
        subject: _explain_pg_num(placements, pair)
        for subject, pair in pairs.items()
        if pair[0].pg_num != pair[1].pg_num
    }
    for fact in _POOL:
        equal = found.compare_subjects(
            "pools",
            fact.key,
            fact.topic,
            {
                subject: (fact.text(left), fact.text(right))
                for subject, (left, right) in pairs.items()
            },
            subjects=len(pairs),
            meanings=reasons if fact.key == "pg_num" else fact.meaning,
        )
        found.label_subjects(fact.what, equal, len(pairs), "pools")


def _redundancy(pool: Pool) -> str:
    if pool.erasure:
        code = f"EC {pool.erasure.k}+{pool.erasure.m}"
        plugin = pool.erasure.plugin
        return code if plugin == _USUAL_PLUGIN else f"{code} ({plugin})"
    return counted(pool.size, "copy")


def _device_class(pool: Pool) -> str | None:
    if pool.rule is None or pool.rule.root is None:
        return None
    return pool.rule.device_class or "any"


def _pg_state(pool: Pool) -> str:
    if (pool.pg_num, pool.pgp_num) == (pool.pg_num_target, pool.pg_num_target):
        return "settled"
    return f"changing to {pool.pg_num_target}"


# `what` labels a fact that is the same; empty: no label.
_POOL: tuple[Fact[Pool], ...] = (
    Fact(
        "failure_domain",
        Topic.TOPOLOGY,
        lambda pool: (pool.rule.failure_domain if pool.rule else None) or None,
        what="failure domain",
        meaning="each copy or shard is in another one of these",
    ),
    Fact(
        "redundancy",
        Topic.REDUNDANCY,
        _redundancy,
        what="redundancy",
        meaning="durability and capacity overhead are not the same",
    ),
    Fact(
        "min_size",
        Topic.REDUNDANCY,
        lambda pool: str(pool.min_size),
        what="min_size",
        meaning="the minimum number of copies that still serve I/O; a write always waits for all "
        "available copies",
    ),
    Fact(
        "device_class",
        Topic.MEDIA,
        _device_class,
        meaning="the class of OSDs that the pool's rule chooses from",
    ),
    Fact("compression", Topic.SETTINGS, lambda pool: pool.compression),
    Fact(
        "autoscale_mode",
        Topic.PLACEMENT,
        lambda pool: pool.autoscale_mode.value if pool.autoscale_mode else None,
        meaning="it affects I/O only through pg_num",
    ),
    Fact(
        "target_ratio",
        Topic.PLACEMENT,
        lambda pool: f"{pool.target_ratio:g}" if pool.target_ratio else "none",
        meaning="it affects I/O only through pg_num",
    ),
    Fact(
        "pg_state",
        Topic.PLACEMENT,
        _pg_state,
        meaning="while placement groups split or merge, data moves",
    ),
    Fact("pg_num", Topic.PLACEMENT, lambda pool: str(pool.pg_num), what="PGs"),
)


def _explain_pg_num(placements: tuple[Placement, Placement], pools: tuple[Pool, Pool]) -> str:
    """Return why both pools have their numbers of placement groups, recomputed."""
    left, right = (
        _pg_num_reason(placement, pool) for placement, pool in zip(placements, pools, strict=True)
    )
    return f"on both {left}" if left == right else f"baseline {left}; candidate {right}"


def _pg_num_reason(placement: Placement, pool: Pool) -> str:
    if pool.autoscale_mode in (None, Mode.OFF):
        return "set by hand: the autoscaler is off for the pool"
    for root in placement.roots:
        for advice in root.advice:
            if advice.pool.pool_id == pool.id:
                later = advice.budget < root.settings.budget
                order = ", after the shares of pools with smaller ids" if later else ""
                return f"by the autoscaler: {format_advice(advice, root.settings)}{order}"
    return "by the autoscaler or by hand, which cannot be recomputed"


def compare_media(found: Collector, base: tuple[Osd, ...], candidate: tuple[Osd, ...]) -> None:
    """Compare class, medium, store and size of the OSDs that serve the compared pools."""
    found.compare_facts("media", base, candidate, _MEDIA)
    sizes = [[osd.size_bytes for osd in osds if osd.size_bytes] for osds in (base, candidate)]
    extremes: tuple[Callable[[list[int]], int], ...] = (min, max)
    found.compare(
        "media.osd_size",
        Topic.MEDIA,
        [*map(_format_range, sizes)],
        what="size of OSDs",
        same=f"OSDs of {format_size(median(sizes[0]))}" if sizes[0] else None,
        alike=all(sizes) and all(within(_SIZE_SHARE, extreme)(*sizes) for extreme in extremes),
    )


def _format_shares(kinds: Iterable[str | None]) -> str | None:
    """Return `ssd`, or `75 % hdd and 25 % ssd`; None if an OSD's kind is unknown."""
    counts = Counter(kinds)
    if not counts or None in counts:
        return None
    if len(counts) == 1:
        return next(iter(counts))
    total = counts.total()
    return listed(f"{percent(count / total)} {kind}" for kind, count in counts.most_common())


def _medium(osd: Osd) -> str | None:
    if osd.rotational is None:
        return None
    return "rotating" if osd.rotational else "solid state"


_MEDIA: tuple[Fact[tuple[Osd, ...]], ...] = (
    Fact(
        "device_class",
        Topic.MEDIA,
        lambda osds: _format_shares(osd.device_class or None for osd in osds),
        what="device class",
    ),
    Fact(
        "medium",
        Topic.MEDIA,
        lambda osds: _format_shares(map(_medium, osds)),
        what="medium, by the kernel:",
    ),
    Fact(
        "store",
        Topic.MEDIA,
        lambda osds: _format_shares(osd.store or None for osd in osds),
        what="store",
    ),
)


def _format_range(sizes: list[int]) -> str | None:
    if not sizes:
        return None
    low, high = format_size(min(sizes)), format_size(max(sizes))
    return low if low == high else f"{low} to {high}"
