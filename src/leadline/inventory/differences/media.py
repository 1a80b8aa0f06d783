"""Differences of what OSDs lie on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from statistics import median

from leadline.inventory.ceph import Osd
from leadline.inventory.differences.model import Collector, Topic
from leadline.inventory.differences.words import listed, percent
from leadline.units import format_size
from leadline.visible import visible

# Partitions of one model of disk differ by a few blocks.
_SIZE_SHARE = 0.02


def compare_media(found: Collector, ours: tuple[Osd, ...], theirs: tuple[Osd, ...]) -> None:
    """Class, medium, store and size of the OSDs that serve the compared pools."""
    for key, what, read in (
        ("device_class", "device class", _device_class),
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


def _device_class(osd: Osd) -> str | None:
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
