"""Conditions that a comparison must keep: `write p99 > +20%` fails it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline import errors
from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.selectors import Selector, parse_selector
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.errors import LeadlineError

_LIMIT = re.compile(r"(?P<what>[^<>]+?)\s*(?P<sign>[<>])=?\s*(?P<share>[+-]?\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Fails where the ratio candidate / baseline is above (or below) `ratio`. `text` as written."""

    text: str
    selector: Selector
    above: bool
    ratio: float


class Outcome(StrEnum):
    """`exceeded` and `kept` are certain within the interval; `undecided` is not."""

    KEPT = "kept"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitResult:
    """What a limit says of one compared cell."""

    limit: Limit
    cell: ComparedCell
    outcome: Outcome


def parse_limit(text: str) -> Limit:
    """`[WORKLOAD[@LEVEL]] [OP] METRIC >|< [+|-]PERCENT%`. Raises LeadlineError (`usage`)."""
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        raise LeadlineError(
            errors.USAGE,
            f"{text!r} is not a limit",
            hint="write a metric, > or <, and a change: 'write p99 > +20%', 'iops < -10%'",
        )
    return Limit(
        text=text.strip(),
        selector=parse_selector(found["what"]),
        above=found["sign"] == ">",
        ratio=1 + float(found["share"]) / 100,
    )


def check_limits(comparison: Comparison, limits: Sequence[Limit]) -> tuple[LimitResult, ...]:
    """Every limit on every cell that it is about. A limit about no cell raises LeadlineError
    (`usage`): a gate that looks at nothing would always be open."""
    results = []
    for limit in limits:
        about = [
            cell
            for cell in comparison.cells
            if limit.selector.matches(cell.workload, cell.level, cell.op, cell.metric)
        ]
        if not about:
            known = dict.fromkeys(
                f"{cell.workload}{'@' + cell.level if cell.level else ''} "
                f"{cell.op.value + ' ' if cell.op else ''}{cell.metric.value}"
                for cell in comparison.cells
            )
            raise LeadlineError(
                errors.USAGE,
                f"{limit.text!r} is about no cell of this comparison",
                context=[f"such as: {', '.join(list(known)[:6])}"] if known else [],
                hint="a limit names a metric, and a workload or operation that both sides have",
            )
        results += [
            LimitResult(limit=limit, cell=cell, outcome=_outcome(limit, cell)) for cell in about
        ]
    return tuple(results)


def _outcome(limit: Limit, cell: ComparedCell) -> Outcome:
    judged = cell.judgement
    if judged.ratio is None or judged.verdict is Verdict.NOT_COMPARABLE:
        return Outcome.UNDECIDED
    low, high = judged.interval or (judged.ratio, judged.ratio)
    if not limit.above:
        # Below is above, seen in a mirror.
        low, high = -high, -low
    border = limit.ratio if limit.above else -limit.ratio
    ratio = judged.ratio if limit.above else -judged.ratio
    if judged.interval is None and judged.evidence is not Evidence.ONE_NUMBER:
        # One trial without its seconds: that it lies within the limit is no news either.
        return Outcome.UNDECIDED
    if low > border:
        return Outcome.EXCEEDED
    if high <= border:
        return Outcome.KEPT
    # The figures themselves keep the limit, and nothing shows that it is exceeded.
    return Outcome.UNDECIDED if ratio > border else Outcome.KEPT
