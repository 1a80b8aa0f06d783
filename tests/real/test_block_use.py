"""A device is refused for whatever uses its data, by its own name or another way, and is allowed
where nothing does. Every row is made with real loop devices."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets.device import DeviceTarget
from tests.real.conftest import sh

pytestmark = [pytest.mark.real, pytest.mark.root]
SPAN = Footprint(files={}, span=1 << 20, job_file_bytes=0, writes=True)
SIZE = 48 << 20


@dataclass
class Bench:
    """A folder for images and mount points; what is made is undone in reverse order."""

    folder: Path
    undo: ExitStack

    def image(self, name: str = "disk.img") -> Path:
        path = self.folder / name
        with path.open("wb") as stream:
            stream.truncate(SIZE)
        return path

    def loop(self, backing: Path, *options: str) -> Path:
        device = Path(sh("losetup", "--find", "--show", *options, backing))
        self.undo.callback(subprocess.run, ["losetup", "--detach", str(device)], check=False)
        return device

    def filesystem(self, device: Path, *options: str) -> Path:
        """Make a file system and mount it."""
        sh("mkfs.ext4", "-q", "-F", "-m", "0", device)
        return self.mount(device, *options)

    def mount(self, device: Path, *options: str) -> Path:
        folder = self.folder / f"mounted-{device.name}"
        folder.mkdir()
        sh("mount", *options, device, folder)
        self.undo.callback(
            subprocess.run, ["umount", "--lazy", str(folder)], capture_output=True, check=False
        )
        return folder

    def partitioned(self) -> tuple[Path, Path, Path]:
        """A disk and its two partitions."""
        image = self.image()
        # A master boot record with two partitions of 20 MiB: type, first sector, sectors.
        rows = [struct.pack("<4xB3xII", 0x83, 2048 + at * 40960, 40960) for at in (0, 1)]
        with image.open("r+b") as stream:
            stream.seek(446)
            stream.write(b"".join(rows) + bytes(32) + b"\x55\xaa")
        disk = self.loop(image)
        # partx(8), since this kernel may read no partition table.
        sh("partx", "--add", disk)
        self.undo.callback(subprocess.run, ["partx", "--delete", str(disk)], check=False)
        parts = []
        for number in (1, 2):
            node = self.folder / f"part{number}"
            found = Path(f"/sys/block/{disk.name}/{disk.name}p{number}/dev").read_text()
            major, minor = map(int, found.split(":"))
            # Without udev a partition may have no node in /dev.
            os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(major, minor))
            parts.append(node)
        return disk, parts[0], parts[1]

    def process(self, code: str, *arguments: object) -> int:
        """Start a process that does `code`, prints a line and sleeps; its id."""
        lines = ("import fcntl, os, struct, sys, time", code, "print('ready', flush=True)")
        script = "\n".join([*lines, "time.sleep(600)"])
        child = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE
        )
        self.undo.callback(child.wait)
        self.undo.callback(child.kill)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.stdout.close()
        return child.pid


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    if os.geteuid() != 0:
        pytest.skip("needs root: loop devices do NOT get tested here")
    with ExitStack() as undo:
        yield Bench(tmp_path, undo)


def inspect(device: Path) -> LeadlineError | None:
    """The refusal of a device to which the user consented; None where it is allowed."""
    url, path = f"device:{device}", str(device)
    target = DeviceTarget(Target(name="t", url=url), (path,), (path,))
    try:
        target.inspect(SPAN, prefill=True)
    except LeadlineError as error:
        return error
    finally:
        target.release()
    return None


def opened(flags: str) -> Callable[[Bench], Path]:
    def make(bench: Bench) -> Path:
        device = bench.loop(bench.image())
        bench.process(f"os.open(sys.argv[1], {flags})", device)
        return device

    return make


def locked(code: str) -> Callable[[Bench], Path]:
    """A lock on the device's node, held by a process that may only read."""

    def make(bench: Bench) -> Path:
        device = bench.loop(bench.image())
        bench.process(f"held = os.open(sys.argv[1], os.O_RDONLY)\n{code}", device)
        return device

    return make


