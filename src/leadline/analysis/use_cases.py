"""What people use storage for, as data: which I/O counts for each, and how much.

The weights are judgements, not measurements: docs/guides/choose-a-pool.md gives the reasons, and
`--objective` puts a user's own in their place.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from leadline import errors
from leadline.analysis.traits import Traits
from leadline.analysis.workload_differences import STREAMING_BYTES
from leadline.errors import LeadlineError
from leadline.metrics import Metric, Op

_SMALL_BYTES = 16 * 1024


class Access(StrEnum):
    """Kubernetes' access modes: `rwo` is mounted by one node, `rwx` by many at once."""

    RWO = "rwo"
    RWX = "rwx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A part of a use case: I/O of an operation, by its traits, and the metrics that count of it
    with their weights. `essential`: a run with none of the use case's essential parts says nothing
    about it. Block sizes in bytes, both ends included; `mixed` and `fsync` None is any."""

    name: str
    op: Op
    random: bool
    metrics: Mapping[Metric, float]
    smallest: int = 0
    largest: int = 1 << 62
    mixed: bool | None = None
    fsync: bool | None = None
    essential: bool = False

    @property
    def weight(self) -> float:
        return sum(self.metrics.values())

    def fits(self, op: Op, traits: Traits) -> bool:
        """Whether I/O is of this kind; what nobody told fits nothing."""
        return (
            op is self.op
            and traits.random is self.random
            and traits.block_bytes is not None
            and self.smallest <= traits.block_bytes <= self.largest
            and self.mixed in (None, traits.mixed)
            and self.fsync in (None, traits.fsync)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCase:
    """`title` as in a sentence (`for a database`); `beyond` is what no such measurement tells;
    `access` is what it must allow by nature."""

    name: str
    title: str
    sentence: str
    needs: tuple[Need, ...]
    beyond: tuple[str, ...] = ()
    access: Access | None = None


def _metrics(iops: float = 0.0, p99: float = 0.0, bandwidth: float = 0.0) -> Mapping[Metric, float]:
    given = {Metric.IOPS: iops, Metric.LATENCY_P99: p99, Metric.BANDWIDTH: bandwidth}
    return MappingProxyType({metric: weight for metric, weight in given.items() if weight})


def _small(name: str, op: Op, *, essential: bool, iops: float, p99: float) -> Need:
    """Random I/O of up to 16 KiB. Reads and writes of a mixed load count as its total, once."""
    return Need(
        name=name,
        op=op,
        random=True,
        mixed=op is Op.TOTAL,
        largest=_SMALL_BYTES,
        metrics=_metrics(iops=iops, p99=p99),
        essential=essential,
    )


def _large(name: str, op: Op, *, essential: bool, weight: float) -> Need:
    """Sequential I/O of 64 KiB and more."""
    return Need(
        name=name,
        op=op,
        random=False,
        mixed=False,
        smallest=STREAMING_BYTES,
        metrics=_metrics(bandwidth=weight),
        essential=essential,
    )


_RANDOM_WRITES = "small random writes"
_RANDOM_READS = "small random reads"
_MIXED = "small random reads and writes together"
_LARGE_READS = "large sequential reads"
_LARGE_WRITES = "large sequential writes"

USE_CASES: tuple[UseCase, ...] = (
    UseCase(
        name="database",
        title="a database",
        sentence="a transaction ends when its log is written, a query when its pages are read",
        needs=(
            Need(
                name="log writes (sequential, with fsync)",
                op=Op.WRITE,
                random=False,
                largest=STREAMING_BYTES,
                fsync=True,
                metrics=_metrics(iops=1, p99=2),
                essential=True,
            ),
            _small(_RANDOM_WRITES, Op.WRITE, essential=True, iops=1, p99=2),
            _small(_RANDOM_READS, Op.READ, essential=False, iops=1, p99=1),
            _small(_MIXED, Op.TOTAL, essential=True, iops=1, p99=1),
        ),
        beyond=("what a database's own cache and commit groups make of it",),
    ),
    UseCase(
        name="virtual-machines",
        title="virtual machines",
        sentence="many systems do small random reads and writes at once",
        needs=(
            _small(_MIXED, Op.TOTAL, essential=True, iops=2, p99=2),
            _small(_RANDOM_READS, Op.READ, essential=True, iops=1, p99=1),
            _small(_RANDOM_WRITES, Op.WRITE, essential=True, iops=1, p99=1),
        ),
        beyond=("how many virtual machines it bears at once (`leadline scale`)",),
    ),
    UseCase(
        name="streaming",
        title="streaming",
        sentence="large files are read from end to end, and come in now and then",
        needs=(
            _large(_LARGE_READS, Op.READ, essential=True, weight=3),
            _large(_LARGE_WRITES, Op.WRITE, essential=False, weight=1),
        ),
        beyond=("many readers at different places of the same files",),
    ),
    UseCase(
        name="backup",
        title="backups",
        sentence="data is written from end to end, and read when it must be restored",
        needs=(
            _large(_LARGE_WRITES, Op.WRITE, essential=True, weight=3),
            _large(_LARGE_READS, Op.READ, essential=False, weight=1),
        ),
        beyond=("what compression and deduplication of the backup itself cost",),
    ),
    UseCase(
        name="shared-files",
        title="shared files",
        sentence="many hosts mount one file system and work on files of all sizes",
        needs=(
            _small(_MIXED, Op.TOTAL, essential=True, iops=1, p99=1),
            _small(_RANDOM_READS, Op.READ, essential=True, iops=1, p99=1),
            _small(_RANDOM_WRITES, Op.WRITE, essential=True, iops=1, p99=1),
            _large(_LARGE_READS, Op.READ, essential=False, weight=1),
            _large(_LARGE_WRITES, Op.WRITE, essential=False, weight=1),
        ),
        beyond=(
            "making, listing and locking of files (metadata)",
            "several hosts at work on the same files",
        ),
        access=Access.RWX,
    ),
)


def find_use_case(name: str) -> UseCase:
    """Raises LeadlineError(`usage`) that names the nearest."""
    names = [one.name for one in USE_CASES]
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    for case in USE_CASES:
        if case.name == wanted:
            return case
    near = difflib.get_close_matches(wanted, names, n=1)
    near = near or [one for one in names if wanted and wanted in one][:1]
    raise LeadlineError(
        errors.USAGE,
        f"there is no use case {name!r}",
        context=[f"use cases: {', '.join(names)}"],
        hint=f"did you mean {near[0]!r}?" if near else "`--objective` ranks by your own",
    )
