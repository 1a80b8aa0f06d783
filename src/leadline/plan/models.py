"""The expanded plan: targets, workloads, cells and trials.

All models are frozen; sizes are in bytes, durations in seconds. The archive stores them.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from leadline.metrics import Metric, Op
from leadline.plan.drill import Drill
from leadline.plan.expectations import Expectation
from leadline.plan.facts import GivenFacts, TargetFacts
from leadline.plan.guard import Guard
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.lab import LabDescription
from leadline.plan.prometheus import StorageMonitoring
from leadline.plan.settings import Design, Setting
from leadline.plan.stop import Stop
from leadline.plan.target_url import TargetKind, TargetUrl, parse_target_url
from leadline.units import format_latency, parse_duration

# A limit that latency must stay below, as people write it: `p99<5ms`.

_METRICS = {
    "mean": Metric.LATENCY_MEAN,
    "p50": Metric.LATENCY_P50,
    "p95": Metric.LATENCY_P95,
    "p99": Metric.LATENCY_P99,
    "p99.9": Metric.LATENCY_P999,
    "p99.99": Metric.LATENCY_P9999,
}
_FORM = re.compile(r"\s*(\S+?)\s*<\s*(\S.*?)\s*")


class LatencyLimit(BaseModel):
    """`metric` must be less than `below_s` seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: Metric
    below_s: float = Field(gt=0)

    def __str__(self) -> str:
        name = next(name for name, metric in _METRICS.items() if metric is self.metric)
        return f"{name}<{format_latency(self.below_s)}"


def parse_latency_limit(text: str) -> LatencyLimit:
    """`p99<5ms`, `mean < 800us`. Raises ValueError with a sentence for the user."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no latency limit; write for instance p99<5ms")
    name, value = found[1].lower(), found[2]
    if name not in _METRICS:
        raise ValueError(f"{found[1]!r} is none of {', '.join(_METRICS)}")
    if value[-1].isdigit():
        raise ValueError(f"the limit {text!r} needs its unit: {name}<{value}ms")
    below_s = parse_duration(value)
    if below_s <= 0:
        raise ValueError("a latency is below no limit of 0")
    return LatencyLimit(metric=_METRICS[name], below_s=below_s)


Name = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f/]+$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _is_unset(value: object) -> bool:
    """Fields added to the archive's format 1 are left out where unset: earlier versions of Leadline
    refuse unknown fields."""
    return value is None


def _is_empty(value: object) -> bool:
    """As `_is_unset`, for collections and texts."""
    return not value


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
    sharing: Sharing | None = Field(default=None, exclude_if=_is_unset)
    limit_bps: float | None = Field(default=None, gt=0, exclude_if=_is_unset)

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
    """A user's own fio job file, kept and used byte for byte."""

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
    drill: Drill | None = Field(default=None, exclude_if=_is_unset)

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


class Cluster(Model):
    """A cluster of the plan's targets: a Ceph cluster by its configuration, a lab by its name, a
    lab by its description (the run starts and removes it), or a Kubernetes cluster. `facts` are
    those that a user gave with imported results. `prometheus` scrapes the hosts of the storage,
    or these are `hosts`, reached by ssh."""

    name: Name
    ceph_conf: str | None = None
    keyring: str | None = None
    id: str = "admin"
    lab: str | LabDescription | None = None
    kubernetes: KubernetesCluster | None = None
    prometheus: StorageMonitoring | None = Field(default=None, exclude_if=_is_unset)
    hosts: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)
    facts: GivenFacts | None = Field(default=None, exclude_if=_is_unset)


