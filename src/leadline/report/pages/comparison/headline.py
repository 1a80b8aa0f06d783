"""The key finding of a comparison: the strongest changes by operation, in one sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import ComparedCell, Comparison, OverallEffect
from leadline.analysis.verdicts import Evidence, Reason, Verdict
from leadline.metrics import STAGES, Op
from leadline.report.words import (
    JUDGED,
    OP_NOUNS,
    band_text,
    count_text,
    interval_text,
    judged,
    listed,
    ratios,
    reason_text,
    short,
    span_text,
    title,
    words_of,
)

# Fsyncs are as many as the workload makes for its writes.
_OPS = (Op.WRITE, Op.READ, Op.TRIM, Op.TOTAL, Op.TRANSACTION, *STAGES)
CHANGED = (Verdict.WORSE, Verdict.BETTER)


def system_names(comparison: Comparison) -> tuple[str, str]:
    """Return the names of baseline and candidate, cut for a sentence."""
    return short(comparison.baseline.name), short(comparison.candidate.name)


def rates(comparison: Comparison) -> list[ComparedCell]:
    """Return the cells of the rates: IOPS, or bandwidth of large blocks."""
    return [cell for cell in comparison.cells if cell.rate]


def changed(cells: Iterable[ComparedCell]) -> list[ComparedCell]:
    """Return the cells with a significant change."""
    return [cell for cell in judged(cells) if cell.verdict in CHANGED]


def having(cells: Iterable[ComparedCell], verdict: Verdict) -> list[ComparedCell]:
    """Return the cells with a verdict."""
    return [cell for cell in cells if cell.verdict is verdict]


def trials_of(cell: ComparedCell) -> int:
    """Count the trials with a value on the system that has fewer."""
    return min(trials_of_each(cell))


def trials_of_each(cell: ComparedCell) -> tuple[int, int]:
    """Count the trials with a value of baseline and candidate; those behind a mean that was
    published with its scatter are counted."""
    base, other = (figure.repeats if figure else 0 for figure in (cell.baseline, cell.candidate))
    return base, other


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One operation. `blocks` is `small blocks` or `large blocks`, empty for all block sizes;
    `overall` the effect over its cells, None with fewer than three."""

    op: Op
    blocks: str
    cells: list[ComparedCell]
    overall: OverallEffect | None = None

    @property
    def noun(self) -> str:
        return f"{OP_NOUNS[self.op]}{f' of {self.blocks}' if self.blocks else ''}"

    @property
    def uniform(self) -> bool:
        """Whether all conclusive cells have the same verdict."""
        return len({cell.verdict for cell in judged(self.cells)}) == 1

    @property
    def direction(self) -> Verdict | None:
        """The verdict of all changed cells; None if none changed, or if they disagree."""
        found = {cell.verdict for cell in changed(self.cells)}
        return found.pop() if len(found) == 1 else None

    @property
    def leader(self) -> Verdict | None:
        """The direction, if at least half of all cells have it."""
        verdict = self.direction
        half = verdict and len(having(self.cells, verdict)) * 2 >= len(self.cells)
        return verdict if half else None

    @property
    def weight(self) -> float:
        """The sum of |log ratio| over the changed cells."""
        return math.fsum(abs(math.log(ratio)) for ratio in ratios(changed(self.cells)))

    @property
    def text(self) -> str:
        """`writes 20.4 % fewer IOPS in small blocks overall (-25.1 % to -15.2 %; worse in 6 of 7
        cells)`; the range of the changed cells where no overall effect is certain.

        Raises ValueError without a changed cell.
        """
        verb = {Op.TOTAL: "does mixed reads and writes"}.get(self.op, OP_NOUNS[self.op])
        conclusive = changed(self.cells)
        size = f" in {self.blocks}" if self.blocks else ""
        if self.shifted:
            return (
                f"{verb} {self.overall_text}{size} overall ({self.bounds}; {_counts(self.cells)})"
            )
        span = span_text(ratios(conclusive), *words_of(conclusive))
        return f"{verb} {span}{size} ({_counts(self.cells)})"

    @property
    def brief(self) -> str:
        """`writes 20.4 % fewer IOPS overall`, without counts. Raises ValueError without a changed
        cell."""
        verb = {Op.TOTAL: "does mixed reads and writes"}.get(self.op, OP_NOUNS[self.op])
        size = f" in {self.blocks}" if self.blocks else ""
        if self.shifted:
            return f"{verb} {self.overall_text}{size} overall ({self.bounds})"
        conclusive = changed(self.cells)
        return f"{verb} {span_text(ratios(conclusive), *words_of(conclusive))}{size}"

    @property
    def overall_text(self) -> str:
        """`20.4 % fewer IOPS`. Raises ValueError without an overall effect."""
        return span_text([self.overall.ratio] if self.overall else [], *words_of(self.cells))

    @property
    def bounds(self) -> str:
        return interval_text(self.overall.interval) if self.overall else ""

    @property
    def shifted(self) -> bool:
        """Whether the interval of the overall effect excludes no change."""
        return self.overall is not None and not (
            self.overall.interval[0] <= 1 <= self.overall.interval[1]
        )


