"""The words of explanations: one sentence template for each kind of fact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch

from leadline.analysis.explain.facts import (
    Cause,
    CellGroup,
    Explanation,
    ImpliedRoundTrip,
    Isolation,
    MoreCopies,
    MoreCores,
    NearestCopyRead,
    NoCause,
    PossibleCauses,
    RoundTripCost,
    UnchangedDespiteCause,
    UnchangedDespiteRoundTrips,
    Unknown,
)
from leadline.analysis.explain.round_trips import TOLERANCE, Agreement, Cost, IoPath, RoundTrips
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference
from leadline.metrics import Op
from leadline.text import counted, listed, percent, sentence
from leadline.units import format_iops, format_latency

# How a target's name is written: in full, or cut for a page.
Name = Callable[[str], str]

_OPS = {Op.READ: "reads", Op.WRITE: "writes", Op.TRIM: "trims", Op.TOTAL: "I/Os"}
_PATHS = {
    IoPath.LOCAL: "within one zone",
    IoPath.MIXED: "reads and writes mixed",
    IoPath.PRIMARY: "client to primary",
    IoPath.NEAREST_COPY: "client to nearest copy",
    IoPath.PRIMARY_AND_DATA_SHARDS: "client to primary to data shards",
    IoPath.PRIMARY_AND_COPIES: "client to primary to copies",
    IoPath.PRIMARY_AND_SHARDS: "client to primary to shards",
    IoPath.READ_MODIFY_WRITE: "client to primary, old data read, shards written",
}
_QUEUEING = "I/Os in flight together also wait for each other."
_UNKNOWN = {
    Unknown.BASELINE: "the configuration of the baseline is unknown",
    Unknown.CANDIDATE: "the configuration of the candidate is unknown",
    Unknown.BOTH: "the configuration is unknown",
}


def explanation_text(explanation: Explanation, name: Name = str) -> str:
    """Word an explanation in a few short sentences."""
    return " ".join(part for part in _sentences(explanation, name) if part)


def effect_texts(difference: Difference) -> list[str]:
    """Word the possible effects of a difference, with the verdicts of the cells they apply to."""
    texts = []
    for effect in difference.explains:
        verdicts = [(Verdict(verdict), count) for verdict, count in effect.verdicts]
        cells = f" Applies to {_tally(verdicts)}." if verdicts else ""
        texts.append(f"{sentence(effect.mechanism)}{cells}")
    return texts


# --- a sentence or more for each kind ------------------------------------------------------------


@singledispatch
def _sentences(explanation: Explanation, name: Name) -> list[str]:
    raise TypeError(f"no words for {type(explanation).__name__}")


@_sentences.register
def _(found: RoundTripCost, name: Name) -> list[str]:
    trips = _multiplication(found.cost, found.base_rtt_s, found.candidate_rtt_s)
    texts = [
        f"{_measured(found.group, name)}, {_expected(found.cost)} expected ({trips}).",
        _agreement(found),
    ]
    if found.multiples:
        times = range_text(*map(str, found.multiples))
        texts.append(
            f"It is about {times} times the maximum: a client that splits large I/Os waits for "
            "each part."
        )
    elif found.agreement is Agreement.MORE and found.isolation is not Isolation.ISOLATED:
        in_turn = found.group.sequential
        texts.append("One I/O at a time waits for no other." if in_turn else _QUEUEING)
    if found.isolation is Isolation.NEVER_ISOLATED:
        texts.append("No cell measures small I/Os at QD1, where round trips are isolated.")
    if found.redundancy and not found.closes:
        texts.append(f"{capital(_cause(found.redundancy, name))} also changes the work of OSDs.")
    if found.others:
        texts.append(_also_changed(found.others, name))
    elif not found.closes and not found.redundancy:
        texts.append("No other relevant difference was found.")
    return texts


@_sentences.register
def _(found: NearestCopyRead, name: Name) -> list[str]:
    if found.closes:
        where = _where(found.group, name)
        return [f"{where}: unchanged, as expected. The nearest copy answers within the zone."]
    waiting = ", or reads wait for writes" if found.mixed else ""
    return [
        f"{_measured(found.group, name)}, no change expected: the nearest copy is in the zone.",
        f"The primary may answer instead{waiting}.",
        _also_changed(found.others, name) if found.others else "",
    ]


@_sentences.register
def _(found: UnchangedDespiteRoundTrips, name: Name) -> list[str]:
    reasons = "another change compensates, or the copies are not in the recorded zones"
    if found.group.ops == (Op.READ,):
        reasons = "primaries in the client's zone, or a cache"
    expected = _span(found.expected_s)
    return [
        f"{_where(found.group, name)}: unchanged, {expected} expected from round trips.",
        f"Possible reasons: {reasons}.",
    ]


@_sentences.register
def _(found: UnchangedDespiteCause, name: Name) -> list[str]:
    margin, cause = percent(found.margin), _cause(found.cause, name)
    return [f"{_where(found.group, name)}: unchanged within {margin} in spite of {cause}."]


@_sentences.register
def _(found: ImpliedRoundTrip, name: Name) -> list[str]:
    low, high = format_latency(found.least_s), format_latency(found.most_s)
    texts = [f"{_measured(group, name)}." for group in found.groups]
    if found.common:
        texts.append(f"A round trip between zones of {low} to {high} would explain this.")
    else:
        texts.append(f"No single round trip explains this: the changes need {low} to {high}.")
    if not found.isolated:
        texts.append(_QUEUEING)
    return [*texts, "The round trip was not measured."]


@_sentences.register
def _(found: PossibleCauses, name: Name) -> list[str]:
    where = _where(found.group, name, tally=True)
    causes = listed(_cause(cause, name) for cause in found.causes)
    if found.labels_only:
        return [
            f"{where}: the only known difference is {causes}.",
            "No configuration data confirms it as the cause.",
        ]
    if len(found.causes) == 1:
        among = " among the given facts" if found.given else ""
        if found.opposite:
            only = f"{where}: the only relevant difference{among} is {causes}"
            return [f"{only}, which has the opposite effect.", "It does not explain this change."]
        return [
            f"{where}: the only relevant difference{among} is {causes}.",
            sentence("; ".join(found.causes[0].mechanisms)),
        ]
    return [
        f"{where}: several relevant differences, {causes}.",
        "One comparison cannot separate their shares.",
    ]


@_sentences.register
def _(found: NoCause, name: Name) -> list[str]:
    if found.unknown is Unknown.NONE:
        where = _where(found.group, name, tally=True)
        return [f"{where}: no configuration difference explains the change."]
    unknown = _UNKNOWN[found.unknown]
    if found.unmeasurable or not found.group.added_s or found.group.percentiles_only:
        texts = [f"{counted(found.group.count, 'cell')} changed, cause unknown: {unknown}."]
        if found.unmeasurable:
            whose = "" if found.unmeasurable == found.group.count else f" of {found.unmeasurable}"
            why = (
                "neither mean latency nor depth is known"
                if found.depth_unknown
                else "no mean latency, and operations may share the depth"
            )
            texts.append(f"The added latency{whose} cannot be computed: {why}.")
        return texts
    less = found.group.added_s[0][1] < 0
    causes = "Shorter distance, fewer copies" if less else "Longer distance, more copies"
    return [
        f"{_measured(found.group, name)}.",
        f"{causes}, encryption or other media are possible causes: {unknown}.",
    ]


@_sentences.register
def _(found: MoreCores, name: Name) -> list[str]:
    expected = f"at most {found.factor:g} times the rate expected, if cores are the limit"
    texts = [f"Label {_label(found)}: {expected}."]
    rates = f"{found.tested} changed {'rate' if found.tested == 1 else 'rates'}"
    if found.beyond:
        gains = range_text(f"x {min(found.beyond):.3g}", f"x {max(found.beyond):.3g}")
        texts.append(
            f"{len(found.beyond)} of {rates} exceed this ({gains}): cores alone do not explain "
            "them."
        )
    if found.lower:
        texts.append(f"{found.lower} of {rates} are lower with more cores.")
    if found.closes:
        texts.append("The changed rates are within this limit. CPU saturation was not measured.")
    return texts


@_sentences.register
def _(found: MoreCopies, name: Name) -> list[str]:
    expected = "each write waits for at least one network round trip; reads are not slower"
    texts = [f"Label {_label(found)}: with more copies {expected}."]
    if found.writes:
        texts.append(f"{_measured(found.writes, name)}; the round trip was not measured.")
    if found.contradicting:
        cells = listed(f"{_OPS[op]} of {name(workload)}" for op, workload in found.contradicting)
        texts.append(f"{capital(cells)} changed in the opposite direction.")
    return texts


# --- parts of sentences --------------------------------------------------------------------------


def _where(group: CellGroup, name: Name, *, tally: bool = False) -> str:
    """`Writes on rep3 and rep2, QD1`, with `tally` also `(4 cells, all worse)`."""
    noun = listed(_OPS[op] for op in group.ops)
    noun = f"large {noun}" if group.streaming else noun
    noun = f"latency percentiles of {noun}" if group.percentiles_only and tally else noun
    depths = f", QD{listed(map(str, group.depths))}" if group.depths else ""
    verdicts = f" ({_tally(group.verdicts)})" if tally else ""
    return f"{capital(noun)} on {listed(map(name, group.targets), 4)}{depths}{verdicts}"


def _tally(verdicts: Sequence[tuple[Verdict, int]]) -> str:
    """`4 cells: 3 worse and 1 same`, `2 cells, all worse`."""
    count = sum(number for _, number in verdicts)
    cells = counted(count, "cell")
    if len(verdicts) == 1:
        return f"{cells}, {'all ' if count > 1 else ''}{verdicts[0][0].value}"
    return f"{cells}: {listed(f'{number} {verdict.value}' for verdict, number in verdicts)}"


def _measured(group: CellGroup, name: Name) -> str:
    """`Writes on rep3, QD1: +1.8 ms measured`, with its basis where that is not the means."""
    targets = {target for target, _ in group.added_s}
    seconds = [added_s for _, added_s in group.added_s]
    if len(seconds) == 1:
        amounts = _signed(seconds[0])
    elif len(seconds) <= 4 and len(targets) == len(seconds):
        amounts = listed(f"{_signed(value)} ({name(target)})" for target, value in group.added_s)
    else:
        amounts = _span((min(seconds, key=abs), max(seconds, key=abs)))
    basis = ""
    if group.sequential:
        which = "" if group.sequential == group.count else f"{group.sequential} cells: "
        basis = f" ({which}one I/O per job in flight, from IOPS)"
    elif group.closed_loop:
        depth, before, after = group.closed_loop
        basis = f" (from IOPS: {depth} x (1/{format_iops(after)} - 1/{format_iops(before)}))"
    elif group.from_rates:
        basis = " (from IOPS)"
    return f"{_where(group, name)}: {amounts} measured{basis}"


def _expected(cost: Cost) -> str:
    """`+3.33 ms (+2 ms to +4 ms)`."""
    ends = (cost.least_s, cost.most_s) if cost.most_s > 0 else (cost.most_s, cost.least_s)
    span = _span(ends)
    if cost.expected_s is None:
        return span
    mean = _signed(cost.expected_s)
    return mean if mean == span else f"{mean} ({span})"


def _multiplication(cost: Cost, base_rtt_s: float | None, candidate_rtt_s: float | None) -> str:
    """`1.67 round trips x 2 ms, client to primary to copies`."""
    before, after = base_rtt_s or 0.0, candidate_rtt_s or 0.0
    base, candidate = cost.base, cost.candidate
    path = _PATHS[candidate.path if candidate.most and after else base.path]
    if (base.least, base.most, base.expected) == (
        candidate.least,
        candidate.most,
        candidate.expected,
    ):
        return f"{_round_trips(candidate)} x {format_latency(abs(after - before))}, {path}"
    if not (base.most and before):
        return f"{_round_trips(candidate)} x {format_latency(after)}, {path}"
    if not (candidate.most and after):
        return f"{_round_trips(base)} x {format_latency(before)} saved, {path}"
    return (
        f"{_round_trips(candidate)} x {format_latency(after)} instead of "
        f"{_count(base)} x {format_latency(before)}, {path}"
    )


def _round_trips(trips: RoundTrips) -> str:
    count = _count(trips)
    return f"{count} round trip{'' if count == '1' else 's'}"


def _count(trips: RoundTrips) -> str:
    def short(number: float) -> str:
        return f"{number:.2f}".rstrip("0").rstrip(".")

    if trips.expected is not None:
        return short(trips.expected)
    return f"{short(trips.least)} to {short(trips.most)}"


def _agreement(found: RoundTripCost) -> str:
    gap = "" if found.gap_s is None else range_text(*map(format_latency, found.gap_s))
    return {
        Agreement.WITHIN: "Network distance explains the change.",
        Agreement.TOLERATED: "Network distance explains the change to within "
        f"{percent(TOLERANCE)}.",
        Agreement.LESS: f"The change is {gap} below the minimum: network distance does not explain "
        "it.",
        Agreement.MORE: f"The change is {gap} above the maximum: network distance explains only a "
        "part.",
        Agreement.OPPOSITE: "The change has the opposite direction: network distance does not "
        "explain it.",
    }[found.agreement]


def _also_changed(causes: Iterable[Cause], name: Name) -> str:
    names = listed(_cause(cause, name) for cause in causes)
    return f"Also changed: {names}; the shares cannot be separated."


def _cause(cause: Cause, name: Name) -> str:
    """`PG count (128 -> 512)`."""
    changes = [f"{value.baseline} -> {value.candidate}" for value in cause.values]
    if cause.named_by_path:
        paths = [".".join(value.path.split(".")[2:]) for value in cause.values]
        changes = [f"{path} {change}" for path, change in zip(paths, changes, strict=True)]
    elif len(set(changes)) == 1:
        changes = changes[:1]
    else:
        targets = [name(value.target) for value in cause.values]
        changes = [
            f"{target} {text}".strip() for target, text in zip(targets, changes, strict=True)
        ]
    return f"{cause.label} ({listed(changes, 3)})"


def _label(found: MoreCores | MoreCopies) -> str:
    return f"{found.key} {found.baseline:g} -> {found.candidate:g}"


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{format_latency(abs(seconds))}"


def _span(ends: tuple[float, float]) -> str:
    return range_text(*map(_signed, ends))


def range_text(low: str, high: str) -> str:
    """`2 to 4`, and `2` where both ends are the same."""
    return low if low == high else f"{low} to {high}"


def capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
