"""Counters of OSDs and of the client of an RBD image during a trial, and their growth.

Counters of OSDs are those of their `perf dump` (osd/OSD.cc, os/bluestore/BlueStore.cc),
counters of an image those of librbd's `perf dump` (src/librbd/ImageCtx.cc, perf_start). They count
from the start of the daemon or client; a latency is a number of operations and a sum of seconds.
Each parser returns all samples or raises FormatError with the line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import Discriminator, Field, Tag, TypeAdapter

from leadline.formats.json_lines import (
    MISSED_OR_SAMPLE,
    WHEN_USED,
    Converted,
    Count,
    CountKey,
    Missed,
    Number,
    Sample,
    counts,
    parse_lines,
)

# By section of `perf dump`. Where a client's operation waits: from its arrival to its answer
# (op_latency, by kind op_r_, op_w_, op_rw_), for a worker thread (op_before_dequeue_op_lat, which
# counts operations of other OSDs too), from then on (op_process_latency); a copy at its replica
# (subop_w_latency); the medium (kv_*, state_aio_wait_lat, read_wait_aio_lat) and the queue before
# the commit thread (state_kv_queued_lat).
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

# Times are recorded in milliseconds.
_LEAST_S = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A number of operations and the sum of their seconds."""

    operations: int
    seconds: float


