"""Which settings of ZFS and of the image can change a trial's throughput, by what was measured.

Rules and defaults are from OpenZFS (module/zfs, zfs(4), zfsprops(7)) and Ceph. Limits are the
module's recorded parameters, otherwise its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import comb

from leadline.analysis.layers.explain import RecordSweep, object_size
from leadline.analysis.layers.facts import Code, Setting, can, cannot, not_known
from leadline.analysis.layers.model import Flow, LayerFlow, find_layer
from leadline.analysis.layers.trial import TrialLayers
from leadline.analysis.layers.zfs import Queue, queues, vdev_devices, write_factor
from leadline.inventory.layer import LayerKind
from leadline.inventory.zfs import zfs_parameters
from leadline.metrics import Op

# Shares below this are noise.
NOISE = 0.01
# A write that takes this share of the pool's latency at the image waits for the pool.
_WAITS_FOR_POOL = 0.8
# With fewer requests in flight there is nothing to spread over objects.
_CONCURRENT = 2.0
# Request sizes that grow by a quarter with the record size follow it.
_FOLLOWS = 1.25
# Medians of throughput with a smaller ratio are equal.
_NEAR = 1.1
# Two trials of each record size are separate by chance one time in three.
_LEAST_TRIALS = 3
# Vdevs that move more than this many times the requested bytes do so because of whole records.
_AMPLIFIED = 2.0
# Algorithms that give up early on incompressible data: lz4, which `on` is, and those that look
# once (module/zfs/lz4_zfs.c, zle.c). gzip and zstd up to 2.1 do all of the work first; zstd of 2.2
# gives up early from level 3, for records of 128 KiB and more (module/zstd/zfs_zstd.c).
_CHEAP = frozenset({"off", "on", "lz4", "lzjb", "zle", ""})
# A group that was open for this share of the timeout ended by it.
_BY_TIMEOUT = 0.9
# Writers that had to wait (module/zfs/dmu_tx.c): counted as throttle, and again as over_max if
# they stopped or as delay if they were delayed. They are not to be added.
_WAITS = ("dmu_tx_dirty_throttle", "dmu_tx_dirty_delay", "dmu_tx_dirty_over_max")
# Queues that were sampled less often show nothing of a load in bursts.
_QUEUE_SAMPLES = 5
# Requests queue if they wait for this share of their time at the device.
_WAIT_SHARE = 0.5


class _Load(Enum):
    """How full the queue of a vdev is."""

    FULL = "full"
    WAITING = "waiting"
    FREE = "free"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dataset:
    """A trial on ZFS. `parameters` are the module's as texts, empty if unknown; `sweep` compares
    the cell with those of other record sizes."""

    trial: TrialLayers
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
        return Op.WRITE in self.trial.engine.flows

    @property
    def volume(self) -> bool:
        """Whether the dataset is a volume: then its device is above it."""
        place = self.trial.layers.index(self.zfs)
        return any(layer.facts.get("type") == "zvol" for layer in self.trial.layers[:place])

    @property
    def record_bytes(self) -> int | None:
        return self.zfs.size_fact("recordsize_bytes")

    @property
    def layout(self) -> str:
        """`2 x mirror of 2, log: 1 x disk`."""
        return self.zfs.facts.get("layout", "")

    @property
    def striped(self) -> bool:
        """Whether vdevs cut a block into columns (RAIDZ, dRAID)."""
        return "raidz" in self.layout or "draid" in self.layout

    @property
    def devices(self) -> LayerFlow | None:
        """The devices of the vdevs, not those below them, such as the disk of a loop device."""
        return vdev_devices(self.trial.layers)

    @property
    def amplification(self) -> float | None:
        """Bytes at the vdevs per byte of data and of its copies, for requests below a record."""
        record, block = self.record_bytes, self.trial.evidence.block_bytes
        if self.trial.evidence.stream or not record or not block or block >= record:
            return None
        requested, done = self.trial.engine.moved_bps(self.op), self.zfs.moved_bps(self.op)
        if not requested or not done:
            return None
        copies = (write_factor(self.layout) or 1.0) if self.op is Op.WRITE else 1.0
        return done / requested / copies

    def limit(self, name: str) -> int:
        text = self.parameters.get(name, "")
        default = self._default(name)
        assert default is not None, f"{name} depends on the machine"
        return int(text) if text.isascii() and text.isdecimal() else default

    def value(self, name: str) -> str:
        """The recorded value, or the marked default."""
        if name in self.parameters:
            return self.parameters[name]
        default = self._default(name)
        return "" if default is None else f"{default} (default)"

    def _default(self, name: str) -> int | None:
        """The default of the recorded version, otherwise of the newest known version."""
        parameter = next(row for row in zfs_parameters() if row.name == name)
        default = parameter.default(self.zfs.facts.get("version", ""))
        return parameter.default("") if default is None else default

    @property
    def busiest(self) -> tuple[Queue | None, int, str]:
        """The longest queue of the trial's direction, its limit, and its class (`async_write`)."""
        op = self.op.value
        usual, other = ("async", "sync") if self.op is Op.WRITE else ("sync", "async")
        every = queues(self.trial.recorded.zfs, self.trial.windows)
        found = {
            kind: every[f"{kind}q_{op}"] for kind in (usual, other) if f"{kind}q_{op}" in every
        }
        # Of two equal queues the usual one, which is first.
        kind = max(found, key=lambda kind: found[kind].length, default=usual)
        limit = self.limit(f"zfs_vdev_{kind}_{op}_max_active")
        return found.get(kind), limit, f"{kind}_{op}"

    @property
    def load(self) -> _Load:
        """How full the longest queue is."""
        queue, limit, _ = self.busiest
        if queue is None:
            return _Load.UNKNOWN
        if queue.active_most >= limit:
            return _Load.FULL
        timed = queue.waited_s is not None and bool(queue.served_s)
        waited_s, served_s = queue.waited_s or 0.0, queue.served_s or 0.0
        if queue.pending_mean >= 1 or (timed and waited_s > _WAIT_SHARE * served_s):
            return _Load.WAITING
        # Waits are of all requests; a queue is sampled once a second.
        return _Load.FREE if timed or queue.samples >= _QUEUE_SAMPLES else _Load.UNKNOWN


