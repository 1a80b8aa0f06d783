"""The kinds of Kubernetes objects that the inventory reads, and the dump file of each kind.

A capture maps file names to bytes: one `List` of objects for each kind, as `kubectl get` writes it.
A live cluster, an archive and a folder of saved files are read as the same capture.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum

from leadline.data import load_table

VERSION = "kubernetes_version.json"
GAPS = "kubernetes_gaps.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """A kind in `data/kubernetes_kinds.yaml`, where its keys are described."""

    kind: str
    purpose: str
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTable:
    """The content of `data/kubernetes_kinds.yaml`."""

    kinds: dict[str, KindRow]
    config_maps: tuple[str, ...]
    storage_workloads: tuple[str, ...]


def _table() -> KindTable:
    return load_table("kubernetes_kinds", KindTable)


class ObjectKind(Enum):
    """A kind of object, named by its resource as RBAC and kubectl write it.

    The order is that in which a live cluster is read.
    """

    NODE = "nodes"
    NAMESPACE = "namespaces"
    STORAGE_CLASS = "storageclasses.storage.k8s.io"
    CSI_DRIVER = "csidrivers.storage.k8s.io"
    CSI_NODE = "csinodes.storage.k8s.io"
    CLUSTER_VERSION = "clusterversions.config.openshift.io"
    CEPH_CLUSTER = "cephclusters.ceph.rook.io"
    CEPH_BLOCK_POOL = "cephblockpools.ceph.rook.io"
    CEPH_FILESYSTEM = "cephfilesystems.ceph.rook.io"
    STORAGE_CLUSTER = "storageclusters.ocs.openshift.io"
    CSI_CEPH_DRIVER = "drivers.csi.ceph.io"
    CLIENT_PROFILE = "clientprofiles.csi.ceph.io"
    CEPH_CONNECTION = "cephconnections.csi.ceph.io"
    DISK_POOL = "diskpools.openebs.io"
    ZFS_NODE = "zfsnodes.zfs.openebs.io"
    LONGHORN_SETTING = "settings.longhorn.io"
    LONGHORN_NODE = "nodes.longhorn.io"
    KUBEVIRT = "kubevirts.kubevirt.io"
    CDI = "cdis.cdi.kubevirt.io"
    DAEMON_SET = "daemonsets.apps"
    DEPLOYMENT = "deployments.apps"
    CONFIG_MAP = "configmaps"

    @property
    def resource(self) -> str:
        """Such as `cephclusters.ceph.rook.io`."""
        return self.value

    @property
    def plural(self) -> str:
        return self.value.partition(".")[0]

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.value.partition(".")[2]

    @property
    def kind(self) -> str:
        return self._row.kind

    @property
    def versions(self) -> tuple[str, ...]:
        """Versions of the API, newest first."""
        return self._row.versions

    @property
    def purpose(self) -> str:
        """What is unknown without the objects of this kind."""
        return self._row.purpose

    @property
    def namespaced(self) -> bool:
        return self._row.namespaced

    @property
    def dump(self) -> str:
        """The dump's file name, such as `cephclusters.json`.

        Longhorn's `nodes` and `settings` have a prefix: Kubernetes has nodes too.
        """
        prefix = "longhorn_" if self.group == "longhorn.io" else ""
        return f"{prefix}{self.plural}.json"

    @property
    def _row(self) -> KindRow:
        return _table().kinds[self.value]


DUMP_NAMES = frozenset({VERSION, GAPS, *(kind.dump for kind in ObjectKind)})


def find_kind(api_version: str, kind: str) -> ObjectKind | None:
    """Return the kind of an object by its `apiVersion` and `kind`; None if it is not read."""
    return _kinds_by_name().get((api_version.rpartition("/")[0], kind))


@functools.cache
def _kinds_by_name() -> dict[tuple[str, str], ObjectKind]:
    return {(kind.group, kind.kind): kind for kind in ObjectKind}


def config_map_names() -> tuple[str, ...]:
    """Return the names of the config maps that are read."""
    return _table().config_maps


def holds_kubernetes(names: Iterable[str]) -> bool:
    """Return whether a dump with one of these names is of a Kubernetes cluster."""
    return not DUMP_NAMES.isdisjoint(names)


def is_storage_workload(name: str, images: Iterable[str]) -> bool:
    """Return whether a DaemonSet or Deployment provides volumes."""
    names = " ".join((name, *images)).lower()
    return any(word in names for word in _table().storage_workloads)


# Quantities such as `500m`, `16Gi`, `4`, `1e3`. Source: k8s.io/apimachinery/pkg/api/resource.

_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]i?|Ki))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# No cluster has this many bytes: a larger number is a mistake.
_LARGEST = Decimal(1 << 80)


def parse_quantity(text: str) -> float | None:
    """Return the number of a quantity; None if the text is not a quantity."""
    matched = _QUANTITY.fullmatch(text.strip())
    if matched is None:
        return None
    digits, exponent, suffix = matched.groups()
    try:
        number = Decimal(digits + (exponent or ""))
    except InvalidOperation:
        return None
    if suffix in _BINARY:
        number *= 1 << _BINARY[suffix]
    elif suffix in _DECIMAL:
        number *= Decimal(10) ** _DECIMAL[suffix]
    elif suffix:
        return None
    return float(number) if abs(number) <= _LARGEST else None
