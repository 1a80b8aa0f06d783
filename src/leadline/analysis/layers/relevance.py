"""Which settings of ZFS and of the image below it can matter for a trial, and which cannot.

The rules and their defaults are OpenZFS's (module/zfs/vdev_queue.c, dsl_pool.c, dmu_tx.c, arc.c,
zfs(4)); the limits that they name are the module's own where it told them, else its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from leadline.analysis.layers.little import object_size
from leadline.analysis.layers.model import Flow, LayerFlow
from leadline.analysis.layers.relevance_model import UNKNOWN, Relevance, Setting
from leadline.analysis.layers.sweep import RecordSweep, apart
from leadline.analysis.layers.trial import TrialLayers
from leadline.analysis.layers.words import percent
from leadline.analysis.layers.zfs import Queue, queues
from leadline.archive.records import LayerKind
from leadline.inventory.zfs.parameters import PARAMETERS
from leadline.metrics import Op
from leadline.units import format_bandwidth, format_latency, format_size

# Sizes that grow by a quarter with the record size follow it.
_FOLLOWS = 1.25
# Medians of throughput that are taken for equal, as a ratio.
_NEAR = 1.1
# A share of the requests below it is noise.
_SOME = 0.01
_PARAMETERS = {one.name: one for one in PARAMETERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the rules judge by. `parameters` are the module's, as texts; empty where it has none or
    told none; `sweep` compares the cell with those of other record sizes."""

    found: TrialLayers
    zfs: LayerFlow
    op: Op
    parameters: Mapping[str, str]
    sweep: RecordSweep | None

    @property
    def fuse(self) -> bool:
        return self.zfs.facts.get("implementation") == "fuse"

    @property
    def record_bytes(self) -> int | None:
        return self.zfs.size_fact("recordsize_bytes")

    @property
    def at_vdevs(self) -> Flow | None:
        return self.zfs.flows.get(self.op)

    def _default(self, name: str) -> int | None:
        """In the version that there is, else in the newest known."""
        one = _PARAMETERS[name]
        default = one.default(self.zfs.facts.get("version", ""))
        return one.default("") if default is None else default

    def limit(self, name: str) -> int:
        text = self.parameters.get(name, "")
        default = self._default(name)
        assert default is not None, f"{name} depends on the machine"
        return int(text) if text.isascii() and text.isdecimal() else default

    def told(self, name: str) -> str:
        """The value as the module told it; its default is marked as such."""
        if name in self.parameters:
            return self.parameters[name]
        default = self._default(name)
        return "" if default is None else f"{default} (default)"

    @property
    def queues(self) -> Mapping[str, Queue]:
        report = self.found.seen.zfs.report
        return queues(report, self.found.windows) if report else {}


def settings_of(
    found: TrialLayers, parameters: Mapping[str, str], sweep: RecordSweep | None
) -> tuple[Setting, ...]:
    """Every setting that is judged, in the order of the layers; empty without ZFS and image."""
    op = found.main_op
    zfs = next((one for one in found.layers if one.kind is LayerKind.ZFS), None)
    if op is None:
        return ()
    of_zfs: tuple[Setting, ...] = ()
    if zfs is not None:
        given = Given(found=found, zfs=zfs, op=op, parameters=parameters, sweep=sweep)
        of_zfs = tuple(rule(given) for rule in _RULES)
    return (*of_zfs, *_of_image(found, op))


def _record_size(given: Given) -> Setting:
    name, value = "recordsize", given.zfs.facts.get("recordsize_bytes", "")
    sweep = given.sweep
    if sweep is not None and sweep.record_sizes > 1:
        return _by_sweep(sweep, name, value)
    record, flow = given.record_bytes, given.at_vdevs or _first_block(given)
    size = flow.mean_size_bytes if flow else None
    if not record or not size:
        return _unknown(name, value, "no size of requests below ZFS was counted")
    share = size / record
    said = f"requests at the devices have {format_size(size)} on average, {share:.2g} records"
    if 0.5 <= share <= 2:
        return _setting(
            name,
            value,
            Relevance.CAN,
            f"The size of requests follows it: {said}.",
            mean_size_bytes=size,
            record_bytes=record,
        )
    return _unknown(
        name,
        value,
        f"{said}; only cells of other record sizes can tell",
        mean_size_bytes=size,
        record_bytes=record,
    )


