"""What all parts of a plan have in common: they are frozen and refuse unknown keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f/]+$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def is_unset(value: object) -> bool:
    """Fields added to the archive's format 1 are left out where unset: earlier versions of Leadline
    refuse unknown fields."""
    return value is None


def is_empty(value: object) -> bool:
    """As `is_unset`, for collections and texts."""
    return not value
