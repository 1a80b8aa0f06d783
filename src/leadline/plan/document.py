"""The plan file: its keys and their checks. `expand` turns it into a `models.Plan`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from leadline.metrics import MARGIN
from leadline.plan.base import Model, Name
from leadline.plan.drill import Drill
from leadline.plan.expectations import Expectation
from leadline.plan.guard import Guard
from leadline.plan.kubernetes_cluster import KubernetesCluster, parse_cpu
from leadline.plan.lab import LabDocument
from leadline.plan.labels import LABEL_WORD, labels_text
from leadline.plan.matrix import Dimension, matrix_faults
from leadline.plan.models import LatencyLimit, parse_latency_limit
from leadline.plan.prometheus import StorageMonitoring
from leadline.plan.settings import Design, Setting
from leadline.plan.target_url import check_hosts, parse_target_url
from leadline.plan.workload import EngineChoice, Pattern, Sharing
from leadline.units import parse_duration, parse_size


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than zero")
    return value


Size = Annotated[int, BeforeValidator(parse_size), AfterValidator(_positive)]
Duration = Annotated[float, BeforeValidator(parse_duration)]
Runtime = Annotated[float, BeforeValidator(parse_duration), AfterValidator(_positive)]


def _number(value: object) -> float:
    """`50%` or 0.5."""
    text = str(value).strip()
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a share; write for instance 50%") from error


def _share(value: object) -> float:
    share = _number(value)
    if not 0 < share <= 1.5:
        raise ValueError(f"{str(value)!r} is not between 0 and 150 % of the peak")
    return share


def _change(value: object) -> float:
    change = _number(value)
    if not MARGIN < change <= 1:
        raise ValueError(
            f"{str(value)!r} is not between {MARGIN:.0%}, within which a change counts as none, "
            "and 100 %"
        )
    return change


def _margin(value: object) -> float:
    margin = _number(value)
    if not 0 < margin < 1:
        raise ValueError(f"{str(value)!r} is not between 0 and 100 %")
    return margin


def _futility(value: object) -> float:
    chance = _number(value)
    if not 0 <= chance < 1:
        raise ValueError(f"{str(value)!r} is not from 0 to less than 100 %")
    return chance


def _limit(value: object) -> object:
    return parse_latency_limit(value) if isinstance(value, str) else value


Rate = Annotated[float, Field(gt=0, le=1e9)]
Clients = Annotated[int, Field(ge=1, le=1024)]


class LevelDocument(Model):
    """A load level. `rate` is what each client offers in I/Os per second, `neighbours` how many
    more clients do what the workload's `neighbour` says at the same time."""

    iodepth: int | None = Field(default=None, ge=1, le=65536)
    numjobs: int | None = Field(default=None, ge=1, le=4096)
    clients: Clients | None = None
    rate: Rate | None = None
    neighbours: int | None = Field(default=None, ge=0, le=1024)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"a level needs one at least of {', '.join(type(self).model_fields)}")
        return self


class DensityDocument(Model):
    """How many clients at `rate` I/Os per second each are carried within `limit` (`p99<5ms`)? Up
    to `most` are tried."""

    rate: Rate
    limit: Annotated[LatencyLimit, BeforeValidator(_limit)]
    most: Clients = 64


class PhaseDocument(Model):
    name: Name | None = None
    pattern: Pattern
    block_size: Size | None = None
    iodepth: int | None = Field(default=None, ge=1, le=65536)
    numjobs: int | None = Field(default=None, ge=1, le=4096)
    size: Size | None = None
    read_share: int | None = Field(default=None, ge=1, le=99)
    fsync: int | None = Field(default=None, ge=0)
    sharing: Sharing | None = None


class DefaultsDocument(Model):
    """Settings that a plan gives to every workload that does not set them itself."""

    block_size: Size | None = None
    iodepth: int | None = Field(default=None, ge=1, le=65536)
    numjobs: int | None = Field(default=None, ge=1, le=4096)
    clients: Clients | None = None
    size: Size | None = None
    runtime: Runtime | None = None
    ramp: Duration | None = None
    engine: EngineChoice | None = None
    direct: bool | None = None


