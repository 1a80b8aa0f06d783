"""What I/O a plan asks for: workloads with their phases, and the engines that do it.

Sizes are in bytes, durations in seconds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from leadline.metrics import Op
from leadline.plan.base import Model, Name, is_unset
from leadline.plan.drill import Drill


class Pattern(StrEnum):
    """The values of fio's `rw` that read or write data."""

    READ = "read"
    WRITE = "write"
    RANDREAD = "randread"
    RANDWRITE = "randwrite"
    RW = "rw"
    RANDRW = "randrw"

    @property
    def ops(self) -> tuple[Op, ...]:
        if self in (Pattern.READ, Pattern.RANDREAD):
            return (Op.READ,)
        if self in (Pattern.WRITE, Pattern.RANDWRITE):
            return (Op.WRITE,)
        return (Op.READ, Op.WRITE)

    @property
    def sequential(self) -> bool:
        return self in (Pattern.READ, Pattern.WRITE, Pattern.RW)

    @property
    def reads(self) -> bool:
        return Op.READ in self.ops

    @property
    def writes(self) -> bool:
        return Op.WRITE in self.ops


class EngineChoice(StrEnum):
    """The I/O engine of a workload.

    fio's engines do the I/O on files and devices; on a Ceph pool fio always uses librbd, or `nbd`
    where the target says so. `auto` is
    io_uring for depths that are a power of two (it rounds others up), else libaio. `rbd-bench` and
    `rados-bench` are Ceph's own tools. The latter is the engine of `rados:POOL`, and fio's `rados`
    that of `rados:POOL?engine=fio`. `zfs-stream` sends snapshots and receives copies, on targets
    of ZFS; its jobs are streams at the same time. `volume-lifecycle` makes, uses and removes
    volumes of a StorageClass. `pgbench` and `sysbench` make their own data in each trial, in the
    file system of the target.
    """

    AUTO = "auto"
    IO_URING = "io_uring"
    LIBAIO = "libaio"
    POSIXAIO = "posixaio"
    PSYNC = "psync"
    SYNC = "sync"
    PVSYNC2 = "pvsync2"
    MMAP = "mmap"
    RBD = "rbd"
    NBD = "nbd"
    RBD_BENCH = "rbd-bench"
    RADOS_BENCH = "rados-bench"
    RADOS = "rados"
    ZFS_STREAM = "zfs-stream"
    VOLUME_LIFECYCLE = "volume-lifecycle"
    PGBENCH = "pgbench"
    SYSBENCH = "sysbench"


class Sharing(StrEnum):
    """`one-file`: all jobs of a client use one file, or one stretch of a device. Random I/O goes
    anywhere in it; of a sequence each job has its own part. Otherwise each job has its own file."""

    ONE_FILE = "one-file"


class Phase(Model):
    """One pattern of I/O. The phases of a workload run one after the other.

    `rate_iops` makes an open loop: the I/Os per second that each client offers, reads and writes
    together, as a Poisson process. None is a closed loop: the next I/O starts when one completes.
    `limit_bps` are the most bytes per second of each client, its part of the guard's budget; it is
    set for an execution only, since cells of different budgets are the same cells.
    """

    name: Name
    pattern: Pattern
    block_size: int = Field(gt=0)
    iodepth: int = Field(ge=1, le=65536)
    numjobs: int = Field(ge=1, le=4096)
    size: int = Field(gt=0)
    read_share: int | None = Field(default=None, ge=1, le=99)
    fsync: int = Field(default=0, ge=0)
    rate_iops: float | None = Field(default=None, gt=0)
    sharing: Sharing | None = Field(default=None, exclude_if=is_unset)
    limit_bps: float | None = Field(default=None, gt=0, exclude_if=is_unset)

    @model_validator(mode="after")
    def _shares(self) -> Self:
        mixed = len(self.pattern.ops) == 2
        if self.read_share is not None and not mixed:
            raise ValueError(f"read_share has no meaning for {self.pattern.value}")
        if self.size < self.block_size:
            raise ValueError("size is smaller than one block")
        if self.sharing is not None and self.part < self.block_size:
            raise ValueError(f"size is smaller than a block for each of {self.numjobs} jobs")
        return self

    @property
    def stretch(self) -> int:
        """Bytes of one client's data, those of its jobs together."""
        return self.size if self.sharing is Sharing.ONE_FILE else self.numjobs * self.size

    @property
    def shares(self) -> tuple[float, float]:
        """The parts of reads and of writes in the I/Os."""
        reads = 1.0 if self.pattern.reads else 0.0
        if len(self.pattern.ops) == 2:
            reads = (50 if self.read_share is None else self.read_share) / 100
        return reads, 1 - reads

    @property
    def part(self) -> int:
        """Bytes that one job does I/O on: of a shared file its part, in whole blocks, where it is a
        sequence, since the jobs would read each other's blocks from a cache."""
        if self.sharing is None or not self.pattern.sequential:
            return self.size
        return self.size // self.numjobs // self.block_size * self.block_size


