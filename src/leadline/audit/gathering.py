"""Evidence for the audit from an archive or from a single output of an engine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeVar

from leadline.archive.reader import Run
from leadline.archive.trial import StoredTrial
from leadline.audit.evidence import (
    CellEvidence,
    Drives,
    JobEvidence,
    Place,
    PoolMedia,
    RunEvidence,
    TrialEvidence,
)
from leadline.audit.execution import Execution
from leadline.audit.latencies import mean_s
from leadline.audit.physics import fastest_read, network_of_target, share_is_impossible
from leadline.errors import LeadlineError
from leadline.formats.ceph.status import ClusterSample, MissedSample
from leadline.formats.drill import DrillMark
from leadline.formats.result import FormatError
from leadline.inventory.ceph.dumps import read_lab
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.facts import find_filesystem, find_pool
from leadline.inventory.host import HostInventory
from leadline.inventory.layer import Layer
from leadline.metrics import Op
from leadline.plan.lab import LabDescription
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind

Record = TypeVar("Record")
_FLASH = ("ssd", "nvme")
# Targets whose load other machines make, or may make (None: imported results).
_ELSEWHERE = (None, TargetKind.HOSTS, TargetKind.STORAGE_CLASS)


def run_evidence(run: Run) -> RunEvidence:
    """Return the evidence of an archive: every planned trial, with or without an attempt."""
    stored = {trial.record.trial: trial for trial in run.trials}
    inventory = run.inventory("start")
    memory = inventory.memory_bytes if inventory else None
    targets = {target.name: target for target in run.plan.targets}
    labs = {cluster.name for cluster in run.plan.clusters if cluster.lab is not None}
    known = _clusters(run)
    # The disks of labs are files in memory.
    clusters = {name: inventory for name, inventory in known.items() if name not in labs}
    limits = {name: _osd_cores(run, name) for name in clusters}
    physical = inventory is not None and inventory.virtualization == "none"
    budgets = _cpu_budgets(run)
    stacks = _if_readable(lambda: run.stacks) or {}
    executions: dict[int, Execution] = {}
    first_samples = _first_samples(run)
    cells = []
    by_cell = sorted(run.plan.trials, key=lambda trial: (trial.cell, trial.position))
    planned = {
        number: list(trials) for number, trials in groupby(by_cell, lambda trial: trial.cell)
    }
    for number, cell in enumerate(run.plan.cells):
        place = Place(target=cell.target, workload=cell.workload.name, level=cell.level)
        target = targets.get(cell.target)
        common = TrialEvidence(
            place=place,
            cell=cell,
            windows={},
            memory_bytes=memory,
            on_lab=target is not None and target.cluster in labs,
            cpu_budget=budgets.get(target.cluster) if target is not None else None,
            pool=_pool(target, clusters, limits),
            drives=_drives(inventory, stacks.get(cell.target, ())),
            mds_ranks=_mds_ranks(target, known),
            load_here=target is not None
            and target.kind not in _ELSEWHERE
            and not target.parsed.hosts,
            physical=physical,
            network=network_of_target(target, cell.target),
            stack=stacks.get(cell.target, ()),
        )
        trials = tuple(
            _since_first_sample(
                _trial_evidence(trial.id, common, stored.get(trial.id), executions), first_samples
            )
            for trial in planned.get(number, ())
        )
        cells.append(CellEvidence(place=place, cell=cell, trials=trials, guard=run.plan.guard))
    return RunEvidence(place=Place(), cells=tuple(cells))


def _clusters(run: Run) -> Mapping[str, CephInventory]:
    """The inventories of the plan's clusters, as far as they can be read."""
    names = [cluster.name for cluster in run.plan.clusters]
    found = {name: _if_readable(partial(run.cluster, "start", name)) for name in names}
    return {name: inventory for name, inventory in found.items() if inventory is not None}


def _cpu_budgets(run: Run) -> Mapping[str, float]:
    """Cores of each host of the plan's labs, if they are limited."""

    def lab_of(name: str) -> LabDescription | None:
        return read_lab(run.system_dumps("start", name))

    found = {}
    for cluster in run.plan.clusters:
        lab = cluster.lab
        if isinstance(lab, str):
            lab = _if_readable(partial(lab_of, cluster.name))
        if lab is not None and lab.cpu_per_host is not None:
            found[cluster.name] = lab.cpu_per_host
    return found


