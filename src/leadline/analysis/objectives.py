"""What a ranking goes by: the numbers of a run that count, each with its weight."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from leadline import errors
from leadline.analysis.figures import CellFigure, MetricFigure, Selector, parse_selector
from leadline.analysis.workloads import STREAMING_BYTES, Key, Traits, rate_told, traits_of
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.metrics import Metric, Op

# What people use storage for, as data: which I/O counts for each, and how much.
#  The weights are judgements, not measurements: docs/guides/choose-a-pool.md gives the reasons,
# and `--objective` puts a user's own in their place.

_SMALL_BYTES = 16 * 1024


class Access(StrEnum):
    """Kubernetes' access modes: `rwo` is mounted by one node, `rwx` by many at once."""

    RWO = "rwo"
    RWX = "rwx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A part of a use case: I/O of an operation, by its traits, and the metrics that count of it
    with their weights. `essential`: a run with none of the use case's essential parts says nothing
    about it. Block sizes in bytes, both ends included; `mixed` and `fsync` None is any."""

    name: str
    op: Op
    random: bool
    metrics: Mapping[Metric, float]
    smallest: int = 0
    largest: int = 1 << 62
    mixed: bool | None = None
    fsync: bool | None = None
    essential: bool = False

    @property
    def weight(self) -> float:
        return sum(self.metrics.values())

    def fits(self, op: Op, traits: Traits) -> bool:
        """Whether I/O is of this kind; what nobody told fits nothing."""
        return (
            op is self.op
            and traits.random is self.random
            and traits.block_bytes is not None
            and self.smallest <= traits.block_bytes <= self.largest
            and self.mixed in (None, traits.mixed)
            and self.fsync in (None, traits.fsync)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCase:
    """`title` as in a sentence (`for a database`); `beyond` is what no such measurement tells;
    `access` is what it must allow by nature."""

    name: str
    title: str
    sentence: str
    needs: tuple[Need, ...]
    beyond: tuple[str, ...] = ()
    access: Access | None = None


def _metrics(iops: float = 0.0, p99: float = 0.0, bandwidth: float = 0.0) -> Mapping[Metric, float]:
    given = {Metric.IOPS: iops, Metric.LATENCY_P99: p99, Metric.BANDWIDTH: bandwidth}
    return MappingProxyType({metric: weight for metric, weight in given.items() if weight})


def _small(name: str, op: Op, *, essential: bool, iops: float, p99: float) -> Need:
    """Random I/O of up to 16 KiB. Reads and writes of a mixed load count as its total, once."""
    return Need(
        name=name,
        op=op,
        random=True,
        mixed=op is Op.TOTAL,
        largest=_SMALL_BYTES,
        metrics=_metrics(iops=iops, p99=p99),
        essential=essential,
    )


def _large(name: str, op: Op, *, essential: bool, weight: float) -> Need:
    """Sequential I/O of 64 KiB and more."""
    return Need(
        name=name,
        op=op,
        random=False,
        mixed=False,
        smallest=STREAMING_BYTES,
        metrics=_metrics(bandwidth=weight),
        essential=essential,
    )


_RANDOM_WRITES = "small random writes"
_RANDOM_READS = "small random reads"
_MIXED = "small random reads and writes together"
_LARGE_READS = "large sequential reads"
_LARGE_WRITES = "large sequential writes"

USE_CASES: tuple[UseCase, ...] = (
    UseCase(
        name="database",
        title="a database",
        sentence="a transaction ends when its log is written, a query when its pages are read",
        needs=(
            Need(
                name="log writes (sequential, with fsync)",
                op=Op.WRITE,
                random=False,
                largest=STREAMING_BYTES,
                fsync=True,
                metrics=_metrics(iops=1, p99=2),
                essential=True,
            ),
            _small(_RANDOM_WRITES, Op.WRITE, essential=True, iops=1, p99=2),
            _small(_RANDOM_READS, Op.READ, essential=False, iops=1, p99=1),
            _small(_MIXED, Op.TOTAL, essential=True, iops=1, p99=1),
        ),
        beyond=("what a database's own cache and commit groups make of it",),
    ),
    UseCase(
        name="virtual-machines",
        title="virtual machines",
        sentence="many systems do small random reads and writes at once",
        needs=(
            _small(_MIXED, Op.TOTAL, essential=True, iops=2, p99=2),
            _small(_RANDOM_READS, Op.READ, essential=True, iops=1, p99=1),
            _small(_RANDOM_WRITES, Op.WRITE, essential=True, iops=1, p99=1),
        ),
        beyond=("how many virtual machines it bears at once (`leadline scale`)",),
    ),
    UseCase(
        name="streaming",
        title="streaming",
        sentence="large files are read from end to end, and come in now and then",
        needs=(
            _large(_LARGE_READS, Op.READ, essential=True, weight=3),
            _large(_LARGE_WRITES, Op.WRITE, essential=False, weight=1),
        ),
        beyond=("many readers at different places of the same files",),
    ),
    UseCase(
        name="backup",
        title="backups",
        sentence="data is written from end to end, and read when it must be restored",
        needs=(
            _large(_LARGE_WRITES, Op.WRITE, essential=True, weight=3),
            _large(_LARGE_READS, Op.READ, essential=False, weight=1),
        ),
        beyond=("what compression and deduplication of the backup itself cost",),
    ),
    UseCase(
        name="shared-files",
        title="shared files",
        sentence="many hosts mount one file system and work on files of all sizes",
        needs=(
            _small(_MIXED, Op.TOTAL, essential=True, iops=1, p99=1),
            _small(_RANDOM_READS, Op.READ, essential=True, iops=1, p99=1),
            _small(_RANDOM_WRITES, Op.WRITE, essential=True, iops=1, p99=1),
            _large(_LARGE_READS, Op.READ, essential=False, weight=1),
            _large(_LARGE_WRITES, Op.WRITE, essential=False, weight=1),
        ),
        beyond=(
            "making, listing and locking of files (metadata)",
            "several hosts at work on the same files",
        ),
        access=Access.RWX,
    ),
)


def find_use_case(name: str) -> UseCase:
    """Raises LeadlineError(`usage`) that names the nearest."""
    names = [one.name for one in USE_CASES]
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    for case in USE_CASES:
        if case.name == wanted:
            return case
    near = difflib.get_close_matches(wanted, names, n=1)
    near = near or [one for one in names if wanted and wanted in one][:1]
    raise LeadlineError(
        errors.USAGE,
        f"there is no use case {name!r}",
        context=[f"use cases: {', '.join(names)}"],
        hint=f"did you mean {near[0]!r}?" if near else "`--objective` ranks by your own",
    )


_WORDS = {
    Metric.LATENCY_MEAN: "mean latency",
    Metric.LATENCY_P50: "p50",
    Metric.LATENCY_P95: "p95",
    Metric.LATENCY_P99: "p99",
    Metric.LATENCY_P999: "p99.9",
    Metric.LATENCY_P9999: "p99.99",
}
_NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One number of every target: a metric of a workload, level and operation. `weight` is its
    share; those of a question add up to 1. `need` is the part of a use case that it stands for."""

    workload: str
    level: str
    op: Op
    metric: Metric
    weight: float
    need: str = ""

    @property
    def key(self) -> Key:
        return self.workload, self.level, self.op

    @property
    def name(self) -> str:
        """`random-rw-4k@qd16 write p99`."""
        level = f"@{self.level}" if self.level else ""
        return f"{self.workload}{level} {self.op.value} {metric_word(self.metric)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a run. `name` says it in a few words; `not_measured` are sentences on what
    belongs to it and has no numbers in the run."""

    name: str
    objectives: tuple[Objective, ...]
    not_measured: tuple[str, ...] = ()
    use_case: UseCase | None = None


def metric_word(metric: Metric) -> str:
    return _WORDS.get(metric, metric.value)


def every_rate(run: Run, figures: Sequence[CellFigure]) -> Question:
    """The rate of every workload, level and operation, all of one weight; of mixed I/O reads and
    writes rather than their total. A workload that no target completed stays in: it is missing.

    Raises LeadlineError (`nothing-to-rank`) for a run that tells of no operation.
    """
    table = _Table(run, figures)
    keys = _without_totals(table.traits)
    if not keys:
        raise LeadlineError(
            errors.NOTHING_TO_RANK,
            f"the run {run.id} has no figure of any operation",
            hint=f"`leadline show {run.id}` says what became of its trials",
        )
    objectives = tuple(
        _objective(key, table.rate(key), weight=1 / len(keys), need="") for key in keys
    )
    name = objectives[0].name if len(objectives) == 1 else "the rate of every workload"
    return Question(name=name, objectives=objectives)


def selected(run: Run, figures: Sequence[CellFigure], texts: Sequence[str]) -> Question:
    """What selectors (`write p99`) match; each has the same weight, shared by what it matches.

    Raises LeadlineError (`usage`) for one that is not understood or matches no number.
    """
    table = _Table(run, figures)
    found: dict[tuple[Key, Metric], Objective] = {}
    unmeasured: list[str] = []
    for text in texts:
        selector = parse_selector(text)
        keys = _matched(table, selector)
        if not keys:
            raise _matches_nothing(table, text, selector)
        told = [key for key in keys if table.told(key, selector.metric)]
        if not told:
            raise LeadlineError(
                errors.USAGE,
                f"no target has a {metric_word(selector.metric)} for {text!r}",
                context=[f"measured there: {_measured(table, keys)}"],
                hint=f"`leadline show {run.id}` shows what the run has",
            )
        unmeasured += [
            f"{_objective(key, selector.metric, weight=0, need='').name}: no target has it"
            for key in keys
            if key not in told
        ]
        for key in told:
            one = _objective(key, selector.metric, weight=1 / len(texts) / len(told), need="")
            known = found.get((key, selector.metric))
            whole = replace(one, weight=one.weight + known.weight) if known else one
            found[key, selector.metric] = whole
    return Question(
        name=" and ".join(dict.fromkeys(" ".join(text.split()) for text in texts)),
        objectives=tuple(found.values()),
        not_measured=tuple(dict.fromkeys(unmeasured)),
    )


def for_use_case(run: Run, figures: Sequence[CellFigure], case: UseCase) -> Question:
    """What of the run counts for a use case. A part that was not measured is named, and the others
    are weighed without it.

    Raises LeadlineError (`nothing-to-rank`) where none of the essential parts was measured: what
    is left would be an answer to another question.
    """
    table = _Table(run, figures)
    found: list[Objective] = []
    unmeasured: list[str] = []
    essential = False
    for need in case.needs:
        objectives, lacking = _of_need(table, need)
        found += objectives
        unmeasured += lacking
        essential = essential or (need.essential and bool(objectives))
    if not essential:
        wanted = [need.name for need in case.needs if need.essential]
        raise LeadlineError(
            errors.NOTHING_TO_RANK,
            f"the run {run.id} measured nothing that decides for {case.name}",
            context=[
                f"it needs one of: {'; '.join(wanted)}"
                if len(wanted) > 1
                else f"it needs {wanted[0]}",
                *unmeasured,
                f"measured: {_listed(_names(table.traits))}",
            ],
            hint="measure them, or rank by what there is: `leadline rank --objective ...`",
        )
    total = sum(one.weight for one in found)
    return Question(
        name=case.name,
        objectives=tuple(replace(one, weight=one.weight / total) for one in found),
        not_measured=tuple(unmeasured),
        use_case=case,
    )


def _of_need(table: _Table, need: Need) -> tuple[list[Objective], list[str]]:
    """Objectives of a part, and what of it has no numbers. The part keeps its weight as long as
    one of its metrics is there."""
    keys = [key for key, traits in table.traits.items() if need.fits(key[2], traits)]
    if not keys:
        return [], [f"{need.name}: no workload does them"]
    usable: dict[Metric, list[Key]] = {}
    lacking: list[str] = []
    for metric in need.metrics:
        word = metric_word(metric)
        told = [key for key in keys if table.told(key, metric)]
        blurred = [key for key in told if not table.spread_known(key, metric)]
        if not told:
            lacking.append(f"{word} of {need.name}: not measured")
        elif blurred:
            lacking.append(
                f"{word} of {need.name} ({_listed(_names(blurred))}): some trials have too few "
                "I/Os for it"
            )
        if len(told) > len(blurred):
            usable[metric] = [key for key in told if key not in blurred]
    share = need.weight / (sum(need.metrics[metric] for metric in usable) or 1.0)
    return [
        _objective(key, metric, weight=share * need.metrics[metric] / len(fit), need=need.name)
        for metric, fit in usable.items()
        for key in fit
    ], lacking


def _objective(key: Key, metric: Metric, *, weight: float, need: str) -> Objective:
    workload, level, op = key
    return Objective(workload=workload, level=level, op=op, metric=metric, weight=weight, need=need)


class _Table:
    """The run's figures by what they are of, all targets together."""

    def __init__(self, run: Run, figures: Sequence[CellFigure]) -> None:
        self.traits: Mapping[Key, Traits] = traits_of(run, figures)
        self._figures: dict[Key, list[CellFigure]] = {}
        for figure in figures:
            if figure.op is not None:
                key = (figure.workload, figure.level, figure.op)
                self._figures.setdefault(key, []).append(figure)

    def _of(self, key: Key, metric: Metric) -> Iterable[MetricFigure]:
        return (figure.metric(metric) for figure in self._figures[key])

    def told(self, key: Key, metric: Metric) -> bool:
        """Whether any target has the number."""
        return any(one.value is not None for one in self._of(key, metric))

    def spread_known(self, key: Key, metric: Metric) -> bool:
        """Whether every trial tells the number, wherever a target has it."""
        return all(
            trial.value is not None
            for one in self._of(key, metric)
            if one.value is not None
            for trial in one.trials
        )

    def rate(self, key: Key) -> Metric:
        """The rate by which people tell it, or the other one where no target has that."""
        return rate_told(self.traits[key].rate, lambda metric: self.told(key, metric))


