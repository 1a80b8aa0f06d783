"""The same subjects on several clusters of one run, each beside what it was on the first.

Descriptive: ratios of what was measured, with their range over the pairs of trials that ran in the
same block. Judging whether a difference is one is for a comparison with intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from leadline.analysis.cells import CellFigure, MetricFigure
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.metrics import Metric, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`ratio` = other / base of the figures shown; `low` and `high` are the extremes of the same
    ratio over pairs of trials of one block (`pairs` of them, which may be none)."""

    ratio: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster under one condition. `rtt_s` is the median over trials of the longest round trip
    between its zones that was measured before each; None where there is no such network."""

    name: str
    rtt_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One subject, workload, level and operation at two places. `depth` counts the I/Os that were
    to be in flight (None: a user's own job file knows). `busy` is the largest share of this
    machine's cores that was busy in a median trial of either, starting and ending the engine
    included."""

    subject: str
    depth: int | None
    base: CellFigure
    other: CellFigure
    changes: Mapping[Metric, Change]
    busy: float | None

    def extra_latency_s(self) -> float | None:
        """What a mean I/O took longer, in seconds."""
        ours = self.base.metric(Metric.LATENCY_MEAN).value
        theirs = self.other.metric(Metric.LATENCY_MEAN).value
        return None if ours is None or theirs is None else theirs - ours


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """All subjects that are at both places; `alone` names those that are at one of them only."""

    base: Place
    other: Place
    rows: tuple[Row, ...]
    alone: tuple[str, ...]

    @property
    def added_rtt_s(self) -> float | None:
        """Seconds by which a round trip between zones takes longer at the other place."""
        if self.base.rtt_s is None or self.other.rtt_s is None:
            return None
        return self.other.rtt_s - self.base.rtt_s


def side_by_side(run: Run, figures: Sequence[CellFigure]) -> tuple[SideBySide, ...]:
    """Every further place of the plan beside its first; empty where there is only one."""
    targets = [target for target in run.plan.targets if target.place]
    places = list(dict.fromkeys(target.place for target in targets))
    if len(places) < 2:
        return ()
    subject_of = {target.name: (target.subject, target.place) for target in targets}
    at: dict[tuple[str, str, str, Op | None], dict[str, CellFigure]] = {}
    for figure in figures:
        if figure.target in subject_of:
            subject, place = subject_of[figure.target]
            key = (subject, figure.workload, figure.level, figure.op)
            at.setdefault(key, {})[place] = figure
    blocks = {trial.id: trial.block for trial in run.plan.trials}
    busy, depths = _busy(run), _depths(run)
    base = places[0]
    return tuple(
        SideBySide(
            base=Place(name=base, rtt_s=_round_trip(run, base)),
            other=Place(name=other, rtt_s=_round_trip(run, other)),
            rows=tuple(
                Row(
                    subject=subject,
                    depth=depths.get((*_at(here[base]), here[base].op)),
                    base=here[base],
                    other=here[other],
                    changes=_changes(here[base], here[other], blocks),
                    busy=max(
                        (busy[_at(one)] for one in (here[base], here[other]) if _at(one) in busy),
                        default=None,
                    ),
                )
                for (subject, *_), here in at.items()
                if base in here and other in here
            ),
            alone=_alone(subject_of.values(), base, other),
        )
        for other in places[1:]
    )


def _alone(found: Iterable[tuple[str, str]], base: str, other: str) -> tuple[str, ...]:
    places: dict[str, set[str]] = {}
    for subject, place in found:
        places.setdefault(subject, set()).add(place)
    return tuple(one for one, at in places.items() if len(at & {base, other}) == 1)


def _changes(
    base: CellFigure, other: CellFigure, blocks: Mapping[str, int]
) -> Mapping[Metric, Change]:
    found = {}
    for metric in Metric:
        change = _change(base.metric(metric), other.metric(metric), blocks)
        if change is not None:
            found[metric] = change
    return found


def _change(base: MetricFigure, other: MetricFigure, blocks: Mapping[str, int]) -> Change | None:
    if not base.value or other.value is None:
        return None
    ours, theirs = _by_block(base, blocks), _by_block(other, blocks)
    ratios = [theirs[block] / ours[block] for block in ours if block in theirs and ours[block]]
    ratio = other.value / base.value
    # A percentile of all trials together may be had where no trial alone has the I/Os for it.
    return Change(
        ratio=ratio,
        low=min(ratios, default=ratio),
        high=max(ratios, default=ratio),
        pairs=len(ratios),
    )


def _by_block(figure: MetricFigure, blocks: Mapping[str, int]) -> dict[int, float]:
    return {
        blocks[one.trial]: one.value
        for one in figure.trials
        if one.value is not None and one.trial in blocks
    }


def _round_trip(run: Run, place: str) -> float | None:
    names = {target.name for target in run.plan.targets if target.place == place}
    longest = [
        max(one.median_s for one in trial.record.round_trips)
        for trial in run.trials
        if trial.record.target in names and trial.record.round_trips
    ]
    return median(longest) if longest else None


def _at(figure: CellFigure) -> tuple[str, str, str]:
    return figure.target, figure.planned_workload, figure.level


def _depths(run: Run) -> Mapping[tuple[str, str, str, Op | None], int]:
    """I/Os asked to be in flight, by cell and operation; a mixed phase's operations share them."""
    return {
        (cell.target, cell.workload.name, cell.level, op): phase.iodepth * phase.numjobs
        for cell in run.plan.cells
        for phase in cell.workload.phases
        for op in (*phase.pattern.ops, Op.TOTAL)
    }


def _busy(run: Run) -> Mapping[tuple[str, str, str], float]:
    """Median share of this machine's cores that was busy, by target, workload and level."""
    shares: dict[tuple[str, str, str], list[float]] = {}
    for trial in run.trials:
        record = trial.record
        if record.status is TrialStatus.COMPLETED and record.processor is not None:
            key = (record.target, record.workload, record.level)
            shares.setdefault(key, []).append(record.processor.busy_share)
    return {key: median(values) for key, values in shares.items()}
