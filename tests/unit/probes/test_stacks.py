"""The layers below paths and devices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.inventory.layer import Layer, LayerKind
from leadline.probes.mounts import find_mount, parse_mountinfo
from leadline.probes.stacks import Roots, find_server, layers_of_device, layers_of_path

_ZFS = Path(__file__).parents[2] / "recorded" / "zfs"
_ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
_QUEUE = {
    "rotational": "0",
    "logical_block_size": "512",
    "max_sectors_kb": "1280",
    "max_hw_sectors_kb": "4096",
    "nr_requests": "128",
    "scheduler": "none [mq-deadline] kyber",
    "read_ahead_kb": "128",
}


class Machine:
    """A tree of /proc and /sys that a test fills."""

    def __init__(self, folder: Path) -> None:
        self.roots = Roots(
            proc=folder / "proc", sys=folder / "sys", dev=folder / "dev", zfs=self._zfs
        )
        self.datasets: dict[str, Mapping[str, bytes]] = {}
        self.write("proc/self/mountinfo", _ROOT)
        self.device("vda", "254:0", place="pci0000:00/virtio1/block")

    def _zfs(self, dataset: str) -> Mapping[str, bytes]:
        return self.datasets.get(dataset, {})

    def write(self, name: str, text: str) -> None:
        path = self.roots.proc.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def mount(self, line: str) -> None:
        path = self.roots.proc / "self/mountinfo"
        path.write_text(path.read_text("utf-8") + line + "\n", "utf-8")

    def device(self, name: str, number: str, place: str = "virtual/block", **files: str) -> Path:
        """A device with a queue of its own, and files by name, `__` for each slash."""
        folder = self.roots.sys / "devices" / place / name
        (folder / "slaves").mkdir(parents=True, exist_ok=True)
        reported = {
            "dev": number,
            "size": "2048",
            **{f"queue__{key}": value for key, value in _QUEUE.items()},
            **files,
        }
        for key, value in reported.items():
            path = folder / key.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n", "utf-8")
        for link in (
            self.roots.sys / "class/block" / name,
            self.roots.sys / "dev/block" / number,
        ):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)
        return folder

    def path(self, path: str) -> list[Layer]:
        return list(layers_of_path(Path(path), self.roots))

    def names(self, path: str) -> list[str]:
        return [f"{layer.kind.value} {layer.name}" for layer in self.path(path)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_folder_lies_on_a_file_system_on_a_disk(machine: Machine) -> None:
    filesystem, disk = machine.path("/srv")
    assert (filesystem.kind, filesystem.name) == (LayerKind.FILESYSTEM, "ext4")
    assert filesystem.facts == {"mount_point": "/", "options": "rw,relatime,discard"}
    assert (disk.kind, disk.devices) == (LayerKind.BLOCK, ("vda",))
    assert disk.facts == {
        "type": "virtio",
        "size_bytes": str(2048 * 512),
        "rotational": "no",
        "logical_block_bytes": "512",
        "max_request_bytes": str(1280 << 10),
        "queue_depth": "128",
        "scheduler": "mq-deadline",
        "read_ahead_bytes": str(128 << 10),
    }


def test_a_loop_device_is_followed_to_the_file_system_of_its_file(machine: Machine) -> None:
    machine.device("loop3", "7:3", loop__backing_file="/images/a.img", loop__dio="1")
    machine.mount("45 27 7:3 / /mnt rw - xfs /dev/loop3 rw")
    assert machine.names("/mnt/x") == [
        "filesystem xfs",
        "block loop3",
        "filesystem ext4",
        "block vda",
    ]
    loop = machine.path("/mnt/x")[1]
    assert loop.facts["backing"] == "/images/a.img"
    assert loop.facts["direct_io"] == "yes"


def test_a_loop_device_on_a_mapped_image_is_followed_to_the_image(machine: Machine) -> None:
    machine.mount("46 27 0:5 / /dev rw - devtmpfs udev rw")
    machine.device("rbd0", "252:0")
    for file, reported in (("pool", "rep3"), ("name", "stand")):
        machine.write(f"sys/bus/rbd/devices/0/{file}", f"{reported}\n")
    machine.device("loop2", "7:2", loop__backing_file="/dev/rbd0")
    names = [
        f"{layer.kind.value} {layer.name}" for layer in layers_of_device("loop2", machine.roots)
    ]
    assert names == ["block loop2", "block rbd0", "image rep3/stand", "pool rep3"]


def test_of_a_namespace_with_paths_the_paths_count(machine: Machine) -> None:
    for name, number in (("nvme0n1", "259:1"), ("nvme0c0n1", "259:0"), ("nvme0c1n2", "259:3")):
        machine.device(name, number)
    machine.device("nvme1n1", "259:4")
    (layer,) = layers_of_device("nvme0n1", machine.roots)
    assert (layer.name, layer.devices) == ("nvme0n1", ("nvme0c0n1",))
    (plain,) = layers_of_device("nvme1n1", machine.roots)
    assert plain.devices == ("nvme1n1",)


def test_a_partition_of_lvm_on_raid(machine: Machine) -> None:
    for name, number in (("sda", "8:0"), ("sdb", "8:16")):
        whole = machine.device(name, number, place="pci0000:00/ata1/block")
        part = machine.device(f"{name}1", f"8:{int(number[2:]) + 1}", place="unused")
        (machine.roots.sys / "class/block" / f"{name}1").unlink()
        part.rename(whole / f"{name}1")
        (whole / f"{name}1/partition").write_text("1\n")
        (machine.roots.sys / "class/block" / f"{name}1").symlink_to(whole / f"{name}1")
    raid = machine.device("md0", "9:0", md__level="raid1", md__chunk_size="0")
    for part in ("sda1", "sdb1"):
        (raid / "slaves" / part).symlink_to(machine.roots.sys / "class/block" / part)
    volume = machine.device("dm-0", "252:0", dm__uuid="LVM-abc", dm__name="vg-data")
    (volume / "slaves/md0").symlink_to(raid)
    machine.mount("45 27 252:0 / /srv rw - ext4 /dev/mapper/vg-data rw")
    found = machine.path("/srv")
    assert [item.name for item in found] == ["ext4", "dm-0", "md0", "sda1, sdb1", "sda, sdb"]
    assert found[1].facts["mapping"] == "lvm"
    assert found[2].facts["level"] == "raid1"
    assert found[3].devices == ("sda1", "sdb1")
    assert found[3].facts["type"] == "partition"
    assert found[4].devices == ("sda", "sdb")


def test_devices_side_by_side_report_only_what_all_tell(machine: Machine) -> None:
    raid = machine.device("md0", "9:0", md__level="raid0")
    for name, number, queue in (("sda", "8:0", "32"), ("sdb", "8:16", "64")):
        disk = machine.device(name, number, device__queue_depth=queue, device__model="Swift")
        (raid / "slaves" / name).symlink_to(disk)
    disks = layers_of_device("md0", machine.roots)[-1]
    assert disks.facts["model"] == "Swift"
    assert "queue_depth" not in disks.facts


def test_a_mapped_image_of_krbd_and_its_pool(machine: Machine) -> None:
    machine.device("rbd0", "253:0")
    for key, value in {"pool": "rep3", "name": "k", "pool_ns": "", "features": "0x3d"}.items():
        machine.write(f"sys/bus/rbd/devices/0/{key}", f"{value}\n")
    block, image, pool = layers_of_device("rbd0", machine.roots)
    assert block.facts["type"] == "rbd"
    assert (image.kind, image.name) == (LayerKind.IMAGE, "rep3/k")
    assert image.facts == {"client": "krbd", "object_size_bytes": str(4 << 20), "features": "0x3d"}
    assert (pool.kind, pool.name) == (LayerKind.POOL, "rep3")


def test_an_image_that_rbd_fuse_serves_under_a_loop_device(machine: Machine) -> None:
    machine.mount("50 27 0:44 / /lab/rbdf rw,nosuid - fuse.rbd-fuse rbd-fuse rw,user_id=0")
    machine.device("loop1", "7:1", loop__backing_file="/lab/rbdf/zfs0")
    machine.write("proc/811/cmdline", "rbd-fuse\0-c\0/etc/c.conf\0-p\0rep2\0/lab/rbdf\0")
    machine.write("proc/811/environ", "A=b\0CEPH_ARGS=--id x --admin-socket /run/f.asok\0")
    machine.write("proc/900/cmdline", "rbd-fuse\0-p\0other\0/elsewhere\0")
    block, fuse, image, pool = layers_of_device("loop1", machine.roots)
    assert block.facts["backing"] == "/lab/rbdf/zfs0"
    assert (fuse.kind, fuse.name) == (LayerKind.FUSE, "/lab/rbdf")
    assert fuse.facts == {"program": "rbd-fuse", "connection": "44"}
    assert image.name == "rep2/zfs0"
    assert image.facts == {"client": "rbd-fuse", "admin_socket": "/run/f.asok"}
    assert pool.name == "rep2"


def test_without_its_process_the_image_of_rbd_fuse_is_not_made_up(machine: Machine) -> None:
    machine.mount("50 27 0:44 / /lab/rbdf rw - fuse.rbd-fuse rbd-fuse rw")
    assert machine.names("/lab/rbdf/zfs0") == ["fuse /lab/rbdf"]


def test_a_mount_of_nfs(machine: Machine) -> None:
    machine.mount(
        "50 27 0:61 / /home rw - nfs4 filer:/export rw,vers=4.2,rsize=1048576,wsize=262144"
    )
    (mount,) = machine.path("/home/me")
    assert (mount.kind, mount.name) == (LayerKind.NFS, "/home")
    assert mount.facts["server"] == "filer:/export"
    assert mount.facts["version"] == "4.2"
    assert mount.facts["rsize_bytes"] == "1048576"
    assert mount.facts["wsize_bytes"] == "262144"


def test_a_mount_of_cephfs_by_the_kernel(machine: Machine) -> None:
    server = "10.0.0.1:3300,10.0.0.2:3300:/volumes"
    machine.mount(f"50 27 0:62 / /files rw - ceph {server} rw,name=admin,secret=<hidden>,acl")
    (mount,) = machine.path("/files/me")
    assert (mount.kind, mount.name) == (LayerKind.FILESYSTEM, "ceph")
    assert mount.facts["server"] == server


def test_a_dataset_and_the_devices_of_its_pool(machine: Machine) -> None:
    machine.mount("50 27 0:47 / /tank/r4M rw - zfs tank/r4M rw,xattr")
    for number, name in enumerate(("vdd", "vde", "vdf", "vdg")):
        machine.device(name, f"254:{16 * (number + 3)}")
    status = (_ZFS / "zpool-status.txt").read_bytes()
    machine.datasets["tank/r4M"] = {
        "zpool-status.txt": status.partition(b"  pool: tank2")[0],
        "zpool-get.txt": (_ZFS / "zpool-get-all.txt").read_bytes(),
        "zfs-get.txt": (_ZFS / "zfs-get-Hp-all.txt").read_bytes(),
    }
    dataset, disks = machine.path("/tank/r4M")
    assert (dataset.kind, dataset.name) == (LayerKind.ZFS, "tank/r4M")
    assert dataset.devices == disks.devices == ("vdd", "vde", "vdf", "vdg")
    assert dataset.facts == {
        "pool": "tank",
        "implementation": "kernel",
        "recordsize_bytes": str(4 << 20),
        "compression": "off",
        "sync": "standard",
        "logbias": "latency",
        "primarycache": "all",
        "ashift": "12",
        "layout": "2 x mirror of 2",
        "mount_point": "/tank/r4M",
    }


def test_a_dataset_that_a_daemon_serves_is_a_fuse_mount_too(machine: Machine) -> None:
    machine.mount("50 27 0:47 / /z rw - fuse.zfs pool/x rw,user_id=0")
    (dataset,) = machine.path("/z/file")
    assert (dataset.kind, dataset.name) == (LayerKind.ZFS, "pool/x")
    assert dataset.facts == {"pool": "pool", "mount_point": "/z", "connection": "47"}


def test_what_an_overlay_is_written_to(machine: Machine) -> None:
    machine.mount(
        "60 27 0:70 / /merged rw - overlay overlay rw,lowerdir=/l,upperdir=/up,workdir=/w"
    )
    assert machine.names("/merged/x") == ["filesystem overlay", "filesystem ext4", "block vda"]


def test_a_circle_ends_where_it_began(machine: Machine) -> None:
    machine.device("loop5", "7:5", loop__backing_file="/mnt/inside.img")
    machine.mount("45 27 7:5 / /mnt rw - ext4 /dev/loop5 rw")
    assert machine.names("/mnt") == ["filesystem ext4", "block loop5"]
    one = machine.device("dm-1", "252:1")
    two = machine.device("dm-2", "252:2")
    (one / "slaves/dm-2").symlink_to(two)
    (two / "slaves/dm-1").symlink_to(one)
    assert [layer.name for layer in layers_of_device("dm-1", machine.roots)] == ["dm-1", "dm-2"]


def test_what_is_unreported_ends_the_walk(machine: Machine, tmp_path: Path) -> None:
    machine.mount("45 27 8:1 / /gone rw - ext4 /dev/sda1 rw")
    assert machine.names("/gone") == ["filesystem ext4"]
    nothing = Roots(proc=tmp_path / "no", sys=tmp_path / "no", dev=tmp_path / "no")
    assert layers_of_path(Path("/srv"), nothing) == ()
    (unknown,) = layers_of_device("sdx", nothing)
    assert unknown.facts == {"type": "disk"}


def test_a_later_mount_hides_what_was_mounted_below_before() -> None:
    rows = parse_mountinfo(
        _ROOT
        + "30 27 8:1 / /a/b rw - ext4 /dev/sda1 rw\n"
        + "31 27 8:2 / /a rw - xfs /dev/sda2 rw\n"
        + "32 31 8:3 / /a/c\\040d rw - btrfs /dev/sda3 rw\n"
    )

    def at(path: str) -> str:
        found = find_mount(rows, PurePosixPath(path))
        return found.filesystem if found else ""

    # /a/b is below the old /a, which the mount at /a hides.
    assert at("/a/b/x") == "xfs"
    assert at("/a/c d/x") == "btrfs"
    assert at("/ab") == "ext4"
    again = [*rows, *parse_mountinfo("33 32 8:4 / /a/c\\040d rw - f2fs /dev/sda4 rw\n")]
    found = find_mount(again, PurePosixPath("/a/c d"))
    assert found is not None
    assert found.filesystem == "f2fs"


@given(st.text())
def test_no_text_breaks_the_reading_of_mounts(text: str) -> None:
    find_mount(parse_mountinfo(text), PurePosixPath("/a/b"))


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Of two servers, the first with a mount point that a test says."""
    for pid, place in ((811, "dead"), (900, "here")):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (tmp_path / place).mkdir()
        (folder / "cmdline").write_text(f"rbd-fuse\0-p\0rep{pid}\0{tmp_path / place}\0")
    return tmp_path / "proc"


