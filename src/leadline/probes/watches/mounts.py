"""Mounts of other programs and of other machines during a trial, `mount-counters.jsonl`.

Each line is JSON: `{"at", "elapsed_s", "mount", "kind": "fuse", "waiting"}` some times a second,
the requests of a FUSE mount that its program has not answered; `{"at", "elapsed_s", "mount",
"kind": "nfs", "bytes", "operations"}` at the start and the end, of /proc/self/mountstats; `error`
in place of what could not be had. `leadline.formats.watch_records` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leadline.archive import layout
from leadline.formats.watch_records import FUSE, NFS
from leadline.probes.watches.base import AskingWatch, Line, open_kernel_file, read_kernel_file

_FUSECTL: Final = Path("/sys/fs/fuse/connections")
_MOUNTSTATS: Final = Path("/proc/self/mountstats")


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseMount:
    """A FUSE mount and the number of its connection."""

    mount: str
    connection: int


class MountWatch(AskingWatch):
    """Samples what waits in FUSE connections every `period_s`, and counters of NFS mounts at
    `start` and `stop`."""

    def __init__(
        self,
        fuse: Sequence[FuseMount],
        nfs: Sequence[str],
        folder: Path,
        *,
        period_s: float = 0.2,
        patience_s: float = 5.0,
    ) -> None:
        path = folder / layout.MOUNT_COUNTERS
        # Of NFS alone nothing is sampled between the ends.
        super().__init__(path, period_s=period_s if fuse else 86_400.0, patience_s=patience_s)
        self._fuse = tuple(fuse)
        self._nfs = tuple(nfs)
        self._handles: dict[FuseMount, int] = {}
        self._begun = False

    def _sample(self, *, end: bool) -> Sequence[Line]:
        lines: list[Line] = []
        if not self._begun:
            self._begun = True
            lines += self._open()
        for item, handle in self._handles.items():
            told = {"mount": item.mount, "kind": FUSE}
            try:
                lines.append({**told, "waiting": int(read_kernel_file(handle))})
            except (OSError, ValueError) as error:
                # It is unmounted: the file is empty then. Told once.
                if end:
                    lines.append({**told, "error": f"the connection has ended: {error}"})
        if end and self._nfs:
            lines += nfs_lines(self._nfs, _MOUNTSTATS.read_text("utf-8", "replace"))
        return lines

    def _open(self) -> list[Line]:
        """The connections' files; of those that cannot be read a line each."""
        failed: list[Line] = []
        for item in self._fuse:
            try:
                name = f"{item.connection}/waiting"
                self._handles[item] = open_kernel_file("fusectl", _FUSECTL, name)
            except OSError as error:
                why = error.strerror or repr(error)
                failed.append({"mount": item.mount, "kind": FUSE, "error": why})
        return failed

    def _ended(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles = {}


def nfs_lines(mounts: Sequence[str], text: str) -> list[Line]:
    """A line for each NFS mount point of `text`, a mountstats file. Raises ValueError."""
    blocks = _blocks(text)
    return [
        {"mount": mount, "kind": NFS, **_nfs(blocks[mount])}
        if mount in blocks
        else {"mount": mount, "kind": NFS, "error": "it is not in /proc/self/mountstats"}
        for mount in mounts
    ]


def _blocks(text: str) -> dict[str, list[str]]:
    """By mount point the lines below the head of an NFS mount."""
    blocks: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["device"] and words[2:4] == ["mounted", "on"] and len(words) > 7:
            lines = []
            if words[7].startswith("nfs"):
                # Blanks and their like in a path are told as octal numbers (seq_path).
                blocks[_unescaped(words[4])] = lines
        else:
            lines.append(line.strip())
    return blocks


def _unescaped(path: str) -> str:
    for character in (" ", "\t", "\n", "\\"):
        path = path.replace(f"\\{ord(character):03o}", character)
    return path


def _nfs(lines: Sequence[str]) -> Mapping[str, object]:
    """`bytes` and what each operation that was done at all came to. Raises ValueError."""
    told: list[int] = []
    operations: dict[str, list[int]] = {}
    below = False
    for line in lines:
        name, colon, rest = line.partition(":")
        if line == "per-op statistics":
            below = True
        elif below and colon:
            counters = [int(word) for word in rest.split()]
            if any(counters):
                operations[name.strip()] = counters
        elif name == "bytes":
            told = [int(word) for word in rest.split()]
    return {"bytes": told, "operations": operations}
