"""Targets on a Ceph cluster: RADOS objects, an RBD image, a folder on a mounted CephFS."""

from __future__ import annotations

import errno
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop, Created, RoundTrip
from leadline.connect.ceph import CephAccess, run_program
from leadline.engines.ceph_bench import cleanup_command
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import Pool, PoolType
from leadline.inventory.layer import Layer, LayerKind
from leadline.plan.footprint import OBJECT_BYTES, Footprint
from leadline.plan.models import Target
from leadline.plan.target_url import TargetUrl
from leadline.probes.mounts import mount_of
from leadline.probes.stacks import LIBRBD, image_layers, parse_image_info
from leadline.probes.watches.host import Machine
from leadline.probes.watches.selection import select_watches
from leadline.runner.ports import Journal, NbdExport, RadosPool, RbdImage, Watch
from leadline.targets.base import KEEP_FREE_SHARE, LastingTarget, require_free, require_span
from leadline.targets.ceph_cluster import OpenCluster
from leadline.targets.local import DirectoryTarget
from leadline.targets.naming import new_token, own_name, owner_mark
from leadline.units import format_size

# An operation that a cluster cannot serve never completes by itself.
_OPERATION_S = "20"
_TOOL_S = 60.0


class CephTarget(LastingTarget):
    """A target on one of the plan's Ceph clusters."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        self.name = target.name
        self.cluster = cluster
        self._rtt_s = target.parsed.inter_zone_rtt_s

    def volume(self) -> object:
        return ("ceph", self.cluster.name)

    def settle(self, written_at_s: float) -> None:
        self.cluster.settle(written_at_s)

    def prepare(self) -> tuple[RoundTrip, ...]:
        return self.cluster.apply_delay(self._rtt_s)

    def watch(self, folder: Path) -> Watch | None:
        watches = select_watches(self.layers(), folder)
        return self.cluster.watch(folder, *watches, clients=self._clients())

    def _clients(self) -> Sequence[Machine]:
        """The machines that do the I/O; none where it is this machine."""
        return ()


class PoolTarget(CephTarget, ABC):
    """A target in a pool; the journal records what Leadline makes there before it is made."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        super().__init__(target, cluster)
        self._pool = target.parsed.pool
        self._run = ""
        self._created: Created | None = None
        self._journal: Journal | None = None

    def _note(self, path: str, token: str, journal: Journal) -> None:
        """Record what is about to be made."""
        created = Created(target=self.name, cluster=self.cluster.name, path=path, token=token)
        journal.note_created(created)
        self._created, self._journal = created, journal

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        self.cluster.refuse_unfit()

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._run = run
        self.cluster.use_journal(journal)

    @abstractmethod
    def _remove(self, created: Created) -> tuple[str, ...]:
        """Remove it; sentences about what failed."""

    def present(self) -> bool:
        self.cluster.require_pool(self._pool)
        return True

    def drop_caches(self) -> CacheDrop | None:
        return None  # the client has no cache, and those of the cluster serve other users too

    def filesystem(self) -> str:
        return ""

    def note_files(self) -> None:
        return

    def release(self) -> tuple[str, ...]:
        left = self.cluster.restore()
        if self._created is None or self.cluster.temporary:
            return left
        if self.cluster.silent:
            reason = f"the cluster {self.cluster.name!r} did not answer before"
            return (*left, f"{self._created.path} was not removed: {reason}")
        began = time.monotonic()
        problems = self._remove(self._created)
        # Every further image would wait as long, without effect.
        self.cluster.silent = bool(problems) and time.monotonic() - began > float(_OPERATION_S) / 2
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = None
        return (*left, *problems)


def ask(
    access: CephAccess, program: str, arguments: Sequence[str], what: str, bound_s: float = _TOOL_S
) -> str:
    """Run one of Ceph's programs; its stdout. Raises LeadlineError: `ceph-missing`,
    `ceph-failed`."""
    # The first is that of the connection, which takes five minutes to fail without monitors.
    waits = ("client-mount", "rados-mon-op", "rados-osd-op")
    timeouts = [word for wait in waits for word in (f"--{wait}-timeout", _OPERATION_S)]
    return run_program(access.command(program, *timeouts, *arguments), program, what, bound_s)


def find_pool(cluster: OpenCluster, name: str, where: list[str]) -> Pool:
    """Raises LeadlineError(`pool-missing`) with the names of all pools."""
    inventory = cluster.inventory()
    pool = inventory.pool(name)
    if pool is None:
        known = ", ".join(other.name for other in inventory.pools)
        raise LeadlineError(
            errors.POOL_MISSING,
            f"the cluster {cluster.name!r} has no pool {name!r}",
            context=[*where, f"its pools: {known or 'none'}"],
            hint="`leadline inventory` shows the pools of a cluster",
        )
    return pool


