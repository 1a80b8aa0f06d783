"""cache-served-reads: memory answered reads instead of the storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from leadline.audit.evidence import JobEvidence
from leadline.audit.execution import FILE_ENGINES, SPARED, UNSEEN_S
from leadline.audit.latencies import mean_s, median_s
from leadline.audit.physics import (
    compressing_layer,
    fastest_read,
    may_read_ahead,
    network_of,
    read_below,
)
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import FormatError, Operation
from leadline.inventory.layer import Layer
from leadline.metrics import Op
from leadline.units import format_latency, format_size

# Resident pages after the drop below this share of the trial's span are ignored.
RESIDENT = 0.01
# Buffered reads beyond the size of the file are repeated reads, perhaps from memory.
REREAD = 1.1
# A file in memory affects results that read it at least twice.
READ_OVER = 2.0
# Share of reads at the disks below: less than the first means a cache, more than the second none.
UNSPARED = 0.9
# A hard disk turns once in 4 to 8 ms; memory answered a random read below this.
HARD_DISK_S = 1e-3
# Memory copies at least this fast: with a slower median, half of the reads came from storage.
HIT_S, COPY_BPS = 10e-6, 2e9
# Sequential reads of one I/O in flight that are this much faster than random ones were read ahead.
# Flash does it 4 to 8 times in the drive, hard disks up to a hundred times.
AHEAD = 4.0
# Reads of this many times the span may find it in memory of the storage nodes.
REMOTE_OVER = 10.0
MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_DIRECT = "Use direct I/O (`direct: true`), or a span several times the size of memory."
_ARC = "ZFS's cache (the ARC) or the page cache"
_PAST_THE_ARC = (
    "Use a span several times the size of the ARC and memory, or a dataset with "
    "`primarycache=metadata`. Direct I/O bypasses the ARC only from OpenZFS 2.3."
)
_LARGER = (
    "Use direct I/O and a span several times the size of every cache on the path (page cache, rbd "
    "cache, hypervisor, storage node), or name the cache next to the figure."
)


@rule("cache-served-reads", "Memory answered reads instead of the storage.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    read = evidence.operation(Op.READ)
    if read is None or evidence.merged_sections or evidence.job.options.file_op is not None:
        return
    # The most certain test first: one finding is enough.
    tests = (
        *(_on_memory, _resident, _too_fast, _disks_spared, _disk_bytes_spared, _layers_spared),
        *(_held, _hard_disks, _warm_start, _reread, _read_ahead, _remote_reread),
    )
    findings = (test(evidence, read) for test in tests)
    yield from islice((finding for finding in findings if finding is not None), 1)


def _on_memory(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    extent = evidence.trial.extent
    if extent is None or extent.filesystem not in MEMORY_FILESYSTEMS:
        return None
    return RuleFinding(
        severity=Severity.WARNING,
        op=Op.READ,
        evidence={"span_bytes": extent.span_bytes},
        message=f"The target is on {extent.filesystem}: memory was measured.",
        remedy="Use a target on the storage to be measured.",
    )


def _too_fast(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether half of the reads were faster than storage."""
    half, limit = median_s(read, evidence.job.options), fastest_read(evidence)
    extent = evidence.trial.extent
    if extent is not None and extent.filesystem in MEMORY_FILESYSTEMS:
        return None
    if not half or limit is None or half * (1 + evidence.rounding(half)) >= limit.seconds:
        return None
    ahead = may_read_ahead(evidence)
    mean = mean_s(read, evidence.job.options)
    return RuleFinding(
        severity=Severity.WARNING if ahead else Severity.ERROR,
        op=Op.READ,
        evidence={"latency_p50_s": half, "limit_s": limit.seconds, "latency_mean_s": mean},
        message=f"Half of the reads took at most {format_latency(half)}, less than the "
        f"{format_latency(limit.seconds)} that {limit.reason}. "
        + ("A cache or read-ahead answered them." if ahead else "Memory answered them."),
        remedy=_LARGER,
    )


