"""Verify an archive: checksums, and numbers against the raw output."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.raw import derived_operations
from leadline.archive.reader import Run
from leadline.archive.records import (
    DerivedOperation,
    FileDigest,
    Redactions,
    RunStatus,
    TrialStatus,
    WrittenFiles,
    read_record,
)
from leadline.archive.trial import StoredTrial
from leadline.errors import LeadlineError
from leadline.files import LARGEST_FILE_BYTES, read_content
from leadline.formats.result import FormatError
from leadline.stats.histogram import LatencyHistogram
from leadline.units import format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """One problem; `path` is relative to the archive."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """`files` and `numbers` count what was checked."""

    files: int
    numbers: int
    problems: tuple[Discrepancy, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


_MOST_NAMED = 8
_ENDS = {RunStatus.INTERRUPTED: "interrupted", RunStatus.GUARDED: "stopped by its guard"}


def verify(run: Run, attempts: Iterable[StoredTrial] = ()) -> Verification:
    """Re-check every checksum and recompute every derived number of every attempt from raw.

    `attempts` are trials whose raw output is read already; it is not read again.
    """
    known = {attempt.folder: attempt for attempt in attempts}
    problems: list[Discrepancy] = []
    try:
        manifest = run.manifest
    except LeadlineError as error:
        return Verification(files=1, numbers=0, problems=(_problem(layout.MANIFEST, error),))
    checked = 0
    try:
        checked = _check_digests(run, problems)
    except LeadlineError as error:
        problems.append(_problem(layout.MANIFEST, error))
    if run.cleaning_unsealed:
        message = "leftovers were being removed; `leadline clean` finishes that"
        problems.append(Discrepancy(path=layout.CREATED, message=message))
    if manifest.status is not RunStatus.COMPLETE:
        message = (
            f"the run was {_ENDS[manifest.status]}"
            if manifest.status in _ENDS
            else "the run is not sealed: it is still going on, or was killed"
        )
        if not problems:  # a damaged run is not resumed
            message += "; `leadline run --resume` goes on with it"
        problems.append(Discrepancy(path=layout.MANIFEST, message=message))
    numbers = 0
    stored = set()
    try:
        folders = run.trial_folders
    except LeadlineError as error:
        problems.append(_problem(layout.TRIALS, error))
        folders = ()
    for folder in folders:
        where = str(folder.relative_to(run.path))
        attempt = known.get(folder) or StoredTrial(folder, None, run.imported)
        try:
            stored.add(attempt.record.trial)
        except LeadlineError as error:
            problems.append(_problem(f"{where}/{layout.TRIAL_RECORD}", error))
            continue
        numbers += _check_numbers(attempt, where, problems)
    try:
        planned = run.plan.trials
    except LeadlineError as error:
        problems.append(_problem(layout.PLAN, error))
        planned = ()
    if manifest.status is RunStatus.COMPLETE:
        for trial in planned:
            if trial.id not in stored:
                place = f"{layout.TRIALS}/{trial.id}"
                problems.append(Discrepancy(path=place, message="the trial is missing"))
    return Verification(files=checked, numbers=numbers, problems=tuple(dict.fromkeys(problems)))


def check_intact(run: Run) -> tuple[Discrepancy, ...]:
    """Return what is not as it was written: files by their digests, journals by their seals.

    A journal that grew in a removal of leftovers that was killed is intact. Nothing in an archive
    with a discrepancy is executed, removed or written again.
    """
    problems: list[Discrepancy] = []
    try:
        _check_digests(run, problems)
        damaged = {name for name, _ in run.journal_faults()}
        for name in sorted(_GROWING - damaged):
            if run.grew(name) or (name == layout.UNDO and run.path.joinpath(name).exists()):
                problems = [problem for problem in problems if problem.path != name]
    except LeadlineError as error:
        problems.append(_problem(layout.MANIFEST, error))
    return tuple(dict.fromkeys(problems))


def require_intact(run: Run) -> None:
    """Raise LeadlineError(`archive-damaged`) for an archive that is not as it was written."""
    problems = check_intact(run)
    if problems:
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED,
            f"the archive of {run.path.name} is not as it was written, and nothing is done with it",
            context=[f"{problem.path}: {problem.message}" for problem in problems[:_MOST_NAMED]],
            hint="`leadline verify` names every difference; a new run measures again",
        )


# A removal of leftovers adds to these before the manifest has their new digests.
_GROWING = frozenset({*layout.JOURNALS, layout.UNDO})
# Sealed line by line, or written anew whenever the archive is sealed.
RENEWED = frozenset({*_GROWING, layout.DIGESTS, layout.REDACTIONS, layout.MANIFEST})


def base_digests(run: Run) -> dict[str, FileDigest]:
    """Return the digests of files as they were written, without those that only the record of a
    trial has: of a sealed archive those of its manifest.

    The last entry of the journal of digests counts as far as its files were written: a session was
    killed before it did that, or after. Raises LeadlineError(`archive-damaged`).
    """
    digests = dict(run.manifest.files)
    if not digests and run.written:
        *earlier, last = run.written
        digests, before = _folded(run.written), _folded(earlier)
        for name, digest in last.files.items():
            if _holds(run.path, name, digest):
                continue
            if name in before and _holds(run.path, name, before[name]):
                digests[name] = before[name]
            elif name not in before and not os.path.lexists(run.path / name):
                del digests[name]
    return {name: digest for name, digest in digests.items() if name not in RENEWED}


def recorded_digests(run: Run) -> dict[str, FileDigest]:
    """Return the digests of all files as they were written; a file without is not recorded.

    Raises LeadlineError(`archive-damaged`).
    """
    digests = base_digests(run)
    for folder in run.trial_folders:
        place = str(folder.relative_to(run.path))
        record = digests.get(f"{place}/{layout.TRIAL_RECORD}")
        if record is None or _holds(run.path, f"{place}/{layout.TRIAL_RECORD}", record):
            with suppress(LeadlineError):
                for name, digest in StoredTrial(folder, None).record.files.items():
                    digests.setdefault(f"{place}/{name}", digest)
    return digests


def _folded(written: Iterable[WrittenFiles]) -> dict[str, FileDigest]:
    digests: dict[str, FileDigest] = {}
    for entry in written:
        digests |= entry.files
        for name in entry.absent:
            digests.pop(name, None)
    return digests


def news_of(run: Run) -> WrittenFiles:
    """Return what the journal of digests lacks before an archive goes on: the digests of its
    manifest, and what a killed session announced and did not write. Of a killed run of a version
    before 0.3, which recorded none, the digests of what is there.

    Raises OSError and LeadlineError(`archive-damaged`).
    """
    base, recorded = base_digests(run), _folded(run.written)
    if not run.journaled and not base:
        base = {
            name: layout.digest_file(run.path / name)
            for name in layout.content_files(run.path)
            if name not in RENEWED
        }
    files = {name: digest for name, digest in base.items() if recorded.get(name) != digest}
    return WrittenFiles(files=files, absent=tuple(sorted(recorded.keys() - base.keys())))


def _holds(root: Path, name: str, digest: FileDigest) -> bool:
    with suppress(OSError, ValueError):
        return _fault(_Folders(root), name, digest) is None
    return False


def _check_digests(run: Run, problems: list[Discrepancy]) -> int:
    """Add what differs from digests and seals; return how many files were compared."""
    manifest = run.manifest
    if manifest.seal and not layout.seal_holds(read_content(run.path / layout.MANIFEST)):
        message = "its SHA-256 is not the sealed one"
        problems.append(Discrepancy(path=layout.MANIFEST, message=message))
    for name, message in run.journal_faults():
        problems.append(Discrepancy(path=name, message=message))
    if manifest.status is RunStatus.COMPLETE or manifest.files:
        checked = _check_files(run.path, manifest.files, problems)
        for extra in sorted(set(layout.content_files(run.path)) - set(manifest.files)):
            problems.append(Discrepancy(path=extra, message="is not in the manifest"))
        return checked
    recorded = recorded_digests(run)
    if run.journaled:
        # What a session writes on and on, or makes when it ends, is not recorded before.
        free = (*sorted(RENEWED), f"{layout.GUARD}/")
        for extra in sorted(set(layout.content_files(run.path)) - set(recorded)):
            if not extra.startswith(free):
                problems.append(Discrepancy(path=extra, message="was not recorded by the run"))
        least = {name: size for entry in run.written for name, size in entry.journals.items()}
        least.setdefault(layout.DIGESTS, 1)
        if (run.path / layout.REDACTIONS).exists():
            try:
                read_record(run.path / layout.REDACTIONS, Redactions)
            except LeadlineError as error:
                problems.append(_problem(layout.REDACTIONS, error))
        redacted = (layout.PLAN, *layout.JOURNALS)
        if any(layout.is_redacted(run.path / name) for name in redacted):
            least.setdefault(layout.UNDO, 1)
        for name, size in least.items():
            fault = _shorter(run.path / name, size)
            if fault:
                problems.append(Discrepancy(path=name, message=fault))
    return _check_files(run.path, recorded, problems)


def _problem(path: str, error: LeadlineError) -> Discrepancy:
    return Discrepancy(path=path, message="; ".join([error.fact, *error.context]))


def _check_files(root: Path, digests: dict[str, FileDigest], problems: list[Discrepancy]) -> int:
    folders = _Folders(root)
    for name, expected in digests.items():
        if name == layout.UNDO and _is_for_another_user(root / name):
            continue
        try:
            fault = _fault(folders, name, expected)
        except (OSError, ValueError) as error:  # a name that no file can have, among others
            fault = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        if fault:
            problems.append(Discrepancy(path=name, message=fault))
    return len(digests)


def _shorter(journal: Path, size: int) -> str:
    """Say that the complete lines of a journal are less than it had."""
    try:
        content = read_content(journal)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return "" if _is_for_another_user(journal) else f"cannot be read: {error.strerror}"
    length = content.rfind(b"\n") + 1
    return f"has {length} bytes, recorded with {size}" if length < size else ""


def _is_for_another_user(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


class _Folders:
    """Whether paths lie inside the archive, with links resolved; each folder is resolved once."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._real = os.path.realpath(root)
        self._inside: dict[str, bool] = {}

    def holds(self, path: str) -> bool:
        """Whether a path that is no link itself lies in the archive."""
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            return self._leads_inside(path)
        inside = self._inside.get(folder)
        if inside is None:
            inside = self._inside[folder] = self._leads_inside(folder)
        return inside

    def _leads_inside(self, path: str) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self._real)


