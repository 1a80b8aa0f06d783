"""Reads a folder that somebody saved: a must-gather, `kubectl get -o yaml`, our own dumps.

Everything becomes the same capture: one dump a kind, the answers of Ceph by their names, and what
could not be read as gaps.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory import ceph_dumps
from leadline.inventory.kubernetes import kinds
from leadline.inventory.kubernetes.cleaning import cleaned, worth_keeping
from leadline.inventory.kubernetes.kinds import Kind
from leadline.inventory.kubernetes.models import Gap
from leadline.inventory.kubernetes.objects import Malformed, Part, dump_of, gaps_dump, named
from leadline.inventory.kubernetes.yaml_documents import documents
from leadline.inventory.redaction import redact_dump
from leadline.regular_file import read_content
from leadline.units import format_size

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
    objects: dict[Kind, dict[str, dict[str, Any]]] = field(default_factory=dict)
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
        dumps[kinds.VERSION] = found.version
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
    if gaps and kinds.holds_kubernetes(dumps):
        dumps[kinds.GAPS] = gaps_dump(gaps)
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
    if path.name == kinds.GAPS:
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
    kind = kinds.kind_of(str(value.get("apiVersion", "")), str(value.get("kind", "")))
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
