"""The adapter of each target of a plan, consents, and the removal of leftovers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from leadline import errors
from leadline.archive.layout import STAGING
from leadline.archive.reader import Run
from leadline.archive.writer import RunWriter
from leadline.connect.ceph import Connection
from leadline.engines.process import end_abandoned
from leadline.errors import LeadlineError
from leadline.plan import models
from leadline.plan.models import Plan
from leadline.plan.target_url import TargetKind
from leadline.plan.volume_request import RunnerKind
from leadline.runner.ports import TargetAdapter
from leadline.settings.open import Parameters
from leadline.settings.states import restore_unrestored
from leadline.targets.base import refuse_other_consents
from leadline.targets.ceph import CephfsTarget, RadosTarget, RbdTarget
from leadline.targets.ceph_cluster import OpenCluster
from leadline.targets.device import DeviceTarget
from leadline.targets.drill import DRILL, undo_leftover
from leadline.targets.hosts import HostsTarget
from leadline.targets.leftovers import (
    LAB,
    access_to,
    is_own,
    kept_sentence,
    remove_entry,
    require_own_configurations,
)
from leadline.targets.local import DirectoryTarget
from leadline.targets.pool_from_hosts import RadosFromHostsTarget, RbdFromHostsTarget
from leadline.targets.rados_objects import RadosObjectsTarget
from leadline.targets.rbd_by_nbd import RbdByNbdTarget
from leadline.targets.shared_image import (
    Ext4OnRbdTarget,
    SharedImages,
    SharedRbdTarget,
    ZfsOnRbdTarget,
)
from leadline.targets.zfs import ZfsTarget
from leadline.targets.zvol import ZvolTarget

if TYPE_CHECKING:
    from leadline.connect.kubernetes.client import Connection as KubernetesConnection
    from leadline.targets.kubernetes_cluster import OpenKubernetes


__all__ = [
    "LAB",
    "check_consents",
    "check_restarts",
    "open_targets",
    "remove_leftovers",
    "require_own_configurations",
    "undo_drills",
]


def open_targets(
    plan: Plan,
    clusters: Mapping[str, OpenCluster],
    kubernetes: Mapping[str, OpenKubernetes] = MappingProxyType({}),
    *,
    destroy: Sequence[str] = (),
    overwrite: Sequence[str] = (),
    note: Callable[[str], None] = lambda sentence: None,
) -> tuple[TargetAdapter, ...]:
    """An adapter for each target of the plan with data of its own; nothing is touched. `note` gets
    messages about hosts and pools."""

    shared = SharedImages()

    def open_target(target: models.Target) -> TargetAdapter:
        kind = target.parsed.kind
        of_its_kind = kubernetes if kind.on_kubernetes else clusters
        if kind.on_cluster and target.cluster not in of_its_kind:  # an archived plan
            fact = f"the target {target.name!r} is on no cluster of its kind"
            raise LeadlineError(errors.PLAN_INVALID, fact)
        match kind:
            case TargetKind.DIR:
                return DirectoryTarget(target)
            case TargetKind.DEVICE:
                return DeviceTarget(target, destroy, overwrite)
            case TargetKind.RBD if target.parsed.options.get("shared") != "yes":
                if target.parsed.by_nbd:
                    return RbdByNbdTarget(target, clusters[target.cluster])
                if target.parsed.hosts:
                    return RbdFromHostsTarget(target, clusters[target.cluster], destroy, note)
                return RbdTarget(target, clusters[target.cluster], destroy)
            case TargetKind.RBD | TargetKind.EXT4_ON_RBD | TargetKind.ZFS_ON_RBD:
                return _on_shared_image(target, clusters[target.cluster], shared)
            case TargetKind.RADOS if target.parsed.fio_objects:
                if target.parsed.hosts:
                    return RadosFromHostsTarget(target, clusters[target.cluster], note)
                return RadosObjectsTarget(target, clusters[target.cluster])
            case TargetKind.RADOS:
                return RadosTarget(target, clusters[target.cluster])
            case TargetKind.CEPHFS:
                return CephfsTarget(target, clusters[target.cluster])
            case TargetKind.HOSTS:
                return HostsTarget(target, note)
            case TargetKind.ZFS:
                return ZfsTarget(target, note)
            case TargetKind.ZVOL:
                return ZvolTarget(target, note)
            case TargetKind.STORAGE_CLASS:
                return _on_kubernetes(plan, target, kubernetes[target.cluster])

    return tuple(open_target(target) for target in plan.own_targets)


def check_archived(plan: Plan, consented: Sequence[str]) -> None:
    """Raise LeadlineError for what an archived plan does without consent, and for a consent to
    anything else: settings of running systems, and token files, which are sent to an address of
    the plan."""
    needing = dict(_needing_consent(plan))
    refuse_other_consents(consented, needing, "settings and token files of the archived plan")
    for name, (fact, context) in needing.items():
        if name not in consented:
            raise LeadlineError(
                errors.ARCHIVE_NOT_CONSENTED,
                fact,
                context=context,
                hint=f"if the archive is yours: --allow-archived {shlex.quote(name)}",
            )


def _needing_consent(plan: Plan) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Yield what needs consent by its name, with the fact and what exactly would be done."""
    for setting in plan.settings:
        if not setting.option:
            does = setting.change.model_dump(mode="json")
            fact = f"the archived plan changes {setting.kind}, as the setting {setting.name!r}"
            yield setting.name, (fact, [f"{key}: {value}" for key, value in does.items() if value])
    servers = [cluster.prometheus for cluster in plan.clusters]
    for server in (*servers, *(plan.guard.prometheus if plan.guard is not None else ())):
        if server is not None and server.token_file is not None:
            fact = f"the archived plan sends the token in {server.token_file!r} to a server"
            yield server.token_file, (fact, [f"address: {server.url}"])


