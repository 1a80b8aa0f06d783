"""Read a stored trial: record, raw output, samples of its watches, measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TypeVar

import numpy as np

from leadline.archive import layout
from leadline.archive.raw import (
    ImportedFiles,
    derived_operations,
    read_latency_rows,
    read_output,
    read_windows,
)
from leadline.archive.records import (
    ClientRecord,
    Clients,
    Derived,
    Runner,
    Runners,
    TrialRecord,
    read_record,
)
from leadline.files import read_content
from leadline.formats.ceph.counters import (
    parse_ceph_counters,
    parse_image_counters,
)
from leadline.formats.ceph.status import parse_cluster_log
from leadline.formats.drill import parse_drill
from leadline.formats.fio.histogram_logs import LatencyRow
from leadline.formats.fio.logs import Window
from leadline.formats.kubelet import parse_kubelet_record
from leadline.formats.prometheus import parse_prometheus_record
from leadline.formats.result import EngineOutput, FormatError
from leadline.formats.volume_lifecycle import LifecycleReport, read_volume_lifecycle
from leadline.formats.watch_records import (
    parse_block_requests,
    parse_mount_counters,
    parse_resource_log,
    parse_zfs_record,
)
from leadline.formats.zfs.iostat import IostatReport, parse_zpool_iostat
from leadline.formats.zfs.stream import StreamReport, read_zfs_stream
from leadline.metrics import Measurement, Metric, Op, Spread
from leadline.plan.models import Cell
from leadline.stats.histogram import LatencyHistogram

Sample = TypeVar("Sample")
# Name of the job, operation, metrics and histogram.
_Derived = tuple[
    str,
    Op,
    Mapping[Metric, "float | None"],
    "LatencyHistogram | None",
    Mapping[Metric, Spread],
]


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

    `cluster`, `resources`, `prometheus`, `kubelets`, `ceph_counters`, `block_requests`,
    `image_counters`, `mount_counters` and `zfs` are the samples of the watches that ran during the
    trial, `drill` the marks of its drill.
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

    @property
    def runners(self) -> tuple[Runner, ...]:
        """The pods and virtual machines that did the trial's I/O; empty where this machine did.

        Raises LeadlineError(`archive-damaged`).
        """
        return self._runners.runners if self._runners else ()

    @property
    def other_runs(self) -> tuple[str, ...]:
        """The other runs with pods at work in the cluster when the trial began. Raises as
        `runners`."""
        return self._runners.other_runs if self._runners else ()

    @cached_property
    def _runners(self) -> Runners | None:
        path = self.folder / layout.RUNNERS
        return read_record(path, Runners) if path.exists() else None

    @cached_property
    def clients(self) -> tuple[ClientRecord, ...]:
        """The load generators of a fleet; empty without one. Raises LeadlineError."""
        path = self.folder / layout.CLIENTS
        return read_record(path, Clients).clients if path.exists() else ()

    cluster = _watch(layout.CLUSTER, parse_cluster_log)
    resources = _watch(layout.RESOURCES, parse_resource_log)
    prometheus = _watch(layout.PROMETHEUS, parse_prometheus_record)
    kubelets = _watch(layout.KUBELETS, parse_kubelet_record)
    ceph_counters = _watch(layout.CEPH_COUNTERS, parse_ceph_counters)
    block_requests = _watch(layout.BLOCK_REQUESTS, parse_block_requests)
    image_counters = _watch(layout.IMAGE_COUNTERS, parse_image_counters)
    mount_counters = _watch(layout.MOUNT_COUNTERS, parse_mount_counters)
    zfs = _watch(layout.ZFS, parse_zfs_record)
    drill = _watch(layout.DRILL, parse_drill)

    @cached_property
    def latency_rows(self) -> tuple[LatencyRow, ...]:
        """Completion latencies over time, as fio logs them in a drill; empty without such a log.
        Raises FormatError with the line."""
        return () if self.imported else read_latency_rows(self.folder)

    @cached_property
    def zfs_stream(self) -> StreamReport | None:
        """The streams of a trial of `engine: zfs-stream`, with the stalls of their pipe; None of
        another engine. Raises FormatError."""
        if self.imported:
            return None
        return read_zfs_stream(self.folder)

    @cached_property
    def volume_lifecycle(self) -> LifecycleReport | None:
        """The stages of a trial of `engine: volume-lifecycle`; None of another engine. Raises
        FormatError."""
        if self.imported:
            return None
        return read_volume_lifecycle(self.folder)

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
        for job, op, metrics, histogram, spreads in operations:
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
                    spread=spreads.get(metric),
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
                    yield job, operation.op, metrics, operation.histogram, operation.spreads
            return
        derived = self.derived
        for stored in derived.operations if derived else ():
            histogram = (
                # Edited files may have their values in another order.
                LatencyHistogram.from_arrays(
                    np.asarray(stored.histogram_ns, dtype=np.int64),
                    np.asarray(stored.histogram_counts, dtype=np.int64),
                )
                if stored.histogram_ns
                else None
            )
            spreads = {
                metric: Spread(deviation=spread.deviation, number=spread.number)
                for metric, spread in stored.spreads.items()
            }
            yield stored.job, stored.op, stored.metrics, histogram, spreads
