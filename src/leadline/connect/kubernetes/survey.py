"""Survey of a Kubernetes cluster: StorageClasses, nodes, quotas, published capacity, KubeVirt.

It changes nothing. Only StorageClasses must be readable. Everything else that this user may not
read is reported, and the plan is drafted without it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from lightkube import ApiError, Client
from lightkube.models.core_v1 import Taint
from lightkube.resources.core_v1 import Node, ResourceQuota
from lightkube.resources.storage_v1 import CSIStorageCapacity, StorageClass
from lightkube.utils.quantity import parse_quantity as parse_decimal

from leadline import errors
from leadline.connect.kubernetes.client import Connection, api_groups, if_allowed
from leadline.connect.kubernetes.machines import (
    CDI_GROUP,
    GROUP,
    SOURCES,
    VERSION,
    DataSource,
)
from leadline.connect.kubernetes.objects import get_object, list_kind
from leadline.connect.kubernetes.permissions import RETAIN_RULES, is_allowed
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.kinds import ObjectKind, parse_quantity
from leadline.inventory.kubernetes.objects import dump_of
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.plan.kubernetes_cluster import Toleration
from leadline.plan.volume_request import VolumeMode, VolumeRequest
from leadline.planning.draft import Published, Quota, Survey
from leadline.text import shortened
from leadline.units import format_size

Seen = TypeVar("Seen")
_KINDS = (ObjectKind.NODE, ObjectKind.CSI_DRIVER, ObjectKind.CSI_NODE, ObjectKind.KUBEVIRT)


def survey(connection: Connection, namespace: str | None) -> Survey:
    """Survey a cluster; `namespace` is the plan's, whose quotas apply. Raises LeadlineError:
    `cluster-unknown`, `kubernetes-unreachable`, `kubernetes-denied` where StorageClasses may not
    be listed."""
    unseen: list[str] = []

    def seen(what: str, ask: Callable[[], Seen], without: Seen) -> Seen:
        try:
            return ask()
        except LeadlineError as error:
            if error.kind is not errors.KUBERNETES_DENIED:
                raise
            unseen.append(f"{what}; {error.fact}; {error.hint}")
            return without

    found = {ObjectKind.STORAGE_CLASS: list_kind(connection, ObjectKind.STORAGE_CLASS)}
    refused = set()
    for kind in _KINDS:
        nothing: list[dict[str, Any]] | None = None
        items = seen(kind.purpose, partial(list_kind, connection, kind), nothing)
        if items is None:
            refused.add(kind)
        else:
            found[kind] = items
    inventory = kubernetes_inventory({kind.dump: dump_of(items) for kind, items in found.items()})
    patches = seen(
        "whether this user may patch volumes",
        lambda: is_allowed(connection, RETAIN_RULES[0], ""),
        None,
    )
    return Survey(
        inventory=inventory,
        kubevirt=None if ObjectKind.KUBEVIRT in refused else inventory.kubevirt is not None,
        patches_volumes=patches,
        published=seen("published capacities", lambda: _published(connection), {}),
        quotas=seen("quotas", lambda: _quotas(connection, namespace), ()),
        unseen=(
            *unseen,
            *(f"{gap.what}: {gap.reason}" for gap in inventory.gaps if gap.what != "Ceph"),
        ),
    )


def _published(connection: Connection) -> dict[str, Published]:
    listed = connection.listed("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
    found: dict[str, Published] = {}
    for item in listed:
        name = str(item.get("storageClassName", ""))
        capacity = _number(item.get("capacity"))
        # `capacity` limits a volume where the driver gives no other limit.
        largest = _number(item.get("maximumVolumeSize")) or capacity
        before = found.get(name, Published(largest=0, total=0))
        found[name] = Published(
            largest=max(before.largest, int(largest)), total=before.total + int(capacity)
        )
    return found


def _quotas(connection: Connection, namespace: str | None) -> tuple[Quota, ...]:
    if not namespace:
        return ()
    found = []
    for item in connection.listed("", "v1", "resourcequotas", "ResourceQuota", namespace):
        status = item.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        left = {key: _number(most) - _number(used.get(key)) for key, most in hard.items()}
        found.append(Quota(name=str(item["metadata"]["name"]), left=left))
    return tuple(sorted(found, key=lambda quota: quota.name))


def _number(quantity: object) -> float:
    return parse_quantity(str(quantity)) or 0.0 if quantity is not None else 0.0


# Provisioners whose volumes are folders, never block devices (their documentation).
FOLDERS_ONLY = (
    "rancher.io/local-path",
    "cephfs.csi.ceph.com",
    "nfs.csi.k8s.io",
    "k8s-sigs.io/nfs-subdir-external-provisioner",
    "efs.csi.aws.com",
    "file.csi.azure.com",
    "filestore.csi.storage.gke.io",
    "smb.csi.k8s.io",
    "driver.longhorn.io/nfs",
    "openebs.io/nfsrwx",
)


def find_class(connection: Connection, name: str, where: list[str]) -> StorageClass:
    """Return a StorageClass. Raises LeadlineError(`class-unsuitable`) where it does not exist."""
    resource = "storageclasses.storage.k8s.io"
    try:
        return connection.ask(
            "get", resource, lambda client: client.get(StorageClass, name), name=name
        )
    except ApiError as error:
        classes = connection.ask("list", resource, lambda client: list(client.list(StorageClass)))
        known = [name_of(known_class) for known_class in classes]
        near = difflib.get_close_matches(name, known, n=1)
        raise LeadlineError(
            errors.CLASS_UNSUITABLE,
            f"the cluster {connection.context} has no StorageClass {name!r}",
            context=[*where, f"StorageClasses: {', '.join(known) or 'none'}"],
            hint=f"did you mean storageclass:{near[0]}?" if near else "name one of them",
        ) from error


def name_of(found: StorageClass | Node) -> str:
    return str(found.metadata.name) if found.metadata else ""


def mode_for(found: StorageClass, requested: VolumeMode | None, where: list[str]) -> VolumeMode:
    """Return the requested mode, else raw block where the class supports it: a file system hides
    the volume. Raises LeadlineError(`class-unsuitable`) for raw block of an unsuitable class."""
    if any(f".{found.provisioner}".endswith(f".{known}") for known in FOLDERS_ONLY):
        if requested is VolumeMode.BLOCK:
            raise LeadlineError(
                errors.CLASS_UNSUITABLE,
                f"the StorageClass {name_of(found)!r} gives no raw block devices",
                context=[*where, f"its provisioner is {found.provisioner}"],
                hint="use mode=filesystem, or omit mode",
            )
        return VolumeMode.FILESYSTEM
    return requested or VolumeMode.BLOCK


def keeps_volumes(found: StorageClass) -> bool:
    return found.reclaimPolicy == "Retain"


ZONE = "topology.kubernetes.io/zone"


def nodes(connection: Connection) -> list[Node]:
    return connection.ask("list", "nodes", lambda client: list(client.list(Node)))


def require_place(
    connection: Connection, node: str, zone: str, selector: Mapping[str, str], where: list[str]
) -> None:
    """Raise LeadlineError(`target-invalid`) where no node has that name, zone or labels."""
    if not node and not zone and not selector:
        return
    known = if_allowed(lambda: nodes(connection))
    if known is None:
        return  # the scheduler reports a place that does not exist
    names = [name_of(item) for item in known]
    if node and node not in names:
        raise LeadlineError(
            errors.TARGET_INVALID,
            f"the cluster has no node {node!r}",
            context=[*where, f"nodes: {shortened(names, 8, nothing='')}"],
        )
    zones = sorted({_labels(item)[ZONE] for item in known if ZONE in _labels(item)})
    if zone and zone not in zones:
        raise LeadlineError(
            errors.TARGET_INVALID,
            f"no node of the cluster is in a zone {zone!r}",
            context=[
                *where,
                f"zones: {shortened(zones, 8, nothing=f'none of the nodes has the label {ZONE}')}",
            ],
        )
    if selector and not any(selector.items() <= _labels(item).items() for item in known):
        wanted = ", ".join(f"{key}={value}" for key, value in selector.items())
        raise LeadlineError(
            errors.TARGET_INVALID, f"no node has the labels {wanted}", context=where
        )


def places_for_runners(
    connection: Connection,
    selector: Mapping[str, str],
    tolerations: Sequence[Toleration],
    key: str,
) -> tuple[str, ...]:
    """Return the values of the label `key` of the nodes that take runners: schedulable, ready or
    of unknown state, with the labels of `selector` and taints that are tolerated."""
    found = set()
    for node in nodes(connection):
        labels, spec = _labels(node), node.spec
        conditions = (node.status.conditions if node.status else None) or ()
        ready = {each.status for each in conditions if each.type == "Ready"}
        taints = (spec.taints if spec else None) or ()
        if key not in labels or (spec and spec.unschedulable) or ready == {"False"}:
            continue
        if not selector.items() <= labels.items():
            continue
        if all(_tolerated(taint, tolerations) for taint in taints):
            found.add(labels[key])
    return tuple(sorted(found))


def _tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Return whether a taint does not keep runners away."""
    if taint.effect == "PreferNoSchedule":
        return True
    return any(
        one.key in (None, taint.key)
        and one.effect in (None, taint.effect)
        and (one.operator == "Exists" or (one.value or "") == (taint.value or ""))
        for one in tolerations
    )


