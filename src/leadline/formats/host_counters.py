"""The record of machines during a trial, `resources.jsonl`: counters since boot, a line a sample.

The parser is total: it returns all samples or raises FormatError with the line.
`leadline.formats.host_rates` makes rates of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from leadline.formats.checked import (
    count,
    counts,
    decoded_line,
    mapping,
    number,
    text,
    wrong,
)

_WHAT = "the record of machines"
_SECTOR_BYTES = 512


class Role(StrEnum):
    """What a machine has to do with a trial: it makes the load, it serves the storage. A lab's
    only machine does both."""

    CLIENT = "client"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTicks:
    """Of all cores together since boot, in ticks. `idle` holds the wait for I/O too, which is
    also told by itself; `steal` went to other guests of the hypervisor."""

    total: int
    idle: int
    iowait: int
    user: int
    system: int
    steal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """Of one whole device. Requests that were merged into others are not among `reads` and
    `writes`, their bytes are. `*_ms` are the times of all I/Os added up, `busy_ms` the time in
    which at least one was under way, `queue_ms` that time weighted by how many were."""

    reads: int
    reads_merged: int
    read_bytes: int
    read_ms: int
    writes: int
    writes_merged: int
    write_bytes: int
    write_ms: int
    busy_ms: int
    queue_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounters:
    """Of one network interface."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounters:
    """Of one control group with a processor limit: periods in which it had something to run, those
    in which it used its quota up and was held back, for how long (of all its processors added up),
    and the processor time used. None where the kernel does not tell; without a quota `quota_cores`
    is None."""

    periods: int | None
    throttled: int | None
    throttled_us: int | None
    usage_us: int | None
    quota_cores: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTicks:
    """`began` (ticks since boot) tells a process from a later one of its pid."""

    pid: int
    began: int
    user: int
    system: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One machine at one moment: ISO 8601 in UTC, seconds since the watch began, and `clock_s`,
    seconds of the machine's own clock, which only goes forward. `cpu` is None where it was not to
    be read; `hz` is ticks per second; `links_bps` the speeds that interfaces tell, in bytes per
    second; `unread` says what could not be read."""

    at: str
    elapsed_s: float
    machine: str
    roles: frozenset[Role]
    clock_s: float
    cores: int
    hz: int
    cpu: CpuTicks | None
    disks: Mapping[str, DiskCounters]
    interfaces: Mapping[str, InterfaceCounters]
    links_bps: Mapping[str, float]
    groups: Mapping[str, GroupCounters]
    processes: Mapping[str, ProcessTicks]
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedHostSample:
    """A machine of which nothing was to be had at that moment, and why."""

    at: str
    elapsed_s: float
    machine: str
    roles: frozenset[Role]
    reason: str


def parse_resource_log(content: bytes) -> tuple[HostSample | MissedHostSample, ...]:
    """The lines of a `resources.jsonl`, in order. What a line leaves out of devices and interfaces
    is as in the machine's line before. Raises FormatError with the line."""
    found: list[HostSample | MissedHostSample] = []
    last: dict[str, HostSample] = {}
    for index, line in enumerate(content.splitlines(), start=1):
        entry = decoded_line(line, index, _WHAT)
        where = f"line {index}"
        machine = text(entry, "machine", where)
        if "error" in entry:
            found.append(
                MissedHostSample(
                    at=text(entry, "at", where),
                    elapsed_s=number(entry.get("elapsed_s"), f"{where}.elapsed_s"),
                    machine=machine,
                    roles=_roles(entry, where),
                    reason=text(entry, "error", where),
                )
            )
            continue
        sample = _sample(entry, where, machine, last.get(machine))
        last[machine] = sample
        found.append(sample)
    return tuple(found)


