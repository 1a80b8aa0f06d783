"""The footprint of a plan: the data that its workloads need on each target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from leadline.plan.models import Plan
from leadline.plan.target_url import TargetKind, TargetUrl, Vdev
from leadline.plan.volume_request import VolumeSharing
from leadline.plan.workload import Phase, Workload

# Job k of every generated workload uses this file, so that all workloads share the prefill.
DATA_FILE = "leadline.{job}.dat"
# The write-ahead log of PostgreSQL at its `max_wal_size`, and a new database cluster.
DATABASE_LOG_BYTES = (1 << 30) + (64 << 20)
# The objects of a job's data where fio's rados engine does the I/O; fio puts in their numbers.
OBJECT_NAME = "{prefix}.{job}.{number}"
# The block size in which data is written before trials.
PREFILL_BLOCK = 1 << 20


def client_job(client: int, job: int | str) -> str:
    """The job's part of the file name; the first client has the file names of a single client."""
    return str(job) if client <= 1 else f"c{client}.{job}"


def job_of(file: str) -> str:
    """The job's part of the name of a `DATA_FILE`."""
    begin, end = DATA_FILE.split("{job}")
    return file.removeprefix(begin).removesuffix(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Data that the generated workloads of one target need.

    `files`: the size in bytes of each job's file by name; job k of any workload uses file k, file 0
    where its jobs share one, and every client has its own files. `span`: the same for a device,
    where job k starts at k x size, and each client after the previous one. `job_file_bytes`: what
    the user's largest job file creates. `own_bytes`: what the largest benchmark program with its
    own data creates in a trial. `clients`: the highest number of load generators, 0 without
    any. `streams`: a workload sends all data of the target and receives a copy. `source_bytes`:
    what the datasets of the most streams at the same time hold. `limit_bps`: the most bytes per
    second that the prefill may write there, by the guard's budget.
    """

    files: Mapping[str, int]
    span: int
    job_file_bytes: int
    writes: bool
    own_bytes: int = 0
    clients: int = 0
    streams: bool = False
    source_bytes: int = 0
    limit_bps: float | None = None

    @property
    def total_bytes(self) -> int:
        return self.prefilled_bytes + self.own_bytes

    @property
    def prefilled_bytes(self) -> int:
        """What is written before the trials."""
        return sum(self.files.values()) + self.job_file_bytes

    @property
    def capacity_bytes(self) -> int:
        """The largest size that a file system has to hold, with received copies."""
        return self.sent_bytes + (self.total_bytes if self.streams else 0)

    @property
    def sent_bytes(self) -> int:
        """The same without received copies."""
        return self.total_bytes + self.source_bytes


def target_footprint(plan: Plan, target: str) -> Footprint:
    """The footprint of one target; on a StorageClass, that of each volume."""
    workloads = plan.workloads_on(target)
    url = plan.target(target).parsed
    if url.kind.on_kubernetes:
        own = url.request.sharing is VolumeSharing.OWN_FILES
        clients = url.request.count if own else 0
        workloads = tuple(item.model_copy(update={"clients": clients}) for item in workloads)
    return footprint_of(workloads)


def footprint_of(workloads: Iterable[Workload]) -> Footprint:
    files: dict[str, int] = {}
    span = job_file_bytes = own_bytes = clients = source_bytes = 0
    writes = streams = False
    for workload in workloads:
        if workload.lifecycle:
            continue  # its trials write their own data
        writes = writes or workload.writes or workload.own_data
        streams = streams or workload.streams
        if workload.streams and workload.phases[0].numjobs > 1:
            source_bytes = max(source_bytes, workload.phases[0].stretch)
        clients = max(clients, workload.generators)
        if workload.job_file:
            job_file_bytes = max(job_file_bytes, workload.job_file.footprint_bytes)
        if workload.own_data:
            size = sum(phase.size for phase in workload.phases)
            log = DATABASE_LOG_BYTES if workload.database else 0
            own_bytes = max(own_bytes, size + log)
            continue
        for client, phase in _driven(workload):
            for job in range(1 if phase.sharing is not None else phase.numjobs):
                name = DATA_FILE.format(job=client_job(client, job))
                files[name] = max(files.get(name, 0), phase.size)
            span = max(span, client * phase.stretch)
    return Footprint(
        files=files,
        span=max(span, job_file_bytes),
        job_file_bytes=job_file_bytes,
        own_bytes=own_bytes,
        writes=writes,
        clients=clients,
        streams=streams,
        source_bytes=source_bytes,
    )


def _driven(workload: Workload) -> Iterator[tuple[int, Phase]]:
    """Every client with each phase that it runs; neighbours come after the clients."""
    clients = max(1, workload.clients)
    for client in range(1, clients + 1):
        for phase in workload.phases:
            yield client, phase
    if workload.neighbour is not None:
        for client in range(clients + 1, clients + workload.neighbours + 1):
            yield client, workload.neighbour


# The layout of a shared image in a Ceph pool.
OBJECT_BYTES = 4 << 20
# Metadata and journal of ext4, and the free space that it needs to stay fast.
_EXT4_SHARE, _EXT4_MORE = 1.15, 128 << 20
# ZFS writes to new blocks alone and slows down as it fills: the data, a received copy, half as
# much again, and the reserve of a pool.
_ZFS_SHARE, _ZFS_MORE = 2.5, 512 << 20


class Part(Enum):
    """Kinds of targets, in the order of their stretches."""

    LIBRBD = "librbd"
    EXT4 = "ext4"
    ZFS = "ZFS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes from `offset` on."""

    offset: int
    size: int


def part_of(url: TargetUrl) -> Part | None:
    """None for a target that shares no image."""
    if url.kind is TargetKind.RBD:
        return Part.LIBRBD if url.options.get("shared") == "yes" else None
    parts = {TargetKind.EXT4_ON_RBD: Part.EXT4, TargetKind.ZFS_ON_RBD: Part.ZFS}
    return parts.get(url.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageKey:
    """What targets of one cluster on the same shared image have in common: the Ceph pools, and how
    the pool of ZFS is made, with its vdevs on further images."""

    pool: str
    data_pool: str
    zpool: tuple[tuple[str, str], ...]
    vdevs: tuple[Vdev, ...]


def image_of(url: TargetUrl) -> ImageKey:
    return ImageKey(
        pool=url.pool,
        data_pool=url.options.get("data_pool", ""),
        zpool=tuple(url.zpool_options.items()),
        vdevs=url.vdevs,
    )


def layout(wanted: Sequence[tuple[Part, Footprint]]) -> dict[Part, Stretch]:
    """The stretches of the requested parts, one after the other, in whole objects.

    That of librbd is first, as fio's engine starts at offset 0; all its targets use the same one.
    """
    found: dict[Part, Stretch] = {}
    offset = 0
    for part in Part:
        own = [footprint for kind, footprint in wanted if kind is part]
        if not own:
            continue
        size = -(-_needed(part, own) // OBJECT_BYTES) * OBJECT_BYTES
        found[part] = Stretch(offset=offset, size=size)
        offset += size
    return found


def image_bytes(wanted: Sequence[tuple[Part, Footprint]]) -> int:
    return sum(stretch.size for stretch in layout(wanted).values())


def shared_layouts(plan: Plan) -> Mapping[tuple[str, ImageKey], dict[Part, Stretch]]:
    """The layout of every shared image of a plan, by its cluster."""
    wanted: dict[tuple[str, ImageKey], list[tuple[Part, Footprint]]] = {}
    for target in plan.own_targets:
        part = part_of(target.parsed)
        if part is not None:
            key = (target.cluster, image_of(target.parsed))
            wanted.setdefault(key, []).append((part, target_footprint(plan, target.name)))
    return {key: layout(parts) for key, parts in wanted.items()}


def _needed(part: Part, footprints: Sequence[Footprint]) -> int:
    """Bytes of a stretch."""
    total = sum(footprint.total_bytes for footprint in footprints)
    match part:
        case Part.LIBRBD:
            return max(footprint.span for footprint in footprints)
        case Part.EXT4:
            return int(total * _EXT4_SHARE) + _EXT4_MORE
        case Part.ZFS:
            sources = sum(footprint.source_bytes for footprint in footprints)
            return int((total + sources) * _ZFS_SHARE) + _ZFS_MORE
