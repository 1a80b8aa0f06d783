"""The shared image: one RBD image with all targets of a pool that are compared on the same image.

librbd works from offset 0; after it comes a stretch with an ext4, where each target has a folder,
then one with a pool of ZFS, where each target has a dataset. One token names all of it, and the
journal records it before it is made (see image_device.SharedImageNames).
"""

from __future__ import annotations

import json
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
from leadline.plan.footprint import Footprint, ImageKey, Part, image_bytes, image_of, layout
from leadline.plan.models import Target
from leadline.plan.target_url import Vdev
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
from leadline.targets.naming import new_token, own_name, owner_mark
from leadline.targets.zfs import InDataset
from leadline.targets.zfs_dataset import OWNER, OwnDataset, removal_error, require_known_here

_BUSY_S = 30.0
_DESTROY_S = 120.0
_MARKED_S = 5.0


def remove_shared_image(created: Created, run: str, access: CephAccess | None) -> tuple[str, ...]:
    """Remove a shared image from the top down, as far as it was made; sentences about what failed.

    Without `access` the image is destroyed with its lab.
    """
    names, mark = parse_names(created.path, created.token), owner_mark(run, created.token)
    if not names.is_own_of(run):
        return (f"{created.path} has no name of this run's and was kept",)
    try:
        stuck = _destroy_pool(names, mark)
    except LeadlineError as error:
        return (error.fact,)
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
        problems += remove_image(access, image, run)
    return (*problems, *(() if problems else _remove_folder(names)))


def _require_mark(names: SharedImageNames, mark: str) -> None:
    """Raise LeadlineError(`left-behind`) for a pool on the image without the mark of the run."""
    end = time.monotonic() + _MARKED_S
    while (owner := programs.local_property(OWNER, names.zpool)) != mark:
        # `zpool create` sets the mark right after the pool is made.
        if owner or time.monotonic() > end:
            whose = "the mark of another owner" if owner else "no mark of this run"
            raise LeadlineError(
                errors.LEFT_BEHIND,
                f"the pool {names.zpool} carries {whose}; it was kept: "
                f"`zpool destroy {names.zpool}` if it is yours",
            )
        time.sleep(0.2)


def _destroy_pool(names: SharedImageNames, mark: str) -> tuple[str, ...]:
    """Destroy the run's pool; retry while it is busy. Raises LeadlineError(`left-behind`) for
    another's."""
    end = time.monotonic() + _BUSY_S
    try:
        while names.zpool in _pools():
            _require_mark(names, mark)
            try:
                programs.ask("removing a pool", "zpool", "destroy", names.zpool, bound_s=_DESTROY_S)
            except LeadlineError as error:
                busy = any("busy" in line for line in error.context)
                if not busy or time.monotonic() > end:
                    raise
                time.sleep(0.5)
    except LeadlineError as error:
        if error.kind is errors.LEFT_BEHIND:
            raise
        users = image_device.mounted_elsewhere(names.token)
        reason = "; ".join([removal_error(error), *users])
        return (f"the pool {names.zpool} could not be removed: {reason}",)
    return ()


def _pools() -> tuple[str, ...]:
    return programs.pools() if zfs_daemon.answers() else ()


def _remove_folder(names: SharedImageNames) -> tuple[str, ...]:
    """Remove the folder with the files that Leadline made in it, and no others."""
    with suppress(FileNotFoundError):
        for path in (names.pid_file, *names.folder.glob(f"{image_device.RBD_FUSE}*")):
            path.unlink(missing_ok=True)
    folders = (
        *names.folder.glob(f"{image_device.EXPOSED}*"),
        names.ext4,
        *_below(names.datasets),
        names.datasets,
        names.folder,
    )
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
# Blocks of 4 KiB, as is usual on devices that report sectors of 512 bytes.
_ASHIFT = "12"


