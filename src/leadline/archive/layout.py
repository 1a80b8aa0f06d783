"""The files of an archive: their names, digests and durable writing."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from leadline.archive.records import (
    Created,
    Derived,
    FileDigest,
    Manifest,
    Redaction,
    SettingChange,
)
from leadline.files import read_content, sync_folder
from leadline.inventory.redaction import (
    MARK,
    Reason,
    find_redactions,
    may_hold_secret,
    redact,
    redact_document,
    redact_text,
)

AnyRecord = TypeVar("AnyRecord", bound=BaseModel)

MANIFEST = "manifest.json"
PLAN = "plan.json"
PLAN_AS_GIVEN = "plan-as-given"
TRIALS = "trials"
STAGING = ".staging"
LOCK = ".lock"
TEMPORARY = ".{}.new"
CREATED = "created.jsonl"
SETTINGS = "settings.jsonl"
# What has to be undone is recorded in these before it is done.
JOURNALS = (CREATED, SETTINGS)
# Digests of the files that were written so far.
DIGESTS = "digests.jsonl"
# Plan and lines of journals with the secrets that their stored forms lack; only its user reads it.
UNDO = "undo.jsonl"
INVENTORY = "inventory"
REDACTIONS = "redactions.json"
PREFILL = "prefill"
GUARD = "guard"
LOOKS = "looks"

TRIAL_RECORD = "trial.json"
DERIVED = "derived.json"
FIO_OUTPUT = "fio.json"
JOB_FILE = "job.fio"
PROGRAM_SCRIPT = "job.sh"
STDERR = "stderr.txt"
CLUSTER = "cluster.jsonl"
RESOURCES = "resources.jsonl"
PROMETHEUS = "prometheus.jsonl"
KUBELETS = "kubelets.jsonl"
CEPH_COUNTERS = "ceph-counters.jsonl"
ZPOOL_IOSTAT = "zpool-iostat.txt"
ZFS = "zfs.jsonl"
IMAGE_COUNTERS = "image-counters.jsonl"
MOUNT_COUNTERS = "mount-counters.jsonl"
BLOCK_REQUESTS = "block-requests.jsonl"
IMPORTED = "imported"
DRILL = "drill.jsonl"
RUNNERS = "runners.json"
CLIENTS = "clients.json"
NEIGHBOUR_JOB_FILE = "neighbour.fio"

# Most files are read by one call.
_AT_ONCE = 1 << 16
_PIECE_BYTES = 64 << 20

# Not in the list of digests: the lock, and the manifest itself, which has its own seal.
_UNSEALED = (LOCK, MANIFEST)
# The end of a manifest's file.
_SEAL = b'"seal": "%s"\n}\n'
_SEALED = re.compile(rb'"seal": "([0-9a-f]{64})"\n}\n\Z')


def volume_prefix(number: int) -> str:
    """Prefix of the files of one of several volumes of a trial; numbers begin at 1."""
    return f"volume-{number}."


def stacks_file(session: str) -> str:
    """Path of the record of the layers below the targets of a session."""
    return f"{INVENTORY}/{session}-layers.json"


def look_file(number: int) -> str:
    """Path of the record of a look at a run's comparisons; numbers begin at 1."""
    return f"{LOOKS}/{number:03d}.json"


def guard_file(session: str) -> str:
    """Path of the readings of a session's guard."""
    return f"{GUARD}/{session}.jsonl"


def target_folder(session: str, number: int) -> str:
    """Folder of the dumps of the layers below a target, by its number in the plan."""
    return f"{INVENTORY}/{session}-target-{number + 1}"


def system_folder(session: str, moment: str, number: int) -> str:
    """Folder of the dumps of a cluster, by its number in the plan: a name may hold anything."""
    return f"{INVENTORY}/{session}-{moment}-cluster-{number + 1}"


def encode(record: BaseModel) -> bytes:
    """Encode a record as stored: JSON with a final line break, without secrets.

    Histograms are not indented, since each number would take a line. A manifest gets its seal.
    """
    return encode_clean(record)[1]


def encode_clean(record: AnyRecord) -> tuple[AnyRecord, bytes]:
    """Return a record without secrets, as it would be read again, and its encoding as stored."""
    if isinstance(record, Derived):
        return record, record.model_dump_json(by_alias=True).encode() + b"\n"
    if isinstance(record, Manifest):
        record = record.model_copy(update={"seal": ""})
    content = _dumped(record)
    # Foreign text is in commands, messages and the options of jobs.
    if may_hold_secret(content):
        document = record.model_dump(mode="json", by_alias=True)
        clean = redact(document)
        if clean != document:
            record = type(record).model_validate(clean)
            content = _dumped(record)
    if isinstance(record, Manifest):
        seal = _digest_text(content)
        content = content.removesuffix(_SEAL % b"") + _SEAL % seal
        record = record.model_copy(update={"seal": seal.decode()})
    return record, content


def _dumped(record: BaseModel) -> bytes:
    return record.model_dump_json(indent=2, by_alias=True).encode() + b"\n"


