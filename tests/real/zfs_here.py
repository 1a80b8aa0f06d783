"""ZFS on this machine as tests see it, and what a run could leave of it."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

from leadline.connect.programs import find
from leadline.targets import zfs_daemon
from tests.awaiting import wait_for
from tests.real.conftest import sh


def answers(program: str, *arguments: object) -> bool:
    command = [str(find(program)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True).returncode == 0


def pools() -> list[str]:
    listed = sh(find("zpool"), "list", "-H", "-o", "name").splitlines()
    return [name for name in listed if " " not in name]


@contextlib.contextmanager
def pool_on_file(folder: Path, size_bytes: int) -> Iterator[str]:
    """The name of a pool on a file in `folder`, mounted at `folder`/mnt. zfs-fuse is started if no
    ZFS runs, as Leadline starts it, and ends with the pool unless it has other pools."""
    zfs_daemon.ensure(folder / "pid")
    name = f"test{secrets.token_hex(4)}"
    with (folder / "disk").open("wb") as disk:
        disk.truncate(size_bytes)
    sh(find("zpool"), "create", "-o", "cachefile=none", "-m", folder / "mnt", name, folder / "disk")
    try:
        yield name
    finally:
        # What was killed may keep a file open for a while.
        try:
            wait_for(lambda: answers("zpool", "destroy", "-f", name))
        except AssertionError:
            sh(find("zpool"), "destroy", "-f", name)  # its error is the reason
        assert zfs_daemon.stop(folder, name) == ()


def tokens(tmp_path: Path) -> list[str]:
    """What all that the runs of a test made is named by."""
    lines = [
        line
        for journal in (tmp_path / "runs").glob("*/created.jsonl")
        for line in journal.read_text().splitlines()
    ]
    return sorted({json.loads(line)["token"] for line in lines})


def left_here(tmp_path: Path) -> list[str]:
    """What the runs of a test left on this machine: folders, mounts, loop devices, daemons,
    pools. Others may be at work here too."""
    places = [
        *Path("/proc").glob("[0-9]*/cmdline"),
        *Path("/sys/block").glob("loop*/loop/backing*"),
    ]
    told = [str(path) for path in Path("/run").iterdir()]
    told += Path("/proc/self/mounts").read_text().splitlines()
    for file in places:
        try:
            told.append(file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    if answers("zpool", "list"):
        told += pools()
    return [item for item in told for token in tokens(tmp_path) if token in item]
