"""What a lab is to be: its topology, stores, pools and delay, as written and with defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from leadline.plan.yaml_positions import KeyPath
from leadline.units import format_size, parse_duration, parse_size

# Zones or racks; hosts at least, since three copies go to three of them.
DOMAINS = 3
MOST_OSDS = 48
# A millisecond of processor time, the least that the kernel gives, in each tenth of a second.
LEAST_CPU = 0.01
DEFAULT_RTT_S = 1e-3
MOST_RTT_S = 1.0
# BlueStore cannot make its own database in much less, and would be near full at once.
LEAST_OSD_BYTES = 512 << 20


class Topology(StrEnum):
    """`multi-zone`: root lab > region > three zones > hosts; `single-zone`: root lab > region >
    one zone > three racks > hosts; `hosts`: root lab > region > one zone > any number of hosts."""

    MULTI_ZONE = "multi-zone"
    SINGLE_ZONE = "single-zone"
    HOSTS = "hosts"

    @property
    def failure_domain(self) -> str:
        """The CRUSH type over which pools spread their copies."""
        return {"multi-zone": "zone", "single-zone": "rack", "hosts": "host"}[self]


class Store(StrEnum):
    """Where OSDs keep data: BlueStore on a sparse file in the lab's folder, BlueStore on a file in
    memory (/dev/shm), or memstore, which has no device at all."""

    BLUESTORE = "bluestore"
    BLUESTORE_IN_MEMORY = "bluestore-in-memory"
    MEMSTORE = "memstore"


class LabPool(StrEnum):
    """The pools of a lab; other programs rely on the names."""

    REP3 = "rep3"
    REP2 = "rep2"
    EC_2_1 = "ec-2-1"
    CEPHFS_REP3 = "cephfs-rep3"
    CEPHFS_REP2 = "cephfs-rep2"

    @property
    def needs(self) -> LabPool | None:
        """The pool without which it cannot be: RBD images on erasure coding have their metadata in
        a replicated pool, and the file system has one default data pool."""
        if self is LabPool.EC_2_1:
            return LabPool.REP3
        return LabPool.CEPHFS_REP3 if self is LabPool.CEPHFS_REP2 else None

    @property
    def in_filesystem(self) -> bool:
        return self in (LabPool.CEPHFS_REP3, LabPool.CEPHFS_REP2)


class LabDescription(BaseModel):
    """A lab with everything decided. `domains` are failure domains of the topology's kind; where
    that is a host, `hosts_per_domain` is 1. `inter_zone_rtt_s` is 0 for a single zone.
    `cpu_per_host` are the cores that the OSDs of one host may use together; None: all there are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topology: Topology = Topology.MULTI_ZONE
    domains: int = DOMAINS
    hosts_per_domain: int = 1
    osds_per_host: int = 1
    store: Store = Store.BLUESTORE
    osd_size_bytes: int = 4 << 30
    inter_zone_rtt_s: float = DEFAULT_RTT_S
    cpu_per_host: float | None = None
    encryption: bool = False
    authentication: bool = False
    pools: tuple[LabPool, ...] = tuple(LabPool)

    @property
    def osds(self) -> int:
        return self.domains * self.hosts_per_domain * self.osds_per_host

    @property
    def filesystem(self) -> bool:
        """Whether there is a CephFS, and so an MDS."""
        return any(pool.in_filesystem for pool in self.pools)


def _as_size(value: object) -> int:
    if not isinstance(value, str | int):
        raise ValueError("a size is written for instance 4G")
    size = parse_size(value)
    if size < LEAST_OSD_BYTES:
        raise ValueError(f"an OSD needs {format_size(LEAST_OSD_BYTES)} at least")
    return size


def _as_rtt(value: object) -> float:
    if not isinstance(value, str | int | float):
        raise ValueError("a round-trip time is written for instance 1ms")
    if isinstance(value, int | float) and value:
        raise ValueError("a round-trip time needs its unit: 500us, 1ms, 2ms")
    rtt_s = parse_duration(value)
    if rtt_s > MOST_RTT_S:
        raise ValueError("a round trip of more than 1 s is none between zones of one region")
    return rtt_s


