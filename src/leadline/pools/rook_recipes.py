"""The pools of the study as resources of Rook and StorageClasses.

Sources: Rook's examples (deploy/examples/pool.yaml, pool-ec.yaml, csi/rbd/storageclass-ec.yaml);
for `repN-virt` ocs-operator's class for virtualization (storageclasses.go): `mounter: rbd`,
`mapOptions: krbd:rxbounce`, which avoids resends for a wrong checksum when a guest changes a buffer
during a write, and all image features of the kernel's client. For `repN-luks` ceph-csi's
docs/deploy-rbd.md and csi-addons' docs/encryptionkeyrotation.md. For `cephfs-repN` Rook's
filesystem.yaml and csi/cephfs/storageclass.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.connect.kubernetes.objects import dns_label
from leadline.inventory.kubernetes.classes import CEPHFS, KEY_ROTATION, KMS_CONFIG, RBD
from leadline.inventory.kubernetes.models import CephCluster, CephVolumes
from leadline.pools.options import DEFAULT_OPTIONS, NO_CONSENT, PoolOptions
from leadline.pools.recipes import Act, Decision, Impossible, Kind, PoolName, counted, pool_name
from leadline.pools.rook_resources import (
    Manifest,
    Prerequisites,
    RookState,
    is_being_deleted,
    is_of_cluster,
    is_owned,
    parameters_of,
)

POOL = ("ceph.rook.io/v1", "CephBlockPool")
FILESYSTEM = ("ceph.rook.io/v1", "CephFilesystem")
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
    names: Sequence[PoolName],
    state: RookState,
    prerequisites: Prerequisites,
    options: PoolOptions = DEFAULT_OPTIONS,
) -> tuple[RookDecision, ...]:
    """Decide what to do with each name, in their order; a base pool comes before its variants."""
    wanted: dict[str, PoolName] = {}
    for name in names:
        if name.kind.is_variant:
            wanted.setdefault(name.base, pool_name(name.base))
        wanted.setdefault(name.text, name)
    found: dict[str, RookDecision] = {}
    for name in sorted(wanted.values(), key=lambda name: name.kind is Kind.ERASURE):
        try:
            found[name.text] = _decision(name, state, prerequisites, found, options)
        except Impossible as impossible:
            reason = str(impossible)
            found[name.text] = RookDecision(name=name.text, act=Act.SKIP, reason=reason)
    return tuple(found[text] for text in wanted)


def _decision(
    name: PoolName,
    state: RookState,
    prerequisites: Prerequisites,
    found: Mapping[str, RookDecision],
    options: PoolOptions,
) -> RookDecision:
    if name.kind is Kind.CEPHFS:
        existing = _existing_cephfs(name, state, prerequisites.cluster)
        if existing is not None:
            return existing
    if name.kind.is_variant:
        base = found[name.base]
        if base.act is Act.SKIP:
            raise Impossible(base.reason)
        parameters = _parameters(prerequisites, state, name.base)
        if name.kind is Kind.LUKS:
            return _encrypted_volumes(name, state, prerequisites, parameters, options)
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
    if name.size == 1 and not options.no_redundancy:
        raise Impossible(NO_CONSENT)
    if prerequisites.buckets is not None and prerequisites.buckets < name.size:
        raise Impossible(
            f"{name.text} needs {name.size} failure domains; the cluster has "
            f"{counted(prerequisites.buckets, prerequisites.domain)}"
        )
    if name.kind is Kind.CEPHFS:
        return _cephfs(name, state, prerequisites, device_class, options)
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
    pool = _pool(name, prerequisites, device_class, options)
    return _with_class(name, state, prerequisites, text, pool=pool, parameters=parameters)


def _with_class(
    name: PoolName,
    state: RookState,
    prerequisites: Prerequisites,
    text: str,
    *,
    pool: Manifest | None,
    parameters: Mapping[str, str],
    further: Mapping[str, Any] | None = None,
) -> RookDecision:
    """Return the decision for a pool and its class, which `further` completes. Existing objects
    stay as they are."""
    made = class_name(name.text)
    existing = [
        state.pools.get((prerequisites.namespace, name.text)) if pool else None,
        state.classes.get(made),
    ]
    wanted = [pool, {**_class(made, parameters, prerequisites, state), **(further or {})}]
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


def _pool(
    name: PoolName, prerequisites: Prerequisites, device_class: str, options: PoolOptions
) -> Manifest:
    metadata = {"name": name.text, "namespace": prerequisites.namespace}
    spec = _pool_spec(name, prerequisites, device_class, options)
    return {"apiVersion": POOL[0], "kind": POOL[1], "metadata": metadata, "spec": spec}


def _pool_spec(
    name: PoolName, prerequisites: Prerequisites, device_class: str, options: PoolOptions
) -> dict[str, Any]:
    """Return the spec of a pool. Rook sets each of `parameters` by `ceph osd pool set`."""
    spec: dict[str, Any] = {"failureDomain": prerequisites.domain}
    if device_class:
        spec["deviceClass"] = device_class
    # Set explicitly, since a cluster may have other defaults.
    parameters = {"min_size": str(name.min_size), "compression_mode": "none"}
    if options.pg_num is not None:
        parameters |= {"pg_num": str(options.pg_num), "pg_autoscale_mode": "off"}
    if options.target_ratio is not None:
        parameters["pg_autoscale_mode"] = "on"
    if name.kind is Kind.ERASURE:
        spec["erasureCoded"] = {"dataChunks": name.k, "codingChunks": name.m}
        plugin = options.erasure_profile.get("plugin")
        if plugin is not None:
            spec["erasureCoded"]["algorithm"] = plugin
        if options.target_ratio is not None:
            parameters["target_size_ratio"] = f"{options.target_ratio:g}"
    else:
        # Rook refuses one copy unless this is false.
        spec["replicated"] = {"size": name.size, "requireSafeReplicaSize": name.size > 1}
        if options.target_ratio is not None:
            spec["replicated"]["targetSizeRatio"] = options.target_ratio
    spec["parameters"] = parameters
    return spec


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
    return _copied_parameters(state.classes[prerequisites.template.name]) | {"pool": pool}


def _copied_parameters(template: Manifest) -> dict[str, str]:
    given = template.get("parameters") or {}
    return {key: str(value) for key, value in given.items() if key in _COPIED or _SECRETS in key}


def _metadata_pool(found: Mapping[str, RookDecision], prerequisites: Prerequisites) -> str:
    """Return the first replicated pool of the study that exists or is planned, else the pool of
    the copied class."""
    for text, decision in found.items():
        name = pool_name(text)
        if name.kind is Kind.REPLICATED and name.size > 1 and decision.act is not Act.SKIP:
            return text
    return parameters_of(prerequisites.template).get("pool", "")


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


def _encrypted_volumes(
    name: PoolName,
    state: RookState,
    prerequisites: Prerequisites,
    parameters: Mapping[str, str],
    options: PoolOptions,
) -> RookDecision:
    """Return a class whose volumes ceph-csi encrypts with LUKS, each with its own key. The key
    management service is the user's, else that of the cluster's encrypted classes."""
    used = sorted({
        found.volumes.kms_id
        for found in state.inventory.storage_classes
        if isinstance(found.volumes, CephVolumes)
        and found.volumes.encrypted
        and found.volumes.kms_id
        and is_of_cluster(found, prerequisites.cluster)
    })  # fmt: skip
    known = used if state.kms is None else sorted(state.kms)
    kms = options.kms or (used[0] if len(used) == 1 else "")
    listed = f"known: {', '.join(known) or 'none'}"
    if not kms:
        raise Impossible(f"it needs a key management service: --kms ID ({listed})")
    if state.kms is not None and kms not in state.kms:
        raise Impossible(
            f"the ConfigMap {KMS_CONFIG} has no key management service {kms!r} ({listed})"
        )
    provider = (state.kms or {}).get(kms)
    text = f"the pool {name.base}, each volume encrypted with LUKS, keys in {kms}"
    text += f" ({provider})" if provider else " (provider unknown)"
    further: dict[str, Any] = {}
    if options.key_rotation is not None:
        text += f", rotated {options.key_rotation}"
        annotations = {KEY_ROTATION: options.key_rotation}
        further["metadata"] = {"name": class_name(name.text), "annotations": annotations}
    encrypted = {**parameters, "encrypted": "true", "encryptionKMSID": kms}
    return _with_class(
        name, state, prerequisites, text, pool=None, parameters=encrypted, further=further
    )


_DATA = "data"


def _cephfs(
    name: PoolName,
    state: RookState,
    prerequisites: Prerequisites,
    device_class: str,
    options: PoolOptions,
) -> RookDecision:
    """Return a CephFilesystem of its own. Rook never removes a data pool from a CephFilesystem
    (updateFilesystem), but removes a whole one."""
    template, parameters = _cephfs_template(state, prerequisites)
    # The options size the data pool; metadata is small.
    metadata = _pool_spec(name, prerequisites, device_class, DEFAULT_OPTIONS)
    data = _pool_spec(name, prerequisites, device_class, options)
    filesystem = {
        "apiVersion": FILESYSTEM[0],
        "kind": FILESYSTEM[1],
        "metadata": {"name": name.text, "namespace": prerequisites.namespace},
        "spec": {
            "metadataPool": metadata,
            "dataPools": [{"name": _DATA, **data}],
            "preserveFilesystemOnDelete": False,
            "metadataServer": {"activeCount": 1, "activeStandby": False},
        },
    }
    parameters |= {"fsName": name.text, "pool": f"{name.text}-{_DATA}"}
    where = counted(prerequisites.buckets, prerequisites.domain) if prerequisites.buckets else ""
    text = f"its own CephFilesystem, {name.redundancy}, over {where or prerequisites.domain}"
    return _with_class(
        name,
        state,
        prerequisites,
        text,
        pool=filesystem,
        parameters=parameters,
        further={"provisioner": template},
    )


def _cephfs_template(state: RookState, prerequisites: Prerequisites) -> tuple[str, dict[str, str]]:
    """Return provisioner and parameters of a class of CephFS: those of an existing one, else those
    of the copied RBD class, whose secrets Rook and ODF name alike."""
    for found in state.inventory.storage_classes:
        if found.provisioner.endswith(CEPHFS) and is_of_cluster(found, prerequisites.cluster):
            return found.provisioner, _copied_parameters(state.classes[found.name])
    template = prerequisites.template
    copied = _copied_parameters(state.classes[template.name])
    named = {
        key: value.replace("-rbd-", "-cephfs-") if key.endswith("-secret-name") else value
        for key, value in copied.items()
        if key == "clusterID" or _SECRETS in key
    }
    return template.provisioner.removesuffix(RBD) + CEPHFS, named


def ceph_pools(made: Manifest) -> list[str]:
    """Return the names of the Ceph pools of a CephBlockPool or CephFilesystem."""
    name = str(made["metadata"]["name"])
    if made["kind"] == POOL[1]:
        return [name]
    data = (made.get("spec") or {}).get("dataPools") or ()
    names = [str(pool.get("name") or f"data{number}") for number, pool in enumerate(data)]
    return [f"{name}-{suffix}" for suffix in ("metadata", *names)]


def _existing_cephfs(name: PoolName, state: RookState, cluster: CephCluster) -> RookDecision | None:
    """Return the use of an existing data pool with as many copies, where another user made it."""
    for filesystem in state.inventory.filesystems:
        if filesystem.namespace != cluster.namespace or filesystem.name == name.text:
            continue
        for pool in filesystem.data_pools:
            if pool.spec.size != name.size:
                continue
            for storage_class in state.inventory.storage_classes:
                parameters = parameters_of(storage_class)
                placed = parameters.get("pool", filesystem.data_pools[0].name)
                if (
                    storage_class.provisioner.endswith(CEPHFS)
                    and is_of_cluster(storage_class, cluster)
                    and parameters.get("fsName") == filesystem.name
                    and placed == pool.name
                ):
                    used = storage_class.name
                    reason = f"the data pool {pool.name} exists: use storageclass:{used}"
                    return RookDecision(
                        name=name.text, act=Act.SAME, reason=reason, storage_class=used
                    )
    return None
