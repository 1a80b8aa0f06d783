"""What a killed session left on its targets, and its removal.

An archive is untrusted input. An entry counts only where the rules of the plan's own targets make
exactly that name for this run and this token; what is there is then removed only with the run's
mark on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leadline import errors, files
from leadline.archive.reader import Run
from leadline.archive.records import Created
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.lab.conf import Paths
from leadline.lab.down import take_down
from leadline.lab.pools import metadata_pool
from leadline.lab.state import lab_access, lab_folder, labs_folder
from leadline.plan.footprint import part_of
from leadline.plan.lab import LabDescription, LabPool
from leadline.plan.models import Cluster, Plan, Target
from leadline.plan.target_url import TargetKind, TargetUrl
from leadline.targets.ceph import remove_image, remove_objects
from leadline.targets.ceph_cluster import DELAY, access_of, is_lab_name, is_own_delay, restore_delay
from leadline.targets.drill import DRILL, is_own_event
from leadline.targets.hosts import host_url, remove_from_host
from leadline.targets.image_device import SCHEME as SHARED
from leadline.targets.image_device import parse_names
from leadline.targets.local import remove_folder
from leadline.targets.naming import is_run_id, is_token, own_name
from leadline.targets.pool_from_hosts import FOLDER_THERE
from leadline.targets.rados_objects import SCHEME as RADOS_OBJECTS
from leadline.targets.rados_objects import is_own_path, remove_prefixed
from leadline.targets.rbd_by_nbd import SCHEME as NBD
from leadline.targets.rbd_by_nbd import remove_served_image
from leadline.targets.shared_image import remove_shared_image
from leadline.targets.zfs import FAR, far_path, remove_far_dataset
from leadline.targets.zfs_dataset import SCHEME as ZFS
from leadline.targets.zfs_dataset import name_in, remove_dataset

LAB = "lab:"


def is_own(plan: Plan, run: str, created: Created) -> bool:
    """Return whether the rules of the plan's targets make what an entry of the run's journal
    names."""
    scheme = _scheme_of(created)
    return scheme is not None and is_run_id(run) and scheme.is_own(plan, run, created)


def kept_sentence(created: Created) -> str:
    """Say that an entry is not the run's, and what to do."""
    return (
        f"{created.path!r} was kept: no target of the plan makes that for this run; look at it, "
        "and remove it by hand if it is yours"
    )


def remove_entry(run: Run, created: Created) -> tuple[str, ...]:
    """Remove what one entry of a run's journal names; sentences about what failed."""
    scheme = _scheme_of(created)
    try:
        if scheme is None or not is_own(run.whole_plan, run.id, created):
            return (kept_sentence(created),)
        return scheme.remove(run, created)
    except LeadlineError as error:
        return (f"{created.path} could not be removed: {error.fact}",)
    except OSError as error:
        return (f"{created.path} could not be removed: {error.strerror or error}",)


# The rules of the targets. Each returns whether a plan makes an entry for a run.


def _targets(plan: Plan, created: Created, *, cluster: bool) -> Iterator[Target]:
    """Yield the target of an entry, which names that target's cluster or none at all."""
    for target in plan.own_targets:
        place = target.cluster if cluster else ""
        if target.url and target.name == created.target and created.cluster == place:
            yield target


def _cluster(plan: Plan, name: str) -> Cluster | None:
    return next((cluster for cluster in plan.clusters if cluster.name == name), None)


def _pools(plan: Plan, target: Target) -> Collection[str]:
    """The pools of a target: its own, and that of a lab for the metadata of its images."""
    pool, cluster = target.parsed.pool, _cluster(plan, target.cluster)
    known = {*LabPool} if cluster is not None and cluster.lab is not None else set()
    return {pool, metadata_pool(LabPool(pool)) or pool} if pool in known else {pool}


def _is_own_folder(plan: Plan, run: str, created: Created) -> bool:
    name = own_name(run, created.token)
    return is_token(created.token) and any(
        created.path == str(parent / name)
        for target in _targets(plan, created, cluster=False)
        for parent in _parents(plan, target, Path(created.path))
    )


def _parents(plan: Plan, target: Target, folder: Path) -> Iterator[Path]:
    """Yield the folders in which a target makes its own; `folder` is in that of a run's lab."""
    location, kind = target.parsed.location, target.kind
    if kind in (TargetKind.DIR, TargetKind.CEPHFS) and location.startswith("/"):
        yield Path(location)
    cluster = _cluster(plan, target.cluster)
    if kind is not TargetKind.CEPHFS or location.startswith("/") or cluster is None:
        return
    labs = labs_folder(None)
    name = folder.relative_to(labs).parts[0] if labs in folder.parents else ""
    if cluster.lab is not None and _is_lab(cluster, name):
        yield Paths(folder=labs / name, memory=labs).cephfs / location


def _is_lab(cluster: Cluster, name: str) -> bool:
    """Return whether a lab is that of a cluster of the plan."""
    if isinstance(cluster.lab, LabDescription):
        return is_lab_name(cluster.name, name)
    return cluster.lab == name


