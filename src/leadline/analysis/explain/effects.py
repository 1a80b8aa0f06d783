"""The effect of each configuration difference on performance, read from data/effects.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal

from leadline.analysis.explain.operation_cells import OperationCell
from leadline.data import load_table
from leadline.inventory.diff import Difference
from leadline.inventory.diff.ceph import NOT_MEASURED
from leadline.inventory.zfs import Concern, Parameter, dataset_properties, zfs_parameters
from leadline.metrics import Op

READS = frozenset({Op.READ, Op.TOTAL})
WRITES = frozenset({Op.WRITE, Op.TRIM, Op.TOTAL})
_Operations = Literal["every", "reads", "writes"]
_OPERATIONS = {"every": frozenset(Op), "reads": READS, "writes": WRITES}

# Causes that change the network distance or the number of copies.
ZONES = "zones"
REDUNDANCY = "redundancy"
LABELS = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One row of data/effects.yaml, which describes the fields; `rank` is its position."""

    pattern: str
    cause: str
    label: str
    mechanism: str
    source: str
    operations: _Operations = "every"
    concurrent_only: bool = False
    cephfs_only: bool = False
    weak: bool = False
    named_by_path: bool = False
    mentions: str = ""
    rank: int = 0

    @property
    def ops(self) -> frozenset[Op]:
        return _OPERATIONS[self.operations]

    def matches(self, difference: Difference) -> bool:
        """Return whether the effect is one of this difference."""
        return fnmatchcase(difference.path, self.pattern) and (
            self.mentions in f"{difference.baseline} {difference.candidate}"
        )

    def applies_to(self, cell: OperationCell, difference: Difference) -> bool:
        """Return whether the effect can be visible in a cell of the difference's target."""
        if difference.path.startswith("workloads.") and not difference.path.startswith(
            f"workloads.{cell.workload}."
        ):
            return False
        return cell.op in self.ops and not (self.concurrent_only and cell.depth == 1)


@cache
def load_effects() -> tuple[Effect, ...]:
    """Read the table of effects, in the order of their importance."""
    *rows, labels = load_table("effects", tuple[Effect, ...])
    return tuple(
        replace(effect, rank=rank) for rank, effect in enumerate((*rows, *_zfs_effects(), labels))
    )


def find_effects(difference: Difference) -> tuple[Effect, ...]:
    """Return the effects of the first pattern that matches; none of an unmeasured difference."""
    if NOT_MEASURED in (difference.baseline, difference.candidate):
        return ()
    found: list[Effect] = []
    for effect in load_effects():
        if (not found or effect.pattern == found[0].pattern) and effect.matches(difference):
            found.append(effect)
    return tuple(found)


# --- ZFS: the rows follow from the tables of properties and parameters ---------------------------

# Rarely a limit at any value.
_WEAK = ("zfs_max_recordsize", "zfs_vdev_max_active", "zfs_vdev_queue_depth_pct", "zfs_arc_min")


def _zfs_effects() -> Iterator[Effect]:
    for entry in dataset_properties():
        yield Effect(
            pattern=f"datasets.*.{entry.name}",
            cause=entry.label,
            label=entry.label,
            mechanism=entry.does,
            source="OpenZFS, zfsprops(7)",
            operations=entry.bearing.value,
            weak=entry.weak,
        )
    for parameter in zfs_parameters():
        concern = parameter.concern
        yield Effect(
            pattern=f"zfs.parameters.{parameter.name}",
            cause=f"module: {concern.value}",
            label=parameter.name,
            mechanism=parameter.does,
            source="OpenZFS, zfs(4)",
            operations=_operations(parameter),
            # A queue limit needs queued I/Os; a single I/O in flight never waits.
            concurrent_only=concern is Concern.QUEUE and "async_write" not in parameter.name,
            weak=parameter.name in _WEAK or concern in (Concern.STREAM, Concern.PROCESSOR),
        )


def _operations(parameter: Parameter) -> _Operations:
    if parameter.concern in (Concern.DIRTY, Concern.SYNC, Concern.STREAM):
        return "writes"
    if parameter.concern is Concern.CACHE or "_read_" in parameter.name:
        return "reads"
    return "writes" if "_write_" in parameter.name else "every"
