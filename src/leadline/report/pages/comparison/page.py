"""The document of a comparison: a page, a terminal answer, or a section of a run's page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leadline.analysis.comparison import By, ComparedCell, Comparison
from leadline.analysis.explain.facts import RoundTripCost, RoundTripEvidence
from leadline.archive.verify import Verification
from leadline.findings import Severity
from leadline.metrics import Metric
from leadline.report.cells import slug, table
from leadline.report.document import (
    Block,
    Bullets,
    Choices,
    Document,
    Paragraph,
    Section,
)
from leadline.report.marks import Marks
from leadline.report.pages.comparison.changes import (
    brief_table,
    changes_sections,
    costs_sections,
)
from leadline.report.pages.comparison.charts import (
    bar_charts,
    explanation_chart,
    heat_map,
    pattern_of,
    percentile_blocks,
    strip_charts,
)
from leadline.report.pages.comparison.explanations import explanation_text, remarks
from leadline.report.pages.comparison.headline import key_finding, rates, system_names
from leadline.report.pages.comparison.load_curves import load_blocks
from leadline.report.pages.comparison.method import method_section
from leadline.report.pages.comparison.overview import front_blocks, shows_all
from leadline.report.pages.comparison.rank_shifts import rank_shift_sections
from leadline.report.pages.comparison.tables import (
    SideMarks,
    differences_table,
    expectation_sections,
    findings_table,
    matrix_table,
    round_trips_table,
)
from leadline.report.pages.comparison.takeaways import (
    brief_summary,
    differences_result,
    explanation_result,
    founded,
    latency_result,
    load_result,
    missing,
    trials_result,
)
from leadline.report.pages.comparison.totals import (
    busy_shares,
    patterns_table,
    processor_chart,
    read_write_table,
    scorecard,
    systems_table,
)
from leadline.report.pages.redactions import redaction_sections
from leadline.report.pages.run.conditions import checked_text
from leadline.report.words import (
    NOT_SHOWN,
    band_text,
    count_text,
    counts_text,
    listed,
    place,
    severities_text,
    short,
    short_levels,
    where,
)

# Names in a row; the differences are complete.
_MOST_SETTINGS = 40
# Configuration differences of a terminal's first screen.
_FEW_DIFFERENCES = 8
_FEW_EXPLANATIONS = 2


def comparison_document(
    comparison: Comparison, verifications: Sequence[Verification] | None = None
) -> Document:
    """Build the whole page; the same comparison gives the same document. `verifications` are of the
    comparison's runs, in their order."""
    with short_levels(cell.level for cell in comparison.cells) as shared:
        marks = SideMarks(comparison)
        return Document(
            title=_title(comparison),
            subtitle=place(_subtitle(comparison), shared),
            summary=(*brief_summary(comparison), *_verified(comparison, verifications)),
            sections=(
                *expectation_sections(comparison),
                *_explanations(comparison, tabled=True),
                *_latency(comparison),
                *_load_curves(comparison),
                *_trials(comparison),
                *rank_shift_sections(comparison),
                *(_findings(marks, comparison) if comparison.cells else ()),
                _differences(comparison),
                *changes_sections(comparison, marks, charted=not shows_all(comparison)),
                *costs_sections(comparison, marks),
                *_scorecards(comparison),
                *_totals(comparison),
                _matrix(comparison),
                _systems(comparison),
                *redaction_sections(*comparison.runs),
                method_section(comparison),
            ),
            marked=marks.all,
            front=front_blocks(comparison),
        )


def comparison_summary(comparison: Comparison) -> Document:
    """Build the terminal answer: one screen for a dozen cells; folded sections have the details."""
    with short_levels(cell.level for cell in comparison.cells) as shared:
        marks = SideMarks(comparison)
        return Document(
            title=_title(comparison),
            subtitle=place(_subtitle(comparison), shared),
            summary=(key_finding(comparison), *brief_summary(comparison)[1:]),
            sections=(
                *([_brief_changes(comparison, marks)] if comparison.cells else ()),
                *expectation_sections(comparison),
                *_brief_explanation(comparison),
                _brief_differences(comparison),
                *_details(comparison, marks),
            ),
            marked=marks.all,
        )


def _section(heading: str, anchor: str, *blocks: Block, folded: bool = False) -> Section:
    return Section(heading=heading, id=anchor, blocks=blocks, folded=folded)


