"""The readings of a guard's limits during a session: one JSON object per line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import ConfigDict, Field, Tag, TypeAdapter

from leadline.formats.json_lines import MISSED_OR_SAMPLE, WHEN_USED, Missed, Sample, parse_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReading(Sample):
    """A reading of a limit: `text` as the system gave it, `value` where it is a finite number, the
    `labels` of the series. `trial` is the one that ran, empty between trials."""

    __pydantic_config__ = WHEN_USED

    limit: str
    trial: str = ""
    text: str
    value: float | None = None
    crossed: bool
    labels: Annotated[dict[str, str], Field(default_factory=dict)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedReading(Missed):
    """A reading that failed."""

    __pydantic_config__ = ConfigDict(defer_build=True)

    limit: str
    trial: str = ""


_LINES: Final = TypeAdapter[GuardReading | MissedReading](
    Annotated[
        Annotated[GuardReading, Tag("<sample>")] | Annotated[MissedReading, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
)


def parse_guard_readings(content: bytes) -> tuple[GuardReading | MissedReading, ...]:
    """All readings, in the order of their time. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _LINES, "the guard's readings"))
