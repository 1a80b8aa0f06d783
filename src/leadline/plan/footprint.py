"""How much data a plan lays out on a target and writes to it, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from leadline.plan.models import Phase, Plan, Workload

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
    def room_bytes(self) -> int:
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