def _by_sweep(sweep: RecordSweep, name: str, value: str) -> Setting:
    least, most = sweep.rows[0], sweep.rows[-1]
    ratio = most.throughput_bps / least.throughput_bps
    between = (
        f"from {format_size(least.record_bytes)} to {format_size(most.record_bytes)} "
        f"throughput goes from {format_bandwidth(least.throughput_bps)} to "
        f"{format_bandwidth(most.throughput_bps)} MiB/s"
    )
    numbers = {
        "least_record_bytes": float(least.record_bytes),
        "most_record_bytes": float(most.record_bytes),
        "throughput_ratio": ratio,
    }
    sizes = ""
    if least.block_bytes and most.block_bytes:
        numbers["size_ratio"] = most.block_bytes / least.block_bytes
        sizes = (
            f", requests to the devices from {format_size(least.block_bytes)} to "
            f"{format_size(most.block_bytes)}"
        )
    trials = min(len(least.throughputs_bps), len(most.throughputs_bps))
    if trials < 2:
        fact = f"{between}{sizes}, of one trial each"
        return _unknown(name, value, fact, **numbers)
    if apart(least.throughputs_bps, most.throughputs_bps):
        text = f"In this run {between}{sizes}, and no trial of one lies among those of the other."
        return _setting(name, value, Relevance.CAN, text, **numbers)
    grows = numbers.get("size_ratio", _FOLLOWS) >= _FOLLOWS
    fact = f"{between}{sizes}, and their trials overlap"
    # A few trials that overlap do not show that nothing changes: their medians must be near, too.
    if grows or not 1 / _NEAR <= ratio <= _NEAR:
        return _unknown(name, value, fact, **numbers)
    return _setting(name, value, Relevance.CANNOT, f"In this run {fact}.", **numbers)


def _aggregation(given: Given) -> Setting:
    name = "zfs_vdev_aggregation_limit"
    if given.fuse:
        return _of_fuse(name)
    flat = f"{name}_non_rotating"
    turning = any(
        one.facts.get("rotational") == "yes"
        for one in given.found.layers
        if one.kind is LayerKind.BLOCK
    )
    name = name if turning else flat
    limit, record = given.limit(name), given.record_bytes
    value = given.told(name)
    if record and record >= limit:
        return _setting(
            name,
            value,
            Relevance.CANNOT,
            f"A record of {format_size(record)} is not smaller than the limit of "
            f"{format_size(limit)}: ZFS never puts two of them together. Larger than the largest "
            "record it would join neighbours.",
            record_bytes=record,
            limit_bytes=limit,
        )
    kinds = given.found.seen.zfs.requests
    ends = given.op.value
    counted = [kinds.kinds[one] for one in kinds.kinds if one.endswith(ends)] if kinds else []
    alone = sum(sum(one.individual.values()) for one in counted)
    joined = [size for one in counted for size, count in one.aggregated.items() if count]
    together = sum(sum(one.aggregated.values()) for one in counted)
    if not alone and not together:
        return _unknown(name, value, "sizes of requests (`zpool iostat -r`) were not kept")
    share = together / (alone + together)
    largest = max(joined, default=0)
    numbers = {"aggregated_share": share, "largest_bytes": largest, "limit_bytes": limit}
    if largest * 2 > limit:
        text = (
            f"{percent(share)} of the requests are put together of several, and the largest of "
            f"them reach the limit of {format_size(limit)}."
        )
        return _setting(name, value, Relevance.CAN, text, **numbers)
    reach = f"none is larger than {format_size(largest * 2)}" if largest else "there is none"
    text = (
        f"{percent(share)} of the requests are put together of several; {reach}, far from the "
        f"limit of {format_size(limit)}."
    )
    return _setting(name, value, Relevance.CANNOT, text, **numbers)


