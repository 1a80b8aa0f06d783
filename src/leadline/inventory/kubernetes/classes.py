"""Read StorageClasses: the meaning of their parameters to each driver.

Sources of parameters and defaults: the drivers' documentation of StorageClasses (ceph-csi
docs/deploy-rbd.md and deploy-cephfs.md, OpenEBS Mayastor, ZFS LocalPV, Longhorn).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leadline.inventory.kubernetes.kinds import ObjectKind
from leadline.inventory.kubernetes.models import (
    CephCluster,
    CephVolumes,
    KubernetesInventory,
    LocalVolumes,
    LonghornVolumes,
    MayastorVolumes,
    Mounter,
    OtherVolumes,
    Parameter,
    ReadAffinity,
    StorageClass,
    Volumes,
    ZfsVolumes,
)
from leadline.inventory.kubernetes.objects import Objects, Part, build, object_name

# Read affinity of Ceph's clients: set by Rook, ceph-csi's settings or the arguments of its driver.
# Sources: ceph-csi docs/deploy-rbd.md, Rook Documentation/Storage-Configuration/Ceph-CSI.

_SETTINGS = ("csi-cluster-config-json", "config.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinities:
    """`by_cluster` is by ceph-csi's id of a cluster, `for_all` from a driver's arguments."""

    by_cluster: Mapping[str, ReadAffinity]
    for_all: ReadAffinity | None

    def find(self, cluster_id: str) -> ReadAffinity | None:
        """Return the affinity of a cluster; None: unknown."""
        return self.by_cluster.get(cluster_id, self.for_all)


def read_affinities(objects: Objects, clusters: Sequence[CephCluster]) -> Affinities:
    """Read the affinities of all objects; the driver's settings override Rook's."""
    found: dict[str, ReadAffinity] = {}
    for cluster in clusters:
        if cluster.read_affinity is not None:
            # Rook names a cluster by its namespace.
            found[cluster.namespace] = ReadAffinity(
                enabled=cluster.read_affinity,
                labels=cluster.read_affinity_labels,
                told_by=f"CephCluster {cluster.namespace}/{cluster.name}",
            )
    found |= _read_connections(objects)
    for settings in objects.read(ObjectKind.CONFIG_MAP, _read_settings):
        found |= settings
    arguments = filter(None, objects.read(ObjectKind.DAEMON_SET, _read_arguments))
    return Affinities(by_cluster=found, for_all=next(arguments, None))


def _read_settings(item: Part) -> dict[str, ReadAffinity]:
    found = {}
    for name in _SETTINGS:
        text = item.at("data", name).text
        if not text:
            continue
        try:
            decoded = Part(f"data.{name}", json.loads(text))
        except (ValueError, RecursionError) as error:
            raise item.at("data", name).wrong("JSON") from error
        for cluster in decoded.elements():
            affinity = _affinity(cluster.at("readAffinity"), f"ConfigMap {object_name(item)}")
            if affinity is not None:
                found[cluster.at("clusterID").word] = affinity
    return found


def _read_connections(objects: Objects) -> dict[str, ReadAffinity]:
    """Read CephConnections by ClientProfile, whose name is the id in StorageClasses."""

    def connection(item: Part) -> tuple[str, ReadAffinity | None]:
        part = item.at("spec", "readAffinity")
        name = item.at("metadata", "name").word
        labels = part.at("crushLocationLabels").texts()
        told_by = f"CephConnection {object_name(item)}"
        return name, (
            ReadAffinity(enabled=True, labels=labels, told_by=told_by) if part.there else None
        )

    def profile(item: Part) -> tuple[str, str]:
        referred = item.at("spec", "cephConnectionRef", "name").word
        return item.at("metadata", "name").word, referred

    connections = dict(objects.read(ObjectKind.CEPH_CONNECTION, connection))
    return {
        name: affinity
        for name, referred in objects.read(ObjectKind.CLIENT_PROFILE, profile)
        if (affinity := connections.get(referred)) is not None
    }


def _affinity(part: Part, told_by: str) -> ReadAffinity | None:
    if not part.there:
        return None
    labels = part.at("crushLocationLabels").texts()
    return ReadAffinity(enabled=part.at("enabled").on, labels=labels, told_by=told_by)


def _read_arguments(item: Part) -> ReadAffinity | None:
    """`--enable-read-affinity=true --crush-location-labels=a,b` of ceph-csi's RBD plugin."""
    for container in item.at("spec", "template", "spec", "containers").elements():
        arguments = dict(
            text.lstrip("-").partition("=")[::2] for text in container.at("args").texts()
        )
        if arguments.get("enable-read-affinity", "").lower() == "true":
            labels = arguments.get("crush-location-labels", "")
            return ReadAffinity(
                enabled=True,
                labels=tuple(label for label in labels.split(",") if label),
                told_by=f"DaemonSet {object_name(item)}",
            )
    return None


