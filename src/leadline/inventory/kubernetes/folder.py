"""Read Kubernetes objects and Ceph dumps from a folder of saved files.

The folder is a must-gather, output of `kubectl get -o yaml`, or dumps of Leadline. The result is a
capture: one dump for each kind, Ceph's answers by name, and gaps. Files are untrusted: YAML aliases
are refused, depth and size are limited, only plain values are created.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import DOCUMENT, LOG, MEMORY_BYTES, YAML, read_content
from leadline.inventory.ceph import dumps as ceph_dumps
from leadline.inventory.kubernetes.cleaning import clean_object, is_kept
from leadline.inventory.kubernetes.kinds import (
    GAPS,
    VERSION,
    ObjectKind,
    find_kind,
    holds_kubernetes,
)
from leadline.inventory.kubernetes.models import Gap
from leadline.inventory.kubernetes.objects import Malformed, Part, dump_of, gaps_dump, object_name
from leadline.inventory.redaction import redact_document
from leadline.inventory.system import SAVED
from leadline.units import format_size

# Objects of real clusters have about 20 levels.
_DEEPEST = 100
_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)


# The search is a hundred times faster than parsing. Most saved objects are pods, which also name
# the kind of their owner.
@functools.cache
def _wanted_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of text with an object of a known kind: anywhere, at a line's start."""
    names = "|".join(sorted({kind.kind for kind in ObjectKind}))
    kind = r"kind[\"']?\s*:\s*[\"']?"
    anywhere = re.compile(rf"{kind}(?:{names})(?:List)?\b|gitVersion")
    line_start = rf"^(?:[\"']?{kind}(?:List|(?:{names})(?:List)?)\b|serverVersion:|gitVersion:)"
    return anywhere, re.compile(line_start, re.MULTILINE)


class Unreadable(Exception):
    """Text that is not an object; `line` counts from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document of a file: its value, or its fault. `line` is its first."""

    line: int
    value: Any = None
    fault: Unreadable | None = None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain values as in Kubernetes: no dates, no numbers to the base of 60. Keys are text, as in
    JSON."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        members: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return {
            key if isinstance(key, str) else json.dumps(key, default=str): member
            for key, member in members.items()
        }


_INTEGER = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$")
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rpartition(":")[2] in ("null", "bool", "float")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))


def parse_documents(text: str, *, as_json: bool) -> Iterator[Document]:
    """Yield the documents of a file that may hold objects of a known kind, a list in YAML as one
    document for each item.

    A damaged document does not hide the others.
    """
    if as_json:
        if _wanted_patterns()[0].search(text):
            yield _json(text)
        return
    line = 1
    for part in _SEPARATOR.split(text):
        if _worth_parsing(part):
            yield from _items(part, line)
        line += part.count("\n")


# As `kubectl get -o yaml` prints a list: an item begins with `- `, its other lines are indented.
_ITEMS = re.compile(r"^items:[ \t]*\n(?=- )", re.MULTILINE)
_NOT_INDENTED = re.compile(r"^[^ \t\n]", re.MULTILINE)
_MOST_ITEMS = 200_000


def _items(text: str, first: int) -> Iterator[Document]:
    """Parse the items of a list one by one: all together take sixty times the text in memory."""
    begin = _ITEMS.search(text)
    if begin is None:
        yield _yaml(text, first)
        return
    count = 0
    end = len(text)
    for line_start in _NOT_INDENTED.finditer(text, begin.end()):
        if not text.startswith("- ", line_start.start()):
            end = line_start.start()
            break
        count += 1
    around = _yaml(text[: begin.start()] + text[end:], first)
    if around.fault is not None or not isinstance(around.value, dict) or count > _MOST_ITEMS:
        yield _yaml(text, first)
        return
    line = first + text.count("\n", 0, begin.end())
    at = begin.end()
    while at < end:
        following = _NOT_INDENTED.search(text, at + 1)
        until = following.start() if following else end
        document = _yaml(text[at:until], line)
        if document.fault is None:
            document = replace(document, value={**around.value, "items": document.value})
        yield document
        line += text.count("\n", at, until)
        at = until


def _worth_parsing(text: str) -> bool:
    if not _wanted_patterns()[0].search(text):
        return False
    return text.lstrip()[:1] in ("{", "[") or _wanted_patterns()[1].search(text) is not None


def _json(text: str) -> Document:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return Document(line=1, fault=Unreadable(f"not JSON: {error.msg}", error.lineno))
    except (ValueError, RecursionError):
        return Document(line=1, fault=Unreadable("not JSON that is accepted", 1))
    if _deeper(value, _DEEPEST):
        return Document(line=1, fault=Unreadable("nested too deeply", 1))
    return Document(line=1, value=value)


