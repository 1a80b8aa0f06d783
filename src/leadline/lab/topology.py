"""Where each OSD of a lab stands in the CRUSH tree, and where its client does. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.plan.lab_description import DOMAINS, LabDescription, Topology

ROOT = "lab"
REGION = "eu1"
ONLY_ZONE = "az1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An OSD: its failure domain (a zone or a rack), its host, and its ancestors from the root."""

    osd: int
    domain: str
    host: str
    ancestors: tuple[tuple[str, str], ...]

    @property
    def crush_location(self) -> str:
        """As `crush_location` of ceph.conf has it: `root=lab region=eu1 zone=az1 host=az1-h1`."""
        return " ".join(f"{kind}={name}" for kind, name in self.ancestors)


def domains(topology: Topology) -> tuple[str, ...]:
    """The failure domains by name; the first one holds monitor, manager, MDS and clients."""
    stem = "az" if topology is Topology.MULTI_ZONE else "r"
    return tuple(f"{stem}{number}" for number in range(1, DOMAINS + 1))


def places(description: LabDescription) -> tuple[Place, ...]:
    """The OSDs in the order of their numbers, which go round the domains: the first three are in
    three domains."""
    found = []
    for number in range(description.osds):
        turn, index = divmod(number, DOMAINS)
        domain = domains(description.topology)[index]
        host = f"{domain}-h{turn % description.hosts_per_domain + 1}"
        found.append(
            Place(
                osd=number,
                domain=domain,
                host=host,
                ancestors=(("root", ROOT), *_above(description.topology, domain), ("host", host)),
            )
        )
    return tuple(found)


def client_location(topology: Topology) -> str:
    """The client's place as librados takes it in `crush_location`, for reads from the nearest
    copy (`rbd_read_from_replica_policy=localize`)."""
    above = _above(topology, domains(topology)[0])
    return ",".join(f"{kind}={name}" for kind, name in above)


def _above(topology: Topology, domain: str) -> tuple[tuple[str, str], ...]:
    region = ("region", REGION)
    if topology is Topology.MULTI_ZONE:
        return (region, ("zone", domain))
    return (region, ("zone", ONLY_ZONE), ("rack", domain))
