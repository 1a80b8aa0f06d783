"""Which findings touch which number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadline.archive.reader import Run
from leadline.findings import Finding, Severity
from leadline.metrics import Metric, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A finding's code and severity, as it stands beside a number.

    `whole_run`: it stands beside every number of the run.
    """

    code: str
    severity: Severity
    whole_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """Where a finding applies; an empty name or None applies everywhere."""

    target: str
    workload: str
    level: str
    op: Op | None

    def touches(self, target: str, workload: str, planned: str, level: str, op: Op | None) -> bool:
        return (
            self.target in ("", target)
            and self.workload in ("", workload, planned)
            and self.level in ("", level)
            and self._touches_op(op)
        )

    def _touches_op(self, op: Op | None) -> bool:
        # A total is made of its operations, so a doubt about one of them is a doubt about it.
        return self.op is None or op is None or self.op is op or op is Op.TOTAL


class DoubtIndex:
    """Findings with their scope worked out once; a trial's finding gets its trial's cell."""

    def __init__(self, run: Run, findings: Iterable[Finding]) -> None:
        cells = _cells_of_trials(run)
        self._by_target: dict[str, list[tuple[_Scope, Finding]]] = {}
        for finding in findings:
            scope = _scope(finding, cells)
            self._by_target.setdefault(scope.target, []).append((scope, finding))

    def touching(
        self, *, target: str, workload: str, planned: str, level: str, op: Op | None
    ) -> RowDoubts:
        """Doubts about one row of figures.

        `planned` is the workload's name in the plan, which a section of a job file shares.
        """
        candidates = self._by_target.get("", []) + self._by_target.get(target, [])
        return RowDoubts(
            tuple(
                (scope, finding)
                for scope, finding in candidates
                if scope.touches(target, workload, planned, level, op)
            )
        )


class RowDoubts:
    """What touches a row; some of it only its latencies."""

    def __init__(self, scoped: tuple[tuple[_Scope, Finding], ...]) -> None:
        self._of_all = _doubts((s, f) for s, f in scoped if not f.latency_only)
        self._of_latency = _doubts(scoped)

    def of(self, metric: Metric) -> tuple[Doubt, ...]:
        """Doubts about one number, the most severe first, each code and severity once."""
        return self._of_latency if metric.is_latency else self._of_all


def _doubts(scoped: Iterable[tuple[_Scope, Finding]]) -> tuple[Doubt, ...]:
    found: dict[tuple[str, Severity], bool] = {}
    for scope, finding in scoped:
        key = (finding.code, finding.severity)
        found[key] = found.get(key, False) or scope == _WHOLE_RUN
    doubts = [
        Doubt(code=code, severity=severity, whole_run=whole)
        for (code, severity), whole in found.items()
    ]
    return tuple(sorted(doubts, key=lambda doubt: (-doubt.severity.order, doubt.code)))


_WHOLE_RUN = _Scope(target="", workload="", level="", op=None)


def _cells_of_trials(run: Run) -> Mapping[str, tuple[str, str, str]]:
    plan = run.plan
    cells = {
        trial.id: (cell.target, cell.workload.name, cell.level)
        for trial in plan.trials
        for cell in (plan.cells[trial.cell],)
    }
    for stored in run.trials:
        record = stored.record
        cells.setdefault(record.trial, (record.target, record.workload, record.level))
    return cells


def _scope(finding: Finding, cells: Mapping[str, tuple[str, str, str]]) -> _Scope:
    target, workload, level = cells.get(finding.trial or "", ("", "", ""))
    return _Scope(
        target=finding.target or target,
        workload=finding.workload or workload,
        level=finding.level or level,
        op=finding.op,
    )
