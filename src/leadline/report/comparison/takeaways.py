"""What a comparison says in sentences, each with its numbers, from exactly the cells that have a
verdict; what cannot be told is said as such."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.comparison import ComparedCell, Comparison, Explanation
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.inventory.differences import Topic
from leadline.metrics import Metric
from leadline.report.change_words import (
    OP_NOUNS,
    absent,
    band_text,
    change_text,
    counts_text,
    judged,
    ratios,
    short,
    span_text,
    where,
    words_of,
)
from leadline.report.comparison.band_alone import called_by_chance
from leadline.report.comparison.headline import (
    headline_parts,
    key_finding,
    latency_name,
    leading_reasons,
)
from leadline.report.comparison.parts import Part, by_op, changed, parts_of, rates, trials_of
from leadline.report.comparison.remaining import remaining
from leadline.report.wording import count_text, listed, place, value_with_unit, visible

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
    text = visible(best.text)
    if best.closes and len(closed) > len(rows & set(best.cells)):
        text += f" In all it closes for {len(closed):,} of {len(rows):,} changed rates."
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
