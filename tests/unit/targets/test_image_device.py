"""The kernel's client of RBD, which a machine for tests may not have: its programs are played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline import errors
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.plan.target_url import Vdev
from leadline.targets import daemons, image_device
from leadline.targets.image_device import SharedImageNames, parse_names

ACCESS = CephAccess(conf=Path("/etc/ceph/ceph.conf"))
REFUSED = """\
rbd: sysfs write failed
RBD image feature set mismatch. You can disable features unsupported by the kernel with "rbd \
feature disable rbd/x object-map fast-diff deep-flatten".
rbd: map failed: (6) No such device or address
"""


class Kernel:
    """`rbd device map` and `unmap` of `rbd0`."""

    def __init__(self, status: int | None = 0, err: str = "") -> None:
        self.status, self.err = status, err
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *command: str, bound_s: float) -> tuple[int | None, str, str]:
        self.asked.append(command)
        if "map" in command:
            return self.status, "" if self.err else "/dev/rbd0\n", self.err
        return 0, "", ""


@pytest.mark.root
def test_who_keeps_a_mount_in_a_namespace_of_its_own_is_told(tmp_path: Path) -> None:
    """A process that took a copy of all mounts keeps one that is unmounted here."""
    place = tmp_path / "leadline-0123456789abcdef"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    apart = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 60"]
    keeper = subprocess.Popen(apart, stdout=subprocess.PIPE)
    try:
        assert keeper.stdout is not None
        keeper.stdout.readline()  # it has its copy
        subprocess.run(["umount", place], check=True)
        (told,) = image_device.mounted_elsewhere(place.name)
        assert told.startswith(f"process {keeper.pid} (")
        assert image_device.mounted_elsewhere("leadline-of-nobody", ["no-such-device"]) == ()
    finally:
        keeper.kill()
        keeper.communicate()
    assert image_device.mounted_elsewhere(place.name) == ()


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "block"
    (folder / "rbd0").mkdir(parents=True)
    (folder / "rbd0" / "ro").write_text("0\n")
    monkeypatch.setattr(image_device, "_BLOCK", folder)
    return folder


def test_the_device_of_a_mapped_image_is_told(block: Path) -> None:
    kernel = Kernel()
    assert image_device.map_by_kernel(ACCESS, "rbd/x", run=kernel) == Path("/dev/rbd0")
    assert [command[-3:] for command in kernel.asked] == [("device", "map", "rbd/x")]


def test_monitors_of_the_second_protocol_alone_are_asked_in_it(block: Path) -> None:
    class Newer(Kernel):
        def __call__(self, *command: str, bound_s: float) -> tuple[int | None, str, str]:
            self.asked.append(command)
            if "ms_mode=prefer-crc" in command:
                return 0, "/dev/rbd0\n", ""
            return 2, "", "rbd: failed to get mon address (possible ms_mode mismatch)\n"

    kernel = Newer()
    assert image_device.map_by_kernel(ACCESS, "rbd/x", run=kernel) == Path("/dev/rbd0")
    assert len(kernel.asked) == 2
    assert kernel.asked[1][-3:] == ("-o", "ms_mode=prefer-crc", "rbd/x")


def test_an_image_that_is_mapped_read_only_is_given_back_and_refused(block: Path) -> None:
    (block / "rbd0" / "ro").write_text("1\n")
    kernel = Kernel()
    with pytest.raises(LeadlineError) as caught:
        image_device.map_by_kernel(ACCESS, "rbd/x", run=kernel)
    assert caught.value.kind is errors.IMAGE_NOT_MAPPED
    assert "read-only" in caught.value.fact
    assert kernel.asked[-1][-2:] == ("unmap", "/dev/rbd0")


@pytest.mark.parametrize(("status", "err"), [(6, REFUSED), (None, "")])
def test_what_the_kernel_refuses_is_told_in_its_words(
    block: Path, status: int | None, err: str
) -> None:
    with pytest.raises(LeadlineError) as caught:
        image_device.map_by_kernel(ACCESS, "rbd/x", run=Kernel(status, err))
    assert caught.value.kind is errors.IMAGE_NOT_MAPPED
    said = "feature set mismatch" if err else "no answer"
    assert any(said in line for line in caught.value.context)


def test_only_the_devices_of_our_image_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [
        {"id": "0", "pool": "rbd", "name": "users", "device": "/dev/rbd0"},
        {"id": "1", "pool": "rbd", "name": "leadline-r-t", "device": "/dev/rbd1"},
    ]
    monkeypatch.setattr(image_device, "_BUS", tmp_path)
    answer = json.dumps(rows)
    found = image_device.mapped_devices(
        "rbd/leadline-r-t", run=lambda *words, bound_s: (0, answer, "")
    )
    assert found == ("/dev/rbd1",)


def test_loops_are_ours_by_the_token_or_by_the_very_device(block: Path) -> None:
    files = {
        "loop0": "/home/user/disk.img",
        "loop1": "/run/leadline-0123/image/leadline-r-0123",
        "loop2": "/dev/rbd1",
        "loop3": "/dev/rbd10",
    }
    for name, file in files.items():
        (block / name / "loop").mkdir(parents=True)
        (block / name / "loop" / "backing_file").write_text(f"{file}\n")
    (block / "loop4").mkdir()  # not in use
    assert image_device.loops_on("0123", ["/dev/rbd1"]) == ("loop1", "loop2")


def test_all_names_of_a_stand_come_from_its_journal_entry() -> None:
    names = SharedImageNames(pool="rep2", image="leadline-run-0123", token="0123")
    assert parse_names(names.url, "0123") == names
    log = names.of_vdev(Vdev(vdev_class="log", pool="fast", size=1 << 30))
    assert log.url == "shared:fast/leadline-run-0123.log"
    assert parse_names(log.url, "0123") == log
    assert (log.zpool, log.folder) == (names.zpool, names.folder)
    assert not {log.exposed, log.socket, log.log} & {names.exposed, names.socket, names.log}
    assert not names.is_own_of("run"), "no token of Leadline's"
    token = "0" * 16
    for end, own in (("", True), (".log", True), (".other", False), (".log.log", False)):
        image = f"leadline-run-{token}{end}"
        assert SharedImageNames(pool="rep2", image=image, token=token).is_own_of("run") is own
        assert not SharedImageNames(pool="rep2", image=image, token=token).is_own_of("other")
        assert not SharedImageNames(pool="rep2", image=image, token="").is_own_of("run")
    assert not SharedImageNames(pool="rep2", image="users", token=token).is_own_of("run")
    longest = SharedImageNames(pool="p", image=f"leadline-{'r' * 100}-{token}", token=token)
    # A Unix socket's path; ours lies below /run.
    assert len(os.fsencode(longest.socket)) < 100


def test_processes_are_ours_by_program_and_folder_only(tmp_path: Path) -> None:
    folder, other = tmp_path / "leadline-1", tmp_path / "leadline-11"
    wait = [sys.executable, "-c", "import time; time.sleep(600)"]
    name = Path(sys.executable).name
    children = [subprocess.Popen([*wait, str(one / "pid")]) for one in (folder, other)]
    try:
        end = time.monotonic() + 60
        while not daemons.find_processes(name, folder) and time.monotonic() < end:
            time.sleep(0.02)
        assert daemons.find_processes(name, folder) == (children[0].pid,)
        assert daemons.find_processes("zfs-fuse", folder) == ()
        assert daemons.end(name, folder)
        assert daemons.find_processes(name, folder) == ()
        assert children[1].poll() is None
    finally:
        for child in children:
            child.kill()
            child.wait()
