"""What a trial used of the storage and of the load generator, for the costs of an I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from leadline.archive.trial import StoredTrial
from leadline.formats.host_rates import MachineRates, by_machine, machine_rates
from leadline.formats.kubelet import kubelet_rates
from leadline.formats.prometheus import storage_rates
from leadline.formats.result import FormatError
from leadline.formats.watch_records import MissedHostSample, Role
from leadline.metrics import Metric
from leadline.plan.workload import Workload

# Engines take about so long from their start to the first I/O (docs/internals/performance.md).
STARTING_S = 0.5
# Devices on top of other devices, and devices in memory: their I/O would count twice.
_STACKED = re.compile(r"(loop|ram|zram|dm-|md|zd|rbd|nbd|drbd|bcache|sr|fd)\d")
# Interfaces on top of other interfaces, and those of one machine with itself.
_VIRTUAL = re.compile(
    r"lo$|(veth|docker|br-?|cni|cali|flannel|vxlan|genev|tun|tap|vnet|virbr|ovs|bond|team|lxc|"
    r"cilium|dummy|wg|kube|nodelocaldns)|.*[.@]"
)


def measured_machines(
    trial: StoredTrial, work: Workload
) -> tuple[tuple[MachineRates, ...], tuple[str, ...]]:
    """Return the rates of all sampled machines over the measured part of a trial, and the reasons
    of missing samples."""
    begin_s, end_s = STARTING_S, None
    if len(work.phases) == 1 and work.runtime_s:
        begin_s = work.ramp_s + STARTING_S
        end_s = begin_s + work.runtime_s
    try:
        samples = trial.resources
        storage, reasons = storage_rates(trial.prometheus)
        pods, of_pods = kubelet_rates(trial.kubelets)
    except FormatError as error:
        return (), (error.fact,)
    notes = [
        f"{sample.machine}: {what}"
        for sample in samples
        for what in ((sample.reason,) if isinstance(sample, MissedHostSample) else sample.unread)
    ]
    notes += [
        f"{machine}: a single sample in the trial"
        for machine, own in by_machine(samples).items()
        if len(own) == 1
    ]
    machines = (*machine_rates(samples, begin_s, end_s), *storage, *pods)
    return machines, (*notes, *reasons, *of_pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """Means over the measured part of a trial; None where no source measured it.

    `storage_cores` and `storage_memory_bytes` are those of the storage's daemons, `client_cores`
    those of the engine's processes. `disk_bps` is the I/O of the disks below a local target, or of
    all disks of the storage's own machines, `network_bps` what those machines sent and received.
    """

    storage_cores: float | None = None
    client_cores: float | None = None
    disk_bps: float | None = None
    network_bps: float | None = None
    storage_memory_bytes: float | None = None

    def costs(self, iops: float) -> Mapping[Metric, float]:
        """Compute the costs of an I/O at a rate; those that were not measured are left out."""
        per_io = {
            Metric.STORAGE_CPU: self.storage_cores,
            Metric.CLIENT_CPU: self.client_cores,
            Metric.DISK_BYTES: self.disk_bps,
            Metric.NETWORK_BYTES: self.network_bps,
        }
        found = {
            metric: used / iops for metric, used in per_io.items() if used is not None and iops > 0
        }
        if self.storage_memory_bytes is not None:
            found[Metric.STORAGE_MEMORY] = self.storage_memory_bytes
        return found


NOTHING: Final = ResourceUse()


def resource_use(trial: StoredTrial, work: Workload, devices: Set[str]) -> ResourceUse:
    """Compute the use of a completed trial. `devices` are the disks below a target on the load
    generator itself, empty elsewhere. A sum with a part missing is unknown."""
    if trial.imported or len(work.phases) > 1:
        return NOTHING
    machines, _ = measured_machines(trial, work)
    storage = [machine for machine in machines if Role.STORAGE in machine.roles]
    apart = [machine for machine in storage if Role.CLIENT not in machine.roles]
    daemons = [machine for machine in storage if machine.processes or machine.lost]
    complete = bool(daemons) and not any(machine.lost for machine in daemons)
    resident = [machine.resident_bytes for machine in daemons]
    known = all(machine.processes.keys() == machine.resident_bytes.keys() for machine in daemons)
    processor, asked_s = trial.record.processor, trial.record.asked_s
    return ResourceUse(
        storage_cores=sum(sum(machine.processes.values()) for machine in daemons)
        if complete
        else None,
        client_cores=processor.engine_cpu_s / asked_s if processor and asked_s else None,
        disk_bps=_disk_bps(machines, devices) if devices else _all_disks_bps(apart),
        network_bps=_network_bps(apart),
        storage_memory_bytes=sum(sum(own.values()) for own in resident)
        if complete and known
        else None,
    )


def _disk_bps(machines: Iterable[MachineRates], devices: Set[str]) -> float | None:
    here = [machine for machine in machines if Role.STORAGE in machine.roles]
    if len(here) != 1:
        return None
    found = (disk for name, disk in here[0].disks.items() if name in devices)
    return sum(disk.read_bps + disk.write_bps for disk in found)


def _all_disks_bps(machines: Iterable[MachineRates]) -> float | None:
    found = [
        disk
        for machine in machines
        for name, disk in machine.disks.items()
        if not _STACKED.match(name)
    ]
    return sum(disk.read_bps + disk.write_bps for disk in found) if found else None


def _network_bps(machines: Iterable[MachineRates]) -> float | None:
    found = [
        rates
        for machine in machines
        for name, rates in machine.interfaces.items()
        if not _VIRTUAL.match(name)
    ]
    return sum(rates.received_bps + rates.sent_bps for rates in found) if found else None
