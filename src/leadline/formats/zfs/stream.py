"""Records of the zfs stream engine for a trial.

`zfs-stream.json` holds the request, and each stream with its stalls and the checksums that prove
that it was received. `zfs-stream.jsonl` holds samples of the pipe between sender and receiver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from leadline.files import read_content
from leadline.formats.fio.logs import Progress, Window, progress_windows
from leadline.formats.json_lines import Count, Number, line_error, parse_document, parse_lines
from leadline.formats.result import EngineOutput, FormatError, JobOptions, JobResult, Operation
from leadline.metrics import Op

TOOL: Final = "zfs stream"
RECORD_FILE: Final = "zfs-stream.json"
SAMPLES_FILE: Final = "zfs-stream.jsonl"
# Seconds are rounded to microseconds where they are written.
_STEP_S = 2e-6
# Of all streams of a trial: there is a window for each second.
_LONGEST_S: Final = 30 * 86_400

Seconds = Annotated[float, Field(ge=0, le=30 * 86400)]
Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _is_unset(value: object) -> bool:
    """Later fields are left out where unset: earlier versions refuse unknown fields."""
    return value is None


class StreamRequest(_Model):
    """The request of a trial: whole streams of `size_bytes` of files until they took `runtime_s`,
    behind those of the ramp, through a pipe of `buffer_bytes` that is sampled each `sample_s`;
    `numjobs` of them at the same time, each from a dataset of its own."""

    name: str
    size_bytes: int = Field(gt=0)
    numjobs: int = Field(default=1, ge=1, le=4096, exclude_if=lambda given: given == 1)
    runtime_s: float = Field(gt=0)
    ramp_s: float = Field(default=0.0, ge=0)
    buffer_bytes: int = Field(gt=0)
    sample_s: float = Field(gt=0)

    def text(self) -> str:
        return self.model_dump_json(indent=2) + "\n"


class StreamedFile(_Model):
    """A file of the snapshot, with its BLAKE2b as it was sent and as it was received; empty where
    there is no such file."""

    path: str
    bytes: Bytes
    sent: str
    received: str


class Pipe(_Model):
    """A pipe in front of a receiver. `seconds` are from its start until what was received is on
    disk: `stream_s` until the receiver ended, the rest is the transaction behind it.

    `waited_for_sender_s`: the pipe's reader had nothing to read. `held_sender_s`: its buffer was
    full, so that nothing was read. `waited_for_receiver_s`: the receiver took nothing more.
    `starved_receiver_s`: the buffer was empty, so that there was nothing to give to the receiver.
    `finishing_s`, from its taking of the last byte to its end; None in earlier archives.
    """

    bytes: int = Field(ge=1, le=2**63 - 1)
    seconds: float = Field(gt=0, le=30 * 86400)
    stream_s: Seconds
    waited_for_sender_s: Seconds
    held_sender_s: Seconds
    waited_for_receiver_s: Seconds
    starved_receiver_s: Seconds
    finishing_s: Seconds | None = None
    most_buffered_bytes: Bytes
    mean_buffered_bytes: Bytes
    relay_cpu_s: Seconds

    @property
    def relaying_s(self) -> float | None:
        """Seconds in which the pipe worked and neither program was waited for: it is what held
        the stream back then. None in earlier archives. While the buffer is empty, the pipe's
        reader is waited for, unless that waits for the sender. A pipe that waits for a processor
        does not work."""
        if self.finishing_s is None:
            return None
        starved_s = min(self.starved_receiver_s, self.waited_for_sender_s)
        waited_s = self.finishing_s + self.waited_for_receiver_s + starved_s
        return max(0.0, min(self.relay_cpu_s, self.stream_s - waited_s))


class Stream(Pipe):
    """One stream, begun at `began_at` (seconds since 1970), by the pipe behind its sender.

    Streams at the same time count their `seconds` from one start. `far` is the pipe in front of the
    receiver on another host, which counts from its first byte; the receiver of this one is then the
    link. `address` is that of the TCP connection, a host and a port.
    """

    number: int = Field(ge=1)
    counted: bool
    began_at: float = Field(ge=0, le=1e11)
    send: tuple[str, ...]
    receive: tuple[str, ...]
    sync: tuple[str, ...] = ()
    guid: str = ""
    received_guid: str = ""
    files: tuple[StreamedFile, ...] = ()
    verify_s: Seconds = 0.0
    far: Pipe | None = Field(default=None, exclude_if=_is_unset)
    address: tuple[str, int] | None = Field(default=None, exclude_if=_is_unset)

    @property
    def bandwidth_bps(self) -> float:
        return self.bytes / self.seconds

    @property
    def held_back_s(self) -> float | None:
        """Seconds in which a pipe held the stream back, on either host; None in earlier
        archives."""
        each = [pipe.relaying_s for pipe in (self, self.far) if pipe is not None]
        known = [seconds for seconds in each if seconds is not None]
        return max(known) if len(known) == len(each) else None

    @property
    def for_receiver_s(self) -> float:
        """Seconds in which the receiver was waited for, with its end."""
        last = self.far or self
        return last.waited_for_receiver_s + (last.finishing_s or 0.0)

    @property
    def for_link_s(self) -> float | None:
        """Seconds in which the link to another host took nothing from one pipe and gave nothing to
        the other one, at least; None without such a link."""
        if self.far is None:
            return None
        return min(self.waited_for_receiver_s, self.far.waited_for_sender_s)

    @property
    def difference(self) -> str:
        """The first difference between the sent and the received data; empty if there is none."""
        if not self.guid or self.guid != self.received_guid:
            return f"the snapshot's guid is {self.guid!r} and {self.received_guid!r} was received"
        if not self.files:
            return "no file was compared"
        for file in self.files:
            if file.sent != file.received or not file.sent:
                return f"{file.path!r} was not received as it was sent"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Streams at the same time. It ends with the last of them."""

    streams: tuple[Stream, ...]

    @property
    def began_at(self) -> float:
        return self.streams[0].began_at

    @property
    def seconds(self) -> float:
        return max(stream.seconds for stream in self.streams)

    @property
    def bytes(self) -> int:
        return sum(stream.bytes for stream in self.streams)

    @property
    def together_s(self) -> float:
        """Seconds until the first of its streams ended."""
        return min(stream.seconds for stream in self.streams)


