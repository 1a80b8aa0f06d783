"""An RBD image as block devices of this machine, for the file systems of the shared image.

The kernel's client (krbd) maps it where it exists; else rbd-fuse shows it as a file, and each
stretch gets a loop device.
"""

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
from leadline.environment import child_environment
from leadline.errors import LeadlineError
from leadline.lab import processes
from leadline.plan.target_url import VDEV_CLASSES, Vdev
from leadline.targets import daemons
from leadline.targets.file_system import FileSystem
from leadline.targets.naming import is_token, own_name
from leadline.targets.zfs_dataset import mount_folder

SCHEME = "shared:"
EXPOSED = "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedImageNames:
    """Names of a shared image and of all that is made on it: each holds one token, by which it is
    found after a kill -9. `image` is `leadline-RUN-TOKEN` in the Ceph pool `pool`, and the image of
    a further vdev `leadline-RUN-TOKEN.CLASS`."""

    pool: str
    image: str
    token: str

    @property
    def url(self) -> str:
        """The name in the journal."""
        return f"{SCHEME}{self.pool}/{self.image}"

    @property
    def spec(self) -> str:
        return f"{self.pool}/{self.image}"

    def of_vdev(self, vdev: Vdev) -> SharedImageNames:
        """The names of the image of a further vdev of the pool."""
        image = f"{self.image}.{vdev.vdev_class}"
        return SharedImageNames(pool=vdev.pool, image=image, token=self.token)

    @property
    def _suffix(self) -> str:
        """`.CLASS` for the image of a further vdev; else empty."""
        _, token, suffix = self.image.rpartition(f"-{self.token}")
        return suffix if token else ""

    @property
    def vdev_class(self) -> str:
        """The class of a further vdev; empty for the image itself."""
        return self._suffix.removeprefix(".")

    def is_own_of(self, run: str) -> bool:
        """Return whether a run gives such names."""
        known = ("", *(f".{vdev_class}" for vdev_class in VDEV_CLASSES))
        own = f"{own_name(run, self.token)}{self._suffix}"
        return is_token(self.token) and self._suffix in known and self.image == own

    @property
    def folder(self) -> Path:
        return mount_folder(self.token)

    @property
    def exposed(self) -> Path:
        """The mount point of rbd-fuse."""
        return self.folder / f"{EXPOSED}{self._suffix}"

    @property
    def file(self) -> Path:
        """The image as rbd-fuse shows it."""
        return self.exposed / self.image

    @property
    def socket(self) -> Path:
        """The admin socket of rbd-fuse; its path may have 107 bytes."""
        return self.folder / f"rbd-fuse{self._suffix}.asok"

    @property
    def log(self) -> Path:
        """The messages of rbd-fuse."""
        return self.folder / f"rbd-fuse{self._suffix}.log"

    @property
    def ext4(self) -> Path:
        return self.folder / "ext4"

    @property
    def zpool(self) -> str:
        return f"leadline-{self.token}"

    @property
    def datasets(self) -> Path:
        """The parent of the datasets' mount points."""
        return self.folder / "zfs"

    @property
    def pid_file(self) -> Path:
        return self.folder / "zfs-fuse.pid"


def parse_names(url: str, token: str) -> SharedImageNames:
    """The names of the shared image in an entry of a journal."""
    pool, _, image = url.removeprefix(SCHEME).partition("/")
    return SharedImageNames(pool=pool, image=image, token=token)


RBD_FUSE = "rbd-fuse"
Run = Callable[..., tuple[int | None, str, str]]
_BLOCK = Path("/sys/block")
_BUS = Path("/sys/bus/rbd")
_NAMESPACE = Path("/proc/self/ns/mnt")
# The message of rbd where the monitors only use Ceph's second protocol, which the kernel (5.11 and
# newer) uses on request.
_NEEDS_MSGR2 = "possible ms_mode mismatch"
_SHOWN_WITHIN_S = 30.0
_COMMAND_S = 60.0
_BUSY_S = 15.0


def has_krbd(run: Run = programs.run) -> bool:
    """Whether the kernel has an RBD client; loads its module if necessary."""
    if _BUS.exists():
        return True
    modprobe = programs.find("modprobe")
    return modprobe is not None and run(modprobe, "rbd", bound_s=_COMMAND_S)[0] == 0