def require_resources(
    connection: Connection,
    request: VolumeRequest,
    selector: Mapping[str, str],
    *,
    cores: float,
    memory_bytes: int,
    where: list[str],
) -> None:
    """Raise LeadlineError(`target-invalid`) where no node of the requested place has so many
    allocatable cores and so much memory. Nodes that this user may not list are not tested."""
    wanted = {**selector, **({ZONE: request.zone} if request.zone else {})}
    known = [
        node
        for node in if_allowed(lambda: nodes(connection)) or ()
        if wanted.items() <= _labels(node).items() and request.node in ("", name_of(node))
    ]
    if not known:
        return

    def room(node: Node) -> tuple[Decimal, Decimal]:
        most = (node.status.allocatable if node.status else None) or {}
        return _decimal(most.get("cpu", "0")), _decimal(most.get("memory", "0"))

    # Nodes without a kubelet yet have no figures; a cluster that grows adds more.
    rooms = [found for found in map(room, known) if any(found)]
    if not rooms or any(cpu >= cores and memory >= memory_bytes for cpu, memory in rooms):
        return
    cpu, memory = (max(values) for values in zip(*rooms, strict=True))
    largest = f"{float(cpu):g} CPU and {format_size(int(memory))} allocatable"
    raise LeadlineError(
        errors.TARGET_INVALID,
        f"no node is large enough for a runner of {cores:g} CPU and {format_size(memory_bytes)}",
        context=[*where, f"the largest of {len(rooms)} has {largest}"],
        hint="ask for less with --runner-cpu and --runner-memory, or for other nodes",
    )