def _deeper(value: Any, limit: int) -> bool:
    """Return whether lists and objects are nested deeper than `limit`."""
    level: list[Any] = [value]
    for _ in range(limit):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


def _yaml(text: str, first: int) -> Document:
    try:
        if YAML.compute(text.encode("utf-8", "replace")) > MEMORY_BYTES:
            raise Unreadable("too large to be parsed as one document", first)
        _check(text, first)
        return Document(line=first, value=yaml.load(text, Loader=_Loader))
    except Unreadable as fault:
        return Document(line=first, fault=fault)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = first + (mark.line if mark else 0)
        return Document(line=first, fault=Unreadable(f"not YAML: {problem}", line))
    except (ValueError, RecursionError) as error:
        return Document(line=first, fault=Unreadable(f"not YAML that is accepted: {error}", first))


def _check(text: str, first: int) -> None:
    """Check the events before objects are built. Aliases are refused: they let a file grow."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = first + (event.start_mark.line if event.start_mark else 0)
        if isinstance(event, yaml.AliasEvent):
            raise Unreadable("aliases are refused", line)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise Unreadable("nested too deeply", line)


# A must-gather of a large cluster has about ten thousand files of a few KiB; the list of a thousand
# nodes has about 20 MiB.
MOST_FILES = 200_000
LARGEST_FILE_BYTES = 64 << 20
MOST_BYTES = 1 << 30
# What is kept of all files together takes this memory at most. A decoded object takes about ten
# times its JSON.
MOST_KEPT_BYTES = 160 << 20
_DECODED = 10
# More gaps are counted, not listed.
_MOST_GAPS = 50
_SUFFIXES = (".yaml", ".yml", ".json")
# Names of Ceph's answers in a must-gather of OpenShift Data Foundation.
_CEPH_ANSWER = re.compile(r"ceph_([a-z_-]+?)_--format[_=-]json(?:-pretty)?(?:\.json)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The content of a folder: redacted dumps by name, and gaps.

    If there are Kubernetes objects, the gaps are a dump too.
    """

    dumps: dict[str, bytes]
    gaps: tuple[Gap, ...]


@dataclass(slots=True)
class _Gathered:
    """The content found so far. `objects` are by kind, then by namespace and name."""

    root: Path
    objects: dict[ObjectKind, dict[str, dict[str, Any]]] = field(default_factory=dict)
    ceph: dict[str, bytes] = field(default_factory=dict)
    version: bytes | None = None
    gaps: dict[tuple[str, str], None] = field(default_factory=dict)
    files: int = 0
    taken_bytes: int = 0
    kept_bytes: int = 0

    def keeps(self, path: Path, size: int) -> bool:
        """Count memory that is to be kept; False, with a note, for more than is allowed."""
        if self.kept_bytes + size > MOST_KEPT_BYTES:
            self.note(path, f"more than {format_size(MOST_KEPT_BYTES)} of objects: not kept")
            return False
        self.kept_bytes += size
        return True

    def note(self, path: Path, reason: str, line: int | None = None) -> None:
        shown = str(path.relative_to(self.root))
        self.gaps.setdefault((f"{shown}:{line}" if line else shown, reason))


def read_folder(root: Path, option: str = "--from-dir") -> Saved:
    """Read all cluster data in a folder and below, or a file with the output of
    `leadline inventory --format json`. `option` is the option that named it.

    Raises:
        LeadlineError: `dumps-invalid`: the folder is missing, or holds no known data.
    """
    found = _Gathered(root)
    try:
        if root.is_file():
            return Saved(dumps={SAVED: read_content(root.resolve())}, gaps=())
        for path in _files(found):
            _take(found, path)
    except OSError as error:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"{str(error.filename or root)!r} cannot be read: {error.strerror}",
            hint=f"{option} names a folder with dumps: status.json ..., or YAML of a cluster",
        ) from error
    dumps = dict(found.ceph)
    for kind, items in found.objects.items():
        dumps[kind.dump] = dump_of([items[key] for key in sorted(items)])
    if found.version is not None:
        dumps[VERSION] = found.version
    gaps = [Gap(what=what, reason=reason) for what, reason in found.gaps]
    if not dumps:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"no cluster data in {str(root)!r}",
            context=[f"{gap.what}: {gap.reason}" for gap in gaps[:5]]
            or [f"searched {found.files:,} files for Kubernetes objects and Ceph dumps"],
            hint="save data: ceph status --format json > status.json, or "
            "kubectl get storageclasses,nodes -o yaml > cluster.yaml",
        )
    if len(gaps) > _MOST_GAPS:
        more = f"{len(gaps) - _MOST_GAPS:,} more"
        gaps = [*gaps[:_MOST_GAPS], Gap(what=more, reason="not readable either")]
    if gaps and holds_kubernetes(dumps):
        dumps[GAPS] = gaps_dump(gaps)
    return Saved(dumps=dumps, gaps=tuple(gaps))


