"""Labels of charts are short and still distinguish names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leadline.report.words import LONGEST_LABEL, chart_labels


@given(st.sets(st.text(st.characters(categories=("L", "N")), max_size=200), max_size=8))
def test_names_that_differ_have_labels_that_differ(names: set[str]) -> None:
    labels = chart_labels(names)
    assert set(labels) == names
    assert len(set(labels.values())) == len(names)
    assert all(labels[name] == name for name in names if len(name) <= LONGEST_LABEL)


def test_long_names_keep_both_ends() -> None:
    (label,) = chart_labels(["a" * 200 + "b" * 200]).values()
    assert label == "a" * 40 + "…" + "b" * 39
    assert len(label) == LONGEST_LABEL


def test_names_that_differ_in_the_middle_are_not_cut() -> None:
    names = ["a" * 100 + middle + "b" * 100 for middle in "xy"]
    assert list(chart_labels(names).values()) == names
