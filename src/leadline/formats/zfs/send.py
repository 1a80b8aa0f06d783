"""What `zfs send -nv`, `-nvP`, `-v` (on standard error) and `zfs receive -v` tell of streams.

zfs-fuse's `zfs send -v` tells nothing, and its `receive -v` takes whole seconds, at least one. What
OpenZFS tells without -P has three digits. The stream's size estimated is that of its data and
headers, before it is sent; what was received is that of the whole stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from leadline.formats.zfs.lines import is_cut, lines_of, refused
from leadline.formats.zfs.nicenum import nice_number

_SEND: Final = "zfs send"
_RECEIVE: Final = "zfs receive"
_ESTIMATED: Final = " estimated size is "
_FULL: Final = re.compile(r"full send of (?P<snapshot>\S.*)", re.ASCII)
# zfs-fuse and Illumos say `sending`.
_FROM: Final = re.compile(r"send(?:ing)? from (?P<source>.*?) to (?P<snapshot>\S.*)", re.ASCII)
_TOTAL: Final = re.compile(r"(?:total estimated size is |size\t)(?P<bytes>\S+)", re.ASCII)
_PROGRESS_HEAD: Final = re.compile(r"TIME\s+SENT\s+SNAPSHOT(?: \S.*)?", re.ASCII)
_PROGRESS: Final = re.compile(
    r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\s+(?P<sent>\S+)\s+(?P<snapshot>\S.*)", re.ASCII
)
# The second line of `destination exists` is `must specify -F to overwrite it`.
_MESSAGE: Final = re.compile(r"(?:warning: |[Cc]annot |internal error: |must specify )\S.*")
_RECEIVING: Final = re.compile(
    r"(?P<verb>receiving|would receive) (?P<kind>full|incremental) stream of "
    r"(?P<snapshot>\S.*) into (?P<target>\S.*)"
)
_RECEIVED: Final = re.compile(
    r"received (?P<bytes>\S+) stream in (?P<seconds>\d{1,10}(?:\.\d{1,3})?) seconds "
    r"\((?P<rate>[^()\s]+)/sec\)",
    re.ASCII,
)
_LONGEST_LINE: Final = 2000


class StreamKind(StrEnum):
    """Of a snapshot as a whole, or of what came since another one."""

    FULL = "full"
    INCREMENTAL = "incremental"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStream:
    """`source` is the snapshot from which an incremental one starts, else empty. `estimated_bytes`
    is None where it is not told, which a stream of no data has."""

    kind: StreamKind
    source: str
    snapshot: str
    estimated_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendProgress:
    """`clock_s` is seconds since midnight of the sender's own time: a line is printed every
    second, and the series starts anew with every snapshot. `sent_bytes` has three digits without
    -P."""

    clock_s: int
    snapshot: str
    sent_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """`estimated_bytes` of all streams together; None where it is not told. `messages` are
    warnings and errors."""

    streams: tuple[PlannedStream, ...]
    estimated_bytes: float | None
    progress: tuple[SendProgress, ...]
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedStream:
    """Bytes of the stream, seconds, and bytes per second as they are told: three digits. None for
    a stream of which the end is not told: it failed, or was only tried (-n)."""

    kind: StreamKind
    snapshot: str
    target: str
    received_bytes: float | None
    elapsed_s: float | None
    rate_bps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveReport:
    """The streams in order, and warnings and errors."""

    streams: tuple[ReceivedStream, ...]
    messages: tuple[str, ...]


def parse_send_report(text: str) -> SendReport:
    """Raises FormatError (`empty-result`, `truncated-result`, `unreadable-result`) with the
    line."""
    lines = lines_of(text, _SEND)
    streams: list[PlannedStream] = []
    total: float | None = None
    progress: list[SendProgress] = []
    messages: list[str] = []
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if not line.strip():
            continue
        short = len(line) <= _LONGEST_LINE and not cut
        if short and _PROGRESS_HEAD.fullmatch(line):
            continue
        told = _TOTAL.fullmatch(line) if short else None
        if told and total is None:
            total = nice_number(told["bytes"])
            if total is not None:
                continue
        stream = _planned(line) if short else None
        step = _progress(line) if short else None
        if stream is not None:
            streams.append(stream)
        elif step is not None:
            progress.append(step)
        elif short and _MESSAGE.fullmatch(line):
            messages.append(line)
        else:
            raise refused(number, line, _SEND, cut=cut)
    return SendReport(
        streams=tuple(streams),
        estimated_bytes=total,
        progress=tuple(progress),
        messages=tuple(messages),
    )


def _planned(line: str) -> PlannedStream | None:
    if "\t" in line:
        return _planned_parsable(line.split("\t"))
    told, size = line, ""
    if _ESTIMATED in line:
        told, _, size = line.rpartition(_ESTIMATED)
    estimated = nice_number(size) if size else None
    full, part = _FULL.fullmatch(told), _FROM.fullmatch(told)
    if (size and estimated is None) or not (full or part):
        return None
    found = full or part
    assert found is not None
    return PlannedStream(
        kind=StreamKind.FULL if full else StreamKind.INCREMENTAL,
        source=part["source"] if part else "",
        snapshot=found["snapshot"],
        estimated_bytes=estimated,
    )


def _planned_parsable(cells: list[str]) -> PlannedStream | None:
    word, *names, size = cells
    estimated = nice_number(size)
    wanted = {"full": 1, "incremental": 2}.get(word)
    if wanted != len(names) or estimated is None or not all(names):
        return None
    return PlannedStream(
        kind=StreamKind(word),
        source=names[0] if wanted == 2 else "",
        snapshot=names[-1],
        estimated_bytes=estimated,
    )


def _progress(line: str) -> SendProgress | None:
    found = _PROGRESS.fullmatch(line)
    sent = nice_number(found["sent"]) if found else None
    if found is None or sent is None:
        return None
    clock = int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"])
    return SendProgress(clock_s=clock, snapshot=found["snapshot"], sent_bytes=sent)


def parse_receive_report(text: str) -> ReceiveReport:
    """Raises FormatError (`empty-result`, `truncated-result`, `unreadable-result`) with the
    line."""
    lines = lines_of(text, _RECEIVE)
    streams: list[ReceivedStream] = []
    messages: list[str] = []
    begun: re.Match[str] | None = None
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if not line.strip():
            continue
        short = len(line) <= _LONGEST_LINE and not cut
        starts = _RECEIVING.fullmatch(line) if short else None
        ends = _RECEIVED.fullmatch(line) if short else None
        if starts:
            if begun:
                streams.append(_received(begun, None))
            begun = starts
        elif begun and ends and None not in (nice_number(ends["bytes"]), nice_number(ends["rate"])):
            streams.append(_received(begun, ends))
            begun = None
        elif short and _MESSAGE.fullmatch(line):
            messages.append(line)
        else:
            raise refused(number, line, _RECEIVE, cut=cut)
    if begun:
        streams.append(_received(begun, None))
    return ReceiveReport(streams=tuple(streams), messages=tuple(messages))


def _received(begun: re.Match[str], ends: re.Match[str] | None) -> ReceivedStream:
    return ReceivedStream(
        kind=StreamKind(begun["kind"]),
        snapshot=begun["snapshot"],
        target=begun["target"],
        received_bytes=nice_number(ends["bytes"]) if ends else None,
        elapsed_s=float(ends["seconds"]) if ends else None,
        rate_bps=nice_number(ends["rate"]) if ends else None,
    )
