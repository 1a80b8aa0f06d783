"""Figures of a layer during one trial: rate, bandwidth, sizes, latency, requests in flight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from leadline.analysis.layers.facts import Code, Fact, fact
from leadline.analysis.layers.windows import Basis, Seconds, Series
from leadline.inventory.layer import LayerKind
from leadline.metrics import Op

DIRECTIONS = (Op.READ, Op.WRITE)
LITTLE = "rate x latency"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Requests by size in bytes. `exact`: keys are sizes, otherwise lower bounds of buckets that
    reach to the next power of two. `source` names the counter; `lost` requests are missing."""

    counts: Mapping[int, int]
    exact: bool
    source: str
    lost: int = 0

    @property
    def requests(self) -> int:
        return sum(self.counts.values())

    @property
    def mean_bytes(self) -> float | None:
        """None for buckets, and without requests."""
        if not self.exact or not self.requests:
            return None
        return sum(size * count for size, count in self.counts.items()) / self.requests

    def quantile_bytes(self, q: float) -> int | None:
        """Smallest size that at least a share `q` in (0, 1] of the requests does not exceed. For
        buckets the lower bound. None without requests."""
        wanted = q * self.requests
        sizes = sorted(size for size, count in self.counts.items() if count)
        reached = accumulate(self.counts[size] for size in sizes)
        pairs = zip(sizes, reached, strict=True)
        return next((size for size, requests in pairs if requests >= wanted), None)

    def share_from(self, size_bytes: int) -> float | None:
        """Share of requests of at least `size_bytes`. None without requests."""
        if not self.requests:
            return None
        large = sum(count for size, count in self.counts.items() if size >= size_bytes)
        return large / self.requests


def add_counts(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Add counts by size."""
    total: dict[int, int] = {}
    for part in parts:
        for size, count in part.items():
            total[size] = total.get(size, 0) + count
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number in base units with its `source`, or None with the cause (`absent`)."""

    value: float | None = None
    source: str = ""
    absent: Fact | None = None


def measured(value: float | None, source: str, absent: Fact) -> Figure:
    """Return `value` with its source if there is one, else the cause."""
    return Figure(value=value, source=source) if value is not None else Figure(absent=absent)


def missing(code: Code, **values: float | str) -> Figure:
    """Return a figure without a value."""
    return Figure(absent=fact(code, **values))


UNKNOWN = missing(Code.NOT_REPORTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One direction at one layer. `rate` in operations/s, `bandwidth` in bytes/s, `merged` in
    requests/s that were merged before they were counted, `latency` mean seconds of an operation,
    `in_flight` mean number of concurrent operations. `sizes` is None for the cause
    `sizes_absent`."""

    op: Op
    rate: Figure = UNKNOWN
    bandwidth: Figure = UNKNOWN
    merged: Figure = UNKNOWN
    latency: Figure = UNKNOWN
    in_flight: Figure = UNKNOWN
    sizes: Sizes | None = None
    sizes_absent: Fact | None = None

    @property
    def mean_size(self) -> float | None:
        """Mean bytes of an operation; without an operation count, of the requests with a size."""
        if self.rate.value and self.bandwidth.value is not None:
            return self.bandwidth.value / self.rate.value
        return self.sizes.mean_bytes if self.sizes else None


def by_littles_law(rate: Figure, latency: Figure) -> Figure:
    """Operations in flight from rate and latency (Little's law: N = X R)."""
    if rate.value is None or latency.value is None:
        return Figure(absent=rate.absent or latency.absent)
    return Figure(value=rate.value * latency.value, source=LITTLE)


def add_in_flight(flows: Iterable[Flow], absent: Fact) -> Figure:
    """Operations in flight of all directions; missing if one of them is missing."""
    figures = [flow.in_flight for flow in flows]
    values = [figure.value for figure in figures if figure.value is not None]
    if not values or len(values) < len(figures):
        return Figure(absent=absent)
    return Figure(value=sum(values), source=figures[0].source)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFlow:
    """A layer of a trial. `kind` is None for the engine on top. `flows` hold the directions with
    I/O; `in_flight` is both directions together. `shared` is the cause if other users also use the
    layer. `unobserved` is the cause if the layer has no figures.

    `seconds` are the seconds of its bytes, None if unknown or the whole trial. `counted` are its
    bytes over the seconds since the watch began, if they were sampled. `parts` is the number of
    leaf vdevs behind its figures, 0 without vdevs."""

    kind: LayerKind | None
    name: str
    devices: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    basis: Basis = Basis.TOTALS
    flows: Mapping[Op, Flow] = field(default_factory=dict)
    in_flight: Figure = UNKNOWN
    shared: Fact | None = None
    unobserved: Fact | None = None
    notes: tuple[Fact, ...] = ()
    seconds: Seconds | None = None
    counted: Mapping[Op, Series] = field(default_factory=dict)
    parts: int = 0

    @property
    def label(self) -> str:
        """`engine fio`, `block loop1`, `pool rep3`."""
        return f"{self.kind.value if self.kind else 'engine'} {self.name}"

    @property
    def short_name(self) -> str:
        """`fio`, `ext4`, `loop1`, `rbd-fuse`, `image`, `zfs`; else the kind and the name."""
        match self.kind:
            case None | LayerKind.FILESYSTEM | LayerKind.BLOCK:
                return self.name
            case LayerKind.IMAGE | LayerKind.ZFS:
                return self.kind.value  # a stack has one, and its name may be long
            case LayerKind.FUSE:
                return self.facts.get("program") or f"fuse {self.name}"
            case _:
                return f"{self.kind.value} {self.name}"

    def moved_bps(self, op: Op) -> float:
        """Bytes per second of one direction, 0 if unknown."""
        flow = self.flows.get(op)
        return flow.bandwidth.value or 0.0 if flow else 0.0

    def size_fact(self, key: str) -> int | None:
        """Return a recorded property that is a size in bytes."""
        text = self.facts.get(key, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def find_layer(layers: Sequence[LayerFlow], kind: LayerKind) -> LayerFlow | None:
    """Return the first layer of that kind from the top."""
    return next((layer for layer in layers if layer.kind is kind), None)
