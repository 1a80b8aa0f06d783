"""What lies below a path, a file or a block device on this machine, from the top down, by what the
kernel tells of itself: /proc/self/mountinfo, /sys/class/block, /sys/bus/rbd.

Nothing here raises: a walk ends where nothing more is told, and where it has been before. Where a
layer stands on several devices or files (RAID, a pool of ZFS), all of them are followed, those of
one level as one layer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from leadline.archive.records import Layer, LayerKind
from leadline.probes import fuse_servers
from leadline.probes.block_facts import block_facts, device_type, whole_device, word
from leadline.probes.images import KRBD, RBD_FUSE, image_layers
from leadline.probes.mount_table import MountRow, mount_at, mount_rows
from leadline.probes.nvme import path_devices
from leadline.probes.zfs import leaf_vdevs, zfs_dumps, zfs_layer

_NFS = ("nfs", "nfs4")
_ZFS = {"zfs": "kernel", "fuse.zfs": "fuse"}
# Facts of one device of several, which say nothing of all.
_OWN_FACTS = ("backing", "offset_bytes", "size_bytes", "mapped_name", "address", "controllers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """Where the kernel's file systems are; `zfs` asks for the dumps of a dataset."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    zfs: Callable[[str], Mapping[str, bytes]] = zfs_dumps


_HERE = Roots()


def layers_of_path(path: Path, roots: Roots = _HERE) -> tuple[Layer, ...]:
    """What holds a file or a folder: its file system first."""
    return _walked(lambda walk: walk.path(path), roots)


def layers_of_file(path: Path, roots: Roots = _HERE) -> tuple[Layer, ...]:
    """What a file stands for: itself a device where it is one, else what holds it."""
    try:
        device = path.is_block_device()
    except OSError:
        device = False
    return layers_of_device(path.resolve().name, roots) if device else layers_of_path(path, roots)


def layers_of_device(name: str, roots: Roots = _HERE) -> tuple[Layer, ...]:
    """A block device by its name in /proc/diskstats, and what it stands on."""
    return _walked(lambda walk: walk.devices([name]), roots)


def _walked(begin: Callable[[_Walk], None], roots: Roots) -> tuple[Layer, ...]:
    walk = _Walk(roots=roots)
    # A loop of links, a name that no file can have: what was found stands.
    with suppress(OSError, ValueError, RuntimeError):
        begin(walk)
    return tuple(walk.layers)


