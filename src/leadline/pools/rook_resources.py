"""The pools of the study as resources of Rook and StorageClasses.

Sources: Rook's examples (deploy/examples/pool.yaml, pool-ec.yaml, csi/rbd/storageclass-ec.yaml);
for `repN-virt` ocs-operator's class for virtualization (storageclasses.go): `mounter: rbd`,
`mapOptions: krbd:rxbounce`, which avoids resends for a wrong checksum when a guest changes a buffer
during a write, and all image features of the kernel's client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from leadline import errors
from leadline.connect.kubernetes.client import Connection, api_groups, if_allowed
from leadline.connect.kubernetes.objects import LEADLINE, MANAGED_BY, TOKEN, dns_label, list_kind
from leadline.errors import LeadlineError
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
    Act,
    Decision,
    Impossible,
    Kind,
    PoolName,
    counted,
    highest_level,
    pool_name,
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
    """Rook's resources: raw `pools` by namespace and name, raw `classes` by name.

    `osds`: the place of each OSD by its namespace, CRUSH level -> name; empty where this user may
    not list Deployments. `unread`: what is needed to choose a failure domain and could not be read,
    as sentences.
    """

    inventory: KubernetesInventory
    pools: Mapping[tuple[str, str], Manifest]
    classes: Mapping[str, Manifest]
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
            (str(pool["metadata"].get("namespace", "")), str(pool["metadata"]["name"])): pool
            for pool in listed[ObjectKind.CEPH_BLOCK_POOL]
        },
        classes={
            str(found["metadata"]["name"]): found for found in listed[ObjectKind.STORAGE_CLASS]
        },
    )


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
_RBD = "rbd.csi.ceph.com"


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
        if storage_class.provisioner.endswith(_RBD) and is_of_cluster(storage_class, cluster)
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
    parameters = _parameters_of(found)
    secrets = parameters.get("csi.storage.k8s.io/provisioner-secret-namespace")
    return cluster.namespace in (parameters.get("clusterID"), secrets)


def _parameters_of(found: StorageClass) -> dict[str, str]:
    return {parameter.name: parameter.value for parameter in found.parameters}


POOL = ("ceph.rook.io/v1", "CephBlockPool")
CLASS = ("storage.k8s.io/v1", "StorageClass")
PREFIX = "leadline-"
VIRTUAL_FEATURES = "layering,deep-flatten,exclusive-lock,object-map,fast-diff"
# Parameters to copy: the cluster, its secrets, and the format of images.
_COPIED = ("clusterID", "imageFormat", "imageFeatures", "csi.storage.k8s.io/fstype")
_SECRETS = "-secret-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RookDecision(Decision):
    """`makes` are objects without labels, the pool before its class."""

    storage_class: str | None = None
    makes: tuple[Manifest, ...] = ()


def class_name(text: str) -> str:
    """Return, for example, `leadline-rep3`: a class has no namespace, so its name has a prefix."""
    return dns_label(PREFIX + text)


def decide(
    names: Sequence[PoolName], state: RookState, prerequisites: Prerequisites
) -> tuple[RookDecision, ...]:
    """Decide what to do with each name, in their order; a base pool comes before its variants."""
    wanted: dict[str, PoolName] = {}
    for name in names:
        if name.kind is Kind.VIRTUAL:
            wanted.setdefault(name.base, pool_name(name.base))
        wanted.setdefault(name.text, name)
    found: dict[str, RookDecision] = {}
    for name in sorted(wanted.values(), key=lambda name: name.kind is Kind.ERASURE):
        try:
            found[name.text] = _decision(name, state, prerequisites, found)
        except Impossible as impossible:
            reason = str(impossible)
            found[name.text] = RookDecision(name=name.text, act=Act.SKIP, reason=reason)
    return tuple(found[text] for text in wanted)


def _decision(
    name: PoolName,
    state: RookState,
    prerequisites: Prerequisites,
    found: Mapping[str, RookDecision],
) -> RookDecision:
    if name.kind is Kind.CEPHFS:
        return _cephfs(name, state, prerequisites.cluster)
    if name.kind is Kind.VIRTUAL:
        base = found[name.base]
        if base.act is Act.SKIP:
            raise Impossible(base.reason)
        parameters = _parameters(prerequisites, state, name.base)
        parameters |= {
            "imageFeatures": VIRTUAL_FEATURES,
            "mounter": "rbd",
            "mapOptions": "krbd:rxbounce",
        }
        text = f"the pool {name.base}, mapped for virtual machines (krbd:rxbounce)"
        return _with_class(name, state, prerequisites, text, pool=None, parameters=parameters)
    device_class = prerequisites.device_class
    if name.kind is Kind.ENCRYPTED:
        device_class = _encrypted_class(prerequisites)
    if prerequisites.buckets is not None and prerequisites.buckets < name.size:
        raise Impossible(
            f"{name.text} needs {name.size} failure domains; the cluster has "
            f"{counted(prerequisites.buckets, prerequisites.domain)}"
        )
    parameters = _parameters(prerequisites, state, name.text)
    if name.kind is Kind.ERASURE:
        metadata = _metadata_pool(found, prerequisites)
        parameters |= {"pool": metadata, "dataPool": name.text}
    over = (
        counted(prerequisites.buckets, prerequisites.domain)
        if prerequisites.buckets
        else f"each {prerequisites.domain}"
    )
    text = f"{name.redundancy}, over {over}"
    if name.kind is Kind.ERASURE:
        text += f", metadata of its images in {parameters['pool']}"
    pool = _pool(name, prerequisites, device_class)
    return _with_class(name, state, prerequisites, text, pool=pool, parameters=parameters)


def _with_class(
    name: PoolName,
    state: RookState,
    prerequisites: Prerequisites,
    text: str,
    *,
    pool: Manifest | None,
    parameters: Mapping[str, str],
) -> RookDecision:
    """Return the decision for a pool and its class. Existing objects stay as they are."""
    made = class_name(name.text)
    existing = [
        state.pools.get((prerequisites.namespace, name.text)) if pool else None,
        state.classes.get(made),
    ]
    wanted = [pool, _class(made, parameters, prerequisites, state)]
    makes = tuple(
        item
        for item, found in zip(wanted, existing, strict=True)
        if item is not None and found is None
    )
    deleted = [item for item in existing if item is not None and is_being_deleted(item)]
    if deleted:
        raise Impossible(f"its {deleted[0]['kind']} is being removed: wait until it is gone")
    act = Act.CREATE
    if not makes:
        owned = all(is_owned(item) for item in existing if item is not None)
        act = Act.EXISTS if owned else Act.FOREIGN
    reason = f"{text}; use it as storageclass:{made}"
    return RookDecision(name=name.text, act=act, reason=reason, storage_class=made, makes=makes)


def _pool(name: PoolName, prerequisites: Prerequisites, device_class: str) -> Manifest:
    spec: dict[str, Any] = {"failureDomain": prerequisites.domain}
    if device_class:
        spec["deviceClass"] = device_class
    if name.kind is Kind.ERASURE:
        spec["erasureCoded"] = {"dataChunks": name.k, "codingChunks": name.m}
    else:
        spec["replicated"] = {"size": name.size, "requireSafeReplicaSize": True}
    # Set explicitly, since a cluster may have other defaults.
    spec["parameters"] = {"min_size": str(name.min_size), "compression_mode": "none"}
    metadata = {"name": name.text, "namespace": prerequisites.namespace}
    return {"apiVersion": POOL[0], "kind": POOL[1], "metadata": metadata, "spec": spec}


def _class(
    name: str, parameters: Mapping[str, str], prerequisites: Prerequisites, state: RookState
) -> Manifest:
    copied = state.classes[prerequisites.template.name]
    return {
        "apiVersion": CLASS[0],
        "kind": CLASS[1],
        "metadata": {"name": name},
        "provisioner": prerequisites.template.provisioner,
        "parameters": dict(sorted(parameters.items())),
        "reclaimPolicy": "Delete",
        "volumeBindingMode": copied.get("volumeBindingMode", "Immediate"),
        "allowVolumeExpansion": True,
    }


def _parameters(prerequisites: Prerequisites, state: RookState, pool: str) -> dict[str, str]:
    given = state.classes[prerequisites.template.name].get("parameters") or {}
    copied = {key: str(value) for key, value in given.items() if key in _COPIED or _SECRETS in key}
    return {**copied, "pool": pool}


def _metadata_pool(found: Mapping[str, RookDecision], prerequisites: Prerequisites) -> str:
    """Return the first replicated pool of the study that exists or is planned, else the pool of
    the copied class."""
    for text, decision in found.items():
        if pool_name(text).kind is Kind.REPLICATED and decision.act is not Act.SKIP:
            return text
    return _parameters_of(prerequisites.template).get("pool", "")


def _encrypted_class(prerequisites: Prerequisites) -> str:
    """Return a device class with all OSDs on dm-crypt. Raises Impossible."""
    if prerequisites.cluster.encrypted:
        return prerequisites.device_class
    sets = prerequisites.cluster.device_sets
    for device_class in dict.fromkeys(
        devices.device_class for devices in sets if devices.encrypted
    ):
        here = [devices for devices in sets if devices.device_class == device_class]
        if device_class and all(devices.encrypted for devices in here):
            return device_class
    raise Impossible("Rook does not configure all OSDs, or all of a device class, on dm-crypt")


def _cephfs(name: PoolName, state: RookState, cluster: CephCluster) -> RookDecision:
    """Return an existing data pool. Rook never removes a data pool from a CephFilesystem
    (updateFilesystem), so a new one could not be removed."""
    for filesystem in state.inventory.filesystems:
        if filesystem.namespace != cluster.namespace:
            continue
        for pool in filesystem.data_pools:
            if pool.spec.size != name.size:
                continue
            for storage_class in state.inventory.storage_classes:
                parameters = _parameters_of(storage_class)
                placed = parameters.get("pool", filesystem.data_pools[0].name)
                if (
                    storage_class.provisioner.endswith("cephfs.csi.ceph.com")
                    and is_of_cluster(storage_class, cluster)
                    and parameters.get("fsName") == filesystem.name
                    and placed == pool.name
                ):
                    used = storage_class.name
                    reason = f"the data pool {pool.name} exists: use storageclass:{used}"
                    return RookDecision(
                        name=name.text, act=Act.SAME, reason=reason, storage_class=used
                    )
    raise Impossible(
        "Rook adds data pools to a CephFilesystem but never removes one; "
        "`leadline pools create --ceph-conf` can"
    )
