"""Faults of a plan or a lab description: where, what is wrong, and the nearest valid word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from leadline.errors import ErrorKind, LeadlineError
from leadline.plan.yaml_positions import KeyPath, Positioned


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. `line` is None where the value came from the command line."""

    file: str
    line: int | None
    key: str
    message: str
    nearest: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        near = f" (did you mean {self.nearest!r}?)" if self.nearest else ""
        return f"{place}: {self.key}: {self.message}{near}"


class InvalidDocument(LeadlineError):
    """A document with all its faults, in the order of their lines."""

    def __init__(self, kind: ErrorKind, name: str, faults: Iterable[Fault], hint: str) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.line or 0))
        count = len(self.faults)
        super().__init__(
            kind,
            f"{name} has {count} fault{'s' if count > 1 else ''}",
            context=[str(fault) for fault in self.faults],
            hint=hint,
        )


class Faults:
    """Collects the faults of a document, each once, with their lines where it is a file.

    `root` names the whole document; `options` are keys that an option of the command line set.
    """

    def __init__(self, source: str, document: Positioned | None, root: str) -> None:
        self.source = source
        self.document = document
        self.root = root
        self.options: dict[str, str] = {}
        # In the order of being found.
        self.found: dict[Fault, None] = {}

    def add(self, path: KeyPath, message: str, nearest: str | None = None) -> None:
        option = self.options.get(str(path[0])) if path else None
        line = self.document.line(path) if self.document and option is None else None
        fault = Fault(
            file="command line" if option else self.source,
            line=line,
            key=option or dotted(path) or self.root,
            message=message,
            nearest=nearest,
        )
        self.found[fault] = None


def dotted(path: KeyPath) -> str:
    """A key path as `workloads[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def error_sentence(detail: ErrorDetails) -> str:
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    if detail["type"] == "missing":
        return "is missing"
    if detail["type"] == "model_type":
        return "is no mapping of keys"
    message = detail["msg"]
    return message[0].lower() + message[1:]


def take_errors(
    error: ValidationError,
    faults: Faults,
    keys_at: Callable[[KeyPath], Iterable[str]],
    written: Callable[[Sequence[str | int]], KeyPath] = tuple,
) -> None:
    """Add pydantic's errors to the faults. `keys_at` lists the valid keys at a path, `written` is
    the path as the user wrote it."""
    for detail in error.errors():
        path = written(detail["loc"])
        value = detail.get("input")
        if detail["type"] == "extra_forbidden":
            key = str(path[-1])
            faults.add(path, f"unknown key {key!r}", nearest_word(key, keys_at(path[:-1])))
            continue
        expected = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
        hidden = detail["type"] in ("value_error", "missing") or isinstance(value, dict | list)
        shown = "" if hidden else f", got {value!r}"
        faults.add(path, error_sentence(detail) + shown, nearest_word(str(value), expected))
