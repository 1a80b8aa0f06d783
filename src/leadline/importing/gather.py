"""From the paths that a user names to bundles of files, each with the importer that reads it."""

from __future__ import annotations

import difflib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import read_content, read_contents
from leadline.formats.importer import Importer, Refused, importer, kinds_of
from leadline.importing.templates import Place
from leadline.importing.unpacking import Unpacker
from leadline.plan.labels import is_label_word
from leadline.units import format_size

HEAD_BYTES = 64 << 10
# The first key of fio's JSON, and how much of the text before it its importer looks at.
_DOCUMENT = b'"fio version"'
_BEFORE = 64
# Limits beyond any real tree of results.
_DEEPEST = 32
_MOST_FILES = 200_000
# All results of an import are in memory for its audit, with 1.6 times the size of their files. Logs
# are not: they are added up line by line.
MOST_BYTES = 192 << 20
# 64 MiB of heads.
_MOST_HEADS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Files that make results together: paths by the name that the importer and the user see.

    `place` is what the layout of a study says of them. `clients` are the clients of the files, one
    by one, where they are of concurrent clients of one trial, and `absent` those without a file."""

    importer: Importer
    files: Mapping[str, Path]
    place: Place | None = None
    clients: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def contents(self) -> dict[str, bytes]:
        """Raises OSError."""
        return read_contents(self.files, self.importer.cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    bundles: tuple[Bundle, ...]
    refused: tuple[Refused, ...]


def gather(kind: str, paths: Sequence[Path], scratch: Path | None = None) -> Gathered:
    """Files below `paths` as bundles; folders are walked in the order of names, links in them are
    not followed. A file named itself is taken as being of `kind` even if nothing in it says so,
    unless `kind` leaves a choice. Packed files are unpacked into the folder `scratch`, and refused
    without it. Raises LeadlineError(`import-kind-unknown`) and OSError where `scratch` is full.
    """
    kinds = kinds_of(kind)
    refused: list[Refused] = []
    files: dict[str, Path] = {}
    named: set[str] = set()
    unpacker = Unpacker(folder=scratch) if scratch else None
    for path in paths:
        for short, found, source in _unpacked(_walk(path, refused), path, unpacker, refused):
            if len(files) >= _MOST_FILES:
                refused.append(Refused(file=_text(path), reason=f"more than {_MOST_FILES:,} files"))
                break
            name = source if short in files else short
            files[name] = found
            if path.is_file():
                named.add(name)
    heads = _Heads(files)
    for name in list(files):
        try:
            heads.read(name)
        except OSError as error:
            refused.append(Refused(file=name, reason=f"cannot be read: {error.strerror}"))
            del files[name]
    assigned, left = _assign(kinds, files, heads, named)
    unowned = [name for name, owners in left.items() if not owners]
    assigned, taken = _with_later_documents(kinds, files, heads, assigned, unowned)
    bundles = tuple(_within_memory(assigned, refused))
    refused += unpacker.refused if unpacker else ()
    for name, owners in left.items():
        if name in taken:
            continue
        if owners:
            reason = f"is named as their log by {len(owners)} results, {owners[0]} among them"
            refused.append(Refused(file=name, reason=reason, expected=False))
            continue
        reason = _unrecognised(kinds, heads[name])
        refused.append(Refused(file=name, reason=reason, expected=name in named))
    return Gathered(bundles=bundles, refused=tuple(refused))


def _with_later_documents(
    kinds: Sequence[str],
    files: Mapping[str, Path],
    heads: Mapping[str, bytes],
    bundles: Sequence[Bundle],
    left: Iterable[str],
) -> tuple[tuple[Bundle, ...], set[str]]:
    """Add the bundles of files that begin with a long text of other programs, and return their
    names: importers see where the document begins."""
    later = {name: head for name in left if (head := _later_head(files[name], heads[name]))}
    if not later:
        return tuple(bundles), set()
    more, _ = _assign(kinds, {name: files[name] for name in later}, later, set())
    order = {name: number for number, name in enumerate(files)}
    together = sorted((*bundles, *more), key=lambda bundle: order[next(iter(bundle.files))])
    return tuple(together), {name for bundle in more for name in bundle.files}


def _later_head(path: Path, head: bytes) -> bytes:
    """Return what a file holds from fio's JSON on; empty where it has none behind its head."""
    if len(head) < HEAD_BYTES:
        return b""
    try:
        content = read_content(path)
    except OSError:
        return b""
    place = content.find(_DOCUMENT, HEAD_BYTES - len(_DOCUMENT))
    return content[max(0, place - _BEFORE) : place + HEAD_BYTES] if place >= 0 else b""


def _unpacked(
    files: Iterator[tuple[str, Path]],
    given: Path,
    unpacker: Unpacker | None,
    refused: list[Refused],
) -> Iterator[tuple[str, Path, str]]:
    """Yield the files, and those in packed ones: their name, path, and a name that no other has."""
    for name, path in files:
        # A link that the user names is followed.
        found = path.resolve() if path == given else path
        if unpacker is None:
            yield name, found, _text(path)
            continue
        try:
            for inner, unpacked in unpacker.unpack(name, found):
                other = _text(path) + inner.removeprefix(name) if inner.startswith(name) else name
                yield inner, unpacked, _text(path) if unpacked == found else other
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            refused.append(Refused(file=name, reason=f"cannot be read: {error.strerror}"))


