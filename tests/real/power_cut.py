"""What a power cut can leave of a folder: recorded system calls, replayed without unsynced writes.

The model is that of ALICE (Pillai et al., OSDI 2014) for a file system that promises no more than
POSIX: fsync(2) of a file makes its data durable, fsync of a folder its names. All else may be there
or not, in any order; data also in part or as zeros. A rename within the file system is all or
nothing, and durable with its new folder.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

# System calls that change a file system or make it durable.
CALLS = (
    "open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,"
    "sendfile,copy_file_range,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,"
    "unlinkat,rmdir,mkdir,mkdirat,fsync,fdatasync,sync,syncfs,msync"
)
_LINE = re.compile(r"(\d+\.\d+) (\w+)\((.*)\) += (-?\d+)(?:<([^<>]*)>)?(\(deleted\))? <(\d+\.\d+)>")
_PLACE = re.compile(r"(?:\d+|AT_FDCWD)<([^<>]*)>(\(deleted\))?")
_EXCHANGE = "RENAME_EXCHANGE"


class Mode(StrEnum):
    """What is left of what was not synced."""

    NOTHING = "nothing"
    ALL = "all"
    IN_ORDER = "all up to some moment"
    ANY = "any of it, torn or zeroed"


@dataclass(eq=False, slots=True)
class Inode:
    is_folder: bool
    # Live state: what a process sees.
    names: dict[str, Inode] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class Write:
    """`data` at `offset`, or without data a truncation to that size."""

    inode: Inode
    offset: int
    data: bytes | None

    def __str__(self) -> str:
        size = "a truncation" if self.data is None else f"{len(self.data)} bytes"
        return f"{size} at {self.offset}"


@dataclass(slots=True)
class Rename:
    """Names set (or removed: None) in one step; durable with `folder`."""

    folder: Inode
    names: list[tuple[Inode, str, Inode | None]]

    def __str__(self) -> str:
        changes = (
            f"{name} {'removed' if inode is None else 'set'}" for _, name, inode in self.names
        )
        return ", ".join(changes)


@dataclass(slots=True)
class Sync:
    """Of one inode, or of everything: None."""

    inode: Inode | None

    def __str__(self) -> str:
        return "a sync"


@dataclass(slots=True)
class Printed:
    text: str


Event = Write | Rename | Sync | Printed


def record(command: Sequence[str], said: Path, traces: Path, env: Mapping[str, str]) -> int:
    """Run a command under strace; `said` gets what it prints. Returns its exit status."""
    traces.mkdir()
    options = ("-ff", "--seccomp-bpf", "-f", "-y", "-xx", "-s", str(1 << 28), "-T")
    with said.open("wb") as out:
        return subprocess.run(
            [
                "strace", *options, "--absolute-timestamps=format:unix,precision:ns",
                "-e", f"trace={CALLS}", "-e", "status=successful",
                "-o", str(traces / "trace"), *command,
            ],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, timeout=300, check=False,
        ).returncode  # fmt: skip


class Recording:
    """The changes of the folder `root`, which must be as it was when the command was started.

    Raises ValueError for a system call whose effect is unknown.
    """

    def __init__(self, root: Path, traces: Path, said: Path) -> None:
        self.root = root
        self.events: list[Event] = []
        self._said = str(said)
        self._top = Inode(is_folder=True)
        self._before: dict[Inode, bytes] = {}
        self._read_before(root, self._top)
        self._start = {folder: dict(folder.names) for folder in self._folders(self._top)}
        self._content: dict[Inode, bytearray] = {
            inode: bytearray(data) for inode, data in self._before.items()
        }
        calls = []
        for trace in traces.iterdir():
            for line in trace.read_text("ascii").splitlines():
                found = _LINE.fullmatch(line)
                if found is not None:
                    # The effect is certain when the call has returned.
                    calls.append((float(found[1]) + float(found[7]), found))
        for _, found in sorted(calls, key=lambda call: call[0]):
            self._take(found[2], found[3], found[5], deleted=bool(found[6]))

    def _read_before(self, path: Path, folder: Inode) -> None:
        for entry in sorted(path.iterdir()):
            inode = Inode(is_folder=entry.is_dir())
            folder.names[entry.name] = inode
            if inode.is_folder:
                self._read_before(entry, inode)
            else:
                self._before[inode] = entry.read_bytes()
                inode.size = len(self._before[inode])

    def _folders(self, folder: Inode) -> list[Inode]:
        inner = [self._folders(one) for one in folder.names.values() if one.is_folder]
        return [folder, *(one for part in inner for one in part)]

    # Reading the trace.

    def _parts(self, path: str) -> tuple[str, ...] | None:
        """The names from the root to a path; None outside it."""
        whole = Path(os.path.normpath(path))
        if not whole.is_absolute():
            raise ValueError(f"a relative path without its folder: {path}")
        return whole.relative_to(self.root).parts if whole.is_relative_to(self.root) else None

    def _find(self, path: str) -> Inode | None:
        parts = self._parts(path)
        inode: Inode | None = self._top if parts is not None else None
        for part in parts or ():
            inode = inode.names.get(part) if inode is not None else None
        return inode

    def _folder_of(self, path: str) -> tuple[Inode, str] | None:
        parts = self._parts(path)
        folder = self._find(str(Path(os.path.normpath(path)).parent)) if parts else None
        return (folder, parts[-1]) if folder is not None and parts else None

    def _set(self, names: list[tuple[str, Inode | None]], durable_with: str) -> None:
        """Change names of the root, if any of them lies in it."""
        places = [(self._folder_of(path), inode) for path, inode in names]
        changed = [(*place, inode) for place, inode in places if place is not None]
        anchor = self._folder_of(durable_with)
        if not changed:
            return
        if anchor is None:
            raise ValueError(f"out of the folder that is watched: {durable_with}")
        for folder, name, inode in changed:
            if inode is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = inode
        self.events.append(Rename(anchor[0], changed))

    def _take(self, call: str, text: str, opened: str | None, *, deleted: bool) -> None:
        arguments = [_decoded(part) for part in text.split(", ")]
        if call in ("write", "writev", "pwrite64", "pwritev", "pwritev2"):
            self._take_write(call, arguments)
        elif call in ("open", "openat", "creat"):
            if opened is not None and not deleted:
                flags = "O_CREAT|O_TRUNC" if call == "creat" else text
                self._take_open(_decoded(opened), flags)
        elif call in ("fsync", "fdatasync"):
            inode = self._find(_place(arguments[0]) or "/")
            if inode is not None:
                self.events.append(Sync(inode))
        elif call in ("sync", "syncfs"):
            self.events.append(Sync(None))
        elif call in ("mkdir", "mkdirat"):
            path = _path(arguments, 0)
            self._set([(path, Inode(is_folder=True))], path)
        elif call in ("unlink", "rmdir", "unlinkat"):
            path = _path(arguments, 0)
            self._set([(path, None)], path)
        elif call in ("rename", "renameat", "renameat2"):
            self._take_rename(arguments)
        elif call in ("link", "linkat"):
            source, place = _two_paths(arguments)
            self._set([(place, self._find(source))], place)
        elif call == "fallocate":
            pass  # the size of data on the target, which no check looks at
        elif self._touches(arguments):
            self._take_rest(call, arguments)

    def _touches(self, arguments: list[str]) -> bool:
        places = [_place(argument) or argument.strip('"') for argument in arguments]
        return any(place.startswith(f"{self.root}/") for place in places)

    def _take_rest(self, call: str, arguments: list[str]) -> None:
        if call in ("sendfile", "copy_file_range"):
            into = self._find(_place(arguments[0 if call == "sendfile" else 2]) or "/")
            source = self._find(_place(arguments[1 if call == "sendfile" else 0]) or "/")
            if into is not None and source is not None and into.size == 0:
                self._write(into, 0, bytes(self._content[source]))
                return
        if call in ("ftruncate", "truncate"):
            inode = self._find(_place(arguments[0]) or arguments[0].strip('"'))
            if inode is not None:
                self._truncate(inode, int(arguments[1]))
                return
        raise ValueError(f"an unknown change: {call}({', '.join(arguments)[:200]})")

    def _take_write(self, call: str, arguments: list[str]) -> None:
        place = _place(arguments[0])
        if place == self._said and call == "write":
            self.events.append(Printed(_text(arguments[1])))
            return
        inode = self._find(place) if place and place.startswith("/") else None
        if inode is None:
            return
        if call == "write":
            # Every file of an archive is written from its beginning to its end.
            self._write(inode, inode.size, _bytes(arguments[1]))
        elif call == "pwrite64":
            self._write(inode, int(arguments[3]), _bytes(arguments[1]))
        else:
            raise ValueError(f"an unknown write: {call} to {place}")

    def _write(self, inode: Inode, offset: int, data: bytes) -> None:
        content = self._content.setdefault(inode, bytearray())
        _put(content, offset, data)
        inode.size = len(content)
        self.events.append(Write(inode, offset, data))

    def _truncate(self, inode: Inode, size: int) -> None:
        _cut(self._content.setdefault(inode, bytearray()), size)
        inode.size = size
        self.events.append(Write(inode, size, None))

    def _take_open(self, path: str, flags: str) -> None:
        if not path.startswith("/"):
            return  # a pipe or a socket
        found = self._find(path)
        if found is None and "O_CREAT" in flags:
            self._set([(path, Inode(is_folder=False))], path)
        elif found is not None and "O_TRUNC" in flags and found.size:
            self._truncate(found, 0)

    def _take_rename(self, arguments: list[str]) -> None:
        source, place = _two_paths(arguments)
        moved = self._find(source)
        if moved is not None:
            other = self._find(place) if _EXCHANGE in arguments[-1] else None
            self._set([(source, other), (place, moved)], place)

    # Making states.

    def final(self) -> dict[str, bytes | None]:
        """The state without a cut."""
        return self.state(len(self.events), Mode.ALL, random.Random(0))

    def printed(self, cut: int) -> str:
        return "".join(event.text for event in self.events[:cut] if isinstance(event, Printed))

    def state(self, cut: int, mode: Mode, chance: random.Random) -> dict[str, bytes | None]:
        """The files after a cut behind the first `cut` events, by path; None for a folder."""
        last = cut if mode is not Mode.IN_ORDER else chance.randint(0, cut)
        synced: set[Inode] = set()
        everything = False
        kept: list[tuple[Event, bool]] = []
        for number in range(cut - 1, -1, -1):
            event = self.events[number]
            if isinstance(event, Sync):
                everything |= event.inode is None
                if event.inode is not None:
                    synced.add(event.inode)
            elif isinstance(event, Write | Rename):
                inode = event.inode if isinstance(event, Write) else event.folder
                durable = everything or inode in synced
                in_time = mode is Mode.ALL or (mode is Mode.IN_ORDER and number < last)
                if durable or in_time:
                    kept.append((event, True))
                elif mode is Mode.ANY and chance.random() < 0.5:
                    kept.append((event, chance.random() < 0.5))
        names = {folder: dict(held) for folder, held in self._start.items()}
        content = {inode: bytearray(data) for inode, data in self._before.items()}
        for event, whole in reversed(kept):
            if isinstance(event, Rename):
                _name(names, event)
            elif isinstance(event, Write):
                data = content.setdefault(event.inode, bytearray())
                if event.data is None:
                    _cut(data, event.offset)
                else:
                    _put(data, event.offset, event.data if whole else _torn(event.data, chance))
        found: dict[str, bytes | None] = {}
        self._list(self._top, "", names, content, found)
        return found

    def _list(
        self,
        folder: Inode,
        prefix: str,
        names: dict[Inode, dict[str, Inode]],
        content: dict[Inode, bytearray],
        found: dict[str, bytes | None],
    ) -> None:
        for name, inode in sorted(names.get(folder, {}).items()):
            found[prefix + name] = None if inode.is_folder else bytes(content.get(inode, b""))
            if inode.is_folder:
                self._list(inode, f"{prefix}{name}/", names, content, found)

    def restore(self, state: Mapping[str, bytes | None]) -> None:
        """Make the folder what a state says."""
        shutil.rmtree(self.root)
        self.root.mkdir()
        for name, data in state.items():
            if data is None:
                (self.root / name).mkdir()
            else:
                (self.root / name).write_bytes(data)


def _name(names: dict[Inode, dict[str, Inode]], event: Rename) -> None:
    for folder, name, inode in event.names:
        if inode is not None and inode.is_folder:
            # A folder has one name, also where an earlier change of its name was lost.
            for held in names.values():
                for other in [key for key, value in held.items() if value is inode]:
                    del held[other]
        held = names.setdefault(folder, {})
        if inode is None:
            held.pop(name, None)
        else:
            held[name] = inode


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _torn(data: bytes, chance: random.Random) -> bytes:
    """A part of the data with zeros for the rest, or without the rest."""
    whole = chance.randint(0, len(data))
    return data[:whole] + (bytes(len(data) - whole) if chance.random() < 0.5 else b"")


def _decoded(text: str) -> str:
    """Text of strace with its hexadecimal escapes as characters of Latin-1."""
    return re.sub(r"(?:\\x[0-9a-f]{2})+", lambda run: _raw(run[0]).decode("latin-1"), text)


def _raw(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def _bytes(argument: str) -> bytes:
    return argument[1:-1].encode("latin-1")


def _text(argument: str) -> str:
    return _bytes(argument).decode("utf-8", "replace")


def _place(argument: str) -> str | None:
    """The path of a descriptor that strace names; None for anything else or a removed file."""
    found = _PLACE.fullmatch(argument)
    return found[1] if found and not found[2] else None


def _path(arguments: list[str], at: int) -> str:
    """The path that begins at an argument: one text, or a folder's descriptor and a text."""
    if arguments[at].startswith('"'):
        return _text(arguments[at])
    folder = _place(arguments[at]) or ""
    return str(Path(folder) / _text(arguments[at + 1]))


def _two_paths(arguments: list[str]) -> tuple[str, str]:
    second = 1 if arguments[0].startswith('"') else 2
    return _path(arguments, 0), _path(arguments, second)
