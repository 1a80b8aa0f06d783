"""NVMe controllers, namespaces and paths from the kernel's sysfs.

Documentation/ABI/testing/sysfs-nvme and drivers/nvme/host/sysfs.c. With native multipath a
namespace has one block device (`nvme0n1`) for all controllers of its subsystem, and a hidden one
(`nvme0c1n1`) for each path.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from leadline.environment import child_environment
from leadline.inventory.host import NvmeController, NvmeNamespace, add_nvme_list

_SYS = Path("/sys")
_CONTROLLER = re.compile(r"nvme\d+", re.ASCII)
_NAMESPACE = re.compile(r"nvme\d+n\d+", re.ASCII)
_HEAD = re.compile(r"nvme(\d+)n(\d+)", re.ASCII)
_HIDDEN = re.compile(r"nvme\d+c\d+n(\d+)", re.ASCII)
_PATIENCE_S = 20.0


def nvme_controllers(sys: Path = _SYS) -> tuple[NvmeController, ...]:
    """Return all controllers with their namespaces, by name. Never raises: unknown values are
    empty."""
    return tuple(_controller(folder, sys) for folder in _entries(sys / "class/nvme", _CONTROLLER))


def nvme_inventory() -> tuple[NvmeController, ...]:
    """Return this machine's controllers, with the values that `nvme list` adds where available."""
    found = nvme_controllers()
    program = shutil.which("nvme") if found else None
    if program is None:
        return found
    try:
        listed = subprocess.run(
            [program, "list", "--output-format=json"],
            capture_output=True,
            timeout=_PATIENCE_S,
            stdin=subprocess.DEVNULL,
            env=child_environment(),
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return found
    return add_nvme_list(found, listed.decode("utf-8", "replace"))


def namespace_facts(name: str, sys: Path = _SYS) -> dict[str, str]:
    """Return the facts of a namespace's block device. Several paths give all transports and
    addresses, and the sum of the queues."""
    serving = [
        controller
        for controller in nvme_controllers(sys)
        if name in {space.name for space in controller.namespaces}
    ]
    if not serving:
        return {}
    facts = {
        "transport": _all(path.transport for path in serving),
        "address": _all(path.address for path in serving),
        "controllers": _all(path.name for path in serving),
        "subsystem": serving[0].subsystem_nqn,
        "model": serving[0].model,
        # The first queue of a controller is for its administration.
        "queues": str(sum(max(0, path.queues - 1) for path in serving) or ""),
        "paths": str(len(serving)) if len(serving) > 1 else "",
        "policy": serving[0].multipath_policy if len(serving) > 1 else "",
    }
    if serving[0].queue_depth:
        facts["queue_depth"] = str(serving[0].queue_depth)
    return facts


def path_devices(name: str, sys: Path = _SYS) -> tuple[str, ...]:
    """Return the hidden devices of a namespace with native multipath, one per path. They issue and
    count the requests; `name` passes them on (drivers/nvme/host/multipath.c)."""
    head = _HEAD.fullmatch(name)
    if head is None:
        return ()
    path = re.compile(rf"nvme{head[1]}c\d+n{head[2]}", re.ASCII)
    return tuple(sorted(name for name in list_names(sys / "class/block") if path.fullmatch(name)))


def _controller(folder: Path, sys: Path) -> NvmeController:
    nqn = read_word(folder / "subsysnqn")
    subsystem = next(
        (
            entry
            for entry in _entries(sys / "class/nvme-subsystem", re.compile(r"nvme-subsys\d+"))
            if (entry / folder.name).exists() or (nqn and read_word(entry / "subsysnqn") == nqn)
        ),
        None,
    )
    names = {entry.name for entry in _entries(folder, _NAMESPACE)}
    if subsystem is not None:
        # Native multipath: the heads of namespaces with a path through this controller.
        numbers = {found[1] for name in list_names(folder) if (found := _HIDDEN.fullmatch(name))}
        heads = {entry.name for entry in _entries(subsystem, _NAMESPACE)}
        names |= {head for head in heads if head.rpartition("n")[2] in numbers}
    return NvmeController(
        name=folder.name,
        model=read_word(folder / "model"),
        firmware=read_word(folder / "firmware_rev"),
        transport=read_word(folder / "transport"),
        address=read_word(folder / "address"),
        state=read_word(folder / "state"),
        subsystem_nqn=nqn,
        queues=read_number(folder / "queue_count"),
        # sqsize counts from 0.
        queue_depth=read_number(folder / "sqsize") + 1 if read_word(folder / "sqsize") else 0,
        multipath_policy=read_word(subsystem / "iopolicy") if subsystem is not None else "",
        namespaces=tuple(_namespace(name, sys) for name in sorted(names)),
    )


def _namespace(name: str, sys: Path) -> NvmeNamespace:
    folder = sys / "class/block" / name
    # With native multipath the paths issue the commands; the head may have no limit.
    limits = [
        read_number(sys / "class/block" / path_device / "queue/max_hw_sectors_kb")
        for path_device in path_devices(name, sys) or (name,)
    ]
    return NvmeNamespace(
        name=name,
        size_bytes=read_number(folder / "size") * 512,
        logical_block_bytes=read_number(folder / "queue/logical_block_size"),
        # It includes MDTS, the largest transfer of a command (drivers/nvme/host/core.c).
        max_transfer_bytes=min(filter(None, limits), default=0) * 1024,
    )


def _entries(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    found = [folder / name for name in list_names(folder) if pattern.fullmatch(name)]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder; none where it cannot be read."""
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def read_word(path: Path) -> str:
    """Return the content of a small file of the kernel; empty where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def read_number(path: Path) -> int:
    text = read_word(path)
    return int(text) if text.isascii() and text.isdecimal() else 0


def _all(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, words)))
