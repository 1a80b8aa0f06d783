"""Mean changes over cells, computed in each block and tested as one family."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import fmean, median

from leadline.analysis.settings.facts import Change
from leadline.analysis.verdicts import Pair, Sample, judge
from leadline.metrics import Metric

# One value has no scatter.
_FEWEST_BLOCKS = 2


def mean_changes(
    groups: Sequence[Sequence[Pair]], metric: Metric, band: float
) -> list[Change | None]:
    """Test the mean change of each group of cells, all groups as one family, against the
    equivalence margin `band`; None for a group without two blocks that all its cells share.

    The trials of a state are neighbours in its block, so that cells share what happened then. The
    geometric mean over the cells is computed in each block: its scatter from block to block has
    that part, which the cells' own intervals as independent ones would leave out.
    """
    means = [_mean(group, metric) for group in groups]
    judgements = iter(judge([pair for pair in means if pair is not None], band))
    return [
        None if pair is None else Change(cells=len(group), judgement=next(judgements))
        for group, pair in zip(groups, means, strict=True)
    ]


def _mean(group: Sequence[Pair], metric: Metric) -> Pair | None:
    baselines, candidates = ([getattr(pair, side) for pair in group] for side in _SIDES)
    blocks = common_blocks([*baselines, *candidates])
    if len(blocks) < _FEWEST_BLOCKS:
        return None
    return Pair(
        metric=metric,
        baseline=combine_samples(baselines, blocks, 1 / len(group)),
        candidate=combine_samples(candidates, blocks, 1 / len(group)),
        noise=fmean(pair.noise for pair in group),
    )


_SIDES = ("baseline", "candidate")


def common_blocks(samples: Sequence[Sample]) -> list[Hashable]:
    """Return the blocks in which every sample has a trial; empty without a sample."""
    others = [set(sample.blocks) for sample in samples[1:]]
    return [block for block in samples[0].blocks if all(block in one for one in others)]


def combine_samples(samples: Sequence[Sample], blocks: Sequence[Hashable], power: float) -> Sample:
    """Multiply the positive trials of samples block by block, to a `power`: 1 / number of samples
    for their geometric mean."""
    logs = [
        {block: math.log(trial) for block, trial in zip(one.blocks, one.trials, strict=True)}
        for one in samples
    ]
    trials = tuple(math.exp(power * math.fsum(log[block] for log in logs)) for block in blocks)
    return Sample(value=median(trials), trials=trials, blocks=tuple(blocks), run=samples[0].run)
