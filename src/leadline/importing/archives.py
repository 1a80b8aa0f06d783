"""Archives of imported results, with the raw files.

An archive is made in a hidden folder next to the runs and renamed when it is sealed. A killed
import leaves no run; the next import removes its folder.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath

from leadline import errors
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import (
    FileDigest,
    ImportSource,
    Manifest,
    Problem,
    Redactions,
    RunStatus,
    Session,
    TrialRecord,
    TrialStatus,
)
from leadline.archive.writer import draft_prefix, lock_archive, remove_abandoned_drafts
from leadline.errors import LeadlineError
from leadline.formats.importer import Refused, Result
from leadline.formats.result import EngineOutput, FormatError, JobOptions
from leadline.importing.gather import Gathered, GivenLabel, TargetLabels, label_targets
from leadline.importing.read import ReadBundle, derived_file, read_bundles, safe_name
from leadline.plan.models import Cell, Plan, Recorded, Target, Trial, Workload
from leadline.plan.target_url import parse_target_url

_LONGEST_NAME = 300
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f/]")
# What makes two results of one name different loads, by fio's option and its other spelling.
_SHAPE = {
    "rw": "readwrite",
    "bs": "blocksize",
    "rwmixread": "",
    "iodepth": "",
    "numjobs": "",
    "rate_iops": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrial:
    """One result on its way into an archive. `options` are those of its first job, `shape` those
    that distinguish one load from another."""

    id: str
    target: str
    workload: str
    tool: str
    options: JobOptions
    shape: tuple[tuple[str, str], ...]


def imported_trial(number: int, target: str, file: str, tool: str, result: Result) -> ImportedTrial:
    """The trial that a result becomes; `file` names it where it has no name of its own."""
    jobs = result.output.jobs if isinstance(result.output, EngineOutput) else ()
    options = jobs[0].options if jobs else JobOptions(raw={}, whole=False)
    shape = []
    for key, other in _SHAPE.items():
        value = options.raw.get(key, options.raw.get(other, ""))
        if value:
            shape.append((key, value))
    return ImportedTrial(
        id=f"t{number:04d}",
        target=target[:_LONGEST_NAME],
        workload=_name(result.workload or file_stem(file)),
        tool=tool,
        options=options,
        shape=tuple(shape),
    )


def file_stem(file: str) -> str:
    """A file's name without its ending, with the folders that lead to it."""
    path = PurePath(file)
    return str(path.with_suffix("")) if path.stem else file


def imported_plan(
    name: str,
    kinds: Sequence[str],
    trials: Sequence[ImportedTrial],
    labels: Mapping[str, Mapping[str, str]],
) -> Plan:
    """The plan that the trials look like they followed: a cell for each load on each target, and
    results of one cell as its repeats, in the order of `trials`. `labels` are those of the targets
    that have any."""
    levels = _levels(trials)
    cells: dict[tuple[str, str, str], int] = {}
    made: list[Cell] = []
    planned: list[Trial] = []
    repeats: dict[int, int] = {}
    for position, trial in enumerate(trials):
        level = levels[position]
        key = (trial.target, trial.workload, level)
        if key not in cells:
            cells[key] = len(made)
            made.append(Cell(target=trial.target, workload=_workload(trial), level=level))
        cell = cells[key]
        block = repeats[cell] = repeats.get(cell, 0) + 1
        planned.append(Trial(id=trial.id, position=position, block=block, cell=cell, seed=0))
    return Plan(
        name=name,
        description=f"Imported results ({', '.join(sorted(set(kinds)))})",
        targets=tuple(
            _target(target, labels.get(target, {}))
            for target in dict.fromkeys(trial.target for trial in trials)
        ),
        cells=tuple(made),
        trials=tuple(planned),
        repeats=max(repeats.values(), default=1),
        seed=0,
        prefill=False,
        drop_caches=False,
    )


