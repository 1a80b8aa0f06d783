"""Counters of a cluster's OSDs during a trial, written to `ceph-counters.jsonl`.

Each line is JSON: `{"at", "elapsed_s", "hosts", "osds", "sizes", "failed"}` at the start and the
end, with those counters of `perf dump` that tell where an operation waits, by OSD (a pair is a
count and a sum of seconds), and the sizes of clients' operations from `perf histogram dump`;
`{"at", "elapsed_s", "perf"}` in between, commit and apply latency in nanoseconds by OSD as `osd
perf` has them; `{"at", "elapsed_s", "error"}` where no answer came.
`leadline.formats.ceph_counters` reads it; what it costs stands in docs/internals/performance.md.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import orjson

from leadline.archive import layout
from leadline.errors import LeadlineError
from leadline.formats.ceph_counters import KEPT, SIZES
from leadline.probes.watches import AskingWatch, Line

# Each OSD is asked over a connection of its own; with the answer that takes milliseconds. So many
# can be asked while a trial waits for it to end; the others are told as not asked. Histograms are
# asked for behind all counters, in what is left of that time.
_DUMPS_S = 4.0


class Daemons(Protocol):
    """What the watch needs of a `leadline.ceph.connection.Connection`."""

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
                str(one["id"]): [
                    one["perf_stats"]["commit_latency_ns"],
                    one["perf_stats"]["apply_latency_ns"],
                ]
                for one in infos
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
        bounds = [max(0, one.get("min", 0)) for one in histogram["axes"][1]["ranges"]]
        total: Counter[int] = Counter()
        for row in histogram["values"]:
            for bound, operations in zip(bounds, row, strict=True):
                total[bound] += operations
        found[kind] = {str(bound): one for bound, one in sorted(total.items()) if one}
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
