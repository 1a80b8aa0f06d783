"""The stand: one RBD image of our own with all targets of a plan on it that are to be compared on
the same image, each sort on a stretch of it.

At offset 0 lies what librbd works on; behind it a stretch with an ext4, in which each target has a
folder; behind that one with a pool of ZFS, in which each target has a dataset. All is named by one
token and noted before it is made (see stand_names).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from leadline import admin_programs, errors, zfs_programs
from leadline.archive.records import Created
from leadline.ceph.access import CephAccess
from leadline.errors import LeadlineError
from leadline.inventory.ceph import PoolType
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.shared_layout import Part, image_bytes, image_of, layout
from leadline.runner.ports import Journal
from leadline.targets import image_device, zfs_daemon
from leadline.targets.cluster import OpenCluster
from leadline.targets.dataset import OWNER, OwnDataset
from leadline.targets.directory import OWNER_FILE
from leadline.targets.on_cluster import ask
from leadline.targets.pools import (
    KEEP_FREE_SHARE,
    find_pool,
    require_application,
    require_overwrites,
)
from leadline.targets.rbd import OWNER_KEY
from leadline.targets.stand_names import StandNames
from leadline.targets.stand_removal import remove_stand
from leadline.units import format_size

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
            zfs_daemon.require_possible(where)
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
        path = admin_programs.find(program) or program
        status, _, err = admin_programs.run(path, *arguments, bound_s=_MKFS_S)
        if status != 0:
            raise LeadlineError(
                errors.IMAGE_NOT_MAPPED,
                f"{program} fails on the image {self.names.spec}",
                context=err.splitlines()[-3:] or [f"no answer within {_MKFS_S:g} s"],
            )

    def _make_pool(self, names: StandNames, device: str) -> None:
        """Its own sectors are of 4 KiB, as is usual where a device tells 512 bytes. It stands in
        no cache of pools, so that nothing imports it at the next start."""
        zfs_daemon.ensure(names.pid_file)
        names.datasets.mkdir()
        settings = ("-o", "cachefile=none", "-o", "ashift=12", "-m", "none")
        mark = ("-O", f"{OWNER}={self._owner}")
        zfs_programs.ask(
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
