"""Little's law at one layer: throughput = size x requests in flight / latency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from leadline.analysis.layers.model import Flow, LayerFlow
from leadline.analysis.layers.trial import TrialLayers
from leadline.archive.records import LayerKind
from leadline.metrics import Op

# The product is held against what the engine got: metadata and a journal come on top of data.
CLOSES_WITHIN: Final = 0.10
# Where a stack narrows: nearest to the storage that still belongs to one client.
_ORDER: Final = (
    LayerKind.IMAGE,
    LayerKind.BLOCK,
    LayerKind.NFS,
    LayerKind.ZFS,
    LayerKind.POOL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Little:
    """One direction at the layer of that place in the trial. `size_bytes` is the mean,
    `median_bytes` that of the sizes that were counted there, or at the layer of place
    `median_at`. `throughput_bps` is the engine's; `object_bytes` what an object of the image
    holds. At one layer the product is its bytes per second by definition: what it tells is which
    of the three is small, and by `difference` whether that is all of what the engine got."""

    op: Op
    place: int
    size_bytes: float
    median_bytes: int | None
    median_at: int | None
    in_flight: float
    latency_s: float
    throughput_bps: float | None
    object_bytes: int | None

    @property
    def product_bps(self) -> float:
        return self.size_bytes * self.in_flight / self.latency_s

    @property
    def difference(self) -> float | None:
        """Product / the engine's throughput - 1."""
        return self.product_bps / self.throughput_bps - 1 if self.throughput_bps else None

    @property
    def closes(self) -> bool | None:
        return None if self.difference is None else abs(self.difference) <= CLOSES_WITHIN

    @property
    def objects(self) -> float | None:
        """How many requests of the mean size an object holds."""
        return self.object_bytes / self.size_bytes if self.object_bytes else None


def little_of(found: TrialLayers) -> Little | None:
    """At the layer where the stack narrows, in the direction in which most was moved; None where
    no layer below the engine tells size, requests in flight and latency."""
    op = found.main_op
    if op is None:
        return None
    place = next(_places(found.layers, op), None)
    if place is None:
        return None
    flow = found.layers[place].flows[op]
    size, latency, in_flight = flow.mean_size_bytes, flow.latency.value, flow.in_flight.value
    assert size is not None
    assert latency is not None
    assert in_flight is not None
    median_at = _sized(found.layers, place, op)
    sizes = found.layers[median_at].flows[op].sizes if median_at is not None else None
    return Little(
        op=op,
        place=place,
        size_bytes=size,
        median_bytes=sizes.quantile_bytes(0.5) if sizes else None,
        median_at=median_at,
        in_flight=in_flight,
        latency_s=latency,
        throughput_bps=found.engine.flows[op].bandwidth.value,
        object_bytes=object_size(found.layers),
    )


def object_size(layers: tuple[LayerFlow, ...]) -> int | None:
    """Bytes of an object of the image that the stack stands on."""
    sizes = (one.size_fact("object_size_bytes") for one in layers if one.kind is LayerKind.IMAGE)
    return next((size for size in sizes if size), None)


def _places(layers: tuple[LayerFlow, ...], op: Op) -> Iterator[int]:
    """Layers that tell all three, the best first: of one kind the lowest."""
    for kind in _ORDER:
        for place in reversed(range(1, len(layers))):
            one = layers[place]
            others = one.shared and kind is LayerKind.BLOCK
            if one.kind is kind and not others and _complete(one.flows.get(op)):
                yield place


def _complete(flow: Flow | None) -> bool:
    if flow is None:
        return False
    return bool(flow.mean_size_bytes and flow.latency.value and flow.in_flight.value)


def _sized(layers: tuple[LayerFlow, ...], place: int, op: Op) -> int | None:
    """The layer whose counted sizes speak for that of `place`: itself, or a device above it with
    nothing but FUSE or a file system between."""
    for above in range(place, 0, -1):
        flow = layers[above].flows.get(op)
        if flow is not None and flow.sizes is not None:
            return above
        if layers[above].kind is LayerKind.BLOCK:
            return None
    return None
