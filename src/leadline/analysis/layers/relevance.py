"""All rules on settings, in the order of the layers.

Rules and defaults are OpenZFS's (module/zfs, zfs(4)) and Ceph's; limits are the module's own where
it told them, else its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from math import comb

from leadline.analysis.layers.explain import RecordSweep, apart, object_size
from leadline.analysis.layers.model import Flow, LayerFlow, percent
from leadline.analysis.layers.trial import TrialLayers
from leadline.analysis.layers.zfs import Queue, queues, vdev_devices, written_times
from leadline.formats.zfs.status import Txg
from leadline.inventory.layer import LayerKind
from leadline.inventory.zfs import zfs_parameters
from leadline.metrics import Op
from leadline.units import format_bandwidth, format_latency, format_size

# Whether a setting can matter, given what was seen.

# What a sentence on a setting begins with where the evidence leaves it open.
UNKNOWN = "Not told by the evidence: "


class Relevance(StrEnum):
    """What the evidence says of a setting for this trial."""

    CAN = "can matter"
    CANNOT = "cannot matter"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`name` as its owner calls it, `value` as it was (empty: not told), one sentence with the
    numbers that say so, and these as `evidence` in base units, with units in their names."""

    name: str
    value: str
    relevance: Relevance
    sentence: str
    evidence: Mapping[str, float] = field(default_factory=dict)


def can(name: str, value: str, sentence: str, **evidence: float) -> Setting:
    return Setting(
        name=name, value=value, relevance=Relevance.CAN, sentence=sentence, evidence=evidence
    )


def cannot(name: str, value: str, sentence: str, **evidence: float) -> Setting:
    return Setting(
        name=name, value=value, relevance=Relevance.CANNOT, sentence=sentence, evidence=evidence
    )


def not_known(name: str, value: str, fact: str, **evidence: float) -> Setting:
    return Setting(
        name=name,
        value=value,
        relevance=Relevance.NOT_KNOWN,
        sentence=f"{UNKNOWN}{fact}.",
        evidence=evidence,
    )


# What the rules on settings of ZFS judge by.

# A share of the requests below it is noise.
SOME = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """`parameters` are the module's, as texts; empty where it has none or told none; `sweep`
    compares the cell with those of other record sizes."""

    found: TrialLayers
    zfs: LayerFlow
    op: Op
    parameters: Mapping[str, str]
    sweep: RecordSweep | None

    @property
    def fuse(self) -> bool:
        return self.zfs.facts.get("implementation") == "fuse"

    @property
    def writes(self) -> bool:
        """Whether the engine wrote anything."""
        return Op.WRITE in self.found.engine.flows

    @property
    def volume(self) -> bool:
        """Whether the dataset is a volume: then its device stands above it."""
        place = self.found.layers.index(self.zfs)
        return any(one.facts.get("type") == "zvol" for one in self.found.layers[:place])

    @property
    def record_bytes(self) -> int | None:
        return self.zfs.size_fact("recordsize_bytes")

    @property
    def layout(self) -> str:
        """`2 x mirror of 2, log: 1 x disk`."""
        return self.zfs.facts.get("layout", "")

    @property
    def written_times(self) -> float:
        """How often each byte of the trial's direction is moved for the sake of copies or
        parity."""
        return (written_times(self.layout) or 1.0) if self.op is Op.WRITE else 1.0

    @property
    def striped(self) -> bool:
        """Whether vdevs cut a block into columns (RAIDZ, dRAID)."""
        return "raidz" in self.layout or "draid" in self.layout

    @property
    def at_vdevs(self) -> Flow | None:
        return self.zfs.flows.get(self.op)

    @property
    def devices(self) -> LayerFlow | None:
        """The vdevs' devices; not what lies below them, as the disk of a loop device's file."""
        return vdev_devices(self.found.layers)

    @property
    def at_devices(self) -> Flow | None:
        return self.devices.flows.get(self.op) if self.devices else None

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

    def _default(self, name: str) -> int | None:
        """In the version that there is, else in the newest known."""
        one = next(one for one in zfs_parameters() if one.name == name)
        default = one.default(self.zfs.facts.get("version", ""))
        return one.default("") if default is None else default

    @property
    def queues(self) -> Mapping[str, Queue]:
        return queues(self.found.seen.zfs, self.found.windows)


