"""Records of the volume lifecycle engine for a trial: what a Kubernetes API server reported.

`volume-lifecycle.json` holds the request and the class. `volume-lifecycle.jsonl` holds what the
coordinator asked of the API, what its watches received, and the first I/O of each volume as its pod
reports it. All durations are computed from these lines.

`at_s` is the coordinator's monotonic clock, in seconds since the trial began. A watch reports a
change one network latency after it. Times of the API server have a resolution of one second and are
used for the offset of its clock only. The first I/O is timed by the clock of the node, or of the
guest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from leadline.files import read_content
from leadline.formats.json_lines import parse_document, parse_lines
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Operation,
)
from leadline.metrics import STAGES, Op
from leadline.stats.histogram import LatencyHistogram

TOOL: Final = "volume lifecycle"
ENGINE: Final = "volume-lifecycle"
RECORD_FILE: Final = "volume-lifecycle.json"
EVENTS_FILE: Final = "volume-lifecycle.jsonl"
# The API server writes times in whole seconds.
SERVER_RESOLUTION_S: Final = 1.0
_DAY_S: Final = 86_400

Seconds = Annotated[float, Field(ge=0, le=30 * _DAY_S)]
Epoch = Annotated[float, Field(ge=0, le=1e11)]
Number = Annotated[int, Field(ge=1, le=4096)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Role(StrEnum):
    """Where the data of a volume comes from: nowhere, a snapshot, or another volume."""

    NEW = "new"
    RESTORED = "restored"
    CLONED = "cloned"


class Kind(StrEnum):
    """Kinds of objects that are watched."""

    CLAIM = "claim"
    VOLUME = "volume"
    ATTACHMENT = "attachment"
    POD = "pod"
    MACHINE = "machine"
    SNAPSHOT = "snapshot"


class LifecycleRequest(_Model):
    """The request of a trial: `volumes` at once, with `data_bytes` in each."""

    name: str
    volumes: Number
    data_bytes: int = Field(ge=0)

    def text(self) -> str:
        return self.model_dump_json(indent=2) + "\n"


class LifecycleRecord(_Model):
    """The request, the class, and the stages that the class does not support, with the reason.
    `runner` is what does the first I/O of a new volume. `began_at` is the coordinator's time of day
    at `at_s` 0."""

    schema_: Literal["leadline/volume-lifecycle/1"] = Field(
        default="leadline/volume-lifecycle/1", alias="schema"
    )
    request: LifecycleRequest
    runner: Literal["pod", "vm"] = "pod"
    storage_class: str
    provisioner: str
    immediate: bool
    mode: str
    size_bytes: int = Field(gt=0)
    snapshot_class: str = ""
    began_at: Epoch
    unsupported: dict[Op, str] = Field(default_factory=dict)

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )

    def text(self) -> str:
        return self.model_dump_json(indent=1, by_alias=True) + "\n"


class _Line(_Model):
    at_s: Seconds

    def text(self) -> str:
        return self.model_dump_json(exclude_defaults=True) + "\n"


class Probe(_Line):
    """A read of the API that was answered at `answered_s`: the resolution of its watches."""

    line: Literal["probe"]
    answered_s: Seconds


class _OfVolume(_Line):
    role: Role
    volume: Number


class Asked(_OfVolume):
    """A request about an object, and its answer. `created_s` is the server's creation time."""

    line: Literal["asked"]
    verb: Literal["create", "expand", "delete"]
    kind: Kind
    answered_s: Seconds
    created_s: Epoch | None = None


class Seen(_OfVolume):
    """A change of an object that a watch reported, with the fields that the stages depend on."""

    line: Literal["seen"]
    kind: Kind
    change: Literal["added", "modified", "deleted"]
    facts: dict[str, str | int | bool] = Field(default_factory=dict)


class FirstIo(_OfVolume):
    """A pod's or guest's report of its first I/O, asked for at `at_s`; the begin of the answer came
    at `answered_s`. The other times are those of the node or the guest: start of the process, end
    of the first durable write or of the first read of a copy, and begin of the answer. The last one
    comes from a guest's uptime, since a guest may set its clock after its boot; `uptime_s` is the
    time from the start of its kernel to the start of the process."""

    line: Literal["first-io"]
    answered_s: Seconds
    started_s: Epoch
    done_s: Epoch
    now_s: Epoch
    uptime_s: Epoch | None = None