def _levels(trials: Sequence[ImportedTrial]) -> list[str]:
    """Name the options that differ between loads of one name, for each trial; empty for one
    load."""
    shapes: dict[tuple[str, str], list[dict[str, str]]] = {}
    for trial in trials:
        shapes.setdefault((trial.target, trial.workload), []).append(dict(trial.shape))
    varying = {
        key: [option for option in _SHAPE if len({shape.get(option, "") for shape in found}) > 1]
        for key, found in shapes.items()
    }
    levels = []
    for trial in trials:
        shape = dict(trial.shape)
        options = varying[trial.target, trial.workload]
        levels.append(" ".join(f"{key}={_name(shape.get(key, '?'))}" for key in options))
    return levels


def _workload(trial: ImportedTrial) -> Workload:
    return Workload(
        name=trial.workload,
        recorded=Recorded(tool=trial.tool, options=dict(trial.options.raw)),
        direct=trial.options.direct or False,
        runtime_s=trial.options.seconds("runtime") or 0.0,
    )


def _target(name: str, labels: Mapping[str, str]) -> Target:
    try:
        parse_target_url(name)
    except ValueError:
        return Target(name=name, url="", labels=dict(labels))
    return Target(name=name, url=name, labels=dict(labels))


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:_LONGEST_NAME].strip() or "unnamed"


