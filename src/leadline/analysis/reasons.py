"""The codes with which a judgement gives its reasons, and what each says."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Codes of findings and of differing conditions stand beside these among the reasons."""

    MISSING_BASELINE = "missing-baseline"
    MISSING_CANDIDATE = "missing-candidate"
    ZERO = "zero"
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

    @property
    def text(self) -> str:
        """Half a sentence that says it to people."""
        return _TEXTS[self]


_TEXTS = {
    Reason.MISSING_BASELINE: "the baseline has no number",
    Reason.MISSING_CANDIDATE: "the candidate has no number",
    Reason.ZERO: "a number of zero has no ratio",
    Reason.INTERVAL_CROSSES_BAND: "the interval lies on both sides of an edge of the band",
    Reason.P_NOT_SMALL: "among so many cells chance alone could do it (adjusted p above 5 %)",
    Reason.TRIALS_OVERLAP: "few trials, and those of the two sides overlap",
    Reason.FEW_TRIALS: "two to five trials a side, judged by Student's t",
    Reason.SINGLE_TRIAL: "one trial on a side says nothing of how repeats differ",
    Reason.WITHIN_RUN_EVIDENCE: "judged by the seconds inside the trials",
    Reason.NO_WITHIN_RUN_EVIDENCE: "the seconds inside the trial are not known",
    Reason.REPEATS_MAY_DIFFER: "repeats of one thing are known to differ by as much",
    Reason.BAND_ONLY: "published figures without repeats, judged by the band alone",
    Reason.NO_TRIAL_VALUES: "not every trial tells this number",
    Reason.TRIAL_NOT_POSITIVE: "a trial's value is zero",
    Reason.FIGURE_WIDENS_INTERVAL: "the number of all trials together lies outside the interval "
    "of the trials, which is widened to it",
    Reason.NOISE_FLOOR: "the band is the measured noise floor, above the one asked for",
}
