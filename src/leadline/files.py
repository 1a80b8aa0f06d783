"""Read untrusted files within bounds (no link, device or pipe), make private folders, sync them."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline.units import format_size

# The whole process stays below 512 MiB: the program itself takes 60 to 110 MiB.
MEMORY_BYTES = 360 << 20
# Nothing larger is read, however little memory its reader takes.
LARGEST_FILE_BYTES = 256 << 20
_NUMERIC = b"0123456789 ,.-\n\r\t"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingCost:
    """Memory that the reader of a kind of document takes at most.

    `text_copies`: decoded copies of the whole text, redaction included, at the same time. `each`:
    bytes for every occurrence of a character that begins or ends a value. If `numbers_in_place`, a
    text of numbers alone takes neither. `apart` returns the text that is decoded at once, and the
    memory in bytes that the rest takes. Measured by `tests/cli/test_memory.py`.
    """

    text_copies: int = 4
    numbers_in_place: bool = False
    each: Mapping[bytes, int]
    apart: Callable[[bytes], tuple[bytes, int]] | None = None

    def always_fits(self, size: int) -> bool:
        """Return whether any content of so many bytes can be read: to count its values would take
        as long as to parse it."""
        return size * (1 + 4 * self.text_copies + max(self.each.values())) <= MEMORY_BYTES

    def compute(self, content: bytes) -> int:
        """Return an upper bound in bytes, `content` included."""
        if self.numbers_in_place and not content.translate(None, _NUMERIC):
            return len(content)
        text, rest = self.apart(content) if self.apart else (content, 0)
        copies = self.text_copies
        if not text.isascii():
            # Python stores all characters of a text in as many bytes as the widest one needs.
            copies *= 4 if _FOUR_BYTES.search(text) else 2
        values = sum(size * text.count(mark) for mark, size in self.each.items())
        return len(content) + len(text) * copies + values + rest


_FOUR_BYTES = re.compile(rb"[\xf0-\xf4]")
# JSON, tables and text of lines; parsers make objects of what they find.
DOCUMENT = ReadingCost(each={b"{": 600, b"[": 150, b'"': 40, b",": 50, b"\n": 80})
# JSON without a reader of lines: line breaks cost nothing.
JSON = ReadingCost(each={b"{": 600, b"[": 160, b'"': 45, b",": 60})
# YAML is parsed to nodes with their positions first: 1.5 KB for a key and its value.
YAML = ReadingCost(each={b":": 1500, b"{": 700, b"- ": 700, b"[": 600, b",": 400, b"\n": 100})
# Numbers are read line by line, and the reader bounds what is kept of them.
LOG = ReadingCost(numbers_in_place=True, each=DOCUMENT.each)


def read_content(path: Path, most: int = LARGEST_FILE_BYTES, cost: ReadingCost = DOCUMENT) -> bytes:
    """Return the first `most` bytes of an untrusted file: a link, a device, a pipe or
    something larger than memory is not read. Raises OSError that says why."""
    # Non-blocking: opening a pipe would wait for a writer that never comes.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if about.st_size > LARGEST_FILE_BYTES:
            size, limit = format_size(about.st_size), format_size(LARGEST_FILE_BYTES)
            raise OSError(errno.EFBIG, f"it has {size}, and {limit} are the most", str(path))
        # No more than there is: Python makes room for all that is asked for.
        content = stream.read(min(most, about.st_size))
    if not cost.always_fits(len(content)):
        _check_memory(cost.compute(content), path)
    return content


def read_contents(paths: Mapping[str, Path], cost: ReadingCost = DOCUMENT) -> dict[str, bytes]:
    """Read files that are parsed together, as `read_content`. Raises OSError."""
    contents: dict[str, bytes] = {}
    needed = size = 0
    for name, path in paths.items():
        size += path.lstat().st_size
        if size > LARGEST_FILE_BYTES:
            _check_memory(size + MEMORY_BYTES, path)
        contents[name] = read_content(path, cost=cost)
        if len(paths) > 1:  # one by itself is checked already
            needed += cost.compute(contents[name])
            _check_memory(needed, path)
    return contents


def _check_memory(needed: int, path: Path) -> None:
    if needed > MEMORY_BYTES:
        fact = (
            f"reading it could take {format_size(needed)} of memory, and "
            f"{format_size(MEMORY_BYTES)} are the most; split it"
        )
        raise OSError(errno.EFBIG, fact, str(path))


def others_control(path: Path) -> bool:
    """Return whether a user other than root and this one can exchange a part of a path: `path` or a
    folder above belongs to that user, or is writable by others without the sticky bit.

    Raises OSError.
    """
    whole = path.resolve()
    for folder in (whole, *whole.parents):
        found = folder.stat()
        writable = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if writable or found.st_uid not in (0, os.geteuid()):
            return True
    return False


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: what was made, renamed or removed there."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_file(path: Path) -> int | None:
    """Lock a file, which is made if it is missing, until the descriptor that is returned is closed.

    None where another process holds the lock. Unlink the file before the descriptor is closed.
    Raises OSError.
    """
    while True:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            # Another user's file in a folder of all users may be opened, and not with O_CREAT.
            handle = os.open(path, flags)
        except FileNotFoundError:
            handle = os.open(path, flags | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        # The process before may have removed the file between open and lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)


def user_cache() -> Path:
    """Return Leadline's folder in the user's cache, which may not exist."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not Path(cache).is_absolute():  # as the XDG specification has it
        cache = str(Path(os.path.expanduser("~")) / ".cache")  # noqa: PTH111
    return Path(cache) / "leadline"