# A result takes 10 to 15 KB of memory while its import is audited.
MOST_RESULTS = 20_000
# Up to here what was parsed for the archive is kept for the audit that follows.
_REMEMBERED_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the user calls the run, the cluster and the target, where they say so, and what sets
    targets apart (`of_targets`)."""

    run: str
    cluster: str | None = None
    target: str | None = None
    of_targets: Sequence[GivenLabel] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    runs: tuple[Run, ...]
    refused: tuple[Refused, ...]


def import_results(gathered: Gathered, folder: Path, labels: Labels, session: Session) -> Imported:
    """Archives in `folder`, one for each cluster that the files name.

    Raises LeadlineError(`import-refused`) where no file gave a result, (`run-exists`), (`usage`)
    where --cluster or --target would merge several that the files name, or --label names a target
    that they do not have or contradicts them, and (`archive-unwritable`).
    """
    with _write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned_drafts(folder)
        with _staging(folder) as staging:
            intake = _Intake(staging, labels)
            for bundle in read_bundles(gathered.bundles, intake.raw):
                intake.take(bundle)
            refused = (*gathered.refused, *intake.refused)
            if not intake.drafts:
                raise _nothing(refused)
            return Imported(runs=intake.finish(folder, session), refused=refused)


@dataclass(kw_only=True)
class _Draft:
    """An archive in the making, of one cluster."""

    path: Path
    trials: list[tuple[ImportedTrial, TrialRecord]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    files: dict[str, FileDigest] = field(default_factory=dict)
    parsed: dict[str, tuple[Result, ...]] = field(default_factory=dict)
    labels: TargetLabels = field(default_factory=TargetLabels)

    def write(self, name: str, content: bytes) -> None:
        (self.path / name).write_bytes(content)
        self.files[name] = layout.digest(content)


class _Intake:
    """Takes bundle after bundle; only what the audit needs stays in memory."""

    def __init__(self, staging: Path, labels: Labels) -> None:
        self._staging = staging
        self.raw = staging / layout.IMPORTED
        self.raw.mkdir()
        self._labels = labels
        self._trials = 0
        self._bytes = 0
        self._clusters: set[str] = set()
        self._targets: set[str] = set()
        self.drafts: dict[str, _Draft] = {}
        self.refused: list[Refused] = []

    def take(self, bundle: ReadBundle) -> None:
        if bundle.refused is not None:
            self.refused.append(bundle.refused)
            return
        if self._trials + len(bundle.results) > MOST_RESULTS:
            reason = (
                f"has {len(bundle.results):,} results; {MOST_RESULTS:,} are the most of an import: "
                "split it"
            )
            self.refused.append(Refused(file=bundle.names[0], reason=reason))
            self._drop(bundle)
            return
        self._bytes += sum(digest.size_bytes for digest in bundle.digests)
        by_cluster: dict[str, list[int]] = {}
        for part, result in enumerate(bundle.results):
            by_cluster.setdefault(self._cluster(result), []).append(part)
        for cluster, parts in by_cluster.items():
            draft = self._draft(cluster)
            for file, digest in zip(bundle.files, bundle.digests, strict=True):
                draft.files[f"{layout.IMPORTED}/{file}"] = digest
            if self._bytes <= _REMEMBERED_BYTES:
                draft.parsed[bundle.files[0]] = bundle.results
            draft.kinds.append(bundle.kind)
            for part in parts:
                source = ImportSource(
                    kind=bundle.kind,
                    files=bundle.files,
                    names=bundle.names,
                    part=part,
                )
                self._add(draft, source, bundle.results[part], bundle.derived[part])

    def _cluster(self, result: Result) -> str:
        if result.cluster:
            self._clusters.add(result.cluster)
        if self._labels.cluster is None:
            return result.cluster
        if len(self._clusters) > 1:
            raise _several("cluster", self._clusters)
        return self._labels.cluster

    def _target(self, result: Result, file: str) -> str:
        if result.target:
            self._targets.add(result.target)
        if self._labels.target is None:
            return result.target or file_stem(file)
        if len(self._targets) > 1:
            raise _several("target", self._targets)
        return self._labels.target

    def _draft(self, cluster: str) -> _Draft:
        if cluster not in self.drafts:
            path = self._staging / f"run-{len(self.drafts) + 1}"
            (path / layout.TRIALS).mkdir(parents=True)
            self.drafts[cluster] = _Draft(path=path)
        return self.drafts[cluster]

    def _add(
        self, draft: _Draft, source: ImportSource, result: Result, derived: FileDigest | None
    ) -> None:
        self._trials += 1
        tool = result.tool or source.kind
        file = source.names[0]
        trial = imported_trial(self._trials, self._target(result, file), file, tool, result)
        draft.labels.take(trial.target, result.labels, file)
        record = _record(trial, source, result)
        folder = f"{layout.TRIALS}/{record.label}"
        (draft.path / folder).mkdir()
        if derived is not None:
            name = f"{folder}/{layout.DERIVED}"
            (self.raw / derived_file(source.files[0], source.part)).rename(draft.path / name)
            draft.files[name] = derived
            record = record.model_copy(update={"files": {layout.DERIVED: derived}})
        draft.trials.append((trial, record))

    def finish(self, folder: Path, session: Session) -> tuple[Run, ...]:
        """Seal every draft and put it in its place: all of them, or none."""
        label_targets([draft.labels for draft in self.drafts.values()], self._labels.of_targets)
        several = len(self.drafts) > 1
        places: list[Path] = []
        for cluster, draft in self.drafts.items():
            suffix = f"-{safe_name(cluster or 'unnamed')}" if several else ""
            place = wanted = folder / f"{self._labels.run}{suffix}"
            # Names in other letters may come to the same.
            for number in itertools.count(2):
                if place not in places:
                    break
                place = wanted.with_name(f"{wanted.name}-{number}")
            if place.exists():
                raise LeadlineError(
                    errors.RUN_EXISTS,
                    f"there is a run {place.name!r} in {folder} already",
                    hint="give the run another name with --run; nothing was imported",
                )
            places.append(place)
            if several:
                self._copy_raw(draft)
            else:
                self.raw.rename(draft.path / layout.IMPORTED)
            _seal(draft, place.name, cluster, session)
        _sync(self._staging)
        runs = []
        for draft, place in zip(self.drafts.values(), places, strict=True):
            draft.path.rename(place)
            run = Run(place)
            for name, results in draft.parsed.items():
                run.imported.remember(name, results)
            runs.append(run)
        layout.sync_folder(folder)
        return tuple(runs)

    def _drop(self, bundle: ReadBundle) -> None:
        """Remove the copies of a bundle's files and the numbers that were derived from them."""
        for file in bundle.files:
            (self.raw / file).unlink()
        for part, digest in enumerate(bundle.derived):
            if digest is not None:
                (self.raw / derived_file(bundle.files[0], part)).unlink()

    def _copy_raw(self, draft: _Draft) -> None:
        """The files that one of several archives is made from."""
        (draft.path / layout.IMPORTED).mkdir()
        for name in draft.files:
            path = PurePath(name)
            if path.parts[0] == layout.IMPORTED:
                shutil.copyfile(self.raw / path.name, draft.path / name)


