"""The ranking page: order, figures, targets that lack a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.analysis.objectives import Unmeasured, UnmeasuredCause, key_name, metric_word
from leadline.analysis.ranking import Missing, MissingCause, Ranking, Standing, Tiers
from leadline.analysis.recommend import Protection
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
)

_TIED_NAMED = 4
_GAPS_SHOWN = 3


def ranking_document(run: Run, ranking: Ranking, protections: Mapping[str, Protection]) -> Document:
    """Return the page: the order, the figures, then the targets without a rank."""
    sections = [_order(ranking)]
    if len(ranking.tiers) > 1:
        sections.append(_by_objective(ranking))
    if ranking.incomplete:
        sections.append(_incomplete(ranking))
    if ranking.question.not_measured:
        items = tuple(f"{unmeasured_text(part)}." for part in ranking.question.not_measured)
        blocks = (Bullets(items=items),)
        sections.append(Section(heading="Not measured", id="not-measured", blocks=blocks))
    return Document(
        title=f"Ranking of {run.id}",
        subtitle=f"by {ranking.question.name}",
        summary=tuple(_summary(ranking, protections)),
        sections=tuple(sections),
    )


def _summary(ranking: Ranking, protections: Mapping[str, Protection]) -> list[str]:
    complete = ranking.complete
    if not complete or ranking.baseline is None:
        return ["No target has every number that this ranking needs, so none has a rank."]
    sentences = [_first(ranking), _scores(ranking), _evidence(ranking)]
    text = protection_differences({one.target: protections[one.target] for one in complete})
    if text:
        sentences.append(text)
    left = [one.target for one in ranking.incomplete]
    if left:
        names = listed(left, _TIED_NAMED)
        sentences.append(f"Not ranked, because a number is missing: {names}.")
    return sentences


def _first(ranking: Ranking) -> str:
    complete = ranking.complete
    if len(complete) == 1:
        return f"{complete[0].target} is the only target with every number."
    first = [one for one in complete if one.rank == 1]
    names = listed((one.target for one in first), _TIED_NAMED)
    if len(first) == len(complete):
        return f"All targets tie: {names} share rank 1."
    if len(first) > 1:
        return f"{names} tie for first."
    close = [one for one in complete[1:] if not ranking.differ(complete[0].target, one.target)]
    if not close:
        return f"{names} is better than every other target."
    others = count_text(len(close), "target varies", "targets vary")
    return f"{names} is first and better than the next; {others} too much to separate from it."


def _scores(ranking: Ranking) -> str:
    baseline = ranking.baseline or ""
    number = len(ranking.question.objectives)
    if number == 1:
        return f"The score is the ratio to {baseline}; more is better."
    equal = len({round(one.weight, 9) for one in ranking.question.objectives}) == 1
    weighed = "equally weighted" if equal else "weighted as below"
    return (
        f"The score is the geometric mean of the ratios to {baseline} in {number} figures, "
        f"{weighed}; more is better."
    )


def _evidence(ranking: Ranking) -> str:
    band = band_text(ranking.band)
    if ranking.resampled:
        return (
            f"Targets within {band} count as equal. Rank intervals cover 95 % of bootstrap samples "
            "of the trials, and the ranks that the verdicts allow."
        )
    return (
        f"Too few trials for a bootstrap: single numbers that differ by more than {band} count as "
        "different, and rank intervals are those that the verdicts allow."
    )


def _order(ranking: Ranking) -> Section:
    return Section(heading="Order", id="order", blocks=(order_table("ranking", ranking),))


def order_table(anchor: str, ranking: Ranking, *, whole: bool = False) -> Table:
    """Return the table of targets in order.

    `whole`: with columns for the figures in which a target is first and for missing numbers, where
    no other table shows them.
    """
    single = len(ranking.question.objectives) == 1
    intervals = any(one.score_interval for one in ranking.complete)
    contested = [tiers for tiers in ranking.tiers if len(tiers.ranks) > 1] if whole else []
    lacking = whole and bool(ranking.incomplete)
    columns = [
        Column(title="rank", kind=Kind.NUMBER),
        Column(title="target"),
        Column(title="rank interval", kind=Kind.NUMBER, rank=3),
        Column(title="score", kind=Kind.NUMBER),
    ]
    columns += [Column(title="95 % interval", kind=Kind.NUMBER, rank=2)] if intervals else []
    columns += [Column(title=_unit_title(ranking), kind=Kind.NUMBER)] if single else []
    columns += [Column(title="first or equal in", kind=Kind.NUMBER, rank=4)] if contested else []
    columns += [Column(title="lacks", rank=1)] if lacking else []
    rows = []
    for one in ranking.standings:
        row = [_rank(ranking, one), word(one.target), _interval(ranking, one), _score(ranking, one)]
        row += [_score_interval(ranking, one)] if intervals else []
        row += [_value(ranking, one, 0)] if single else []
        row += [_firsts(one, contested)] if contested else []
        row += [Cell(text=_lacks(one))] if lacking else []
        rows.append(tuple(row))
    # Rows of a filterable table have one line in a terminal; missing numbers need several.
    return Table(
        id=anchor, caption="", columns=tuple(columns), rows=tuple(rows), filterable=not whole
    )


def _unit_title(ranking: Ranking) -> str:
    return ranking.question.objectives[0].name


def _absent(note: str) -> Cell:
    return Cell(text=NOT_SHOWN, note=note, missing=True)


def _absence(standing: Standing) -> str:
    return "; ".join(missing_lines(standing)) or "no other target has every number"


def _placed(ranking: Ranking, standing: Standing) -> bool:
    """Return whether the target has a rank among others."""
    return standing.rank is not None and len(ranking.complete) > 1


def _rank(ranking: Ranking, standing: Standing) -> Cell:
    if standing.rank is None or not _placed(ranking, standing):
        return _absent(_absence(standing))
    shared = sum(other.rank == standing.rank for other in ranking.complete) > 1
    return Cell(text=f"{standing.rank}{'=' if shared else ''}", sort=float(standing.rank))


def _interval(ranking: Ranking, standing: Standing) -> Cell:
    if standing.interval is None or not _placed(ranking, standing):
        return _absent(_absence(standing))
    low, high = standing.interval
    return Cell(text=str(low) if low == high else f"{low}-{high}", sort=float(low))


def _score(ranking: Ranking, standing: Standing) -> Cell:
    if standing.score is None:
        return Cell(text="incomplete", note=_absence(standing), missing=True)
    if not _placed(ranking, standing):
        return _absent(_absence(standing))
    return Cell(text=times_text(standing.score), sort=standing.score)


def _score_interval(ranking: Ranking, standing: Standing) -> Cell:
    # The baseline is 1 by definition and has no interval.
    if standing.score_interval is None or standing.target == ranking.baseline:
        return _absent("no interval")
    low, high = standing.score_interval
    return Cell(text=f"{times_text(low)} to {times_text(high)}", sort=high - low)


def times_text(ratio: float) -> str:
    """Format a ratio: `1.84`, `12.5`."""
    return f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.1f}"


def _firsts(standing: Standing, contested: Sequence[Tiers]) -> Cell:
    firsts = sum(tiers.ranks.get(standing.target) == 1 for tiers in contested)
    return Cell(text=f"{firsts} of {len(contested)}", sort=float(firsts))


def _lacks(standing: Standing) -> str:
    lines = missing_lines(standing)
    more = len(lines) - _GAPS_SHOWN
    return "; ".join([*lines[:_GAPS_SHOWN], f"and {more:,} more"] if more > 0 else lines)


def _value(ranking: Ranking, standing: Standing, number: int) -> Cell:
    value = standing.values[number]
    if value is None:
        return _absent(_absence(standing))
    return Cell(text=value_with_unit(ranking.question.objectives[number].metric, value), sort=value)


def _by_objective(ranking: Ranking) -> Section:
    """Return the table of figures: the best target of each, and the baseline."""
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
        row += [_value(ranking, by_name[ahead], number) if ahead else _absent("no target has it")]
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
            reasons.setdefault(missing_text(lack), []).append(lack.objective.name)
        text = "; ".join(f"{listed(names)}: {reason}" for reason, names in reasons.items())
        rows.append((word(one.target), Cell(text=text)))
    columns = (Column(title="target"), Column(title="missing"))
    return Section(
        heading="Not ranked",
        id="not-ranked",
        blocks=(
            Paragraph(text="A number is missing, so these targets have no score."),
            Table(id="incomplete", caption="", columns=columns, rows=tuple(rows)),
        ),
    )


_PROTECTION_NAMES = 3


def copies_text(given: Protection) -> str:
    """`3 copies`, `EC 2+1`, or that it is not known."""
    if given.data_chunks is not None:
        return f"EC {given.data_chunks}+{given.coding_chunks}"
    if given.copies is None:
        return "unknown"
    return "1 copy" if given.copies == 1 else f"{given.copies} copies"


def apart_text(given: Protection) -> str:
    """`3 copies by zone`."""
    domain = f" by {given.failure_domain}" if given.known and given.failure_domain else ""
    return f"{copies_text(given)}{domain}"


def borne_text(given: Protection) -> str:
    """`2 (I/O: 1)`: domains lost with no data lost, and with which I/O goes on."""
    if given.failures_survived is None:
        return "unknown"
    return (
        f"{given.failures_survived} (I/O: {given.failures_writable})"
        if given.failures_survived
        else "none"
    )


def survives_text(given: Protection) -> str:
    """`2 zones (I/O goes on with 1)`."""
    if given.failures_survived is None:
        return "unknown"
    domain = given.failure_domain or "failure domain of unknown level"
    if given.failures_survived == 0:
        return "nothing"
    lost = f"{given.failures_survived} {domain}{'s' if given.failures_survived > 1 else ''}"
    if given.failures_writable == given.failures_survived:
        return f"{lost}, I/O goes on"
    goes_on = f"goes on with {given.failures_writable} lost" if given.failures_writable else "stops"
    return f"{lost}, I/O {goes_on}"


def protection_text(given: Protection) -> str:
    """A clause without a subject: `keeps 3 copies apart by zone; no data is lost with ...`."""
    if not given.known:
        return "how it protects its data is unknown"
    apart = f" apart by {given.failure_domain}" if given.failure_domain else ""
    return (
        f"it keeps {copies_text(given)}{apart}, survives the loss of {survives_text(given)}, and "
        f"takes {given.raw_per_stored:g} raw bytes for each byte stored"
    )


def access_text(given: Protection) -> str:
    if given.access is None:
        return "unknown"
    return ", ".join(given.access) or NOT_SHOWN


def at_rest_text(given: Protection) -> str:
    return "yes" if given.encrypted_at_rest else "unknown"


def protection_differences(given: Mapping[str, Protection]) -> str:
    """Return a sentence where targets that are ranked together protect their data differently,
    else an empty string."""
    if len(given) < 2:
        return ""
    groups: dict[str, list[str]] = {}
    for name, one in given.items():
        groups.setdefault(apart_text(one), []).append(name)
    if set(groups) == {"unknown"}:
        return "The archive does not record how the targets protect their data."
    if len(groups) == 1:
        return ""
    groups_text = "; ".join(
        f"{text}: {listed(names, _PROTECTION_NAMES)}" for text, names in groups.items()
    )
    return f"Protection differs and is not part of the score: {groups_text}."


# Reasons as words.


def missing_text(gap: Missing) -> str:
    """Return why a target has no number for an objective."""
    match gap.cause:
        case MissingCause.NOT_PLANNED:
            return "not measured on this target"
        case MissingCause.NO_COMPLETED_TRIAL:
            return "no trial completed"
        case MissingCause.NO_VALUE:
            codes = f" ({', '.join(gap.codes)})" if gap.codes else ""
            return f"{gap.absence or 'not measured'}{codes}"
        case MissingCause.REFUSED:
            return f"refused by the audit: {', '.join(gap.codes)}"
        case MissingCause.ZERO:
            return "the figure is 0, so that it has no ratio"
        case MissingCause.OTHER_WORK:
            return f"other work than on most targets: {'; '.join(gap.differences)}"


def missing_lines(standing: Standing) -> list[str]:
    """Return `objective: reason` for each number that a target lacks."""
    return [f"{gap.objective.name}: {missing_text(gap)}" for gap in standing.missing]


def unmeasured_text(part: Unmeasured) -> str:
    """Return which part of a question has no number, and why."""
    word = f"{metric_word(part.metric)} of {part.subject}" if part.metric else part.subject
    match part.cause:
        case UnmeasuredCause.NO_TARGET:
            return f"{word}: no target has it"
        case UnmeasuredCause.NO_WORKLOAD:
            return f"{word}: no workload does them"
        case UnmeasuredCause.NO_METRIC:
            return f"{word}: not measured"
        case UnmeasuredCause.TOO_FEW_SAMPLES:
            names = listed(key_name(key) for key in part.keys)
            return f"{word} ({names}): some trials have too few I/Os for it"
