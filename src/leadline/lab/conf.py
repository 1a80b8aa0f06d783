"""The configuration of a lab's cluster: CRUSH places, paths, ceph.conf and keyrings."""

from __future__ import annotations

import base64
import os
import struct
import time
from collections.abc import Mapping
from configparser import ConfigParser
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from leadline.plan.lab import LabDescription, Store, Topology

ROOT = "lab"
REGION = "eu1"
ONLY_ZONE = "az1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of an OSD: failure domain (a zone, a rack or a host), host, the site of its
    network, and its ancestors from the root."""

    osd: int
    domain: str
    host: str
    site: str
    ancestors: tuple[tuple[str, str], ...]

    @property
    def crush_location(self) -> str:
        """The value for ceph.conf: `root=lab region=eu1 zone=az1 host=az1-h1`."""
        return " ".join(f"{kind}={name}" for kind, name in self.ancestors)


_STEMS = {Topology.MULTI_ZONE: "az", Topology.SINGLE_ZONE: "r", Topology.HOSTS: "h"}


def domains(description: LabDescription) -> tuple[str, ...]:
    stem = _STEMS[description.topology]
    return tuple(f"{stem}{number}" for number in range(1, description.domains + 1))


def sites(description: LabDescription) -> tuple[str, ...]:
    """Return the sites: each zone or rack has its own network; hosts of one zone share one. The
    first site has monitor, manager, MDS and clients."""
    return (ONLY_ZONE,) if description.topology is Topology.HOSTS else domains(description)


def places(description: LabDescription) -> tuple[Place, ...]:
    """Return the places of the OSDs by number, round-robin over the domains: the first three are in
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
    """Return the client's `crush_location` for librados, for reads from the nearest copy
    (`rbd_read_from_replica_policy=localize`). It is on no host with OSDs."""
    above = _above(description.topology, sites(description)[0])
    return ",".join(f"{kind}={name}" for kind, name in above)


def _above(topology: Topology, site: str) -> tuple[tuple[str, str], ...]:
    zone = ONLY_ZONE if topology is Topology.SINGLE_ZONE else site
    rack = (("rack", site),) if topology is Topology.SINGLE_ZONE else ()
    return (("region", REGION), ("zone", zone), *rack)


CONF = "ceph.conf"
MON = "mon.a"
MGR = "mgr.x"
MDS = "mds.a"
CLIENT = "client.admin"
# The limit of an AF_UNIX address (sun_path, with its closing NUL).
SOCKET_PATH_BYTES = 107


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Paths in a lab's folder; `memory` holds the stores in memory."""

    folder: Path
    memory: Path

    @property
    def conf(self) -> Path:
        return self.folder / CONF

    @property
    def cephfs(self) -> Path:
        return self.folder / "cephfs"

    @property
    def network(self) -> Path:
        return self.folder / "network"

    @property
    def modules(self) -> Path:
        return self.folder / "mgr-modules"

    @property
    def monmap(self) -> Path:
        return self.folder / "monmap"

    def data(self, daemon: str) -> Path:
        """Return the data folder of a daemon (`mon.a`, `osd.0`)."""
        return self.folder / "daemons" / daemon

    def log(self, daemon: str) -> Path:
        return self.folder / "log" / f"{daemon}.log"

    def output(self, daemon: str) -> Path:
        """Return the file of a daemon's stdout and stderr."""
        return self.folder / "log" / f"{daemon}.out"

    def keyring(self, entity: str) -> Path:
        return self.folder / "keyrings" / entity

    def socket(self, daemon: str) -> Path:
        return self.folder / "run" / f"{daemon}.asok"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that must exist before the first daemon starts."""
        return tuple(
            self.folder / name
            for name in ("daemons", "log", "keyrings", "run", "crash", "network", "mgr-modules")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The monitor's address and port, and the address of each site."""

    mon: str
    mon_port: int
    sites: Mapping[str, str]

    @property
    def mon_host(self) -> str:
        return f"[v2:{self.mon}:{self.mon_port}]"


