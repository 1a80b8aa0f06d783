"""The session's guest, in a lab's network: real OpenZFS, krbd and NVMe over TCP for these tests.

They take minutes, so that they bear the marker `deep`. What is missing here fails; nothing is
skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.connect.ceph import CephAccess
from leadline.lab.state import lab_access
from tests.guest import image
from tests.guest.zfs_guest import ZfsGuest

_HERE = Path(__file__).resolve().parent
# A plain file of the host, and an image that QEMU serves by librbd: serial numbers of disks.
FILE_DISK, IMAGE_DISK = "file", "librbd"
DISK_IMAGE = "rep3/disk"
_FILE_BYTES = 4 << 30
_LAB = "guest"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.deep)


@pytest.fixture(scope="session")
def parts() -> None:
    """What a guest is made of; fails where it cannot be had."""
    missing = image.lacks()
    if os.geteuid() != 0:
        missing.append("root: Debian's root and the lab's network need it")
    if missing:
        pytest.fail(f"no guest here; scripts/guest-parts.sh. Missing: {missing}", pytrace=False)


@pytest.fixture(scope="session")
def lab(parts: None) -> Iterator[CephAccess]:
    """A lab with three OSDs and the image of the guest's second disk."""
    # Sockets have short paths: not below pytest's own folders.
    labs = Path(tempfile.mkdtemp(prefix="ll-labs-"))
    try:
        _lab("up", _LAB, "--osds", "3", labs=labs)
        access = lab_access(_LAB, labs)
        subprocess.run(access.command("rbd", "create", DISK_IMAGE, "--size", "1G"), check=True)
        yield access
    finally:
        _lab("down", _LAB, labs=labs)
        shutil.rmtree(labs, ignore_errors=True)


def _lab(verb: str, *arguments: str, labs: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leadline", "lab", verb, *arguments, "--labs", str(labs)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"leadline lab {verb}: {done.stderr}")


@pytest.fixture(scope="session")
def guest(lab: CephAccess) -> Iterator[ZfsGuest]:
    """The guest that most tests share; each leaves it as it found it."""
    folder = Path(tempfile.mkdtemp(prefix="ll-guest-"))
    disks = {FILE_DISK: _file(folder), IMAGE_DISK: f"rbd:{DISK_IMAGE}:conf={lab.conf}"}
    try:
        with ZfsGuest(folder, disks, lab.prefix) as running:
            running.write("/etc/ceph/ceph.conf", lab.conf.read_text())
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _file(folder: Path) -> Path:
    disk = folder / "disk"
    with disk.open("wb") as stream:
        stream.truncate(_FILE_BYTES)
    return disk


@pytest.fixture
def tank(guest: ZfsGuest) -> Iterator[str]:
    """The user's pool on the first disk, empty before and after."""
    guest.sh(f"zpool create -o ashift=12 tank {device(FILE_DISK)}")
    yield "tank"
    left = guest.sh("zfs list -H -o name -r tank").split()
    guest.sh("zpool destroy tank")
    assert left == ["tank"], "nothing of Leadline's is left in the user's pool"


def device(serial: str) -> str:
    """The path in the guest of a disk."""
    return f"/dev/disk/by-id/virtio-{serial}"
