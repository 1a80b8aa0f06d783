"""What `leadline.layers` gives: layers and the sweep over record sizes as Arrow tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

    from leadline.analysis.layers.study import LayerStudy
    from leadline.report.layers.output import LayersOutput


class OpenLayers:
    """The layers of a run; `study` is what the command line prints."""

    def __init__(self, study: LayerStudy) -> None:
        self.study = study

    def __repr__(self) -> str:
        return f"<Layers of {self.study.run.id}: {len(self.study.cells)} cells>"

    @cached_property
    def answer(self) -> LayersOutput:
        """What `leadline layers --format json` prints, as an object."""
        from leadline.report.layers.output_making import layers_output

        return layers_output(self.study)

    def flows(self) -> pyarrow.Table:
        """One row per cell, layer and direction, with the columns of `leadline layers --format
        csv`: rates per second, sizes in bytes, latencies in seconds, null where not told."""
        import pyarrow as pa

        from leadline.report.layers.output_making import LAYER_COLUMNS, layer_rows

        texts = (
            *("target", "workload", "level", "trial", "kind", "name", "basis", "op"),
            *("shared", "unobserved"),
        )
        whole = ("layer", "p50_size", "p99_size")
        columns = [
            (name, pa.string() if name in texts else pa.int64() if name in whole else pa.float64())
            for name in LAYER_COLUMNS
        ]
        rows = [dict(zip(LAYER_COLUMNS, row, strict=True)) for row in layer_rows(self.answer)]
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))

    def sweep(self) -> pyarrow.Table:
        """One row per cell that stands beside others of another record size: `throughput` the
        median of the trials in bytes per second, size x in_flight / latency = product at the layer
        named, null where nobody tells."""
        import pyarrow as pa

        numbers = ("throughput", "block_size", "size", "in_flight", "latency", "product")
        columns = {
            **dict.fromkeys(("workload", "level", "target"), pa.string()),
            "record_bytes": pa.int64(),
            **dict.fromkeys(numbers, pa.float64()),
            "layer": pa.string(),
        }
        rows = [
            {"workload": one.workload, "level": one.level, **row.model_dump(include=set(columns))}
            for one in self.answer.sweeps
            for row in one.rows
        ]
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))
