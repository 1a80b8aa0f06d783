"""Where each OSD of a lab stands in the CRUSH tree, and where its client does. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.plan.lab_description import LabDescription, Topology

ROOT = "lab"
REGION = "eu1"
ONLY_ZONE = "az1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An OSD: its failure domain (a zone, a rack or a host), its host, the site in whose network
    it is, and its ancestors from the root."""

    osd: int
    domain: str
    host: str
    site: str
    ancestors: tuple[tuple[str, str], ...]

    @property
    def crush_location(self) -> str:
        """As `crush_location` of ceph.conf has it: `root=lab region=eu1 zone=az1 host=az1-h1`."""
        return " ".join(f"{kind}={name}" for kind, name in self.ancestors)


_STEMS = {Topology.MULTI_ZONE: "az", Topology.SINGLE_ZONE: "r", Topology.HOSTS: "h"}


def domains(description: LabDescription) -> tuple[str, ...]:
    """The failure domains by name."""
    stem = _STEMS[description.topology]
    return tuple(f"{stem}{number}" for number in range(1, description.domains + 1))


def sites(description: LabDescription) -> tuple[str, ...]:
    """The places that have a network of their own, each zone or rack; hosts of one zone share one.
    The first holds monitor, manager, MDS and clients."""
    return (ONLY_ZONE,) if description.topology is Topology.HOSTS else domains(description)


def places(description: LabDescription) -> tuple[Place, ...]:
    """The OSDs in the order of their numbers, which go round the domains: the first three are in
    three domains."""
    found = []
    in_hosts = description.topology is Topology.HOSTS
    for number in range(description.osds):
        turn, index = divmod(number, description.domains)
        domain = domains(description)[index]
        host = domain if in_hosts else f"{domain}-h{turn % description.hosts_per_domain + 1}"
        site = ONLY_ZONE if in_hosts else domain
        found.append(
            Place(
                osd=number,
                domain=domain,
                host=host,
                site=site,
                ancestors=(("root", ROOT), *_above(description.topology, site), ("host", host)),
            )
        )
    return tuple(found)


def client_location(description: LabDescription) -> str:
    """The client's place as librados takes it in `crush_location`, for reads from the nearest
    copy (`rbd_read_from_replica_policy=localize`). It is on no host that has OSDs."""
    above = _above(description.topology, sites(description)[0])
    return ",".join(f"{kind}={name}" for kind, name in above)


def _above(topology: Topology, site: str) -> tuple[tuple[str, str], ...]:
    zone = ONLY_ZONE if topology is Topology.SINGLE_ZONE else site
    rack = (("rack", site),) if topology is Topology.SINGLE_ZONE else ()
    return (("region", REGION), ("zone", zone), *rack)
