"""Where things lie in an archive, and the few safe ways to read and write them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path, PurePosixPath

from pydantic import BaseModel

from leadline.archive.records import Derived, FileDigest
from leadline.units import format_size

MANIFEST = "manifest.json"
PLAN = "plan.json"
PLAN_AS_GIVEN = "plan-as-given"
TRIALS = "trials"
STAGING = ".staging"
LOCK = ".lock"
CREATED = "created.jsonl"
INVENTORY = "inventory"
PREFILL = "prefill"

TRIAL_RECORD = "trial.json"
DERIVED = "derived.json"
FIO_OUTPUT = "fio.json"
JOB_FILE = "job.fio"
STDERR = "stderr.txt"
CLUSTER = "cluster.jsonl"
IMPORTED = "imported"

# A file of more cannot be a result; whoever made it may mean to fill our memory.
LARGEST_FILE_BYTES = 512 << 20

# Not part of the sealed content: the lock and what a killed session left half made.
_UNSEALED = (LOCK, MANIFEST)


def system_folder(session: str, moment: str, number: int) -> str:
    """Where the dumps of the plan's cluster of that number lie; names may hold anything."""
    return f"{INVENTORY}/{session}-{moment}-cluster-{number + 1}"


def encode(record: BaseModel) -> bytes:
    """A record as stored: JSON with the contract's field names, one line break behind. Indented,
    but for histograms, of which each number would fill a line."""
    indent = None if isinstance(record, Derived) else 2
    return record.model_dump_json(indent=indent, by_alias=True).encode() + b"\n"


def read_content(path: Path, most: int = LARGEST_FILE_BYTES) -> bytes:
    """The first `most` bytes of a file that may be a stranger's: a link, a device, a pipe or
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
        return stream.read(min(most, about.st_size))


def digest(content: bytes) -> FileDigest:
    return FileDigest(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))


def digest_file(path: Path) -> FileDigest:
    with path.open("rb") as stream:
        hashed = hashlib.file_digest(stream, "sha256")
        return FileDigest(sha256=hashed.hexdigest(), size_bytes=stream.tell())


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, content: bytes) -> None:
    """Write beside, fsync, rename: a reader sees the old file or the new one, never a half."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def sync_tree(folder: Path) -> None:
    """fsync every file below `folder`, and the folders themselves."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
        elif path.is_dir():
            sync_folder(path)
    sync_folder(folder)


def content_files(root: Path) -> list[str]:
    """Every file of an archive that is sealed, relative and with forward slashes, sorted."""
    found = []
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if relative.parts[0] == STAGING or relative.name.startswith("."):
            continue
        if str(relative) not in _UNSEALED and (path.is_symlink() or path.is_file()):
            found.append(str(PurePosixPath(relative)))
    return sorted(found)
