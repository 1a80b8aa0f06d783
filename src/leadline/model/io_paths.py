"""Messages of one I/O to a Ceph pool, and the least time that the network takes for them.

Pure functions of a placement, the client's place and the round trips between places: they know
nothing of runs, inventories or zones. A place is a zone, a rack or a host: hops inside a place
take no time.

A path is a sequence of steps. A step is a set of round trips in parallel, and ends with the
longest:

    primary              client - primary
    nearest copy         client - copy in its place, else the primary
    data shards          client - primary; primary - other data shards
    one shard            client - primary; primary - the shard that has the data
    copies, shards       client - primary; primary - all other members
    read-modify-write    client - primary; primary - other data shards; primary - all other shards
    partial write        client - primary; primary - shards that are read; - shards that are written

Sources: src/osd/ReplicatedBackend.cc (submit_transaction: the primary sends to all replicas at once
and replies after the last commit), src/osd/ECBackend.cc (whole stripes are read and written),
src/osd/ECTransaction.cc (WritePlanObj: with allow_ec_optimizations the data shards that are not
written are read, or the old data and parity where those are strictly fewer).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

# A step: the places at both ends of its round trips.
Step = tuple[tuple[str, str], ...]

# Possible acting sets are enumerated up to this number; of more, as many are rotated or drawn.
_ENUMERATED = 1000


class IoPath(StrEnum):
    """The steps of an I/O."""

    PRIMARY = "primary"
    NEAREST_COPY = "nearest-copy"
    DATA_SHARDS = "data-shards"
    ONE_SHARD = "one-shard"
    COPIES = "copies"
    SHARDS = "shards"
    READ_MODIFY_WRITE = "read-modify-write"
    PARTIAL_WRITE = "partial-write"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingSet:
    """The places of a placement group's members, of erasure code in the order of the shards (None:
    missing). The first `data` of them are data shards; `primary` is an index. `weight` is its
    share of the I/Os, relative to the other acting sets."""

    members: tuple[str | None, ...]
    primary: int = 0
    data: int = 1
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripTimes:
    """Seconds from one place to another and back: of the pairs in `between`, and of all others."""

    other_s: float
    between: Mapping[frozenset[str], float] = field(default_factory=dict)

    def seconds(self, a: str, b: str) -> float:
        return 0.0 if a == b else self.between.get(frozenset((a, b)), self.other_s)

    @property
    def longest_s(self) -> float:
        return max(self.other_s, *self.between.values(), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSummary:
    """One I/O of one client over all acting sets.

    `messages` counts requests and replies, `remote_messages` those that leave a place: averages.
    `least_trips`, `trips` (average) and `most_trips` count the steps that leave a place. `floor_s`
    is the average network time, `least_s` and `most_s` its extremes, `deviation_s` its standard
    deviation over the acting sets.
    """

    messages: float
    remote_messages: float
    least_trips: float
    trips: float
    most_trips: float
    least_s: float
    floor_s: float
    most_s: float
    deviation_s: float


def find_paths(path: IoPath, acting: ActingSet, client: str) -> tuple[tuple[Step, ...], ...]:
    """Return the steps of an I/O: several alternatives where it concerns one of the data shards.

    Raises ValueError if the primary is missing.
    """
    primary = acting.members[acting.primary]
    if primary is None:
        raise ValueError(f"the primary of {acting} has no place")

    def fan_out(members: Iterable[int]) -> Step:
        places = (acting.members[index] for index in members if index != acting.primary)
        return tuple((primary, place) for place in places if place is not None)

    to_primary: Step = ((client, primary),)
    data, everyone = range(acting.data), range(len(acting.members))
    coding = range(acting.data, len(acting.members))
    match path:
        case IoPath.PRIMARY:
            return ((to_primary,),)
        case IoPath.NEAREST_COPY:
            near = client if client in acting.members else primary
            return ((((client, near),),),)
        case IoPath.DATA_SHARDS:
            return ((to_primary, fan_out(data)),)
        case IoPath.ONE_SHARD:
            return tuple((to_primary, fan_out([shard])) for shard in data)
        case IoPath.COPIES | IoPath.SHARDS:
            return ((to_primary, fan_out(everyone)),)
        case IoPath.READ_MODIFY_WRITE:
            return ((to_primary, fan_out(data), fan_out(everyone)),)
        case IoPath.PARTIAL_WRITE:
            found = []
            for shard in data:
                unwritten, old = [one for one in data if one != shard], [shard, *coding]
                read = old if len(old) < len(unwritten) else unwritten
                found.append((to_primary, fan_out(read), fan_out([shard, *coding])))
            return tuple(found)


def summarise_paths(
    path: IoPath, placement: Sequence[ActingSet], client: str, times: RoundTripTimes
) -> PathSummary:
    """Average the paths of one client's I/Os over a placement.

    Raises ValueError without an acting set, or if a primary is missing.
    """
    whole = sum(acting.weight for acting in placement)
    if whole <= 0:
        raise ValueError("a placement without acting sets")
    messages = remote = trips = mean_s = square = 0.0
    counts: list[int] = []
    seconds: list[float] = []
    for acting in placement:
        found = find_paths(path, acting, client)
        share = acting.weight / whole / len(found)
        own_s = 0.0
        for steps in found:
            hops = [hop for step in steps for hop in step]
            count = sum(any(a != b for a, b in step) for step in steps)
            length_s = sum(
                max((times.seconds(*hop) for hop in step), default=0.0) for step in steps
            )
            messages += share * 2 * len(hops)
            remote += share * 2 * sum(a != b for a, b in hops)
            trips += share * count
            own_s += length_s / len(found)
            counts.append(count)
            seconds.append(length_s)
        mean_s += acting.weight / whole * own_s
        square += acting.weight / whole * own_s**2
    return PathSummary(
        messages=messages,
        remote_messages=remote,
        least_trips=min(counts),
        trips=trips,
        most_trips=max(counts),
        least_s=min(seconds),
        floor_s=mean_s,
        most_s=max(seconds),
        deviation_s=math.sqrt(max(0.0, square - mean_s**2)),
    )


def merge_alike(placement: Iterable[ActingSet]) -> tuple[ActingSet, ...]:
    """Merge acting sets that cost the same: neither the order of data shards nor that of the other
    members counts."""
    weights: dict[tuple[tuple[str | None, ...], int, int], float] = {}
    for acting in placement:
        key = (*_canonical(acting), acting.data)
        weights[key] = weights.get(key, 0.0) + acting.weight
    return tuple(
        ActingSet(members=members, primary=primary, data=data, weight=weight)
        for (members, primary, data), weight in weights.items()
    )


def _canonical(acting: ActingSet) -> tuple[tuple[str | None, ...], int]:
    """Sort the members, the primary first in its part: (members, index of the primary)."""
    parts = (range(acting.data), range(acting.data, len(acting.members)))
    order = [
        index
        for part in parts
        for index in sorted(
            part, key=lambda index: (index != acting.primary, acting.members[index] or "")
        )
    ]
    return tuple(acting.members[index] for index in order), order.index(acting.primary)


# --- placements that are not known ---------------------------------------------------------------


def draw_placement(
    shares: Mapping[str, float], size: int, *, apart: bool, data: int = 1
) -> tuple[ActingSet, ...]:
    """Return the acting sets that CRUSH may choose, weighted by their probability.

    Each member is drawn in proportion to the places' `shares` (straw2), the first is the primary.
    `apart`: no two in the same place, as long as there is another.

    Raises ValueError without places or members.
    """
    places = {place: share for place, share in shares.items() if share > 0}
    if not places or size < 1:
        raise ValueError(f"{size} members cannot be placed in {len(places)} places")
    if _count_draws(len(places), size, data) <= _ENUMERATED:
        return _enumerate(places, size, data, apart=apart)
    names = list(places)
    if apart and size <= len(names):
        # Rotation gives each place each position once: exact for places that are alike.
        return tuple(
            ActingSet(
                members=tuple((names[turn:] + names[:turn])[:size]),
                data=data,
                weight=places[names[turn]],
            )
            for turn in range(len(names))
        )
    chance = random.Random(0)
    return merge_alike(
        ActingSet(members=tuple(_draw(places, size, chance, apart=apart)), data=data)
        for _ in range(_ENUMERATED)
    )


def _count_draws(places: int, size: int, data: int) -> int:
    """Count the acting sets of `merge_alike` without regard to `apart`: an upper limit."""
    others, coding = max(0, min(data, size) - 1), size - max(1, min(data, size))
    return places * math.comb(places + others - 1, others) * math.comb(places + coding - 1, coding)


def _draw(
    places: Mapping[str, float], size: int, chance: random.Random, *, apart: bool
) -> Iterator[str]:
    left = dict(places)
    for _ in range(size):
        (place,) = chance.choices(list(left), list(left.values()))
        yield place
        if apart:
            left = {name: share for name, share in left.items() if name != place} or dict(places)


def _enumerate(
    places: Mapping[str, float], size: int, data: int, *, apart: bool
) -> tuple[ActingSet, ...]:
    found = (ActingSet(members=(place,), weight=share) for place, share in places.items())
    placement = tuple(found)
    for drawn in range(1, size):
        following = []
        for acting in placement:
            times = Counter(acting.members)
            # In turn: a place has a second member only when every place has one.
            fewest = min(times[place] for place in places)
            left = {
                place: share
                for place, share in places.items()
                if not apart or times[place] == fewest
            }
            whole = sum(left.values())
            following += [
                ActingSet(
                    members=(*acting.members, place),
                    data=min(data, drawn + 1),
                    weight=acting.weight * share / whole,
                )
                for place, share in left.items()
            ]
        placement = merge_alike(following)
    return placement
