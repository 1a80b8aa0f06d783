"""What a comparison says in sentences, each with its numbers, from exactly the cells that have a
verdict; what cannot be told is said as such."""

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
    visible,
    where,
    words_of,
)
from leadline.stats.ratios import Scatter, share_beyond

# A comparison's cells in the parts of which one thing is said: an operation, or its small or its
# large blocks.

_OPS = (Op.WRITE, Op.READ, Op.TRIM, Op.TOTAL)
_CHANGED = (Verdict.WORSE, Verdict.BETTER)


def rates(comparison: Comparison) -> list[ComparedCell]:
    """The cells of the metrics by which people name a workload's speed."""
    return [one for one in comparison.cells if one.rate]


def changed(cells: Iterable[ComparedCell]) -> list[ComparedCell]:
    """The cells that were found different."""
    return [one for one in judged(cells) if one.verdict in _CHANGED]


def trials_of(cell: ComparedCell) -> int:
    """Trials with a value on the side that has fewer."""
    counts = [
        sum(one.value is not None for one in figure.trials) if figure else 0
        for figure in (cell.baseline, cell.candidate)
    ]
    return min(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`blocks` is `small blocks` or `large blocks`, empty for all of the operation."""

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
        """The verdict of all its cells that were found different; None where there is none, or
        both."""
        found = {one.verdict for one in changed(self.cells)}
        return found.pop() if len(found) == 1 else None

    @property
    def weight(self) -> float:
        """How much of it changed, and by how much: the sum of |log ratio|."""
        return math.fsum(abs(math.log(ratio)) for ratio in ratios(changed(self.cells)))

    @property
    def said(self) -> str:
        """`writes 13.7 to 26.9 % fewer IOPS in small blocks`, of the cells found different.
        Raises ValueError where there is none."""
        verb = {Op.TOTAL: "does mixed reads and writes"}.get(self.op, OP_NOUNS[self.op])
        told = changed(self.cells)
        size = f" in {self.blocks}" if self.blocks else ""
        return f"{verb} {span_text(ratios(told), *words_of(told))}{size}"


def by_op(cells: Sequence[ComparedCell]) -> list[tuple[Op, list[ComparedCell]]]:
    """Cells of each operation, writes first; reads and writes are never put together."""
    groups = [(op, [one for one in cells if one.op is op]) for op in _OPS]
    return [(op, group) for op, group in groups if group]


def parts_of(cells: Sequence[ComparedCell]) -> list[Part]:
    """A part for each operation; one for small and one for large blocks where that makes clear
    what is not clear of both together. What is clear comes first."""
    parts = []
    for op, group in by_op(cells):
        small = [one for one in group if not one.streaming]
        large = [one for one in group if one.streaming]
        clearer = small and large and (_clear(small) or _clear(large)) and not _clear(group)
        if clearer:
            parts.append(Part(op=op, blocks="small blocks", cells=small))
            parts.append(Part(op=op, blocks="large blocks", cells=large))
        else:
            parts.append(Part(op=op, blocks="", cells=group))
    return sorted(parts, key=lambda part: not _clear(part.cells))


def _clear(cells: Sequence[ComparedCell]) -> bool:
    """All that have a verdict have the same."""
    return len({one.verdict for one in judged(cells)}) == 1


# What imported figures still say whose queue depth was ignored: they ran one I/O a job.

CODE = "queue-depth-not-reached"
# Both sides had as many in flight, as far as figures of three digits tell.
_ALIKE = 0.1
# In flight for each job: about one, as the rule itself has it.
_ONE = (0.5, 1.5)


def remaining(comparison: Comparison, cells: Sequence[ComparedCell]) -> list[str]:
    """A sentence on the cells that are refused for their queue depth alone, though by their own
    figures both sides had as many I/Os in flight: one of each job. Of imports only; a measurement
    of one's own is better repeated."""
    found: list[ComparedCell] = []
    other: list[ComparedCell] = []
    for one in cells:
        if one.verdict is not Verdict.NOT_COMPARABLE or CODE not in one.judgement.reasons:
            continue
        (found if _only_depth(one) and _alike(comparison, one) else other).append(one)
    sides = (comparison.baseline, comparison.candidate)
    if not found or not all(side.run.plan.imported for side in sides):
        return []
    text = (
        f"In {count_text(len(found), 'cell')} both sides had as many I/Os in flight by their own "
        "figures, one of each job: not what was asked, but alike. Imported with an iodepth of 1, "
        "which is what ran, they can be compared as that"
    )
    if other:
        text += f"; not so {listed((where(one) for one in other), 3)}"
    return [f"{text}."]


def one_of_each_job(in_flight: float | None, jobs: int | None) -> bool:
    """Whether so many I/Os in flight are about one of each job."""
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
    return codes == {CODE}


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
        if one.code == CODE and (one.target, one.workload, one.level) == place:
            return one.evidence.get("in_flight")
    return None


# What a verdict is worth that rests on one number a side and the band.

# Coefficients of variation of 180 groups of three runs on a production Ceph cluster: median, 90th
# percentile and worst (methodology, section 1).
REPEATS = Scatter(median=0.016, ninetieth=REPEATS_DEVIATION, worst=0.36)


def called_by_chance(band: float) -> float:
    """The share of cells in which nothing changed that a band of +-`band` calls changed, one
    number a side, where repeats scatter as published."""
    return share_beyond(1 - band, 1 + band, REPEATS)


# A comparison's headline: its strongest finding in one sentence, with its numbers.

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


MOST_TAKEAWAYS = 7
_WORKLOADS_TOLD = 4
_WINS_TOLD = 3


def summary(comparison: Comparison) -> tuple[str, ...]:
    """The key finding, then the takeaways."""
    return (key_finding(comparison), *takeaways(comparison))


def takeaways(comparison: Comparison) -> tuple[str, ...]:
    """At most seven sentences, none of which the headline says; what cannot be told, and what
    verdicts without repeats are worth, are always among them."""
    cells = rates(comparison)
    first = [
        *_balance(comparison, cells),
        *(_by_workload(cells, headline_parts(comparison)) if judged(cells) else ()),
        *_percentile(comparison, Metric.LATENCY_P99),
        *_why(comparison),
    ]
    last = [
        *_worth(cells or comparison.cells),
        *open_questions(comparison),
        *remaining(comparison, cells),
    ]
    room = MOST_TAKEAWAYS - len(last)
    extra = _extremes(cells)
    if len(first) + len(extra) <= room:
        first[1:1] = extra
    return (*first[:room], *last)


def _balance(comparison: Comparison, cells: Sequence[ComparedCell]) -> list[str]:
    """Who is ahead how often, and what the verdicts rest on."""
    told = judged(cells)
    if not told:
        return []
    basis = _basis(told)
    if len(told) < 2:
        return [f"Judged by {basis}."]
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    won = [one for one in told if one.verdict is Verdict.BETTER]
    lost = [one for one in told if one.verdict is Verdict.WORSE]
    ties = len(told) - len(won) - len(lost)
    bands = sorted({one.judgement.band for one in told if one.verdict is Verdict.SAME})
    ends = dict.fromkeys(band_text(band) for band in (*bands[:1], *bands[-1:]))
    counts = f"{base} is ahead in {len(lost):,} and {other} in {len(won):,}"
    if ties == len(told):
        counts = "all are ties"
    elif ties:
        counts += f"; {ties:,} {'is a tie' if ties == 1 else 'are ties'}"
    within = f" within {' to '.join(ends)}" if ties else ""
    text = f"Of {count_text(len(told), 'rate')} judged by {basis}, {counts}{within}."
    for name, wins in ((base, lost), (other, won)):
        if 0 < len(wins) <= _WINS_TOLD:
            text += f" {name} is ahead in {listed(_with_change(one) for one in wins)}."
    return [text]


def _basis(cells: Sequence[ComparedCell]) -> str:
    """What verdicts rest on: `3 trials a side`."""
    by: dict[Evidence, list[ComparedCell]] = {evidence: [] for evidence in Evidence}
    for one in cells:
        by[one.judgement.evidence].append(one)
    parts = []
    counts = [trials_of(one) for one in (*by[Evidence.TRIALS], *by[Evidence.FEW_TRIALS])]
    if counts:
        ends = dict.fromkeys((f"{min(counts):,}", f"{max(counts):,}"))
        parts.append(f"{' to '.join(ends)} {'trial' if max(counts) == 1 else 'trials'} a side")
    if by[Evidence.WITHIN_RUN]:
        parts.append("the seconds of one trial a side")
    if by[Evidence.ONE_NUMBER]:
        parts.append("one number a side")
    return listed(parts) or "what is known"


def _worth(cells: Sequence[ComparedCell]) -> list[str]:
    """How often a band alone calls a change where nothing changed."""
    told = [one for one in judged(cells) if one.judgement.evidence is Evidence.ONE_NUMBER]
    if not told:
        return []
    bands = [one.judgement.band for one in told]
    chance = called_by_chance(min(bands))
    expected = round(sum(map(called_by_chance, bands)))
    text = (
        f"Had nothing changed, the band of {band_text(min(bands))} alone would still call about "
        f"{expected:,} of {count_text(len(told), 'rate')} changed ({chance * 100:.0f} %, where "
        f"repeats scatter as in 180 published groups of runs); it calls {len(changed(told)):,}."
    )
    return [text]


def _with_change(cell: ComparedCell) -> str:
    assert cell.judgement.ratio is not None
    return f"{where(cell)} ({change_text(cell.judgement.ratio)})"


def _extremes(cells: Sequence[ComparedCell]) -> list[str]:
    """The largest loss and the largest gain, of those that are one."""
    told = []
    for word, verdict, pick in (
        ("loss", Verdict.WORSE, min),
        ("gain", Verdict.BETTER, max),
    ):
        found = [one for one in judged(cells) if one.verdict is verdict]
        if not found:
            continue
        most = pick(found, key=lambda one: one.judgement.ratio or 1.0)
        told.append(f"largest {word} {_with_change(most)}, {_both(most)}")
    return [f"{_capital('; '.join(told))}."] if told else []


def _both(cell: ComparedCell) -> str:
    values = [one.value if one else None for one in (cell.baseline, cell.candidate)]
    return " to ".join(value_with_unit(cell.metric, one) for one in values if one is not None)


def _by_workload(cells: Sequence[ComparedCell], told: Sequence[Part]) -> list[str]:
    """For each operation what its workloads say, without what the headline tells in full."""
    known = {(part.op, part.workloads[0]) for part in told if len(part.workloads) == 1}
    said = []
    for op, group in by_op(cells):
        every = dict.fromkeys(one.workload for one in group)
        names = [name for name in every if (op, name) not in known]
        parts = [
            _of_group(short(name), [one for one in group if one.workload == name])
            for name in names[:_WORKLOADS_TOLD]
        ]
        more = len(names) - _WORKLOADS_TOLD
        rest = f"; {count_text(more, 'more workload')} in the table" if more > 0 else ""
        if parts:
            said.append(f"{OP_NOUNS[op].capitalize()}: {'; '.join(parts)}{rest}.")
    return said


def _of_group(name: str, cells: Sequence[ComparedCell]) -> str:
    told = judged(cells)
    if not told:
        return f"{name} cannot be told ({counts_text(cells)})"
    return f"{name} {span_text(ratios(told), *words_of(told))} ({counts_text(cells)})"


def _percentile(comparison: Comparison, metric: Metric) -> list[str]:
    """Tail latency of each operation apart."""
    cells = [one for one in comparison.cells if one.metric is metric]
    if not cells or not judged(cells):
        return []
    return [f"{_latency(metric, cells)}."]


def _latency(metric: Metric, cells: Sequence[ComparedCell]) -> str:
    parts = []
    for op, group in by_op(cells):
        told = judged(group)
        what = f"is {span_text(ratios(told), 'lower', 'higher')}" if told else "cannot be told"
        parts.append(f"of {OP_NOUNS[op]} {what} ({counts_text(group)})")
    return f"{latency_name(metric)} latency {', '.join(parts)}"


def founded(explanation: Explanation) -> bool:
    """Whether it names a difference, or has arithmetic: not only that nothing is known."""
    return bool(explanation.paths) or explanation.closes is not None


def _why(comparison: Comparison) -> list[str]:
    """The best founded explanation of what was found different, and for how much of it the
    arithmetic closes."""
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
    """What these measurements cannot say, in one sentence or two; empty where they say all."""
    cells = rates(comparison) or list(comparison.cells)
    parts = []
    open_ = [one for one in cells if one.verdict is Verdict.INCONCLUSIVE]
    if open_ and judged(cells):
        parts.append(f"{len(open_):,} of {count_text(len(cells), 'rate')} open{needed(open_)}")
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
    return [f"What cannot be said: {'; '.join(parts)}."] if parts else []


def needed(cells: Sequence[ComparedCell]) -> str:
    """How many trials a side would probably decide open cells."""
    wanted = [(one.judgement.trials_needed, trials_of(one)) for one in cells]
    known = [(count, now) for count, now in wanted if count is not None]
    if not known:
        single = cells and all(trials_of(one) <= 1 for one in cells)
        return "; with six trials a side there would be intervals" if single else ""
    asked = sorted(count for count, _ in known)
    present = sorted(now for _, now in known)
    ends = dict.fromkeys((f"{asked[0]:,}", f"{asked[-1]:,}"))
    now = dict.fromkeys((f"{present[0]:,}", f"{present[-1]:,}"))
    which = f"{len(known):,} of them"
    if len(known) == len(cells):
        which = "it" if len(cells) == 1 else "them"
    return (
        f"; about {' to '.join(ends)} trials a side ({' to '.join(now)} now) would probably "
        f"decide {which}"
    )


def missing(comparison: Comparison) -> list[str]:
    """Cells without a number, by the side that lacks it."""
    cells = rates(comparison) or list(comparison.cells)
    lacking: dict[tuple[bool, bool], dict[str, None]] = {}
    for one in cells:
        lacks = tuple(
            figure is None or figure.value is None for figure in (one.baseline, one.candidate)
        )
        name = place(short(one.target), short(one.workload), one.level)
        lacking.setdefault((lacks[0], lacks[1]), {})[name] = None
    sides = (
        ((True, True), "both sides"),
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
    """One to three sentences for who has to decide."""
    cells = rates(comparison)
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    if not judged(cells):
        open_ = [one for one in cells if one.verdict is Verdict.INCONCLUSIVE]
        return (f"These numbers give no reason to prefer {base} or {other}{needed(open_)}.",)
    parts = parts_of(cells)
    said = []
    for name, against, verdict in ((base, other, Verdict.WORSE), (other, base, Verdict.BETTER)):
        ahead = [part for part in parts if _leader(part.cells) == verdict]
        if ahead:
            what = listed(f"{part.noun} ({_part_count(part, verdict)})" for part in ahead)
            said.append(f"By these numbers {name} is faster than {against} for {what}.")
    neither = [part for part in parts if _leader(part.cells) is None]
    if neither:
        what = listed(f"{part.noun} ({_tally(part, base, other)})" for part in neither)
        said.append(f"Neither is ahead in half of the cells or more for {what}.")
    protection = [one for one in comparison.differences if one.topic is Topic.REDUNDANCY]
    if protection:
        what = listed(
            (_difference(one.target, one.path, one.baseline, one.candidate) for one in protection),
            2,
        )
        said.append(f"They do not protect data alike: {what}.")
    elif {one.judgement.evidence for one in judged(cells)} == {Evidence.ONE_NUMBER}:
        said.append("Six trials of each cell would show which of the differences last.")
    return tuple(said)


def _difference(target: str, path: str, ours: str, theirs: str) -> str:
    what = path.rpartition(".")[2].replace("_", " ")
    name = f"{short(target)} " if target else ""
    return f"{name}{visible(what)} {visible(theirs)} instead of {visible(ours)}"


def _leader(cells: Sequence[ComparedCell]) -> Verdict | None:
    """The verdict towards which all cells that differ point, if at least half of the cells do."""
    found = {one.verdict for one in changed(cells)}
    if len(found) != 1:
        return None
    verdict = found.pop()
    return verdict if sum(one.verdict is verdict for one in cells) * 2 >= len(cells) else None


def _part_count(part: Part, verdict: Verdict) -> str:
    count = sum(one.verdict is verdict for one in part.cells)
    undecided = sum(one.verdict is Verdict.INCONCLUSIVE for one in part.cells)
    rest = f"; {undecided:,} {'is' if undecided == 1 else 'are'} open" if undecided else ""
    return f"in {count:,} of {count_text(len(part.cells), 'cell')}{rest}"


def _tally(part: Part, base: str, other: str) -> str:
    """Who is ahead how often: `old in 2, new in 3 of 14 cells`."""
    told = judged(part.cells)
    of = f"of {count_text(len(part.cells), 'cell')}"
    slower = sum(one.verdict is Verdict.WORSE for one in told)
    faster = sum(one.verdict is Verdict.BETTER for one in told)
    if not told:
        return f"none {of} is decided"
    if not slower and not faster:
        return f"the same within the band in {len(told):,} {of}"
    counts = [f"{count:,}" if count else "none" for count in (slower, faster)]
    return f"{base} in {counts[0]} and {other} in {counts[1]} {of}"
