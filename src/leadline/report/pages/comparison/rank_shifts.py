"""The ranks of the targets on both systems: as slopes with their intervals, and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from leadline.analysis.comparison import Comparison
from leadline.analysis.rank_shifts import RankShift, rank_shifts
from leadline.analysis.ranking import Standing
from leadline.report.cells import absent, number_column, quantity, records_table, section
from leadline.report.document import (
    Cell,
    Gauge,
    Line,
    LineChart,
    Look,
    Scale,
    Section,
    Stroke,
)
from leadline.report.pages.comparison.headline import system_names
from leadline.report.words import short

# Slopes that a reader can distinguish; the table has all.
_MOST_SLOPES = 12
_NAME = 16
# Ties and intervals are moved apart, in ranks and in shares of the distance between the systems.
_APART, _STEP = 0.09, 0.016


def rank_shift_sections(comparison: Comparison) -> tuple[Section, ...]:
    """Build the section of the rank shifts, drawn where a rank moved; none where they cannot be
    compared."""
    shifts = rank_shifts(comparison)
    if not shifts:
        return ()
    names = system_names(comparison)
    highest = max(
        max(standing.interval or (1, 1))
        for shift in shifts
        for standing in (shift.baseline, shift.candidate)
    )
    ticks = tuple((float(rank), str(rank)) for rank in range(1, highest + 1))
    scale = Scale(title="", log=False, low=0.5, high=highest + 0.5, ticks=ticks)
    shown = records_table(
        "rank-shifts-table",
        shifts,
        ("target", lambda shift: shift.subject),
        (number_column(names[0], scale=scale), lambda shift: _rank(shift.baseline)),
        (number_column(names[1], scale=scale), lambda shift: _rank(shift.candidate)),
        (number_column("ranks gained"), _gained),
        ("rank intervals", _overlap),
    )
    moved = any(shift.shift for shift in shifts)
    slopes = _slopes(shifts, names, highest) if moved else None
    return (section("Rank shifts", "rank-shifts", slopes, shown),)


def _rank(standing: Standing) -> Cell:
    if standing.rank is None or standing.interval is None:
        return absent("lacks a number")
    low, high = standing.interval
    text = f"{standing.rank}" if low == high else f"{standing.rank} ({low} to {high})"
    gauge = Gauge(value=float(standing.rank), interval=(float(low), float(high)))
    return Cell(text=text, sort=float(standing.rank), gauge=gauge)


def _gained(shift: RankShift) -> Cell:
    gained = shift.shift
    return (
        absent("no rank on one system")
        if gained is None
        else quantity(f"{gained:+d}" if gained else "0", gained)
    )


def _overlap(shift: RankShift) -> str:
    if shift.shift is None:
        return ""
    return "apart" if shift.significant else "overlap"


def _slopes(shifts: Sequence[RankShift], names: tuple[str, str], highest: int) -> LineChart:
    """A line for each target from its rank on the baseline to that on the candidate; thin lines are
    rank intervals. Rank 1 is at the top: ranks are drawn below zero."""
    drawn = [shift for shift in shifts if shift.shift is not None][:_MOST_SLOPES]
    count, ranks = len(drawn), range(1, highest + 1)
    return LineChart(
        id="rank-slopes",
        title="Rank of each target, by the rate of every workload",
        # A series without a name, for the interval on each system, is in no legend.
        series=(*(shift.subject for shift in drawn), *("" for _ in range(2 * count))),
        looks=(
            *(Look(hue=number) for number in range(count)),
            *(Look(hue=number % count, stroke=Stroke.THIN) for number in range(2 * count)),
        ),
        x=Scale(
            title="system",
            log=False,
            low=-0.25,
            high=1.25,
            ticks=((0.0, short(names[0], _NAME)), (1.0, short(names[1], _NAME))),
        ),
        y=Scale(
            title="rank",
            log=False,
            low=-highest - 0.5,
            high=-0.5,
            ticks=tuple((-float(rank), str(rank)) for rank in ranks),
        ),
        lines=(*_lines(drawn), *_intervals(drawn)),
    )


def _lines(drawn: Sequence[RankShift]) -> Iterator[Line]:
    """Yield the slopes; those of targets that tie are a little apart."""
    tied: Counter[tuple[int, int]] = Counter()
    for number, shift in enumerate(drawn):
        points, texts = [], []
        for at, standing in enumerate((shift.baseline, shift.candidate)):
            rank = standing.rank or 0
            points.append((float(at), -rank - _APART * tied[at, rank]))
            texts.append(f"{shift.subject}: rank {rank}")
            tied[at, rank] += 1
        label = shift.subject
        yield Line(label=label, series=number, points=tuple(points), texts=tuple(texts))


def _intervals(drawn: Sequence[RankShift]) -> Iterator[Line]:
    """Yield the rank intervals, outside of the slopes and next to each other."""
    for number, shift in enumerate(drawn):
        for at, standing in enumerate((shift.baseline, shift.candidate)):
            low, high = standing.interval or (0, 0)
            if low < high:
                x = at + (1 if at else -1) * _STEP * (number + 1)
                yield Line(
                    label=f"{shift.subject}: rank interval {low} to {high}",
                    series=len(drawn) * (1 + at) + number,
                    points=((x, -float(low)), (x, -float(high))),
                )
