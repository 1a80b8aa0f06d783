"""The pictures of a ranking: tiles, figures of every target, trade-off, and a card for each use."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.objectives import Objective, UseCase
from leadline.analysis.ranking import Ranking, Standing
from leadline.analysis.recommend import Basis, Recommendation
from leadline.analysis.requirements import Protection
from leadline.findings import Severity
from leadline.metrics import Metric, Op
from leadline.report.cells import section
from leadline.report.curves import linear_scale, scale
from leadline.report.document import (
    Block,
    HeatCell,
    HeatMap,
    Line,
    LineChart,
    Look,
    Section,
    Stroke,
    Tile,
    Tiles,
)
from leadline.report.pages.protection import apart_text, usable_share
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    absence_text,
    chart_labels,
    count_text,
    listed,
    place,
    share_text,
    short,
    value_text,
)

# Beyond so many rows or columns a reader finds a number faster in the table.
MOST_ROWS, MOST_COLUMNS = 40, 14
_NAME = 22
_TIED_NAMED = 2
_CODES_NAMED = 2
_UNKNOWN = "unknown"
# A value that is not known is grey.
_GREY = "inconclusive"

FigureAt = Mapping[tuple[str, str, str, Op | None], CellFigure]


def figures_at(figures: Sequence[CellFigure]) -> FigureAt:
    """Index figures by target, workload, level and operation."""
    return {(figure.target, figure.workload, figure.level, figure.op): figure for figure in figures}


def _metric(at: FigureAt, target: str, objective: Objective) -> MetricFigure | None:
    figure = at.get((target, *objective.key))
    return figure.metric(objective.metric) if figure else None


# --- tiles --------------------------------------------------------------------------------------


def ranking_tiles(
    ranking: Ranking, protections: Mapping[str, Protection], at: FigureAt
) -> tuple[Tile, ...]:
    """Build tiles: the fastest, the fastest with the most protection, the most capacity, trust."""
    best = ranking.complete[0]
    return (
        _fastest(ranking, best),
        _safest(ranking, protections),
        _largest(ranking, protections),
        trust_tile(
            [
                metric
                for standing in ranking.standings
                for objective in ranking.question.objectives
                if (metric := _metric(at, standing.target, objective)) and metric.value is not None
            ]
        ),
    )


def _fastest(ranking: Ranking, best: Standing) -> Tile:
    tied = [one.target for one in ranking.complete[1:] if one.rank == best.rank]
    if tied:
        names = listed((short(name, _NAME) for name in tied), _TIED_NAMED)
        note = f"Shares rank 1 with {names}."
    elif len(ranking.complete) > 1:
        second = ranking.complete[1]
        note = f"{_ratio(best, second)} times {short(second.target, _NAME)}, the next."
    else:
        note = "The only target with every number."
    return Tile(
        title="Fastest",
        unit=count_text(len(ranking.question.objectives), "figure"),
        value=short(best.target, _NAME),
        verdict="",
        note=note,
    )


def _ratio(one: Standing, other: Standing) -> str:
    return f"{(one.score or 0.0) / (other.score or 1.0):.2f}"


def _of_the_fastest(ranking: Ranking, one: Standing) -> str:
    best = ranking.complete[0]
    if one is best:
        return "It is the fastest."
    return f"{share_text((one.score or 0.0) / (best.score or 1.0))} of the score of the fastest."


def _safest(ranking: Ranking, protections: Mapping[str, Protection]) -> Tile:
    """The fastest of the targets that survive the most failures."""
    known = [one for one in ranking.complete if protections[one.target].known]
    if not known:
        return Tile(
            title="Fastest with most copies",
            unit="",
            value=_UNKNOWN,
            verdict=_GREY,
            note="No inventory of the pools: import it with `--inventory` or `--facts`.",
        )
    most = safest(known, protections)
    given = protections[most.target]
    return Tile(
        title="Fastest with most copies",
        unit=apart_text(given),
        value=short(most.target, _NAME),
        verdict="",
        note=f"Survives {given.failures_survived} losses. {_of_the_fastest(ranking, most)}"
        if given.failures_survived != 1
        else f"Survives 1 loss. {_of_the_fastest(ranking, most)}",
    )


def safest(known: Sequence[Standing], protections: Mapping[str, Protection]) -> Standing:
    """Return the first of these standings, the fastest first, that survives the most failures."""
    return max(known, key=lambda one: protections[one.target].failures_survived or 0)


def _largest(ranking: Ranking, protections: Mapping[str, Protection]) -> Tile:
    shares = {
        one.target: share
        for one in ranking.complete
        if (share := usable_share(protections[one.target])) is not None
    }
    if not shares:
        return Tile(
            title="Most usable capacity",
            unit="",
            value=_UNKNOWN,
            verdict=_GREY,
            note="The redundancy of no target is known.",
        )
    most = max(
        (one for one in ranking.complete if one.target in shares),
        key=lambda one: shares[one.target],
    )
    return Tile(
        title="Most usable capacity",
        unit=f"{share_text(shares[most.target])} of raw",
        value=short(most.target, _NAME),
        verdict="",
        note=_of_the_fastest(ranking, most),
    )


def trust_tile(metrics: Sequence[MetricFigure], unit: str = "figures without a warning") -> Tile:
    """Count the numbers that the audit accepts without a warning and that have several trials."""
    refused = sum(one.severity is Severity.ERROR for one in metrics)
    warned = sum(one.severity is Severity.WARNING for one in metrics)
    single = sum(
        one.severity not in (Severity.ERROR, Severity.WARNING) and len(one.trials) < 2
        for one in metrics
    )
    counts = {"refused": refused, "with warnings": warned, "of single trials": single}
    texts = [f"{count:,} {word}" for word, count in counts.items() if count]
    codes = Counter(
        mark.code
        for one in metrics
        for mark in {mark.code: mark for mark in one.finding_marks}.values()
        if mark.severity is not Severity.INFO
    )
    frequent = listed((code for code, _ in codes.most_common(_CODES_NAMED + 1)), _CODES_NAMED)
    note = f"{listed(texts)}{f': {frequent}' if frequent else ''}." if texts else "No warnings."
    return Tile(
        title="Trust",
        unit=unit,
        value=f"{len(metrics) - refused - warned - single:,} of {len(metrics):,}",
        verdict="warning" if texts else "",
        note=note,
    )


# --- figures ------------------------------------------------------------------------------------


def figures_map(ranking: Ranking, at: FigureAt) -> HeatMap | None:
    """Draw every figure that counts, and the p99 latency of the same I/O, as a share of the best
    value of its column; None where there is no number."""
    asked = list(ranking.question.objectives)
    keys = {objective.key for objective in asked if objective.metric is Metric.LATENCY_P99}
    for objective in ranking.question.objectives:
        if objective.key not in keys:
            keys.add(objective.key)
            asked.append(
                Objective(
                    workload=objective.workload,
                    level=objective.level,
                    op=objective.op,
                    metric=Metric.LATENCY_P99,
                    weight=0.0,
                )
            )
    targets = [standing.target for standing in ranking.standings]
    measured = [
        objective
        for objective in dict.fromkeys(asked)
        if any(_usable(_metric(at, target, objective)) for target in targets)
    ]
    if not measured:
        return None
    columns, rows = measured[:MOST_COLUMNS], targets[:MOST_ROWS]
    cells = [[_metric(at, target, objective) for objective in columns] for target in targets]
    best = [
        _best([row[number] for row in cells], objective.metric)
        for number, objective in enumerate(columns)
    ]
    parts = [
        f"{len(rows)} of {len(targets):,} targets" if len(rows) < len(targets) else "",
        f"{len(columns)} of {len(measured):,} figures" if len(columns) < len(measured) else "",
    ]
    left_out = listed(part for part in parts if part)
    labels = chart_labels(rows)
    return HeatMap(
        id="figures",
        title=f"Figures ({left_out})" if left_out else "Figures",
        rows=tuple(labels[target] for target in rows),
        columns=tuple(_column_title(objective, columns) for objective in columns),
        higher_is_better=tuple(not objective.metric.lower_is_better for objective in columns),
        cells=tuple(
            tuple(
                _heat_cell(found, objective.metric, against)
                for found, objective, against in zip(row, columns, best, strict=True)
            )
            for row in cells[: len(rows)]
        ),
        baseline=0,
        relative=True,
        key="the shade is the share of the best value in the column",
    )


def _usable(found: MetricFigure | None) -> bool:
    return found is not None and found.value is not None and found.severity is not Severity.ERROR


def _best(column: Sequence[MetricFigure | None], metric: Metric) -> float | None:
    values = [found.value for found in column if _usable(found) and found and found.value]
    return (min if metric.lower_is_better else max)(values, default=None)


def _column_title(objective: Objective, columns: Sequence[Objective]) -> str:
    several = len({one.workload for one in columns}) > 1
    levels = {one.level for one in columns if one.workload == objective.workload}
    named = place(
        short(objective.workload, 2 * _NAME) if several else "",
        objective.level if len(levels) > 1 else "",
        objective.op.value,
    )
    unit = {Metric.IOPS: "IOPS", Metric.BANDWIDTH: "MiB/s"}.get(objective.metric)
    return f"{named}, {unit or objective.metric.value.removeprefix('latency_')}"


def _heat_cell(found: MetricFigure | None, metric: Metric, best: float | None) -> HeatCell:
    if found is None:
        return HeatCell(text=NOT_SHOWN, shade=None, note="not measured on this target")
    if found.value is None:
        return HeatCell(text=MISSING, shade=None, note=absence_text(found))
    text = value_text(metric, found.value)
    if not _usable(found):
        codes = listed(
            dict.fromkeys(
                mark.code for mark in found.finding_marks if mark.severity is Severity.ERROR
            )
        )
        return HeatCell(text=text, shade=None, note=f"refused: {codes}", refused=True)
    if not best or not found.value:
        return HeatCell(text=text, shade=0.0, value=found.value)
    share = best / found.value if metric.lower_is_better else found.value / best
    note = f"{share_text(share)} of the best" if share < 1 else "the best"
    return HeatCell(text=text, shade=share, value=found.value, note=note)


# --- trade-off ----------------------------------------------------------------------------------


def trade_off(ranking: Ranking, protections: Mapping[str, Protection]) -> LineChart | None:
    """Chart the score over the usable capacity, by the failures that a target survives; None where
    fewer than two targets have all three."""
    points = [
        (
            share,
            standing.score,
            protections[standing.target].failures_survived or 0,
            standing.target,
        )
        for standing in ranking.complete[:MOST_ROWS]
        if (share := usable_share(protections[standing.target])) is not None
        and protections[standing.target].known
        and standing.score
    ]
    if len(points) < 2:
        return None
    survived = sorted({losses for _, _, losses, _ in points}, reverse=True)
    front = _front([(share, score) for share, score, _, _ in points])
    best = Line(label="", series=len(survived), points=tuple(front))
    labels = chart_labels(name for *_, name in points)
    return LineChart(
        id="trade-off-chart",
        title="Score over usable capacity",
        series=(
            *(f"survives {count_text(losses, 'loss', 'losses')}" for losses in survived),
            "best score for a capacity",
        ),
        x=scale(
            "usable share of raw capacity",
            _share_axis(max(share for share, *_ in points)),
            lambda share: f"{share:.0%}".replace("%", " %"),
        ),
        y=linear_scale(
            f"score ({short(ranking.baseline or '', _NAME)} = 1)",
            max(score for _, score, _, _ in points),
            lambda score: f"{score:g}",
        ),
        lines=(
            best,
            *(
                Line(
                    label=labels[name],
                    series=survived.index(losses),
                    points=((share, score),),
                    texts=(_point_text(labels[name], score, share, protections[name]),),
                )
                for share, score, losses, name in points
            ),
        ),
        looks=(
            *(Look(hue=number) for number in range(len(survived))),
            Look(hue=6, stroke=Stroke.FAINT),
        ),
        scatter=True,
    )


def _share_axis(largest: float) -> tuple[float, float, list[float]]:
    """(low, high, ticks): from zero to the next quarter."""
    quarters = min(4, math.floor(4 * largest) + 1)
    return 0.0, quarters / 4, [number / 4 for number in range(quarters + 1)]


def _point_text(name: str, score: float, share: float, given: Protection) -> str:
    return f"{name}: score {score:.2f}, {share_text(share)} usable, {apart_text(given)}"


def _front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other point beats in both, by capacity."""
    front: list[tuple[float, float]] = []
    for share, score in sorted(points, key=lambda point: (-point[0], -point[1])):
        if not front or score > front[-1][1]:
            front.append((share, score))
    return front[::-1]


