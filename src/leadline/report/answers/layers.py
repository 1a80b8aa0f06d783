"""`leadline layers` for programs: the contract `leadline/layers/1`, and the layers as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from leadline.analysis.layers.explain import Little, RecordSweep, SweepRow, object_size
from leadline.analysis.layers.model import Figure, Flow, LayerFlow, Sizes
from leadline.analysis.layers.steps import Step
from leadline.analysis.layers.study import CellLayers, LayerStudy
from leadline.report.answers.base import Output


class FigureOutput(Output):
    """A number in base units and who told it; or null, and why there is none (`absent`)."""

    value: float | None
    source: str
    absent: str


class SizeOutput(Output):
    bytes: int
    requests: int


class SizesOutput(Output):
    """Requests by size. `exact`: `counts` are by the size itself, else by the lower bound of a
    bucket up to the next power of two, as are the quantiles. `lost` requests are known to be
    missing. `full_object_share` is the share that has at least the size of an object of the
    image, null where no image is known."""

    source: str
    exact: bool
    requests: int
    lost: int
    p50: int | None
    p90: int | None
    p99: int | None
    full_object_share: float | None
    counts: list[SizeOutput]


class FlowOutput(Output):
    """One direction at a layer: `rate` operations/s, `bandwidth` bytes/s, `mean_size` bytes,
    `merged` requests/s that went into others, `latency` seconds (mean), `in_flight` operations
    (mean). `sizes` is null where nobody counted, and `sizes_absent` says why."""

    op: str
    rate: FigureOutput
    bandwidth: FigureOutput
    mean_size: float | None
    merged: FigureOutput
    latency: FigureOutput
    in_flight: FigureOutput
    sizes: SizesOutput | None
    sizes_absent: str


class LayerOutput(Output):
    """`kind` is `engine`, `filesystem`, `zfs`, `fuse`, `nfs`, `block`, `image` or `pool`. `basis`
    says over which seconds its figures are: `totals`, `window` or `whole trial`. `shared` says
    why others use it, too; `unobserved` why nothing is known of it; both empty otherwise."""

    kind: str
    name: str
    devices: list[str]
    facts: dict[str, str]
    basis: str
    flows: list[FlowOutput]
    in_flight: FigureOutput
    shared: str
    unobserved: str
    notes: list[str]


class StepOutput(Output):
    """From the layer `above` to the layer `below` (places in `layers`), through those that tell
    nothing. Ratios are below / above. `adds_up`: whether bytes agree within 5 % where the two are
    known to pass on one to one (`one_to_one`); null where nobody can tell, and `open_for` says in
    two words why. `bytes_ratio_least` and `_most` are what it may as well be, given that the two
    were counted over seconds beside each other; null where they are the same."""

    op: str
    above: int
    below: int
    through: list[str]
    bytes_ratio: float | None
    bytes_ratio_least: float | None
    bytes_ratio_most: float | None
    operations_ratio: float | None
    size_ratio: float | None
    in_flight_ratio: float | None
    one_to_one: bool
    difference: float | None
    adds_up: bool | None
    open_for: str
    reasons: list[str]


class LittleOutput(Output):
    """size x in flight / latency = `product` bytes/s at `layer` (a place in `layers`), held against
    the engine's `throughput`: `closes` within 10 %."""

    op: str
    layer: int
    size: float
    median_size: int | None
    in_flight: float
    latency: float
    product: float
    throughput: float | None
    difference: float | None
    closes: bool | None
    object_bytes: int | None
    requests_per_object: float | None


class StallsOutput(Output):
    """Shares of a stream's time in which its pipe waited for the receiver, and for the sender; in
    which it was full, so that the sender was held, and empty, so that the receiver starved.
    `slower`: `sender`, `receiver` or empty."""

    for_receiver_share: float
    for_sender_share: float
    full_share: float
    empty_share: float
    slower: str


class SettingOutput(Output):
    """`relevance`: `can matter`, `cannot matter` or `not known`; `evidence` are numbers in base
    units."""

    name: str
    value: str
    relevance: str
    sentence: str
    evidence: dict[str, float]


class SumOutput(Output):
    """A sum of one trial that must hold. `above` and `below` are layers by kind and name."""

    trial: str
    op: str
    above: str
    below: str
    difference: float | None
    adds_up: bool | None


