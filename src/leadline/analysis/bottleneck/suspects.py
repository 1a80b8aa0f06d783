"""Which resource limited a load level: every candidate with the evidence for or against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from types import MappingProxyType

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.formats.ceph.counters import OsdRates
from leadline.formats.host_rates import CpuRates, MachineRates


class Bottleneck(StrEnum):
    """What can limit a load level. `osd-media` and `osd-cpu` are the media and the processors of
    any storage; `target-cores` is a processor limit set on it. `unknown`: no other is named or
    suspected. `not-saturated`: no resource was used up, the load itself was the limit."""

    CLIENT_NETWORK = "client-network"
    CLIENT_CPU = "client-cpu"
    STORAGE_NETWORK = "storage-network"
    OSD_MEDIA = "osd-media"
    OSD_CPU = "osd-cpu"
    TARGET_CORES = "target-cores"
    QUEUE_DEPTH = "queue-depth-not-reached"
    ROUND_TRIPS = "inter-zone-round-trips"
    NOT_SATURATED = "not-saturated"
    UNKNOWN = "unknown"


class Strength(StrEnum):
    """How certain the evidence is. `not measured` is neither for nor against."""

    NAMED = "named"
    SUSPECTED = "suspected"
    NOT_MEASURED = "not measured"
    EXCLUDED = "excluded"


class Reason(StrEnum):
    """Why a suspect has its strength. The report has one template for each."""

    # Processors.
    CPU_NOT_MEASURED = "cpu-not-measured"
    CORES_BUSY = "cores-busy"
    CORES_BUSY_WHERE_READ = "cores-busy-where-read"
    CORES_STOLEN = "cores-stolen"
    CORES_SHARED = "cores-shared"
    CORES_SHARED_WITH_OTHERS = "cores-shared-with-others"
    RUNNER_THROTTLED = "runner-throttled"
    JOB_THREAD_FULL = "job-thread-full"
    LOCAL_DISK = "local-disk"
    OPERATIONS_QUEUED = "operations-queued"
    CPU_LIMIT_NOT_MEASURED = "cpu-limit-not-measured"
    CPU_LIMIT_NOT_SET = "cpu-limit-not-set"
    THROTTLING_NOT_COUNTED = "throttling-not-counted"
    CPU_LIMIT = "cpu-limit"
    # Networks.
    ONE_MACHINE = "one-machine"
    DATA_STAYED_LOCAL = "data-stayed-local"
    LINK_NOT_MEASURED = "link-not-measured"
    LINK_LOAD = "link-load"
    LINK_LOAD_WHERE_READ = "link-load-where-read"
    # Media.
    DISKS_NOT_MEASURED = "disks-not-measured"
    DISK_BUSY = "disk-busy"
    DISK_BUSY_WHERE_READ = "disk-busy-where-read"
    DISK_BUSY_PARALLEL = "disk-busy-parallel"
    DISK_FULL = "disk-full"
    DISK_FULL_ROTATIONAL = "disk-full-rotational"
    # The load.
    OPEN_LOOP = "open-loop"
    IN_FLIGHT_UNKNOWN = "in-flight-unknown"
    IN_FLIGHT = "in-flight"
    ONE_ZONE = "one-zone"
    ROUND_TRIPS_NOT_MEASURED = "round-trips-not-measured"
    ROUND_TRIPS = "round-trips"
    RATE_NOT_MEASURED = "rate-not-measured"
    RATE_KEPT = "rate-kept"
    RATE_NOT_KEPT = "rate-not-kept"
    MORE_LOAD_GAVE_MORE = "more-load-gave-more"
    MORE_LOAD_GAVE_NO_MORE = "more-load-gave-no-more"
    NO_HIGHER_LOAD = "no-higher-load"
    ONE_AT_A_TIME = "one-at-a-time"
    FEWER_THAN_OSDS = "fewer-than-osds"
    NOTHING_USED_UP = "nothing-used-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One candidate: `evidence` holds numbers in base units (shares between 0 and 1).

    `machine` and `device` name the machine and its disk or interface that the numbers are of.
    `overruled_by` is the suspect that lowered the strength of this one. `not_measured` lists, for
    `unknown`, the candidates without a measurement.
    """

    bottleneck: Bottleneck
    strength: Strength
    reason: Reason
    evidence: Mapping[str, float]
    machine: str = ""
    device: str = ""
    overruled_by: Suspect | None = None
    not_measured: tuple[Bottleneck, ...] = ()


