"""All bottlenecks of a level, each with what speaks for or against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from leadline.analysis.bottleneck.evidence import (
    Bottleneck,
    LevelEvidence,
    Strength,
    Suspect,
    suspect,
)
from leadline.formats.ceph.counters import OsdRates
from leadline.formats.host_rates import DiskRates, GroupRates, MachineRates
from leadline.text import visible
from leadline.units import format_bandwidth, format_iops, format_latency

# The processors: the client's, the storage's, and limits put on the storage.

# As in the rule client-saturated: all cores, or the one core of a job's thread.
USED_UP = 0.95
# From here on threads wait for a core noticeably: with two servers and random arrivals (M/M/2) a
# wait of 1.8 times the work at 80 %, of a third of it at 50 %.
CROWDED = 0.80
# As in client-saturated: time that the hypervisor gave to others while there was work.
STOLEN = 0.10
# As in client-saturated: time in which a container's limit held the runner back.
HELD_BACK = 0.02
# Of the periods of a control group: one in four ended with work left and no quota. Groups that
# work below their quota on average have few, from bursts alone.
THROTTLED = 0.25
THROTTLED_AT_ALL = 0.02
# Of the time of an operation in its OSD: longer before a worker thread took it than after.
WAITED = 0.50

# Of a machine's cores, used by what is neither load nor storage, interrupts included: as much as
# one of the two would be without it.
OTHERS = 0.25


def client_cpu(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.CLIENT_CPU
    processor, job = level.processor, level.job_core_share
    busiest = _busiest(level.clients)
    busy = busiest.cpu.busy_share if busiest and busiest.cpu else None
    steal = busiest.cpu.steal_share if busiest and busiest.cpu else None
    if busy is None and processor is not None:
        busy, steal = processor.busy_share, processor.steal_share
    held_back = processor.throttled_share if processor else None
    numbers = {
        "busy_share": busy,
        "steal_share": steal,
        "job_core_share": job,
        "throttled_share": held_back,
    }
    if held_back is not None and held_back > HELD_BACK:
        said = f"The processor limit of the runner held it back for {held_back:.0%} of the time."
        return suspect(kind, Strength.NAMED, said, **numbers)
    deep = level.asked is None or level.asked > 1
    if job is not None and job >= USED_UP and deep:
        said = f"A job's thread used {job:.0%} of the one core that it can use."
        return suspect(kind, Strength.NAMED, said, **numbers)
    if busy is None:
        said = "Nobody measured the processor of the load generator."
        return suspect(kind, Strength.NOT_MEASURED, said, **numbers)
    if level.shared and not level.devices and busy >= CROWDED:
        return _shared(kind, level, busiest, busy, numbers)
    who = f"The cores of the load generator{_name(busiest, level.clients)}"
    if steal is not None and steal >= STOLEN:
        said = f"{who} lost {steal:.0%} of their time to other guests of the hypervisor."
        return suspect(kind, Strength.SUSPECTED, said, **numbers)
    if busy >= CROWDED:
        return suspect(kind, _crowded(busy), f"{who} were {busy:.0%} busy.", **numbers)
    said = f"{who} were {busy:.0%} busy."
    return suspect(kind, Strength.EXCLUDED, said, **numbers)


def storage_cpu(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.OSD_CPU
    if level.devices and level.stays_here:
        said = "The storage is a disk of the load generator's: its cores do the storage's work too."
        return suspect(kind, Strength.EXCLUDED, said)
    busiest = _busiest(level.storage)
    queued = queued_share(level)
    numbers = {"queued_share": queued}
    waited = (
        f"operations spent {queued:.0%} of their time in the OSD waiting for one of its threads"
        if queued is not None
        else ""
    )
    if level.shared and busiest is None and level.processor is not None:
        busy = level.processor.busy_share
        if busy >= CROWDED:
            return _shared(kind, level, None, busy, numbers)
    if busiest is None or busiest.cpu is None:
        none = (
            "There are no counters of the OSDs' hosts"
            if level.on_ceph
            else "There are no counters of the storage's machines"
        )
        if queued is not None and queued >= WAITED and _several(level):
            said = f"{none}, but {waited}."
            return suspect(kind, Strength.SUSPECTED, said, **numbers)
        return suspect(
            kind, Strength.NOT_MEASURED, f"{none}{f'; {waited}' if waited else ''}.", **numbers
        )
    busy = busiest.cpu.busy_share
    numbers["busy_share"] = busy
    if level.shared and busy >= CROWDED:
        return _shared(kind, level, busiest, busy, numbers)
    steal = busiest.cpu.steal_share
    if steal >= STOLEN:
        numbers["steal_share"] = steal
        where = f"The cores of the storage{_name(busiest, level.storage)}"
        said = f"{where} lost {steal:.0%} of their time to other guests of the hypervisor."
        return suspect(kind, Strength.SUSPECTED, said, **numbers)
    who = f"The cores of the storage{_name(busiest, level.storage)} were {busy:.0%} busy"
    if busy >= CROWDED:
        return suspect(kind, _crowded(busy), f"{who}.", **numbers)
    if queued is not None and queued >= WAITED and _several(level):
        return suspect(kind, Strength.SUSPECTED, f"{who}, but {waited}.", **numbers)
    unreached = level.unreached_hosts
    if unreached != 0:
        hosts = "nobody knows of how many hosts" if unreached is None else f"{unreached} not read"
        said = f"{who} where they were read ({hosts})."
        return suspect(kind, Strength.NOT_MEASURED, said, **numbers)
    return suspect(kind, Strength.EXCLUDED, f"{who}.", **numbers)


def target_cores(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.TARGET_CORES
    groups = {
        name: (group, machine.processes.get(name))
        for machine in level.storage
        for name, group in machine.groups.items()
    }
    if not groups:
        said = "Nobody measured a processor limit of the storage."
        return suspect(kind, Strength.NOT_MEASURED, said)
    limited = {name: both for name, both in groups.items() if both[0].quota_cores is not None}
    if not limited:
        said = f"None of the {len(groups)} control groups of the storage has a processor limit."
        return suspect(kind, Strength.EXCLUDED, said, groups=len(groups))
    shares = [
        share for group, _ in limited.values() if (share := group.throttled_share) is not None
    ]
    used = [share for group, spent in limited.values() if (share := _of_quota(group, spent))]
    if not shares:
        said = "The kernel does not tell how often the processor limits held the storage back."
        return suspect(kind, Strength.NOT_MEASURED, said, groups=len(limited))
    held = sum(share >= THROTTLED for share in shares)
    full = any(share >= USED_UP for share in used)
    numbers = {
        "groups": len(limited),
        "groups_held_back": held,
        "throttled_share": max(shares),
        "quota_used_share": max(used, default=None),
        "quota_cores": min(group.quota_cores or 0.0 for group, _ in limited.values()),
    }
    least, most = min(shares), max(shares)
    span = f"{most:.0%}" if round(least, 2) == round(most, 2) else f"{least:.0%} to {most:.0%}"
    said = (
        f"The processor limits of the storage ({numbers['quota_cores']:.3g} cores the least) held "
        f"it back in {span} of their periods"
    )
    if used:
        said += f", and up to {min(1.0, max(used)):.0%} of a quota was used"
    if held or full:
        strength = Strength.NAMED
    else:
        strength = Strength.SUSPECTED if most >= THROTTLED_AT_ALL else Strength.EXCLUDED
    return suspect(kind, strength, f"{said}.", **numbers)


def queued_share(level: LevelEvidence) -> float | None:
    """Of the time of clients' operations in their OSD, the share before a thread took them: one
    less op_process_latency over op_latency, over all OSDs. None where no operation was counted."""
    whole = at_work = 0.0
    for osd in level.osds:
        if "osd.op_latency" in osd.means_s and "osd.op_process_latency" in osd.means_s:
            whole += osd.rates["osd.op_latency"] * osd.means_s["osd.op_latency"]
            at_work += osd.rates["osd.op_process_latency"] * osd.means_s["osd.op_process_latency"]
    return max(0.0, 1 - at_work / whole) if whole > 0 else None


def _several(level: LevelEvidence) -> bool:
    """More I/Os than one at a time: those of one alone wait for no other."""
    return level.in_flight is None or level.in_flight > 1.5


def _of_quota(group: GroupRates, process_cores: float | None) -> float | None:
    used = group.cores_used if group.cores_used is not None else process_cores
    if used is None or not group.quota_cores:
        return None
    return used / group.quota_cores


def _crowded(busy: float) -> Strength:
    return Strength.NAMED if busy >= USED_UP else Strength.SUSPECTED


def _busiest(machines: Iterable[MachineRates]) -> MachineRates | None:
    known = [one for one in machines if one.cpu is not None]
    return max(known, key=lambda one: one.cpu.busy_share if one.cpu else 0.0, default=None)


def _name(machine: MachineRates | None, among: tuple[MachineRates, ...]) -> str:
    return f" {visible(machine.machine)!r}" if machine and len(among) > 1 else ""


def _shared(
    kind: Bottleneck,
    level: LevelEvidence,
    machine: MachineRates | None,
    busy: float,
    numbers: Mapping[str, float | None],
) -> Suspect:
    """Of a machine that has both the load and the storage on it, and few cores left."""
    processor = level.processor
    cores = machine.cores if machine else processor.cores if processor else 1
    said = (
        f"The load generator and the storage share {cores} cores, which were {busy:.0%} busy: "
        "which of the two they were short for cannot be told apart"
    )
    numbers = {**numbers, "busy_share": busy}
    if machine and machine.processes:
        storage, engine = sum(machine.processes.values()), level.engine_cores
        rest = max(0.0, busy * cores - storage - (engine or 0.0))
        who = "the load generator and" if engine is None else f"the load generator {engine:.2f},"
        said += (
            f" (the storage's daemons used {storage:.2f} cores, {who} whatever else ran {rest:.2f})"
        )
        numbers |= {"storage_cores": storage, "engine_cores": engine, "other_cores": rest}
        if engine is not None and rest >= OTHERS * cores:
            said += ", and work that is neither's may be the reason"
    return suspect(kind, _crowded(busy), f"{said}.", **numbers)


# The networks: of the clients, and of the storage's machines.

# TCP carries 94.1 % of what Ethernet's wire does at 1500 bytes (1448 of 1538), and counters of
# interfaces hold the headers: from here on there is no room.
FULL = 0.90
# Averages of a second hide bursts, which fill queues of switches before.
NETWORKS_CROWDED = 0.75


def client_network(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.CLIENT_NETWORK
    if level.stays_here:
        return suspect(kind, Strength.EXCLUDED, _stays(level))
    found = _fullest(level.clients, level.client_link_bps)
    if found is not None:
        return _judged(kind, "load generator", *found)
    link, rate = level.client_link_bps, level.bandwidth_bps
    if link and rate is not None:
        said = f"{format_bandwidth(rate)} of data crossed the load generator's link"
        return _by_share(kind, rate / link, link, said)
    return suspect(
        kind,
        Strength.NOT_MEASURED,
        "No speed of the load generator's link is known.",
        bandwidth_bps=rate,
    )


def storage_network(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.STORAGE_NETWORK
    if level.stays_here:
        return suspect(kind, Strength.EXCLUDED, _stays(level))
    found = _fullest(level.storage, None)
    if found is None:
        said = "Nobody measured the network of the storage's machines, or knows its speed."
        return suspect(kind, Strength.NOT_MEASURED, said)
    judged = _judged(kind, "storage", *found)
    if judged.strength is Strength.EXCLUDED and level.unreached_hosts != 0:
        said = f"{judged.sentence[:-1]}, but not all of its hosts were read."
        return suspect(kind, Strength.NOT_MEASURED, said, **judged.evidence)
    return judged


def _stays(level: LevelEvidence) -> str:
    if level.on_lab:
        return "The load generator and the storage are on one machine: no link is between them."
    return (
        "The load generator's links carried less than half of the data: it stayed on the machine."
    )


_Found = tuple[MachineRates, str, float, float]


def _fullest(machines: Iterable[MachineRates], known_bps: float | None) -> _Found | None:
    """The machine, its interface, the share of the link and the link's speed."""
    found: list[_Found] = []
    for machine in machines:
        for name, one in machine.interfaces.items():
            link = one.link_bps or (known_bps if name != "lo" else None)
            if link:
                share = max(one.received_bps, one.sent_bps) / link
                found.append((machine, name, share, link))
    return max(found, key=lambda one: one[2], default=None)