def by_op(cells: Sequence[ComparedCell]) -> list[tuple[Op, list[ComparedCell]]]:
    """Group cells by operation, writes first. Reads and writes are never mixed."""
    groups = [(op, [cell for cell in cells if cell.op is op]) for op in _OPS]
    return [(op, group) for op, group in groups if group]


def parts_of(cells: Sequence[ComparedCell], overall: Sequence[OverallEffect] = ()) -> list[Part]:
    """Split cells by operation, and by block size where only that gives a uniform verdict.

    Uniform parts come first.
    """
    effects = {(effect.op, effect.blocks): effect for effect in overall}
    parts = []
    for op, group in by_op(cells):
        whole = Part(op=op, blocks="", cells=group, overall=effects.get((op, None)))
        small = [cell for cell in group if not cell.streaming]
        large = [cell for cell in group if cell.streaming]
        split = [
            Part(op=op, blocks=f"{size} blocks", cells=some, overall=effects.get((op, size)))
            for size, some in (("small", small), ("large", large))
        ]
        useful = small and large and not whole.uniform and any(part.uniform for part in split)
        parts += split if useful else [whole]
    return sorted(parts, key=lambda part: not part.uniform)


# Characters of a headline, with names of twelve characters.
_LONGEST = 165
_NAME = 12


def key_finding(comparison: Comparison) -> str:
    """Word the strongest finding in one sentence with its numbers."""
    names = system_names(comparison)
    cells = rates(comparison)
    if not any(cell.baseline_cell and cell.candidate_cell for cell in comparison.cells):
        return _nothing_in_common(comparison)
    if not cells:
        # Only latencies are known: the first of them.
        metric = comparison.cells[0].metric
        cells = [cell for cell in comparison.cells if cell.metric is metric]
    if (trials := _equal_trials(cells)) > 2:
        return (
            f"{names[1]} and {names[0]} have the same {trials:,} values: these are probably the "
            "same results."
        )
    if not changed(cells):
        parts = parts_of(cells, comparison.overall)
        return _without_change(cells, names, [part for part in parts if part.shifted])
    if cells[0].rate:
        parts = headline_parts(comparison)
        # One sentence about all operations, where the first would leave another out.
        along = alike_text(comparison, intervals=True) if len(parts) < 2 else ""
        return along or _sentence(parts, names)
    changes = listed(
        f"of {OP_NOUNS[op]} is {span_text(ratios(changed(group)), 'lower', 'higher')} "
        f"({_counts(group)})"
        for op, group in by_op(cells)
        if changed(group)
    )
    return f"{names[1]} vs {names[0]}: {title(cells[0].metric)} {changes}."


def _equal_trials(cells: Sequence[ComparedCell]) -> int:
    """Count the trials of a system if all trials of both systems have the same values; 0 if they
    differ, or do not differ within a cell (rounded numbers)."""
    values = [
        [[trial.value for trial in figure.trials] for figure in (cell.baseline, cell.candidate)]
        for cell in cells
        if cell.baseline and cell.candidate
    ]
    if any(base != other for base, other in values):
        return 0
    scattered = any(len(set(base)) > 1 for base, _ in values)
    return sum(len(base) for base, _ in values) if scattered else 0


def headline_parts(comparison: Comparison) -> list[Part]:
    """Select the parts of the headline: the strongest, the strongest in the other direction, and
    more of them as long as they fit. Empty without a change."""
    names = system_names(comparison)
    longest = _LONGEST + sum(map(len, names)) - 2 * _NAME
    parts = parts_of(rates(comparison), comparison.overall)
    parts = [part for part in parts if changed(part.cells)]
    # Parts with changes in both directions only where there are no others.
    clear = [part for part in parts if part.direction]
    ordered = sorted(clear or parts, key=lambda part: -part.weight)
    chosen = ordered[:1]
    chosen += [part for part in ordered if part.direction is not ordered[0].direction][:1]
    for part in ordered:
        if part not in chosen and len(_sentence([*chosen, part], names)) <= longest:
            chosen.append(part)
    return chosen


