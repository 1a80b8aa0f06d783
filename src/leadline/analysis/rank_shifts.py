"""The ranks of the same targets on two systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline import errors
from leadline.analysis.comparison import By, Comparison, Side
from leadline.analysis.figures import CellFigure
from leadline.analysis.noise import floor_of_objectives
from leadline.analysis.objectives import every_rate
from leadline.analysis.ranking import Standing, rank
from leadline.errors import LeadlineError

# Every pair of targets is tested, on each system.
_MOST_TARGETS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RankShift:
    """A target's places on both systems; a standing without a rank lacks a number."""

    subject: str
    baseline: Standing
    candidate: Standing

    @property
    def shift(self) -> int | None:
        """Ranks gained on the candidate (negative: lost); None without a rank on both."""
        if self.baseline.rank is None or self.candidate.rank is None:
            return None
        return self.baseline.rank - self.candidate.rank

    @property
    def significant(self) -> bool:
        """Whether the rank intervals have no rank in common."""
        baseline, candidate = self.baseline.interval, self.candidate.interval
        if baseline is None or candidate is None:
            return False
        return baseline[1] < candidate[0] or candidate[1] < baseline[0]


def rank_shifts(comparison: Comparison) -> tuple[RankShift, ...]:
    """Rank the targets that both systems have by the rate of every workload that both have, of
    equal weight; by rank on the baseline.

    Empty for targets of one system, for systems of several runs, and with fewer than two targets
    that have a rank on both, or more than 60.
    """
    if comparison.by not in (By.RUN, By.CLUSTER) or comparison.has_several_runs:
        return ()
    sides = (comparison.baseline, comparison.candidate)
    subjects = [name for name in sides[0].targets if name in sides[1].targets]
    if not 2 <= len(subjects) <= _MOST_TARGETS:
        return ()
    own = [_figures(side, subjects) for side in sides]
    work = [{(one.workload, one.level, one.op) for one in figures} for figures in own]
    shared = work[0] & work[1]
    places = [
        _standings(side, [one for one in figures if (one.workload, one.level, one.op) in shared])
        for side, figures in zip(sides, own, strict=True)
    ]
    found = [
        RankShift(subject=name, baseline=baseline, candidate=candidate)
        for name in subjects
        if (baseline := places[0].get(sides[0].targets[name])) is not None
        and (candidate := places[1].get(sides[1].targets[name])) is not None
    ]
    if sum(one.shift is not None for one in found) < 2:
        return ()
    return tuple(sorted(found, key=lambda one: (one.baseline.rank or len(found) + 1, one.subject)))


def _figures(side: Side, subjects: Sequence[str]) -> list[CellFigure]:
    names = {side.targets[subject] for subject in subjects}
    return [one for one in side.figures if one.target in names]


def _standings(side: Side, figures: Sequence[CellFigure]) -> dict[str, Standing]:
    """Return the standings by target; empty where nothing can be ranked."""
    try:
        question = every_rate(side.run, figures)
    except LeadlineError as error:
        if error.kind is not errors.NOTHING_TO_RANK:
            raise
        return {}
    noise = floor_of_objectives(side.run, tuple(figures), side.findings)
    ranking = rank(side.run, figures, question, noise=noise)
    return {standing.target: standing for standing in ranking.standings}