def _judged(
    kind: Bottleneck, whose: str, machine: MachineRates, interface: str, share: float, link: float
) -> Suspect:
    said = (
        f"The fullest link of the {whose} ({visible(interface)} of {visible(machine.machine)}) "
        f"carried {format_bandwidth(share * link)}"
    )
    return _by_share(kind, share, link, said)


def _by_share(kind: Bottleneck, share: float, link: float, said: str) -> Suspect:
    strength = Strength.EXCLUDED
    if share >= NETWORKS_CROWDED:
        strength = Strength.NAMED if share >= FULL else Strength.SUSPECTED
    said += f", {share:.0%} of its {format_bandwidth(link)}."
    return suspect(kind, strength, said, link_share=share, link_bps=link)


# The media: disks as the kernel sees them, and the time that OSDs wait for theirs.

# At least one I/O under way nearly all the time. Only of a disk that serves one at a time is that
# the end (iostat(1) says so of %util); flash serves many at once.
ALWAYS_BUSY = 0.95
# Idle for a fifth of the time, no disk is what all I/Os wait for.
OFTEN_IDLE = 0.80
# Of an operation's time in the OSD, more at the medium than everywhere else.
AT_MEDIUM = 0.50

# Reads wait for aio; writes for data (aio), then for the metadata's commit. The other half of each
# pair is the whole time in the store.
_READS = ("osd.op_r_process_latency", ("bluestore.read_wait_aio_lat",))
_STORE_COMMITS = ("bluestore.commit_lat", "bluestore.txc_commit_lat")
_STORE_MEDIUM = ("bluestore.state_aio_wait_lat", "bluestore.state_kv_commiting_lat")