def alike_text(comparison: Comparison, *, intervals: bool = False) -> str:
    """`new vs old: writes 44.4 to 68.1 % and reads 61.4 to 74.7 % fewer IOPS.`, without counts: all
    operations in the same direction. Empty where they differ, or with one operation.

    With `intervals` those of the overall effects are given; empty where one has none."""
    parts = [part for part in parts_of(rates(comparison), comparison.overall) if part.leader]
    words = {words_of(changed(part.cells)) for part in parts}
    if len(parts) < 2 or len({part.leader for part in parts}) > 1 or len(words) > 1:
        return ""
    overall = all(part.shifted for part in parts)
    if intervals and not overall:
        return ""
    found = (
        [part.overall.ratio] if overall and part.overall else ratios(changed(part.cells))
        for part in parts
    )
    spans = [span_text(values, "", "").strip() for values in found]
    bounds = [f" ({part.bounds})" if intervals else "" for part in parts]
    texts = listed(
        f"{part.noun} {span}{bound}" for part, span, bound in zip(parts, spans, bounds, strict=True)
    )
    word = words.pop()[parts[0].direction is not Verdict.WORSE]
    names = system_names(comparison)
    rest = f"{word}{' overall' if overall else ''}{basis_text(parts)}"
    return f"{names[1]} vs {names[0]}: {texts} {rest}."


def _sentence(parts: Sequence[Part], names: tuple[str, str]) -> str:
    """`new vs old: writes 50.0 % fewer IOPS (worse in 1 of 1 cell) but reads ...`"""
    first = parts[0].direction
    along = [part.text for part in parts if part.direction is first]
    against = [part.text for part in parts if part.direction is not first]
    directions = [listed(texts) for texts in (along, against) if texts]
    return f"{names[1]} vs {names[0]}: {' but '.join(directions)}{basis_text(parts)}."


def basis_text(parts: Sequence[Part]) -> str:
    """Return `; single trials` where no changed cell has repeats."""
    evidence = {cell.judgement.evidence for part in parts for cell in changed(part.cells)}
    return "; single trials" if evidence <= {Evidence.ONE_NUMBER, Evidence.WITHIN_RUN} else ""


def _counts(cells: Sequence[ComparedCell]) -> str:
    """`worse in 6 of 7 cells`; inconclusive cells are reported elsewhere."""
    counts = {verdict: len(having(judged(cells), verdict)) for verdict in JUDGED}
    found = listed(f"{verdict.value} in {count:,}" for verdict, count in counts.items() if count)
    return f"{found} of {count_text(len(cells), 'cell')}"


def _without_change(
    cells: Sequence[ComparedCell], names: tuple[str, str], shifted: Sequence[Part] = ()
) -> str:
    """Word a comparison of equal, inconclusive or not comparable cells; `shifted` are operations
    with an overall effect that no cell shows alone."""
    base, other = names
    count = count_text(len(cells), "cell")
    same, undecided = judged(cells), having(cells, Verdict.INCONCLUSIVE)
    # No repeats give a trial of zero a ratio.
    zero = [cell for cell in undecided if Reason.TRIAL_NOT_POSITIVE in cell.judgement.reasons]
    undecided = [cell for cell in undecided if cell not in zero]
    verb = "needs" if len(undecided) == 1 else "need"
    # More trials do not reduce the variation between two runs or groups.
    cures = {
        Reason.ACROSS_RUNS: "several runs of each system",
        Reason.ACROSS_GROUPS: "a budget that holds both systems at once",
    }
    what = next(
        (
            cure
            for reason, cure in cures.items()
            if all(
                reason in cell.judgement.reasons and cell.judgement.trials_needed is None
                for cell in undecided
            )
        ),
        "more repeats",
    )
    more = f"; {len(undecided):,} {verb} {what}" if undecided else ""
    more += f"; in {count_text(len(zero), 'cell')} a trial's value is zero" if zero else ""
    effects = (f"{part.noun} {part.overall_text} ({part.bounds})" for part in shifted)
    more += f"; overall {listed(effects)}" if shifted else ""
    if same:
        band = band_text(max(cell.judgement.band for cell in same))
        equal = f"the same within {band} in {len(same):,} of {count}"
        return f"{other} and {base} are {equal}{more}."
    if undecided or zero:
        return f"No significant difference between {base} and {other} in {count}{more}."
    reasons = listed(leading_reasons(cells), 3)
    return f"No verdict on {other} vs {base}: none of {count} is comparable ({reasons})."


def leading_reasons(cells: Iterable[ComparedCell]) -> list[str]:
    """Word the first reason of each cell, the most frequent first."""
    counts = Counter(code for cell in cells for code in cell.judgement.reasons[:1])
    return [reason_text(code) for code, _ in counts.most_common()]


def _nothing_in_common(comparison: Comparison) -> str:
    base, other = system_names(comparison)
    shared = dict.fromkeys(cell.target for cell in comparison.cells)
    if shared:
        names = listed(map(short, shared), 3)
        return f"Nothing can be compared: {base} and {other} share {names}, but no workload on it."
    alone, others_alone = (
        listed(map(short, subjects), 3) or "none other"
        for subjects in (comparison.baseline_alone, comparison.candidate_alone)
    )
    return (
        f"Nothing can be compared: {base} and {other} have no target in common "
        f"({base} has {alone}; {other} has {others_alone})."
    )
