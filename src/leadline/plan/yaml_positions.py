"""YAML with the line of each key, so that a fault can name its line.

It accepts plain scalars, lists and mappings alone. Anchors and aliases, by which a small file can
fill the memory, and duplicate keys are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from leadline.errors import ErrorKind, LeadlineError
from leadline.files import read_small_text

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Positioned:
    """`value` is plain data; `lines` maps a key path to its line, counted from 1."""

    value: object
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """The line of `path`, or of its nearest ancestor in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class YamlFault(Exception):
    """Not YAML, or YAML that a plan does not accept; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class _Loader(yaml.SafeLoader):
    """SafeLoader without the special scalars of YAML 1.1: `1:30`, `010` and dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(("timestamp", "int"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SCALARS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str")
)
# PyYAML's time grows with the square of the depth; plans are much flatter.
_DEEPEST = 100
_INTEGER = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))


def load_positioned(text: str) -> Positioned:
    """Parse one YAML document. Raises YamlFault with the line."""
    loader: _Loader | None = None
    depth = 0
    try:
        loader = _Loader(text)
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise YamlFault("anchors and aliases are not taken", line)
            starts = isinstance(event, yaml.CollectionStartEvent)
            depth += starts - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise YamlFault("nested too deeply", line)
        node = loader.get_single_node()
        lines: dict[KeyPath, int] = {}
        value = _plain(loader, node, (), lines) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise YamlFault(f"not YAML: {problem}", mark.line + 1 if mark else 1) from error
    finally:
        if loader is not None:
            loader.dispose()
    return Positioned(value=value, lines=lines)


def read_positioned(path: Path, kind: ErrorKind, name: str, hint: str) -> Positioned:
    """Read a YAML file that a message calls `name`. Raises LeadlineError of this kind."""
    try:
        return load_positioned(read_small_text(path))
    except YamlFault as fault:
        raise LeadlineError(
            kind,
            f"{name} {str(path)!r} is not valid YAML",
            context=[f"{path}:{fault.line}: {fault}"],
            hint=hint,
        ) from fault
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LeadlineError(
            kind, f"{name} {str(path)!r} cannot be read: {reason}", hint=hint
        ) from error


def _plain(loader: _Loader, node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int]) -> object:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlFault("a key must be a plain word", line)
            key = str(key_node.value)
            if key in mapping:
                raise YamlFault(f"the key {key!r} is given twice", line)
            lines[(*path, key)] = line
            mapping[key] = _plain(loader, value_node, (*path, key), lines)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [
            _plain(loader, item, (*path, index), lines) for index, item in enumerate(node.value)
        ]
    line = node.start_mark.line + 1
    if node.tag not in _SCALARS:
        raise YamlFault(f"the tag {node.tag!r} is not taken", line)
    try:
        scalar: object = loader.construct_object(node)
    except (ValueError, LookupError) as error:
        # `!!bool x`, or more digits than an integer may have.
        kind = node.tag.rpartition(":")[2]
        raise YamlFault(f"{str(node.value)[:40]!r} is no {kind} that is taken", line) from error
    return scalar
