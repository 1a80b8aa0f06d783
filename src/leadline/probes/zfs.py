"""Asks ZFS what a dataset, its pool and the module are configured to be. Nothing is changed."""

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
    VERSION,
    zfs_inventory,
)
from leadline.probes.mounts import mount_at, mount_rows

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
    """Why a command told nothing. `silent`: it did not come back."""

    def __init__(self, reason: str, *, silent: bool = False) -> None:
        super().__init__(reason)
        self.silent = silent


def zfs_dumps(dataset: str, module: Path = _MODULE) -> dict[str, bytes]:
    """What ZFS tells of a dataset and its pool, raw, by file name, as `leadline.inventory.zfs`
    reads it. Never raises: the reason why a dump could not be had is in `FILE.error`."""
    pool = dataset.partition("/")[0].partition("@")[0]
    # Ways to ask, the newest first: zfs-fuse and old releases know fewer options.
    asked: dict[str, Sequence[Sequence[str]]] = {
        POOL: (("zpool", "get", "-Hp", "all", pool), ("zpool", "get", "all", pool)),
        STATUS: (("zpool", "status", "-P", pool), ("zpool", "status", pool)),
        LIST: (("zpool", "list", "-v", "-p", pool), ("zpool", "list", pool)),
        DATASET: (("zfs", "get", "-Hp", "all", dataset),),
    }
    found = _of_module(module)
    silent = ""
    for name, ways in asked.items():
        reason = silent
        for command in () if silent else ways:
            try:
                found[name] = _answer(command)
                break
            except _NoAnswer as error:
                reason = str(error)
                if error.silent:  # a pool that is suspended answers nothing else either
                    silent = reason
                    break
        if name not in found:
            found[name + ERROR] = reason.encode()
    return found


def dumps_of(layers: Sequence[Layer]) -> dict[str, bytes]:
    """The dumps of the first dataset among layers; none where there is none."""
    datasets = [layer.name for layer in layers if layer.kind is LayerKind.ZFS]
    return zfs_dumps(datasets[0]) if datasets else {}


def leaf_vdevs(dumps: Mapping[str, bytes]) -> tuple[str, ...]:
    """Devices and files that the pool's data lies on, as its status names them."""
    told = zfs_inventory(dumps)
    if told is None or told.pool is None:
        return ()
    return told.pool.data_leaves


def zfs_layer(
    dataset: str, dumps: Mapping[str, bytes], devices: Sequence[str], implementation: str = ""
) -> Layer:
    """The layer of a dataset; `devices` are its vdevs as /proc/diskstats names them."""
    told = zfs_inventory(dumps)
    facts = {"pool": dataset.partition("/")[0]}
    if told is not None:
        facts |= {"implementation": implementation or told.implementation, "version": told.version}
        if told.dataset is not None:
            values = {
                key: next(filter(None, map(told.dataset.value, names)), "")
                for key, names in _PROPERTIES.items()
            }
            facts |= values
        if told.pool is not None:
            facts |= {
                "ashift": str(told.pool.ashift or ""),
                "layout": told.pool.layout,
                "pool_version": told.pool.version,
            }
    return Layer(
        kind=LayerKind.ZFS,
        name=dataset,
        devices=tuple(devices),
        facts={key: value for key, value in facts.items() if value and value != "-"},
    )


def _of_module(module: Path) -> dict[str, bytes]:
    """Version and parameters of the kernel's module; of zfs-fuse there is neither."""
    try:
        version = (module / "version").read_bytes().strip()
        names = sorted(path.name for path in (module / "parameters").iterdir())
    except OSError as error:
        reason = f"{module}: {error.strerror}".encode()
        return {VERSION + ERROR: reason, PARAMETERS + ERROR: reason}
    lines = []
    for name in names:
        with suppress(OSError):  # some may only be written
            value = (module / "parameters" / name).read_bytes().strip().replace(b"\n", b" ")
            lines.append(name.encode() + b" " + value + b"\n")
    return {VERSION: b"zfs-kmod-" + version + b"\n", PARAMETERS: b"".join(lines)}


def _answer(command: Sequence[str]) -> bytes:
    """stdout. Raises _NoAnswer."""
    program = programs.find(command[0])
    if program is None:
        raise _NoAnswer(f"there is no {command[0]!r} on this machine")
    status, out, err = programs.run(program, *command[1:], bound_s=_PATIENCE_S)
    if status is None:
        raise _NoAnswer(
            f"{' '.join(command)} gives no answer within {_PATIENCE_S:g} s", silent=True
        )
    if status:
        said = err.strip().splitlines()
        raise _NoAnswer(f"{' '.join(command)}: {said[0] if said else f'status {status}'}")
    return out.encode()


# Paths in a pool of ZFS that is suspended: whoever touches one waits for ever, in the kernel.

_MOUNTS = Path("/proc/self/mountinfo")


def suspended_below(path: Path) -> str:
    """The suspended pool that a path lies in by the table of mounts, without touching the path;
    empty where there is none. Links in the path are not followed."""
    lost = programs.suspended_pools()
    if not lost:
        return ""
    rows = mount_rows(_MOUNTS.read_text("utf-8", "replace"))
    mount = mount_at(rows, PurePosixPath(os.path.normpath(Path.cwd() / path)))
    if mount is None or mount.filesystem != "zfs":
        return ""
    pool = programs.pool_of(mount.source)
    return pool if pool in lost else ""


def refuse_suspended(path: Path, where: list[str]) -> None:
    """Raises LeadlineError(`zpool-unfit`) for a path in a suspended pool."""
    pool = suspended_below(path)
    if pool:
        raise programs.suspended_error(pool, where)
