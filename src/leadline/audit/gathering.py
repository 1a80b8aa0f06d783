"""Evidence taken from an archive or a bare output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import Layer
from leadline.audit.evidence import CellEvidence, Place, RunEvidence, TrialEvidence
from leadline.audit.execution import Execution
from leadline.audit.media import PoolMedia, pool_media
from leadline.audit.network import network_of_target
from leadline.errors import LeadlineError
from leadline.formats.ceph_status import ClusterSample, MissedSample
from leadline.formats.fio_log import Window
from leadline.formats.host_counters import HostSample, MissedHostSample
from leadline.formats.output import EngineOutput, FormatError
from leadline.formats.zfs_stream import StreamReport
from leadline.inventory.ceph import CephInventory
from leadline.inventory.lab import described_lab
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
