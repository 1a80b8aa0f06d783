"""Verify an archive: checksums, and numbers against the raw output."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leadline.archive import layout
from leadline.archive.raw import derived_operations
from leadline.archive.reader import Run
from leadline.archive.records import DerivedOperation, FileDigest, RunStatus, TrialStatus
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
    if manifest.seal and not layout.seal_holds(read_content(run.path / layout.MANIFEST)):
        message = "its SHA-256 is not the sealed one"
        problems.append(Discrepancy(path=layout.MANIFEST, message=message))
    checked = 0
    if manifest.status is RunStatus.COMPLETE or manifest.files:
        checked += _check_sealed(run.path, manifest.files, problems)
        if run.cleaning_unsealed:
            message = "leftovers were being removed; `leadline clean` finishes that"
            problems.append(Discrepancy(path=layout.CREATED, message=message))
    if manifest.status is not RunStatus.COMPLETE:
        message = (
            f"the run was {_ENDS[manifest.status]}; `leadline run --resume` goes on with it"
            if manifest.status in _ENDS
            else "the run is not sealed: it is still going on, or was killed; "
            "`leadline run --resume` goes on with it"
        )
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
        if not manifest.files:
            digests = {f"{where}/{name}": digest for name, digest in attempt.record.files.items()}
            checked += _check_files(run.path, digests, problems)
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


def check_digests(run: Run) -> tuple[Discrepancy, ...]:
    """Return the files that differ from their digests: of a sealed archive all files, else those
    of the trials. Raises LeadlineError(`archive-damaged`)."""
    problems: list[Discrepancy] = []
    if run.manifest.files:
        _check_sealed(run.path, run.manifest.files, problems)
    for folder in () if run.manifest.files else run.trial_folders:
        place = str(folder.relative_to(run.path))
        record = StoredTrial(folder, None).record
        digests = {f"{place}/{name}": digest for name, digest in record.files.items()}
        _check_files(run.path, digests, problems)
    return tuple(problems)


def _check_sealed(root: Path, files: dict[str, FileDigest], problems: list[Discrepancy]) -> int:
    checked = _check_files(root, files, problems)
    for extra in sorted(set(layout.content_files(root)) - set(files)):
        problems.append(Discrepancy(path=extra, message="is not in the manifest"))
    return checked


def _problem(path: str, error: LeadlineError) -> Discrepancy:
    return Discrepancy(path=path, message="; ".join([error.fact, *error.context]))


def _check_files(root: Path, digests: dict[str, FileDigest], problems: list[Discrepancy]) -> int:
    folders = _Folders(root)
    for name, expected in digests.items():
        try:
            fault = _fault(folders, name, expected)
        except (OSError, ValueError) as error:  # a name that no file can have, among others
            fault = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        if fault:
            problems.append(Discrepancy(path=name, message=fault))
    return len(digests)


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
