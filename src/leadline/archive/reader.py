"""Read an archive: records, raw output and measurements, each on first use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from leadline.archive import layout
from leadline.archive.journal import Journal, parse_journal
from leadline.archive.raw import (
    ImportedFiles,
)
from leadline.archive.records import (
    Created,
    Look,
    Manifest,
    Redactions,
    RunStatus,
    SettingChange,
    SettingStep,
    Stacks,
    TrialRecord,
    TrialStatus,
    Unredacted,
    WrittenFiles,
    damaged,
    read_record,
    require_known_version,
    schema_of,
    unreadable,
)
from leadline.archive.trial import StoredTrial
from leadline.errors import LeadlineError
from leadline.files import read_content
from leadline.formats.guard_readings import GuardReading, MissedReading, parse_guard_readings
from leadline.formats.result import FormatError
from leadline.inventory.layer import Layer
from leadline.inventory.redaction import redact_document
from leadline.metrics import Measurement
from leadline.plan.models import Plan
from leadline.plan.models import Trial as PlannedTrial
from leadline.text import count_text

if TYPE_CHECKING:
    from leadline.inventory.ceph.model import CephInventory
    from leadline.inventory.host import HostInventory
    from leadline.inventory.kubernetes.models import KubernetesInventory

Entry = TypeVar("Entry", bound=BaseModel)
_JOURNALS: Mapping[str, type[BaseModel]] = {
    layout.CREATED: Created,
    layout.SETTINGS: SettingChange,
    layout.UNDO: Unredacted,
    layout.DIGESTS: WrittenFiles,
}
# Dumps of a cluster that are kept in memory together.
_SMALL_BYTES = 16 << 20


@dataclass(frozen=True)
class Run:
    """A run's archive; every part is read on first use."""

    path: Path

    @cached_property
    def manifest(self) -> Manifest:
        return read_record(self.path / layout.MANIFEST, Manifest)

    def refuse_newer(self) -> None:
        """Raise LeadlineError(`archive-newer`) if the archive is of a later version of the format.

        Damage is left to the reader of the record.
        """
        records: list[tuple[Path, type[BaseModel]]] = [
            (self.path / layout.MANIFEST, Manifest),
            (self.path / layout.PLAN, Plan),
        ]
        with suppress(LeadlineError):
            records += [(path / layout.TRIAL_RECORD, TrialRecord) for path in self.trial_folders]
        for path, model in records:
            with suppress(OSError, orjson.JSONDecodeError):
                require_known_version(orjson.loads(read_content(path)), schema_of(model), path)

    @cached_property
    def plan(self) -> Plan:
        return read_record(self.path / layout.PLAN, Plan)

    @cached_property
    def imported(self) -> ImportedFiles:
        """The foreign files of an archive whose results were imported."""
        return ImportedFiles(self.path)

    def remember(self, manifest: Manifest, plan: Plan, records: Sequence[TrialRecord]) -> None:
        """Take records, in the plan's order of trials, that were just made: they are not read."""
        attempts = []
        for planned, record in zip(plan.trials, records, strict=True):
            folder = self.path / layout.TRIALS / record.label
            attempt = StoredTrial(folder, plan.cells[planned.cell], self.imported)
            attempt.record = record
            attempts.append(attempt)
        self.__dict__.update(manifest=manifest, plan=plan, attempts=tuple(attempts))

    @property
    def id(self) -> str:
        return self.manifest.run

    @property
    def trial_folders(self) -> tuple[Path, ...]:
        """The folders of all stored attempts, readable or not. Raises LeadlineError."""
        trials = self._own(self.path / layout.TRIALS)
        try:
            with os.scandir(trials) as entries:
                names = [
                    entry.name
                    for entry in entries
                    if (trials / entry.name / layout.TRIAL_RECORD).exists()
                ]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return ()
        return tuple(self._own(trials / name) for name in sorted(names))

    def _own(self, folder: Path) -> Path:
        """Check that a folder is no link, which could lead out of an untrusted archive.

        Raises LeadlineError(`archive-damaged`).
        """
        if folder.is_symlink():
            raise damaged(f"{folder.relative_to(self.path)} is a link", self.path)
        return folder

    @cached_property
    def attempts(self) -> tuple[StoredTrial, ...]:
        """All stored attempts in the order of the plan, later attempts last."""
        stored = [StoredTrial(folder, None, self.imported) for folder in self.trial_folders]
        planned = {trial.id: trial for trial in self.plan.trials}
        for attempt in stored:
            trial = planned.get(attempt.record.trial)
            attempt.cell = self.plan.cells[trial.cell] if trial else None
        position = {trial.id: trial.position for trial in self.plan.trials}
        return tuple(
            sorted(
                stored,
                key=lambda trial: (position.get(trial.record.trial, -1), trial.record.attempt),
            )
        )

    @cached_property
    def trials(self) -> tuple[StoredTrial, ...]:
        """The last attempt of each trial, which is the one that counts."""
        return tuple({attempt.record.trial: attempt for attempt in self.attempts}.values())

    @property
    def missing(self) -> tuple[PlannedTrial, ...]:
        """Planned trials without any attempt."""
        have = {attempt.record.trial for attempt in self.attempts}
        return tuple(trial for trial in self.plan.trials if trial.id not in have)

    def to_do(self, *, retry_failed: bool = False) -> tuple[PlannedTrial, ...]:
        """List the trials that a resumed run executes: missing and interrupted ones, and with
        `retry_failed` those that failed or hung."""
        over = {TrialStatus.COMPLETED}
        if not retry_failed:
            over |= {TrialStatus.FAILED, TrialStatus.HUNG}
        done = {trial.record.trial for trial in self.trials if trial.record.status in over}
        return tuple(trial for trial in self.plan.trials if trial.id not in done)

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """The looks at the run's comparisons, in their order. Raises
        LeadlineError(`archive-damaged`)."""
        folder = self._own(self.path / layout.LOOKS)
        return tuple(read_record(path, Look) for path in sorted(folder.glob("*.json")))

    @property
    def undecided(self) -> bool:
        """Whether a run that ends when it is decided needs another look or round."""
        if self.plan.stop is None:
            return False
        return self.look_due or self.looks[-1].end is None

    @property
    def look_due(self) -> bool:
        """Whether no look has seen the present trials."""
        seen = {attempt.record.label for attempt in self.trials}
        return not self.looks or seen != set(self.looks[-1].trials)

    def seen_by(self, look: Look) -> Run:
        """Return the run as it was at a look."""
        attempts = tuple(one for one in self.attempts if one.record.label in set(look.trials))
        done = {attempt.record.trial for attempt in attempts}
        trials = tuple(trial for trial in self.plan.trials if trial.id in done)
        update = {"trials": trials, "repeats": look.round}
        run = Run(self.path)
        plan = self.plan.model_copy(update=update)
        run.__dict__.update(manifest=self.manifest, plan=plan, attempts=attempts)
        return run

    @property
    def complete(self) -> bool:
        return self.manifest.status is RunStatus.COMPLETE

    def inventory(self, moment: Literal["start", "end"]) -> HostInventory | None:
        """Read the host inventory at the start or end of the run; None where none was taken."""
        from leadline.inventory.host import HostInventory

        paths = sorted(self._own(self.path / layout.INVENTORY).glob(f"*-{moment}.json"))
        return read_record(paths[0 if moment == "start" else -1], HostInventory) if paths else None

    @cached_property
    def stacks(self) -> Mapping[str, tuple[Layer, ...]]:
        """The layers below each target, from the top down, as the last session found them.

        Targets without a known layer are left out. Raises LeadlineError(`archive-damaged`).
        """
        folder = self._own(self.path / layout.INVENTORY)
        pattern = Path(layout.stacks_file("*")).name
        kept = [read_record(path, Stacks) for path in sorted(folder.glob(pattern))]
        found = {
            stack.target: stack.layers for record in kept for stack in record.stacks if stack.layers
        }
        unknown = found.keys() - {target.name for target in self.plan.targets}
        if unknown:
            raise damaged(f"{min(unknown)!r} has layers, and the plan lacks that target", self.path)
        return found

    @cached_property
    def guard_readings(self) -> tuple[GuardReading | MissedReading, ...]:
        """The readings of the guard's limits in all sessions, in the order of their time. A line
        that a killed session left unfinished is left out.

        Raises LeadlineError(`archive-damaged`).
        """
        folder = self._own(self.path / layout.GUARD)
        found: list[GuardReading | MissedReading] = []
        for path in sorted(folder.glob("*.jsonl")):
            lines = self._journal(f"{layout.GUARD}/{path.name}").lines
            try:
                found += parse_guard_readings(b"\n".join(line.content for line in lines))
            except FormatError as error:
                raise damaged(error.fact, path) from error
        return tuple(sorted(found, key=lambda reading: reading.at))

    def system_dumps(self, moment: Literal["start", "end"], name: str) -> dict[str, bytes]:
        """Read the raw dumps of a cluster at the start or end of the run; empty without any.

        Raises LeadlineError(`archive-damaged`).
        """
        number = [cluster.name for cluster in self.plan.clusters].index(name)
        place = layout.system_folder("*", moment, number)
        return self._dumps(place, 0 if moment == "start" else -1)

    def target_dumps(self, name: str) -> dict[str, bytes]:
        """Read the raw dumps of the layers below a target, of the last session that has any.

        Empty without any. Raises LeadlineError(`archive-damaged`).
        """
        base = self.plan.target(name).base or name
        number = [target.name for target in self.plan.targets].index(base)
        return self._dumps(layout.target_folder("*", number), -1)

    def _dumps(self, pattern: str, which: int) -> dict[str, bytes]:
        """Read the files of one of the folders that match."""
        self._own(self.path / layout.INVENTORY)
        folders = sorted(self.path.glob(pattern))
        if not folders:
            return {}
        chosen = self._own(folders[which])
        if chosen in self._small_dumps:
            return self._small_dumps[chosen]
        try:
            # Archives of earlier versions may hold what this version would have removed.
            dumps = {
                path.name: redact_document(read_content(path)) for path in sorted(chosen.iterdir())
            }
        except OSError as error:
            raise unreadable(error, chosen) from error
        if sum(map(len, dumps.values())) <= _SMALL_BYTES:
            self._small_dumps[chosen] = dumps
        return dumps

    @cached_property
    def _small_dumps(self) -> dict[Path, dict[str, bytes]]:
        """What was read of folders of dumps, which are written once: a page asks for them often."""
        return {}

    def cluster(self, moment: Literal["start", "end"], name: str) -> CephInventory | None:
        """Read the Ceph inventory of a cluster, also of one that Rook runs in Kubernetes.

        None where none was taken. Raises LeadlineError(`dumps-invalid`).
        """
        dumps = self.system_dumps(moment, name)
        if not dumps:
            return None
        from leadline.inventory.system import system_of

        return system_of(dumps).ceph

    def kubernetes(self, moment: Literal["start", "end"], name: str) -> KubernetesInventory | None:
        """Read the Kubernetes inventory of a cluster; None where it has none.

        Raises LeadlineError(`dumps-invalid`).
        """
        dumps = self.system_dumps(moment, name)
        if not dumps:
            return None
        from leadline.inventory.kubernetes.kinds import holds_kubernetes
        from leadline.inventory.system import SAVED, system_of

        saved = SAVED in dumps or holds_kubernetes(dumps)
        return system_of(dumps).kubernetes if saved else None

    @cached_property
    def redactions(self) -> Redactions:
        """The secrets that were removed from the archive's documents; of an archive that is not
        sealed, as far as it was written. Raises LeadlineError(`archive-damaged`)."""
        path = self.path / layout.REDACTIONS
        if path.exists() or layout.REDACTIONS in self.manifest.files:
            return read_record(path, Redactions)
        if self.manifest.files:
            return Redactions()  # a sealed archive without the list has none
        try:
            return Redactions(redactions=layout.collect_redactions(self.path, self.manifest))
        except OSError as error:
            raise unreadable(error, path) from error

    @property
    def left_behind(self) -> tuple[Created, ...]:
        """Things that the run created outside the archive and did not remove (after kill -9), with
        the secrets that undo them.

        Raises LeadlineError(`archive-damaged`) for a journal that cannot be read. Of a damaged one
        (`journal_faults`), the lines that can be read count.
        """
        left: dict[str, Created] = {}
        for entry in self._entries(layout.CREATED, Created, secrets=True):
            if entry.removed:
                left.pop(entry.path, None)
            else:
                left[entry.path] = entry
        return tuple(left.values())

    @property
    def setting_changes(self) -> tuple[SettingChange, ...]:
        """The changes of settings in all sessions, in their order, without secrets.

        Raises LeadlineError(`archive-damaged`).
        """
        return tuple(self._entries(layout.SETTINGS, SettingChange))

    @property
    def unrestored(self) -> tuple[tuple[SettingChange, ...], ...]:
        """The changes of each parameter that was not restored (after kill -9), since it was last as
        before the run, with secrets. Raises LeadlineError as `left_behind`."""
        return unrestored(self._entries(layout.SETTINGS, SettingChange, secrets=True))

    @property
    def whole_plan(self) -> Plan:
        """The plan with its secrets, to resume the run or to undo its changes; they are kept where
        its stored form lacks some. Raises LeadlineError(`archive-damaged`)."""
        kept = self._unredacted(layout.PLAN).get(0)
        if kept is not None:
            with suppress(ValidationError):
                whole = Plan.model_validate_json(kept)
                if layout.encode(whole) == layout.encode(self.plan):
                    return whole
        return self.plan

    def _entries(self, name: str, model: type[Entry], *, secrets: bool = False) -> Iterator[Entry]:
        """Yield the records of a journal, with the `secrets` that its stored form lacks."""
        kept = self._unredacted(name) if secrets else {}
        for number, entry in self._journal(name).entries(model):
            if number in kept:
                with suppress(ValidationError):
                    whole = model.model_validate_json(kept[number])
                    # The line that a killed session announced may have become another one.
                    entry = whole if layout.redact_entry(whole) == entry else entry
            yield entry

    def _unredacted(self, name: str) -> dict[int, str]:
        """The contents with secrets of a document by the numbers of its lines, the last ones."""
        records = (record for _, record in self._journal(layout.UNDO).entries(Unredacted))
        return {record.line: record.content for record in records if record.file == name}

    @property
    def journaled(self) -> bool:
        """Whether the archive records the digest of every file before it is written; versions
        before 0.3 do not."""
        recorded = self.manifest.journaled or layout.DIGESTS in self.manifest.files
        return recorded or (self.path / layout.DIGESTS).exists()

    def _journal(self, name: str) -> Journal:
        """Read a journal; one that is not there has no lines, as one for another user alone."""
        path = self.path / name
        try:
            content = read_content(path)
        except FileNotFoundError:
            return Journal((), ())
        except PermissionError as error:
            if name != layout.UNDO:
                raise unreadable(error, path) from error
            return Journal((), ())
        except OSError as error:
            raise unreadable(error, path) from error
        return parse_journal(content, unsealed=not self.journaled)

    def journal_faults(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each journal that is not as it was written, and where it differs.
        Raises LeadlineError(`archive-damaged`)."""
        folder = self._own(self.path / layout.GUARD)
        guards = [f"{layout.GUARD}/{path.name}" for path in sorted(folder.glob("*.jsonl"))]
        parsed = {name: self._journal(name).faults(model) for name, model in _JOURNALS.items()}
        parsed |= {name: self._journal(name).damaged for name in guards}
        for name, faults in parsed.items():
            if faults:
                later = f", and {count_text(len(faults) - 1, 'line')} after it cannot be verified"
                more = later if len(faults) > 1 else ""
                yield name, f"line {faults[0]} is not as it was written{more}"
        needed = {name for name in layout.JOURNALS if name in self.manifest.files}
        needed |= {name for entry in self.written for name in entry.journals}
        for name in sorted(needed):
            if not os.path.lexists(self.path / name):
                yield name, "is missing"

    @cached_property
    def written(self) -> tuple[WrittenFiles, ...]:
        """The digests of files that sessions recorded, in their order. Raises
        LeadlineError(`archive-damaged`)."""
        return tuple(self._entries(layout.DIGESTS, WrittenFiles))

    @property
    def cleaning_unsealed(self) -> bool:
        """Whether a removal of leftovers ended before the digest of its journal was renewed."""
        return any(map(self.grew, _JOURNALS))

    def grew(self, name: str) -> bool:
        """Return whether a journal has more lines than were sealed; the secrets of a run that is
        over may be gone."""
        sealed = self.manifest.files.get(name)
        if sealed is None:
            return False
        try:
            content = read_content(self.path / name)
        except FileNotFoundError:
            return name == layout.UNDO and self.complete
        except OSError:
            return False
        added = content[sealed.size_bytes :].lstrip(b"\n")
        return (
            added.startswith(b"{")
            and b"\0" not in added
            and layout.digest(content[: sealed.size_bytes]) == sealed
        )

    def measurements(self) -> Iterator[Measurement]:
        """Yield the measurements table: a row per completed trial, operation and metric."""
        for trial in self.trials:
            if trial.record.status is TrialStatus.COMPLETED:
                yield from trial.measurements()


def unrestored(changes: Iterable[SettingChange]) -> tuple[tuple[SettingChange, ...], ...]:
    """The changes of each parameter that is not restored, since it was last as before the run."""
    found: dict[tuple[str, ...], list[SettingChange]] = {}
    for change in changes:
        # A mark, which has no name, is one of its place: another user has another.
        place = "" if change.parameter else change.value or ""
        key = (change.setting, change.cluster, change.parameter, place)
        if change.step in (SettingStep.RESTORED, SettingStep.KEPT):
            found.pop(key, None)
        else:
            found.setdefault(key, []).append(change)
    return tuple(map(tuple, found.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """What a file became: a trial, or a part of one."""

    file: str
    cluster: str
    target: str
    workload: str
    level: str
    repeat: int
    client: str


def imported_files(runs: Sequence[Run]) -> Iterator[ImportedFile]:
    """Yield the files of imported runs with the trials that they are in."""
    for run in runs:
        for trial in run.trials:
            record = trial.record
            source = record.source
            if source is None:
                continue
            clients = source.clients or ("",) * len(source.names)
            for name, client in zip(source.names, clients, strict=True):
                yield ImportedFile(
                    file=name,
                    cluster=run.manifest.cluster_label,
                    target=record.target,
                    workload=record.workload,
                    level=record.level,
                    repeat=record.block,
                    client=client,
                )
