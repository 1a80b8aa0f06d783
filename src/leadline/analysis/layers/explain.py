"""Why a trial got the throughput that it got, in sentences with their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from leadline.analysis.layers.model import Flow, LayerFlow, percent
from leadline.analysis.layers.steps import Step
from leadline.analysis.layers.trial import TrialLayers
from leadline.formats.zfs.stream import StreamReport
from leadline.inventory.layer import LayerKind
from leadline.metrics import Op
from leadline.units import format_bandwidth, format_latency, format_size

# Little's law at one layer: throughput = size x requests in flight / latency.

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


# Below it most of what was in flight above is not any more.
_LOST: Final = 0.5
# Of fewer at a time nothing can be lost but the time between them.
_SEVERAL: Final = 1.5
# One side of a pipe held the stream back where it was waited for twice as long as the other, and
# for most of the time.
_CLEARLY: Final = 2.0
_MOSTLY: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Shares of the seconds of the streams counted, in which the pipe between the two waited: for
    the receiver to take something or, behind the last byte, to end (`for_receiver_share`), for the
    sender to give something (`for_sender_share`); `full_share` in which its buffer was full, so
    that the sender was held, and `empty_share` in which it was empty, so that the receiver
    starved. `slower` is `sender` or `receiver`, empty where neither is clearly the one."""

    for_receiver_share: float
    for_sender_share: float
    full_share: float
    empty_share: float
    slower: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`sentences` the most important first; empty where nothing below the engine was observed.
    `lost_at` is the step at which most of what was in flight is lost, None where nothing is."""

    little: Little | None
    stalls: Stalls | None
    lost_at: Step | None
    sentences: tuple[str, ...]


def explained(found: TrialLayers) -> Explanation:
    little = little_of(found)
    stalls = stalls_of(found.seen.stream) if found.seen.stream else None
    lost = _lost(found)
    told = [
        _little_sentence(found, little) if little else _idle_sentence(found),
        _stalls_sentence(stalls) if stalls else "",
        _lost_sentence(found, lost) if lost else "",
        _copies_sentence(found),
    ]
    return Explanation(
        little=little, stalls=stalls, lost_at=lost, sentences=tuple(one for one in told if one)
    )


def stalls_of(report: StreamReport) -> Stalls:
    counted, whole_s = report.counted, report.seconds
    finished = sum(one.finishing_s or 0.0 for one in counted)
    receiver = (sum(one.waited_for_receiver_s for one in counted) + finished) / whole_s
    sender = sum(one.waited_for_sender_s for one in counted) / whole_s
    pipe = report.relaying_share or 0.0
    slower = ""
    if receiver > max(_MOSTLY, _CLEARLY * max(sender, pipe)):
        slower = "receiver"
    elif sender > max(_MOSTLY, _CLEARLY * max(receiver, pipe)):
        slower = "sender"
    return Stalls(
        for_receiver_share=receiver,
        for_sender_share=sender,
        full_share=sum(one.held_sender_s for one in counted) / whole_s,
        empty_share=sum(one.starved_receiver_s for one in counted) / whole_s,
        slower=slower,
    )


def layer_words(layer: LayerFlow) -> str:
    """`the image lab/x`, `the device loop1`."""
    nouns = {
        None: "the engine",
        LayerKind.BLOCK: "the device",
        LayerKind.NFS: "the mount",
        LayerKind.FUSE: "the mount",
        LayerKind.FILESYSTEM: "the file system",
    }
    if layer.kind is LayerKind.IMAGE:
        return "the image"  # a stack has one, and its name may be long
    if layer.kind is LayerKind.ZFS:
        return "the vdevs"
    noun = nouns.get(layer.kind, f"the {layer.kind.value}" if layer.kind else "")
    return f"{noun}{'s' if _several(layer) else ''} {layer.name}"


def _several(layer: LayerFlow) -> bool:
    return layer.kind is LayerKind.BLOCK and "," in layer.name


def _little_sentence(found: TrialLayers, one: Little) -> str:
    layer = found.layers[one.place]
    verb = "wrote" if one.op is Op.WRITE else "read"
    who = "receive" if found.seen.stream else found.engine.name
    median = ""
    if one.median_bytes is not None and one.median_at is not None:
        at = "" if one.median_at == one.place else f" at {found.layers[one.median_at].name}"
        median = f" (median {format_size(one.median_bytes)}{at})"
    size, latency = format_size(one.size_bytes), format_latency(one.latency_s)
    flow = f"{one.in_flight:.3g}"
    ops = "writes" if one.op is Op.WRITE else "reads"
    product = f"{format_bandwidth(one.product_bps)} MiB/s"
    closing, got = "", ""
    if one.throughput_bps and one.difference is not None:
        got = f"{who} {verb} {format_bandwidth(one.throughput_bps)} MiB/s"
        got += " because " if one.closes else ", while "
        closing = (
            f", within {percent(max(1, math.ceil(abs(one.difference) * 100)) / 100)} of that"
            if one.closes
            else f", {_times(one.product_bps / one.throughput_bps)}{_why_not(found, one)}"
        )
    objects = (
        f"; an object holds {format_size(one.object_bytes)}, {one.objects:,.0f} times a request"
        if one.object_bytes and one.objects and one.objects >= 1
        else ""
    )
    gets = "get" if _several(layer) else "gets"
    return (
        f"{got}{layer_words(layer)} {gets} {ops} of {size}{median}, {flow} in flight, each "
        f"{latency}: {size} x {flow} / {latency} = {product}{closing}{objects}."
    )


def _idle_sentence(found: TrialLayers) -> str:
    """Where nothing of what the engine moved came down to the next layer that tells anything."""
    step = next((one for one in found.steps if one.above == 0 and one.op is found.main_op), None)
    if step is None or step.bytes_ratio != 0:
        return ""
    got = found.engine.flows[step.op].bandwidth.value or 0.0
    verb = "wrote" if step.op is Op.WRITE else "read"
    reason = f" {step.reasons[0]}" if step.reasons else ""
    return (
        f"{found.engine.name} {verb} {format_bandwidth(got)} MiB/s, and nothing of it came down to "
        f"{layer_words(found.layers[step.below])}.{reason}"
    )


def _times(ratio: float) -> str:
    if ratio < 1 - CLOSES_WITHIN:
        return f"{percent(ratio)} of that"
    return f"{ratio:.3g} times that, which does not close within {percent(CLOSES_WITHIN)}"


def _why_not(found: TrialLayers, one: Little) -> str:
    """The first reason of the first step above the layer at which bytes differ."""
    for step in found.steps:
        if step.op is one.op and step.below <= one.place and step.reasons:
            reason = step.reasons[0].rstrip(".")
            # `ZFS` stays as it is.
            return f" ({reason if reason[1:2].isupper() else reason[:1].lower() + reason[1:]})"
    return ""


def _stalls_sentence(stalls: Stalls) -> str:
    both = (
        f"the pipe waited for the receiver for {percent(stalls.for_receiver_share)} of the time, "
        f"and for the sender for {percent(stalls.for_sender_share)}"
    )
    if stalls.slower:
        return f"The {stalls.slower} held the stream back: {both}."
    return f"Neither sender nor receiver clearly held the stream back: {both}."


def _lost(found: TrialLayers) -> Step | None:
    op = found.main_op
    ratios = [
        (kept, step)
        for step in found.steps
        if step.op is op
        and (kept := _kept(found, step)) is not None
        and kept < _LOST
        and not found.layers[step.below].shared
    ]
    return min(ratios, key=lambda pair: pair[0])[1] if ratios else None


def _kept(found: TrialLayers, step: Step) -> float | None:
    """Which share of what is in flight above is still in flight below, of the bytes that come
    down at all: what a cache answers is not lost, nor are requests that became one. None where it
    is not known, or one at a time is all there is."""
    flow = found.layers[step.above].flows.get(step.op)
    above = flow.in_flight.value if flow else None
    if above is None or above < _SEVERAL or step.in_flight_ratio is None or not step.bytes_ratio:
        return None
    return step.in_flight_ratio * max(1.0, step.size_ratio or 1.0) / min(1.0, step.bytes_ratio)


def _lost_sentence(found: TrialLayers, step: Step) -> str:
    above, below = found.layers[step.above], found.layers[step.below]
    many = above.flows[step.op].in_flight.value
    few = below.flows[step.op].in_flight.value if step.op in below.flows else 0.0
    return (
        f"Concurrency is lost between {layer_words(above)} and {layer_words(below)}: "
        f"{many or 0:.3g} in flight above, {few or 0:.3g} below{_program(found, step)}."
    )


def _program(found: TrialLayers, step: Step) -> str:
    """The program of a file system that lies between."""
    between = found.layers[step.above + 1 : step.below]
    names = [one.facts["program"] for one in between if one.facts.get("program")]
    return f", behind the program {names[0]}" if names else ""


def _copies_sentence(found: TrialLayers) -> str:
    if found.copies is None or found.main_op is not Op.WRITE or found.copies < 1.05:
        return ""
    return (
        f"Each write of a client becomes {found.copies:.3g} writes on OSDs: copies, or parts of a "
        "coded object."
    )


# Cells of one workload on datasets that differ in their record size.


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One cell. `throughputs_bps` are those of all its completed trials in the order of the plan;
    `little` is of the median trial; `block_bytes` is the mean size that reaches the first block
    device, None where nobody counted; `refused` are the rules by which the audit refuses the
    cell's throughput."""

    target: str
    record_bytes: int
    throughputs_bps: tuple[float, ...]
    block_bytes: float | None
    little: Little | None
    little_at: str
    refused: tuple[str, ...]

    @property
    def throughput_bps(self) -> float:
        """Median over the trials."""
        return median(self.throughputs_bps)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSweep:
    """Rows by record size, the smallest first, of one workload and load level."""

    workload: str
    level: str
    rows: tuple[SweepRow, ...]

    @property
    def record_sizes(self) -> int:
        return len({one.record_bytes for one in self.rows})

    @property
    def usable(self) -> tuple[SweepRow, ...]:
        """The rows whose throughput the audit does not refuse."""
        return tuple(one for one in self.rows if not one.refused)


def apart(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether no trial of one lies among those of the other."""
    return max(first) < min(second) or max(second) < min(first)
