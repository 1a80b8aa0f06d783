"""What may be said of two samples: `better`, `worse`, `same`, `inconclusive`, `not comparable`.

The rules and the reasons for them are in docs/adr/0013-verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from leadline.analysis.evidence import (
    LEVEL,
    REPEATS_FACTOR,
    Band,
    OneSide,
    Outlook,
    Place,
    ratio_of,
    within_run_interval,
)
from leadline.analysis.reasons import Reason
from leadline.metrics import Metric
from leadline.stats.multiplicity import benjamini_hochberg, holm
from leadline.stats.ratios import MANY, RatioEstimate, TwoSamples, estimate_ratios


class Verdict(StrEnum):
    """Of the candidate, seen from the baseline."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"


class Evidence(StrEnum):
    """What a verdict rests on, the strongest first.

    `trials`: six or more fresh trials a side, bootstrap of medians. `few trials`: two to five a
    side, Student's t of their logarithms. `within run`: one trial on a side, its own seconds.
    `one number`: an imported figure, judged by the band alone. `none`: nothing to judge by.
    """

    TRIALS = "trials"
    FEW_TRIALS = "few trials"
    WITHIN_RUN = "within run"
    ONE_NUMBER = "one number"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One side: `value` is the figure shown, in the metric's base unit, None where there is none.

    `trials` are the trials' own values and `blocks` a key for each: equal keys on both sides say
    that the two trials ran next to each other (interleaved). `within` is, for each trial, the
    standard error of its mean as a share of it (from its own seconds, correlation counted), None
    where that is not known. `imported`: figures that somebody else summarised. `errors` are the
    codes of `error` findings about the figure.
    """

    value: float | None
    trials: tuple[float, ...] = ()
    blocks: tuple[Hashable, ...] = ()
    within: tuple[float | None, ...] = ()
    imported: bool = False
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two samples of one metric. `noise` is the measured noise floor as a share (A/A), 0 where
    none was measured; `differs` names why the two cannot be compared at all; `primary` marks what
    was declared before looking."""

    metric: Metric
    baseline: Sample
    candidate: Sample
    noise: float = 0.0
    differs: tuple[str, ...] = ()
    primary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`ratio` = candidate / baseline of the figures; `interval` its 95 % interval; `p` raw and
    `p_adjusted` (Holm among primary pairs, Benjamini-Hochberg among the others). `band` is the
    share used: the larger of the one asked for and the noise floor.

    `reasons` are stable codes, the most important first. `trials_needed` a side would probably
    decide it (80 % power) if what was measured is true; None where that cannot be told or nothing
    is open. `detectable` is the smallest change, as a share, that this many trials find with
    80 % power.
    """

    verdict: Verdict
    evidence: Evidence
    band: float
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    p_adjusted: float | None = None
    reasons: tuple[str, ...] = ()
    trials_needed: int | None = None
    detectable: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """What is known of a pair before the p values of all pairs are looked at together.

    `numbers` are the trials, candidate above baseline, where an estimate is made of them.
    """

    pair: Pair
    evidence: Evidence
    limits: Band
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    reasons: tuple[str, ...] = ()
    comparable: bool = True
    numbers: TwoSamples | None = None


def judge(pairs: Sequence[Pair], band: float = 0.05) -> tuple[Judgement, ...]:
    """A judgement for each pair, in their order; p values are adjusted over all of them.

    `band` is the share within which two values count as the same. Raises ValueError if it is not
    between 0 and 1.
    """
    if not 0 < band < 1:
        raise ValueError(f"a band of {band} is not between 0 and 1")
    drafts = [_draft(pair, band) for pair in pairs]
    by_trials = [
        (index, one.numbers) for index, one in enumerate(drafts) if one.numbers is not None
    ]
    estimates = dict(
        zip(
            (index for index, _ in by_trials),
            estimate_ratios([numbers for _, numbers in by_trials]),
            strict=True,
        )
    )
    tested = {index: one.p for index, one in estimates.items() if drafts[index].comparable}
    adjusted = _adjusted(pairs, tested)
    family = {True: 0, False: 0}
    for index in tested:
        family[pairs[index].primary] += 1
    return tuple(
        _judgement(draft)
        if index not in estimates
        else _judgement_of_trials(
            draft, estimates[index], adjusted.get(index), family[draft.pair.primary]
        )
        for index, draft in enumerate(drafts)
    )


def _draft(pair: Pair, band: float) -> _Draft:
    limits = Band(asked=band, noise=pair.noise)
    baseline, candidate = pair.baseline, pair.candidate
    refusals = _refusals(pair)
    draft = _Draft(
        pair=pair,
        evidence=Evidence.NONE,
        limits=limits,
        ratio=ratio_of(baseline.value, candidate.value),
        reasons=refusals,
        comparable=not refusals,
    )
    if draft.ratio is None:
        return draft
    trials = (*baseline.trials, *candidate.trials)
    fewest = min(len(baseline.trials), len(candidate.trials))
    if any(one.imported and len(one.trials) < 2 for one in (baseline, candidate)):
        return _with(draft, Evidence.ONE_NUMBER, Reason.SINGLE_TRIAL, Reason.BAND_ONLY)
    if not fewest:
        return _with(draft, Evidence.NONE, Reason.NO_TRIAL_VALUES)
    if not all(0 < one < math.inf for one in trials):
        return _with(draft, Evidence.NONE, Reason.TRIAL_NOT_POSITIVE)
    if fewest == 1:
        interval = within_run_interval(draft.ratio, _side(baseline), _side(candidate))
        if interval is None:
            return _with(draft, Evidence.NONE, Reason.SINGLE_TRIAL, Reason.NO_WITHIN_RUN_EVIDENCE)
        found = _with(draft, Evidence.WITHIN_RUN, Reason.SINGLE_TRIAL, Reason.WITHIN_RUN_EVIDENCE)
        return replace(found, interval=interval)
    few = (Reason.FEW_TRIALS,) if fewest < MANY else ()
    found = _with(draft, Evidence.FEW_TRIALS if few else Evidence.TRIALS, *few)
    return replace(found, numbers=_numbers(baseline, candidate))


def _with(draft: _Draft, evidence: Evidence, *reasons: Reason) -> _Draft:
    return replace(draft, evidence=evidence, reasons=(*draft.reasons, *reasons))


def _refusals(pair: Pair) -> tuple[str, ...]:
    """Why the two are not to be compared, the gravest first."""
    found = [*pair.baseline.errors, *pair.candidate.errors, *pair.differs]
    for sample, missing in (
        (pair.baseline, Reason.MISSING_BASELINE),
        (pair.candidate, Reason.MISSING_CANDIDATE),
    ):
        if sample.value is None:
            found.append(missing)
        elif not 0 < sample.value < math.inf:
            found.append(Reason.ZERO)
    return tuple(dict.fromkeys(found))


def _side(sample: Sample) -> OneSide:
    return OneSide(values=sample.trials, within=sample.within)


def _numbers(baseline: Sample, candidate: Sample) -> TwoSamples:
    """The trials of both; by block where every block has one of each side."""
    ours = dict(zip(baseline.blocks, baseline.trials, strict=False))
    theirs = dict(zip(candidate.blocks, candidate.trials, strict=False))
    paired = (
        len(ours) == len(baseline.trials)
        and len(theirs) == len(candidate.trials)
        and ours.keys() == theirs.keys()
    )
    if not paired:
        return TwoSamples(above=candidate.trials, below=baseline.trials)
    return TwoSamples(
        above=tuple(theirs[block] for block in ours), below=tuple(ours.values()), paired=True
    )


def _adjusted(pairs: Sequence[Pair], tested: Mapping[int, float]) -> dict[int, float]:
    """Holm among the primary pairs, Benjamini-Hochberg among the others; by index."""
    found: dict[int, float] = {}
    for primary, adjust in ((True, holm), (False, benjamini_hochberg)):
        family = [index for index in tested if pairs[index].primary is primary]
        found.update(zip(family, adjust([tested[index] for index in family]), strict=True))
    return found


def _judgement(draft: _Draft) -> Judgement:
    """Of what has no estimate from trials: the band alone, or the seconds of one trial."""
    verdict = Verdict.INCONCLUSIVE
    reasons = draft.reasons
    if not draft.comparable or draft.ratio is None:
        verdict = Verdict.NOT_COMPARABLE
    elif draft.evidence is Evidence.ONE_NUMBER:
        place = draft.limits.place((draft.ratio, draft.ratio))
        verdict = _verdict(place, draft.pair.metric)
    elif draft.interval is not None:
        place = draft.limits.widened(REPEATS_FACTOR).place(draft.interval)
        if place in (Place.ABOVE, Place.BELOW):
            verdict = _verdict(place, draft.pair.metric)
        else:
            reasons = (*reasons, Reason.REPEATS_MAY_DIFFER)
    return _told(draft, verdict, reasons)


def _judgement_of_trials(
    draft: _Draft, estimate: RatioEstimate, p_adjusted: float | None, family: int
) -> Judgement:
    ratio, limits, numbers = draft.ratio, draft.limits, draft.numbers
    assert ratio is not None
    assert numbers is not None
    reasons = list(draft.reasons)
    low, high = estimate.interval
    if not low <= ratio <= high:
        # A percentile of all I/Os together need not lie among the trials' percentiles. What is
        # said must hold for the number that is shown, too.
        reasons.append(Reason.FIGURE_WIDENS_INTERVAL)
        low, high = min(low, ratio), max(high, ratio)
    found = replace(draft, interval=(low, high))
    if p_adjusted is None:
        return _told(found, Verdict.NOT_COMPARABLE, reasons)
    place = limits.place((low, high))
    verdict = _verdict(place, draft.pair.metric)
    doubts = []
    if place in (Place.ABOVE, Place.BELOW):
        if p_adjusted > LEVEL:
            doubts.append(Reason.P_NOT_SMALL)
        if draft.evidence is Evidence.FEW_TRIALS and not estimate.separated:
            doubts.append(Reason.TRIALS_OVERLAP)
    elif place is Place.ACROSS:
        doubts.append(Reason.INTERVAL_CROSSES_BAND)
    if doubts:
        verdict = Verdict.INCONCLUSIVE
    outlook = Outlook(
        scale=estimate.scale,
        paired=estimate.paired,
        number=min(len(numbers.above), len(numbers.below)),
    )
    return replace(
        _told(found, verdict, [*doubts, *reasons]),
        p=estimate.p,
        p_adjusted=p_adjusted,
        trials_needed=outlook.trials_needed(ratio, limits, family) if doubts else None,
        detectable=outlook.detectable(limits),
    )


def _told(draft: _Draft, verdict: Verdict, reasons: Sequence[str]) -> Judgement:
    noisy = (Reason.NOISE_FLOOR,) if draft.limits.noise > draft.limits.asked else ()
    return Judgement(
        verdict=verdict,
        evidence=draft.evidence,
        band=draft.limits.share,
        ratio=draft.ratio,
        interval=draft.interval,
        reasons=tuple(str(one) for one in (*reasons, *noisy)),
    )


def _verdict(place: Place, metric: Metric) -> Verdict:
    if place is Place.INSIDE:
        return Verdict.SAME
    if place is Place.ACROSS:
        return Verdict.INCONCLUSIVE
    return Verdict.WORSE if (place is Place.ABOVE) is metric.is_latency else Verdict.BETTER
