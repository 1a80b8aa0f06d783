"""The interfaces of engines and targets, as the runner uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from leadline.archive.records import CacheDrop, Created, Problem, Processor, RoundTrip, TrialStatus
from leadline.connect.ceph import CephAccess
from leadline.connect.shell import Shell
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.metrics import Op
from leadline.plan.footprint import Footprint
from leadline.plan.models import Plan
from leadline.plan.target_url import ReceiveOn, TargetKind, TargetUrl
from leadline.plan.volume_request import VolumeSharing
from leadline.plan.workload import Workload
from leadline.runner.events import StopRequest

if TYPE_CHECKING:
    from leadline.connect.kubernetes.lifecycle import LifecycleObjects


class Shape(StrEnum):
    """How jobs share a target: a file each, or a stretch each of one device or image."""

    FILES = "files"
    SPAN = "span"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that Leadline made. `descriptor` names the one that is held open where another user
    could exchange `path`; programs are given it."""

    shape: ClassVar[Shape] = Shape.FILES
    path: Path
    descriptor: Path | None = None

    def __str__(self) -> str:
        return str(self.path)


class CommandShell(Shell, Protocol):
    """A shell of another host that programs here can use as well."""

    def command(self, script: str, *arguments: str) -> tuple[str, ...]: ...

    def own_command(self, script: str, *arguments: str) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A dataset that Leadline made on another host, in which it receives streams as `wanted` says.
    `version` is that of ZFS there."""

    wanted: ReceiveOn
    dataset: str
    shell: CommandShell
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(Folder):
    """A ZFS dataset that Leadline made, mounted at `path`: a folder to most engines. A received
    stream is a child dataset and is destroyed with it, unless another host is its `receiver`."""

    name: str
    receiver: Receiver | None = None

    @property
    def receives(self) -> str:
        """The dataset below which streams are received."""
        return self.receiver.dataset if self.receiver else self.name

    def __str__(self) -> str:
        return f"zfs:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A block device. `descriptor` names the one that Leadline holds open, whatever `path` means
    by now; programs are given it."""

    shape: ClassVar[Shape] = Shape.SPAN
    path: Path
    descriptor: Path | None = None
    read_only: bool = False

    def __str__(self) -> str:
        return str(self.path)


# The configuration of Ceph in the folder of a host.
CEPH_CONF_THERE = "leadline.ceph.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class RbdImage:
    """An image of a Ceph pool, reached by librbd; client `settings` override the cluster's
    configuration. Clients of trials are on `hosts`, round-robin, each with `CEPH_CONF_THERE` in its
    folder; without hosts they are on this machine, which also writes the prefill."""

    shape: ClassVar[Shape] = Shape.SPAN
    pool: str
    image: str
    access: CephAccess
    settings: tuple[tuple[str, str], ...] = ()
    read_only: bool = False
    hosts: tuple[Host, ...] = ()

    def __str__(self) -> str:
        return f"rbd:{self.pool}/{self.image}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NbdExport:
    """An RBD image that the process `server` of this machine serves by NBD on a Unix socket.
    `settings` are those of its librbd; `encryption` is empty for an image without."""

    shape: ClassVar[Shape] = Shape.SPAN
    pool: str
    image: str
    socket: Path
    server: int
    settings: tuple[tuple[str, str], ...] = ()
    encryption: str = ""
    read_only: bool = False

    def __str__(self) -> str:
        return f"rbd:{self.pool}/{self.image} by NBD"


