"""Progress of a run: a live table on a terminal, and a line for each trial on a pipe."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from types import FrameType
from typing import TYPE_CHECKING

from leadline import errors
from leadline.archive.records import Derived, LookEnd, LookState, TrialRecord, TrialStatus
from leadline.cli.output import echo_line
from leadline.errors import LeadlineError
from leadline.metrics import STAGES, Metric, Op
from leadline.plan.models import Cell, Plan
from leadline.runner.events import (
    Event,
    Looked,
    Noted,
    Observer,
    PrefillEnded,
    PrefillStarted,
    RunStarted,
    TrialEnded,
    TrialProgress,
    TrialStarted,
    stopping_signals,
)
from leadline.text import count_text, shortened, visible
from leadline.units import (
    format_bandwidth,
    format_duration,
    format_iops,
    format_latency,
    format_size,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

# The load curve of a sweep while it is measured: each level's throughput and latency so far.

_MOST_LINES = 12
_WIDEST_BAR = 30
_LATENCIES = ((Metric.LATENCY_P99, "p99"), (Metric.LATENCY_MEAN, "mean"))
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """A trial's throughput in I/Os per second and latencies in seconds."""

    iops: float
    latencies: dict[Metric, float | None]


@dataclass(slots=True, kw_only=True)
class Level:
    """A level of a sweep with its number of `repeats`. `over` counts its trials that ended, with a
    result or without."""

    cell: Cell
    repeats: int
    results: list[_Result] = field(default_factory=list)
    over: int = 0

    @property
    def iops(self) -> float | None:
        """The median of the trials so far."""
        return median(result.iops for result in self.results) if self.results else None

    @property
    def latency(self) -> str:
        """`p99 4.2 ms`, of the trials so far the one in the middle; the mean where a trial has too
        few I/Os for p99; empty where there is none. The report merges the trials' histograms
        instead."""
        for metric, name in _LATENCIES:
            values = [result.latencies.get(metric) for result in self.results]
            known = [value for value in values if value is not None]
            if known and len(known) == len(values):
                return f"{name} {format_latency(median(known))}"
        return ""


