"""The target `zfs:`: a new dataset in an existing pool of ZFS."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop, Created
from leadline.connect import programs
from leadline.connect.shell import Shell
from leadline.connect.ssh import SshShell
from leadline.engines.zfs_stream import try_route
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.target_url import VOLUME_BLOCK, ReceiveOn, split_host
from leadline.probes.stacks import layers_of_path
from leadline.probes.zfs import zfs_dumps
from leadline.runner.ports import Dataset, Journal, Receiver
from leadline.targets.base import KEEP_FREE_SHARE, LocalTarget, require_free
from leadline.targets.file_system import OWNER_FILE, FileSystem
from leadline.units import format_size

# This property marks what Leadline made; nothing without the mark is destroyed.
OWNER = "leadline:owner"
_SETTLED = "leadline:settled"
# The parent of the mount points, each named by a token: owned by root, and cleared at a reboot.
MOUNTS = Path("/run")
_BUSY_S = 30.0
_DESTROYED_WITHIN_S = 600.0
_LARGEST_EVERYWHERE = 128 << 10
_FEATURE_OF = {"lz4": "lz4_compress", "zstd": "zstd_compress"}
# Values that ZFS reports under another name.
_ALSO = {"gzip-6": "gzip", "gzip": "gzip-6", "zstd-fast-1": "zstd-fast", "zstd-fast": "zstd-fast-1"}
_LARGEST_RECORD = Path("/sys/module/zfs/parameters/zfs_max_recordsize")


def mount_folder(token: str) -> Path:
    """The mount point of a token."""
    return MOUNTS / f"leadline-{token}"


def name_in(parent: str, run: str, token: str) -> str:
    """The name of a new dataset, `PARENT/leadline-RUN-TOKEN`.

    A long run name is cut: a dataset's name, with snapshots and children, has 255 characters.
    """
    word = re.sub(r"[^A-Za-z0-9_.:-]", "-", run)[:48]
    return f"{parent}/leadline-{word}-{token}"


def require_known(
    wanted: Mapping[str, str], pool: str, where: list[str], shell: Shell | None = None
) -> None:
    """Raise LeadlineError(`target-unsuitable`) for a property or value that this ZFS or this pool
    does not support, here or in the `shell` of another host."""
    known = programs.properties(pool, shell)
    features = programs.pool_properties(pool, shell)
    release = (
        f"the pool has version {features.get('version', '-')}" if not _modern(features) else ""
    )
    faults = [
        f"it has no property {name!r}"
        for name in wanted
        if name not in known and name != VOLUME_BLOCK  # only volumes have it
    ]
    faults += _compression_faults(wanted.get("compression", "off"), features)
    record = wanted.get("recordsize") or wanted.get(VOLUME_BLOCK) or "0"
    faults += _record_faults(int(record), features, module=shell is None)
    if faults:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the pool {pool!r}{_there(shell)} does not support the target's options: "
            + "; ".join(faults),
            context=[*where, *([release] if release else [])],
            hint="leave it out, or use a pool of a newer ZFS; `zpool upgrade` shows what a pool "
            "can support",
        )


def require_known_here(wanted: Mapping[str, str], where: list[str]) -> None:
    """As `require_known`, for a future pool; only zfs-fuse can be checked before."""
    if not programs.is_zfs_fuse():
        return
    faults = ["it has no property 'sync'"] if "sync" in wanted else []
    faults += ["it has no special vdevs"] if "special" in wanted else []
    faults += _compression_faults(wanted.get("compression", "off"), {})
    faults += _record_faults(int(wanted.get("recordsize", "0")), {})
    if faults:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"zfs-fuse does not support the target's options: {'; '.join(faults)}",
            context=where,
            hint="leave it out, or use a machine whose kernel has ZFS",
        )


def _modern(features: Mapping[str, str]) -> bool:
    """Whether the pool has feature flags instead of a version."""
    return any(name.startswith("feature@") for name in features)


def _has(feature: str, features: Mapping[str, str]) -> bool:
    return features.get(f"feature@{feature}", "") in ("enabled", "active")


def _compression_faults(wanted: str, features: Mapping[str, str]) -> list[str]:
    needed = _FEATURE_OF.get(wanted.partition("-")[0])
    return [f"it cannot do compression={wanted}"] if needed and not _has(needed, features) else []


def _record_faults(wanted: int, features: Mapping[str, str], *, module: bool = True) -> list[str]:
    """Faults of a record size; `module`: the parameters of this machine's module count."""
    if wanted <= _LARGEST_EVERYWHERE:
        return []
    if not _has("large_blocks", features):
        return [f"its records have {format_size(_LARGEST_EVERYWHERE)} at most"]
    with suppress(OSError, ValueError):
        most = int(_LARGEST_RECORD.read_text())
        if module and wanted > most:
            return [f"the module's zfs_max_recordsize allows {format_size(most)} at most"]
    return []


