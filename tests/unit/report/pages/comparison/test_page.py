"""The page of a comparison: what stands in it is what the comparison says, whatever its names."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from archive_builder import make_run, small_plan, some_findings
from rich.console import Console

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, Comparison, two_runs, within_run
from leadline.analysis.figures import figures
from leadline.analysis.verdicts import Verdict
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.archive.verify import verify
from leadline.findings import Finding, Severity
from leadline.metrics import Metric, Op
from leadline.report.curves import percentiles_of
from leadline.report.document import (
    BarChart,
    Block,
    DeltaChart,
    Document,
    HeatMap,
    LineChart,
    Section,
    Table,
)
from leadline.report.marks import Marks
from leadline.report.pages.comparison.charts import MOST_ROWS, delta_chart, ratio_scale
from leadline.report.pages.comparison.method import command
from leadline.report.pages.comparison.page import (
    comparison_document,
    comparison_section,
    comparison_summary,
)
from leadline.report.pages.comparison.totals import busy_shares
from leadline.report.render import html, markdown, terminal
from leadline.report.words import change_text
from tests.unit.report.pages.comparison.builder import cell, comparison, judged, study

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return study(tmp_path_factory.mktemp("study"))


def blocks(document: Document) -> Iterator[Block]:
    def of(section: Section) -> Iterator[Block]:
        yield from section.blocks
        for inner in section.sections:
            yield from of(inner)

    for section in document.sections:
        yield from of(section)


def table(document: Document, anchor: str) -> Table:
    return next(one for one in blocks(document) if isinstance(one, Table) and one.id == anchor)


def rendered(document: Document) -> tuple[str, str, str]:
    """(page, Markdown, terminal at 80 columns)."""
    stream = io.StringIO()
    terminal.render(Console(width=80, file=stream, no_color=True), document, full=True)
    return html.render(document), markdown.render(document), stream.getvalue()


def test_every_change_in_the_tables_is_the_ratio_of_its_row(published: Comparison) -> None:
    document = comparison_document(published)
    told = table(document, "delta-rate-table")
    titles = [column.title for column in told.columns]
    rows = {tuple(one.text for one in row[:3]): row for row in told.rows}
    cells = [one for one in published.cells if one.rate]
    assert len(rows) == len(cells)
    for one in cells:
        row = rows[one.target, one.workload, one.op.value if one.op else "–"]
        change = row[titles.index("change")]
        if one.baseline is None or one.candidate is None:
            assert change.missing
            continue
        assert one.baseline.value
        assert one.candidate.value
        assert change.text == change_text(one.candidate.value / one.baseline.value)
        assert row[titles.index("verdict")].text == one.verdict.value
        assert row[titles.index("single-zone")].sort == one.baseline.value
        assert row[titles.index("multi-zone")].sort == one.candidate.value


def test_the_order_of_the_page(published: Comparison) -> None:
    document = comparison_document(published)
    assert document.title == "multi-zone vs single-zone"
    order = [section.id for section in document.sections]
    assert document.front
    assert order.index("trials") < order.index("findings")
    assert order.index("findings") < order.index("configuration-differences")
    assert order.index("configuration-differences") < order.index("changes")
    folded = {section.id for section in document.sections if section.folded}
    details = ["scorecard", "totals", "test-matrix", "systems", "methods"]
    assert order[-len(details) :] == details
    assert folded == set(details)


def test_the_missing_cell_is_missing_on_both_sides(published: Comparison) -> None:
    document = comparison_document(published)
    matrix = table(document, "matrix")
    column = [one.title for one in matrix.columns].index("random-rw-4k")
    missing = {row[0].text for row in matrix.rows if row[column].missing}
    assert missing == {"rep3-virt"}
    scores = table(document, "score-target")
    means = {row[0].text: row[-1] for row in scores.rows}
    assert means["rep3-virt"].missing
    assert "incomplete" in means["rep3-virt"].note
    assert not means["rep3"].missing


def test_a_mean_change_is_the_geometric_mean_of_the_ratios(published: Comparison) -> None:
    scores = table(comparison_document(published), "score-target")
    mean = next(row[-1] for row in scores.rows if row[0].text == "ec-2-1")
    ratios = [
        one.candidate.value / one.baseline.value
        for one in published.cells
        if one.target == "ec-2-1"
        and one.rate
        and one.baseline
        and one.candidate
        and one.baseline.value
        and one.candidate.value
    ]
    assert len(ratios) == 5
    assert mean.sort == pytest.approx(math.prod(ratios) ** (1 / 5))


def test_a_total_is_not_counted_beside_its_parts() -> None:
    one = comparison(
        cell([100], [80], Verdict.WORSE, op=Op.WRITE),
        cell([100], [125], Verdict.BETTER, op=Op.READ),
        cell([200], [205], Verdict.SAME, op=Op.TOTAL),
    )
    from leadline.report.pages.comparison.totals import scorecard

    row = scorecard("s", one, lambda each: each.target, "target").rows[0]
    assert row[-1].sort == pytest.approx(1.0)


def test_the_map_and_the_charts_hold_what_the_table_holds(published: Comparison) -> None:
    document = comparison_document(published)
    deltas = [one for one in blocks(document) if isinstance(one, DeltaChart)]
    rates = [one for one in published.cells if one.rate and one.judgement.ratio]
    assert len(deltas[0].rows) == len(rates)
    assert [row.ratio for row in deltas[0].rows] != sorted(row.ratio or 0 for row in deltas[0].rows)
    writes = [one.judgement.ratio for one in rates if one.op is Op.WRITE]
    assert [row.ratio for row in deltas[0].rows[: len(writes)]] == sorted(writes)
    heat = next(one for one in blocks(document) if isinstance(one, HeatMap))
    assert heat.rows == tuple(dict.fromkeys(one.target for one in published.cells)), "no baseline"
    shown = {text.text for row in heat.cells for text in row}
    assert "-26.9 %" in shown
    assert "missing" in shown
    for row in heat.cells:
        for one in row:
            if one.shade:
                assert (one.shade > 0) == one.text.startswith("+")
    bars = [one for one in blocks(document) if isinstance(one, BarChart)]
    assert all(one.series == ("single-zone", "multi-zone") for one in bars)
    assert sum(len(one.groups) for one in bars) == len(rates)


def test_latency_that_rises_is_shaded_as_worse(published: Comparison) -> None:
    maps = [one for one in blocks(comparison_document(published)) if isinstance(one, HeatMap)]
    worst = next(one for row in maps[1].cells for one in row if one.text == "+82.2 %")
    assert worst.shade is not None
    assert worst.shade < 0


def test_labels_of_two_runs_never_collide(published: Comparison) -> None:
    document = comparison_document(published)
    labels = [mark.label for mark in document.marked]
    assert labels == ["I1b", "I1c"]
    page, wiki, _ = rendered(document)
    for label in labels:
        assert f'id="finding-{label.lower()}"' in page
        assert f"**{label} info" in wiki


def test_anchors_are_unique_and_lead_somewhere(published: Comparison) -> None:
    page, _, _ = rendered(comparison_document(published))
    identifiers = re.findall(r' id="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(identifiers)


def test_the_command_makes_the_comparison_again(published: Comparison) -> None:
    assert command(published) == "leadline compare study-single-zone study-multi-zone --band 5%"


def test_the_same_input_gives_the_same_page(published: Comparison) -> None:
    assert comparison_document(published) == comparison_document(published)


# --- runs of our own ----------------------------------------------------------------------------


def within(run: Run, findings: tuple[Finding, ...] = (), names: str = "disk memory") -> Comparison:
    ours, theirs = names.split()
    told = (figures(run, findings), findings)
    return compare(*within_run(run, By.TARGET, ours, theirs, lambda _: told), by=By.TARGET)


def test_findings_of_one_run_are_told_once(tmp_path: Path) -> None:
    finding = Finding(
        code="not-steady", severity=Severity.WARNING, target="disk", message="m", remedy="r"
    )
    document = comparison_document(within(make_run(tmp_path), (finding,)))
    assert [mark.label for mark in document.marked] == ["W1"]
    assert next(one for one in document.sections if one.id == "findings").blocks
    rates = table(document, "delta-rate-table")
    titles = [column.title for column in rates.columns]
    assert all(row[titles.index("disk")].marks for row in rates.rows)
    assert not any(row[titles.index("memory")].marks for row in rates.rows)


def test_a_run_page_embeds_the_comparison_with_its_own_marks(tmp_path: Path) -> None:
    finding = Finding(
        code="not-steady", severity=Severity.WARNING, target="disk", message="m", remedy="r"
    )
    other = replace(finding, code="a-code-before-it", target="memory")
    found = within(make_run(tmp_path), (finding, other))
    section = comparison_section(found, Marks((finding, other)))
    told = next(one for one in section.blocks if isinstance(one, Table))
    labels = {mark.label for row in told.rows for one in row for mark in one.marks}
    assert labels == {"W1", "W2"}
    assert "cores busy" in [column.title for column in told.columns]


def test_busy_shares_are_of_whole_trials(tmp_path: Path) -> None:
    shares = busy_shares(within(make_run(tmp_path)))
    assert set(shares.values()) == {0.41}


def test_refused_numbers_are_marked_and_have_no_verdict(tmp_path: Path) -> None:
    error = Finding(
        code="cache-served-reads", severity=Severity.ERROR, message="All.", remedy="Use direct I/O."
    )
    found = within(make_run(tmp_path), (error,))
    document = comparison_document(found)
    assert document.summary[0].startswith("No verdict on ")
    assert "cache-served-reads" in document.summary[0]
    assert not re.search(r"\d %", " ".join(document.summary))
    page, wiki, text = rendered(document)
    assert "not comparable" in page
    assert "not comparable" in wiki
    assert "No verdict on" in text


def test_nothing_completed(tmp_path: Path) -> None:
    run = make_run(tmp_path, fails=lambda *_: True, status=RunStatus.INTERRUPTED, inventory=False)
    document = comparison_document(within(run))
    assert document.summary[0].startswith("No verdict on ")
    assert not any(isinstance(one, DeltaChart | HeatMap | BarChart) for one in blocks(document))
    for text in rendered(document):
        assert "missing" in text


def test_runs_with_nothing_in_common(tmp_path: Path) -> None:
    first = make_run(tmp_path, small_plan(["disk", "memory"]), run_id="one")
    second = make_run(tmp_path, small_plan(["a", "b"]), run_id="two", recorded_for=lambda _: "disk")
    found = compare(*two_runs(first, second, judged), by=By.RUN)
    document = comparison_document(found)
    assert document.summary[0].startswith("Nothing can be compared: ")
    assert "disk" in comparison_summary(found).summary[0]
    for text in (*rendered(document), *rendered(comparison_summary(found))):
        assert "Nothing can be compared" in re.sub(r"\s+", " ", text)


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        "</script><script>alert(1)</script>",
        "x" * 300,
        "אחסון-מהיר",
        "evil\u202egnp.exe",
        "a|b`c`*d*",
    ],
)
def test_names_stay_text_and_pages_readable(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path, small_plan([name, "disk"]))
    told = (figures(run, ()), ())
    found = compare(*within_run(run, By.TARGET, "disk", name, lambda _: told), by=By.TARGET)
    document = comparison_document(found)
    page, wiki, text = rendered(document)
    assert "<img" not in page
    outside = re.sub(r"(?s)^(```+)$.*?^\1$", "", wiki, flags=re.MULTILINE)
    assert "<img" not in outside
    assert "<script" not in outside
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", page + wiki + text)
    assert all(len(sentence) < 900 for sentence in document.summary)
    for grid in re.findall(r"(?m)(?:^\|.*\n)+", wiki):
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in grid.splitlines()}
        assert len(columns) == 1, "a name broke a table row"


def test_two_hundred_targets(tmp_path: Path) -> None:
    names = [f"pool-{number:03d}" for number in range(1, 201)]
    plan = small_plan(names, repeats=1)
    trial = plan.trials[0].model_copy(update={"cell": 0})
    first = plan.model_copy(update={"cells": plan.cells[:1], "trials": (trial,)})
    cells = [
        cell(
            [1000, 1001],
            [1000 - number, 1001 - number],
            Verdict.WORSE if number > 50 else Verdict.SAME,
            target=name,
        )
        for number, name in enumerate(names, start=1)
    ]
    found = comparison(*cells, run=make_run(tmp_path, first))
    document = comparison_document(found)
    delta = next(one for one in blocks(document) if isinstance(one, DeltaChart))
    assert len(delta.rows) == MOST_ROWS
    assert f"the {MOST_ROWS} largest changes of 200 cells" in delta.title
    assert delta.rows[0].ratio == pytest.approx(801 / 1001)
    assert {row.label for row in delta.rows} == {f"pool-{n:03d}" for n in range(161, 201)}
    assert len(table(document, "delta-rate-table").rows) == 200
    heat = next(one for one in blocks(document) if isinstance(one, HeatMap))
    assert len(heat.rows) == MOST_ROWS
    assert "40 of 200 targets" in heat.title
    page, _, _ = rendered(document)
    assert len(page) < 1_000_000
    assert "(same in 50" not in document.summary[0]
    assert "(worse in 150 and same in 50 of 200 cells)" in page


# --- scales -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1e-4, 0.3, 0.95, 1.0, 1.02, 3.0, 5000.0])
def test_a_scale_holds_its_rows_its_band_and_no_change(ratio: float) -> None:
    verdict = Verdict.SAME if ratio == 1 else Verdict.WORSE
    chart = delta_chart("d", "Change", [cell([1000.0], [1000.0 * ratio], verdict)])
    assert chart
    scale = chart.scale
    assert scale.low < min(ratio, 0.95)
    assert scale.high > max(ratio, 1.05)
    ticks = [tick for tick, _ in scale.ticks]
    assert 1.0 in ticks
    assert ticks == sorted(set(ticks))
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    assert 2 <= len(ticks) <= 12


def test_one_wide_interval_does_not_squeeze_the_others() -> None:
    chart = delta_chart(
        "d",
        "Change",
        [cell([100], [90], Verdict.INCONCLUSIVE, interval=(1e-6, 1e6))],
    )
    assert chart
    assert ratio_scale("", chart.rows).high < 2


# --- few words ----------------------------------------------------------------------------------

# Elements whose words a reader looks up rather than reads.
LOOKED_UP = frozenset(("table", "figure", "svg", "script"))
# Elements without an end.
VOID = frozenset(("meta", "input", "br"))


class Words(HTMLParser):
    """The words of <main> outside tables and pictures, those of folded parts too."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        hidden = tag in LOOKED_UP or bool({"boxes", "tools"} & {*classes})
        if tag not in VOID:
            self.open.append((tag, hidden))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if any(tag == "main" for tag, _ in self.open) and not any(cut for _, cut in self.open):
            self.found += data.split()


