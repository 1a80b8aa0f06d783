"""The record of a drill in a trial's folder: the marks of its event."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Tag, TypeAdapter

from leadline.formats.json_lines import (
    MISSED_OR_SAMPLE,
    WHEN_USED,
    Missed,
    Sample,
    parse_lines,
)


class Mark(StrEnum):
    """The steps of a drill. `begin`, `begun`: the event is begun, and in force. `end`, `ended`: it
    is undone; a host that was added stays. `whole`: from here on all OSDs and PGs of a Ceph cluster
    were as before."""

    BEGIN = "begin"
    BEGUN = "begun"
    END = "end"
    ENDED = "ended"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillMark(Sample):
    """A mark of a drill, a line of `drill.jsonl`."""

    mark: Mark


_LINE: Final[TypeAdapter[DrillMark | Missed]] = TypeAdapter(
    Annotated[
        Annotated[DrillMark, Tag("<sample>")] | Annotated[Missed, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
)


def parse_drill(content: bytes) -> tuple[DrillMark | Missed, ...]:
    """Parse a `drill.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _LINE, "the record of a drill"))
