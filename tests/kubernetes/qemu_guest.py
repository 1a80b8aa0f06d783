"""A real guest: Debian with its cloud kernel, systemd, udev and cloud-init under QEMU, whose disks
and serial port are attached as KubeVirt attaches them. Without KVM, so that its figures mean
nothing; what is real is the boot, the seed, the serial driver and the way of every byte."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import time
from pathlib import Path

import yaml

PACKAGES = (
    "systemd-sysv,dbus,udev,cloud-init,fio,linux-image-cloud-amd64,initramfs-tools,kmod,iproute2,"
    "util-linux,procps"
)
_NEEDED = ("qemu-system-x86_64", "mmdebstrap", "genisoimage", "mkfs.ext4", "setpriv")
_SIZE = "1500M"


def lacks() -> list[str]:
    """Programs that are missing for such a guest."""
    return [item for item in _NEEDED if shutil.which(item) is None]


def image() -> Path:
    """The folder of kernel, initrd and root.img; made once (two to three minutes)."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    made = Path(cache) / "leadline" / "guest" / "bookworm-1"
    if (made / "root.img").exists():
        return made
    folder = made.with_suffix(".new")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "root").mkdir(parents=True)
    tar, root = folder / "root.tar", folder / "root"
    for command in (
        ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(tar)],
        ["tar", "-xf", str(tar), "-C", str(root), "--exclude=./dev/*"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    (root / "etc" / "fstab").write_text("/dev/vda / ext4 rw 0 1\n")
    for name in ("vmlinuz", "initrd.img"):
        (found,) = (root / "boot").glob(f"{name}-*")
        shutil.copyfile(found, folder / name)
    disk = folder / "root.img"
    subprocess.run(["truncate", "-s", _SIZE, str(disk)], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-d", str(root), str(disk)], check=True)
    shutil.rmtree(root)
    tar.unlink()
    folder.replace(made)
    return made


class QemuGuest:
    """One guest, until `close`; its serial console is `read` and `write`."""

    processors = 2

    def __init__(self, folder: Path, user_data: str, device: str) -> None:
        folder.mkdir()
        self.folder = folder
        seed = folder / "seed"
        seed.mkdir()
        assert yaml.safe_load(user_data)
        (seed / "user-data").write_text(user_data)
        (seed / "meta-data").write_text(f"instance-id: {folder.name}\nlocal-hostname: guest\n")
        iso = folder / "seed.iso"
        names = [str(seed / "user-data"), str(seed / "meta-data")]
        subprocess.run(
            ["genisoimage", "-quiet", "-o", str(iso), "-V", "cidata", "-J", "-r", *names],
            check=True,
        )
        self._serial = folder / "serial.sock"
        with (folder / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command(image(), device, iso), stdout=log, stderr=log
            )
        self._socket = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + 30
        while True:
            try:
                self._socket.connect(str(self._serial))
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((folder / "qemu.log").read_text()) from None
                time.sleep(0.1)

    def _command(self, made: Path, device: str, seed: Path) -> list[str]:
        def disk(number: int, file: object, more: str, serial: str = "") -> list[str]:
            front = f"virtio-blk-pci,drive=d{number}" + (f",serial={serial}" if serial else "")
            drive = f"file={file},if=none,id=d{number},format=raw,{more}"
            return ["-drive", drive, "-device", front]

        console = f"socket,id=s,path={self._serial},server=on,wait=off"
        return [
            *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"),
            *("-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max"),
            *(
                "-smp",
                str(self.processors),
                "-m",
                "1024",
                "-nodefaults",
                "-display",
                "none",
                "-no-reboot",
            ),
            *("-kernel", str(made / "vmlinuz"), "-initrd", str(made / "initrd.img")),
            *("-append", "root=/dev/vda rw console=ttyS0"),
            *disk(0, made / "root.img", "snapshot=on"),
            *disk(1, device, "cache=none,aio=native", "leadline"),
            *disk(2, seed, "readonly=on"),
            *("-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n"),
            *("-device", "virtio-rng-pci", "-chardev", console, "-serial", "chardev:s"),
        ]

    def read(self) -> bytes:
        """What was written since; empty where nothing was for a moment, and at the end."""
        try:
            ready, _, _ = select.select([self._socket], [], [], 0.1)
            piece = self._socket.recv(65536) if ready else b""
        except (OSError, ValueError):
            time.sleep(0.1)
            return b""
        with (self.folder / "console.log").open("ab") as log:
            log.write(piece)
        return piece

    def write(self, piece: bytes) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(piece)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()
