"""The arithmetic of round trips between zones: what was seen beside what the way can cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.comparison import Explanation
from leadline.analysis.explain.causes import Causes
from leadline.analysis.explain.effects import REDUNDANCY
from leadline.analysis.explain.facts import Cost, Facts, Legs, PoolFacts, ReadFrom, cost, legs
from leadline.analysis.explain.spots import CHANGED, Spot
from leadline.analysis.verdicts import Verdict
from leadline.metrics import Op
from leadline.text import listed, visible
from leadline.units import format_iops, format_latency

# Sentences of explanations: what was seen, and what the way costs.


def observed(spots: Sequence[Spot]) -> str:
    """`Writes at depth 1 take 1.8 ms (rep3) and 1.88 ms (rep2) longer each`, without full stop."""
    extras = [(spot, spot.extra_s) for spot in spots]
    known = [(spot, extra) for spot, extra in extras if extra is not None]
    longer = all(extra >= 0 for _, extra in known)
    word = "longer" if longer else "less"
    values = [abs(extra) for _, extra in known]
    targets = list(dict.fromkeys(visible(spot.target) for spot, _ in known))
    if len(known) <= 4 and len(targets) == len(known):
        amounts = listed(
            f"{format_latency(abs(extra))} ({visible(spot.target)})" for spot, extra in known
        )
    else:
        amounts = f"{format_latency(min(values))} to {format_latency(max(values))}"
        amounts += f" (on {listed(targets, 4)})"
    text = f"{operation(spots)}{depths(spots)} take {amounts} {word} each"
    turns = sum(spot.in_turn for spot in spots)
    if turns:
        which = f"{turns} of the {len(spots)} cells" if turns < len(spots) else "the cells"
        text += f" ({which} had one I/O of a job in flight whatever was asked for: by their rates)"
    elif not all(spot.by_mean for spot in spots):
        text += f", reckoned from rates{_formula(spots)}"
    return text


def operation(spots: Iterable[Spot]) -> str:
    """`Reads`, `Large writes`, `I/Os`."""
    given = list(spots)
    ops = {spot.op for spot in given}
    noun = {Op.READ: "reads", Op.WRITE: "writes", Op.TRIM: "trims", Op.TOTAL: "I/Os"}
    text = listed(noun[op] for op in Op if op in ops)
    large = {spot.streaming for spot in given} == {True}
    return f"Large {text}" if large else f"{text[0].upper()}{text[1:]}"


def depths(spots: Iterable[Spot]) -> str:
    depths = sorted({spot.depth for spot in spots if spot.depth is not None})
    return f" at depth {listed(map(str, depths))}" if depths else ""


def _formula(spots: Sequence[Spot]) -> str:
    """The closed loop's arithmetic with its numbers, where they are of one spot."""
    if len(spots) != 1:
        return ", depth x (1/IOPS - 1/IOPS)"
    ours, theirs = spots[0].iops
    if not ours or not theirs:
        return ""
    return f", {spots[0].depth} x (1/{format_iops(theirs)} - 1/{format_iops(ours)})"


def lower(sentence: str) -> str:
    """A sentence as part of another."""
    return sentence if sentence.startswith("I/O") else f"{sentence[:1].lower()}{sentence[1:]}"


def where(spots: Iterable[Spot]) -> str:
    """`on rep3 and rep2 at depth 1`."""
    given = list(spots)
    targets = dict.fromkeys(visible(spot.target) for spot in given)
    return f"on {listed(targets, 4)}{depths(given)}"


def spread(seconds: Iterable[float]) -> str:
    values = sorted(seconds)
    low, high = format_latency(values[0]), format_latency(values[-1])
    return low if low == high else f"{low} to {high}"


def cost_sentence(way: Cost, facts: Facts) -> str:
    """The way in round trips, their length, and what that costs."""
    side = way.candidate
    if way.base == side:
        average = ""
        if side.expected is not None and side.least != side.most:
            average = f", {_count(side.expected)} on average with primaries in all zones"
        text = f"The way ({side.way}) is {_span(side)}{average}"
    else:
        text = f"The way is {_span(side)} ({side.way}) instead of {_span(way.base)}"
        text += f" ({way.base.way})" if way.base.way != side.way else ""
    return f"{text}; {_lengths(facts)} that costs {_amount(way)}."