# --- uses ---------------------------------------------------------------------------------------

Use = tuple[UseCase, Recommendation | None]


def use_sections(ranking: Ranking, uses: Sequence[Use]) -> Iterator[Section]:
    """Yield a card for each use, and the rank of every target in each; nothing without a use."""
    if not uses:
        return
    blocks: list[Block] = [Tiles(tiles=tuple(_card(case, found) for case, found in uses))]
    if drawn := _uses_map(ranking, [(case, found) for case, found in uses if found]):
        blocks.append(drawn)
    chosen = Counter(found.chosen.name for _, found in uses if found and found.chosen)
    most = chosen.most_common(1)
    result = f"{short(most[0][0], _NAME)} in {most[0][1]:,} of {len(uses):,} uses" if most else ""
    yield section("By use", "by-use", *blocks, result=result)


def _card(case: UseCase, found: Recommendation | None) -> Tile:
    heading = case.name.replace("-", " ").capitalize()
    if found is None:
        return Tile(
            title=heading,
            unit="",
            value=NOT_SHOWN,
            verdict=_GREY,
            note="No workload of the run has this I/O.",
        )
    if found.chosen is None:
        return Tile(title=heading, unit="", value="none", verdict=_GREY, note=_refusal(found))
    not_measured = listed((part.subject for part in found.ranking.question.not_measured), 1)
    missing = f" Not measured: {not_measured}." if not_measured else ""
    return Tile(
        title=heading,
        unit="",
        value=short(found.chosen.name, _NAME),
        verdict="",
        note=f"{_basis(found)}{missing}",
    )


