"""Counters and figures of a load level that show which resource limited it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from leadline.analysis.explain.round_trips import count_round_trips
from leadline.analysis.explain.systems import PoolFacts, find_pool_facts
from leadline.analysis.resource_use import measured_machines
from leadline.archive.reader import Run
from leadline.archive.records import Processor, TrialStatus
from leadline.archive.trial import StoredTrial
from leadline.errors import LeadlineError
from leadline.formats.ceph.counters import OsdRates, osd_rates
from leadline.formats.host_rates import MachineRates
from leadline.formats.json_lines import Missed
from leadline.formats.result import EngineOutput, FormatError
from leadline.formats.watch_records import Role
from leadline.metrics import Metric, Op
from leadline.plan.guard import Guard
from leadline.plan.guard_rules import budget_of
from leadline.plan.models import REACHED_SHARE, Cell, Target
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import Workload

# Share of the data of I/Os that crosses a network link at least once if the target is remote.
_CROSSED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelEvidence:
    """One load level. A value that was not measured is None or empty.

    `trial` is the label of the trial that all of it is from; empty without a completed trial.
    `machines` are the rates of all sampled machines, `processor` is the load generator's by the
    record, of which it used `engine_cores`. `job_core_share` is the share of one core that the
    busiest job used. `osds` exist only for a Ceph cluster (`on_ceph`); `on_lab`: the cluster runs
    on the load generator. `devices` are the disks of a target on the client
    itself; `rotational`: all of them are.

    `asked` I/Os were requested in flight and `in_flight` were (Little's law); `offered_iops` is the
    rate of an open loop, None in a closed one. `more_iops` is the highest throughput of a level
    with more load. `round_trip_s` is the longest median round trip between two zones and `trips`
    the round trips that an I/O waits for on average (0: one zone). `notes` are reasons of missing
    samples, as recorded.
    """

    trial: str = ""
    machines: tuple[MachineRates, ...] = ()
    processor: Processor | None = None
    engine_cores: float | None = None
    job_core_share: float | None = None
    osds: tuple[OsdRates, ...] = ()
    on_ceph: bool = False
    on_lab: bool = False
    devices: frozenset[str] = field(default_factory=frozenset)
    rotational: bool | None = None
    asked: int | None = None
    in_flight: float | None = None
    offered_iops: float | None = None
    iops: float | None = None
    bandwidth_bps: float | None = None
    latency_mean_s: float | None = None
    more_iops: float | None = None
    round_trip_s: float | None = None
    trips: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def clients(self) -> tuple[MachineRates, ...]:
        return tuple(machine for machine in self.machines if Role.CLIENT in machine.roles)

    @property
    def storage(self) -> tuple[MachineRates, ...]:
        """Machines of the storage, without the load generator where the target is remote."""
        return tuple(
            machine
            for machine in self.machines
            if Role.STORAGE in machine.roles
            and (Role.CLIENT not in machine.roles or self.stays_here is not False)
        )

    @property
    def shared(self) -> bool:
        """Whether load and storage run on one machine and so share its cores."""
        return self.on_lab or any(Role.CLIENT in machine.roles for machine in self.storage)

    @property
    def stays_here(self) -> bool | None:
        """Whether the data stayed on the machine that made the load: its links carried less than
        half of it. A directory may be an NFS mount, and a disk may be iSCSI. None where unknown."""
        if self.on_lab:
            return True
        here = any(machine.roles == set(Role) for machine in self.machines)
        if self.on_ceph or not (self.devices or here):
            return False
        if not self.bandwidth_bps or not self.clients:
            return None
        carried = sum(
            rates.received_bps + rates.sent_bps
            for machine in self.clients
            for name, rates in machine.interfaces.items()
            if name != "lo"
        )
        return carried < _CROSSED * self.bandwidth_bps

    @property
    def unreached_hosts(self) -> int | None:
        """Hosts of the storage that were not sampled; None where their number is unknown. All hosts
        of a lab are one machine."""
        if self.shared or (self.devices and self.stays_here is not False):
            return 0
        hosts = {osd.host for osd in self.osds}  # known only for a Ceph cluster
        if not hosts or None in hosts:
            return None
        return max(0, len(hosts) - len(self.storage))


def _of_target(run: Run, target: Target) -> tuple[LevelEvidence, PoolFacts | None]:
    """What all levels on a target have in common, and its pool."""
    try:
        inventory = run.cluster("start", target.cluster) if target.cluster else None
    except LeadlineError:
        inventory = None  # the cluster section of the page reports it
    devices, rotational = _disks(run, target)
    common = LevelEvidence(
        on_ceph=inventory is not None or (target.kind is not None and target.kind.on_ceph),
        on_lab=any(
            cluster.name == target.cluster and cluster.lab is not None
            for cluster in run.plan.clusters
        ),
        devices=devices,
        rotational=rotational,
    )
    given = run.plan.cluster(target.cluster).facts if target.cluster else None
    return common, find_pool_facts(inventory, target, given=given)


def _disks(run: Run, target: Target) -> tuple[frozenset[str], bool | None]:
    """The whole disks of a target on the load generator, and whether all are rotational (None:
    unknown)."""
    host = run.inventory("start")
    if host is None or target.kind not in (TargetKind.DIR, TargetKind.DEVICE):
        return frozenset(), None
    known = {device.name: device for device in host.block_devices}
    mine = next((place for place in host.targets if place.target == target.name), None)
    source = "" if mine is None else mine.device or (mine.mount.source if mine.mount else "")
    name = source.rpartition("/")[2]
    for _ in known:
        if name in known and known[name].parent in known:
            name = known[name].parent
    if name not in known:
        return frozenset(), None
    # Hypervisors report disks of guests as rotational, whatever they are.
    bare = host.virtualization == "none"
    return frozenset({name}), known[name].rotational if bare else None


def _trips(pool: PoolFacts | None, by_op: Mapping[Op, float], *, measured: bool) -> float | None:
    """Compute the round trips between zones that an I/O waits for, averaged over its operations.
    None where the I/O path is unknown; a single zone counts only where its network was measured."""
    if pool is None:
        return None
    if pool.zones < 2 and not measured:
        return 0.0
    whole = sum(by_op.values())
    expected = [(rate, count_round_trips(op, pool).expected) for op, rate in by_op.items()]
    if not whole or any(one is None for _, one in expected):
        return None
    return sum(rate * (one or 0.0) for rate, one in expected) / whole


_SUMMED = (Metric.IOPS, Metric.BANDWIDTH)


def levels_evidence(run: Run, target: str, workload: str) -> Mapping[str, LevelEvidence]:
    """Collect the evidence of all levels of a workload on a target, in the order of the plan.

    A level's evidence is from one completed trial, the one with the median throughput (of two the
    lower), so that all of it happened at the same time. Without a completed trial it holds only
    what was requested.
    """
    cells = [
        (number, cell)
        for number, cell in enumerate(run.plan.cells)
        if cell.target == target and cell.workload.name == workload
    ]
    planned = {trial.id: trial.cell for trial in run.plan.trials}
    seen: dict[int, list[_Figures]] = {number: [] for number, _ in cells}
    for trial in run.trials:
        number = planned.get(trial.record.trial)
        if number in seen and trial.record.status is TrialStatus.COMPLETED:
            seen[number] += _figures(trial, run.plan.cells[number])
    rates = {
        number: median(figures.iops for figures in trials)
        for number, trials in seen.items()
        if trials
    }
    common, pool = _of_target(run, run.plan.target(target))
    found = {}
    for number, cell in cells:
        load = cell.load
        evidence = replace(
            common,
            asked=None if load.offered_iops is not None else load.in_flight,
            offered_iops=load.offered_iops,
        )
        if seen[number]:
            more = [rate for other, rate in rates.items() if _heavier(run.plan.cells[other], cell)]
            evidence = replace(evidence, more_iops=max(more, default=None))
            evidence = _of_median_trial(evidence, cell, seen[number], pool)
            evidence = _within_budget(evidence, cell.workload, run.plan.guard)
        found[cell.level] = evidence
    return found


def _within_budget(
    evidence: LevelEvidence, workload: Workload, guard: Guard | None
) -> LevelEvidence:
    """The evidence of a level that reached the guard's budget as one of a rate that was offered:
    more I/Os in flight were not allowed."""
    for phase in workload.phases[:1]:
        budget_bps = budget_of(guard, workload, phase)
        iops = None if budget_bps is None else budget_bps / phase.block_size
        if iops is not None and evidence.iops is not None and evidence.iops >= REACHED_SHARE * iops:
            return replace(evidence, asked=None, offered_iops=iops)
    return evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """Figures of a trial's phase; of several phases, the one that filled its queue least."""

    trial: StoredTrial
    iops: float
    bandwidth_bps: float
    in_flight: float | None
    asked: int | None
    by_op: Mapping[Op, float]

    @property
    def latency_mean_s(self) -> float | None:
        """By Little's law, over reads and writes together."""
        return self.in_flight / self.iops if self.in_flight is not None and self.iops else None

    @property
    def filled(self) -> float:
        if self.asked is None or self.in_flight is None:
            return 1.0
        return self.in_flight / self.asked


