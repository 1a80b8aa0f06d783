"""Marks of two runs on one page: `E1b` is a doubt about the baseline, `E1c` about the candidate."""

from __future__ import annotations

from collections.abc import Set

from leadline.analysis.comparison import Comparison, Side
from leadline.findings import Finding, Severity
from leadline.report.change_words import short
from leadline.report.document import FindingList, Mark
from leadline.report.marks import Marks, finding_list


class SideMarks:
    """One set of marks for each side; the same where both are of one run, which says a thing
    once."""

    def __init__(self, comparison: Comparison, of_run: Marks | None = None) -> None:
        """`of_run` are the marks of a page on the run that both sides are of."""
        base, other = comparison.baseline, comparison.candidate
        self.one_run = of_run is not None or base.run.path == other.run.path
        ours, theirs = (_compared(side, comparison) for side in (base, other))
        self._ours = _concerning(base, ours | theirs if self.one_run else ours)
        self._theirs = () if self.one_run else _concerning(other, theirs)
        if of_run is not None:
            self.baseline = self.candidate = of_run
        elif self.one_run:
            self.baseline = self.candidate = Marks(self._ours)
        else:
            self.baseline = Marks(self._ours, suffix="b")
            self.candidate = Marks(self._theirs, suffix="c")
        self._names = (short(base.name), short(other.name))

    @property
    def all(self) -> tuple[Mark, ...]:
        if self.one_run:
            return self.baseline.all
        return (*self.baseline.all, *self.candidate.all)

    def lists(self, *, doubts_only: bool = False) -> tuple[tuple[str, FindingList], ...]:
        """(whose they are, findings) of each side that has any; without those that are context
        (info) if only doubts are asked for."""
        if self.one_run:
            found = [("", self._ours, self.baseline)]
        else:
            found = [
                (self._names[0], self._ours, self.baseline),
                (self._names[1], self._theirs, self.candidate),
            ]
        lists = []
        for name, given, marks in found:
            groups = tuple(
                group
                for group in finding_list(given, marks).groups
                if group.items and not (doubts_only and group.mark.severity is Severity.INFO)
            )
            if groups:
                lists.append((name, FindingList(groups=groups)))
        return tuple(lists)


def _compared(side: Side, comparison: Comparison) -> set[str]:
    """A side's targets that have a partner."""
    alone = {*comparison.baseline_alone, *comparison.candidate_alone}
    return {name for subject, name in side.targets.items() if subject not in alone}


def _concerning(side: Side, wanted: Set[str]) -> tuple[Finding, ...]:
    """The findings that touch what is compared: of its targets, or of the whole run."""
    plan = side.run.plan
    target_of = {trial.id: plan.cells[trial.cell].target for trial in plan.trials}
    return tuple(
        one
        for one in side.findings
        if (one.target or target_of.get(one.trial or "", "")) in ({""} | wanted)
    )
