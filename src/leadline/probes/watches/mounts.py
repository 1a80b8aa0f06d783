"""Counters of FUSE and NFS mounts during a trial, written to `mount-counters.jsonl`.

Each line is JSON: `{"at", "elapsed_s", "mount", "kind": "fuse", "waiting"}` several times a
second, the requests of a FUSE mount without an answer yet; `{"at", "elapsed_s", "mount",
"kind": "nfs", "bytes", "operations"}` at the start and the end, from /proc/self/mountstats;
`error` in place of missing values. `leadline.formats.watch_records` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leadline.archive import layout
from leadline.formats.watch_records import FUSE, NFS
from leadline.probes.watches.base import Line, SamplingWatch, open_kernel_file, read_kernel_file

_FUSECTL: Final = Path("/sys/fs/fuse/connections")
_MOUNTSTATS: Final = Path("/proc/self/mountstats")


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseMount:
    """A FUSE mount and the number of its connection."""

    mount: str
    connection: int


class MountWatch(SamplingWatch):
    """Samples the waiting requests of FUSE mounts every `period_s`, and the counters of NFS mounts
    at `start` and `stop`."""

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
        # With NFS alone there are no samples in between.
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
        for mount, handle in self._handles.items():
            fields = {"mount": mount.mount, "kind": FUSE}
            try:
                lines.append({**fields, "waiting": int(read_kernel_file(handle))})
            except (OSError, ValueError) as error:
                # After an unmount the file is empty. Reported once.
                if end:
                    lines.append({**fields, "error": f"the connection has ended: {error}"})
        if end and self._nfs:
            lines += nfs_lines(self._nfs, _MOUNTSTATS.read_text("utf-8", "replace"))
        return lines

    def _open(self) -> list[Line]:
        """Open the files of the connections; return a line for each failure."""
        failed: list[Line] = []
        for mount in self._fuse:
            try:
                name = f"{mount.connection}/waiting"
                self._handles[mount] = open_kernel_file("fusectl", _FUSECTL, name)
            except OSError as error:
                reason = error.strerror or repr(error)
                failed.append({"mount": mount.mount, "kind": FUSE, "error": reason})
        return failed

    def _release(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles = {}


def nfs_lines(mounts: Sequence[str], text: str) -> list[Line]:
    """Return a line per NFS mount point from a mountstats file. Raises ValueError."""
    blocks = _blocks(text)
    return [
        {"mount": mount, "kind": NFS, **_nfs(blocks[mount])}
        if mount in blocks
        else {"mount": mount, "kind": NFS, "error": "it is not in /proc/self/mountstats"}
        for mount in mounts
    ]


def _blocks(text: str) -> dict[str, list[str]]:
    """Return the lines of each NFS mount by mount point."""
    blocks: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["device"] and words[2:4] == ["mounted", "on"] and len(words) > 7:
            lines = []
            if words[7].startswith("nfs"):
                # seq_path writes blanks in a path as octal numbers.
                blocks[_unescape(words[4])] = lines
        else:
            lines.append(line.strip())
    return blocks


def _unescape(path: str) -> str:
    for character in (" ", "\t", "\n", "\\"):
        path = path.replace(f"\\{ord(character):03o}", character)
    return path


def _nfs(lines: Sequence[str]) -> Mapping[str, object]:
    """Return `bytes` and the counters of each operation that occurred. Raises ValueError."""
    transferred: list[int] = []
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
            transferred = [int(word) for word in rest.split()]
    return {"bytes": transferred, "operations": operations}
