"""A comparison's cells in the parts of which one thing is said: an operation, or its small or its
large blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.verdicts import Verdict
from leadline.metrics import Op
from leadline.report.change_words import OP_NOUNS, judged, ratios, span_text, words_of

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