def _active(given: Given) -> Setting:
    """Is the queue that the vdev works on as full as it may be?"""
    kind = "async_write" if given.op is Op.WRITE else "sync_read"
    name = f"zfs_vdev_{kind}_max_active"
    if given.fuse:
        return _of_fuse(name)
    value, limit = given.told(name), given.limit(name)
    queue = given.queues.get(kind.replace("_", "q_", 1))
    if queue is None:
        return _unknown(name, value, "the queues (`zpool iostat -q`) were not recorded")
    numbers = {
        "active_mean": queue.active_mean,
        "active_most": queue.active_most,
        "pending_mean": queue.pending_mean,
        "limit": float(limit),
    }
    said = (
        f"{queue.active_mean:.3g} requests are in flight at the vdev on average, "
        f"{queue.active_most:.0f} at most, of {limit} allowed, and {queue.pending_mean:.3g} wait"
    )
    if queue.active_most >= limit:
        return _setting(name, value, Relevance.CAN, f"The queue gets full: {said}.", **numbers)
    # A queue at its lower bound has requests waiting behind it, which a higher one would let go.
    if queue.pending_mean >= 1:
        low = name.replace("max", "min")
        text = f"Requests wait while fewer than allowed are in flight: {said}; {low} holds them."
        return _setting(name, value, Relevance.CAN, text, **numbers)
    return _setting(name, value, Relevance.CANNOT, f"The limit is not reached: {said}.", **numbers)


def _dirty(given: Given) -> Setting:
    name = "zfs_dirty_data_max"
    if given.fuse:
        return _of_fuse(name)
    value = given.told(name)
    counters = given.found.seen.zfs.counters.get("dmu_tx")
    if not counters:
        return _unknown(name, value, "the counters of delayed writers (dmu_tx) were not kept")
    throttled = {
        key: counters[key]
        for key in ("dmu_tx_dirty_throttle", "dmu_tx_dirty_delay", "dmu_tx_dirty_over_max")
        if key in counters
    }
    total = sum(throttled.values())
    numbers = {key: float(one) for key, one in throttled.items()}
    if total:
        text = f"Writers were delayed or stopped {total:,} times for too much dirty data."
        return _setting(name, value, Relevance.CAN, text, **numbers)
    text = "No writer was delayed or stopped for dirty data (dmu_tx: 0 times)."
    return _setting(name, value, Relevance.CANNOT, text, **numbers)


def _timeout(given: Given) -> Setting:
    name = "zfs_txg_timeout"
    if given.fuse:
        return _of_fuse(name)
    value, limit = given.told(name), given.limit(name)
    groups = given.found.seen.zfs.groups
    if not groups:
        return _unknown(name, value, "no transaction group of the trial was kept (kstat txgs)")
    open_s = sum(one.open_s for one in groups) / len(groups)
    sync_s = sum(one.sync_s for one in groups) / len(groups)
    numbers = {"groups": float(len(groups)), "open_s": open_s, "sync_s": sync_s}
    said = (
        f"{len(groups)} groups were open for {format_latency(open_s)} and written in "
        f"{format_latency(sync_s)} on average"
    )
    if open_s >= 0.9 * limit:
        return _setting(
            name, value, Relevance.CAN, f"Groups end by the timeout: {said}.", **numbers
        )
    text = f"Groups end before the timeout of {limit} s: {said}."
    return _setting(name, value, Relevance.CANNOT, text, **numbers)


