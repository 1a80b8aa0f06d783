"""Load curves of a run: the results of one target, workload and operation over its load levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from leadline import errors
from leadline.analysis.figures import CellFigure, MetricFigure, scaled
from leadline.analysis.workloads import REACHED, block_bytes
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.findings import Severity
from leadline.formats.result import JobOptions
from leadline.metrics import Metric, Op
from leadline.plan.models import Cell
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import Phase, Workload

# fio options (with their aliases) by which imported results of one name are different workloads.
_FAMILY = (("rw", "readwrite"), ("bs", "blocksize"), ("rwmixread",))


@dataclass(frozen=True, slots=True, kw_only=True)
class PointLoad:
    """The load of one operation: `clients` load generators (at least 1) with `numjobs` jobs of
    `iodepth` each, next to `neighbours` other load generators. `offered_iops` is the rate of all
    clients in an open loop, reads and writes together, None in a closed loop; `op_share` is the
    operation's share of it. `family` is the pattern and block size of imported results, whose
    names lack them.
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
        """Requested I/Os in flight."""
        return self.clients * self.numjobs * self.iodepth

    @property
    def offered_per_client(self) -> float | None:
        return None if self.offered_iops is None else self.offered_iops / self.clients


def load_of(workload: Workload, op: Op) -> PointLoad | None:
    """Return the load of the phase that does `op`; None where it is unknown."""
    if workload.recorded is not None:
        options = workload.recorded.options
        # fio reports the options that it was given; its defaults are depth 1 and one job.
        whole = workload.recorded.tool == "fio" and bool({"rw", "readwrite"} & options.keys())
        load = _of_recorded(JobOptions(raw=options, whole=whole), op)
        return load and _with_clients(load, max(1, workload.clients))
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
    """Return the phase that does `op`: at most one of a workload. A total is of the mixed phase."""
    for phase in workload.phases if workload.in_blocks else ():
        if op in phase.pattern.ops or (op is Op.TOTAL and len(phase.pattern.ops) > 1):
            return phase
    return None


def _of_recorded(options: JobOptions, op: Op) -> PointLoad | None:
    """Return the load by the options of an imported result: unknown without a depth, one job by
    default. Rates of reads and writes, or of each job, are added up."""
    depth, jobs = options.iodepth, options.numjobs
    if depth is None:
        return None
    jobs = max(1, 1 if jobs is None else jobs)
    family = [
        next((options.raw[key] for key in keys if key in options.raw), "") for keys in _FAMILY
    ]
    reads, writes = _offered(options, jobs)
    offered = reads + writes
    of_op = {Op.READ: reads, Op.WRITE: writes}.get(op, offered)
    # A table's `numjobs` are those of all its clients.
    clients = options.integer("clients", 1) or 1
    clients = clients if jobs % clients == 0 else 1
    return PointLoad(
        clients=clients,
        numjobs=jobs // clients,
        iodepth=max(1, depth),
        offered_iops=offered or None,
        op_share=of_op / offered if offered else 1.0,
        family=" ".join(filter(None, family)),
    )


def _with_clients(load: PointLoad, clients: int) -> PointLoad:
    offered = load.offered_iops
    return replace(load, clients=clients, offered_iops=offered and clients * offered)


def _offered(options: JobOptions, jobs: int) -> tuple[float, float]:
    """Return reads and writes offered per second. fio's `rate_iops=500` is the rate of each job and
    each direction, `400,100` of reads and writes. It is an open loop only with
    `rate_process=poisson`; else it caps a closed loop."""
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


# Code of trials that the runner stopped, and of finished trials with a finding, because the offered
# rate was not reached.
RATE_NOT_REACHED = errors.RATE_NOT_REACHED.code
LATENCIES: tuple[Metric, ...] = (
    Metric.LATENCY_MEAN,
    Metric.LATENCY_P50,
    Metric.LATENCY_P95,
    Metric.LATENCY_P99,
    Metric.LATENCY_P999,
)


