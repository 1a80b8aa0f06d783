"""The layers of one trial, from the engine down, and the steps between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from leadline.analysis.layers.ceph import PoolSamples, copies, image_flow, pool_flow
from leadline.analysis.layers.engine import engine_flow, engine_seconds
from leadline.analysis.layers.facts import Code, Fact, fact
from leadline.analysis.layers.kernel import BlockRequests, device_flow, fuse_flow, nfs_flow
from leadline.analysis.layers.model import DIRECTIONS, LayerFlow
from leadline.analysis.layers.steps import Evidence, Step, find_steps
from leadline.analysis.layers.windows import (
    Basis,
    Window,
    start_delay_s,
    stream_window,
    workload_window,
)
from leadline.analysis.layers.zfs import ZfsSamples, zfs_flow
from leadline.archive.trial import StoredTrial
from leadline.formats.ceph.counters import CounterSample, ImageSample, operation_sizes
from leadline.formats.json_lines import Missed
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
from leadline.plan.workload import EngineChoice

Record = TypeVar("Record")
_KSTATS = ("arcstats", "dmu_tx")
# Mount points of the operating system: other programs also use their devices.
_SYSTEM = frozenset({"/", "/home", "/opt", "/srv", "/tmp", "/usr", "/var", "/var/lib"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecords:
    """Records of a trial in addition to its result. `notes` are the unreadable ones."""

    machines: tuple[HostSample | MissedHostSample, ...]
    requests: Mapping[str, BlockRequests]
    zfs: ZfsSamples
    image: tuple[ImageSample | Missed, ...]
    pool: PoolSamples
    mounts: tuple[MountSample, ...]
    stream: StreamReport | None
    notes: tuple[Fact, ...]

    @property
    def client_samples(self) -> Sequence[HostSample]:
        """Samples of the load generator."""
        return [
            sample
            for sample in self.machines
            if isinstance(sample, HostSample) and Role.CLIENT in sample.roles
        ]

    @property
    def watched_s(self) -> float | None:
        """Seconds from the first to the last sample of the load generator."""
        moments = [sample.elapsed_s for sample in self.client_samples]
        return max(moments) - min(moments) if len(moments) > 1 else None

    @property
    def watch_began_at(self) -> float | None:
        """Start of the watches in seconds since 1970, by the load generator's first sample."""
        for sample in self.client_samples[:1]:
            try:
                return datetime.fromisoformat(sample.at).timestamp() - sample.elapsed_s
            except ValueError:
                return None
        return None


def read_records(trial: StoredTrial) -> TrialRecords:
    """Read every record of the trial once."""
    errors: dict[str, None] = {}

    def read(ask: Callable[[], Record], nothing: Record) -> Record:
        try:
            return ask()
        except FormatError as error:
            errors[error.fact] = None
            return nothing

    requests: Sequence[BlockSample | MissedBlock] = read(lambda: trial.block_requests, ())
    answers: Sequence[ZfsAnswer | MissedZfs] = read(lambda: trial.zfs, ())
    counters: tuple[CounterSample, ...] = read(lambda: trial.ceph_counters, ())
    missed = (sample.reason for sample in counters if isinstance(sample, Missed))
    zfs = _zfs_samples(read(lambda: trial.zpool_iostat, None), answers, errors)
    return TrialRecords(
        machines=read(lambda: trial.resources, ()),
        requests=_traced_requests(requests),
        zfs=zfs,
        image=read(lambda: trial.image_counters, ()),
        pool=PoolSamples(
            samples=counters, sizes=operation_sizes(counters), missed=tuple(dict.fromkeys(missed))
        ),
        mounts=read(lambda: trial.mount_counters, ()),
        stream=read(lambda: trial.zfs_stream, None),
        notes=tuple(fact(Code.RECORDED, text=error) for error in errors),
    )


def _traced_requests(samples: Sequence[BlockSample | MissedBlock]) -> Mapping[str, BlockRequests]:
    missed: dict[str, list[str]] = {}
    for sample in samples:
        if isinstance(sample, MissedBlock):
            missed.setdefault(sample.device, []).append(sample.reason)
    sizes = request_sizes(samples)
    all_devices = missed.pop("", [])
    return {
        name: BlockRequests(
            reads=sizes[name].reads if name in sizes else {},
            writes=sizes[name].writes if name in sizes else {},
            lost=sizes[name].lost if name in sizes else 0,
            missed=tuple(dict.fromkeys((*missed.get(name, ()), *all_devices))),
        )
        for name in sorted({*sizes, *missed})
    }