def of_fuse(name: str) -> Setting:
    return cannot(name, "", "zfs-fuse has no module, so that it cannot be set there.")


# Settings of the image: librbd's cache, the size of its objects.

# A write that takes as long at the image as in the pool waits for it.
_WAITS = 0.8
# With fewer in flight there is nothing to spread.
_SEVERAL = 2.0


def of_image(found: TrialLayers, op: Op) -> Iterator[Setting]:
    image = next((one for one in found.layers if one.kind is LayerKind.IMAGE), None)
    if image is None:
        return
    yield _librbd_cache(found, image, op)
    yield _object_size(found, image, op)


def _librbd_cache(found: TrialLayers, image: LayerFlow, op: Op) -> Setting:
    name = "rbd_cache"
    if image.facts.get("client") == "krbd":
        return cannot(name, "", "The kernel's client has no cache of its own.")
    pool = next((one for one in found.layers if one.kind is LayerKind.POOL), None)
    upper = image.flows.get(op)
    lower = pool.flows.get(op) if pool else None
    if op is Op.READ:
        return not_known(name, "", "how many reads it answered")
    if not upper or not lower or not upper.latency.value or not lower.latency.value:
        return not_known(name, "", "the latency of writes at the image or at the pool")
    there, below = upper.latency.value, lower.latency.value
    said = (
        f"a write takes {format_latency(there)} at the image and {format_latency(below)} in "
        "the pool"
    )
    numbers = {"image_latency_s": there, "pool_latency_s": below}
    if there < _WAITS * below:
        text = f"It is at work: the image answers before the pool does ({said})."
        return can(name, "", text, **numbers)
    if found.evidence.fsyncs:
        fact = f"{said}, but the workload's fsync empties such a cache each time"
        return not_known(name, "", fact, **numbers)
    text = f"Writes wait for the pool ({said}): a cache that answers before would change that."
    return can(name, "", text, **numbers)


def _object_size(found: TrialLayers, image: LayerFlow, op: Op) -> Setting:
    """An object lies on one set of OSDs, which does what comes for it in order: its size (with
    striping the stripe unit) is where a request is cut, and how far apart two must lie to be
    served by different ones (Ceph's documentation, architecture, data striping)."""
    name, value = "object size of the image", image.facts.get("object_size_bytes", "")
    size, flow = _piece(found, image), _largest_seen(found, op)
    if not size or flow is None or not flow.mean_size_bytes:
        return not_known(name, value, "the sizes of requests to the image")
    mean = flow.mean_size_bytes
    share = flow.sizes.share_from(size) if flow.sizes else None
    numbers = {"mean_size_bytes": mean, "object_bytes": float(size)}
    if share is not None:
        numbers["full_object_share"] = share
    said = f"requests have {format_size(mean)} on average, {_part(mean / size)}"
    if mean > size / 2 or (share or 0.0) > SOME:
        return can(name, value, f"Requests fill objects: {said}.", **numbers)
    many = flow.in_flight.value
    if many is not None and many >= _SEVERAL and not found.evidence.scattered:
        numbers["in_flight"] = many
        fact = (
            f"{said}, but {many:.3g} are in flight: as far as they lie beside each other, one "
            "object, and so one set of OSDs, gets them all"
        )
        return not_known(name, value, fact, **numbers)
    text = f"No request comes near an object of {format_size(size)}: {said}."
    return cannot(name, value, text, **numbers)


def _part(share: float) -> str:
    return f"1/{1 / share:,.0f} of an object" if share < 1 else f"{share:.3g} objects"


def _piece(found: TrialLayers, image: LayerFlow) -> int | None:
    """Bytes of the image that lie together in one object."""
    size, unit = object_size(found.layers), image.size_fact("stripe_unit_bytes")
    striped = (image.size_fact("stripe_count") or 1) > 1
    return min(size, unit) if size and unit and striped else size


