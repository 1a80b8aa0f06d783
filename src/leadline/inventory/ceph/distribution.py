"""How data, placement groups and weight are distributed over the buckets of the CRUSH tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leadline.inventory.ceph.model import CephInventory, Osd, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The lowest, mean and highest value over the OSDs of a bucket."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A bucket of the CRUSH tree with its OSDs. None: unknown.

    `location` is from the root down, the bucket last. `weight` is CRUSH's sum. `pgs` are placement
    groups of an OSD; `fill` are used shares of an OSD, the mean weighted by size. `variance` is
    Ceph's VAR: the bucket's used share over that of all OSDs.
    """

    location: tuple[Place, ...]
    osds: int
    weight: float | None
    pgs: Span | None
    fill: Span | None
    variance: float | None

    @property
    def level(self) -> str:
        return self.location[-1].level

    @property
    def name(self) -> str:
        return self.location[-1].name


def compute_distribution(inventory: CephInventory) -> tuple[Distribution, ...]:
    """Compute the distribution of each bucket with OSDs, level by level from the root down.

    VAR as in `ceph osd df tree` (src/osd/OSDMap.cc, OSDUtilizationDumper).
    """
    inside: dict[tuple[Place, ...], list[Osd]] = {}
    for osd in inventory.osds:
        for depth in range(1, len(osd.location) + 1):
            inside.setdefault(osd.location[:depth], []).append(osd)
    average = compute_fill(inventory.osds)
    found = [_bucket(location, osds, average) for location, osds in inside.items()]
    return tuple(sorted(found, key=lambda bucket: len(bucket.location)))


def compute_fill(osds: Iterable[Osd]) -> float | None:
    """Return the used share of some OSDs together; None if no size is known."""
    known = [osd for osd in osds if osd.size_bytes and osd.used_bytes is not None]
    size = sum(osd.size_bytes or 0 for osd in known)
    return sum(osd.used_bytes or 0 for osd in known) / size if size else None


def compute_variance(osd: Osd, average: float | None) -> float | None:
    """Return an OSD's VAR, its used share over the `average` of all; None if unknown."""
    return osd.utilisation / average if osd.utilisation is not None and average else None


def _bucket(location: tuple[Place, ...], osds: list[Osd], average: float | None) -> Distribution:
    weights = [osd.weight for osd in osds if osd.weight is not None]
    # An OSD that is out, or without weight, has no placement groups of its own.
    active = [osd for osd in osds if osd.is_in and osd.weight != 0]
    pgs = [float(osd.pgs) for osd in active if osd.pgs is not None]
    shares = [osd.utilisation for osd in osds if osd.utilisation is not None]
    fill = compute_fill(osds)
    return Distribution(
        location=location,
        osds=len(osds),
        weight=sum(weights) if weights else None,
        pgs=Span(low=min(pgs), mean=sum(pgs) / len(pgs), high=max(pgs)) if pgs else None,
        fill=None if fill is None else Span(low=min(shares), mean=fill, high=max(shares)),
        variance=fill / average if fill is not None and average else None,
    )
