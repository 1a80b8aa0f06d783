"""The zfs stream engine: `zfs send | zfs receive` of snapshots of the target's data.

Each stream goes through a bounded pipe that measures its stalls, into a child dataset here or on
another host, which has a second pipe. The method: docs/internals/zfs-stream.md.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import TrialStatus
from leadline.connect import programs
from leadline.connect.shell import Shell
from leadline.engines import bounded_pipe, file_digests
from leadline.engines.invocations import Invocations
from leadline.engines.outcome import with_suspension
from leadline.environment import CEPH, SSH
from leadline.errors import LeadlineError
from leadline.formats.result import FormatError
from leadline.formats.zfs.stream import (
    RECORD_FILE,
    SAMPLES_FILE,
    Route,
    Stream,
    StreamedFile,
    StreamRecord,
    StreamRequest,
    parse_stream_request,
)
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.target_url import BUFFER_BYTES, TargetKind, Transport
from leadline.plan.workload import Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Dataset, Execution, Job, Location, Progress, Receiver
from leadline.units import format_size

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
# A host that another trial reached does so again within this time.
_REACHED_S = 20.0
# Limits a trial whose streams are short compared with their verification.
_MOST_WALL = 6.0
_OLDER = (
    "the receiving pool lacks a feature of the stream: `zpool upgrade` it, or use recordsize=128K"
)
# The interpreter of another host, with the code of a program of Leadline's.
_PYTHON = ("python3", "-I", "-S", "-c")
# Messages of ZFS and of the pipe, their meaning, and the hint.
_MEANINGS = (
    ("out of space", errors.TARGET_FULL, "a copy of the data needs free space in the pool"),
    ("quota exceeded", errors.TARGET_FULL, "a copy of the data counts for the dataset's quota"),
    ("unsupported feature", errors.TARGET_UNSUITABLE, _OLDER),
    ("must be upgraded", errors.TARGET_UNSUITABLE, _OLDER),
    ("ssh ended", errors.SHELL_LOST, "look at the host and the network between"),
    ("suspended", errors.ZPOOL_UNFIT, "`zpool status` shows the reason; then `zpool clear`"),
    (
        "no TCP connection",
        errors.HOST_UNREACHABLE,
        "a firewall may be between: `port=` of the target",
    ),
    ("cannot listen", errors.HOST_UNREACHABLE, "`port=` of the target names another one"),
    ("address of this host", errors.HOST_UNREACHABLE, "use via=ssh: its name leads to no address"),
    ("failed to open", errors.PREFILL_FAILED, "leave `prefill: true` in the plan"),
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
            numjobs=phase.numjobs,
            runtime_s=workload.runtime_s,
            ramp_s=workload.ramp_s,
            buffer_bytes=_buffer_bytes(location),
            sample_s=SAMPLE_S,
        ).text()

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        raise LeadlineError(errors.ENGINE_UNKNOWN, "zfs stream writes no prefill; fio does")

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The first pipeline, with a placeholder in the snapshot's name."""
        dataset = _dataset(job.location)
        lane, *_ = _lanes(dataset, parse_stream_request(job.text.encode()).numjobs)
        return _pipeline(_send(f"{lane.source}@leadline-TOKEN", None), lane, dataset)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    """One of the streams at the same time: the dataset that is sent, its files, and the dataset
    that receives it."""

    source: str
    path: Path
    received: str


def _lanes(dataset: Dataset, numjobs: int) -> tuple[_Lane, ...]:
    if numjobs == 1:
        received = f"{dataset.receives}/received"
        return (_Lane(source=dataset.name, path=dataset.path, received=received),)
    return tuple(
        _Lane(
            source=f"{dataset.name}/source-{number}",
            path=dataset.path / f"source-{number}",
            received=f"{dataset.receives}/received-{number}",
        )
        for number in range(numjobs)
    )