# A plain counter, or a number of operations and a sum of seconds.
_Counter = Count | tuple[Count, Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterDump(Sample):
    """The counters of all OSDs, by OSD and name in `KEPT` (`osd.op_latency`); `failed` are reasons
    of those that gave none. `sizes`, by OSD and kind (`op_r`, `op_w`, `op_rw`), counts operations
    of clients by size: each key is the lower limit in bytes of a bucket that ends at twice that
    size; 0 is the bucket below 512 bytes. Archives of earlier versions have no sizes."""

    hosts: Mapping[CountKey, str] = field(default_factory=dict)
    osds: Mapping[CountKey, Mapping[str, _Counter]]
    failed: Mapping[CountKey, str] = field(default_factory=dict)
    sizes: Mapping[CountKey, Mapping[str, Mapping[CountKey, Count]]] = field(default_factory=dict)


def _commit_s(latencies: Mapping[int, Sequence[int]]) -> dict[int, float]:
    return {osd: nanoseconds[0] / 1e9 for osd, nanoseconds in latencies.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdPerf(Sample):
    """The result of `ceph osd perf`: by OSD, the commit latency of its store over the last
    seconds."""

    commit_s: Annotated[
        Mapping[int, float],
        Converted(dict[CountKey, counts(2)], _commit_s),
        Field(validation_alias="perf"),
    ]


CounterSample = CounterDump | OsdPerf | Missed


def _line_kind(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    return "<missed>" if "error" in entry else "<perf>" if "perf" in entry else "<dump>"


_OSD_LINE: Final[TypeAdapter[CounterSample]] = TypeAdapter(
    Annotated[
        Annotated[CounterDump, Tag("<dump>")]
        | Annotated[OsdPerf, Tag("<perf>")]
        | Annotated[Missed, Tag("<missed>")],
        Discriminator(_line_kind),
    ],
    config=WHEN_USED,
)


def parse_ceph_counters(content: bytes) -> tuple[CounterSample, ...]:
    """Parse a `ceph-counters.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _OSD_LINE, "the record of OSDs"))


def _plain(counters: Mapping[str, _Counter]) -> dict[str, int]:
    return {name: value for name, value in counters.items() if isinstance(value, int)}


def _latencies(counters: Mapping[str, _Counter]) -> dict[str, Spent]:
    return {
        name: Spent(operations=value[0], seconds=value[1])
        for name, value in counters.items()
        if not isinstance(value, int)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdRates:
    """The growth of one OSD's counters between two dumps, by name in `KEPT`. `means_s` are mean
    seconds per operation of each latency with at least one operation, `rates` operations per
    second, `counts_per_s` the growth of plain counters (`osd.op_in_bytes`) per second."""

    osd: int
    host: str | None
    seconds: float
    means_s: Mapping[str, float]
    rates: Mapping[str, float]
    counts_per_s: Mapping[str, float]


def osd_rates(samples: tuple[CounterSample, ...]) -> tuple[OsdRates, ...]:
    """Compute the rates of every OSD between the first and the last dump. OSDs that are missing in
    one of them or restarted in between are left out. Empty with fewer than two dumps."""
    dumps = [sample for sample in samples if isinstance(sample, CounterDump)]
    if len(dumps) < 2:
        return ()
    first, last = dumps[0], dumps[-1]
    seconds = last.elapsed_s - first.elapsed_s
    if seconds < _LEAST_S:
        return ()
    found = []
    for osd in sorted(first.osds.keys() & last.osds.keys()):
        before = _plain(first.osds[osd])
        grown = {
            name: value - before.get(name, 0) for name, value in _plain(last.osds[osd]).items()
        }
        spent_before, spent = _latencies(first.osds[osd]), {}
        for name, now in _latencies(last.osds[osd]).items():
            then = spent_before.get(name, Spent(operations=0, seconds=0.0))
            spent[name] = (now.operations - then.operations, now.seconds - then.seconds)
        if min(grown.values(), default=0) < 0 or any(count < 0 for count, _ in spent.values()):
            continue  # the daemon restarted
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
                counts_per_s={name: count / seconds for name, count in grown.items()},
            )
        )
    return tuple(found)


def operation_sizes(samples: tuple[CounterSample, ...]) -> Mapping[str, Mapping[int, int]]:
    """Count the operations of clients between the first and the last dump, by kind and size as in
    `CounterDump.sizes`, summed over OSDs. OSDs that are missing in one of the dumps or restarted in
    between are left out. Empty with fewer than two dumps."""
    dumps = [sample for sample in samples if isinstance(sample, CounterDump)]
    if len(dumps) < 2:
        return {}
    first, last = dumps[0].sizes, dumps[-1].sizes
    total: dict[str, Counter[int]] = {}
    for osd in sorted(first.keys() & last.keys()):
        grown = {
            kind: {
                size: count - first[osd].get(kind, {}).get(size, 0) for size, count in now.items()
            }
            for kind, now in last[osd].items()
        }
        restarted = any(
            count > last[osd].get(kind, {}).get(size, 0)
            for kind, before in first[osd].items()
            for size, count in before.items()
        )
        if restarted:
            continue
        for kind, sizes in grown.items():
            total.setdefault(kind, Counter()).update(sizes)
    return {
        kind: {size: count for size, count in sorted(sizes.items()) if count}
        for kind, sizes in total.items()
    }


# The client of an RBD image. `objecter.*` are its operations on objects (src/osdc/Objecter.cc).

COUNTS: Final = (
    *("rd", "rd_bytes", "wr", "wr_bytes", "discard", "discard_bytes", "flush"),
    *("ws", "ws_bytes", "cmp", "cmp_bytes", "readahead", "readahead_bytes"),
)
LATENCIES: Final = ("rd_latency", "wr_latency", "discard_latency", "flush_latency", "ws_latency")
OBJECTER: Final = ("op_r", "op_w", "op_rmw", "op_send", "op_send_bytes", "op_resend")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSample(Sample):
    """The counters of an image's client. `client` is `librbd`, `rbd-fuse`, ...; names of `counts`
    and `latencies` are those of `COUNTS` and `LATENCIES`, and of `OBJECTER` behind `objecter.`."""

    image: str
    client: str
    counters: Mapping[str, _Counter]

    @property
    def counts(self) -> Mapping[str, int]:
        return _plain(self.counters)

    @property
    def latencies(self) -> Mapping[str, Spent]:
        return _latencies(self.counters)


_IMAGE_LINE: Final[TypeAdapter[ImageSample | Missed]] = TypeAdapter(
    Annotated[
        Annotated[ImageSample, Tag("<sample>")] | Annotated[Missed, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
)


def parse_image_counters(content: bytes) -> tuple[ImageSample | Missed, ...]:
    """Parse an `image-counters.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _IMAGE_LINE, "the record of an image"))
