"""The description of a lab: topology, stores, pools and delay, as written and with defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from leadline import errors
from leadline.plan.faults import Fault, Faults, InvalidDocument, nearest_word
from leadline.plan.yaml_positions import KeyPath, Positioned, read_positioned
from leadline.units import format_size, parse_duration, parse_size

# The number of zones or racks, and the least number of hosts: three copies need three of them.
DOMAINS = 3
MOST_OSDS = 48
# One millisecond of processor time, the kernel's minimum, per tenth of a second.
LEAST_CPU = 0.01
DEFAULT_RTT_S = 1e-3
MOST_RTT_S = 1.0
# In less space BlueStore cannot make its database, or would be nearly full.
LEAST_OSD_BYTES = 512 << 20


class Topology(StrEnum):
    """`multi-zone`: root lab > region > three zones > hosts; `single-zone`: root lab > region >
    one zone > three racks > hosts; `hosts`: root lab > region > one zone > any number of hosts."""

    MULTI_ZONE = "multi-zone"
    SINGLE_ZONE = "single-zone"
    HOSTS = "hosts"

    @property
    def failure_domain(self) -> str:
        """The CRUSH type that separates the copies of a pool."""
        return {"multi-zone": "zone", "single-zone": "rack", "hosts": "host"}[self]


class Store(StrEnum):
    """Where OSDs store data: BlueStore on a sparse file in the lab's folder, BlueStore on a file in
    memory (/dev/shm), or memstore, which has no device."""

    BLUESTORE = "bluestore"
    BLUESTORE_IN_MEMORY = "bluestore-in-memory"
    MEMSTORE = "memstore"


class LabPool(StrEnum):
    """The pools of a lab; other programs depend on the names."""

    REP3 = "rep3"
    REP2 = "rep2"
    EC_2_1 = "ec-2-1"
    CEPHFS_REP3 = "cephfs-rep3"
    CEPHFS_REP2 = "cephfs-rep2"

    @property
    def needs(self) -> LabPool | None:
        """The pool that it requires: RBD images on erasure coding have their metadata in a
        replicated pool, and the file system has one default data pool."""
        if self is LabPool.EC_2_1:
            return LabPool.REP3
        return LabPool.CEPHFS_REP3 if self is LabPool.CEPHFS_REP2 else None

    @property
    def in_filesystem(self) -> bool:
        return self in (LabPool.CEPHFS_REP3, LabPool.CEPHFS_REP2)


class LabDescription(BaseModel):
    """A lab with all defaults. `domains` are failure domains of the topology's kind; where that is
    a host, `hosts_per_domain` is 1. `inter_zone_rtt_s` is 0 for a single zone. `cpu_per_host` is
    the limit in cores for the OSDs of one host; None: no limit."""

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
        raise ValueError("a round trip between zones of one region takes less than 1 s")
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
    """Conflicts between keys, by key; invalid values are ignored."""
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
    """A count as written; `otherwise` for a missing or invalid one."""
    return value if type(value) is int and 0 < value <= MOST_OSDS else otherwise


def choices(key: str) -> list[str]:
    """The valid values of a key with a fixed set of values."""
    kinds: Mapping[str, type[StrEnum]] = {"topology": Topology, "store": Store, "pools": LabPool}
    return [choice.value for choice in kinds[key]]


def _unsuitable(raw: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Keys that have no meaning in the topology, with a message."""
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
            return False  # a fault of its own
    return isinstance(value, int | float) and value > 0


class LabDocument(BaseModel):
    """A lab as a user writes it; omitted keys have defaults."""

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
        """The lab with all defaults."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOverrides:
    """Options of the command line that override a description; None: not given. `osds` of the
    whole lab sets `hosts_per_domain`, or `hosts`."""

    topology: str | None = None
    osds: int | None = None
    store: str | None = None
    osd_size: str | None = None
    inter_zone_rtt: str | None = None
    cpu_per_host: float | None = None


class LabInvalid(InvalidDocument):
    """A lab description with all its faults."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        hint = f"keys of a description: {', '.join(LabDocument.model_fields)}"
        super().__init__(errors.LAB_INVALID, "the lab's description", faults, hint)


def load_description(path: Path | None, overrides: LabOverrides) -> LabDescription:
    """The description in a YAML file, or the defaults, with what the command line sets.

    Raises LeadlineError(`lab-invalid`) that lists every fault at once."""
    hint = "leave the file out for a lab with three OSDs in three zones"
    document = (
        read_positioned(path, errors.LAB_INVALID, "the lab's description", hint)
        if path
        else Positioned(value={})
    )
    faults = Faults(str(path) if path else "command line", document if path else None, "lab")
    written = document.value if document.value is not None else {}
    if not isinstance(written, dict):
        faults.add((), "a lab's description is a mapping of keys")
        raise LabInvalid(faults.found)
    raw = dict(written)
    for key in ("topology", "store", "osd_size", "inter_zone_rtt", "cpu_per_host"):
        given = getattr(overrides, key)
        if given is not None:
            raw[key] = given
            faults.options[key] = f"--{key.replace('_', '-')}"
    if overrides.osds is not None:
        key = "hosts" if raw.get("topology") == Topology.HOSTS else "hosts_per_domain"
        faults.options[key] = "--osds"
        if hosts := _hosts(key, overrides.osds, raw, faults):
            raw[key] = hosts
    try:
        checked: LabDocument | None = LabDocument.model_validate(raw)
    except ValidationError as error:
        checked = None
        _take_errors(error, faults)
    for key_path, message in conflicts(raw):
        faults.add(key_path, message)
    if faults.found or checked is None:
        raise LabInvalid(faults.found)
    return checked.described()


def _take_errors(error: ValidationError, faults: Faults) -> None:
    """Add pydantic's errors to the faults."""
    for detail in error.errors():
        path = detail["loc"]
        value = detail.get("input")
        if not path:
            continue  # a conflict of keys, which `conflicts` reports
        if detail["type"] == "extra_forbidden":
            near = nearest_word(str(path[-1]), LabDocument.model_fields)
            faults.add(path, f"unknown key {path[-1]!r}", near)
        elif detail["type"] == "enum":
            known = choices(str(path[0]))
            message = f"is {value!r}; known are {', '.join(known)}"
            faults.add(path, message, nearest_word(str(value), known))
        elif detail["type"] == "value_error":
            faults.add(path, str(detail["ctx"]["error"]))
        else:
            message = detail["msg"][0].lower() + detail["msg"][1:]
            shown = "" if isinstance(value, dict | list) else f", got {value!r}"
            faults.add(path, message + shown)


def _hosts(key: str, osds: int, raw: Mapping[str, Any], faults: Faults) -> int | None:
    """Hosts (of each zone or rack) so that there are `osds` OSDs in all; None with a fault."""
    each = raw.get("osds_per_host", 1)
    each = each if type(each) is int and each > 0 else 1
    step = each if key == "hosts" else DOMAINS * each
    if DOMAINS * each <= osds <= MOST_OSDS and osds % step == 0:
        return osds // step
    per_host = f" x {each} on each host" if each > 1 else ""
    asked = f"{DOMAINS} or more hosts" if key == "hosts" else f"a multiple of {DOMAINS}"
    faults.add(
        (key,),
        f"{osds} OSDs cannot be spread evenly: a lab has {asked}{per_host}, and {MOST_OSDS} "
        "at most",
    )
    return None
