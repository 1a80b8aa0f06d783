"""Which target to use, why, what it costs, and what would change the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from leadline.analysis.cells import CellFigure
from leadline.analysis.protection import LEVELS, Protection
from leadline.analysis.ranking import Ranking, Standing
from leadline.analysis.requirements import Requirement
from leadline.analysis.use_cases import Access, UseCase
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.archive.reader import Run
from leadline.findings import Severity
from leadline.visible import visible

# A target that is not told from the fastest may stand in for it within so many bands.
_NEAR_BANDS = 2


class Basis(StrEnum):
    """What the choice rests on. `speed`: told apart from every other candidate. `alone`: there is
    no other candidate. `trade-off`: as fast as far as anybody can tell, and better protected or
    cheaper. `figure`: nothing tells the candidates apart, the higher figure is named first.
    `none`: nothing can be recommended."""

    SPEED = "speed"
    ALONE = "alone"
    TRADE_OFF = "trade-off"
    FIGURE = "figure"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A target with its place, its promises, and why it does not fulfil what is required."""

    standing: Standing
    protection: Protection
    unmet: tuple[tuple[Requirement, str], ...] = ()

    @property
    def name(self) -> str:
        return self.standing.target

    @property
    def eligible(self) -> bool:
        return self.standing.complete and not self.unmet


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """`candidates` are all targets, those first that may be chosen, the best first. `tied` names
    those that cannot be told from the fastest eligible one, itself included. `trade_off` says which
    property decided among them. `faster` are complete targets that are better than the choice and
    fall short of a requirement. `not_shared`: the use case wants access by many, and no target is
    known to allow it. `runner_up` is the best eligible target beside the choice. `warnings` are the
    codes of what the audit warns of in the choice's figures."""

    case: UseCase
    requirements: tuple[Requirement, ...]
    ranking: Ranking
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    basis: Basis
    tied: tuple[str, ...] = ()
    trade_off: str = ""
    faster: tuple[str, ...] = ()
    runner_up: Candidate | None = None
    not_shared: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def against_runner_up(self) -> Judgement | None:
        """Of the choice and the runner-up; the candidate is the one of the higher score."""
        if self.chosen is None or self.runner_up is None:
            return None
        return self.ranking.between(self.chosen.name, self.runner_up.name)

    @property
    def evidence(self) -> Evidence:
        """What tells, or does not tell, the choice from the runner-up."""
        judgement = self.against_runner_up
        return judgement.evidence if judgement else Evidence.NONE

    @property
    def trials_needed(self) -> int | None:
        """Trials a side that would probably tell the runner-up apart; None where nobody can say,
        or it is told apart, or shown to be the same."""
        judgement = self.against_runner_up
        if judgement is None or judgement.verdict is not Verdict.INCONCLUSIVE:
            return None
        return judgement.trials_needed


def recommend(
    ranking: Ranking,
    case: UseCase,
    protections: Mapping[str, Protection],
    requirements: Sequence[Requirement] = (),
    *,
    figures: Sequence[CellFigure] = (),
    imposed: Mapping[str, str] = MappingProxyType({}),
) -> Recommendation:
    """The fastest target that has every number and fulfils what is required. Those that cannot be
    told from it are tied with it, and the better protected, then the one that takes less raw space
    is chosen. Where the use case needs access by many by nature, targets that allow it go first.

    `figures` are those that the ranking is made of; `imposed` maps targets that are another one
    under a condition of the experiment, which nobody can choose, to that one."""
    required = tuple(requirements)
    candidates = [
        Candidate(
            standing=one,
            protection=protections[one.target],
            unmet=(
                *_no_choice(imposed.get(one.target)),
                *(
                    (requirement, why)
                    for requirement in required
                    if (why := requirement.unmet(protections[one.target]))
                ),
            ),
        )
        for one in ranking.standings
    ]
    eligible = [one for one in candidates if one.eligible]
    shared = [one for one in eligible if _shared(one, case.access)]
    not_shared = case.access is not None and not shared
    if case.access is not None:
        # What cannot be mounted by many is no answer, however fast; what nobody knows of is one
        # only where nothing better is known.
        wanted = Requirement(kind="access", value=case.access.value)
        kept = shared or [one for one in eligible if one.protection.access is None]
        candidates = [
            one if one in kept or not one.eligible else _refused(one, wanted) for one in candidates
        ]
        eligible = kept
    # The first is the one that the fewest are better than, and of those the highest figure.
    tied = [one for one in eligible if not _apart(ranking, eligible[0], one)]
    chosen, trade_off = _chosen([one for one in tied if _near(ranking, tied[0], one)])
    rest = [one for one in eligible if chosen is None or one.name != chosen.name]
    # Who is tied with the choice is what could take its place.
    runner_up = next((one for one in rest if one in tied), rest[0] if rest else None)
    ordered = sorted(
        candidates,
        key=lambda one: (one is not chosen, not one.eligible, not one.standing.complete),
    )
    return Recommendation(
        case=case,
        requirements=required,
        ranking=ranking,
        candidates=tuple(ordered),
        chosen=chosen,
        basis=_basis(eligible, tied, trade_off),
        tied=tuple(one.name for one in tied) if len(tied) > 1 else (),
        trade_off=trade_off,
        faster=tuple(
            one.name
            for one in candidates
            if chosen
            and one.standing.complete
            and not one.eligible
            and one.name not in imposed
            and _faster(ranking, one, chosen)
        ),
        runner_up=runner_up,
        not_shared=not_shared,
        warnings=_warnings(figures, ranking, chosen.name) if chosen else (),
    )


