"""The document of a comparison: a page, a terminal answer, or a section of a run's page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

from leadline.analysis.comparison import By, ComparedCell, Comparison
from leadline.analysis.explain.facts import RoundTripCost
from leadline.analysis.verdicts import BETWEEN_RUNS, REPEATS_FACTOR, Verdict
from leadline.archive.reader import Run
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
    shorten_levels,
)
from leadline.report.pages.comparison.charts import (
    bar_charts,
    curve_blocks,
    explanation_chart,
    heat_map,
    pattern_of,
    strip_charts,
)
from leadline.report.pages.comparison.explanations import explanation_text, remarks
from leadline.report.pages.comparison.headline import rates, system_names
from leadline.report.pages.comparison.overview import front_blocks
from leadline.report.pages.comparison.tables import (
    SideMarks,
    brief_table,
    changes_sections,
    differences_table,
    matrix_table,
    round_trips_table,
)
from leadline.report.pages.comparison.takeaways import (
    REPEATS,
    bottom_line,
    brief_summary,
    false_positive_rate,
    founded,
    missing,
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
from leadline.report.pages.redactions import redaction_sections
from leadline.report.pages.run.conditions import (
    checked_text,
    described_methods,
    engine_texts,
    reproduction_blocks,
)
from leadline.report.words import (
    band_text,
    count_text,
    listed,
    percent_text,
    reason_text,
    reason_words,
    short,
    title,
    where,
)
from leadline.stats.effects import Estimate
from leadline.stats.moderation import FEWEST_CELLS
from leadline.version import __version__


def method_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Describe the statistical methods with their thresholds."""
    judgements = [cell.judgement for cell in comparison.cells]
    noisy = [judgement.band for judgement in judgements if judgement.band > comparison.band]
    noise_floor = "no larger noise floor was measured"
    if noisy:
        noise_floor = (
            f"in {len(noisy):,} numbers the larger noise floor of a target that ran twice, up to "
            f"{band_text(max(noisy))}"
        )
    counts = comparison.counts()
    codes = dict.fromkeys(code for judgement in judgements for code in judgement.reasons)
    methods = described_methods(
        "comparison_methods.txt",
        verdicts=", ".join(f"{count:,} {verdict.value}" for verdict, count in counts.items()),
        numbers=f"{len(comparison.cells):,}",
        margin=band_text(comparison.band),
        noise_floor=noise_floor,
        pooled=_pooled(comparison),
        between_runs=_between_runs(comparison),
        repeats=percent_text(REPEATS_FACTOR - 1),
        false_positives=percent_text(false_positive_rate(comparison.band)),
        scatter_median=percent_text(REPEATS.median),
        scatter_ninetieth=percent_text(REPEATS.ninetieth),
        scatter_worst=percent_text(REPEATS.worst),
        tests=f"{sum(judgement.p is not None for judgement in judgements):,}",
        reasons="; ".join(f"{reason_words(code)}: {reason_text(code)}" for code in codes) or "none",
    )
    return (methods,)


def _pooled(comparison: Comparison) -> str:
    """Word the priors of the moderated scatter by metric."""
    texts = []
    found: dict[Metric, Estimate] = {}
    for cell in comparison.cells:
        if cell.judgement.estimate is not None and cell.verdict is not Verdict.NOT_COMPARABLE:
            found.setdefault(cell.metric, cell.judgement.estimate)
    for metric, estimate in found.items():
        known = [prior for prior in estimate.priors if prior.cells >= FEWEST_CELLS]
        if not known:
            continue
        deviations = listed(percent_text(math.sqrt(prior.variance)) for prior in known)
        weights = listed(
            f"{prior.freedom:.1f}" if math.isfinite(prior.freedom) else "unlimited"
            for prior in known
        )
        kind = "of pairs" if estimate.paired else "of candidate and baseline"
        texts.append(
            f"{title(metric)} {deviations} {kind}, weight {weights} degrees of freedom, "
            f"{known[0].cells:,} cells"
        )
    return "; ".join(texts) or "none: fewer than three comparable cells"


def _between_runs(comparison: Comparison) -> str:
    if comparison.has_several_runs:
        return (
            "estimated from the runs themselves (each run is one value, the mean of its trials): "
            "what all cells share, and what is left in each cell, moderated over cells"
        )
    if not comparison.between_runs:
        return "none: both systems are of one run"
    return (
        f"{band_text(comparison.between_runs)} standard deviation of a system from one run to "
        "another (--between-runs); it does not shrink with more trials"
    )