def _sync(given: Given) -> Setting:
    value = ", ".join(
        f"{key}={given.zfs.facts[key]}" for key in ("sync", "logbias") if key in given.zfs.facts
    )
    name = "sync, logbias"
    if given.op is not Op.WRITE:
        return _setting(name, value, Relevance.CANNOT, "The trial reads; both are about writes.")
    if given.found.evidence.fsyncs or given.zfs.facts.get("sync") == "always":
        why = "sync=always" if given.zfs.facts.get("sync") == "always" else "the workload's fsync"
        return _setting(
            name,
            value,
            Relevance.CAN,
            f"Writes are synchronous ({why}): they go to the intent log.",
        )
    if not given.found.evidence.stream and not given.found.evidence.block_bytes:
        return _unknown(name, value, "what the job file asks for is not known")
    what = "A receive" if given.found.evidence.stream else "The workload"
    return _setting(
        name, value, Relevance.CANNOT, f"{what} asks for no synchronous write, and none is forced."
    )


def _compression(given: Given) -> Setting:
    value = given.zfs.facts.get("compression", "")
    if not given.found.evidence.block_bytes:
        return _unknown("compression", value, "how well the job file's data compresses")
    return _setting(
        "compression",
        value,
        Relevance.CANNOT,
        "What Leadline writes does not compress; of other data as many bytes are saved as it does.",
    )


def _cache(given: Given) -> Setting:
    value = given.zfs.facts.get("primarycache", "")
    evidence, zfs = given.found.evidence, given.zfs
    reads = zfs.flows.get(Op.READ)
    moved = (reads.bandwidth.value or 0.0) if reads else 0.0
    written = zfs.flows.get(Op.WRITE)
    rest = (written.bandwidth.value or 0.0) if written else 0.0
    if given.op is Op.READ and evidence.arc_hit_share is not None:
        share = evidence.arc_hit_share
        answer = Relevance.CAN if share > _SOME else Relevance.CANNOT
        text = f"The cache answered {percent(share)} of the accesses."
        return _setting("primarycache", value, answer, text, arc_hit_share=share)
    if given.op is Op.WRITE and zfs.observed:
        share = moved / (moved + rest) if moved + rest else 0.0
        if share <= _SOME:
            text = f"{percent(share)} of what the devices move is read: there is nothing to keep."
            return _setting("primarycache", value, Relevance.CANNOT, text, read_share=share)
        text = (
            f"{percent(share)} of what the devices move is read, which a cache might have answered."
        )
        if evidence.stream:
            text += " It is what is sent, and what the comparison between streams reads."
        return _setting("primarycache", value, Relevance.CAN, text, read_share=share)
    return _unknown("primarycache", value, "neither the cache's counters nor reads below it")


def _more_vdevs(given: Given) -> Setting:
    name, value = "number of vdevs", str(len(given.zfs.devices) or 1)
    queue = given.queues.get("asyncq_write" if given.op is Op.WRITE else "syncq_read")
    limit = given.limit(
        "zfs_vdev_async_write_max_active"
        if given.op is Op.WRITE
        else "zfs_vdev_sync_read_max_active"
    )
    if queue is not None and (queue.active_most >= limit or queue.pending_mean >= 1):
        text = (
            f"Requests wait for the vdev ({queue.pending_mean:.3g} on average): each further one "
            "has a queue of its own."
        )
        return _setting(name, value, Relevance.CAN, text, pending_mean=queue.pending_mean)
    if queue is not None:
        text = f"No request waits for the vdev ({queue.pending_mean:.3g} on average)."
        return _setting(name, value, Relevance.CANNOT, text, pending_mean=queue.pending_mean)
    above = _first_block(given)
    below = next((one for one in given.found.layers if one.kind is LayerKind.IMAGE), None)
    flow = below.flows.get(given.op) if below else None
    waiting = above.in_flight.value if above else None
    served = flow.in_flight.value if flow else None
    if waiting is not None and served is not None and waiting >= 2 and served < waiting / 2:
        text = (
            f"{waiting:.3g} requests are in flight at the device and {served:.3g} at the image: "
            "what lies between serves few at once, and each further vdev brings its own."
        )
        numbers = {"device_in_flight": waiting, "image_in_flight": served}
        return _setting(name, value, Relevance.CAN, text, **numbers)
    return _unknown(name, value, "the queues of the vdevs (`zpool iostat -q`) were not recorded")