class Sweeps:
    """Every target and workload with its levels. Those that a run adds when it has seen results
    become known when they start."""

    def __init__(self, plan: Plan) -> None:
        self._repeats = plan.repeats
        self._levels: dict[Key, list[Level]] = {}
        repeats = Counter(trial.cell for trial in plan.trials)
        for number, cell in enumerate(plan.cells):
            self._add(cell, repeats[number])

    def started(self, cell: Cell) -> None:
        if not any(level.cell.level == cell.level for level in self._levels.get(_key(cell), ())):
            self._add(cell, self._repeats)

    def ended(self, cell: Cell, record: TrialRecord, derived: Derived | None) -> None:
        level = self._of(cell)
        level.over += 1
        result = _result(cell, derived)
        if record.status is TrialStatus.COMPLETED and result is not None:
            level.results.append(result)

    def line(self, cell: Cell, block: int) -> str:
        """What a level came to, when the last of its repeats is over; empty before, and where there
        is no other level."""
        levels = self._sweep(cell)
        level = self._of(cell)
        if not levels or block + 1 < level.repeats:
            return ""
        place = f"level {cell.level}, {levels.index(level) + 1} of {len(levels)}"
        if level.iops is None:
            return f"{visible(place)}: no trial has a result"
        said = f"{format_iops(level.iops)} IOPS"
        trials = count_text(len(level.results), "trial")
        of = f", median of {trials}" if len(level.results) > 1 else ""
        parts = [said, level.latency] if level.latency else [said]
        return f"{visible(place)}: {', '.join(parts)}{of}"

    def curve(self, cell: Cell, width: int) -> tuple[str, ...]:
        """A line for each level by rising load: its name, throughput as a bar and as a number,
        latency, and how many trials that is of; `…` for what is to come. Empty without a sweep. No
        line is longer than `width`."""
        from leadline.report.words import filled

        levels = self._sweep(cell)
        if not levels:
            return ()
        at = levels.index(self._of(cell))
        first = max(0, min(at - _MOST_LINES // 2, len(levels) - _MOST_LINES))
        shown = levels[first : first + _MOST_LINES]
        highest = max((level.iops or 0.0 for level in levels), default=0.0)
        texts = [self._texts(level) for level in shown]
        names, rates, latencies, trials = (
            max(len(level[place]) for level in texts) for place in range(4)
        )
        names = min(names, max(8, width // 4))
        bar = max(0, min(_WIDEST_BAR, width - names - rates - latencies - trials - 10))
        lines = []
        for level, (name, rate, latency, count) in zip(shown, texts, strict=True):
            mark = "▸" if level is levels[at] else " "
            drawn = "█" * round(bar * (level.iops or 0.0) / highest) if highest > 0 else ""
            line = f"{mark} {filled(name, names)}  {drawn.ljust(bar)}  {rate.rjust(rates)}"
            lines.append(f"{line}  {latency.ljust(latencies)}  {count}".rstrip()[:width])
        if len(shown) < len(levels):
            lines.append(f"  {len(levels) - len(shown)} further levels")
        return tuple(lines)

    def _texts(self, level: Level) -> tuple[str, str, str, str]:
        rate = "…" if level.iops is None else f"{format_iops(level.iops)} IOPS"
        if level.iops is None and level.over:
            rate = "no result"
        done = f"{level.over} of {level.repeats}" if 0 < level.over < level.repeats else ""
        return visible(level.cell.level), rate, level.latency, done

    def _add(self, cell: Cell, repeats: int) -> None:
        levels = self._levels.setdefault(_key(cell), [])
        levels.append(Level(cell=cell, repeats=repeats))
        levels.sort(key=_order)

    def _of(self, cell: Cell) -> Level:
        return next(level for level in self._levels[_key(cell)] if level.cell.level == cell.level)

    def _sweep(self, cell: Cell) -> Sequence[Level]:
        """The levels that the cell is one of; none where it is alone."""
        levels = self._levels.get(_key(cell), [])
        return levels if len(levels) > 1 else ()


def _key(cell: Cell) -> Key:
    return cell.target, cell.workload.name


def _order(level: Level) -> tuple[int, float, int, int]:
    """Closed loop before open loop before levels with neighbours, each by rising load."""
    load = level.cell.load
    return (load.neighbours, load.offered_iops or 0.0, load.in_flight, load.clients)


def _result(cell: Cell, derived: Derived | None) -> _Result | None:
    """Of the operations of the workload's first phase: reads and writes of a mix run together and
    are added up; the next phase comes later and is no part of the same load."""
    if derived is None:
        return None
    workload = cell.workload
    ops = workload.phases[0].pattern.ops if workload.phases else tuple(Op)
    ops = workload.ops if workload.database else ops
    parts = [
        operation
        for operation in derived.operations
        if operation.op in ops and operation.op is not Op.TOTAL
    ]
    rates = [operation.metrics.get(Metric.IOPS) for operation in parts]
    known_rates = [rate for rate in rates if rate is not None]
    if not known_rates or len(known_rates) < len(rates):
        return None
    latencies: dict[Metric, float | None] = {}
    for metric, _ in _LATENCIES:
        values = [operation.metrics.get(metric) for operation in parts]
        known = [value for value in values if value is not None]
        # Of reads and writes the worse; a part of them would pass for all.
        latencies[metric] = max(known) if len(known) == len(values) else None
    return _Result(iops=sum(known_rates), latencies=latencies)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Observer]:
    """An observer that fits stderr: silent, live or plain. The live table vanishes at the end."""
    if quiet:
        yield lambda event: None
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _live() as observer:
            yield observer
    else:
        with _plain() as observer:
            yield observer


@contextmanager
def _plain() -> Iterator[Observer]:
    """One line for each trial: its beginning as soon as the trial starts, its result behind it."""
    watched = _Watched()
    begun = False

    def end_line() -> None:
        nonlocal begun
        if begun:
            echo_line("", err=True)
        begun = False

    def observe(event: Event) -> None:
        nonlocal begun
        watched.see(event)
        if isinstance(event, TrialStarted):
            end_line()
            echo_line(f"{describe(event)}: ", err=True, ended=False)
            begun = True
            return
        text = describe(event)
        if isinstance(event, TrialEnded):
            # Notes of the trial took the rest of its line.
            text = text if begun else watched.trial_line(event)
            begun = False
        elif text:
            end_line()
        for line in filter(None, (text, watched.level_line(event))):
            echo_line(line, err=True)

    try:
        yield observe
    finally:
        end_line()


class _Watched:
    """The trial under way, and the sweeps that the run's cells belong to."""

    def __init__(self) -> None:
        self.trial: TrialStarted | None = None
        self.sweeps: Sweeps | None = None
        # The run is planned round by round.
        self.in_rounds = False

    def see(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.sweeps = Sweeps(event.plan)
            self.in_rounds = event.plan.stop is not None
        elif isinstance(event, TrialStarted):
            self.trial = event
            if self.sweeps:
                self.sweeps.started(event.cell)
        elif isinstance(event, TrialEnded) and self.sweeps and self.trial:
            self.sweeps.ended(self.trial.cell, event.record, event.derived)

    def trial_line(self, event: TrialEnded) -> str:
        """The trial and its result."""
        return f"{describe(self.trial)}: {describe(event)}" if self.trial else describe(event)

    def level_line(self, event: Event) -> str:
        """What a level came to, where this was the last of its trials."""
        if not isinstance(event, TrialEnded) or self.sweeps is None or self.trial is None:
            return ""
        line = self.sweeps.line(self.trial.cell, self.trial.trial.block)
        return f"    {line}" if line else ""

    def curve(self, width: int) -> tuple[str, ...]:
        if self.sweeps is None or self.trial is None:
            return ()
        return self.sweeps.curve(self.trial.cell, width)


def describe(event: Event) -> str:
    """One line for an event, or nothing where it is not worth one."""
    if isinstance(event, RunStarted):
        cells = len(event.plan.cells)
        return (
            f"run {event.run}: {count_text(event.to_do, 'trial')} of {count_text(cells, 'cell')}, "
            f"{format_duration(event.asked_s)} of I/O, seed {event.plan.seed}"
            + ("; more as results ask for it" if event.plan.follow_ups else "")
            + ("; then rounds of what is not decided" if event.plan.stop else "")
        )
    if isinstance(event, PrefillStarted):
        return f"prefill {event.target}: {format_size(event.size_bytes)}"
    if isinstance(event, PrefillEnded):
        rate = format_bandwidth(event.size_bytes / max(event.wall_s, 1e-3))
        return f"prefill {event.target}: verified, {format_duration(event.wall_s)}, {rate} MiB/s"
    if isinstance(event, TrialStarted):
        return (
            f"[{event.number}/{event.count}] {event.cell.label} · repeat {event.trial.block + 1}"
            f" · {format_duration(event.asked_s)}"
        )
    if isinstance(event, TrialEnded):
        return result_line(event.record, event.derived)
    if isinstance(event, Looked):
        return look_line(event)
    if isinstance(event, Noted):
        return f"note: {event.message}"
    return ""


_ENDS = {
    LookEnd.DECIDED: "nothing is open: the run ends",
    LookEnd.MAX_REPEATS: "that was the last round",
    LookEnd.MAX_TIME: "the next round would exceed max_time",
}


def look_line(event: Looked) -> str:
    """What a look found: `look after round 3: 5 of 8 rates decided; open: rep3 · seqread`."""
    look = event.look
    rates = [rate for pair in look.pairs for rate in pair.rates]
    parts = [f"{look.count(LookState.DECIDED)} of {count_text(len(rates), 'rate')} decided"]
    if futile := look.count(LookState.FUTILE):
        parts.append(f"{futile} that later rounds will hardly decide")
    if closed := look.count(LookState.CLOSED):
        parts.append(f"{closed} that no trial can decide")
    if still := [rate for rate in rates if rate.state is LookState.OPEN]:
        names = dict.fromkeys(
            " · ".join(filter(None, (rate.target, rate.workload, rate.level))) for rate in still
        )
        parts.append(f"open: {shortened(names, 4)}")
    left = _ENDS[look.end] if look.end else f"at most {format_duration(event.left_s)} more of I/O"
    return f"look after round {look.round}: {'; '.join([*parts, left])}"


def result_line(record: TrialRecord, derived: Derived | None) -> str:
    """What a trial gave, in a line: `read 12,345 IOPS 48.2 MiB/s mean 2.6 ms`."""
    if derived is None:
        why = record.problem.fact if record.problem else "no result"
        return f"{record.status.value}: {why}"
    parts = []
    for operation in derived.operations:
        if operation.op in STAGES:
            mean_s = operation.metrics.get(Metric.LATENCY_MEAN)
            parts.append(f"{operation.op} {format_latency(mean_s or 0.0)}")
            continue
        iops = operation.metrics.get(Metric.IOPS)
        bandwidth = operation.metrics.get(Metric.BANDWIDTH)
        mean = operation.metrics.get(Metric.LATENCY_MEAN)
        unit = "per second" if operation.op is Op.TRANSACTION else "IOPS"
        figures = (
            "" if iops is None else f"{format_iops(iops)} {unit}",
            "" if bandwidth is None else f"{format_bandwidth(bandwidth)} MiB/s",
            f"mean {format_latency(mean)}" if mean else "",
        )
        parts.append(f"{operation.op} {', '.join(filter(None, figures))}")
    if record.status is not TrialStatus.COMPLETED:
        parts.insert(0, record.status.value)
    return " · ".join(parts)


def _in_flight(cell: Cell) -> int | None:
    """I/Os that a closed loop keeps in flight; None where the phases differ or are not ours."""
    asked = {phase.iodepth * phase.numjobs for phase in cell.workload.phases}
    return asked.pop() if len(asked) == 1 and cell.workload.in_blocks else None


class LiveTable:
    """What a terminal shows of the trial under way. It fits any width: names are cut."""

    def __init__(self) -> None:
        self._watched = _Watched()
        self._began = time.monotonic()
        self._rate: float | None = None
        self._filling = ""
        self._look: Looked | None = None
        # Time between the starts of trials beyond their I/O, so far.
        self._extra_s: list[float] = []

    def see(self, event: Event) -> tuple[str, ...]:
        """Take an event; return the lines that stay above the table."""
        before = self._watched.trial
        self._watched.see(event)
        if isinstance(event, TrialStarted):
            now = time.monotonic()
            if before is not None:
                self._extra_s.append(max(0.0, now - self._began - before.asked_s))
            self._began, self._rate = now, None
            return ()
        if isinstance(event, TrialProgress):
            self._rate = event.iops
            return ()
        if isinstance(event, PrefillStarted):
            self._filling = f"{describe(event)} …"
            return ()
        if isinstance(event, Looked):
            self._look = event
        text = describe(event)
        if isinstance(event, TrialEnded):
            text = self._watched.trial_line(event)
        return tuple(filter(None, (text, self._watched.level_line(event))))

    def left_s(self, trial: TrialStarted) -> tuple[float, float]:
        """Time left of the trial's I/O, and of the run with what trials took beyond their I/O."""
        left_s = max(0.0, trial.asked_s - (time.monotonic() - self._began))
        extra_s = median(self._extra_s) if self._extra_s else 0.0
        return left_s, left_s + trial.left_s + extra_s * (trial.count - trial.number)

    def rows(self, width: int) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each row."""
        trial = self._watched.trial
        if trial is None:
            yield "", self._filling
            return
        depth = _in_flight(trial.cell)
        # In a closed loop latency is what is in flight over what comes back: N = X R (Little).
        latency = f"≈ {format_latency(depth / self._rate)}" if depth and self._rate else "…"
        left_s, run_s = (format_duration(round(one)) for one in self.left_s(trial))
        yield "cell", trial.cell.label
        yield "trial", f"{trial.number} of {trial.count}, repeat {trial.trial.block + 1}"
        rate = self._rate
        yield "now", "…" if rate is None else f"{format_iops(rate)} IOPS · {latency}"
        whole = "round" if self._watched.in_rounds else "run"
        yield "left", f"{left_s} of the trial, {run_s} of the {whole}"
        if self._look is not None:
            look = self._look.look
            rates = count_text(look.count(LookState.OPEN), "rate")
            most = format_duration(self._look.left_s)
            yield "open", f"{rates} after round {look.round}, then at most {most} of I/O"
        for number, line in enumerate(self._watched.curve(max(1, width))):
            yield "curve" if number == 0 else "", line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, min_width=5)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        # The first column and the space behind it take seven cells.
        width = options.max_width - 7
        for name, text in self.rows(width):
            grid.add_row(name, Text(visible(text), overflow="ellipsis"))
            if name == "left" and (trial := self._watched.trial):
                done_s = min(time.monotonic() - self._began, trial.asked_s)
                bar = ProgressBar(total=trial.asked_s, completed=done_s, width=min(50, width))
                grid.add_row("", bar)
        yield grid


def wrapped(line: str, width: int) -> list[str]:
    """Split a line that is wider than a terminal; its continuation is indented."""
    return textwrap.wrap(line, max(width, 10), subsequent_indent="    ", break_on_hyphens=False)


@contextmanager
def _live() -> Iterator[Observer]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    table = LiveTable()
    console = Console(stderr=True)
    with Live(table, console=console, refresh_per_second=2, transient=True) as live:

        def observe(event: Event) -> None:
            for line in table.see(event):
                live.console.print(Text("\n".join(wrapped(visible(line), console.width))))

        yield observe


# For verbs that change a system in steps: what goes on, and what a signal does.


class _Stopped(KeyboardInterrupt):
    """A signal asked us to stop."""


@contextmanager
def stopping(outcome: str) -> Iterator[None]:
    """Inside the block the first signal raises, and undoing is then let finish; `outcome` says what
    became of what was begun. Raises LeadlineError(`interrupted`) behind the block."""

    def stop(number: int, frame: FrameType | None) -> None:
        for ignored in signals:
            signal.signal(ignored, signal.SIG_IGN)
        raise _Stopped(signal.Signals(number).name)

    signals = stopping_signals()
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    except _Stopped as stopped:
        raise LeadlineError(errors.INTERRUPTED, f"stopped by {stopped}; {outcome}") from stopped
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
        from rich.text import Text

        with Console(stderr=True).status(Text(visible(title))) as waiting:
            yield lambda what: waiting.update(Text(visible(what)))
    else:
        yield lambda what: echo_line(f"{title}: {what}", err=True)
