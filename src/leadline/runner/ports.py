"""What the runner needs of engines and of targets. Adapters live in engines/ and targets/."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol

from leadline.archive.records import CacheDrop, Created, Problem, Processor, RoundTrip, TrialStatus
from leadline.connect.ceph import CephAccess
from leadline.connect.shell import Shell
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Plan, Workload
from leadline.plan.target_url import TargetKind
from leadline.runner.events import StopRequest


class Shape(StrEnum):
    """How jobs share a target: a file each, or a stretch each of one device or image."""

    FILES = "files"
    SPAN = "span"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder of our own."""

    shape: ClassVar[Shape] = Shape.FILES
    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(Folder):
    """A ZFS dataset of our own, `name`, mounted at `path`: a folder to most engines. What is
    received is its child, and goes with it."""

    name: str

    @property
    def received(self) -> str:
        """The name that a stream is received under."""
        return f"{self.name}/received"

    def __str__(self) -> str:
        return f"zfs:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A block device."""

    shape: ClassVar[Shape] = Shape.SPAN
    path: Path
    read_only: bool = False

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RbdImage:
    """An image of a Ceph pool, reached by librbd; `settings` of the client go before the
    cluster's own configuration."""

    shape: ClassVar[Shape] = Shape.SPAN
    pool: str
    image: str
    access: CephAccess
    settings: tuple[tuple[str, str], ...] = ()
    read_only: bool = False

    def __str__(self) -> str:
        return f"rbd:{self.pool}/{self.image}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RadosPool:
    """Objects of our own in a Ceph pool: all lie in the RADOS namespace `objects`."""

    shape: ClassVar[Shape] = Shape.SPAN
    pool: str
    objects: str
    access: CephAccess

    def __str__(self) -> str:
        return f"rados:{self.pool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteVolume:
    """A volume where it is mounted or attached: a block device, or a folder of our own."""

    shell: Shell
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteVolumes:
    """Volumes that all do the same I/O at the same time, each through a shell of its own.
    `folder` is where an engine may keep its files beside each shell."""

    shape: Shape
    volumes: tuple[RemoteVolume, ...]
    folder: str

    def __str__(self) -> str:
        first = self.volumes[0]
        more = f" and {len(self.volumes) - 1} more" if len(self.volumes) > 1 else ""
        return f"{first.path} of {first.shell.name}{more}"


class Host(Protocol):
    """A machine that is reached over the network, with a folder of our own at `path`."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def shell(self) -> Shell: ...

    def serving(
        self, socket: Path, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The command, to be run here, that runs `fio ARGUMENTS... --server=...` in the host's
        folder and makes it answer at the Unix socket `socket` of this machine. The server ends
        when the command does, however that ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """A folder of our own on each of several hosts. Client k works on host k, and round again."""

    shape: ClassVar[Shape] = Shape.FILES
    hosts: tuple[Host, ...]

    def of(self, client: int) -> Host:
        """The host of a client; clients are numbered from 1."""
        return self.hosts[(client - 1) % len(self.hosts)]

    def __str__(self) -> str:
        return ", ".join(f"{host.name}:{host.path}" for host in self.hosts)


# Where an engine does its I/O.
Location = Folder | Device | RbdImage | RadosPool | RemoteVolumes | Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One execution for an engine: the job as text, where, and how long it may take. `clients` do
    it at once, 0 being the target's own, and `neighbours` do `neighbour_text` meanwhile."""

    text: str
    location: Location
    bound_s: float
    layout_only: bool = False
    clients: int = 0
    neighbours: int = 0
    neighbour_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How an execution ended; its raw output lies in the folder that it was given. `processor`
    is there where the I/O was done on another machine than this."""

    status: TrialStatus
    command: tuple[str, ...]
    exit_status: int | None
    signals: tuple[str, ...] = ()
    engine_cpu_s: float = 0.0
    wall_s: float
    problem: Problem | None = None
    processor: Processor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What an engine says while it runs."""

    iops: float


class Engine(Protocol):
    """Does I/O. Errors of the request are raised by `check` and `resolve`, before any I/O;
    what goes wrong in an execution is told in it. `name` also tells readers of the archive in
    which format the raw output is."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def check(self, workload: Workload, kind: TargetKind) -> None:
        """Raise if the engine is missing, too old, or was built without what the workload needs on
        a target of that kind. What no engine can do the plan's own rules refuse."""

    def likely(self, workload: Workload, location: Location) -> Workload:
        """The workload with `engine: auto` settled as it most likely will be, without a try."""

    def resolve(self, workload: Workload, location: Location) -> Workload:
        """The workload with `engine: auto` settled, after a small try on the location itself."""

    def job_text(self, workload: Workload, location: Location, seed: int) -> str: ...

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str: ...

    def command(self, job: Job, folder: Path) -> tuple[str, ...]: ...

    def execute(
        self,
        job: Job,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        """Run to the end or to the bound; write raw output into `folder` only."""


class Engines(Protocol):
    """The engines that there are, and which of them does what."""

    def of(self, workload: Workload, kind: TargetKind) -> Engine:
        """The engine for trials of a workload on a target of that kind."""

    def prefilling(self, kind: TargetKind) -> Engine:
        """The engine that lays out the data of a target of that kind."""

    def check(self, plan: Plan) -> None:
        """Raise what speaks against any cell of the plan."""


class System(Protocol):
    """A system under test that is not this machine: a cluster."""

    @property
    def name(self) -> str: ...

    def capture(self) -> Mapping[str, bytes]:
        """What it is now, as raw dumps by file name, secrets taken out. Raises LeadlineError."""


class Watch(Protocol):
    """Records in a trial's folder how the system under test fared while it ran."""

    def stop(self) -> None: ...


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

    def volume(self) -> object:
        """Identity of what gives the target its space and others may share; None for a device."""

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None: ...

    def layers(self) -> tuple[Layer, ...]:
        """What the target's data passes through from the location down, as far as this machine
        can tell; to be asked after `acquire`. Empty where it cannot. Never raises."""

    def dumps(self) -> Mapping[str, bytes]:
        """What those layers tell of themselves (pools of ZFS, module parameters), raw, by file
        name; to be asked after `acquire`. Never raises: what could not be had is in a file."""

    def settle(self, written_at_s: float) -> None:
        """Prove that what was laid out is there, and wait until it no longer disturbs trials;
        `written_at_s` is the time.monotonic() of the last write. Raises LeadlineError."""

    def present(self) -> bool:
        """Is the target still what was acquired?"""

    @property
    def fresh(self) -> bool:
        """Whether each trial gets data of its own, made new by `renew`."""

    def renew(self) -> None:
        """Replace what was acquired by its like, and wait until the old is gone for good; only
        where `fresh`. Raises LeadlineError."""

    def prepare(self) -> tuple[RoundTrip, ...]:
        """Put the conditions of the target in force (the delay of a lab's network) and read them
        back; nothing where there are none. Raises OSError or LeadlineError."""

    def watch(self, folder: Path) -> Watch | None:
        """Begin to record how the target's system fares; None where there is nothing to watch."""

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