def _record_size(dataset: _Dataset) -> Setting:
    name = "volblocksize" if dataset.volume else "recordsize"
    value = dataset.zfs.facts.get("recordsize_bytes", "")
    if dataset.sweep is not None:
        return _by_sweep(dataset.sweep, name, value)
    record, amplification = dataset.record_bytes, dataset.amplification
    if record and amplification is not None and amplification > _AMPLIFIED:
        return can(
            name,
            value,
            Code.RECORD_AMPLIFIES,
            {"amplification": amplification, "record_bytes": record},
            block_bytes=dataset.trial.evidence.block_bytes or 0,
        )
    device_flow = dataset.devices.flows.get(dataset.op) if dataset.devices else None
    flow = dataset.zfs.flows.get(dataset.op) or device_flow
    size = flow.mean_size if flow else None
    if not record or not size:
        return not_known(name, value, Code.RECORD_NO_SIZES)
    numbers = {"mean_size_bytes": size, "record_bytes": float(record)}
    if 0.5 <= size / record <= 2:
        return can(name, value, Code.RECORD_FOLLOWED, numbers)
    return not_known(name, value, Code.RECORD_ALONE, numbers)


def _by_sweep(sweep: RecordSweep, name: str, value: str) -> Setting:
    rows = sweep.usable
    if len({row.record_bytes for row in rows}) < 2:
        refusing = sorted({code for row in sweep.rows for code in row.refused})
        return not_known(name, value, Code.SWEEP_REFUSED, rules=", ".join(refusing))
    least, most = rows[0], rows[-1]
    ratio = most.throughput / least.throughput
    numbers = {
        "least_record_bytes": float(least.record_bytes),
        "most_record_bytes": float(most.record_bytes),
        "throughput_ratio": ratio,
    }
    if least.block_size and most.block_size:
        numbers["size_ratio"] = most.block_size / least.block_size
    rates = {"least_bps": least.throughput, "most_bps": most.throughput}
    trials = min(len(least.throughputs), len(most.throughputs))
    if trials < _LEAST_TRIALS:
        return not_known(name, value, Code.SWEEP_FEW_TRIALS, numbers, **rates, trials=trials)
    low, high = sorted((least.throughputs, most.throughputs), key=max)
    if max(low) < min(high):
        orders = comb(len(low) + len(high), trials) // 2
        numbers["chance"] = 1 / orders
        return can(name, value, Code.SWEEP_SEPARATE, numbers, **rates, orders=orders)
    grows = numbers.get("size_ratio", _FOLLOWS) >= _FOLLOWS
    # Overlapping trials alone do not show equality: the medians must be near as well.
    open_ = grows or not 1 / _NEAR <= ratio <= _NEAR
    setting = not_known if open_ else cannot
    return setting(name, value, Code.SWEEP_OVERLAP, numbers, **rates)


