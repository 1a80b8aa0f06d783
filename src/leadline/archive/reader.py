"""Read an archive: records, raw output and measurements, each on first use."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import orjson
from pydantic import BaseModel, ValidationError

from leadline import errors
from leadline.archive import layout
from leadline.archive.raw import (
    ImportedFiles,
    derived_operations,
    read_output,
    read_windows,
)
from leadline.archive.records import (
    ClientRecord,
    Clients,
    Created,
    Derived,
    Manifest,
    Redactions,
    Runner,
    Runners,
    RunStatus,
    Stacks,
    TrialRecord,
    TrialStatus,
)
from leadline.errors import LeadlineError
from leadline.files import read_content
from leadline.formats.ceph.counters import (
    parse_ceph_counters,
    parse_image_counters,
)
from leadline.formats.ceph.status import parse_cluster_log
from leadline.formats.fio.logs import Window
from leadline.formats.result import EngineOutput, FormatError
from leadline.formats.watch_records import (
    parse_block_requests,
    parse_mount_counters,
    parse_resource_log,
    parse_zfs_record,
)
from leadline.formats.zfs.iostat import IostatReport, parse_zpool_iostat
from leadline.formats.zfs.stream import StreamReport, read_zfs_stream
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.host import HostInventory
from leadline.inventory.kubernetes.kinds import holds_kubernetes
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.layer import Layer
from leadline.inventory.redaction import redact_document
from leadline.inventory.system import SAVED, system_of
from leadline.metrics import Measurement, Metric, Op
from leadline.plan.models import Cell, Plan
from leadline.plan.models import Trial as PlannedTrial
from leadline.stats.histogram import LatencyHistogram
from leadline.version import __version__

Record = TypeVar("Record", bound=BaseModel)
Sample = TypeVar("Sample")
# Name of the job, operation, metrics and histogram.
_Derived = tuple[str, Op, Mapping[Metric, "float | None"], "LatencyHistogram | None"]


def _read_watched(path: Path) -> bytes | None:
    """Read what a watch recorded; None where there was no watch. Raises FormatError."""
    try:
        return read_content(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(
            "unreadable-result", f"{path.name} cannot be read: {error.strerror}"
        ) from error


def _watch(
    name: str, parse: Callable[[bytes], tuple[Sample, ...]]
) -> cached_property[tuple[Sample, ...]]:
    """Samples of one watch during a trial; empty where nothing was watched.

    Reading raises FormatError with the line of the record that cannot be parsed.
    """

    def read(trial: StoredTrial) -> tuple[Sample, ...]:
        content = _read_watched(trial.folder / name)
        return () if content is None else parse(content)

    return cached_property(read)


class StoredTrial:
    """One attempt at a trial, as stored in `folder`; `imported` are the archive's foreign files.

    `cluster`, `resources`, `ceph_counters`, `block_requests`, `image_counters`, `mount_counters`
    and `zfs` are the samples of the watches that ran during the trial.
    """

    def __init__(
        self, folder: Path, cell: Cell | None, imported: ImportedFiles | None = None
    ) -> None:
        self.folder = folder
        self.cell = cell
        self._imported = imported or ImportedFiles(folder.parent.parent)

    @cached_property
    def record(self) -> TrialRecord:
        return read_record(self.folder / layout.TRIAL_RECORD, TrialRecord)

    @property
    def imported(self) -> bool:
        """Whether the figures are of a foreign file, so that nothing watched the trial."""
        return self.record.source is not None

    @cached_property
    def output(self) -> EngineOutput | FormatError:
        """The engine's output, or the error with which it cannot be read."""
        source = self.record.source
        if source is not None:
            return self._imported.result(source).output
        try:
            return read_output(self.record.engine, self.folder)
        except FormatError as error:
            return error

    @property
    def derived(self) -> Derived | None:
        """Read on each use: histograms are large as Python numbers."""
        path = self.folder / layout.DERIVED
        return read_record(path, Derived) if path.exists() else None

    @cached_property
    def together(self) -> EngineOutput | None:
        """The whole execution of an imported trial that is one of its sections."""
        source = self.record.source
        return self._imported.result(source).together if source is not None else None

    @cached_property
    def iops_windows(self) -> Mapping[Op, tuple[Window, ...]]:
        """IOPS per second and operation. Raises FormatError where a log cannot be parsed."""
        source = self.record.source
        if source is not None:
            return self._imported.result(source).windows
        return read_windows(self.record.engine, self.folder)

    @cached_property
    def runners(self) -> tuple[Runner, ...]:
        """The pods and virtual machines that did the trial's I/O; empty where this machine did.

        Raises LeadlineError(`archive-damaged`).
        """
        path = self.folder / layout.RUNNERS
        return read_record(path, Runners).runners if path.exists() else ()

    @cached_property
    def clients(self) -> tuple[ClientRecord, ...]:
        """The load generators of a fleet; empty without one. Raises LeadlineError."""
        path = self.folder / layout.CLIENTS
        return read_record(path, Clients).clients if path.exists() else ()

    cluster = _watch(layout.CLUSTER, parse_cluster_log)
    resources = _watch(layout.RESOURCES, parse_resource_log)
    ceph_counters = _watch(layout.CEPH_COUNTERS, parse_ceph_counters)
    block_requests = _watch(layout.BLOCK_REQUESTS, parse_block_requests)
    image_counters = _watch(layout.IMAGE_COUNTERS, parse_image_counters)
    mount_counters = _watch(layout.MOUNT_COUNTERS, parse_mount_counters)
    zfs = _watch(layout.ZFS, parse_zfs_record)

    @cached_property
    def zfs_stream(self) -> StreamReport | None:
        """The streams of a trial of `engine: zfs-stream`, with the stalls of their pipe; None of
        another engine. Raises FormatError."""
        if self.imported:
            return None
        return read_zfs_stream(self.folder)

    @cached_property
    def zpool_iostat(self) -> IostatReport | None:
        """The output of `zpool iostat` during the trial; None where it was not run or printed
        nothing. Raises FormatError with the line that cannot be parsed."""
        content = _read_watched(self.folder / layout.ZPOOL_IOSTAT)
        if content is None or content.count(b"\n") < 2:
            return None  # its command line alone
        # The program is stopped in the middle of a line or a block.
        return parse_zpool_iostat(content, stopped=True)

    def measurements(self) -> Iterator[Measurement]:
        """Yield rows of the measurements table.

        A job file of several sections gives a workload `name/section` for each.
        """
        operations = list(self._derived_operations())
        record = self.record
        own_file = self.cell is not None and self.cell.workload.job_file is not None
        split = own_file and len({job for job, *_ in operations}) > 1
        for job, op, metrics, histogram in operations:
            workload = f"{record.workload}/{job}" if split else record.workload
            for metric, value in metrics.items():
                yield Measurement(
                    trial=record.trial,
                    target=record.target,
                    workload=workload,
                    level=record.level,
                    block=record.block,
                    op=op,
                    metric=metric,
                    value=value,
                    histogram=histogram if metric is Metric.LATENCY_MEAN else None,
                )

    def _derived_operations(self) -> Iterator[_Derived]:
        """Yield the derived numbers: of a file that was just parsed from its results, else as they
        are stored."""
        source = self.record.source
        result = self._imported.remembered(source) if source is not None else None
        if result is not None:
            if isinstance(result.output, EngineOutput):
                for job, operation in derived_operations(result.output):
                    metrics = {
                        metric: value if value is not None and isfinite(value) else None
                        for metric, value in operation.metrics().items()
                    }
                    yield job, operation.op, metrics, operation.histogram
            return
        derived = self.derived
        for stored in derived.operations if derived else ():
            histogram = (
                LatencyHistogram(
                    np.asarray(stored.histogram_ns, dtype=np.int64),
                    np.asarray(stored.histogram_counts, dtype=np.int64),
                )
                if stored.histogram_ns
                else None
            )
            yield stored.job, stored.op, stored.metrics, histogram


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
            raise _damaged(f"{folder.relative_to(self.path)} is a link", self.path)
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

    @property
    def complete(self) -> bool:
        return self.manifest.status is RunStatus.COMPLETE

    def inventory(self, moment: Literal["start", "end"]) -> HostInventory | None:
        """Read the host inventory at the start or end of the run; None where none was taken."""
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
        return {
            stack.target: stack.layers for record in kept for stack in record.stacks if stack.layers
        }

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
        number = [target.name for target in self.plan.targets].index(name)
        return self._dumps(layout.target_folder("*", number), -1)

    def _dumps(self, pattern: str, which: int) -> dict[str, bytes]:
        """Read the files of one of the folders that match."""
        self._own(self.path / layout.INVENTORY)
        folders = sorted(self.path.glob(pattern))
        if not folders:
            return {}
        chosen = self._own(folders[which])
        try:
            # Archives of earlier versions may hold what this version would have removed.
            return {
                path.name: redact_document(read_content(path)) for path in sorted(chosen.iterdir())
            }
        except OSError as error:
            raise _unreadable(error, chosen) from error

    def cluster(self, moment: Literal["start", "end"], name: str) -> CephInventory | None:
        """Read the Ceph inventory of a cluster, also of one that Rook runs in Kubernetes.

        None where none was taken. Raises LeadlineError(`dumps-invalid`).
        """
        dumps = self.system_dumps(moment, name)
        return system_of(dumps).ceph if dumps else None

    def kubernetes(self, moment: Literal["start", "end"], name: str) -> KubernetesInventory | None:
        """Read the Kubernetes inventory of a cluster; None where it has none.

        Raises LeadlineError(`dumps-invalid`).
        """
        dumps = self.system_dumps(moment, name)
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
            raise _unreadable(error, path) from error

    @property
    def left_behind(self) -> tuple[Created, ...]:
        """Things that the run created outside the archive and did not remove (after kill -9).

        Raises LeadlineError(`archive-damaged`).
        """
        path = self.path / layout.CREATED
        try:
            content = read_content(path)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _unreadable(error, path) from error
        left: dict[str, Created] = {}
        for line in content.splitlines():
            try:
                entry = Created.model_validate_json(line)
            except ValidationError:
                continue  # the line that was being written when the machine lost power
            if entry.removed:
                left.pop(entry.path, None)
            else:
                left[entry.path] = entry
        return tuple(left.values())

    @property
    def cleaning_unsealed(self) -> bool:
        """Whether a removal of leftovers ended before the digest of its journal was renewed."""
        sealed = self.manifest.files.get(layout.CREATED)
        if sealed is None:
            return False
        try:
            content = read_content(self.path / layout.CREATED)
        except OSError:
            return False
        return (
            len(content) > sealed.size_bytes
            and layout.digest(content[: sealed.size_bytes]) == sealed
        )

    def measurements(self) -> Iterator[Measurement]:
        """Yield the measurements table: a row per completed trial, operation and metric."""
        for trial in self.trials:
            if trial.record.status is TrialStatus.COMPLETED:
                yield from trial.measurements()


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


