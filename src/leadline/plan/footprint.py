"""How much data a plan lays out on a target and writes to it, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from leadline.plan.models import Phase, Plan, Workload
from leadline.plan.target_url import TargetKind, TargetUrl

# Job k of every generated workload works on this file, so that all share what was prefilled.
DATA_FILE = "leadline.{job}.dat"


def client_job(client: int, job: int | str) -> str:
    """What DATA_FILE calls a job of a client; the first client's files are those of a target that
    has no other."""
    return str(job) if client <= 1 else f"c{client}.{job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Data that the generated workloads of one target need.

    `files` holds the size in bytes of each job's file by its name: job k of any workload uses file
    k, so workloads share what was prefilled once; every client has its own. `span` is the same for
    a device, where job k starts at k x size, and each client behind the one before it.
    `job_file_bytes` is what the largest job file of the user lays out by itself; `clients` is the
    highest number of load generators at once, 0 where there is only the target's own. `streams`:
    all that lies on the target is sent, and received beside it, by one workload at least.
    """

    files: Mapping[str, int]
    span: int
    job_file_bytes: int
    writes: bool
    clients: int = 0
    streams: bool = False

    @property
    def total_bytes(self) -> int:
        return sum(self.files.values()) + self.job_file_bytes

    @property
    def capacity_bytes(self) -> int:
        """What a file system has to take at most."""
        return self.total_bytes * (2 if self.streams else 1)


def target_footprint(plan: Plan, target: str) -> Footprint:
    """What a plan lays out on one of its targets; on a StorageClass, on each of its volumes."""
    workloads = plan.workloads_on(target)
    if plan.target(target).parsed.kind.on_kubernetes:
        workloads = tuple(one.model_copy(update={"clients": 0}) for one in workloads)
    return footprint_of(workloads)


def footprint_of(workloads: Iterable[Workload]) -> Footprint:
    files: dict[str, int] = {}
    span = job_file_bytes = clients = 0
    writes = streams = False
    for workload in workloads:
        writes = writes or workload.writes
        streams = streams or workload.streams
        clients = max(clients, workload.generators)
        if workload.job_file:
            job_file_bytes = max(job_file_bytes, workload.job_file.footprint_bytes)
        for client, phase in _driven(workload):
            for job in range(phase.numjobs):
                name = DATA_FILE.format(job=client_job(client, job))
                files[name] = max(files.get(name, 0), phase.size)
            span = max(span, client * phase.stretch)
    return Footprint(
        files=files,
        span=max(span, job_file_bytes),
        job_file_bytes=job_file_bytes,
        writes=writes,
        clients=clients,
        streams=streams,
    )


def _driven(workload: Workload) -> Iterator[tuple[int, Phase]]:
    """Every client with each phase that it carries out; neighbours come behind the clients."""
    clients = max(1, workload.clients)
    for client in range(1, clients + 1):
        for phase in workload.phases:
            yield client, phase
    if workload.neighbour is not None:
        for client in range(clients + 1, clients + workload.neighbours + 1):
            yield client, workload.neighbour


# How the targets of a plan divide the image that they share in a pool of Ceph.

OBJECT_BYTES = 4 << 20
# Metadata and journal of ext4, and the room that it needs not to become slow.
_EXT4_SHARE, _EXT4_MORE = 1.15, 128 << 20
# A pool of ZFS writes in new places only and slows down as it fills: the data, a copy that is
# received, half as much again, and what a pool keeps for itself.
_ZFS_SHARE, _ZFS_MORE = 2.5, 512 << 20


class Part(Enum):
    """Sorts of targets, in the order of their stretches."""

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


def image_of(url: TargetUrl) -> tuple[str, str]:
    """Targets of one cluster that have this in common share an image: the pool, and the pool of
    its data where one is named."""
    return url.pool, url.options.get("data_pool", "")


def layout(wanted: Sequence[tuple[Part, Footprint]]) -> dict[Part, Stretch]:
    """The stretches of the parts that any target wants, one behind the other, in whole objects.
    That of librbd comes first, since fio's engine begins at 0; its targets all work on the same,
    one after the other."""
    found: dict[Part, Stretch] = {}
    offset = 0
    for part in Part:
        mine = [footprint for one, footprint in wanted if one is part]
        if not mine:
            continue
        size = -(-_needed(part, mine) // OBJECT_BYTES) * OBJECT_BYTES
        found[part] = Stretch(offset=offset, size=size)
        offset += size
    return found


def image_bytes(wanted: Sequence[tuple[Part, Footprint]]) -> int:
    return sum(stretch.size for stretch in layout(wanted).values())


def shared_layouts(plan: Plan) -> Mapping[tuple[str, str], dict[Part, Stretch]]:
    """The layout of every shared image of a plan, by its cluster and pool."""
    wanted: dict[tuple[str, str, str], list[tuple[Part, Footprint]]] = {}
    for target in plan.targets:
        part = part_of(target.parsed)
        if part is not None:
            key = (target.cluster, *image_of(target.parsed))
            wanted.setdefault(key, []).append((part, target_footprint(plan, target.name)))
    return {
        (cluster, data_pool or pool): layout(one)
        for (cluster, pool, data_pool), one in wanted.items()
    }


def _needed(part: Part, footprints: Sequence[Footprint]) -> int:
    """Bytes of a stretch."""
    match part:
        case Part.LIBRBD:
            return max(one.span for one in footprints)
        case Part.EXT4:
            return int(sum(one.total_bytes for one in footprints) * _EXT4_SHARE) + _EXT4_MORE
        case Part.ZFS:
            return int(sum(one.total_bytes for one in footprints) * _ZFS_SHARE) + _ZFS_MORE
