"""Read the raw output of a trial back, whichever engine wrote it."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Derived, ImportSource
from leadline.errors import LeadlineError
from leadline.files import read_content, read_contents
from leadline.formats.ceph.rados_bench import read_rados_bench, read_rados_bench_windows
from leadline.formats.ceph.rbd_bench import read_rbd_bench, read_rbd_bench_windows
from leadline.formats.clients import read_results
from leadline.formats.fio.histogram_logs import (
    HISTOGRAM_LOG,
    LatencyRow,
    parse_latency_rows,
)
from leadline.formats.fio.job_file import GENERATED, options_of, text_of
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.fio.logs import Window, add_windows, parse_iops_log
from leadline.formats.importer import Result, importer
from leadline.formats.program.output import read_program_output, read_program_windows
from leadline.formats.program.request import Program
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    NoteKind,
    Operation,
    by_name,
)
from leadline.formats.volume_lifecycle import TOOL as LIFECYCLE
from leadline.formats.volume_lifecycle import read_lifecycle_output
from leadline.formats.zfs.stream import read_stream_output
from leadline.json_bins import COST
from leadline.metrics import Op

_VOLUME = re.compile(rf"volume-([1-9]\d{{0,3}})\.{re.escape(layout.FIO_OUTPUT)}")
# fio labels a client's output with its socket, and with a port that a socket does not have.
_CLIENT = re.compile(r"([cn]([1-9]\d{0,3}))(?::\d+)?")
_SUM = re.compile(r"\$\.client_stats\[\d+\]")
_SHARED = "$['global options']"
_FLEET_LOG = re.compile(r"(?P<phase>.+)_iops\.\d+\.log\.(?P<client>[cn][1-9]\d{0,3})")
_PREFIX = re.compile(r"volume-[1-9]\d{0,3}\.")


def read_output(engine: str, folder: Path) -> EngineOutput:
    """Parse the output that an engine left in `folder`. Raises FormatError."""
    if engine == "rados bench":
        return read_rados_bench(folder)
    if engine == "rbd bench":
        return read_rbd_bench(folder)
    if engine == "zfs stream":
        return read_stream_output(folder)
    if engine == LIFECYCLE:
        return read_lifecycle_output(folder)
    if engine in tuple(Program):
        return read_program_output(folder)
    try:
        content = read_content(folder / layout.FIO_OUTPUT, cost=COST)
    except FileNotFoundError as error:
        volumes = _volumes(folder)
        if not volumes:
            raise FormatError("empty-result", "fio wrote no output file") from error
        return _of_volumes(volumes)
    except OSError as error:
        raise FormatError(
            "unreadable-result", f"fio's output cannot be read: {error.strerror}"
        ) from error
    if (folder / layout.CLIENTS).exists():
        return _measured(read_whole_fleet(folder))
    return parse_fio_json(content)


def read_whole_fleet(folder: Path) -> EngineOutput:
    """Parse the output of a fleet, with its neighbours; the host of a job is its client's name.

    fio's client mixes up the options of jobs where one of them has several processes (it files
    them by group and looks them up by process, `handle_job_opt` and `handle_ts` of client.c), so
    they come from the job file. Raises FormatError."""
    try:
        output = parse_fio_json(read_content(folder / layout.FIO_OUTPUT, cost=COST))
        text = read_content(folder / layout.JOB_FILE).decode("utf-8", "replace")
    except OSError as error:
        raise FormatError(
            "unreadable-result", f"the fleet's output cannot be read: {error.strerror}"
        ) from error
    # fio's client merges the shared options of all servers into one object and appends a sum.
    notes = tuple(
        note
        for note in output.notes
        if not (note.kind is NoteKind.LEFT_OUT and note.where.startswith(_SHARED))
        and not (note.kind is NoteKind.LEFT_OUT and _SUM.fullmatch(note.where))
    )
    jobs = tuple(_of_client(job, text) for job in output.jobs)
    return replace(output, jobs=jobs, notes=notes)


def _of_client(job: JobResult, text: str) -> JobResult:
    match = _CLIENT.fullmatch(job.host)
    if match is None:
        raise FormatError("unreadable-result", f"{job.host!r} is no client of the fleet")
    job = replace(job, host=match[1])
    own = {} if job.host.startswith("n") else options_of(text_of(int(match[2]), text))
    if GENERATED not in text or job.name not in own:
        return job
    options = JobOptions(raw={**own.get("global", {}), **own[job.name]})
    return replace(job, options=options)


def _measured(output: EngineOutput) -> EngineOutput:
    neighbours = tuple(job for job in output.jobs if job.host.startswith("n"))
    jobs = tuple(job for job in output.jobs if job not in neighbours)
    return replace(output, jobs=jobs, neighbours=neighbours)


def _volumes(folder: Path) -> list[Path]:
    """List the outputs of a trial on several volumes, in order.

    Raises FormatError where one is missing: the rest would be reported as the whole.
    """
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = {int(match[1]) for name in names if (match := _VOLUME.fullmatch(name))}
    missing = sorted(set(range(1, max(found, default=0) + 1)) - found)
    if missing:
        raise FormatError("empty-result", f"fio wrote no output file for volume {missing[0]}")
    return [
        folder / f"{layout.volume_prefix(volume)}{layout.FIO_OUTPUT}" for volume in sorted(found)
    ]


def _of_volumes(paths: Sequence[Path]) -> EngineOutput:
    """Merge the outputs of volumes that ran at the same time; the volume is a job's host."""
    outputs = []
    for path in paths:
        try:
            outputs.append(parse_fio_json(read_content(path, cost=COST)))
        except OSError as error:
            raise FormatError(
                "unreadable-result", f"{path.name} cannot be read: {error.strerror}"
            ) from error
    jobs = tuple(
        replace(job, host=f"volume {number}")
        for number, output in enumerate(outputs, start=1)
        for job in output.jobs
    )
    return replace(
        outputs[0],
        jobs=jobs,
        disks=(),
        noise="".join(output.noise for output in outputs),
        notes=tuple(note for output in outputs for note in output.notes),
    )


