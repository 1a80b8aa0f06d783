"""Targets on the image that all such targets of a Ceph pool share: by librbd, in an ext4, in a
dataset of ZFS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from leadline.archive.records import Layer, LayerKind
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.shared_layout import Part
from leadline.probes.images import facts_of_info
from leadline.probes.stacks import layers_of_path
from leadline.runner.ports import Journal
from leadline.targets.cluster import OpenCluster
from leadline.targets.dataset import require_known_here
from leadline.targets.directory import DirectoryTarget
from leadline.targets.on_cluster import OnCluster, ask
from leadline.targets.rbd import RbdTarget, client_settings
from leadline.targets.shared_image import SharedImage
from leadline.targets.zfs import InDataset


class SharedRbdTarget(RbdTarget):
    """`rbd:POOL?shared=yes`: librbd on the image's first stretch."""

    def __init__(self, target: Target, cluster: OpenCluster, image: SharedImage) -> None:
        super().__init__(target, cluster, destroy=())
        self._shared = image

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        here = self.cluster.lab.client_location if self.cluster.lab else ""
        self._settings = client_settings(self._url, here, where)
        self._shared.want(self.name, Part.LIBRBD, footprint, claimed_bytes, where)
        self._pool, self._data_pool = self._shared.pool, self._shared.data_pool

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._access = self.cluster.client(dict(self._settings))
        self._span = footprint.span
        self._journal = journal
        self._shared.enter(self.name, run, journal)
        self._image = self._shared.names.image
        self._look()

    def settle(self, written_at_s: float) -> None:
        # What the other targets on the image hold back would disturb this one too.
        self._shared.settle(written_at_s)
        super().settle(written_at_s)

    def _held(self) -> int:
        """Of the first stretch: what stands behind it is of other targets."""
        told = self._rbd(
            "looking at what is written",
            *("diff", "--whole-object", "--format", "json", f"{self._pool}/{self._image}"),
        )
        rows = [row for row in json.loads(told) if row["exists"] in (True, "true")]
        ends = ((int(row["offset"]), int(row["offset"]) + int(row["length"])) for row in rows)
        return sum(max(0, min(end, self._span) - begin) for begin, end in ends)

    def release(self) -> tuple[str, ...]:
        return (*super().release(), *self._shared.leave(self.name))


class OnSharedImage(OnCluster):
    """A target in a file system that lies on the image."""

    part: Part

    def __init__(self, target: Target, cluster: OpenCluster, image: SharedImage) -> None:
        super().__init__(target, cluster)
        self._shared = image
        self._layers: tuple[Layer, ...] = ()

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        self._shared.want(self.name, self.part, footprint, claimed_bytes, where)

    def _look(self, path: Path) -> None:
        """Keep what lies below, with what only the cluster tells of the image."""
        shared = self._shared
        try:
            spec = shared.names.spec
            told = ask(
                self.cluster.access, "rbd", ("info", "--format", "json", spec), "reading an image"
            )
        except LeadlineError:
            told = ""
        facts: Mapping[str, Mapping[str, str]] = {LayerKind.IMAGE: facts_of_info(told)}
        data = {LayerKind.POOL: shared.data_pool or shared.pool}
        self._layers = tuple(
            layer.model_copy(
                update={
                    "facts": {**facts.get(layer.kind, {}), **layer.facts},
                    "name": data.get(layer.kind, layer.name),
                }
            )
            for layer in layers_of_path(path)
        )

    def settle(self, written_at_s: float) -> None:
        self._shared.settle(written_at_s)

    def layers(self) -> tuple[Layer, ...]:
        return self._layers

    def release(self) -> tuple[str, ...]:
        return (*self.cluster.restore(), *self._shared.leave(self.name))


class Ext4OnRbdTarget(OnSharedImage, DirectoryTarget):
    """`ext4+rbd:POOL`: a folder of our own."""

    part = Part.EXT4

    def __init__(self, target: Target, cluster: OpenCluster, image: SharedImage) -> None:
        DirectoryTarget.__init__(self, target)
        OnSharedImage.__init__(self, target, cluster, image)

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._files = set(footprint.files)
        self._shared.enter(self.name, run, journal)
        self.parent = self._shared.names.ext4
        self.folder = self._shared.folder(self.name)
        self._look(self.folder)

    def present(self) -> bool:
        self.cluster.require_pool(self._shared.pool)
        return self.parent.is_mount() and DirectoryTarget.present(self)


class ZfsOnRbdTarget(InDataset, OnSharedImage):
    """`zfs+rbd:POOL?recordsize=...`: a dataset of our own."""

    part = Part.ZFS

    def __init__(self, target: Target, cluster: OpenCluster, image: SharedImage) -> None:
        super().__init__(target, cluster, image)
        self._properties = target.parsed.dataset_properties

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)
        require_known_here(self._properties, [f"target {self.name!r}"])

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._shared.enter(self.name, run, journal)
        self._dataset = self._shared.dataset(self.name, self._properties)
        self._dataset.make()
        self._look(self._dataset.location.path)

    def present(self) -> bool:
        self.cluster.require_pool(self._shared.pool)
        return super().present()
