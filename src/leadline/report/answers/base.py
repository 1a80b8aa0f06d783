"""The base of every JSON answer for other programs."""

from __future__ import annotations

import json
import re
from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from leadline.text import is_hidden
from leadline.units import round_significant

# JSON itself escapes the control characters below DEL.
_ABOVE_ASCII = re.compile("[\x7f-\U0010ffff]")
# A line of indented JSON that holds a text ends in a quote, so a number at its end is no text.
_LONG_NUMBER = re.compile(r"(?m)(?<= )-?\d[\d.e+-]{12,}(?=,?$)")


class Output(BaseModel):
    """An answer or a part of one. Nested parts are read from the records that hold their fields."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        from_attributes=True,
        # A field with a default is always written, and the schema says so.
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def from_records(cls, *records: object, **fields: Any) -> Self:
        """Build an answer: each field from `fields`, else from the first record that has it."""
        for name in cls.model_fields:
            if name in fields or name == "schema_":
                continue
            holder = next((record for record in records if hasattr(record, name)), None)
            if holder is not None:
                fields[name] = getattr(holder, name)
        return cls(**fields)

    def to_json(self) -> str:
        """Return the answer as JSON, numbers rounded by `round_significant`, with hidden characters
        as `\\u202e`: the same text to a program, harmless to a terminal."""
        text = self.model_dump_json(by_alias=True, indent=2)
        text = _LONG_NUMBER.sub(_rounded, text)
        return _ABOVE_ASCII.sub(_escaped, text)


def _rounded(number: re.Match[str]) -> str:
    """Round a number with a fraction or an exponent; a whole number stays exact."""
    text = number[0]
    return text if text.lstrip("-").isdigit() else to_json(round_significant(float(text))).decode()


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if is_hidden(found[0]) else found[0]


class FindingOutput(Output):
    """Empty `target`, `workload`, `level`: the whole run. `evidence` holds numbers with units in
    their names."""

    code: str
    severity: str
    target: str
    workload: str
    level: str
    op: str | None
    trial: str | None
    evidence: dict[str, float]
    message: str
    remedy: str


class CellOutput(Output):
    """A part of the answer about a cell of the run's matrix."""

    target: str
    workload: str
    level: str