def _if_readable(ask: Callable[[], Record]) -> Record | None:
    """Return what `ask` reads; None where it cannot be read, which the inventory's page reports."""
    try:
        return ask()
    except LeadlineError:
        return None


def _osd_cores(run: Run, name: str) -> float | None:
    """The processor limit of one OSD that Rook sets; None without one."""
    around = _if_readable(partial(run.kubernetes, "start", name))
    limits = [
        daemon.cpu_limit
        for cluster in (around.ceph_clusters if around is not None else ())
        for daemon in cluster.resources
        if daemon.daemon == "osd" and daemon.cpu_limit is not None
    ]
    return max(limits, default=None)


def _pool(
    target: Target | None,
    clusters: Mapping[str, CephInventory],
    limits: Mapping[str, float | None],
) -> PoolMedia | None:
    if target is None or target.cluster not in clusters:
        return None
    media, limit = pool_media(clusters[target.cluster], target), limits.get(target.cluster)
    if media is None or limit is None:
        return media
    return replace(media, cores=limit * (media.hard_disks + media.flash))


def _mds_ranks(target: Target | None, clusters: Mapping[str, CephInventory]) -> int | None:
    """The MDS that the CephFS of a target has at most; None for other targets."""
    if target is None:
        return None
    filesystem = find_filesystem(clusters.get(target.cluster), target)
    return filesystem.most_ranks if filesystem is not None else None


# Models of single hard disks, as their vendors name them; a RAID controller has its own name.
_SPINDLES = ("ST", "WDC", "WD", "HGST", "HUH", "HUS", "TOSHIBA", "MG", "Hitachi", "SEAGATE")


def _drives(host: HostInventory | None, stack: Sequence[Layer]) -> Drives | None:
    """The drives below a local target; None without layers, or where one is no drive."""
    blocks = [layer for layer in stack if layer.devices]
    if host is None or not blocks:
        return None
    known = {device.name: device for device in host.block_devices}
    controllers = {
        namespace.name: controller.name
        for controller in host.nvme
        if controller.transport == "pcie"
        for namespace in controller.namespaces
    }
    nvme, spindles = set(), set()
    for name in blocks[-1].devices:
        for _ in known:
            if name in known and known[name].parent in known:
                name = known[name].parent
        if name in controllers:
            nvme.add(controllers[name])
        elif name in known and known[name].rotational and known[name].model.startswith(_SPINDLES):
            spindles.add(name)
        else:
            return None
    return Drives(controllers=len(nvme), spindles=len(spindles))


def pool_media(inventory: CephInventory, target: Target) -> PoolMedia | None:
    """Return the OSDs behind a pool; None if the pool, its CRUSH rule or the class of one of its
    OSDs is unknown."""
    pool = find_pool(inventory, target)
    if pool is None or pool.rule is None or pool.rule.root is None:
        return None
    root, wanted = pool.rule.root, pool.rule.device_class
    classes = [
        osd.device_class
        for osd in inventory.osds
        if osd.up
        and osd.is_in
        and any(place.name == root for place in osd.location)
        and wanted in (None, osd.device_class)
    ]
    if not classes or not set(classes) <= {"hdd", *_FLASH}:
        return None
    # A partial write of an erasure-coded object touches one data chunk and all coding chunks.
    copies = pool.size if pool.erasure is None else pool.erasure.m + 1
    return PoolMedia(
        pool=pool.name,
        hard_disks=classes.count("hdd"),
        flash=sum(device_class in _FLASH for device_class in classes),
        copies=copies,
        coded=pool.erasure is not None,
    )


def _trial_evidence(
    name: str,
    common: TrialEvidence,
    stored: StoredTrial | None,
    executions: dict[int, Execution],
) -> TrialEvidence:
    place = replace(common.place, trial=name)
    if stored is None:
        return replace(common, place=place)

    def read(ask: Callable[[], Record]) -> Record | FormatError:
        try:
            return ask()
        except FormatError as error:
            return error

    together = stored.together
    execution = None
    if together is not None:
        # The cached execution keeps `together` alive, so that its id stays unique.
        execution = executions.setdefault(id(together), Execution(output=together))
    return replace(
        common,
        place=place,
        record=stored.record,
        output=stored.output,
        execution=execution,
        windows=read(lambda: stored.iops_windows),
        cluster=read(lambda: _undisturbed(stored)),
        machines=read(lambda: stored.resources),
        stream=read(lambda: stored.zfs_stream),
        lifecycle=read(lambda: stored.volume_lifecycle),
    )