def _largest_seen(found: TrialLayers, op: Op) -> Flow | None:
    """The image's requests, else those of the device above it."""
    for kind in (LayerKind.IMAGE, LayerKind.BLOCK):
        for one in reversed(found.layers):
            flow = one.flows.get(op)
            if one.kind is kind and flow is not None and flow.mean_size_bytes:
                return flow
    return None


# Properties of the dataset: record size, compression, sync, cache (zfsprops(7)).

# Sizes that grow by a quarter with the record size follow it.
_FOLLOWS = 1.25
# Medians of throughput that are taken for equal, as a ratio.
_NEAR = 1.1
# Two trials of each lie apart by chance one time in three.
_LEAST_TRIALS = 3
# Vdevs that move so many times what was asked of them do it for the sake of whole records.
_AMPLIFIED = 2.0
# They give up early on what does not compress: lz4, which `on` is, and those that only look once
# (module/zfs/lz4_zfs.c, zle.c). gzip and zstd up to 2.1 do all of the work first; zstd of 2.2 gives
# up early from level 3 on, of records of 128 KiB and more (module/zstd/zfs_zstd.c).
_CHEAP = frozenset({"off", "on", "lz4", "lzjb", "zle", ""})


def record_size(given: Given) -> Setting:
    name = "volblocksize" if given.volume else "recordsize"
    value = given.zfs.facts.get("recordsize_bytes", "")
    sweep = given.sweep
    if sweep is not None and sweep.record_sizes > 1:
        return _by_sweep(sweep, name, value)
    record = given.record_bytes
    amplified = _amplified(given)
    if record and amplified is not None and amplified > _AMPLIFIED:
        block = given.found.evidence.block_bytes or 0
        verb = "write" if given.op is Op.WRITE else "read"
        text = (
            f"A request of {format_size(block)} touches a record of {format_size(record)}, and the "
            f"vdevs {verb} {amplified:.3g} times the bytes that are asked for."
        )
        return can(name, value, text, amplification=amplified, record_bytes=record)
    flow = given.at_vdevs or given.at_devices
    size = flow.mean_size_bytes if flow else None
    if not record or not size:
        return not_known(name, value, "no size of requests below ZFS was counted")
    share = size / record
    said = f"requests at the devices have {format_size(size)} on average, {share:.2g} records"
    numbers = {"mean_size_bytes": size, "record_bytes": float(record)}
    if 0.5 <= share <= 2:
        return can(name, value, f"The size of requests follows it: {said}.", **numbers)
    return not_known(name, value, f"{said}; only cells of other record sizes can tell", **numbers)


def _amplified(given: Given) -> float | None:
    """Bytes at the vdevs for each that the engine asked for, where it asks for parts of records."""
    record, block = given.record_bytes, given.found.evidence.block_bytes
    asked, done = given.found.engine.flows.get(given.op), given.at_vdevs
    if given.found.evidence.stream or not record or not block or block >= record:
        return None
    if asked is None or done is None or not asked.bandwidth.value or not done.bandwidth.value:
        return None
    return done.bandwidth.value / asked.bandwidth.value / given.written_times


def _by_sweep(sweep: RecordSweep, name: str, value: str) -> Setting:
    rows = sweep.usable
    if len({one.record_bytes for one in rows}) < 2:
        refusing = sorted({code for one in sweep.rows for code in one.refused})
        fact = f"the audit refuses what the record sizes were measured with ({', '.join(refusing)})"
        return not_known(name, value, fact)
    least, most = rows[0], rows[-1]
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
    if trials < _LEAST_TRIALS:
        each = "one trial" if trials == 1 else f"{trials} trials"
        return not_known(name, value, f"{between}{sizes}, of {each} each", **numbers)
    if apart(least.throughputs_bps, most.throughputs_bps):
        once_in = comb(len(least.throughputs_bps) + len(most.throughputs_bps), trials) // 2
        numbers["chance"] = 1 / once_in
        text = (
            f"In this run {between}{sizes}, and no trial of one lies among those of the other, "
            f"as by chance one time in {once_in}."
        )
        return can(name, value, text, **numbers)
    grows = numbers.get("size_ratio", _FOLLOWS) >= _FOLLOWS
    fact = f"{between}{sizes}, and their trials overlap"
    # A few trials that overlap do not show that nothing changes: their medians must be near, too.
    if grows or not 1 / _NEAR <= ratio <= _NEAR:
        return not_known(name, value, fact, **numbers)
    return cannot(name, value, f"In this run {fact}.", **numbers)


