"""A ranking as a document for a terminal or a wiki."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from leadline.analysis.ranking import Ranking, Standing, Tiers
from leadline.analysis.recommend import Basis, Candidate, Protection, Recommendation
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.archive.reader import Run
from leadline.report.cells import word
from leadline.report.document import (
    Bullets,
    Cell,
    Column,
    Document,
    Kind,
    Paragraph,
    Section,
    Table,
)
from leadline.report.words import (
    NOT_SHOWN,
    band_text,
    count_text,
    listed,
    share_text,
    value_with_unit,
    visible,
)

# What targets promise besides speed, in words.

_PROTECTION_NAMES = 3


def copies_text(given: Protection) -> str:
    """`3 copies`, `EC 2+1`, or that it is not known."""
    if given.data is not None:
        return f"EC {given.data}+{given.coding}"
    if given.copies is None:
        return "not known"
    return "1 copy" if given.copies == 1 else f"{given.copies} copies"


def apart_text(given: Protection) -> str:
    """`3 copies by zone`."""
    domain = f" by {visible(given.domain)}" if given.known and given.domain else ""
    return f"{copies_text(given)}{domain}"


def borne_text(given: Protection) -> str:
    """`2 (I/O: 1)`: domains lost with no data lost, and with which I/O goes on."""
    if given.losses is None:
        return "not known"
    return f"{given.losses} (I/O: {given.writable})" if given.losses else "none"


def survives_text(given: Protection) -> str:
    """`2 zones (I/O goes on with 1)`."""
    if given.losses is None:
        return "not known"
    domain = visible(given.domain or "failure domain of unknown level")
    if given.losses == 0:
        return "nothing"
    lost = f"{given.losses} {domain}{'s' if given.losses > 1 else ''}"
    if given.writable == given.losses:
        return f"{lost}, I/O goes on"
    goes_on = f"goes on with {given.writable} lost" if given.writable else "stops"
    return f"{lost}, I/O {goes_on}"


def protection_text(given: Protection) -> str:
    """A clause without a subject: `keeps 3 copies apart by zone; no data is lost with ...`."""
    if not given.known:
        return "how it protects its data is not known"
    apart = f" apart by {visible(given.domain)}" if given.domain else ""
    return (
        f"it keeps {copies_text(given)}{apart}, survives the loss of {survives_text(given)}, and "
        f"takes {given.overhead:g} raw bytes for each byte stored"
    )


def access_text(given: Protection) -> str:
    if given.access is None:
        return "not known"
    return ", ".join(one.value for one in given.access) or NOT_SHOWN


def at_rest_text(given: Protection) -> str:
    return "yes" if given.at_rest else "not known"


def alike(given: Mapping[str, Protection]) -> str:
    """A sentence on targets that are ranked together and do not protect alike; empty where they
    do, or where there is only one."""
    if len(given) < 2:
        return ""
    groups: dict[str, list[str]] = {}
    for name, one in given.items():
        groups.setdefault(apart_text(one), []).append(visible(name))
    if set(groups) == {"not known"}:
        return "How the targets protect their data is not known to this archive."
    if len(groups) == 1:
        return ""
    told = "; ".join(
        f"{text}: {listed(names, _PROTECTION_NAMES)}" for text, names in groups.items()
    )
    return f"They do not protect alike, which the score leaves out: {told}."


_TIED_NAMED = 4
_GAPS_TOLD = 3


def ranking_document(run: Run, ranking: Ranking, protections: Mapping[str, Protection]) -> Document:
    """The order first, then what it is made of, then who is not in it."""
    sections = [_order(ranking)]
    if len(ranking.tiers) > 1:
        sections.append(_by_objective(ranking))
    if ranking.incomplete:
        sections.append(_incomplete(ranking))
    if ranking.question.not_measured:
        items = tuple(f"{visible(one)}." for one in ranking.question.not_measured)
        blocks = (Bullets(items=items),)
        sections.append(Section(heading="Not measured", id="not-measured", blocks=blocks))
    return Document(
        title=f"Ranking of {visible(run.id)}",
        subtitle=f"by {visible(ranking.question.name)}",
        summary=tuple(_summary(ranking, protections)),
        sections=tuple(sections),
    )


def _summary(ranking: Ranking, protections: Mapping[str, Protection]) -> list[str]:
    complete = ranking.complete
    if not complete or ranking.baseline is None:
        return ["No target has every number that this ranking needs, so that none has a rank."]
    said = [_first(ranking), _scores(ranking), _evidence(ranking)]
    text = alike({one.target: protections[one.target] for one in complete})
    if text:
        said.append(text)
    left = [one.target for one in ranking.incomplete]
    if left:
        names = listed(map(visible, left), _TIED_NAMED)
        said.append(f"Not ranked, for want of a number: {names}.")
    return said


def _first(ranking: Ranking) -> str:
    complete = ranking.complete
    if len(complete) == 1:
        return f"{visible(complete[0].target)} is the only target with every number."
    first = [one for one in complete if one.rank == 1]
    names = listed((visible(one.target) for one in first), _TIED_NAMED)
    if len(first) == len(complete):
        return f"No two targets can be told apart: {names} share rank 1."
    if len(first) > 1:
        return f"{names} share rank 1: they cannot be told apart."
    close = [one for one in complete[1:] if not ranking.told_apart(complete[0].target, one.target)]
    if not close:
        return f"{names} is better than every other target."
    vary = count_text(len(close), "other varies", "others vary")
    return f"{names} stands first and is told from the next; {vary} too much to be told from it."


def _scores(ranking: Ranking) -> str:
    baseline = visible(ranking.baseline or "")
    number = len(ranking.question.objectives)
    if number == 1:
        return f"The score is the ratio to {baseline}, turned so that more is better."
    equal = len({round(one.weight, 9) for one in ranking.question.objectives}) == 1
    weighed = "of one weight" if equal else "weighed as below"
    return (
        f"The score is the geometric mean of the ratios to {baseline} in {number} figures, "
        f"{weighed}, each turned so that more is better."
    )


def _evidence(ranking: Ranking) -> str:
    band = band_text(ranking.band)
    if ranking.resampled:
        return (
            f"Targets within {band} count as equal; possible ranks are those of 95 % of bootstrap "
            "samples of the trials, and those that the verdicts leave open."
        )
    return (
        f"Too few trials to draw them again: what differs by more than {band} counts as a "
        "difference where one number is all there is, and possible ranks are those that the "
        "verdicts leave open."
    )


def _order(ranking: Ranking) -> Section:
    return Section(heading="Order", id="order", blocks=(order_table("ranking", ranking),))


def order_table(anchor: str, ranking: Ranking, *, whole: bool = False) -> Table:
    """The targets in order. `whole`: in how many figures each is first, and what it lacks, too,
    where nothing else beside the table tells it."""
    single = len(ranking.question.objectives) == 1
    intervals = any(one.score_interval for one in ranking.complete)
    contested = [tiers for tiers in ranking.tiers if len(tiers.ranks) > 1] if whole else []
    lacking = whole and bool(ranking.incomplete)
    columns = [
        Column(title="rank", kind=Kind.NUMBER),
        Column(title="target"),
        Column(title="possible ranks", kind=Kind.NUMBER, rank=3),
        Column(title="score", kind=Kind.NUMBER),
    ]
    columns += [Column(title="95 % interval", kind=Kind.NUMBER, rank=2)] if intervals else []
    columns += [Column(title=visible(_unit_title(ranking)), kind=Kind.NUMBER)] if single else []
    columns += [Column(title="first or equal in", kind=Kind.NUMBER, rank=4)] if contested else []
    columns += [Column(title="lacks", rank=1)] if lacking else []
    rows = []
    for one in ranking.standings:
        row = [_rank(ranking, one), word(one.target), _interval(ranking, one), _score(ranking, one)]
        row += [_score_interval(ranking, one)] if intervals else []
        row += [_value(ranking, one, 0)] if single else []
        row += [_firsts(one, contested)] if contested else []
        row += [Cell(text=visible(_lacks(one)))] if lacking else []
        rows.append(tuple(row))
    # A filterable table has rows of one line in a terminal, and what is lacking needs several.
    return Table(
        id=anchor, caption="", columns=tuple(columns), rows=tuple(rows), filterable=not whole
    )


def _unit_title(ranking: Ranking) -> str:
    return ranking.question.objectives[0].name


def _absent(note: str) -> Cell:
    return Cell(text=NOT_SHOWN, note=note, missing=True)


def _why(standing: Standing) -> str:
    lacks = "; ".join(f"{one.objective.name}: {one.reason}" for one in standing.missing)
    return visible(lacks) or "no other target has every number"


def _placed(ranking: Ranking, standing: Standing) -> bool:
    """Whether there is anything to be placed against."""
    return standing.rank is not None and len(ranking.complete) > 1


def _rank(ranking: Ranking, standing: Standing) -> Cell:
    if standing.rank is None or not _placed(ranking, standing):
        return _absent(_why(standing))
    shared = sum(other.rank == standing.rank for other in ranking.complete) > 1
    return Cell(text=f"{standing.rank}{'=' if shared else ''}", sort=float(standing.rank))


def _interval(ranking: Ranking, standing: Standing) -> Cell:
    if standing.interval is None or not _placed(ranking, standing):
        return _absent(_why(standing))
    low, high = standing.interval
    return Cell(text=str(low) if low == high else f"{low}-{high}", sort=float(low))


def _score(ranking: Ranking, standing: Standing) -> Cell:
    if standing.score is None:
        return Cell(text="incomplete", note=_why(standing), missing=True)
    if not _placed(ranking, standing):
        return _absent(_why(standing))
    return Cell(text=times_text(standing.score), sort=standing.score)


def _score_interval(ranking: Ranking, standing: Standing) -> Cell:
    # The baseline is 1 by definition, of which there is no interval.
    if standing.score_interval is None or standing.target == ranking.baseline:
        return _absent("no interval")
    low, high = standing.score_interval
    return Cell(text=f"{times_text(low)} to {times_text(high)}", sort=high - low)


def times_text(ratio: float) -> str:
    """How many times as much: `1.84`, `12.5`."""
    return f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.1f}"


def _firsts(standing: Standing, contested: Sequence[Tiers]) -> Cell:
    firsts = sum(tiers.ranks.get(standing.target) == 1 for tiers in contested)
    return Cell(text=f"{firsts} of {len(contested)}", sort=float(firsts))


def _lacks(standing: Standing) -> str:
    told = [f"{gap.objective.name}: {gap.reason}" for gap in standing.missing[:_GAPS_TOLD]]
    more = len(standing.missing) - len(told)
    return "; ".join([*told, f"and {more:,} more"] if more else told)


def _value(ranking: Ranking, standing: Standing, number: int) -> Cell:
    value = standing.values[number]
    if value is None:
        return _absent(_why(standing))
    return Cell(text=value_with_unit(ranking.question.objectives[number].metric, value), sort=value)


def _by_objective(ranking: Ranking) -> Section:
    """Who is first in each figure, with the figure, beside the baseline's."""
    by_name = {one.target: one for one in ranking.standings}
    rows = []
    for number, tier in enumerate(ranking.tiers):
        first = [name for name, rank in tier.ranks.items() if rank == 1]
        ahead = max(
            first,
            key=lambda name: _turned(ranking, by_name[name].values[number], number),
            default=None,
        )
        base = by_name[ranking.baseline] if ranking.baseline else None
        tied = f" and {count_text(len(first) - 1, 'more', 'more')}" if len(first) > 1 else ""
        row = [word(tier.objective.name)]
        row += [Cell(text=share_text(tier.objective.weight), sort=tier.objective.weight)]
        row += [_value(ranking, by_name[ahead], number) if ahead else _absent("nobody has it")]
        row += [_value(ranking, base, number) if base else _absent("no baseline")]
        row += [word(f"{ahead}{tied}" if ahead else NOT_SHOWN)]
        rows.append(tuple(row))
    columns = (
        Column(title="figure"),
        Column(title="weight", kind=Kind.NUMBER, rank=2),
        Column(title="best", kind=Kind.NUMBER),
        Column(title="baseline", kind=Kind.NUMBER, rank=1),
        Column(title="rank 1"),
    )
    table = Table(id="by-objective", caption="", columns=columns, rows=tuple(rows))
    return Section(heading="By figure", id="by-figure", blocks=(table,))


