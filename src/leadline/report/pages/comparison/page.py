"""The document of a comparison: a page, a terminal answer, or a section of a run's page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from leadline.analysis.comparison import By, ComparedCell, Comparison, Side
from leadline.analysis.figures import TRIALS_FOR_INTERVAL
from leadline.analysis.verdicts import REPEATS_FACTOR, Verdict
from leadline.archive.verify import Verification
from leadline.metrics import Metric
from leadline.report.cells import slug
from leadline.report.document import (
    Block,
    Bullets,
    Choices,
    Code,
    Document,
    KeyValues,
    Marks,
    Paragraph,
    Section,
)
from leadline.report.pages.comparison.charts import bar_charts, curve_blocks, heat_map, pattern_of
from leadline.report.pages.comparison.explanations import explanation_text
from leadline.report.pages.comparison.tables import (
    SideMarks,
    brief_table,
    changes_sections,
    differences_table,
    matrix_table,
)
from leadline.report.pages.comparison.takeaways import (
    REPEATS,
    bottom_line,
    false_positive_rate,
    founded,
    missing,
    rates,
    summary,
)
from leadline.report.pages.comparison.totals import (
    busy_shares,
    busy_text,
    columns_block,
    patterns_table,
    read_write_table,
    scorecard,
)
from leadline.report.pages.run.conditions import engine_texts, reproduction_blocks
from leadline.report.words import (
    band_text,
    count_text,
    listed,
    percent_text,
    reason_text,
    reason_words,
    short,
    where,
)
from leadline.version import __version__


def method_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Describe the statistical methods with their thresholds."""
    counts = comparison.counts()
    verdicts = ", ".join(f"{counts[verdict]:,} {verdict.value}" for verdict in Verdict)
    judgements = [one.judgement for one in comparison.cells]
    noisy = [one.band for one in judgements if one.band > comparison.band]
    band = f"{band_text(comparison.band)}, as requested"
    if noisy:
        band += (
            f"; in {len(noisy):,} numbers the larger noise floor of a target that ran twice, up to "
            f"{band_text(max(noisy))}"
        )
    else:
        band += "; no larger noise floor was measured"
    alone = false_positive_rate(comparison.band)
    tested = sum(one.p is not None for one in judgements)
    few = TRIALS_FOR_INTERVAL - 1
    codes = dict.fromkeys(code for one in judgements for code in one.reasons)
    texts = {
        "verdicts": f"{verdicts}, of {len(comparison.cells):,} numbers",
        "change": (
            "figure of the candidate divided by that of the baseline; figures are medians of "
            "trials; percentiles are of the I/Os of all trials together, never averaged"
        ),
        "equivalence margin": band,
        "better, worse": (
            "the 95 % interval of the change is outside the margin and the adjusted p is at most "
            "0.05; more is better for rates, less for latencies"
        ),
        "same": "the interval is inside the margin",
        "inconclusive": "all other cases; more trials may resolve them",
        "not comparable": (
            "a number is missing, the audit refuses one (error), or the workloads differ"
        ),
        "interval": (
            f"from {TRIALS_FOR_INTERVAL} trials per system: bootstrap of the medians over trials, "
            f"by block for interleaved trials; from 2 to {few}: Student's t of logarithms, and all "
            "trials of one system must be beyond all of the other"
        ),
        "one trial": (
            "a measurement: its independent seconds, and a change above "
            f"{percent_text(REPEATS_FACTOR - 1)}, the known difference between repeats; a "
            f"published number: the margin alone, which flags {percent_text(alone)} of unchanged "
            "cells with the scatter of 180 published groups of three runs ("
            f"median {percent_text(REPEATS.median)}, 90th percentile "
            f"{percent_text(REPEATS.ninetieth)}, worst {percent_text(REPEATS.worst)})"
        ),
        "p": (
            f"adjusted over {tested:,} tests: Benjamini-Hochberg over the matrix, Holm over the "
            "limits of --fail-on"
        ),
        "more trials": (
            "number per system that would resolve an inconclusive cell with 80 % power, if the "
            "change is as measured"
        ),
        "mean change": (
            "geometric mean of the ratios of a target's rates; none if one is missing or refused; "
            "without totals of reads and writes that are listed separately"
        ),
        "reasons": "; ".join(f"{reason_words(code)}: {reason_text(code)}" for code in codes)
        or "none",
        "marks": (
            "E, W, I: error, warning, info; with two runs b is the baseline, c the candidate"
        ),
        "units": (
            "MiB/s = 1,048,576 bytes/s; us = 0.000001 s; rates are IOPS, or MiB/s for blocks of "
            "at least 64 KiB"
        ),
    }
    return (KeyValues(pairs=tuple(texts.items())),)


