"""Which mount a path lies on, by /proc/self/mountinfo (proc_pid_mountinfo(5))."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRow:
    """One mount. `number` is MAJOR:MINOR of what files on it are said to lie on; `options` are
    those of the mount and of the file system together, as findmnt prints them."""

    id: int
    parent: int
    number: str
    mount_point: str
    filesystem: str
    source: str
    options: str

    def option(self, key: str) -> str:
        """The value of `key=value`; empty where it is not set."""
        for one in self.options.split(","):
            name, equals, value = one.partition("=")
            if equals and name == key:
                return value
        return ""


def mount_rows(text: str) -> tuple[MountRow, ...]:
    """The table in its order; lines that are none of it are left out."""
    rows = []
    for line in text.splitlines():
        words = line.split(" ")
        try:
            behind = words[words.index("-", 6) + 1 :]
            mine, own = words[5].split(","), (behind[2] if len(behind) > 2 else "").split(",")
            rows.append(
                MountRow(
                    id=int(words[0]),
                    parent=int(words[1]),
                    number=words[2],
                    mount_point=_plain(words[4]),
                    filesystem=behind[0],
                    source=_plain(behind[1]),
                    options=_plain(",".join(dict.fromkeys(filter(None, [*mine, *own])))),
                )
            )
        except (ValueError, IndexError):
            continue
    return tuple(rows)


def mount_at(rows: Iterable[MountRow], path: PurePosixPath) -> MountRow | None:
    """The mount that an absolute path without links lies on. The path is walked from the root as
    the kernel does, since a mount hides those that were made below its place before."""
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


def _plain(text: str) -> str:
    """Blanks, tabs, line ends and backslashes stand as octal numbers."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