def compression(given: Given) -> Setting:
    name, value = "compression", given.zfs.facts.get("compression", "")
    if not given.found.evidence.block_bytes:
        return not_known(name, value, "how well the job file's data compresses")
    if given.writes and value not in _CHEAP:
        fact = f"what Leadline writes does not compress, but {value} spends processor time on it"
        return not_known(name, value, fact)
    text = (
        "What Leadline writes does not compress; of other data as many bytes are saved as it does."
    )
    return cannot(name, value, text)


def sync(given: Given) -> Setting:
    facts, evidence = given.zfs.facts, given.found.evidence
    name = "sync, logbias"
    value = ", ".join(f"{key}={facts[key]}" for key in ("sync", "logbias") if key in facts)
    how = facts.get("sync", "")
    if not given.writes:
        return cannot(name, value, "The trial reads; both are about writes.")
    if how == "always":
        return can(name, value, "Writes are synchronous (sync=always): they go to the intent log.")
    if evidence.fsyncs and how == "disabled":
        text = "The workload's fsync is answered before anything is on disk (sync=disabled)."
        return can(name, value, text)
    if evidence.fsyncs:
        text = "Writes are synchronous (the workload's fsync): they go to the intent log."
        return can(name, value, text)
    if not evidence.stream and not evidence.block_bytes:
        return not_known(name, value, "what the job file asks for is not known")
    what = "A receive" if evidence.stream else "The workload"
    return cannot(name, value, f"{what} asks for no synchronous write, and none is forced.")


def cache(given: Given) -> Setting:
    name, value = "primarycache", given.zfs.facts.get("primarycache", "")
    evidence, zfs = given.found.evidence, given.zfs
    if given.op is Op.READ and evidence.arc_hit_share is not None:
        share = evidence.arc_hit_share
        text = f"The cache answered {percent(share)} of the accesses."
        if share > SOME:
            return can(name, value, text, arc_hit_share=share)
        if value == "all":
            return cannot(name, value, text, arc_hit_share=share)
        fact = f"the cache, which is to keep no data ({value or 'not told'}), answered none"
        return not_known(name, value, fact, arc_hit_share=share)
    if given.op is Op.WRITE and zfs.observed:
        moved = {op: flow.bandwidth.value or 0.0 for op, flow in zfs.flows.items()}
        whole = sum(moved.values())
        share = moved.get(Op.READ, 0.0) / whole if whole else 0.0
        text = f"{percent(share)} of what the devices move is read"
        if share <= SOME:
            return cannot(name, value, f"{text}: there is nothing to keep.", read_share=share)
        text += ", which a cache might have answered."
        if evidence.stream:
            text += " It is what is sent, and what the comparison between streams reads."
        return can(name, value, text, read_share=share)
    return not_known(name, value, "neither the cache's counters nor reads below it")


# Transaction groups: how much may be dirty, and how long a group stays open.
#  `zfs_dirty_data_max` has three thresholds below it (zfs(4); module/zfs/dsl_pool.c,
# vdev_queue.c): a group is closed once it holds zfs_dirty_data_sync_percent of it (20), from 30 %
# more async writes are let out, from 60 % each writer is delayed. A writer that has to wait is
# counted as dmu_tx_dirty_throttle, and then as dmu_tx_dirty_over_max if it stood still, as
# dmu_tx_dirty_delay if it was delayed (module/zfs/dmu_tx.c): they are the same writers, not to be
# added up.

# A group that was open for that share of the timeout ended by it.
_BY_TIMEOUT = 0.9
_READS = "The trial reads: no group holds data of it."
_GROUPS_WAITS = ("dmu_tx_dirty_throttle", "dmu_tx_dirty_delay", "dmu_tx_dirty_over_max")


