"""What is known of a lab from outside: one file in its folder, there before anything else is."""

from __future__ import annotations

import difflib
import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline import errors
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.lab.conf import CLIENT, CONF, SOCKET_PATH_BYTES, Paths, sites
from leadline.lab.network import ZoneNetwork
from leadline.plan.lab import LabDescription

STATE = "leadline-lab.json"
# Where stores in memory are; the token in their name leads back to the lab.
MEMORY = Path("/dev/shm")


class Phase(StrEnum):
    """How far `lab up` or `lab down` got."""

    COMING_UP = "coming up"
    UP = "up"
    GOING_DOWN = "going down"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProcessRecord(_Model):
    """A process of a lab. `start_ticks` (field 22 of /proc/PID/stat) tells it from another that
    has come by its pid."""

    name: str
    pid: int
    start_ticks: int


class RoundTripRecord(_Model):
    """What ping saw between two zones; seconds. `raw` is all that it said."""

    source: str
    destination: str
    sent: int
    received: int
    min_s: float
    median_s: float
    max_s: float
    raw: str


class Step(_Model):
    """A step of coming up, and when it was done, in seconds from the beginning."""

    name: str
    done_s: float


class LabState(_Model):
    """`token` is in the environment of each process of the lab. `owner` is who brings it up.
    Without a network, `network_note` says why; likewise the mount of CephFS. `cpu_groups` are the
    control groups that bound the processor of each OSD host, by its name."""

    version: Literal[1] = 1
    name: str
    token: str
    phase: Phase
    created_at: str
    owner: ProcessRecord
    description: LabDescription
    network: ZoneNetwork | None = None
    network_note: str = ""
    cephfs: Path | None = None
    cephfs_note: str = ""
    cpu_groups: dict[str, Path] = Field(default_factory=dict)
    processes: tuple[ProcessRecord, ...] = ()
    round_trips: tuple[RoundTripRecord, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def osd_pids(self) -> dict[str, int]:
        """The OSD daemons of a lab that is up, `osd.0` and so on."""
        return {
            process.name: process.pid
            for process in self.processes
            if process.name.startswith("osd.")
        }


def paths_of(folder: Path, token: str) -> Paths:
    return Paths(folder=folder, memory=MEMORY / f"leadline-lab-{token}")


def write_state(folder: Path, state: LabState) -> None:
    """Durable before it returns: beside, fsync, rename."""
    path = folder / STATE
    beside = folder / f".{STATE}.new"
    with beside.open("wb") as stream:
        stream.write(state.model_dump_json(indent=2).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_state(folder: Path) -> LabState | None:
    """None where the folder is no lab's. Raises LeadlineError(`lab-not-ready`) for a file that is
    not what `write_state` wrote."""
    try:
        content = (folder / STATE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LeadlineError(
            errors.LAB_NOT_READY, f"{folder / STATE} cannot be read: {error.strerror}"
        ) from error
    try:
        return LabState.model_validate_json(content)
    except ValidationError as error:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"{folder / STATE} is damaged, or of another version of Leadline",
            context=[f"{error.error_count()} faults"],
            hint=f"`leadline lab down {folder.name}` removes the lab all the same",
        ) from error


def is_remnant(folder: Path) -> bool:
    """Whether nothing is in a folder but what a `lab up` killed at its first breath leaves."""
    try:
        return {entry.name for entry in folder.iterdir()} <= {f".{STATE}.new"}
    except OSError:
        return False


# Labs by name: where they lie, and the way to the cluster of one.

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
# Below a lab's folder, with two digits of an OSD.
_LONGEST_SOCKET = len("/run/osd.47.asok")


def labs_folder(given: Path | None) -> Path:
    """`given`, else $LEADLINE_LABS, else leadline/labs where the XDG specification puts state."""
    named = given or os.environ.get("LEADLINE_LABS")
    if named:
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if Path(state).is_absolute() else Path("~/.local/state").expanduser()
    return base / "leadline" / "labs"


def lab_folder(name: str, labs: Path) -> Path:
    """The folder of a lab, whether it is there or not. Raises LeadlineError(`lab-invalid`) for a
    name that is none, or a path that is too long for sockets or not to be written in ceph.conf."""
    if not _NAME.fullmatch(name):
        raise LeadlineError(
            errors.LAB_INVALID,
            f"{name!r} cannot be the name of a lab",
            hint="a name has letters, digits, `-`, `_` and `.`, at most 40, and no other first "
            "than a letter or a digit",
        )
    folder = labs.absolute() / name
    excess = len(os.fsencode(folder)) + _LONGEST_SOCKET - SOCKET_PATH_BYTES
    if excess > 0:
        raise LeadlineError(
            errors.LAB_INVALID,
            f"the folder of the lab is {excess} bytes too long for the sockets in it",
            context=[str(folder), f"a socket's path has {SOCKET_PATH_BYTES} bytes at most"],
            hint="name a shorter folder with --labs or LEADLINE_LABS",
        )
    if re.search(r"[\s#;\"'\\$=,]", str(folder)):
        raise LeadlineError(
            errors.LAB_INVALID,
            f"the folder {str(folder)!r} has characters that a ceph.conf cannot hold",
            hint="name a folder without blanks, quotes, `#`, `;`, `$`, `=`, `,` by --labs",
        )
    return folder


def require_state(name: str, labs: Path) -> LabState:
    """What is known of a lab. Raises LeadlineError: `lab-not-found`, with the nearest name;
    `lab-not-ready` for one that is not up."""
    folder = lab_folder(name, labs)
    state = read_state(folder)
    if state is None:
        raise not_found(name, labs)
    if state.phase is not Phase.UP:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the lab {name!r} is not up: it is {state.phase.value}, or was when it was left",
            context=[str(folder)],
            hint=f"`leadline lab status {name}`; `leadline lab down {name}` removes what there is",
        )
    return state


def not_found(name: str, labs: Path) -> LeadlineError:
    try:
        known = sorted(entry.parent.name for entry in labs.glob(f"*/{STATE}"))
    except OSError:
        known = []
    near = difflib.get_close_matches(name, known, n=1)
    return LeadlineError(
        errors.LAB_NOT_FOUND,
        f"there is no lab {name!r}",
        context=[f"labs in {labs}: {', '.join(known) or 'none'}"],
        hint=f"did you mean {near[0]!r}?" if near else f"`leadline lab up {name}` makes one",
    )


def access_of(folder: Path, state: LabState) -> CephAccess:
    """The way to a lab's cluster, from the zone of its clients."""
    namespace = None
    if state.network is not None:
        namespace = state.network.zone(sites(state.description)[0]).namespace
    keyring = folder / "keyrings" / CLIENT if state.description.authentication else None
    return CephAccess(conf=folder / CONF, keyring=keyring, namespace=namespace)


def lab_access(name: str, labs: Path | None = None) -> CephAccess:
    """The way to the cluster of a lab by name; nothing is contacted. Raises LeadlineError:
    `lab-not-found`, `lab-not-ready`."""
    where = labs_folder(labs)
    return access_of(lab_folder(name, where), require_state(name, where))
