"""A lab, told to people."""

from __future__ import annotations

from leadline.plan.lab_description import Topology
from leadline.report.lab_output import OneLabOutput
from leadline.units import format_duration, format_latency, format_size


def describe(lab: OneLabOutput) -> str:
    """A lab for people."""
    rows = [("folder", lab.folder)]
    if lab.topology is not None:
        rows.append(("topology", f"{lab.topology}: {_spread(lab.topology, lab.osds, lab.domains)}"))
    if lab.store is not None and lab.osd_size_bytes is not None:
        rows.append(("store", f"{lab.store}, {format_size(lab.osd_size_bytes)} each"))
    if lab.authentication is not None:
        who = "cephx" if lab.authentication else "no"
        how = "encrypted" if lab.encryption else "plain"
        rows.append(("security", f"{who} authentication, {how} connections"))
    rows += _network_rows(lab)
    rows += _processor_rows(lab)
    if lab.pools:
        rows.append(("pools", ", ".join(pool.name for pool in lab.pools)))
    if lab.cephfs or lab.cephfs_note:
        rows.append(("CephFS", lab.cephfs or f"not mounted: {lab.cephfs_note}"))
    if lab.conf:
        rows.append(("conf", lab.conf))
    if lab.steps:
        rows.append(("came up in", format_duration(lab.steps[-1].done_s)))
    if lab.health:
        rows.append(("health", lab.health))
    rows += _process_rows(lab)
    lines = [f"lab {lab.name}: {lab.condition}"]
    lines += [f"  {key:<11}{text}" for key, text in rows]
    return "\n".join(lines)


def _network_rows(lab: OneLabOutput) -> list[tuple[str, str]]:
    rows = []
    if lab.zones:
        zones = ", ".join(f"{zone.name} {zone.address}" for zone in lab.zones)
        each = "a namespace each" if len(lab.zones) > 1 else "one namespace"
        rows.append(("network", f"{each}: {zones}; clients in {lab.zones[0].name}"))
    elif lab.network_note:
        rows.append(("network", f"loopback, without zones or delay: {lab.network_note}"))
    asked = lab.inter_zone_rtt_s
    if asked:
        force = "" if lab.zones else ", not in force"
        rows.append(("round trip", f"{format_latency(asked)} asked for{force}"))
    for one in lab.round_trips:
        least, median = format_latency(one.min_s), format_latency(one.median_s)
        pair = f"{one.source} - {one.destination}"
        rows.append(("", f"{pair}: {least} at least, {median} median of {one.received} pings"))
    return rows


def _spread(topology: str, osds: int | None, domains: int | None) -> str:
    where = {
        Topology.MULTI_ZONE.value: "zones",
        Topology.SINGLE_ZONE.value: "racks of one zone",
        Topology.HOSTS.value: "hosts of one zone",
    }[topology]
    return f"{osds} OSDs in {domains} {where}"


def _processor_rows(lab: OneLabOutput) -> list[tuple[str, str]]:
    if lab.cpu_per_host is None:
        return []
    force = "" if lab.cpu_groups else ", not in force"
    rows = [("processor", f"{lab.cpu_per_host:g} cores for the OSDs of each host{force}")]
    for one in lab.cpu_groups:
        share = one.throttled_share
        held = "" if share is None else f", used up in {share:.0%} of its periods"
        rows.append(("", f"{one.host}: {one.folder}{held}"))
    return rows


def _process_rows(lab: OneLabOutput) -> list[tuple[str, str]]:
    if not lab.processes:
        return []
    alive = [one for one in lab.processes if one.alive]
    memory = format_size(sum(one.memory_bytes for one in alive))
    rows = [("processes", f"{len(alive)}, {memory} of memory")]
    rows += [
        ("", f"{one.name} pid {one.pid}, {format_size(one.memory_bytes)}")
        if one.alive
        else ("", f"{one.name} has died")
        for one in lab.processes
    ]
    return rows
