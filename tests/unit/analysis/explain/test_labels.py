"""Expected effects of labels that count cores or copies, compared with what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from compared_cells import Row, cells, difference
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.explain.explain import explain
from leadline.analysis.explain.facts import Explanation, MoreCopies, MoreCores, PossibleCauses
from leadline.analysis.explain.systems import SystemFacts
from leadline.analysis.verdicts import Pair, Sample, Verdict, judge
from leadline.inventory.diff import Difference
from leadline.metrics import Metric, Op

Kind = TypeVar("Kind", bound=Explanation)


def label(key: str, baseline: str, candidate: str) -> Difference:
    return replace(difference(f"targets.rep3.labels.{key}", baseline, candidate), target="rep3")


def expected(row: Row, given: Difference, kind: type[Kind]) -> Kind:
    (found,) = (one for one in explain(cells(row), [given], SystemFacts())[1] if type(one) is kind)
    return found


@pytest.mark.parametrize(
    ("candidate_ms", "scatter", "closes", "counted"),
    [
        (2.5, 0.02, True, "proportional"),
        (2.45, 0.05, True, "proportional"),
        (3.5, 0.02, None, "less"),
        (0.5, 0.02, False, "beyond"),
        (8.0, 0.02, False, "lower"),
        (3.5, 0.9, None, "undecided"),
        (2.0, None, None, "undecided"),
    ],
)
def test_twice_the_cores_give_at_most_twice_the_rate(
    candidate_ms: float, scatter: float | None, closes: bool | None, counted: str
) -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=candidate_ms * 1e-3, scatter=scatter)
    found = expected(row, label("cores", "1", "2"), MoreCores)
    assert (found.closes, found.factor, found.tested) == (closes, 2, 1)
    counts = {
        "proportional": found.proportional,
        "less": found.less,
        "beyond": len(found.beyond),
        "lower": found.lower,
        "undecided": found.undecided,
    }
    assert counts == {**dict.fromkeys(counts, 0), counted: 1}
    assert found.paths == ("targets.rep3.labels.cores",)


def test_unchanged_rates_count_against_cores() -> None:
    rows = [
        Row(op=Op.WRITE, base_s=5e-3, candidate_s=2.5e-3, depth=16),
        Row(op=Op.READ, base_s=5e-3, candidate_s=5e-3, depth=16, verdict=Verdict.SAME),
        Row(op=Op.READ, base_s=5e-3, candidate_s=5e-3, depth=1, verdict=Verdict.SAME),
    ]
    (found,) = (
        one
        for one in explain(cells(*rows), [label("cores", "1", "2")], SystemFacts())[1]
        if isinstance(one, MoreCores)
    )
    assert (found.proportional, found.unchanged, found.tested) == (1, 1, 2)
    assert found.closes is False, "one I/O in flight gains nothing from cores, the others do"


@given(st.integers(2, 16), st.floats(0.001, 0.5), st.floats(-0.99, 0.99), st.booleans())
def test_proportional_growth_within_the_interval_is_never_accused(
    factor: int, scatter: float, off: float, fewer: bool
) -> None:
    """The measured gain is off the factor by less than its interval."""
    gain = factor * (1 + scatter) ** off
    base_s, candidate_s = (1e-3, 1e-3 * gain) if fewer else (1e-3, 1e-3 / gain)
    row = Row(op=Op.WRITE, base_s=base_s, candidate_s=candidate_s, depth=16, scatter=scatter)
    values = (str(factor), "1") if fewer else ("1", str(factor))
    found = expected(row, label("cores", *values), MoreCores)
    assert found.beyond == ()
    assert found.lower == 0


def test_fewer_cores_are_the_inverse() -> None:
    row = Row(op=Op.WRITE, base_s=0.5e-3, candidate_s=5e-3)
    found = expected(row, label("cores", "2", "1"), MoreCores)
    assert (found.baseline, found.candidate, found.factor, found.closes) == (2, 1, 2, False)


def test_more_copies_cost_writes_a_round_trip_and_reads_nothing() -> None:
    slower = Row(op=Op.WRITE, base_s=1e-3, candidate_s=2e-3)
    found = expected(slower, label("replicas", "1", "3"), MoreCopies)
    assert found.writes is not None
    assert dict(found.writes.added_s)["rep3"] == pytest.approx(1e-3)
    assert (found.closes, found.contradicting) == (None, ())
    for row in (
        Row(op=Op.WRITE, base_s=2e-3, candidate_s=1e-3),
        Row(op=Op.READ, base_s=1e-3, candidate_s=2e-3),
    ):
        found = expected(row, label("replicas", "1", "3"), MoreCopies)
        assert (found.closes, found.contradicting) == (False, ((row.op, "w"),))


@pytest.mark.parametrize(
    "given",
    [label("colour", "1", "2"), label("cores", "one", "two"), label("cores", "not set", "2")],
)
def test_labels_without_numbers_have_no_expected_effect(given: Difference) -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=1e-3)
    (found,) = explain(cells(row), [given], SystemFacts())[1]
    assert isinstance(found, PossibleCauses)


def test_what_did_not_change_needs_no_expectation() -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=5e-3, verdict=Verdict.SAME)
    assert explain(cells(row), [label("cores", "1", "2")], SystemFacts())[1] == ()


def test_without_an_inventory_the_label_is_not_the_cause() -> None:
    row = Row(op=Op.WRITE, base_s=5e-3, candidate_s=2.6e-3)
    assert expected(row, label("cores", "1", "2"), PossibleCauses).labels_only


@pytest.mark.parametrize(
    ("gain", "beyond", "undecided"), [(2.1, 0, 0), (2.9, 0, 1), (3.2, 1, 0), (16.2, 1, 0)]
)
def test_single_trials_have_the_published_scatter_of_repeats(
    gain: float, beyond: int, undecided: int
) -> None:
    """A published table has no trials: 2.1 times the rate is no proof of more than twice, 16 is.
    2.9 may be 1.9 or 4.5 times the rate, which agrees with too much."""
    row = Row(
        op=Op.WRITE, base_s=1e-3 * gain, candidate_s=1e-3, scatter=None, reasons=("single-trial",)
    )
    found = expected(row, label("cores", "1", "2"), MoreCores)
    assert (len(found.beyond), found.undecided) == (beyond, undecided)
    assert found.group.single_trials


def test_the_scatter_of_repeats_counts_once() -> None:
    """The interval of two trials with seconds contains it already: 1.4 to 3 times the rate."""
    row = Row(op=Op.WRITE, base_s=2.1e-3, candidate_s=1e-3, scatter=0.45, reasons=("single-trial",))
    assert expected(row, label("cores", "1", "2"), MoreCores).proportional == 1


def gains(factor: float, trials: int, seed: int) -> bool | None:
    """Whether twice the cores account for the changes of twelve rates by a factor."""
    generator = np.random.default_rng([seed, trials])
    rows, pairs = [], []
    for cell in range(12):
        logs = 0.05 * generator.normal(size=(2, trials))
        rates = [1e3 * np.exp(logs[0]), 1e3 * factor * np.exp(logs[1])]
        base_s, candidate_s = (16 / float(np.median(one)) for one in rates)
        rows.append(
            Row(op=Op.WRITE, base_s=base_s, candidate_s=candidate_s, depth=16, workload=f"w{cell}")
        )
        for metric, values in (
            (Metric.IOPS, rates),
            (Metric.LATENCY_MEAN, [16 / x for x in rates]),
        ):
            samples = [
                Sample(value=float(np.median(one)), trials=tuple(one.tolist())) for one in values
            ]
            pairs.append(Pair(metric=metric, baseline=samples[0], candidate=samples[1]))
    compared = [
        replace(cell, judgement=judged)
        for cell, judged in zip(cells(*rows), judge(pairs), strict=True)
    ]
    explained = explain(compared, [label("cores", "1", "2")], SystemFacts())[1]
    (found,) = (one for one in explained if isinstance(one, MoreCores))
    return found.closes


@pytest.mark.parametrize("trials", [3, 6])
def test_twelve_rates_in_exact_proportion_agree_and_others_do_not(trials: int) -> None:
    """Twelve intervals of 95 % each would accuse exact proportionality in every second case."""
    seeds = range(40)
    assert sum(gains(2.0, trials, seed) is True for seed in seeds) >= 36
    assert all(gains(1.5, trials, seed) is None for seed in seeds[:10])
    assert all(gains(2.6, trials, seed) is False for seed in seeds[:10])
