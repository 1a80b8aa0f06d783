"""Labs as other code uses them: bring up, open, change the delay, remove."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from leadline import errors
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.lab import cpu_groups, processes, up
from leadline.lab.conf import client_location
from leadline.lab.down import take_down
from leadline.lab.network import RoundTrip, ZoneNetwork
from leadline.lab.pools import metadata_pool, mounts_below
from leadline.lab.processes import LabProcess
from leadline.lab.state import (
    STATE,
    LabState,
    Phase,
    ProcessRecord,
    access_of,
    is_remnant,
    lab_folder,
    read_state,
    require_state,
    write_state,
)
from leadline.lab.up import raise_lab
from leadline.plan.lab import LabDescription, LabPool, Topology


class Condition(StrEnum):
    """`half up`: `lab up` was killed; `half down`: `lab down` was killed; `broken`: processes of a
    lab that was up have died; `orphan`: processes without a state file."""

    UP = "up"
    COMING_UP = "coming up"
    HALF_UP = "half up"
    HALF_DOWN = "half down"
    BROKEN = "broken"
    ORPHAN = "orphan"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabStatus:
    """A lab as found. `dead` are the processes that it lacks."""

    name: str
    folder: Path
    condition: Condition
    state: LabState | None
    running: tuple[LabProcess, ...]
    dead: tuple[str, ...]
    mounts: tuple[Path, ...]


def survey(labs: Path) -> list[LabStatus]:
    """Return all labs of a folder by name, also those with only processes left."""
    found = processes.find()
    folders = {process.folder for process in found if process.folder.parent == labs}
    if labs.is_dir():
        folders |= {
            entry for entry in labs.iterdir() if (entry / STATE).is_file() or is_remnant(entry)
        }
    return [probe_lab(folder, found) for folder in sorted(folders)]


def probe_lab(folder: Path, found: list[LabProcess] | None = None) -> LabStatus:
    if found is None:
        found = processes.find(folder)
    state = None
    try:
        state = read_state(folder)
        condition = _condition(folder, state)
    except LeadlineError:
        condition = Condition.DAMAGED
    running = [process for process in found if process.folder == folder]
    if state is not None:
        running = [process for process in running if process.token == state.token]
    return LabStatus(
        name=folder.name,
        folder=folder,
        condition=condition,
        state=state,
        running=tuple(running),
        dead=dead_processes(state) if state is not None else (),
        mounts=tuple(point for point, _ in mounts_below(folder)),
    )


def dead_processes(state: LabState) -> tuple[str, ...]:
    """Return the names of the processes that the lab lacks."""
    dead = [process.name for process in state.processes if not is_alive(process)]
    if state.network is not None and not state.network.alive():
        dead.append("network")
    return tuple(dead)


def is_alive(record: ProcessRecord) -> bool:
    return processes.start_ticks(record.pid) == record.start_ticks


def _condition(folder: Path, state: LabState | None) -> Condition:
    if state is None:
        return Condition.HALF_UP if is_remnant(folder) else Condition.ORPHAN
    if state.phase is Phase.GOING_DOWN:
        return Condition.HALF_DOWN
    if state.phase is Phase.COMING_UP:
        return Condition.COMING_UP if is_alive(state.owner) else Condition.HALF_UP
    return Condition.BROKEN if dead_processes(state) else Condition.UP


Observe = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A lab that is up, with its folder and its state."""

    folder: Path
    state: LabState

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def description(self) -> LabDescription:
        return self.state.description

    @property
    def access(self) -> CephAccess:
        """The access to the cluster from the zone of the clients."""
        return access_of(self.folder, self.state)

    @property
    def network(self) -> ZoneNetwork | None:
        """None on the loopback device without delay; `network_note` states why."""
        return self.state.network

    @property
    def network_note(self) -> str:
        return self.state.network_note

    @property
    def cephfs(self) -> Path | None:
        """The mount of the file system, with `cephfs-rep3` and `cephfs-rep2`."""
        return self.state.cephfs

    @property
    def cephfs_note(self) -> str:
        return self.state.cephfs_note

    def metadata_pool(self, pool: str) -> str | None:
        """Return the pool for the metadata of `pool`; None if it is the same."""
        return metadata_pool(LabPool(pool)) if pool in {*LabPool} else None

    @property
    def client_location(self) -> str:
        """`crush_location` of the client, for `rbd_read_from_replica_policy=localize`."""
        return client_location(self.description)

    @property
    def round_trips(self) -> tuple[RoundTrip, ...]:
        """The last measured round trips between all pairs of zones (racks)."""
        return self.state.round_trips

    @property
    def cpu_groups(self) -> Mapping[str, Path]:
        """The control group that limits the CPU of each OSD host; empty without a limit."""
        return self.state.cpu_groups

    def set_inter_zone_rtt(self, rtt_s: float) -> Lab:
        """Set the round-trip time between the zones, measure and record it; return the lab. Raises
        LeadlineError: `lab-not-ready` without a network or with one zone, `lab-failed` where the
        delay has no effect."""
        network = self.network
        if network is None:
            raise LeadlineError(
                errors.LAB_NOT_READY,
                f"the lab {self.name!r} has no network, so no delay can be set",
                context=[self.network_note],
            )
        if rtt_s and self.description.topology is not Topology.MULTI_ZONE:
            raise LeadlineError(
                errors.LAB_NOT_READY,
                f"the lab {self.name!r} has a single zone, so there is no delay between zones",
                hint="bring up a multi-zone lab",
            )
        up.set_rtt(network, rtt_s)
        round_trips = up.measure_round_trips(network)
        up.require_delay(round_trips, rtt_s)
        description = self.description.model_copy(update={"inter_zone_rtt_s": rtt_s})
        update = {"round_trips": round_trips, "description": description}
        state = self.state.model_copy(update=update)
        write_state(self.folder, state)
        return dataclasses.replace(self, state=state)

    def down(self) -> None:
        """End and remove the lab. Idempotent. Raises LeadlineError(`left-behind`)."""
        take_down(self.folder, self.state.token)


