"""The key finding and the takeaways of a comparison: short sentences with their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import ComparedCell, Comparison, Side
from leadline.analysis.explain.facts import Explanation
from leadline.analysis.verdicts import REPEATS_DEVIATION, Evidence, Verdict
from leadline.findings import Severity
from leadline.inventory.diff import Topic
from leadline.metrics import Metric, Op
from leadline.report.pages.comparison.explanations import explanation_text
from leadline.report.words import (
    OP_NOUNS,
    absent,
    band_text,
    change_text,
    count_text,
    counts_text,
    judged,
    listed,
    place,
    ratios,
    reason_text,
    short,
    span_text,
    value_with_unit,
    where,
    words_of,
)
from leadline.stats.ratios import Scatter, share_beyond

_OPS = (Op.WRITE, Op.READ, Op.TRIM, Op.TOTAL)
_CHANGED = (Verdict.WORSE, Verdict.BETTER)


def rates(comparison: Comparison) -> list[ComparedCell]:
    """Return the cells of the rates: IOPS, or bandwidth of large blocks."""
    return [one for one in comparison.cells if one.rate]


def changed(cells: Iterable[ComparedCell]) -> list[ComparedCell]:
    """Return the cells with a significant change."""
    return [one for one in judged(cells) if one.verdict in _CHANGED]


def trials_of(cell: ComparedCell) -> int:
    """Count the trials with a value on the system that has fewer."""
    counts = [
        sum(one.value is not None for one in figure.trials) if figure else 0
        for figure in (cell.baseline, cell.candidate)
    ]
    return min(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One operation. `blocks` is `small blocks` or `large blocks`, empty for all block sizes."""

    op: Op
    blocks: str
    cells: list[ComparedCell]

    @property
    def noun(self) -> str:
        return f"{OP_NOUNS[self.op]}{f' of {self.blocks}' if self.blocks else ''}"

    @property
    def workloads(self) -> list[str]:
        return list(dict.fromkeys(one.workload for one in self.cells))

    @property
    def direction(self) -> Verdict | None:
        """The verdict of all changed cells; None if none changed, or if they disagree."""
        found = {one.verdict for one in changed(self.cells)}
        return found.pop() if len(found) == 1 else None

    @property
    def weight(self) -> float:
        """The sum of |log ratio| over the changed cells."""
        return math.fsum(abs(math.log(ratio)) for ratio in ratios(changed(self.cells)))

    @property
    def text(self) -> str:
        """`writes 13.7 to 26.9 % fewer IOPS in small blocks`, of the changed cells.

        Raises ValueError without a changed cell.
        """
        verb = {Op.TOTAL: "does mixed reads and writes"}.get(self.op, OP_NOUNS[self.op])
        conclusive = changed(self.cells)
        size = f" in {self.blocks}" if self.blocks else ""
        return f"{verb} {span_text(ratios(conclusive), *words_of(conclusive))}{size}"


def by_op(cells: Sequence[ComparedCell]) -> list[tuple[Op, list[ComparedCell]]]:
    """Group cells by operation, writes first. Reads and writes are never mixed."""
    groups = [(op, [one for one in cells if one.op is op]) for op in _OPS]
    return [(op, group) for op, group in groups if group]


def parts_of(cells: Sequence[ComparedCell]) -> list[Part]:
    """Split cells by operation, and by block size where only that gives a uniform verdict.

    Uniform parts come first.
    """
    parts = []
    for op, group in by_op(cells):
        small = [one for one in group if not one.streaming]
        large = [one for one in group if one.streaming]
        split = (
            small
            and large
            and (_is_uniform(small) or _is_uniform(large))
            and not _is_uniform(group)
        )
        if split:
            parts.append(Part(op=op, blocks="small blocks", cells=small))
            parts.append(Part(op=op, blocks="large blocks", cells=large))
        else:
            parts.append(Part(op=op, blocks="", cells=group))
    return sorted(parts, key=lambda part: not _is_uniform(part.cells))


def _is_uniform(cells: Sequence[ComparedCell]) -> bool:
    """Whether all conclusive cells have the same verdict."""
    return len({one.verdict for one in judged(cells)}) == 1


# Imported figures whose queue depth was ignored: one I/O per job was in flight.

