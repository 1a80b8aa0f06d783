"""JSON answer of `leadline settings` (contract `leadline/settings/1`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.figures import MetricFigure
from leadline.analysis.settings.facts import (
    Change,
    Interaction,
    RecommendedSet,
    RefusedCell,
    SettingsStudy,
    StateEffect,
)
from leadline.metrics import Metric
from leadline.report.answers.base import CellOutput, Output
from leadline.report.pages.settings.commands import apply_commands, confirming_plan
from leadline.report.pages.settings.words import refusal_text, settings_headline
from leadline.report.render.rows import Row


class ChangeOutput(Output):
    """The mean change over `cells`: `ratio` = state / present state, with the interval that decides
    the verdict, its `confidence` (0.95: 95 %), the p value adjusted over all states, and the trials
    in each state that would probably resolve an inconclusive one."""

    cells: int
    ratio: float
    interval: tuple[float, float] | None
    confidence: float | None
    p_adjusted: float | None
    verdict: str
    trials_needed: int | None


class StateCellOutput(CellOutput):
    """One metric of one cell in the present state and in this one, in the metric's base unit; null
    where it is missing. `ratio`, `interval` and `reasons` as in the answer of `compare`."""

    op: str | None
    metric: str
    unit: str
    present: float | None
    value: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    confidence: float | None
    p_adjusted: float | None
    verdict: str
    reasons: list[str]


class RefusedCellOutput(CellOutput):
    """A rate without a verdict. `code` is that of the failed trial, or the first reason of the
    refusal."""

    op: str | None
    code: str
    message: str


class StateOutput(Output):
    """A state: the value of each setting, and its target for each target in the present state.
    `rate`, `p99` and `costs` (by metric) are mean changes, null or absent where no cell has the
    number in both states. `gains` are `rate`, `latency`, `saving`; `objections` are `incomplete`,
    `rate-worse`, `latency-worse`, `cost-above-gain`. `front`: on the Pareto front of the rate and
    `front_costs`."""

    state: str
    settings: dict[str, str]
    targets: dict[str, str]
    rate: ChangeOutput | None
    p99: ChangeOutput | None
    costs: dict[str, ChangeOutput]
    gains: list[str]
    objections: list[str]
    recommended: bool
    front: bool
    cells: list[StateCellOutput]
    refused: list[RefusedCellOutput]


class InteractionCellOutput(CellOutput):
    op: str | None
    metric: str
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: str


class InteractionOutput(Output):
    """Two values together: the change of the rate divided by the product of the changes by each.
    `settings` are the two values, `references` those that they replace."""

    settings: dict[str, str]
    references: dict[str, str]
    change: ChangeOutput
    cells: list[InteractionCellOutput]


class RecommendedSetOutput(Output):
    """The recommended value of each setting. `measured`: the run has this combination; else
    `confirm` are the lines of a plan that measures it."""

    settings: dict[str, str]
    states: list[str]
    measured: bool
    commands: list[str]
    confirm: str


class SettingOutput(Output):
    """A setting of the plan; `kind` is its key in the plan (`ceph_config`, `pool`, ...)."""

    name: str
    kind: str
    values: list[str]


class SettingsAskedOutput(Output):
    """The request."""

    band: float


class SettingsOutput(Output):
    """What each state of a run changes against the present state. `missing_costs` are cost metrics
    that no source measured. `asked` is null where no page is made."""

    schema_: Literal["leadline/settings/1"] = Field(default="leadline/settings/1", alias="schema")
    run: str
    band: float
    design: str
    headline: str
    settings: list[SettingOutput]
    states: list[StateOutput]
    interactions: list[InteractionOutput]
    missing_costs: list[str]
    front_costs: list[str]
    recommended: RecommendedSetOutput | None
    asked: SettingsAskedOutput | None = None


def settings_output(
    study: SettingsStudy, asked: SettingsAskedOutput | None = None
) -> SettingsOutput:
    """Build the answer; that of a page has what was `asked`."""
    return SettingsOutput.from_records(
        study,
        run=study.run.id,
        design=study.design.value,
        headline=settings_headline(study),
        settings=[
            SettingOutput.from_records(setting, values=list(setting.values))
            for setting in study.run.plan.settings
        ],
        states=[_state(effect) for effect in study.effects],
        interactions=[_interaction(one) for one in study.interactions],
        missing_costs=[metric.value for metric in study.missing_costs],
        front_costs=[metric.value for metric in study.front_costs],
        recommended=_recommended(study, study.recommended) if study.recommended else None,
        asked=asked,
    )


SETTINGS_COLUMNS = (
    "state", "target", "workload", "level", "op", "metric", "unit", "present", "value", "ratio",
    "interval_low", "interval_high", "p_adjusted", "verdict", "reasons",
)  # fmt: skip


def settings_rows(answer: SettingsOutput) -> list[Row]:
    """Rows under SETTINGS_COLUMNS: each number of each state against the present state, in base
    units, empty where it is missing."""
    return [
        (
            state.state, cell.target, cell.workload, cell.level, cell.op or "", cell.metric,
            cell.unit, cell.present, cell.value, cell.ratio, *(cell.interval or (None, None)),
            cell.p_adjusted, cell.verdict, " ".join(cell.reasons),
        )
        for state in answer.states
        for cell in state.cells
    ]  # fmt: skip


def _change(change: Change) -> ChangeOutput:
    return ChangeOutput.from_records(change.judgement, cells=change.cells)


def _known(change: Change | None) -> ChangeOutput | None:
    return None if change is None else _change(change)


def _state(effect: StateEffect) -> StateOutput:
    return StateOutput.from_records(
        effect,
        state=effect.state.name,
        settings=dict(effect.state.settings),
        targets=dict(effect.state.targets),
        rate=_known(effect.rate),
        p99=_known(effect.overall.get(Metric.LATENCY_P99)),
        costs={metric.value: _change(change) for metric, change in effect.costs.items()},
        gains=[gain.value for gain in effect.gains],
        objections=[objection.value for objection in effect.objections],
        cells=[_cell(cell) for cell in (*effect.cells, *effect.cost_cells)],
        refused=[_refused(one) for one in effect.refused],
    )


def _cell(cell: ComparedCell) -> StateCellOutput:
    return StateCellOutput.from_records(
        cell,
        cell.judgement,
        metric=cell.metric.value,
        unit=cell.metric.unit,
        present=_value(cell.baseline),
        value=_value(cell.candidate),
        reasons=list(cell.judgement.reasons),
    )


def _value(figure: MetricFigure | None) -> float | None:
    return None if figure is None else figure.value


def _refused(refused: RefusedCell) -> RefusedCellOutput:
    reasons = refused.cell.judgement.reasons
    code = refused.problem.code if refused.problem else next(iter(reasons), "")
    return RefusedCellOutput.from_records(refused.cell, code=code, message=refusal_text(refused))


def _interaction(one: Interaction) -> InteractionOutput:
    names = one.first[0], one.second[0]
    return InteractionOutput(
        settings=dict((one.first, one.second)),
        references=dict(zip(names, one.references, strict=True)),
        change=_change(one.change),
        cells=[
            InteractionCellOutput.from_records(cell, cell.judgement, metric=cell.metric.value)
            for cell in one.cells
        ],
    )


def _recommended(study: SettingsStudy, chosen: RecommendedSet) -> RecommendedSetOutput:
    return RecommendedSetOutput(
        settings=dict(chosen.settings),
        states=[effect.state.name for effect in chosen.states],
        measured=chosen.measured,
        commands=list(apply_commands(study, chosen)),
        confirm="" if chosen.measured else confirming_plan(study, chosen),
    )
