"""Counters of a cluster's OSDs during a trial, written to `ceph-counters.jsonl`.

Each line is JSON: `{"at", "elapsed_s", "hosts", "osds", "sizes", "failed"}` at the start and the
end, with those counters of `perf dump` that tell where an operation waits, by OSD (a pair is a
count and a sum of seconds), and the sizes of clients' operations from `perf histogram dump`;
`{"at", "elapsed_s", "perf"}` in between, commit and apply latency in nanoseconds by OSD as `osd
perf` has them; `{"at", "elapsed_s", "error"}` where no answer came.
`leadline.formats.ceph.counters` reads it; what it costs stands in docs/internals/performance.md.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from leadline.archive import layout
from leadline.errors import LeadlineError
from leadline.formats.ceph.counters import COUNTS, KEPT, LATENCIES, OBJECTER, SIZES
from leadline.probes.watches.base import AskingWatch, Line

# Each OSD is asked over a connection of its own; with the answer that takes milliseconds. So many
# can be asked while a trial waits for it to end; the others are told as not asked. Histograms are
# asked for behind all counters, in what is left of that time.
_DUMPS_S = 4.0


class Daemons(Protocol):
    """What the watch needs of a `leadline.connect.ceph.Connection`."""

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def osd(self, number: int, prefix: str, /, **arguments: object) -> bytes: ...


class CephCountersWatch(AskingWatch):
    """Dumps counters at `start` and `stop`, and asks for `osd perf` between. `patience_s` should be
    the connection's timeout and `_DUMPS_S`."""

    def __init__(
        self,
        daemons: Daemons,
        folder: Path,
        *,
        period_s: float = 2.0,
        patience_s: float = 15.0,
    ) -> None:
        super().__init__(folder / layout.CEPH_COUNTERS, period_s=period_s, patience_s=patience_s)
        self._daemons = daemons

    def _sample(self, *, end: bool) -> Line:
        return self._dumps() if end else self._perf()

    def _dumps(self) -> Mapping[str, Any]:
        """`perf dump` of every OSD that is up."""
        tree = orjson.loads(self._daemons.mon("osd tree", states=["up"], format="json"))
        nodes = tree["nodes"]
        hosts = {
            str(child): node["name"]
            for node in nodes
            if node["type"] == "host"
            for child in node.get("children", ())
        }
        dumps: dict[str, Mapping[str, Any]] = {}
        failed: dict[str, str] = {}
        deadline = time.monotonic() + _DUMPS_S
        for number in sorted(node["id"] for node in nodes if node["type"] == "osd"):
            if time.monotonic() > deadline:
                failed[str(number)] = f"not asked: the others took {_DUMPS_S:g} s"
                continue
            # One OSD that is silent must not keep the counters of the others back.
            try:
                dumps[str(number)] = _lean(
                    orjson.loads(self._daemons.osd(number, "perf dump", format="json"))
                )
            except Exception as error:
                said = error.fact if isinstance(error, LeadlineError) else repr(error)
                failed[str(number)] = said
        return {
            "hosts": {number: hosts[number] for number in dumps if number in hosts},
            "osds": dumps,
            "sizes": self._sizes(list(dumps), deadline),
            "failed": failed,
        }

    def _sizes(self, osds: Sequence[str], deadline: float) -> Mapping[str, Any]:
        """Of those OSDs that tell it before time.monotonic() is `deadline`: what is missing is
        missing in the first dump or the last one, and nothing is said of that OSD then."""
        found: dict[str, Any] = {}
        for number in osds:
            if time.monotonic() > deadline:
                break
            # A release that has no histograms, or an OSD that fell silent: the counters stand.
            with suppress(Exception):
                answer = self._daemons.osd(
                    int(number), "perf histogram dump", logger="osd", format="json"
                )
                found[number] = sizes_of_operations(orjson.loads(answer))
        return found

    def _perf(self) -> Mapping[str, Any]:
        answer = orjson.loads(self._daemons.mgr("osd perf", format="json"))
        # Nautilus and later have it below `osdstats`.
        infos = answer.get("osdstats", answer)["osd_perf_infos"]
        return {
            "perf": {
                str(info["id"]): [
                    info["perf_stats"]["commit_latency_ns"],
                    info["perf_stats"]["apply_latency_ns"],
                ]
                for info in infos
            }
        }


def sizes_of_operations(dump: Any) -> Mapping[str, Mapping[str, int]]:
    """By kind of operation how many there were of each size, told by the least bytes of its bucket;
    sizes that never were are left out. Raises for what is no dump of histograms.

    The histograms have two axes, latency and size (`op_hist_x_axis_config` and `_y_` in
    src/osd/osd_perf_counters.cc); they are projected on the size.
    """
    found: dict[str, Mapping[str, int]] = {}
    for kind, name in SIZES.items():
        histogram = dump["osd"].get(name)
        if histogram is None:
            continue
        bounds = [max(0, item.get("min", 0)) for item in histogram["axes"][1]["ranges"]]
        total: Counter[int] = Counter()
        for row in histogram["values"]:
            for bound, operations in zip(bounds, row, strict=True):
                total[bound] += operations
        found[kind] = {str(bound): item for bound, item in sorted(total.items()) if item}
    return found


