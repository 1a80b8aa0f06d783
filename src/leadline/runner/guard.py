"""The guard of a run: reads its limits while the run goes on, and stops it when one is crossed.

The limits are read between trials and during trials, each by a thread of its own. Quiet hours hold
the next trial back: a run that waits goes on by itself, with the targets that it has set up.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import orjson

from leadline import errors
from leadline.archive.journal import sealed_line
from leadline.connect.prometheus import PrometheusSample, query_prometheus
from leadline.errors import LeadlineError
from leadline.inventory.redaction import redact
from leadline.plan.guard import Guard, PrometheusLimit
from leadline.probes.watches.base import Line, Lines, ThreadWatch, beats
from leadline.runner.events import StopRequest
from leadline.units import format_duration

# A query of a dashboard takes less; a Ceph monitor has its own bound.
QUERY_S = 5.0
_PAUSE_S = 0.2
_AGAIN = "wait until the system is well again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading of a limit: `text` as the system gave it, `value` where it is a number."""

    text: str
    crossed: bool
    value: float | None = None
    labels: dict[str, str] = field(default_factory=dict)


class Limit(Protocol):
    """A limit that stops a run when it was crossed for `for_s` seconds."""

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str:
        """The limit in words: `above 0.02 for 15 s`."""

    @property
    def for_s(self) -> float: ...

    def read(self) -> Reading:
        """Raises LeadlineError where there is no reading."""


class QueryLimit:
    """A limit on the answer of Prometheus."""

    def __init__(self, asked: PrometheusLimit) -> None:
        self._asked = asked
        self.name = asked.name
        self.for_s = asked.for_s
        self.text = str(asked)

    def read(self) -> Reading:
        asked = self._asked
        samples = query_prometheus(asked, asked.query, timeout_s=QUERY_S)
        worst = self._worst(samples)
        return Reading(
            text=f"{worst.value:g}" + (f" (worst of {len(samples)})" if len(samples) > 1 else ""),
            value=worst.value if math.isfinite(worst.value) else None,
            crossed=asked.excess(worst.value) > 0,
            labels=dict(worst.labels),
        )

    def _worst(self, samples: Sequence[PrometheusSample]) -> PrometheusSample:
        """The sample that is the farthest beyond the limit. Raises LeadlineError without one."""
        known = [sample for sample in samples if not math.isnan(sample.value)]
        if not known:
            what = "only NaN" if samples else "no sample"
            raise LeadlineError(
                errors.GUARD_UNREADABLE,
                f"the query of {self.name!r} gives {what}",
                context=[self._asked.query],
                hint="a metric's name may be wrong; where no traffic is normal, add a default: "
                "`(QUERY >= 0) or vector(0)`",
            )
        return max(known, key=lambda sample: self._asked.excess(sample.value))


class HealthLimit:
    """A limit on the health of a Ceph cluster: `health` returns its status and, by code, the
    message of each check."""

    for_s = 0.0

    def __init__(
        self, cluster: str, names: Sequence[str], health: Callable[[], tuple[str, dict[str, str]]]
    ) -> None:
        self.name = f"health of {cluster}"
        self.text = ", ".join(names)
        self._names = frozenset(names)
        self._health = health

    def read(self) -> Reading:
        status, checks = self._health()
        found = [name for name in (status, *checks) if name in self._names]
        messages = [f"{name}: {checks[name]}" for name in found if name in checks]
        return Reading(text="; ".join([status, *(messages or sorted(checks))]), crossed=bool(found))


def require_reading(limit: Limit) -> Reading:
    """Read a limit before a run. Raises LeadlineError(`guard-unreadable`)."""
    try:
        return limit.read()
    except LeadlineError as error:
        raise LeadlineError(
            errors.GUARD_UNREADABLE,
            f"the guard's limit {limit.name!r} has no reading: {error.fact}",
            context=error.context,
            hint=error.hint,
        ) from error


@dataclass(slots=True, kw_only=True)
class _State:
    """`since_s` is when the limit was crossed first without a break, None while it is kept;
    `read_s` when it was last read. Both are time.monotonic()."""

    since_s: float | None = None
    read_s: float
    last: Reading | None = None


