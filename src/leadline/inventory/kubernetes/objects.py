"""The objects in a capture, and a way to read them that takes nothing for granted."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import read_content
from leadline.inventory.ceph import dumps as ceph_dumps
from leadline.inventory.kubernetes.kinds import (
    DUMP_NAMES,
    GAPS,
    VERSION,
    ObjectKind,
    config_map_names,
    find_kind,
    holds_kubernetes,
    is_storage_workload,
    parse_quantity,
)
from leadline.inventory.kubernetes.models import Gap, sound
from leadline.inventory.redaction import REDACTED, redact, redact_dump, secret_name
from leadline.text import visible
from leadline.units import format_size

Dumps = Mapping[str, bytes]
Model = TypeVar("Model")


class Malformed(Exception):
    """A part of an object is not what the kind's schema has there."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an object that knows where it is. What is missing or null has the value None; what
    is there and is not what it should be raises Malformed."""

    path: str
    value: Any

    def at(self, *keys: str) -> Part:
        """A member, or a member of a member."""
        found = self
        for key in keys:
            if found.value is None:
                return Part(f"{found.path}.{key}".lstrip("."), None)
            if not isinstance(found.value, dict):
                raise found.wrong("an object")
            found = Part(f"{found.path}.{key}".lstrip("."), found.value.get(key))
        return found

    def members(self) -> Iterator[tuple[str, Part]]:
        """Members of an object; none where it is missing."""
        if self.value is None:
            return
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        for key, value in self.value.items():
            yield sound(str(key)), Part(f"{self.path}.{key}", value)

    def elements(self) -> Iterator[Part]:
        """Elements of a list; none where it is missing."""
        if self.value is None:
            return
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        for number, value in enumerate(self.value):
            yield Part(f"{self.path}[{number}]", value)

    @property
    def there(self) -> bool:
        return self.value is not None

    @property
    def text(self) -> str | None:
        """Text, or a number or a truth value as text: YAML does not tell `"1"` from `1`."""
        if self.value is None:
            return None
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, str | int | float):
            return sound(str(self.value))
        raise self.wrong("text")

    @property
    def word(self) -> str:
        """Text; empty where there is none."""
        return self.text or ""

    @property
    def integer(self) -> int | None:
        text = self.text
        if text is None:
            return None
        try:
            return int(text)
        except ValueError as error:
            raise self.wrong("a whole number") from error

    @property
    def flag(self) -> bool | None:
        text = self.text
        if text is None:
            return None
        if text.lower() not in ("true", "false"):
            raise self.wrong("true or false")
        return text.lower() == "true"

    @property
    def on(self) -> bool:
        """A switch, off where it is missing."""
        return bool(self.flag)

    @property
    def quantity(self) -> float | None:
        """`16Gi` as bytes, `500m` as 0.5."""
        text = self.text
        if text is None:
            return None
        number = parse_quantity(text)
        if number is None:
            raise self.wrong("a quantity")
        return number

    @property
    def size_bytes(self) -> int | None:
        number = self.quantity
        return None if number is None else int(number)

    def texts(self) -> tuple[str, ...]:
        return tuple(one.word for one in self.elements())

    def wrong(self, expected: str) -> Malformed:
        return Malformed(f"{visible(self.path)} is not {expected}")


@dataclass(slots=True)
class Objects:
    """Objects by kind, and what could not be read of them."""

    by_kind: dict[ObjectKind, list[Part]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def read(self, kind: ObjectKind, make: Callable[[Part], Model]) -> tuple[Model, ...]:
        """A model of each object of a kind, in the order of namespace and name; an object that is
        not as its schema has it becomes a gap."""
        found = []
        for item in self.by_kind.get(kind, ()):
            try:
                found.append(make(item))
            except Malformed as error:
                self.note(f"{kind.kind} {named(item)}", str(error))
        return tuple(found)

    def note(self, what: str, reason: str) -> None:
        self.gaps.append(Gap(what=what, reason=reason))


def named(item: Part) -> str:
    """`NAMESPACE/NAME`, or `NAME`."""
    try:
        name, namespace = item.at("metadata", "name").word, item.at("metadata", "namespace").word
    except Malformed:
        return "without a name"
    return visible(f"{namespace}/{name}" if namespace else name)


def objects_in(dumps: Dumps) -> Objects:
    """The objects of a capture. A dump that is damaged is told as a gap."""
    found = Objects()
    for name in sorted(dumps):
        if not name.endswith(".json") or name == GAPS:
            continue
        for item in items_of(found, name, dumps[name]):
            kind = find_kind(str(item.get("apiVersion", "")), str(item.get("kind", "")))
            if kind is not None and kind.dump == name:
                found.by_kind.setdefault(kind, []).append(Part("", item))
    for items in found.by_kind.values():
        items.sort(key=named)
    if GAPS in dumps:
        found.gaps += _told(found, dumps[GAPS])
    return found


def items_of(found: Objects, name: str, content: bytes) -> list[dict[str, Any]]:
    """The `items` of a dump; none of a dump of another kind."""
    if name in DUMP_NAMES - {VERSION, GAPS}:
        decoded = decode(found, name, content)
        items = decoded.get("items") if isinstance(decoded, dict) else None
        if isinstance(items, list):
            return [one for one in items if isinstance(one, dict)]
        if decoded is not None:
            found.note(name, "it is no list of objects")
    return []


def decode(found: Objects, name: str, content: bytes) -> Any:
    """The JSON of a dump; None, and a gap, where it is damaged."""
    try:
        return json.loads(content)
    except RecursionError:
        found.note(name, "it is nested too deeply")
    except ValueError as error:
        line = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
        found.note(name, f"{line}it is no JSON")
    return None


def _told(found: Objects, content: bytes) -> list[Gap]:
    decoded = decode(found, GAPS, content)
    told = []
    for one in decoded if isinstance(decoded, list) else ():
        if isinstance(one, dict):
            told.append(Gap(what=str(one.get("what", "")), reason=str(one.get("reason", ""))))
    return told


def dump_of(items: list[dict[str, object]]) -> bytes:
    """The dump that holds objects."""
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    return json.dumps(listed, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")


def gaps_dump(gaps: list[Gap]) -> bytes:
    """The dump that says what could not be seen."""
    return json.dumps([{"what": one.what, "reason": one.reason} for one in gaps]).encode()


# Takes out of an object what is secret, and what is of no use and large, before any of it is
# kept.
#  What is secret is found by the rules of `inventory.redaction`, which know settings by their
# names. Two things differ in Kubernetes: `key` is also what a label of a taint or a selector is
# called, and annotations may hold a whole object again (`last-applied-configuration`), so that
# few of them stay.

_ANNOTATIONS = frozenset(
    {
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storageclass.kubevirt.io/is-default-virt-class",
    }
)
_METADATA = ("name", "namespace", "uid", "labels", "generation", "resourceVersion")
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# What stands beside a `key` that is a label's name: in taints, tolerations and selectors.
_BESIDE_KEY = frozenset(
    {"key", "operator", "values", "value", "effect", "timeAdded", "tolerationSeconds"}
)
_PLACEHOLDER = "leadline:label"
# Of a Node: most of its size, and what is on it rather than what it is.
_DROPPED_STATUS = {"Node": ("images", "volumesInUse", "volumesAttached", "daemonEndpoints")}
# Of what runs: environments and scripts may hold anything, and none of it is asked for.
_CONTAINER = ("name", "image", "args", "resources")


def cleaned(item: dict[str, Any]) -> dict[str, Any]:
    """An object without secrets, histories and what other programs noted beside it. Raises
    RecursionError for one that is nested beyond all sense."""
    kept: dict[str, Any] = {
        key: value for key, value in item.items() if key not in ("metadata", "status", "data")
    }
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = _metadata(metadata)
    status = item.get("status")
    if isinstance(status, dict):
        dropped = _DROPPED_STATUS.get(str(item.get("kind")), ())
        kept["status"] = {key: value for key, value in status.items() if key not in dropped}
    if item.get("kind") in ("DaemonSet", "Deployment"):
        kept["spec"] = _workload(item.get("spec"))
    clean: dict[str, Any] = _restored(redact(_set_aside(kept)))
    if "data" in item:
        clean["data"] = _texts(item["data"])
    if item.get("kind") == "Setting" and secret_name(str(kept.get("metadata", {}).get("name"))):
        clean["value"] = REDACTED
    return clean


def worth_keeping(kind: ObjectKind, item: dict[str, Any]) -> bool:
    """Of config maps those that are known, of what runs what makes volumes, of namespaces the one
    that tells clusters apart."""
    metadata = item.get("metadata")
    name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    if kind is ObjectKind.NAMESPACE:
        return name == "kube-system"
    if kind is ObjectKind.CONFIG_MAP:
        return name in config_map_names()
    if kind in (ObjectKind.DAEMON_SET, ObjectKind.DEPLOYMENT):
        containers = _workload(item.get("spec")).get("template", {}).get("spec", {})
        images = [str(one.get("image", "")) for one in containers.get("containers", ())]
        return is_storage_workload(name, images)
    return True


def _metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {key: metadata[key] for key in _METADATA if key in metadata}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        named = {key: value for key, value in annotations.items() if key in _ANNOTATIONS}
        if named:
            kept["annotations"] = named
    return kept


def _workload(spec: Any) -> dict[str, Any]:
    """Which containers with which arguments and resources, and where."""
    try:
        pod = spec["template"]["spec"]
        containers = [
            {key: one[key] for key in _CONTAINER if key in one} for one in pod["containers"]
        ]
    except (KeyError, TypeError):
        return {}
    chosen = {key: pod[key] for key in ("hostNetwork", "nodeSelector") if key in pod}
    template = {"spec": {"containers": containers, **chosen}}
    replicas = {"replicas": spec["replicas"]} if "replicas" in spec else {}
    return {**replicas, "template": template}


def _texts(contents: Any) -> Any:
    """The files in a ConfigMap, each redacted as what it is: JSON, or lines of text."""
    if not isinstance(contents, dict):
        return contents
    return {
        key: redact_dump(value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
        if isinstance(value, str)
        else value
        for key, value in contents.items()
    }


def _set_aside(value: Any) -> Any:
    """`key` of taints and selectors under a name that nobody takes for a secret's."""
    if isinstance(value, list):
        return [_set_aside(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _set_aside(one) for key, one in value.items()}
    label = value.get("key")
    if (
        isinstance(label, str)
        and len(value) > 1
        and _BESIDE_KEY.issuperset(value)
        and _LABEL_KEY.fullmatch(label)
    ):
        found[_PLACEHOLDER] = found.pop("key")
    return found


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {"key" if key == _PLACEHOLDER else key: _restored(one) for key, one in value.items()}


# Objects in text that people saved: YAML of several documents, or JSON.
#  A file may be a stranger's: aliases are refused (they are how a small file grows to fill the
# memory), depth is bounded, and only plain values are made.

# An object of a real cluster has some 20 levels.
_DEEPEST = 100
_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)


