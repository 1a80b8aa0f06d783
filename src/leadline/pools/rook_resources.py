"""The pools of the study as resources of Rook's and StorageClasses, or why one cannot be had. Pure.

Sources: Rook's examples (deploy/examples/pool.yaml, pool-ec.yaml, csi/rbd/storageclass-ec.yaml);
for `repN-virt` ocs-operator's class for virtualization (storageclasses.go): `mounter: rbd`,
`mapOptions: krbd:rxbounce`, which keeps a guest that changes a buffer under way from being sent
again for a wrong checksum, and all features of images that the kernel's client knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline import errors
from leadline.connect.kubernetes.client import Connection
from leadline.connect.kubernetes.objects import LEADLINE, MANAGED_BY, TOKEN, dns_label
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.kinds import ObjectKind
from leadline.inventory.kubernetes.models import (
    CephCluster,
    CephVolumes,
    KubernetesInventory,
    Node,
    StorageClass,
)
from leadline.inventory.kubernetes.objects import dump_of
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.pools.recipes import Act, Kind, PoolName, counted, pool_name

# What Rook is told to run in a cluster, with the labels that say what of it is Leadline's.

Manifest = Mapping[str, Any]
_KINDS = (
    ObjectKind.CEPH_CLUSTER,
    ObjectKind.CEPH_BLOCK_POOL,
    ObjectKind.CEPH_FILESYSTEM,
    ObjectKind.STORAGE_CLASS,
    ObjectKind.NODE,
)
# Without these a failure domain can still be found.
_OPTIONAL = (ObjectKind.STORAGE_CLUSTER,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RookState:
    """`pools` by namespace and name, `classes` by name: objects as the server gives them."""

    inventory: KubernetesInventory
    pools: Mapping[tuple[str, str], Manifest]
    classes: Mapping[str, Manifest]


def read_rook(connection: Connection) -> RookState:
    """Raises LeadlineError: `cluster-unknown`, `kubernetes-unreachable`, `kubernetes-denied`."""
    listed = {kind: _listed(connection, kind) for kind in _KINDS}
    for kind in _OPTIONAL:
        try:
            listed[kind] = _listed(connection, kind)
        except LeadlineError as error:
            if error.kind is not errors.KUBERNETES_DENIED:
                raise
    return RookState(
        inventory=kubernetes_inventory(
            {item.dump: dump_of(items) for item, items in listed.items()}
        ),
        pools={
            (str(item["metadata"].get("namespace", "")), str(item["metadata"]["name"])): item
            for item in listed[ObjectKind.CEPH_BLOCK_POOL]
        },
        classes={str(item["metadata"]["name"]): item for item in listed[ObjectKind.STORAGE_CLASS]},
    )


def _listed(connection: Connection, kind: ObjectKind) -> list[dict[str, Any]]:
    version = f"{kind.group}/v1" if kind.group else "v1"
    items = connection.listed(kind.group, "v1", kind.plural, kind.kind)
    return [{"apiVersion": version, "kind": kind.kind, **item} for item in items]


def is_ours(found: Manifest) -> bool:
    """Whether an object carries Leadline's label and a token."""
    labels = found["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY) == LEADLINE and bool(labels.get(TOKEN))


def is_going(found: Manifest) -> bool:
    return bool(found["metadata"].get("deletionTimestamp"))


# Which of Rook's clusters pools are made in, and where in it. Pure.
#  Pools of the study all get one failure domain (leadline.pools.recipes): here the one that
# OpenShift Data Foundation found for its cluster, else the highest of zone, rack and host with
# three values among the nodes, else with two.

_RACKS = ("topology.rook.io/rack", "topology.kubernetes.io/rack")
_LEADERS = ("control-plane", "master")
_RBD = "rbd.csi.ceph.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """`buckets` None: nothing tells how many values the failure domain has. `device_class` empty:
    any. `template` is the class for RBD whose parameters new classes copy."""

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
    """The cluster that `NAMESPACE` or `NAMESPACE/NAME` names, else the only one. Raises
    LeadlineError(`cluster-unknown`)."""
    known = inventory.ceph_clusters
    told = [f"{item.namespace}/{item.name}" for item in known]
    if not known:
        raise LeadlineError(
            errors.CLUSTER_UNKNOWN,
            "Rook runs no Ceph cluster here: there is no CephCluster",
            hint="name another Kubernetes cluster with --context, or Ceph itself with --ceph-conf",
        )
    chosen = [
        item for item in known if named in (None, item.namespace, f"{item.namespace}/{item.name}")
    ]
    if len(chosen) == 1:
        return chosen[0]
    raise LeadlineError(
        errors.CLUSTER_UNKNOWN,
        f"there is no CephCluster {named!r}" if named else f"Rook runs {len(known)} Ceph clusters",
        context=[f"CephClusters: {', '.join(told)}"],
        hint=f"name the one that is meant: --ceph-cluster {told[0]}",
    )


def require_usable(cluster: CephCluster) -> None:
    """Raise LeadlineError where no pool can be made in a cluster."""
    called = f"{cluster.namespace}/{cluster.name}"
    if cluster.external:
        raise LeadlineError(
            errors.CLUSTER_UNFIT,
            f"the CephCluster {called} is external: Rook makes no pools in it",
            hint="`leadline pools create --ceph-conf FILE` makes them in Ceph itself",
        )
    if cluster.phase != "Ready":
        raise LeadlineError(
            errors.CLUSTER_UNFIT,
            f"the CephCluster {called} is not Ready but {cluster.phase or 'without a phase'}",
            context=[f"health: {cluster.health}"] if cluster.health else [],
            hint="`kubectl describe cephcluster` says what Rook waits for",
        )
    if cluster.health == "HEALTH_ERR":
        raise LeadlineError(
            errors.CLUSTER_UNFIT,
            f"the Ceph of {called} is in HEALTH_ERR",
            hint="`ceph health detail` in Rook's toolbox tells why",
        )


def ground_of(
    inventory: KubernetesInventory,
    cluster: CephCluster,
    *,
    failure_domain: str | None,
    device_class: str | None,
) -> Ground:
    """Raises LeadlineError: `usage` where a device class must be named, `class-unsuitable` where
    there is no class to copy from."""
    notes: list[str] = []
    counts = _counts(inventory)
    for storage_cluster in inventory.storage_clusters:
        if storage_cluster.namespace == cluster.namespace and storage_cluster.failure_domain:
            counts = {
                **counts,
                storage_cluster.failure_domain: len(storage_cluster.failure_domain_values),
            }
            failure_domain = failure_domain or storage_cluster.failure_domain
    if failure_domain is None:
        failure_domain = _highest(counts)
        notes.append(
            f"failure domain {failure_domain}: counted over the nodes, since Rook does not say "
            "where its OSDs are (--failure-domain names another)"
        )
    template = _template(inventory, cluster)
    return Ground(
        cluster=cluster,
        domain=failure_domain,
        buckets=counts.get(failure_domain) or None,
        device_class=_device_class(inventory, cluster, device_class),
        template=template,
        notes=tuple(notes),
    )


def _counts(inventory: KubernetesInventory) -> dict[str, int]:
    """Values of each level among the nodes that may have OSDs."""
    nodes = [node for node in inventory.nodes if not set(_LEADERS) & set(node.roles)]
    nodes = nodes or list(inventory.nodes)
    found: Mapping[str, set[str]] = {
        "zone": {node.zone for node in nodes},
        "rack": {_rack(node) for node in nodes},
        "host": {node.name for node in nodes},
    }
    return {level: len(values - {""}) for level, values in found.items()}


def _rack(node: Node) -> str:
    return next((place.value for place in node.places if place.label in _RACKS), "")


def _highest(counts: Mapping[str, int]) -> str:
    for least in (3, 2):
        for level in ("zone", "rack", "host"):
            if counts.get(level, 0) >= least:
                return level
    return "host"


def _device_class(inventory: KubernetesInventory, cluster: CephCluster, given: str | None) -> str:
    """Where other pools name one, every pool must, or Ceph's autoscaler stops (Rook, CephBlockPool,
    `deviceClass`)."""
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
            hint=f"name the one that pools are made on: --device-class {known[0]}",
        )
    return ""


def _template(inventory: KubernetesInventory, cluster: CephCluster) -> StorageClass:
    """The class for RBD volumes of that cluster that says least of its own."""
    fitting = [
        storage_class
        for storage_class in inventory.storage_classes
        if storage_class.provisioner.endswith(_RBD) and of_cluster(storage_class, cluster)
    ]
    if not fitting:
        raise LeadlineError(
            errors.CLASS_UNSUITABLE,
            f"no StorageClass makes RBD volumes of {cluster.namespace}/{cluster.name}",
            hint="make one, as Rook's examples do: new ones take the names of its secrets from it",
        )

    def own(one: StorageClass) -> tuple[bool, bool, bool, str]:
        volumes = one.volumes
        assert isinstance(volumes, CephVolumes), "RBD's classes are read so"
        return bool(volumes.encrypted), bool(volumes.map_options), not one.default, one.name

    return min(fitting, key=own)


def of_cluster(found: StorageClass, cluster: CephCluster) -> bool:
    """Whether a class makes its volumes in that cluster: Rook calls a cluster by its namespace,
    and its secrets lie there too."""
    told = {parameter.name: parameter.value for parameter in found.parameters}
    secrets = told.get("csi.storage.k8s.io/provisioner-secret-namespace")
    return cluster.namespace in (told.get("clusterID"), secrets)


POOL = ("ceph.rook.io/v1", "CephBlockPool")
CLASS = ("storage.k8s.io/v1", "StorageClass")
PREFIX = "leadline-"
VIRTUAL_FEATURES = "layering,deep-flatten,exclusive-lock,object-map,fast-diff"
# Of the class that is copied: what names the cluster, its secrets, and the form of images.
_COPIED = ("clusterID", "imageFormat", "imageFeatures", "csi.storage.k8s.io/fstype")
_SECRETS = "-secret-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RookDecision:
    """What becomes of a name. `makes` are objects without labels, the pool before its class;
    `size` is k + m of erasure coding, None where no pool of that name is meant."""

    name: str
    act: Act
    reason: str
    storage_class: str | None = None
    makes: tuple[Manifest, ...] = ()


def class_name(text: str) -> str:
    """`leadline-rep3`: classes have no namespace, and `rep3` might be anybody's."""
    return dns_label(PREFIX + text)