def _brief_changes(comparison: Comparison, marks: SideMarks) -> Section:
    """Build the table of rates, and where the findings of its numbers are explained."""
    warned = [mark for mark in marks.all if mark.severity is not Severity.INFO]
    labels = ", ".join(f"{mark.label} {mark.code}" for mark in warned)
    names = " and ".join(dict.fromkeys(run.id for run in comparison.runs))
    note = [Paragraph(text=f"{labels}: `leadline audit` of {names} explains them.")]
    changes = brief_table("changes-brief", comparison, marks)
    return _section("Changes", "changes", changes, *(note if labels else ()))


def _brief_explanation(comparison: Comparison) -> tuple[Section, ...]:
    """Build the tests of round trips that have a result; where none was made, the first causes."""
    if any(isinstance(found, RoundTripCost) for found in comparison.explanations):
        tested = round_trips_table(comparison, brief=True)
        return (_section("Added latency by round trips", "round-trips", tested),) if tested else ()
    texts = [
        text
        for found, text in zip(comparison.explanations, _explanation_texts(comparison), strict=True)
        if founded(found)
    ]
    shown = Bullets(items=tuple(texts[:_FEW_EXPLANATIONS]))
    return (_section("Explanation", "explanation", shown),) if texts else ()


def _brief_differences(comparison: Comparison) -> Section:
    """Build the first configuration differences, without their possible effects."""
    shown = differences_table(comparison, explained=False)
    if shown is None:
        return _differences(comparison)
    more = len(shown.rows) - _FEW_DIFFERENCES
    note = [Paragraph(text=f"{count_text(more, 'more difference')}: --details.")]
    few = replace(shown, rows=shown.rows[:_FEW_DIFFERENCES])
    heading, anchor = "Configuration differences", "configuration-differences"
    return _section(heading, anchor, few, *(note if more > 0 else ()))


def _details(comparison: Comparison, marks: SideMarks) -> Iterable[Section]:
    """Yield what --details adds: every explanation in words, every setting, findings, method."""
    sections = [
        *costs_sections(comparison, marks, folded=True),
        *_explanations(comparison, tabled=False),
    ]
    if comparison.differences:
        sections.append(_differences(comparison))
    for section in (*sections, *_findings(marks, without_info=True)):
        yield replace(section, folded=True)
    yield method_section(comparison)


def comparison_section(comparison: Comparison, marks: Marks) -> Section:
    """Build the section for the page of the run with both systems; `marks` are of that page."""
    busy = busy_shares(comparison)
    blocks: list[Block] = []
    anchor = f"vs-{slug(comparison.candidate.name)}"
    # A value of a label may be compared with several others.
    anchor += f"-{slug(comparison.baseline.name)}" if comparison.by is By.LABEL else ""
    if comparison.cells:
        blocks.append(
            brief_table(f"{anchor}-changes", comparison, SideMarks(comparison, marks), busy)
        )
    # Clusters have a page of their own.
    if comparison.by is By.LABEL and comparison.explanations:
        texts = [(text,) for text in _explanation_texts(comparison)]
        blocks.append(table(f"{anchor}-explanations", ("explanation",), texts))
    changes = rates(comparison)
    result = counts_text(changes) if changes else ""
    return Section(heading=_title(comparison), id=anchor, blocks=tuple(blocks), result=result)


def _title(comparison: Comparison) -> str:
    base, other = system_names(comparison)
    return f"{other} vs {base}"


def _subtitle(comparison: Comparison) -> str:
    what = {
        By.RUN: "two runs",
        By.CLUSTER: "two clusters",
        By.TARGET: "two targets",
        By.LABEL: "two labels",
    }[comparison.by]
    parts = [f"{what} ({' and '.join(run.id for run in comparison.runs)})"]
    if comparison.has_several_runs:
        sides = (comparison.baseline, comparison.candidate)
        runs = (listed(run.id for run in side.runs) for side in sides)
        parts = [f"two systems of several runs ({' vs '.join(runs)})"]
    cells = {(cell.target, cell.workload, cell.level, cell.op) for cell in comparison.cells}
    if cells:
        targets = count_text(len({cell.target for cell in comparison.cells}), "target")
        count = count_text(len(cells), "cell")
        parts.append(f"{count} (target, workload, operation) of {targets}")
    return " · ".join((*parts, f"equivalence margin {band_text(comparison.band)}"))