def _basis(found: Recommendation) -> str:
    if found.chosen is None or found.runner_up is None or found.basis is Basis.ALONE:
        return "The only eligible target."
    other = short(found.runner_up.name, _NAME)
    if found.basis is Basis.TRADE_OFF:
        return f"Ties with {other}; better protected or cheaper."
    if found.basis is Basis.FIGURE:
        return f"Ties with {other}; the higher figure."
    return f"{_ratio(found.chosen.standing, found.runner_up.standing)} times {other}, the next."


def _refusal(found: Recommendation) -> str:
    if not any(candidate.standing.complete for candidate in found.candidates):
        return "No target has every number."
    return "No target is known to meet the requirements."


def _uses_map(ranking: Ranking, uses: Sequence[tuple[UseCase, Recommendation]]) -> HeatMap | None:
    if not uses:
        return None
    standings = [{one.target: one for one in found.ranking.standings} for _, found in uses]
    targets = [standing.target for standing in ranking.standings][:MOST_ROWS]
    best = [
        max((one.score or 0.0 for one in own.values()), default=0.0) or 1.0 for own in standings
    ]
    labels = chart_labels(targets)
    return HeatMap(
        id="ranks-by-use",
        title="Rank interval in each use",
        rows=tuple(labels.values()),
        columns=tuple(case.name.replace("-", " ") for case, _ in uses),
        higher_is_better=(False,) * len(uses),
        cells=tuple(
            tuple(
                _rank_cell(own.get(target), top) for own, top in zip(standings, best, strict=True)
            )
            for target in targets
        ),
        baseline=0,
        relative=True,
        key="the shade is the share of the best score",
    )


def _rank_cell(standing: Standing | None, best: float) -> HeatCell:
    if standing is None or standing.interval is None or standing.score is None:
        return HeatCell(text=NOT_SHOWN, shade=None, note="a number is missing")
    low, high = standing.interval
    text = str(low) if low == high else f"{low}-{high}"
    note = f"score {standing.score:.2f}"
    return HeatCell(text=text, shade=standing.score / best, value=float(low), note=note)
