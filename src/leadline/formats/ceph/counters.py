"""The record of a cluster's OSDs during a trial, `ceph-counters.jsonl`, and what the OSDs did
between its first and last dump.

The parser is total: it returns what it read or raises FormatError with the line. Counters are
those of `ceph tell osd.N perf dump` (osd/OSD.cc, os/bluestore/BlueStore.cc): since the daemon
began, latencies as a count of operations and a sum of seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import orjson

from leadline.formats.result import FormatError
from leadline.formats.text import count, counts, decoded_line, mapping, number, text, wrong

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


# `ceph status --format json` (Nautilus to Squid), and the record of a cluster during a trial,
# `cluster.jsonl`, whose lines hold such documents.
#  Both parsers are total: they return what they read or raise FormatError with the path or the
# line. Fields that are not known are ignored. A rate or a count that Ceph leaves out is zero: it
# writes those of recovery, of client I/O and of degraded objects only while there are any
# (mon/PGMap.cc).


class Health(StrEnum):
    """The cluster's own verdict, and the severity of one of its checks."""

    OK = "HEALTH_OK"
    WARN = "HEALTH_WARN"
    ERR = "HEALTH_ERR"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """One check that does not pass. `summary` is Ceph's sentence; `muted` by an administrator."""

    code: str
    severity: Health
    summary: str
    muted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRates:
    """I/O of all clients of the cluster as its OSDs told in the last seconds, per second."""

    read_bps: float
    write_bps: float
    read_iops: float
    write_iops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One status document. Ratios are of 1; `inactive_ratio` is the share of PGs that serve no I/O
    and `unknown_ratio` of those that nobody told the manager of.

    `pg_states` counts PGs by Ceph's name of their state (`active+clean+scrubbing+deep`). OSDs'
    up and in flags last changed at `up_changed_at_s` and `in_changed_at_s`, in seconds since 1970,
    0 before Octopus, which does not tell. `progress` holds the messages of long-running events.
    """

    health: Health
    checks: tuple[HealthCheck, ...]
    pg_states: Mapping[str, int]
    pgs: int
    pools: int
    degraded_objects: int
    degraded_ratio: float
    misplaced_objects: int
    misplaced_ratio: float
    unfound_objects: int
    inactive_ratio: float
    unknown_ratio: float
    recovering_bps: float
    recovering_objects_per_s: float
    osds: int
    osds_up: int
    osds_in: int
    osdmap_epoch: int
    remapped_pgs: int
    up_changed_at_s: int
    in_changed_at_s: int
    monitors_in_quorum: int
    client: ClientRates
    progress: tuple[str, ...]

    def pgs_with(self, *flags: str) -> int:
        """PGs whose state has at least one of the flags."""
        wanted = set(flags)
        return sum(
            count for state, count in self.pg_states.items() if wanted & set(state.split("+"))
        )

    @property
    def scrubbing_pgs(self) -> int:
        """PGs being scrubbed, deep or not."""
        return self.pgs_with("scrubbing")

    @property
    def deep_scrubbing_pgs(self) -> int:
        """PGs whose every byte is being read."""
        return sum(
            count
            for state, count in self.pg_states.items()
            if {"scrubbing", "deep"} <= set(state.split("+"))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """The cluster at one moment: ISO 8601 in UTC, and seconds since the watch began."""

    at: str
    elapsed_s: float
    status: ClusterStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedSample:
    """A moment of which nothing is known, and why."""

    at: str
    elapsed_s: float
    reason: str


def parse_ceph_status(content: bytes | str) -> ClusterStatus:
    """One document as `ceph status --format json` prints it. Raises FormatError with the path."""
    return status_of(_decoded(content, "a status of Ceph's"))


def parse_cluster_log(content: bytes) -> tuple[ClusterSample | MissedSample, ...]:
    """The lines of a `cluster.jsonl`, in order. A line with `same` takes the status of the line
    before, with the client I/O of its own. Raises FormatError with the line."""
    samples: list[ClusterSample | MissedSample] = []
    last: ClusterStatus | None = None
    for line_number, line in enumerate(content.splitlines(), start=1):
        where = f"line {line_number}"
        entry = mapping(_decoded(line, f"{where} of a cluster's record"), where)
        at, elapsed_s = text(entry, "at", where), _number(entry, "elapsed_s", where)
        if "error" in entry:
            reason = text(entry, "error", where)
            samples.append(MissedSample(at=at, elapsed_s=elapsed_s, reason=reason))
            continue
        if entry.get("same") is True:
            if last is None:
                raise wrong(f"{where}.same", "there is no status before it")
            last = replace(last, client=_client(mapping(entry.get("io", {}), f"{where}.io"), where))
        else:
            last = status_of(mapping(entry.get("status"), f"{where}.status"), f"{where}.status")
        samples.append(ClusterSample(at=at, elapsed_s=elapsed_s, status=last))
    return tuple(samples)


def status_of(document: object, where: str = "status") -> ClusterStatus:
    """A decoded status document; `where` is what paths in errors begin with."""
    top = mapping(document, where)
    health = mapping(top.get("health"), f"{where}.health")
    osdmap, osdmap_at = mapping(top.get("osdmap"), f"{where}.osdmap"), f"{where}.osdmap"
    if "osdmap" in osdmap:  # so until Nautilus
        osdmap_at = f"{osdmap_at}.osdmap"
        osdmap = mapping(osdmap["osdmap"], osdmap_at)
    pgmap, pgmap_at = mapping(top.get("pgmap"), f"{where}.pgmap"), f"{where}.pgmap"
    quorum = top.get("quorum")
    if not isinstance(quorum, list):
        raise wrong(f"{where}.quorum", "a list was expected")
    return ClusterStatus(
        health=_health(health, "status", f"{where}.health"),
        checks=_checks(health, f"{where}.health"),
        pg_states=_pg_states(pgmap, pgmap_at),
        pgs=_count(pgmap, "num_pgs", pgmap_at),
        pools=_count(pgmap, "num_pools", pgmap_at, default=0),
        degraded_objects=_count(pgmap, "degraded_objects", pgmap_at, default=0),
        degraded_ratio=_number(pgmap, "degraded_ratio", pgmap_at, default=0),
        misplaced_objects=_count(pgmap, "misplaced_objects", pgmap_at, default=0),
        misplaced_ratio=_number(pgmap, "misplaced_ratio", pgmap_at, default=0),
        unfound_objects=_count(pgmap, "unfound_objects", pgmap_at, default=0),
        inactive_ratio=_number(pgmap, "inactive_pgs_ratio", pgmap_at, default=0),
        unknown_ratio=_number(pgmap, "unknown_pgs_ratio", pgmap_at, default=0),
        recovering_bps=_number(pgmap, "recovering_bytes_per_sec", pgmap_at, default=0),
        recovering_objects_per_s=_number(pgmap, "recovering_objects_per_sec", pgmap_at, default=0),
        osds=_count(osdmap, "num_osds", osdmap_at),
        osds_up=_count(osdmap, "num_up_osds", osdmap_at),
        osds_in=_count(osdmap, "num_in_osds", osdmap_at),
        osdmap_epoch=_count(osdmap, "epoch", osdmap_at),
        remapped_pgs=_count(osdmap, "num_remapped_pgs", osdmap_at, default=0),
        up_changed_at_s=_count(osdmap, "osd_up_since", osdmap_at, default=0),
        in_changed_at_s=_count(osdmap, "osd_in_since", osdmap_at, default=0),
        monitors_in_quorum=len(quorum),
        client=_client(pgmap, pgmap_at),
        progress=_progress(top, where),
    )


def _decoded(content: bytes | str, what: str) -> object:
    try:
        decoded: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise FormatError(
            "unreadable-result",
            f"{what} is not JSON, at line {error.lineno}, column {error.colno}: {error.msg}",
        ) from error
    return decoded


def _checks(health: Mapping[str, Any], where: str) -> tuple[HealthCheck, ...]:
    found = []
    for code, value in mapping(health.get("checks"), f"{where}.checks").items():
        path = f"{where}.checks.{code}"
        check = mapping(value, path)
        summary = mapping(check.get("summary"), f"{path}.summary")
        found.append(
            HealthCheck(
                code=code,
                severity=_health(check, "severity", path),
                summary=text(summary, "message", f"{path}.summary"),
                # Since Octopus; before it nothing could be muted.
                muted=check.get("muted") is True,
            )
        )
    return tuple(found)


def _pg_states(pgmap: Mapping[str, Any], where: str) -> Mapping[str, int]:
    entries = pgmap.get("pgs_by_state")
    if not isinstance(entries, list):
        raise wrong(f"{where}.pgs_by_state", "a list was expected")
    states: dict[str, int] = {}
    for index, value in enumerate(entries):
        path = f"{where}.pgs_by_state[{index}]"
        entry = mapping(value, path)
        states[text(entry, "state_name", path)] = _count(entry, "count", path)
    return states


def _client(rates: Mapping[str, Any], where: str) -> ClientRates:
    return ClientRates(
        read_bps=_number(rates, "read_bytes_sec", where, default=0),
        write_bps=_number(rates, "write_bytes_sec", where, default=0),
        read_iops=_number(rates, "read_op_per_sec", where, default=0),
        write_iops=_number(rates, "write_op_per_sec", where, default=0),
    )


def _progress(top: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Messages of the progress module, which Nautilus has and tells of in no status."""
    events = mapping(top.get("progress_events", {}), f"{where}.progress_events")
    return tuple(
        text(
            mapping(event, f"{where}.progress_events.{name}"),
            "message",
            f"{where}.progress_events.{name}",
        )
        for name, event in events.items()
    )


