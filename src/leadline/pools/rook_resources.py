"""Rook's resources in a Kubernetes cluster, and where and how pools are created in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lightkube.resources.core_v1 import ConfigMap

from leadline import errors
from leadline.connect.kubernetes.client import Connection, api_groups, if_allowed
from leadline.connect.kubernetes.objects import (
    LEADLINE,
    MANAGED_BY,
    TOKEN,
    get_object,
    list_kind,
)
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.classes import (
    KMS_CONFIG,
    RBD,
    kms_providers,
)
from leadline.inventory.kubernetes.kinds import ObjectKind
from leadline.inventory.kubernetes.models import (
    CephCluster,
    CephVolumes,
    KubernetesInventory,
    StorageClass,
)
from leadline.inventory.kubernetes.objects import dump_of
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.pools.recipes import (
    highest_level,
)

Manifest = Mapping[str, Any]
_KINDS = (
    ObjectKind.CEPH_CLUSTER,
    ObjectKind.CEPH_BLOCK_POOL,
    ObjectKind.CEPH_FILESYSTEM,
    ObjectKind.STORAGE_CLASS,
    ObjectKind.NODE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RookState:
    """Rook's resources: raw `pools` (CephBlockPools and CephFilesystems) by namespace and name, raw
    `classes` by name.

    `osds`: the place of each OSD by its namespace, CRUSH level -> name; empty where this user may
    not list Deployments. `unread`: what is needed to choose a failure domain and could not be read,
    as sentences. `kms`: the providers of key management by the CSI driver's name of each, None
    where they cannot be read.
    """

    inventory: KubernetesInventory
    pools: Mapping[tuple[str, str], Manifest]
    classes: Mapping[str, Manifest]
    kms: Mapping[str, str] | None = None
    osds: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def read_rook(connection: Connection) -> RookState:
    """Read Rook's resources. Raises LeadlineError: `cluster-unknown`, `kubernetes-unreachable`,
    `kubernetes-denied`."""
    listed = {kind: list_kind(connection, kind) for kind in _KINDS}
    unread = []
    # deploy/rbac grants both kinds.
    kind = ObjectKind.STORAGE_CLUSTER
    try:
        listed[kind] = list_kind(connection, kind)
    except LeadlineError as error:
        if error.kind is not errors.KUBERNETES_DENIED:
            raise
        if kind.group in api_groups(connection):
            unread.append(f"{kind.purpose}: {error.fact}; {error.hint}")
    deployments = if_allowed(partial(list_kind, connection, ObjectKind.DEPLOYMENT)) or ()
    inventory = kubernetes_inventory({kind.dump: dump_of(items) for kind, items in listed.items()})
    unread += [
        f"{gap.what}: {gap.reason}"
        for gap in inventory.gaps
        if gap.what.startswith(("Node ", "StorageCluster "))
    ]
    return RookState(
        inventory=inventory,
        osds=_osd_places(deployments),
        unread=tuple(unread),
        pools={
            (str(pool["metadata"].get("namespace", "")), str(pool["metadata"]["name"])): {
                **pool,
                "kind": kind.kind,
            }
            for kind in (ObjectKind.CEPH_FILESYSTEM, ObjectKind.CEPH_BLOCK_POOL)
            for pool in listed[kind]
        },
        classes={
            str(found["metadata"]["name"]): found for found in listed[ObjectKind.STORAGE_CLASS]
        },
        kms=_read_kms(connection, listed[ObjectKind.CEPH_CLUSTER]),
    )


def _read_kms(connection: Connection, clusters: Sequence[Manifest]) -> Mapping[str, str] | None:
    """Return the provider of each key management service that ceph-csi knows, by its name."""
    found: dict[str, str] | None = None
    namespaces = {str(cluster["metadata"].get("namespace", "")) for cluster in clusters}
    for namespace in sorted(namespaces):
        read = partial(get_object, connection, ConfigMap, "configmaps", KMS_CONFIG, namespace)
        stored = if_allowed(read)
        if stored is not None:
            found = (found or {}) | kms_providers(stored.data or {})
    return found


# CRUSH levels below root and region, highest first.
_LEVELS = ("zone", "datacenter", "room", "pod", "pdu", "row", "rack", "chassis", "host")
# Rook's prefix of the CRUSH location on an OSD's Deployment (operator/ceph/cluster/osd/labels.go).
_LOCATION = "topology-location-"


def _osd_places(deployments: Sequence[Manifest]) -> dict[str, list[Mapping[str, str]]]:
    """Return the place of each OSD in its CRUSH map, by namespace."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for item in deployments:
        labels = item["metadata"].get("labels") or {}
        if labels.get("app") == "rook-ceph-osd":
            places = {
                key.removeprefix(_LOCATION): str(value)
                for key, value in labels.items()
                if key.startswith(_LOCATION)
            }
            found.setdefault(str(item["metadata"].get("namespace", "")), []).append(places)
    return found


