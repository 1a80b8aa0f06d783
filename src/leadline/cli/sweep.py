"""The load curve of a sweep while it is measured: each level's throughput and latency so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from leadline.archive.records import Derived, TrialRecord, TrialStatus
from leadline.metrics import Metric, Op
from leadline.plan.models import Cell, Plan
from leadline.report.fitting import filled
from leadline.report.wording import count_text
from leadline.units import format_iops, format_latency
from leadline.visible import visible

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
    """A level of a sweep. `over` counts its trials that ended, with a result or without."""

    cell: Cell
    results: list[_Result] = field(default_factory=list)
    over: int = 0

    @property
    def iops(self) -> float | None:
        """The median of the trials so far."""
        return median(one.iops for one in self.results) if self.results else None

    @property
    def latency(self) -> str:
        """`p99 4.2 ms`, of the trials so far the one in the middle; the mean where a trial has too
        few I/Os for p99; empty where there is none. The report merges the trials' histograms
        instead."""
        for metric, name in _LATENCIES:
            values = [one.latencies.get(metric) for one in self.results]
            told = [value for value in values if value is not None]
            if told and len(told) == len(values):
                return f"{name} {format_latency(median(told))}"
        return ""


class Sweeps:
    """Every target and workload with its levels. Those that a run adds when it has seen results
    become known when they start."""

    def __init__(self, plan: Plan) -> None:
        self._repeats = plan.repeats
        self._levels: dict[Key, list[Level]] = {}
        for cell in plan.cells:
            self._add(cell)

    def started(self, cell: Cell) -> None:
        if not any(one.cell.level == cell.level for one in self._levels.get(_key(cell), ())):
            self._add(cell)

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
        if not levels or block + 1 < self._repeats:
            return ""
        level = self._of(cell)
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
        levels = self._sweep(cell)
        if not levels:
            return ()
        at = levels.index(self._of(cell))
        first = max(0, min(at - _MOST_LINES // 2, len(levels) - _MOST_LINES))
        shown = levels[first : first + _MOST_LINES]
        highest = max((one.iops or 0.0 for one in levels), default=0.0)
        texts = [self._texts(one) for one in shown]
        names, rates, latencies, trials = (
            max(len(one[place]) for one in texts) for place in range(4)
        )
        names = min(names, max(8, width // 4))
        bar = max(0, min(_WIDEST_BAR, width - names - rates - latencies - trials - 10))
        lines = []
        for one, (name, rate, latency, count) in zip(shown, texts, strict=True):
            mark = "▸" if one is levels[at] else " "
            drawn = "█" * round(bar * (one.iops or 0.0) / highest) if highest > 0 else ""
            line = f"{mark} {filled(name, names)}  {drawn.ljust(bar)}  {rate.rjust(rates)}"
            lines.append(f"{line}  {latency.ljust(latencies)}  {count}".rstrip()[:width])
        if len(shown) < len(levels):
            lines.append(f"  {len(levels) - len(shown)} further levels")
        return tuple(lines)

    def _texts(self, level: Level) -> tuple[str, str, str, str]:
        rate = "…" if level.iops is None else f"{format_iops(level.iops)} IOPS"
        if level.iops is None and level.over:
            rate = "no result"
        done = f"{level.over} of {self._repeats}" if 0 < level.over < self._repeats else ""
        return visible(level.cell.level), rate, level.latency, done

    def _add(self, cell: Cell) -> None:
        levels = self._levels.setdefault(_key(cell), [])
        levels.append(Level(cell=cell))
        levels.sort(key=_order)

    def _of(self, cell: Cell) -> Level:
        return next(one for one in self._levels[_key(cell)] if one.cell.level == cell.level)

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
    ops = cell.workload.phases[0].pattern.ops if cell.workload.phases else tuple(Op)
    parts = [one for one in derived.operations if one.op in ops and one.op is not Op.TOTAL]
    rates = [one.metrics.get(Metric.IOPS) for one in parts]
    told = [rate for rate in rates if rate is not None]
    if not told or len(told) < len(rates):
        return None
    latencies: dict[Metric, float | None] = {}
    for metric, _ in _LATENCIES:
        values = [one.metrics.get(metric) for one in parts]
        known = [value for value in values if value is not None]
        # Of reads and writes the worse; a part of them would pass for all.
        latencies[metric] = max(known) if len(known) == len(values) else None
    return _Result(iops=sum(told), latencies=latencies)
