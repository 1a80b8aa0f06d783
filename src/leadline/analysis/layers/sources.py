"""Block devices: counters of /proc/diskstats, and the sizes that the tracepoint saw.

Documentation/admin-guide/iostats.rst: requests are counted when they end, after merging; bytes in
sectors of 512; the times of all requests are added up, so that time over time is how many were in
flight (Little's law), and time over requests their latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.layers.model import (
    DIRECTIONS,
    Basis,
    Figure,
    Flow,
    Growth,
    LayerFlow,
    Sample,
    Seconds,
    Series,
    Sizes,
    Window,
    added,
    by_little,
    growth,
    late_s,
    seconds_of,
)
from leadline.archive.reader import StoredTrial
from leadline.formats.host_rates import by_machine
from leadline.formats.result import EngineOutput, Operation, summed
from leadline.formats.watch_records import (
    DiskCounters,
    FuseSample,
    HostSample,
    MissedMount,
    MountSample,
    NfsSample,
    Role,
)
from leadline.inventory.layer import Layer
from leadline.metrics import Op
from leadline.plan.models import Workload
from leadline.units import format_latency

SOURCE = "/proc/diskstats"
_TRACED = "block_rq_issue"
# The kernel counts milliseconds of disks in 32 bits.
_MS_WRAP = 1 << 32
_REQUESTS, _MERGED, _BYTES, _SPENT_MS = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRequests:
    """Requests issued to one device, by size in bytes, over all windows in which it was traced;
    `lost` is how many the tracer knows to have missed, `missed` why windows are not there."""

    reads: Mapping[int, int]
    writes: Mapping[int, int]
    lost: int
    missed: tuple[str, ...] = ()


def device_flow(
    layer: Layer,
    samples: Iterable[object],
    windows: Mapping[Op, Window],
    traced: Mapping[str, BlockRequests],
    shared: str,
) -> LayerFlow:
    """A block layer, all its devices together. `samples` are the machines' of the trial."""
    series = _series(samples, layer.devices)
    if series is None:
        return LayerFlow(
            kind=layer.kind,
            name=layer.name,
            devices=layer.devices,
            facts=layer.facts,
            unobserved=_why_not(layer.devices, samples),
        )
    flows = {}
    counted: dict[Op, Series] = {}
    basis = Basis.TOTALS
    weighted = 0.0
    covered = False
    for op, window in windows.items():
        samples_of_op = _counted(series, layer.devices, op)
        grown = growth(samples_of_op, window)
        if grown is None:
            continue
        covered, basis = True, grown.basis
        counted[op] = [(at_s, counts[_BYTES]) for at_s, counts in samples_of_op]
        weighted += grown.per_s(_SPENT_MS) / 1e3
        if grown.counts[_REQUESTS] or grown.counts[_BYTES]:
            flows[op] = _flow(op, grown, layer.devices, traced)
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        devices=layer.devices,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=Figure.of(
            weighted if covered and _same_seconds(windows) else None,
            SOURCE,
            "reads and writes were done one after the other, or no counters came",
        ),
        shared=shared,
        unobserved="" if covered else "its counters went backwards, or no sample fell in",
        seconds=seconds_of(windows, basis),
        counted=counted,
    )


def _same_seconds(windows: Mapping[Op, Window]) -> bool:
    return len({(one.spans, one.seconds) for one in windows.values()}) == 1


def _series(samples: Iterable[object], devices: Sequence[str]) -> Sequence[HostSample] | None:
    """The samples of the machine that made the load, where it has all of the devices."""
    if not devices:
        return None
    told = [one for one in samples if isinstance(one, HostSample)]
    for series in by_machine(told).values():
        if (
            len(series) > 1
            and Role.CLIENT in series[0].roles
            and all(name in series[-1].disks for name in devices)
        ):
            return series
    return None


