"""What the kernel tells of a block device, as facts of a layer.

Documentation/ABI/stable/sysfs-block, Documentation/ABI/testing/sysfs-bus-rbd.
"""

from __future__ import annotations

from pathlib import Path

from leadline.probes.nvme import namespace_facts

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