class Target(Model):
    """A target of the plan. `cluster` is empty for a target on this machine.

    In a plan with several clusters, `subject` is what is measured on each (a pool) and `place` the
    cluster with its condition (`multi-zone,2ms`); otherwise both are empty. `url` is empty where
    results were imported without a target. `labels` are for comparisons by label (`cores: 1`).
    `facts` are those that a user gave with imported results. `copies`: how often the storage keeps
    each byte; None: unknown. `settings` are those that its trials run with, by their names; without
    any it is the present state. `base`: the target whose data it uses; empty: its own.
    """

    name: Name | Annotated[str, Field(min_length=1)]
    url: str
    cluster: str = ""
    subject: str = ""
    place: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    facts: TargetFacts | None = Field(default=None, exclude_if=_is_unset)
    copies: float | None = Field(default=None, gt=0, le=100, exclude_if=_is_unset)
    settings: dict[str, str] = Field(default_factory=dict, exclude_if=_is_empty)
    base: str = Field(default="", exclude_if=_is_empty)

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        if value:
            parse_target_url(value)
        return value

    @property
    def parsed(self) -> TargetUrl:
        return parse_target_url(self.url)

    @property
    def kind(self) -> TargetKind | None:
        """None where the target is unknown."""
        return self.parsed.kind if self.url else None


class Budget(Model):
    """The most that a run may hold at the same time. `capacity_bytes` are those of the requested
    volumes, `written_bytes` those of the data in them, both times the copies of the storage where
    these are known. None: no limit."""

    capacity_bytes: int | None = None
    written_bytes: int | None = None
    cores: float | None = None
    volumes: int | None = None


class Detect(Model):
    """The change of a rate, as a share, that the repeats of each cell are to find, with the scatter
    of the run `like` (empty: the published one); no cell has more than `most` trials."""

    change: float
    like: str = ""
    most: int


class Group(Model):
    """Targets that a run acquires and releases together, for the trials of `blocks` (empty: all).

    Trials of one `series` are interleaved: its groups, where it has several, take turns in every
    block."""

    targets: tuple[str, ...] = Field(min_length=1)
    blocks: tuple[int, ...] = ()
    series: int = Field(ge=0)


class LeftOut(Model):
    """A target that the plan calls optional and that cannot be used here, and why."""

    target: str
    cluster: str = ""
    reason: str


class Cell(Model):
    """One target with one workload at one load level; the level is already in the phases."""

    target: str
    workload: Workload
    level: str

    @property
    def label(self) -> str:
        return " · ".join(part for part in (self.target, self.workload.name, self.level) if part)

    @property
    def load(self) -> Load:
        return self.workload.load


class Trial(Model):
    """One planned execution of a cell: `block` is its repeat, `seed` sets fio's random offsets."""

    id: str
    position: int
    block: int
    cell: int
    seed: int


class OpenLoop(Model):
    """Open-loop levels that the run adds after the closed-loop levels of a workload: offered rates
    as `shares` of the highest throughput of these."""

    kind: Literal["open-loop"] = "open-loop"
    target: str
    workload: str
    shares: tuple[float, ...]


class Density(Model):
    """A search for the number of clients within `limit`, added step by step: the number is doubled,
    then bisected between the last one within the limit and the first one beyond it.
    `workload` is that of one client at its rate."""

    kind: Literal["density"] = "density"
    target: str
    workload: Workload
    limit: LatencyLimit
    most: int = Field(ge=1, le=1024)

    @property
    def largest(self) -> Workload:
        """The workload with the largest number of clients of the search."""
        return self.workload.model_copy(update={"clients": self.most})


FollowUp = Annotated[OpenLoop | Density, Field(discriminator="kind")]


