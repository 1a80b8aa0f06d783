"""What the audit says of a trial, a cell or a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.metrics import Op


class Severity(StrEnum):
    """`error`: the number must not be used; `warning`: use it knowing this; `info`: context."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def order(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding of the audit, with its evidence.

    Empty `target`, `workload` or `level` means the whole run; `trial` is None where the finding
    concerns a cell; `op` is None where it concerns every operation. `evidence` holds only numbers,
    each named with its unit (`latency_mean_s`), so that other programs can check the arithmetic.
    `latency_only`: the finding concerns the latency metrics and leaves IOPS and bandwidth alone.
    """

    code: str
    severity: Severity
    target: str = ""
    workload: str = ""
    level: str = ""
    op: Op | None = None
    trial: str | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    message: str
    remedy: str
    latency_only: bool = False