def _heavier(cell: Cell, than: Cell) -> bool:
    """Whether a closed-loop cell has more I/Os in flight than another."""
    mine, its = cell.load, than.load
    if mine.offered_iops is not None or its.offered_iops is not None:
        return False
    return mine.neighbours == its.neighbours and mine.in_flight > its.in_flight


def _figures(trial: StoredTrial, cell: Cell) -> list[_Figures]:
    """Figures of a trial; empty without a throughput."""
    rows: dict[Op, dict[Metric, float]] = {}
    derived = trial.derived
    for operation in derived.operations if derived else ():
        row = rows.setdefault(operation.op, {})
        for metric, value in operation.metrics.items():
            if value is not None:
                row[metric] = row.get(metric, 0.0) + value if metric in _SUMMED else value
    rows.pop(Op.TOTAL, None)
    volumes = cell.workload.clients or max(1, len(trial.runners))
    phases = [
        figures
        for phase in cell.workload.phases
        for figures in _of_ops(
            trial,
            {op: rows[op] for op in phase.pattern.ops if op in rows},
            None if phase.rate_iops is not None else phase.iodepth * phase.numjobs * volumes,
        )
    ]
    return [min(phases, key=lambda figures: figures.filled)] if phases else _of_ops(trial, rows)


def _of_ops(
    trial: StoredTrial, rows: Mapping[Op, Mapping[Metric, float]], asked: int | None = None
) -> list[_Figures]:
    chosen = {op: row for op, row in rows.items() if Metric.IOPS in row}
    if not chosen:
        return []
    has_latency = all(Metric.LATENCY_MEAN in row for row in chosen.values())
    return [
        _Figures(
            trial=trial,
            iops=sum(row[Metric.IOPS] for row in chosen.values()),
            bandwidth_bps=sum(row.get(Metric.BANDWIDTH, 0.0) for row in chosen.values()),
            in_flight=sum(row[Metric.IOPS] * row[Metric.LATENCY_MEAN] for row in chosen.values())
            if has_latency
            else None,
            asked=asked,
            by_op={op: row[Metric.IOPS] for op, row in chosen.items()},
        )
    ]


