"""Counters of a cluster's OSDs during a trial, written to `ceph-counters.jsonl`.

Each line is JSON: `{"at", "elapsed_s", "hosts", "osds", "failed"}` at the start and the end, with
those counters of `perf dump` that tell where an operation waits, by OSD (a pair is a count and a
sum of seconds); `{"at", "elapsed_s", "perf"}` in between, commit and apply latency in nanoseconds
by OSD as `osd perf` has them; `{"at", "elapsed_s", "error"}` where no answer came.
`leadline.formats.ceph_counters` reads it; what it costs stands in docs/internals/performance.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import orjson

from leadline.archive import layout
from leadline.errors import LeadlineError
from leadline.formats.ceph_counters import KEPT
from leadline.probes.lines import Lines

# Each OSD is asked over a connection of its own; with the answer that takes milliseconds. So many
# can be asked while a trial waits for it to end; the others are told as not asked.
_DUMPS_S = 4.0


class Daemons(Protocol):
    """What the watch needs of a `leadline.ceph.connection.Connection`."""

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def osd(self, number: int, prefix: str, /, **arguments: object) -> bytes: ...


class CephCountersWatch:
    """Dumps counters at `start` and `stop`, and asks for `osd perf` every `period_s` between.

    Nothing that goes wrong is raised: it is a line. `stop` returns within `patience_s`, which
    should be the connection's timeout and `_DUMPS_S`; after it nothing more is written. The
    connection must be the watch's own: commands of others would be waited for.
    """

    def __init__(
        self,
        daemons: Daemons,
        folder: Path,
        *,
        period_s: float = 2.0,
        patience_s: float = 15.0,
    ) -> None:
        self._daemons = daemons
        self._lines = Lines(folder / layout.CEPH_COUNTERS)
        self._period_s = period_s
        self._patience_s = patience_s
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, without waiting for the first dump. To be called once."""
        if not self._lines.open():
            return  # the trial cannot write its own files either, and says so
        # A daemon, so that a command that never comes back does not keep the program alive.
        self._thread = threading.Thread(target=self._run, name="ceph-counters", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the last dump and end. May be called twice, and without `start`."""
        if self._thread is None or self._ending.is_set():
            return
        asked = self._lines.stamp()
        self._ending.set()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            reason = f"no answer within {self._patience_s:g} s of the end of the watch"
            self._lines.write({**asked, "error": reason})
        self._lines.close()

    def _run(self) -> None:
        self._told(self._dumps)
        due = time.monotonic()
        while True:
            due = max(due + self._period_s, time.monotonic())
            if self._ending.wait(due - time.monotonic()):
                break
            self._told(self._perf)
        self._told(self._dumps)

    def _told(self, sample: Any) -> None:
        stamp = self._lines.stamp()
        try:
            line = sample()
        # Whatever it is, it must not reach the trial.
        except Exception as error:
            line = {"error": error.fact if isinstance(error, LeadlineError) else repr(error)}
        self._lines.write({**stamp, **line})

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
            "failed": failed,
        }

    def _perf(self) -> Mapping[str, Any]:
        answer = orjson.loads(self._daemons.mgr("osd perf", format="json"))
        # Nautilus and later have it below `osdstats`.
        infos = answer.get("osdstats", answer)["osd_perf_infos"]
        return {
            "perf": {
                str(one["id"]): [
                    one["perf_stats"]["commit_latency_ns"],
                    one["perf_stats"]["apply_latency_ns"],
                ]
                for one in infos
            }
        }


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