# udev's process, by its name.
AS_UDEV = "open('/proc/self/comm', 'w').write('(udev-worker)')\n"


def mounted(*options: str) -> Callable[[Bench], Path]:
    def make(bench: Bench) -> Path:
        device = bench.loop(bench.image())
        bench.filesystem(device, *options)
        return device

    return make


def second_loop_btrfs(bench: Bench) -> Path:
    """Btrfs has a device number of its own in the table of mounts."""
    image = bench.folder / "large.img"
    with image.open("wb") as stream:
        stream.truncate(256 << 20)
    device, second = bench.loop(image), bench.loop(image)
    sh("mkfs.btrfs", "--quiet", second)
    bench.mount(second)
    return device


def unmounted_but_busy(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    folder = bench.filesystem(device)
    (folder / "file").touch()
    bench.process("os.open(sys.argv[1], os.O_RDONLY)", folder / "file")
    sh("umount", "--lazy", folder)
    return device


def in_another_namespace(bench: Bench, device: Path) -> None:
    """Mount a device in a mount namespace of its own."""
    sh("mkfs.ext4", "-q", "-F", device)
    folder = bench.folder / "elsewhere"
    folder.mkdir()
    script = f"mount {device} {folder} && echo ready && exec sleep 600"
    child = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        stdout=subprocess.PIPE,
    )
    bench.undo.callback(child.wait)
    bench.undo.callback(child.kill)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.stdout.close()


