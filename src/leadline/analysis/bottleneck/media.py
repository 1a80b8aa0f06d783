"""The media: disks as the kernel sees them, and the time that OSDs wait for theirs."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.analysis.bottleneck.model import (
    Bottleneck,
    LevelEvidence,
    Strength,
    Suspect,
    suspect,
)
from leadline.formats.ceph_counters import OsdRates
from leadline.formats.host_rates import DiskRates, MachineRates
from leadline.units import format_latency
from leadline.visible import visible

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
    found = _busiest(level)
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


def _busiest(level: LevelEvidence) -> tuple[MachineRates, str, DiskRates] | None:
    machines = level.storage or (level.clients if level.devices else ())
    found = [
        (machine, name, disk)
        for machine in machines
        for name, disk in machine.disks.items()
        if not level.devices or name in level.devices
    ]
    return max(found, key=lambda one: one[2].utilisation, default=None)
