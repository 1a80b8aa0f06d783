"""Pools of a Ceph cluster, and why each has its placement groups, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from leadline.inventory.ceph.autoscaler import Mode, PoolAdvice, Rule
from leadline.inventory.ceph.model import CephInventory, Pool
from leadline.inventory.ceph.placement import (
    Placement,
    RootPlacement,
    explain_uneven,
    format_advice,
)
from leadline.report.cells import (
    absent,
    count,
    facts_table,
    number,
    number_column,
    records_table,
    section,
    table,
    word,
)
from leadline.report.document import Block, Cell, Column, Gauge, Section
from leadline.report.words import NOT_SHOWN, count_text, listed
from leadline.units import format_size


def pools_section(inventory: CephInventory, placement: Placement) -> Section:
    """Pools with redundancy, failure domain, placement groups and stored data."""
    if not inventory.pools:
        return section("Pools", "pools", "There are none.")
    advice = {one.pool.pool_id: one for root in placement.roots for one in root.advice}

    def why(pool: Pool) -> Cell:
        found = advice.get(pool.id)
        return word(found.reason.value, _sentence(found, placement)) if found else absent()

    pools = records_table(
        "pools",
        inventory.pools,
        ("pool", lambda pool: pool.name),
        ("redundancy", _redundancy),
        (number_column("min", 3), lambda pool: count(pool.min_size)),
        ("failure domain", lambda pool: (pool.rule and pool.rule.failure_domain) or ""),
        (Column(title="root", rank=5), _root_name),
        (number_column("PGs"), _pgs),
        (Column(title="autoscaler", rank=1), why),
        (number_column("objects", 4), lambda pool: number(pool.objects, lambda n: f"{n:,.0f}")),
        (number_column("stored"), lambda pool: number(pool.stored_bytes, format_size)),
        (number_column("raw used", 2), lambda pool: number(pool.used_bytes, format_size)),
        ("for", _used_for),
    )
    stored = sum(pool.stored_bytes or 0 for pool in inventory.pools)
    used = sum(pool.used_bytes or 0 for pool in inventory.pools)
    result = f"{len(inventory.pools):,}, {format_size(stored)} stored in {format_size(used)} raw"
    return section("Pools", "pools", pools, result=result)


def _sentence(advice: PoolAdvice, placement: Placement) -> str:
    settings = next(root.settings for root in placement.roots if advice in root.advice)
    return format_advice(advice, settings)


def _redundancy(pool: Pool) -> Cell:
    """`3 copies`, `EC 2+1`, with a square for each copy or chunk."""
    if pool.erasure is None:
        text = "1 copy" if pool.size == 1 else f"{pool.size} copies"
        return Cell(text=text, sort=text, gauge=Gauge(boxes=(pool.size, 0)))
    chunks = (pool.erasure.k, pool.erasure.m)
    text = f"EC {chunks[0]}+{chunks[1]}"
    return Cell(text=text, sort=text, gauge=Gauge(boxes=chunks))


def _root_name(pool: Pool) -> str:
    rule = pool.rule
    if not rule or not rule.root:
        return ""
    return rule.root + (f"~{rule.device_class}" if rule.device_class else "")


def _pgs(pool: Pool) -> Cell:
    changes = f" to {pool.pg_num_target:,}" if pool.pg_num_target != pool.pg_num else ""
    return Cell(text=f"{pool.pg_num:,}{changes}", sort=float(pool.pg_num))


def _used_for(pool: Pool) -> str:
    if pool.cephfs_role:
        text = f"cephfs {pool.cephfs_role.value}"
    else:
        text = listed(pool.applications) or "no application"
    if not pool.overwrites:
        text += ", append only"
    if pool.compression != "none":
        text += f", {pool.compression} compression"
    return text


# --- the autoscaler's computation -----------------------------------------------------------------

_RULES = {
    Rule.WHOLE_BUDGET: "share of the whole budget (Nautilus to Octopus)",
    Rule.WHAT_IS_LEFT: "share of what is left, by id (Pacific to Tentacle)",
    Rule.EAGER_LARGE: "share of what is left, by id; 512 and more grow earlier (Tentacle 20.2.1)",
}


def placement_section(inventory: CephInventory, placement: Placement) -> Section:
    """Build the autoscaler's computation: a budget for each root, a row for each pool."""
    if not placement.roots:
        return section("Placement groups", "placement-groups", "There are no pools.")
    blocks: list[Block | str | None] = [
        table("pg-budget", _BUDGET, [_budget(root) for root in placement.roots]),
        *(block for root in placement.roots for block in _advice(root, inventory)),
        facts_table("pg-rules", _facts(inventory, placement)),
    ]
    reasons = Counter(one.reason.value for root in placement.roots for one in root.advice)
    pools = sum(reasons.values())
    result = ", ".join(f"{count:,} of {pools:,} {reason}" for reason, count in reasons.items())
    return section("Placement groups", "placement-groups", *blocks, result=result)


