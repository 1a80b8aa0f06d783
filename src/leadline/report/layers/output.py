"""`leadline layers` for programs: the contract `leadline/layers/1`, and the layers as CSV."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leadline.report.output_model import Output


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
