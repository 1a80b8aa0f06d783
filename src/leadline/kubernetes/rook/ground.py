"""Which of Rook's clusters pools are made in, and where in it. Pure.

Pools of the study all get one failure domain (leadline.ceph.pool_ground): here the one that
OpenShift Data Foundation found for its cluster, else the highest of zone, rack and host with three
values among the nodes, else with two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.models import KubernetesInventory, Node
from leadline.inventory.kubernetes.rook_models import CephCluster
from leadline.inventory.kubernetes.volumes import CephVolumes, StorageClass

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
    told = [f"{one.namespace}/{one.name}" for one in known]
    if not known:
        raise LeadlineError(
            errors.CLUSTER_UNKNOWN,
            "Rook runs no Ceph cluster here: there is no CephCluster",
            hint="name another Kubernetes cluster with --context, or Ceph itself with --ceph-conf",
        )
    chosen = [one for one in known if named in (None, one.namespace, f"{one.namespace}/{one.name}")]
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
    for one in inventory.storage_clusters:
        if one.namespace == cluster.namespace and one.failure_domain:
            counts = {**counts, one.failure_domain: len(one.failure_domain_values)}
            failure_domain = failure_domain or one.failure_domain
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
    nodes = [one for one in inventory.nodes if not set(_LEADERS) & set(one.roles)]
    nodes = nodes or list(inventory.nodes)
    found: Mapping[str, set[str]] = {
        "zone": {one.zone for one in nodes},
        "rack": {_rack(one) for one in nodes},
        "host": {one.name for one in nodes},
    }
    return {level: len(values - {""}) for level, values in found.items()}


def _rack(node: Node) -> str:
    return next((one.value for one in node.places if one.label in _RACKS), "")


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
        one.spec.device_class
        for one in inventory.block_pools
        if one.namespace == cluster.namespace and one.spec.device_class
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
        one for one in inventory.storage_classes if one.provisioner.endswith(_RBD)
        and of_cluster(one, cluster)
    ]  # fmt: skip
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
    told = {one.name: one.value for one in found.parameters}
    secrets = told.get("csi.storage.k8s.io/provisioner-secret-namespace")
    return cluster.namespace in (told.get("clusterID"), secrets)
