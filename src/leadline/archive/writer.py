"""Write an archive that is sealed or visibly unfinished after a kill -9 at any moment.

A new archive and every trial are written to a folder aside, synced and renamed into place: all of
it or nothing. The manifest says `running` until the end and receives the digest of every file last.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from leadline import errors
from leadline.archive import layout
from leadline.archive.journal import JournalFile
from leadline.archive.reader import Run
from leadline.archive.records import (
    Created,
    FileDigest,
    Look,
    Manifest,
    Problem,
    Redactions,
    RunStatus,
    Scrub,
    Session,
    SettingChange,
    SettingStep,
    Stacks,
    TrialRecord,
    Unredacted,
    WrittenFiles,
    read_record,
)
from leadline.archive.verify import news_of, recorded_digests, require_intact
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
        self._alive = _hold(lock)
        self._manifest = manifest
        self._journals: dict[str, JournalFile] = {}

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
                journaled=True,
            )
            try:
                draft.mkdir(mode=0o755)
                writer = cls(draft, lock_archive(draft), manifest)
                (draft / layout.TRIALS).mkdir()
                writer._journal(layout.CREATED)
                if plan.settings:
                    writer._journal(layout.SETTINGS)
                writer._write({layout.PLAN_AS_GIVEN: redact_document(plan_as_given)})
                writer._write_plan(plan)
                writer._write_manifest(manifest)
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
            writer.path = path
            sync_folder(path.parent)
        return writer

    @classmethod
    def reopen(cls, path: Path, *, session: Session) -> RunWriter:
        """Continue an unfinished archive. Raises LeadlineError: `run-not-resumable` if another
        process is writing it, `archive-damaged` if a file is not as it was written."""
        require_no_link(path)
        with archive_errors(path):
            lock = lock_archive(path)
            try:
                run = Run(path)
                require_intact(run)
                manifest = run.manifest
                shutil.rmtree(path / layout.STAGING, ignore_errors=True)
                for temporary in path.rglob(layout.TEMPORARY.format("*")):
                    temporary.unlink(missing_ok=True)
                writer = cls(path, lock, manifest)
                journaled, news = run.journaled, news_of(run)
                for name in layout.JOURNALS if run.plan.settings else (layout.CREATED,):
                    journal = writer._journal(name)
                    if journal.lines and not journaled:
                        journal.vouch()
                writer._note_written(news)
            except BaseException:
                os.close(lock)
                raise
            writer._write_manifest(
                manifest.model_copy(
                    update={
                        "status": RunStatus.RUNNING,
                        "sessions": (*manifest.sessions, session),
                        "files": {},
                        "journaled": True,
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
            require_intact(writer.run)
            yield writer
            with archive_errors(path):
                writer._forget_secrets(writer._manifest.status)
                files = dict(writer._manifest.files)
                if files:
                    for name in (*layout.JOURNALS, layout.UNDO):
                        files.pop(name, None)
                        if (path / name).exists():
                            files[name] = layout.digest_file(path / name)
                    writer._write_manifest(writer._manifest.model_copy(update={"files": files}))
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
                record = folder / layout.TRIAL_RECORD
                if not record.exists():  # which has digests of the rest
                    layout.redact_output(folder)
                place = self.path / name
                layout.make_folders(place.parent)
                layout.sync_tree(folder)
                files = [record] if record.exists() else sorted(folder.iterdir())
                self._note_written(
                    WrittenFiles(
                        files={
                            f"{name}/{path.name}": layout.digest_file(path)
                            for path in files
                            if path.is_file()
                        }
                    )
                )
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
            self._write_plan(plan)
        manifest = self._manifest.model_copy(update={"trials_planned": len(plan.trials)})
        with archive_errors(self.path):
            self._write_manifest(manifest)

    def write_look(self, look: Look) -> None:
        """Keep a look, before anything that follows from it."""
        with archive_errors(self.path):
            self._write({layout.look_file(len(self.run.looks) + 1): layout.encode(look)})

    @property
    def session(self) -> int:
        """The number of this session, from 1; a resumed run has several."""
        return len(self._manifest.sessions)

    def make_guard_file(self) -> Path:
        """Make the file of the readings of this session's guard."""
        name = layout.guard_file(f"{self.session:03d}")
        place = self.path / name
        with archive_errors(self.path):
            layout.make_folders(place.parent)
            place.touch()
            self._note_written(WrittenFiles(journals={name: 0}))
        return place

    def write_inventory(self, moment: Literal["start", "end"], inventory: HostInventory) -> None:
        name = f"{layout.INVENTORY}/{self.session:03d}-{moment}.json"
        with archive_errors(self.path):
            self._write({name: layout.encode(inventory)})

    def write_stacks(self, stacks: Stacks) -> None:
        """Keep the layers below the targets of this session."""
        with archive_errors(self.path):
            self._write({layout.stacks_file(f"{self.session:03d}"): layout.encode(stacks)})

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
            self._write(
                {f"{place}/{file}": redact_document(content) for file, content in dumps.items()}
            )

    def _write(self, files: Mapping[str, bytes]) -> None:
        """Write files durably, of which the digests are recorded when nothing is left but to rename
        them: a full disk leaves no digest without its file. Raises OSError."""
        digests = {name: layout.digest(content) for name, content in files.items()}
        for name, content in files.items():
            layout.make_folders((self.path / name).parent)
            layout.write_temporary(self.path / name, content)
        self._note_written(WrittenFiles(files=digests))
        for name in files:
            layout.rename_temporary(self.path / name)

    def _write_plan(self, plan: Plan) -> None:
        content, whole = layout.encode(plan), plan.model_dump_json(by_alias=True)
        if Plan.model_validate_json(content) != plan:
            self._keep_secrets(layout.PLAN, 0, whole)
        self._write({layout.PLAN: content})

    def _note_written(self, written: WrittenFiles) -> None:
        sizes = {
            name: journal.size_bytes
            for name, journal in self._journals.items()
            if name in layout.JOURNALS
        }
        noted = written.model_copy(update={"journals": {**sizes, **written.journals}})
        self._journal(layout.DIGESTS).append(noted)

    def _keep_secrets(self, file: str, line: int, content: str) -> None:
        """Keep what a document is without redaction, where only this user can read it."""
        kept = Unredacted(file=file, line=line, content=content, salt=secrets.token_hex(32))
        self._journal(layout.UNDO).append(kept)

    def _forget_secrets(self, status: RunStatus) -> None:
        """Remove what undoes the changes of a run when nothing is left to undo or to resume."""
        run = self.run
        place = self.path / layout.UNDO
        over = status is RunStatus.COMPLETE and not run.left_behind and not run.unrestored
        # What another user has changed stays as it is: the value before is here alone.
        over = over and all(change.step is not SettingStep.KEPT for change in run.setting_changes)
        if over and place.exists():
            if layout.UNDO in self._journals:
                self._journals.pop(layout.UNDO).close()
            place.unlink()
            sync_folder(self.path)

    def note_created(self, entry: Created) -> None:
        """Record durably, before it is created, something outside the archive."""
        self._append_journal(layout.CREATED, entry)

    def note_removed(self, entry: Created) -> None:
        self._append_journal(layout.CREATED, entry.model_copy(update={"removed": True}))

    def note_change(self, change: SettingChange) -> None:
        """Record durably a step of a setting's change, before it is done."""
        self._append_journal(layout.SETTINGS, change)

    def _append_journal(self, name: str, entry: BaseModel) -> None:
        with archive_errors(self.path):
            journal, clean = self._journal(name), layout.redact_entry(entry)
            if clean != entry:
                self._keep_secrets(name, journal.lines + 1, entry.model_dump_json(by_alias=True))
            journal.append(clean)

    def _journal(self, name: str) -> JournalFile:
        if name not in self._journals:
            mode = 0o600 if name == layout.UNDO else 0o666
            self._journals[name] = JournalFile(self.path / name, mode=mode)
        return self._journals[name]

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
            self._forget_secrets(status)
            recorded = recorded_digests(self.run)
            self._write_manifest(sealed(self.path, manifest, recorded))

    def close(self) -> None:
        """Release the archive, sealed or not."""
        while self._journals:
            self._journals.popitem()[1].close()
        if self._lock >= 0:
            (self.path / layout.LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1
            os.close(self._alive)

    def _write_manifest(self, manifest: Manifest) -> None:
        layout.write_durably(self.path / layout.MANIFEST, layout.encode(manifest))
        self._manifest = manifest


def sealed(
    path: Path, manifest: Manifest, recorded: Mapping[str, FileDigest], *scrubs: Scrub
) -> Manifest:
    """Write the list of redactions, if any, and return the manifest with every file's digest.

    A file keeps for ever the digest that was `recorded` when it was written, whatever it is now.
    `scrubs` are added to those that the list has. Raises OSError.
    """
    place = path / layout.REDACTIONS
    kept = read_record(place, Redactions).scrubs if place.exists() else ()
    redactions = layout.collect_redactions(path, manifest)
    if redactions or kept or scrubs:
        record = Redactions(redactions=redactions, scrubs=(*kept, *scrubs))
        layout.write_durably(place, layout.encode(record))
    files = {
        name: recorded.get(name) or layout.digest_file(path / name)
        for name in sorted({*layout.content_files(path), *recorded})
    }
    return manifest.model_copy(update={"files": files, "journaled": False})


def lock_archive(path: Path) -> int:
    """Lock an archive until the descriptor that is returned is closed.

    Raises LeadlineError(`run-not-resumable`) if another process holds the lock, or writes the
    archive of which this one is a copy, and OSError.
    """
    handle = lock_file(path / layout.LOCK)
    if handle is not None and not _is_held(os.pread(handle, _NAME_BYTES, 0)):
        return handle
    if handle is not None:
        os.close(handle)
    raise LeadlineError(
        errors.RUN_NOT_RESUMABLE,
        f"the run {path.name} is being written by another process",
        context=[str(path) if handle is None else f"{path} is a copy of its archive"],
        hint="wait for it to end, or stop it with Ctrl-C where it runs",
    )


# A copy of an archive has its lock file, and not its lock. The file names a socket of the process
# that writes the archive, in the kernel's own namespace, where it ends with the process.
_NAME_BYTES = 48


def _hold(lock: int) -> int:
    """Name this process in the file of a lock; return the socket that has the name, as a
    descriptor. Raises OSError."""
    name = b"leadline-" + secrets.token_hex(16).encode()
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(b"\0" + name)
        os.ftruncate(lock, 0)
        os.pwrite(lock, name, 0)
        return alive.detach()


def _is_held(name: bytes) -> bool:
    """Return whether a process that lives has the name in the file of a lock."""
    if not name:
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(b"\0" + name)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


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
        in_use = not pid.isdecimal() or Path(f"/proc/{pid}").exists()
        if in_use or draft.lstat().st_uid != os.geteuid():
            continue
        # A process on another host, in a shared folder, holds its lock.
        with suppress(LeadlineError, OSError):
            if not layout.is_draft(draft):
                continue
            handle = lock_archive(draft)
            layout.remove_draft(draft)
            os.close(handle)


@contextmanager
def archive_errors(path: Path, hint: str = ROOM) -> Iterator[None]:
    """Convert an OSError of the archive's files into LeadlineError(`archive-unwritable`)."""
    try:
        yield
    except OSError as error:
        denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        raise LeadlineError(
            errors.ARCHIVE_UNWRITABLE,
            f"the archive cannot be written: {error.strerror or error}",
            context=[str(error.filename or path)],
            hint="run it as the user who may write there" if denied else hint,
        ) from error
