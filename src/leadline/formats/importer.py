"""What it takes to read another tool's files: one importer per kind, one result per figure set."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import DOCUMENT, ReadingCost
from leadline.formats.excerpt import find_gaps, unquote, without_gaps
from leadline.formats.fio.logs import Window
from leadline.formats.result import EngineOutput, FormatError, Note
from leadline.metrics import Op

# Of an import: a result takes 10 to 15 KB of memory while it is audited.
MOST_RESULTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One result that a file holds: a workload on a target, executed once.

    `workload` is what the file calls it; `target` and `cluster` are empty where the file names
    none. `output` is an error where the file is recognised but cut or empty. `together` are all
    jobs of the execution that this result is a part of (sections of one fio job file), so that
    an audit can see what ran at the same time; empty where that is `output.jobs` itself. `windows`
    are IOPS per second where the tool reports them. `labels` distinguish the target, where the file
    has them."""

    workload: str
    output: EngineOutput | FormatError
    target: str = ""
    cluster: str = ""
    tool: str = ""
    windows: Mapping[Op, tuple[Window, ...]] = field(default_factory=dict)
    together: EngineOutput | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def one_by_one(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Every file by itself."""
    return tuple((name,) for name in names)


def no_logs(_head: bytes) -> tuple[str, ...]:
    """Name no log."""
    return ()


def each_file(
    parse: Callable[[bytes], Iterable[Result]],
) -> Callable[[Mapping[str, bytes]], tuple[Result, ...]]:
    """Make the `read` of an importer that parses every file by itself."""

    def read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
        return tuple(result for content in contents.values() for result in parse(content))

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """A kind of file that `leadline import` takes. All functions are pure.

    `recognises` is given a file's name and its first 64 KiB. `bundles` is given the names of all
    files that no other kind has taken, and says which belong together (a result and its logs, a
    tree of clients' results); a bundle counts if one of its files is recognised.
    `read` is given a bundle's contents by name and returns at least one result, in an order that
    is the same every time, or raises FormatError with the position of what it did not understand.
    `log_prefixes` is given a file's first 64 KiB, and returns the prefixes of the logs that the
    result names as its own (`X` of `X_iops.1.log`), whatever the file is called.
    `cost` bounds the memory that `read` takes: what is more expensive is refused before.
    A table has `guess_columns`: from contents and the columns that the user names to known column
    -> the table's, and `read_columns`, which reads with them. Both raise FormatError.
    """

    kind: str
    summary: str
    recognises: Callable[[str, bytes], bool]
    read: Callable[[Mapping[str, bytes]], tuple[Result, ...]]
    cost: ReadingCost = DOCUMENT
    bundles: Callable[[Sequence[str]], tuple[tuple[str, ...], ...]] = one_by_one
    log_prefixes: Callable[[bytes], tuple[str, ...]] = no_logs
    guess_columns: Callable[[Mapping[str, bytes], Mapping[str, str]], dict[str, str]] | None = None
    read_columns: Callable[[Mapping[str, bytes], Mapping[str, str]], tuple[Result, ...]] | None = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A file that is not imported, and why. `expected`: the user named it, or it is of a kind
    that is known; otherwise it merely lay in a folder."""

    file: str
    reason: str
    context: tuple[str, ...] = ()
    expected: bool = True


# Every importer by its kind, and the one that a file asks for.

# Kind -> the module that holds its IMPORTER. The order is that in which `auto` asks them: first a
# tree, which holds files of other kinds, then those whose mark is unmistakable.
_MODULES = {
    "cbt": "foreign.cbt",
    "benchmark-operator": "foreign.benchmark_operator",
    "fio-json": "fio.json_import",
    "kbench": "foreign.kbench",
    "kubestr": "foreign.kubestr",
    "dbench": "foreign.dbench",
    "fio-text": "fio.text_output",
    "rados-bench": "ceph.rados_bench_import",
    "rbd-bench": "ceph.rbd_bench",
    "elbencho": "foreign.elbencho",
    "vdbench": "foreign.vdbench",
    "ioping": "foreign.ioping",
    "cosbench": "foreign.cosbench",
    "warp": "foreign.warp",
    "sibench": "foreign.sibench",
    "density-ramp": "foreign.density_ramp",
    "zpool-iostat": "zfs.iostat_import",
    "fio-terse": "fio.terse",
    "fio-log": "fio.logs_import",
    "table": "foreign.table",
}
KINDS: tuple[str, ...] = tuple(_MODULES)
# A word for several kinds, of which each file chooses.
GROUPS: dict[str, tuple[str, ...]] = {
    "auto": KINDS,
    "fio": ("fio-json", "fio-text", "fio-terse", "fio-log"),
}


@cache
def importer(kind: str) -> Importer:
    """Raises LeadlineError(`import-kind-unknown`) with the nearest kind."""
    if kind not in _MODULES:
        known = [*GROUPS, *KINDS]
        near = difflib.get_close_matches(kind, known, n=1)
        raise LeadlineError(
            errors.IMPORT_KIND_UNKNOWN,
            f"there is no importer for {kind!r}",
            context=[f"kinds: {', '.join(known)}"],
            hint=f"did you mean {near[0]!r}?" if near else "`leadline import auto` finds the kind",
        )
    found = import_module(f"leadline.formats.{_MODULES[kind]}").IMPORTER
    assert isinstance(found, Importer)
    return _with_excerpts(found)


def importer_of(kind: str, columns: Mapping[str, str] | None) -> Importer:
    """Return the importer of a kind that reads a table with these columns. Raises LeadlineError
    (`import-kind-unknown`)."""
    found = importer(kind)
    read = found.read_columns
    if not columns or read is None:
        return found
    names = columns
    return _with_excerpts(replace(found, read=lambda contents: read(contents, names)))


def resolve_columns(
    kind: str, contents: Mapping[str, bytes], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the columns of a table that have another name, guessed where they are not given; empty
    for other kinds. Raises FormatError for a given column that the table lacks."""
    guess = importer(kind).guess_columns
    if guess is None:
        return {}
    return guess({name: unquote(content) for name, content in contents.items()}, given)


def kinds_of(kind: str) -> tuple[str, ...]:
    """Return the kinds of a group of kinds, or the only one. Raises LeadlineError
    (`import-kind-unknown`)."""
    if kind not in GROUPS:
        importer(kind)
    return GROUPS.get(kind, (kind,))


# fio itself writes `...` behind the header of a job that it clones; its JSON may be behind that.
_WITH_DOTS = frozenset({"fio-text", "fio-json", "cbt"})


def _with_excerpts(importer: Importer) -> Importer:
    """Make an importer that reads excerpts too."""

    def recognises(name: str, head: bytes) -> bool:
        return importer.recognises(name, unquote(head))

    def read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
        unquoted = {name: unquote(content) for name, content in contents.items()}
        if importer.kind in _WITH_DOTS:
            try:
                return importer.read(unquoted)
            except FormatError as error:
                if error.condition != "unreadable-result" or not find_gaps(unquoted):
                    raise
        gaps = find_gaps(unquoted)
        if gaps:
            unquoted = {name: without_gaps(content) for name, content in unquoted.items()}
        return _noted(importer.read(unquoted), gaps)

    return replace(importer, recognises=recognises, read=read)


def _noted(results: tuple[Result, ...], notes: Sequence[Note]) -> tuple[Result, ...]:
    """Add notes to the first result that has figures."""
    if not notes:
        return results
    for number, result in enumerate(results):
        if isinstance(result.output, EngineOutput):
            output = replace(result.output, notes=(*result.output.notes, *notes))
            return (*results[:number], replace(result, output=output), *results[number + 1 :])
    return results
