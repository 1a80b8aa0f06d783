"""The verdict on two samples: `better`, `worse`, `same`, `inconclusive`, `not comparable`.

The rules and the reasons for them are in docs/adr/0013-verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import numpy as np

from leadline.analysis.figures import MetricFigure, TrialValue
from leadline.archive.reader import Run, StoredTrial
from leadline.findings import Severity
from leadline.formats.result import FormatError
from leadline.metrics import Metric, Op, Spread
from leadline.stats.ratios import (
    MANY,
    RatioEstimate,
    TwoSamples,
    benjamini_hochberg,
    detectable,
    estimate_ratios,
    holm,
    trials_needed,
)
from leadline.stats.series import mean_standard_error_share

LEVEL = 0.05
# 90th percentile of the coefficient of variation of 180 groups of three runs on a production Ceph
# cluster (methodology, section 1): the scatter that one trial cannot show.
REPEATS_DEVIATION = 0.135
_NORMAL = 1.959964
# Two single runs of one system differ by less than this factor in 95 % of such cases.
REPEATS_FACTOR = math.exp(_NORMAL * math.sqrt(2) * REPEATS_DEVIATION)
# Findings that a limit was measured.
_CAPS = ("capped-by-limit", "flat-ceiling")
# 105 / 100 is not beyond 5 %, in spite of binary rounding.
_ROUNDING = 1e-9
# `same` needs both ends inside the margin: 90 % each.
_POWER_OF_SAME = 0.9


class Reason(StrEnum):
    """Why a verdict is what it is; codes of findings may be added to these."""

    MISSING_BASELINE = "missing-baseline"
    MISSING_CANDIDATE = "missing-candidate"
    ZERO = "zero"
    CAPPED = "capped"
    INTERVAL_CROSSES_BAND = "interval-crosses-band"
    P_NOT_SMALL = "p-not-small"
    TRIALS_OVERLAP = "trials-overlap"
    FEW_TRIALS = "few-trials"
    SINGLE_TRIAL = "single-trial"
    WITHIN_RUN_EVIDENCE = "within-run-evidence"
    NO_WITHIN_RUN_EVIDENCE = "no-within-run-evidence"
    REPEATS_MAY_DIFFER = "repeats-may-differ"
    BAND_ONLY = "band-only"
    NO_TRIAL_VALUES = "no-trial-values"
    TRIAL_NOT_POSITIVE = "trial-not-positive"
    FIGURE_WIDENS_INTERVAL = "figure-widens-interval"
    NOISE_FLOOR = "noise-floor"


class Verdict(StrEnum):
    """The candidate compared with the baseline."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"


