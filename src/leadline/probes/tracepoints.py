"""Events of a kernel tracepoint on all processors, by perf_event_open(2).

Events of perf belong to the process: the kernel takes them away when it ends, however it ends,
where what is set in tracefs would stay behind. They are counted only between `enable` and
`disable`, into one ring for each processor (Documentation/userspace-api/perf_ring_buffer.rst).
What finds no room is only
counted.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from leadline.probes.kernel_files import open_kernel_file, read_kernel_file

_TRACEFS: Final = Path("/sys/kernel/tracing")
_OLD_TRACEFS: Final = Path("/sys/kernel/debug/tracing")
# Of perf_event_open in arch/*/entry/syscalls; newer architectures share one table.
_NUMBERS: Final = {"x86_64": 298, "ppc64le": 319, "s390x": 331}
_NUMBER_OF_OTHERS: Final = 241
# include/uapi/linux/perf_event.h
_TYPE_TRACEPOINT: Final = 2
_SAMPLE_RAW: Final = 1 << 10
_ATTR_BYTES: Final = 112
_FLAG_DISABLED: Final = 1
_FLAG_CLOEXEC: Final = 8
_ENABLE: Final = 0x2400
_DISABLE: Final = 0x2401
_SET_FILTER: Final = 0x40082406
_RECORD_SAMPLE: Final = 9
# Behind a sample's head stands the u32 size of the event, then the event.
_EVENT_AT: Final = 12
_DATA_HEAD: Final = 1024
_DATA_TAIL: Final = 1032
_RECORD = struct.Struct("=IHH")
_U64 = struct.Struct("=Q")
# Rings of all processors together, and of each: memory that the kernel keeps while a trial runs.
_RINGS_BYTES: Final = 32 << 20
_RING_BYTES: Final = 512 << 10
_LEAST_RING_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracepoint:
    """A tracepoint's number in this kernel, and where its fields lie in an event's bytes."""

    number: int
    fields: Mapping[str, slice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many events there were of each content of the columns asked for (their bytes, one behind
    the other), and how many more found no room."""

    counts: Mapping[bytes, int]
    lost: int


