"""The ranking of a run's targets on its own page: a table, and a sentence where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from leadline import errors
from leadline.analysis.aa import floor_of_objectives
from leadline.analysis.cells import CellFigure
from leadline.analysis.objectives import every_rate
from leadline.analysis.ranking import Ranking, Standing, Tiers, rank
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.report.changes import band_text, short
from leadline.report.conditions import word
from leadline.report.document import Cell, Column, Kind, Paragraph, Section, Table
from leadline.report.wording import NOT_SHOWN, count_text, listed, visible

# Every pair of targets is judged: of more than these, `leadline rank` is asked for it.
MOST_TARGETS = 60
_GAPS_TOLD = 3


def ranking_of(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding]
) -> Ranking | None:
    """By the rate of every workload; None for one target, for very many, and where no operation
    has a figure."""
    targets = {figure.target for figure in figures}
    if not 2 <= len(targets) <= MOST_TARGETS:
        return None
    try:
        question = every_rate(run, figures)
    except LeadlineError as error:
        if error.kind is not errors.NOTHING_TO_RANK:
            raise
        return None
    noise = floor_of_objectives(run, tuple(figures), tuple(findings))
    return rank(run, figures, question, noise=noise)


def leading(ranking: Ranking | None) -> str:
    """A sentence that names who is first, with its numbers; empty unless verdicts and trials say
    so. Of targets with a missing number nothing is claimed."""
    whole = ranking.complete if ranking else ()
    if ranking is None or len(whole) < 2:
        return ""
    first = [one for one in whole if one.rank == 1]
    if any(one.interval is None or one.interval[1] > len(first) for one in first):
        return ""
    among = f"{len(whole)} targets"
    if ranking.incomplete:
        among += f" with every number ({count_text(len(ranking.incomplete), 'other')} not ranked)"
    by = _by(ranking)
    if len(first) == 1:
        said = _ahead(ranking, whole[0], whole[1])
        return f"{short(whole[0].target)} is the fastest of {among} by {by}: {said}."
    if not _alike(ranking, first):
        return ""
    names = listed(short(one.target) for one in first)
    within = f"no more than {band_text(ranking.band)} apart"
    if len(first) == len(whole):
        return f"{names} are equally fast by {by}: {within}."
    ahead = _ahead(ranking, first[-1], whole[len(first)])
    return (
        f"{names} are equally fast and the fastest of {among} by {by}: {within}; "
        f"{short(first[-1].target)} has {ahead}."
    )


def undecided(ranking: Ranking | None) -> str:
    """A sentence on what the evidence leaves open about the first place; empty where it is clear
    or there is nothing to rank."""
    whole = ranking.complete if ranking else ()
    if ranking is None or leading(ranking):
        return ""
    if len(whole) < 2:
        lack = len(ranking.incomplete)
        verb = "lacks" if lack == 1 else "lack"
        return f"No ranking: {lack} of {len(ranking.standings)} targets {verb} a number."
    contenders = [one for one in whole if one.interval is None or one.interval[0] == 1]
    names = listed(short(one.target) for one in contenders)
    judged = ranking.between(whole[0].target, whole[1].target)
    more = (
        f"; about {judged.trials_needed} trials each would probably tell the first two apart"
        if judged.trials_needed
        else ""
    )
    return f"Which target is the fastest is open between {names}{more}."


def _by(ranking: Ranking) -> str:
    count = len(ranking.question.objectives)
    if count == 1:
        return visible(ranking.question.name)
    return f"the geometric mean of its {count} rates"


def _ahead(ranking: Ranking, one: Standing, other: Standing) -> str:
    """`1.84 times disk, the next (95 % interval 1.62 to 2.04)`."""
    judged = ranking.between(one.target, other.target)
    ratio = judged.ratio
    if ratio is None and one.score and other.score:
        ratio = one.score / other.score
    said = f"{_times(ratio)} times {short(other.target)}, the next" if ratio else "ahead"
    if judged.evidence is Evidence.ONE_NUMBER:
        return f"{said} (single figures, which have no interval)"
    if judged.interval is None:
        return said
    low, high = judged.interval
    return f"{said} (95 % interval {_times(low)} to {_times(high)})"


def _alike(ranking: Ranking, first: Sequence[Standing]) -> bool:
    """Every two of them are shown to be the same, which is more than not told apart."""
    return all(
        ranking.between(one.target, other.target).verdict is Verdict.SAME
        for index, one in enumerate(first)
        for other in first[index + 1 :]
    )


def _times(ratio: float) -> str:
    return f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.1f}"


def ranking_sections(run: Run, ranking: Ranking | None, targets: int) -> tuple[Section, ...]:
    """The ranking as a table; a word on where to find it for very many targets; else none."""
    if ranking is None:
        if targets <= MOST_TARGETS:
            return ()
        text = f"{targets} targets are too many to rank here: `leadline rank {visible(run.id)}`."
        return (Section(heading="Ranking", id="ranking", blocks=(Paragraph(text=text),)),)
    contested = [tiers for tiers in ranking.tiers if len(tiers.ranks) > 1]
    lacking = bool(ranking.incomplete)
    scores = any(one.score_interval for one in ranking.standings)
    table = Table(
        id="ranking-table",
        caption="",
        columns=(
            Column(title="rank", kind=Kind.NUMBER),
            Column(title="target"),
            Column(title="possible ranks", kind=Kind.NUMBER, rank=3),
            Column(title="score", kind=Kind.NUMBER),
            *((Column(title="95 % interval", kind=Kind.NUMBER, rank=2),) if scores else ()),
            *((Column(title="first or equal in", kind=Kind.NUMBER, rank=4),) if contested else ()),
            *((Column(title="lacks", rank=1),) if lacking else ()),
        ),
        rows=tuple(
            _row(ranking, one, contested, scores=scores, lacking=lacking)
            for one in ranking.standings
        ),
    )
    return (
        Section(
            heading="Ranking",
            id="ranking",
            blocks=(Paragraph(text=_explained(ranking)), table),
        ),
    )


def _explained(ranking: Ranking) -> str:
    count = len(ranking.question.objectives)
    what = (
        f"the geometric mean of its {count} rates as ratios to those of"
        if count > 1
        else "its rate as a ratio to that of"
    )
    score = f" Score: {what} {short(ranking.baseline)}." if ranking.baseline else ""
    return (
        f"By {visible(ranking.question.name)}.{score} Targets of one rank cannot be told apart by "
        "their trials; possible ranks: those that the evidence leaves open. Differences within "
        f"{band_text(ranking.band)} do not count. For a use of yours: `leadline rank --for`."
    )


def _row(
    ranking: Ranking,
    one: Standing,
    contested: Sequence[Tiers],
    *,
    scores: bool,
    lacking: bool,
) -> tuple[Cell, ...]:
    why = "a number is missing" if one.missing else "no other target has every number"
    absent = Cell(text=NOT_SHOWN, note=why, missing=True)
    alone = len(ranking.complete) < 2
    shared = sum(other.rank == one.rank for other in ranking.complete) > 1
    # The baseline is 1 by definition, of which there is no interval.
    ends = None if alone or one.target == ranking.baseline else one.score_interval
    firsts = sum(tiers.ranks.get(one.target) == 1 for tiers in contested)
    return (
        absent
        if alone or one.rank is None
        else Cell(text=f"{one.rank}{'=' if shared else ''}", sort=float(one.rank)),
        word(one.target),
        absent if alone or one.interval is None else _ranks(one.interval),
        absent if alone or one.score is None else Cell(text=_times(one.score), sort=one.score),
        *((_span(ends) if ends else Cell(text=NOT_SHOWN, missing=True),) if scores else ()),
        *((Cell(text=f"{firsts} of {len(contested)}", sort=float(firsts)),) if contested else ()),
        *((Cell(text=_lacks(one)),) if lacking else ()),
    )


def _ranks(interval: tuple[int, int]) -> Cell:
    low, high = interval
    return Cell(text=f"{low}" if low == high else f"{low}–{high}", sort=float(low))


def _span(ends: tuple[float, float]) -> Cell:
    low, high = ends
    return Cell(text=f"{_times(low)} to {_times(high)}", sort=high - low)


def _lacks(one: Standing) -> str:
    told = [
        f"{visible(gap.objective.name)}: {visible(gap.reason)}" for gap in one.missing[:_GAPS_TOLD]
    ]
    more = len(one.missing) - len(told)
    return "; ".join([*told, f"and {more:,} more"] if more else told)
