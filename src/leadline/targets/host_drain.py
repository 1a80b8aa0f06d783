"""The OSDs of a host of a Ceph cluster: drained, and brought in again with all as before."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict

from leadline import errors
from leadline.connect.ceph import CommandFailed, Connection
from leadline.errors import LeadlineError
from leadline.text import count_text

# CEPH_OSD_IN (src/include/rados.h): a weight of the map is a number of such parts.
_WHOLE_WEIGHT = 0x10000


class DrainedHost(BaseModel):
    """The OSDs of a host before they were drained: `weights` are their overrides from 0 to 1.
    `swaps` are the exceptions of the cluster's PGs (pg_upmap_items) as arguments of `osd
    pg-upmap-items`: Ceph removes those that no longer fit. `balancer`: it was on, and is off while
    the host is drained, to which it would adapt the cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    weights: dict[int, float]
    swaps: dict[str, tuple[int, ...]]
    balancer: bool


def find_host(connection: Connection, host: str) -> DrainedHost:
    """Return the OSDs of a host that are in. Raises LeadlineError: `cluster-unfit` where PGs are
    placed on them by hand, in a way that Leadline does not restore."""
    found = connection.mon_json("osd dump")
    nodes = {node["id"]: node for node in connection.mon_json("osd tree")["nodes"]}
    bucket = next(
        (node for node in nodes.values() if (node["type"], node["name"]) == ("host", host)), None
    )
    inside = set(bucket["children"]) if bucket is not None else set()
    weights = {
        osd["osd"]: float(osd["weight"])
        for osd in found["osds"]
        if osd["osd"] in inside and osd["weight"] > 0
    }
    fixed = [entry["pgid"] for entry in found.get("pg_upmap") or ()]
    fixed += [entry["pgid"] for entry in found.get("pg_upmap_primaries") or ()]
    if fixed:
        raise LeadlineError(
            errors.CLUSTER_UNFIT,
            f"{count_text(len(fixed), 'PG')} of the cluster are placed by hand, which Ceph forgets "
            "when a host is drained",
            context=[f"pg-upmap or pg-upmap-primary of {fixed[0]}"],
            hint="`ceph osd rm-pg-upmap` or `rm-pg-upmap-primary` removes them",
        )
    swaps = {
        entry["pgid"]: tuple(
            osd for pair in entry["mappings"] for osd in (pair["from"], pair["to"])
        )
        for entry in found.get("pg_upmap_items") or ()
    }
    balancer = json.loads(connection.mgr("balancer status", format="json"))
    return DrainedHost(host=host, weights=weights, swaps=swaps, balancer=balancer["active"])


def take_out(connection: Connection, drained: DrainedHost) -> None:
    """Let Ceph move all data away from the OSDs. Raises LeadlineError."""
    if drained.balancer:
        connection.mgr("balancer off")
    connection.mon("osd out", ids=[str(osd) for osd in drained.weights])


def is_empty(connection: Connection, drained: DrainedHost) -> bool:
    """Return whether no PG is on the OSDs, by the manager's newest reports."""
    try:
        connection.mgr("osd safe-to-destroy", ids=[str(osd) for osd in drained.weights])
    except CommandFailed:
        return False
    return True


def bring_in(connection: Connection, drained: DrainedHost) -> None:
    """Give the OSDs their weights again, and the cluster its exceptions of PGs and its balancer;
    what another user has set meanwhile stays. May be called twice. Raises LeadlineError."""
    now = {osd["osd"]: osd["weight"] for osd in connection.mon_json("osd dump")["osds"]}
    for osd, weight in drained.weights.items():
        if now.get(osd) == 0:
            # The command rounds down.
            weight = min(1.0, weight + 0.1 / _WHOLE_WEIGHT)
            connection.mon("osd reweight", id=osd, weight=weight)
    present = {
        entry["pgid"] for entry in connection.mon_json("osd dump").get("pg_upmap_items") or ()
    }
    for pg, osds in drained.swaps.items():
        if pg not in present:
            connection.mon("osd pg-upmap-items", pgid=pg, id=list(osds))
    if drained.balancer:
        connection.mgr("balancer on")
