"""A stand-in for a guest: a terminal on which the real agent runs, in namespaces of its own on this
machine's kernel, started by what the real Secret says, with a real block device as its data disk.

Its init does of cloud-init `write_files` and `runcmd`. What it cannot show, a guest's kernel, its
serial driver and the real cloud-init, test_guest.py shows with QEMU.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
import tty
from pathlib import Path

import yaml

from tests.kubernetes.apart import apart

_INIT = r"""
set -e
folder=$1 terminal=$2 device=$3
mount -t tmpfs run /run
mount -t tmpfs lib /usr/local/lib
new=$folder/dev
mkdir -p "$new"
mount -t tmpfs dev "$new"
for one in null zero full random urandom tty; do cp -a "/dev/$one" "$new/"; done
mkdir -p "$new/pts" "$new/shm" "$new/disk/by-id"
mount --bind /dev/pts "$new/pts"
: >"$new/ttyS0"
mount --bind "$terminal" "$new/ttyS0"
cp -a "$device" "$new/vdb"
ln -s /dev/vdb "$new/disk/by-id/virtio-leadline"
mount --move "$new" /dev
# These would reach the machine that this is, in a way, the guest of.
export PATH=$folder/bin:$PATH
printf 'SeaBIOS\r\n[    0.000000] Linux version of a double\r\nguest login: ' >/dev/ttyS0
exec "$4" -I -c '
import json, subprocess, sys, time
from pathlib import Path
seed = json.load(open(sys.argv[1]))
for one in seed["write_files"]:
    path = Path(one["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(one["content"])
for one in seed["runcmd"]:
    subprocess.run(one, check=True)
while True:
    time.sleep(60)
' "$folder/seed.json"
"""


class GuestDouble:
    """One guest, until `close`; its serial console is `read` and `write`."""

    def __init__(self, folder: Path, user_data: str, device: str) -> None:
        folder.mkdir()
        (folder / "bin").mkdir()
        for name in ("dmesg", "mknod"):
            stub = folder / "bin" / name
            stub.write_text("#!/bin/sh\nexit 0\n")
            stub.chmod(0o755)
        assert user_data.startswith("#cloud-config\n")
        (folder / "seed.json").write_text(json.dumps(yaml.safe_load(user_data)))
        self._ours, theirs = pty.openpty()
        tty.setraw(self._ours)
        flags = ["--mount", "--propagation=private", "--pid", "--mount-proc", "--fork"]
        arguments = [str(folder), os.ttyname(theirs), device, sys.executable]
        with (folder / "init.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*apart(*flags, "--kill-child"), "sh", "-c", _INIT, "init", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # Open as long as the guest is there: a terminal that no user has open is at its end.
        self._theirs = theirs
        self.folder = folder

    def read(self) -> bytes:
        """What was written since; empty where nothing was for a moment, and at the end."""
        try:
            ready, _, _ = select.select([self._ours], [], [], 0.1)
            return os.read(self._ours, 65536) if ready else b""
        except OSError:
            time.sleep(0.1)
            return b""

    def write(self, piece: bytes) -> None:
        os.write(self._ours, piece)

    def freeze(self) -> None:
        """Stop all that runs in the guest, as a hung kernel does."""
        subprocess.run(["sh", "-c", _SIGNAL_ALL, "sh", str(self._process.pid), "STOP"], check=True)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._theirs)


# The processes of the PID namespace that the first argument made.
_SIGNAL_ALL = """
inside=$(readlink "/proc/$1/ns/pid_for_children")
for one in /proc/[0-9]*; do
    [ "$(readlink "$one/ns/pid")" = "$inside" ] && kill -s "$2" "${one#/proc/}"
done
exit 0
"""