class Plan(Model):
    """An expanded plan: all cells and trials of a run, in the order of execution.

    `repeats` are those of the cells with the most. `follow_ups` are rules for cells and trials
    that the run adds, depending on its results. `expect` is what the author expects of a
    comparison, declared before the run. Without `groups` all targets are held from start to
    end; with them one group after the other, within `budget`. `settings` are those that its
    targets vary, by `design`."""

    schema_: Literal["leadline/plan/1"] = Field(default="leadline/plan/1", alias="schema")
    name: str = ""
    description: str = ""
    profiles: tuple[str, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    targets: tuple[Target, ...]
    optional: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]
    follow_ups: tuple[FollowUp, ...] = ()
    repeats: int
    seed: int
    prefill: bool = True
    drop_caches: bool = True
    grace_s: float = 10.0
    # Not written where it is empty: earlier versions do not know it.
    expect: tuple[Expectation, ...] = Field(default=(), exclude_if=_is_empty)
    detect: Detect | None = Field(default=None, exclude_if=_is_unset)
    stop: Stop | None = Field(default=None, exclude_if=_is_unset)
    budget: Budget | None = Field(default=None, exclude_if=_is_unset)
    groups: tuple[Group, ...] = Field(default=(), exclude_if=_is_empty)
    guard: Guard | None = Field(default=None, exclude_if=_is_unset)
    settings: tuple[Setting, ...] = Field(default=(), exclude_if=_is_empty)
    design: Design = Field(
        default=Design.ONE_AT_A_TIME, exclude_if=lambda given: given is Design.ONE_AT_A_TIME
    )

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Check all references between parts of the plan; an untrusted archive may break them."""
        if {trial.cell for trial in self.trials} != set(range(len(self.cells))):
            raise ValueError("the trials are not those of the cells")
        named = {target.name for target in self.targets}
        if not {item.target for item in (*self.cells, *self.follow_ups)} <= named:
            raise ValueError("a cell is on a target that the plan does not name")
        clusters = {"", *(cluster.name for cluster in self.clusters)}
        if not {target.cluster for target in self.targets} <= clusters:
            raise ValueError("a target is on a cluster that the plan does not name")
        group_of = self.group_numbers()
        if self.groups and not all(
            (self.cells[trial.cell].target, trial.block) in group_of for trial in self.trials
        ):
            raise ValueError("a trial is in no group of the plan")
        own = {target.name for target in self.targets if not target.base}
        known = {setting.name: setting.values for setting in self.settings}
        for target in self.targets:
            if target.base and target.base not in own:
                raise ValueError(f"{target.name!r} uses the data of a target that is not there")
            if any(value not in known.get(name, ()) for name, value in target.settings.items()):
                raise ValueError(f"{target.name!r} has a setting that the plan does not name")
        return self

    def group_numbers(self) -> dict[tuple[str, int], int]:
        """The index of the group that holds a target in a block. Raises ValueError for two."""
        found: dict[tuple[str, int], int] = {}
        for number, group in enumerate(self.groups):
            for target in group.targets:
                for block in group.blocks or range(self.repeats):
                    if found.setdefault((target, block), number) != number:
                        raise ValueError(f"the target {target!r} is in two groups at once")
        return found

    @property
    def own_targets(self) -> tuple[Target, ...]:
        """The targets with data of their own; all others use that of one of these."""
        return tuple(target for target in self.targets if not target.base)

    def base_of(self, target: str) -> str:
        """The name of the target whose data a target uses: mostly its own."""
        return self.target(target).base or target

    def setting(self, name: str) -> Setting:
        return next(setting for setting in self.settings if setting.name == name)

    def applied(self, target: str) -> dict[str, str]:
        """The settings of a running system that the trials of a target need."""
        given = self.target(target).settings
        return {name: value for name, value in given.items() if not self.setting(name).option}

    def cells_of(self, target: str) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.target == target)

    def workloads_on(self, target: str) -> tuple[Workload, ...]:
        """Return the workloads of a target, with the largest that follow-ups may add."""
        largest = (
            item.largest
            for item in self.follow_ups
            if isinstance(item, Density) and item.target == target
        )
        return (*(cell.workload for cell in self.cells_of(target)), *largest)

    def cluster(self, name: str) -> Cluster:
        return next(cluster for cluster in self.clusters if cluster.name == name)

    def target(self, name: str) -> Target:
        return next(target for target in self.targets if target.name == name)

    @property
    def imported(self) -> bool:
        """Whether the plan was made from results of other tools."""
        return any(cell.workload.recorded for cell in self.cells)

    @property
    def duration_s(self) -> float:
        """The requested seconds of all trials, without prefill and set-up."""
        return sum(self.cells[trial.cell].workload.duration_s for trial in self.trials)


# Share of the offered rate that an open loop must reach, for the engine that ends a trial and for
# the audit; and the share of a budget from which a rate is that of the budget.

REACHED_SHARE = 0.95
# A Poisson count has the square root of its mean as standard deviation; three are taken as chance.
DEVIATIONS = 3.0


def chance_iops(offered_iops: float, ran_s: float) -> float:
    """Compute by how many I/Os per second Poisson arrivals may miss their rate in `ran_s`."""
    return DEVIATIONS * math.sqrt(offered_iops / ran_s)