def _digest_text(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def seal_holds(content: bytes) -> bool:
    """Whether the file of a manifest with a seal is byte for byte what was sealed."""
    found = _SEALED.search(content)
    if found is None:
        return False
    return _digest_text(content[: found.start()] + _SEAL % b"") == found[1]


# Not redacted when they are stored: journals are redacted line by line where they are written, and
# a seal would no longer hold.
_OWN = (*JOURNALS, DIGESTS, UNDO, REDACTIONS)


def redact_file(name: str, content: bytes) -> bytes:
    """Remove secrets from a file of an archive, `name` being its path there."""
    return content if name in _OWN else redact_document(content)


def redact_entry(entry: AnyRecord) -> AnyRecord:
    """Return the entry of a journal without secrets.

    A token names what the run created and is no secret, unless it is the description of a drill.
    """
    document = entry.model_dump(mode="json", by_alias=True)
    if isinstance(entry, Created):
        clean = {**document, "token": redact_text(entry.token)}
    elif isinstance(entry, SettingChange):
        clean = redact(document)
        for key in ("before", "value", "read"):
            named = {entry.parameter: document[key]}
            if document[key] is not None and redact(named) != named:
                clean[key] = redact(named)[entry.parameter]
    else:
        return entry
    return entry if clean == document else type(entry).model_validate(clean)


def redact_output(folder: Path) -> None:
    """Remove secrets from what an engine and its watches left in a folder. Raises OSError."""
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.is_symlink():
            continue
        if all(redact_document(piece) == piece for piece in _pieces(path)):
            continue
        clean = path.with_name(f".{path.name}.clean")
        with clean.open("wb") as stream:
            stream.writelines(map(redact_document, _pieces(path)))
        clean.replace(path)


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield a file in pieces that end with a line, so that no log has to fit into memory."""
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece + stream.readline(_PIECE_BYTES)


def collect_redactions(root: Path, manifest: Manifest) -> tuple[Redaction, ...]:
    """List what was removed from the files of an archive and from `manifest`, by the markers.

    Raises OSError.
    """
    marked = [
        name
        for name in content_files(root)
        if name not in (REDACTIONS, UNDO)
        and not (root / name).is_symlink()
        and is_redacted(root / name)
    ]
    return list_redactions(root, manifest, marked)


def is_redacted(path: Path) -> bool:
    """Return whether secrets were removed from a file. Raises OSError but for one that is not
    there."""
    try:
        return any(MARK in piece for piece in _pieces(path))
    except FileNotFoundError:
        return False


def list_redactions(root: Path, manifest: Manifest, marked: Iterable[str]) -> tuple[Redaction, ...]:
    """List what was removed from `manifest` and from the files of an archive with a marker.

    Raises OSError.
    """
    found = [
        Redaction(file=MANIFEST, where=where, reason=reason)
        for where, reason in find_redactions(encode(manifest))
    ]
    for name in marked:
        try:
            places = find_redactions(read_content(root / name))
        except OSError:  # larger than any verb reads
            places = [("somewhere in the file", Reason.UNKNOWN)]
        found += [Redaction(file=name, where=where, reason=reason) for where, reason in places]
    return tuple(found)


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


def write_durably(path: Path, content: bytes) -> None:
    """Write a temporary file, fsync and rename: a reader sees the old file or the new one.

    Raises OSError, also where the temporary name is a link.
    """
    write_temporary(path, content)
    rename_temporary(path)


def write_temporary(path: Path, content: bytes) -> None:
    """Write the content that a file is to have under its temporary name, durably. Raises OSError as
    `write_durably`."""
    temporary = path.with_name(TEMPORARY.format(path.name))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o666), "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def rename_temporary(path: Path) -> None:
    """Give a file the content that was written under its temporary name. Raises OSError."""
    path.with_name(TEMPORARY.format(path.name)).replace(path)
    sync_folder(path.parent)


def make_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing, durably: each in the one that holds it."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_tree(folder: Path) -> None:
    """fsync every file below `folder`, and the folders themselves."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
        elif path.is_dir():
            sync_folder(path)
    sync_folder(folder)


def find_link(root: Path) -> Path | None:
    """Return a symbolic link below `root`; Leadline makes none."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(folder, name)):  # noqa: PTH114, PTH118
                return Path(folder, name)
    return None


# What an archive has at its top, next to the files of the journals.
_TOP = frozenset(
    {
        *(MANIFEST, PLAN, PLAN_AS_GIVEN, REDACTIONS, *JOURNALS, DIGESTS, UNDO, LOCK),
        *(TRIALS, STAGING, INVENTORY, PREFILL, GUARD, LOOKS, IMPORTED),
    }
)

# An archive that an import makes.
_IMPORTING = re.compile(r"run-\d+")


def is_draft(folder: Path) -> bool:
    """Return whether a folder is one in which Leadline makes an archive or those of an import: it
    has a lock file first, and nothing at its top that no archive has. Raises OSError."""
    if not folder.exists():
        return False
    expected = _TOP | {TEMPORARY.format(name) for name in _TOP}
    names = {entry.name for entry in folder.iterdir() if not _IMPORTING.fullmatch(entry.name)}
    return not folder.is_symlink() and names <= expected and (LOCK in names or not names)


def remove_draft(folder: Path) -> None:
    """Remove a draft, its lock file last: until then it is known as a draft. Raises OSError."""
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()
    sync_folder(folder)
    (folder / LOCK).unlink(missing_ok=True)
    folder.rmdir()


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
