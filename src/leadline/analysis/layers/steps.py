"""What happens between a layer and the next one below that can be observed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leadline.analysis.layers.model import DIRECTIONS, Basis, Flow, LayerFlow, percent, ratio_bounds
from leadline.analysis.layers.zfs import written_times
from leadline.inventory.layer import LayerKind
from leadline.metrics import Op
from leadline.units import format_size

# Why bytes of one layer differ from those of the next: what the evidence has for it.

NO_REASON = "No reason for it is known from what was observed."
# A journal's commits, each five seconds, and superblocks come to less than that in a trial; of a
# trial that writes little they are a large share.
_METADATA_BYTES = 1 << 20
# zfs_immediate_write_sz: a larger write is in the log as the place where it was written.
_IMMEDIATE_BYTES = 32 << 10
# What a parity or a copy adds is worth a word from here on.
_MORE_THAN_ONCE = 1.02


# Mappings of the device mapper that pass on every byte once (the beginning of dm/uuid).
PLAIN_MAPPINGS = frozenset({"crypt", "mpath"})
# Types of devices of which the one below holds more than one.
_PARTS = frozenset({"partition"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a trial beside its layers' figures. `direct`: the engine's I/O passes the
    page cache by; `scattered`: it is at random places; `stream`: it is a stream between datasets;
    `block_bytes` the smallest request of the workload; `arc_hit_share` of reads in ZFS's cache."""

    direct: bool = True
    scattered: bool = False
    stream: bool = False
    block_bytes: int | None = None
    fsyncs: bool = False
    arc_hit_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """Two layers of which the bytes differ: `ratio` is below / above, None where the engine did
    nothing in that direction. `bounds` are the least and greatest ratio that windows beside each
    other can give, None where both are of the same seconds or nothing is known of it."""

    op: Op
    upper: LayerFlow
    lower: LayerFlow
    through: Sequence[LayerFlow]
    ratio: float | None
    one_to_one: bool
    bounds: tuple[float, float] | None = None

    @property
    def less(self) -> bool:
        return self.ratio is not None and self.ratio < 1

    @property
    def zfs(self) -> LayerFlow | None:
        """ZFS whose own work lies between the two: as the lower one, or passed through."""
        mine = (self.lower, *self.through)
        return next((one for one in mine if one.kind is LayerKind.ZFS), None)

    @property
    def filesystem(self) -> LayerFlow | None:
        return next((one for one in self.through if one.kind is LayerKind.FILESYSTEM), None)


def reasons_of(between: Between, evidence: Evidence) -> tuple[str, ...]:
    """Sentences, the strongest first; one that says that nothing is known where there is none."""
    if between.ratio is None and _idle(between):
        return ()
    told = _less(between, evidence) if between.less else _more(between, evidence)
    seconds = tuple(_windows(between))
    # What windows alone account for comes first.
    found = (*seconds, *told) if _accounted(between) else (*told, *seconds)
    return found or (NO_REASON,)


def others_may_do_more(between: Between, evidence: Evidence) -> bool:
    """Whether the lower layer may do what the upper one did not ask for without any fault."""
    upper, lower = between.upper, between.lower
    if lower.shared or upper.facts.get("type") in _PARTS:
        return True
    if between.filesystem is None or between.op is not Op.WRITE:
        return False
    # Each flush of a file commits a journal's transaction: as many bytes as a small write.
    return evidence.fsyncs or _added_bytes(between) <= _METADATA_BYTES


def _added_bytes(between: Between) -> float:
    """What the lower layer did beyond what it was asked for, in all that was watched."""
    series = between.lower.counted.get(between.op, ())
    if len(series) < 2 or not between.ratio:
        return math.inf
    return (series[-1][1] - series[0][1]) * (1 - 1 / between.ratio)


def may_keep_some(between: Between) -> bool:
    """Whether the upper layer may answer a part by itself without any fault: librbd has a cache,
    and what was never written is not asked for."""
    kinds = {between.upper.kind, *(one.kind for one in between.through)}
    return LayerKind.IMAGE in kinds and between.lower.kind is LayerKind.POOL


