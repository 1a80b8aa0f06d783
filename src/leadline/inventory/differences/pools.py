"""Differences of the compared pools, and why they have the placement groups that they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leadline.inventory.autoscaler import Mode
from leadline.inventory.ceph import CephInventory, Pool
from leadline.inventory.differences.model import Collector, Topic, merged
from leadline.inventory.differences.words import counted
from leadline.inventory.placement import Placement, explained, placement_of
from leadline.visible import visible

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
