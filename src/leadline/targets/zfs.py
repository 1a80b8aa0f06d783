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
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.target_url import VOLUME_BLOCK
from leadline.probes.stacks import layers_of_path
from leadline.probes.zfs import zfs_dumps
from leadline.runner.ports import Dataset, Journal
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


def require_known(wanted: Mapping[str, str], pool: str, where: list[str]) -> None:
    """Raise LeadlineError(`target-unsuitable`) for a property or value that this ZFS or this pool
    does not support."""
    known = programs.properties(pool)
    features = programs.pool_properties(pool)
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
    faults += _record_faults(int(record), features)
    if faults:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the pool {pool!r} does not support the target's options: {'; '.join(faults)}",
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


def _record_faults(wanted: int, features: Mapping[str, str]) -> list[str]:
    if wanted <= _LARGEST_EVERYWHERE:
        return []
    if not _has("large_blocks", features):
        return [f"its records have {format_size(_LARGEST_EVERYWHERE)} at most"]
    with suppress(OSError, ValueError):
        most = int(_LARGEST_RECORD.read_text())
        if wanted > most:
            return [f"the module's zfs_max_recordsize allows {format_size(most)} at most"]
    return []


def create(name: str, owner: str, properties: Mapping[str, str], *options: str) -> None:
    """Create a dataset, or the volume that `options` describe, with the mark of its owner. Raises
    as `programs.ask`."""
    set_ = {
        **properties,
        OWNER: owner,
        # Automatic snapshots would keep the data that trials overwrite.
        "com.sun:auto-snapshot": "false",
    }
    words = [word for key, value in set_.items() for word in ("-o", f"{key}={value}")]
    programs.ask("making a dataset", "zfs", "create", *options, *words, name)


def require_set(name: str, wanted: Mapping[str, str]) -> None:
    """Read properties back. Raises LeadlineError(`target-unsuitable`) for another value."""
    found = programs.properties(name)
    other = [
        f"{key} is {found.get(key, 'unknown')} instead of {value}"
        for key, value in wanted.items()
        if found.get(key) not in (value, _ALSO.get(value))
    ]
    if other:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the dataset {name} has other properties: {'; '.join(other)}",
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

    def __init__(self, *, name: str, path: Path, owner: str, wanted: Mapping[str, str]) -> None:
        """`path` is the mount point, `owner` the mark `RUN TOKEN`, `wanted` properties to set."""
        self.location = Dataset(name=name, path=path)
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


def destroy(name: str, token: str) -> tuple[str, ...]:
    """Destroy a dataset with the run's token, its snapshots, children and mount point.

    Returns sentences about what failed.
    """
    pool = name.partition("/")[0]
    try:
        if pool not in programs.pools():
            return (f"zfs:{name} could not be removed: the pool {pool} is not imported here",)
        if programs.exists(name):
            owner = programs.local_property(OWNER, name)
            if not (owner.endswith(token) and name.endswith(f"-{token}")):
                return (f"zfs:{name} carries the mark of another owner and was kept",)
            _destroy(name)
        return remove_mount_folder(token)
    except LeadlineError as error:
        return (f"zfs:{name} could not be removed: {removal_error(error)}",)


def _destroy(name: str) -> None:
    """Destroy a dataset; retry while it is busy with a reception or an open file."""
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            programs.ask(
                "removing a dataset", "zfs", "destroy", "-r", name, bound_s=_DESTROYED_WITHIN_S
            )
        except LeadlineError as error:
            if not programs.exists(name):
                return
            busy = any("busy" in line for line in error.context)
            if not busy or time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            return


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


