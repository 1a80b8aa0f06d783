"""The stand: one RBD image of our own with all targets of a plan on it that are to be compared on
the same image, each sort on a stretch of it.

At offset 0 lies what librbd works on; behind it a stretch with an ext4, in which each target has a
folder; behind that one with a pool of ZFS, in which each target has a dataset. All is named by one
token and noted before it is made (see stand_names).
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
from leadline.targets import image_device, zfs
from leadline.targets.ceph import (
    KEEP_FREE_SHARE,
    OWNER_KEY,
    OnCluster,
    RbdTarget,
    ask,
    client_settings,
    find_pool,
    remove_image,
    require_application,
    require_overwrites,
)
from leadline.targets.clusters import OpenCluster
from leadline.targets.image_device import StandNames, names_of
from leadline.targets.local import OWNER_FILE, DirectoryTarget
from leadline.targets.zfs import OWNER, InDataset, OwnDataset, require_known_here, why_it_stays
from leadline.units import format_size

# Removing a stand, from the top down, however much of it there is: behind a run, and behind a
# session that was killed while it made or used one.

_BUSY_S = 30.0
_DESTROY_S = 120.0


def remove_stand(created: Created, access: CephAccess | None) -> tuple[str, ...]:
    """Remove what a journal's entry tells of; what could not be done as sentences. Without
    `access` the image goes with its lab."""
    names = names_of(created.path, created.token)
    if not names.image.endswith(f"-{names.token}"):
        return (f"{created.path} has no name of ours and was left alone",)
    stuck = _destroy_pool(names)
    if stuck and not zfs.ours(names.folder):
        return stuck  # a pool that stays must keep what it stands on
    stuck += image_device.unmount(names.ext4)
    if stuck:
        # What lies below does not come back: it is cut off, and what waits for it lets go.
        image_device.withdraw(names, force=True)
    problems = image_device.unmount(names.ext4, lazy_after_s=0.0)
    problems += zfs.stop(names.folder, names.zpool)
    # A daemon that had to be killed leaves its mounts, which answer nothing.
    for path in image_device.mounts_below(names.datasets):
        problems += image_device.unmount(path, lazy_after_s=0.0)
    problems += image_device.detach_loops(names)
    problems += image_device.withdraw(names)
    if access is not None:
        image = created.model_copy(update={"path": f"rbd:{names.spec}"})
        problems += remove_image(access, image)
    return (*problems, *(() if problems else _remove_folder(names)))


def _destroy_pool(names: StandNames) -> tuple[str, ...]:
    """Destroy our pool, as long as it is busy; no other has its name."""
    end = time.monotonic() + _BUSY_S
    try:
        while names.zpool in _pools():
            # A pool that was made and not yet marked has no dataset of anybody.
            owner = programs.local_property(OWNER, names.zpool)
            if owner and not owner.endswith(names.token):
                return (f"the pool {names.zpool} carries another owner's mark",)
            try:
                programs.ask("removing a pool", "zpool", "destroy", names.zpool, bound_s=_DESTROY_S)
            except LeadlineError as error:
                busy = any("busy" in line for line in error.context)
                if not busy or time.monotonic() > end:
                    raise
                time.sleep(0.5)
    except LeadlineError as error:
        others = image_device.mounted_elsewhere(names.token)
        said = "; ".join([why_it_stays(error), *others])
        return (f"the pool {names.zpool} could not be removed: {said}",)
    return ()


def _pools() -> tuple[str, ...]:
    return programs.pools() if zfs.answers() else ()


def _remove_folder(names: StandNames) -> tuple[str, ...]:
    """Remove the folder with what we made in it, and nothing else."""
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
    """One image and what stands on it, from the first target that enters to the last that
    leaves."""

    def __init__(self, cluster: OpenCluster, pool: str, data_pool: str) -> None:
        self.cluster = cluster
        self._pool, self._data_pool = pool, data_pool
        self._wanted: dict[str, tuple[Part, Footprint]] = {}
        self._inside: set[str] = set()
        self._names: StandNames | None = None
        self._created: Created | None = None
        self._journal: Journal | None = None
        self._owner = ""
        self._datasets: list[OwnDataset] = []
        self._settled_at_s = 0.0

    @property
    def names(self) -> StandNames:
        assert self._names is not None, "a target enters first"
        return self._names

    @property
    def pool(self) -> str:
        return self._pool

    @property
    def data_pool(self) -> str:
        """Empty where the pool itself holds the data."""
        return self._data_pool

    def want(
        self, name: str, part: Part, footprint: Footprint, claimed_bytes: int, where: list[str]
    ) -> None:
        """Take a target in; nothing is touched. Raises LeadlineError with what speaks against it:
        those of pools, `image-not-mapped`, `zfs-missing`, `target-no-space`."""
        self.cluster.refuse_unfit()
        self._choose_pools(where)
        require_application(find_pool(self.cluster, self._pool, where), "rbd", where)
        data = self._data_pool or self._pool
        require_overwrites(find_pool(self.cluster, data, where), where)
        if part is not Part.LIBRBD:
            image_device.require_possible(where)
        if part is Part.ZFS:
            zfs.require_possible(where)
        wanted = {**self._wanted, name: (part, footprint)}
        needed = max(image_bytes(tuple(wanted.values())), claimed_bytes + footprint.span)
        free = self.cluster.free_bytes(data)
        if needed > free * (1 - KEEP_FREE_SHARE):
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"the pool {data!r} takes {format_size(free)} more; the image that the plan's "
                f"targets share needs {format_size(needed)}, and 10 % stay free",
                context=where,
                hint="make the plan smaller with --size, or make room",
            )
        self._wanted = wanted

    def _choose_pools(self, where: list[str]) -> None:
        """An erasure-coded pool holds data only; a lab knows the pool for the rest."""
        if find_pool(self.cluster, self._pool, where).type is not PoolType.ERASURE:
            return
        lab = self.cluster.lab
        beside = lab.metadata_pool(self._pool) if lab and not self._data_pool else None
        if beside is None:
            raise LeadlineError(
                errors.POOL_UNSUITABLE,
                f"the pool {self._pool!r} is erasure-coded and cannot hold an image's metadata",
                context=where,
                hint=f"name the replicated pool for that, with ?data_pool={self._pool}",
            )
        self._pool, self._data_pool = beside, self._pool

    def enter(self, name: str, run: str, journal: Journal) -> None:
        """Begin to use it; the first makes all of it. Raises LeadlineError."""
        self._inside.add(name)
        if self._names is None:
            self._make(run, journal)

    def dataset(self, name: str, wanted: Mapping[str, str]) -> OwnDataset:
        """The dataset of a target in the pool, to be made; it goes with the pool."""
        number = str(list(self._wanted).index(name) + 1)
        made = OwnDataset(
            name=f"{self.names.zpool}/target-{number}",
            path=self.names.datasets / number,
            owner=self._owner,
            wanted=wanted,
        )
        self._datasets.append(made)
        return made

    def settle(self, written_at_s: float) -> None:
        """Wait until what was written is in the cluster and no longer disturbs trials; for all
        targets at once. Raises LeadlineError."""
        if written_at_s > self._settled_at_s:
            for dataset in self._datasets:
                dataset.settle()
            self._settled_at_s = time.monotonic()
        self.cluster.settle(self._settled_at_s)

    def folder(self, name: str) -> Path:
        """A folder for a target on the ext4, made now; it goes with the file system."""
        path = self.names.ext4 / f"target-{list(self._wanted).index(name) + 1}"
        path.mkdir()
        (path / OWNER_FILE).write_text(f"{self._owner}\n", encoding="utf-8")
        return path

    def leave(self, name: str) -> tuple[str, ...]:
        """Use it no longer; the last removes all of it. What could not be done as sentences."""
        if name not in self._inside:
            return ()
        self._inside.discard(name)
        if self._inside or self._created is None:
            return ()
        problems = remove_stand(
            self._created, None if self.cluster.temporary else self.cluster.access
        )
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = self._names = None
        return problems

    def _make(self, run: str, journal: Journal) -> None:
        token = secrets.token_hex(8)
        names = StandNames(pool=self._pool, image=f"leadline-{run}-{token}", token=token)
        self._names, self._owner, self._journal = names, f"{run} {token}", journal
        self.cluster.keep(journal)
        self._created = Created(target="", cluster=self.cluster.name, path=names.url, token=token)
        journal.note_created(self._created)
        names.folder.mkdir(mode=0o700)
        self._make_image(names)
        stretches = layout(tuple(self._wanted.values()))
        below = {part: one for part, one in stretches.items() if part is not Part.LIBRBD}
        if not below:
            return
        whole = self._shown(names)
        for part, stretch in below.items():
            alone = len(stretches) == 1 and whole.is_block_device()
            device = (
                whole.name
                if alone
                else image_device.attach_loop(whole, offset=stretch.offset, size=stretch.size)
            )
            make = self._make_ext4 if part is Part.EXT4 else self._make_pool
            make(names, f"/dev/{device}")

    def _make_image(self, names: StandNames) -> None:
        size = (
            "--size",
            f"{image_bytes(tuple(self._wanted.values()))}B",
            "--image-feature=layering",
        )
        data = ("--data-pool", self._data_pool) if self._data_pool else ()
        access, spec = self.cluster.access, names.spec
        ask(access, "rbd", ("create", *size, *data, spec), "making an image")
        label = ("image-meta", "set", spec, OWNER_KEY, self._owner)
        ask(access, "rbd", label, "labelling an image")

    def _shown(self, names: StandNames) -> Path:
        # The client's cache would answer reads and take writes in the cluster's stead.
        access: CephAccess = self.cluster.client({"rbd_cache": "false"})
        if image_device.by_kernel():
            return image_device.map_by_kernel(access, names.spec)
        return image_device.show_by_fuse(access, names)

    def _make_ext4(self, names: StandNames, device: str) -> None:
        """All of its tables are written now: what it does by and by would disturb the trials."""
        now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
        self._must("mkfs.ext4", "-q", "-m", "0", "-E", now, device)
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

    def _make_pool(self, names: StandNames, device: str) -> None:
        """Its own sectors are of 4 KiB, as is usual where a device tells 512 bytes. It stands in
        no cache of pools, so that nothing imports it at the next start."""
        zfs.ensure(names.pid_file)
        names.datasets.mkdir()
        settings = ("-o", "cachefile=none", "-o", "ashift=12", "-m", "none")
        mark = ("-O", f"{OWNER}={self._owner}")
        programs.ask(
            "making a pool",
            *("zpool", "create", *settings, *mark, names.zpool, device),
            bound_s=_MKFS_S,
        )


class SharedImages:
    """The shared images of a plan's targets, one for each pool of a cluster."""

    def __init__(self) -> None:
        self._images: dict[tuple[str, str, str], SharedImage] = {}

    def of(self, target: Target, cluster: OpenCluster) -> SharedImage:
        key = (cluster.name, *image_of(target.parsed))
        if key not in self._images:
            self._images[key] = SharedImage(cluster, *image_of(target.parsed))
        return self._images[key]


# Targets on the image that all such targets of a Ceph pool share: by librbd, in an ext4, in a
# dataset of ZFS.


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
        facts: Mapping[str, Mapping[str, str]] = {LayerKind.IMAGE: parse_image_info(told)}
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
