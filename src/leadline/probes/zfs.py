"""The configuration of a ZFS dataset, its pool and the kernel module; nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from leadline.connect import programs
from leadline.inventory.layer import Layer, LayerKind
from leadline.inventory.zfs import (
    DATASET,
    ERROR,
    LIST,
    PARAMETERS,
    POOL,
    STATUS,
    VDEVS,
    VERSION,
    zfs_inventory,
)
from leadline.probes.mounts import find_mount, parse_mountinfo

_PATIENCE_S = 15.0
_MODULE = Path("/sys/module/zfs")
_PROPERTIES = {
    "recordsize_bytes": ("recordsize", "volblocksize"),
    "compression": ("compression",),
    "sync": ("sync",),
    "logbias": ("logbias",),
    "primarycache": ("primarycache",),
}


class _NoAnswer(Exception):
    """A command without an answer. `silent`: it did not end."""

    def __init__(self, reason: str, *, silent: bool = False) -> None:
        super().__init__(reason)
        self.silent = silent


def zfs_dumps(dataset: str, module: Path = _MODULE) -> dict[str, bytes]:
    """Return the raw dumps of a dataset and its pool by file name, for `leadline.inventory.zfs`.
    Never raises: `FILE.error` has the reason of a missing dump."""
    pool = dataset.partition("/")[0].partition("@")[0]
    # The newest form first: zfs-fuse and old releases have fewer options.
    commands: dict[str, Sequence[Sequence[str]]] = {
        POOL: (("zpool", "get", "-Hp", "all", pool), ("zpool", "get", "all", pool)),
        STATUS: (("zpool", "status", "-P", pool), ("zpool", "status", pool)),
        VDEVS: (("zpool", "get", "-Hp", "ashift", pool, "all-vdevs"),),
        LIST: (("zpool", "list", "-v", "-p", pool), ("zpool", "list", pool)),
        DATASET: (("zfs", "get", "-Hp", "all", dataset),),
    }
    found = _of_module(module)
    silent = ""
    for name, forms in commands.items():
        reason = silent
        for command in () if silent else forms:
            try:
                found[name] = _answer(command)
                break
            except _NoAnswer as error:
                reason = str(error)
                if error.silent:  # a suspended pool answers no other command
                    silent = reason
                    break
        # Vdevs have properties since OpenZFS 2.2; without them the pool's ashift is known.
        if name not in found and name != VDEVS:
            found[name + ERROR] = reason.encode()
    return found


def dumps_of(layers: Sequence[Layer]) -> dict[str, bytes]:
    """Return the dumps of the first dataset among layers; none without a dataset."""
    datasets = [layer.name for layer in layers if layer.kind is LayerKind.ZFS]
    return zfs_dumps(datasets[0]) if datasets else {}


def leaf_vdevs(dumps: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the devices and files with the pool's data, from its status."""
    inventory = zfs_inventory(dumps)
    if inventory is None or inventory.pool is None:
        return ()
    return inventory.pool.data_leaves


def zfs_layer(
    dataset: str, dumps: Mapping[str, bytes], devices: Sequence[str], implementation: str = ""
) -> Layer:
    """Return the layer of a dataset; `devices` are its vdevs as in /proc/diskstats."""
    inventory = zfs_inventory(dumps)
    facts = {"pool": dataset.partition("/")[0]}
    if inventory is not None:
        facts |= {
            "implementation": implementation or inventory.implementation,
            "version": inventory.version,
        }
        if inventory.dataset is not None:
            values = {
                key: next(filter(None, map(inventory.dataset.value, names)), "")
                for key, names in _PROPERTIES.items()
            }
            facts |= values
        if inventory.pool is not None:
            facts |= {
                "ashift": ", ".join(map(str, inventory.pool.ashifts)),
                "layout": inventory.pool.layout,
                "pool_version": inventory.pool.version,
            }
    return Layer(
        kind=LayerKind.ZFS,
        name=dataset,
        devices=tuple(devices),
        facts={key: value for key, value in facts.items() if value and value != "-"},
    )


def _of_module(module: Path) -> dict[str, bytes]:
    """Return version and parameters of the kernel module; zfs-fuse has neither."""
    try:
        version = (module / "version").read_bytes().strip()
        names = sorted(path.name for path in (module / "parameters").iterdir())
    except OSError as error:
        reason = f"{module}: {error.strerror}".encode()
        return {VERSION + ERROR: reason, PARAMETERS + ERROR: reason}
    lines = []
    for name in names:
        with suppress(OSError):  # some are write-only
            value = (module / "parameters" / name).read_bytes().strip().replace(b"\n", b" ")
            lines.append(name.encode() + b" " + value + b"\n")
    return {VERSION: b"zfs-kmod-" + version + b"\n", PARAMETERS: b"".join(lines)}


def _answer(command: Sequence[str]) -> bytes:
    """Return the stdout of a command. Raises _NoAnswer."""
    program = programs.find(command[0])
    if program is None:
        raise _NoAnswer(f"there is no {command[0]!r} on this machine")
    status, out, err = programs.run(program, *command[1:], bound_s=_PATIENCE_S)
    if status is None:
        raise _NoAnswer(
            f"{' '.join(command)} gives no answer within {_PATIENCE_S:g} s", silent=True
        )
    if status:
        lines = err.strip().splitlines()
        raise _NoAnswer(f"{' '.join(command)}: {lines[0] if lines else f'status {status}'}")
    return out.encode()


_MOUNTS = Path("/proc/self/mountinfo")


def suspended_below(path: Path) -> str:
    """Return the suspended pool of a path, or an empty text. The path is not accessed, since an
    access would wait forever in the kernel; links in it are not followed."""
    suspended = programs.suspended_pools()
    if not suspended:
        return ""
    rows = parse_mountinfo(_MOUNTS.read_text("utf-8", "replace"))
    mount = find_mount(rows, PurePosixPath(os.path.normpath(Path.cwd() / path)))
    if mount is None or mount.filesystem != "zfs":
        return ""
    pool = programs.pool_of(mount.source)
    return pool if pool in suspended else ""


def refuse_suspended(path: Path, where: list[str]) -> None:
    """Raise LeadlineError(`zpool-unfit`) for a path in a suspended pool."""
    pool = suspended_below(path)
    if pool:
        raise programs.suspended_error(pool, where)
