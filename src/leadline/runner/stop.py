"""A request to stop, from Ctrl-C or a signal, seen by every loop that waits."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