DEPTH_NOT_REACHED = "queue-depth-not-reached"
# I/Os in flight count as equal up to the precision of three-digit figures.
_ALIKE = 0.1
# I/Os in flight per job that count as one, as in the rule.
_ONE = (0.5, 1.5)


def remaining(comparison: Comparison, cells: Sequence[ComparedCell]) -> list[str]:
    """Report imported cells refused only for their queue depth, which ran one I/O per job on both
    systems by their own figures."""
    found: list[ComparedCell] = []
    other: list[ComparedCell] = []
    for one in cells:
        if (
            one.verdict is not Verdict.NOT_COMPARABLE
            or DEPTH_NOT_REACHED not in one.judgement.reasons
        ):
            continue
        (found if _only_depth(one) and _alike(comparison, one) else other).append(one)
    sides = (comparison.baseline, comparison.candidate)
    if not found or not all(side.run.plan.imported for side in sides):
        return []
    text = (
        f"In {count_text(len(found), 'cell')} both systems had one I/O per job in flight, instead "
        "of the requested depth. Imported with an iodepth of 1 they are comparable"
    )
    if other:
        text += f"; except {listed((where(one) for one in other), 3)}"
    return [f"{text}."]


def one_of_each_job(in_flight: float | None, jobs: int | None) -> bool:
    """Return whether about one I/O per job was in flight."""
    return bool(in_flight and jobs) and _ONE[0] <= (in_flight or 0) / (jobs or 1) <= _ONE[1]


def _only_depth(cell: ComparedCell) -> bool:
    figures = (cell.baseline, cell.candidate)
    codes = {
        doubt.code
        for one in figures
        if one is not None
        for doubt in one.doubts
        if doubt.severity is Severity.ERROR
    }
    return codes == {DEPTH_NOT_REACHED}


def _alike(comparison: Comparison, cell: ComparedCell) -> bool:
    if cell.jobs is None:
        return False
    seen = [
        _in_flight(side, figure.target if figure else "", cell)
        for side, figure in (
            (comparison.baseline, cell.baseline_cell),
            (comparison.candidate, cell.candidate_cell),
        )
    ]
    known = [one for one in seen if one is not None]
    if len(known) < 2 or not all(one_of_each_job(one, cell.jobs) for one in known):
        return False
    return max(known) <= min(known) * (1 + _ALIKE)


def _in_flight(side: Side, target: str, cell: ComparedCell) -> float | None:
    place = (target, cell.workload, cell.level)
    for one in side.findings:
        if one.code == DEPTH_NOT_REACHED and (one.target, one.workload, one.level) == place:
            return one.evidence.get("in_flight")
    return None


# Coefficients of variation of 180 groups of three runs on a production Ceph cluster: median, 90th
# percentile and worst (methodology, section 1).
REPEATS = Scatter(median=0.016, ninetieth=REPEATS_DEVIATION, worst=0.36)


def false_positive_rate(band: float) -> float:
    """Compute the false positive rate of the equivalence margin for one number per system, with
    the published scatter of repeats."""
    return share_beyond(1 - band, 1 + band, REPEATS)


# Characters of a headline, with names of twelve characters.
_LONGEST = 165
_NAME = 12
_TESTED = (Verdict.WORSE, Verdict.SAME, Verdict.BETTER)


def key_finding(comparison: Comparison) -> str:
    """Word the strongest finding in one sentence with its numbers."""
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    cells = rates(comparison)
    if not any(one.baseline_cell and one.candidate_cell for one in comparison.cells):
        return _nothing_in_common(comparison, base, other)
    if not cells:
        return _of_latency(comparison, base, other)
    if not judged(cells):
        return inconclusive_text(cells, base, other)
    parts = headline_parts(comparison)
    if not parts:
        return _all_same(cells, base, other)
    return _sentence(parts, base, other)


def headline_parts(comparison: Comparison) -> list[Part]:
    """Select the parts of the headline: the strongest, the strongest in the other direction, and
    more of them as long as they fit. Empty without a change."""
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    parts = [part for part in parts_of(rates(comparison)) if changed(part.cells)]
    # Parts with changes in both directions only where there are no others.
    clear = [part for part in parts if part.direction]
    ordered = sorted(clear or parts, key=lambda part: -part.weight)
    chosen = ordered[:1]
    chosen += [part for part in ordered if part.direction is not ordered[0].direction][:1]
    for part in ordered:
        if part not in chosen and _fits(_sentence([*chosen, part], base, other), base, other):
            chosen.append(part)
    return chosen


