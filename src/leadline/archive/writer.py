"""Write an archive that is sealed or visibly unfinished after a kill -9 at any moment.

A new archive and every trial are written to a folder aside, synced and renamed into place: all of
it or nothing. The manifest says `running` until the end and receives the digest of every file last.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from leadline import errors
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import (
    Created,
    Look,
    Manifest,
    Problem,
    Redactions,
    RunStatus,
    Scrub,
    Session,
    SettingChange,
    Stacks,
    TrialRecord,
    read_record,
)
from leadline.errors import LeadlineError
from leadline.files import lock_file, sync_folder
from leadline.inventory.host import HostInventory
from leadline.inventory.redaction import redact_document
from leadline.plan.models import Plan
from leadline.units import format_size

# A trial's raw output can take this much; with less, it would be cut and prove nothing.
LEAST_FREE_BYTES = 8 << 20
# A new archive has this name, with the process that makes it, until it has its manifest.
_DRAFT = ".new-"
ROOM = "make room, then `leadline run --resume`; or name another place with --runs"


class RunWriter:
    """The only writer of an archive; the kernel drops its lock when the process dies."""

    def __init__(self, path: Path, lock: int, manifest: Manifest) -> None:
        self.path = path
        self._lock = lock
        self._manifest = manifest

    @classmethod
    def create(
        cls, path: Path, *, plan: Plan, plan_as_given: bytes, created_at: str, session: Session
    ) -> RunWriter:
        """Create an archive at `path`.

        Raises LeadlineError(`archive-unwritable`), because of FileExistsError where something is.
        """
        with archive_errors(path):
            layout.make_folders(path.parent)
            remove_abandoned_drafts(path.parent)
            draft = path.with_name(f"{draft_prefix()}{path.name}")
            manifest = Manifest(
                run=path.name,
                status=RunStatus.RUNNING,
                created_at=created_at,
                trials_planned=len(plan.trials),
                sessions=(session,),
            )
            try:
                draft.mkdir(mode=0o755)
                lock = lock_archive(draft)
                (draft / layout.TRIALS).mkdir()
                layout.write_durably(draft / layout.PLAN_AS_GIVEN, redact_document(plan_as_given))
                layout.write_durably(draft / layout.PLAN, layout.encode(plan))
                layout.write_durably(draft / layout.MANIFEST, layout.encode(manifest))
                # Nothing that exists is replaced, not even an empty folder.
                path.mkdir()
                try:
                    draft.rename(path)
                except OSError:
                    path.rmdir()
                    raise
            except OSError:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            sync_folder(path.parent)
        return cls(path, lock, manifest)

    @classmethod
    def reopen(cls, path: Path, *, session: Session) -> RunWriter:
        """Continue an unfinished archive. Raises LeadlineError: `run-not-resumable` if another
        process is writing it, `archive-damaged` if it holds a link."""
        require_no_link(path)
        with archive_errors(path):
            lock = lock_archive(path)
            manifest = read_record(path / layout.MANIFEST, Manifest)
            shutil.rmtree(path / layout.STAGING, ignore_errors=True)
            for temporary in path.rglob(layout.TEMPORARY.format("*")):
                temporary.unlink(missing_ok=True)
            writer = cls(path, lock, manifest)
            writer._write_manifest(
                manifest.model_copy(
                    update={
                        "status": RunStatus.RUNNING,
                        "sessions": (*manifest.sessions, session),
                        "files": {},
                    }
                )
            )
        return writer

    @classmethod
    @contextmanager
    def tidying(cls, path: Path) -> Iterator[RunWriter]:
        """Open an archive only to record that leftovers are removed and settings restored.

        The manifest of a sealed archive gets the new digests of the journals. Raises as `reopen`.
        """
        require_no_link(path)
        with archive_errors(path):
            lock = lock_archive(path)
            writer = cls(path, lock, read_record(path / layout.MANIFEST, Manifest))
        try:
            yield writer
            files = writer._manifest.files
            if files:
                journals = {
                    name: layout.digest_file(path / name)
                    for name in layout.JOURNALS
                    if (path / name).exists()
                }
                writer._write_manifest(
                    writer._manifest.model_copy(update={"files": {**files, **journals}})
                )
        finally:
            writer.close()

    @property
    def run(self) -> Run:
        """The archive as a reader sees it."""
        return Run(self.path)

    @contextmanager
    def staged(self, name: str) -> Iterator[Path]:
        """Yield a folder that is renamed to `name` when the block succeeds, without secrets.

        It is removed after an exception.
        """
        folder = self.path / layout.STAGING / name.replace("/", "-")
        with archive_errors(self.path):
            shutil.rmtree(folder, ignore_errors=True)
            # Private: output holds secrets until they are removed from it.
            folder.parent.mkdir(exist_ok=True, mode=0o700)
            folder.mkdir()
            free = shutil.disk_usage(folder).free
        if free < LEAST_FREE_BYTES:
            raise LeadlineError(
                errors.ARCHIVE_UNWRITABLE,
                f"the archive's filesystem has only {format_size(free)} left",
                context=[str(self.path)],
                hint=ROOM,
            )
        try:
            with archive_errors(self.path):
                yield folder
                if not (folder / layout.TRIAL_RECORD).exists():  # which has digests of the rest
                    layout.redact_output(folder)
                place = self.path / name
                layout.make_folders(place.parent)
                layout.sync_tree(folder)
                folder.rename(place)
                sync_folder(place.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def write_trial(folder: Path, record: TrialRecord) -> None:
        """Write the record of a trial into its staged folder, with the digests of its files.

        Secrets must have been removed from them (`layout.redact_output`).
        """
        files = {
            path.name: layout.digest_file(path)
            for path in sorted(folder.iterdir())
            if path.is_file()
        }
        sealed = record.model_copy(update={"files": files})
        (folder / layout.TRIAL_RECORD).write_bytes(layout.encode(sealed))

    def extend(self, plan: Plan) -> None:
        """Replace the plan by one that adds trials to it."""
        with archive_errors(self.path):
            layout.write_durably(self.path / layout.PLAN, layout.encode(plan))
        manifest = self._manifest.model_copy(update={"trials_planned": len(plan.trials)})
        with archive_errors(self.path):
            self._write_manifest(manifest)

    def write_look(self, look: Look) -> None:
        """Keep a look, before anything that follows from it."""
        place = self.path / layout.look_file(len(self.run.looks) + 1)
        with archive_errors(self.path):
            layout.make_folders(place.parent)
            layout.write_durably(place, layout.encode(look))

    @property
    def session(self) -> int:
        """The number of this session, from 1; a resumed run has several."""
        return len(self._manifest.sessions)

    def make_guard_file(self) -> Path:
        """Make the file of the readings of this session's guard."""
        place = self.path / layout.guard_file(f"{self.session:03d}")
        with archive_errors(self.path):
            layout.make_folders(place.parent)
            place.touch()
        return place

    def write_inventory(self, moment: Literal["start", "end"], inventory: HostInventory) -> None:
        with archive_errors(self.path):
            folder = self.path / layout.INVENTORY
            layout.make_folders(folder)
            name = f"{self.session:03d}-{moment}.json"
            layout.write_durably(folder / name, layout.encode(inventory))

    def write_stacks(self, stacks: Stacks) -> None:
        """Keep the layers below the targets of this session."""
        with archive_errors(self.path):
            place = self.path / layout.stacks_file(f"{self.session:03d}")
            layout.make_folders(place.parent)
            layout.write_durably(place, layout.encode(stacks))

    def write_system(
        self, moment: Literal["start", "end"], name: str, dumps: Mapping[str, bytes]
    ) -> None:
        """Keep the raw dumps of a cluster of the plan."""
        names = [cluster.name for cluster in self.run.plan.clusters]
        place = layout.system_folder(f"{self.session:03d}", moment, names.index(name))
        self._write_dumps(place, dumps)

    def write_target(self, name: str, dumps: Mapping[str, bytes]) -> None:
        """Keep the raw dumps of the layers below a target, if there are any."""
        names = [target.name for target in self.run.plan.targets]
        if dumps:
            place = layout.target_folder(f"{self.session:03d}", names.index(name))
            self._write_dumps(place, dumps)

    def _write_dumps(self, place: str, dumps: Mapping[str, bytes]) -> None:
        with archive_errors(self.path):
            folder = self.path / place
            layout.make_folders(folder)
            for file, content in dumps.items():
                layout.write_durably(folder / file, redact_document(content))

    def note_created(self, entry: Created) -> None:
        """Record durably, before it is created, something outside the archive."""
        self._append_journal(layout.CREATED, entry)

    def note_removed(self, entry: Created) -> None:
        self._append_journal(layout.CREATED, entry.model_copy(update={"removed": True}))

    def note_change(self, change: SettingChange) -> None:
        """Record durably a step of a setting's change, before it is done."""
        self._append_journal(layout.SETTINGS, change)

    def _append_journal(self, name: str, entry: BaseModel) -> None:
        with archive_errors(self.path), (self.path / name).open("ab+") as stream:
            stream.seek(0)
            before = stream.read()
            if before[-1:] not in (b"", b"\n"):  # a power cut tore the last line
                stream.write(b"\n")
            stream.write(entry.model_dump_json(by_alias=True).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
            if not before:
                sync_folder(self.path)

    def seal(self, status: RunStatus, *, ended_at: str, problems: tuple[Problem, ...] = ()) -> None:
        """Digest every file and write the final manifest."""
        with archive_errors(self.path):
            shutil.rmtree(self.path / layout.STAGING, ignore_errors=True)
            *earlier, last = self._manifest.sessions
            manifest = self._manifest.model_copy(
                update={
                    "status": status,
                    "sessions": (*earlier, last.model_copy(update={"ended_at": ended_at})),
                    "problems": (*self._manifest.problems, *problems),
                }
            )
            self._write_manifest(sealed(self.path, manifest))

    def close(self) -> None:
        """Release the archive, sealed or not."""
        if self._lock >= 0:
            (self.path / layout.LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def _write_manifest(self, manifest: Manifest) -> None:
        layout.write_durably(self.path / layout.MANIFEST, layout.encode(manifest))
        self._manifest = manifest


def sealed(path: Path, manifest: Manifest, *scrubs: Scrub) -> Manifest:
    """Write the list of redactions, if any, and return the manifest with every file's digest.

    `scrubs` are added to those that the list has. Raises OSError.
    """
    place = path / layout.REDACTIONS
    kept = read_record(place, Redactions).scrubs if place.exists() else ()
    redactions = layout.collect_redactions(path, manifest)
    if redactions or kept or scrubs:
        record = Redactions(redactions=redactions, scrubs=(*kept, *scrubs))
        layout.write_durably(place, layout.encode(record))
    files = {name: layout.digest_file(path / name) for name in layout.content_files(path)}
    return manifest.model_copy(update={"files": files})


def lock_archive(path: Path) -> int:
    """Lock an archive until the descriptor that is returned is closed.

    Raises LeadlineError(`run-not-resumable`) if another process holds the lock, and OSError.
    """
    handle = lock_file(path / layout.LOCK)
    if handle is None:
        raise LeadlineError(
            errors.RUN_NOT_RESUMABLE,
            f"the run {path.name} is being written by another process",
            context=[str(path)],
            hint="wait for it to end, or stop it with Ctrl-C where it runs",
        )
    return handle


def require_no_link(path: Path) -> None:
    """Raise LeadlineError(`archive-damaged`) if an archive that is written again holds a link: a
    write would change a file outside the archive."""
    link = layout.find_link(path)
    if link is not None:
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED,
            "the archive holds a symbolic link and is not written",
            context=[str(link)],
            hint="Leadline makes no links in archives: learn who made it, then remove it",
        )


def remove_abandoned_lock(archive: Path) -> None:
    """Remove the lock file that a power cut left; one that a process holds stays."""
    if (archive / layout.LOCK).exists():
        with suppress(LeadlineError, OSError):
            handle = lock_archive(archive)
            (archive / layout.LOCK).unlink(missing_ok=True)
            os.close(handle)


def draft_prefix() -> str:
    """What the name of a folder begins with in which this process makes an archive."""
    return f"{_DRAFT}{os.getpid()}-"


def remove_abandoned_drafts(runs: Path) -> None:
    """Remove the archives that killed processes began to make in a folder of runs."""
    for draft in runs.glob(f"{_DRAFT}*"):
        if draft.is_symlink():
            continue
        pid = draft.name.removeprefix(_DRAFT).partition("-")[0]
        if Path(f"/proc/{pid}").exists() or draft.lstat().st_uid != os.geteuid():
            continue
        # A process on another host, in a shared folder, holds its lock.
        with suppress(LeadlineError, OSError):
            handle = lock_archive(draft)
            shutil.rmtree(draft, ignore_errors=True)
            os.close(handle)


@contextmanager
def archive_errors(path: Path, hint: str = ROOM) -> Iterator[None]:
    """Convert an OSError of the archive's files into LeadlineError(`archive-unwritable`)."""
    try:
        yield
    except OSError as error:
        raise LeadlineError(
            errors.ARCHIVE_UNWRITABLE,
            f"the archive cannot be written: {error.strerror or error}",
            context=[str(error.filename or path)],
            hint=hint,
        ) from error