def _compression(dataset: _Dataset) -> Setting:
    name, value = "compression", dataset.zfs.facts.get("compression", "")
    if not dataset.trial.evidence.block_bytes:
        return not_known(name, value, Code.DATA_UNKNOWN)
    if dataset.writes and value not in _CHEAP:
        return not_known(name, value, Code.COMPRESSION_COSTS, compression=value)
    return cannot(name, value, Code.DATA_INCOMPRESSIBLE)


def _sync(dataset: _Dataset) -> Setting:
    facts, evidence = dataset.zfs.facts, dataset.trial.evidence
    name = "sync, logbias"
    value = ", ".join(f"{key}={facts[key]}" for key in ("sync", "logbias") if key in facts)
    sync = facts.get("sync", "")
    if not dataset.writes:
        return cannot(name, value, Code.TRIAL_READS)
    if sync == "always":
        return can(name, value, Code.SYNC_ALWAYS)
    if evidence.fsyncs:
        return can(name, value, Code.SYNC_DISABLED if sync == "disabled" else Code.SYNC_FSYNC)
    if not evidence.stream and not evidence.block_bytes:
        return not_known(name, value, Code.SYNC_UNKNOWN)
    return cannot(name, value, Code.SYNC_NONE)


def _cache(dataset: _Dataset) -> Setting:
    name, value = "primarycache", dataset.zfs.facts.get("primarycache", "")
    evidence, zfs = dataset.trial.evidence, dataset.zfs
    if dataset.op is Op.READ and evidence.arc_hit_share is not None:
        numbers = {"arc_hit_share": evidence.arc_hit_share}
        if evidence.arc_hit_share > NOISE:
            return can(name, value, Code.CACHE_ANSWERED, numbers)
        if value == "all":
            return cannot(name, value, Code.CACHE_ANSWERED, numbers)
        return not_known(name, value, Code.CACHE_METADATA_ONLY, numbers)
    if dataset.op is Op.WRITE and not zfs.unobserved:
        whole = sum(zfs.moved_bps(op) for op in zfs.flows)
        share = zfs.moved_bps(Op.READ) / whole if whole else 0.0
        numbers = {"read_share": share}
        if share <= NOISE:
            return cannot(name, value, Code.CACHE_NO_READS, numbers)
        code = Code.CACHE_STREAM_READS if evidence.stream else Code.CACHE_SOME_READS
        return can(name, value, code, numbers)
    return not_known(name, value, Code.CACHE_UNKNOWN)