def _fits(sentence: str, base: str, other: str) -> bool:
    return len(sentence) - len(base) - len(other) + 2 * _NAME <= _LONGEST


def _sentence(parts: Sequence[Part], base: str, other: str) -> str:
    """`new vs old: writes 50.0 % fewer IOPS (worse in 1 of 1 cell) but reads ...`"""
    first = parts[0].direction
    along = [part for part in parts if part.direction is first]
    against = [part for part in parts if part.direction is not first]
    directions = [listed(map(_part_text, group)) for group in (along, against) if group]
    lone = all(
        one.judgement.evidence in (Evidence.ONE_NUMBER, Evidence.WITHIN_RUN)
        for part in parts
        for one in changed(part.cells)
    )
    basis = "; single trials" if lone else ""
    return f"{other} vs {base}: {' but '.join(directions)}{basis}."


def _part_text(part: Part) -> str:
    """`writes 13.7 to 26.9 % fewer IOPS in small blocks (worse in 6 of 7 cells)`."""
    return f"{part.text} ({_counts(part.cells)})"


def _counts(cells: Sequence[ComparedCell]) -> str:
    """`worse in 6 of 7 cells`; inconclusive cells are reported elsewhere."""
    counts = {verdict: sum(one.verdict is verdict for one in judged(cells)) for verdict in _TESTED}
    found = listed(f"{verdict.value} in {count:,}" for verdict, count in counts.items() if count)
    return f"{found} of {count_text(len(cells), 'cell')}"


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


def inconclusive_text(cells: Sequence[ComparedCell], base: str, other: str) -> str:
    """Word a comparison whose cells are all inconclusive or not comparable."""
    if all(one.verdict is Verdict.NOT_COMPARABLE for one in cells):
        return (
            f"No verdict on {other} vs {base}: none of {count_text(len(cells), 'cell')} is "
            f"comparable ({listed(leading_reasons(cells), 3)})."
        )
    return (
        f"No significant difference between {base} and {other} in "
        f"{count_text(len(cells), 'cell')}{_more_repeats(cells)}."
    )


def leading_reasons(cells: Iterable[ComparedCell]) -> list[str]:
    """Word the first reason of each cell, the most frequent first."""
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
    """Word the key finding of a comparison without rates, by its first metric."""
    metric = next(iter(dict.fromkeys(one.metric for one in comparison.cells)))
    cells = [one for one in comparison.cells if one.metric is metric]
    if not judged(cells):
        return inconclusive_text(cells, base, other)
    if not changed(cells):
        return _all_same(cells, base, other)
    changes = listed(
        f"of {OP_NOUNS[op]} is {span_text(ratios(changed(group)), 'lower', 'higher')} "
        f"({_counts(group)})"
        for op, group in by_op(cells)
        if changed(group)
    )
    return f"{other} vs {base}: {latency_name(metric)} latency {changes}."


def latency_name(metric: Metric) -> str:
    """`p99.9`, `mean`."""
    name = {Metric.LATENCY_MEAN: "mean"}.get(metric, metric.value.removeprefix("latency_"))
    return {"p999": "p99.9", "p9999": "p99.99"}.get(name, name)


MOST_TAKEAWAYS = 7
_WORKLOADS_SHOWN = 4
_WINS_SHOWN = 3


def summary(comparison: Comparison) -> tuple[str, ...]:
    """Return the key finding, then the takeaways."""
    return (key_finding(comparison), *takeaways(comparison))


def takeaways(comparison: Comparison) -> tuple[str, ...]:
    """Return at most seven sentences that add to the headline. Inconclusive cells, and the weight
    of verdicts without repeats, are always among them."""
    cells = rates(comparison)
    first = [
        *_balance(comparison, cells),
        *(_by_workload(cells, headline_parts(comparison)) if judged(cells) else ()),
        *_percentile(comparison, Metric.LATENCY_P99),
        *_explanation(comparison),
    ]
    last = [
        *_false_positives(cells or comparison.cells),
        *open_questions(comparison),
        *remaining(comparison, cells),
    ]
    capacity = MOST_TAKEAWAYS - len(last)
    extra = _extremes(cells)
    if len(first) + len(extra) <= capacity:
        first[1:1] = extra
    return (*first[:capacity], *last)