def _idle(between: Between) -> bool:
    flow = between.lower.flows.get(between.op)
    return flow is None or not flow.bandwidth.value


def _less(between: Between, evidence: Evidence) -> Iterator[str]:
    write = between.op is Op.WRITE
    zfs = between.zfs
    if between.upper.kind is None and zfs is None and not evidence.direct:
        yield (
            "The writes are buffered: what did not come down during the trial was still in the "
            "page cache when it ended, or was written over there."
            if write
            else "The reads are buffered: the page cache answered a part of them."
        )
    if zfs is not None:
        yield from _less_by_zfs(zfs, evidence, write=write)
    if between.upper.kind is LayerKind.ZFS and between.filesystem is not None:
        yield (
            "The vdevs are files, whose page cache holds writes back."
            if write
            else "The vdevs are files, whose page cache answers reads."
        )
    loop = _backing(between)
    if loop:
        yield (
            f"{loop} goes through the page cache, which holds writes back."
            if write
            else f"{loop} goes through the page cache, which answers reads."
        )
    image = LayerKind.IMAGE in (between.upper.kind, between.lower.kind)
    # Counters that cover a part of the trial only say nothing of what librbd keeps to itself.
    if image and Basis.WHOLE_TRIAL not in (between.upper.basis, between.lower.basis):
        yield (
            "librbd's cache (rbd_cache) may hold writes back, or write those that meet as one."
            if write
            else "librbd answers reads of what was never written, or of its cache, by itself."
        )


def _less_by_zfs(zfs: LayerFlow, evidence: Evidence, *, write: bool) -> Iterator[str]:
    compression = zfs.facts.get("compression", "off")
    if compression not in ("off", ""):
        yield f"The dataset compresses (compression={compression})."
    if write:
        yield (
            "ZFS gathers writes in memory for a transaction group (zfs_txg_timeout, 5 s): what was "
            "not yet due when the trial ended, or was written again before, did not come down."
        )
    elif evidence.arc_hit_share is not None:
        yield (
            f"ZFS's cache (ARC) answered {percent(evidence.arc_hit_share)} of the accesses by its "
            "own count."
        )
    elif zfs.facts.get("primarycache", "all") == "all":
        yield "ZFS's cache (ARC, primarycache=all) may have answered reads; its count is not kept."


def _more(between: Between, evidence: Evidence) -> Iterator[str]:
    if between.ratio is None and between.lower.shared:
        yield _shared(between.lower)
        return
    write = between.op is Op.WRITE
    zfs = between.zfs
    if zfs is not None:
        yield from _more_by_zfs(between, zfs, evidence, write=write)
    if between.lower.shared:
        yield _shared(between.lower)
    filesystem = between.filesystem
    if filesystem is not None:
        if write and between.ratio is None:
            yield f"{filesystem.name} writes its own metadata, such as times of access."
        elif write:
            yield f"{filesystem.name} writes its journal and metadata beside the data."
        elif not evidence.direct:
            yield "The kernel reads ahead what the engine did not ask for."
        elif between.ratio is None:
            yield f"{filesystem.name} reads its own metadata, or blocks that are written in part."
    if between.upper.kind is LayerKind.BLOCK:
        yield from _more_by_devices(between)


def _more_by_devices(between: Between) -> Iterator[str]:
    upper, lower = between.upper, between.lower
    kind = upper.facts.get("type")
    if _backing(between) and between.filesystem is not None:
        yield "The file below the loop device has a file system of its own, with its metadata."
    if kind == "raid":
        level = upper.facts.get("level", "md RAID")
        yield (
            f"{upper.name} ({level}) writes copies or parity."
            if between.op is Op.WRITE
            else f"{upper.name} ({level}) reads old data or parity to write into it, or checks it."
        )
    elif kind == "dm" and upper.facts.get("mapping") not in PLAIN_MAPPINGS:
        yield f"{upper.name} (device mapper) may hold copies, parity or snapshots."
    if kind in _PARTS:
        yield f"{lower.name} has room beside {upper.name}, which others may use."