def _lean(dump: Any) -> Mapping[str, Any]:
    """The counters that are kept, a few of the 600 of `perf dump`; a latency as a pair of the
    operations and their seconds added up."""
    found: dict[str, Any] = {}
    for section, names in KEPT.items():
        counters = dump.get(section, {})
        for name in names:
            value = counters.get(name)
            if isinstance(value, dict):
                found[f"{section}.{name}"] = [value["avgcount"], value["sum"]]
            elif value is not None:
                found[f"{section}.{name}"] = value
    if not found:
        raise ValueError("it tells none of the counters of an OSD")
    return found


# The health of a Ceph cluster during a trial, written to `cluster.jsonl` as it goes.
#  Each line is JSON: `{"at", "elapsed_s", "status"}` with the status document where something of
# meaning changed; `{"at", "elapsed_s", "same": true, "io"}` where only client I/O and usage did;
# `{"at", "elapsed_s", "error"}` where no answer came. `leadline.formats.ceph.counters` reads it.
#  Measured on a Ceph 16.2 of five OSDs, whose status is 1 KB, on two shared cores: a sample takes
# 0.9 ms (90 % within 1.3 ms), 0.9 ms of CPU here and 3 ms of the monitor's, the open connection 2
# ms of CPU per second; so 0.25 % of one core with a sample every 2 s, and 1 KB of archive for
# each sample that changed, 0.1 KB for others.

# What a moment's usage and client I/O change without anything having happened to the cluster.
_IO = ("read_bytes_sec", "write_bytes_sec", "read_op_per_sec", "write_op_per_sec")
_VOLATILE_TOP = ("quorum_age", "servicemap")
_VOLATILE_PGMAP = (
    *_IO,
    *("data_bytes", "bytes_used", "bytes_avail", "bytes_total", "num_objects"),
    *("promote_op_per_sec", "flush_bytes_sec", "evict_bytes_sec"),
)


class Monitors(Protocol):
    """What the watch needs of a `leadline.connect.ceph.Connection`."""

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...


class ClusterWatch(AskingWatch):
    """Samples the cluster's status. `patience_s` should be the connection's timeout."""

    def __init__(
        self,
        monitors: Monitors,
        folder: Path,
        *,
        period_s: float = 2.0,
        patience_s: float = 10.0,
    ) -> None:
        super().__init__(folder / layout.CLUSTER, period_s=period_s, patience_s=patience_s)
        self._monitors = monitors
        self._last: object = None

    def _sample(self, *, end: bool) -> Line:
        status = _ceph_watch_lean(orjson.loads(self._monitors.mon("status", format="json")))
        seen = _meaning(status)
        if seen == self._last:
            pgmap = status["pgmap"]
            return {"same": True, "io": {key: pgmap[key] for key in _IO if key in pgmap}}
        self._last = seen
        return {"status": status}


def _ceph_watch_lean(status: Any) -> Any:
    """The document without the catalogue of modules that a manager could load, which makes 95 of
    the 100 KB that Nautilus writes. Raises for what is no status."""
    manager = status.get("mgrmap", {})
    for standby in (manager, *manager.get("standbys", ())):
        standby.pop("available_modules", None)
    return status


def _meaning(status: Any) -> object:
    """The document without what changes while nothing happens. Raises for what is no status."""
    pgmap = {key: value for key, value in status["pgmap"].items() if key not in _VOLATILE_PGMAP}
    rest = {key: value for key, value in status.items() if key not in _VOLATILE_TOP}
    return {**rest, "pgmap": pgmap}


# What a client of an RBD image did during a trial, written to `image-counters.jsonl`.
#  Each line is JSON: `{"at", "elapsed_s", "image", "client", "counters"}`, the counters since the
# client began (a latency is a pair of a count and a sum of seconds), added up over its processes;
# `{"at", "elapsed_s", "image", "error"}` where none came. `leadline.formats.ceph.counters` reads
# it; what it costs stands in docs/internals/performance.md.
#  librbd tells its counters at the admin socket of its process: a command as JSON with a NUL
# behind it, and the answer behind its length in four bytes, the highest first (Ceph's
# src/common/admin_socket.cc). A process that ends takes them with it. So they are asked for four
# times a second (of more than four processes less often) and kept once a second, the last answer
# in any case, and what a process told last counts for it from then on.

# A process answers within a millisecond or two; one that is stuck is asked again next time.
_ANSWER_S: Final = 2.0
_LENGTH: Final = struct.Struct(">I")
# Of `perf dump` of one client: 10 to 30 KB.
_LONGEST: Final = 16 << 20

