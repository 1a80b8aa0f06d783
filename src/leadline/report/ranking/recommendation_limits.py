"""What a recommendation does not know, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.analysis.ranking import Standing
from leadline.analysis.recommending import Candidate, Recommendation
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.report.wording import count_text, listed, visible

_NAMES = 4
_CHANGES = 2
RESTS_ON = {
    Evidence.ONE_NUMBER: "one number a side, judged by the band alone",
    Evidence.WITHIN_RUN: "one trial a side, judged by its own seconds",
    Evidence.FEW_TRIALS: "two to five trials a side",
    Evidence.TRIALS: "six or more trials a side",
    Evidence.NONE: "nothing to judge it by",
}


def not_measured(found: Recommendation) -> tuple[str, ...]:
    """What belongs to the use case and has no numbers here."""
    said = [f"{visible(one)}." for one in found.ranking.question.not_measured]
    said += [f"{one}: no workload of this kind tells it." for one in found.case.beyond]
    if not found.ranking.resampled and found.ranking.complete:
        said.append("how each figure varies from trial to trial: too few trials.")
    return tuple(said)


def changes(found: Recommendation) -> tuple[str, ...]:
    """What would change the answer, the most likely first."""
    return tuple(_changes(found))


def _changes(found: Recommendation) -> Iterator[str]:
    chosen, other = found.chosen, found.runner_up
    judgement = found.against_runner_up
    if chosen and other and judgement and judgement.verdict is Verdict.INCONCLUSIVE:
        needed = found.trials_needed
        trials = (
            f"about {count_text(needed, 'trial')} of each would probably decide"
            if needed
            else "more trials of each may decide"
        )
        yield (
            f"{visible(other.name)} is not told from {visible(chosen.name)}: {trials} "
            f"({RESTS_ON[judgement.evidence]} now)."
        )
    elif judgement and judgement.evidence is Evidence.ONE_NUMBER:
        yield "One number a target shows no spread: six or more trials of each would."
    if chosen:
        yield from _if_faster(found, chosen)
        yield from _if_one_figure(found, chosen)
    lacking = [one.standing for one in found.candidates if not one.standing.complete]
    if lacking:
        names = listed((visible(one.target) for one in lacking), _NAMES)
        wanted = listed(dict.fromkeys(_lacks(lacking)), _NAMES)
        may = ": they may be as good or better" if chosen else ""
        yield f"The missing numbers of {names} ({wanted}){may}."


def _if_faster(found: Recommendation, chosen: Candidate) -> Iterator[str]:
    """Targets that are better and fall short of a requirement, or of what the use needs."""
    by_name = {one.name: one for one in found.candidates}
    for name in found.faster[:_CHANGES]:
        one = by_name[name]
        asked = [str(requirement) for requirement, _ in one.unmet]
        given_up = set(asked) <= {str(requirement) for requirement in found.requirements}
        when = f"Without {listed(asked)}" if given_up else "If one host at a time were enough"
        yield f"{when}: {visible(name)}, which gives {score_ratio(one, chosen)} times as much."


def _if_one_figure(found: Recommendation, chosen: Candidate) -> Iterator[str]:
    """Figures in which another target that may be chosen is told from the choice as better."""
    eligible = {one.name for one in found.candidates if one.eligible}
    if len(found.ranking.tiers) < 2:
        return
    told = 0
    for tier in sorted(found.ranking.tiers, key=lambda one: -one.objective.weight):
        best = min(rank for name, rank in tier.ranks.items() if name in eligible)
        if tier.ranks[chosen.name] > best and told < _CHANGES:
            told += 1
            first = [name for name, rank in tier.ranks.items() if rank == best and name in eligible]
            names = listed((visible(one) for one in first), _NAMES)
            yield f"If only {visible(tier.objective.name)} counted: {names}."


def _lacks(standings: list[Standing]) -> Iterator[str]:
    for standing in standings:
        for one in standing.missing:
            yield visible(one.objective.name)


def score_ratio(one: Candidate, other: Candidate) -> str:
    """How one score compares to the other."""
    return f"{(one.standing.score or 0.0) / (other.standing.score or 1.0):.2f}"
