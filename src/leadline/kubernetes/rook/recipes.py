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

from leadline.ceph.pool_ground import counted
from leadline.ceph.pool_names import Kind, PoolName, pool_name
from leadline.ceph.pool_recipes import Act
from leadline.inventory.kubernetes.rook_models import CephCluster
from leadline.kubernetes.labels import dns_label
from leadline.kubernetes.rook.ground import Ground, of_cluster
from leadline.kubernetes.rook.state import Manifest, RookState, is_going, is_ours

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
    for name in sorted(wanted.values(), key=lambda one: one.kind is Kind.ERASURE):
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
        one for one, found in zip(wanted, there, strict=True) if one is not None and found is None
    )
    going = [one for one in there if one is not None and is_going(one)]
    if going:
        reason = f"its {going[0]['kind']} is being removed: wait until it is gone"
        return RookDecision(name=name.text, act=Act.SKIP, reason=reason)
    act = Act.CREATE
    if not makes:
        ours = all(is_ours(one) for one in there if one is not None)
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
    for text, one in found.items():
        if pool_name(text).kind is Kind.REPLICATED and one.act is not Act.SKIP:
            return text
    told = {one.name: one.value for one in ground.template.parameters}
    return told.get("pool", "")


def _encrypted_class(ground: Ground) -> str | None:
    """The device class whose OSDs are all on dm-crypt, empty where every OSD is; None: neither."""
    if ground.cluster.encrypted:
        return ground.device_class
    sets = ground.cluster.device_sets
    for device_class in dict.fromkeys(one.device_class for one in sets if one.encrypted):
        here = [one for one in sets if one.device_class == device_class]
        if device_class and all(one.encrypted for one in here):
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
            for one in state.inventory.storage_classes:
                told = {each.name: each.value for each in one.parameters}
                placed = told.get("pool", filesystem.data_pools[0].name)
                if (
                    one.provisioner.endswith("cephfs.csi.ceph.com")
                    and of_cluster(one, cluster)
                    and told.get("fsName") == filesystem.name
                    and placed == pool.name
                ):
                    reason = f"the data pool {pool.name} is one: use storageclass:{one.name}"
                    return RookDecision(
                        name=name.text, act=Act.SAME, reason=reason, storage_class=one.name
                    )
    reason = (
        "Rook adds data pools to a CephFilesystem but never takes one out, so that it could not be "
        "undone; `leadline pools create --ceph-conf` can"
    )
    return RookDecision(name=name.text, act=Act.SKIP, reason=reason)
