"""`leadline layers` for programs: the contract `leadline/layers/1`, and the layers as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from leadline.analysis.layers.explain import SweepRow, object_size
from leadline.analysis.layers.facts import Fact
from leadline.analysis.layers.model import LayerFlow, Sizes
from leadline.analysis.layers.study import CellLayers, LayerStudy
from leadline.report.answers.base import CellOutput, Output
from leadline.report.pages.layer_words import explanation, words


def _text(value: Any) -> Any:
    return words(value) if value is None or isinstance(value, Fact) else value


# A fact in the words of the page.
Text = Annotated[str, BeforeValidator(_text)]
# The kind of a layer; the engine has none.
Kind = Annotated[str, BeforeValidator(lambda kind: "engine" if kind is None else kind)]


class FigureOutput(Output):
    """A number in base units with its `source`; or null with the cause (`absent`)."""

    value: float | None
    source: str
    absent: Text


class SizeOutput(Output):
    bytes: int
    requests: int


class SizesOutput(Output):
    """Requests by size. `exact`: `counts` and quantiles are exact sizes, else lower bounds of
    buckets up to the next power of two. `lost` requests are missing. `full_object_share`: share of
    requests of at least the object size of the image, null without an image."""

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
    `merged` merged requests/s, `latency` mean seconds, `in_flight` mean operations. `sizes` is
    null for the cause `sizes_absent`."""

    op: str
    rate: FigureOutput
    bandwidth: FigureOutput
    mean_size: float | None
    merged: FigureOutput
    latency: FigureOutput
    in_flight: FigureOutput
    sizes: SizesOutput | None
    sizes_absent: Text


class LayerOutput(Output):
    """`kind` is `engine`, `filesystem`, `zfs`, `fuse`, `nfs`, `block`, `image` or `pool`. `basis`
    is the seconds of its figures: `totals`, `window` or `whole trial`. `shared`: why other users
    use it; `unobserved`: why it has no figures; both empty otherwise."""

    kind: Kind
    name: str
    devices: list[str]
    facts: dict[str, str]
    basis: str
    flows: list[FlowOutput]
    in_flight: FigureOutput
    shared: Text
    unobserved: Text
    notes: list[Text]


class StepOutput(Output):
    """From the layer `above` to the layer `below` (indices of `layers`), through layers without
    figures. Ratios are below / above. `adds_up`: bytes agree within 5 % for layers that pass data
    on unchanged (`one_to_one`); null if unknown, for the cause `open_for`. `bytes_ratio_least` and
    `_most` bound the ratio of layers with different seconds; null for the same seconds."""

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
    open_for: Text
    reasons: list[Text]


class LittleOutput(Output):
    """Little's law: size x in flight / latency = `product` bytes/s at `layer` (index of `layers`).
    `closes`: the product agrees with the engine's `throughput` within 10 %."""

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
    """Shares of a stream's time in which its pipe waited for the receiver or for the sender, and
    in which its buffer was full or empty. `host` receives streams from another host (empty: this
    one), and the pipes on both hosts waited for the link between them in `for_link_share` (null
    without). `slower`: `sender`, `link`, `receiver` or empty."""

    for_receiver_share: float
    for_sender_share: float
    for_link_share: float | None
    full_share: float
    empty_share: float
    slower: str
    host: str


class SettingOutput(Output):
    """`relevance`: `can matter`, `cannot matter` or `not known`; `evidence` are numbers in base
    units."""

    name: str
    value: str
    relevance: str
    sentence: Text = Field(validation_alias=AliasChoices("sentence", "cause"))
    evidence: dict[str, float]


class SumOutput(Output):
    """A sum of one trial that must hold. `above` and `below` are layers by kind and name."""

    trial: str
    op: str
    above: str
    below: str
    difference: float | None
    adds_up: bool | None


class CellLayersOutput(CellOutput):
    """A cell by the trial with the median throughput; `sums` are of all completed trials.
    `lost_at` is the index of the step that loses most concurrency, null without one; `refused` are
    the rules that refuse the cell's throughput."""

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
    notes: list[Text]


class SweepRowOutput(Output):
    """`throughputs` of all completed trials in bytes/s, `throughput` their median; `block_size` the
    mean request at the first block device; `refused` the rules that refuse the throughput; the
    rest is Little's law at `layer`."""

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
    """Values in base units. `missing` names the cells without layers, with the cause."""

    schema_: Literal["leadline/layers/1"] = Field(default="leadline/layers/1", alias="schema")
    run: str
    cells: list[CellLayersOutput]
    sweeps: list[SweepOutput]
    missing: list[Text]


LAYER_COLUMNS = (
    *("target", "workload", "level", "trial", "layer", "kind", "name", "basis", "op"),
    *("rate", "bandwidth", "mean_size", "p50_size", "p99_size", "merged", "latency", "in_flight"),
    *("shared", "unobserved"),
)
_FACTORS = ("size", "in_flight", "latency", "product", "requests_per_object")


def layers_output(study: LayerStudy) -> LayersOutput:
    return LayersOutput(
        run=study.run.id,
        cells=[_cell(cell) for cell in study.cells],
        sweeps=[
            SweepOutput.from_records(sweep, rows=[_row(row) for row in sweep.rows])
            for sweep in study.sweeps
        ],
        missing=[words(cause) for cause in study.missing],
    )


def _cell(cell: CellLayers) -> CellLayersOutput:
    found = cell.median
    lost_at = cell.causes.lost_at
    object_bytes = object_size(found.layers)
    return CellLayersOutput.from_records(
        cell,
        found,
        cell.causes,
        trial=found.trial.record.label,
        layers=[_layer(layer, object_bytes) for layer in found.layers],
        explanation=list(explanation(cell)),
        lost_at=found.steps.index(lost_at) if lost_at else None,
    )


def _layer(layer: LayerFlow, object_bytes: int | None) -> LayerOutput:
    return LayerOutput.from_records(
        layer,
        flows=[
            FlowOutput.from_records(
                flow,
                sizes=_sizes(flow.sizes, object_bytes) if flow.sizes else None,
                sizes_absent=None if flow.sizes else flow.sizes_absent,
            )
            for flow in layer.flows.values()
        ],
    )


def _sizes(sizes: Sizes, object_bytes: int | None) -> SizesOutput:
    counts = [
        SizeOutput(bytes=size, requests=count)
        for size, count in sorted(sizes.counts.items())
        if count
    ]
    return SizesOutput.from_records(
        sizes,
        p50=sizes.quantile_bytes(0.5),
        p90=sizes.quantile_bytes(0.9),
        p99=sizes.quantile_bytes(0.99),
        full_object_share=sizes.share_from(object_bytes) if object_bytes else None,
        counts=counts,
    )


def _row(row: SweepRow) -> SweepRowOutput:
    factors = {name: getattr(row.little, name, None) for name in _FACTORS}
    return SweepRowOutput.from_records(row, **factors)


def layer_rows(answer: LayersOutput) -> Iterator[tuple[object, ...]]:
    """Yield rows of LAYER_COLUMNS: one for each direction of each layer, and one without a
    direction for a layer without I/O."""
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
