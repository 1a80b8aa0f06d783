"""Changes and verdicts as people read them, the same in every table, chart and sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.reasons import Reason
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.metrics import Metric, Op
from leadline.report.wording import NOT_SHOWN, count_text, listed, place, visible

# Verdicts that say something, in the order in which they are counted.
JUDGED = (Verdict.WORSE, Verdict.SAME, Verdict.BETTER)
_COUNTED = (
    *(verdict.value for verdict in JUDGED),
    Verdict.INCONCLUSIVE.value,
    Verdict.NOT_COMPARABLE.value,
    "missing",
)
# From here on a percentage is harder to read than a factor.
_FACTOR_FROM = 10.0
# Beside a factor a smaller change is one, too, from here on; below it would be a fraction.
_DOUBLE = 2.0
# In a sentence a name may take so much room, and no more.
_LONGEST_NAME = 48
EVIDENCE_TEXTS = {
    Evidence.TRIALS: "bootstrap over six or more trials a side",
    Evidence.FEW_TRIALS: "fewer than six trials a side",
    Evidence.WITHIN_RUN: "one trial, by its own seconds",
    Evidence.ONE_NUMBER: "one number a side, by the band alone",
    Evidence.NONE: "nothing to judge by",
}
_CODES = {reason.value for reason in Reason}
OP_NOUNS = {
    Op.WRITE: "writes",
    Op.READ: "reads",
    Op.TRIM: "trims",
    Op.TOTAL: "mixed reads and writes",
}


def short(name: str, most: int = _LONGEST_NAME) -> str:
    """A name for a sentence: harmless, and cut in the middle where it is very long."""
    shown = visible(name)
    if len(shown) <= most:
        return shown
    return f"{shown[: most // 2]}…{shown[-most // 2 + 1 :]}"


def reason_text(code: str) -> str:
    """What a reason says; a finding's code stays one, its page explains it."""
    if code == "workload-differs":
        return "the two did different work"
    return Reason(code).text if code in _CODES else f"refused by the audit for {visible(code)}"


def reason_words(code: str) -> str:
    """A reason in a table's cell: `interval crosses band`; a finding's code stays one."""
    return code.replace("-", " ") if code in _CODES else visible(code)


def percent_text(share: float) -> str:
    """A share as a percentage without its sign: `3.4 %`, `120 %`."""
    percent = abs(share) * 100
    return f"{percent:,.0f} %" if percent >= 99.95 else f"{percent:.1f} %"


def band_text(band: float) -> str:
    """A band as somebody asked for it: `5 %`, `7.5 %`."""
    return f"{band * 100:.3g} %"


def change_text(ratio: float) -> str:
    """A ratio as a change: `-13.7 %`, `+4.0 %`, and `x 12.5` from ten times on."""
    if ratio >= _FACTOR_FROM:
        return f"x {ratio:,.0f}" if ratio >= 100 else f"x {ratio:.1f}"
    text = percent_text(ratio - 1)
    if text == "0.0 %":
        return text
    return ("+" if ratio > 1 else "-") + text


def interval_text(interval: tuple[float, float]) -> str:
    return f"{change_text(interval[0])} to {change_text(interval[1])}"


def span_text(ratios: Iterable[float], less: str, more: str) -> str:
    """From the least to the most as words: `13.7 to 26.9 % slower`, `from 3.0 % slower to 8.1 %
    faster`. Raises ValueError where there is no ratio."""
    ordered = sorted(ratios)
    low, high = ordered[0], ordered[-1]
    if low < 1 < high:
        # `less bandwidth` and `more bandwidth` need to say bandwidth once.
        shared = less.partition(" ")[2]
        first = less.partition(" ")[0] if shared and more.endswith(f" {shared}") else less
        return f"from {_size(low)} {first} to {_size(high)} {more}"
    if low == high == 1:
        return f"0.0 % {more}"
    word = less if low < 1 else more
    near, far = (high, low) if low < 1 else (low, high)
    texts = list(dict.fromkeys((_size(near), _size(far))))
    if len(texts) == 1:
        return f"{texts[0]} {word}"
    first, second = texts
    if second.endswith(" %"):
        first = first.removesuffix(" %")
    elif near >= _DOUBLE:
        # Two scales in one span cannot be held against each other.
        first = f"{near - 1:.1f}" if near < _FACTOR_FROM else first.removesuffix(" times")
    return f"{first} to {second} {word}"


def _size(ratio: float) -> str:
    """How far a ratio is from 1, the direction left to the word behind it."""
    if ratio >= _FACTOR_FROM:
        return f"{ratio - 1:,.0f} times"
    return percent_text(ratio - 1)


def counts_text(cells: Sequence[ComparedCell]) -> str:
    """How many of the cells have which verdict: `worse in 9 and same in 4 of 13 cells`."""
    counts: dict[str, int] = dict.fromkeys(_COUNTED, 0)
    for one in cells:
        counts["missing" if absent(one) else one.verdict.value] += 1
    told = [f"{word} in {count:,}" for word, count in counts.items() if count]
    return f"{listed(told)} of {count_text(len(cells), 'cell')}"


def absent(cell: ComparedCell) -> bool:
    """A side has no number."""
    return any(one is None or one.value is None for one in (cell.baseline, cell.candidate))


def judged(cells: Iterable[ComparedCell]) -> list[ComparedCell]:
    """The cells of which something can be said."""
    return [one for one in cells if one.verdict in JUDGED and one.judgement.ratio is not None]


def ratios(cells: Iterable[ComparedCell]) -> list[float]:
    return [one.judgement.ratio for one in cells if one.judgement.ratio is not None]


def where(cell: ComparedCell) -> str:
    """A compared cell's name for a sentence: target, workload, level and operation."""
    op = cell.op.value if cell.op else ""
    return place(short(cell.target), short(cell.workload), cell.level, op)


def words_of(cells: Iterable[ComparedCell]) -> tuple[str, str]:
    """The words for less and for more of what the cells have in common."""
    metrics = {one.metric for one in cells}
    if all(metric.is_latency for metric in metrics):
        return "lower", "higher"
    if metrics == {Metric.IOPS}:
        return "fewer IOPS", "more IOPS"
    if metrics == {Metric.BANDWIDTH}:
        return "less bandwidth", "more bandwidth"
    return "slower", "faster"


def p_text(p: float | None) -> str:
    if p is None:
        return NOT_SHOWN
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def needed_text(judgement: Judgement) -> str:
    """What would decide an open question; empty where that cannot be told."""
    if judgement.trials_needed is None:
        return ""
    return f"about {judgement.trials_needed:,} trials a side would probably decide"
