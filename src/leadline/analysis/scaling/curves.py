"""A run's figures as load curves: one target, workload and operation over its load levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline import errors
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.archive.reader import Run
from leadline.archive.records import Problem, TrialStatus
from leadline.findings import Severity
from leadline.formats.result import JobOptions
from leadline.metrics import Metric, Op
from leadline.plan.models import Cell, Phase, Workload
from leadline.plan.target_url import TargetKind
from leadline.text import visible

# How much load a workload puts on its target with one of its operations.

# Options that make two results of one name two workloads, not two loads; both spellings of each.
_FAMILY = (("rw", "readwrite"), ("bs", "blocksize"), ("rwmixread",))


@dataclass(frozen=True, slots=True, kw_only=True)
class PointLoad:
    """`clients` load generators (one, too, where the target has but its own) with `numjobs` jobs
    of `iodepth` each, beside `neighbours` others. `in_flight` = clients x numjobs x iodepth is what
    was asked for. `offered_iops` is what all clients offer per second in an open loop, reads and
    writes together, None in a closed one; `op_share` of it are of the operation. `family` tells
    block size and pattern of imported results, whose names do not.
    """

    clients: int = 1
    neighbours: int = 0
    numjobs: int
    iodepth: int
    offered_iops: float | None = None
    op_share: float = 1.0
    family: str = ""

    @property
    def in_flight(self) -> int:
        return self.clients * self.numjobs * self.iodepth

    @property
    def offered_per_client(self) -> float | None:
        return None if self.offered_iops is None else self.offered_iops / self.clients


def load_of(workload: Workload, op: Op) -> PointLoad | None:
    """The load of the phase that does `op`; None where nobody tells it."""
    if workload.recorded is not None:
        options = workload.recorded.options
        # fio echoes what it was given, and has defaults for the rest: depth 1 and one job.
        whole = workload.recorded.tool == "fio" and bool({"rw", "readwrite"} & options.keys())
        return _of_recorded(JobOptions(raw=options, whole=whole), op)
    phase = _phase(workload, op)
    if phase is None:
        return None
    clients = max(1, workload.clients)
    return PointLoad(
        clients=clients,
        neighbours=workload.neighbours,
        numjobs=phase.numjobs,
        iodepth=phase.iodepth,
        offered_iops=None if phase.rate_iops is None else clients * phase.rate_iops,
        op_share=_share(phase, op),
    )


def _share(phase: Phase, op: Op) -> float:
    if phase.read_share is None or op is Op.TOTAL:
        return 1.0
    return (phase.read_share if op is Op.READ else 100 - phase.read_share) / 100


def _phase(workload: Workload, op: Op) -> Phase | None:
    """No two phases of a workload do the same operation; a total is that of the mixed phase."""
    for phase in () if workload.streams else workload.phases:
        if op in phase.pattern.ops or (op is Op.TOTAL and len(phase.pattern.ops) > 1):
            return phase
    return None


def _of_recorded(options: JobOptions, op: Op) -> PointLoad | None:
    """By the options that an imported result tells: without a depth there is no load, and without
    jobs there was one. A rate of reads and writes apart, or of each job, is added up."""
    depth, jobs = options.iodepth, options.numjobs
    if depth is None:
        return None
    jobs = max(1, 1 if jobs is None else jobs)
    told = [next((options.raw[key] for key in keys if key in options.raw), "") for keys in _FAMILY]
    reads, writes = _offered(options, jobs)
    offered = reads + writes
    of_op = {Op.READ: reads, Op.WRITE: writes}.get(op, offered)
    return PointLoad(
        numjobs=jobs,
        iodepth=max(1, depth),
        offered_iops=offered or None,
        op_share=of_op / offered if offered else 1.0,
        family=visible(" ".join(one for one in told if one)),
    )


def _offered(options: JobOptions, jobs: int) -> tuple[float, float]:
    """Reads and writes offered per second. fio's `rate_iops=500` holds each job and each direction
    to that, `400,100` tells both. Only with `rate_process=poisson` is it an open loop: else it is a
    lid on a closed one."""
    if options.text("rate_process") != "poisson":
        return 0.0, 0.0
    try:
        parts = [max(0.0, float(part)) for part in options.text("rate_iops").split(",")[:2]]
    except ValueError:
        return 0.0, 0.0
    pattern = options.pattern
    both = pattern in ("rw", "readwrite", "randrw")
    reads = parts[0] if both or "read" in pattern else 0.0
    writes = parts[-1] if both or "write" in pattern else 0.0
    return jobs * reads, jobs * writes


# What the runner calls a trial that it stopped since the offered rate was not reached, and the
# audit a finished one.
RATE_NOT_REACHED = errors.RATE_NOT_REACHED.code
# Share of the offered rate below which it was not reached.
REACHED = 0.95
LATENCIES: tuple[Metric, ...] = (
    Metric.LATENCY_MEAN,
    Metric.LATENCY_P50,
    Metric.LATENCY_P95,
    Metric.LATENCY_P99,
    Metric.LATENCY_P999,
)


class Axis(StrEnum):
    """What the load of a curve is counted in: load generators (a sweep of clients at one depth),
    else I/Os in flight."""

    CLIENTS = "clients"
    IN_FLIGHT = "I/Os in flight"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One load level. `figure` holds its numbers, `cell` is the number of its cell in the plan.

    `problem` is that of one of `stopped` trials, which were ended early since they did not reach
    the rate offered to them.
    """

    level: str
    cell: int
    load: PointLoad
    figure: CellFigure
    problem: Problem | None = None
    stopped: int = 0

    @property
    def open_loop(self) -> bool:
        return self.load.offered_iops is not None

    @property
    def throughput(self) -> MetricFigure:
        """I/Os per second: the median of the trials, each trial's value, the interval, doubts."""
        return self.figure.metric(Metric.IOPS)

    def latency(self, metric: Metric) -> MetricFigure:
        return self.figure.metric(metric)

    def usable(self, metric: Metric) -> float | None:
        """The value in the metric's base unit; None where it is missing, or refused by an `error`
        finding. In an open loop that fell behind no latency is usable: the queue grew for as long
        as the trial ran, so that its latency says how long that was."""
        figure = self.figure.metric(metric)
        if refused(figure) or (metric.is_latency and self.beyond_capacity):
            return None
        return figure.value

    def trials(self, metric: Metric) -> tuple[float, ...]:
        """Each trial's value; empty where the metric is not usable, or a trial does not tell it:
        a part of the trials would be those that suit."""
        values = [one.value for one in self.figure.metric(metric).trials]
        known = tuple(value for value in values if value is not None)
        return known if self.usable(metric) is not None and len(known) == len(values) else ()

    @property
    def missing(self) -> bool:
        return self.figure.missing

    @property
    def beyond_capacity(self) -> bool:
        """In some trial the target did not do what was offered to it."""
        return self.stopped > 0 or (self.open_loop and self._found_behind)

    @property
    def behind(self) -> int:
        """Trials in which it did not: those that were stopped, and those that the audit means."""
        offered = self.load.offered_iops
        if offered is None or not self._found_behind:
            return self.stopped
        least = REACHED * offered * self.load.op_share
        rates = (one.value for one in self.throughput.trials)
        slow = sum(rate is not None and rate < least for rate in rates)
        return self.stopped + max(1, slow)

    @property
    def _found_behind(self) -> bool:
        return RATE_NOT_REACHED in self.figure.metric(Metric.LATENCY_MEAN).findings


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCurve:
    """One target, workload and operation over load levels, all else being equal.

    `closed` are closed-loop points by their load; their percentiles leave out what a stall kept
    from being asked (coordinated omission), so they never share a line with `offered`, the
    open-loop points by the rate offered. `disturbed` are points with neighbours. `numjobs` and
    `iodepth` are those of all closed points where clients vary, else None. `part_of_mix`: one
    direction of reads and writes that ran together, whose total is a curve of its own.
    """

    target: str
    workload: str
    op: Op
    axis: Axis
    numjobs: int | None = None
    iodepth: int | None = None
    closed: tuple[LoadPoint, ...] = ()
    offered: tuple[LoadPoint, ...] = ()
    disturbed: tuple[LoadPoint, ...] = ()
    part_of_mix: bool = False

    def load_of(self, point: LoadPoint) -> float:
        """The point's load as the curve counts it."""
        load = point.load
        return float(load.clients if self.axis is Axis.CLIENTS else load.in_flight)

    @property
    def label(self) -> str:
        at = "" if self.iodepth is None else f"depth {self.iodepth}"
        if self.numjobs not in (None, 1):
            at += f" x {self.numjobs} jobs"
        return " · ".join(one for one in (self.target, self.workload, self.op.value, at) if one)


