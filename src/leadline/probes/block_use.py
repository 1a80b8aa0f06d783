"""The identity of an open block device, and everything on this machine that uses its data.

Sources: sysfs, LOOP_GET_STATUS64 (linux/loop.h), /proc/*/mountinfo (proc_pid_mountinfo(5)),
/proc/swaps, /proc/*/fd with fdinfo, and /proc/locks (proc_locks(5)). A user without root sees the
descriptors of their own processes only.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline.probes.mounts import parse_mountinfo

_SYSFS = Path("/sys/dev/block")
# udev holds a shared lock while it reads a device that is new or was written
# (systemd, "Locking Block Device Access"); it does not use its data.
_UDEV = frozenset({"(udev-worker)", "systemd-udevd"})
# lo_device, lo_inode and lo_rdevice are the first fields of struct loop_info64.
_LOOP_GET_STATUS64, _LOOP_INFO = 0x4C05, struct.Struct("QQQ208x")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockIdentity:
    """What makes a block device this one. `number` is its device number, `sequence` the kernel's
    count of attached disks (since 5.15), which a number that is used again does not repeat."""

    number: int
    size_bytes: int
    sequence: str
    serial: str
    wwn: str

    def __str__(self) -> str:
        return f"{os.major(self.number)}:{os.minor(self.number)}"


@dataclass(frozen=True, slots=True)
class _File:
    """A file by the device number of its file system and its inode."""

    device: int
    inode: int


def _folder(number: int) -> Path:
    return _SYSFS / f"{os.major(number)}:{os.minor(number)}"


def _word(path: Path) -> str:
    with suppress(OSError):
        return path.read_text("utf-8", "replace").strip()
    return ""


def kernel_name(number: int) -> str:
    """Return the kernel's name of a device (`sda1`), whatever its nodes are called."""
    return _folder(number).resolve().name


def identify(handle: int) -> BlockIdentity:
    """Return the identity of the device behind an open descriptor. Raises OSError."""
    number = os.fstat(handle).st_rdev
    folder = _folder(number)
    disk = folder.resolve().parent if (folder / "partition").exists() else folder
    return BlockIdentity(
        number=number,
        size_bytes=os.lseek(handle, 0, os.SEEK_END),
        sequence=_word(disk / "diskseq"),
        serial=_word(disk / "device/serial") or _word(disk / "serial"),
        wwn=_word(disk / "wwid") or _word(disk / "device/wwid"),
    )


def _number(path: Path) -> int | None:
    """Parse the `dev` file of a device in sysfs."""
    major, _, minor = _word(path / "dev").partition(":")
    return os.makedev(int(major), int(minor)) if major and minor else None


def _numbers(folder: Path) -> list[int]:
    """Return the devices that a folder of sysfs lists: holders, or partitions."""
    with suppress(OSError):
        return [number for path in folder.iterdir() if (number := _number(path)) is not None]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """A loop device with its backing file; `rdevice` is 0 unless that is a block device."""

    number: int
    backing: _File
    rdevice: int


