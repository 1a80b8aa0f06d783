"""Records that Leadline writes during a trial: one JSON object per line, validated by pydantic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeVar

from pydantic import Discriminator, Field, TypeAdapter, ValidationError

from leadline.formats.result import FormatError

Line = TypeVar("Line")

# No counter of a kernel or a daemon is larger, and products of two still are finite.
_LARGEST: Final = 1 << 64
Count = Annotated[int, Field(strict=True, ge=0, lt=_LARGEST)]
Number = Annotated[float, Field(strict=True, ge=0, lt=_LARGEST)]
# A key of a JSON object that is a whole number.
CountKey = Annotated[int, Field(ge=0, lt=_LARGEST)]

# What pydantic adds to the path of an error that is no key of the record.
_NOT_A_KEY: Final = re.compile(r"<\w+>|\[key\]|constrained-\w+|tuple\[.*\]")


def _kind(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    return "<missed>" if "error" in entry else "<sample>"


# Selects the class of a line by the tags `<missed>` (the line has an `error`) and `<sample>`.
MISSED_OR_SAMPLE: Final = Discriminator(_kind)


def parse_lines(
    content: bytes, adapter: TypeAdapter[Line], record: str
) -> Iterator[tuple[int, Line]]:
    """Yield each line with its number. Raises FormatError with the line and the path."""
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            yield number, adapter.validate_json(line)
        except ValidationError as error:
            raise _line_error(number, error.errors(include_url=False)[0], record) from error


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
