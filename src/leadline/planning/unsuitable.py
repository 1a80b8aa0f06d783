"""Which StorageClasses of a cluster cannot be measured, and why. Pure."""

from __future__ import annotations

import re

from leadline.inventory.kubernetes.volumes import StorageClass
from leadline.plan.volume_request import RunnerKind, VolumeMode
from leadline.planning.models import Survey, Wish
from leadline.units import format_size

_BUCKETS = re.compile(r"(^|[./])(bucket|obc)$")
_CSI = re.compile(r"(^|[.-])csi([.-]|$)")
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_IN_TREE = "kubernetes.io/"
# The drivers that took over what was built into Kubernetes (its page "Volumes", CSI migration);
# what is not here is gone from Kubernetes for good.
_SUCCESSORS = {
    "aws-ebs": "ebs.csi.aws.com",
    "azure-disk": "disk.csi.azure.com",
    "azure-file": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gce-pd": "pd.csi.storage.gke.io",
    "portworx-volume": "pxd.portworx.com",
    "vsphere-volume": "csi.vsphere.vmware.com",
}


def unsuitable(found: StorageClass, folders: bool, survey: Survey, wish: Wish) -> str | None:
    """Why a class is left out; None where nothing speaks against it. `folders`: its volumes are
    never raw block devices."""
    provisioner = found.provisioner
    if _BUCKETS.search(provisioner):
        return f"makes object buckets ({provisioner}), not volumes"
    if provisioner == _NO_PROVISIONER:
        return "has no provisioner: somebody makes its volumes by hand, and Leadline does not"
    if provisioner.startswith(_IN_TREE):
        return _in_tree(provisioner)
    absent = _absent_driver(provisioner, survey)
    if absent:
        return absent
    if wish.runner is RunnerKind.VM and survey.kubevirt is False:
        return "virtual machines were asked for, and the cluster has no KubeVirt"
    if folders and wish.runner is RunnerKind.VM:
        return "its volumes are folders; a virtual machine takes its data disk as a block device"
    if folders and wish.mode is VolumeMode.BLOCK:
        return "its volumes are folders, and raw block devices were asked for"
    if found.reclaim == "Retain" and survey.patches_volumes is False:
        return (
            "keeps its volumes after use (reclaimPolicy Retain), and this user may not patch "
            "persistentvolumes, so that they would be left behind"
        )
    return None


def unproven(found: StorageClass, survey: Survey) -> str | None:
    """Why it is not known whether the class works."""
    if _driver_known(found.provisioner, survey):
        return None
    return (
        f"{found.provisioner} is no CSI driver, so that nothing tells whether it runs; a run "
        "ends with the reason where its claims stay pending"
    )


def too_small(name: str, size_bytes: int, survey: Survey) -> str | None:
    """Why a volume of that size cannot be had of a class."""
    room = survey.published.get(name)
    if room is None or size_bytes <= room.largest:
        return None
    return (
        f"its driver publishes room for a volume of {format_size(room.largest)} at most; "
        f"{format_size(size_bytes)} are needed"
    )


def twin_of(found: StorageClass, earlier: list[StorageClass]) -> str | None:
    """A class among `earlier` that makes the same volumes: what else a class says (who keeps a
    volume, when it is bound, whether it grows) has no part in its speed."""
    for one in earlier:
        same = (one.provisioner, one.parameters, sorted(one.mount_options))
        if same == (found.provisioner, found.parameters, sorted(found.mount_options)):
            return one.name
    return None


def _in_tree(provisioner: str) -> str:
    successor = _SUCCESSORS.get(provisioner.removeprefix(_IN_TREE))
    more = f"use a class of {successor}, which does its work" if successor else "it was removed"
    return f"{provisioner} was built into Kubernetes and is deprecated: {more}"


def _absent_driver(provisioner: str, survey: Survey) -> str | None:
    """Why a CSI driver cannot serve: no node has it."""
    nodes = [node.csi_drivers for node in survey.inventory.nodes if node.csi_drivers is not None]
    declared = any(one.name == provisioner for one in survey.inventory.csi_drivers)
    if not nodes or not (declared or _CSI.search(provisioner)):
        return None
    if any(provisioner in drivers for drivers in nodes):
        return None
    return f"no node has its CSI driver {provisioner} registered"


def _driver_known(provisioner: str, survey: Survey) -> bool:
    if any(one.name == provisioner for one in survey.inventory.csi_drivers):
        return True
    return any(provisioner in (node.csi_drivers or ()) for node in survey.inventory.nodes)
