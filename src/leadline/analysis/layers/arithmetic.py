"""What happens between a layer and the next one below that can be observed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leadline.analysis.layers.bounds import ratio_bounds
from leadline.analysis.layers.model import DIRECTIONS, Basis, Flow, LayerFlow
from leadline.analysis.layers.reasons import (
    PLAIN_MAPPINGS,
    Between,
    Evidence,
    may_keep_some,
    others_may_do_more,
    reasons_of,
)
from leadline.archive.records import LayerKind
from leadline.metrics import Op

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
