"""A dataset of our own in a pool of ZFS that the user has."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop, Created
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.stacks import layers_of_path
from leadline.probes.zfs import zfs_dumps
from leadline.runner.ports import Dataset, Journal
from leadline.targets.local import OWNER_FILE, OnThisMachine
from leadline.units import format_size

# Datasets of ZFS that are our own: made in a pool with what a target asks for, read back, and
# destroyed, which nothing is that does not bear our mark.

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
    known = programs.properties(pool)
    features = programs.pool_properties(pool)
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
    if not programs.is_zfs_fuse():
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
            programs.ask("making a dataset", "zfs", "create", *options, self.name)
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
        found = programs.properties(self.name)
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
        programs.ask(
            "waiting for the pool", "zfs", "set", f"{_SETTLED}={time.time_ns()}", self.name,
            bound_s=_DESTROYED_WITHIN_S,
        )  # fmt: skip


def destroy(name: str, token: str) -> tuple[str, ...]:
    """Destroy a dataset that carries our token, with its snapshots and what was received in it;
    what could not be done as sentences. The folder where it was mounted goes as well."""
    pool = name.partition("/")[0]
    try:
        if pool not in programs.pools():
            return (f"zfs:{name} could not be looked for: the pool {pool} is not imported here",)
        if programs.exists(name):
            owner = programs.local_property(OWNER, name)
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


KEEP_FREE_SHARE = 0.10
# A mirror or RAID with a lost disk still works, if not as it otherwise would.
_FIT = ("ONLINE", "DEGRADED")


class InDataset:
    """What all targets in a dataset of our own have in common."""

    _dataset: OwnDataset | None = None

    @property
    def location(self) -> Dataset:
        assert self._dataset is not None, "acquire comes first"
        return self._dataset.location

    def present(self) -> bool:
        """Raises LeadlineError(`zpool-unfit`) for a suspended pool: a look at its files would
        wait for ever."""
        if self._dataset is None:
            return False
        pool = programs.pool_of(self._dataset.name)
        if programs.is_suspended(pool):
            raise programs.suspended_error(pool)
        return self._dataset.present()

    def drop_caches(self) -> CacheDrop | None:
        """ZFS keeps what was read or written in a cache of its own (ARC), of which nobody outside
        can tell what of it is ours; `primarycache=metadata` keeps data out of it."""
        return None

    def allocated_bytes(self) -> int | None:
        files = (path for path in self.location.path.iterdir() if path.is_file())
        return sum(path.stat().st_blocks * 512 for path in files)

    def dumps(self) -> Mapping[str, bytes]:
        return zfs_dumps(self.location.name)

    def filesystem(self) -> str:
        return "zfs"

    def note_files(self) -> None:
        return  # all that lies in the dataset goes with it


class ZfsTarget(InDataset, OnThisMachine):
    """`zfs:POOL[/DATASET]?recordsize=...`."""

    def __init__(self, target: Target, note: Callable[[str], None] = lambda sentence: None) -> None:
        self.name = target.name
        self._parent = target.parsed.location
        self._pool = target.parsed.pool
        self._wanted = target.parsed.dataset_properties
        self._note = note
        self._noted = ""
        self._created: Created | None = None
        self._journal: Journal | None = None
        self._layers: tuple[Layer, ...] = ()

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
                f"{self._parent!r} is a {found.get('type', 'thing')} of ZFS and no file system",
                context=where,
                hint="for a volume write device:/dev/zvol/...",
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
                hint="Leadline makes a dataset of its own in it, which would be read-only too",
            )
        if os.geteuid() != 0:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                "only root can make a dataset and mount it",
                context=where,
                hint=f"run Leadline as root, or measure a folder of the dataset: "
                f"dir:{found.get('mountpoint', '/path')}",
            )
        self._require_room(footprint, claimed_bytes, int(found.get("copies", "1")), where)

    def _refuse_unfit(self, where: list[str]) -> None:
        """A pool that is not there, or takes no writes; one that lacks a disk is told of."""
        if programs.is_suspended(self._pool):
            raise programs.suspended_error(self._pool, where)
        there = programs.pools()
        if self._pool not in there:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"there is no pool {self._pool!r} of ZFS",
                context=[*where, f"pools that are imported: {', '.join(there) or 'none'}"],
                hint="`zpool import` lists pools that could be imported",
            )
        found = programs.pool_properties(self._pool)
        health = found.get("health", "")
        if health not in _FIT:
            raise LeadlineError(
                errors.ZPOOL_UNFIT,
                f"the pool {self._pool!r} is {health or 'in an unknown state'}",
                context=where,
                hint=f"`zpool status {self._pool}` says why; behind a repair "
                f"`zpool clear {self._pool}` lets it go on",
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
                f"{self.name}: the pool {self._pool} is {health}: it lacks a disk, and is slower, "
                "or faster, than it is whole"
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

    def _require_room(
        self, footprint: Footprint, claimed_bytes: int, copies: int, where: list[str]
    ) -> None:
        """What the dataset's quotas leave, and a tenth of the pool on top."""
        whole = programs.properties(self._pool)
        keep = int((int(whole["used"]) + int(whole["available"])) * KEEP_FREE_SHARE)
        free = int(programs.properties(self._parent)["available"])
        needed = footprint.capacity_bytes * copies
        if free - needed - claimed_bytes < keep:
            beside = ", with room to receive a copy" if footprint.streams else ""
            others = f"; other targets there need {format_size(claimed_bytes)}"
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"{self._parent!r} has {format_size(free)} free; the plan needs "
                f"{format_size(needed)}{beside} and leaves {format_size(keep)} (10 %)"
                + (others if claimed_bytes else ""),
                context=where,
                hint="make the plan smaller with --size, or make room",
            )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        token = secrets.token_hex(8)
        name = name_in(self._parent, run, token)
        self._created = Created(target=self.name, path=f"zfs:{name}", token=token)
        self._journal = journal
        journal.note_created(self._created)
        self._dataset = OwnDataset(
            name=name, path=mount_folder(token), owner=f"{run} {token}", wanted=self._wanted
        )
        self._dataset.make()
        self._layers = layers_of_path(self._dataset.location.path)

    def layers(self) -> tuple[Layer, ...]:
        return self._layers

    def settle(self, written_at_s: float) -> None:
        assert self._dataset is not None, "acquire comes first"
        self._dataset.settle()

    def release(self) -> tuple[str, ...]:
        if self._created is None:
            return ()
        problems = remove_dataset(self._created)
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = None
        return problems


