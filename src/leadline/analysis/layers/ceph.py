"""Layers of Ceph: the client's image (librbd) and the pool's OSDs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline.analysis.layers.facts import Code, fact
from leadline.analysis.layers.model import (
    Figure,
    Flow,
    LayerFlow,
    Sizes,
    add_counts,
    add_in_flight,
    by_littles_law,
    measured,
    missing,
)
from leadline.analysis.layers.windows import (
    Basis,
    Growth,
    Sample,
    Series,
    Window,
    common_seconds,
    growth,
)
from leadline.formats.ceph.counters import CounterSample, ImageSample, OsdRates, osd_rates
from leadline.formats.json_lines import Missed
from leadline.inventory.layer import Layer
from leadline.metrics import Op

IMAGE_SOURCE = "librbd perf dump"
POOL_SOURCE = "OSD perf dump"
_OPERATIONS, _MOVED, _TIMED, _SECONDS = range(4)
_SHORT = {Op.READ: "rd", Op.WRITE: "wr"}
_OSD_KINDS = {Op.READ: ("op_r",), Op.WRITE: ("op_w", "op_rw")}
_OSD_BYTES = {Op.READ: "osd.op_out_bytes", Op.WRITE: "osd.op_in_bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSamples:
    """OSD counters of a trial. `sizes` are requests between start and end by kind (`op_r`, `op_w`)
    and lower bound of their size bucket in bytes."""

    samples: tuple[CounterSample, ...] = ()
    sizes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    missed: tuple[str, ...] = ()


def image_flow(
    layer: Layer, samples: Sequence[ImageSample | Missed], windows: Mapping[Op, Window]
) -> LayerFlow:
    """Return the client's librbd layer."""
    own = [sample for sample in samples if isinstance(sample, Missed) or sample.image == layer.name]
    found = [sample for sample in own if isinstance(sample, ImageSample)]
    flows = {}
    counted: dict[Op, Series] = {}
    basis = Basis.TOTALS
    for op, window in windows.items():
        counters = _image_counters(found, op)
        grown = growth(counters, window)
        if grown is None:
            continue
        basis = grown.basis
        counted[op] = [(at_s, values[_MOVED]) for at_s, values in counters]
        if grown.counts[_OPERATIONS]:
            flows[op] = _image_direction(op, grown)
    if layer.facts.get("client") == "librbd":
        # A client within the engine loses its counts since the last poll when it ends.
        basis = Basis.WHOLE_TRIAL
    flushes = found[-1].counts.get("flush", 0) - found[0].counts.get("flush", 0) if counted else 0
    missed = [sample.reason for sample in own if isinstance(sample, Missed)]
    unobserved = fact(Code.RECORDED, text=missed[0]) if missed else fact(Code.NOT_READ_TWICE)
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=add_in_flight(flows.values(), fact(Code.NO_LATENCY, source="librbd")),
        unobserved=None if counted else unobserved,
        notes=(fact(Code.FLUSHES, flushes=flushes),) if flushes > 0 else (),
        seconds=common_seconds(windows, basis),
        counted=counted,
    )


def _image_counters(samples: Sequence[ImageSample], op: Op) -> list[Sample]:
    """Operations and bytes; of the latencies operations and seconds. A client that has not opened
    the image has no counts, and is not under load."""
    short = _SHORT[op]
    found: list[Sample] = []
    for sample in samples:
        if sample.counts:
            spent = sample.latencies.get(f"{short}_latency")
            timed = (float(spent.operations), spent.seconds) if spent else (0.0, 0.0)
            counts = (sample.counts.get(short, 0), sample.counts.get(f"{short}_bytes", 0))
            found.append((sample.elapsed_s, (*counts, *timed)))
    return found


def _image_direction(op: Op, grown: Growth) -> Flow:
    rate = Figure(value=grown.per_s(_OPERATIONS), source=IMAGE_SOURCE)
    timed = grown.counts[_TIMED]
    latency = measured(
        grown.counts[_SECONDS] / timed if timed else None,
        IMAGE_SOURCE,
        fact(Code.NO_LATENCY, source="librbd"),
    )
    return Flow(
        op=op,
        rate=rate,
        bandwidth=Figure(value=grown.per_s(_MOVED), source=IMAGE_SOURCE),
        merged=missing(Code.NO_MERGE_COUNT, source="librbd"),
        latency=latency,
        in_flight=by_littles_law(rate, latency),
        sizes_absent=fact(Code.NO_SIZES, source="librbd"),
    )


def pool_flow(layer: Layer, pool: PoolSamples, windows: Mapping[Op, Window]) -> LayerFlow:
    """Return what all OSDs together did for all clients."""
    rates = osd_rates(pool.samples)
    flows = {}
    basis = Basis.TOTALS
    for op, window in windows.items() if rates else ():
        basis, seconds = window.ends_only
        flow = _pool_direction(op, rates, seconds, pool.sizes)
        if flow.rate.value or flow.bandwidth.value:
            flows[op] = flow
    missed = fact(Code.RECORDED, text=pool.missed[0]) if pool.missed else fact(Code.NOT_READ_TWICE)
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=add_in_flight(flows.values(), fact(Code.NO_LATENCY, source=POOL_SOURCE)),
        shared=fact(Code.ALL_CLIENTS),
        unobserved=None if rates else missed,
    )


def copies(pool: PoolSamples) -> float | None:
    """Return OSD writes per client write: 3 in a pool of three copies. None without writes."""
    rates = osd_rates(pool.samples)
    writes = sum(_total(rates, f"osd.{kind}") or 0.0 for kind in _OSD_KINDS[Op.WRITE])
    replicated = _total(rates, "osd.subop") or 0.0
    return (writes + replicated) / writes if writes else None


def _total(rates: Sequence[OsdRates], name: str) -> float | None:
    counts = [osd.counts_per_s[name] * osd.seconds for osd in rates if name in osd.counts_per_s]
    return sum(counts) if counts else None


def _pool_direction(
    op: Op, rates: Sequence[OsdRates], seconds: float, sizes: Mapping[str, Mapping[int, int]]
) -> Flow:
    kinds = _OSD_KINDS[op]
    operations = [count for kind in kinds if (count := _total(rates, f"osd.{kind}")) is not None]
    moved = _total(rates, _OSD_BYTES[op])
    spent = [
        (osd.rates[name] * osd.seconds, osd.means_s[name])
        for osd in rates
        for kind in kinds
        if (name := f"osd.{kind}_latency") in osd.means_s
    ]
    timed = sum(count for count, _ in spent)
    no_operations = fact(Code.NO_OPERATIONS, source=POOL_SOURCE)
    rate = measured(sum(operations) / seconds if operations else None, POOL_SOURCE, no_operations)
    latency = measured(
        sum(count * mean for count, mean in spent) / timed if timed else None,
        POOL_SOURCE,
        no_operations,
    )
    counts = add_counts(sizes.get(kind, {}) for kind in kinds)
    return Flow(
        op=op,
        rate=rate,
        bandwidth=measured(
            moved / seconds if moved is not None else None,
            POOL_SOURCE,
            fact(Code.NO_BYTES, source=POOL_SOURCE),
        ),
        merged=missing(Code.NO_MERGE_COUNT, source=POOL_SOURCE),
        latency=latency,
        in_flight=by_littles_law(rate, latency),
        sizes=Sizes(counts=counts, exact=False, source="OSD perf histogram dump")
        if any(counts.values())
        else None,
        sizes_absent=fact(Code.NO_SIZES, source="OSD perf histogram dump"),
    )
