"""Layers of Ceph: the client's image (librbd) and the pool's OSDs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline.analysis.layers.model import (
    Basis,
    Figure,
    Flow,
    Growth,
    LayerFlow,
    Sample,
    Series,
    Sizes,
    Window,
    by_little,
    growth,
    seconds_of,
)
from leadline.formats.ceph.counters import (
    CounterSample,
    ImageSample,
    MissedImage,
    OsdRates,
    osd_rates,
)
from leadline.inventory.layer import Layer
from leadline.metrics import Op

IMAGE_SOURCE = "librbd perf dump"
POOL_SOURCE = "OSD perf dump"
_OPERATIONS, _MOVED, _TIMED, _SECONDS = range(4)
_SHORT = {Op.READ: "rd", Op.WRITE: "wr"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSeen:
    """`sizes`: requests to the OSDs between start and end by kind (`op_r`, `op_w`) and least
    size of their bucket in bytes."""

    samples: tuple[CounterSample, ...] = ()
    sizes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    missed: tuple[str, ...] = ()


def image_flow(
    layer: Layer, samples: Sequence[ImageSample | MissedImage], windows: Mapping[Op, Window]
) -> LayerFlow:
    """What came to the client's librbd."""
    mine = [one for one in samples if isinstance(one, MissedImage) or one.image == layer.name]
    told = [one for one in mine if isinstance(one, ImageSample)]
    flows = {}
    counted: dict[Op, Series] = {}
    basis = Basis.TOTALS
    covered = False
    for op, window in windows.items():
        counts = _image_counts(told, op)
        grown = growth(counts, window)
        if grown is None:
            continue
        covered, basis = True, grown.basis
        counted[op] = [(at_s, one[_MOVED]) for at_s, one in counts]
        if grown.counts[_OPERATIONS]:
            flows[op] = _image_direction(op, grown)
    if layer.facts.get("client") == "librbd":
        # A client within the engine takes what it counted since the last poll with it.
        basis = Basis.WHOLE_TRIAL
    flushes = told[-1].counts.get("flush", 0) - told[0].counts.get("flush", 0) if covered else 0
    notes = [f"{flushes:,} flushes"] if flushes > 0 else []
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=_summed(flows, "librbd told no latencies"),
        unobserved=""
        if covered
        else next(
            (one.reason for one in mine if isinstance(one, MissedImage)),
            "the counters of the image's client were not read before and after the trial",
        ),
        notes=tuple(notes),
        seconds=seconds_of(windows, basis),
        counted=counted,
    )


def _image_counts(samples: Sequence[ImageSample], op: Op) -> list[Sample]:
    """Operations, bytes, and of the latencies operations and seconds. A client that has not opened
    the image yet has counted nothing, and is not under load yet."""
    short = _SHORT[op]
    found: list[Sample] = []
    for one in samples:
        if one.counts:
            spent = one.latencies.get(f"{short}_latency")
            timed = (float(spent.operations), spent.seconds) if spent else (0.0, 0.0)
            counts = (one.counts.get(short, 0), one.counts.get(f"{short}_bytes", 0))
            found.append((one.elapsed_s, (*counts, *timed)))
    return found


def _image_direction(op: Op, grown: Growth) -> Flow:
    rate = Figure(value=grown.per_s(_OPERATIONS), source=IMAGE_SOURCE)
    timed = grown.counts[_TIMED]
    latency = Figure.of(
        grown.counts[_SECONDS] / timed if timed else None, IMAGE_SOURCE, "librbd told no latency"
    )
    return Flow(
        op=op,
        rate=rate,
        bandwidth=Figure(value=grown.per_s(_MOVED), source=IMAGE_SOURCE),
        merged=Figure(absent="librbd does not count what it merges"),
        latency=latency,
        in_flight=by_little(rate, latency),
        sizes_absent="librbd does not count sizes",
    )


def pool_flow(layer: Layer, seen: PoolSeen, windows: Mapping[Op, Window]) -> LayerFlow:
    """What all OSDs together did for clients, whoever they are; `notes` tell the copies."""
    rates = osd_rates(seen.samples)
    flows = {}
    basis = Basis.TOTALS
    for op, window in windows.items():
        basis, seconds = window.ends_only
        flow = _pool_direction(op, rates, seconds, seen.sizes)
        if flow.rate.value or flow.bandwidth.value:
            flows[op] = flow
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        facts=layer.facts,
        basis=basis,
        flows=flows if rates else {},
        in_flight=_summed(flows, "the OSDs told no latencies"),
        shared="the OSDs count the I/O of all clients and all pools",
        unobserved=""
        if rates
        else next(iter(seen.missed), "the OSDs were not asked for their counters"),
        notes=(),
    )


def copies(seen: PoolSeen) -> float | None:
    """Writes on OSDs for each write of a client: 3 in a pool of three copies. None without."""
    rates = osd_rates(seen.samples)
    writes = sum(
        one.counts_per_s.get(name, 0.0) * one.seconds
        for one in rates
        for name in ("osd.op_w", "osd.op_rw")
    )
    subs = sum(one.counts_per_s.get("osd.subop", 0.0) * one.seconds for one in rates)
    return (writes + subs) / writes if writes else None


def _pool_direction(
    op: Op,
    rates: Sequence[OsdRates],
    seconds: float,
    sizes: Mapping[str, Mapping[int, int]],
) -> Flow:
    kinds = ("op_r",) if op is Op.READ else ("op_w", "op_rw")
    moved = "osd.op_out_bytes" if op is Op.READ else "osd.op_in_bytes"

    def total(name: str) -> float | None:
        told = [one.counts_per_s[name] * one.seconds for one in rates if name in one.counts_per_s]
        return sum(told) if told else None

    counted = [value for kind in kinds if (value := total(f"osd.{kind}")) is not None]
    spent = [
        (one.rates[name] * one.seconds, one.means_s[name])
        for one in rates
        for kind in kinds
        if (name := f"osd.{kind}_latency") in one.means_s
    ]
    timed = sum(count for count, _ in spent)
    rate = Figure.of(sum(counted) / seconds if counted else None, POOL_SOURCE, "not counted")
    latency = Figure.of(
        sum(count * mean for count, mean in spent) / timed if timed else None,
        POOL_SOURCE,
        "no operation of this kind",
    )
    bytes_ = total(moved)
    seen = {kind: sizes[kind] for kind in kinds if any(sizes.get(kind, {}).values())}
    return Flow(
        op=op,
        rate=rate,
        bandwidth=Figure.of(
            bytes_ / seconds if bytes_ is not None else None, POOL_SOURCE, "not counted"
        ),
        merged=Figure(absent="OSDs merge nothing of clients"),
        latency=latency,
        in_flight=by_little(rate, latency),
        sizes=_of_kinds(seen),
        sizes_absent="" if seen else "the OSDs' histograms of sizes were not kept",
    )


def _of_kinds(seen: Mapping[str, Mapping[int, int]]) -> Sizes | None:
    if not seen:
        return None
    counts: dict[int, int] = {}
    for part in seen.values():
        for size, count in part.items():
            counts[size] = counts.get(size, 0) + count
    return Sizes(counts=counts, exact=False, source="OSD perf histogram dump")


def _summed(flows: Mapping[Op, Flow], absent: str) -> Figure:
    known = [one.in_flight.value for one in flows.values() if one.in_flight.value is not None]
    if not known or len(known) < len(flows):
        return Figure(absent=absent)
    return Figure(value=sum(known), source="rate x latency")