def comparison_document(
    comparison: Comparison, verifications: Sequence[Verification] | None = None
) -> Document:
    """Build the whole page; the same comparison gives the same document. `verifications` are of the
    comparison's runs, in their order."""
    marks = SideMarks(comparison)
    document = Document(
        title=_title(comparison),
        subtitle=_subtitle(comparison),
        summary=(*brief_summary(comparison), *_verified(comparison, verifications)),
        sections=(
            *_explanations(comparison, tabled=True),
            *changes_sections(comparison, marks),
            *_curves(comparison),
            *_trials(comparison),
            *(_findings(marks) if comparison.cells else ()),
            _differences(comparison),
            *_scorecards(comparison),
            *_totals(comparison),
            _matrix(comparison),
            _systems(comparison),
            *redaction_sections(*comparison.runs),
            Section(heading="Methods", id="methods", blocks=method_blocks(comparison), folded=True),
            _reproduce(comparison),
            Section(heading="Versions", id="versions", blocks=_versions(comparison), folded=True),
        ),
        marked=marks.all,
        front=front_blocks(comparison),
    )
    return shorten_levels(document, (cell.level for cell in comparison.cells))


def comparison_summary(comparison: Comparison) -> Document:
    """Build the terminal answer: key finding, rates, explanation and configuration differences."""
    marks = SideMarks(comparison)
    changes = Section(
        heading="Changes",
        id="changes",
        blocks=(brief_table("changes-brief", comparison, marks),),
    )
    document = Document(
        title=_title(comparison),
        subtitle=_subtitle(comparison),
        summary=summary(comparison),
        sections=(
            *([changes] if comparison.cells else ()),
            *_explanations(comparison),
            # The possible effects of differences are too long for a terminal.
            _differences(comparison, explained=False),
            *_findings(marks, without_info=True),
            _bottom_line(comparison),
        ),
        marked=marks.all,
    )
    return shorten_levels(document, (cell.level for cell in comparison.cells))


def comparison_section(comparison: Comparison, marks: Marks) -> Section:
    """Build the section for the page of the run with both systems; `marks` are of that page."""
    busy = busy_shares(comparison)
    # The key finding is in the summary of that page.
    texts = [*summary(comparison)[1:], busy_text(busy)]
    blocks: list[Block] = [Bullets(items=tuple(filter(None, texts)))]
    anchor = f"vs-{slug(comparison.candidate.name)}"
    # A value of a label may be compared with several others.
    anchor += f"-{slug(comparison.baseline.name)}" if comparison.by is By.LABEL else ""
    if comparison.cells:
        blocks.append(
            brief_table(f"{anchor}-changes", comparison, SideMarks(comparison, marks), busy)
        )
    if comparison.explanations:
        blocks.append(Bullets(items=_explanation_texts(comparison)))
    return Section(heading=_title(comparison), id=anchor, blocks=tuple(blocks))


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
    """Word the verification of the archives: one sentence if all are intact, else one per run."""
    if verifications is None:
        return []
    found = {
        run.path: (run.id, verification)
        for run, verification in zip(comparison.runs, verifications, strict=True)
    }
    if all(verification.ok for _, verification in found.values()):
        names = listed(name for name, _ in found.values())
        verb = f"archives of {names} are" if len(found) > 1 else f"archive of {names} is"
        return [
            f"The {verb} intact: {_checked(verification for _, verification in found.values())}."
        ]
    return [_verified_text(name, verification) for name, verification in found.values()]


def _checked(verifications: Iterable[Verification]) -> str:
    return f"{checked_text(verifications)} checked against checksums and raw output"


