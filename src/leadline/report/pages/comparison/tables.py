"""The tables of a comparison: test matrix, findings, round trips, differences, expectations."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from leadline.analysis.comparison import Comparison, Side
from leadline.analysis.expectations import ExpectationTest, check_expectations
from leadline.analysis.explain.accounts import Account, Estimate, Share
from leadline.analysis.explain.facts import RoundTripCost
from leadline.analysis.figures import CellFigure
from leadline.findings import Finding, Severity
from leadline.report.cells import absent, number_column, records_table, section, table, word
from leadline.report.document import (
    Cell,
    Column,
    FindingList,
    Mark,
    Section,
    Table,
)
from leadline.report.marks import Marks, finding_list
from leadline.report.pages.comparison.charts import (
    cell_labels,
    leveled_cells,
)
from leadline.report.pages.comparison.explanations import (
    effect_texts,
    estimate_text,
    explained_text,
    path_text,
    round_trips_text,
)
from leadline.report.pages.comparison.headline import rates, system_names
from leadline.report.pages.run.charts import keep_largest
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    change_text,
    count_text,
    place,
    short,
)

# Marks of two runs on one page: `E1b` is a finding about the baseline, `E1c` about the candidate.


class SideMarks:
    """One set of marks per system, or one for both if they are of one run."""

    def __init__(self, comparison: Comparison, of_run: Marks | None = None) -> None:
        """`of_run` are the marks of the page of the run that has both systems."""
        base, other = comparison.baseline, comparison.candidate
        subjects, others = _compared(base, comparison), _compared(other, comparison)
        self._groups: list[tuple[str, tuple[Finding, ...], Marks]] = []
        if of_run or base.run.path == other.run.path:
            findings = _concerning(base, subjects | others)
            self.baseline = self.candidate = of_run or Marks(findings)
            self._groups.append(("", findings, self.baseline))
            return
        findings, more = _concerning(base, subjects), _concerning(other, others)
        self.baseline, self.candidate = Marks(findings, suffix="b"), Marks(more, suffix="c")
        self._groups.append((short(base.name), findings, self.baseline))
        self._groups.append((short(other.name), more, self.candidate))

    @property
    def all(self) -> tuple[Mark, ...]:
        return tuple(mark for _, _, marks in self._groups for mark in marks.all)

    def lists(self, *, without_info: bool = False) -> tuple[tuple[str, FindingList], ...]:
        """Return (system, findings) for each system with findings, optionally without infos."""
        lists = []
        for name, findings, marks in self._groups:
            groups = tuple(
                group
                for group in finding_list(findings, marks).groups
                if group.items and not (without_info and group.mark.severity is Severity.INFO)
            )
            if groups:
                lists.append((name, FindingList(groups=groups)))
        return tuple(lists)


def _compared(side: Side, comparison: Comparison) -> set[str]:
    """Return the targets that have a partner."""
    alone = {*comparison.baseline_alone, *comparison.candidate_alone}
    return {name for subject, name in side.targets.items() if subject not in alone}


def _concerning(side: Side, wanted: Set[str]) -> tuple[Finding, ...]:
    """Return the findings about the compared targets, or about a whole run."""
    found: list[Finding] = []
    for part in side.parts:
        plan = part.run.plan
        target_of = {trial.id: plan.cells[trial.cell].target for trial in plan.trials}
        found += (
            finding
            for finding in part.findings
            if (finding.target or target_of.get(finding.trial or "", "")) in ({""} | wanted)
        )
    return tuple(found)


_WIDEST_MATRIX = 10


def matrix_table(comparison: Comparison) -> Table:
    """Completed trials of every subject and workload, baseline / candidate."""
    counts: dict[tuple[str, str], list[int]] = {}
    leveled = leveled_cells(comparison.cells)
    for cell in comparison.cells:
        workload = place(cell.workload, cell.level) if leveled else cell.workload
        completed = counts.setdefault((cell.target, workload), [0, 0])
        for system, row in enumerate((cell.baseline_cell, cell.candidate_cell)):
            completed[system] = max(completed[system], row.completed if row else 0)
    targets = dict.fromkeys(target for target, _ in counts)
    workloads = dict.fromkeys(workload for _, workload in counts)
    names = system_names(comparison)
    alone = [
        (subject, f"only on {name}")
        for name, subjects in zip(
            names, (comparison.baseline_alone, comparison.candidate_alone), strict=True
        )
        for subject in subjects
    ]
    columns: list[str | Column]
    rows: list[tuple[str | Cell, ...]]
    if 0 < len(workloads) <= _WIDEST_MATRIX:
        columns = ["target", *(number_column(short(workload)) for workload in workloads)]
        rows = [
            (target, *(_count(counts.get((target, workload))) for workload in workloads))
            for target in targets
        ]
        dashes = [absent()] * (len(workloads) - 1)
        rows += [(subject, Cell(text=text, missing=True), *dashes) for subject, text in alone]
    else:
        columns = ["target", "workload", number_column("trials")]
        rows = [
            (target, workload, _count(counts.get((target, workload))))
            for target in targets
            for workload in workloads
        ]
        rows += [(subject, text, absent()) for subject, text in alone]
    return table(
        "matrix",
        columns,
        rows,
        caption=f"Completed trials, {' / '.join(names)}",
        filterable=len(rows) > 12 or len(columns) == 3,
    )


def _count(completed: Sequence[int] | None) -> Cell:
    base, other = completed or (0, 0)
    if not base and not other:
        return Cell(text=MISSING, note="on neither system", missing=True)
    text = f"{base:,} / {other:,}"
    return Cell(text=text, sort=float(base + other), missing=not (base and other))


# Cells of the table of findings; those with the most findings.
_MOST_FOUND = 40


def findings_table(comparison: Comparison, marks: SideMarks) -> Table | None:
    """Build cells x findings of either system, a sign for each; None without any."""
    cells = rates(comparison) or comparison.cells
    found: list[tuple[dict[str, Mark], ...]] = []
    for cell in cells:
        rows = ((cell.baseline_cell, marks.baseline), (cell.candidate_cell, marks.candidate))
        found.append(tuple(marks_of(row, own) if row else {} for row, own in rows))
    codes = {
        (-one.severity.order, code) for own in found for each in own for code, one in each.items()
    }
    columns = [
        (code, system)
        for _, code in sorted(codes)
        for system in (0, 1)
        if any(code in own[system] for own in found)
    ]
    if not columns:
        return None
    labelled = list(zip(cell_labels(cells), found, strict=True))
    shown = keep_largest(labelled, lambda row: sum(map(len, row[1])), _MOST_FOUND)
    rest = f", the {len(shown)} of {len(found):,} with the most" if len(shown) < len(found) else ""
    names = system_names(comparison)
    titles = (Column(title=code, unit=names[system]) for code, system in columns)
    return table(
        "findings-by-cell",
        ("cell", *titles),
        (
            (label, *(mark_cell(own[system].get(code)) for code, system in columns))
            for label, own in shown
        ),
        caption=f"Findings by cell{rest}",
    )


def marks_of(row: CellFigure, marks: Marks) -> dict[str, Mark]:
    """Return the marks of a row by code, without those of the whole run."""
    return {
        mark.code: mark
        for figure in row.metrics
        for mark in (*marks.for_number(figure.finding_marks), *marks.for_row(figure.finding_marks))
    }


def mark_cell(mark: Mark | None) -> Cell:
    """A cell of a matrix of findings."""
    return Cell(text="", marks=(mark,) if mark else ())


def round_trips_table(comparison: Comparison, *, brief: bool = False) -> Table | None:
    """Build the expected and the measured added latency of each tested cell; None without any.

    `brief`, for a terminal: only the tests with a result, without the I/O path.
    """
    tested = [
        (found.cost, test)
        for found in comparison.explanations
        if isinstance(found, RoundTripCost)
        for test in found.tests
        if not (brief and test.share.account is Account.INCONCLUSIVE)
    ]
    several = len({test.workload for _, test in tested}) > 1

    def name(target: str, workload: str, *rest: str) -> str:
        return place(short(target), short(workload) if several else "", *rest)

    rows = [
        (
            Cell(text=name(test.target, test.workload, test.level, test.op.value)),
            *(() if brief else (path_text(cost), round_trips_text(cost))),
            _estimate(test.expected, brief=brief),
            _estimate(test.measured, brief=brief) if test.measured else absent("no interval"),
            *_explained(test.share, brief=brief),
        )
        for cost, test in tested
    ]
    if not rows:
        return None
    path = [Column(title=title, rank=2) for title in ("I/O path", "round trips of an I/O")]
    columns: list[str | Column] = ["cell", *(() if brief else path)]
    columns += [number_column("expected"), number_column("measured")]
    columns += (
        [number_column("explained"), "network distance"]
        if brief
        else ["share explained by round trips"]
    )
    caption = "" if brief else "Added latency by round trips"
    return table("round-trips", columns, rows, caption=caption, filterable=len(rows) > 12)


def _estimate(estimate: Estimate, *, brief: bool) -> Cell:
    shown = replace(estimate, low=estimate.value, high=estimate.value) if brief else estimate
    return Cell(text=estimate_text(shown), sort=estimate.value)


def _explained(share: Share, *, brief: bool) -> tuple[Cell, ...]:
    texts = (explained_text(share), share.account.value)
    if brief:
        return tuple(Cell(text=text) for text in texts)
    return (Cell(text=", ".join(filter(None, texts)), sort=share.value),)


def differences_table(comparison: Comparison, *, explained: bool = True) -> Table | None:
    """Build the table of configuration differences, with possible effects if `explained`; None
    without differences."""
    if not comparison.differences:
        return None
    explaining = explained and any(difference.explains for difference in comparison.differences)
    rows = []
    for difference in comparison.differences:
        row = [
            word(text)
            for text in (
                difference.topic.value,
                difference.path,
                difference.baseline,
                difference.candidate,
            )
        ]
        if explaining:
            texts = [*filter(None, [difference.meaning]), *effect_texts(difference)]
            row.append(Cell(text=" ".join(texts) or NOT_SHOWN, missing=not texts))
        rows.append(row)
    columns: list[str | Column] = [Column(title="topic", rank=1), "setting"]
    columns += system_names(comparison)
    columns += [Column(title="possible effect", rank=2)] if explaining else []
    return table("differences", columns, rows, filterable=len(rows) > 25)


def expectation_sections(comparison: Comparison) -> tuple[Section, ...]:
    """Build the section of the expectations; none where the plans declare none."""
    tests = check_expectations(comparison)
    if not tests:
        return ()
    shown = records_table(
        "expectations-table",
        tests,
        ("outcome", lambda test: test.outcome.value),
        ("cells", _expected_cells),
        ("measured change", _expected_changes),
        ("expected before the run", lambda test: test.expectation.text),
    )
    return (section("Expectations", "expectations", shown),)


def _expected_cells(test: ExpectationTest) -> Cell:
    """`5 of 6 worse, 1 inconclusive`."""
    if not test.cells:
        return Cell(text="no such cell", missing=True)
    texts = [f"{test.as_expected:,} of {count_text(test.cells, 'cell')} {test.direction.value}"]
    rest = test.cells - test.conclusive
    texts += [f"{rest:,} inconclusive"] if rest else []
    return Cell(text=", ".join(texts), sort=float(test.as_expected))


def _expected_changes(test: ExpectationTest) -> str:
    if test.ratios is None:
        return NOT_SHOWN
    return " to ".join(dict.fromkeys(map(change_text, test.ratios)))
