"""What a drill cost the clients: rate and latency before, during and after its event.

All times are seconds from the begin of the event; they come from fio's log of completion latencies,
the marks of the drill, and the samples of the cluster. Rates are those of whole seconds, all
directions added up.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

import numpy as np

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.trial import StoredTrial
from leadline.formats.ceph.status import ClusterSample, MissedSample
from leadline.formats.drill import DrillMark, Mark
from leadline.formats.fio.histogram_logs import ROW_S, LatencyRow
from leadline.formats.result import FormatError
from leadline.metrics import MARGIN
from leadline.plan.drill import Drill
from leadline.stats.histogram import LatencyHistogram, samples_needed

# The rate is back when its mean over so many seconds is, then and in all that follow.
HOLD_S = 5
# The margin of the rate before is that of comparisons, or so many standard deviations of its
# seconds, whichever is more. The mean of five seconds is hardly ever so far off by chance.
DEVIATIONS = 2.0
# A second with fewer I/Os has no p99.
_FEWEST_IN_A_SECOND = 100
_FEWEST_BEFORE = 3


class PhaseName(StrEnum):
    """`before` the event; `during` it, until it is undone (never with a host that was added); in
    `recovery` until the cluster is whole; `after` that. Without a cluster's health there is no
    recovery."""

    BEFORE = "before"
    DURING = "during"
    RECOVERY = "recovery"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillPhase:
    """A phase with its I/Os. `iops` is their number by its seconds, `histogram` their completion
    latencies."""

    name: PhaseName
    begin_s: float
    end_s: float
    iops: float
    histogram: LatencyHistogram

    @property
    def latency_p99_s(self) -> float | None:
        """The 99th percentile of latency; None with too few I/Os."""
        return _p99(self.histogram, samples_needed(0.99))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSecond:
    """One second from `begin_s` on; `latency_p99_s` is None with too few I/Os."""

    begin_s: int
    iops: float
    latency_p99_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySample:
    """The recovery traffic of the cluster in bytes per second, as Ceph reports it."""

    at_s: float
    recovering_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledTrial:
    """The drill of one trial.

    `ended_s`: the event was undone (None: a host that was added stays); `whole_s`: all OSDs were
    up and all PGs active+clean again (None: not within the bound, or no Ceph cluster).
    `longest_gap_s` is the longest time without a completed I/O since the event began, at most ROW_S
    too long; it began at `gap_begin_s`.
    `back_s`: from then on the rate was at least `floor_iops`; None where it was not back in the
    trial. `lost_ios` are those missing from the rate before until then, in the seconds below
    `floor_iops`. `recovered_bytes` moved in recovery; None without samples.
    """

    trial: str
    ended_s: float | None
    whole_s: float | None
    phases: tuple[DrillPhase, ...]
    floor_iops: float
    longest_gap_s: float
    gap_begin_s: float
    back_s: float | None
    lost_ios: float
    recovered_bytes: float | None
    seconds: tuple[DrillSecond, ...]
    recovery: tuple[RecoverySample, ...]

    def phase(self, name: PhaseName) -> DrillPhase | None:
        return next((phase for phase in self.phases if phase.name is name), None)

    @property
    def before_iops(self) -> float:
        return self.phases[0].iops

    @property
    def lost_s(self) -> float:
        """The lost I/Os as seconds of the rate before."""
        return self.lost_ios / self.before_iops


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The mean over trials with its 95 % interval (Student's t); None where a trial has no value,
    and no interval with one trial."""

    value: float | None
    interval: tuple[float, float] | None
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingTrial:
    """A trial without an answer. `fact` is the error of the trial, or of its log; empty for one
    whose drill did not begin."""

    trial: str
    status: TrialStatus
    fact: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMean:
    """A phase over all trials of a cell: the mean rate, its ratio to the rate before in each trial,
    and p99 of all trials' I/Os."""

    name: PhaseName
    iops: Mean
    ratio: Mean
    latency_p99_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledCell:
    """The drills of a cell's trials. Times are in seconds from the begin of the event."""

    target: str
    workload: str
    level: str
    drill: Drill
    trials: tuple[DrilledTrial, ...]
    missing: tuple[MissingTrial, ...]

    @property
    def phases(self) -> tuple[PhaseMean, ...]:
        found = []
        for name in PhaseName:
            pairs = [(trial, phase) for trial in self.trials if (phase := trial.phase(name))]
            if not pairs or len(pairs) < len(self.trials):
                continue
            merged = LatencyHistogram.merged(phase.histogram for _, phase in pairs)
            found.append(
                PhaseMean(
                    name=name,
                    iops=mean_of([phase.iops for _, phase in pairs]),
                    ratio=mean_of([phase.iops / trial.before_iops for trial, phase in pairs]),
                    latency_p99_s=_p99(merged, samples_needed(0.99)),
                )
            )
        return tuple(found)

    @property
    def longest_gap_s(self) -> Mean:
        return mean_of([trial.longest_gap_s for trial in self.trials])

    @property
    def back_s(self) -> Mean:
        return mean_of([trial.back_s for trial in self.trials])

    @property
    def whole_s(self) -> Mean:
        return mean_of([trial.whole_s for trial in self.trials])

    @property
    def lost_s(self) -> Mean:
        return mean_of([trial.lost_s for trial in self.trials])

    @property
    def recovered_bytes(self) -> Mean:
        return mean_of([trial.recovered_bytes for trial in self.trials])


