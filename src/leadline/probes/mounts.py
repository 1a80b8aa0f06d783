"""What lies under a path or a device, by util-linux's own word (findmnt, lsblk, wipefs)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline import admin_programs, errors
from leadline.errors import LeadlineError
from leadline.inventory.models import BlockDevice, Mount

_TIMEOUT_S = 30.0


def _answer(command: Sequence[str]) -> str:
    """stdout of a read-only command; empty if it is missing, fails or does not come back."""
    status, said, _ = admin_programs.run(*command, bound_s=_TIMEOUT_S)
    return said if status == 0 else ""


def _must_answer(device: Path, command: Sequence[str]) -> str:
    """Like _answer, but no answer is an error: what protects data must not fail in silence."""
    status, answer, complaint = admin_programs.run(*command, bound_s=_TIMEOUT_S)
    if status != 0:
        silent = f"no answer within {_TIMEOUT_S:g} s" if status is None else "failed"
        raise LeadlineError(
            errors.DEVICE_UNCHECKED,
            f"{str(device)!r} cannot be checked for use and signatures",
            context=[f"{command[0]}: {complaint.strip() or silent}"],
            hint=f"Leadline needs a working {command[0]} (Debian: util-linux) and the right to "
            "read the device",
        )
    return answer


def _rows(text: str, key: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text)[key] if text.strip() else []
    except (ValueError, KeyError):
        return []
    return [row for row in rows if isinstance(row, dict)]


def mount_of(path: Path) -> Mount | None:
    """The mount that holds `path`; None if findmnt cannot tell."""
    columns = "SOURCE,TARGET,FSTYPE,OPTIONS"
    rows = _rows(
        _answer(["findmnt", "--json", "--output", columns, "--target", str(path)]), "filesystems"
    )
    if not rows:
        return None
    row = {key: str(value or "") for key, value in rows[0].items()}
    return Mount(
        source=row.get("source", ""),
        mount_point=row.get("target", ""),
        filesystem=row.get("fstype", ""),
        options=row.get("options", ""),
    )


def block_devices(*paths: Path) -> tuple[BlockDevice, ...]:
    """Every block device, or those named with everything that stands on them."""
    columns = "NAME,KNAME,TYPE,SIZE,ROTA,SCHED,MODEL,LOG-SEC,PKNAME"
    command = ["lsblk", "--json", "--bytes", "--list", "--output", columns]
    rows = _rows(_answer([*command, *map(str, paths)]), "blockdevices")
    devices: dict[str, BlockDevice] = {}
    for row in rows:
        size = int(row.get("size") or 0)
        if size == 0 and not paths:
            continue  # empty drives and unused loop devices say nothing
        device = BlockDevice(
            name=str(row.get("kname") or row.get("name")),
            kind=str(row.get("type") or ""),
            size_bytes=size,
            model=str(row.get("model") or "").strip(),
            rotational=bool(row.get("rota")),
            scheduler=str(row.get("sched") or ""),
            logical_sector_bytes=int(row.get("log-sec") or 0),
            parent=str(row.get("pkname") or ""),
        )
        devices.setdefault(device.name, device)
    return tuple(devices.values())


def mounted_at(device: Path) -> tuple[str, ...]:
    """Where a device, or anything standing on it, is mounted or used as swap.

    Raises LeadlineError(`device-unchecked`) where that cannot be told.
    """
    answer = _must_answer(
        device, ["lsblk", "--json", "--list", "--output", "NAME,MOUNTPOINTS", str(device)]
    )
    rows = _rows(answer, "blockdevices")
    found = [point for row in rows for point in row.get("mountpoints") or [] if point]
    return tuple(dict.fromkeys(map(str, found)))


def signatures(device: Path) -> tuple[str, ...]:
    """Filesystem, partition-table, RAID and LVM signatures on a device, as wipefs names them.

    Raises LeadlineError(`device-unchecked`) where that cannot be told.
    """
    answer = _must_answer(device, ["wipefs", "--no-act", "--json", str(device)])
    rows = _rows(answer, "signatures")
    return tuple(dict.fromkeys(str(row.get("type") or "unknown") for row in rows))
