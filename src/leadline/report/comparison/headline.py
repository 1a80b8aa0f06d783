"""A comparison's headline: its strongest finding in one sentence, with its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.metrics import Metric
from leadline.report.change_words import (
    OP_NOUNS,
    band_text,
    judged,
    ratios,
    reason_text,
    short,
    span_text,
)
from leadline.report.comparison.parts import Part, by_op, changed, parts_of, rates
from leadline.report.wording import count_text, listed

# A headline is read at a glance: so many characters, with names of twelve.
_LONGEST = 165
_NAME = 12
_TOLD = (Verdict.WORSE, Verdict.SAME, Verdict.BETTER)


def key_finding(comparison: Comparison) -> str:
    """One sentence with its numbers for somebody who knows nothing of the two."""
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    cells = rates(comparison)
    if not any(one.baseline_cell and one.candidate_cell for one in comparison.cells):
        return _nothing_in_common(comparison, base, other)
    if not cells:
        return _of_latency(comparison, base, other)
    if not judged(cells):
        return nothing_judged(cells, base, other)
    told = headline_parts(comparison)
    if not told:
        return _all_same(cells, base, other)
    return _sentence(told, base, other)


def headline_parts(comparison: Comparison) -> list[Part]:
    """The parts that the headline tells: the strongest; the strongest that points the other way,
    which must not be passed over; and more of them as long as they fit. Empty where nothing was
    found different."""
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    parts = [part for part in parts_of(rates(comparison)) if changed(part.cells)]
    # What goes both ways is worth a headline only where nothing else is to be told.
    clear = [part for part in parts if part.direction]
    ordered = sorted(clear or parts, key=lambda part: -part.weight)
    told = ordered[:1]
    told += [part for part in ordered if part.direction is not ordered[0].direction][:1]
    for part in ordered:
        if part not in told and _fits(_sentence([*told, part], base, other), base, other):
            told.append(part)
    return told


def _fits(sentence: str, base: str, other: str) -> bool:
    return len(sentence) - len(base) - len(other) + 2 * _NAME <= _LONGEST


def _sentence(parts: Sequence[Part], base: str, other: str) -> str:
    """`Against old, new writes 50.0 % fewer IOPS (worse in 1 of 1 cell) but reads ...`"""
    first = parts[0].direction
    along = [part for part in parts if part.direction is first]
    against = [part for part in parts if part.direction is not first]
    sides = [listed(map(_of_part, side)) for side in (along, against) if side]
    lone = all(
        one.judgement.evidence in (Evidence.ONE_NUMBER, Evidence.WITHIN_RUN)
        for part in parts
        for one in changed(part.cells)
    )
    basis = "; single trials" if lone else ""
    return f"Against {base}, {other} {' but '.join(sides)}{basis}."


def _of_part(part: Part) -> str:
    """`writes 13.7 to 26.9 % fewer IOPS in small blocks (worse in 6 of 7 cells)`."""
    return f"{part.said} ({_counts(part.cells)})"


def _counts(cells: Sequence[ComparedCell]) -> str:
    """What was found of how many: `worse in 6 of 7 cells`. What is open is said elsewhere."""
    counts = {verdict: sum(one.verdict is verdict for one in judged(cells)) for verdict in _TOLD}
    said = listed(f"{verdict.value} in {count:,}" for verdict, count in counts.items() if count)
    return f"{said} of {count_text(len(cells), 'cell')}"


def _all_same(cells: Sequence[ComparedCell], base: str, other: str) -> str:
    same = judged(cells)
    band = max(one.judgement.band for one in same)
    return (
        f"{other} and {base} are the same within {band_text(band)} in {len(same):,} of "
        f"{count_text(len(cells), 'cell')}{_more_repeats(cells)}."
    )


def _more_repeats(cells: Iterable[ComparedCell]) -> str:
    count = sum(one.verdict is Verdict.INCONCLUSIVE for one in cells)
    return f"; {count:,} {'needs' if count == 1 else 'need'} more repeats" if count else ""


def nothing_judged(cells: Sequence[ComparedCell], base: str, other: str) -> str:
    """Where no cell has a verdict: open, or not to be compared."""
    if all(one.verdict is Verdict.NOT_COMPARABLE for one in cells):
        return (
            f"No verdict on {other} against {base}: none of {count_text(len(cells), 'cell')} can "
            f"be compared ({listed(leading_reasons(cells), 3)})."
        )
    return (
        f"No difference between {base} and {other} could be shown in "
        f"{count_text(len(cells), 'cell')}{_more_repeats(cells)}."
    )


def leading_reasons(cells: Iterable[ComparedCell]) -> list[str]:
    """The first reason of each cell in words, the most frequent first."""
    counts: dict[str, int] = {}
    for cell in cells:
        for code in cell.judgement.reasons[:1]:
            counts[code] = counts.get(code, 0) + 1
    return [reason_text(code) for code in sorted(counts, key=lambda code: -counts[code])]


def _nothing_in_common(comparison: Comparison, base: str, other: str) -> str:
    shared = {one.target for one in comparison.cells}
    sides = [
        f"{name} has {listed((short(one) for one in alone), 3) or 'none other'}"
        for name, alone in (
            (base, comparison.baseline_alone),
            (other, comparison.candidate_alone),
        )
    ]
    if not shared:
        return (
            f"Nothing can be compared: {base} and {other} have no target in common "
            f"({'; '.join(sides)})."
        )
    names = listed((short(one) for one in shared), 3)
    return f"Nothing can be compared: {base} and {other} share {names}, but no workload on it."


def _of_latency(comparison: Comparison, base: str, other: str) -> str:
    """A comparison of chosen metrics, none of them a rate: what the first one says."""
    metric = next(iter(dict.fromkeys(one.metric for one in comparison.cells)))
    cells = [one for one in comparison.cells if one.metric is metric]
    if not judged(cells):
        return nothing_judged(cells, base, other)
    if not changed(cells):
        return _all_same(cells, base, other)
    told = listed(
        f"of {OP_NOUNS[op]} is {span_text(ratios(changed(group)), 'lower', 'higher')} "
        f"({_counts(group)})"
        for op, group in by_op(cells)
        if changed(group)
    )
    return f"On {other}, against {base}, {latency_name(metric)} latency {told}."


def latency_name(metric: Metric) -> str:
    """`p99.9`, `mean`."""
    name = {Metric.LATENCY_MEAN: "mean"}.get(metric, metric.value.removeprefix("latency_"))
    return {"p999": "p99.9", "p9999": "p99.99"}.get(name, name)
