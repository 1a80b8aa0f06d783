"""Gates on cells of which nothing but the samples matters."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.compare import PairedCell
from leadline.analysis.comparison import By, ComparedCell, Comparison, Side
from leadline.analysis.gate import Gate, Outcome, Policy, decide, load_policy
from leadline.analysis.gate_rates import gate_rates
from leadline.analysis.verdicts import Pair, Sample, judge
from leadline.errors import LeadlineError
from leadline.metrics import Metric, Op
from leadline.plan.faults import InvalidDocument

CELLS = 12


def rows_of(
    shifts: dict[int, float],
    *,
    trials: int = 6,
    scatter: float = 0.02,
    runs: tuple[str, str] = ("r", "r"),
    seed: int = 1,
) -> list[PairedCell]:
    """Twelve interleaved cells of targets t0 to t11; `shifts` are logarithmic changes by cell."""
    generator = np.random.default_rng(seed)
    rows: list[PairedCell] = []
    for at in range(CELLS):
        samples = []
        for run, shift in zip(runs, (0.0, shifts.get(at, 0.0)), strict=True):
            noise = scatter * generator.standard_normal(trials)
            values = tuple((1000 * np.exp(noise + shift)).tolist())
            blocks = tuple((run, number) for number in range(trials))
            samples.append(
                Sample(value=float(np.median(values)), trials=values, blocks=blocks, run=run)
            )
        cell = partial(
            ComparedCell,
            target=f"t{at}",
            workload="w",
            level="",
            op=Op.WRITE,
            metric=Metric.IOPS,
            baseline_cell=None,
            candidate_cell=None,
            depth=1,
            streaming=False,
        )
        pair = Pair(metric=Metric.IOPS, baseline=samples[0], candidate=samples[1], primary=True)
        rows.append((cell, pair))
    return rows


@pytest.fixture
def side(tmp_path: Path) -> Side:
    run = make_run(tmp_path / "run", small_plan(["a"], repeats=1))
    return Side(name="a", run=run, targets={"a": "a"}, figures=(), findings=())


def compared(side: Side, rows: list[PairedCell], *, between: float = 0.0) -> Comparison:
    judged = judge([pair for _, pair in rows], 0.05, between_runs=between)
    return Comparison(
        by=By.RUN,
        baseline=side,
        candidate=side,
        band=0.05,
        cells=tuple(cell(judgement=found) for (cell, _), found in zip(rows, judged, strict=True)),
        differences=(),
        identical=(),
        explanations=(),
        between_runs=between,
    )


def policy(*rules: dict[str, object], **more: object) -> Policy:
    return Policy.model_validate({"rules": rules or ({"limit": "iops < -10%"},), **more})


LOSS, UNCLEAR = -0.5, -0.15


def outcomes(gate: Gate) -> dict[str, Outcome]:
    return {one.result.cell.target: one.outcome for one in gate.results}


def test_one_loss_fails_the_gate_and_names_its_cell(side: Side) -> None:
    gate = decide(policy(), compared(side, rows_of({3: LOSS})))
    assert gate.outcome is Outcome.FAIL
    assert [name for name, one in outcomes(gate).items() if one is Outcome.FAIL] == ["t3"]
    assert decide(policy(), compared(side, rows_of({}))).outcome is Outcome.PASS


def test_rules_apply_to_their_targets(side: Side) -> None:
    loss = compared(side, rows_of({3: LOSS}))
    assert (
        decide(policy({"limit": "iops < -10%", "targets": ["t1*"]}), loss).outcome is Outcome.PASS
    )
    assert decide(policy({"limit": "iops < -10%", "targets": "t3"}), loss).outcome is Outcome.FAIL


@pytest.mark.parametrize("outcome", list(Outcome))
def test_the_policy_says_what_inconclusive_means(side: Side, outcome: Outcome) -> None:
    unclear = compared(side, rows_of({3: UNCLEAR}, scatter=0.05))
    (found,) = [
        one
        for one in decide(policy(inconclusive=outcome), unclear).results
        if one.result.cell.target == "t3"
    ]
    assert found.result.outcome.value == "undecided"
    assert found.outcome is outcome
    rule = {"limit": "iops < -10%", "inconclusive": outcome.value}
    again = outcomes(decide(policy(rule, inconclusive="fail"), unclear))
    assert again["t3"] is outcome


@pytest.mark.parametrize(
    ("second", "outcome"),
    [({3: LOSS}, Outcome.FAIL), ({}, Outcome.PASS), ({4: LOSS}, Outcome.PASS)],
)
def test_a_confirming_run_decides(side: Side, second: dict[int, float], outcome: Outcome) -> None:
    first = compared(side, rows_of({3: LOSS}))
    asked = decide(policy(confirm=True), first)
    assert asked.needs_confirmation
    assert asked.outcome is Outcome.INCONCLUSIVE
    gate = decide(policy(confirm=True), first, compared(side, rows_of(second, seed=2)))
    assert not gate.needs_confirmation
    assert gate.outcome is outcome


def test_a_confirming_run_without_the_cell_decides_nothing(side: Side) -> None:
    gate = decide(policy(confirm=True), compared(side, rows_of({3: LOSS})), compared(side, []))
    assert outcomes(gate)["t3"] is Outcome.INCONCLUSIVE


def test_all_rules_without_a_cell_are_named(side: Side) -> None:
    made = policy({"limit": "read p99 > 5%"}, {"limit": "iops < -1%", "targets": ["x"]})
    with pytest.raises(LeadlineError) as caught:
        decide(made, compared(side, rows_of({})))
    assert "'read p99 > 5%'; 'iops < -1%' of x match no cell" in caught.value.fact
    assert "targets: t0, t1" in caught.value.context[1]


def test_all_faults_of_a_policy_are_named_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "band: 200%\nrules:\n  - limit: iops -10%\n  - limit: iops < -10%\n    target: [a]\n"
        "confirms: true\n"
    )
    with pytest.raises(InvalidDocument) as caught:
        load_policy(path)
    text = str(caught.value)
    assert text.startswith("error[policy-invalid]: the policy has 4 faults")
    for part in (
        ":1: band",
        ":3: rules[0].limit: 'iops -10%' is not a limit",
        ":5: rules[1].target",
    ):
        assert part in text
    assert "(did you mean 'targets'?)" in text
    assert "(did you mean 'confirm'?)" in text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rules: [", "not valid YAML"),
        ("- a", "is a mapping"),
        ("rules: []", "at least one rule"),
        ("rules: [{limit: 'iops < -1%'}, {limit: 'iops < -1%'}]", "two rules have the limit"),
    ],
)
def test_no_policy(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(LeadlineError) as caught:
        load_policy(path)
    assert fault in str(caught.value)


def test_the_self_test_calls_a_strong_gate_sound(side: Side) -> None:
    """Six interleaved trials of 2 % scatter see twice a limit of 10 %."""
    rows = rows_of({})
    rates = gate_rates(policy(), compared(side, rows), rows, simulations=100)
    assert rates.resampled
    assert rates.unchanged[Outcome.FAIL] <= 5
    assert rates.changed[Outcome.FAIL] >= 95
    assert rates.sound
    assert sum(rates.unchanged.values()) == sum(rates.changed.values()) == 100


def test_the_self_test_calls_a_blind_gate_not_sound(side: Side) -> None:
    """Two runs with three trials each, and 5 % from run to run, do not see a loss of 20 %."""
    rows = rows_of({}, trials=3, runs=("r", "s"))
    made = compared(side, rows, between=0.05)
    rates = gate_rates(policy(), made, rows, simulations=100)
    assert rates.unchanged[Outcome.FAIL] <= 9
    assert rates.changed[Outcome.FAIL] < 80
    assert not rates.sound