def _zfs_samples(
    report: IostatReport | None, answers: Sequence[ZfsAnswer | MissedZfs], errors: dict[str, None]
) -> ZfsSamples:
    requests: RequestSizes | None = None
    counters: dict[str, Mapping[str, int]] = {}
    groups: tuple[Txg, ...] = ()
    pools = dict.fromkeys(answer.pool for answer in answers if isinstance(answer, ZfsAnswer))
    for pool in pools:  # a target lies in one
        try:
            if both := first_and_last(answers, pool, "iostat -r -p"):
                requests = grown(*(parse_request_sizes(answer.text)[0] for answer in both))
            for name in _KSTATS:
                if both := first_and_last(answers, pool, f"kstat {name}"):
                    counters[name] = _kstat_growth(*(answer.text for answer in both))
            if both := first_and_last(answers, pool, "kstat txgs"):
                groups = _committed_groups(*(answer.text for answer in both)) or groups
        except (FormatError, ValueError) as error:
            errors[error.fact if isinstance(error, FormatError) else str(error)] = None
    # `zpool iostat` starts after the questions at the start and stops before those at the end.
    moments = {answer.elapsed_s for answer in answers}
    return ZfsSamples(
        report=report,
        requests=requests,
        counters=counters,
        groups=groups,
        watched_s=(min(moments), max(moments)) if len(moments) > 1 else None,
        missed=_missed_zfs(answers),
    )


def _missed_zfs(answers: Sequence[ZfsAnswer | MissedZfs]) -> tuple[Fact, ...]:
    """Causes of missing answers, each once; options that zfs-fuse refuses as one cause."""
    found = dict.fromkeys(
        (answer.asked or "ZFS", answer.reason)
        for answer in answers
        if isinstance(answer, MissedZfs)
    )
    refused = [pair for pair in found if "invalid option" in pair[1]]
    options = ", ".join(dict.fromkeys(reason[-2:-1] for _, reason in refused))
    one_cause = (fact(Code.ZPOOL_OPTIONS, options=options),) if len(refused) > 1 else ()
    rest = (pair for pair in found if not one_cause or pair not in refused)
    return (*one_cause, *(fact(Code.ZFS_MISSED, asked=asked, text=text) for asked, text in rest))


def _kstat_growth(first: str, last: str) -> dict[str, int]:
    """Growth of the counters of a kstat that did not shrink. Raises FormatError."""
    before, after = parse_kstat(first), parse_kstat(last)
    return {
        key: value - earlier
        for key, value in after.items()
        if isinstance(value, int)
        and isinstance(earlier := before.get(key), int)
        and value >= earlier
    }


