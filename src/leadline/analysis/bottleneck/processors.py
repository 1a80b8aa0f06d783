"""The processors: the client's, the storage's, and limits put on the storage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leadline.analysis.bottleneck.model import (
    Bottleneck,
    LevelEvidence,
    Strength,
    Suspect,
    suspect,
)
from leadline.formats.host_rates import GroupRates, MachineRates
from leadline.visible import visible

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
