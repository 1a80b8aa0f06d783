"""The effect of each tried state on rates, p99 latencies and costs, against the present state.

A state is compared with the present state of the same targets by the pairs of their trials in one
block, which are neighbours in time: what drifts from block to block cancels. The cells of all
states are one family of tests (Benjamini-Hochberg), and so are their mean changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from leadline import errors
from leadline.analysis.compare import paired_samples
from leadline.analysis.comparison import ComparedCell, Side
from leadline.analysis.figures import CellFigure
from leadline.analysis.overall import without_totals
from leadline.analysis.settings.changes import mean_changes
from leadline.analysis.settings.facts import (
    Change,
    Gain,
    Objection,
    RecommendedSet,
    RefusedCell,
    SettingsStudy,
    StateEffect,
    TriedState,
)
from leadline.analysis.settings.interactions import interactions
from leadline.analysis.verdicts import Evidence, Judgement, Pair, Verdict, judge
from leadline.archive.reader import Run
from leadline.archive.records import Problem, TrialStatus
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.metrics import COSTS, MARGIN, Metric
from leadline.plan.models import Plan
from leadline.plan.settings import Design, state_text

# A lifecycle's rate is the time of a stage.
_IO = (Metric.IOPS, Metric.BANDWIDTH, Metric.LATENCY_MEAN, Metric.LATENCY_P99)
# By which a state is compared with its rate: they are what the storage is bought for.
_FRONT = (Metric.STORAGE_CPU, Metric.STORAGE_MEMORY)
# Of the storage, and so paid for a gain.
_PAID = (*_FRONT, Metric.DISK_BYTES)
_Row = tuple[TriedState, ComparedCell, Pair]


def tried_states(plan: Plan) -> tuple[TriedState, ...]:
    """Return the states of a plan other than the present one, in its order."""
    present = {target.name for target in plan.targets if not target.settings}
    found: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for target in plan.targets:
        name = target.name.removesuffix(f" {state_text(target.settings)}")
        if target.settings and name in present:
            found.setdefault(tuple(target.settings.items()), {})[name] = target.name
    return tuple(
        TriedState(settings=dict(settings), targets=targets) for settings, targets in found.items()
    )


def study_settings(
    run: Run,
    figures: tuple[CellFigure, ...],
    findings: tuple[Finding, ...],
    *,
    band: float = MARGIN,
) -> SettingsStudy:
    """Compare each tried state with the present one. `band` is the equivalence margin.

    Raises LeadlineError (`not-comparable`) for a run whose plan tries no settings, and ValueError
    for a `band` that is not between 0 and 1.
    """
    states = tried_states(run.plan)
    if not states:
        raise LeadlineError(
            errors.NOT_COMPARABLE,
            f"run {run.id} tried no settings",
            hint="`settings:` in a plan measures each target with other values of its settings",
        )
    rows = [row for state in states for row in _pairs(run, figures, findings, state)]
    io = _judged([row for row in rows if not row[1].metric.is_cost], band)
    costs = _judged([row for row in rows if row[1].metric.is_cost], band)
    overall = _overall([*io, *costs], states, band)
    problems = _problems(run)
    effects = []
    for number, state in enumerate(states):
        cells = tuple(cell for of, cell, _ in io if of is state)
        effects.append(
            StateEffect(
                state=state,
                cells=cells,
                cost_cells=tuple(cell for of, cell, _ in costs if of is state),
                overall=overall[number],
                refused=tuple(
                    RefusedCell(
                        cell=cell,
                        problem=problems.get(
                            (state.targets[cell.target], cell.workload, cell.level)
                        ),
                    )
                    for cell in cells
                    if cell.rate and cell.verdict is Verdict.NOT_COMPARABLE
                ),
            )
        )
    known = [effect for effect in effects if effect.rate is not None]
    front_costs = tuple(
        metric for metric in _FRONT if known and all(metric in one.costs for one in known)
    )
    measured = {
        cost.metric for figure in figures for cost in figure.costs if cost.value is not None
    }
    weighed = tuple(
        replace(effect, front=front)
        for effect, front in zip(
            map(_weighed, effects), _on_front(effects, front_costs), strict=True
        )
    )
    return SettingsStudy(
        run=run,
        band=band,
        effects=weighed,
        interactions=interactions(
            run.plan, [(state.settings, cell, pair.candidate) for state, cell, pair in io], band
        )
        if run.plan.design is Design.FULL
        else (),
        missing_costs=tuple(metric for metric in COSTS if metric not in measured),
        front_costs=front_costs,
        recommended=_recommended(weighed),
        figures=figures,
    )


# --- pairs ------------------------------------------------------------------------------------


def _pairs(
    run: Run,
    figures: tuple[CellFigure, ...],
    findings: tuple[Finding, ...],
    state: TriedState,
) -> Iterable[_Row]:
    """Yield the rates, p99 latencies and costs of a state and of the present one, not yet
    tested."""
    present, tried = (
        Side(name=name, run=run, targets=targets, figures=figures, findings=findings)
        for name, targets in (
            ("present", {target: target for target in state.targets}),
            (state.name, state.targets),
        )
    )
    untested = Judgement(verdict=Verdict.NOT_COMPARABLE, evidence=Evidence.NONE, band=0.0)
    for make_cell, pair in paired_samples(present, tried, metrics=(*_IO, *COSTS)):
        cell = make_cell(judgement=untested)
        if cell.rate or cell.metric is Metric.LATENCY_P99 or cell.metric.is_cost:
            yield state, cell, pair


def _judged(rows: Sequence[_Row], band: float) -> list[_Row]:
    judgements = judge([pair for *_, pair in rows], band)
    return [
        (state, replace(cell, judgement=judgement), pair)
        for (state, cell, pair), judgement in zip(rows, judgements, strict=True)
    ]


def _problems(run: Run) -> Mapping[tuple[str, str, str], Problem]:
    """Return the error of the last failed trial of each cell that has one."""
    return {
        (record.target, record.workload, record.level): record.problem
        for record in (trial.record for trial in run.trials)
        if record.problem is not None and record.status is not TrialStatus.COMPLETED
    }


# --- mean changes -----------------------------------------------------------------------------


def _overall(
    rows: Sequence[_Row], states: Sequence[TriedState], band: float
) -> list[dict[Metric, Change]]:
    """Compute the mean changes of each state, those of one metric as a family of all states."""
    found: list[dict[Metric, Change]] = [{} for _ in states]
    for metric in (Metric.IOPS, Metric.LATENCY_P99, *COSTS):
        counted = [row for row in rows if _counts(row[1], metric)]
        groups = {
            number: [pair for of, cell, pair in counted if of is state and id(cell) in kept]
            for number, state in enumerate(states)
            for kept in [_without_totals(cell for of, cell, _ in counted if of is state)]
            if kept
        }
        changes = mean_changes(list(groups.values()), metric, band)
        for number, change in zip(groups, changes, strict=True):
            if change is not None:
                found[number][metric] = change
    return found


def _without_totals(cells: Iterable[ComparedCell]) -> set[int]:
    return {id(cell) for cell in without_totals(list(cells))}


def _counts(cell: ComparedCell, metric: Metric) -> bool:
    """Whether a cell belongs to the mean change of a metric; IOPS stands for the usual rate, unless
    that is the time of a stage."""
    if cell.verdict is Verdict.NOT_COMPARABLE or cell.judgement.estimate is None:
        return False
    if metric is Metric.IOPS:
        return cell.rate and not cell.metric.is_latency
    return cell.metric is metric and not cell.rate


# --- weighing gains against costs -------------------------------------------------------------


def _weighed(effect: StateEffect) -> StateEffect:
    """Add the established gains of a state, and what speaks against it."""
    rate, p99 = effect.rate, effect.overall.get(Metric.LATENCY_P99)
    gains, objections = [], []
    same = rate is not None and rate.verdict is Verdict.SAME
    if _established(rate, effect.rates, Verdict.BETTER):
        gains.append(Gain.RATE)
    if same and _established(p99, effect.latencies, Verdict.BETTER):
        gains.append(Gain.LATENCY)
    if same and any(effect.costs[one].verdict is Verdict.BETTER for one in _paid(effect)):
        gains.append(Gain.SAVING)
    if effect.refused:
        objections.append(Objection.INCOMPLETE)
    if _established(rate, effect.rates, Verdict.WORSE):
        objections.append(Objection.RATE_WORSE)
    if _established(p99, effect.latencies, Verdict.WORSE):
        objections.append(Objection.LATENCY_WORSE)
    above = [
        metric
        for metric in _paid(effect)
        if effect.costs[metric].verdict is Verdict.WORSE
        and rate is not None
        and effect.costs[metric].ratio > rate.ratio
    ]
    if above:
        objections.append(Objection.COST_ABOVE_GAIN)
    return replace(
        effect,
        gains=tuple(gains),
        objections=tuple(objections),
        costs_above_gain=tuple(above),
    )


def _paid(effect: StateEffect) -> list[Metric]:
    return [metric for metric in _PAID if metric in effect.costs]


def _established(change: Change | None, cells: Iterable[ComparedCell], verdict: Verdict) -> bool:
    """Whether the mean change or the change of a cell has the verdict."""
    mean = change is not None and change.verdict is verdict
    return mean or any(cell.verdict is verdict for cell in cells)


def _on_front(effects: Sequence[StateEffect], costs: Sequence[Metric]) -> list[bool]:
    """Return which states are on the Pareto front of the rate and these costs. A change that is not
    established counts as none, so that noise puts no state on it; the present state, and any state
    like it, is a point that others must beat."""
    points = {
        number: (
            _established_ratio(effect.rate),
            *(-_established_ratio(effect.costs[metric]) for metric in costs),
        )
        for number, effect in enumerate(effects)
        if effect.rate is not None
    }
    present = (1.0, *(-1.0 for _ in costs))
    every = [present, *points.values()]
    return [
        number in points
        and points[number] != present
        and not any(_dominates(other, points[number]) for other in every)
        for number in range(len(effects))
    ]


def _established_ratio(change: Change) -> float:
    return change.ratio if change.verdict in (Verdict.BETTER, Verdict.WORSE) else 1.0


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether a point is at least as good in everything and better in something."""
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def _recommended(effects: Sequence[StateEffect]) -> RecommendedSet | None:
    """Choose for each setting the recommended value with the highest rate; of full states the best
    one. None where no state is recommended."""
    chosen: dict[tuple[str, ...], StateEffect] = {}
    for effect in effects:
        names = tuple(effect.state.settings)
        best = chosen.get(names)
        if effect.recommended and (best is None or _ratio(effect) > _ratio(best)):
            chosen[names] = effect
    if not chosen:
        return None
    # States of several settings contain the values of others; the best of them is the answer.
    states = tuple(chosen.values())
    if any(len(names) > 1 for names in chosen):
        states = (max(states, key=_ratio),)
    settings = {name: value for effect in states for name, value in effect.state.settings.items()}
    return RecommendedSet(settings=settings, states=states, measured=len(states) == 1)


def _ratio(effect: StateEffect) -> float:
    return effect.rate.ratio if effect.rate is not None else 0.0
