"""What a difference of configuration can do to which cells: one row of the table of effects."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from leadline.analysis.spots import Spot
from leadline.inventory.differences import Difference
from leadline.metrics import Op

EVERY = frozenset(Op)
READS = frozenset({Op.READ, Op.TOTAL})
WRITES = frozenset({Op.WRITE, Op.TRIM, Op.TOTAL})

ZONES = "zones"
REDUNDANCY = "redundancy"
LABELS = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Differences whose path matches `pattern` (and whose texts mention `mentions`) can bear on
    `ops`; `deep` only where I/Os are in flight together, `cephfs` only in a file system.

    `cause` joins differences that are one and the same change; `label` is what people call it.
    `mechanism` is a sentence without full stop. `strong`: enough to be named as a cause where
    nothing stronger is there. `source` says where the mechanism is from.
    """

    pattern: str
    cause: str
    label: str
    mechanism: str
    source: str
    ops: frozenset[Op] = EVERY
    deep: bool = False
    cephfs: bool = False
    strong: bool = True
    mentions: str = ""

    def matches(self, difference: Difference) -> bool:
        return fnmatchcase(difference.path, self.pattern) and (
            self.mentions in f"{difference.baseline} {difference.candidate}"
        )

    def bears_on(self, spot: Spot, difference: Difference) -> bool:
        """Whether it can show in a spot of the difference's target, if that is in a file system
        where it has to be."""
        if difference.path.startswith("workloads.") and not difference.path.startswith(
            f"workloads.{spot.workload}."
        ):
            return False
        if self.deep and spot.depth == 1:
            return False
        return spot.op in self.ops
