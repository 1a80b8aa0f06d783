"""What no medium and no network can do, as far as it is known what the I/O went to."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from leadline.audit.evidence import FILE_ENGINES, JobEvidence, TrialEvidence
from leadline.formats.result import Operation
from leadline.metrics import Op

# Methodology. A TCP round trip between two hosts takes 10 to 30 us before any storage is asked.
NETWORK_S = 20e-6
# Less than a third of the fastest median that we found published for 4 KiB reads of a block device
# at depth 1 (8 to 9 us, Optane P4800X): room for faster ones and for polling.
MEDIUM_S = 2.5e-6
# A page-cache hit takes 1 to 2 us; the fastest device with the page cache's work on top over 8.
PAGE_CACHE_S = 5e-6
SMALLEST_BLOCK = 4096
# Engines that touch no storage at all.
_NO_STORAGE = frozenset({"null", "cpuio", "net", "netsplice", "rdma", "filecreate", "filestat"})
# Devices and filesystems that are memory, which then is what was meant to be measured.
_MEMORY = re.compile(
    r"(?:^|[\W_])(?:pmem|dax|nullb|ram|zram|brd|shm|ramdisk|tmpfs|ramfs)\d*(?![a-z])", re.IGNORECASE
)
_MEMORY_ENGINES = frozenset({"libpmem", "dev-dax", "pmemblk"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A read cannot take less than `seconds`, and why."""

    seconds: float
    reason: str


def fastest_read(evidence: JobEvidence) -> Limit | None:
    """None where nothing is known that forbids any latency."""
    options, engine = evidence.job.options, evidence.job.options.engine
    if engine in _NO_STORAGE or engine in _MEMORY_ENGINES:
        return None
    if evidence.network:
        return Limit(seconds=NETWORK_S, reason=f"a network round trip takes ({evidence.network})")
    names = (options.text("filename"), options.text("directory"), evidence.place.target)
    if any(_MEMORY.search(name) for name in names):
        return None
    if (evidence.block_size or 0) < SMALLEST_BLOCK:
        return None
    if options.direct:
        return Limit(seconds=MEDIUM_S, reason="the fastest storage device takes")
    # The kernel reads ahead for sequential reads: those find their data in memory rightly.
    known = evidence.pattern is not None and not evidence.sequential
    if known and options.direct is False and engine in FILE_ENGINES:
        return Limit(seconds=PAGE_CACHE_S, reason="any storage device behind the page cache takes")
    if known:
        return Limit(seconds=MEDIUM_S, reason="the fastest storage device takes")
    return None


def may_read_ahead(evidence: JobEvidence) -> bool:
    """Whether something on this machine may have fetched the data before it was asked for."""
    return evidence.sequential and not evidence.job.options.direct


# Whether reads and writes of one result were one mixed load, or were done one after the other.

MIXED = frozenset({"rw", "readwrite", "randrw"})
# fio draws the direction of each I/O, so that the share of reads keeps to rwmixread within its
# chance: five deviations, and at least this many points.
DEVIATIONS, LEAST_POINTS = 5.0, 0.15
# Where nobody knows how many I/Os there were.
UNCOUNTED_POINTS = 0.6
# Shares that people ask for.
USUAL_STEP = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One read and one write figure of a trial, each with the entry that tells it, and the total
    if one is told, too."""

    read: Operation
    read_of: JobEvidence
    write: Operation
    write_of: JobEvidence
    total: Operation | None

    @property
    def pure(self) -> bool | None:
        """Each was a load of its own, by its pattern. None where a pattern is not known."""
        patterns = (self.read_of.pattern, self.write_of.pattern)
        return None if None in patterns else not MIXED & set(patterns)


def split_of(trial: TrialEvidence) -> Split | None:
    """None unless the trial tells exactly one figure each of reads and writes."""
    found: dict[Op, list[tuple[Operation, JobEvidence]]] = {}
    for job in trial.jobs:
        for one in job.job.operations:
            found.setdefault(one.op, []).append((one, job))
    read, write = found.get(Op.READ, []), found.get(Op.WRITE, [])
    total = found.get(Op.TOTAL, [])
    if len(read) != 1 or len(write) != 1 or len(total) > 1:
        return None
    return Split(
        read=read[0][0],
        read_of=read[0][1],
        write=write[0][0],
        write_of=write[0][1],
        total=total[0][0] if total else None,
    )


def read_share(split: Split) -> tuple[float, float] | None:
    """Reads in per cent of all I/Os, and the points by which that may be off; None where the
    rates are not told."""
    pairs = (
        (split.read.iops, split.write.iops, False),
        (split.read.bandwidth_bps, split.write.bandwidth_bps, True),
    )
    for read, write, of_bytes in pairs:
        if read and write:
            share = read / (read + write)
            told = split.read_of.rounding(read, of_bytes=of_bytes)
            told += split.write_of.rounding(write, of_bytes=of_bytes)
            off = _chance(split, share) + 100 * share * (1 - share) * told
            return 100 * share, off
    return None


def share_apart(trial: TrialEvidence) -> bool | None:
    """Whether the share of reads is none that a mixed job would have had; None where the load is
    not called a mix, or its share is not known."""
    split = split_of(trial)
    if split is None or split.pure is not False:
        return None
    found = read_share(split)
    if found is None:
        return None
    share, off = found
    return abs(share - wanted_share(split, share)) > off


def wanted_share(split: Split, share: float) -> float:
    """The share in per cent that was asked for; where nobody tells, the nearest usual one."""
    options = split.read_of.job.options
    if options.whole or "rwmixread" in options.raw:
        return float(options.integer("rwmixread", 50))
    if "rwmixwrite" in options.raw:
        return 100.0 - options.integer("rwmixwrite", 50)
    return USUAL_STEP * round(share / USUAL_STEP)


def _chance(split: Split, share: float) -> float:
    """Points by which the share of a mix differs from what was asked, by chance."""
    counts = [_ios(one, of) for one, of in _sides(split)]
    if None in counts:
        return UNCOUNTED_POINTS
    deviation = 100 * math.sqrt(share * (1 - share) / max(1.0, sum(one or 0.0 for one in counts)))
    return max(LEAST_POINTS, DEVIATIONS * deviation)


def _sides(split: Split) -> tuple[tuple[Operation, JobEvidence], ...]:
    return (split.read, split.read_of), (split.write, split.write_of)


def _ios(one: Operation, of: JobEvidence) -> float | None:
    if one.total_ios is not None:
        return float(one.total_ios)
    ran = one.runtime_s or of.job.options.seconds("runtime")
    if not ran:
        return None
    if one.iops is not None:
        return one.iops * ran
    if one.bandwidth_bps is not None and of.block_size:
        return one.bandwidth_bps / of.block_size * ran
    return None
