"""The layers of one trial, from the engine down, and the steps between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from leadline.analysis.layers.ceph import PoolSeen, copies, image_flow, pool_flow
from leadline.analysis.layers.model import (
    DIRECTIONS,
    Basis,
    LayerFlow,
    Window,
    late_s,
    stream_window,
    window_of,
)
from leadline.analysis.layers.sources import (
    BlockRequests,
    device_flow,
    engine_flow,
    engine_seconds,
    fuse_flow,
    nfs_flow,
)
from leadline.analysis.layers.steps import Evidence, Step, steps_of
from leadline.analysis.layers.zfs import ZfsSeen, zfs_flow
from leadline.archive.reader import StoredTrial
from leadline.formats.ceph.counters import (
    CounterSample,
    ImageSample,
    MissedCounters,
    MissedImage,
    operation_sizes,
)
from leadline.formats.result import FormatError
from leadline.formats.watch_records import (
    BlockSample,
    HostSample,
    MissedBlock,
    MissedHostSample,
    MissedZfs,
    MountSample,
    Role,
    ZfsAnswer,
    first_and_last,
    request_sizes,
)
from leadline.formats.zfs.iostat import IostatReport
from leadline.formats.zfs.iostat_sizes import RequestSizes, grown, parse_request_sizes
from leadline.formats.zfs.kstat import Txg, TxgState, parse_kstat, parse_txgs
from leadline.formats.zfs.stream import StreamReport
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op
from leadline.plan.models import EngineChoice

# What was kept of a trial beside its result, as the layers need it.

Answer = TypeVar("Answer")
_KSTATS = ("arcstats", "dmu_tx")
_SIZES_ASKED = "iostat -r -p"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All of a trial. `notes` say what could not be read."""

    machines: tuple[HostSample | MissedHostSample, ...]
    requests: Mapping[str, BlockRequests]
    zfs: ZfsSeen
    image: tuple[ImageSample | MissedImage, ...]
    pool: PoolSeen
    mounts: tuple[MountSample, ...]
    stream: StreamReport | None
    notes: tuple[str, ...]


def seen_in(trial: StoredTrial) -> Seen:
    """Reads every record of the trial once."""
    notes: list[str] = []

    def read(ask: Callable[[], Answer], nothing: Answer) -> Answer:
        try:
            return ask()
        except FormatError as error:
            notes.append(error.fact)
            return nothing

    return Seen(
        machines=read(lambda: trial.resources, ()),
        requests=_requests(read(lambda: trial.block_requests, ())),
        zfs=_zfs(read(lambda: trial.zpool_iostat, None), read(lambda: trial.zfs, ()), notes),
        image=read(lambda: trial.image_counters, ()),
        pool=_pool(read(lambda: trial.ceph_counters, ())),
        mounts=read(lambda: trial.mount_counters, ()),
        stream=read(lambda: trial.zfs_stream, None),
        notes=tuple(dict.fromkeys(notes)),
    )


def _requests(samples: Sequence[BlockSample | MissedBlock]) -> Mapping[str, BlockRequests]:
    missed: dict[str, list[str]] = {}
    for one in samples:
        if isinstance(one, MissedBlock):
            missed.setdefault(one.device, []).append(one.reason)
    told = request_sizes(samples)
    everywhere = missed.pop("", [])
    return {
        name: BlockRequests(
            reads=told[name].reads if name in told else {},
            writes=told[name].writes if name in told else {},
            lost=told[name].lost if name in told else 0,
            missed=tuple(dict.fromkeys((*missed.get(name, ()), *everywhere))),
        )
        for name in {*told, *missed}
    }


def _pool(samples: tuple[CounterSample, ...]) -> PoolSeen:
    missed = (one.reason for one in samples if isinstance(one, MissedCounters))
    return PoolSeen(
        samples=samples, sizes=operation_sizes(samples), missed=tuple(dict.fromkeys(missed))
    )


