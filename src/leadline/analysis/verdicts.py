"""The verdict on two samples: `better`, `worse`, `same`, `inconclusive`, `not comparable`.

The rules and the reasons for them are in docs/adr/0025-one-model-for-verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from leadline.metrics import MARGIN, Metric, Spread
from leadline.stats.effects import (
    LEAST_DEVIATION,
    Estimate,
    Summary,
    TwoSamples,
    combine_trials,
    estimate_effects,
    estimate_from_summaries,
    intervals,
    location,
    p_beyond,
)
from leadline.stats.families import (
    ALONE,
    LEVEL,
    benjamini_hochberg,
    benjamini_hochberg_levels,
    holm,
    holm_levels,
    two_sided,
)
from leadline.stats.outlook import detectable, trials_needed
from leadline.stats.runs import RunMeans, estimate_over_runs
from leadline.stats.sequential import Looks

# Standard deviation of a system's value from one run to another day's, as a share, where nothing
# better is known (docs/adr/0025-one-model-for-verdicts.md).
BETWEEN_RUNS = 0.05
# 90th percentile of the coefficient of variation of 180 groups of three runs on a production Ceph
# cluster, with n - 1 (methodology, section 3): the scatter that one trial cannot show.
REPEATS_DEVIATION = 0.161
# Two single runs of one system differ by less than this factor in 95 % of such cases.
REPEATS_FACTOR = math.exp(1.959964 * math.sqrt(2) * REPEATS_DEVIATION)
# 105 / 100 is not beyond 5 %, in spite of binary rounding.
_ROUNDING = 1e-9


class Reason(StrEnum):
    """Why a verdict is what it is; codes of findings may be added to these."""

    MISSING_BASELINE = "missing-baseline"
    MISSING_CANDIDATE = "missing-candidate"
    ZERO = "zero"
    CAPPED = "capped"
    CAPPED_BY_BUDGET = "capped-by-budget"
    INTERVAL_CROSSES_BAND = "interval-crosses-band"
    P_NOT_SMALL = "p-not-small"
    ACROSS_RUNS = "across-runs"
    ACROSS_GROUPS = "across-groups"
    NOT_INTERLEAVED = "not-interleaved"
    SEVERAL_RUNS = "several-runs"
    INCOMPLETE_RUNS = "incomplete-runs"
    RUNS_DIFFER = "runs-differ"
    CORRELATED = "correlated"
    WILD_TRIAL = "wild-trial"
    INCOMPLETE_BLOCKS = "incomplete-blocks"
    IDENTICAL_TRIALS = "identical-trials"
    OWN_SCATTER = "own-scatter"
    SINGLE_TRIAL = "single-trial"
    WITHIN_RUN_EVIDENCE = "within-run-evidence"
    NO_WITHIN_RUN_EVIDENCE = "no-within-run-evidence"
    REPEATS_MAY_DIFFER = "repeats-may-differ"
    BAND_ONLY = "band-only"
    NO_TRIAL_VALUES = "no-trial-values"
    TRIAL_NOT_POSITIVE = "trial-not-positive"
    NOISE_FLOOR = "noise-floor"
    GROUP_SEQUENTIAL = "group-sequential"


# A limit of the measurement decided the figures.
CAP_REASONS = frozenset({Reason.CAPPED, Reason.CAPPED_BY_BUDGET})


class Verdict(StrEnum):
    """The candidate compared with the baseline."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"