def _verified_text(run: str, found: Verification) -> str:
    if found.ok:
        return f"The archive of {run} is intact: {_checked([found])}."
    first = found.problems[0]
    problems = count_text(len(found.problems), "problem")
    return (
        f"The archive of {run} is NOT intact: {problems} in {_checked([found])}; "
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


def _facts_files(comparison: Comparison) -> list[str]:
    """The names of the facts files of both systems."""
    clusters = [
        cluster
        for side in (comparison.baseline, comparison.candidate)
        for cluster in side.run.plan.clusters
    ]
    return list(dict.fromkeys(cluster.facts.file for cluster in clusters if cluster.facts))


def _differences(comparison: Comparison, *, explained: bool = True) -> Section:
    table = differences_table(comparison, explained=explained)
    blocks: list[Block] = [table] if table else []
    if comparison.identical:
        blocks.append(Paragraph(text=f"Identical: {listed(comparison.identical, 40)}."))
    if not blocks:
        text = "No configuration data for either system. Import it with --inventory or --facts."
        blocks.append(Paragraph(text=text))
    elif table is None:
        blocks.insert(0, Paragraph(text="No configuration difference was found."))
    for unlike in comparison.unlike_runs:
        paths = listed((difference.path for difference in unlike.differences), 6)
        text = f"Runs of one system differ: {unlike.run} from {unlike.first} in {paths}."
        blocks.append(Paragraph(text=text))
    if files := _facts_files(comparison):
        text = f"Facts of {listed(files)} are given by the user, not measured."
        blocks.append(Paragraph(text=text))
    if comparison.unknown:
        unknown = listed(comparison.unknown, 12)
        blocks.append(Paragraph(text=f"Not reported by both systems: {unknown}."))
    if not any(map(founded, comparison.explanations)):
        blocks += [Paragraph(text=text) for text in _explanation_texts(comparison)]
    return Section(
        heading="Configuration differences", id="configuration-differences", blocks=tuple(blocks)
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
        cells = dict.fromkeys(where(comparison.cells[index]) for index in explanation.cells)
        items += [f"{text} Cells: {listed(cells, 3)}." if cells else text] if text else []
    blocks: list[Block] = []
    if tabled:
        blocks += filter(None, (explanation_chart(comparison), round_trips_table(comparison)))
    blocks += [Bullets(items=tuple(items))] if items else []
    return (Section(heading="Explanation", id="explanation", blocks=tuple(blocks)),)


def _explanation_texts(comparison: Comparison) -> tuple[str, ...]:
    return tuple(explanation_text(explanation, short) for explanation in comparison.explanations)


def _findings(marks: SideMarks, *, without_info: bool = False) -> tuple[Section, ...]:
    """`without_info` leaves context (info) out, and an empty section."""
    lists = marks.lists(without_info=without_info)
    if not lists and without_info:
        return ()
    blocks: list[Block] = [found for name, found in lists if not name]
    if not lists:
        blocks.append(Paragraph(text="The audit has no findings."))
    inner = tuple(
        Section(heading=f"About {name}", id=f"findings-{number}", blocks=(found,))
        for number, (name, found) in enumerate(lists, start=1)
        if name
    )
    return (Section(heading="Findings", id="findings", blocks=tuple(blocks), sections=inner),)


def _matrix(comparison: Comparison) -> Section:
    known = comparison.cells or comparison.baseline_alone or comparison.candidate_alone
    blocks: list[Block] = [matrix_table(comparison) if known else Paragraph(text="No cells.")]
    lacking = missing(comparison)
    if lacking:
        blocks.append(Paragraph(text=f"Without a number: {'; '.join(lacking)}."))
    return Section(heading="Test matrix", id="test-matrix", blocks=tuple(blocks), folded=True)


# --- results -------------------------------------------------------------------------------------


def _totals(comparison: Comparison) -> tuple[Section, ...]:
    patterns = {**pattern_of(comparison.candidate.run), **pattern_of(comparison.baseline.run)}

    def pattern(cell: ComparedCell) -> str:
        figure = cell.baseline_cell or cell.candidate_cell
        return patterns.get((figure.planned_workload, figure.level), "") if figure else ""

    tables = (read_write_table(comparison), patterns_table(comparison, pattern))
    blocks = tuple(filter(None, tables))
    return (
        (Section(heading="Read vs write", id="totals", blocks=blocks, folded=True),)
        if blocks
        else ()
    )


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
    strips = strip_charts(comparison)
    if strips:
        return (Section(heading="Trials", id="trials", blocks=strips),)
    charts = bar_charts(comparison)
    if not charts:
        return ()
    blocks: list[Block] = []
    if len(charts) > 1:
        options = tuple((chart.choice, name) for name, chart in charts)
        blocks.append(Choices(id="bars", label="Workload", options=options))
    blocks += [chart for _, chart in charts]
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
    names = tuple(",".join(run.id for run in side.runs) for side in (base, other))
    by: tuple[str, ...] = ()
    if comparison.by is not By.RUN and base.run.path != other.run.path:
        by = ("--by", base.name.partition("=")[0])
    elif comparison.by is not By.RUN:
        names = (base.name, other.name)
        by = ("--by", comparison.by.value, "--run", base.run.id)
    margin = ("--band", f"{comparison.band * 100:g}%")
    between: tuple[str, ...] = ()
    assumed = base.run.id != other.run.id and not comparison.has_several_runs
    if assumed and comparison.between_runs != BETWEEN_RUNS:
        between = ("--between-runs", f"{comparison.between_runs * 100:g}%")
    return shlex.join(("leadline", "compare", *names, *by, *margin, *between))


def _reproduce(comparison: Comparison) -> Section:
    return Section(
        heading="How to reproduce",
        id="reproduce",
        blocks=(Code(text=command(comparison), caption="This comparison"),),
        sections=tuple(
            Section(
                heading=f"Measuring {short(name)}",
                id=f"reproduce-{number}",
                blocks=reproduction_blocks(run),
            )
            for number, (name, run) in enumerate(_named_runs(comparison), start=1)
        ),
        folded=True,
    )


def _named_runs(comparison: Comparison) -> Sequence[tuple[str, Run]]:
    """Return each run once, with the name of its system, or its own where that has several."""
    found = {
        run.path: (run.id if side.repeats else side.name, run)
        for side in (comparison.candidate, comparison.baseline)
        for run in side.runs
    }
    return [found[run.path] for run in comparison.runs]


def _versions(comparison: Comparison) -> tuple[Block, ...]:
    pairs = [("this report by", f"Leadline {__version__}")]
    for run in comparison.runs:
        by = dict.fromkeys(session.leadline_version for session in run.manifest.sessions)
        pairs.append((f"{run.id} by", f"Leadline {listed(by)}"))
        pairs.append((f"engine of {run.id}", engine_texts(run) or "no trial"))
    return (KeyValues(pairs=tuple(pairs)),)
