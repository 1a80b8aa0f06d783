"""The layers of a whole run: each cell by its median trial, with the sums of all its trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline import errors
from leadline.analysis.figures import DoubtIndex
from leadline.analysis.layers.explain import Explanation, RecordSweep, SweepRow, explained
from leadline.analysis.layers.relevance import Setting, settings_of
from leadline.analysis.layers.trial import TrialLayers, trial_layers
from leadline.analysis.layers.zfs import vdev_devices
from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialStatus
from leadline.errors import LeadlineError
from leadline.findings import Finding, Severity
from leadline.inventory.layer import Layer, LayerKind
from leadline.inventory.zfs import zfs_inventory
from leadline.metrics import Metric, Op
from leadline.plan.models import Cell

# What is told of a dataset beside its record size.
_PROPERTIES = ("compression", "sync", "logbias", "primarycache")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSum:
    """One sum of one trial of two layers that must agree: `difference` is bytes below / bytes
    above - 1, None where one side is missing."""

    trial: str
    op: Op
    above: str
    below: str
    difference: float | None
    adds_up: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLayers:
    """One cell by its median trial. `sums` are of all its completed trials; `refused` are the rules
    by which the audit refuses its throughput, not what was counted below."""

    target: str
    workload: str
    level: str
    median: TrialLayers
    explanation: Explanation
    settings: tuple[Setting, ...]
    sums: tuple[TrialSum, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStudy:
    """`missing` says of targets without layers why there are none."""

    run: Run
    cells: tuple[CellLayers, ...]
    sweeps: tuple[RecordSweep, ...]
    missing: tuple[str, ...]


def layer_study(
    run: Run,
    findings: Iterable[Finding] = (),
    *,
    target: str | None = None,
    workload: str | None = None,
    level: str | None = None,
) -> LayerStudy:
    """All cells that fit; `findings` are the audit's of the run.

    Raises LeadlineError(`usage`) where no cell of the plan does,
    (`no-layers`) where nothing is known of what lies below any of them."""
    asked = [
        (number, cell)
        for number, cell in enumerate(run.plan.cells)
        if target in (None, cell.target)
        and workload in (None, cell.workload.name)
        and level in (None, cell.level)
    ]
    if not asked:
        raise _no_cell(run, target, workload, level)
    stacks = run.stacks
    if not any(cell.target in stacks for _, cell in asked):
        raise LeadlineError(
            errors.NO_LAYERS,
            f"nothing is known of what lies below the targets of {run.id}",
            context=["`leadline run` keeps the layers of targets that this machine can see below"],
            hint="measure again, or ask for another target with --target",
        )
    trials = _completed(run)
    seen = {
        number: [trial_layers(one, stacks[cell.target]) for one in trials.get(number, ())]
        for number, cell in asked
        if cell.target in stacks
    }
    doubts = DoubtIndex(run, findings)
    refused = {number: _refused(doubts, cell) for number, cell in asked}
    of_sweeps = [(number, cell) for number, cell in asked if seen.get(number)]
    sweeps = _sweeps(run, of_sweeps, seen, refused)
    parameters = {name: _parameters(run, name) for name in {cell.target for _, cell in asked}}
    cells = [
        _cell(cell, seen[number], parameters[cell.target], _sweep_of(sweeps, cell), refused[number])
        for number, cell in asked
        if seen.get(number)
    ]
    return LayerStudy(
        run=run, cells=tuple(cells), sweeps=sweeps, missing=tuple(_missing(asked, stacks, seen))
    )


def _no_cell(
    run: Run, target: str | None, workload: str | None, level: str | None
) -> LeadlineError:
    wanted = " · ".join(one for one in (target, workload, level) if one is not None)
    have = dict.fromkeys(cell.label for cell in run.plan.cells)
    return LeadlineError(
        errors.USAGE,
        f"run {run.id} has no cell {wanted!r}",
        context=list(have)[:8],
        hint="`leadline show` lists targets, workloads and levels",
    )


def _completed(run: Run) -> Mapping[int, Sequence[StoredTrial]]:
    planned = {trial.id: trial.cell for trial in run.plan.trials}
    found: dict[int, list[StoredTrial]] = {}
    for trial in run.trials:
        if trial.record.status is TrialStatus.COMPLETED and trial.record.trial in planned:
            found.setdefault(planned[trial.record.trial], []).append(trial)
    return found


def throughput_bps(found: TrialLayers) -> float:
    """The engine's bytes per second, both directions together."""
    return sum(one.bandwidth.value or 0.0 for one in found.engine.flows.values())