class Evidence(StrEnum):
    """The evidence of a verdict, the strongest first.

    `trials`: at least two trials per system. `within run`: one trial, its own seconds and the
    published scatter of repeats. `one number`: an imported figure and the equivalence margin.
    `none`: no evidence.
    """

    TRIALS = "trials"
    WITHIN_RUN = "within run"
    ONE_NUMBER = "one number"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figure of one system: `value` in the metric's base unit, None if missing.

    `trials` are the values of the trials, `blocks` a key for each: trials of both systems with
    equal keys were interleaved, and the keys sort by time. `within` is the standard error of each
    trial's mean as a share (from its own seconds, with their correlation), None if unknown.
    `imported`: a published figure. `run`: samples of different runs ran on different days.
    `series`: samples of one run with different series ran one after the other; None: all
    interleaved.
    `errors` are the codes of `error` findings about the figure.

    `spread` is set where the only value is a published mean over `spread.number` trials (two or
    more), whose standard deviation (n - 1, in the metric's base unit) is `spread.deviation`: it is
    evidence of that many trials. `capped`: a limit was measured (findings `capped-by-limit`,
    `flat-ceiling`), which shows no difference between systems. `budget_bps`: the trials reached the
    budget of their plan's guard, which is that of all clients in bytes per second; else None.

    `partial`: some trials lack a value, so that `trials` is empty.

    `by_run` has the trials of each run where the system has several, without a value where a run
    lacks the number; `trials` are those of all. `looks`: how often the run was tested to end it;
    None: its trials were planned.
    """

    value: float | None
    trials: tuple[float, ...] = ()
    blocks: tuple[Hashable, ...] = ()
    within: tuple[float | None, ...] = ()
    imported: bool = False
    run: str = ""
    series: int | None = None
    errors: tuple[str, ...] = ()
    spread: Spread | None = None
    capped: bool = False
    budget_bps: float | None = None
    partial: bool = False
    by_run: tuple[tuple[float, ...], ...] = ()
    looks: Looks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two samples of one metric. `noise` is the measured noise floor as a share (A/A test), else 0;
    `differs` are codes that prevent a comparison; `primary`: declared before the test."""

    metric: Metric
    baseline: Sample
    candidate: Sample
    noise: float = 0.0
    differs: tuple[str, ...] = ()
    primary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`ratio` = candidate / baseline: the estimate that is tested, where trials allow one, else
    that of the figures. `interval` decides the verdict, at the `confidence` that the family of
    tests needs (0.95: 95 %); `interval_alone` is the one of 95 % where that is another. `band` is
    the margin used: the larger of the one asked for and the noise floor.

    `p` of a ratio within the margin, and `p_adjusted` (Holm among primary pairs, Benjamini-Hochberg
    among the others), which is at most 5 % exactly where the verdict is `better` or `worse`.

    `reasons` are stable codes, the most important first. `trials_needed` per system would give a
    verdict with 80 % power, `trials_range` for the 80 % interval of the scatter (None at the end:
    above 1,000); None if unknown or not inconclusive. Where a system has several runs both count
    runs (`needs_runs`). `detectable` is the smallest increase, as a
    share, that this many trials find with 80 % power. `estimate` is the log ratio with its error.
    With `looks`, `p` and `confidence` are those of all looks of the run together.
    """

    verdict: Verdict
    evidence: Evidence
    band: float
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    confidence: float | None = None
    interval_alone: tuple[float, float] | None = None
    p: float | None = None
    p_adjusted: float | None = None
    reasons: tuple[str, ...] = ()
    trials_needed: int | None = None
    trials_range: tuple[int, int | None] | None = None
    needs_runs: bool = False
    detectable: float | None = None
    estimate: Estimate | None = None
    looks: Looks | None = None


def interval_verdict(
    interval: tuple[float, float], margin: tuple[float, float], metric: Metric
) -> Verdict:
    """Return where an interval of the ratio candidate / baseline lies relative to the margin, the
    ratios that count as unchanged."""
    low, high = interval
    least, most = margin
    above, below = low > most * (1 + _ROUNDING), high < least * (1 - _ROUNDING)
    if above or below:
        return Verdict.WORSE if above is metric.lower_is_better else Verdict.BETTER
    inside = low >= least * (1 - _ROUNDING) and high <= most * (1 + _ROUNDING)
    return Verdict.SAME if inside else Verdict.INCONCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A pair before the tests of all pairs. `numbers` are the trials to estimate from; `estimate`
    is set where it does not come from them."""

    pair: Pair
    band: float
    evidence: Evidence = Evidence.NONE
    ratio: float | None = None
    reasons: tuple[str, ...] = ()
    comparable: bool = True
    numbers: TwoSamples | None = None
    runs: RunMeans | None = None
    estimate: Estimate | None = None

    @property
    def looks(self) -> Looks | None:
        """The looks of the run; of two runs, those that widen the interval more."""
        samples = (self.pair.baseline, self.pair.candidate)
        return max((one.looks for one in samples if one.looks), default=None)

    @property
    def share(self) -> float:
        """The equivalence margin: the larger of the one asked for and the noise floor."""
        return max(self.band, self.pair.noise)

    @property
    def margin(self) -> tuple[float, float]:
        """Ratios that count as unchanged."""
        return max(1 - self.share, 0.0), 1 + self.share

    @property
    def log_margin(self) -> tuple[float, float]:
        low, high = self.margin
        return math.log(low) if low > 0 else -math.inf, math.log(high)

    def with_evidence(self, evidence: Evidence, *reasons: Reason, **found: Any) -> _Draft:
        return replace(self, evidence=evidence, reasons=(*self.reasons, *reasons), **found)

    def direction(self, *, above: bool) -> Verdict:
        return Verdict.WORSE if above is self.pair.metric.lower_is_better else Verdict.BETTER

    def verdict(self, interval: tuple[float, float]) -> Verdict:
        """Return where an interval of the ratio lies relative to the margin."""
        return interval_verdict(interval, self.margin, self.pair.metric)

    def conclude(self, verdict: Verdict, *caveats: Reason, **found: Any) -> Judgement:
        noisy = (Reason.NOISE_FLOOR,) if self.pair.noise > self.band else ()
        if self.looks is not None and self.evidence is Evidence.TRIALS:
            noisy = (*noisy, Reason.GROUP_SEQUENTIAL)
        return Judgement(
            verdict=verdict,
            evidence=self.evidence,
            band=self.share,
            ratio=self.ratio,
            reasons=tuple(str(reason) for reason in (*caveats, *self.reasons, *noisy)),
            estimate=self.estimate,
            **found,
        )


def judge(
    pairs: Sequence[Pair], band: float = MARGIN, *, between_runs: float = BETWEEN_RUNS
) -> tuple[Judgement, ...]:
    """Test each pair, with scatter pooled and p values adjusted over all of them.

    `band` is the equivalence margin as a share, `between_runs` the standard deviation between runs
    of one system as a share, for samples of different runs, and of series of one run that were not
    interleaved. Raises ValueError if `band` is not between 0 and 1, or `between_runs` is negative
    or not finite.
    """
    if not 0 < band < 1:
        raise ValueError(f"a band of {band} is not between 0 and 1")
    if not 0 <= between_runs < math.inf:
        raise ValueError(f"a deviation of {between_runs} between runs is not a share")
    drafts = [_draft(pair, band, between_runs) for pair in pairs]
    for index, estimate in _estimates(drafts).items():
        drafts[index] = _with_estimate(drafts[index], estimate)
    judged: dict[int, Judgement] = {}
    for primary in (True, False):
        family = [
            index
            for index, draft in enumerate(drafts)
            if draft.evidence is Evidence.TRIALS
            and draft.comparable
            and draft.pair.primary is primary
        ]
        judged |= zip(family, _judge_family([drafts[at] for at in family], primary), strict=True)
    return tuple(
        _without_caps(draft.pair, judged[index] if index in judged else _judge_alone(draft))
        for index, draft in enumerate(drafts)
    )


def _estimates(drafts: Sequence[_Draft]) -> dict[int, Estimate]:
    """Estimate the drafts with trials, with scatter pooled over each family; the others have
    none."""
    numbers = {
        index: draft.numbers for index, draft in enumerate(drafts) if draft.numbers is not None
    }
    found = dict(zip(numbers, estimate_effects(list(numbers.values())), strict=True))
    families: dict[Hashable, dict[int, RunMeans]] = {}
    for index, draft in enumerate(drafts):
        if draft.runs is not None:
            shape = len(draft.runs.above), len(draft.runs.below)
            family = families.setdefault((draft.pair.metric, draft.comparable, shape), {})
            family[index] = draft.runs
    for family in families.values():
        found.update(zip(family, estimate_over_runs(list(family.values())), strict=True))
    return found


def _without_caps(pair: Pair, judgement: Judgement) -> Judgement:
    """A limit of the measurement makes figures the same, whatever the systems can do: no tie."""
    comparable = judgement.verdict is not Verdict.NOT_COMPARABLE
    if comparable and _hidden_by_budget(pair, judgement.verdict):
        reasons = (Reason.CAPPED_BY_BUDGET.value, *judgement.reasons)
        return replace(judgement, verdict=Verdict.INCONCLUSIVE, reasons=reasons, trials_needed=None)
    if judgement.verdict is not Verdict.SAME or not (pair.baseline.capped or pair.candidate.capped):
        return judgement
    reasons = (Reason.CAPPED.value, *judgement.reasons)
    return replace(judgement, verdict=Verdict.INCONCLUSIVE, reasons=reasons, trials_needed=None)


def _hidden_by_budget(pair: Pair, verdict: Verdict) -> bool:
    """Whether the budget of a guard decided the figures. The rate of a system at its budget is the
    least that it can do: it may be the better one, never the worse one or the same. Latencies
    and costs compare at one load: with one budget that both reached."""
    baseline, candidate = pair.baseline.budget_bps, pair.candidate.budget_bps
    if pair.metric.lower_is_better:
        return baseline != candidate
    if verdict in (Verdict.BETTER, Verdict.WORSE):
        return (baseline if verdict is Verdict.BETTER else candidate) is not None
    return baseline is not None or candidate is not None


def _draft(pair: Pair, band: float, between_runs: float) -> _Draft:
    baseline, candidate = pair.baseline, pair.candidate
    refusals = _refusals(pair)
    ratio = None
    if (
        baseline.value is not None
        and candidate.value is not None
        and 0 < baseline.value < math.inf
        and 0 < candidate.value < math.inf
    ):
        ratio = candidate.value / baseline.value
    draft = _Draft(pair=pair, band=band, reasons=refusals, comparable=not refusals, ratio=ratio)
    if ratio is None:
        return draft
    trials = (*baseline.trials, *candidate.trials)
    fewest = min(len(baseline.trials), len(candidate.trials))
    several = any(sum(map(bool, sample.by_run)) > 1 for sample in (baseline, candidate))
    if several and fewest and min(trials) > 0 and max(trials) < math.inf:
        return _draft_of_runs(draft)
    if baseline.spread or candidate.spread:
        ours, theirs = _summary(baseline), _summary(candidate)
        if ours is not None and theirs is not None:
            return _draft_of_summaries(draft, ours, theirs, between_runs)
    single = any(sample.imported and len(sample.trials) < 2 for sample in (baseline, candidate))
    if single and not (baseline.partial or candidate.partial):
        return draft.with_evidence(Evidence.ONE_NUMBER, Reason.SINGLE_TRIAL, Reason.BAND_ONLY)
    if not fewest:
        return draft.with_evidence(Evidence.NONE, Reason.NO_TRIAL_VALUES)
    if not all(0 < value < math.inf for value in trials):
        return draft.with_evidence(Evidence.NONE, Reason.TRIAL_NOT_POSITIVE)
    if fewest > 1:
        return _draft_of_trials(draft, between_runs)
    alone = Reason.SINGLE_TRIAL
    errors = _standard_error(baseline), _standard_error(candidate)
    if errors[0] is None or errors[1] is None:
        return draft.with_evidence(Evidence.NONE, alone, Reason.NO_WITHIN_RUN_EVIDENCE)
    error = math.hypot(errors[0], errors[1])
    estimate = Estimate(value=math.log(ratio), error=error, freedom=math.inf)
    return draft.with_evidence(
        Evidence.WITHIN_RUN, alone, Reason.WITHIN_RUN_EVIDENCE, estimate=estimate
    )


def _draft_of_trials(draft: _Draft, between_runs: float) -> _Draft:
    baseline, candidate = draft.pair.baseline, draft.pair.candidate
    numbers = combine_trials(candidate.trials, candidate.blocks, baseline.trials, baseline.blocks)
    used = len(numbers.above) + len(numbers.below)
    apart, in_a_row = _apart(draft.pair), _not_interleaved(draft.pair)
    across = apart is Reason.ACROSS_RUNS
    given = {
        Reason.ACROSS_RUNS: across,
        Reason.ACROSS_GROUPS: apart is Reason.ACROSS_GROUPS,
        Reason.NOT_INTERLEAVED: in_a_row,
        Reason.INCOMPLETE_BLOCKS: used < len(baseline.trials) + len(candidate.trials),
        Reason.IDENTICAL_TRIALS: across and numbers.above == numbers.below,
    }
    reasons = [reason for reason, applies in given.items() if applies]
    numbers = replace(
        numbers,
        family=(draft.pair.metric, draft.comparable),
        between=between_runs if apart else 0.0,
        in_a_row=in_a_row,
    )
    return draft.with_evidence(Evidence.TRIALS, *reasons, numbers=numbers)


def _draft_of_runs(draft: _Draft) -> _Draft:
    """One value per run: the trials within it do not show how runs differ."""
    means: list[tuple[float | None, ...]] = []
    for sample in (draft.pair.candidate, draft.pair.baseline):
        runs = sample.by_run or (sample.trials,)
        means.append(tuple(_mean_log(trials) if trials else None for trials in runs))
    incomplete = any(None in values for values in means)
    reasons = [Reason.SEVERAL_RUNS, *([Reason.INCOMPLETE_RUNS] if incomplete else [])]
    pooled = RunMeans(above=means[0], below=means[1])
    return draft.with_evidence(Evidence.TRIALS, *reasons, runs=pooled)


def _mean_log(trials: Sequence[float]) -> float:
    return location(trials) if len(trials) > 1 else math.log(trials[0])


def _with_estimate(draft: _Draft, estimate: Estimate) -> _Draft:
    given = {
        # Of trials in an unknown order it may be the bound, which is no finding.
        Reason.CORRELATED: estimate.correlation > 0 and Reason.NOT_INTERLEAVED not in draft.reasons,
        Reason.WILD_TRIAL: estimate.trimmed,
        Reason.OWN_SCATTER: draft.comparable
        and any(not prior.freedom for prior in estimate.priors),
    }
    reasons = (reason for reason, applies in given.items() if applies)
    return replace(
        draft, estimate=estimate, ratio=estimate.ratio, reasons=(*draft.reasons, *reasons)
    )


def _summary(sample: Sample) -> Summary | None:
    """Return a mean and its scatter; None without a published spread or two trials."""
    if sample.spread is not None and sample.value:
        return Summary(
            mean=sample.value, deviation=sample.spread.deviation, number=sample.spread.number
        )
    if len(sample.trials) < 2 or min(sample.trials) <= 0:
        return None
    logs = np.log(sample.trials)
    mean = math.exp(float(logs.mean()))
    return Summary(mean=mean, deviation=float(logs.std(ddof=1)) * mean, number=len(logs))


def _draft_of_summaries(
    draft: _Draft, baseline: Summary, candidate: Summary, between_runs: float
) -> _Draft:
    apart, in_a_row = _apart(draft.pair), _not_interleaved(draft.pair)
    reasons = [*([apart] if apart else []), *([Reason.NOT_INTERLEAVED] if in_a_row else [])]
    estimate = estimate_from_summaries(
        candidate, baseline, between=between_runs if apart else 0.0, in_a_row=in_a_row
    )
    return draft.with_evidence(Evidence.TRIALS, *reasons, estimate=estimate, ratio=estimate.ratio)


def _apart(pair: Pair) -> Reason | None:
    """Return why the trials of two systems were not interleaved; None if they were."""
    baseline, candidate = pair.baseline, pair.candidate
    if baseline.run and candidate.run and baseline.run != candidate.run:
        return Reason.ACROSS_RUNS
    return Reason.ACROSS_GROUPS if baseline.series != candidate.series else None


def _not_interleaved(pair: Pair) -> bool:
    """Return whether the trials of one run are of unknown order: other tools repeat one target's
    trials in a row, so that what lasts longer than a trial is in all of them."""
    return pair.baseline.imported and pair.candidate.imported and _apart(pair) is None


def _refusals(pair: Pair) -> tuple[str, ...]:
    """Return the codes that prevent a comparison, the most severe first."""
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


def _standard_error(sample: Sample) -> float | None:
    """Compute the standard error of a figure with positive trials as a share, repeats included;
    None if unknown."""
    number = len(sample.trials)
    if number == 1:
        # The scatter of repeats is not known; it is taken as the published one.
        share = sample.within[0] if len(sample.within) == 1 else None
        return None if share is None else math.hypot(share, REPEATS_DEVIATION)
    logs = [math.log(value) for value in sample.trials]
    mean = math.fsum(logs) / number
    between = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / ((number - 1) * number))
    return max(between, LEAST_DEVIATION)


