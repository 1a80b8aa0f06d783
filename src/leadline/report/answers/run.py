"""What `--format json` prints: a contract with other programs, one model a verb.

Values are in base units (operations, bytes and seconds); names are as the plan has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, Field

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.verify import Verification
from leadline.errors import LeadlineError
from leadline.findings import Finding, Severity
from leadline.formats.importer import Refused
from leadline.plan.expand import bound_of
from leadline.plan.footprint import target_footprint
from leadline.plan.models import FollowUp, Plan
from leadline.plan.target_url import TargetKind
from leadline.plan.yaml_positions import Fault
from leadline.report.answers.base import Output
from leadline.report.answers.comparison import CompareOutput
from leadline.report.answers.layers import LayersOutput
from leadline.report.answers.ranking import RankOutput, RecommendOutput
from leadline.report.answers.scaling import ScaleOutput
from leadline.report.answers.systems import InventoryOutput, LabOutput, PlanOutput, PoolsOutput
from leadline.report.render.rows import Row, render_rows


class FindingOutput(Output):
    """Empty `target`, `workload`, `level`: the whole run. `evidence` holds numbers with units in
    their names."""

    code: str
    severity: Severity
    target: str
    workload: str
    level: str
    op: str | None
    trial: str | None
    evidence: dict[str, float]
    message: str
    remedy: str


class RunOutput(Output):
    """`trials` counts the completed ones."""

    schema_: Literal["leadline/run/1"] = Field(default="leadline/run/1", alias="schema")
    run: str
    path: str
    status: str
    trials: int
    findings: list[FindingOutput]


class ImportedRun(Output):
    """`trials` counts those that hold figures; `cluster` is empty where nobody named it."""

    run: str
    path: str
    cluster: str
    trials: int
    findings: list[FindingOutput]


class RefusedOutput(Output):
    """A file that was not imported. `context` says where in it the reason stands."""

    file: str
    reason: str
    context: list[str]


class ImportOutput(Output):
    """One run for each cluster that the files name."""

    schema_: Literal["leadline/import/1"] = Field(default="leadline/import/1", alias="schema")
    runs: list[ImportedRun]
    refused: list[RefusedOutput]


class TrialValueOutput(Output):
    trial: str
    value: float | None


class MeasurementOutput(Output):
    """`value` is null where missing or not shown; `op` is null where no trial could tell;
    `trials` counts the completed ones; `interval` is the 95 % interval of the median over trials;
    `findings` are the codes of the doubts about this number, the most severe first."""

    target: str
    workload: str
    level: str
    op: str | None
    metric: str
    value: float | None
    unit: str
    trials: int
    interval: tuple[float, float] | None
    findings: list[str]
    values: list[TrialValueOutput] | None = None


class ShowOutput(Output):
    schema_: Literal["leadline/show/1"] = Field(default="leadline/show/1", alias="schema")
    run: str
    measurements: list[MeasurementOutput]


class AuditOutput(Output):
    """`trusted`: no finding is an error, and no file that was named could not be read. `run` is
    empty where files were audited; `refused` are those that no importer takes."""

    schema_: Literal["leadline/audit/1"] = Field(default="leadline/audit/1", alias="schema")
    run: str
    trusted: bool
    findings: list[FindingOutput]
    refused: list[RefusedOutput]


class ProblemOutput(Output):
    path: str
    message: str


class VerifyOutput(Output):
    """`checked` counts files and derived numbers together."""

    schema_: Literal["leadline/verify/1"] = Field(default="leadline/verify/1", alias="schema")
    ok: bool
    checked: int
    problems: list[ProblemOutput]


class ListedRun(Output):
    """`status` is `damaged` where the archive's own description cannot be read; what it would
    have said is then null or empty."""

    run: str
    path: str
    status: str
    created_at: str | None
    trials: int
    trials_planned: int
    targets: list[str]
    profiles: list[str]


class ListOutput(Output):
    schema_: Literal["leadline/list/1"] = Field(default="leadline/list/1", alias="schema")
    runs: list[ListedRun]


class CheckedCell(Output):
    """`seconds` of one trial: ramp and runtime of every phase."""

    target: str
    workload: str
    level: str
    seconds: float


class CheckedWrite(Output):
    """`bytes` written before the first trial; `destroys`: what is there now will be lost."""

    target: str
    bytes: int
    destroys: bool


class FaultOutput(Output):
    file: str
    line: int | None
    key: str
    message: str
    nearest: str | None


class CheckedFollowUp(Output):
    """What the run adds when it has seen results, and how many trials that takes at most."""

    target: str
    workload: str
    kind: Literal["open-loop", "density"]
    most_trials: int
    most_seconds: float


class CheckOutput(Output):
    """`seconds` of I/O of all trials, without prefill, set-up and what is added later."""

    schema_: Literal["leadline/check/1"] = Field(default="leadline/check/1", alias="schema")
    plan: str
    cells: list[CheckedCell]
    trials: int
    seconds: float
    follow_ups: list[CheckedFollowUp]
    prefill_bytes: int
    writes: list[CheckedWrite]
    faults: list[FaultOutput]


SCHEMAS: dict[str, type[BaseModel]] = {
    "audit": AuditOutput,
    "check": CheckOutput,
    "compare": CompareOutput,
    "import": ImportOutput,
    "inventory": InventoryOutput,
    "lab": LabOutput,
    "layers": LayersOutput,
    "list": ListOutput,
    "plan": PlanOutput,
    "pools": PoolsOutput,
    "rank": RankOutput,
    "recommend": RecommendOutput,
    "run": RunOutput,
    "scale": ScaleOutput,
    "show": ShowOutput,
    "verify": VerifyOutput,
}


def finding_output(finding: Finding) -> FindingOutput:
    return FindingOutput(
        code=finding.code,
        severity=finding.severity,
        target=finding.target,
        workload=finding.workload,
        level=finding.level,
        op=finding.op.value if finding.op else None,
        trial=finding.trial,
        evidence=dict(finding.evidence),
        message=finding.message,
        remedy=finding.remedy,
    )


def run_output(run: Run, findings: Iterable[Finding]) -> RunOutput:
    return RunOutput(
        run=run.id,
        path=str(run.path),
        status=run.manifest.status.value,
        trials=_completed(run),
        findings=[finding_output(finding) for finding in findings],
    )


def show_output(
    run: Run,
    figures: Iterable[CellFigure],
    findings: Iterable[Finding] = (),
    *,
    trials: bool = False,
) -> ShowOutput:
    """`trials` adds every trial's value; `findings` are already in the figures."""
    return ShowOutput(
        run=run.id,
        measurements=[
            _measurement(figure, metric, trials=trials)
            for figure in figures
            for metric in figure.metrics
        ],
    )


