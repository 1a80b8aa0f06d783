"""Unpack compressed files and archives into a private folder, in bounded memory and space.

What a member is called has no influence on where it is written: the files are numbered.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader, RawIOBase
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Final, cast

from leadline.files import LARGEST_FILE_BYTES
from leadline.formats.importer import Refused
from leadline.units import format_size

# All that one import may unpack, and what more than that many times its packed size may be.
MOST_BYTES: Final = 8 << 30
MOST_MEMBERS: Final = 200_000
LARGEST_RATIO: Final = 250
_SMALL: Final = 64 << 20
_DEEPEST: Final = 3
_PIECE: Final = 1 << 20
# What a decompressor may use of memory: dictionaries are up to 4 GiB in xz and zstd.
_DICTIONARY: Final = 128 << 20
# The list of a zip's members is read at once.
_LARGEST_DIRECTORY: Final = 64 << 20
_HEADER: Final = 1 << 20
_ZIP: Final = b"PK\x03\x04"
_ENDINGS: Final = (".gz", ".gzip", ".bz2", ".xz", ".lzma", ".zst", ".zstd")
_TAR_ENDINGS: Final = {".tgz": ".tar", ".tbz2": ".tar", ".txz": ".tar", ".tzst": ".tar"}


class _Bomb(Exception):
    """What is unpacked is larger than it may be."""


@dataclass(kw_only=True)
class Unpacker:
    """Unpacks into `folder`; the limits hold for all files together."""

    folder: Path
    refused: list[Refused] = field(default_factory=list)
    unpacked_bytes: int = 0
    members: int = 0
    files: int = 0

    def unpack(self, name: str, path: Path, depth: int = 0) -> Iterator[tuple[str, Path]]:
        """Yield the regular files in a packed file, by `name` and their own; a file that is not
        packed is yielded as it is. What is refused is in `refused`."""
        kind = _kind(path)
        if kind is None:
            yield name, path
            return
        if depth >= _DEEPEST:
            self._refuse(name, f"is packed more than {_DEEPEST} times")
            return
        found: list[tuple[str, Path]] = []
        try:
            for member in self._members(name, path, kind):
                found.append(member)
        except _Bomb as error:
            self._refuse(name, str(error))
        except _errors() as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            self._refuse(name, _fact(error))
        for inner, unpacked in found:
            yield from self.unpack(inner, unpacked, depth + 1)

    def _members(self, name: str, path: Path, kind: str) -> Iterator[tuple[str, Path]]:
        if kind == "zip":
            yield from self._zip(name, path)
        elif kind == "tar":
            with path.open("rb") as stream:
                yield from self._tar(_plain_name(name), stream, path.stat().st_size)
        else:
            yield from self._compressed(name, path, kind)

    def _refuse(self, name: str, reason: str) -> None:
        self.refused.append(Refused(file=name, reason=reason))

    def _compressed(self, name: str, path: Path, kind: str) -> Iterator[tuple[str, Path]]:
        packed = path.stat().st_size
        with path.open("rb") as raw, _OPEN[kind](raw) as stream:
            if _is_tar(stream.peek(512)):
                yield from self._tar(_plain_name(name), cast(BinaryIO, stream), packed)
                return
            yield _plain_name(name), self._write(stream, packed)

    def _tar(self, name: str, stream: BinaryIO, packed: int) -> Iterator[tuple[str, Path]]:
        start, passed = self.unpacked_bytes, 0
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                self._count()
                # What is refused is read all the same, to find what follows it.
                passed += member.size
                self._check(0, passed, packed)
                shown = f"{name}/{member.name}"
                if member.isdir():
                    continue
                if reason := _unsafe(member.name) or (not member.isreg() and _no_file(member)):
                    self._refuse(shown, reason)
                    continue
                content = archive.extractfile(member)
                assert content is not None
                if member.size > LARGEST_FILE_BYTES:
                    self._refuse(shown, _too_large(member.size))
                    continue
                yield f"{name}/{_inside(member.name)}", self._write(content, packed, start)

    def _zip(self, name: str, path: Path) -> Iterator[tuple[str, Path]]:
        _check_directory(path)
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                self._count()
                if member.is_dir():
                    continue
                shown = f"{name}/{member.filename}"
                mode = member.external_attr >> 16
                reason = _unsafe(member.filename)
                if stat.S_ISLNK(mode):
                    reason = "is a link, which is not followed"
                elif member.flag_bits & 1:
                    reason = "is encrypted"
                elif member.file_size > LARGEST_FILE_BYTES:
                    reason = _too_large(member.file_size)
                if reason:
                    self._refuse(shown, reason)
                    continue
                try:
                    with archive.open(member) as content:
                        unpacked = self._write(content, max(1, member.compress_size))
                except _Bomb as error:
                    self._refuse(shown, str(error))
                    continue
                except _errors() as error:
                    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                        raise
                    self._refuse(shown, _fact(error))
                    continue
                yield f"{name}/{_inside(member.filename)}", unpacked

    def _count(self) -> None:
        self.members += 1
        if self.members > MOST_MEMBERS:
            raise _Bomb(f"holds more than {MOST_MEMBERS:,} files with the others")

    def _write(self, content: IO[bytes], packed: int, start: int | None = None) -> Path:
        """Copy piece by piece. `start` is where the bytes of an archive that is compressed as a
        whole begin to count. Raises _Bomb."""
        path = self.folder / f"{self.files:06d}"
        self.files += 1
        first = self.unpacked_bytes if start is None else start
        written = 0
        try:
            with path.open("xb") as stream:
                while piece := content.read(_PIECE):
                    written += len(piece)
                    self.unpacked_bytes += len(piece)
                    self._check(written, self.unpacked_bytes - first, packed)
                    stream.write(piece)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _check(self, written: int, together: int, packed: int) -> None:
        if written > LARGEST_FILE_BYTES:
            raise _Bomb(f"unpacks to more than {format_size(LARGEST_FILE_BYTES)}")
        if max(self.unpacked_bytes, together) > MOST_BYTES:
            raise _Bomb(f"unpacks to more than {format_size(MOST_BYTES)} with the others")
        if together > _SMALL and together > LARGEST_RATIO * packed:
            raise _Bomb(
                f"unpacks to more than {LARGEST_RATIO} times its {format_size(packed)}, as no "
                "result does"
            )


def _fact(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "cannot be unpacked: a name in it is no text"
    return f"cannot be unpacked: {'it is cut' if isinstance(error, EOFError) else error}"


def _kind(path: Path) -> str | None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return None
        return _of_head(stream.read(512))


def _of_head(head: bytes) -> str | None:
    marks = {
        b"\x1f\x8b": "gzip",
        b"BZh": "bzip2",
        b"\xfd7zXZ": "xz",
        b"\x28\xb5\x2f\xfd": "zstd",
        _ZIP: "zip",
        b"PK\x05\x06": "zip",
    }
    for mark, kind in marks.items():
        if head.startswith(mark):
            return kind
    return "tar" if _is_tar(head) else None


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _plain_name(name: str) -> str:
    """Return the name without the ending of a compressed file."""
    path = PurePosixPath(name)
    ending = path.suffix.lower()
    if ending in _TAR_ENDINGS:
        return str(path.with_suffix(""))
    plain = name[: -len(ending)] if ending in _ENDINGS else name
    return plain.removesuffix(".tar") or name


def _unsafe(name: str) -> str:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name.startswith(("/", "\\")) or (len(name) > 1 and name[1] == ":"):
        return "has an absolute path"
    if ".." in parts:
        return "has a path with '..'"
    return "" if parts and "\x00" not in name else "has no name"


def _inside(name: str) -> str:
    return str(PurePosixPath(name))


def _no_file(member: tarfile.TarInfo) -> str:
    linked = member.issym() or member.islnk()
    return "is a link, which is not followed" if linked else "is not a regular file"


def _too_large(size: int) -> str:
    return f"has {format_size(size)}, and {format_size(LARGEST_FILE_BYTES)} are the most"


class _Member(tarfile.TarInfo):
    """A member whose header is of a usual size: tarfile reads headers at once."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if not self.isreg() and self.size > _HEADER:
            raise tarfile.ReadError("a header of it is larger than any is")
        return super()._proc_member(archive)  # type: ignore[misc]