def mounted_in_another_namespace(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    in_another_namespace(bench, device)
    return device


def second_loop_mounted_in_another_namespace(bench: Bench) -> Path:
    image = bench.image()
    device = bench.loop(image)
    in_another_namespace(bench, bench.loop(image))
    return device


def partition_mounted(bench: Bench) -> Path:
    disk, first, _ = bench.partitioned()
    bench.filesystem(first)
    return disk


def sibling_mounted(bench: Bench) -> Path:
    _, first, second = bench.partitioned()
    bench.filesystem(first)
    return second


def disk_of_the_partition_opened(bench: Bench) -> Path:
    disk, first, _ = bench.partitioned()
    bench.process("os.open(sys.argv[1], os.O_RDWR)", disk)
    return first


def partition_opened(bench: Bench) -> Path:
    disk, _, second = bench.partitioned()
    bench.process("os.open(sys.argv[1], os.O_RDWR)", second)
    return disk


def loop_on_a_partition(bench: Bench) -> Path:
    disk, first, _ = bench.partitioned()
    bench.loop(first)
    return disk


def free_partition(bench: Bench) -> Path:
    return bench.partitioned()[1]


def swap(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    sh("mkswap", "--quiet", device)
    sh("swapon", device)
    bench.undo.callback(subprocess.run, ["swapoff", str(device)], check=False)
    return device


def second_loop_swap(bench: Bench) -> Path:
    image = bench.image()
    device, second = bench.loop(image), bench.loop(image)
    sh("mkswap", "--quiet", second)
    sh("swapon", second)
    bench.undo.callback(subprocess.run, ["swapoff", str(second)], check=False)
    return device


def loop_on_it(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    bench.loop(device)
    return device


def loop_on_it_mounted(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    bench.filesystem(bench.loop(device))
    return device


def two_loops_above_mounted(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    bench.filesystem(bench.loop(bench.loop(device)))
    return device


def device_below_mounted(bench: Bench) -> Path:
    below = bench.loop(bench.image())
    bench.filesystem(below)
    return bench.loop(below)


def second_loop(bench: Bench) -> Path:
    image = bench.image()
    device = bench.loop(image)
    bench.loop(image)
    return device


def second_loop_mounted(bench: Bench) -> Path:
    image = bench.image()
    device = bench.loop(image)
    bench.filesystem(bench.loop(image))
    return device


def second_loop_by_a_hard_link(bench: Bench) -> Path:
    image = bench.image()
    other = bench.folder / "other.img"
    other.hardlink_to(image)
    device = bench.loop(image)
    bench.loop(other)
    return device


def second_loop_of_a_renamed_file(bench: Bench) -> Path:
    image = bench.image()
    device = bench.loop(image)
    image = image.rename(bench.folder / "renamed.img")
    bench.loop(image)
    return device


def second_loop_of_a_removed_file(bench: Bench) -> Path:
    image = bench.image()
    device = bench.loop(image)
    bench.loop(image)
    image.unlink()
    return device


def two_loops_of_two_files(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    bench.filesystem(bench.loop(bench.image("other.img")))
    return device


def backing_file(flags: str) -> Callable[[Bench], Path]:
    def make(bench: Bench) -> Path:
        image = bench.image()
        device = bench.loop(image)
        bench.process(f"os.open(sys.argv[1], {flags})", image)
        return device

    return make


def backing_file_locked(bench: Bench) -> Path:
    image = bench.image()
    device = bench.loop(image)
    bench.process("fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)", image)
    return device


def second_node(bench: Bench, device: Path) -> Path:
    node = bench.folder / "second-node"
    os.mknod(node, 0o600 | stat.S_IFBLK, device.stat().st_rdev)
    return node


def second_node_opened(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    bench.process("os.open(sys.argv[1], os.O_WRONLY)", second_node(bench, device))
    return device


def second_node_locked(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    code = "fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)"
    bench.process(code, second_node(bench, device))
    return device


def second_node_of_a_mounted_device(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    bench.filesystem(device)
    return second_node(bench, device)


def link_to_a_mounted_device(bench: Bench) -> Path:
    device = bench.loop(bench.image())
    bench.filesystem(device)
    link = bench.folder / "link"
    link.symlink_to(device)
    return link


SITUATIONS: dict[str, tuple[Callable[[Bench], Path], str]] = {
    "mounted": (mounted(), "mounted at "),
    "mounted read-only": (mounted("-o", "ro"), "mounted at "),
    "unmounted lazily, still busy": (unmounted_but_busy, "cannot be opened exclusively"),
    "mounted in another namespace": (mounted_in_another_namespace, "in the mount namespace of "),
    "mounted, by a second node": (second_node_of_a_mounted_device, "mounted at "),
    "mounted, by a link": (link_to_a_mounted_device, "mounted at "),
    "a partition is mounted": (partition_mounted, "mounted at "),
    "a partition is open for writing": (partition_opened, "p2 is open for writing by process "),
    "its disk is open for writing": (disk_of_the_partition_opened, "is open for writing by "),
    "a loop device on a partition": (loop_on_a_partition, "p1 is the backing device of loop"),
    "swap": (swap, "swap space as /dev/loop"),
    "a loop device on it": (loop_on_it, "is the backing device of loop"),
    "a mounted loop device on it": (loop_on_it_mounted, "mounted at "),
    "a mounted loop device two above": (two_loops_above_mounted, "mounted at "),
    "the device below is mounted": (device_below_mounted, "mounted at "),
    "a second loop device": (second_loop, "have the same backing file"),
    "a second loop device, mounted": (second_loop_mounted, "mounted at "),
    "a second loop device, btrfs": (second_loop_btrfs, "mounted at "),
    "a second loop device, swap": (second_loop_swap, "swap space as /dev/loop"),
    "a second loop device, mounted in another namespace": (
        second_loop_mounted_in_another_namespace,
        "in the mount namespace of ",
    ),
    "a second loop device by a hard link": (second_loop_by_a_hard_link, "the same backing file"),
    "a second loop device, file renamed": (second_loop_of_a_renamed_file, "same backing file"),
    "a second loop device, file removed": (second_loop_of_a_removed_file, "same backing file"),
    "backing file open for writing": (
        backing_file("os.O_RDWR"),
        "its backing file is open for writing by process ",
    ),
    "backing file locked": (backing_file_locked, "locked (flock) by process "),
    "open for writing": (opened("os.O_WRONLY"), "is open for writing by process "),
    "open for reading and writing": (opened("os.O_RDWR"), "is open for writing by process "),
    "open exclusively, to read": (opened("os.O_RDONLY | os.O_EXCL"), "cannot be opened excl"),
    "open for writing by a second node": (second_node_opened, "is open for writing by process "),
    "locked by flock": (locked("fcntl.flock(held, fcntl.LOCK_EX)"), "locked (flock) by process "),
    "locked by flock, shared": (
        locked("fcntl.flock(held, fcntl.LOCK_SH)"),
        "locked (flock) by process ",
    ),
    "locked by udev, not shared": (
        locked(AS_UDEV + "fcntl.flock(held, fcntl.LOCK_EX)"),
        "locked (flock) by process ",
    ),
    "locked by fcntl": (
        locked("fcntl.lockf(held, fcntl.LOCK_SH)"),
        "locked (posix) by process ",
    ),
    "locked by an open file description": (
        locked("fcntl.fcntl(held, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))"),
        "locked (ofdlck) by a process",
    ),
    "locked on a second node": (second_node_locked, "locked (flock) by process "),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_in_use_is_refused_with_its_user(bench: Bench, situation: str) -> None:
    make, words = SITUATIONS[situation]
    device = make(bench)
    refusal = inspect(device)
    assert refusal is not None
    assert refusal.kind is errors.DEVICE_IN_USE, str(refusal)
    assert words in "\n".join(refusal.context)


FREE: dict[str, Callable[[Bench], Path]] = {
    "nothing uses it": lambda bench: bench.loop(bench.image()),
    "a partition of a free disk": free_partition,
    "the other partition is mounted": sibling_mounted,
    "open for reading": opened("os.O_RDONLY"),
    "backing file open for reading": backing_file("os.O_RDONLY"),
    "another loop device is mounted": two_loops_of_two_files,
    "read by udev": locked(AS_UDEV + "fcntl.flock(held, fcntl.LOCK_SH)"),
}


@pytest.mark.parametrize("situation", FREE)
def test_what_is_free_is_allowed(bench: Bench, situation: str) -> None:
    refusal = inspect(FREE[situation](bench))
    assert refusal is None, str(refusal)


@pytest.mark.parametrize("driver", ["device-mapper", "md"])
def test_a_part_of_another_device_is_refused(bench: Bench, driver: str) -> None:
    device = bench.loop(bench.image())
    if driver == "device-mapper":
        name = f"leadline-test-{os.getpid()}"
        made = subprocess.run(
            ["dmsetup", "create", name, "--table", f"0 2048 linear {device} 0"],
            capture_output=True,
        )
        undo = ["dmsetup", "remove", name]
    else:
        if "md" not in Path("/proc/devices").read_text().split():
            pytest.skip("this kernel has no md driver: arrays do NOT get tested here")
        made = subprocess.run(
            ["mdadm", "--build", "/dev/md127", "--level=1", "--raid-devices=1", "--force", device],
            capture_output=True,
        )
        undo = ["mdadm", "--stop", "/dev/md127"]
    if made.returncode:
        pytest.skip(f"no {driver} here, its devices do NOT get tested: {made.stderr.decode()}")
    bench.undo.callback(subprocess.run, undo, check=False)
    refusal = inspect(device)
    assert refusal is not None
    assert " is part of " in "\n".join(refusal.context)


LABELS = {
    "crypto_LUKS": b"LUKS\xba\xbe\x00\x01" + bytes(200) + b"0" * 36,
    "ceph_bluestore": b"bluestore block device\n00000000-0000-4000-8000-000000000000\n",
}


@pytest.mark.parametrize("signature", LABELS)
def test_a_label_needs_a_second_consent(bench: Bench, signature: str) -> None:
    device = bench.loop(bench.image())
    with device.open("r+b") as stream:
        stream.write(LABELS[signature])
    path = str(device)
    target = DeviceTarget(Target(name="t", url=f"device:{path}"), (path,), ())
    with pytest.raises(LeadlineError) as caught:
        target.inspect(SPAN, prefill=True)
    assert caught.value.kind is errors.DEVICE_SIGNED
    assert signature in caught.value.fact


def test_the_lock_of_the_table_is_that_of_this_kernel() -> None:
    """F_OFD_SETLK is 37 on Linux (fcntl.h), with struct flock of 32 bytes."""
    assert getattr(fcntl, "F_OFD_SETLK", 37) == 37
    assert struct.calcsize("hhqqi4x") == 32
