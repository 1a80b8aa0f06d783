"""Recommendation: the target for a use case, by speed, requirements, protection and raw space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from leadline import errors
from leadline.analysis.figures import CellFigure
from leadline.analysis.objectives import UseCase
from leadline.analysis.ranking import Ranking, Standing
from leadline.analysis.requirements import Protection, Requirement, Unmet, UnmetCause
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Severity
from leadline.plan.facts import LEVELS

_CONDITION = Requirement(kind="condition")
# A target that ties with the fastest can replace it within so many equivalence margins.
_NEAR_BANDS = 2


class Basis(StrEnum):
    """What the choice rests on. `speed`: significantly faster than every other candidate. `alone`:
    the only candidate. `trade-off`: tied in speed, and better protected or cheaper. `figure`: tied
    in every respect, so that the higher figure comes first. `cost`: the cheapest was asked for.
    `none`: nothing can be recommended."""

    SPEED = "speed"
    ALONE = "alone"
    TRADE_OFF = "trade-off"
    FIGURE = "figure"
    COST = "cost"
    NONE = "none"


class Preference(StrEnum):
    """What is preferred among the targets that meet the requirements."""

    FASTEST = "fastest"
    CHEAPEST = "cheapest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A target with its place, its protection, and the requirements that it does not meet."""

    standing: Standing
    protection: Protection
    unmet: tuple[Unmet, ...] = ()

    @property
    def name(self) -> str:
        return self.standing.target

    @property
    def eligible(self) -> bool:
        return self.standing.complete and not self.unmet


class TradeOff(StrEnum):
    """The property that decided between targets that tie in speed."""

    FAILURES_SURVIVED = "failures-survived"
    FAILURE_DOMAIN = "failure-domain"
    FAILURES_WRITABLE = "failures-writable"
    PRICE = "price"
    RAW_SPACE = "raw-space"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """`candidates` are all targets, the eligible ones first, the best first. `tied` names those
    that tie with the fastest eligible target, itself included; `trade_off` decided among them.
    `faster` are complete targets that are better than the choice and do not meet a requirement.
    `not_shared`: the use case needs access by many nodes, and no target is known to allow it.
    `runner_up` is the best eligible target after the choice. `warnings` are the codes of the
    audit's warnings on the choice's figures."""

    case: UseCase
    requirements: tuple[Requirement, ...]
    ranking: Ranking
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    basis: Basis
    tied: tuple[str, ...] = ()
    trade_off: TradeOff | None = None
    faster: tuple[str, ...] = ()
    runner_up: Candidate | None = None
    not_shared: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def against_runner_up(self) -> Judgement | None:
        """The judgement of the choice and the runner-up; the candidate has the higher score."""
        if self.chosen is None or self.runner_up is None:
            return None
        return self.ranking.between(self.chosen.name, self.runner_up.name)

    @property
    def evidence(self) -> Evidence:
        """The evidence of the judgement of the choice and the runner-up."""
        judgement = self.against_runner_up
        return judgement.evidence if judgement else Evidence.NONE

    @property
    def trials_needed(self) -> int | None:
        """Trials per target that would probably decide an inconclusive judgement; None where
        unknown or where it is decided."""
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
    prefer: Preference = Preference.FASTEST,
) -> Recommendation:
    """Recommend the fastest target that has every number and meets the requirements, or the
    cheapest of them. Raises LeadlineError (`usage`) where a latency limit names no I/O of the
    ranking, or neither price nor raw space of all eligible targets is known.

    Among targets that tie with it, the better protected is chosen, then the one that takes less
    raw space. Where the use case needs access by many nodes, targets that allow it come first.
    `figures` are those of the ranking; `imposed` maps a target that is another target under a
    condition of the experiment, which a user cannot choose, to that target."""
    required = tuple(requirements)
    of_use = _figures_of_use(ranking, figures, required)
    candidates = [
        Candidate(
            standing=standing,
            protection=protections[standing.target],
            unmet=tuple(
                unmet
                for requirement in required
                if (
                    unmet := requirement.unmet(
                        protections[standing.target], of_use.get(standing.target, ())
                    )
                )
            ),
        )
        for standing in ranking.standings
    ]
    candidates = [
        _refused(
            candidate, _CONDITION, UnmetCause.IMPOSED_CONDITION, same_as=imposed[candidate.name]
        )
        if candidate.name in imposed
        else candidate
        for candidate in candidates
    ]
    eligible = [candidate for candidate in candidates if candidate.eligible]
    shared = [
        candidate for candidate in eligible if case.access in (candidate.protection.access or ())
    ]
    not_shared = case.access is not None and not shared
    if case.access is not None:
        # A target that one node mounts is no answer, however fast; an unknown access mode is one
        # only where no target is known to allow it.
        wanted = Requirement(kind="access", value=case.access.value)
        kept = shared or [
            candidate for candidate in eligible if candidate.protection.access is None
        ]
        candidates = [
            _refused(candidate, wanted, cause)
            if candidate.eligible
            and candidate not in kept
            and (cause := wanted.check(candidate.protection))
            else candidate
            for candidate in candidates
        ]
        eligible = kept
    # The same rule as for a shared rank.
    first = set(ranking.first_of([candidate.name for candidate in eligible]))
    tied = [candidate for candidate in eligible if candidate.name in first]
    chosen, trade_off = _chosen(
        [candidate for candidate in tied if _near(ranking, tied[0], candidate)]
    )
    cheapest = prefer is Preference.CHEAPEST
    if cheapest and eligible:
        chosen, trade_off = _cheapest(eligible)
        tied = [chosen]
    rest = [candidate for candidate in eligible if chosen is None or candidate.name != chosen.name]
    runner_up = next(
        (candidate for candidate in rest if candidate in tied), rest[0] if rest else None
    )
    ordered = sorted(
        candidates,
        key=lambda candidate: (
            candidate is not chosen,
            not candidate.eligible,
            not candidate.standing.complete,
        ),
    )
    return Recommendation(
        case=case,
        requirements=required,
        ranking=ranking,
        candidates=tuple(ordered),
        chosen=chosen,
        basis=Basis.COST if cheapest and len(eligible) > 1 else _basis(eligible, tied, trade_off),
        tied=tuple(candidate.name for candidate in tied) if len(tied) > 1 else (),
        trade_off=trade_off,
        faster=tuple(
            candidate.name
            for candidate in candidates
            if chosen
            and candidate.standing.complete
            and not candidate.eligible
            and candidate.name not in imposed
            and (candidate.standing.score or 0.0) > (chosen.standing.score or 0.0)
            and candidate.name != chosen.name
            and ranking.differ(candidate.name, chosen.name)
        ),
        runner_up=runner_up,
        not_shared=not_shared,
        warnings=_warnings(figures, ranking, chosen.name) if chosen else (),
    )


