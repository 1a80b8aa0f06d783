"""The figures of all archives below a folder, kept in an index.

The index of a folder is a Parquet file in the user's cache, made anew at any time. An archive is
read again if its manifest has another size or time of change; the archives stay the truth.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from leadline.analysis.history import Unread
from leadline.analysis.history_rows import HistoryRow, HistoryRun, history_rows
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.errors import LeadlineError
from leadline.files import read_content, user_cache
from leadline.metrics import Metric
from leadline.parallel import in_workers, spare_cores

# In the metadata of the file: another version is made anew.
_VERSION = b"leadline/history-index/1"
# The manifest of an archive begins with its schema.
_SCHEMA = b'"leadline/archive/'
# Archives of one process, so that several processes pay off.
_WORTH_A_PROCESS = 8
_STATUS_RUNNING = "not-finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The size and time of change of an archive's manifest, which is written last."""

    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """The runs below some folders. `read` counts the archives that were read, the others are from
    the index; `notes` say what became of an index that could not be used."""

    runs: tuple[HistoryRun, ...]
    unread: tuple[Unread, ...]
    read: int
    notes: tuple[str, ...]


def index_runs(folders: Sequence[Path], metrics: Sequence[Metric] = ()) -> Indexed:
    """Return the runs of all archives below the folders, and bring their indexes up to date.

    The runs have rows of `metrics`; without any, of usual rates and p99 latencies. Copies of one
    archive count once. An archive that is damaged, of a later version or not finished is in
    `unread`.
    """
    runs: dict[Path, HistoryRun] = {}
    unread: dict[Path, Unread] = {}
    notes: list[str] = []
    read = 0
    for folder in folders:
        stamps = dict(find_archives(folder))
        file = index_file(folder)
        table = _load(file, notes)
        known = {} if table is None else _stamps(table)
        fresh = {path for path, stamp in known.items() if stamps.get(path) == stamp}
        missing = [path for path in stamps if path not in fresh]
        read += len(missing)
        made: list[tuple[Stamp, HistoryRun]] = []
        for path, result in _read_all(missing):
            if isinstance(result, Unread):
                unread[path] = result
            else:
                made.append((stamps[path], result))
        if made or len(fresh) < len(known) or table is None:
            table = _combined(table, fresh, made)
            _save(file, table, notes)
        runs |= _runs(table, metrics)
    copies: dict[tuple[str, str], Path] = {}
    for path, run in sorted(runs.items()):
        first = copies.setdefault((run.run, run.seal or str(path)), path)
        if first != path:
            del runs[path]
            unread[path] = Unread(path=path, code="copy", fact=f"a copy of {first}")
    return Indexed(
        runs=tuple(runs.values()),
        unread=tuple(unread[path] for path in sorted(unread)),
        read=read,
        notes=tuple(notes),
    )


def find_archives(folder: Path) -> Iterator[tuple[Path, Stamp]]:
    """Yield the archives below a folder, or the folder itself, with their stamps. Links and hidden
    folders are not entered."""
    for place, folders, names in os.walk(folder):
        path = Path(place)
        if layout.MANIFEST in names:
            manifest = path / layout.MANIFEST
            with suppress(OSError):
                found = manifest.lstat()
                # A manifest that was cut is one, too: its archive is damaged.
                if layout.PLAN in names or _SCHEMA in read_content(manifest, most=200):
                    folders.clear()
                    yield path, Stamp(size_bytes=found.st_size, mtime_ns=found.st_mtime_ns)
                    continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))


# --- reading archives ----------------------------------------------------------------------------


