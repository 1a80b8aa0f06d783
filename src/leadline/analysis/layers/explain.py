"""Why a trial reached its throughput: Little's law, stalls of a stream, lost concurrency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from leadline.analysis.layers.model import Flow, LayerFlow
from leadline.analysis.layers.steps import Step
from leadline.analysis.layers.trial import TrialLayers
from leadline.formats.zfs.stream import StreamReport
from leadline.inventory.layer import LayerKind
from leadline.metrics import Op

# Metadata and a journal add to the data, so that the product may differ from the throughput.
CLOSES_WITHIN: Final = 0.10
# Where a stack narrows: the layers of one client, nearest to the storage first.
_ORDER: Final = (LayerKind.IMAGE, LayerKind.BLOCK, LayerKind.NFS, LayerKind.ZFS, LayerKind.POOL)
# Concurrency is lost if less than this share of it remains below.
_LOST: Final = 0.5
# With fewer requests in flight there is no concurrency to lose.
_CONCURRENT: Final = 1.5
# One end of a pipe is the slower one if the pipe waits for it twice as long as for the other, and
# for most of the time.
_SLOWER: Final = 2.0
_MOST_OF_TIME: Final = 0.5
# OSD writes per client write that count as copies.
_COPIES: Final = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Little:
    """Little's law at one layer (an index of the trial's layers), in one direction.

    throughput = size x requests in flight / latency. `size` is the mean request in bytes,
    `median_size` the median of the sizes counted at the layer `median_at`. `throughput` is the
    engine's, in bytes/s. `object_bytes` is the object size of the image. At one layer `product` is
    its bytes per second by definition; it shows which of the three factors is small, and
    `difference` shows whether the layer carries all of the engine's throughput."""

    op: Op
    layer: int
    size: float
    median_size: int | None
    median_at: int | None
    in_flight: float
    latency: float
    throughput: float | None
    object_bytes: int | None

    @property
    def product(self) -> float:
        return self.size * self.in_flight / self.latency

    @property
    def difference(self) -> float | None:
        """Product / the engine's throughput - 1."""
        return self.product / self.throughput - 1 if self.throughput else None

    @property
    def closes(self) -> bool | None:
        return None if self.difference is None else abs(self.difference) <= CLOSES_WITHIN

    @property
    def requests_per_object(self) -> float | None:
        """Requests of the mean size in an object."""
        return self.object_bytes / self.size if self.object_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Shares of the measured seconds of streams. The pipe between both ends waited for the
    receiver to read or to end (`for_receiver_share`), or for the sender (`for_sender_share`). Its
    buffer was full (`full_share`) or empty (`empty_share`), that of the sender's host where the
    receiver is on another `host`; both pipes waited for the link between them then
    (`for_link_share`, else None). `slower` is `sender`, `link`, `receiver` or empty."""

    for_receiver_share: float
    for_sender_share: float
    for_link_share: float | None
    full_share: float
    empty_share: float
    slower: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Causes of a trial's throughput. `lost_at` is the step that loses most concurrency. `idle_at`
    is the step at which nothing of the engine's I/O arrives. `copies` are OSD writes per client
    write, None for reads and without copies."""

    little: Little | None
    stalls: Stalls | None
    lost_at: Step | None
    idle_at: Step | None
    copies: float | None


def explain(found: TrialLayers) -> Explanation:
    """Return the causes of a trial's throughput."""
    little = find_little(found)
    first = next(
        (step for step in found.steps if step.above == 0 and step.op is found.main_op), None
    )
    idle = little is None and first is not None and first.bytes_ratio == 0
    copied = found.main_op is Op.WRITE and (found.copies or 0.0) >= _COPIES
    return Explanation(
        little=little,
        stalls=find_stalls(found.recorded.stream) if found.recorded.stream else None,
        lost_at=_find_loss(found),
        idle_at=first if idle else None,
        copies=found.copies if copied else None,
    )


def find_little(found: TrialLayers) -> Little | None:
    """Return Little's law where the stack narrows, in the main direction; None if no layer below
    the engine has size, requests in flight and latency."""
    op = found.main_op
    if op is None:
        return None
    for place in _narrow_places(found.layers, op):
        flow = found.layers[place].flows[op]
        size, latency, in_flight = flow.mean_size, flow.latency.value, flow.in_flight.value
        if not size or not latency or not in_flight:
            continue
        median_at = _sized_layer(found.layers, place, op)
        sizes = found.layers[median_at].flows[op].sizes if median_at is not None else None
        return Little(
            op=op,
            layer=place,
            size=size,
            median_size=sizes.quantile_bytes(0.5) if sizes else None,
            median_at=median_at,
            in_flight=in_flight,
            latency=latency,
            throughput=found.engine.flows[op].bandwidth.value,
            object_bytes=object_size(found.layers),
        )
    return None