def _fault(folders: _Folders, name: str, expected: FileDigest) -> str | None:
    """Describe what is wrong with a sealed file, if anything. Raises OSError and ValueError."""
    path = name if name.startswith("/") else f"{folders.root}/{name}"
    if not folders.holds(path):
        return "leads out of the archive"
    try:
        about = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    if stat.S_ISLNK(about.st_mode):
        return "leads out of the archive"
    if not stat.S_ISREG(about.st_mode):
        return "is missing"
    size = about.st_size
    if size != expected.size_bytes:
        return f"has {size} bytes, sealed with {expected.size_bytes}"
    if size > LARGEST_FILE_BYTES:
        return f"has {format_size(size)}, more than any verb reads"
    if layout.digest_at(path)[0] != expected.sha256:
        return "its SHA-256 is not the sealed one"
    return None


def _check_numbers(attempt: StoredTrial, where: str, problems: list[Discrepancy]) -> int:
    """Compare stored derived numbers with recomputed ones; return how many were compared."""
    name = f"{where}/{layout.DERIVED}"
    try:
        stored = attempt.derived
    except LeadlineError as error:
        problems.append(_problem(name, error))
        return 0
    if stored is None:
        if attempt.record.status is TrialStatus.COMPLETED:
            problems.append(Discrepancy(path=name, message="is missing"))
        return 0
    try:
        output = attempt.output
    except LeadlineError as error:
        problems.append(_problem(name, error))
        return 0
    if isinstance(output, FormatError):
        problems.append(Discrepancy(path=name, message=f"has no raw: {output.fact}"))
        return 0
    fresh = derived_operations(output)
    compared = 0
    if [(job, operation.op) for job, operation in fresh] != [
        (operation.job, operation.op) for operation in stored.operations
    ]:
        problems.append(Discrepancy(path=name, message="lists other operations than the raw has"))
        return 0
    for (_, derived), recorded in zip(fresh, stored.operations, strict=True):
        for metric, number in derived.metrics().items():
            value = _as_stored(number)
            compared += 1
            found = recorded.metrics.get(metric)
            if found != value:
                message = f"{derived.op} {metric} is {found}, but raw gives {value}"
                problems.append(Discrepancy(path=name, message=message))
        if not _same(derived.histogram, recorded):
            problems.append(
                Discrepancy(path=name, message=f"{derived.op}: histogram differs from raw")
            )
    return compared


def _as_stored(number: float | None) -> float | None:
    """Convert a number as JSON does, which has no infinity."""
    return float(number) if number is not None and math.isfinite(number) else None


def _same(histogram: LatencyHistogram | None, stored: DerivedOperation) -> bool:
    if histogram is None:
        return not stored.histogram_ns and not stored.histogram_counts
    return (
        tuple(histogram.values_ns.tolist()) == stored.histogram_ns
        and tuple(histogram.counts.tolist()) == stored.histogram_counts
    )
