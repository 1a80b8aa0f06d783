"""Read bundles of files and parse them, one after the other or on all cores."""

from __future__ import annotations

import copyreg
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any

from leadline.archive import layout
from leadline.archive.raw import derived_json
from leadline.archive.records import FileDigest
from leadline.files import read_contents
from leadline.formats.clients import read_results
from leadline.formats.importer import Refused, Result, importer
from leadline.formats.result import (
    DiskUse,
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Note,
    Operation,
)
from leadline.importing.gather import Bundle
from leadline.importing.templates import Place
from leadline.inventory.redaction import MARK, redact_document
from leadline.parallel import begin_work
from leadline.stats.histogram import LatencyHistogram

_NOT_IN_FILES = re.compile(r"[^A-Za-z0-9._+=@-]+")
_LONGEST_FILE_NAME = 100
# Fewer are read before other processes are there.
_WORTH_PROCESSES = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBundle:
    """What a bundle holds, and its files as they were kept. `refused` says why there is nothing.

    `derived` is the digest of a trial's `derived.json`, which lies in the folder as `derived_file`
    calls it, for each result; None for one without figures. `marked` are the files in which secrets
    were removed.
    """

    kind: str
    names: tuple[str, ...]
    files: tuple[str, ...] = ()
    digests: tuple[FileDigest, ...] = ()
    marked: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()
    derived: tuple[FileDigest | None, ...] = ()
    refused: Refused | None = None
    place: Place | None = None
    clients: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def read_bundles(bundles: Sequence[Bundle], folder: Path | None) -> Iterator[ReadBundle]:
    """Every bundle in its order, its files copied into `folder`, if there is one, with the bundle's
    number before their names. Raises OSError where the folder cannot be written."""
    # An importer cannot be sent to another process; its kind can.
    work = [
        _Work(
            number=number,
            kind=bundle.importer.kind,
            files=bundle.files,
            place=bundle.place,
            clients=bundle.clients,
            absent=bundle.absent,
        )
        for number, bundle in enumerate(bundles, start=1)
    ]
    cores = len(os.sched_getaffinity(0))
    if len(work) < _WORTH_PROCESSES or cores < 2:
        for bundle_work in work:
            yield _read(folder, bundle_work)
        return
    # A fork has all modules loaded, and Leadline holds no lock and no thread here.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(cores, mp_context=context, initializer=begin_work) as pool:
        try:
            yield from pool.map(partial(_read, folder), work, chunksize=8)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A bundle by its number, as it is sent to another process."""

    number: int
    kind: str
    files: Mapping[str, Path]
    place: Place | None
    clients: tuple[str, ...]
    absent: tuple[str, ...]


def _flat(entry: Any) -> tuple[Callable[..., Any], tuple[type, tuple[Any, ...]]]:
    kind = type(entry)
    return _restored, (kind, _VALUES[kind](entry))


def _restored(kind: type, values: tuple[Any, ...]) -> Any:
    made: Any = object.__new__(kind)
    for name, value in zip(_NAMES[kind], values, strict=True):
        object.__setattr__(made, name, value)
    return made


# Results go from one process to the other by the hundred thousand parts; what dataclasses do for
# pickle by themselves took longer than parsing.
_SENT: tuple[type[Any], ...] = (
    *(Result, EngineOutput, JobResult, JobOptions, Operation, Latency, LatencyHistogram),
    *(DiskUse, Note),
)
_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in _SENT}
_VALUES = {kind: attrgetter(*names) for kind, names in _NAMES.items()}
for _kind in _SENT:
    copyreg.pickle(_kind, _flat)


def _read(folder: Path | None, work: _Work) -> ReadBundle:
    """Whatever is large is written here, and need not go to the other process."""
    number, kind, names = work.number, work.kind, tuple(work.files)
    try:
        contents = read_contents(work.files, importer(kind).cost)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        return ReadBundle(kind=kind, names=names, refused=Refused(file=names[0], reason=reason))
    # What is kept is what is parsed, and nothing of it is a secret.
    contents = {name: redact_document(content) for name, content in contents.items()}
    try:
        results = read_results(kind, contents, work.clients, work.absent)
    except FormatError as error:
        if error.condition == "unreadable-result":
            refused = Refused(file=names[0], reason=error.fact, context=error.context)
            return ReadBundle(kind=kind, names=names, refused=refused)
        # Clearly a result, but empty or cut: a trial without figures, missing in sight.
        results = (Result(workload="", output=error),)
    files = tuple(
        f"{number:04d}-{safe_name(name)}"
        if len(names) == 1
        else f"{number:04d}-{index}-{safe_name(name)}"
        for index, name in enumerate(names, start=1)
    )
    read = ReadBundle(
        kind=kind,
        names=names,
        files=files,
        results=results,
        place=work.place,
        clients=work.clients,
        absent=work.absent,
    )
    if folder is None:
        return read
    stored = dict(zip(files, contents.values(), strict=True))
    derived = {
        derived_file(files[0], part): None
        if isinstance(result.output, FormatError)
        else derived_json(result.output)
        for part, result in enumerate(results)
    }
    every = stored | {file: content for file, content in derived.items() if content is not None}
    for file, content in every.items():
        (folder / file).write_bytes(content)
    return replace(
        read,
        digests=tuple(map(layout.digest, stored.values())),
        marked=tuple(file for file, content in every.items() if MARK in content),
        derived=tuple(
            None if content is None else layout.digest(content) for content in derived.values()
        ),
    )


def derived_file(first: str, part: int) -> str:
    """Where the derived numbers of a result wait for their trial; no foreign file is called so."""
    return f".{first}.{part}"


def safe_name(name: str) -> str:
    """A file or run name that is safe anywhere; the record has its original name."""
    stem = _NOT_IN_FILES.sub("_", PurePath(name).name)[-_LONGEST_FILE_NAME:].lstrip(".-")
    return stem or "file"
