"""What is known of the storage below one target: pool, hosts, OSDs, cores, links, media, network.

A `System` is read from a run's archive, or from the dumps of a cluster. `bound_of` makes the bounds
of layer L0 from it. What is not known stays None and bounds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from leadline.analysis.comparison import Side
from leadline.analysis.explain.conditions import (
    client_place,
    dumps_of,
    image_below,
    measured_network,
    placement_groups,
)
from leadline.analysis.explain.round_trips import network_time_s
from leadline.analysis.explain.systems import Network, PoolFacts, find_pool_facts
from leadline.analysis.predict.facts import Bound, Refusal
from leadline.analysis.workloads import STREAMING_BYTES
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.errors import LeadlineError
from leadline.formats.host_rates import by_machine
from leadline.formats.result import FormatError
from leadline.formats.watch_records import HostSample, Role
from leadline.inventory.ceph.dumps import Dumps, read_client_place, read_lab
from leadline.inventory.ceph.model import CephfsRole, CephInventory, PoolType
from leadline.inventory.ceph.topology import read_placement_groups
from leadline.inventory.diff.ceph import serving_osds
from leadline.inventory.facts import cluster_facts, find_filesystem, target_facts
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.system import system_of as read_dumps
from leadline.inventory.zfs import zfs_inventory
from leadline.metrics import Op
from leadline.model.bounds import (
    Medium,
    Resources,
    Station,
    StorageIo,
    coded_io,
    creation_capacity,
    find_capacities,
    receive_capacity,
    replicated_io,
    streamed_bytes,
)
from leadline.plan.facts import ClusterFacts
from leadline.plan.lab import LabDescription, Store
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind

# Failure domains below which two copies may share a host.
_BELOW_HOST = ("osd",)
_FLASH = ("ssd", "nvme")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The storage below one target; None: unknown.

    `hosts` and `osds` are those that the pool's rule chooses from. `osd_cores` serve one OSD. On a
    lab all daemons and the clients share `shared_cores`; `limited`: the cores of its OSDs are
    limited, so that they are fewer. `osd_link_bps` is the link of one OSD host, each way.
    `client_cores` and `client_link_bps` are those of all load generators; `client_on_osd_host`: a
    load generator may be on an OSD host. `ranks` are the MDS that its CephFS has at most,
    `target_cores` the polled cores of an NVMe/TCP target, `record_bytes` the record size of ZFS.
    `medium_s` is the latency of the medium where it was given. `clients` and `depth` replace those
    of a load level: load generators, and I/Os in flight of each job. `refusals` are why a change of
    it could not be applied.
    """

    target: str = ""
    kind: TargetKind | None = None
    pool: PoolFacts | None = None
    network: Network | None = None
    hosts: int | None = None
    osds: int | None = None
    osd_cores: float | None = None
    shared_cores: float | None = None
    limited: bool = False
    medium: Medium | None = None
    medium_s: float | None = None
    osd_link_bps: float | None = None
    client_cores: float | None = None
    client_link_bps: float | None = None
    client_on_osd_host: bool = True
    ranks: int | None = None
    target_cores: float | None = None
    record_bytes: int | None = None
    on_lab: bool = False
    clients: int | None = None
    depth: int | None = None
    refusals: tuple[Refusal, ...] = ()

    @property
    def total_osd_cores(self) -> float | None:
        """Cores of all OSDs; on a lab at most those of its machine."""
        known = [] if self.shared_cores is None else [self.shared_cores]
        if self.osd_cores is not None and self.osds is not None:
            known.append(self.osd_cores * self.osds)
        return min(known, default=None)

    @property
    def shares_cores(self) -> bool:
        """Whether OSDs and clients compete for the same cores, so that more OSDs add none."""
        return self.shared_cores is not None and not self.limited


