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
from leadline.archive.writer import (
    archive_errors,
    draft_prefix,
    lock_archive,
    remove_abandoned_drafts,
)
from leadline.errors import LeadlineError
from leadline.files import sync_folder
from leadline.formats.importer import MOST_RESULTS, Refused, Result
from leadline.formats.result import FormatError
from leadline.importing.cells import ImportedTrial, file_stem, imported_plan, imported_trial
from leadline.importing.facts import ImportedCluster, check_against_inventory, check_names
from leadline.importing.gather import Gathered, GivenLabel, TargetLabels, label_targets
from leadline.importing.read import ReadBundle, derived_file, read_bundles, safe_name
from leadline.importing.templates import Place
from leadline.inventory.redaction import MARK, redact_document
from leadline.plan.facts import FactsFile
from leadline.plan.models import Cluster, Plan

# Up to here what was parsed for the archive is kept for the audit that follows.
_REMEMBERED_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the user calls the run, the cluster and the target, where they say so, what sets targets
    apart (`of_targets`), the saved inventories of clusters by their label (the key is empty for the
    only cluster), the facts of a facts file, what columns of tables are called, and when results
    were measured whose files do not say it (`date`, ISO 8601)."""

    run: str
    cluster: str | None = None
    target: str | None = None
    of_targets: Sequence[GivenLabel] = ()
    inventories: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    facts: FactsFile | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    date: str = ""


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
    hint = "make room, or name another place with --runs; nothing was imported"
    with archive_errors(folder, hint):
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


def read_results(gathered: Gathered, folder: Path, labels: Labels, session: Session) -> Imported:
    """Read results as runs of which nothing is kept: they are in memory only, and their place in
    `folder`, which is empty, does not exist. Raises LeadlineError as `import_results`."""
    intake = _Intake(None, labels)
    for bundle in read_bundles(gathered.bundles, None, labels.columns):
        intake.take(bundle)
    refused = (*gathered.refused, *intake.refused)
    if not intake.drafts:
        raise _nothing(refused)
    return Imported(runs=intake.in_memory(folder, session), refused=refused)


@dataclass(kw_only=True)
class _Draft:
    """An archive in the making, of one cluster."""

    path: Path | None
    trials: list[tuple[ImportedTrial, TrialRecord]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    files: dict[str, FileDigest] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)
    parsed: dict[str, tuple[Result, ...]] = field(default_factory=dict)
    labels: TargetLabels = field(default_factory=TargetLabels)
    inventory: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def described(self) -> ImportedCluster:
        return ImportedCluster(targets=self.labels.by_target, inventory=self.inventory)

    def write(self, name: str, content: bytes) -> None:
        assert self.path is not None
        (self.path / name).write_bytes(content)
        self.files[name] = layout.digest(content)
        if MARK in content:
            self.marked.append(name)

    def run_in(self, place: Path, manifest: Manifest, composed: _Composed) -> Run:
        """Return the run; nothing that is known of it is read again."""
        run = Run(place)
        run.remember(manifest, composed.plan[0], [record for record, _ in composed.trials])
        for name, results in self.parsed.items():
            run.imported.remember(name, results)
        return run


class _Intake:
    """Takes bundle after bundle; only what the audit needs stays in memory."""

    def __init__(self, staging: Path | None, labels: Labels) -> None:
        """`staging` is where archives are made; without it, runs are in memory only."""
        self._staging = staging
        self.raw = staging / layout.IMPORTED if staging else None
        if self.raw:
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
            for file, digest in zip(bundle.files, bundle.digests, strict=self.raw is not None):
                draft.files[f"{layout.IMPORTED}/{file}"] = digest
            marked = set(bundle.marked) & set(bundle.files)
            draft.marked += [f"{layout.IMPORTED}/{file}" for file in sorted(marked)]
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
            path = self._staging / f"run-{len(self.drafts) + 1}" if self._staging else None
            if path:
                (path / layout.TRIALS).mkdir(parents=True)
            self.drafts[cluster] = _Draft(path=path)
        return self.drafts[cluster]

    def _add(self, draft: _Draft, source: ImportSource, bundle: ReadBundle, part: int) -> None:
        self._trials += 1
        result = bundle.results[part]
        tool = result.tool or source.kind
        file = source.names[0]
        level = bundle.place.level if bundle.place else ""
        target = self._target(result, file)
        trial = imported_trial(self._trials, target, file, tool, result, level)
        trial = replace(trial, clients=len(set(source.clients)) + len(source.absent))
        draft.labels.take(trial.target, result.labels, file)
        record = _record(trial, source, result, self._labels.date)
        if self.raw and draft.path:
            folder = f"{layout.TRIALS}/{record.label}"
            (draft.path / folder).mkdir()
            derived, made = bundle.derived[part], derived_file(source.files[0], part)
            if derived is not None:
                name = f"{folder}/{layout.DERIVED}"
                (self.raw / made).rename(draft.path / name)
                draft.files[name] = derived
                draft.marked += [name] if made in bundle.marked else []
                record = record.model_copy(update={"files": {layout.DERIVED: derived}})
        draft.trials.append((trial, record))

    def finish(self, folder: Path, session: Session) -> tuple[Run, ...]:
        """Seal every draft and put it in its place: all of them, or none."""
        assert self._staging
        assert self.raw
        places = self._places(folder)
        several = len(places) > 1
        sealed: list[tuple[Path, Run]] = []
        for (cluster, draft), place in zip(self.drafts.items(), places, strict=True):
            if place.exists():
                raise LeadlineError(
                    errors.RUN_EXISTS,
                    f"there is a run {place.name!r} in {folder} already",
                    hint="give the run another name with --run; nothing was imported",
                )
            assert draft.path
            if several:
                self._copy_raw(draft)
            else:
                self.raw.rename(draft.path / layout.IMPORTED)
            composed = _compose(draft, place.name, cluster, session, self._labels.facts)
            sealed.append((draft.path, draft.run_in(place, _seal(draft, composed), composed)))
        _sync(self._staging)
        for path, run in sealed:
            path.rename(run.path)
        sync_folder(folder)
        return tuple(run for _, run in sealed)

    def in_memory(self, folder: Path, session: Session) -> tuple[Run, ...]:
        """Return the runs of which nothing is kept, with their places in `folder`."""
        runs = []
        for (cluster, draft), place in zip(self.drafts.items(), self._places(folder), strict=True):
            composed = _compose(draft, place.name, cluster, session, self._labels.facts)
            runs.append(draft.run_in(place, composed.manifest, composed))
        return tuple(runs)

    def _places(self, folder: Path) -> list[Path]:
        """Give the drafts what the user says of them, and return the place of each run."""
        label_targets([draft.labels for draft in self.drafts.values()], self._labels.of_targets)
        self._give_inventories()
        facts = self._labels.facts
        if facts is not None:
            check_names(facts, {name: draft.described for name, draft in self.drafts.items()})
        several = len(self.drafts) > 1
        places: list[Path] = []
        for cluster in self.drafts:
            suffix = f"-{safe_name(cluster or 'unnamed')}" if several else ""
            place = wanted = folder / f"{self._labels.run}{suffix}"
            # Names in other letters may come to the same.
            for number in itertools.count(2):
                if place not in places:
                    break
                place = wanted.with_name(f"{wanted.name}-{number}")
            places.append(place)
        return places

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
        if self.raw is None:
            return
        for file in bundle.files:
            (self.raw / file).unlink()
        for part, digest in enumerate(bundle.derived):
            if digest is not None:
                (self.raw / derived_file(bundle.files[0], part)).unlink()

    def _copy_raw(self, draft: _Draft) -> None:
        """The files that one of several archives is made from."""
        assert self.raw
        assert draft.path
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Composed:
    """The records of a run, without secrets, with their encoding as stored."""

    manifest: Manifest
    plan: tuple[Plan, bytes]
    trials: list[tuple[TrialRecord, bytes]]


def _compose(
    draft: _Draft, name: str, cluster: str, session: Session, facts: FactsFile | None
) -> _Composed:
    planned = imported_plan(
        name, draft.kinds, [trial for trial, _ in draft.trials], draft.labels.by_target
    )
    if draft.inventory or facts:
        planned = _described(planned, cluster, facts)
    if facts:
        check_against_inventory(
            facts, cluster, planned.clusters[0], planned.targets, draft.inventory
        )
    trials = [
        layout.encode_clean(
            record.model_copy(
                update={"level": planned.cells[trial.cell].level, "block": trial.block}
            )
        )
        for trial, (_, record) in zip(planned.trials, draft.trials, strict=True)
    ]
    manifest = Manifest(
        run=name,
        status=RunStatus.COMPLETE,
        created_at=session.started_at,
        trials_planned=len(planned.trials),
        cluster_label=cluster,
        sessions=(session,),
    )
    return _Composed(
        manifest=layout.encode_clean(manifest)[0],
        plan=layout.encode_clean(planned),
        trials=trials,
    )


def _seal(draft: _Draft, composed: _Composed) -> Manifest:
    """Write the records of an archive, and return its manifest."""
    assert draft.path
    if draft.inventory:
        place = layout.system_folder("001", "start", 0)
        (draft.path / place).mkdir(parents=True)
        for file, content in draft.inventory.items():
            draft.write(f"{place}/{file}", redact_document(content))
    draft.write(layout.PLAN, composed.plan[1])
    for record, content in composed.trials:
        draft.write(f"{layout.TRIALS}/{record.label}/{layout.TRIAL_RECORD}", content)
    redactions = layout.list_redactions(draft.path, composed.manifest, sorted(draft.marked))
    if redactions:
        draft.write(layout.REDACTIONS, layout.encode(Redactions(redactions=redactions)))
    manifest, content = layout.encode_clean(
        composed.manifest.model_copy(update={"files": dict(sorted(draft.files.items()))})
    )
    (draft.path / layout.MANIFEST).write_bytes(content)
    return manifest


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


def _record(trial: ImportedTrial, source: ImportSource, result: Result, date: str) -> TrialRecord:
    """`date` is when the result was measured, where the file does not say it."""
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
        started_at="" if ended else date,
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
