"""A page of very many targets, or of very long names, can still be sent and opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.figures import figures
from leadline.report.pages.run.page import run_document
from leadline.report.render import html

LARGEST = 3_000_000


@pytest.mark.thorough
@pytest.mark.parametrize(
    "names",
    [
        pytest.param([f"pool-{number:03d}" for number in range(200)], id="200 targets"),
        pytest.param([f"{number:02d}{'x' * 298}" for number in range(60)], id="300 characters"),
    ],
)
def test_the_page_stays_small_and_has_every_number(tmp_path: Path, names: list[str]) -> None:
    run = make_run(tmp_path, small_plan(names, repeats=1))
    page = html.render(run_document(run, figures(run, ()), ()))
    assert len(page.encode()) < LARGEST
    for name in names:
        assert page.count(name) >= 7, "a row of each operation"
    assert 'id="scorecard-rate"' in page