class InPool(LocalTarget):
    """A target that is made in an existing pool, and destroyed by its mark."""

    def __init__(self, target: Target, note: Callable[[str], None] = lambda sentence: None) -> None:
        self.name = target.name
        self._parent = target.parsed.location
        self._pool = target.parsed.pool
        self._wanted = target.parsed.dataset_properties
        self._note = note
        self._noted = ""
        self._created: Created | None = None
        self._journal: Journal | None = None

    def volume(self) -> object:
        return ("zfs", self._pool)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        self._refuse_unfit(where)
        require_known(self._wanted, self._pool, where)
        found = self._parent_properties(where)
        if found.get("type") != "filesystem":
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"{self._parent!r} is a ZFS {found.get('type', 'object')} and not a file system",
                context=where,
                hint="for a volume of yours write device:/dev/zvol/...; `zvol:` makes a new one",
            )
        if found.get("keystatus") == "unavailable":
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the dataset {self._parent!r} is encrypted and its key is not loaded",
                context=where,
                hint=f"`zfs load-key {self._parent}`",
            )
        if found.get("readonly") == "on":
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the dataset {self._parent!r} is read-only",
                context=where,
                hint="the dataset that Leadline makes in it would be read-only too",
            )
        if os.geteuid() != 0:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                "only root can make a dataset and mount it",
                context=where,
                hint=f"run Leadline as root, or measure a folder of the dataset: "
                f"dir:{found.get('mountpoint', '/path')}",
            )
        self._require_free(footprint, claimed_bytes, int(found.get("copies", "1")), where)

    def _needed_bytes(self, footprint: Footprint) -> int:
        return footprint.capacity_bytes

    def _refuse_unfit(self, where: list[str]) -> None:
        """Raise LeadlineError for a missing or read-only pool; report one that lacks a disk."""
        refuse_suspended_pool(self._pool, where)
        imported = programs.pools()
        if self._pool not in imported:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"there is no pool {self._pool!r} of ZFS",
                context=[*where, f"imported pools: {', '.join(imported) or 'none'}"],
                hint="`zpool import` lists pools that can be imported",
            )
        found = programs.pool_properties(self._pool)
        health = found.get("health", "")
        if health not in _FIT:
            raise LeadlineError(
                errors.ZPOOL_UNFIT,
                f"the pool {self._pool!r} is {health or 'in an unknown state'}",
                context=where,
                hint=f"`zpool status {self._pool}` shows the reason; after a repair "
                f"`zpool clear {self._pool}` resumes it",
            )
        if found.get("readonly") == "on":
            raise LeadlineError(
                errors.ZPOOL_UNFIT,
                f"the pool {self._pool!r} is imported read-only",
                context=where,
                hint="export it and import it without readonly=on",
            )
        if health != "ONLINE" and health != self._noted:
            self._noted = health
            self._note(
                f"{self.name}: the pool {self._pool} is {health}: it lacks a disk, and performs "
                "otherwise than a complete pool"
            )

    def _parent_properties(self, where: list[str]) -> dict[str, str]:
        if not programs.exists(self._parent):
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"there is no dataset {self._parent!r}",
                context=where,
                hint=f"`zfs list -r {self._pool}` lists those of the pool",
            )
        return dict(programs.properties(self._parent))

    def _require_free(
        self, footprint: Footprint, claimed_bytes: int, copies: int, where: list[str]
    ) -> None:
        """Check what the dataset's quotas leave, without a tenth of the pool."""
        pool = programs.properties(self._pool)
        require_free(
            repr(self._parent),
            free_bytes=int(programs.properties(self._parent)["available"]),
            needed_bytes=self._needed_bytes(footprint) * copies,
            keep_bytes=int((int(pool["used"]) + int(pool["available"])) * KEEP_FREE_SHARE),
            claimed_bytes=claimed_bytes,
            context=where,
            reason=" with a received copy" if footprint.streams else "",
        )

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
    """`zfs:POOL[/DATASET]?recordsize=...`."""

    _layers: tuple[Layer, ...] = ()

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        created = self._note_created(run, journal)
        self._dataset = OwnDataset(
            name=dataset_name(created),
            path=mount_folder(created.token),
            owner=f"{run} {created.token}",
            wanted=self._wanted,
        )
        self._dataset.make()
        self._layers = layers_of_path(self._dataset.location.path)

    def layers(self) -> tuple[Layer, ...]:
        return self._layers

    def settle(self, written_at_s: float) -> None:
        assert self._dataset is not None, "acquire comes first"
        self._dataset.settle()