def system_of(run: Run, target: str) -> System:
    """Return what a run's archive has on the system of a target; unreadable parts are unknown."""
    planned = run.plan.target(target)
    side = Side(name="", run=run, targets={target: target}, figures=(), findings=())
    dumps = dumps_of(side, "start")
    given = run.plan.cluster(planned.cluster).facts if planned.cluster else None
    inventory, around, lab = _read(dumps)
    found = _of_inventory(
        planned,
        inventory,
        around,
        find_pool_facts(
            inventory,
            planned,
            around=around,
            given=given,
            groups=placement_groups(side, dumps),
            client=client_place(side, dumps, inventory, planned),
            image=image_below(side, target),
        ),
        given,
    )
    if found.record_bytes is None and planned.kind is not None and planned.kind.on_zfs:
        found = replace(found, record_bytes=_record_bytes(run, target))
    host = run.inventory("start")
    machines = _machines(run, target)
    if lab is not None or _is_lab(run, planned):
        cores = host.cores if host is not None else None
        found = _of_lab(found, lab, cores)
    elif found.osd_cores is None:
        found = replace(found, osd_cores=_osd_cores(found, machines))
    found = replace(found, target=target, network=measured_network(side, target))
    if found.on_lab:
        return found
    found = _with_clients(
        found, machines, trusted=host is not None and host.virtualization == "none"
    )
    # Data of a local disk crosses no link, and ZFS may compress it or answer from its cache.
    crosses = planned.kind is not None and planned.kind.on_ceph and not planned.kind.on_zfs
    return found if crosses else replace(found, client_link_bps=None)


def systems_of_dumps(dumps: Dumps) -> tuple[System, ...]:
    """Return the system of each pool with data of a cluster, without a network between zones, which
    no dump has. Raises LeadlineError(`dumps-invalid`)."""
    found = read_dumps(dumps)
    lab = read_lab(dumps)
    groups = read_placement_groups(dumps)
    client = read_client_place(dumps)
    systems = []
    for pool in found.ceph.pools if found.ceph else ():
        if pool.cephfs_role is CephfsRole.METADATA or pool.name.startswith("."):
            continue
        target = Target(name=pool.name, url="")
        facts = find_pool_facts(
            found.ceph, target, around=found.kubernetes, groups=groups, client=client
        )
        system = _of_inventory(target, found.ceph, found.kubernetes, facts, None)
        systems.append(replace(_of_lab(system, lab, None) if lab else system, target=pool.name))
    return tuple(systems)


def _read(
    dumps: Dumps,
) -> tuple[CephInventory | None, KubernetesInventory | None, LabDescription | None]:
    if not dumps:
        return None, None, None
    try:
        found = read_dumps(dumps)
        return found.ceph, found.kubernetes, read_lab(dumps)
    except LeadlineError:
        return None, None, None  # the page of the run reports it


def _record_bytes(run: Run, target: str) -> int | None:
    """Return the record size that the dataset of a target has by itself."""
    try:
        zfs = zfs_inventory(run.target_dumps(target))
    except LeadlineError:
        return None  # the page of the run reports it
    return zfs.dataset.record_bytes if zfs is not None and zfs.dataset is not None else None


def _is_lab(run: Run, target: Target) -> bool:
    return any(
        cluster.name == target.cluster and cluster.lab is not None for cluster in run.plan.clusters
    )


def _of_inventory(
    target: Target,
    inventory: CephInventory | None,
    around: KubernetesInventory | None,
    pool: PoolFacts | None,
    given: ClusterFacts | None,
) -> System:
    facts, cluster = target_facts(inventory, target, around), cluster_facts(inventory, given)
    osds, hosts, medium = cluster.osds, cluster.nodes, _medium((facts.media or "").lower())
    if inventory is not None and facts.pool is not None:
        serving = [osd for osd in serving_osds(inventory, [facts.pool]) if osd.up and osd.is_in]
        osds = len(serving) or None
        hosts = len({osd.host for osd in serving if osd.host}) or None
        found = {_medium(osd.device_class or "") for osd in serving}
        medium = found.pop() if len(found) == 1 else None
    cores = None
    limits = [
        daemon.cpu_limit
        for rook in (around.ceph_clusters if around else ())
        for daemon in rook.resources
        if daemon.daemon == "osd" and daemon.cpu_limit
    ]
    if limits:
        cores = max(limits)
    elif facts.cores is not None and osds:
        cores = facts.cores / osds
    elif cluster.cores_per_node is not None and hosts and osds:
        cores = cluster.cores_per_node * hosts / osds
    engines = around.io_engines if around is not None else ()
    polled = facts.cores if osds is None else None
    if target.kind is TargetKind.STORAGE_CLASS and pool is None and len(engines) == 1:
        polled = float(len(engines[0].cores)) or None
    filesystem = find_filesystem(inventory, target, around)
    on_zfs = target.kind is not None and target.kind.on_zfs
    return System(
        kind=target.kind,
        pool=pool,
        hosts=hosts,
        osds=osds,
        osd_cores=cores,
        medium=medium,
        ranks=filesystem.most_ranks if filesystem is not None else None,
        target_cores=polled,
        record_bytes=target.parsed.record_bytes if on_zfs else None,
    )


