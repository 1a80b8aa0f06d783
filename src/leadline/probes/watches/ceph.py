"""Watches of a Ceph cluster during a trial: OSD counters, cluster health, RBD client counters.

`ceph-counters.jsonl`: `{"at", "elapsed_s", "hosts", "osds", "sizes", "failed"}` at the start and
the end, with the counters of `perf dump` that show where an operation waits, by OSD (a pair is a
count and a sum of seconds), and the sizes of clients' operations from `perf histogram dump`;
`{"at", "elapsed_s", "perf"}` in between, commit and apply latency in nanoseconds by OSD from `osd
perf`; `{"at", "elapsed_s", "error"}` without an answer.

`cluster.jsonl`: `{"at", "elapsed_s", "status", "daemons"}` after a change of the status or of the
daemons that answer; `{"at", "elapsed_s", "same": true, "io"}` where only client I/O and usage
changed; `{"at", "elapsed_s", "error"}`.

`image-counters.jsonl`: `{"at", "elapsed_s", "image", "client", "counters"}`, the counters since the
client started (a latency is a pair of a count and a sum of seconds), added up over its processes;
`{"at", "elapsed_s", "image", "error"}`.

`leadline.formats.ceph.counters` reads them; their cost is in docs/internals/performance.md.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from leadline.archive import layout
from leadline.connect.ceph import ask_admin_socket
from leadline.formats.ceph.counters import COUNTS, KEPT, LATENCIES, OBJECTER, SIZES
from leadline.formats.ceph.status import service_daemons
from leadline.probes.watches.base import Line, SamplingWatch, describe_error
from leadline.probes.watches.ceph_daemons import CephDaemons, Monitors

# Each OSD has its own connection and answers within milliseconds. A trial waits this long for all
# of them; the others are reported as not asked. Histograms follow in the remaining time.
_DUMPS_S = 4.0


class Daemons(Protocol):
    """The part of `leadline.connect.ceph.Connection` that the counters need."""

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def osd(self, number: int, prefix: str, /, **arguments: object) -> bytes: ...


class CephCountersWatch(SamplingWatch):
    """Dumps counters at `start` and `stop`, and reads `osd perf` in between. `patience_s` should be
    the connection's timeout plus `_DUMPS_S`."""

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
        """Read `perf dump` of every OSD that is up."""
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
            # A silent OSD must not delay the counters of the others.
            try:
                dumps[str(number)] = _select_counters(
                    orjson.loads(self._daemons.osd(number, "perf dump", format="json"))
                )
            except Exception as error:
                failed[str(number)] = describe_error(error)
        return {
            "hosts": {number: hosts[number] for number in dumps if number in hosts},
            "osds": dumps,
            "sizes": self._sizes(list(dumps), deadline),
            "failed": failed,
        }

    def _sizes(self, osds: Sequence[str], deadline: float) -> Mapping[str, Any]:
        """Return the sizes from the OSDs that answer before the time.monotonic() `deadline`. An OSD
        that is missing in the first or the last dump has no sizes."""
        found: dict[str, Any] = {}
        for number in osds:
            if time.monotonic() > deadline:
                break
            # A release without histograms, or a silent OSD: the counters stay.
            with suppress(Exception):
                answer = self._daemons.osd(
                    int(number), "perf histogram dump", logger="osd", format="json"
                )
                found[number] = count_sizes(orjson.loads(answer))
        return found

    def _perf(self) -> Mapping[str, Any]:
        answer = orjson.loads(self._daemons.mgr("osd perf", format="json"))
        # Nautilus and later: below `osdstats`.
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


def count_sizes(dump: Any) -> Mapping[str, Mapping[str, int]]:
    """Count operations by kind and size (the lower bound of its bucket), without empty buckets.
    Raises for anything but a dump of histograms.

    The histograms have two axes, latency and size (`op_hist_x_axis_config` and `_y_` in
    src/osd/osd_perf_counters.cc); they are projected on the size.
    """
    found: dict[str, Mapping[str, int]] = {}
    for kind, name in SIZES.items():
        histogram = dump["osd"].get(name)
        if histogram is None:
            continue
        bounds = [max(0, bucket.get("min", 0)) for bucket in histogram["axes"][1]["ranges"]]
        total: Counter[int] = Counter()
        for row in histogram["values"]:
            for bound, operations in zip(bounds, row, strict=True):
                total[bound] += operations
        found[kind] = {str(bound): count for bound, count in sorted(total.items()) if count}
    return found


def _select_counters(dump: Any) -> Mapping[str, Any]:
    """Return the recorded counters, a few of the 600 of `perf dump`; a latency is a pair of
    operations and total seconds."""
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
        raise ValueError("the dump has no counters of an OSD")
    return found


# Usage and client I/O change all the time: they are no event of the cluster.
_IO = ("read_bytes_sec", "write_bytes_sec", "read_op_per_sec", "write_op_per_sec")
_VOLATILE_TOP = ("quorum_age", "servicemap")
_VOLATILE_PGMAP = (
    *_IO,
    *("data_bytes", "bytes_used", "bytes_avail", "bytes_total", "num_objects"),
    *("promote_op_per_sec", "flush_bytes_sec", "evict_bytes_sec"),
)