def _sample(
    entry: Mapping[str, Any], where: str, machine: str, before: HostSample | None
) -> HostSample:
    cpu = entry.get("cpu")
    disks = {
        name: _disk(counts(one, f"{where}.disks.{name}", 11))
        for name, one in mapping(entry.get("disks", {}), f"{where}.disks").items()
    }
    interfaces = {
        name: _interface(counts(one, f"{where}.interfaces.{name}", 4))
        for name, one in mapping(entry.get("interfaces", {}), f"{where}.interfaces").items()
    }
    links = {
        name: number(one, f"{where}.links_bps.{name}")
        for name, one in mapping(entry.get("links_bps", {}), f"{where}.links_bps").items()
    }
    cores = count(entry.get("cores"), f"{where}.cores")
    hz = count(entry.get("hz"), f"{where}.hz")
    if not cores or not hz:
        raise wrong(where, "a machine has at least one core, and its ticks a rate")
    unread = entry.get("unread", [])
    if not isinstance(unread, list) or not all(isinstance(one, str) for one in unread):
        raise wrong(f"{where}.unread", "a list of texts was expected")
    return HostSample(
        at=text(entry, "at", where),
        elapsed_s=number(entry.get("elapsed_s"), f"{where}.elapsed_s"),
        machine=machine,
        roles=_roles(entry, where),
        clock_s=number(entry.get("clock_s"), f"{where}.clock_s"),
        cores=cores,
        hz=hz,
        cpu=None if cpu is None else _cpu(counts(cpu, f"{where}.cpu", 8)),
        disks={**(before.disks if before else {}), **disks},
        interfaces={**(before.interfaces if before else {}), **interfaces},
        links_bps={**(before.links_bps if before else {}), **links},
        groups={
            name: _group(mapping(one, f"{where}.groups.{name}"), f"{where}.groups.{name}")
            for name, one in mapping(entry.get("groups", {}), f"{where}.groups").items()
        },
        processes={
            name: _process(counts(one, f"{where}.processes.{name}", 4))
            for name, one in mapping(entry.get("processes", {}), f"{where}.processes").items()
        },
        unread=tuple(unread),
    )


def _roles(entry: Mapping[str, Any], where: str) -> frozenset[Role]:
    roles = entry.get("roles")
    if not isinstance(roles, list):
        raise wrong(f"{where}.roles", "a list was expected")
    try:
        return frozenset(Role(role) for role in roles)
    except (ValueError, TypeError):
        raise wrong(f"{where}.roles", f"roles are {', '.join(Role)}") from None


def _cpu(ticks: Sequence[int]) -> CpuTicks:
    user, nice, system, idle, iowait, irq, softirq, steal = ticks[:8]
    return CpuTicks(
        total=sum(ticks[:8]),
        idle=idle + iowait,
        iowait=iowait,
        user=user + nice,
        system=system + irq + softirq,
        steal=steal,
    )


def _disk(counters: Sequence[int]) -> DiskCounters:
    """The kernel's order: Documentation/admin-guide/iostats.rst."""
    reads, read_merges, read_sectors, read_ms = counters[:4]
    writes, write_merges, write_sectors, write_ms, _, busy, queue = counters[4:11]
    return DiskCounters(
        reads=reads,
        reads_merged=read_merges,
        read_bytes=read_sectors * _SECTOR_BYTES,
        read_ms=read_ms,
        writes=writes,
        writes_merged=write_merges,
        write_bytes=write_sectors * _SECTOR_BYTES,
        write_ms=write_ms,
        busy_ms=busy,
        queue_ms=queue,
    )


def _interface(counters: Sequence[int]) -> InterfaceCounters:
    received_bytes, received, sent_bytes, sent = counters[:4]
    return InterfaceCounters(
        received_bytes=received_bytes,
        received_packets=received,
        sent_bytes=sent_bytes,
        sent_packets=sent,
    )


def _group(entry: Mapping[str, Any], where: str) -> GroupCounters:
    told = {
        key: None if entry.get(key) is None else count(entry[key], f"{where}.{key}")
        for key in ("periods", "throttled", "throttled_us", "usage_us", "quota_us", "period_us")
    }
    quota, period = told.pop("quota_us"), told.pop("period_us")
    return GroupCounters(
        periods=told["periods"],
        throttled=told["throttled"],
        throttled_us=told["throttled_us"],
        usage_us=told["usage_us"],
        quota_cores=quota / period if quota is not None and period else None,
    )


def _process(ticks: Sequence[int]) -> ProcessTicks:
    pid, began, user, system = ticks[:4]
    return ProcessTicks(pid=pid, began=began, user=user, system=system)
