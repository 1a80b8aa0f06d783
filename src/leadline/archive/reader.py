"""An archive opened for reading: records, raw output and measurements, each read when asked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import orjson
from pydantic import BaseModel, ValidationError

from leadline import errors
from leadline.archive import layout
from leadline.archive.raw import ImportedFiles, read_output, read_windows
from leadline.archive.records import (
    ClientRecord,
    Clients,
    Created,
    Derived,
    Manifest,
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
    CounterSample,
    ImageSample,
    MissedImage,
    parse_ceph_counters,
    parse_image_counters,
)
from leadline.formats.ceph.status import ClusterSample, MissedSample, parse_cluster_log
from leadline.formats.fio.logs import Window
from leadline.formats.result import EngineOutput, FormatError
from leadline.formats.watch_records import (
    BlockSample,
    HostSample,
    MissedBlock,
    MissedHostSample,
    MissedZfs,
    MountSample,
    ZfsAnswer,
    parse_block_requests,
    parse_mount_counters,
    parse_resource_log,
    parse_zfs_record,
)
from leadline.formats.zfs.iostat import IostatReport, parse_zpool_iostat
from leadline.formats.zfs.stream import StreamReport, read_zfs_stream
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.host import HostInventory
from leadline.inventory.kubernetes.kinds import holds_kubernetes
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.inventory.layer import Layer
from leadline.metrics import Measurement, Metric, Op
from leadline.plan.models import Cell, Plan
from leadline.plan.models import Trial as PlannedTrial
from leadline.stats.histogram import LatencyHistogram

Record = TypeVar("Record", bound=BaseModel)


class StoredTrial:
    """One attempt at a trial, as stored in `folder`; `imported` are the archive's foreign files."""

    def __init__(
        self, folder: Path, cell: Cell | None, imported: ImportedFiles | None = None
    ) -> None:
        self.folder = folder
        self.cell = cell
        self._imported = imported or ImportedFiles(folder.parent.parent)

    @cached_property
    def record(self) -> TrialRecord:
        return read_record(self.folder / layout.TRIAL_RECORD, TrialRecord)

    @cached_property
    def output(self) -> EngineOutput | FormatError:
        """The engine's output, or why it cannot be read."""
        source = self.record.source
        if source is not None:
            return self._imported.result(source).output
        try:
            return read_output(self.record.engine, self.folder)
        except FormatError as error:
            return error

    @property
    def derived(self) -> Derived | None:
        """Read anew each time: as Python's numbers histograms are large."""
        path = self.folder / layout.DERIVED
        return read_record(path, Derived) if path.exists() else None

    @cached_property
    def together(self) -> EngineOutput | None:
        """Of an imported trial that is one of several sections: the whole execution."""
        source = self.record.source
        return self._imported.result(source).together if source is not None else None

    @cached_property
    def iops_windows(self) -> Mapping[Op, tuple[Window, ...]]:
        """IOPS per second and operation. Raises FormatError where they are not understood."""
        source = self.record.source
        if source is not None:
            return self._imported.result(source).windows
        return read_windows(self.record.engine, self.folder)

    @cached_property
    def runners(self) -> tuple[Runner, ...]:
        """What did the trial's I/O in a Kubernetes cluster; empty where this machine did. Raises
        LeadlineError(`archive-damaged`)."""
        path = self.folder / layout.RUNNERS
        return read_record(path, Runners).runners if path.exists() else ()

    @cached_property
    def clients(self) -> tuple[ClientRecord, ...]:
        """The load generators of a fleet; empty where the engine was not one. Raises
        LeadlineError(`archive-damaged`)."""
        path = self.folder / layout.CLIENTS
        return read_record(path, Clients).clients if path.exists() else ()

    @cached_property
    def cluster(self) -> tuple[ClusterSample | MissedSample, ...]:
        """The Ceph cluster during the trial; empty where none was watched.

        Raises FormatError with the line of the record that is not understood.
        """
        content = self._watched(layout.CLUSTER)
        return () if content is None else parse_cluster_log(content)

    @cached_property
    def resources(self) -> tuple[HostSample | MissedHostSample, ...]:
        """Counters of machines during the trial; empty where none were sampled.

        Raises FormatError with the line of the record that is not understood.
        """
        content = self._watched(layout.RESOURCES)
        return () if content is None else parse_resource_log(content)

    @cached_property
    def ceph_counters(self) -> tuple[CounterSample, ...]:
        """Counters of OSDs during the trial; empty where none were asked for.

        Raises FormatError with the line of the record that is not understood.
        """
        content = self._watched(layout.CEPH_COUNTERS)
        return () if content is None else parse_ceph_counters(content)

    @cached_property
    def block_requests(self) -> tuple[BlockSample | MissedBlock, ...]:
        """Sizes of requests to block devices during the trial; empty where none were sampled.

        Raises FormatError with the line of the record that is not understood.
        """
        content = self._watched(layout.BLOCK_REQUESTS)
        return () if content is None else parse_block_requests(content)

    @cached_property
    def zfs_stream(self) -> StreamReport | None:
        """The streams of a trial of `engine: zfs-stream`, with the stalls of their pipe; None of
        another. Raises FormatError."""
        return read_zfs_stream(self.folder)

    @cached_property
    def image_counters(self) -> tuple[ImageSample | MissedImage, ...]:
        """Counters of the client of the target's image; empty where none were asked for.

        Raises FormatError with the line of the record that is not understood.
        """
        content = self._watched(layout.IMAGE_COUNTERS)
        return () if content is None else parse_image_counters(content)

    @cached_property
    def mount_counters(self) -> tuple[MountSample, ...]:
        """Mounts of FUSE and NFS during the trial; empty where the target lies on none.

        Raises FormatError with the line of the record that is not understood.
        """
        content = self._watched(layout.MOUNT_COUNTERS)
        return () if content is None else parse_mount_counters(content)

    @cached_property
    def zfs(self) -> tuple[ZfsAnswer | MissedZfs, ...]:
        """What ZFS told at the start and the end of the trial; empty where there is none.

        Raises FormatError with the line of the record that is not understood.
        """
        content = self._watched(layout.ZFS)
        return () if content is None else parse_zfs_record(content)

    @cached_property
    def zpool_iostat(self) -> IostatReport | None:
        """What `zpool iostat` printed during the trial; None where it was not run or printed
        nothing. Raises FormatError with the line that is not understood."""
        content = self._watched(layout.ZPOOL_IOSTAT)
        if content is None or content.count(b"\n") < 2:
            return None  # its command line alone
        # The program is ended in the midst of a line or a block.
        return parse_zpool_iostat(content, stopped=True)

    def _watched(self, name: str) -> bytes | None:
        """What a watch wrote during the trial; None where there was none. Raises FormatError."""
        try:
            return read_content(self.folder / name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FormatError(
                "unreadable-result", f"{name} cannot be read: {error.strerror}"
            ) from error

    def measurements(self) -> Iterator[Measurement]:
        """Rows of the measurements table; a job file of several sections gives one workload
        `name/section` each."""
        derived = self.derived
        if derived is None:
            return
        record = self.record
        names = {operation.job for operation in derived.operations}
        own_file = self.cell is not None and self.cell.workload.job_file is not None
        for operation in derived.operations:
            histogram = (
                LatencyHistogram(
                    np.asarray(operation.histogram_ns, dtype=np.int64),
                    np.asarray(operation.histogram_counts, dtype=np.int64),
                )
                if operation.histogram_ns
                else None
            )
            split = own_file and len(names) > 1
            workload = f"{record.workload}/{operation.job}" if split else record.workload
            for metric, value in operation.metrics.items():
                yield Measurement(
                    trial=record.trial,
                    target=record.target,
                    workload=workload,
                    level=record.level,
                    block=record.block,
                    op=operation.op,
                    metric=metric,
                    value=value,
                    histogram=histogram if metric is Metric.LATENCY_MEAN else None,
                )


@dataclass(frozen=True)
class Run:
    """A run's archive. Nothing is read before it is asked for."""

    path: Path

    @cached_property
    def manifest(self) -> Manifest:
        return read_record(self.path / layout.MANIFEST, Manifest)

    @cached_property
    def plan(self) -> Plan:
        return read_record(self.path / layout.PLAN, Plan)

    @cached_property
    def imported(self) -> ImportedFiles:
        """The foreign files of an archive whose results were imported."""
        return ImportedFiles(self.path)

    @property
    def id(self) -> str:
        return self.manifest.run

    @property
    def trial_folders(self) -> tuple[Path, ...]:
        """The folder of every stored attempt, readable or not. Raises LeadlineError
        (`archive-damaged`)."""
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
        """A folder of the archive. One that is a link, which a stranger's may be, leads anywhere:
        raises LeadlineError(`archive-damaged`)."""
        if folder.is_symlink():
            raise _damaged(f"{folder.relative_to(self.path)} is a link", self.path)
        return folder

    @cached_property
    def attempts(self) -> tuple[StoredTrial, ...]:
        """Every stored attempt in the order of the plan, later attempts behind earlier ones."""
        stored = [StoredTrial(folder, None, self.imported) for folder in self.trial_folders]
        planned = {trial.id: trial for trial in self.plan.trials}
        for attempt in stored:
            trial = planned.get(attempt.record.trial)
            attempt.cell = self.plan.cells[trial.cell] if trial else None
        position = {trial.id: trial.position for trial in self.plan.trials}
        return tuple(
            sorted(stored, key=lambda one: (position.get(one.record.trial, -1), one.record.attempt))
        )

    @cached_property
    def trials(self) -> tuple[StoredTrial, ...]:
        """The attempt that counts of each trial: the last one."""
        return tuple({attempt.record.trial: attempt for attempt in self.attempts}.values())

    @property
    def missing(self) -> tuple[PlannedTrial, ...]:
        """Planned trials without any attempt."""
        have = {attempt.record.trial for attempt in self.attempts}
        return tuple(trial for trial in self.plan.trials if trial.id not in have)

    def to_do(self, *, retry_failed: bool = False) -> tuple[PlannedTrial, ...]:
        """Trials that a resumed run carries out: missing and interrupted ones, and on request
        those that failed or hung."""
        over = {TrialStatus.COMPLETED}
        if not retry_failed:
            over |= {TrialStatus.FAILED, TrialStatus.HUNG}
        done = {one.record.trial for one in self.trials if one.record.status in over}
        return tuple(trial for trial in self.plan.trials if trial.id not in done)

    @property
    def complete(self) -> bool:
        return self.manifest.status is RunStatus.COMPLETE

    def inventory(self, moment: Literal["start", "end"]) -> HostInventory | None:
        """The host inventory at the run's start or end, over all sessions; None if not taken."""
        paths = sorted(self._own(self.path / layout.INVENTORY).glob(f"*-{moment}.json"))
        return read_record(paths[0 if moment == "start" else -1], HostInventory) if paths else None

    @cached_property
    def stacks(self) -> Mapping[str, tuple[Layer, ...]]:
        """What lies below each target, from the top down, as its last session found it; targets
        of which nothing is known are not in it. Raises LeadlineError(`archive-damaged`)."""
        folder = self._own(self.path / layout.INVENTORY)
        pattern = Path(layout.stacks_file("*")).name
        kept = [read_record(path, Stacks) for path in sorted(folder.glob(pattern))]
        return {one.target: one.layers for record in kept for one in record.stacks if one.layers}

    def system_dumps(self, moment: Literal["start", "end"], name: str) -> dict[str, bytes]:
        """The raw dumps of a cluster of the plan, taken at the run's start or end, over all
        sessions; empty if none were taken. Raises LeadlineError(`archive-damaged`)."""
        number = [cluster.name for cluster in self.plan.clusters].index(name)
        place = layout.system_folder("*", moment, number)
        return self._dumps(place, 0 if moment == "start" else -1)

    def target_dumps(self, name: str) -> dict[str, bytes]:
        """What the layers below a target told of themselves, raw, in the last session that asked;
        empty if none did. Raises LeadlineError(`archive-damaged`)."""
        number = [target.name for target in self.plan.targets].index(name)
        return self._dumps(layout.target_folder("*", number), -1)

    def _dumps(self, pattern: str, which: int) -> dict[str, bytes]:
        """Of the sessions that match, one."""
        self._own(self.path / layout.INVENTORY)
        folders = sorted(self.path.glob(pattern))
        if not folders:
            return {}
        chosen = self._own(folders[which])
        try:
            return {path.name: read_content(path) for path in sorted(chosen.iterdir())}
        except OSError as error:
            raise _unreadable(error, chosen) from error

    def cluster(self, moment: Literal["start", "end"], name: str) -> CephInventory | None:
        """What a cluster of the plan was as a Ceph cluster, Rook's in Kubernetes included; None if
        it was not taken. Raises LeadlineError(`dumps-invalid`)."""
        dumps = self.system_dumps(moment, name)
        if holds_kubernetes(dumps):
            return kubernetes_inventory(dumps).ceph
        return cluster_inventory(dumps) if dumps else None

    def kubernetes(self, moment: Literal["start", "end"], name: str) -> KubernetesInventory | None:
        """What a cluster of the plan was as a Kubernetes cluster; None if it is none, or was not
        taken. Raises LeadlineError(`dumps-invalid`)."""
        dumps = self.system_dumps(moment, name)
        return kubernetes_inventory(dumps) if holds_kubernetes(dumps) else None

    @property
    def left_behind(self) -> tuple[Created, ...]:
        """What the run made outside the archive and did not get to remove (after kill -9).
        Raises LeadlineError(`archive-damaged`)."""
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
                continue  # the line that was being written when the power went
            if entry.removed:
                left.pop(entry.path, None)
            else:
                left[entry.path] = entry
        return tuple(left.values())

    def measurements(self) -> Iterator[Measurement]:
        """The measurements table: one row per trial x operation x metric, completed trials only."""
        for trial in self.trials:
            if trial.record.status is TrialStatus.COMPLETED:
                yield from trial.measurements()


def _damaged(fact: str, path: Path) -> LeadlineError:
    return LeadlineError(
        errors.ARCHIVE_DAMAGED,
        fact,
        context=[str(path)],
        hint="`leadline verify` names every damaged file",
    )


def _unreadable(error: OSError, path: Path) -> LeadlineError:
    return _damaged(f"the archive's {path.name} cannot be read: {error.strerror}", path)


def read_record(path: Path, model: type[Record]) -> Record:
    """A record of an archive. Raises LeadlineError(`archive-damaged`) that says where."""
    try:
        return model.model_validate(orjson.loads(read_content(path)))
    except FileNotFoundError as error:
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED, f"the archive lacks {path.name}", context=[str(path)]
        ) from error
    except OSError as error:
        raise _unreadable(error, path) from error
    except orjson.JSONDecodeError as error:
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED,
            f"{path.name} is not JSON",
            context=[f"{path}:{error.lineno}:{error.colno}: {error.msg}"],
            hint="`leadline verify` names every damaged file",
        ) from error
    except ValidationError as error:
        details = [
            f"{path}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
        ]
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED,
            f"{path.name} is not what this version of Leadline writes",
            context=details[:5],
            hint="`leadline verify` names every damaged file",
        ) from error