def _medium(name: str) -> Medium | None:
    if name in ("hdd", "disk"):
        return Medium.DISK
    return Medium.FLASH if name in _FLASH else None


def _of_lab(system: System, lab: LabDescription | None, cores: int | None) -> System:
    """Return the system of a lab: its disks are files, and one machine has all of its cores."""
    system = replace(
        system,
        on_lab=True,
        medium=None,
        osd_cores=None,
        shared_cores=None if cores is None else float(cores),
        client_cores=None if cores is None else float(cores),
    )
    if lab is None:
        return system
    quota = None if lab.cpu_per_host is None else lab.cpu_per_host / lab.osds_per_host
    # Quotas that add up to more than the machine has limit nothing.
    limited = quota is not None and (cores is None or quota * lab.osds < cores)
    return replace(
        system,
        medium=None if lab.store is Store.BLUESTORE else Medium.MEMORY,
        osd_cores=quota,
        limited=limited,
    )


def _machines(run: Run, target: str) -> Mapping[str, Sequence[HostSample]]:
    """Return the samples of the first completed trial of a target that has some."""
    for trial in run.trials:
        if trial.record.target != target or trial.record.status is not TrialStatus.COMPLETED:
            continue
        try:
            found = by_machine(trial.resources)
        except FormatError:
            continue  # the audit reports it
        if found:
            return found
    return {}


def _osd_cores(system: System, machines: Mapping[str, Sequence[HostSample]]) -> float | None:
    """Return the cores of one OSD if all OSD hosts were sampled."""
    storage = [samples[-1] for samples in machines.values() if Role.STORAGE in samples[-1].roles]
    if not system.osds or not system.hosts or len(storage) != system.hosts:
        return None
    return sum(sample.cores for sample in storage) / system.osds


def _with_clients(
    system: System, machines: Mapping[str, Sequence[HostSample]], *, trusted: bool
) -> System:
    """Add what the samples have on load generators. `trusted`: links report their real speed, which
    those of virtual machines need not."""
    last = [samples[-1] for samples in machines.values()]
    clients = [sample for sample in last if Role.CLIENT in sample.roles]
    storage = [sample for sample in last if Role.STORAGE in sample.roles]
    shared = any(Role.STORAGE in sample.roles for sample in clients)
    link_bps = None
    if trusted and storage and len(storage) == system.hosts:
        total = links_bps(storage)
        link_bps = None if total is None else total / len(storage)
    return replace(
        system,
        osd_link_bps=link_bps,
        client_cores=float(sum(sample.cores for sample in clients)) if clients else None,
        # What a client on an OSD host reads there crosses no link.
        client_link_bps=links_bps(clients) if trusted and not shared else None,
        client_on_osd_host=not storage or any(Role.CLIENT in sample.roles for sample in storage),
    )


def links_bps(machines: Iterable[HostSample]) -> float | None:
    """Add up the links of machines; None if one of them has no link of a known speed, or one that
    carries data without it."""
    total = 0.0
    for machine in machines:
        active = {name for name in machine.interfaces if name != "lo"}
        if not machine.links_bps or not active:
            return None
        total += sum(machine.links_bps.values())
    return total or None


# --- bounds --------------------------------------------------------------------------------------


def storage_io(pool: PoolFacts, op: Op, block_bytes: float, *, streaming: bool) -> StorageIo:
    """Return what an I/O makes the OSDs of a pool do; `streaming` I/Os cover whole stripes."""
    write = op is Op.WRITE
    if pool.type is PoolType.REPLICATED:
        return replicated_io(block_bytes, pool.size, write=write)
    return coded_io(
        block_bytes,
        pool.k,
        pool.m,
        write=write,
        whole_stripes=streaming,
        only_needed=pool.fast_erasure,
    )


def is_streaming(block_bytes: float | None) -> bool:
    return block_bytes is not None and block_bytes >= STREAMING_BYTES


def resources_of(system: System) -> Resources:
    """Return the resources of a system that bound its reads and writes. Media of disks do not: a
    WAL on flash or a cache may serve for the length of a trial."""
    flash = system.medium is Medium.FLASH
    links = None
    if system.osd_link_bps is not None and system.hosts is not None:
        links = system.osd_link_bps * system.hosts
    domain = system.pool.failure_domain if system.pool is not None else None
    return Resources(
        osd_cores=system.total_osd_cores,
        shared_cores=system.shares_cores,
        flash_osds=system.osds if flash else None,
        disk_osds=0 if flash else None,
        osd_hosts=system.hosts,
        osd_links_bps=links,
        apart=domain is not None and domain not in _BELOW_HOST,
        client_cores=system.client_cores,
        client_links_bps=None if system.on_lab else system.client_link_bps,
        client_on_osd_host=system.client_on_osd_host,
        target_cores=system.target_cores,
    )


