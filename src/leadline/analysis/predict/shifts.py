"""What a change of the system does to one operation: added waits, capacity, parallel servers.

The waits come from the messages of an I/O (`model.io_paths`), the capacity from the work of an I/O
and the units that do it (`model.bounds`). Costs of tasks are ranges, so each ratio has an interval.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.explain.round_trips import count_round_trips, network_time_s
from leadline.analysis.explain.systems import Network, PoolFacts
from leadline.analysis.predict.facts import COVERAGE, Refusal, Shift
from leadline.analysis.predict.system import System, is_streaming, resources_of, storage_io
from leadline.analysis.scaling.curves import PointLoad
from leadline.metrics import Op
from leadline.model.bounds import (
    Medium,
    Prior,
    Station,
    StorageIo,
    Task,
    cost_s,
    find_capacities,
)

# Capacity grows with a power of the units that are added: (low, usual, high).
# Hosts and OSDs: 1 is in proportion. 8 to 12 nodes gave 792,000 to 944,000 (0.43; Ceph NVMe-oF,
# published), labs of 3 to 5 hosts with quotas 1.0 to 1.9 (2026-11-22 and 2026-11-26: 0 to 1.25).
_OF_HOSTS = (0.40, 0.85, 1.10)
# Cores of an OSD: 2 to 4, 4 to 8 and 2 to 20 threads a drive gave powers of 0.70 to 0.78 of the
# rate (ceph.io 2023, OSDs per NVMe), quotas of whole cores 1.
_OF_CORES = (0.55, 0.77, 1.02)
# On a shared machine more daemons add work and no cores.
_SHARED = Estimate(value=1.0, low=0.85, high=1.02)
# Writes of partial stripes to one object wait for each other (extent cache, src/osd/ECBackend.cc).
# Set by the lab of 2026-11-26: 0.31 to 0.34 of the rate of copies, 0.37 to 0.47 by the work alone.
_SERIAL = Estimate(value=0.85, low=0.6, high=1.0)
# Another pool is another draw of placement groups: reads of two pools with copies, which are the
# same work, had 0.80 to 1.20 of each other's rate at depths 8 to 32 (four labs of 2026-11-26; with
# the noise of trials).
_OTHER_POOL = Estimate(value=1.0, low=0.85, high=1.15)
_UNCHANGED = Estimate(value=1.0, low=1.0, high=1.0)
_NOTHING = Estimate(value=0.0, low=0.0, high=0.0)
# From this share of busy cores or disks on, these limit the rate.
_BUSY = 0.7
# An interval of the capacity that is wider than this factor is no forecast.
_WIDEST = 2.0
# Pings before a trial differ from the round trips within it: a share, and seconds of each.
_RTT_SHARE, _RTT_S = 0.03, 15e-6
# Most of an I/O's work is not that of a lab's network.
_LEAST_WORK = 0.5
# Draws of the costs of tasks, for the interval of a ratio.
_DRAWS = 400
# A validated model is not extended to media and blocks that differ by more than this factor.
_FACTOR = 4.0
# Stations that the capacity of the storage consists of.
_OF_STORAGE = (Station.OSD_CPU, Station.COMMIT, Station.MEDIUM)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBefore:
    """What is known of a load level of the system before, best a saturated one."""

    evidence: LevelEvidence | None = None
    """What was measured together with the rates."""
    load: PointLoad | None = None
    """Its clients and depth; the system after may replace them."""
    objects: int | None = None
    """RADOS objects that the I/Os touch, None: many. Few have a placement of chance."""
    read_share: float = 0.5
    """Reads as a share of a total."""
    most_iops: float | None = None
    """The highest rate that was measured."""


def shift_between(
    before: System,
    after: System,
    op: Op,
    block_bytes: float | None,
    known: KnownBefore | None = None,
) -> Shift:
    """Return what the change from one system to another does to an operation."""
    known = known or KnownBefore()
    if op is Op.TOTAL:
        read, write = (
            shift_between(before, after, part, block_bytes, known) for part in (Op.READ, Op.WRITE)
        )
        return _mixed(read, write, known.read_share)
    evidence = known.evidence or LevelEvidence()
    refusals = list(after.refusals)
    if (before.pool is None) != (after.pool is None):
        refusals.append(Refusal.POOL_UNKNOWN)
    limit = _limit(before, evidence)
    capacity, changed = _capacity(before, after, op, block_bytes, evidence, limit)
    if before.shares_cores and after.shares_cores and known.most_iops:
        capacity = _times(capacity, _of_link(before, after, op, block_bytes, known.most_iops))
    if changed:
        refusals.append(Refusal.LIMIT_CHANGES)
    if limit is None and capacity.high > _WIDEST * capacity.low:
        refusals.append(Refusal.LIMIT_UNKNOWN)
    network, network_known = _network_s(before, after, op, block_bytes, known.objects)
    if not network_known:
        refusals.append(Refusal.NETWORK_UNKNOWN)
    medium, medium_known = _medium_s(before, after, op, block_bytes, evidence)
    if not medium_known:
        refusals.append(Refusal.MEDIA)
    if before.record_bytes != after.record_bytes:
        records = (before.record_bytes, after.record_bytes)
        sizes = [size for size in records if size is not None]
        if len(sizes) < 2 or max(sizes) > _FACTOR * min(sizes):
            refusals.append(Refusal.BLOCK_SIZE)
    return Shift(
        added_s=_sum(network, medium),
        capacity=capacity,
        parallel=_parallel(before, after),
        branches=_branches(before, after, op, block_bytes),
        in_flight=_in_flight(before, after, known.load),
        most_iops=_other_limits(before, after, op, block_bytes, evidence),
        refusals=tuple(dict.fromkeys(refusals)),
    )


def _mixed(read: Shift, write: Shift, read_share: float) -> Shift:
    """Return the shift of reads and writes together: waits are averaged, work is added up."""
    share = (read_share, 1 - read_share)
    parts = (read, write)

    def mean(of: list[float]) -> float:
        return sum(part * weight for part, weight in zip(of, share, strict=True))

    def inverse(of: list[float]) -> float:
        return 1 / mean([1 / part for part in of])

    return replace(
        write,
        added_s=Estimate(
            value=mean([part.added_s.value for part in parts]),
            low=mean([part.added_s.low for part in parts]),
            high=mean([part.added_s.high for part in parts]),
        ),
        # How the work is split is unknown: the interval contains that of both.
        capacity=Estimate(
            value=inverse([part.capacity.value for part in parts]),
            low=min(part.capacity.low for part in parts),
            high=max(part.capacity.high for part in parts),
        ),
        most_iops={
            station: inverse([part.most_iops[station] for part in parts])
            for station in read.most_iops
            if station in write.most_iops
        },
        refusals=tuple(dict.fromkeys((*read.refusals, *write.refusals))),
    )


def _sum(first: Estimate, second: Estimate) -> Estimate:
    """Add two independent estimates: half-widths add up as squares."""
    value = first.value + second.value
    below = math.hypot(first.value - first.low, second.value - second.low)
    above = math.hypot(first.high - first.value, second.high - second.value)
    return Estimate(value=value, low=value - below, high=value + above)


# --- waits ---------------------------------------------------------------------------------------


def _network_s(
    before: System, after: System, op: Op, block_bytes: float | None, objects: int | None
) -> tuple[Estimate, bool]:
    """Return the seconds that messages take longer, and whether they are known."""
    if before.pool is None or after.pool is None:
        return _NOTHING, True
    if before.pool == after.pool and before.network == after.network:
        return _NOTHING, True
    times = []
    for system, pool in ((before, before.pool), (after, after.pool)):
        if system.network is None and pool.zones > 1:
            return _NOTHING, False
        # The network of a single zone counts as zero where it was not measured.
        network = system.network or Network.uniform(0.0)
        times.append(_waits_s(op, pool, network, block_bytes, objects))
    return _sum(-times[0], times[1]), True


def _waits_s(
    op: Op, pool: PoolFacts, network: Network, block_bytes: float | None, objects: int | None
) -> Estimate:
    """Return the network time of an I/O by the median round trips; the interval contains chance in
    the placement, and that of the pings."""
    streaming = is_streaming(block_bytes)
    typical = Network(low=network.typical, typical=network.typical, high=network.typical)
    found = network_time_s(op, pool, typical, streaming=streaming, objects=objects)
    trips = count_round_trips(op, pool, streaming=streaming).expected or 0.0
    ping_s = _RTT_SHARE * found.value + _RTT_S * trips
    upper = network_time_s(op, pool, network, streaming=streaming, objects=objects).high
    return _sum(found, Estimate(value=0.0, low=-ping_s, high=min(ping_s, max(0.0, upper))))


_MEDIA: Mapping[Medium, Task] = {
    Medium.DISK: Task.MEDIUM_DISK,
    Medium.FLASH: Task.MEDIUM_FLASH,
    Medium.MEMORY: Task.MEDIUM_MEMORY,
}


def _medium_s(
    before: System, after: System, op: Op, block_bytes: float | None, evidence: LevelEvidence
) -> tuple[Estimate, bool]:
    """Return the seconds that media take longer, and whether the calibrated model applies to these
    media."""
    known = None not in (before.medium, after.medium)
    if known and before.medium is not after.medium:
        return _NOTHING, False
    if after.medium_s is None or after.medium_s == before.medium_s:
        return _NOTHING, True
    now = before.medium_s or _disk_s(op, evidence)
    if now is None and before.medium is Medium.MEMORY:
        now = cost_s(_MEDIA[before.medium], Prior.HIGH, block_bytes or 0.0)
    if now is None:
        return _NOTHING, False
    # A partial stripe is read before it is written.
    waits = 1
    if after.pool is not None and op is Op.WRITE:
        io = storage_io(after.pool, op, block_bytes or 0.0, streaming=is_streaming(block_bytes))
        waits += io.reads > 0
    added = waits * (after.medium_s - now)
    spread = 0.2 * abs(added)
    alike = max(now, after.medium_s) <= _FACTOR * min(now, after.medium_s)
    return Estimate(value=added, low=added - spread, high=added + spread), alike


def _disk_s(op: Op, evidence: LevelEvidence) -> float | None:
    """Return the mean latency of the storage's disks; None where they were not sampled."""
    disks = [disk for machine in evidence.storage for disk in machine.disks.values()]
    found = [
        (disk.read_iops, disk.read_latency_s)
        if op is Op.READ
        else (disk.write_iops, disk.write_latency_s)
        for disk in disks
    ]
    pairs = [(rate, latency) for rate, latency in found if latency is not None and rate > 0]
    whole = sum(rate for rate, _ in pairs)
    return sum(rate * latency for rate, latency in pairs) / whole if whole else None


