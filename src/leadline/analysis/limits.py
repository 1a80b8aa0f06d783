"""Limits of a comparison's changes, such as `write p99 > +20%`, and which of them are exceeded."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

import numpy as np

from leadline import errors
from leadline.analysis.comparison import ComparedCell
from leadline.analysis.selectors import Selector, parse_selector
from leadline.analysis.verdicts import Evidence, Judgement, Reason, Verdict
from leadline.errors import LeadlineError
from leadline.stats.effects import p_beyond
from leadline.stats.families import LEVEL, holm
from leadline.text import shortened

_LIMIT = re.compile(r"(?P<what>[^<>]+?)\s*(?P<sign>[<>])=?\s*(?P<share>[+-]?\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit of candidate / baseline: at most (or at least) `ratio`. `text` as written; `targets`
    are shell patterns of the names of targets, one of which must match."""

    text: str
    selector: Selector
    above: bool
    ratio: float
    targets: tuple[str, ...] = ("*",)

    def applies(self, cell: ComparedCell) -> bool:
        """Return whether the limit is one of this cell."""
        return self.selector.matches(cell.workload, cell.level, cell.op, cell.metric) and any(
            fnmatchcase(cell.target, pattern) for pattern in self.targets
        )


class Outcome(StrEnum):
    """`exceeded` is significant; `undecided`: the estimate exceeds the limit, or there is none."""

    KEPT = "kept"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitResult:
    """The outcome of a limit on one compared cell."""

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


def check_limits(cells: Sequence[ComparedCell], limits: Sequence[Limit]) -> tuple[LimitResult, ...]:
    """Check every limit on its cells, adjusted by Holm over all of them: where nothing exceeds a
    limit, one of them is wrongly exceeded in at most 5 % of comparisons.

    Raises LeadlineError (`usage`) that names all limits without a cell.
    """
    checked = [(limit, cell) for limit in limits for cell in cells if limit.applies(cell)]
    without = [limit for limit in limits if not any(limit is used for used, _ in checked)]
    if without:
        raise LeadlineError(
            errors.USAGE,
            f"{_listed(without)} no cell of this comparison",
            context=_known_cells(cells),
            hint="a limit names a metric, and a workload or operation of both systems",
        )
    return check_cells(checked)


def check_cells(checked: Sequence[tuple[Limit, ComparedCell]]) -> tuple[LimitResult, ...]:
    """Check these limits on these cells, adjusted by Holm over all of them."""
    chances = [_p_within(limit, cell.judgement) for limit, cell in checked]
    adjusted = iter(holm([p for p in chances if p is not None]))
    return tuple(
        LimitResult(
            limit=limit,
            cell=cell,
            outcome=_outcome(limit, cell.judgement, None if p is None else next(adjusted)),
        )
        for (limit, cell), p in zip(checked, chances, strict=True)
    )


def _listed(limits: Sequence[Limit]) -> str:
    """List limits with the verb: `'write p99 > +20%' matches`."""
    texts = [
        repr(limit.text) + ("" if limit.targets == ("*",) else f" of {', '.join(limit.targets)}")
        for limit in limits
    ]
    return f"{'; '.join(texts)} match{'es' if len(texts) == 1 else ''}"


def _known_cells(cells: Sequence[ComparedCell]) -> list[str]:
    known = dict.fromkeys(
        f"{cell.workload}{'@' + cell.level if cell.level else ''} "
        f"{cell.op.value + ' ' if cell.op else ''}{cell.metric.value}"
        for cell in cells
    )
    targets = dict.fromkeys(cell.target for cell in cells)
    return [f"such as: {shortened(known)}", f"targets: {shortened(targets)}"] if known else []


def _p_within(limit: Limit, judged: Judgement) -> float | None:
    """Compute the one-sided p value of a ratio that does not exceed the limit; None without an
    estimate."""
    if judged.estimate is None or judged.verdict is Verdict.NOT_COMPARABLE:
        return None
    edge = math.log(limit.ratio) if limit.ratio > 0 else -math.inf
    lower, upper = (-math.inf, edge) if limit.above else (edge, math.inf)
    edges = np.array([lower]), np.array([upper])
    return float(p_beyond([judged.estimate], *edges, judged.looks)[0])


def _outcome(limit: Limit, judged: Judgement, p_adjusted: float | None) -> Outcome:
    if judged.ratio is None or judged.verdict is Verdict.NOT_COMPARABLE:
        return Outcome.UNDECIDED
    if Reason.CAPPED_BY_BUDGET in judged.reasons:
        return Outcome.UNDECIDED
    exceeds = judged.ratio > limit.ratio if limit.above else judged.ratio < limit.ratio
    if judged.evidence is Evidence.ONE_NUMBER:
        return Outcome.EXCEEDED if exceeds else Outcome.KEPT
    if p_adjusted is None:
        # One trial without its seconds has no interval.
        return Outcome.UNDECIDED
    if p_adjusted <= LEVEL:
        return Outcome.EXCEEDED
    # Where the trials do not show that the limit is exceeded, the estimates decide.
    return Outcome.UNDECIDED if exceeds else Outcome.KEPT
