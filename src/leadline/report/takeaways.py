"""What a comparison says in sentences, each with its numbers, from exactly the cells that have a
verdict; what cannot be told is said as such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.inventory.differences import Topic
from leadline.metrics import Metric, Op
from leadline.report.changes import (
    OP_NOUNS,
    absent,
    band_text,
    change_text,
    counts_text,
    judged,
    ratios,
    reason_text,
    short,
    span_text,
    where,
    words_of,
)
from leadline.report.wording import count_text, listed, place, value_with_unit, visible

MOST_TAKEAWAYS = 6
_OPS = (Op.WRITE, Op.READ, Op.TRIM, Op.TOTAL)
_WORKLOADS_TOLD = 4
_WINS_TOLD = 3


def summary(comparison: Comparison) -> tuple[str, ...]:
    """The key finding, then the takeaways."""
    return (key_finding(comparison), *takeaways(comparison))


def rates(comparison: Comparison) -> list[ComparedCell]:
    """The cells of the metrics by which people name a workload's speed."""
    return [one for one in comparison.cells if one.rate]


def key_finding(comparison: Comparison) -> str:
    """One sentence with its numbers for somebody who knows nothing of the two."""
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    cells = rates(comparison)
    if not any(one.baseline_cell and one.candidate_cell for one in comparison.cells):
        return _nothing_in_common(comparison, base, other)
    if not cells:
        return _of_latency(comparison, base, other)
    if not judged(cells):
        return _nothing_judged(cells, base, other)
    parts = parts_of(cells)
    clear = [part for part in parts if _clear(part.cells)] or parts
    said = listed(_of_part(part) for part in clear)
    # What goes both ways has its range in a takeaway; here it must not be passed over.
    rest = listed(_direction(part) for part in parts if part not in clear)
    return f"Against {base}, {other} {said}{f'; {rest}' if rest else ''}{_grounds(judged(cells))}."


