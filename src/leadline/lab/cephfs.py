"""The mount of a lab's CephFS, and mounts below a lab's folder in general."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from leadline.lab.conf import CLIENT, Paths
from leadline.lab.pools import FILESYSTEM
from leadline.plan.lab_description import LabDescription

NAME = "ceph-fuse"
FSTYPE = "fuse.ceph-fuse"
_UNMOUNT_S = 10.0


def mount_command(paths: Paths) -> list[str]:
    """ceph-fuse in the foreground. Its own exit would leave a dead mount, so it is watched."""
    return [
        *("ceph-fuse", "-f", "-c", str(paths.conf), "--id", CLIENT.partition(".")[2]),
        *("--client_fs", FILESYSTEM, "--client_mountpoint", "/"),
        *("--log-file", str(paths.log(NAME)), "--admin-socket", str(paths.socket(NAME))),
        str(paths.cephfs),
    ]


def lay_out(paths: Paths, description: LabDescription) -> None:
    """A directory for each data pool, whose files go to that pool. Raises OSError."""
    for pool in description.pools:
        if pool.in_filesystem:
            folder = paths.cephfs / pool.value
            folder.mkdir(exist_ok=True)
            os.setxattr(folder, "ceph.dir.layout.pool", pool.value.encode())


def mounts_below(folder: Path) -> list[tuple[Path, str]]:
    """Mount points in `folder` with their types, the innermost first. Asks the kernel and nothing
    else: a mount whose server is dead would make us wait."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda one: chr(int(one[1], 8)), before.split()[4]))
        if point.is_relative_to(folder):
            found.append((point, after.split()[0]))
    return found[::-1]


def is_mounted(point: Path) -> bool:
    return any(where == point and kind == FSTYPE for where, kind in mounts_below(point))


def unmount_all(folder: Path) -> None:
    """Detach whatever is mounted in `folder`, at once and whoever uses it. What cannot be detached
    stays; `mounts_below` tells."""
    for point, _ in mounts_below(folder):
        if os.geteuid() == 0:
            command = ["umount", "--lazy", "--no-canonicalize", str(point)]
        else:
            program = shutil.which("fusermount3") or "fusermount"
            command = [program, "-u", "-z", str(point)]
        try:
            subprocess.run(command, capture_output=True, timeout=_UNMOUNT_S)
        except (OSError, subprocess.TimeoutExpired):
            continue