def create(
    name: str,
    owner: str,
    properties: Mapping[str, str],
    *options: str,
    shell: Shell | None = None,
) -> None:
    """Create a dataset, or the volume that `options` describe, with the mark of its owner. Raises
    as `programs.ask`."""
    set_ = {
        **properties,
        OWNER: owner,
        # Automatic snapshots would keep the data that trials overwrite.
        "com.sun:auto-snapshot": "false",
    }
    words = [word for key, value in set_.items() for word in ("-o", f"{key}={value}")]
    programs.ask("making a dataset", "zfs", "create", *options, *words, name, shell=shell)


def require_set(name: str, wanted: Mapping[str, str], shell: Shell | None = None) -> None:
    """Read properties back. Raises LeadlineError(`target-unsuitable`) for another value."""
    found = programs.properties(name, shell)
    other = [
        f"{key} is {found.get(key, 'unknown')} instead of {value}"
        for key, value in wanted.items()
        if found.get(key) not in (value, _ALSO.get(value))
    ]
    if other:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the dataset {name}{_there(shell)} has other properties: {'; '.join(other)}",
        )


def settle(name: str) -> None:
    """Wait until all earlier writes are in the pool.

    A change of a property is a transaction after all earlier ones. Every release supports it,
    unlike `zpool sync`.
    """
    programs.ask(
        "waiting for the pool", "zfs", "set", f"{_SETTLED}={time.time_ns()}", name,
        bound_s=_DESTROYED_WITHIN_S,
    )  # fmt: skip


class OwnDataset:
    """One dataset, from `make` to `destroy`."""

    def __init__(
        self,
        *,
        name: str,
        path: Path,
        owner: str,
        wanted: Mapping[str, str],
        receiver: Receiver | None = None,
    ) -> None:
        """`path` is the mount point, `owner` the mark `RUN TOKEN`, `wanted` properties to set,
        `receiver` where another host receives its streams."""
        self.location = Dataset(name=name, path=path, receiver=receiver)
        self._owner = owner
        self._wanted = wanted
        # The daemon of zfs-fuse, or the image below a pool, may not answer.
        self._file_system = FileSystem()

    @property
    def name(self) -> str:
        return self.location.name

    def make(self) -> None:
        """Make and mount it, and read its properties back. Raises LeadlineError:
        `target-unsuitable`, `target-read-only`, and those of connect.programs."""
        path = self.location.path
        try:
            path.mkdir(mode=0o755)
            create(self.name, self._owner, {**self._wanted, "mountpoint": str(path)})
            if not path.is_mount():
                raise LeadlineError(
                    errors.TARGET_READ_ONLY, f"the dataset {self.name} was made and not mounted"
                )
            (path / OWNER_FILE).write_text(f"{self._owner}\n", encoding="utf-8")
        except OSError as error:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the dataset {self.name} cannot be used at {str(path)!r}: {error.strerror}",
            ) from error
        require_set(self.name, self._wanted)

    def present(self) -> bool:
        """Whether it is mounted with its mark. Raises OSError."""
        found = self._file_system.look(self.location.path)
        return found is not None and found.is_mount

    def allocated_bytes(self) -> int:
        """Allocated bytes of its files. Raises OSError."""
        found = self._file_system.look(self.location.path)
        return sum(found.files.values()) if found else 0

    def settle(self) -> None:
        """Wait until all writes are in the pool; only then do files report allocated blocks."""
        settle(self.name)