def find_drills(run: Run) -> tuple[DrilledCell, ...]:
    """Return the drills of a run by cell, in the order of the plan; empty without any."""
    stored = {trial.record.trial: trial for trial in run.trials}
    cells = []
    for number, cell in enumerate(run.plan.cells):
        drill = cell.workload.drill
        if drill is None:
            continue
        mine = [
            stored[planned.id]
            for planned in run.plan.trials
            if planned.cell == number and planned.id in stored
        ]
        found = [_drilled(trial, drill) for trial in mine]
        cells.append(
            DrilledCell(
                target=cell.target,
                workload=cell.workload.name,
                level=cell.level,
                drill=drill,
                trials=tuple(one for one in found if isinstance(one, DrilledTrial)),
                missing=tuple(one for one in found if isinstance(one, MissingTrial)),
            )
        )
    return tuple(cells)


def _drilled(trial: StoredTrial, drill: Drill) -> DrilledTrial | MissingTrial:
    record = trial.record
    fact = record.problem.fact if record.problem is not None else ""
    try:
        marks = mark_times(trial)
        wanted = {Mark.BEGIN, Mark.ENDED if drill.event.is_undone else Mark.BEGUN}
        if record.status is TrialStatus.COMPLETED and wanted <= marks.keys():
            drilled = drill_of(record.trial, trial.latency_rows, marks, trial.cluster)
            if drilled is not None:
                return drilled
    except FormatError as error:
        fact = error.fact
    return MissingTrial(trial=record.trial, status=record.status, fact=fact)


def mark_times(trial: StoredTrial) -> Mapping[Mark, float]:
    """Return the marks of a trial's drill in seconds since 1970. Raises FormatError."""
    return {mark.mark: _epoch_s(mark.at) for mark in trial.drill if isinstance(mark, DrillMark)}


def drill_of(
    name: str,
    rows: Sequence[LatencyRow],
    marks: Mapping[Mark, float],
    cluster: Sequence[ClusterSample | MissedSample] = (),
) -> DrilledTrial | None:
    """Compute the drill of a trial; None with fewer than three whole seconds of I/O before the
    event or none after its begin.

    Args:
        rows: in order of time, in seconds since 1970, as `marks`, which have the begin, and the end
            of an event that is undone.
    """
    zero_s = marks[Mark.BEGIN]
    ended_s = marks[Mark.ENDED] - zero_s if Mark.ENDED in marks else None
    whole_s = marks[Mark.WHOLE] - zero_s if Mark.WHOLE in marks else None
    times_s = np.array([row.at_s - zero_s for row in rows])
    seconds = _seconds(times_s, [row.histogram for row in rows])
    before = [second.iops for second in seconds if second.begin_s < 0]
    after = [second for second in seconds if second.begin_s >= 0]
    if len(before) < _FEWEST_BEFORE or not after or not sum(before):
        return None
    mean = statistics.fmean(before)
    floor_iops = mean - max(MARGIN * mean, DEVIATIONS * statistics.stdev(before))
    back_s = find_return([second.iops for second in after], floor_iops)
    gap_begin_s, longest_gap_s = find_longest_gap(times_s)
    until = len(after) if back_s is None else back_s
    recovery = tuple(
        RecoverySample(at_s=at_s, recovering_bps=sample.status.recovering_bps)
        for sample in cluster
        if isinstance(sample, ClusterSample) and (at_s := _epoch_s(sample.at) - zero_s) >= 0
    )
    return DrilledTrial(
        trial=name,
        ended_s=ended_s,
        whole_s=whole_s,
        phases=_phases(rows, times_s, ended_s, whole_s),
        floor_iops=floor_iops,
        longest_gap_s=longest_gap_s,
        gap_begin_s=gap_begin_s,
        back_s=back_s,
        lost_ios=sum(mean - second.iops for second in after[:until] if second.iops < floor_iops),
        recovered_bytes=_bytes(recovery) if recovery else None,
        seconds=seconds,
        recovery=recovery,
    )