def _verified(comparison: Comparison, verifications: Sequence[Verification] | None) -> list[str]:
    """Word the verification of the archives: one sentence if all are intact, else one for each run
    that is not."""
    if verifications is None:
        return []
    found = {
        run.path: (run.id, verification)
        for run, verification in zip(comparison.runs, verifications, strict=True)
    }
    broken = [
        f"The archive of {short(name)} is NOT intact: "
        f"{count_text(len(found.problems), 'problem')}; first {found.problems[0].path}."
        for name, found in found.values()
        if not found.ok
    ]
    if broken:
        return broken
    noun = "Archive" if len(found) == 1 else f"{len(found)} archives"
    return [f"{noun} intact: {checked_text(one for _, one in found.values())} verified."]


# --- the systems ---------------------------------------------------------------------------------


def _systems(comparison: Comparison) -> Section:
    blocks = (systems_table(comparison),)
    return Section(heading="The two systems", id="systems", blocks=blocks, folded=True)


def _facts_files(comparison: Comparison) -> list[str]:
    """The names of the facts files of both systems."""
    clusters = [
        cluster
        for side in (comparison.baseline, comparison.candidate)
        for cluster in side.run.plan.clusters
    ]
    return list(dict.fromkeys(cluster.facts.file for cluster in clusters if cluster.facts))


def _differences(comparison: Comparison) -> Section:
    shown = differences_table(comparison)
    blocks: list[Block] = [shown] if shown else []
    unlike = (
        (
            f"differs in {unlike.run} and {unlike.first}",
            [found.path for found in unlike.differences],
        )
        for unlike in comparison.unlike_runs
    )
    others = [
        (name, listed(values, _MOST_SETTINGS))
        for name, values in (
            ("identical", comparison.identical),
            *unlike,
            ("given by the user, not measured", _facts_files(comparison)),
            ("unknown for a system", comparison.unknown),
        )
        if values
    ]
    if not comparison.differences and not comparison.identical:
        text = "No configuration data for either system. Import it with --inventory or --facts."
        blocks.append(Paragraph(text=text))
    elif not comparison.differences:
        blocks.append(Paragraph(text="No configuration difference was found."))
    if others:
        blocks.append(table("settings", ("", "settings"), others))
    if not any(map(founded, comparison.explanations)):
        blocks += [Paragraph(text=text) for text in _explanation_texts(comparison)]
    return Section(
        heading="Configuration differences",
        id="configuration-differences",
        blocks=tuple(blocks),
        result=differences_result(comparison),
    )


def _explanations(comparison: Comparison, *, tabled: bool = False) -> tuple[Section, ...]:
    """None where the configuration is unknown: the differences section reports that. `tabled`: the
    cost of round trips is charted and in a table, not in sentences."""
    if not any(map(founded, comparison.explanations)):
        return ()
    items = []
    texts = _explanation_texts(comparison)
    for explanation, text in zip(comparison.explanations, texts, strict=True):
        if tabled and isinstance(explanation, RoundTripCost):
            text = " ".join(remarks(explanation, short))
        if tabled and isinstance(explanation, RoundTripEvidence) and not explanation.unchanged:
            continue  # the summary has the counts
        cells = dict.fromkeys(where(comparison.cells[index]) for index in explanation.cells)
        items += [(listed(cells, 3) or NOT_SHOWN, text)] if text else []
    if not tabled:
        bullets = (text if at == NOT_SHOWN else f"{text} Cells: {at}." for at, text in items)
        blocks: list[Block] = [Bullets(items=tuple(bullets))] if items else []
    else:
        drawn = explanation_chart(comparison)
        blocks = [drawn] if drawn else []
        blocks += [table("explanations", ("cells", "explanation"), items)] if items else []
    details: tuple[Section, ...] = ()
    if tabled and (tested := round_trips_table(comparison)):
        heading, anchor = "I/O paths, round trips and intervals", "io-paths"
        details = (Section(heading=heading, id=anchor, blocks=(tested,), folded=True),)
    return (
        Section(
            heading="Explanation",
            id="explanation",
            blocks=tuple(blocks),
            sections=details,
            result=explanation_result(comparison),
        ),
    )


def _explanation_texts(comparison: Comparison) -> tuple[str, ...]:
    return tuple(explanation_text(explanation, short) for explanation in comparison.explanations)


