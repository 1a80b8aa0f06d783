"""NVMe as the kernel tells of it: controllers, namespaces and the paths between them.

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

from leadline.inventory.models import NvmeController, NvmeNamespace
from leadline.inventory.nvme import with_list

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
    return with_list(found, told.decode("utf-8", "replace"))


def namespace_facts(name: str, sys: Path = _SYS) -> dict[str, str]:
    """What a namespace's block device adds to the facts of its layer. Of several paths the
    transports and addresses are all told, and the queues of all together."""
    serving = [
        one for one in nvme_controllers(sys) if name in {space.name for space in one.namespaces}
    ]
    if not serving:
        return {}
    facts = {
        "transport": _all(one.transport for one in serving),
        "address": _all(one.address for one in serving),
        "controllers": _all(one.name for one in serving),
        "subsystem": serving[0].subsystem_nqn,
        "model": serving[0].model,
        # The first queue of a controller is for its administration.
        "queues": str(sum(max(0, one.queues - 1) for one in serving) or ""),
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
    return tuple(sorted(one for one in _names(sys / "class/block") if path.fullmatch(one)))


def _controller(folder: Path, sys: Path) -> NvmeController:
    nqn = _word(folder / "subsysnqn")
    subsystem = next(
        (
            one
            for one in _entries(sys / "class/nvme-subsystem", re.compile(r"nvme-subsys\d+"))
            if (one / folder.name).exists() or (nqn and _word(one / "subsysnqn") == nqn)
        ),
        None,
    )
    names = {one.name for one in _entries(folder, _NAMESPACE)}
    if subsystem is not None:
        # Of native multipath: the heads of namespaces that this controller has a path to.
        mine = {found[1] for one in _names(folder) if (found := _HIDDEN.fullmatch(one))}
        heads = {one.name for one in _entries(subsystem, _NAMESPACE)}
        names |= {one for one in heads if one.rpartition("n")[2] in mine}
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
        _number(sys / "class/block" / one / "queue/max_hw_sectors_kb")
        for one in path_devices(name, sys) or (name,)
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
    return sorted(found, key=lambda one: (len(one.name), one.name))


def _names(folder: Path) -> list[str]:
    try:
        return [one.name for one in folder.iterdir()]
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