# --- capacity ------------------------------------------------------------------------------------


def _limit(system: System, evidence: LevelEvidence) -> Station | None:
    """Return the part of the storage that limited a level by its counters; None: unknown."""
    storage = evidence.storage
    if any(machine.cpu is not None and machine.cpu.busy_share >= _BUSY for machine in storage):
        return Station.OSD_CPU
    groups = [group for machine in storage for group in machine.groups.values()]
    if system.limited and any((group.throttled_share or 0.0) >= 0.1 for group in groups):
        return Station.OSD_CPU
    disks = [disk for machine in storage for disk in machine.disks.values()]
    if not system.on_lab and any(disk.utilisation >= _BUSY for disk in disks):
        return Station.MEDIUM
    # All of a lab's machine makes its rate.
    return Station.OSD_CPU if system.shares_cores else None


def _capacity(
    before: System,
    after: System,
    op: Op,
    block_bytes: float | None,
    evidence: LevelEvidence,
    limit: Station | None,
) -> tuple[Estimate, bool]:
    """Return the ratio of the storage's capacities, and whether another resource limits it then.

    Unknown limits have the interval of all that are possible.
    """
    streaming = is_streaming(block_bytes)
    cpu = unit = _UNCHANGED
    if before.pool is not None and after.pool is not None:
        first, second = (
            storage_io(pool, op, block_bytes or 0.0, streaming=streaming)
            for pool in (before.pool, after.pool)
        )
        if first != second:
            cpu = _of_work(first, second, _osd_share(before, evidence))
            ratio = (first.reads + first.writes) / (second.reads + second.writes)
            unit = Estimate(value=ratio, low=min(1.0, ratio), high=max(1.0, ratio))
            cpu, unit = (_times(part, _serial(first, second)) for part in (cpu, unit))
        pools = (before.pool, after.pool)
        if len({(pool.size, pool.k) for pool in pools}) > 1:
            cpu, unit = (_times(part, _OTHER_POOL) for part in (cpu, unit))
    changed = before.shares_cores != after.shares_cores
    more = _ratio(after.osds, before.osds)
    if before.shares_cores and after.shares_cores:
        cpu = _times(cpu, _SHARED) if more != 1.0 else cpu
    else:
        cpu = _times(cpu, _power(more, _OF_HOSTS))
        unit = _times(unit, _power(more, _OF_HOSTS))
        each = _ratio(after.osd_cores, before.osd_cores)
        if each is None:
            each, changed = 1.0, changed or after.osd_cores != before.osd_cores
        cpu = _times(cpu, _power(each, _OF_CORES))
    hosts = _ratio(after.hosts, before.hosts)
    if not before.shares_cores and hosts is not None and more is not None and hosts != more:
        # Cores belong to hosts where OSDs have no limit of their own, before or after.
        of_hosts = _times(cpu, _times(_power(1 / more, _OF_HOSTS), _power(hosts, _OF_HOSTS)))
        unlimited = None in (before.osd_cores, after.osd_cores)
        cpu = of_hosts if unlimited else _hull(cpu, of_hosts)
    if not (before.shares_cores and after.shares_cores):
        # On shared cores the fullest OSD has what the others leave.
        cpu, unit = (_times(part, _imbalance(before, after)) for part in (cpu, unit))
    if before.record_bytes and after.record_bytes and before.record_bytes != after.record_bytes:
        cpu = unit = _of_records(before.record_bytes, after.record_bytes)
    if limit is Station.OSD_CPU:
        return cpu, changed
    if limit is Station.MEDIUM:
        return unit, changed
    return _hull(cpu, unit), changed


