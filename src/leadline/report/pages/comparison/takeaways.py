"""The takeaways of a comparison: a headline and short sentences with their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.explain.accounts import Account
from leadline.analysis.explain.facts import Explanation, RoundTripEvidence
from leadline.analysis.power import REPEATS
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.findings import Severity
from leadline.inventory.diff import Topic
from leadline.metrics import Metric
from leadline.report.pages.comparison.charts import unstable_text
from leadline.report.pages.comparison.explanations import range_text
from leadline.report.pages.comparison.headline import (
    alike_text,
    basis_text,
    changed,
    having,
    headline_parts,
    key_finding,
    leading_reasons,
    rates,
    system_names,
    trials_of,
)
from leadline.report.words import (
    absent,
    band_text,
    change_text,
    count_text,
    counts_text,
    judged,
    level_name,
    listed,
    place,
    short,
    where,
)
from leadline.stats.outlook import share_beyond

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
    count = count_text(len(refused) - len(other), "cell")
    return [
        f"{count}: both had one I/O per job in flight; comparable if imported with an iodepth of 1."
    ]


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


def false_positive_rate(band: float) -> float:
    """Compute the false positive rate of the equivalence margin for one number per system, with
    the published scatter of repeats."""
    return share_beyond(1 - band, 1 + band, REPEATS)


MOST_WORDS = 20


def brief_summary(comparison: Comparison) -> tuple[str, ...]:
    """Return the headline, and what the pictures of a page do not show; each has at most 20
    words."""
    cells = rates(comparison) or comparison.cells
    single = [cell for cell in judged(cells) if cell.judgement.evidence is Evidence.ONE_NUMBER]
    undecided = having(cells, Verdict.INCONCLUSIVE)
    refused = [cell for cell in having(cells, Verdict.NOT_COMPARABLE) if not absent(cell)]
    without = [cell for cell in cells if absent(cell)]
    texts = [headline(comparison), *_accounted(comparison), *_protection(comparison)]
    if single:
        margin = min(cell.judgement.band for cell in single)
        by_chance = round(sum(false_positive_rate(cell.judgement.band) for cell in single))
        texts.append(
            f"Single numbers: {band_text(margin)} margin flags about {by_chance:,} of "
            f"{count_text(len(single), 'rate')} without any change; here {len(changed(single)):,}."
        )
    if undecided:
        of = f"{len(undecided):,} of {count_text(len(cells), 'rate')} inconclusive"
        texts.append(_briefest(f"{of}{needed(undecided)}.", f"{of}."))
    if refused and judged(cells):
        of = f"{len(refused):,} of {count_text(len(cells), 'rate')} not comparable"
        texts.append(_briefest(f"{of}: {listed(leading_reasons(refused), 2)}.", f"{of}."))
    if without:
        of = f"{len(without):,} of {count_text(len(cells), 'rate')} missing"
        texts.append(_briefest(f"{of}: {listed(map(where, without), 2)}.", f"{of}."))
    alone = (comparison.baseline_alone, comparison.candidate_alone)
    for name, subjects in zip(system_names(comparison), alone, strict=True):
        if subjects:
            texts.append(f"Only on {name}: {listed(map(short, subjects), 3)}.")
    if not comparison.cells:
        texts.append("Name both to compare targets with different names: `--by target`.")
    texts += remaining(comparison) or _remedy(comparison, cells)
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
    along = alike_text(comparison)
    if along and len(parts) < 2:
        texts.insert(0, along)
    return _briefest(*texts, whole.partition(" (")[0].rstrip(".") + ".")


def _remedy(comparison: Comparison, cells: Sequence[ComparedCell]) -> list[str]:
    """Word what to do about the warning or error of most cells; its first sentence."""
    counts = Counter(
        code
        for cell in cells
        for code in sorted(
            {
                mark.code
                for figure in (cell.baseline, cell.candidate)
                if figure
                for mark in figure.finding_marks
                if mark.severity is not Severity.INFO
            }
        )
    )
    for code, count in counts.most_common(1):
        sides = (comparison.baseline, comparison.candidate)
        found = next(one for side in sides for one in side.findings if one.code == code)
        first = found.remedy.partition(". ")[0].rstrip(".")
        of = f"{code} in {count:,} of {count_text(len(cells), 'cell')}"
        return [_briefest(f"{of}: {first[:1].lower()}{first[1:]}.", f"{of}: see Findings.")]
    return []


# What a page says next to the heading of a section.


def explanation_result(comparison: Comparison) -> str:
    """`network distance accounts for 3 of 10 tested changes`."""
    counts = _accounts(comparison)
    if counts is None:
        return ""
    explained = counts.get(Account.ACCOUNTS_FOR, 0)
    return f"network distance accounts for {explained:,} of {sum(counts.values()):,} tested changes"


def latency_result(comparison: Comparison) -> str:
    """`p99 worse in 3 and inconclusive in 9 of 12 cells`."""
    tails = [cell for cell in comparison.cells if cell.metric is Metric.LATENCY_P99]
    return f"p99 {counts_text(tails)}" if tails else ""


def load_result(comparison: Comparison) -> str:
    """`rates change by -76.9 to -50.3 % at qd1, by -30.9 to +5.1 % at qd16`: the first and the last
    level, if all workloads have the same."""
    by_workload: dict[str, dict[str, list[float]]] = {}
    for cell in rates(comparison):
        if cell.judgement.ratio:
            own = by_workload.setdefault(cell.workload, {})
            own.setdefault(cell.level, []).append(cell.judgement.ratio)
    swept = list(dict.fromkeys(map(tuple, by_workload.values())))
    if len(swept) != 1 or len(swept[0]) < 2:
        return ""
    parts = []
    for level in (swept[0][0], swept[0][-1]):
        found = [ratio for own in by_workload.values() for ratio in own[level]]
        ends = dict.fromkeys(map(change_text, (min(found), max(found))))
        parts.append(f"by {' to '.join(ends)} at {level_name(level)}")
    return f"rates change {', '.join(parts)}"


def trials_result(comparison: Comparison) -> str:
    """`8 of 24 results unstable`, of both systems."""
    return unstable_text(
        figure for cell in rates(comparison) for figure in (cell.baseline, cell.candidate)
    )


def differences_result(comparison: Comparison) -> str:
    """`3 differences, 19 settings identical`."""
    counts = (len(comparison.differences), len(comparison.identical))
    if not any(counts):
        return ""
    return f"{count_text(counts[0], 'difference')}, {count_text(counts[1], 'setting')} identical"


def _accounts(comparison: Comparison) -> dict[Account, int] | None:
    """Count the tested cells by result; None where none was tested."""
    return next(
        (
            dict(one.accounts)
            for one in comparison.explanations
            if isinstance(one, RoundTripEvidence)
        ),
        None,
    )


def _accounted(comparison: Comparison) -> list[str]:
    """Count the cells that network distance explains."""
    counts = _accounts(comparison)
    if counts is None:
        return []
    of = count_text(sum(counts.values()), "tested cell")
    explained, undecided = (
        counts.get(account, 0) for account in (Account.ACCOUNTS_FOR, Account.INCONCLUSIVE)
    )
    rest = f"; {undecided:,} inconclusive" if undecided else ""
    against = sum(
        found.unchanged for found in comparison.explanations if isinstance(found, RoundTripEvidence)
    )
    if explained and against:
        verb = "counts" if against == 1 else "count"
        rest += f"; {count_text(against, 'unchanged cell')} {verb} against it"
    return [f"Network distance accounts for the change in {explained:,} of {of}{rest}."]


def _protection(comparison: Comparison) -> list[str]:
    """Name the differences in redundancy: a faster system may protect less."""
    texts = [
        f"{short(found.target)} {found.path.rpartition('.')[2].replace('_', ' ')} "
        f"{found.candidate} instead of {found.baseline}".lstrip()
        for found in comparison.differences
        if found.topic is Topic.REDUNDANCY
    ]
    if not texts:
        return []
    number = count_text(len(texts), "setting")
    return [
        _briefest(
            f"Data protection differs: {listed(texts, 2)}.",
            f"Data protection differs: {texts[0]}.",
            f"Data protection differs in {number}.",
        )
    ]


def founded(explanation: Explanation) -> bool:
    """Return whether it cites a difference or compares with an expected change."""
    return bool(explanation.paths) or explanation.closes is not None


# More repeats than any plan has: such a cell stays open.
_MOST_TRIALS = 100


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
    wanted, present = zip(*known, strict=True)
    noun, now = "trials", f" ({range_text(f'{min(present):,}', f'{max(present):,}')} now)"
    if any(cell.judgement.needs_runs for cell in cells):
        noun, now = "runs", ""
    if min(wanted) > _MOST_TRIALS:
        return f"; more than {_MOST_TRIALS} {noun} per system{now} would be needed"
    most = f"{max(wanted):,}" if max(wanted) <= _MOST_TRIALS else f"more than {_MOST_TRIALS}"
    count = range_text(f"{min(wanted):,}", most)
    which = f"{len(known):,} of them"
    if len(known) == len(cells):
        which = "it" if len(cells) == 1 else "them"
    return f"; about {count} {noun} per system{now} would probably resolve {which}"


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