# Folders for sockets and scratch files of this process, and what killed processes left. The name
# shows whose a folder is, and a file in it that Leadline made it: `leadline clean` removes what a
# killed process could not remove.

_NAME = re.compile(r"leadline-[a-z]+-(\d+)-\w+")
# A Unix socket's path has 107 bytes, so that folders of sockets lie where paths are short.
SHORT = "/tmp"


SCRATCH_MARK = ".leadline-scratch"


def prefix(purpose: str) -> str:
    """What the name of such a folder begins with; `purpose` is a word of small letters."""
    return f"leadline-{purpose}-{os.getpid()}-"


class ScratchFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder of this process. Raises OSError."""

    def __init__(self, purpose: str, place: str | None = None) -> None:
        super().__init__(prefix=prefix(purpose), dir=place)
        mark_scratch(Path(self.name))


def mark_scratch(folder: Path) -> None:
    (folder / SCRATCH_MARK).touch(mode=0o600)


def remove_abandoned() -> list[Path]:
    """Remove the folders of this user's processes that are gone; which they were."""
    removed = []
    for place in sorted({SHORT, tempfile.gettempdir()}):
        for path in sorted(Path(place).glob("leadline-*-*-*")):
            match = _NAME.fullmatch(path.name)
            if match is None or path.is_symlink() or _alive(int(match[1])):
                continue
            if path.is_dir() and path.stat().st_uid == os.getuid() and _is_scratch(path):
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
    return removed


def _is_scratch(folder: Path) -> bool:
    """Return whether a folder has the mark, or is empty: killed before it was marked."""
    with suppress(OSError):
        mark = folder / SCRATCH_MARK
        return (mark.is_file() and not mark.is_symlink()) or not any(folder.iterdir())
    return False


def _alive(pid: int) -> bool:
    """Whether there is a process of that number; another's that took it keeps the folder."""
    return Path(f"/proc/{pid}").exists()


# Reading a file that a person wrote, and never more than such a file can be.

MAX_BYTES = 1 << 20


def read_small_text(path: Path) -> str:
    """The text of a regular file of at most MAX_BYTES, UTF-8.

    Raises OSError if it cannot be read, ValueError (UnicodeDecodeError included) if it is no such
    file: /dev/zero would fill the memory, a pipe would wait for ever.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no regular file")
    with path.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    return content.decode("utf-8")
