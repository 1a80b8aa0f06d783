"""What lies below a path, a file or a block device on this machine, from the top down, by what the
kernel tells of itself: /proc/self/mountinfo, /sys/class/block, /sys/bus/rbd.

Nothing here raises: a walk ends where nothing more is told, and where it has been before. Where a
layer stands on several devices or files (RAID, a pool of ZFS), all of them are followed, those of
one level as one layer.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from leadline.inventory.host import NvmeController, NvmeNamespace, add_nvme_list
from leadline.inventory.layer import Layer, LayerKind
from leadline.probes.mounts import MountRow, mount_at, mount_rows
from leadline.probes.zfs import leaf_vdevs, zfs_dumps, zfs_layer

# The layers below a client of RBD: the image, and the pool with its data.

LIBRBD, KRBD, RBD_FUSE = "librbd", "krbd", "rbd-fuse"


def image_layers(
    pool: str, image: str, client: str, facts: Mapping[str, str] | None = None
) -> tuple[Layer, Layer]:
    """The image `pool/image` as `client` serves it, and its pool: that of its data where `facts`
    name a `data_pool`."""
    told = dict(facts or {})
    return (
        Layer(kind=LayerKind.IMAGE, name=f"{pool}/{image}", facts={"client": client, **told}),
        Layer(kind=LayerKind.POOL, name=told.get("data_pool") or pool),
    )


def facts_of_info(told: str) -> dict[str, str]:
    """Facts of an image from `rbd info --format json`; none where that is no such answer."""
    try:
        row = json.loads(told)
        asked = {
            "object_size_bytes": int(row.get("object_size") or 1 << int(row["order"])),
            "size_bytes": int(row["size"]),
            "stripe_unit_bytes": row.get("stripe_unit", ""),
            "stripe_count": row.get("stripe_count", ""),
            "data_pool": row.get("data_pool", ""),
            "features": ",".join(map(str, row.get("features", ()))),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {key: str(value) for key, value in asked.items() if value not in ("", None)}


# NVMe as the kernel tells of it: controllers, namespaces and the paths between them.
#  Documentation/ABI/testing/sysfs-nvme and drivers/nvme/host/sysfs.c. With native multipath a
# namespace has one block device (`nvme0n1`) for all controllers of its subsystem, and a hidden
# one (`nvme0c1n1`) for each path.

_SYS = Path("/sys")
_CONTROLLER = re.compile(r"nvme\d+", re.ASCII)
_NAMESPACE = re.compile(r"nvme\d+n\d+", re.ASCII)
_HEAD = re.compile(r"nvme(\d+)n(\d+)", re.ASCII)
_HIDDEN = re.compile(r"nvme\d+c\d+n(\d+)", re.ASCII)
_PATIENCE_S = 20.0


def nvme_controllers(sys: Path = _SYS) -> tuple[NvmeController, ...]:
    """All controllers with their namespaces, by name. Never raises: what is not told is empty."""
    return tuple(_controller(folder, sys) for folder in _entries(sys / "class/nvme", _CONTROLLER))


def nvme_inventory() -> tuple[NvmeController, ...]:
    """The same of this machine, with what `nvme list` adds where that program is there."""
    found = nvme_controllers()
    program = shutil.which("nvme") if found else None
    if program is None:
        return found
    try:
        told = subprocess.run(
            [program, "list", "--output-format=json"],
            capture_output=True,
            timeout=_PATIENCE_S,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return found
    return add_nvme_list(found, told.decode("utf-8", "replace"))


def namespace_facts(name: str, sys: Path = _SYS) -> dict[str, str]:
    """What a namespace's block device adds to the facts of its layer. Of several paths the
    transports and addresses are all told, and the queues of all together."""
    serving = [
        nvme_controller
        for nvme_controller in nvme_controllers(sys)
        if name in {space.name for space in nvme_controller.namespaces}
    ]
    if not serving:
        return {}
    facts = {
        "transport": _all(item.transport for item in serving),
        "address": _all(item.address for item in serving),
        "controllers": _all(item.name for item in serving),
        "subsystem": serving[0].subsystem_nqn,
        "model": serving[0].model,
        # The first queue of a controller is for its administration.
        "queues": str(sum(max(0, item.queues - 1) for item in serving) or ""),
        "paths": str(len(serving)) if len(serving) > 1 else "",
        "policy": serving[0].multipath_policy if len(serving) > 1 else "",
    }
    if serving[0].queue_depth:
        facts["queue_depth"] = str(serving[0].queue_depth)
    return facts


def path_devices(name: str, sys: Path = _SYS) -> tuple[str, ...]:
    """The hidden devices, one for each path, of a namespace of native multipath. They make and
    count the requests; `name` itself only hands on (drivers/nvme/host/multipath.c)."""
    head = _HEAD.fullmatch(name)
    if head is None:
        return ()
    path = re.compile(rf"nvme{head[1]}c\d+n{head[2]}", re.ASCII)
    return tuple(sorted(name for name in _names(sys / "class/block") if path.fullmatch(name)))


def _controller(folder: Path, sys: Path) -> NvmeController:
    nqn = _word(folder / "subsysnqn")
    subsystem = next(
        (
            entry
            for entry in _entries(sys / "class/nvme-subsystem", re.compile(r"nvme-subsys\d+"))
            if (entry / folder.name).exists() or (nqn and _word(entry / "subsysnqn") == nqn)
        ),
        None,
    )
    names = {entry.name for entry in _entries(folder, _NAMESPACE)}
    if subsystem is not None:
        # Of native multipath: the heads of namespaces that this controller has a path to.
        mine = {found[1] for name in _names(folder) if (found := _HIDDEN.fullmatch(name))}
        heads = {entry.name for entry in _entries(subsystem, _NAMESPACE)}
        names |= {head for head in heads if head.rpartition("n")[2] in mine}
    return NvmeController(
        name=folder.name,
        model=_word(folder / "model"),
        firmware=_word(folder / "firmware_rev"),
        transport=_word(folder / "transport"),
        address=_word(folder / "address"),
        state=_word(folder / "state"),
        subsystem_nqn=nqn,
        queues=_number(folder / "queue_count"),
        # sqsize counts from 0.
        queue_depth=_number(folder / "sqsize") + 1 if _word(folder / "sqsize") else 0,
        multipath_policy=_word(subsystem / "iopolicy") if subsystem is not None else "",
        namespaces=tuple(_namespace(name, sys) for name in sorted(names)),
    )


def _namespace(name: str, sys: Path) -> NvmeNamespace:
    folder = sys / "class/block" / name
    # With native multipath the paths make the commands; the head may have no limit of its own.
    limits = [
        _number(sys / "class/block" / path_device / "queue/max_hw_sectors_kb")
        for path_device in path_devices(name, sys) or (name,)
    ]
    return NvmeNamespace(
        name=name,
        size_bytes=_number(folder / "size") * 512,
        logical_block_bytes=_number(folder / "queue/logical_block_size"),
        # MDTS, the most that a command may carry, is in it (drivers/nvme/host/core.c).
        max_transfer_bytes=min(filter(None, limits), default=0) * 1024,
    )


def _entries(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    found = [folder / name for name in _names(folder) if pattern.fullmatch(name)]
    return sorted(found, key=lambda item: (len(item.name), item.name))


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _word(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _word(path)
    return int(text) if text.isascii() and text.isdecimal() else 0


def _all(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, words)))


# Which process serves a FUSE mount, and what it was told on its command line.


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseServer:
    """A program of Ceph's as it was started. `pool` is what rbd-fuse serves, `rbd` unless it was
    told another; `admin_socket` is empty where it was told none."""

    pid: int
    pool: str = ""
    admin_socket: str = ""


def program_of(mount: MountRow) -> str:
    """`rbd-fuse`, `ceph-fuse`, `sshfs`: what the mount calls itself, else its source."""
    return mount.filesystem.partition(".")[2] or mount.source.rpartition("/")[2] or "unknown"


def server_of(mount: MountRow, proc: Path) -> FuseServer | None:
    """The process of the mount's program that has the mount point among its arguments; None where
    none is seen: a daemon that another user runs, or that names it by another way."""
    program = program_of(mount)
    for pid in sorted(int(folder.name) for folder in _folders(proc) if folder.name.isdecimal()):
        words = _words(proc / str(pid) / "cmdline")
        if not words or words[0].rpartition("/")[2] != program:
            continue
        here = _link(proc / str(pid) / "cwd")
        places = {_place(here / item) for item in words[1:] if item[:1] != "-"}
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


def _place(path: Path) -> str:
    """The path without symbolic links. What is mounted there is not asked for anything: where the
    storage below it has died, whoever does so hangs."""
    with suppress(OSError):
        path = path.parent / path.readlink()
    return str(Path(os.path.realpath(path.parent)) / path.name)


def _option(words: Sequence[str], *names: str) -> str:
    for at, item in enumerate(words):
        name, equals, value = item.partition("=")
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


def _folders(proc: Path) -> list[Path]:
    try:
        return list(proc.iterdir())
    except OSError:
        return []


# What the kernel tells of a block device, as facts of a layer.
#  Documentation/ABI/stable/sysfs-block, Documentation/ABI/testing/sysfs-bus-rbd.

_KINDS = (("loop", "loop"), ("dm-", "dm"), ("md", "raid"), ("rbd", "rbd"), ("nvme", "nvme"))
_MORE_KINDS = (("zd", "zvol"), ("vd", "virtio"), ("nbd", "nbd"), ("zram", "memory"))


def word(path: Path) -> str:
    """What a small file of the kernel's holds; empty where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def device_type(name: str, sys: Path) -> str:
    """`partition`, `loop`, `dm`, `raid`, `rbd`, `nvme`, `zvol`, `virtio`, ... else `disk`."""
    folder = sys / "class/block" / name
    if (folder / "partition").exists():
        return "partition"
    known = next((kind for begin, kind in (*_KINDS, *_MORE_KINDS) if name.startswith(begin)), "")
    return known or "disk"