def _balance(comparison: Comparison, cells: Sequence[ComparedCell]) -> list[str]:
    """Count the wins of each system, and name the evidence of the verdicts."""
    conclusive = judged(cells)
    if not conclusive:
        return []
    basis = _basis(conclusive)
    if len(conclusive) < 2:
        return [f"Tested with {basis}."]
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    won = [one for one in conclusive if one.verdict is Verdict.BETTER]
    lost = [one for one in conclusive if one.verdict is Verdict.WORSE]
    ties = len(conclusive) - len(won) - len(lost)
    bands = sorted({one.judgement.band for one in conclusive if one.verdict is Verdict.SAME})
    ends = dict.fromkeys(band_text(band) for band in (*bands[:1], *bands[-1:]))
    counts = f"{base} is ahead in {len(lost):,} and {other} in {len(won):,}"
    if ties == len(conclusive):
        counts = "all are ties"
    elif ties:
        counts += f"; {ties:,} {'is a tie' if ties == 1 else 'are ties'}"
    within = f" within {' to '.join(ends)}" if ties else ""
    text = f"Of {count_text(len(conclusive), 'rate')} tested with {basis}, {counts}{within}."
    for name, wins in ((base, lost), (other, won)):
        if 0 < len(wins) <= _WINS_SHOWN:
            text += f" {name} is ahead in {listed(_with_change(one) for one in wins)}."
    return [text]


def _basis(cells: Sequence[ComparedCell]) -> str:
    """Word the evidence of verdicts: `3 trials per system`."""
    by: dict[Evidence, list[ComparedCell]] = {evidence: [] for evidence in Evidence}
    for one in cells:
        by[one.judgement.evidence].append(one)
    parts = []
    counts = [trials_of(one) for one in (*by[Evidence.TRIALS], *by[Evidence.FEW_TRIALS])]
    if counts:
        ends = dict.fromkeys((f"{min(counts):,}", f"{max(counts):,}"))
        parts.append(f"{' to '.join(ends)} {'trial' if max(counts) == 1 else 'trials'} per system")
    if by[Evidence.WITHIN_RUN]:
        parts.append("the seconds of one trial per system")
    if by[Evidence.ONE_NUMBER]:
        parts.append("one number per system")
    return listed(parts) or "no evidence"


def _false_positives(cells: Sequence[ComparedCell]) -> list[str]:
    """Word the expected false positives of single numbers."""
    conclusive = [one for one in judged(cells) if one.judgement.evidence is Evidence.ONE_NUMBER]
    if not conclusive:
        return []
    bands = [one.judgement.band for one in conclusive]
    chance = false_positive_rate(min(bands))
    expected = round(sum(map(false_positive_rate, bands)))
    text = (
        f"Without any real change, a margin of {band_text(min(bands))} alone flags about "
        f"{expected:,} of {count_text(len(conclusive), 'rate')} ({chance * 100:.0f} %, with the "
        f"scatter of 180 published groups of runs); here it flags {len(changed(conclusive)):,}."
    )
    return [text]


def _with_change(cell: ComparedCell) -> str:
    assert cell.judgement.ratio is not None
    return f"{where(cell)} ({change_text(cell.judgement.ratio)})"


def _extremes(cells: Sequence[ComparedCell]) -> list[str]:
    """Word the largest loss and the largest gain."""
    extremes = []
    for word, verdict, pick in (
        ("loss", Verdict.WORSE, min),
        ("gain", Verdict.BETTER, max),
    ):
        found = [one for one in judged(cells) if one.verdict is verdict]
        if not found:
            continue
        most = pick(found, key=lambda one: one.judgement.ratio or 1.0)
        extremes.append(f"largest {word} {_with_change(most)}, {_both(most)}")
    return [f"{_capital('; '.join(extremes))}."] if extremes else []


def _both(cell: ComparedCell) -> str:
    values = [one.value if one else None for one in (cell.baseline, cell.candidate)]
    return " to ".join(value_with_unit(cell.metric, one) for one in values if one is not None)