def _read_all(paths: Sequence[Path]) -> Iterator[tuple[Path, HistoryRun | Unread]]:
    """Read archives in all cores there are."""
    workers = spare_cores() if len(paths) >= 2 * _WORTH_A_PROCESS else 0
    # What a worker would have to import, each worker would import again.
    import leadline.analysis.figures
    import leadline.audit.registry  # noqa: F401

    # Several parts for each process: archives differ in size.
    number = 4 * (workers + 1) if workers else 1
    parts = [paths[at::number] for at in range(number)]
    own = parts[: max(1, number // (workers + 1))]
    others = [partial(_read_part, part) for part in parts[len(own) :]]
    with in_workers(others) if others else nullcontext(()) as begun:
        for part in own:
            yield from _read_part(part)
        for wait in begun:
            yield from wait()


def _read_part(paths: Sequence[Path]) -> list[tuple[Path, HistoryRun | Unread]]:
    return [(path, read_archive(path)) for path in paths]


def read_archive(path: Path) -> HistoryRun | Unread:
    """Read an archive, without the index."""
    from leadline.analysis.figures import figures
    from leadline.audit.registry import audit

    run = Run(path)
    try:
        run.refuse_newer()
        if run.manifest.status is RunStatus.RUNNING:
            return Unread(path=path, code=_STATUS_RUNNING, fact="the run is not finished")
        at_s, dated = _began(run)
        return HistoryRun(
            path=path,
            run=run.id,
            seal=run.manifest.seal,
            at_s=at_s,
            dated=dated,
            clock_back=_was_set_back(run),
            rows=history_rows(run, figures(run, audit(run))),
        )
    except LeadlineError as error:
        return Unread(path=path, code=error.kind.code, fact=error.fact)
    except OSError as error:
        fact = f"{error.filename or path}: {error.strerror or error}"
        return Unread(path=path, code="archive-damaged", fact=fact)


def _began(run: Run) -> tuple[float, bool]:
    """Return when a run began, and whether that is known: an imported run has the earliest time of
    its results, else that of its import."""
    if run.plan.imported:
        times = [
            moment
            for trial in run.trials
            for text in (trial.record.started_at, trial.record.ended_at)
            if (moment := _seconds(text)) is not None
        ]
        if times:
            return min(times), True
    created = _seconds(run.manifest.created_at)
    return created or 0.0, created is not None and not run.plan.imported


def _seconds(text: str | None) -> float | None:
    try:
        moment = datetime.fromisoformat(text or "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _was_set_back(run: Run) -> bool:
    """Whether the sessions of a run overlap or end before they begin."""
    times = [
        moment
        for session in run.manifest.sessions
        for text in (session.started_at, session.ended_at)
        if (moment := _seconds(text)) is not None
    ]
    return any(later < earlier for earlier, later in pairwise(times))


# --- the file ------------------------------------------------------------------------------------


def index_file(folder: Path) -> Path:
    """Return the path of a folder's index in the user's cache."""
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return user_cache() / f"history-{digest}.parquet"


_RUN_COLUMNS = ("path", "run", "seal", "at_s", "dated", "clock_back")
_ROW_COLUMNS = tuple(HistoryRow.__dataclass_fields__)


def _schema() -> Any:
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            ("path", text), ("size_bytes", pa.int64()), ("mtime_ns", pa.int64()), ("run", text),
            ("seal", text), ("at_s", pa.float64()), ("dated", pa.bool_()),
            ("clock_back", pa.bool_()), ("target", text), ("workload", text), ("level", text),
            ("op", text), ("metric", text), ("value", pa.float64()), ("trials", pa.int64()),
            ("rate", pa.bool_()), ("codes", pa.list_(pa.string())), ("settings", text),
        ],
        metadata={b"leadline": _VERSION},
    )  # fmt: skip


def _load(file: Path, notes: list[str]) -> Any:
    """Return the table of an index; None where there is none that can be used."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.exists():
        return None
    try:
        table = pq.read_table(pa.BufferReader(read_content(file)))
        if (table.schema.metadata or {}).get(b"leadline") != _VERSION:
            notes.append(f"the index {file} is of another version and is made anew")
            return None
        return table.cast(_schema()).unify_dictionaries().combine_chunks()
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        notes.append(f"the index {file} cannot be read and is made anew: {reason}")
        return None


def _first_rows(table: Any) -> Any:
    """Return the first row of each archive."""
    import numpy as np

    if not table.num_rows:
        return table
    codes = table.column("path").chunk(0).indices.to_numpy()
    return table.take(np.sort(np.unique(codes, return_index=True)[1]))


def _stamps(table: Any) -> dict[Path, Stamp]:
    columns = (_first_rows(table).column(name) for name in ("path", "size_bytes", "mtime_ns"))
    return {
        Path(path): Stamp(size_bytes=size, mtime_ns=mtime)
        for path, size, mtime in zip(*(one.to_pylist() for one in columns), strict=True)
    }


def _runs(table: Any, metrics: Sequence[Metric]) -> dict[Path, HistoryRun]:
    """Return the runs of a table with their rows of some metrics."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows: dict[str, list[HistoryRow]] = {}
    metric = table.column("metric").cast(pa.string())
    names = [one.value for one in metrics or (Metric.LATENCY_P99,)]
    wanted = pc.is_in(metric, pa.array(names))
    if not metrics:
        wanted = pc.or_kleene(wanted, table.column("rate"))
    chosen = table.filter(pc.fill_null(wanted, False))
    columns = [_values(chosen, name) for name in ("path", *_ROW_COLUMNS)]
    codes = _ROW_COLUMNS.index("codes")
    for path, *values in zip(*columns, strict=True):
        values[codes] = tuple(values[codes])
        row = HistoryRow(**dict(zip(_ROW_COLUMNS, values, strict=True)))
        rows.setdefault(path, []).append(row)
    first = _first_rows(table)
    return {
        Path(path): HistoryRun(
            path=Path(path),
            **dict(zip(_RUN_COLUMNS[1:], values, strict=True)),
            rows=tuple(rows.get(path, ())),
        )
        for path, *values in zip(*(_values(first, name) for name in _RUN_COLUMNS), strict=True)
    }


def _values(table: Any, name: str) -> list[Any]:
    import pyarrow as pa

    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    return list(column.to_pylist())


def _combined(table: Any, kept: Set[Path], made: Sequence[tuple[Stamp, HistoryRun]]) -> Any:
    """Return the rows of the kept archives and of those that were read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = _schema()
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for stamp, run in made:
        about = {name: getattr(run, name) for name in _RUN_COLUMNS}
        about |= {"path": str(run.path)}
        about |= {"size_bytes": stamp.size_bytes, "mtime_ns": stamp.mtime_ns}
        # A run without figures has one row without them.
        for row in run.rows or (None,):
            for name, value in about.items():
                columns[name].append(value)
            for name in _ROW_COLUMNS:
                columns[name].append(getattr(row, name) if row else None)
    parts = [pa.table(columns, schema=schema)]
    if table is not None:
        paths = table.column("path").cast(pa.string())
        wanted = pa.array(sorted(map(str, kept)), pa.string())
        parts.insert(0, table.filter(pc.is_in(paths, wanted)))
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _save(file: Path, table: Any, notes: list[str]) -> None:
    """Replace an index at once; a folder that cannot be written leaves a note."""
    import pyarrow.parquet as pq

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}-")
        os.close(handle)
        try:
            pq.write_table(table, fresh, compression="zstd")
            Path(fresh).replace(file)
        finally:
            Path(fresh).unlink(missing_ok=True)
    except OSError as error:
        notes.append(f"the index {file} cannot be written: {error.strerror or error}")


def unread_is_fault(unread: Iterable[Unread]) -> bool:
    """Whether an archive is missing from the history that should be in it."""
    return any(one.code not in ("copy", _STATUS_RUNNING) for one in unread)