def _of_link(
    before: System, after: System, op: Op, block_bytes: float | None, most_iops: float
) -> Estimate:
    """Return the effect of a lab's network between zones: a program on the cores that all share,
    which forwards each message. All work of an I/O is that of these cores at the highest rate."""
    streaming = is_streaming(block_bytes)
    messages = [
        count_round_trips(op, pool, streaming=streaming).remote_messages or 0.0
        if pool is not None and pool.zones > 1
        else 0.0
        for pool in (before.pool, after.pool)
    ]
    more = messages[1] - messages[0]
    if not more or before.shared_cores is None:
        return _UNCHANGED
    work_s = before.shared_cores / most_iops
    low, high = (
        1 / max(_LEAST_WORK, 1 + more * cost_s(Task.LAB_LINK, prior) / work_s)
        for prior in (Prior.LOW, Prior.HIGH)
    )
    return Estimate(value=math.sqrt(low * high), low=min(low, high), high=max(low, high))


def _serial(before: StorageIo, after: StorageIo) -> Estimate:
    """Return the effect of stripes that are read before they are written, where only one does."""
    waits = [io.write and io.reads > 0 for io in (before, after)]
    if waits[0] == waits[1]:
        return _UNCHANGED
    if waits[1]:
        return _SERIAL
    return Estimate(value=1 / _SERIAL.value, low=1 / _SERIAL.high, high=1 / _SERIAL.low)