class CellLayersOutput(Output):
    """A cell by the trial with the median throughput; `sums` are of all completed trials.
    `lost_at` is the number of the step at which most concurrency is lost, null where none is;
    `refused` the rules by which the audit refuses the cell's throughput."""

    target: str
    workload: str
    level: str
    trial: str
    layers: list[LayerOutput]
    steps: list[StepOutput]
    copies: float | None
    explanation: list[str]
    little: LittleOutput | None
    stalls: StallsOutput | None
    lost_at: int | None
    settings: list[SettingOutput]
    sums: list[SumOutput]
    refused: list[str]
    notes: list[str]


class SweepRowOutput(Output):
    """`throughputs` of all completed trials in bytes/s, `throughput` their median; `block_size` the
    mean request at the first block device; `refused` the rules by which the audit refuses the
    throughput; the rest is Little's law at `layer`."""

    target: str
    record_bytes: int
    throughput: float
    throughputs: list[float]
    refused: list[str]
    block_size: float | None
    layer: str
    size: float | None
    in_flight: float | None
    latency: float | None
    product: float | None
    requests_per_object: float | None


class SweepOutput(Output):
    """Cells of one workload on datasets of different record size."""

    workload: str
    level: str
    rows: list[SweepRowOutput]


class LayersOutput(Output):
    """Values in base units. `missing` says of which cells nothing is told, and why."""

    schema_: Literal["leadline/layers/1"] = Field(default="leadline/layers/1", alias="schema")
    run: str
    cells: list[CellLayersOutput]
    sweeps: list[SweepOutput]
    missing: list[str]


# From a study of layers to the answer for programs.

LAYER_COLUMNS = (
    *("target", "workload", "level", "trial", "layer", "kind", "name", "basis", "op"),
    *("rate", "bandwidth", "mean_size", "p50_size", "p99_size", "merged", "latency", "in_flight"),
    *("shared", "unobserved"),
)


def layers_output(study: LayerStudy) -> LayersOutput:
    return LayersOutput(
        run=study.run.id,
        cells=[_cell(one) for one in study.cells],
        sweeps=[_sweep(one) for one in study.sweeps],
        missing=list(study.missing),
    )


def layer_rows(answer: LayersOutput) -> Iterator[tuple[object, ...]]:
    """Rows under LAYER_COLUMNS: one for each direction of each layer, and one without a direction
    for a layer that has none."""
    for cell in answer.cells:
        for place, layer in enumerate(cell.layers):
            lead = (
                *(cell.target, cell.workload, cell.level, cell.trial, place),
                *(layer.kind, layer.name, layer.basis),
            )
            end = (layer.shared, layer.unobserved)
            for flow in layer.flows:
                sizes = flow.sizes
                yield (
                    *lead,
                    flow.op,
                    *(flow.rate.value, flow.bandwidth.value, flow.mean_size),
                    *((sizes.p50, sizes.p99) if sizes else (None, None)),
                    *(flow.merged.value, flow.latency.value, flow.in_flight.value),
                    *end,
                )
            if not layer.flows:
                yield (*lead, "", *(None,) * 7, layer.in_flight.value, *end)


def _cell(one: CellLayers) -> CellLayersOutput:
    found, explanation = one.median, one.explanation
    stalls = explanation.stalls
    size = object_size(found.layers)
    return CellLayersOutput(
        target=one.target,
        workload=one.workload,
        level=one.level,
        trial=found.trial.record.label,
        layers=[_layer(layer, size) for layer in found.layers],
        steps=[_step(step) for step in found.steps],
        copies=found.copies,
        explanation=list(explanation.sentences),
        little=_little(explanation.little) if explanation.little else None,
        stalls=StallsOutput(
            for_receiver_share=stalls.for_receiver_share,
            for_sender_share=stalls.for_sender_share,
            full_share=stalls.full_share,
            empty_share=stalls.empty_share,
            slower=stalls.slower,
        )
        if stalls
        else None,
        lost_at=found.steps.index(explanation.lost_at) if explanation.lost_at else None,
        settings=[
            SettingOutput(
                name=setting.name,
                value=setting.value,
                relevance=setting.relevance.value,
                sentence=setting.sentence,
                evidence=dict(setting.evidence),
            )
            for setting in one.settings
        ],
        sums=[
            SumOutput(
                trial=part.trial,
                op=part.op.value,
                above=part.above,
                below=part.below,
                difference=part.difference,
                adds_up=part.adds_up,
            )
            for part in one.sums
        ],
        refused=list(one.refused),
        notes=list(found.notes),
    )