def _more_by_zfs(
    between: Between, zfs: LayerFlow, evidence: Evidence, *, write: bool
) -> Iterator[str]:
    times = written_times(zfs.facts.get("layout", ""))
    if write and times is not None and times > _MORE_THAN_ONCE:
        yield f"Each byte is written {times:.3g} times or more: {zfs.facts['layout']}."
    record = zfs.size_fact("recordsize_bytes")
    block = evidence.block_bytes
    if record and block and block < record and not evidence.stream:
        what = (
            "writes whole records" if write else "reads whole records, to write into them as well"
        )
        yield (
            f"A request of {format_size(block)} touches a record of {format_size(record)}: ZFS "
            f"{what}, up to {record / block:,.0f} times the bytes."
        )
    if write:
        if _through_log(zfs, evidence):
            yield "Synchronous writes are written twice: to the intent log, then to their place."
        yield (
            "ZFS writes metadata up to the root of its tree with every transaction group, most of "
            "it twice."
        )
        if len(zfs.devices) > 1 and times is None:
            yield f"Its {len(zfs.devices)} leaf devices may hold copies or parity."
    elif between.ratio is None and not evidence.stream:
        yield "ZFS reads metadata, and records that are written in part."
    elif evidence.stream:
        yield "What is sent is read from the same pool."
    else:
        yield "ZFS prefetches, and reads metadata."


def _through_log(zfs: LayerFlow, evidence: Evidence) -> bool:
    """Whether data goes through the intent log on the vdevs of data: not with sync=disabled, nor
    with a log device, nor are blocks of the log made of what is large, or has logbias=throughput
    (module/zfs/zfs_log.c, zil_write_state)."""
    how = zfs.facts.get("sync", "")
    if how == "disabled" or not (evidence.fsyncs or how == "always"):
        return False
    block = evidence.block_bytes
    small = block is None or block <= _IMMEDIATE_BYTES
    beside = "log: " in zfs.facts.get("layout", "")
    return small and not beside and zfs.facts.get("logbias") != "throughput"


def _backing(between: Between) -> str:
    """The loop device whose file lies between two layers; empty without."""
    mine = (between.upper, *between.through)
    loops = [one for one in mine if one.facts.get("type") == "loop"]
    return next((one.name for one in loops if one.facts.get("direct_io") != "yes"), "")


def _accounted(between: Between) -> bool:
    """Whether a ratio of one lies within what windows beside each other can give."""
    bounds = between.bounds
    return bounds is not None and bounds[0] <= 1 <= bounds[1]


def _windows(between: Between) -> Iterator[str]:
    bases = {between.upper.basis, between.lower.basis}
    if between.bounds is not None:
        low, high = between.bounds
        yield (
            f"{_whose_seconds(between.upper)}: over seconds that far away {between.lower.name} "
            f"moves {low:.3g} to {high:.3g} times the bytes, which "
            + (
                "accounts for the difference."
                if _accounted(between)
                else "does not account for it."
            )
        )
    elif len(bases) > 1 or Basis.WHOLE_TRIAL in bases:
        yield "The two were counted over different seconds of the trial."


def _whose_seconds(upper: LayerFlow) -> str:
    if upper.kind is LayerKind.ZFS and upper.seconds is not None:
        return (
            f"`zpool iostat` told {upper.seconds.length_s:.0f} whole seconds, which may lie up to "
            f"{upper.seconds.late_s:.1f} s and a sample beside those of the device"
        )
    if upper.kind is None and upper.seconds is not None:
        return (
            f"The engine's {upper.seconds.length_s:.0f} s may lie up to "
            f"{upper.seconds.late_s:.1f} s and a sample beside those of the counters"
        )
    return "Both were read about once a second, not at the same moments"


def _shared(layer: LayerFlow) -> str:
    return f"{layer.shared[:1].upper()}{layer.shared[1:]}; its figures hold more than this trial."