def _by_workload(cells: Sequence[ComparedCell], headline: Sequence[Part]) -> list[str]:
    """Word the changes by operation and workload, without those of the headline."""
    known = {(part.op, part.workloads[0]) for part in headline if len(part.workloads) == 1}
    texts = []
    for op, group in by_op(cells):
        every = dict.fromkeys(one.workload for one in group)
        names = [name for name in every if (op, name) not in known]
        parts = [
            _of_group(short(name), [one for one in group if one.workload == name])
            for name in names[:_WORKLOADS_SHOWN]
        ]
        more = len(names) - _WORKLOADS_SHOWN
        rest = f"; {count_text(more, 'more workload')} in the table" if more > 0 else ""
        if parts:
            texts.append(f"{OP_NOUNS[op].capitalize()}: {'; '.join(parts)}{rest}.")
    return texts


def _of_group(name: str, cells: Sequence[ComparedCell]) -> str:
    conclusive = judged(cells)
    if not conclusive:
        return f"{name} inconclusive ({counts_text(cells)})"
    return f"{name} {span_text(ratios(conclusive), *words_of(conclusive))} ({counts_text(cells)})"


def _percentile(comparison: Comparison, metric: Metric) -> list[str]:
    """Word the tail latency by operation."""
    cells = [one for one in comparison.cells if one.metric is metric]
    if not cells or not judged(cells):
        return []
    return [f"{_latency(metric, cells)}."]


def _latency(metric: Metric, cells: Sequence[ComparedCell]) -> str:
    parts = []
    for op, group in by_op(cells):
        conclusive = judged(group)
        what = (
            f"is {span_text(ratios(conclusive), 'lower', 'higher')}"
            if conclusive
            else "is inconclusive"
        )
        parts.append(f"of {OP_NOUNS[op]} {what} ({counts_text(group)})")
    return f"{latency_name(metric)} latency {', '.join(parts)}"


def founded(explanation: Explanation) -> bool:
    """Return whether it cites a difference or compares with an expected change."""
    return bool(explanation.paths) or explanation.closes is not None


def _explanation(comparison: Comparison) -> list[str]:
    """Word the best founded explanation, and count the changed rates that distance explains."""
    rows = {index for index, one in enumerate(comparison.cells) if one.rate and changed([one])}
    found = [one for one in comparison.explanations if founded(one) and rows & set(one.cells)]
    if not found:
        return []
    best = max(found, key=lambda one: one.closes is True)
    closed = {index for one in found if one.closes for index in one.cells} & rows
    text = explanation_text(best, short)
    if best.closes and len(closed) > len(rows & set(best.cells)):
        text += f" Network distance explains {len(closed):,} of {len(rows):,} changed rates."
    return [text]


def open_questions(comparison: Comparison) -> list[str]:
    """Word the questions that these measurements leave open."""
    cells = rates(comparison) or list(comparison.cells)
    parts = []
    open_ = [one for one in cells if one.verdict is Verdict.INCONCLUSIVE]
    if open_ and judged(cells):
        parts.append(
            f"{len(open_):,} of {count_text(len(cells), 'rate')} inconclusive{needed(open_)}"
        )
    parts += missing(comparison)
    refused = [one for one in cells if one.verdict is Verdict.NOT_COMPARABLE and not absent(one)]
    if refused and judged(cells):
        names = listed((where(one) for one in refused), 3)
        why = listed(leading_reasons(refused), 3)
        parts.append(f"not comparable {names} ({why})")
    for name, alone in (
        (comparison.baseline.name, comparison.baseline_alone),
        (comparison.candidate.name, comparison.candidate_alone),
    ):
        if alone and comparison.cells:
            parts.append(f"only on {short(name)}: {listed((short(one) for one in alone), 3)}")
    return [f"Open questions: {'; '.join(parts)}."] if parts else []


def needed(cells: Sequence[ComparedCell]) -> str:
    """Word the number of trials that would probably resolve inconclusive cells."""
    wanted = [(one.judgement.trials_needed, trials_of(one)) for one in cells]
    known = [(count, now) for count, now in wanted if count is not None]
    if not known:
        single = cells and all(trials_of(one) <= 1 for one in cells)
        return "; six trials per system give intervals" if single else ""
    asked = sorted(count for count, _ in known)
    present = sorted(now for _, now in known)
    ends = dict.fromkeys((f"{asked[0]:,}", f"{asked[-1]:,}"))
    now = dict.fromkeys((f"{present[0]:,}", f"{present[-1]:,}"))
    which = f"{len(known):,} of them"
    if len(known) == len(cells):
        which = "it" if len(cells) == 1 else "them"
    return (
        f"; about {' to '.join(ends)} trials per system ({' to '.join(now)} now) would "
        f"probably resolve {which}"
    )


