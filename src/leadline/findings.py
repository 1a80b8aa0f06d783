"""What the audit says of a trial, a cell or a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.metrics import Op


class Severity(StrEnum):
    """`error`: the number must not be used; `warning`: use it knowing this; `info`: context."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def order(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding of the audit, with its evidence.

    Empty `target`, `workload` or `level` means the whole run; `trial` is None where the finding
    concerns a cell; `op` is None where it concerns every operation. `evidence` holds only numbers,
    each named with its unit (`latency_mean_s`), so that other programs can check the arithmetic.
    `latency_only`: the finding concerns the latency metrics and leaves IOPS and bandwidth alone.
    """

    code: str
    severity: Severity
    target: str = ""
    workload: str = ""
    level: str = ""
    op: Op | None = None
    trial: str | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    message: str
    remedy: str
    latency_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingCell:
    """A cell that a finding is on, with its trials; empty names mean the whole run."""

    target: str
    workload: str
    level: str
    op: Op | None
    trials: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatedFinding:
    """Findings of one code and severity as one, with their cells. `count` findings were merged;
    `message` and `remedy` are of the first, `evidence` has the lowest and the highest value."""

    code: str
    severity: Severity
    count: int
    message: str
    remedy: str
    evidence: Mapping[str, tuple[float, float]]
    cells: tuple[FindingCell, ...]


def aggregate(findings: Iterable[Finding]) -> tuple[AggregatedFinding, ...]:
    """Merge the findings of one code and severity, in the order of the first of each."""
    groups: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.severity), []).append(finding)
    return tuple(_aggregated(group) for group in groups.values())


def _aggregated(group: Sequence[Finding]) -> AggregatedFinding:
    cells: dict[tuple[str, str, str, Op | None], dict[str, None]] = {}
    values: dict[str, list[float]] = {}
    for finding in group:
        place = (finding.target, finding.workload, finding.level, finding.op)
        trials = cells.setdefault(place, {})
        if finding.trial is not None:
            trials[finding.trial] = None
        for name, value in finding.evidence.items():
            values.setdefault(name, []).append(value)
    first = group[0]
    return AggregatedFinding(
        code=first.code,
        severity=first.severity,
        count=len(group),
        message=first.message,
        remedy=first.remedy,
        evidence={name: (min(found), max(found)) for name, found in values.items()},
        cells=tuple(
            FindingCell(target=target, workload=workload, level=level, op=op, trials=tuple(trials))
            for (target, workload, level, op), trials in cells.items()
        ),
    )
