"""Labs as other code uses them: brought up, opened, given another delay, taken down."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from leadline import errors
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.lab import processes, up
from leadline.lab.conf import client_location
from leadline.lab.down import take_down
from leadline.lab.network import ZoneNetwork
from leadline.lab.pools import metadata_pool, mounts_below, pool_names
from leadline.lab.processes import Found
from leadline.lab.state import (
    STATE,
    LabState,
    Phase,
    ProcessRecord,
    RoundTripRecord,
    access_of,
    is_remnant,
    lab_folder,
    read_state,
    require_state,
    write_state,
)
from leadline.lab.up import raise_lab
from leadline.plan.lab import LabDescription, LabPool, Topology

# Which labs there are and how they are, whatever became of those who made them.


class Condition(StrEnum):
    """`half up`: whoever brought it up was killed; `half down`: whoever took it down; `broken`: it
    was up and processes have died; `orphan`: processes whose lab's folder says nothing of them."""

    UP = "up"
    COMING_UP = "coming up"
    HALF_UP = "half up"
    HALF_DOWN = "half down"
    BROKEN = "broken"
    ORPHAN = "orphan"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """A lab as found. `dead` are processes that it should have and has not."""

    name: str
    folder: Path
    condition: Condition
    state: LabState | None
    running: tuple[Found, ...]
    dead: tuple[str, ...]
    mounts: tuple[Path, ...]


def survey(labs: Path) -> list[Surveyed]:
    """All labs of a folder by name, those of which only processes are left too."""
    found = processes.find()
    folders = {item.folder for item in found if item.folder.parent == labs}
    if labs.is_dir():
        folders |= {
            entry for entry in labs.iterdir() if (entry / STATE).is_file() or _remnant(entry)
        }
    return [look(folder, found) for folder in sorted(folders)]


def look(folder: Path, found: list[Found] | None = None) -> Surveyed:
    """One lab."""
    if found is None:
        found = processes.find(folder)
    state, damaged = None, False
    try:
        state = read_state(folder)
    except LeadlineError:
        damaged = True
    running = [item for item in found if item.folder == folder]
    if state is not None:
        running = [item for item in running if item.token == state.token]
    dead = dead_processes(state) if state is not None else ()
    return Surveyed(
        name=folder.name,
        folder=folder,
        condition=_condition(folder, state, damaged, dead),
        state=state,
        running=tuple(running),
        dead=dead,
        mounts=tuple(point for point, _ in mounts_below(folder)),
    )


def dead_processes(state: LabState) -> tuple[str, ...]:
    """Processes that the lab should have and has not."""
    dead = [process.name for process in state.processes if not is_alive(process)]
    if state.network is not None and not state.network.alive():
        dead.append("network")
    return tuple(dead)


def is_alive(record: ProcessRecord) -> bool:
    return processes.start_ticks(record.pid) == record.start_ticks


def _condition(
    folder: Path, state: LabState | None, damaged: bool, dead: tuple[str, ...]
) -> Condition:
    if damaged:
        return Condition.DAMAGED
    if state is None:
        return Condition.HALF_UP if _remnant(folder) else Condition.ORPHAN
    if state.phase is Phase.GOING_DOWN:
        return Condition.HALF_DOWN
    if state.phase is Phase.COMING_UP:
        return Condition.COMING_UP if is_alive(state.owner) else Condition.HALF_UP
    return Condition.BROKEN if dead else Condition.UP


def _remnant(folder: Path) -> bool:
    return folder.is_dir() and is_remnant(folder)


