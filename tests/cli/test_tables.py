"""CSV and Markdown are what their readers expect, whatever the targets are called."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from leadline.metrics import IO_METRICS
from leadline.report.answers.run import SHOW_COLUMNS, TRIAL_COLUMNS
from tests.cli.conftest import TRUSTED, Leadline, refused
from tests.conftest import Said

HOSTILE = [
    "a|b",
    "<img src=x onerror=alert(1)>",
    'quote"d, and',
    "`code` *bold* [link](javascript:alert(1))",
    "=1+1",
    "ünïcödé-目標",
]


@pytest.fixture
def hostile_run(leadline: Leadline, tmp_path: Path, target: Path, recorded: Path) -> Said:
    targets = []
    for number, name in enumerate(HOSTILE):
        (target / str(number)).mkdir()
        targets.append(json.dumps({"name": name, "target": f"dir:{target}/{number}"}))
    plan = tmp_path / "hostile.yaml"
    plan.write_text(TRUSTED.format(targets=", ".join(targets)))
    said = leadline("run", plan, "--replay", recorded, "--quiet")
    assert said.status == 0, said.err
    return said


def of_csv(text: str) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    rows = list(reader)
    assert all(None not in row and None not in row.values() for row in rows), "columns are equal"
    return rows


def of_markdown(text: str) -> list[list[str]]:
    """Cells of each line of one table; a bar that is escaped is text."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines()]
    assert {len(row) for row in rows} == {len(rows[0])}, "columns are equal"
    assert {cell.strip() for cell in rows[1]} == {"---"}
    return [rows[0], *rows[2:]]


@pytest.mark.parametrize(
    ("options", "columns"), [([], SHOW_COLUMNS), (["--trials"], TRIAL_COLUMNS)]
)
def test_show_as_csv_holds_the_exact_names_and_full_precision(
    hostile_run: Said, leadline: Leadline, options: list[str], columns: tuple[str, ...]
) -> None:
    rows = of_csv(leadline("show", *options, "--format", "csv-raw").out)
    assert tuple(rows[0]) == columns
    assert list(dict.fromkeys(row["target"] for row in rows)) == HOSTILE
    shown = json.loads(leadline("show", "--format", "json").out)["measurements"]
    told = {(row["target"], row["metric"]): row["value"] for row in rows}
    for row in shown:
        text = told[row["target"], row["metric"]]
        assert (float(text) if text else None) == row["value"]


def test_show_as_markdown_keeps_its_columns_and_lets_no_markup_in(
    hostile_run: Said, leadline: Leadline
) -> None:
    said = leadline("show", "--format", "markdown").out
    header, *rows = of_markdown(said)
    assert [cell.strip() for cell in header] == [name.replace("_", "\\_") for name in SHOW_COLUMNS]
    # Which costs of an I/O are known depends on the machine.
    rates = [row for row in rows if row[4].strip().replace("\\", "") in IO_METRICS]
    assert len(rates) == len(HOSTILE) * 8
    assert "<img" not in said
    assert not re.search(r"(?<!\\)[`\[]", said)


def test_list_and_report_bear_hostile_names(
    hostile_run: Said, leadline: Leadline, tmp_path: Path
) -> None:
    (row,) = of_csv(leadline("list", "--format", "csv").out)
    assert row["targets"] == ", ".join(HOSTILE)
    of_markdown(leadline("list", "--format", "markdown").out)
    page = tmp_path / "page.html"
    assert leadline("report", "-o", page).status == 0
    assert "<img" not in page.read_text()
    assert "&lt;img" in page.read_text()


def test_names_with_control_characters_are_refused(leadline: Leadline, tmp_path: Path) -> None:
    for name in ("tab\there", "esc\x1b[2J", "line\nbreak", "\x7f"):
        plan = tmp_path / "plan.yaml"
        plan.write_text(
            f"targets: [{{target: 'dir:/mnt', name: {json.dumps(name)}}}]\nprofile: quick\n"
        )
        told = refused(leadline("check", plan), 2, "plan-invalid")
        assert "targets[0].name" in told
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", told)