def require_quota(
    connection: Connection, namespace: str, needs: Mapping[str, int], where: list[str]
) -> None:
    """Raise LeadlineError(`quota-exceeded`) where a quota of the namespace leaves less than `needs`
    (`requests.storage` in bytes, `pods`). Quotas that this user may not read are not tested."""

    def call(client: Client) -> list[ResourceQuota]:
        return list(client.list(ResourceQuota, namespace=namespace))

    resource = "resourcequotas"
    quotas = if_allowed(lambda: connection.ask("list", resource, call, namespace=namespace))
    for quota in quotas or ():
        hard = (quota.status.hard if quota.status else None) or {}
        used = (quota.status.used if quota.status else None) or {}
        for key, need in needs.items():
            if key not in hard:
                continue
            left = _decimal(hard[key]) - _decimal(used.get(key, "0"))
            if need > left:
                name = quota.metadata.name if quota.metadata else ""
                raise LeadlineError(
                    errors.QUOTA_EXCEEDED,
                    f"the quota {name!r} of the namespace {namespace!r} leaves "
                    f"{_format_amount(key, left)} of {key}; {_format_amount(key, need)} are needed",
                    context=where,
                    hint="use a smaller size or count, another --namespace, or have it raised",
                )


def require_capacity(
    connection: Connection, storage_class: str, size_bytes: int, where: list[str]
) -> None:
    """Raise LeadlineError(`target-no-space`) where the class's driver publishes capacity
    (CSIStorageCapacity) and none of it fits one volume."""

    def call(client: Client) -> list[CSIStorageCapacity]:
        found = client.list(CSIStorageCapacity, namespace="*")
        return [item for item in found if item.storageClassName == storage_class]

    # Where this user may not list them, the cluster refuses later.
    resource = "csistoragecapacities.storage.k8s.io"
    published = if_allowed(lambda: connection.ask("list", resource, call)) or ()
    largest = [_decimal(item.maximumVolumeSize or item.capacity or "0") for item in published]
    if largest and max(largest) < size_bytes:
        raise LeadlineError(
            errors.TARGET_NO_SPACE,
            f"the driver of the StorageClass {storage_class!r} has at most "
            f"{format_size(int(max(largest)))} free; a volume is {format_size(size_bytes)}",
            context=where,
            hint="use a smaller --size of the plan, or a smaller size= of the volume",
        )


