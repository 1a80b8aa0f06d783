"""What happens between a layer and the next one below that can be observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leadline.analysis.layers.model import DIRECTIONS, Basis, Flow, LayerFlow
from leadline.analysis.layers.reasons import LONG_S, Between, Evidence, reasons_of
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
    `adds_up` says whether they do, within TOLERANCE, None where nobody can tell, as of two that
    were counted over different seconds; `reasons` are
    what the evidence has for a difference, in sentences, the first the strongest."""

    op: Op
    above: int
    below: int
    through: tuple[str, ...]
    bytes_ratio: float | None
    operations_ratio: float | None
    in_flight_ratio: float | None
    one_to_one: bool
    adds_up: bool | None
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
    checked = exact and _same_seconds(upper, lower, evidence)
    adds_up = abs(ratio - 1) <= TOLERANCE if ratio is not None and checked else None
    between = Between(
        op=op, upper=upper, lower=lower, through=through, ratio=ratio, one_to_one=exact
    )
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
        adds_up=adds_up,
        reasons=() if same else reasons_of(between, evidence),
    )


def _same_seconds(upper: LayerFlow, lower: LayerFlow, evidence: Evidence) -> bool:
    """Whether both were counted over seconds near enough to hold them against each other. Counters
    that are read each second lie beside the engine's own seconds by up to half of one."""
    if upper.basis is not lower.basis or upper.basis is Basis.WHOLE_TRIAL:
        return False
    long = evidence.window_s >= LONG_S
    return upper.kind is not None or upper.basis is Basis.TOTALS or long


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
        of_one_device = "raid" not in (upper.facts.get("type"), lower.facts.get("type"))
        return of_one_device and lower.kind in (LayerKind.BLOCK, LayerKind.IMAGE, LayerKind.POOL)
    if (upper.kind, lower.kind) == (LayerKind.ZFS, LayerKind.BLOCK):
        return upper.basis is Basis.WINDOW  # else its last second may be missing
    return (upper.kind, lower.kind) == (LayerKind.IMAGE, LayerKind.POOL)
