"""How far an open loop may stay behind what was offered to it, for the engine that ends a trial
and for the audit that reads one."""

from __future__ import annotations

import math

REACHED_SHARE = 0.95
# Arrivals of a Poisson process scatter by the root of their number; three of that are chance.
DEVIATIONS = 3.0


def chance_iops(offered_iops: float, ran_s: float) -> float:
    """By how many I/Os per second Poisson arrivals of `ran_s` seconds may miss their rate."""
    return DEVIATIONS * math.sqrt(offered_iops / ran_s)
