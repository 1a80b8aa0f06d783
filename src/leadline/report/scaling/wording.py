"""Loads, levels and intervals as people read them."""

from __future__ import annotations

import math

from leadline.analysis.scaling.curves import Axis, LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import Range
from leadline.metrics import Metric
from leadline.report.wording import count_text, title, visible


def short_title(metric: Metric) -> str:
    """`p99`, `mean`."""
    return title(metric).split()[0]


def level_text(point: LoadPoint) -> str:
    """The level's own name; of an import, which has none, what is in flight."""
    return visible(point.level) or f"{point.load.in_flight:,} in flight"


def load_text(curve: LoadCurve, load: float) -> str:
    """`3 clients`, `64 I/Os in flight`; what was fitted may lie between: `3.4 clients`."""
    if not load.is_integer():
        noun = "clients" if curve.axis is Axis.CLIENTS else "I/Os in flight"
        return f"{number_text(load)} {noun}"
    if curve.axis is Axis.CLIENTS:
        return count_text(int(load), "client")
    return count_text(int(load), "I/O in flight", "I/Os in flight")


def number_text(value: float) -> str:
    """About three digits: `0.0312`, `3.4`, `12,300`; `∞` for what has no end."""
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def range_text(found: Range) -> str:
    """`2 to 4`; `< 2` and `> 4` where an end lies beyond what was measured."""
    low = f"{'< ' if found.before else ''}{number_text(found.low)}"
    high = f"{'> ' if found.beyond else ''}{number_text(found.high)}"
    return low if low == high else f"{low} to {high}"


def interval_text(low: float, high: float) -> str:
    return f"{number_text(low)} to {number_text(high)}"
