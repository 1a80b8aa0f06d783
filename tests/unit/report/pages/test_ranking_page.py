"""The page of a ranking: what its pictures hold, few words, and names that are long or hostile."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from archive_builder import make_run, small_plan, some_findings

from leadline.analysis.figures import figures
from leadline.analysis.objectives import every_rate
from leadline.analysis.ranking import Ranking, rank
from leadline.analysis.requirements import Protection, protections
from leadline.archive.reader import Run
from leadline.findings import Finding
from leadline.judge import Judge, recommended_for_uses
from leadline.report.document import Document, HeatMap, LineChart, Table, Tiles
from leadline.report.pages.ranking import ranking_document
from leadline.report.pages.run.page import run_document
from leadline.report.render import html, markdown
from tests.conftest import RECORDED
from tests.golden.every_block import HOSTILE, LONG, RIGHT_TO_LEFT

PAGES = RECORDED.parents[2] / "docs" / "examples"
_NOT_PROSE = ("table", "figure", "svg", "script", "style", "nav", "title")


class Prose(HTMLParser):
    """Counts words outside tables, pictures and scripts, in folded parts, too."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self._inside = 0, 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._inside += tag in _NOT_PROSE

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag in _NOT_PROSE

    def handle_data(self, data: str) -> None:
        self.words += 0 if self._inside else len(data.split())


def words(page: str) -> int:
    found = Prose()
    found.feed(page)
    return found.words


def ranked(run: Run, findings: tuple[Finding, ...] = ()) -> Ranking:
    rows = figures(run, findings)
    return rank(run, rows, every_rate(run, rows))


def document_of(
    run: Run,
    given: dict[str, Protection] | None = None,
    findings: tuple[Finding, ...] = (),
) -> Document:
    known = given or dict(protections(run))
    uses = recommended_for_uses(run, Judge(), band=0.05)
    return ranking_document(run, ranked(run, findings), known, figures(run, findings), uses)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"))


def test_the_first_screen_has_tiles_the_order_and_every_figure(run: Run) -> None:
    tiles, order, drawn = document_of(run).front
    assert isinstance(tiles, Tiles)
    assert [tile.title for tile in tiles.tiles] == [
        "Fastest", "Fastest with most copies", "Most usable capacity", "Trust",
    ]  # fmt: skip
    assert tiles.tiles[0].value == "memory"
    assert tiles.tiles[1].value == "unknown", "a directory has no known copies"
    assert isinstance(order, Table)
    score = [column.title for column in order.columns].index("score")
    drawings = [row[score].gauge for row in order.rows]
    assert [gauge.value if gauge else None for gauge in drawings] == [
        standing.score for standing in ranked(run).complete
    ]
    assert isinstance(drawn, HeatMap)
    for column in range(len(drawn.columns)):
        shades = [row[column].shade for row in drawn.cells if row[column].shade is not None]
        assert max(shades) == 1.0, "the best of each column"


def test_the_trade_off_needs_what_is_known_of_two_targets(run: Run) -> None:
    assert not [one for one in document_of(run).sections if one.id == "trade-off"]
    given = {
        "disk": Protection(copies=3, failures_survived=2, raw_per_stored=3.0),
        "memory": Protection(copies=2, failures_survived=1, raw_per_stored=2.0),
    }
    document = document_of(run, given)
    (section,) = (one for one in document.sections if one.id == "trade-off")
    (chart,) = section.blocks
    assert isinstance(chart, LineChart)
    points = {line.label: line.points for line in chart.lines if line.label}
    assert {label: x for label, ((x, _),) in points.items()} == {
        "disk": pytest.approx(1 / 3), "memory": 0.5,
    }  # fmt: skip
    order = document.front[1]
    assert isinstance(order, Table)
    boxes = {row[0].text: [cell.gauge.boxes for cell in row if cell.gauge] for row in order.rows}
    assert (3, 0) in boxes["disk"]
    assert (2, 0) in boxes["memory"]


def test_a_refused_figure_is_struck_out_and_counted(run: Run) -> None:
    findings = some_findings()
    document = document_of(run, findings=findings)
    drawn = next(block for block in document.front if isinstance(block, HeatMap))
    refused = [cell for row in drawn.cells for cell in row if cell.refused]
    assert refused
    assert all(cell.shade is None for cell in refused)
    assert all(cell.note.startswith("refused: ") for cell in refused)


@pytest.mark.parametrize(
    "targets", [60, pytest.param(200, marks=[pytest.mark.thorough, pytest.mark.deep])]
)
def test_many_targets_and_one_trial(tmp_path: Path, targets: int) -> None:
    names = [f"pool-{number:03d}" for number in range(targets)]
    many = make_run(tmp_path, small_plan(names, repeats=1), recorded_for=lambda _: "disk")
    rows = figures(many, ())
    document = ranking_document(many, ranked(many), protections(many), rows)
    drawn = next(block for block in document.front if isinstance(block, HeatMap))
    assert (len(drawn.rows), drawn.title) == (40, f"Figures (40 of {targets} targets)")
    page = html.render(document)
    assert len(page) < 1_000_000
    assert words(page) < 300


def test_hostile_and_long_names_stay_text(tmp_path: Path) -> None:
    names = ["pool", HOSTILE, LONG, RIGHT_TO_LEFT]
    strange = make_run(tmp_path, small_plan(names), recorded_for=lambda _: "disk")
    document = document_of(strange)
    page = html.render(document)
    assert "<img" not in page
    assert "<bdi" in page
    assert "<img" not in markdown.render(document)
    assert len(document.summary[0].split()) <= 40


def test_every_target_refused_has_a_page(tmp_path: Path) -> None:
    nothing = make_run(tmp_path, fails=lambda *_: True)
    document = ranking_document(nothing, ranked(nothing), protections(nothing))
    assert document.summary[0].startswith("No target has every number")
    assert "none has a rank" in html.render(document)


def test_pages_of_examples_have_few_words() -> None:
    """The bound of a run's page is 1,200 words, folded parts included."""
    pages = ("openebs-and-rook.html", "openebs-and-rook-as-run.html")
    counts = {name: words((PAGES / name).read_text("utf-8")) for name in pages}
    assert all(count <= 1200 for count in counts.values()), counts


def test_a_page_of_a_run_has_few_words(run: Run) -> None:
    findings = some_findings()
    page = html.render(run_document(run, figures(run, findings), findings))
    assert words(page) <= 1200
    headline = run_document(run, figures(run, ()), ()).summary[0]
    assert len(headline.split()) <= 20