def comparison_document(
    comparison: Comparison, verifications: tuple[Verification, Verification] | None = None
) -> Document:
    """Build the whole page; the same comparison gives the same document."""
    marks = SideMarks(comparison)
    return Document(
        title=_title(comparison),
        subtitle=_subtitle(comparison),
        summary=(*summary(comparison), *_verified(comparison, verifications)),
        sections=(
            _systems(comparison),
            *_differences(comparison),
            *_explanations(comparison),
            *(_findings(marks) if comparison.cells else ()),
            _matrix(comparison),
            *changes_sections(comparison, marks),
            *_totals(comparison),
            *_scorecards(comparison),
            *_bars(comparison),
            *_curves(comparison),
            _bottom_line(comparison),
            Section(heading="Methods", id="methods", blocks=method_blocks(comparison), folded=True),
            _reproduce(comparison),
            Section(heading="Versions", id="versions", blocks=_versions(comparison), folded=True),
        ),
        marked=marks.all,
    )


def comparison_summary(comparison: Comparison) -> Document:
    """Build the terminal answer: key finding, rates, explanation and configuration differences."""
    marks = SideMarks(comparison)
    changes = (
        Section(
            heading="Changes",
            id="changes",
            blocks=(brief_table("changes-brief", comparison, marks),),
        ),
    )
    return Document(
        title=_title(comparison),
        subtitle=_subtitle(comparison),
        summary=summary(comparison),
        sections=(
            *(changes if comparison.cells else ()),
            *_explanations(comparison),
            # The possible effects of differences are too long for a terminal.
            *_differences(comparison, explained=False),
            *_findings(marks, without_info=True),
            _bottom_line(comparison),
        ),
        marked=marks.all,
    )


def comparison_section(comparison: Comparison, marks: Marks) -> Section:
    """Build the section for the page of the run with both systems; `marks` are of that page."""
    base, other = short(comparison.baseline.name), short(comparison.candidate.name)
    busy = busy_shares(comparison)
    # The key finding is in the summary of that page.
    texts = [*summary(comparison)[1:], busy_text(busy)]
    blocks: list[Block] = [Bullets(items=tuple(text for text in texts if text))]
    anchor = f"vs-{slug(comparison.candidate.name)}"
    # A value of a label may be compared with several others.
    anchor += f"-{slug(comparison.baseline.name)}" if comparison.by is By.LABEL else ""
    if comparison.cells:
        blocks.append(
            brief_table(f"{anchor}-changes", comparison, SideMarks(comparison, marks), busy)
        )
    if comparison.explanations:
        blocks.append(Bullets(items=_explanation_texts(comparison)))
    return Section(
        heading=f"{other} vs {base}",
        id=anchor,
        blocks=tuple(blocks),
    )


def _title(comparison: Comparison) -> str:
    return f"{short(comparison.candidate.name)} vs {short(comparison.baseline.name)}"


def _subtitle(comparison: Comparison) -> str:
    what = {
        By.RUN: "two runs",
        By.CLUSTER: "two clusters",
        By.TARGET: "two targets",
        By.LABEL: "two labels",
    }[comparison.by]
    runs = dict.fromkeys(side.run.id for side in (comparison.baseline, comparison.candidate))
    cells = {(one.target, one.workload, one.level, one.op) for one in comparison.cells}
    targets = {one.target for one in comparison.cells}
    of = count_text(len(targets), "target")
    count = f"{count_text(len(cells), 'cell')} (target, workload, operation) of {of}"
    return " · ".join(
        (
            f"{what} ({' and '.join(runs)})",
            *([count] if cells else []),
            f"equivalence margin {band_text(comparison.band)}",
        )
    )