class Axis(StrEnum):
    """The unit of a curve's load: load generators (a sweep of clients at one depth), else I/Os in
    flight."""

    CLIENTS = "clients"
    IN_FLIGHT = "I/Os in flight"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One load level. `figure` holds its numbers, `cell` is the number of its cell in the plan.

    `stopped` trials were ended early because they did not reach their offered rate.
    `from_bandwidth`: only the bandwidth was reported, and its IOPS are those of the block size.
    """

    level: str
    cell: int
    load: PointLoad
    figure: CellFigure
    stopped: int = 0
    from_bandwidth: bool = False

    @property
    def open_loop(self) -> bool:
        return self.load.offered_iops is not None

    @property
    def throughput(self) -> MetricFigure:
        """I/Os per second: median, value of each trial, interval, findings."""
        return self.figure.metric(Metric.IOPS)

    def latency(self, metric: Metric) -> MetricFigure:
        return self.figure.metric(metric)

    def usable(self, metric: Metric) -> float | None:
        """Return the value in the metric's base unit; None where it is missing, or refused by an
        `error` finding. An open loop that fell behind has no usable latency: it depends on the
        length of the trial, for the queue keeps growing."""
        figure = self.figure.metric(metric)
        if refused(figure) or (metric.is_latency and self.beyond_capacity):
            return None
        return figure.value

    def trials(self, metric: Metric) -> tuple[float, ...]:
        """Return each trial's value; empty where the metric is not usable or a trial lacks it, for
        the other trials would be a biased selection."""
        values = [trial.value for trial in self.figure.metric(metric).trials]
        known = tuple(value for value in values if value is not None)
        return known if self.usable(metric) is not None and len(known) == len(values) else ()

    @property
    def missing(self) -> bool:
        return self.figure.missing

    @property
    def beyond_capacity(self) -> bool:
        """Whether some trial did not reach its offered rate."""
        return self.stopped > 0 or (self.open_loop and self._found_behind)

    @property
    def behind(self) -> int:
        """Trials that did not reach their offered rate: stopped ones, and those of the finding."""
        offered = self.load.offered_iops
        if offered is None or not self._found_behind:
            return self.stopped
        least = REACHED * offered * self.load.op_share
        rates = (trial.value for trial in self.throughput.trials)
        slow = sum(rate is not None and rate < least for rate in rates)
        return self.stopped + max(1, slow)

    @property
    def _found_behind(self) -> bool:
        return RATE_NOT_REACHED in self.figure.metric(Metric.LATENCY_MEAN).findings


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCurve:
    """One target, workload and operation over load levels.

    `closed` are closed-loop points by load. Their percentiles omit I/Os that a stall delayed
    (coordinated omission), so they never share a line with `offered`, the open-loop points by
    offered rate. `disturbed` are points with neighbours. `numjobs` and `iodepth` are set where
    clients vary, else None. `part_of_mix`: one direction of a mixed workload, whose total is a
    curve of its own.
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
        """Return the point's load in the unit of the curve."""
        load = point.load
        return float(load.clients if self.axis is Axis.CLIENTS else load.in_flight)

    @property
    def from_bandwidth(self) -> bool:
        """Whether the IOPS of some level come from its bandwidth and block size."""
        return any(point.from_bandwidth for point in (*self.closed, *self.offered))

    @property
    def label(self) -> str:
        at = "" if self.iodepth is None else f"depth {self.iodepth}"
        if self.numjobs not in (None, 1):
            at += f" x {self.numjobs} jobs"
        return " · ".join(one for one in (self.target, self.workload, self.op.value, at) if one)


def refused(figure: MetricFigure) -> bool:
    """Whether an `error` finding refuses the number."""
    return figure.severity is Severity.ERROR