def destroy(name: str, token: str, shell: Shell | None = None) -> tuple[str, ...]:
    """Destroy a dataset with the run's token, its snapshots, children and mount point, here or in
    the `shell` of another host.

    Returns sentences about what failed.
    """
    pool, there = name.partition("/")[0], _there(shell)
    try:
        if pool not in programs.pools(shell):
            where = there or " here"
            return (f"zfs:{name} could not be removed: the pool {pool} is not imported{where}",)
        if programs.exists(name, shell):
            owner = programs.local_property(OWNER, name, shell)
            if not (owner.endswith(token) and name.endswith(f"-{token}")):
                return (f"zfs:{name}{there} carries the mark of another owner and was kept",)
            _destroy(name, shell)
        return remove_mount_folder(token) if shell is None else ()
    except LeadlineError as error:
        return (f"zfs:{name}{there} could not be removed: {removal_error(error)}",)


def _destroy(name: str, shell: Shell | None) -> None:
    """Destroy a dataset; retry while it is busy with a reception or an open file."""
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            programs.ask(
                "removing a dataset", "zfs", "destroy", "-r", name,
                bound_s=_DESTROYED_WITHIN_S, shell=shell,
            )  # fmt: skip
        except LeadlineError as error:
            if not programs.exists(name, shell):
                return
            busy = any("busy" in line for line in error.context)
            if not busy or time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            return


def _there(shell: Shell | None) -> str:
    return f" on the {shell.name}" if shell else ""


def removal_error(error: LeadlineError) -> str:
    """Why a dataset could not be destroyed, in one line with the remedy."""
    reason = "; ".join(line.strip() for line in error.context)
    if error.kind is errors.ZPOOL_UNFIT:
        return f"{error.fact}; {error.hint}"
    if "dependent clones" in reason:
        clones = [line.strip() for line in error.context[2:]]
        return (
            f"it has clones that Leadline did not make ({', '.join(clones) or 'unnamed'}): "
            "`zfs promote` them, or destroy them"
        )
    return "; ".join(filter(None, [error.fact, reason]))


def remove_mount_folder(token: str) -> tuple[str, ...]:
    """Remove the empty mount point of a token; sentences about what failed."""
    path = mount_folder(token)
    try:
        path.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        return (f"{path} could not be removed: {error.strerror}",)
    return ()


def dataset_name(created: Created) -> str:
    """The name of the dataset or volume in an entry `zfs:NAME` of a journal."""
    return created.path.removeprefix("zfs:")


def remove_dataset(created: Created) -> tuple[str, ...]:
    """Remove the dataset or volume `zfs:NAME` of a journal; sentences about what failed."""
    return destroy(dataset_name(created), created.token)


# A mirror or RAID with a lost disk still works, with another performance.
_FIT = ("ONLINE", "DEGRADED")


def refuse_suspended_pool(pool: str, where: Sequence[str] = ()) -> None:
    """Raise LeadlineError(`zpool-unfit`) for a suspended pool."""
    if programs.is_suspended(pool):
        raise programs.suspended_error(pool, where)


def require_fit(
    pool: str, where: list[str], note: Callable[[str], None], shell: Shell | None = None
) -> None:
    """Raise LeadlineError for a missing or read-only pool; `note` gets that one lacks a disk."""
    if shell is None:
        refuse_suspended_pool(pool, where)
    there, imported = _there(shell), programs.pools(shell)
    if pool not in imported:
        raise LeadlineError(
            errors.TARGET_INVALID,
            f"there is no pool {pool!r} of ZFS{there}",
            context=[*where, f"imported pools: {', '.join(imported) or 'none'}"],
            hint="`zpool import` lists pools that can be imported",
        )
    found = programs.pool_properties(pool, shell)
    health = found.get("health", "")
    if health not in _FIT:
        raise LeadlineError(
            errors.ZPOOL_UNFIT,
            f"the pool {pool!r}{there} is {health or 'in an unknown state'}",
            context=where,
            hint=f"`zpool status {pool}` shows the reason; after a repair "
            f"`zpool clear {pool}` resumes it",
        )
    if found.get("readonly") == "on":
        raise LeadlineError(
            errors.ZPOOL_UNFIT,
            f"the pool {pool!r}{there} is imported read-only",
            context=where,
            hint="export it and import it without readonly=on",
        )
    if health != "ONLINE":
        note(
            f"the pool {pool}{there} is {health}: it lacks a disk, and performs otherwise than a "
            "complete pool"
        )


