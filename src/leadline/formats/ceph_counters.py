"""The record of a cluster's OSDs during a trial, `ceph-counters.jsonl`, and what the OSDs did
between its first and last dump.

The parser is total: it returns what it read or raises FormatError with the line. Counters are
those of `ceph tell osd.N perf dump` (osd/OSD.cc, os/bluestore/BlueStore.cc): since the daemon
began, latencies as a count of operations and a sum of seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.formats.checked import count, counts, decoded_line, mapping, number, text, wrong

_WHAT = "the record of OSDs"

# By section of `perf dump`. Where a client's operation waits: from its arrival to its answer
# (op_latency, by kind op_r_, op_w_, op_rw_), for a worker thread (op_before_dequeue_op_lat, which
# counts operations of other OSDs too), from then on (op_process_latency); a copy at its replica
# (subop_w_latency); the medium (kv_*, state_aio_wait_lat, read_wait_aio_lat) and the queue before
# the thread that commits (state_kv_queued_lat).
KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "osd": (
        *("op", "op_r", "op_w", "op_rw", "op_in_bytes", "op_out_bytes", "subop"),
        *("op_latency", "op_process_latency", "op_before_dequeue_op_lat"),
        *("op_r_latency", "op_w_latency", "op_rw_latency"),
        *("op_r_process_latency", "op_w_process_latency", "op_rw_process_latency"),
        *("subop_w_latency",),
    ),
    "bluestore": (
        *("kv_flush_lat", "kv_commit_lat", "kv_sync_lat", "kv_final_lat"),
        *("state_aio_wait_lat", "state_kv_queued_lat", "state_kv_commiting_lat"),
        *("state_deferred_aio_wait_lat", "read_lat", "read_wait_aio_lat", "csum_lat"),
        *("throttle_lat", "submit_lat", "commit_lat"),
        # Their names in later releases.
        *("txc_throttle_lat", "txc_submit_lat", "txc_commit_lat"),
    ),
}

# Histograms of `perf histogram dump` by kind of operation: bytes of what a client wrote or read.
SIZES: Final[Mapping[str, str]] = {
    "op_r": "op_r_latency_out_bytes_histogram",
    "op_w": "op_w_latency_in_bytes_histogram",
    "op_rw": "op_rw_latency_in_bytes_histogram",
}

# Lines tell times to the millisecond.
_LEAST_S = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Operations, and the seconds that they took added up."""

    operations: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterDump:
    """The OSDs at one moment: ISO 8601 in UTC, and seconds since the watch began. By OSD `counts`
    and `latencies`, named as in `KEPT` (`osd.op_latency`); `hosts` on which they are; `failed`
    says why an OSD that is up told nothing. `sizes`: by OSD and kind (`op_r`, `op_w`, `op_rw`) how
    many operations of clients had at least so many bytes and fewer than twice as many; 0 stands for
    fewer than 512. Archives of earlier versions have none."""

    at: str
    elapsed_s: float
    hosts: Mapping[int, str]
    counts: Mapping[int, Mapping[str, int]]
    latencies: Mapping[int, Mapping[str, Spent]]
    failed: Mapping[int, str]
    sizes: Mapping[int, Mapping[str, Mapping[int, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdPerf:
    """`ceph osd perf` at one moment: by OSD the commit latency of its store in seconds, the mean
    over its last seconds."""

    at: str
    elapsed_s: float
    commit_s: Mapping[int, float]
    apply_s: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedCounters:
    """A moment of which nothing is known, and why."""

    at: str
    elapsed_s: float
    reason: str


CounterSample = CounterDump | OsdPerf | MissedCounters


def parse_ceph_counters(content: bytes) -> tuple[CounterSample, ...]:
    """The lines of a `ceph-counters.jsonl`, in order. Raises FormatError with the line."""
    return tuple(
        _sample(decoded_line(line, index, _WHAT), f"line {index}")
        for index, line in enumerate(content.splitlines(), start=1)
    )


def _sample(entry: Mapping[str, Any], where: str) -> CounterSample:
    at = text(entry, "at", where)
    elapsed_s = number(entry.get("elapsed_s"), f"{where}.elapsed_s")
    if "error" in entry:
        return MissedCounters(at=at, elapsed_s=elapsed_s, reason=text(entry, "error", where))
    if "perf" in entry:
        both = {
            osd: counts(one, f"{where}.perf.{osd}", 2)
            for osd, one in _by_osd(entry["perf"], f"{where}.perf").items()
        }
        return OsdPerf(
            at=at,
            elapsed_s=elapsed_s,
            commit_s={osd: one[0] / 1e9 for osd, one in both.items()},
            apply_s={osd: one[1] / 1e9 for osd, one in both.items()},
        )
    if "osds" not in entry:
        raise wrong(where, "neither counters of OSDs nor `osd perf` nor an error")
    totals: dict[int, dict[str, int]] = {}
    spent: dict[int, dict[str, Spent]] = {}
    for osd, value in _by_osd(entry["osds"], f"{where}.osds").items():
        totals[osd], spent[osd] = {}, {}
        for name, one in mapping(value, f"{where}.osds.{osd}").items():
            path = f"{where}.osds.{osd}.{name}"
            if isinstance(one, list):
                if len(one) != 2:
                    raise wrong(path, "a count and a sum of seconds were expected")
                spent[osd][name] = Spent(
                    operations=count(one[0], path), seconds=number(one[1], path)
                )
            else:
                totals[osd][name] = count(one, path)
    hosts = _by_osd(entry.get("hosts", {}), f"{where}.hosts")
    failed = _by_osd(entry.get("failed", {}), f"{where}.failed")
    for told in (hosts, failed):
        if not all(isinstance(one, str) for one in told.values()):
            raise wrong(where, "hosts and reasons are texts")
    sizes = {
        osd: {
            kind: _sizes(one, f"{where}.sizes.{osd}.{kind}")
            for kind, one in mapping(value, f"{where}.sizes.{osd}").items()
        }
        for osd, value in _by_osd(entry.get("sizes", {}), f"{where}.sizes").items()
    }
    return CounterDump(
        at=at,
        elapsed_s=elapsed_s,
        hosts=hosts,
        counts=totals,
        latencies=spent,
        failed=failed,
        sizes=sizes,
    )


def _sizes(value: object, where: str) -> dict[int, int]:
    found = {}
    for key, one in mapping(value, where).items():
        if not (key.isascii() and key.isdecimal() and len(key) < 20):
            raise wrong(f"{where}.{key}", "a size in bytes was expected")
        found[int(key)] = count(one, f"{where}.{key}")
    return found


def _by_osd(value: object, where: str) -> dict[int, Any]:
    found = {}
    for key, one in mapping(value, where).items():
        if not (key.isascii() and key.isdecimal()):
            raise wrong(f"{where}.{key}", "the number of an OSD was expected")
        found[int(key)] = one
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdRates:
    """What one OSD did between two dumps. `means_s` are mean seconds of an operation of each
    latency that counted any, by its name in `KEPT` (`osd.op_latency`), `rates` operations of it
    per second, `counts_per_s` of the plain counters (`osd.op`, `osd.op_in_bytes`)."""

    osd: int
    host: str | None
    seconds: float
    means_s: Mapping[str, float]
    rates: Mapping[str, float]
    counts_per_s: Mapping[str, float]


def osd_rates(samples: tuple[CounterSample, ...]) -> tuple[OsdRates, ...]:
    """Of every OSD that is in the first and in the last dump and was not started anew between
    them; none where there are not two dumps."""
    dumps = [one for one in samples if isinstance(one, CounterDump)]
    if len(dumps) < 2:
        return ()
    first, last = dumps[0], dumps[-1]
    seconds = last.elapsed_s - first.elapsed_s
    if seconds < _LEAST_S:
        return ()
    found = []
    for osd in sorted(first.counts.keys() & last.counts.keys()):
        grown = {
            name: value - first.counts[osd].get(name, 0) for name, value in last.counts[osd].items()
        }
        spent = {}
        for name, now in last.latencies[osd].items():
            before = first.latencies[osd].get(name, Spent(operations=0, seconds=0.0))
            spent[name] = (now.operations - before.operations, now.seconds - before.seconds)
        if any(one < 0 for one in grown.values()) or any(one[0] < 0 for one in spent.values()):
            continue  # the daemon was started anew
        found.append(
            OsdRates(
                osd=osd,
                host=last.hosts.get(osd),
                seconds=seconds,
                means_s={
                    name: max(0.0, total) / operations
                    for name, (operations, total) in spent.items()
                    if operations
                },
                rates={name: operations / seconds for name, (operations, _) in spent.items()},
                counts_per_s={name: one / seconds for name, one in grown.items()},
            )
        )
    return tuple(found)


def operation_sizes(samples: tuple[CounterSample, ...]) -> Mapping[str, Mapping[int, int]]:
    """By kind (`op_r`, `op_w`, `op_rw`) how many operations of each size all OSDs together served
    for clients between the first and the last dump; sizes as in `CounterDump`. Empty where there
    are not two dumps. OSDs that are not in both, or were started anew, are left out."""
    dumps = [one for one in samples if isinstance(one, CounterDump)]
    if len(dumps) < 2:
        return {}
    first, last = dumps[0].sizes, dumps[-1].sizes
    total: dict[str, Counter[int]] = {}
    for osd in first.keys() & last.keys():
        grown = {
            kind: {size: one - first[osd].get(kind, {}).get(size, 0) for size, one in now.items()}
            for kind, now in last[osd].items()
        }
        gone = any(
            one > last[osd].get(kind, {}).get(size, 0)
            for kind, before in first[osd].items()
            for size, one in before.items()
        )
        if gone:
            continue  # the daemon was started anew
        for kind, sizes in grown.items():
            total.setdefault(kind, Counter()).update(sizes)
    return {
        kind: {size: one for size, one in sorted(sizes.items()) if one}
        for kind, sizes in total.items()
    }


def commit_latencies(samples: tuple[CounterSample, ...]) -> Mapping[int, tuple[float, ...]]:
    """By OSD its commit latencies in seconds, from `osd perf`, over time."""
    found: dict[int, list[float]] = {}
    for one in samples:
        if isinstance(one, OsdPerf):
            for osd, latency in one.commit_s.items():
                found.setdefault(osd, []).append(latency)
    return {osd: tuple(series) for osd, series in found.items()}