class Failed(_OfVolume):
    """A volume that did not get through a stage, and what the cluster says of it."""

    line: Literal["failed"]
    stage: Op
    reason: str


Line = Annotated[Probe | Asked | Seen | FirstIo | Failed, Field(discriminator="line")]
_LINE: Final[TypeAdapter[Line]] = TypeAdapter(Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One volume in one stage. Begin and end are on the coordinator's clock, None where the stage
    was timed by a node's clock."""

    volume: int
    seconds: float
    begin_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class LifecycleReport:
    """A trial's record and lines."""

    record: LifecycleRecord
    lines: tuple[Line, ...]

    @cached_property
    def stages(self) -> Mapping[Op, tuple[Sample, ...]]:
        """The samples of each stage that at least one volume passed, in the order of stages."""
        found = {stage: tuple(_samples(self, stage)) for stage in STAGES}
        return {stage: samples for stage, samples in found.items() if samples}

    @cached_property
    def failures(self) -> Mapping[Op, tuple[Failed, ...]]:
        found: dict[Op, list[Failed]] = {}
        for line in self.lines:
            if isinstance(line, Failed):
                found.setdefault(line.stage, []).append(line)
        return {stage: tuple(lines) for stage, lines in found.items()}

    @cached_property
    def resolution_s(self) -> float | None:
        """The median round trip of the API: its watches cannot resolve shorter times."""
        probes = [line.answered_s - line.at_s for line in self.lines if isinstance(line, Probe)]
        return median(probes) if probes else None

    @cached_property
    def server_offset_s(self) -> tuple[float, float] | None:
        """The range in which the API server's clock is ahead of the coordinator's, from the
        creation times of objects: whole seconds, between request and answer."""
        low, high = -math.inf, math.inf
        for line in self.lines:
            if isinstance(line, Asked) and line.created_s is not None:
                began = self.record.began_at
                low = max(low, line.created_s - (began + line.answered_s))
                high = min(high, line.created_s + SERVER_RESOLUTION_S - (began + line.at_s))
        return (low, high) if -math.inf < low <= high < math.inf else None

    @cached_property
    def timelines(self) -> Mapping[tuple[Role, int], Timeline]:
        found: dict[tuple[Role, int], list[Line]] = {}
        for line in self.lines:
            if isinstance(line, _OfVolume):
                found.setdefault((line.role, line.volume), []).append(line)
        return {key: Timeline(lines=tuple(lines)) for key, lines in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The lines of one volume, in the order of their time."""

    lines: tuple[Line, ...]

    def asked(self, verb: str, kind: Kind) -> float | None:
        """When the coordinator sent the first such request."""
        for line in self.lines:
            if isinstance(line, Asked) and (line.verb, line.kind) == (verb, kind):
                return line.at_s
        return None

    def seen(self, kind: Kind, test: Callable[[Seen], bool], after_s: float = 0.0) -> float | None:
        """When a watch first reported that an object is so."""
        for line in self.lines:
            if (
                isinstance(line, Seen)
                and line.kind is kind
                and line.at_s >= after_s
                and line.change != "deleted"
                and test(line)
            ):
                return line.at_s
        return None

    def gone(self, kind: Kind) -> float | None:
        """When a watch reported that the last object of the kind is gone."""
        for line in reversed(self.lines):
            if isinstance(line, Seen) and line.kind is kind:
                return line.at_s if line.change == "deleted" else None
        return None

    @property
    def first_io(self) -> FirstIo | None:
        return next((line for line in self.lines if isinstance(line, FirstIo)), None)


def _samples(report: LifecycleReport, stage: Op) -> Iterator[Sample]:
    """Yield a sample for each volume that passed a stage."""
    failed = {(line.role, line.volume) for line in report.failures.get(stage, ())}
    for (role, volume), timeline in sorted(report.timelines.items()):
        if role is not _ROLES.get(stage, Role.NEW) or (role, volume) in failed:
            continue
        if stage is Op.FIRST_IO:
            done = timeline.first_io
            if done is not None and done.done_s >= done.started_s:
                yield Sample(volume=volume, seconds=done.done_s - done.started_s)
            continue
        begin_s, end_s = _SPANS[stage](timeline, report.record)
        if begin_s is not None and end_s is not None:
            # Two watches may report in the other order: the change took less than they resolve.
            seconds = max(0.0, end_s - begin_s)
            yield Sample(volume=volume, seconds=seconds, begin_s=begin_s, end_s=end_s)


_ROLES: Final = {Op.RESTORE: Role.RESTORED, Op.CLONE: Role.CLONED}
_Span = tuple[float | None, float | None]


def _wanted(timeline: Timeline, record: LifecycleRecord) -> float | None:
    """When the provisioner could begin: at the request, or when the scheduler chose a node."""
    if record.immediate:
        return timeline.asked("create", Kind.CLAIM)
    return timeline.seen(Kind.CLAIM, lambda line: line.facts.get("node_selected") is True)


def _bound(timeline: Timeline) -> float | None:
    return timeline.seen(Kind.CLAIM, lambda line: line.facts.get("phase") == "Bound")


def _made(timeline: Timeline) -> float | None:
    return timeline.seen(Kind.VOLUME, lambda line: True)


def _attached(timeline: Timeline) -> float | None:
    return timeline.seen(Kind.ATTACHMENT, lambda line: line.facts.get("attached") is True)


def _mount(timeline: Timeline, record: LifecycleRecord) -> _Span:
    placed = timeline.seen(Kind.POD, lambda line: bool(line.facts.get("node")))
    running = timeline.seen(Kind.POD, lambda line: line.facts.get("running") is True)
    known = [at for at in (_bound(timeline), placed, _attached(timeline)) if at is not None]
    return max(known, default=None), running


def _machine_runs(timeline: Timeline) -> float | None:
    return timeline.seen(Kind.MACHINE, lambda line: line.facts.get("phase") == "Running")


def _vm_start(timeline: Timeline, record: LifecycleRecord) -> _Span:
    return _mount(timeline, record)[1], _machine_runs(timeline)


def _vm_boot(timeline: Timeline, record: LifecycleRecord) -> _Span:
    done = timeline.first_io
    return _machine_runs(timeline), _answered(done) + done.started_s - done.now_s if done else None


def _answered(done: FirstIo) -> float:
    """When a pod or guest read its clock for the answer, on the coordinator's clock."""
    return (done.at_s + done.answered_s) / 2


def uncertainty_s(timeline: Timeline) -> float:
    """The uncertainty of what a pod's or guest's clock times, on the coordinator's clock: it was
    read between request and answer."""
    done = timeline.first_io
    return (done.answered_s - done.at_s) / 2 if done else 0.0


def _ready(timeline: Timeline, record: LifecycleRecord) -> _Span:
    done = timeline.first_io
    at = _answered(done) + done.done_s - done.now_s if done else None
    return timeline.asked("create", Kind.CLAIM), at


def _expand(timeline: Timeline, record: LifecycleRecord) -> _Span:
    asked = timeline.asked("expand", Kind.CLAIM)
    if asked is None:
        return None, None

    def grown(line: Seen) -> bool:
        capacity = line.facts.get("capacity_bytes")
        return isinstance(capacity, int) and capacity > record.size_bytes

    return asked, timeline.seen(Kind.CLAIM, grown, asked)


def _copy(timeline: Timeline, record: LifecycleRecord) -> _Span:
    return _wanted(timeline, record), _bound(timeline)


_SPANS: Final[Mapping[Op, Callable[[Timeline, LifecycleRecord], _Span]]] = {
    Op.READY: _ready,
    Op.PROVISION: lambda timeline, record: (_wanted(timeline, record), _made(timeline)),
    Op.BIND: lambda timeline, record: (_made(timeline), _bound(timeline)),
    Op.ATTACH: lambda timeline, record: (
        timeline.seen(Kind.ATTACHMENT, lambda line: True),
        _attached(timeline),
    ),
    Op.MOUNT: _mount,
    Op.VM_START: _vm_start,
    Op.VM_BOOT: _vm_boot,
    Op.EXPAND: _expand,
    Op.SNAPSHOT: lambda timeline, record: (
        timeline.asked("create", Kind.SNAPSHOT),
        timeline.seen(Kind.SNAPSHOT, lambda line: line.facts.get("ready") is True),
    ),
    Op.RESTORE: _copy,
    Op.CLONE: _copy,
    Op.DELETE: lambda timeline, record: (
        timeline.asked("delete", Kind.CLAIM),
        timeline.gone(Kind.CLAIM),
    ),
    Op.RECLAIM: lambda timeline, record: (timeline.gone(Kind.CLAIM), timeline.gone(Kind.VOLUME)),
}


def parse_lifecycle_request(content: bytes) -> LifecycleRequest:
    """Raises FormatError with the place of the first fault."""
    return parse_document(content, LifecycleRequest, "the request for volumes")


def parse_volume_lifecycle(content: bytes, events: bytes) -> LifecycleReport:
    """Parse a trial's record and its lines. Raises FormatError: `empty-result` where no volume got
    through any stage."""
    if not content.strip():
        raise FormatError.empty(f"the record of {TOOL} is empty")
    record = parse_document(content, LifecycleRecord, RECORD_FILE)
    # Several threads write the lines.
    lines = sorted(
        (line for _, line in parse_lines(events, _LINE, EVENTS_FILE)), key=lambda line: line.at_s
    )
    report = LifecycleReport(record=record, lines=tuple(lines))
    if not report.stages:
        raise FormatError.empty("no volume got through any stage")
    return report


def read_volume_lifecycle(folder: Path) -> LifecycleReport | None:
    """Read the records in the folder of a trial; None for a trial of another engine. Raises
    FormatError."""
    try:
        return parse_volume_lifecycle(
            read_content(folder / RECORD_FILE), read_content(folder / EVENTS_FILE)
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError.unreadable(
            f"{error.filename} cannot be read: {error.strerror}"
        ) from error


def read_lifecycle_output(folder: Path) -> EngineOutput:
    """Read the records as results: an operation for each stage, whose I/Os are volumes. Raises
    FormatError."""
    report = read_volume_lifecycle(folder)
    if report is None:
        raise FormatError.empty(f"{TOOL} left no {RECORD_FILE}")
    return lifecycle_output(report)


def lifecycle_output(report: LifecycleReport) -> EngineOutput:
    """Return the stages as operations of one job."""
    request = report.record.request
    job = JobResult(
        name=request.name,
        # fio's defaults are not those of a lifecycle.
        options=JobOptions(raw={"ioengine": ENGINE}, whole=False),
        job_runtime_s=max(line.at_s for line in report.lines),
        operations=tuple(_operation(stage, samples) for stage, samples in report.stages.items()),
    )
    return EngineOutput(version=TOOL, timestamp_s=report.record.began_at, jobs=(job,))


def _operation(stage: Op, samples: Sequence[Sample]) -> Operation:
    seconds = [sample.seconds for sample in samples]
    begins = [sample.begin_s for sample in samples if sample.begin_s is not None]
    ends = [sample.end_s for sample in samples if sample.end_s is not None]
    whole_s = max(ends) - min(begins) if begins and ends else 0.0
    bins: dict[int, int] = {}
    for value in seconds:
        nanoseconds = round(value * 1e9)
        bins[nanoseconds] = bins.get(nanoseconds, 0) + 1
    return Operation(
        op=stage,
        iops=len(samples) / whole_s if whole_s > 0 else None,
        total_ios=len(samples),
        runtime_s=whole_s if whole_s > 0 else None,
        total=Latency(
            min_s=min(seconds),
            max_s=max(seconds),
            mean_s=fmean(seconds),
            stddev_s=pstdev(seconds),
            count=len(seconds),
            histogram=LatencyHistogram.from_bins(bins),
        ),
    )