def _dirty_data(dataset: _Dataset) -> Setting:
    """A group is closed once it holds zfs_dirty_data_sync_percent (20) of the limit, from 30 % more
    async writes are issued, from 60 % each writer is delayed (zfs(4); module/zfs/dsl_pool.c,
    vdev_queue.c)."""
    name = "zfs_dirty_data_max"
    value = dataset.value(name)
    if not dataset.writes:
        return cannot(name, value, Code.TRIAL_READS)
    counters = dataset.trial.recorded.zfs.counters.get("dmu_tx")
    if not counters:
        return not_known(name, value, Code.DIRTY_NO_COUNTERS)
    waits = {key: float(counters[key]) for key in _WAITS if key in counters}
    if any(waits.values()):
        stopped = waits.get("dmu_tx_dirty_over_max", 0.0)
        code = Code.DIRTY_STOPPED if stopped else Code.DIRTY_DELAYED
        return can(name, value, code, waits, times=max(waits.values()), stopped=stopped)
    groups = dataset.trial.recorded.zfs.groups
    limit = int(value) if value.isascii() and value.isdecimal() else 0
    if not groups or not limit:
        return not_known(name, value, Code.DIRTY_NO_GROUPS, waits)
    most = max(group.dirty_bytes for group in groups)
    close = dataset.limit("zfs_dirty_data_sync_percent") / 100
    numbers = {**waits, "most_dirty_bytes": float(most), "dirty_share": most / limit}
    if most / limit < close:
        return cannot(name, value, Code.DIRTY_BELOW, numbers, close_share=close)
    return can(name, value, Code.DIRTY_CLOSES, numbers, close_share=close)


def _timeout(dataset: _Dataset) -> Setting:
    name = "zfs_txg_timeout"
    value, limit = dataset.value(name), dataset.limit(name)
    if not dataset.writes:
        return cannot(name, value, Code.TRIAL_READS)
    groups = dataset.trial.recorded.zfs.groups
    if not groups:
        return not_known(name, value, Code.TXG_NO_GROUPS)
    # An idle pool has an empty group every five seconds: weights are shares of the data.
    whole = sum(group.dirty_bytes for group in groups)
    weighted = [
        (group, group.dirty_bytes / whole if whole else 1 / len(groups)) for group in groups
    ]
    late = sum(weight for group, weight in weighted if group.open_s >= _BY_TIMEOUT * limit)
    numbers = {
        "groups": float(len(groups)),
        "open_s": sum(group.open_s * weight for group, weight in weighted),
        "sync_s": sum(group.sync_s * weight for group, weight in weighted),
        "by_timeout_share": late,
    }
    if late > NOISE:
        return can(name, value, Code.TXG_BY_TIMEOUT, numbers)
    return cannot(name, value, Code.TXG_BEFORE_TIMEOUT, numbers, timeout_s=limit)


def _aggregation(dataset: _Dataset) -> Setting:
    rotating = dataset.devices is not None and dataset.devices.facts.get("rotational") == "yes"
    name = "zfs_vdev_aggregation_limit" + ("" if rotating else "_non_rotating")
    limit, record, value = dataset.limit(name), dataset.record_bytes, dataset.value(name)
    if not limit:
        return can(name, value, Code.AGGREGATION_OFF)
    # Vdevs that cut blocks into columns get smaller pieces than a record.
    whole_records = record and not dataset.striped
    if record and whole_records and record * 2 > limit:
        numbers = {"record_bytes": float(record), "limit_bytes": float(limit)}
        if dataset.load is _Load.FREE:
            return cannot(name, value, Code.RECORDS_NO_NEIGHBOUR, numbers)
        if dataset.load is _Load.UNKNOWN:
            return not_known(name, value, Code.RECORDS_UNKNOWN, numbers)
        return can(name, value, Code.RECORDS_WAIT, numbers)
    kinds = dataset.trial.recorded.zfs.requests
    counted = (
        [sizes for kind, sizes in kinds.kinds.items() if kind.endswith(dataset.op.value)]
        if kinds
        else []
    )
    single = sum(sum(sizes.individual.values()) for sizes in counted)
    together = sum(sum(sizes.aggregated.values()) for sizes in counted)
    if not single and not together:
        return not_known(name, value, Code.AGGREGATION_NO_SIZES)
    joined = [size for sizes in counted for size, count in sizes.aggregated.items() if count]
    largest = max(joined, default=0)
    share = together / (single + together)
    numbers = {"aggregated_share": share, "largest_bytes": largest, "limit_bytes": limit}
    # As many whole records as fit; a bucket gives the size to within a factor of two.
    most = limit // record * record if record and whole_records else limit // 2
    if largest * 2 > most:
        return can(name, value, Code.AGGREGATION_REACHED, numbers)
    return cannot(name, value, Code.AGGREGATION_BELOW, numbers, below_bytes=largest * 2)


