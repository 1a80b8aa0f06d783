"""Sizes of requests to block devices during a trial, written to `block-requests.jsonl`.

Each line is JSON: `{"at", "elapsed_s", "device", "seconds", "lost", "reads", "writes", "discards",
"flushes"}`, the requests issued to a device in a window of that many seconds, counted by size in
bytes; `{"at", "elapsed_s", "device", "error"}` for a device without requests of its own, and
`{"at", "elapsed_s", "error"}` where sampling is impossible. `leadline.formats.watch_records` reads
it; its cost is in docs/internals/performance.md.

The tracepoint block_rq_issue reports each request on its way to the driver, after merging and
splitting. /proc/diskstats counts the same requests and their bytes, but not by size.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import mmap
import os
import platform
import re
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from leadline.archive import layout
from leadline.probes.watches.base import (
    Line,
    ThreadWatch,
    open_kernel_file,
    read_kernel_file,
)

_TRACEFS: Final = Path("/sys/kernel/tracing")
_OLD_TRACEFS: Final = Path("/sys/kernel/debug/tracing")
# perf_event_open in arch/*/entry/syscalls; newer architectures share one table.
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
# After a sample's head: the u32 size of the event, then the event.
_EVENT_AT: Final = 12
_DATA_HEAD: Final = 1024
_DATA_TAIL: Final = 1032
_RECORD = struct.Struct("=IHH")
_U64 = struct.Struct("=Q")
# The memory of all rings, and of each ring, that the kernel holds while a trial runs.
_RINGS_BYTES: Final = 32 << 20
_RING_BYTES: Final = 512 << 10
_LEAST_RING_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracepoint:
    """A tracepoint's number in this kernel, and the position of its fields in an event."""

    number: int
    fields: Mapping[str, slice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The number of events by the concatenated bytes of their columns, and the number of lost
    events."""

    counts: Mapping[bytes, int]
    lost: int


@cache
def tracepoint(group: str, name: str) -> Tracepoint:
    """Return a tracepoint. Raises OSError where it is unavailable, ValueError for an unknown
    format."""
    path = f"events/{group}/{name}/format"
    try:
        handle = open_kernel_file("tracefs", _TRACEFS, path)
    except OSError as error:
        # Before Linux 4.1, and where tracefs must not be mounted.
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
    """Parse the `format` file of a tracepoint (Documentation/trace/events.rst). Raises
    ValueError."""
    number = _ID.search(text)
    if number is None:
        raise ValueError("the tracepoint's format has no ID")
    fields = {
        found[1]: slice(int(found[2]), int(found[2]) + int(found[3]))
        for found in _FIELD.finditer(text)
    }
    return Tracepoint(number=int(number[1]), fields=fields)


class TracepointEvents:
    """Events of one tracepoint that pass a filter, of all processes and CPUs (perf_event_open(2)).
    To be closed; used by one thread.

    The kernel removes perf events with their process, unlike settings of tracefs. Events go to one
    ring per CPU (Documentation/userspace-api/perf_ring_buffer.rst); a full ring only counts them.
    """

    def __init__(self, point: Tracepoint, filter_: str) -> None:
        """`filter_` has the syntax of Documentation/trace/events.rst. Raises OSError: EPERM or
        EACCES for this user, EINVAL for an invalid filter."""
        with ExitStack() as opened:
            self._handles: list[int] = []
            self._rings: list[_Ring] = []
            self._seen = 0
            cpus = _online_cpus()
            each = max(_LEAST_RING_BYTES, min(_RING_BYTES, _RINGS_BYTES // len(cpus)))
            size = 1 << (each.bit_length() - 1)
            for cpu in cpus:
                handle = _open(point.number, cpu)
                opened.callback(os.close, handle)
                _control(handle, _SET_FILTER, filter_.encode() + b"\0")
                ring = _Ring(handle, size)
                opened.callback(ring.close)
                self._handles.append(handle)
                self._rings.append(ring)
            self._opened = opened.pop_all()

    def enable(self) -> None:
        """Count events from now on. Raises OSError."""
        for handle in self._handles:
            fcntl.ioctl(handle, _ENABLE, 0)

    def disable(self) -> None:
        """Stop counting. Raises OSError."""
        for handle in self._handles:
            fcntl.ioctl(handle, _DISABLE, 0)

    def take(self, columns: Sequence[slice]) -> Tally:
        """Return the events since the last call, while disabled. `columns` are parts of an event's
        bytes."""
        counts: Counter[bytes] = Counter()
        taken = sum(tally(ring.take(), columns, counts) for ring in self._rings)
        # The counter includes lost events; a record of a loss comes only with the next stored
        # event.
        seen = sum(_U64.unpack(os.read(handle, _U64.size))[0] for handle in self._handles)
        lost, self._seen = max(0, seen - self._seen - taken), seen
        return Tally(counts=counts, lost=lost)

    def close(self) -> None:
        """Close the events; may be called twice."""
        self._opened.close()
        self._handles, self._rings = [], []


class _Ring:
    """The ring buffer of one CPU: a page of positions, then the records."""

    def __init__(self, handle: int, size: int) -> None:
        page = mmap.PAGESIZE
        self._map = mmap.mmap(handle, page + size, mmap.MAP_SHARED)
        self._first = page
        self._size = size

    def take(self) -> bytes:
        """Return the new records."""
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
    """Add the samples in a ring's records to `counts`; return their number."""
    if not records:
        return 0
    length = _RECORD.unpack_from(records)[2]
    size, rest = divmod(len(records), length)
    # Nearly always all records are samples of one length: then their heads are equal.
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
    return b"".join([records[start + column.start : start + column.stop] for column in columns])


def _open(number: int, cpu: int) -> int:
    """Call perf_event_open(2) for all processes on one CPU. Raises OSError."""
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
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(_FLAG_CLOEXEC),
    )
    if handle < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    return handle