class Evidence(StrEnum):
    """The evidence of a verdict, the strongest first.

    `trials`: at least six trials per system, bootstrap of medians. `few trials`: two to five per
    system, Student's t of their logarithms. `within run`: one trial, its own seconds. `one
    number`: an imported figure and the equivalence margin. `none`: no evidence.
    """

    TRIALS = "trials"
    FEW_TRIALS = "few trials"
    WITHIN_RUN = "within run"
    ONE_NUMBER = "one number"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figure of one system: `value` in the metric's base unit, None if missing.

    `trials` are the values of the trials, `blocks` a key for each: trials of both systems with
    equal keys were interleaved. `within` is the standard error of each trial's mean as a share
    (from its own seconds, with their correlation), None if unknown. `imported`: a published
    figure. `errors` are the codes of `error` findings about the figure.

    `spread` is set where the only value is a published mean over `spread.number` trials (two or
    more), whose standard deviation (n - 1, in the metric's base unit) is `spread.deviation`: it is
    evidence of that many trials. `capped`: a limit was measured (findings `capped-by-limit`,
    `flat-ceiling`), which shows no difference between systems.
    """

    value: float | None
    trials: tuple[float, ...] = ()
    blocks: tuple[Hashable, ...] = ()
    within: tuple[float | None, ...] = ()
    imported: bool = False
    errors: tuple[str, ...] = ()
    spread: Spread | None = None
    capped: bool = False


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
    """`ratio` = candidate / baseline of the figures; `interval` its 95 % interval; `p` raw and
    `p_adjusted` (Holm among primary pairs, Benjamini-Hochberg among the others). `band` is the
    share used: the larger of the one asked for and the noise floor.

    `reasons` are stable codes, the most important first. `trials_needed` per system would give a
    verdict with 80 % power; None if unknown or not inconclusive. `detectable` is the smallest
    change, as a share, that this many trials find with 80 % power.
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
    """A pair before the adjustment of all p values. `numbers` are the trials to estimate from."""

    pair: Pair
    band: float
    evidence: Evidence = Evidence.NONE
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    reasons: tuple[str, ...] = ()
    comparable: bool = True
    numbers: TwoSamples | None = None

    @property
    def share(self) -> float:
        """The equivalence margin: the larger of the one asked for and the noise floor."""
        return max(self.band, self.pair.noise)

    def with_evidence(self, evidence: Evidence, *reasons: Reason) -> _Draft:
        return replace(self, evidence=evidence, reasons=(*self.reasons, *reasons))

    def margin(self, factor: float = 1.0) -> tuple[float, float]:
        """Ratios that count as unchanged; `factor` is the difference between repeats."""
        return min(max(1 - self.share, 0.0), 1 / factor), max(1 + self.share, factor)

    def verdict(self, interval: tuple[float, float], factor: float = 1.0) -> Verdict:
        """Return where an interval of the ratio lies relative to the margin."""
        low, high = interval
        least, most = self.margin(factor)
        above, below = low > most * (1 + _ROUNDING), high < least * (1 - _ROUNDING)
        if above or below:
            return Verdict.WORSE if above is self.pair.metric.is_latency else Verdict.BETTER
        inside = low >= least * (1 - _ROUNDING) and high <= most * (1 + _ROUNDING)
        return Verdict.SAME if inside else Verdict.INCONCLUSIVE

    def conclude(self, verdict: Verdict, reasons: Sequence[str]) -> Judgement:
        noisy = (Reason.NOISE_FLOOR,) if self.pair.noise > self.band else ()
        return Judgement(
            verdict=verdict,
            evidence=self.evidence,
            band=self.share,
            ratio=self.ratio,
            interval=self.interval,
            reasons=tuple(str(reason) for reason in (*reasons, *noisy)),
        )


def judge(pairs: Sequence[Pair], band: float = 0.05) -> tuple[Judgement, ...]:
    """Test each pair, with p values adjusted over all of them.

    `band` is the equivalence margin as a share. Raises ValueError if it is not between 0 and 1.
    """
    if not 0 < band < 1:
        raise ValueError(f"a band of {band} is not between 0 and 1")
    drafts = [_draft(pair, band) for pair in pairs]
    by_trials = {
        index: draft.numbers for index, draft in enumerate(drafts) if draft.numbers is not None
    }
    found = estimate_ratios(list(by_trials.values()))
    estimates = dict(zip(by_trials, found, strict=True))
    # Primary pairs are adjusted by Holm, the others by Benjamini-Hochberg.
    adjusted: dict[int, float] = {}
    family = {}
    for primary, adjust in ((True, holm), (False, benjamini_hochberg)):
        tested = {
            index: estimate.p
            for index, estimate in estimates.items()
            if drafts[index].comparable and pairs[index].primary is primary
        }
        adjusted |= zip(tested, adjust(list(tested.values())), strict=True)
        family[primary] = len(tested)
    return tuple(
        _without_caps(
            draft.pair,
            _judge_without_trials(draft)
            if index not in estimates
            else _judge_trials(
                draft, estimates[index], adjusted.get(index), family[draft.pair.primary]
            ),
        )
        for index, draft in enumerate(drafts)
    )


def _without_caps(pair: Pair, judgement: Judgement) -> Judgement:
    """A limit of the measurement makes figures the same, whatever the systems can do: no tie."""
    if judgement.verdict is not Verdict.SAME or not (pair.baseline.capped or pair.candidate.capped):
        return judgement
    reasons = (Reason.CAPPED.value, *judgement.reasons)
    return replace(judgement, verdict=Verdict.INCONCLUSIVE, reasons=reasons, trials_needed=None)


def _draft(pair: Pair, band: float) -> _Draft:
    baseline, candidate = pair.baseline, pair.candidate
    refusals = _refusals(pair)
    draft = _Draft(pair=pair, band=band, reasons=refusals, comparable=not refusals)
    if baseline.value is None or candidate.value is None:
        return draft
    if not (0 < baseline.value < math.inf and 0 < candidate.value < math.inf):
        return draft
    ratio = candidate.value / baseline.value
    draft = replace(draft, ratio=ratio)
    trials = (*baseline.trials, *candidate.trials)
    fewest = min(len(baseline.trials), len(candidate.trials))
    if baseline.spread or candidate.spread:
        summary = _summary_interval(baseline, candidate, ratio)
        if summary is not None:
            return replace(draft.with_evidence(Evidence.FEW_TRIALS), interval=summary)
    if any(sample.imported and len(sample.trials) < 2 for sample in (baseline, candidate)):
        return draft.with_evidence(Evidence.ONE_NUMBER, Reason.SINGLE_TRIAL, Reason.BAND_ONLY)
    if not fewest:
        return draft.with_evidence(Evidence.NONE, Reason.NO_TRIAL_VALUES)
    if not all(0 < value < math.inf for value in trials):
        return draft.with_evidence(Evidence.NONE, Reason.TRIAL_NOT_POSITIVE)
    if fewest == 1:
        single = Reason.SINGLE_TRIAL
        errors = _standard_error(baseline), _standard_error(candidate)
        if errors[0] is None or errors[1] is None:
            return draft.with_evidence(Evidence.NONE, single, Reason.NO_WITHIN_RUN_EVIDENCE)
        # 95 %, by the seconds within the trials.
        margin = math.exp(_NORMAL * math.hypot(errors[0], errors[1]))
        draft = draft.with_evidence(Evidence.WITHIN_RUN, single, Reason.WITHIN_RUN_EVIDENCE)
        return replace(draft, interval=(ratio / margin, ratio * margin))
    few = (Reason.FEW_TRIALS,) if fewest < MANY else ()
    draft = draft.with_evidence(Evidence.FEW_TRIALS if few else Evidence.TRIALS, *few)
    return replace(draft, numbers=_numbers(baseline, candidate))


def _summary_interval(
    baseline: Sample, candidate: Sample, ratio: float
) -> tuple[float, float] | None:
    """Compute the 95 % interval of a ratio of means with their standard deviations: Welch's t of
    the logarithms, var(log mean) = (deviation / mean)^2 / n by the delta method. None where a
    sample has neither a spread nor two trials."""
    from scipy.special import stdtrit

    parts = []
    for sample in (baseline, candidate):
        if sample.spread is not None and sample.value:
            share, number = sample.spread.deviation / sample.value, sample.spread.number
            parts.append((share**2 / number, number - 1))
        elif len(sample.trials) > 1 and min(sample.trials) > 0:
            logs = np.log(sample.trials)
            parts.append((float(logs.var(ddof=1)) / len(logs), len(logs) - 1))
        else:
            return None
    variance = sum(part for part, _ in parts)
    if not variance:
        return ratio, ratio
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    margin = math.exp(float(stdtrit(freedom, 0.975)) * math.sqrt(variance))
    return ratio / margin, ratio * margin


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
    """Compute the standard error of a figure with positive trials as a share; None if unknown."""
    number = len(sample.trials)
    known = [share for share in sample.within if share is not None]
    inside = None
    if number and len(known) == number:
        inside = math.sqrt(sum(share**2 for share in known)) / number
    if number < 2:
        return inside
    logs = [math.log(value) for value in sample.trials]
    mean = math.fsum(logs) / number
    between = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / ((number - 1) * number))
    return max(between, inside or 0.0)