def is_owned(found: Manifest) -> bool:
    """Return whether an object carries Leadline's label and a token."""
    labels = found["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY) == LEADLINE and bool(labels.get(TOKEN))


def is_being_deleted(found: Manifest) -> bool:
    return bool(found["metadata"].get("deletionTimestamp"))


_RACKS = ("topology.rook.io/rack", "topology.kubernetes.io/rack")
_LEADERS = ("control-plane", "master")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prerequisites:
    """Where and how pools are created in one of Rook's clusters.

    All pools get one failure domain: the one that OpenShift Data Foundation found, else the highest
    CRUSH level with three values among Rook's OSDs, else with two. Where Rook does not label its
    OSDs, zones, racks and hosts of nodes are counted. `buckets` None: unknown number of values.
    `device_class` empty: any. New classes copy the parameters of `template`.
    """

    cluster: CephCluster
    domain: str
    buckets: int | None
    device_class: str
    template: StorageClass
    notes: tuple[str, ...]

    @property
    def namespace(self) -> str:
        return self.cluster.namespace


def choose_cluster(inventory: KubernetesInventory, named: str | None) -> CephCluster:
    """Return the cluster that `NAMESPACE` or `NAMESPACE/NAME` names, else the only one. Raises
    LeadlineError(`cluster-unknown`)."""
    known = inventory.ceph_clusters
    names = [f"{cluster.namespace}/{cluster.name}" for cluster in known]
    if not known:
        raise LeadlineError(
            errors.CLUSTER_UNKNOWN,
            "Rook runs no Ceph cluster here: there is no CephCluster",
            hint="name another Kubernetes cluster with --context, or Ceph itself with --ceph-conf",
        )
    chosen = [
        cluster
        for cluster, name in zip(known, names, strict=True)
        if named in (None, cluster.namespace, name)
    ]
    if len(chosen) == 1:
        return chosen[0]
    raise LeadlineError(
        errors.CLUSTER_UNKNOWN,
        f"there is no CephCluster {named!r}" if named else f"Rook runs {len(known)} Ceph clusters",
        context=[f"CephClusters: {', '.join(names)}"],
        hint=f"select one: --ceph-cluster {names[0]}",
    )


def require_usable(cluster: CephCluster) -> None:
    """Raise LeadlineError where Rook creates no pools in a cluster."""
    called = f"{cluster.namespace}/{cluster.name}"
    if cluster.external:
        raise LeadlineError(
            errors.CLUSTER_UNFIT,
            f"the CephCluster {called} is external: Rook creates no pools in it",
            hint="`leadline pools create --ceph-conf FILE` creates them in Ceph itself",
        )
    if cluster.phase != "Ready":
        raise LeadlineError(
            errors.CLUSTER_UNFIT,
            f"the CephCluster {called} is not Ready but {cluster.phase or 'without a phase'}",
            context=[f"health: {cluster.health}"] if cluster.health else [],
            hint="`kubectl describe cephcluster` shows what Rook waits for",
        )
    if cluster.health == "HEALTH_ERR":
        raise LeadlineError(
            errors.CLUSTER_UNFIT,
            f"the Ceph of {called} is in HEALTH_ERR",
            hint="`ceph health detail` in Rook's toolbox shows the cause",
        )


def find_prerequisites(
    state: RookState,
    cluster: CephCluster,
    *,
    failure_domain: str | None,
    device_class: str | None,
) -> Prerequisites:
    """Find the prerequisites. Raises LeadlineError: `usage` where a device class must be named,
    `class-unsuitable` without a class to copy, `cluster-unfit` where the failure domain is unknown
    because something could not be read."""
    inventory = state.inventory
    notes: list[str] = []
    osds = state.osds.get(cluster.namespace, ())
    labelled = bool(osds) and all(osds)
    counts = _osd_counts(osds) if labelled else _counts(inventory)
    for storage_cluster in inventory.storage_clusters:
        if storage_cluster.namespace == cluster.namespace and storage_cluster.failure_domain:
            counts = {
                **counts,
                storage_cluster.failure_domain: len(storage_cluster.failure_domain_values),
            }
            failure_domain = failure_domain or storage_cluster.failure_domain
    if failure_domain is None:
        if state.unread and not labelled:
            raise LeadlineError(
                errors.CLUSTER_UNFIT,
                "the failure domain is unknown: not every node and OSD could be read",
                context=state.unread,
                hint="a lower level than the cluster's own would be chosen; have it made readable, "
                "or name the level with --failure-domain",
            )
        failure_domain = highest_level(counts, "host")
        source = (
            f"counted over {len(osds)} OSDs, as Rook labels them"
            if labelled
            else "counted over the nodes, since no labels of Rook state where its OSDs are"
        )
        notes.append(
            f"failure domain {failure_domain}: {source} (--failure-domain selects another)"
        )
    template = _template(inventory, cluster)
    return Prerequisites(
        cluster=cluster,
        domain=failure_domain,
        buckets=counts.get(failure_domain) or None,
        device_class=_device_class(inventory, cluster, device_class),
        template=template,
        notes=tuple(notes),
    )


def _osd_counts(osds: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Count the values of each level among OSDs, highest first. A level that some OSD is not in
    cannot be a failure domain."""
    return {
        level: len({places[level] for places in osds})
        for level in _LEVELS
        if all(level in places for places in osds)
    }


def _counts(inventory: KubernetesInventory) -> dict[str, int]:
    """Count the values of each level among the nodes that may have OSDs, highest first."""
    nodes = [node for node in inventory.nodes if not set(_LEADERS) & set(node.roles)]
    nodes = nodes or list(inventory.nodes)
    found: Mapping[str, set[str]] = {
        "zone": {node.zone for node in nodes},
        "rack": {
            next((place.value for place in node.places if place.label in _RACKS), "")
            for node in nodes
        },
        "host": {node.name for node in nodes},
    }
    return {level: len(values - {""}) for level, values in found.items()}


def _device_class(inventory: KubernetesInventory, cluster: CephCluster, given: str | None) -> str:
    """Return the device class. Where other pools name one, every pool must, or Ceph's autoscaler
    stops (Rook, CephBlockPool, `deviceClass`)."""
    known = cluster.device_classes
    if given is not None:
        if known and given not in known:
            raise LeadlineError(
                errors.USAGE,
                f"the cluster has no OSDs of the device class {given!r}",
                context=[f"device classes: {', '.join(known)}"],
            )
        return given
    of_pools = {
        block_pool.spec.device_class
        for block_pool in inventory.block_pools
        if block_pool.namespace == cluster.namespace and block_pool.spec.device_class
    }
    if len(of_pools) == 1:
        return of_pools.pop()
    if len(known) > 1:
        raise LeadlineError(
            errors.USAGE,
            f"the cluster has OSDs of {len(known)} device classes",
            context=[f"device classes: {', '.join(known)}"],
            hint=f"select one for the pools: --device-class {known[0]}",
        )
    return ""


def _template(inventory: KubernetesInventory, cluster: CephCluster) -> StorageClass:
    """Return the cluster's RBD class with the fewest special settings."""
    fitting = [
        storage_class
        for storage_class in inventory.storage_classes
        if storage_class.provisioner.endswith(RBD) and is_of_cluster(storage_class, cluster)
    ]
    if not fitting:
        raise LeadlineError(
            errors.CLASS_UNSUITABLE,
            f"no StorageClass creates RBD volumes of {cluster.namespace}/{cluster.name}",
            hint="create one, as in Rook's examples: new classes copy the names of its secrets",
        )

    def special_settings(found: StorageClass) -> tuple[bool, bool, bool, str]:
        volumes = found.volumes
        assert isinstance(volumes, CephVolumes)
        return bool(volumes.encrypted), bool(volumes.map_options), not found.default, found.name

    return min(fitting, key=special_settings)


def is_of_cluster(found: StorageClass, cluster: CephCluster) -> bool:
    """Return whether a class creates its volumes in a cluster. Rook identifies a cluster by its
    namespace, which also has its secrets."""
    parameters = parameters_of(found)
    secrets = parameters.get("csi.storage.k8s.io/provisioner-secret-namespace")
    return cluster.namespace in (parameters.get("clusterID"), secrets)


def parameters_of(found: StorageClass) -> dict[str, str]:
    return {parameter.name: parameter.value for parameter in found.parameters}