def _committed_groups(first: str, last: str) -> tuple[Txg, ...]:
    """Transaction groups committed during the trial, as far as the module keeps them. Raises
    FormatError."""
    done = [group.txg for group in parse_txgs(first) if group.state is TxgState.COMMITTED]
    newest = max(done, default=-1)
    return tuple(
        group
        for group in parse_txgs(last)
        if group.state is TxgState.COMMITTED and group.txg > newest
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLayers:
    """`layers` begin with the engine. `copies` are OSD writes per client write, None if unknown.
    `notes` are unreadable records and peculiarities of the trial."""

    trial: StoredTrial
    layers: tuple[LayerFlow, ...]
    steps: tuple[Step, ...]
    windows: Mapping[Op, Window]
    recorded: TrialRecords
    evidence: Evidence
    copies: float | None
    notes: tuple[Fact, ...]

    @property
    def engine(self) -> LayerFlow:
        return self.layers[0]

    @property
    def main_op(self) -> Op | None:
        """The direction in which the engine moved most."""
        return max(self.engine.flows, key=self.engine.moved_bps, default=None)

    @property
    def throughput_bps(self) -> float:
        """The engine's bytes per second, both directions together."""
        return sum(self.engine.moved_bps(op) for op in self.engine.flows)


def trial_layers(trial: StoredTrial, stack: Sequence[Layer]) -> TrialLayers:
    """Return the layers of a trial. Never raises: unreadable records become notes."""
    recorded = read_records(trial)
    windows = _windows(trial, recorded)
    evidence = _evidence(trial, recorded)
    layers = (
        engine_flow(trial, windows, recorded.watched_s),
        *(_observe(layer, stack[:number], recorded, windows) for number, layer in enumerate(stack)),
    )
    notes = list(recorded.notes)
    if not windows:
        notes.append(fact(Code.NO_WINDOW))
    totals = any(window.basis is Basis.TOTALS for window in windows.values())
    if recorded.stream is not None and totals:
        notes.append(fact(Code.SHORT_STREAMS))
    return TrialLayers(
        trial=trial,
        layers=layers,
        steps=find_steps(layers, evidence),
        windows=windows,
        recorded=recorded,
        evidence=evidence,
        copies=copies(recorded.pool),
        notes=tuple(notes),
    )


def _windows(trial: StoredTrial, recorded: TrialRecords) -> Mapping[Op, Window]:
    if recorded.stream is not None:
        window = stream_window(recorded.stream, recorded.watch_began_at)
        return dict.fromkeys(DIRECTIONS, window)
    if trial.cell is None:
        return {}
    workload, seconds = trial.cell.workload, engine_seconds(trial)
    one_phase = len(workload.phases) < 2
    longest = max(seconds.values(), default=None) if one_phase else None
    late = start_delay_s(workload, recorded.watched_s or 0.0)
    found = {op: workload_window(workload, op, seconds.get(op, longest), late) for op in DIRECTIONS}
    return {op: window for op, window in found.items() if window is not None}


def _evidence(trial: StoredTrial, recorded: TrialRecords) -> Evidence:
    workload = trial.cell.workload if trial.cell else None
    phases = workload.phases if workload else ()
    arc = recorded.zfs.counters.get("arcstats", {})
    accesses = arc.get("hits", 0) + arc.get("misses", 0)
    return Evidence(
        # The I/O of a user's job file is unknown.
        direct=workload is not None and workload.direct and bool(phases),
        scattered=bool(phases) and all(phase.pattern.value.startswith("rand") for phase in phases),
        stream=workload is not None and workload.engine is EngineChoice.ZFS_STREAM,
        block_bytes=min((phase.block_size for phase in phases), default=None),
        fsyncs=any(phase.fsync for phase in phases),
        arc_hit_share=arc["hits"] / accesses if accesses and "hits" in arc else None,
    )


def _observe(
    layer: Layer, above: Sequence[Layer], recorded: TrialRecords, windows: Mapping[Op, Window]
) -> LayerFlow:
    match layer.kind:
        case LayerKind.ZFS:
            return zfs_flow(layer, recorded.zfs, windows)
        case LayerKind.FUSE:
            return fuse_flow(layer, recorded.mounts, windows)
        case LayerKind.NFS:
            return nfs_flow(layer, recorded.mounts, windows)
        case LayerKind.BLOCK:
            shared = _system_device(layer, above)
            return device_flow(layer, recorded.machines, windows, recorded.requests, shared)
        case LayerKind.IMAGE:
            return image_flow(layer, recorded.image, windows)
        case LayerKind.POOL:
            return pool_flow(layer, recorded.pool, windows)
        case LayerKind.FILESYSTEM:
            return LayerFlow(
                kind=layer.kind,
                name=layer.name,
                devices=layer.devices,
                facts=layer.facts,
                unobserved=fact(Code.FILESYSTEM_UNCOUNTED),
            )


def _system_device(device: Layer, above: Sequence[Layer]) -> Fact | None:
    """The cause if a device also carries the operating system's I/O."""
    for layer in reversed(above):
        mount_point = layer.facts.get("mount_point", "")
        if layer.kind is LayerKind.FILESYSTEM and mount_point in _SYSTEM:
            return fact(Code.SYSTEM_DEVICE, device=device.name, mount_point=mount_point)
        if layer.kind not in (LayerKind.FILESYSTEM, LayerKind.BLOCK):
            break
    return None