# Parsing takes a hundred times as long as looking whether it is worth it: pods are most of what is
# saved of a cluster, and each names the kind of its owner.
@functools.cache
def _wanted_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of text with an object of a known kind: anywhere, at a line's start."""
    names = "|".join(sorted({kind.kind for kind in ObjectKind}))
    kind = r"kind[\"']?\s*:\s*[\"']?"
    anywhere = re.compile(rf"{kind}(?:{names})(?:List)?\b|gitVersion")
    line_start = rf"^(?:[\"']?{kind}(?:List|(?:{names})(?:List)?)\b|serverVersion:|gitVersion:)"
    return anywhere, re.compile(line_start, re.MULTILINE)


class Unreadable(Exception):
    """Text that is no object; `line` counts from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file: what it holds, or why it cannot be read. `line` is its first."""

    line: int
    value: Any = None
    fault: Unreadable | None = None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain values as Kubernetes reads them: no dates, no numbers to the base of 60."""


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


def documents(text: str, *, as_json: bool) -> Iterator[Document]:
    """The documents of a file that may hold objects of a kind that is read. A damaged one does not
    hide those before and behind it."""
    if as_json:
        if _wanted_patterns()[0].search(text):
            yield _json(text)
        return
    line = 1
    for part in _SEPARATOR.split(text):
        if _worth_parsing(part):
            yield _yaml(part, line)
        line += part.count("\n")


def _worth_parsing(text: str) -> bool:
    if not _wanted_patterns()[0].search(text):
        return False
    return text.lstrip()[:1] in ("{", "[") or _wanted_patterns()[1].search(text) is not None


def _json(text: str) -> Document:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return Document(line=1, fault=Unreadable(f"no JSON: {error.msg}", error.lineno))
    except (ValueError, RecursionError):
        return Document(line=1, fault=Unreadable("no JSON that is taken", 1))
    if _deeper(value, _DEEPEST):
        return Document(line=1, fault=Unreadable("nested too deeply", 1))
    return Document(line=1, value=value)


def _deeper(value: Any, limit: int) -> bool:
    """Whether lists and objects are nested deeper than `limit`."""
    level: list[Any] = [value]
    for _ in range(limit):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _yaml(text: str, first: int) -> Document:
    try:
        _check(text, first)
        return Document(line=first, value=yaml.load(text, Loader=_Loader))
    except Unreadable as fault:
        return Document(line=first, fault=fault)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = first + (mark.line if mark else 0)
        return Document(line=first, fault=Unreadable(f"no YAML: {problem}", line))
    except (ValueError, RecursionError) as error:
        return Document(line=first, fault=Unreadable(f"no YAML that is taken: {error}", first))


def _check(text: str, first: int) -> None:
    """Looks at the events before anything is built of them."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = first + (event.start_mark.line if event.start_mark else 0)
        if isinstance(event, yaml.AliasEvent):
            raise Unreadable("aliases are not taken", line)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise Unreadable("nested too deeply", line)