def dirty_data(given: Given) -> Setting:
    name = "zfs_dirty_data_max"
    if given.fuse:
        return of_fuse(name)
    value = given.told(name)
    if not given.writes:
        return cannot(name, value, _READS)
    counters = given.found.seen.zfs.counters.get("dmu_tx")
    if not counters:
        return not_known(name, value, "the counters of delayed writers (dmu_tx) were not kept")
    waits = {key: float(counters[key]) for key in _GROUPS_WAITS if key in counters}
    if any(waits.values()):
        times = max(waits.values())
        stopped = waits.get("dmu_tx_dirty_over_max", 0.0)
        text = f"Writers had to wait {times:,.0f} times for too much dirty data"
        text += f", {stopped:,.0f} of them until some was written." if stopped else "."
        return can(name, value, text, **waits)
    groups = given.found.seen.zfs.groups
    limit = int(value) if value.isascii() and value.isdecimal() else 0
    if not groups or not limit:
        fact = "no writer was delayed (dmu_tx), but how much of it was dirty was not kept"
        return not_known(name, value, fact, **waits)
    most = max(one.dirty_bytes for one in groups)
    close = given.limit("zfs_dirty_data_sync_percent")
    share = most / limit
    numbers = {**waits, "most_dirty_bytes": float(most), "dirty_share": share}
    said = (
        f"no writer was delayed, and the largest group held {format_size(most)}, {percent(share)}"
    )
    if share < close / 100:
        text = f"{said[:1].upper()}{said[1:]} of it; groups are closed at {close} %."
        return cannot(name, value, text, **numbers)
    text = f"Groups are closed at {close} % of it: {said}."
    return can(name, value, text, **numbers)


def timeout(given: Given) -> Setting:
    name = "zfs_txg_timeout"
    if given.fuse:
        return of_fuse(name)
    value, limit = given.told(name), given.limit(name)
    if not given.writes:
        return cannot(name, value, _READS)
    groups = given.found.seen.zfs.groups
    if not groups:
        return not_known(name, value, "no transaction group of the trial was kept (kstat txgs)")
    weights = _weights(groups)
    open_s = sum(one.open_s * weight for one, weight in zip(groups, weights, strict=True))
    sync_s = sum(one.sync_s * weight for one, weight in zip(groups, weights, strict=True))
    late = sum(
        weight
        for one, weight in zip(groups, weights, strict=True)
        if one.open_s >= _BY_TIMEOUT * limit
    )
    numbers = {"groups": float(len(groups)), "open_s": open_s, "sync_s": sync_s}
    numbers["by_timeout_share"] = late
    said = (
        f"a group with data is open for {format_latency(open_s)} and written in "
        f"{format_latency(sync_s)} on average, by {len(groups)} of them"
    )
    if late > SOME:
        text = f"{percent(late)} of the data is of groups that end by the timeout: {said}."
        return can(name, value, text, **numbers)
    text = f"Groups end before the timeout of {limit} s: {said}. Only a shorter one would end them."
    return cannot(name, value, text, **numbers)


def _weights(groups: Sequence[Txg]) -> list[float]:
    """Shares of the data: a pool at rest has a group each five seconds that holds nothing."""
    whole = sum(one.dirty_bytes for one in groups)
    return [one.dirty_bytes / whole if whole else 1 / len(groups) for one in groups]


# Queues of the vdevs: what is put together, how many are in flight, how many vdevs there are.
#  Each leaf vdev has a queue for each class of I/O with bounds of its own
# (module/zfs/vdev_queue.c, zfs(4)): synchronous are reads that somebody waits for and writes of
# the intent log, since 2.3 direct I/O as well; asynchronous are reads ahead and writes of
# transaction groups. Of the latter between the least and the greatest number are in flight, by
# how much is dirty; of other classes a request waits only once the greatest number is.

# Queues that are looked at less often tell nothing of a load that comes in bursts.
_SAMPLES = 5
# Requests that wait for that share of the time that the device then takes do queue.
_WAITED = 0.5
_ASYNC_WRITE = "async_write"


class _Crowd(Enum):
    FULL = "full"
    WAITING = "waiting"
    FREE = "free"
    NOT_KNOWN = "not known"