@dataclass(frozen=True, slots=True, kw_only=True)
class RadosPool:
    """Leadline's objects in a Ceph pool, all in the RADOS namespace `objects`."""

    shape: ClassVar[Shape] = Shape.SPAN
    pool: str
    objects: str
    access: CephAccess

    def __str__(self) -> str:
        return f"rados:{self.pool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RadosObjects:
    """Leadline's objects of `OBJECT_BYTES` in a Ceph pool, for fio's rados engine, which has no
    namespaces: the names of all begin with `prefix` (`OBJECT_NAME`). Hosts are as in RbdImage."""

    shape: ClassVar[Shape] = Shape.FILES
    pool: str
    prefix: str
    access: CephAccess
    hosts: tuple[Host, ...] = ()

    def __str__(self) -> str:
        return f"rados:{self.pool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteVolume:
    """A volume in a pod or guest: `path` is a block device, or a folder that Leadline made."""

    shell: Shell
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteVolumes:
    """Volumes with the same I/O at the same time, each through its own shell. Engines keep their
    files in `folder` there. With `sharing` all shells have the same volume."""

    shape: Shape
    volumes: tuple[RemoteVolume, ...]
    folder: str
    sharing: VolumeSharing | None = None

    @property
    def own_files(self) -> bool:
        """Whether each shell writes files of its own on one volume."""
        return self.sharing is VolumeSharing.OWN_FILES and self.shape is Shape.FILES

    @property
    def for_prefill(self) -> RemoteVolumes:
        """The volumes that are written before trials: a shared one by its first shell, unless each
        shell has own files."""
        if self.sharing is None or self.own_files:
            return self
        return replace(self, volumes=self.volumes[:1])

    def extents(self, clients: int) -> int:
        """How many clients have data on one volume, where `clients` (0: all) are at work."""
        if self.sharing is not VolumeSharing.OWN_FILES:
            return 1
        return clients or len(self.volumes)

    def __str__(self) -> str:
        first = self.volumes[0]
        more = f" and {len(self.volumes) - 1} more" if len(self.volumes) > 1 else ""
        return f"{first.path} of {first.shell.name}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaims:
    """Claims of a StorageClass that a trial makes and removes itself, `count` at once unless the
    workload says how many. Each stage may take `bound_s`. `stem` begins the names of the objects;
    `unsupported` says why the class does not have a stage; `note` gets messages about what is
    awaited."""

    shape: ClassVar[Shape] = Shape.FILES
    objects: LifecycleObjects
    stem: str
    count: int
    bound_s: float
    provisioner: str
    immediate: bool
    keeps_volumes: bool
    snapshot_class: str
    unsupported: Mapping[Op, str]
    note: Callable[[str], None]

    def __str__(self) -> str:
        return f"storageclass:{self.objects.runner.storage_class}"


class Host(Protocol):
    """A machine reached over the network; `path` is a folder that Leadline made there."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def shell(self) -> Shell: ...

    def serving(
        self, socket: Path, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The local command that runs `fio ARGUMENTS... --server=...` in the host's folder, with
        the Unix socket `socket` of this machine as its address. The server ends with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """A folder on each of several hosts. Clients are assigned to hosts round-robin."""

    shape: ClassVar[Shape] = Shape.FILES
    hosts: tuple[Host, ...]

    def __str__(self) -> str:
        return ", ".join(f"{host.name}:{host.path}" for host in self.hosts)


# Where an engine does its I/O.
Location = (
    Folder
    | Device
    | RbdImage
    | NbdExport
    | RadosPool
    | RadosObjects
    | RemoteVolumes
    | VolumeClaims
    | Hosts
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One execution of an engine, with its time bound. `clients` (0: one per volume or target)
    run `text` together, while `neighbours` run `neighbour_text`."""

    text: str
    location: Location
    bound_s: float
    layout_only: bool = False
    clients: int = 0
    neighbours: int = 0
    neighbour_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How an execution ended; its raw output is in the trial's folder. `processor` is set where
    the I/O was done on another machine."""

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
    """The rate that an engine reports while it runs."""

    iops: float


class Engine(Protocol):
    """Does I/O. `check` and `resolve` raise errors of the request before any I/O; a failure of an
    execution is in its result. `name` also states the format of the raw output in the archive."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def check(self, workload: Workload, kind: TargetKind) -> None:
        """Raise if the engine is missing, too old, or was built without what the workload needs on
        a target of that kind."""

    def likely(self, workload: Workload, location: Location) -> Workload:
        """The workload with `engine: auto` replaced by the most likely choice, without a test."""

    def resolve(self, workload: Workload, location: Location) -> Workload:
        """The workload with `engine: auto` replaced, after a small test I/O on the location."""

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
        """Run to the end or to the time bound; write raw output into `folder` only."""


class Engines(Protocol):
    """The engines, and which of them runs a workload."""

    def engine_for(self, workload: Workload, url: TargetUrl) -> Engine:
        """The engine for trials of a workload on a target."""

    def prefill_engine(self, url: TargetUrl) -> Engine:
        """The engine that writes the data of a target."""

    def check(self, plan: Plan) -> None:
        """Raise the first reason why a cell of the plan cannot run."""


