"""StorageClasses, and what their parameters mean to the driver that is behind each.

Sources of the parameters and their defaults: the drivers' own documentation of StorageClasses
(ceph-csi docs/deploy-rbd.md and deploy-cephfs.md, OpenEBS Mayastor, ZFS LocalPV, Longhorn).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from leadline.inventory.kubernetes.objects import Objects, Part
from leadline.inventory.kubernetes.read_affinity import Affinities, read_affinities
from leadline.inventory.kubernetes.rook_models import CephCluster
from leadline.inventory.kubernetes.volumes import (
    CephVolumes,
    LocalVolumes,
    LonghornVolumes,
    MayastorVolumes,
    Mounter,
    OtherVolumes,
    Parameter,
    StorageClass,
    Volumes,
    ZfsVolumes,
)

RBD, CEPHFS = "rbd.csi.ceph.com", "cephfs.csi.ceph.com"
MAYASTOR, ZFS, LONGHORN = "io.openebs.csi-mayastor", "zfs.csi.openebs.io", "driver.longhorn.io"
_LOCAL = ("rancher.io/local-path", "openebs.io/local", "kubernetes.io/no-provisioner")
_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_VIRT = "storageclass.kubevirt.io/is-default-virt-class"
_STRIPE = ("stripeUnit", "stripeCount", "objectSize")


def class_reader(
    objects: Objects, clusters: Sequence[CephCluster]
) -> Callable[[Part], StorageClass]:
    """Reads a StorageClass; what is set beside it, in the driver's settings, is taken from
    `objects`."""
    affinities = read_affinities(objects, clusters)

    def read(item: Part) -> StorageClass:
        metadata = item.at("metadata")
        notes = {key: one.on for key, one in metadata.at("annotations").members()}
        parts = dict(item.at("parameters").members())
        given = {name: one.word for name, one in parts.items()}
        provisioner = item.at("provisioner").word
        return StorageClass(
            name=metadata.at("name").word,
            provisioner=provisioner,
            default=any(notes.get(name) for name in _DEFAULT),
            default_virt=notes.get(_DEFAULT_VIRT, False),
            reclaim=item.at("reclaimPolicy").text or "Delete",
            binding=item.at("volumeBindingMode").text or "Immediate",
            expansion=item.at("allowVolumeExpansion").on,
            mount_options=item.at("mountOptions").texts(),
            parameters=tuple(Parameter(name=key, value=given[key]) for key in sorted(given)),
            volumes=_volumes(provisioner, given, parts, affinities),
        )

    return read


def _volumes(
    provisioner: str,
    given: Mapping[str, str],
    parts: Mapping[str, Part],
    affinities: Affinities,
) -> Volumes:
    fs_type = given.get("csi.storage.k8s.io/fstype", given.get("fsType", ""))
    if provisioner.endswith(CEPHFS):
        return _cephfs(given, affinities)
    if provisioner.endswith(RBD):
        return _rbd(given, affinities, fs_type)
    if provisioner == MAYASTOR:
        return MayastorVolumes(
            replicas=_count(parts, "repl"),
            protocol=given.get("protocol", ""),
            thin=_switch(given, "thin"),
            encrypted=_switch(given, "encrypted"),
            io_timeout_s=_count(parts, "ioTimeout"),
            fs_type=fs_type,
        )
    if provisioner == ZFS:
        return _zfs(given)
    if provisioner == LONGHORN:
        return LonghornVolumes(
            data_engine=given.get("dataEngine", "v1"),
            replicas=_count(parts, "numberOfReplicas"),
            data_locality=given.get("dataLocality", ""),
            encrypted=_switch(given, "encrypted"),
            migratable=_switch(given, "migratable"),
            disk_selector=given.get("diskSelector", ""),
            node_selector=given.get("nodeSelector", ""),
            fs_type=fs_type,
        )
    if provisioner in _LOCAL or provisioner.endswith("/local-path"):
        return LocalVolumes(path=given.get("nodePath", given.get("BasePath", "")))
    return OtherVolumes()


def _rbd(given: Mapping[str, str], affinities: Affinities, fs_type: str) -> CephVolumes:
    nbd = given.get("mounter") == "rbd-nbd"
    return CephVolumes(
        kind="ceph-rbd",
        cluster_id=given.get("clusterID", ""),
        pool=given.get("pool", ""),
        data_pool=given.get("dataPool", ""),
        image_features=given.get("imageFeatures", ""),
        mounter=Mounter.RBD_NBD if nbd else Mounter.KRBD,
        map_options=given.get("mapOptions", ""),
        stripe=", ".join(f"{name} {given[name]}" for name in _STRIPE if name in given),
        encrypted=_switch(given, "encrypted"),
        encryption_type=given.get("encryptionType", ""),
        kms_id=given.get("encryptionKMSID", ""),
        fs_type=fs_type,
        read_affinity=affinities.of(given.get("clusterID", "")),
    )


def _cephfs(given: Mapping[str, str], affinities: Affinities) -> CephVolumes:
    fuse = given.get("mounter") == "fuse"
    options = given.get("fuseMountOptions" if fuse else "kernelMountOptions", "")
    return CephVolumes(
        kind="cephfs",
        cluster_id=given.get("clusterID", ""),
        pool=given.get("pool", ""),
        fs_name=given.get("fsName", ""),
        mounter=Mounter.FUSE if fuse else Mounter.KERNEL,
        map_options=options,
        encrypted=_switch(given, "encrypted"),
        encryption_type=given.get("encryptionType", ""),
        kms_id=given.get("encryptionKMSID", ""),
        read_affinity=affinities.of(given.get("clusterID", "")),
    )


def _zfs(given: Mapping[str, str]) -> ZfsVolumes:
    fs_type = given.get("fstype", given.get("csi.storage.k8s.io/fstype", "ext4"))
    thin = given.get("thinprovision")
    return ZfsVolumes(
        pool=given.get("poolname", ""),
        layout="dataset" if fs_type == "zfs" else "zvol",
        fs_type=fs_type,
        record_size=given.get("recordsize", ""),
        block_size=given.get("volblocksize", ""),
        compression=given.get("compression", ""),
        dedup=given.get("dedup", ""),
        thin=None if thin is None else thin.lower() in ("yes", "true"),
        shared=given.get("shared", "").lower() == "yes",
    )


def _count(parts: Mapping[str, Part], name: str) -> int | None:
    return parts[name].integer if name in parts else None


def _switch(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "").lower() in ("true", "yes", "1")