def _in_flight(dataset: _Dataset) -> Setting:
    """Each leaf vdev has a queue for each class of I/O with its own limits (module/zfs/
    vdev_queue.c, zfs(4)). Asynchronous writes are issued between a minimum and a maximum, by the
    share of dirty data; other classes wait only at the maximum."""
    queue, limit, kind = dataset.busiest
    name = f"zfs_vdev_{kind}_max_active"
    value = dataset.value(name)
    if queue is None:
        return not_known(name, value, Code.QUEUE_NOT_RECORDED)
    numbers = {
        "active_mean": queue.active_mean,
        "active_most": queue.active_most,
        "pending_mean": queue.pending_mean,
        "limit": float(limit),
    }
    if queue.waited_s is not None and queue.served_s is not None:
        numbers |= {"waited_s": queue.waited_s, "served_s": queue.served_s}
    match dataset.load:
        case _Load.FULL:
            return can(name, value, Code.QUEUE_FULL, numbers)
        case _Load.FREE:
            return cannot(name, value, Code.QUEUE_FREE, numbers)
        case _Load.UNKNOWN:
            return not_known(name, value, Code.QUEUE_FEW_SAMPLES, numbers, samples=queue.samples)
    if kind == "async_write":
        minimum = name.replace("max", "min")
        return can(name, value, Code.QUEUE_BY_DIRTY, numbers, minimum=minimum)
    return not_known(name, value, Code.QUEUE_WAITS, numbers)


def _vdevs(dataset: _Dataset) -> Setting:
    name = "number of vdevs"
    value = dataset.layout or str(len(dataset.zfs.devices) or 1)
    queue = dataset.busiest[0]
    pending = {"pending_mean": queue.pending_mean} if queue else {}
    if dataset.load in (_Load.FULL, _Load.WAITING):
        return can(name, value, Code.VDEV_WAITS, pending)
    if dataset.load is _Load.FREE:
        return cannot(name, value, Code.VDEV_FREE, pending)
    above = dataset.devices
    image = find_layer(dataset.trial.layers, LayerKind.IMAGE)
    flow = image.flows.get(dataset.op) if image else None
    waiting = above.in_flight.value if above else None
    served = flow.in_flight.value if flow else None
    if waiting is not None and served is not None and waiting >= 2 and served < waiting / 2:
        numbers = {"device_in_flight": waiting, "image_in_flight": served}
        return can(name, value, Code.VDEV_NARROW, numbers)
    if queue is not None:
        return not_known(name, value, Code.VDEV_FEW_SAMPLES, samples=queue.samples)
    return not_known(name, value, Code.VDEV_NOT_RECORDED)


def _librbd_cache(trial: TrialLayers, image: LayerFlow, op: Op) -> Setting:
    name = "rbd_cache"
    if image.facts.get("client") == "krbd":
        return cannot(name, "", Code.KRBD_NO_CACHE)
    if op is Op.READ:
        return not_known(name, "", Code.RBD_CACHE_READS_UNKNOWN)
    pool = find_layer(trial.layers, LayerKind.POOL)
    upper, lower = image.flows.get(op), pool.flows.get(op) if pool else None
    at_image_s = upper.latency.value if upper else None
    at_pool_s = lower.latency.value if lower else None
    if not at_image_s or not at_pool_s:
        return not_known(name, "", Code.RBD_CACHE_NO_LATENCY)
    numbers = {"image_latency_s": at_image_s, "pool_latency_s": at_pool_s}
    if at_image_s < _WAITS_FOR_POOL * at_pool_s:
        return can(name, "", Code.RBD_CACHE_AT_WORK, numbers)
    if trial.evidence.fsyncs:
        return not_known(name, "", Code.RBD_CACHE_FLUSHED, numbers)
    return can(name, "", Code.RBD_CACHE_WAITS, numbers)