class RunGuard:
    """Guards a run. `problem` is set when a limit has stopped it."""

    def __init__(
        self,
        guard: Guard,
        limits: Sequence[Limit],
        stop: StopRequest,
        note: Callable[[str], None],
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.guard = guard
        self.limits = limits
        self.problem: LeadlineError | None = None
        self.trial = ""
        self._stop = stop
        self._note = note
        self._clock = clock
        self._watch: _GuardWatch | None = None
        self._deciding = threading.Lock()
        self._paused = False
        self._states: dict[Limit, _State] = {}

    def require(self) -> None:
        """Read each limit once, before the run touches anything. Raises LeadlineError:
        `guard-unreadable`, or `guard-stopped` where one is crossed already."""
        for limit in self.limits:
            reading = require_reading(limit)
            # Others may use the system as much as they like in its quiet hours.
            if reading.crossed and self.guard.quiet_until(self._clock(), 0.0) is None:
                raise LeadlineError(
                    errors.GUARD_STOPPED,
                    f"the guard's limit {limit.name!r} is crossed before the run: {reading.text}",
                    context=_context(limit, reading),
                    hint=_AGAIN,
                )

    def begin(self, path: Path) -> None:
        """Start to read the limits, and to record the readings in a file."""
        self._states = {limit: _State(read_s=time.monotonic()) for limit in self.limits}
        self._watch = _GuardWatch(self, path)
        self._watch.start()

    def end(self) -> None:
        """Stop to read the limits."""
        if self._watch is not None:
            self._watch.stop()

    def admit(self, takes_s: float) -> bool:
        """Wait until work of `takes_s` seconds may begin: outside quiet hours, and with every limit
        read and kept. Return False where the run is to stop."""
        noted = ""
        while not self._stop.requested:
            until = self.guard.quiet_until(self._clock(), takes_s)
            why = ""
            if until is not None:
                why = f"quiet hours: waits until {until:%a %d %b %H:%M %Z}".rstrip()
            elif crossed := self._crossed():
                why = f"waits: {crossed}"
            self._paused = until is not None
            if not why:
                return True
            if why != noted:
                self._note(why)
                noted = why
            time.sleep(_PAUSE_S)
        return False

    def _crossed(self) -> str:
        """A limit that is crossed now, or was not read lately, with its reading."""
        late_s = time.monotonic() - 2 * self.guard.every - QUERY_S
        for limit, state in self._states.items():
            if state.since_s is not None and state.last is not None:
                return f"{limit.name} is {state.last.text}, the limit is {limit.text}"
            if state.read_s < late_s:
                return f"{limit.name} has no reading"
        return ""

    def keep(self, limit: Limit) -> Line:
        """Read a limit and stop the run where it must; return the line of the record."""
        state, fields = self._states[limit], {"limit": limit.name, "trial": self.trial}
        try:
            reading = limit.read()
        # A guard that fails is one without a reading, whatever the reason.
        except Exception as error:
            reason = error.fact if isinstance(error, LeadlineError) else repr(error)
            silent_s = time.monotonic() - state.read_s
            if silent_s > self.guard.silence:
                fact = (
                    f"the guard's limit {limit.name!r} had no reading for "
                    f"{format_duration(round(silent_s))}: {reason}"
                )
                context = [f"limit: {limit.text}", f"at {_now()}"]
                self._trip(LeadlineError(errors.GUARD_STOPPED, fact, context=context, hint=_AGAIN))
            return {**fields, "error": reason}
        now_s = time.monotonic()
        state.read_s, state.last = now_s, reading
        if not reading.crossed:
            state.since_s = None
        elif state.since_s is None:
            state.since_s = now_s
        if state.since_s is not None and now_s - state.since_s >= limit.for_s:
            fact = f"the guard's limit {limit.name!r} is crossed: {reading.text}"
            self._trip(
                LeadlineError(
                    errors.GUARD_STOPPED, fact, context=_context(limit, reading), hint=_AGAIN
                )
            )
        line = {
            "text": reading.text,
            "value": reading.value,
            "crossed": reading.crossed,
            "labels": reading.labels,
        }
        return {**fields, **redact(line)}

    def _trip(self, problem: LeadlineError) -> None:
        """Stop the run; not in quiet hours, when it does nothing, nor where it is stopping."""
        with self._deciding:
            if self.problem is None and not self._paused and not self._stop.requested:
                self.problem = problem
                self._stop.ask()


def _context(limit: Limit, reading: Reading) -> list[str]:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(reading.labels.items()))
    return [f"limit: {limit.text}", *([f"series: {labels}"] if labels else []), f"read at {_now()}"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class _SealedLines(Lines):
    """Lines with seals, so that damage in the file of a killed session shows."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._hashed = hashlib.sha256()

    def encode(self, line: Mapping[str, Any]) -> bytes:
        content = sealed_line(self._hashed, orjson.dumps(line))
        self._hashed.update(content)
        return content


class _GuardWatch(ThreadWatch):
    """Reads each limit in a thread: one that does not answer must not delay the others."""

    def __init__(self, guard: RunGuard, path: Path) -> None:
        super().__init__(path, period_s=guard.guard.every, patience_s=2 * QUERY_S)
        self._lines = _SealedLines(path)
        self._guard = guard

    def _tasks(self) -> Sequence[tuple[Line, Callable[[], None]]]:
        return [({"limit": limit.name}, partial(self._run, limit)) for limit in self._guard.limits]

    def _run(self, limit: Limit) -> None:
        for last in beats(self._period_s, self._ending):
            if last:
                return
            stamp = self._lines.stamp()
            self._lines.write({**stamp, **self._guard.keep(limit)})
