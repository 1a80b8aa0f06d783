"""The layers of a whole run: each cell by its median trial, with the sums of all its trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline import errors
from leadline.analysis.figures import FindingIndex
from leadline.analysis.layers.explain import (
    Explanation,
    RecordSweep,
    SweepRow,
    explain,
    find_little,
)
from leadline.analysis.layers.facts import Code, Fact, Setting, fact
from leadline.analysis.layers.model import find_layer
from leadline.analysis.layers.relevance import find_settings
from leadline.analysis.layers.trial import TrialLayers, trial_layers
from leadline.analysis.layers.zfs import vdev_devices
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.trial import StoredTrial
from leadline.errors import LeadlineError
from leadline.findings import Finding, Severity
from leadline.inventory.layer import LayerKind
from leadline.inventory.zfs import zfs_inventory
from leadline.metrics import Metric, Op
from leadline.plan.models import Cell

# Properties in which the datasets of a sweep must agree.
_PROPERTIES = ("compression", "sync", "logbias", "primarycache")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSum:
    """One sum of one trial: two layers whose bytes must agree. `difference` is bytes below / bytes
    above - 1, None if one of the two is missing."""

    trial: str
    op: Op
    above: str
    below: str
    difference: float | None
    adds_up: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLayers:
    """One cell by its median trial. `sums` are of all its completed trials; `refused` are the rules
    that refuse its throughput."""

    target: str
    workload: str
    level: str
    median: TrialLayers
    causes: Explanation
    settings: tuple[Setting, ...]
    sums: tuple[TrialSum, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStudy:
    """The layers of a run. `missing` are the cells without layers."""

    run: Run
    cells: tuple[CellLayers, ...]
    sweeps: tuple[RecordSweep, ...]
    missing: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellTrials:
    """A cell with the layers of its completed trials."""

    cell: Cell
    trials: tuple[TrialLayers, ...]
    refused: tuple[str, ...]

    @property
    def median(self) -> TrialLayers:
        """The trial with the median throughput, of two the lower one."""
        ordered = sorted(self.trials, key=lambda trial: trial.throughput_bps)
        return ordered[(len(ordered) - 1) // 2]


def layer_study(
    run: Run,
    findings: Iterable[Finding] = (),
    *,
    target: str | None = None,
    workload: str | None = None,
    level: str | None = None,
) -> LayerStudy:
    """Return the layers of the selected cells; `findings` are the audit's of the run.

    Raises LeadlineError(`usage`) if the plan has no such cell, (`no-layers`) if no layer below any
    of them is known."""
    selected = [
        (number, cell)
        for number, cell in enumerate(run.plan.cells)
        if target in (None, cell.target)
        and workload in (None, cell.workload.name)
        and level in (None, cell.level)
    ]
    if not selected:
        wanted = " · ".join(name for name in (target, workload, level) if name is not None)
        raise LeadlineError(
            errors.USAGE,
            f"run {run.id} has no cell {wanted!r}",
            context=list(dict.fromkeys(cell.label for cell in run.plan.cells))[:8],
            hint="`leadline show` lists targets, workloads and levels",
        )
    stacks = run.stacks
    if not any(cell.target in stacks for _, cell in selected):
        raise LeadlineError(
            errors.NO_LAYERS,
            f"the layers below the targets of {run.id} are unknown",
            context=["`leadline run` records the layers of targets that this machine can see"],
            hint="measure again, or select another target with --target",
        )
    completed = _completed(run)
    index = FindingIndex(run, findings)
    found = []
    missing = []
    for number, cell in selected:
        trials = completed.get(number, ())
        if cell.target not in stacks:
            missing.append(fact(Code.NO_STACK, target=cell.target))
        elif not trials:
            missing.append(fact(Code.NO_TRIAL, cell=cell.label))
        else:
            layers = tuple(trial_layers(trial, stacks[cell.target]) for trial in trials)
            refused = _refused(index, cell)
            found.append(_CellTrials(cell=cell, trials=layers, refused=refused))
    sweeps = _sweeps(run, found)
    targets = dict.fromkeys(trials.cell.target for trials in found)
    parameters = {name: _parameters(run, name) for name in targets}
    return LayerStudy(
        run=run,
        cells=tuple(_cell(trials, parameters[trials.cell.target], sweeps) for trials in found),
        sweeps=sweeps,
        missing=tuple(cause for at, cause in enumerate(missing) if cause not in missing[:at]),
    )


def _completed(run: Run) -> Mapping[int, Sequence[StoredTrial]]:
    planned = {trial.id: trial.cell for trial in run.plan.trials}
    found: dict[int, list[StoredTrial]] = {}
    for trial in run.trials:
        if trial.record.status is TrialStatus.COMPLETED and trial.record.trial in planned:
            found.setdefault(planned[trial.record.trial], []).append(trial)
    return found


def _cell(
    found: _CellTrials, parameters: Mapping[str, str], sweeps: Iterable[RecordSweep]
) -> CellLayers:
    cell, median = found.cell, found.median
    name, level = cell.workload.name, cell.level
    sweep = next(
        (
            sweep
            for sweep in sweeps
            if (sweep.workload, sweep.level) == (name, level)
            and any(row.target == cell.target for row in sweep.rows)
        ),
        None,
    )
    return CellLayers(
        target=cell.target,
        workload=name,
        level=level,
        median=median,
        causes=explain(median),
        settings=find_settings(median, parameters, sweep),
        sums=tuple(
            TrialSum(
                trial=trial.trial.record.label,
                op=step.op,
                above=trial.layers[step.above].label,
                below=trial.layers[step.below].label,
                difference=step.difference,
                adds_up=step.adds_up,
            )
            for trial in found.trials
            for step in trial.steps
            if step.one_to_one and step.op in trial.layers[step.above].flows
        ),
        refused=found.refused,
    )


def _refused(index: FindingIndex, cell: Cell) -> tuple[str, ...]:
    """The rules that refuse the throughput of a cell, in any of its directions."""
    name = cell.workload.name
    row = index.touching(target=cell.target, workload=name, planned=name, level=cell.level, op=None)
    found = row.marks(Metric.BANDWIDTH)
    return tuple(finding.code for finding in found if finding.severity is Severity.ERROR)


def _parameters(run: Run, target: str) -> Mapping[str, str]:
    """The parameters of the ZFS module as texts; empty without ZFS, or if it reported none."""
    try:
        inventory = zfs_inventory(run.target_dumps(target))
    except LeadlineError:
        return {}  # a damaged dump; `leadline verify` reports it
    return inventory.parameters if inventory else {}


def _sweeps(run: Run, cells: Sequence[_CellTrials]) -> tuple[RecordSweep, ...]:
    """Cells of one workload, level and pool on datasets of two record sizes or more, which agree
    in all other known properties."""
    groups: dict[tuple[str, ...], list[SweepRow]] = {}
    for found in cells:
        cell = found.cell
        zfs = find_layer(found.trials[0].layers, LayerKind.ZFS)
        record = zfs.size_fact("recordsize_bytes") if zfs else None
        if zfs is not None and record:
            target = run.plan.target(cell.target)
            pool = f"{target.cluster} {target.parsed.pool}" if target.url else ""
            properties = (zfs.facts.get(key, "") for key in _PROPERTIES)
            key = (cell.workload.name, cell.level, pool, *properties)
            groups.setdefault(key, []).append(_sweep_row(found, record))
    return tuple(
        RecordSweep(
            workload=workload,
            level=level,
            rows=tuple(sorted(rows, key=lambda row: (row.record_bytes, row.target))),
        )
        for (workload, level, *_), rows in groups.items()
        if len({row.record_bytes for row in rows}) > 1
    )


def _sweep_row(found: _CellTrials, record: int) -> SweepRow:
    median = found.median
    little, op = find_little(median), median.main_op
    below = vdev_devices(median.layers)
    device = below.flows.get(op) if below is not None and op is not None else None
    return SweepRow(
        target=found.cell.target,
        record_bytes=record,
        throughputs=tuple(trial.throughput_bps for trial in found.trials),
        block_size=device.mean_size if device else None,
        little=little,
        layer=median.layers[little.layer].label if little else "",
        refused=found.refused,
    )