def _object_size(trial: TrialLayers, image: LayerFlow, op: Op) -> Setting:
    """One set of OSDs serves an object in order. The object size (with striping the stripe unit)
    cuts requests, and is the distance at which requests go to different OSDs (Ceph documentation,
    architecture, data striping)."""
    name, value = "object size of the image", image.facts.get("object_size_bytes", "")
    size, flow = object_size(trial.layers), _lowest_flow(trial, op)
    unit = image.size_fact("stripe_unit_bytes")
    if size and unit and (image.size_fact("stripe_count") or 1) > 1:
        size = min(size, unit)
    if not size or flow is None or not flow.mean_size:
        return not_known(name, value, Code.OBJECT_NO_SIZES)
    share = flow.sizes.share_from(size) if flow.sizes else None
    numbers = {"mean_size_bytes": flow.mean_size, "object_bytes": float(size)}
    if share is not None:
        numbers["full_object_share"] = share
    if flow.mean_size > size / 2 or (share or 0.0) > NOISE:
        return can(name, value, Code.OBJECT_FILLED, numbers)
    in_flight = flow.in_flight.value
    if in_flight is not None and in_flight >= _CONCURRENT and not trial.evidence.scattered:
        numbers["in_flight"] = in_flight
        return not_known(name, value, Code.OBJECT_SHARED, numbers)
    return cannot(name, value, Code.OBJECT_FAR, numbers)


def _lowest_flow(trial: TrialLayers, op: Op) -> Flow | None:
    """The image's requests, otherwise those of the device above it."""
    for kind in (LayerKind.IMAGE, LayerKind.BLOCK):
        for layer in reversed(trial.layers):
            flow = layer.flows.get(op)
            if layer.kind is kind and flow is not None and flow.mean_size:
                return flow
    return None


# Rules in the order of the layers, and the name of their module parameter for zfs-fuse.
_RULES: Sequence[tuple[Callable[[_Dataset], Setting], str]] = (
    (_record_size, ""),
    (_compression, ""),
    (_sync, ""),
    (_cache, ""),
    (_dirty_data, "zfs_dirty_data_max"),
    (_timeout, "zfs_txg_timeout"),
    (_aggregation, "zfs_vdev_aggregation_limit"),
    (_in_flight, "zfs_vdev_{kind}_max_active"),
    (_vdevs, ""),
)


def find_settings(
    trial: TrialLayers, parameters: Mapping[str, str], sweep: RecordSweep | None
) -> tuple[Setting, ...]:
    """Return every tested setting; empty without ZFS and image."""
    return tuple(_settings(trial, parameters, sweep))


def _settings(
    trial: TrialLayers, parameters: Mapping[str, str], sweep: RecordSweep | None
) -> Iterator[Setting]:
    op = trial.main_op
    if op is None:
        return
    zfs, image = find_layer(trial.layers, LayerKind.ZFS), find_layer(trial.layers, LayerKind.IMAGE)
    if zfs is not None:
        dataset = _Dataset(trial=trial, zfs=zfs, op=op, parameters=parameters, sweep=sweep)
        for rule, parameter in _RULES:
            if dataset.fuse and parameter:
                name = parameter.format(kind=dataset.busiest[2])
                yield cannot(name, "", Code.FUSE_NO_MODULE)
            else:
                yield rule(dataset)
    if image is not None:
        yield _librbd_cache(trial, image, op)
        yield _object_size(trial, image, op)