def _median(trials: Sequence[TrialLayers]) -> TrialLayers:
    """The trial with the median throughput, of two the lower: all figures are of one moment."""
    return sorted(trials, key=throughput_bps)[(len(trials) - 1) // 2]


def _cell(
    cell: Cell,
    trials: Sequence[TrialLayers],
    parameters: Mapping[str, str],
    sweep: RecordSweep | None,
    refused: tuple[str, ...],
) -> CellLayers:
    middle = _median(trials)
    return CellLayers(
        target=cell.target,
        workload=cell.workload.name,
        level=cell.level,
        median=middle,
        explanation=explained(middle),
        settings=settings_of(middle, parameters, sweep),
        sums=tuple(
            TrialSum(
                trial=one.trial.record.label,
                op=step.op,
                above=one.layers[step.above].label,
                below=one.layers[step.below].label,
                difference=step.difference,
                adds_up=step.adds_up,
            )
            for one in trials
            for step in one.steps
            if step.one_to_one and one.layers[step.above].flows.get(step.op) is not None
        ),
        refused=refused,
    )


def _refused(doubts: DoubtIndex, cell: Cell) -> tuple[str, ...]:
    """The rules that refuse the throughput of a cell, in any of its directions."""
    name = cell.workload.name
    row = doubts.touching(
        target=cell.target, workload=name, planned=name, level=cell.level, op=None
    )
    return tuple(one.code for one in row.of(Metric.BANDWIDTH) if one.severity is Severity.ERROR)


def _parameters(run: Run, target: str) -> Mapping[str, str]:
    """The module's parameters, as texts; empty where it told none, or there is no ZFS."""
    try:
        inventory = zfs_inventory(run.target_dumps(target))
    except LeadlineError:
        return {}  # a damaged dump; `leadline verify` tells of it
    return inventory.parameters if inventory else {}


def _missing(
    asked: Iterable[tuple[int, Cell]],
    stacks: Mapping[str, tuple[Layer, ...]],
    seen: Mapping[int, Sequence[TrialLayers]],
) -> list[str]:
    told = []
    for number, cell in asked:
        if cell.target not in stacks:
            told.append(f"{cell.target}: nothing is known of what lies below it")
        elif not seen.get(number):
            told.append(f"{cell.label}: no trial was completed")
    return list(dict.fromkeys(told))


def _record_bytes(found: TrialLayers) -> int | None:
    zfs = next((one for one in found.layers if one.kind is LayerKind.ZFS), None)
    return zfs.size_fact("recordsize_bytes") if zfs else None


def _alike(found: TrialLayers) -> tuple[str, ...]:
    zfs = next(one for one in found.layers if one.kind is LayerKind.ZFS)
    return tuple(zfs.facts.get(key, "") for key in _PROPERTIES)


def _sweeps(
    run: Run,
    cells: Sequence[tuple[int, Cell]],
    seen: Mapping[int, Sequence[TrialLayers]],
    refused: Mapping[int, tuple[str, ...]],
) -> tuple[RecordSweep, ...]:
    """Workloads and levels of which cells lie on datasets of two record sizes or more, on one
    pool, and alike in all else that is known of them: what differs between them is to be the record
    size alone."""
    groups: dict[tuple[str, ...], list[SweepRow]] = {}
    for number, cell in cells:
        record = _record_bytes(seen[number][0])
        if record:
            target = run.plan.target(cell.target)
            pool = f"{target.cluster} {target.parsed.pool}" if target.url else ""
            key = (cell.workload.name, cell.level, pool, *_alike(seen[number][0]))
            row = _row(cell, seen[number], record, refused[number])
            groups.setdefault(key, []).append(row)
    found = []
    for (workload, level, *_), rows in groups.items():
        sweep = RecordSweep(
            workload=workload,
            level=level,
            rows=tuple(sorted(rows, key=lambda one: (one.record_bytes, one.target))),
        )
        if sweep.record_sizes > 1:
            found.append(sweep)
    return tuple(found)


def _row(
    cell: Cell, trials: Sequence[TrialLayers], record: int, refused: tuple[str, ...]
) -> SweepRow:
    middle = _median(trials)
    little, op = explained(middle).little, middle.main_op
    below = vdev_devices(middle.layers)
    device = below.flows.get(op) if below is not None and op is not None else None
    return SweepRow(
        target=cell.target,
        record_bytes=record,
        throughputs_bps=tuple(throughput_bps(one) for one in trials),
        block_bytes=device.mean_size_bytes if device else None,
        little=little,
        little_at=middle.layers[little.place].label if little else "",
        refused=refused,
    )


def _sweep_of(sweeps: Iterable[RecordSweep], cell: Cell) -> RecordSweep | None:
    return next(
        (
            one
            for one in sweeps
            if one.workload == cell.workload.name
            and one.level == cell.level
            and any(row.target == cell.target for row in one.rows)
        ),
        None,
    )