def _without_totals(keys: Iterable[Key]) -> list[Key]:
    """Totals only where reads and writes are not told apart."""
    given = list(keys)
    apart = {(workload, level) for workload, level, op in given if op in (Op.READ, Op.WRITE)}
    return [key for key in given if key[2] is not Op.TOTAL or key[:2] not in apart]


def _matched(table: _Table, selector: Selector) -> list[Key]:
    keys = [key for key in table.traits if selector.matches(*key, selector.metric)]
    return keys if selector.op is Op.TOTAL else _without_totals(keys)


def _matches_nothing(table: _Table, text: str, selector: Selector) -> LeadlineError:
    import difflib

    names = list(dict.fromkeys(workload for workload, _, _ in table.traits))
    near = difflib.get_close_matches(selector.workload or "", names, n=1)
    known = selector.workload is None or selector.workload in names
    hint = "name a workload, level and operation that the run has"
    return LeadlineError(
        errors.USAGE,
        f"the objective {text!r} matches nothing in the run",
        context=[f"it has: {_listed(_names(table.traits))}"],
        hint=f"did you mean {near[0]!r}?" if near and not known else hint,
    )


def _measured(table: _Table, keys: Sequence[Key]) -> str:
    found = [metric for metric in Metric if any(table.told(key, metric) for key in keys)]
    return ", ".join(metric_word(one) for one in found) or "nothing"


def _names(keys: Iterable[Key]) -> list[str]:
    return [f"{workload}{f'@{level}' if level else ''} {op.value}" for workload, level, op in keys]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return (", ".join(names[:_NAMES_SHOWN]) or "nothing") + more
