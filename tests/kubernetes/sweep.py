"""Removes from the host what a cluster's namespaces do not take with them: cgroups, loop devices,
interface, folder. It runs after every cluster, also after one whose tests were killed, and at the
next start for what a `kill -9` of everything left; a cluster is known by its state file.

    python sweep.py STATE    sweeps the cluster of that state file, then removes the file
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_PATIENCE_S = 10.0
_LOOP_GET_STATUS64 = 0x4C05


def states() -> Path:
    """The folder of state files, one a cluster."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "leadline" / "kubernetes" / "clusters"


def started(pid: int) -> int | None:
    """When the process began, in clock ticks since boot: with the pid, its identity. None: gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def cgroups(name: str) -> Iterator[Path]:
    """The cluster's cgroup in every hierarchy, v1 and v2."""
    for found in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")):
        if found.is_dir() and not found.parent.is_symlink():
            yield found


def _kill_members(name: str) -> None:
    for top in cgroups(name):
        for listing in top.rglob("cgroup.procs"):
            for pid in listing.read_text().split():
                if int(pid) > 1:
                    subprocess.run(["kill", "-9", pid], capture_output=True, check=False)


def _remove_cgroups(name: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while tops := list(cgroups(name)):
        for top in tops:
            for folder in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                _rmdir(folder)
            _rmdir(top)
        if time.monotonic() > deadline:
            print(f"not removed: {[str(top) for top in cgroups(name)]}", file=sys.stderr)  # noqa: T201
            return
        time.sleep(0.05)


def _rmdir(folder: Path) -> None:
    # Busy for a moment after its last process ended; the caller tries again.
    with contextlib.suppress(OSError):
        folder.rmdir()


def _backing_device(device: Path) -> int | None:
    """The device that a loop device lies over, as a device number; None for one over a file.
    The path is no help: kubelet's lies in a mount namespace that may be gone."""
    # struct loop_info64: lo_device, lo_inode, lo_rdevice (include/uapi/linux/loop.h).
    status = bytearray(232)
    try:
        with device.open("rb") as opened:
            fcntl.ioctl(opened, _LOOP_GET_STATUS64, status)
    except OSError:
        return None
    return struct.unpack_from("=3Q", status)[2] or None


def loop_devices(folder: Path) -> list[str]:
    """Loop devices over files below `folder`, and those that kubelet put over these devices,
    which are listed first, as they have to go first."""
    backing = {}
    for found in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            backing[Path("/dev", found.parents[1].name)] = found.read_text().strip()
    own = [device for device, file in backing.items() if Path(file).is_relative_to(folder)]
    numbers = {device.stat().st_rdev for device in own}
    over = [device for device in backing if _backing_device(device) in numbers]
    return [str(device) for device in over + own]


def _detach(folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while (devices := loop_devices(folder)) and time.monotonic() < deadline:
        for device in devices:
            subprocess.run(["losetup", "-d", device], capture_output=True, check=False)
        time.sleep(0.05)


def _unmount(folder: Path) -> None:
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        where = line.split()[1]
        if Path(where).is_relative_to(folder):
            subprocess.run(["umount", "-l", where], capture_output=True, check=False)


def sweep(state: Path) -> None:
    """Remove what the cluster of this state file left. Idempotent."""
    cluster = json.loads(state.read_text())
    folder = Path(cluster["folder"])
    if cluster["whole"]:
        _kill_members(cluster["cgroup"])
        subprocess.run(
            ["ip", "link", "delete", cluster["interface"]], capture_output=True, check=False
        )
        _unmount(folder)
        _detach(folder)
        _remove_cgroups(cluster["cgroup"])
    shutil.rmtree(folder, ignore_errors=True)
    state.unlink(missing_ok=True)


def sweep_abandoned() -> None:
    """Sweep every cluster whose keeper no longer lives."""
    for state in states().glob("*.json"):
        try:
            cluster = json.loads(state.read_text())
            if started(cluster["pid"]) != cluster["started"]:
                sweep(state)
        except FileNotFoundError:
            continue  # Its own keeper, or another session, swept it just now.


if __name__ == "__main__":
    sweep(Path(sys.argv[1]))
