"""Words for the facts of a layer study: pages, terminal and JSON all use these templates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from string import Formatter
from typing import Any

from leadline.analysis.layers.explain import Little, Stalls
from leadline.analysis.layers.facts import Code, Fact
from leadline.analysis.layers.study import CellLayers
from leadline.metrics import Op
from leadline.units import format_bandwidth, format_latency, format_size

# How a template shows a number: `{size_bytes:size}`.
_FORMATS: Mapping[str, Callable[[float], str]] = {
    "size": format_size,
    "latency": format_latency,
    "rate": lambda value: _rate(value),
    "percent": lambda value: _percent(value),
    "count": lambda value: f"{value:,.0f}",
    "number": lambda value: f"{value:.3g}",
}


class _Templates(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        shown = _FORMATS.get(format_spec)
        return shown(value) if shown else super().format_field(value, format_spec)


# Figures, layers and notes have clauses without a full stop, reasons and settings have sentences.
TEMPLATES: Mapping[Code, str] = {
    Code.RECORDED: "{text}",
    # Why a figure is missing.
    Code.NOT_REPORTED: "not reported by this layer",
    Code.NO_OPERATIONS: "{source} reports no operations",
    Code.NO_BYTES: "{source} reports no bytes",
    Code.NO_LATENCY: "{source} reports no latency",
    Code.NO_SIZES: "{source} reports no request sizes",
    Code.NO_SINGLE_SIZE: "the workload has no single request size",
    Code.NO_MERGE_COUNT: "{source} does not count merged requests",
    Code.NO_QUEUES: "this ZFS reports no queues (-q)",
    Code.MERGED_AS_ONE: "ZFS counts an aggregated request as one request",
    Code.NOT_SAMPLED: "its waiting requests were not sampled during the trial",
    Code.NOT_TRACED: "requests were not traced by size",
    Code.NOT_CONCURRENT: "reads and writes ran one after the other, or no counters were read",
    Code.PHASES_DIFFER: "the engine measures no latency, or its phases differ",
    # Why a layer has no figures.
    Code.FILESYSTEM_UNCOUNTED: "a file system keeps no counters of its own",
    Code.DEVICES_UNKNOWN: "its devices are unknown",
    Code.NO_MACHINE_SAMPLES: "no machine was sampled during the trial",
    Code.NO_DEVICE_COUNTERS: "the samples have no counters of {devices}",
    Code.NO_USABLE_COUNTERS: "its counters went backwards, or no sample is in the measured seconds",
    Code.NOT_READ_TWICE: "its counters were not read before and after the trial",
    Code.ZPOOL_NOT_RECORDED: "`zpool iostat` was not recorded during the trial",
    Code.ZPOOL_NO_INTERVAL: "`zpool iostat` has no interval in the measured seconds",
    # Why a layer also serves other users.
    Code.SYSTEM_DEVICE: "the device {device} also holds {mount_point} of the machine",
    Code.ALL_CLIENTS: "the OSDs count the I/O of all clients and all pools",
    # Notes on a layer or on a trial.
    Code.FLUSHES: "{flushes:count} flushes",
    Code.NFS_TIMES: "{operation}: {queue_s:latency} in the client's queue, "
    "{round_trip_s:latency} round trip each",
    Code.NFS_COMMITS: "COMMIT: {commits}, {latency_s:latency} each, on top of their WRITEs",
    Code.FUSE_COUNTS: "FUSE counts neither operations nor bytes",
    Code.ZPOOL_WHOLE: "`zpool iostat` counts the whole pool, including other datasets",
    Code.ZPOOL_GROUP: "its {group} are not included ({read_bps:rate} read, {write_bps:rate} "
    "written)",
    Code.ZPOOL_OPTIONS: "this `zpool iostat` has no options {options} (sizes, waits, queues)",
    Code.ZFS_MISSED: "{asked}: {text}",
    Code.NO_WINDOW: "No seconds of the trial hold one direction alone: the layers below have no "
    "figures.",
    Code.SHORT_STREAMS: "The streams are short: the layers below include the verification reads "
    "and the removal between streams.",
    # Why the bytes of two layers differ.
    Code.NO_REASON: "No reason is known from the records.",
    Code.BUFFERED_WRITES: "The writes are buffered. The page cache held a part of them when the "
    "trial ended.",
    Code.BUFFERED_READS: "The reads are buffered. The page cache answered a part of them.",
    Code.FILE_VDEV_WRITES: "The vdevs are files. Their page cache holds writes back.",
    Code.FILE_VDEV_READS: "The vdevs are files. Their page cache answers reads.",
    Code.LOOP_WRITES: "{device} uses the page cache, which holds writes back.",
    Code.LOOP_READS: "{device} uses the page cache, which answers reads.",
    Code.RBD_CACHE_WRITES: "librbd's cache (rbd_cache) may hold writes back or merge them.",
    Code.RBD_CACHE_READS: "librbd answers reads from its cache, and reads of unwritten blocks.",
    Code.COMPRESSES: "The dataset compresses (compression={compression}).",
    Code.TXG_DELAY: "ZFS collects writes for a transaction group (zfs_txg_timeout, 5 s). Writes of "
    "an open group, and blocks that were overwritten in it, did not reach the vdevs.",
    Code.ARC_ANSWERED: "ZFS's cache (ARC) answered {arc_hit_share:percent} of the accesses.",
    Code.ARC_POSSIBLE: "ZFS's cache (ARC, primarycache=all) may have answered reads. Its counters "
    "were not recorded.",
    Code.OTHER_USERS: "{layer} has other users. Its figures include more than this trial.",
    Code.FILESYSTEM_METADATA: "{filesystem} writes its own metadata, such as access times.",
    Code.FILESYSTEM_JOURNAL: "{filesystem} writes its journal and metadata in addition to the "
    "data.",
    Code.FILESYSTEM_READS: "{filesystem} reads its own metadata, or partly written blocks.",
    Code.READ_AHEAD: "The kernel reads ahead.",
    Code.LOOP_FILESYSTEM: "The file below the loop device is on a file system with its own "
    "metadata.",
    Code.RAID_WRITES: "{device} ({level}) writes copies or parity.",
    Code.RAID_READS: "{device} ({level}) reads old data or parity before it writes, or verifies "
    "them.",
    Code.DEVICE_MAPPER: "{device} (device mapper) may hold copies, parity or snapshots.",
    Code.PARTITION: "{device} has space outside {partition} that other users may use.",
    Code.VDEV_COPIES: "Each byte is written at least {times:number} times: {layout}.",
    Code.RECORD_WRITES: "A request of {block_bytes:size} writes a whole record of "
    "{record_bytes:size}, up to {times:count} times the bytes.",
    Code.RECORD_READS: "A request of {block_bytes:size} reads a whole record of "
    "{record_bytes:size}, up to {times:count} times the bytes. Partial writes read it as well.",
    Code.INTENT_LOG: "Synchronous writes are written twice: to the intent log and to their place.",
    Code.ZFS_METADATA: "ZFS writes metadata with every transaction group, most of it twice.",
    Code.LEAF_COPIES: "Its {devices} leaf devices may hold copies or parity.",
    Code.ZFS_READS_METADATA: "ZFS reads metadata, and records that are partly written.",
    Code.STREAM_READS: "The sent data is read from the same pool.",
    Code.ZFS_PREFETCH: "ZFS prefetches, and reads metadata.",
    Code.WINDOWS_EXPLAIN: "The {length_s:count} s of {upper} may be {late_s:.1f} s and one sample "
    "away from those of {lower}. Over such windows {lower} moves {least:number} to {most:number} "
    "times the bytes, which accounts for the difference.",
    Code.WINDOWS_TOO_SMALL: "The {length_s:count} s of {upper} may be {late_s:.1f} s and one "
    "sample away from those of {lower}. Over such windows {lower} moves {least:number} to "
    "{most:number} times the bytes, which does not account for the difference.",
    Code.OTHER_SECONDS: "The two layers were counted over different seconds of the trial.",
    # Why a setting can matter, cannot matter, or why that is unknown.
    Code.FUSE_NO_MODULE: "zfs-fuse has no kernel module, so this parameter does not exist.",
    Code.SWEEP_REFUSED: "The audit refuses the results of the record sizes ({rules}).",
    Code.SWEEP_FEW_TRIALS: "From {least_record_bytes:size} to {most_record_bytes:size} records "
    "throughput changes from {least_bps:rate} to {most_bps:rate}, with {trials} trials each. At "
    "least 3 are needed.",
    Code.SWEEP_SEPARATE: "From {least_record_bytes:size} to {most_record_bytes:size} records "
    "throughput changes from {least_bps:rate} to {most_bps:rate}. The trials do not overlap "
    "(by chance 1 in {orders}).",
    Code.SWEEP_OVERLAP: "From {least_record_bytes:size} to {most_record_bytes:size} records "
    "throughput changes from {least_bps:rate} to {most_bps:rate}. The trials overlap.",
    Code.RECORD_AMPLIFIES: "The vdevs move {amplification:number} times the requested bytes: "
    "requests have {block_bytes:size}, records {record_bytes:size}.",
    Code.RECORD_NO_SIZES: "No request size below ZFS was counted.",
    Code.RECORD_FOLLOWED: "Requests at the devices follow it: {mean_size_bytes:size} on average.",
    Code.RECORD_ALONE: "Requests at the devices have {mean_size_bytes:size} on average. A "
    "comparison needs cells of other record sizes.",
    Code.DATA_UNKNOWN: "It is unknown how well the data of the job file compresses.",
    Code.COMPRESSION_COSTS: "Leadline writes incompressible data, but {compression} uses processor "
    "time for it.",
    Code.DATA_INCOMPRESSIBLE: "Leadline writes incompressible data. Other data would save space.",
    Code.TRIAL_READS: "The trial writes nothing.",
    Code.SYNC_ALWAYS: "Writes are synchronous (sync=always) and go to the intent log.",
    Code.SYNC_DISABLED: "The workload's fsync returns before the data is on disk (sync=disabled).",
    Code.SYNC_FSYNC: "Writes are synchronous (the workload's fsync) and go to the intent log.",
    Code.SYNC_UNKNOWN: "It is unknown whether the job file requests synchronous writes.",
    Code.SYNC_NONE: "No synchronous write is requested or forced.",
    Code.CACHE_ANSWERED: "The cache answered {arc_hit_share:percent} of the accesses.",
    Code.CACHE_METADATA_ONLY: "The cache keeps no data and answered none.",
    Code.CACHE_NO_READS: "{read_share:percent} of the bytes at the devices are reads: nothing to "
    "cache.",
    Code.CACHE_SOME_READS: "{read_share:percent} of the bytes at the devices are reads, which a "
    "cache may answer.",
    Code.CACHE_STREAM_READS: "{read_share:percent} of the bytes at the devices are reads, which a "
    "cache may answer: the sent data, and the verification between streams.",
    Code.CACHE_UNKNOWN: "Neither cache counters nor reads below it were recorded.",
    Code.DIRTY_NO_COUNTERS: "The counters of delayed writers (dmu_tx) were not recorded.",
    Code.DIRTY_DELAYED: "Writers had to wait {times:count} times because of dirty data.",
    Code.DIRTY_STOPPED: "Writers had to wait {times:count} times because of dirty data, "
    "{stopped:count} of them until some was written.",
    Code.DIRTY_NO_GROUPS: "No writer was delayed (dmu_tx), but the amount of dirty data was not "
    "recorded.",
    Code.DIRTY_BELOW: "No writer was delayed. The largest group held {most_dirty_bytes:size}, "
    "{dirty_share:percent} of it; groups close at {close_share:percent}.",
    Code.DIRTY_CLOSES: "Groups close at {close_share:percent} of it. The largest group held "
    "{most_dirty_bytes:size}, {dirty_share:percent}; no writer was delayed.",
    Code.TXG_NO_GROUPS: "No transaction group of the trial was recorded (kstat txgs).",
    Code.TXG_BY_TIMEOUT: "{by_timeout_share:percent} of the data is in groups that end by the "
    "timeout. Mean of {groups:count} groups: open {open_s:latency}, written in {sync_s:latency}.",
    Code.TXG_BEFORE_TIMEOUT: "Groups end before the timeout of {timeout_s} s. Mean of "
    "{groups:count} groups: open {open_s:latency}, written in {sync_s:latency}.",
    Code.AGGREGATION_OFF: "It is 0: requests are not aggregated.",
    Code.AGGREGATION_NO_SIZES: "Request sizes (`zpool iostat -r`) were not recorded.",
    Code.AGGREGATION_REACHED: "{aggregated_share:percent} of the requests are aggregated. The "
    "largest reach the limit of {limit_bytes:size}.",
    Code.AGGREGATION_BELOW: "{aggregated_share:percent} of the requests are aggregated. All are "
    "below {below_bytes:size}; the limit is {limit_bytes:size}.",
    Code.RECORDS_NO_NEIGHBOUR: "Two records of {record_bytes:size} exceed the limit of "
    "{limit_bytes:size}, but no request waits that could be aggregated.",
    Code.RECORDS_UNKNOWN: "Two records of {record_bytes:size} exceed the limit of "
    "{limit_bytes:size}. Whether requests wait was not recorded.",
    Code.RECORDS_WAIT: "Two records of {record_bytes:size} exceed the limit of "
    "{limit_bytes:size}, and requests wait. A larger limit would aggregate them.",
    Code.QUEUE_NOT_RECORDED: "The queues (`zpool iostat -q`) were not recorded.",
    Code.QUEUE_FULL: "The queue is full at times: {queue}.",
    Code.QUEUE_FREE: "The limit is not reached: {queue}.",
    Code.QUEUE_FEW_SAMPLES: "The queue has only {samples} samples: {queue}.",
    Code.QUEUE_BY_DIRTY: "Requests wait below the limit: {queue}. Between {minimum} and this limit "
    "ZFS issues them by the share of dirty data.",
    Code.QUEUE_WAITS: "Requests wait although no sample shows a full queue: {queue}.",
    Code.VDEV_WAITS: "{pending_mean:number} requests wait for the vdev on average. Each further "
    "vdev has its own queue.",
    Code.VDEV_FREE: "{pending_mean:number} requests wait for the vdev on average.",
    Code.VDEV_NARROW: "{device_in_flight:number} requests are in flight at the device and "
    "{image_in_flight:number} at the image. Each further vdev has its own path.",
    Code.VDEV_FEW_SAMPLES: "Its queues have only {samples} samples.",
    Code.VDEV_NOT_RECORDED: "The queues of the vdevs (`zpool iostat -q`) were not recorded.",
    Code.KRBD_NO_CACHE: "The kernel client has no cache of its own.",
    Code.RBD_CACHE_READS_UNKNOWN: "Reads answered by the cache are not counted.",
    Code.RBD_CACHE_NO_LATENCY: "The write latency at the image or at the pool is unknown.",
    Code.RBD_CACHE_AT_WORK: "The image answers before the pool: a write takes "
    "{image_latency_s:latency} at the image and {pool_latency_s:latency} in the pool.",
    Code.RBD_CACHE_FLUSHED: "A write takes {image_latency_s:latency} at the image and "
    "{pool_latency_s:latency} in the pool, but the workload's fsync flushes such a cache.",
    Code.RBD_CACHE_WAITS: "Writes wait for the pool: a write takes {image_latency_s:latency} at "
    "the image and {pool_latency_s:latency} in the pool.",
    Code.OBJECT_NO_SIZES: "The sizes of requests to the image are unknown.",
    Code.OBJECT_FILLED: "Requests fill objects: {mean_size_bytes:size} on average, objects have "
    "{object_bytes:size}.",
    Code.OBJECT_SHARED: "Requests have {mean_size_bytes:size} on average, objects "
    "{object_bytes:size}. Neighbours among the {in_flight:number} in flight share one object and "
    "its OSDs.",
    Code.OBJECT_FAR: "Requests have {mean_size_bytes:size} on average, far below an object of "
    "{object_bytes:size}.",
    # Why a cell has no layers.
    Code.NO_STACK: "{target}: the layers below it are unknown",
    Code.NO_TRIAL: "{cell}: no trial was completed",
}
_QUEUE = (
    "{active_mean:number} requests in flight on average, {active_most:count} at most, of "
    "{limit:count} allowed; {pending_mean:number} wait"
)
_WAITS = ", {waited_s:latency} each before {served_s:latency} at the device"


def words(cause: Fact | None) -> str:
    """Return the text of a fact; empty without one."""
    if cause is None:
        return ""
    values = dict(cause.values)
    if "active_mean" in values:
        queue = _QUEUE + (_WAITS if "waited_s" in values else "")
        values["queue"] = _Templates().format(queue, **values)
    return _Templates().format(TEMPLATES[cause.code], **values)


def explanation(cell: CellLayers) -> Iterator[str]:
    """Yield why the cell has its throughput, the most important sentence first."""
    causes, found = cell.causes, cell.median
    if causes.little:
        yield _little_words(cell, causes.little)
    if causes.idle_at:
        step = causes.idle_at
        reasons = "".join(f" {words(reason)}" for reason in step.reasons[:1])
        yield (
            f"{found.engine.name} {_did(step.op)} {_rate(found.engine.moved_bps(step.op))}; "
            f"nothing of it reached {found.layers[step.below].short_name}.{reasons}"
        )
    if causes.stalls:
        yield _stall_words(causes.stalls)
    if causes.lost_at:
        step = causes.lost_at
        above, below = found.layers[step.above], found.layers[step.below]
        many, few = (
            layer.flows[step.op].in_flight.value or 0.0 if step.op in layer.flows else 0.0
            for layer in (above, below)
        )
        between = found.layers[step.above + 1 : step.below]
        programs = [name for layer in between if (name := layer.facts.get("program"))]
        yield (
            f"Concurrency is lost between {above.short_name} and {below.short_name}"
            + (f" (program {programs[0]})" if programs else "")
            + f": {many:.3g} in flight above, {few:.3g} below."
        )
    if causes.copies:
        yield (
            f"Each client write becomes {causes.copies:.3g} OSD writes: copies, or chunks of an "
            "erasure-coded object."
        )


def _little_words(cell: CellLayers, little: Little) -> str:
    found = cell.median
    layer = found.layers[little.layer].short_name
    sentences = []
    agreement = ""
    reasons: tuple[Fact, ...] = ()
    if little.throughput and little.difference is not None:
        who = "receive" if found.recorded.stream else found.engine.name
        sentences.append(f"{who}: {_rate(little.throughput)}.")
        within = max(1, math.ceil(abs(little.difference) * 100)) / 100
        if little.closes:
            agreement = f", within {_percent(within)}"
        else:
            ratio = 1 + little.difference
            shown = f"{_percent(ratio)} of" if ratio < 1 else f"{ratio:.3g} times"
            agreement = f", {shown} the engine's"
            reasons = next(
                (
                    step.reasons[:1]
                    for step in found.steps
                    if step.op is little.op and step.below <= little.layer and step.reasons
                ),
                (),
            )
    size = format_size(little.size)
    sentences.append(
        f"{little.op.value.capitalize()}s at {layer}: {size} x {little.in_flight:.3g} in flight / "
        f"{format_latency(little.latency)} = {_rate(little.product)}{agreement} (Little's law)."
    )
    sentences += map(words, reasons)
    if little.median_size is not None and little.median_at is not None:
        at = found.layers[little.median_at].short_name
        sentences.append(f"The median size at {at} is {format_size(little.median_size)}.")
    if little.object_bytes and (little.requests_per_object or 0) >= 1:
        sentences.append(
            f"An object of {format_size(little.object_bytes)} holds "
            f"{little.requests_per_object:,.0f} requests."
        )
    return " ".join(sentences)


def _stall_words(stalls: Stalls) -> str:
    waits = (
        f"the pipe waited for the receiver {_percent(stalls.for_receiver_share)} of the time, "
        f"for the sender {_percent(stalls.for_sender_share)}"
    )
    if stalls.for_link_share is not None:
        waits += f", for the link to {stalls.host} {_percent(stalls.for_link_share)}"
    if stalls.slower:
        return f"The {stalls.slower} limits the stream: {waits}."
    neither = "Neither end" if stalls.for_link_share is None else "No part of the path"
    return f"{neither} clearly limits the stream: {waits}."


def _did(op: Op) -> str:
    return "wrote" if op is Op.WRITE else "read"


def _percent(share: float) -> str:
    """`4 %`, `0.3 %`, `120 %`."""
    value = share * 100
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == round(value) else f"{value:.1f} %"


def _rate(bytes_per_second: float) -> str:
    return f"{format_bandwidth(bytes_per_second)} MiB/s"
