"""What a run shows while it goes on: a live table on a terminal, plain lines on a pipe; of a sweep
the curve as it grows."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from leadline.archive.records import Derived, TrialRecord, TrialStatus
from leadline.cli.sweep import Sweeps
from leadline.metrics import Metric
from leadline.plan.models import Cell
from leadline.report.wording import count_text
from leadline.runner.events import (
    Event,
    Noted,
    Observer,
    PrefillEnded,
    PrefillStarted,
    RunStarted,
    TrialEnded,
    TrialProgress,
    TrialStarted,
)
from leadline.units import (
    format_bandwidth,
    format_duration,
    format_iops,
    format_latency,
    format_size,
)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Observer]:
    """An observer that fits stderr: silent, live or plain. The live table vanishes at the end."""
    if quiet:
        yield lambda event: None
    elif sys.stderr.isatty():
        with _live() as observer:
            yield observer
    else:
        yield _plain()


def _plain() -> Observer:
    watched = _Watched()

    def observe(event: Event) -> None:
        watched.see(event)
        for line in (describe(event), watched.level_line(event)):
            if line:
                click.echo(line, err=True)

    return observe


class _Watched:
    """The trial under way, and the sweeps that the run's cells belong to."""

    def __init__(self) -> None:
        self.trial: TrialStarted | None = None
        self.sweeps: Sweeps | None = None

    def see(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.sweeps = Sweeps(event.plan)
        elif isinstance(event, TrialStarted):
            self.trial = event
            if self.sweeps:
                self.sweeps.started(event.cell)
        elif isinstance(event, TrialEnded) and self.sweeps and self.trial:
            self.sweeps.ended(self.trial.cell, event.record, event.derived)

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
        return "    " + result_line(event.record, event.derived)
    if isinstance(event, Noted):
        return f"note: {event.message}"
    return ""


def result_line(record: TrialRecord, derived: Derived | None) -> str:
    """What a trial gave, in a line: `read 12,345 IOPS 48.2 MiB/s mean 2.6 ms`."""
    if derived is None:
        why = record.problem.fact if record.problem else "no result"
        return f"{record.status.value}: {why}"
    parts = []
    for operation in derived.operations:
        iops = operation.metrics.get(Metric.IOPS)
        rate = "" if iops is None else f"{format_iops(iops)} IOPS, "
        bandwidth = operation.metrics.get(Metric.BANDWIDTH) or 0.0
        mean = operation.metrics.get(Metric.LATENCY_MEAN)
        latency = f", mean {format_latency(mean)}" if mean else ""
        parts.append(f"{operation.op} {rate}{format_bandwidth(bandwidth)} MiB/s{latency}")
    if record.status is not TrialStatus.COMPLETED:
        parts.insert(0, record.status.value)
    return " · ".join(parts)


def _in_flight(cell: Cell) -> int | None:
    """I/Os that a closed loop keeps in flight; None where the phases differ or are not ours."""
    asked = {phase.iodepth * phase.numjobs for phase in cell.workload.phases}
    return asked.pop() if len(asked) == 1 and not cell.workload.streams else None


@contextmanager
def _live() -> Iterator[Observer]:
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    console = Console(stderr=True)
    watched = _Watched()
    started: TrialStarted | None = None
    began = time.monotonic()
    rate: float | None = None
    filling = ""

    def table() -> Table:
        grid = Table.grid(padding=(0, 2))
        if started is None:
            grid.add_row(filling)
            return grid
        elapsed = time.monotonic() - began
        left = max(0.0, started.asked_s - elapsed)
        depth = _in_flight(started.cell)
        # In a closed loop latency is what is in flight over what comes back: N = X R (Little).
        latency = f"≈ {format_latency(depth / rate)}" if depth and rate else "…"
        grid.add_row("cell", started.cell.label)
        grid.add_row(
            "trial", f"{started.number} of {started.count}, repeat {started.trial.block + 1}"
        )
        grid.add_row("now", f"{format_iops(rate)} IOPS · {latency}" if rate is not None else "…")
        grid.add_row(
            "left",
            f"{format_duration(round(left))} of the trial, "
            f"{format_duration(round(left + started.left_s))} of the run",
        )
        grid.add_row(
            "",
            ProgressBar(total=started.asked_s, completed=min(elapsed, started.asked_s), width=50),
        )
        # What stands before it in the grid takes ten cells.
        for number, line in enumerate(watched.curve(console.width - 10)):
            grid.add_row("curve" if number == 0 else "", Text(line, no_wrap=True))
        return grid

    with Live(console=console, get_renderable=table, refresh_per_second=2, transient=True) as live:

        def observe(event: Event) -> None:
            nonlocal started, began, rate, filling
            watched.see(event)
            if isinstance(event, TrialStarted):
                started, began, rate = event, time.monotonic(), None
            elif isinstance(event, TrialProgress):
                rate = event.iops
            else:
                line = describe(event)
                if isinstance(event, TrialEnded) and started is not None:
                    line = f"[{started.number}/{started.count}] {started.cell.label}\n{line}"
                    level = watched.level_line(event)
                    line += f"\n{level}" if level else ""
                if isinstance(event, PrefillStarted):
                    filling = line + " …"
                elif line:
                    live.console.print(line, markup=False, highlight=False)

        yield observe