def _as_cores(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a share of the processor is written in cores, for instance 0.15")
    return value


Count = Annotated[int, Field(ge=1, le=MOST_OSDS, strict=True)]
Hosts = Annotated[int, Field(ge=DOMAINS, le=MOST_OSDS, strict=True)]
Cores = Annotated[float, BeforeValidator(_as_cores), Field(ge=LEAST_CPU, allow_inf_nan=False)]
Switch = Annotated[bool, Field(strict=True)]


def conflicts(raw: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """What is right alone and does not fit together, by key; total on what is not right alone."""
    yield from _unsuitable(raw)
    in_hosts = raw.get("topology") == Topology.HOSTS
    key = "hosts" if in_hosts else "hosts_per_domain"
    hosts = _count(raw.get(key), DOMAINS if in_hosts else 1)
    osds = hosts * _count(raw.get("osds_per_host"), 1) * (1 if in_hosts else DOMAINS)
    if osds > MOST_OSDS:
        yield (key,), f"makes {osds} OSDs; {MOST_OSDS} at most run on one machine"
    if raw.get("encryption") is True and raw.get("authentication") is not True:
        message = "encryption needs `authentication: true`, which makes the keys of connections"
        yield ("encryption",), message
    pools = raw.get("pools")
    listed = pools if isinstance(pools, list) else []
    known = choices("pools")
    for index, name in enumerate(listed):
        if name not in known:
            continue
        if name in listed[:index]:
            yield ("pools", index), f"the pool {name!r} is named twice"
        needs = LabPool(name).needs
        if needs is not None and needs.value not in listed:
            yield ("pools", index), f"the pool {name!r} needs {needs.value!r} too"


def _count(value: object, otherwise: int) -> int:
    """A count as written; `otherwise` for none, and for what is told to be none."""
    return value if type(value) is int and 0 < value <= MOST_OSDS else otherwise


def choices(key: str) -> list[str]:
    """What may stand at a key that has a fixed set of values."""
    kinds: Mapping[str, type[StrEnum]] = {"topology": Topology, "store": Store, "pools": LabPool}
    return [one.value for one in kinds[key]]


def _unsuitable(raw: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Keys that have no meaning in the topology."""
    topology = raw.get("topology", Topology.MULTI_ZONE)
    if topology == Topology.HOSTS:
        if raw.get("hosts_per_domain", 1) != 1:
            yield ("hosts_per_domain",), "each host is a failure domain of its own; say `hosts`"
    elif topology in tuple(Topology) and raw.get("hosts") is not None:
        message = f"a {topology} lab has `hosts_per_domain`; `hosts` is for `topology: hosts`"
        yield ("hosts",), message
    far = _is_some_time(raw.get("inter_zone_rtt"))
    if far and topology in (Topology.SINGLE_ZONE, Topology.HOSTS):
        yield ("inter_zone_rtt",), f"a {topology} lab has no other zone to be far from"


def _is_some_time(value: object) -> bool:
    if isinstance(value, str):
        try:
            return parse_duration(value) > 0
        except ValueError:
            return False  # told already
    return isinstance(value, int | float) and value > 0


class LabDocument(BaseModel):
    """A lab as a person writes it; what is left out has a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topology: Topology = Topology.MULTI_ZONE
    hosts: Hosts | None = None
    hosts_per_domain: Count = 1
    osds_per_host: Count = 1
    store: Store = Store.BLUESTORE
    osd_size: Annotated[int, BeforeValidator(_as_size)] = 4 << 30
    inter_zone_rtt: Annotated[float | None, BeforeValidator(_as_rtt)] = None
    cpu_per_host: Cores | None = None
    encryption: Switch = False
    authentication: Switch = False
    pools: Annotated[tuple[LabPool, ...], Field(min_length=1)] = tuple(LabPool)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        found = [message for _, message in conflicts(self.model_dump(mode="json"))]
        if found:
            raise ValueError("; ".join(found))
        return self

    def described(self) -> LabDescription:
        """The lab with everything decided."""
        rtt_s = self.inter_zone_rtt
        if self.topology is not Topology.MULTI_ZONE:
            rtt_s = 0.0
        return LabDescription(
            topology=self.topology,
            domains=self.hosts or DOMAINS,
            hosts_per_domain=self.hosts_per_domain,
            osds_per_host=self.osds_per_host,
            store=self.store,
            osd_size_bytes=self.osd_size,
            inter_zone_rtt_s=DEFAULT_RTT_S if rtt_s is None else rtt_s,
            cpu_per_host=self.cpu_per_host,
            encryption=self.encryption,
            authentication=self.authentication,
            pools=self.pools,
        )
