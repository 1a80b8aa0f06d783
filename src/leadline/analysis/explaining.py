"""What differences of configuration can account for, and where the arithmetic does not close.

The rules are in docs/concepts/explaining.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace

from leadline.analysis.causes import Causes
from leadline.analysis.comparison import ComparedCell, Explanation
from leadline.analysis.effects import LABELS, REDUNDANCY, ZONES
from leadline.analysis.explaining_facts import Facts, PoolFacts, ReadFrom, facts_of
from leadline.analysis.explaining_labels import expected_of_labels
from leadline.analysis.explaining_round_trips import (
    changed,
    left_its_zone,
    not_near,
    reckon,
    unchanged,
)
from leadline.analysis.explaining_words import lower, observed, operation, where
from leadline.analysis.message_counts import Way, implied_rtt_s, longer_way
from leadline.analysis.spots import CHANGED, Spot, spots_of, without_sums
from leadline.analysis.verdicts import Verdict
from leadline.inventory.differences import Difference
from leadline.inventory.differences.words import counted, listed, percent, sentence
from leadline.metrics import Op
from leadline.units import format_latency

__all__ = ["Facts", "PoolFacts", "ReadFrom", "explain", "facts_of"]


def explain(
    cells: Sequence[ComparedCell], differences: Sequence[Difference], facts: Facts
) -> tuple[tuple[Difference, ...], tuple[Explanation, ...]]:
    """The differences with what each can account for, and the explanations, the best founded
    first. `Explanation.cells` are indices into `cells`."""
    spots = spots_of(cells)
    causes = Causes.of(differences, facts)
    on: dict[str, list[Spot]] = {"": list(spots)}
    for spot in spots:
        on.setdefault(spot.target, []).append(spot)
    return (
        tuple(
            replace(one, explains=_explains(one, causes, on.get(one.target, [])))
            for one in differences
        ),
        (
            *_explanations(without_sums(spots), causes, facts),
            *expected_of_labels(without_sums(spots), differences, facts.pools),
        ),
    )


def _explanations(spots: Sequence[Spot], causes: Causes, facts: Facts) -> Iterator[Explanation]:
    of_speed = [spot for spot in spots if spot.speed in CHANGED]
    reckoned = [one for one in (reckon(spot, facts) for spot in of_speed) if one is not None]
    yield from changed(reckoned, facts, causes)
    yield from unchanged(spots, facts, causes)
    yield from _although(spots, causes)
    far = [spot for spot in of_speed if left_its_zone(spot, facts)]
    yield from not_near(far, causes)
    done = {id(one) for one in far} | {id(one.spot) for one in reckoned}
    rest = [spot for spot in spots if spot.changed and id(spot) not in done]
    implied = [] if facts.measured else _implied(rest, facts, causes)
    yield from implied
    told = {index for one in implied for index in one.cells}
    yield from _together([spot for spot in rest if causes.of_spot(spot)], causes, told, facts)
    yield from _uncaused([spot for spot in rest if not causes.of_spot(spot)], facts)


# --- a longer way that nobody measured -----------------------------------------------------------


def _implied(spots: Sequence[Spot], facts: Facts, causes: Causes) -> list[Explanation]:
    """The round trip that would account for what was seen, where copies went apart or together."""
    ways = [(spot, way) for spot in spots if (way := _longer(spot, facts)) is not None]
    if not ways:
        return []
    fewest = min(spot.depth or 0 for spot, _ in ways)
    groups: dict[tuple[Op, str, str], list[tuple[Spot, Way]]] = {}
    for spot, way in ways:
        if (spot.depth or 0) == fewest:
            groups.setdefault((spot.op, way.base.way, way.candidate.way), []).append((spot, way))
    said, spans = [], []
    for group in groups.values():
        said.append(f"{observed([spot for spot, _ in group])}.")
        spans += [implied_rtt_s(abs(spot.extra_s or 0.0), way) for spot, way in group]
    said.append(_one_length(spans))
    if fewest != 1:
        said.append("I/Os in flight together also wait for each other, which this leaves out.")
    said.append("None was measured, so that it cannot be checked.")
    given = [spot for spot, _ in ways]
    return [
        Explanation(
            paths=causes.paths_of_way(given), cells=_changed_cells(given), text=" ".join(said)
        )
    ]


def _longer(spot: Spot, facts: Facts) -> Way | None:
    """The way of a spot whose I/Os took longer where it is longer, or less where it is shorter."""
    pools = facts.pools.get(spot.target)
    if pools is None or spot.extra_s is None or spot.op is Op.TOTAL:
        return None
    way = longer_way(spot.op, *pools, streaming=spot.streaming)
    if way is None or (way.candidate.most > way.base.most) != (spot.extra_s > 0):
        return None
    return way


def _one_length(spans: Sequence[tuple[float, float]]) -> str:
    low, high = max(span[0] for span in spans), min(span[1] for span in spans)
    if low <= high:
        length = f"{format_latency(low)} to {format_latency(high)}"
        return f"A round trip between zones of {length} would account for it."
    length = f"{format_latency(min(spans)[0])} to {format_latency(max(one[1] for one in spans))}"
    return (
        f"Round trips between zones of {length} would account for them one by one, no single "
        "length for all."
    )


# --- what did not change -------------------------------------------------------------------------

# Causes of which one expects that they show.
_EXPECTED = (REDUNDANCY, "wire", "at rest", "media")


def _although(spots: Sequence[Spot], causes: Causes) -> Iterator[Explanation]:
    """Cells that are the same though something differs that usually shows."""
    same = [spot for spot in spots if spot.verdict is Verdict.SAME]
    for name in _EXPECTED:
        group = [spot for spot in same if name in causes.of_spot(spot)]
        if group:
            band = max(cell.judgement.band for spot in group for _, cell in spot.cells)
            yield Explanation(
                paths=causes.paths((name,), group),
                cells=tuple(index for spot in group for index in spot.indices((Verdict.SAME,))),
                text=f"{operation(group)} {where(group)} ({_counts(group)}) although "
                f"{causes.text(name, group)} changed: what that costs there lies within "
                f"{percent(band)}, or something else makes up for it.",
            )


# --- differences without arithmetic --------------------------------------------------------------


def _together(
    spots: Sequence[Spot], causes: Causes, told: Container[int], facts: Facts
) -> Iterator[Explanation]:
    """Cells with the same possible causes; several of them cannot be told apart. Where only the
    zones differ, the cells `told` of, by index, need nothing more."""
    groups: dict[tuple[tuple[str, ...], bool], list[Spot]] = {}
    for spot in spots:
        names = tuple(causes.of_spot(spot))
        if names != (ZONES,) or not all(index in told for index in spot.indices(CHANGED)):
            groups.setdefault((names, spot.speed in CHANGED), []).append(spot)
    for (names, _), group in groups.items():
        subject = _changes(group)
        said = listed(causes.text(name, group) for name in names)
        if set(names) == {LABELS} and not _known(facts):
            text = (
                f"{subject}: all that is told to differ is {said}; how the two are built is not "
                "known, so that nobody can say whether it is the cause."
            )
        elif len(names) == 1:
            text = (
                f"{subject}: the only difference found that bears on this is {said}. "
                f"{sentence(causes.mechanism(names[0], group))}"
            )
        else:
            text = (
                f"{subject}: {said} changed together; this comparison cannot tell their shares "
                "apart."
            )
        yield Explanation(paths=causes.paths(names, group), cells=_changed_cells(group), text=text)


def _known(facts: Facts) -> bool:
    """Whether an inventory of both sides is there to look at."""
    return (facts.base_known and facts.candidate_known) or facts.hosts_known


def _uncaused(spots: Sequence[Spot], facts: Facts) -> Iterator[Explanation]:
    """Changes for which nothing was found, or where nothing is known to look at."""
    if not spots:
        return
    if _known(facts):
        for of_speed in (True, False):
            group = [spot for spot in spots if (spot.speed in CHANGED) is of_speed]
            if group:
                text = (
                    "No difference of configuration was found that could explain "
                    f"{lower(_changes(group))}."
                )
                yield Explanation(paths=(), cells=_changed_cells(group), text=text)
        return
    if facts.base_known or facts.candidate_known:
        side = "candidate" if facts.base_known else "baseline"
        unknown = f"the configuration of the {side} is not known"
    else:
        unknown = "the configuration is not known"
    known = [spot for spot in spots if spot.extra_s is not None and spot.speed in CHANGED]
    groups: dict[tuple[Op, bool], list[Spot]] = {}
    for spot in known:
        groups.setdefault((spot.op, (spot.extra_s or 0.0) < 0), []).append(spot)
    for (_, less), group in groups.items():
        ways = "shorter way, fewer copies" if less else "longer way, more copies"
        yield Explanation(
            paths=(),
            cells=_changed_cells(group),
            text=f"{observed(group)}. A {ways}, encryption or other media can each account for "
            f"that: {unknown}, so that it cannot be checked.",
        )
    rest = [spot for spot in spots if spot not in known]
    if rest:
        yield Explanation(
            paths=(),
            cells=_changed_cells(rest),
            text=f"Why {counted(len(rest), 'row')} changed cannot be said: {unknown}"
            f"{_no_extra(rest)}.",
        )


def _no_extra(spots: Sequence[Spot]) -> str:
    """Why the arithmetic of the closed loop cannot even be begun."""
    without = [spot for spot in spots if spot.extra_s is None]
    if not without:
        return ""
    whose = "" if len(without) == len(spots) else f" in {len(without)} of them"
    if any(spot.depth is None for spot in without):
        return (
            f", and how much longer one I/O took cannot be reckoned{whose}, since neither mean "
            "latency nor depth is told"
        )
    return (
        f", and how much longer one I/O took cannot be reckoned{whose}: no mean latency, and other "
        "operations may have shared the depth"
    )


# --- words ---------------------------------------------------------------------------------------


def _changed_cells(spots: Sequence[Spot]) -> tuple[int, ...]:
    return tuple(index for spot in spots for index in spot.indices(CHANGED))


_OPEN = (Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE)
_SHORT = {Verdict.SAME: "the same", Verdict.INCONCLUSIVE: "inconclusive"}


def _changes(spots: Sequence[Spot]) -> str:
    """`Writes on rep3 at depth 1 (4 rows, all worse)`, or their percentiles where the speed of none
    changed."""
    if spots[0].speed in CHANGED:
        return f"{operation(spots)} {where(spots)} ({_counts(spots)})"
    tails = _tally(spot.tail or spot.verdict for spot in spots)
    return f"Latency percentiles of {lower(operation(spots))} {where(spots)} ({tails})"


def _counts(spots: Iterable[Spot]) -> str:
    return _tally(spot.verdict for spot in spots)


def _tally(verdicts: Iterable[Verdict]) -> str:
    """`4 rows: 3 worse and 1 the same`; `2 rows, all worse`: a row is a cell and operation."""
    found = Counter(verdicts)
    named = {verdict: _SHORT.get(verdict, verdict.value) for verdict in Verdict}
    rows = counted(found.total(), "row")
    if len(found) == 1:
        (only,) = found
        return f"{rows}, {'all ' if found.total() > 1 else ''}{named[only]}"
    told = listed(f"{found[verdict]} {named[verdict]}" for verdict in Verdict if found[verdict])
    return f"{rows}: {told}"


def _explains(difference: Difference, causes: Causes, spots: Sequence[Spot]) -> tuple[str, ...]:
    """A sentence for each way in which a difference bears on cells that are there."""
    said = []
    for effect in causes.effects_of(difference):
        on = [spot for spot in spots if causes.bears(effect, difference, spot)]
        # A row counts by its speed, as in the headline; by a percentile where no speed is decided.
        judged = [spot for spot in on if spot.speed] or [
            spot for spot in on if spot.verdict not in _OPEN
        ]
        if judged:
            said.append(f"{sentence(effect.mechanism)} Where it can show: {_counts(judged)}.")
    return tuple(said)