class SharedImage:
    """One image and its file systems: the first target makes it, the last one removes it."""

    def __init__(self, cluster: OpenCluster, key: ImageKey) -> None:
        self.cluster = cluster
        self._pool, self._data_pool = key.pool, key.data_pool
        self._ashift = dict(key.zpool).get("ashift", _ASHIFT)
        self._vdevs = key.vdevs
        self._requests: dict[str, tuple[Part, Footprint]] = {}
        self._users: set[str] = set()
        self._names: SharedImageNames | None = None
        # The image, and those of further vdevs.
        self._created: list[Created] = []
        self._journal: Journal | None = None
        self._run = self._owner = ""
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
        needed = {data: max(image_bytes(tuple(requests.values())), claimed_bytes + footprint.span)}
        for vdev in self._vdevs:
            pool = find_pool(self.cluster, vdev.pool, where)
            require_application(pool, "rbd", where)
            if pool.type is PoolType.ERASURE:
                raise self._no_metadata(vdev.pool, where, f"{vdev.vdev_class}=POOL/SIZE")
            needed[vdev.pool] = needed.get(vdev.pool, 0) + vdev.size
        for name_of_pool, size in needed.items():
            require_capacity(self.cluster, name_of_pool, size, 0, where)
        self._requests = requests

    def _choose_pools(self, where: list[str]) -> None:
        """Put the metadata of an image on an erasure-coded pool into a lab's replicated pool."""
        if find_pool(self.cluster, self._pool, where).type is not PoolType.ERASURE:
            return
        lab = self.cluster.lab
        metadata = lab.metadata_pool(self._pool) if lab and not self._data_pool else None
        if metadata is None:
            raise self._no_metadata(self._pool, where, f"data_pool={self._pool}")
        self._pool, self._data_pool = metadata, self._pool

    def _no_metadata(self, pool: str, where: list[str], option: str) -> LeadlineError:
        return LeadlineError(
            errors.POOL_UNSUITABLE,
            f"the pool {pool!r} is erasure-coded and cannot hold an image's metadata",
            context=where,
            hint=f"name the replicated pool for that, with ?{option}",
        )

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
        if self._users:
            return ()
        access = None if self.cluster.temporary else self.cluster.access
        # The first one has the pool on all of them.
        for created in tuple(self._created):
            problems = remove_shared_image(created, self._run, access)
            if problems:
                return problems
            if self._journal is not None:
                self._journal.note_removed(created)
            self._created.remove(created)
        self._names = None
        return ()

    def _make(self, run: str, journal: Journal) -> None:
        token = new_token()
        names = SharedImageNames(pool=self._pool, image=own_name(run, token), token=token)
        self._names, self._journal = names, journal
        self._run, self._owner = run, owner_mark(run, token)
        self.cluster.use_journal(journal)
        self._note_created(names)
        names.folder.mkdir(mode=0o700)
        self._make_image(names, image_bytes(tuple(self._requests.values())), self._data_pool)
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

    def _note_created(self, names: SharedImageNames) -> None:
        assert self._journal is not None, "a target enters first"
        created = Created(target="", cluster=self.cluster.name, path=names.url, token=names.token)
        self._journal.note_created(created)
        self._created.append(created)

    def _make_image(self, names: SharedImageNames, size_bytes: int, data_pool: str = "") -> None:
        size = ("--size", f"{size_bytes}B", "--image-feature=layering")
        data = ("--data-pool", data_pool) if data_pool else ()
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
        """Make a pool with its further vdevs, without a cache file, so that no boot imports it."""
        zfs_daemon.ensure(names.pid_file)
        names.datasets.mkdir()
        settings = ("-o", "cachefile=none", "-o", f"ashift={self._ashift}", "-m", "none")
        mark = ("-O", f"{OWNER}={self._owner}")
        vdevs = [word for vdev in self._vdevs for word in (vdev.vdev_class, self._device_of(vdev))]
        programs.ask(
            "making a pool",
            *("zpool", "create", *settings, *mark, names.zpool, device, *vdevs),
            bound_s=_MKFS_S,
        )

    def _device_of(self, vdev: Vdev) -> str:
        """Make the image of a further vdev; its device."""
        names = self.names.of_vdev(vdev)
        self._note_created(names)
        self._make_image(names, vdev.size)
        whole = self._attach(names)
        if whole != names.file:
            return str(whole)
        return f"/dev/{image_device.attach_loop(whole, offset=0, size=vdev.size)}"


class SharedImages:
    """The shared images of a plan's targets: one per cluster, Ceph pool and make of a ZFS pool."""

    def __init__(self) -> None:
        self._images: dict[tuple[str, ImageKey], SharedImage] = {}

    def image_for(self, target: Target, cluster: OpenCluster) -> SharedImage:
        key = (cluster.name, image_of(target.parsed))
        if key not in self._images:
            self._images[key] = SharedImage(cluster, key[1])
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
        self._run, self._journal = run, journal
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
        found: list[Layer] = []
        above = ""
        for layer in layers_of_path(path):
            if layer.kind is LayerKind.IMAGE:
                above = layer.name
                facts = parse_image_info(info) if above == shared.names.spec else {}
                layer = layer.model_copy(update={"facts": {**facts, **layer.facts}})
            elif layer.kind is LayerKind.POOL and above == shared.names.spec:
                layer = layer.model_copy(update={"name": shared.data_pool or shared.pool})
            # A further vdev may be in the same pool.
            if layer.kind is not LayerKind.POOL or layer not in found:
                found.append(layer)
        self._found = tuple(found)

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
        self._zpool = target.parsed.zpool_options

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)
        require_known_here({**self._properties, **self._zpool}, [f"target {self.name!r}"])

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._shared.enter(self.name, run, journal)
        self._dataset = self._shared.dataset(self.name, self._properties)
        self._dataset.make()
        self._read_layers_of(self._dataset.location.path)

    def present(self) -> bool:
        self.cluster.require_pool(self._shared.pool)
        return super().present()
