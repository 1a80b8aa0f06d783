"""For verbs that change a system in steps: what goes on, and what a signal does."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from leadline import errors
from leadline.errors import LeadlineError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stopped(KeyboardInterrupt):
    """A signal asked us to stop."""


@contextmanager
def stopping(told: str) -> Iterator[None]:
    """Inside the block the first signal raises, and undoing is then let finish; `told` says what
    became of what was begun. Raises LeadlineError(`interrupted`) behind the block."""

    def stop(number: int, frame: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        raise _Stopped(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    except _Stopped as stopped:
        raise LeadlineError(errors.INTERRUPTED, f"stopped by {stopped}; {told}") from stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def steps(title: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """What goes on: a line that changes on a terminal, lines on a pipe."""
    if quiet:
        yield lambda what: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status(title) as waiting:
            yield lambda what: waiting.update(escape(what))
    else:
        yield lambda what: click.echo(f"{title}: {what}", err=True)