def _loops() -> Iterator[_Loop]:
    """Yield the attached loop devices whose nodes this user may open."""
    for folder in Path("/sys/block").glob("loop*"):
        number = _number(folder)
        if number is None or not (folder / "loop").is_dir():
            continue
        with suppress(OSError):
            handle = os.open(f"/dev/{folder.name}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if os.fstat(handle).st_rdev == number:
                    info = bytearray(_LOOP_INFO.size)
                    fcntl.ioctl(handle, _LOOP_GET_STATUS64, info)
                    device, inode, rdevice = _LOOP_INFO.unpack(info)
                    backing = _File(device, inode)
                    yield _Loop(number=number, backing=backing, rdevice=rdevice)
            finally:
                os.close(handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extent:
    """All devices and files through which the data of one device can be reached.

    `devices` hold it or parts of it, `disks` contain it (the disk of a partition), `files` back it.
    `above` says what is built on the device.
    """

    devices: frozenset[int]
    disks: frozenset[int]
    files: frozenset[_File]
    above: tuple[str, ...]


def _extent(number: int) -> _Extent:
    """Follow the stack of a device both ways."""
    loops = list(_loops())
    open_, seen, disks, found_files = deque([number]), {number}, set(), set()
    above: dict[str, None] = {}
    while open_:
        current = open_.popleft()
        folder, name = _folder(current), kernel_name(current)
        parts = [part for part in _numbers(folder.resolve()) if part != current]
        holders = _numbers(folder / "holders")
        for holder in holders:
            above[f"{name} is part of {_describe(holder)}"] = None
        on_it = [loop.number for loop in loops if loop.rdevice == current]
        for loop_number in on_it:
            above[f"{name} is the backing device of {kernel_name(loop_number)}"] = None
        below, same = [], []
        for loop in loops:
            if loop.number != current:
                continue
            found_files.add(loop.backing)
            below = [loop.rdevice] if loop.rdevice else []
            same = [
                other.number
                for other in loops
                if other.backing == loop.backing and other.number != current
            ]
            for other_number in same:
                above[f"{name} and {kernel_name(other_number)} have the same backing file"] = None
        if (folder / "partition").exists():
            disk = _number(folder.resolve().parent)
            disks |= {disk} if disk is not None else set()
        for each in (*parts, *holders, *on_it, *below, *same):
            if each not in seen:
                seen.add(each)
                open_.append(each)
    return _Extent(
        devices=frozenset(seen),
        disks=frozenset(disks),
        files=frozenset(found_files),
        above=tuple(above),
    )


def _describe(number: int) -> str:
    """`md0`, `dm-3 (vg-lv)`."""
    name, folder = kernel_name(number), _folder(number)
    label = _word(folder / "dm/name")
    return f"{name} ({label})" if label else name


def find_users(number: int, *nodes: Path) -> tuple[str, ...]:
    """Return what uses the data of a block device: a clause each, empty where nothing does.

    Devices built on it, other ways to its data, mounts of every mount namespace, swap, descriptors
    of other processes that may write, and advisory locks on it, on `nodes` or on its backing file.
    """
    extent = _extent(number)
    users = dict.fromkeys(extent.above)
    processes = _processes()
    users |= dict.fromkeys(_mounts(extent.devices, processes))
    users |= dict.fromkeys(_swaps(extent))
    lockable = set(extent.files)
    for node in nodes:
        with suppress(OSError):
            entry = node.stat()
            lockable.add(_File(entry.st_dev, entry.st_ino))
    users |= dict.fromkeys(_writers(extent, processes, lockable))
    users |= dict.fromkeys(_locks(lockable))
    return tuple(users)


def _processes() -> list[int]:
    names = (folder.name for folder in Path("/proc").iterdir())
    return sorted(int(name) for name in names if name.isdecimal())


def _command(pid: int) -> str:
    return _word(Path(f"/proc/{pid}/comm"))


def _process(pid: int) -> str:
    return f"process {pid} ({_command(pid) or 'unknown'})"


def _is_any(path: Path, numbers: frozenset[int]) -> bool:
    with suppress(OSError, ValueError):
        entry = path.stat()
        return stat.S_ISBLK(entry.st_mode) and entry.st_rdev in numbers
    return False


def _mounts(devices: frozenset[int], processes: list[int]) -> Iterator[str]:
    """Yield the mounts of the devices, once per mount namespace. A file system with a device number
    of its own (btrfs) is known by its source."""
    names = {f"{os.major(number)}:{os.minor(number)}" for number in devices}
    own, seen = _namespace(os.getpid()), set()
    for pid in (os.getpid(), *processes):
        namespace = _namespace(pid)
        if namespace is None or namespace in seen:
            continue
        seen.add(namespace)
        elsewhere = "" if namespace == own else f" in the mount namespace of {_process(pid)}"
        for row in parse_mountinfo(_word(Path(f"/proc/{pid}/mountinfo"))):
            source = Path(f"/proc/{pid}/root{row.source}")
            if row.number in names or (row.source.startswith("/dev/") and _is_any(source, devices)):
                yield f"mounted at {row.mount_point}{elsewhere}"


def _namespace(pid: int) -> int | None:
    with suppress(OSError):
        return Path(f"/proc/{pid}/ns/mnt").stat().st_ino
    return None


def _swaps(extent: _Extent) -> Iterator[str]:
    for line in _word(Path("/proc/swaps")).splitlines()[1:]:
        path = Path(line.split()[0].encode().decode("unicode_escape"))
        with suppress(OSError):
            entry = path.stat()
            if entry.st_rdev in extent.devices or _File(entry.st_dev, entry.st_ino) in extent.files:
                yield f"swap space as {path}"


def _writers(extent: _Extent, processes: list[int], lockable: set[_File]) -> Iterator[str]:
    """Yield the other processes that may write; add the device nodes that any process has open to
    the files on which a lock counts."""
    reach = extent.devices | extent.disks
    for pid in processes:
        if pid == os.getpid():
            continue
        try:
            handles = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
        for handle in handles:
            try:
                entry = handle.stat()
            except OSError:
                continue
            file = _File(entry.st_dev, entry.st_ino)
            if stat.S_ISBLK(entry.st_mode) and entry.st_rdev in reach:
                lockable.add(file)
                what = kernel_name(entry.st_rdev)
            elif stat.S_ISREG(entry.st_mode) and file in extent.files:
                what = "its backing file"
            else:
                continue
            if _may_write(pid, handle.name):
                yield f"{what} is open for writing by {_process(pid)}"


def _may_write(pid: int, handle: str) -> bool:
    for line in _word(Path(f"/proc/{pid}/fdinfo/{handle}")).splitlines():
        key, _, value = line.partition(":")
        if key == "flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return True


def _locks(lockable: set[_File]) -> Iterator[str]:
    """Read `1: FLOCK  ADVISORY  WRITE 1234 00:05:123 0 EOF`; a lock that waits begins with `->`."""
    for line in _word(Path("/proc/locks")).splitlines():
        words = [word for word in line.split() if word != "->"]
        with suppress(ValueError, IndexError):
            major, minor, inode = words[5].split(":")
            if _File(os.makedev(int(major, 16), int(minor, 16)), int(inode)) in lockable:
                pid = int(words[4])
                if words[1:4:2] == ["FLOCK", "READ"] and _command(pid) in _UDEV:
                    continue
                yield f"locked ({words[1].lower()}) by {_process(pid) if pid > 0 else 'a process'}"