# Key management of ceph-csi's encrypted volumes: settings by name, as `encryptionKMSID` gives it.
# Source: ceph-csi examples/kms/vault (csi-kms-connection-details.yaml, kms-config.yaml).
KMS_CONFIG = "csi-kms-connection-details"
_KMS_TYPES = ("encryptionKMSType", "KMS_PROVIDER")


def kms_providers(data: Mapping[str, object]) -> dict[str, str]:
    """Return the kind of each key management service, such as `vault`, by its name; empty where
    the settings do not say."""
    found = {}
    for name, text in data.items():
        try:
            settings = json.loads(str(text))
        except (ValueError, RecursionError):
            settings = {}
        given = settings if isinstance(settings, dict) else {}
        found[str(name)] = next((str(given[key]) for key in _KMS_TYPES if key in given), "")
    return found


def _read_kms(objects: Objects) -> dict[str, str]:
    def read(item: Part) -> dict[str, str]:
        if item.at("metadata", "name").word != KMS_CONFIG:
            return {}
        return kms_providers({name: part.text or "" for name, part in item.at("data").members()})

    found: dict[str, str] = {}
    for providers in objects.read(ObjectKind.CONFIG_MAP, read):
        found |= providers
    return found


RBD, CEPHFS = "rbd.csi.ceph.com", "cephfs.csi.ceph.com"
MAYASTOR, ZFS, LONGHORN = "io.openebs.csi-mayastor", "zfs.csi.openebs.io", "driver.longhorn.io"
_LOCAL = ("rancher.io/local-path", "openebs.io/local", "kubernetes.io/no-provisioner")
_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_VIRT = "storageclass.kubevirt.io/is-default-virt-class"
# The schedule on which csi-addons rotates the keys of a class's volumes.
KEY_ROTATION = "keyrotation.csiaddons.openshift.io/schedule"
_FS_TYPE = "csi.storage.k8s.io/fstype"
_STRIPE = ("stripeUnit", "stripeCount", "objectSize")


def class_reader(
    objects: Objects, clusters: Sequence[CephCluster]
) -> Callable[[Part], StorageClass]:
    """Return a reader of StorageClasses; settings of the driver are read from `objects`."""
    affinities = read_affinities(objects, clusters)
    kms = _read_kms(objects)

    def read(item: Part) -> StorageClass:
        notes = dict(item.at("metadata", "annotations").members())
        parameters = [
            Parameter(name=name, value=part.word) for name, part in item.at("parameters").members()
        ]
        return build(
            StorageClass,
            item,
            default=any(notes[name].on for name in _DEFAULT if name in notes),
            default_virt=_DEFAULT_VIRT in notes and notes[_DEFAULT_VIRT].on,
            reclaim=item.at("reclaimPolicy").text or "Delete",
            binding=item.at("volumeBindingMode").text or "Immediate",
            parameters=tuple(sorted(parameters, key=lambda parameter: parameter.name)),
            volumes=_with_keys(
                _volumes(item.at("provisioner").word, item.at("parameters"), affinities),
                kms,
                notes[KEY_ROTATION].word if KEY_ROTATION in notes else "",
            ),
        )

    return read


