"""The state file of a lab: the first file in its folder."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline import errors
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.files import read_content
from leadline.lab import processes
from leadline.lab.conf import CLIENT, CONF, SOCKET_PATH_BYTES, Paths, sites
from leadline.lab.network import RoundTrip, ZoneNetwork, write_durably
from leadline.plan.lab import LabDescription
from leadline.text import did_you_mean

STATE = "leadline-lab.json"
# Stores in memory; the token in their name identifies the lab.
MEMORY = Path("/dev/shm")


class Phase(StrEnum):
    COMING_UP = "coming up"
    UP = "up"
    GOING_DOWN = "going down"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProcessRecord(_Model):
    """A process of a lab. `start_ticks` (field 22 of /proc/PID/stat) distinguishes it from a later
    process with its pid."""

    name: str
    pid: int
    start_ticks: int


class Step(_Model):
    """A step of `lab up`, and its end in seconds from the start."""

    name: str
    done_s: float


class LabState(_Model):
    """The state of a lab. `token` is in the environment of each of its processes; `owner` is the
    process that brings it up. `network_note` and `cephfs_note` state why there is no network or no
    mount. `cpu_groups` are the control groups that limit the CPU of each OSD host."""

    version: Literal[1] = 1
    name: str
    token: str = Field(pattern=f"^{processes.TOKEN}$")
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
    round_trips: tuple[RoundTrip, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def osd_pids(self) -> dict[str, int]:
        """The pids of the OSD daemons by name (`osd.0`)."""
        return {
            process.name: process.pid
            for process in self.processes
            if process.name.startswith("osd.")
        }


def paths_of(folder: Path, token: str) -> Paths:
    return Paths(folder=folder, memory=MEMORY / f"leadline-lab-{token}")


def write_state(folder: Path, state: LabState) -> None:
    write_durably(folder / STATE, state.model_dump_json(indent=2) + "\n")


def read_state(folder: Path) -> LabState | None:
    """Read the state; None where the folder has none. Raises LeadlineError(`lab-not-ready`) for an
    invalid file, and for the folder of another user, who could name any process and path in it."""
    try:
        if folder.lstat().st_uid != os.geteuid():
            raise LeadlineError(
                errors.LAB_NOT_READY,
                f"the folder {folder} belongs to another user",
                hint="use the lab as that user, or another folder with --labs",
            )
        content = read_content(folder / STATE)
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
            hint=f"`leadline lab down {folder.name}` removes the lab",
        ) from error


def is_remnant(folder: Path) -> bool:
    """Return whether a folder holds only the remains of a `lab up` that was killed at its start."""
    try:
        return {entry.name for entry in folder.iterdir()} <= {f".{STATE}.new"}
    except OSError:
        return False


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
# Below a lab's folder, with a two-digit OSD.
_LONGEST_SOCKET = len("/run/osd.47.asok")


def labs_folder(given: Path | None) -> Path:
    """Return `given`, else $LEADLINE_LABS, else leadline/labs in the state folder of XDG."""
    named = given or os.environ.get("LEADLINE_LABS")
    if named:
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if Path(state).is_absolute() else Path("~/.local/state").expanduser()
    return base / "leadline" / "labs"


def lab_folder(name: str, labs: Path) -> Path:
    """Return the folder of a lab, which may not exist. Raises LeadlineError(`lab-invalid`) for an
    invalid name, or a path that is too long for sockets or impossible in ceph.conf."""
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
    """Return the state of a lab that is up. Raises LeadlineError: `lab-not-found` with the nearest
    name, `lab-not-ready`."""
    folder = lab_folder(name, labs)
    state = read_state(folder)
    if state is None:
        raise not_found(name, labs)
    if state.phase is not Phase.UP:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the lab {name!r} is not up: its last phase is {state.phase.value!r}",
            context=[str(folder)],
            hint=f"`leadline lab status {name}`; `leadline lab down {name}` removes its remains",
        )
    return state


def not_found(name: str, labs: Path) -> LeadlineError:
    """Return the error for an unknown lab, with the nearest name."""
    try:
        known = sorted(entry.parent.name for entry in labs.glob(f"*/{STATE}"))
    except OSError:
        known = []
    return LeadlineError(
        errors.LAB_NOT_FOUND,
        f"there is no lab {name!r}",
        context=[f"labs in {labs}: {', '.join(known) or 'none'}"],
        hint=did_you_mean(name, known, f"`leadline lab up {name}` creates one"),
    )


def access_of(folder: Path, state: LabState) -> CephAccess:
    """Return the access to a lab's cluster from the zone of its clients."""
    namespace = None
    if state.network is not None:
        namespace = state.network.zone(sites(state.description)[0]).namespace
    keyring = folder / "keyrings" / CLIENT if state.description.authentication else None
    return CephAccess(conf=folder / CONF, keyring=keyring, namespace=namespace)


def lab_access(name: str, labs: Path | None = None) -> CephAccess:
    """Return the access to a named lab's cluster without contacting it. Raises LeadlineError:
    `lab-not-found`, `lab-not-ready`."""
    where = labs_folder(labs)
    return access_of(lab_folder(name, where), require_state(name, where))
