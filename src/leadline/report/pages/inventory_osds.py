"""The distribution of weight, placement groups and data over buckets and OSDs, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from leadline.inventory.ceph.distribution import (
    Distribution,
    Span,
    compute_distribution,
    compute_fill,
    compute_variance,
)
from leadline.inventory.ceph.model import CephInventory, Crypt, Osd
from leadline.report.cells import absent, count, number, number_column, records_table, section
from leadline.report.document import Block, Cell, Column, Gauge, Scale, Section
from leadline.report.words import share_text
from leadline.units import format_size

# Rows of buckets of a level, and of OSDs.
_BUCKETS_SHOWN = 40
_OSDS_SHOWN = 24
_Text = Callable[[float], str]
_SHARES = ((0.0, "0"), (0.5, "50 %"), (1.0, "100 %"))


def osds_section(inventory: CephInventory) -> Section:
    """Build the distribution over the buckets of each level, and the OSDs."""
    buckets = compute_distribution(inventory)
    spans = [bucket.pgs for bucket in buckets if bucket.pgs]
    levels = _levels(buckets)
    shown = [bucket for own in levels for bucket in _shown(own)]
    highest = max((span.high for span in spans), default=0.0)
    blocks: list[Block] = []
    if shown:
        rest = _omission(sum(map(len, levels)) - len(shown), "bucket")
        blocks.append(
            records_table(
                "distribution",
                shown,
                ("bucket", lambda bucket: bucket.name),
                ("level", lambda bucket: bucket.level),
                (number_column("OSDs"), lambda bucket: count(bucket.osds)),
                (number_column("weight", 2), lambda bucket: number(bucket.weight, _weight)),
                (
                    number_column("PGs per OSD", scale=_counts(highest)),
                    lambda bucket: _span(bucket.pgs, "{:,.0f}".format),
                ),
                (Column(title="min to max", rank=1), lambda bucket: _ends(bucket.pgs, _whole)),
                (
                    number_column("fill", scale=_fill_scale()),
                    lambda bucket: _span(bucket.fill, share_text),
                ),
                (Column(title="of OSDs", rank=1), lambda bucket: _ends(bucket.fill, share_text)),
                (number_column("VAR"), lambda bucket: number(bucket.variance, "{:.2f}".format)),
                caption=f"By {', '.join(dict.fromkeys(one.level for one in shown))}{rest}",
                filterable=len(shown) > 25,
            )
        )
    if inventory.osds:
        blocks.append(_osd_table(inventory, highest))
    fills = [osd.utilisation for osd in inventory.osds if osd.utilisation is not None]
    pgs = inventory.pgs_per_osd
    ends = dict.fromkeys(map(share_text, (min(fills), max(fills)))) if fills else ()
    parts = [f"{pgs.lowest:,} to {pgs.highest:,} PGs on an OSD"] if pgs else []
    parts += [f"fill {' to '.join(ends)}"] if ends else []
    return section("Distribution", "crush", *blocks, result=", ".join(parts))


def _levels(buckets: Iterable[Distribution]) -> list[list[Distribution]]:
    """Group the buckets by level, without levels of one bucket, and without those whose buckets
    have one OSD each: the table of OSDs has their numbers."""
    levels: dict[str, list[Distribution]] = {}
    for bucket in buckets:
        levels.setdefault(bucket.level, []).append(bucket)
    return [
        own
        for level, own in levels.items()
        if (len(own) > 1 or level == "host") and max(one.osds for one in own) > 1
    ]


def _shown(own: Sequence[Distribution]) -> list[Distribution]:
    """Select the buckets of a level, of very many those farthest from the mean."""
    farthest = sorted(own, key=lambda one: -abs((one.variance or 1.0) - 1))[:_BUCKETS_SHOWN]
    return sorted(farthest, key=lambda one: [place.name for place in one.location])


def _omission(rest: int, noun: str) -> str:
    return f"; {rest:,} more {noun}s are closer to the mean" if rest > 0 else ""


def _counts(highest: float) -> Scale:
    ticks = ((0.0, "0"), (highest, _whole(highest)))
    return Scale(title="", log=False, low=0.0, high=highest or 1.0, ticks=ticks)


def _fill_scale() -> Scale:
    return Scale(title="", log=False, low=0.0, high=1.0, ticks=_SHARES)


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _weight(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _span(span: Span | None, text: _Text) -> Cell:
    """The mean as a bar, with the range over the OSDs."""
    if span is None:
        return absent()
    return Cell(
        text=text(span.mean),
        sort=span.mean,
        gauge=Gauge(value=span.mean, interval=(span.low, span.high), bar=True),
    )


def _ends(span: Span | None, text: _Text) -> str:
    return "" if span is None else " to ".join(dict.fromkeys((text(span.low), text(span.high))))


# --- OSDs -----------------------------------------------------------------------------------------


def _osd_table(inventory: CephInventory, highest: float) -> Block:
    """Build a row for each OSD; of many those that are down, out, or farthest from the mean fill
    of their class."""
    media = {True: "rotating", False: "flash", None: ""}
    average = compute_fill(inventory.osds)
    osds = inventory.osds
    if len(osds) > _OSDS_SHOWN:
        means = {
            name: compute_fill(osd for osd in osds if osd.device_class == name)
            for name in dict.fromkeys(osd.device_class for osd in osds)
        }

        def distance(osd: Osd) -> tuple[bool, float]:
            mean = means[osd.device_class]
            if osd.utilisation is None or mean is None:
                return (osd.up and osd.is_in, 0.0)
            return (osd.up and osd.is_in, -abs(osd.utilisation - mean))

        osds = tuple(sorted(osds, key=distance)[:_OSDS_SHOWN])
    rest = _omission(len(inventory.osds) - len(osds), "OSD")
    return records_table(
        "osds",
        osds,
        (number_column("osd"), lambda osd: count(osd.id)),
        ("place", lambda osd: " / ".join(place.name for place in osd.location[1:]) or "nowhere"),
        ("class", lambda osd: osd.device_class or ""),
        (Column(title="store", rank=4), lambda osd: osd.store or ""),
        (Column(title="medium", rank=5), lambda osd: media[osd.rotational]),
        ("state", _state),
        (number_column("weight", 3), lambda osd: number(osd.weight, _weight)),
        (Column(title="dm-crypt", rank=6), lambda osd: "yes" if osd.dm_crypt is Crypt.YES else "?"),
        (number_column("size"), lambda osd: number(osd.size_bytes, format_size)),
        (number_column("PGs", scale=_counts(highest)), lambda osd: _bar(osd.pgs, _whole)),
        (number_column("fill", scale=_fill_scale()), lambda osd: _bar(osd.utilisation, share_text)),
        (
            number_column("VAR", 2),
            lambda osd: number(compute_variance(osd, average), "{:.2f}".format),
        ),
        caption=f"OSDs{rest}",
    )


def _bar(value: float | None, text: _Text) -> Cell:
    if value is None:
        return absent()
    return Cell(text=text(value), sort=float(value), gauge=Gauge(value=float(value), bar=True))


def _state(osd: Osd) -> str:
    state = ("up" if osd.up else "down") + ("" if osd.is_in else ", out")
    if osd.reweight not in (0.0, 1.0):
        state += f", reweight {osd.reweight:.2f}"
    if osd.primary_affinity != 1.0:
        state += f", primary {osd.primary_affinity:.2f}"
    return state