def require_possible(where: list[str]) -> None:
    """Raise LeadlineError(`image-not-mapped`) where this machine cannot use any client."""
    missing = [
        f"no {program!r} ({package})"
        for program, package in (("losetup", "mount"), ("mkfs.ext4", "e2fsprogs"))
        if programs.find(program) is None
    ]
    if not has_krbd():
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
    """Map an image; its device. Raises LeadlineError(`image-not-mapped`), also for a read-only
    device."""
    status, out, err = run(*access.command("rbd", "device", "map", spec), bound_s=_COMMAND_S)
    if status != 0 and _NEEDS_MSGR2 in err:
        newer = ("-o", "ms_mode=prefer-crc")
        command = access.command("rbd", "device", "map", *newer, spec)
        status, out, err = run(*command, bound_s=_COMMAND_S)
    if status != 0:
        lines = [line for line in (err + out).splitlines() if line.strip()]
        raise LeadlineError(
            errors.IMAGE_NOT_MAPPED,
            f"the kernel does not map the image {spec}",
            context=lines[-3:] if status is not None else [f"no answer within {_COMMAND_S:g} s"],
            hint="`dmesg` shows the reason: a feature of the image or of the cluster, or the "
            "permission to write to the pool",
        )
    device = Path(out.strip().splitlines()[-1])
    if (_BLOCK / device.name / "ro").exists() and _word(device.name, "ro") == "1":
        run(*access.command("rbd", "device", "unmap", str(device)), bound_s=_COMMAND_S)
        raise LeadlineError(
            errors.IMAGE_NOT_MAPPED,
            f"the kernel maps the image {spec} read-only",
            context=[f"{device} is read-only"],
            hint="does the user of Ceph have write access to the pool (`ceph auth get`)?",
        )
    return device


def show_by_fuse(access: CephAccess, names: SharedImageNames) -> Path:
    """Mount rbd-fuse; the image as a file. Raises LeadlineError(`image-not-mapped`)."""
    names.exposed.mkdir()
    command = access.command(
        RBD_FUSE,
        *("--admin-socket", str(names.socket)),
        *("-f", "-p", names.pool, "-r", names.image, str(names.exposed)),
    )
    pid = processes.start(
        command, folder=names.folder, output=names.log, environment=child_environment()
    )
    end = time.monotonic() + _SHOWN_WITHIN_S
    while True:
        status = processes.exit_status(pid)
        if status is None and _is_shown(names):
            return names.file
        if status is not None or time.monotonic() > end:
            reason = "no file appears" if status is None else f"it ended with status {status}"
            with suppress(OSError):
                lines = list(filter(None, names.log.read_text("utf-8", "replace").splitlines()))
                reason = "; ".join([reason, *lines[-2:]])
            raise LeadlineError(
                errors.IMAGE_NOT_MAPPED,
                f"rbd-fuse does not show the image {names.spec}",
                context=[reason],
                hint="try it by hand: rbd-fuse -c CONF -p POOL -r IMAGE FOLDER",
            )
        time.sleep(0.05)


def _is_shown(names: SharedImageNames) -> bool:
    """Whether rbd-fuse is mounted and shows the file of the image."""
    if names.exposed not in _mount_points():
        return False
    try:
        return not FileSystem(answer_s=_SHOWN_WITHIN_S).inspect(names.file).is_directory
    except OSError:
        return False


def attach_loop(source: Path, *, offset: int, size: int) -> str:
    """Attach a loop device to a stretch (in bytes) of a file or device; its name.

    It uses direct I/O where the layer below supports that: else the page cache of this machine
    would serve I/O instead of the cluster. Raises LeadlineError(`image-not-mapped`).
    """
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
        hint="`losetup --find` shows whether a loop device is free",
    )


