"""The rate that is expected of each cell before it is measured, from the inventory alone.

The interval joins two estimates of a closed loop with N I/Os in flight: at most min(N / R, C) with
the lowest usual costs, at least 1 / (R / N + 1 / C) with the highest, where R is the latency of one
I/O and C the capacity (asymptotic bounds; in the second the queue adds all of 1 / C). It is wide:
costs differ by a factor of three between processors, and settings are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.explain.round_trips import network_time_s
from leadline.analysis.figures import CellFigure
from leadline.analysis.predict.system import System, is_streaming, storage_io
from leadline.analysis.scaling.curves import LoadPoint, load_curves
from leadline.analysis.workloads import block_bytes
from leadline.archive.reader import Run
from leadline.formats.result import JobOptions
from leadline.metrics import Metric, Op
from leadline.model.bounds import (
    FLASH_READ_IOPS,
    FLASH_WRITE_IOPS,
    Medium,
    Prior,
    Station,
    StorageIo,
    Task,
    cost_s,
)
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import Workload

# The processor time of an I/O alone is 1.4 times that of one among many (ming1: 921 to 962 against
# 655 us): all threads are woken for it.
_ALONE = 1.4
# The ends are moved apart by these factors for what no inventory has: frequency, settings, age.
_SLACK_LOW, _SLACK_HIGH = 0.5, 1.5
# Of cores, where they are unknown; of the fullest OSD, where the mean OSD has half as much to do.
_FEWEST_CORES, _IMBALANCE = 1.0, 0.5
# A link where it is unknown: 1 Gbit/s; a round trip of zones, where it was not measured.
_LEAST_LINK_BPS, _LONGEST_RTT_S, _LOCAL_RTT_S = 117e6, 10e-3, 0.5e-3
_OBJECT_BYTES = 4 << 20
# Targets whose I/Os go to OSDs one by one. File systems and ZFS on images have caches of their own.
_KINDS = (TargetKind.RBD, TargetKind.RADOS, TargetKind.CEPHFS)


class Direction(StrEnum):
    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An interval of I/Os per second, with the station that sets each end."""

    low: float
    high: float
    station_low: Station
    station_high: Station


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRate:
    """A measured cell and what was expected of it. `direction` None: the rate is inside. `station`
    would explain a rate outside: it takes less, or more, than was assumed."""

    target: str
    workload: str
    level: str
    op: Op
    in_flight: int
    iops: float
    expected: Expected

    @property
    def direction(self) -> Direction | None:
        if self.iops > self.expected.high:
            return Direction.ABOVE
        return Direction.BELOW if self.iops < self.expected.low else None

    @property
    def station(self) -> Station | None:
        if self.direction is None:
            return None
        above = self.direction is Direction.ABOVE
        return self.expected.station_high if above else self.expected.station_low


def expected_rates(
    run: Run, figures: Sequence[CellFigure], system_of: Callable[[str], System]
) -> tuple[ExpectedRate, ...]:
    """Return what was expected of each cell with a usable rate, in the order of the plan.

    Cells of unknown pools, open loops, mixes of unknown shares and cached I/O have none.
    `system_of` gives the system of a target.
    """
    found = []
    curves = load_curves(run, figures)
    # The reads of mixes, by target, workload and level.
    reads = {
        (curve.target, curve.workload, point.level): point.usable(Metric.IOPS)
        for curve in curves
        if curve.part_of_mix and curve.op is Op.READ
        for point in curve.closed
    }
    for curve in curves:
        if curve.part_of_mix or curve.op not in (Op.READ, Op.WRITE, Op.TOTAL):
            continue
        for point in curve.closed:
            mixed = reads.get((curve.target, curve.workload, point.level))
            rate = _rate(run, system_of(curve.target), point, curve.op, mixed)
            if rate is not None:
                found.append(rate)
    return tuple(found)


def _rate(
    run: Run, system: System, point: LoadPoint, op: Op, reads: float | None
) -> ExpectedRate | None:
    cell = run.plan.cells[point.cell]
    iops, size = point.usable(Metric.IOPS), block_bytes(cell.workload)
    if not iops or not size or not _is_plain(system, cell.workload):
        return None
    in_flight, objects = point.load.in_flight, _objects(cell.workload)
    if op is Op.TOTAL:
        expected = _expect_mix(system, size, in_flight, objects, reads, iops)
    else:
        expected = expect(system, op, size, in_flight, objects=objects)
    if expected is None:
        return None
    return ExpectedRate(
        target=cell.target,
        workload=point.figure.workload,
        level=point.level,
        op=op,
        in_flight=in_flight,
        iops=iops,
        expected=expected,
    )


def _expect_mix(
    system: System,
    size: float,
    in_flight: int,
    objects: int | None,
    reads: float | None,
    iops: float,
) -> Expected | None:
    """Return the rate of reads and writes together: the harmonic mean of both, of which the slower
    one names the station."""
    parts = [expect(system, op, size, in_flight, objects=objects) for op in (Op.READ, Op.WRITE)]
    if parts[0] is None or parts[1] is None or reads is None:
        return None
    read, write, share = parts[0], parts[1], min(1.0, reads / iops)
    return Expected(
        low=1 / (share / read.low + (1 - share) / write.low),
        high=1 / (share / read.high + (1 - share) / write.high),
        station_low=write.station_low,
        station_high=write.station_high,
    )


def _is_plain(system: System, workload: Workload) -> bool:
    """Whether each I/O goes to the OSDs: not from a page cache, and of no job file."""
    if workload.recorded is not None:
        options = JobOptions(raw=workload.recorded.options, whole=workload.recorded.tool == "fio")
        return options.engine in ("rbd", "rados") or options.direct is not False
    if workload.job_file is not None or not workload.direct:
        return False
    return system.kind is None or system.kind in _KINDS