def _control(handle: int, request: int, argument: bytes) -> None:
    """Call ioctl(2) with a pointer to text: fcntl.ioctl would copy it into another buffer."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.ioctl(handle, ctypes.c_ulong(request), ctypes.c_char_p(argument)) < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))


def _online_cpus() -> list[int]:
    """Parse the kernel's list of CPUs, such as `0-3,8`. Raises OSError, ValueError."""
    found: list[int] = []
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


_SECTOR_BYTES: Final = 512
_CLASSES: Final = Path("/sys/class/block")
_COUNTERS: Final = Path("/proc/diskstats")
# The kernel's own numbers of devices: major << 20 | minor (include/linux/kdev_t.h).
_MINOR_BITS: Final = 20
# An engine needs this time to start.
_FIRST_S: Final = 0.5
_PERIOD_S: Final = 2.0
# A request costs about a microsecond. A window is long enough for about _WANTED requests, within
# these limits: the cost is then a thousandth of the time, and a slow device is watched half of the
# time.
_WINDOW_S: Final = 0.05
_LEAST_WINDOW_S: Final = 0.01
_LONGEST_WINDOW_S: Final = 1.0
_WANTED: Final = 2000
# The position of a window in its period: multiples of the golden ratio modulo 1 avoid any rhythm of
# the load (a journal, a transaction group every 5 s).
_GOLDEN: Final = 0.6180339887498949
_FIELDS: Final = ("dev", "nr_sector", "rwbs")
_HEAD: Final = struct.Struct("=II")
_KINDS: Final = {"R": "reads", "W": "writes", "D": "discards"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Disk:
    """A whole block device and its number in the kernel."""

    name: str
    number: int


@dataclass(slots=True, kw_only=True)
class Sizes:
    """Requests to one device by size in bytes; flushes have no size."""

    reads: Counter[int] = field(default_factory=Counter)
    writes: Counter[int] = field(default_factory=Counter)
    discards: Counter[int] = field(default_factory=Counter)
    flushes: int = 0

    def line(self) -> Line:
        counted = {"reads": self.reads, "writes": self.writes, "discards": self.discards}
        fields: dict[str, Any] = {
            key: {str(size): count for size, count in sorted(sizes.items())}
            for key, sizes in counted.items()
        }
        return {**fields, "flushes": self.flushes}


class BlockWatch(ThreadWatch):
    """Samples requests to `devices`, named as in /proc/diskstats, in short windows.

    A partition is watched as its whole device. A failure is a line.
    """

    def __init__(
        self,
        devices: Sequence[str],
        folder: Path,
        *,
        first_s: float = _FIRST_S,
        period_s: float = _PERIOD_S,
        patience_s: float = 5.0,
    ) -> None:
        path = folder / layout.BLOCK_REQUESTS
        super().__init__(path, period_s=period_s, patience_s=patience_s)
        self._devices = tuple(devices)
        self._first_s = first_s

    def _tasks(self) -> Sequence[tuple[Line, Callable[[], None]]]:
        return [({}, self._run)]

    def _run(self) -> None:
        try:
            disks = self._disks()
            if disks:
                self._windows(disks)
        # No failure may reach the trial; readers see a missed sample.
        except Exception as error:
            self._write({"error": _describe(error)})

    def _disks(self) -> tuple[_Disk, ...]:
        """Return the devices with requests of their own; write a line for each other device."""
        found: dict[str, _Disk] = {}
        for device in self._devices:
            try:
                disk = _disk(device)
            except (OSError, ValueError) as error:
                self._write({"device": device, "error": _describe(error)})
            else:
                found[disk.name] = disk
        return tuple(found.values())

    def _windows(self, disks: Sequence[_Disk]) -> None:
        point = tracepoint("block", "block_rq_issue")
        began, window_s = time.monotonic() + self._first_s, _WINDOW_S
        for number in itertools.count():
            free_s = max(0.0, self._period_s - _LONGEST_WINDOW_S)
            due = began + number * self._period_s + number * _GOLDEN % 1.0 * free_s
            if self._ending.wait(max(0.0, due - time.monotonic())):
                return
            window_s = compute_next_window_s(window_s, self._window(point, disks, window_s))

    def _window(self, point: Tracepoint, disks: Sequence[_Disk], window_s: float) -> int:
        """Sample one window, write a line per device, return the number of requests."""
        # Opened per window: in between the kernel has no work.
        events = TracepointEvents(point, " || ".join(f"dev == {disk.number}" for disk in disks))
        try:
            stamp = self._lines.stamp()
            began = time.monotonic()
            events.enable()
            self._ending.wait(window_s)
            events.disable()
            seconds = round(time.monotonic() - began, 6)
            tally = events.take([point.fields[name] for name in _FIELDS])
        finally:
            events.close()
        sizes = count_by_device(tally.counts)
        for disk in disks:
            found = sizes.get(disk.number, Sizes())
            self._lines.write(
                {
                    **stamp,
                    "device": disk.name,
                    "seconds": seconds,
                    "lost": tally.lost,
                    **found.line(),
                }
            )
        return tally.lost + sum(tally.counts.values())

    def _write(self, line: Line) -> None:
        self._lines.write({**self._lines.stamp(), **line})


def compute_next_window_s(window_s: float, seen: int) -> float:
    """Return the length of the window after one of `window_s` with so many requests. It grows in
    steps, since few requests are a poor estimate."""
    wanted_s = window_s * min(2.0, _WANTED / max(1, seen))
    return min(_LONGEST_WINDOW_S, max(_LEAST_WINDOW_S, wanted_s))


def count_by_device(counts: Mapping[bytes, int]) -> Mapping[int, Sizes]:
    """Count requests by the kernel's number of their device; keys of `counts` are `_FIELDS` as
    bytes."""
    found: dict[int, Sizes] = {}
    for key, count in counts.items():
        device, sectors = _HEAD.unpack_from(key)
        sizes = found.setdefault(device, Sizes())
        kind = read_kind(key[_HEAD.size :].partition(b"\0")[0].decode("ascii", "replace"))
        if kind == "F":
            sizes.flushes += count
        elif kind in _KINDS:
            by_size: Counter[int] = getattr(sizes, _KINDS[kind])
            by_size[sectors * _SECTOR_BYTES] += count
    return found


def read_kind(rwbs: str) -> str:
    """Return the kind of a request from the letters of blk_fill_rwbs (kernel/trace/blktrace.c): R
    read, W write, D discard, E secure erase, F flush, N other. A flush before the request adds a
    leading F (`FWFS`); `FF` or `F` is only a flush."""
    return rwbs[1:2] if rwbs[:1] == "F" and len(rwbs) > 1 else rwbs[:1]


def _disk(device: str) -> _Disk:
    """Return the whole device of a device or partition. Raises OSError, ValueError."""
    folder = (_CLASSES / device).resolve(strict=True)
    if (folder / "partition").exists():
        folder = folder.parent
    if not (folder / "mq").exists():
        raise ValueError("it issues no requests of its own, but passes them on")
    major, minor = _number(folder)
    return _Disk(name=folder.name, number=major << _MINOR_BITS | minor)


def _number(folder: Path) -> tuple[int, int]:
    """Return the major and minor number. A hidden path of NVMe native multipath has no `dev`, but
    the kernel counts and traces it by a number."""
    try:
        major, _, minor = (folder / "dev").read_text().strip().partition(":")
        return int(major), int(minor)
    except FileNotFoundError:
        for line in _COUNTERS.read_text().splitlines():
            words = line.split()
            if words[2] == folder.name:
                return int(words[0]), int(words[1])
        raise


def _describe(error: Exception) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or repr(error)}"
    return str(error) or repr(error)
