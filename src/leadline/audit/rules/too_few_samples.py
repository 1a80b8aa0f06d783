"""too-few-samples: too few I/Os for a percentile."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import CellEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.metrics import PERCENTILES, Metric
from leadline.stats.histogram import samples_needed


@rule("too-few-samples", "A percentile lacks the ten I/Os beyond it that it needs.", CellEvidence)
def check(evidence: CellEvidence) -> Iterator[RuleFinding]:
    if evidence.cell is not None and evidence.cell.workload.lifecycle:
        return  # a storm has as many samples as volumes, and its table says so
    for series in evidence.series:
        counted = series.latencies
        if not counted:
            continue
        had = [metric for metric in PERCENTILES if metric.quantile in series.quantiles]
        hidden = [metric for metric in had if counted < _needed(metric)]
        if not hidden:
            continue
        needed = {f"needed_for_{_short(metric)}": float(_needed(metric)) for metric in hidden}
        yield RuleFinding(
            severity=Severity.INFO,
            op=series.op,
            workload=series.workload,
            latency_only=True,
            evidence={"latencies": counted, "trials": len(series.rates), **needed},
            message=f"{counted:,} {series.op.value}s are too few for "
            f"{' and '.join(_short(metric) for metric in hidden)}, which "
            f"{'is' if len(hidden) == 1 else 'are'} not shown. A percentile needs ten I/Os beyond "
            f"it: {_needed(hidden[-1]):,} in total for {_short(hidden[-1])}.",
            remedy=f"Run {_times(_needed(hidden[-1]) / counted)} times as long or as often for "
            f"{_short(hidden[-1])}.",
        )


def _needed(metric: Metric) -> int:
    assert metric.quantile is not None
    return samples_needed(metric.quantile)


def _times(factor: float) -> str:
    return f"{factor:.1f}" if factor < 10 else f"{factor:,.0f}"


def _short(metric: Metric) -> str:
    """`p99.9` of latency_p999."""
    assert metric.quantile is not None
    return f"p{metric.quantile * 100:.6g}"
