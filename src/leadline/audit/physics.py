"""What storage and networks cannot do, and what the layers below a target counted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from leadline.audit.evidence import JobEvidence, TrialEvidence
from leadline.audit.execution import FILE_ENGINES
from leadline.formats.result import JobOptions, Operation
from leadline.formats.watch_records import HostSample, MissedHostSample, Role
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind

# A TCP round trip between two hosts takes 10 to 30 us without any storage (methodology).
NETWORK_S = 20e-6
# Less than a third of the fastest published median of 4 KiB reads of a block device at depth 1
# (8 to 9 us, Optane P4800X): leaves a margin for faster devices and for polling.
MEDIUM_S = 2.5e-6
# A page-cache hit takes 1 to 2 us; the fastest device plus the page cache's work over 8.
PAGE_CACHE_S = 5e-6
SMALLEST_BLOCK = 4096
# Engines that use no storage at all, and engines for memory.
_NO_STORAGE = frozenset({"null", "cpuio", "net", "netsplice", "rdma", "filecreate", "filestat"})
_MEMORY_ENGINES = frozenset({"libpmem", "dev-dax", "pmemblk"})
# Devices and file systems in memory, which are then measured on purpose.
_MEMORY = re.compile(
    r"(?:^|[\W_])(?:pmem|dax|nullb|ram|zram|brd|shm|ramdisk|tmpfs|ramfs)\d*(?![a-z])", re.IGNORECASE
)

# Engines of fio (and Ceph's own tools) with a network protocol of their own.
_NETWORK_ENGINES = frozenset(
    {"rbd", "rados", "http", "nfs", "libiscsi", "nbd", "libhdfs", "gfapi", "gfapi_async"}
    | {"rbd-bench", "rados-bench"}
)
# Words in names of storage whose every read crosses at least a TCP connection. Not DRBD, LINSTOR
# and Portworx, which read a local replica, and not RDMA, which is faster.
_NETWORK_WORDS = re.compile(
    r"ceph\w*|rook|k?rbd|librbd|rados\w*|mayastor|longhorn|jiva|cstor|k?nfs|nbd|iscsi"
    r"|nvmf|nvmeof|nvmetcp|gluster\w*|beegfs|lustre|cifs|smb|azurefile|efs"
)
# File systems whose data is on other machines, as the kernel and coreutils' stat name them.
NETWORK_FILESYSTEMS = frozenset(
    {"ceph", "fuse.ceph", "fuse.ceph-fuse", "nfs", "nfs4", "cifs", "smb3"}
)
_LOCAL = frozenset({"local", "localpv", "hostpath", "lvm", "lvms", "topolvm", "tmpfs", "emptydir"})


def network_of_target(target: Target | None, name: str) -> str:
    """Return why a target's I/O crosses a network, as a clause; empty if that is unknown."""
    if target is not None and target.kind is not None and target.kind.on_ceph:
        return f"the target is {target.kind.value}"
    # The job of a device, and of a directory that others control, names a descriptor.
    if target is not None and target.kind is TargetKind.DEVICE:
        word = _network_word(target.parsed.location.rsplit("/", 1)[-1])
        if word:
            return f"the target's device name contains {word!r}"
    if target is not None and target.kind is TargetKind.DIR:
        word = _network_word(target.parsed.location)
        if word:
            return f"the target's directory contains {word!r}"
    # Of a name made of a file's path only the last part describes the storage.
    word = _network_word(name.rsplit("/", 1)[-1])
    return f"the target's name contains {word!r}" if word else ""


def network_of(evidence: JobEvidence) -> str:
    """Return why the I/O of an entry crosses a network, as a clause; empty if that is unknown."""
    if evidence.trial.network:
        return evidence.trial.network
    extent = evidence.trial.extent
    if extent is not None and extent.filesystem in NETWORK_FILESYSTEMS:
        return f"the file system is {extent.filesystem}"
    return _network_of_job(evidence.job.options)


def _network_of_job(options: JobOptions) -> str:
    """Return why a job's engine or files cross a network, as a clause."""
    if options.engine in _NETWORK_ENGINES:
        return f"the engine is {options.engine}"
    for key in ("filename", "directory"):
        word = _network_word(options.text(key))
        if word:
            return f"the job's {key} contains {word!r}"
    return ""


@lru_cache(maxsize=1024)
def _network_word(name: str) -> str:
    tokens = [token.rstrip("0123456789") for token in re.split(r"[\W_]+", name.lower())]
    if _LOCAL & set(tokens):
        return ""
    for before, token in zip(["", *tokens], tokens, strict=False):
        if _NETWORK_WORDS.fullmatch(token):
            return token
        if before == "nvme" and token in ("tcp", "of"):
            return f"nvme-{token}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The least seconds of a read, and what takes them."""

    seconds: float
    reason: str


def fastest_read(evidence: JobEvidence) -> Limit | None:
    """Return the least possible latency of a read; None without a known limit."""
    options, engine = evidence.job.options, evidence.job.options.engine
    if engine in _NO_STORAGE or engine in _MEMORY_ENGINES:
        return None
    network = network_of(evidence)
    if network:
        return Limit(seconds=NETWORK_S, reason=f"a network round trip takes ({network})")
    layers = (layer.name for layer in evidence.trial.stack)
    names = (options.text("filename"), options.text("directory"), evidence.place.target, *layers)
    if any(_MEMORY.search(name) for name in names):
        return None
    if (evidence.block_size or 0) < SMALLEST_BLOCK:
        return None
    # The kernel reads ahead for sequential reads, which correctly find their data in memory.
    known = evidence.pattern is not None and not evidence.sequential
    if known and options.direct is False and engine in FILE_ENGINES:
        return Limit(seconds=PAGE_CACHE_S, reason="any storage device behind the page cache takes")
    if known or options.direct:
        return Limit(seconds=MEDIUM_S, reason="the fastest storage device takes")
    return None


