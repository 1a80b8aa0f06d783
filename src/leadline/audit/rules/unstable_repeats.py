"""unstable-repeats: trials of one cell that differ too much."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from leadline.audit.evidence import CellEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.units import format_bandwidth, format_iops

# Methodology; 180 groups of three on a production Ceph cluster: median 2.0 %, 90 % below 16.1 %.
VARIATION = 0.10
EXTREME = 0.50
# Two trials have only a distance: 20 % of the mean is a deviation of 10 % to either side.
PAIR_RANGE = 0.20


@rule("unstable-repeats", "Trials of one cell differ too much from each other.", CellEvidence)
def check(evidence: CellEvidence) -> Iterator[RuleFinding]:
    for series in evidence.series:
        rates, name = series.rates, "bandwidth_bps" if series.in_bytes else "iops"
        if len(rates) < 2:
            continue
        median, largest = statistics.median(rates), max(rates)
        if not median:
            continue
        # Sums of imported figures may overflow; shares of the largest do not.
        shares = [rate / largest for rate in rates]
        mean = statistics.fmean(shares) * largest
        variation = statistics.stdev(shares) / statistics.fmean(shares)
        extreme = max(rates, key=lambda rate: abs(rate - median))
        off = abs(extreme - median) / median
        spread = (max(rates) - min(rates)) / mean
        if len(rates) == 2:
            unstable = spread > PAIR_RANGE
            how = f"differ by {spread:.0%} of their mean"
        else:
            unstable = variation > VARIATION or off > EXTREME
            how = (
                f"vary by {variation:.0%} (coefficient of variation), the extreme one is "
                f"{off:.0%} from the median"
            )
        if unstable:
            yield RuleFinding(
                severity=Severity.WARNING,
                op=series.op,
                workload=series.workload,
                evidence={
                    "trials": len(rates),
                    "variation": variation,
                    f"median_{name}": median,
                    f"extreme_{name}": extreme,
                },
                message=f"The {len(rates)} trials {how}: "
                + (
                    f"{format_bandwidth(min(rates))} to {format_bandwidth(max(rates))} MiB/s."
                    if series.in_bytes
                    else f"{format_iops(min(rates))} to {format_iops(max(rates))} IOPS."
                ),
                remedy="Repeat more often, and find what changes between trials: other load, "
                "caches, burst credits.",
            )
