"""An audit rule: a stable code, a summary, and a function over its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Generic, TypeVar

from leadline.audit.evidence import Evidence, Place
from leadline.findings import Finding, Severity
from leadline.metrics import Op

E_contra = TypeVar("E_contra", bound=Evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFinding:
    """A finding without its code and place. `target`, `workload` and `trial` narrow the place for
    rules on a cell or a run. Numbers of the `evidence` that are None are unknown."""

    severity: Severity
    message: str
    remedy: str
    evidence: Mapping[str, float | None] = field(default_factory=dict)
    op: Op | None = None
    latency_only: bool = False
    target: str | None = None
    workload: str | None = None
    trial: str | None = None


@dataclass(frozen=True, slots=True)
class Rule(Generic[E_contra]):
    """`check` is a pure function; it runs for each piece of evidence of the type `looks_at`."""

    code: str
    summary: str
    looks_at: type[E_contra]
    check: Callable[[E_contra], Iterable[RuleFinding]]

    def findings(self, evidence: Evidence) -> tuple[Finding, ...]:
        """Return the findings of this rule; none for other types of evidence."""
        if not isinstance(evidence, self.looks_at):
            return ()
        return tuple(self._finding(finding, evidence.place) for finding in self.check(evidence))

    def _finding(self, finding: RuleFinding, place: Place) -> Finding:
        known = ((key, value) for key, value in finding.evidence.items() if value is not None)
        return Finding(
            code=self.code,
            severity=finding.severity,
            target=place.target if finding.target is None else finding.target,
            workload=place.workload if finding.workload is None else finding.workload,
            level=place.level,
            op=finding.op,
            trial=finding.trial or place.trial,
            # JSON cannot hold a number that overflowed.
            evidence={key: value for key, value in known if isfinite(value)},
            message=finding.message,
            remedy=finding.remedy,
            latency_only=finding.latency_only,
        )


def rule(
    code: str, summary: str, looks_at: type[E_contra]
) -> Callable[[Callable[[E_contra], Iterable[RuleFinding]]], Rule[E_contra]]:
    """Make a rule of the function that it decorates."""
    return lambda check: Rule(code, summary, looks_at, check)
