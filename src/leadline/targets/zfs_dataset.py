"""Datasets of Leadline's own in ZFS pools, here and on other hosts: checks, creation, removal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.archive.records import Created
from leadline.connect import programs
from leadline.connect.shell import Shell
from leadline.errors import LeadlineError
from leadline.plan.target_url import VOLUME_BLOCK
from leadline.runner.ports import Dataset, Receiver
from leadline.targets.base import KEEP_FREE_SHARE, require_free
from leadline.targets.file_system import OWNER_FILE, FileSystem
from leadline.targets.naming import owner_mark
from leadline.units import format_size

# This property marks what Leadline made; nothing without the mark is destroyed.
OWNER = "leadline:owner"
# In the journal of a run: `zfs:NAME`.
SCHEME = "zfs:"
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


def destroy(name: str, run: str, token: str, shell: Shell | None = None) -> tuple[str, ...]:
    """Destroy a dataset with the run's mark, its snapshots, children and mount point, here or in
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
            # A dataset is made with its mark in one step.
            if owner != owner_mark(run, token) or not name.endswith(f"-{token}"):
                whose = "the mark of another owner" if owner else "no mark of this run"
                by_hand = f"`zfs destroy -r {name}` if it is yours"
                return (f"zfs:{name}{there} carries {whose}; it was kept: {by_hand}",)
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
    return created.path.removeprefix(SCHEME)


def remove_dataset(created: Created, run: str) -> tuple[str, ...]:
    """Remove the dataset or volume `zfs:NAME` of a journal; sentences about what failed."""
    return destroy(dataset_name(created), run, created.token)


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
