"""Changes that a user asks about (`--set key=value`): parsing, and application to a system."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leadline import errors
from leadline.analysis.explain.systems import Network, PoolFacts, ReadFrom
from leadline.analysis.predict.facts import Refusal
from leadline.analysis.predict.system import System
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import PoolType
from leadline.model.io_paths import RoundTripTimes
from leadline.plan.facts import LEVELS
from leadline.plan.faults import nearest_word
from leadline.units import parse_duration, parse_size

# A cluster in one zone that gets `failure_domain=zone` has this number of zones.
ZONES = 3
# Zones are those of one region, media answer within seconds, and counts are those of a cluster.
_MOST_RTT_S, _MOST_MEDIA_S, _MOST = 1.0, 10.0, 1_000_000
_WIDE = ("zone", "datacenter", "region")
# A measured round trip is longer than the delay between zones by the time of both hosts.
_HOSTS_SHARE = 0.05
_CODE = re.compile(r"([1-9]\d?)\+([1-9]\d?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What `--set` changes; None: unchanged. Times in seconds, sizes in bytes.

    `nodes` are hosts with OSDs and `osds` all OSDs behind the pool, `osd_cores` the cores of each.
    `clients` are load generators, `depth` the I/Os in flight of each of their jobs. `texts` are the
    values as written, by key.
    """

    failure_domain: str | None = None
    inter_zone_rtt: float | None = None
    nodes: int | None = None
    osds: int | None = None
    replicas: int | None = None
    ec: tuple[int, int] | None = None
    osd_cores: float | None = None
    media_latency: float | None = None
    clients: int | None = None
    depth: int | None = None
    record_size: int | None = None
    read_affinity: ReadFrom | None = None
    pg_num: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


def parse_changes(settings: Iterable[str]) -> Changes:
    """Parse `key=value` settings.

    Raises:
        LeadlineError: `usage`: an unknown key, an invalid value, a key twice, or two keys that
            exclude each other.
    """
    texts: dict[str, str] = {}
    values: dict[str, Any] = {}
    for setting in settings:
        key, separator, text = (part.strip() for part in setting.partition("="))
        if not separator or not text:
            raise _usage(
                f"--set {setting!r} is not key=value", hint=f"the keys are {', '.join(_PARSERS)}"
            )
        if key not in _PARSERS:
            near = nearest_word(key, _PARSERS)
            hint = f"did you mean {near!r}?" if near else f"the keys are {', '.join(_PARSERS)}"
            raise _usage(f"--set does not know {key!r}", hint=hint)
        if key in texts:
            raise _usage(
                f"--set names {key} twice: {texts[key]} and {text}", hint="name each key once"
            )
        try:
            values[key] = _PARSERS[key](text)
        except ValueError as error:
            raise _usage(
                f"--set {key}={text} is invalid", context=[str(error)], hint=_EXAMPLES[key]
            ) from error
        texts[key] = text
    if "replicas" in texts and "ec" in texts:
        raise _usage(
            "--set replicas and --set ec exclude each other",
            hint="a pool has copies or an erasure code: name one of them",
        )
    return Changes(**values, texts=texts)


def _usage(fact: str, *, hint: str, context: Iterable[str] = ()) -> LeadlineError:
    return LeadlineError(errors.USAGE, fact, context=context, hint=hint)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= _MOST:
        raise ValueError(f"a whole number from 1 to {_MOST:,} is needed")
    return int(text[:9])


