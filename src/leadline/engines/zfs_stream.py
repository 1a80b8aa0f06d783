"""The zfs stream engine: `zfs send | zfs receive` of a snapshot of the target's own data, through
a bounded pipe that measures its stalls, into a dataset beside it.

What is counted, and why it is asked of ZFS in this way, is in docs/internals/zfs-stream.md.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.connect import programs
from leadline.engines import bounded_pipe, file_digests
from leadline.engines.ceph_bench import Invocations
from leadline.errors import LeadlineError
from leadline.formats.result import FormatError
from leadline.formats.zfs.stream import (
    RECORD_FILE,
    SAMPLES_FILE,
    Stream,
    StreamedFile,
    StreamRecord,
    StreamRequest,
    parse_stream_request,
)
from leadline.plan.footprint import Footprint
from leadline.plan.models import Workload
from leadline.plan.target_url import TargetKind
from leadline.probes.zfs import suspended_below
from leadline.runner.events import StopRequest
from leadline.runner.ports import Dataset, Execution, Folder, Job, Location, Progress
from leadline.units import format_size

# Why a job on a pool of ZFS hangs, or fails.


def suspension_named(problem: Problem, location: Location) -> Problem:
    """The problem of a job, with its reason and what helps where the pool of ZFS that it works on
    is suspended: what was begun hangs then, or fails with ENXIO."""
    pool = suspended_below(location.path) if isinstance(location, Folder) else ""
    if not pool:
        return problem
    why = programs.suspended_error(pool)
    return problem.model_copy(update={"fact": f"{problem.fact}; {why.fact}", "hint": why.hint})


BUFFER_BYTES = 16 << 20
SAMPLE_S = 0.2
# Behind it a stream needs `-L`, or its records are cut into pieces of this size.
_LARGEST_WITHOUT_FLAG = 128 << 10
# What is verified is read from a target that may be as slow as one that is prefilled.
_SLOWEST_BPS = 2 << 20
_LEAST_BOUND_S = 120.0
# A dataset is busy for a while behind its reception, and behind its last reader.
_BUSY_S = 30.0
_AGAIN_S = 0.25
# A pool that let a trial hang answers nothing; it is asked once.
_HUNG_S = 5.0
# Streams that are short beside their verification must not make a trial endless.
_MOST_WALL = 6.0
# What ZFS says, what it means, and what helps.
_MEANINGS = (
    ("out of space", errors.TARGET_FULL, "a copy of the data needs room in the pool beside it"),
    ("quota exceeded", errors.TARGET_FULL, "a copy of the data counts for the dataset's quota"),
    ("suspended", errors.ZPOOL_UNFIT, "`zpool status` says why; then `zpool clear`"),
    ("Input/output error", errors.ENGINE_FAILED, "`zpool status -v` tells what is damaged"),
    ("permission denied", errors.TARGET_READ_ONLY, "run Leadline as root"),
)


class ZfsStreamEngine:
    """`zfs` of this machine."""

    name = "zfs stream"

    @cached_property
    def version(self) -> str:
        """As `zfs version` tells: `zfs-2.3.2-2`; zfs-fuse has no such command."""
        path = programs.find("zfs")
        if path is None:
            return ""
        status, out, _ = programs.run(path, "version", bound_s=_LEAST_BOUND_S)
        if status == 0 and out.strip():
            return out.splitlines()[0].strip()
        return "zfs-fuse" if programs.is_zfs_fuse() else ""

    def check(self, workload: Workload, kind: TargetKind) -> None:
        if programs.find("zfs") is None:
            raise LeadlineError(
                errors.ZFS_MISSING,
                "there is no 'zfs' on this machine",
                hint=f"install {programs.GET_ZFS}",
            )

    def likely(self, workload: Workload, location: Location) -> Workload:
        return workload

    def resolve(self, workload: Workload, location: Location) -> Workload:
        return workload

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        (phase,) = workload.phases
        return StreamRequest(
            name=phase.name,
            size_bytes=phase.size,
            runtime_s=workload.runtime_s,
            ramp_s=workload.ramp_s,
            buffer_bytes=BUFFER_BYTES,
            sample_s=SAMPLE_S,
        ).text()

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        raise LeadlineError(errors.ENGINE_UNKNOWN, "zfs stream lays out no data; fio does")

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The first pipeline, with words for the snapshot's name."""
        dataset = _dataset(job.location)
        return (*_send(f"{dataset.name}@leadline-TOKEN", None), "|", *_receive(dataset))

    def execute(
        self,
        job: Job,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        invocations = Invocations(job=job, folder=folder, stop=stop, tool=self.name)
        try:
            request, dataset = parse_stream_request(job.text.encode()), _dataset(job.location)
        except (FormatError, LeadlineError) as error:
            invocations.fail(error.fact, hint="this is a fault of Leadline's; please report it")
            return invocations.execution()
        streams = _Streams(invocations, request, dataset, self.version)
        try:
            streams.run()
        except LeadlineError as error:
            _fail(invocations, error)
        finally:
            streams.tidy()
        return invocations.execution()


class _Streams:
    """The streams of one trial, and what has to be tidied up behind them."""

    def __init__(
        self, invocations: Invocations, request: StreamRequest, dataset: Dataset, version: str
    ) -> None:
        self.invocations = invocations
        self.request = request
        self.dataset = dataset
        self.snapshot = f"{dataset.name}@leadline-{secrets.token_hex(4)}"
        self.version = version
        self.record_bytes: int | None = None
        self.streams: list[Stream] = []
        self._sent: dict[str, str] = {}
        self._sizes: dict[str, int] = {}

    def run(self) -> None:
        """Whole streams until those behind the ramp have taken the runtime. Raises LeadlineError;
        what ended otherwise is told by the invocations."""
        _destroy(self.dataset.received)
        self.record_bytes = int(_value("recordsize", self.dataset.name))
        programs.ask("taking a snapshot", "zfs", "snapshot", self.snapshot)
        asked, began = self.request, time.monotonic()
        most_s = _MOST_WALL * (asked.runtime_s + asked.ramp_s) + _LEAST_BOUND_S
        ramped_s = counted_s = 0.0
        while counted_s < asked.runtime_s and time.monotonic() - began < most_s:
            counted = ramped_s >= asked.ramp_s
            spent_s = sum(one.seconds for one in self.streams)
            one = self._stream(counted, bound_s=self.invocations.job.bound_s - spent_s)
            if one is None:
                return
            ramped_s += one.seconds
            counted_s += one.seconds if counted else 0.0
            verified = self._verified(one)
            if verified is None:
                return
            self.streams.append(verified)
            self._keep()
            if verified.difference:
                raise LeadlineError(
                    errors.STREAM_DIFFERS,
                    f"stream {one.number} of {self.dataset.name} was not received as it was sent",
                    context=[verified.difference],
                    hint="look at `zpool status -v` and at the system's log; no figure of this "
                    "trial is used",
                )
            _destroy(self.dataset.received)

    def _stream(self, counted: bool, *, bound_s: float) -> Stream | None:
        """One stream, measured and not yet verified; None where the job does not go on."""
        number = len(self.streams) + 1
        send, receive = _send(self.snapshot, self.record_bytes), _receive(self.dataset)
        # Any change of a property is a transaction of its own behind all earlier ones; unlike
        # `zpool sync` every release knows it.
        sync = (*_zfs("set"), f"leadline:received={number}", self.dataset.name)
        if counted and not self.invocations.commands:
            self.invocations.commands.append((*send, "|", *receive))
        asked = {
            "stream": number,
            "send": send,
            "receive": receive,
            "sync": sync,
            "buffer_bytes": self.request.buffer_bytes,
            "sample_s": self.request.sample_s,
        }
        lines = self._lines(bounded_pipe.__file__, orjson.dumps(asked).decode(), bound_s=bound_s)
        samples = [line for line in lines or () if "end" not in line]
        with (self.invocations.folder / SAMPLES_FILE).open("ab") as stream:
            stream.writelines(orjson.dumps(line) + b"\n" for line in samples)
        if lines is None:
            return None
        totals = lines[-1]["end"]
        del totals["statuses"]
        return Stream(
            number=number, counted=counted, send=send, receive=receive, sync=sync, **totals
        )

    def _verified(self, one: Stream) -> Stream | None:
        """The stream with the guids and digests of both sides; None where the job does not go
        on. What is sent does not change while a trial lasts, and is read once."""
        began = time.monotonic()
        received = self.dataset.received
        tag = self.snapshot.partition("@")[2]
        programs.ask("mounting what was received", "zfs", "mount", received)
        if not self._sent:
            sent = self._digests(self.dataset.path, leaving_out=self.dataset.received)
            if sent is None:
                return None
            self._require_data()
            self._sent = sent
        got = self._digests(Path(_value("mountpoint", received)))
        if got is None:
            return None
        files = tuple(
            StreamedFile(
                path=path,
                bytes=self._sizes.get(path, 0),
                sent=self._sent.get(path, ""),
                received=got.get(path, ""),
            )
            for path in sorted(self._sent.keys() | got.keys())
        )
        return one.model_copy(
            update={
                "guid": _value("guid", self.snapshot),
                "received_guid": _value("guid", f"{received}@{tag}"),
                "files": files,
                "verify_s": round(time.monotonic() - began, 6),
            }
        )

    def _require_data(self) -> None:
        there, asked = sum(self._sizes.values()), self.request.size_bytes
        if there < asked:
            raise LeadlineError(
                errors.PREFILL_FAILED,
                f"{self.dataset.name} holds {format_size(there)}, and streams of "
                f"{format_size(asked)} were asked for",
                hint="leave `prefill: true` in the plan: what is sent has to be there",
            )

    def _digests(self, folder: Path, leaving_out: str = "") -> dict[str, str] | None:
        """Digest by path; None where the job does not go on."""
        without = (leaving_out.rpartition("/")[2],) if leaving_out else ()
        bound_s = max(_LEAST_BOUND_S, self.request.size_bytes / _SLOWEST_BPS)
        lines = self._lines(file_digests.__file__, str(folder), *without, bound_s=bound_s)
        if lines is None:
            return None
        self._sizes |= {line["path"]: line["bytes"] for line in lines}
        return {line["path"]: line["blake2b"] for line in lines}

    def _lines(self, script: str, *arguments: str, bound_s: float) -> list[Any] | None:
        """The JSON lines of one of our own programs; None where it did not come to its end."""
        said = bytearray()
        command = (sys.executable, "-I", "-S", script, *arguments)
        going = self.invocations.run(command, on_output=said.extend, bound_s=max(0.0, bound_s))
        if not going:
            _name_cause(self.invocations)
            return None
        return [orjson.loads(line) for line in said.splitlines()]

    def _keep(self) -> None:
        record = StreamRecord(
            request=self.request,
            dataset=self.dataset.name,
            snapshot=self.snapshot,
            record_bytes=self.record_bytes,
            version=self.version,
            streams=tuple(self.streams),
        )
        (self.invocations.folder / RECORD_FILE).write_text(record.text(), encoding="utf-8")

    def tidy(self) -> None:
        """Remove what was received and the snapshot, on whichever way out. What cannot be removed
        is below the target's own dataset and goes with it, so that it is no fault of the trial."""
        hung = self.invocations.status is TrialStatus.HUNG or (
            self.invocations.status is TrialStatus.FAILED and not _answers(self.dataset.name)
        )
        for name in (self.dataset.received, self.snapshot):
            try:
                _destroy(name, bound_s=_HUNG_S if hung else _LEAST_BOUND_S)
            except LeadlineError as error:
                words = "; ".join([error.fact, *error.context])
                with (self.invocations.folder / layout.STDERR).open("a", encoding="utf-8") as said:
                    said.write(f"{name} could not be removed: {words}\n")


def _dataset(location: Location) -> Dataset:
    if not isinstance(location, Dataset):
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"zfs stream does no I/O on {location}")
    return location