class ClusterWatch(SamplingWatch):
    """Samples the cluster's status and which daemons answer. `patience_s` should be the
    connection's timeout."""

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
        self._daemons = CephDaemons(monitors)
        self._last: object = None

    def _sample(self, *, end: bool) -> Line:
        status = _drop_modules(orjson.loads(self._monitors.mon("status", format="json")))
        line = {"status": status, **self._ask_daemons(status)}
        seen = {**line, "status": _stable_part(status)}
        if seen == self._last:
            pgmap = status["pgmap"]
            return {"same": True, "io": {key: pgmap[key] for key in _IO if key in pgmap}}
        self._last = seen
        return line

    def _ask_daemons(self, status: Any) -> Line:
        """Return the daemons, or why they are unknown: the status counts more than they do."""
        try:
            return {"daemons": self._daemons.sample(status)}
        except Exception as error:
            return {"daemons_unknown": describe_error(error)}


def _drop_modules(status: Any) -> Any:
    """Return the status without the catalogue of manager modules, 95 of 100 KB with Nautilus.
    Raises for anything but a status."""
    manager = status.get("mgrmap", {})
    for standby in (manager, *manager.get("standbys", ())):
        standby.pop("available_modules", None)
    return status


def _stable_part(status: Any) -> object:
    """Return the status without volatile values. Raises for anything but a status."""
    pgmap = {key: value for key, value in status["pgmap"].items() if key not in _VOLATILE_PGMAP}
    rest = {key: value for key, value in status.items() if key not in _VOLATILE_TOP}
    return {**rest, "pgmap": pgmap, "services": service_daemons(status)}


# The counters of librbd end with its process. So they are read four times a second (less often with
# more than four processes) and recorded once a second; the last answer of a process stays valid.
_RECORD_PERIOD_S: Final = 1.0
# A read costs a client about 0.2 ms; many clients are read less often.
_READS_PER_S: Final = 16

# A process answers within a millisecond or two; a blocked one is read again later.
_ANSWER_S: Final = 2.0

Counters = Mapping[str, int | Sequence[float]]


class ImageWatch(SamplingWatch):
    """Reads the processes that serve `image` (`POOL/IMAGE`) at `place`: an admin socket, or a
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
        self._recorded_at_s = -_RECORD_PERIOD_S
        self._unrecorded: Line | None = None
        self._pause_until_s = 0.0

    def _sample(self, *, end: bool) -> Line | None:
        stamp = self._lines.stamp()
        if not end and stamp["elapsed_s"] < self._pause_until_s:
            return None
        who = {"image": self._image, "client": self._client}
        sockets = self._sockets()
        self._pause_until_s = stamp["elapsed_s"] + len(sockets) / _READS_PER_S - self._period_s / 2
        unknown = not self._last
        answered, failed = self._ask(sockets)
        there = self._place.is_dir()
        first = answered and unknown
        due = end or first or stamp["elapsed_s"] >= self._recorded_at_s + _RECORD_PERIOD_S
        line: Line | None
        if answered or (end and there and not self._last and not failed):
            line = {**stamp, **who, "counters": add_up(list(self._last.values()))}
        elif failed or not there:
            line = {**who, "error": failed or f"there is no socket at {self._place}"}
        else:
            # No process runs yet, or all have ended: then record their last answer.
            line, self._unrecorded = self._unrecorded, None
            return line
        if due:
            self._recorded_at_s, self._unrecorded = stamp["elapsed_s"], None
            return line
        if answered:
            self._unrecorded = line
        return None

    def _ask(self, sockets: Sequence[Path]) -> tuple[bool, str]:
        """Return whether any process of the image answered, and the reason of a failure."""
        answered, failed = False, ""
        # In a folder of sockets a process may end in the middle of an answer.
        ended = ConnectionError if self._place.is_dir() else ConnectionRefusedError
        for path in sockets:
            try:
                counters = read_image_counters(
                    orjson.loads(ask_admin_socket(path, "perf dump", _ANSWER_S)), self._image
                )
            except (ended, FileNotFoundError):
                continue  # its process has ended, killed if the socket still exists
            except (OSError, ValueError) as error:
                failed = f"{path.name}: {error}"
                continue
            # None: the process has not opened this image.
            if counters is not None:
                self._last[path.name] = counters
                answered = True
        return answered, failed

    def _sockets(self) -> list[Path]:
        paths = sorted(self._place.iterdir()) if self._place.is_dir() else [self._place]
        return [path for path in paths if path.is_socket()]


def read_image_counters(dump: Any, image: str) -> Counters | None:
    """Return the recorded counters of an image from a `perf dump`: its section
    `librbd-ID-POOL-IMAGE` and the client's object operations. None where the process has not opened
    it."""
    ending = "-" + image.replace("/", "-")
    sections = [
        section
        for name, section in dump.items()
        if name.startswith("librbd-") and name.endswith(ending)
    ]
    if not sections:
        return None
    objecter = {f"objecter.{name}": dump.get("objecter", {}).get(name, 0) for name in OBJECTER}
    return add_up([*(_image_counters(section) for section in sections), objecter])


def _image_counters(section: Mapping[str, Any]) -> Counters:
    found: dict[str, int | Sequence[float]] = {
        name: section[name] for name in COUNTS if isinstance(section.get(name), int)
    }
    for name in LATENCIES:
        value = section.get(name)
        if isinstance(value, dict):
            found[name] = [value["avgcount"], value["sum"]]
    return found


def add_up(processes: Sequence[Counters]) -> Counters:
    """Add up the counters of several processes."""
    added: dict[str, Any] = {}
    for counters in processes:
        for name, value in counters.items():
            if isinstance(value, int):
                added[name] = added.get(name, 0) + value
            else:
                before = added.get(name, [0, 0.0])
                added[name] = [before[0] + value[0], before[1] + value[1]]
    return added
