"""A gate: the limits of a policy on a comparison, and whether the candidate passes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from leadline import errors
from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.limits import (
    Limit,
    LimitResult,
    check_cells,
    check_limits,
    parse_limit,
)
from leadline.analysis.limits import Outcome as LimitOutcome
from leadline.analysis.verdicts import BETWEEN_RUNS
from leadline.errors import LeadlineError
from leadline.metrics import Metric, Op
from leadline.plan.faults import Faults, InvalidDocument, take_errors
from leadline.plan.yaml_positions import read_positioned

_HINT = "docs/guides/nightly-gate.md has an example"


class Outcome(StrEnum):
    """The answer of a gate, or of one of its limits on one cell."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


def _share(value: object) -> object:
    """`5%` as a share."""
    if isinstance(value, str) and value.strip().endswith("%"):
        return float(value.strip().removesuffix("%")) / 100
    return value


Share = Annotated[float, BeforeValidator(_share)]


class PolicyRule(BaseModel):
    """A limit on the cells of some targets. `limit` as in `compare --fail-on`, `targets` are names
    or shell patterns. `inconclusive` is the outcome where the trials do not decide; None: that of
    the policy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="", max_length=300)
    limit: str
    targets: tuple[str, ...] = Field(default=("*",), min_length=1)
    inconclusive: Outcome | None = None

    @field_validator("limit")
    @classmethod
    def _parsed(cls, value: str) -> str:
        try:
            parse_limit(value)
        except LeadlineError as error:
            raise ValueError(error.fact) from error
        return value

    @field_validator("targets", mode="before")
    @classmethod
    def _one(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @property
    def parsed(self) -> Limit:
        return replace(parse_limit(self.limit), targets=self.targets)


class Policy(BaseModel):
    """The rules of a gate. `band` is the equivalence margin and `between_runs` the standard
    deviation of a system between runs, as shares, as of `compare`. `confirm`: a second run of the
    candidate must show a failure, too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: tuple[PolicyRule, ...]
    band: Share = Field(default=0.05, gt=0, lt=1)
    between_runs: Share = Field(default=BETWEEN_RUNS, ge=0, lt=1)
    inconclusive: Outcome = Outcome.INCONCLUSIVE
    confirm: bool = False

    def undecided(self, rule: PolicyRule) -> Outcome:
        """Return the outcome of a rule where the trials do not decide."""
        return rule.inconclusive or self.inconclusive

    @field_validator("rules")
    @classmethod
    def _distinct(cls, rules: tuple[PolicyRule, ...]) -> tuple[PolicyRule, ...]:
        if not rules:
            raise ValueError("a policy needs at least one rule")
        limits = [rule.parsed for rule in rules]
        twice = next((limit for limit in limits if limits.count(limit) > 1), None)
        if twice is not None:
            raise ValueError(f"two rules have the limit {twice.text!r} for the same targets")
        return rules

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that have a limit, each once."""
        return tuple(dict.fromkeys(rule.parsed.selector.metric for rule in self.rules))


def load_policy(path: Path) -> Policy:
    """Read a policy. Raises LeadlineError(`policy-invalid`) that lists every fault at once."""
    document = read_positioned(path, errors.POLICY_INVALID, "the policy", _HINT)
    faults = Faults(str(path), document, "policy")
    if not isinstance(document.value, dict):
        faults.add((), "a policy is a mapping with the key rules")
    else:
        try:
            return Policy.model_validate(document.value)
        except ValidationError as error:
            take_errors(
                error, faults, lambda at: (PolicyRule if "rules" in at else Policy).model_fields
            )
    raise InvalidDocument(errors.POLICY_INVALID, "the policy", faults.found, _HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """A rule on one cell: its result, and that of the confirmation, where one was needed and has
    the cell."""

    rule: PolicyRule
    result: LimitResult
    confirmation: LimitResult | None
    outcome: Outcome

    @property
    def confirmed(self) -> bool | None:
        """Whether the confirmation exceeds the limit, too; None without a decision of it."""
        if self.confirmation is None or self.confirmation.outcome is LimitOutcome.UNDECIDED:
            return None
        return self.confirmation.outcome is LimitOutcome.EXCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The comparison with the candidate, that with the confirmation (None: not given), and the
    result of every rule on each of its cells."""

    policy: Policy
    comparison: Comparison
    confirmation: Comparison | None
    results: tuple[RuleResult, ...]

    @property
    def outcome(self) -> Outcome:
        """Fail if any result does, else inconclusive if any is."""
        found = {result.outcome for result in self.results}
        return next(
            outcome
            for outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
            if outcome in found or outcome is Outcome.PASS
        )

    @property
    def needs_confirmation(self) -> bool:
        """Whether a limit is exceeded and the policy asks for a second run."""
        exceeded = any(one.result.outcome is LimitOutcome.EXCEEDED for one in self.results)
        return self.policy.confirm and self.confirmation is None and exceeded


def decide(policy: Policy, comparison: Comparison, confirmation: Comparison | None = None) -> Gate:
    """Check the rules of a policy on a comparison of the baseline with the candidate.

    `confirmation` compares the same baseline with a further run of the candidate; it is tested
    where the first exceeds a limit, adjusted over these cells alone. Raises LeadlineError (`usage`)
    for rules without a cell.
    """
    rules = {rule.parsed: rule for rule in policy.rules}
    results = check_limits(comparison.tested, list(rules))
    again = _confirmations(results, confirmation)
    confirming = confirmation is not None
    return Gate(
        policy=policy,
        comparison=comparison,
        confirmation=confirmation,
        results=tuple(
            RuleResult(
                rule=rules[result.limit],
                result=result,
                confirmation=second,
                outcome=_outcome(policy, rules[result.limit], result, second, confirming),
            )
            for result in results
            for second in (again.get((result.limit, _key(result.cell))),)
        ),
    )


_Key = tuple[str, str, str, Op | None, Metric]


def _key(cell: ComparedCell) -> _Key:
    return cell.target, cell.workload, cell.level, cell.op, cell.metric


def _confirmations(
    results: tuple[LimitResult, ...], confirmation: Comparison | None
) -> Mapping[tuple[Limit, _Key], LimitResult]:
    if confirmation is None:
        return {}
    cells = {_key(cell): cell for cell in confirmation.tested}
    pairs = [
        (result.limit, cells[_key(result.cell)])
        for result in results
        if result.outcome is LimitOutcome.EXCEEDED and _key(result.cell) in cells
    ]
    return {(found.limit, _key(found.cell)): found for found in check_cells(pairs)}


def _outcome(
    policy: Policy,
    rule: PolicyRule,
    result: LimitResult,
    second: LimitResult | None,
    confirming: bool,
) -> Outcome:
    if result.outcome is LimitOutcome.KEPT:
        return Outcome.PASS
    if result.outcome is LimitOutcome.UNDECIDED:
        return policy.undecided(rule)
    if not confirming:
        return Outcome.INCONCLUSIVE if policy.confirm else Outcome.FAIL
    decided: dict[Any, Outcome] = {
        LimitOutcome.EXCEEDED: Outcome.FAIL,
        LimitOutcome.KEPT: Outcome.PASS,
    }
    return decided.get(second and second.outcome, policy.undecided(rule))