def _check_directory(path: Path) -> None:
    """Check the size of a zip's list of members. Raises zipfile.BadZipFile."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - (1 << 16) - 22))
        tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise zipfile.BadZipFile("it is cut: its list of members is missing")
    (directory,) = struct.unpack_from("<L", tail, at + 12)
    if directory > _LARGEST_DIRECTORY:
        raise zipfile.BadZipFile("its list of members is larger than any is")


class _Xz(RawIOBase):
    """An xz file as a stream, with a limit on memory that `lzma.open` does not have."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._new()

    def _new(self) -> None:
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DICTIONARY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._decompressor.eof:
                rest = self._decompressor.unused_data.lstrip(b"\0") or self._raw.read(_PIECE)
                if not rest.strip(b"\0"):
                    return 0
                self._new()
            else:
                rest = self._raw.read(_PIECE) if self._decompressor.needs_input else b""
                if self._decompressor.needs_input and not rest:
                    raise EOFError("it is cut")
            piece = self._decompressor.decompress(rest, max_length=len(buffer))
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)


class _Zstd(RawIOBase):
    """A zstd file as a stream that fails where the file is cut, which zstandard's own does not."""

    # A block is 4 bytes at least, and 128 KiB at most when it is unpacked.
    _STEP = 1 << 10

    def __init__(self, raw: BinaryIO) -> None:
        import zstandard

        self._raw = raw
        self._zstd = zstandard.ZstdDecompressor(max_window_size=_DICTIONARY)
        self._frame = self._zstd.decompressobj()
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            rest = self._frame.unused_data if self._frame.eof else b""
            rest = rest or self._raw.read(self._STEP)
            if not rest:
                if self._frame.eof:
                    return 0
                raise EOFError("it is cut")
            if self._frame.eof:
                self._frame = self._zstd.decompressobj()
            self._ready = memoryview(self._frame.decompress(rest))
        piece, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _errors() -> tuple[type[Exception], ...]:
    """List what damaged archives raise; names that are no UTF-8 a ValueError, and unknown versions
    of zip NotImplementedError."""
    import zstandard

    return (
        NotImplementedError,
        OSError,
        ValueError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        zipfile.BadZipFile,
        tarfile.TarError,
        zstandard.ZstdError,
    )


_OPEN: Final[dict[str, Callable[[BinaryIO], BufferedReader]]] = {
    "gzip": lambda raw: BufferedReader(cast(RawIOBase, gzip.GzipFile(fileobj=raw))),
    "bzip2": lambda raw: BufferedReader(cast(RawIOBase, bz2.BZ2File(raw))),
    "xz": lambda raw: BufferedReader(_Xz(raw)),
    "zstd": lambda raw: BufferedReader(_Zstd(raw)),
}