def imposed_conditions(run: Run) -> Mapping[str, str]:
    """Map each target with an imposed lab delay to the same target without, where the run has
    it."""
    targets = [target for target in run.plan.targets if target.url and target.subject]
    plain = {
        (target.cluster, target.subject): target.name
        for target in targets
        if target.parsed.inter_zone_rtt_s is None
    }
    return {
        target.name: plain[target.cluster, target.subject]
        for target in targets
        if target.parsed.inter_zone_rtt_s is not None and (target.cluster, target.subject) in plain
    }


def _warnings(figures: Sequence[CellFigure], ranking: Ranking, target: str) -> tuple[str, ...]:
    """Return the codes of the warnings on the numbers that a target was ranked by."""
    by_key = {
        (figure.workload, figure.level, figure.op): figure
        for figure in figures
        if figure.target == target
    }
    found = (
        mark.code
        for objective in ranking.question.objectives
        if (figure := by_key.get(objective.key)) is not None
        for mark in figure.metric(objective.metric).finding_marks
        if mark.severity is Severity.WARNING
    )
    return tuple(dict.fromkeys(found))


def _refused(
    candidate: Candidate, requirement: Requirement, cause: UnmetCause, same_as: str = ""
) -> Candidate:
    unmet = Unmet(requirement=requirement, cause=cause, same_as=same_as)
    return replace(candidate, unmet=(unmet, *candidate.unmet))