def _measurement(figure: CellFigure, metric: MetricFigure, *, trials: bool) -> MeasurementOutput:
    values = [TrialValueOutput(trial=one.trial, value=one.value) for one in metric.trials]
    return MeasurementOutput(
        target=figure.target,
        workload=figure.workload,
        level=figure.level,
        op=figure.op.value if figure.op else None,
        metric=metric.metric.value,
        value=metric.value,
        unit=metric.metric.unit,
        trials=figure.completed,
        interval=metric.interval,
        findings=list(metric.findings),
        values=values if trials else None,
    )


def audit_output(
    run: Run | None, findings: Sequence[Finding], refused: Sequence[Refused] = ()
) -> AuditOutput:
    """`run` is None where files were audited."""
    errors = any(finding.severity is Severity.ERROR for finding in findings)
    return AuditOutput(
        run=run.id if run else "",
        trusted=not errors and not any(one.expected for one in refused),
        findings=[finding_output(finding) for finding in findings],
        refused=[_refused(one) for one in refused],
    )


def import_output(
    audited: Iterable[tuple[Run, Sequence[Finding]]], refused: Iterable[Refused]
) -> ImportOutput:
    return ImportOutput(
        runs=[
            ImportedRun(
                run=run.id,
                path=str(run.path),
                cluster=run.manifest.cluster_label,
                trials=_completed(run),
                findings=[finding_output(finding) for finding in findings],
            )
            for run, findings in audited
        ],
        refused=[_refused(one) for one in refused],
    )


def _refused(one: Refused) -> RefusedOutput:
    return RefusedOutput(file=one.file, reason=one.reason, context=list(one.context))


def verify_output(verification: Verification) -> VerifyOutput:
    return VerifyOutput(
        ok=verification.ok,
        checked=verification.files + verification.numbers,
        problems=[
            ProblemOutput(path=problem.path, message=problem.message)
            for problem in verification.problems
        ],
    )


