"""The layers below a path, a file or a block device on this machine, from the top down.

Sources: /proc/self/mountinfo, /sys/class/block, /sys/bus/rbd. Nothing raises: a walk ends at
unknown layers and at visited ones. A layer with several devices or files (RAID, a ZFS pool) is
followed through all of them; those of one level are one layer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from leadline.inventory.layer import Layer, LayerKind
from leadline.probes.mounts import MountRow, find_mount, parse_mountinfo
from leadline.probes.nvme import list_names, namespace_facts, path_devices, read_word
from leadline.probes.zfs import leaf_vdevs, zfs_dumps, zfs_layer

LIBRBD, KRBD, RBD_FUSE, QEMU_NBD = "librbd", "krbd", "rbd-fuse", "qemu-nbd"


def image_layers(
    pool: str, image: str, client: str, facts: Mapping[str, str] | None = None
) -> tuple[Layer, Layer]:
    """Return the layers of the image `pool/image` behind `client`, and of its (data) pool."""
    known = dict(facts or {})
    return (
        Layer(kind=LayerKind.IMAGE, name=f"{pool}/{image}", facts={"client": client, **known}),
        Layer(kind=LayerKind.POOL, name=known.get("data_pool") or pool),
    )


def parse_image_info(text: str) -> dict[str, str]:
    """Parse the facts of an image from `rbd info --format json`; none for another text."""
    try:
        row = json.loads(text)
        facts = {
            "object_size_bytes": int(row.get("object_size") or 1 << int(row["order"])),
            "size_bytes": int(row["size"]),
            "stripe_unit_bytes": row.get("stripe_unit", ""),
            "stripe_count": row.get("stripe_count", ""),
            "data_pool": row.get("data_pool", ""),
            "block_name_prefix": row.get("block_name_prefix", ""),
            "features": ",".join(map(str, row.get("features", ()))),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {key: str(value) for key, value in facts.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseServer:
    """A Ceph program with the options of its command line. `pool` is the pool of rbd-fuse (default
    `rbd`); `admin_socket` is empty without the option."""

    pid: int
    pool: str = ""
    admin_socket: str = ""


def program_of(mount: MountRow) -> str:
    """Return the program of a FUSE mount: `rbd-fuse`, `ceph-fuse`, `sshfs`."""
    return mount.filesystem.partition(".")[2] or mount.source.rpartition("/")[2] or "unknown"


def find_server(mount: MountRow, proc: Path) -> FuseServer | None:
    """Return the process of the mount's program with the mount point among its arguments; None
    where it is invisible: of another user, or with another name of the mount point."""
    program = program_of(mount)
    for pid in sorted(
        int(folder.name)
        for folder in [proc / name for name in list_names(proc)]
        if folder.name.isdecimal()
    ):
        words = _words(proc / str(pid) / "cmdline")
        if not words or words[0].rpartition("/")[2] != program:
            continue
        here = _link(proc / str(pid) / "cwd")
        places = {_resolve_parent(here / word) for word in words[1:] if word[:1] != "-"}
        if mount.mount_point in places:
            settings = _words(proc / str(pid) / "environ")
            more = next(
                (setting[10:].split() for setting in settings if setting.startswith("CEPH_ARGS=")),
                [],
            )
            return FuseServer(
                pid=pid,
                pool=_option(words, "-p", "--poolname", "--pool") or "rbd",
                admin_socket=_option([*words, *more], "--admin-socket", "--admin_socket"),
            )
    return None


def _resolve_parent(path: Path) -> str:
    """Return the path without symbolic links. The mount itself is not accessed: an access blocks
    where its storage has failed."""
    with suppress(OSError):
        path = path.parent / path.readlink()
    return str(Path(os.path.realpath(path.parent)) / path.name)


def _option(words: Sequence[str], *names: str) -> str:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else next(iter(words[at + 1 :]), "")
    return ""


def _words(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return []


def _link(path: Path) -> Path:
    try:
        return path.readlink()
    except OSError:
        return Path("/")


# Facts of block devices: Documentation/ABI/stable/sysfs-block,
# Documentation/ABI/testing/sysfs-bus-rbd.
_KINDS = (("loop", "loop"), ("dm-", "dm"), ("md", "raid"), ("rbd", "rbd"), ("nvme", "nvme"))
_MORE_KINDS = (("zd", "zvol"), ("vd", "virtio"), ("nbd", "nbd"), ("zram", "memory"))


def device_type(name: str, sys: Path) -> str:
    """Return `partition`, `loop`, `dm`, `raid`, `rbd`, `nvme`, `zvol`, `virtio`, ... else
    `disk`."""
    folder = sys / "class/block" / name
    if (folder / "partition").exists():
        return "partition"
    known = next((kind for begin, kind in (*_KINDS, *_MORE_KINDS) if name.startswith(begin)), "")
    return known or "disk"


def whole_device(partition: str, sys: Path) -> str:
    """Return the device of a partition; empty where unknown."""
    parent = (sys / "class/block" / partition).resolve().parent
    return parent.name if (parent / "dev").exists() else ""


def block_facts(name: str, sys: Path) -> dict[str, str]:
    """Return the known facts of a device for `leadline.inventory.layer.Layer`."""
    folder = sys / "class/block" / name
    queue = folder / "queue"
    kind = device_type(name, sys)
    known = {
        "type": kind,
        "size_bytes": _times(read_word(folder / "size"), 512),
        "rotational": {"0": "no", "1": "yes"}.get(read_word(queue / "rotational"), ""),
        "logical_block_bytes": read_word(queue / "logical_block_size"),
        "max_request_bytes": _times(read_word(queue / "max_sectors_kb"), 1024),
        "queue_depth": read_word(folder / "device/queue_depth") or read_word(queue / "nr_requests"),
        "scheduler": _chosen(read_word(queue / "scheduler")),
        "read_ahead_bytes": _times(read_word(queue / "read_ahead_kb"), 1024),
        "model": read_word(folder / "device/model"),
        **_special_facts(kind, folder),
        **(namespace_facts(name, sys) if kind == "nvme" else {}),
    }
    return {key: value for key, value in known.items() if value}


def _special_facts(kind: str, folder: Path) -> dict[str, str]:
    """Return the facts of one kind of device."""
    if kind == "loop":
        return {
            "backing": read_word(folder / "loop/backing_file"),
            "offset_bytes": read_word(folder / "loop/offset"),
            "direct_io": {"0": "no", "1": "yes"}.get(read_word(folder / "loop/dio"), ""),
        }
    if kind == "dm":
        return {
            "mapping": read_word(folder / "dm/uuid").partition("-")[0].lower(),
            "mapped_name": read_word(folder / "dm/name"),
        }
    if kind == "raid":
        return {
            "level": read_word(folder / "md/level"),
            "chunk_bytes": read_word(folder / "md/chunk_size"),
        }
    return {}


def _times(text: str, factor: int) -> str:
    return str(int(text) * factor) if text.isascii() and text.isdecimal() else ""


def _chosen(schedulers: str) -> str:
    """Return `mq-deadline` for `none [mq-deadline] kyber`."""
    found = schedulers.partition("[")[2].partition("]")[0]
    return found or schedulers


_NFS = ("nfs", "nfs4")
_ZFS = {"zfs": "kernel", "fuse.zfs": "fuse"}
# Facts of one device that do not apply to several.
_OWN_FACTS = ("backing", "offset_bytes", "size_bytes", "mapped_name", "address", "controllers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The folders of the kernel's file systems; `zfs` returns the dumps of a dataset."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    zfs: Callable[[str], Mapping[str, bytes]] = zfs_dumps


_HERE = Roots()


def layers_of_path(path: Path, roots: Roots = _HERE) -> tuple[Layer, ...]:
    """Return the layers of a file or a folder, its file system first."""
    return _collect(lambda walk: walk.path(path), roots)


def layers_of_device(name: str, roots: Roots = _HERE) -> tuple[Layer, ...]:
    """Return the layers of a block device by its name in /proc/diskstats."""
    return _collect(lambda walk: walk.devices([name]), roots)


def _collect(begin: Callable[[_Walk], None], roots: Roots) -> tuple[Layer, ...]:
    walk = _Walk(roots=roots)
    # A loop of links, or an impossible name: keep the layers found so far.
    with suppress(OSError, ValueError, RuntimeError):
        begin(walk)
    return tuple(walk.layers)


@dataclass(slots=True, kw_only=True)
class _Walk:
    roots: Roots
    layers: list[Layer] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def path(self, path: Path) -> None:
        table = parse_mountinfo(read_word(self.roots.proc / "self/mountinfo"))
        whole = Path(os.path.realpath(path))
        mount = find_mount(table, PurePosixPath(whole))
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
        if mount.filesystem == "ceph":  # the kernel's client; ceph-fuse is a FUSE mount
            facts["server"] = mount.source
        self.layers.append(Layer(kind=LayerKind.FILESYSTEM, name=mount.filesystem, facts=facts))
        below = self._mounted_device(mount)
        if below:
            self.devices([below])
        elif mount.option("upperdir"):  # an overlay: writes go there
            self.path(Path(mount.option("upperdir")))

    def _mounted_device(self, mount: MountRow) -> str:
        """Return the device of a mount. Some file systems have their own number: only the name
        helps."""
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
            for leaf in leaves
            if (self.roots.sys / "class/block" / (name := _device_name(leaf))).exists()
        ]
        layer = zfs_layer(dataset, dumps, devices, implementation)
        self.layers.append(layer.model_copy(update={"facts": {**layer.facts, **_mounted(mount)}}))
        self.devices(devices)
        for leaf in leaves:
            if _device_name(leaf) not in devices and leaf.startswith("/"):
                self.path(Path(leaf))

    def _nfs(self, mount: MountRow) -> None:
        known = {
            "server": mount.source,
            "version": mount.option("vers"),
            "rsize_bytes": mount.option("rsize"),
            "wsize_bytes": mount.option("wsize"),
            "transport": mount.option("proto"),
            "connections": mount.option("nconnect"),
            "options": mount.options,
        }
        facts = {key: value for key, value in known.items() if value}
        self.layers.append(Layer(kind=LayerKind.NFS, name=mount.mount_point, facts=facts))

    def _fuse(self, mount: MountRow, path: Path) -> None:
        program = program_of(mount)
        facts = {"program": program, "connection": _connection(mount)}
        self.layers.append(Layer(kind=LayerKind.FUSE, name=mount.mount_point, facts=facts))
        if program != RBD_FUSE:
            return
        server = find_server(mount, self.roots.proc)
        image = path.relative_to(mount.mount_point).parts
        if server is None or not server.pool or len(image) != 1:
            return
        socket = {"admin_socket": server.admin_socket} if server.admin_socket else {}
        self.layers += image_layers(server.pool, image[0], RBD_FUSE, socket)

    def devices(self, names: Iterable[str]) -> None:
        """Add devices of one level and the layers below them."""
        sys = self.roots.sys
        here = [name for name in dict.fromkeys(names) if self._new(f"device {name}")]
        if not here:
            return
        facts = [block_facts(name, sys) for name in here]
        self.layers.append(
            Layer(
                kind=LayerKind.BLOCK,
                name=", ".join(here),
                devices=tuple(
                    path_device
                    for name in here
                    for path_device in path_devices(name, sys) or (name,)
                ),
                facts=facts[0] if len(here) == 1 else _common(facts),
            )
        )
        self.devices(below for name in here for below in self._below(name))
        for name, known in zip(here, facts, strict=True):
            kind = known.get("type", "")
            if kind == "loop" and known.get("backing", "").startswith("/"):
                self._backing(known["backing"])
            elif kind == "rbd":
                self._mapped_image(name)
            elif kind == "zvol":
                self._volume(name)

    def _backing(self, file: str) -> None:
        """Add the layers below a loop device: a file, or a device by its file in /dev."""
        name = _device_name(file)
        if file.startswith("/dev/") and (self.roots.sys / "class/block" / name).exists():
            self.devices([name])
        else:
            self.path(Path(file))

    def _below(self, name: str) -> list[str]:
        """Return the device of a partition, or the members of a composite device."""
        sys = self.roots.sys
        if device_type(name, sys) == "partition":
            return list(filter(None, [whole_device(name, sys)]))
        return sorted(list_names(sys / "class/block" / name / "slaves"))

    def _mapped_image(self, name: str) -> None:
        number = name.removeprefix("rbd")
        folder = self.roots.sys / "bus/rbd/devices" / number
        pool, image = read_word(folder / "pool"), read_word(folder / "name")
        if not pool or not image:
            return
        space = read_word(folder / "pool_ns")
        # drivers/block/rbd.c accepts no request beyond a set of objects; in the usual layout a set
        # is one object.
        limit = read_word(self.roots.sys / "class/block" / name / "queue/max_hw_sectors_kb")
        facts = {"object_size_bytes": str(int(limit) * 1024)} if limit.isdecimal() else {}
        facts |= {"features": read_word(folder / "features"), "namespace": space}
        facts = {key: value for key, value in facts.items() if value}
        self.layers += image_layers(pool, f"{space}/{image}" if space else image, KRBD, facts)

    def _volume(self, name: str) -> None:
        """Add the layers of the dataset of a ZFS volume, found by udev's links."""
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
    """Return the mount point of a dataset, and the FUSE connection of its daemon."""
    if mount is None:
        return {}
    facts = {"mount_point": mount.mount_point}
    if mount.filesystem.startswith("fuse"):
        facts["connection"] = _connection(mount)
    return facts


def _connection(mount: MountRow) -> str:
    """Return the number in /sys/fs/fuse/connections: the minor number of the mount's device."""
    return mount.number.partition(":")[2]


def _device_name(path: str) -> str:
    """Return `sda` for `/dev/disk/by-id/...`, `loop1` for `loop1`."""
    return Path(os.path.realpath(path)).name if path.startswith("/") else path


def _common(facts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the facts that all devices share."""
    first, *others = facts
    return {
        key: value
        for key, value in first.items()
        if key not in _OWN_FACTS and all(other.get(key) == value for other in others)
    }