def _numbers(baseline: Sample, candidate: Sample) -> TwoSamples:
    """Combine the trials of both systems, by block if every block has one of each."""
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


def _judge_without_trials(draft: _Draft) -> Judgement:
    """Decide without an estimate from trials: by the margin alone, or the seconds of one trial."""
    if not draft.comparable or draft.ratio is None:
        return draft.conclude(Verdict.NOT_COMPARABLE, draft.reasons)
    if draft.evidence is Evidence.ONE_NUMBER:
        return draft.conclude(draft.verdict((draft.ratio, draft.ratio)), draft.reasons)
    if draft.interval is None:
        return draft.conclude(Verdict.INCONCLUSIVE, draft.reasons)
    if draft.evidence is Evidence.FEW_TRIALS:
        found = draft.verdict(draft.interval)
        crosses = (Reason.INTERVAL_CROSSES_BAND,) if found is Verdict.INCONCLUSIVE else ()
        return draft.conclude(found, (*crosses, *draft.reasons))
    verdict = draft.verdict(draft.interval, REPEATS_FACTOR)
    if verdict in (Verdict.BETTER, Verdict.WORSE):
        return draft.conclude(verdict, draft.reasons)
    return draft.conclude(Verdict.INCONCLUSIVE, (*draft.reasons, Reason.REPEATS_MAY_DIFFER))