def _health(entry: Mapping[str, Any], key: str, where: str) -> Health:
    value = text(entry, key, where)
    try:
        return Health(value)
    except ValueError:
        raise wrong(f"{where}.{key}", f"{value!r} is no state of health") from None


def _number(entry: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"{where}.{key}", "a number was expected")
    return float(value)


def _count(entry: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"{where}.{key}", "a whole number was expected")
    return value


# The record of the client of an RBD image during a trial, `image-counters.jsonl`.
#  The parser is total: it returns what it read or raises FormatError with the line. Counters are
# those of librbd's `perf dump` (src/librbd/ImageCtx.cc, perf_start): since the client opened the
# image, latencies as a count and a sum of seconds; `objecter.*` are its operations on objects
# (src/osdc/Objecter.cc): what became of its requests on the way to the OSDs.

_IMAGE_COUNTERS_WHAT = "the record of an image"

COUNTS: Final = (
    *("rd", "rd_bytes", "wr", "wr_bytes", "discard", "discard_bytes", "flush"),
    *("ws", "ws_bytes", "cmp", "cmp_bytes", "readahead", "readahead_bytes"),
)
LATENCIES: Final = ("rd_latency", "wr_latency", "discard_latency", "flush_latency", "ws_latency")
OBJECTER: Final = ("op_r", "op_w", "op_rmw", "op_send", "op_send_bytes", "op_resend")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSample:
    """An image's client at one moment: ISO 8601 in UTC, and seconds since the watch began.
    `client` is `librbd`, `rbd-fuse`, ...; `counts` and `latencies` are named as in `COUNTS`,
    `LATENCIES` and `objecter.` with `OBJECTER`."""

    at: str
    elapsed_s: float
    image: str
    client: str
    counts: Mapping[str, int]
    latencies: Mapping[str, Spent]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedImage:
    """A moment of which nothing is known, and why."""

    at: str
    elapsed_s: float
    reason: str