def missing(comparison: Comparison) -> list[str]:
    """List the cells without a number, by system."""
    cells = rates(comparison) or list(comparison.cells)
    lacking: dict[tuple[bool, bool], dict[str, None]] = {}
    for one in cells:
        lacks = tuple(
            figure is None or figure.value is None for figure in (one.baseline, one.candidate)
        )
        name = place(short(one.target), short(one.workload), one.level)
        lacking.setdefault((lacks[0], lacks[1]), {})[name] = None
    sides = (
        ((True, True), "both systems"),
        ((True, False), short(comparison.baseline.name)),
        ((False, True), short(comparison.candidate.name)),
    )
    return [
        f"missing on {side}: {listed(lacking[key], 3)}" for key, side in sides if key in lacking
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- the bottom line ----------------------------------------------------------------------------


def bottom_line(comparison: Comparison) -> tuple[str, ...]:
    """Return one to three sentences for a decision."""
    cells = rates(comparison)
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    if not judged(cells):
        open_ = [one for one in cells if one.verdict is Verdict.INCONCLUSIVE]
        return (f"These numbers give no reason to prefer {base} or {other}{needed(open_)}.",)
    parts = parts_of(cells)
    texts = []
    for name, against, verdict in ((base, other, Verdict.WORSE), (other, base, Verdict.BETTER)):
        ahead = [part for part in parts if _leader(part.cells) == verdict]
        if ahead:
            what = listed(f"{part.noun} ({_part_count(part, verdict)})" for part in ahead)
            texts.append(f"{name} is faster than {against} for {what}.")
    neither = [part for part in parts if _leader(part.cells) is None]
    if neither:
        what = listed(f"{part.noun} ({_tally(part, base, other)})" for part in neither)
        texts.append(f"Neither is ahead in at least half of the cells for {what}.")
    protection = [one for one in comparison.differences if one.topic is Topic.REDUNDANCY]
    if protection:
        what = listed(
            (_difference(one.target, one.path, one.baseline, one.candidate) for one in protection),
            2,
        )
        texts.append(f"Data protection differs: {what}.")
    elif {one.judgement.evidence for one in judged(cells)} == {Evidence.ONE_NUMBER}:
        texts.append("Six trials per cell show which differences are repeatable.")
    return tuple(texts)


def _difference(target: str, path: str, ours: str, theirs: str) -> str:
    what = path.rpartition(".")[2].replace("_", " ")
    name = f"{short(target)} " if target else ""
    return f"{name}{what} {theirs} instead of {ours}"


def _leader(cells: Sequence[ComparedCell]) -> Verdict | None:
    """Return the verdict of all changed cells, if at least half of the cells have it."""
    found = {one.verdict for one in changed(cells)}
    if len(found) != 1:
        return None
    verdict = found.pop()
    return verdict if sum(one.verdict is verdict for one in cells) * 2 >= len(cells) else None


def _part_count(part: Part, verdict: Verdict) -> str:
    count = sum(one.verdict is verdict for one in part.cells)
    undecided = sum(one.verdict is Verdict.INCONCLUSIVE for one in part.cells)
    rest = f"; {undecided:,} inconclusive" if undecided else ""
    return f"in {count:,} of {count_text(len(part.cells), 'cell')}{rest}"


def _tally(part: Part, base: str, other: str) -> str:
    """`old in 2 and new in 3 of 14 cells`."""
    conclusive = judged(part.cells)
    of = f"of {count_text(len(part.cells), 'cell')}"
    slower = sum(one.verdict is Verdict.WORSE for one in conclusive)
    faster = sum(one.verdict is Verdict.BETTER for one in conclusive)
    if not conclusive:
        return f"none {of} is conclusive"
    if not slower and not faster:
        return f"the same within the margin in {len(conclusive):,} {of}"
    counts = [f"{count:,}" if count else "none" for count in (slower, faster)]
    return f"{base} in {counts[0]} and {other} in {counts[1]} {of}"
