"""Administration programs (losetup, rbd, zfs, zpool): their paths, and calls with a time limit."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.connect.shell import Shell
from leadline.environment import CEPH, child_environment
from leadline.errors import LeadlineError

# The folders of util-linux and ZFS, which a user's path may lack.
_SEARCHED = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
# The status of a shell for a program that cannot be started.
_NOT_BEGUN = 127
# The period of `should_abort`.
_CHECK_S = 5.0


def find(program: str) -> str | None:
    return shutil.which(program, path=_SEARCHED)


def run(
    *command: str,
    bound_s: float,
    cwd: str | None = None,
    should_abort: Callable[[], bool] = lambda: False,
    variables: Sequence[str] = CEPH,
    stdin: int = subprocess.DEVNULL,
) -> tuple[int | None, str, str]:
    """Return the exit status (None: no answer in time; 127: it cannot be started), stdout and
    stderr of a command, which gets these environment `variables` and the descriptor `stdin`.
    `should_abort` is called regularly while it runs: True ends the wait.

    A program that waits in the kernel for a suspended pool or a dead cluster cannot be killed. It
    is left behind.
    """
    try:
        child = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Names are UTF-8, whatever this process's locale.
            encoding="utf-8",
            errors="replace",
            cwd=cwd,
            env=child_environment(*variables, LC_ALL="C"),
        )
    except OSError as error:
        return _NOT_BEGUN, "", f"{command[0]!r} cannot be run: {error.strerror}"
    end = time.monotonic() + bound_s
    while True:
        try:
            out, err = child.communicate(timeout=max(0.0, min(_CHECK_S, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() < end and not should_abort():
                continue
            child.kill()
            with suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=1.0)
            return None, "", ""
        except BaseException:  # an interrupt leaves no program behind
            child.kill()
            raise
        return child.returncode, out, err


GET_ZFS = (
    "Debian: zfsutils-linux with the kernel's module (zfs-dkms), or zfs-fuse, which runs without it"
)
_ANSWER_S = 60.0
_KSTATS = Path("/proc/spl/kstat/zfs")
# Messages without a running ZFS: OpenZFS without its module, zfs-fuse without its daemon.
_NOT_RUNNING = ("failed to initialize", "modules are not loaded", "modules cannot be", "connect:")


def is_zfs_fuse() -> bool:
    """Return whether ZFS here is zfs-fuse: the kernel has no ZFS and the daemon is installed."""
    return not Path("/dev/zfs").exists() and find("zfs-fuse") is not None


def suspended_pools() -> tuple[str, ...]:
    """Return the pools with suspended I/O, from the kernel's files: programs could block. OpenZFS
    has the files since 0.8; zfs-fuse has none."""
    found = []
    for file in sorted(_KSTATS.glob("*/state")):
        with suppress(OSError):  # exported meanwhile
            if file.read_text("utf-8", "replace").strip() == "SUSPENDED":
                found.append(file.parent.name)
    return tuple(found)


def is_suspended(pool: str) -> bool:
    return pool in suspended_pools()


def suspended_error(pool: str, context: Sequence[str] = ()) -> LeadlineError:
    return LeadlineError(
        errors.ZPOOL_UNFIT,
        f"the pool {pool!r} is SUSPENDED: its disks failed, and all of its I/O waits",
        context=context,
        hint=f"`zpool status {pool}` shows the cause; when its disks are back, "
        f"`zpool clear {pool}` resumes it",
    )


# Runs a program of administration in a shell whose path may lack its folder.
WITH_PATH = 'PATH=$PATH:/usr/sbin:/sbin LC_ALL=C; export PATH LC_ALL; exec "$@"'


def ask(
    what: str,
    program: str,
    *arguments: str,
    bound_s: float = _ANSWER_S,
    shell: Shell | None = None,
) -> str:
    """Return the stdout of `zfs` or `zpool`, here or in the `shell` of another host; the dataset or
    pool is the last argument. Raises LeadlineError: `zfs-missing`, `zfs-failed`, `zpool-unfit` for
    a suspended pool here, and those of Shell.run."""
    pool = pool_of(arguments[-1])
    if shell is not None:
        result = shell.run(WITH_PATH, program, *arguments, bound_s=bound_s)
        status: int | None = result.status
        out, err = (part.decode("utf-8", "replace") for part in (result.stdout, result.stderr))
    elif path := find(program):
        status, out, err = run(
            path, *arguments, bound_s=bound_s, should_abort=lambda: is_suspended(pool)
        )
    else:
        status, out, err = _NOT_BEGUN, "", ""
    where = f"on the {shell.name}" if shell else "on this machine"
    if status == _NOT_BEGUN:
        raise LeadlineError(
            errors.ZFS_MISSING, f"there is no {program!r} {where}", hint=f"install {GET_ZFS}"
        )
    if status != 0 and shell is None and is_suspended(pool):
        raise suspended_error(pool, [what])
    if status is None:
        raise LeadlineError(
            errors.ZFS_FAILED,
            f"{what}: {program} gives no answer within {bound_s:g} s",
            hint="a suspended pool blocks: look at `zpool status`",
        )
    lines = [line for line in err.splitlines() if line.strip()]
    if status and any(word in err for word in _NOT_RUNNING):
        raise LeadlineError(
            errors.ZFS_MISSING,
            f"the ZFS programs are installed {where}, but no ZFS runs",
            context=lines[:2],
            hint="load the kernel's module (`modprobe zfs`), or start the daemon: `zfs-fuse`; "
            "both need root",
        )
    if status:
        # The usage text of the program follows the first lines.
        usage = next((at for at, line in enumerate(lines) if line.startswith("usage:")), 3)
        raise LeadlineError(
            errors.ZFS_FAILED,
            f"{what}{f' {where}' if shell else ''}: {program} ended with status {status}",
            context=lines[:usage][:3],
        )
    return out


def pool_of(name: str) -> str:
    """Return the pool of a dataset, a snapshot or a pool."""
    return name.partition("/")[0].partition("@")[0]


def properties(dataset: str, shell: Shell | None = None) -> Mapping[str, str]:
    """Return all properties of a dataset, sizes in bytes. Raises as `ask`."""
    arguments = ("get", "-Hp", "-o", "property,value", "all", dataset)
    lines = ask("looking at a dataset", "zfs", *arguments, shell=shell).splitlines()
    rows = (line.split("\t") for line in lines)
    return {row[0]: row[1] for row in rows if len(row) >= 2}


def local_property(name: str, dataset: str, shell: Shell | None = None) -> str:
    """Return a user property set on the dataset itself; empty where unset or inherited. Raises as
    `ask`."""
    arguments = ("get", "-Hp", "-o", "value,source", name, dataset)
    answer = ask("looking at a dataset", "zfs", *arguments, shell=shell)
    value, _, source = answer.strip().partition("\t")
    return value if source == "local" else ""


def pool_properties(pool: str, shell: Shell | None = None) -> Mapping[str, str]:
    """Return all properties of a pool with its features; `zpool get` of old releases has no -H.
    Raises as `ask`."""
    found = {}
    answer = ask("looking at a pool", "zpool", "get", "all", pool, shell=shell)
    for line in answer.splitlines()[1:]:
        words = line.split()
        if len(words) >= 4 and words[0] == pool:
            found[words[1]] = " ".join(words[2:-1])
    return found


def exists(dataset: str, shell: Shell | None = None, *, bound_s: float = _ANSWER_S) -> bool:
    """Return whether a dataset exists. Raises as `ask`."""
    arguments = ("list", "-H", "-o", "name", dataset)
    try:
        ask("looking for a dataset", "zfs", *arguments, bound_s=bound_s, shell=shell)
    except LeadlineError as error:
        if any("does not exist" in line for line in error.context):
            return False
        raise
    return True


def pools(shell: Shell | None = None) -> tuple[str, ...]:
    """Return the names of the imported pools. Raises as `ask`."""
    arguments = ("list", "-H", "-o", "name")
    listed = ask("listing pools", "zpool", *arguments, shell=shell).splitlines()
    # zfs-fuse writes "no pools available" to stdout.
    return tuple(line.strip() for line in listed if line.strip() and " " not in line.strip())
