"""The figures of all archives below a folder, kept in an index.

The index of a folder is a Parquet file in the user's cache, made anew at any time. An archive is
read again if its manifest has another size or time of change; the archives stay the truth.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from leadline.analysis.history import HistoryRow, HistoryRun, Unread, history_rows
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.errors import LeadlineError
from leadline.files import read_content
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


def index_runs(folders: Sequence[Path]) -> Indexed:
    """Return the runs of all archives below the folders, and bring their indexes up to date.

    Copies of one archive count once. An archive that is damaged, of a later version or not finished
    is in `unread`.
    """
    runs: dict[Path, HistoryRun] = {}
    unread: dict[Path, Unread] = {}
    notes: list[str] = []
    read = 0
    for folder in folders:
        stamps = dict(find_archives(folder))
        file = index_file(folder)
        known = _load(file, notes)
        fresh = {path: entry for path, entry in known.items() if stamps.get(path) == entry[0]}
        missing = [path for path in stamps if path not in fresh]
        read += len(missing)
        for path, result in _read_all(missing):
            if isinstance(result, Unread):
                unread[path] = result
            else:
                fresh[path] = (stamps[path], result)
        if missing or len(fresh) != len(known):
            _save(file, fresh, notes)
        runs |= {path: run for path, (_, run) in fresh.items()}
    copies: dict[tuple[str, str], Path] = {}
    for path, run in sorted(runs.items()):
        first = copies.setdefault((run.run, run.seal or str(path)), path)
        if first != path:
            del runs[path]
            fact = f"a copy of {first}"
            unread[path] = Unread(path=path, code="copy", fact=fact)
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
                if _SCHEMA in read_content(manifest, most=200):
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
    return [(path, _read(path)) for path in paths]


def _read(path: Path) -> HistoryRun | Unread:
    from leadline.analysis.figures import figures
    from leadline.audit.registry import audit

    run = Run(path)
    try:
        run.refuse_newer()
        if run.manifest.status is RunStatus.RUNNING:
            return Unread(path=path, code=_STATUS_RUNNING, fact="the run is not finished")
        at_s, dated = began(run)
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


def began(run: Run) -> tuple[float, bool]:
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
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


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
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not Path(cache).is_absolute():  # as the XDG specification has it
        cache = str(Path(os.path.expanduser("~")) / ".cache")  # noqa: PTH111
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return Path(cache) / "leadline" / f"history-{digest}.parquet"


_Entry = tuple[Stamp, HistoryRun]


def _load(file: Path, notes: list[str]) -> Mapping[Path, _Entry]:
    """Return the entries of an index by archive; empty where there is none that can be used."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.exists():
        return {}
    try:
        table = pq.read_table(pa.BufferReader(read_content(file)))
        if (table.schema.metadata or {}).get(b"leadline") != _VERSION:
            notes.append(f"the index {file} is of another version and is made anew")
            return {}
        return _entries(table)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        notes.append(f"the index {file} cannot be read and is made anew: {reason}")
        return {}


_ROW_FIELDS = tuple(HistoryRow.__dataclass_fields__)


def _entries(table: Any) -> dict[Path, _Entry]:
    runs = {name: table.column(name).to_pylist() for name in _RUN_COLUMNS}
    rows = [table.column(name).to_pylist() for name in _ROW_FIELDS]
    found: dict[Path, _Entry] = {}
    of_path: dict[str, list[HistoryRow]] = {}
    codes = _ROW_FIELDS.index("codes")
    for at, values in enumerate(zip(*rows, strict=True)):
        path = runs["path"][at]
        if path not in of_path:
            of_path[path] = []
            found[Path(path)] = (
                Stamp(size_bytes=runs["size_bytes"][at], mtime_ns=runs["mtime_ns"][at]),
                HistoryRun(
                    path=Path(path),
                    **{name: runs[name][at] for name in _RUN_COLUMNS[3:]},
                    rows=(),
                ),
            )
        if values[0] is not None:
            fields = dict(zip(_ROW_FIELDS, values, strict=True))
            of_path[path].append(HistoryRow(**fields | {"codes": tuple(values[codes])}))
    return {
        path: (stamp, replace(run, rows=tuple(of_path[str(path)])))
        for path, (stamp, run) in found.items()
    }


_RUN_COLUMNS = ("path", "size_bytes", "mtime_ns", "run", "seal", "at_s", "dated", "clock_back")


def _save(file: Path, entries: Mapping[Path, _Entry], notes: list[str]) -> None:
    """Replace an index at once; a folder that cannot be written leaves a note."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema(
        [
            ("path", text), ("size_bytes", pa.int64()), ("mtime_ns", pa.int64()), ("run", text),
            ("seal", text), ("at_s", pa.float64()), ("dated", pa.bool_()),
            ("clock_back", pa.bool_()), ("target", text), ("workload", text), ("level", text),
            ("op", text), ("metric", text), ("value", pa.float64()), ("trials", pa.int64()),
            ("rate", pa.bool_()), ("codes", pa.list_(pa.string())), ("settings", text),
        ],
        metadata={b"leadline": _VERSION},
    )  # fmt: skip
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for path, (stamp, run) in entries.items():
        about = {"path": str(path), "size_bytes": stamp.size_bytes, "mtime_ns": stamp.mtime_ns}
        about |= {name: getattr(run, name) for name in _RUN_COLUMNS[3:]}
        # A run without figures has one row without them.
        for row in run.rows or (None,):
            for name, value in about.items():
                columns[name].append(value)
            for name in _ROW_FIELDS:
                columns[name].append(getattr(row, name) if row else None)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}-")
        os.close(handle)
        try:
            pq.write_table(pa.table(columns, schema=schema), fresh, compression="zstd")
            Path(fresh).replace(file)
        finally:
            Path(fresh).unlink(missing_ok=True)
    except OSError as error:
        notes.append(f"the index {file} cannot be written: {error.strerror or error}")


def unread_is_fault(unread: Iterable[Unread]) -> bool:
    """Whether an archive is missing from the history that should be in it."""
    return any(one.code not in ("copy", _STATUS_RUNNING) for one in unread)
