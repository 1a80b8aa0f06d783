"""Steps between two observed layers: amplification, splitting, merging, lost concurrency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from leadline.analysis.layers.facts import Code, Fact, fact
from leadline.analysis.layers.model import DIRECTIONS, Flow, LayerFlow
from leadline.analysis.layers.windows import Basis, rate_bounds
from leadline.analysis.layers.zfs import write_factor
from leadline.inventory.layer import LayerKind
from leadline.metrics import Op

# Bytes of layers that pass data on unchanged differ by no more: a journal, a superblock.
TOLERANCE: Final = 0.05
# Requests are split or merged beyond this share; below it a journal can explain the difference.
_OTHER_COUNT: Final = 0.05
# File systems that write data once, to space that was allocated before.
_IN_PLACE: Final = frozenset({"ext2", "ext3", "ext4", "xfs"})
# A journal's commits, one in five seconds, and superblocks stay below this in a trial.
_METADATA_BYTES = 1 << 20
# zfs_immediate_write_sz: the intent log refers to the final place of a larger write.
_IMMEDIATE_BYTES = 32 << 10
# Parity or copies that add less are not mentioned.
_EXTRA_WRITES = 1.02
# Mappings of the device mapper that pass on every byte once (the beginning of dm/uuid).
_PLAIN_MAPPINGS = frozenset({"crypt", "mpath"})


class Inconclusive(StrEnum):
    """Why it is unknown whether the bytes of two layers agree."""

    OTHER_SECONDS = "other seconds"
    OTHER_USERS = "others too"
    CACHED = "cached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Conditions of a trial. `direct`: the engine bypasses the page cache. `scattered`: random
    places. `stream`: a stream between datasets. `block_bytes`: smallest request of the workload.
    `arc_hit_share`: share of reads that ZFS's cache answered."""

    direct: bool = True
    scattered: bool = False
    stream: bool = False
    block_bytes: int | None = None
    fsyncs: bool = False
    arc_hit_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """Two layers whose bytes are compared. `ratio` is below / above, None if the engine did
    nothing in that direction. `bounds` are the least and greatest ratio that windows of different
    seconds can give, None if both have the same seconds or nothing is known."""

    op: Op
    upper: LayerFlow
    lower: LayerFlow
    through: Sequence[LayerFlow]
    ratio: float | None
    one_to_one: bool
    bounds: tuple[float, float] | None = None

    @property
    def zfs(self) -> LayerFlow | None:
        """ZFS between the two, or as the lower one."""
        layers = (self.lower, *self.through)
        return next((layer for layer in layers if layer.kind is LayerKind.ZFS), None)

    @property
    def filesystem(self) -> LayerFlow | None:
        layers = self.through
        return next((layer for layer in layers if layer.kind is LayerKind.FILESYSTEM), None)

    @property
    def cached_loop(self) -> str:
        """The loop device above whose file is in the page cache; empty without one."""
        for layer in (self.upper, *self.through):
            if layer.facts.get("type") == "loop" and layer.facts.get("direct_io") != "yes":
                return layer.name
        return ""

    @property
    def explained(self) -> bool:
        """Whether different seconds explain a ratio other than one."""
        return self.bounds is not None and self.bounds[0] <= 1 <= self.bounds[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One direction from the layer `above` to the layer `below` (indices of the cell's layers),
    through layers without figures. Ratios are below / above: `bytes_ratio` above 1 is
    amplification, `operations_ratio` above 1 is splitting, below 1 is merging, `in_flight_ratio`
    below 1 is lost concurrency. None if one of the two is unknown.

    `one_to_one`: the layers pass data on unchanged, so bytes must agree. `adds_up`: bytes agree
    within TOLERANCE; None if unknown, with the cause in `open_for`. `bytes_ratio_least` and
    `bytes_ratio_most` bound the ratio if both layers have different seconds. `reasons` explain a
    difference, the strongest first."""

    op: Op
    above: int
    below: int
    through: tuple[str, ...]
    bytes_ratio: float | None
    bytes_ratio_least: float | None
    bytes_ratio_most: float | None
    operations_ratio: float | None
    in_flight_ratio: float | None
    one_to_one: bool
    adds_up: bool | None
    open_for: Inconclusive | None
    reasons: tuple[Fact, ...]

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


def find_steps(layers: Sequence[LayerFlow], evidence: Evidence) -> tuple[Step, ...]:
    """Return the steps between neighbours with known operations or bytes, both directions."""
    observed = [
        number
        for number, layer in enumerate(layers)
        if not layer.unobserved and (layer.kind is not LayerKind.FUSE or layer.flows)
    ]
    return tuple(
        _step(op, above, below, layers, evidence)
        for above, below in pairwise(observed)
        for op in DIRECTIONS
        if op in layers[above].flows or op in layers[below].flows
    )


def _step(op: Op, above: int, below: int, layers: Sequence[LayerFlow], evidence: Evidence) -> Step:
    upper, lower = layers[above], layers[below]
    through = tuple(layers[above + 1 : below])
    high, low = upper.flows.get(op), lower.flows.get(op)
    ratio = _ratio(high, low, "bandwidth")
    one_to_one = _passes_on(upper, lower, through, evidence)
    between = Between(
        op=op,
        upper=upper,
        lower=lower,
        through=through,
        ratio=ratio,
        one_to_one=one_to_one,
        bounds=_ratio_bounds(upper, lower, op, ratio) if one_to_one else None,
    )
    adds_up, open_for = _test_sum(between, evidence) if one_to_one else (None, None)
    least, most = between.bounds or (None, None)
    agrees = ratio is not None and abs(ratio - 1) <= TOLERANCE
    return Step(
        op=op,
        above=above,
        below=below,
        through=tuple(layer.label for layer in through),
        bytes_ratio=ratio,
        bytes_ratio_least=least,
        bytes_ratio_most=most,
        operations_ratio=_ratio(high, low, "rate"),
        in_flight_ratio=_ratio(high, low, "in_flight"),
        one_to_one=one_to_one,
        adds_up=adds_up,
        open_for=open_for,
        reasons=() if agrees else find_reasons(between, evidence),
    )


def _ratio(high: Flow | None, low: Flow | None, name: str) -> float | None:
    if high is None:
        return None
    above = getattr(high, name).value
    below = getattr(low, name).value if low is not None else 0.0
    return below / above if above and below is not None else None


def _ratio_bounds(
    upper: LayerFlow, lower: LayerFlow, op: Op, ratio: float | None
) -> tuple[float, float] | None:
    """Least and greatest bytes below / above, for all possible seconds of the upper layer."""
    seconds, above = upper.seconds, upper.moved_bps(op)
    if ratio is None or not _different_seconds(upper, lower):
        return None
    if seconds is None or not seconds.length_s or op not in lower.counted or not above:
        return None
    rates = rate_bounds(lower.counted[op], seconds)
    if rates is None:
        return None
    rate = above * seconds.divided_by_s / seconds.length_s
    least, most = rates[0] / (rate * seconds.at_most_times), rates[1] / rate
    return min(least, ratio), max(most, ratio)


def _different_seconds(upper: LayerFlow, lower: LayerFlow) -> bool:
    """Whether the two were counted over slightly different seconds. Totals were not, except those
    of `zpool iostat`; devices are read together."""
    if upper.kind is lower.kind is LayerKind.BLOCK:
        return False
    return upper.kind is LayerKind.ZFS or Basis.WINDOW in (upper.basis, lower.basis)


def _test_sum(between: Between, evidence: Evidence) -> tuple[bool | None, Inconclusive | None]:
    """Whether bytes agree; if unknown, why."""
    upper, lower, ratio = between.upper, between.lower, between.ratio
    if ratio is None:
        return None, None
    together = upper.kind is lower.kind is LayerKind.BLOCK
    if upper.basis is not lower.basis or (upper.basis is Basis.WHOLE_TRIAL and not together):
        return None, Inconclusive.OTHER_SECONDS
    if abs(ratio - 1) <= TOLERANCE:
        return True, None
    # The seconds of several phases are not known well enough to bound their difference.
    unbounded = between.bounds is None and _different_seconds(upper, lower)
    low, high = between.bounds or ((0.0, math.inf) if unbounded else (ratio, ratio))
    if low <= 1 + TOLERANCE and high >= 1 - TOLERANCE:
        return None, Inconclusive.OTHER_SECONDS
    if ratio > 1 and may_do_more(between, evidence):
        return None, Inconclusive.OTHER_USERS
    # librbd has a cache, and blocks that were never written are not requested.
    kinds = {upper.kind, *(layer.kind for layer in between.through)}
    if ratio < 1 and LayerKind.IMAGE in kinds and lower.kind is LayerKind.POOL:
        return None, Inconclusive.CACHED
    return False, None


def may_do_more(between: Between, evidence: Evidence) -> bool:
    """Whether the lower layer may correctly do more than the upper layer requested."""
    upper, lower = between.upper, between.lower
    if lower.shared or upper.facts.get("type") == "partition":
        return True
    if between.filesystem is None or between.op is not Op.WRITE:
        return False
    if evidence.fsyncs:  # each flush of a file commits a transaction of the journal
        return True
    series = lower.counted.get(between.op, ())
    if len(series) < 2 or not between.ratio:
        return False
    return (series[-1][1] - series[0][1]) * (1 - 1 / between.ratio) <= _METADATA_BYTES


def _passes_on(
    upper: LayerFlow, lower: LayerFlow, through: Sequence[LayerFlow], evidence: Evidence
) -> bool:
    """Whether the lower layer moves every byte of the upper layer exactly once."""
    kinds = {layer.kind for layer in through}
    if kinds & {LayerKind.ZFS, LayerKind.NFS}:
        return False
    if LayerKind.FUSE in kinds:
        # A loop device that bypasses the page cache, on an image as a file of FUSE.
        past = upper.kind is LayerKind.BLOCK and upper.facts.get("direct_io") == "yes"
        return past and lower.kind is LayerKind.IMAGE
    if upper.kind is None:
        direct = evidence.direct and not evidence.stream
        if lower.kind is LayerKind.BLOCK:
            files = [layer.name for layer in through if layer.kind is LayerKind.FILESYSTEM]
            journal = any("data=journal" in layer.facts.get("options", "") for layer in through)
            # Of two file systems one holds the image of the other, in a file of its page cache.
            return direct and len(files) < 2 and set(files) <= _IN_PLACE and not journal
        ceph = lower.kind in (LayerKind.IMAGE, LayerKind.POOL)
        return ceph or (direct and lower.kind is LayerKind.NFS)
    if LayerKind.FILESYSTEM in kinds:
        return False
    if upper.kind is LayerKind.BLOCK:
        below = lower.kind in (LayerKind.BLOCK, LayerKind.IMAGE, LayerKind.POOL)
        return below and _is_plain(upper)
    if (upper.kind, lower.kind) == (LayerKind.ZFS, LayerKind.BLOCK):
        # The device of a vdev that is a file, or that was not found, is missing.
        return upper.parts == len(upper.devices)
    return (upper.kind, lower.kind) == (LayerKind.IMAGE, LayerKind.POOL)


def _is_plain(device: LayerFlow) -> bool:
    """Whether a device passes every byte on once: no RAID, no volume with possible copies or
    snapshots, no loop device whose file is in the page cache."""
    kind = device.facts.get("type")
    if kind == "loop":
        return device.facts.get("direct_io") == "yes"
    if kind == "dm":
        return device.facts.get("mapping") in _PLAIN_MAPPINGS
    return kind != "raid"


def find_reasons(between: Between, evidence: Evidence) -> tuple[Fact, ...]:
    """Return why bytes differ, the strongest reason first."""
    if between.ratio is None and not between.lower.moved_bps(between.op):
        return ()
    less = between.ratio is not None and between.ratio < 1
    found = tuple(_why_less(between, evidence) if less else _why_more(between, evidence))
    windows = tuple(_why_windows(between))
    found = (*windows, *found) if between.explained else (*found, *windows)
    return found or (fact(Code.NO_REASON),)


def _why_less(between: Between, evidence: Evidence) -> Iterator[Fact]:
    write = between.op is Op.WRITE
    zfs = between.zfs
    if between.upper.kind is None and zfs is None and not evidence.direct:
        yield fact(Code.BUFFERED_WRITES if write else Code.BUFFERED_READS)
    if zfs is not None:
        compression = zfs.facts.get("compression", "off")
        if compression not in ("off", ""):
            yield fact(Code.COMPRESSES, compression=compression)
        if write:
            yield fact(Code.TXG_DELAY)
        elif evidence.arc_hit_share is not None:
            yield fact(Code.ARC_ANSWERED, arc_hit_share=evidence.arc_hit_share)
        elif zfs.facts.get("primarycache", "all") == "all":
            yield fact(Code.ARC_POSSIBLE)
    if between.upper.kind is LayerKind.ZFS and between.filesystem is not None:
        yield fact(Code.FILE_VDEV_WRITES if write else Code.FILE_VDEV_READS)
    if between.cached_loop:
        yield fact(Code.LOOP_WRITES if write else Code.LOOP_READS, device=between.cached_loop)
    image = LayerKind.IMAGE in (between.upper.kind, between.lower.kind)
    # Counters of a part of the trial show nothing of librbd's cache.
    if image and Basis.WHOLE_TRIAL not in (between.upper.basis, between.lower.basis):
        yield fact(Code.RBD_CACHE_WRITES if write else Code.RBD_CACHE_READS)


def _why_more(between: Between, evidence: Evidence) -> Iterator[Fact]:
    lower, write, zfs = between.lower, between.op is Op.WRITE, between.zfs
    others = fact(Code.OTHER_USERS, layer=lower.short_name)
    if between.ratio is None and lower.shared:
        yield others
        return
    if zfs is not None:
        yield from _why_more_zfs(between, zfs, evidence)
    if lower.shared:
        yield others
    filesystem = between.filesystem
    if filesystem is not None:
        if write:
            code = Code.FILESYSTEM_METADATA if between.ratio is None else Code.FILESYSTEM_JOURNAL
            yield fact(code, filesystem=filesystem.name)
        elif not evidence.direct:
            yield fact(Code.READ_AHEAD)
        elif between.ratio is None:
            yield fact(Code.FILESYSTEM_READS, filesystem=filesystem.name)
    if between.upper.kind is LayerKind.BLOCK:
        yield from _why_more_device(between)


def _why_more_device(between: Between) -> Iterator[Fact]:
    upper = between.upper
    kind = upper.facts.get("type")
    if between.cached_loop and between.filesystem is not None:
        yield fact(Code.LOOP_FILESYSTEM)
    if kind == "raid":
        code = Code.RAID_WRITES if between.op is Op.WRITE else Code.RAID_READS
        yield fact(code, device=upper.name, level=upper.facts.get("level", "md RAID"))
    elif kind == "dm" and upper.facts.get("mapping") not in _PLAIN_MAPPINGS:
        yield fact(Code.DEVICE_MAPPER, device=upper.name)
    elif kind == "partition":
        yield fact(Code.PARTITION, device=between.lower.name, partition=upper.name)


def _why_more_zfs(between: Between, zfs: LayerFlow, evidence: Evidence) -> Iterator[Fact]:
    write = between.op is Op.WRITE
    layout = zfs.facts.get("layout", "")
    factor = write_factor(layout)
    if write and factor is not None and factor > _EXTRA_WRITES:
        yield fact(Code.VDEV_COPIES, times=factor, layout=layout)
    record, block = zfs.size_fact("recordsize_bytes"), evidence.block_bytes
    if record and block and block < record and not evidence.stream:
        code = Code.RECORD_WRITES if write else Code.RECORD_READS
        yield fact(code, block_bytes=block, record_bytes=record, times=record / block)
    if write:
        if _through_log(zfs, evidence):
            yield fact(Code.INTENT_LOG)
        yield fact(Code.ZFS_METADATA)
        if len(zfs.devices) > 1 and factor is None:
            yield fact(Code.LEAF_COPIES, devices=len(zfs.devices))
    elif evidence.stream:
        yield fact(Code.STREAM_READS)
    else:
        yield fact(Code.ZFS_READS_METADATA if between.ratio is None else Code.ZFS_PREFETCH)


def _through_log(zfs: LayerFlow, evidence: Evidence) -> bool:
    """Whether data passes the intent log on the data vdevs: not with sync=disabled, a log device,
    logbias=throughput or large blocks (module/zfs/zfs_log.c, zil_write_state)."""
    sync = zfs.facts.get("sync", "")
    if sync == "disabled" or not (evidence.fsyncs or sync == "always"):
        return False
    small = evidence.block_bytes is None or evidence.block_bytes <= _IMMEDIATE_BYTES
    log_device = "log: " in zfs.facts.get("layout", "")
    return small and not log_device and zfs.facts.get("logbias") != "throughput"


def _why_windows(between: Between) -> Iterator[Fact]:
    upper, lower, bounds = between.upper, between.lower, between.bounds
    if bounds is not None and upper.seconds is not None:
        yield fact(
            Code.WINDOWS_EXPLAIN if between.explained else Code.WINDOWS_TOO_SMALL,
            upper=upper.short_name,
            lower=lower.short_name,
            length_s=upper.seconds.length_s,
            late_s=upper.seconds.late_s,
            least=bounds[0],
            most=bounds[1],
        )
    elif upper.basis is not lower.basis or upper.basis is Basis.WHOLE_TRIAL:
        yield fact(Code.OTHER_SECONDS)
