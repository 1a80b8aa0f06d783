"""The layers of one trial, from the engine down, and the steps between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from leadline.analysis.layers.arithmetic import Step, steps_of
from leadline.analysis.layers.ceph import copies, image_flow, pool_flow
from leadline.analysis.layers.devices import device_flow
from leadline.analysis.layers.engine import engine_flow, engine_seconds
from leadline.analysis.layers.model import DIRECTIONS, Basis, LayerFlow
from leadline.analysis.layers.mounts import fuse_flow, nfs_flow
from leadline.analysis.layers.reading import Seen, seen_in
from leadline.analysis.layers.reasons import Evidence
from leadline.analysis.layers.windows import Window, late_s, stream_window, window_of
from leadline.analysis.layers.zfs import zfs_flow
from leadline.archive.reader import StoredTrial
from leadline.archive.records import Layer, LayerKind
from leadline.formats.host_counters import HostSample, Role
from leadline.metrics import Op
from leadline.plan.models import EngineChoice

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
