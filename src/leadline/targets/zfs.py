"""The target `zfs:`: a new dataset in an existing pool of ZFS."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from leadline import errors
from leadline.archive.records import CacheDrop, Created
from leadline.connect import programs
from leadline.connect.ssh import SshShell
from leadline.engines.zfs_stream import try_route
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.target_url import ReceiveOn, split_host
from leadline.probes.stacks import layers_of_path
from leadline.probes.zfs import zfs_dumps
from leadline.runner.ports import Dataset, Journal, Receiver
from leadline.targets.base import LocalTarget
from leadline.targets.naming import new_token, owner_mark
from leadline.targets.zfs_dataset import (
    SCHEME,
    OwnDataset,
    create,
    dataset_name,
    destroy,
    mount_folder,
    name_in,
    refuse_suspended_pool,
    remove_dataset,
    require_fit,
    require_free_in,
    require_known,
    require_parent,
    require_set,
)


class InDataset:
    """A target in a dataset that the run made."""

    _dataset: OwnDataset | None = None

    @property
    def location(self) -> Dataset:
        assert self._dataset is not None, "acquire comes first"
        return self._dataset.location

    def present(self) -> bool:
        """Whether the dataset is there. Raises LeadlineError(`zpool-unfit`) for a suspended pool,
        whose files block for ever."""
        if self._dataset is None:
            return False
        refuse_suspended_pool(programs.pool_of(self._dataset.name))
        return self._dataset.present()

    def drop_caches(self) -> CacheDrop | None:
        # ZFS has its own cache (ARC) and does not report whose data is in it;
        # `primarycache=metadata` keeps data out.
        return None

    def allocated_bytes(self) -> int | None:
        return self._dataset.allocated_bytes() if self._dataset else None

    def dumps(self) -> Mapping[str, bytes]:
        return zfs_dumps(self.location.name)

    def filesystem(self) -> str:
        return "zfs"

    def note_files(self) -> None:
        return  # the dataset is destroyed with all its files


# The entry of a journal for a dataset on another host: `receive_on:HOST:DATASET`.
FAR = "receive_on:"
_FAR_S = 60.0
# A lost host is not waited for at length: `clean` can be repeated.
_REACHED_S = 20.0
# Ends the programs that still receive below the dataset $1, with the pipe in front of them.
_END_RECEIVERS = """\
for file in $(grep -ls -- "$1/[r]eceived" /proc/[0-9]*/cmdline); do
    pid=${file#/proc/}
    kill -KILL "${pid%/cmdline}"
done
exit 0
"""
_REMOVE_FOLDER = '[ ! -d "$1" ] || rmdir "$1"/received* 2>/dev/null; [ ! -d "$1" ] || rmdir "$1"'


class FarDataset:
    """The dataset on another host in which the streams of a target are received."""

    def __init__(self, wanted: ReceiveOn, properties: Mapping[str, str], target: str) -> None:
        """`properties` are to be set, as on the dataset that is sent."""
        self._wanted = wanted
        self._properties = properties
        self._target = target
        self._shell = SshShell(wanted.host)
        self._version = self._run = ""
        self._created: Created | None = None
        self._journal: Journal | None = None

    def inspect(self, footprint: Footprint, note: Callable[[str], None]) -> None:
        """Raise LeadlineError for the first reason that forbids its use; nothing is made."""
        where, shell, parent = [f"target {self._target!r}"], self._shell, self._wanted.dataset
        if shell.run("id -u", bound_s=_FAR_S).text != "0":
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"only root can receive a dataset and mount it on the {shell.name}",
                context=where,
                hint=f"name that user: receive_on=root@{self._wanted.host.rpartition('@')[2]}:"
                f"{parent}",
            )
        require_fit(programs.pool_of(parent), where, note, shell)
        require_known(self._properties, programs.pool_of(parent), where, shell)
        found = require_parent(parent, where, shell)
        require_free_in(
            parent,
            footprint.total_bytes * int(found.get("copies", "1")),
            0,
            where,
            reason=" for what it receives",
            shell=shell,
        )
        with suppress(LeadlineError):  # zfs-fuse and old releases have no such command
            self._version = programs.ask("asking for the version", "zfs", "version", shell=shell)
        try_route(self._receiver(parent))

    def _receiver(self, dataset: str) -> Receiver:
        version, *_ = [*self._version.splitlines(), ""]
        return Receiver(
            wanted=self._wanted, dataset=dataset, shell=self._shell, version=version.strip()
        )

    def make(self, run: str, journal: Journal) -> Receiver:
        """Make the dataset, which is not mounted, unlike those received in it."""
        token = new_token()
        name = name_in(self._wanted.dataset, run, token)
        path = far_path(self._wanted, run, token)
        self._run = run
        self._created = Created(target=self._target, path=path, token=token)
        self._journal = journal
        journal.note_created(self._created)
        properties = {
            **self._properties,
            "mountpoint": str(mount_folder(token)),
            "canmount": "off",
        }
        create(name, owner_mark(run, token), properties, shell=self._shell)
        require_set(name, self._properties, self._shell)
        return self._receiver(name)

    def release(self) -> tuple[str, ...]:
        problems: tuple[str, ...] = ()
        if self._created is not None:
            problems = _remove_far(self._created, self._run, self._shell)
            if not problems and self._journal is not None:
                self._journal.note_removed(self._created)
                self._created = None
        self._shell.close()
        return problems


def far_path(wanted: ReceiveOn, run: str, token: str) -> str:
    """Return the entry of the journal for a dataset on another host."""
    return f"{FAR}{wanted.host}:{name_in(wanted.dataset, run, token)}"


def remove_far_dataset(created: Created, run: str) -> tuple[str, ...]:
    """Remove what a killed session left on another host; sentences about what failed."""
    host, _ = split_host(created.path.removeprefix(FAR))
    shell = SshShell(host)
    try:
        return _remove_far(created, run, shell)
    finally:
        shell.close()


def _remove_far(created: Created, run: str, shell: SshShell) -> tuple[str, ...]:
    _, name = split_host(created.path.removeprefix(FAR))
    try:
        shell.run(_END_RECEIVERS, name, bound_s=_REACHED_S)
        if problems := destroy(name, run, created.token, shell):
            return problems
        folder = str(mount_folder(created.token))
        result = shell.run(_REMOVE_FOLDER, folder, bound_s=_FAR_S)
    except LeadlineError as error:
        return (f"{created.path} could not be removed: {error.fact}",)
    return (f"{folder} on the {shell.name}: {result.error_line}",) if result.status else ()


class InPool(LocalTarget):
    """A target that is made in an existing pool, and destroyed by its mark."""

    def __init__(self, target: Target, note: Callable[[str], None] = lambda sentence: None) -> None:
        self.name = target.name
        self._parent = target.parsed.location
        self._pool = target.parsed.pool
        self._wanted = target.parsed.dataset_properties
        self._receive_on = target.parsed.receive_on
        self._note = note
        self._noted = self._run = ""
        self._created: Created | None = None
        self._journal: Journal | None = None

    def volume(self) -> object:
        return ("zfs", self._pool)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        require_fit(self._pool, where, self._note_once)
        require_known(self._wanted, self._pool, where)
        found = require_parent(self._parent, where)
        if os.geteuid() != 0:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                "only root can make a dataset and mount it",
                context=where,
                hint=f"run Leadline as root, or measure a folder of the dataset: "
                f"dir:{found.get('mountpoint', '/path')}",
            )
        require_free_in(
            self._parent,
            self._needed_bytes(footprint) * int(found.get("copies", "1")),
            claimed_bytes,
            where,
            reason=" with a received copy" if self._receives(footprint) else "",
        )

    def _note_once(self, sentence: str) -> None:
        if sentence != self._noted:
            self._noted = sentence
            self._note(f"{self.name}: {sentence}")

    def _receives(self, footprint: Footprint) -> bool:
        """Whether streams are received in this pool."""
        return footprint.streams

    def _needed_bytes(self, footprint: Footprint) -> int:
        return footprint.capacity_bytes

    def _note_created(self, run: str, journal: Journal) -> Created:
        """Record a new dataset in the journal, before it is made."""
        token = new_token()
        name = name_in(self._parent, run, token)
        self._run = run
        self._created = Created(target=self.name, path=f"{SCHEME}{name}", token=token)
        self._journal = journal
        journal.note_created(self._created)
        return self._created

    def release(self) -> tuple[str, ...]:
        if self._created is None:
            return ()
        problems = remove_dataset(self._created, self._run)
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = None
        return problems


class ZfsTarget(InDataset, InPool):
    """`zfs:POOL[/DATASET]?recordsize=...&receive_on=HOST:POOL`."""

    _layers: tuple[Layer, ...] = ()
    _far: FarDataset | None = None

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)
        if self._receive_on is not None:
            self._far = self._far or FarDataset(self._receive_on, self._wanted, self.name)
            self._far.inspect(footprint, self._note_once)

    def _receives(self, footprint: Footprint) -> bool:
        return footprint.streams and self._receive_on is None

    def _needed_bytes(self, footprint: Footprint) -> int:
        return footprint.capacity_bytes if self._receive_on is None else footprint.sent_bytes

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        created = self._note_created(run, journal)
        self._dataset = OwnDataset(
            name=dataset_name(created),
            path=mount_folder(created.token),
            owner=owner_mark(run, created.token),
            wanted=self._wanted,
            receiver=self._far.make(run, journal) if self._far else None,
        )
        self._dataset.make()
        self._layers = layers_of_path(self._dataset.location.path)

    def release(self) -> tuple[str, ...]:
        return (*(self._far.release() if self._far else ()), *super().release())

    def layers(self) -> tuple[Layer, ...]:
        return self._layers

    def settle(self, written_at_s: float) -> None:
        assert self._dataset is not None, "acquire comes first"
        self._dataset.settle()