def _why_not(devices: Sequence[str], samples: Iterable[object]) -> str:
    if not devices:
        return "its devices are not known"
    if not any(isinstance(one, HostSample) for one in samples):
        return "no machine was sampled during the trial"
    return f"the samples have no counters of {' or '.join(devices)}"


def _counted(series: Sequence[HostSample], devices: Sequence[str], op: Op) -> list[Sample]:
    """All devices added up: requests, merged, bytes, and milliseconds spent."""
    # A device that had done nothing yet is not in the first samples.
    nothing = DiskCounters(**dict.fromkeys(DiskCounters.__dataclass_fields__, 0))
    found: list[Sample] = []
    wrapped_ms = dict.fromkeys(devices, 0)
    last_ms = dict.fromkeys(devices, 0)
    for sample in series:
        total = [0.0] * 4
        for name in devices:
            disk = sample.disks.get(name, nothing)
            counted = (
                (disk.reads, disk.reads_merged, disk.read_bytes, disk.read_ms)
                if op is Op.READ
                else (disk.writes, disk.writes_merged, disk.write_bytes, disk.write_ms)
            )
            if counted[_SPENT_MS] < last_ms[name]:
                wrapped_ms[name] += _MS_WRAP
            last_ms[name] = counted[_SPENT_MS]
            total = [sum_ + one for sum_, one in zip(total, counted, strict=True)]
            total[_SPENT_MS] += wrapped_ms[name]
        found.append((sample.elapsed_s, tuple(total)))
    return found


def _flow(
    op: Op,
    grown: Growth,
    devices: Sequence[str],
    traced: Mapping[str, BlockRequests],
) -> Flow:
    requests = grown.counts[_REQUESTS]
    spent_s = grown.counts[_SPENT_MS] / 1e3
    return Flow(
        op=op,
        rate=Figure(value=grown.per_s(_REQUESTS), source=SOURCE),
        bandwidth=Figure(value=grown.per_s(_BYTES), source=SOURCE),
        merged=Figure(value=grown.per_s(_MERGED), source=SOURCE),
        latency=Figure.of(spent_s / requests if requests else None, SOURCE, "no request ended"),
        in_flight=Figure(value=spent_s / grown.seconds, source=SOURCE),
        sizes=_sizes(op, devices, traced),
        sizes_absent="; ".join(
            dict.fromkeys(why for name in devices if name in traced for why in traced[name].missed)
        )
        or "requests were not traced by size",
    )


def _sizes(op: Op, devices: Sequence[str], traced: Mapping[str, BlockRequests]) -> Sizes | None:
    seen = [traced[name] for name in devices if name in traced]
    counts = added([one.reads if op is Op.READ else one.writes for one in seen])
    if not any(counts.values()):
        return None
    lost = sum(one.lost for one in seen)
    return Sizes(counts=counts, exact=True, source=_TRACED, lost=lost)


# Layers that keep counters of a mount: file systems of a process (FUSE), and NFS.

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


# The top of every stack: what the engine did, by its own figures.


def engine_flow(
    trial: StoredTrial, windows: Mapping[Op, Window], watched_s: float | None
) -> LayerFlow:
    """The engine's layer of a trial; without directions where its output cannot be read.
    `watched_s`: how long the machine was watched, None where it was not."""
    name = trial.record.engine
    output = trial.output
    if not isinstance(output, EngineOutput):
        return LayerFlow(kind=None, name=name, unobserved=output.fact)
    workload = trial.cell.workload if trial.cell else None
    done = _by_op(output)
    flows = {op: _engine_flow(op, one, name, workload) for op, one in done.items()}
    known = [one.in_flight.value for one in flows.values() if one.in_flight.value is not None]
    together = workload is None or len(workload.phases) < 2
    whole = sum(known) if known and together and len(known) == len(flows) else None
    return LayerFlow(
        kind=None,
        name=name,
        basis=_basis(workload, windows),
        flows=flows,
        in_flight=Figure.of(
            whole, "rate x latency", "the engine measures no latency, or its phases differ"
        ),
        seconds=_seconds(workload, windows, watched_s) if workload else None,
    )