def aggregation(given: Given) -> Setting:
    name = "zfs_vdev_aggregation_limit"
    if given.fuse:
        return of_fuse(name)
    turning = given.devices is not None and given.devices.facts.get("rotational") == "yes"
    name = name if turning else f"{name}_non_rotating"
    limit, record, value = given.limit(name), given.record_bytes, given.told(name)
    if not limit:
        return can(name, value, "It is 0: no requests are put together.")
    # Vdevs that cut blocks into columns get smaller pieces than a record.
    if record and record * 2 > limit and not given.striped:
        return _too_large(given, name, record, limit)
    kinds = given.found.seen.zfs.requests
    ends = given.op.value
    counted = [kinds.kinds[one] for one in kinds.kinds if one.endswith(ends)] if kinds else []
    alone = sum(sum(one.individual.values()) for one in counted)
    joined = [size for one in counted for size, count in one.aggregated.items() if count]
    together = sum(sum(one.aggregated.values()) for one in counted)
    if not alone and not together:
        return not_known(name, value, "sizes of requests (`zpool iostat -r`) were not kept")
    share = together / (alone + together)
    largest = max(joined, default=0)
    numbers = {"aggregated_share": share, "largest_bytes": largest, "limit_bytes": limit}
    # As many whole records as fit, of which a bucket tells the size to within a factor of two.
    most = limit // record * record if record and not given.striped else limit // 2
    if largest * 2 > most:
        text = (
            f"{percent(share)} of the requests are put together of several, and the largest of "
            f"them reach the limit of {format_size(limit)}."
        )
        return can(name, value, text, **numbers)
    reach = f"none has {format_size(largest * 2)} or more" if largest else "there is none"
    text = (
        f"{percent(share)} of the requests are put together of several; {reach}, so that the limit "
        f"of {format_size(limit)} cuts none."
    )
    return cannot(name, value, text, **numbers)


def _too_large(given: Given, name: str, record: int, limit: int) -> Setting:
    """Two records are more than the limit: it matters if there is a neighbour in the queue."""
    value = given.told(name)
    numbers = {"record_bytes": float(record), "limit_bytes": float(limit)}
    said = (
        f"two records of {format_size(record)} are larger than the limit of {format_size(limit)}, "
        "so that none are put together"
    )
    queue, most, _ = _busiest(given)
    crowd = _crowd(queue, most)
    if crowd is _Crowd.FREE:
        text = f"{said[:1].upper()}{said[1:]}; but no request waits beside which another could go."
        return cannot(name, value, text, **numbers)
    if crowd is _Crowd.NOT_KNOWN:
        fact = f"{said}; whether neighbours wait in the queue was not recorded"
        return not_known(name, value, fact, **numbers)
    text = (
        f"{said[:1].upper()}{said[1:]}, and requests wait: with a limit of several records "
        "neighbours among them would go as one."
    )
    return can(name, value, text, **numbers)


def in_flight(given: Given) -> Setting:
    """Is the queue that the vdev works on as full as it may be?"""
    queue, limit, kind = _busiest(given)
    name = f"zfs_vdev_{kind}_max_active"
    if given.fuse:
        return of_fuse(name)
    value = given.told(name)
    if queue is None:
        return not_known(name, value, "the queues (`zpool iostat -q`) were not recorded")
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
    if queue.waited_s is not None and queue.served_s is not None:
        numbers |= {"waited_s": queue.waited_s, "served_s": queue.served_s}
        said += (
            f"; a request waits {format_latency(queue.waited_s)} and then takes "
            f"{format_latency(queue.served_s)}"
        )
    crowd = _crowd(queue, limit)
    if crowd is _Crowd.FULL:
        return can(name, value, f"The queue gets full: {said}.", **numbers)
    if crowd is _Crowd.FREE:
        return cannot(name, value, f"The limit is not reached: {said}.", **numbers)
    if crowd is _Crowd.NOT_KNOWN:
        fact = f"{said}, by {queue.samples} looks, one a second"
        return not_known(name, value, fact, **numbers)
    if kind == _ASYNC_WRITE:
        low = name.replace("max", "min")
        text = (
            f"Requests wait while fewer than allowed are in flight: {said}. By how much is dirty, "
            f"between {low} and it are let out."
        )
        return can(name, value, text, **numbers)
    fact = f"requests wait, though the queue was not seen full: {said}"
    return not_known(name, value, fact, **numbers)