_KEPT_EACH_S: Final = 1.0
# Each asking costs a client about 0.2 ms; of many clients each is asked less often.
_ASKED_PER_S: Final = 16

Counters = Mapping[str, int | Sequence[float]]


class ImageWatch(AskingWatch):
    """Asks the processes that serve `image` (`POOL/IMAGE`) at `place`: an admin socket, or a
    folder of sockets that come and go with their processes."""

    def __init__(
        self,
        image: str,
        client: str,
        place: Path,
        folder: Path,
        *,
        period_s: float = 0.25,
        patience_s: float = 5.0,
    ) -> None:
        path = folder / layout.IMAGE_COUNTERS
        super().__init__(path, period_s=period_s, patience_s=patience_s)
        self._image = image
        self._client = client
        self._place = place
        self._last: dict[str, Counters] = {}
        self._kept_at_s = -_KEPT_EACH_S
        self._unkept: Line | None = None
        self._pause_until_s = 0.0

    def _sample(self, *, end: bool) -> Line | None:
        stamp = self._lines.stamp()
        if not end and stamp["elapsed_s"] < self._pause_until_s:
            return None
        who = {"image": self._image, "client": self._client}
        sockets = self._sockets()
        self._pause_until_s = stamp["elapsed_s"] + len(sockets) / _ASKED_PER_S - self._period_s / 2
        unknown = not self._last
        answered, failed = self._ask(sockets)
        there = self._place.is_dir()
        first = answered and unknown
        due = end or first or stamp["elapsed_s"] >= self._kept_at_s + _KEPT_EACH_S
        line: Line | None
        if answered or (end and there and not self._last and not failed):
            line = {**stamp, **who, "counters": total(list(self._last.values()))}
        elif failed or not there:
            line = {**who, "error": failed or f"there is no socket at {self._place}"}
        else:
            # Its processes are not there yet, or have ended: then what they told last is kept.
            line, self._unkept = self._unkept, None
            return line
        if due:
            self._kept_at_s, self._unkept = stamp["elapsed_s"], None
            return line
        if answered:
            self._unkept = line
        return None

    def _ask(self, sockets: Sequence[Path]) -> tuple[bool, str]:
        """Whether any process of the image told its counters, and why one did not."""
        answered, failed = False, ""
        # Where processes come and go, one may end in the middle of an answer.
        ended = ConnectionError if self._place.is_dir() else ConnectionRefusedError
        for path in sockets:
            try:
                told = counters_of(orjson.loads(perf_dump(path)), self._image)
            except (ended, FileNotFoundError):
                continue  # its process has ended, by force if the socket is still there
            except (OSError, ValueError) as error:
                failed = f"{path.name}: {error}"
                continue
            # A process that has not opened the image yet, or another's.
            if told is not None:
                self._last[path.name] = told
                answered = True
        return answered, failed

    def _sockets(self) -> list[Path]:
        paths = sorted(self._place.iterdir()) if self._place.is_dir() else [self._place]
        return [path for path in paths if path.is_socket()]


def perf_dump(path: Path) -> bytes:
    """All counters of the process behind an admin socket. Raises OSError, ValueError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_ANSWER_S)
        asking.connect(str(path))
        asking.sendall(orjson.dumps({"prefix": "perf dump", "format": "json"}) + b"\0")
        (length,) = _LENGTH.unpack(_received(asking, _LENGTH.size))
        if length > _LONGEST:
            raise ValueError(f"an answer of {length} bytes")
        return _received(asking, length)


def _received(asking: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = asking.recv(length)
        if not part:
            raise ConnectionError("the answer ends early")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def counters_of(dump: Any, image: str) -> Counters | None:
    """Those of an image that are kept, from a `perf dump`: of its section `librbd-ID-POOL-IMAGE`,
    and of the client's own operations on objects. None where the process has not opened it."""
    ending = "-" + image.replace("/", "-")
    sections = [
        section
        for name, section in dump.items()
        if name.startswith("librbd-") and name.endswith(ending)
    ]
    if not sections:
        return None
    objecter = {f"objecter.{name}": dump.get("objecter", {}).get(name, 0) for name in OBJECTER}
    return total([*(_kept(section) for section in sections), objecter])


def _kept(section: Mapping[str, Any]) -> Counters:
    found: dict[str, int | Sequence[float]] = {
        name: section[name] for name in COUNTS if isinstance(section.get(name), int)
    }
    for name in LATENCIES:
        value = section.get(name)
        if isinstance(value, dict):
            found[name] = [value["avgcount"], value["sum"]]
    return found


def total(several: Sequence[Counters]) -> Counters:
    """The counters of several processes added up."""
    added: dict[str, Any] = {}
    for item in several:
        for name, value in item.items():
            if isinstance(value, int):
                added[name] = added.get(name, 0) + value
            else:
                before = added.get(name, [0, 0.0])
                added[name] = [before[0] + value[0], before[1] + value[1]]
    return added
