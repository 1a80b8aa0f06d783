"""An RBD image made a block device of this machine: by the kernel's client (krbd) where there is
one, else by rbd-fuse, which shows it as a file, with a loop device on each stretch of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.connect import programs
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.lab import processes
from leadline.targets import zfs
from leadline.targets.zfs import mount_folder
from leadline.text import visible

# What a stand is called: all that is made to put file systems on an RBD image of our own, each
# thing of it named by one token, so that it is found again behind a kill -9.

SCHEME = "shared:"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandNames:
    """Names of one stand; `image` is `leadline-RUN-TOKEN` in the Ceph pool `pool`."""

    pool: str
    image: str
    token: str

    @property
    def url(self) -> str:
        """How the journal calls it."""
        return f"{SCHEME}{self.pool}/{self.image}"

    @property
    def spec(self) -> str:
        return f"{self.pool}/{self.image}"

    @property
    def folder(self) -> Path:
        return mount_folder(self.token)

    @property
    def exposed(self) -> Path:
        """Where rbd-fuse is mounted."""
        return self.folder / "image"

    @property
    def file(self) -> Path:
        """The image as rbd-fuse shows it."""
        return self.exposed / self.image

    @property
    def socket(self) -> Path:
        """The admin socket of rbd-fuse; such a path has 107 bytes at most."""
        return self.folder / "rbd-fuse.asok"

    @property
    def ext4(self) -> Path:
        return self.folder / "ext4"

    @property
    def zpool(self) -> str:
        return f"leadline-{self.token}"

    @property
    def datasets(self) -> Path:
        """Where the datasets are mounted, each in a folder of it."""
        return self.folder / "zfs"

    @property
    def pid_file(self) -> Path:
        return self.folder / "zfs-fuse.pid"


def names_of(url: str, token: str) -> StandNames:
    """The stand that a journal tells of."""
    pool, _, image = url.removeprefix(SCHEME).partition("/")
    return StandNames(pool=pool, image=image, token=token)


RBD_FUSE = "rbd-fuse"
Run = Callable[..., tuple[int | None, str, str]]
_BLOCK = Path("/sys/block")
_BUS = Path("/sys/bus/rbd")
_NAMESPACE = Path("/proc/self/ns/mnt")
# What rbd says where the monitors speak only Ceph's second protocol, which the kernel has to be
# told to speak (5.11 and newer).
_NO_FIRST_PROTOCOL = "possible ms_mode mismatch"
_SHOWN_WITHIN_S = 30.0
_COMMAND_S = 60.0
_BUSY_S = 15.0
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


def by_kernel(run: Run = programs.run) -> bool:
    """Whether the kernel here has a client of RBD; its module is loaded if need be."""
    if _BUS.exists():
        return True
    modprobe = programs.find("modprobe")
    return modprobe is not None and run(modprobe, "rbd", bound_s=_COMMAND_S)[0] == 0


def require_possible(where: list[str]) -> None:
    """Raises LeadlineError(`image-not-mapped`) where no client can be used here."""
    missing = [
        f"no {program!r} ({package})"
        for program, package in (("losetup", "mount"), ("mkfs.ext4", "e2fsprogs"))
        if programs.find(program) is None
    ]
    if not by_kernel():
        if programs.find(RBD_FUSE) is None:
            missing.append(f"neither the kernel's module rbd nor {RBD_FUSE!r} (rbd-fuse)")
        elif not Path("/dev/fuse").exists():
            missing.append("no /dev/fuse")
        if not Path("/dev/loop-control").exists():
            missing.append("no loop devices (/dev/loop-control)")
    if os.geteuid() != 0:
        missing.append("only root can mount and make block devices")
    if missing:
        raise LeadlineError(
            errors.IMAGE_NOT_MAPPED,
            "an image cannot be made a block device on this machine",
            context=[*where, *missing],
            hint="`apt-get install rbd-fuse mount e2fsprogs`, and run Leadline as root; "
            "rbd:POOL measures the image without any of it",
        )


def map_by_kernel(access: CephAccess, spec: str, run: Run = programs.run) -> Path:
    """The device of an image. Raises LeadlineError(`image-not-mapped`), also for one that takes
    no writes."""
    status, out, err = run(*access.command("rbd", "device", "map", spec), bound_s=_COMMAND_S)
    if status != 0 and _NO_FIRST_PROTOCOL in err:
        newer = ("-o", "ms_mode=prefer-crc")
        again = access.command("rbd", "device", "map", *newer, spec)
        status, out, err = run(*again, bound_s=_COMMAND_S)
    if status != 0:
        said = [line for line in (err + out).splitlines() if line.strip()]
        raise LeadlineError(
            errors.IMAGE_NOT_MAPPED,
            f"the kernel does not map the image {spec}",
            context=said[-3:] if status is not None else [f"no answer within {_COMMAND_S:g} s"],
            hint="`dmesg` tells what it lacks: a feature of the image or of the cluster, or the "
            "right to write to the pool",
        )
    device = Path(out.strip().splitlines()[-1])
    if (_BLOCK / device.name / "ro").exists() and _word(device.name, "ro") == "1":
        run(*access.command("rbd", "device", "unmap", str(device)), bound_s=_COMMAND_S)
        raise LeadlineError(
            errors.IMAGE_NOT_MAPPED,
            f"the kernel maps the image {spec} read-only",
            context=[f"{device} takes no writes"],
            hint="does the user of Ceph have write access to the pool (`ceph auth get`)?",
        )
    return device


def show_by_fuse(access: CephAccess, names: StandNames) -> Path:
    """The image as a file. Raises LeadlineError(`image-not-mapped`)."""
    names.exposed.mkdir()
    log = names.folder / "rbd-fuse.log"
    command = access.command(
        RBD_FUSE,
        *("--admin-socket", str(names.socket)),
        *("-f", "-p", names.pool, "-r", names.image, str(names.exposed)),
    )
    settings = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    pid = processes.start(command, folder=names.folder, output=log, environment=settings)
    end = time.monotonic() + _SHOWN_WITHIN_S
    while True:
        status = processes.exit_status(pid)
        if status is None and names.exposed.is_mount() and names.file.is_file():
            return names.file
        if status is not None or time.monotonic() > end:
            why = f"it ended with status {status}" if status is not None else "it shows nothing"
            with suppress(OSError):
                lines = [one for one in log.read_text("utf-8", "replace").splitlines() if one]
                why = "; ".join([why, *lines[-2:]])
            raise LeadlineError(
                errors.IMAGE_NOT_MAPPED,
                f"rbd-fuse does not show the image {names.spec}",
                context=[why],
                hint="try it by hand: rbd-fuse -c CONF -p POOL -r IMAGE FOLDER",
            )
        time.sleep(0.05)


def attach_loop(source: Path, *, offset: int, size: int) -> str:
    """The name of a loop device on a stretch of a file or device, in bytes. It does direct I/O
    where what lies below takes it: else the page cache of this machine would answer what is meant
    for the cluster. Raises LeadlineError(`image-not-mapped`)."""
    losetup = programs.find("losetup") or "losetup"
    stretch = ("--offset", str(offset), "--sizelimit", str(size), "--find", "--show", str(source))
    status, out, err = None, "", ""
    for direct in ("on", "off"):
        status, out, err = programs.run(
            losetup, f"--direct-io={direct}", *stretch, bound_s=_COMMAND_S
        )
        if status == 0:
            return Path(out.strip()).name
    raise LeadlineError(
        errors.IMAGE_NOT_MAPPED,
        f"no loop device can be put on {str(source)!r}",
        context=err.splitlines()[-2:],
        hint="`losetup --find` shows whether there are any",
    )


def loops_on(token: str, devices: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the loop devices on a file whose name holds a token, or on one of `devices`."""
    found = {entry.name: _word(entry.name, "loop/backing_file") for entry in _BLOCK.glob("loop*")}
    return tuple(sorted(name for name, file in found.items() if token in file or file in devices))


