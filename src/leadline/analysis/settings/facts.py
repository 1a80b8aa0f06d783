"""The facts of a settings study: the effect of each state, interactions, and a recommendation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.figures import CellFigure
from leadline.analysis.verdicts import Judgement, Verdict
from leadline.archive.reader import Run
from leadline.archive.records import Problem
from leadline.metrics import COSTS, Metric, Op
from leadline.plan.settings import Design, State, state_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedState:
    """`settings` have the value of each setting; `targets` maps each target in the present state to
    the same target in this state."""

    settings: State
    targets: Mapping[str, str]

    @property
    def name(self) -> str:
        return state_text(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The mean change over `cells` from the present state to another. Its ratio is state / present,
    tested over all states together."""

    cells: int
    judgement: Judgement

    @property
    def ratio(self) -> float:
        return self.judgement.ratio or 1.0

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that decides the verdict; the ratio itself without one."""
        return self.judgement.interval or (self.ratio, self.ratio)

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCell:
    """A cell of a state without a usable rate. `problem` is the error of its last failed trial;
    None where the audit or the statistics refuse the figures."""

    cell: ComparedCell
    problem: Problem | None


class Gain(StrEnum):
    """Why a state is an improvement: a better rate, a lower p99 latency at the same rate, or lower
    costs at the same rate."""

    RATE = "rate"
    LATENCY = "latency"
    SAVING = "saving"


class Objection(StrEnum):
    """Why a state is not recommended in spite of a gain."""

    INCOMPLETE = "incomplete"
    RATE_WORSE = "rate-worse"
    LATENCY_WORSE = "latency-worse"
    COST_ABOVE_GAIN = "cost-above-gain"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEffect:
    """The change from the present state to a state. `cells` are the rates and p99 latencies,
    `cost_cells` the costs; `overall` are the mean changes of the rates (under the metric IOPS, in
    the usual rate of each cell), of the p99 latencies and of each cost, of the metrics that have a
    number. `front`: its established changes are on the Pareto front of rate and costs: no other
    state, the present one included, has at least the rate at no higher cost."""

    state: TriedState
    cells: tuple[ComparedCell, ...]
    cost_cells: tuple[ComparedCell, ...]
    overall: Mapping[Metric, Change]
    refused: tuple[RefusedCell, ...] = ()
    gains: tuple[Gain, ...] = ()
    objections: tuple[Objection, ...] = ()
    costs_above_gain: tuple[Metric, ...] = ()
    front: bool = False

    @property
    def rate(self) -> Change | None:
        return self.overall.get(Metric.IOPS)

    @property
    def rates(self) -> tuple[ComparedCell, ...]:
        return tuple(cell for cell in self.cells if cell.rate)

    @property
    def latencies(self) -> tuple[ComparedCell, ...]:
        return tuple(cell for cell in self.cells if not cell.rate)

    @property
    def costs(self) -> Mapping[Metric, Change]:
        return {metric: self.overall[metric] for metric in COSTS if metric in self.overall}

    @property
    def recommended(self) -> bool:
        return bool(self.gains) and not self.objections


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionCell:
    """The test of an interaction in one cell."""

    target: str
    workload: str
    level: str
    op: Op | None
    metric: Metric
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """Whether two values together do more than each alone. `first` and `second` are a setting and
    its value, `references` the values that they replace. The ratio of a cell is the change of the
    rate by both, divided by the product of the changes by each; further settings are averaged
    over."""

    first: tuple[str, str]
    second: tuple[str, str]
    references: tuple[str, str]
    change: Change
    cells: tuple[InteractionCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedSet:
    """The recommended value of each setting, from `states`. `measured`: the run has this
    combination; the effect of values that were measured alone may differ together."""

    settings: State
    states: tuple[StateEffect, ...]
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsStudy:
    """The answer of `leadline settings`. `effects` has one entry for each state, in the order of
    the plan. `missing_costs` have no number in any cell. `front_costs` are the costs by which
    states are compared with their rate: those of every state with a rate."""

    run: Run
    band: float
    effects: tuple[StateEffect, ...]
    interactions: tuple[Interaction, ...]
    missing_costs: tuple[Metric, ...]
    front_costs: tuple[Metric, ...]
    recommended: RecommendedSet | None
    figures: tuple[CellFigure, ...] = field(repr=False)

    @property
    def design(self) -> Design:
        return self.run.plan.design