_BUDGET = (
    "root",
    number_column("OSDs"),
    number_column("x target PGs"),
    number_column("= budget"),
    number_column("PG replicas"),
    number_column("on an OSD"),
)


def _budget(root: RootPlacement) -> tuple[object, ...]:
    """The budget of placement group replicas of a root, and how many its pools have."""
    settings = root.settings
    osds = settings.osds
    each = number(root.pg_replicas / osds if osds else None, lambda n: f"{n:,.0f}")
    numbers = (osds, settings.target_pg_per_osd, settings.budget, root.pg_replicas)
    return (root.name, *map(count, numbers), each)


def _advice(root: RootPlacement, inventory: CephInventory) -> Iterator[Block | str | None]:
    if root.unknown:
        yield f"Root {root.name}: {root.unknown}."
        return
    modes = {pool.id: pool for pool in inventory.pools}
    yield records_table(
        f"advice-{root.name}",
        root.advice,
        ("pool", lambda advice: advice.pool.name),
        (number_column("ratio"), lambda advice: f"{advice.ratio:.4f}"),
        (number_column("x budget"), lambda advice: f"{advice.budget:,.0f}"),
        (number_column("/ size"), lambda advice: count(advice.pool.size)),
        (number_column("x bias", 3), lambda advice: f"{advice.pool.bias:g}"),
        (
            number_column("= raw"),
            lambda advice: f"{advice.raw:,.{1 if advice.raw < 1000 else 0}f}",
        ),
        (number_column("pg_num"), lambda advice: count(advice.final)),
        (number_column("has"), lambda advice: count(advice.pool.pg_num)),
        ("outcome", lambda advice: word(advice.reason.value, format_advice(advice, root.settings))),
        (Column(title="autoscale", rank=2), lambda advice: _autoscale(modes[advice.pool.pool_id])),
    )
    reason = explain_uneven(root)
    yield f"{reason}." if reason else None


def _autoscale(pool: Pool) -> str:
    text = pool.autoscale_mode.value if pool.autoscale_mode else NOT_SHOWN
    if pool.target_ratio:
        text += f", ratio {pool.target_ratio:g}"
    elif pool.target_bytes:
        text += f", {format_size(pool.target_bytes)}"
    if pool.bias != 1.0:
        text += f", bias {pool.bias:g}"
    return text + (", bulk" if pool.bulk else "")


def _facts(inventory: CephInventory, placement: Placement) -> Iterator[tuple[str, str]]:
    """Yield the rule, the state of the autoscaler, and what Ceph's manager computed."""
    if placement.rule in _RULES:
        bulk = any(pool.bulk for pool in inventory.pools)
        yield "rule", _RULES[placement.rule] + ("; bulk pools last" if bulk else "")
    if inventory.autoscaler.no_autoscale:
        yield "autoscaler", "noautoscale is set: it changes no pool"
    elif all(pool.autoscale_mode is Mode.OFF for pool in inventory.pools):
        yield "autoscaler", "off for every pool: the result if it were on"
    if placement.compared and not placement.disagreements:
        pools = count_text(placement.compared, "pool")
        yield "ceph osd pool autoscale-status", f"the same pg_num for all {pools}"
    elif placement.compared:
        pools = listed(
            f"{pool.pool} {pool.theirs} (here {pool.ours})" for pool in placement.disagreements
        )
        yield "ceph osd pool autoscale-status", f"differs for {pools}: trust Ceph"