class JobFile(Model):
    """A user's own fio job file. fio gets what `write_job_file` makes of its `text`."""

    path: str
    text: str
    runtime_s: float
    ramp_s: float
    footprint_bytes: int
    writes: bool


class Recorded(Model):
    """The workload of an imported result: the tool that wrote it, and its settings as options of
    fio, as far as they are known."""

    tool: str
    options: dict[str, str] = Field(default_factory=dict)


class Load(Model):
    """A load level, of all clients together: the requested I/Os in flight of the deepest phase, and
    in an open loop the offered I/Os per second."""

    clients: int
    neighbours: int
    in_flight: int
    offered_iops: float | None


class Workload(Model):
    """The I/O of a cell: phases generated by Leadline, the user's own job file, or an imported
    result (`recorded`), whose runtime is 0 where it is unknown.

    `clients` are concurrent load generators, each with data of its own; 0 is the default of the
    target: one, on a StorageClass one for each volume. `neighbours` further load generators run the
    workload `neighbour` at the same time; their figures do not count. `drill` is an event in the
    middle of each trial."""

    name: Name
    description: str = ""
    phases: tuple[Phase, ...] = ()
    job_file: JobFile | None = None
    recorded: Recorded | None = None
    engine: EngineChoice = EngineChoice.AUTO
    direct: bool = True
    runtime_s: float
    ramp_s: float = 0.0
    clients: int = Field(default=0, ge=0, le=1024)
    neighbours: int = Field(default=0, ge=0, le=1024)
    neighbour: Phase | None = None
    drill: Drill | None = Field(default=None, exclude_if=is_unset)

    @model_validator(mode="after")
    def _neighbours(self) -> Self:
        if self.neighbours and (self.neighbour is None or not self.clients):
            raise ValueError("neighbours need clients, and a phase that says what they do")
        own = max((phase.stretch for phase in self.phases), default=0)
        if self.neighbours and self.neighbour is not None and self.neighbour.stretch < own:
            # On one device or image the neighbours' data would overlap that of the clients.
            raise ValueError("a neighbour's numjobs x size must be at least the workload's")
        return self

    @property
    def generators(self) -> int:
        """Requested load generators with neighbours; 0 as in `clients`."""
        return self.clients + self.neighbours

    @property
    def streams(self) -> bool:
        """Whether the workload is a ZFS stream, whose phase has no block size or depth."""
        return self.engine is EngineChoice.ZFS_STREAM

    @property
    def lifecycle(self) -> bool:
        """Whether the workload is the life of `clients` volumes at once. Its operations are stages,
        and the size of its phase is the data in each volume."""
        return self.engine is EngineChoice.VOLUME_LIFECYCLE

    @property
    def database(self) -> bool:
        """Whether the workload is pgbench: its jobs are connections, its operation a transaction,
        and its phase has no block size or depth."""
        return self.engine is EngineChoice.PGBENCH

    @property
    def own_data(self) -> bool:
        """Whether a trial makes and removes its own data, so that it needs no prefill."""
        return self.lifecycle or self.database or self.engine is EngineChoice.SYSBENCH

    @property
    def in_blocks(self) -> bool:
        """Whether the block size and depth of a phase have a meaning."""
        return not (self.streams or self.lifecycle or self.database)

    @property
    def fits_rings(self) -> bool:
        """Whether fio's io_uring uses the requested depths: it rounds a depth up to a power of two
        (`roundup_pow2` in engines/io_uring.c)."""
        return all(phase.iodepth & (phase.iodepth - 1) == 0 for phase in self.phases)

    @property
    def load(self) -> Load:
        """The load of one trial."""
        clients = max(1, self.clients)
        rates = [phase.rate_iops for phase in self.phases if phase.rate_iops is not None]
        return Load(
            clients=clients,
            neighbours=self.neighbours,
            in_flight=clients
            * max((phase.iodepth * phase.numjobs for phase in self.phases), default=1),
            offered_iops=clients * max(rates) if rates else None,
        )

    @property
    def duration_s(self) -> float:
        """The requested seconds of one trial: ramp and runtime of every phase."""
        if self.job_file:
            return self.job_file.runtime_s + self.job_file.ramp_s
        return len(self.phases) * (self.runtime_s + self.ramp_s)

    @property
    def writes(self) -> bool:
        if self.job_file:
            return self.job_file.writes
        return any(phase.pattern.writes for phase in self.phases)

    @property
    def ops(self) -> tuple[Op, ...]:
        """Operations that a trial must report; empty for a user's job file, and for a lifecycle,
        whose stages depend on the class."""
        if self.lifecycle:
            return ()
        if self.database:
            return (Op.TRANSACTION,)
        return tuple(dict.fromkeys(op for phase in self.phases for op in phase.pattern.ops))