def mapped(spec: str, run: Run = programs.run) -> tuple[str, ...]:
    """Devices (`/dev/rbd0`) by which the kernel serves an image."""
    if not _BUS.exists():
        return ()
    rbd = programs.find("rbd")
    status, out, _ = run(rbd or "rbd", "device", "list", "--format", "json", bound_s=_COMMAND_S)
    if status != 0:
        return ()
    with suppress(ValueError, KeyError, TypeError):
        rows = json.loads(out or "[]")
        return tuple(str(row["device"]) for row in rows if f"{row['pool']}/{row['name']}" == spec)
    return ()


def detach_loops(names: StandNames) -> tuple[str, ...]:
    """Detach what lies on the image; what could not be done as sentences."""
    losetup = programs.find("losetup") or "losetup"
    devices = mapped(names.spec)
    end = time.monotonic() + _BUSY_S
    while there := loops_on(names.token, devices):
        if time.monotonic() > end:
            users = "".join(f"; {one}" for one in mounted_elsewhere(names.token, there))
            return (
                f"the loop devices {', '.join(there)} are in use and could not be detached{users}",
            )
        for name in there:
            programs.run(losetup, "--detach", f"/dev/{name}", bound_s=_COMMAND_S)
        time.sleep(0.05)
    return ()


def mounted_elsewhere(token: str, devices: Sequence[str] = ()) -> tuple[str, ...]:
    """Who has what the token names, or one of `devices` (`loop0`), mounted in a mount namespace of
    its own, a sentence for each namespace: a process that got a copy of all mounts of that moment
    (`unshare --mount`, some containers) keeps what it got, which nothing here can undo."""
    numbers = {f" {_word(name, 'dev')} " for name in devices if _word(name, "dev")}
    kept: dict[str, str] = {}
    with suppress(OSError):
        kept[_NAMESPACE.readlink().name] = ""  # our own is no other
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        with suppress(OSError):
            namespace = (entry / "ns" / "mnt").readlink().name
            if namespace in kept:
                continue
            rows = (entry / "mountinfo").read_text("utf-8", "surrogateescape").splitlines()
            # Of mounts that are shared (`shared:1`, `master:1`) ours take the copies with them.
            alone = [row for row in rows if row.split(" ")[6:7] == ["-"]]
            if any(token in row or any(one in row for one in numbers) for row in alone):
                who = visible((entry / "comm").read_text("utf-8", "replace").strip())
                kept[namespace] = (
                    f"process {entry.name} ({who}) has it mounted in a mount namespace of its own"
                )
    return tuple(one for one in kept.values() if one)