@cache
def tracepoint(group: str, name: str) -> Tracepoint:
    """Raises OSError where the kernel has none of that name or does not tell, ValueError where
    what it tells is not understood."""
    path = f"events/{group}/{name}/format"
    try:
        handle = open_kernel_file("tracefs", _TRACEFS, path)
    except OSError as error:
        # Before Linux 4.1, and where the other must not be mounted.
        try:
            handle = os.open(_OLD_TRACEFS / path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise error from None
    try:
        return parse_format(read_kernel_file(handle).decode("ascii", "replace"))
    finally:
        os.close(handle)


_ID = re.compile(r"^ID: (\d+)$", re.MULTILINE)
_FIELD = re.compile(r"field:[^;]*?(\w+)(?:\[\w*\])?;\s*offset:(\d+);\s*size:(\d+);")


def parse_format(text: str) -> Tracepoint:
    """The `format` file of a tracepoint (Documentation/trace/events.rst). Raises ValueError."""
    number = _ID.search(text)
    if number is None:
        raise ValueError("the tracepoint's format tells no ID")
    fields = {
        found[1]: slice(int(found[2]), int(found[2]) + int(found[3]))
        for found in _FIELD.finditer(text)
    }
    return Tracepoint(number=int(number[1]), fields=fields)


class TracepointEvents:
    """Events of one tracepoint that pass a filter, of all processes and processors. To be closed;
    used by one thread."""

    def __init__(self, point: Tracepoint, filter_: str) -> None:
        """`filter_` is in the words of Documentation/trace/events.rst. Raises OSError: EPERM or
        EACCES where this user may not, EINVAL for a filter that the kernel does not take."""
        with ExitStack() as opened:
            self._handles: list[int] = []
            self._rings: list[_Ring] = []
            self._seen = 0
            processors = _processors_online()
            each = max(_LEAST_RING_BYTES, min(_RING_BYTES, _RINGS_BYTES // len(processors)))
            size = 1 << (each.bit_length() - 1)
            for processor in processors:
                handle = _open(point.number, processor)
                opened.callback(os.close, handle)
                _control(handle, _SET_FILTER, filter_.encode() + b"\0")
                ring = _Ring(handle, size)
                opened.callback(ring.close)
                self._handles.append(handle)
                self._rings.append(ring)
            self._opened = opened.pop_all()

    def enable(self) -> None:
        """Raises OSError."""
        for handle in self._handles:
            fcntl.ioctl(handle, _ENABLE, 0)

    def disable(self) -> None:
        """Raises OSError."""
        for handle in self._handles:
            fcntl.ioctl(handle, _DISABLE, 0)

    def take(self, columns: Sequence[slice]) -> Tally:
        """What came since the last call, to be called while disabled. `columns` are stretches of an
        event's bytes."""
        counts: Counter[bytes] = Counter()
        taken = sum(tally(ring.take(), columns, counts) for ring in self._rings)
        # Events are counted whether or not there was room; records of lost ones come only with the
        # next that finds some.
        seen = sum(_U64.unpack(os.read(handle, _U64.size))[0] for handle in self._handles)
        lost, self._seen = max(0, seen - self._seen - taken), seen
        return Tally(counts=counts, lost=lost)

    def close(self) -> None:
        """End; may be called twice."""
        self._opened.close()
        self._handles, self._rings = [], []


class _Ring:
    """What one processor's events are written into: a page of positions, and behind it the
    records."""

    def __init__(self, handle: int, size: int) -> None:
        page = mmap.PAGESIZE
        self._map = mmap.mmap(handle, page + size, mmap.MAP_SHARED)
        self._first = page
        self._size = size

    def take(self) -> bytes:
        """The records that have not been taken."""
        head = _U64.unpack_from(self._map, _DATA_HEAD)[0]
        tail = _U64.unpack_from(self._map, _DATA_TAIL)[0]
        start, end = tail % self._size, head % self._size
        if head == tail:
            return b""
        if start < end:
            content = self._map[self._first + start : self._first + end]
        else:
            content = self._map[self._first + start : self._first + self._size]
            content += self._map[self._first : self._first + end]
        _U64.pack_into(self._map, _DATA_TAIL, head)
        return content

    def close(self) -> None:
        self._map.close()


def tally(records: bytes, columns: Sequence[slice], counts: Counter[bytes]) -> int:
    """Add the samples among a ring's records to `counts`; how many they are."""
    if not records:
        return 0
    length = _RECORD.unpack_from(records)[2]
    size, rest = divmod(len(records), length)
    # Nearly always all are samples of one length: told by their heads, which then are the same.
    alike = not rest and all(
        records[at::length] == records[at : at + 1] * size for at in range(_RECORD.size)
    )
    starts = range(0, len(records), length) if alike else _starts(records)
    samples = [at for at in starts if records[at] == _RECORD_SAMPLE]
    counts.update([_cut(records, at + _EVENT_AT, columns) for at in samples])
    return len(samples)


def _starts(records: bytes) -> Iterator[int]:
    at = 0
    while at < len(records):
        yield at
        at += _RECORD.unpack_from(records, at)[2]


def _cut(records: bytes, start: int, columns: Sequence[slice]) -> bytes:
    return b"".join([records[start + one.start : start + one.stop] for one in columns])


def _open(number: int, processor: int) -> int:
    """perf_event_open(2) of all processes on one processor. Raises OSError."""
    attributes = bytearray(_ATTR_BYTES)
    # type, size, config, sample_period, sample_type, read_format, flags
    struct.pack_into(
        "=IIQQQQQ",
        attributes,
        0,
        *(_TYPE_TRACEPOINT, _ATTR_BYTES, number, 1, _SAMPLE_RAW, 0, _FLAG_DISABLED),
    )
    library = ctypes.CDLL(None, use_errno=True)
    handle: int = library.syscall(
        ctypes.c_long(_NUMBERS.get(platform.machine(), _NUMBER_OF_OTHERS)),
        (ctypes.c_char * _ATTR_BYTES).from_buffer(attributes),
        ctypes.c_int(-1),
        ctypes.c_int(processor),
        ctypes.c_int(-1),
        ctypes.c_ulong(_FLAG_CLOEXEC),
    )
    if handle < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    return handle


def _control(handle: int, request: int, argument: bytes) -> None:
    """ioctl(2) with a pointer to text: fcntl.ioctl would copy it into a buffer of its own size."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.ioctl(handle, ctypes.c_ulong(request), ctypes.c_char_p(argument)) < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))


def _processors_online() -> list[int]:
    """`0-3,8` of the kernel's list. Raises OSError, ValueError."""
    found: list[int] = []
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