def _damaged(fact: str, *context: object) -> LeadlineError:
    return LeadlineError(
        errors.ARCHIVE_DAMAGED,
        fact,
        context=map(str, context),
        hint="`leadline verify` names every damaged file",
    )


def _unreadable(error: OSError, path: Path) -> LeadlineError:
    return _damaged(f"the archive's {path.name} cannot be read: {error.strerror}", path)


def schema_of(model: type[BaseModel]) -> str:
    """Return the schema that a model of records writes, empty for one without."""
    field = model.model_fields.get("schema_")
    return field.default if field is not None else ""


def require_known_version(document: object, known: str, where: object) -> None:
    """Raise LeadlineError(`archive-newer`) if a document is of a later version of `known`.

    A schema is `leadline/NAME/VERSION`. Any other document is left to its reader.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    name, _, version = known.rpartition("/")
    found = (
        re.fullmatch(rf"{re.escape(name)}/([1-9]\d{{0,8}})", schema, re.ASCII)
        if (name and isinstance(schema, str))
        else None
    )
    if found is not None and int(found[1]) > int(version):
        raise LeadlineError(
            errors.ARCHIVE_NEWER,
            f"{name} is of version {found[1]}, and this Leadline reads up to version {version}",
            context=[str(where), f"this is Leadline {__version__}"],
            hint="use the version of Leadline that wrote it, or a later one; nothing was changed",
        )


def read_record(path: Path, model: type[Record]) -> Record:
    """Read and validate a record. Raises LeadlineError(`archive-damaged`) with the place."""
    try:
        document = orjson.loads(read_content(path))
        require_known_version(document, schema_of(model), path)
        return model.model_validate(document)
    except FileNotFoundError as error:
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED, f"the archive lacks {path.name}", context=[str(path)]
        ) from error
    except OSError as error:
        raise _unreadable(error, path) from error
    except orjson.JSONDecodeError as error:
        raise _damaged(
            f"{path.name} is not JSON", f"{path}:{error.lineno}:{error.colno}: {error.msg}"
        ) from error
    except ValidationError as error:
        details = [
            f"{path}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED,
            f"{path.name} is not what this version of Leadline writes",
            context=details[:5],
            hint="`leadline verify` names every damaged file",
        ) from error
