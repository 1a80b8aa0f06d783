"""Differences of the compared pools, and why they have the placement groups that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from leadline.inventory.ceph.autoscaler import Mode
from leadline.inventory.ceph.model import CephInventory, Osd, Pool
from leadline.inventory.ceph.placement import Placement, explained, placement_of
from leadline.inventory.diff.model import Collector, Topic, merged
from leadline.text import counted, listed, percent, visible
from leadline.units import format_size

# Ceph's default, which nobody has to be told of.
_USUAL_PLUGIN = "jerasure"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    subject: str
    base: Pool
    candidate: Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """What is compared of each pair. `label` names it where it is the same, and is empty where
    nobody would ask; `text` is None where the inventory does not tell."""

    key: str
    topic: Topic
    text: Callable[[Pool], str | None]
    label: str = ""
    meaning: str = ""


def compare_pools(
    found: Collector,
    base: CephInventory,
    candidate: CephInventory,
    pools: Mapping[str, tuple[str, str]],
) -> None:
    """A difference that all of several compared pools have is told once, as `pools.*.FACT`; any
    other as `pools.SUBJECT.FACT`."""
    pairs = []
    for subject, (ours, theirs) in pools.items():
        left, right = base.pool(ours), candidate.pool(theirs)
        if left is None or right is None:
            found.unknown.append(f"pool of {visible(subject)}, which an inventory lacks")
        else:
            pairs.append(_Pair(subject=subject, base=left, candidate=right))
    if not pairs:
        return
    for fact in _FACTS:
        _compare(found, pairs, fact, lambda _: "")
    placements = placement_of(base), placement_of(candidate)

    def why(pair: _Pair) -> str:
        return _reasons(placements[0], pair.base, placements[1], pair.candidate)

    _compare(found, pairs, _PG_NUM, why)


def _compare(
    found: Collector, pairs: Sequence[_Pair], fact: _Fact, why: Callable[[_Pair], str]
) -> None:
    each = Collector()
    for pair in pairs:
        ours, theirs = fact.text(pair.base), fact.text(pair.candidate)
        each.compare(
            f"pools.{visible(pair.subject)}.{fact.key}",
            fact.topic,
            ours,
            theirs,
            what=f"{fact.key} of {visible(pair.subject)}",
            same=ours,
            target=pair.subject,
            meaning=fact.meaning or (why(pair) if ours != theirs else ""),
        )
    found.unknown += each.unknown
    found.differences += merged(each.differences, len(pairs), f"pools.*.{fact.key}")
    if fact.label and len(each.identical) == len(pairs):
        values = set(each.identical)
        one = values.pop() if len(values) == 1 else f"of all {len(pairs)} pools"
        found.identical.append(f"{fact.label} {one}")


# --- facts ---------------------------------------------------------------------------------------


def _failure_domain(pool: Pool) -> str | None:
    domain = pool.rule.failure_domain if pool.rule else None
    return visible(domain) if domain else None


def _redundancy(pool: Pool) -> str:
    if pool.erasure:
        code = f"EC {pool.erasure.k}+{pool.erasure.m}"
        plugin = pool.erasure.plugin
        return code if plugin == _USUAL_PLUGIN else f"{code} ({visible(plugin)})"
    return counted(pool.size, "copy")


def _min_size(pool: Pool) -> str:
    return str(pool.min_size)


def _device_class(pool: Pool) -> str | None:
    if pool.rule is None or pool.rule.root is None:
        return None
    return visible(pool.rule.device_class) if pool.rule.device_class else "any"


def _compression(pool: Pool) -> str:
    return visible(pool.compression)


def _autoscale(pool: Pool) -> str | None:
    return pool.autoscale_mode.value if pool.autoscale_mode else None


def _ratio(pool: Pool) -> str:
    return f"{pool.target_ratio:g}" if pool.target_ratio else "none"


def _moving(pool: Pool) -> str:
    if (pool.pg_num, pool.pgp_num) == (pool.pg_num_target, pool.pg_num_target):
        return "settled"
    return f"on the way to {pool.pg_num_target}"


_FACTS = (
    _Fact(
        key="failure_domain",
        topic=Topic.TOPOLOGY,
        text=_failure_domain,
        label="failure domain",
        meaning="no two copies or shards lie in the same one of these",
    ),
    _Fact(
        key="redundancy",
        topic=Topic.REDUNDANCY,
        text=_redundancy,
        label="redundancy",
        meaning="durability and capacity overhead are not the same",
    ),
    _Fact(
        key="min_size",
        topic=Topic.REDUNDANCY,
        text=_min_size,
        label="min_size",
        meaning="how few copies still serve I/O; a write waits for all that are there anyway",
    ),
    _Fact(
        key="device_class",
        topic=Topic.MEDIA,
        text=_device_class,
        meaning="the class of OSDs that the pool's rule chooses from",
    ),
    _Fact(key="compression", topic=Topic.SETTINGS, text=_compression),
    _Fact(
        key="autoscale_mode",
        topic=Topic.PLACEMENT,
        text=_autoscale,
        meaning="it bears on I/O by way of pg_num only",
    ),
    _Fact(
        key="target_ratio",
        topic=Topic.PLACEMENT,
        text=_ratio,
        meaning="it bears on I/O by way of pg_num only",
    ),
    _Fact(
        key="pg_state",
        topic=Topic.PLACEMENT,
        text=_moving,
        meaning="while placement groups split or merge, data moves",
    ),
)
_PG_NUM = _Fact(
    key="pg_num", topic=Topic.PLACEMENT, text=lambda pool: str(pool.pg_num), label="PGs"
)


# --- why pg_num ----------------------------------------------------------------------------------


def _reasons(ours: Placement, base: Pool, theirs: Placement, candidate: Pool) -> str:
    """Why the two have the placement groups that they have, recomputed."""
    left, right = _why(ours, base), _why(theirs, candidate)
    return f"on both {left}" if left == right else f"baseline {left}; candidate {right}"


def _why(placement: Placement, pool: Pool) -> str:
    if pool.autoscale_mode in (None, Mode.OFF):
        return "set by hand, the autoscaler being off for the pool"
    for root in placement.roots:
        for advice in root.advice:
            if advice.pool.pool_id == pool.id:
                sentence = explained(advice, root.settings)
                later = advice.budget < root.settings.budget
                order = ", pools with smaller ids having taken their part" if later else ""
                return f"by the autoscaler: {sentence}{order}"
    return "by the autoscaler or by hand, which cannot be recomputed"


# Differences of what OSDs lie on.

# Partitions of one model of disk differ by a few blocks.
_SIZE_SHARE = 0.02


def compare_media(found: Collector, ours: tuple[Osd, ...], theirs: tuple[Osd, ...]) -> None:
    """Class, medium, store and size of the OSDs that serve the compared pools."""
    for key, what, read in (
        ("device_class", "device class", _media_device_class),
        ("medium", "medium, by the kernel:", _medium),
        ("store", "store", _store),
    ):
        texts = [_shares(read(osd) for osd in side) for side in (ours, theirs)]
        found.compare(f"media.{key}", Topic.MEDIA, texts[0], texts[1], what=what)
    sizes = [[osd.size_bytes for osd in side if osd.size_bytes] for side in (ours, theirs)]
    middles = [median(side) if side else None for side in sizes]
    found.compare(
        "media.osd_size",
        Topic.MEDIA,
        _sizes(sizes[0]),
        _sizes(sizes[1]),
        what="size of OSDs",
        same=None if middles[0] is None else f"OSDs of {format_size(middles[0])}",
        alike=lambda: _alike(sizes[0], sizes[1]),
    )


def _media_device_class(osd: Osd) -> str | None:
    return visible(osd.device_class) if osd.device_class else None


def _medium(osd: Osd) -> str | None:
    if osd.rotational is None:
        return None
    return "rotating" if osd.rotational else "solid state"


def _store(osd: Osd) -> str | None:
    return visible(osd.store) if osd.store else None


def _shares(kinds: Iterable[str | None]) -> str | None:
    """`ssd`, or `75 % hdd and 25 % ssd`; None where an OSD does not tell."""
    counts = Counter[Hashable](kinds)
    if not counts or None in counts:
        return None
    if len(counts) == 1:
        return str(next(iter(counts)))
    total = counts.total()
    return listed(f"{percent(count / total)} {kind}" for kind, count in counts.most_common())


def _sizes(sizes: list[int]) -> str | None:
    if not sizes:
        return None
    low, high = format_size(min(sizes)), format_size(max(sizes))
    return low if low == high else f"{low} to {high}"


def _alike(ours: list[int], theirs: list[int]) -> bool:
    return all(
        abs(left - right) <= _SIZE_SHARE * max(left, right)
        for left, right in ((min(ours), min(theirs)), (max(ours), max(theirs)))
    )