def _judge_trials(
    draft: _Draft, estimate: RatioEstimate, p_adjusted: float | None, family: int
) -> Judgement:
    ratio, numbers = draft.ratio, draft.numbers
    assert ratio is not None
    assert numbers is not None
    reasons = list(draft.reasons)
    low, high = estimate.interval
    if not low <= ratio <= high:
        # A percentile of all I/Os may be outside the trials' percentiles. The interval must
        # contain the figure that is shown.
        reasons.append(Reason.FIGURE_WIDENS_INTERVAL)
        low, high = min(low, ratio), max(high, ratio)
    found = replace(draft, interval=(low, high))
    if p_adjusted is None:
        return found.conclude(Verdict.NOT_COMPARABLE, reasons)
    verdict = draft.verdict((low, high))
    caveats = []
    if verdict is Verdict.INCONCLUSIVE:
        caveats.append(Reason.INTERVAL_CROSSES_BAND)
    elif verdict is not Verdict.SAME:
        if p_adjusted > LEVEL:
            caveats.append(Reason.P_NOT_SMALL)
        if draft.evidence is Evidence.FEW_TRIALS and not estimate.separated:
            caveats.append(Reason.TRIALS_OVERLAP)
    number = min(len(numbers.above), len(numbers.below))
    margin = draft.margin()
    growth = math.exp(detectable(estimate.scale, number, paired=estimate.paired))
    return replace(
        found.conclude(Verdict.INCONCLUSIVE if caveats else verdict, [*caveats, *reasons]),
        p=estimate.p,
        p_adjusted=p_adjusted,
        trials_needed=_trials_needed(estimate, number, ratio, margin, family) if caveats else None,
        detectable=margin[1] * growth - 1,
    )


def _trials_needed(
    estimate: RatioEstimate, number: int, ratio: float, margin: tuple[float, float], family: int
) -> int | None:
    """Compute the trials per system for a verdict, with the measured ratio and scatter. There are
    `number` now; `family` counts the p values that are adjusted together."""
    needed = partial(trials_needed, scale=estimate.scale, paired=estimate.paired, more_than=number)
    lower = math.log(margin[0]) if margin[0] > 0 else -math.inf
    upper, at = math.log(margin[1]), math.log(ratio)
    outside = max(at - upper, lower - at)
    if outside <= 0:
        return needed(-outside, level=LEVEL, power=_POWER_OF_SAME)
    beyond = needed(outside, level=LEVEL)
    tested = needed(abs(at), level=LEVEL / max(1, family))
    return max(beyond, tested) if beyond and tested else None


class Samples:
    """The samples of one run's figures. The seconds of a trial are read once, and only for a cell
    with one trial."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._imported = run.plan.imported
        self._blocks = {trial.id: trial.block for trial in run.plan.trials}
        self._stored: dict[str, StoredTrial] | None = None
        self._shares: dict[tuple[str, Op], float | None] = {}

    def of(self, figure: MetricFigure, op: Op | None) -> Sample:
        known = [(trial, trial.value) for trial in figure.trials if trial.value is not None]
        # A part of the trials is no sample.
        whole = known if len(known) == len(figure.trials) else []
        alone = len(whole) == 1 and not self._imported
        return Sample(
            value=figure.value,
            trials=tuple(value for _, value in whole),
            blocks=tuple(self._block(one) for one, _ in whole),
            within=tuple(self._within(one, figure, op) for one, _ in whole) if alone else (),
            imported=self._imported,
            errors=error_codes(figure),
            spread=whole[0][0].spread if len(whole) == 1 else None,
            capped=any(mark.code in _CAPS for mark in figure.finding_marks),
        )

    def _block(self, trial: TrialValue) -> tuple[str, int | str]:
        """Return the block of a trial; imported trials have none in common."""
        alone = self._imported or trial.trial not in self._blocks
        return self._run.id, trial.trial if alone else self._blocks[trial.trial]

    def repeat(self, trial: str) -> int | str:
        """Return the trial's number among the repeats of its cell."""
        return self._blocks.get(trial, trial)

    def _within(self, trial: TrialValue, figure: MetricFigure, op: Op | None) -> float | None:
        """Compute the standard error of a trial's rate as a share, from its own seconds.

        In a closed loop the mean latency has the same error. Percentiles have none.
        """
        if figure.metric.quantile is not None or op is None:
            return None
        key = (trial.trial, op)
        if key not in self._shares:
            if self._stored is None:
                self._stored = {one.record.trial: one for one in self._run.trials}
            self._shares[key] = _error_share(self._stored.get(trial.trial), op)
        return self._shares[key]


def error_codes(figure: MetricFigure) -> tuple[str, ...]:
    """Return the codes of the `error` findings about a figure."""
    refusing = (mark.code for mark in figure.finding_marks if mark.severity is Severity.ERROR)
    return tuple(dict.fromkeys(refusing))


def _error_share(stored: StoredTrial | None, op: Op) -> float | None:
    if stored is None:
        return None
    try:
        windows = stored.iops_windows
    except FormatError:
        return None
    parts = [windows[part] for part in (Op.READ, Op.WRITE) if part in windows]
    chosen = [windows[op]] if op in windows else parts if op is Op.TOTAL else []
    if not chosen or len({len(one) for one in chosen}) > 1:
        return None
    values = np.sum([[window.value for window in one] for one in chosen], axis=0)
    return mean_standard_error_share(np.asarray(values, dtype=np.float64))
