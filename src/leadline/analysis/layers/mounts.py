"""Layers that keep counters of a mount: file systems of a process (FUSE), and NFS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.layers.model import Basis, Figure, Flow, LayerFlow
from leadline.analysis.layers.windows import Window
from leadline.archive.records import Layer
from leadline.formats.mount_counters import FuseSample, MissedMount, MountSample, NfsSample
from leadline.metrics import Op
from leadline.units import format_latency

FUSE_SOURCE = "/sys/fs/fuse/connections/N/waiting"
NFS_SOURCE = "/proc/self/mountstats"
_COMMIT = "COMMIT"
_OPERATIONS = {Op.READ: "READ", Op.WRITE: "WRITE"}


def fuse_flow(
    layer: Layer, samples: Sequence[MountSample], windows: Mapping[Op, Window]
) -> LayerFlow:
    """FUSE tells how many requests wait for its process, and nothing else."""
    inside = [
        one.waiting
        for one in samples
        if isinstance(one, FuseSample)
        and one.mount == layer.name
        and any(window.holds(one.elapsed_s) for window in windows.values())
    ]
    bases = {one.basis for one in windows.values()}
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        facts=layer.facts,
        basis=Basis.WINDOW if Basis.WINDOW in bases else next(iter(bases), Basis.TOTALS),
        in_flight=Figure.of(
            sum(inside) / len(inside) if inside else None, FUSE_SOURCE, "it was not sampled"
        ),
        unobserved=""
        if inside
        else _missed(layer, samples) or "its waiting requests were not sampled during the trial",
        notes=("FUSE counts neither its operations nor their bytes",) if inside else (),
    )


def nfs_flow(
    layer: Layer, samples: Sequence[MountSample], windows: Mapping[Op, Window]
) -> LayerFlow:
    """What the client asked of the server between the first and the last sample."""
    mine = [one for one in samples if isinstance(one, NfsSample) and one.mount == layer.name]
    flows = {}
    notes = []
    basis = Basis.TOTALS
    told = len(mine) > 1
    for op, window in windows.items() if told else ():
        basis, seconds = window.ends_only
        grown = _grown(mine[0], mine[-1], op)
        if grown.operations > 0:
            flows[op] = _direction(op, grown, seconds)
            notes.append(
                f"{_OPERATIONS[op]}: {format_latency(grown.queue_s / grown.operations)} in the "
                f"client's queue, {format_latency(grown.round_trip_s / grown.operations)} of round "
                "trip each"
            )
    notes += _commits(mine[0], mine[-1]) if Op.WRITE in flows else []
    known = [one.in_flight.value for one in flows.values() if one.in_flight.value is not None]
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=Figure.of(sum(known) if known else None, NFS_SOURCE, "no operation was counted"),
        unobserved=""
        if told
        else _missed(layer, samples) or "its counters were not read before and after the trial",
        notes=tuple(notes),
    )


def _commits(first: NfsSample, last: NfsSample) -> list[str]:
    """What writes wait for besides WRITE: the server's word that all is on stable storage. Of
    direct I/O the client asks for it behind each block of the engine."""
    now, before = last.operations.get(_COMMIT), first.operations.get(_COMMIT)
    count = now.operations - (before.operations if before else 0) if now else 0
    if now is None or count <= 0:
        return []
    took_s = (now.total_s - (before.total_s if before else 0.0)) / count
    return [f"{_COMMIT}: {count}, {format_latency(took_s)} each, on top of the WRITEs they follow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grown:
    operations: int
    moved_bytes: int
    queue_s: float
    round_trip_s: float
    total_s: float


def _grown(first: NfsSample, last: NfsSample, op: Op) -> _Grown:
    """Growth of one direction. What did not exist at first had done nothing."""
    name = _OPERATIONS[op]
    before, now = first.operations.get(name), last.operations.get(name)
    if now is None:
        return _Grown(operations=0, moved_bytes=0, queue_s=0.0, round_trip_s=0.0, total_s=0.0)
    moved = (
        last.bytes.server_read - first.bytes.server_read
        if op is Op.READ
        else last.bytes.server_written - first.bytes.server_written
    )
    return _Grown(
        operations=now.operations - (before.operations if before else 0),
        moved_bytes=max(0, moved),
        queue_s=now.queue_s - (before.queue_s if before else 0.0),
        round_trip_s=now.round_trip_s - (before.round_trip_s if before else 0.0),
        total_s=now.total_s - (before.total_s if before else 0.0),
    )


def _direction(op: Op, grown: _Grown, seconds: float) -> Flow:
    return Flow(
        op=op,
        rate=Figure(value=grown.operations / seconds, source=NFS_SOURCE),
        bandwidth=Figure(value=grown.moved_bytes / seconds, source=NFS_SOURCE),
        merged=Figure(absent="NFS does not count what it merges"),
        latency=Figure(value=grown.total_s / grown.operations, source=NFS_SOURCE),
        in_flight=Figure(value=grown.total_s / seconds, source=NFS_SOURCE),
        sizes_absent="NFS does not count sizes",
    )


def _missed(layer: Layer, samples: Sequence[MountSample]) -> str:
    reasons = (
        one.reason
        for one in samples
        if isinstance(one, MissedMount) and one.mount in ("", layer.name)
    )
    return next(reasons, "")
