"""The objects of a Kubernetes capture, and typed access to their parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leadline.inventory.host import Snapshot
from leadline.inventory.kubernetes.kinds import (
    DUMP_NAMES,
    GAPS,
    VERSION,
    ObjectKind,
    find_kind,
    parse_quantity,
)
from leadline.inventory.kubernetes.models import At, Gap, replace_surrogates

Dumps = Mapping[str, bytes]
Model = TypeVar("Model")
Built = TypeVar("Built", bound=Snapshot)


class Malformed(Exception):
    """A part of an object does not fit the schema of its kind."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an object, with its path.

    A missing or null part has the value None. A part of another type raises Malformed.
    """

    path: str
    value: Any

    def at(self, *keys: str) -> Part:
        """Return a member, or a member of a member."""
        found = self
        for key in keys:
            if found.value is None:
                return Part(f"{found.path}.{key}".lstrip("."), None)
            if not isinstance(found.value, dict):
                raise found.wrong("an object")
            found = Part(f"{found.path}.{key}".lstrip("."), found.value.get(key))
        return found

    def members(self) -> Iterator[tuple[str, Part]]:
        """Yield the members of an object; none if it is missing."""
        if self.value is None:
            return
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        for key, value in self.value.items():
            yield replace_surrogates(str(key)), Part(f"{self.path}.{key}", value)

    def elements(self) -> Iterator[Part]:
        """Yield the elements of a list; none if it is missing."""
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
        """Text, or a number or boolean as text: YAML does not distinguish `"1"` from `1`."""
        if self.value is None:
            return None
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, str | int | float):
            return replace_surrogates(str(self.value))
        raise self.wrong("text")

    @property
    def word(self) -> str:
        """Text; empty if it is missing."""
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
        """A boolean; false if it is missing."""
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
        return tuple(element.word for element in self.elements())

    def wrong(self, expected: str) -> Malformed:
        return Malformed(f"{self.path} is not {expected}")


# How a part is read into a field, by the field's type.
_READERS: Mapping[Any, Callable[[Part], object]] = {
    str: lambda part: part.word,
    bool: lambda part: part.on,
    bool | None: lambda part: part.flag,
    int | None: lambda part: part.integer,
    float | None: lambda part: part.quantity,
    tuple[str, ...]: Part.texts,
}


def build(model: type[Built], item: Part, /, **computed: Any) -> Built:
    """Build a model of an object: fields with `At` are read, the others are `computed`.

    Raises:
        Malformed: A part of the object has another type.
    """
    for name, declared in model.model_fields.items():
        for place in declared.metadata:
            if isinstance(place, At):
                part = item.at(*place.path.split("."))
                read = _READERS[declared.annotation]
                computed[name] = part.size_bytes if name.endswith("_bytes") else read(part)
    return model(**computed)


@dataclass(slots=True)
class Objects:
    """Objects by kind, and the gaps: what could not be read."""

    by_kind: dict[ObjectKind, list[Part]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def read(self, kind: ObjectKind, make: Callable[[Part], Model]) -> tuple[Model, ...]:
        """Return a model of each object of a kind, by namespace and name.

        An object that does not fit its schema becomes a gap.
        """
        found = []
        for item in self.by_kind.get(kind, ()):
            try:
                found.append(make(item))
            except Malformed as error:
                self.note(f"{kind.kind} {object_name(item)}", str(error))
        return tuple(found)

    def note(self, what: str, reason: str) -> None:
        self.gaps.append(Gap(what=what, reason=reason))


def object_name(item: Part) -> str:
    """Return `NAMESPACE/NAME`, or `NAME`."""
    try:
        name, namespace = item.at("metadata", "name").word, item.at("metadata", "namespace").word
    except Malformed:
        return "without a name"
    return f"{namespace}/{name}" if namespace else name


def read_objects(dumps: Dumps) -> Objects:
    """Return the objects of a capture. A damaged dump becomes a gap."""
    found = Objects()
    for name in sorted(dumps):
        if not name.endswith(".json") or name == GAPS:
            continue
        for item in parse_items(found, name, dumps[name]):
            kind = find_kind(str(item.get("apiVersion", "")), str(item.get("kind", "")))
            if kind is not None and kind.dump == name:
                found.by_kind.setdefault(kind, []).append(Part("", item))
    for items in found.by_kind.values():
        items.sort(key=object_name)
    if GAPS in dumps:
        found.gaps += _recorded_gaps(found, dumps[GAPS])
    return found


def parse_items(found: Objects, name: str, content: bytes) -> list[dict[str, Any]]:
    """Return the `items` of a dump; none for a dump of another kind."""
    if name in DUMP_NAMES - {VERSION, GAPS}:
        decoded = decode(found, name, content)
        items = decoded.get("items") if isinstance(decoded, dict) else None
        if isinstance(items, list):
            return [item for item in items if isinstance(item, dict)]
        if decoded is not None:
            found.note(name, "not a list of objects")
    return []


def decode(found: Objects, name: str, content: bytes) -> Any:
    """Return the JSON of a dump; None, and a gap, if it is damaged."""
    try:
        return json.loads(content)
    except RecursionError:
        found.note(name, "nested too deeply")
    except ValueError as error:
        line = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
        found.note(name, f"{line}not JSON")
    return None


def _recorded_gaps(found: Objects, content: bytes) -> list[Gap]:
    decoded = decode(found, GAPS, content)
    return [
        Gap(what=str(gap.get("what", "")), reason=str(gap.get("reason", "")))
        for gap in (decoded if isinstance(decoded, list) else ())
        if isinstance(gap, dict)
    ]


def dump_of(items: list[dict[str, object]]) -> bytes:
    """Return the dump that holds objects."""
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    return json.dumps(listed, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")


def gaps_dump(gaps: list[Gap]) -> bytes:
    """Return the dump of gaps."""
    return json.dumps([gap.model_dump() for gap in gaps]).encode()
