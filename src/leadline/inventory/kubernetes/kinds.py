"""Which objects of a Kubernetes cluster the inventory reads, and the dump that each kind goes to.

As of Ceph, a capture is a mapping from a file's name to its bytes. There is one file a kind, with a
`List` of objects in it, so that `kubectl get` makes the same file. What a live cluster answered,
what an archive keeps and what somebody saved in a folder are the same thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

VERSION = "kubernetes_version.json"
GAPS = "kubernetes_gaps.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of object. `versions` are those of its API, the newest first; `purpose` completes
    "without it nothing is known of ..."."""

    kind: str
    plural: str
    purpose: str
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = False

    @property
    def dump(self) -> str:
        """The name of its file, such as `cephclusters.json`; of two kinds called `nodes` and
        `settings` Longhorn's has its name before it."""
        prefix = "longhorn_" if self.group == "longhorn.io" else ""
        return f"{prefix}{self.plural}.json"

    @property
    def resource(self) -> str:
        """As RBAC and kubectl write it: `cephclusters.ceph.rook.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NODE = Kind(kind="Node", plural="nodes", purpose="nodes: zones, kernel, processors, memory")
NAMESPACE = Kind(kind="Namespace", plural="namespaces", purpose="which cluster it is")
STORAGE_CLASS = Kind(
    kind="StorageClass",
    plural="storageclasses",
    group="storage.k8s.io",
    purpose="StorageClasses and their parameters",
)
CSI_DRIVER = Kind(
    kind="CSIDriver", plural="csidrivers", group="storage.k8s.io", purpose="CSI drivers"
)
CSI_NODE = Kind(
    kind="CSINode",
    plural="csinodes",
    group="storage.k8s.io",
    purpose="which drivers run on which nodes",
)
DAEMON_SET = Kind(
    kind="DaemonSet",
    plural="daemonsets",
    group="apps",
    namespaced=True,
    purpose="storage daemons on nodes: cores of io-engine, versions of drivers",
)
DEPLOYMENT = Kind(
    kind="Deployment",
    plural="deployments",
    group="apps",
    namespaced=True,
    purpose="the versions of operators and provisioners, and Ceph's toolbox",
)
CONFIG_MAP = Kind(
    kind="ConfigMap",
    plural="configmaps",
    namespaced=True,
    purpose="settings of CSI drivers: read affinity, encryption",
)
CEPH_CLUSTER = Kind(
    kind="CephCluster",
    plural="cephclusters",
    group="ceph.rook.io",
    namespaced=True,
    purpose="Rook's clusters: device sets, network, encryption, resources",
)
CEPH_BLOCK_POOL = Kind(
    kind="CephBlockPool",
    plural="cephblockpools",
    group="ceph.rook.io",
    namespaced=True,
    purpose="Rook's pools: copies and failure domains",
)
CEPH_FILESYSTEM = Kind(
    kind="CephFilesystem",
    plural="cephfilesystems",
    group="ceph.rook.io",
    namespaced=True,
    purpose="Rook's filesystems",
)
CSI_CEPH_DRIVER = Kind(
    kind="Driver",
    plural="drivers",
    group="csi.ceph.io",
    versions=("v1", "v1alpha1"),
    namespaced=True,
    purpose="settings of Ceph's CSI drivers",
)
CLIENT_PROFILE = Kind(
    kind="ClientProfile",
    plural="clientprofiles",
    group="csi.ceph.io",
    versions=("v1", "v1alpha1"),
    namespaced=True,
    purpose="how Ceph's CSI drivers mount",
)
CEPH_CONNECTION = Kind(
    kind="CephConnection",
    plural="cephconnections",
    group="csi.ceph.io",
    versions=("v1", "v1alpha1"),
    namespaced=True,
    purpose="read affinity of Ceph's CSI drivers",
)
STORAGE_CLUSTER = Kind(
    kind="StorageCluster",
    plural="storageclusters",
    group="ocs.openshift.io",
    namespaced=True,
    purpose="OpenShift Data Foundation: failure domain, device sets, resource profile",
)
CLUSTER_VERSION = Kind(
    kind="ClusterVersion",
    plural="clusterversions",
    group="config.openshift.io",
    purpose="the version of OpenShift",
)
DISK_POOL = Kind(
    kind="DiskPool",
    plural="diskpools",
    group="openebs.io",
    versions=("v1beta3", "v1beta2", "v1beta1", "v1alpha1"),
    namespaced=True,
    purpose="disks of OpenEBS Mayastor",
)
ZFS_NODE = Kind(
    kind="ZFSNode",
    plural="zfsnodes",
    group="zfs.openebs.io",
    versions=("v1", "v1alpha1"),
    namespaced=True,
    purpose="ZFS pools on nodes",
)
LONGHORN_SETTING = Kind(
    kind="Setting",
    plural="settings",
    group="longhorn.io",
    versions=("v1beta2", "v1beta1"),
    namespaced=True,
    purpose="Longhorn's settings",
)
LONGHORN_NODE = Kind(
    kind="Node",
    plural="nodes",
    group="longhorn.io",
    versions=("v1beta2", "v1beta1"),
    namespaced=True,
    purpose="Longhorn's disks",
)
KUBEVIRT = Kind(
    kind="KubeVirt",
    plural="kubevirts",
    group="kubevirt.io",
    versions=("v1", "v1alpha3"),
    namespaced=True,
    purpose="the version of KubeVirt",
)
CDI = Kind(
    kind="CDI",
    plural="cdis",
    group="cdi.kubevirt.io",
    versions=("v1beta1",),
    purpose="the version of the Containerized Data Importer",
)

# In the order in which a live cluster is asked.
KINDS = (
    NODE, NAMESPACE, STORAGE_CLASS, CSI_DRIVER, CSI_NODE, CLUSTER_VERSION, CEPH_CLUSTER,
    CEPH_BLOCK_POOL, CEPH_FILESYSTEM, STORAGE_CLUSTER, CSI_CEPH_DRIVER, CLIENT_PROFILE,
    CEPH_CONNECTION, DISK_POOL, ZFS_NODE, LONGHORN_SETTING, LONGHORN_NODE, KUBEVIRT, CDI,
    DAEMON_SET, DEPLOYMENT, CONFIG_MAP,
)  # fmt: skip
_BY_NAME = {(one.group, one.kind): one for one in KINDS}
DUMP_NAMES = frozenset({VERSION, GAPS, *(one.dump for one in KINDS)})

# Of all config maps of a cluster only these are read: others may hold anything.
CONFIG_MAP_NAMES = (
    "rook-ceph-operator-config",
    "rook-ceph-csi-config",
    "ceph-csi-config",
    "ocs-operator-config",
    "local-path-config",
)
# Daemons that make volumes, by what their containers or images are called.
_STORAGE_WORKLOADS = (
    "cephcsi", "rook-ceph", "rook/ceph", "ocs-operator", "odf-operator", "io-engine", "mayastor",
    "openebs", "zfs-driver", "longhorn", "local-path-provisioner", "virt-operator", "cdi-operator",
)  # fmt: skip


def kind_of(api_version: str, kind: str) -> Kind | None:
    """The kind of an object by its `apiVersion` and `kind`; None of one that is not read."""
    group = api_version.rpartition("/")[0]
    return _BY_NAME.get((group, kind))


def holds_kubernetes(names: Iterable[str]) -> bool:
    """Whether dumps of these names are of a Kubernetes cluster, at least in part."""
    return not DUMP_NAMES.isdisjoint(names)


def is_storage_workload(name: str, images: Iterable[str]) -> bool:
    """Whether a DaemonSet or Deployment is one that makes volumes, so that it is worth keeping."""
    said = " ".join((name, *images)).lower()
    return any(word in said for word in _STORAGE_WORKLOADS)


# Kubernetes' quantities: `500m`, `16Gi`, `4`, `1e3`.
#  Source: the serialisation that k8s.io/apimachinery/pkg/api/resource describes.

_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]i?|Ki))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Nothing of a cluster comes near this many bytes; what is larger is no quantity but a mistake.
_LARGEST = Decimal(1 << 80)


def parse_quantity(text: str) -> float | None:
    """The number that a quantity stands for; None for text that is none."""
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
