"""Differences of the network, as measured."""

from __future__ import annotations

from leadline.inventory.differences.model import Difference, Topic
from leadline.units import format_latency

ROUND_TRIP = "network.inter_zone_rtt"
NOT_MEASURED = "not measured"
# Two ping medians on an idle network differ by so much at most.
_ALIKE_SHARE = 0.1
_ALIKE_S = 50e-6


def round_trip_difference(base_s: float | None, candidate_s: float | None) -> Difference | None:
    """Measured round trips between zones, in seconds (None: not measured on that side). None where
    both are unknown, or alike: less than a tenth or 50 us apart."""
    if base_s is None and candidate_s is None:
        return None
    if base_s is not None and candidate_s is not None:
        apart = abs(candidate_s - base_s)
        if apart <= max(_ALIKE_SHARE * max(base_s, candidate_s), _ALIKE_S):
            return None
    return Difference(
        path=ROUND_TRIP,
        topic=Topic.TOPOLOGY,
        baseline=_text(base_s),
        candidate=_text(candidate_s),
        meaning="Median round trip between zones (of a single zone: between failure domains).",
    )


def _text(rtt_s: float | None) -> str:
    return NOT_MEASURED if rtt_s is None else format_latency(rtt_s)