class _Streams:
    """The streams of one trial, and the clean-up after them."""

    def __init__(
        self, invocations: Invocations, request: StreamRequest, dataset: Dataset, version: str
    ) -> None:
        self.invocations = invocations
        self.request = request
        self.dataset = dataset
        self.lanes = _lanes(dataset, request.numjobs)
        self.tag = f"leadline-{secrets.token_hex(4)}"
        self.version = version
        self.record_bytes: int | None = None
        self.streams: list[Stream] = []
        # Digest and size by path, of each dataset that is sent.
        self._sent: dict[str, dict[str, tuple[str, int]]] = {}
        self._shell = dataset.receiver.shell if dataset.receiver else None

    def run(self) -> None:
        """Send whole streams until those after the ramp have taken the runtime.

        Raises LeadlineError; a stream that fails otherwise ends the invocations.
        """
        if self._shell is not None:
            self._shell.run(":", bound_s=_REACHED_S)  # a lost host ends the trial here
        for lane in self.lanes:
            self._destroy(lane.received)
        self.record_bytes = int(_value("recordsize", self.dataset.name))
        if len(self.lanes) > 1 and not all(
            self._make_source(number, lane) for number, lane in enumerate(self.lanes)
        ):
            return
        for lane in self.lanes:
            programs.ask("taking a snapshot", "zfs", "snapshot", f"{lane.source}@{self.tag}")
        asked, began = self.request, time.monotonic()
        most_s = _MOST_WALL * (asked.runtime_s + asked.ramp_s) + _LEAST_BOUND_S
        ramped_s = counted_s = spent_s = 0.0
        while counted_s < asked.runtime_s and time.monotonic() - began < most_s:
            counted = ramped_s >= asked.ramp_s
            streams = self._send(counted, bound_s=self.invocations.job.bound_s - spent_s)
            if streams is None:
                return
            seconds = max(stream.seconds for stream in streams)
            spent_s += seconds
            ramped_s += seconds
            counted_s += seconds if counted else 0.0
            for lane, stream in zip(self.lanes, streams, strict=True):
                verified = self._verify(lane, stream)
                if verified is None:
                    return
                self.streams.append(verified)
            self._keep()
            for stream in self.streams[-len(streams) :]:
                if stream.difference:
                    raise LeadlineError(
                        errors.STREAM_DIFFERS,
                        f"stream {stream.number} of {self.dataset.name} differs after it was "
                        "received",
                        context=[stream.difference],
                        hint="check `zpool status -v` and the system's log; no figure of this "
                        "trial is used",
                    )
            for lane in self.lanes:
                self._destroy(lane.received)

    def _make_source(self, number: int, lane: _Lane) -> bool:
        """Make the dataset of one of several streams, with the data of one job; it stays for later
        trials. False where the job has ended."""
        size = str(self.request.size_bytes)
        if programs.exists(lane.source) and programs.local_property(_HOLDS, lane.source) == size:
            return True
        self._sent.pop(lane.source, None)
        _destroy(lane.source)
        programs.ask("making a dataset", "zfs", "create", lane.source)
        name = DATA_FILE.format(job=number)
        copying = (
            *("dd", f"if={self.dataset.path / name}", f"of={lane.path / name}", "bs=1M"),
            *(f"count={size}", "iflag=count_bytes,fullblock", "status=none"),
        )
        bound_s = max(_LEAST_BOUND_S, self.request.size_bytes / _SLOWEST_BPS)
        if not self.invocations.run(copying, bound_s=bound_s):
            _add_cause(self.invocations)
            return False
        programs.ask("waiting for the pool", "zfs", "set", f"{_HOLDS}={size}", lane.source)
        return True

    def _send(self, counted: bool, *, bound_s: float) -> list[Stream] | None:
        """Measure streams at the same time, not yet verified; None where the job has ended."""
        first = len(self.streams) + 1
        entries = [self._entry(number, lane) for number, lane in enumerate(self.lanes, start=first)]
        if counted and not self.invocations.commands:
            send = entries[0]["send"]
            self.invocations.commands.append(_pipeline(send, self.lanes[0], self.dataset))
        request = {
            "streams": entries,
            "buffer_bytes": self.request.buffer_bytes,
            "sample_s": self.request.sample_s,
        }
        lines = self._lines(*_here(bounded_pipe), orjson.dumps(request).decode(), bound_s=bound_s)
        samples = [line for line in lines or () if "end" not in line]
        with (self.invocations.folder / SAMPLES_FILE).open("ab") as file:
            file.writelines(orjson.dumps(line) + b"\n" for line in samples)
        if lines is None:
            return None
        ends = {line["stream"]: line["end"] for line in lines if "end" in line}
        found = []
        for entry, lane in zip(entries, self.lanes, strict=True):
            totals = ends[entry["stream"]]
            del totals["statuses"]
            found.append(
                Stream(
                    number=entry["stream"],
                    counted=counted,
                    send=entry["send"],
                    receive=_receive(lane),
                    sync=_sync(entry["stream"], self.dataset),
                    **totals,
                )
            )
        return found

    def _entry(self, number: int, lane: _Lane) -> dict[str, Any]:
        """What the pipe is asked of one stream."""
        receive, sync = _receive(lane), _sync(number, self.dataset)
        send = _send(f"{lane.source}@{self.tag}", self.record_bytes)
        if (receiver := self.dataset.receiver) is None:
            receive = (*_zfs(), *receive[1:])
            return {
                "stream": number,
                "send": send,
                "receive": receive,
                "sync": (*_zfs(), *sync[1:]),
            }
        return {
            "stream": number,
            "send": send,
            "sync": (),
            **far_end(receiver, receive, sync, number=self.lanes.index(lane)),
        }

    def _verify(self, lane: _Lane, stream: Stream) -> Stream | None:
        """The stream with the guids and digests of both sides; None where the job has ended.

        The sent data does not change during a trial, so it is read once.
        """
        began, received = time.monotonic(), lane.received
        shell = self._shell
        programs.ask("mounting the received dataset", "zfs", "mount", received, shell=shell)
        if lane.source not in self._sent:
            sent = self._digests(str(lane.path))
            if sent is None:
                return None
            self._require_data(lane, sum(size for _, size in sent.values()))
            self._sent[lane.source] = sent
        got = self._digests(_value("mountpoint", received, shell), there=True)
        if got is None:
            return None
        sent, nothing = self._sent[lane.source], ("", 0)
        files = tuple(
            StreamedFile(
                path=path,
                bytes=max(sent.get(path, nothing)[1], got.get(path, nothing)[1]),
                sent=sent.get(path, nothing)[0],
                received=got.get(path, nothing)[0],
            )
            for path in sorted(sent.keys() | got.keys())
        )
        return stream.model_copy(
            update={
                "guid": _value("guid", f"{lane.source}@{self.tag}"),
                "received_guid": _value("guid", f"{received}@{self.tag}", shell),
                "files": files,
                "verify_s": round(time.monotonic() - began, 6),
            }
        )

    def _require_data(self, lane: _Lane, found: int) -> None:
        asked = self.request.size_bytes
        if found < asked:
            raise LeadlineError(
                errors.PREFILL_FAILED,
                f"{lane.source} holds {format_size(found)}, and the plan asks for streams of "
                f"{format_size(asked)}",
                hint="leave `prefill: true` in the plan: it writes the data that is sent",
            )

    def _digests(self, folder: str, *, there: bool = False) -> dict[str, tuple[str, int]] | None:
        """Digest and size of all files by path, of a folder here or where streams are received;
        None where the job has ended."""
        command = (*_here(file_digests), folder)
        if there and self.dataset.receiver is not None:
            shell = self.dataset.receiver.shell
            command = shell.command(programs.WITH_PATH, *_there(file_digests), folder)
        bound_s = max(_LEAST_BOUND_S, self.request.size_bytes / _SLOWEST_BPS)
        lines = self._lines(*command, bound_s=bound_s)
        if lines is None:
            return None
        return {line["path"]: (line["blake2b"], line["bytes"]) for line in lines}

    def _lines(self, *command: str, bound_s: float) -> list[Any] | None:
        """The JSON lines of one of Leadline's programs; None where it did not complete."""
        stdout = bytearray()
        going = self.invocations.run(
            command,
            on_output=stdout.extend,
            bound_s=max(0.0, bound_s),
            variables=(*CEPH, *SSH) if self._shell else CEPH,
        )
        if not going:
            _add_cause(self.invocations)
            return None
        return [orjson.loads(line) for line in stdout.splitlines()]

    def _keep(self) -> None:
        receiver = self.dataset.receiver
        record = StreamRecord(
            request=self.request,
            dataset=self.dataset.name,
            snapshot=f"{self.lanes[0].source}@{self.tag}",
            record_bytes=self.record_bytes,
            version=self.version,
            route=receiver
            and Route(
                host=receiver.wanted.host,
                dataset=receiver.dataset,
                via=receiver.wanted.via.value,
                version=receiver.version,
            ),
            streams=tuple(self.streams),
        )
        (self.invocations.folder / RECORD_FILE).write_text(record.text(), encoding="utf-8")

    def _destroy(self, received: str, *, bound_s: float = _LEAST_BOUND_S) -> None:
        _destroy(received, bound_s=bound_s, shell=self._shell)

    def tidy(self) -> None:
        """Remove the received datasets and the snapshots.

        A failure is no fault of the trial: the release of the target removes them as well.
        """
        status, receives = self.invocations.status, self.dataset.receives
        hung = status is TrialStatus.HUNG or (
            status is TrialStatus.FAILED
            and not (_answers(self.dataset.name) and _answers(receives, self._shell))
        )
        bound_s = _HUNG_S if hung else _LEAST_BOUND_S
        for lane in self.lanes:
            for name, destroy in (
                (lane.received, self._destroy),
                (f"{lane.source}@{self.tag}", _destroy),
            ):
                try:
                    destroy(name, bound_s=bound_s)
                except LeadlineError as error:
                    reason = "; ".join([error.fact, *error.context])
                    stderr = self.invocations.folder / layout.STDERR
                    with stderr.open("a", encoding="utf-8") as file:
                        file.write(f"{name} could not be removed: {reason}\n")


