"""Remove secrets from a stored archive.

The clean archive is made in a hidden folder next to the archive and verified, then the two are
exchanged in one step: at any moment the archive is the old one or the clean one.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.journal import JournalFile
from leadline.archive.reader import Run
from leadline.archive.records import (
    Manifest,
    Redaction,
    Scrub,
    TrialRecord,
    WrittenFiles,
    read_record,
)
from leadline.archive.verify import RENEWED, require_intact, verify
from leadline.archive.writer import archive_errors, lock_archive, sealed
from leadline.errors import LeadlineError
from leadline.files import read_content, sync_folder
from leadline.version import __version__

_STAGING = ".scrubbing-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # renameat2(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """The result of a scrub: the files that it changed, and every redaction of the archive."""

    changed: tuple[str, ...]
    redactions: tuple[Redaction, ...]


def scrub(run: Run, *, at: str) -> Scrubbed:
    """Remove secrets from an archive, and seal it anew if it was sealed; `at` is the time.

    An archive without secrets stays as it is. Raises LeadlineError: `archive-damaged` if its files
    differ from their digests or would give other numbers; `run-not-resumable` while another
    process writes it; `archive-unwritable`.
    """
    path = run.path.resolve()
    run = Run(path)
    staging = path.with_name(f"{_STAGING}{path.name}")
    exchanged = False
    with archive_errors(path):
        lock = lock_archive(path)
        try:
            require_intact(run)  # new digests would hide what happened to a file
            _require_own(staging)
            _remove(staging)  # of a scrub that was killed: a part, or the archive with its secrets
            changed = _copy_clean(path, staging)
            if not changed:
                return Scrubbed(changed=(), redactions=run.redactions.redactions)
            _seal(run, staging, Scrub(at=at, leadline_version=__version__))
            _require_same_numbers(run, Run(staging))
            layout.sync_tree(staging)
            sync_folder(path)  # its lock file shows whose it is when it is the one to be removed
            _exchange(staging, path)
            exchanged = True  # the lock is in the other folder now
            sync_folder(path.parent)
        finally:
            (path / layout.LOCK).unlink(missing_ok=True)
            if exchanged or layout.is_draft(staging):
                _remove(staging)
            os.close(lock)
    return Scrubbed(changed=changed, redactions=Run(path).redactions.redactions)


def _require_own(staging: Path) -> None:
    """Raise LeadlineError(`archive-unwritable`) for a folder in the way that Leadline did not
    make."""
    if os.path.lexists(staging) and not (staging.is_dir() and layout.is_draft(staging)):
        raise LeadlineError(
            errors.ARCHIVE_UNWRITABLE,
            f"{staging.name} is in the way, and Leadline did not make it",
            context=[str(staging)],
            hint="move it elsewhere",
        )


def remove_interrupted(folder: Path) -> list[Path]:
    """Remove what scrubs that were killed left in a folder of runs; return the folders."""
    removed = []
    for staging in sorted(folder.glob(f"{_STAGING}*")):
        archive = staging.with_name(staging.name.removeprefix(_STAGING))
        with suppress(OSError):
            if any(map(_is_locked, (archive, staging))) or not layout.is_draft(staging):
                continue
            _remove(staging)
            removed.append(staging)
    return removed


def _is_locked(archive: Path) -> bool:
    try:
        handle = os.open(archive / layout.LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _remove(staging: Path) -> None:
    if staging.is_dir() and not staging.is_symlink():
        layout.remove_draft(staging)


def _copy_clean(path: Path, staging: Path) -> tuple[str, ...]:
    """Make a copy without secrets; files that need no change are hard links where possible.

    Returns the changed files. Raises OSError, also for a file that is too large to read.
    """
    staging.mkdir(mode=0o700)
    (staging / layout.LOCK).touch()
    sync_folder(staging)
    changed = []
    for name in (*layout.content_files(path), layout.MANIFEST):
        source, place = path / name, staging / name
        place.parent.mkdir(parents=True, exist_ok=True)
        content = read_content(source)
        clean = layout.redact_file(name, content)
        if clean != content:
            changed.append(name)
            place.write_bytes(clean)
            shutil.copymode(source, place)
            continue
        try:
            place.hardlink_to(source)
        except OSError:  # a filesystem without links
            shutil.copy2(source, place)
    for folder in path.rglob("*"):
        inside = staging / folder.relative_to(path)
        if folder.is_dir() and inside.is_dir() and not folder.is_symlink():
            shutil.copymode(folder, inside)
    return tuple(changed)


def _seal(run: Run, staging: Path, entry: Scrub) -> None:
    """Write the digests of the trials, the list of redactions and the manifest."""
    for folder in Run(staging).trial_folders:
        place = folder / layout.TRIAL_RECORD
        record = read_record(place, TrialRecord)
        files = {name: layout.digest_file(folder / name) for name in record.files}
        if files != record.files:
            layout.write_durably(place, layout.encode(record.model_copy(update={"files": files})))
    manifest = read_record(staging / layout.MANIFEST, Manifest)
    if run.journaled:
        renew_digests(staging)
    fresh = sealed(staging, manifest.model_copy(update={"files": {}}), {}, entry)
    if not run.manifest.files:  # was not sealed: a killed run
        fresh = fresh.model_copy(update={"files": {}, "journaled": manifest.journaled})
    layout.write_durably(staging / layout.MANIFEST, layout.encode(fresh))
    shutil.copymode(run.path, staging)


def renew_digests(staging: Path) -> None:
    """Begin the journal of digests anew, with those of the clean files."""
    place = staging / layout.DIGESTS
    place.unlink(missing_ok=True)
    names = [name for name in layout.content_files(staging) if name not in RENEWED]
    journal = JournalFile(place)
    journal.append(WrittenFiles(files={name: layout.digest_file(staging / name) for name in names}))
    journal.close()


def _require_same_numbers(run: Run, clean: Run) -> None:
    """Raise LeadlineError(`archive-damaged`) if the clean archive has a problem that the archive
    has not, such as a number that its raw output no longer gives."""
    fresh = set(verify(clean).problems) - set(verify(run).problems)
    if fresh:
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED,
            "without its secrets the archive would not verify; nothing was changed",
            context=sorted(f"{problem.path}: {problem.message}" for problem in fresh)[:8],
            hint="this is a defect of Leadline: please report it with these lines",
        )


def _exchange(a: Path, b: Path) -> None:
    """Exchange two folders in one step. Raises LeadlineError(`archive-unwritable`)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE):
        reason = os.strerror(ctypes.get_errno())
        raise LeadlineError(
            errors.ARCHIVE_UNWRITABLE,
            f"the filesystem cannot exchange two folders: {reason}; nothing was changed",
            context=[str(b)],
            hint="copy the archive to ext4, XFS, Btrfs or tmpfs and scrub the copy",
        )