def imposed_conditions(run: Run) -> Mapping[str, str]:
    """Targets that a lab's delay was put on, each with the same target without one, where the run
    has that."""
    plain = {
        (target.cluster, target.subject): target.name
        for target in run.plan.targets
        if target.url and target.parsed.inter_zone_rtt_s is None and target.subject
    }
    return {
        target.name: plain[target.cluster, target.subject]
        for target in run.plan.targets
        if target.url
        and target.parsed.inter_zone_rtt_s is not None
        and (target.cluster, target.subject) in plain
    }


def _no_choice(same: str | None) -> Iterator[tuple[Requirement, str]]:
    if same is not None:
        why = f"it is {visible(same)} with another delay put on the network, which is no choice"
        yield Requirement(kind="condition"), why


def _warnings(figures: Sequence[CellFigure], ranking: Ranking, target: str) -> tuple[str, ...]:
    """Codes of the warnings about the numbers that a target was ranked by."""
    by_key = {(one.workload, one.level, one.op): one for one in figures if one.target == target}
    found = (
        doubt.code
        for objective in ranking.question.objectives
        if (figure := by_key.get(objective.key)) is not None
        for doubt in figure.metric(objective.metric).doubts
        if doubt.severity is Severity.WARNING
    )
    return tuple(dict.fromkeys(found))


def _shared(candidate: Candidate, access: Access | None) -> bool:
    return access is None or access in (candidate.protection.access or ())


def _refused(candidate: Candidate, wanted: Requirement) -> Candidate:
    return Candidate(
        standing=candidate.standing,
        protection=candidate.protection,
        unmet=((wanted, wanted.unmet(candidate.protection)),),
    )


def _apart(ranking: Ranking, one: Candidate, other: Candidate) -> bool:
    return one.name != other.name and ranking.told_apart(one.name, other.name)


def _near(ranking: Ranking, one: Candidate, other: Candidate) -> bool:
    """Whether `other` may be chosen in `one`'s place for its protection: shown to be the same, or
    not told apart by trials and by its own figure not far behind. What nobody could tell apart for
    want of trials may be far slower."""
    if one is other:
        return True
    judgement = ranking.between(one.name, other.name)
    ratio = (other.standing.score or 0.0) / (one.standing.score or 1.0)
    close = ratio > (1 + ranking.band) ** -_NEAR_BANDS
    return judgement.verdict is Verdict.SAME or (judgement.evidence is not Evidence.NONE and close)


def _faster(ranking: Ranking, one: Candidate, other: Candidate) -> bool:
    mine, its = one.standing.score, other.standing.score
    return mine is not None and its is not None and mine > its and _apart(ranking, one, other)


def _basis(eligible: Sequence[Candidate], tied: Sequence[Candidate], trade_off: str) -> Basis:
    if not eligible:
        return Basis.NONE
    if len(eligible) == 1:
        return Basis.ALONE
    if len(tied) == 1:
        return Basis.SPEED
    return Basis.TRADE_OFF if trade_off else Basis.FIGURE


def _chosen(tied: Sequence[Candidate]) -> tuple[Candidate | None, str]:
    """Of those that cannot be told apart: the one that survives most, then the one that takes the
    least raw space; otherwise the first. With what decided first, empty where nothing did."""
    if not tied:
        return None, ""
    known = [one for one in tied if one.protection.known]
    if len(known) < len(tied):
        return tied[0], ""  # what is not known cannot be weighed
    decided = ""
    for said, worth in (
        ("it survives more losses", _losses),
        ("its copies are further apart", _distance),
        ("I/O goes on with more lost", _writable),
        ("it takes less raw space", _thrift),
    ):
        best = max(worth(one) for one in known)
        left = [one for one in known if worth(one) == best]
        decided = decided or (said if len(left) < len(known) else "")
        known = left
    return known[0], decided


def _losses(one: Candidate) -> float:
    return one.protection.losses or 0


def _distance(one: Candidate) -> float:
    domain = one.protection.domain
    return LEVELS.index(domain) if domain in LEVELS else -1


def _writable(one: Candidate) -> float:
    return one.protection.writable or 0


def _thrift(one: Candidate) -> float:
    return -(one.protection.overhead or 0.0)
