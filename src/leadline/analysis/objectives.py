"""Objectives: the numbers of a run that a ranking weighs, by use case or as the user selects."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from leadline import errors
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.selectors import Selector, parse_selector
from leadline.analysis.workloads import Key, Traits, reported_rate, traits_of
from leadline.archive.reader import Run
from leadline.data import load_table
from leadline.errors import LeadlineError
from leadline.files import read_small_text
from leadline.metrics import METRIC_WORDS, STAGES, Metric, Op
from leadline.plan.facts import Access
from leadline.plan.yaml_positions import YamlFault, load_positioned
from leadline.text import did_you_mean, shortened
from leadline.units import parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One kind of I/O that a use case needs, and the weights of its metrics.

    `essential`: a run that has none of the essential kinds cannot rank the use case. Block sizes
    are in bytes, both ends included; None for `mixed` and `fsync` matches any."""

    name: str
    op: Op
    random: bool
    weights: Mapping[Metric, float]
    smallest: int = 0
    largest: int = 1 << 62
    mixed: bool | None = None
    fsync: bool | None = None
    essential: bool = False

    @property
    def weight(self) -> float:
        return sum(self.weights.values())

    def fits(self, op: Op, traits: Traits) -> bool:
        """Return whether I/O is of this kind; an unknown trait fits no kind."""
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
    """What storage is used for. `title` as in a sentence (`for a database`); `beyond` lists what
    these measurements do not cover; `access` is the access mode that the use requires."""

    name: str
    title: str
    sentence: str
    needs: tuple[Need, ...]
    beyond: tuple[str, ...] = ()
    access: Access | None = None


def use_cases() -> tuple[UseCase, ...]:
    """Return the built-in use cases, in the order in which they are listed."""
    cases: tuple[UseCase, ...] = load_table("use_cases", tuple[UseCase, ...])
    return cases


def find_use_case(name: str) -> UseCase:
    """Return a built-in use case, or that of a file. Raises LeadlineError(`usage`) that names the
    nearest, or the faults of the file."""
    if name.endswith((".yaml", ".yml")):
        return load_use_case(Path(name))
    names = [case.name for case in use_cases()]
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    for case in use_cases():
        if case.name == wanted:
            return case
    near = difflib.get_close_matches(wanted, names, n=1)
    near = near or [known for known in names if wanted and wanted in known][:1]
    raise LeadlineError(
        errors.USAGE,
        f"there is no use case {name!r}",
        context=[f"use cases: {', '.join(names)}"],
        hint=f"did you mean {near[0]!r}?" if near else "`--objective` ranks by your own",
    )


