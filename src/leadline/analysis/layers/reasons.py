"""Why bytes of one layer differ from those of the next: what the evidence has for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leadline.analysis.layers.model import Basis, LayerFlow
from leadline.analysis.layers.words import percent
from leadline.archive.records import LayerKind
from leadline.metrics import Op
from leadline.units import format_size

NO_REASON = "No reason for it is known from what was observed."
# Of a window as long, half a second at its ends is no more than sums may differ by.
LONG_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a trial beside its layers' figures. `direct`: the engine's I/O passes the
    page cache by; `stream`: it is a stream between datasets; `block_bytes` the smallest request of
    the workload; `arc_hit_share` of reads in ZFS's cache; `window_s` the seconds of its figures."""

    direct: bool = True
    stream: bool = False
    block_bytes: int | None = None
    fsyncs: bool = False
    arc_hit_share: float | None = None
    window_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """Two layers of which the bytes differ: `ratio` is below / above, None where the engine did
    nothing in that direction."""

    op: Op
    upper: LayerFlow
    lower: LayerFlow
    through: Sequence[LayerFlow]
    ratio: float | None
    one_to_one: bool

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
    found = tuple(told)
    return found or (NO_REASON,)


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
    loop = _backing(between)
    if loop:
        yield (
            f"{loop} keeps its data in a file, whose page cache holds writes back."
            if write
            else f"{loop} keeps its data in a file, whose page cache answers reads."
        )
    image = LayerKind.IMAGE in (between.upper.kind, between.lower.kind)
    # Counters that cover a part of the trial only say nothing of what librbd keeps to itself.
    if image and Basis.WHOLE_TRIAL not in (between.upper.basis, between.lower.basis):
        yield (
            "librbd's cache (rbd_cache) may hold writes back, or write those that meet as one."
            if write
            else "librbd answers reads of what was never written, or of its cache, by itself."
        )
    yield from _windows(between, evidence)


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
    if between.upper.kind is LayerKind.BLOCK and _backing(between):
        yield "The file below the loop device has a file system of its own, with its metadata."
    yield from _windows(between, evidence)


def _more_by_zfs(
    between: Between, zfs: LayerFlow, evidence: Evidence, *, write: bool
) -> Iterator[str]:
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
        if evidence.fsyncs or zfs.facts.get("sync") == "always":
            yield "Synchronous writes are written twice: to the intent log, then to their place."
        yield (
            "ZFS writes metadata up to the root of its tree with every transaction group, most of "
            "it twice."
        )
        if len(zfs.devices) > 1:
            yield f"Its {len(zfs.devices)} leaf devices may hold copies or parity."
    elif between.ratio is None and not evidence.stream:
        yield "ZFS reads metadata, and records that are written in part."
    elif evidence.stream:
        yield "What is sent is read from the same pool."
    else:
        yield "ZFS prefetches, and reads metadata."


def _backing(between: Between) -> str:
    """The loop device whose file lies between two layers; empty without."""
    mine = (between.upper, *between.through) if between.through else ()
    loops = [one for one in mine if one.facts.get("type") == "loop"]
    return next((one.name for one in loops if one.facts.get("direct_io") != "yes"), "")


def _windows(between: Between, evidence: Evidence) -> Iterator[str]:
    bases = {between.upper.basis, between.lower.basis}
    if len(bases) > 1 or Basis.WHOLE_TRIAL in bases:
        yield "The two were counted over different seconds of the trial."
    elif between.upper.kind is None and bases == {Basis.WINDOW} and evidence.window_s < LONG_S:
        yield "In so short a time counters that are read each second may be off by as much."
    if between.upper.kind is LayerKind.ZFS and between.lower.basis is Basis.TOTALS:
        yield "`zpool iostat` tells whole seconds, and the last one of a trial may be missing."


def _shared(layer: LayerFlow) -> str:
    return f"{layer.shared[:1].upper()}{layer.shared[1:]}; its figures hold more than this trial."