def _verified(
    comparison: Comparison, verifications: tuple[Verification, Verification] | None
) -> list[str]:
    """Word the verification of the archives: one sentence if all are intact, else one per run."""
    if verifications is None:
        return []
    runs = (comparison.baseline.run, comparison.candidate.run)
    found = {run.path: (run.id, one) for run, one in zip(runs, verifications, strict=True)}
    if all(one.ok for _, one in found.values()):
        names = listed(name for name, _ in found.values())
        subject = "archives" if len(found) > 1 else "archive"
        verb = "are" if len(found) > 1 else "is"
        checked = _checked([one for _, one in found.values()])
        return [f"The {subject} of {names} {verb} intact: {checked}."]
    return [_verified_text(name, one) for name, one in found.values()]


def _checked(given: Sequence[Verification]) -> str:
    files = count_text(sum(one.files for one in given), "file")
    numbers = count_text(sum(one.numbers for one in given), "derived number")
    return f"{files} and {numbers} checked against checksums and raw output"


def _verified_text(run: str, found: Verification) -> str:
    if found.ok:
        return f"The archive of {run} is intact: {_checked([found])}."
    first = found.problems[0]
    return (
        f"The archive of {run} is NOT intact: "
        f"{count_text(len(found.problems), 'problem')} in {_checked([found])}; "
        f"first {first.path}: {first.message}."
    )


# --- the systems ---------------------------------------------------------------------------------


def _systems(comparison: Comparison) -> Section:
    return Section(
        heading="The two systems",
        id="systems",
        blocks=(columns_block(comparison),),
        folded=True,
    )


def _differences(comparison: Comparison, *, explained: bool = True) -> tuple[Section, ...]:
    table = differences_table(comparison, explained=explained)
    blocks: list[Block] = [table] if table else []
    if comparison.identical:
        same = listed(comparison.identical, 40)
        blocks.append(Paragraph(text=f"Identical: {same}."))
    if not blocks:
        text = "No configuration data for either system. Import it with --inventory."
        blocks.append(Paragraph(text=text))
    elif table is None:
        blocks.insert(0, Paragraph(text="No configuration difference was found."))
    if comparison.unknown:
        unknown = listed(comparison.unknown, 12)
        blocks.append(Paragraph(text=f"Not reported by both systems: {unknown}."))
    if not any(map(founded, comparison.explanations)):
        blocks += [Paragraph(text=text) for text in _explanation_texts(comparison)]
    return (
        Section(
            heading="Configuration differences",
            id="configuration-differences",
            blocks=tuple(blocks),
        ),
    )


def _explanations(comparison: Comparison) -> tuple[Section, ...]:
    """None where the configuration is unknown: the differences section reports that."""
    if not any(map(founded, comparison.explanations)):
        return ()
    items = []
    for one in comparison.explanations:
        names = listed(dict.fromkeys(where(comparison.cells[index]) for index in one.cells), 3)
        items.append(explanation_text(one, short) + (f" Cells: {names}." if names else ""))
    return (
        Section(heading="Explanation", id="explanation", blocks=(Bullets(items=tuple(items)),)),
    )


def _explanation_texts(comparison: Comparison) -> tuple[str, ...]:
    return tuple(explanation_text(one, short) for one in comparison.explanations)


def _findings(marks: SideMarks, *, without_info: bool = False) -> tuple[Section, ...]:
    """`without_info` leaves context (info) out, and an empty section."""
    lists = marks.lists(without_info=without_info)
    if not lists and without_info:
        return ()
    if not lists:
        text = "The audit has no findings."
        return (Section(heading="Findings", id="findings", blocks=(Paragraph(text=text),)),)
    if len(lists) == 1 and not lists[0][0]:
        return (Section(heading="Findings", id="findings", blocks=(lists[0][1],)),)
    inner = tuple(
        Section(heading=f"About {name}", id=f"findings-{number}", blocks=(found,))
        for number, (name, found) in enumerate(lists, start=1)
    )
    return (Section(heading="Findings", id="findings", sections=inner),)


def _matrix(comparison: Comparison) -> Section:
    blocks: list[Block] = []
    if comparison.cells or comparison.baseline_alone or comparison.candidate_alone:
        blocks.append(matrix_table(comparison))
    else:
        blocks.append(Paragraph(text="No cells."))
    lacking = missing(comparison)
    if lacking:
        blocks.append(Paragraph(text=f"Without a number: {'; '.join(lacking)}."))
    return Section(heading="Test matrix", id="test-matrix", blocks=tuple(blocks))


# --- results -------------------------------------------------------------------------------------


