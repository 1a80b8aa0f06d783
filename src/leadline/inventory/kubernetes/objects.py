"""The objects in a capture, and a way to read them that takes nothing for granted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leadline.inventory.kubernetes.kinds import DUMP_NAMES, GAPS, VERSION, Kind, kind_of
from leadline.inventory.kubernetes.models import Gap, sound
from leadline.inventory.kubernetes.quantities import parse_quantity
from leadline.visible import visible

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

    by_kind: dict[Kind, list[Part]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def read(self, kind: Kind, make: Callable[[Part], Model]) -> tuple[Model, ...]:
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
            kind = kind_of(str(item.get("apiVersion", "")), str(item.get("kind", "")))
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