def _zfs(
    report: IostatReport | None,
    answers: Sequence[ZfsAnswer | MissedZfs],
    notes: list[str],
) -> ZfsSeen:
    pools = dict.fromkeys(one.pool for one in answers if isinstance(one, ZfsAnswer))
    missed = [
        f"{one.asked or 'ZFS'}: {one.reason}" for one in answers if isinstance(one, MissedZfs)
    ]
    requests: RequestSizes | None = None
    counters: dict[str, dict[str, int]] = {}
    groups: tuple[Txg, ...] = ()
    for pool in pools:  # a target lies in one
        try:
            requests = _requests_between(answers, pool) or requests
            for name in _KSTATS:
                counters |= _counters_between(answers, pool, name)
            groups = _groups_between(answers, pool) or groups
        except (FormatError, ValueError) as error:
            notes.append(error.fact if isinstance(error, FormatError) else str(error))
    return ZfsSeen(
        report=report,
        requests=requests,
        counters=counters,
        groups=groups,
        watched_s=_reading_watched_s(answers),
        missed=_told_missing(missed),
    )


def _reading_watched_s(answers: Sequence[ZfsAnswer | MissedZfs]) -> tuple[float, float] | None:
    """Between which moments `zpool iostat` printed: it is begun behind the questions of the start,
    and ended before those of the end."""
    moments = [one.elapsed_s for one in answers]
    return (min(moments), max(moments)) if len(set(moments)) > 1 else None


def _told_missing(missed: Sequence[str]) -> tuple[str, ...]:
    """Each once; what zfs-fuse refuses as one."""
    found = dict.fromkeys(missed)
    refused = [one for one in found if "invalid option" in one]
    if len(refused) < 2:
        return tuple(found)
    options = ", ".join(dict.fromkeys(one[-2:-1] for one in refused))
    kept = [one for one in found if one not in refused]
    return (f"this `zpool iostat` has no options {options} (sizes, waits, queues)", *kept)


def _requests_between(answers: Sequence[ZfsAnswer | MissedZfs], pool: str) -> RequestSizes | None:
    """Raises FormatError or ValueError."""
    both = first_and_last(answers, pool, _SIZES_ASKED)
    if both is None:
        return None
    first, last = (parse_request_sizes(one.text)[0] for one in both)
    return grown(first, last)


def _counters_between(
    answers: Sequence[ZfsAnswer | MissedZfs], pool: str, name: str
) -> dict[str, dict[str, int]]:
    """Growth of a kstat's counters, of those that did not shrink. Raises FormatError."""
    both = first_and_last(answers, pool, f"kstat {name}")
    if both is None:
        return {}
    first, last = (parse_kstat(one.text).values for one in both)
    found = {}
    for key, now in last.items():
        before = first.get(key)
        if isinstance(now, int) and isinstance(before, int) and now >= before:
            found[key] = now - before
    return {name: found}


def _groups_between(answers: Sequence[ZfsAnswer | MissedZfs], pool: str) -> tuple[Txg, ...]:
    """Groups that were committed during the trial, as far as the module remembers them. Raises
    FormatError."""
    both = first_and_last(answers, pool, "kstat txgs")
    if both is None:
        return ()
    first, last = (parse_txgs(one.text) for one in both)
    done = {one.txg for one in first if one.state is TxgState.COMMITTED}
    oldest = max(done, default=-1)
    return tuple(one for one in last if one.state is TxgState.COMMITTED and one.txg > oldest)