def object_size(layers: Sequence[LayerFlow]) -> int | None:
    """Return the object size of the image below, in bytes."""
    images = (layer for layer in layers if layer.kind is LayerKind.IMAGE)
    sizes = (image.size_fact("object_size_bytes") for image in images)
    return next((size for size in sizes if size), None)


def _narrow_places(layers: Sequence[LayerFlow], op: Op) -> Iterator[int]:
    """Layers with I/O in that direction, the best first; of one kind the lowest."""
    for kind in _ORDER:
        for place in reversed(range(1, len(layers))):
            layer = layers[place]
            shared = layer.shared and kind is LayerKind.BLOCK
            if layer.kind is kind and not shared and op in layer.flows:
                yield place


def _sized_layer(layers: Sequence[LayerFlow], place: int, op: Op) -> int | None:
    """The layer whose counted sizes are also those of `place`: itself, or a device above it with
    only FUSE or a file system between."""
    for above in range(place, 0, -1):
        flow = layers[above].flows.get(op)
        if flow is not None and flow.sizes is not None:
            return above
        if layers[above].kind is LayerKind.BLOCK:
            return None
    return None


def find_stalls(report: StreamReport) -> Stalls:
    """Return how long the pipes of streams waited for sender, link and receiver."""
    counted, whole_s = report.counted, report.stream_seconds
    links = [stream.for_link_s for stream in counted if stream.for_link_s is not None]
    shares = {
        "receiver": sum(stream.for_receiver_s for stream in counted) / whole_s,
        "sender": sum(stream.waited_for_sender_s for stream in counted) / whole_s,
        "link": sum(links) / whole_s,
        "pipe": report.relaying_share or 0.0,
    }
    first, second = sorted(shares, key=lambda name: shares[name], reverse=True)[:2]
    clear = shares[first] > max(_MOST_OF_TIME, _SLOWER * shares[second])
    route = report.record.route
    return Stalls(
        for_receiver_share=shares["receiver"],
        for_sender_share=shares["sender"],
        for_link_share=shares["link"] if links else None,
        full_share=sum(stream.held_sender_s for stream in counted) / whole_s,
        empty_share=sum(stream.starved_receiver_s for stream in counted) / whole_s,
        slower=first if clear and first != "pipe" else "",
        host=route.host if route else "",
    )


def _find_loss(found: TrialLayers) -> Step | None:
    """The step that loses most concurrency."""
    kept = [
        (share, step)
        for step in found.steps
        if step.op is found.main_op
        and (share := _share_kept(found, step)) is not None
        and share < _LOST
        and not found.layers[step.below].shared
    ]
    return min(kept, key=lambda pair: pair[0])[1] if kept else None


def _share_kept(found: TrialLayers, step: Step) -> float | None:
    """Share of the requests in flight above that are in flight below, of the bytes that arrive.

    Cached I/O is not lost, nor are merged requests. None if unknown, or with one request at a
    time."""
    flow: Flow | None = found.layers[step.above].flows.get(step.op)
    above = flow.in_flight.value if flow else None
    if above is None or above < _CONCURRENT or step.in_flight_ratio is None or not step.bytes_ratio:
        return None
    return step.in_flight_ratio * max(1.0, step.size_ratio or 1.0) / min(1.0, step.bytes_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One cell of a sweep. `throughputs` in bytes/s of all completed trials in plan order;
    `little` of the median trial; `block_size` the mean request at the first block device;
    `refused` the rules that refuse the throughput."""

    target: str
    record_bytes: int
    throughputs: tuple[float, ...]
    block_size: float | None
    little: Little | None
    layer: str
    refused: tuple[str, ...]

    @property
    def throughput(self) -> float:
        """Median over the trials."""
        return median(self.throughputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSweep:
    """Cells of one workload and load level on datasets of different record sizes, the smallest
    first."""

    workload: str
    level: str
    rows: tuple[SweepRow, ...]

    @property
    def usable(self) -> tuple[SweepRow, ...]:
        """The rows without a refused throughput."""
        return tuple(row for row in self.rows if not row.refused)