def render(
    *,
    fsid: str,
    description: LabDescription,
    paths: Paths,
    addresses: Addresses,
    places: tuple[Place, ...],
) -> str:
    """Render the ceph.conf of the lab for its daemons and clients."""
    fixed = ConfigParser(interpolation=None)
    fixed.read_string(resources.files("leadline.lab").joinpath("settings.conf").read_text("utf-8"))
    sections = {
        "global": {
            "fsid": fsid,
            "mon_host": addresses.mon_host,
            "mon_initial_members": MON.partition(".")[2],
            **_authentication(description),
            **fixed["global"],
            "run_dir": str(paths.folder / "run"),
            "crash_dir": str(paths.folder / "crash"),
            "admin_socket": str(paths.socket("$name")),
            "log_file": str(paths.log("$name")),
        },
        "mon": {
            **fixed["mon"],
            "mon_data": str(paths.data(MON)),
            "mon_cluster_log_file": str(paths.log("cluster")),
            "keyring": str(paths.keyring(MON)),
        },
        "mgr": {
            **fixed["mgr"],
            "mgr_data": str(paths.data(MGR)),
            "mgr_module_path": str(paths.modules),
            "public_addr": addresses.mon,
            "keyring": str(paths.keyring(MGR)),
        },
        "mds": {
            **fixed["mds"],
            "mds_data": str(paths.data(MDS)),
            "public_addr": addresses.mon,
            "keyring": str(paths.keyring(MDS)),
        },
        "osd": {
            **fixed["osd"],
            "osd_data": str(paths.data("osd.$id")),
            "keyring": str(paths.keyring("$name")),
            **_store(description),
        },
        **{f"osd.{place.osd}": _osd(place, description, paths, addresses) for place in places},
        # A client would create its log and socket in its working folder.
        "client": {"log_file": "", "admin_socket": "", "keyring": str(paths.keyring("$name"))},
    }
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())
        for name, settings in sections.items()
    )


def _osd(
    place: Place, description: LabDescription, paths: Paths, addresses: Addresses
) -> dict[str, str]:
    address = addresses.sites[place.site]
    settings = {
        "public_addr": address,
        "cluster_addr": address,
        "crush_location": place.crush_location,
    }
    if description.store is Store.BLUESTORE_IN_MEMORY:
        settings["bluestore_block_path"] = str(paths.memory / f"osd.{place.osd}")
    return settings


def _authentication(description: LabDescription) -> dict[str, str]:
    kind = "cephx" if description.authentication else "none"
    settings = {f"auth_{which}_required": kind for which in ("cluster", "service", "client")}
    if description.encryption:
        for which in ("cluster", "service", "client", "mon_cluster", "mon_service", "mon_client"):
            settings[f"ms_{which}_mode"] = "secure"
    return settings


def _store(description: LabDescription) -> dict[str, str]:
    size = str(description.osd_size_bytes)
    if description.store is Store.MEMSTORE:
        return {"osd_objectstore": "memstore", "memstore_device_bytes": size}
    return {"osd_objectstore": "bluestore", "bluestore_block_size": size}


# The keys of a lab with authentication exist before the monitor starts, so no daemon waits for one.
_AES = 1
_KEY_BYTES = 16
_ALL = {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"}
_OSD_CAPABILITIES = {"mon": "allow profile osd", "osd": "allow *", "mgr": "allow profile osd"}


def capabilities(osds: int) -> dict[str, dict[str, str]]:
    return {
        MON: {"mon": "allow *"},
        CLIENT: _ALL,
        MGR: {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"},
        MDS: {
            "mon": "allow profile mds",
            "osd": "allow rw tag cephfs *=*",
            "mds": "allow",
            "mgr": "allow profile mds",
        },
        **{f"osd.{number}": _OSD_CAPABILITIES for number in range(osds)},
    }


def new_key() -> str:
    """Return a new cephx key: type, creation time, length and random bytes in base64
    (CryptoKey::encode of Ceph's src/auth/Crypto.cc)."""
    created = time.time_ns()
    header = struct.pack("<HIIH", _AES, created // 10**9, created % 10**9, _KEY_BYTES)
    return base64.b64encode(header + os.urandom(_KEY_BYTES)).decode("ascii")


def render_keyring(keys: Mapping[str, str], allowed: Mapping[str, Mapping[str, str]]) -> str:
    lines = []
    for name, key in keys.items():
        # All monitors share one key.
        lines += [f"[{'mon.' if name == MON else name}]", f"\tkey = {key}"]
        lines += [f'\tcaps {service} = "{what}"' for service, what in allowed[name].items()]
    return "\n".join(lines) + "\n"
