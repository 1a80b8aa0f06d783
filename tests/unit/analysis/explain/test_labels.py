"""What labels let one expect, held against what changed; no cause is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compared_cells import Row, cells, difference

from leadline.analysis.comparison import Explanation
from leadline.analysis.explain.explain import Facts, explain
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference
from leadline.metrics import Op


def label(key: str, baseline: str, candidate: str) -> Difference:
    return replace(difference(f"targets.rep3.labels.{key}", baseline, candidate), target="rep3")


def expected(row: Row, *differences: Difference) -> Explanation | None:
    _, found = explain(cells(row), differences, Facts())
    told = [one for one in found if one.text.startswith("The label says")]
    assert len(told) <= 1
    return told[0] if told else None


@pytest.mark.parametrize(
    ("candidate_ms", "closes", "said"),
    [
        (2.6, True, "keep within that; whether cores limited was not observed"),
        (0.5, False, "x 10): the number of cores alone does not account for them"),
        (8.0, False, "are lower with more cores"),
    ],
)
def test_twice_the_cores_give_at_most_twice_the_rate(
    candidate_ms: float, closes: bool, said: str
) -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=candidate_ms * 1e-3)
    one = expected(row, label("cores", "1", "2"))
    assert one is not None
    assert one.closes is closes
    assert said in one.text
    assert one.paths == ("targets.rep3.labels.cores",)


def test_fewer_cores_are_the_same_read_the_other_way_round() -> None:
    row = Row(op=Op.WRITE, base_s=0.5e-3, candidate_s=5e-3)
    one = expected(row, label("cores", "2", "1"))
    assert one is not None
    assert "cores 2 -> 1" in one.text
    assert "at most 2 times the rate" in one.text
    assert one.closes is False


def test_more_copies_cost_writes_a_round_trip_and_reads_nothing() -> None:
    slower = Row(op=Op.WRITE, base_s=1e-3, candidate_s=2e-3)
    one = expected(slower, label("replicas", "1", "3"))
    assert one is not None
    assert "1 ms" in one.text
    assert "no round trip was measured" in one.text
    assert one.closes is None
    for strange in (
        Row(op=Op.WRITE, base_s=2e-3, candidate_s=1e-3),
        Row(op=Op.READ, base_s=1e-3, candidate_s=2e-3),
    ):
        one = expected(strange, label("replicas", "1", "3"))
        assert one is not None
        assert one.closes is False
        assert "against that" in one.text


@pytest.mark.parametrize(
    "given",
    [label("colour", "1", "2"), label("cores", "one", "two"), label("cores", "not set", "2")],
)
def test_of_labels_that_tell_no_number_nothing_is_expected(given: Difference) -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=1e-3)
    assert expected(row, given) is None


def test_what_did_not_change_needs_no_expectation() -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=5e-3, verdict=Verdict.SAME)
    assert expected(row, label("cores", "1", "2")) is None


def test_without_an_inventory_the_label_is_not_called_the_cause() -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=2.6e-3)
    _, found = explain(cells(row), [label("cores", "1", "2")], Facts())
    said = " ".join(one.text for one in found)
    assert "nobody can say whether it is the cause" in said
    assert "only difference found" not in said