def _ratio(after: float | None, before: float | None) -> float | None:
    if after is None or before is None:
        return 1.0 if after == before else None
    return after / before


def _power(ratio: float | None, powers: tuple[float, float, float]) -> Estimate:
    if ratio is None or ratio == 1.0:
        return _UNCHANGED
    ends = [ratio**power for power in powers]
    return Estimate(value=ends[1], low=min(ends), high=max(ends))


def _times(first: Estimate, second: Estimate) -> Estimate:
    """Multiply two independent ratios: half-widths of logarithms add up as squares."""
    value = first.value * second.value
    below = math.hypot(math.log(first.value / first.low), math.log(second.value / second.low))
    above = math.hypot(math.log(first.high / first.value), math.log(second.high / second.value))
    return Estimate(
        value=value,
        low=min(value, value * math.exp(-below)),
        high=max(value, value * math.exp(above)),
    )


def _hull(first: Estimate, second: Estimate) -> Estimate:
    if first == second:
        return first
    return Estimate(
        value=math.sqrt(first.value * second.value),
        low=min(first.low, second.low),
        high=max(first.high, second.high),
    )


def _osd_share(system: System, evidence: LevelEvidence) -> float | None:
    """Return the share of the busy cores that OSDs used; None where others do not compete for them,
    or nothing was measured."""
    if not system.shares_cores:
        return None
    for machine in evidence.machines:
        used = sum(cores for name, cores in machine.processes.items() if name.startswith("osd."))
        if used and evidence.engine_cores is not None:
            return used / (used + evidence.engine_cores)
    # Priors of the client's own work.
    return 0.8


