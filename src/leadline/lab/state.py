"""What is known of a lab from outside: one file in its folder, there before anything else is."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab.conf import Paths
from leadline.lab.network import ZoneNetwork
from leadline.plan.lab_description import LabDescription

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
        return {one.name: one.pid for one in self.processes if one.name.startswith("osd.")}


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
