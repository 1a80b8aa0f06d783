"""The placement of pools' PGs on OSDs, as it is and after a change, as a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from leadline.inventory.ceph.model import PoolType
from leadline.inventory.ceph.pg_placement import (
    AutoscalerChoice,
    PlacementState,
    PoolPlacement,
    PoolPlacements,
)
from leadline.model.placement import Imbalance, OsdLoad
from leadline.report.cells import (
    absent,
    bullets,
    count,
    number,
    number_column,
    records_table,
    section,
)
from leadline.report.document import Cell, Column, Document, Section
from leadline.report.words import NOT_SHOWN, listed, share_text
from leadline.text import count_text

# Ids of incomplete PGs in a sentence.
_IDS_SHOWN = 5
_Chosen = Callable[[AutoscalerChoice], int | None]


def placement_document(placements: PoolPlacements, source: str) -> Document:
    change = change_text(placements)
    sections = [_state_section("Placement", "now", placements, lambda pool: pool.now)]
    if change:
        sections.append(_movement_section(change, placements))
        after = _state_section(f"After: {change}", "after", placements, lambda pool: pool.after)
        sections.append(after)
    sections += _autoscaler_section(placements)
    alone = len(placements.pools) == 1
    sections += [_osds_section(pool, placements, folded=not alone) for pool in placements.pools]
    notes = bullets(placement_notes(placements))
    if notes:
        sections.append(section("Notes", "notes", notes))
    return Document(
        title="Placement of PGs",
        subtitle=f"{source}, OSD map {placements.epoch:,}",
        summary=tuple(_summary(placements, change)),
        sections=tuple(sections),
    )


def change_text(placements: PoolPlacements) -> str:
    """Return `1 more zone (4 OSDs)`, `256 PGs`, or both; empty without a change."""
    parts = []
    if placements.addition is not None:
        osds = count_text(len(placements.new_osds), "OSD")
        more = count_text(placements.addition.count, f"more {placements.addition.level}")
        parts.append(f"{more} ({osds})")
    if placements.pg_num is not None:
        parts.append(count_text(placements.pg_num, "PG"))
    return ", ".join(parts)


def _summary(placements: PoolPlacements, change: str) -> Iterator[str]:
    moving = [pool for pool in placements.pools if pool.movement is not None]
    if change and moving:
        data = _span([pool.movement.data for pool in moving if pool.movement])
        primaries = _span([pool.movement.primaries for pool in moving if pool.movement])
        of = moving[0].pool.name if len(moving) == 1 else f"{len(moving)} pools"
        yield f"{change}: {data} of the data and {primaries} of the primaries of {of} move."
    uneven = [(pool, pool.now.pgs) for pool in placements.pools if pool.now.pgs is not None]
    if uneven:
        pool, pgs = max(uneven, key=lambda pair: pair[1].most_over_mean)
        busiest = max(pool.now.osds, key=lambda load: load.pgs)
        yield (
            f"{pool.pool.name}: osd.{busiest.osd} has {busiest.pgs:,} PGs, "
            f"{pgs.most_over_mean:.2f} times the mean of {pgs.mean:.3g}."
        )
    yield from _incomplete(placements)


def _span(shares: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(map(share_text, (min(shares), max(shares)))))


def _incomplete(placements: PoolPlacements) -> Iterator[str]:
    for pool in placements.pools:
        for state, when in ((pool.now, ""), (pool.after, " after the change")):
            if state is None or not state.incomplete:
                continue
            rule = pool.pool.rule
            level = rule.failure_domain if rule else None
            has = f"; {count_text(state.domains or 0, level)}" if level else ""
            yield (
                f"{pool.pool.name}{when}: {len(state.incomplete):,} of "
                f"{count_text(state.pg_num, 'PG')} have fewer than {pool.pool.size} OSDs{has}."
            )


def placement_notes(placements: PoolPlacements) -> list[str]:
    """Return sentences on what the numbers include, and what they do not."""
    notes = []
    if placements.temporary:
        notes.append(
            f"{count_text(placements.temporary, 'PG')} of the map are on other OSDs while their "
            "data moves. The numbers are for the time after that."
        )
    for pool in placements.pools:
        name = pool.pool.name
        numbers = [state.pg_num for state in (pool.now, pool.after) if state is not None]
        notes += [
            f"{name}: {count_text(pg_num, 'PG')} are no power of two. Some PGs hold twice the data "
            "of others."
            for pg_num in dict.fromkeys(numbers)
            if pg_num & (pg_num - 1)
        ]
        notes += [
            f"{name}{when}: incomplete PGs are {listed(state.incomplete, _IDS_SHOWN)}."
            for state, when in ((pool.now, ""), (pool.after, " after the change"))
            if state is not None and state.incomplete
        ]
        if pool.unforecast is not None:
            notes.append(
                f"{name}: CRUSH and the exceptions of the map do not give the placement that "
                "osdmaptool gives. No change is computed."
            )
    if placements.addition is not None:
        notes.append(
            "New buckets and OSDs are copies of those with the median weight. Their ids in the "
            "cluster may differ, and with them the PGs that move."
        )
    if placements.addition is not None or placements.pg_num is not None:
        notes.append("Exceptions for PGs (upmap) are kept. The balancer is not simulated.")
    return notes


def _state_section(
    heading: str,
    anchor: str,
    placements: PoolPlacements,
    state_of: Callable[[PoolPlacement], PlacementState | None],
) -> Section:
    shown = [(pool, state) for pool in placements.pools if (state := state_of(pool)) is not None]
    return section(
        heading,
        anchor,
        records_table(
            f"{anchor}-pools",
            shown,
            ("pool", lambda pair: pair[0].pool.name),
            (number_column("PGs"), lambda pair: count(pair[1].pg_num)),
            ("redundancy", lambda pair: _redundancy(pair[0])),
            ("failure domain", lambda pair: _domain(*pair)),
            (number_column("OSDs", 2), lambda pair: count(len(pair[1].osds))),
            (number_column("PGs per OSD"), lambda pair: _mean(pair[1].pgs)),
            (Column(title="min to max", rank=1), lambda pair: _ends(pair[1].pgs)),
            (number_column("max/mean"), lambda pair: _ratio(pair[1].pgs)),
            (number_column("max/weight", 3), lambda pair: _fair(pair[1].pgs)),
            (number_column("primaries max/mean"), lambda pair: _ratio(pair[1].primaries)),
            (number_column("incomplete", 1), lambda pair: count(len(pair[1].incomplete))),
        ),
    )


def _redundancy(placed: PoolPlacement) -> str:
    pool = placed.pool
    if pool.type is PoolType.ERASURE and pool.erasure is not None:
        return f"EC {pool.erasure.k}+{pool.erasure.m}"
    return "1 copy" if pool.size == 1 else f"{pool.size} copies"


def _domain(placed: PoolPlacement, state: PlacementState) -> str:
    rule = placed.pool.rule
    if rule is None or rule.failure_domain is None:
        return ""
    of = "" if state.domains is None else f" of {state.domains:,}"
    return f"{rule.failure_domain}{of}"


def _mean(imbalance: Imbalance | None) -> Cell:
    return number(imbalance.mean if imbalance else None, "{:,.4g}".format)


def _ends(imbalance: Imbalance | None) -> str:
    return f"{imbalance.least:,.0f} to {imbalance.most:,.0f}" if imbalance else NOT_SHOWN


def _ratio(imbalance: Imbalance | None) -> Cell:
    return number(imbalance.most_over_mean if imbalance else None, "{:.2f}".format)


def _fair(imbalance: Imbalance | None) -> Cell:
    return number(imbalance.most_over_fair if imbalance else None, "{:.2f}".format)


def _movement_section(change: str, placements: PoolPlacements) -> Section:
    moving = [(pool.pool.name, pool.movement) for pool in placements.pools if pool.movement]
    return section(
        f"Movement: {change}",
        "movement",
        records_table(
            "movement-pools",
            moving,
            ("pool", lambda pair: pair[0]),
            (number_column("data moved"), lambda pair: number(pair[1].data, share_text)),
            (number_column("to new OSDs"), lambda pair: number(pair[1].to_new, share_text)),
            (
                number_column("between old OSDs", 1),
                lambda pair: number(pair[1].data - pair[1].to_new, share_text),
            ),
            (number_column("primaries moved"), lambda pair: number(pair[1].primaries, share_text)),
        ),
    )


def _autoscaler_section(placements: PoolPlacements) -> Iterator[Section]:
    known = [(pool, pool.autoscaler) for pool in placements.pools if pool.autoscaler is not None]
    if not known:
        return

    def chosen(pick: _Chosen) -> Callable[[tuple[PoolPlacement, AutoscalerChoice]], Cell]:
        return lambda pair: number(pick(pair[1]), "{:,}".format)

    after = placements.addition is not None
    yield section(
        "PG autoscaler",
        "autoscaler",
        records_table(
            "autoscaler-pools",
            known,
            ("pool", lambda pair: pair[0].pool.name),
            (number_column("PGs"), lambda pair: count(pair[0].now.pg_num)),
            (number_column("manager's choice"), chosen(lambda choice: choice.manager)),
            (number_column("by the rule"), chosen(lambda choice: choice.rule)),
            ("changes it", lambda pair: "yes" if pair[1].acts else "no"),
            (number_column("after"), chosen(lambda choice: choice.after)) if after else None,
            ("changes it after", lambda pair: _yes(pair[1].acts_after)) if after else None,
        ),
    )


def _yes(known: bool | None) -> str:
    return NOT_SHOWN if known is None else "yes" if known else "no"


def _osds_section(placed: PoolPlacement, placements: PoolPlacements, *, folded: bool) -> Section:
    after = {load.osd: load for load in placed.after.osds} if placed.after else {}
    now = {load.osd: load for load in placed.now.osds}

    def cell(loads: dict[int, OsdLoad], pick: Callable[[OsdLoad], int]) -> Callable[[int], Cell]:
        return lambda osd: count(pick(loads[osd])) if osd in loads else absent()

    def weight(osd: int) -> Cell:
        return number((after or now)[osd].weight if osd in (after or now) else None, share_text)

    name = placed.pool.name
    return section(
        f"OSDs of {name}",
        f"osds-{placed.pool.id}",
        records_table(
            f"osds-of-{placed.pool.id}",
            sorted(now.keys() | after.keys()),
            ("OSD", lambda osd: f"osd.{osd}"),
            ("in", lambda osd: placements.hosts.get(osd, "")),
            (number_column("weight", 1), weight),
            (number_column("PGs"), cell(now, lambda load: load.pgs)),
            (number_column("primaries"), cell(now, lambda load: load.primaries)),
            (number_column("PGs after"), cell(after, lambda load: load.pgs)) if after else None,
            (number_column("primaries after"), cell(after, lambda load: load.primaries))
            if after
            else None,
        ),
        folded=folded,
    )
