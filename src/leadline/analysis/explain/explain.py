"""What differences of configuration can account for, and where the arithmetic does not close.

The rules are in docs/concepts/explaining.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.comparison import ComparedCell, Explanation
from leadline.analysis.explain.causes import Causes
from leadline.analysis.explain.effects import LABELS, REDUNDANCY, ZONES
from leadline.analysis.explain.facts import (
    Facts,
    PoolFacts,
    ReadFrom,
    Way,
    facts_of,
    implied_rtt_s,
    longer_way,
)
from leadline.analysis.explain.round_trips import (
    changed,
    left_its_zone,
    lower,
    not_near,
    observed,
    operation,
    reckon,
    unchanged,
    where,
)
from leadline.analysis.explain.spots import CHANGED, Spot, spots_of, without_sums
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference
from leadline.metrics import Op
from leadline.plan.labels import is_number
from leadline.text import counted, listed, percent, sentence
from leadline.units import format_latency

# What labels that tell of cores and of copies let one expect: no cause that was found, but a
# bound that the figures can be held against.

CORES = frozenset({"cores", "cpus"})
REPLICAS = frozenset({"replicas", "copies"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A numbered label that differs, and the changed rates of the targets that it differs on."""

    key: str
    baseline: float
    candidate: float
    paths: tuple[str, ...]
    spots: tuple[Spot, ...]

    @property
    def words(self) -> str:
        return f"{self.key} {self.baseline:g} -> {self.candidate:g}"

    @property
    def cells(self) -> tuple[int, ...]:
        return tuple(index for spot in self.spots for index in spot.indices(CHANGED))


def expected_of_labels(
    spots: Sequence[Spot], differences: Iterable[Difference], arithmetic: Container[str]
) -> Iterator[Explanation]:
    """A sentence for each label. `arithmetic` names the targets whose copies are reckoned with
    already, their pools being known."""
    told = list(_told([spot for spot in spots if spot.speed in CHANGED], differences))
    for one in told:
        if one.key.lower() in CORES:
            yield _of_cores(one)
        elif not all(spot.target in arithmetic for spot in one.spots):
            yield _of_copies(one)


def _told(spots: Sequence[Spot], differences: Iterable[Difference]) -> Iterator[_Told]:
    found: dict[tuple[str, str, str], list[Difference]] = {}
    for one in differences:
        path, _, key = one.path.rpartition(".labels.")
        if path.startswith("targets.") and key.lower() in CORES | REPLICAS:
            found.setdefault((key, one.baseline, one.candidate), []).append(one)
    for (key, baseline, candidate), given in found.items():
        if (
            not (is_number(baseline) and is_number(candidate))
            or min(float(baseline), float(candidate)) <= 0
        ):
            continue
        targets = {one.target for one in given}
        on = tuple(spot for spot in spots if spot.target in targets)
        if on:
            yield _Told(
                key=key,
                baseline=float(baseline),
                candidate=float(candidate),
                paths=tuple(one.path for one in given),
                spots=on,
            )


def _of_cores(told: _Told) -> Explanation:
    """A station with c servers has at most c times the rate of one (io-paths: Mayastor)."""
    factor = max(told.baseline, told.candidate) / min(told.baseline, told.candidate)
    gains = [(spot, _gain(spot, told.candidate > told.baseline)) for spot in told.spots]
    known = [(spot, gain) for spot, gain in gains if gain is not None]
    beyond = [gain for spot, gain in known if gain > factor * (1 + _band(spot))]
    fewer = [gain for spot, gain in known if gain < 1 - _band(spot)]
    times = f"{factor:g} times"
    expected = (
        f"The label says {told.words}. Expected of {times} the cores are at most {times} the rate, "
        "where the cores are what limits, and nothing where they are not."
    )
    said = [expected]
    if beyond:
        said.append(
            f"{len(beyond)} of {len(known)} changed rates differ by more "
            f"({_span(beyond)}): the number of cores alone does not account for them."
        )
    if fewer:
        said.append(
            f"{len(fewer)} of {len(known)} are lower with more cores, which their number does not "
            "account for."
        )
    if known and not beyond and not fewer:
        said.append("The changed rates keep within that; whether cores limited was not observed.")
    return Explanation(
        paths=told.paths,
        cells=told.cells,
        text=" ".join(said),
        closes=not (beyond or fewer) if known else None,
    )


def _of_copies(told: _Told) -> Explanation:
    """Writes go to all copies at once and end with the slowest; reads are spread over them or come
    from one (io-paths: Mayastor, replicated write)."""
    more = told.candidate > told.baseline
    writes = [spot for spot in told.spots if spot.op is Op.WRITE]
    strange = []
    for spot in told.spots:
        gain = _gain(spot, more)
        if gain is None or spot.op not in (Op.READ, Op.WRITE):
            continue
        faster = gain > 1 + _band(spot)
        if faster if spot.op is Op.WRITE else gain < 1 - _band(spot):
            strange.append(spot)
    expected = (
        f"The label says {told.words}. Expected of more copies: a write ends when the last of them "
        "has it, one network round trip at least where a single copy lay on the client's own node; "
        "reads are no slower, and may gain where they are spread over the copies."
    )
    said = [expected]
    reckoned = [spot for spot in writes if spot.extra_s is not None and spot not in strange]
    if reckoned:
        said.append(f"{observed(reckoned)}; no round trip was measured to hold that against.")
    if strange:
        words = listed(f"{operation([spot]).lower()} of {spot.workload}" for spot in strange)
        slower = "against that, so that copies alone do not account for it"
        said.append(f"With more copies {words} changed {slower}.")
    return Explanation(
        paths=told.paths,
        cells=told.cells,
        text=" ".join(said),
        closes=False if strange else None,
    )


def _gain(spot: Spot, candidate_has_more: bool) -> float | None:
    """Rate with more over rate with fewer."""
    cell = next((cell for _, cell in spot.cells if cell.rate), None)
    figures = (cell.baseline, cell.candidate) if cell is not None else ()
    values = [one.value for one in figures if one is not None and one.value]
    if len(values) < 2:
        return None
    ours, theirs = values
    return theirs / ours if candidate_has_more else ours / theirs


def _band(spot: Spot) -> float:
    return max(cell.judgement.band for _, cell in spot.cells)


def _span(values: Sequence[float]) -> str:
    ends = dict.fromkeys(f"x {value:.3g}" for value in (min(values), max(values)))
    return " to ".join(ends)


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