def may_read_ahead(evidence: JobEvidence) -> bool:
    """Whether this machine may have read the data ahead."""
    return evidence.sequential and not evidence.job.options.direct


# Counters must cover this share of the time of the reads.
_COVERED = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBelow:
    """Bytes read from `devices` during a trial, including its ramp and other processes: at least
    the trial's own reads. `through_zfs`: ZFS is above the devices."""

    read_bytes: int
    devices: tuple[str, ...]
    through_zfs: bool


def read_below(
    stack: Sequence[Layer], samples: Iterable[HostSample | MissedHostSample], ran_s: float
) -> ReadBelow | None:
    """Return the reads of the highest layer whose devices were all counted for the whole trial.

    Args:
        ran_s: seconds of the reads.
    Returns:
        None without such a layer, or if several machines made the load.
    """
    found = [
        sample
        for sample in samples
        if isinstance(sample, HostSample) and Role.CLIENT in sample.roles
    ]
    if len(found) < 2 or len({sample.machine for sample in found}) > 1:
        return None
    first, last = found[0], found[-1]
    if last.elapsed_s - first.elapsed_s < _COVERED * ran_s:
        return None
    for number, layer in enumerate(stack):
        names = layer.devices
        if not names or not all(name in end.disks for name in names for end in (first, last)):
            continue
        grown = [last.disks[name].read_bytes - first.disks[name].read_bytes for name in names]
        if min(grown) < 0:
            return None  # a device was removed and added again
        zfs = any(above.kind is LayerKind.ZFS for above in stack[: number + 1])
        return ReadBelow(read_bytes=sum(grown), devices=names, through_zfs=zfs)
    return None


def compressing_layer(stack: Iterable[Layer]) -> Layer | None:
    """Return the ZFS layer that compresses; None without one."""
    for layer in stack:
        compression = layer.facts.get("compression", "off")
        if layer.kind is LayerKind.ZFS and compression not in ("off", "-", ""):
            return layer
    return None


MIXED = frozenset({"rw", "readwrite", "randrw"})
# fio draws the direction of each I/O at random: the share of reads is within five deviations of
# rwmixread, and within at least this many percentage points.
DEVIATIONS, LEAST_POINTS = 5.0, 0.15
# Percentage points if the number of I/Os is unknown.
UNCOUNTED_POINTS = 0.6
# Usual shares of reads are multiples of this.
USUAL_STEP = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One read and one write figure of a trial, each with its entry, and the reported total."""

    read: Operation
    read_of: JobEvidence
    write: Operation
    write_of: JobEvidence
    total: Operation | None

    @property
    def pure(self) -> bool | None:
        """Whether each was a load of its own, by its pattern. None if a pattern is unknown."""
        patterns = (self.read_of.pattern, self.write_of.pattern)
        return None if None in patterns else not MIXED & set(patterns)


def read_write_split(trial: TrialEvidence) -> Split | None:
    """Return the figures of reads and writes; None unless there is exactly one of each."""
    found: dict[Op, list[tuple[Operation, JobEvidence]]] = {}
    for job in trial.jobs:
        for operation in job.job.operations:
            found.setdefault(operation.op, []).append((operation, job))
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
    """Return reads in percent of all I/Os, and their uncertainty in percentage points; None without
    rates."""
    pairs = (
        (split.read.iops, split.write.iops, False),
        (split.read.bandwidth_bps, split.write.bandwidth_bps, True),
    )
    for read, write, of_bytes in pairs:
        if read and write:
            share = read / (read + write)
            rounding = split.read_of.rounding(read, of_bytes=of_bytes)
            rounding += split.write_of.rounding(write, of_bytes=of_bytes)
            off = _chance_points(split, share) + 100 * share * (1 - share) * rounding
            return 100 * share, off
    return None


def share_is_impossible(trial: TrialEvidence) -> bool | None:
    """Whether no mixed job has this share of reads; None if the load is not mixed, or the share is
    unknown."""
    split = read_write_split(trial)
    found = read_share(split) if split is not None and split.pure is False else None
    if split is None or found is None:
        return None
    share, off = found
    return abs(share - _requested_share(split, share)) > off


def _requested_share(split: Split, share: float) -> float:
    """The requested share of reads in percent; if unknown, the nearest usual one."""
    options = split.read_of.job.options
    if options.whole or "rwmixread" in options.raw:
        return float(options.integer("rwmixread", 50))
    if "rwmixwrite" in options.raw:
        return 100.0 - options.integer("rwmixwrite", 50)
    return USUAL_STEP * round(share / USUAL_STEP)


def _chance_points(split: Split, share: float) -> float:
    """Percentage points by which the share of a mix differs from the request, by chance."""
    counts = [_ios(split.read, split.read_of), _ios(split.write, split.write_of)]
    if None in counts:
        return UNCOUNTED_POINTS
    ios = sum(count or 0.0 for count in counts)
    deviation = 100 * math.sqrt(share * (1 - share) / max(1.0, ios))
    return max(LEAST_POINTS, DEVIATIONS * deviation)


def _ios(operation: Operation, evidence: JobEvidence) -> float | None:
    if operation.total_ios is not None:
        return float(operation.total_ios)
    ran_s = operation.runtime_s or evidence.job.options.seconds("runtime")
    if not ran_s:
        return None
    if operation.iops is not None:
        return operation.iops * ran_s
    if operation.bandwidth_bps is not None and evidence.block_size:
        return operation.bandwidth_bps / evidence.block_size * ran_s
    return None
