"""Mounts, block devices and signatures, from util-linux (findmnt, lsblk, wipefs) and mountinfo."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from leadline import errors
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.inventory.host import BlockDevice, Mount

_TIMEOUT_S = 30.0


def _answer(command: Sequence[str]) -> str:
    """Return the stdout of a read-only command; empty after any failure."""
    status, out, _ = programs.run(*command, bound_s=_TIMEOUT_S)
    return out if status == 0 else ""


def _must_answer(device: Path, command: Sequence[str]) -> str:
    """Return the stdout; any failure is an error, since the check protects data."""
    status, answer, err = programs.run(*command, bound_s=_TIMEOUT_S)
    if status != 0:
        silent = f"no answer within {_TIMEOUT_S:g} s" if status is None else "failed"
        raise LeadlineError(
            errors.DEVICE_UNCHECKED,
            f"{str(device)!r} cannot be checked for use and signatures",
            context=[f"{command[0]}: {err.strip() or silent}"],
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
    """Return the mount that holds `path`; None if findmnt does not report it."""
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


def block_devices() -> tuple[BlockDevice, ...]:
    """Return every block device."""
    columns = "NAME,KNAME,TYPE,SIZE,ROTA,SCHED,MODEL,LOG-SEC,PKNAME"
    command = ["lsblk", "--json", "--bytes", "--list", "--output", columns]
    rows = _rows(_answer(command), "blockdevices")
    devices: dict[str, BlockDevice] = {}
    for row in rows:
        size = int(row.get("size") or 0)
        if size == 0:
            continue  # empty drives and unused loop devices
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


def signatures(device: Path, descriptor: Path) -> tuple[str, ...]:
    """Return the signatures of wipefs on the device held as `descriptor`: file system, partition
    table, RAID, LVM, ZFS, BlueStore. Raises LeadlineError(`device-unchecked`)."""
    answer = _must_answer(device, ["wipefs", "--no-act", "--json", str(descriptor)])
    rows = _rows(answer, "signatures")
    return tuple(dict.fromkeys(str(row.get("type") or "unknown") for row in rows))


_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRow:
    """One mount of /proc/self/mountinfo (proc_pid_mountinfo(5)). `number` is MAJOR:MINOR of its
    files; `options` combine those of the mount and of the file system, as findmnt prints them."""

    id: int
    parent: int
    number: str
    mount_point: str
    filesystem: str
    source: str
    options: str

    def option(self, key: str) -> str:
        """Return the value of `key=value`; empty where it is not set."""
        for word in self.options.split(","):
            name, equals, value = word.partition("=")
            if equals and name == key:
                return value
        return ""


def parse_mountinfo(text: str) -> tuple[MountRow, ...]:
    """Parse the table in its order, without invalid lines."""
    rows = []
    for line in text.splitlines():
        words = line.split(" ")
        try:
            after = words[words.index("-", 6) + 1 :]
            mine, own = words[5].split(","), (after[2] if len(after) > 2 else "").split(",")
            rows.append(
                MountRow(
                    id=int(words[0]),
                    parent=int(words[1]),
                    number=words[2],
                    mount_point=_unescape(words[4]),
                    filesystem=after[0],
                    source=_unescape(after[1]),
                    options=_unescape(",".join(dict.fromkeys(filter(None, [*mine, *own])))),
                )
            )
        except (ValueError, IndexError):
            continue
    return tuple(rows)


def find_mount(rows: Iterable[MountRow], path: PurePosixPath) -> MountRow | None:
    """Return the mount of an absolute path without links. The path is walked from the root as in
    the kernel, since a mount hides earlier mounts below its mount point."""
    table = list(rows)
    ids = {row.id for row in table}
    roots = [row for row in table if row.mount_point == "/" and row.parent not in ids - {row.id}]
    if not roots:
        return None
    current = roots[-1]
    for place in (*reversed(path.parents), path):
        while True:
            above = [
                row
                for row in table
                if row.parent == current.id
                and row.id != current.id
                and row.mount_point == str(place)
            ]
            if not above:
                break
            current = above[-1]
            table.remove(current)
    return current


def _unescape(text: str) -> str:
    """Replace the octal numbers of blanks, tabs, line ends and backslashes."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
