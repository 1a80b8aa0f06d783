"""The takeaways and the bottom line of a comparison: short sentences with their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.explain.accounts import Account
from leadline.analysis.explain.facts import Explanation, RoundTripEvidence
from leadline.analysis.verdicts import REPEATS_DEVIATION, Evidence, Verdict
from leadline.findings import Severity
from leadline.inventory.diff import Difference, Topic
from leadline.metrics import Metric
from leadline.report.pages.comparison.explanations import capital, explanation_text, range_text
from leadline.report.pages.comparison.headline import (
    CHANGED,
    Part,
    basis_text,
    by_op,
    changed,
    having,
    headline_parts,
    key_finding,
    leading_reasons,
    parts_of,
    rates,
    system_names,
    trials_of,
    trials_of_each,
)
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
    short,
    span_text,
    value_with_unit,
    where,
    words_of,
)
from leadline.stats.outlook import Scatter, share_beyond

# Imported figures whose queue depth was ignored: one I/O per job was in flight.

DEPTH_NOT_REACHED = "queue-depth-not-reached"
# I/Os in flight count as equal up to the precision of three-digit figures.
_ALIKE = 0.1
# I/Os in flight per job that count as one, as in the rule.
_ONE = (0.5, 1.5)


def remaining(comparison: Comparison) -> list[str]:
    """Report imported cells refused only for their queue depth, which ran one I/O per job on both
    systems by their own figures."""
    refused = [
        cell
        for cell in having(rates(comparison), Verdict.NOT_COMPARABLE)
        if DEPTH_NOT_REACHED in cell.judgement.reasons
    ]
    other = [cell for cell in refused if not _only_depth(cell) or not _alike(comparison, cell)]
    sides = (comparison.baseline, comparison.candidate)
    if len(other) == len(refused) or not all(side.run.plan.imported for side in sides):
        return []
    text = (
        f"In {count_text(len(refused) - len(other), 'cell')} both systems had one I/O per job in "
        "flight, instead of the requested depth. Imported with an iodepth of 1 they are comparable"
    )
    if other:
        text += f"; except {listed(map(where, other), 3)}"
    return [f"{text}."]


def one_of_each_job(in_flight: float | None, jobs: int | None) -> bool:
    """Return whether about one I/O per job was in flight."""
    return bool(in_flight and jobs) and _ONE[0] <= (in_flight or 0) / (jobs or 1) <= _ONE[1]


def _only_depth(cell: ComparedCell) -> bool:
    """Return whether the queue depth is the only error of both figures."""
    marks = [
        mark
        for figure in (cell.baseline, cell.candidate)
        if figure
        for mark in figure.finding_marks
    ]
    return {mark.code for mark in marks if mark.severity is Severity.ERROR} == {DEPTH_NOT_REACHED}


def _alike(comparison: Comparison, cell: ComparedCell) -> bool:
    """Return whether both systems had one I/O per job in flight, and equally many."""
    in_flight = []
    for side in (comparison.baseline, comparison.candidate):
        place = (side.targets.get(cell.target), cell.workload, cell.level)
        in_flight += [
            finding.evidence.get("in_flight", 0.0)
            for finding in side.findings
            if finding.code == DEPTH_NOT_REACHED
            and (finding.target, finding.workload, finding.level) == place
        ][:1]
    if len(in_flight) < 2 or not all(one_of_each_job(number, cell.jobs) for number in in_flight):
        return False
    return max(in_flight) <= min(in_flight) * (1 + _ALIKE)


# Coefficients of variation of 180 groups of three runs on a production Ceph cluster: median, 90th
# percentile and worst, standard deviations with n - 1 (methodology, section 3).
REPEATS = Scatter(median=0.02, ninetieth=REPEATS_DEVIATION, worst=0.44)


def false_positive_rate(band: float) -> float:
    """Compute the false positive rate of the equivalence margin for one number per system, with
    the published scatter of repeats."""
    return share_beyond(1 - band, 1 + band, REPEATS)


MOST_TAKEAWAYS = 7
_WORKLOADS_SHOWN = 4
_WINS_SHOWN = 3


def summary(comparison: Comparison) -> tuple[str, ...]:
    """Return the key finding, then the takeaways."""
    return (key_finding(comparison), *takeaways(comparison))


MOST_WORDS = 20


def brief_summary(comparison: Comparison) -> tuple[str, ...]:
    """Return the headline, and what the pictures of a page do not show; each has at most 20
    words."""
    cells = rates(comparison) or comparison.cells
    single = [cell for cell in judged(cells) if cell.judgement.evidence is Evidence.ONE_NUMBER]
    undecided = having(cells, Verdict.INCONCLUSIVE)
    refused = [cell for cell in having(cells, Verdict.NOT_COMPARABLE) if not absent(cell)]
    without = [cell for cell in cells if absent(cell)]
    texts = [headline(comparison), *_accounted(comparison)]
    if single:
        margin = min(cell.judgement.band for cell in single)
        by_chance = round(sum(false_positive_rate(cell.judgement.band) for cell in single))
        texts.append(
            f"Single numbers: {band_text(margin)} margin flags about {by_chance:,} of "
            f"{count_text(len(single), 'rate')} without any change; here {len(changed(single)):,}."
        )
    if undecided and judged(cells):
        of = f"{len(undecided):,} of {count_text(len(cells), 'rate')} inconclusive"
        texts.append(_briefest(f"{of}{needed(undecided)}.", f"{of}."))
    if refused and judged(cells):
        of = f"{len(refused):,} of {count_text(len(cells), 'rate')} not comparable"
        texts.append(_briefest(f"{of}: {listed(leading_reasons(refused), 2)}.", f"{of}."))
    if without:
        of = f"{len(without):,} of {count_text(len(cells), 'rate')} missing"
        texts.append(_briefest(f"{of}: {listed(map(where, without), 2)}.", f"{of}."))
    alike = remaining(comparison)
    texts += [_briefest(*alike, "Depth was ignored alike: import with iodepth 1.")] if alike else []
    return tuple(texts[: MOST_BULLETS + 1])


# With the verification of the archives there are five.
MOST_BULLETS = 4


def _briefest(*texts: str) -> str:
    """Return the first text that is short enough, else the last."""
    return next((text for text in texts if len(text.split()) <= MOST_WORDS), texts[-1])


def headline(comparison: Comparison) -> str:
    """Word the key finding in at most 20 words; tiles have the counts of cells."""
    whole = key_finding(comparison)
    parts = headline_parts(comparison) if rates(comparison) else []
    texts = [whole]
    if parts:
        base, other = system_names(comparison)
        texts += [
            f"{other} vs {base}: {' but '.join(part.brief for part in some)}{basis_text(some)}."
            for some in (parts[:2], parts[:1])
            if len(some) < 2 or some[0].direction is not some[1].direction
        ]
    return _briefest(*texts, whole.partition(" (")[0].rstrip(".") + ".")


def _accounted(comparison: Comparison) -> list[str]:
    """Count the cells that network distance explains."""
    counts = next(
        (
            dict(one.accounts)
            for one in comparison.explanations
            if isinstance(one, RoundTripEvidence)
        ),
        None,
    )
    if counts is None:
        return []
    of = count_text(sum(counts.values()), "tested cell")
    explained, undecided = (
        counts.get(account, 0) for account in (Account.ACCOUNTS_FOR, Account.INCONCLUSIVE)
    )
    rest = f"; {undecided:,} inconclusive" if undecided else ""
    return [f"Network distance accounts for the change in {explained:,} of {of}{rest}."]


def takeaways(comparison: Comparison) -> tuple[str, ...]:
    """Return at most seven sentences that add to the headline. Inconclusive cells, and the weight
    of verdicts without repeats, are always among them."""
    cells = rates(comparison)
    first = [
        *_balance(comparison, judged(cells)),
        *(_by_workload(cells, headline_parts(comparison)) if judged(cells) else ()),
        *_tail_latency(comparison),
        *_explanation(comparison),
    ]
    last = [
        *_false_positives(cells or comparison.cells),
        *open_questions(comparison),
        *remaining(comparison),
    ]
    capacity = MOST_TAKEAWAYS - len(last)
    extra = _extremes(judged(cells))
    if len(first) + len(extra) <= capacity:
        first[1:1] = extra
    return (*first[:capacity], *last)


def _balance(comparison: Comparison, conclusive: Sequence[ComparedCell]) -> list[str]:
    """Count the wins of each system, and name the evidence of the verdicts."""
    if not conclusive:
        return []
    basis = _basis(conclusive)
    if len(conclusive) < 2:
        return [f"Tested with {basis}."]
    base, other = system_names(comparison)
    won, lost, same = (
        having(conclusive, verdict) for verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.SAME)
    )
    counts = f"{base} is ahead in {len(lost):,} and {other} in {len(won):,}"
    if same:
        ties = f"{len(same):,} {'is a tie' if len(same) == 1 else 'are ties'}"
        counts = "all are ties" if len(same) == len(conclusive) else f"{counts}; {ties}"
        bands = [cell.judgement.band for cell in same]
        counts += f" within {range_text(band_text(min(bands)), band_text(max(bands)))}"
    text = f"Of {count_text(len(conclusive), 'rate')} tested with {basis}, {counts}."
    tested = any(cell.judgement.evidence is Evidence.TRIALS for cell in conclusive)
    if tested and comparison.has_several_runs:
        text += (
            f" Each run counts as one value: {len(comparison.baseline.runs)} of {base}, "
            f"{len(comparison.candidate.runs)} of {other}."
        )
    elif tested and comparison.between_runs:
        text += (
            f" The systems are of two runs: intervals include a deviation of "
            f"{band_text(comparison.between_runs)} between runs."
        )
    for name, wins in ((base, lost), (other, won)):
        if 0 < len(wins) <= _WINS_SHOWN:
            text += f" {name} is ahead in {listed(map(_with_change, wins))}."
    return [text]


def _basis(cells: Sequence[ComparedCell]) -> str:
    """Word the evidence of verdicts: `3 trials per system`."""
    evidence = {cell.judgement.evidence for cell in cells}
    counts = [
        number
        for cell in cells
        if cell.judgement.evidence is Evidence.TRIALS
        for number in trials_of_each(cell)
    ]
    parts = []
    if counts:
        noun = "trial" if max(counts) == 1 else "trials"
        parts.append(f"{_count_range(counts)} {noun} per system")
    if Evidence.WITHIN_RUN in evidence:
        parts.append("the seconds of one trial per system")
    if Evidence.ONE_NUMBER in evidence:
        parts.append("one number per system")
    return listed(parts) or "no evidence"


def _count_range(counts: Sequence[int]) -> str:
    return range_text(f"{min(counts):,}", f"{max(counts):,}")


def _false_positives(cells: Sequence[ComparedCell]) -> list[str]:
    """Word the expected false positives of single numbers."""
    single = [cell for cell in judged(cells) if cell.judgement.evidence is Evidence.ONE_NUMBER]
    if not single:
        return []
    bands = [cell.judgement.band for cell in single]
    chance = false_positive_rate(min(bands))
    expected = round(sum(map(false_positive_rate, bands)))
    text = (
        f"Without any real change, a margin of {band_text(min(bands))} alone flags about "
        f"{expected:,} of {count_text(len(single), 'rate')} ({chance * 100:.0f} %, with the "
        f"scatter of 180 published groups of runs); here it flags {len(changed(single)):,}."
    )
    return [text]


def _with_change(cell: ComparedCell) -> str:
    assert cell.judgement.ratio is not None
    return f"{where(cell)} ({change_text(cell.judgement.ratio)})"


def _extremes(conclusive: Sequence[ComparedCell]) -> list[str]:
    """Word the largest loss and the largest gain."""
    extremes = []
    for word, verdict, pick in (("loss", Verdict.WORSE, min), ("gain", Verdict.BETTER, max)):
        found = having(conclusive, verdict)
        if found:
            most = pick(found, key=lambda cell: cell.judgement.ratio or 1.0)
            values = " to ".join(
                value_with_unit(most.metric, figure.value)
                for figure in (most.baseline, most.candidate)
                if figure and figure.value is not None
            )
            extremes.append(f"largest {word} {_with_change(most)}, {values}")
    return [f"{capital('; '.join(extremes))}."] if extremes else []


def _by_workload(cells: Sequence[ComparedCell], headline: Sequence[Part]) -> list[str]:
    """Word the changes by operation and workload, without those of the headline."""
    known = {
        (part.op, part.cells[0].workload)
        for part in headline
        if len({cell.workload for cell in part.cells}) == 1
    }
    texts = []
    for op, group in by_op(cells):
        every = dict.fromkeys(cell.workload for cell in group)
        names = [name for name in every if (op, name) not in known]
        parts = []
        for name in names[:_WORKLOADS_SHOWN]:
            own = [cell for cell in group if cell.workload == name]
            parts.append(f"{short(name)} {_span_text(own, *words_of(judged(own)))}")
        more = len(names) - _WORKLOADS_SHOWN
        rest = f"; {count_text(more, 'more workload')} in the table" if more > 0 else ""
        if parts:
            texts.append(f"{OP_NOUNS[op].capitalize()}: {'; '.join(parts)}{rest}.")
    return texts


def _span_text(cells: Sequence[ComparedCell], less: str, more: str) -> str:
    """`13.7 to 26.9 % fewer IOPS (worse in 6 and same in 1 of 7 cells)`."""
    found = ratios(judged(cells))
    span = span_text(found, less, more) if found else "inconclusive"
    return f"{span} ({counts_text(cells)})"


def _tail_latency(comparison: Comparison) -> list[str]:
    """Word the changes of p99 by operation."""
    cells = [cell for cell in comparison.cells if cell.metric is Metric.LATENCY_P99]
    if not judged(cells):
        return []
    parts = ", ".join(
        f"of {OP_NOUNS[op]} is {_span_text(group, 'lower', 'higher')}" for op, group in by_op(cells)
    )
    return [f"p99 latency {parts}."]


def founded(explanation: Explanation) -> bool:
    """Return whether it cites a difference or compares with an expected change."""
    return bool(explanation.paths) or explanation.closes is not None


def _explanation(comparison: Comparison) -> list[str]:
    """Word the best founded explanation, and count the changed rates that distance explains."""
    rows = {index for index, cell in enumerate(comparison.cells) if cell.rate and changed([cell])}
    found = [
        explanation
        for explanation in comparison.explanations
        if founded(explanation) and rows & set(explanation.cells)
    ]
    if not found:
        return []
    best = max(found, key=lambda candidate: candidate.closes is True)
    closed = {index for candidate in found if candidate.closes for index in candidate.cells} & rows
    text = explanation_text(best, short)
    if best.closes and len(closed) > len(rows & set(best.cells)):
        text += f" Network distance accounts for {len(closed):,} of {len(rows):,} changed rates."
    against = sum(
        found.unchanged for found in comparison.explanations if isinstance(found, RoundTripEvidence)
    )
    if best.closes and against:
        verb = "counts" if against == 1 else "count"
        text += f" {count_text(against, 'unchanged cell')} {verb} against it."
    return [text]


def open_questions(comparison: Comparison) -> list[str]:
    """Word the questions that these measurements leave open."""
    cells = rates(comparison) or comparison.cells
    parts = missing(comparison)
    if judged(cells):
        undecided = having(cells, Verdict.INCONCLUSIVE)
        if undecided:
            count = f"{len(undecided):,} of {count_text(len(cells), 'rate')}"
            parts.insert(0, f"{count} inconclusive{needed(undecided)}")
        refused = [cell for cell in having(cells, Verdict.NOT_COMPARABLE) if not absent(cell)]
        if refused:
            why = listed(leading_reasons(refused), 3)
            parts.append(f"not comparable {listed(map(where, refused), 3)} ({why})")
    alone = (comparison.baseline_alone, comparison.candidate_alone)
    for name, subjects in zip(system_names(comparison), alone, strict=True):
        if subjects and comparison.cells:
            parts.append(f"only on {name}: {listed(map(short, subjects), 3)}")
    return [f"Open questions: {'; '.join(parts)}."] if parts else []


def needed(cells: Sequence[ComparedCell]) -> str:
    """Word the number of trials that would probably resolve inconclusive cells."""
    known = [
        (cell.judgement.trials_needed, trials_of(cell))
        for cell in cells
        if cell.judgement.trials_needed is not None
    ]
    if not known:
        single = cells and all(trials_of(cell) <= 1 for cell in cells)
        return "; three trials per system give intervals" if single else ""
    wanted, present = (_count_range(counts) for counts in zip(*known, strict=True))
    noun, now = "trials", f" ({present} now)"
    if any(cell.judgement.needs_runs for cell in cells):
        noun, now = "runs", ""
    which = f"{len(known):,} of them"
    if len(known) == len(cells):
        which = "it" if len(cells) == 1 else "them"
    return f"; about {wanted} {noun} per system{now} would probably resolve {which}"


def missing(comparison: Comparison) -> list[str]:
    """List the cells without a number, by system."""
    base, other = system_names(comparison)
    sides = {(True, True): "both systems", (True, False): base, (False, True): other}
    lacking: dict[tuple[bool, bool], dict[str, None]] = {side: {} for side in sides}
    for cell in rates(comparison) or comparison.cells:
        lacks, other_lacks = (
            figure is None or figure.value is None for figure in (cell.baseline, cell.candidate)
        )
        name = place(short(cell.target), short(cell.workload), cell.level)
        lacking.setdefault((lacks, other_lacks), {})[name] = None
    return [
        f"missing on {side}: {listed(lacking[key], 3)}"
        for key, side in sides.items()
        if lacking[key]
    ]


# --- the bottom line ----------------------------------------------------------------------------


def bottom_line(comparison: Comparison) -> tuple[str, ...]:
    """Return one to three sentences for a decision."""
    cells = rates(comparison)
    base, other = system_names(comparison)
    if not judged(cells):
        more = needed(having(cells, Verdict.INCONCLUSIVE))
        return (f"These numbers give no reason to prefer {base} or {other}{more}.",)
    parts = parts_of(cells)
    texts = []
    for name, against, verdict in ((base, other, Verdict.WORSE), (other, base, Verdict.BETTER)):
        ahead = [part for part in parts if part.leader is verdict]
        if ahead:
            what = listed(f"{part.noun} ({_part_count(part, verdict)})" for part in ahead)
            texts.append(f"{name} is faster than {against} for {what}.")
    split = [part for part in parts if part.direction is None and changed(part.cells)]
    if split:
        what = listed(f"{part.noun} ({_tally(part, base, other)})" for part in split)
        texts.append(f"Mixed results for {what}.")
    neither = [part for part in parts if part.leader is None and part not in split]
    if neither:
        what = listed(f"{part.noun} ({_tally(part, base, other)})" for part in neither)
        texts.append(f"Neither is ahead in at least half of the cells for {what}.")
    protection = [
        difference for difference in comparison.differences if difference.topic is Topic.REDUNDANCY
    ]
    if protection:
        texts.append(f"Data protection differs: {listed(map(_difference, protection), 2)}.")
    elif {cell.judgement.evidence for cell in judged(cells)} == {Evidence.ONE_NUMBER}:
        texts.append("Three trials per cell show which differences are repeatable.")
    return tuple(texts)


def _difference(difference: Difference) -> str:
    setting = difference.path.rpartition(".")[2].replace("_", " ")
    name = f"{short(difference.target)} " if difference.target else ""
    return f"{name}{setting} {difference.candidate} instead of {difference.baseline}"


def _part_count(part: Part, verdict: Verdict) -> str:
    undecided = len(having(part.cells, Verdict.INCONCLUSIVE))
    rest = f"; {undecided:,} inconclusive" if undecided else ""
    count = len(having(part.cells, verdict))
    return f"in {count:,} of {count_text(len(part.cells), 'cell')}{rest}"


def _tally(part: Part, base: str, other: str) -> str:
    """`old in 2 and new in 3 of 14 cells`."""
    conclusive = judged(part.cells)
    of = f"of {count_text(len(part.cells), 'cell')}"
    if not conclusive:
        return f"none {of} is conclusive"
    if not changed(conclusive):
        return f"the same within the margin in {len(conclusive):,} {of}"
    counts = [len(having(conclusive, verdict)) for verdict in CHANGED]
    slower, faster = (f"{count:,}" if count else "none" for count in counts)
    return f"{base} in {slower} and {other} in {faster} {of}"
