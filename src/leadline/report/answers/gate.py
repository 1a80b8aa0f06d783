"""The JSON answer of `leadline gate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from leadline.analysis.gate import Gate, Outcome, RuleResult
from leadline.analysis.gate_rates import GateRates
from leadline.report.answers.base import CellOutput, Output


class GateResultOutput(CellOutput):
    """A rule on one cell. `ratio` = candidate / baseline with its `interval`, and `exceeded`:
    `kept`, `exceeded` or `undecided`; `confirmation_ratio` and `confirmation` are those of the
    confirming run. `outcome` is `pass`, `fail` or `inconclusive`."""

    rule: str
    limit: str
    op: str | None
    metric: str
    ratio: float | None
    interval: tuple[float, float] | None
    exceeded: str
    confirmation_ratio: float | None
    confirmation: str | None
    outcome: str


class GateRatesOutput(Output):
    """Outcomes of simulated comparisons: without a change, and with a change of one cell by
    `excess` times its limit. `sound`: at most 5 % fail without a change, at least 80 % with it."""

    simulations: int
    excess: float
    unchanged: dict[str, int]
    changed: dict[str, int]
    resampled: bool
    sound: bool


class GateOutput(Output):
    """`outcome` is `pass`, `fail` or `inconclusive`; `needs_confirmation`: a limit is exceeded, and
    the policy asks for a second run. `self_test` is null without `--self-test`."""

    schema_: Literal["leadline/gate/1"] = Field(default="leadline/gate/1", alias="schema")
    baseline: str
    candidate: str
    confirmation: str | None
    outcome: str
    headline: str
    needs_confirmation: bool
    band: float
    between_runs: float
    results: list[GateResultOutput]
    self_test: GateRatesOutput | None


def gate_output(gate: Gate, headline: str, rates: GateRates | None = None) -> GateOutput:
    comparison = gate.comparison
    return GateOutput(
        baseline=comparison.baseline.name,
        candidate=comparison.candidate.name,
        confirmation=gate.confirmation.candidate.name if gate.confirmation else None,
        outcome=gate.outcome.value,
        headline=headline,
        needs_confirmation=gate.needs_confirmation,
        band=gate.policy.band,
        between_runs=comparison.between_runs,
        results=[_result(one) for one in gate.results],
        self_test=rates
        and GateRatesOutput.from_records(
            rates, unchanged=_counts(rates.unchanged), changed=_counts(rates.changed)
        ),
    )


def _counts(counts: Mapping[Outcome, int]) -> dict[str, int]:
    return {outcome.value: counts[outcome] for outcome in Outcome}


def _result(one: RuleResult) -> GateResultOutput:
    again = one.confirmation
    return GateResultOutput.from_records(
        one,
        one.result,
        one.result.cell,
        one.result.cell.judgement,
        rule=one.rule.name,
        limit=one.rule.limit,
        exceeded=one.result.outcome.value,
        confirmation=again.outcome.value if again else None,
        confirmation_ratio=again.cell.judgement.ratio if again else None,
        outcome=one.outcome.value,
    )
