"""The location of a target before a run makes it, for `leadline run --dry-run`.

Words in capitals (RUN, TOKEN) are placeholders for what only the run knows.
"""

from __future__ import annotations

from pathlib import Path

from leadline.connect.ceph import CephAccess
from leadline.connect.shell import CommandResult
from leadline.plan.models import Plan, Target
from leadline.plan.target_url import TargetKind, TargetUrl
from leadline.plan.volume_request import VolumeMode, VolumeRequest
from leadline.runner.ports import (
    Dataset,
    Device,
    Folder,
    Host,
    Hosts,
    Location,
    NbdExport,
    RadosObjects,
    RadosPool,
    RbdImage,
    Receiver,
    RemoteVolume,
    RemoteVolumes,
    Shape,
)
from leadline.targets.ceph import client_settings
from leadline.targets.pool_from_hosts import FOLDER_THERE
from leadline.targets.rbd_by_nbd import SOCKET, served_folder
from leadline.targets.zfs_dataset import mount_folder
from leadline.targets.zvol import VOLUMES

_OWN = "leadline-RUN-TOKEN"


def preview_location(plan: Plan, target: Target) -> Location:
    """The location that an adapter of the target would acquire."""
    url = target.parsed
    match url.kind:
        case TargetKind.DEVICE:
            return Device(path=Path(url.location))
        case TargetKind.DIR | TargetKind.CEPHFS:
            return Folder(path=Path(url.location) / _OWN)
        case TargetKind.ZFS:
            return Dataset(
                name=f"{url.location}/{_OWN}", path=mount_folder("TOKEN"), receiver=_receiver(url)
            )
        case TargetKind.ZVOL:
            return Device(path=VOLUMES / url.location / _OWN)
        case TargetKind.EXT4_ON_RBD:
            return Folder(path=mount_folder("TOKEN") / "ext4" / "target-N")
        case TargetKind.ZFS_ON_RBD:
            path = mount_folder("TOKEN") / "zfs" / "N"
            return Dataset(name="leadline-TOKEN/target-N", path=path)
        case TargetKind.STORAGE_CLASS:
            return _volumes(url.request)
        case TargetKind.HOSTS:
            return Hosts(hosts=_hosts(url, url.path_on_hosts))
    cluster = plan.cluster(target.cluster)
    access = CephAccess(
        conf=Path(cluster.ceph_conf or "LAB/ceph.conf"),
        name=cluster.id,
        namespace=None if cluster.ceph_conf else Path("LAB-NETWORK"),
    )
    if url.fio_objects:
        return RadosObjects(
            pool=url.pool, prefix=_OWN, access=access, hosts=_hosts(url, FOLDER_THERE)
        )
    if url.kind is TargetKind.RADOS:
        return RadosPool(pool=url.pool, objects=_OWN, access=access)
    settings = client_settings(url, "WHERE-THIS-CLIENT-IS")
    if url.by_nbd:
        return NbdExport(
            pool=url.pool,
            image=_OWN,
            socket=served_folder("TOKEN") / SOCKET,
            server=0,
            settings=settings,
            encryption=url.encryption,
        )
    return RbdImage(
        pool=url.pool,
        image=url.image or _OWN,
        access=access,
        settings=settings,
        hosts=_hosts(url, FOLDER_THERE),
    )


def _receiver(url: TargetUrl) -> Receiver | None:
    from leadline.connect.ssh import SshShell

    if (wanted := url.receive_on) is None:
        return None
    return Receiver(wanted=wanted, dataset=f"{wanted.dataset}/{_OWN}", shell=SshShell(wanted.host))


def _hosts(url: TargetUrl, folder: str) -> tuple[Host, ...]:
    from leadline.connect.ssh import SshHost, SshShell

    path = f"{folder}/{_OWN}"
    return tuple(SshHost(host=name, path=path, shell=SshShell(name)) for name in url.hosts)


def _volumes(request: VolumeRequest) -> RemoteVolumes:
    """Volumes of a StorageClass; raw block devices unless the plan asks for a filesystem."""
    in_files = request.mode is VolumeMode.FILESYSTEM
    path = "/leadline/volume/leadline" if in_files else "/dev/leadline"
    volumes = [
        RemoteVolume(shell=_FutureShell(f"RUNNER-{number + 1}"), path=path)
        for number in range(request.count)
    ]
    shape = Shape.FILES if in_files else Shape.SPAN
    return RemoteVolumes(
        shape=shape, volumes=tuple(volumes), folder="SCRATCH", sharing=request.sharing
    )


class _FutureShell:
    """A shell that only the run makes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, script: str, *arguments: str, **settings: object) -> CommandResult:
        raise AssertionError("a dry run executes nothing")
