"""Append-only files of JSON lines in which every damaged byte shows.

The last key of a line is its seal: the SHA-256, in hexadecimal, of all bytes of the file before
that key. A valid seal vouches for everything before it, also for a line that a power cut tore.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from json import JSONDecoder
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from leadline.files import sync_folder

Entry = TypeVar("Entry", bound=BaseModel)

# The beginning of a line; a power cut leaves zeros where the rest was to be written.
_TORN = re.compile(rb"(?:\{[^\x00-\x1f\x7f]*)?\x00*")
# A line that only vouches for what is before it.
_VOUCHED = b'{"vouched":true}'
_SEALED = re.compile(rb',"seal":"([0-9a-f]{64})"\}\Z')


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a journal without its seal; numbers begin at 1."""

    number: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Journal:
    """The lines of a journal, and the numbers of those that are not as they were written. An
    unfinished last line is left out: what it announces was not done."""

    lines: tuple[Line, ...]
    damaged: tuple[int, ...]

    def entries(self, model: type[Entry]) -> Iterator[tuple[int, Entry]]:
        """Yield the number and the record of every line that can be read, damaged or not."""
        for line in self.lines:
            with suppress(ValidationError):
                yield line.number, model.model_validate_json(line.content)

    def faults(self, model: type[BaseModel]) -> tuple[int, ...]:
        """Return the numbers of the damaged lines and of those that are no record of `model`."""
        readable = {number for number, _ in self.entries(model)}
        unreadable = {line.number for line in self.lines} - readable
        return tuple(sorted(unreadable.union(self.damaged)))


def parse_journal(content: bytes, *, unsealed: bool = False) -> Journal:
    """Parse a journal and check its seals.

    Args:
        content: the whole file.
        unsealed: whether lines without a seal may come first, as versions before 0.3 wrote them.
    """
    *complete, rest = content.split(b"\n")
    lines: list[Line] = []
    unproven: list[int] = []  # no later seal vouches for them so far
    hashed = hashlib.sha256()
    for number, line in enumerate(complete, start=1):
        seal = _SEALED.search(line)
        if seal is not None:
            unsealed = False
        is_object = _object_length(line) == len(line) > 0
        if seal is not None and _seal_of(hashed, line[: seal.start()]) == seal[1]:
            unproven.clear()
        elif not (unsealed and is_object):
            unproven.append(number)
        if is_object and _without_seal(line) != _VOUCHED:
            lines.append(Line(number, _without_seal(line)))
        hashed.update(line + b"\n")
    length = _object_length(rest)
    if not length and not _TORN.fullmatch(rest):
        unproven.append(len(complete) + 1)
    if length:  # only its line break is missing or damaged
        number, whole = len(complete) + 1, rest[:length]
        seal = _SEALED.search(whole)
        holds = seal is not None and _seal_of(hashed, whole[: seal.start()]) == seal[1]
        if length < len(rest) or not (holds or unsealed):
            unproven.append(number)
        lines.append(Line(number, _without_seal(whole)))
    return Journal(tuple(lines), tuple(unproven))


def _seal_of(before: hashlib._Hash, line: bytes) -> bytes:
    """Compute the seal of a line, of which the seal is cut off, after what was hashed `before`."""
    hashed = before.copy()
    hashed.update(line)
    return hashed.hexdigest().encode()


def sealed_line(before: hashlib._Hash, content: bytes) -> bytes:
    """Return the line of a JSON object with its seal, after what was hashed `before`."""
    line = content.removesuffix(b"}")
    return line + b',"seal":"' + _seal_of(before, line) + b'"}\n'


def _without_seal(line: bytes) -> bytes:
    seal = _SEALED.search(line)
    return line if seal is None else line[: seal.start()] + b"}"


def _object_length(text: bytes) -> int:
    """Return the length of the JSON object that a text begins with; 0 without a complete one."""
    decoded = text.decode("utf-8", "surrogateescape")
    try:
        value, end = JSONDecoder().raw_decode(decoded)
    except (ValueError, RecursionError):
        return 0
    return len(decoded[:end].encode("utf-8", "surrogateescape")) if isinstance(value, dict) else 0


class JournalFile:
    """A journal that is written: every line is durable before `append` returns."""

    def __init__(self, path: Path, *, mode: int = 0o666) -> None:
        """Open or make the file. Raises OSError, also for a link."""
        new = not path.exists()
        if not new and path.stat().st_nlink > 1:
            # A backup of hard links keeps what it has.
            copy = path.with_name(f".{path.name}.new")
            shutil.copy2(path, copy)
            copy.replace(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.open(path, flags, mode)
        with os.fdopen(os.dup(self._handle), "rb") as stream:
            content = stream.read()
        self._hashed = hashlib.sha256(content)
        self.size_bytes = len(content)
        self._torn = content[-1:] not in (b"", b"\n")
        self.lines = content.count(b"\n") + self._torn
        if new:
            os.fsync(self._handle)
            sync_folder(path.parent)

    def append(self, entry: BaseModel) -> None:
        """Write a record with its seal. Raises OSError."""
        self._append(entry.model_dump_json(by_alias=True).encode())

    def vouch(self) -> None:
        """Seal the lines of an earlier version, which have no seals. Raises OSError."""
        self._append(_VOUCHED)

    def _append(self, content: bytes) -> None:
        if self._torn:  # by a power cut or a full disk
            self._write(b"\n")
        self._write(sealed_line(self._hashed, content))
        os.fsync(self._handle)
        self.lines += 1

    def _write(self, content: bytes) -> None:
        while content:
            size = os.write(self._handle, content)
            self._hashed.update(content[:size])
            self.size_bytes += size
            self._torn = not content[:size].endswith(b"\n")
            content = content[size:]

    def close(self) -> None:
        """Close the file. May be called twice."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