def refused(figure: MetricFigure) -> bool:
    """An `error` finding touches the number."""
    return figure.severity is Severity.ERROR


def load_curves(run: Run, figures: Sequence[CellFigure]) -> tuple[LoadCurve, ...]:
    """Every curve of a run with at least one load level that is known, in the order of the plan.

    A level whose depth nobody tells (a user's own job file, an import without options) is on no
    curve. A workload at one level is a curve of one point: whoever fits must count.
    """
    problems = _problems(run)
    points: dict[tuple[str, str, str, Op], list[LoadPoint]] = {}
    for number, cell in enumerate(run.plan.cells):
        for figure in figures:
            if figure.op is None or (figure.target, figure.planned_workload, figure.level) != (
                cell.target,
                cell.workload.name,
                cell.level,
            ):
                continue
            load = load_of(_counted(run, cell), figure.op)
            if load is None:
                continue
            key = (figure.target, figure.workload, load.family, figure.op)
            points.setdefault(key, []).append(
                LoadPoint(
                    level=figure.level,
                    cell=number,
                    load=load,
                    figure=figure,
                    problem=problems[number][0] if number in problems else None,
                    stopped=len(problems.get(number, ())),
                )
            )
    mixed = {key[:3] for key in points if key[3] is Op.TOTAL}
    families: dict[tuple[str, str], set[str]] = {}
    for target, workload, family, _ in points:
        families.setdefault((target, workload), set()).add(family)
    return tuple(
        curve
        for (target, workload, family, op), found in points.items()
        for curve in _curves(
            target,
            f"{workload} ({family})" if len(families[target, workload]) > 1 else workload,
            op,
            found,
            part_of_mix=(target, workload, family) in mixed and op is not Op.TOTAL,
        )
    )