def _with_keys(volumes: Volumes, kms: Mapping[str, str], rotation: str) -> Volumes:
    """Add where an encrypted class of Ceph has its keys, and how often they are rotated."""
    if not isinstance(volumes, CephVolumes) or not volumes.encrypted:
        return volumes
    provider = kms.get(volumes.kms_id, "")
    return volumes.model_copy(update={"kms_provider": provider, "key_rotation": rotation})


def _volumes(provisioner: str, given: Part, affinities: Affinities) -> Volumes:
    """Return the meaning of a class's parameters."""
    if provisioner.endswith((RBD, CEPHFS)):
        return _ceph_volumes(given, affinities, in_files=provisioner.endswith(CEPHFS))
    fs_type = _first(given, _FS_TYPE, "fsType")
    if provisioner == MAYASTOR:
        return build(
            MayastorVolumes,
            given,
            thin=_switch(given, "thin"),
            encrypted=_switch(given, "encrypted"),
            fs_type=fs_type,
        )
    if provisioner == ZFS:
        fs_type = _first(given, "fstype", _FS_TYPE) or "ext4"
        return build(
            ZfsVolumes,
            given,
            layout="dataset" if fs_type == "zfs" else "zvol",
            fs_type=fs_type,
            thin=_switch(given, "thinprovision") if given.at("thinprovision").there else None,
            shared=_switch(given, "shared"),
        )
    if provisioner == LONGHORN:
        return build(
            LonghornVolumes,
            given,
            data_engine=_first(given, "dataEngine") or "v1",
            encrypted=_switch(given, "encrypted"),
            migratable=_switch(given, "migratable"),
            fs_type=fs_type,
        )
    if provisioner in _LOCAL or provisioner.endswith("/local-path"):
        return LocalVolumes(path=_first(given, "nodePath", "BasePath"))
    return OtherVolumes()


def _ceph_volumes(given: Part, affinities: Affinities, *, in_files: bool) -> CephVolumes:
    mounter = given.at("mounter").word
    if in_files:
        client = Mounter.FUSE if mounter == "fuse" else Mounter.KERNEL
        options = "fuseMountOptions" if mounter == "fuse" else "kernelMountOptions"
    else:
        client = Mounter.RBD_NBD if mounter == "rbd-nbd" else Mounter.KRBD
        options = "mapOptions"
    stripes = {name: given.at(name) for name in _STRIPE if not in_files}
    return build(
        CephVolumes,
        given,
        kind="cephfs" if in_files else "ceph-rbd",
        mounter=client,
        map_options=given.at(options).word,
        stripe=", ".join(f"{name} {part.word}" for name, part in stripes.items() if part.there),
        encrypted=_switch(given, "encrypted"),
        fs_type="" if in_files else _first(given, _FS_TYPE, "fsType"),
        read_affinity=affinities.find(given.at("clusterID").word),
    )


def _first(given: Part, *names: str) -> str:
    """Return the first of these parameters that is given; empty: none."""
    return next((part.word for part in map(given.at, names) if part.there), "")


def _switch(given: Part, name: str) -> bool:
    return given.at(name).word.lower() in ("true", "yes", "1")


# Queries of the inventory.


def pool_of_class(inventory: KubernetesInventory, name: str) -> str:
    """Return the Ceph pool that holds a class's data; empty: unknown, or not a class of Ceph."""
    volumes = _ceph(inventory, name)
    if volumes is None:
        return ""
    named = volumes.data_pool or volumes.pool
    if named or volumes.kind == "ceph-rbd":
        return named
    pools = [
        pool.name
        for filesystem in inventory.filesystems
        if filesystem.name == volumes.fs_name
        for pool in filesystem.data_pools
    ]
    return pools[0] if len(pools) == 1 else ""


def reads_near(inventory: KubernetesInventory, name: str) -> bool:
    """Return whether clients of a class's volumes read the nearest copy."""
    volumes = _ceph(inventory, name)
    if volumes is None:
        return False
    affinity = volumes.read_affinity
    mapped = "read_from_replica=localize" in volumes.map_options
    return mapped or (affinity is not None and affinity.enabled)


def _ceph(inventory: KubernetesInventory, name: str) -> CephVolumes | None:
    item = inventory.storage_class(name)
    return item.volumes if item and isinstance(item.volumes, CephVolumes) else None
