"""Sentences of explanations: what was seen, and what the way costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.analysis.explaining_facts import Facts
from leadline.analysis.message_counts import Cost, Legs
from leadline.analysis.spots import Spot
from leadline.inventory.differences.words import listed
from leadline.metrics import Op
from leadline.units import format_iops, format_latency
from leadline.visible import visible


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
