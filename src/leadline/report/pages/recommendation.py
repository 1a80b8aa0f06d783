"""The recommendation page: the choice with its numbers, its costs, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.analysis.ranking import Standing
from leadline.analysis.recommend import (
    Basis,
    Candidate,
    Protection,
    Recommendation,
    TradeOff,
    Unmet,
    UnmetCause,
)
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.archive.reader import Run
from leadline.report.cells import word
from leadline.report.document import (
    Bullets,
    Cell,
    Column,
    Document,
    Kind,
    Section,
    Table,
)
from leadline.report.pages.ranking import (
    access_text,
    apart_text,
    at_rest_text,
    borne_text,
    missing_text,
    protection_text,
    survives_text,
    unmeasured_text,
)
from leadline.report.words import (
    NOT_SHOWN,
    band_text,
    count_text,
    listed,
    value_with_unit,
)

_NAMES = 4
_CHANGES = 2
RESTS_ON = {
    Evidence.ONE_NUMBER: "one number per target, tested by the margin alone",
    Evidence.WITHIN_RUN: "one trial per target, tested by its own seconds",
    Evidence.FEW_TRIALS: "two to five trials per target",
    Evidence.TRIALS: "six or more trials per target",
    Evidence.NONE: "no evidence",
}


def not_measured(found: Recommendation) -> tuple[str, ...]:
    """Return what belongs to the use case and has no number in the run."""
    sentences = [f"{unmeasured_text(part)}." for part in found.ranking.question.not_measured]
    sentences += [f"{topic}: no workload of this kind covers it." for topic in found.case.beyond]
    if not found.ranking.resampled and found.ranking.complete:
        sentences.append("how each figure varies from trial to trial: too few trials.")
    return tuple(sentences)


def changes(found: Recommendation) -> tuple[str, ...]:
    """Return what would change the recommendation, the most likely first."""
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
            f"{other.name} and {chosen.name} tie: {trials} ({RESTS_ON[judgement.evidence]} now)."
        )
    elif judgement and judgement.evidence is Evidence.ONE_NUMBER:
        yield "One number per target has no interval: six or more trials of each give one."
    if chosen:
        yield from _if_faster(found, chosen)
        yield from _if_one_figure(found, chosen)
    lacking = [one.standing for one in found.candidates if not one.standing.complete]
    if lacking:
        names = listed((one.target for one in lacking), _NAMES)
        wanted = listed(dict.fromkeys(_missing_names(lacking)), _NAMES)
        may = ": they may be as good or better" if chosen else ""
        yield f"The missing numbers of {names} ({wanted}){may}."


def _if_faster(found: Recommendation, chosen: Candidate) -> Iterator[str]:
    """Yield targets that are faster and do not meet a requirement."""
    by_name = {one.name: one for one in found.candidates}
    for name in found.faster[:_CHANGES]:
        one = by_name[name]
        asked = [str(unmet.requirement) for unmet in one.unmet]
        given_up = set(asked) <= {str(requirement) for requirement in found.requirements}
        when = f"Without {listed(asked)}" if given_up else "If one host at a time were enough"
        yield f"{when}: {name}, which gives {score_ratio(one, chosen)} times as much."


def _if_one_figure(found: Recommendation, chosen: Candidate) -> Iterator[str]:
    """Yield figures in which another eligible target is significantly better than the choice."""
    eligible = {one.name for one in found.candidates if one.eligible}
    if len(found.ranking.tiers) < 2:
        return
    shown = 0
    for tier in sorted(found.ranking.tiers, key=lambda one: -one.objective.weight):
        best = min(rank for name, rank in tier.ranks.items() if name in eligible)
        if tier.ranks[chosen.name] > best and shown < _CHANGES:
            shown += 1
            first = [name for name, rank in tier.ranks.items() if rank == best and name in eligible]
            names = listed((one for one in first), _NAMES)
            yield f"If only {tier.objective.name} counted: {names}."


def _missing_names(standings: list[Standing]) -> Iterator[str]:
    for standing in standings:
        for one in standing.missing:
            yield one.objective.name


def score_ratio(one: Candidate, other: Candidate) -> str:
    """Format the ratio of two scores."""
    return f"{(one.standing.score or 0.0) / (other.standing.score or 1.0):.2f}"


_COLUMNS = (
    Column(title="rank", kind=Kind.NUMBER),
    Column(title="rank interval", kind=Kind.NUMBER, rank=2),
    Column(title="target"),
    Column(title="score", kind=Kind.NUMBER),
    Column(title="protection"),
    Column(title="failures survived", rank=1),
    Column(title="raw per byte", kind=Kind.NUMBER),
    Column(title="access", rank=3),
    Column(title="encrypted at rest", rank=4),
)
_UNKNOWN = "unknown"
_FIGURES_SHOWN = 3
_REFUSED_NAMED = 12


def recommendation_document(run: Run, found: Recommendation) -> Document:
    chosen = found.chosen.name if found.chosen else "no target can be recommended"
    sections = [_candidates(found)]
    refused = _refused(found)
    if refused is not None:
        sections.append(refused)
    for heading, anchor, items in (
        ("Not measured", "not-measured", not_measured(found)),
        ("What would change the answer", "would-change", changes(found)),
    ):
        if items:
            blocks = (Bullets(items=items),)
            sections.append(Section(heading=heading, id=anchor, blocks=blocks))
    required = ", ".join(str(one) for one in found.requirements)
    return Document(
        title=f"For {found.case.title}: {chosen}",
        subtitle=f"run {run.id} · {found.case.sentence}"
        + (f" · required: {required}" if required else ""),
        summary=(answer(found), *trade_offs(found)),
        sections=tuple(sections),
    )


def answer(found: Recommendation) -> str:
    """Return the recommendation as a paragraph with its numbers."""
    if found.chosen is None:
        return _nothing(found)
    name = found.chosen.name
    use = found.case.title
    if found.not_shared:
        use += " if many hosts can mount it, which is unknown"
    if found.basis is Basis.ALONE:
        text = f"Use {name} for {use}: it is the only target {_qualified(found)}."
    elif found.basis is Basis.SPEED:
        text = (
            f"Use {name} for {use}: it is the fastest target {_qualified(found)}, "
            f"{_against(found)}."
        )
    else:
        tied = listed((one for one in found.tied), _NAMES)
        text = f"{tied} tie in speed for {use}."
        if found.basis is Basis.TRADE_OFF:
            text += (
                f" Use {name}, because {trade_off_text(found)}: a choice by protection and cost, "
                f"not by speed, in which it gives {_against(found)}."
            )
        else:
            text += (
                f" No known property separates them. {name} has the highest figure, "
                f"{_against(found)}, which is not significant."
            )
    return f"{text} {_figures(found)}"


def _qualified(found: Recommendation) -> str:
    required = [str(one) for one in found.requirements]
    if found.case.access and not found.not_shared:
        required.append(f"access={found.case.access.value}")
    required = list(dict.fromkeys(required))
    return "that has every number" + (f" and meets {listed(required)}" if required else "")


def _against(found: Recommendation) -> str:
    """Return the ratio to the runner-up with its interval and evidence."""
    chosen, other, judgement = found.chosen, found.runner_up, found.against_runner_up
    if chosen is None or other is None or judgement is None:
        return "nothing to compare it with"
    ratio = (chosen.standing.score or 0.0) / (other.standing.score or 1.0)
    known = RESTS_ON[judgement.evidence]
    interval = judgement.interval
    metric = found.ranking.question.objectives[0].metric
    turned = len(found.ranking.question.objectives) == 1 and metric.is_latency
    if interval is not None:
        low, high = interval
        backwards = (found.chosen is not None) and _lower(found)
        if turned != backwards:
            low, high = 1 / high, 1 / low
        known = f"95 % interval {low:.2f} to {high:.2f}; {known}"
    return f"{ratio:.2f} times the score of {other.name} ({known})"


def _lower(found: Recommendation) -> bool:
    """Return whether the choice is the baseline of the judgement, with the lower score."""
    assert found.chosen is not None
    assert found.runner_up is not None
    return (found.chosen.name, found.runner_up.name) not in found.ranking.judgements


def _figures(found: Recommendation) -> str:
    """Return the figures of most weight of the choice and of the runner-up."""
    assert found.chosen is not None
    question = found.ranking.question
    order = sorted(range(len(question.objectives)), key=lambda n: -question.objectives[n].weight)
    shown = []
    for number in order[:_FIGURES_SHOWN]:
        objective = question.objectives[number]
        mine = found.chosen.standing.values[number]
        its = found.runner_up.standing.values[number] if found.runner_up else None
        if mine is None:
            continue
        text = f"{objective.name} {value_with_unit(objective.metric, mine)}"
        if its is not None:
            text += f" vs {value_with_unit(objective.metric, its)}"
        shown.append(text)
    more = len(order) - len(shown)
    rest = f"; {count_text(more, 'further figure')} counted" if more > 0 else ""
    return f"Its figures: {'; '.join(shown)}{rest}."


def _nothing(found: Recommendation) -> str:
    complete = [one for one in found.candidates if one.standing.complete]
    if not complete:
        return (
            f"No target can be recommended for {found.case.title}: none has every number that "
            "it needs."
        )
    asked = [str(one) for one in found.requirements]
    asked += [f"access={found.case.access.value}"] if found.case.access else []
    required = listed(dict.fromkeys(asked))
    return (
        f"No target can be recommended for {found.case.title}: none of the "
        f"{count_text(len(complete), 'target')} with every number is known to meet {required}."
    )


def trade_offs(found: Recommendation) -> tuple[str, ...]:
    """Return the protection of the choice, and what more protection costs in speed."""
    if found.chosen is None:
        return ()
    name, mine = found.chosen.name, found.chosen.protection
    sentences = [f"{name}: {protection_text(mine)}."]
    if found.warnings:
        sentences.append(f"The audit warns of its figures: {listed(found.warnings)}.")
    if mine.encrypted_at_rest is None and any(
        one.kind == "encrypted" for one in found.requirements
    ):
        sentences.append(f"{name}: encryption at rest is unknown.")
    safer = [
        one
        for one in found.candidates
        if one.eligible
        and one is not found.chosen
        and mine.failures_survived is not None
        and (one.protection.failures_survived or 0) > mine.failures_survived
    ]
    if safer:
        best = safer[0]
        sentences.append(
            f"More protection: {best.name} survives the loss of "
            f"{survives_text(best.protection)}, at {score_ratio(best, found.chosen)} of its score "
            f"and {best.protection.raw_per_stored:g} raw bytes for each byte."
        )
    return tuple(sentences)


def _candidates(found: Recommendation) -> Section:
    """Return the table of eligible targets, the choice first."""
    rows = tuple(_row(one) for one in found.candidates if one.eligible)
    # A column of unknowns is left out; the summary reports it once.
    kept = [n for n in range(len(_COLUMNS)) if any(row[n].text != _UNKNOWN for row in rows)]
    columns = tuple(_COLUMNS[n] for n in kept)
    rows = tuple(tuple(row[n] for n in kept) for row in rows)
    baseline = found.ranking.baseline or ""
    caption = (
        f"score: weighted geometric mean of ratios to {baseline}; targets within "
        f"{band_text(found.ranking.band)} count as equal"
        if rows
        else "none"
    )
    table = Table(id="candidates", caption=caption, columns=columns, rows=rows)
    return Section(heading="Candidates", id="candidates", blocks=(table,))


def _row(one: Candidate) -> tuple[Cell, ...]:
    standing, given = one.standing, one.protection
    low, high = standing.interval or (0, 0)
    overhead = Cell(text=_UNKNOWN, missing=True)
    if given.raw_per_stored is not None:
        overhead = Cell(text=f"{given.raw_per_stored:g}", sort=given.raw_per_stored)
    return (
        Cell(text=str(standing.rank or NOT_SHOWN), sort=float(standing.rank or 0)),
        Cell(text=str(low) if low == high else f"{low}-{high}", sort=float(low)),
        word(one.name),
        Cell(text=f"{standing.score or 0.0:.2f}", sort=standing.score),
        Cell(text=apart_text(given)),
        Cell(text=borne_text(given)),
        overhead,
        Cell(text=access_text(given)),
        Cell(text=at_rest_text(given)),
    )


def _refused(found: Recommendation) -> Section | None:
    """Return why the other targets are not eligible, grouped by reason."""
    names: dict[str, list[str]] = {}
    for one in found.candidates:
        if one.eligible:
            continue
        reasons = [
            f"{unmet.requirement}: {unmet_text(unmet, one.protection)}" for unmet in one.unmet
        ]
        lacks: dict[str, list[str]] = {}
        for lack in one.standing.missing:
            lacks.setdefault(missing_text(lack), []).append(lack.objective.name)
        reasons += [f"{listed(figures)}: {reason}" for reason, figures in lacks.items()]
        names.setdefault("; ".join(reasons), []).append(one.name)
    if not names:
        return None
    items = tuple(f"{listed(targets, _REFUSED_NAMED)} – {why}." for why, targets in names.items())
    return Section(heading="Not eligible", id="not-to-be-chosen", blocks=(Bullets(items=items),))


_TRADE_OFFS = {
    TradeOff.FAILURES_SURVIVED: "it survives more failures",
    TradeOff.FAILURE_DOMAIN: "its copies are in larger failure domains",
    TradeOff.FAILURES_WRITABLE: "I/O continues with more failures",
    TradeOff.RAW_SPACE: "it takes less raw space",
}


def trade_off_text(found: Recommendation) -> str:
    """Return the property that decided between ties; empty where none did."""
    return _TRADE_OFFS[found.trade_off] if found.trade_off else ""


def unmet_text(unmet: Unmet, given: Protection) -> str:
    """Return why a target does not meet a requirement."""
    level = unmet.requirement.value
    match unmet.cause:
        case UnmetCause.PROTECTION_UNKNOWN:
            return "how it protects its data is unknown"
        case UnmetCause.NO_SECOND_COPY:
            return "it keeps no second copy"
        case UnmetCause.DOMAIN_UNKNOWN:
            domain = given.failure_domain or "an unknown failure domain"
            return f"its copies are separated by {domain}, which has no known order to {level}"
        case UnmetCause.DOMAIN_TOO_SMALL:
            return f"its copies are separated by {given.failure_domain}: two can share one {level}"
        case UnmetCause.ACCESS_UNKNOWN:
            return "its access modes are unknown"
        case UnmetCause.NOT_MOUNTABLE:
            return f"it cannot be mounted; {level} needs another kind of storage"
        case UnmetCause.ONE_NODE:
            return f"one node mounts it; {level} needs another kind of storage"
        case UnmetCause.ENCRYPTION_UNKNOWN:
            return "encryption at rest is unknown"
        case UnmetCause.IMPOSED_CONDITION:
            return f"it is {unmet.same_as} with an imposed network delay, which is no choice"
