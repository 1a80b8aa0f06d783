"""The adapter of each target of a plan, consents, and the removal of leftovers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from leadline import errors
from leadline.archive.layout import STAGING
from leadline.archive.reader import Run
from leadline.archive.records import Created
from leadline.connect.ceph import CephAccess
from leadline.engines.process import end_abandoned
from leadline.errors import LeadlineError
from leadline.lab.down import take_down
from leadline.lab.state import lab_access, lab_folder, labs_folder
from leadline.plan import models
from leadline.plan.models import Plan
from leadline.plan.target_url import RunnerKind, TargetKind
from leadline.runner.ports import Journal, TargetAdapter
from leadline.targets.ceph import CephfsTarget, RadosTarget, RbdTarget, remove_image, remove_objects
from leadline.targets.ceph_cluster import DELAY, OpenCluster, access_of, restore_delay
from leadline.targets.device import DeviceTarget
from leadline.targets.hosts import HostsTarget, remove_from_host
from leadline.targets.image_device import SCHEME as SHARED
from leadline.targets.local import DirectoryTarget, remove_folder
from leadline.targets.rbd_from_hosts import RbdFromHostsTarget
from leadline.targets.shared_image import (
    Ext4OnRbdTarget,
    SharedImages,
    SharedRbdTarget,
    ZfsOnRbdTarget,
    remove_shared_image,
)
from leadline.targets.zfs import ZfsTarget, remove_dataset

if TYPE_CHECKING:
    from leadline.targets.kubernetes_cluster import OpenKubernetes

LAB = "lab:"
HOSTS = "hosts:"
ZFS = "zfs:"


def open_targets(
    plan: Plan,
    clusters: Mapping[str, OpenCluster],
    kubernetes: Mapping[str, OpenKubernetes] = MappingProxyType({}),
    *,
    destroy: Sequence[str] = (),
    overwrite: Sequence[str] = (),
    note: Callable[[str], None] = lambda sentence: None,
) -> tuple[TargetAdapter, ...]:
    """An adapter for each target of the plan; nothing is touched. `note` gets messages about
    hosts and pools."""

    shared = SharedImages()

    def open_target(target: models.Target) -> TargetAdapter:
        match target.parsed.kind:
            case TargetKind.DIR:
                return DirectoryTarget(target)
            case TargetKind.DEVICE:
                return DeviceTarget(target, destroy, overwrite)
            case TargetKind.RBD if target.parsed.options.get("shared") != "yes":
                if target.parsed.hosts:
                    return RbdFromHostsTarget(target, clusters[target.cluster], destroy, note)
                return RbdTarget(target, clusters[target.cluster], destroy)
            case TargetKind.RBD | TargetKind.EXT4_ON_RBD | TargetKind.ZFS_ON_RBD:
                return _on_shared_image(target, clusters[target.cluster], shared)
            case TargetKind.RADOS:
                return RadosTarget(target, clusters[target.cluster])
            case TargetKind.CEPHFS:
                return CephfsTarget(target, clusters[target.cluster])
            case TargetKind.HOSTS:
                return HostsTarget(target, note)
            case TargetKind.ZFS:
                return ZfsTarget(target, note)
            case TargetKind.STORAGE_CLASS:
                return _on_kubernetes(plan, target, kubernetes[target.cluster])

    return tuple(open_target(target) for target in plan.targets)


def _on_shared_image(
    target: models.Target, cluster: OpenCluster, images: SharedImages
) -> TargetAdapter:
    image = images.image_for(target, cluster)
    match target.parsed.kind:
        case TargetKind.EXT4_ON_RBD:
            return Ext4OnRbdTarget(target, cluster, image)
        case TargetKind.ZFS_ON_RBD:
            return ZfsOnRbdTarget(target, cluster, image)
        case _:
            return SharedRbdTarget(target, cluster, image)


def _on_kubernetes(plan: Plan, target: models.Target, cluster: OpenKubernetes) -> TargetAdapter:
    # The Kubernetes client takes long to import.
    from leadline.targets.kubernetes import StorageClassTarget
    from leadline.targets.shared_volume import SharedVolumeTarget
    from leadline.targets.virtual_machine import VirtualMachineTarget
    from leadline.targets.volume_lifecycle import LifecycleTarget

    number = [other.name for other in plan.targets].index(target.name) + 1
    if any(workload.lifecycle for workload in plan.workloads_on(target.name)):
        return LifecycleTarget(target, cluster, number=number, asked_s=plan.duration_s)
    if target.parsed.request.runner is RunnerKind.VM:
        return VirtualMachineTarget(target, cluster, number=number, asked_s=plan.duration_s)
    pods = StorageClassTarget if target.parsed.request.sharing is None else SharedVolumeTarget
    return pods(target, cluster, number=number, asked_s=plan.duration_s)


def check_consents(plan: Plan, *, destroy: Sequence[str], overwrite: Sequence[str]) -> None:
    """Raise LeadlineError for a consent that names no device or image of the plan: a typing error
    could destroy data."""
    devices, images = [], []
    for target in plan.targets:
        url = target.parsed
        if url.kind is TargetKind.DEVICE:
            devices.append(url.location)
        elif url.kind is TargetKind.RBD and url.image:
            images.append(f"rbd:{url.location}")
    for named, known in (
        *((name, devices + images) for name in destroy),
        *((name, devices) for name in overwrite),
    ):
        if named not in known:
            raise LeadlineError(
                errors.USAGE,
                f"consent was given for {named!r}, which the plan does not name",
                context=[
                    f"devices of the plan: {', '.join(devices) or 'none'}",
                    *([f"images of the plan: {', '.join(images)}"] if images else []),
                ],
                hint="name it exactly as the plan does",
            )


def remove_leftovers(run: Run, journal: Journal) -> tuple[list[str], list[str]]:
    """End the load and remove what a killed session of `run` left on its targets, by the run's
    tokens.

    Returns sentences about what was removed, and about what failed.
    """
    done: list[str] = []
    problems: list[str] = []
    end_abandoned(run.path / STAGING)
    for created in run.left_behind:
        found = _removed(run.plan, created)
        if found:
            problems += found
        else:
            journal.note_removed(created)
            done.append(f"removed what a killed session left: {created.path}")
    return done, problems


def _removed(plan: Plan, created: Created) -> tuple[str, ...]:
    """Remove one entry of the journal; sentences about what failed."""
    removers: Mapping[str, Callable[[CephAccess, Created], tuple[str, ...]]] = {
        "rbd:": remove_image,
        "rados:": remove_objects,
    }
    try:
        if created.path.startswith(LAB):
            name = created.path.removeprefix(LAB)
            take_down(lab_folder(name, labs_folder(None)), created.token)
            return ()
        if created.path.startswith(DELAY):
            return restore_delay(created)
        if created.path.startswith("kubernetes:"):
            from leadline.targets.kubernetes_cluster import remove_leftover

            return remove_leftover(plan.cluster(created.cluster), created)
        if created.path.startswith(HOSTS):
            return remove_from_host(created)
        if created.path.startswith(ZFS):
            return remove_dataset(created)
        if created.path.startswith(SHARED):
            return remove_shared_image(created, _access(plan, created.cluster))
        for scheme, remove in removers.items():
            if created.path.startswith(scheme):
                access = _access(plan, created.cluster)
                return remove(access, created) if access else ()
    except LeadlineError as error:
        return (f"{created.path} could not be removed: {error.fact}",)
    return remove_folder(created)


def _access(plan: Plan, name: str) -> CephAccess | None:
    """Access to the cluster; None for a lab that is gone, with all its data."""
    cluster = plan.cluster(name)
    if cluster.lab is None:
        return access_of(cluster)
    if not isinstance(cluster.lab, str):
        return None  # started for the run: its own entry removes it
    try:
        # Works also when some of its daemons are down.
        return lab_access(cluster.lab)
    except LeadlineError as error:
        if error.kind is errors.LAB_NOT_FOUND:
            return None
        raise