def _zfs(*arguments: str) -> tuple[str, ...]:
    return (programs.find("zfs") or "zfs", *arguments)


def _send(snapshot: str, record_bytes: int | None) -> tuple[str, ...]:
    large = ("-L",) if record_bytes and record_bytes > _LARGEST_WITHOUT_FLAG else ()
    return (*_zfs("send"), *large, snapshot)


def _receive(dataset: Dataset) -> tuple[str, ...]:
    return (*_zfs("receive"), "-u", dataset.received)


def _value(name: str, of: str) -> str:
    """A property, sizes in bytes. Raises LeadlineError."""
    return programs.ask("looking at a stream", "zfs", "get", "-Hp", "-o", "value", name, of).strip()


def _answers(dataset: str) -> bool:
    """Whether ZFS says anything of a dataset, be it that there is none."""
    path = programs.find("zfs") or "zfs"
    asked = (path, "get", "-H", "-o", "value", "type", dataset)
    return programs.run(*asked, bound_s=_HUNG_S)[0] is not None


def _destroy(name: str, *, bound_s: float = _LEAST_BOUND_S) -> None:
    """Destroy a dataset or snapshot below the target's own, if it is there, as long as it is busy.
    Raises LeadlineError."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            programs.ask(
                "removing what was received", "zfs", "destroy", "-r", name, bound_s=bound_s
            )
        except LeadlineError as error:
            words = " ".join(error.context)
            if "does not exist" in words or "could not find any snapshots" in words:
                return
            if "busy" not in words or time.monotonic() > until:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def _fail(invocations: Invocations, error: LeadlineError) -> None:
    invocations.status = TrialStatus.FAILED
    invocations.problem = Problem(
        code=error.kind.code, fact=error.fact, context=error.context, hint=error.hint
    )


def _name_cause(invocations: Invocations) -> None:
    """The failure of a stream told by what ZFS said of it, where that is known."""
    problem = invocations.problem
    if problem is not None and invocations.status is TrialStatus.HUNG:
        invocations.problem = suspension_named(problem, invocations.job.location)
    if problem is None or invocations.status is not TrialStatus.FAILED:
        return
    said = " ".join(problem.context)
    for words, kind, hint in _MEANINGS:
        if words in said:
            invocations.problem = problem.model_copy(update={"code": kind.code, "hint": hint})
