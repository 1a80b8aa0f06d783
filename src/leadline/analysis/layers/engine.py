"""The top of every stack: what the engine did, by its own figures."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.analysis.layers.facts import Code, fact
from leadline.analysis.layers.model import (
    DIRECTIONS,
    Flow,
    LayerFlow,
    Sizes,
    add_in_flight,
    by_littles_law,
    measured,
    missing,
)
from leadline.analysis.layers.windows import Basis, Seconds, Window, start_delay_s
from leadline.archive.trial import StoredTrial
from leadline.formats.result import EngineOutput, Operation, summed
from leadline.metrics import Op
from leadline.plan.workload import Workload


def engine_flow(
    trial: StoredTrial, windows: Mapping[Op, Window], watched_s: float | None
) -> LayerFlow:
    """Return the engine's layer; without directions if its output is unreadable.

    `watched_s` is how long the machine was watched, None if it was not."""
    name = trial.record.engine
    output = trial.output
    if not isinstance(output, EngineOutput):
        return LayerFlow(kind=None, name=name, unobserved=fact(Code.RECORDED, text=output.fact))
    workload = trial.cell.workload if trial.cell else None
    operations = _by_direction(output)
    flows = {op: _flow(op, operation, name, workload) for op, operation in operations.items()}
    one_phase = workload is None or len(workload.phases) < 2
    bases = {window.basis for window in windows.values()}
    ramp = workload is not None and workload.ramp_s > 0
    absent = fact(Code.PHASES_DIFFER)
    return LayerFlow(
        kind=None,
        name=name,
        # Separate streams have seconds of their own, with a ramp or without.
        basis=Basis.WINDOW if ramp or Basis.WINDOW in bases else Basis.TOTALS,
        flows=flows,
        in_flight=add_in_flight(flows.values() if one_phase else (), absent),
        seconds=_seconds(workload, windows, watched_s) if workload else None,
    )


def _seconds(
    workload: Workload, windows: Mapping[Op, Window], watched_s: float | None
) -> Seconds | None:
    """The seconds of a single phase; several phases follow each other."""
    spans = {window.engine_spans for window in windows.values() if window.engine_spans}
    if len(spans) != 1:
        return None
    return Seconds(
        spans=spans.pop(),
        late_s=start_delay_s(workload, watched_s or 0.0),
        divided_by_s=workload.runtime_s,
    )


def engine_seconds(trial: StoredTrial) -> Mapping[Op, float]:
    """Return the seconds of each direction: its bytes divided by its bandwidth."""
    output = trial.output
    if not isinstance(output, EngineOutput):
        return {}
    found = {}
    for op, operation in _by_direction(output).items():
        seconds = operation.runtime_s or 0.0
        if operation.io_bytes and operation.bandwidth_bps:
            seconds = operation.io_bytes / operation.bandwidth_bps
        if seconds:
            found[op] = seconds
    return found


def _by_direction(output: EngineOutput) -> dict[Op, Operation]:
    """All jobs of one direction. Consecutive phases give their mean, weighted by their seconds."""
    jobs: dict[Op, dict[str, list[Operation]]] = {op: {} for op in DIRECTIONS}
    for job in output.jobs:
        for operation in job.operations:
            if operation.op in jobs and (operation.iops or operation.bandwidth_bps):
                jobs[operation.op].setdefault(job.name, []).append(operation)
    found = {}
    for op, by_name in jobs.items():
        phases = [summed(op, parts) for parts in by_name.values()]
        if phases:
            found[op] = phases[0] if len(phases) == 1 else _mean_of_phases(op, phases)
    return found


def _mean_of_phases(op: Op, phases: list[Operation]) -> Operation:
    seconds = sum(phase.runtime_s or 0.0 for phase in phases)
    ios = sum(phase.total_ios or 0 for phase in phases)
    moved = sum(phase.io_bytes or 0 for phase in phases)
    if not seconds or not moved:
        return Operation(op=op)
    pooled = summed(op, phases)
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


def _flow(op: Op, operation: Operation, name: str, workload: Workload | None) -> Flow:
    latency = operation.total or operation.completion
    rate = measured(operation.iops, name, fact(Code.NO_OPERATIONS, source=name))
    no_latency = fact(Code.NO_LATENCY, source=name)
    delay = measured(latency.mean_s if latency else None, name, no_latency)
    return Flow(
        op=op,
        rate=rate,
        bandwidth=measured(operation.bandwidth_bps, name, fact(Code.NO_BYTES, source=name)),
        merged=missing(Code.NO_MERGE_COUNT, source=name),
        latency=delay,
        in_flight=by_littles_law(rate, delay),
        sizes=_sizes(op, operation, workload),
        sizes_absent=fact(Code.NO_SINGLE_SIZE),
    )


def _sizes(op: Op, operation: Operation, workload: Workload | None) -> Sizes | None:
    """All requests have the size of the plan if its phases agree."""
    phases = [phase for phase in workload.phases if op in phase.pattern.ops] if workload else []
    sizes = {phase.block_size for phase in phases}
    if len(sizes) != 1 or not operation.total_ios:
        return None
    return Sizes(counts={sizes.pop(): operation.total_ios}, exact=True, source="the plan")