def _files(found: _Gathered) -> Iterator[Path]:
    """Yield the files with known names, sorted. Links are not followed."""

    def failed(error: OSError) -> None:
        if Path(error.filename) == found.root:
            raise error
        found.note(Path(error.filename), f"cannot be read: {error.strerror}")

    for folder, below, names in os.walk(found.root, onerror=failed):
        below.sort()
        for name in sorted(names):
            found.files += 1
            if found.files > MOST_FILES:
                found.note(found.root / folder, f"more than {MOST_FILES:,} files: not read further")
                return
            if name.endswith(_SUFFIXES) or _CEPH_ANSWER.fullmatch(name):
                yield Path(folder) / name


def _take(found: _Gathered, path: Path) -> None:
    try:
        if path.is_symlink():
            raise OSError(0, "it is a link", str(path))
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            limit = format_size(LARGEST_FILE_BYTES)
            raise OSError(0, f"it has {format_size(size)}; the maximum is {limit}", str(path))
        if found.taken_bytes + size > MOST_BYTES:
            raise OSError(0, f"more than {format_size(MOST_BYTES)} in total: not read", str(path))
        # What YAML costs is known for each of its documents.
        cost = LOG if path.suffix in (".yaml", ".yml") else DOCUMENT
        content = read_content(path, LARGEST_FILE_BYTES, cost)
    except OSError as error:
        found.note(path, error.strerror or "it cannot be read")
        return
    found.taken_bytes += len(content)
    answer = _ceph_name(path.name)
    if answer is not None:
        if answer not in found.ceph and found.keeps(path, len(content)):
            found.ceph[answer] = redact_document(content)
        return
    if path.name == GAPS:
        _take_gaps(found, path, content)
        return
    for document in parse_documents(
        content.decode("utf-8-sig", "replace"), as_json=path.suffix == ".json"
    ):
        if document.fault is not None:
            found.note(path, str(document.fault), document.fault.line)
            continue
        try:
            _take_object(found, path, document.value)
        except RecursionError:
            found.note(path, "nested too deeply", document.line)


def _ceph_name(name: str) -> str | None:
    """Return the dump that a file is, by its name; None if it is none."""
    if ceph_dumps.is_dump(name):
        return name
    matched = _CEPH_ANSWER.fullmatch(name)
    if matched is None:
        return None
    dump = ceph_dumps.dump_name(matched[1])
    return dump if ceph_dumps.is_dump(dump) else None


def _take_object(found: _Gathered, path: Path, value: Any) -> None:
    if not isinstance(value, dict):
        return
    version = value.get("serverVersion", value)
    if isinstance(version, dict) and isinstance(version.get("gitVersion"), str):
        found.version = json.dumps({"gitVersion": version["gitVersion"][:64]}).encode()
        return
    items = value.get("items")
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        # The items of a `NodeList` may omit their kind.
        inherited = {
            "apiVersion": value.get("apiVersion"),
            "kind": str(value["kind"]).removesuffix("List"),
        }
        for item in items:
            if isinstance(item, dict):
                _take_object(found, path, {**inherited, **item})
        return
    kind = find_kind(str(value.get("apiVersion", "")), str(value.get("kind", "")))
    if kind is None or not is_kept(kind, value):
        return
    name = object_name(Part("", value))
    kept = found.objects.setdefault(kind, {})
    if name not in kept or _revision(kept[name]) < _revision(value):
        cleaned = clean_object(value)
        if found.keeps(path, _DECODED * len(dump_of([cleaned]))):
            kept[name] = cleaned


def _revision(value: dict[str, Any]) -> int:
    """Return the version of an object; the latest copy is kept."""
    try:
        return Part("", value).at("metadata", "resourceVersion").integer or 0
    except Malformed:
        return 0


def _take_gaps(found: _Gathered, path: Path, content: bytes) -> None:
    """Take the gaps of the original capture."""
    try:
        for gap in json.loads(content):
            found.gaps.setdefault((str(gap["what"]), str(gap["reason"])))
    except (ValueError, TypeError, KeyError, RecursionError):
        found.note(path, "not a list of gaps")
