"""Who uses a class or a pool of Rook's: volumes, and classes of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from leadline.kubernetes.connection import Connection
from leadline.kubernetes.rook.state import Manifest

_DRIVERS = ("rbd.csi.ceph.com", "cephfs.csi.ceph.com")


def list_volumes(connection: Connection) -> list[dict[str, Any]]:
    """Raises LeadlineError as Connection.ask: without seeing volumes nothing may be removed."""
    return connection.listed("", "v1", "persistentvolumes", "PersistentVolume")


def volumes_of(
    volumes: Sequence[Manifest],
    elsewhere: Collection[str],
    classes: Collection[str],
    pools: Collection[str],
) -> list[str]:
    """PersistentVolumes of classes, or in pools of these names, as sentences. `elsewhere` are the
    namespaces of other Ceph clusters, which may have pools of the same names."""
    found = []
    for one in volumes:
        spec = one.get("spec") or {}
        csi = spec.get("csi") or {}
        attributes: Mapping[str, str] = csi.get("volumeAttributes") or {}
        inside = {attributes.get("pool"), attributes.get("dataPool")} & set(pools)
        # A volume of which it is not known that it is elsewhere may be here.
        here = attributes.get("clusterID") not in elsewhere
        ceph = str(csi.get("driver", "")).endswith(_DRIVERS)
        if spec.get("storageClassName") in classes or (ceph and inside and here):
            claim = spec.get("claimRef") or {}
            whose = f" of the claim {claim.get('namespace')}/{claim.get('name')}" if claim else ""
            found.append(f"{one['metadata']['name']}{whose}")
    return sorted(found)


def classes_on(classes: Mapping[str, Manifest], namespace: str, pool: str) -> list[str]:
    """StorageClasses that make volumes in a pool of the cluster of a namespace."""
    found = []
    for name, one in classes.items():
        given = one.get("parameters") or {}
        secrets = given.get("csi.storage.k8s.io/provisioner-secret-namespace")
        here = namespace in (given.get("clusterID"), secrets)
        if here and pool in (given.get("pool"), given.get("dataPool")):
            found.append(name)
    return sorted(found)
