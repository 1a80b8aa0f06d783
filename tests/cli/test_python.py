"""`import leadline`: the same answers for notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import leadline as package
from leadline.archive.runs import list_runs
from leadline.errors import LeadlineError
from leadline.metrics import IO_METRICS
from tests.cli.conftest import Leadline, as_written
from tests.conftest import Said

COLUMNS = {
    "trial": "string",
    "target": "string",
    "workload": "string",
    "level": "string",
    "block": "int64",
    "op": "string",
    "metric": "string",
    "value": "double",
    "unit": "string",
    "histogram_ns": "list<item: int64>",
    "histogram_counts": "list<item: int64>",
}


@pytest.fixture
def path(quick: Callable[..., Said], tmp_path: Path) -> Path:
    quick()
    (run,) = list_runs(tmp_path / "runs")
    return run.path


def test_measurements_are_an_arrow_table_of_the_documented_columns(path: Path) -> None:
    table = package.open_run(path).measurements()
    types = {field.name: str(field.type) for field in table.schema}
    assert list(types) == list(COLUMNS)
    assert {name: kind.replace("element", "item") for name, kind in types.items()} == COLUMNS
    rows = table.to_pylist()
    keys = {(row["trial"], row["op"], row["metric"]) for row in rows}
    assert len(keys) == len(rows), "one row per trial, operation and metric"
    assert {row["metric"] for row in rows} == set(IO_METRICS)
    for name in OWN_WORDS:
        assert name in (package.open_run.__doc__ or "") + (
            type(package.open_run(path)).measurements.__doc__ or ""
        )


OWN_WORDS = ("histogram_ns", "histogram_counts", "block", "unit")


def test_values_and_histograms_agree(path: Path) -> None:
    for row in package.open_run(path).measurements().to_pylist():
        if row["metric"] != "latency_mean":
            assert row["histogram_ns"] is None
            continue
        nanoseconds, counts = row["histogram_ns"], row["histogram_counts"]
        assert len(nanoseconds) == len(counts) > 10
        mean = sum(n * c for n, c in zip(nanoseconds, counts, strict=True)) / sum(counts)
        assert mean / 1e9 == pytest.approx(row["value"], rel=0.02)


def test_it_is_what_the_command_line_shows(path: Path, leadline: Leadline) -> None:
    run = package.open_run(path)
    audited = json.loads(leadline("audit", path, "--format", "json").out)["findings"]
    assert [finding.code for finding in run.audit()] == [one["code"] for one in audited]
    assert audited
    assert run.verify().ok
    assert run.id == path.name
    shown = json.loads(leadline("show", path, "--trials", "--format", "json").out)
    told = {
        (value["trial"], row["op"], row["metric"]): value["value"]
        for row in shown["measurements"]
        for value in row["values"]
    }
    for row in as_written(run.measurements().to_pylist()):
        assert told[row["trial"], row["op"], row["metric"]] == row["value"]


def test_runs_are_named_as_on_the_command_line(path: Path) -> None:
    assert package.open_run("@latest").id == package.open_run(str(path)).id == path.name
    assert package.open_run(path.name[:-2]).id == path.name
    with pytest.raises(LeadlineError, match="there is no run 'nope'") as caught:
        package.open_run("nope")
    assert caught.value.kind.code == "run-not-found"


def test_a_damaged_archive_does_not_verify(path: Path) -> None:
    (path / "plan.json").write_text("{}")
    verification = package.open_run(path).verify()
    assert not verification.ok
    assert "plan.json" in {problem.path for problem in verification.problems}


def test_what_there_is_can_be_listed() -> None:
    verbs = {"compare", "open_run", "rank", "layers", "scale", "study_settings"}
    assert set(package.__all__) == {"__version__", *verbs}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense
