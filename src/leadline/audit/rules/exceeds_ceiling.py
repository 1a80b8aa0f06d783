"""exceeds-ceiling: more than the disks, cores, links or single threads below can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from leadline.audit.evidence import JobEvidence, PoolMedia, TrialEvidence
from leadline.audit.physics import network_of
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.host_rates import by_machine
from leadline.formats.result import FormatError
from leadline.formats.watch_records import HostSample, Role
from leadline.formats.zfs.stream import StreamReport
from leadline.inventory.layer import LayerKind
from leadline.metrics import Op
from leadline.model.bounds import (
    CONTROLLER_BPS,
    CONTROLLER_IOPS,
    SPINDLE_BPS,
    SPINDLE_IOPS,
    Resources,
    Station,
    creation_capacity,
    find_capacities,
    medium_capacity,
    receive_capacity,
    replicated_io,
    streamed_bytes,
)
from leadline.text import count_text
from leadline.units import format_bandwidth, format_size

_RANDOM = frozenset({"randread", "randwrite", "randrw"})
_OF_CEPH = frozenset({"rbd", "rados"})
# Rates over the whole trial and those of the counters differ by the edges of the trial.
_EDGES = 1.05
# If less than this share of the data crosses the machine's own loopback, it crosses its links.
_LOOPED = 0.1
# A hard disk's own cache answers reads of a smaller span.
_CACHE_BYTES = 1 << 30
_REMEDY = (
    "Find the cache (a span below memory size, unwritten data, rbd cache), and measure again "
    "without it."
)


@dataclass(kw_only=True)
class _Load:
    """One operation of a workload, of all entries together. `random`, `direct`, `creates` (files
    without data): of all of them."""

    iops: float = 0.0
    bandwidth_bps: float = 0.0
    block_bytes: int = 0
    span_bytes: int = 0
    random: bool = True
    direct: bool = True
    networked: bool = True
    creates: bool = True
    engines: set[str] = field(default_factory=set)


@rule(
    "exceeds-ceiling",
    "More than the disks, cores, links or single threads below can do, by the inventory.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    for (workload, op), load in _loads(trial).items():
        found = (
            _above_osds(trial, op, load)
            or _above_cores(trial, op, load)
            or _above_links(trial, op, load)
            or _above_drives(trial, op, load)
            or _above_ranks(trial, op, load)
            or _above_receive(trial)
        )
        if found is not None:
            yield RuleFinding(
                severity=found.severity,
                op=op,
                workload=workload,
                evidence=found.evidence,
                message=found.message,
                remedy=found.remedy,
            )


def _loads(trial: TrialEvidence) -> Mapping[tuple[str, Op], _Load]:
    """Entries of one name ran together; several names may have run one after the other."""
    found: dict[tuple[str, Op], _Load] = {}
    for evidence in trial.jobs:
        for operation in evidence.job.operations:
            if operation.op not in (Op.READ, Op.WRITE):
                continue
            load = found.setdefault((evidence.place.workload, operation.op), _Load())
            load.iops += operation.iops or 0.0
            load.bandwidth_bps += operation.bandwidth_bps or 0.0
            load.block_bytes = max(load.block_bytes, evidence.block_size or 0)
            load.span_bytes += evidence.span_bytes or 0
            # Sequential I/Os are merged on the I/O path.
            load.random &= evidence.pattern in _RANDOM
            load.direct &= _bypasses_cache(evidence)
            load.networked &= bool(network_of(evidence))
            load.creates &= evidence.job.options.file_op is Op.WRITE
            load.engines.add(evidence.job.options.engine or "")
    return found


def _bypasses_cache(evidence: JobEvidence) -> bool:
    options = evidence.job.options
    return options.engine in _OF_CEPH or options.direct is True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Above:
    severity: Severity
    evidence: Mapping[str, float | None]
    message: str
    remedy: str = _REMEDY


def _above_osds(trial: TrialEvidence, op: Op, load: _Load) -> _Above | None:
    """Random I/Os against the bench of the OSDs. A lab's disks are files in memory."""
    pool = trial.pool
    if pool is None or trial.on_lab or not load.random:
        return None
    io = replicated_io(load.block_bytes, pool.copies, write=op is Op.WRITE)
    ceiling = medium_capacity(io, pool.flash, pool.hard_disks)
    if load.iops <= ceiling:
        return None
    # A virtual disk may appear as a rotating disk, so its class is uncertain.
    certain = not pool.hard_disks
    copies = f", {pool.copies} OSD writes for each" if op is Op.WRITE else ""
    return _Above(
        severity=Severity.ERROR if certain else Severity.WARNING,
        evidence={
            "iops": load.iops,
            "ceiling_iops": ceiling,
            "flash_osds": pool.flash,
            "hard_disk_osds": pool.hard_disks,
            "copies": pool.copies,
        },
        message=f"{load.iops:,.0f} random {op.value}s per second exceed the {ceiling:,.0f} "
        f"of the OSDs of the pool {pool.pool} ({_osds(pool)}{copies}). A cache answered"
        + ("." if certain else ", or the device class hdd is wrong (virtual disks)."),
    )


def _osds(pool: PoolMedia) -> str:
    parts = ((pool.flash, "flash"), (pool.hard_disks, "hard disk"))
    return " and ".join(f"{number} {name}" for number, name in parts if number)


def _above_cores(trial: TrialEvidence, op: Op, load: _Load) -> _Above | None:
    """Random I/Os on Ceph against the least processor time of OSDs and clients."""
    if not load.random or not load.engines <= _OF_CEPH:
        return None
    client_cores = float(sum(machine.cores for machine in _load_generators(trial))) or None
    pool = trial.pool
    # Of an unknown pool, and of a lab's, one copy is the least work; shards may cost less than
    # copies.
    copies = 1 if pool is None or pool.coded else pool.copies
    io = replicated_io(load.block_bytes, copies, write=op is Op.WRITE)
    resources = Resources(
        osd_cores=client_cores if trial.on_lab else pool.cores if pool else None,
        shared_cores=trial.on_lab,
        client_cores=client_cores,
    )
    found = find_capacities(resources, load.block_bytes, io)
    station = min(found, key=lambda station: found[station], default=None)
    if station is None or load.iops <= found[station]:
        return None
    ceiling = found[station]
    cores = resources.osd_cores if station is Station.OSD_CPU else resources.client_cores
    whose = "the OSDs" if station is Station.OSD_CPU else "the load generators"
    return _Above(
        severity=Severity.ERROR,
        evidence={"iops": load.iops, "ceiling_iops": ceiling, "cores": cores},
        message=f"{load.iops:,.0f} random {op.value}s per second exceed the {ceiling:,.0f} that "
        f"{cores:g} cores of {whose} can do. A cache answered.",
    )


def _above_links(trial: TrialEvidence, op: Op, load: _Load) -> _Above | None:
    """Data from or to other machines against the links of the load generator."""
    if not trial.physical or trial.on_lab or not load.networked or not load.direct:
        return None
    machines = _load_generators(trial)
    if len(machines) != 1 or Role.STORAGE in machines[0].roles or not machines[0].links_bps:
        return None
    links_bps = sum(machines[0].links_bps.values())
    if load.bandwidth_bps <= _EDGES * links_bps or _looped(trial, load):
        return None
    return _Above(
        severity=Severity.ERROR,
        evidence={"bandwidth_bps": load.bandwidth_bps, "ceiling_bps": links_bps},
        message=f"{format_bandwidth(load.bandwidth_bps)} MiB/s of {op.value}s exceed the "
        f"{format_bandwidth(links_bps)} MiB/s of the load generator's links. A cache answered.",
    )


def _looped(trial: TrialEvidence, load: _Load) -> bool:
    """Whether the data may have come from this machine itself."""
    series = [] if isinstance(trial.machines, FormatError) else by_machine(trial.machines).values()
    for samples in series:
        first, last = samples[0], samples[-1]
        seconds = last.elapsed_s - first.elapsed_s
        if "lo" not in first.interfaces or "lo" not in last.interfaces or seconds <= 0:
            continue
        grown = last.interfaces["lo"].received_bytes - first.interfaces["lo"].received_bytes
        if grown >= _LOOPED * load.bandwidth_bps * seconds:
            return True
    return False


