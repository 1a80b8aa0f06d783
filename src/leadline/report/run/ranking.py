"""The ranking of a run's targets on its own page: a table, and a sentence where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from leadline import errors
from leadline.analysis.aa import floor_of_objectives
from leadline.analysis.cells import CellFigure
from leadline.analysis.objectives import every_rate
from leadline.analysis.ranking import Ranking, Standing, rank
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.report.change_words import band_text, short
from leadline.report.document import Paragraph, Section
from leadline.report.ranking.page import order_table, times_text
from leadline.report.wording import count_text, listed, visible

# Every pair of targets is judged: of more than these, `leadline rank` is asked for it.
MOST_TARGETS = 60


def ranking_of(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding]
) -> Ranking | None:
    """By the rate of every workload; None for one target, for very many, where no workload is for
    all of them, and where no operation has a figure."""
    targets = {figure.target for figure in figures}
    if not 2 <= len(targets) <= MOST_TARGETS:
        return None
    planned: dict[str, set[str]] = {}
    for cell in run.plan.cells:
        planned.setdefault(cell.workload.name, set()).add(cell.target)
    if not any(targets <= on for on in planned.values()):
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
    said = f"{times_text(ratio)} times {short(other.target)}, the next" if ratio else "ahead"
    if judged.evidence is Evidence.ONE_NUMBER:
        return f"{said} (single figures, which have no interval)"
    if judged.interval is None:
        return said
    low, high = judged.interval
    return f"{said} (95 % interval {times_text(low)} to {times_text(high)})"


def _alike(ranking: Ranking, first: Sequence[Standing]) -> bool:
    """Every two of them are shown to be the same, which is more than not told apart."""
    return all(
        ranking.between(one.target, other.target).verdict is Verdict.SAME
        for index, one in enumerate(first)
        for other in first[index + 1 :]
    )


def ranking_sections(run: Run, ranking: Ranking | None, targets: int) -> tuple[Section, ...]:
    """The ranking as a table; a word on where to find it for very many targets; else none."""
    if ranking is None:
        if targets <= MOST_TARGETS:
            return ()
        text = f"{targets} targets are too many to rank here: `leadline rank {visible(run.id)}`."
        return (Section(heading="Ranking", id="ranking", blocks=(Paragraph(text=text),)),)
    table = order_table("ranking-table", ranking, whole=True)
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