def load_use_case(path: Path) -> UseCase:
    """Read a use case of the user's own: the keys of `data/use_cases.yaml`, sizes such as `16k`,
    metrics as people write them. Without an essential need all are essential. Raises LeadlineError
    (`usage`) that lists every fault."""

    def refused(fact: str, *context: str) -> LeadlineError:
        hint = "docs/guides/choose-a-pool.md has an example"
        return LeadlineError(errors.USAGE, fact, context=context, hint=hint)

    try:
        given = load_positioned(read_small_text(path)).value
    except YamlFault as fault:
        raise refused(f"the use in {str(path)!r} is not valid YAML", f"{path}: {fault}") from fault
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise refused(f"the use {str(path)!r} cannot be read: {reason}") from error
    if not isinstance(given, dict) or not isinstance(given.get("needs"), list):
        raise refused(f"the use in {str(path)!r} has no list of needs")
    faults: list[str] = []
    document = {"name": path.stem, "title": path.stem, "sentence": "a use of your own", **given}
    document["needs"] = [_need(need, at, faults) for at, need in enumerate(given["needs"], start=1)]
    if faults:
        raise refused(f"the use in {str(path)!r} is not valid", *faults)
    try:
        adapter = TypeAdapter[Any](tuple[UseCase], config=ConfigDict(extra="forbid"))
        case: UseCase = adapter.validate_python((document,))[0]
    except ValidationError as error:
        faults = [
            f"{'.'.join(str(key) for key in fault['loc'][1:])}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise refused(f"the use in {str(path)!r} is not valid", *faults) from error
    if any(need.essential for need in case.needs):
        return case
    return replace(case, needs=tuple(replace(need, essential=True) for need in case.needs))


def _need(given: object, number: int, faults: list[str]) -> object:
    """Return a need with sizes in bytes and contract names of metrics; add what is wrong."""
    if not isinstance(given, dict):
        faults.append(f"need {number}: not a mapping")
        return given
    need = dict(given)
    for key in ("smallest", "largest"):
        if isinstance(need.get(key), str):
            try:
                need[key] = parse_size(need[key])
            except ValueError:
                faults.append(f"need {number}: {key} {need[key]!r} is no size such as 16k")
    weights = need.get("weights")
    if not isinstance(weights, dict) or not weights:
        faults.append(f"need {number}: no weights, such as {{iops: 1, p99: 2}}")
        return need
    need["weights"] = {}
    for word, weight in weights.items():
        metric = METRIC_WORDS.get(str(word).lower())
        number_given = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if metric is None:
            near = did_you_mean(str(word), METRIC_WORDS, f"known: {', '.join(METRIC_WORDS)}")
            faults.append(f"need {number}: there is no metric {word!r}; {near}")
        elif not number_given or not 0 < weight < math.inf:
            faults.append(f"need {number}: the weight {weight!r} of {word} is no number above 0")
        else:
            need["weights"][metric] = weight
    return need


_WORDS = {
    Metric.LATENCY_MEAN: "mean latency",
    Metric.LATENCY_P50: "p50",
    Metric.LATENCY_P95: "p95",
    Metric.LATENCY_P99: "p99",
    Metric.LATENCY_P999: "p99.9",
    Metric.LATENCY_P9999: "p99.99",
    Metric.STORAGE_CPU: "storage-cpu",
    Metric.CLIENT_CPU: "client-cpu",
    Metric.DISK_BYTES: "disk-bytes",
    Metric.NETWORK_BYTES: "network-bytes",
    Metric.STORAGE_MEMORY: "memory",
}


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
        return f"{key_name(self.key)} {metric_word(self.metric)}"


class UnmeasuredCause(StrEnum):
    """Why a part of a question has no number: no target has the metric, no workload does such
    I/O, no trial measured the metric, or some trials have too few I/Os for the percentile."""

    NO_TARGET = "no-target"
    NO_WORKLOAD = "no-workload"
    NO_METRIC = "no-metric"
    TOO_FEW_SAMPLES = "too-few-samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """A part of a question without a number. `subject` is an objective's name or the name of a
    need; `keys` are the cells with too few I/Os."""

    cause: UnmeasuredCause
    subject: str
    metric: Metric | None = None
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The objectives that a ranking weighs, and what belongs to them but has no number in the
    run. `name` describes them in a few words."""

    name: str
    objectives: tuple[Objective, ...]
    not_measured: tuple[Unmeasured, ...] = ()


def metric_word(metric: Metric) -> str:
    return _WORDS.get(metric, metric.value)


def every_rate(run: Run, figures: Sequence[CellFigure]) -> Question:
    """The rate of every workload, level and operation, all of one weight; of mixed I/O reads and
    writes rather than their total. A workload that no target completed stays in: it is missing.

    Raises LeadlineError (`nothing-to-rank`) for a run without a figure of any operation.
    """
    table = _Table(run, figures)
    keys = _without_totals(table.traits)
    if not keys:
        raise LeadlineError(
            errors.NOTHING_TO_RANK,
            f"the run {run.id} has no figure of any operation",
            hint=f"`leadline show {run.id}` lists its trials",
        )
    objectives = tuple(_objective(key, table.rate(key), 1 / len(keys)) for key in keys)
    name = objectives[0].name if len(objectives) == 1 else "the rate of every workload"
    return Question(name=name, objectives=objectives)


def selected(run: Run, figures: Sequence[CellFigure], texts: Sequence[str]) -> Question:
    """Return what selectors (`write p99`, `write p99=3` with a weight) match; the weight of each, 1
    by default, is shared by its matches.

    Raises LeadlineError (`usage`) for a selector or a weight that is invalid, and for a selector
    that matches no number.
    """
    table = _Table(run, figures)
    found: dict[tuple[Key, Metric], Objective] = {}
    unmeasured: list[Unmeasured] = []
    weighed = [_weighed(text) for text in texts]
    total = sum(weight for _, weight in weighed)
    for text, own_weight in weighed:
        selector = parse_selector(text)
        keys = [key for key in table.traits if selector.matches(*key, selector.metric)]
        keys = keys or table.tests_of(selector)
        if selector.metric.is_cost:
            keys = _without_parts(keys, table.traits)
        elif selector.op is not Op.TOTAL:
            keys = _without_totals(keys)
        if not keys:
            raise _matches_nothing(table, text, selector)
        measured = [key for key in keys if table.has_value(key, selector.metric)]
        if not measured:
            words = [
                metric_word(metric)
                for metric in Metric
                if any(table.has_value(key, metric) for key in keys)
            ]
            raise LeadlineError(
                errors.USAGE,
                f"no target has a {metric_word(selector.metric)} for {text!r}",
                context=[f"measured there: {', '.join(words) or 'nothing'}"],
                hint=f"`leadline show {run.id}` shows what the run has",
            )
        unmeasured += [
            Unmeasured(
                cause=UnmeasuredCause.NO_TARGET, subject=_objective(key, selector.metric, 0).name
            )
            for key in keys
            if key not in measured
        ]
        for key in measured:
            known = found.get((key, selector.metric))
            weight = own_weight / total / len(measured) + (known.weight if known else 0.0)
            found[key, selector.metric] = _objective(key, selector.metric, weight)
    return Question(
        name=" and ".join(dict.fromkeys(" ".join(text.split()) for text in texts)),
        objectives=tuple(found.values()),
        not_measured=tuple(dict.fromkeys(unmeasured)),
    )


def _weighed(text: str) -> tuple[str, float]:
    """Split `write p99=3` into selector and weight. Raises LeadlineError (`usage`)."""
    selector, equals, weight = text.rpartition("=")
    # A workload's name may hold the sign.
    if not equals or not {word.lower() for word in selector.split()} & METRIC_WORDS.keys():
        return text, 1.0
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise LeadlineError(
            errors.USAGE,
            f"the weight of the objective {text!r} is no number above 0",
            hint="write it as 'write p99=3'",
        )
    return selector, value


def for_use_case(run: Run, figures: Sequence[CellFigure], case: UseCase) -> Question:
    """Return what of the run counts for a use case. A need that was not measured is named, and the
    others are weighed without it.

    Raises LeadlineError (`nothing-to-rank`) where none of the essential needs was measured: the
    rest would answer another question.
    """
    table = _Table(run, figures)
    found: list[Objective] = []
    unmeasured: list[Unmeasured] = []
    for need in case.needs:
        objectives, lacking = _objectives_of_need(table, need)
        found += objectives
        unmeasured += lacking
    wanted = [need.name for need in case.needs if need.essential]
    if not any(objective.need in wanted for objective in found):
        raise LeadlineError(
            errors.NOTHING_TO_RANK,
            f"the run {run.id} has no essential workload of {case.name}",
            context=[
                f"it needs one of: {'; '.join(wanted)}"
                if len(wanted) > 1
                else f"it needs {wanted[0]}",
                f"measured: {table.contents}",
            ],
            hint="measure them, or rank by what there is: `leadline rank --objective ...`",
        )
    total = sum(objective.weight for objective in found)
    return Question(
        name=case.name,
        objectives=tuple(
            replace(objective, weight=objective.weight / total) for objective in found
        ),
        not_measured=tuple(unmeasured),
    )


def _objectives_of_need(table: _Table, need: Need) -> tuple[list[Objective], list[Unmeasured]]:
    """Return the objectives of a need, and what of it has no number. The need keeps its weight as
    long as one of its metrics was measured."""
    keys = [key for key, traits in table.traits.items() if need.fits(key[2], traits)]
    if not keys:
        return [], [Unmeasured(cause=UnmeasuredCause.NO_WORKLOAD, subject=need.name)]
    usable: dict[Metric, list[Key]] = {}
    lacking: list[Unmeasured] = []
    for metric in need.weights:
        measured = [key for key in keys if table.has_value(key, metric)]
        blurred = [key for key in measured if not table.every_trial_has_value(key, metric)]
        if blurred or not measured:
            cause = UnmeasuredCause.TOO_FEW_SAMPLES if measured else UnmeasuredCause.NO_METRIC
            lacking.append(
                Unmeasured(cause=cause, subject=need.name, metric=metric, keys=tuple(blurred))
            )
        if len(measured) > len(blurred):
            usable[metric] = [key for key in measured if key not in blurred]
    share = need.weight / (sum(need.weights[metric] for metric in usable) or 1.0)
    return [
        _objective(key, metric, share * need.weights[metric] / len(fit), need.name)
        for metric, fit in usable.items()
        for key in fit
    ], lacking


def _objective(key: Key, metric: Metric, weight: float, need: str = "") -> Objective:
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

    @property
    def contents(self) -> str:
        return shortened(map(key_name, self.traits), nothing="nothing")

    def tests_of(self, selector: Selector) -> list[Key]:
        """Return the tests of a workload that have the metric: `seq-write bandwidth` is
        `seq-write-bandwidth` where a summary of several tests was imported."""
        prefix = f"{selector.workload}-"
        return [
            key
            for key in self.traits
            if selector.workload
            and key[0].startswith(prefix)
            and replace(selector, workload=key[0]).matches(*key, selector.metric)
            and self.has_value(key, selector.metric)
        ]

    def _of(self, key: Key, metric: Metric) -> Iterable[MetricFigure]:
        return (figure.metric(metric) for figure in self._figures[key])

    def has_value(self, key: Key, metric: Metric) -> bool:
        """Return whether any target has the number."""
        return any(one.value is not None for one in self._of(key, metric))

    def every_trial_has_value(self, key: Key, metric: Metric) -> bool:
        """Return whether every trial has the number, for each target that has it."""
        return all(
            trial.value is not None
            for one in self._of(key, metric)
            if one.value is not None
            for trial in one.trials
        )

    def rate(self, key: Key) -> Metric:
        """Return the usual rate of this I/O, or the other rate where no target has it; mean latency
        of a stage, and of a test that reports no rate (kbench's latency tests)."""
        if key[2] in STAGES:
            return Metric.LATENCY_MEAN
        rate = reported_rate(self.traits[key].rate, lambda metric: self.has_value(key, metric))
        latency_only = not self.has_value(key, rate) and self.has_value(key, Metric.LATENCY_MEAN)
        return Metric.LATENCY_MEAN if latency_only else rate


def _without_totals(keys: Iterable[Key]) -> list[Key]:
    """Drop totals of cells that also have reads and writes."""
    given = list(keys)
    apart = {(workload, level) for workload, level, op in given if op in (Op.READ, Op.WRITE)}
    return [key for key in given if key[2] is not Op.TOTAL or key[:2] not in apart]


def _without_parts(keys: Iterable[Key], known: Iterable[Key]) -> list[Key]:
    """Drop reads and writes of cells that have a total, which alone has the cost of an I/O."""
    whole = {(workload, level) for workload, level, op in known if op is Op.TOTAL}
    return [key for key in keys if key[2] is Op.TOTAL or key[:2] not in whole]


def _matches_nothing(table: _Table, text: str, selector: Selector) -> LeadlineError:
    names = {workload: None for workload, _, _ in table.traits}
    known = selector.workload is None or selector.workload in names
    return LeadlineError(
        errors.USAGE,
        f"the objective {text!r} matches nothing in the run",
        context=[f"it has: {table.contents}"],
        hint=did_you_mean(
            selector.workload or "",
            () if known else names,
            "name a workload, level and operation that the run has",
        ),
    )


def key_name(key: Key) -> str:
    """Return `random-rw-4k@qd16 write`."""
    workload, level, op = key
    return f"{workload}{f'@{level}' if level else ''} {op.value}"
