"""How the StorageClasses differ that two sides' volumes come from."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.inventory.differences.model import Collector, Difference, Topic, merged
from leadline.inventory.differences.words import counted, listed
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.volumes import (
    CephVolumes,
    LonghornVolumes,
    MayastorVolumes,
    StorageClass,
    ZfsVolumes,
)
from leadline.visible import visible

# What a fact is called, what it is about, and its text.
Facts = dict[str, tuple[Topic, str]]

_UNSET = "not set"
# What a reader looks for first; of all else only differences are told.
_TOLD_IF_SAME = ("driver", "replicas", "mounter", "data_engine", "layout")
# Parameters that are told as facts, or that name things that are called otherwise in each cluster.
_SPOKEN_FOR = {
    "clusterID", "pool", "dataPool", "fsName", "imageFeatures", "mounter", "mapOptions",
    "kernelMountOptions", "fuseMountOptions", "encrypted", "encryptionType", "encryptionKMSID",
    "stripeUnit", "stripeCount", "objectSize", "repl", "protocol", "thin", "ioTimeout",
    "poolname", "fstype", "fsType", "csi.storage.k8s.io/fstype", "recordsize", "volblocksize",
    "compression", "dedup", "thinprovision", "shared", "numberOfReplicas", "dataLocality",
    "dataEngine", "migratable", "diskSelector", "nodeSelector",
}  # fmt: skip


def compare_classes(
    found: Collector,
    base: KubernetesInventory,
    candidate: KubernetesInventory,
    classes: Mapping[str, tuple[str, str]],
) -> None:
    """Each subject's class on both sides, and which classes only one side has."""
    each = Collector()
    for subject, (ours, theirs) in classes.items():
        left, right = base.storage_class(ours), candidate.storage_class(theirs)
        if left is None or right is None:
            found.unknown.append(f"StorageClass of {visible(subject)}, which an inventory lacks")
        else:
            _class(each, subject, left, right)
    take_each(found, each, "storage_classes", len(classes))
    _others(found, base, candidate, classes)


def take_each(found: Collector, each: Collector, prefix: str, subjects: int) -> None:
    """What was noted of subjects one by one; a difference that all of them have is told once, as
    `PREFIX.*.FACT`."""
    by_key: dict[str, list[Difference]] = {}
    for one in each.differences:
        key = one.path.removeprefix(f"{prefix}.{visible(one.target)}.")
        by_key.setdefault(key, []).append(one)
    for key, differences in by_key.items():
        found.differences += merged(differences, subjects, f"{prefix}.*.{key}")
    found.unknown += each.unknown
    found.identical += each.identical


def _class(found: Collector, subject: str, ours: StorageClass, theirs: StorageClass) -> None:
    shown = visible(subject)
    sides = _facts(ours), _facts(theirs)
    if ours.volumes.kind != theirs.volumes.kind or ours.volumes.kind == "other":
        sides[0]["driver"] = (Topic.VOLUMES, _driver(ours))
        sides[1]["driver"] = (Topic.VOLUMES, _driver(theirs))
    for key in dict.fromkeys((*sides[0], *sides[1])):
        if key not in sides[0] or key not in sides[1]:
            continue  # another driver has no word for it
        (topic, left), (_, right) = sides[0][key], sides[1][key]
        what = f"{key.replace('_', ' ')} of {shown}:"
        found.compare(
            f"storage_classes.{shown}.{key}",
            topic,
            left,
            right,
            what=what,
            same=f"{what} {left}" if key in _TOLD_IF_SAME else "",
            target=subject,
        )


def _others(
    found: Collector,
    base: KubernetesInventory,
    candidate: KubernetesInventory,
    classes: Mapping[str, tuple[str, str]],
) -> None:
    """Classes that nobody compares have no effect, but tell how alike two clusters are."""
    if base.uid and base.uid == candidate.uid:
        return
    names = [{one.name for one in side.storage_classes} for side in (base, candidate)]
    compared = [{pair[0] for pair in classes.values()}, {pair[1] for pair in classes.values()}]
    texts = [
        listed(visible(name) for name in sorted(mine - used))
        for mine, used in zip(names, compared, strict=True)
    ]
    found.compare("storage_classes.others", Topic.VOLUMES, texts[0], texts[1], same="")


