"""The guard of a run: its budget, its limits with their readings, and why it stopped."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from leadline import errors
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.formats.guard_readings import GuardReading, MissedReading
from leadline.plan.guard import Guard
from leadline.report.cells import count, number_column, quantity, table
from leadline.report.document import Block, Column, Paragraph, Section
from leadline.units import format_bandwidth, format_duration, format_iops


def guard_rows(guard: Guard) -> tuple[tuple[str, str], ...]:
    """The settings of a guard, for the page and the terminal."""
    rows = []
    budget = [
        "" if guard.iops is None else f"{format_iops(guard.iops)} IOPS",
        "" if guard.bandwidth is None else f"{format_bandwidth(guard.bandwidth)} MiB/s",
    ]
    if guard.has_budget:
        text = " and ".join(filter(None, budget))
        rows.append(("budget", f"at most {text}, for all clients together"))
    if guard.ceph_health:
        rows.append(("Ceph health", f"stops at {', '.join(guard.ceph_health)}"))
    rows += [(limit.name, f"stops {limit}: {limit.query}") for limit in guard.prometheus]
    if guard.has_limits:
        text = f"every {format_duration(guard.every)}; stops after {format_duration(guard.silence)}"
        rows.append(("read", f"{text} without a reading"))
    if guard.quiet_hours:
        zone = "local time" if guard.zone == "local" else guard.zone
        rows.append(("quiet hours", f"{', '.join(guard.quiet_hours)} ({zone}): trials wait"))
    return tuple(rows)


def guard_sections(run: Run) -> tuple[Section, ...]:
    """What protected the system under test; empty for a run without a guard."""
    guard = run.plan.guard
    if guard is None:
        return ()
    blocks: list[Block] = []
    stops = [one for one in run.manifest.problems if one.code == errors.GUARD_STOPPED.code]
    blocks += [Paragraph(text="; ".join((f"Stopped: {one.fact}", *one.context))) for one in stops]
    if not stops and guard.has_limits:
        blocks.append(Paragraph(text="No limit stopped the run."))
    blocks.append(table("guard", ("", ""), guard_rows(guard)))
    try:
        rows = list(_reading_rows(run.guard_readings))
    except LeadlineError as error:
        blocks.append(Paragraph(text=f"The readings cannot be read: {error.fact}."))
        rows = []
    if rows:
        numbers = ("readings", "missed", "beyond the limit", "least", "median", "most")
        columns: list[str | Column] = ["limit", *map(number_column, numbers), "last reading"]
        blocks.append(table("guard-readings", columns, rows, caption="Readings"))
    return (Section(heading="Guard", id="guard-of-the-run", blocks=tuple(blocks)),)


def _reading_rows(
    readings: Sequence[GuardReading | MissedReading],
) -> Iterator[tuple[object, ...]]:
    for name in dict.fromkeys(reading.limit for reading in readings):
        mine = [reading for reading in readings if reading.limit == name]
        read = [reading for reading in mine if isinstance(reading, GuardReading)]
        values = [reading.value for reading in read if reading.value is not None]
        figures = [min(values), statistics.median(values), max(values)] if values else []
        numbers: Sequence[object] = [quantity(f"{figure:.3g}", figure) for figure in figures]
        last = mine[-1]
        text = last.text if isinstance(last, GuardReading) else last.reason
        yield (
            name,
            count(len(read)),
            count(len(mine) - len(read)),
            count(sum(reading.crossed for reading in read)),
            *(numbers or ("", "", "")),
            text,
        )
