"""The ranking page: order, figures, targets that lack a number."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.analysis.objectives import Unmeasured, UnmeasuredCause, key_name, metric_word
from leadline.analysis.ranking import Missing, MissingCause, Ranking, Standing, Tiers
from leadline.analysis.requirements import Protection
from leadline.archive.reader import Run
from leadline.report.cells import (
    absent,
    bullets,
    number,
    number_column,
    quantity,
    records_table,
    section,
)
from leadline.report.document import Cell, Column, Document, Section, Table, shorten_levels
from leadline.report.pages.redactions import redaction_sections
from leadline.report.words import (
    NO_DIFFERENCE,
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
    """The order, the figures, then the targets without a rank."""
    sections = [section("Order", "order", order_table("ranking", ranking))]
    if len(ranking.tiers) > 1:
        sections.append(section("By figure", "by-figure", _figures_table(ranking)))
    if ranking.incomplete:
        sections.append(_incomplete(ranking))
    not_measured = bullets(f"{unmeasured_text(part)}." for part in ranking.question.not_measured)
    if not_measured:
        sections.append(section("Not measured", "not-measured", not_measured))
    document = Document(
        title=f"Ranking of {run.id}",
        subtitle=f"by {ranking.question.name}",
        summary=tuple(_summary(ranking, protections)),
        sections=(*sections, *redaction_sections(run)),
    )
    return shorten_levels(document, (cell.level for cell in run.plan.cells))


def _summary(ranking: Ranking, protections: Mapping[str, Protection]) -> list[str]:
    complete = ranking.complete
    if not complete or ranking.baseline is None:
        return ["No target has every number that this ranking needs, so none has a rank."]
    sentences = [_first(ranking), _scores(ranking), _evidence(ranking)]
    text = protection_differences(
        {standing.target: protections[standing.target] for standing in complete}
    )
    if text:
        sentences.append(text)
    ranks = {standing.target: standing.rank for standing in ranking.complete}
    capped = [name for name in ranking.capped if ranks[name] != 1]
    if capped:
        names = listed(capped, _TIED_NAMED)
        sentences.append(f"{names} share ranks without a tie: {NO_DIFFERENCE}.")
    left = [standing.target for standing in ranking.incomplete]
    if left:
        names = listed(left, _TIED_NAMED)
        sentences.append(f"Not ranked, because a number is missing: {names}.")
    return sentences


def _first(ranking: Ranking) -> str:
    complete = ranking.complete
    if len(complete) == 1:
        return f"{complete[0].target} is the only target with every number."
    first = [standing for standing in complete if standing.rank == 1]
    names = listed((standing.target for standing in first), _TIED_NAMED)
    if len(first) > 1 and {standing.target for standing in first} & set(ranking.capped):
        return f"{names} share rank 1 without a tie: {NO_DIFFERENCE}."
    if len(first) == len(complete):
        return f"All targets tie: {names} share rank 1."
    if len(first) > 1:
        return f"{names} tie for first."
    close = [
        standing
        for standing in complete[1:]
        if not ranking.differ(complete[0].target, standing.target)
    ]
    if not close:
        return f"{names} is better than every other target."
    others = count_text(len(close), "target varies", "targets vary")
    return f"{names} is first and better than the next; {others} too much to separate from it."


def _scores(ranking: Ranking) -> str:
    baseline = ranking.baseline or ""
    number = len(ranking.question.objectives)
    if number == 1:
        return f"The score is the ratio to {baseline}; more is better."
    equal = len({round(objective.weight, 9) for objective in ranking.question.objectives}) == 1
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
        f"No repeated trials: single numbers that differ by more than {band} count as "
        "different, and rank intervals are those that the verdicts allow."
    )


def order_table(anchor: str, ranking: Ranking, *, whole: bool = False) -> Table:
    """The targets in order.

    `whole`: with columns for the figures in which a target is first and for missing numbers, where
    no other table shows them.
    """
    objectives = ranking.question.objectives
    intervals = any(standing.score_interval for standing in ranking.complete)
    contested = [tiers for tiers in ranking.tiers if len(tiers.ranks) > 1] if whole else []

    def firsts(standing: Standing) -> Cell:
        found = sum(tiers.ranks.get(standing.target) == 1 for tiers in contested)
        return quantity(f"{found} of {len(contested)}", found)

    return records_table(
        anchor,
        ranking.standings,
        (number_column("rank"), lambda standing: _rank(ranking, standing)),
        ("target", lambda standing: standing.target),
        (number_column("rank interval", 3), lambda standing: _interval(ranking, standing)),
        (number_column("score"), lambda standing: _score(ranking, standing)),
        (number_column("interval", 2), lambda standing: _score_interval(ranking, standing))
        if intervals
        else None,
        (number_column(objectives[0].name), lambda standing: _value(ranking, standing, 0))
        if len(objectives) == 1
        else None,
        (number_column("first or equal in", 4), firsts) if contested else None,
        (Column(title="lacks", rank=1), lambda standing: Cell(text=_lacks(standing)))
        if whole and ranking.incomplete
        else None,
        # Rows of a filterable table have one line in a terminal; missing numbers need several.
        filterable=not whole,
    )


def _absence(standing: Standing) -> str:
    return "; ".join(missing_lines(standing)) or "no other target has every number"


def _placed(ranking: Ranking, standing: Standing) -> bool:
    return standing.rank is not None and len(ranking.complete) > 1


def _rank(ranking: Ranking, standing: Standing) -> Cell:
    if standing.rank is None or not _placed(ranking, standing):
        return absent(_absence(standing))
    shared = sum(other.rank == standing.rank for other in ranking.complete) > 1
    return quantity(f"{standing.rank}{'=' if shared else ''}", standing.rank)


def _interval(ranking: Ranking, standing: Standing) -> Cell:
    if standing.interval is None or not _placed(ranking, standing):
        return absent(_absence(standing))
    return quantity(interval_text(standing.interval), standing.interval[0])


def interval_text(ranks: tuple[int, int]) -> str:
    """Format a rank interval: `2`, `1-3`."""
    low, high = ranks
    return str(low) if low == high else f"{low}-{high}"


def _score(ranking: Ranking, standing: Standing) -> Cell:
    if standing.score is None:
        return Cell(text="incomplete", note=_absence(standing), missing=True)
    if not _placed(ranking, standing):
        return absent(_absence(standing))
    return number(standing.score, times_text)


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


def _figures_table(ranking: Ranking) -> Table:
    """For each figure the best target, and the baseline."""
    by_name = {standing.target: standing for standing in ranking.standings}
    tiers = list(ranking.tiers)

    def best(tier: Tiers) -> str | None:
        place = tiers.index(tier)
        sign = -1 if tier.objective.metric.is_latency else 1
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
    return section("Not ranked", "not-ranked", lead, incomplete)


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
    if not given.failures_survived:
        return "none"
    writable = "unknown" if given.failures_writable is None else given.failures_writable
    return f"{given.failures_survived} (I/O: {writable})"


def survives_text(given: Protection) -> str:
    """`2 zones (I/O goes on with 1)`."""
    if given.failures_survived is None:
        return "unknown"
    domain = given.failure_domain or "failure domain of unknown level"
    if given.failures_survived == 0:
        return "nothing"
    lost = f"{given.failures_survived} {domain}{'s' if given.failures_survived > 1 else ''}"
    if given.failures_writable is None:
        return lost
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
    return {True: "yes", False: "no", None: "unknown"}[given.encrypted_at_rest]


def protection_differences(given: Mapping[str, Protection]) -> str:
    """Return a sentence where targets that are ranked together protect their data differently,
    else an empty string."""
    if len(given) < 2:
        return ""
    groups: dict[str, list[str]] = {}
    for name, protection in given.items():
        groups.setdefault(apart_text(protection), []).append(name)
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