# The user property of a dataset that holds the data of one of several streams: its bytes.
_HOLDS = "leadline:holds"


def far_end(
    receiver: Receiver, receive: Sequence[str], sync: Sequence[str], *, number: int = 0
) -> dict[str, Any]:
    """What the pipe is asked of a stream that another host receives: the command that runs its
    other end there, the `number`-th at the same time. Raises LeadlineError(`host-unreachable`)."""
    wanted = receiver.wanted
    tcp = wanted.via is Transport.TCP
    request = {
        "receive": receive,
        "sync": sync,
        "buffer_bytes": wanted.buffer_bytes,
        "sample_s": SAMPLE_S,
        "port": (wanted.port + number if wanted.port else 0) if tcp else None,
    }
    code = (*_there(bounded_pipe), orjson.dumps(request).decode())
    # The data of TCP takes no part of ssh's connection, which may then be the shared one.
    command = receiver.shell.command if tcp else receiver.shell.own_command
    return {"receive": command(programs.WITH_PATH, *code), "via": wanted.via.value}


def try_route(receiver: Receiver) -> None:
    """Send a few bytes to the other host as a stream is sent. Raises LeadlineError:
    `host-unreachable`, `program-missing`."""
    there = far_end(receiver, ("sh", "-c", "cat >/dev/null"), ())
    request = {
        "streams": [{"stream": 1, "send": ("echo", "leadline"), "sync": (), **there}],
        "buffer_bytes": receiver.wanted.buffer_bytes,
        "sample_s": SAMPLE_S,
    }
    status, _, err = programs.run(
        *_here(bounded_pipe), orjson.dumps(request).decode(),
        bound_s=_LEAST_BOUND_S, variables=(*CEPH, *SSH),
    )  # fmt: skip
    if status == 0:
        return
    lines = err.strip().splitlines()
    if "python3: not found" in err or "python3: No such file" in err:
        raise LeadlineError(
            errors.PROGRAM_MISSING,
            f"there is no 'python3' on the {receiver.shell.name}",
            hint="Leadline's pipe in front of `zfs receive` needs it there; Debian: "
            "python3-minimal",
        )
    _, kind, hint = next(
        (known for known in _MEANINGS if known[0] in err), ("", errors.HOST_UNREACHABLE, "")
    )
    raise LeadlineError(
        kind,
        f"no stream comes to the {receiver.shell.name} by {receiver.wanted.via.value}",
        context=lines[-3:] or [f"no answer within {_LEAST_BOUND_S:g} s"],
        hint=hint or None,
    )