def min_size(name: PoolName) -> int:
    """Ceph's own default, said aloud (as ceph.pool_recipes)."""
    if name.kind is Kind.ERASURE:
        return name.k + min(1, name.m - 1)
    return name.size - name.size // 2


def decide(names: Sequence[PoolName], state: RookState, ground: Ground) -> tuple[RookDecision, ...]:
    """In the order of the names; pools that others stand on come before them."""
    wanted: dict[str, PoolName] = {}
    for name in names:
        if name.kind is Kind.VIRTUAL:
            wanted.setdefault(name.base, pool_name(name.base))
        wanted.setdefault(name.text, name)
    found: dict[str, RookDecision] = {}
    for name in sorted(wanted.values(), key=lambda item: item.kind is Kind.ERASURE):
        found[name.text] = _decision(name, state, ground, found)
    return tuple(found[text] for text in wanted)


def _decision(
    name: PoolName, state: RookState, ground: Ground, found: Mapping[str, RookDecision]
) -> RookDecision:
    if name.kind is Kind.CEPHFS:
        return _cephfs(name, state, ground.cluster)
    if name.kind is Kind.VIRTUAL:
        base = found[name.base]
        if base.act is Act.SKIP:
            return RookDecision(name=name.text, act=Act.SKIP, reason=base.reason)
        parameters = _parameters(ground, state, name.base)
        parameters |= {
            "imageFeatures": VIRTUAL_FEATURES,
            "mounter": "rbd",
            "mapOptions": "krbd:rxbounce",
        }
        told = f"the pool {name.base}, mapped for virtual machines (krbd:rxbounce)"
        return _together(name, state, ground, told, pool=None, parameters=parameters)
    device_class = ground.device_class
    if name.kind is Kind.ENCRYPTED:
        encrypted = _encrypted_class(ground)
        if encrypted is None:
            reason = "Rook was not told to make all OSDs, or all of a device class, on dm-crypt"
            return RookDecision(name=name.text, act=Act.SKIP, reason=reason)
        device_class = encrypted
    if ground.buckets is not None and ground.buckets < name.size:
        reason = (
            f"{name.text} needs {name.size} failure domains; the cluster has "
            f"{counted(ground.buckets, ground.domain)}"
        )
        return RookDecision(name=name.text, act=Act.SKIP, reason=reason)
    parameters = _parameters(ground, state, name.text)
    if name.kind is Kind.ERASURE:
        metadata = _metadata_pool(found, ground)
        parameters |= {"pool": metadata, "dataPool": name.text}
    over = counted(ground.buckets, ground.domain) if ground.buckets else f"each {ground.domain}"
    told = f"{name.described}, over {over}"
    if name.kind is Kind.ERASURE:
        told += f", metadata of its images in {parameters['pool']}"
    pool = _pool(name, ground, device_class)
    return _together(name, state, ground, told, pool=pool, parameters=parameters)