# Reads a folder that somebody saved: a must-gather, `kubectl get -o yaml`, our own dumps.
#  Everything becomes the same capture: one dump a kind, the answers of Ceph by their names, and
# what could not be read as gaps.

# A must-gather of a large cluster has some ten thousand files of a few KiB; the list of a thousand
# nodes has some 20 MiB.
MOST_FILES = 200_000
LARGEST_FILE_BYTES = 64 << 20
MOST_BYTES = 1 << 30
# Hundreds of damaged files are one fact; the first ones say which.
_MOST_GAPS = 50
_SUFFIXES = (".yaml", ".yml", ".json")
# As must-gather of OpenShift Data Foundation calls the answers of Ceph.
_CEPH_ANSWER = re.compile(r"ceph_([a-z_-]+?)_--format[_=-]json(?:-pretty)?(?:\.json)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a folder holds: dumps by name, redacted as live ones are. `gaps` are what could not be
    read; where there are objects of Kubernetes they are among the dumps too."""

    dumps: dict[str, bytes]
    gaps: tuple[Gap, ...]


@dataclass(slots=True)
class _Gathered:
    """What was found so far. `objects` is by kind, then by namespace and name."""

    root: Path
    objects: dict[ObjectKind, dict[str, dict[str, Any]]] = field(default_factory=dict)
    ceph: dict[str, bytes] = field(default_factory=dict)
    version: bytes | None = None
    gaps: dict[tuple[str, str], None] = field(default_factory=dict)
    files: int = 0
    taken_bytes: int = 0

    def note(self, path: Path, reason: str, line: int | None = None) -> None:
        shown = str(path.relative_to(self.root))
        self.gaps.setdefault((f"{shown}:{line}" if line else shown, reason))


def read_folder(root: Path, option: str = "--from-dir") -> Saved:
    """Everything of clusters that is in a folder and below; `option` is what named it. Raises
    LeadlineError(`dumps-invalid`) where there is no such folder, or nothing in it is known."""
    found = _Gathered(root)
    try:
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
            f"there is nothing of a cluster in {str(root)!r}",
            context=[f"{one.what}: {one.reason}" for one in gaps[:5]]
            or [f"looked at {found.files:,} files for objects of Kubernetes and dumps of Ceph"],
            hint="save some: ceph status --format json > status.json, or "
            "kubectl get storageclasses,nodes -o yaml > cluster.yaml",
        )
    if len(gaps) > _MOST_GAPS:
        more = f"{len(gaps) - _MOST_GAPS:,} more"
        gaps = [*gaps[:_MOST_GAPS], Gap(what=more, reason="could not be read either")]
    if gaps and holds_kubernetes(dumps):
        dumps[GAPS] = gaps_dump(gaps)
    return Saved(dumps=dumps, gaps=tuple(gaps))


def _files(found: _Gathered) -> Iterator[Path]:
    """Files that may hold something, always in the same order. Links are not followed."""

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
            raise OSError(0, f"it has {format_size(size)}, and {limit} are the most", str(path))
        if found.taken_bytes + size > MOST_BYTES:
            raise OSError(0, f"more than {format_size(MOST_BYTES)} in all: not read", str(path))
        content = read_content(path, LARGEST_FILE_BYTES)
    except OSError as error:
        found.note(path, error.strerror or "it cannot be read")
        return
    found.taken_bytes += len(content)
    answer = _ceph_name(path.name)
    if answer is not None:
        found.ceph.setdefault(answer, redact_dump(content))
        return
    if path.name == GAPS:
        _take_gaps(found, path, content)
        return
    for document in documents(
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
    """The dump that a file is by its name: our own, or that of must-gather."""
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
        # The items of a `NodeList` may leave out what they are.
        inherited = {
            "apiVersion": value.get("apiVersion"),
            "kind": str(value["kind"]).removesuffix("List"),
        }
        for item in items:
            if isinstance(item, dict):
                _take_object(found, path, {**inherited, **item})
        return
    kind = find_kind(str(value.get("apiVersion", "")), str(value.get("kind", "")))
    if kind is None or not worth_keeping(kind, value):
        return
    name = named(Part("", value))
    kept = found.objects.setdefault(kind, {})
    if name not in kept or _revision(kept[name]) < _revision(value):
        kept[name] = cleaned(value)


def _revision(value: dict[str, Any]) -> int:
    """The later of two copies of one object counts."""
    try:
        return Part("", value).at("metadata", "resourceVersion").integer or 0
    except Malformed:
        return 0


def _take_gaps(found: _Gathered, path: Path, content: bytes) -> None:
    """What could not be seen when the dumps were made."""
    try:
        for one in json.loads(content):
            found.gaps.setdefault((str(one["what"]), str(one["reason"])))
    except (ValueError, TypeError, KeyError, RecursionError):
        found.note(path, "it is no list of gaps")
