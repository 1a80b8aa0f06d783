"""The delay between zones: set, then measured, since only what was measured is known."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab.forwarder import NetworkUnavailable
from leadline.lab.network import RoundTrip, ZoneNetwork
from leadline.lab.state import RoundTripRecord

PINGS = 50
_INTERVAL_S = 0.005


def measure_round_trips(network: ZoneNetwork, count: int = PINGS) -> tuple[RoundTripRecord, ...]:
    """Between all pairs of zones, at the same time. Raises LeadlineError(`lab-failed`)."""
    pairs = list(combinations([zone.name for zone in network.zones], 2))
    if not pairs:
        return ()
    try:
        with ThreadPoolExecutor(max_workers=len(pairs)) as pool:
            measured = list(pool.map(lambda pair: _ping(network, pair[0], pair[1], count), pairs))
    except (NetworkUnavailable, ValueError) as error:
        raise LeadlineError(
            errors.LAB_FAILED,
            f"the round trips between the zones cannot be measured: {error}",
            context=[str(network.folder)],
        ) from error
    return tuple(_record(one) for one in measured)


def set_rtt(network: ZoneNetwork, rtt_s: float) -> None:
    """Between all zones. Raises LeadlineError(`lab-failed`)."""
    try:
        network.set_rtt_between_all(rtt_s)
    except (NetworkUnavailable, ValueError, OSError) as error:
        raise LeadlineError(
            errors.LAB_FAILED,
            f"the delay between the zones cannot be set: {error}",
            context=[str(network.folder)],
        ) from error


def require_obeyed(round_trips: tuple[RoundTripRecord, ...], rtt_s: float) -> None:
    """A delay is a lower bound of every round trip: raise LeadlineError(`lab-failed`) where the
    quickest beats it. (ping rounds to three digits.)"""
    for one in round_trips:
        if one.min_s < 0.99 * rtt_s:
            raise LeadlineError(
                errors.LAB_FAILED,
                f"the delay is not in force: {one.source} to {one.destination} took "
                f"{one.min_s * 1e3:.3g} ms, less than the {rtt_s * 1e3:.3g} ms set",
            )


def _ping(network: ZoneNetwork, source: str, destination: str, count: int) -> RoundTrip:
    return network.measure_rtt(source, destination, count=count, interval_s=_INTERVAL_S)


def _record(one: RoundTrip) -> RoundTripRecord:
    return RoundTripRecord(
        source=one.source,
        destination=one.destination,
        sent=one.sent,
        received=one.received,
        min_s=one.min_s,
        median_s=one.median_s,
        max_s=one.max_s,
        raw=one.raw,
    )
