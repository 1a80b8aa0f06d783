"""An RBD image: one that Leadline makes, labels and removes, or the user's own by consent."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from leadline import errors
from leadline.archive.records import Created, Layer
from leadline.ceph.access import CephAccess
from leadline.errors import LeadlineError
from leadline.inventory.ceph import PoolType
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.shared_layout import OBJECT_BYTES
from leadline.plan.target_url import TargetUrl
from leadline.probes.images import LIBRBD, facts_of_info, image_layers
from leadline.runner.ports import Journal, RbdImage
from leadline.targets.cluster import OpenCluster
from leadline.targets.on_cluster import InPool, ask
from leadline.targets.pools import (
    find_pool,
    require_application,
    require_overwrites,
    require_room,
)
from leadline.targets.rados import remove_objects
from leadline.units import format_size

OWNER_KEY = "leadline.owner"
# `layering` alone unless asked: with an exclusive lock several jobs of one trial would take it from
# each other at every write, and a client that was killed would hold it for a minute.
_FEATURES = {
    "layering": "layering",
    "virtualization": "layering,exclusive-lock,object-map,fast-diff,deep-flatten",
}
# A client that was killed counts as a watcher of its image for 30 s (osd_client_watch_timeout).
_WATCHED_S = 45.0
# For what walks over all objects of an image, of which a large one has hundreds of thousands.
_WALK_S = 1800.0


class RbdTarget(InPool):
    """`rbd:POOL[/IMAGE]`. `destroy` is what the user consented to lose, word for word."""

    def __init__(self, target: Target, cluster: OpenCluster, destroy: Sequence[str]) -> None:
        super().__init__(target, cluster)
        self._url = target.parsed
        self._may_write = f"rbd:{self._url.location}" in destroy
        self._data_pool = self._url.options.get("data_pool", "")
        self._features = self._url.options.get("features", "layering")
        self._image = self._url.image
        self._writes = True
        self._span = 0
        self._settings: tuple[tuple[str, str], ...] = ()
        self._access: CephAccess | None = None
        self._allocated: int | None = None
        self._facts: Mapping[str, str] = {}

    @property
    def location(self) -> RbdImage:
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
        self.cluster.refuse_unfit()
        self._choose_pools(where)
        metadata = find_pool(self.cluster, self._pool, where)
        require_application(metadata, "rbd", where)
        data = find_pool(self.cluster, self._data_pool or self._pool, where)
        require_overwrites(data, where)
        self._writes = footprint.writes or prefill
        if self._features == "virtualization" and len(footprint.files) > 1:
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
            require_room(self.cluster, data.name, footprint, claimed_bytes, where)

    def _choose_pools(self, where: list[str]) -> None:
        """A lab knows in which pool the metadata of images on its erasure-coded pool lies."""
        pool = find_pool(self.cluster, self._url.pool, where)
        if pool.type is not PoolType.ERASURE:
            return
        beside = self.cluster.lab.metadata_pool(pool.name) if self.cluster.lab else None
        if beside is None or self._url.image or "data_pool" in self._url.options:
            raise LeadlineError(
                errors.POOL_UNSUITABLE,
                f"the pool {pool.name!r} is erasure-coded and cannot hold an image's metadata",
                context=where,
                hint=f"name the replicated pool for that: rbd:POOL?data_pool={pool.name}",
            )
        self._pool, self._data_pool = beside, pool.name

    def _inspect_image(self, footprint: Footprint, where: list[str]) -> None:
        """The user's own image: there, large enough, and to be written only by consent."""
        spec = f"{self._pool}/{self._url.image}"
        try:
            told = self._rbd("looking at the image", "info", "--format", "json", spec)
        except LeadlineError as error:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"the image {spec!r} cannot be used",
                context=[*where, *error.context],
                hint=f"leave the image out (rbd:{self._pool}) for one that Leadline makes itself",
            ) from error
        if self._writes and not self._may_write:
            raise LeadlineError(
                errors.IMAGE_NOT_CONSENTED,
                f"the plan would destroy what is in the image {spec!r}",
                context=where,
                hint=f"if that is meant, say so: --destroy-data rbd:{spec}; or leave the image "
                f"out (rbd:{self._pool}) for one that Leadline makes and removes itself",
            )
        size = int(json.loads(told)["size"])
        if size < footprint.span:
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"the image {spec!r} has {format_size(size)}; "
                f"the plan spans {format_size(footprint.span)}",
                context=where,
                hint="make the plan smaller with --size",
            )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._access = self.cluster.client(dict(self._settings))
        self._span = footprint.span
        if self._url.image:
            self.cluster.keep(journal)
            self._look()
            return
        token = secrets.token_hex(8)
        image = f"leadline-{run}-{token}"
        self._note(f"rbd:{self._pool}/{image}", token, journal)
        objects = -(-footprint.span // OBJECT_BYTES)
        data = ("--data-pool", self._data_pool) if self._data_pool else ()
        features = (f"--image-feature={one}" for one in _FEATURES[self._features].split(","))
        spec = f"{self._pool}/{image}"
        size = f"{objects * OBJECT_BYTES}B"
        self._rbd("making an image", "create", "--size", size, *features, *data, spec)
        self._rbd("labelling an image", "image-meta", "set", spec, OWNER_KEY, f"{run} {token}")
        self._image = image
        self._look()

    def settle(self, written_at_s: float) -> None:
        spec = f"{self._pool}/{self._image}"
        self._allocated = self._held()
        if self._allocated < self._span:
            raise LeadlineError(
                errors.PREFILL_FAILED,
                f"the image {spec} holds {format_size(self._allocated)} of the "
                f"{format_size(self._span)} that were written",
                hint="reads of what it does not hold would be answered without I/O",
            )
        if "rbd_read_from_replica_policy" in dict(self._settings) and not self._data_pool:
            self._write_others()
        super().settle(written_at_s)

    def _held(self) -> int:
        """Bytes of the image that are allocated."""
        spec = f"{self._pool}/{self._image}"
        told = self._rbd("looking at what is written", "du", "--format", "json", spec)
        return int(json.loads(told)["images"][0]["used_size"])

    def _write_others(self) -> None:
        """Small objects into every placement group, and away again. A replica answers reads of an
        object only once a later write in its placement group has told it that the object's own
        last write is stable (can_serve_replica_read in Ceph's PGLog); behind a prefill there is
        none, and every localized read would go to the primary after all."""
        names = f"{self._image}-{secrets.token_hex(4)}"
        created = Created(
            target=self.name,
            cluster=self.cluster.name,
            path=f"rados:{self._pool}/{names}",
            token=names,
        )
        if self._journal is not None:
            self._journal.note_created(created)
        write = ("--pool", self._pool, "--namespace", names, "bench", "2", "write")
        small = ("-b", "4096", "-t", "16", "--no-cleanup")
        ask(self.cluster.access, "rados", (*write, *small), "writing other objects")
        problems = remove_objects(self.cluster.access, created)
        if not problems and self._journal is not None:
            self._journal.note_removed(created)

    def layers(self) -> tuple[Layer, ...]:
        told = {**self._facts, "admin_socket": str(self.cluster.sockets)}
        return image_layers(self._pool, self._image, LIBRBD, told)

    def _look(self) -> None:
        """Keep what the cluster tells of the image; that it does not answer shows soon enough."""
        with suppress(LeadlineError):
            spec = f"{self._pool}/{self._image}"
            told = self._rbd("looking at the image", "info", "--format", "json", spec)
            self._facts = facts_of_info(told)

    def allocated_bytes(self) -> int | None:
        return self._allocated

    def _remove(self, created: Created) -> tuple[str, ...]:
        return remove_image(self.cluster.access, created)

    def _rbd(self, what: str, *arguments: str) -> str:
        return ask(self.cluster.access, "rbd", arguments, what, _WALK_S)


def client_settings(
    url: TargetUrl, here: str, where: Sequence[str] = ()
) -> tuple[tuple[str, str], ...]:
    """What the client is told over the cluster's own configuration; `here` is its place in the
    CRUSH tree, where a lab knows it. Raises LeadlineError(`target-invalid`)."""
    # The client's cache would answer reads and take writes in the cluster's stead, as the page
    # cache does for files; direct I/O on a mapped image has none either.
    settings = {"rbd_cache": "false"}
    policy = url.options.get("read_policy", "default")
    if policy != "default":
        settings["rbd_read_from_replica_policy"] = policy
    if policy == "localize":
        given = url.options.get("crush_location", "").replace(":", "=").replace("|", ",")
        if not (given or here):
            raise LeadlineError(
                errors.TARGET_INVALID,
                "read_policy=localize needs to know where this client is",
                context=where,
                hint="add &crush_location=zone:NAME (TYPE:NAME, more of them with |)",
            )
        settings["crush_location"] = given or here
    return tuple(settings.items())


def remove_image(access: CephAccess, created: Created) -> tuple[str, ...]:
    """Remove an image that carries our token; what could not be done as sentences."""
    spec = created.path.removeprefix("rbd:")
    pool, _, image = spec.partition("/")
    try:
        there = ask(access, "rbd", ("ls", "--format", "json", pool), "listing images")
        if image not in json.loads(there):
            return ()
        label = ask(
            access, "rbd", ("image-meta", "ls", "--format", "json", spec), "reading its labels"
        )
        owner = str(json.loads(label or "{}").get(OWNER_KEY, ""))
        # Killed between making and labelling: its name holds the token that only we know.
        if not owner.endswith(created.token) and created.token not in image:
            return (f"{created.path} carries another owner's mark and was left alone",)
        _remove(access, spec)
    except LeadlineError as error:
        said = "; ".join([error.fact, *error.context[-1:]])
        return (f"{created.path} could not be removed: {said}",)
    return ()


def _remove(access: CephAccess, spec: str) -> None:
    """`rbd rm`, as long as a client that was killed counts as one that watches the image."""
    end = time.monotonic() + _WATCHED_S
    while True:
        try:
            ask(access, "rbd", ("rm", "--no-progress", spec), "removing an image", _WALK_S)
        except LeadlineError as error:
            watched = any("watchers" in line for line in error.context)
            if not watched or time.monotonic() > end:
                raise
            time.sleep(2.0)
        else:
            return