def _decimal(quantity: str) -> Decimal:
    return parse_decimal(quantity) or Decimal(0)


def _format_amount(key: str, amount: int | Decimal) -> str:
    return (
        format_size(int(amount))
        if "storage" in key or "memory" in key
        else f"{Decimal(amount).normalize():f}"
    )


def _labels(node: Node) -> Mapping[str, str]:
    return (node.metadata.labels if node.metadata else None) or {}


# The first KubeVirt with `runStrategy: Once`.
_OLDEST_KUBEVIRT = (1, 0)
_CONSOLES = "subresources.kubevirt.io"


def require_kubevirt(connection: Connection, where: list[str]) -> None:
    """Raise LeadlineError(`target-unsuitable`) without KubeVirt, with an old one, or without its
    console API."""
    groups = api_groups(connection)
    if GROUP not in groups:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} has no virtual machines: KubeVirt is missing",
            context=where,
            hint="use runner=pod, or a cluster with KubeVirt",
        )
    if VERSION not in groups[GROUP] or _too_old(connection):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the KubeVirt of {connection.context} is too old",
            context=[*where, f"it serves {', '.join(groups[GROUP])}"],
            hint=f"KubeVirt {_OLDEST_KUBEVIRT[0]}.{_OLDEST_KUBEVIRT[1]} or later is needed",
        )
    if _CONSOLES not in groups:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} serves no consoles of virtual machines",
            context=[*where, f"the API server does not know the group {_CONSOLES}"],
            hint="look at KubeVirt's virt-api with `kubectl get apiservices`",
        )


def require_imports(connection: Connection, where: list[str]) -> None:
    """Raise LeadlineError(`target-unsuitable`) without CDI, which creates boot disks."""
    if CDI_GROUP not in api_groups(connection):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} creates no boot disks: CDI is missing",
            context=where,
            hint="boot from a container disk (`--vm-image`), or have CDI installed",
        )


def require_data_source(connection: Connection, source: str, where: list[str]) -> None:
    """Raise LeadlineError(`target-unsuitable`) for a DataSource `NAMESPACE/NAME` of CDI that does
    not exist or is not ready, and `kubernetes-denied` where this user may not read it."""
    namespace, _, name = source.partition("/")
    found = get_object(connection, DataSource, SOURCES, name, namespace)
    if found is None:
        others, hint = _other_sources(connection, namespace, name)
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the namespace {namespace!r} has no DataSource {name!r}",
            context=[*where, others],
            hint=hint,
        )
    conditions = (found.to_dict().get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next(
        (item for item in conditions if item.get("type") == "Ready"), {}
    )
    if ready.get("status") != "True":
        reason = ready.get("message") or ready.get("reason") or "it reports no state"
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the DataSource {source!r} is not ready: {reason}",
            context=where,
            hint="look at its import with `kubectl describe datasource,dataimportcron -n "
            f"{namespace}`",
        )


def _other_sources(connection: Connection, namespace: str, name: str) -> tuple[str, str]:
    """Return context and hint for a DataSource that does not exist: the names that exist."""
    found = if_allowed(
        lambda: connection.ask(
            "list",
            SOURCES,
            lambda client: list(client.list(DataSource, namespace=namespace)),
            namespace=namespace,
        )
    )
    names = sorted(str(item.metadata.name) for item in found or () if item.metadata)
    near = difflib.get_close_matches(name, names, n=1)
    listed = "unknown to this user" if found is None else ", ".join(names[:20]) or "none"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    hint = (
        f"did you mean data_source: {namespace}/{near[0]}?"
        if near
        else "golden images of OpenShift Virtualization are in openshift-virtualization-os-images; "
        "`kubectl get datasources -A` lists all"
    )
    return f"DataSources there: {listed}{more}", hint


def _too_old(connection: Connection) -> bool:
    """Return whether the operator reports an old version; an unknown version is accepted."""
    # Where this user may not list it, the server refuses what it does not support.
    found = if_allowed(lambda: connection.listed(GROUP, VERSION, "kubevirts", "KubeVirt"))
    observed = [
        str((item.get("status") or {}).get("observedKubeVirtVersion", "")) for item in found or ()
    ]
    versions = [re.match(r"v?(\d+)\.(\d+)", text) for text in observed]
    return any(
        match is not None and (int(match[1]), int(match[2])) < _OLDEST_KUBEVIRT
        for match in versions
    )