def _here(program: ModuleType) -> tuple[str, ...]:
    """The command of one of Leadline's programs of the standard library alone."""
    return (sys.executable, "-I", "-S", str(program.__file__))


def _there(program: ModuleType) -> tuple[str, ...]:
    """The same on another host, which gets its code."""
    return (*_PYTHON, Path(str(program.__file__)).read_text(encoding="utf-8"))


def _buffer_bytes(location: Location) -> int:
    receiver = location.receiver if isinstance(location, Dataset) else None
    return receiver.wanted.buffer_bytes if receiver else BUFFER_BYTES


def _dataset(location: Location) -> Dataset:
    if not isinstance(location, Dataset):
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"zfs stream does no I/O on {location}")
    return location


def _zfs(*arguments: str) -> tuple[str, ...]:
    return (programs.find("zfs") or "zfs", *arguments)


def _send(snapshot: str, record_bytes: int | None) -> tuple[str, ...]:
    large = ("-L",) if record_bytes and record_bytes > _LARGEST_WITHOUT_FLAG else ()
    return (*_zfs("send"), *large, snapshot)


def _receive(lane: _Lane) -> tuple[str, ...]:
    return ("zfs", "receive", "-u", lane.received)


def _sync(number: int, dataset: Dataset) -> tuple[str, ...]:
    """A change of a property is a transaction after all earlier ones. Every release supports it,
    unlike `zpool sync`."""
    return ("zfs", "set", f"leadline:received={number}", dataset.receives)


