"""What every answer for programs is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Output(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