def _together(
    name: PoolName,
    state: RookState,
    ground: Ground,
    told: str,
    *,
    pool: Manifest | None,
    parameters: Mapping[str, str],
) -> RookDecision:
    """The pool and its class, of which what is there already is left alone."""
    made = class_name(name.text)
    there = [
        state.pools.get((ground.namespace, name.text)) if pool else None,
        state.classes.get(made),
    ]
    wanted = [pool, _class(made, parameters, ground, state)]
    makes = tuple(
        item
        for item, found in zip(wanted, there, strict=True)
        if item is not None and found is None
    )
    going = [item for item in there if item is not None and is_going(item)]
    if going:
        reason = f"its {going[0]['kind']} is being removed: wait until it is gone"
        return RookDecision(name=name.text, act=Act.SKIP, reason=reason)
    act = Act.CREATE
    if not makes:
        ours = all(is_ours(item) for item in there if item is not None)
        act = Act.EXISTS if ours else Act.FOREIGN
    reason = f"{told}; use it as storageclass:{made}"
    return RookDecision(name=name.text, act=act, reason=reason, storage_class=made, makes=makes)


def _pool(name: PoolName, ground: Ground, device_class: str) -> Manifest:
    spec: dict[str, Any] = {"failureDomain": ground.domain}
    if device_class:
        spec["deviceClass"] = device_class
    if name.kind is Kind.ERASURE:
        spec["erasureCoded"] = {"dataChunks": name.k, "codingChunks": name.m}
    else:
        spec["replicated"] = {"size": name.size, "requireSafeReplicaSize": True}
    # Said aloud, since a cluster may have configured other defaults.
    spec["parameters"] = {"min_size": str(min_size(name)), "compression_mode": "none"}
    metadata = {"name": name.text, "namespace": ground.namespace}
    return {"apiVersion": POOL[0], "kind": POOL[1], "metadata": metadata, "spec": spec}