def _undisturbed(stored: StoredTrial) -> tuple[ClusterSample | MissedSample, ...]:
    """The samples of the cluster, in a drill those before its event. Raises FormatError."""
    begin = next((mark.at for mark in stored.drill if isinstance(mark, DrillMark)), None)
    # Times in UTC of one form sort as texts.
    return tuple(sample for sample in stored.cluster if begin is None or sample.at < begin)


def _first_samples(run: Run) -> Mapping[str, ClusterSample]:
    """The first sample of each Ceph cluster in the run, by its fsid."""
    found: dict[str, ClusterSample] = {}
    for trial in sorted(run.trials, key=lambda trial: trial.record.started_at):
        for sample in _if_readable(partial(getattr, trial, "cluster")) or ():
            if isinstance(sample, ClusterSample):
                found.setdefault(sample.status.fsid, sample)
                break
    return found


def _since_first_sample(
    trial: TrialEvidence, first_samples: Mapping[str, ClusterSample]
) -> TrialEvidence:
    samples = () if isinstance(trial.cluster, FormatError) else trial.cluster
    own = next((sample for sample in samples if isinstance(sample, ClusterSample)), None)
    first = first_samples.get(own.status.fsid) if own else None
    return trial if first is None or first == own else replace(trial, cluster_before=first)


def with_neighbours(run: RunEvidence) -> RunEvidence:
    """Return the run with facts that other results of the same target or workload prove."""
    held: dict[str, int] = {}
    impossible: dict[str, list[bool]] = {}
    random_reads: dict[str, dict[int, list[float]]] = {}
    for cell in run.cells:
        for trial in cell.trials:
            for job in trial.jobs:
                size = _size_in_memory(job)
                if size is not None:
                    held[trial.place.target] = max(size, held.get(trial.place.target, 0))
                alone = _random_read_alone(job)
                if alone is not None:
                    reads = random_reads.setdefault(trial.place.target, {})
                    reads.setdefault(alone[0], []).append(alone[1])
            share = share_is_impossible(trial)
            if share is not None:
                impossible.setdefault(cell.place.workload, []).append(share)
    apart = {
        workload
        for workload, found in impossible.items()
        if sum(found) >= 2 and 2 * sum(found) >= len(found)
    }
    if not held and not apart and not random_reads:
        return run
    medians = {
        target: {block: statistics.median(means) for block, means in reads.items()}
        for target, reads in random_reads.items()
    }

    def with_proof(trial: TrialEvidence, workload: str) -> TrialEvidence:
        return replace(
            trial,
            held_bytes=held.get(trial.place.target),
            phases_apart=workload in apart,
            random_read_s=medians.get(trial.place.target, {}),
        )

    cells = []
    for cell in run.cells:
        trials = tuple(with_proof(trial, cell.place.workload) for trial in cell.trials)
        cells.append(replace(cell, trials=trials))
    return replace(run, cells=tuple(cells))


def _random_read_alone(evidence: JobEvidence) -> tuple[int, float] | None:
    """Return block size and mean latency of direct random reads with one I/O in flight."""
    read, block = evidence.operation(Op.READ), evidence.block_size
    if evidence.pattern != "randread" or evidence.requested_depth != 1 or not block:
        return None
    mean = mean_s(read, evidence.job.options) if read and evidence.job.options.direct else None
    return (block, mean) if mean else None


def _size_in_memory(evidence: JobEvidence) -> int | None:
    """Size of a file whose random reads took less than storage can, on average: nearly all of them
    came from memory, so that memory held the whole file."""
    options = evidence.job.options
    size = options.size("size")
    if size is None or evidence.pattern != "randread" or evidence.merged_sections:
        return None
    read = evidence.operation(Op.READ)
    mean = mean_s(read, options) if read else None
    limit = fastest_read(evidence)
    if not mean or limit is None or mean * (1 + evidence.rounding(mean)) >= limit.seconds:
        return None
    return size
