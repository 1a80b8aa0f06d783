"""The recommendation page: the choice with its numbers, its costs, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import compress

from leadline.analysis.recommend import (
    Basis,
    Candidate,
    Recommendation,
    TradeOff,
)
from leadline.analysis.requirements import (
    Protection,
    Unmet,
    UnmetCause,
)
from leadline.analysis.verdicts import CAP_REASONS, Evidence, Verdict
from leadline.archive.reader import Run
from leadline.report.cells import bullets, number_column, quantity, records_table, section
from leadline.report.document import Cell, Column, Document, Gauge, Table, Tile, Tiles
from leadline.report.pages.protection import (
    access_text,
    apart_text,
    at_rest_text,
    borne_text,
    copies_text,
    copy_boxes,
    protection_text,
    survives_text,
)
from leadline.report.pages.ranking import (
    interval_cell,
    rank_scale,
    reasons_of_missing,
    score_cell,
    score_scale,
    unmeasured_text,
)
from leadline.report.pages.redactions import redaction_sections
from leadline.report.words import (
    NO_DIFFERENCE,
    NOT_SHOWN,
    band_text,
    count_text,
    listed,
    short,
    value_with_unit,
)
from leadline.units import format_latency

_NAMES = 4
_CHANGES = 2
RESTS_ON = {
    Evidence.ONE_NUMBER: "one number per target, tested by the margin alone",
    Evidence.WITHIN_RUN: "one trial per target, tested by its own seconds",
    Evidence.TRIALS: "repeated trials",
    Evidence.NONE: "no evidence",
}


def not_measured(found: Recommendation) -> Iterator[str]:
    """Yield what belongs to the use case and has no number in the run."""
    yield from (f"{unmeasured_text(part)}." for part in found.ranking.question.not_measured)
    yield from (f"{topic}: no workload of this kind covers it." for topic in found.case.beyond)
    if not found.ranking.resampled and found.ranking.complete:
        yield "how each figure varies from trial to trial: too few trials."


def changes(found: Recommendation) -> list[str]:
    """What would change the recommendation, the most likely first."""
    chosen, other = found.chosen, found.runner_up
    judgement = found.against_runner_up
    sentences = []
    if chosen and other and judgement and CAP_REASONS & set(judgement.reasons):
        sentences.append(f"{other.name} and {chosen.name} measured without the limit may differ.")
    elif chosen and other and judgement and judgement.verdict is Verdict.INCONCLUSIVE:
        needed = found.trials_needed
        trials = (
            f"about {count_text(needed, 'trial')} of each would probably decide"
            if needed
            else "more trials of each may decide"
        )
        now = RESTS_ON[judgement.evidence]
        sentences.append(f"{other.name} and {chosen.name} tie: {trials} ({now} now).")
    elif judgement and judgement.evidence is Evidence.ONE_NUMBER:
        sentences.append(
            "One number per target has no interval: three or more trials of each give one."
        )
    if chosen:
        sentences += [*_if_faster(found, chosen), *_if_one_figure(found, chosen)]
    lacking = [
        candidate.standing for candidate in found.candidates if not candidate.standing.complete
    ]
    if lacking:
        names = listed((standing.target for standing in lacking), _NAMES)
        missing = (gap.objective.name for standing in lacking for gap in standing.missing)
        wanted = listed(dict.fromkeys(missing), _NAMES)
        may = ": they may be as good or better" if chosen else ""
        sentences.append(f"The missing numbers of {names} ({wanted}){may}.")
    return sentences


def _if_faster(found: Recommendation, chosen: Candidate) -> Iterator[str]:
    """Yield targets that are faster and do not meet a requirement."""
    by_name = {candidate.name: candidate for candidate in found.candidates}
    for name in found.faster[:_CHANGES]:
        one = by_name[name]
        asked = [str(unmet.requirement) for unmet in one.unmet]
        given_up = set(asked) <= {str(requirement) for requirement in found.requirements}
        when = f"Without {listed(asked)}" if given_up else "If one host at a time were enough"
        yield f"{when}: {name}, which gives {score_ratio(one, chosen)} times as much."


def _if_one_figure(found: Recommendation, chosen: Candidate) -> Iterator[str]:
    """Yield figures in which another eligible target is significantly better than the choice."""
    eligible = {candidate.name for candidate in found.candidates if candidate.eligible}
    if len(found.ranking.tiers) < 2:
        return
    shown = 0
    for tier in sorted(found.ranking.tiers, key=lambda tier: -tier.objective.weight):
        ranks = {name: rank for name, rank in tier.ranks.items() if name in eligible}
        best = min(ranks.values())
        if ranks[chosen.name] > best and shown < _CHANGES:
            shown += 1
            first = listed((name for name, rank in ranks.items() if rank == best), _NAMES)
            yield f"If only {tier.objective.name} counted: {first}."


def score_ratio(one: Candidate, other: Candidate) -> str:
    return f"{(one.standing.score or 0.0) / (other.standing.score or 1.0):.2f}"


_UNKNOWN = "unknown"
_FIGURES_SHOWN = 3
_REFUSED_NAMED = 12


def recommendation_document(run: Run, found: Recommendation) -> Document:
    chosen = found.chosen.name if found.chosen else "no target can be recommended"
    sections = (
        section(
            "Not eligible",
            "not-to-be-chosen",
            bullets(_refused(found)),
            result=f"{sum(not one.eligible for one in found.candidates):,} of "
            f"{count_text(len(found.candidates), 'target')}",
        ),
        section(
            "Not measured",
            "not-measured",
            bullets(not_measured(found)),
            result=count_text(len(list(not_measured(found))), "part"),
        ),
        section("What would change the answer", "would-change", bullets(changes(found))),
        *redaction_sections(run),
    )
    required = ", ".join(str(requirement) for requirement in found.requirements)
    tiles = (Tiles(tiles=tuple(_tiles(found))),) if found.chosen else ()
    return Document(
        title=f"For {found.case.title}: {chosen}",
        subtitle=f"run {run.id} · {found.case.sentence}"
        + (f" · required: {required}" if required else ""),
        summary=(*_answer_parts(found), *trade_offs(found)),
        front=(*tiles, _candidates(found)),
        sections=tuple(part for part in sections if part.blocks),
    )


def _tiles(found: Recommendation) -> Iterator[Tile]:
    """Yield the choice, its speed, its protection and the evidence."""
    chosen, other = found.chosen, found.runner_up
    if chosen is None:
        return
    given = chosen.protection
    reason = _TRADE_OFFS.get(found.trade_off) if found.trade_off else ""
    yield Tile(
        title="Recommended",
        unit=f"for {found.case.title}",
        value=short(chosen.name, _NAME),
        verdict="",
        note=f"{reason[0].upper()}{reason[1:]}." if reason else _BASES[found.basis],
    )
    judgement = found.against_runner_up
    yield Tile(
        title="Score",
        unit=f"to {short(other.name, _NAME)}, the next" if other else "",
        value=f"x {score_ratio(chosen, other)}" if other else "–",
        verdict="" if judgement and judgement.verdict in _DECIDED else "inconclusive",
        note=f"{RESTS_ON[found.evidence].capitalize()}." if other else "No other eligible target.",
    )
    yield Tile(
        title="Protection",
        unit="",
        value=copies_text(given),
        verdict="" if given.known else "inconclusive",
        note=f"Survives the loss of {survives_text(given)}." if given.known else "No inventory.",
    )
    yield Tile(
        title="Trust",
        unit="codes of warnings",
        value=f"{len(found.warnings)}",
        verdict="warning" if found.warnings else "",
        note=f"{listed(found.warnings)}." if found.warnings else "No warnings on its figures.",
    )


_NAME = 22
_DECIDED = (Verdict.BETTER, Verdict.WORSE, Verdict.SAME)
_BASES = {
    Basis.ALONE: "The only eligible target.",
    Basis.SPEED: "The fastest eligible target.",
    Basis.COST: "The cheapest eligible target.",
    Basis.FIGURE: "The highest figure of a tie.",
    Basis.TRADE_OFF: "Better protected or cheaper.",
    Basis.NONE: "",
}


def answer(found: Recommendation) -> str:
    """Return the recommendation as a paragraph with its numbers."""
    return " ".join(_answer_parts(found))


def _answer_parts(found: Recommendation) -> tuple[str, ...]:
    """Return the recommendation as sentences, the choice first."""
    if found.chosen is None:
        return (_nothing(found),)
    name = found.chosen.name
    use = found.case.title
    if found.not_shared:
        use += " if many hosts can mount it, which is unknown"
    figures = _figures(found, found.chosen)
    gives = f"It gives {_against(found)}."
    if found.basis is Basis.ALONE:
        return (f"Use {name} for {use}: it is the only target {_qualified(found)}.", figures)
    if found.basis is Basis.SPEED:
        lead = f"Use {name} for {use}: it is the fastest target {_qualified(found)}."
        return (lead, gives, figures)
    if found.basis is Basis.COST:
        costs = _costs(found, found.chosen)
        lead = f"Use {name} for {use}: it is the cheapest target {_qualified(found)}."
        return (lead, f"Cost: {costs}. {gives}", figures)
    tied = listed((candidate for candidate in found.tied), _NAMES)
    tie = f"{tied} tie in speed for {use}."
    if set(found.tied) & set(found.ranking.capped):
        tie = f"{tied} share a rank in speed for {use} without a tie: {NO_DIFFERENCE}."
    if found.basis is Basis.TRADE_OFF:
        lead = (
            f"Use {name}, because {trade_off_text(found)}: a choice by protection and cost, "
            "not by speed."
        )
        return (lead, tie, gives, figures)
    lead = f"Use {name}: the highest figure of a tie, which is not significant."
    return (lead, tie, f"No known property separates them. {gives}", figures)


def _costs(found: Recommendation, chosen: Candidate) -> str:
    """The cost of the choice and of the fastest other target."""
    priced = found.trade_off is TradeOff.PRICE
    what = "price per TiB" if priced else "raw bytes per byte"

    def cost(one: Candidate) -> str:
        value = one.protection.price if priced else one.protection.raw_per_stored
        return f"{value or 0.0:g}"

    other = f" vs {cost(found.runner_up)} of {found.runner_up.name}" if found.runner_up else ""
    return f"{what} {cost(chosen)}{other}"


def _required(found: Recommendation, *, access: bool) -> str:
    """List the requirements; `access` adds the access mode of the use case."""
    required = [str(requirement) for requirement in found.requirements]
    if found.case.access and access:
        required.append(f"access={found.case.access.value}")
    return listed(dict.fromkeys(required))


def _qualified(found: Recommendation) -> str:
    required = _required(found, access=not found.not_shared)
    return "that has every number" + (f" and meets {required}" if required else "")


def _against(found: Recommendation) -> str:
    """The ratio to the runner-up with its interval and evidence."""
    chosen, other, judgement = found.chosen, found.runner_up, found.against_runner_up
    if chosen is None or other is None or judgement is None:
        return "nothing to compare it with"
    known = RESTS_ON[judgement.evidence]
    objectives = found.ranking.question.objectives
    turned = len(objectives) == 1 and objectives[0].metric.lower_is_better
    if judgement.interval is not None:
        low, high = judgement.interval
        # Whether the choice is the baseline of the judgement, with the lower score.
        backwards = (chosen.name, other.name) not in found.ranking.judgements
        if turned != backwards:
            low, high = 1 / high, 1 / low
        known = f"interval {low:.2f} to {high:.2f}; {known}"
    return f"{score_ratio(chosen, other)} times the score of {other.name} ({known})"


def _figures(found: Recommendation, chosen: Candidate) -> str:
    """The figures of most weight of the choice and of the runner-up."""
    others = found.runner_up.standing.values if found.runner_up else chosen.standing.values
    figures = list(
        zip(found.ranking.question.objectives, chosen.standing.values, others, strict=True)
    )
    figures.sort(key=lambda figure: -figure[0].weight)
    shown = []
    for objective, value, other in figures[:_FIGURES_SHOWN]:
        if value is None:
            continue
        text = f"{objective.name} {value_with_unit(objective.metric, value)}"
        if found.runner_up and other is not None:
            text += f" vs {value_with_unit(objective.metric, other)}"
        shown.append(text)
    more = len(figures) - len(shown)
    rest = f"; {count_text(more, 'further figure')} counted" if more > 0 else ""
    return f"Its figures: {'; '.join(shown)}{rest}."


def _nothing(found: Recommendation) -> str:
    complete = sum(candidate.standing.complete for candidate in found.candidates)
    lead = f"No target can be recommended for {found.case.title}: none"
    if not complete:
        return f"{lead} has every number that it needs."
    return (
        f"{lead} of the {count_text(complete, 'target')} with every number is known to meet "
        f"{_required(found, access=True)}."
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
        requirement.kind == "encrypted" for requirement in found.requirements
    ):
        sentences.append(f"{name}: encryption at rest is unknown.")
    safer = [
        candidate
        for candidate in found.candidates
        if candidate.eligible
        and candidate is not found.chosen
        and mine.failures_survived is not None
        and (candidate.protection.failures_survived or 0) > mine.failures_survived
    ]
    if safer:
        best = safer[0]
        sentences.append(
            f"More protection: {best.name} survives the loss of "
            f"{survives_text(best.protection)}, at {score_ratio(best, found.chosen)} of its score "
            f"and {best.protection.raw_per_stored:g} raw bytes for each byte."
        )
    return tuple(sentences)


def _candidates(found: Recommendation) -> Table:
    """The table of eligible targets, the choice first."""
    eligible = [candidate for candidate in found.candidates if candidate.eligible]

    def overhead(one: Candidate) -> Cell:
        raw = one.protection.raw_per_stored
        return Cell(text=_UNKNOWN, missing=True) if raw is None else quantity(f"{raw:g}", raw)

    def price(one: Candidate) -> Cell:
        value = one.protection.price
        return Cell(text=_UNKNOWN, missing=True) if value is None else quantity(f"{value:g}", value)

    def protection(one: Candidate) -> Cell:
        text = apart_text(one.protection)
        return Cell(text=text, sort=text, gauge=Gauge(boxes=copy_boxes(one.protection)))

    caption = (
        f"Candidates. Score: weighted geometric mean of ratios to {found.ranking.baseline or ''}; "
        f"equivalence margin {band_text(found.ranking.band)}"
    )
    table = records_table(
        "candidates",
        eligible,
        ("target", lambda candidate: candidate.name),
        (
            number_column("rank"),
            lambda candidate: quantity(
                str(candidate.standing.rank or NOT_SHOWN), candidate.standing.rank or 0
            ),
        ),
        (
            number_column("rank interval", 2, scale=rank_scale(found.ranking)),
            lambda candidate: interval_cell(found.ranking, candidate.standing),
        ),
        (
            number_column("score", scale=score_scale(found.ranking)),
            lambda candidate: score_cell(found.ranking, candidate.standing),
        ),
        ("protection", protection),
        (
            Column(title="failures survived", rank=1),
            lambda candidate: Cell(text=borne_text(candidate.protection)),
        ),
        (number_column("raw per byte"), overhead),
        (number_column("price per TiB"), price),
        (
            Column(title="access", rank=3),
            lambda candidate: Cell(text=access_text(candidate.protection)),
        ),
        (
            Column(title="encrypted at rest", rank=4),
            lambda candidate: Cell(text=at_rest_text(candidate.protection)),
        ),
        caption=caption if eligible else "Candidates: none",
    )
    if not eligible:
        return table
    # A column of unknowns is left out; the summary reports it once.
    cells = zip(*table.rows, strict=True)
    known = [any(cell.text != _UNKNOWN for cell in column) for column in cells]
    return replace(
        table,
        columns=tuple(compress(table.columns, known)),
        rows=tuple(tuple(compress(row, known)) for row in table.rows),
    )


def _refused(found: Recommendation) -> list[str]:
    """Why the other targets are not eligible, grouped by reason."""
    names: dict[str, list[str]] = {}
    for candidate in found.candidates:
        if not candidate.eligible:
            reasons = [
                f"{unmet.requirement}: {unmet_text(unmet, candidate.protection)}"
                for unmet in candidate.unmet
            ]
            reasons += reasons_of_missing(candidate.standing)
            names.setdefault("; ".join(reasons), []).append(candidate.name)
    return [f"{listed(targets, _REFUSED_NAMED)} – {why}." for why, targets in names.items()]


_TRADE_OFFS = {
    TradeOff.FAILURES_SURVIVED: "it survives more failures",
    TradeOff.FAILURE_DOMAIN: "its copies are in larger failure domains",
    TradeOff.FAILURES_WRITABLE: "I/O continues with more failures",
    TradeOff.PRICE: "it costs less",
    TradeOff.RAW_SPACE: "it takes less raw space",
}


def trade_off_text(found: Recommendation) -> str:
    """Return the property that decided between ties; empty where none did."""
    return _TRADE_OFFS[found.trade_off] if found.trade_off else ""


def unmet_text(unmet: Unmet, given: Protection) -> str:
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
        case UnmetCause.NOT_ENCRYPTED:
            return "it does not encrypt data at rest"
        case UnmetCause.LATENCY_ABOVE:
            return f"a trial took {format_latency(unmet.latency_s or 0.0)}"
        case UnmetCause.LATENCY_UNKNOWN:
            return "its latency is unknown or refused"
        case UnmetCause.IMPOSED_CONDITION:
            return f"it is {unmet.same_as} with an imposed network delay, which is no choice"
