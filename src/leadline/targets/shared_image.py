"""The shared image: one RBD image with all targets of a pool that are compared on the same image.

librbd works from offset 0; after it comes a stretch with an ext4, where each target has a folder,
then one with a pool of ZFS, where each target has a dataset. One token names all of it, and the
journal records it before it is made (see image_device.SharedImageNames).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.archive.records import Created
from leadline.connect import programs
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import PoolType
from leadline.inventory.layer import Layer, LayerKind
from leadline.plan.footprint import Footprint, Part, image_bytes, image_of, layout
from leadline.plan.models import Target
from leadline.probes.stacks import layers_of_path, parse_image_info
from leadline.runner.ports import Journal
from leadline.targets import image_device, zfs_daemon
from leadline.targets.ceph import (
    OWNER_KEY,
    CephTarget,
    RbdTarget,
    ask,
    client_settings,
    find_pool,
    remove_image,
    require_application,
    require_capacity,
    require_overwrites,
)
from leadline.targets.ceph_cluster import OpenCluster
from leadline.targets.file_system import FileSystem
from leadline.targets.image_device import SharedImageNames, parse_names
from leadline.targets.local import DirectoryTarget
from leadline.targets.zfs import (
    OWNER,
    InDataset,
    OwnDataset,
    removal_error,
    require_known_here,
)

_BUSY_S = 30.0
_DESTROY_S = 120.0


def remove_shared_image(created: Created, access: CephAccess | None) -> tuple[str, ...]:
    """Remove a shared image from the top down, as far as it was made; sentences about what failed.

    Without `access` the image is destroyed with its lab.
    """
    names = parse_names(created.path, created.token)
    if not names.image.endswith(f"-{names.token}"):
        return (f"{created.path} has no name of Leadline's and was kept",)
    stuck = _destroy_pool(names)
    if stuck and not zfs_daemon.is_running(names.folder):
        return stuck  # a pool that was not destroyed needs the layers below it
    stuck += image_device.unmount(names.ext4)
    if stuck:
        # The image does not answer: unmapping it by force ends the I/O that waits for it.
        image_device.withdraw(names, force=True)
    problems = image_device.unmount(names.ext4, lazy_after_s=0.0)
    problems += zfs_daemon.stop(names.folder, names.zpool)
    # A killed daemon leaves mounts that do not answer.
    for path in image_device.mounts_below(names.datasets):
        problems += image_device.unmount(path, lazy_after_s=0.0)
    problems += image_device.detach_loops(names)
    problems += image_device.withdraw(names)
    if access is not None:
        image = created.model_copy(update={"path": f"rbd:{names.spec}"})
        problems += remove_image(access, image)
    return (*problems, *(() if problems else _remove_folder(names)))


def _destroy_pool(names: SharedImageNames) -> tuple[str, ...]:
    """Destroy the run's pool; retry while it is busy."""
    end = time.monotonic() + _BUSY_S
    try:
        while names.zpool in _pools():
            # A pool that is not marked yet has no datasets.
            owner = programs.local_property(OWNER, names.zpool)
            if owner and not owner.endswith(names.token):
                return (f"the pool {names.zpool} carries the mark of another owner",)
            try:
                programs.ask("removing a pool", "zpool", "destroy", names.zpool, bound_s=_DESTROY_S)
            except LeadlineError as error:
                busy = any("busy" in line for line in error.context)
                if not busy or time.monotonic() > end:
                    raise
                time.sleep(0.5)
    except LeadlineError as error:
        users = image_device.mounted_elsewhere(names.token)
        reason = "; ".join([removal_error(error), *users])
        return (f"the pool {names.zpool} could not be removed: {reason}",)
    return ()


def _pools() -> tuple[str, ...]:
    return programs.pools() if zfs_daemon.answers() else ()


