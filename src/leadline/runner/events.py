"""Events of a session, and the request to stop it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from leadline.archive.records import Derived, Look, TrialRecord
from leadline.plan.models import Cell, Plan, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """`asked_s` is the I/O time of the trials to do, without follow-ups."""

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
    """`number` of `count` in this session; `left_s` is the I/O time of the trials after it."""

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
class Looked:
    """A look at the comparisons of the run; `left_s` is the I/O time of all rounds after it, if
    nothing else is decided."""

    look: Look
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A message that is no result."""

    message: str


Event = (
    RunStarted
    | PrefillStarted
    | PrefillEnded
    | TrialStarted
    | TrialProgress
    | TrialEnded
    | Looked
    | Noted
)
Observer = Callable[[Event], None]


class StopRequest:
    """How often the user asked to stop; every loop that waits checks it. Twice means at once."""

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


def stopping_signals() -> tuple[signal.Signals, ...]:
    """The signals by which users stop a verb. Under `nohup` the end of the terminal is none."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    asking = (signal.SIGINT, signal.SIGTERM)
    return asking if ignored else (*asking, signal.SIGHUP)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP into a request to stop while the block runs."""
    stop = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.ask()

    before = {number: signal.signal(number, ask) for number in stopping_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