def _judge_alone(draft: _Draft) -> Judgement:
    """Decide without a test among others: not comparable, one number, or one trial."""
    interval = draft.estimate.interval(ALONE) if draft.estimate else None
    shown = {"interval": interval, "confidence": ALONE if interval else None}
    if not draft.comparable or draft.ratio is None:
        return draft.conclude(Verdict.NOT_COMPARABLE, **shown)
    if draft.evidence is Evidence.ONE_NUMBER:
        return draft.conclude(draft.verdict((draft.ratio, draft.ratio)))
    if interval is None:
        return draft.conclude(Verdict.INCONCLUSIVE)
    verdict = draft.verdict(interval)
    caveats = (Reason.REPEATS_MAY_DIFFER,) if verdict is Verdict.INCONCLUSIVE else ()
    return draft.conclude(verdict, *caveats, **shown)


def _judge_family(drafts: Sequence[_Draft], primary: bool) -> list[Judgement]:
    """Test pairs with an estimate from trials together."""
    estimates = [draft.estimate for draft in drafts if draft.estimate is not None]
    lower, upper = (
        np.array([draft.log_margin[end] for draft in drafts], dtype=np.float64) for end in (0, 1)
    )
    looks = max((one.looks for one in drafts if one.looks), default=None)
    p = two_sided(p_beyond(estimates, lower, upper, looks)).tolist()
    adjusted = holm(p) if primary else benjamini_hochberg(p)
    levels = (holm_levels if primary else benjamini_hochberg_levels)(adjusted)
    tails = (1 - np.asarray(levels)) / 2
    tails = looks.nominal(tails) if looks else tails
    alone = intervals(estimates, [ALONE] * len(drafts), looks)
    deciding, reach = intervals(estimates, levels, looks), detectable(estimates, upper, tails)
    found = []
    for at, draft in enumerate(drafts):
        verdict, caveats = draft.verdict(alone[at]), []
        if adjusted[at] <= LEVEL:
            verdict = draft.direction(above=estimates[at].value > 0)
        elif verdict is not Verdict.SAME:
            crosses = verdict is Verdict.INCONCLUSIVE
            caveats = [Reason.INTERVAL_CROSSES_BAND if crosses else Reason.P_NOT_SMALL]
            verdict = Verdict.INCONCLUSIVE
        level = ALONE if verdict is Verdict.SAME else levels[at]
        found.append(
            draft.conclude(
                verdict,
                *caveats,
                interval=alone[at] if verdict is Verdict.SAME else deciding[at],
                confidence=level,
                interval_alone=None if level == ALONE else alone[at],
                p=p[at],
                p_adjusted=adjusted[at],
                detectable=math.expm1(min(reach[at], 700.0)),
                looks=looks,
            )
        )
    unsure = [at for at, one in enumerate(found) if one.verdict is Verdict.INCONCLUSIVE]
    needed = trials_needed(
        [estimates[at] for at in unsure], lower[unsure], upper[unsure], tails[unsure]
    )
    for at, trials in zip(unsure, needed, strict=True):
        if trials is not None:
            found[at] = replace(
                found[at],
                trials_needed=trials.number,
                trials_range=(trials.low, trials.high),
                needs_runs=estimates[at].of_runs,
            )
    return found