def _remove_folder(names: SharedImageNames) -> tuple[str, ...]:
    """Remove the folder with the files that Leadline made in it, and no others."""
    with suppress(FileNotFoundError):
        for path in (names.pid_file, names.socket, names.folder / "rbd-fuse.log"):
            path.unlink(missing_ok=True)
    folders = (names.exposed, names.ext4, *_below(names.datasets), names.datasets, names.folder)
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            return (f"{folder} could not be removed: {error.strerror}",)
    return ()


def _below(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(folder.iterdir())
    except OSError:
        return ()


_MKFS_S = 600.0


class SharedImage:
    """One image and its file systems: the first target makes it, the last one removes it."""

    def __init__(self, cluster: OpenCluster, pool: str, data_pool: str) -> None:
        self.cluster = cluster
        self._pool, self._data_pool = pool, data_pool
        self._requests: dict[str, tuple[Part, Footprint]] = {}
        self._users: set[str] = set()
        self._names: SharedImageNames | None = None
        self._created: Created | None = None
        self._journal: Journal | None = None
        self._owner = ""
        self._datasets: list[OwnDataset] = []
        self._settled_at_s = 0.0

    @property
    def names(self) -> SharedImageNames:
        assert self._names is not None, "a target enters first"
        return self._names

    @property
    def pool(self) -> str:
        return self._pool

    @property
    def data_pool(self) -> str:
        """Empty where the pool itself holds the data."""
        return self._data_pool

    def request(
        self, name: str, part: Part, footprint: Footprint, claimed_bytes: int, where: list[str]
    ) -> None:
        """Register a target; nothing is touched. Raises LeadlineError: those of pools,
        `image-not-mapped`, `zfs-missing`, `target-no-space`."""
        self.cluster.refuse_unfit()
        self._choose_pools(where)
        require_application(find_pool(self.cluster, self._pool, where), "rbd", where)
        data = self._data_pool or self._pool
        require_overwrites(find_pool(self.cluster, data, where), where)
        if part is not Part.LIBRBD:
            image_device.require_possible(where)
        if part is Part.ZFS:
            zfs_daemon.require_possible(where)
        requests = {**self._requests, name: (part, footprint)}
        needed = max(image_bytes(tuple(requests.values())), claimed_bytes + footprint.span)
        require_capacity(self.cluster, data, needed, 0, where)
        self._requests = requests

    def _choose_pools(self, where: list[str]) -> None:
        """Put the metadata of an image on an erasure-coded pool into a lab's replicated pool."""
        if find_pool(self.cluster, self._pool, where).type is not PoolType.ERASURE:
            return
        lab = self.cluster.lab
        metadata = lab.metadata_pool(self._pool) if lab and not self._data_pool else None
        if metadata is None:
            raise LeadlineError(
                errors.POOL_UNSUITABLE,
                f"the pool {self._pool!r} is erasure-coded and cannot hold an image's metadata",
                context=where,
                hint=f"name the replicated pool for that, with ?data_pool={self._pool}",
            )
        self._pool, self._data_pool = metadata, self._pool

    def enter(self, name: str, run: str, journal: Journal) -> None:
        """Start to use the image; the first target makes it. Raises LeadlineError."""
        self._users.add(name)
        if self._names is None:
            self._make(run, journal)

    def dataset(self, name: str, properties: Mapping[str, str]) -> OwnDataset:
        """The future dataset of a target; it is destroyed with the pool."""
        number = str(list(self._requests).index(name) + 1)
        made = OwnDataset(
            name=f"{self.names.zpool}/target-{number}",
            path=self.names.datasets / number,
            owner=self._owner,
            wanted=properties,
        )
        self._datasets.append(made)
        return made

    def settle(self, written_at_s: float) -> None:
        """Wait until the prefill of all targets is in the cluster and no longer disturbs trials.

        Raises LeadlineError.
        """
        if written_at_s > self._settled_at_s:
            for dataset in self._datasets:
                dataset.settle()
            self._settled_at_s = time.monotonic()
        self.cluster.settle(self._settled_at_s)

    def folder(self, name: str) -> Path:
        """Make a folder for a target on the ext4; it is removed with the file system."""
        path = self.names.ext4 / f"target-{list(self._requests).index(name) + 1}"
        FileSystem().make(path, self._owner)
        return path

    def leave(self, name: str) -> tuple[str, ...]:
        """Stop to use the image; the last target removes it. Sentences about what failed."""
        if name not in self._users:
            return ()
        self._users.discard(name)
        if self._users or self._created is None:
            return ()
        problems = remove_shared_image(
            self._created, None if self.cluster.temporary else self.cluster.access
        )
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = self._names = None
        return problems

    def _make(self, run: str, journal: Journal) -> None:
        token = secrets.token_hex(8)
        names = SharedImageNames(pool=self._pool, image=f"leadline-{run}-{token}", token=token)
        self._names, self._owner, self._journal = names, f"{run} {token}", journal
        self.cluster.use_journal(journal)
        self._created = Created(target="", cluster=self.cluster.name, path=names.url, token=token)
        journal.note_created(self._created)
        names.folder.mkdir(mode=0o700)
        self._make_image(names)
        stretches = layout(tuple(self._requests.values()))
        below = {part: stretch for part, stretch in stretches.items() if part is not Part.LIBRBD}
        if not below:
            return
        whole = self._attach(names)
        for part, stretch in below.items():
            single = len(stretches) == 1 and whole != names.file
            device = (
                whole.name
                if single
                else image_device.attach_loop(whole, offset=stretch.offset, size=stretch.size)
            )
            make = self._make_ext4 if part is Part.EXT4 else self._make_pool
            make(names, f"/dev/{device}")

    def _make_image(self, names: SharedImageNames) -> None:
        size = (
            "--size",
            f"{image_bytes(tuple(self._requests.values()))}B",
            "--image-feature=layering",
        )
        data = ("--data-pool", self._data_pool) if self._data_pool else ()
        access, spec = self.cluster.access, names.spec
        ask(access, "rbd", ("create", *size, *data, spec), "making an image")
        label = ("image-meta", "set", spec, OWNER_KEY, self._owner)
        ask(access, "rbd", label, "labelling an image")

    def _attach(self, names: SharedImageNames) -> Path:
        # The client's cache would serve I/O instead of the cluster.
        access: CephAccess = self.cluster.client({"rbd_cache": "false"})
        if image_device.has_krbd():
            return image_device.map_by_kernel(access, names.spec)
        return image_device.show_by_fuse(access, names)

    def _make_ext4(self, names: SharedImageNames, device: str) -> None:
        """Make an ext4 with all tables written now: lazy writes would disturb the trials."""
        settings = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
        self._must("mkfs.ext4", "-q", "-m", "0", "-E", settings, device)
        names.ext4.mkdir()
        self._must("mount", device, str(names.ext4))

    def _must(self, program: str, *arguments: str) -> None:
        path = programs.find(program) or program
        status, _, err = programs.run(path, *arguments, bound_s=_MKFS_S)
        if status != 0:
            raise LeadlineError(
                errors.IMAGE_NOT_MAPPED,
                f"{program} fails on the image {self.names.spec}",
                context=err.splitlines()[-3:] or [f"no answer within {_MKFS_S:g} s"],
            )

    def _make_pool(self, names: SharedImageNames, device: str) -> None:
        """Make a pool with sectors of 4 KiB, as is usual on devices that report 512 bytes, and
        without a cache file, so that no boot imports it."""
        zfs_daemon.ensure(names.pid_file)
        names.datasets.mkdir()
        settings = ("-o", "cachefile=none", "-o", "ashift=12", "-m", "none")
        mark = ("-O", f"{OWNER}={self._owner}")
        programs.ask(
            "making a pool",
            *("zpool", "create", *settings, *mark, names.zpool, device),
            bound_s=_MKFS_S,
        )


class SharedImages:
    """The shared images of a plan's targets, one per pool and cluster."""

    def __init__(self) -> None:
        self._images: dict[tuple[str, str, str], SharedImage] = {}

    def image_for(self, target: Target, cluster: OpenCluster) -> SharedImage:
        key = (cluster.name, *image_of(target.parsed))
        if key not in self._images:
            self._images[key] = SharedImage(cluster, *image_of(target.parsed))
        return self._images[key]


class SharedRbdTarget(RbdTarget):
    """`rbd:POOL?shared=yes`: librbd on the first stretch of the shared image."""

    def __init__(self, target: Target, cluster: OpenCluster, image: SharedImage) -> None:
        super().__init__(target, cluster, destroy=())
        self._shared = image

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        here = self.cluster.lab.client_location if self.cluster.lab else ""
        self._settings = client_settings(self._url, here, where)
        self._shared.request(self.name, Part.LIBRBD, footprint, claimed_bytes, where)
        self._pool, self._data_pool = self._shared.pool, self._shared.data_pool

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._access = self.cluster.client(dict(self._settings))
        self._span = footprint.span
        self._journal = journal
        self._shared.enter(self.name, run, journal)
        self._image = self._shared.names.image
        self._read_facts()

    def settle(self, written_at_s: float) -> None:
        # Writes of other targets on the image would disturb this one too.
        self._shared.settle(written_at_s)
        super().settle(written_at_s)

    def _used_bytes(self) -> int:
        """Allocated bytes of the first stretch; the others belong to other targets."""
        extents = self._rbd(
            "measuring the image",
            *("diff", "--whole-object", "--format", "json", f"{self._pool}/{self._image}"),
        )
        rows = [row for row in json.loads(extents) if row["exists"] in (True, "true")]
        ends = ((int(row["offset"]), int(row["offset"]) + int(row["length"])) for row in rows)
        return sum(max(0, min(end, self._span) - begin) for begin, end in ends)

    def release(self) -> tuple[str, ...]:
        return (*super().release(), *self._shared.leave(self.name))


class OnSharedImage(CephTarget):
    """A target in a file system on the shared image."""

    part: Part

    def __init__(self, target: Target, cluster: OpenCluster, image: SharedImage) -> None:
        super().__init__(target, cluster)
        self._shared = image
        self._found: tuple[Layer, ...] = ()

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        self._shared.request(self.name, self.part, footprint, claimed_bytes, where)

    def _read_layers_of(self, path: Path) -> None:
        """Read the layers of a path, with the cluster's description of the image."""
        shared = self._shared
        try:
            command = ("info", "--format", "json", shared.names.spec)
            info = ask(self.cluster.access, "rbd", command, "reading an image")
        except LeadlineError:
            info = ""
        facts: Mapping[str, Mapping[str, str]] = {LayerKind.IMAGE: parse_image_info(info)}
        data = {LayerKind.POOL: shared.data_pool or shared.pool}
        self._found = tuple(
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
        return self._found

    def release(self) -> tuple[str, ...]:
        return (*self.cluster.restore(), *self._shared.leave(self.name))


class Ext4OnRbdTarget(OnSharedImage, DirectoryTarget):
    """`ext4+rbd:POOL`: a folder on the ext4 of the shared image."""

    part = Part.EXT4

    def __init__(self, target: Target, cluster: OpenCluster, image: SharedImage) -> None:
        DirectoryTarget.__init__(self, target)
        OnSharedImage.__init__(self, target, cluster, image)

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._files = set(footprint.files)
        self._shared.enter(self.name, run, journal)
        self.parent = self._shared.names.ext4
        self.folder = self._shared.folder(self.name)
        self._read_layers_of(self.folder)

    def present(self) -> bool:
        self.cluster.require_pool(self._shared.pool)
        mounted = self.parent in image_device.mounts_below(self.parent)
        return mounted and DirectoryTarget.present(self)


class ZfsOnRbdTarget(InDataset, OnSharedImage):
    """`zfs+rbd:POOL?recordsize=...`: a dataset in the pool on the shared image."""

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
        self._read_layers_of(self._dataset.location.path)

    def present(self) -> bool:
        self.cluster.require_pool(self._shared.pool)
        return super().present()
