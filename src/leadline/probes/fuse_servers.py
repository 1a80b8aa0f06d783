"""Which process serves a FUSE mount, and what it was told on its command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline.probes.mount_table import MountRow


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseServer:
    """A program of Ceph's as it was started. `pool` is what rbd-fuse serves, `rbd` unless it was
    told another; `admin_socket` is empty where it was told none."""

    pid: int
    pool: str = ""
    admin_socket: str = ""


def program_of(mount: MountRow) -> str:
    """`rbd-fuse`, `ceph-fuse`, `sshfs`: what the mount calls itself, else its source."""
    return mount.filesystem.partition(".")[2] or mount.source.rpartition("/")[2] or "unknown"


def server_of(mount: MountRow, proc: Path) -> FuseServer | None:
    """The process of the mount's program that has the mount point among its arguments; None where
    none is seen: a daemon that another user runs, or that names it by another way."""
    program = program_of(mount)
    for pid in sorted(int(one.name) for one in _folders(proc) if one.name.isdecimal()):
        words = _words(proc / str(pid) / "cmdline")
        if not words or words[0].rpartition("/")[2] != program:
            continue
        here = _link(proc / str(pid) / "cwd")
        places = {_place(here / one) for one in words[1:] if one[:1] != "-"}
        if mount.mount_point in places:
            settings = _words(proc / str(pid) / "environ")
            more = next((one[10:].split() for one in settings if one.startswith("CEPH_ARGS=")), [])
            return FuseServer(
                pid=pid,
                pool=_option(words, "-p", "--poolname", "--pool") or "rbd",
                admin_socket=_option([*words, *more], "--admin-socket", "--admin_socket"),
            )
    return None


def _place(path: Path) -> str:
    """The path without symbolic links. What is mounted there is not asked for anything: where the
    storage below it has died, whoever does so hangs."""
    with suppress(OSError):
        path = path.parent / path.readlink()
    return str(Path(os.path.realpath(path.parent)) / path.name)


def _option(words: Sequence[str], *names: str) -> str:
    for at, one in enumerate(words):
        name, equals, value = one.partition("=")
        if name in names:
            return value if equals else next(iter(words[at + 1 :]), "")
    return ""


def _words(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return []


def _link(path: Path) -> Path:
    try:
        return path.readlink()
    except OSError:
        return Path("/")


def _folders(proc: Path) -> list[Path]:
    try:
        return list(proc.iterdir())
    except OSError:
        return []