def _counted(run: Run, cell: Cell) -> Workload:
    """The workload with its clients counted: on a StorageClass each volume has one."""
    target = run.plan.target(cell.target)
    if cell.workload.clients or target.kind is not TargetKind.STORAGE_CLASS:
        return cell.workload
    return cell.workload.model_copy(update={"clients": target.parsed.request.count})


def _problems(run: Run) -> Mapping[int, Sequence[Problem]]:
    """For each cell the problems of the trials that were stopped short of their rate."""
    cells = {trial.id: trial.cell for trial in run.plan.trials}
    found: dict[int, list[Problem]] = {}
    for stored in run.trials:
        record = stored.record
        problem = record.problem
        if (
            problem is not None
            and problem.code == RATE_NOT_REACHED
            and record.status is not TrialStatus.COMPLETED
            and record.trial in cells
        ):
            found.setdefault(cells[record.trial], []).append(problem)
    return found


_Fixed = tuple[int, int] | None


def _curves(
    target: str, workload: str, op: Op, points: Sequence[LoadPoint], *, part_of_mix: bool
) -> Iterator[LoadCurve]:
    """One curve over I/Os in flight; where clients vary, one for each depth and number of jobs.

    Open-loop points have a depth of their own, so deep that it is not reached: where no closed
    level has it, they are with the curve that has the highest level, whose shares they are."""
    plain = [one for one in points if not one.open_loop and not one.load.neighbours]
    by_clients = len({one.load.clients for one in plain}) > 1
    groups: dict[_Fixed, list[LoadPoint]] = {}

    def fixed(point: LoadPoint) -> _Fixed:
        return (point.load.numjobs, point.load.iodepth) if by_clients else None

    for one in plain:
        groups.setdefault(fixed(one), []).append(one)
    highest = max(plain, key=lambda one: one.usable(Metric.IOPS) or 0.0, default=None)
    otherwise = fixed(highest) if highest else None
    for one in points:
        if one.open_loop or one.load.neighbours:
            groups.setdefault(fixed(one) if fixed(one) in groups else otherwise, []).append(one)
    for group, members in groups.items():
        mine = [one for one in members if not one.load.neighbours]
        numjobs, iodepth = group or (None, None)
        yield LoadCurve(
            target=target,
            workload=workload,
            op=op,
            axis=Axis.CLIENTS if by_clients else Axis.IN_FLIGHT,
            numjobs=numjobs,
            iodepth=iodepth,
            closed=_ordered(one for one in mine if not one.open_loop),
            offered=_ordered(one for one in mine if one.open_loop),
            disturbed=_ordered(one for one in members if one.load.neighbours),
            part_of_mix=part_of_mix,
        )


def _ordered(points: Iterable[LoadPoint]) -> tuple[LoadPoint, ...]:
    return tuple(
        sorted(
            points,
            key=lambda one: (
                one.load.offered_iops or 0.0,
                one.load.in_flight,
                one.load.neighbours,
                one.cell,
            ),
        )
    )


# Codes of what `leadline scale` finds, which no rule of the audit does.

SUPERLINEAR = "superlinear-scaling"
# Each has a page beside those of the rules, docs/rules/CODE.md.
FOUND_BY_SCALE = {SUPERLINEAR: "Throughput grew by more than the hardware that was added."}