def vdevs(given: Given) -> Setting:
    name = "number of vdevs"
    value = given.layout or str(len(given.zfs.devices) or 1)
    queue, limit, _ = _busiest(given)
    crowd = _crowd(queue, limit)
    if queue is not None and crowd in (_Crowd.FULL, _Crowd.WAITING):
        text = (
            f"Requests wait for the vdev ({queue.pending_mean:.3g} on average): each further one "
            "has a queue of its own."
        )
        return can(name, value, text, pending_mean=queue.pending_mean)
    if queue is not None and crowd is _Crowd.FREE:
        text = f"No request waits for the vdev ({queue.pending_mean:.3g} on average)."
        return cannot(name, value, text, pending_mean=queue.pending_mean)
    above = given.at_devices
    below = next((one for one in given.found.layers if one.kind is LayerKind.IMAGE), None)
    flow = below.flows.get(given.op) if below else None
    waiting = above.in_flight.value if above else None
    served = flow.in_flight.value if flow else None
    if waiting is not None and served is not None and waiting >= 2 and served < waiting / 2:
        text = (
            f"{waiting:.3g} requests are in flight at the device and {served:.3g} at the image: "
            "what lies between serves few at once, and each further vdev brings its own."
        )
        return can(name, value, text, device_in_flight=waiting, image_in_flight=served)
    if queue is not None:
        return not_known(name, value, f"its queues were looked at {queue.samples} times only")
    return not_known(name, value, "the queues of the vdevs (`zpool iostat -q`) were not recorded")


def _busiest(given: Given) -> tuple[Queue | None, int, str]:
    """Of the trial's direction the queue in which most is, what it may have in flight, and its
    class (`async_write`)."""
    write = given.op is Op.WRITE
    usual, other = ("async", "sync") if write else ("sync", "async")
    every = given.queues
    told = {
        kind: every[f"{kind}q_{given.op.value}"]
        for kind in (usual, other)
        if f"{kind}q_{given.op.value}" in every
    }
    # Of two that are alike the usual one, which stands first.
    kind = max(told, key=lambda one: told[one].length, default=usual)
    name = f"{kind}_{given.op.value}"
    return told.get(kind), given.limit(f"zfs_vdev_{name}_max_active"), name


def _crowd(queue: Queue | None, limit: int) -> _Crowd:
    if queue is None:
        return _Crowd.NOT_KNOWN
    if queue.active_most >= limit:
        return _Crowd.FULL
    known = queue.waited_s is not None and bool(queue.served_s)
    if queue.pending_mean >= 1:
        return _Crowd.WAITING
    if known and (queue.waited_s or 0.0) > _WAITED * (queue.served_s or 0.0):
        return _Crowd.WAITING
    # Waits are of all requests; a queue is looked at for a moment of each second.
    return _Crowd.FREE if known or queue.samples >= _SAMPLES else _Crowd.NOT_KNOWN


_OF_ZFS: tuple[Callable[[Given], Setting], ...] = (
    record_size,
    compression,
    sync,
    cache,
    dirty_data,
    timeout,
    aggregation,
    in_flight,
    vdevs,
)


def settings_of(
    found: TrialLayers, parameters: Mapping[str, str], sweep: RecordSweep | None
) -> tuple[Setting, ...]:
    """Every setting that is judged; empty without ZFS and image."""
    op = found.main_op
    zfs = next((one for one in found.layers if one.kind is LayerKind.ZFS), None)
    if op is None:
        return ()
    of_zfs: tuple[Setting, ...] = ()
    if zfs is not None:
        given = Given(found=found, zfs=zfs, op=op, parameters=parameters, sweep=sweep)
        of_zfs = tuple(rule(given) for rule in _OF_ZFS)
    return (*of_zfs, *of_image(found, op))
