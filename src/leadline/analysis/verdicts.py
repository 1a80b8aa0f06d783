"""What may be said of two samples: `better`, `worse`, `same`, `inconclusive`, `not comparable`.

The rules and the reasons for them are in docs/adr/0013-verdicts.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.metrics import Metric


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


def judge(pairs: Sequence[Pair], band: float = 0.05) -> tuple[Judgement, ...]:
    """A judgement for each pair, in their order; p values are adjusted over all of them.

    `band` is the share within which two values count as the same. Raises ValueError if it is not
    between 0 and 1.
    """
    raise NotImplementedError