def _duration(most_s: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        if re.fullmatch(r"[\d.]+", text):
            raise ValueError("the unit is missing")
        seconds = parse_duration(text)
        if seconds > most_s:
            raise ValueError(f"at most {most_s:g} s is possible")
        return seconds

    return parse


def _cores(text: str) -> float:
    value = float(text)
    if not 0.01 <= value <= 1024:
        raise ValueError("0.01 to 1024 cores are possible")
    return value


def _code(text: str) -> tuple[int, int]:
    found = _CODE.fullmatch(text)
    if found is None:
        raise ValueError("an erasure code is K+M")
    return int(found[1]), int(found[2])


def _level(text: str) -> str:
    if text not in LEVELS:
        raise ValueError(f"the levels are {', '.join(LEVELS)}")
    return text


def _record(text: str) -> int:
    size = parse_size(text)
    if size & (size - 1) or not 512 <= size <= 16 << 20:
        raise ValueError("a record size is a power of two from 512 to 16M")
    return size


def _policy(text: str) -> ReadFrom:
    if text not in tuple(ReadFrom):
        raise ValueError(f"the policies are {', '.join(ReadFrom)}")
    return ReadFrom(text)


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "failure_domain": _level,
    "inter_zone_rtt": _duration(_MOST_RTT_S),
    "nodes": _count,
    "osds": _count,
    "replicas": _count,
    "ec": _code,
    "osd_cores": _cores,
    "media_latency": _duration(_MOST_MEDIA_S),
    "clients": _count,
    "depth": _count,
    "record_size": _record,
    "read_affinity": _policy,
    "pg_num": _count,
}
_EXAMPLES: Mapping[str, str] = {
    "failure_domain": "write for instance failure_domain=zone",
    "inter_zone_rtt": "write it with its unit: inter_zone_rtt=1ms",
    "nodes": "write for instance nodes=5",
    "osds": "write for instance osds=24",
    "replicas": "write for instance replicas=2",
    "ec": "write for instance ec=4+2",
    "osd_cores": "write the cores of one OSD: osd_cores=2",
    "media_latency": "write it with its unit: media_latency=100us",
    "clients": "write for instance clients=4",
    "depth": "write for instance depth=16",
    "record_size": "write for instance record_size=1M",
    "read_affinity": "write for instance read_affinity=localize",
    "pg_num": "write for instance pg_num=256",
}


def apply(system: System, changes: Changes) -> System:
    """Return the changed system. What the change needs and nothing reports is in its `refusals`.

    Raises:
        LeadlineError: `usage`: the system cannot be so, or the change has no meaning for it.
    """
    found = replace(
        system,
        clients=changes.clients or system.clients,
        depth=changes.depth or system.depth,
        osd_cores=changes.osd_cores or system.osd_cores,
        medium_s=system.medium_s if changes.media_latency is None else changes.media_latency,
    )
    if changes.osd_cores is not None and system.on_lab:
        cores, osds = system.shared_cores, changes.osds or system.osds
        limited = cores is None or osds is None or changes.osd_cores * osds < cores
        found = replace(found, limited=limited)
    if changes.record_size is not None:
        if system.kind is None or not system.kind.on_zfs:
            raise _usage(
                f"record_size has no meaning for {_named(system)}: it is not on ZFS",
                hint="leave --set record_size out, or name a target on ZFS",
            )
        found = replace(found, record_bytes=changes.record_size)
    found = _with_hosts(found, changes)
    return _with_pool(found, changes)


def _named(system: System) -> str:
    return f"target {system.target}" if system.target else "the target"


def _refused(system: System, refusal: Refusal) -> System:
    return replace(system, refusals=tuple(dict.fromkeys((*system.refusals, refusal))))


def _with_hosts(system: System, changes: Changes) -> System:
    """Change the number of hosts and OSDs; each host has as many OSDs as before."""
    if changes.nodes is None and changes.osds is None:
        return system
    hosts = changes.nodes or system.hosts
    osds = changes.osds
    if osds is None:
        if system.hosts is None or system.osds is None:
            return _refused(replace(system, hosts=hosts), Refusal.POOL_UNKNOWN)
        osds = max(1, round(system.osds * (changes.nodes or 1) / system.hosts))
    elif system.osds is None:
        return _refused(replace(system, hosts=hosts, osds=osds), Refusal.POOL_UNKNOWN)
    if hosts is not None and osds < hosts and changes.nodes is not None:
        raise _usage(
            f"{osds} OSDs cannot be on {hosts} nodes",
            hint="each node needs an OSD: raise osds, or lower nodes",
        )
    cores, each = system.shared_cores, system.osd_cores
    limited = system.limited and (cores is None or each is None or each * osds < cores)
    return replace(system, hosts=hosts, osds=osds, limited=limited)


