"""Records that Leadline writes during a trial: one JSON object per line, validated by pydantic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Final, TypeVar

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, core_schema

from leadline.formats.result import FormatError

Line = TypeVar("Line")
Model = TypeVar("Model", bound=BaseModel)

# No counter of a kernel or a daemon is larger, and products of two still are finite.
_LARGEST: Final = 1 << 64
Count = Annotated[int, Field(strict=True, ge=0, lt=_LARGEST)]
Number = Annotated[float, Field(strict=True, ge=0, lt=_LARGEST)]
# A key of a JSON object that is a whole number.
CountKey = Annotated[int, Field(ge=0, lt=_LARGEST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A line: its time in ISO 8601 (UTC), and seconds since the watch began."""

    at: str
    elapsed_s: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed(Sample):
    """A sample that failed, and the reason."""

    reason: Annotated[str, Field(alias="error")]


@dataclass(frozen=True, slots=True)
class Converted:
    """Annotates a field of a record that is validated as `stored`, and then converted."""

    stored: Any
    convert: Callable[[Any], object]

    def __get_pydantic_core_schema__(
        self, _target: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        stored = handler.generate_schema(self.stored)
        return core_schema.no_info_after_validator_function(self.convert, stored)


def counts(least: int) -> object:
    """Make the type of a list of at least so many counts."""
    return Annotated[list[Count], Field(min_length=least)]


def in_order(kind: Any) -> Converted:
    """Read a dataclass from a list of counts in the order of its fields; more are ignored, and
    fields with a default may lack theirs."""
    names = [field.name for field in fields(kind)]
    least = sum(field.default is MISSING for field in fields(kind))

    def convert(values: Sequence[int]) -> object:
        return kind(**dict(zip(names, values, strict=False)))

    return Converted(counts(least), convert)


# What pydantic adds to the path of an error that is no key of the record.
_NOT_A_KEY: Final = re.compile(r"<\w+>|\[key\]|constrained-\w+|tuple\[.*\]")


def _kind(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    return "<missed>" if "error" in entry else "<sample>"


# Selects the class of a line by the tags `<missed>` (the line has an `error`) and `<sample>`.
MISSED_OR_SAMPLE: Final = Discriminator(_kind)
# Of the lines of a record: a command reads few of the records.
WHEN_USED: Final = ConfigDict(defer_build=True)


def parse_lines(
    content: bytes, adapter: TypeAdapter[Line], record: str
) -> Iterator[tuple[int, Line]]:
    """Yield each line with its number. Raises FormatError with the line and the path."""
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            yield number, adapter.validate_json(line)
        except ValidationError as error:
            raise _line_error(number, error.errors(include_url=False)[0], record) from error


def load_json(content: bytes, start: int, end: int, what: str, *, open_end: bool = False) -> Any:
    """Parse the JSON between two places of a text. Raises FormatError with line and column:
    `truncated-result` where it ends too early or the text has an `open_end`."""
    try:
        return orjson.loads(content[start:end])
    except orjson.JSONDecodeError as error:
        cut = open_end or error.pos >= end - start - 1
        line = content.count(b"\n", 0, start) + error.lineno
        raise FormatError.unreadable(
            f"{what} is " + ("cut off" if cut else "not JSON"),
            f"line {line}, column {error.colno}: {error.msg}",
            cut=cut,
        ) from error


def parse_document(content: bytes, model: type[Model], document: str) -> Model:
    """Parse a JSON file. Raises FormatError with the path of the first fault."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise FormatError.unreadable(
            f"{document} is not understood: {place}: {first['msg']}"
        ) from error


def line_error(number: int, path: str, fact: str) -> FormatError:
    return FormatError.unreadable(f"line {number}{path}: {fact}")


def _line_error(number: int, first: Any, record: str) -> FormatError:
    if first["type"] == "json_invalid":
        return line_error(number, f" of {record}", f"not JSON: {first['ctx']['error']}")
    return line_error(number, format_path(first["loc"]), first["msg"])


def format_path(loc: tuple[str | int, ...]) -> str:
    """Format the location of a pydantic error: `.disks.sda[3]`."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}"
        for part in loc
        if isinstance(part, int) or not _NOT_A_KEY.fullmatch(part)
    )
