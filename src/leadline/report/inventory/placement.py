"""Pools and the arithmetic of their placement groups, as sections of the inventory."""

from __future__ import annotations

from leadline.inventory.autoscaler import Mode, PoolAdvice, Rule
from leadline.inventory.ceph import CephInventory, Pool
from leadline.inventory.placement import Placement, RootPlacement, explained, uneven
from leadline.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Kind,
    Paragraph,
    Section,
    Table,
)
from leadline.report.wording import count_text, listed, visible
from leadline.units import format_size

_POOL_COLUMNS = (
    Column(title="id", kind=Kind.NUMBER, rank=5),
    Column(title="pool"),
    Column(title="copies"),
    Column(title="min", kind=Kind.NUMBER, rank=3),
    Column(title="apart by"),
    Column(title="root", rank=4),
    Column(title="PGs", kind=Kind.NUMBER),
    Column(title="autoscale"),
    Column(title="stored", kind=Kind.NUMBER),
    Column(title="used", kind=Kind.NUMBER, rank=2),
    Column(title="for"),
)


def pools_section(inventory: CephInventory) -> Section:
    rows = tuple(tuple(Cell(text=text) for text in _pool(pool)) for pool in inventory.pools)
    if not rows:
        return Section(heading="Pools", id="pools", blocks=(Paragraph(text="There are none."),))
    return Section(
        heading="Pools",
        id="pools",
        blocks=(Table(id="pools", caption="", columns=_POOL_COLUMNS, rows=rows),),
    )


def _pool(pool: Pool) -> tuple[str, ...]:
    rule = pool.rule
    root = "–"
    if rule and rule.root:
        root = visible(rule.root) + (f"~{rule.device_class}" if rule.device_class else "")
    pgs = f"{pool.pg_num:,}"
    if pool.pg_num_target != pool.pg_num:
        pgs += f" to {pool.pg_num_target:,}"
    return (
        str(pool.id),
        visible(pool.name),
        _copies(pool),
        str(pool.min_size),
        (rule.failure_domain if rule else None) or "–",
        root,
        pgs,
        _autoscale(pool),
        "–" if pool.stored_bytes is None else format_size(pool.stored_bytes),
        "–" if pool.used_bytes is None else format_size(pool.used_bytes),
        _used_for(pool),
    )


def _copies(pool: Pool) -> str:
    """`rep 3`, `EC 2+1`."""
    if pool.erasure is None:
        return f"rep {pool.size}"
    return f"EC {pool.erasure.k}+{pool.erasure.m}"


def _autoscale(pool: Pool) -> str:
    text = pool.autoscale_mode.value if pool.autoscale_mode else "–"
    if pool.target_ratio:
        text += f", ratio {pool.target_ratio:g}"
    elif pool.target_bytes:
        text += f", {format_size(pool.target_bytes)}"
    if pool.bias != 1.0:
        text += f", bias {pool.bias:g}"
    return text + (", bulk" if pool.bulk else "")


def _used_for(pool: Pool) -> str:
    if pool.cephfs_role:
        text = f"cephfs {pool.cephfs_role.value}"
    else:
        text = listed(visible(name) for name in pool.applications) or "no application"
    if not pool.overwrites:
        text += ", append only"
    if pool.compression != "none":
        text += f", {pool.compression} compression"
    return text


_RULES = {
    Rule.WHOLE_BUDGET: "every pool takes its ratio of the whole budget (Nautilus to Octopus)",
    Rule.WHAT_IS_LEFT: "pools take their ratio of what is left, in the order of their ids "
    "(Pacific to Tentacle)",
    Rule.EAGER_LARGE: "pools take their ratio of what is left, in the order of their ids; growth "
    "to 512 and more needs less (Tentacle 20.2.1)",
}

_ADVICE_COLUMNS = (
    Column(title="pool"),
    Column(title="ratio", kind=Kind.NUMBER),
    Column(title="x budget", kind=Kind.NUMBER),
    Column(title="/ size", kind=Kind.NUMBER),
    Column(title="x bias", kind=Kind.NUMBER, rank=3),
    Column(title="= raw", kind=Kind.NUMBER),
    Column(title="pg_num", kind=Kind.NUMBER),
    Column(title="has", kind=Kind.NUMBER),
    Column(title="outcome"),
)


def placement_section(inventory: CephInventory, placement: Placement) -> Section:
    """The arithmetic per root: a table, and in words what surprises."""
    blocks: list[Block] = []
    if placement.rule in _RULES:
        bulk = any(pool.bulk for pool in inventory.pools)
        last = "; pools with the bulk flag come last" if bulk else ""
        blocks.append(Paragraph(text=f"The rule: {_RULES[placement.rule]}{last}."))
    for root in placement.roots:
        blocks += _root(root)
    if inventory.autoscaler.no_autoscale:
        blocks.append(Paragraph(text="noautoscale is set: the autoscaler changes no pool."))
    elif inventory.pools and all(pool.autoscale_mode is Mode.OFF for pool in inventory.pools):
        text = "The autoscaler is off for every pool; what it would want is shown nevertheless."
        blocks.append(Paragraph(text=text))
    verdict = _agreement(placement)
    if verdict:
        blocks.append(Paragraph(text=verdict))
    if not blocks:
        blocks.append(Paragraph(text="There are no pools."))
    return Section(heading="Placement groups, and why", id="placement-groups", blocks=tuple(blocks))


def _root(root: RootPlacement) -> list[Block]:
    settings = root.settings
    pools = listed(visible(pool.name) for pool in root.pools)
    if root.unknown:
        return [Paragraph(text=f"Root {visible(root.name)} ({pools}): {visible(root.unknown)}.")]
    text = (
        f"Root {visible(root.name)}: {count_text(settings.osds, 'OSD')} x "
        f"{settings.target_pg_per_osd} PGs wanted on each = a budget of {settings.budget:,} PG "
        f"replicas; its pools have {root.pg_replicas:,}, {root.pg_replicas / settings.osds:,.0f} "
        "an OSD."
    )
    table = Table(
        id=f"advice-{root.name}",
        caption="",
        columns=_ADVICE_COLUMNS,
        rows=tuple(tuple(Cell(text=cell) for cell in _advice(one)) for one in root.advice),
    )
    said: list[str] = []
    why = uneven(root)
    if why:
        said.append(f"{visible(why)}.")
    said += [
        f"{visible(one.pool.name)}: {explained(one, settings)}." for one in root.advice if one.acts
    ]
    return [Paragraph(text=text), table, *([Bullets(items=tuple(said))] if said else [])]


def _advice(one: PoolAdvice) -> tuple[str, ...]:
    raw = f"{one.raw:,.1f}" if one.raw < 1000 else f"{one.raw:,.0f}"
    return (
        visible(one.pool.name),
        f"{one.ratio:.4f}",
        f"{one.budget:,.0f}",
        str(one.pool.size),
        f"{one.pool.bias:g}",
        raw,
        f"{one.final:,}",
        f"{one.pool.pg_num:,}",
        one.reason.value,
    )


def _agreement(placement: Placement) -> str | None:
    """Whether Ceph's manager says the same."""
    if not placement.compared:
        return None
    if not placement.disagreements:
        return (
            f"`ceph osd pool autoscale-status` has the same pg_num for all "
            f"{count_text(placement.compared, 'pool')}."
        )
    told = listed(
        f"{visible(one.pool)} {one.theirs} (here {one.ours})" for one in placement.disagreements
    )
    return f"`ceph osd pool autoscale-status` says otherwise of {told}: believe Ceph."
