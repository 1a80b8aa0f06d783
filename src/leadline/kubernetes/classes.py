"""StorageClasses, and what can be said of one before a volume of it is made."""

from __future__ import annotations

import difflib

from lightkube import ApiError
from lightkube.resources.storage_v1 import StorageClass

from leadline import errors
from leadline.errors import LeadlineError
from leadline.kubernetes.connection import Connection
from leadline.plan.volume_request import VolumeMode

# Provisioners whose volumes are folders of a shared or local file system, never block devices
# (their own documentation).
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
# Volumes of this are made by hand; a claim waits for one that somebody made.
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def list_classes(connection: Connection) -> list[StorageClass]:
    return connection.ask(
        "list", "storageclasses.storage.k8s.io", lambda client: list(client.list(StorageClass))
    )


def find_class(connection: Connection, name: str, where: list[str]) -> StorageClass:
    """Raises LeadlineError(`class-unsuitable`) where there is none of that name."""
    try:
        return connection.ask(
            "get",
            "storageclasses.storage.k8s.io",
            lambda client: client.get(StorageClass, name),
            name=name,
        )
    except ApiError as error:
        known = [named(one) for one in list_classes(connection)]
        near = difflib.get_close_matches(name, known, n=1)
        raise LeadlineError(
            errors.CLASS_UNSUITABLE,
            f"the cluster {connection.context} has no StorageClass {name!r}",
            context=[*where, f"StorageClasses: {', '.join(known) or 'none'}"],
            hint=f"did you mean storageclass:{near[0]}?" if near else "name one of them",
        ) from error


def named(found: StorageClass) -> str:
    return str(found.metadata.name) if found.metadata else ""


def folders_only(found: StorageClass) -> bool:
    """Whether the class is known to give no raw block devices."""
    provisioner = found.provisioner
    return any(provisioner == one or provisioner.endswith(f".{one}") for one in FOLDERS_ONLY)


def mode_for(found: StorageClass, asked: VolumeMode | None, where: list[str]) -> VolumeMode:
    """Raw block where the class can, unless asked otherwise: a file on a file system inside a
    volume hides the volume. Raises LeadlineError(`class-unsuitable`) for raw block of a class that
    cannot."""
    if folders_only(found):
        if asked is VolumeMode.BLOCK:
            raise LeadlineError(
                errors.CLASS_UNSUITABLE,
                f"the StorageClass {named(found)!r} gives no raw block devices",
                context=[*where, f"its provisioner is {found.provisioner}"],
                hint="use mode=filesystem, or leave mode away",
            )
        return VolumeMode.FILESYSTEM
    return asked or VolumeMode.BLOCK


def keeps_volumes(found: StorageClass) -> bool:
    """Whether volumes of the class outlive their claims."""
    return found.reclaimPolicy == "Retain"