def _totals(comparison: Comparison) -> tuple[Section, ...]:
    patterns = {**pattern_of(comparison.candidate.run), **pattern_of(comparison.baseline.run)}

    def pattern(cell: ComparedCell) -> str:
        figure = cell.baseline_cell or cell.candidate_cell
        return patterns.get((figure.planned_workload, figure.level), "") if figure else ""

    tables = (read_write_table(comparison), patterns_table(comparison, pattern))
    blocks = tuple(table for table in tables if table is not None)
    if not blocks:
        return ()
    return (Section(heading="Read vs write", id="totals", blocks=blocks),)


def _scorecards(comparison: Comparison) -> tuple[Section, ...]:
    cells = rates(comparison)
    if not cells:
        return ()
    text = (
        "Shades show conclusive changes, the darkest half or twice the rate. Unchanged cells have "
        "no shade, inconclusive cells a question mark. A mean change needs every cell of a target "
        "to be comparable."
    )
    blocks: list[Block] = [Paragraph(text=text)]
    tails = [one for one in comparison.cells if one.metric is Metric.LATENCY_P99]
    for anchor, name, group in (("map-rate", "rate", cells), ("map-p99", "p99 latency", tails)):
        made = heat_map(anchor, f"Change of {name}", group)
        blocks += [made] if made else []
    blocks.append(scorecard("score-target", comparison, lambda one: one.target, "target"))
    if len({one.workload for one in cells}) > 1:
        blocks.append(scorecard("score-workload", comparison, lambda one: one.workload, "workload"))
    return (Section(heading="Scorecard", id="scorecard", blocks=tuple(blocks)),)


def _bars(comparison: Comparison) -> tuple[Section, ...]:
    charts = bar_charts(comparison, rates(comparison))
    if not charts:
        return ()
    blocks: list[Block] = []
    if len(charts) > 1:
        options = tuple((choice, name) for choice, name, _ in charts)
        blocks.append(Choices(id="bars", label="Workload", options=options))
    blocks += [chart for _, _, chart in charts]
    return (Section(heading="Trials", id="trials", blocks=tuple(blocks)),)


def _curves(comparison: Comparison) -> tuple[Section, ...]:
    blocks = curve_blocks(comparison)
    return (Section(heading="Curves", id="curves-section", blocks=blocks),) if blocks else ()


def _bottom_line(comparison: Comparison) -> Section:
    blocks = tuple(Paragraph(text=text) for text in bottom_line(comparison))
    return Section(heading="Bottom line", id="bottom-line", blocks=blocks)


# --- reproduction -------------------------------------------------------------------------------


def command(comparison: Comparison) -> str:
    """Return the command that makes this comparison."""
    base, other = comparison.baseline, comparison.candidate
    band = f"{comparison.band * 100:g}%"
    if comparison.by is By.RUN:
        words = ["leadline", "compare", base.run.id, other.run.id, "--band", band]
    elif base.run.path != other.run.path:
        key = base.name.partition("=")[0]
        words = ["leadline", "compare", base.run.id, other.run.id, "--by", key, "--band", band]
    else:
        words = ["leadline", "compare", base.name, other.name, "--by", comparison.by.value]
        words += ["--run", base.run.id, "--band", band]
    return shlex.join(words)


def _reproduce(comparison: Comparison) -> Section:
    return Section(
        heading="How to reproduce",
        id="reproduce",
        blocks=(Code(text=command(comparison), caption="This comparison"),),
        sections=tuple(
            Section(
                heading=f"Measuring {short(side.name)}",
                id=f"reproduce-{number}",
                blocks=reproduction_blocks(side.run),
            )
            for number, side in enumerate(_runs(comparison), start=1)
        ),
        folded=True,
    )


def _runs(comparison: Comparison) -> Sequence[Side]:
    base, other = comparison.baseline, comparison.candidate
    return (base,) if base.run.path == other.run.path else (base, other)


def _versions(comparison: Comparison) -> tuple[Block, ...]:
    pairs = [("this report by", f"Leadline {__version__}")]
    for side in _runs(comparison):
        run = side.run
        by = dict.fromkeys(one.leadline_version for one in run.manifest.sessions)
        name = run.id
        pairs.append((f"{name} by", f"Leadline {listed(by)}"))
        pairs.append((f"engine of {name}", engine_texts(run) or "no trial"))
    return (KeyValues(pairs=tuple(pairs)),)