def _basis(workload: Workload | None, windows: Mapping[Op, Window]) -> Basis:
    """Of streams that are told apart it is their own seconds, with a ramp or without."""
    bases = {one.basis for one in windows.values()}
    behind_ramp = workload is not None and workload.ramp_s > 0
    return Basis.WINDOW if behind_ramp or Basis.WINDOW in bases else Basis.TOTALS


def _seconds(
    workload: Workload, windows: Mapping[Op, Window], watched_s: float | None
) -> Seconds | None:
    """Of one phase: those of several lie behind each other."""
    spans = {one.engine_spans for one in windows.values() if one.engine_spans}
    if len(spans) != 1:
        return None
    return Seconds(
        spans=spans.pop(),
        late_s=late_s(workload, watched_s or 0.0),
        divided_by_s=workload.runtime_s,
    )


def engine_seconds(trial: StoredTrial) -> Mapping[Op, float]:
    """By direction the seconds in which the engine did it: its bytes over its bandwidth."""
    output = trial.output
    if not isinstance(output, EngineOutput):
        return {}
    return {
        op: one.io_bytes / one.bandwidth_bps if one.io_bytes and one.bandwidth_bps else runtime_s
        for op, one in _by_op(output).items()
        if (runtime_s := one.runtime_s or 0.0) or (one.io_bytes and one.bandwidth_bps)
    }


def _by_op(output: EngineOutput) -> dict[Op, Operation]:
    """All jobs of one direction as one. Phases that do the same direction one after the other are
    their mean, weighted by their seconds."""
    parts: dict[Op, dict[str, list[Operation]]] = {op: {} for op in DIRECTIONS}
    for job in output.jobs:
        for one in job.operations:
            if one.op in parts and (one.iops or one.bandwidth_bps):
                parts[one.op].setdefault(job.name, []).append(one)
    found = {}
    for op, jobs in parts.items():
        merged = [summed(op, together) for together in jobs.values()]
        if len(merged) == 1:
            found[op] = merged[0]
        elif merged:
            found[op] = _one_after_the_other(op, merged)
    return found


def _one_after_the_other(op: Op, phases: list[Operation]) -> Operation:
    seconds = sum(one.runtime_s or 0.0 for one in phases)
    ios = sum(one.total_ios or 0 for one in phases)
    moved = sum(one.io_bytes or 0 for one in phases)
    pooled = summed(op, phases)
    if not seconds or not moved:
        return Operation(op=op)
    return Operation(
        op=op,
        iops=ios / seconds,
        bandwidth_bps=moved / seconds,
        total_ios=ios,
        io_bytes=moved,
        runtime_s=seconds,
        total=pooled.total,
        completion=pooled.completion,
    )


def _engine_flow(op: Op, one: Operation, name: str, workload: Workload | None) -> Flow:
    latency = one.total or one.completion
    rate = Figure.of(one.iops, name, f"{name} counts no operations")
    delay = Figure.of(latency.mean_s if latency else None, name, f"{name} measures no latency")
    return Flow(
        op=op,
        rate=rate,
        bandwidth=Figure.of(one.bandwidth_bps, name, f"{name} tells no bytes"),
        merged=Figure(absent="an engine merges nothing"),
        latency=delay,
        in_flight=by_little(rate, delay),
        sizes=_engine_sizes(op, one, workload),
        sizes_absent="the size of a request is not a setting of this workload",
    )


def _engine_sizes(op: Op, one: Operation, workload: Workload | None) -> Sizes | None:
    """All requests of an engine have the size that the plan sets, where its phases agree."""
    phases = [phase for phase in workload.phases if op in phase.pattern.ops] if workload else []
    blocks = {phase.block_size for phase in phases}
    if len(blocks) != 1 or not one.total_ios:
        return None
    return Sizes(counts={blocks.pop(): one.total_ios}, exact=True, source="the plan")