def _seal(draft: _Draft, name: str, cluster: str, session: Session) -> None:
    trials = [trial for trial, _ in draft.trials]
    plan = imported_plan(name, draft.kinds, trials, draft.labels.by_target)
    draft.write(layout.PLAN, layout.encode(plan))
    for planned, (_, record) in zip(plan.trials, draft.trials, strict=True):
        level = plan.cells[planned.cell].level
        placed = record.model_copy(update={"level": level, "block": planned.block})
        draft.write(f"{layout.TRIALS}/{record.label}/{layout.TRIAL_RECORD}", layout.encode(placed))
    manifest = Manifest(
        run=name,
        status=RunStatus.COMPLETE,
        created_at=session.started_at,
        trials_planned=len(plan.trials),
        cluster_label=cluster,
        sessions=(session,),
    )
    redactions = layout.collect_redactions(draft.path, manifest)
    if redactions:
        draft.write(layout.REDACTIONS, layout.encode(Redactions(redactions=redactions)))
    manifest = manifest.model_copy(update={"files": dict(sorted(draft.files.items()))})
    (draft.path / layout.MANIFEST).write_bytes(layout.encode(manifest))


def _record(trial: ImportedTrial, source: ImportSource, result: Result) -> TrialRecord:
    output = result.output
    problem = None
    ended = version = ""
    wall_s = 0.0
    if isinstance(output, FormatError):
        problem = Problem(code=output.kind.code, fact=output.fact, context=output.context)
    else:
        version = output.version
        wall_s = max((job.elapsed_s for job in output.jobs), default=0.0)
        ended = _moment(output.timestamp_s)
    return TrialRecord(
        trial=trial.id,
        attempt=1,
        target=trial.target,
        workload=trial.workload,
        level="",
        block=0,
        status=TrialStatus.FAILED if problem else TrialStatus.COMPLETED,
        engine=trial.tool,
        engine_version=version,
        started_at="",
        ended_at=ended,
        wall_s=wall_s,
        asked_s=trial.options.seconds("runtime") or 0.0,
        bound_s=0.0,
        problem=problem,
        source=source,
    )


def _moment(timestamp_s: float | None) -> str:
    if timestamp_s is None:
        return ""
    try:
        return datetime.fromtimestamp(timestamp_s, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _several(what: str, found: set[str]) -> LeadlineError:
    names = ", ".join(sorted(found)[:5])
    return LeadlineError(
        errors.USAGE,
        f"the files name several {what}s ({names}), and --{what} would merge them",
        hint=f"leave --{what} out, or import the files of each {what} by themselves",
    )


def _nothing(refused: Sequence[Refused]) -> LeadlineError:
    context = []
    for refusal in refused[:8]:
        context.append(f"{refusal.file}: {refusal.reason}")
        context += [f"  {line}" for line in refusal.context]
    if len(refused) > 8:
        context.append(f"and {len(refused) - 8:,} more")
    fact = "no file gave a result" if refused else "there is no file to import"
    return LeadlineError(
        errors.IMPORT_REFUSED,
        fact,
        context=context,
        hint="`leadline import --help` lists the kinds; name one to learn why a file is none",
    )


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=draft_prefix(), dir=folder))
    handle = lock_archive(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def _sync(folder: Path) -> None:
    """Everything on the folder's filesystem to its disk: one call where thousands of files would
    take one each. syncfs(2) has no name in Python."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(handle)


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LeadlineError(
            errors.ARCHIVE_UNWRITABLE,
            f"the archive cannot be written: {error.strerror or error}",
            context=[str(error.filename or folder)],
            hint="make room, or name another place with --runs; nothing was imported",
        ) from error