def bound_of(
    system: System,
    op: Op,
    block_bytes: float | None,
    *,
    streaming: bool | None = None,
    read_share: float = 0.5,
    objects: int | None = None,
) -> Bound:
    """Return the bounds of reads and writes of blocks on a system (layer L0).

    `streaming`: I/Os cover whole stripes, None: by the block size. A total of reads and writes is
    bounded by the mix, of which `read_share` are reads. `objects` are those that the I/Os touch
    (None: many): of few, most may be close to the client.
    """
    if op is Op.TOTAL:
        part = partial(
            bound_of, system, block_bytes=block_bytes, streaming=streaming, objects=objects
        )
        return _mixed(part(Op.READ), part(Op.WRITE), read_share)
    if op not in (Op.READ, Op.WRITE):
        return Bound(capacity_iops=None, capacity_of=None, floor_s=None, floor_of=None)
    size = block_bytes or 0.0
    streaming = is_streaming(block_bytes) if streaming is None else streaming
    io = None
    if system.pool is not None:
        io = storage_io(system.pool, op, size, streaming=streaming)
    capacities = find_capacities(resources_of(system), size, io)
    limiting = min(capacities, key=lambda station: capacities[station], default=None)
    floor: dict[Station, float] = {}
    if io is not None:
        floor[Station.OSD_CPU] = io.path_least_s()
    if system.pool is not None and system.network is not None:
        times = partial(network_time_s, op, system.pool, system.network, streaming=streaming)
        # Twice the deviation of an interval of 95 %: one result in 30,000 is below it.
        many, few = times().low, times(objects=objects).low
        floor[Station.NETWORK] = max(0.0, many - 2 * (many - few))
    return Bound(
        capacity_iops=None if limiting is None else capacities[limiting],
        capacity_of=limiting,
        floor_s=sum(floor.values()) or None,
        floor_of=max(floor, key=lambda station: floor[station], default=None),
        io_bytes=block_bytes,
    )


def creation_bound(system: System) -> Bound:
    """Return the bound of files created on CephFS. A client need not wait for the MDS, so latency
    has none; nor have queries and deletions of files, which clients cache or hand over later."""
    ranks = system.ranks
    return Bound(
        capacity_iops=creation_capacity(ranks) if ranks else None,
        capacity_of=Station.MDS if ranks else None,
        floor_s=None,
        floor_of=None,
    )


def receive_bound(system: System, streams: int = 1) -> Bound:
    """Return the bound of ZFS streams that are received at the same time, in records of the
    system's size: each has its threads."""
    record = system.record_bytes
    return Bound(
        capacity_iops=streams * receive_capacity(record) if record else None,
        capacity_of=Station.RECEIVE if record else None,
        floor_s=None,
        floor_of=None,
        io_bytes=streamed_bytes(record) if record else None,
    )


def _mixed(read: Bound, write: Bound, read_share: float) -> Bound:
    """Return the bounds of reads and writes together. Each resource does both, so a mix has at most
    the harmonic mean of both capacities only where one resource limits both; else the bound of each
    part on its own holds."""
    shares = ((read, read_share), (write, 1 - read_share))
    capacity, station = None, None
    known = [
        (part, share) for part, share in shares if part.capacity_iops is not None and share > 0
    ]
    if known:
        least = min(known, key=lambda pair: (pair[0].capacity_iops or 0.0) / pair[1])
        capacity, station = (least[0].capacity_iops or 0.0) / least[1], least[0].capacity_of
        if len(known) == 2 and read.capacity_of is write.capacity_of:
            capacity = 1 / sum(share / (part.capacity_iops or 1.0) for part, share in known)
    floors = [part.floor_s for part, _ in shares]
    floor = None
    if floors[0] is not None and floors[1] is not None:
        floor = read_share * floors[0] + (1 - read_share) * floors[1]
    return Bound(
        capacity_iops=capacity,
        capacity_of=station,
        floor_s=floor,
        floor_of=write.floor_of,
        io_bytes=write.io_bytes,
    )