def read_windows(engine: str, folder: Path) -> Mapping[Op, tuple[Window, ...]]:
    """Read IOPS per second and operation; empty where the engine reports none.

    Raises FormatError with the line of a log that cannot be parsed.
    """
    if engine == "rados bench":
        return read_rados_bench_windows(folder)
    if engine == "rbd bench":
        return read_rbd_bench_windows(folder)
    if engine in ("zfs stream", LIFECYCLE):
        return {}  # they have no I/Os per second; what they have is in their own reports
    if engine in tuple(Program):
        return read_program_windows(folder)
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return {}
    if layout.CLIENTS in names:
        return _fleet_windows(folder, names)
    volumes: dict[str, dict[Op, tuple[Window, ...]]] = {}
    for name in sorted(names):
        if not name.endswith(".log") or "_iops" not in name:
            continue
        volume = _PREFIX.match(name)
        of_volume = volumes.setdefault(volume[0] if volume else "", {})
        of_volume.update(_log(folder / name))
    ops = {op: None for series in volumes.values() for op in series}
    return {
        op: add_windows([series[op] for series in volumes.values() if op in series]) for op in ops
    }


def _log(path: Path) -> Mapping[Op, tuple[Window, ...]]:
    try:
        content = read_content(path)
    except OSError as error:
        raise FormatError(
            "unreadable-result", f"fio's log {path.name} cannot be read: {error.strerror}"
        ) from error
    return parse_iops_log(content.decode("utf-8", "replace"))


def read_latency_rows(folder: Path) -> tuple[LatencyRow, ...]:
    """Read the histograms of fio's log of completion latencies (`write_hist_log`) by time; empty
    without such a log. Raises FormatError with the line."""
    rows: list[LatencyRow] = []
    for path in sorted(folder.glob(f"*{HISTOGRAM_LOG}")):
        try:
            rows += parse_latency_rows(path.name, read_content(path))
        except OSError as error:
            raise FormatError(
                "unreadable-result", f"fio's log {path.name} cannot be read: {error.strerror}"
            ) from error
    return tuple(sorted(rows, key=lambda row: row.at_s))


