"""Datasets of ZFS that are our own: made in a pool with what a target asks for, read back, and
destroyed, which nothing is that does not bear our mark."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from leadline import errors, zfs_programs
from leadline.archive.records import Created
from leadline.errors import LeadlineError
from leadline.runner.ports import Dataset
from leadline.targets.directory import OWNER_FILE
from leadline.units import format_size

OWNER = "leadline:owner"
_SETTLED = "leadline:settled"
# Leadline's folders for mounts lie here, each named by a token: root's own, and gone at a reboot.
MOUNTS = Path("/run")
_BUSY_S = 30.0
_DESTROYED_WITHIN_S = 600.0
_LARGEST_EVERYWHERE = 128 << 10
_FEATURE_OF = {"lz4": "lz4_compress", "zstd": "zstd_compress"}
# What reads back by another name.
_ALSO = {"gzip-6": "gzip", "gzip": "gzip-6", "zstd-fast-1": "zstd-fast", "zstd-fast": "zstd-fast-1"}
_LARGEST_RECORD = Path("/sys/module/zfs/parameters/zfs_max_recordsize")


def mount_folder(token: str) -> Path:
    """Where what a token names is mounted."""
    return MOUNTS / f"leadline-{token}"


def name_in(parent: str, run: str, token: str) -> str:
    """The name of a dataset of ours: `PARENT/leadline-RUN-TOKEN`, of a long run's name only the
    first part, since a dataset's name with all that stands behind it has 255 characters."""
    word = re.sub(r"[^A-Za-z0-9_.:-]", "-", run)[:48]
    return f"{parent}/leadline-{word}-{token}"


def require_known(wanted: Mapping[str, str], pool: str, where: list[str]) -> None:
    """Raises LeadlineError(`target-unsuitable`) for a property, or a value, that this ZFS or this
    pool does not have, and those of zfs_programs."""
    known = zfs_programs.properties(pool)
    features = zfs_programs.pool_properties(pool)
    release = (
        f"the pool has version {features.get('version', '-')}" if not _modern(features) else ""
    )
    faults = [f"it has no property {name!r}" for name in wanted if name not in known]
    faults += _compression_faults(wanted.get("compression", "off"), features)
    faults += _record_faults(int(wanted.get("recordsize", "0")), features)
    if faults:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the pool {pool!r} does not take what the target asks for: {'; '.join(faults)}",
            context=[*where, *([release] if release else [])],
            hint="leave it out, or use a pool of a newer ZFS; `zpool upgrade` shows what a pool "
            "could get",
        )


def require_known_here(wanted: Mapping[str, str], where: list[str]) -> None:
    """As `require_known`, of a pool that is still to be made. What only the kernel's module could
    tell is left to it."""
    if not zfs_programs.in_user_space():
        return
    faults = ["it has no property 'sync'"] if "sync" in wanted else []
    faults += _compression_faults(wanted.get("compression", "off"), {})
    faults += _record_faults(int(wanted.get("recordsize", "0")), {})
    if faults:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"zfs-fuse does not have what the target asks for: {'; '.join(faults)}",
            context=where,
            hint="leave it out, or use a machine whose kernel has ZFS",
        )


def _modern(features: Mapping[str, str]) -> bool:
    """Whether the pool has feature flags in place of a version."""
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


class OwnDataset:
    """One dataset, from `make` to `destroy`."""

    def __init__(self, *, name: str, path: Path, owner: str, wanted: Mapping[str, str]) -> None:
        """`path` is where it is to be mounted, `owner` what marks it as ours: `RUN TOKEN`;
        `wanted` are the properties to be set."""
        self.location = Dataset(name=name, path=path)
        self._owner = owner
        self._wanted = wanted

    @property
    def name(self) -> str:
        return self.location.name

    def make(self) -> None:
        """Make and mount it, and read back that it is what was asked for. Raises LeadlineError:
        those of zfs_programs, `target-unsuitable`, `target-read-only`."""
        path = self.location.path
        set_ = {
            **self._wanted,
            OWNER: self._owner,
            "mountpoint": str(path),
            # Snapshots that others take would keep what trials overwrite.
            "com.sun:auto-snapshot": "false",
        }
        options = [word for key, value in set_.items() for word in ("-o", f"{key}={value}")]
        try:
            path.mkdir(mode=0o755)
            zfs_programs.ask("making a dataset", "zfs", "create", *options, self.name)
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
        self._require_as_asked()

    def _require_as_asked(self) -> None:
        found = zfs_programs.properties(self.name)
        other = [
            f"{key} is {found.get(key, 'unknown')}, asked was {value}"
            for key, value in self._wanted.items()
            if found.get(key) not in (value, _ALSO.get(value))
        ]
        if other:
            raise LeadlineError(
                errors.TARGET_UNSUITABLE,
                f"the dataset {self.name} is not as asked: {'; '.join(other)}",
            )

    def present(self) -> bool:
        path = self.location.path
        return path.is_mount() and (path / OWNER_FILE).is_file()

    def settle(self) -> None:
        """Wait until all that was written is in the pool: what a file holds counts as allocated
        only then. Any change of a property is a transaction of its own, behind all earlier ones;
        unlike `zpool sync` every release knows it."""
        zfs_programs.ask(
            "waiting for the pool", "zfs", "set", f"{_SETTLED}={time.time_ns()}", self.name,
            bound_s=_DESTROYED_WITHIN_S,
        )  # fmt: skip


def destroy(name: str, token: str) -> tuple[str, ...]:
    """Destroy a dataset that carries our token, with its snapshots and what was received in it;
    what could not be done as sentences. The folder where it was mounted goes as well."""
    pool = name.partition("/")[0]
    try:
        if pool not in zfs_programs.pools():
            return (f"zfs:{name} could not be looked for: the pool {pool} is not imported here",)
        if zfs_programs.exists(name):
            owner = zfs_programs.own_property(OWNER, name)
            if not (owner.endswith(token) and name.endswith(f"-{token}")):
                return (f"zfs:{name} carries another owner's mark and was left alone",)
            _destroy(name)
        return remove_mount_folder(token)
    except LeadlineError as error:
        return (f"zfs:{name} could not be removed: {why_it_stays(error)}",)


def _destroy(name: str) -> None:
    """As long as it is busy: what was received a moment ago, or is still being closed."""
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            zfs_programs.ask(
                "removing a dataset", "zfs", "destroy", "-r", name, bound_s=_DESTROYED_WITHIN_S
            )
        except LeadlineError as error:
            if not zfs_programs.exists(name):
                return
            busy = any("busy" in line for line in error.context)
            if not busy or time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            return


def why_it_stays(error: LeadlineError) -> str:
    """One sentence of why a dataset stays, with what frees it."""
    said = "; ".join(line.strip() for line in error.context)
    if error.kind is errors.ZPOOL_UNFIT:
        return f"{error.fact}; {error.hint}"
    if "dependent clones" in said:
        clones = [line.strip() for line in error.context[2:]]
        return (
            f"it has clones that are not ours ({', '.join(clones) or 'unnamed'}): "
            "`zfs promote` them, or destroy them"
        )
    return "; ".join(filter(None, [error.fact, said]))


def remove_mount_folder(token: str) -> tuple[str, ...]:
    """Remove the empty folder where something was mounted; what could not be done as sentences."""
    path = mount_folder(token)
    try:
        path.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        return (f"{path} could not be removed: {error.strerror}",)
    return ()


def remove_dataset(created: Created) -> tuple[str, ...]:
    """Remove the dataset `zfs:NAME` that a killed session left; what could not be done as
    sentences."""
    return destroy(created.path.removeprefix("zfs:"), created.token)