class System(Protocol):
    """A system under test that is not this machine: a cluster."""

    @property
    def name(self) -> str: ...

    def capture(self) -> Mapping[str, bytes]:
        """Its present state as raw dumps by file name, without secrets. Raises LeadlineError."""

    def leave(self) -> tuple[str, ...]:
        """Remove what the run made for all targets, after they are released; sentences about what
        could not be removed. Never raises."""


class Event(Protocol):
    """The event of a drill on one system."""

    def prepare(self, journal: Journal, go_on: Callable[[str], None]) -> None:
        """Bring the system into the state before the event; `go_on` gets what is waited for, and
        raises where the run stops. Raises LeadlineError where the system is not whole."""

    def begin(self, journal: Journal) -> None:
        """Begin the event, which is recorded first. Raises LeadlineError."""

    def undo(self, journal: Journal) -> None:
        """Undo the event; no effect where none is in force. Raises LeadlineError."""

    @property
    def heals_within_s(self) -> float:
        """How long to wait until the system is whole after the event; 0 where it does not report
        its health."""

    def missing(self) -> tuple[str, ...]:
        """What the system lacks to be as before the event; empty where it is whole, or where its
        health is unknown. Raises LeadlineError."""

    def leave(self, journal: Journal, stop: StopRequest) -> tuple[str, ...]:
        """Undo an event that is still in force and wait until the system is whole; sentences about
        what it lacks since an event. Never raises."""


class Watch(Protocol):
    """Records the system under test in a trial's folder while the trial runs."""

    def stop(self) -> None: ...


class TargetAdapter(Protocol):
    """Drives one target. `inspect` refuses before anything is touched; `acquire` makes what is
    needed; `release` undoes it, may be called twice, and never raises."""

    @property
    def name(self) -> str: ...

    @property
    def location(self) -> Location: ...

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        """Raise LeadlineError for what forbids using the target. `claimed_bytes` is what other
        targets of the plan take from the same volume."""

    def volume(self) -> object:
        """Identity of the storage that other targets may share; None for a device."""

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None: ...

    def layers(self) -> tuple[Layer, ...]:
        """The layers below the location that this machine can see, after `acquire`. Empty where
        it sees none. Never raises."""

    def dumps(self) -> Mapping[str, bytes]:
        """Raw state of those layers (ZFS pools, module parameters) by file name, after `acquire`.
        Never raises: a failure is the content of a file."""

    def settle(self, written_at_s: float) -> None:
        """Verify that the prefill is there, and wait until it no longer disturbs trials.
        `written_at_s` is the time.monotonic() of the last write. Raises LeadlineError."""

    def present(self) -> bool:
        """Whether the target is still what was acquired."""

    def look_again(self) -> None:
        """Repeat the looks of `inspect` that protect a user's data, on what was acquired, right
        before its first byte is written. Raises LeadlineError."""

    @property
    def fresh(self) -> bool:
        """Whether each trial gets new data, made by `renew`."""

    def renew(self) -> None:
        """Replace what was acquired by a new copy, and wait until the old one is gone; only where
        `fresh`. Raises LeadlineError."""

    def recover(self) -> str:
        """Make runners that were lost anew, with new and empty volumes; say what was made. Empty
        where none was lost, or none can be made. Raises LeadlineError."""

    def prepare(self) -> tuple[RoundTrip, ...]:
        """Apply the target's conditions (the delay of a lab's network) and read them back; empty
        where there are none. Raises OSError or LeadlineError."""

    def watch(self, folder: Path) -> Watch | None:
        """Start to record the target's system; None where there is nothing to record."""

    def drop_caches(self) -> CacheDrop | None:
        """Drop this machine's cache of the data, and read back what is left; None where that
        cannot be read back. Raises OSError."""

    def allocated_bytes(self) -> int | None:
        """Bytes that the filesystem has allocated to the data; None where that is unknown."""

    def filesystem(self) -> str: ...

    def note_files(self) -> None:
        """Record the files that are now in the target's folder as made by the engine."""

    def release(self) -> tuple[str, ...]:
        """Undo `acquire`; sentences about what could not be undone."""


class Journal(Protocol):
    """Records what is made outside the archive, before it is made."""

    def note_created(self, entry: Created) -> None: ...

    def note_removed(self, entry: Created) -> None: ...


def problem_from(error: LeadlineError) -> Problem:
    """An error as the archive records it."""
    return Problem(code=error.kind.code, fact=error.fact, context=error.context, hint=error.hint)
