"""The load itself: a queue that was not filled, round trips waited for, nothing used up."""

from __future__ import annotations

from leadline.analysis.bottleneck.model import (
    Bottleneck,
    LevelEvidence,
    Strength,
    Suspect,
    suspect,
)
from leadline.units import format_iops, format_latency

# As in the rule queue-depth-not-reached.
REACHED = 0.90
# Of the mean latency: the way, more than all that is done at its ends.
MOSTLY_THE_WAY = 0.50
PARTLY_THE_WAY = 0.25
# A tenth more throughput from more load is beyond the noise of repeats on a quiet system.
MORE = 1.10
# A rate counts as kept from here on.
KEPT = 0.95
# I/Os in flight that count as one at a time.
ALONE = 1.5


def queue_depth(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.QUEUE_DEPTH
    if level.offered_iops is not None:
        said = "The load is a rate, not a number of I/Os in flight."
        return suspect(kind, Strength.EXCLUDED, said)
    if level.asked is None or level.in_flight is None:
        said = "How many I/Os were in flight, or were to be, is not known."
        return suspect(kind, Strength.NOT_MEASURED, said)
    share = level.in_flight / level.asked
    strength = Strength.NAMED if share < REACHED else Strength.EXCLUDED
    said = f"{level.asked} I/Os were asked to be in flight and {level.in_flight:.1f} were."
    return suspect(
        kind, strength, said, asked=level.asked, in_flight=level.in_flight, reached_share=share
    )


def round_trips(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.ROUND_TRIPS
    trip, trips, mean = level.round_trip_s, level.trips, level.latency_mean_s
    if trips == 0:
        said = "No I/O crosses from one zone to another."
        return suspect(kind, Strength.EXCLUDED, said)
    if trip is None or trips is None or not mean:
        said = (
            "No round trips between zones were measured, or how many an I/O waits for is not known."
        )
        return suspect(kind, Strength.NOT_MEASURED, said)
    share = trip * trips / mean
    strength = Strength.EXCLUDED
    if share >= PARTLY_THE_WAY:
        strength = Strength.NAMED if share >= MOSTLY_THE_WAY else Strength.SUSPECTED
    said = (
        f"An I/O waits for {trips:.3g} round trips of {format_latency(trip)} on average, "
        f"{min(1.0, share):.0%} of its mean latency of {format_latency(mean)}."
    )
    return suspect(
        kind,
        strength,
        said,
        round_trip_s=trip,
        round_trips=trips,
        latency_mean_s=mean,
        latency_share=share,
    )


def not_saturated(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.NOT_SATURATED
    iops, more = level.iops, level.more_iops
    numbers = {
        "iops": iops,
        "iops_at_more_load": more,
        "in_flight": level.in_flight,
        "offered_iops": level.offered_iops,
    }
    if level.offered_iops is not None:
        if iops is None:
            said = "Whether the rate offered was kept is not known."
            return suspect(kind, Strength.NOT_MEASURED, said, **numbers)
        kept = iops >= KEPT * level.offered_iops
        said = (
            f"{format_iops(iops)} of the {format_iops(level.offered_iops)} offered were done: the "
            + ("rate was kept." if kept else "queue grew, more than the storage does was offered.")
        )
        return suspect(kind, Strength.NAMED if kept else Strength.EXCLUDED, said, **numbers)
    if iops and more is not None and more >= MORE * iops:
        said = f"More load gave up to {more / iops:.2f} times the throughput."
        return suspect(kind, Strength.NAMED, said, **numbers)
    if level.in_flight is not None and level.in_flight <= ALONE:
        said = (
            "One I/O was in flight at a time: throughput is one over the latency, whatever else "
            "the storage could do meanwhile."
        )
        return suspect(kind, Strength.NAMED, said, **numbers)
    if more is not None:
        said = "More load gave no more throughput, within a tenth."
        return suspect(kind, Strength.EXCLUDED, said, **numbers)
    if level.in_flight is not None and level.osds and level.in_flight < len(level.osds):
        said = (
            f"{level.in_flight:.1f} I/Os were in flight on {len(level.osds)} OSDs: on average some "
            "had none."
        )
        return suspect(kind, Strength.SUSPECTED, said, osds=float(len(level.osds)), **numbers)
    said = "No level with more load tells whether it would have given more."
    return suspect(kind, Strength.NOT_MEASURED, said, **numbers)