def short_cost(way: Cost) -> str:
    return f"Their round trips cost {_amount(way)}."


def _amount(way: Cost) -> str:
    if way.least_s < 0 < way.most_s:
        return f"{format_latency(-way.least_s)} less to {format_latency(way.most_s)} more"
    word = "less" if way.most_s <= 0 else "more"
    least, most = sorted((abs(way.least_s), abs(way.most_s)))
    low, high = format_latency(least), format_latency(most)
    if low == high:
        return f"{high} {word}"
    text = f"{low} to {high} {word}" if least else f"up to {high} {word}"
    if way.expected_s is None:
        return text
    return f"{text}, {format_latency(abs(way.expected_s))} on average"


def _span(side: Legs) -> str:
    least, most = _count(side.least), _count(side.most)
    if least == most:
        return "no round trip" if most == "0" else f"{most} round trip{'' if most == '1' else 's'}"
    return f"{least} to {most} round trip{'' if most == '1' else 's'}"


def _count(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _lengths(facts: Facts) -> str:
    """How long a round trip is, as the beginning of a clause."""
    base_s, candidate_s = facts.base_rtt_s, facts.candidate_rtt_s
    if candidate_s is None:
        return f"at {format_latency(base_s or 0.0)} before, and nothing within one zone now,"
    length = format_latency(candidate_s)
    if base_s is None:
        return f"at {length} instead of nothing within one zone"
    before = format_latency(base_s)
    return f"at {length} each" if before == length else f"at {length} instead of {before}"


# What is seen may lie so much outside what the way costs and still fit: medians of pings are not
# means, and both have noise. At least the noise of a ping.
TOLERANCE = 0.2
LEAST_TOLERANCE_S = 50e-6
# Nobody reads less off a latency.
_ROUNDING_S = 1e-6


class Fit(StrEnum):
    """What was seen, beside what round trips cost."""

    WITHIN = "within"
    TOLERATED = "tolerated"
    LESS = "less"
    MORE = "more"
    OPPOSITE = "opposite"

    @property
    def closes(self) -> bool:
        return self in (Fit.WITHIN, Fit.TOLERATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoned:
    """A spot that changed, and what its way costs."""

    spot: Spot
    cost: Cost
    extra_s: float
    fit: Fit

    @property
    def shallow(self) -> bool:
        """One small I/O at a time."""
        return self.spot.depth == 1 and not self.spot.streaming

    @property
    def way(self) -> tuple[Op, str, str]:
        return self.spot.op, self.cost.base.way, self.cost.candidate.way


def reckon(spot: Spot, facts: Facts) -> Reckoned | None:
    """None where the arithmetic lacks something, or where the way is not longer or shorter."""
    way = way_of(spot, facts)
    extra_s = spot.extra_s
    if way is None or extra_s is None:
        return None
    return Reckoned(spot=spot, cost=way, extra_s=extra_s, fit=fit(extra_s, way))


def way_of(spot: Spot, facts: Facts) -> Cost | None:
    """What round trips cost more in a spot; None where it is not known, or nothing."""
    pools = facts.pools.get(spot.target)
    if pools is None or not facts.measured:
        return None
    trips = []
    for pool, rtt_s in zip(pools, (facts.base_rtt_s, facts.candidate_rtt_s), strict=True):
        if rtt_s is None and pool.zones > 1:
            return None
        # In a single zone without a measurement the network counts as nothing.
        trips.append(rtt_s or 0.0)
    ours, theirs = (_legs(spot, pool) for pool in pools)
    found = cost(ours, theirs, *trips)
    if max(abs(found.least_s), abs(found.most_s)) < LEAST_TOLERANCE_S:
        return None
    return found


def _legs(spot: Spot, pool: PoolFacts) -> Legs:
    return legs(spot.op, pool, streaming=spot.streaming)


def fit(extra_s: float, way: Cost) -> Fit:
    """Where `extra_s` lies beside the least and the most that the way costs."""
    least_s, most_s = way.least_s, way.most_s
    if (least_s >= 0 > extra_s) or (most_s <= 0 < extra_s):
        return Fit.OPPOSITE
    if least_s - _ROUNDING_S <= extra_s <= most_s + _ROUNDING_S:
        return Fit.WITHIN
    slack = max(TOLERANCE * max(abs(least_s), abs(most_s)), LEAST_TOLERANCE_S)
    if least_s - slack <= extra_s <= most_s + slack:
        return Fit.TOLERATED
    below = extra_s < least_s
    return Fit.LESS if below == (most_s > 0) else Fit.MORE


# --- what changed --------------------------------------------------------------------------------


def changed(reckoned: Sequence[Reckoned], facts: Facts, causes: Causes) -> Iterator[Explanation]:
    """An explanation for each way, operation and outcome of what changed: one small I/O at a time
    first, where nothing waits for anything else, then what was in flight together."""
    shallow = [one for one in reckoned if one.shallow]
    checked = {one.way for one in shallow}
    deep = [one for one in reckoned if not one.shallow]
    for group in _grouped(shallow):
        yield _explanation(group, cost_sentence(group[0].cost, facts), causes)
    again = _grouped(one for one in deep if one.way in checked)
    closing = [group for group in again if group[0].fit.closes]
    if closing:
        said = [
            f"{observed([one.spot for one in group])}; {lower(short_cost(group[0].cost))}"
            for group in closing
        ]
        spots = [one.spot for group in closing for one in group]
        said.append("The arithmetic closes there too." + _rest(spots, causes, closes=True))
        yield _of(spots, " ".join(said), causes, closes=True)
    for group in again:
        if not group[0].fit.closes:
            yield _explanation(group, short_cost(group[0].cost), causes)
    for group in _grouped(one for one in deep if one.way not in checked):
        sentence = f"{cost_sentence(group[0].cost, facts)} {_NOT_CLEAN}"
        yield _explanation(group, sentence, causes)


_TOGETHER = "I/Os in flight together also wait for each other, which grows with the way."


def _in_a_row(group: Sequence[Reckoned]) -> str:
    """How often the way would have to be gone by large I/Os that went in turn."""
    most = group[0].cost.most_s
    times = sorted({round(one.extra_s / most) for one in group})
    if most <= 0 or times[0] < 2:
        return "One I/O at a time waits for no other."
    count = str(times[0]) if len(times) == 1 else f"{times[0]} to {times[-1]}"
    return (
        f"It is about {count} times as much: a client that splits a large I/O, and waits for each "
        "part before the next, would go the way so often."
    )


_NOT_CLEAN = "No cell has one small I/O at a time, where the arithmetic is at its cleanest."


def _grouped(reckoned: Iterable[Reckoned]) -> list[list[Reckoned]]:
    groups: dict[tuple[object, ...], list[Reckoned]] = {}
    for one in reckoned:
        outcome = None if one.fit.closes else one.fit
        # A baseline that is both faster here and slower there makes two sentences.
        key = (
            one.way,
            one.cost.least_s,
            one.cost.most_s,
            outcome,
            one.extra_s < 0,
            # What waits in turn does not wait for what is in flight beside it.
            not one.shallow and one.spot.in_turn,
        )
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _explanation(group: Sequence[Reckoned], costs: str, causes: Causes) -> Explanation:
    spots = [one.spot for one in group]
    closes = group[0].fit.closes
    said = [f"{observed(spots)}.", costs, _conclusion(group)]
    if group[0].fit is Fit.MORE and not group[0].shallow:
        said.append(_in_a_row(group) if spots[0].in_turn else _TOGETHER)
    return _of(spots, " ".join(said) + _rest(spots, causes, closes=closes), causes, closes=closes)


def _rest(spots: Sequence[Spot], causes: Causes, *, closes: bool) -> str:
    """What else bears on the cells: its share is not to be told apart from the way's."""
    said = []
    others, copies = causes.others(spots), causes.text_of(REDUNDANCY, spots)
    if copies and not closes:
        said.append(f"The {copies} changes the work of OSDs too, not only the way.")
    if others:
        said.append(f"Also changed: {others}; their share cannot be told apart.")
    if not said and not closes:
        said.append("No other difference was found that bears on it.")
    return "".join(f" {sentence}" for sentence in said)


def _of(spots: Sequence[Spot], text: str, causes: Causes, *, closes: bool) -> Explanation:
    return Explanation(
        paths=causes.paths_of_way(spots, others=True),
        cells=tuple(index for spot in spots for index in spot.indices(CHANGED)),
        text=text,
        closes=closes,
    )


def _conclusion(group: Sequence[Reckoned]) -> str:
    fits = {one.fit for one in group}
    if fits <= {Fit.WITHIN, Fit.TOLERATED}:
        if Fit.TOLERATED in fits:
            return f"The arithmetic closes, to within {TOLERANCE:.0%}.".replace("%", " %")
        return "The arithmetic closes."
    first = group[0]
    most = max(abs(first.cost.least_s), abs(first.cost.most_s))
    least = min(abs(first.cost.least_s), abs(first.cost.most_s))
    if first.fit is Fit.OPPOSITE:
        return "That is the other way round: the arithmetic does not close."
    if first.fit is Fit.LESS:
        gap = spread(least - abs(one.extra_s) for one in group)
        return f"That is {gap} less than the least they can cost: the arithmetic does not close."
    gap = spread(abs(one.extra_s) - most for one in group)
    return (
        f"That is {gap} more than they can cost: round trips alone cannot be what these cells show."
    )


def left_its_zone(spot: Spot, facts: Facts) -> bool:
    """Whether reads took longer though the nearest copy is to answer them, in their zone."""
    if spot.op is not Op.READ or spot.speed is not Verdict.WORSE or not _near(spot, facts):
        return False
    return (spot.extra_s or 0.0) >= LEAST_TOLERANCE_S


def not_near(spots: Sequence[Spot], causes: Causes) -> Iterator[Explanation]:
    """On reads that `left_its_zone` is true of."""
    if not spots:
        return
    others = ", or waited for the writes beside them" if any(one.mixed for one in spots) else ""
    text = (
        f"{observed(spots)} although the nearest copy is to answer them, which does not leave the "
        "zone: the arithmetic does not close. Some may have been sent on to the primary, as a copy "
        f"does that cannot answer yet{others}.{_rest(spots, causes, closes=True)}"
    )
    yield _of(spots, text, causes, closes=False)


# --- what did not change -------------------------------------------------------------------------


def unchanged(spots: Iterable[Spot], facts: Facts, causes: Causes) -> Iterator[Explanation]:
    """On cells that are the same although round trips should show, and on reads that are the same
    because the nearest copy answers."""
    surprising: dict[Op, list[tuple[Spot, float]]] = {}
    near: list[Spot] = []
    for spot in spots:
        if spot.verdict is not Verdict.SAME:
            continue
        if spot.op is Op.READ and _near(spot, facts):
            near.append(spot)
            continue
        way, latencies = way_of(spot, facts), spot.latencies_s
        if way is None or way.expected_s is None or latencies is None:
            continue
        band = max(cell.judgement.band for _, cell in spot.cells)
        # A change of latency by the band is one of speed by as much.
        if abs(way.expected_s) > 2 * band * latencies[0]:
            surprising.setdefault(spot.op, []).append((spot, way.expected_s))
    for group in surprising.values():
        yield _same([spot for spot, _ in group], _although(group), causes, closes=False)
    if near:
        names = listed(dict.fromkeys(visible(spot.target) for spot in near))
        text = (
            f"Reads on {names} are the same, as those that the nearest copy answers should be: "
            "they do not leave the zone."
        )
        yield _same(near, text, causes, closes=True)


def _same(spots: Sequence[Spot], text: str, causes: Causes, *, closes: bool) -> Explanation:
    return Explanation(
        paths=causes.paths_of_way(spots),
        cells=tuple(index for spot in spots for index in spot.indices((Verdict.SAME,))),
        text=text,
        closes=closes,
    )


def _near(spot: Spot, facts: Facts) -> bool:
    """Whether the candidate's reads stay in the zone though its primaries do not."""
    pools = facts.pools.get(spot.target)
    if pools is None or not facts.measured or pools[1].reads is not ReadFrom.NEAREST:
        return False
    side = _legs(spot, pools[1])
    return pools[1].zones > 1 and side.most == 0.0


def _although(group: Sequence[tuple[Spot, float]]) -> str:
    spots = [spot for spot, _ in group]
    names = listed(dict.fromkeys(visible(spot.target) for spot in spots))
    costs = spread(abs(expected) for _, expected in group)
    word = "more" if group[0][1] > 0 else "less"
    why = (
        "their primaries may be in the client's zone, or a cache answers"
        if spots[0].op is Op.READ
        else "something else is faster by as much, or the zones are not where the copies are"
    )
    return (
        f"{operation(spots)} on {names}{depths(spots)} are the same although their round trips "
        f"should cost {costs} {word} on average: {why}."
    )