def _suspect(
    bottleneck: Bottleneck,
    strength: Strength,
    reason: Reason,
    numbers: Mapping[str, float | None] = MappingProxyType({}),
    *,
    machine: str = "",
    device: str = "",
) -> Suspect:
    """Make a suspect with the numbers that are known."""
    return Suspect(
        bottleneck=bottleneck,
        strength=strength,
        reason=reason,
        evidence={name: value for name, value in numbers.items() if value is not None},
        machine=machine,
        device=device,
    )


# --- all candidates -----------------------------------------------------------------------------

# Resources that can be used up: more load then gives no more throughput.
_RESOURCES = (
    Bottleneck.CLIENT_NETWORK,
    Bottleneck.CLIENT_CPU,
    Bottleneck.STORAGE_NETWORK,
    Bottleneck.OSD_MEDIA,
    Bottleneck.OSD_CPU,
    Bottleneck.TARGET_CORES,
)


def suspects(level: LevelEvidence) -> tuple[Suspect, ...]:
    """One suspect for each bottleneck, the most certain first. Several may be named at once;
    `unknown` is present only where no other is named or suspected."""
    found = [
        _network(Bottleneck.CLIENT_NETWORK, level, level.clients),
        _client_cpu(level),
        _network(Bottleneck.STORAGE_NETWORK, level, level.storage),
        _media(level),
        _storage_cpu(level),
        _target_cores(level),
        _queue_depth(level),
        _round_trips(level),
    ]
    idle = _not_saturated(level)
    used_up = [
        suspect
        for suspect in found
        if suspect.bottleneck in _RESOURCES and suspect.strength is Strength.NAMED
    ]
    if idle.strength is Strength.NAMED:
        # A resource was not used up where more load gave more throughput.
        found = [
            replace(suspect, strength=Strength.SUSPECTED, overruled_by=idle)
            if suspect in used_up
            else suspect
            for suspect in found
        ]
    elif used_up and idle.strength is Strength.SUSPECTED:
        # Few I/Os in flight are no sign of idleness where a resource is used up.
        idle = replace(idle, strength=Strength.EXCLUDED, overruled_by=used_up[0])
    found.append(idle)
    if not leading(found):
        missing = [
            suspect.bottleneck for suspect in found if suspect.strength is Strength.NOT_MEASURED
        ]
        found.append(
            Suspect(
                bottleneck=Bottleneck.UNKNOWN,
                strength=Strength.NAMED,
                reason=Reason.NOTHING_USED_UP,
                evidence={"not_measured": float(len(missing))},
                not_measured=tuple(missing),
            )
        )
    order = tuple(Strength)
    return tuple(sorted(found, key=lambda suspect: order.index(suspect.strength)))