def words_of(page: str) -> list[str]:
    parser = Words()
    parser.feed(page)
    return parser.found


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    run = make_run(tmp_path_factory.mktemp("measured"))
    findings = some_findings()
    told = (figures(run, findings), findings)
    return compare(*within_run(run, By.TARGET, "disk", "memory", lambda _: told), by=By.TARGET)


@pytest.mark.parametrize("name", ["published", "measured"])
def test_a_page_has_at_most_six_hundred_words(name: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(name)
    document = comparison_document(found, [verify(run) for run in found.runs])
    words = words_of(html.render(document))
    assert document.summary[0].split()[0] in words, "the headline is counted"
    assert len(words) <= 600
    headline, *bullets = document.summary
    assert len(headline.split()) <= 20
    assert len(bullets) <= 5
    assert all(len(text.split()) <= 20 for text in bullets)


def test_each_finding_of_a_cell_is_a_mark_in_the_table_of_findings(measured: Comparison) -> None:
    shown = table(comparison_document(measured), "findings-by-cell")
    titles = [(column.title, column.unit) for column in shown.columns]
    rows = [one for one in measured.cells if one.rate]
    assert len(shown.rows) == len(rows)
    for row, one in zip(shown.rows, rows, strict=True):
        for system, figure in (("disk", one.baseline_cell), ("memory", one.candidate_cell)):
            assert figure
            codes = {
                mark.code
                for metric in figure.metrics
                for mark in metric.finding_marks
                if not mark.whole_run or mark.severity is Severity.ERROR
            }
            marked = {
                mark.code
                for (_, unit), shown_cell in zip(titles, row, strict=True)
                if unit == system
                for mark in shown_cell.marks
            }
            assert marked == codes


def test_a_number_has_one_mark_whatever_its_findings(measured: Comparison) -> None:
    page = html.render(comparison_document(measured))
    assert 'title="client-saturated, ' in page or "not-steady" in page
    assert not re.search(r"</a><a class=\"mark", page)


def test_a_percentile_curve_goes_through_the_percentiles_of_the_table(
    measured: Comparison,
) -> None:
    charts = [
        one
        for one in blocks(comparison_document(measured))
        if isinstance(one, LineChart) and one.panel
    ]
    drawn = [one for one in measured.cells if one.rate and one.op is not Op.TOTAL]
    assert len(charts) == len(drawn)
    assert len({(one.x.low, one.x.high, one.y.low, one.y.high) for one in charts}) == 1
    for chart, one in zip(charts, drawn, strict=True):
        for line, row in zip(chart.lines, (one.baseline_cell, one.candidate_cell), strict=True):
            assert row
            values = [value for _, value in line.points]
            assert values == sorted(values)
            known = set(percentiles_of(row).values())
            marked = {point[1] for point, text in zip(line.points, line.texts, strict=True) if text}
            assert marked == known


def test_processor_time_of_an_io_is_that_of_the_busy_cores(measured: Comparison) -> None:
    (chart,) = (
        one
        for one in blocks(comparison_document(measured))
        if isinstance(one, BarChart) and one.id == "processor-time"
    )
    first = next(one for one in measured.cells if one.rate)
    (run,) = measured.runs
    trial = next(one for one in run.trials if one.record.target == "disk")
    assert trial.record.processor
    cores = trial.record.processor.busy_share * trial.record.processor.cores
    ops = [
        one.baseline.value
        for one in measured.cells
        if one.metric is Metric.IOPS
        and one.op is not Op.TOTAL
        and one.workload == first.workload
        and one.baseline
        and one.baseline.value
    ]
    assert len(ops) == 1, "one operation, so that the medians of both are of one trial"
    group = next(one for one in chart.groups if first.workload in one.label)
    # All trials of the archive have the same processor.
    assert group.bars[0].value == pytest.approx(cores / ops[0], rel=1e-3)
    assert "41 % busy" in group.bars[0].text