def _layer(layer: LayerFlow, object_bytes: int | None) -> LayerOutput:
    return LayerOutput(
        kind=layer.kind.value if layer.kind else "engine",
        name=layer.name,
        devices=list(layer.devices),
        facts=dict(layer.facts),
        basis=layer.basis.value,
        flows=[_flow(flow, object_bytes) for flow in layer.flows.values()],
        in_flight=_figure(layer.in_flight),
        shared=layer.shared,
        unobserved=layer.unobserved,
        notes=list(layer.notes),
    )


def _flow(flow: Flow, object_bytes: int | None) -> FlowOutput:
    return FlowOutput(
        op=flow.op.value,
        rate=_figure(flow.rate),
        bandwidth=_figure(flow.bandwidth),
        mean_size=flow.mean_size_bytes,
        merged=_figure(flow.merged),
        latency=_figure(flow.latency),
        in_flight=_figure(flow.in_flight),
        sizes=_sizes(flow.sizes, object_bytes) if flow.sizes else None,
        sizes_absent="" if flow.sizes else flow.sizes_absent,
    )


def _figure(one: Figure) -> FigureOutput:
    return FigureOutput(value=one.value, source=one.source, absent=one.absent)


def _sizes(sizes: Sizes, object_bytes: int | None) -> SizesOutput:
    return SizesOutput(
        source=sizes.source,
        exact=sizes.exact,
        requests=sizes.requests,
        lost=sizes.lost,
        p50=sizes.quantile_bytes(0.5),
        p90=sizes.quantile_bytes(0.9),
        p99=sizes.quantile_bytes(0.99),
        full_object_share=sizes.share_from(object_bytes) if object_bytes else None,
        counts=[
            SizeOutput(bytes=size, requests=count)
            for size, count in sorted(sizes.counts.items())
            if count
        ],
    )


def _step(step: Step) -> StepOutput:
    return StepOutput(
        op=step.op.value,
        above=step.above,
        below=step.below,
        through=list(step.through),
        bytes_ratio=step.bytes_ratio,
        bytes_ratio_least=step.ratio_bounds[0] if step.ratio_bounds else None,
        bytes_ratio_most=step.ratio_bounds[1] if step.ratio_bounds else None,
        operations_ratio=step.operations_ratio,
        size_ratio=step.size_ratio,
        in_flight_ratio=step.in_flight_ratio,
        one_to_one=step.one_to_one,
        difference=step.difference,
        adds_up=step.adds_up,
        open_for=step.open_for,
        reasons=list(step.reasons),
    )


def _little(one: Little) -> LittleOutput:
    return LittleOutput(
        op=one.op.value,
        layer=one.place,
        size=one.size_bytes,
        median_size=one.median_bytes,
        in_flight=one.in_flight,
        latency=one.latency_s,
        product=one.product_bps,
        throughput=one.throughput_bps,
        difference=one.difference,
        closes=one.closes,
        object_bytes=one.object_bytes,
        requests_per_object=one.objects,
    )


def _sweep(sweep: RecordSweep) -> SweepOutput:
    return SweepOutput(
        workload=sweep.workload, level=sweep.level, rows=[_row(one) for one in sweep.rows]
    )


def _row(one: SweepRow) -> SweepRowOutput:
    little = one.little
    return SweepRowOutput(
        target=one.target,
        record_bytes=one.record_bytes,
        throughput=one.throughput_bps,
        throughputs=list(one.throughputs_bps),
        refused=list(one.refused),
        block_size=one.block_bytes,
        layer=one.little_at,
        size=little.size_bytes if little else None,
        in_flight=little.in_flight if little else None,
        latency=little.latency_s if little else None,
        product=little.product_bps if little else None,
        requests_per_object=little.objects if little else None,
    )
