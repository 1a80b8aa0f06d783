"""Evidence of load levels, from the trials of an archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from leadline.analysis.bottleneck.model import LevelEvidence
from leadline.analysis.bottleneck.system import TargetSystem, trips_of
from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialStatus
from leadline.formats.ceph_counters import MissedCounters, OsdRates, osd_rates
from leadline.formats.host_counters import MissedHostSample
from leadline.formats.host_rates import MachineRates, machine_rates
from leadline.formats.output import EngineOutput, FormatError
from leadline.metrics import Metric, Op
from leadline.plan.models import Cell, Phase

# Engines take about so long from their start to the first I/O (docs/internals/performance.md).
_STARTING_S = 0.5
_SUMMED = (Metric.IOPS, Metric.BANDWIDTH)


def level_evidence(
    run: Run, target: str, workload: str, level: str, *, client_link_bps: float | None = None
) -> LevelEvidence:
    """Of one load level. Raises KeyError where the plan has no such cell."""
    return levels_evidence(run, target, workload, client_link_bps=client_link_bps)[level]


def levels_evidence(
    run: Run, target: str, workload: str, *, client_link_bps: float | None = None
) -> Mapping[str, LevelEvidence]:
    """Of all levels of a workload on a target, by level, in the order of the plan.

    A level's evidence is that of one completed trial, the one with the median throughput (of two
    the lower), so that all of it happened at the same time. A level without a completed trial has
    evidence that holds only what was asked.
    """
    cells = [
        (number, cell)
        for number, cell in enumerate(run.plan.cells)
        if cell.target == target and cell.workload.name == workload
    ]
    planned = {trial.id: trial.cell for trial in run.plan.trials}
    seen: dict[int, list[_Seen]] = {number: [] for number, _ in cells}
    for trial in run.trials:
        number = planned.get(trial.record.trial)
        if number in seen and trial.record.status is TrialStatus.COMPLETED:
            figures = _figures(trial, run.plan.cells[number])
            if figures is not None:
                seen[number].append(_Seen(trial=trial, figures=figures))
    rates = {
        number: median(one.figures.iops for one in trials)
        for number, trials in seen.items()
        if trials
    }
    system = TargetSystem.of(run, run.plan.target(target))
    found = {}
    for number, cell in cells:
        more = [rate for other, rate in rates.items() if _heavier(run.plan.cells[other], cell)]
        found[cell.level] = _evidence(
            cell, seen[number], system, max(more, default=None), client_link_bps
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """Of the phase that filled its queue least, where a trial has several."""

    iops: float
    bandwidth_bps: float
    in_flight: float | None
    asked: int | None
    by_op: Mapping[Op, float]

    @property
    def latency_mean_s(self) -> float | None:
        """By Little's law, over reads and writes together."""
        return self.in_flight / self.iops if self.in_flight is not None and self.iops else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    trial: StoredTrial
    figures: _Figures


def _heavier(cell: Cell, than: Cell) -> bool:
    """The same work with more of it in flight, in a closed loop."""
    mine, its = cell.load, than.load
    if mine.offered_iops is not None or its.offered_iops is not None:
        return False
    return mine.neighbours == its.neighbours and mine.in_flight > its.in_flight


def _figures(trial: StoredTrial, cell: Cell) -> _Figures | None:
    """None of a trial that left no throughput."""
    rows: dict[Op, dict[Metric, float]] = {}
    derived = trial.derived
    for operation in derived.operations if derived else ():
        row = rows.setdefault(operation.op, {})
        for metric, value in operation.metrics.items():
            if value is not None:
                row[metric] = row.get(metric, 0.0) + value if metric in _SUMMED else value
    rows.pop(Op.TOTAL, None)
    volumes = max(1, len(trial.runners)) if not cell.workload.clients else cell.workload.clients
    phases = [
        one
        for phase in cell.workload.phases
        if (one := _of_ops(rows, phase.pattern.ops, _asked(phase, volumes))) is not None
    ]
    if phases:
        return min(phases, key=_filled)
    return _of_ops(rows, tuple(rows), None)


def _asked(phase: Phase, clients: int) -> int | None:
    return None if phase.rate_iops is not None else phase.iodepth * phase.numjobs * clients


