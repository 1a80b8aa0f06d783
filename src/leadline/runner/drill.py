"""The drill of a trial: its event begins and ends in a thread while the engine does I/O.

`drill.jsonl`: `{"at", "elapsed_s", "mark"}` in the order of `Mark`, and `{"at", "elapsed_s",
"error"}`. Whatever happens to the engine, the event is undone before the trial is over.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem
from leadline.errors import LeadlineError
from leadline.formats.drill import Mark
from leadline.plan.workload import Workload
from leadline.probes.watches.base import Lines
from leadline.runner.events import Noted, StopRequest
from leadline.runner.ports import Event, problem_from
from leadline.runner.prepared import RunRequest

# An OSD reports its PGs every 5 s (mgr_stats_period), the manager forwards that every 2 s: a state
# that holds for so long is not an old one.
_STEADY_S = 9.0
_LOOK_S = 1.0
# A longer wait is reported.
_SILENT_S = 1.0
# An engine that reports no rate has begun after so long, or has failed.
_FIRST_IO_S = 15.0


class TrialDrill:
    """The drill of one trial. `progress` gets the rates of the engine, `finish` its end."""

    def __init__(self, workload: Workload, run: RunRequest, target: str, folder: Path) -> None:
        assert workload.drill is not None
        self._drill = workload.drill
        self._ramp_s = workload.ramp_s
        self._event = run.events[target]
        self._run = run
        self._lines = Lines(folder / layout.DRILL)
        self._started = threading.Event()
        self._ended = threading.Event()
        self._problem: Problem | None = None
        self._defect: Exception | None = None
        self._begun = False
        self._thread = threading.Thread(target=self._carry, name="drill")

    def start(self) -> None:
        """Start the thread. Raises nothing: the trial reports a folder that cannot be written."""
        self._lines.open()
        self._thread.start()

    def progress(self, iops: float) -> None:
        """Take a rate of the engine: with the first one that is positive its seconds begin."""
        if iops > 0:
            self._started.set()

    def finish(self) -> Problem | None:
        """Undo the event, wait until the system is whole, and return what went wrong. Raises what
        is no LeadlineError: a defect."""
        self._ended.set()
        self._started.set()
        self._thread.join(_SILENT_S)
        if self._thread.is_alive():
            self._run.observe(Noted(message="waits until the event is undone and the system whole"))
        self._thread.join()
        self._lines.close()
        if self._defect is not None:
            raise self._defect
        if self._problem is None and not self._begun:
            return Problem(
                code=errors.DRILL_FAILED.code,
                fact="the trial ended before its drill began",
                hint="the runtime counts from the first I/O: make it longer",
            )
        return self._problem

    def _carry(self) -> None:
        """Begin and undo the event at its times, in the thread."""
        try:
            self._started.wait(_FIRST_IO_S)
            if self._ended.wait(self._ramp_s + self._drill.after):
                return
            self._begun = True
            try:
                self._begin()
            finally:
                self._restore()
        except Exception as error:  # `finish` raises it
            self._defect = error

    def _begin(self) -> None:
        self._mark(Mark.BEGIN)
        try:
            self._event.begin(self._run.writer)
        except LeadlineError as error:
            self._fail(error)
            return
        self._mark(Mark.BEGUN)
        self._ended.wait(self._drill.lasts)

    def _restore(self) -> None:
        undone = self._drill.lasts > 0
        if undone:
            self._mark(Mark.END)
        try:
            self._event.undo(self._run.writer)
        except LeadlineError as error:
            self._fail(error)
            return
        if undone:
            self._mark(Mark.ENDED)
        if not self._event.heals_within_s:
            return
        whole_at = wait_until_whole(self._event, self._run.stop)
        if whole_at is not None:
            self._mark(Mark.WHOLE, at_s=whole_at)

    def _mark(self, mark: Mark, at_s: float | None = None) -> None:
        """Write a mark, of now or of an earlier time.monotonic()."""
        ago_s = 0.0 if at_s is None else time.monotonic() - at_s
        self._lines.write({**self._lines.stamp(ago_s), "mark": mark.value})

    def _fail(self, error: LeadlineError) -> None:
        self._lines.write({**self._lines.stamp(), "error": error.fact})
        if self._problem is None:
            self._problem = problem_from(error)


def wait_until_whole(event: Event, stop: StopRequest) -> float | None:
    """Wait until the system has been whole for some time, and return the time.monotonic() from
    which on it was; None where it does not become so, or the user is impatient."""
    end = time.monotonic() + event.heals_within_s
    whole_at: float | None = None
    while not stop.impatient:
        now = time.monotonic()
        try:
            whole = not event.missing()
        except LeadlineError:  # the monitor does not answer
            whole = False
        whole_at = (now if whole_at is None else whole_at) if whole else None
        if whole_at is not None and now - whole_at >= _STEADY_S:
            return whole_at
        if now > end:
            break
        time.sleep(_LOOK_S)
    return None