def find_return(rates: Sequence[float], floor: float) -> int | None:
    """Return the first second from which on every mean of HOLD_S seconds is at least `floor`; None
    where the last one is below it, or there are fewer seconds."""
    if len(rates) < HOLD_S:
        return None
    means = np.convolve(np.asarray(rates, dtype=np.float64), np.full(HOLD_S, 1 / HOLD_S), "valid")
    below = np.flatnonzero(means < floor)
    if not len(below):
        return 0
    first = int(below[-1]) + 1
    return first if first < len(means) else None


def find_longest_gap(times_s: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return begin and length of the longest time without a row that ends after 0. A row ends the
    ROW_S in which its I/Os completed, so that the gap is at most ROW_S shorter."""
    gaps = [
        (after_s - before_s, before_s)
        for before_s, after_s in pairwise(sorted(times_s))
        if after_s > 0
    ]
    length_s, begin_s = max(gaps, default=(0.0, 0.0))
    return begin_s, length_s


def mean_of(values: Sequence[float | None]) -> Mean:
    """Compute the mean with its interval of Student's t, which is not below 0."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Mean(value=None, interval=None, trials=len(values))
    mean = statistics.fmean(known)
    if len(known) < 2:
        return Mean(value=mean, interval=None, trials=1)
    from scipy.special import stdtrit

    error = statistics.stdev(known) / math.sqrt(len(known))
    reach = float(stdtrit(len(known) - 1, 0.975)) * error
    return Mean(value=mean, interval=(max(0.0, mean - reach), mean + reach), trials=len(known))


def _seconds(
    times_s: np.ndarray, histograms: Sequence[LatencyHistogram]
) -> tuple[DrillSecond, ...]:
    """Return the whole seconds from the first to the last row, those without I/O included. The I/Os
    of a row are spread over the ROW_S before it."""
    if not len(times_s):
        return ()
    first, last = math.ceil(times_s[0] - ROW_S), math.floor(times_s[-1])
    counts: dict[int, float] = {}
    parts: dict[int, list[LatencyHistogram]] = {}
    for at_s, histogram in zip(times_s.tolist(), histograms, strict=True):
        place = math.floor(at_s)
        parts.setdefault(place, []).append(histogram)
        inside = min(1.0, (at_s - place) / ROW_S)
        for second, share in ((place, inside), (place - 1, 1 - inside)):
            counts[second] = counts.get(second, 0.0) + share * histogram.count
    return tuple(
        DrillSecond(
            begin_s=second,
            iops=counts.get(second, 0.0),
            latency_p99_s=_p99(LatencyHistogram.merged(parts.get(second, ())), _FEWEST_IN_A_SECOND),
        )
        for second in range(first, last)
    )


def _phases(
    rows: Sequence[LatencyRow], times_s: np.ndarray, ended_s: float | None, whole_s: float | None
) -> tuple[DrillPhase, ...]:
    """Return the phases in which there is time; a row belongs to the phase in which it ends."""
    first_s, last_s = float(times_s[0]) - ROW_S, float(times_s[-1])
    # Where the health is unknown, all that follows is after the event.
    ended_s = ended_s or 0.0
    edges = (first_s, 0.0, ended_s, max(ended_s, whole_s or 0.0), last_s)
    found = []
    for name, (begin_s, end_s) in zip(PhaseName, pairwise(edges), strict=True):
        end_s = min(end_s, last_s)
        if end_s - begin_s <= 0:
            continue
        mine = [
            row.histogram
            for row, at_s in zip(rows, times_s, strict=True)
            if begin_s < at_s <= end_s
        ]
        merged = LatencyHistogram.merged(mine)
        found.append(
            DrillPhase(
                name=name,
                begin_s=begin_s,
                end_s=end_s,
                iops=merged.count / (end_s - begin_s),
                histogram=merged,
            )
        )
    return tuple(found)


def _p99(histogram: LatencyHistogram, fewest: int) -> float | None:
    return histogram.quantile_s(0.99) if histogram.count >= fewest else None


def _bytes(samples: Sequence[RecoverySample]) -> float:
    """Add up the traffic; a sample holds until the next one."""
    return sum(
        before.recovering_bps * (after.at_s - before.at_s) for before, after in pairwise(samples)
    )


def _epoch_s(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
