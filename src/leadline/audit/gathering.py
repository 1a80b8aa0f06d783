"""Evidence taken from an archive or a bare output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from leadline.archive.reader import Run, StoredTrial
from leadline.audit.evidence import (
    CellEvidence,
    Execution,
    JobEvidence,
    Place,
    PoolMedia,
    RunEvidence,
    TrialEvidence,
    mean_s,
    network_of_target,
    pool_media,
)
from leadline.audit.physics import fastest_read, share_apart
from leadline.errors import LeadlineError
from leadline.formats.ceph.status import ClusterSample, MissedSample
from leadline.formats.fio.logs import Window
from leadline.formats.result import EngineOutput, FormatError
from leadline.formats.watch_records import HostSample, MissedHostSample, Role
from leadline.formats.zfs.stream import StreamReport
from leadline.inventory.ceph.dumps import described_lab
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op
from leadline.plan.models import Target


def of_output(output: EngineOutput | FormatError) -> TrialEvidence:
    """Evidence of a bare output: no plan, no record, no logs."""
    return TrialEvidence(place=Place(), output=output, windows={})


def of_run(run: Run) -> RunEvidence:
    """Evidence of an archive: every planned trial is there, with or without an attempt."""
    stored = {trial.record.trial: trial for trial in run.trials}
    inventory = run.inventory("start")
    memory = inventory.memory_bytes if inventory else None
    targets = {target.name: target for target in run.plan.targets}
    labs = {one.name for one in run.plan.clusters if one.lab is not None}
    clusters = _clusters(run)
    budgets = _cpu_budgets(run)
    stacks = _stacks(run)
    executions: dict[int, Execution] = {}
    cells = []
    by_cell = sorted(run.plan.trials, key=lambda trial: (trial.cell, trial.position))
    planned = {number: list(trials) for number, trials in groupby(by_cell, lambda one: one.cell)}
    for number, cell in enumerate(run.plan.cells):
        place = Place(target=cell.target, workload=cell.workload.name, level=cell.level)
        target = targets.get(cell.target)
        known = TrialEvidence(
            place=place,
            cell=cell,
            windows={},
            memory_bytes=memory,
            on_lab=target is not None and target.cluster in labs,
            cpu_budget=budgets.get(target.cluster) if target is not None else None,
            pool=_pool(target, clusters),
            network=network_of_target(target, cell.target),
            stack=stacks.get(cell.target, ()),
        )
        trials = tuple(
            _of_trial(trial.id, known, stored.get(trial.id), executions)
            for trial in planned.get(number, ())
        )
        cells.append(CellEvidence(place=place, cell=cell, trials=trials))
    return RunEvidence(place=Place(), cells=tuple(cells))


def _clusters(run: Run) -> Mapping[str, CephInventory]:
    """What is known of the plan's clusters, labs left out: their disks are files in memory."""
    found = {}
    for cluster in run.plan.clusters:
        if cluster.lab is not None:
            continue
        try:
            inventory = run.cluster("start", cluster.name)
        except LeadlineError:
            continue  # dumps that cannot be understood are told where they are shown
        if inventory is not None:
            found[cluster.name] = inventory
    return found


def _cpu_budgets(run: Run) -> Mapping[str, float]:
    """Cores that each host of the plan's labs may use, where they are bounded."""
    found = {}
    for cluster in run.plan.clusters:
        lab = cluster.lab
        if isinstance(lab, str):
            try:
                lab = described_lab(run.system_dumps("start", cluster.name))
            except LeadlineError:
                continue  # as above
        if lab is not None and lab.cpu_per_host is not None:
            found[cluster.name] = lab.cpu_per_host
    return found


def _stacks(run: Run) -> Mapping[str, tuple[Layer, ...]]:
    try:
        return run.stacks
    except LeadlineError:
        return {}  # as above


def _pool(target: Target | None, clusters: Mapping[str, CephInventory]) -> PoolMedia | None:
    if target is None or target.cluster not in clusters or not target.url:
        return None
    return pool_media(clusters[target.cluster], target.parsed)