def list_output(runs: Iterable[Run]) -> ListOutput:
    """One damaged archive does not hide the others: it is listed as `damaged`."""
    return ListOutput(runs=[_listed(run) for run in runs])


def _listed(run: Run) -> ListedRun:
    try:
        return ListedRun(
            run=run.id,
            path=str(run.path),
            status=run.manifest.status.value,
            created_at=run.manifest.created_at,
            trials=_completed(run),
            trials_planned=run.manifest.trials_planned,
            targets=[target.name for target in run.plan.targets],
            profiles=list(run.plan.profiles),
        )
    except LeadlineError:
        return ListedRun(
            run=run.path.name,
            path=str(run.path),
            status="damaged",
            created_at=None,
            trials=0,
            trials_planned=0,
            targets=[],
            profiles=[],
        )


def faulty_output(faults: Iterable[Fault]) -> CheckOutput:
    """What `check` says of a plan that cannot be expanded: its faults and nothing else."""
    return CheckOutput(
        plan="",
        cells=[],
        trials=0,
        seconds=0.0,
        follow_ups=[],
        prefill_bytes=0,
        writes=[],
        faults=[
            FaultOutput(
                file=fault.file,
                line=fault.line,
                key=fault.key,
                message=fault.message,
                nearest=fault.nearest,
            )
            for fault in faults
        ],
    )


def check_output(plan: Plan) -> CheckOutput:
    writes = []
    for target in plan.targets:
        footprint = target_footprint(plan, target.name)
        device = target.parsed.kind is TargetKind.DEVICE
        size = (footprint.span if device else footprint.total_bytes) if plan.prefill else 0
        writes.append(
            CheckedWrite(
                target=target.name,
                bytes=size,
                destroys=device and (plan.prefill or footprint.writes),
            )
        )
    return CheckOutput(
        plan=plan.name,
        cells=[
            CheckedCell(
                target=cell.target,
                workload=cell.workload.name,
                level=cell.level,
                seconds=cell.workload.duration_s,
            )
            for cell in plan.cells
        ],
        trials=len(plan.trials),
        seconds=plan.duration_s,
        follow_ups=[_follow_up(plan, one) for one in plan.follow_ups],
        prefill_bytes=sum(write.bytes for write in writes),
        writes=writes,
        faults=[],
    )


def _follow_up(plan: Plan, asked: FollowUp) -> CheckedFollowUp:
    bound = bound_of(plan, asked)
    return CheckedFollowUp(
        target=asked.target,
        workload=bound.workload,
        kind=asked.kind,
        most_trials=bound.trials,
        most_seconds=bound.asked_s,
    )


def _completed(run: Run) -> int:
    return sum(trial.record.status is TrialStatus.COMPLETED for trial in run.trials)


# Plain tables for `--format text|csv|markdown`.

SHOW_COLUMNS = (
    "target", "workload", "level", "op", "metric", "value", "unit", "trials",
    "interval_low", "interval_high", "findings",
)  # fmt: skip
TRIAL_COLUMNS = ("target", "workload", "level", "op", "metric", "unit", "trial", "value")


def show_rows(shown: ShowOutput) -> list[Row]:
    """Rows under SHOW_COLUMNS: full precision, base units, empty where there is no value."""
    return [
        (
            *_cell(one), one.value, one.unit, one.trials,
            *(one.interval or (None, None)), " ".join(one.findings),
        )
        for one in shown.measurements
    ]  # fmt: skip


def trial_rows(shown: ShowOutput) -> list[Row]:
    """Rows under TRIAL_COLUMNS: every trial's value, of `show_output(..., trials=True)`."""
    return [
        (*_cell(one), one.unit, value.trial, value.value)
        for one in shown.measurements
        for value in one.values or ()
    ]


def _cell(one: MeasurementOutput) -> tuple[str, str, str, str, str]:
    return (one.target, one.workload, one.level, one.op or "", one.metric)


def show_table(shown: ShowOutput, output: str, *, trials: bool = False) -> str:
    """`leadline show --format csv|markdown|text` as one long table, a row per number."""
    if trials:
        return render_rows(TRIAL_COLUMNS, trial_rows(shown), output)
    return render_rows(SHOW_COLUMNS, show_rows(shown), output)