def _of_ops(
    rows: Mapping[Op, Mapping[Metric, float]], ops: Sequence[Op], asked: int | None
) -> _Figures | None:
    chosen = {op: rows[op] for op in ops if op in rows and Metric.IOPS in rows[op]}
    if not chosen:
        return None
    told = all(Metric.LATENCY_MEAN in row for row in chosen.values())
    return _Figures(
        iops=sum(row[Metric.IOPS] for row in chosen.values()),
        bandwidth_bps=sum(row.get(Metric.BANDWIDTH, 0.0) for row in chosen.values()),
        in_flight=sum(row[Metric.IOPS] * row[Metric.LATENCY_MEAN] for row in chosen.values())
        if told
        else None,
        asked=asked,
        by_op={op: row[Metric.IOPS] for op, row in chosen.items()},
    )


def _filled(figures: _Figures) -> float:
    if figures.asked is None or figures.in_flight is None:
        return 1.0
    return figures.in_flight / figures.asked


def _evidence(
    cell: Cell,
    seen: Sequence[_Seen],
    system: TargetSystem,
    more_iops: float | None,
    client_link_bps: float | None,
) -> LevelEvidence:
    load = cell.load
    if not seen:
        return LevelEvidence(
            asked=None if load.offered_iops is not None else load.in_flight,
            offered_iops=load.offered_iops,
            on_ceph=system.on_ceph,
            on_lab=system.on_lab,
            devices=system.devices,
            rotational=system.rotational,
            client_link_bps=client_link_bps,
            notes=("no trial of the level was completed",),
        )
    middle = sorted(seen, key=lambda one: one.figures.iops)[(len(seen) - 1) // 2]
    trial, figures = middle.trial, middle.figures
    machines, of_machines = _machines(trial, cell)
    osds, of_osds = _osds(trial)
    trips = [one.median_s for one in trial.record.round_trips]
    return LevelEvidence(
        trial=trial.record.label,
        machines=machines,
        processor=trial.record.processor,
        engine_cores=_engine_cores(trial),
        job_core_share=_busiest_job(trial),
        osds=osds,
        on_ceph=system.on_ceph,
        on_lab=system.on_lab,
        client_link_bps=client_link_bps,
        devices=system.devices,
        rotational=system.rotational,
        asked=figures.asked,
        in_flight=figures.in_flight,
        offered_iops=load.offered_iops,
        iops=figures.iops,
        bandwidth_bps=figures.bandwidth_bps,
        latency_mean_s=figures.latency_mean_s,
        more_iops=more_iops,
        round_trip_s=max(trips, default=None),
        trips=trips_of(system.pool, figures.by_op, measured=bool(trips)),
        notes=(*of_machines, *of_osds),
    )


def _machines(trial: StoredTrial, cell: Cell) -> tuple[tuple[MachineRates, ...], tuple[str, ...]]:
    """Rates over the part of the trial that its figures are of, and what is missing."""
    try:
        samples = trial.resources
    except FormatError as error:
        return (), (error.fact,)
    work = cell.workload
    begin_s, end_s = _STARTING_S, None
    if len(work.phases) == 1 and work.runtime_s:
        begin_s = work.ramp_s + _STARTING_S
        end_s = begin_s + work.runtime_s
    notes = [
        f"{one.machine}: {what}"
        for one in samples
        for what in ((one.reason,) if isinstance(one, MissedHostSample) else one.unread)
    ]
    return machine_rates(samples, begin_s, end_s), _once(notes)


def _osds(trial: StoredTrial) -> tuple[tuple[OsdRates, ...], tuple[str, ...]]:
    try:
        samples = trial.ceph_counters
    except FormatError as error:
        return (), (error.fact,)
    missed = (one.reason for one in samples if isinstance(one, MissedCounters))
    return osd_rates(samples), _once(f"OSDs: {reason}" for reason in missed)


def _once(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(notes))


def _engine_cores(trial: StoredTrial) -> float | None:
    """Cores that the engine used on average. It runs little longer than it was asked to."""
    record = trial.record
    if record.processor is None or not record.asked_s:
        return None
    return record.processor.engine_cpu_s / record.asked_s


def _busiest_job(trial: StoredTrial) -> float | None:
    output = trial.output
    if not isinstance(output, EngineOutput):
        return None
    shares = [share for job in output.jobs if (share := job.core_share) is not None]
    return max(shares, default=None)
