"""The expanded plan: targets, workloads, cells and trials.

All models are frozen; sizes are in bytes, durations in seconds. The archive stores them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from leadline import errors
from leadline.errors import LeadlineError
from leadline.metrics import Metric
from leadline.plan.base import Model, Name, is_empty, is_unset
from leadline.plan.expectations import Expectation
from leadline.plan.facts import GivenFacts, TargetFacts
from leadline.plan.guard import Guard
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.lab import LabDescription
from leadline.plan.prometheus import StorageMonitoring
from leadline.plan.settings import Design, Setting
from leadline.plan.stop import Stop
from leadline.plan.target_url import TargetKind, TargetUrl, parse_target_url
from leadline.plan.workload import (
    Load,
    Workload,
)
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


class LatencyLimit(Model):
    """`metric` must be less than `below_s` seconds."""

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
    prometheus: StorageMonitoring | None = Field(default=None, exclude_if=is_unset)
    hosts: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)
    facts: GivenFacts | None = Field(default=None, exclude_if=is_unset)


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
    facts: TargetFacts | None = Field(default=None, exclude_if=is_unset)
    copies: float | None = Field(default=None, gt=0, le=100, exclude_if=is_unset)
    settings: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    base: str = Field(default="", exclude_if=is_empty)

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


_Part = TypeVar("_Part", Cluster, Target, Setting)


def _named(parts: Sequence[_Part], name: str, noun: str) -> _Part:
    for part in parts:
        if part.name == name:
            return part
    # Of an untrusted archive, whose parts may not fit together.
    raise LeadlineError(errors.PLAN_INVALID, f"the plan has no {noun} {name!r}")


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
    expect: tuple[Expectation, ...] = Field(default=(), exclude_if=is_empty)
    detect: Detect | None = Field(default=None, exclude_if=is_unset)
    stop: Stop | None = Field(default=None, exclude_if=is_unset)
    budget: Budget | None = Field(default=None, exclude_if=is_unset)
    groups: tuple[Group, ...] = Field(default=(), exclude_if=is_empty)
    guard: Guard | None = Field(default=None, exclude_if=is_unset)
    settings: tuple[Setting, ...] = Field(default=(), exclude_if=is_empty)
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
        """Return a setting by its name. Raises LeadlineError(`plan-invalid`)."""
        return _named(self.settings, name, "setting")

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
        """Return a cluster by its name. Raises LeadlineError(`plan-invalid`)."""
        return _named(self.clusters, name, "cluster")

    def target(self, name: str) -> Target:
        """Return a target by its name. Raises LeadlineError(`plan-invalid`)."""
        return _named(self.targets, name, "target")

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
