"""The rule that ends a run when its comparisons are decided: `stop:` of a plan."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Stop(BaseModel):
    """When a run ends by its results: rates of the `baseline` are compared with those of each other
    target or cluster, with an equivalence margin of `within` as a share. Each cell has `first`
    trials, and then more in each round until it is decided, up to `max_repeats`, or decided by then
    with a probability below `futility` only; a round begins only if the trials then take
    `max_time_s` together at most (None: no limit)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    compare: Literal["target", "cluster"]
    baseline: str
    within: float = Field(gt=0, lt=1)
    first: int = Field(ge=2)
    max_repeats: int = Field(le=100)
    futility: float = Field(ge=0, lt=1)
    max_time_s: float | None = None