def media(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.OSD_MEDIA
    at_medium = medium_share(level.osds)
    found = _media_busiest(level)
    numbers: dict[str, float | None] = {"medium_share": at_medium}
    waited = (
        f"OSDs spent {at_medium:.0%} of their work on clients' operations waiting for their media"
        if at_medium is not None
        else ""
    )
    if found is None:
        none = f"There are no counters of the {'disks of OSDs' if level.on_ceph else 'disks'}"
        said = f"{none}{f'; {waited}' if waited else ''}."
        # One I/O at a time waits for the medium most of its time, without using it up.
        several = level.in_flight is not None and level.in_flight > 1.5
        strong = at_medium is not None and at_medium >= AT_MEDIUM and several
        return suspect(
            kind, Strength.SUSPECTED if strong else Strength.NOT_MEASURED, said, **numbers
        )
    machine, name, disk = found
    numbers |= {
        "utilisation": disk.utilisation,
        "disk_in_flight": disk.in_flight,
        "disk_latency_s": disk.latency_s,
        "disk_iops": disk.iops,
    }
    served = f", {format_latency(disk.latency_s)} an I/O" if disk.latency_s is not None else ""
    said = (
        f"The busiest disk ({visible(name)} of {visible(machine.machine)}) had I/O under way for "
        f"{disk.utilisation:.0%} of the time{served}"
    )
    if disk.utilisation >= ALWAYS_BUSY:
        if level.rotational or (at_medium is not None and at_medium >= AT_MEDIUM):
            why = waited or "it is a disk that turns"
            return suspect(kind, Strength.NAMED, f"{said}, and {why}.", **numbers)
        said += ", which a device that serves several at once may be without being full"
        return suspect(kind, Strength.SUSPECTED, f"{said}.", **numbers)
    if disk.utilisation >= OFTEN_IDLE:
        return suspect(kind, Strength.SUSPECTED, f"{said}.", **numbers)
    unreached = level.unreached_hosts
    if unreached != 0:
        said += ", but not all hosts of OSDs were read"
        return suspect(kind, Strength.NOT_MEASURED, f"{said}.", **numbers)
    return suspect(kind, Strength.EXCLUDED, f"{said}.", **numbers)


def medium_share(osds: Iterable[OsdRates]) -> float | None:
    """Of the time that stores of OSDs worked on reads and on writes, the share in which they
    waited for their media. None where nothing was counted."""
    whole = waited = 0.0
    for osd in osds:
        commit = next((name for name in _STORE_COMMITS if name in osd.means_s), None)
        parts: list[tuple[str, tuple[str, ...]]] = [_READS]
        if commit is not None:
            parts.append((commit, _STORE_MEDIUM))
        for total, media_names in parts:
            spent = _seconds(osd, total)
            whole += spent
            waited += min(spent, sum(_seconds(osd, name) for name in media_names))
    return waited / whole if whole > 0 else None


def _seconds(osd: OsdRates, name: str) -> float:
    """Spent on a latency's operations, per second."""
    return osd.rates.get(name, 0.0) * osd.means_s.get(name, 0.0)


def _media_busiest(level: LevelEvidence) -> tuple[MachineRates, str, DiskRates] | None:
    machines = level.storage or (level.clients if level.devices else ())
    found = [
        (machine, name, disk)
        for machine in machines
        for name, disk in machine.disks.items()
        if not level.devices or name in level.devices
    ]
    return max(found, key=lambda one: one[2].utilisation, default=None)


# The load itself: a queue that was not filled, round trips waited for, nothing used up.

# As in the rule queue-depth-not-reached.
REACHED = 0.90
# Of the mean latency: the way, more than all that is done at its ends.
MOSTLY_THE_WAY = 0.50
PARTLY_THE_WAY = 0.25
# A tenth more throughput from more load is beyond the noise of repeats on a quiet system.
MORE = 1.10
# A rate counts as kept from here on.
KEPT = 0.95
# I/Os in flight that count as one at a time.
ALONE = 1.5


def queue_depth(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.QUEUE_DEPTH
    if level.offered_iops is not None:
        said = "The load is a rate, not a number of I/Os in flight."
        return suspect(kind, Strength.EXCLUDED, said)
    if level.asked is None or level.in_flight is None:
        said = "How many I/Os were in flight, or were to be, is not known."
        return suspect(kind, Strength.NOT_MEASURED, said)
    share = level.in_flight / level.asked
    strength = Strength.NAMED if share < REACHED else Strength.EXCLUDED
    said = f"{level.asked} I/Os were asked to be in flight and {level.in_flight:.1f} were."
    return suspect(
        kind, strength, said, asked=level.asked, in_flight=level.in_flight, reached_share=share
    )


def round_trips(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.ROUND_TRIPS
    trip, trips, mean = level.round_trip_s, level.trips, level.latency_mean_s
    if trips == 0:
        said = "No I/O crosses from one zone to another."
        return suspect(kind, Strength.EXCLUDED, said)
    if trip is None or trips is None or not mean:
        said = (
            "No round trips between zones were measured, or how many an I/O waits for is not known."
        )
        return suspect(kind, Strength.NOT_MEASURED, said)
    share = trip * trips / mean
    strength = Strength.EXCLUDED
    if share >= PARTLY_THE_WAY:
        strength = Strength.NAMED if share >= MOSTLY_THE_WAY else Strength.SUSPECTED
    said = (
        f"An I/O waits for {trips:.3g} round trips of {format_latency(trip)} on average, "
        f"{min(1.0, share):.0%} of its mean latency of {format_latency(mean)}."
    )
    return suspect(
        kind,
        strength,
        said,
        round_trip_s=trip,
        round_trips=trips,
        latency_mean_s=mean,
        latency_share=share,
    )


def not_saturated(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.NOT_SATURATED
    iops, more = level.iops, level.more_iops
    numbers = {
        "iops": iops,
        "iops_at_more_load": more,
        "in_flight": level.in_flight,
        "offered_iops": level.offered_iops,
    }
    if level.offered_iops is not None:
        if iops is None:
            said = "Whether the rate offered was kept is not known."
            return suspect(kind, Strength.NOT_MEASURED, said, **numbers)
        kept = iops >= KEPT * level.offered_iops
        said = (
            f"{format_iops(iops)} of the {format_iops(level.offered_iops)} offered were done: the "
            + ("rate was kept." if kept else "queue grew, more than the storage does was offered.")
        )
        return suspect(kind, Strength.NAMED if kept else Strength.EXCLUDED, said, **numbers)
    if iops and more is not None and more >= MORE * iops:
        said = f"More load gave up to {more / iops:.2f} times the throughput."
        return suspect(kind, Strength.NAMED, said, **numbers)
    if level.in_flight is not None and level.in_flight <= ALONE:
        said = (
            "One I/O was in flight at a time: throughput is one over the latency, whatever else "
            "the storage could do meanwhile."
        )
        return suspect(kind, Strength.NAMED, said, **numbers)
    if more is not None:
        said = "More load gave no more throughput, within a tenth."
        return suspect(kind, Strength.EXCLUDED, said, **numbers)
    if level.in_flight is not None and level.osds and level.in_flight < len(level.osds):
        said = (
            f"{level.in_flight:.1f} I/Os were in flight on {len(level.osds)} OSDs: on average some "
            "had none."
        )
        return suspect(kind, Strength.SUSPECTED, said, osds=float(len(level.osds)), **numbers)
    said = "No level with more load tells whether it would have given more."
    return suspect(kind, Strength.NOT_MEASURED, said, **numbers)


_ORDER = tuple(Strength)
# What can be used up; more load then gives no more.
_RESOURCES = (
    Bottleneck.CLIENT_NETWORK,
    Bottleneck.CLIENT_CPU,
    Bottleneck.STORAGE_NETWORK,
    Bottleneck.OSD_MEDIA,
    Bottleneck.OSD_CPU,
    Bottleneck.TARGET_CORES,
)


def suspects(level: LevelEvidence) -> tuple[Suspect, ...]:
    """One for each bottleneck, the surest first; several may be named at once. `unknown` is there
    only where none is named or suspected."""
    found = [
        client_network(level),
        client_cpu(level),
        storage_network(level),
        media(level),
        storage_cpu(level),
        target_cores(level),
        queue_depth(level),
        round_trips(level),
    ]
    idle = not_saturated(level)
    if idle.strength is Strength.NAMED:
        found = [_doubted(one, idle) for one in found]
    elif _alone_used_up(found):
        idle = _set_back(idle)
    found.append(idle)
    if all(one.strength in (Strength.EXCLUDED, Strength.NOT_MEASURED) for one in found):
        found.append(_unknown(found))
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.strength)))


def leading(found: tuple[Suspect, ...]) -> tuple[Suspect, ...]:
    """Those that are named; where none is, those suspected."""
    for strength in (Strength.NAMED, Strength.SUSPECTED):
        chosen = tuple(one for one in found if one.strength is strength)
        if chosen:
            return chosen
    return ()


def _doubted(one: Suspect, idle: Suspect) -> Suspect:
    """A resource cannot have been used up where more load was seen to give more, or where the
    load was all that was asked for; it may have been short."""
    if one.bottleneck not in _RESOURCES or one.strength is not Strength.NAMED:
        return one
    said = f"{one.sentence} But the level was not saturated: {_lowered(idle.sentence)}"
    return replace(one, strength=Strength.SUSPECTED, sentence=said)


def _alone_used_up(found: list[Suspect]) -> bool:
    return any(one.bottleneck in _RESOURCES and one.strength is Strength.NAMED for one in found)


def _set_back(idle: Suspect) -> Suspect:
    """A resource is used up: that few I/Os were in flight does not suggest idleness."""
    if idle.strength is not Strength.SUSPECTED:
        return idle
    said = f"{idle.sentence} But something else was used up."
    return replace(idle, strength=Strength.EXCLUDED, sentence=said)


def _unknown(found: list[Suspect]) -> Suspect:
    missing = [one.bottleneck for one in found if one.strength is Strength.NOT_MEASURED]
    said = "Nothing that was measured was used up."
    if missing:
        said += f" Not measured: {', '.join(one.value.replace('-', ' ') for one in missing)}."
    return suspect(Bottleneck.UNKNOWN, Strength.NAMED, said, not_measured=float(len(missing)))


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