def _objects(workload: Workload) -> int | None:
    if not workload.phases:
        return None
    stretch = max(1, workload.clients) * max(phase.stretch for phase in workload.phases)
    return max(1, stretch // _OBJECT_BYTES)


def expect(
    system: System, op: Op, size: float, in_flight: int, *, objects: int | None = None
) -> Expected | None:
    """Return the rate of reads or writes of `size` bytes to expect; None without a known pool."""
    if system.pool is None or not system.osds:
        return None
    io = storage_io(system.pool, op, size, streaming=is_streaming(size))
    fast = _parts_s(system, io, Prior.LOW)
    slow = _parts_s(system, io, Prior.HIGH)
    fast[Station.NETWORK], slow[Station.NETWORK] = _network_s(system, op, size, objects)
    most = _most_iops(system, io)
    limit = min(most, key=lambda station: most[station], default=None)
    high, station_high = (
        in_flight / sum(fast.values()),
        max(fast, key=lambda station: fast[station]),
    )
    if limit is not None and most[limit] < high:
        high, station_high = most[limit], limit
    each_s = {station: seconds / in_flight for station, seconds in slow.items()}
    for station, iops in _least_iops(system, io).items():
        each_s[station] = each_s.get(station, 0.0) + 1 / iops
    return Expected(
        low=_SLACK_LOW / sum(each_s.values()),
        high=_SLACK_HIGH * high,
        station_low=max(each_s, key=lambda station: each_s[station]),
        station_high=station_high,
    )


_COMMITS: Mapping[Medium, Task] = {
    Medium.DISK: Task.COMMIT_DISK,
    Medium.FLASH: Task.COMMIT_FLASH,
    Medium.MEMORY: Task.COMMIT_MEMORY,
}
_READS: Mapping[Medium, Task] = {
    Medium.DISK: Task.MEDIUM_DISK,
    Medium.FLASH: Task.MEDIUM_FLASH,
    Medium.MEMORY: Task.MEDIUM_MEMORY,
}


def _media(system: System, prior: Prior) -> Medium:
    """Return the medium; of unknown ones the fastest or the slowest."""
    return system.medium or (Medium.MEMORY if prior is Prior.LOW else Medium.DISK)


def _parts_s(system: System, io: StorageIo, prior: Prior) -> dict[Station, float]:
    """Return the seconds of one I/O alone at each station."""
    alone = _ALONE if prior is Prior.HIGH else 1.0
    part, medium = io.part_bytes, _media(system, prior)
    reads = cost_s(_READS[medium], prior, part) if io.reads else 0.0
    tasks = [Task.OSD_WRITE if io.write else Task.OSD_READ]
    tasks += [Task.ENCODE] if io.coded else []
    tasks += [Task.SHARD_READ] if io.coded and io.reads else []
    if io.write and io.writes > 1:
        tasks.append(Task.SHARD_WRITE if io.coded else Task.COPY_WRITE)
    return {
        Station.CLIENT: alone * cost_s(Task.CLIENT, prior, io.size_bytes),
        Station.OSD_CPU: alone * sum(cost_s(task, prior, part) for task in tasks),
        Station.MEDIUM: reads,
        Station.COMMIT: cost_s(_COMMITS[medium], prior, part) if io.write else 0.0,
    }


def _network_s(system: System, op: Op, size: float, objects: int | None) -> tuple[float, float]:
    """Return the shortest and the longest usual seconds of messages and data on links."""
    pool = system.pool
    if pool is None:
        return 0.0, 0.0
    carried_s = 0.0 if system.on_lab else size * pool.size / _LEAST_LINK_BPS
    if system.network is None:
        longest_s = _LONGEST_RTT_S if pool.zones > 1 else _LOCAL_RTT_S
        return 0.0, 3 * longest_s + carried_s
    streaming = is_streaming(size)
    found = network_time_s(op, pool, system.network, streaming=streaming, objects=objects)
    return found.low, found.high + carried_s


def _most_iops(system: System, io: StorageIo) -> dict[Station, float]:
    """Return the highest usual capacities of the stations that are known."""
    found: dict[Station, float] = {}
    cores = system.total_osd_cores
    if cores is not None:
        work_s = io.cpu_s(lambda task, size: cost_s(task, Prior.LOW, size))
        if system.shares_cores:
            work_s += cost_s(Task.CLIENT, Prior.LOW, io.size_bytes)
        found[Station.OSD_CPU] = cores / work_s
    if system.medium is Medium.FLASH and system.osds:
        each = FLASH_WRITE_IOPS if io.write else FLASH_READ_IOPS
        found[Station.MEDIUM] = system.osds * each / max(1, io.writes if io.write else io.reads)
    return found


def _least_iops(system: System, io: StorageIo) -> dict[Station, float]:
    """Return the lowest usual capacities, with few cores where they are unknown."""
    osds = float(system.osds or 1)
    cores = system.total_osd_cores or _FEWEST_CORES * osds
    work_s = io.cpu_s(lambda task, size: cost_s(task, Prior.HIGH, size))
    if system.shares_cores:
        work_s += cost_s(Task.CLIENT, Prior.HIGH, io.size_bytes)
    found = {Station.OSD_CPU: _IMBALANCE * cores / work_s}
    medium = _media(system, Prior.HIGH)
    waits_s = io.reads * cost_s(_READS[medium], Prior.HIGH, io.part_bytes)
    waits_s += io.writes * cost_s(_COMMITS[medium], Prior.HIGH, io.part_bytes)
    if waits_s:
        found[Station.COMMIT if io.write else Station.MEDIUM] = _IMBALANCE * osds / waits_s
    return found