# Bytes may differ by so much where layers pass on what they get: a journal, a superblock.
TOLERANCE: Final = 0.05
# Requests of as much more or fewer are split or merged; below it a journal's may do it.
_OTHER_COUNT: Final = 0.05
# File systems that write data in place, once, where its room was laid out before.
_IN_PLACE: Final = frozenset({"ext2", "ext3", "ext4", "xfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One direction from the layer `above` to the layer `below`, places in the cell's layers;
    `through` names layers between that tell nothing. Ratios are below / above: `bytes_ratio` above
    1 is amplification, `operations_ratio` above 1 means that requests are split, below 1 that
    they are merged; `in_flight_ratio` below 1 that concurrency is lost. None where one side is
    not known.

    `one_to_one`: these layers are known to pass data on as it is, so that bytes must agree;
    `adds_up` says whether they do, within TOLERANCE, None where nobody can tell; `open_for` says
    in two words why not, empty otherwise. `ratio_bounds` are the least and greatest `bytes_ratio`
    that seconds beside each other can give, None where both are of the same. `reasons` are what
    the evidence has for a difference, in sentences, the first the strongest."""

    op: Op
    above: int
    below: int
    through: tuple[str, ...]
    bytes_ratio: float | None
    operations_ratio: float | None
    in_flight_ratio: float | None
    one_to_one: bool
    ratio_bounds: tuple[float, float] | None
    adds_up: bool | None
    open_for: str
    reasons: tuple[str, ...]

    @property
    def difference(self) -> float | None:
        """Bytes below / bytes above - 1."""
        return None if self.bytes_ratio is None else self.bytes_ratio - 1

    @property
    def size_ratio(self) -> float | None:
        if not self.operations_ratio or self.bytes_ratio is None:
            return None
        return self.bytes_ratio / self.operations_ratio

    @property
    def splits(self) -> bool:
        return self.operations_ratio is not None and self.operations_ratio > 1 + _OTHER_COUNT

    @property
    def merges(self) -> bool:
        return self.operations_ratio is not None and self.operations_ratio < 1 - _OTHER_COUNT


def steps_of(layers: Sequence[LayerFlow], evidence: Evidence) -> tuple[Step, ...]:
    """Between each two neighbours of which operations or bytes are known, both directions. Layers
    that only tell how many requests wait, or nothing, are passed through."""
    told = [
        number
        for number, one in enumerate(layers)
        if one.observed and (one.kind is not LayerKind.FUSE or one.flows)
    ]
    found = []
    for above, below in pairwise(told):
        for op in DIRECTIONS:
            upper, lower = layers[above].flows.get(op), layers[below].flows.get(op)
            if upper is not None or lower is not None:
                found.append(_step(op, above, below, layers, evidence))
    return tuple(found)


def _step(op: Op, above: int, below: int, layers: Sequence[LayerFlow], evidence: Evidence) -> Step:
    upper, lower = layers[above], layers[below]
    through = tuple(layers[above + 1 : below])
    high, low = upper.flows.get(op), lower.flows.get(op)
    ratio = _ratio(high, low, "bandwidth")
    exact = passes_on(upper, lower, through, evidence)
    between = Between(
        op=op,
        upper=upper,
        lower=lower,
        through=through,
        ratio=ratio,
        one_to_one=exact,
        bounds=_bounds(upper, lower, op, ratio) if exact else None,
    )
    adds_up, open_for = _judged(between, evidence) if exact else (None, "")
    same = ratio is not None and abs(ratio - 1) <= TOLERANCE
    return Step(
        op=op,
        above=above,
        below=below,
        through=tuple(one.label for one in through),
        bytes_ratio=ratio,
        operations_ratio=_ratio(high, low, "rate"),
        in_flight_ratio=_ratio(high, low, "in_flight"),
        one_to_one=exact,
        ratio_bounds=between.bounds,
        adds_up=adds_up,
        open_for=open_for,
        reasons=() if same else reasons_of(between, evidence),
    )


def _bounds(
    upper: LayerFlow, lower: LayerFlow, op: Op, ratio: float | None
) -> tuple[float, float] | None:
    if ratio is None or not _beside(upper, lower):
        return None
    found = ratio_bounds(upper, lower, op)
    return (min(found[0], ratio), max(found[1], ratio)) if found else None


def _beside(upper: LayerFlow, lower: LayerFlow) -> bool:
    """Whether the two are of seconds that lie beside each other: not totals, but those of `zpool
    iostat`, nor devices, which are read together."""
    if upper.kind is lower.kind is LayerKind.BLOCK:
        return False
    return upper.kind is LayerKind.ZFS or Basis.WINDOW in (upper.basis, lower.basis)


def _judged(between: Between, evidence: Evidence) -> tuple[bool | None, str]:
    """Whether bytes agree, and where nobody can tell, why."""
    upper, lower, ratio = between.upper, between.lower, between.ratio
    if ratio is None:
        return None, ""
    together = upper.kind is lower.kind is LayerKind.BLOCK
    if upper.basis is not lower.basis or (upper.basis is Basis.WHOLE_TRIAL and not together):
        return None, "other seconds"
    if abs(ratio - 1) <= TOLERANCE:
        return True, ""
    # Of several phases the seconds are not known well enough to say how far apart they lie.
    unbounded = between.bounds is None and _beside(upper, lower)
    low, high = between.bounds or ((0.0, math.inf) if unbounded else (ratio, ratio))
    if low <= 1 + TOLERANCE and high >= 1 - TOLERANCE:
        return None, "other seconds"
    if ratio > 1 and others_may_do_more(between, evidence):
        return None, "others too"
    if ratio < 1 and may_keep_some(between):
        return None, "cached"
    return False, ""


def _ratio(high: Flow | None, low: Flow | None, name: str) -> float | None:
    if high is None:
        return None
    above = getattr(high, name).value
    below = getattr(low, name).value if low is not None else 0.0
    return below / above if above and below is not None else None


def passes_on(
    upper: LayerFlow, lower: LayerFlow, through: Sequence[LayerFlow], evidence: Evidence
) -> bool:
    """Whether every byte that the upper layer moves is known to be moved once by the lower."""
    kinds = {one.kind for one in through}
    if kinds & {LayerKind.ZFS, LayerKind.NFS}:
        return False
    if LayerKind.FUSE in kinds:
        # A loop device that passes the page cache by, on an image as a file of FUSE.
        past = upper.kind is LayerKind.BLOCK and upper.facts.get("direct_io") == "yes"
        return past and lower.kind is LayerKind.IMAGE
    if upper.kind is None:
        direct = evidence.direct and not evidence.stream
        if lower.kind is LayerKind.BLOCK:
            files = [one.name for one in through if one.kind is LayerKind.FILESYSTEM]
            journalled = any("data=journal" in one.facts.get("options", "") for one in through)
            # Of two file systems one holds the other's image, in a file of its page cache.
            return direct and len(files) < 2 and set(files) <= _IN_PLACE and not journalled
        return lower.kind in (LayerKind.IMAGE, LayerKind.POOL) or (
            direct and lower.kind is LayerKind.NFS
        )
    if LayerKind.FILESYSTEM in kinds:
        return False
    if upper.kind is LayerKind.BLOCK:
        below = lower.kind in (LayerKind.BLOCK, LayerKind.IMAGE, LayerKind.POOL)
        return below and _plain(upper)
    if (upper.kind, lower.kind) == (LayerKind.ZFS, LayerKind.BLOCK):
        # Of a vdev that is a file, or that nobody found, the device is missing.
        return upper.parts == len(upper.devices)
    return (upper.kind, lower.kind) == (LayerKind.IMAGE, LayerKind.POOL)


def _plain(device: LayerFlow) -> bool:
    """Whether a device passes every byte on once: no RAID, no volume that may have copies or
    snapshots, no loop device through the page cache of what it stands on."""
    kind = device.facts.get("type")
    if kind == "loop":
        return device.facts.get("direct_io") == "yes"
    if kind == "dm":
        return device.facts.get("mapping") in PLAIN_MAPPINGS
    return kind != "raid"
