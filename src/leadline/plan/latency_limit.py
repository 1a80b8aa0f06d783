"""A limit that latency must stay below, as people write it: `p99<5ms`."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

from leadline.metrics import Metric
from leadline.units import format_latency, parse_duration

_METRICS = {
    "mean": Metric.LATENCY_MEAN,
    "p50": Metric.LATENCY_P50,
    "p95": Metric.LATENCY_P95,
    "p99": Metric.LATENCY_P99,
    "p99.9": Metric.LATENCY_P999,
    "p99.99": Metric.LATENCY_P9999,
}
_FORM = re.compile(r"\s*(\S+?)\s*<\s*(\S.*?)\s*")


class LatencyLimit(BaseModel):
    """`metric` must be less than `below_s` seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: Metric
    below_s: float = Field(gt=0)

    def __str__(self) -> str:
        name = next(name for name, metric in _METRICS.items() if metric is self.metric)
        return f"{name}<{format_latency(self.below_s)}"


def parse_latency_limit(text: str) -> LatencyLimit:
    """`p99<5ms`, `mean < 800us`. Raises ValueError with a sentence for the user."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no latency limit; write for instance p99<5ms")
    name, value = found[1].lower(), found[2]
    if name not in _METRICS:
        raise ValueError(f"{found[1]!r} is none of {', '.join(_METRICS)}")
    if value[-1].isdigit():
        raise ValueError(f"the limit {text!r} needs its unit: {name}<{value}ms")
    below_s = parse_duration(value)
    if below_s <= 0:
        raise ValueError("a latency is below no limit of 0")
    return LatencyLimit(metric=_METRICS[name], below_s=below_s)
