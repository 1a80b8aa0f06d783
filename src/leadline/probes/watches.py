"""What watches of a trial have in common, and several of them as one."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from leadline.errors import LeadlineError
from leadline.probes.lines import Lines

Line = Mapping[str, Any]


class Watch(ABC):
    """Records in a trial's folder from `start` to `stop`; neither raises."""

    @abstractmethod
    def start(self) -> None:
        """Begin, without waiting for what is asked first. To be called once."""

    @abstractmethod
    def stop(self) -> None:
        """Ask a last time and end. May be called twice, and without `start`."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class AskingWatch(Watch):
    """Asks for samples at `start`, at `stop`, and every `period_s` between, by a thread.

    Nothing that goes wrong is raised: it is a line. `stop` returns within `patience_s`; after it
    nothing more is written. What is asked must be the watch's own connection: commands of others
    would be waited for.
    """

    def __init__(self, path: Path, *, period_s: float, patience_s: float) -> None:
        self._lines = Lines(path)
        self._period_s = period_s
        self._patience_s = patience_s
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _sample(self, *, end: bool) -> Line | Sequence[Line] | None:
        """One sample, the first and the last of them with `end`: a line or several of one moment;
        None where there is nothing to be kept. May raise anything."""

    def _ended(self) -> None:
        """Let go of what the samples needed, behind the last one. May raise nothing."""

    def start(self) -> None:
        if not self._lines.open():
            return  # the trial cannot write its own files either, and says so
        # A daemon, so that a command that never comes back does not keep the program alive.
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None or self._ending.is_set():
            return
        asked = self._lines.stamp()
        self._ending.set()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            reason = f"no answer within {self._patience_s:g} s of the end of the watch"
            self._lines.write({**asked, "error": reason})
        self._lines.close()

    def _run(self) -> None:
        due = time.monotonic()
        first = True
        while True:
            last = self._ending.is_set()
            self._keep(end=first or last)
            if last:
                self._ended()
                return
            first = False
            # On the beat of the clock, leaving out beats that a slow answer passed.
            due = max(due + self._period_s, time.monotonic())
            self._ending.wait(due - time.monotonic())

    def _keep(self, *, end: bool) -> None:
        stamp = self._lines.stamp()
        line: Line | Sequence[Line] | None
        try:
            line = self._sample(end=end)
        # Whatever it is, it must not reach the trial; readers take it for a missed sample.
        except Exception as error:
            line = {"error": error.fact if isinstance(error, LeadlineError) else repr(error)}
        for one in (line,) if isinstance(line, Mapping) else line or ():
            self._lines.write({**stamp, **one})


class Watches:
    """Begun in their order, ended the other way round."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches
        for one in watches:
            one.start()

    def stop(self) -> None:
        for one in reversed(self._watches):
            one.stop()