def _driver(item: StorageClass) -> str:
    return f"{item.volumes.kind} ({visible(item.provisioner)})"


def _facts(item: StorageClass) -> Facts:
    """What a class says, by name; alike for classes of one kind."""
    volumes = item.volumes
    facts: Facts = {}
    if isinstance(volumes, CephVolumes):
        facts = _ceph(volumes)
    elif isinstance(volumes, MayastorVolumes):
        facts = {
            "replicas": (Topic.REDUNDANCY, _copies(volumes.replicas, 1)),
            "protocol": (Topic.VOLUMES, visible(volumes.protocol) or _UNSET),
            "thin": (Topic.VOLUMES, "thin" if volumes.thin else "thick"),
            "encryption": (Topic.ENCRYPTION, "on" if volumes.encrypted else "off"),
        }
    elif isinstance(volumes, ZfsVolumes):
        facts = {
            "layout": (Topic.VOLUMES, volumes.layout),
            "record_size": (Topic.VOLUMES, visible(volumes.record_size) or _UNSET),
            "block_size": (Topic.VOLUMES, visible(volumes.block_size) or _UNSET),
            "compression": (Topic.VOLUMES, visible(volumes.compression) or _UNSET),
            "dedup": (Topic.VOLUMES, visible(volumes.dedup) or _UNSET),
            "thin": (Topic.VOLUMES, "thin" if volumes.thin else "thick"),
        }
    elif isinstance(volumes, LonghornVolumes):
        facts = {
            "replicas": (Topic.REDUNDANCY, _copies(volumes.replicas, None)),
            "data_engine": (Topic.VOLUMES, visible(volumes.data_engine)),
            "data_locality": (Topic.VOLUMES, visible(volumes.data_locality) or _UNSET),
            "encryption": (Topic.ENCRYPTION, "on" if volumes.encrypted else "off"),
            "migratable": (Topic.VOLUMES, "yes" if volumes.migratable else "no"),
            "disk_selector": (Topic.MEDIA, visible(volumes.disk_selector) or _UNSET),
            "node_selector": (Topic.VOLUMES, visible(volumes.node_selector) or _UNSET),
        }
    fs_type = getattr(volumes, "fs_type", "")
    facts["fs_type"] = (Topic.VOLUMES, visible(fs_type) or _UNSET)
    options = visible(", ".join(item.mount_options))
    facts["mount_options"] = (Topic.VOLUMES, options or _UNSET)
    for one in item.parameters:
        if one.name not in _SPOKEN_FOR and "secret" not in one.name.lower():
            facts[f"parameters.{visible(one.name)}"] = (Topic.VOLUMES, visible(one.value) or _UNSET)
    return facts


def _ceph(volumes: CephVolumes) -> Facts:
    affinity = volumes.read_affinity
    near = "not told"
    if affinity is not None:
        levels = [visible(label.rpartition("/")[2]) for label in affinity.labels]
        near = f"on{f' ({listed(levels)})' if levels else ''}" if affinity.enabled else "off"
    encryption = "off"
    if volumes.encrypted:
        kms = f", KMS {visible(volumes.kms_id)}" if volumes.kms_id else ""
        kind = "file" if volumes.kind == "cephfs" else "block"
        encryption = f"{visible(volumes.encryption_type) or kind}{kms}"
    return {
        "mounter": (Topic.VOLUMES, volumes.mounter.value),
        "map_options": (Topic.VOLUMES, visible(volumes.map_options) or _UNSET),
        "image_features": (Topic.VOLUMES, visible(volumes.image_features) or _UNSET),
        "stripe": (Topic.VOLUMES, visible(volumes.stripe) or _UNSET),
        "encryption": (Topic.ENCRYPTION, encryption),
        "read_affinity": (Topic.VOLUMES, near),
    }


def _copies(count: int | None, default: int | None) -> str:
    number = default if count is None else count
    return _UNSET if number is None else counted(number, "copy")