def loops_on(token: str, devices: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the loop devices on a file whose name contains a token, or on one of `devices`."""
    found = {entry.name: _word(entry.name, "loop/backing_file") for entry in _BLOCK.glob("loop*")}
    return tuple(sorted(name for name, file in found.items() if token in file or file in devices))


def mapped_devices(spec: str, run: Run = programs.run) -> tuple[str, ...]:
    """Devices (`/dev/rbd0`) that the kernel maps to an image."""
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


def detach_loops(names: SharedImageNames) -> tuple[str, ...]:
    """Detach all loop devices on the image; sentences about what failed."""
    losetup = programs.find("losetup") or "losetup"
    devices = mapped_devices(names.spec)
    end = time.monotonic() + _BUSY_S
    while attached := loops_on(names.token, devices):
        if time.monotonic() > end:
            users = "".join(f"; {user}" for user in mounted_elsewhere(names.token, attached))
            names_text = ", ".join(attached)
            return (f"the loop devices {names_text} are in use and could not be detached{users}",)
        for name in attached:
            programs.run(losetup, "--detach", f"/dev/{name}", bound_s=_COMMAND_S)
        time.sleep(0.05)
    return ()


def mounted_elsewhere(token: str, devices: Sequence[str] = ()) -> tuple[str, ...]:
    """Processes that have a mount of the token, or of one of `devices` (`loop0`), in another
    mount namespace: one sentence per namespace.

    A process that copied all mounts (`unshare --mount`, some containers) keeps them; Leadline
    cannot unmount them.
    """
    numbers = {f" {_word(name, 'dev')} " for name in devices if _word(name, "dev")}
    kept: dict[str, str] = {}
    with suppress(OSError):
        kept[_NAMESPACE.readlink().name] = ""  # this process is not reported
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda entry: int(entry.name)):
        with suppress(OSError):
            namespace = (entry / "ns" / "mnt").readlink().name
            if namespace in kept:
                continue
            rows = (entry / "mountinfo").read_text("utf-8", "surrogateescape").splitlines()
            # Unmounting a shared mount (`shared:1`, `master:1`) also unmounts its copies.
            private = [row for row in rows if row.split(" ")[6:7] == ["-"]]
            if any(token in row or any(device in row for device in numbers) for row in private):
                name = (entry / "comm").read_text("utf-8", "replace").strip()
                kept[namespace] = (
                    f"process {entry.name} ({name}) has it mounted in a mount namespace of its own"
                )
    return tuple(filter(None, kept.values()))


def withdraw(names: SharedImageNames, *, force: bool = False) -> tuple[str, ...]:
    """Unmap the image from this machine; sentences about what failed. `force` aborts I/O that does
    not complete."""
    problems: list[str] = []
    for device in mapped_devices(names.spec):
        rbd = programs.find("rbd") or "rbd"
        forced = ("-o", "force") if force else ()
        status, _, err = programs.run(rbd, "device", "unmap", *forced, device, bound_s=_COMMAND_S)
        if status != 0:
            problems.append(f"{device} could not be unmapped: {err.strip().splitlines()[-1:]}")
    if force:
        daemons.end(RBD_FUSE, names.folder, (signal.SIGKILL,))
    folder = names.folder
    # All images below the pool: the loop devices on each of them are gone.
    for path in mounts_below(folder):
        if path.parent == folder and path.name.startswith(EXPOSED):
            problems += unmount(path, lazy_after_s=0.0 if force else _BUSY_S)
    if not daemons.await_end(RBD_FUSE, folder) and not daemons.end(RBD_FUSE, folder):
        problems.append(f"rbd-fuse, which serves {names.spec}, does not end")
    return tuple(problems)


def unmount(path: Path, *, lazy_after_s: float = _BUSY_S) -> tuple[str, ...]:
    """Unmount `path` if it is a mount point, lazily after `lazy_after_s`; sentences about what
    failed."""
    umount = programs.find("umount") or "umount"
    end = time.monotonic() + lazy_after_s
    while path in _mount_points():
        lazy = ("--lazy",) if time.monotonic() >= end else ()
        status, _, err = programs.run(umount, *lazy, str(path), bound_s=_BUSY_S)
        if status is None or (status != 0 and lazy):
            reason = err.strip() or f"no answer within {_BUSY_S:g} s"
            return (f"{path} could not be unmounted: {reason}",)
        if status != 0:
            time.sleep(0.2)
    return ()


def mounts_below(folder: Path) -> tuple[Path, ...]:
    """The mount points below a folder, the last mounted first."""
    return tuple(path for path in reversed(_mount_points()) if path.is_relative_to(folder))


def _mount_points() -> list[Path]:
    """All mount points by the kernel's list: a FUSE mount whose process is gone does not answer.

    Leadline's own names have no characters that the list escapes.
    """
    with suppress(OSError):
        rows = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape").splitlines()
        return [Path(row.split(" ")[1]) for row in rows]
    return []


def _word(device: str, file: str) -> str:
    try:
        return (_BLOCK / device / file).read_text("utf-8", "replace").strip()
    except OSError:
        return ""
