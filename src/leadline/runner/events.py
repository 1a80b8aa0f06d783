"""What a run tells while it goes on; the command line shows it, tests record it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leadline.archive.records import Derived, TrialRecord
from leadline.plan.models import Cell, Plan, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """`asked_s` is what the trials to do ask of the engine; follow-ups come on top."""

    run: str
    plan: Plan
    to_do: int
    asked_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillStarted:
    target: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillEnded:
    target: str
    size_bytes: int
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """`number` of `count` in this session; `left_s` is what the rest of the run asks for."""

    trial: Trial
    cell: Cell
    number: int
    count: int
    asked_s: float
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialProgress:
    iops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    record: TrialRecord
    derived: Derived | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Something worth a line that is no result."""

    message: str


Event = (
    RunStarted | PrefillStarted | PrefillEnded | TrialStarted | TrialProgress | TrialEnded | Noted
)
Observer = Callable[[Event], None]
