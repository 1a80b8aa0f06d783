"""JSON answers of the verbs about runs: contracts with other programs, one model per verb.

Values are in base units (operations, bytes and seconds); names are as the plan has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from leadline import errors
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.power import CellPower, Power
from leadline.archive.reader import Run, imported_files
from leadline.archive.records import TrialStatus
from leadline.archive.verify import Discrepancy, Verification
from leadline.errors import LeadlineError
from leadline.findings import Finding, Severity, aggregate
from leadline.formats.importer import Refused
from leadline.plan.facts import GivenFacts, TargetFacts
from leadline.plan.faults import Fault
from leadline.plan.follow_ups import follow_up_bound
from leadline.plan.footprint import target_footprint
from leadline.plan.groups import planned_groups
from leadline.plan.guard_rules import GuardedCourse
from leadline.plan.models import FollowUp, Plan
from leadline.plan.target_url import TargetKind
from leadline.report.answers.base import CellOutput, FindingOutput, Output
from leadline.report.render.rows import Row, render_rows


class AuditFindingOutput(FindingOutput):
    severity: Severity


class FindingCellOutput(CellOutput):
    """A cell that an aggregated finding is on, with its trials."""

    op: str | None
    trials: list[str]


class AggregatedFindingOutput(Output):
    """All findings of one code and severity: `message` and `remedy` are of the first of `count`,
    `evidence` has the lowest and the highest value of each number."""

    code: str
    severity: Severity
    count: int
    message: str
    remedy: str
    evidence: dict[str, tuple[float, float]]
    cells: list[FindingCellOutput]


class RunOutput(Output):
    """`trials` counts the completed ones."""

    schema_: Literal["leadline/run/1"] = Field(default="leadline/run/1", alias="schema")
    run: str
    path: str
    status: str
    trials: int
    findings: list[AuditFindingOutput]


class ImportedRun(Output):
    """`trials` counts those that hold figures; `cluster` is empty where it is unknown."""

    run: str
    path: str
    cluster: str
    trials: int
    findings: list[AuditFindingOutput]
    aggregated: list[AggregatedFindingOutput]


class RefusedOutput(Output):
    """A file that was not imported. `context` has the place of the reason."""

    file: str
    reason: str
    context: list[str]


class ImportedFileOutput(Output):
    """What a file became: a trial, or a part of one (a client's file, a log).

    `repeat` is the number of the trial in its cell, `client` is empty where the path names none.
    """

    file: str
    cluster: str
    target: str
    workload: str
    level: str
    repeat: int
    client: str


class ImportOutput(Output):
    """One run for each cluster that the files name; none after a dry run. `layout` is empty where
    none was asked for or none fits, and `layout_reason` says how it was found."""

    schema_: Literal["leadline/import/1"] = Field(default="leadline/import/1", alias="schema")
    runs: list[ImportedRun]
    refused: list[RefusedOutput]
    layout: str
    layout_reason: str
    files: list[ImportedFileOutput]


class TrialValueOutput(Output):
    trial: str
    value: float | None


class MeasurementOutput(CellOutput):
    """`value` is null where missing or not shown; `op` is null where it is unknown;
    `trials` counts the completed ones; `interval` is the 95 % interval of the median over trials;
    `findings` are the codes of the findings on this number, the most severe first."""

    op: str | None
    metric: str
    value: float | None
    unit: str
    trials: int
    interval: tuple[float, float] | None
    findings: list[str]
    values: list[TrialValueOutput] | None = None


class FactsOutput(Output):
    """What the user gave about a cluster and its targets; null is unknown."""

    cluster: str
    facts: GivenFacts
    targets: dict[str, TargetFacts]


class ShowOutput(Output):
    """`facts` are those that a user gave with imported results, for each cluster. `costs` are the
    costs of an I/O that were measured, in the same form as `measurements`. Both are left out where
    there are none, as in the pages of earlier versions."""

    schema_: Literal["leadline/show/1"] = Field(default="leadline/show/1", alias="schema")
    run: str
    facts: list[FactsOutput] = Field(default_factory=list, exclude_if=lambda given: not given)
    measurements: list[MeasurementOutput]
    costs: list[MeasurementOutput] = Field(default_factory=list, exclude_if=lambda given: not given)


class AuditOutput(Output):
    """`trusted`: no finding is an error, and no file that was named could not be read. `run` is
    empty where files were audited; `refused` are those that no importer takes."""

    schema_: Literal["leadline/audit/1"] = Field(default="leadline/audit/1", alias="schema")
    run: str
    trusted: bool
    findings: list[AuditFindingOutput]
    aggregated: list[AggregatedFindingOutput]
    refused: list[RefusedOutput]


class VerifyOutput(Output):
    """`checked` counts files and derived numbers together."""

    schema_: Literal["leadline/verify/1"] = Field(default="leadline/verify/1", alias="schema")
    ok: bool
    checked: int
    problems: list[Discrepancy]


class ListedRun(Output):
    """`status` is `damaged` where the archive's own description cannot be read, and `newer` where
    it is of a later version of the format; its facts are then null or empty."""

    run: str
    path: str
    status: str
    created_at: str | None = None
    trials: int = 0
    trials_planned: int = 0
    targets: list[str] = Field(default_factory=list)
    profiles: list[str] = Field(default_factory=list)


class ListOutput(Output):
    schema_: Literal["leadline/list/1"] = Field(default="leadline/list/1", alias="schema")
    runs: list[ListedRun]


class CheckedCell(CellOutput):
    """`seconds` of one trial: ramp and runtime of every phase."""

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


class CheckedGroup(Output):
    """Targets that the run holds at the same time, for the repeats in `blocks` (empty: all), and
    what they hold; bytes are times the copies of the storage where these are known."""

    targets: tuple[str, ...]
    blocks: tuple[int, ...]
    trials: int
    seconds: float
    volumes: int
    capacity_bytes: int
    written_bytes: int
    cores: float


class CheckedGuard(Output):
    """The highest rates within the budget of a guard (bytes per second), null without a budget. If
    the run starts now, quiet hours hold its trials back for `waits_seconds`, and it ends at `ends`
    (ISO 8601) without its set-up."""

    peak_iops: float | None
    peak_bandwidth: float | None
    waits_seconds: float
    ends: str


class PowerOutput(Output):
    """Trials of each target that show a `change` of a rate beyond the `margin` (shares) in 4 of 5
    cases. `run`: whose scatter it is; empty: the published one."""

    change: float
    margin: float
    run: str
    comparisons: int
    across_runs: bool
    cells: list[CellPower]


class CheckOutput(Output):
    """`seconds` of I/O of all trials, without prefill, set-up and what is added later. `groups` is
    there for a plan with a budget, `power` for one with a change to detect, `guard` for one with a
    guard."""

    schema_: Literal["leadline/check/1"] = Field(default="leadline/check/1", alias="schema")
    plan: str = ""
    cells: list[CheckedCell] = Field(default_factory=list)
    trials: int = 0
    seconds: float = 0.0
    follow_ups: list[CheckedFollowUp] = Field(default_factory=list)
    prefill_bytes: int = 0
    writes: list[CheckedWrite] = Field(default_factory=list)
    groups: list[CheckedGroup] | None = Field(default=None, exclude_if=lambda given: given is None)
    guard: CheckedGuard | None = Field(default=None, exclude_if=lambda given: given is None)
    power: PowerOutput | None = Field(default=None, exclude_if=lambda given: given is None)
    faults: list[FaultOutput] = Field(default_factory=list)


def run_output(run: Run, findings: Iterable[Finding]) -> RunOutput:
    return RunOutput.from_records(
        run.manifest, path=str(run.path), trials=_completed(run), findings=tuple(findings)
    )


def show_output(
    run: Run,
    figures: Iterable[CellFigure],
    findings: Iterable[Finding] = (),
    *,
    trials: bool = False,
) -> ShowOutput:
    """Build the answer of `leadline show`; `trials` adds every trial's value.

    `findings` are already in the figures.
    """

    def row(figure: CellFigure, metric: MetricFigure) -> MeasurementOutput:
        return MeasurementOutput.from_records(
            metric,
            figure,
            unit=metric.metric.unit,
            trials=figure.completed,
            values=[TrialValueOutput.from_records(value) for value in metric.trials]
            if trials
            else None,
        )

    rows = tuple(figures)
    return ShowOutput(
        run=run.id,
        facts=[
            FactsOutput(
                cluster=cluster.name,
                facts=cluster.facts,
                targets={
                    target.name: target.facts
                    for target in run.plan.targets
                    if target.cluster == cluster.name and target.facts is not None
                },
            )
            for cluster in run.plan.clusters
            if cluster.facts is not None
        ],
        measurements=[row(figure, metric) for figure in rows for metric in figure.metrics],
        costs=[row(figure, metric) for figure in rows for metric in figure.costs],
    )


def audit_output(
    run: Run | None, findings: Sequence[Finding], refused: Sequence[Refused] = ()
) -> AuditOutput:
    """Build the answer of `leadline audit`; `run` is None where files were audited."""
    errors = any(finding.severity is Severity.ERROR for finding in findings)
    return AuditOutput(
        run=run.id if run else "",
        trusted=not errors and not any(file.expected for file in refused),
        findings=findings,
        aggregated=aggregate(findings),
        refused=refused,
    )


def import_output(
    audited: Iterable[tuple[Run, Sequence[Finding]]],
    refused: Iterable[Refused],
    runs: Sequence[Run],
    layout: tuple[str, str] = ("", ""),
) -> ImportOutput:
    """Build the answer of `leadline import`: `runs` are those of the files, which a dry run does
    not keep; `layout` is a name and how it was found."""
    return ImportOutput(
        runs=[
            ImportedRun(
                run=run.id,
                path=str(run.path),
                cluster=run.manifest.cluster_label,
                trials=_completed(run),
                findings=findings,
                aggregated=aggregate(findings),
            )
            for run, findings in audited
        ],
        refused=tuple(refused),
        layout=layout[0],
        layout_reason=layout[1],
        files=[ImportedFileOutput.from_records(file) for file in imported_files(runs)],
    )


def verify_output(verification: Verification) -> VerifyOutput:
    return VerifyOutput.from_records(
        verification, checked=verification.files + verification.numbers
    )


def list_output(runs: Iterable[Run]) -> ListOutput:
    """Build the answer of `leadline list`. An archive that cannot be read is listed as such."""
    return ListOutput(runs=[_listed(run) for run in runs])


def _listed(run: Run) -> ListedRun:
    try:
        run.refuse_newer()
        return ListedRun.from_records(
            run.manifest,
            path=str(run.path),
            trials=_completed(run),
            targets=[target.name for target in run.plan.targets],
            profiles=run.plan.profiles,
        )
    except LeadlineError as error:
        status = "newer" if error.kind is errors.ARCHIVE_NEWER else "damaged"
        return ListedRun(run=run.path.name, path=str(run.path), status=status)


def faulty_output(faults: Iterable[Fault]) -> CheckOutput:
    """Build the answer of `leadline check` for a plan with faults: the faults and nothing else."""
    return CheckOutput(faults=tuple(faults))


def check_output(
    plan: Plan, power: Power | None = None, course: GuardedCourse | None = None
) -> CheckOutput:
    """Build the answer of `leadline check`; `course` is what the plan's guard makes of it."""
    writes = []
    for target in plan.targets:
        footprint = target_footprint(plan, target.name)
        device = target.parsed.kind is TargetKind.DEVICE
        data = footprint.prefilled_bytes if target.parsed.kind.in_files else footprint.span
        size = data if plan.prefill else 0
        destroys = device and (plan.prefill or footprint.writes)
        writes.append(CheckedWrite(target=target.name, bytes=size, destroys=destroys))
    return CheckOutput(
        plan=plan.name,
        cells=[
            CheckedCell.from_records(
                cell, workload=cell.workload.name, seconds=cell.workload.duration_s
            )
            for cell in plan.cells
        ],
        trials=len(plan.trials),
        seconds=plan.duration_s,
        follow_ups=[_follow_up(plan, asked) for asked in plan.follow_ups],
        prefill_bytes=sum(write.bytes for write in writes),
        writes=writes,
        groups=[
            CheckedGroup.from_records(
                one.group, one.demand, trials=len(one.trials), seconds=one.seconds
            )
            for one in planned_groups(plan)
        ]
        if plan.groups
        else None,
        guard=CheckedGuard(
            peak_iops=course.peak_iops,
            peak_bandwidth=course.peak_bps,
            waits_seconds=course.waits_s,
            ends=course.ends.isoformat(timespec="seconds"),
        )
        if course is not None
        else None,
        power=power and PowerOutput.from_records(power),
    )


def _follow_up(plan: Plan, asked: FollowUp) -> CheckedFollowUp:
    bound = follow_up_bound(plan, asked)
    return CheckedFollowUp.from_records(
        asked, workload=bound.workload, most_trials=bound.trials, most_seconds=bound.asked_s
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
            *_cell(row), row.value, row.unit, row.trials,
            *(row.interval or (None, None)), " ".join(row.findings),
        )
        for row in (*shown.measurements, *shown.costs)
    ]  # fmt: skip


def trial_rows(shown: ShowOutput) -> list[Row]:
    """Rows under TRIAL_COLUMNS: every trial's value, of `show_output(..., trials=True)`."""
    return [
        (*_cell(row), row.unit, value.trial, value.value)
        for row in (*shown.measurements, *shown.costs)
        for value in row.values or ()
    ]


def _cell(row: MeasurementOutput) -> tuple[str, str, str, str, str]:
    return (row.target, row.workload, row.level, row.op or "", row.metric)


def show_table(shown: ShowOutput, output: str, *, trials: bool = False) -> str:
    """`leadline show --format csv|markdown|text` as one long table, a row per number."""
    if trials:
        return render_rows(TRIAL_COLUMNS, trial_rows(shown), output)
    return render_rows(SHOW_COLUMNS, show_rows(shown), output)