class Route(_Model):
    """Where streams went: to `dataset` on another `host`, whose ZFS has the version `version`, by
    `via` (`ssh`, `tcp`)."""

    host: str
    dataset: str
    via: str
    version: str = ""


class StreamRecord(_Model):
    """All of a trial. `record_bytes` is the dataset's recordsize, `version` the pool's software.
    `route` is None where the streams stayed in the pool."""

    schema_: Literal["leadline/zfs-stream/1"] = Field(
        default="leadline/zfs-stream/1", alias="schema"
    )
    request: StreamRequest
    dataset: str
    snapshot: str
    record_bytes: int | None = None
    version: str = ""
    route: Route | None = Field(default=None, exclude_if=_is_unset)
    streams: tuple[Stream, ...] = ()

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The streams by those at the same time, one after the other."""
        jobs = self.request.numjobs
        return tuple(
            Round(streams=self.streams[begin : begin + jobs])
            for begin in range(0, len(self.streams), jobs)
        )

    def text(self) -> str:
        """Format the record as it is stored."""
        return self.model_dump_json(indent=1, by_alias=True) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSample:
    """The pipe `at_s` seconds after the start of a stream. All other values count from there on,
    see `Stream`."""

    stream: Count
    at_s: Number
    read_bytes: Count
    written_bytes: Count
    waited_for_sender_s: Number
    held_sender_s: Number
    waited_for_receiver_s: Number
    starved_receiver_s: Number

    @property
    def buffered_bytes(self) -> int:
        return self.read_bytes - self.written_bytes


_SAMPLE: Final = TypeAdapter(StreamSample)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReport:
    """A trial's streams, and the samples of all of them in the order of their time."""

    record: StreamRecord
    samples: tuple[StreamSample, ...] = ()

    @property
    def streams(self) -> tuple[Stream, ...]:
        return self.record.streams

    @property
    def counted(self) -> tuple[Stream, ...]:
        """The streams after the ramp, which are measured."""
        return tuple(stream for stream in self.streams if stream.counted)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The counted streams by those at the same time, one after the other."""
        return tuple(round_ for round_ in self.all_rounds if round_.streams[0].counted)

    @property
    def all_rounds(self) -> tuple[Round, ...]:
        """The same with those of the ramp."""
        return self.record.rounds

    @property
    def bytes(self) -> int:
        return sum(stream.bytes for stream in self.counted)

    @property
    def seconds(self) -> float:
        return sum(round_.seconds for round_ in self.rounds)

    @property
    def stream_seconds(self) -> float:
        """Seconds of all counted streams, those at the same time added up."""
        return sum(stream.seconds for stream in self.counted)

    @property
    def together_share(self) -> float:
        """Of the seconds counted, in which all streams at the same time went on."""
        return sum(round_.together_s for round_ in self.rounds) / self.seconds

    @property
    def relaying_share(self) -> float | None:
        """Of the seconds counted, in which a pipe itself held the streams back; see `Pipe`."""
        each = [stream.held_back_s for stream in self.counted]
        known = [entry for entry in each if entry is not None]
        return sum(known) / self.stream_seconds if len(known) == len(each) else None

    @property
    def bandwidth_bps(self) -> float:
        """Bytes of all counted streams by the seconds of all of them."""
        return self.bytes / self.seconds

    def bandwidth_windows(self) -> tuple[Window, ...]:
        """Bytes/s that the receivers took in each whole second, the counted rounds one behind the
        other without what lies between them."""
        return progress_windows(
            Progress(self._progress(round_), round_.bytes, round_.seconds) for round_ in self.rounds
        )

    def _progress(self, round_: Round) -> list[tuple[float, int]]:
        """Bytes that all streams of a round had written, at the time of each sample."""
        written = {stream.number: 0 for stream in round_.streams}
        points: list[tuple[float, int]] = []
        for sample in sorted(self.samples, key=lambda sample: sample.at_s):
            if sample.stream in written:
                written[sample.stream] = sample.written_bytes
                points += [(sample.at_s, sum(written.values()))] if sample.at_s > 0 else []
        return points


def parse_stream_request(content: bytes) -> StreamRequest:
    """Raises FormatError with the place of the first fault."""
    return parse_document(content, StreamRequest, "the request for streams")


def parse_zfs_stream(content: bytes, samples: bytes = b"") -> StreamReport:
    """A trial's record, with its samples where there are some. Raises FormatError: `empty-result`
    where no stream was counted, `unreadable-result` where one contradicts itself or was not
    received as it was sent."""
    if not content.strip():
        raise FormatError.empty(f"the record of {TOOL} is empty")
    record = parse_document(content, StreamRecord, RECORD_FILE)
    for position, stream in enumerate(record.streams, start=1):
        if stream.number != position:
            raise FormatError.unreadable(f"stream {position} is called {stream.number}")
        if not 0 < stream.stream_s <= stream.seconds + _STEP_S:
            raise FormatError.unreadable(
                f"stream {position} took {stream.seconds} s, of them {stream.stream_s} s streaming"
            )
        if stream.difference:
            raise FormatError.unreadable(f"stream {position}: {stream.difference}")
        if stream.far is not None and stream.far.bytes != stream.bytes:
            raise FormatError.unreadable(
                f"stream {position} had {stream.bytes} bytes, of which {stream.far.bytes} came"
            )
    if sum(round_.seconds for round_ in record.rounds) > _LONGEST_S:
        raise FormatError.unreadable(f"the streams of one trial took more than {_LONGEST_S} s")
    report = StreamReport(record=record, samples=tuple(_samples(samples)))
    if not report.counted:
        raise FormatError.empty(f"{TOOL} counted no stream")
    if len(record.streams) % record.request.numjobs or any(
        len({stream.counted for stream in round_.streams}) > 1 for round_ in record.rounds
    ):
        raise FormatError.unreadable("the streams are not in whole rounds")
    return report


def _samples(content: bytes) -> Sequence[StreamSample]:
    samples: list[StreamSample] = []
    last: dict[int, StreamSample] = {}
    for number, sample in parse_lines(content, _SAMPLE, SAMPLES_FILE):
        before = last.get(sample.stream)
        if before and (sample.at_s < before.at_s or sample.written_bytes < before.written_bytes):
            raise line_error(number, "", "less than on the line of this stream before")
        last[sample.stream] = sample
        samples.append(sample)
    return samples


def read_zfs_stream(folder: Path) -> StreamReport | None:
    """Read the records in the folder of a trial; None for a trial without streams. Raises
    FormatError."""
    try:
        content = read_content(folder / RECORD_FILE)
        samples = folder / SAMPLES_FILE
        return parse_zfs_stream(content, read_content(samples) if samples.exists() else b"")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError.unreadable(
            f"{error.filename} cannot be read: {error.strerror}"
        ) from error


def read_stream_output(folder: Path) -> EngineOutput:
    """Read the records as results: one write of all counted streams, without I/Os or latencies.
    Raises FormatError."""
    report = read_zfs_stream(folder)
    if report is None:
        raise FormatError.empty(f"{TOOL} left no {RECORD_FILE}")
    return stream_output(report)


def stream_output(report: StreamReport) -> EngineOutput:
    request = report.record.request
    options = {
        "rw": "write",
        "ioengine": "zfs-stream",
        "size": str(request.size_bytes),
        "runtime": f"{round(request.runtime_s * 1000)}ms",
        "time_based": "1",
    }
    if request.numjobs > 1:
        options |= {"numjobs": str(request.numjobs), "group_reporting": "1"}
    if report.record.record_bytes:
        options["recordsize"] = str(report.record.record_bytes)
    operation = Operation(
        op=Op.WRITE,
        bandwidth_bps=report.bandwidth_bps,
        io_bytes=report.bytes,
        runtime_s=report.seconds,
    )
    job = JobResult(
        name=request.name,
        # fio's defaults, a depth of one among them, are not those of a stream.
        options=JobOptions(raw=options, whole=False),
        job_runtime_s=report.seconds,
        elapsed_s=sum(round_.seconds for round_ in report.all_rounds),
        operations=(operation,),
    )
    return EngineOutput(version=TOOL, jobs=(job,))
