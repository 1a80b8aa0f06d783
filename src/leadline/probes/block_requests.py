"""Sizes of requests to block devices during a trial, written to `block-requests.jsonl`.

Each line is JSON: `{"at", "elapsed_s", "device", "seconds", "lost", "reads", "writes", "discards",
"flushes"}`, the requests that were issued to a device in a window of that many seconds, counted by
their size in bytes; `{"at", "elapsed_s", "device", "error"}` where a device has none to be seen,
and `{"at", "elapsed_s", "error"}` where nothing can be sampled. `leadline.formats.block_requests`
reads it; what it costs stands in docs/internals/performance.md.

The tracepoint block_rq_issue tells each request as it goes to the driver: behind merging and
splitting. /proc/diskstats counts the same requests and their bytes, but not by size.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from leadline.archive import layout
from leadline.probes.lines import Lines
from leadline.probes.tracepoints import Tracepoint, TracepointEvents, tracepoint
from leadline.probes.watches import Line, Watch

_SECTOR_BYTES: Final = 512
_CLASSES: Final = Path("/sys/class/block")
_COUNTERS: Final = Path("/proc/diskstats")
# The kernel's own numbers of devices: major << 20 | minor (include/linux/kdev_t.h).
_MINOR_BITS: Final = 20
# An engine starts and connects first.
_FIRST_S: Final = 0.5
_PERIOD_S: Final = 2.0
# Each request seen costs about a microsecond. Windows are made so long that about so many are
# seen, as long as that is between these bounds: a thousandth of the time is what it costs then,
# and a slow device is watched for half of it.
_WINDOW_S: Final = 0.05
_LEAST_WINDOW_S: Final = 0.01
_LONGEST_WINDOW_S: Final = 1.0
_WANTED: Final = 2000
# Where in its period each window lies: multiples of the golden ratio modulo 1 leave no rhythm of
# the load (a journal, a transaction group every 5 s) that windows would always or never meet.
_GOLDEN: Final = 0.6180339887498949
_FIELDS: Final = ("dev", "nr_sector", "rwbs")
_HEAD: Final = struct.Struct("=II")
_KINDS: Final = {"R": "reads", "W": "writes", "D": "discards"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Disk:
    """A whole block device, and the kernel's number of it."""

    name: str
    number: int


@dataclass(slots=True, kw_only=True)
class Sizes:
    """Requests to one device by size in bytes; `flushes` have none."""

    reads: Counter[int] = field(default_factory=Counter)
    writes: Counter[int] = field(default_factory=Counter)
    discards: Counter[int] = field(default_factory=Counter)
    flushes: int = 0

    def line(self) -> Line:
        counted = {"reads": self.reads, "writes": self.writes, "discards": self.discards}
        told: dict[str, Any] = {
            key: {str(size): one for size, one in sorted(sizes.items())}
            for key, sizes in counted.items()
        }
        return {**told, "flushes": self.flushes}


class BlockWatch(Watch):
    """Samples requests to `devices`, named as in /proc/diskstats, in short windows by a thread.

    Partitions are watched as the device that they are on. Nothing is raised: what cannot be had is
    a line.
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
        self._devices = tuple(devices)
        self._lines = Lines(folder / layout.BLOCK_REQUESTS)
        self._first_s = first_s
        self._period_s = period_s
        self._patience_s = patience_s
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if not self._lines.open():
            return  # the trial cannot write its own files either, and says so
        self._thread = threading.Thread(target=self._run, name="BlockWatch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None or self._ending.is_set():
            return
        self._ending.set()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            self._write({"error": f"no answer within {self._patience_s:g} s of the end"})
        self._lines.close()

    def _run(self) -> None:
        try:
            disks = self._disks()
            if disks:
                self._windows(disks)
        # Whatever it is, it must not reach the trial; readers take it for a missed sample.
        except Exception as error:
            self._write({"error": _why(error)})

    def _disks(self) -> tuple[_Disk, ...]:
        """The devices that make requests; of the others a line each."""
        found: dict[str, _Disk] = {}
        for device in self._devices:
            try:
                disk = _disk(device)
            except (OSError, ValueError) as error:
                self._write({"device": device, "error": _why(error)})
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
            window_s = next_window_s(window_s, self._window(point, disks, window_s))

    def _window(self, point: Tracepoint, disks: Sequence[_Disk], window_s: float) -> int:
        """One window, a line for each device; how many requests there were."""
        # Opened for each window: in between the kernel does nothing for it.
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
        sizes = sizes_by_device(tally.counts)
        for disk in disks:
            told = sizes.get(disk.number, Sizes())
            self._lines.write(
                {
                    **stamp,
                    "device": disk.name,
                    "seconds": seconds,
                    "lost": tally.lost,
                    **told.line(),
                }
            )
        return tally.lost + sum(tally.counts.values())

    def _write(self, line: Line) -> None:
        self._lines.write({**self._lines.stamp(), **line})


def next_window_s(window_s: float, seen: int) -> float:
    """How long the window behind one of `window_s` is, which saw so many requests. One that saw few
    says little of how many come, so that it grows by steps."""
    wanted_s = window_s * min(2.0, _WANTED / max(1, seen))
    return min(_LONGEST_WINDOW_S, max(_LEAST_WINDOW_S, wanted_s))


def sizes_by_device(counts: Mapping[bytes, int]) -> Mapping[int, Sizes]:
    """Requests by the kernel's number of their device; keys of `counts` are `_FIELDS` as bytes."""
    found: dict[int, Sizes] = {}
    for key, count in counts.items():
        device, sectors = _HEAD.unpack_from(key)
        sizes = found.setdefault(device, Sizes())
        kind = kind_of(key[_HEAD.size :].partition(b"\0")[0].decode("ascii", "replace"))
        if kind == "F":
            sizes.flushes += count
        elif kind in _KINDS:
            by_size: Counter[int] = getattr(sizes, _KINDS[kind])
            by_size[sectors * _SECTOR_BYTES] += count
    return found


def kind_of(rwbs: str) -> str:
    """What a request does, of the letters that blk_fill_rwbs (kernel/trace/blktrace.c) makes: R
    read, W write, D discard, E secure erase, F flush, N another. A flush before the request itself
    puts an F in front (`FWFS`), and `FF` or `F` is a flush alone."""
    return rwbs[1:2] if rwbs[:1] == "F" and len(rwbs) > 1 else rwbs[:1]


def _disk(device: str) -> _Disk:
    """The whole device that `device` is, or is a part of. Raises OSError, ValueError."""
    folder = (_CLASSES / device).resolve(strict=True)
    if (folder / "partition").exists():
        folder = folder.parent
    if not (folder / "mq").exists():
        raise ValueError("it makes no requests of its own, but hands on what it is given")
    major, minor = _number(folder)
    return _Disk(name=folder.name, number=major << _MINOR_BITS | minor)


def _number(folder: Path) -> tuple[int, int]:
    """Major and minor number. A path of native multipath of NVMe is hidden and has no `dev`, but
    the kernel counts and traces it by a number all the same."""
    try:
        major, _, minor = (folder / "dev").read_text().strip().partition(":")
        return int(major), int(minor)
    except FileNotFoundError:
        for line in _COUNTERS.read_text().splitlines():
            words = line.split()
            if words[2] == folder.name:
                return int(words[0]), int(words[1])
        raise


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or repr(error)}"
    return str(error) or repr(error)