def _fleet_windows(folder: Path, names: Sequence[str]) -> Mapping[Op, tuple[Window, ...]]:
    """Read the logs of a fleet, one per job and client; the jobs of a phase ran in parallel."""
    phases: dict[str, dict[Op, list[tuple[Window, ...]]]] = {}
    for name in sorted(names):
        log = _FLEET_LOG.fullmatch(name)
        if log is None or log["client"].startswith("n"):
            continue
        for op, series in _log(folder / name).items():
            phases.setdefault(log["phase"], {}).setdefault(op, []).append(series)
    return {op: add_windows(logs) for of_phase in phases.values() for op, logs in of_phase.items()}


def derive(output: EngineOutput) -> Derived:
    """Derive the numbers of one output, deterministically."""
    return Derived.model_validate_json(derived_json(output))


def derived_json(output: EngineOutput) -> bytes:
    """Derived numbers as they are stored: a `Derived` in JSON, not indented, since each number of
    a histogram would fill a line."""
    operations = []
    for name, operation in derived_operations(output):
        histogram = operation.histogram
        operations.append(
            {
                "job": name,
                "op": operation.op.value,
                "metrics": {key.value: value for key, value in operation.metrics().items()},
                # Left out where empty, as in archives of earlier versions.
                **_spreads(operation),
                "histogram_ns": histogram.values_ns if histogram else (),
                "histogram_counts": histogram.counts if histogram else (),
            }
        )
    document = {"schema": Derived.model_fields["schema_"].default, "operations": operations}
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)


def _spreads(operation: Operation) -> dict[str, object]:
    if not operation.spreads:
        return {}
    return {
        "spreads": {
            metric.value: {"deviation": spread.deviation, "number": spread.number}
            for metric, spread in operation.spreads.items()
        }
    }


def derived_operations(output: EngineOutput) -> list[tuple[str, Operation]]:
    """The operations that numbers are derived of, each with the name of its job."""
    return [
        (name, operation)
        for name, together in by_name(output.jobs).items()
        for operation in together
    ]


# Trials of one file follow each other, so that few files need to be kept parsed.
_KEPT = 8


class ImportedFiles:
    """The results of an archive's imported files; the last ones stay parsed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._parsed: OrderedDict[str, tuple[Result, ...]] = OrderedDict()
        self._remembered: dict[str, tuple[Result, ...]] = {}

    def remember(self, file: str, results: tuple[Result, ...]) -> None:
        """Keep results that were just parsed from files, of which `file` is the first."""
        self._remembered[file] = results

    def remembered(self, source: ImportSource) -> Result | None:
        """Return a result that was remembered; None if the archive's files have to be read."""
        results = self._remembered.get(source.files[0])
        return results[source.part] if results else None

    def result(self, source: ImportSource) -> Result:
        """Return the result that a trial was made from; its `output` is the error of a file that
        cannot be parsed. Raises LeadlineError(`archive-damaged`)."""
        if remembered := self.remembered(source):
            return remembered
        first = source.files[0]
        results = self._parsed.get(first)
        if results is None:
            results = self._parsed[first] = self._read(source)
            while len(self._parsed) > _KEPT:
                self._parsed.popitem(last=False)
        if not 0 <= source.part < len(results):
            raise LeadlineError(
                errors.ARCHIVE_DAMAGED,
                f"{layout.IMPORTED}/{first} holds {len(results)} results, and a trial is of number "
                f"{source.part + 1}",
                context=[str(self._root)],
                hint="`leadline verify` names every damaged file",
            )
        return results[source.part]

    def _read(self, source: ImportSource) -> tuple[Result, ...]:
        try:
            paths = {
                name: self._inside(f"{layout.IMPORTED}/{file}")
                for file, name in zip(source.files, source.names, strict=True)
            }
            contents = read_contents(paths, importer(source.kind).cost)
            return read_results(
                source.kind, contents, source.clients, source.absent, source.columns
            )
        except FormatError as error:
            # As when it was imported: a file that was cut or empty is a trial without figures.
            return (Result(workload="", output=error),)
        except (OSError, ValueError) as error:
            raise LeadlineError(
                errors.ARCHIVE_DAMAGED,
                f"{layout.IMPORTED}/{source.files[0]} cannot be read: {error}",
                context=[str(self._root)],
                hint="`leadline verify` names every damaged file",
            ) from error

    def _inside(self, name: str) -> Path:
        path = self._root / name
        if not path.resolve().is_relative_to(self._root.resolve()):
            raise ValueError(f"{name!r} leads out of the archive")
        return path
