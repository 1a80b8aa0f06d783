"""Archives of imported results, with the raw files.

An archive is made in a hidden folder next to the runs and renamed when it is sealed. A killed
import leaves no run; the next import removes its folder.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
from leadline.files import sync_folder
from leadline.formats.importer import Refused, Result
from leadline.formats.result import FormatError
from leadline.importing.cells import ImportedTrial, file_stem, imported_plan, imported_trial
from leadline.importing.facts import ImportedCluster, check_against_inventory, check_names
from leadline.importing.gather import Gathered, GivenLabel, TargetLabels, label_targets
from leadline.importing.read import ReadBundle, derived_file, read_bundles, safe_name
from leadline.importing.templates import Place
from leadline.inventory.redaction import redact_document
from leadline.plan.facts import FactsFile
from leadline.plan.models import Cluster, Plan

# A result takes 10 to 15 KB of memory while its import is audited.
MOST_RESULTS = 20_000
# Up to here what was parsed for the archive is kept for the audit that follows.
_REMEMBERED_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the user calls the run, the cluster and the target, where they say so, what sets targets
    apart (`of_targets`), the saved inventories of clusters by their label (the key is empty for the
    only cluster), the facts of a facts file, and what columns of tables are called."""

    run: str
    cluster: str | None = None
    target: str | None = None
    of_targets: Sequence[GivenLabel] = ()
    inventories: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    facts: FactsFile | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


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
        layout.make_folders(folder)
        remove_abandoned_drafts(folder)
        with _staging(folder) as staging:
            intake = _Intake(staging, labels)
            for bundle in read_bundles(gathered.bundles, intake.raw, labels.columns):
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
    inventory: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def described(self) -> ImportedCluster:
        return ImportedCluster(targets=self.labels.by_target, inventory=self.inventory)

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
        self._seen: dict[str, str] = {}
        self.drafts: dict[str, _Draft] = {}
        self.refused: list[Refused] = []

    def take(self, bundle: ReadBundle) -> None:
        if bundle.refused is not None:
            self.refused.append(bundle.refused)
            return
        if bundle.place is not None:
            if twice := self._twice(bundle):
                self.refused.append(twice)
                return
            bundle = _in_place(bundle, bundle.place)
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
                    clients=bundle.clients,
                    absent=bundle.absent,
                    columns=dict(bundle.columns),
                )
                self._add(draft, source, bundle, part)

    def _twice(self, bundle: ReadBundle) -> Refused | None:
        """Return why a bundle is refused if one of its files was imported before: it would count as
        another repeat or client."""
        for name, digest in zip(bundle.names, bundle.digests, strict=True):
            before = self._seen.setdefault(digest.sha256, name) if digest.size_bytes else name
            if before != name:
                return Refused(file=name, reason=f"has the same content as {before}")
        return None

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

    def _add(self, draft: _Draft, source: ImportSource, bundle: ReadBundle, part: int) -> None:
        self._trials += 1
        result, derived = bundle.results[part], bundle.derived[part]
        tool = result.tool or source.kind
        file = source.names[0]
        level = bundle.place.level if bundle.place else ""
        target = self._target(result, file)
        trial = imported_trial(self._trials, target, file, tool, result, level)
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
        self._give_inventories()
        facts = self._labels.facts
        if facts is not None:
            check_names(facts, {name: draft.described for name, draft in self.drafts.items()})
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
            _seal(draft, place.name, cluster, session, facts)
        _sync(self._staging)
        runs = []
        for draft, place in zip(self.drafts.values(), places, strict=True):
            draft.path.rename(place)
            run = Run(place)
            for name, results in draft.parsed.items():
                run.imported.remember(name, results)
            runs.append(run)
        sync_folder(folder)
        return tuple(runs)

    def _give_inventories(self) -> None:
        """Raises LeadlineError(`usage`) for an inventory of a cluster that no file names."""
        for label, dumps in self._labels.inventories.items():
            only = not label and len(self.drafts) == 1
            draft = next(iter(self.drafts.values())) if only else self.drafts.get(label)
            if draft is None:
                names = ", ".join(sorted(self.drafts)[:5])
                raise LeadlineError(
                    errors.USAGE,
                    f"--inventory names the cluster {label!r}, and the files are of others"
                    if label
                    else "--inventory does not say of which cluster it is",
                    context=[f"clusters: {names}"],
                    hint="write it as CLUSTER=DIR; nothing was imported",
                )
            draft.inventory = dumps

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


def _in_place(bundle: ReadBundle, place: Place) -> ReadBundle:
    """Give the results the names that their place has; several results of one file keep their own
    behind the workload's."""
    several = len(bundle.results) > 1
    results = tuple(
        replace(
            result,
            cluster=place.cluster or result.cluster,
            target=place.target or result.target,
            workload=" ".join(filter(None, (place.workload, result.workload)))
            if several or not place.workload
            else place.workload,
            labels={**result.labels, **dict(place.labels)},
        )
        for result in bundle.results
    )
    return replace(bundle, results=results)


def _seal(
    draft: _Draft, name: str, cluster: str, session: Session, facts: FactsFile | None
) -> None:
    trials = [trial for trial, _ in draft.trials]
    plan = imported_plan(name, draft.kinds, trials, draft.labels.by_target)
    if draft.inventory or facts:
        plan = _described(plan, cluster, facts)
    if draft.inventory:
        place = layout.system_folder("001", "start", 0)
        (draft.path / place).mkdir(parents=True)
        for file, content in draft.inventory.items():
            draft.write(f"{place}/{file}", redact_document(content))
    if facts:
        check_against_inventory(facts, cluster, plan.clusters[0], plan.targets, draft.inventory)
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


def _described(plan: Plan, cluster: str, facts: FactsFile | None) -> Plan:
    """The plan with its cluster, and the facts that a user gave."""
    given = facts.document.given(cluster, facts.name) if facts else None
    known = Cluster(name=safe_name(cluster or "cluster"), facts=given)
    targets = tuple(
        target.model_copy(
            update={
                "cluster": known.name,
                "facts": facts.document.target(cluster, target.name) if facts else None,
            }
        )
        for target in plan.targets
    )
    return plan.model_copy(update={"clusters": (known,), "targets": targets})


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
