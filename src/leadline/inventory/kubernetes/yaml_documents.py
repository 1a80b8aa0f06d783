"""Objects in text that people saved: YAML of several documents, or JSON.

A file may be a stranger's: aliases are refused (they are how a small file grows to fill the
memory), depth is bounded, and only plain values are made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from leadline.inventory.kubernetes.kinds import KINDS

# An object of a real cluster has some 20 levels.
_DEEPEST = 100
_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
# Parsing takes a hundred times as long as looking whether it is worth it: pods are most of what is
# saved of a cluster, and each names the kind of its owner.
_KINDS = "|".join(sorted({one.kind for one in KINDS}))
_WANTED = re.compile(rf"kind[\"']?\s*:\s*[\"']?(?:{_KINDS})(?:List)?\b|gitVersion")
_ON_TOP = re.compile(
    rf"^(?:[\"']?kind[\"']?\s*:\s*[\"']?(?:List|(?:{_KINDS})(?:List)?)\b|serverVersion:|gitVersion:)",
    re.MULTILINE,
)


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
        if _WANTED.search(text):
            yield _json(text)
        return
    line = 1
    for part in _SEPARATOR.split(text):
        if _worth_parsing(part):
            yield _yaml(part, line)
        line += part.count("\n")


def _worth_parsing(text: str) -> bool:
    if not _WANTED.search(text):
        return False
    return text.lstrip()[:1] in ("{", "[") or _ON_TOP.search(text) is not None


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