# Daemons that were started for a stand: found by their command lines, which name its folder, and
# ended by their pids.

_END_S = 15.0


def found(program: str, folder: Path) -> tuple[int, ...]:
    """Pids of a program's processes whose command line names something below `folder`."""
    below = os.fsencode(folder) + b"/"
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        named = Path(os.fsdecode(words[0])).name == program
        if named and any(word.startswith(below) for word in words[1:]):
            pids.append(int(entry.name))
    return tuple(pids)


def end(program: str, folder: Path, *, by: signal.Signals = signal.SIGTERM) -> bool:
    """Ask the processes to end, and wait; whether they did."""
    for pid in found(program, folder):
        with suppress(ProcessLookupError):
            os.kill(pid, by)
    return gone(program, folder)


def gone(program: str, folder: Path, within_s: float = _END_S) -> bool:
    """Wait until there are none; whether that is so."""
    until = time.monotonic() + within_s
    while pids := found(program, folder):
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


# A ZFS that runs: the kernel's, or zfs-fuse, which is started where none answers and stopped
# afterwards, if it was we who started it and nobody else has a pool in it.

PROGRAM = "zfs-fuse"
# What zfs-fuse imports all of when it starts.
_CACHE = Path("/etc/zfs/zpool.cache")
# Its cache in MiB, so that it does not take half of the memory; how long the kernel may hold what
# it was told of names and sizes, without which every operation asks for them again.
_SETTINGS = ("-m", "256", "-a", "1", "-e", "1", "--no-kstat-mount")
_STARTED_WITHIN_S = 30.0
_AGAIN_S = 5.0


def answers() -> bool:
    """Whether a ZFS runs here. Raises LeadlineError(`zfs-failed`)."""
    try:
        programs.pools()
    except LeadlineError as error:
        if error.kind is errors.ZFS_MISSING:
            return False
        raise
    return True


def require_possible(where: list[str]) -> None:
    """Raises LeadlineError(`zfs-missing`) where no ZFS runs and none could be started."""
    for program in ("zpool", "zfs"):
        if programs.find(program) is None:
            raise LeadlineError(
                errors.ZFS_MISSING,
                f"there is no {program!r} on this machine",
                context=where,
                hint=f"install {programs.GET_ZFS}",
            )
    if not programs.is_zfs_fuse() or answers():
        return
    if _CACHE.exists():
        raise LeadlineError(
            errors.ZFS_MISSING,
            "zfs-fuse does not run, and would import pools of yours if it were started for this",
            context=[*where, f"it imports what {_CACHE} lists"],
            hint="start it yourself (`zfs-fuse`), if nobody else uses those pools",
        )


def ensure(pid_file: Path) -> None:
    """Make sure that a ZFS answers. `pid_file` lies in the folder by which the daemon is found
    again. Raises LeadlineError: `zfs-missing`, `zfs-failed`."""
    if answers():
        return
    if not programs.is_zfs_fuse():
        _load_module()
        return
    require_possible([])
    end = time.monotonic() + _STARTED_WITHIN_S
    due = 0.0
    while not answers():
        if time.monotonic() > end:
            raise LeadlineError(
                errors.ZFS_MISSING,
                f"zfs-fuse does not answer within {_STARTED_WITHIN_S:g} s of its start",
                hint="`zfs-fuse --no-daemon` shows why",
            )
        if time.monotonic() > due:
            # Again and again: one that is just ending keeps the next from starting.
            _start(pid_file)
            due = time.monotonic() + _AGAIN_S
        time.sleep(0.1)


def _start(pid_file: Path) -> None:
    """It goes into the background by itself."""
    path = programs.find(PROGRAM)
    assert path is not None
    try:
        subprocess.run(
            [path, "-p", str(pid_file), *_SETTINGS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            timeout=_STARTED_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeadlineError(errors.ZFS_MISSING, f"{path!r} cannot be started: {error}") from error


def _load_module() -> None:
    modprobe = programs.find("modprobe")
    if modprobe is not None:
        programs.run(modprobe, "zfs", bound_s=60.0)
    programs.pools()


def ours(folder: Path) -> bool:
    """Whether a daemon runs that was started with a pid file in `folder`."""
    return bool(found(PROGRAM, folder))


def stop(folder: Path, own_pool: str) -> tuple[str, ...]:
    """Stop the daemon that was started with a pid file in `folder`, if there is one; `own_pool`
    may go with it. Why it was not stopped as sentences."""
    if not ours(folder):
        return ()
    try:
        others = [pool for pool in programs.pools() if pool != own_pool]
    except LeadlineError:
        others = []  # it does not answer, and so serves nobody
    if others:
        return (f"zfs-fuse, which was started for this, goes on for the pools {', '.join(others)}",)
    if not end(PROGRAM, folder) and not end(PROGRAM, folder, by=signal.SIGKILL):
        return ("zfs-fuse, which was started for this, does not end",)
    return ()