def _findings(
    marks: SideMarks, comparison: Comparison | None = None, *, without_info: bool = False
) -> tuple[Section, ...]:
    """`without_info` leaves context (info) out, and an empty section; a `comparison` adds the
    findings of each cell."""
    lists = marks.lists(without_info=without_info)
    if not lists and without_info:
        return ()
    by_cell = findings_table(comparison, marks) if comparison else None
    blocks: list[Block] = [by_cell] if by_cell else []
    blocks += [found for name, found in lists if not name]
    if not lists:
        blocks.append(Paragraph(text="The audit has no findings."))
    inner = tuple(
        Section(heading=f"About {name}", id=f"findings-{number}", blocks=(found,))
        for number, (name, found) in enumerate(lists, start=1)
        if name
    )
    severities = [
        group.mark.severity for _, found in lists for group in found.groups for _ in group.items
    ]
    return (
        Section(
            heading="Findings",
            id="findings",
            blocks=tuple(blocks),
            sections=inner,
            result=severities_text(severities) if lists else "",
        ),
    )


def _matrix(comparison: Comparison) -> Section:
    known = comparison.cells or comparison.baseline_alone or comparison.candidate_alone
    blocks: list[Block] = [matrix_table(comparison) if known else Paragraph(text="No cells.")]
    lacking = missing(comparison)
    if lacking:
        blocks.append(Paragraph(text=f"Without a number: {'; '.join(lacking)}."))
    folded = bool(comparison.cells)
    return Section(heading="Test matrix", id="test-matrix", blocks=tuple(blocks), folded=folded)


# --- results -------------------------------------------------------------------------------------


def _totals(comparison: Comparison) -> tuple[Section, ...]:
    patterns = {**pattern_of(comparison.candidate.run), **pattern_of(comparison.baseline.run)}

    def pattern(cell: ComparedCell) -> str:
        figure = cell.baseline_cell or cell.candidate_cell
        return patterns.get((figure.planned_workload, figure.level), "") if figure else ""

    by_op = None if shows_all(comparison) else read_write_table(comparison)
    tables = (by_op, patterns_table(comparison, pattern))
    blocks = tuple(filter(None, tables))
    return (
        (Section(heading="Read vs write", id="totals", blocks=blocks, folded=True),)
        if blocks
        else ()
    )


def _scorecards(comparison: Comparison) -> tuple[Section, ...]:
    cells = rates(comparison)
    if not cells or shows_all(comparison):
        return ()
    blocks: list[Block] = []
    tails = [cell for cell in comparison.cells if cell.metric is Metric.LATENCY_P99]
    for anchor, name, group in (("map-rate", "rate", cells), ("map-p99", "p99 latency", tails)):
        made = heat_map(anchor, f"Change of {name}", group)
        blocks += [made] if made else []
    blocks.append(scorecard("score-target", comparison, lambda cell: cell.target, "target"))
    if len({cell.workload for cell in cells}) > 1:
        by_workload = scorecard(
            "score-workload", comparison, lambda cell: cell.workload, "workload"
        )
        blocks.append(by_workload)
    return (Section(heading="Scorecard", id="scorecard", blocks=tuple(blocks), folded=True),)


def _trials(comparison: Comparison) -> tuple[Section, ...]:
    strips, processor = strip_charts(comparison), processor_chart(comparison)
    if strips:
        drawn: list[Block] = [*strips, *([processor] if processor else [])]
        result = trials_result(comparison)
        return (Section(heading="Trials", id="trials", blocks=tuple(drawn), result=result),)
    charts = bar_charts(comparison)
    if not charts:
        return ()
    blocks: list[Block] = []
    if len(charts) > 1:
        options = tuple((chart.choice, name) for name, chart in charts)
        blocks.append(Choices(id="bars", label="Workload", options=options))
    blocks += [chart for _, chart in charts]
    return (Section(heading="Trials", id="trials", blocks=tuple(blocks)),)


def _latency(comparison: Comparison) -> tuple[Section, ...]:
    blocks = percentile_blocks(comparison)
    heading = "Latency percentiles"
    result = latency_result(comparison)
    return (Section(heading=heading, id="latency", blocks=blocks, result=result),) if blocks else ()


def _load_curves(comparison: Comparison) -> tuple[Section, ...]:
    blocks = load_blocks(comparison)
    heading, result = "Load curves", load_result(comparison)
    section = Section(heading=heading, id="load-curves", blocks=blocks, result=result)
    return (section,) if blocks else ()
