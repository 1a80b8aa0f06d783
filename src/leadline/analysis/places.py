"""Nodes and zones of a run's volumes: is one of them slower than the others?

Volumes of one trial do the same at the same time, each from its own runner. The rate of a node in a
trial is compared with the median node of that trial, so that what the trial shares cancels.
The unit of replication is the repeat: a node has one value for each, the mean over its cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from leadline.analysis.verdicts import Verdict
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.trial import StoredTrial
from leadline.errors import LeadlineError
from leadline.formats.result import EngineOutput
from leadline.metrics import MARGIN, Op
from leadline.plan.labels import labels_text
from leadline.stats.effects import LEAST_DEVIATION, Estimate

_LEVEL = 0.05
# Labels by which targets of one node or zone each are separate.
_KEYS = ("node", "zone")
# Target (or its other labels), workload, level, operation.
Cell = tuple[str, str, str, Op]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRate:
    """The rate of one runner's volume: I/Os per second, `place` its node or zone. Rates with equal
    `cell` and `moment` are compared; `repeat` is the block of the trial."""

    cell: Cell
    moment: str
    repeat: int
    place: str
    iops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFigure:
    """One place against the median place: `ratio` of rates over all cells, its `interval` (None:
    fewer than two repeats) at a confidence that counts all places, and the verdict."""

    place: str
    ratio: float
    interval: tuple[float, float] | None
    verdict: Verdict
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceStudy:
    """Places of one kind (`node`, `zone`), and the ratio of each in each cell, None without one."""

    kind: str
    band: float
    figures: tuple[PlaceFigure, ...]
    cells: tuple[Cell, ...]
    ratios: Mapping[tuple[str, Cell], float]


def place_studies(run: Run, band: float = MARGIN) -> tuple[PlaceStudy, ...]:
    """Study the nodes of a run, and its zones where the inventory knows them; each with at least
    two places."""
    rates = node_rates(run)
    zones = _zones(run)
    of_zones = [
        PlaceRate(
            cell=one.cell,
            moment=one.moment,
            repeat=one.repeat,
            place=zones[one.place],
            iops=one.iops,
        )
        for one in rates
        if one.place in zones
    ]
    known = of_zones if len(of_zones) == len(rates) else []
    # With one node for each zone the zones would repeat the nodes.
    several = len({one.place for one in known}) < len({one.place for one in rates})
    found = (study_places("node", rates, band), study_places("zone", known, band))
    return tuple(one for one in found if one is not None and (one.kind == "node" or several))


def study_places(kind: str, rates: Iterable[PlaceRate], band: float) -> PlaceStudy | None:
    """Compare places by their rates; None for fewer than two."""
    moments: dict[tuple[Cell, str, int], dict[str, list[float]]] = {}
    for one in rates:
        if one.iops > 0:
            at = moments.setdefault((one.cell, one.moment, one.repeat), {})
            at.setdefault(one.place, []).append(math.log(one.iops))
    deviations: dict[tuple[str, Cell], dict[int, list[float]]] = {}
    for (cell, _, repeat), by_place in moments.items():
        if len(by_place) < 2:
            continue
        means = {place: fmean(logs) for place, logs in by_place.items()}
        # Of the mean, one slow place would make all others fast.
        middle = median(means.values())
        for place, log in means.items():
            deviations.setdefault((place, cell), {}).setdefault(repeat, []).append(log - middle)
    places = tuple(sorted({place for place, _ in deviations}))
    if len(places) < 2:
        return None
    cells = tuple(dict.fromkeys(cell for _, cell in deviations))
    return PlaceStudy(
        kind=kind,
        band=band,
        figures=tuple(
            _figure(
                place,
                [found for (own, _), found in deviations.items() if own == place],
                len(places),
                band,
            )
            for place in places
        ),
        cells=cells,
        ratios={
            key: math.exp(median(fmean(values) for values in found.values()))
            for key, found in deviations.items()
        },
    )


def _figure(
    place: str, cells: Sequence[Mapping[int, Sequence[float]]], places: int, band: float
) -> PlaceFigure:
    """Compute the figure of a place from its deviations by cell and repeat."""
    common = set.intersection(*(set(found) for found in cells))
    repeats = sorted(common or {repeat for found in cells for repeat in found})
    values = [
        fmean(fmean(found[repeat]) for found in cells if repeat in found) for repeat in repeats
    ]
    ratio = math.exp(fmean(values))
    if len(values) < 2:
        return PlaceFigure(
            place=place,
            ratio=ratio,
            interval=None,
            verdict=Verdict.INCONCLUSIVE,
            repeats=len(values),
        )
    error = max(stdev(values), LEAST_DEVIATION) / math.sqrt(len(values))
    estimate = Estimate(value=math.log(ratio), error=error, freedom=len(values) - 1)
    # Bonferroni: one of many equal places is slow by chance.
    interval = estimate.interval(1 - _LEVEL / places)
    return PlaceFigure(
        place=place,
        ratio=ratio,
        interval=interval,
        verdict=_verdict(interval, band),
        repeats=len(values),
    )


def _verdict(interval: tuple[float, float], band: float) -> Verdict:
    low, high = interval
    if high < 1 - band:
        return Verdict.WORSE
    if low > 1 + band:
        return Verdict.BETTER
    return Verdict.SAME if low >= 1 - band and high <= 1 + band else Verdict.INCONCLUSIVE


def node_rates(run: Run) -> tuple[PlaceRate, ...]:
    """Read the rates of every volume of the completed trials in Kubernetes."""
    found: list[PlaceRate] = []
    for trial in run.trials:
        found += _rates_of(run, trial)
    return tuple(found)


def _rates_of(run: Run, trial: StoredTrial) -> list[PlaceRate]:
    record = trial.record
    if record.status is not TrialStatus.COMPLETED or trial.imported:
        return []
    try:
        runners = trial.runners
    except LeadlineError:
        return []  # verify reports it
    # A damaged plan may lack the target.
    targets = {target.name: target for target in run.plan.targets}
    labels = targets[record.target].labels if record.target in targets else {}
    # Targets of one node each are the same target at several places.
    placed = next((key for key in _KEYS if key in labels), None)
    if not runners or (placed is None and len({one.node for one in runners}) < 2):
        return []
    output = trial.output
    if not isinstance(output, EngineOutput):
        return []
    rates: dict[tuple[int, Op], float] = {}
    for job in output.jobs:
        number = int(job.host.rpartition(" ")[2]) if job.host else 1
        for operation in job.operations:
            iops = operation.iops
            if iops is not None and number <= len(runners):
                key = (number, operation.op)
                rates[key] = rates.get(key, 0.0) + iops
    target, moment = record.target, record.trial
    if placed is not None:
        target = labels_text({key: text for key, text in labels.items() if key not in _KEYS})
        moment = f"repeat {record.block}"
    return [
        PlaceRate(
            cell=(target, record.workload, record.level, op),
            moment=moment,
            repeat=record.block,
            place=runners[number - 1].node,
            iops=iops,
        )
        for (number, op), iops in rates.items()
        if runners[number - 1].node
    ]


def _zones(run: Run) -> dict[str, str]:
    """The zone of each node, as the inventory at the start knows it."""
    found: dict[str, str] = {}
    for cluster in run.plan.clusters:
        try:
            inventory = run.kubernetes("start", cluster.name) if cluster.kubernetes else None
        except LeadlineError:
            inventory = None
        if inventory is not None:
            found |= {node.name: node.zone for node in inventory.nodes if node.zone}
    return found