def _within_memory(bundles: Iterable[Bundle], refused: list[Refused]) -> Iterator[Bundle]:
    """Yield the bundles that fit into memory together; refuse the rest."""
    taken = 0
    for bundle in bundles:
        size = 0
        if not bundle.importer.cost.numbers_in_place:
            size = sum(path.stat().st_size for path in bundle.files.values() if path.exists())
        # One that is too large by itself is refused when it is read, with the reason.
        if taken and taken + size > MOST_BYTES:
            reason = (
                f"is beyond {format_size(MOST_BYTES)} of results, the most of one import; import "
                "it into another run"
            )
            refused += [Refused(file=name, reason=reason) for name in bundle.files]
            continue
        taken += size
        yield bundle


class _Heads(Mapping[str, bytes]):
    """The first bytes of files; those of many files are read again instead of kept."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._kept: dict[str, bytes] = {}

    def read(self, name: str) -> bytes:
        """Raises OSError."""
        if name in self._kept:
            return self._kept[name]
        head = read_content(self._files[name], HEAD_BYTES)
        if len(self._kept) < _MOST_HEADS:
            self._kept[name] = head
        return head

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, name: str) -> bytes:
        """Read a head again; empty where the file is gone since."""
        try:
            return self.read(name)
        except OSError:
            return b""


def _assign(
    kinds: Sequence[str],
    files: Mapping[str, Path],
    heads: Mapping[str, bytes],
    named: set[str],
) -> tuple[tuple[Bundle, ...], dict[str, tuple[str, ...]]]:
    """Return the bundles, and the files in none, with the results that name them as their log."""
    left = dict.fromkeys(files)
    shared: dict[str, tuple[str, ...]] = {}
    # An empty file that the user names is a result without numbers, of any kind.
    empty = {name for name in named if name in left and not heads[name].strip()}
    bundles: list[tuple[str, Bundle]] = []
    for kind in kinds:
        if not left:  # to load an importer takes as long as to read several files
            break
        choice = importer(kind)
        mine = {
            name
            for name in left
            if (len(kinds) == 1 and name in named)
            or name in empty
            or choice.recognises(name, heads[name])
        }
        if not mine:
            continue
        logs = _named_logs(choice, mine, left, heads)
        together = choice.bundles(tuple(left))
        places = {name: place for place, names in enumerate(together) for name in names}
        for log, owners in logs.items():
            if len({places.get(owner) for owner in owners}) > 1:
                shared[log] = owners
                left.pop(log)
        for place, names in enumerate(together):
            if mine.intersection(names):
                mine_too = [log for log, owners in logs.items() if places.get(owners[0]) == place]
                names = tuple(
                    name for name in dict.fromkeys((*names, *mine_too)) if name not in shared
                )
                made = Bundle(importer=choice, files={name: files[name] for name in names})
                bundles.append((names[0], made))
                for name in names:
                    left.pop(name, None)
    order = {name: number for number, name in enumerate(files)}
    bundles.sort(key=lambda pair: order[pair[0]])
    return tuple(bundle for _, bundle in bundles), shared | dict.fromkeys(left, ())


# fio's names of logs (get_log_name), behind the prefix that the result names.
_LOG = re.compile(r"_(?:iops|bw|lat|clat|slat|clat_hist)(?:\.\d{1,9})?\.log")


def _named_logs(
    choice: Importer, mine: Iterable[str], names: Iterable[str], heads: Mapping[str, bytes]
) -> dict[str, tuple[str, ...]]:
    """Return the results that name a log as theirs, by log. Where there are several, the last one
    has overwritten it, and which that is is unknown."""
    owners: dict[tuple[str, str], list[str]] = {}
    for name in mine:
        for prefix in choice.log_prefixes(heads[name]):
            owners.setdefault((name.rpartition("/")[0], prefix), []).append(name)
    logs: dict[str, tuple[str, ...]] = {}
    for name in names if owners else ():
        folder, _, file = name.rpartition("/")
        ending = _LOG.search(file)
        whose = owners.get((folder, file[: ending.start()]), []) if ending else []
        if whose and name not in whose:
            logs[name] = tuple(sorted(whose))
    return logs


def _walk(path: Path, refused: list[Refused]) -> Iterator[tuple[str, Path]]:
    """Regular files at or below a path, named by their path from where the user pointed."""

    def unread(error: OSError) -> None:
        where = _text(error.filename or path)
        refused.append(Refused(file=where, reason=f"cannot be read: {error.strerror}"))

    if not path.is_dir():
        yield _text(path.name), path
        return
    for folder, folders, names in os.walk(path, onerror=unread):
        folders.sort()
        depth = len(Path(folder).relative_to(path).parts)
        if depth >= _DEEPEST and folders:
            reason = f"is nested deeper than {_DEEPEST} folders"
            refused.append(Refused(file=_text(folder), reason=reason))
            folders.clear()
        for name in sorted(names):
            found = Path(folder, name)
            shown = _text(found.relative_to(path))
            mode = found.lstat().st_mode
            if stat.S_ISLNK(mode):
                refused.append(
                    Refused(file=shown, reason="is a link, which is not followed", expected=False)
                )
            elif stat.S_ISREG(mode):
                yield shown, found
            else:
                refused.append(Refused(file=shown, reason="is not a regular file"))


def _text(path: str | Path) -> str:
    """A path as text that can be stored; in a filesystem names are bytes, which need be no text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


