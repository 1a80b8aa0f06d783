"""Sentences and texts of a settings study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leadline.analysis.settings.facts import (
    Change,
    Gain,
    Objection,
    RefusedCell,
    SettingsStudy,
    StateEffect,
)
from leadline.analysis.verdicts import Verdict
from leadline.metrics import Metric
from leadline.report.words import (
    absent,
    change_text,
    count_text,
    interval_text,
    listed,
    reason_text,
    short,
    title,
)

RATE = "rate"
_MOST_NAMES = 4
PRESENT = "present state"
GAINS: Mapping[Gain, str] = {
    Gain.RATE: "better rate",
    Gain.LATENCY: "lower p99 latency at the same rate",
    Gain.SAVING: "lower cost at the same rate",
}
# Short names of mean changes next to that of the rate, the most important first.
COLUMNS: Mapping[Metric, str] = {
    Metric.STORAGE_CPU: "CPU per I/O",
    Metric.STORAGE_MEMORY: "memory",
    Metric.LATENCY_P99: "p99",
    Metric.DISK_BYTES: "disk bytes",
    Metric.NETWORK_BYTES: "network bytes",
    Metric.CLIENT_CPU: "client CPU",
}
OBJECTIONS: Mapping[Objection, str] = {
    Objection.INCOMPLETE: "cells without a usable number",
    Objection.RATE_WORSE: "a worse rate",
    Objection.LATENCY_WORSE: "a higher p99 latency",
    Objection.COST_ABOVE_GAIN: "a cost above the gain",
}


def metric_name(metric: Metric) -> str:
    """Name a metric of mean changes, of which IOPS stands for the usual rate of each cell."""
    return RATE if metric is Metric.IOPS else title(metric)


def change_and_interval(change: Change) -> str:
    """`+18.2 % (+12.0 % to +25.1 %)`."""
    return f"{change_text(change.ratio)} ({interval_text(change.interval)})"


def settings_headline(study: SettingsStudy) -> str:
    """State the result in about 20 words."""
    chosen = study.recommended
    if chosen is not None:
        parts = [f"{short(effect.state.name)}: {_rate_text(effect)}" for effect in chosen.states]
        return f"Recommended: {listed(parts)}."
    states = count_text(len(study.effects), "state")
    gaining = [effect for effect in study.effects if effect.gains]
    if gaining:
        best = max(gaining, key=lambda effect: effect.rate.ratio if effect.rate else 0.0)
        return (
            f"None of {states} is recommended: {short(best.state.name)} gains "
            f"({_rate_text(best)}) but has {objections_text(best)}."
        )
    return f"None of {states} has an established gain over the present state."


def _rate_text(effect: StateEffect) -> str:
    if effect.rate is None:
        return "rate unknown"
    cells = count_text(effect.rate.cells, "cell")
    return f"rate {change_text(effect.rate.ratio)} over {cells}"


def settings_bullets(study: SettingsStudy) -> Iterator[str]:
    """Yield the other results, a sentence each."""
    yield f"Rates of {count_text(len(study.effects), 'state')}: {_counts(study)}."
    needed = [
        effect.rate.judgement.trials_needed
        for effect in study.effects
        if effect.rate and effect.rate.verdict is Verdict.INCONCLUSIVE
    ]
    known = [number for number in needed if number is not None]
    if known and len(known) == len(needed):
        repeats = count_text(max(known), "repeat")
        yield f"Inconclusive: about {repeats} would probably decide each of them."
    chosen = study.recommended
    for effect in chosen.states if chosen else ():
        costs = [
            f"{title(metric)} {change_text(change.ratio)}"
            + ("" if change.verdict in (Verdict.BETTER, Verdict.WORSE) else f" ({change.verdict})")
            for metric, change in effect.costs.items()
        ]
        if costs:
            yield f"Cost of {short(effect.state.name)}: {listed(costs)}."
    if chosen and not chosen.measured:
        yield (
            f"The {len(chosen.states)} settings were measured alone, not together: confirm them "
            "with a run."
        )
    if study.missing_costs:
        yield f"Not measured: {listed(map(title, study.missing_costs))}."
    refused = sum(bool(effect.refused) for effect in study.effects)
    if refused:
        yield f"{count_text(refused, 'state')} with refused cells."


def _counts(study: SettingsStudy) -> str:
    """`2 worse (logging=0/5 and logging=20/20) and 4 inconclusive`: established changes have
    names."""
    states: dict[str, list[str]] = {}
    for effect in study.effects:
        verdict = effect.rate.verdict if effect.rate else None
        states.setdefault(verdict or "unknown", []).append(short(effect.state.name))
    parts = []
    for found, names in states.items():
        named = found in (Verdict.BETTER, Verdict.WORSE) and len(names) <= _MOST_NAMES
        parts.append(f"{len(names)} {found}" + (f" ({listed(names)})" if named else ""))
    return listed(parts)


def gains_text(effect: StateEffect) -> str:
    return listed(GAINS[gain] for gain in effect.gains)


def objections_text(effect: StateEffect) -> str:
    texts = [OBJECTIONS[objection] for objection in effect.objections]
    if effect.costs_above_gain:
        texts[-1] += f" ({listed(COLUMNS[metric] for metric in effect.costs_above_gain)})"
    return listed(texts)


def assessment_text(effect: StateEffect) -> str:
    """The gain of a state and what speaks against it. Without a gain the changes say it all, unless
    some are missing."""
    gains, against = gains_text(effect), objections_text(effect)
    if effect.recommended:
        return f"recommended: {gains}"
    if gains:
        return f"{gains}, but {against}" if against else gains
    incomplete = Objection.INCOMPLETE in effect.objections
    return OBJECTIONS[Objection.INCOMPLETE] if incomplete else ""


def refusal_text(refused: RefusedCell) -> str:
    """Why a cell has no verdict: the error of its trials, else the reasons of the refusal."""
    if refused.problem is not None and absent(refused.cell):
        return f"{refused.problem.code}: {refused.problem.fact}"
    return listed(map(reason_text, refused.cell.judgement.reasons))
