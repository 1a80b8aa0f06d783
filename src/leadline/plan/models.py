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
from leadline.plan.expectations import Expectation
from leadline.plan.facts import GivenFacts, TargetFacts
from leadline.plan.lab import LabDescription
from leadline.plan.target_url import KubernetesCluster, TargetKind, TargetUrl, parse_target_url
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


class Pattern(StrEnum):
    """fio's `rw`, the ones that move data."""

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
    def reads(self) -> bool:
        return Op.READ in self.ops

    @property
    def writes(self) -> bool:
        return Op.WRITE in self.ops


class EngineChoice(StrEnum):
    """I/O engines that a workload may name: those of fio on files and devices, where `auto` takes
    io_uring (which rounds a depth up to a power of two, so only for those), else libaio; on a Ceph
    pool librbd does the I/O whichever of them is named, and `rbd-bench` puts Ceph's own tool in
    fio's place. `rados:` targets have `rados-bench` only. `zfs-stream` sends a snapshot and
    receives a copy, on targets of ZFS.
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
    RBD_BENCH = "rbd-bench"
    RADOS_BENCH = "rados-bench"
    ZFS_STREAM = "zfs-stream"


class Phase(Model):
    """One pattern of I/O. The phases of a workload run one after the other, never together.

    `rate_iops` is what each client offers per second, reads and writes together, as a Poisson
    process (open loop); None: an I/O follows when one has come back (closed loop)."""

    name: Name
    pattern: Pattern
    block_size: int = Field(gt=0)
    iodepth: int = Field(ge=1, le=65536)
    numjobs: int = Field(ge=1, le=4096)
    size: int = Field(gt=0)
    read_share: int | None = Field(default=None, ge=1, le=99)
    fsync: int = Field(default=0, ge=0)
    rate_iops: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _shares(self) -> Self:
        mixed = len(self.pattern.ops) == 2
        if self.read_share is not None and not mixed:
            raise ValueError(f"read_share has no meaning for {self.pattern.value}")
        if self.size < self.block_size:
            raise ValueError("size is smaller than one block")
        return self

    @property
    def stretch(self) -> int:
        """Bytes of one client's data, those of its jobs together."""
        return self.numjobs * self.size


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
    """A load level: I/Os that may be in flight at once, over all clients (the deepest phase speaks
    for the workload), and in an open loop what all clients offer per second."""

    clients: int
    neighbours: int
    in_flight: int
    offered_iops: float | None


class Workload(Model):
    """The I/O of a cell: phases generated by Leadline, the user's own job file, or an imported
    result (`recorded`), whose runtime is 0 where it is unknown.

    `clients` are load generators that all do it at once, each on data of its own; 0: the one that
    a target has by itself (on a StorageClass one for each volume). `neighbours` more do what
    `neighbour` says at the same time, and their figures are not the workload's."""

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

    @model_validator(mode="after")
    def _neighbours(self) -> Self:
        if self.neighbours and (self.neighbour is None or not self.clients):
            raise ValueError("neighbours need clients, and a phase that says what they do")
        own = max((phase.stretch for phase in self.phases), default=0)
        if self.neighbours and self.neighbour is not None and self.neighbour.stretch < own:
            # Those behind the clients on one device or image would begin within their data.
            raise ValueError("a neighbour's numjobs x size must be at least the workload's")
        return self

    @property
    def generators(self) -> int:
        """Load generators that the plan asks for, neighbours included; 0: see `clients`."""
        return self.clients + self.neighbours

    @property
    def streams(self) -> bool:
        """It sends what lies on the target as a stream of ZFS: block size and depth of its phase
        have no meaning."""
        return self.engine is EngineChoice.ZFS_STREAM

    @property
    def fits_rings(self) -> bool:
        """Whether fio's io_uring keeps to the depths asked for: its rings hold a power of two, and
        it rounds the depth itself up to that (`roundup_pow2` in engines/io_uring.c)."""
        return all(phase.iodepth & (phase.iodepth - 1) == 0 for phase in self.phases)

    @property
    def load(self) -> Load:
        """How much load one trial puts on the target."""
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
        """Seconds that one trial asks for: every phase's ramp and runtime."""
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
        """Operations that a trial must report; empty where only the job file knows."""
        return tuple(dict.fromkeys(op for phase in self.phases for op in phase.pattern.ops))


class Cluster(Model):
    """A cluster that targets of the plan lie on: a Ceph cluster that can be reached by its
    configuration, a lab that is up, a lab that the run brings up and takes down itself, or a
    Kubernetes cluster. `facts` are those that a user gave with imported results."""

    name: Name
    ceph_conf: str | None = None
    keyring: str | None = None
    id: str = "admin"
    lab: str | LabDescription | None = None
    kubernetes: KubernetesCluster | None = None
    facts: GivenFacts | None = Field(default=None, exclude_if=_is_unset)


class Target(Model):
    """A target of the plan. `cluster` is empty for a target on this machine.

    In a plan with several clusters, `subject` is what is measured on each (a pool) and `place` the
    cluster with its condition (`multi-zone,2ms`); otherwise both are empty. `url` is empty where
    results were imported without a target. `labels` are for comparisons by label (`cores: 1`).
    `facts` are those that a user gave with imported results.
    """

    name: Name | Annotated[str, Field(min_length=1)]
    url: str
    cluster: str = ""
    subject: str = ""
    place: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    facts: TargetFacts | None = Field(default=None, exclude_if=_is_unset)

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
    """To be added when the closed loop's levels of this workload have been measured: the workload
    at these shares of the highest throughput among them, as an open loop."""

    kind: Literal["open-loop"] = "open-loop"
    target: str
    workload: str
    shares: tuple[float, ...]


class Density(Model):
    """To be added step by step: so many clients, each at the rate that the workload says, doubled
    and then bisected between the last number that keeps `limit` and the first that does not.
    `workload` is that of one client."""

    kind: Literal["density"] = "density"
    target: str
    workload: Workload
    limit: LatencyLimit
    most: int = Field(ge=1, le=1024)

    @property
    def largest(self) -> Workload:
        """The workload with as many clients as the search may come to."""
        return self.workload.model_copy(update={"clients": self.most})


FollowUp = Annotated[OpenLoop | Density, Field(discriminator="kind")]


class Plan(Model):
    """A plan expanded: everything that a run does, in its order, reproducible from this alone.

    `follow_ups` say what the run adds to `cells` and `trials` when it has seen results. `expect` is
    what the plan expects of a comparison, fixed before the run."""

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
    expect: tuple[Expectation, ...] = Field(default=(), exclude_if=lambda given: not given)

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
        return self

    def cells_of(self, target: str) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.target == target)

    def workloads_on(self, target: str) -> tuple[Workload, ...]:
        """All that may be done on a target, with what follow-ups may add at their largest."""
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
        """Seconds asked of the engine, all trials together; prefill and set-up not counted."""
        return sum(self.cells[trial.cell].workload.duration_s for trial in self.trials)


# How far an open loop may stay behind what was offered to it, for the engine that ends a trial
# and for the audit that reads one.

REACHED_SHARE = 0.95
# Arrivals of a Poisson process scatter by the root of their number; three of that are chance.
DEVIATIONS = 3.0


def chance_iops(offered_iops: float, ran_s: float) -> float:
    """By how many I/Os per second Poisson arrivals of `ran_s` seconds may miss their rate."""
    return DEVIATIONS * math.sqrt(offered_iops / ran_s)