def _near(ranking: Ranking, one: Candidate, other: Candidate) -> bool:
    """Return whether `other` can replace `one` for its protection: shown to be the same, or
    inconclusive by trials with a figure that is close. Without trials it could be far slower."""
    if one is other:
        return True
    judgement = ranking.between(one.name, other.name)
    ratio = (other.standing.score or 0.0) / (one.standing.score or 1.0)
    close = ratio > (1 + ranking.band) ** -_NEAR_BANDS
    return judgement.verdict is Verdict.SAME or (judgement.evidence is not Evidence.NONE and close)


def _basis(
    eligible: Sequence[Candidate], tied: Sequence[Candidate], trade_off: TradeOff | None
) -> Basis:
    if not eligible:
        return Basis.NONE
    if len(eligible) == 1:
        return Basis.ALONE
    if len(tied) == 1:
        return Basis.SPEED
    return Basis.TRADE_OFF if trade_off else Basis.FIGURE


# None: unknown, so that the property cannot be weighed.
_WORTH: Mapping[TradeOff, Callable[[Protection], float | None]] = {
    TradeOff.FAILURES_SURVIVED: lambda given: given.failures_survived,
    TradeOff.FAILURE_DOMAIN: lambda given: (
        LEVELS.index(given.failure_domain) if given.failure_domain in LEVELS else -1
    ),
    TradeOff.FAILURES_WRITABLE: lambda given: given.failures_writable,
    TradeOff.PRICE: lambda given: None if given.price is None else -given.price,
    TradeOff.RAW_SPACE: lambda given: -(given.raw_per_stored or 0.0),
}


def _figures_of_use(
    ranking: Ranking, figures: Sequence[CellFigure], required: Sequence[Requirement]
) -> Mapping[str, Sequence[CellFigure]]:
    """Return the figures of the ranked cells by target, each operation of them. Raises
    LeadlineError (`usage`) for a limit on none of them."""
    keys = {objective.key for objective in ranking.question.objectives}
    cells = {key[:2] for key in keys}
    given = [figure for figure in figures if (figure.workload, figure.level) in cells]
    for limit in (one for one in required if one.limit is not None):
        if not any(
            limit.op in (None, figure.op) and limit.workload in ("", figure.workload)
            for figure in given
        ):
            names = dict.fromkeys(f"{one.workload} {one.op}" for one in given if one.op)
            raise LeadlineError(
                errors.USAGE,
                f"the requirement {str(limit)!r} is about no I/O that counts for the use",
                context=[f"it has: {', '.join(names) or 'none'}"],
                hint="name one of these workloads and operations, or none for all",
            )
    found: dict[str, list[CellFigure]] = {}
    for figure in given:
        found.setdefault(figure.target, []).append(figure)
    return found


def _cheapest(eligible: Sequence[Candidate]) -> tuple[Candidate, TradeOff]:
    """Return the target of the lowest price, or of the least raw space where no price is known; the
    fastest of equals, which come first."""
    prices = [candidate.protection.price for candidate in eligible]
    if all(price is not None for price in prices):
        return min(eligible, key=lambda one: one.protection.price or 0.0), TradeOff.PRICE
    raw = [candidate.protection.raw_per_stored for candidate in eligible]
    if not any(price is not None for price in prices) and all(one is not None for one in raw):
        return min(eligible, key=lambda one: one.protection.raw_per_stored or 0.0), (
            TradeOff.RAW_SPACE
        )
    lacking = [one.name for one in eligible if one.protection.price is None]
    raise LeadlineError(
        errors.USAGE,
        f"--prefer cheapest: the price of {', '.join(lacking[:5])} is unknown",
        hint="give `price` of each target in a facts file (`leadline import --facts`)",
    )


def _chosen(tied: Sequence[Candidate]) -> tuple[Candidate | None, TradeOff | None]:
    """Choose among ties by the properties of `_WORTH` in their order, else the first; return the
    choice and the property that decided first."""
    if not tied:
        return None, None
    if not all(candidate.protection.known for candidate in tied):
        return tied[0], None  # an unknown protection cannot be weighed
    decided = None
    left = list(tied)
    for property_, worth in _WORTH.items():
        worths = [worth(candidate.protection) for candidate in left]
        known = [value for value in worths if value is not None]
        if len(known) < len(left):
            continue
        kept = [one for one, value in zip(left, known, strict=True) if value == max(known)]
        if decided is None and len(kept) < len(left):
            decided = property_
        left = kept
    return left[0], decided
