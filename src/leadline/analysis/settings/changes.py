"""Mean changes over cells, tested as one family."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leadline.analysis.overall import estimate_overall
from leadline.analysis.settings.facts import Change
from leadline.analysis.verdicts import Judgement, Verdict, interval_verdict
from leadline.metrics import Metric
from leadline.stats.effects import Estimate, combined_freedom, intervals, p_beyond
from leadline.stats.families import (
    ALONE,
    LEVEL,
    benjamini_hochberg,
    benjamini_hochberg_levels,
    two_sided,
)
from leadline.stats.overall import FEWEST


def mean_changes(
    groups: Sequence[Sequence[Judgement]], metric: Metric, band: float
) -> list[Change]:
    """Compute the mean change of each group of cells, and test all groups as one family against
    the equivalence margin `band`. Every judgement has an estimate."""
    if not groups:
        return []
    estimates = [_mean(group) for group in groups]
    margin = 1 - band, 1 + band
    lower, upper = (np.full(len(groups), math.log(end)) for end in margin)
    adjusted = benjamini_hochberg(two_sided(p_beyond(estimates, lower, upper)).tolist())
    levels = benjamini_hochberg_levels(adjusted)
    alone = intervals(estimates, [ALONE] * len(groups))
    deciding = intervals(estimates, levels)
    found = []
    for at, estimate in enumerate(estimates):
        verdict, interval, confidence = Verdict.INCONCLUSIVE, deciding[at], levels[at]
        if adjusted[at] <= LEVEL:
            verdict = interval_verdict(interval, margin, metric)
        elif interval_verdict(alone[at], margin, metric) is Verdict.SAME:
            verdict, interval, confidence = Verdict.SAME, alone[at], ALONE
        found.append(
            Change(
                cells=len(groups[at]),
                ratio=estimate.ratio,
                interval=interval,
                confidence=confidence,
                p_adjusted=adjusted[at],
                verdict=verdict,
            )
        )
    return found


def _mean(judgements: Sequence[Judgement]) -> Estimate:
    """Estimate the mean log ratio: of three or more cells as a sample of such cells, of fewer as
    the mean of exactly these."""
    if len(judgements) >= FEWEST:
        return estimate_overall(judgements)
    own = [judgement.estimate for judgement in judgements if judgement.estimate is not None]
    squares = [(one.error / len(own)) ** 2 for one in own]
    return Estimate(
        value=math.fsum(one.value for one in own) / len(own),
        error=math.sqrt(math.fsum(squares)),
        freedom=combined_freedom(
            *((square, one.freedom) for square, one in zip(squares, own, strict=True))
        ),
    )