def _turned(ranking: Ranking, value: float | None, number: int) -> float:
    if value is None:
        return float("-inf")
    return -value if ranking.question.objectives[number].metric.is_latency else value


def _incomplete(ranking: Ranking) -> Section:
    rows = []
    for one in ranking.incomplete:
        reasons: dict[str, list[str]] = {}
        for lack in one.missing:
            reasons.setdefault(lack.reason, []).append(lack.objective.name)
        text = "; ".join(f"{listed(names)}: {reason}" for reason, names in reasons.items())
        rows.append((word(one.target), Cell(text=visible(text))))
    columns = (Column(title="target"), Column(title="missing"))
    return Section(
        heading="Not ranked",
        id="not-ranked",
        blocks=(
            Paragraph(text="A number is missing, so that their score would be one of other work."),
            Table(id="incomplete", caption="", columns=columns, rows=tuple(rows)),
        ),
    )


# What a recommendation does not know, and what would change it.

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
        wanted = listed(dict.fromkeys(_recommendation_limits_lacks(lacking)), _NAMES)
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


def _recommendation_limits_lacks(standings: list[Standing]) -> Iterator[str]:
    for standing in standings:
        for one in standing.missing:
            yield visible(one.objective.name)


def score_ratio(one: Candidate, other: Candidate) -> str:
    """How one score compares to the other."""
    return f"{(one.standing.score or 0.0) / (other.standing.score or 1.0):.2f}"


# A recommendation in words: the answer with its numbers, what it costs, what would change it.

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