def require_application(pool: Pool, application: str, where: list[str]) -> None:
    """Raise LeadlineError(`pool-unsuitable`) for a pool of another application or of none: Ceph
    warns about I/O to it."""
    if application in pool.applications or (pool.applications and application == "rados"):
        return
    applications = ", ".join(pool.applications)
    fact = f"is for {applications}" if applications else "has no application"
    raise LeadlineError(
        errors.POOL_UNSUITABLE,
        f"the pool {pool.name!r} {fact}",
        context=where,
        hint="if the pool is for that: "
        f"`ceph osd pool application enable {pool.name} {application}`",
    )


def require_overwrites(pool: Pool, where: list[str]) -> None:
    """Raise LeadlineError(`pool-unsuitable`) for an erasure-coded pool without overwrites."""
    if pool.type is PoolType.ERASURE and not pool.overwrites:
        raise LeadlineError(
            errors.POOL_UNSUITABLE,
            f"the erasure-coded pool {pool.name!r} does not allow overwrites",
            context=where,
            hint=f"`ceph osd pool set {pool.name} allow_ec_overwrites true` (BlueStore only)",
        )


def require_capacity(
    cluster: OpenCluster, pool: str, needed_bytes: int, claimed_bytes: int, where: Sequence[str]
) -> None:
    """Raise LeadlineError(`target-no-space`). Claims of other targets count as if they went into
    this pool, as all pools use the same OSDs."""
    free = cluster.free_bytes(pool)
    require_free(
        f"the pool {pool!r}",
        free_bytes=free,
        needed_bytes=needed_bytes,
        keep_bytes=int(free * KEEP_FREE_SHARE),
        claimed_bytes=claimed_bytes,
        context=where,
    )


_REMOVED_WITHIN_S = 300.0