_RULES: tuple[Callable[[Given], Setting], ...] = (
    _record_size,
    _compression,
    _sync,
    _cache,
    _dirty,
    _timeout,
    _aggregation,
    _active,
    _more_vdevs,
)


def _of_image(found: TrialLayers, op: Op) -> Iterator[Setting]:
    image = next((one for one in found.layers if one.kind is LayerKind.IMAGE), None)
    if image is None:
        return
    yield _librbd_cache(found, image, op)
    yield _object_size(found, image, op)


def _librbd_cache(found: TrialLayers, image: LayerFlow, op: Op) -> Setting:
    name = "rbd_cache"
    if image.facts.get("client") == "krbd":
        return _setting(name, "", Relevance.CANNOT, "The kernel's client has no cache of its own.")
    pool = next((one for one in found.layers if one.kind is LayerKind.POOL), None)
    upper = image.flows.get(op)
    lower = pool.flows.get(op) if pool else None
    if op is Op.READ:
        return _unknown(name, "", "how many reads it answered")
    if not upper or not lower or not upper.latency.value or not lower.latency.value:
        return _unknown(name, "", "the latency of writes at the image or at the pool")
    there, below = upper.latency.value, lower.latency.value
    said = (
        f"a write takes {format_latency(there)} at the image and {format_latency(below)} in "
        "the pool"
    )
    numbers = {"image_latency_s": there, "pool_latency_s": below}
    if there >= 0.8 * below:
        text = f"Writes wait for the pool ({said}): a cache that answers before would change that."
        return _setting(name, "", Relevance.CAN, text, **numbers)
    text = f"The image answers before the pool does ({said}): its cache is at work already."
    return _setting(name, "", Relevance.CANNOT, text, **numbers)


def _object_size(found: TrialLayers, image: LayerFlow, op: Op) -> Setting:
    name, value = "object size of the image", image.facts.get("object_size_bytes", "")
    size = object_size(found.layers)
    flow = _largest_seen(found, op)
    if not size or flow is None or not flow.mean_size_bytes:
        return _unknown(name, value, "the sizes of requests to the image")
    mean = flow.mean_size_bytes
    share = flow.sizes.share_from(size) if flow.sizes else None
    numbers = {"mean_size_bytes": mean, "object_bytes": float(size)}
    if share is not None:
        numbers["full_object_share"] = share
    said = f"requests have {format_size(mean)} on average, 1/{size / mean:,.0f} of an object"
    if mean > size / 2 or (share or 0.0) > _SOME:
        return _setting(name, value, Relevance.CAN, f"Requests fill objects: {said}.", **numbers)
    text = f"No request comes near an object of {format_size(size)}: {said}."
    return _setting(name, value, Relevance.CANNOT, text, **numbers)


def _largest_seen(found: TrialLayers, op: Op) -> Flow | None:
    """The image's requests, else those of the device above it."""
    for kind in (LayerKind.IMAGE, LayerKind.BLOCK):
        for one in reversed(found.layers):
            flow = one.flows.get(op)
            if one.kind is kind and flow is not None and flow.mean_size_bytes:
                return flow
    return None


def _first_block(given: Given) -> Flow | None:
    return next(
        (
            one.flows[given.op]
            for one in given.found.layers
            if one.kind is LayerKind.BLOCK and given.op in one.flows
        ),
        None,
    )


def _setting(
    name: str, value: str, relevance: Relevance, sentence: str, **evidence: float
) -> Setting:
    return Setting(
        name=name, value=value, relevance=relevance, sentence=sentence, evidence=evidence
    )


def _unknown(name: str, value: str, fact: str, **evidence: float) -> Setting:
    text = f"{UNKNOWN}{fact}."
    return _setting(name, value, Relevance.NOT_KNOWN, text, **evidence)


def _of_fuse(name: str) -> Setting:
    text = "zfs-fuse has no module, so that it cannot be set there."
    return _setting(name, "", Relevance.CANNOT, text)
