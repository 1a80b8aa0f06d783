"""A recommendation in words: the answer with its numbers, what it costs, what would change it."""

from __future__ import annotations

from leadline.analysis.recommending import Basis, Candidate, Recommendation
from leadline.archive.reader import Run
from leadline.report.change_words import band_text
from leadline.report.conditions import word
from leadline.report.document import Bullets, Cell, Column, Document, Kind, Section, Table
from leadline.report.ranking.protection import (
    access_text,
    apart_text,
    at_rest_text,
    borne_text,
    protection_text,
    survives_text,
)
from leadline.report.ranking.recommendation_limits import (
    RESTS_ON,
    changes,
    not_measured,
    score_ratio,
)
from leadline.report.wording import (
    NOT_SHOWN,
    count_text,
    listed,
    value_with_unit,
    visible,
)

_COLUMNS = (
    Column(title="rank", kind=Kind.NUMBER),
    Column(title="possible ranks", kind=Kind.NUMBER, rank=2),
    Column(title="target"),
    Column(title="score", kind=Kind.NUMBER),
    Column(title="protection"),
    Column(title="losses borne", rank=1),
    Column(title="raw per byte", kind=Kind.NUMBER),
    Column(title="access", rank=3),
    Column(title="encrypted at rest", rank=4),
)
_UNKNOWN = "not known"
_FIGURES_TOLD = 3
_NAMES = 4
_CHANGES = 2
_REFUSED_NAMED = 12


def recommendation_document(run: Run, found: Recommendation) -> Document:
    chosen = visible(found.chosen.name) if found.chosen else "no target can be recommended"
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
        subtitle=f"run {visible(run.id)} · {found.case.sentence}"
        + (f" · required: {required}" if required else ""),
        summary=(answer(found), *trade_offs(found)),
        sections=tuple(sections),
    )


def answer(found: Recommendation) -> str:
    """The recommendation as a paragraph with its numbers."""
    if found.chosen is None:
        return _nothing(found)
    name = visible(found.chosen.name)
    use = found.case.title
    if found.not_shared:
        use += " if many hosts can mount it, which is not known"
    if found.basis is Basis.ALONE:
        said = f"Use {name} for {use}: it is the only target {_qualified(found)}."
    elif found.basis is Basis.SPEED:
        said = (
            f"Use {name} for {use}: it is the fastest target {_qualified(found)}, "
            f"{_against(found)}."
        )
    else:
        tied = listed((visible(one) for one in found.tied), _NAMES)
        said = f"{tied} cannot be told apart in speed for {use}"
        if found.basis is Basis.TRADE_OFF:
            said += (
                f". Of those that are close use {name}, because {found.trade_off}: a choice by "
                f"what it protects and costs, not by speed, in which it gives {_against(found)}."
            )
        else:
            said += (
                f", and nothing that is known sets those that are close apart otherwise. {name} "
                f"has the highest figure, {_against(found)}, which proves no difference."
            )
    return f"{said} {_figures(found)}"


def _qualified(found: Recommendation) -> str:
    required = [str(one) for one in found.requirements]
    if found.case.access and not found.not_shared:
        required.append(f"access={found.case.access.value}")
    required = list(dict.fromkeys(required))
    return "that has every number" + (f" and fulfils {listed(required)}" if required else "")


def _against(found: Recommendation) -> str:
    """The ratio to the runner-up, and how well it is known."""
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
    return f"{ratio:.2f} times what {visible(other.name)} does ({known})"


def _lower(found: Recommendation) -> bool:
    """Whether the choice is the baseline of the judgement: the one of the lower score."""
    assert found.chosen is not None
    assert found.runner_up is not None
    return (found.chosen.name, found.runner_up.name) not in found.ranking.judgements


def _figures(found: Recommendation) -> str:
    """The weightiest figures of the choice beside those of the runner-up."""
    assert found.chosen is not None
    question = found.ranking.question
    order = sorted(range(len(question.objectives)), key=lambda n: -question.objectives[n].weight)
    told = []
    for number in order[:_FIGURES_TOLD]:
        objective = question.objectives[number]
        mine = found.chosen.standing.values[number]
        its = found.runner_up.standing.values[number] if found.runner_up else None
        if mine is None:
            continue
        text = f"{visible(objective.name)} {value_with_unit(objective.metric, mine)}"
        if its is not None:
            text += f" against {value_with_unit(objective.metric, its)}"
        told.append(text)
    more = len(order) - len(told)
    rest = f"; {count_text(more, 'further figure')} counted" if more > 0 else ""
    return f"Its figures: {'; '.join(told)}{rest}."


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
        f"{count_text(len(complete), 'target')} with every number is known to fulfil {required}."
    )


def trade_offs(found: Recommendation) -> tuple[str, ...]:
    """What the choice promises, and what would be had for less speed or more."""
    if found.chosen is None:
        return ()
    name, mine = visible(found.chosen.name), found.chosen.protection
    said = [f"{name}: {protection_text(mine)}."]
    if found.warnings:
        said.append(f"The audit warns of its figures: {listed(found.warnings)}.")
    if mine.at_rest is None and any(one.kind == "encrypted" for one in found.requirements):
        said.append(f"{name}: whether it is encrypted at rest is not known.")
    safer = [
        one
        for one in found.candidates
        if one.eligible
        and one is not found.chosen
        and mine.losses is not None
        and (one.protection.losses or 0) > mine.losses
    ]
    if safer:
        best = safer[0]
        said.append(
            f"More protection: {visible(best.name)} survives the loss of "
            f"{survives_text(best.protection)}, at {score_ratio(best, found.chosen)} of its score "
            f"and {best.protection.overhead:g} raw bytes for each byte."
        )
    return tuple(said)


def _candidates(found: Recommendation) -> Section:
    """The targets that may be chosen, the choice first."""
    rows = tuple(_row(one) for one in found.candidates if one.eligible)
    # A column of which nothing is known says it once, in the summary.
    kept = [n for n in range(len(_COLUMNS)) if any(row[n].text != _UNKNOWN for row in rows)]
    columns = tuple(_COLUMNS[n] for n in kept)
    rows = tuple(tuple(row[n] for n in kept) for row in rows)
    baseline = visible(found.ranking.baseline or "")
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
    if given.overhead is not None:
        overhead = Cell(text=f"{given.overhead:g}", sort=given.overhead)
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
    """Why the others may not be chosen, those of one reason together."""
    names: dict[str, list[str]] = {}
    for one in found.candidates:
        if one.eligible:
            continue
        reasons = [f"{requirement}: {why}" for requirement, why in one.unmet]
        lacks: dict[str, list[str]] = {}
        for lack in one.standing.missing:
            lacks.setdefault(lack.reason, []).append(lack.objective.name)
        reasons += [f"{listed(figures)}: {reason}" for reason, figures in lacks.items()]
        names.setdefault("; ".join(reasons), []).append(one.name)
    if not names:
        return None
    items = tuple(
        f"{visible(listed(targets, _REFUSED_NAMED))} – {visible(why)}."
        for why, targets in names.items()
    )
    return Section(
        heading="Not to be chosen", id="not-to-be-chosen", blocks=(Bullets(items=items),)
    )