def _above_drives(trial: TrialEvidence, op: Op, load: _Load) -> _Above | None:
    """Direct I/O on local drives against what such drives can do."""
    drives = trial.drives
    caches = any(layer.kind in (LayerKind.ZFS, LayerKind.FUSE) for layer in trial.stack)
    if drives is None or caches or not load.direct or not trial.physical:
        return None
    iops = drives.controllers * CONTROLLER_IOPS + drives.spindles * SPINDLE_IOPS
    bps = drives.controllers * CONTROLLER_BPS + drives.spindles * SPINDLE_BPS
    # A hard disk's own cache takes writes, and answers reads of a small span.
    cached = drives.spindles and (op is Op.WRITE or load.span_bytes < _CACHE_BYTES)
    kinds = ((drives.controllers, "NVMe"), (drives.spindles, "hard disk"))
    names = " and ".join(f"{number} {name}" for number, name in kinds if number)
    severity = Severity.WARNING if drives.spindles else Severity.ERROR
    if load.random and not cached and load.iops > iops:
        return _Above(
            severity=severity,
            evidence={"iops": load.iops, "ceiling_iops": iops},
            message=f"{load.iops:,.0f} random {op.value}s per second exceed the {iops:,.0f} that "
            f"the local drives can do ({names}). A cache answered.",
        )
    if not cached and load.bandwidth_bps > _EDGES * bps:
        return _Above(
            severity=severity,
            evidence={"bandwidth_bps": load.bandwidth_bps, "ceiling_bps": bps},
            message=f"{format_bandwidth(load.bandwidth_bps)} MiB/s of {op.value}s exceed the "
            f"{format_bandwidth(bps)} MiB/s that the local drives can do ({names}). A cache "
            "answered.",
        )
    return None


def _above_ranks(trial: TrialEvidence, op: Op, load: _Load) -> _Above | None:
    """Files created on CephFS: each is a request to an MDS, which does one at a time."""
    if op is not Op.WRITE or not load.creates or not trial.mds_ranks:
        return None
    ceiling = creation_capacity(trial.mds_ranks)
    if load.iops <= ceiling:
        return None
    return _Above(
        severity=Severity.ERROR,
        evidence={"iops": load.iops, "ceiling_iops": ceiling, "mds_ranks": trial.mds_ranks},
        message=f"{load.iops:,.0f} files created per second exceed the {ceiling:,.0f} that "
        f"{count_text(trial.mds_ranks, 'MDS rank')} can create. They are not on this CephFS.",
        remedy="Check that the path is on the mounted CephFS, and measure again.",
    )


def _above_receive(trial: TrialEvidence) -> _Above | None:
    """Streams of ZFS: one thread receives the records of each."""
    stream = trial.stream
    if not isinstance(stream, StreamReport) or not stream.record.record_bytes:
        return None
    record = stream.record.record_bytes
    jobs = stream.record.request.numjobs
    ceiling_bps = jobs * receive_capacity(record) * streamed_bytes(record)
    if stream.bandwidth_bps <= ceiling_bps:
        return None
    return _Above(
        severity=Severity.ERROR,
        evidence={
            "bandwidth_bps": stream.bandwidth_bps,
            "ceiling_bps": ceiling_bps,
            "record_bytes": record,
        },
        message=f"{format_bandwidth(stream.bandwidth_bps)} MiB/s received exceed the "
        f"{format_bandwidth(ceiling_bps)} MiB/s that "
        f"{'one thread' if jobs == 1 else f'{jobs} threads'} can receive in records of "
        f"{format_size(record)}. The record size or the time is wrong.",
        remedy="Check the recordsize of the dataset and the times in zfs-stream.json, and measure "
        "again.",
    )


def _load_generators(trial: TrialEvidence) -> list[HostSample]:
    """Return the last sample of each load generator; empty where others may have made load."""
    elsewhere = not trial.load_here or any(job.job.host for job in trial.jobs)
    if elsewhere or isinstance(trial.machines, FormatError):
        return []
    last = [samples[-1] for samples in by_machine(trial.machines).values()]
    return [sample for sample in last if Role.CLIENT in sample.roles]
