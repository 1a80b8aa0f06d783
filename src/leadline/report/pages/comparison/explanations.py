"""The words of explanations: one sentence template for each kind of fact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch

from leadline.analysis.explain.accounts import Account, Estimate, Share
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
    RateLimited,
    RoundTripCost,
    RoundTripEvidence,
    UnchangedDespiteCause,
    UnchangedDespiteRoundTrips,
    Unknown,
)
from leadline.analysis.explain.round_trips import Cost, RoundTrips, is_hidden
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference
from leadline.metrics import Op
from leadline.model.io_paths import IoPath
from leadline.report.words import OP_NOUNS
from leadline.text import counted, listed, percent, sentence
from leadline.units import format_iops, format_latency

# How a target's name is written: in full, or cut for a page.
Name = Callable[[str], str]

_OPS = {**OP_NOUNS, Op.TOTAL: "I/Os"}
_PATHS = {
    None: "reads and writes mixed",
    IoPath.PRIMARY: "client to primary",
    IoPath.NEAREST_COPY: "client to nearest copy",
    IoPath.DATA_SHARDS: "client to primary to data shards",
    IoPath.ONE_SHARD: "client to primary to one shard",
    IoPath.COPIES: "client to primary to copies",
    IoPath.SHARDS: "client to primary to shards",
    IoPath.READ_MODIFY_WRITE: "client to primary, old data read, shards written",
    IoPath.PARTIAL_WRITE: "client to primary, some shards read, some written",
}
_ACCOUNTS = {
    Account.ACCOUNTS_FOR: "accounts for the change in",
    Account.PARTLY: "explains it partly in",
    Account.EXCEEDS: "would cost more than the change in",
    Account.INCONCLUSIVE: "is inconclusive in",
}
_QUEUEING = "I/Os in flight together also wait for each other."
_SINGLE_TRIALS = "Single trials: the intervals are the published scatter of repeats."
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
    if _is_queued(found):
        return [
            f"{_measured(found.group, name)}.",
            "I/Os in flight together also wait for each other: round trips cannot be tested here.",
        ]
    trips = _multiplication(found.cost)
    measured = _measured(found.group, name, _interval(found))
    expected = _expected([test.expected for test in found.tests])
    return [
        f"{measured}, {expected} expected ({trips}).",
        _account(found, name),
        *remarks(found, name),
    ]


def remarks(found: RoundTripCost, name: Name) -> list[str]:
    """Word what a table of expected and measured changes does not show."""
    texts = [
        _SINGLE_TRIALS if found.group.single_trials else "",
        _placement(found.cost),
    ]
    if found.multiples:
        times = range_text(*map(str, found.multiples))
        texts.append(
            f"It is about {times} times the largest expected cost: a client that splits large "
            "I/Os waits for each part."
        )
    elif found.account is Account.PARTLY and found.isolation is not Isolation.ISOLATED:
        in_turn = found.group.sequential
        texts.append("One I/O at a time waits for no other." if in_turn else _QUEUEING)
    if found.isolation is Isolation.NEVER_ISOLATED:
        texts.append("No cell measures small I/Os at QD1, where round trips are isolated.")
    if found.redundancy and found.closes is False:
        texts.append(f"{capital(_cause(found.redundancy, name))} also changes the work of OSDs.")
    if found.others:
        texts.append(_also_changed(found.others, name))
    elif found.closes is False and not found.redundancy:
        texts.append("No other relevant difference was found.")
    return list(filter(None, texts))


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
    expected = _expected(found.expected)
    cells = "This counts" if found.group.count == 1 else f"These {found.group.count} cells count"
    return [
        f"{_where(found.group, name)}: unchanged, {expected} expected from round trips.",
        f"{cells} against network distance. Possible reasons: {reasons}.",
    ]


@_sentences.register
def _(found: RoundTripEvidence, name: Name) -> list[str]:
    total = sum(count for _, count in found.accounts)
    counts = listed(f"{_ACCOUNTS[account]} {count}" for account, count in found.accounts)
    texts = [f"Of {counted(total, 'tested cell')}, network distance {counts}."]
    if found.unchanged:
        verb = "counts" if found.unchanged == 1 else "count"
        texts.append(f"{counted(found.unchanged, 'unchanged cell')} {verb} against it.")
    return texts


@_sentences.register
def _(found: RateLimited, name: Name) -> list[str]:
    where = _where(found.group, name, tally=True)
    return [
        f"{where}: a limit was measured ({listed(found.codes)}).",
        "Round trips do not explain a limit: these cells are not tested.",
    ]


@_sentences.register
def _(found: UnchangedDespiteCause, name: Name) -> list[str]:
    margin, cause = percent(found.margin), _cause(found.cause, name)
    verb = "counts" if found.cause.unchanged == 1 else "count"
    cells = counted(found.cause.applies, "tested cell")
    return [
        f"{_where(found.group, name)}: unchanged within {margin} in spite of {cause}.",
        f"{found.cause.unchanged} of {cells} {verb} against an effect.",
    ]


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
    # The cells are counted by their speed, which is not what changed with percentiles alone.
    counted_against = [] if found.group.percentiles_only else _counter_evidence(found.causes)
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
            *counted_against,
        ]
    labels = {cause.code: cause.label for cause in found.causes}
    return [
        f"{where}: several relevant differences, {causes}.",
        *(
            f"The data cannot separate {listed(labels[code] for code in codes)}: they apply to the "
            "same cells."
            for codes in found.inseparable
        ),
        *counted_against,
        "" if found.inseparable else "One comparison cannot separate their shares.",
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
    gains = range_text(
        f"x {min((gain.value for gain in found.beyond), default=0.0):.3g}",
        f"x {max((gain.value for gain in found.beyond), default=0.0):.3g}",
    )
    counts = (
        (found.proportional, ("agrees", "agree"), f" with x {found.factor:g}"),
        (found.less, ("gains", "gain"), " less"),
        (len(found.beyond), ("exceeds", "exceed"), f" it ({gains})"),
        (found.lower, ("is", "are"), " lower"),
        (found.unchanged, ("is", "are"), " unchanged"),
        (found.undecided, ("is", "are"), " inconclusive"),
    )
    parts = [f"{count} {verbs[count > 1]}{rest}" for count, verbs, rest in counts if count]
    texts.append(f"Of {counted(found.tested, 'tested rate')}, {listed(parts, 6)}.")
    if found.closes is False:
        texts.append("Cores alone do not explain this.")
    if found.group.single_trials:
        texts.append(_SINGLE_TRIALS)
    if found.closes:
        texts.append("CPU saturation was not measured.")
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


def _measured(group: CellGroup, name: Name, interval: Estimate | None = None) -> str:
    """`Writes on rep3, QD1: +1.8 ms measured`, with its basis where that is not the means, and the
    interval of a single cell."""
    targets = {target for target, _ in group.added_s}
    seconds = [added_s for _, added_s in group.added_s]
    if len(seconds) == 1:
        amounts = _expected([interval]) if interval else _signed(seconds[0])
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


def _interval(found: RoundTripCost) -> Estimate | None:
    return found.tests[0].measured if len(found.tests) == 1 else None


def _expected(estimates: Sequence[Estimate]) -> str:
    """Word one estimate, of several values their span."""
    if len(estimates) > 1:
        values = [estimate.value for estimate in estimates]
        return _span((min(values, key=abs), max(values, key=abs)))
    return estimate_text(estimates[0])


def estimate_text(estimate: Estimate) -> str:
    """`+1.74 ms (+1.68 ms to +1.83 ms)`."""
    value = _signed(estimate.value)
    span = _span(_by_size(estimate.low, estimate.high))
    return value if span == value else f"{value} ({span})"


def _by_size(low: float, high: float) -> tuple[float, float]:
    return (high, low) if high <= 0 else (low, high)


def path_text(cost: Cost) -> str:
    """`client to primary to copies`."""
    longer = cost.candidate if cost.candidate.most and cost.candidate_rtt_s else cost.base
    return _PATHS[longer.path]


def round_trips_text(cost: Cost) -> str:
    """`1.59 x 40.5 us -> 1.69 x 1.08 ms`."""
    sides = ((cost.base, cost.base_rtt_s), (cost.candidate, cost.candidate_rtt_s))
    return " -> ".join(
        f"{_count(trips)} x {format_latency(rtt_s)}" if trips.most and rtt_s else "none"
        for trips, rtt_s in sides
    )


def _multiplication(cost: Cost) -> str:
    """`1.67 round trips x 2 ms, client to primary to copies`."""
    before, after = cost.base_rtt_s, cost.candidate_rtt_s
    base, candidate = cost.base, cost.candidate
    path = path_text(cost)
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


def _account(found: RoundTripCost, name: Name) -> str:
    """Word the result of the test."""
    tests = found.tests
    several = len({test.target for test in tests}) == len(tests) > 1
    shares = [
        explained_text(test.share, f" on {name(test.target)}" if several else "") for test in tests
    ]
    if len(tests) > 4:
        known = [test.share.value for test in tests if test.share.value is not None]
        shares = [range_text(_percent(min(known)), _percent(max(known)))] if known else []
    listing = listed(share for share in shares if share)
    match found.account:
        case Account.ACCOUNTS_FOR:
            return f"Network distance accounts for {listing}."
        case Account.PARTLY:
            return f"Network distance explains the change partly: {listing or 'nearly 0 %'}."
        case Account.EXCEEDS:
            if any(test.share.value is None for test in tests):
                return "The change has the opposite direction: it counts against network distance."
            return f"The expected cost exceeds the change ({listing}): this counts against it."
    if any(test.measured is None for test in tests):
        about = f" (share about {listing})" if listing else ""
        return f"The test of network distance is inconclusive: the change has no interval{about}."
    share = f": {listing}" if listing else ""
    return f"The test of network distance is inconclusive{share}."


def _is_queued(found: RoundTripCost) -> bool:
    """Return whether queues may hide all of the cost, so that the test decides nothing."""
    one = found.group.depths == (1,)
    return found.account is Account.INCONCLUSIVE and any(
        is_hidden(1 if one else None, test.expected) for test in found.tests
    )


def explained_text(share: Share, where: str = "") -> str:
    """`97 % on rep3 (86 % to 111 %)`; empty where it is unknown."""
    if share.value is None:
        return ""
    value = f"{_percent(share.value)}{where}"
    if share.low is None or share.high is None:
        return value
    low = _percent(share.low)
    return (
        f"{value} ({low} to {_percent(share.high)})"
        if math.isfinite(share.high)
        else (f"{value} (at least {low})")
    )


def _percent(share: float) -> str:
    return f"{100 * share:,.0f} %"


def _placement(cost: Cost) -> str:
    """Say where a placement is unknown that the cost depends on."""
    unknown = [
        system
        for system, placed, trips, rtt_s in (
            ("the baseline", cost.base_placed, cost.base, cost.base_rtt_s),
            ("the candidate", cost.candidate_placed, cost.candidate, cost.candidate_rtt_s),
        )
        if trips.most and rtt_s and not placed
    ]
    if not unknown:
        return ""
    return f"The placement on {listed(unknown)} is unknown: all that CRUSH may choose are expected."


def _counter_evidence(causes: Iterable[Cause]) -> list[str]:
    """Count the cells that are evidence against each cause."""
    texts = []
    for cause in causes:
        counts = (
            (cause.unchanged, "unchanged"),
            (cause.opposed, "faster with a longer path or slower with a shorter one"),
        )
        against = listed(f"{count} {text}" for count, text in counts if count)
        if cause.unchanged or cause.opposed:
            cells = counted(cause.applies, "tested cell")
            texts.append(f"Against {cause.label}, of {cells}: {against}.")
    return texts


def _also_changed(causes: Iterable[Cause], name: Name) -> str:
    names = listed(_cause(cause, name) for cause in causes)
    return f"Also changed: {names}; the data cannot separate their shares."


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
