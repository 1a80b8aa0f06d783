"""bimodal-latency: two kinds of I/O behind one mean, one much slower than the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from leadline.audit.evidence import JobEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import Operation
from leadline.stats.histogram import LatencyHistogram
from leadline.units import format_latency

# Methodology: a median this far below the mean.
APART = 10.0
# One stall of a second can lift the mean of a short run; a second mode is more than a few I/Os.
FEWEST_SLOW = 10
_REMEDY = (
    "Use percentiles. Find what answers the fast I/Os (a cache?) and what delays the slow ones."
)


@rule("bimodal-latency", "The median latency is far below the mean: two kinds of I/O.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    if evidence.trial.drilled:
        return
    for operation in evidence.job.operations:
        histogram = operation.total.histogram if operation.total else None
        if histogram is None or not histogram.count:
            yield from _printed(evidence, operation)
            continue
        median, mean = histogram.quantile_s(0.5), histogram.mean_s()
        slow = int(histogram.counts[histogram.values_ns > mean * 1e9].sum())
        if median >= mean / APART or slow < FEWEST_SLOW:
            continue
        low, high = _modes(histogram, mean)
        share = slow / histogram.count
        yield RuleFinding(
            severity=Severity.INFO,
            op=operation.op,
            latency_only=True,
            evidence={
                "latency_p50_s": median,
                "latency_mean_s": mean,
                "low_mode_s": low,
                "high_mode_s": high,
                "slow_share": share,
            },
            message=f"Latencies have two modes, about {format_latency(low)} and "
            f"{format_latency(high)}; {share:.2%} of the I/Os are slow. They make most of the "
            f"mean of {format_latency(mean)}.",
            remedy=_REMEDY,
        )


def _printed(evidence: JobEvidence, operation: Operation) -> Iterator[RuleFinding]:
    """The same test on printed percentiles, which have no modes."""
    for latency in (operation.total, operation.completion):
        if latency is None or latency.mean_s is None:
            continue
        median, mean = latency.quantile_s(0.5), latency.mean_s
        if not median or median * (1 + evidence.rounding(median)) >= mean / APART:
            continue
        # The lowest percentile above the mean bounds the share of slow I/Os.
        above = [q for q, value in latency.percentiles.items() if value > mean]
        count = latency.count or operation.total_ios or evidence.total_ios
        if not above or (count is not None and (1 - min(above)) * count < FEWEST_SLOW):
            continue
        yield RuleFinding(
            severity=Severity.INFO,
            op=operation.op,
            latency_only=True,
            evidence={
                "latency_p50_s": median,
                "latency_mean_s": mean,
                "slow_share": 1 - min(above),
            },
            message=f"Half of the I/Os took at most {format_latency(median)} and the mean is "
            f"{format_latency(mean)}. At least {1 - min(above):.2%} are much slower and make most "
            f"of it.",
            remedy=_REMEDY,
        )
        return


def _modes(histogram: LatencyHistogram, mean_s: float) -> tuple[float, float]:
    """Return the seconds of both modes: of most I/Os, and of most time above the mean.

    Buckets are grouped by octave: single buckets are too fine for a peak.
    """
    octave = np.floor(np.log2(np.maximum(histogram.values_ns, 1))).astype(np.int64)
    counts = np.bincount(octave, weights=histogram.counts)
    time_ns = np.multiply(histogram.counts, histogram.values_ns, dtype=np.float64)
    time = np.bincount(octave, weights=time_ns)
    above = np.where(np.arange(len(time)) >= np.floor(np.log2(mean_s * 1e9)), time, 0)
    low, high = int(np.argmax(counts)), int(np.argmax(above))
    return time[low] / counts[low] / 1e9, time[high] / counts[high] / 1e9