def _with_pool(system: System, changes: Changes) -> System:
    """Change redundancy, placement, read policy and network of the pool."""
    pool = system.pool
    wanted = (
        *(changes.failure_domain, changes.inter_zone_rtt, changes.replicas, changes.ec),
        *(changes.read_affinity, changes.pg_num),
    )
    if pool is None:
        changed = any(value is not None for value in wanted)
        return _refused(system, Refusal.POOL_UNKNOWN) if changed else system
    if changes.replicas is not None:
        pool = replace(pool, type=PoolType.REPLICATED, size=changes.replicas, k=0, m=0)
    if changes.ec is not None:
        k, m = changes.ec
        pool = replace(pool, type=PoolType.ERASURE, size=k + m, k=k, m=m)
    if changes.read_affinity is not None:
        if pool.type is PoolType.ERASURE and changes.read_affinity is not ReadFrom.PRIMARY:
            raise _usage(
                f"read_affinity={changes.read_affinity} has no meaning for an erasure code",
                hint="its reads go through the primary; leave read_affinity out",
            )
        pool = replace(pool, reads=changes.read_affinity)
    pool = replace(pool, pgs=changes.pg_num or pool.pgs)
    pool = _with_domain(pool, changes.failure_domain)
    size_or_place = (pool.size, pool.k, pool.pgs, pool.places, pool.apart, pool.zones)
    before = system.pool
    if before is not None and (
        size_or_place
        != (before.size, before.k, before.pgs, before.places, before.apart, before.zones)
    ):
        pool = replace(pool, placement=(), objects=None)
    found = replace(system, pool=pool)
    moved = changes.nodes is not None or changes.osds is not None
    if moved or changes.failure_domain is not None:
        found = _with_places(found, pool)
    if moved or any(value is not None for value in wanted):
        _check_places(found, found.pool or pool)
    return _with_network(system, found, changes)


def _with_domain(pool: PoolFacts, domain: str | None) -> PoolFacts:
    """Change the failure domain. One of zones makes `ZONES` of a single zone."""
    if domain is None or domain == pool.failure_domain:
        return pool
    if domain in _WIDE:
        if pool.zones > 1:
            return replace(pool, failure_domain=domain, apart=True)
        return replace(
            pool,
            failure_domain=domain,
            zones=ZONES,
            places=ZONES,
            apart=True,
            shares=(),
            client=None,
            even=True,
        )
    # Zones stay the places of a cluster that has several; copies may then share one.
    apart = pool.zones == 1
    return replace(pool, failure_domain=domain, apart=apart)


def _with_places(system: System, pool: PoolFacts) -> System:
    """Forget where data was. In a single zone hosts or OSDs are the places where they are failure
    domains."""
    counts = {"host": system.hosts, "osd": system.osds}
    places = counts.get(pool.failure_domain or "") if pool.zones == 1 else None
    if places is not None and places != pool.places:
        pool = replace(pool, places=places, shares=(), client=None)
    return replace(system, pool=replace(pool, placement=(), objects=None))


def _check_places(system: System, pool: PoolFacts) -> None:
    """Raise LeadlineError(`usage`) where CRUSH cannot place all copies or shards."""
    counts: dict[str, int | None] = {"osd": system.osds, "host": system.hosts}
    domain = pool.failure_domain
    if domain is not None and domain not in counts:
        # A zone or rack holds a host at least.
        known = [pool.zones if domain in _WIDE else pool.places if pool.apart else None]
        known += [system.hosts]
        counts[domain] = min((count for count in known if count is not None), default=None)
    elif domain == "osd":
        counts = {"osd": system.osds}
    for place in (domain, "osd"):
        count = counts.get(place or "")
        if count is None or pool.size <= count:
            continue
        parts = f"EC {pool.k}+{pool.m}" if pool.k else f"{pool.size} copies"
        nouns = "OSDs" if place == "osd" else f"{place}s"
        raise _usage(
            f"{parts} cannot be placed on {count} {nouns} with one "
            f"{'shard' if pool.k else 'copy'} on each",
            context=[f"{pool.size} {nouns} are needed"],
            hint="choose fewer copies or shards, more of these, or a smaller failure_domain",
        )


def _with_network(before: System, system: System, changes: Changes) -> System:
    pool = system.pool
    if pool is None:
        return system
    was_single = before.pool is not None and before.pool.zones == 1
    if changes.inter_zone_rtt is None:
        if pool.zones > 1 and was_single:
            return _refused(replace(system, network=None), Refusal.NETWORK_UNKNOWN)
        return system
    if pool.zones == 1:
        raise _usage(
            f"inter_zone_rtt has no meaning for {_named(system)}: its data is in one zone",
            context=[f"its failure domain is {pool.failure_domain or 'unknown'}"],
            hint="add --set failure_domain=zone",
        )
    rtt_s = changes.inter_zone_rtt
    # The delay of a lab is added to what its network takes.
    own_s = before.network.typical_s if before.network and was_single else 0.0
    typical = RoundTripTimes(other_s=rtt_s + (own_s if before.on_lab else 0.0))
    high = RoundTripTimes(other_s=(rtt_s + own_s) * (1 + _HOSTS_SHARE))
    low = RoundTripTimes(other_s=rtt_s)
    return replace(system, network=Network(low=low, typical=typical, high=high))