def load_curves(run: Run, figures: Sequence[CellFigure]) -> tuple[LoadCurve, ...]:
    """Return every curve of a run with at least one known load level, in the order of the plan.

    A level of unknown depth (a user's job file, an import without options) is on no curve. A
    workload at one level is a curve of one point.
    """
    stopped = _stopped(run)
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
            rated = _with_iops(figure, cell.workload)
            points.setdefault(key, []).append(
                LoadPoint(
                    level=figure.level,
                    cell=number,
                    load=load,
                    figure=rated,
                    stopped=stopped[number],
                    from_bandwidth=rated is not figure,
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


def _with_iops(figure: CellFigure, workload: Workload) -> CellFigure:
    """Add the IOPS of a figure that has only a bandwidth: bandwidth over the block size."""
    bandwidth, block = figure.metric(Metric.BANDWIDTH), block_bytes(workload)
    if figure.metric(Metric.IOPS).value is not None or bandwidth.value is None or not block:
        return figure
    iops = scaled(bandwidth, Metric.IOPS, 1 / block)
    metrics = (iops if one.metric is Metric.IOPS else one for one in figure.metrics)
    return replace(figure, metrics=tuple(metrics))


def _counted(run: Run, cell: Cell) -> Workload:
    """Return the workload with its number of clients: one per volume on a StorageClass."""
    target = run.plan.target(cell.target)
    if cell.workload.clients or target.kind is not TargetKind.STORAGE_CLASS:
        return cell.workload
    return cell.workload.model_copy(update={"clients": target.parsed.request.count})


def _stopped(run: Run) -> Counter[int]:
    """Count by cell the trials that were stopped because they missed their rate."""
    cells = {trial.id: trial.cell for trial in run.plan.trials}
    records = (stored.record for stored in run.trials)
    return Counter(
        cells[record.trial]
        for record in records
        if record.problem is not None
        and record.problem.code == RATE_NOT_REACHED
        and record.status is not TrialStatus.COMPLETED
        and record.trial in cells
    )


_Fixed = tuple[int, int] | None


def _curves(
    target: str, workload: str, op: Op, points: Sequence[LoadPoint], *, part_of_mix: bool
) -> Iterator[LoadCurve]:
    """Yield one curve over I/Os in flight; where clients vary, one per depth and number of jobs.

    Open-loop points have a depth that is never reached. Where no closed level shares it, they join
    the curve with the highest level, because their rates are shares of it."""
    plain = [level for level in points if not level.open_loop and not level.load.neighbours]
    by_clients = len({level.load.clients for level in plain}) > 1
    groups: dict[_Fixed, list[LoadPoint]] = {}

    def fixed(point: LoadPoint) -> _Fixed:
        return (point.load.numjobs, point.load.iodepth) if by_clients else None

    for one in plain:
        groups.setdefault(fixed(one), []).append(one)
    highest = max(plain, key=lambda level: level.usable(Metric.IOPS) or 0.0, default=None)
    otherwise = fixed(highest) if highest else None
    for one in points:
        if one.open_loop or one.load.neighbours:
            groups.setdefault(fixed(one) if fixed(one) in groups else otherwise, []).append(one)
    for group, members in groups.items():
        mine = [member for member in members if not member.load.neighbours]
        numjobs, iodepth = group or (None, None)
        yield LoadCurve(
            target=target,
            workload=workload,
            op=op,
            axis=Axis.CLIENTS if by_clients else Axis.IN_FLIGHT,
            numjobs=numjobs,
            iodepth=iodepth,
            closed=_ordered(level for level in mine if not level.open_loop),
            offered=_ordered(level for level in mine if level.open_loop),
            disturbed=_ordered(level for level in members if level.load.neighbours),
            part_of_mix=part_of_mix,
        )


def _ordered(points: Iterable[LoadPoint]) -> tuple[LoadPoint, ...]:
    return tuple(
        sorted(
            points,
            key=lambda point: (
                point.load.offered_iops or 0.0,
                point.load.in_flight,
                point.load.neighbours,
                point.cell,
            ),
        )
    )


# Findings of `leadline scale`, which are not audit rules. Each has a page docs/rules/CODE.md.
SUPERLINEAR = "superlinear-scaling"
FOUND_BY_SCALE = {SUPERLINEAR: "Throughput grew by more than the hardware that was added."}
