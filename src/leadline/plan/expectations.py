"""What the author of a plan expects of a comparison, declared before the run."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leadline.metrics import METRIC_WORDS, STAGES, Metric, Op

_FORM = re.compile(
    r"(?P<figure>\S.*?)\s+(?P<direction>better|worse|same)\s+(?:in|on|with)\s+"
    r"(?P<system>\S.*?)(?:\s+by\s+(?:at\s+least\s+)?(?P<at_least>[0-9.]+\s*%))?\s*"
)
_OPS = {
    "read": Op.READ,
    "reads": Op.READ,
    "write": Op.WRITE,
    "writes": Op.WRITE,
    "trim": Op.TRIM,
    "trims": Op.TRIM,
    "total": Op.TOTAL,
    "mixed": Op.TOTAL,
    **dict.fromkeys(("sync", "syncs", "fsyncs"), Op.SYNC),
    **dict.fromkeys(("transaction", "transactions"), Op.TRANSACTION),
    **{stage.value: stage for stage in STAGES},
}
_EXAMPLE = "such as 'writes worse in multi-zone' or 'read p99 better in new by 20 %'"


class Expectation(BaseModel):
    """A direction of change of some figures on one of two systems.

    `figure` is written `[WORKLOAD[@LEVEL]] [reads|writes|...] [METRIC]`; without an operation all
    operations, without a metric the rates. `system` is the name of a cluster, target, label or run.
    `at_least` is the least change as a share.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    figure: str = Field(min_length=1, max_length=300)
    direction: Literal["better", "worse", "same"]
    system: str = Field(min_length=1, max_length=300)
    at_least: float | None = Field(default=None, gt=0, le=1000)

    @model_validator(mode="before")
    @classmethod
    def _sentence(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = _FORM.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"is not an expectation, {_EXAMPLE}")
        return {key: text for key, text in found.groupdict().items() if text}

    @field_validator("at_least", mode="before")
    @classmethod
    def _percent(cls, value: object) -> object:
        if isinstance(value, str) and value.rstrip().endswith("%"):
            return float(value.rstrip().rstrip("%")) / 100
        return value

    @model_validator(mode="after")
    def _size_of_a_change(self) -> Self:
        if self.direction == "same" and self.at_least is not None:
            raise ValueError("'same' has no size: the equivalence margin is that of the comparison")
        _ = self.selection
        return self

    @property
    def selection(self) -> tuple[str, str, Op | None, Metric | None]:
        """Workload and level (empty: any), operation and metric (None: any, the rates).

        Raises ValueError for several operations or metrics.
        """
        words = [word for word in self.figure.split() if word.lower() != "of"]
        ops = [word for word in words if word.lower() in _OPS]
        metrics = [word for word in words if word.lower() in METRIC_WORDS]
        if len(ops) > 1 or len(metrics) > 1:
            raise ValueError(f"{self.figure!r} names several operations or metrics, {_EXAMPLE}")
        rest = " ".join(word for word in words if word not in (*ops, *metrics))
        workload, _, level = rest.partition("@")
        return (
            workload,
            level,
            _OPS[ops[0].lower()] if ops else None,
            METRIC_WORDS[metrics[0].lower()] if metrics else None,
        )

    @property
    def text(self) -> str:
        """`writes worse in multi-zone by at least 20 %`."""
        size = "" if self.at_least is None else f" by at least {100 * self.at_least:g} %"
        return f"{self.figure} {self.direction} in {self.system}{size}"