def _class(name: str, parameters: Mapping[str, str], ground: Ground, state: RookState) -> Manifest:
    copied = state.classes[ground.template.name]
    return {
        "apiVersion": CLASS[0],
        "kind": CLASS[1],
        "metadata": {"name": name},
        "provisioner": ground.template.provisioner,
        "parameters": dict(sorted(parameters.items())),
        "reclaimPolicy": "Delete",
        "volumeBindingMode": copied.get("volumeBindingMode", "Immediate"),
        "allowVolumeExpansion": True,
    }


def _parameters(ground: Ground, state: RookState, pool: str) -> dict[str, str]:
    given = state.classes[ground.template.name].get("parameters") or {}
    copied = {key: str(value) for key, value in given.items() if key in _COPIED or _SECRETS in key}
    return {**copied, "pool": pool}


def _metadata_pool(found: Mapping[str, RookDecision], ground: Ground) -> str:
    """The first replicated pool of the study that there is or will be, else that of the class
    which is copied."""
    for text, item in found.items():
        if pool_name(text).kind is Kind.REPLICATED and item.act is not Act.SKIP:
            return text
    told = {parameter.name: parameter.value for parameter in ground.template.parameters}
    return told.get("pool", "")


def _encrypted_class(ground: Ground) -> str | None:
    """The device class whose OSDs are all on dm-crypt, empty where every OSD is; None: neither."""
    if ground.cluster.encrypted:
        return ground.device_class
    sets = ground.cluster.device_sets
    for device_class in dict.fromkeys(item.device_class for item in sets if item.encrypted):
        here = [item for item in sets if item.device_class == device_class]
        if device_class and all(item.encrypted for item in here):
            return device_class
    return None


def _cephfs(name: PoolName, state: RookState, cluster: CephCluster) -> RookDecision:
    """Rook adds a data pool to a CephFilesystem and never takes one out (its updateFilesystem), so
    that what is made could not be undone; one that is there will do."""
    for filesystem in state.inventory.filesystems:
        if filesystem.namespace != cluster.namespace:
            continue
        for pool in filesystem.data_pools:
            if pool.spec.size != name.size:
                continue
            for storage_class in state.inventory.storage_classes:
                told = {each.name: each.value for each in storage_class.parameters}
                placed = told.get("pool", filesystem.data_pools[0].name)
                if (
                    storage_class.provisioner.endswith("cephfs.csi.ceph.com")
                    and of_cluster(storage_class, cluster)
                    and told.get("fsName") == filesystem.name
                    and placed == pool.name
                ):
                    reason = (
                        f"the data pool {pool.name} is one: use storageclass:{storage_class.name}"
                    )
                    return RookDecision(
                        name=name.text,
                        act=Act.SAME,
                        reason=reason,
                        storage_class=storage_class.name,
                    )
    reason = (
        "Rook adds data pools to a CephFilesystem but never takes one out, so that it could not be "
        "undone; `leadline pools create --ceph-conf` can"
    )
    return RookDecision(name=name.text, act=Act.SKIP, reason=reason)