_PACKED = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "packed by gzip"),
    (b"BZh", "packed by bzip2"),
    (b"\xfd7zXZ", "packed by xz"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd"),
)
# The mark of UTF-32 begins with that of UTF-16.
_ENCODINGS = (
    *((mark, "UTF-32") for mark in (b"\xff\xfe\0\0", b"\0\0\xfe\xff")),
    *((mark, "UTF-16") for mark in (b"\xff\xfe", b"\xfe\xff")),
)


def _unrecognised(kinds: Sequence[str], head: bytes) -> str:
    for mark, what in _PACKED:
        if head.startswith(mark):
            return f"is {what}; unpack it first"
    for mark, encoding in _ENCODINGS:
        if head.startswith(mark):
            return f"is text in {encoding}; convert it to UTF-8 (iconv -f {encoding} -t UTF-8)"
    if not head.strip():
        return f"is empty ({len(head)} bytes)"
    if len(kinds) == 1:
        return f"holds nothing that looks like {kinds[0]}"
    text = head[:400].decode("utf-8-sig", "replace").strip()
    return f"is no result of a kind that is known; it begins {text.partition(chr(10))[0][:60]!r}"


# What sets imported targets apart, as files say it and as the command line adds it.


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLabel:
    """A label of the command line; of every target where it names none."""

    key: str
    value: str
    target: str | None = None


def parse_label(text: str) -> GivenLabel:
    """`[TARGET=]KEY=VALUE`; a target's name may hold `=`. Raises LeadlineError (`usage`)."""
    *target, key, value = text.rsplit("=", 2) if text.count("=") > 1 else text.partition("=")[::2]
    if not is_label_word(key) or not is_label_word(value) or target == [""]:
        raise LeadlineError(
            errors.USAGE,
            f"{text!r} is not a label",
            hint="write it as KEY=VALUE or TARGET=KEY=VALUE, like 'cores=2'; key and value hold "
            "no comma",
        )
    return GivenLabel(key=key, value=value, target=target[0] if target else None)


@dataclass(kw_only=True)
class TargetLabels:
    """The labels of one archive's targets."""

    by_target: dict[str, dict[str, str]] = field(default_factory=dict)

    def take(self, target: str, given: Mapping[str, str], source: str) -> None:
        """Add the labels of a target in a file (`source`). Raises LeadlineError (`usage`) where
        another file contradicts it."""
        labels = self.by_target.setdefault(target, {})
        for key, value in given.items():
            if labels.setdefault(key, value) != value:
                raise _otherwise(target, key, labels[key], value, f"{source} says")

    def give(self, target: str, label: GivenLabel) -> None:
        labels = self.by_target[target]
        if labels.setdefault(label.key, label.value) != label.value:
            raise _otherwise(target, label.key, labels[label.key], label.value, "--label says")


def label_targets(runs: Sequence[TargetLabels], given: Sequence[GivenLabel]) -> None:
    """Add the command line's labels. Raises LeadlineError (`usage`) for one of a target that no
    file names, for one that has a target's name as its key, and for one that contradicts a
    file."""
    names = {target for run in runs for target in run.by_target}
    for label in given:
        if label.target is None and label.key in names:
            raise LeadlineError(
                errors.USAGE,
                f"--label says {label.value!r} of the target {label.key!r}, which is no KEY=VALUE",
                hint=f"write it as TARGET=KEY=VALUE, like '{label.key}=cores=2'; "
                "nothing was imported",
            )
        found = [
            (run, target)
            for run in runs
            for target in run.by_target
            if label.target in (None, target)
        ]
        if not found:
            raise _unknown(label.target or "", [target for run in runs for target in run.by_target])
        for run, target in found:
            run.give(target, label)


def _otherwise(target: str, key: str, before: str, now: str, who: str) -> LeadlineError:
    return LeadlineError(
        errors.USAGE,
        f"target {target!r} has two values of the label {key!r}: {before} and {now}",
        context=[f"{who} {key}={now}"],
        hint="a label is a target's: what differs in it are two targets, with a name each; nothing "
        "was imported",
    )


def _unknown(name: str, known: Sequence[str]) -> LeadlineError:
    near = difflib.get_close_matches(name, known, n=1)
    shown = ", ".join(dict.fromkeys(known))
    return LeadlineError(
        errors.USAGE,
        f"--label names the target {name!r}, which no file has",
        context=[f"targets: {shown[:500]}"],
        hint=f"did you mean {near[0]!r}?" if near else "nothing was imported",
    )
