"""What the runner needs of an engine and of a target. Adapters live in engines/ and targets/."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from leadline.archive.records import CacheDrop, Created, Problem, TrialStatus
from leadline.plan.footprint import Footprint
from leadline.plan.models import Plan, Workload
from leadline.runner.stop import StopRequest


class Shape(StrEnum):
    """How jobs share a target: a file each, or a stretch each of one device."""

    FILES = "files"
    SPAN = "span"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where an engine does its I/O: a folder of our own, or a device."""

    shape: Shape
    path: Path
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One execution for an engine: the job as text, where, and how long it may take."""

    text: str
    location: Location
    bound_s: float
    layout_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How an execution ended; its raw output lies in the folder that it was given."""

    status: TrialStatus
    command: tuple[str, ...]
    exit_status: int | None
    signals: tuple[str, ...] = ()
    engine_cpu_s: float = 0.0
    wall_s: float
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What an engine says while it runs."""

    iops: float


class Engine(Protocol):
    """Does I/O. Errors of the request are raised by `check` and `resolve`, before any I/O;
    what goes wrong in an execution is told in it."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def check(self, plan: Plan) -> None:
        """Raise if the engine is missing, too old, or lacks what the plan asks for."""

    def likely(self, workload: Workload) -> Workload:
        """The workload with `engine: auto` settled as it most likely will be, without a try."""

    def resolve(self, workload: Workload, location: Location) -> Workload:
        """The workload with `engine: auto` settled, after a small try on the location itself."""

    def job_text(self, workload: Workload, shape: Shape, seed: int) -> str: ...

    def prefill_text(self, footprint: Footprint, shape: Shape, direct: bool) -> str: ...

    def command(self, job: Job, folder: Path) -> tuple[str, ...]: ...

    def execute(
        self,
        job: Job,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        """Run to the end or to the bound; write raw output into `folder` only."""


class Target(Protocol):
    """Where I/O goes. `inspect` refuses before anything is touched; `acquire` makes what is
    needed; `release` undoes it, may be called twice, and never raises."""

    @property
    def name(self) -> str: ...

    @property
    def location(self) -> Location: ...

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        """Raise what speaks against using the target. `claimed_bytes` is what other targets of
        the plan will take from the same volume."""

    def volume(self) -> int | None:
        """Identity of the filesystem that gives the target its space; None for a device."""

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None: ...

    def present(self) -> bool:
        """Is the target still what was acquired?"""

    def drop_caches(self) -> CacheDrop | None:
        """Drop what this machine caches of the data, and read back that it is gone; None where
        that cannot be read back. Raises OSError."""

    def allocated_bytes(self) -> int | None:
        """Bytes that the filesystem has allocated to the data; None where it cannot tell."""

    def filesystem(self) -> str: ...

    def note_files(self) -> None:
        """Take what now lies in our own folder as made by the engine on our behalf."""

    def release(self) -> tuple[str, ...]:
        """Undo; returns what could not be undone, as sentences."""


class Journal(Protocol):
    """Remembers what was made outside the archive, before it is made."""

    def note_created(self, entry: Created) -> None: ...

    def note_removed(self, entry: Created) -> None: ...