def _of_trial(
    name: str,
    known: TrialEvidence,
    stored: StoredTrial | None,
    executions: dict[int, Execution],
) -> TrialEvidence:
    place = replace(known.place, trial=name)
    if stored is None:
        return replace(known, place=place)
    windows: Mapping[Op, tuple[Window, ...]] | FormatError
    try:
        windows = stored.iops_windows
    except FormatError as error:
        windows = error
    cluster: tuple[ClusterSample | MissedSample, ...] | FormatError
    try:
        cluster = stored.cluster
    except FormatError as error:
        cluster = error
    machines: tuple[HostSample | MissedHostSample, ...] | FormatError
    try:
        machines = stored.resources
    except FormatError as error:
        machines = error
    stream: StreamReport | FormatError | None
    try:
        stream = stored.zfs_stream
    except FormatError as error:
        stream = error
    together = stored.together
    execution = None
    if together is not None:
        # Kept beside their number, which is therefore of no other object.
        execution = executions.setdefault(id(together), Execution(output=together))
    return replace(
        known,
        place=place,
        record=stored.record,
        output=stored.output,
        execution=execution,
        windows=windows,
        cluster=cluster,
        machines=machines,
        stream=stream,
    )


# What results of one run tell of each other, worked out once for all rules.


def with_neighbours(run: RunEvidence) -> RunEvidence:
    """The run, with what its other results show put to every trial."""
    held: dict[str, int] = {}
    shares: dict[str, list[bool]] = {}
    for cell in run.cells:
        for trial in cell.trials:
            for job in trial.jobs:
                size = _held(job)
                if size is not None:
                    held[trial.place.target] = max(size, held.get(trial.place.target, 0))
            apart = share_apart(trial)
            if apart is not None:
                shares.setdefault(cell.place.workload, []).append(apart)
    apart_workloads = {name for name, found in shares.items() if 2 * sum(found) >= len(found)}
    apart_workloads &= {name for name, found in shares.items() if sum(found) >= 2}
    if not held and not apart_workloads:
        return run
    return replace(
        run,
        cells=tuple(
            _cell(cell, held, cell.place.workload in apart_workloads) for cell in run.cells
        ),
    )


def _cell(cell: CellEvidence, held: dict[str, int], apart: bool) -> CellEvidence:
    trials = tuple(_trial(trial, held, apart) for trial in cell.trials)
    return replace(cell, trials=trials)


def _trial(trial: TrialEvidence, held: dict[str, int], apart: bool) -> TrialEvidence:
    size = held.get(trial.place.target)
    if size is None and not apart:
        return trial
    return replace(trial, held_bytes=size, phases_apart=apart)


def _held(evidence: JobEvidence) -> int | None:
    """Size of a file whose random reads took, on average, less than storage can: nearly all of
    them came from memory, so that all of it was there."""
    options = evidence.job.options
    size = options.size("size")
    if size is None or evidence.pattern != "randread" or evidence.merged_sections:
        return None
    read = next((one for one in evidence.job.operations if one.op is Op.READ), None)
    mean = mean_s(read, options) if read else None
    limit = fastest_read(evidence)
    if not mean or limit is None or mean * (1 + evidence.rounding(mean)) >= limit.seconds:
        return None
    return size


# What the layers below a target saw of a trial's reads, held against what the engine read.

# The counters were read over at least that share of the time in which the engine read.
_COVERED = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBelow:
    """Bytes that were read from `devices` during a trial, ramp and other processes included: more
    than the trial's own reads, never less. `cache` is what lies above them."""

    read_bytes: int
    devices: tuple[str, ...]
    through_zfs: bool


def read_below(
    stack: Sequence[Layer], samples: Iterable[HostSample | MissedHostSample], ran_s: float
) -> ReadBelow | None:
    """The highest layer of which every device was counted from the trial's start to its end on the
    one machine that made the load; None where there is none. `ran_s`: seconds of the reading."""
    found = [one for one in samples if isinstance(one, HostSample) and Role.CLIENT in one.roles]
    if len(found) < 2 or len({one.machine for one in found}) > 1:
        return None
    first, last = found[0], found[-1]
    if last.elapsed_s - first.elapsed_s < _COVERED * ran_s:
        return None
    for number, layer in enumerate(stack):
        names = layer.devices
        if not names or not all(name in one.disks for name in names for one in (first, last)):
            continue
        grown = [last.disks[name].read_bytes - first.disks[name].read_bytes for name in names]
        if min(grown) < 0:
            return None  # a device that went and came back
        zfs = any(one.kind is LayerKind.ZFS for one in stack[: number + 1])
        return ReadBelow(read_bytes=sum(grown), devices=names, through_zfs=zfs)
    return None


def compressing(stack: Iterable[Layer]) -> Layer | None:
    """The layer that compresses what is written, where one is told to."""
    for layer in stack:
        word = layer.facts.get("compression", "off")
        if layer.kind is LayerKind.ZFS and word not in ("off", "-", ""):
            return layer
    return None