# Where a system keeps itself: what else it does there is counted as well.
_SYSTEM = frozenset({"/", "/home", "/opt", "/srv", "/tmp", "/usr", "/var", "/var/lib"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLayers:
    """`layers` begin with the engine. `copies` are writes on OSDs for each of a client, None where
    nobody tells. `notes` say what could not be read, or is peculiar to this trial."""

    trial: StoredTrial
    layers: tuple[LayerFlow, ...]
    steps: tuple[Step, ...]
    windows: Mapping[Op, Window]
    seen: Seen
    evidence: Evidence
    copies: float | None
    notes: tuple[str, ...]

    @property
    def engine(self) -> LayerFlow:
        return self.layers[0]

    @property
    def main_op(self) -> Op | None:
        """The direction in which the engine moved most."""
        moved = {op: one.bandwidth.value or 0.0 for op, one in self.engine.flows.items()}
        return max(moved, key=lambda op: moved[op], default=None)


def trial_layers(trial: StoredTrial, stack: Sequence[Layer]) -> TrialLayers:
    """Never raises: what cannot be read is told in the layers and in the notes."""
    seen = seen_in(trial)
    windows = _windows(trial, seen)
    evidence = _evidence(trial, seen)
    layers = (
        engine_flow(trial, windows, _watched_s(seen)),
        *(_observed(layer, stack[:number], seen, windows) for number, layer in enumerate(stack)),
    )
    notes = list(seen.notes)
    if not windows:
        notes.append(
            "No seconds of the trial hold one direction alone, so that no layer below is told."
        )
    if seen.stream is not None and any(one.basis is Basis.TOTALS for one in windows.values()):
        notes.append(
            "The layers below also hold what lies between streams as short as these: the "
            "comparison of what was received, which reads, and its removal."
        )
    return TrialLayers(
        trial=trial,
        layers=layers,
        steps=steps_of(layers, evidence),
        windows=windows,
        seen=seen,
        evidence=evidence,
        copies=copies(seen.pool),
        notes=tuple(notes),
    )


def _windows(trial: StoredTrial, seen: Seen) -> Mapping[Op, Window]:
    if seen.stream is not None:
        window = stream_window(seen.stream, _watch_began_at(seen))
        return dict.fromkeys(DIRECTIONS, window)
    if trial.cell is None:
        return {}
    workload, seconds = trial.cell.workload, engine_seconds(trial)
    one_phase = len(workload.phases) < 2
    longest = max(seconds.values(), default=None) if one_phase else None
    late = late_s(workload, _watched_s(seen) or 0.0)
    found = {op: window_of(workload, op, seconds.get(op, longest), late) for op in DIRECTIONS}
    return {op: window for op, window in found.items() if window is not None}


def _watch_began_at(seen: Seen) -> float | None:
    """When the watches of the trial began, in seconds since 1970, by the first sample of the
    machine that made the load; None without."""
    for one in seen.machines:
        if isinstance(one, HostSample) and Role.CLIENT in one.roles:
            try:
                return datetime.fromisoformat(one.at).timestamp() - one.elapsed_s
            except ValueError:
                return None
    return None


def _watched_s(seen: Seen) -> float | None:
    """From the first to the last sample of the machine that made the load."""
    told = [
        one.elapsed_s
        for one in seen.machines
        if isinstance(one, HostSample) and Role.CLIENT in one.roles
    ]
    return max(told) - min(told) if len(told) > 1 else None


def _evidence(trial: StoredTrial, seen: Seen) -> Evidence:
    workload = trial.cell.workload if trial.cell else None
    phases = workload.phases if workload else ()
    arc = seen.zfs.counters.get("arcstats", {})
    asked = arc.get("hits", 0) + arc.get("misses", 0)
    return Evidence(
        # A job file's I/O is what its author wants it to be.
        direct=workload is not None and workload.direct and bool(phases),
        scattered=bool(phases) and all(one.pattern.value.startswith("rand") for one in phases),
        stream=workload is not None and workload.engine is EngineChoice.ZFS_STREAM,
        block_bytes=min((one.block_size for one in phases), default=None),
        fsyncs=any(one.fsync for one in phases),
        arc_hit_share=arc["hits"] / asked if asked and "hits" in arc else None,
    )


def _observed(
    layer: Layer, above: Sequence[Layer], seen: Seen, windows: Mapping[Op, Window]
) -> LayerFlow:
    match layer.kind:
        case LayerKind.ZFS:
            return zfs_flow(layer, seen.zfs, windows)
        case LayerKind.FUSE:
            return fuse_flow(layer, seen.mounts, windows)
        case LayerKind.NFS:
            return nfs_flow(layer, seen.mounts, windows)
        case LayerKind.BLOCK:
            shared = _others(layer, above)
            return device_flow(layer, seen.machines, windows, seen.requests, shared)
        case LayerKind.IMAGE:
            return image_flow(layer, seen.image, windows)
        case LayerKind.POOL:
            return pool_flow(layer, seen.pool, windows)
        case LayerKind.FILESYSTEM:
            return LayerFlow(
                kind=layer.kind,
                name=layer.name,
                devices=layer.devices,
                facts=layer.facts,
                unobserved="a file system keeps no counters of its own that are read",
            )


def _others(layer: Layer, above: Sequence[Layer]) -> str:
    """Why a device carries others' I/O, too; empty where nothing speaks for it."""
    for one in reversed(above):
        point = one.facts.get("mount_point", "")
        if one.kind is LayerKind.FILESYSTEM and point in _SYSTEM:
            return f"the device {layer.name} carries {point} of the machine, which others use"
        if one.kind not in (LayerKind.FILESYSTEM, LayerKind.BLOCK):
            break
    return ""