def serves(place: Path, proc: Path) -> str | None:
    """The pool that is served there."""
    (mount,) = parse_mountinfo(f"50 27 0:44 / {place} rw - fuse.rbd-fuse rbd-fuse rw\n")
    server = find_server(mount, proc)
    return server.pool if server else None


def test_nothing_is_asked_of_what_others_have_mounted(
    proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With storage that died below it, whoever looks at a mount point hangs for good."""
    looked: list[str] = []
    real = os.lstat

    def lstat(path: Any, **more: Any) -> os.stat_result:
        looked.append(os.fspath(path))
        return real(path, **more)

    monkeypatch.setattr(os, "lstat", lstat)
    assert serves(tmp_path / "here", proc) == "rep900"
    assert looked
    assert str(tmp_path / "dead") not in looked


def test_a_mount_point_behind_symbolic_links_is_known(proc: Path, tmp_path: Path) -> None:
    (tmp_path / "above").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to("above/here")
    (proc / "900" / "cmdline").write_text(f"rbd-fuse\0-p\0mine\0{tmp_path / 'link'}\0")
    assert serves(tmp_path / "here", proc) == "mine"
    (proc / "900" / "cmdline").write_text("rbd-fuse\0-p\0relative\0above/here\0")
    (proc / "900" / "cwd").symlink_to(tmp_path)
    assert serves(tmp_path / "here", proc) == "relative"


def test_a_mount_that_no_argument_names_has_no_known_server(proc: Path, tmp_path: Path) -> None:
    assert serves(tmp_path / "elsewhere", proc) is None