def _is_own_host_folder(plan: Plan, run: str, created: Created) -> bool:
    def path_of(target: Target) -> str:
        url = target.parsed
        return url.path_on_hosts if url.kind is TargetKind.HOSTS else FOLDER_THERE

    return is_token(created.token) and any(
        created.path == host_url(host, path_of(target), run, created.token)
        for target in _targets(plan, created, cluster=False)
        for host in target.parsed.hosts
    )


def _is_own_dataset(plan: Plan, run: str, created: Created) -> bool:
    return is_token(created.token) and any(
        target.kind in (TargetKind.ZFS, TargetKind.ZVOL)
        and created.path == f"{ZFS}{name_in(target.parsed.location, run, created.token)}"
        for target in _targets(plan, created, cluster=False)
    )


def _is_own_far_dataset(plan: Plan, run: str, created: Created) -> bool:
    return is_token(created.token) and any(
        target.parsed.receive_on is not None
        and created.path == far_path(target.parsed.receive_on, run, created.token)
        for target in _targets(plan, created, cluster=False)
    )


def _makes_image(target: Target, *, by_nbd: bool) -> bool:
    url = target.parsed
    shared = url.options.get("shared") == "yes"
    return url.kind is TargetKind.RBD and not url.image and not shared and url.by_nbd is by_nbd


def _is_own_image(scheme: str) -> Callable[[Plan, str, Created], bool]:
    def is_own_image(plan: Plan, run: str, created: Created) -> bool:
        return is_token(created.token) and any(
            created.path == f"{scheme}{pool}/{own_name(run, created.token)}"
            for target in _targets(plan, created, cluster=True)
            if _makes_image(target, by_nbd=scheme == NBD)
            for pool in _pools(plan, target)
        )

    return is_own_image


def _writes_namespaces(url: TargetUrl) -> bool:
    if url.kind is TargetKind.RBD:
        return url.options.get("read_policy", "default") != "default"
    return url.kind is TargetKind.RADOS and not url.fio_objects


def _is_own_namespace(plan: Plan, run: str, created: Created) -> bool:
    """Objects of `rados bench`, and those that are written next to an image."""
    names = {own_name(run, created.token)} if is_token(created.token) else set()
    # Until 0.2 a namespace next to an image had the image's name with eight digits more.
    before = re.escape(own_name(run, "")) + r"[0-9a-f]{16}-[0-9a-f]{8}"
    if re.fullmatch(before, created.token):
        names.add(created.token)
    return any(
        created.path == f"{RADOS}{pool}/{name}"
        for target in _targets(plan, created, cluster=True)
        if _writes_namespaces(target.parsed)
        for pool in _pools(plan, target)
        for name in names
    )


def _are_own_objects(plan: Plan, run: str, created: Created) -> bool:
    return is_token(created.token) and any(
        target.kind is TargetKind.RADOS
        and target.parsed.fio_objects
        and is_own_path(created.path, target.parsed.pool, run, created.token)
        for target in _targets(plan, created, cluster=True)
    )


def _is_own_shared_image(plan: Plan, run: str, created: Created) -> bool:
    names = parse_names(created.path, created.token)
    if created.target or not names.is_own_of(run):
        return False
    on_cluster = [
        target
        for target in plan.own_targets
        if target.url and target.cluster == created.cluster and part_of(target.parsed) is not None
    ]
    if names.vdev_class:
        pools = {
            vdev.pool
            for target in on_cluster
            for vdev in target.parsed.vdevs
            if vdev.vdev_class == names.vdev_class
        }
    else:
        pools = {pool for target in on_cluster for pool in _pools(plan, target)}
    return names.pool in pools and created.path == names.url


def _is_own_lab(plan: Plan, run: str, created: Created) -> bool:
    name = created.path.removeprefix(LAB)
    return (
        is_token(created.token)
        and not (created.target or created.cluster)
        and any(
            isinstance(cluster.lab, LabDescription) and _is_lab(cluster, name)
            for cluster in plan.clusters
        )
    )


def _is_own_kubernetes_object(plan: Plan, run: str, created: Created) -> bool:
    from leadline.targets.kubernetes_cluster import is_own_object

    return is_token(created.token) and is_own_object(plan, run, created)


# The removals.


def _by_access(
    remove: Callable[[CephAccess, Created, str], tuple[str, ...]],
) -> Callable[[Run, Created], tuple[str, ...]]:
    """A removal in a Ceph cluster; what was in a lab that is gone is gone."""

    def remove_there(run: Run, created: Created) -> tuple[str, ...]:
        access = access_to(run.whole_plan, run.path, created.cluster)
        return remove(access, created, run.id) if access else ()

    return remove_there


def _remove_served_image(run: Run, created: Created) -> tuple[str, ...]:
    return remove_served_image(
        created, run.id, access_to(run.whole_plan, run.path, created.cluster)
    )


def _remove_shared_image(run: Run, created: Created) -> tuple[str, ...]:
    return remove_shared_image(
        created, run.id, access_to(run.whole_plan, run.path, created.cluster)
    )


