"""A rule: a stable code, a summary, and a function over the evidence that it needs."""

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
class Doubt:
    """What a rule found, before it is known by which rule and where.

    `trial` and `workload` say more closely where, for rules that look at a whole cell.
    """

    severity: Severity
    message: str
    remedy: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    op: Op | None = None
    latency_only: bool = False
    target: str | None = None
    workload: str | None = None
    trial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[E_contra]):
    """`check` is a pure function; it is asked for each piece of evidence of the type `looks_at`."""

    code: str
    summary: str
    looks_at: type[E_contra]
    check: Callable[[E_contra], Iterable[Doubt]]

    def findings(self, evidence: Evidence) -> tuple[Finding, ...]:
        """Findings of this rule; none for evidence that is not what it looks at."""
        if not isinstance(evidence, self.looks_at):
            return ()
        return tuple(self._finding(doubt, evidence.place) for doubt in self.check(evidence))

    def _finding(self, doubt: Doubt, place: Place) -> Finding:
        return Finding(
            code=self.code,
            severity=doubt.severity,
            target=place.target if doubt.target is None else doubt.target,
            workload=place.workload if doubt.workload is None else doubt.workload,
            level=place.level,
            op=doubt.op,
            trial=doubt.trial or place.trial,
            # What overflowed on the way is no number that JSON could hold.
            evidence={key: value for key, value in doubt.evidence.items() if isfinite(value)},
            message=doubt.message,
            remedy=doubt.remedy,
            latency_only=doubt.latency_only,
        )