def bring_up(
    name: str, description: LabDescription, labs: Path, observe: Observe, *, keep: bool = False
) -> Lab:
    """Create a lab in the folder `labs` and measure it; `observe` gets the progress. After any
    failure, also Ctrl-C, everything is removed; with `keep`, a failed lab stays.

    Raises LeadlineError: `lab-exists`, `lab-not-ready`, `lab-failed`, `lab-invalid`."""
    folder = lab_folder(name, labs)
    return Lab(folder=folder, state=raise_lab(name, description, folder, observe, keep=keep))


def open_lab(name: str, labs: Path) -> Lab:
    """Open a lab that is up. Raises LeadlineError: `lab-not-found`, `lab-not-ready` (also for a
    dead process, or one outside of its host's CPU limit)."""
    folder = lab_folder(name, labs)
    state = require_state(name, labs)
    dead = dead_processes(state)
    if dead:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"processes of the lab {name!r} have died: {', '.join(dead)}",
            context=[f"logs: {folder / 'log'}"],
            hint="`leadline clean` starts again what a killed drill stopped; else "
            f"`leadline lab down {name}`, then bring it up again",
        )
    if unlimited := _unlimited(state):
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"CPU limits of the lab {name!r} are lost: {', '.join(unlimited)} outside of the "
            "control groups",
            context=[str(cpu_group) for cpu_group in state.cpu_groups.values()],
            hint=f"`leadline lab down {name}`, then bring it up again",
        )
    return Lab(folder=folder, state=state)


def _unlimited(state: LabState) -> list[str]:
    """Return the OSDs outside of the CPU groups, or in a group that lost its quota."""
    if not state.cpu_groups:
        return []
    limited = set[int]()
    for folder in state.cpu_groups.values():
        if cpu_groups.read_quota(folder) is not None:
            limited |= cpu_groups.read_members(folder)
    return [name for name, pid in state.osd_pids.items() if pid not in limited]