class RadosTarget(PoolTarget):
    """`rados:POOL`: objects in a RADOS namespace of the run."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        super().__init__(target, cluster)
        self._objects = ""

    @property
    def location(self) -> RadosPool:
        assert self._objects, "acquire comes first"
        return RadosPool(pool=self._pool, objects=self._objects, access=self.cluster.access)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)
        require_application(find_pool(self.cluster, self._pool, where), "rados", where)
        require_capacity(self.cluster, self._pool, footprint.span, claimed_bytes, where)

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        super().acquire(footprint, run, journal)
        token = new_token()
        objects = own_name(run, token)
        self._note(f"rados:{self._pool}/{objects}", token, journal)
        self._objects = objects

    def layers(self) -> tuple[Layer, ...]:
        return (Layer(kind=LayerKind.POOL, name=self._pool),)

    def allocated_bytes(self) -> int | None:
        return None  # Ceph reports it for the whole pool, which has other users

    def _remove(self, created: Created) -> tuple[str, ...]:
        return remove_objects(self.cluster.access, created, self._run)


def remove_objects(access: CephAccess, created: Created, run: str) -> tuple[str, ...]:
    """Remove the objects of a run, all those in its namespace `rados:POOL/NAMESPACE`; sentences
    about what failed."""
    pool, _, objects = created.path.removeprefix("rados:").partition("/")
    if not objects.startswith(own_name(run, "")):
        return (f"{created.path} has no name of this run's and was kept",)
    location = RadosPool(pool=pool, objects=objects, access=access)
    try:
        run_program(cleanup_command(location), "rados", "removing objects", _REMOVED_WITHIN_S)
    except LeadlineError as error:
        reason = "; ".join([error.fact, *error.context[-1:]])
        return (f"{created.path} could not be removed: {reason}",)
    return ()


OWNER_KEY = "leadline.owner"
# `layering` alone by default: with an exclusive lock, jobs of one trial would take the lock from
# each other at every write, and a killed client would hold it for a minute.
_FEATURES = {
    "layering": "layering",
    "virtualization": "layering,exclusive-lock,object-map,fast-diff,deep-flatten",
}
# A killed client counts as a watcher of its image for 30 s (osd_client_watch_timeout).
_WATCHED_S = 45.0
# For commands that visit every object of an image: a large one has hundreds of thousands.
_WALK_S = 1800.0


class RbdTarget(PoolTarget):
    """`rbd:POOL[/IMAGE]`: a new image, or an existing one that `destroy` names."""

    # Of the journal's entry of a new image.
    scheme = "rbd:"

    def __init__(self, target: Target, cluster: OpenCluster, destroy: Sequence[str]) -> None:
        super().__init__(target, cluster)
        self._url = target.parsed
        self._may_write = f"rbd:{self._url.location}" in destroy
        self._data_pool = self._url.options.get("data_pool", "")
        self._features = self._url.options.get("features", "layering")
        self._image = self._url.image
        # The cluster's id of a user's image, which another image of its name does not have.
        self._image_id = ""
        self._writes = True
        self._span = 0
        self._settings: tuple[tuple[str, str], ...] = ()
        self._access: CephAccess | None = None
        self._allocated: int | None = None
        self._facts: Mapping[str, str] = {}

    @property
    def location(self) -> RbdImage | NbdExport:
        assert self._access is not None, "acquire comes first"
        return RbdImage(
            pool=self._pool,
            image=self._image,
            access=self._access,
            settings=self._settings,
            read_only=not self._writes,
        )

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        here = self.cluster.lab.client_location if self.cluster.lab else ""
        self._settings = client_settings(self._url, here, where)
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)
        self._choose_pools(where)
        metadata = find_pool(self.cluster, self._pool, where)
        require_application(metadata, "rbd", where)
        data = find_pool(self.cluster, self._data_pool or self._pool, where)
        require_overwrites(data, where)
        self._writes = footprint.writes or prefill
        own_clients = not self._url.by_nbd and len(footprint.files) > 1
        if self._features == "virtualization" and own_clients:
            raise LeadlineError(
                errors.TARGET_UNSUITABLE,
                "an image with an exclusive lock takes one client at a time; the plan has "
                f"workloads of {len(footprint.files)} jobs",
                context=where,
                hint="use numjobs: 1 with more iodepth, as one virtual machine does",
            )
        if self._url.image:
            self._inspect_image(footprint, where)
        else:
            require_capacity(self.cluster, data.name, footprint.span, claimed_bytes, where)

    def _choose_pools(self, where: list[str]) -> None:
        """Put the metadata of an image on an erasure-coded pool into a lab's replicated pool."""
        pool = find_pool(self.cluster, self._url.pool, where)
        if pool.type is not PoolType.ERASURE:
            return
        metadata = self.cluster.lab.metadata_pool(pool.name) if self.cluster.lab else None
        if metadata is None or self._url.image or "data_pool" in self._url.options:
            raise LeadlineError(
                errors.POOL_UNSUITABLE,
                f"the pool {pool.name!r} is erasure-coded and cannot hold an image's metadata",
                context=where,
                hint=f"name the replicated pool for that: rbd:POOL?data_pool={pool.name}",
            )
        self._pool, self._data_pool = metadata, pool.name

    def _inspect_image(self, footprint: Footprint, where: list[str]) -> None:
        """Check an existing image: it is there, large enough, and written only with consent."""
        spec = f"{self._pool}/{self._url.image}"
        size, image_id = self._read_image(where)
        if self._writes and not self._may_write:
            raise LeadlineError(
                errors.IMAGE_NOT_CONSENTED,
                f"the plan would destroy what is in the image {spec!r}",
                context=where,
                hint=f"to allow that: --destroy-data rbd:{spec}; or leave the image out "
                f"(rbd:{self._pool}) for a new one, which the run removes",
            )
        require_span(f"the image {spec!r}", size, footprint.span, where)
        self._image_id = image_id

    def _read_image(self, where: Sequence[str]) -> tuple[int, str]:
        """The size and id of the user's image. Raises LeadlineError(`target-invalid`)."""
        spec = f"{self._pool}/{self._url.image}"
        try:
            row = json.loads(self._rbd("reading the image", "info", "--format", "json", spec))
        except LeadlineError as error:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"the image {spec!r} cannot be used",
                context=[*where, *error.context],
                hint=f"leave the image out (rbd:{self._pool}) for a new one",
            ) from error
        # Images of the first format have no id.
        return int(row["size"]), str(row.get("id") or row.get("block_name_prefix"))

    def look_again(self) -> None:
        if not self._url.image:
            return
        where = [f"target {self.name!r}"]
        _, now = self._read_image(where)
        if now != self._image_id:
            raise LeadlineError(
                errors.DEVICE_EXCHANGED,
                f"'{self._pool}/{self._url.image}' is not the image that was inspected",
                context=[*where, f"its id was {self._image_id}, it is {now} now"],
                hint="learn who made the new one, and start again",
            )

    def present(self) -> bool:
        self.look_again()
        return super().present()

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        super().acquire(footprint, run, journal)
        self._access = self.cluster.client(dict(self._settings))
        self._span = footprint.span
        if self._url.image:
            self.look_again()
            self._read_facts()
            return
        token = new_token()
        image = own_name(run, token)
        self._note(f"{self.scheme}{self._pool}/{image}", token, journal)
        objects = -(-footprint.span // OBJECT_BYTES)
        data = ("--data-pool", self._data_pool) if self._data_pool else ()
        features = (f"--image-feature={name}" for name in _FEATURES[self._features].split(","))
        spec = f"{self._pool}/{image}"
        size = f"{objects * OBJECT_BYTES}B"
        layout = (word for pair in self._url.image_layout.items() for word in pair)
        self._rbd("making an image", "create", "--size", size, *features, *layout, *data, spec)
        self._rbd(
            "labelling an image", "image-meta", "set", spec, OWNER_KEY, owner_mark(run, token)
        )
        self._image = image
        self._read_facts()

    def settle(self, written_at_s: float) -> None:
        spec = f"{self._pool}/{self._image}"
        self._allocated = self._used_bytes()
        if self._allocated < self._span:
            raise LeadlineError(
                errors.PREFILL_FAILED,
                f"the image {spec} holds {format_size(self._allocated)} of the "
                f"{format_size(self._span)} that were written",
                hint="reads of unallocated parts complete without I/O",
            )
        if "rbd_read_from_replica_policy" in dict(self._settings) and not self._data_pool:
            self._write_other_objects()
        super().settle(written_at_s)

    def _used_bytes(self) -> int:
        """Allocated bytes of the image."""
        spec = f"{self._pool}/{self._image}"
        usage = self._rbd("measuring the image", "du", "--format", "json", spec)
        return int(json.loads(usage)["images"][0]["used_size"])

    def _write_other_objects(self) -> None:
        """Write small objects into every placement group, and remove them.

        A replica serves reads of an object only after a later write in its placement group has
        marked the object's last write as stable (can_serve_replica_read in Ceph's PGLog). After a
        prefill there is none, and every localized read would go to the primary.
        """
        token = new_token()
        names = own_name(self._run, token)
        created = Created(
            target=self.name,
            cluster=self.cluster.name,
            path=f"rados:{self._pool}/{names}",
            token=token,
        )
        if self._journal is not None:
            self._journal.note_created(created)
        write = ("--pool", self._pool, "--namespace", names, "bench", "2", "write")
        small = ("-b", "4096", "-t", "16", "--no-cleanup")
        ask(self.cluster.access, "rados", (*write, *small), "writing other objects")
        problems = remove_objects(self.cluster.access, created, self._run)
        if not problems and self._journal is not None:
            self._journal.note_removed(created)

    def layers(self) -> tuple[Layer, ...]:
        facts = {**self._facts, "admin_socket": str(self.cluster.sockets)}
        return image_layers(self._pool, self._image, LIBRBD, facts)

    def _read_facts(self) -> None:
        """Read the cluster's description of the image; a failure will show in the prefill."""
        with suppress(LeadlineError):
            spec = f"{self._pool}/{self._image}"
            info = self._rbd("reading the image", "info", "--format", "json", spec)
            self._facts = parse_image_info(info)

    def allocated_bytes(self) -> int | None:
        return self._allocated

    def _remove(self, created: Created) -> tuple[str, ...]:
        return remove_image(self.cluster.access, created, self._run)

    def _rbd(self, what: str, *arguments: str) -> str:
        return ask(self.cluster.access, "rbd", arguments, what, _WALK_S)


def client_settings(
    url: TargetUrl, here: str, where: Sequence[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Settings of the client that override the cluster's configuration; `here` is its CRUSH
    location, if a lab knows it. Raises LeadlineError(`target-invalid`)."""
    # The client's cache would serve I/O instead of the cluster; direct I/O on a mapped image has
    # no cache either.
    settings = {"rbd_cache": "false"}
    policy = url.options.get("read_policy", "default")
    if policy != "default":
        settings["rbd_read_from_replica_policy"] = policy
    if policy == "localize":
        given = url.options.get("crush_location", "").replace(":", "=").replace("|", ",")
        if not (given or here):
            raise LeadlineError(
                errors.TARGET_INVALID,
                "read_policy=localize needs the location of this client",
                context=where,
                hint="add &crush_location=zone:NAME (TYPE:NAME, more of them with |)",
            )
        settings["crush_location"] = given or here
    return tuple(settings.items())


def remove_image(access: CephAccess, created: Created, run: str) -> tuple[str, ...]:
    """Remove an image `rbd:POOL/IMAGE` with the run's mark, or without any mark and any data;
    sentences about what failed."""
    spec = created.path.removeprefix("rbd:")
    try:
        reason = _keep_reason(access, spec, owner_mark(run, created.token))
        if reason is None:
            return ()
        if reason:
            return (f"{created.path} {reason}; it was kept: `rbd rm {spec}` if it is yours",)
        _remove(access, spec)
    except LeadlineError as error:
        reason = "; ".join([error.fact, *error.context[-1:]])
        return (f"{created.path} could not be removed: {reason}",)
    return ()


def _keep_reason(access: CephAccess, spec: str, mark: str) -> str | None:
    """Return why an image may not be removed; empty if it may, None where it is gone. Raises
    LeadlineError."""
    pool, _, image = spec.partition("/")
    images = ask(access, "rbd", ("ls", "--format", "json", pool), "listing images")
    if image not in json.loads(images):
        return None
    words = ("image-meta", "ls", "--format", "json", spec)
    labels = json.loads(ask(access, "rbd", words, "reading its labels") or "{}")
    if OWNER_KEY in labels:
        return "" if labels[OWNER_KEY] == mark else "carries the mark of another owner"
    # A session that is killed between making an image and labelling it has written nothing to it.
    measured = ask(access, "rbd", ("du", "--format", "json", spec), "measuring the image", _WALK_S)
    usage = json.loads(measured)
    used = sum(int(row["used_size"]) for row in usage["images"])
    return "carries no mark of this run, and holds data" if used or labels else ""


def _remove(access: CephAccess, spec: str) -> None:
    """Run `rbd rm`; retry while a killed client counts as a watcher of the image, and after ESTALE,
    which was seen once after `kill -9` on a slow disk."""
    end = time.monotonic() + _WATCHED_S
    while True:
        try:
            ask(access, "rbd", ("rm", "--no-progress", spec), "removing an image", _WALK_S)
        except LeadlineError as error:
            in_use = ("watchers", f"({errno.ESTALE})")
            used = any(word in line for line in error.context for word in in_use)
            if not used or time.monotonic() > end:
                raise
            time.sleep(2.0)
        else:
            return


FILESYSTEMS = frozenset({"ceph", "fuse.ceph", "fuse.ceph-fuse"})


class CephfsTarget(CephTarget, DirectoryTarget):
    """`cephfs:/mounted/path`, or `cephfs:FOLDER` on the mount of a lab."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        DirectoryTarget.__init__(self, target)
        CephTarget.__init__(self, target, cluster)
        self._named = target.parsed.location

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        self.cluster.refuse_unfit()
        if not self._named.startswith("/"):
            self.parent = self._lab_mount() / self._named
        self._refuse_other_filesystems([f"target {self.name!r}"])
        DirectoryTarget.inspect(self, footprint, prefill=prefill, claimed_bytes=claimed_bytes)

    def _lab_mount(self) -> Path:
        lab = self.cluster.lab
        if lab is None or lab.cephfs is None:
            raise LeadlineError(
                errors.NOT_CEPHFS,
                f"the cluster {self.cluster.name!r} has no CephFS mount for {self._named!r}",
                context=[f"target {self.name!r}"],
                hint="name the mounted path: cephfs:/mounted/path",
            )
        return lab.cephfs

    def _refuse_other_filesystems(self, where: list[str]) -> None:
        self._inspected(where)
        mount = mount_of(self.parent)
        found = mount.filesystem if mount else ""
        if found not in FILESYSTEMS:
            at = f" (mounted at {mount.mount_point})" if mount else ""
            raise LeadlineError(
                errors.NOT_CEPHFS,
                f"{str(self.parent)!r} is on {found or 'an unknown filesystem'}{at}, not on CephFS",
                context=where,
                hint="mount the filesystem (mount -t ceph, or ceph-fuse) and run again; "
                f"to measure the present one: dir:{self.parent}",
            )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self.cluster.use_journal(journal)
        DirectoryTarget.acquire(self, footprint, run, journal)

    def _read_layers(self) -> tuple[Layer, ...]:
        """The mount, and the pool of the folder's data where its layout names it."""
        mount = super()._read_layers()
        pool = self._file_system.attribute(self.parent, "ceph.dir.layout.pool")
        return (*mount, Layer(kind=LayerKind.POOL, name=pool)) if mount and pool else mount

    def release(self) -> tuple[str, ...]:
        left = self.cluster.restore()
        # The mount of a lab that is being destroyed may not answer.
        return left if self.cluster.temporary else (*left, *DirectoryTarget.release(self))

    def present(self) -> bool:
        if not DirectoryTarget.present(self):
            return False
        mount = mount_of(self.parent)
        return mount is not None and mount.filesystem in FILESYSTEMS
