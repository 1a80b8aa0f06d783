"""What a gate decided, as a document and in one line."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.analysis.gate import Gate, Outcome, RuleResult
from leadline.analysis.gate_rates import GateRates
from leadline.analysis.limits import Outcome as LimitOutcome
from leadline.report.cells import absent, number_column, quantity, records_table, section, table
from leadline.report.document import Cell, Document, Section
from leadline.report.words import (
    band_text,
    change_text,
    interval_text,
    listed,
    needed_text,
    percent_text,
    reason_words,
    where,
)
from leadline.text import count_text

# The worst first.
_ORDER = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)


def gate_headline(gate: Gate) -> str:
    """Return the outcome with its count: `fail: 2 of 24 limits exceeded`."""
    results = gate.results
    count = {outcome: sum(one.outcome is outcome for one in results) for outcome in Outcome}
    total = count_text(len(results), "limit")
    if count[Outcome.FAIL]:
        exceeded = sum(
            one.outcome is Outcome.FAIL and one.result.outcome is LimitOutcome.EXCEEDED
            for one in results
        )
        rest = count[Outcome.FAIL] - exceeded
        parts = [f"{exceeded} exceeded"] if exceeded else []
        parts += [f"{rest} inconclusive, which the policy fails"] if rest else []
        return f"fail: of {total}, {' and '.join(parts)}"
    if gate.needs_confirmation:
        exceeded = sum(one.result.outcome is LimitOutcome.EXCEEDED for one in results)
        return f"inconclusive: {exceeded} of {total} exceeded, not confirmed by a second run"
    if count[Outcome.INCONCLUSIVE]:
        return f"inconclusive: {count[Outcome.INCONCLUSIVE]} of {total}"
    return f"pass: {total} kept"


def gate_document(gate: Gate, rates: GateRates | None = None) -> Document:
    """Build the answer: the outcome, each limit on each cell, and the rates of a self-test."""
    comparison = gate.comparison
    first = gate_headline(gate)
    summary = [f"{first[0].upper()}{first[1:]}."]
    if gate.needs_confirmation:
        summary.append("Measure the candidate once more and name that run with --confirm.")
    if gate.confirmation is not None:
        again = [one for one in gate.results if one.result.outcome is LimitOutcome.EXCEEDED]
        confirmed = sum(one.confirmed is True for one in again)
        name = gate.confirmation.candidate.name
        summary.append(f"{name} confirms {confirmed} of {len(again)} exceeded limits.")
    if comparison.between_runs:
        deviation = band_text(comparison.between_runs)
        summary.append(f"Separate runs: intervals include {deviation} standard deviation by run.")
    sections = [_results(gate)]
    if rates is not None:
        alarms, found = (
            percent_text(counts[Outcome.FAIL] / rates.simulations)
            for counts in (rates.unchanged, rates.changed)
        )
        summary.append(f"Self-test: {alarms} of gates fail without a change, {found} with one.")
        sections.append(_rates(rates))
    return Document(
        title=f"Gate of {comparison.candidate.name} against {comparison.baseline.name}",
        subtitle=f"{count_text(len(gate.policy.rules), 'rule')} · equivalence margin "
        f"{band_text(gate.policy.band)}",
        summary=tuple(summary),
        sections=tuple(sections),
    )


def _results(gate: Gate) -> Section:
    ordered = sorted(gate.results, key=lambda one: _ORDER.index(one.outcome))
    confirming = gate.confirmation is not None
    found = records_table(
        "limits",
        ordered,
        ("outcome", lambda one: one.outcome.value),
        ("cell", lambda one: where(one.result.cell)),
        ("limit", lambda one: one.rule.name or one.rule.limit),
        (number_column("change"), _change),
        (number_column("interval", rank=1), _interval),
        ("confirmation", _confirmation) if confirming else None,
        ("note", result_note),
    )
    return section("Limits", "limits", found)


def _change(one: RuleResult) -> Cell:
    ratio = one.result.cell.judgement.ratio
    return absent() if ratio is None else quantity(change_text(ratio), ratio)


def _interval(one: RuleResult) -> Cell:
    ends = one.result.cell.judgement.interval
    return absent() if ends is None else quantity(interval_text(ends), ends[1] - ends[0])


def _confirmation(one: RuleResult) -> str:
    if one.result.outcome is not LimitOutcome.EXCEEDED:
        return ""
    if one.confirmation is None:
        return "no such cell"
    ratio = one.confirmation.cell.judgement.ratio
    change = "" if ratio is None else f"{change_text(ratio)}, "
    return change + {True: "exceeded", False: "kept", None: "undecided"}[one.confirmed]


def result_note(one: RuleResult) -> str:
    """Return what would decide an undecided limit, else why it is undecided."""
    judgement = one.result.cell.judgement
    if one.result.outcome is not LimitOutcome.UNDECIDED:
        return ""
    return needed_text(judgement) or listed(map(reason_words, judgement.reasons), limit=2)


def result_line(one: RuleResult) -> str:
    """Return a result in a line: cell, limit and change."""
    cell = one.result.cell
    ratio, ends = cell.judgement.ratio, cell.judgement.interval
    change = "change unknown" if ratio is None else change_text(ratio)
    interval = f" ({interval_text(ends)})" if ends else ""
    name = f"{one.rule.name}, " if one.rule.name else ""
    return f"{where(cell)}: {change}{interval}, limit {name}{one.rule.limit}"


def gate_chat(gate: Gate, most: int = 5) -> str:
    """Return the answer as a few lines of plain text for a chat."""
    pair = f"{gate.comparison.candidate.name} vs {gate.comparison.baseline.name}"
    return "\n".join([f"{pair}: {gate_headline(gate)}", *_few(gate.results, most)])


def _few(results: Iterable[RuleResult], most: int) -> list[str]:
    open_ = [one for one in results if one.outcome is not Outcome.PASS]
    open_.sort(key=lambda one: _ORDER.index(one.outcome))
    lines = [f"- {one.outcome.value}: {result_line(one)}" for one in open_[:most]]
    more = len(open_) - most
    return [*lines, f"- and {more} more"] if more > 0 else lines


def _rates(rates: GateRates) -> Section:
    def shares(counts: dict[Outcome, int]) -> list[Cell]:
        return [
            quantity(percent_text(counts[outcome] / rates.simulations), counts[outcome])
            for outcome in (Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE)
        ]

    scatter = "resampled from the trials" if rates.resampled else "normal, too few trials"
    changed = f"one cell changes by {rates.excess:g} times its limit"
    found = table(
        "rates",
        (
            "simulated comparisons",
            number_column("pass"),
            number_column("fail"),
            number_column("inconclusive"),
        ),
        [
            ["no change", *shares(dict(rates.unchanged))],
            [changed, *shares(dict(rates.changed))],
        ],
        caption=f"{rates.simulations:,} of each; scatter {scatter}",
    )
    return section(f"Self-test: {'sound' if rates.sound else 'not sound'}", "self-test", found)