def require_parent(parent: str, where: list[str], shell: Shell | None = None) -> Mapping[str, str]:
    """The properties of a dataset in which others can be made. Raises LeadlineError."""
    there = _there(shell)
    if not programs.exists(parent, shell):
        raise LeadlineError(
            errors.TARGET_INVALID,
            f"there is no dataset {parent!r}{there}",
            context=where,
            hint=f"`zfs list -r {programs.pool_of(parent)}` lists those of the pool",
        )
    found = programs.properties(parent, shell)
    if found.get("type") != "filesystem":
        raise LeadlineError(
            errors.TARGET_INVALID,
            f"{parent!r}{there} is a ZFS {found.get('type', 'object')} and not a file system",
            context=where,
            hint="for a volume of yours write device:/dev/zvol/...; `zvol:` makes a new one",
        )
    if found.get("keystatus") == "unavailable":
        raise LeadlineError(
            errors.TARGET_READ_ONLY,
            f"the dataset {parent!r}{there} is encrypted and its key is not loaded",
            context=where,
            hint=f"`zfs load-key {parent}`",
        )
    if found.get("readonly") == "on":
        raise LeadlineError(
            errors.TARGET_READ_ONLY,
            f"the dataset {parent!r}{there} is read-only",
            context=where,
            hint="the dataset that Leadline makes in it would be read-only too",
        )
    return found


def require_free_in(
    parent: str,
    needed_bytes: int,
    claimed_bytes: int,
    where: list[str],
    *,
    reason: str,
    shell: Shell | None = None,
) -> None:
    """Check what the dataset's quotas leave, without a tenth of the pool. Raises
    LeadlineError(`target-no-space`)."""
    pool = programs.properties(programs.pool_of(parent), shell)
    require_free(
        f"{parent!r}{_there(shell)}",
        free_bytes=int(programs.properties(parent, shell)["available"]),
        needed_bytes=needed_bytes,
        keep_bytes=int((int(pool["used"]) + int(pool["available"])) * KEEP_FREE_SHARE),
        claimed_bytes=claimed_bytes,
        context=where,
        reason=reason,
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
        self._version = ""
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
        token = secrets.token_hex(8)
        name = name_in(self._wanted.dataset, run, token)
        path = f"{FAR}{self._wanted.host}:{name}"
        self._created = Created(target=self._target, path=path, token=token)
        self._journal = journal
        journal.note_created(self._created)
        properties = {
            **self._properties,
            "mountpoint": str(mount_folder(token)),
            "canmount": "off",
        }
        create(name, f"{run} {token}", properties, shell=self._shell)
        require_set(name, self._properties, self._shell)
        return self._receiver(name)

    def release(self) -> tuple[str, ...]:
        problems: tuple[str, ...] = ()
        if self._created is not None:
            problems = _remove_far(self._created, self._shell)
            if not problems and self._journal is not None:
                self._journal.note_removed(self._created)
                self._created = None
        self._shell.close()
        return problems


def remove_far_dataset(created: Created) -> tuple[str, ...]:
    """Remove what a killed session left on another host; sentences about what failed."""
    try:
        host, _ = split_host(created.path.removeprefix(FAR))
    except ValueError:
        return (f"{created.path} names no host and was kept",)
    shell = SshShell(host)
    try:
        return _remove_far(created, shell)
    finally:
        shell.close()


def _remove_far(created: Created, shell: SshShell) -> tuple[str, ...]:
    _, name = split_host(created.path.removeprefix(FAR))
    try:
        shell.run(_END_RECEIVERS, name, bound_s=_REACHED_S)
        if problems := destroy(name, created.token, shell):
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
        self._noted = ""
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
        token = secrets.token_hex(8)
        name = name_in(self._parent, run, token)
        self._created = Created(target=self.name, path=f"zfs:{name}", token=token)
        self._journal = journal
        journal.note_created(self._created)
        return self._created

    def release(self) -> tuple[str, ...]:
        if self._created is None:
            return ()
        problems = remove_dataset(self._created)
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
            owner=f"{run} {created.token}",
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