def withdraw(names: StandNames, *, force: bool = False) -> tuple[str, ...]:
    """Take the image away from this machine; what could not be done as sentences. `force`: what
    does not come back is cut off."""
    problems: list[str] = []
    for device in mapped(names.spec):
        rbd = programs.find("rbd") or "rbd"
        forced = ("-o", "force") if force else ()
        status, _, err = programs.run(rbd, "device", "unmap", *forced, device, bound_s=_COMMAND_S)
        if status != 0:
            problems.append(f"{device} could not be unmapped: {err.strip().splitlines()[-1:]}")
    if force:
        zfs.end(RBD_FUSE, names.folder, by=signal.SIGKILL)
    problems += unmount(names.exposed, lazy_after_s=0.0 if force else _BUSY_S)
    if not zfs.gone(RBD_FUSE, names.folder) and not (
        zfs.end(RBD_FUSE, names.folder) or zfs.end(RBD_FUSE, names.folder, by=signal.SIGKILL)
    ):
        problems.append(f"rbd-fuse, which serves {names.spec}, does not end")
    return tuple(problems)


def unmount(path: Path, *, lazy_after_s: float = _BUSY_S) -> tuple[str, ...]:
    """Unmount what is mounted at `path`, if anything is, at last lazily; what could not be done
    as sentences."""
    umount = programs.find("umount") or "umount"
    end = time.monotonic() + lazy_after_s
    while path in _mount_points():
        lazy = ("--lazy",) if time.monotonic() >= end else ()
        status, _, err = programs.run(umount, *lazy, str(path), bound_s=_BUSY_S)
        if status is None or (status != 0 and lazy):
            said = err.strip() or f"no answer within {_BUSY_S:g} s"
            return (f"{path} could not be unmounted: {said}",)
        if status != 0:
            time.sleep(0.2)
    return ()


def mounts_below(folder: Path) -> tuple[Path, ...]:
    """Where anything is mounted in a folder of ours, the last mounted first."""
    return tuple(path for path in reversed(_mount_points()) if path.is_relative_to(folder))


def _mount_points() -> list[Path]:
    """By the kernel's own list: a FUSE mount whose process is gone cannot be asked. Nothing of
    ours has a name that is written in another way there."""
    with suppress(OSError):
        rows = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape").splitlines()
        return [Path(row.split(" ")[1]) for row in rows]
    return []


def _word(device: str, file: str) -> str:
    try:
        return (_BLOCK / device / file).read_text("utf-8", "replace").strip()
    except OSError:
        return ""
