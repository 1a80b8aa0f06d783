"""Expectations of a plan against hand-made comparisons."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import pytest
from archive_builder import make_run
from pydantic import ValidationError

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.expectations import ExpectationTest, Outcome, check_expectations
from leadline.analysis.verdicts import Verdict
from leadline.archive.reader import Run
from leadline.metrics import Metric, Op
from leadline.plan.expectations import Expectation
from leadline.report.document import Table
from leadline.report.pages.comparison.tables import expectation_sections
from tests.unit.report.pages.comparison.builder import cell, comparison

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("archive"))


def expecting(archive: Run, *texts: str) -> Run:
    """The run with a plan that has these expectations."""
    run = copy(archive)
    expect = tuple(Expectation.model_validate(text) for text in texts)
    run.__dict__["plan"] = archive.plan.model_copy(update={"expect": expect})
    return run


def compared(archive: Run, text: str, *cells: ComparedCell) -> tuple[ExpectationTest, ...]:
    return check_expectations(of(archive, text, *cells))


def of(archive: Run, text: str, *cells: ComparedCell) -> Comparison:
    return comparison(*cells, run=expecting(archive, text))


WORSE = cell([100.0] * 3, [70.0] * 3, Verdict.WORSE, interval=(0.65, 0.75), target="a")
SAME = cell([100.0] * 3, [100.0] * 3, Verdict.SAME, interval=(0.98, 1.02), target="b")
UNSURE = cell([100.0] * 3, [90.0] * 3, Verdict.INCONCLUSIVE, interval=(0.7, 1.1), target="c")
READ = cell([100.0] * 3, [150.0] * 3, Verdict.BETTER, interval=(1.4, 1.6), op=Op.READ)


@pytest.mark.parametrize(
    ("text", "cells", "outcome"),
    [
        ("writes worse in new", (WORSE, READ), Outcome.CONFIRMED),
        ("writes worse in new", (WORSE, UNSURE), Outcome.CONFIRMED),
        ("writes worse in new", (WORSE, UNSURE, UNSURE), Outcome.OPEN),
        ("writes worse in new", (WORSE, SAME), Outcome.OPEN),
        ("writes worse in new", (SAME, READ), Outcome.REFUTED),
        ("writes better in old", (WORSE,), Outcome.CONFIRMED),
        ("reads worse in new", (READ,), Outcome.REFUTED),
        ("writes same in new", (SAME,), Outcome.CONFIRMED),
        ("writes worse in new by 20 %", (WORSE,), Outcome.CONFIRMED),
        ("writes worse in new by at least 40%", (WORSE,), Outcome.REFUTED),
        ("writes worse in new by 30 %", (WORSE,), Outcome.OPEN),
        ("trims worse in new", (WORSE,), Outcome.OPEN),
        ("other@qd1 writes worse in new", (WORSE,), Outcome.OPEN),
    ],
)
def test_outcomes(
    archive: Run, text: str, cells: tuple[ComparedCell, ...], outcome: Outcome
) -> None:
    (found,) = compared(archive, text, *cells)
    assert found.outcome is outcome


def test_counts_and_the_range_of_the_change(archive: Run) -> None:
    (found,) = compared(archive, "writes worse in new", WORSE, SAME, UNSURE, READ)
    assert (found.cells, found.conclusive, found.as_expected) == (3, 2, 1)
    assert found.ratios == (pytest.approx(0.7), 1.0)
    (inverse,) = compared(archive, "writes better in old", WORSE)
    assert inverse.direction is Verdict.WORSE


def test_a_metric_selects_its_cells_instead_of_the_rates(archive: Run) -> None:
    slow = cell([1.0], [3.0], Verdict.WORSE, metric=Metric.LATENCY_P99, interval=(2.5, 3.5))
    (found,) = compared(archive, "p99 of writes worse in new by 100 %", slow, SAME)
    assert (found.outcome, found.cells) == (Outcome.CONFIRMED, 1)


def test_expectations_of_other_systems_are_left_out(archive: Run) -> None:
    assert compared(archive, "writes worse in elsewhere", WORSE) == ()
    nothing = comparison(WORSE, run=archive)
    assert expectation_sections(nothing) == ()


def test_the_table_has_outcome_cells_and_text(archive: Run) -> None:
    (shown,) = expectation_sections(of(archive, "writes worse in new", WORSE, UNSURE))
    (table,) = shown.blocks
    assert isinstance(table, Table)
    assert [one.text for one in table.rows[0]] == [
        "confirmed", "1 of 2 cells worse, 1 inconclusive", "-30.0 % to -10.0 %",
        "writes worse in new",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("writes wurse in new", "is not an expectation"),
        ("worse in new", "is not an expectation"),
        ({"figure": "read write", "direction": "worse", "system": "b"}, "several operations"),
        ({"figure": "p99 iops", "direction": "worse", "system": "b"}, "several operations"),
        ({"figure": "reads", "direction": "same", "system": "b", "at_least": 0.1}, "no size"),
        ({"figure": "reads", "direction": "worse", "system": "b", "at_least": -1}, "greater"),
        ({"figure": "reads", "direction": "worse", "system": ""}, "at least 1 character"),
        (7, "valid dictionary"),
    ],
)
def test_what_is_no_expectation_is_refused(given: object, fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Expectation.model_validate(given)


@pytest.mark.parametrize("system", [HOSTILE, "אחסון-מהיר", "x" * 300, "two words"])
def test_any_name_of_a_system_is_kept(system: str) -> None:
    found = Expectation.model_validate(f"big files@qd16 read p99 better in {system} by 5 %")
    assert (found.system, found.at_least) == (system, 0.05)
    assert found.selection == ("big files", "qd16", Op.READ, Metric.LATENCY_P99)
    assert Expectation.model_validate(found.text) == found


def test_a_plan_without_expectations_is_written_as_before(archive: Run) -> None:
    assert "expect" not in archive.plan.model_dump()
    with_one = expecting(archive, "writes worse in new").plan
    assert type(with_one).model_validate_json(with_one.model_dump_json()).expect == with_one.expect


def test_cells_without_a_ratio_have_no_range(archive: Run) -> None:
    judgement = replace(UNSURE.judgement, ratio=None, interval=None)
    (found,) = compared(archive, "writes worse in new", replace(UNSURE, judgement=judgement))
    assert found.ratios is None