def _remove_lab(run: Run, created: Created) -> tuple[str, ...]:
    take_down(lab_folder(created.path.removeprefix(LAB), labs_folder(None)), created.token)
    return ()


def _restore_delay(run: Run, created: Created) -> tuple[str, ...]:
    delays = {
        target.parsed.inter_zone_rtt_s
        for target in run.whole_plan.targets
        if target.url and target.cluster == created.cluster
    }
    return restore_delay(created, {delay for delay in delays if delay is not None})


def _remove_kubernetes_object(run: Run, created: Created) -> tuple[str, ...]:
    from leadline.targets.kubernetes_cluster import remove_leftover

    require_own_configurations(run.whole_plan, run.path, created.cluster)
    return remove_leftover(run.whole_plan.cluster(created.cluster), created, run.id)


def _remove_host_folder(run: Run, created: Created) -> tuple[str, ...]:
    return remove_from_host(created, run.id)


def _remove_event(run: Run, created: Created) -> tuple[str, ...]:
    raise AssertionError("the event of a drill is undone before all else")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scheme:
    """What a journal's entries of one kind are: the rule that makes them, and their removal."""

    is_own: Callable[[Plan, str, Created], bool]
    remove: Callable[[Run, Created], tuple[str, ...]]


RADOS = "rados:"
RBD = "rbd:"
_FOLDER = _Scheme(is_own=_is_own_folder, remove=lambda run, created: remove_folder(created, run.id))
_SCHEMES: Mapping[str, _Scheme] = {
    RBD: _Scheme(is_own=_is_own_image(RBD), remove=_by_access(remove_image)),
    NBD: _Scheme(is_own=_is_own_image(NBD), remove=_remove_served_image),
    RADOS: _Scheme(is_own=_is_own_namespace, remove=_by_access(remove_objects)),
    RADOS_OBJECTS: _Scheme(is_own=_are_own_objects, remove=_by_access(remove_prefixed)),
    SHARED: _Scheme(is_own=_is_own_shared_image, remove=_remove_shared_image),
    ZFS: _Scheme(
        is_own=_is_own_dataset, remove=lambda run, created: remove_dataset(created, run.id)
    ),
    FAR: _Scheme(
        is_own=_is_own_far_dataset, remove=lambda run, created: remove_far_dataset(created, run.id)
    ),
    "hosts:": _Scheme(is_own=_is_own_host_folder, remove=_remove_host_folder),
    "kubernetes:": _Scheme(is_own=_is_own_kubernetes_object, remove=_remove_kubernetes_object),
    LAB: _Scheme(is_own=_is_own_lab, remove=_remove_lab),
    DELAY: _Scheme(is_own=is_own_delay, remove=_restore_delay),
    DRILL: _Scheme(is_own=is_own_event, remove=_remove_event),
}


def _scheme_of(created: Created) -> _Scheme | None:
    """The kind of an entry; None for one that this version does not know."""
    if created.path.startswith("/"):
        return _FOLDER
    prefix, colon, _ = created.path.partition(":")
    return _SCHEMES.get(f"{prefix}{colon}")


# The clusters of the plan.


def require_own_configurations(plan: Plan, archive: Path, *names: str) -> None:
    """Raise LeadlineError(`run-not-resumable`) for a configuration of a cluster that the plan of an
    archive names, and that may be another user's: a kubeconfig runs programs, and a ceph.conf
    names files and modules. `names` are the clusters, all without any."""
    runs = {archive.absolute().parent, archive.resolve().parent}
    for cluster in plan.clusters:
        if names and cluster.name not in names:
            continue
        kubeconfig = cluster.kubernetes.kubeconfig if cluster.kubernetes is not None else None
        for path in map(Path, filter(None, (cluster.ceph_conf, cluster.keyring, kubeconfig))):
            reason = _distrust(path, runs)
            if reason:
                raise LeadlineError(
                    errors.RUN_NOT_RESUMABLE,
                    f"the configuration of the cluster {cluster.name!r} is not used: {reason}",
                    context=[str(path), f"named by the plan of {archive}"],
                    hint="if it is yours: let only you and root write to it and to the folders "
                    "above, and keep it outside of the folder of the runs",
                )


def _distrust(path: Path, runs: Collection[Path]) -> str:
    """Why a file that an archive names may be another user's; empty if it is not."""
    if any(place.is_relative_to(folder) for place in (path, path.resolve()) for folder in runs):
        return f"{path} lies in the folder of the runs"
    try:
        if files.others_control(path) or files.others_control(path.absolute().parent):
            return f"another user can change {path} or a folder above it"
    except OSError as error:
        return f"{path} cannot be checked: {error.strerror}"
    return ""


def access_to(plan: Plan, archive: Path, name: str) -> CephAccess | None:
    """Return the access to a Ceph cluster of an archive's plan; None for a lab that is gone, with
    all its data. Raises LeadlineError, also as `require_own_configurations`."""
    cluster = plan.cluster(name)
    if cluster.lab is None:
        require_own_configurations(plan, archive, name)
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