@dataclass(slots=True, kw_only=True)
class _Walk:
    roots: Roots
    layers: list[Layer] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    # --- file systems ----------------------------------------------------------------------------

    def path(self, path: Path) -> None:
        table = mount_rows(word(self.roots.proc / "self/mountinfo"))
        whole = Path(os.path.realpath(path))
        mount = mount_at(table, PurePosixPath(whole))
        if mount is None or not self._new(f"mount {mount.id}"):
            return
        if mount.filesystem in _ZFS:
            self._zfs(mount.source, _ZFS[mount.filesystem], mount)
        elif mount.filesystem in _NFS:
            self._nfs(mount)
        elif mount.filesystem == "fuse" or mount.filesystem.startswith("fuse."):
            self._fuse(mount, whole)
        else:
            self._filesystem(mount)

    def _filesystem(self, mount: MountRow) -> None:
        facts = {"mount_point": mount.mount_point, "options": mount.options}
        self.layers.append(Layer(kind=LayerKind.FILESYSTEM, name=mount.filesystem, facts=facts))
        below = self._mounted_device(mount)
        if below:
            self.devices([below])
        elif mount.option("upperdir"):  # of an overlay: what is written goes there
            self.path(Path(mount.option("upperdir")))

    def _mounted_device(self, mount: MountRow) -> str:
        """Some file systems have a number of their own and tell their device by its name only."""
        by_number = self.roots.sys / "dev/block" / mount.number
        if by_number.exists():
            return by_number.resolve().name
        if not mount.source.startswith("/"):
            return ""
        name = Path(os.path.realpath(mount.source)).name
        return name if (self.roots.sys / "class/block" / name).exists() else ""

    def _zfs(self, dataset: str, implementation: str, mount: MountRow | None = None) -> None:
        dumps = self.roots.zfs(dataset)
        leaves = leaf_vdevs(dumps)
        devices = [
            name
            for one in leaves
            if (self.roots.sys / "class/block" / (name := _device_name(one))).exists()
        ]
        layer = zfs_layer(dataset, dumps, devices, implementation)
        self.layers.append(layer.model_copy(update={"facts": {**layer.facts, **_mounted(mount)}}))
        self.devices(devices)
        for one in leaves:
            if _device_name(one) not in devices and one.startswith("/"):
                self.path(Path(one))

    def _nfs(self, mount: MountRow) -> None:
        asked = {
            "server": mount.source,
            "version": mount.option("vers"),
            "rsize_bytes": mount.option("rsize"),
            "wsize_bytes": mount.option("wsize"),
            "transport": mount.option("proto"),
            "connections": mount.option("nconnect"),
            "options": mount.options,
        }
        facts = {key: value for key, value in asked.items() if value}
        self.layers.append(Layer(kind=LayerKind.NFS, name=mount.mount_point, facts=facts))

    def _fuse(self, mount: MountRow, path: Path) -> None:
        program = fuse_servers.program_of(mount)
        facts = {"program": program, "connection": _connection(mount)}
        self.layers.append(Layer(kind=LayerKind.FUSE, name=mount.mount_point, facts=facts))
        if program != RBD_FUSE:
            return
        server = fuse_servers.server_of(mount, self.roots.proc)
        image = path.relative_to(mount.mount_point).parts
        if server is None or not server.pool or len(image) != 1:
            return
        socket = {"admin_socket": server.admin_socket} if server.admin_socket else {}
        self.layers += image_layers(server.pool, image[0], RBD_FUSE, socket)

    # --- devices ---------------------------------------------------------------------------------

    def devices(self, names: Iterable[str]) -> None:
        """Devices that lie beside each other, and what is below them."""
        sys = self.roots.sys
        here = [name for name in dict.fromkeys(names) if self._new(f"device {name}")]
        if not here:
            return
        facts = [block_facts(name, sys) for name in here]
        self.layers.append(
            Layer(
                kind=LayerKind.BLOCK,
                name=", ".join(here),
                devices=tuple(one for name in here for one in path_devices(name, sys) or (name,)),
                facts=facts[0] if len(here) == 1 else _common(facts),
            )
        )
        self.devices(below for name in here for below in self._below(name))
        for name, told in zip(here, facts, strict=True):
            kind = told.get("type", "")
            if kind == "loop" and told.get("backing", "").startswith("/"):
                self._backing(told["backing"])
            elif kind == "rbd":
                self._mapped_image(name)
            elif kind == "zvol":
                self._volume(name)

    def _backing(self, file: str) -> None:
        """What a loop device stands on: a file, or a device by its file in /dev."""
        name = _device_name(file)
        if file.startswith("/dev/") and (self.roots.sys / "class/block" / name).exists():
            self.devices([name])
        else:
            self.path(Path(file))

    def _below(self, name: str) -> list[str]:
        """A partition's device, or the parts of what is made of others."""
        sys = self.roots.sys
        if device_type(name, sys) == "partition":
            return list(filter(None, [whole_device(name, sys)]))
        return sorted(_listed(sys / "class/block" / name / "slaves"))

    def _mapped_image(self, name: str) -> None:
        number = name.removeprefix("rbd")
        folder = self.roots.sys / "bus/rbd/devices" / number
        pool, image = word(folder / "pool"), word(folder / "name")
        if not pool or not image:
            return
        space = word(folder / "pool_ns")
        # drivers/block/rbd.c takes no request that goes over a set of objects; of the usual layout
        # a set is one object.
        limit = word(self.roots.sys / "class/block" / name / "queue/max_hw_sectors_kb")
        facts = {"object_size_bytes": str(int(limit) * 1024)} if limit.isdecimal() else {}
        facts |= {"features": word(folder / "features"), "namespace": space}
        facts = {key: value for key, value in facts.items() if value}
        self.layers += image_layers(pool, f"{space}/{image}" if space else image, KRBD, facts)

    def _volume(self, name: str) -> None:
        """The dataset of a volume of ZFS, by the links that udev makes."""
        links = self.roots.dev / "zvol"
        for folder, _, files in os.walk(links):
            for file in files:
                link = Path(folder) / file
                if Path(os.path.realpath(link)).name == name:
                    self._zfs(str(link.relative_to(links)), "kernel")
                    return

    def _new(self, what: str) -> bool:
        new = what not in self.seen
        self.seen.add(what)
        return new


def _mounted(mount: MountRow | None) -> dict[str, str]:
    """Where a dataset is mounted, and the FUSE connection of a daemon that serves it."""
    if mount is None:
        return {}
    facts = {"mount_point": mount.mount_point}
    if mount.filesystem.startswith("fuse"):
        facts["connection"] = _connection(mount)
    return facts


def _connection(mount: MountRow) -> str:
    """The number in /sys/fs/fuse/connections, which is that of the mount's device."""
    return mount.number.partition(":")[2]


def _device_name(path: str) -> str:
    """`sda` of `/dev/disk/by-id/...`, `loop1` of `loop1`."""
    return Path(os.path.realpath(path)).name if path.startswith("/") else path


def _common(facts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What all tell alike."""
    first, *others = facts
    return {
        key: value
        for key, value in first.items()
        if key not in _OWN_FACTS and all(one.get(key) == value for one in others)
    }


def _listed(folder: Path) -> list[str]:
    try:
        return [one.name for one in folder.iterdir()]
    except OSError:
        return []