def whole_device(partition: str, sys: Path) -> str:
    """The device that a partition is part of; empty where that is not told."""
    parent = (sys / "class/block" / partition).resolve().parent
    return parent.name if (parent / "dev").exists() else ""


def block_facts(name: str, sys: Path) -> dict[str, str]:
    """Facts as `leadline.archive.records.Layer` wants them; what is not told is left out."""
    folder = sys / "class/block" / name
    queue = folder / "queue"
    kind = device_type(name, sys)
    asked = {
        "type": kind,
        "size_bytes": _times(word(folder / "size"), 512),
        "rotational": {"0": "no", "1": "yes"}.get(word(queue / "rotational"), ""),
        "logical_block_bytes": word(queue / "logical_block_size"),
        "max_request_bytes": _times(word(queue / "max_sectors_kb"), 1024),
        "queue_depth": word(folder / "device/queue_depth") or word(queue / "nr_requests"),
        "scheduler": _chosen(word(queue / "scheduler")),
        "read_ahead_bytes": _times(word(queue / "read_ahead_kb"), 1024),
        "model": word(folder / "device/model"),
        **_own(name, kind, folder),
        **(namespace_facts(name, sys) if kind == "nvme" else {}),
    }
    return {key: value for key, value in asked.items() if value}


def _own(name: str, kind: str, folder: Path) -> dict[str, str]:
    """What only devices of one kind tell."""
    if kind == "loop":
        return {
            "backing": word(folder / "loop/backing_file"),
            "offset_bytes": word(folder / "loop/offset"),
            "direct_io": {"0": "no", "1": "yes"}.get(word(folder / "loop/dio"), ""),
        }
    if kind == "dm":
        return {
            "mapping": word(folder / "dm/uuid").partition("-")[0].lower(),
            "mapped_name": word(folder / "dm/name"),
        }
    if kind == "raid":
        return {
            "level": word(folder / "md/level"),
            "chunk_bytes": word(folder / "md/chunk_size"),
        }
    return {}


