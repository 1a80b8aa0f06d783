"""What each client got of a level: the slowest beside the median, not the average of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialStatus
from leadline.formats.output import EngineOutput, JobResult, Operation, by_name
from leadline.metrics import Metric, Op
from leadline.plan.models import Workload
from leadline.stats.histogram import LatencyHistogram, samples_needed

_P99 = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFigures:
    """One client's part in one trial: I/Os per second, seconds; None where not told, and a
    percentile also where it has too few I/Os. `client` names the client as the engine does."""

    trial: str
    client: str
    op: Op
    iops: float | None
    latency_mean_s: float | None
    latency_p99_s: float | None
    runtime_s: float | None
    histogram: LatencyHistogram | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSummary:
    """One client over the trials of a level: the median of its rates, the percentile of all its
    I/Os together."""

    client: str
    iops: float | None
    latency_p99_s: float | None
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """How evenly a level's clients fared, in the order of their rates, the slowest first.

    `iops_share` is the slowest client's rate over that of the median client (1: nobody had less),
    and `iops_shares` the same of each trial by itself; `p99_ratio` is the worst client's p99 over
    the median client's. None where not every client tells it: the one that is silent may be the
    slowest. `lost` counts clients that the plan asked for and some trial has no figures of.
    """

    level: str
    op: Op
    clients: tuple[ClientSummary, ...]
    iops_share: float | None
    iops_shares: tuple[float, ...]
    p99_ratio: float | None
    lost: int

    @property
    def slowest(self) -> ClientSummary | None:
        """The client with the lowest rate."""
        return self.clients[0] if self.iops_share is not None else None

    @property
    def latest(self) -> ClientSummary | None:
        """The client with the highest p99."""
        if self.p99_ratio is None:
            return None
        return max(self.clients, key=lambda one: one.latency_p99_s or 0.0)


def fairness_of(run: Run, cell: int, op: Op) -> Fairness | None:
    """Of a cell's completed trials; None where nothing tells clients apart, or there is one."""
    planned = {trial.id for trial in run.plan.trials if trial.cell == cell}
    workload = run.plan.cells[cell].workload
    trials = [
        clients_of(stored, workload, op)
        for stored in run.trials
        if stored.record.trial in planned and stored.record.status is TrialStatus.COMPLETED
    ]
    trials = [one for one in trials if one]
    names = dict.fromkeys(one.client for figures in trials for one in figures)
    if max(len(names), workload.clients) < 2 or not names:
        return None
    summaries = [_summary(name, trials) for name in names]
    fewest = min(len(figures) for figures in trials)
    return Fairness(
        level=run.plan.cells[cell].level,
        op=op,
        clients=tuple(
            sorted(summaries, key=lambda one: (one.iops is None, one.iops or 0.0, one.client))
        ),
        iops_share=_share([one.iops for one in summaries]),
        iops_shares=tuple(
            share
            for figures in trials
            if (share := _share([one.iops for one in figures])) is not None
        ),
        p99_ratio=_ratio([one.latency_p99_s for one in summaries]),
        lost=max(0, max(workload.clients, len(names)) - fewest),
    )


def clients_of(stored: StoredTrial, workload: Workload, op: Op) -> tuple[ClientFigures, ...]:
    """Each client's figures in a trial; empty where its output cannot be read or tells no clients.

    Of a workload that Leadline made, only jobs of its own phases count: what else ran beside them
    were neighbours."""
    output = stored.output
    if not isinstance(output, EngineOutput):
        return ()
    own = {phase.name for phase in workload.phases}
    jobs = [job for job in output.jobs if job.host and (not own or job.name in own)]
    names = dict.fromkeys(job.host for job in jobs)
    return tuple(
        figures
        for name in names
        for figures in _figures(
            stored.record.trial, name, op, [job for job in jobs if job.host == name]
        )
    )


def _figures(trial: str, client: str, op: Op, jobs: Sequence[JobResult]) -> Iterable[ClientFigures]:
    found = [one for parts in by_name(jobs).values() for one in parts if one.op is op]
    if not found:
        return
    operation: Operation = found[0]
    metrics = operation.metrics()
    yield ClientFigures(
        trial=trial,
        client=client,
        op=op,
        iops=operation.iops,
        latency_mean_s=metrics[Metric.LATENCY_MEAN],
        latency_p99_s=metrics[Metric.LATENCY_P99],
        runtime_s=operation.runtime_s,
        histogram=operation.histogram,
    )


def _summary(name: str, trials: Sequence[Sequence[ClientFigures]]) -> ClientSummary:
    mine = [one for figures in trials for one in figures if one.client == name]
    rates = [one.iops for one in mine if one.iops is not None]
    histograms = [one.histogram for one in mine if one.histogram is not None]
    p99_s = mine[0].latency_p99_s if len(mine) == 1 else None
    if len(histograms) == len(mine):
        merged = LatencyHistogram.merged(histograms)
        enough = merged.count >= samples_needed(_P99)
        p99_s = merged.quantile_s(_P99) if enough else None
    return ClientSummary(
        client=name,
        iops=median(rates) if len(rates) == len(mine) else None,
        latency_p99_s=p99_s,
        trials=len(mine),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    """The values where all are known and there are two at least; else none."""
    given = list(values)
    known = [one for one in given if one is not None]
    return known if len(known) == len(given) and len(known) > 1 else []


def _share(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    middle = median(known) if known else 0.0
    return min(known) / middle if middle > 0 else None


def _ratio(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    middle = median(known) if known else 0.0
    return max(known) / middle if middle > 0 else None