def _disks_spared(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether the disks below did far fewer reads than the jobs."""
    whole = evidence.trial.whole
    requested, done = (whole and whole.disk_reads) or (0, 0)
    if not _spared(evidence, requested, done):
        return None
    return _from_memory(
        evidence,
        {"reads": requested, "disk_reads": done, "disk_share": done / requested},
        f"The jobs did {requested:,} reads, the disks below {done:,}",
    )


def _disk_bytes_spared(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether the disks below read far fewer bytes than the jobs, also with read-ahead."""
    whole = evidence.trial.whole
    requested, done = (whole and whole.disk_read_bytes) or (0, 0)
    if not _spared(evidence, requested, done):
        return None
    return _from_memory(
        evidence,
        {"read_bytes": requested, "disk_read_bytes": done, "disk_share": done / requested},
        f"The jobs read {format_size(requested)}, the disks below at most {format_size(done)}",
    )


def _spared(evidence: JobEvidence, requested: int, done: int) -> bool:
    """Return whether the disks counted far less than the jobs. Direct reads that no disk saw are
    those of holes (unwritten-reads)."""
    ran = evidence.longest_s
    # fio takes the last counts up to a quarter of a second before the end.
    seen = max(0.0, 1 - UNSEEN_S / ran) if ran else 1.0
    return not evidence.job.options.direct and done < SPARED * requested * seen


def _from_memory(evidence: JobEvidence, counts: dict[str, float], counted: str) -> RuleFinding:
    # The disks count all jobs together: which of several were cached is unknown.
    several = evidence.trial.whole is not None and len(evidence.trial.whole.runtimes) > 1
    return RuleFinding(
        severity=Severity.WARNING if several else Severity.ERROR,
        op=Op.READ,
        evidence=counts,
        message=f"{counted} ({counts['disk_share']:.0%}). Memory answered the rest.",
        remedy=_DIRECT,
    )


def _layers_spared(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether the devices below read far fewer bytes than all jobs of the trial together."""
    trial, whole = evidence.trial, evidence.trial.whole
    if whole is None or trial.imported or not _all_written(evidence):
        return None
    reads = [part for job in whole.output.jobs for part in job.operations if part.op is Op.READ]
    ran = max((part.runtime_s or 0.0 for part in reads), default=0.0)
    requested = sum(part.io_bytes or 0 for part in reads)
    if (
        isinstance(trial.machines, FormatError)
        or not ran
        or None in (part.io_bytes for part in reads)
    ):
        return None
    below = read_below(trial.stack, trial.machines, ran)
    if below is None or below.read_bytes >= SPARED * requested:
        return None
    share = below.read_bytes / requested
    return RuleFinding(
        severity=Severity.WARNING if len(whole.runtimes) > 1 else Severity.ERROR,
        op=Op.READ,
        evidence={
            "read_bytes": requested,
            "device_read_bytes": below.read_bytes,
            "device_share": share,
        },
        message=f"The jobs read {format_size(requested)}, all processes together "
        f"{format_size(below.read_bytes)} ({share:.0%}) from {', '.join(below.devices)} below. "
        f"{_ARC if below.through_zfs else 'The page cache'} answered the rest.",
        remedy=_PAST_THE_ARC if below.through_zfs else _DIRECT,
    )


def _all_written(evidence: JobEvidence) -> bool:
    """Whether the span was written completely and is not compressed: reads of holes, and a part of
    the reads of compressed blocks, need no device."""
    trial = evidence.trial
    extent = trial.extent
    if extent is None:
        # A user's job file: fio lays out its files itself, with unknown data.
        return not trial.generated and not _compresses(trial.stack)
    written = 0 < extent.span_bytes <= extent.written_bytes
    # Leadline's prefill writes incompressible data.
    return written and (trial.generated or not _compresses(trial.stack))


def _compresses(stack: Sequence[Layer]) -> bool:
    options = (layer.facts.get("options", "") for layer in stack)
    return compressing_layer(stack) is not None or any(
        "compress" in operation for operation in options
    )


def _held(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether memory held a file of this size, as another result of the target proves."""
    held, span = evidence.trial.held_bytes, evidence.span_bytes
    size, moved = evidence.job.options.size("size"), _bytes(evidence, read)
    if held is None or span is None or size is None or moved is None:
        return None
    if size > held or moved < READ_OVER * span:
        return None
    return RuleFinding(
        severity=Severity.ERROR,
        op=Op.READ,
        evidence={
            "read_bytes": moved,
            "span_bytes": span,
            "held_bytes": held,
            "reread_share": 1 - span / moved,
        },
        message=f"Memory held all of {format_size(held)} of this target: random reads of it were "
        f"faster than storage. This result read {format_size(moved)} from at most "
        f"{format_size(span)}, so at least {1 - span / moved:.0%} were repeated reads.",
        remedy=_LARGER,
    )


def _hard_disks(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    pool, half = evidence.trial.pool, median_s(read, evidence.job.options)
    random = evidence.pattern in ("randread", "randrw")
    if pool is None or pool.flash or not random or not half or half >= HARD_DISK_S:
        return None
    return RuleFinding(
        severity=Severity.WARNING,
        op=Op.READ,
        evidence={"latency_p50_s": half, "limit_s": HARD_DISK_S, "hard_disks": pool.hard_disks},
        message=f"Half of the random reads took at most {format_latency(half)} on hard disks "
        f"(device class hdd of the pool {pool.pool}), which need at least "
        f"{format_latency(HARD_DISK_S)}. Memory answered them, or the class is wrong.",
        remedy="Use a span larger than the memory of the OSDs. Set the correct device class.",
    )


def _resident(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether mincore(2) found data in the page cache before the first read."""
    record = evidence.trial.record
    drop = record.cache_drop if record else None
    return _cached_start(evidence, drop.resident_after_bytes) if drop else None


def _warm_start(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether the page cache before the first read is unknown."""
    record = evidence.trial.record
    seen = record is not None and not evidence.trial.imported
    if not seen or (record and record.cache_drop) or _from_disks(evidence):
        return None
    return _cached_start(evidence, None)


def _cached_start(evidence: JobEvidence, resident: int | None) -> RuleFinding | None:
    span, memory = _laid_out(evidence), evidence.trial.memory_bytes
    if not _buffered(evidence):
        return None
    if resident is not None and span is not None and resident <= RESIDENT * span:
        return None
    held = span is None or memory is None or span <= memory
    # Without a verified drop, fio's own (`invalidate`, on by default) may have worked.
    maybe_cold = resident is None and evidence.job.options.text("invalidate", "1") != "0"
    known = f"{format_size(resident)} of it" if resident is not None else "an unknown part of it"
    return RuleFinding(
        severity=Severity.ERROR if held and not maybe_cold else Severity.WARNING,
        op=Op.READ,
        evidence={"span_bytes": span, "memory_bytes": memory, "resident_after_bytes": resident},
        message="The reads used the page cache"
        + (f", {format_size(span)} of data" if span else "")
        + f". {known[:1].upper()}{known[1:]} was in memory at the start.",
        remedy=_DIRECT,
    )


def _reread(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether more was read than there is: memory may have answered the excess."""
    span, moved = _laid_out(evidence), read.io_bytes
    if not _buffered(evidence) or not span or moved is None or moved <= REREAD * span:
        return None
    # fio drops the pages of its files before each pass (`invalidate`): all of 13.06 M sectors read
    # in passes over 64 MiB came from the disk.
    if evidence.job.options.text("invalidate", "1") != "0":
        return None
    half = median_s(read, evidence.job.options)
    slow = HIT_S + (evidence.block_size or 0) / COPY_BPS
    if _from_disks(evidence) or (half is not None and half > slow and not evidence.sequential):
        return None
    again = 1 - span / moved
    return RuleFinding(
        severity=Severity.WARNING,
        op=Op.READ,
        evidence={
            "read_bytes": moved,
            "span_bytes": span,
            "reread_share": again,
            "latency_p50_s": half,
        },
        message=f"{format_size(moved)} were read through the page cache from "
        f"{format_size(span)}. At least {again:.0%} were repeated reads, perhaps from memory.",
        remedy=_DIRECT,
    )


def _read_ahead(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether direct sequential reads were far faster than random ones of the same target, one
    I/O in flight each: the same round trips and copies."""
    options, block = evidence.job.options, evidence.block_size
    random_s = evidence.trial.random_read_s.get(block) if block else None
    mean = mean_s(read, options)
    if evidence.pattern != "read" or evidence.requested_depth != 1 or not options.direct:
        return None
    if not random_s or not mean or mean * AHEAD > random_s:
        return None
    network = network_of(evidence)
    return RuleFinding(
        # Drives read ahead by themselves; behind a network it is a cache on the path.
        severity=Severity.WARNING if network else Severity.INFO,
        op=Op.READ,
        evidence={"latency_mean_s": mean, "random_latency_mean_s": random_s, "block_bytes": block},
        message=f"Sequential reads of {format_size(block or 0)} took {format_latency(mean)}, "
        f"random ones {format_latency(random_s)}, with one direct I/O in flight each. A cache "
        "below the job read ahead"
        + (f" ({network})." if network else " (the drive, its controller or the hypervisor)."),
        remedy="Compare sequential reads only with such of the same read-ahead. Use random reads "
        "for the latency of the storage.",
    )


def _remote_reread(evidence: JobEvidence, read: Operation) -> RuleFinding | None:
    """Test whether remote storage was read many times over: its memory may have answered."""
    span, moved = _laid_out(evidence), _bytes(evidence, read)
    network = network_of(evidence)
    if not network or not span or moved is None or moved < REMOTE_OVER * span:
        return None
    return RuleFinding(
        severity=Severity.INFO,
        op=Op.READ,
        evidence={"read_bytes": moved, "span_bytes": span, "times": moved / span},
        message=f"{format_size(moved)} were read from {format_size(span)} of remote storage "
        f"({network}), {moved / span:.0f} times over. The memory of the storage nodes may have "
        "answered.",
        remedy="Use a span larger than the memory of the storage nodes, or name their caches.",
    )


def _buffered(evidence: JobEvidence) -> bool:
    """Whether the reads certainly used the page cache."""
    options = evidence.job.options
    return options.engine in FILE_ENGINES and options.direct is False


def _from_disks(evidence: JobEvidence) -> bool:
    """Whether nearly all reads came from the disks, by their counters."""
    counted = evidence.trial.whole.disk_reads if evidence.trial.whole else None
    return counted is not None and counted[1] >= UNSPARED * counted[0]


def _laid_out(evidence: JobEvidence) -> int | None:
    extent = evidence.trial.extent
    return extent.span_bytes if extent and extent.span_bytes else evidence.span_bytes


def _bytes(evidence: JobEvidence, read: Operation) -> float | None:
    """Return the bytes read; from bandwidth and time if they were not counted."""
    if read.io_bytes is not None:
        return read.io_bytes
    ran = read.runtime_s or evidence.job.options.seconds("runtime")
    return read.bandwidth_bps * ran if read.bandwidth_bps is not None and ran else None
