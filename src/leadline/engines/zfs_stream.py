"""The zfs stream engine: `zfs send | zfs receive` of a snapshot of the target's data.

The stream goes through a bounded pipe that measures its stalls, into a child dataset. The method:
docs/internals/zfs-stream.md.
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
from leadline.archive.records import TrialStatus
from leadline.connect import programs
from leadline.engines import bounded_pipe, file_digests
from leadline.engines.invocations import Invocations
from leadline.engines.outcome import with_suspension
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
from leadline.runner.events import StopRequest
from leadline.runner.ports import Dataset, Execution, Job, Location, Progress
from leadline.units import format_size

BUFFER_BYTES = 16 << 20
SAMPLE_S = 0.2
# Larger records need `-L`, or the stream cuts them into pieces of this size.
_LARGEST_WITHOUT_FLAG = 128 << 10
# The bound for reading the data back assumes the slowest target that a prefill accepts.
_SLOWEST_BPS = 2 << 20
_LEAST_BOUND_S = 120.0
# A dataset stays busy for a while after it was received, and after its last reader.
_BUSY_S = 30.0
_RETRY_S = 0.25
# A pool on which a trial hung does not answer; it is asked once.
_HUNG_S = 5.0
# Limits a trial whose streams are short compared with their verification.
_MOST_WALL = 6.0
# Messages of ZFS, their meaning, and the hint.
_MEANINGS = (
    ("out of space", errors.TARGET_FULL, "a copy of the data needs free space in the pool"),
    ("quota exceeded", errors.TARGET_FULL, "a copy of the data counts for the dataset's quota"),
    ("suspended", errors.ZPOOL_UNFIT, "`zpool status` shows the reason; then `zpool clear`"),
    ("Input/output error", errors.ENGINE_FAILED, "`zpool status -v` shows what is damaged"),
    ("permission denied", errors.TARGET_READ_ONLY, "run Leadline as root"),
)


class ZfsStreamEngine:
    name = "zfs stream"

    @cached_property
    def version(self) -> str:
        """As `zfs version` prints it: `zfs-2.3.2-2`; zfs-fuse has no such command."""
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
        raise LeadlineError(errors.ENGINE_UNKNOWN, "zfs stream writes no prefill; fio does")

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The first pipeline, with a placeholder in the snapshot's name."""
        dataset = _dataset(job.location)
        return (*_send(f"{dataset.name}@leadline-TOKEN", None), "|", *_receive(dataset))

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        invocations = Invocations(job=job, folder=folder, stop=stop, tool=self.name)
        try:
            request, dataset = parse_stream_request(job.text.encode()), _dataset(job.location)
        except (FormatError, LeadlineError) as error:
            invocations.fail_request(error.fact)
            return invocations.execution()
        streams = _Streams(invocations, request, dataset, self.version)
        try:
            streams.run()
        except LeadlineError as error:
            invocations.fail(error)
        finally:
            streams.tidy()
        return invocations.execution()


