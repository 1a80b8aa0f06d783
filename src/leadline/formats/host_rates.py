"""Rates of machines between two samples of their counters, over a trial or per second.

A counter that decreases (after a reboot or the replacement of a device) has no rate: it is left out
or None, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from leadline.formats.watch_records import (
    CpuTicks,
    DiskCounters,
    GroupCounters,
    HostSample,
    InterfaceCounters,
    MissedHostSample,
    ProcessTicks,
    Role,
)

# The resolution of the clocks.
_LEAST_S = 1e-3
# Ticks are 10 ms: over less than some tens of them shares are chance.
_LEAST_STEP_S = 0.25
# The kernel counts milliseconds of disks in 32 bits, which a busy disk fills in weeks.
_MS_WRAP = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRates:
    """Shares of all cores, 0 to 1. Time stolen by the hypervisor counts as busy: the cores could
    not be had."""

    busy_share: float
    user_share: float
    system_share: float
    iowait_share: float
    steal_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRates:
    """`utilisation` is the share of time with at least one I/O under way, which a device that
    serves several at once can have at 1 and still do more; `in_flight` how many were on average
    (Little's law: the times of all I/Os over the time). Latencies are means; None without I/O."""

    read_iops: float
    write_iops: float
    read_bps: float
    write_bps: float
    utilisation: float
    in_flight: float
    read_latency_s: float | None
    write_latency_s: float | None

    @property
    def iops(self) -> float:
        return self.read_iops + self.write_iops

    @property
    def latency_s(self) -> float | None:
        """Mean of reads and writes together."""
        if not self.iops:
            return None
        spent = self.read_iops * (self.read_latency_s or 0.0)
        spent += self.write_iops * (self.write_latency_s or 0.0)
        return spent / self.iops


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceRates:
    """Bytes per second; `link_bps` is what the link can carry each way, None where unknown."""

    received_bps: float
    sent_bps: float
    link_bps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRates:
    """`throttled_share` is the share of the periods in which the group ran that ended with its
    quota used up; `held_back_s_per_s` the time for which it was held back per second, of all its
    processors added up. None where the kernel does not report it, or it never ran."""

    throttled_share: float | None
    held_back_s_per_s: float | None
    cores_used: float | None
    quota_cores: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRates:
    """One machine from `begin_s` to `end_s` after the watch began. Devices and interfaces that did
    nothing are left out. `processes` is what each used in cores: 1.0 is one core. `resident_bytes`
    is their memory at the end, of those whose memory is known. `lost` are processes without a rate:
    they ended, restarted or could not be read."""

    machine: str
    roles: frozenset[Role]
    begin_s: float
    end_s: float
    cores: int
    cpu: CpuRates | None
    disks: Mapping[str, DiskRates]
    interfaces: Mapping[str, InterfaceRates]
    groups: Mapping[str, GroupRates]
    processes: Mapping[str, float]
    resident_bytes: Mapping[str, float] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


Samples = Iterable[HostSample | MissedHostSample]


def by_machine(samples: Samples) -> Mapping[str, Sequence[HostSample]]:
    """The samples that there are, by machine, in order."""
    found: dict[str, list[HostSample]] = {}
    for sample in samples:
        if isinstance(sample, HostSample):
            found.setdefault(sample.machine, []).append(sample)
    return found


def machine_rates(
    samples: Samples, begin_s: float = 0.0, end_s: float | None = None
) -> tuple[MachineRates, ...]:
    """Over the stretch from `begin_s` to `end_s` after the watch began (None: to its end), one for
    each machine with two samples. Where fewer lie in the stretch, all of a machine's are taken."""
    found = []
    for series in by_machine(samples).values():
        inside = [
            sample
            for sample in series
            if sample.elapsed_s >= begin_s and (end_s is None or sample.elapsed_s <= end_s)
        ]
        chosen = inside if len(inside) > 1 else series
        if len(chosen) < 2:
            continue
        rates = rates_between(chosen[0], chosen[-1])
        if rates is not None:
            found.append(rates)
    return tuple(found)


def rate_series(samples: Samples) -> Mapping[str, tuple[MachineRates, ...]]:
    """By machine, from each sample to the next that is a quarter of a second later or more."""
    found = {}
    for machine, series in by_machine(samples).items():
        apart = series[:1]
        for sample in series[1:]:
            if sample.clock_s - apart[-1].clock_s >= _LEAST_STEP_S:
                apart = [*apart, sample]
        steps = (rates_between(first, last) for first, last in pairwise(apart))
        found[machine] = tuple(rates for rates in steps if rates is not None)
    return found


def rates_between(first: HostSample, last: HostSample) -> MachineRates | None:
    """Of one machine; None where its clock did not go forward."""
    seconds = last.clock_s - first.clock_s
    if seconds < _LEAST_S:
        return None
    links = last.links_bps
    processes = {
        name: used
        for name, process in last.processes.items()
        if name in first.processes
        and (used := _process(first.processes[name], process, seconds * last.hz)) is not None
    }
    return MachineRates(
        machine=last.machine,
        roles=last.roles,
        begin_s=first.elapsed_s,
        end_s=last.elapsed_s,
        cores=last.cores,
        cpu=_cpu(first.cpu, last.cpu) if first.cpu and last.cpu else None,
        disks={
            name: disk
            for name, counters in last.disks.items()
            if name in first.disks and (disk := _disk(first.disks[name], counters, seconds))
        },
        interfaces={
            name: interface
            for name, counters in last.interfaces.items()
            if name in first.interfaces
            and (
                interface := _interface(first.interfaces[name], counters, seconds, links.get(name))
            )
        },
        groups={
            name: _group(first.groups[name], group, seconds)
            for name, group in last.groups.items()
            if name in first.groups
        },
        processes=processes,
        resident_bytes={
            name: last.processes[name].resident_bytes or 0
            for name in processes
            if last.processes[name].resident_bytes is not None
        },
        lost=frozenset((first.processes.keys() | last.processes.keys()) - processes.keys()),
    )


def _cpu(first: CpuTicks, last: CpuTicks) -> CpuRates | None:
    span = last.total - first.total
    # The kernel's count of the wait for I/O is known to go back by a little.
    if span <= 0:
        return None

    def share(ticks: int) -> float:
        return min(1.0, max(0.0, ticks / span))

    return CpuRates(
        busy_share=1 - share(last.idle - first.idle),
        user_share=share(last.user - first.user),
        system_share=share(last.system - first.system),
        iowait_share=share(last.iowait - first.iowait),
        steal_share=share(last.steal - first.steal),
    )


def _disk(first: DiskCounters, last: DiskCounters, seconds: float) -> DiskRates | None:
    reads, writes = last.reads - first.reads, last.writes - first.writes
    read_bytes, write_bytes = (
        last.read_bytes - first.read_bytes,
        last.write_bytes - first.write_bytes,
    )
    busy_ms = _ms(first.busy_ms, last.busy_ms)
    if min(reads, writes, read_bytes, write_bytes) < 0 or not (reads or writes or busy_ms):
        return None
    ms = seconds * 1e3
    return DiskRates(
        read_iops=reads / seconds,
        write_iops=writes / seconds,
        read_bps=read_bytes / seconds,
        write_bps=write_bytes / seconds,
        utilisation=min(1.0, busy_ms / ms),
        in_flight=_ms(first.queue_ms, last.queue_ms) / ms,
        read_latency_s=_ms(first.read_ms, last.read_ms) / 1e3 / reads if reads else None,
        write_latency_s=_ms(first.write_ms, last.write_ms) / 1e3 / writes if writes else None,
    )


def _ms(first: int, last: int) -> int:
    return last - first if last >= first else max(0, last - first + _MS_WRAP)


def _interface(
    first: InterfaceCounters, last: InterfaceCounters, seconds: float, link_bps: float | None
) -> InterfaceRates | None:
    received = last.received_bytes - first.received_bytes
    sent = last.sent_bytes - first.sent_bytes
    if received < 0 or sent < 0 or not (received or sent):
        return None
    return InterfaceRates(
        received_bps=received / seconds, sent_bps=sent / seconds, link_bps=link_bps
    )


def _group(first: GroupCounters, last: GroupCounters, seconds: float) -> GroupRates:
    periods = _grown(first.periods, last.periods)
    throttled = _grown(first.throttled, last.throttled)
    held_us = _grown(first.throttled_us, last.throttled_us)
    used_us = _grown(first.usage_us, last.usage_us)
    return GroupRates(
        throttled_share=throttled / periods if periods and throttled is not None else None,
        held_back_s_per_s=held_us / 1e6 / seconds if held_us is not None else None,
        cores_used=used_us / 1e6 / seconds if used_us is not None else None,
        quota_cores=last.quota_cores,
    )


def _grown(first: int | None, last: int | None) -> int | None:
    return last - first if first is not None and last is not None and last >= first else None


def _process(first: ProcessTicks, last: ProcessTicks, ticks: float) -> float | None:
    if (first.pid, first.began) != (last.pid, last.began):
        return None
    return max(0, last.user + last.system - first.user - first.system) / ticks