Observe = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A lab that is up. `folder` is its own; `state` is what its file says."""

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
        """From the zone of the clients."""
        return access_of(self.folder, self.state)

    @property
    def network(self) -> ZoneNetwork | None:
        """None where all is on the loopback device, without delay; `network_note` says why."""
        return self.state.network

    @property
    def network_note(self) -> str:
        return self.state.network_note

    @property
    def cephfs(self) -> Path | None:
        """Where the file system is mounted; in it are `cephfs-rep3` and `cephfs-rep2`."""
        return self.state.cephfs

    @property
    def cephfs_note(self) -> str:
        """Why it is not mounted."""
        return self.state.cephfs_note

    @property
    def pools(self) -> tuple[str, ...]:
        """All pools, the metadata pool of CephFS too."""
        return pool_names(self.description)

    def metadata_pool(self, pool: str) -> str | None:
        """The pool for the metadata of what is kept in `pool`; None if it is the same."""
        known = {item.value: item for item in LabPool}
        return metadata_pool(known[pool]) if pool in known else None

    @property
    def client_location(self) -> str:
        """`crush_location` of the client, for `rbd_read_from_replica_policy=localize`."""
        return client_location(self.description)

    @property
    def round_trips(self) -> tuple[RoundTripRecord, ...]:
        """Between all pairs of zones (racks), as last measured."""
        return self.state.round_trips

    @property
    def cpu_groups(self) -> Mapping[str, Path]:
        """The control group that bounds the processor of each OSD host; empty without a bound."""
        return self.state.cpu_groups

    @property
    def osd_pids(self) -> Mapping[str, int]:
        """The OSD daemons by name (`osd.0`)."""
        return self.state.osd_pids

    def set_inter_zone_rtt(self, rtt_s: float) -> Lab:
        """The lab with another round-trip time between its zones, measured and written down.

        Raises LeadlineError: `lab-not-ready` where there is no network or only one zone,
        `lab-failed` where the delay does not come into force."""
        network = self.network
        if network is None:
            raise LeadlineError(
                errors.LAB_NOT_READY,
                f"the lab {self.name!r} has no network of its own, so no delay can be set",
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
        up.require_obeyed(round_trips, rtt_s)
        description = self.description.model_copy(update={"inter_zone_rtt_s": rtt_s})
        update = {"round_trips": round_trips, "description": description}
        state = self.state.model_copy(update=update)
        write_state(self.folder, state)
        return dataclasses.replace(self, state=state)

    def down(self) -> None:
        """End and remove all of it. May be called twice. Raises LeadlineError(`left-behind`)."""
        take_down(self.folder, self.state.token)


def bring_up(
    name: str, description: LabDescription, labs: Path, observe: Observe, *, keep: bool = False
) -> Lab:
    """A new lab in the folder `labs`, clean and measured; `observe` is told what is waited for.
    Whatever goes wrong, Ctrl-C included, nothing of it stays; with `keep`, a lab that failed does.

    Raises LeadlineError: `lab-exists`, `lab-not-ready`, `lab-failed`, `lab-invalid`."""
    folder = lab_folder(name, labs)
    return Lab(folder=folder, state=raise_lab(name, description, folder, observe, keep=keep))


def open_lab(name: str, labs: Path) -> Lab:
    """A lab that is up. Raises LeadlineError: `lab-not-found`, `lab-not-ready` (also where one of
    its processes has died, or runs outside of the bounds of its host)."""
    folder = lab_folder(name, labs)
    state = require_state(name, labs)
    dead = dead_processes(state)
    if dead:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"processes of the lab {name!r} have died: {', '.join(dead)}",
            context=[f"logs: {folder / 'log'}"],
            hint=f"`leadline lab down {name}`, then bring it up again",
        )
    if unbounded := _unbounded(state):
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the processor of the lab {name!r} is not bounded as it was: {', '.join(unbounded)} "
            "outside of the control groups",
            context=[str(cpu_group) for cpu_group in state.cpu_groups.values()],
            hint=f"`leadline lab down {name}`, then bring it up again",
        )
    return Lab(folder=folder, state=state)


def _unbounded(state: LabState) -> list[str]:
    """OSDs of a lab with bounds that are in none of its groups, or whose group lost its quota."""
    if not state.cpu_groups:
        return []
    bounded = set[int]()
    for folder in state.cpu_groups.values():
        if processes.quota_of(folder) is not None:
            bounded |= processes.members(folder)
    return [name for name, pid in state.osd_pids.items() if pid not in bounded]
