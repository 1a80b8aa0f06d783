"""What a run tells while it goes on; the command line shows it, tests record it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

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


# A request to stop, from Ctrl-C or a signal, seen by every loop that waits.


class StopRequest:
    """How often the user asked to stop: once is please, twice is now."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def requested(self) -> bool:
        return self.count > 0

    @property
    def impatient(self) -> bool:
        return self.count > 1

    def ask(self) -> None:
        self.count += 1


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """SIGINT, SIGTERM and SIGHUP become a request to stop while the block runs."""
    stop = StopRequest()

    def asked(number: int, frame: FrameType | None) -> None:
        stop.ask()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, asked) for number in signals}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
