"""Programs for the administrator (losetup, rbd, zpool): where they lie; asked within a bound."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError

# Where util-linux and ZFS lie, and which a user's path may lack.
_SEARCHED = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
# What a shell says of a program that it cannot begin.
_NOT_BEGUN = 127
# How often it is asked whether there is an answer to be had.
_LOOK_S = 5.0


def find(program: str) -> str | None:
    """Path of a program."""
    return shutil.which(program, path=_SEARCHED)


def run(
    *command: str,
    bound_s: float,
    cwd: str | None = None,
    should_abort: Callable[[], bool] = lambda: False,
) -> tuple[int | None, str, str]:
    """Exit status (None: no answer in time; 127: it cannot be started), stdout and stderr of a
    command. `should_abort` is asked now and then while it runs: True ends the wait.

    What waits for a suspended pool or a dead cluster waits in the kernel and cannot be killed, so
    that it is not waited for either.
    """
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Names are bytes to the kernel and UTF-8 to people, whatever this process's locale.
            encoding="utf-8",
            errors="replace",
            cwd=cwd,
            env=os.environ | {"LC_ALL": "C"},
        )
    except OSError as error:
        return _NOT_BEGUN, "", f"{command[0]!r} cannot be run: {error.strerror}"
    end = time.monotonic() + bound_s
    while True:
        try:
            out, err = child.communicate(timeout=max(0.0, min(_LOOK_S, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() < end and not should_abort():
                continue
            child.kill()
            with suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=1.0)
            return None, "", ""
        return child.returncode, out, err


# What the programs of ZFS answer, and why they do not.

GET_ZFS = (
    "Debian: zfsutils-linux with the kernel's module (zfs-dkms), or zfs-fuse, which runs without it"
)
_ANSWER_S = 60.0
_KSTATS = Path("/proc/spl/kstat/zfs")
# What they say where no ZFS runs: OpenZFS without its module, zfs-fuse without its daemon.
_SILENT = ("failed to initialize", "modules are not loaded", "modules cannot be", "connect:")


def is_zfs_fuse() -> bool:
    """Whether the programs here are those of zfs-fuse: the kernel has no ZFS and its daemon is
    installed."""
    return not Path("/dev/zfs").exists() and find("zfs-fuse") is not None


def suspended_pools() -> tuple[str, ...]:
    """Pools whose I/O the kernel's module has suspended. It is read from files, which wait for
    nothing, as the programs may. OpenZFS has them since 0.8; zfs-fuse has none."""
    found = []
    for file in sorted(_KSTATS.glob("*/state")):
        with suppress(OSError):  # exported in between
            if file.read_text("utf-8", "replace").strip() == "SUSPENDED":
                found.append(file.parent.name)
    return tuple(found)


def is_suspended(pool: str) -> bool:
    """Whether the kernel's module has suspended a pool's I/O; asks no program."""
    return pool in suspended_pools()


def suspended_error(pool: str, context: Sequence[str] = ()) -> LeadlineError:
    """What there is to say of such a pool."""
    return LeadlineError(
        errors.ZPOOL_UNFIT,
        f"the pool {pool!r} is SUSPENDED: its disks failed, and all of its I/O waits",
        context=context,
        hint=f"`zpool status {pool}` says why; when its disks are back, `zpool clear {pool}` "
        "lets it go on",
    )


def ask(what: str, program: str, *arguments: str, bound_s: float = _ANSWER_S) -> str:
    """stdout of `zfs` or `zpool`; what it is asked of stands last. Raises LeadlineError:
    `zfs-missing`, `zfs-failed`, and `zpool-unfit` where the pool is suspended."""
    path = find(program)
    if path is None:
        raise LeadlineError(
            errors.ZFS_MISSING,
            f"there is no {program!r} on this machine",
            hint=f"install {GET_ZFS}",
        )
    pool = pool_of(arguments[-1])
    status, out, err = run(
        path, *arguments, bound_s=bound_s, should_abort=lambda: is_suspended(pool)
    )
    if status != 0 and is_suspended(pool):
        raise suspended_error(pool, [what])
    if status is None:
        raise LeadlineError(
            errors.ZFS_FAILED,
            f"{what}: {program} gives no answer within {bound_s:g} s",
            hint="a pool that is suspended answers nothing: look at `zpool status`",
        )
    said = [line for line in err.splitlines() if line.strip()]
    if status and any(word in err for word in _SILENT):
        raise LeadlineError(
            errors.ZFS_MISSING,
            "the programs of ZFS are here, but no ZFS runs",
            context=said[:2],
            hint="load the kernel's module (`modprobe zfs`), or start the daemon: `zfs-fuse`; "
            "both want root",
        )
    if status:
        # Behind the first lines comes how the program is used.
        told = said[: next((at for at, line in enumerate(said) if line.startswith("usage:")), 3)]
        raise LeadlineError(
            errors.ZFS_FAILED, f"{what}: {program} ended with status {status}", context=told[:3]
        )
    return out


def pool_of(name: str) -> str:
    """The pool of a dataset, of a snapshot, or itself."""
    return name.partition("/")[0].partition("@")[0]


def properties(dataset: str) -> Mapping[str, str]:
    """All properties of a dataset that this ZFS knows, sizes in bytes. Raises as `ask`."""
    return _pairs(
        ask(
            "looking at a dataset", "zfs",
            "get", "-Hp", "-o", "property,value", "all", dataset,
        )
    )  # fmt: skip


def local_property(name: str, dataset: str) -> str:
    """The value that a user property was given on the dataset itself; empty where it has none, or
    inherits one. Raises as `ask`."""
    answer = ask(
        "looking at a dataset", "zfs", "get", "-Hp", "-o", "value,source", name, dataset
    ).strip()
    value, _, source = answer.partition("\t")
    return value if source == "local" else ""


def pool_properties(pool: str) -> Mapping[str, str]:
    """All properties of a pool, features among them; `zpool get` of old releases knows no -H.
    Raises as `ask`."""
    found = {}
    for line in ask("looking at a pool", "zpool", "get", "all", pool).splitlines()[1:]:
        words = line.split()
        if len(words) >= 4 and words[0] == pool:
            found[words[1]] = " ".join(words[2:-1])
    return found


def exists(dataset: str) -> bool:
    """Raises as `ask`."""
    try:
        ask("looking for a dataset", "zfs", "list", "-H", "-o", "name", dataset)
    except LeadlineError as error:
        if any("does not exist" in line for line in error.context):
            return False
        raise
    return True


def pools() -> tuple[str, ...]:
    """Names of the pools that are imported. Raises as `ask`."""
    listed = ask("listing pools", "zpool", "list", "-H", "-o", "name").splitlines()
    # zfs-fuse says "no pools available" on stdout.
    return tuple(line.strip() for line in listed if line.strip() and " " not in line.strip())


def _pairs(text: str) -> Mapping[str, str]:
    rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) >= 2}
