"""A ranking as a document for a terminal or a wiki."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.analysis.protection import Protection
from leadline.analysis.ranking import Ranking, Standing, Tiers
from leadline.archive.reader import Run
from leadline.report.change_words import band_text
from leadline.report.conditions import word
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
from leadline.report.ranking.protection import alike
from leadline.report.wording import (
    NOT_SHOWN,
    count_text,
    listed,
    share_text,
    value_with_unit,
    visible,
)

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
