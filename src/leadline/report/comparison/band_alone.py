"""What a verdict is worth that rests on one number a side and the band."""

from __future__ import annotations

from leadline.analysis.evidence import REPEATS_DEVIATION
from leadline.stats.repeats import Scatter, share_beyond

# Coefficients of variation of 180 groups of three runs on a production Ceph cluster: median, 90th
# percentile and worst (methodology, section 1).
REPEATS = Scatter(median=0.016, ninetieth=REPEATS_DEVIATION, worst=0.36)


def called_by_chance(band: float) -> float:
    """The share of cells in which nothing changed that a band of +-`band` calls changed, one
    number a side, where repeats scatter as published."""
    return share_beyond(1 - band, 1 + band, REPEATS)