def leading(found: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """Return the named suspects; where none is named, the suspected ones."""
    given = tuple(found)
    named, suspected = (
        tuple(suspect for suspect in given if suspect.strength is strength)
        for strength in (Strength.NAMED, Strength.SUSPECTED)
    )
    return named or suspected


def _by_share(share: float, suspected_from: float, named_from: float) -> Strength:
    if share >= named_from:
        return Strength.NAMED
    return Strength.SUSPECTED if share >= suspected_from else Strength.EXCLUDED


# --- processors: of the clients, of the storage, and limits set on the storage ------------------

# As in the rule client-saturated: all cores, or the one core of a job's thread.
USED_UP = 0.95
# From here on threads wait noticeably for a core: with two servers and random arrivals (M/M/2) the
# wait is 1.8 times the work at 80 %, and a third of it at 50 %.
CROWDED = 0.80
# As in client-saturated: time that the hypervisor gave to other guests while there was work.
STOLEN = 0.10
# As in client-saturated: time in which a container's limit throttled the runner.
THROTTLED_RUNNER = 0.02
# Share of the periods of a control group: one in four ended with work left and no quota. Groups
# that work below their quota on average are throttled rarely, by bursts alone.
THROTTLED = 0.25
THROTTLED_AT_ALL = 0.02
# Share of an operation's time in its OSD before a worker thread took it.
WAITED = 0.50
# Share of a machine's cores used by neither load nor storage, interrupts included.
OTHERS = 0.25
# I/Os in flight that count as more than one at a time.
ALONE = 1.5


def _client_cpu(level: LevelEvidence) -> Suspect:
    suspect = partial(_suspect, Bottleneck.CLIENT_CPU)
    processor, job = level.processor, level.job_core_share
    busiest = _busiest(level.clients)
    cpu = busiest[1] if busiest else processor
    throttled = processor.throttled_share if processor else None
    numbers = {
        "busy_share": cpu.busy_share if cpu else None,
        "steal_share": cpu.steal_share if cpu else None,
        "job_core_share": job,
        "throttled_share": throttled,
    }
    if throttled is not None and throttled > THROTTLED_RUNNER:
        return suspect(Strength.NAMED, Reason.RUNNER_THROTTLED, numbers)
    deep = level.asked is None or level.asked > 1
    if job is not None and job >= USED_UP and deep:
        return suspect(Strength.NAMED, Reason.JOB_THREAD_FULL, numbers)
    if cpu is None:
        return suspect(Strength.NOT_MEASURED, Reason.CPU_NOT_MEASURED, numbers)
    machine = busiest[0] if busiest else None
    if level.shared and not level.devices and cpu.busy_share >= CROWDED:
        return _shared_cores(Bottleneck.CLIENT_CPU, level, machine, cpu.busy_share, numbers)
    strength, reason = _by_share(cpu.busy_share, CROWDED, USED_UP), Reason.CORES_BUSY
    if cpu.steal_share >= STOLEN:
        strength, reason = Strength.SUSPECTED, Reason.CORES_STOLEN
    return suspect(strength, reason, numbers, machine=_name(machine, level.clients))


def _storage_cpu(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.OSD_CPU
    suspect = partial(_suspect, kind)
    if level.devices and level.stays_here:
        return suspect(Strength.EXCLUDED, Reason.LOCAL_DISK)
    busiest, processor = _busiest(level.storage), level.processor
    queued = queued_share(level)
    numbers: dict[str, float | None] = {"queued_share": queued}
    # A single I/O in flight waits for no other.
    several = level.in_flight is None or level.in_flight > ALONE
    waiting = queued is not None and queued >= WAITED and several
    if busiest is None:
        if level.shared and processor is not None and processor.busy_share >= CROWDED:
            return _shared_cores(kind, level, None, processor.busy_share, numbers)
        if waiting:
            return suspect(Strength.SUSPECTED, Reason.OPERATIONS_QUEUED, numbers)
        return suspect(Strength.NOT_MEASURED, Reason.CPU_NOT_MEASURED, numbers)
    machine, cpu = busiest
    numbers["busy_share"] = cpu.busy_share
    if level.shared and cpu.busy_share >= CROWDED:
        return _shared_cores(kind, level, machine, cpu.busy_share, numbers)
    strength, reason = _by_share(cpu.busy_share, CROWDED, USED_UP), Reason.CORES_BUSY
    if cpu.steal_share >= STOLEN:
        numbers["steal_share"] = cpu.steal_share
        strength, reason = Strength.SUSPECTED, Reason.CORES_STOLEN
    elif strength is Strength.EXCLUDED and waiting:
        strength, reason = Strength.SUSPECTED, Reason.OPERATIONS_QUEUED
    elif strength is Strength.EXCLUDED and level.unreached_hosts != 0:
        numbers["hosts_unread"] = level.unreached_hosts
        strength, reason = Strength.NOT_MEASURED, Reason.CORES_BUSY_WHERE_READ
    return suspect(strength, reason, numbers, machine=_name(machine, level.storage))


def _target_cores(level: LevelEvidence) -> Suspect:
    """Test the processor limits (control groups) of the storage."""
    suspect = partial(_suspect, Bottleneck.TARGET_CORES)
    groups = {
        name: (group, machine.processes.get(name))
        for machine in level.storage
        for name, group in machine.groups.items()
    }
    if not groups:
        return suspect(Strength.NOT_MEASURED, Reason.CPU_LIMIT_NOT_MEASURED)
    limited = [both for both in groups.values() if both[0].quota_cores is not None]
    if not limited:
        return suspect(Strength.EXCLUDED, Reason.CPU_LIMIT_NOT_SET, {"groups": len(groups)})
    shares = [share for group, _ in limited if (share := group.throttled_share) is not None]
    if not shares:
        numbers = {"groups": len(limited)}
        return suspect(Strength.NOT_MEASURED, Reason.THROTTLING_NOT_COUNTED, numbers)
    used = [
        cores / group.quota_cores
        for group, process_cores in limited
        if (cores := process_cores if group.cores_used is None else group.cores_used)
        and group.quota_cores
    ]
    throttled = sum(share >= THROTTLED for share in shares)
    strength = _by_share(max(shares), THROTTLED_AT_ALL, THROTTLED)
    if any(share >= USED_UP for share in used):
        strength = Strength.NAMED
    return suspect(
        strength,
        Reason.CPU_LIMIT,
        {
            "groups": len(limited),
            "groups_held_back": throttled,
            "throttled_share": max(shares),
            "least_throttled_share": min(shares),
            "quota_used_share": max(used, default=None),
            "quota_cores": min(group.quota_cores or 0.0 for group, _ in limited),
        },
    )


def queued_share(level: LevelEvidence) -> float | None:
    """Compute the share of operations' time in their OSD before a thread took them:
    1 - op_process_latency / op_latency over all OSDs. None where no operation was counted."""
    whole = at_work = 0.0
    for osd in level.osds:
        if "osd.op_latency" in osd.means_s and "osd.op_process_latency" in osd.means_s:
            whole += _seconds(osd, "osd.op_latency")
            at_work += _seconds(osd, "osd.op_process_latency")
    return max(0.0, 1 - at_work / whole) if whole > 0 else None


def _seconds(osd: OsdRates, name: str) -> float:
    """Seconds per second spent on the operations of a latency counter."""
    return osd.rates.get(name, 0.0) * osd.means_s.get(name, 0.0)


def _busiest(machines: Iterable[MachineRates]) -> tuple[MachineRates, CpuRates] | None:
    known = [(machine, machine.cpu) for machine in machines if machine.cpu is not None]
    return max(known, key=lambda pair: pair[1].busy_share, default=None)


def _name(machine: MachineRates | None, among: tuple[MachineRates, ...]) -> str:
    return machine.machine if machine and len(among) > 1 else ""


def _shared_cores(
    kind: Bottleneck,
    level: LevelEvidence,
    machine: MachineRates | None,
    busy: float,
    numbers: Mapping[str, float | None],
) -> Suspect:
    """A busy machine that runs both the load generator and the storage."""
    processor = level.processor
    cores = machine.cores if machine else processor.cores if processor else 1
    numbers = {**numbers, "busy_share": busy, "cores": cores}
    reason = Reason.CORES_SHARED
    if machine and machine.processes:
        storage, engine = sum(machine.processes.values()), level.engine_cores
        rest = max(0.0, busy * cores - storage - (engine or 0.0))
        numbers |= {"storage_cores": storage, "engine_cores": engine, "other_cores": rest}
        if engine is not None and rest >= OTHERS * cores:
            reason = Reason.CORES_SHARED_WITH_OTHERS
    return _suspect(kind, _by_share(busy, CROWDED, USED_UP), reason, numbers)


# --- networks: of the clients, and of the storage -----------------------------------------------

# TCP carries 94.1 % of Ethernet's wire rate at 1500 bytes (1448 of 1538), and interface counters
# include the headers: above this share no capacity is left.
FULL = 0.90
# Averages over a second hide bursts, which fill switch queues earlier.
NETWORKS_CROWDED = 0.75


def _network(kind: Bottleneck, level: LevelEvidence, machines: Iterable[MachineRates]) -> Suspect:
    """Test the link with the highest load of the clients, or of the storage's machines."""
    suspect = partial(_suspect, kind)
    if level.stays_here:
        reason = Reason.ONE_MACHINE if level.on_lab else Reason.DATA_STAYED_LOCAL
        return suspect(Strength.EXCLUDED, reason)
    of_storage = kind is Bottleneck.STORAGE_NETWORK
    links = [
        (max(rates.received_bps, rates.sent_bps) / rates.link_bps, rates.link_bps, machine, name)
        for machine in machines
        for name, rates in machine.interfaces.items()
        if rates.link_bps
    ]
    if not links:
        moved = {} if of_storage else {"bandwidth_bps": level.bandwidth_bps}
        return suspect(Strength.NOT_MEASURED, Reason.LINK_NOT_MEASURED, moved)
    share, link_bps, machine, interface = max(links, key=lambda link: link[0])
    strength, reason = _by_share(share, NETWORKS_CROWDED, FULL), Reason.LINK_LOAD
    if of_storage and strength is Strength.EXCLUDED and level.unreached_hosts != 0:
        strength, reason = Strength.NOT_MEASURED, Reason.LINK_LOAD_WHERE_READ
    numbers = {"link_share": share, "link_bps": link_bps}
    return suspect(strength, reason, numbers, machine=machine.machine, device=interface)


# --- media: disks as the kernel counts them, and the time that OSDs wait for them ---------------

# At least one I/O in flight nearly all the time. Only a disk that serves one I/O at a time is then
# full (iostat(1) states the same of %util); flash serves many at once.
ALWAYS_BUSY = 0.95
# A disk that is idle for a fifth of the time does not limit all I/Os.
OFTEN_IDLE = 0.80
# Share of an operation's time in the OSD: longer at the medium than everywhere else together.
AT_MEDIUM = 0.50

# Reads wait for aio; writes wait for data (aio), then for the commit of metadata. Each pair is the
# whole time in the store and its parts at the medium.
_READS = ("osd.op_r_process_latency", ("bluestore.read_wait_aio_lat",))
_STORE_COMMITS = ("bluestore.commit_lat", "bluestore.txc_commit_lat")
_STORE_MEDIUM = ("bluestore.state_aio_wait_lat", "bluestore.state_kv_commiting_lat")


def _media(level: LevelEvidence) -> Suspect:
    suspect = partial(_suspect, Bottleneck.OSD_MEDIA)
    at_medium = _medium_share(level.osds)
    mostly_waiting = at_medium is not None and at_medium >= AT_MEDIUM
    disks = [
        (machine, name, disk)
        for machine in level.storage or (level.clients if level.devices else ())
        for name, disk in machine.disks.items()
        if not level.devices or name in level.devices
    ]
    if not disks:
        # One I/O at a time waits for the medium most of its time without using it up.
        several = level.in_flight is not None and level.in_flight > ALONE
        strength = Strength.SUSPECTED if mostly_waiting and several else Strength.NOT_MEASURED
        return suspect(strength, Reason.DISKS_NOT_MEASURED, {"medium_share": at_medium})
    machine, name, disk = max(disks, key=lambda disk: disk[2].utilisation)
    strength, reason = Strength.EXCLUDED, Reason.DISK_BUSY
    if disk.utilisation >= ALWAYS_BUSY:
        strength, reason = Strength.SUSPECTED, Reason.DISK_BUSY_PARALLEL
        if mostly_waiting or level.rotational:
            strength = Strength.NAMED
            reason = Reason.DISK_FULL if mostly_waiting else Reason.DISK_FULL_ROTATIONAL
    elif disk.utilisation >= OFTEN_IDLE:
        strength = Strength.SUSPECTED
    elif level.unreached_hosts != 0:
        strength, reason = Strength.NOT_MEASURED, Reason.DISK_BUSY_WHERE_READ
    numbers = {
        "medium_share": at_medium,
        "utilisation": disk.utilisation,
        "disk_in_flight": disk.in_flight,
        "disk_latency_s": disk.latency_s,
        "disk_iops": disk.iops,
    }
    return suspect(strength, reason, numbers, machine=machine.machine, device=name)


def _medium_share(osds: Iterable[OsdRates]) -> float | None:
    """Compute the share of the OSD stores' work on reads and writes that they waited for their
    media. None where nothing was counted."""
    whole = waited = 0.0
    for osd in osds:
        commits = [(name, _STORE_MEDIUM) for name in _STORE_COMMITS if name in osd.means_s]
        for total, at_medium in (_READS, *commits[:1]):
            spent = _seconds(osd, total)
            whole += spent
            waited += min(spent, sum(_seconds(osd, name) for name in at_medium))
    return waited / whole if whole > 0 else None


# --- the load: a queue that was not filled, network round trips, nothing used up ----------------

# As in the rule queue-depth-not-reached.
REACHED = 0.90
# Share of the mean latency that is network: more than everything else, and a good part.
MOSTLY_NETWORK = 0.50
PARTLY_NETWORK = 0.25
# A tenth more throughput from more load exceeds the noise of repeats on a quiet system.
MORE = 1.10
# Share of the offered rate from which on it counts as kept.
KEPT = 0.95


def _queue_depth(level: LevelEvidence) -> Suspect:
    suspect = partial(_suspect, Bottleneck.QUEUE_DEPTH)
    if level.offered_iops is not None:
        return suspect(Strength.EXCLUDED, Reason.OPEN_LOOP)
    if level.asked is None or level.in_flight is None:
        return suspect(Strength.NOT_MEASURED, Reason.IN_FLIGHT_UNKNOWN)
    share = level.in_flight / level.asked
    numbers = {"asked": level.asked, "in_flight": level.in_flight, "reached_share": share}
    strength = Strength.NAMED if share < REACHED else Strength.EXCLUDED
    return suspect(strength, Reason.IN_FLIGHT, numbers)


def _round_trips(level: LevelEvidence) -> Suspect:
    """Test the share of the mean latency that round trips between zones account for."""
    suspect = partial(_suspect, Bottleneck.ROUND_TRIPS)
    trip, trips, mean = level.round_trip_s, level.trips, level.latency_mean_s
    if trips == 0:
        return suspect(Strength.EXCLUDED, Reason.ONE_ZONE)
    if trip is None or trips is None or not mean:
        return suspect(Strength.NOT_MEASURED, Reason.ROUND_TRIPS_NOT_MEASURED)
    share = trip * trips / mean
    numbers = {
        "round_trip_s": trip,
        "round_trips": trips,
        "latency_mean_s": mean,
        "latency_share": share,
    }
    return suspect(_by_share(share, PARTLY_NETWORK, MOSTLY_NETWORK), Reason.ROUND_TRIPS, numbers)


def _not_saturated(level: LevelEvidence) -> Suspect:
    """Test whether the load was too low to use up any resource."""
    strength, reason = _idleness(level)
    numbers = {
        "osds": float(len(level.osds)) if reason is Reason.FEWER_THAN_OSDS else None,
        "iops": level.iops,
        "iops_at_more_load": level.more_iops,
        "in_flight": level.in_flight,
        "offered_iops": level.offered_iops,
    }
    return _suspect(Bottleneck.NOT_SATURATED, strength, reason, numbers)


def _idleness(level: LevelEvidence) -> tuple[Strength, Reason]:
    iops, more, in_flight = level.iops, level.more_iops, level.in_flight
    if level.offered_iops is not None:
        if iops is None:
            return Strength.NOT_MEASURED, Reason.RATE_NOT_MEASURED
        if iops >= KEPT * level.offered_iops:
            return Strength.NAMED, Reason.RATE_KEPT
        return Strength.EXCLUDED, Reason.RATE_NOT_KEPT
    if iops and more is not None and more >= MORE * iops:
        return Strength.NAMED, Reason.MORE_LOAD_GAVE_MORE
    if in_flight is not None and in_flight <= ALONE:
        return Strength.NAMED, Reason.ONE_AT_A_TIME
    if more is not None:
        return Strength.EXCLUDED, Reason.MORE_LOAD_GAVE_NO_MORE
    if in_flight is not None and level.osds and in_flight < len(level.osds):
        return Strength.SUSPECTED, Reason.FEWER_THAN_OSDS
    return Strength.NOT_MEASURED, Reason.NO_HIGHER_LOAD