class WorkloadDocument(DefaultsDocument):
    """A workload, done on all targets of the plan, or on those that `targets` names."""

    name: Name
    description: str = ""
    pattern: Pattern | None = None
    read_share: int | None = Field(default=None, ge=1, le=99)
    fsync: int | None = Field(default=None, ge=0)
    sharing: Sharing | None = None
    phases: tuple[PhaseDocument, ...] = ()
    levels: tuple[LevelDocument, ...] = ()
    neighbour: PhaseDocument | None = None
    open_loop: tuple[Annotated[float, BeforeValidator(_share)], ...] = ()
    density: DensityDocument | None = None
    job_file: str | None = None
    targets: tuple[str, ...] = ()

    @field_validator("targets", mode="before")
    @classmethod
    def _one_target(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [
            key for key in ("pattern", "phases", "job_file") if getattr(self, key) not in (None, ())
        ]
        if len(given) != 1:
            found = "none of them" if not given else " and ".join(given)
            raise ValueError(f"needs exactly one of pattern, phases and job_file; has {found}")
        if self.job_file is not None:
            other = self.model_fields_set - {"name", "description", "job_file", "targets"}
            if other:
                raise ValueError(
                    f"{', '.join(sorted(other))} has no effect next to job_file; set it in the job "
                    "file"
                )
        self._fits_its_levels()
        ops = [op for phase in self.phases for op in phase.pattern.ops]
        if len(ops) != len(set(ops)):
            raise ValueError(
                "two phases do the same operation, so their figures would be mixed; make them two "
                "workloads"
            )
        return self

    def _fits_its_levels(self) -> None:
        driven = any(level.neighbours for level in self.levels)
        if driven and self.neighbour is None:
            raise ValueError("levels with neighbours need `neighbour`, which describes their I/O")
        if self.neighbour is not None and not driven:
            raise ValueError("`neighbour` has an effect in levels with neighbours only")
        closed = not self.levels or any(level.rate is None for level in self.levels)
        if self.open_loop and not closed:
            raise ValueError("open_loop needs levels without a rate, whose peak it is shares of")
        if len(self.phases) > 1 and (self.open_loop or self.density):
            raise ValueError(
                "open_loop and density need one pattern; phases that run one after the other have "
                "a peak each: make them workloads"
            )


# Which of the two a plan's `lab` is; pydantic puts them into the path of an error.
LAB_TAGS = ("the name of a lab", "the description of a lab")


def _lab_tag(value: object) -> str:
    return LAB_TAGS[isinstance(value, dict)]


# Each takes a thread and a connection.
_MOST_HOSTS = 64


class ClusterDocument(Model):
    """One of `lab` (the name of one that is up, or the description of one to bring up for the
    run), `ceph_conf` with `keyring` and `id` (a name without `client.`), and `kubernetes`.
    `prometheus` has the counters of the storage's hosts and daemons, or these are read by ssh on
    `hosts`."""

    ceph_conf: str | None = None
    keyring: str | None = None
    id: str | None = None
    lab: (
        Annotated[
            Annotated[Name, Tag(LAB_TAGS[0])] | Annotated[LabDocument, Tag(LAB_TAGS[1])],
            Discriminator(_lab_tag),
        ]
        | None
    ) = None
    kubernetes: KubernetesCluster | None = None
    prometheus: StorageMonitoring | None = None
    hosts: Annotated[tuple[str, ...], Field(max_length=_MOST_HOSTS)] = ()

    @field_validator("hosts")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_hosts(value)
        return value

    @field_validator("kubernetes", mode="before")
    @classmethod
    def _defaults(cls, value: object) -> object:
        """`kubernetes:` with nothing behind it is kubectl's own choice of a cluster."""
        return {} if value is None else value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = (self.lab, self.ceph_conf, self.kubernetes)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("needs exactly one of lab, ceph_conf and kubernetes")
        if self.ceph_conf is None and (self.keyring or self.id):
            raise ValueError("keyring and id belong to ceph_conf; a lab has its own")
        sources = [key for key in ("prometheus", "hosts") if getattr(self, key)]
        if self.lab is not None and sources:
            raise ValueError(
                f"{sources[0]} is for other clusters: a lab's daemons are on this machine"
            )
        if len(sources) > 1:
            raise ValueError(
                "needs one of prometheus and hosts: both would count each daemon twice"
            )
        if self.kubernetes is not None and self.hosts:
            raise ValueError("hosts belong to ceph_conf; use prometheus for kubernetes")
        return self


def _as_text(value: object) -> object:
    """YAML makes numbers and truth values of `1` and `yes`; a label is a word."""
    if not isinstance(value, dict):
        return value
    return {
        str(key): str(label).lower() if isinstance(label, bool | int | float) else label
        for key, label in value.items()
    }


LabelWord = Annotated[str, Field(pattern=LABEL_WORD)]
Labels = Annotated[dict[LabelWord, LabelWord], BeforeValidator(_as_text)]


class TargetDocument(Model):
    """A target on each of `clusters`, or on the plan's only one. An `optional` target that cannot
    be used is left out, with the reason in the archive. `labels` say what sets it apart
    (`{cores: 1}`), so that `leadline compare --by label` can compare groups. `copies`: how often
    its storage keeps each byte, for the budget."""

    target: str
    name: Name | None = None
    clusters: tuple[Name, ...] = ()
    optional: bool = False
    labels: Labels = Field(default_factory=dict)
    copies: float | None = Field(default=None, gt=0, le=100)

    @field_validator("target")
    @classmethod
    def _url(cls, value: str) -> str:
        parse_target_url(value)
        return value

    @field_validator("clusters", mode="before")
    @classmethod
    def _one_cluster(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _on_ceph(self) -> Self:
        if self.clusters and not parse_target_url(self.target).kind.on_cluster:
            raise ValueError(f"{self.target!r} lies on this machine, not on a cluster")
        return self


class BudgetDocument(Model):
    """The most that the run may hold at the same time: targets are acquired and released in groups
    within it. `capacity` are the bytes of the requested volumes, `written` those of the data in
    them, both times `copies` of the target."""

    capacity: Size | None = None
    written: Size | None = None
    cores: Annotated[float, BeforeValidator(parse_cpu), Field(gt=0, le=1e6)] | None = None
    volumes: int | None = Field(default=None, ge=1, le=100_000)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"needs one at least of {', '.join(type(self).model_fields)}")
        return self


class DetectDocument(Model):
    """The change of a rate that the run is to find: `leadline run` sets the repeats of each cell by
    it. `like` is an earlier run that shows the scatter."""

    change: Annotated[float, BeforeValidator(_change)]
    like: str = Field(default="", max_length=300)
    most: int = Field(default=30, ge=2, le=1000)


class StopDocument(Model):
    """The run ends when each rate is shown to differ from that of `baseline`, a target or cluster,
    or to be the same `within` a margin. `repeats` are the trials before the first look."""

    compare: Literal["target", "cluster"] | None = None
    baseline: str | None = Field(default=None, max_length=300)
    within: Annotated[float, BeforeValidator(_margin)] = MARGIN
    max_repeats: int = Field(default=12, ge=2, le=100)
    futility: Annotated[float, BeforeValidator(_futility)] = 0.2
    max_time: Runtime | None = None


class ProfileDocument(Model):
    """A built-in profile: a named set of workloads in a data file."""

    name: Name
    description: str
    source: str = ""
    defaults: DefaultsDocument = DefaultsDocument()
    workloads: tuple[WorkloadDocument, ...] = Field(min_length=1)


class PlanDocument(Model):
    """A plan file. `labels` are those of every target: what sets this run apart from others.
    `matrix` multiplies targets and workloads, `settings` measures each target in further states by
    `design`, `budget` limits what is held at the same time, `guard` protects a system that other
    people use, `drill` is an event in every trial."""

    leadline: Literal[1] = 1
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")] | None = None
    description: str = ""
    clusters: dict[Name, ClusterDocument] = Field(default_factory=dict)
    labels: Labels = Field(default_factory=dict)
    targets: tuple[TargetDocument, ...]
    matrix: dict[LabelWord, Dimension] = Field(default_factory=dict)
    settings: dict[LabelWord, Setting] = Field(default_factory=dict)
    design: Design = Design.ONE_AT_A_TIME
    budget: BudgetDocument | None = None
    guard: Guard | None = None
    drill: Drill | None = None
    profile: tuple[str, ...] = ()
    defaults: DefaultsDocument = DefaultsDocument()
    workloads: tuple[WorkloadDocument, ...] = ()
    expect: tuple[Expectation, ...] = Field(default=(), max_length=100)
    repeats: int = Field(default=3, ge=1, le=1000)
    detect: DetectDocument | None = None
    stop: StopDocument | None = None
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1)
    prefill: bool = True
    drop_caches: bool = True
    grace: Duration = 10.0

    @field_validator("detect", mode="before")
    @classmethod
    def _short_detect(cls, value: object) -> object:
        return {"change": value} if isinstance(value, str | float) else value

    @field_validator("stop", mode="before")
    @classmethod
    def _short_stop(cls, value: object) -> object:
        """`stop: true` and `stop:` with nothing behind it are all defaults."""
        return {} if value in (None, True) else None if value is False else value

    @field_validator("settings", mode="before")
    @classmethod
    def _named_settings(cls, value: object) -> object:
        """The key is the setting's name."""
        if not isinstance(value, dict):
            return value
        return {
            key: {**item, "name": str(key)} if isinstance(item, dict) else item
            for key, item in value.items()
        }

    @field_validator("targets", mode="before")
    @classmethod
    def _short_targets(cls, value: object) -> object:
        if isinstance(value, list):
            return [{"target": item} if isinstance(item, str) else item for item in value]
        return value

    @field_validator("targets")
    @classmethod
    def _some_target(cls, value: tuple[TargetDocument, ...]) -> tuple[TargetDocument, ...]:
        if not value:
            raise ValueError("names no target")
        return value

    @model_validator(mode="after")
    def _labels_agree(self) -> Self:
        for target in self.targets:
            own = {key: value for key, value in target.labels.items() if key in self.labels}
            if own != {key: self.labels[key] for key in own}:
                raise ValueError(
                    f"target {target.name or target.target!r} has the labels {labels_text(own)}, "
                    f"and all targets of the plan {labels_text(self.labels)}"
                )
        return self

    @field_validator("matrix")
    @classmethod
    def _dimensions_agree(cls, value: dict[str, Dimension]) -> dict[str, Dimension]:
        for name, fact in matrix_faults(value):
            raise ValueError(f"the dimension {name!r} {fact}" if name else f"the matrix {fact}")
        return value

    @field_validator("profile", "expect", mode="before")
    @classmethod
    def _one_word(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value