@cache
def _of_work(before: StorageIo, after: StorageIo, share: float | None) -> Estimate:
    """Return the ratio of capacities for the work of two I/Os, over all costs. A `share`
    of the work is that of OSDs, the rest stays. Costs are independent, logarithms of each are
    uniform over its usual range."""
    draw = random.Random(0)
    drawn: list[dict[Task, float]] = [{} for _ in range(_DRAWS)]

    def work(io: StorageIo, at: int) -> float:
        def cost(task: Task, size: float) -> float:
            low, high = (cost_s(task, prior, size) for prior in (Prior.LOW, Prior.HIGH))
            level = drawn[at].setdefault(task, draw.random()) if at >= 0 else 0.5
            return float(low ** (1 - level) * high**level)

        return io.cpu_s(cost)

    def ratio(at: int) -> float:
        grown = work(after, at) / work(before, at)
        return 1 / grown if share is None else 1 / (share * grown + 1 - share)

    value = ratio(-1)
    ends = sorted(ratio(at) for at in range(_DRAWS))
    outside = round(_DRAWS * (1 - COVERAGE) / 2)
    return Estimate(value=value, low=min(value, ends[outside]), high=max(value, ends[-1 - outside]))


def _of_records(before: int, after: int) -> Estimate:
    """Return the ratio of records per second for two sizes of records."""
    ends = [
        cost_s(Task.RECEIVE_RECORD, prior, before) / cost_s(Task.RECEIVE_RECORD, prior, after)
        for prior in (Prior.LOW, Prior.HIGH)
    ]
    return Estimate(value=math.sqrt(ends[0] * ends[1]), low=min(ends), high=max(ends))


def _imbalance(before: System, after: System) -> Estimate:
    """Return the effect of another number of placement groups: the fullest OSD limits all. Without
    a balancer its excess over the mean is that of random placement; a balancer removes it."""
    if before.pool is None or after.pool is None or before.pool.pgs == after.pool.pgs:
        return _UNCHANGED
    found = []
    for system, pool in ((before, before.pool), (after, after.pool)):
        if not system.osds or not pool.pgs:
            return _UNCHANGED
        mean = pool.pgs * pool.size / system.osds
        # The largest of n Poisson counts (normal approximation).
        found.append(1 + math.sqrt(2 * math.log(max(2, system.osds)) / mean))
    ratio = found[0] / found[1]
    return Estimate(value=math.sqrt(ratio), low=min(1.0, ratio), high=max(1.0, ratio))


# --- the rest of a shift -------------------------------------------------------------------------


def _parallel(before: System, after: System) -> float:
    if before.shares_cores and after.shares_cores:
        return 1.0
    return _ratio(after.osds, before.osds) or 1.0


def _branches(
    before: System, after: System, op: Op, block_bytes: float | None
) -> tuple[int, int] | None:
    if before.pool is None or after.pool is None:
        return None
    streaming = is_streaming(block_bytes)
    first, second = (
        storage_io(pool, op, block_bytes or 0.0, streaming=streaming)
        for pool in (before.pool, after.pool)
    )
    if op is Op.WRITE:
        return first.writes, second.writes
    return first.reads, second.reads


def _in_flight(before: System, after: System, load: PointLoad | None) -> int | None:
    if load is None or (before.clients, before.depth) == (after.clients, after.depth):
        return None
    return (after.clients or load.clients) * load.numjobs * (after.depth or load.iodepth)


def _other_limits(
    before: System, after: System, op: Op, block_bytes: float | None, evidence: LevelEvidence
) -> Mapping[Station, float]:
    """Return the capacities of stations outside the storage. The load generator's processor time
    for each I/O is measured where it could be."""
    size, io = block_bytes or 0.0, None
    if after.pool is not None:
        io = storage_io(after.pool, op, size, streaming=is_streaming(block_bytes))
    found = dict(find_capacities(resources_of(after), size, io))
    if after.shares_cores:
        found.pop(Station.CLIENT, None)
    elif after.client_cores is not None and evidence.engine_cores and evidence.iops:
        found[Station.CLIENT] = after.client_cores * evidence.iops / evidence.engine_cores
    more = _ratio(after.clients, before.clients)
    if more is None or more != 1.0:
        # Whether more load generators have hosts of their own is unknown.
        for station in (Station.CLIENT, Station.CLIENT_LINK):
            found.pop(station, None)
    return {station: most for station, most in found.items() if station not in _OF_STORAGE}