def parse_image_counters(content: bytes) -> tuple[ImageSample | MissedImage, ...]:
    """The lines of an `image-counters.jsonl`, in order. Raises FormatError with the line."""
    return tuple(
        _image_counters_sample(decoded_line(line, index, _IMAGE_COUNTERS_WHAT), f"line {index}")
        for index, line in enumerate(content.splitlines(), start=1)
    )


def _image_counters_sample(entry: Mapping[str, Any], where: str) -> ImageSample | MissedImage:
    at = text(entry, "at", where)
    elapsed_s = number(entry.get("elapsed_s"), f"{where}.elapsed_s")
    if "error" in entry:
        return MissedImage(at=at, elapsed_s=elapsed_s, reason=text(entry, "error", where))
    totals: dict[str, int] = {}
    spent: dict[str, Spent] = {}
    for name, one in mapping(entry.get("counters"), f"{where}.counters").items():
        path = f"{where}.counters.{name}"
        if not isinstance(one, list):
            totals[name] = count(one, path)
        elif len(one) == 2:
            spent[name] = Spent(operations=count(one[0], path), seconds=number(one[1], path))
        else:
            raise wrong(path, "a count and a sum of seconds were expected")
    return ImageSample(
        at=at,
        elapsed_s=elapsed_s,
        image=text(entry, "image", where),
        client=text(entry, "client", where),
        counts=totals,
        latencies=spent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWork:
    """What an image's client did in `seconds`. `counts` and `latencies` as in `ImageSample`."""

    image: str
    client: str
    seconds: float
    counts: Mapping[str, int]
    latencies: Mapping[str, Spent]


def image_work(samples: Sequence[ImageSample | MissedImage]) -> ImageWork | None:
    """Between the first and the last sample; None where there are not two, or the client was
    started anew between them."""
    told = [one for one in samples if isinstance(one, ImageSample)]
    if len(told) < 2:
        return None
    first, last = told[0], told[-1]
    counts = {name: now - first.counts.get(name, 0) for name, now in last.counts.items()}
    nothing = Spent(operations=0, seconds=0.0)
    latencies = {
        name: Spent(
            operations=now.operations - first.latencies.get(name, nothing).operations,
            seconds=max(0.0, now.seconds - first.latencies.get(name, nothing).seconds),
        )
        for name, now in last.latencies.items()
    }
    if min(counts.values(), default=0) < 0 or any(one.operations < 0 for one in latencies.values()):
        return None
    return ImageWork(
        image=last.image,
        client=last.client,
        seconds=last.elapsed_s - first.elapsed_s,
        counts=counts,
        latencies=latencies,
    )
