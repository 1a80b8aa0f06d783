"""A folder on a mounted CephFS, checked to be one before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

from leadline import errors
from leadline.archive.records import Layer, LayerKind
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.mounts import mount_of
from leadline.runner.ports import Journal
from leadline.targets.cluster import OpenCluster
from leadline.targets.directory import DirectoryTarget
from leadline.targets.on_cluster import OnCluster

FILESYSTEMS = frozenset({"ceph", "fuse.ceph", "fuse.ceph-fuse"})


class CephfsTarget(OnCluster, DirectoryTarget):
    """`cephfs:/mounted/path`, or `cephfs:FOLDER` of the mount that a lab makes itself."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        DirectoryTarget.__init__(self, target)
        OnCluster.__init__(self, target, cluster)
        self._named = target.parsed.location

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        self.cluster.refuse_unfit()
        if not self._named.startswith("/"):
            self.parent = self._lab_mount() / self._named
        self._refuse_other_filesystems()
        DirectoryTarget.inspect(self, footprint, prefill=prefill, claimed_bytes=claimed_bytes)

    def _lab_mount(self) -> Path:
        lab = self.cluster.lab
        if lab is None or lab.cephfs is None:
            raise LeadlineError(
                errors.NOT_CEPHFS,
                f"the cluster {self.cluster.name!r} has no mount of its own for {self._named!r}",
                context=[f"target {self.name!r}"],
                hint="name the mounted path: cephfs:/mounted/path",
            )
        return lab.cephfs

    def _refuse_other_filesystems(self) -> None:
        mount = mount_of(self.parent) if self.parent.exists() else None
        found = mount.filesystem if mount else ""
        if self.parent.exists() and found not in FILESYSTEMS:
            at = f" (mounted at {mount.mount_point})" if mount else ""
            raise LeadlineError(
                errors.NOT_CEPHFS,
                f"{str(self.parent)!r} lies on {found or 'an unknown filesystem'}{at}, not on "
                "CephFS",
                context=[f"target {self.name!r}"],
                hint="mount the filesystem (mount -t ceph, or ceph-fuse) and look again; "
                f"to measure what is there: dir:{self.parent}",
            )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self.cluster.keep(journal)
        DirectoryTarget.acquire(self, footprint, run, journal)

    def _look_below(self) -> tuple[Layer, ...]:
        """The mount, and the pool that the folder's data goes to, where the cluster tells it."""
        mount = super()._look_below()
        pool = self._data_pool()
        return (*mount, Layer(kind=LayerKind.POOL, name=pool)) if mount and pool else mount

    def _data_pool(self) -> str:
        """By the layout of the nearest folder that has one (ceph.dir.layout.pool)."""
        for folder in (self.parent, *self.parent.parents):
            try:
                return os.getxattr(folder, "ceph.dir.layout.pool").decode("utf-8", "replace")
            except OSError:
                continue
        return ""

    def release(self) -> tuple[str, ...]:
        left = self.cluster.restore()
        # A mount that goes with its lab may not answer any more.
        return left if self.cluster.temporary else (*left, *DirectoryTarget.release(self))

    def present(self) -> bool:
        mount = mount_of(self.parent)
        return bool(mount and mount.filesystem in FILESYSTEMS) and DirectoryTarget.present(self)