def check_restarts(plan: Plan, consented: Sequence[str]) -> None:
    """Raise LeadlineError for a setting that may restart daemons without consent, and for a consent
    to anything else."""
    restarting = [setting.name for setting in plan.settings if setting.restarts]
    refuse_other_consents(consented, restarting, "settings that may restart daemons")
    for name in restarting:
        if name not in consented:
            raise LeadlineError(
                errors.SETTING_NOT_CONSENTED,
                f"the setting {name!r} may restart daemons",
                context=[f"values: {', '.join(plan.setting(name).values)}"],
                hint=f"to allow that: --restart-daemons {shlex.quote(name)}",
            )


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
    refuse_other_consents(destroy, devices + images, "devices and images of the plan")
    refuse_other_consents(overwrite, devices, "devices of the plan")


def undo_drills(
    run: Run, journal: RunWriter, allowed: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Undo the events of drills that a killed session of `run` left in force; a user's own command
    only on a system that is `allowed`. Returns sentences as `remove_leftovers`."""
    done: list[str] = []
    problems: list[str] = []
    for created in run.left_behind:
        if not created.path.startswith(DRILL):
            continue
        if not is_own(run.whole_plan, run.id, created):
            problems.append(kept_sentence(created))
            continue
        access = partial(access_to, run.whole_plan, run.path)
        found = undo_leftover(created, run.whole_plan, access, allowed)
        if found:
            problems += found
        else:
            journal.note_removed(created)
            done.append(f"undid the drill of a killed session: {created.path.removeprefix(DRILL)}")
    return done, problems


def remove_leftovers(
    run: Run, journal: RunWriter, allowed: Sequence[str] = (), settings: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """End the load, restore settings and remove what a killed session of `run` left on its targets,
    by the run's marks; drills as `undo_drills`, before all else.

    Returns sentences about what was done, and about what failed.
    """
    end_abandoned(run.path / STAGING)
    done, problems = undo_drills(run, journal, allowed)
    if run.unrestored:
        restored, kept = _restore_settings(run, journal, settings)
        done += restored
        problems += kept
    for created in run.left_behind:
        if created.path.startswith(DRILL):
            continue
        found = remove_entry(run, created)
        if found:
            problems += found
        else:
            journal.note_removed(created)
            done.append(f"removed what a killed session left: {created.path}")
    return done, problems


def _restore_settings(
    run: Run, journal: RunWriter, allowed: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Restore what a killed session changed; sentences about what was restored, and what not."""
    plan = run.whole_plan
    with ExitStack() as stack:

        def ceph(name: str) -> Connection | None:
            access = access_to(plan, run.path, name)
            return stack.enter_context(Connection(access)) if access else None

        def kubernetes(name: str) -> KubernetesConnection:
            from leadline.connect.kubernetes.client import Connection as KubernetesConnection
            from leadline.targets.kubernetes_cluster import access_of as kubernetes_access

            require_own_configurations(plan, run.path, name)
            settings = plan.cluster(name).kubernetes
            assert settings is not None, "a setting of Kubernetes is on such a cluster"
            return stack.enter_context(KubernetesConnection(kubernetes_access(settings)))

        parameters = Parameters(ceph, kubernetes)
        stack.callback(parameters.close)
        return restore_unrestored(plan, run.id, run.unrestored, parameters.find, journal, allowed)
