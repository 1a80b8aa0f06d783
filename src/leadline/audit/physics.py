"""What no medium and no network can do, as far as it is known what the I/O went to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from leadline.audit.evidence import JobEvidence
from leadline.audit.execution import FILE_ENGINES

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