def _pipeline(send: Sequence[str], lane: _Lane, dataset: Dataset) -> tuple[str, ...]:
    """A stream as a command line of a shell."""
    receiver = dataset.receiver
    ssh = ("ssh", receiver.wanted.host) if receiver else ()
    return (*send, "|", *ssh, *_receive(lane))


def _value(name: str, dataset: str, shell: Shell | None = None) -> str:
    """A property; sizes are in bytes. Raises LeadlineError."""
    arguments = ("get", "-Hp", "-o", "value", name, dataset)
    return programs.ask("reading a property", "zfs", *arguments, shell=shell).strip()


def _answers(dataset: str, shell: Shell | None = None) -> bool:
    """Whether ZFS answers about a dataset, even if it does not exist."""
    if shell is not None:
        try:
            programs.exists(dataset, shell, bound_s=_HUNG_S)
        except LeadlineError as error:
            return error.kind is errors.ZFS_FAILED
        return True
    path = programs.find("zfs") or "zfs"
    command = (path, "get", "-H", "-o", "value", "type", dataset)
    return programs.run(*command, bound_s=_HUNG_S)[0] is not None


def _destroy(name: str, *, bound_s: float = _LEAST_BOUND_S, shell: Shell | None = None) -> None:
    """Destroy a dataset or snapshot below the target's own if it exists; retry while it is busy.

    Raises LeadlineError.
    """
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            programs.ask(
                "removing the received dataset", "zfs", "destroy", "-r", name,
                bound_s=bound_s, shell=shell,
            )  # fmt: skip
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
