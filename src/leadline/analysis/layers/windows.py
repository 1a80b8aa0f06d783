"""The seconds of a trial that figures are held against each other over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leadline.analysis.layers.model import Basis
from leadline.formats.zfs_stream import StreamReport
from leadline.metrics import Op
from leadline.plan.models import Workload

# Engines take about so long from their start to the first I/O (docs/internals/performance.md).
_STARTING_S = 0.5
# Of a window that begins later than that share of it too little is left.
_MOST_LATE = 0.4
# What is shorter cannot be told from what lies beside it by counters that are read once a second.
_TOLD_APART_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Of one direction. `basis` is what counters that are read each second give: with `totals`
    their whole growth, divided by the `seconds` in which the engine did that direction; with
    `window` their growth in `spans` of (begin, end) after the start of the watch; with `whole
    trial` their whole growth, divided by the seconds with load. `loaded_s` are
    the seconds with load, ramp included, by which the growth of a counter that was read before and
    after the trial only is divided where there was a ramp. `engine_spans` are the engine's own
    seconds if it began with the watch; empty where they are not known apart."""

    basis: Basis
    seconds: float
    spans: tuple[tuple[float, float], ...]
    loaded_s: float
    engine_spans: tuple[tuple[float, float], ...] = ()

    def holds(self, elapsed_s: float) -> bool:
        return any(begin_s <= elapsed_s <= end_s for begin_s, end_s in self.spans)

    @property
    def ends_only(self) -> tuple[Basis, float]:
        """Basis of counters read at the trial's ends, and what their growth is divided by."""
        if self.basis is Basis.TOTALS:
            return Basis.TOTALS, self.seconds
        return Basis.WHOLE_TRIAL, self.loaded_s


def window_of(
    workload: Workload, op: Op, engine_s: float | None, late: float = _STARTING_S
) -> Window | None:
    """The window of a direction; `engine_s` are the seconds in which the engine did it, `late` how
    many behind the watch it may have begun. None where no window holds it alone: several phases
    with a ramp do it, or nobody knows when."""
    phases = workload.phases
    doing = [number for number, one in enumerate(phases) if op in one.pattern.ops]
    if not phases:  # a job file of the user's, or somebody else's results
        file = workload.job_file
        if file is None or file.ramp_s or not engine_s:
            return None
        return _totals(engine_s)
    if not workload.ramp_s:
        seconds = engine_s or workload.runtime_s * (len(doing) or len(phases))
        return _totals(seconds) if seconds else None
    if len(doing) > 1:
        return None
    # What only lower layers did (a file system's reads below writes) belongs to any of the phases.
    each_s = workload.ramp_s + workload.runtime_s
    if not doing and len(phases) > 1:
        return None
    at_once_s = (doing[0] if doing else 0) * each_s + workload.ramp_s
    own = ((at_once_s, at_once_s + workload.runtime_s),)
    most_s = _MOST_LATE * workload.runtime_s
    if late > most_s and len(phases) == 1:
        # No stretch is surely the engine's: what counters grew by is a mean with its ramp.
        return Window(
            basis=Basis.WHOLE_TRIAL,
            seconds=each_s,
            spans=((0.0, math.inf),),
            loaded_s=each_s,
            engine_spans=own,
        )
    # The stretch that is the engine's however long it took to start.
    begin_s = at_once_s + min(late, most_s)
    return Window(
        basis=Basis.WINDOW,
        seconds=workload.runtime_s,
        spans=((begin_s, at_once_s + workload.runtime_s),),
        loaded_s=each_s,
        engine_spans=own,
    )


def late_s(workload: Workload, watched_s: float) -> float:
    """How much later than the watch an engine may have begun: what of the watch its phases leave
    over."""
    phases_s = max(1, len(workload.phases)) * (workload.ramp_s + workload.runtime_s)
    return max(_STARTING_S, watched_s - phases_s)


def _totals(seconds: float) -> Window:
    return Window(basis=Basis.TOTALS, seconds=seconds, spans=((0.0, math.inf),), loaded_s=seconds)


def stream_window(report: StreamReport, watch_began_at: float | None) -> Window:
    """The seconds of the streams counted, without what lies between them (the comparison of what
    was received, its removal). `watch_began_at` is the watch's start in seconds since 1970; where
    it is not known, or streams are too short for counters that are read once a second, totals over
    the seconds of all streams."""
    whole_s = sum(one.seconds for one in report.streams)
    shortest_s = min(one.seconds for one in report.counted)
    begins = [one.began_at for one in report.counted]
    if watch_began_at is None or not all(begins) or shortest_s < _TOLD_APART_S:
        return _totals(whole_s)
    return Window(
        basis=Basis.WINDOW,
        seconds=report.seconds,
        spans=tuple(
            (one.began_at - watch_began_at, one.began_at - watch_began_at + one.seconds)
            for one in report.counted
        ),
        loaded_s=whole_s,
    )