def _of_median_trial(
    level: LevelEvidence, cell: Cell, seen: Sequence[_Figures], pool: PoolFacts | None
) -> LevelEvidence:
    """Add the evidence of the trial with the median throughput."""
    figures = sorted(seen, key=lambda figures: figures.iops)[(len(seen) - 1) // 2]
    trial, record = figures.trial, figures.trial.record
    machines, of_machines = measured_machines(trial, cell.workload)
    osds, of_osds = _osds(trial)
    trips = [trip.median_s for trip in record.round_trips]
    jobs = trial.output.jobs if isinstance(trial.output, EngineOutput) else ()
    shares = [share for job in jobs if (share := job.core_share) is not None]
    processor = record.processor
    return replace(
        level,
        trial=record.label,
        machines=machines,
        processor=processor,
        engine_cores=processor.engine_cpu_s / record.asked_s
        if processor and record.asked_s
        else None,
        job_core_share=max(shares, default=None),
        osds=osds,
        asked=figures.asked,
        in_flight=figures.in_flight,
        iops=figures.iops,
        bandwidth_bps=figures.bandwidth_bps,
        latency_mean_s=figures.latency_mean_s,
        round_trip_s=max(trips, default=None),
        trips=_trips(pool, figures.by_op, measured=bool(trips)),
        notes=tuple(dict.fromkeys((*of_machines, *of_osds))),
    )


def _osds(trial: StoredTrial) -> tuple[tuple[OsdRates, ...], Sequence[str]]:
    try:
        samples = trial.ceph_counters
    except FormatError as error:
        return (), (error.fact,)
    missed = [sample.reason for sample in samples if isinstance(sample, Missed)]
    return osd_rates(samples), [f"OSDs: {reason}" for reason in missed]
