"""The ranking page: order, figures, trade-off, uses, targets that lack a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from leadline.analysis.figures import CellFigure
from leadline.analysis.objectives import Unmeasured, UnmeasuredCause, key_name, metric_word
from leadline.analysis.ranking import Missing, MissingCause, Ranking, Standing, Tiers
from leadline.analysis.requirements import Protection
from leadline.analysis.verdicts import Evidence
from leadline.archive.reader import Run
from leadline.report.cells import (
    absent,
    bullets,
    known_pairs,
    number,
    number_column,
    quantity,
    records_table,
    section,
)
from leadline.report.curves import linear_scale
from leadline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Gauge,
    KeyValues,
    LineChart,
    Scale,
    Section,
    Table,
    Tiles,
)
from leadline.report.pages.protection import (
    apart_text,
    copies_text,
    copy_boxes,
    protection_differences,
    usable_share,
)
from leadline.report.pages.ranking_charts import (
    Use,
    figures_at,
    figures_map,
    ranking_tiles,
    safest,
    trade_off,
    use_sections,
)
from leadline.report.pages.redactions import redaction_sections
from leadline.report.words import (
    NO_DIFFERENCE,
    absence_text,
    band_text,
    count_text,
    listed,
    place,
    share_text,
    short,
    short_levels,
    value_with_unit,
)

_NOTHING = Protection()
_TIED_NAMED = 4
_MOST_RANK_TICKS = 8
# The scale of scores ends at so many times the highest score.
_WIDEST = 1.5
_GAPS_SHOWN = 3


def ranking_document(
    run: Run,
    ranking: Ranking,
    protections: Mapping[str, Protection],
    figures: Sequence[CellFigure] = (),
    uses: Sequence[Use] = (),
) -> Document:
    """Build the ranking of a run: tiles, order and figures, then the trade-off and each use.

    `figures` are those of the run; `uses` the recommendation for each use, None where the run has
    no such I/O.
    """
    with short_levels(cell.level for cell in run.plan.cells) as shared:
        at = figures_at(figures)
        front: list[Block | None] = [
            Tiles(tiles=ranking_tiles(ranking, protections, at)) if ranking.complete else None,
            order_table("ranking", ranking, protections),
            figures_map(ranking, at),
        ]
        chart = trade_off(ranking, protections)
        not_measured = bullets(
            f"{unmeasured_text(part)}." for part in ranking.question.not_measured
        )
        return Document(
            title=f"Ranking of {run.id}",
            subtitle=place(f"by {ranking.question.name}", shared),
            summary=(ranking_headline(ranking, protections), *_summary(ranking, protections)),
            front=tuple(block for block in front if block is not None),
            sections=(
                *((_trade_off(chart),) if chart else ()),
                *use_sections(ranking, uses),
                *((_incomplete(ranking),) if ranking.incomplete else ()),
                *(
                    (
                        section(
                            "Not measured",
                            "not-measured",
                            not_measured,
                            folded=True,
                            result=count_text(len(ranking.question.not_measured), "part"),
                        ),
                    )
                    if not_measured
                    else ()
                ),
                *((_by_figure(ranking),) if len(ranking.tiers) > 1 else ()),
                section("Method", "method", _method(ranking), folded=True),
                *redaction_sections(run),
            ),
        )


def ranking_headline(ranking: Ranking, protections: Mapping[str, Protection]) -> str:
    """State the first target, and what more protection costs."""
    complete = ranking.complete
    if not complete:
        return "No target has every number that this ranking needs, so none has a rank."
    first = _first(ranking)
    known = [one for one in complete if protections.get(one.target, _NOTHING).known]
    if len(known) < 2 or known[0] is not complete[0]:
        return first
    safe = safest(known, protections)
    mine, most = protections[complete[0].target], protections[safe.target]
    if (most.failures_survived or 0) <= (mine.failures_survived or 0):
        return first
    if safe.rank == 1:
        return f"{first.removesuffix('.')}; {short(safe.target)} survives more losses."
    part = share_text((safe.score or 0.0) / (complete[0].score or 1.0))
    return (
        f"{first.removesuffix('.')}; {short(safe.target)} survives more losses at {part} of its "
        "score."
    )


def _summary(ranking: Ranking, protections: Mapping[str, Protection]) -> list[str]:
    complete = ranking.complete
    sentences = []
    if complete:
        sentences.append(_evidence(ranking))
        text = protection_differences(
            {standing.target: protections.get(standing.target, _NOTHING) for standing in complete}
        )
        sentences += [text] if text else []
    ranks = {standing.target: standing.rank for standing in complete}
    capped = [name for name in ranking.capped if ranks[name] != 1]
    if capped:
        names = listed(map(short, capped), _TIED_NAMED)
        sentences.append(f"{names} share ranks without a tie: {NO_DIFFERENCE}.")
    left = [standing.target for standing in ranking.incomplete]
    if left and complete:
        names = listed(map(short, left), _TIED_NAMED)
        sentences.append(f"Not ranked, because a number is missing: {names}.")
    return sentences


def _first(ranking: Ranking) -> str:
    complete = ranking.complete
    if len(complete) == 1:
        return f"{short(complete[0].target)} is the only target with every number."
    first = [standing for standing in complete if standing.rank == 1]
    names = listed((short(standing.target) for standing in first), _TIED_NAMED)
    if len(first) > 1 and {standing.target for standing in first} & set(ranking.capped):
        return f"{names} share rank 1 without a tie: {NO_DIFFERENCE}."
    if len(first) == len(complete):
        return f"All targets tie: {names} share rank 1."
    if len(first) > 1:
        return f"{names} tie for first."
    lowest = complete[0].interval[1] if complete[0].interval else 1
    if lowest > 1:
        return f"{names} has the highest score; its rank may be 1 to {lowest}."
    close = [
        standing
        for standing in complete[1:]
        if not ranking.differ(complete[0].target, standing.target)
    ]
    ratio = times_text((complete[0].score or 0.0) / (complete[1].score or 1.0))
    if not close:
        return f"{names} is fastest: {ratio} times {short(complete[1].target)}, the next."
    others = count_text(len(close), "target varies", "targets vary")
    return f"{names} is first; {others} too much to separate."


def _evidence(ranking: Ranking) -> str:
    if ranking.resampled:
        return f"Rank intervals: bootstrap of the trials; equivalence margin {_band(ranking)}."
    if any(one.evidence is Evidence.TRIALS for one in ranking.judgements.values()):
        return (
            "One mean per cell: ranks rest on its published scatter and number of repeats; "
            f"equivalence margin {_band(ranking)}."
        )
    return f"One number per cell: ranks rest on the {_band(ranking)} margin, not on repeats."


def _band(ranking: Ranking) -> str:
    return band_text(ranking.band)


def _method(ranking: Ranking) -> KeyValues:
    count = len(ranking.question.objectives)
    equal = len({round(objective.weight, 9) for objective in ranking.question.objectives}) == 1
    base = short(ranking.baseline or "")
    score = f"ratio to {base}" if count == 1 else f"geometric mean of ratios to {base}"
    weights = "equal" if equal else "as in the table By figure"
    intervals = "95 % of bootstrap samples of the trials, and " if ranking.resampled else ""
    pairs = (
        ("Score", f"{score} in {count_text(count, 'figure')}" if base else ""),
        ("Weights", weights if count > 1 else ""),
        ("Rank", "targets of one rank tie" if ranking.complete else ""),
        ("Rank interval", f"{intervals}the ranks that the verdicts allow"),
        ("Equivalence margin", _band(ranking)),
    )
    return known_pairs(pairs)


def order_table(
    anchor: str,
    ranking: Ranking,
    protections: Mapping[str, Protection] = MappingProxyType({}),
    *,
    whole: bool = False,
) -> Table:
    """The targets in order, with rank intervals, scores and what is known of their protection.

    `whole`: with a column for missing numbers, where no other table shows them.
    """
    objectives = ranking.question.objectives
    complete = ranking.complete
    intervals = any(standing.score_interval for standing in complete)
    given = {one.target: protections.get(one.target, _NOTHING) for one in ranking.standings}

    def protection(standing: Standing) -> Cell:
        one = given[standing.target]
        text = apart_text(one)
        return Cell(text=text, sort=text, gauge=Gauge(boxes=copy_boxes(one)))

    def survived(standing: Standing) -> Cell:
        losses = given[standing.target].failures_survived
        return absent("unknown") if losses is None else quantity(str(losses), losses)

    def usable(standing: Standing) -> Cell:
        share = usable_share(given[standing.target])
        if share is None:
            return absent("unknown")
        text = share_text(share)
        return Cell(text=text, sort=share, gauge=Gauge(value=share, bar=True))

    return records_table(
        anchor,
        ranking.standings,
        ("target", lambda standing: standing.target),
        (number_column("rank"), lambda standing: _rank(ranking, standing)),
        (
            number_column("rank interval", 3, scale=rank_scale(ranking)),
            lambda standing: interval_cell(ranking, standing),
        ),
        (
            number_column("score", scale=score_scale(ranking)),
            lambda standing: score_cell(ranking, standing),
        ),
        (number_column("interval", 2), lambda standing: _score_interval(ranking, standing))
        if intervals
        else None,
        (number_column(objectives[0].name), lambda standing: _value(ranking, standing, 0))
        if len(objectives) == 1
        else None,
        (Column(title="protection", rank=1), protection)
        if any(copies_text(one) != "unknown" for one in given.values())
        else None,
        (number_column("losses survived", 6), survived)
        if any(one.known for one in given.values())
        else None,
        (number_column("usable capacity", 5, scale=_SHARES), usable)
        if any(one.raw_per_stored for one in given.values())
        else None,
        (Column(title="lacks", rank=1), lambda standing: Cell(text=_lacks(standing)))
        if whole and ranking.incomplete
        else None,
        # Rows of a filterable table have one line in a terminal; missing numbers need several.
        filterable=not whole,
    )


_SHARES = Scale(title="share of raw", log=False, low=0.0, high=1.0, ticks=())


def rank_scale(ranking: Ranking) -> Scale | None:
    """Return the axis of ranks; None where there are none to compare."""
    last = len(ranking.complete)
    if last < 2:
        return None
    step = max(1, last // _MOST_RANK_TICKS)
    ticks = tuple((float(rank), str(rank)) for rank in range(1, last + 1, step))
    return Scale(title="rank", log=False, low=0.6, high=last + 0.4, ticks=ticks)


def score_scale(ranking: Ranking) -> Scale | None:
    """Return the axis of scores from zero; None where there are none to compare."""
    scores = [standing.score or 0.0 for standing in ranking.complete]
    if len(scores) < 2:
        return None
    ends = [one.score_interval[1] for one in ranking.complete if one.score_interval]
    # A wide interval ends at the edge, so that the scores stay apart.
    highest = min(max([*scores, *ends]), _WIDEST * max(scores))
    return linear_scale("score", highest, lambda score: f"{score:g}")


def _absence(standing: Standing) -> str:
    return "; ".join(missing_lines(standing)) or "no other target has every number"


def _placed(ranking: Ranking, standing: Standing) -> bool:
    return standing.rank is not None and len(ranking.complete) > 1


def _rank(ranking: Ranking, standing: Standing) -> Cell:
    if standing.rank is None or not _placed(ranking, standing):
        return absent(_absence(standing))
    shared = sum(other.rank == standing.rank for other in ranking.complete) > 1
    return quantity(f"{standing.rank}{'=' if shared else ''}", standing.rank)


def interval_cell(ranking: Ranking, standing: Standing) -> Cell:
    if standing.interval is None or not _placed(ranking, standing):
        return absent(_absence(standing))
    low, high = standing.interval
    gauge = Gauge(value=float(standing.rank or low), interval=(float(low), float(high)))
    return replace(quantity(interval_text(standing.interval), low), gauge=gauge)


def interval_text(ranks: tuple[int, int]) -> str:
    """Format a rank interval: `2`, `1-3`."""
    low, high = ranks
    return str(low) if low == high else f"{low}-{high}"


def score_cell(ranking: Ranking, standing: Standing) -> Cell:
    if standing.score is None:
        return Cell(text="incomplete", note=_absence(standing), missing=True)
    if not _placed(ranking, standing):
        return absent(_absence(standing))
    interval = standing.score_interval if standing.target != ranking.baseline else None
    gauge = Gauge(value=standing.score, interval=interval, bar=True)
    return replace(number(standing.score, times_text), gauge=gauge)


def _score_interval(ranking: Ranking, standing: Standing) -> Cell:
    # The baseline is 1 by definition and has no interval.
    if standing.score_interval is None or standing.target == ranking.baseline:
        return absent("no interval")
    low, high = standing.score_interval
    return quantity(f"{times_text(low)} to {times_text(high)}", high - low)


def times_text(ratio: float) -> str:
    """Format a ratio: `1.84`, `12.5`."""
    return f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.1f}"


def _lacks(standing: Standing) -> str:
    lines = missing_lines(standing)
    more = len(lines) - _GAPS_SHOWN
    return "; ".join([*lines[:_GAPS_SHOWN], f"and {more:,} more"] if more > 0 else lines)


def _value(ranking: Ranking, standing: Standing, place: int) -> Cell:
    metric = ranking.question.objectives[place].metric
    return number(
        standing.values[place], lambda value: value_with_unit(metric, value), _absence(standing)
    )


def _trade_off(chart: LineChart) -> Section:
    """The chart, and the targets that no other beats in both score and capacity."""
    best = {point for line in chart.lines if not line.label for point in line.points}
    names = [line.label for line in chart.lines if line.label and best & set(line.points)]
    result = f"no target beats {listed(names, 3)} in both" if names else ""
    return section("Performance vs capacity", "trade-off", chart, result=result)


def _by_figure(ranking: Ranking) -> Section:
    """The table, and the targets that are first in most figures."""
    firsts = Counter(
        name for tier in ranking.tiers for name, rank in tier.ranks.items() if rank == 1
    )
    most = max(firsts.values(), default=0)
    names = listed((short(name) for name, number in firsts.items() if number == most), 2)
    of = count_text(len(ranking.tiers), "figure")
    result = f"{names} first in {most:,} of {of}" if most else ""
    shown = _figures_table(ranking)
    return section("By figure", "by-figure", shown, folded=True, result=result)


def _figures_table(ranking: Ranking) -> Table:
    """For each figure the best target, and the baseline."""
    by_name = {standing.target: standing for standing in ranking.standings}
    tiers = list(ranking.tiers)

    def best(tier: Tiers) -> str | None:
        place = tiers.index(tier)
        sign = -1 if tier.objective.metric.lower_is_better else 1
        first = [name for name, rank in tier.ranks.items() if rank == 1]
        return max(first, key=lambda name: sign * (by_name[name].values[place] or 0), default=None)

    def value(tier: Tiers, target: str | None, absence: str) -> Cell:
        found = by_name[target] if target else None
        return _value(ranking, found, tiers.index(tier)) if found else absent(absence)

    def first_names(tier: Tiers) -> str:
        tied = sum(rank == 1 for rank in tier.ranks.values()) - 1
        more = f" and {count_text(tied, 'more', 'more')}" if tied > 0 else ""
        return f"{best(tier) or ''}{more}"

    return records_table(
        "by-objective",
        tiers,
        ("figure", lambda tier: tier.objective.name),
        (number_column("weight", 2), lambda tier: number(tier.objective.weight, share_text)),
        (number_column("best"), lambda tier: value(tier, best(tier), "no target has it")),
        (
            number_column("baseline", 1),
            lambda tier: value(tier, ranking.baseline, "no baseline"),
        ),
        ("rank 1", first_names),
    )


def ranking_result(ranking: Ranking) -> str:
    """`6 of 7 targets ranked, scores 0.90 to 1.54`."""
    scores = [standing.score for standing in ranking.complete if standing.score is not None]
    ranked = f"{len(scores):,} of {count_text(len(ranking.standings), 'target')} ranked"
    ends = dict.fromkeys(f"{score:.2f}" for score in (min(scores), max(scores))) if scores else ()
    return f"{ranked}, score{'s' if len(ends) > 1 else ''} {' to '.join(ends)}" if ends else ranked


def _incomplete(ranking: Ranking) -> Section:
    def reasons(standing: Standing) -> Cell:
        return Cell(text="; ".join(reasons_of_missing(standing)))

    incomplete = records_table(
        "incomplete",
        ranking.incomplete,
        ("target", lambda standing: standing.target),
        ("missing", reasons),
    )
    lead = "A number is missing, so these targets have no score."
    of = f"{len(ranking.incomplete):,} of {count_text(len(ranking.standings), 'target')}"
    return section("Not ranked", "not-ranked", lead, incomplete, result=of)


# Reasons as words.


def missing_text(gap: Missing) -> str:
    match gap.cause:
        case MissingCause.NOT_PLANNED:
            return "not measured on this target"
        case MissingCause.NO_COMPLETED_TRIAL:
            return "no trial completed"
        case MissingCause.NO_VALUE:
            codes = f" ({', '.join(gap.codes)})" if gap.codes else ""
            return f"{absence_text(gap.figure) or 'not measured'}{codes}"
        case MissingCause.REFUSED:
            return f"refused by the audit: {', '.join(gap.codes)}"
        case MissingCause.ZERO:
            return "the figure is 0, so that it has no ratio"
        case MissingCause.OTHER_WORK:
            return f"other work than on most targets: {'; '.join(gap.differences)}"


def reasons_of_missing(standing: Standing) -> list[str]:
    """Format `objectives: reason` for each reason why a target lacks numbers."""
    reasons: dict[str, list[str]] = {}
    for gap in standing.missing:
        reasons.setdefault(missing_text(gap), []).append(gap.objective.name)
    return [f"{listed(names)}: {reason}" for reason, names in reasons.items()]


def missing_lines(standing: Standing) -> list[str]:
    """Format `objective: reason` for each number that a target lacks."""
    return [f"{gap.objective.name}: {missing_text(gap)}" for gap in standing.missing]


def unmeasured_text(part: Unmeasured) -> str:
    subject = f"{metric_word(part.metric)} of {part.subject}" if part.metric else part.subject
    match part.cause:
        case UnmeasuredCause.NO_TARGET:
            return f"{subject}: no target has it"
        case UnmeasuredCause.NO_WORKLOAD:
            return f"{subject}: no workload does them"
        case UnmeasuredCause.NO_METRIC:
            return f"{subject}: not measured"
        case UnmeasuredCause.TOO_FEW_SAMPLES:
            names = listed(key_name(key) for key in part.keys)
            return f"{subject} ({names}): some trials have too few I/Os for it"
