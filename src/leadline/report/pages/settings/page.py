"""The document of a settings study: gains, costs, cells, refusals, commands and method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.figures import MetricFigure
from leadline.analysis.settings.facts import (
    Change,
    Interaction,
    RefusedCell,
    SettingsStudy,
    StateEffect,
)
from leadline.analysis.verdicts import Verdict
from leadline.metrics import COSTS, Metric
from leadline.plan.settings import Design
from leadline.report.cells import (
    absent,
    bullets,
    count,
    number_column,
    quantity,
    records_table,
    section,
    word,
)
from leadline.report.document import (
    Block,
    Cell,
    Choices,
    Code,
    Column,
    Document,
    Section,
    Table,
    Tile,
    Tiles,
)
from leadline.report.pages.ranking_charts import trust_tile
from leadline.report.pages.redactions import redaction_sections
from leadline.report.pages.settings.charts import cell_charts, front_charts, mean_panels
from leadline.report.pages.settings.commands import apply_commands, confirming_plan
from leadline.report.pages.settings.words import (
    COLUMNS,
    PRESENT,
    assessment_text,
    gains_text,
    metric_name,
    refusal_text,
    settings_bullets,
    settings_headline,
)
from leadline.report.words import (
    MISSING,
    absence_text,
    band_text,
    change_text,
    count_text,
    interval_text,
    level_name,
    level_text,
    listed,
    needed_text,
    op_text,
    p_text,
    place,
    reason_text,
    short,
    short_levels,
    title,
    value_with_unit,
)
from leadline.stats.families import ALONE

_NAME = 32
_ABOUT = "docs/concepts/settings.md"
_ALONE_TEXT = (
    "Each value was measured alone. Their gains may overlap or cancel: measure them together first."
)
_SOURCES = "`hosts` or `prometheus` of a cluster in the plan measures the storage's side."


def settings_document(study: SettingsStudy) -> Document:
    """Build the document; the same study gives the same document."""
    with short_levels(cell.level for effect in study.effects for cell in effect.cells) as shared:
        targets = dict.fromkeys(name for one in study.effects for name in one.state.targets)
        return Document(
            title=f"Settings of {short(listed(targets, 3))}",
            subtitle=place(
                f"run {study.run.id}",
                f"{count_text(len(study.effects), 'state')} and the {PRESENT}",
                study.design.value,
                shared,
            ),
            summary=(settings_headline(study), *settings_bullets(study)),
            front=tuple(_front(study)),
            sections=tuple(
                made
                for made in (
                    _states_section(study),
                    _recommended_section(study),
                    _tradeoff_section(study),
                    _refused_section(study),
                    _interactions_section(study),
                    _cells_section(study),
                    *redaction_sections(study.run),
                    section("Method", "method", bullets(_method(study)), folded=True),
                )
                if made.blocks
            ),
        )


# --- the first screen ---------------------------------------------------------------------------


def _front(study: SettingsStudy) -> Iterator[Block]:
    yield Tiles(tiles=tuple(_tiles(study)))
    yield from mean_panels(study)


def _tiles(study: SettingsStudy) -> Iterator[Tile]:
    known = [effect for effect in study.effects if effect.rate is not None]
    best = max(known, key=lambda one: one.rate.ratio if one.rate else 0.0, default=None)
    chosen = study.recommended
    yield Tile(
        title="Recommended",
        unit="",
        value=listed((short(one.state.name, _NAME) for one in chosen.states), 2)
        if chosen
        else "none",
        verdict="" if chosen else "inconclusive",
        note=f"{listed(map(gains_text, chosen.states)).capitalize()}."
        if chosen
        else "No state has an established gain without an objection.",
    )
    if best is not None and best.rate is not None:
        yield Tile(
            title="Highest rate",
            unit=short(best.state.name, _NAME),
            value=change_text(best.rate.ratio),
            verdict=best.rate.verdict.value,
            note=f"{interval_text(best.rate.interval)} over "
            f"{count_text(best.rate.cells, 'cell')}: {best.rate.verdict.value}.",
        )
        metric = next(iter(best.costs), None)
        cost = best.costs[metric] if metric else None
        yield Tile(
            title="Its cost",
            unit=title(metric) if metric else "",
            value=change_text(cost.ratio) if cost else "unknown",
            verdict=cost.verdict.value if cost else "inconclusive",
            note=f"{interval_text(cost.interval)}: {cost.verdict.value}."
            if cost
            else "No cost was measured.",
        )
    figures = [figure for effect in study.effects for figure in _figures(effect)]
    yield trust_tile(list({id(figure): figure for figure in figures}.values()))


def _figures(effect: StateEffect) -> Iterator[MetricFigure]:
    """Yield the rates of a state and of the present one."""
    for cell in effect.rates:
        yield from (one for one in (cell.baseline, cell.candidate) if one and one.value is not None)


# --- states -------------------------------------------------------------------------------------


def _states_section(study: SettingsStudy) -> Section:
    gains = sum(bool(effect.gains) for effect in study.effects)
    return section(
        "States",
        "states",
        states_table(study),
        result=f"{gains} of {count_text(len(study.effects), 'state')} with an established gain",
    )


def states_table(study: SettingsStudy) -> Table:
    """A row for each state: the mean changes of rate, p99 latency and costs, and the result."""
    return records_table(
        "states-table",
        study.effects,
        ("state", lambda effect: word(effect.state.name)),
        (number_column("rate"), partial(_mean_change, Metric.IOPS)),
        (number_column("interval", rank=1), _rate_interval),
        ("verdict", partial(_mean_verdict, Metric.IOPS)),
        *(
            (number_column(COLUMNS[metric], rank=rank), partial(_mean_change, metric))
            for rank, metric in enumerate(COLUMNS, start=2)
            if any(metric in effect.overall for effect in study.effects)
        ),
        (number_column("cells", rank=9), _cells_of),
        *(
            [
                (
                    Column(title="Pareto front", rank=10),
                    lambda effect: "yes" if effect.front else "no",
                )
            ]
            if any(effect.front for effect in study.effects)
            else []
        ),
        ("result", lambda effect: word(assessment_text(effect))),
        caption=f"Mean change from the {PRESENT}",
        filterable=len(study.effects) > 12,
    )


def _mean_change(metric: Metric, effect: StateEffect) -> Cell:
    change = effect.overall.get(metric)
    if change is None:
        return absent("no cell has this number in both states")
    return quantity(change_text(change.ratio), change.ratio, _change_note(change))


def _change_note(change: Change) -> str:
    judged = change.judgement
    parts = [
        f"{interval_text(change.interval)} at {level_text(judged.confidence or ALONE)}",
        f"p {p_text(judged.p_adjusted)}",
        count_text(change.cells, "cell"),
        change.verdict.value,
        needed_text(judged),
    ]
    return "; ".join(filter(None, parts))


def _rate_interval(effect: StateEffect) -> Cell:
    if effect.rate is None:
        return absent()
    low, high = effect.rate.interval
    return Cell(text=interval_text(effect.rate.interval), sort=high - low)


def _mean_verdict(metric: Metric, effect: StateEffect) -> Cell:
    change = effect.overall.get(metric)
    return absent() if change is None else word(change.verdict.value)


def _cells_of(effect: StateEffect) -> Cell:
    better, worse = (
        sum(cell.verdict is verdict for cell in effect.rates)
        for verdict in (Verdict.BETTER, Verdict.WORSE)
    )
    counted = [f"{better} better"] * bool(better) + [f"{worse} worse"] * bool(worse)
    text = f"{', '.join(counted) or '0'} of {len(effect.rates)}"
    return quantity(text, better - worse, "rates, each tested alone: better or worse")


# --- recommendation -----------------------------------------------------------------------------


def _recommended_section(study: SettingsStudy) -> Section:
    chosen = study.recommended
    if chosen is None:
        return section("Recommended set", "recommended")
    blocks: list[Block | str] = [
        Code(text="\n".join(apply_commands(study, chosen)), caption="Apply"),
    ]
    if not chosen.measured:
        blocks += [
            _ALONE_TEXT,
            Code(text=confirming_plan(study, chosen), caption="In the plan of a confirming run"),
        ]
    return section(
        "Recommended set",
        "recommended",
        *blocks,
        result=listed(short(effect.state.name, _NAME) for effect in chosen.states),
    )


def _tradeoff_section(study: SettingsStudy) -> Section:
    charts = list(front_charts(study))
    front = [effect.state.name for effect in study.effects if effect.front]
    missing = (
        f"Not measured: {listed(map(title, study.missing_costs))}. {_SOURCES}"
        if study.missing_costs
        else None
    )
    return section(
        "Gain against cost",
        "gain-cost",
        *charts,
        missing,
        result=f"on the Pareto front: {listed(short(name, _NAME) for name in front) or 'none'}"
        if charts
        else "",
    )


# --- refused cells ------------------------------------------------------------------------------


def _refused_section(study: SettingsStudy) -> Section:
    rows: dict[tuple[str, str, str], list[RefusedCell]] = {}
    for effect in study.effects:
        for refused in effect.refused:
            key = effect.state.name, refused.cell.target, refusal_text(refused)
            rows.setdefault(key, []).append(refused)
    total = sum(map(len, rows.values()))
    return section(
        "Refused cells",
        "refused",
        records_table(
            "refused-table",
            rows.items(),
            ("state", lambda row: word(row[0][0])),
            ("target", lambda row: word(row[0][1])),
            (number_column("cells"), _cells_refused),
            ("reason", _refusal),
        )
        if rows
        else None,
        result=f"{count_text(total, 'cell')} without a verdict",
    )


_Refused = tuple[tuple[str, str, str], list[RefusedCell]]


def _cells_refused(row: _Refused) -> Cell:
    cells = [one.cell for one in row[1]]
    names = (place(cell.workload, cell.level, op_text(cell.op)) for cell in cells)
    return quantity(f"{len(cells):,}", len(cells), listed(names))


def _refusal(row: _Refused) -> Cell:
    problem = row[1][0].problem
    note = "; ".join(filter(None, (*problem.context, problem.hint))) if problem else ""
    return word(row[0][2], note)


# --- interactions -------------------------------------------------------------------------------


def _interactions_section(study: SettingsStudy) -> Section:
    if study.design is not Design.FULL:
        return section("Interactions", "interactions")
    found = study.interactions
    significant = sum(one.change.verdict in (Verdict.BETTER, Verdict.WORSE) for one in found)
    return section(
        "Interactions",
        "interactions",
        records_table(
            "interactions-table",
            found,
            ("values", lambda one: word(f"{'='.join(one.first)} with {'='.join(one.second)}")),
            (Column(title="instead of", rank=3), _references),
            (number_column("beyond both effects"), _interaction),
            (number_column("interval", rank=2), lambda one: interval_text(one.change.interval)),
            ("verdict", lambda one: word(one.change.verdict.value)),
            (number_column("cells", rank=1), lambda one: count(one.change.cells)),
            caption="Change of the rate by two values together, beyond the product of each alone",
        )
        if found
        else "No two settings have all their combinations in common blocks.",
        result=f"{significant} of {count_text(len(found), 'pair')} significant" if found else "",
    )


def _references(one: Interaction) -> Cell:
    names = (one.first[0], one.second[0])
    return word(listed(map("=".join, zip(names, one.references, strict=True))))


def _interaction(one: Interaction) -> Cell:
    return quantity(change_text(one.change.ratio), one.change.ratio, _change_note(one.change))


# --- cells --------------------------------------------------------------------------------------

_Row = tuple[StateEffect, ComparedCell]


def _cells_section(study: SettingsStudy) -> Section:
    charts = list(cell_charts(study))
    tables = [
        table
        for metric in (Metric.IOPS, Metric.LATENCY_P99, *COSTS)
        if (table := _cells_table(study, metric)).rows
    ]
    options = tuple((table.choice, metric_name(Metric(table.choice))) for table in tables)
    choices = [Choices(id="metric", label="Metric", options=options)] if options[1:] else []
    total = sum(len(effect.rates) for effect in study.effects)
    return section(
        "Cells",
        "cells",
        *choices,
        *charts,
        *tables,
        folded=True,
        result=count_text(total, "rate"),
    )


def _cells_table(study: SettingsStudy, metric: Metric) -> Table:
    rows = [
        (effect, cell)
        for effect in study.effects
        for cell in (
            effect.rates
            if metric is Metric.IOPS
            else [
                one
                for one in (*effect.latencies, *effect.cost_cells)
                if one.metric is metric and one.judgement.ratio is not None
            ]
        )
    ]
    return records_table(
        f"cells-{metric.value.replace('_', '-')}-table",
        rows,
        ("state", lambda row: word(row[0].state.name)),
        ("target", _of_cell(lambda cell: word(cell.target))),
        ("workload", _of_cell(lambda cell: word(cell.workload))),
        (Column(title="level", rank=4), _of_cell(lambda cell: word(level_name(cell.level)))),
        ("op", _of_cell(lambda cell: word(op_text(cell.op)))),
        (number_column("present", rank=3), _of_cell(lambda cell: _value(cell, cell.baseline))),
        (number_column("state's", rank=2), _of_cell(lambda cell: _value(cell, cell.candidate))),
        (number_column("change"), _of_cell(_change)),
        (number_column("interval", rank=1), _of_cell(_interval)),
        ("verdict", _of_cell(lambda cell: word(cell.verdict.value, _reasons(cell)))),
        caption=f"Change of the {metric_name(metric)} in each cell",
        filterable=True,
        choice=metric.value,
    )


def _of_cell(make: Callable[[ComparedCell], Cell]) -> Callable[[_Row], Cell]:
    return lambda row: make(row[1])


def _value(cell: ComparedCell, figure: MetricFigure | None) -> Cell:
    if figure is None or figure.value is None:
        return Cell(text=MISSING, note=absence_text(figure), missing=True)
    return quantity(value_with_unit(cell.metric, figure.value, cell.op), figure.value)


def _change(cell: ComparedCell) -> Cell:
    ratio = cell.judgement.ratio
    return absent(_reasons(cell)) if ratio is None else quantity(change_text(ratio), ratio)


def _interval(cell: ComparedCell) -> Cell:
    ends = cell.judgement.interval
    if ends is None:
        return absent(_reasons(cell))
    return Cell(text=interval_text(ends), sort=ends[1] - ends[0])


def _reasons(cell: ComparedCell) -> str:
    return "; ".join(
        filter(None, (needed_text(cell.judgement), *map(reason_text, cell.judgement.reasons)))
    )


# --- method -------------------------------------------------------------------------------------


def _method(study: SettingsStudy) -> Iterator[str]:
    yield (
        f"A state is compared with the {PRESENT} of the same target by pairs: their trials in one "
        "block are neighbours in time, so that drift from block to block cancels."
    )
    yield (
        f"Verdicts are against an equivalence margin of {band_text(study.band)}. The cells of all "
        "states are one family of tests, and so are their costs and the mean changes of each "
        "metric (Benjamini-Hochberg, false discovery rate 5 %)."
    )
    yield (
        "The mean change is the geometric mean over the cells, computed in each block: what all "
        "cells of a state share in its part of a block widens the interval."
    )
    yield (
        "A gain is established where the mean change or a cell is better. A recommended state has "
        "no worse cell, no higher p99 latency, no missing cell, and no cost of the storage that "
        "grows more than the rate."
    )
    yield (
        "On the Pareto front are states that no other state beats in the rate and the costs at "
        "once; a change that is not established counts as none."
    )
    yield f"Details: {_ABOUT}."