def by_op(cells: Sequence[ComparedCell]) -> list[tuple[Op, list[ComparedCell]]]:
    """Cells of each operation, writes first; reads and writes are never put together."""
    groups = [(op, [one for one in cells if one.op is op]) for op in _OPS]
    return [(op, group) for op, group in groups if group]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Cells of which one thing is said: those of an operation, or of its small or large blocks."""

    op: Op
    blocks: str
    cells: list[ComparedCell]

    @property
    def noun(self) -> str:
        return f"{OP_NOUNS[self.op]}{f' of {self.blocks}' if self.blocks else ''}"


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


def _of_part(part: Part) -> str:
    """`writes 13.7 to 26.9 % fewer IOPS (worse in 6 of 6 cells)`."""
    told = judged(part.cells)
    verb = {Op.TOTAL: "does mixed reads and writes"}.get(part.op, OP_NOUNS[part.op])
    if not told:
        return f"is undecided for {part.noun} ({counts_text(part.cells)})"
    size = f" in {part.blocks}" if part.blocks else ""
    what = span_text(ratios(told), *words_of(told))
    return f"{verb} {what}{size} ({counts_text(part.cells)})"


def _grounds(cells: Sequence[ComparedCell]) -> str:
    """What the verdicts rest on."""
    found = {one.judgement.evidence for one in cells}
    parts = []
    if found & {Evidence.TRIALS, Evidence.FEW_TRIALS}:
        counts = [
            trials_of(one)
            for one in cells
            if one.judgement.evidence in (Evidence.TRIALS, Evidence.FEW_TRIALS)
        ]
        ends = dict.fromkeys((f"{min(counts):,}", f"{max(counts):,}"))
        noun = "trial" if max(counts) == 1 else "trials"
        parts.append(f"{' to '.join(ends)} {noun} a side")
    if Evidence.WITHIN_RUN in found:
        parts.append("one trial a side, judged by its own seconds")
    if Evidence.ONE_NUMBER in found:
        parts.append("single trials, no run-to-run uncertainty")
    return f"; {listed(parts)}" if parts else ""


def trials_of(cell: ComparedCell) -> int:
    """Trials with a value on the side that has fewer."""
    counts = [
        sum(one.value is not None for one in figure.trials) if figure else 0
        for figure in (cell.baseline, cell.candidate)
    ]
    return min(counts)


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
    """A comparison of chosen metrics, none of them a rate."""
    metrics = list(dict.fromkeys(one.metric for one in comparison.cells))
    cells = [one for one in comparison.cells if one.metric is metrics[0]]
    if not judged(cells):
        return _nothing_judged(cells, base, other)
    told = _latency(metrics[0], cells)
    return f"On {other}, against {base}, {told}{_grounds(judged(cells))}."


def _nothing_judged(cells: Sequence[ComparedCell], base: str, other: str) -> str:
    open_ = [one for one in cells if one.verdict is Verdict.INCONCLUSIVE]
    if not open_:
        codes = listed(_reasons(cells), 3)
        return (
            f"No verdict on {other} against {base}: none of {count_text(len(cells), 'cell')} can "
            f"be compared ({codes})."
        )
    return (
        f"Whether {other} is faster or slower than {base} cannot be told: "
        f"{counts_text(cells)}{_needed(open_)}."
    )


def _reasons(cells: Iterable[ComparedCell]) -> list[str]:
    """The first reason of each cell in words, the most frequent first."""
    counts: dict[str, int] = {}
    for cell in cells:
        for code in cell.judgement.reasons[:1]:
            counts[code] = counts.get(code, 0) + 1
    return [reason_text(code) for code in sorted(counts, key=lambda code: -counts[code])]


def _needed(cells: Sequence[ComparedCell]) -> str:
    """How many trials a side would probably decide open cells."""
    wanted = [(one.judgement.trials_needed, trials_of(one)) for one in cells]
    known = [(needed, now) for needed, now in wanted if needed is not None]
    if not known:
        single = all(trials_of(one) <= 1 for one in cells)
        return "; with six trials a side there would be intervals" if single else ""
    ends = dict.fromkeys((f"{min(known)[0]:,}", f"{max(known)[0]:,}"))
    now = dict.fromkeys((f"{min(n for _, n in known):,}", f"{max(n for _, n in known):,}"))
    which = f"{len(known):,} of them"
    if len(known) == len(cells):
        which = "it" if len(cells) == 1 else "them"
    return (
        f"; about {' to '.join(ends)} trials a side ({' to '.join(now)} now) would probably "
        f"decide {which}"
    )


# --- takeaways ----------------------------------------------------------------------------------


def takeaways(comparison: Comparison) -> tuple[str, ...]:
    """At most six sentences; what cannot be told is always among them."""
    cells = rates(comparison)
    first = [
        *_winners(comparison, cells),
        *_by_workload(cells),
        *_percentile(comparison, Metric.LATENCY_P99),
        *_why(comparison),
    ]
    last = open_questions(comparison)
    room = MOST_TAKEAWAYS - len(last)
    extra = _extremes(cells)
    if len(first) + len(extra) <= room:
        first[1:1] = extra
    return (*first[:room], *last)


def _winners(comparison: Comparison, cells: Sequence[ComparedCell]) -> list[str]:
    told = judged(cells)
    if len(told) < 2:
        return []
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
    text = f"Of {count_text(len(told), 'rate')} judged, {counts}{within}."
    for name, wins in ((base, lost), (other, won)):
        if 0 < len(wins) <= _WINS_TOLD:
            text += f" {name} is ahead in {listed(_with_change(one) for one in wins)}."
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


def _by_workload(cells: Sequence[ComparedCell]) -> list[str]:
    """For each operation what its workloads say, where there are several."""
    said = []
    for op, group in by_op(cells):
        names = list(dict.fromkeys(one.workload for one in group))
        if len(names) < 2:
            continue
        parts = [
            _of_group(short(name), [one for one in group if one.workload == name])
            for name in names[:_WORKLOADS_TOLD]
        ]
        more = len(names) - _WORKLOADS_TOLD
        rest = f"; {count_text(more, 'more workload')} in the table" if more > 0 else ""
        said.append(f"{OP_NOUNS[op].capitalize()} by workload: {'; '.join(parts)}{rest}.")
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
    name = {Metric.LATENCY_MEAN: "mean"}.get(metric, metric.value.removeprefix("latency_"))
    name = {"p999": "p99.9", "p9999": "p99.99"}.get(name, name)
    parts = []
    for op, group in by_op(cells):
        told = judged(group)
        what = f"is {span_text(ratios(told), 'lower', 'higher')}" if told else "cannot be told"
        parts.append(f"of {OP_NOUNS[op]} {what} ({counts_text(group)})")
    return f"{name} latency {', '.join(parts)}"


def _why(comparison: Comparison) -> list[str]:
    """The explanation that concerns most of what was found different; sums that close first."""
    changed = {Verdict.BETTER, Verdict.WORSE}
    found = []
    for one in comparison.explanations:
        touched = [comparison.cells[index] for index in one.cells]
        count = sum(cell.verdict in changed for cell in touched)
        if count:
            found.append((one.closes is True, count, one.text))
    if not found:
        return []
    return [visible(max(found, key=lambda one: one[:2])[2])]


def open_questions(comparison: Comparison) -> list[str]:
    """What these measurements cannot say, in one sentence or two; empty where they say all."""
    cells = rates(comparison) or list(comparison.cells)
    parts = []
    open_ = [one for one in cells if one.verdict is Verdict.INCONCLUSIVE]
    if open_ and judged(cells):
        parts.append(f"{len(open_):,} of {count_text(len(cells), 'rate')} open{_needed(open_)}")
    parts += missing(comparison)
    refused = [one for one in cells if one.verdict is Verdict.NOT_COMPARABLE and not absent(one)]
    if refused:
        names = listed((where(one) for one in refused), 3)
        why = listed(_reasons(refused), 3)
        parts.append(f"not comparable {names} ({why})")
    for name, alone in (
        (comparison.baseline.name, comparison.baseline_alone),
        (comparison.candidate.name, comparison.candidate_alone),
    ):
        if alone and comparison.cells:
            parts.append(f"only on {short(name)}: {listed((short(one) for one in alone), 3)}")
    return [f"What cannot be said: {'; '.join(parts)}."] if parts else []


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
        return (key_finding(comparison),)
    parts = parts_of(cells)
    clauses = [_direction(part) for part in parts]
    said = [f"With {other} instead of {base}, {listed(clauses)}."]
    choice = {
        name: [part.noun for part in parts if _leader(part.cells) == verdict]
        for name, verdict in ((base, Verdict.WORSE), (other, Verdict.BETTER))
    }
    advice = [f"{name} is the faster for {listed(ops)}" for name, ops in choice.items() if ops]
    if advice:
        said.append(f"By these numbers {listed(advice)}.")
    protection = [one for one in comparison.differences if one.topic is Topic.REDUNDANCY]
    if protection:
        what = listed(
            (_difference(one.target, one.path, one.baseline, one.candidate) for one in protection),
            2,
        )
        said.append(f"They do not protect data alike: {what}.")
    elif {one.judgement.evidence for one in judged(cells)} == {Evidence.ONE_NUMBER}:
        said.append(
            "Each cell is one number a side, so that what a repeat would give is not known; six "
            "trials of each would give intervals."
        )
    return tuple(said)


def _difference(target: str, path: str, ours: str, theirs: str) -> str:
    what = path.rpartition(".")[2].replace("_", " ")
    name = f"{short(target)} " if target else ""
    return f"{name}{visible(what)} {visible(theirs)} instead of {visible(ours)}"


def _leader(cells: Sequence[ComparedCell]) -> Verdict | None:
    """The verdict towards which all cells that differ point, if it is that of most cells."""
    found = {one.verdict for one in judged(cells)} - {Verdict.SAME}
    if len(found) != 1:
        return None
    verdict = found.pop()
    return verdict if sum(one.verdict is verdict for one in cells) * 2 > len(cells) else None


def _direction(part: Part) -> str:
    told = judged(part.cells)
    noun, of = part.noun, f"of {count_text(len(part.cells), 'cell')}"
    slower = sum(one.verdict is Verdict.WORSE for one in told)
    faster = sum(one.verdict is Verdict.BETTER for one in told)
    if not told:
        return f"{noun} are not decided (0 {of})"
    if not slower and not faster:
        return f"{noun} are the same within the band (in {len(told):,} {of})"
    if slower and faster:
        return f"{noun} are slower in {slower:,} and faster in {faster:,} {of}"
    word, none, count = ("slower", "faster", slower) if slower else ("faster", "slower", faster)
    return f"{noun} are {word} in {count:,} {of} and {none} in none"
