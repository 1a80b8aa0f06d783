"""A fault in a file that a person wrote: where it is, what is wrong, what may be meant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a plan. `line` is None where the plan came from the command line."""

    file: str
    line: int | None
    key: str
    message: str
    nearest: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        near = f" (did you mean {self.nearest!r}?)" if self.nearest else ""
        return f"{place}: {self.key}: {self.message}{near}"
