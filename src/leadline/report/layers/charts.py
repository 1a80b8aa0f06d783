"""Sizes of requests at the layers of a cell, drawn."""

from __future__ import annotations

import math

from leadline.analysis.layers.little import object_size
from leadline.analysis.layers.sizes import Sizes
from leadline.analysis.layers.study import CellLayers
from leadline.metrics import Op
from leadline.report.axes import linear_axis
from leadline.report.document import Line, LineChart, Rule, Scale
from leadline.report.layers.tables import layer_name
from leadline.report.wording import share_text, visible
from leadline.units import format_size

# More marks on the axis run into each other.
_MOST_TICKS = 6


def sizes_chart(anchor: str, cell: CellLayers) -> LineChart | None:
    """The share of requests of each power of two of bytes, a line for each layer whose sizes were
    counted, in the direction in which most was moved; None where no layer below the engine has
    any."""
    op = cell.median.main_op
    told = [
        (layer_name(layer), flow.sizes)
        for layer in cell.median.layers
        if op is not None and (flow := layer.flows.get(op)) is not None and flow.sizes is not None
    ]
    if op is None or not any(name != cell.median.engine.name for name, _ in told):
        return None
    octaves = [octave for _, sizes in told for octave in _octaves(sizes)]
    first, last = min(octaves), max(octaves)
    lines = tuple(
        _line(number, name, sizes, first, last) for number, (name, sizes) in enumerate(told)
    )
    object_bytes = object_size(cell.median.layers)
    reach = max(2.0**last, float(object_bytes or 0))
    bottom, top, ticks = linear_axis(max(share for one in lines for _, share in one.points))
    return LineChart(
        id=anchor,
        title=f"Sizes of {'writes' if op is Op.WRITE else 'reads'} by layer",
        series=tuple(visible(name) for name, _ in told),
        x=_size_scale(2.0**first, reach),
        y=Scale(
            title="share of requests",
            log=False,
            low=bottom,
            high=top,
            ticks=tuple((tick, share_text(tick) if tick else "0") for tick in ticks),
        ),
        lines=lines,
        drawn=True,
        rules=(Rule(value=float(object_bytes), label="object", upright=True),)
        if object_bytes
        else (),
    )


def _octaves(sizes: Sizes) -> dict[int, int]:
    """Requests by the power of two that their size is not below."""
    found: dict[int, int] = {}
    for size, count in sizes.counts.items():
        if count:
            octave = max(0, size.bit_length() - 1)
            found[octave] = found.get(octave, 0) + count
    return found


def _line(number: int, name: str, sizes: Sizes, first: int, last: int) -> Line:
    counts = _octaves(sizes)
    octaves = range(first, last + 1)
    return Line(
        label=visible(name),
        series=number,
        points=tuple((2.0**one, counts.get(one, 0) / sizes.requests) for one in octaves),
        texts=tuple(
            f"{visible(name)}: {counts.get(one, 0):,} of {format_size(2**one)} and more, "
            f"{share_text(counts.get(one, 0) / sizes.requests)}"
            for one in octaves
        ),
    )


def _size_scale(smallest: float, largest: float) -> Scale:
    """A log axis with marks at powers of two."""
    first, last = math.floor(math.log2(smallest)), math.ceil(math.log2(largest))
    every = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
    return Scale(
        title="size of a request",
        log=True,
        low=2.0**first / 1.15,
        high=2.0**last * 1.15,
        ticks=tuple((2.0**one, format_size(2**one)) for one in range(first, last + 1, every)),
    )
