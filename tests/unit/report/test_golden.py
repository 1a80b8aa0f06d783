"""Rendered reports as they were agreed on; UPDATE_GOLDEN=1 rewrites them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from archive_builder import make_run, some_findings
from rich.console import Console

from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.archive.verify import verify
from leadline.report.answers.run import show_output, show_table
from leadline.report.document import Document
from leadline.report.pages.run.page import run_document
from leadline.report.render import markdown, terminal
from tests.kept_text import check_kept

GOLDEN = Path(__file__).parents[2] / "golden" / "rendered"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(
        tmp_path_factory.mktemp("run"),
        fails=lambda target, workload, block: (
            (target, workload) == ("memory", "mixed-70-30-4k")
            or (target, workload, block) == ("disk", "randread-4k-qd1", 1)
        ),
    )


@pytest.fixture(scope="module")
def document(run: Run) -> Document:
    findings = some_findings()
    return run_document(run, figures(run, findings), findings, verify(run))


@pytest.fixture(scope="module")
def plain(run: Run) -> Document:
    """As a terminal gets it."""
    findings = some_findings()
    return run_document(run, figures(run, findings), findings, verify(run), charts=False)


def check(name: str, text: str) -> None:
    check_kept(GOLDEN / name, text)


def test_markdown(document: Document) -> None:
    check("run.md", markdown.render(document))


def test_show_json(run: Run) -> None:
    findings = some_findings()
    shown = show_output(run, figures(run, findings), findings, trials=True)
    check("show.json", shown.to_json() + "\n")


def test_show_csv(run: Run) -> None:
    shown = show_output(run, figures(run, some_findings()))
    check("show.csv", show_table(shown, "csv") + "\n")


@pytest.mark.parametrize("width", [100, 80])
def test_terminal(plain: Document, width: int) -> None:
    stream = io.StringIO()
    terminal.render(Console(width=width, file=stream, no_color=True), plain)
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    check(f"terminal-{width}.txt", text)


def test_every_trial_in_the_terminal(plain: Document) -> None:
    stream = io.StringIO()
    terminal.render(Console(width=80, file=stream, no_color=True), plain, trials=True)
    assert "every trial: read · IOPS" in stream.getvalue()
    assert "Methods" not in stream.getvalue()


def test_the_same_archive_gives_the_same_document(run: Run, document: Document) -> None:
    findings = some_findings()
    again = Run(run.path)
    assert run_document(again, figures(again, findings), findings, verify(again)) == document