class _Streams:
    """The streams of one trial, and the clean-up after them."""

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
        """Send whole streams until those after the ramp have taken the runtime.

        Raises LeadlineError; a stream that fails otherwise ends the invocations.
        """
        _destroy(self.dataset.received)
        self.record_bytes = int(_value("recordsize", self.dataset.name))
        programs.ask("taking a snapshot", "zfs", "snapshot", self.snapshot)
        asked, began = self.request, time.monotonic()
        most_s = _MOST_WALL * (asked.runtime_s + asked.ramp_s) + _LEAST_BOUND_S
        ramped_s = counted_s = 0.0
        while counted_s < asked.runtime_s and time.monotonic() - began < most_s:
            counted = ramped_s >= asked.ramp_s
            spent_s = sum(stream.seconds for stream in self.streams)
            stream = self._send(counted, bound_s=self.invocations.job.bound_s - spent_s)
            if stream is None:
                return
            ramped_s += stream.seconds
            counted_s += stream.seconds if counted else 0.0
            verified = self._verify(stream)
            if verified is None:
                return
            self.streams.append(verified)
            self._keep()
            if verified.difference:
                raise LeadlineError(
                    errors.STREAM_DIFFERS,
                    f"stream {stream.number} of {self.dataset.name} differs after it was received",
                    context=[verified.difference],
                    hint="check `zpool status -v` and the system's log; no figure of this "
                    "trial is used",
                )
            _destroy(self.dataset.received)

    def _send(self, counted: bool, *, bound_s: float) -> Stream | None:
        """Measure one stream, not yet verified; None where the job has ended."""
        number = len(self.streams) + 1
        send, receive = _send(self.snapshot, self.record_bytes), _receive(self.dataset)
        # A change of a property is a transaction after all earlier ones. Every release supports
        # it, unlike `zpool sync`.
        sync = (*_zfs("set"), f"leadline:received={number}", self.dataset.name)
        if counted and not self.invocations.commands:
            self.invocations.commands.append((*send, "|", *receive))
        request = {
            "stream": number,
            "send": send,
            "receive": receive,
            "sync": sync,
            "buffer_bytes": self.request.buffer_bytes,
            "sample_s": self.request.sample_s,
        }
        lines = self._lines(bounded_pipe.__file__, orjson.dumps(request).decode(), bound_s=bound_s)
        samples = [line for line in lines or () if "end" not in line]
        with (self.invocations.folder / SAMPLES_FILE).open("ab") as file:
            file.writelines(orjson.dumps(line) + b"\n" for line in samples)
        if lines is None:
            return None
        totals = lines[-1]["end"]
        del totals["statuses"]
        return Stream(
            number=number, counted=counted, send=send, receive=receive, sync=sync, **totals
        )

    def _verify(self, stream: Stream) -> Stream | None:
        """The stream with the guids and digests of both sides; None where the job has ended.

        The sent data does not change during a trial, so it is read once.
        """
        began = time.monotonic()
        received = self.dataset.received
        tag = self.snapshot.partition("@")[2]
        programs.ask("mounting the received dataset", "zfs", "mount", received)
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
        return stream.model_copy(
            update={
                "guid": _value("guid", self.snapshot),
                "received_guid": _value("guid", f"{received}@{tag}"),
                "files": files,
                "verify_s": round(time.monotonic() - began, 6),
            }
        )

    def _require_data(self) -> None:
        found, asked = sum(self._sizes.values()), self.request.size_bytes
        if found < asked:
            raise LeadlineError(
                errors.PREFILL_FAILED,
                f"{self.dataset.name} holds {format_size(found)}, and the plan asks for streams "
                f"of {format_size(asked)}",
                hint="leave `prefill: true` in the plan: it writes the data that is sent",
            )

    def _digests(self, folder: Path, leaving_out: str = "") -> dict[str, str] | None:
        """The digests of all files by path; None where the job has ended."""
        without = (leaving_out.rpartition("/")[2],) if leaving_out else ()
        bound_s = max(_LEAST_BOUND_S, self.request.size_bytes / _SLOWEST_BPS)
        lines = self._lines(file_digests.__file__, str(folder), *without, bound_s=bound_s)
        if lines is None:
            return None
        self._sizes |= {line["path"]: line["bytes"] for line in lines}
        return {line["path"]: line["blake2b"] for line in lines}

    def _lines(self, script: str, *arguments: str, bound_s: float) -> list[Any] | None:
        """The JSON lines of one of Leadline's programs; None where it did not complete."""
        stdout = bytearray()
        command = (sys.executable, "-I", "-S", script, *arguments)
        going = self.invocations.run(command, on_output=stdout.extend, bound_s=max(0.0, bound_s))
        if not going:
            _add_cause(self.invocations)
            return None
        return [orjson.loads(line) for line in stdout.splitlines()]

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
        """Remove the received dataset and the snapshot.

        A failure is no fault of the trial: the release of the target removes them as well.
        """
        hung = self.invocations.status is TrialStatus.HUNG or (
            self.invocations.status is TrialStatus.FAILED and not _answers(self.dataset.name)
        )
        for name in (self.dataset.received, self.snapshot):
            try:
                _destroy(name, bound_s=_HUNG_S if hung else _LEAST_BOUND_S)
            except LeadlineError as error:
                reason = "; ".join([error.fact, *error.context])
                with (self.invocations.folder / layout.STDERR).open("a", encoding="utf-8") as file:
                    file.write(f"{name} could not be removed: {reason}\n")


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


def _value(name: str, dataset: str) -> str:
    """A property; sizes are in bytes. Raises LeadlineError."""
    arguments = ("get", "-Hp", "-o", "value", name, dataset)
    return programs.ask("reading a property", "zfs", *arguments).strip()


def _answers(dataset: str) -> bool:
    """Whether ZFS answers about a dataset, even if it does not exist."""
    path = programs.find("zfs") or "zfs"
    command = (path, "get", "-H", "-o", "value", "type", dataset)
    return programs.run(*command, bound_s=_HUNG_S)[0] is not None


def _destroy(name: str, *, bound_s: float = _LEAST_BOUND_S) -> None:
    """Destroy a dataset or snapshot below the target's own if it exists; retry while it is busy.

    Raises LeadlineError.
    """
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            programs.ask(
                "removing the received dataset", "zfs", "destroy", "-r", name, bound_s=bound_s
            )
        except LeadlineError as error:
            message = " ".join(error.context)
            if "does not exist" in message or "could not find any snapshots" in message:
                return
            if "busy" not in message or time.monotonic() > until:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def _add_cause(invocations: Invocations) -> None:
    """Set code and hint of a failed stream by the message of ZFS, where it is known."""
    problem = invocations.problem
    if problem is not None and invocations.status is TrialStatus.HUNG:
        invocations.problem = with_suspension(problem, invocations.job.location)
    if problem is None or invocations.status is not TrialStatus.FAILED:
        return
    message = " ".join(problem.context)
    for words, kind, hint in _MEANINGS:
        if words in message:
            invocations.problem = problem.model_copy(update={"code": kind.code, "hint": hint})