def _times(text: str, factor: int) -> str:
    return str(int(text) * factor) if text.isascii() and text.isdecimal() else ""


def _chosen(schedulers: str) -> str:
    """`mq-deadline` of `none [mq-deadline] kyber`."""
    found = schedulers.partition("[")[2].partition("]")[0]
    return found or schedulers


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
            for leave in leaves
            if (self.roots.sys / "class/block" / (name := _device_name(leave))).exists()
        ]
        layer = zfs_layer(dataset, dumps, devices, implementation)
        self.layers.append(layer.model_copy(update={"facts": {**layer.facts, **_mounted(mount)}}))
        self.devices(devices)
        for leave in leaves:
            if _device_name(leave) not in devices and leave.startswith("/"):
                self.path(Path(leave))

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
        program = program_of(mount)
        facts = {"program": program, "connection": _connection(mount)}
        self.layers.append(Layer(kind=LayerKind.FUSE, name=mount.mount_point, facts=facts))
        if program != RBD_FUSE:
            return
        server = server_of(mount, self.roots.proc)
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
                devices=tuple(
                    path_device
                    for name in here
                    for path_device in path_devices(name, sys) or (name,)
                ),
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
        if key not in _OWN_FACTS and all(other.get(key) == value for other in others)
    }


def _listed(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
