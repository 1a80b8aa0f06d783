"""The files of an archive: their names, digests and durable writing."""

from __future__ import annotations

import hashlib
import os
from io import FileIO
from pathlib import Path

from pydantic import BaseModel

from leadline.archive.records import Derived, FileDigest

MANIFEST = "manifest.json"
PLAN = "plan.json"
PLAN_AS_GIVEN = "plan-as-given"
TRIALS = "trials"
STAGING = ".staging"
LOCK = ".lock"
TEMPORARY = ".{}.new"
CREATED = "created.jsonl"
INVENTORY = "inventory"
PREFILL = "prefill"

TRIAL_RECORD = "trial.json"
DERIVED = "derived.json"
FIO_OUTPUT = "fio.json"
JOB_FILE = "job.fio"
STDERR = "stderr.txt"
CLUSTER = "cluster.jsonl"
RESOURCES = "resources.jsonl"
CEPH_COUNTERS = "ceph-counters.jsonl"
ZPOOL_IOSTAT = "zpool-iostat.txt"
ZFS = "zfs.jsonl"
IMAGE_COUNTERS = "image-counters.jsonl"
MOUNT_COUNTERS = "mount-counters.jsonl"
BLOCK_REQUESTS = "block-requests.jsonl"
IMPORTED = "imported"
RUNNERS = "runners.json"
CLIENTS = "clients.json"
NEIGHBOUR_JOB_FILE = "neighbour.fio"

# Most files are read by one call.
_AT_ONCE = 1 << 16

# Not part of the sealed content: the lock and the manifest itself.
_UNSEALED = (LOCK, MANIFEST)


def volume_prefix(number: int) -> str:
    """Prefix of the files of one of several volumes of a trial; numbers begin at 1."""
    return f"volume-{number}."


def stacks_file(session: str) -> str:
    """Path of the record of the layers below the targets of a session."""
    return f"{INVENTORY}/{session}-layers.json"


def target_folder(session: str, number: int) -> str:
    """Folder of the dumps of the layers below a target, by its number in the plan."""
    return f"{INVENTORY}/{session}-target-{number + 1}"


def system_folder(session: str, moment: str, number: int) -> str:
    """Folder of the dumps of a cluster, by its number in the plan: a name may hold anything."""
    return f"{INVENTORY}/{session}-{moment}-cluster-{number + 1}"


def encode(record: BaseModel) -> bytes:
    """Encode a record as stored: JSON with a final line break.

    Histograms are not indented, since each number would take a line.
    """
    indent = None if isinstance(record, Derived) else 2
    return record.model_dump_json(indent=indent, by_alias=True).encode() + b"\n"


def digest(content: bytes) -> FileDigest:
    return FileDigest(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))


def digest_file(path: Path) -> FileDigest:
    sha256, size = digest_at(str(path))
    return FileDigest(sha256=sha256, size_bytes=size)


def digest_at(path: str) -> tuple[str, int]:
    """Compute SHA-256 in hexadecimal and the size of a file in constant memory.

    Raises OSError.
    """
    with FileIO(path) as stream:
        content = stream.read(_AT_ONCE)
        hashed, size = hashlib.sha256(content), len(content)
        while content:
            content = stream.read(_AT_ONCE)
            hashed.update(content)
            size += len(content)
    return hashed.hexdigest(), size


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, content: bytes) -> None:
    """Write a temporary file, fsync and rename: a reader sees the old file or the new one."""
    temporary = path.with_name(TEMPORARY.format(path.name))
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
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
    """List the sealed files of an archive, relative, with forward slashes, sorted.

    A link counts as a file and is not followed.
    """
    found: list[str] = []
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            entries = os.scandir(root / folder)
        except PermissionError:
            continue
        with entries:
            for entry in entries:
                name = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if name != STAGING:
                        pending.append(name + "/")
                elif entry.name.startswith(".") or name in _UNSEALED:
                    continue
                elif entry.is_symlink() or entry.is_file():  # neither devices nor pipes
                    found.append(name)
    return sorted(found)
